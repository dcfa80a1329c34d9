/* SPDX-License-Identifier: MIT
 *
 * One memory under several names, in every way to run a linear: cases ALIAS of the collection this
 * project tests against, with the values of each.
 */
#include "realize/ways.h"

/* ---- ALIAS-01: buf = cat(buf[1:], new), three times ---- */

/* y[i] = i < 9 ? x[i + 1] : next, and z = y + 0 through one buffer more, so that a plan has
 * something to put over something. */
#define SHIFT                                                                                      \
    "tolk.uop 1\n"                                                                                 \
    "%1 = const index 10\n"                                                                        \
    "%2 = param i32 (%1) {slot=0, name=\"y\"}\n"                                                   \
    "%3 = param i32 (%1) {slot=1, name=\"x\"}\n"                                                   \
    "%4 = param i32 {slot=2, name=\"next\", space=alu}\n"                                          \
    "%5 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%6 = const index 9\n"                                                                         \
    "%7 = cmplt bool (%5, %6)\n"                                                                   \
    "%8 = const index 1\n"                                                                         \
    "%9 = add index (%5, %8)\n"                                                                    \
    "%10 = const index invalid\n"                                                                  \
    "%11 = where index (%7, %9, %10)\n"                                                            \
    "%12 = index i32 (%3, %11)\n"                                                                  \
    "%13 = load i32 (%12)\n"                                                                       \
    "%14 = where i32 (%7, %13, %4)\n"                                                              \
    "%15 = index i32 (%2, %5)\n"                                                                   \
    "%16 = store void (%15, %14)\n"                                                                \
    "%17 = end void (%16, %5)\n"                                                                   \
    "%18 = sink void (%17) {name=\"shift\"}\n"                                                     \
    "%19 = index i32 (%3, %5)\n"                                                                   \
    "%20 = load i32 (%19)\n"                                                                       \
    "%21 = store void (%15, %20)\n"                                                                \
    "%22 = end void (%21, %5)\n"                                                                   \
    "%23 = sink void (%22) {name=\"same\"}\n"                                                      \
    "%30 = buffer i32 (%1) {slot=0}\n"                                                             \
    "%31 = buffer i32 (%1) {slot=1}\n"                                                             \
    "%32 = buffer i32 (%1) {slot=2}\n"                                                             \
    "%39 = copy i32 (%32) {device=\"CPU\"}\n"                                                      \
    "%40 = call void (%18, %30, %30, %4)\n"                                                        \
    "%41 = call void (%18, %31, %30, %4)\n"                                                        \
    "%42 = call void (%23, %32, %31)\n"                                                            \
    "%43 = call void (%39, %30, %32)\n"                                                            \
    "%44 = param i32 (%1) {slot=0}\n"                                                              \
    "%45 = param i32 (%1) {slot=1}\n"                                                              \
    "%46 = call void (%18, %44, %45, %4)\n"

static void test_ALIAS_01_a_shift_by_way_of_other_buffers(void **state) {
    (void)state;
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, SHIFT, "%41, %42, %43", NULL);
        tolk_buffer *x = seed(10, 0, NULL, 0, 1);
        for (int i = 1; i <= 6; i++) { /* twice three: the jit replays three of them */
            tolk_var v = {"next", 9 + i};
            tolk_run_args a = with_vars(&v, 1);
            way_well(&w, &a);
            check_ints(x, i, 1);
        }
        way_close(&w);
    }
}

/* One kernel cannot do it in place: it is refused before anything is written, whoever says that
 * they are one memory: the linear, or the inputs of a run. */
