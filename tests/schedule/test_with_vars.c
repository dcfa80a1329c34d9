/* SPDX-License-Identifier: MIT
 *
 * Calls of calls: what stands for what in a body, whose memory buffers are, lists in lists, values
 * of variables, arguments that are one buffer, and roots that are refused.
 */
#include "schedule/with_vars.h"

#include "calls.h"
#include "ir/key.h"
#include "schedule/memory_plan.h"

static const tolk_uop *node(tolk_graph *g, tk_op op, const tolk_uop *const *src, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!src[i])
            return NULL; /* no memory */
    return tk_uop(g, op, tk_uop_result_dtype(op, src, n, TOLK_VOID), src, n, NULL);
}
#define NODE(g, op, ...)                                                                           \
    node(g, op, (const tolk_uop *const[]){__VA_ARGS__},                                            \
         sizeof((const tolk_uop *const[]){__VA_ARGS__}) / sizeof(const tolk_uop *))
#define AFTER(g, ...) NODE(g, TK_OP_AFTER, __VA_ARGS__)
#define SINK(g, ...) NODE(g, TK_OP_SINK, __VA_ARGS__)
/* A call of a body that is a list or a graph. */
#define APPLY(g, ...) NODE(g, TK_OP_CALL, __VA_ARGS__)

static const tolk_uop *param_of(tolk_graph *g, tolk_dtype dtype, int64_t slot, const char *var) {
    const tolk_uop *size = tk_uop_index_const(g, 4);
    tk_attr a[7] = {{.i = slot},
                    {.blob = var ? tk_blob_str(g, var, strlen(var)) : NULL},
                    {.i = var ? TK_SPACE_ALU : TK_SPACE_GLOBAL},
                    {.i = var ? 1 : INT64_MIN},
                    {.i = var ? 99 : INT64_MAX},
                    {.blob = NULL},
                    {.i = -1}};
    return tk_uop(g, TK_OP_PARAM, dtype, &size, var ? 0 : 1, a);
}
static const tolk_uop *param(tolk_graph *g, int64_t slot) {
    return param_of(g, TOLK_F32, slot, NULL);
}
static const tolk_uop *var(tolk_graph *g, const char *name) {
    return param_of(g, TOLK_I32, 9, name);
}
static const tolk_uop *bind(tolk_graph *g, const char *name, int64_t value) {
    return NODE(g, TK_OP_BIND, var(g, name), tk_uop_const(g, TOLK_I32, (uint64_t)value));
}

/* A kernel that stores a variable to param 0. */
static const tolk_uop *kernel_with(tolk_graph *g, const char *name) {
    int64_t dim = 1;
    const tolk_uop *zero = tk_uop_index_const(g, 0);
    const tolk_uop *out = tolk_param(g, TOLK_F32, &dim, 1, 0, NULL);
    const tolk_uop *value = tolk_cast(g, var(g, name), TOLK_F32);
    const tolk_uop *store = tolk_store(g, tolk_index(g, out, &zero, 1), value);
    return tolk_sink(g, &store, 1, "with");
}
#define WITH(g, var, ...)                                                                          \
    call_of_body(g, kernel_with(g, var), "with", (const tolk_uop *const[]){__VA_ARGS__, NULL})

typedef struct result {
    const tolk_uop *list;
    tk_with_vars_values values;
    tolk_status st;
    tolk_error err;
} result;

static result with_vars(tolk_graph *g, const tolk_uop *root) {
    result r = {.err = TOLK_ERROR_INIT};
    assert_non_null(root);
    tk_vec_init(&r.values, g->al);
    r.st = tk_with_vars(g, root, NULL, NULL, &r.list, &r.values, NULL, &r.err);
    assert_false(tk_graph_failed(g));
    return r;
}

/* The list alone. */
static const tolk_uop *list_from(tolk_graph *g, const tolk_uop *root) {
    result r = with_vars(g, root);
    if (r.st != TOLK_OK)
        fail_msg("%s", r.err.msg);
    assert_true(tk_uop_is(r.list, TK_OP_LINEAR));
    tk_vec_fini(&r.values);
    return r.list;
}

static void refused(tolk_graph *g, const tolk_uop *root, tolk_status code, const char *what) {
    result r = with_vars(g, root);
    tk_vec_fini(&r.values);
    if (r.st != code || !strstr(r.err.msg, what))
        fail_msg("%s: \"%s\" does not say \"%s\"", tolk_status_name(r.st), r.err.msg, what);
}

