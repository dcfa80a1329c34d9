/* SPDX-License-Identifier: MIT
 *
 * TOLK_REPRO: the kernel of a compilation that fails or ends the process stays in a file, others
 * leave nothing; and the record of compilations that a context keeps.
 */
#include "support/runtime.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>

static rt r;
static char *dir;

static int setup(void **state) {
    (void)state;
    dir = rt_mkdir();
    setenv("TOLK_REPRO", dir, 1);
    rt_open(&r, NULL, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    unsetenv("TOLK_REPRO");
    rt_rmdir(dir);
    return 0;
}

/* Files in `dir`; the text of the last one found goes to text. */
static int files(char *text, size_t bytes) {
    DIR *d = opendir(dir);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[1024];
        if (e->d_name[0] == '.')
            continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        FILE *f = fopen(path, "r");
        assert_non_null(f);
        text[fread(text, 1, bytes - 1, f)] = 0;
        fclose(f);
    }
    closedir(d);
    return n;
}

static void remove_files(void) {
    char *again = strdup(dir);
    rt_rmdir(again);
    assert_int_equal(mkdir(dir, 0700), 0);
}

static void test_compiled_kernels_leave_nothing(void **state) {
    (void)state;
    char text[8192];
    tolk_program_unref(rt_compile(&r, rt_text(RT_SCALE, 100, "2")));
    assert_int_equal(files(text, sizeof text), 0);
}

static void test_failed_kernel_stays_with_its_settings(void **state) {
    (void)state;
    char text[8192];
    tolk_program *p;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.opts = "LANE:7:4 \"\\\x01";
    opts.target = "x86-64";
    opts.bounds = TOLK_BOUNDS_TRUST;
    opts.strict = 1;
    opts.tier = TOLK_TIER_QUICK;
    const char *kernel = rt_text(RT_SCALE, 100, "2");
    assert_int_equal(rt_try(&r, kernel, &opts, &p, &err), TOLK_E_ARG);
    assert_int_equal(files(text, sizeof text), 1);
    assert_non_null(strstr(r.log, dir)); /* the warning says where */
    assert_int_equal(strncmp(text, "tolk.uop 1\n", 11), 0);
    assert_non_null(strstr(text, "\n; tolk-repro target=\"x86-64\"\n"));
    assert_non_null(strstr(text, "\n; tolk-repro opts=\"LANE:7:4 \\\"\\\\\\u0001\"\n"));
    assert_non_null(strstr(text, "\n; tolk-repro bounds=\"trust\"\n"));
    assert_non_null(strstr(text, "\n; tolk-repro strict=\"1\"\n"));
    assert_non_null(strstr(text, "\n; tolk-repro tier=\"quick\"\n"));
    assert_null(strstr(text, "emit=")); /* tolk_compile was called */
    /* it is the same kernel */
    tolk_graph *g;
    const tolk_uop *a, *b;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, kernel, strlen(kernel), 0, &a, &err), TOLK_OK);
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &b, &err), TOLK_OK);
    assert_ptr_equal(a, b);
    opts.symbol = "one_name";
    /* tolk_emit does the same, and a second failure has a file of its own */
    char *out;
    size_t len;
    assert_int_equal(tolk_emit(r.ctx, a, &opts, TOLK_EMIT_ASM, &out, &len, &err), TOLK_E_ARG);
    assert_int_equal(files(text, sizeof text), 2);
    remove_files();
    assert_int_equal(tolk_emit(r.ctx, a, &opts, TOLK_EMIT_ASM, &out, &len, &err), TOLK_E_ARG);
    assert_int_equal(files(text, sizeof text), 1);
    assert_non_null(strstr(text, "\n; tolk-repro emit=\"asm\"\n"));
    assert_non_null(strstr(text, "\n; tolk-repro symbol=\"one_name\"\n"));
    opts.opts = NULL;
    assert_int_equal(tolk_emit(r.ctx, a, &opts, TOLK_EMIT_ASM, &out, &len, &err), TOLK_OK);
    tolk_free_text(r.ctx, out);
    assert_int_equal(files(text, sizeof text), 1);
    tolk_graph_destroy(g);
    remove_files();
}