static void test_ALIAS_01_a_shift_in_place_is_refused(void **state) {
    (void)state;
    tolk_var v = {"next", 10};
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, SHIFT, "%40", NULL);
        tolk_buffer *x = seed(10, 0, NULL, 0, 1);
        for (int i = 0; i < 3; i++) {
            tolk_run_args a = with_vars(&v, 1);
            assert_int_equal(way_run(&w, &a), TOLK_E_ALIAS);
            check_contains(err.msg, "kernel shift");
            check_ints(x, 0, 1);
        }
        way_close(&w);
    }
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const tolk_uop *n[] = {buffer_node(g, 10, 5, NULL), buffer_node(g, 10, 6, NULL)};
    for (way_kind k = 0; k < WAYS; k++) {
        way w;
        way_open(&w, k, SHIFT, "%46", NULL);
        for (int i = 0; i < 4; i++) { /* apart, then as one, then apart again */
            const tolk_uop *apart[] = {n[0], n[1]}, *one[] = {n[1], n[1]};
            tolk_run_args a = with_vars(&v, 1);
            a.n_inputs = 2;
            a.inputs = apart;
            (void)seed(10, 5, NULL, -1, 0);
            tolk_buffer *x = seed(10, 6, NULL, 0, 1);
            way_well(&w, &a);
            check_ints(bound(10, 5, NULL), 1, 1);
            a.inputs = one;
            if (i)
                assert_int_equal(way_run(&w, &a), TOLK_E_ALIAS);
            check_ints(x, 0, 1);
        }
        way_close(&w);
    }
    tolk_graph_destroy(g);
}

/* ---- ALIAS-03: t[:3] *= 10, then t + 1 ---- */

#define TEN_TIMES                                                                                  \
    "tolk.uop 1\n"                                                                                 \
    "%1 = const index 3\n"                                                                         \
    "%2 = param i32 (%1) {slot=0}\n"                                                               \
    "%3 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%4 = index i32 (%2, %3)\n"                                                                    \
    "%5 = load i32 (%4)\n"                                                                         \
    "%6 = const i32 10\n"                                                                          \
    "%7 = mul i32 (%5, %6)\n"                                                                      \
    "%8 = store void (%4, %7)\n"                                                                   \
    "%9 = end void (%8, %3)\n"                                                                     \
    "%10 = sink void (%9) {name=\"ten\"}\n"                                                        \
    "%11 = const index 5\n"                                                                        \
    "%12 = param i32 (%11) {slot=0}\n"                                                             \
    "%13 = param i32 (%11) {slot=1}\n"                                                             \
    "%14 = range index (%11) {axis=0, kind=global}\n"                                              \
    "%15 = index i32 (%13, %14)\n"                                                                 \
    "%16 = load i32 (%15)\n"                                                                       \
    "%17 = const i32 1\n"                                                                          \
    "%18 = add i32 (%16, %17)\n"                                                                   \
    "%19 = index i32 (%12, %14)\n"                                                                 \
    "%20 = store void (%19, %18)\n"                                                                \
    "%21 = end void (%20, %14)\n"                                                                  \
    "%22 = sink void (%21) {name=\"one\"}\n"                                                       \
    "%23 = const index 0\n"                                                                        \
    "%30 = buffer i32 (%11) {slot=0}\n"                                                            \
    "%31 = buffer i32 (%11) {slot=1}\n"                                                            \
    "%32 = slice i32 (%30, %23) {count=3}\n"                                                       \
    "%33 = buffer i32 (%1) {slot=3}\n"                                                             \
    "%34 = slice i32 (%30, %23) {count=3}\n"                                                       \
    "%40 = call void (%10, %32)\n"                                                                 \
    "%41 = call void (%22, %31, %30)\n"                                                            \
    "%42 = call void (%34, %33, %30)\n"                                                            \
    "%43 = call void (%10, %33)\n"

