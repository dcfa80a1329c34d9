/* SPDX-License-Identifier: MIT
 *
 * Cases about PTX: limits of a launch, constants in text, what is in a cache's key. (PTX-01 and
 * PTX-03 are in tests/jit/test_target_ptx.c.)
 */
#include "support/runtime.h"
#include "support/tk_ptx.h"

#include "jit/program.h"

#include <stdio.h>
#include <string.h>

RT_FIXTURE

static tolk_program *compile_for(rt *c, const char *text, const char *target) {
    tolk_compile_opts co = TOLK_COMPILE_OPTS_INIT;
    co.target = target;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (rt_try(c, text, &co, &p, &err))
        fail_msg("%s", err.msg);
    return p;
}

static int64_t evaluated(const tolk_program *p, uint16_t value, const int64_t *vals) {
    int64_t values[TK_EXPR_MAX_STEPS];
    tk_expr_eval(p->meta.steps, p->meta.head->n_steps, vals, values, NULL);
    return values[value];
}

/* ---- LIM ---- */

/* y[i][j] = 2 x[i][j] over n by m. */
#define TALL                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %lld\n"                                                                     \
    "%%1 = const index %lld\n"                                                                     \
    "%%2 = stack index (%%0, %%1)\n"                                                               \
    "%%3 = param f32 (%%2) {slot=0, name=\"y\"}\n"                                                 \
    "%%4 = param f32 (%%2) {slot=1, name=\"x\"}\n"                                                 \
    "%%5 = range index (%%0) {axis=0, kind=global}\n"                                              \
    "%%6 = range index (%%1) {axis=1, kind=global}\n"                                              \
    "%%7 = index f32 (%%4, %%5, %%6)\n"                                                            \
    "%%8 = load f32 (%%7)\n"                                                                       \
    "%%9 = add f32 (%%8, %%8)\n"                                                                   \
    "%%10 = index f32 (%%3, %%5, %%6)\n"                                                           \
    "%%11 = store void (%%10, %%9)\n"                                                              \
    "%%12 = end void (%%11, %%5, %%6)\n"                                                           \
    "%%13 = sink void (%%12) {name=\"tall\"}\n"

/* The same over the grid of the text: x, y, z. */
#define GRID                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %lld\n"                                                                     \
    "%%1 = const index %lld\n"                                                                     \
    "%%2 = const index %lld\n"                                                                     \
    "%%3 = stack index (%%2, %%1, %%0)\n"                                                          \
    "%%4 = param f32 (%%3) {slot=0, name=\"y\"}\n"                                                 \
    "%%5 = special index (%%0) {name=\"gidx0\"}\n"                                                 \
    "%%6 = special index (%%1) {name=\"gidx1\"}\n"                                                 \
    "%%7 = special index (%%2) {name=\"gidx2\"}\n"                                                 \
    "%%8 = index f32 (%%4, %%7, %%6, %%5)\n"                                                       \
    "%%9 = cast f32 (%%6)\n"                                                                       \
    "%%10 = store void (%%8, %%9)\n"                                                               \
    "%%11 = sink void (%%10) {name=\"grid\"}\n"

static void fits(const tolk_program *p, int64_t iterations) {
    const tk_meta *h = p->meta.head;
    int64_t threads = 1;
    for (int d = 0; d < 3; d++) {
        int64_t blocks = evaluated(p, h->grid[d], NULL), block = evaluated(p, h->block[d], NULL);
        assert_in_range(blocks, 1, d ? 65535 : INT32_MAX);
        assert_in_range(block, 1, d == 2 ? 64 : 1024);
        threads *= blocks * block;
    }
    assert_true(threads >= iterations && threads < iterations + 1024);
}

