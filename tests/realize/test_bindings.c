/* SPDX-License-Identifier: MIT
 *
 * Bindings: what nodes stand for, by what they are and not where they are; and finding it.
 */
#include "realize/bindings.h"

#include "base/status.h"

#include "realize/linears.h"

static rt r;
static tolk_bindings *b;
static tolk_graph *g;
static tolk_error err;

static int setup(void **state) {
    (void)state;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cpu_devices = 4;
    rt_open(&r, NULL, &o);
    assert_int_equal(tolk_bindings_create(r.cpu, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    err = (tolk_error)TOLK_ERROR_INIT;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_graph_destroy(g);
    tolk_bindings_destroy(b);
    rt_close(&r);
    return 0;
}

/* ---- nodes ---- */

static const tolk_uop *make(const char *op, tolk_dtype dtype, const tolk_uop *a, const tolk_uop *c,
                            tolk_attr x, tolk_attr y) {
    const tolk_uop *src[] = {a, c};
    const tolk_attr attrs[] = {x, y};
    const tolk_uop *u = tolk_uop_new(g, tolk_op_find(op), dtype, src, a ? c ? 2u : 1u : 0u, attrs,
                                     x.key ? y.key ? 2u : 1u : 0u);
    if (!u) {
        (void)tolk_graph_error(g, &err);
        fail_msg("%s", err.msg);
    }
    return u;
}

static const tolk_attr none = {NULL, 0, NULL, NULL, 0};

static const tolk_uop *buffer(tolk_dtype dtype, int64_t n, int64_t slot, const char *device) {
    return tolk_buffer_node(g, dtype, &n, 1, slot, device);
}

static const tolk_uop *param(tolk_dtype dtype, int64_t n, int64_t slot) {
    return tolk_param(g, dtype, &n, 1, slot, NULL);
}

static const tolk_uop *slice(const tolk_uop *of, tolk_dtype dtype, const tolk_uop *offset,
                             int64_t count) {
    return make("slice", dtype, of, offset, (tolk_attr){.key = "count", .i = count}, none);
}

static const tolk_uop *at(int64_t i) {
    return tolk_const_int(g, TOLK_INDEX, i);
}

static const tolk_uop *mselect(const tolk_uop *of, int64_t i) {
    return tolk_mselect(g, of, i);
}

static const tolk_uop *mstack(const tolk_uop *a, const tolk_uop *c) {
    const tolk_uop *src[] = {a, c};
    return tolk_mstack(g, src, 2);
}

/* ---- helpers ---- */

static tolk_buffer *find(const tolk_uop *node) {
    tolk_buffer *one = NULL;
    tolk_multi *many = NULL;
    assert_int_equal(tolk_bindings_find(b, node, &one, &many, NULL), TOLK_OK);
    return one;
}

static tolk_status resolve(const tolk_run_args *args, const tolk_uop *node, tolk_buffer **one,
                           tolk_multi **many) {
    *one = NULL;
    *many = NULL;
    return tolk_resolve(b, args, node, one, many, &err);
}

/* The one buffer of a node; the reference is dropped: the bindings have another. */
static tolk_buffer *one_of(const tolk_uop *node) {
    tolk_buffer *one;
    tolk_multi *many;
    if (resolve(NULL, node, &one, &many))
        fail_msg("%s", err.msg);
    assert_non_null(one);
    assert_null(many);
    tolk_buffer_unref(one);
    return one;
}

static tolk_buffer_info info_of(const tolk_buffer *buf) {
    tolk_buffer_info i;
    assert_int_equal(tolk_buffer_get_info(buf, &i), TOLK_OK);
    return i;
}

static void refused(const tolk_run_args *args, const tolk_uop *node, tolk_status code,
                    const char *part) {
    tolk_buffer *one;
    tolk_multi *many;
    assert_int_equal(resolve(args, node, &one, &many), code);
    check_contains(err.msg, part);
    assert_null(one);
    assert_null(many);
}

/* ---- bindings ---- */

static void test_equal_nodes_of_all_graphs_are_one(void **state) {
    (void)state;
    tolk_buffer *x = floats(r.cpu, 4, 1);
    assert_int_equal(tolk_bindings_seed(b, buffer(TOLK_F32, 4, 3, NULL), x, NULL), TOLK_OK);
    for (int i = 0; i < 3; i++) { /* graphs come and go, perhaps at one address */
        tolk_graph_destroy(g);
        assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
        (void)at(i);
        assert_ptr_equal(find(buffer(TOLK_F32, 4, 3, NULL)), x);
        assert_null(find(buffer(TOLK_F32, 4, 4, NULL)));
        assert_null(find(buffer(TOLK_I32, 4, 3, NULL)));
        assert_null(find(buffer(TOLK_F32, 5, 3, NULL)));
        assert_null(find(buffer(TOLK_F32, 4, 3, "CPU:1")));
    }
    tolk_buffer_unref(x);
}

static void test_buffers_are_made_on_demand_and_stay(void **state) {
    (void)state;
    const tolk_uop *n = buffer(TOLK_I32, 6, 0, NULL);
    assert_null(find(n));
    tolk_buffer *x = one_of(n);
    assert_ptr_equal(one_of(n), x);
    assert_ptr_equal(find(n), x);
    tolk_buffer_info i = info_of(x);
    assert_int_equal(i.n, 6);
    assert_int_equal(i.dtype, TOLK_I32);
    assert_ptr_equal(i.device, r.cpu);
    assert_false(i.is_allocated);
    assert_string_equal(tolk_device_name(info_of(one_of(buffer(TOLK_F32, 2, 1, "cpu:1"))).device),
                        "CPU:1");
    /* The same slot elsewhere is another buffer. */
    assert_ptr_not_equal(one_of(buffer(TOLK_I32, 6, 0, "CPU:2")), x);
}

static void test_a_size_that_is_a_variable_gets_its_most(void **state) {
    (void)state;
    const tolk_uop *n = tolk_cast(g, tolk_variable(g, TOLK_I32, 0, "n", 1, 11), TOLK_INDEX);
    tolk_attr slot = {.key = "slot", .i = 9};
    assert_int_equal(info_of(one_of(make("buffer", TOLK_F32, n, NULL, slot, none))).n, 11);
    n = tolk_cast(g, tolk_variable(g, TOLK_I64, 0, "m", 1, INT64_MAX), TOLK_INDEX);
    refused(NULL, make("buffer", TOLK_F32, n, NULL, slot, none), TOLK_E_UNSUPPORTED,
            "dimension 0 has no upper bound");
}

static void test_seeding_replaces_and_removing_forgets(void **state) {
    (void)state;
    const tolk_uop *n = buffer(TOLK_F32, 4, 0, NULL), *m = buffer(TOLK_F32, 4, 1, NULL);
    tolk_buffer *made = one_of(n), *x = floats(r.cpu, 4, 1), *y = floats(r.cpu, 4, 2);
    assert_int_equal(tolk_bindings_seed(b, n, x, NULL), TOLK_OK);
    assert_ptr_equal(one_of(n), x);
    assert_ptr_not_equal(x, made);
    assert_int_equal(tolk_bindings_seed(b, m, y, NULL), TOLK_OK);
    tolk_bindings_remove(b, n);
    tolk_bindings_remove(b, n);
    assert_null(find(n));
    assert_ptr_equal(find(m), y);
    tolk_bindings_clear(b);
    assert_null(find(m));
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
}

static void count_node(void *user, const tolk_uop *node, tolk_buffer *one, tolk_multi *many) {
    int *n = user;
    n[0] += one != NULL;
    n[1] += many != NULL;
    assert_non_null(node);
}

static void test_iterating(void **state) {
    (void)state;
    int n[2] = {0, 0};
    (void)one_of(buffer(TOLK_F32, 4, 0, NULL));
    tolk_buffer *one;
    tolk_multi *many;
    assert_int_equal(resolve(NULL, buffer(TOLK_F32, 4, 1, "CPU, CPU:1"), &one, &many), TOLK_OK);
    tolk_multi_unref(many);
    tolk_bindings_iter(b, count_node, n);
    assert_int_equal(n[0], 1);
    assert_int_equal(n[1], 1);
}

static void test_what_names_no_buffer_is_refused(void **state) {
    (void)state;
    tolk_buffer *x = floats(r.cpu, 4, 1);
    assert_int_equal(tolk_bindings_seed(b, at(3), x, &err), TOLK_E_ARG);
    check_contains(err.msg, "the node is const");
    assert_int_equal(tolk_bindings_seed(b, tolk_variable(g, TOLK_I32, 0, "n", 1, 2), x, &err),
                     TOLK_E_ARG);
    check_contains(err.msg, "variable");
    rt other;
    rt_open(&other, NULL, NULL);
    tolk_buffer *foreign = floats(other.cpu, 4, 1);
    assert_int_equal(tolk_bindings_seed(b, buffer(TOLK_F32, 4, 0, NULL), foreign, &err),
                     TOLK_E_ARG);
    tolk_buffer_unref(foreign);
    rt_close(&other);
    tolk_buffer_unref(x);
}

/* Nodes that were asked for and stand for nothing do not pile up. */
static void test_what_is_bound_survives_many_other_nodes(void **state) {
    (void)state;
    tolk_buffer *x = floats(r.cpu, 4, 1);
    assert_int_equal(tolk_bindings_seed(b, buffer(TOLK_F32, 4, -7, NULL), x, NULL), TOLK_OK);
    for (int i = 0; i < 20000; i++) {
        tolk_bindings_remove(b, buffer(TOLK_F32, 4, i, NULL));
        if (i % 1000 == 0) {
            tolk_graph_destroy(g);
            assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
            assert_ptr_equal(find(buffer(TOLK_F32, 4, -7, NULL)), x);
        }
    }
    assert_true(tolk_graph_count(b->graph) < 10000);
    tolk_buffer_unref(x);
}

/* ---- resolving ---- */

/* What is looked for and not there leaves nothing behind. */
static void test_looking_for_nodes_keeps_none(void **state) {
    (void)state;
    enum { BOUND = 200 };
    tolk_buffer *x = floats(r.cpu, 4, 1), *found = NULL;
    for (int i = 0; i < BOUND; i++)
        assert_int_equal(tolk_bindings_seed(b, buffer(TOLK_F32, 4, i, NULL), x, NULL), TOLK_OK);
    for (int i = 0; i < BOUND; i += 3)
        tolk_bindings_remove(b, buffer(TOLK_F32, 4, i, NULL));
    uint32_t before = tolk_graph_count(b->graph);
    for (int i = 0; i < 5000; i++) {
        const tolk_uop *u = buffer(TOLK_F32, 4, i, NULL);
        assert_int_equal(tolk_bindings_find(b, u, &found, NULL, NULL), TOLK_OK);
        assert_ptr_equal(found, i < BOUND && i % 3 ? x : NULL);
        assert_int_equal(tk_bindings_is_bound(b, u), found != NULL);
        if (!found)
            tolk_bindings_remove(b, u);
    }
    assert_int_equal(tolk_graph_count(b->graph), before);
    tolk_buffer_unref(x);
}

static void test_params_are_inputs(void **state) {
    (void)state;
    const tolk_uop *x = buffer(TOLK_F32, 4, 0, NULL), *p0 = param(TOLK_F32, 4, 0),
                   *p1 = param(TOLK_F32, 4, 1);
    const tolk_uop *inputs[] = {x, p0, NULL};
    tolk_run_args args = TOLK_RUN_INIT;
    tolk_buffer *one;
    tolk_multi *many;
    args.inputs = inputs;
    args.n_inputs = 3;
    assert_int_equal(resolve(&args, p1, &one, &many), TOLK_OK); /* an input that is an input */
    assert_ptr_equal(one, find(x));
    tolk_buffer_unref(one);
    refused(&args, param(TOLK_F32, 4, 3), TOLK_E_UNBOUND, "param {slot=3}: no input for it");
    refused(&args, param(TOLK_F32, 4, 2), TOLK_E_ARG, "input is NULL");
    refused(NULL, p0, TOLK_E_UNBOUND, "param {slot=0}: no input for it: 0 inputs");
    refused(&args, tolk_variable(g, TOLK_I32, 0, "n", 1, 2), TOLK_E_ARG, "a variable is no buffer");
    inputs[0] = p1;
    refused(&args, p0, TOLK_E_UNBOUND, "in a circle");
    /* What is bound stands for its binding, whatever it is. */
    tolk_buffer *bound = floats(r.cpu, 4, 1);
    assert_int_equal(tolk_bindings_seed(b, p0, bound, NULL), TOLK_OK);
    assert_ptr_equal(one_of(p0), bound);
    tolk_buffer_unref(bound);
}

static void test_slices_are_views(void **state) {
    (void)state;
    const tolk_uop *x = buffer(TOLK_I32, 16, 0, NULL);
    tolk_buffer *one;
    tolk_multi *many;
    const tolk_uop *s = slice(x, TOLK_I32, at(4), 8);
    assert_int_equal(resolve(NULL, s, &one, &many), TOLK_OK);
    tolk_buffer_info i = info_of(one);
    assert_ptr_equal(i.base, find(x));
    assert_int_equal(i.offset, 16);
    assert_int_equal(i.n, 8);
    tolk_buffer_unref(one);
    /* Of a slice, in elements of the source; the dtype may change. */
    assert_int_equal(resolve(NULL, slice(s, TOLK_F64, at(2), 3), &one, &many), TOLK_OK);
    i = info_of(one);
    assert_int_equal(i.offset, 24);
    assert_int_equal(i.bytes, 24);
    assert_int_equal(i.dtype, TOLK_F64);
    tolk_buffer_unref(one);
    /* Past its parent, though not past the root. */
    refused(NULL, slice(s, TOLK_I32, at(4), 5), TOLK_E_RANGE, "slice {count=5}");
    refused(NULL, slice(x, TOLK_I32, at(-1), 2), TOLK_E_RANGE, "at least 0");
    refused(NULL, slice(x, TOLK_I32, at(INT64_MAX), 2), TOLK_E_RANGE, "beyond memory");
    refused(NULL, slice(x, TOLK_F64, at(1), 1), TOLK_E_ARG, "no multiple");
    const tolk_uop *n = tolk_cast(g, tolk_variable(g, TOLK_I32, 0, "n", 1, 2), TOLK_INDEX);
    refused(NULL, slice(x, TOLK_I32, n, 2), TOLK_E_UNSUPPORTED, "expected a constant");
    /* Nothing at the end is a part, too. */
    assert_int_equal(resolve(NULL, slice(x, TOLK_I32, at(16), 0), &one, &many), TOLK_OK);
    assert_int_equal(info_of(one).n, 0);
    tolk_buffer_unref(one);
}

static void test_several_devices(void **state) {
    (void)state;
    const tolk_uop *m = buffer(TOLK_I32, 8, 0, "CPU,CPU:1, CPU:3"),
                   *x = buffer(TOLK_I32, 8, 1, NULL), *y = buffer(TOLK_I32, 8, 2, "CPU:1");
    tolk_buffer *one;
    tolk_multi *many, *again;
    assert_int_equal(resolve(NULL, m, &one, &many), TOLK_OK);
    assert_null(one);
    assert_int_equal(tolk_multi_count(many), 3);
    assert_string_equal(tolk_device_name(info_of(tolk_multi_shard(many, 2)).device), "CPU:3");
    assert_null(tolk_multi_shard(many, 3));
    assert_int_equal(resolve(NULL, m, &one, &again), TOLK_OK);
    assert_ptr_equal(again, many);
    tolk_multi_unref(again);
    assert_ptr_equal(one_of(mselect(m, 1)), tolk_multi_shard(many, 1));
    /* A part of each. */
    assert_int_equal(resolve(NULL, slice(m, TOLK_I32, at(2), 3), &one, &again), TOLK_OK);
    for (size_t i = 0; i < 3; i++) {
        tolk_buffer_info v = info_of(tolk_multi_shard(again, i));
        assert_ptr_equal(v.base, tolk_multi_shard(many, i));
        assert_int_equal(v.offset, 8);
    }
    tolk_multi_unref(again);
    tolk_multi_unref(many);
    assert_int_equal(resolve(NULL, mstack(x, y), &one, &many), TOLK_OK);
    assert_ptr_equal(tolk_multi_shard(many, 0), find(x));
    assert_ptr_equal(tolk_multi_shard(many, 1), find(y));
    tolk_multi_unref(many);
    assert_ptr_equal(one_of(mselect(mstack(x, y), 1)), find(y));
    refused(NULL, mselect(x, 0), TOLK_E_DEVICE, "mselect {index=0}: its source is one buffer");
    refused(NULL, mselect(m, 3), TOLK_E_RANGE, "3 buffers");
    refused(NULL, mstack(x, m), TOLK_E_DEVICE, "operand 1 is 3 buffers");
    refused(NULL, mstack(x, buffer(TOLK_I32, 9, 5, NULL)), TOLK_E_SHAPE, "9 elements");
    tolk_buffer *single = NULL;
    assert_int_equal(tolk_resolve_single(b, NULL, m, &single, &err), TOLK_E_DEVICE);
    check_contains(err.msg, "it is 3 buffers, expected one");
    assert_int_equal(tolk_bindings_find(b, m, &single, NULL, &err), TOLK_E_DEVICE);
}

static void test_other_errors_name_the_node(void **state) {
    (void)state;
    refused(NULL, at(3), TOLK_E_ARG, "const: it names no buffer");
    refused(NULL, buffer(TOLK_F32, 4, 0, "NOWHERE"), TOLK_E_NO_DEVICE,
            "buffer {slot=0, device=\"NOWHERE\"}");
    refused(NULL, buffer(TOLK_F32, 4, 0, "CPU,"), TOLK_E_NO_DEVICE, "buffer {slot=0");
    tolk_attr space = {.key = "space", .s = "local"};
    refused(NULL, make("buffer", TOLK_F32, at(4), NULL, (tolk_attr){.key = "slot", .i = 0}, space),
            TOLK_E_ARG, "expected space=global");
    tolk_run_args args = TOLK_RUN_INIT;
    args.size = 8;
    refused(&args, at(3), TOLK_E_ARG, "tolk_run_args.size is 8");
}

/* Expressions as deep as one likes: no recursion. */
static void *deep(void *arg) {
    (void)arg;
    const tolk_uop *x = buffer(TOLK_I32, 8, 0, NULL);
    for (int i = 0; i < 20000; i++)
        x = slice(x, TOLK_I32, at(0), 8);
    tolk_buffer *one;
    tolk_multi *many;
    if (resolve(NULL, x, &one, &many) == TOLK_OK)
        tolk_buffer_unref(one);
    return one;
}

static void test_deep_expressions(void **state) {
    (void)state;
    if (!tk_test_on_stack(TK_TEST_ASAN || TK_TEST_TSAN ? 1 << 20 : 96 << 10, deep, NULL))
        fail_msg("%s", err.msg);
}

/* ---- several buffers ---- */

static void test_multis(void **state) {
    (void)state;
    tolk_device *d[] = {r.cpu, device_of(&r, "CPU:1"), r.cpu};
    tolk_multi *m = NULL;
    assert_int_equal(tolk_multi_create(d, 3, TOLK_F32, 4, &m, NULL), TOLK_OK);
    assert_ptr_not_equal(tolk_multi_shard(m, 0), tolk_multi_shard(m, 2)); /* of one device */
    tolk_buffer *of[] = {tolk_multi_shard(m, 0), tolk_multi_shard(m, 1)};
    tolk_multi *two = NULL;
    assert_int_equal(tolk_multi_of(of, 2, &two, NULL), TOLK_OK);
    assert_int_equal(tolk_bindings_seed_multi(b, buffer(TOLK_F32, 4, 0, "CPU,CPU:1"), two, NULL),
                     TOLK_OK);
    tolk_multi_unref(m);
    assert_ptr_equal(tolk_multi_shard(two, 1), of[1]);
    tolk_multi_unref(two);
    assert_ptr_equal(one_of(mselect(buffer(TOLK_F32, 4, 0, "CPU,CPU:1"), 0)), of[0]);
    assert_int_equal(tolk_multi_create(d, 0, TOLK_F32, 4, &m, &err), TOLK_E_ARG);
    check_contains(err.msg, "at least one device");
    assert_int_equal(tolk_multi_of(of, 0, &m, &err), TOLK_E_ARG);
    tolk_buffer *x = floats(r.cpu, 5, 0), *y = NULL;
    assert_int_equal(tolk_alloc_i32(r.cpu, 4, &y, NULL), TOLK_OK);
    of[1] = x;
    assert_int_equal(tolk_multi_of(of, 2, &m, &err), TOLK_E_SHAPE);
    of[1] = y;
    assert_int_equal(tolk_multi_of(of, 2, &m, &err), TOLK_E_DTYPE);
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
}

/* ---- no memory ---- */

static tolk_status resolve_without_memory(const tolk_allocator *al, void *user) {
    (void)user;
    static const char *const text = "tolk.uop 1\n"
                                    "%0 = const index 16\n"
                                    "%1 = const index 4\n"
                                    "%2 = buffer f32 (%0) {slot=0, device=\"CPU,CPU:1\"}\n"
                                    "%3 = slice f32 (%2, %1) {count=4}\n"
                                    "%4 = buffer f32 (%1) {slot=1}\n"
                                    "%5 = mselect f32 (%3) {index=1}\n"
                                    "%6 = mstack f32 (%4, %5)\n";
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_environment = 1;
    o.no_disk_cache = 1;
    o.cpu_devices = 2;
    tolk_ctx *ctx;
    tolk_device *d;
    tolk_graph *graph = NULL;
    tolk_bindings *bind = NULL;
    const tolk_uop *root;
    tolk_buffer *one = NULL;
    tolk_multi *many = NULL;
    TK_TRY(tolk_ctx_create(&o, &ctx, NULL));
    tolk_status st = tolk_device_open(ctx, "CPU", &d, NULL);
    if (!st)
        st = tolk_bindings_create(d, &bind, NULL);
    if (!st)
        st = tolk_graph_create(ctx, &graph);
    if (!st)
        st = tolk_parse(graph, text, strlen(text), 0, &root, NULL);
    if (!st)
        st = tolk_resolve(bind, NULL, root, &one, &many, NULL);
    if (!st) {
        tolk_bindings_remove(bind, tolk_uop_src(root, 0));
        tolk_multi_unref(many);
    }
    tolk_graph_destroy(graph);
    tolk_bindings_destroy(bind);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory(void **state) {
    (void)state;
    (void)tk_test_oom(resolve_without_memory, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_equal_nodes_of_all_graphs_are_one),
        TEST(test_buffers_are_made_on_demand_and_stay),
        TEST(test_a_size_that_is_a_variable_gets_its_most),
        TEST(test_seeding_replaces_and_removing_forgets),
        TEST(test_iterating),
        TEST(test_what_names_no_buffer_is_refused),
        TEST(test_what_is_bound_survives_many_other_nodes),
        TEST(test_looking_for_nodes_keeps_none),
        TEST(test_params_are_inputs),
        TEST(test_slices_are_views),
        TEST(test_several_devices),
        TEST(test_other_errors_name_the_node),
        TEST(test_deep_expressions),
        TEST(test_multis),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests_name("bindings", tests, NULL, NULL);
}
