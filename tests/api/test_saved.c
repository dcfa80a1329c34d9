/* SPDX-License-Identifier: MIT
 *
 * Programs saved and loaded: the loaded one computes and refuses what the compiled one does, and
 * nothing but a whole saved program for this machine is loaded.
 */
#include "support/runtime.h"

static rt r;

static int setup(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    return 0;
}

static tolk_program *reload(rt *to, const tolk_program *p) {
    char *bytes = NULL;
    size_t len = 0;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_program *q = NULL;
    if (tolk_program_save(p, &bytes, &len, &err) ||
        tolk_program_load(to->cpu, bytes, len, &q, &err))
        fail_msg("%s", err.msg);
    tolk_free_text(r.ctx, bytes);
    return q;
}

static void test_loaded_program_computes_the_same(void **state) {
    (void)state;
    rt other;
    rt_open(&other, NULL, NULL);
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 1000, "0x1.8p+1"));
    tolk_program *q = reload(&other, p);
    assert_true(rt_scale_is(q, 1000, 3));
    tolk_program_unref(p); /* the loaded one stands on its own */
    assert_true(rt_scale_is(q, 1000, 3));
    tolk_program_unref(q);

    enum { N = 100000 };
    float *x = malloc(N * sizeof *x), a = -1, b = -2;
    assert_non_null(x);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 77) * 0.37f;
    p = rt_compile(&r, RT_SUM);
    q = reload(&other, p);
    void *to_a[] = {&a, x}, *to_b[] = {&b, x};
    size_t bytes[] = {4, N * 4};
    assert_int_equal(tolk_launch(p, to_a, bytes, 2, NULL, 0, NULL), TOLK_OK);
    assert_int_equal(tolk_launch(q, to_b, bytes, 2, NULL, 0, NULL), TOLK_OK);
    assert_memory_equal(&a, &b, 4);
    free(x);
    tolk_program_unref(p);
    tolk_program_unref(q);
    rt_close(&other);
}

static void test_loaded_program_tells_what_the_compiled_one_tells(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, RT_GATHER), *q = reload(&r, p);
    tolk_program_info a, b;
    assert_int_equal(tolk_program_get_info(p, &a), TOLK_OK);
    assert_int_equal(tolk_program_get_info(q, &b), TOLK_OK);
    assert_string_equal(b.name, "gather");
    assert_string_equal(a.opts, b.opts);
    assert_int_equal(b.n_bufs, 3);
    assert_int_equal(b.n_vals, 1);
    assert_int_equal(a.code_bytes, b.code_bytes);
    assert_int_equal(a.lanes, b.lanes);
    assert_int_equal(b.cached, TOLK_CACHED_SAVED);
    double flops[2], bytes[2];
    int64_t n = 50;
    assert_int_equal(tolk_program_estimate(p, &n, 1, &flops[0], &bytes[0]), TOLK_OK);
    assert_int_equal(tolk_program_estimate(q, &n, 1, &flops[1], &bytes[1]), TOLK_OK);
    assert_true(flops[0] == flops[1] && bytes[0] == bytes[1]);

    static const struct {
        const char *name;
        int64_t slot;
        tolk_dtype dtype;
        int is_scalar, is_loaded, is_stored;
    } want[] = {{"y", 0, TOLK_F32, 0, 0, 1},
                {"x", 1, TOLK_F32, 0, 1, 0},
                {NULL, 2, TOLK_I32, 0, 1, 0},
                {"n", 3, TOLK_I32, 1, 1, 0}};
    for (size_t i = 0; i < 4; i++) {
        tolk_param_info info;
        assert_int_equal(tolk_program_param(q, i, &info), TOLK_OK);
        assert_true(want[i].name ? !strcmp(info.name, want[i].name) : !info.name);
        assert_int_equal(info.slot, want[i].slot);
        assert_int_equal(info.dtype, want[i].dtype);
        assert_int_equal(info.is_scalar, want[i].is_scalar);
        assert_int_equal(info.is_loaded, want[i].is_loaded);
        assert_int_equal(info.is_stored, want[i].is_stored);
    }
    tolk_param_info info;
    assert_int_equal(tolk_program_param(q, 3, &info), TOLK_OK);
    assert_int_equal(info.min, 0);
    assert_int_equal(info.max, 100);
    assert_int_equal(tolk_program_param(q, 4, &info), TOLK_E_ARG);

    int64_t elems;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_program_param_elems(q, 0, &n, 1, &elems, &err), TOLK_OK);
    assert_int_equal(elems, 50);
    assert_int_equal(tolk_program_param_elems(q, 1, &n, 1, &elems, &err), TOLK_OK);
    assert_int_equal(elems, 100);
    assert_int_equal(tolk_program_param_elems(q, 3, &n, 1, &elems, &err), TOLK_E_ARG);
    assert_int_equal(tolk_program_param_elems(q, 4, &n, 1, &elems, &err), TOLK_E_ARG);
    assert_int_equal(tolk_program_param_elems(q, 0, &n, 0, &elems, &err), TOLK_E_ARG);
    n = 101;
    assert_int_equal(tolk_program_param_elems(q, 0, &n, 1, &elems, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, "expected 0 to 100"));
    tolk_program_unref(p);
    tolk_program_unref(q);
}

