/* SPDX-License-Identifier: MIT
 *
 * Memory that ends anywhere: while linears are made, compiled at the same time, run on several
 * devices, recorded, recorded anew, replayed, captured and planned. Each allocation fails in turn,
 * alone and with all after it; the step that it was in says so, and is then done again with the
 * same objects, and all later ones, with the right results. Nothing is left behind.
 */
#include "realize/runs.h"

typedef struct trial {
    tk_test_heap heap;
    tolk_graph *g; /* of the linear that is given, and of nodes */
    const tolk_uop *root;
    tolk_linear *l, *made;
    tolk_exec *e;
    tolk_jit *jit;
} trial;

typedef tolk_status (*step_fn)(trial *t);
enum { STEPS = 8 };
typedef struct scenario {
    const char *name, *text;
    uint32_t devices;
    void (*begin)(trial *t);     /* with memory */
    step_fn step[STEPS];         /* may be done again; NULL: that was all */
    void (*check)(int32_t step); /* with memory, after each */
} scenario;

static size_t told;  /* trials in which a step gave TOLK_E_NOMEM */
static char *folder; /* of the disk cache: what is compiled in each trial is compiled once */

/* ---- steps ---- */

static tolk_status make_linear(trial *t) {
    return t->l ? TOLK_OK : tolk_linear_create(r.ctx, t->root, &t->l, NULL);
}

static tolk_status compile_all(trial *t) {
    return t->made ? TOLK_OK : tolk_compile_linear(r.cpu, t->l, NULL, &t->made, NULL);
}

/* Past the caches. */
static tolk_status compile_anew(trial *t) {
    tolk_compile_opts c = TOLK_COMPILE_OPTS_INIT;
    tolk_realize_opts o = TOLK_REALIZE_OPTS_INIT;
    c.no_cache = 1;
    c.tier = TOLK_TIER_QUICK;
    o.compile = &c;
    return t->made ? TOLK_OK : tolk_compile_linear(r.cpu, t->l, &o, &t->made, NULL);
}

static tolk_status run_made(trial *t) {
    tolk_run_args a = TOLK_RUN_INIT;
    a.jit = 1;
    return tolk_run_linear(b, t->made, NULL, &a, NULL);
}

static tolk_status run_given(trial *t) {
    return tolk_run_linear(b, t->l, NULL, NULL, NULL);
}

static tolk_status make_exec(trial *t) {
    return t->e ? TOLK_OK : tolk_exec_create(b, t->l, NULL, &t->e, NULL);
}

/* Inputs are nodes of these slots. */
static tolk_run_args inputs(const trial *t, const tolk_uop *in[2], int64_t a, int64_t c) {
    tolk_run_args args = TOLK_RUN_INIT;
    in[0] = buffer_node(t->g, 48, a, NULL);
    in[1] = buffer_node(t->g, 48, c, NULL);
    args.inputs = in;
    args.n_inputs = 2;
    return args;
}

static tolk_status exec_with(trial *t, int64_t a, int64_t c) {
    const tolk_uop *in[2];
    tolk_run_args args = inputs(t, in, a, c);
    return in[0] && in[1] ? tolk_exec_run(t->e, &args, NULL) : TOLK_E_NOMEM;
}
static tolk_status exec_10_20(trial *t) {
    return exec_with(t, 10, 20);
}
static tolk_status exec_11_21(trial *t) {
    return exec_with(t, 11, 21);
}
/* Input and result are one: other dependencies. */
static tolk_status exec_12_12(trial *t) {
    return exec_with(t, 12, 12);
}

static tolk_status plan(trial *t) {
    const tolk_uop *held[] = {buffer_node(t->g, 48, 0, NULL), buffer_node(t->g, 48, 5, NULL)};
    return t->made                ? TOLK_OK
           : !held[0] || !held[1] ? TOLK_E_NOMEM
                                  : tolk_memory_plan(t->l, held, 2, &t->made, NULL);
}
static tolk_status run_planned(trial *t) {
    return tolk_run_linear(b, t->made, NULL, NULL, NULL);
}
static tolk_status realize(trial *t) {
    return tolk_realize_linear(b, t->l, NULL, 0, NULL, NULL, NULL);
}

