/* SPDX-License-Identifier: MIT
 *
 * Launches: a warm one takes no memory, any number of arguments, any address, and nothing to do.
 * Case ids are those of the collection this project tests against.
 */
#include "support/runtime.h"

#include <math.h>

static rt r;

/* ---- counting malloc ---- */

static _Atomic int counting, mallocs;

#if !TK_TEST_ASAN && !TK_TEST_TSAN
/* In front of those of the C library, for everything in the process. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes) {
    mallocs += counting;
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    mallocs += counting;
    return __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t bytes) {
    mallocs += counting;
    return __libc_realloc(p, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
    mallocs += counting;
    return __libc_memalign(align, bytes);
}
int posix_memalign(void **out, size_t align, size_t bytes) {
    mallocs += counting;
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : 12;
}
#endif

static tk_test_heap heap;

static int setup(void **state) {
    (void)state;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tk_test_heap_init(&heap);
    o.allocator = &heap.al;
    o.threads = 2;
    rt_open(&r, NULL, &o);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
    return 0;
}

/* s = the sum of x. */
#define SUM                                                                                        \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = const index 1\n"                                                                        \
    "%%2 = param f32 (%%1) {slot=0, name=\"s\"}\n"                                                 \
    "%%3 = param f32 (%%0) {slot=1, name=\"x\"}\n"                                                 \
    "%%4 = range index (%%0) {axis=0, kind=reduce}\n"                                              \
    "%%5 = index f32 (%%3, %%4)\n"                                                                 \
    "%%6 = load f32 (%%5)\n"                                                                       \
    "%%7 = reduce f32 (%%6, %%4) {op=add}\n"                                                       \
    "%%8 = const index 0\n"                                                                        \
    "%%9 = index f32 (%%2, %%8)\n"                                                                 \
    "%%10 = store void (%%9, %%7)\n"                                                               \
    "%%11 = sink void (%%10) {name=\"sum\"}\n"

/* Launch a few times to warm up, then count. */
static void takes_no_memory(const tolk_program *p, void *const *bufs, const size_t *bytes,
                            size_t n_bufs, const int64_t *vals, size_t n_vals, tolk_status want) {
    for (int i = 0; i < 5; i++)
        assert_int_equal(tolk_launch(p, bufs, bytes, n_bufs, vals, n_vals, NULL), want);
    size_t calls = heap.calls;
    int wrong = 0;
    tolk_error err = TOLK_ERROR_INIT;
    mallocs = 0;
    counting = 1;
    for (int i = 0; i < 100; i++)
        wrong += tolk_launch(p, bufs, bytes, n_bufs, vals, n_vals, &err) != want;
    counting = 0;
    assert_int_equal(wrong, 0);
    assert_int_equal(heap.calls, calls);
    assert_int_equal(mallocs, 0);
}

static void test_warm_launch_takes_no_memory(void **state) {
    (void)state;
    enum { N = 1 << 18 };
    static float x[N], y[N];
    static int32_t at[100];
    void *bufs[] = {y, x, at};
    size_t bytes[] = {sizeof y, sizeof x, sizeof at};
    int64_t n = 37;
    /* the test sees what it looks for */
    mallocs = 0;
    counting = 1;
    free(malloc(100));
    counting = 0;
    assert_int_equal(mallocs, TK_TEST_ASAN || TK_TEST_TSAN ? 0 : 1);
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 1000, "3")); /* inline */
    takes_no_memory(p, bufs, bytes, 2, NULL, 0, TOLK_OK);
    tolk_program_unref(p);
    p = rt_compile(&r, rt_text(RT_SCALE, N, "3")); /* for memory alone: a large one */
    takes_no_memory(p, bufs, bytes, 2, NULL, 0, TOLK_OK);
    tolk_program_unref(p);
    p = rt_compile(&r, rt_text(RT_SPIN, 4096, 2000LL)); /* a team */
    takes_no_memory(p, bufs, bytes, 2, NULL, 0, TOLK_OK);
    tolk_program_unref(p);
    p = rt_compile(&r, rt_text(SUM, N)); /* partial results in scratch memory */
    takes_no_memory(p, bufs, bytes, 2, NULL, 0, TOLK_OK);
    tolk_program_unref(p);
    p = rt_compile(&r, RT_GATHER); /* a scalar, sizes that depend on it, checks, a fault */
    takes_no_memory(p, bufs, bytes, 3, &n, 1, TOLK_OK);
    at[36] = 100;
    takes_no_memory(p, bufs, bytes, 3, &n, 1, TOLK_E_RANGE);
    at[36] = 0;
    bytes[1] = 4; /* and a refusal */
    takes_no_memory(p, bufs, bytes, 3, &n, 1, TOLK_E_LAUNCH);
    tolk_program_unref(p);
}