static void values_are(tolk_graph *g, const tolk_uop *root, const char *what) {
    char text[200] = "";
    result r = with_vars(g, root);
    if (r.st != TOLK_OK)
        fail_msg("%s", r.err.msg);
    for (size_t i = 0; i < r.values.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%lld", i ? " " : "",
                 r.values.at[i].name, (long long)r.values.at[i].value);
    assert_string_equal(text, what);
    tk_vec_fini(&r.values);
}

static void assert_order(const tolk_uop *list, const char *names) {
    char text[200] = "";
    for (uint32_t i = 0; i < list->n_src; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 tk_uop_str(list->src[i], TK_A_CALL_NAME));
    assert_string_equal(text, names);
}

static const tolk_uop *arg(const tolk_uop *list, uint32_t call, uint32_t i) {
    assert_true(call < list->n_src && i + 1 < list->src[call]->n_src);
    return list->src[call]->src[i + 1];
}

static int64_t slot_of(const tolk_uop *u) {
    assert_true(tk_uop_is(u, TK_OP_BUFFER));
    return tk_uop_int(u, TK_A_BUFFER_SLOT);
}

/* ---- one call ---- */

static void test_params_become_arguments_and_buffers_new_ones(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *own = buffer_of(g, TOLK_F32, 7, 4, "CPU:1"), *given = f32s(g, -9, 4);
    const tolk_uop *body = LIST(g, CALL(g, "k0", own, param(g, 1)),
                                CALL(g, "k1", param(g, 0), own, given, f32s(g, 8, 4)));
    const tolk_uop *x = f32s(g, 0, 4), *y = f32s(g, 1, 4), *call = APPLY(g, body, y, x);
    const tolk_uop *l = list_from(g, call), *again = list_from(g, call);
    assert_order(l, "k0 k1");
    assert_ptr_equal(arg(l, 0, 1), x);
    assert_ptr_equal(arg(l, 1, 0), y);
    assert_ptr_equal(arg(l, 1, 2), given); /* it is somebody else's already */
    const tolk_uop *fresh = arg(l, 0, 0);
    assert_true(slot_of(fresh) < 0 && slot_of(arg(l, 1, 3)) < 0);
    assert_ptr_equal(arg(l, 1, 1), fresh); /* one for each node of the body */
    assert_ptr_not_equal(arg(l, 1, 3), fresh);
    assert_int_equal(fresh->dtype, own->dtype);
    assert_ptr_equal(fresh->src[0], own->src[0]);
    assert_string_equal(tk_uop_str(fresh, TK_A_BUFFER_DEVICE), "CPU:1");
    /* Another call has memory of its own, with slots that nobody had. */
    assert_true(slot_of(arg(again, 0, 0)) < slot_of(fresh));
    assert_true(slot_of(arg(again, 0, 0)) < slot_of(arg(l, 1, 3)));
    assert_ptr_equal(arg(again, 0, 1), x);
    calls_done(g);
}

static void test_new_slots_are_below_all_that_were_named(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    assert_non_null(f32s(g, -5000, 4));
    assert_non_null(f32s(g, INT64_MIN, 4)); /* would leave no room for others */
    const tolk_uop *l = list_from(g, APPLY(g, LIST(g, CALL(g, "k", f32s(g, 0, 4)))));
    assert_int_equal(slot_of(arg(l, 0, 0)), -5001);
    int64_t a = tk_memory_plan_slot(g->ctx), b = tk_memory_plan_slot(g->ctx);
    assert_true(b == a - 1 && a == -5002);
    calls_done(g);
}

static void test_slots_of_params_count_all_arguments(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *y = f32s(g, 1, 4);
    const tolk_uop *body =
        LIST(g, CALL(g, "k", param(g, 0), param(g, 2), param(g, 3), param(g, -1), var(g, "n")));
    const tolk_uop *l = list_from(g, APPLY(g, body, y, bind(g, "n", 3), x));
    assert_ptr_equal(arg(l, 0, 0), y);
    assert_ptr_equal(arg(l, 0, 1), x);
    assert_ptr_equal(arg(l, 0, 2), param(g, 3)); /* nobody gives them */
    assert_ptr_equal(arg(l, 0, 3), param(g, -1));
    assert_ptr_equal(arg(l, 0, 4), var(g, "n")); /* a variable is its name */
    calls_done(g);
}

