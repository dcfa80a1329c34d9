/* SPDX-License-Identifier: MIT
 *
 * Graphs of calls to linears and run: the cache of orders, variables, whose memory stays, captures,
 * replay.
 */
#include "realize/sinks.h"

#include <pthread.h>

/* ---- linears ---- */

static void test_a_call_becomes_a_linear_with_the_values_of_its_variables(void **state) {
    (void)state;
    tolk_vars *vars = NULL;
    uint32_t count = tolk_graph_count(g);
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0);
    const tolk_uop *call = CALL(g, body_in(g), y, x, bind(g, "n", 5), bind(g, "unused", 6));
    count = tolk_graph_count(g);
    tolk_linear *l = schedule(call, &vars);
    assert_int_equal(tolk_graph_count(g), count); /* nothing was made in it */
    assert_int_equal(tolk_uop_n_src(tolk_linear_root(l)), 3);
    assert_int_equal(vars->n, 1);
    assert_string_equal(vars->at[0].name, "n");
    assert_int_equal(vars->at[0].value, 5);
    /* As they are they can be run. */
    tolk_run_args args = TOLK_RUN_INIT;
    args.vars = vars->at;
    args.n_vars = vars->n;
    seed(b, x, N, 1);
    if (tolk_run_linear(b, l, NULL, &args, &err))
        fail_msg("%s", err.msg);
    check_floats(bound(b, y), 14);
    tolk_linear_unref(l);
    tolk_vars_destroy(vars);
    tolk_vars_destroy(NULL);
}

static void test_an_order_is_found_again_whatever_arguments_and_values_are(void **state) {
    (void)state;
    const tolk_uop *body = body_in(g), *x = buf(g, 1), *y = buf(g, 0);
    assert_int_equal(hits(CALL(g, body, y, x, bind(g, "n", 5))), 0);
    assert_int_equal(hits(CALL(g, body, y, x, bind(g, "n", 5))), 1);
    assert_int_equal(hits(CALL(g, body, x, y, bind(g, "n", 6))), 1);
    assert_int_equal(hits(CALL(g, body, buf(g, 8), buf(g, 9))), 1);
    /* Equal graphs are one, wherever they are; others are not. */
    tolk_graph *other;
    assert_int_equal(tolk_graph_create(r.ctx, &other), TOLK_OK);
    assert_int_equal(hits(CALL(other, body_in(other), buf(other, 3), buf(other, 4))), 1);
    tolk_graph_destroy(other);
    const tolk_uop *s = AFTER(g, y, add(g, "n", y, x));
    assert_int_equal(hits(SINK(g, s, bind(g, "n", 1))), 0);
    assert_int_equal(hits(SINK(g, s, bind(g, "n", 2))), 1);
    assert_int_equal(hits(SINK(g, AFTER(g, y, add(g, "n", y, y)))), 0);
    assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
    assert_int_equal(hits(CALL(g, body, y, x)), 0);
    assert_int_equal(hits(CALL(g, body, y, x)), 1);
    setenv("TOLK_SCHEDULE_CACHE", "0", 1);
    assert_int_equal(hits(CALL(g, body, y, x)), 0);
    unsetenv("TOLK_SCHEDULE_CACHE");
    assert_int_equal(hits(CALL(g, body, y, x)), 1);
}

static void test_TOLK_DEBUG_tells_of_orders_of_several_calls(void **state) {
    (void)state;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0), *call = CALL(g, body_in(g), y, x);
    const tolk_uop *one = SINK(g, AFTER(g, y, mix(g, 1, y, x, x)));
    (void)hits(call);
    assert_int_equal(n_told, 0);
    r.ctx->debug = 1;
    assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
    (void)hits(call);
    (void)hits(call);
    (void)hits(one);
    assert_int_equal(n_told, 2);
    check_contains(told[0], "schedule of 3 calls: made in ");
    check_contains(told[1], "schedule of 3 calls: from the cache in ");
    assert_string_equal(strstr(told[0], ", key "), strstr(told[1], ", key "));
    r.ctx->debug = 3;
    (void)hits(one);
    assert_int_equal(n_told, 3);
    check_contains(told[2], "schedule of 1 call: from the cache in ");
    r.ctx->debug = 0;
}

