/* SPDX-License-Identifier: MIT
 *
 * Random graphs of calls against what their states are by definition.
 */
#include "realize/sinks.h"

enum { MOST_LEAVES = 6, MOST_STEPS = 8 };

/* y = a m + z; y = a + variable; or a call of both through a buffer of its own. */
typedef enum step_kind { MIX, ADD, BOTH } step_kind;

typedef struct step {
    step_kind kind;
    int y, a, z; /* leaves */
    bool old;    /* the state of a before its latest one */
    double m;
    int var;
    bool sink; /* the body of BOTH is a graph, not a list */
} step;

/* A random graph: leaves below n_args are arguments, the others memory of the call. */
typedef struct plan {
    int n_args, n_leaves, n_steps;
    step at[MOST_STEPS];
} plan;

static const char *const var_names[] = {"n", "m"};

/* Old states may be taken where the step does not need what made the latest one, and where there
 * was one. */
static void check_old(plan *p) {
    int maker[MOST_LEAVES], before[MOST_LEAVES];
    uint32_t needs[MOST_STEPS];
    for (int i = 0; i < p->n_leaves; i++)
        maker[i] = before[i] = i < p->n_args ? -1 : -2; /* as it began; never written */
    for (int i = 0; i < p->n_steps; i++) {
        step *s = &p->at[i];
        int of[3] = {maker[s->y], s->kind == ADD ? -1 : maker[s->z], before[s->a]};
        needs[i] = 1u << i;
        for (int k = 0; k < 3; k++)
            if (of[k] >= 0)
                needs[i] |= needs[of[k]];
        int latest = maker[s->a];
        s->old &= latest >= 0 && before[s->a] != -2 && !(needs[i] >> latest & 1);
        if (!s->old && latest >= 0)
            needs[i] |= needs[latest];
        before[s->y] = maker[s->y];
        maker[s->y] = i;
    }
}

static plan random_plan(uint64_t *seed, bool lists) {
    plan p = {.n_args = 2 + (int)(tk_test_rand(seed) % 3)};
    p.n_leaves = p.n_args + 1 + (int)(tk_test_rand(seed) % 2);
    p.n_steps = p.n_leaves - p.n_args + 1 + (int)(tk_test_rand(seed) % 5);
    for (int i = 0; i < p.n_steps; i++) {
        int known = p.n_args + (i < p.n_leaves - p.n_args ? i : p.n_leaves - p.n_args);
        step *s = &p.at[i];
        s->kind = (step_kind)(tk_test_rand(seed) % (lists ? 3 : 2));
        s->a = (int)(tk_test_rand(seed) % (uint64_t)known);
        s->z = (int)(tk_test_rand(seed) % (uint64_t)known);
        /* Memory of the call is written before it is read. */
        s->y = i < p.n_leaves - p.n_args ? p.n_args + i
                                         : (int)(tk_test_rand(seed) % (uint64_t)p.n_leaves);
        s->m = (double)(1 + tk_test_rand(seed) % 2);
        s->var = (int)(tk_test_rand(seed) % 2);
        s->old = tk_test_rand(seed) % 4 == 0;
        s->sink = tk_test_rand(seed) % 2 == 0;
    }
    check_old(&p);
    return p;
}

/* Param 0 = (param 1 m + param 2) + variable, through a buffer that is named as others are. */
static const tolk_uop *both(tolk_graph *at, const step *s) {
    const tolk_uop *t = buf(at, 1), *y = param(at, 0), *a = param(at, 1), *z = param(at, 2);
    const char *var = var_names[s->var];
    if (!s->sink)
        return LINEAR(at, mix(at, s->m, t, a, z), add(at, var, y, t));
    const tolk_uop *t1 = AFTER(at, t, mix(at, s->m, t, a, z));
    return SINK(at, AFTER(at, y, add(at, var, y, t1)));
}