static void test_what_arguments_name_is_left_alone(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *b0 = f32s(g, 0, 4);
    /* The body's buffer is another one than the equal node among the arguments; params that stand
     * for params are not looked at again; views are kept. */
    const tolk_uop *body =
        LIST(g, CALL(g, "k", param(g, 0), b0, param(g, 1), slice_of_node(g, param(g, 0), 1, 2)));
    const tolk_uop *l = list_from(g, APPLY(g, body, b0, param(g, 0)));
    assert_ptr_equal(arg(l, 0, 0), b0);
    assert_true(slot_of(arg(l, 0, 1)) < 0);
    assert_ptr_equal(arg(l, 0, 2), param(g, 0));
    assert_ptr_equal(arg(l, 0, 3), slice_of_node(g, b0, 1, 2));
    calls_done(g);
}

static void test_kernels_are_left_alone(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    int64_t dim = 1;
    /* The param is one of the kernel, too. */
    const tolk_uop *p = tolk_param(g, TOLK_F32, &dim, 1, 0, NULL), *x = f32s(g, 0, 1);
    const tolk_uop *call = CALL(g, "k", p);
    const tolk_uop *l = list_from(g, APPLY(g, LIST(g, call), x));
    assert_ptr_equal(l->src[0]->src[0], call->src[0]);
    assert_ptr_equal(arg(l, 0, 0), x);
    calls_done(g);
}

static void test_a_graph_of_calls_in_a_body_is_of_the_same_call(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4);
    tk_attr name = {.blob = tk_blob_str(g, "graph", 5)};
    const tolk_uop *inner = LIST(g, CALL(g, "k", param(g, 0)));
    const tolk_uop *graph = tk_uop(g, TK_OP_CUSTOM_FUNCTION, TOLK_VOID, &inner, 1, &name);
    const tolk_uop *l = list_from(g, APPLY(g, LIST(g, APPLY(g, graph, param(g, 0))), x));
    assert_ptr_equal(arg(l, 0, 0), x);
    assert_ptr_equal(l->src[0]->src[0]->src[0]->src[0]->src[1], x);
    calls_done(g);
}

static void test_a_sink_alone_keeps_its_buffers(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *a = f32s(g, 0, 4), *c = f32s(g, 1, 4);
    const tolk_uop *s = AFTER(g, a, CALL(g, "k0", a, param(g, 0)));
    const tolk_uop *l = list_from(g, SINK(g, AFTER(g, c, CALL(g, "k1", c, s))));
    assert_order(l, "k0 k1");
    assert_ptr_equal(arg(l, 0, 0), a);
    assert_ptr_equal(arg(l, 0, 1), param(g, 0));
    assert_ptr_equal(arg(l, 1, 0), c);
    assert_int_equal(list_from(g, SINK(g, a))->n_src, 0);
    calls_done(g);
}

/* ---- lists in lists ---- */

static void test_lists_in_lists_take_their_place(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *y = f32s(g, 1, 4), *b = f32s(g, 5, 4);
    /* The same slots at each level, and one that only the outermost call has. */
    const tolk_uop *leaf = LIST(g, CALL(g, "leaf", param(g, 0), param(g, 1), b));
    const tolk_uop *mid = LIST(g, APPLY(g, leaf, param(g, 0), b), CALL(g, "mid", param(g, 0), b));
    const tolk_uop *top = LIST(g, CALL(g, "first", param(g, 1)), APPLY(g, mid, param(g, 1)),
                               APPLY(g, mid, param(g, 0)), CALL(g, "last", param(g, 0)));
    const tolk_uop *l = list_from(g, APPLY(g, top, x, y));
    assert_order(l, "first leaf mid leaf mid last");
    assert_ptr_equal(arg(l, 1, 0), y);
    assert_ptr_equal(arg(l, 2, 0), y);
    assert_ptr_equal(arg(l, 3, 0), x);
    assert_ptr_equal(arg(l, 4, 0), x);
    /* leaf's second argument is mid's buffer, its third one is its own: new ones in each call. */
    assert_ptr_equal(arg(l, 1, 1), arg(l, 2, 1));
    assert_ptr_equal(arg(l, 3, 1), arg(l, 4, 1));
    int64_t slots[] = {slot_of(arg(l, 1, 1)), slot_of(arg(l, 1, 2)), slot_of(arg(l, 3, 1)),
                       slot_of(arg(l, 3, 2))};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k <= i; k++)
            assert_true(slots[i] < 0 && (k == i || slots[k] != slots[i]));
    calls_done(g);
}

