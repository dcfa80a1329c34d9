/* SPDX-License-Identifier: MIT
 *
 * Orders of calls: what is read, what is overwritten, what waits, cycles, and random graphs whose
 * order is checked by versions of buffers.
 */
#include "schedule/create_schedule.h"

#include "calls.h"

static const tolk_uop *node(tolk_graph *g, tk_op op, const tolk_uop *const *src, size_t n) {
    const tolk_uop *u = tk_uop(g, op, tk_uop_result_dtype(op, src, n, TOLK_VOID), src, n, NULL);
    return u;
}
#define NODE(g, op, ...)                                                                           \
    node(g, op, (const tolk_uop *const[]){__VA_ARGS__},                                            \
         sizeof((const tolk_uop *const[]){__VA_ARGS__}) / sizeof(const tolk_uop *))
#define AFTER(g, ...) NODE(g, TK_OP_AFTER, __VA_ARGS__)
#define SINK(g, ...) NODE(g, TK_OP_SINK, __VA_ARGS__)

static const tolk_uop *schedule(tolk_graph *g, const tolk_uop *sink) {
    const tolk_uop *out = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_create_schedule(g, sink, &out, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    assert_true(tk_uop_is(out, TK_OP_LINEAR));
    return out;
}

static const char *name_at(const tolk_uop *linear, uint32_t i) {
    assert_true(i < linear->n_src && tk_uop_is(linear->src[i], TK_OP_CALL));
    return tk_uop_str(linear->src[i], TK_A_CALL_NAME);
}

static void assert_order(const tolk_uop *linear, const char *names) {
    char text[200] = "";
    for (uint32_t i = 0; i < linear->n_src; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 name_at(linear, i));
    assert_string_equal(text, names);
}

static void test_schedule_stores_are_ignored_and_order_is_kept(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4), *zero = tk_uop_index_const(g, 0);
    const tolk_uop *store = tolk_store(g, tolk_index(g, a, &zero, 1), tk_uop_const(g, TOLK_F32, 0));
    const tolk_uop *u = AFTER(g, a, CALL(g, "k2", a, b), store, CALL(g, "k1", a, b));
    const tolk_uop *l = schedule(g, SINK(g, u));
    assert_order(l, "k2 k1");
    assert_ptr_equal(l->src[0]->src[1], a);
    assert_ptr_equal(l->src[0]->src[2], b);
    calls_done(g);
}

static void test_schedule_arguments_become_buffers(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4), *c = f32s(g, 2, 4);
    const tolk_uop *s = AFTER(g, a, CALL(g, "k0", a, b));
    tk_attr attrs[7] = {{.i = 0},
                        {.blob = tk_blob_str(g, "n", 1)},
                        {.i = TK_SPACE_ALU},
                        {.i = 1},
                        {.i = 9},
                        {.blob = NULL},
                        {.i = -1}};
    const tolk_uop *n = tk_uop(g, TK_OP_PARAM, TOLK_I32, NULL, 0, attrs);
    const tolk_uop *bound = NODE(g, TK_OP_BIND, n, tk_uop_const(g, TOLK_I32, 3));
    const tolk_uop *end =
        NODE(g, TK_OP_END,
             CALL(g, "k1", c, bound, slice_of_node(g, s, 1, 2), NODE(g, TK_OP_CONTIGUOUS, s)));
    const tolk_uop *l = schedule(g, SINK(g, AFTER(g, c, end)));
    assert_order(l, "k0 k1"); /* an end is its call */
    const tolk_uop *k1 = l->src[1];
    assert_int_equal(k1->n_src, 5);
    assert_ptr_equal(k1->src[1], c);
    assert_ptr_equal(k1->src[2], bound); /* keeps its place: arguments are by slot */
    assert_ptr_equal(k1->src[3], slice_of_node(g, a, 1, 2));
    assert_ptr_equal(k1->src[4], a);
    calls_done(g);
}

static void test_schedule_waits_for_all_that_made_a_state(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4), *c = f32s(g, 2, 4);
    const tolk_uop *s = AFTER(g, a, CALL(g, "k0", a, b), CALL(g, "k1", a, b));
    const tolk_uop *d = AFTER(g, b, CALL(g, "k2", b));
    /* k3 takes s, and waits for d that it does not take. */
    const tolk_uop *l = schedule(g, SINK(g, AFTER(g, c, CALL(g, "k3", c, s), d)));
    assert_int_equal(l->n_src, 4);
    assert_string_equal(name_at(l, 3), "k3");
    calls_done(g);
}