static void die_in_lower(void *user, tolk_log_level level, const char *text) {
    (void)user, (void)level;
    if (strstr(text, "pass lower"))
        raise(SIGKILL);
}

/* A context whose log sees each pass. */
static bool open_watched(rt *child, tolk_log_fn log) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.log = log;
    o.no_disk_cache = 1;
    setenv("TOLK_DEBUG", "9", 1);
    *child = (rt){0};
    return !tolk_ctx_create(&o, &child->ctx, NULL) &&
           !tolk_device_open(child->ctx, "CPU", &child->cpu, NULL);
}

static int compile_and_die(void *unused) {
    (void)unused;
    rt child;
    tolk_program *p;
    if (!open_watched(&child, die_in_lower))
        return 1;
    rt_try(&child, rt_text(RT_SCALE, 321, "2"), NULL, &p, NULL);
    return 2;
}

static void test_kernel_that_ends_the_process_stays(void **state) {
    (void)state;
    char text[8192];
    assert_int_equal(tk_test_child(compile_and_die, NULL, 60), -SIGKILL);
    assert_int_equal(files(text, sizeof text), 1);
    assert_non_null(strstr(text, "const index 321"));
    assert_non_null(strstr(text, "\n; tolk-repro target=\"native\"\n"));
    assert_null(strstr(text, "opts="));
    remove_files();
}

/* ---- a file compiles to what was compiled ---- */

/* A sum that options reorder, and an access that needs a check. */
#define GATHERED                                                                                   \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 1000\n"                                                                      \
    "%1 = param f32 {slot=0, name=\"y\"}\n"                                                        \
    "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"                                                   \
    "%3 = param i32 (%0) {slot=2, name=\"at\"}\n"                                                  \
    "%4 = range index (%0) {axis=0, kind=reduce}\n"                                                \
    "%5 = index i32 (%3, %4)\n"                                                                    \
    "%6 = load i32 (%5)\n"                                                                         \
    "%7 = cast index (%6)\n"                                                                       \
    "%8 = index f32 (%2, %7)\n"                                                                    \
    "%9 = load f32 (%8)\n"                                                                         \
    "%10 = reduce f32 (%9, %4) {op=add}\n"                                                         \
    "%11 = index f32 (%1)\n"                                                                       \
    "%12 = store void (%11, %10)\n"                                                                \
    "%13 = sink void (%12) {name=\"gathered\"}\n"

typedef struct form {
    const char *opts, *target;
    tolk_bounds bounds;
    uint32_t strict;
    tolk_tier tier;
    const char *symbol;
    tolk_emit_kind kind;
    const char *tier_variable; /* TOLK_TIER */
} form;

static tolk_compile_opts opts_of(const form *f) {
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.opts = f->opts;
    opts.target = f->target;
    opts.bounds = f->bounds;
    opts.strict = f->strict;
    opts.tier = f->tier;
    opts.symbol = f->symbol;
    return opts;
}

static tolk_status emit_form(tolk_ctx *ctx, const form *f, char **out, size_t *len) {
    tolk_graph *g;
    const tolk_uop *root;
    tolk_compile_opts opts = opts_of(f);
    tolk_status st = tolk_graph_create(ctx, &g);
    if (!st)
        st = tolk_parse(g, GATHERED, strlen(GATHERED), 0, &root, NULL);
    if (!st)
        st = tolk_emit(ctx, root, &opts, f->kind, out, len, NULL);
    tolk_graph_destroy(g);
    return st;
}

/* A process that ends while it emits the form. */
static int emit_and_die(void *user) {
    rt child;
    char *out;
    size_t len;
    return open_watched(&child, die_in_lower) ? 2 + (int)emit_form(child.ctx, user, &out, &len) : 1;
}