static void test_a_slot_that_a_call_does_not_give_is_not_its_callers(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *y = f32s(g, 1, 4);
    const tolk_uop *inner = LIST(g, CALL(g, "k", param(g, 0), param(g, 1)));
    const tolk_uop *l = list_from(g, APPLY(g, LIST(g, APPLY(g, inner, param(g, 1))), x, y));
    assert_ptr_equal(arg(l, 0, 0), y);
    assert_ptr_equal(arg(l, 0, 1), param(g, 1)); /* an input of who runs it */
    calls_done(g);
}

static void test_graphs_in_graphs_are_put_in_order_each(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *y = f32s(g, 1, 4), *t = f32s(g, 2, 4);
    const tolk_uop *p0 = param(g, 0), *p1 = param(g, 1);
    const tolk_uop *made = AFTER(g, t, CALL(g, "in0", t, p1));
    const tolk_uop *inner = SINK(g, AFTER(g, p0, CALL(g, "in1", p0, made)));
    const tolk_uop *once = AFTER(g, x, APPLY(g, inner, x, y));
    const tolk_uop *twice = AFTER(g, y, APPLY(g, inner, y, once));
    const tolk_uop *l = list_from(g, SINK(g, AFTER(g, twice, CALL(g, "out", twice))));
    assert_order(l, "in0 in1 in0 in1 out");
    assert_ptr_equal(arg(l, 1, 0), x);
    assert_ptr_equal(arg(l, 2, 1), x);
    assert_ptr_equal(arg(l, 3, 0), y);
    assert_ptr_equal(arg(l, 4, 0), y);
    assert_true(slot_of(arg(l, 0, 0)) < 0 && arg(l, 0, 0) != arg(l, 2, 0));
    calls_done(g);
}

static void test_what_doubles_with_each_level_ends(void **state) {
    (void)state;
    for (int empty = 0; empty < 2; empty++) {
        tolk_graph *g = calls_graph(NULL);
        const tolk_uop *l = empty ? tk_uop(g, TK_OP_LINEAR, TOLK_VOID, NULL, 0, NULL)
                                  : LIST(g, CALL(g, "k", f32s(g, 0, 4)));
        for (int i = 0; i < 60; i++) {
            const tolk_uop *call = APPLY(g, l);
            l = LIST(g, call, call);
        }
        refused(g, APPLY(g, l), TOLK_E_LIMIT, "calls of calls");
        calls_done(g);
    }
}

static void *many_levels(void *arg_) {
    (void)arg_;
    enum { LEVELS = 20000 };
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *l = LIST(g, CALL(g, "k", param(g, 0)));
    for (int i = 0; i < LEVELS; i++)
        l = LIST(g, APPLY(g, l, param(g, 0)));
    assert_ptr_equal(arg(list_from(g, APPLY(g, l, x)), 0, 0), x);
    calls_done(g);
    return NULL;
}

static void test_levels_cost_no_stack(void **state) {
    (void)state;
    tk_test_on_stack(64 << 10, many_levels, NULL);
}

/* ---- arguments that are one buffer ---- */

/* `write` makes a state of param 1, `read` takes the first state of param 0. */
static const tolk_uop *race(tolk_graph *g) {
    const tolk_uop *p0 = param(g, 0), *p1 = param(g, 1), *p2 = param(g, 2);
    return SINK(g, AFTER(g, p1, CALL(g, "write", p1)), AFTER(g, p2, CALL(g, "read", p2, p0)));
}