static void test_schedule_reader_runs_before_what_overwrites(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4), *c = f32s(g, 2, 4);
    const tolk_uop *write = AFTER(g, a, CALL(g, "write", a, b));
    const tolk_uop *read = AFTER(g, c, CALL(g, "read", c, a));
    assert_order(schedule(g, SINK(g, write, read)), "read write");
    assert_order(schedule(g, SINK(g, read, write)), "read write");
    /* A state that was made: its reader runs before the next one is. */
    const tolk_uop *next = AFTER(g, write, CALL(g, "next", write, b));
    const tolk_uop *between = AFTER(g, c, CALL(g, "between", c, write));
    assert_order(schedule(g, SINK(g, next, between)), "write between next");
    calls_done(g);
}

static void test_schedule_states_follow_each_other(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4), *c = f32s(g, 2, 4);
    /* The calls name a itself: the order is in the AFTERs alone. */
    const tolk_uop *s1 = AFTER(g, a, CALL(g, "k1", a, b));
    const tolk_uop *s2 = AFTER(g, s1, CALL(g, "k2", a, c));
    assert_order(schedule(g, SINK(g, s2)), "k1 k2");
    /* A call of both states is one of the first alone. */
    const tolk_uop *k = CALL(g, "k3", a, b);
    const tolk_uop *t1 = AFTER(g, a, k), *t2 = AFTER(g, t1, k, CALL(g, "k4", t1, c));
    assert_order(schedule(g, SINK(g, t2)), "k3 k4");
    calls_done(g);
}

static void test_schedule_shards_are_states(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4), *c = f32s(g, 2, 4), *d = f32s(g, 3, 4);
    const tolk_uop *wa = AFTER(g, a, CALL(g, "wa", a, d)), *wb = AFTER(g, b, CALL(g, "wb", b, d));
    const tolk_uop *both = NODE(g, TK_OP_MSTACK, wa, wb);
    const tolk_uop *l = schedule(g, SINK(g, AFTER(g, c, CALL(g, "use", c, both))));
    assert_order(l, "wa wb use");
    assert_ptr_equal(l->src[2]->src[2], NODE(g, TK_OP_MSTACK, a, b));
    tk_attr index = {.i = 1};
    const tolk_uop *one = tk_uop(g, TK_OP_MSELECT, TOLK_F32, &both, 1, &index);
    l = schedule(g, SINK(g, AFTER(g, c, CALL(g, "use", c, one))));
    assert_order(l, "wa wb use");
    assert_true(tk_uop_is(l->src[2]->src[2], TK_OP_MSELECT));
    /* What overwrites one shard waits for who reads both. */
    const tolk_uop *over = AFTER(g, wb, CALL(g, "over", wb, d));
    l = schedule(g, SINK(g, over, AFTER(g, c, CALL(g, "use", c, both))));
    assert_string_equal(name_at(l, 3), "over");
    calls_done(g);
}

static void test_schedule_wide_and_nested_shards_end(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *c = f32s(g, 1, 4);
    for (int i = 0; i < 60; i++) /* 2^60 paths */
        x = NODE(g, TK_OP_MSTACK, x, x);
    assert_order(schedule(g, SINK(g, AFTER(g, c, CALL(g, "use", c, x)))), "use");
    calls_done(g);
}

static void assert_refused(tolk_graph *g, const tolk_uop *sink, const char *says) {
    const tolk_uop *out = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_create_schedule(g, sink, &out, &err), TOLK_E_VERIFY);
    if (!strstr(err.msg, says))
        fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
    assert_null(out);
    assert_false(tk_graph_failed(g));
}

static void test_schedule_cycle_names_a_call_of_it(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4), *c = f32s(g, 2, 4), *d = f32s(g, 3, 4);
    /* Each of two calls overwrites what the other one reads. */
    const tolk_uop *x = AFTER(g, a, CALL(g, "left", a, b)),
                   *y = AFTER(g, b, CALL(g, "right", b, a));
    const tolk_uop *other = AFTER(g, c, CALL(g, "other", c, d));
    const tolk_uop *behind = AFTER(g, d, CALL(g, "behind", d, x));
    const tolk_uop *out = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_create_schedule(g, SINK(g, other, behind, y), &out, &err), TOLK_E_VERIFY);
    assert_true(strstr(err.msg, "\"left\"") || strstr(err.msg, "\"right\""));
    /* Two states of one, made by different calls. */
    const tolk_uop *p = AFTER(g, a, CALL(g, "p", a, c)), *q = AFTER(g, a, CALL(g, "q", a, c));
    assert_refused(g, SINK(g, p, q), "before itself");
    calls_done(g);
}

