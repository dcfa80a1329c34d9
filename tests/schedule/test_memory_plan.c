/* SPDX-License-Identifier: MIT
 *
 * Where buffers between calls lie: the vector of appendix A, what is not planned, and random
 * linears, whose plans are compared with a model of lifetimes and run by a model of the calls.
 */
#include "schedule/memory_plan.h"

#include "calls.h"

static const tolk_uop *plan_of(tolk_graph *g, const tolk_uop *linear, const tolk_uop *const *held,
                               size_t n_held, tk_walk_list *arenas) {
    const tolk_uop *out = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tk_memory_plan_own own;
    tk_memory_plan_own_init(&own, g->al);
    if (tk_memory_plan(g, linear, held, n_held, &out, &own, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    if (arenas) { /* the caller's */
        *arenas = own.arenas;
        tk_vec_init(&own.arenas, g->al);
    }
    tk_memory_plan_own_fini(&own);
    return out;
}

static const tolk_uop *arg(const tolk_uop *linear, uint32_t call, uint32_t i) {
    return linear->src[call]->src[i + 1];
}

/* The argument is a slice of an arena at that byte, of so many f32. */
static void assert_at(const tolk_uop *u, int64_t offset, int64_t n, const tolk_uop *arena) {
    assert_true(tk_uop_is(u, TK_OP_SLICE));
    assert_ptr_equal(u->src[0], arena);
    assert_true(tk_uop_is_int(u->src[1], offset));
    assert_int_equal(tk_uop_int(u, TK_A_SLICE_COUNT), n);
    assert_int_equal(u->dtype, TOLK_F32);
}

static int64_t arena_bytes(const tolk_uop *arena) {
    assert_true(tk_uop_is(arena, TK_OP_BUFFER) && arena->dtype == TOLK_I8);
    assert_true(tk_uop_int(arena, TK_A_BUFFER_SLOT) < 0);
    return arena->src[0]->attr[0].i;
}

static void test_plan_vector_gives_the_offsets_of_the_reference(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *in = f32s(g, 0, 100), *out = f32s(g, 1, 100), *a = f32s(g, 2, 100);
    const tolk_uop *b = f32s(g, 3, 200), *c = f32s(g, 4, 100), *d = f32s(g, 5, 300);
    const tolk_uop *l = LIST(g, CALL(g, "k0", a, in), CALL(g, "k1", b, a), CALL(g, "k2", c, b),
                             CALL(g, "k3", d, c), CALL(g, "k4", out, d, b));
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, l, (const tolk_uop *[]){in, out}, 2, &arenas);
    assert_int_equal(arenas.n, 1);
    const tolk_uop *arena = arenas.at[0];
    assert_int_equal(arena_bytes(arena), 2816);
    assert_string_equal(tk_uop_str(arena, TK_A_BUFFER_DEVICE), "CPU");
    assert_at(arg(p, 0, 0), 0, 100, arena);
    assert_ptr_equal(arg(p, 0, 1), in);
    assert_at(arg(p, 1, 0), 512, 200, arena);
    assert_ptr_equal(arg(p, 1, 1), arg(p, 0, 0));
    assert_at(arg(p, 2, 0), 0, 100, arena);
    assert_at(arg(p, 3, 0), 1536, 300, arena);
    assert_ptr_equal(arg(p, 4, 0), out);
    assert_ptr_equal(arg(p, 4, 1), arg(p, 3, 0));
    assert_ptr_equal(arg(p, 4, 2), arg(p, 1, 0));
    assert_ptr_equal(p->src[2]->src[0], l->src[2]->src[0]); /* bodies stay */
    tk_vec_fini(&arenas);
    calls_done(g);
}

static void test_plan_one_call_shares_nothing(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *in = f32s(g, 0, 64), *out = f32s(g, 1, 64);
    const tolk_uop *a = f32s(g, 2, 64), *b = f32s(g, 3, 64);
    /* a is used for the last time where b is made: elementwise or not, they lie apart. */
    const tolk_uop *l = LIST(g, CALL(g, "k0", a, in), CALL(g, "k1", b, a), CALL(g, "k2", out, b));
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, l, (const tolk_uop *[]){in, out}, 2, &arenas);
    assert_at(arg(p, 0, 0), 0, 64, arenas.at[0]);
    assert_at(arg(p, 1, 0), 256, 64, arenas.at[0]);
    tk_vec_fini(&arenas);
    calls_done(g);
}