static void test_arguments_that_are_one_buffer_are_one_state(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *y = f32s(g, 1, 4), *z = f32s(g, 2, 4), *body = race(g);
    assert_order(list_from(g, APPLY(g, body, x, y, z)), "write read");
    const tolk_uop *l = list_from(g, APPLY(g, body, x, x, z));
    assert_order(l, "read write");
    assert_ptr_equal(arg(l, 0, 1), x);
    assert_ptr_equal(arg(l, 1, 0), x);
    assert_order(list_from(g, APPLY(g, body, x, slice_of_node(g, x, 0, 4), z)), "read write");
    assert_order(list_from(g, APPLY(g, body, param(g, 7), param(g, 7), z)), "read write");
    const tolk_uop *both = NODE(g, TK_OP_MSTACK, y, x);
    assert_order(list_from(g, APPLY(g, body, both, x, z)), "read write");
    assert_order(list_from(g, APPLY(g, body, NODE(g, TK_OP_MSTACK, y, z), x, f32s(g, 3, 4))),
                 "write read");
    calls_done(g);
}

static void test_an_argument_that_the_body_names_itself_is_one_state(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *p0 = param(g, 0), *p1 = param(g, 1), *fixed = f32s(g, -3, 4);
    const tolk_uop *open = param(g, 5);
    const tolk_uop *named[] = {fixed, open};
    for (int i = 0; i < 2; i++) {
        const tolk_uop *u = named[i];
        const tolk_uop *body =
            SINK(g, AFTER(g, u, CALL(g, "write", u)), AFTER(g, p1, CALL(g, "read", p1, p0)));
        assert_order(list_from(g, APPLY(g, body, u, f32s(g, 1, 4))), "read write");
        assert_order(list_from(g, APPLY(g, body, f32s(g, 0, 4), f32s(g, 1, 4))), "write read");
    }
    /* Memory of the call is nobody's argument, whatever its node is equal to. */
    const tolk_uop *own = f32s(g, 0, 4);
    const tolk_uop *body =
        SINK(g, AFTER(g, own, CALL(g, "write", own)), AFTER(g, p1, CALL(g, "read", p1, p0)));
    assert_order(list_from(g, APPLY(g, body, own, f32s(g, 1, 4))), "write read");
    calls_done(g);
}

/* ---- values ---- */

static void test_values_of_used_variables_are_returned(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *p = param(g, 0);
    const tolk_uop *body = LIST(g, WITH(g, "n", p), WITH(g, "m", p));
    const tolk_uop *n3 = bind(g, "n", 3), *m5 = bind(g, "m", 5);
    values_are(g, APPLY(g, body, x, m5, bind(g, "unused", 7), n3), "m=5 n=3");
    values_are(g, APPLY(g, body, x, n3, n3), "n=3");
    values_are(g, APPLY(g, body, x), "");
    /* From calls of the body, and of lists in it. */
    const tolk_uop *inner = LIST(g, WITH(g, "m", p, m5));
    values_are(g, APPLY(g, LIST(g, WITH(g, "n", p, n3), APPLY(g, inner, p)), x), "n=3 m=5");
    values_are(g, APPLY(g, LIST(g, APPLY(g, inner, p, n3), WITH(g, "n", p)), x), "m=5 n=3");
    /* From a sink, and its calls. */
    const tolk_uop *s = AFTER(g, x, WITH(g, "n", x));
    values_are(g, SINK(g, s, n3, bind(g, "unused", 1)), "n=3");
    values_are(g, SINK(g, AFTER(g, x, WITH(g, "n", x, n3))), "n=3");
    calls_done(g);
}

static void test_the_list_has_variables_in_place_of_binds(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4);
    const tolk_uop *l = list_from(g, SINK(g, AFTER(g, x, WITH(g, "n", x, bind(g, "n", 3)))));
    assert_ptr_equal(arg(l, 0, 1), var(g, "n"));
    l = list_from(g, APPLY(g, LIST(g, WITH(g, "n", param(g, 0), bind(g, "n", 4))), x));
    assert_ptr_equal(arg(l, 0, 1), var(g, "n"));
    calls_done(g);
}

static void test_a_variable_with_two_values_is_refused(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *p = param(g, 0);
    const tolk_uop *n3 = bind(g, "n", 3), *n4 = bind(g, "n", 4);
    static const char what[] = "variable \"n\" is bound to 3 and to 4";
    const tolk_uop *body = LIST(g, WITH(g, "n", p));
    refused(g, APPLY(g, body, x, n3, n4), TOLK_E_ARG, what);
    refused(g, APPLY(g, LIST(g, WITH(g, "n", p, n3), WITH(g, "n", p, n4)), x), TOLK_E_ARG, what);
    refused(g, SINK(g, AFTER(g, x, WITH(g, "n", x, n3)), n4), TOLK_E_ARG, what);
    /* Nobody asks for it. */
    values_are(g, APPLY(g, LIST(g, CALL(g, "k", p)), x, n3, n4), "");
    calls_done(g);
}