/* Hands the linear over twice: once as it is, once more to make the same. */
static tolk_status function(void *user, tolk_bindings *to, const tolk_run_args *args,
                            tolk_error *e) {
    trial *t = user;
    tolk_status st = tolk_realize_linear(to, t->l, NULL, 0, NULL, args, e);
    return st ? st : tolk_realize_linear(to, t->l, NULL, 0, NULL, args, e);
}
static tolk_status make_jit(trial *t) {
    return t->jit ? TOLK_OK : tolk_jit_create(b, function, t, NULL, &t->jit, NULL);
}
static tolk_status jit_with(trial *t, int64_t a, int64_t c) {
    const tolk_uop *in[2];
    tolk_run_args args = inputs(t, in, a, c);
    return in[0] && in[1] ? tolk_jit_call(t->jit, &args, NULL) : TOLK_E_NOMEM;
}
static tolk_status jit_10_20(trial *t) {
    return jit_with(t, 10, 20);
}
static tolk_status jit_11_21(trial *t) {
    return jit_with(t, 11, 21);
}

/* ---- scenarios ---- */

#define ALL_OF_48                                                                                  \
    "%30 = buffer i32 (%1) {slot=0}\n%31 = buffer i32 (%1) {slot=1}\n"                             \
    "%32 = buffer i32 (%1) {slot=2}\n%33 = buffer i32 (%1) {slot=3}\n"                             \
    "%34 = buffer i32 (%1) {slot=4}\n%35 = buffer i32 (%1) {slot=5}\n"

static void begin_chain(trial *t) {
    (void)t;
    (void)seed(48, 0, NULL, 1, 1);
    (void)seed(48, 5, NULL, -1, 0);
}

/* Kernels that differ: y = a + 3 b, and a - b, a * b, -a, each in another sink. */
static const char many_kernels[] =
    MIX "%50 = sub i32 (%9, %10)\n%51 = store void (%6, %50)\n%52 = end void (%51, %5)\n"
        "%53 = sink void (%52) {name=\"minus\"}\n"
        "%54 = mul i32 (%9, %10)\n%55 = store void (%6, %54)\n%56 = end void (%55, %5)\n"
        "%57 = sink void (%56) {name=\"times\"}\n"
        "%58 = max i32 (%9, %10)\n%59 = store void (%6, %58)\n%60 = end void (%59, %5)\n"
        "%61 = sink void (%60) {name=\"most\"}\n" ALL_OF_48 "%40 = call void (%20, %31, %30, %30)\n"
        "%41 = call void (%53, %32, %31, %30)\n%42 = call void (%61, %33, %32, %30)\n"
        "%43 = call void (%57, %35, %33, %30)\n%44 = linear void (%40, %41, %42, %43)\n";

/* t = 4 x, u = t - x = 3 x, v = max(u, x) = 3 x, y = 3 x * x. */
static void check_kernels(int32_t step) {
    int32_t v[48];
    if (step < 2)
        return;
    tolk_buffer *y = bound(48, 5, NULL);
    assert_int_equal(tolk_buffer_copyout(y, 0, v, sizeof v, NULL), TOLK_OK);
    for (int i = 0; i < 48; i++)
        assert_int_equal(v[i], 3 * (i + 1) * (i + 1));
}