/* What a call reads of an old state is overwritten when it gets the new one. */
static void test_schedule_old_and_new_state_are_refused(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 5, 8), *b = f32s(g, 1, 8), *c = f32s(g, 2, 8), *d = f32s(g, 3, 8);
    const tolk_uop *s1 = AFTER(g, a, CALL(g, "write", a, b));
    const tolk_uop *s2 = AFTER(g, s1, CALL(g, "again", s1, b));
    assert_refused(g, SINK(g, AFTER(g, c, CALL(g, "both", c, a, s1))),
                   "call \"both\" (number 1): argument 1 is buffer {slot=5} before call \"write\" "
                   "wrote to it, argument 2 is behind that");
    assert_refused(g, SINK(g, AFTER(g, c, CALL(g, "both", c, s2, b, a))), "argument 3 is buffer");
    assert_refused(g, SINK(g, AFTER(g, c, CALL(g, "both", c, s2, s1))), "before call \"again\"");
    /* Also what it writes may be the new one, and a part is enough. */
    assert_refused(g, SINK(g, AFTER(g, s1, CALL(g, "both", s1, a))), "call \"both\"");
    const tolk_uop *part = slice_of_node(g, slice_of_node(g, a, 2, 4), 1, 2);
    assert_refused(g, SINK(g, AFTER(g, c, CALL(g, "both", c, part, s1))), "argument 1 is buffer");
    const tolk_uop *low = AFTER(g, a, CALL(g, "write", slice_of_node(g, a, 0, 4), b));
    assert_refused(g, SINK(g, AFTER(g, c, CALL(g, "both", c, part, low))), "argument 1 is buffer");
    assert_refused(g, SINK(g, AFTER(g, low, copy_call(g, slice_of_node(g, low, 4, 4), part))),
                   "call \"copy\" (number 1): argument 1 is buffer");
    const tolk_uop *copied = AFTER(g, a, copy_call(g, a, d));
    assert_refused(g, SINK(g, AFTER(g, c, CALL(g, "both", c, a, copied))), "call \"copy\" wrote");
    int64_t dim = 8;
    const tolk_uop *p = tolk_param(g, TOLK_F32, &dim, 1, 7, NULL);
    const tolk_uop *ps = AFTER(g, p, NODE(g, TK_OP_END, CALL(g, "write", p, b)));
    assert_refused(g, SINK(g, AFTER(g, c, CALL(g, "both", c, p, ps))), "param {slot=7}");
    calls_done(g);
}

static void test_schedule_old_states_that_are_still_there_are_taken(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 8), *b = f32s(g, 1, 8), *c = f32s(g, 2, 8);
    const tolk_uop *s = AFTER(g, a, CALL(g, "k0", a, b));
    /* What it writes says nothing of what it expects there. */
    assert_order(schedule(g, SINK(g, AFTER(g, s, CALL(g, "k1", a, s)))), "k0 k1");
    /* Its order is said by the AFTER, and not by a state that it takes. */
    assert_order(schedule(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, a), s))), "k0 k1");
    /* The call in between reads a, or writes to another part of it, or to none that is named. */
    const tolk_uop *same = AFTER(g, a, CALL(g, "k0", b, a));
    assert_order(schedule(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, a, same)))), "k0 k1");
    const tolk_uop *low = AFTER(g, a, CALL(g, "k0", slice_of_node(g, a, 0, 4), b));
    const tolk_uop *high = slice_of_node(g, slice_of_node(g, a, 2, 6), 2, 4);
    assert_order(schedule(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, high, low)))), "k0 k1");
    const tolk_uop *low2 = slice_of_node(g, a, 0, 2), *high2 = slice_of_node(g, a, 6, 2);
    const tolk_uop *ends = AFTER(g, a, CALL(g, "k0", low2, b), CALL(g, "k2", high2, b));
    const tolk_uop *middle = slice_of_node(g, a, 2, 4);
    assert_order(schedule(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, middle, ends)))), "k0 k2 k1");
    int64_t dim = 2; /* the same by one call */
    const tolk_uop *zero = tk_uop_index_const(g, 0), *one = tolk_const_float(g, TOLK_F32, 1);
    const tolk_uop *stores[2];
    for (int i = 0; i < 2; i++)
        stores[i] =
            tolk_store(g, tolk_index(g, tolk_param(g, TOLK_F32, &dim, 1, i, NULL), &zero, 1), one);
    const tolk_uop *two = call_of_body(g, tolk_sink(g, stores, 2, "two"), "k0",
                                       (const tolk_uop *[]){low2, high2, NULL});
    const tolk_uop *both = AFTER(g, a, two);
    assert_order(schedule(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, middle, both)))), "k0 k1");
    assert_refused(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, high2, both))), "argument 1 is buffer");
    const tolk_uop *next = AFTER(g, AFTER(g, ends, CALL(g, "k3", low2, b)), CALL(g, "k4", b, low2));
    assert_order(schedule(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, middle, next)))),
                 "k0 k2 k3 k4 k1");
    const tolk_uop *waits = AFTER(g, a, s);
    assert_order(schedule(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, a, waits)))), "k1 k0");
    calls_done(g);
}