/* ---- LIM-03 ---- */

/* y[i] = the sum of n_in arrays of 5 elements. NULL: refused with *err. */
static tolk_program *sum_of(int n_in, tolk_status *status, tolk_error *err) {
    tolk_graph *g;
    tolk_program *p = NULL;
    const int64_t dims[] = {5};
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, 5), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *sum = NULL;
    for (int k = 0; k < n_in; k++) {
        const tolk_uop *x = tolk_param(g, TOLK_I64, dims, 1, k + 1, NULL);
        const tolk_uop *v = tolk_load(g, tolk_index(g, x, &i, 1));
        sum = sum ? tolk_add(g, sum, v) : v;
    }
    const tolk_uop *y = tolk_param(g, TOLK_I64, dims, 1, 0, "y");
    const tolk_uop *e = tolk_end(g, tolk_store(g, tolk_index(g, y, &i, 1), sum), &i, 1);
    const tolk_uop *k = tolk_sink(g, &e, 1, "sum_of_many");
    assert_int_equal(tolk_graph_error(g, err), TOLK_OK);
    *status = tolk_compile(r.cpu, k, NULL, &p, err);
    tolk_graph_destroy(g);
    return p;
}

static void check_sum_of(int n_in) {
    tolk_status st;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_program *p = sum_of(n_in, &st, &err);
    if (!p)
        fail_msg("%d buffers: %s", n_in, err.msg);
    int64_t *x = malloc(sizeof *x * 5 * (size_t)n_in), y[5] = {0};
    void **bufs = malloc(sizeof *bufs * (size_t)(n_in + 1));
    size_t *bytes = malloc(sizeof *bytes * (size_t)(n_in + 1));
    assert_true(x && bufs && bytes);
    bufs[0] = y;
    bytes[0] = sizeof y;
    for (int k = 0; k < n_in; k++) {
        bufs[k + 1] = x + 5 * k;
        bytes[k + 1] = 40;
        for (int i = 0; i < 5; i++)
            x[5 * k + i] = (int64_t)k * k + i;
    }
    assert_int_equal(tolk_launch(p, bufs, bytes, (size_t)n_in + 1, NULL, 0, &err), TOLK_OK);
    for (int i = 0; i < 5; i++) {
        int64_t want = 0;
        for (int k = 0; k < n_in; k++)
            want += (int64_t)k * k + i;
        assert_int_equal(y[i], want);
    }
    /* the one that is wrong is named */
    bytes[n_in] = 39;
    assert_int_equal(tolk_launch(p, bufs, bytes, (size_t)n_in + 1, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, rt_text("slot %d", n_in)));
    assert_int_equal(tolk_launch(p, bufs, bytes, (size_t)n_in, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, rt_text("%d buffers", n_in + 1)));
    free(x);
    free(bufs);
    free(bytes);
    tolk_program_unref(p);
}

static void test_LIM_03_hundreds_of_buffers_are_summed(void **state) {
    (void)state;
    check_sum_of(100);
    check_sum_of(600);
    check_sum_of(2000);
}

/* 10000 work, or are refused in words; soon in both cases. */
static void test_LIM_03_10000_buffers_work_or_are_refused(void **state) {
    (void)state;
    double start = rt_now();
    tolk_status st;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_program *p = sum_of(10000, &st, &err);
    printf("10000 buffers: %s (%s), %.2f s\n", tolk_status_name(st), p ? "" : err.msg,
           rt_now() - start);
    if (p) {
        tolk_program_unref(p);
        check_sum_of(10000);
    } else {
        assert_int_equal(st, TOLK_E_LIMIT);
        assert_true(strpbrk(err.msg, "123456789") != NULL); /* says how many are allowed */
    }
    assert_true(rt_now() - start < 60);
}

/* ---- CG-15: addresses that are no multiple of anything ---- */