static void test_wrong_calls_are_refused(void **state) {
    (void)state;
    tolk_linear *l = NULL;
    tolk_vars *vars = NULL;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0), *sink = SINK(g, x);
    assert_int_equal(tolk_schedule(NULL, sink, &l, &vars, &err), TOLK_E_ARG);
    assert_int_equal(tolk_schedule(r.ctx, NULL, &l, &vars, &err), TOLK_E_ARG);
    assert_int_equal(tolk_schedule(r.ctx, sink, NULL, &vars, &err), TOLK_E_ARG);
    assert_int_equal(tolk_schedule(r.ctx, sink, &l, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_realize(NULL, sink, NULL, 0, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_realize(b, NULL, NULL, 0, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_realize(b, sink, NULL, 1, NULL, NULL, &err), TOLK_E_ARG);
    const tolk_uop *none = NULL;
    assert_int_equal(tolk_realize(b, sink, &none, 1, NULL, NULL, &err), TOLK_E_ARG);
    tolk_run_args args = TOLK_RUN_INIT;
    tolk_var unnamed = {NULL, 1};
    args.vars = &unnamed;
    args.n_vars = 1;
    assert_int_equal(tolk_realize(b, sink, NULL, 0, NULL, &args, &err), TOLK_E_ARG);
    args.size = 1;
    assert_int_equal(tolk_realize(b, sink, NULL, 0, NULL, &args, &err), TOLK_E_ARG);
    /* A graph that the verifier refuses, also where its order would be found. */
    const tolk_uop *bad = SINK(g, AFTER(g, y, CALL(g, kernel(g, 1, NULL), y, x)));
    assert_int_equal(tolk_schedule(r.ctx, bad, &l, &vars, &err), TOLK_E_VERIFY);
    check_contains(err.msg, "2 buffers, but its kernel takes 3");
    const tolk_uop *list = LINEAR(g, CALL(g, kernel(g, 1, NULL), param(g, 0), x));
    assert_int_equal(tolk_schedule(r.ctx, CALL(g, list, y), &l, &vars, &err), TOLK_E_VERIFY);
    check_contains(err.msg, "2 buffers, but its kernel takes 3");
    assert_int_equal(tolk_schedule(r.ctx, x, &l, &vars, &err), TOLK_E_VERIFY);
    check_contains(err.msg, "got buffer");
    assert_null(l);
    assert_null(vars);
}

static void test_a_linear_with_calls_of_calls_says_who_makes_calls_of_them(void **state) {
    (void)state;
    const tolk_uop *inner[] = {body_in(g),
                               LINEAR(g, mix(g, 1, param(g, 0), param(g, 1), param(g, 1)))};
    for (int i = 0; i < 2; i++) {
        tolk_linear *l;
        assert_int_equal(
            tolk_linear_create(r.ctx, LINEAR(g, CALL(g, inner[i], buf(g, 0), buf(g, 1))), &l, &err),
            TOLK_OK);
        assert_int_equal(tolk_run_linear(b, l, NULL, NULL, &err), TOLK_E_ARG);
        check_contains(err.msg, "tolk_schedule makes calls of it");
        tolk_linear_unref(l);
    }
}

/* ---- running ---- */

static void test_a_call_is_run_and_leaves_its_arguments(void **state) {
    (void)state;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0), *body = body_in(g);
    for (int i = 0; i < 4; i++) {
        seed(b, x, N, (float)i);
        realize(CALL(g, body, y, x, bind(g, "n", i)), NULL);
        check_floats(bound(b, y), 9 * (float)i + (float)i);
        check_floats(bound(b, x), (float)i);
    }
    assert_int_equal(stats().schedules, 1);
    assert_int_equal(stats().schedule_hits, 3);
    assert_int_equal(strangers(), 0);
    /* The buffer of the body is none of the user's, whatever is bound to an equal node. */
    seed(b, buf(g, 0), N, -1);
    realize(CALL(g, body, buf(g, 7), x, bind(g, "n", 0)), NULL);
    check_floats(bound(b, buf(g, 0)), -1);
    check_floats(bound(b, buf(g, 7)), 27);
}

/* Memory of a call goes with it, also where no arena held it: nothing was planned, or a call reads
 * it before one wrote it. */
static void test_memory_of_a_call_goes_with_it(void **state) {
    (void)state;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0), *p = param(g, 0), *q = param(g, 1);
    const tolk_uop *unwritten = LINEAR(g, mix(g, 0, p, buf(g, 3), q));
    seed(b, x, N, 1);
    for (int i = 0; i < 2; i++) {
        setenv("TOLK_MEMORY_PLAN", "0", 1);
        realize(CALL(g, body_in(g), y, x, bind(g, "n", 5)), NULL);
        unsetenv("TOLK_MEMORY_PLAN");
        check_floats(bound(b, y), 14);
        assert_int_equal(strangers(), 0);
        const tolk_uop *forgotten = CALL(g, unwritten, y, x);
        assert_int_equal(tolk_realize(b, forgotten, NULL, 0, NULL, NULL, &err), TOLK_E_UNBOUND);
        check_contains(err.msg, "nothing was stored to the buffer yet");
        assert_int_equal(strangers(), 0);
        const tolk_uop *fails =
            CALL(g, LINEAR(g, mix(g, 1, p, q, buf(g, 3)), add(g, "n", p, q)), y, x);
        assert_int_equal(tolk_realize(b, fails, NULL, 0, NULL, NULL, &err), TOLK_E_UNBOUND);
        assert_int_equal(strangers(), 0);
    }
}