/* ERR-03: each wrong launch is refused by both with the same words. */
static void test_ERR_03_loaded_program_checks_its_launches(void **state) {
    (void)state;
    tolk_program *p[2] = {rt_compile(&r, RT_GATHER)};
    p[1] = reload(&r, p[0]);
    float y[100], x[100];
    int32_t at[100] = {0};
    for (int i = 0; i < 100; i++)
        x[i] = (float)i;
    struct {
        void *bufs[3];
        size_t bytes[3], n_bufs, n_vals;
        int64_t n;
        int32_t first;
        tolk_status want;
    } rows[] = {
        {{y, x, at}, {400, 400, 400}, 3, 1, 100, 7, TOLK_OK},
        {{y, x, at}, {400, 400, 400}, 2, 1, 100, 0, TOLK_E_LAUNCH},
        {{y, x, at}, {400, 400, 400}, 3, 0, 100, 0, TOLK_E_LAUNCH},
        {{y, x, at}, {399, 400, 400}, 3, 1, 100, 0, TOLK_E_LAUNCH},
        {{y, x, at}, {400, 399, 400}, 3, 1, 100, 0, TOLK_E_LAUNCH},
        {{y, NULL, at}, {400, 400, 400}, 3, 1, 100, 0, TOLK_E_LAUNCH},
        {{y, x, at}, {400, 400, 400}, 3, 1, 101, 0, TOLK_E_LAUNCH},
        {{y, x, at}, {400, 400, 400}, 3, 1, -1, 0, TOLK_E_LAUNCH},
        {{y, y, at}, {400, 400, 400}, 3, 1, 100, 0, TOLK_E_ALIAS},
        {{y, x, at}, {400, 400, 400}, 3, 1, 100, 100, TOLK_E_RANGE},
        {{y, x, at}, {400, 400, 400}, 3, 1, 100, -1, TOLK_E_RANGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char msg[2][240];
        at[0] = rows[i].first;
        for (int k = 0; k < 2; k++) {
            tolk_error err = TOLK_ERROR_INIT;
            y[0] = -5;
            assert_int_equal(tolk_launch(p[k], rows[i].bufs, rows[i].bytes, rows[i].n_bufs,
                                         &rows[i].n, rows[i].n_vals, &err),
                             rows[i].want);
            memcpy(msg[k], err.msg, sizeof err.msg);
            if (rows[i].want == TOLK_OK)
                assert_true(y[0] == 7);
            else
                assert_true(msg[k][0] && y[0] == (rows[i].want == TOLK_E_RANGE ? 0 : -5));
        }
        assert_string_equal(msg[0], msg[1]);
    }
    tolk_program_unref(p[0]);
    tolk_program_unref(p[1]);
}

/* What was loaded can be saved again, to the same bytes; saving is a function of the program. */
static void test_save_of_a_loaded_program_is_the_same(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, RT_GATHER), *q = reload(&r, p);
    char *a, *b;
    size_t n, m;
    assert_int_equal(tolk_program_save(p, &a, &n, NULL), TOLK_OK);
    assert_int_equal(tolk_program_save(q, &b, &m, NULL), TOLK_OK);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    tolk_free_text(r.ctx, a);
    tolk_free_text(r.ctx, b);
    tolk_program_unref(p);
    tolk_program_unref(q);
}

static void test_files(void **state) {
    (void)state;
    char *dir = rt_mkdir(), path[256], sub[512];
    snprintf(path, sizeof path, "%s/scale.tolk", dir);
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 64, "2")), *q;
    tolk_error err = TOLK_ERROR_INIT;
    for (int i = 0; i < 2; i++) { /* a second time over the first file */
        assert_int_equal(tolk_program_save_file(p, path, &err), TOLK_OK);
        assert_int_equal(tolk_program_load_file(r.cpu, path, &q, &err), TOLK_OK);
        assert_true(rt_scale_is(q, 64, 2));
        tolk_program_unref(q);
    }
    snprintf(sub, sizeof sub, "%s/none/scale.tolk", dir);
    assert_int_equal(tolk_program_save_file(p, sub, &err), TOLK_E_IO);
    assert_non_null(strstr(err.msg, "No such file or directory"));
    assert_int_equal(tolk_program_save_file(p, dir, &err), TOLK_E_IO);
    assert_int_equal(tolk_program_load_file(r.cpu, sub, &q, &err), TOLK_E_IO);
    assert_non_null(strstr(err.msg, "No such file or directory"));
    assert_int_equal(tolk_program_load_file(r.cpu, dir, &q, &err), TOLK_E_IO);
    assert_int_equal(tolk_program_load_file(r.cpu, "/dev/zero", &q, &err), TOLK_E_IO);
    /* a link stays one, and what is no file stays what it is */
    char link[512], pipe[512];
    struct stat s;
    snprintf(link, sizeof link, "%s/link", dir);
    snprintf(pipe, sizeof pipe, "%s/pipe", dir);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(tolk_program_save_file(p, link, &err), TOLK_OK);
    assert_int_equal(lstat(link, &s), 0);
    assert_true(S_ISLNK(s.st_mode));
    assert_int_equal(tolk_program_load_file(r.cpu, path, &q, &err), TOLK_OK);
    tolk_program_unref(q);
    assert_int_equal(tolk_program_save_file(p, pipe, &err), TOLK_E_IO);
    assert_non_null(strstr(err.msg, "expected a regular file"));
    assert_int_equal(lstat(pipe, &s), 0);
    assert_true(S_ISFIFO(s.st_mode));
    assert_int_equal(unlink(link), 0);
    assert_int_equal(unlink(pipe), 0);
    /* nothing but the file is left */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
    free(dir);
    tolk_program_unref(p);
}