static void test_ALIAS_03_a_part_is_changed_once(void **state) {
    (void)state;
    static const char *const lists[] = {"%40, %41", "%42, %43, %41"}; /* a view by a call, too */
    static const int32_t t_after[] = {10, 20, 30, 4, 5}, sum[] = {11, 21, 31, 5, 6};
    for (way_kind k = 0; k < WAYS; k++)
        for (int list = 0; list < 2; list++) {
            way w;
            way_open(&w, k, TEN_TIMES, lists[list], NULL);
            tolk_buffer *y = seed(5, 1, NULL, 0, 0);
            for (int i = 0; i < 5; i++) {
                int32_t v[5];
                tolk_buffer *t = seed(5, 0, NULL, 1, 1);
                uint64_t before = counters().launches;
                way_well(&w, NULL);
                assert_int_equal(counters().launches - before, 2);
                read_ints(t, v, 5);
                assert_memory_equal(v, t_after, sizeof v);
                read_ints(y, v, 5);
                assert_memory_equal(v, sum, sizeof v);
            }
            way_close(&w);
        }
}

/* ---- ALIAS-05: a result that is a view, and a tensor of two graphs ---- */

/* t1 = x + 1, t2 = view of t1[1:], t3 = t1 * 2, t4 = t3 + 1, out = t4 * 2; x of 10. */
#define VIEWS                                                                                      \
    "tolk.uop 1\n"                                                                                 \
    "%1 = const index 10\n"                                                                        \
    "%2 = param i32 (%1) {slot=0}\n"                                                               \
    "%3 = param i32 (%1) {slot=1}\n"                                                               \
    "%4 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%5 = index i32 (%3, %4)\n"                                                                    \
    "%6 = load i32 (%5)\n"                                                                         \
    "%7 = const i32 1\n"                                                                           \
    "%8 = add i32 (%6, %7)\n"                                                                      \
    "%9 = index i32 (%2, %4)\n"                                                                    \
    "%10 = store void (%9, %8)\n"                                                                  \
    "%11 = end void (%10, %4)\n"                                                                   \
    "%12 = sink void (%11) {name=\"one\"}\n"                                                       \
    "%13 = add i32 (%6, %6)\n"                                                                     \
    "%14 = store void (%9, %13)\n"                                                                 \
    "%15 = end void (%14, %4)\n"                                                                   \
    "%16 = sink void (%15) {name=\"twice\"}\n"                                                     \
    "%17 = const index 9\n"                                                                        \
    "%18 = const index 1\n"                                                                        \
    "%30 = buffer i32 (%1) {slot=0}\n"                                                             \
    "%31 = buffer i32 (%1) {slot=1}\n"                                                             \
    "%32 = buffer i32 (%17) {slot=2}\n"                                                            \
    "%33 = buffer i32 (%1) {slot=3}\n"                                                             \
    "%34 = buffer i32 (%1) {slot=4}\n"                                                             \
    "%35 = buffer i32 (%1) {slot=5}\n"                                                             \
    "%36 = slice i32 (%31, %18) {count=9}\n"                                                       \
    "%40 = call void (%12, %31, %30)\n"                                                            \
    "%41 = call void (%36, %32, %31)\n"                                                            \
    "%42 = call void (%16, %33, %31)\n"                                                            \
    "%43 = call void (%12, %34, %33)\n"                                                            \
    "%44 = call void (%16, %35, %34)\n"

/* Hands over its linear with what others look at, as one who keeps results does. */
typedef struct holder {
    tolk_linear *l;
    const tolk_uop *held[4];
    size_t n_held;
} holder;

static tolk_status hold_function(void *user, tolk_bindings *to, const tolk_run_args *args,
                                 tolk_error *e) {
    holder *h = user;
    return tolk_realize_linear(to, h->l, h->held, h->n_held, NULL, args, e);
}