/* The graph with these nodes as leaves. */
static const tolk_uop *build(tolk_graph *at, const plan *p, const tolk_uop *const *leaf) {
    const tolk_uop *now[MOST_LEAVES], *before[MOST_LEAVES];
    for (int i = 0; i < p->n_leaves; i++)
        now[i] = before[i] = leaf[i];
    for (int i = 0; i < p->n_steps; i++) {
        const step *s = &p->at[i];
        const tolk_uop *a = s->old ? before[s->a] : now[s->a], *y = now[s->y], *call;
        if (s->kind == MIX)
            call = mix(at, s->m, y, a, now[s->z]);
        else if (s->kind == ADD)
            call = add(at, var_names[s->var], y, a);
        else
            call = CALL(at, both(at, s), y, a, now[s->z]);
        before[s->y] = now[s->y];
        now[s->y] = AFTER(at, y, call);
    }
    return make(at, "sink", TOLK_VOID, now, (size_t)p->n_leaves);
}

/* What the states are, by definition. */
static void evaluate(const plan *p, float start[MOST_LEAVES][N], const int64_t *vars,
                     float end[MOST_LEAVES][N]) {
    static float before[MOST_LEAVES][N];
    memcpy(end, start, sizeof(float[MOST_LEAVES][N]));
    memcpy(before, start, sizeof before);
    for (int i = 0; i < p->n_steps; i++) {
        const step *s = &p->at[i];
        float made[N];
        for (int k = 0; k < N; k++) {
            float a = s->old ? before[s->a][k] : end[s->a][k], z = end[s->z][k];
            made[k] = s->kind == ADD ? a : a * (float)s->m + z;
            made[k] += s->kind == MIX ? 0 : (float)vars[s->var];
        }
        memcpy(before[s->y], end[s->y], sizeof made);
        memcpy(end[s->y], made, sizeof made);
    }
}

static void fill_random(uint64_t *seed, float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(tk_test_rand(seed) % 9);
}