#define MAP2                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = param %s (%%0) {slot=0}\n"                                                              \
    "%%2 = param %s (%%0) {slot=1}\n"                                                              \
    "%%3 = range index (%%0) {axis=0, kind=global}\n"                                              \
    "%%4 = index %s (%%1, %%3)\n"                                                                  \
    "%%5 = index %s (%%2, %%3)\n"                                                                  \
    "%%6 = load %s (%%5)\n"                                                                        \
    "%%7 = add %s (%%6, %%6)\n"                                                                    \
    "%%8 = store void (%%4, %%7)\n"                                                                \
    "%%9 = end void (%%8, %%3)\n"                                                                  \
    "%%10 = sink void (%%9) {name=\"twice\"}\n"

/* y = 2 x with both arrays at any distance from a multiple of 64 bytes. */
static void test_CG_15_any_byte_address_gives_the_same(void **state) {
    (void)state;
    static const struct {
        const char *dtype;
        size_t bytes;
        int n;
    } t[] = {{"f32", 4, 1000}, {"f64", 8, 333}, {"i16", 2, 1001},    {"i64", 8, 65},
             {"u8", 1, 1000},  {"f32", 4, 5},   {"f32", 4, 1 << 16}, {"f64", 8, 1 << 16}};
    enum { MOST = 8 << 16 };
    static unsigned char x[MOST + 128], y[MOST + 128], want[MOST];
    for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
        const char *d = t[k].dtype;
        tolk_program *p = rt_compile(&r, rt_text(MAP2, t[k].n, d, d, d, d, d, d));
        size_t n = (size_t)t[k].n, whole = n * t[k].bytes;
        for (int xo = 0; xo < 64; xo += xo < 8 ? 1 : 13)
            for (int yo = 0; yo < 64; yo += yo < 8 ? 1 : 13) {
                unsigned char *from = x + xo, *to = y + yo;
                for (size_t i = 0; i < n; i++) {
                    double v = (double)(i % 50);
                    float f = (float)v;
                    int64_t whole_number = (int64_t)v;
                    const void *e = *d == 'f' ? t[k].bytes == 4 ? (void *)&f : (void *)&v
                                              : (void *)&whole_number;
                    memcpy(from + i * t[k].bytes, e, t[k].bytes);
                    v *= 2;
                    f *= 2;
                    whole_number *= 2;
                    memcpy(want + i * t[k].bytes, e, t[k].bytes);
                }
                memset(y, 0xee, sizeof y);
                void *bufs[] = {to, from};
                size_t bytes[] = {whole, whole};
                assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
                assert_memory_equal(to, want, whole);
                for (int i = 0; i < yo; i++)
                    assert_int_equal(y[i], 0xee);
                assert_int_equal(to[whole], 0xee);
            }
        tolk_program_unref(p);
    }
}

/* Nor is LLVM told of any alignment, which it might use one day. */
static void test_CG_15_code_promises_no_alignment(void **state) {
    (void)state;
    tolk_graph *g;
    const tolk_uop *root;
    char *ir;
    size_t len;
    const char *text = rt_text(MAP2, 1001, "f32", "f32", "f32", "f32", "f32", "f32");
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &root, NULL), TOLK_OK);
    assert_int_equal(tolk_emit(r.ctx, root, NULL, TOLK_EMIT_LLVM, &ir, &len, NULL), TOLK_OK);
    int accesses = 0;
    for (char *line = strtok(ir, "\n"); line; line = strtok(NULL, "\n")) {
        const char *align = strstr(line, ", align ");
        if (!align || !strstr(line, "float"))
            continue;
        accesses++;
        if (strcmp(align, ", align 1") != 0)
            fail_msg("%s", line);
    }
    assert_true(accesses >= 2);
    tolk_free_text(r.ctx, ir);
    tolk_graph_destroy(g);
}