static void test_a_value_that_is_no_constant_is_refused(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *p = param(g, 0);
    const tolk_uop *twice = NODE(g, TK_OP_ADD, var(g, "k"), var(g, "k"));
    const tolk_uop *b = NODE(g, TK_OP_BIND, var(g, "n"), twice);
    refused(g, APPLY(g, LIST(g, WITH(g, "n", p)), x, b), TOLK_E_UNSUPPORTED,
            "\"n\" is bound to add");
    values_are(g, APPLY(g, LIST(g, CALL(g, "k", p)), x, b), "");
    calls_done(g);
}

/* ---- orders ---- */

typedef struct asked {
    int n;
    bool again;
    tk_hash128 key;
} asked;

static tolk_status note_order(void *user, tolk_graph *g, const tolk_uop *sink, bool again,
                              const tolk_uop **list, tolk_error *err) {
    asked *a = user;
    (void)err;
    a->n++;
    a->again = again;
    a->key = tk_key(sink);
    *list = LIST(g, CALL(g, "other", param(g, 0)));
    return TOLK_OK;
}

static asked ask(tolk_graph *g, const tolk_uop *root, const char *names) {
    asked a = {0};
    result r = {.err = TOLK_ERROR_INIT};
    tk_vec_init(&r.values, g->al);
    assert_int_equal(tk_with_vars(g, root, note_order, &a, &r.list, &r.values, NULL, &r.err),
                     TOLK_OK);
    assert_order(r.list, names);
    tk_vec_fini(&r.values);
    return a;
}

static void test_orders_depend_on_neither_values_nor_arguments(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *y = f32s(g, 1, 4), *z = f32s(g, 2, 4), *p = param(g, 0);
    asked a =
        ask(g, SINK(g, AFTER(g, x, WITH(g, "n", x, bind(g, "n", 3))), bind(g, "n", 3)), "other");
    asked b =
        ask(g, SINK(g, AFTER(g, x, WITH(g, "n", x, bind(g, "n", 4))), bind(g, "n", 4)), "other");
    assert_true(a.n == 1 && b.n == 1 && a.again);
    assert_memory_equal(&a.key, &b.key, sizeof a.key);
    const tolk_uop *body = SINK(g, AFTER(g, p, WITH(g, "n", p, bind(g, "n", 3))));
    const tolk_uop *same = SINK(g, AFTER(g, p, WITH(g, "n", p, bind(g, "n", 4))));
    a = ask(g, APPLY(g, body, x, y), "other");
    b = ask(g, APPLY(g, same, z, x, bind(g, "m", 1)), "other");
    assert_true(a.again && b.again);
    assert_memory_equal(&a.key, &b.key, sizeof a.key);
    b = ask(g, APPLY(g, same, z, z), "other"); /* these are in it */
    assert_false(b.again);
    /* A graph that is called twice is asked for once; a list is not. */
    a = ask(g, APPLY(g, LIST(g, APPLY(g, body, x), APPLY(g, body, y))), "other other");
    assert_int_equal(a.n, 1);
    a = ask(g, APPLY(g, LIST(g, CALL(g, "k", p)), x), "k");
    assert_int_equal(a.n, 0);
    calls_done(g);
}

/* ---- what is refused ---- */