static void test_schedule_what_is_no_state_is_refused(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4);
    const tolk_uop *sum = NODE(g, TK_OP_ADD, a, b), *k = CALL(g, "k", a, b);
    assert_refused(g, SINK(g, AFTER(g, a, CALL(g, "k", a, sum))), "got add");
    assert_refused(g, SINK(g, k), "got call");
    assert_refused(g, AFTER(g, a, k), "got after");
    assert_refused(g, SINK(g, AFTER(g, a, NODE(g, TK_OP_BARRIER, k))), "got barrier");
    assert_refused(g, SINK(g, AFTER(g, sum, k)), "got add");
    assert_order(schedule(g, SINK(g, a, b)), "");
    calls_done(g);
}

/* ---- random graphs ---- */

enum { BUFFERS = 8, STATES = 60 };

/* State v of buffer b, which calls made; each call of it takes other states. */
typedef struct random_graph {
    tolk_graph *g;
    const tolk_uop *buffer[BUFFERS];
    const tolk_uop *state[STATES];
    int of[STATES], version[STATES], n;
    const tolk_uop *latest[BUFFERS];
    int made[BUFFERS];
} random_graph;

/* Random graphs without cycles: each new call takes the latest states only, as a program that runs
 * from the first line to the last one would. The sink names them in another order. */
static const tolk_uop *random_sink(random_graph *r, uint64_t *s) {
    for (int b = 0; b < BUFFERS; b++) {
        r->buffer[b] = r->latest[b] = f32s(r->g, b, 4);
        r->made[b] = 0;
    }
    r->n = 5 + (int)(tk_test_rand(s) % (STATES - 5));
    for (int i = 0; i < r->n; i++) {
        int b = (int)(tk_test_rand(s) % BUFFERS);
        const tolk_uop *x = r->latest[tk_test_rand(s) % BUFFERS];
        const tolk_uop *y = r->latest[tk_test_rand(s) % BUFFERS];
        char name[16];
        snprintf(name, sizeof name, "k%d", i);
        const tolk_uop *own = tk_test_rand(s) % 3 ? r->latest[b] : r->buffer[b];
        r->state[i] = AFTER(r->g, r->latest[b], CALL(r->g, name, own, x, y));
        r->of[i] = b;
        r->version[i] = ++r->made[b];
        r->latest[b] = r->state[i];
    }
    const tolk_uop *all[BUFFERS];
    memcpy(all, r->latest, sizeof all);
    for (int b = BUFFERS - 1; b > 0; b--) {
        int k = (int)(tk_test_rand(s) % (uint64_t)(b + 1));
        const tolk_uop *t = all[b];
        all[b] = all[k];
        all[k] = t;
    }
    return node(r->g, TK_OP_SINK, all, BUFFERS);
}

static int version_of(const random_graph *r, const tolk_uop *state) {
    for (int i = 0; i < r->n; i++)
        if (r->state[i] == state)
            return r->version[i];
    return 0;
}