/* A sum and a gather from odd addresses; and in place at one. */
static void test_CG_15_sums_gathers_and_in_place_at_odd_addresses(void **state) {
    (void)state;
    static unsigned char memory[3][4200];
    for (int o = 0; o < 16; o++) {
        float v, s = -1;
        for (int i = 0; i < 1000; i++) {
            v = (float)(i % 10);
            memcpy(memory[0] + o + 4 * i, &v, 4);
        }
        tolk_program *p = rt_compile(&r, rt_text(SUM, 1000));
        void *sum_bufs[] = {memory[1] + (16 - o), memory[0] + o};
        size_t sum_bytes[] = {4, 4000};
        assert_int_equal(tolk_launch(p, sum_bufs, sum_bytes, 2, NULL, 0, NULL), TOLK_OK);
        memcpy(&s, sum_bufs[0], 4);
        assert_true(s == 4500);
        tolk_program_unref(p);
        p = rt_compile(&r, RT_GATHER);
        for (int32_t i = 0; i < 100; i++) {
            int32_t at = 99 - i;
            memcpy(memory[2] + o + 4 * i, &at, 4);
        }
        void *bufs[] = {memory[1] + 16 - o, memory[0] + o, memory[2] + o};
        size_t bytes[] = {400, 400, 400};
        int64_t n = 100;
        assert_int_equal(tolk_launch(p, bufs, bytes, 3, &n, 1, NULL), TOLK_OK);
        for (int i = 0; i < 100; i++) {
            memcpy(&v, memory[1] + 16 - o + 4 * i, 4);
            assert_true(v == (float)((99 - i) % 10));
        }
        tolk_program_unref(p);
        p = rt_compile(&r, rt_text(RT_SCALE, 1000, "3"));
        void *same[] = {memory[0] + o, memory[0] + o};
        size_t same_bytes[] = {4000, 4000};
        assert_int_equal(tolk_launch(p, same, same_bytes, 2, NULL, 0, NULL), TOLK_OK);
        for (int i = 0; i < 1000; i++) {
            memcpy(&v, memory[0] + o + 4 * i, 4);
            assert_true(v == 3 * (float)(i % 10));
        }
        tolk_program_unref(p);
    }
}

/* ---- arguments that share memory ---- */

/* y[i] = a[i] + b[i], z[i] = a[i] b[i] for i < 8. */
static tolk_program *two_outputs(void) {
    tolk_graph *g;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    const int64_t dims[] = {8};
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *y = tolk_param(g, TOLK_F32, dims, 1, 0, "y");
    const tolk_uop *z = tolk_param(g, TOLK_F32, dims, 1, 1, "z");
    const tolk_uop *a = tolk_param(g, TOLK_F32, dims, 1, 2, "a");
    const tolk_uop *b = tolk_param(g, TOLK_F32, dims, 1, 3, "b");
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, 8), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *x = tolk_load(g, tolk_index(g, a, &i, 1)),
                   *w = tolk_load(g, tolk_index(g, b, &i, 1));
    const tolk_uop *e[] = {tolk_store(g, tolk_index(g, y, &i, 1), tolk_add(g, x, w)),
                           tolk_store(g, tolk_index(g, z, &i, 1), tolk_mul(g, x, w))};
    for (int k = 0; k < 2; k++)
        e[k] = tolk_end(g, e[k], &i, 1);
    const tolk_uop *s = tolk_sink(g, e, 2, "both");
    if (tolk_graph_error(g, &err) || tolk_compile(r.cpu, s, NULL, &p, &err))
        fail_msg("%s", err.msg);
    tolk_graph_destroy(g);
    return p;
}

static void test_ALIAS_outputs_never_share_and_inputs_may(void **state) {
    (void)state;
    tolk_program *p = two_outputs();
    float m[64];
    static const struct {
        int y, z, a, b; /* where each begins in m */
        const char *first, *second;
    } refused[] = {
        {0, 0, 16, 24, "\"y\"", "\"z\""}, /* two outputs in one place */
        {0, 4, 16, 24, "\"y\"", "\"z\""}, {7, 0, 16, 24, "\"y\"", "\"z\""},
        {0, 8, 1, 24, "\"y\"", "\"a\""}, /* an input shifted against an output */
        {0, 8, 16, 15, "\"z\"", "\"b\""},
    };
    size_t bytes[] = {32, 32, 32, 32};
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        void *bufs[] = {m + refused[k].y, m + refused[k].z, m + refused[k].a, m + refused[k].b};
        tolk_error err = TOLK_ERROR_INIT;
        for (int i = 0; i < 64; i++)
            m[i] = (float)i;
        assert_int_equal(tolk_launch(p, bufs, bytes, 4, NULL, 0, &err), TOLK_E_ALIAS);
        if (!strstr(err.msg, refused[k].first) || !strstr(err.msg, refused[k].second))
            fail_msg("%zu: \"%s\"", k, err.msg);
        for (int i = 0; i < 64; i++)
            assert_true(m[i] == (float)i); /* nothing was run */
    }
    /* inputs share as they like, and buffers may touch */
    for (int shift = 0; shift < 9; shift += 4) {
        void *bufs[] = {m, m + 8, m + 16, m + 16 + shift};
        for (int i = 0; i < 64; i++)
            m[i] = (float)i;
        assert_int_equal(tolk_launch(p, bufs, bytes, 4, NULL, 0, NULL), TOLK_OK);
        for (int i = 0; i < 8; i++) {
            float a = (float)(16 + i), b = (float)(16 + shift + i);
            assert_true(m[i] == a + b && m[8 + i] == a * b);
        }
    }
    tolk_program_unref(p);
}