static const char several_devices[] = MIX "%30 = buffer i32 (%1) {slot=0, device=\"CPU,CPU:1\"}\n"
                                          "%31 = buffer i32 (%1) {slot=1, device=\"CPU,CPU:1\"}\n"
                                          "%32 = buffer i32 (%1) {slot=2, device=\"CPU,CPU:1\"}\n"
                                          "%33 = buffer i32 (%1) {slot=3}\n"
                                          "%34 = buffer i32 (%1) {slot=4, device=\"CPU:1\"}\n"
                                          "%35 = buffer i32 (%1) {slot=5}\n"
                                          "%36 = mstack i32 (%33, %34)\n"
                                          "%37 = mselect i32 (%32) {index=1}\n"
                                          "%38 = copy i32 (%36) {device=\"CPU,CPU:1\"}\n"
                                          "%39 = copy i32 (%37) {device=\"CPU\"}\n"
                                          "%40 = call void (%38, %30, %36)\n"
                                          "%41 = call void (%20, %31, %30, %30)\n"
                                          "%42 = call void (%20, %32, %31, %30)\n"
                                          "%43 = call void (%39, %35, %37)\n"
                                          "%44 = linear void (%40, %41, %42, %43)\n";

static void begin_devices(trial *t) {
    (void)t;
    (void)seed(48, 3, NULL, 1, 1);
    (void)seed(48, 4, "CPU:1", 100, 1);
    (void)seed(48, 5, NULL, -1, 0);
}
static void check_devices(int32_t step) {
    if (step >= 2)
        check_ints(bound(48, 5, NULL), 700, 7);
}

/* To another device, a part of it there, back, and another part of that. */
static const char copies_text[] =
    "tolk.uop 1\n%1 = const index 48\n%2 = const index 24\n%3 = const index 12\n"
    "%30 = buffer i32 (%1) {slot=0}\n%31 = buffer i32 (%1) {slot=1, device=\"CPU:1\"}\n"
    "%32 = buffer i32 (%2) {slot=2}\n%33 = buffer i32 (%2) {slot=3, device=\"CPU:1\"}\n"
    "%34 = buffer i32 (%3) {slot=5}\n"
    "%35 = copy i32 (%30) {device=\"CPU:1\"}\n%36 = slice i32 (%31, %2) {count=24}\n"
    "%37 = copy i32 (%33) {device=\"CPU\"}\n%38 = slice i32 (%32, %3) {count=12}\n"
    "%39 = copy i32 (%38) {device=\"CPU\"}\n"
    "%40 = call void (%35, %31, %30)\n%41 = call void (%36, %33, %31)\n"
    "%42 = call void (%37, %32, %33)\n%43 = call void (%39, %34, %38)\n"
    "%44 = linear void (%40, %41, %42, %43)\n";

static void begin_copies(trial *t) {
    (void)t;
    (void)seed(48, 0, NULL, 0, 1);
    (void)seed(12, 5, NULL, -1, 0);
}
static void check_copies(int32_t step) {
    if (step >= 1)
        check_ints(bound(12, 5, NULL), 36, 1);
}

#define GRAPH_CALLS                                                                                \
    MIX ALL_OF_48 "%45 = param i32 (%1) {slot=0}\n%46 = param i32 (%1) {slot=1}\n"                 \
                  "%47 = copy i32 (%33) {device=\"CPU\"}\n"                                        \
                  "%40 = call void (%20, %32, %45, %45)\n"                                         \
                  "%41 = call void (%20, %33, %32, %45)\n"                                         \
                  "%42 = call void (%47, %34, %33)\n"                                              \
                  "%43 = call void (%20, %46, %34, %32)\n"
/* t = 4 x, u = 7 x, copied, y = u + 3 t = 19 x. */
static const char graph_text[] =
    GRAPH_CALLS "%48 = linear void (%40, %41, %42, %43)\n"
                "%49 = custom_function void (%48) {name=\"graph\"}\n"
                "%50 = call void (%49, %45, %46)\n%51 = linear void (%50)\n";
static const char plain_text[] = GRAPH_CALLS "%48 = linear void (%40, %41, %42, %43)\n";