static void random_order(uint64_t seed) {
    random_graph *r = calloc(1, sizeof *r);
    assert_non_null(r);
    uint64_t s = seed;
    r->g = calls_graph(NULL);
    const tolk_uop *l = schedule(r->g, random_sink(r, &s));
    assert_int_equal(l->n_src, r->n);
    int now[BUFFERS] = {0};
    for (uint32_t c = 0; c < l->n_src; c++) {
        int i = atoi(name_at(l, c) + 1);
        const tolk_uop *call = r->state[i]->src[1];
        for (uint32_t a = 2; a < call->n_src; a++) {
            const tolk_uop *x = call->src[a];
            int b = -1;
            for (int k = 0; k < BUFFERS; k++)
                if (l->src[c]->src[a] == r->buffer[k])
                    b = k;
            assert_true(b >= 0);
            if (version_of(r, x) != now[b])
                fail_msg("seed %llu: k%d takes version %d of buffer %d, which is at %d",
                         (unsigned long long)seed, i, version_of(r, x), b, now[b]);
        }
        if (r->version[i] != now[r->of[i]] + 1)
            fail_msg("seed %llu: k%d makes version %d of buffer %d, which is at %d",
                     (unsigned long long)seed, i, r->version[i], r->of[i], now[r->of[i]]);
        now[r->of[i]]++;
    }
    calls_done(r->g);
    free(r);
}

static void test_schedule_random_graphs_read_what_they_should(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed();
    for (uint64_t i = 0, n = tk_test_count(10000); i < n; i++)
        random_order(seed + i);
}

static void test_schedule_long_chain_takes_linear_time(void **state) {
    (void)state;
    enum { LONG = 20000 };
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4);
    const tolk_uop *body = kernel_of(g, "k", 1);
    for (int i = 0; i < LONG; i++) {
        const tolk_uop *to = i % 2 ? a : b, *from = i % 2 ? b : a;
        const tolk_uop *s =
            AFTER(g, to, call_of_body(g, body, "k", (const tolk_uop *[]){to, from, NULL}));
        *(i % 2 ? &a : &b) = s;
    }
    assert_int_equal(schedule(g, SINK(g, a, b))->n_src, LONG);
    calls_done(g);
}

static tolk_status schedule_little(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_graph *g = calls_graph(al);
    if (!g)
        return TOLK_E_NOMEM;
    const tolk_uop *a = f32s(g, 0, 4), *b = f32s(g, 1, 4), *c = f32s(g, 2, 4), *sink = NULL;
    if (!tk_graph_failed(g)) {
        const tolk_uop *k = CALL(g, "k0", a, b), *w = k ? AFTER(g, a, k) : NULL;
        const tolk_uop *part = w ? slice_of_node(g, w, 0, 2) : NULL;
        const tolk_uop *r = part ? CALL(g, "k1", c, part) : NULL, *rs = r ? AFTER(g, c, r) : NULL;
        const tolk_uop *n = rs ? CALL(g, "k2", w, b) : NULL, *ns = n ? AFTER(g, w, n) : NULL;
        const tolk_uop *d = f32s(g, 3, 4), *e = f32s(g, 4, 4);
        const tolk_uop *low = slice_of_node(g, d, 0, 2), *high = slice_of_node(g, d, 2, 2);
        const tolk_uop *k4 = low && high && e ? CALL(g, "k4", low, b) : NULL;
        const tolk_uop *ds = k4 ? AFTER(g, d, k4) : NULL;
        const tolk_uop *both = ds ? CALL(g, "k5", e, high, ds) : NULL;
        const tolk_uop *es = both ? AFTER(g, e, both) : NULL;
        sink = ns && es ? SINK(g, ns, rs, es) : NULL;
    }
    tolk_status st = TOLK_E_NOMEM;
    const tolk_uop *out;
    if (sink && !tk_graph_failed(g)) {
        st = tk_create_schedule(g, sink, &out, NULL);
        assert_false(tk_graph_failed(g));
    }
    calls_done(g);
    return st;
}

static void test_schedule_without_memory_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(schedule_little, NULL) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule_stores_are_ignored_and_order_is_kept),
        cmocka_unit_test(test_schedule_arguments_become_buffers),
        cmocka_unit_test(test_schedule_waits_for_all_that_made_a_state),
        cmocka_unit_test(test_schedule_reader_runs_before_what_overwrites),
        cmocka_unit_test(test_schedule_states_follow_each_other),
        cmocka_unit_test(test_schedule_shards_are_states),
        cmocka_unit_test(test_schedule_wide_and_nested_shards_end),
        cmocka_unit_test(test_schedule_cycle_names_a_call_of_it),
        cmocka_unit_test(test_schedule_old_and_new_state_are_refused),
        cmocka_unit_test(test_schedule_old_states_that_are_still_there_are_taken),
        cmocka_unit_test(test_schedule_what_is_no_state_is_refused),
        cmocka_unit_test(test_schedule_random_graphs_read_what_they_should),
        cmocka_unit_test(test_schedule_long_chain_takes_linear_time),
        cmocka_unit_test(test_schedule_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