static void test_plan_copies_and_devices_have_arenas_of_their_own(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *in = f32s(g, 0, 64), *out = f32s(g, 1, 64);
    const tolk_uop *a = f32s(g, 2, 64), *b = f32s(g, 3, 64);
    const tolk_uop *c = buffer_of(g, TOLK_F32, 4, 64, "CPU:1");
    const tolk_uop *d = buffer_of(g, TOLK_F32, 5, 64, "CPU:1");
    const tolk_uop *e = buffer_of(g, TOLK_F32, 6, 64, NULL);
    const tolk_uop *l = LIST(g, CALL(g, "k0", a, in), CALL(g, "k1", b, a), copy_call(g, c, b),
                             CALL(g, "k2", d, c), CALL(g, "k3", e, d), CALL(g, "k4", out, e));
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, l, (const tolk_uop *[]){in, out}, 2, &arenas);
    assert_int_equal(arenas.n, 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_ptr_equal(arg(p, i, 0)->src[0], arenas.at[i]);
    assert_ptr_equal(arg(p, 2, 1)->src[0], arenas.at[1]);
    assert_string_equal(tk_uop_str(arenas.at[2], TK_A_BUFFER_DEVICE), "CPU:1");
    assert_string_equal(tk_uop_str(arenas.at[3], TK_A_BUFFER_DEVICE), "CPU:1");
    assert_null(tk_uop_str(arenas.at[4], TK_A_BUFFER_DEVICE));
    for (uint32_t i = 0; i < 5; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_true(tk_uop_int(arenas.at[i], TK_A_BUFFER_SLOT) !=
                        tk_uop_int(arenas.at[k], TK_A_BUFFER_SLOT));
    tk_vec_fini(&arenas);
    calls_done(g);
}

static void test_plan_a_copied_buffer_is_kept_for_as_long_again(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *in = f32s(g, 0, 64), *x[6];
    for (int i = 0; i < 6; i++)
        x[i] = f32s(g, 1 + i, 64);
    const tolk_uop *c[6];
    for (int i = 0; i < 6; i++)
        c[i] = copy_call(g, x[i], in);
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, list_of(g, c, 6), &in, 1, &arenas);
    /* Each in use for one call, kept for one more: three of them at a time would be too early. */
    assert_at(arg(p, 0, 0), 0, 64, arenas.at[0]);
    assert_at(arg(p, 1, 0), 256, 64, arenas.at[0]);
    assert_at(arg(p, 2, 0), 0, 64, arenas.at[0]);
    assert_at(arg(p, 3, 0), 256, 64, arenas.at[0]);
    assert_int_equal(arena_bytes(arenas.at[0]), 512);
    tk_vec_fini(&arenas);
    calls_done(g);
}

static void test_plan_views_keep_what_they_show(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *in = f32s(g, 0, 64), *out = f32s(g, 1, 64), *a = f32s(g, 2, 64);
    const tolk_uop *v = f32s(g, 3, 32), *b = f32s(g, 4, 64);
    const tolk_uop *held[] = {in, out, v};
    const tolk_uop *l = LIST(g, CALL(g, "k0", a, in), slice_call(g, v, a, 32, 32),
                             CALL(g, "k1", b, in), CALL(g, "k2", out, b, v));
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, l, held, 2, &arenas);
    assert_at(arg(p, 0, 0), 0, 64, arenas.at[0]);
    assert_ptr_equal(arg(p, 1, 0), v); /* stands for a view: no memory of its own */
    assert_at(arg(p, 2, 0), 256, 64, arenas.at[0]);
    tk_vec_fini(&arenas);
    /* ALIAS-05: somebody looks at v afterwards, so a stays. */
    p = plan_of(g, l, held, 3, &arenas);
    assert_ptr_equal(arg(p, 0, 0), a);
    assert_at(arg(p, 2, 0), 0, 64, arenas.at[0]);
    tk_vec_fini(&arenas);
    calls_done(g);
}