/* What is seen of t1[1:], t3 and out after each of five runs. */
static void look_at_views(bool plan, bool graphs, int32_t seen[5][29]) {
    tolk_jit_opts o = TOLK_JIT_OPTS_INIT;
    tolk_jit *jit = NULL;
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    holder h = {
        linear_of(&r, VIEWS "%50 = linear void (%40, %41, %42, %43, %44)\n"),
        {buffer_node(g, 9, 2, NULL), buffer_node(g, 10, 3, NULL), buffer_node(g, 10, 5, NULL)},
        3};
    o.no_graphs = !graphs;
    assert_int_equal(tolk_jit_create(b, hold_function, &h, &o, &jit, NULL), TOLK_OK);
    if (!plan)
        setenv("TOLK_MEMORY_PLAN", "0", 1);
    for (int i = 0; i < 5; i++) {
        (void)seed(10, 0, NULL, 3 * i, 7);
        if (tolk_jit_call(jit, NULL, &err))
            fail_msg("%s", err.msg);
        read_ints(bound(9, 2, NULL), seen[i], 9);
        read_ints(bound(10, 3, NULL), seen[i] + 9, 10);
        read_ints(bound(10, 5, NULL), seen[i] + 19, 10);
    }
    unsetenv("TOLK_MEMORY_PLAN");
    tolk_jit_destroy(jit);
    tolk_linear_unref(h.l);
    tolk_graph_destroy(g);
    tolk_bindings_clear(b);
}

static void test_ALIAS_05_a_view_of_a_planned_buffer(void **state) {
    (void)state;
    int32_t plain[5][29], seen[5][29];
    look_at_views(false, false, plain);
    for (int i = 0; i < 5; i++)
        for (int e = 0; e < 29; e++) {
            int x = 3 * i + 7 * (e < 9 ? e + 1 : e < 19 ? e - 9 : e - 19);
            assert_int_equal(plain[i][e], e < 9 ? x + 1 : e < 19 ? 2 * x + 2 : 4 * x + 6);
        }
    for (int graphs = 0; graphs < 2; graphs++)
        for (int plan = 0; plan < 2; plan++) {
            look_at_views(plan, graphs, seen);
            assert_memory_equal(seen, plain, sizeof seen);
        }
}

/* Two jits: what one makes the other one reads, both have buffers of their own in between. */
static void test_ALIAS_05_a_tensor_of_two_graphs(void **state) {
    (void)state;
    for (int plan = 0; plan < 2; plan++) {
        tolk_jit *jit[2] = {NULL, NULL};
        tolk_graph *g;
        assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
        const tolk_uop *shared = buffer_node(g, 10, 3, NULL), *out = buffer_node(g, 10, 5, NULL);
        holder h[2] = {{linear_of(&r, VIEWS "%50 = linear void (%40, %42)\n"), {shared}, 1},
                       {linear_of(&r, VIEWS "%50 = linear void (%43, %44)\n"), {out, shared}, 2}};
        for (int k = 0; k < 2; k++)
            assert_int_equal(tolk_jit_create(b, hold_function, &h[k], NULL, &jit[k], NULL),
                             TOLK_OK);
        if (!plan)
            setenv("TOLK_MEMORY_PLAN", "0", 1);
        for (int i = 0; i < 6; i++) {
            (void)seed(10, 0, NULL, i, 1);
            for (int k = 0; k < 2; k++)
                for (int twice = 0; twice <= (i & 1); twice++) /* once more changes nothing */
                    if (tolk_jit_call(jit[k], NULL, &err))
                        fail_msg("%s", err.msg);
            check_ints(bound(10, 3, NULL), 2 * i + 2, 2);
            check_ints(bound(10, 5, NULL), 4 * i + 6, 4);
        }
        unsetenv("TOLK_MEMORY_PLAN");
        for (int k = 0; k < 2; k++) {
            tolk_jit_destroy(jit[k]);
            tolk_linear_unref(h[k].l);
        }
        tolk_graph_destroy(g);
        tolk_bindings_clear(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_ALIAS_01_a_shift_by_way_of_other_buffers),
        TEST(test_ALIAS_01_a_shift_in_place_is_refused),
        TEST(test_ALIAS_03_a_part_is_changed_once),
        TEST(test_ALIAS_05_a_view_of_a_planned_buffer),
        TEST(test_ALIAS_05_a_tensor_of_two_graphs),
    };
    return cmocka_run_group_tests_name("case_alias", tests, NULL, NULL);
}
