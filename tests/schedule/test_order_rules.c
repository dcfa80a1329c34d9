/* SPDX-License-Identifier: MIT
 *
 * The order of random graphs of states, with several calls to a state, parts of buffers, stacks and
 * cycles, against the rules done one by one: an edge for each pair of calls, and the list that is
 * first in, first out over them. And graphs in which there would be too many of such edges.
 */
#include "schedule/create_schedule.h"

#include "calls.h"

static const tolk_uop *node(tolk_graph *g, tk_op op, const tolk_uop *const *src, size_t n) {
    return tk_uop(g, op, tk_uop_result_dtype(op, src, n, TOLK_VOID), src, n, NULL);
}

/* ---- the rules ---- */

enum { CALLS = 64, EDGES = 40000, NODES = 600 };

typedef struct rules {
    const tolk_uop *call[CALLS];
    int n;
    int from[EDGES], to[EDGES], n_edges;
    uint64_t before[CALLS]; /* bit k: it waits for k, or is k */
    const tolk_uop *seen[NODES], *after[NODES];
    int n_seen, n_after;
    struct {
        int call;
        const tolk_uop *state, *under;
    } read[EDGES];
    int n_reads;
} rules;

static int number_of(rules *r, const tolk_uop *call) {
    for (int i = 0; i < r->n; i++)
        if (r->call[i] == call)
            return i;
    assert_true(r->n < CALLS);
    r->call[r->n] = call;
    return r->n++;
}

static void edge(rules *r, int from, int to) {
    assert_true(r->n_edges < EDGES);
    r->from[r->n_edges] = from;
    r->to[r->n_edges++] = to;
}

static int states_of(const tolk_uop *u, const tolk_uop **out, int n) {
    if (tk_uop_is(u, TK_OP_MSTACK)) {
        for (uint32_t i = 0; i < u->n_src; i++)
            n = states_of(u->src[i], out, n);
        return n;
    }
    if (tk_uop_is(u, TK_OP_SLICE) || tk_uop_is(u, TK_OP_MSELECT))
        return states_of(u->src[0], out, n);
    for (int i = 0; i < n; i++)
        if (out[i] == u)
            return n;
    out[n] = u;
    return n + 1;
}

static bool has(const tolk_uop *after, const tolk_uop *call) {
    for (uint32_t i = 1; tk_uop_is(after, TK_OP_AFTER) && i < after->n_src; i++)
        if (after->src[i] == call)
            return true;
    return false;
}

static void wait_for(rules *r, const tolk_uop *state, int k) {
    for (uint32_t i = 1; tk_uop_is(state, TK_OP_AFTER) && i < state->n_src; i++)
        if (tk_uop_is(state->src[i], TK_OP_CALL) && number_of(r, state->src[i]) != k)
            edge(r, number_of(r, state->src[i]), k);
}

static void visit(rules *r, const tolk_uop *u) {
    for (int i = 0; i < r->n_seen; i++)
        if (r->seen[i] == u)
            return;
    assert_true(r->n_seen < NODES);
    r->seen[r->n_seen++] = u;
    for (uint32_t i = tk_uop_is(u, TK_OP_CALL); i < u->n_src; i++)
        visit(r, u->src[i]);
    if (!tk_uop_is(u, TK_OP_AFTER))
        return;
    r->after[r->n_after++] = u;
    for (uint32_t i = 1; i < u->n_src; i++) {
        const tolk_uop *call = u->src[i], *state[NODES];
        if (!tk_uop_is(call, TK_OP_CALL))
            continue;
        int k = number_of(r, call);
        for (uint32_t a = 1; a < call->n_src; a++)
            for (int s = 0, n = states_of(call->src[a], state, 0); s < n; s++) {
                wait_for(r, state[s], k);
                assert_true(r->n_reads < EDGES);
                r->read[r->n_reads].call = k;
                r->read[r->n_reads].state = state[s];
                r->read[r->n_reads++].under = u;
            }
        for (uint32_t a = 1; a < u->n_src; a++)
            wait_for(r, u->src[a], k);
    }
}