/* `tolk-jit emit FILE`, with nothing else said, gives the bytes that the call would have given. */
static void test_file_compiles_to_the_same_bytes(void **state) {
    (void)state;
    const char *jit = getenv("TOLK_JIT");
    if (!jit || access(jit, X_OK)) /* not every stage builds it */
        skip();
    static const form forms[] = {
        {NULL, NULL, TOLK_BOUNDS_CHECK, 0, TOLK_TIER_DEFAULT, NULL, TOLK_EMIT_OBJ, NULL},
        {NULL, NULL, TOLK_BOUNDS_CHECK, 0, TOLK_TIER_QUICK, NULL, TOLK_EMIT_OBJ, NULL},
        {NULL, NULL, TOLK_BOUNDS_CHECK, 0, TOLK_TIER_DEFAULT, NULL, TOLK_EMIT_OBJ, "quick"},
        {NULL, NULL, TOLK_BOUNDS_CHECK, 0, TOLK_TIER_AUTO, NULL, TOLK_EMIT_ASM, "quick"},
        {NULL, NULL, TOLK_BOUNDS_CHECK, 1, TOLK_TIER_FULL, "my_sum", TOLK_EMIT_OBJ, "quick"},
        {"", "x86-64", TOLK_BOUNDS_TRUST, 0, TOLK_TIER_QUICK, "my_sum", TOLK_EMIT_ASM, NULL},
        {"UNROLL:0:8", "haswell", TOLK_BOUNDS_CHECK, 0, TOLK_TIER_FULL, NULL, TOLK_EMIT_LLVM, NULL},
        {NULL, "sm_80", TOLK_BOUNDS_CHECK, 0, TOLK_TIER_DEFAULT, NULL, TOLK_EMIT_PTX, NULL},
        {NULL, "sm_80,+ptx78", TOLK_BOUNDS_TRUST, 1, TOLK_TIER_FULL, "my_sum", TOLK_EMIT_PTX, NULL},
    };
    enum { N_FORMS = sizeof forms / sizeof *forms };
    char *all[N_FORMS];
    size_t n_all[N_FORMS];
    for (size_t i = 0; i < N_FORMS; i++) {
        char text[8192], command[2048];
        if (forms[i].tier_variable)
            setenv("TOLK_TIER", forms[i].tier_variable, 1);
        assert_int_equal(tk_test_child(emit_and_die, (void *)&forms[i], 60), -SIGKILL);
        assert_int_equal(files(text, sizeof text), 1);
        rt own;
        rt_open(&own, NULL, NULL);
        char *emitted;
        assert_int_equal(emit_form(own.ctx, &forms[i], &emitted, &n_all[i]), TOLK_OK);
        all[i] = memcpy(malloc(n_all[i] + 1), emitted, n_all[i]);
        tolk_free_text(own.ctx, emitted);
        rt_close(&own);
        unsetenv("TOLK_TIER"); /* the file says it */
        snprintf(command, sizeof command,
                 "cd %s && TOLK_REPRO= '%s' emit *.uop >form.out 2>form.err", dir, jit);
        assert_int_equal(system(command), 0);
        snprintf(command, sizeof command, "%s/form.out", dir);
        FILE *f = fopen(command, "rb");
        char *got = malloc(n_all[i] + 1);
        assert_true(f && got);
        assert_int_equal(fread(got, 1, n_all[i] + 1, f), n_all[i]);
        if (memcmp(got, all[i], n_all[i]) != 0)
            fail_msg("form %zu: the file compiles to other bytes\n%s", i, text);
        fclose(f);
        free(got);
        remove_files();
    }
    /* ... and what the settings say makes a difference: */
    assert_true(n_all[0] != n_all[1] || memcmp(all[0], all[1], n_all[0]) != 0);
    assert_true(n_all[1] == n_all[2] && memcmp(all[1], all[2], n_all[1]) == 0);
    assert_true(n_all[0] != n_all[4] || memcmp(all[0], all[4], n_all[0]) != 0);
    for (size_t i = 0; i < N_FORMS; i++)
        free(all[i]);
}