static void test_plan_a_slice_of_a_buffer_uses_it(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *in = f32s(g, 0, 64), *out = f32s(g, 1, 64), *a = f32s(g, 2, 64);
    const tolk_uop *b = f32s(g, 3, 64), *c = f32s(g, 4, 64);
    const tolk_uop *part = slice_of_node(g, a, 16, 16);
    const tolk_uop *l = LIST(g, CALL(g, "k0", a, in), CALL(g, "k1", b, in), CALL(g, "k2", c, b),
                             CALL(g, "k3", out, c, part));
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, l, (const tolk_uop *[]){in, out}, 2, &arenas);
    assert_at(arg(p, 0, 0), 0, 64, arenas.at[0]);
    assert_at(arg(p, 1, 0), 256, 64, arenas.at[0]);
    assert_at(arg(p, 2, 0), 512, 64, arenas.at[0]); /* a is read again by k3 */
    const tolk_uop *q = arg(p, 3, 2);
    assert_true(tk_uop_is(q, TK_OP_SLICE));
    assert_at(q->src[0], 0, 64, arenas.at[0]);
    assert_true(tk_uop_is_int(q->src[1], 16));
    tk_vec_fini(&arenas);
    calls_done(g);
}

static void test_plan_what_comes_from_outside_stays(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *weight = f32s(g, 0, 64), *x = f32s(g, 1, 64), *y = f32s(g, 2, 64);
    const tolk_uop *none = f32s(g, 3, 0), *p0 = NULL;
    int64_t dim = 64;
    p0 = tolk_param(g, TOLK_F32, &dim, 1, 0, NULL);
    /* Nobody held weight, but it is read before anything wrote it. none has no elements. */
    const tolk_uop *l = LIST(g, CALL(g, "k0", x, weight, p0), CALL(g, "k1", none, x),
                             CALL(g, "k2", weight, x), CALL(g, "k3", y, weight));
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, l, &y, 1, &arenas);
    assert_int_equal(arenas.n, 1);
    assert_ptr_equal(arg(p, 0, 1), weight);
    assert_ptr_equal(arg(p, 0, 2), p0);
    assert_ptr_equal(arg(p, 1, 0), none);
    assert_ptr_equal(arg(p, 2, 0), weight);
    assert_ptr_equal(arg(p, 3, 0), y);
    assert_at(arg(p, 0, 0), 0, 64, arenas.at[0]);
    tk_vec_fini(&arenas);
    calls_done(g);
}

static void test_plan_nothing_to_plan_gives_the_same_linear(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 64), *b = f32s(g, 1, 64);
    const tolk_uop *l = LIST(g, CALL(g, "k0", b, a));
    assert_ptr_equal(plan_of(g, l, (const tolk_uop *[]){a, b}, 2, NULL), l);
    assert_ptr_equal(plan_of(g, list_of(g, NULL, 0), NULL, 0, NULL), list_of(g, NULL, 0));
    tolk_error err = TOLK_ERROR_INIT;
    const tolk_uop *out;
    assert_int_equal(tk_memory_plan(g, a, NULL, 0, &out, NULL, &err), TOLK_E_VERIFY);
    assert_non_null(strstr(err.msg, "buffer"));
    calls_done(g);
}

static void test_plan_environment_turns_it_off(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 64), *b = f32s(g, 1, 64), *c = f32s(g, 2, 64);
    const tolk_uop *l = LIST(g, CALL(g, "k0", b, a), CALL(g, "k1", c, b));
    setenv("TOLK_MEMORY_PLAN", "0", 1);
    const tolk_uop *off = plan_of(g, l, &c, 1, NULL);
    unsetenv("TOLK_MEMORY_PLAN");
    assert_ptr_equal(off, l);
    assert_true(plan_of(g, l, &c, 1, NULL) != l);
    calls_done(g);
}