/* Who waits for whom; false: somebody for himself. */
static bool close_edges(rules *r) {
    for (int i = 0; i < r->n; i++)
        r->before[i] = (uint64_t)1 << i;
    for (bool again = true; again;) {
        again = false;
        for (int e = 0; e < r->n_edges; e++) {
            uint64_t all = r->before[r->to[e]] | r->before[r->from[e]];
            again |= all != r->before[r->to[e]];
            r->before[r->to[e]] = all;
        }
    }
    for (int e = 0; e < r->n_edges; e++)
        if (r->before[r->from[e]] >> r->to[e] & 1)
            return false;
    return true;
}

/* `of` before all calls that make another state of one, by the AFTER u. */
static void before_new_calls(rules *r, int of, const tolk_uop *u, const tolk_uop *prior) {
    for (uint32_t i = 1; i < u->n_src; i++)
        if (tk_uop_is(u->src[i], TK_OP_CALL) && !has(prior, u->src[i])) {
            int t = number_of(r, u->src[i]);
            if (!(r->before[of] >> t & 1))
                edge(r, of, t);
        }
}

/* ---- states that are gone ---- */

/* The state of one buffer that a node shows, or NULL; the one before a state. */
static const tolk_uop *shown(const tolk_uop *u) {
    while (tk_uop_is(u, TK_OP_SLICE))
        u = u->src[0];
    return tk_uop_is(u, TK_OP_AFTER) || tk_uop_is(u, TK_OP_BUFFER) ? u : NULL;
}

static const tolk_uop *one_before(const tolk_uop *u) {
    return u && tk_uop_is(u, TK_OP_AFTER) ? shown(u->src[0]) : NULL;
}

static const tolk_uop *buffer_of_state(const tolk_uop *u) {
    while (u && tk_uop_is(u, TK_OP_AFTER))
        u = shown(u->src[0]);
    return u;
}

/* Calls write their first argument and read the others. Every part here overlaps every other. */
static bool is_overwritten(const tolk_uop *u, const tolk_uop *buffer) {
    const tolk_uop *prior = one_before(u);
    for (uint32_t i = 1; prior && i < u->n_src; i++)
        if (tk_uop_is(u->src[i], TK_OP_CALL) && !has(prior, u->src[i]) &&
            shown(u->src[i]->src[1]) && buffer_of_state(shown(u->src[i]->src[1])) == buffer)
            return true;
    return false;
}

static bool takes_what_is_gone(const tolk_uop *call) {
    for (uint32_t i = 2; i < call->n_src; i++)
        for (uint32_t j = 1; j < call->n_src; j++) {
            const tolk_uop *old = shown(call->src[i]), *u = shown(call->src[j]);
            const tolk_uop *buffer = buffer_of_state(old);
            bool gone = false;
            for (; buffer && u && u != old; u = one_before(u))
                gone |= tk_uop_is(u, TK_OP_AFTER) && is_overwritten(u, buffer);
            if (buffer && u && gone)
                return true;
        }
    return false;
}

static bool order_by_rules(rules *r, const tolk_uop *sink, int order[CALLS]) {
    const tolk_uop *prior[NODES];
    visit(r, sink);
    for (int i = 0; i < r->n; i++)
        if (takes_what_is_gone(r->call[i]))
            return false;
    if (!close_edges(r))
        return false;
    for (int a = 0; a < r->n_after; a++)
        for (int p = 0, n = states_of(r->after[a]->src[0], prior, 0); p < n; p++)
            for (uint32_t i = 1; tk_uop_is(prior[p], TK_OP_AFTER) && i < prior[p]->n_src; i++)
                if (tk_uop_is(prior[p]->src[i], TK_OP_CALL))
                    before_new_calls(r, number_of(r, prior[p]->src[i]), r->after[a], prior[p]);
    if (!close_edges(r))
        return false;
    for (int q = 0; q < r->n_reads; q++)
        for (int a = r->n_after; a-- > 0;)
            for (int p = 0, n = states_of(r->after[a]->src[0], prior, 0); p < n; p++)
                if (prior[p] == r->read[q].state && r->after[a] != r->read[q].under)
                    before_new_calls(r, r->read[q].call, r->after[a], prior[p]);
    if (!close_edges(r))
        return false;
    int waits[CALLS] = {0}, n = 0;
    for (int e = 0; e < r->n_edges; e++)
        waits[r->to[e]]++;
    for (int i = 0; i < r->n; i++)
        if (!waits[i])
            order[n++] = i;
    for (int i = 0; i < n; i++)
        for (int e = 0; e < r->n_edges; e++)
            if (r->from[e] == order[i] && --waits[r->to[e]] == 0)
                order[n++] = r->to[e];
    assert_int_equal(n, r->n);
    return true;
}

