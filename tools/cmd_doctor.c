/* SPDX-License-Identifier: MIT
 *
 * tolk-jit devices, and tolk-jit doctor: what is there to run on and what is wrong.
 */
#include "tool.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int print_device(tolk_ctx *ctx, tolk_device *device, int json) {
    char *info;
    size_t len;
    tolk_status st = tolk_device_debug_info(device, &info, &len);
    if (st)
        return tk_report_error(NULL, st, NULL);
    if (json) {
        tk_json_text(stdout, info, len);
    } else {
        printf("%s\n", tolk_device_name(device));
        tk_json_print_flat(stdout, info, len);
    }
    tolk_free_text(ctx, info);
    return TOOL_DONE;
}

int tk_cmd_devices(int argc, char **argv) {
    static tk_list words; /* large */
    int json = 0;
    const tk_flag flags[] = {{"--json", TK_FLAG_BOOL, &json}};
    int code = tk_flags_read(argc, argv, flags, 1, &words, 0);
    if (code)
        return code;
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    if (json)
        putchar('[');
    static tolk_device *list[1024];
    size_t n = 0;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_device_list(ctx, NULL, list, 1024, &n, &err);
    if (st)
        code = tk_report_error(NULL, st, &err);
    for (size_t i = 0; i < n && i < 1024 && !code; i++) {
        if (json && i)
            fputs(", ", stdout);
        code = print_device(ctx, list[i], json);
    }
    if (json)
        puts("]");
    tk_report_context_end(ctx);
    return code;
}

/* ---- doctor ---- */

typedef struct cuda_driver {
    int found, version; /* version: 12040 is 12.4; 0 if the driver would not say */
    char why[256];      /* it was not found */
} cuda_driver;

static cuda_driver find_cuda(void) {
    cuda_driver d = {0};
    void *lib = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!lib) {
        const char *why = dlerror();
        snprintf(d.why, sizeof d.why, "%s", why ? why : "libcuda.so.1 cannot be opened");
        return d;
    }
    d.found = 1;
    int (*get_version)(int *);
    void *symbol = dlsym(lib, "cuDriverGetVersion");
    memcpy(&get_version, &symbol, sizeof symbol);
    if (!get_version || get_version(&d.version))
        d.version = 0;
    dlclose(lib);
    return d;
}

/* What is wrong, each once. */
typedef struct problems {
    char text[32][700];
    size_t n;
} problems;

static void add_problem(problems *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_problem(problems *p, const char *fmt, ...) {
    char text[sizeof *p->text];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(p->text[i], text))
            return;
    if (p->n < sizeof p->text / sizeof *p->text)
        memcpy(p->text[p->n++], text, sizeof text);
}

static int has_problem(const problems *p, const char *start) {
    for (size_t i = 0; i < p->n; i++)
        if (!strncmp(p->text[i], start, strlen(start)))
            return 1;
    return 0;
}

/* Of the log: what the library finds wrong with variables and directories. */
static void on_log(void *user, tolk_log_level level, const char *text) {
    if (level <= TOLK_LOG_WARNING)
        add_problem(user, "%s", text);
}

typedef struct disk_cache {
    char dir[PATH_MAX + 1]; /* "": none; a longer path is cut, and too long still */
    uint64_t entries, bytes, free_bytes;
    int writable;
} disk_cache;