static void seed_with(tolk_bindings *to, const tolk_uop *node, const float *x, size_t n) {
    tolk_buffer *at = floats(r.cpu, n, 0);
    assert_int_equal(tolk_buffer_copyin(at, 0, x, n * 4, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed(to, node, at, NULL), TOLK_OK);
    tolk_buffer_unref(at);
}

static void read_from(tolk_bindings *to, const tolk_uop *node, float *x, size_t n) {
    tolk_buffer *at = bound(to, node);
    assert_non_null(at);
    assert_int_equal(tolk_buffer_copyout(at, 0, x, n * 4, NULL), TOLK_OK);
}

/* The call of the plan's graph: params for arguments, with n and m somewhere between these. */
static const tolk_uop *call_of(tolk_graph *at, const plan *p, const tolk_uop *const *args,
                               const int64_t *vars, uint64_t where) {
    const tolk_uop *leaf[MOST_LEAVES], *src[MOST_LEAVES + 3];
    size_t n = 1, m = 0;
    for (int i = 0; i < p->n_args; i++) {
        for (int k = 0; k < 2; k++)
            if ((where + (uint64_t)k) % (uint64_t)p->n_args == (uint64_t)i) {
                src[n++] = bind(at, var_names[k], vars[k]);
                m++;
            }
        leaf[i] = param(at, (int64_t)n - 1);
        src[n++] = args[i];
    }
    assert_int_equal(m, 2);
    for (int i = p->n_args; i < p->n_leaves; i++)
        leaf[i] = buf(at, i - p->n_args);
    src[0] = build(at, p, leaf);
    return make(at, "call", TOLK_VOID, src, n);
}

/* Arguments that are memory of their own: what their states are is known. */
static void random_states(uint64_t seed) {
    plan p = random_plan(&seed, true);
    uint64_t where = tk_test_rand(&seed);
    tolk_counters before = stats();
    int ran = 0;
    for (int round = 0; round < 3; round++) {
        float start[MOST_LEAVES][N] = {{0}}, want[MOST_LEAVES][N], have[N];
        int64_t vars[2] = {(int64_t)(tk_test_rand(&seed) % 50),
                           (int64_t)(tk_test_rand(&seed) % 50)};
        const tolk_uop *args[MOST_LEAVES];
        for (int i = 0; i < p.n_args; i++) {
            args[i] = buf(g, (i + round) % p.n_args);
            fill_random(&seed, start[i], N);
            seed_with(b, args[i], start[i], N);
        }
        evaluate(&p, start, vars, want);
        tolk_status st =
            tolk_realize(b, call_of(g, &p, args, vars, where), NULL, 0, NULL, NULL, &err);
        if (st == TOLK_E_VERIFY && strstr(err.msg, "before itself"))
            continue; /* what is old is overwritten by what it is needed for */
        if (st != TOLK_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
        ran++;
        for (int i = 0; i < p.n_args; i++) {
            read_from(b, args[i], have, N);
            if (memcmp(have, want[i], sizeof have) != 0)
                fail_msg("seed %llu, round %d: argument %d is %g ..., expected %g",
                         (unsigned long long)seed, round, i, (double)have[0], (double)want[i][0]);
        }
    }
    assert_true(ran == 0 || ran == 3);
    assert_true(!ran || stats().schedule_hits >= before.schedule_hits + 2);
    assert_int_equal(strangers(), 0);
    tolk_bindings_clear(b);
}

static tolk_status run_by_hand(tolk_bindings *to, const tolk_uop *sink, const int64_t *vars) {
    tolk_linear *l;
    tolk_var values[] = {{"n", vars[0]}, {"m", vars[1]}};
    tolk_run_args args = TOLK_RUN_INIT;
    args.vars = values;
    args.n_vars = 2;
    tolk_status st = tolk_create_schedule(r.ctx, sink, &l, &err);
    if (st != TOLK_OK)
        return st;
    st = tolk_run_linear(to, l, NULL, &args, &err);
    tolk_linear_unref(l);
    return st;
}

/* Arguments that may be one buffer, or overlapping parts of one: as with the arguments put in. */
static bool random_aliases(uint64_t seed) {
    enum { WHOLE = 3 * N };
    plan p = random_plan(&seed, false);
    float start[2][WHOLE], have[WHOLE], want[WHOLE];
    int64_t vars[2] = {(int64_t)(tk_test_rand(&seed) % 50), (int64_t)(tk_test_rand(&seed) % 50)};
    const tolk_uop *args[MOST_LEAVES];
    const tolk_uop *whole[2] = {floats_in(g, 0, WHOLE), floats_in(g, 1, WHOLE)};
    tolk_bindings *hand;
    assert_int_equal(tolk_bindings_create(r.cpu, &hand, NULL), TOLK_OK);
    for (int i = 0; i < 2; i++) {
        fill_random(&seed, start[i], WHOLE);
        seed_with(b, whole[i], start[i], WHOLE);
        seed_with(hand, whole[i], start[i], WHOLE);
    }
    for (int i = 0; i < p.n_args; i++)
        args[i] =
            slice_of(g, whole[tk_test_rand(&seed) % 2], (int64_t)(tk_test_rand(&seed) % 3) * N);
    for (int i = p.n_args; i < p.n_leaves; i++)
        args[i] = buf(g, 100 + i);
    const tolk_uop *call = call_of(g, &p, args, vars, tk_test_rand(&seed));
    tolk_error own = TOLK_ERROR_INIT;
    tolk_status have_st = tolk_realize(b, call, NULL, 0, NULL, NULL, &own);
    tolk_status want_st = run_by_hand(hand, build(g, &p, args), vars);
    if (have_st != want_st)
        fail_msg("seed %llu: %s, expected %s", (unsigned long long)seed, own.msg, err.msg);
    for (int i = 0; i < 2 && have_st == TOLK_OK; i++) {
        read_from(b, whole[i], have, WHOLE);
        read_from(hand, whole[i], want, WHOLE);
        if (memcmp(have, want, sizeof have) != 0)
            fail_msg("seed %llu: buffer %d differs", (unsigned long long)seed, i);
    }
    tolk_bindings_destroy(hand);
    tolk_bindings_clear(b);
    return have_st == TOLK_OK;
}

static void test_random_graphs_compute_what_their_states_are(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed();
    for (uint64_t i = 0, n = tk_test_count(4000); i < n; i++)
        random_states(seed + i);
}

static void test_random_arguments_that_are_one_buffer_are_as_if_put_in(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed(), ran = 0, n = tk_test_count(4000);
    for (uint64_t i = 0; i < n; i++)
        ran += random_aliases(seed + i);
    assert_true(n < 20 || ran > n / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(test_random_graphs_compute_what_their_states_are),
        IN_CONTEXT(test_random_arguments_that_are_one_buffer_are_as_if_put_in),
    };
    return cmocka_run_group_tests_name("random sinks", tests, NULL, NULL);
}