/* [!] of section 1.11: a graph without a call around it would lose its user's buffers. */
static void test_a_sink_alone_leaves_the_buffers_of_its_user(void **state) {
    (void)state;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0), *t = buf(g, 2), *hidden = buf(g, -1);
    const tolk_uop *result = buf(g, -2);
    seed(b, x, N, 3);
    const tolk_uop *t1 = AFTER(g, t, mix(g, 2, t, x, x));             /* 9 */
    const tolk_uop *h1 = AFTER(g, hidden, mix(g, 1, hidden, t1, x));  /* 12 */
    const tolk_uop *y1 = AFTER(g, y, mix(g, 1, y, h1, x));            /* 15 */
    const tolk_uop *r1 = AFTER(g, result, mix(g, 1, result, h1, h1)); /* 24 */
    realize(SINK(g, y1, slice_of(g, r1, 0)), NULL);
    check_floats(bound(b, x), 3);
    check_floats(bound(b, t), 9);
    check_floats(bound(b, y), 15);
    check_floats(bound(b, result), 24);
    assert_null(bound(b, hidden));
}

static void test_what_the_caller_names_stays(void **state) {
    (void)state;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0), *kept = buf(g, -4);
    const tolk_uop *p = param(g, 0), *q = param(g, 1);
    const tolk_uop *body = LINEAR(g, mix(g, 2, kept, q, q), mix(g, 1, p, kept, q));
    const tolk_uop *call = CALL(g, body, y, x);
    seed(b, x, N, 1);
    realize(call, NULL);
    assert_null(bound(b, kept));
    if (tolk_realize(b, call, &kept, 1, NULL, NULL, &err))
        fail_msg("%s", err.msg);
    check_floats(bound(b, kept), 3);
    check_floats(bound(b, y), 4);
}

static void test_variables_of_the_run_and_of_binds_are_one(void **state) {
    (void)state;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0);
    const tolk_uop *s = AFTER(g, y, add(g, "n", y, x));
    const tolk_uop *sink = SINK(g, AFTER(g, s, add(g, "m", s, s)), bind(g, "n", 3));
    tolk_var vars[] = {{"m", 4}, {"n", 3}};
    tolk_run_args args = TOLK_RUN_INIT;
    args.vars = vars;
    args.n_vars = 2;
    seed(b, x, N, 1);
    realize(sink, &args);
    check_floats(bound(b, y), 8);
    args.n_vars = 1;
    realize(sink, &args);
    args.n_vars = 2;
    vars[1].value = 5;
    assert_int_equal(tolk_realize(b, sink, NULL, 0, NULL, &args, &err), TOLK_E_ARG);
    check_contains(err.msg, "variable \"n\" is bound to 3, but 5 in the arguments of the run");
    assert_int_equal(tolk_realize(b, sink, NULL, 0, NULL, NULL, &err), TOLK_E_UNBOUND);
    check_contains(err.msg, "\"m\"");
    const tolk_uop *two = SINK(g, s, bind(g, "n", 3), bind(g, "n", 4));
    assert_int_equal(tolk_realize(b, two, NULL, 0, NULL, NULL, &err), TOLK_E_ARG);
    check_contains(err.msg, "variable \"n\" is bound to 3 and to 4");
}

