/* SPDX-License-Identifier: MIT
 *
 * Replays: cases GRAPH of the collection this project tests against, with the values of each, in
 * every way to run a linear.
 */
#include "realize/ways.h"

/* ---- floats ---- */

static const tolk_uop *f32_node(tolk_graph *g, int64_t n, int64_t slot) {
    const tolk_uop *size = tolk_const_int(g, TOLK_INDEX, n);
    const tolk_attr attr = {.key = "slot", .i = slot};
    return tolk_uop_new(g, tolk_op_find("buffer"), TOLK_F32, &size, 1, &attr, 1);
}

/* Bind the node to n times v; the buffer is the bindings'. */
static tolk_buffer *put(const tolk_uop *node, size_t n, float v) {
    tolk_buffer *x = floats(r.cpu, n, v);
    assert_int_equal(tolk_bindings_seed(b, node, x, NULL), TOLK_OK);
    tolk_buffer_unref(x);
    return x;
}

/* y[i] = x[i] + 1, 16 elements; inputs 0 and 1. */
#define PLUS_ONE_KERNEL                                                                            \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 16\n"                                                                        \
    "%1 = param f32 (%0) {slot=0}\n"                                                               \
    "%2 = param f32 (%0) {slot=1}\n"                                                               \
    "%3 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%4 = index f32 (%2, %3)\n"                                                                    \
    "%5 = load f32 (%4)\n"                                                                         \
    "%6 = const f32 0x1p+0\n"                                                                      \
    "%7 = add f32 (%5, %6)\n"                                                                      \
    "%8 = index f32 (%1, %3)\n"                                                                    \
    "%9 = store void (%8, %7)\n"                                                                   \
    "%10 = end void (%9, %3)\n"                                                                    \
    "%11 = sink void (%10) {name=\"plus_one\"}\n"
#define PLUS_ONE                                                                                   \
    PLUS_ONE_KERNEL                                                                                \
    "%30 = param f32 (%0) {slot=0}\n"                                                              \
    "%31 = param f32 (%0) {slot=1}\n"                                                              \
    "%32 = buffer f32 (%0) {slot=2}\n"                                                             \
    "%40 = call void (%11, %31, %30)\n"                                                            \
    "%41 = call void (%11, %32, %30)\n"

static tolk_run_args in_out(const tolk_uop **pair, const tolk_uop *in, const tolk_uop *out) {
    tolk_run_args a = TOLK_RUN_INIT;
    pair[0] = in;
    pair[1] = out;
    a.inputs = pair;
    a.n_inputs = out ? 2 : 1;
    return a;
}