static void test_lim_01_no_grid_is_too_large_in_y_or_z(void **state) {
    (void)state;
    static const long long shapes[][2] = {{65536, 4},     {4, 65536},    {2, 2 * 93288},
                                          {64, 262144},   {262144, 64},  {8192, 16384},
                                          {1, 1LL << 34}, {1LL << 34, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tolk_program *p = compile_for(&r, rt_text(TALL, shapes[i][0], shapes[i][1]), "sm_80");
        fits(p, shapes[i][0] * shapes[i][1]);
        tolk_program_unref(p);
    }
    static const long long grids[][3] = {{4, 65536, 1}, {2, 2, 93288}, {1, 262144, 64}};
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        const long long *n = grids[i];
        tolk_program *p = compile_for(&r, rt_text(GRID, n[0], n[1], n[2]), "sm_80");
        fits(p, n[0] * n[1] * n[2]);
        tolk_program_unref(p);
    }
}

/* Groups that meet at a barrier keep their blocks: more than x takes go into y and z. */
static void test_lim_01_more_groups_than_x_takes(void **state) {
    (void)state;
    const char *text = rt_text("tolk.uop 1\n"
                               "%%0 = const index %lld\n"
                               "%%1 = const index 32\n"
                               "%%2 = param u8 (%%0) {slot=0}\n"
                               "%%3 = special index (%%0) {name=\"gidx1\"}\n"
                               "%%4 = special index (%%1) {name=\"lidx0\"}\n"
                               "%%5 = buffer u8 (%%1) {slot=0, space=local}\n"
                               "%%6 = index u8 (%%5, %%4)\n"
                               "%%7 = cast u8 (%%4)\n"
                               "%%8 = store void (%%6, %%7)\n"
                               "%%9 = barrier void (%%8)\n"
                               "%%10 = after u8 (%%5, %%9)\n"
                               "%%11 = const index 31\n"
                               "%%12 = index u8 (%%10, %%11)\n"
                               "%%13 = load u8 (%%12)\n"
                               "%%14 = index u8 (%%2, %%3)\n"
                               "%%15 = store void (%%14, %%13)\n"
                               "%%16 = sink void (%%15) {name=\"far\"}\n",
                               (1LL << 33) + 5);
    tolk_program *p = compile_for(&r, text, "sm_90");
    const tk_meta *h = p->meta.head;
    assert_int_equal(evaluated(p, h->grid[0], NULL), 1 << 30);
    assert_int_equal(evaluated(p, h->grid[1], NULL), 9);
    assert_int_equal(evaluated(p, h->grid[2], NULL), 1);
    assert_int_equal(evaluated(p, h->block[0], NULL), 32);
    assert_non_null(strstr(p->meta.object, "%ctaid.z"));
    assert_non_null(strstr(p->meta.object, "%nctaid.x"));
    assert_non_null(strstr(p->meta.object, "8589934596")); /* the last group's number */
    tolk_program_unref(p);
}

/* y[0] = the sum of x1[0], x2[0] ... */
static char *sum_of(int n) {
    size_t room = 200 * (size_t)(n + 2), at = 0;
    char *text = malloc(room);
    assert_non_null(text);
    at += (size_t)snprintf(text + at, room - at,
                           "tolk.uop 1\n%%0 = const index 1\n%%1 = const index 0\n"
                           "%%2 = param f32 (%%0) {slot=0}\n%%3 = index f32 (%%2, %%1)\n"
                           "%%4 = const f32 0x0p+0\n");
    int sum = 4, next = 5;
    for (int i = 1; i <= n; i++, next += 4) {
        at +=
            (size_t)snprintf(text + at, room - at,
                             "%%%d = param f32 (%%0) {slot=%d}\n%%%d = index f32 (%%%d, %%1)\n"
                             "%%%d = load f32 (%%%d)\n%%%d = add f32 (%%%d, %%%d)\n",
                             next, i, next + 1, next, next + 2, next + 1, next + 3, sum, next + 2);
        sum = next + 3;
    }
    snprintf(text + at, room - at,
             "%%%d = store void (%%3, %%%d)\n%%%d = sink void (%%%d) {name=\"sum\"}\n", next, sum,
             next + 1, next);
    return text;
}