static void test_params_that_no_argument_is_are_inputs_of_the_run(void **state) {
    (void)state;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0), *z = buf(g, 2);
    const tolk_uop *inputs[] = {x, y, z};
    tolk_run_args args = TOLK_RUN_INIT;
    args.inputs = inputs;
    args.n_inputs = 3;
    seed(b, x, N, 1);
    seed(b, z, N, 5);
    const tolk_uop *body = LINEAR(g, mix(g, 2, param(g, 0), param(g, 1), param(g, 2)));
    realize(CALL(g, body, param(g, 1), x), &args); /* y = 2 x + z */
    check_floats(bound(b, y), 7);
}

/* [!] of section 1.11: a cycle is an error, and nothing of it runs. */
static void test_of_a_graph_without_an_order_nothing_runs(void **state) {
    (void)state;
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0), *z = buf(g, 2);
    seed(b, x, N, 1);
    seed(b, y, N, 2);
    const tolk_uop *x1 = AFTER(g, x, mix(g, 1, x, y, y)), *y1 = AFTER(g, y, mix(g, 1, y, x, x));
    const tolk_uop *sink = SINK(g, AFTER(g, z, mix(g, 1, z, x1, y1)));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tolk_realize(b, sink, NULL, 0, NULL, NULL, &err), TOLK_E_VERIFY);
        check_contains(err.msg, "before itself");
    }
    assert_int_equal(stats().launches, 0);
    check_floats(bound(b, x), 1);
}

/* ---- captures and replay ---- */

typedef struct seen {
    int linears, calls, slices;
    int64_t n;
} seen;

static tolk_status look(void *user, tolk_linear *linear, const tolk_var *vars, size_t n_vars,
                        tolk_error *e) {
    seen *s = user;
    (void)e;
    const tolk_uop *root = tolk_linear_root(linear);
    s->linears++;
    s->calls += (int)tolk_uop_n_src(root);
    for (size_t i = 0; i < tolk_uop_n_src(root); i++)
        for (size_t k = 1; k < tolk_uop_n_src(tolk_uop_src(root, i)); k++)
            s->slices +=
                tolk_uop_op(tolk_uop_src(tolk_uop_src(root, i), k)) == tolk_op_find("slice");
    for (size_t i = 0; i < n_vars; i++)
        s->n = strcmp(vars[i].name, "n") == 0 ? vars[i].value : s->n;
    return TOLK_OK;
}

static void test_a_capture_gets_the_linear_before_it_is_planned(void **state) {
    (void)state;
    seen s = {0};
    const tolk_uop *x = buf(g, 1), *y = buf(g, 0);
    const tolk_uop *call = CALL(g, body_in(g), y, x, bind(g, "n", 5));
    seed(b, x, N, 1);
    assert_int_equal(tolk_capture_push(r.ctx, look, &s, NULL), TOLK_OK);
    realize(call, NULL);
    assert_int_equal(tolk_capture_pop(r.ctx, NULL), TOLK_OK);
    assert_int_equal(s.linears, 1);
    assert_int_equal(s.calls, 3);
    assert_int_equal(s.slices, 0);
    assert_int_equal(s.n, 5);
    assert_null(bound(b, y));
    assert_int_equal(stats().launches, 0);
    realize(call, NULL);
    check_floats(bound(b, y), 14);
}

typedef struct work {
    int calls;
    bool fixed; /* it binds n itself */
} work;