static void test_GRAPH_01_each_run_has_a_result_of_its_own(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *a1 = f32_node(g, N, 10), *a2 = f32_node(g, N, 11), *node[6], *pair[2];
    for (int i = 0; i < 6; i++)
        node[i] = f32_node(g, N, 20 + i);
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        tolk_buffer *out[6];
        way_open(&w, k, PLUS_ONE, "%40", NULL);
        (void)put(a1, N, 1.1F);
        (void)put(a2, N, 1.2F);
        for (int i = 0; i < 6; i++)
            out[i] = put(node[i], N, -1);
        for (int i = 0; i < 4; i++) { /* the last two are replays of a jit */
            tolk_run_args a = in_out(pair, i % 2 ? a2 : a1, node[i]);
            way_well(&w, &a);
        }
        for (int i = 0; i < 4; i++)
            check_floats(out[i], (i % 2 ? 1.2F : 1.1F) + 1);
        /* A result goes in again, for a result elsewhere. */
        tolk_run_args a = in_out(pair, node[2], node[4]);
        way_well(&w, &a);
        a = in_out(pair, node[4], node[5]);
        way_well(&w, &a);
        check_floats(out[2], 1.1F + 1);
        check_floats(out[4], (1.1F + 1) + 1);
        check_floats(out[5], ((1.1F + 1) + 1) + 1);
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

/* Where the result is the linear's own, a jit refuses it as input: it would be overwritten. */
static void test_GRAPH_01_a_result_of_the_linear_is_refused_as_input(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *in = f32_node(g, N, 10), *out = f32_node(g, N, 2), *pair[2];
    for (way_kind k = WAY_JIT; k < WAYS; k++) {
        way w;
        way_open(&w, k, PLUS_ONE, "%41", NULL);
        tolk_buffer *r1 = put(out, N, 0);
        for (int i = 0; i < 4; i++) {
            (void)put(in, N, i % 2 ? 1.2F : 1.1F);
            tolk_run_args a = in_out(pair, in, NULL);
            way_well(&w, &a);
            check_floats(r1, (i % 2 ? 1.2F : 1.1F) + 1);
        }
        tolk_run_args a = in_out(pair, out, NULL);
        assert_int_equal(way_run(&w, &a), TOLK_E_ALIAS);
        check_contains(err.msg, "input 0");
        check_floats(r1, 1.2F + 1);
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

/* ---- GRAPH-03: a copy from host memory, which is then other memory ---- */

#define FROM_HOST                                                                                  \
    PLUS_ONE_KERNEL                                                                                \
    "%30 = buffer f32 (%0) {slot=0}\n"                                                             \
    "%31 = buffer f32 (%0) {slot=1}\n"                                                             \
    "%32 = buffer f32 (%0) {slot=2}\n"                                                             \
    "%39 = copy f32 (%30) {device=\"CPU\"}\n"                                                      \
    "%40 = call void (%39, %31, %30)\n"                                                            \
    "%41 = call void (%11, %32, %31)\n"

/* Host memory that is poisoned and freed when the buffer over it gives it up. */
typedef struct block {
    float *at;
    _Atomic int released;
} block;

static void recycle(void *user) {
    block *h = user;
    h->released++;
    memset(h->at, 0xcb, N * sizeof(float));
    free(h->at);
}

static tolk_buffer *over_host(const tolk_uop *node, float v, block *host) {
    tolk_buffer *x = NULL;
    host->at = malloc(N * sizeof(float));
    for (int i = 0; i < N; i++)
        host->at[i] = v;
    tolk_buffer_opts o = TOLK_BUFFER_OPTS_INIT;
    o.external = host->at;
    o.release = recycle;
    o.user = host;
    assert_int_equal(tolk_buffer_create(r.cpu, TOLK_F32, N, &o, &x, &err), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(b, node, x, NULL), TOLK_OK);
    return x;
}

static void test_GRAPH_03_host_memory_of_a_copy_that_was_recorded(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *from = f32_node(g, N, 0), *to = f32_node(g, N, 2);
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        block host = {NULL, 0};
        way_open(&w, k, FROM_HOST, "%40, %41", NULL);
        (void)put(f32_node(g, N, 1), N, 0);
        tolk_buffer *y = put(to, N, 0), *x = over_host(from, 1, &host);
        for (int i = 0; i < 4; i++) { /* a run reads what is there then */
            for (int e = 0; e < N; e++)
                host.at[e] = (float)i;
            way_well(&w, NULL);
            check_floats(y, (float)i + 1);
        }
        /* Freed under what was recorded: an error that names it, and the memory is nobody's. */
        assert_int_equal(tolk_buffer_free(x, NULL), TOLK_OK);
        assert_int_equal(host.released, 1);
        assert_int_equal(way_run(&w, NULL), TOLK_E_FREED);
        check_floats(y, 4);
        tolk_buffer_unref(x);
        /* Other memory takes its place; dropped right after a run, it stays as long as that. */
        x = over_host(from, 7, &host);
        tolk_buffer_unref(x);
        way_well(&w, NULL);
        tolk_bindings_remove(b, from);
        check_floats(y, 8);
        assert_int_equal(tolk_device_await(r.cpu, NULL), TOLK_OK);
        assert_int_equal(host.released, 2);
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

/* ---- GRAPH-05: f(a[8], b[8]) replayed with a[8] and b[5] ---- */

#define SUM                                                                                        \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 8\n"                                                                         \
    "%1 = param f32 (%0) {slot=0}\n"                                                               \
    "%2 = param f32 (%0) {slot=1}\n"                                                               \
    "%3 = param f32 (%0) {slot=2}\n"                                                               \
    "%4 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%5 = index f32 (%2, %4)\n"                                                                    \
    "%6 = load f32 (%5)\n"                                                                         \
    "%7 = index f32 (%3, %4)\n"                                                                    \
    "%8 = load f32 (%7)\n"                                                                         \
    "%9 = add f32 (%6, %8)\n"                                                                      \
    "%10 = index f32 (%1, %4)\n"                                                                   \
    "%11 = store void (%10, %9)\n"                                                                 \
    "%12 = end void (%11, %4)\n"                                                                   \
    "%13 = sink void (%12) {name=\"sum\"}\n"                                                       \
    "%30 = param f32 (%0) {slot=0}\n"                                                              \
    "%31 = param f32 (%0) {slot=1}\n"                                                              \
    "%32 = buffer f32 (%0) {slot=2}\n"                                                             \
    "%33 = buffer f32 (%0) {slot=3}\n"                                                             \
    "%40 = call void (%13, %32, %30, %31)\n"                                                       \
    "%41 = call void (%13, %33, %32, %31)\n"

static void test_GRAPH_05_an_input_that_became_smaller(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *a = f32_node(g, 8, 10), *c = f32_node(g, 8, 11), *y = f32_node(g, 8, 3);
    const tolk_uop *small = f32_node(g, 5, 12), *pair[2];
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, SUM, "%40, %41", NULL);
        (void)put(a, 8, 1);
        (void)put(c, 8, 2);
        (void)put(f32_node(g, 8, 2), 8, 0);
        (void)put(y, 8, 0);
        tolk_run_args args = in_out(pair, a, c);
        for (int i = 0; i < 3; i++)
            way_well(&w, &args);
        tolk_buffer *out = put(y, 8, -1);
        uint64_t before = counters().launches;
        (void)put(small, 5, 3);
        for (int same_node = 0; same_node < 2; same_node++) {
            if (same_node)
                (void)put(c, 5, 3); /* the node that it was, bound to less */
            args = in_out(pair, a, same_node ? c : small);
            tolk_status st = way_run(&w, &args);
            assert_int_equal(st, k >= WAY_JIT ? TOLK_E_SHAPE : TOLK_E_LAUNCH);
            check_contains(err.msg, k >= WAY_JIT ? "input 1 has 5 elements, expected 8" : "sum");
            assert_int_equal(counters().launches, before);
            check_floats(out, -1);
        }
        (void)put(c, 8, 4);
        way_well(&w, &args);
        check_floats(out, 9);
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

/* ---- GRAPH-07: run 0 as it is, run 1 captured, runs 2 to 5 replayed ---- */

enum { WIDTH = 40, LINKS = 30, PLACES = 6 };

/* Nodes %a ...: y[i] = (i - from < 0 or >= count ? pad : x[i - from]) * factor + z[i]. */
static size_t pad_kernel(char *at, size_t size, int a, int from, int count, double factor,
                         double pad) {
    return (size_t)snprintf(
        at, size,
        "%%%d = param f32 (%%1) {slot=0}\n%%%d = param f32 (%%1) {slot=1}\n"
        "%%%d = param f32 (%%1) {slot=2}\n%%%d = const index %d\n%%%d = const index %d\n"
        "%%%d = sub index (%%2, %%%d)\n%%%d = const index 0\n%%%d = cmplt bool (%%%d, %%%d)\n"
        "%%%d = cmplt bool (%%%d, %%%d)\n%%%d = const bool true\n%%%d = xor bool (%%%d, %%%d)\n"
        "%%%d = and bool (%%%d, %%%d)\n%%%d = where index (%%%d, %%%d, %%3)\n"
        "%%%d = index f32 (%%%d, %%%d)\n%%%d = load f32 (%%%d)\n%%%d = const f32 %a\n"
        "%%%d = where f32 (%%%d, %%%d, %%%d)\n%%%d = const f32 %a\n%%%d = mul f32 (%%%d, %%%d)\n"
        "%%%d = index f32 (%%%d, %%2)\n%%%d = load f32 (%%%d)\n%%%d = add f32 (%%%d, %%%d)\n"
        "%%%d = index f32 (%%%d, %%2)\n%%%d = store void (%%%d, %%%d)\n"
        "%%%d = end void (%%%d, %%2)\n%%%d = sink void (%%%d) {name=\"pad\"}\n",
        a, a + 1, a + 2, a + 3, from, a + 4, count, a + 5, a + 3, a + 6, a + 7, a + 5, a + 6, a + 8,
        a + 5, a + 4, a + 9, a + 10, a + 7, a + 9, a + 11, a + 8, a + 10, a + 12, a + 11, a + 5,
        a + 13, a + 1, a + 12, a + 14, a + 13, a + 15, pad, a + 16, a + 11, a + 14, a + 15, a + 17,
        factor, a + 18, a + 16, a + 17, a + 19, a + 2, a + 20, a + 19, a + 21, a + 18, a + 20,
        a + 22, a, a + 23, a + 22, a + 21, a + 24, a + 23, a + 25, a + 24);
}

/* y[i] = x[at[i]] * factor - z[i]. */
static size_t gather_kernel(char *at, size_t size, int a, double factor) {
    return (size_t)snprintf(
        at, size,
        "%%%d = param f32 (%%1) {slot=0}\n%%%d = param f32 (%%1) {slot=1}\n"
        "%%%d = param f32 (%%1) {slot=2}\n%%%d = param i32 (%%1) {slot=3}\n"
        "%%%d = index i32 (%%%d, %%2)\n%%%d = load i32 (%%%d)\n%%%d = cast index (%%%d)\n"
        "%%%d = index f32 (%%%d, %%%d)\n%%%d = load f32 (%%%d)\n%%%d = const f32 %a\n"
        "%%%d = mul f32 (%%%d, %%%d)\n%%%d = index f32 (%%%d, %%2)\n%%%d = load f32 (%%%d)\n"
        "%%%d = sub f32 (%%%d, %%%d)\n%%%d = index f32 (%%%d, %%2)\n"
        "%%%d = store void (%%%d, %%%d)\n%%%d = end void (%%%d, %%2)\n"
        "%%%d = sink void (%%%d) {name=\"gather\"}\n",
        a, a + 1, a + 2, a + 3, a + 4, a + 3, a + 5, a + 4, a + 6, a + 5, a + 7, a + 1, a + 6,
        a + 8, a + 7, a + 9, factor, a + 10, a + 8, a + 9, a + 11, a + 2, a + 12, a + 11, a + 13,
        a + 10, a + 12, a + 14, a, a + 15, a + 14, a + 13, a + 16, a + 15, a + 17, a + 16);
}

/* A chain: link i reads what link i - 1 made and something older. %60 is the input, %61 to %64
 * what lies between, %65 the result, %66 the places of gathers. */
static void random_chain(uint64_t *s, char *text, size_t size, char *list, size_t list_size) {
    enum { KERNELS = 5 };
    size_t n = (size_t)snprintf(text, size,
                                "tolk.uop 1\n%%1 = const index %d\n"
                                "%%2 = range index (%%1) {axis=0, kind=global}\n"
                                "%%3 = const index invalid\n",
                                WIDTH);
    for (int k = 0; k < KERNELS; k++) {
        double factor = (double)(int)(tk_test_rand(s) % 200) / 77 - 1.3;
        int from = (int)(tk_test_rand(s) % 9) - 4, count = WIDTH - (int)(tk_test_rand(s) % 9) - 4;
        n += k % 2 ? gather_kernel(text + n, size - n, 100 + 40 * k, factor)
                   : pad_kernel(text + n, size - n, 100 + 40 * k, from, count, factor, 0.1 * k);
    }
    n += (size_t)snprintf(text + n, size - n, "%%60 = param f32 (%%1) {slot=0}\n");
    for (int i = 1; i < PLACES; i++)
        n += (size_t)snprintf(text + n, size - n, "%%%d = buffer f32 (%%1) {slot=%d}\n", 60 + i, i);
    n += (size_t)snprintf(text + n, size - n, "%%66 = buffer i32 (%%1) {slot=9}\n");
    int last = 60, older = 60;
    list[0] = 0;
    for (int i = 0; i < LINKS; i++) {
        int to = i == LINKS - 1 ? 65 : 61 + (int)(tk_test_rand(s) % 4);
        int k = (int)(tk_test_rand(s) % KERNELS);
        if (to == last || to == older) { /* apart from what it reads elsewhere */
            i--;
            continue;
        }
        n += (size_t)snprintf(text + n, size - n, "%%%d = call void (%%%d, %%%d, %%%d, %%%d%s)\n",
                              500 + i, 100 + 40 * k + (k % 2 ? 17 : 25), to, last, older,
                              k % 2 ? ", %66" : "");
        snprintf(list + strlen(list), list_size - strlen(list), "%s%%%d", i ? ", " : "", 500 + i);
        if (tk_test_rand(s) % 3 == 0 && last != 60)
            older = last;
        last = to;
    }
    assert_true(n < size);
}

static void seed_chain(tolk_graph *g, uint64_t number, int run) {
    uint64_t s = number * 77 + (uint64_t)run;
    float x[WIDTH];
    int32_t at[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        x[i] = (float)((double)(tk_test_rand(&s) % 20001) / 10000 - 1);
        at[i] = (int32_t)(tk_test_rand(&s) % WIDTH);
    }
    tolk_buffer *in = put(f32_node(g, WIDTH, 0), WIDTH, 0), *places = seed(WIDTH, 9, NULL, 0, 0);
    assert_int_equal(tolk_buffer_copyin(in, 0, x, sizeof x, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(places, 0, at, sizeof at, NULL), TOLK_OK);
    (void)put(f32_node(g, WIDTH, PLACES - 1), WIDTH, 0);
}

static void one_chain(uint64_t number) {
    static char text[16384], list[1000];
    uint64_t s = tk_test_seed() + number;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    random_chain(&s, text, sizeof text, list, sizeof list);
    const tolk_uop *in = f32_node(g, WIDTH, 0), *out = f32_node(g, WIDTH, PLACES - 1), *pair[2];
    float eager[6][WIDTH], got[WIDTH];
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, text, list, NULL);
        for (int run = 0; run < 6; run++) {
            tolk_buffer *y = NULL;
            seed_chain(g, number, run / 2); /* two runs of each input */
            tolk_run_args a = in_out(pair, in, NULL);
            way_well(&w, &a);
            assert_int_equal(tolk_bindings_find(b, out, &y, NULL, NULL), TOLK_OK);
            assert_int_equal(tolk_buffer_copyout(y, 0, got, sizeof got, NULL), TOLK_OK);
            if (k == WAY_RUN)
                memcpy(eager[run], got, sizeof got);
            if (memcmp(got, eager[run], sizeof got) != 0)
                fail_msg("chain %d, %s: run %d has other bits", (int)number, way_names[k], run);
        }
        assert_memory_equal(eager[0], eager[1], sizeof got);
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

static void test_GRAPH_07_chains_of_thirty_kernels(void **state) {
    (void)state;
    for (uint64_t i = 0, n = tk_test_count(200); i < n; i++)
        one_chain(i);
}

/* ---- GRAPH-09 ---- */

typedef struct hold {
    _Atomic int go;
} hold;
static tolk_status holding(void *arg, tolk_error *e) {
    hold *h = arg;
    (void)e;
    while (!h->go)
        rt_sleep(0.0005);
    return TOLK_OK;
}

/* Runs that are queued, one behind the other, have what each was given. */
static void test_GRAPH_09_runs_in_a_row_without_waiting(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *pair[2];
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        hold h = {0};
        way_open(&w, k, PLUS_ONE, "%40", NULL);
        for (int i = 0; i < 8; i++) {
            (void)put(f32_node(g, N, 10 + i), N, (float)i);
            (void)put(f32_node(g, N, 20 + i), N, -1);
        }
        for (int i = 0; i < 8; i++) {
            if (i == 3)
                assert_int_equal(tolk_queue_submit(r.cpu, holding, &h, NULL, "hold", &err),
                                 TOLK_OK);
            tolk_run_args a = in_out(pair, f32_node(g, N, 10 + i), f32_node(g, N, 20 + i));
            way_well(&w, &a);
            /* What is bound next is none of the runs before. */
            tolk_bindings_remove(b, pair[0]);
            if (i == 6)
                h.go = 1;
        }
        for (int i = 0; i < 8; i++) {
            tolk_buffer *y = NULL;
            assert_int_equal(tolk_bindings_find(b, f32_node(g, N, 20 + i), &y, NULL, NULL),
                             TOLK_OK);
            check_floats(y, (float)i + 1);
        }
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

/* Kernels of another device: recorded anew there, or refused by a jit. */
static void test_GRAPH_09_inputs_on_another_device(void **state) {
    (void)state;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *pair[2];
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, PLUS_ONE, "%40", NULL);
        for (int i = 0; i < 6; i++) {
            bool other = i >= 3 && i < 5;
            tolk_device *d = other ? device_of(&r, "CPU:1") : r.cpu;
            tolk_buffer *x = floats(d, N, (float)i), *y = floats(d, N, -1);
            pair[0] = f32_node(g, N, 10);
            pair[1] = f32_node(g, N, 20);
            assert_int_equal(tolk_bindings_seed(b, pair[0], x, NULL), TOLK_OK);
            assert_int_equal(tolk_bindings_seed(b, pair[1], y, NULL), TOLK_OK);
            tolk_run_args a = in_out(pair, pair[0], pair[1]);
            tolk_status st = way_run(&w, &a);
            if (other && k >= WAY_JIT) {
                assert_int_equal(st, TOLK_E_DEVICE);
                check_contains(err.msg, "CPU:1");
                check_floats(y, -1);
            } else {
                if (st)
                    fail_msg("%s: %s", way_names[k], err.msg);
                check_floats(y, (float)i + 1);
            }
            tolk_buffer_unref(x);
            tolk_buffer_unref(y);
        }
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_GRAPH_01_each_run_has_a_result_of_its_own),
        TEST(test_GRAPH_01_a_result_of_the_linear_is_refused_as_input),
        TEST(test_GRAPH_03_host_memory_of_a_copy_that_was_recorded),
        TEST(test_GRAPH_05_an_input_that_became_smaller),
        TEST(test_GRAPH_07_chains_of_thirty_kernels),
        TEST(test_GRAPH_09_runs_in_a_row_without_waiting),
        TEST(test_GRAPH_09_inputs_on_another_device),
    };
    return cmocka_run_group_tests_name("case_graph", tests, NULL, NULL);
}