/* ALIAS-03: the first 3 of 5 elements times 10 in place, once. */
static void test_ALIAS_03_part_of_an_array_in_place_happens_once(void **state) {
    (void)state;
    float t[] = {1, 2, 3, 4, 5};
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 3, "10"));
    void *bufs[] = {t, t};
    size_t bytes[] = {sizeof t, sizeof t};
    assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
    static const float want[] = {10, 20, 30, 4, 5};
    assert_memory_equal(t, want, sizeof t);
    tolk_program_unref(p);
}

/* ---- nothing to do ---- */

static const tolk_uop *zero_index(tolk_graph *g) {
    return tolk_const_int(g, TOLK_INDEX, 0);
}

/* EMPTY-01: (4, 0) x (0, 4) over an output full of NaN, and other reductions over nothing. */
static void test_EMPTY_01_reductions_over_nothing_give_the_identity(void **state) {
    (void)state;
    static const struct {
        tolk_reduce_op op;
        double want;
    } t[] = {{TOLK_REDUCE_ADD, 0}, {TOLK_REDUCE_MUL, 1}, {TOLK_REDUCE_MAX, -INFINITY}};
    for (int k = 0; k < 3; k++) {
        tolk_graph *g;
        tolk_program *p = NULL;
        tolk_error err = TOLK_ERROR_INIT;
        assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
        const int64_t yd[] = {4, 4}, ad[] = {4, 0}, bd[] = {0, 4};
        const tolk_uop *four = tolk_const_int(g, TOLK_INDEX, 4);
        const tolk_uop *y = tolk_param(g, TOLK_F64, yd, 2, 0, "y");
        const tolk_uop *a = tolk_param(g, TOLK_F64, ad, 2, 1, "a");
        const tolk_uop *b = tolk_param(g, TOLK_F64, bd, 2, 2, "b");
        const tolk_uop *i = tolk_range(g, four, 0, TOLK_AXIS_GLOBAL);
        const tolk_uop *j = tolk_range(g, four, 1, TOLK_AXIS_GLOBAL);
        const tolk_uop *c = tolk_range(g, zero_index(g), 2, TOLK_AXIS_REDUCE);
        const tolk_uop *ai[] = {i, c}, *bi[] = {c, j}, *yi[] = {i, j}, *loops[] = {i, j};
        const tolk_uop *v = tolk_mul(g, tolk_load(g, tolk_index(g, a, ai, 2)),
                                     tolk_load(g, tolk_index(g, b, bi, 2)));
        v = tolk_reduce(g, t[k].op, v, &c, 1);
        const tolk_uop *e = tolk_end(g, tolk_store(g, tolk_index(g, y, yi, 2), v), loops, 2);
        const tolk_uop *s = tolk_sink(g, &e, 1, "matmul");
        if (tolk_graph_error(g, &err) || tolk_compile(r.cpu, s, NULL, &p, &err))
            fail_msg("%s", err.msg);
        double out[16];
        for (int n = 0; n < 16; n++)
            out[n] = NAN;
        void *bufs[] = {out, NULL, NULL}; /* no bytes: no address is needed */
        size_t bytes[] = {sizeof out, 0, 0};
        if (tolk_launch(p, bufs, bytes, 3, NULL, 0, &err))
            fail_msg("%s", err.msg);
        for (int n = 0; n < 16; n++)
            assert_true(out[n] == t[k].want);
        tolk_program_unref(p);
        tolk_graph_destroy(g);
    }
}