static void test_lim_03_too_many_parameters_are_counted_in_the_error(void **state) {
    (void)state;
    char *many = sum_of(600);
    tolk_program *p = NULL;
    /* n arrays, y and the fault record, 8 bytes each: 4,096 bytes before PTX 8.1, then 32,764. */
    static const struct {
        int n;
        const char *target, *counts[4]; /* what the error has to say; NULL: it compiles */
    } rows[] = {
        {510, "sm_75", {NULL}},
        {510, "sm_90a", {NULL}},
        {511,
         "sm_75",
         {"512 parameters", "4104 bytes", "PTX 6.3 has room for 4096", "sm_75,+ptx81"}},
        {600, "sm_80", {"601 parameters", "4816 bytes", "PTX 7.0 has room for 4096", "for 32764"}},
        {600,
         "sm_90a",
         {"601 parameters", "4816 bytes", "PTX 8.0 has room for 4096", "sm_90a,+ptx81"}},
        {600, "sm_80,+ptx80", {"601 parameters", "4816 bytes", "PTX 8.0 has room for 4096", ""}},
        {600, "sm_75,+ptx81", {NULL}},
        {600, "sm_90a,+ptx85", {NULL}},
        {4093, "sm_80,+ptx81", {NULL}},
        {4094,
         "sm_80,+ptx81",
         {"4095 parameters", "32768 bytes", "PTX 8.1 has room for 32764", ""}},
        {4094, "sm_80", {"4095 parameters", "32768 bytes", "PTX 7.0 has room for 4096", ""}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = sum_of(rows[i].n);
        tolk_compile_opts co = TOLK_COMPILE_OPTS_INIT;
        co.target = rows[i].target;
        tolk_error err = TOLK_ERROR_INIT;
        tolk_status st = rt_try(&r, text, &co, &p, &err);
        if (st != (rows[i].counts[0] ? TOLK_E_LIMIT : TOLK_OK))
            fail_msg("%d buffers, %s: %s", rows[i].n, rows[i].target, err.msg);
        for (int k = 0; k < 4 && rows[i].counts[0]; k++)
            if (!strstr(err.msg, rows[i].counts[k]))
                fail_msg("%d buffers, %s: %s", rows[i].n, rows[i].target, err.msg);
        /* No version helps where there is too much for any. */
        if (rows[i].n == 4094)
            assert_null(strstr(err.msg, "+ptx"));
        if (st == TOLK_OK) { /* the assembler takes as many */
            tk_target target;
            tk_ptx_module m;
            static const tk_host none;
            assert_int_equal(tk_target_parse(&none, rows[i].target, &target, &err), TOLK_OK);
            tk_ptx_module_init(&m, &target);
            tk_ptx_module_add(&m, p->meta.object);
            tk_ptx_module_fini(&m);
            tolk_program_unref(p);
        }
        free(text);
    }
    /* A CPU has no such limit. */
    p = rt_compile(&r, many);
    static float x[601];
    void *bufs[601];
    size_t bytes[601];
    for (int i = 0; i < 601; i++) {
        x[i] = (float)i;
        bufs[i] = &x[i];
        bytes[i] = 4;
    }
    assert_int_equal(tolk_launch(p, bufs, bytes, 601, NULL, 0, NULL), TOLK_OK);
    assert_true(x[0] == 600 * 601 / 2);
    tolk_program_unref(p);
    free(many);
}

/* ---- CG ---- */

static void test_cg_09_constants_in_ptx_are_exact(void **state) {
    (void)state;
    static const struct {
        const char *dtype, *value, *ptx;
    } constants[] = {
        {"f32", "1e-8", "0f322BCC77"},          {"f32", "1e-18", "0f219392EF"},
        {"f32", "1e-45", "0f00000001"},         {"f32", "3.141592653589793", "0f40490FDB"},
        {"f32", "0.1", "0f3DCCCCCD"},           {"f32", "0x1.fffffep127", "0f7F7FFFFF"},
        {"f32", "-0.0", "0f80000000"},          {"f64", "16777217", "0d4170000010000000"},
        {"f64", "1e-8", "0d3E45798EE2308C3A"},  {"f64", "0.1", "0d3FB999999999999A"},
        {"f64", "5e-324", "0d0000000000000001"}};
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        const char *d = constants[i].dtype;
        const char *text = rt_text("tolk.uop 1\n"
                                   "%%0 = const index 64\n"
                                   "%%1 = param %s (%%0) {slot=0}\n"
                                   "%%2 = range index (%%0) {axis=0, kind=global}\n"
                                   "%%3 = index %s (%%1, %%2)\n"
                                   "%%4 = load %s (%%3)\n"
                                   "%%5 = const %s %s\n"
                                   "%%6 = mul %s (%%4, %%5)\n"
                                   "%%7 = store void (%%3, %%6)\n"
                                   "%%8 = end void (%%7, %%2)\n"
                                   "%%9 = sink void (%%8) {name=\"c\"}\n",
                                   d, d, d, d, constants[i].value, d);
        tolk_program *p = compile_for(&r, text, "sm_80");
        if (!strstr(p->meta.object, constants[i].ptx))
            fail_msg("%s %s: no %s in\n%s", d, constants[i].value, constants[i].ptx,
                     (const char *)p->meta.object);
        tolk_program_unref(p);
    }
}

