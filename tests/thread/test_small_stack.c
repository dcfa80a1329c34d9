/* SPDX-License-Identifier: MIT
 *
 * Threads whose stack has 64 KiB: everything that the library does fits, for every example.
 */
#include "support/runtime.h"

#include <pthread.h>
#include <sys/resource.h>

enum { SMALL = 64 << 10, MAX_PARAMS = 8 };

typedef struct work {
    const char *text;
    size_t len;
    const char *dir; /* of the disk cache; NULL: none */
    const char *failed;
} work;

/* Every call that a kernel's life has. */
static const char *life(const work *w) {
    static char message[400];
    rt r;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_graph *g;
    const tolk_uop *kernel;
    tolk_program *p = NULL;
    void *bufs[MAX_PARAMS];
    size_t bytes[MAX_PARAMS], n = 0;
    rt_open(&r, w->dir, NULL);
    tolk_status st = tolk_graph_create(r.ctx, &g);
    if (!st)
        st = tolk_parse(g, w->text, w->len, 0, &kernel, &err);
    if (!st)
        st = tolk_verify(kernel, TOLK_STAGE_ANY, &err);
    for (int kind = TOLK_EMIT_UOP; !st && kind <= TOLK_EMIT_OBJ; kind++) {
        char *out = NULL;
        size_t len;
        st = tolk_emit(r.ctx, kernel, NULL, (tolk_emit_kind)kind, &out, &len, &err);
        tolk_free_text(r.ctx, out);
    }
    if (!st)
        st = tolk_compile(r.cpu, kernel, NULL, &p, &err);
    int64_t vals[MAX_PARAMS], elems;
    size_t n_vals = 0, n_params = st ? 0 : tolk_kernel_param_count(kernel);
    tolk_param_info info;
    for (size_t i = 0; !st && i < n_params && n_vals < MAX_PARAMS; i++) {
        st = tolk_kernel_param(kernel, i, &info);
        if (!st && info.is_scalar)
            vals[n_vals++] = info.min > 3 ? info.min : 3; /* of a float: some bits */
    }
    for (size_t i = 0; !st && i < n_params && n < MAX_PARAMS; i++) {
        st = tolk_kernel_param(kernel, i, &info);
        if (!st && info.is_scalar)
            continue;
        if (!st)
            st = tolk_kernel_param_dims(kernel, i, vals, n_vals, NULL, &elems, &err);
        if (st)
            break;
        bytes[n] = (size_t)elems * tolk_dtype_bytes(info.dtype);
        bufs[n] = calloc(bytes[n] + 64, 1);
        n++;
    }
    for (int i = 0; !st && i < 3; i++)
        st = tolk_launch(p, bufs, bytes, n, vals, n_vals, &err);
    for (size_t i = 0; i < n; i++)
        free(bufs[i]);
    tolk_program_unref(p);
    tolk_graph_destroy(g);
    tolk_cache_stats stats;
    if (!st)
        st = tolk_cache_get_stats(r.ctx, &stats);
    rt_close(&r);
    if (!st)
        return NULL;
    snprintf(message, sizeof message, "%s: %s", tolk_status_name(st), err.msg);
    return message;
}

static void *live(void *arg) {
    work *w = arg;
    w->failed = life(w);
    return NULL;
}

static char *read_file(const char *path, size_t *len) {
    FILE *f = fopen(path, "r");
    char *text = calloc(1 << 16, 1);
    assert_non_null(f);
    *len = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    return text;
}

/* Each in a process of its own: LLVM's first use goes deepest, and a crash names the example. */
static int in_child(void *arg) {
    work *w = arg;
    tk_test_on_stack(SMALL, live, w);
    if (w->failed)
        fprintf(stderr, "%s\n", w->failed);
    return w->failed != NULL;
}

static void test_examples_on_a_small_stack(void **state) {
    (void)state;
    if (TK_TEST_ASAN || TK_TEST_TSAN)
        skip(); /* their frames are several times as large */
    static const char *const names[] = {"axpy",       "blur",  "gather", "gelu",    "histogram",
                                        "mandelbrot", "scale", "sgemm",  "softmax", "sum"};
    char *dir = rt_mkdir();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int k = 0; k < 3; k++) { /* no disk cache; not there yet; there */
            char relative[64];
            snprintf(relative, sizeof relative, "examples/%s.uop", names[i]);
            char *path = tk_test_source(relative);
            work w = {.dir = k ? dir : NULL};
            char *text = read_file(path, &w.len);
            w.text = text;
            int code = tk_test_child(in_child, &w, 100);
            if (code)
                fail_msg("%s, disk cache %d: exit %d", names[i], k, code);
            free(text);
            free(path);
        }
    rt_rmdir(dir);
}

static void *nothing(void *arg) {
    return arg;
}

/* Where no thread can be made, a large stack of the caller's will do. */
static int without_threads(void *arg) {
    (void)arg;
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) || (geteuid() == 0 && setuid(65534)))
        return 77;
    pthread_t t;
    if (pthread_create(&t, NULL, nothing, NULL) == 0)
        return 77; /* this user is not limited */
    work w = {.text = rt_text(RT_SCALE, 100, "3")};
    w.len = strlen(w.text);
    w.failed = life(&w);
    if (w.failed)
        fprintf(stderr, "%s\n", w.failed);
    return w.failed != NULL;
}

static void test_no_more_threads_compiles_on_the_callers_stack(void **state) {
    (void)state;
    int code = tk_test_child(without_threads, NULL, 100);
    if (code == 77)
        skip();
    assert_int_equal(code, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples_on_a_small_stack),
        cmocka_unit_test(test_no_more_threads_compiles_on_the_callers_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