/* EMPTY-03: along an axis with elements of an array without: nothing is written, and no error. */
static void test_EMPTY_03_reductions_of_empty_arrays_write_nothing(void **state) {
    (void)state;
    tolk_graph *g;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const int64_t yd[] = {0}, xd[] = {0, 3};
    const tolk_uop *y = tolk_param(g, TOLK_F32, yd, 1, 0, "y");
    const tolk_uop *x = tolk_param(g, TOLK_F32, xd, 2, 1, "x");
    const tolk_uop *i = tolk_range(g, zero_index(g), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *j = tolk_range(g, tolk_const_int(g, TOLK_INDEX, 3), 1, TOLK_AXIS_REDUCE);
    const tolk_uop *xi[] = {i, j};
    const tolk_uop *v =
        tolk_reduce(g, TOLK_REDUCE_MAX, tolk_load(g, tolk_index(g, x, xi, 2)), &j, 1);
    const tolk_uop *e = tolk_end(g, tolk_store(g, tolk_index(g, y, &i, 1), v), &i, 1);
    const tolk_uop *s = tolk_sink(g, &e, 1, "rows");
    if (tolk_graph_error(g, &err) || tolk_compile(r.cpu, s, NULL, &p, &err))
        fail_msg("%s", err.msg);
    float guard = 7;
    void *none[] = {NULL, NULL}, *some[] = {&guard, &guard};
    size_t bytes[] = {0, 0};
    assert_int_equal(tolk_launch(p, none, bytes, 2, NULL, 0, &err), TOLK_OK);
    assert_int_equal(tolk_launch(p, some, bytes, 2, NULL, 0, &err), TOLK_OK);
    assert_true(guard == 7);
    tolk_program_unref(p);
    tolk_graph_destroy(g);
}

/* A scalar that makes all sizes 0. */
static void test_EMPTY_sizes_of_0_by_a_scalar_run_nothing(void **state) {
    (void)state;
    tolk_program *p = rt_compile(&r, RT_GATHER);
    float y = 5, x[100] = {0};
    int64_t n = 0;
    void *bufs[] = {NULL, x, NULL};
    size_t bytes[] = {0, sizeof x, 0};
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_launch(p, bufs, bytes, 3, &n, 1, &err), TOLK_OK);
    bufs[0] = x + 1; /* in the middle of another, but of no size: it overlaps nothing */
    assert_int_equal(tolk_launch(p, bufs, bytes, 3, &n, 1, &err), TOLK_OK);
    n = 1; /* now it does, and the indices are needed */
    int32_t at = 3;
    bytes[0] = bytes[2] = 4;
    bufs[2] = &at;
    assert_int_equal(tolk_launch(p, bufs, bytes, 3, &n, 1, &err), TOLK_E_ALIAS);
    assert_non_null(strstr(err.msg, "\"y\""));
    assert_non_null(strstr(err.msg, "\"x\""));
    bufs[0] = &y;
    bufs[2] = NULL;
    assert_int_equal(tolk_launch(p, bufs, bytes, 3, &n, 1, &err), TOLK_E_LAUNCH);
    assert_non_null(strstr(err.msg, "param in slot 2"));
    assert_true(y == 5);
    double flops, moved;
    n = 0;
    assert_int_equal(tolk_program_estimate(p, &n, 1, &flops, &moved), TOLK_OK);
    assert_true(flops == 0);
    tolk_program_unref(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warm_launch_takes_no_memory),
        cmocka_unit_test(test_LIM_03_hundreds_of_buffers_are_summed),
        cmocka_unit_test(test_LIM_03_10000_buffers_work_or_are_refused),
        cmocka_unit_test(test_CG_15_any_byte_address_gives_the_same),
        cmocka_unit_test(test_CG_15_code_promises_no_alignment),
        cmocka_unit_test(test_CG_15_sums_gathers_and_in_place_at_odd_addresses),
        cmocka_unit_test(test_ALIAS_outputs_never_share_and_inputs_may),
        cmocka_unit_test(test_ALIAS_03_part_of_an_array_in_place_happens_once),
        cmocka_unit_test(test_EMPTY_01_reductions_over_nothing_give_the_identity),
        cmocka_unit_test(test_EMPTY_03_reductions_of_empty_arrays_write_nothing),
        cmocka_unit_test(test_EMPTY_sizes_of_0_by_a_scalar_run_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
