/* SPDX-License-Identifier: MIT
 *
 * tolk-jit devices, and tolk-jit doctor: what is there to run on and what is wrong.
 */
#include "tool.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int print_device(tolk_ctx *ctx, size_t i, int json) {
    char name[32];
    tolk_device *device;
    tolk_error err = TOLK_ERROR_INIT;
    snprintf(name, sizeof name, "CPU:%zu", i);
    tolk_status st = tolk_device_open(ctx, name, &device, &err);
    char *info;
    size_t len;
    if (!st)
        st = tolk_device_debug_info(device, &info, &len);
    if (st)
        return tk_report_error(NULL, st, &err);
    if (json) {
        fwrite(info, 1, len, stdout);
    } else {
        printf("%s\n", tolk_device_name(device));
        tk_json_print_flat(stdout, info, len);
    }
    tolk_free_text(ctx, info);
    return TOOL_DONE;
}

int tk_cmd_devices(int argc, char **argv) {
    static tk_list words;
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
    for (size_t i = 0; i < tolk_device_count(ctx) && !code; i++) {
        if (json && i)
            fputs(", ", stdout);
        code = print_device(ctx, i, json);
    }
    if (json)
        puts("]");
    tolk_ctx_destroy(ctx);
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

typedef struct disk_cache {
    tolk_cache_stats stats;
    int writable;
    uint64_t free_bytes;
    char problem[700]; /* "" if all is well */
} disk_cache;

static disk_cache find_cache(tolk_ctx *ctx) {
    disk_cache c = {0};
    enum { LOW_BYTES = 16 << 20 };
    if (tolk_cache_get_stats(ctx, &c.stats))
        c.stats.disk_dir[0] = 0;
    const char *dir = c.stats.disk_dir;
    struct statvfs fs;
    if (!dir[0]) {
        snprintf(c.problem, sizeof c.problem,
                 "no disk cache: each process compiles its kernels anew (set TOLK_CACHE_DIR, "
                 "XDG_CACHE_HOME or HOME to a directory of yours)");
    } else if (access(dir, F_OK) && errno == ENOENT) {
        c.writable = 1; /* made by the first compile */
    } else if (access(dir, W_OK | X_OK)) {
        snprintf(c.problem, sizeof c.problem, "the cache directory %.400s cannot be written: %s",
                 dir, strerror(errno));
    } else {
        c.writable = 1;
        if (!statvfs(dir, &fs)) {
            c.free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
            if (c.free_bytes < LOW_BYTES)
                snprintf(c.problem, sizeof c.problem,
                         "the disk of the cache directory %.400s is full or nearly: %" PRIu64
                         " bytes left",
                         dir, c.free_bytes);
        }
    }
    return c;
}

static void print_doctor_json(const char *info, size_t len, const disk_cache *c,
                              const cuda_driver *cuda) {
    printf("{\"library\": ");
    fwrite(info, 1, len, stdout);
    printf(", \"disk_cache\": {\"dir\": ");
    if (c->stats.disk_dir[0])
        tk_json_string(stdout, c->stats.disk_dir);
    else
        printf("null");
    printf(", \"writable\": %s, \"entries\": %" PRIu64 ", \"bytes\": %" PRIu64
           ", \"free_bytes\": %" PRIu64 "}, \"cuda_driver\": {\"found\": %s, \"version\": %d, "
           "\"why\": ",
           c->writable ? "true" : "false", c->stats.disk_entries, c->stats.disk_bytes,
           c->free_bytes, cuda->found ? "true" : "false", cuda->version);
    tk_json_string(stdout, cuda->why);
    printf("}, \"problems\": [");
    if (c->problem[0])
        tk_json_string(stdout, c->problem);
    printf("]}\n");
}

static void print_doctor_text(const char *info, size_t len, const disk_cache *c,
                              const cuda_driver *cuda) {
    printf("library\n");
    size_t problems = tk_json_print_flat(stdout, info, len);
    printf("disk cache\n");
    if (c->stats.disk_dir[0])
        printf("  %-20s %s\n  %-20s %s\n  %-20s %" PRIu64 "\n  %-20s %" PRIu64 "\n", "directory",
               c->stats.disk_dir, "writable", c->writable ? "yes" : "no", "entries",
               c->stats.disk_entries, "bytes", c->stats.disk_bytes);
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
    tk_json_print_problems(stdout, "  ", info, len);
    if (c->problem[0])
        printf("  %s\n", c->problem);
    else if (!problems)
        printf("  none\n");
}

int tk_cmd_doctor(int argc, char **argv) {
    static tk_list words;
    int json = 0;
    const tk_flag flags[] = {{"--json", TK_FLAG_BOOL, &json}};
    int code = tk_flags_read(argc, argv, flags, 1, &words, 0);
    if (code)
        return code;
    tolk_ctx *ctx = tk_report_context();
    if (!ctx)
        return TOOL_FAILED;
    char *info;
    size_t len;
    tolk_status st = tolk_debug_info(ctx, &info, &len);
    if (st) {
        code = tk_report_error(NULL, st, NULL);
    } else {
        disk_cache cache = find_cache(ctx);
        cuda_driver cuda = find_cuda();
        if (json)
            print_doctor_json(info, len, &cache, &cuda);
        else
            print_doctor_text(info, len, &cache, &cuda);
        tolk_free_text(ctx, info);
    }
    tolk_ctx_destroy(ctx);
    return code;
}