/* ---- random graphs ---- */

enum { BUFFERS = 7, STATES = 40 };

typedef struct random_graph {
    tolk_graph *g;
    uint64_t s;
    const tolk_uop *state[STATES + BUFFERS], *latest[BUFFERS], *call[CALLS];
    int n_buffers, n, n_calls;
    bool is_odd; /* it takes old states, too */
} random_graph;

static int below(random_graph *q, int n) {
    return (int)(tk_test_rand(&q->s) % (uint64_t)n);
}

static const tolk_uop *some_state(random_graph *q) {
    bool old = q->is_odd ? below(q, 4) == 0 : below(q, 60) == 0;
    const tolk_uop *u = old ? q->state[below(q, q->n)] : q->latest[below(q, q->n_buffers)];
    return below(q, 10) ? u : slice_of_node(q->g, u, 0, 2);
}

static const tolk_uop *some_call(random_graph *q, const tolk_uop *prior) {
    const tolk_uop *args[4];
    char name[16];
    int n = 0;
    if (q->n_calls && below(q, 30) == 0)
        return q->call[below(q, q->n_calls)];
    for (int most = 1 + below(q, 3); n < most; n++)
        args[n] = n == 0 && below(q, 2) ? prior : some_state(q);
    args[n] = NULL;
    snprintf(name, sizeof name, "k%d", q->n_calls);
    return q->call[q->n_calls++] = call_of_body(q->g, NULL, name, args);
}

static const tolk_uop *random_sink(random_graph *q) {
    q->n_buffers = 2 + below(q, BUFFERS - 2);
    q->is_odd = below(q, 5) == 0;
    for (int i = 0; i < q->n_buffers; i++)
        q->state[q->n++] = q->latest[i] = f32s(q->g, i, 4);
    for (int steps = 3 + below(q, STATES - 5); steps > 0 && q->n_calls < CALLS - 6; steps--) {
        int b = below(q, q->n_buffers), n = 0;
        const tolk_uop *src[8], *prior = q->latest[b];
        if (below(q, 12) == 0) {
            const tolk_uop *two[2] = {prior, some_state(q)};
            prior = node(q->g, TK_OP_MSTACK, two, 2);
        }
        src[n++] = prior;
        for (int most = 1 + (below(q, 3) ? below(q, 2) : below(q, 5)); n <= most; n++)
            src[n] = some_call(q, prior);
        const tolk_uop *other = q->latest[below(q, q->n_buffers)];
        if (below(q, 4) == 0 && tk_uop_is(other, TK_OP_AFTER))
            src[n++] = other;
        q->state[q->n++] = q->latest[b] = node(q->g, TK_OP_AFTER, src, (size_t)n);
    }
    const tolk_uop *all[STATES + BUFFERS];
    size_t n = 0;
    for (int i = q->n; i-- > 0;)
        if (i == q->n - 1 || below(q, 3))
            all[n++] = q->state[i];
    return node(q->g, TK_OP_SINK, all, n);
}

static bool random_order(uint64_t seed) {
    static rules r;
    random_graph q = {.g = calls_graph(NULL), .s = seed};
    const tolk_uop *sink = random_sink(&q), *l = NULL;
    int order[CALLS];
    tolk_error err = TOLK_ERROR_INIT;
    assert_non_null(sink);
    r.n = r.n_edges = r.n_seen = r.n_after = r.n_reads = 0;
    bool good = order_by_rules(&r, sink, order);
    tolk_status st = tk_create_schedule(q.g, sink, &l, &err);
    if (st != (good ? TOLK_OK : TOLK_E_VERIFY))
        fail_msg("seed %llu: %s %s", (unsigned long long)seed, good ? "" : "a cycle is taken",
                 err.msg);
    for (int i = 0; good && i < r.n; i++) {
        const char *is = tk_uop_str(l->src[i], TK_A_CALL_NAME);
        const char *expected = tk_uop_str(r.call[order[i]], TK_A_CALL_NAME);
        if (strcmp(is, expected) != 0)
            fail_msg("seed %llu: call %d is %s, expected %s", (unsigned long long)seed, i, is,
                     expected);
    }
    if (good)
        assert_int_equal(l->n_src, r.n);
    calls_done(q.g);
    return good;
}