static void test_plan_graph_of_calls_is_one_call(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *in = f32s(g, 0, 64), *out = f32s(g, 1, 64);
    const tolk_uop *a = f32s(g, 2, 64), *b = f32s(g, 3, 64), *c = f32s(g, 4, 64);
    const tolk_uop *inner = LIST(g, CALL(g, "k0", a, in), CALL(g, "k1", b, a), CALL(g, "k2", c, b));
    tk_attr name = {.blob = tk_blob_str(g, "graph", 5)};
    const tolk_uop *f = tk_uop(g, TK_OP_CUSTOM_FUNCTION, TOLK_VOID, &inner, 1, &name);
    const tolk_uop *l =
        LIST(g, call_of_body(g, f, "graph", (const tolk_uop *[]){NULL}), CALL(g, "k3", out, c));
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, l, (const tolk_uop *[]){in, out}, 2, &arenas);
    const tolk_uop *q = p->src[0]->src[0]->src[0];
    assert_at(arg(q, 0, 0), 0, 64, arenas.at[0]);
    assert_at(arg(q, 1, 0), 256, 64, arenas.at[0]);
    assert_at(arg(q, 2, 0), 512, 64, arenas.at[0]);
    assert_ptr_equal(arg(p, 1, 1), arg(q, 2, 0));
    tk_vec_fini(&arenas);
    calls_done(g);
}

/* ---- many ---- */

enum { LONG = 20000 };

static const tolk_uop *graph_call(tolk_graph *g, const tolk_uop *list) {
    tk_attr name = {.blob = tk_blob_str(g, "graph", 5)};
    const tolk_uop *f = list ? tk_uop(g, TK_OP_CUSTOM_FUNCTION, TOLK_VOID, &list, 1, &name) : NULL;
    return f ? call_of_body(g, f, "graph", (const tolk_uop *[]){NULL}) : NULL;
}

/* A view of a view of ... of a, bound from a on or towards a: its use in the end is one of a. */
static void test_plan_long_chains_of_views_keep_what_they_show(void **state) {
    (void)state;
    for (int reversed = 0; reversed < 2; reversed++) {
        tolk_graph *g = calls_graph(NULL);
        const tolk_uop **calls = malloc((LONG + 4) * sizeof *calls);
        const tolk_uop **view = malloc((LONG + 1) * sizeof *view);
        const tolk_uop *in = f32s(g, 0, 64), *out = f32s(g, 1, 64), *b = f32s(g, 2, 64);
        for (int i = 0; i <= LONG; i++)
            view[i] = f32s(g, 3 + i, 64);
        const tolk_uop *held[] = {in, out, view[LONG]};
        calls[0] = CALL(g, "k0", view[0], in);
        for (int i = 0; i < LONG; i++) {
            int k = reversed ? LONG - 1 - i : i;
            calls[1 + i] = slice_call(g, view[k + 1], view[k], 0, 64);
        }
        calls[LONG + 1] = CALL(g, "k1", b, in);
        calls[LONG + 2] = CALL(g, "k2", out, b, view[LONG]);
        const tolk_uop *l = list_of(g, calls, LONG + 3);
        tk_walk_list arenas;
        const tolk_uop *p = plan_of(g, l, held, 2, &arenas);
        assert_at(arg(p, 0, 0), 0, 64, arenas.at[0]);
        assert_at(arg(p, LONG + 1, 0), 256, 64, arenas.at[0]);
        assert_ptr_equal(arg(p, LONG + 2, 2), view[LONG]);
        tk_vec_fini(&arenas);
        p = plan_of(g, l, held, 3, &arenas);
        assert_ptr_equal(arg(p, 0, 0), view[0]);
        assert_at(arg(p, LONG + 1, 0), 0, 64, arenas.at[0]);
        tk_vec_fini(&arenas);
        free(view);
        free(calls);
        calls_done(g);
    }
}