static void test_roots_and_arguments_of_another_kind_are_refused(void **state) {
    (void)state;
    tolk_graph *g = calls_graph(NULL);
    const tolk_uop *x = f32s(g, 0, 4), *p = param(g, 0), *k = CALL(g, "k", p);
    const tolk_uop *body = LIST(g, k), *s = AFTER(g, x, k);
    refused(g, x, TOLK_E_VERIFY,
            "expected a sink of states, or a call of one or of a linear, got "
            "buffer");
    refused(g, k->src[0], TOLK_E_VERIFY, "got sink");
    refused(g, body, TOLK_E_VERIFY, "got linear");
    refused(g, k, TOLK_E_VERIFY, "got a call of sink");
    refused(g, copy_call(g, x, x), TOLK_E_VERIFY, "got a call of copy");
    refused(g, APPLY(g, body, s), TOLK_E_VERIFY, "argument 0 is after, expected a buffer");
    refused(g, APPLY(g, body, tk_uop_index_const(g, 1)), TOLK_E_VERIFY, "argument 0 is const");
    refused(g, APPLY(g, body, bind(g, "n", 1)), TOLK_E_VERIFY,
            "param {slot=0} is argument 0, a variable, expected a buffer");
    refused(g, APPLY(g, body, buffer_of(g, TOLK_F64, 0, 4, NULL)), TOLK_E_DTYPE,
            "argument 0 is of f64, but param {slot=0} of f32");
    refused(g, APPLY(g, LIST(g, k, x), x), TOLK_E_VERIFY, "entry 1 of a linear is buffer");
    refused(g, SINK(g, x, k), TOLK_E_VERIFY, "got call");
    /* A graph that no order does right is an error, not a shorter list. */
    const tolk_uop *c = f32s(g, 1, 4), *d = f32s(g, 2, 4);
    const tolk_uop *s1 = AFTER(g, x, CALL(g, "k1", x, c)), *s2 = AFTER(g, c, CALL(g, "k2", c, x));
    refused(g, SINK(g, AFTER(g, d, CALL(g, "k3", d, s1, s2))), TOLK_E_VERIFY,
            "would have to run before itself");
    calls_done(g);
}

/* ---- memory ---- */

static tolk_status little_memory(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_graph *g = calls_graph(al);
    if (!g)
        return TOLK_E_NOMEM;
    tk_with_vars_values values;
    tk_vec_init(&values, g->al);
    const tolk_uop *p = param(g, 0), *t = f32s(g, 5, 4), *list;
    const tolk_uop *inner = SINK(g, AFTER(g, p, WITH(g, "n", p, bind(g, "n", 3))));
    const tolk_uop *body = LIST(g, CALL(g, "k", t, p), APPLY(g, inner, t), APPLY(g, inner, p));
    const tolk_uop *root = APPLY(g, body, f32s(g, 0, 4), bind(g, "n", 3));
    tolk_status st = tk_graph_failed(g)
                         ? g->error.code
                         : tk_with_vars(g, root, NULL, NULL, &list, &values, NULL, NULL);
    if (st == TOLK_OK)
        assert_true(values.n == 1 && list->n_src == 3);
    assert_true(st != TOLK_OK || !tk_graph_failed(g));
    tk_vec_fini(&values);
    calls_done(g);
    return st;
}

static void test_without_memory_it_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(little_memory, NULL) > 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params_become_arguments_and_buffers_new_ones),
        cmocka_unit_test(test_new_slots_are_below_all_that_were_named),
        cmocka_unit_test(test_slots_of_params_count_all_arguments),
        cmocka_unit_test(test_what_arguments_name_is_left_alone),
        cmocka_unit_test(test_kernels_are_left_alone),
        cmocka_unit_test(test_a_graph_of_calls_in_a_body_is_of_the_same_call),
        cmocka_unit_test(test_a_sink_alone_keeps_its_buffers),
        cmocka_unit_test(test_lists_in_lists_take_their_place),
        cmocka_unit_test(test_a_slot_that_a_call_does_not_give_is_not_its_callers),
        cmocka_unit_test(test_graphs_in_graphs_are_put_in_order_each),
        cmocka_unit_test(test_what_doubles_with_each_level_ends),
        cmocka_unit_test(test_levels_cost_no_stack),
        cmocka_unit_test(test_arguments_that_are_one_buffer_are_one_state),
        cmocka_unit_test(test_an_argument_that_the_body_names_itself_is_one_state),
        cmocka_unit_test(test_values_of_used_variables_are_returned),
        cmocka_unit_test(test_the_list_has_variables_in_place_of_binds),
        cmocka_unit_test(test_a_variable_with_two_values_is_refused),
        cmocka_unit_test(test_a_value_that_is_no_constant_is_refused),
        cmocka_unit_test(test_orders_depend_on_neither_values_nor_arguments),
        cmocka_unit_test(test_roots_and_arguments_of_another_kind_are_refused),
        cmocka_unit_test(test_without_memory_it_fails_cleanly),
    };
    return cmocka_run_group_tests_name("with_vars", tests, NULL, NULL);
}