static void test_order_random_graphs_are_as_the_rules_say(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed(), good = 0, n = tk_test_count(20000);
    for (uint64_t i = 0; i < n; i++)
        good += random_order(seed + i);
    assert_true(n < 100 || (good > n / 10 && good < n));
}

/* ---- many ---- */

enum { MANY = 12000 };

static const tolk_uop *named_call(tolk_graph *g, const tolk_uop *body, const char *name, int i,
                                  const tolk_uop *const *args) {
    char text[24];
    snprintf(text, sizeof text, "%s%d", name, i);
    return call_of_body(g, body, text, args);
}

static void assert_name(const tolk_uop *l, uint32_t at, const char *name, int i) {
    char text[24];
    snprintf(text, sizeof text, "%s%d", name, i);
    assert_string_equal(tk_uop_str(l->src[at], TK_A_CALL_NAME), text);
}

static const tolk_uop *schedule(tolk_graph *g, const tolk_uop **states, size_t n) {
    const tolk_uop *out = NULL, *sink = node(g, TK_OP_SINK, states, n);
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_create_schedule(g, sink, &out, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    return out;
}

/* All calls of a state come before all that take it, and these before all of the next state: M * M
 * pairs, twice. */
static void test_order_many_make_what_many_take_and_many_replace(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *k0 = kernel_of(g, "k0", 0), *k1 = kernel_of(g, "k1", 1);
    const tolk_uop **made = malloc((MANY + 1) * sizeof *made);
    const tolk_uop **all = malloc((MANY + 1) * sizeof *all);
    made[0] = x;
    for (int i = 0; i < MANY; i++)
        made[i + 1] = named_call(g, k0, "make", i, (const tolk_uop *[]){x, NULL});
    const tolk_uop *first = node(g, TK_OP_AFTER, made, MANY + 1);
    for (int i = 0; i < MANY; i++) {
        const tolk_uop *out = f32s(g, i + 1, 4);
        const tolk_uop *take = named_call(g, k1, "take", i, (const tolk_uop *[]){out, first, NULL});
        all[i] = node(g, TK_OP_AFTER, (const tolk_uop *[]){out, take}, 2);
    }
    made[0] = first;
    for (int i = 0; i < MANY; i++)
        made[i + 1] = named_call(g, k0, "next", i, (const tolk_uop *[]){first, NULL});
    all[MANY] = node(g, TK_OP_AFTER, made, MANY + 1);
    const tolk_uop *l = schedule(g, all, MANY + 1);
    assert_int_equal(l->n_src, 3 * MANY);
    for (int i = 0; i < MANY; i++) {
        assert_name(l, (uint32_t)i, "make", i);
        assert_name(l, (uint32_t)(MANY + i), "take", i);
        assert_name(l, (uint32_t)(2 * MANY + i), "next", i);
    }
    free(all);
    free(made);
    calls_done(g);
}

/* Each reader of x waits for the one before; who overwrites x waits for none of them otherwise. */
static void test_order_long_chain_of_readers_of_what_is_overwritten(void **state) {
    (void)state;
    for (int first = 0; first < 2; first++) {
        tolk_graph *g = calls_graph(NULL);
        const tolk_uop *x = f32s(g, 0, 4), *at = f32s(g, 1, 4), *k = kernel_of(g, "k", 2);
        for (int i = 0; i < 2 * MANY; i++) {
            const tolk_uop *out = f32s(g, i + 2, 4);
            const tolk_uop *c = named_call(g, k, "k", i, (const tolk_uop *[]){out, at, x, NULL});
            at = node(g, TK_OP_AFTER, (const tolk_uop *[]){out, c}, 2);
        }
        const tolk_uop *w = CALL(g, "last", x);
        const tolk_uop *all[2] = {at, at};
        all[!first] = node(g, TK_OP_AFTER, (const tolk_uop *[]){x, w}, 2);
        const tolk_uop *l = schedule(g, all, 2);
        assert_int_equal(l->n_src, 2 * MANY + 1);
        for (int i = 0; i < 2 * MANY; i++)
            assert_name(l, (uint32_t)i, "k", i);
        assert_string_equal(tk_uop_str(l->src[2 * MANY], TK_A_CALL_NAME), "last");
        calls_done(g);
    }
}

/* Two states of one buffer, each by a call that takes it: both would be first. So many of them are
 * refused before there is an edge for each pair. */
static void test_order_many_states_of_one_buffer_are_a_cycle(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *k = kernel_of(g, "k", 0), *out = NULL;
    const tolk_uop **all = malloc(MANY * sizeof *all);
    for (int i = 0; i < MANY; i++) {
        const tolk_uop *c = named_call(g, k, "k", i, (const tolk_uop *[]){x, NULL});
        all[i] = node(g, TK_OP_AFTER, (const tolk_uop *[]){x, c}, 2);
    }
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_create_schedule(g, node(g, TK_OP_SINK, all, MANY), &out, &err),
                     TOLK_E_VERIFY);
    assert_non_null(strstr(err.msg, "before itself"));
    free(all);
    calls_done(g);
}