/* Each use of the last view is one of all behind it, which was said before. */
static void test_plan_many_uses_of_a_long_chain_of_views(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop **calls = malloc((2 * LONG + 3) * sizeof *calls);
    const tolk_uop *in = f32s(g, 0, 64), *a = f32s(g, 1, 64), *b = f32s(g, 2, 64), *view = a;
    const tolk_uop *held[] = {in}, *body = kernel_of(g, "k", 1);
    calls[0] = CALL(g, "k0", a, in);
    for (int i = 0; i < LONG; i++) {
        const tolk_uop *next = f32s(g, 3 + i, 64);
        calls[1 + 2 * i] = slice_call(g, next, view, 0, 64);
        calls[2 + 2 * i] = call_of_body(g, body, "use", (const tolk_uop *[]){b, next, NULL});
        view = next;
    }
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, list_of(g, calls, 2 * LONG + 1), held, 1, &arenas);
    assert_at(arg(p, 0, 0), 0, 64, arenas.at[0]);
    assert_at(arg(p, 2, 0), 256, 64, arenas.at[0]);
    tk_vec_fini(&arenas);
    free(calls);
    calls_done(g);
}

static void test_plan_graphs_in_graphs(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *in = f32s(g, 0, 64), *out = f32s(g, 1, 64), *a = f32s(g, 2, 64);
    const tolk_uop *l = LIST(g, CALL(g, "k0", a, in), CALL(g, "k1", out, a));
    const tolk_uop *outer = l;
    for (int i = 0; i < LONG; i++)
        outer = LIST(g, graph_call(g, outer));
    tk_walk_list arenas;
    const tolk_uop *p = plan_of(g, outer, (const tolk_uop *[]){in, out}, 2, &arenas);
    for (int i = 0; i < LONG; i++)
        p = p->src[0]->src[0]->src[0];
    assert_at(arg(p, 0, 0), 0, 64, arenas.at[0]);
    assert_ptr_equal(arg(p, 1, 1), arg(p, 0, 0));
    tk_vec_fini(&arenas);
    /* Two calls of each: more calls than anybody runs. */
    tolk_error err = TOLK_ERROR_INIT;
    for (int i = 0; i < 40; i++) {
        const tolk_uop *c = graph_call(g, l);
        l = LIST(g, c, c);
    }
    assert_int_equal(tk_memory_plan(g, l, NULL, 0, &p, NULL, &err), TOLK_E_LIMIT);
    assert_non_null(strstr(err.msg, "more than 1048576 calls"));
    calls_done(g);
}

/* ---- random linears ---- */

enum { MOST_BUFFERS = 24, MOST_CALLS = 40 };

typedef struct random_linear {
    tolk_graph *g;
    const tolk_uop *buffer[MOST_BUFFERS];
    bool made[MOST_BUFFERS]; /* written whole, or from outside, or a view */
    bool view[MOST_BUFFERS];
    bool held[MOST_BUFFERS];
    int n;
    const tolk_uop *call[MOST_CALLS];
    int n_calls;
} random_linear;

static int64_t elems_of(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_SLICE) ? tk_uop_int(u, TK_A_SLICE_COUNT) : u->src[0]->attr[0].i;
}

/* A buffer that has contents, or a part of one. */
static const tolk_uop *random_input(random_linear *r, uint64_t *s) {
    for (;;) {
        int i = (int)(tk_test_rand(s) % (uint64_t)r->n);
        if (!r->made[i])
            continue;
        const tolk_uop *u = r->buffer[i];
        int64_t n = elems_of(u);
        if (tk_test_rand(s) % 4 || n < 2)
            return u;
        int64_t at = (int64_t)(tk_test_rand(s) % (uint64_t)n);
        return slice_of_node(r->g, u, at, n - at);
    }
}