static void test_null_arguments_are_errors(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 8, "2")), *q = NULL;
    char *bytes;
    size_t len;
    int64_t elems;
    tolk_param_info info;
    assert_int_equal(tolk_program_save(NULL, &bytes, &len, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_save(p, NULL, &len, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_save(p, &bytes, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_save_file(NULL, "x", NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_save_file(p, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_load(NULL, "x", 1, &q, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_load(r.cpu, NULL, 1, &q, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_load(r.cpu, NULL, 0, &q, NULL), TOLK_E_PARSE);
    assert_int_equal(tolk_program_load(r.cpu, "x", 1, NULL, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_load_file(r.cpu, NULL, &q, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_param(NULL, 0, &info), TOLK_E_ARG);
    assert_int_equal(tolk_program_param(p, 0, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_param_elems(NULL, 0, NULL, 0, &elems, NULL), TOLK_E_ARG);
    assert_int_equal(tolk_program_param_elems(p, 0, NULL, 0, NULL, NULL), TOLK_E_ARG);
    assert_null(q);
    tolk_program_unref(p);
}

/* DISK-01, DISK-07: whatever is wrong with the bytes, they are refused. */
static void test_DISK_01_damaged_bytes_are_refused(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, RT_GATHER), *q = NULL;
    char *good, *bytes;
    size_t len;
    assert_int_equal(tolk_program_save(p, &good, &len, NULL), TOLK_OK);
    bytes = malloc(len + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        for (int bit = 0; bit < 8; bit += 1 + (i > 200) * 3) {
            memcpy(bytes, good, len);
            bytes[i] = (char)(bytes[i] ^ 1 << bit);
            tolk_error err = TOLK_ERROR_INIT;
            if (tolk_program_load(r.cpu, bytes, len, &q, &err) != TOLK_E_PARSE)
                fail_msg("byte %zu, bit %d: %s", i, bit, err.msg);
            assert_true(err.msg[0]);
        }
    for (size_t cut = 0; cut < len; cut++)
        assert_int_equal(tolk_program_load(r.cpu, good, cut, &q, NULL), TOLK_E_PARSE);
    memcpy(bytes, good, len);
    bytes[len] = 0;
    assert_int_equal(tolk_program_load(r.cpu, bytes, len + 1, &q, NULL), TOLK_E_PARSE);
    assert_int_equal(tolk_program_load(r.cpu, RT_GATHER, sizeof RT_GATHER, &q, NULL), TOLK_E_PARSE);
    assert_null(q);
    /* at any address */
    memmove(bytes + 1, good, len);
    assert_int_equal(tolk_program_load(r.cpu, bytes + 1, len, &q, NULL), TOLK_OK);
    tolk_program_unref(q);
    free(bytes);
    tolk_free_text(r.ctx, good);
    tolk_program_unref(p);
}

static char *oom_bytes;
static size_t oom_len;

static tolk_status load_with(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_environment = 1;
    o.no_disk_cache = 1;
    tolk_ctx *ctx;
    tolk_device *cpu;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_ctx_create(&o, &ctx, &err);
    if (st)
        return st;
    st = tolk_device_open(ctx, "CPU", &cpu, &err);
    if (!st)
        st = tolk_program_load(cpu, oom_bytes, oom_len, &p, &err);
    if (!st) {
        char *again;
        size_t n;
        st = tolk_program_save(p, &again, &n, &err);
        if (!st)
            tolk_free_text(ctx, again);
    }
    tolk_program_unref(p);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_load_and_save_without_memory(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, RT_GATHER);
    assert_int_equal(tolk_program_save(p, &oom_bytes, &oom_len, NULL), TOLK_OK);
    tk_test_oom(load_with, NULL);
    tolk_free_text(r.ctx, oom_bytes);
    tolk_program_unref(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loaded_program_computes_the_same),
        cmocka_unit_test(test_loaded_program_tells_what_the_compiled_one_tells),
        cmocka_unit_test(test_ERR_03_loaded_program_checks_its_launches),
        cmocka_unit_test(test_save_of_a_loaded_program_is_the_same),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_null_arguments_are_errors),
        cmocka_unit_test(test_DISK_01_damaged_bytes_are_refused),
        cmocka_unit_test(test_load_and_save_without_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