/* out = the body of the first input and of n, called twice: out, then of out. */
static tolk_status twice(void *user, tolk_bindings *to, const tolk_run_args *args, tolk_error *e) {
    work *w = user;
    tolk_graph *at;
    w->calls++;
    if (tolk_graph_create(r.ctx, &at) != TOLK_OK)
        return TOLK_E_NOMEM;
    const tolk_uop *body = body_in(at), *out = buf(at, 50), *mid = buf(at, -60);
    const tolk_uop *n = w->fixed ? bind(at, "n", 1) : bind(at, "n", args->vars[0].value);
    const tolk_uop *p = param(at, 0), *q = param(at, 1);
    const tolk_uop *list = LINEAR(at, CALL(at, body, mid, q), CALL(at, body, p, mid));
    tolk_status st = tolk_graph_error(at, e);
    if (st == TOLK_OK)
        st = tolk_realize(to, CALL(at, list, out, buf(at, 1), n), NULL, 0, NULL, args, e);
    tolk_graph_destroy(at);
    return st;
}

static void test_a_function_of_graphs_is_replayed(void **state) {
    (void)state;
    work w = {0};
    tolk_jit *jit = NULL;
    tolk_var n = {"n", 0};
    const tolk_uop *in = buf(g, 1);
    tolk_run_args args = TOLK_RUN_INIT;
    args.vars = &n;
    args.n_vars = 1;
    args.inputs = &in;
    args.n_inputs = 1;
    assert_int_equal(tolk_jit_create(b, twice, &w, NULL, &jit, NULL), TOLK_OK);
    for (int i = 0; i < 6; i++) {
        float x = (float)i;
        n.value = 2 * i;
        seed(b, in, N, x);
        if (tolk_jit_call(jit, &args, &err))
            fail_msg("%s", err.msg);
        check_floats(bound(b, buf(g, 50)), 9 * (9 * x + 2 * x) + 2 * x);
    }
    assert_int_equal(w.calls, 2);
    assert_null(bound(b, buf(g, -60)));
    tolk_jit_destroy(jit);
    /* What a replay would not know is refused when it is captured. */
    w = (work){0, true};
    args.n_vars = 0;
    assert_int_equal(tolk_jit_create(b, twice, &w, NULL, &jit, NULL), TOLK_OK);
    assert_int_equal(tolk_jit_call(jit, &args, &err), TOLK_OK);
    assert_int_equal(tolk_jit_call(jit, &args, &err), TOLK_E_UNBOUND);
    check_contains(err.msg, "variable \"n\"");
    tolk_jit_destroy(jit);
}

/* ---- threads ---- */

typedef struct sharer {
    const tolk_uop *call;
    int wrong;
} sharer;

static void *share(void *arg) {
    sharer *s = arg;
    tolk_bindings *own;
    tolk_graph *at;
    if (tolk_bindings_create(r.cpu, &own, NULL) || tolk_graph_create(r.ctx, &at)) {
        s->wrong++;
        return NULL;
    }
    const tolk_uop *x = buf(at, 1), *y = buf(at, 0);
    for (int i = 0; i < 50; i++) {
        float v[N] = {0};
        tolk_buffer *in = NULL, *out = NULL;
        for (int k = 0; k < N; k++)
            v[k] = (float)(i + k);
        s->wrong += tolk_alloc_f32(r.cpu, N, &in, NULL) != TOLK_OK ||
                    tolk_buffer_copyin(in, 0, v, sizeof v, NULL) != TOLK_OK ||
                    tolk_bindings_seed(own, x, in, NULL) != TOLK_OK ||
                    tolk_realize(own, s->call, NULL, 0, NULL, NULL, NULL) != TOLK_OK ||
                    tolk_bindings_find(own, y, &out, NULL, NULL) != TOLK_OK || !out ||
                    tolk_buffer_copyout(out, 0, v, sizeof v, NULL) != TOLK_OK;
        for (int k = 0; k < N; k++)
            s->wrong += v[k] != 9 * (float)(i + k) + 5;
        tolk_buffer_unref(in);
    }
    tolk_graph_destroy(at);
    tolk_bindings_destroy(own);
    return NULL;
}