static void random_call(random_linear *r, uint64_t *s) {
    int to = (int)(tk_test_rand(s) % (uint64_t)r->n);
    const tolk_uop *out = r->buffer[to], *a = random_input(r, s), *b = random_input(r, s);
    const tolk_uop *call;
    switch (tk_test_rand(s) % 6) {
    case 0: /* a view: of what has no part in its own memory */
        if (r->made[to] || r->held[to] || tk_uop_is(a, TK_OP_SLICE) || out->dtype != a->dtype ||
            elems_of(out) > elems_of(a)) {
            call = CALL(r->g, "k", out, a, b);
            break;
        }
        call = slice_call(r->g, out, a, elems_of(a) - elems_of(out), elems_of(out));
        r->view[to] = true;
        break;
    case 1:
        call = copy_call(r->g, out, a);
        break;
    default:
        call = CALL(r->g, "k", out, a, b);
    }
    r->made[to] = true;
    assert_non_null(call);
    r->call[r->n_calls++] = call;
}

static void random_fill(random_linear *r, uint64_t *s) {
    static const char *const devices[] = {"CPU", "CPU:1", NULL};
    r->n = 4 + (int)(tk_test_rand(s) % (MOST_BUFFERS - 4));
    r->n_calls = 0;
    for (int i = 0; i < r->n; i++) {
        r->buffer[i] = buffer_of(r->g, tk_test_rand(s) % 3 ? TOLK_F32 : TOLK_U8, i,
                                 1 + (int64_t)(tk_test_rand(s) % 300),
                                 devices[tk_test_rand(s) % 8 < 6 ? 0 : 1 + tk_test_rand(s) % 2]);
        r->made[i] = r->held[i] = i < 2 || tk_test_rand(s) % 8 == 0;
        r->view[i] = false;
    }
    int n = 3 + (int)(tk_test_rand(s) % (MOST_CALLS - 3));
    while (r->n_calls < n)
        random_call(r, s);
}

/* ---- a machine that runs linears over bytes ---- */

typedef struct memory {
    uint8_t *bytes;
    size_t n;
} memory;

typedef struct machine {
    memory at[4096]; /* by node */
    bool owned[4096];
} machine;

static size_t size_of(const tolk_uop *u) {
    return (size_t)elems_of(u) * tolk_dtype_bytes(u->dtype);
}

static memory find(machine *m, const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_SLICE)) {
        memory of = find(m, u->src[0]);
        size_t at = (size_t)u->src[1]->attr[0].i * tolk_dtype_bytes(u->src[0]->dtype);
        assert_true(at + size_of(u) <= of.n);
        return (memory){of.bytes + at, size_of(u)};
    }
    assert_true(u->id < 4096);
    memory *x = &m->at[u->id];
    if (!x->bytes) {
        *x = (memory){malloc(size_of(u)), size_of(u)};
        assert_non_null(x->bytes);
        m->owned[u->id] = true;
        for (size_t i = 0; i < x->n; i++) /* what was there before anything ran */
            x->bytes[i] = (uint8_t)(tk_uop_int(u, TK_A_BUFFER_SLOT) * 31 + (int64_t)i);
    }
    return *x;
}

static uint64_t hash_of(memory x, uint64_t h) {
    for (size_t i = 0; i < x.n; i++)
        h = (h ^ x.bytes[i]) * 1099511628211u;
    return h;
}

/* A kernel fills its output with what follows from all bytes that it reads. */
static void run_call(machine *m, const tolk_uop *c, uint64_t number) {
    memory out = find(m, c->src[1]), in = find(m, c->src[2]);
    if (tk_uop_is(c->src[0], TK_OP_SLICE)) {
        size_t n = size_of(c->src[1]), bytes = tolk_dtype_bytes(c->src[2]->dtype);
        size_t at = (size_t)c->src[0]->src[1]->attr[0].i * bytes;
        memory *view = &m->at[c->src[1]->id];
        if (m->owned[c->src[1]->id])
            free(view->bytes);
        m->owned[c->src[1]->id] = false;
        *view = (memory){in.bytes + at, at + n <= in.n ? n : in.n - at};
        return;
    }
    uint64_t h = number * 1469598103934665603u;
    for (uint32_t i = 2; i < c->n_src; i++)
        h = hash_of(find(m, c->src[i]), h);
    for (size_t i = 0; i < out.n; i++)
        out.bytes[i] = (uint8_t)(tk_test_rand(&h) >> 32);
}