/* Quick code first: it is the quick compilation that the file is of, and that of the full code,
 * which another thread does later, has a file of its own while it lasts. */
static void die_in_second_lower(void *user, tolk_log_level level, const char *text) {
    static _Atomic int n;
    (void)user, (void)level;
    if (strstr(text, "pass lower") && atomic_fetch_add(&n, 1) == 1)
        raise(SIGKILL);
}

static int launch_and_die(void *unused) {
    (void)unused;
    rt child;
    tolk_program *p;
    if (!open_watched(&child, die_in_second_lower))
        return 1;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.tier = TOLK_TIER_AUTO;
    opts.target = "x86-64";
    opts.opts = "LANE:0:4";
    if (rt_try(&child, rt_text(RT_SCALE, 64, "2"), &opts, &p, NULL))
        return 3;
    for (int i = 0; i < 1000; i++) {
        if (!rt_scale_is(p, 64, 2))
            return 4;
        rt_sleep(0.01);
    }
    return 2;
}

static void test_better_code_has_a_file_of_its_own(void **state) {
    (void)state;
    char text[8192];
    assert_int_equal(tk_test_child(launch_and_die, NULL, 60), -SIGKILL);
    assert_int_equal(files(text, sizeof text), 1);
    assert_non_null(strstr(text, "\n; tolk-repro tier=\"full\"\n"));
    assert_non_null(strstr(text, "\n; tolk-repro target=\"x86-64\"\n"));
    assert_non_null(strstr(text, "\n; tolk-repro opts=\"LANE:0:4\"\n"));
    assert_non_null(strstr(text, "const index 64"));
    remove_files();
}

static void *fail_often(void *unused) {
    (void)unused;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.opts = "LANE:7:4";
    for (int i = 0; i < 8; i++) {
        tolk_program *p;
        if (rt_try(&r, rt_text(RT_SCALE, 100, "2"), &opts, &p, NULL) != TOLK_E_ARG)
            return (void *)1;
    }
    return NULL;
}

static void test_threads_have_their_own_files(void **state) {
    (void)state;
    char text[8192];
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, fail_often, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(t[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(files(text, sizeof text), 32);
    remove_files();
}

static void test_bad_directory_is_a_warning(void **state) {
    (void)state;
    setenv("TOLK_REPRO", "/proc/nothing", 1);
    r.log[0] = 0;
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 50, "2"));
    assert_true(rt_scale_is(p, 50, 2));
    tolk_program_unref(p);
    assert_non_null(strstr(r.log, "TOLK_REPRO=\"/proc/nothing\": kernel scale cannot be written"));
    setenv("TOLK_REPRO", dir, 1);
}

static void test_context_without_environment_writes_nothing(void **state) {
    (void)state;
    char text[8192];
    rt other;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_environment = 1;
    rt_open(&other, NULL, &o);
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.opts = "LANE:7:4";
    tolk_program *p;
    assert_int_equal(rt_try(&other, rt_text(RT_SCALE, 100, "2"), &opts, &p, NULL), TOLK_E_ARG);
    assert_int_equal(files(text, sizeof text), 0);
    rt_close(&other);
}

/* ---- history ---- */

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