static void begin_inputs(trial *t) {
    (void)t;
    (void)seed(48, 10, NULL, 1, 1);
    (void)seed(48, 11, NULL, 5, 2);
    (void)seed(48, 12, NULL, 3, 3);
    (void)seed(48, 20, NULL, -1, 0);
    (void)seed(48, 21, NULL, -1, 0);
}
static void check_graph(int32_t step) {
    if (step == 2 || step == 5)
        check_ints(bound(48, 20, NULL), 19, 19);
    if (step == 3)
        check_ints(bound(48, 21, NULL), 95, 38);
    if (step == 4) {
        check_ints(bound(48, 12, NULL), 57, 57);
        (void)seed(48, 20, NULL, -1, 0);
    }
}
static void check_jit(int32_t step) {
    if (step == 2 || step == 4)
        check_ints(bound(48, 20, NULL), 19, 19);
    if (step == 3 || step == 5)
        check_ints(bound(48, 21, NULL), 95, 38);
    if (step >= 2) {
        (void)seed(48, 20, NULL, -1, 0);
        (void)seed(48, 21, NULL, -1, 0);
    }
}

/* y = 19 x through three buffers that are planned. */
static const char planned_text[] = MIX ALL_OF_48 "%47 = copy i32 (%33) {device=\"CPU\"}\n"
                                                 "%40 = call void (%20, %32, %30, %30)\n"
                                                 "%41 = call void (%20, %33, %32, %30)\n"
                                                 "%42 = call void (%47, %34, %33)\n"
                                                 "%43 = call void (%20, %35, %34, %32)\n"
                                                 "%48 = linear void (%40, %41, %42, %43)\n";
static void check_planned(int32_t step) {
    if (step == 0)
        return;
    check_ints(bound(48, 5, NULL), step == 1 ? -1 : 19, step == 1 ? 0 : 19);
    if (step > 1)
        (void)seed(48, 5, NULL, -1, 0);
}

static const scenario scenarios[] = {
    {"kernels compiled at the same time",
     many_kernels,
     1,
     begin_chain,
     {make_linear, compile_anew, run_made, run_made},
     check_kernels},
    {"a linear with its kernels from the cache",
     many_kernels,
     1,
     begin_chain,
     {make_linear, compile_all, run_made, run_given},
     check_kernels},
    {"several devices",
     several_devices,
     2,
     begin_devices,
     {make_linear, compile_all, run_made, run_given},
     check_devices},
    {"copies between devices",
     copies_text,
     2,
     begin_copies,
     {make_linear, run_given, run_given},
     check_copies},
    {"an exec graph",
     graph_text,
     1,
     begin_inputs,
     {make_linear, make_exec, exec_10_20, exec_11_21, exec_12_12, exec_10_20},
     check_graph},
    {"a jit",
     plain_text,
     1,
     begin_inputs,
     {make_linear, make_jit, jit_10_20, jit_11_21, jit_10_20, jit_11_21},
     check_jit},
    {"a memory plan",
     planned_text,
     1,
     begin_chain,
     {make_linear, plan, run_planned, realize, run_planned},
     check_planned},
};

/* ---- trials ---- */

static void open_trial(trial *t, const scenario *s, bool synchronous) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    memset(t, 0, sizeof *t);
    tk_test_heap_init(&t->heap);
    o.allocator = &t->heap.al;
    o.cpu_devices = s->devices;
    o.synchronous = synchronous;
    o.threads = 2;
    rt_open(&r, folder, &o);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    t->root = node_of(&r, s->text, &t->g);
    s->begin(t);
}

static void close_trial(trial *t) {
    t->heap.fail_at = 0;
    tolk_jit_destroy(t->jit);
    tolk_exec_destroy(t->e);
    tolk_linear_unref(t->made);
    tolk_linear_unref(t->l);
    tolk_graph_destroy(t->g);
    (void)teardown(NULL);
}