static machine *run_list(const tolk_uop *linear) {
    machine *m = calloc(1, sizeof *m);
    assert_non_null(m);
    for (uint32_t i = 0; i < linear->n_src; i++)
        run_call(m, linear->src[i], i);
    return m;
}

static void machine_free(machine *m) {
    for (size_t i = 0; i < 4096; i++)
        if (m->owned[i])
            free(m->at[i].bytes);
    free(m);
}

/* ---- a model of lifetimes ---- */

static bool reaches(const tolk_uop *u, const tolk_uop *what) {
    for (; u != what && tk_uop_is(u, TK_OP_SLICE); u = u->src[0])
        ;
    return u == what;
}

/* First and last call that may touch the bytes that lie at an arena's slice, and whether a copy
 * does: by what the planned calls name, and views of that. */
typedef struct life {
    int first, last;
    bool copied;
} life;

static life life_of(const random_linear *r, const tolk_uop *u) {
    life x = {-1, -1, false};
    bool alias[MOST_BUFFERS] = {false};
    for (int c = 0; c < r->n_calls; c++) {
        const tolk_uop *call = r->call[c];
        bool touches = false, of = false;
        for (uint32_t i = 1; i < call->n_src; i++) {
            bool here = reaches(call->src[i], u);
            for (int b = 0; b < r->n; b++)
                here |= alias[b] && reaches(call->src[i], r->buffer[b]);
            touches |= here;
            of |= here && i > 1;
        }
        if (!touches)
            continue;
        x.first = x.first < 0 ? c : x.first;
        x.last = c;
        x.copied |= tk_uop_is(call->src[0], TK_OP_COPY);
        for (int b = 0; b < r->n; b++)
            alias[b] |= of && tk_uop_is(call->src[0], TK_OP_SLICE) && call->src[1] == r->buffer[b];
    }
    return x;
}

static void check_lives(const random_linear *r, const tolk_uop *planned, uint64_t seed) {
    const tolk_uop *at[MOST_BUFFERS] = {NULL};
    for (int c = 0; c < r->n_calls; c++)
        for (uint32_t i = 1; i < r->call[c]->n_src; i++) {
            const tolk_uop *was = r->call[c]->src[i], *is = planned->src[c]->src[i];
            if (tk_uop_is(was, TK_OP_SLICE)) {
                assert_true(tk_uop_is(is, TK_OP_SLICE) && is->src[1] == was->src[1]);
                was = was->src[0];
                is = is->src[0];
            }
            for (int b = 0; b < r->n; b++)
                if (r->buffer[b] == was && is != was) {
                    assert_true(!at[b] || at[b] == is);
                    at[b] = is;
                }
        }
    for (int b = 0; b < r->n; b++) {
        assert_false(at[b] && (r->held[b] || r->view[b]));
        for (int k = 0; k < b; k++) {
            if (!at[b] || !at[k])
                continue;
            life x = life_of(r, r->buffer[b]), y = life_of(r, r->buffer[k]);
            bool lane = tk_uop_attr(r->buffer[b], TK_A_BUFFER_DEVICE).blob ==
                            tk_uop_attr(r->buffer[k], TK_A_BUFFER_DEVICE).blob &&
                        x.copied == y.copied;
            assert_int_equal(lane, at[b]->src[0] == at[k]->src[0]);
            int64_t p = at[b]->src[1]->attr[0].i, q = at[k]->src[1]->attr[0].i;
            int64_t p_end = p + (int64_t)size_of(at[b]), q_end = q + (int64_t)size_of(at[k]);
            int x_end = x.last + (x.copied ? x.last - x.first + 1 : 0);
            int y_end = y.last + (y.copied ? y.last - y.first + 1 : 0);
            if (lane && p < q_end && q < p_end && x.first <= y_end && y.first <= x_end)
                fail_msg("seed %llu: buffers %d and %d share bytes of one arena while both are "
                         "in use",
                         (unsigned long long)seed, b, k);
        }
    }
}