/* Each call reads a part that nobody wrote yet, and takes the latest state: that is looked at in
 * few steps. The last one reads a part that was written long ago. */
static void test_order_many_parts_of_an_old_state(void **state) {
    (void)state;
    for (int wrong = 0; wrong < 2; wrong++) {
        tolk_graph *g = calls_graph(NULL);
        const tolk_uop *x = f32s(g, 0, 4 * MANY + 4), *at = x, *k = kernel_of(g, "k", 2);
        const tolk_uop *out = f32s(g, 1, 4), *l = NULL;
        for (int i = 0; i < MANY; i++) {
            const tolk_uop *to = slice_of_node(g, x, 4 * i, 4);
            const tolk_uop *from = slice_of_node(g, x, 4 * i + 4, 4);
            const tolk_uop *c = named_call(g, k, "k", i, (const tolk_uop *[]){to, from, at, NULL});
            at = node(g, TK_OP_AFTER, (const tolk_uop *[]){at, c}, 2);
        }
        const tolk_uop *part = slice_of_node(g, x, wrong ? 4 * 77 + 3 : 4 * MANY, 1);
        const tolk_uop *last =
            call_of_body(g, k, "last", (const tolk_uop *[]){out, part, at, NULL});
        const tolk_uop *all = node(g, TK_OP_AFTER, (const tolk_uop *[]){out, last}, 2);
        tolk_error err = TOLK_ERROR_INIT;
        tolk_status st = tk_create_schedule(g, node(g, TK_OP_SINK, &all, 1), &l, &err);
        assert_int_equal(st, wrong ? TOLK_E_VERIFY : TOLK_OK);
        if (wrong) {
            assert_non_null(strstr(err.msg, "call \"last\" (number 12000)"));
            assert_non_null(strstr(err.msg, "before call \"k77\" wrote"));
        } else {
            assert_int_equal(l->n_src, MANY + 1);
            for (int i = 0; i < MANY; i++)
                assert_name(l, (uint32_t)i, "k", i);
        }
        calls_done(g);
    }
}

/* Calls that take one buffer through views of views: each view is looked through once. */
static void test_order_deep_views_of_one_buffer(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *view = x, *k = kernel_of(g, "k", 1);
    const tolk_uop **all = malloc(MANY * sizeof *all);
    for (int i = 0; i < MANY; i++)
        view = slice_of_node(g, view, 0, 4);
    for (int i = 0; i < MANY; i++) {
        const tolk_uop *out = f32s(g, i + 1, 4);
        const tolk_uop *c = named_call(g, k, "k", i, (const tolk_uop *[]){out, view, NULL});
        all[i] = node(g, TK_OP_AFTER, (const tolk_uop *[]){out, c}, 2);
    }
    const tolk_uop *l = schedule(g, all, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_name(l, (uint32_t)i, "k", i);
        assert_ptr_equal(l->src[i]->src[2], view);
    }
    free(all);
    calls_done(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_random_graphs_are_as_the_rules_say),
        cmocka_unit_test(test_order_many_make_what_many_take_and_many_replace),
        cmocka_unit_test(test_order_long_chain_of_readers_of_what_is_overwritten),
        cmocka_unit_test(test_order_many_states_of_one_buffer_are_a_cycle),
        cmocka_unit_test(test_order_many_parts_of_an_old_state),
        cmocka_unit_test(test_order_deep_views_of_one_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
