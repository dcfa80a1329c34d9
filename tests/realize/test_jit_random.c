/* SPDX-License-Identifier: MIT
 *
 * Random functions, recorded and replayed, beside plain runs of them.
 */
#include "realize/jits.h"

enum { SLOTS = 10, CALLS = 24 };

/* The same calls for each run of the function; slots 0 and 1 are inputs, 2 and 3 are held. */
typedef struct program {
    uint64_t seed;
    bool direct; /* run the calls as they are */
} program;

static const char *device_at(int slot) {
    return slot % 5 == 4 ? "CPU:1" : NULL;
}

static const tolk_uop *slot_node(tolk_graph *at, int slot) {
    return buffer_in(at, slot, N, device_at(slot));
}

static tolk_status random_calls(void *user, tolk_bindings *to, const tolk_run_args *args,
                                tolk_error *e) {
    const program *p = user;
    uint64_t s = p->seed;
    bool made[SLOTS] = {true, true};
    tolk_graph *at;
    assert_int_equal(tolk_graph_create(r.ctx, &at), TOLK_OK);
    const tolk_uop *calls[CALLS], *held[] = {slot_node(at, 2), slot_node(at, 3)};
    size_t n = 0, most = 4 + tk_test_rand(&s) % (CALLS - 6);
    while (n < most || !made[2] || !made[3]) {
        int y = 2 + (int)(tk_test_rand(&s) % (SLOTS - 2)), x, z;
        if (n >= CALLS - 2)
            y = made[2] ? 3 : 2;
        do
            x = (int)(tk_test_rand(&s) % SLOTS);
        while (!made[x]);
        do
            z = (int)(tk_test_rand(&s) % SLOTS);
        while (!made[z]);
        bool near = device_at(x) == device_at(y) && x != y;
        if (near && device_at(z) == device_at(y) && z != y && tk_test_rand(&s) % 4)
            calls[n++] = call(at, mix(at, (double)(tk_test_rand(&s) % 3)), slot_node(at, y),
                              slot_node(at, x), slot_node(at, z));
        else if (near && tk_test_rand(&s) % 3)
            calls[n++] = call(at, twice(at, (double)(tk_test_rand(&s) % 3)), slot_node(at, y),
                              slot_node(at, x), NULL);
        else if (x != y)
            calls[n++] = copy_of(at, slot_node(at, y), slot_node(at, x));
        else
            continue;
        made[y] = true;
        if (n == CALLS)
            break;
    }
    tolk_status st = TOLK_OK;
    if (p->direct) {
        tolk_linear *l;
        st = tolk_linear_create(r.ctx, list_of(at, calls, n), &l, e);
        if (st == TOLK_OK)
            st = tolk_run_linear(to, l, NULL, args, e);
        tolk_linear_unref(l);
    } else { /* in two linears: what is between them is in use across both */
        size_t half = n / 2;
        const tolk_uop *all[SLOTS];
        for (int i = 0; i < SLOTS; i++)
            all[i] = slot_node(at, i);
        st = hand_over(to, at, calls, half, all, SLOTS, args, e);
        if (st == TOLK_OK)
            st = hand_over(to, at, calls + half, n - half, held, 2, args, e);
    }
    tolk_graph_destroy(at);
    return st;
}

static void set_inputs(tolk_bindings *to, float v) {
    for (int i = 0; i < 2; i++) {
        tolk_buffer *x = floats(r.cpu, N, v + (float)i);
        assert_int_equal(tolk_bindings_seed(to, slot_node(g, i), x, NULL), TOLK_OK);
        tolk_buffer_unref(x);
    }
}

static void read_results(tolk_bindings *to, float out[2][N]) {
    for (int i = 0; i < 2; i++) {
        tolk_buffer *x = NULL;
        assert_int_equal(tolk_bindings_find(to, slot_node(g, 2 + i), &x, NULL, NULL), TOLK_OK);
        memset(out[i], 0, sizeof out[i]);
        if (x)
            assert_int_equal(tolk_buffer_copyout(x, 0, out[i], sizeof out[i], NULL), TOLK_OK);
    }
}

static void random_function(uint64_t seed) {
    program p = {seed, false}, plain = {seed, true};
    const tolk_uop *inputs[] = {slot_node(g, 0), slot_node(g, 1)};
    tolk_jit_opts opts = TOLK_JIT_OPTS_INIT;
    opts.batch = (uint32_t)(seed % 4);
    opts.no_graphs = seed % 3 == 0;
    tolk_jit *jit = jit_of(random_calls, &p, &opts);
    for (int i = 0; i < 5; i++) {
        float have[2][N], want[2][N];
        tolk_bindings *other;
        tolk_run_args args = TOLK_RUN_INIT;
        set_inputs(b, (float)i);
        run_ok(jit, inputs, 2);
        read_results(b, have);
        assert_int_equal(tolk_bindings_create(r.cpu, &other, NULL), TOLK_OK);
        set_inputs(other, (float)i);
        if (random_calls(&plain, other, &args, &err))
            fail_msg("%s", err.msg);
        read_results(other, want);
        tolk_bindings_destroy(other);
        if (memcmp(have, want, sizeof have) != 0)
            fail_msg("seed %llu: run %d computes something else", (unsigned long long)seed, i);
    }
    tolk_jit_destroy(jit);
    assert_int_equal(arenas(), 0);
    tolk_bindings_clear(b);
}

static void test_random_functions_compute_what_plain_runs_do(void **state) {
    (void)state;
    uint64_t seed = tk_test_seed();
    for (uint64_t i = 0, n = tk_test_count(2000); i < n; i++)
        random_function(seed + i);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_random_functions_compute_what_plain_runs_do),
    };
    return cmocka_run_group_tests_name("jit_random", tests, NULL, NULL);
}