static void random_plan(uint64_t seed) {
    uint64_t s = seed;
    random_linear *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->g = calls_graph(NULL);
    random_fill(r, &s);
    const tolk_uop *held[MOST_BUFFERS];
    size_t n_held = 0;
    for (int i = 0; i < r->n; i++)
        if (r->held[i])
            held[n_held++] = r->buffer[i];
    const tolk_uop *l = list_of(r->g, r->call, (size_t)r->n_calls);
    const tolk_uop *p = plan_of(r->g, l, held, n_held, NULL);
    check_lives(r, p, seed);
    machine *plain = run_list(l), *planned = run_list(p);
    for (size_t i = 0; i < n_held; i++) {
        memory x = find(plain, held[i]), y = find(planned, held[i]);
        if (memcmp(x.bytes, y.bytes, x.n) != 0)
            fail_msg("seed %llu: buffer %lld is another one with the plan",
                     (unsigned long long)seed, (long long)tk_uop_int(held[i], TK_A_BUFFER_SLOT));
    }
    machine_free(plain);
    machine_free(planned);
    calls_done(r->g);
    free(r);
}

static void test_plan_random_linears_compute_the_same(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed();
    for (uint64_t i = 0, n = tk_test_count(10000); i < n; i++)
        random_plan(seed + i);
}

static tolk_status plan_little(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_graph *g = calls_graph(al);
    if (!g)
        return TOLK_E_NOMEM;
    const tolk_uop *in = f32s(g, 0, 100), *out = f32s(g, 1, 100), *a = f32s(g, 2, 100);
    const tolk_uop *v = f32s(g, 3, 10), *b = f32s(g, 4, 200);
    const tolk_uop *c[4] = {NULL};
    if (!tk_graph_failed(g)) {
        c[0] = CALL(g, "k0", a, in);
        c[1] = slice_call(g, v, a, 3, 10);
        c[2] = copy_call(g, b, v);
        c[3] = CALL(g, "k1", out, b, a);
    }
    const tolk_uop *l = list_of(g, c, 4), *p;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = TOLK_E_NOMEM;
    if (l && !tk_graph_failed(g)) {
        st = tk_memory_plan(g, l, (const tolk_uop *[]){in, out}, 2, &p, NULL, &err);
        assert_int_equal(st, st == TOLK_OK ? TOLK_OK : err.code);
        assert_false(tk_graph_failed(g));
    }
    calls_done(g);
    return st;
}

static void test_plan_without_memory_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(plan_little, NULL) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plan_vector_gives_the_offsets_of_the_reference),
        cmocka_unit_test(test_plan_one_call_shares_nothing),
        cmocka_unit_test(test_plan_copies_and_devices_have_arenas_of_their_own),
        cmocka_unit_test(test_plan_a_copied_buffer_is_kept_for_as_long_again),
        cmocka_unit_test(test_plan_views_keep_what_they_show),
        cmocka_unit_test(test_plan_a_slice_of_a_buffer_uses_it),
        cmocka_unit_test(test_plan_what_comes_from_outside_stays),
        cmocka_unit_test(test_plan_nothing_to_plan_gives_the_same_linear),
        cmocka_unit_test(test_plan_environment_turns_it_off),
        cmocka_unit_test(test_plan_graph_of_calls_is_one_call),
        cmocka_unit_test(test_plan_long_chains_of_views_keep_what_they_show),
        cmocka_unit_test(test_plan_many_uses_of_a_long_chain_of_views),
        cmocka_unit_test(test_plan_graphs_in_graphs),
        cmocka_unit_test(test_plan_random_linears_compute_the_same),
        cmocka_unit_test(test_plan_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