/* ---- KEY ---- */

static void comes_from(rt *c, const char *target, tolk_cached want) {
    tolk_program *p = compile_for(c, rt_text(RT_SCALE, 640, "0x1.8p+1"), target);
    tolk_program_info info;
    assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
    if (info.cached != want)
        fail_msg("%s: from %d, expected %d", target, (int)info.cached, (int)want);
    /* A launch on the CPU is refused, and says why. */
    float x[640] = {0}, y[640];
    void *bufs[] = {y, x};
    size_t bytes[] = {sizeof y, sizeof x};
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, &err), TOLK_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "kernel scale is compiled for a GPU"));
    tolk_program_unref(p);
}

static void test_key_01_chip_and_version_of_ptx_are_in_the_key(void **state) {
    (void)state;
    char *dir = rt_mkdir();
    static const char *const targets[] = {"sm_75", "sm_80", "sm_80,+ptx78", "sm_90", "sm_90a"};
    for (int round = 0; round < 2; round++) {
        rt c;
        rt_open(&c, dir, NULL);
        for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
            comes_from(&c, targets[i], round ? TOLK_CACHED_DISK : TOLK_CACHED_NONE);
            comes_from(&c, targets[i], TOLK_CACHED_MEMORY);
        }
        /* Another spelling of the same. */
        comes_from(&c, "sm_80,+ptx70", TOLK_CACHED_MEMORY);
        rt_close(&c);
    }
    rt_rmdir(dir);
}

/* What is saved is loaded again, on a machine without a GPU, too. */
static void test_a_saved_program_of_ptx_is_loaded_anywhere(void **state) {
    (void)state;
    tolk_program *p = compile_for(&r, rt_text(RT_SCALE, 64, "0x1p+0"), "sm_86"), *q = NULL;
    char *bytes;
    size_t len;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_program_save(p, &bytes, &len, &err), TOLK_OK);
    if (tolk_program_load(r.cpu, bytes, len, &q, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(q->meta.head->object_bytes, p->meta.head->object_bytes);
    assert_string_equal(q->meta.object, p->meta.object);
    assert_int_equal(tolk_launch(q, NULL, NULL, 0, NULL, 0, &err), TOLK_E_UNSUPPORTED);
    tolk_free_text(r.ctx, bytes);
    tolk_program_unref(p);
    tolk_program_unref(q);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lim_01_no_grid_is_too_large_in_y_or_z),
        cmocka_unit_test(test_lim_01_more_groups_than_x_takes),
        cmocka_unit_test(test_lim_03_too_many_parameters_are_counted_in_the_error),
        cmocka_unit_test(test_cg_09_constants_in_ptx_are_exact),
        cmocka_unit_test(test_key_01_chip_and_version_of_ptx_are_in_the_key),
        cmocka_unit_test(test_a_saved_program_of_ptx_is_loaded_anywhere),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