static void test_history_tells_what_was_compiled(void **state) {
    (void)state;
    rt own;
    rt_open(&own, NULL, NULL);
    char *text;
    size_t len;
    assert_int_equal(tolk_history(own.ctx, &text, &len), TOLK_OK);
    assert_string_equal(text, "[]");
    tolk_free_text(own.ctx, text);

    unsetenv("TOLK_REPRO");
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.opts = "LANE:0:4";
    opts.target = "x86-64";
    tolk_program *p;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rt_try(&own, rt_text(RT_SCALE, 60, "2"), &opts, &p, NULL), TOLK_OK);
        tolk_program_unref(p);
    }
    opts.opts = "LANE:7:4";
    assert_int_equal(rt_try(&own, rt_text(RT_SCALE, 60, "2"), &opts, &p, NULL), TOLK_E_ARG);
    setenv("TOLK_REPRO", dir, 1);
    assert_int_equal(tolk_history(own.ctx, &text, &len), TOLK_OK);
    assert_int_equal(len, strlen(text));
    assert_int_equal(count(text, "\"kernel\": \"scale\", \"target\": \"x86-64\""), 3);
    assert_int_equal(
        count(text, "\"opts\": \"LANE:0:4\", \"status\": \"TOLK_OK\", \"error\": null"), 2);
    assert_int_equal(count(text, "\"status\": \"TOLK_E_ARG\", \"error\": \"loop option"), 1);
    assert_int_equal(count(text, "\"cached\": \"memory\""), 1);
    assert_int_equal(count(text, "\"lanes\": 4"), 2);
    /* the first has every phase, in this order; the second no more than it needed */
    static const char *const phases[] = {"\"parse\"",  "\"verify\"",  "\"key\"",   "\"cache\"",
                                         "\"thread\"", "\"prepare\"", "\"lower\"", "\"llvm\"",
                                         "\"object\"", "\"meta\"",    "\"store\"", "\"link\""};
    const char *at = strstr(text, "\"phases_ns\"");
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        at = strstr(at, phases[i]);
        assert_non_null(at);
        if (i)
            sum += strtoull(at + strlen(phases[i]) + 2, NULL, 10);
    }
    const char *total = strstr(text, "\"total_ns\": ");
    assert_true(sum > 0 && sum <= strtoull(total + 12, NULL, 10));
    assert_int_equal(count(text, "\"object\""), 1);
    assert_int_equal(count(text, "\"link\""), 2);
    tolk_free_text(own.ctx, text);
    assert_int_equal(tolk_history(NULL, &text, &len), TOLK_E_ARG);
    assert_int_equal(tolk_history(own.ctx, NULL, &len), TOLK_E_ARG);
    assert_int_equal(tolk_history(own.ctx, &text, NULL), TOLK_E_ARG);
    rt_close(&own);
}

static void test_history_is_bounded(void **state) {
    (void)state;
    rt own;
    rt_open(&own, NULL, NULL);
    unsetenv("TOLK_REPRO");
    for (int i = 0; i < 300; i++) {
        tolk_program *p;
        assert_int_equal(rt_try(&own, rt_text(RT_SCALE, 60, "2"), NULL, &p, NULL), TOLK_OK);
        tolk_program_unref(p);
    }
    setenv("TOLK_REPRO", dir, 1);
    char *text;
    size_t len;
    assert_int_equal(tolk_history(own.ctx, &text, &len), TOLK_OK);
    assert_int_equal(count(text, "\"number\": "), 128);
    assert_int_equal(strncmp(text, "[{\"number\": 172, ", 17), 0);
    assert_non_null(strstr(text, "{\"number\": 299, "));
    tolk_free_text(own.ctx, text);
    rt_close(&own);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compiled_kernels_leave_nothing),
        cmocka_unit_test(test_failed_kernel_stays_with_its_settings),
        cmocka_unit_test(test_kernel_that_ends_the_process_stays),
        cmocka_unit_test(test_file_compiles_to_the_same_bytes),
        cmocka_unit_test(test_better_code_has_a_file_of_its_own),
        cmocka_unit_test(test_threads_have_their_own_files),
        cmocka_unit_test(test_bad_directory_is_a_warning),
        cmocka_unit_test(test_context_without_environment_writes_nothing),
        cmocka_unit_test(test_history_tells_what_was_compiled),
        cmocka_unit_test(test_history_is_bounded),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