/* The directory that the library would make (docs/environment.md). */
static void wanted_dir(disk_cache *c) {
    const char *dir = getenv("TOLK_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    if (dir && dir[0])
        snprintf(c->dir, sizeof c->dir, "%s", dir);
    else if (xdg && xdg[0] == '/')
        snprintf(c->dir, sizeof c->dir, "%s/tolk", xdg);
    else if (home && home[0] == '/')
        snprintf(c->dir, sizeof c->dir, "%s/.cache/tolk", home);
}

static int is_missing(const char *path) {
    return access(path, F_OK) && errno == ENOENT;
}

/* Why the library refused the directory. Of one that others may write to, its log says so. */
static void explain_refusal(const char *dir, problems *p) {
    struct stat st;
    int error = stat(dir, &st) ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (error)
        add_problem(p, "the cache directory %.400s is not used: %s", dir, strerror(error));
}

/* Could a directory that is missing be made? Tried with one of another name, which goes at once. */
static int can_be_made(const char *dir) {
    char parent[PATH_MAX + 32];
    snprintf(parent, sizeof parent, "%.4095s", dir);
    do {
        char *slash = strrchr(parent, '/');
        if (!slash) {
            strcpy(parent, ".");
            break;
        }
        slash[slash == parent] = 0;
    } while (parent[1] && is_missing(parent));
    strcat(parent, "/.tolk-doctor-XXXXXX");
    return mkdtemp(parent) && !rmdir(parent);
}

static void check_cache(disk_cache *c, problems *p) {
    enum { LOW_BYTES = 16 << 20 };
    struct statvfs fs;
    if (!c->dir[0])
        return; /* the library says so */
    if (is_missing(c->dir)) {
        c->writable = can_be_made(c->dir);
        if (!c->writable)
            add_problem(p, "the cache directory %.400s cannot be made: %s", c->dir,
                        strerror(errno));
        return;
    }
    c->writable = !access(c->dir, W_OK | X_OK);
    if (!c->writable) {
        add_problem(p, "the cache directory %.400s cannot be written: %s", c->dir, strerror(errno));
    } else if (!statvfs(c->dir, &fs)) {
        c->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        if (c->free_bytes < LOW_BYTES)
            add_problem(p,
                        "the disk of the cache directory %.400s is full or nearly: %" PRIu64
                        " bytes left",
                        c->dir, c->free_bytes);
    }
}

/* Does a kernel compile and run here, with the CPU that TOLK_CPU asks for? */
static void check_kernel(tolk_ctx_opts opts, problems *p) {
    static const char text[] = "tolk.uop 1\n"
                               "%0 = param f32 {slot=0, name=\"y\"}\n"
                               "%1 = index f32 (%0)\n"
                               "%2 = const f32 1\n"
                               "%3 = store void (%1, %2)\n"
                               "%4 = sink void (%3) {name=\"doctor\"}\n";
    tolk_ctx *ctx = NULL;
    tolk_graph *g = NULL;
    const tolk_uop *kernel;
    tolk_device *device;
    tolk_program *program = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    float y = 0;
    void *buf = &y;
    size_t bytes = sizeof y;
    opts.no_disk_cache = 1; /* compiled now, and nothing is left behind */
    tolk_status st = tolk_ctx_create(&opts, &ctx, &err);
    if (!st)
        st = tolk_graph_create(ctx, &g);
    if (!st)
        st = tolk_parse(g, text, strlen(text), 0, &kernel, &err);
    if (!st)
        st = tolk_device_open(ctx, "CPU", &device, &err);
    if (!st)
        st = tolk_compile(device, kernel, NULL, &program, &err);
    if (!st)
        st = tolk_launch(program, &buf, &bytes, 1, NULL, 0, &err);
    const char *cpu = getenv("TOLK_CPU");
    if (st)
        add_problem(p, "a small kernel does not run%s%.100s%s: %s",
                    cpu && cpu[0] ? " with TOLK_CPU=\"" : "", cpu ? cpu : "",
                    cpu && cpu[0] ? "\"" : "", err.msg[0] ? err.msg : tolk_status_text(st));
    else if (y != 1)
        add_problem(p, "a small kernel gives %g, expected 1", (double)y);
    tolk_program_unref(program);
    tolk_graph_destroy(g);
    tolk_ctx_destroy(ctx);
}

/* Variables that only look like ours: nothing reads them. */
static void check_names(problems *p) {
    static const char *const known[] = {
        "TOLK_CPU=",           "TOLK_THREADS=", "TOLK_DEBUG=",          "TOLK_CACHE_DIR=",
        "TOLK_DUMP=",          "TOLK_REPRO=",   "TOLK_PERF=",           "TOLK_GDB=",
        "TOLK_TIER=",          "TOLK_TEST_",    "TOLK_FUZZ_",           "TOLK_JIT=",
        "TOLK_CPU_DEVICES=",   "TOLK_SPIN_US=", "TOLK_FREELIST_BYTES=", "TOLK_MEMORY_PLAN=",
        "TOLK_SCHEDULE_CACHE="};
    for (char **v = environ; *v; v++) {
        size_t k = 0, n = sizeof known / sizeof *known;
        while (k < n && strncmp(*v, known[k], strlen(known[k])))
            k++;
        if (k == n && !strncmp(*v, "TOLK_", 5))
            add_problem(p,
                        "%.*s is set, but nothing reads it: expected a name that "
                        "docs/environment.md lists",
                        (int)(strcspn(*v, "=") < 60 ? strcspn(*v, "=") : 60), *v);
    }
}

static void print_doctor_json(const char *info, size_t len, const disk_cache *c,
                              const cuda_driver *cuda, const problems *p) {
    printf("{\"library\": ");
    tk_json_text(stdout, info, len);
    printf(", \"disk_cache\": {\"dir\": ");
    if (c->dir[0])
        tk_json_string(stdout, c->dir);
    else
        printf("null");
    printf(", \"writable\": %s, \"entries\": %" PRIu64 ", \"bytes\": %" PRIu64
           ", \"free_bytes\": %" PRIu64 "}, \"cuda_driver\": {\"found\": %s, \"version\": %d, "
           "\"why\": ",
           c->writable ? "true" : "false", c->entries, c->bytes, c->free_bytes,
           cuda->found ? "true" : "false", cuda->version);
    tk_json_string(stdout, cuda->why);
    printf("}, \"problems\": [");
    for (size_t i = 0; i < p->n; i++) {
        fputs(i ? ", " : "", stdout);
        tk_json_string(stdout, p->text[i]);
    }
    printf("]}\n");
}

static void print_doctor_text(const char *info, size_t len, const disk_cache *c,
                              const cuda_driver *cuda, const problems *p) {
    printf("library\n");
    size_t listed = tk_json_print_flat(stdout, info, len);
    printf("disk cache\n");
    if (c->dir[0])
        printf("  %-20s %s\n  %-20s %s\n  %-20s %" PRIu64 "\n  %-20s %" PRIu64 "\n", "directory",
               c->dir, "writable", c->writable ? "yes" : "no", "entries", c->entries, "bytes",
               c->bytes);
    else
        printf("  none\n");
    printf("CUDA driver\n");
    if (cuda->found && cuda->version)
        printf("  found, for CUDA %d.%d (this version of tolk has no CUDA device)\n",
               cuda->version / 1000, cuda->version % 1000 / 10);
    else if (cuda->found)
        printf("  found, but it does not say its version\n");
    else
        printf("  not found: %s\n", cuda->why);
    printf("problems\n");
    /* Of a directory that was refused, it was said why: that there is none is no second problem. */
    if (!has_problem(p, "cache directory \"") && !has_problem(p, "the cache directory "))
        tk_json_print_problems(stdout, "  ", info, len);
    for (size_t i = 0; i < p->n; i++)
        printf("  %s\n", p->text[i]);
    if (!p->n && !listed)
        printf("  none\n");
}

int tk_cmd_doctor(int argc, char **argv) {
    static tk_list words; /* large */
    int json = 0;
    const tk_flag flags[] = {{"--json", TK_FLAG_BOOL, &json}};
    int code = tk_flags_read(argc, argv, flags, 1, &words, 0);
    if (code)
        return code;
    static problems found;
    static disk_cache cache;
    found.n = 0;
    memset(&cache, 0, sizeof cache);
    wanted_dir(&cache);
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.log = on_log;
    opts.log_user = &found;
    /* The library would make the directory to look into it. */
    opts.no_disk_cache = cache.dir[0] && is_missing(cache.dir);
    tolk_ctx *ctx;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_ctx_create(&opts, &ctx, &err);
    if (st)
        return tk_report_error(NULL, st, &err);
    char *info;
    size_t len;
    tolk_cache_stats stats;
    st = tolk_debug_info(ctx, NULL, &info, &len);
    if (st) {
        code = tk_report_error(NULL, st, NULL);
    } else {
        if (!tolk_cache_get_stats(ctx, &stats)) {
            cache.entries = stats.disk_entries;
            cache.bytes = stats.disk_bytes;
            if (cache.dir[0] && !stats.disk_dir[0] && !opts.no_disk_cache) {
                explain_refusal(cache.dir, &found);
                cache.dir[0] = 0;
            }
        }
        check_cache(&cache, &found);
        check_kernel(opts, &found);
        check_names(&found);
        cuda_driver cuda = find_cuda();
        if (json)
            print_doctor_json(info, len, &cache, &cuda, &found);
        else
            print_doctor_text(info, len, &cache, &cuda, &found);
        tolk_free_text(ctx, info);
    }
    tolk_ctx_destroy(ctx);
    return code;
}