/* Wait for all devices; those that stopped go on. */
static tolk_status settle(const scenario *s, bool recover) {
    tolk_status first = TOLK_OK;
    for (uint32_t i = 0; i < s->devices; i++) {
        tolk_device *d = i ? device_of(&r, "CPU:1") : r.cpu;
        tolk_status st = tolk_device_await(d, NULL);
        if (st && recover)
            assert_int_equal(tolk_device_recover(d, NULL), TOLK_OK);
        first = first ? first : st;
    }
    return first;
}

static tolk_status one_step(trial *t, const scenario *s, int step) {
    tolk_status st = s->step[step](t);
    size_t at = t->heap.fail_at, calls = t->heap.calls;
    bool failed = at && calls >= at;
    t->heap.fail_at = 0; /* there is memory to look with */
    tolk_status end = settle(s, failed);
    if (at && !(failed && (st || end))) /* not yet: go on from here, without what looking took */
        t->heap.fail_at = at + (t->heap.calls - calls);
    return st ? st : end;
}

/* Returns whether there were so many allocations. */
static bool one_trial(const scenario *s, bool synchronous, size_t k, bool onward) {
    trial t;
    open_trial(&t, s, synchronous);
    t.heap.fail_onward = onward;
    t.heap.fail_at = k ? t.heap.calls + k : 0;
    bool failed = false;
    for (int i = 0; i < STEPS && s->step[i]; i++) {
        tolk_status st = one_step(&t, s, i);
        if (st == TOLK_E_NOMEM && k && !failed) {
            failed = true;
            told++;
            t.heap.fail_at = 0;
            st = one_step(&t, s, i);
        }
        if (st)
            fail_msg("%s: allocation %zu fails%s: step %d gives %s", s->name, k,
                     onward ? " and all after it" : "", i, tolk_status_name(st));
        size_t at = t.heap.fail_at, calls = t.heap.calls;
        t.heap.fail_at = 0;
        s->check(i);
        if (at && calls < at)
            t.heap.fail_at = at + (t.heap.calls - calls);
        else if (at)
            failed = true; /* it could do without */
    }
    bool pending = t.heap.fail_at != 0;
    close_trial(&t);
    if (t.heap.live || t.heap.bad_size)
        fail_msg("%s: allocation %zu fails%s: %zu blocks are left%s", s->name, k,
                 onward ? " and all after it" : "", (size_t)t.heap.live,
                 t.heap.bad_size ? ", some were freed with other sizes" : "");
    return failed || !pending;
}

static void all_failures(const scenario *s, bool synchronous) {
    assert_true(one_trial(s, synchronous, 0, false)); /* fills the cache */
    for (int onward = 0; onward < 2; onward++) {
        /* All of them at a share of 100 percent; else some, others with each seed. */
        size_t tries = 0;
        size_t step = tk_test_share() >= 100 ? 1
                      : tk_test_share() >= 5 ? 7
                                             : 31,
               k = 1 + tk_test_seed() % step;
        told = 0;
        for (; one_trial(s, synchronous, k, onward); k += step)
            tries++;
        printf("%s, %s%s: %zu allocations, %zu tried, %zu told\n", s->name,
               synchronous ? "synchronous" : "queued", onward ? ", and all after one" : "", k,
               tries, told);
        assert_true(tries > 3 && told > tries / 2);
    }
}

static void run_scenarios(bool synchronous) {
    folder = rt_mkdir();
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        all_failures(&scenarios[i], synchronous);
    rt_rmdir(folder);
}

static void test_each_allocation_fails_queued(void **state) {
    (void)state;
    run_scenarios(false);
}
static void test_each_allocation_fails_synchronous(void **state) {
    (void)state;
    run_scenarios(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_fails_queued),
        cmocka_unit_test(test_each_allocation_fails_synchronous),
    };
    return cmocka_run_group_tests_name("run_nomem", tests, NULL, NULL);
}