static void test_threads_schedule_one_graph_at_once(void **state) {
    (void)state;
    enum { THREADS = 3 };
    pthread_t t[THREADS];
    sharer s[THREADS];
    const tolk_uop *call = CALL(g, body_in(g), buf(g, 0), buf(g, 1), bind(g, "n", 5));
    for (int i = 0; i < THREADS; i++) {
        s[i] = (sharer){call, 0};
        assert_int_equal(pthread_create(&t[i], NULL, share, &s[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(s[i].wrong, 0);
    }
    assert_int_equal(stats().schedules + stats().schedule_hits, THREADS * 50);
    assert_true(stats().schedules <= THREADS);
}

/* ---- memory that is short ---- */

static tolk_status realize_little(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_disk_cache = 1;
    o.no_environment = 1;
    o.synchronous = 1;
    o.threads = 1;
    memset(&r, 0, sizeof r);
    tolk_status st = tolk_ctx_create(&o, &r.ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tolk_bindings *to = NULL;
    tolk_graph *at = NULL;
    const tolk_uop *call = NULL;
    st = tolk_device_open(r.ctx, "CPU", &r.cpu, NULL);
    if (st == TOLK_OK)
        st = tolk_bindings_create(r.cpu, &to, NULL);
    if (st == TOLK_OK)
        st = tolk_graph_create(r.ctx, &at);
    if (st == TOLK_OK) {
        call = CALL(at, body_in(at), buf(at, 0), buf(at, 1), bind(at, "n", 5));
        st = call ? TOLK_OK : TOLK_E_NOMEM;
    }
    static const char zeros[4096];
    tolk_buffer_info info;
    tolk_buffer *in = NULL;
    if (st == TOLK_OK)
        st = tolk_resolve_single(to, NULL, tolk_uop_src(call, 2), &in, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_get_info(in, &info);
    if (st == TOLK_OK)
        st = tolk_buffer_copyin(in, 0, zeros, info.bytes, NULL);
    tolk_buffer_unref(in);
    for (int i = 0; i < 2 && st == TOLK_OK; i++)
        st = tolk_realize(to, call, NULL, 0, NULL, NULL, NULL);
    tolk_graph_destroy(at);
    tolk_bindings_destroy(to);
    tolk_ctx_destroy(r.ctx);
    return st;
}

static tolk_status schedule_little(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_environment = 1;
    tolk_ctx *ctx;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tolk_graph *at = NULL;
    const tolk_uop *call = NULL;
    st = tolk_graph_create(ctx, &at);
    if (st == TOLK_OK) {
        call = CALL(at, body_in(at), buf(at, 0), buf(at, 1), bind(at, "n", 5));
        st = call ? TOLK_OK : TOLK_E_NOMEM;
    }
    for (int i = 0; i < 2 && st == TOLK_OK; i++) {
        tolk_linear *l = NULL;
        tolk_vars *vars = NULL;
        st = tolk_schedule(ctx, call, &l, &vars, NULL);
        assert_true((st == TOLK_OK) == (l && vars));
        tolk_vars_destroy(vars);
        tolk_linear_unref(l);
    }
    tolk_graph_destroy(at);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory_it_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(schedule_little, NULL) > 100);
    assert_true(tk_test_oom(realize_little, NULL) > 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(test_a_call_becomes_a_linear_with_the_values_of_its_variables),
        IN_CONTEXT(test_an_order_is_found_again_whatever_arguments_and_values_are),
        IN_CONTEXT(test_TOLK_DEBUG_tells_of_orders_of_several_calls),
        IN_CONTEXT(test_wrong_calls_are_refused),
        IN_CONTEXT(test_a_linear_with_calls_of_calls_says_who_makes_calls_of_them),
        IN_CONTEXT(test_a_call_is_run_and_leaves_its_arguments),
        IN_CONTEXT(test_memory_of_a_call_goes_with_it),
        IN_CONTEXT(test_a_sink_alone_leaves_the_buffers_of_its_user),
        IN_CONTEXT(test_what_the_caller_names_stays),
        IN_CONTEXT(test_variables_of_the_run_and_of_binds_are_one),
        IN_CONTEXT(test_params_that_no_argument_is_are_inputs_of_the_run),
        IN_CONTEXT(test_of_a_graph_without_an_order_nothing_runs),
        IN_CONTEXT(test_a_capture_gets_the_linear_before_it_is_planned),
        IN_CONTEXT(test_a_function_of_graphs_is_replayed),
        IN_CONTEXT(test_threads_schedule_one_graph_at_once),
        cmocka_unit_test(test_without_memory_it_fails_cleanly),
    };
    return cmocka_run_group_tests_name("sinks", tests, NULL, NULL);
}
