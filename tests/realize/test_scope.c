/* SPDX-License-Identifier: MIT
 *
 * Scopes and transfers between them. Test names carry the numbers of the behaviour list that this
 * layer is built to.
 */
#include "realize/kernels.h"

#include <pthread.h>

TWO_DEVICES
static tolk_error err = TOLK_ERROR_INIT;

static tolk_scope *scope_of(tolk_device *d) {
    tolk_scope *s = NULL;
    assert_int_equal(tolk_scope_create(d, NULL, &s, NULL), TOLK_OK);
    return s;
}

static tolk_scope *child_of(tolk_scope *parent, tolk_merge merge, uint64_t node) {
    tolk_scope_opts o = TOLK_SCOPE_OPTS_INIT;
    tolk_scope *s = NULL;
    o.merge = merge;
    o.merge_node = node;
    assert_int_equal(tolk_scope_child(parent, &o, &s, NULL), TOLK_OK);
    return s;
}

/* A buffer of two floats, bound to a node; the reference is the scope's. */
static tolk_buffer *bind_two(tolk_scope *s, uint64_t node, float a, float b) {
    const float v[2] = {a, b};
    tolk_buffer *buffer = NULL;
    assert_int_equal(tolk_alloc_f32(tolk_scope_device(s), 2, &buffer, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(buffer, 0, v, sizeof v, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_bind(s, node, buffer, NULL), TOLK_OK);
    tolk_buffer_unref(buffer);
    return buffer;
}

static void check_two(tolk_buffer *buffer, float a, float b) {
    float v[2] = {0, 0};
    assert_int_equal(tolk_buffer_copyout(buffer, 0, v, sizeof v, NULL), TOLK_OK);
    if (v[0] != a || v[1] != b)
        fail_msg("[%g %g], expected [%g %g]", (double)v[0], (double)v[1], (double)a, (double)b);
}

/* y = y + x, two elements. */
#define ACCUMULATE                                                                                 \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index 2\n"                                                                         \
    "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"                                                   \
    "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"                                                   \
    "%3 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%4 = index f32 (%1, %3)\n"                                                                    \
    "%5 = index f32 (%2, %3)\n"                                                                    \
    "%6 = load f32 (%5)\n"                                                                         \
    "%7 = load f32 (%4)\n"                                                                         \
    "%8 = add f32 (%7, %6)\n"                                                                      \
    "%9 = store void (%4, %8)\n"                                                                   \
    "%10 = end void (%9, %3)\n"                                                                    \
    "%11 = sink void (%10) {name=\"accumulate\"}\n"

static tolk_status accumulate(tolk_device *d, tolk_buffer *y, tolk_buffer *x) {
    tolk_args *a = args_of(&r);
    assert_int_equal(tolk_args_buffer(a, 0, y, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 1, x, NULL), TOLK_OK);
    tolk_status st = tolk_run(d, "accumulate", ACCUMULATE, a, NULL, NULL, 0, NULL);
    tolk_args_destroy(a);
    return st;
}

/* ---- what a scope has ---- */

static void test_child_begins_with_what_its_parent_has(void **state) {
    (void)state;
    tolk_scope *p = scope_of(d0);
    tolk_buffer *one = bind_two(p, 1, 1, 1);
    tolk_scope *c = child_of(p, TOLK_MERGE_INHERIT, 0);
    assert_ptr_equal(tolk_scope_device(c), d0);
    assert_ptr_equal(tolk_scope_parent(c), p);
    assert_null(tolk_scope_parent(p));
    assert_ptr_equal(tolk_scope_find(c, 1), one);
    /* Neither sees what the other binds later. */
    tolk_buffer *own = bind_two(c, 2, 2, 2), *other = bind_two(p, 2, 3, 3);
    assert_ptr_equal(tolk_scope_find(c, 2), own);
    assert_ptr_equal(tolk_scope_find(p, 2), other);
    bind_two(p, 9, 0, 0);
    assert_null(tolk_scope_find(c, 9));
    assert_int_equal(tolk_scope_count(c), 2);
    assert_int_equal(tolk_scope_count(p), 3);
    /* A node has one buffer. */
    assert_int_equal(tolk_scope_bind(c, 1, one, &err), TOLK_E_BUSY);
    check_contains(err.msg, "node 1");
    assert_int_equal(tolk_scope_bind(c, 2, one, &err), TOLK_E_BUSY);
    tolk_scope_unref(p); /* before its child */
    check_two(tolk_scope_find(c, 1), 1, 1);
    assert_int_equal(tolk_scope_count(tolk_scope_parent(c)), 3);
    tolk_scope_unref(c);
}

static void test_merge_node_has_three_states(void **state) {
    (void)state;
    tolk_scope *p = scope_of(d0), *a = child_of(p, TOLK_MERGE_NODE, 7),
               *b = child_of(a, TOLK_MERGE_INHERIT, 3), *c = child_of(b, TOLK_MERGE_NONE, 4),
               *d = child_of(c, TOLK_MERGE_INHERIT, 0), *e = child_of(b, TOLK_MERGE_NODE, 0);
    uint64_t node = 99;
    assert_int_equal(tolk_scope_merge_node(p, &node), 0);
    assert_int_equal(node, 99);
    assert_int_equal(tolk_scope_merge_node(a, &node), 1);
    assert_int_equal(node, 7);
    assert_int_equal(tolk_scope_merge_node(b, &node), 1);
    assert_int_equal(node, 7);
    assert_int_equal(tolk_scope_merge_node(c, &node), 0);
    assert_int_equal(tolk_scope_merge_node(d, &node), 0);
    assert_int_equal(tolk_scope_merge_node(e, &node), 1);
    assert_int_equal(node, 0);
    tolk_scope *all[] = {p, a, b, c, d, e};
    for (int i = 0; i < 6; i++)
        tolk_scope_unref(all[i]);
}

static void test_compile_options_are_inherited_copies(void **state) {
    (void)state;
    char opts[] = "UPCAST:0:4";
    tolk_compile_opts given = TOLK_COMPILE_OPTS_INIT;
    tolk_scope_opts o = TOLK_SCOPE_OPTS_INIT;
    given.opts = opts;
    given.strict = 1;
    o.compile = &given;
    tolk_scope *plain = scope_of(d0), *p = NULL;
    assert_int_equal(tolk_scope_create(d0, &o, &p, NULL), TOLK_OK);
    memset(opts, 'x', sizeof opts);
    given.strict = 0;
    tolk_scope *c = child_of(p, TOLK_MERGE_INHERIT, 0);
    tolk_scope_unref(p);
    assert_string_equal(tolk_scope_compile_opts(c)->opts, "UPCAST:0:4");
    assert_int_equal(tolk_scope_compile_opts(c)->strict, 1);
    assert_null(tolk_scope_compile_opts(c)->target);
    assert_null(tolk_scope_compile_opts(plain)->opts);
    assert_int_equal(tolk_scope_compile_opts(plain)->size, sizeof(tolk_compile_opts));
    tolk_scope_unref(plain);
    tolk_scope_unref(c);
}

static void test_finalize_drops_what_the_scope_bound_itself(void **state) {
    (void)state;
    uint64_t before = tolk_device_used_memory(d0);
    tolk_scope *p = scope_of(d0);
    bind_two(p, 1, 1, 2);
    tolk_scope *c = child_of(p, TOLK_MERGE_INHERIT, 0);
    bind_two(c, 2, 3, 4);
    assert_int_equal(tolk_device_used_memory(d0) - before, 16);
    assert_int_equal(tolk_scope_finalize(c, NULL), TOLK_OK);
    assert_int_equal(tolk_device_used_memory(d0) - before, 8);
    assert_null(tolk_scope_find(c, 2));
    check_two(tolk_scope_find(c, 1), 1, 2);
    assert_int_equal(tolk_scope_count(c), 1);
    assert_int_equal(tolk_scope_bind(c, 2, tolk_scope_find(c, 1), &err), TOLK_E_FREED);
    assert_int_equal(tolk_scope_finalize(c, NULL), TOLK_OK);
    /* The parent first: its child keeps what it began with. */
    assert_int_equal(tolk_scope_finalize(p, NULL), TOLK_OK);
    assert_null(tolk_scope_find(p, 1));
    check_two(tolk_scope_find(c, 1), 1, 2);
    tolk_scope_unref(p);
    tolk_scope_unref(c);
    assert_int_equal(tolk_device_used_memory(d0), before);
}

static tolk_status fail_once(void *arg, tolk_error *e) {
    (void)arg, (void)e;
    return TOLK_E_IO;
}

static void test_finalize_can_be_tried_again(void **state) {
    (void)state;
    tolk_scope *s = scope_of(d0);
    bind_two(s, 1, 1, 2);
    (void)tolk_queue_submit(d0, fail_once, NULL, NULL, NULL, NULL);
    assert_int_equal(tolk_scope_finalize(s, &err), TOLK_E_IO);
    assert_int_equal(tolk_scope_count(s), 1);
    assert_int_equal(tolk_device_recover(d0, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_finalize(s, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_count(s), 0);
    tolk_scope_unref(s);
}

static void test_scope_of_a_destroyed_device(void **state) {
    (void)state;
    tolk_scope *s = scope_of(d1), *c = NULL;
    bind_two(s, 1, 1, 2);
    assert_int_equal(tolk_device_destroy(d1, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_child(s, NULL, &c, &err), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_scope_create(d1, NULL, &c, &err), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_scope_finalize(s, NULL), TOLK_OK);
    tolk_scope_unref(s);
    assert_null(c);
}

static void test_wrong_arguments(void **state) {
    (void)state;
    tolk_scope *s = scope_of(d0), *none = NULL;
    tolk_buffer *b = floats(d1, 2, 0), *mine = bind_two(s, 5, 0, 0), *out = NULL;
    tolk_transfer *t = NULL;
    assert_int_equal(tolk_scope_bind(s, 1, b, &err), TOLK_E_DEVICE);
    check_contains(err.msg, "CPU:1");
    assert_int_equal(tolk_scope_bind(s, 1, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_scope_bind(NULL, 1, b, &err), TOLK_E_ARG);
    assert_int_equal(tolk_scope_create(NULL, NULL, &none, &err), TOLK_E_ARG);
    assert_int_equal(tolk_scope_create(d0, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_scope_child(NULL, NULL, &none, &err), TOLK_E_ARG);
    tolk_scope_opts o = TOLK_SCOPE_OPTS_INIT;
    o.size = 3;
    assert_int_equal(tolk_scope_create(d0, &o, &none, &err), TOLK_E_ARG);
    check_contains(err.msg, "tolk_scope_opts.size is 3");
    o = (tolk_scope_opts)TOLK_SCOPE_OPTS_INIT;
    o.merge = (tolk_merge)5;
    assert_int_equal(tolk_scope_child(s, &o, &none, &err), TOLK_E_ARG);
    tolk_compile_opts c = TOLK_COMPILE_OPTS_INIT;
    c.size = 1;
    o = (tolk_scope_opts)TOLK_SCOPE_OPTS_INIT;
    o.compile = &c;
    assert_int_equal(tolk_scope_child(s, &o, &none, &err), TOLK_E_ARG);
    check_contains(err.msg, "tolk_compile_opts.size is 1");
    assert_int_equal(tolk_transfer_create(NULL, s, 5, 0, &t, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_transfer_create(s, NULL, 5, 0, &t, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_transfer_create(s, s, 5, 0, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_transfer_create(s, s, 5, 1, &t, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_transfer_run(NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_scope_merge_buffer(NULL, 1, TOLK_F32, 1, &out, &err), TOLK_E_ARG);
    assert_int_equal(tolk_scope_finalize(NULL, &err), TOLK_E_ARG);
    tolk_transfer_destroy(NULL);
    tolk_scope_unref(NULL);
    assert_null(tolk_scope_ref(NULL));
    assert_null(tolk_scope_find(NULL, 1));
    assert_null(tolk_scope_device(NULL));
    assert_null(tolk_scope_parent(NULL));
    assert_null(tolk_scope_compile_opts(NULL));
    assert_int_equal(tolk_scope_count(NULL), 0);
    assert_int_equal(tolk_scope_merge_node(NULL, NULL), 0);
    assert_null(none);
    assert_null(out);
    assert_null(t);
    assert_ptr_equal(tolk_scope_find(s, 5), mine);
    tolk_scope_unref(s);
    tolk_buffer_unref(b);
}

/* ---- transfers ---- */

static void test_O07_merge_has_no_effect_until_run_and_is_checked(void **state) {
    (void)state;
    tolk_scope *src = scope_of(d1), *dst = scope_of(d0), *merged = NULL;
    bind_two(src, 1, 3, 4);
    tolk_buffer *nines = bind_two(dst, 1, 9, 9), *zero = bind_two(dst, 2, 0, 0), *m = NULL;
    tolk_transfer *t = NULL;
    assert_int_equal(tolk_transfer_create(dst, src, 1, 1, &t, &merged, NULL), TOLK_OK);
    uint64_t node;
    assert_int_equal(tolk_scope_merge_node(merged, &node), 1);
    assert_int_equal(node, 1);
    assert_ptr_equal(tolk_scope_parent(merged), dst);
    assert_int_equal(tolk_scope_merge_buffer(merged, 1, TOLK_F32, 2, &m, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "nothing was merged on CPU yet");
    check_two(nines, 9, 9);
    assert_int_equal(tolk_transfer_run(t, NULL), TOLK_OK);
    check_two(nines, 9, 9); /* it went to the merge buffer */
    assert_int_equal(tolk_scope_merge_buffer(merged, 2, TOLK_F32, 2, &m, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "node 2 in the merge buffer: the scope promises node 1");
    assert_int_equal(tolk_scope_merge_buffer(dst, 1, TOLK_F32, 2, &m, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "the scope promises none");
    assert_int_equal(tolk_scope_merge_buffer(merged, 1, TOLK_F32, 3, &m, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_scope_merge_buffer(merged, 1, TOLK_F32, SIZE_MAX / 2, &m, &err),
                     TOLK_E_RANGE);
    assert_int_equal(tolk_scope_merge_buffer(merged, 1, TOLK_F32, 2, &m, NULL), TOLK_OK);
    /* [9 9] becomes [0 0] + [3 4]. */
    assert_int_equal(tolk_buffer_copy(nines, zero, NULL), TOLK_OK);
    assert_int_equal(accumulate(d0, nines, m), TOLK_OK);
    check_two(nines, 3, 4);
    tolk_buffer_unref(m);
    tolk_transfer_destroy(t);
    tolk_scope_unref(merged);
    tolk_scope_unref(src);
    tolk_scope_unref(dst);
}

static void test_O08_two_devices_accumulate(void **state) {
    (void)state;
    tolk_scope *owner = scope_of(d0), *other = scope_of(d1), *merged = NULL;
    tolk_buffer *sum = bind_two(owner, 5, 1, 2), *m = NULL;
    bind_two(other, 5, 3, 4);
    tolk_transfer *t = NULL;
    assert_int_equal(tolk_transfer_create(owner, other, 5, 1, &t, &merged, NULL), TOLK_OK);
    for (int i = 1; i <= 3; i++) { /* as often as wanted, without a wait */
        assert_int_equal(tolk_transfer_run(t, NULL), TOLK_OK);
        assert_int_equal(tolk_scope_merge_buffer(merged, 5, TOLK_F32, 2, &m, NULL), TOLK_OK);
        assert_int_equal(accumulate(d0, sum, m), TOLK_OK);
        tolk_buffer_unref(m);
    }
    check_two(sum, 1 + 3 * 3, 2 + 3 * 4);
    tolk_transfer_destroy(t);
    tolk_scope_unref(merged);
    tolk_scope_unref(owner);
    tolk_scope_unref(other);
}

static void test_O08_merge_once(void **state) {
    (void)state;
    tolk_scope *owner = scope_of(d0), *other = scope_of(d1), *merged = NULL;
    tolk_buffer *sum = bind_two(owner, 5, 1, 2), *m = NULL;
    bind_two(other, 5, 3, 4);
    tolk_transfer *t = NULL;
    assert_int_equal(tolk_transfer_create(owner, other, 5, 1, &t, &merged, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_run(t, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_merge_buffer(merged, 5, TOLK_F32, 2, &m, NULL), TOLK_OK);
    assert_int_equal(accumulate(d0, sum, m), TOLK_OK);
    check_two(sum, 4, 6);
    tolk_buffer_unref(m);
    tolk_transfer_destroy(t);
    tolk_scope_unref(merged);
    tolk_scope_unref(owner);
    tolk_scope_unref(other);
}

static void test_O09_copy_to_a_scope_that_lacks_the_node(void **state) {
    (void)state;
    tolk_scope *src = scope_of(d1), *dst = scope_of(d0);
    tolk_buffer *from = bind_two(src, 1, 5, 6);
    tolk_transfer *t = NULL;
    assert_int_equal(tolk_transfer_create(dst, src, 2, 0, &t, NULL, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "node 2: the source scope, of device CPU:1, has no buffer");
    assert_int_equal(tolk_transfer_create(dst, src, 1, 0, &t, NULL, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "node 1: the destination scope, of device CPU, has no buffer");
    tolk_buffer *to = floats(d0, 2, 0);
    assert_int_equal(tolk_scope_bind(dst, 1, to, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_create(dst, src, 1, 0, &t, NULL, NULL), TOLK_OK);
    check_two(to, 0, 0);
    assert_int_equal(tolk_transfer_run(t, NULL), TOLK_OK);
    check_two(to, 5, 6);
    const float more[2] = {7, 8};
    assert_int_equal(tolk_buffer_copyin(from, 0, more, sizeof more, NULL), TOLK_OK);
    tolk_scope_unref(src); /* the transfer has what it needs */
    assert_int_equal(tolk_transfer_run(t, NULL), TOLK_OK);
    check_two(to, 7, 8);
    tolk_transfer_destroy(t);
    tolk_buffer_unref(to);
    tolk_scope_unref(dst);
}

static void test_sizes_and_dtypes_that_differ(void **state) {
    (void)state;
    tolk_scope *src = scope_of(d1), *dst = scope_of(d0);
    bind_two(src, 1, 5, 6);
    tolk_buffer *to = floats(d0, 3, 0);
    assert_int_equal(tolk_scope_bind(dst, 1, to, NULL), TOLK_OK);
    tolk_transfer *t = NULL;
    assert_int_equal(tolk_transfer_create(dst, src, 1, 0, &t, NULL, &err), TOLK_E_RANGE);
    assert_string_equal(err.msg, "node 1: the source has 8 bytes, the destination 12");
    tolk_buffer_unref(to);
    assert_int_equal(tolk_alloc_i32(d0, 2, &to, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_bind(src, 2, tolk_scope_find(src, 1), NULL), TOLK_OK);
    assert_int_equal(tolk_scope_bind(dst, 2, to, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_create(dst, src, 2, 0, &t, NULL, &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg, "node 2: the source is f32 of 4 bytes each, the destination i32 "
                                 "of 4");
    tolk_buffer_unref(to);
    tolk_scope_unref(src);
    tolk_scope_unref(dst);
}

static void test_merge_of_what_was_never_written(void **state) {
    (void)state;
    tolk_scope *src = scope_of(d1), *dst = scope_of(d0), *merged = NULL;
    tolk_buffer *b = NULL;
    tolk_transfer *t = NULL;
    assert_int_equal(tolk_alloc_f32(d1, 2, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_bind(src, 1, b, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_create(dst, src, 1, 1, &t, &merged, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_run(t, &err), TOLK_E_UNBOUND);
    check_contains(err.msg, "node 1");
    assert_int_equal(tolk_buffer_free(b, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_run(t, &err), TOLK_E_FREED);
    tolk_transfer_destroy(t);
    tolk_buffer_unref(b);
    tolk_scope_unref(merged);
    tolk_scope_unref(src);
    tolk_scope_unref(dst);
}

static void test_merge_buffer_grows_and_holds_one_node(void **state) {
    (void)state;
    tolk_scope *src = scope_of(d1), *dst = scope_of(d0), *a = NULL, *b = NULL;
    tolk_buffer *large = floats(d1, 1000, 8), *m = NULL, *old = NULL;
    tolk_transfer *ta = NULL, *tb = NULL;
    uint64_t before = tolk_device_used_memory(d0);
    bind_two(src, 1, 3, 4);
    assert_int_equal(tolk_scope_bind(src, 2, large, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_create(dst, src, 1, 1, &ta, &a, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_create(dst, src, 2, 1, &tb, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_run(ta, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_merge_buffer(a, 1, TOLK_F32, 2, &old, NULL), TOLK_OK);
    assert_int_equal(tolk_device_used_memory(d0) - before, 8);
    assert_int_equal(tolk_transfer_run(tb, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_merge_buffer(a, 1, TOLK_F32, 2, &m, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "that of CPU holds node 2 now");
    assert_int_equal(tolk_scope_merge_buffer(b, 2, TOLK_F32, 1000, &m, NULL), TOLK_OK);
    check_floats(m, 8);
    tolk_buffer_unref(m);
    check_two(old, 3, 4); /* what was handed out before stays */
    tolk_buffer_unref(old);
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK);
    assert_int_equal(tolk_device_used_memory(d0) - before, 4000);
    /* A smaller one uses the same memory, and has fewer bytes. */
    assert_int_equal(tolk_transfer_run(ta, NULL), TOLK_OK);
    assert_int_equal(tolk_device_used_memory(d0) - before, 4000);
    assert_int_equal(tolk_scope_merge_buffer(a, 1, TOLK_F32, 3, &m, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_scope_merge_buffer(a, 1, TOLK_F32, 2, &m, NULL), TOLK_OK);
    check_two(m, 3, 4);
    tolk_buffer_unref(m);
    tolk_transfer_destroy(ta);
    tolk_transfer_destroy(tb);
    tolk_buffer_unref(large);
    tolk_scope *all[] = {a, b, src, dst};
    for (int i = 0; i < 4; i++)
        tolk_scope_unref(all[i]);
}

/* ---- many threads ---- */

enum { THREADS = 4, ROUNDS = TK_TEST_TSAN ? 50 : 300 };

typedef struct worker {
    pthread_t thread;
    tolk_scope *src, *dst;
    uint64_t node;
    tolk_status bad;
} worker;

/* Merge and bind while others do. What another thread merged meanwhile is told, not mixed up. */
static void *merge_often(void *arg) {
    worker *w = arg;
    for (int i = 0; i < ROUNDS && !w->bad; i++) {
        tolk_transfer *t = NULL;
        tolk_scope *merged = NULL;
        tolk_buffer *m = NULL;
        w->bad = tolk_transfer_create(w->dst, w->src, w->node, 1, &t, &merged, NULL);
        if (!w->bad)
            w->bad = tolk_transfer_run(t, NULL);
        if (!w->bad) {
            tolk_status st = tolk_scope_merge_buffer(merged, w->node, TOLK_F32, 2, &m, NULL);
            w->bad = st == TOLK_E_NOT_FOUND ? TOLK_OK : st;
            tolk_buffer_unref(m);
        }
        if (!w->bad)
            w->bad = tolk_scope_bind(merged, 100, tolk_scope_find(merged, 50), NULL);
        if (!w->bad && tolk_scope_count(merged) != 2)
            w->bad = TOLK_E_INTERNAL;
        tolk_transfer_destroy(t);
        tolk_scope_unref(merged);
    }
    return NULL;
}

static void test_threads_merge_on_one_device(void **state) {
    (void)state;
    tolk_scope *src = scope_of(d1), *dst = scope_of(d0);
    worker w[THREADS];
    bind_two(dst, 50, 0, 0);
    for (int i = 0; i < THREADS; i++) {
        tolk_buffer *b = floats(d1, (size_t)(2 + 100 * i), (float)i);
        assert_int_equal(tolk_scope_bind(src, (uint64_t)i, b, NULL), TOLK_OK);
        tolk_buffer_unref(b);
    }
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.src = src, .dst = dst, .node = (uint64_t)i};
        assert_int_equal(pthread_create(&w[i].thread, NULL, merge_often, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(w[i].thread, NULL);
        assert_int_equal(w[i].bad, TOLK_OK);
    }
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK);
    tolk_scope_unref(src);
    tolk_scope_unref(dst);
}

/* ---- out of memory ---- */

static tolk_status no_memory_in(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_disk_cache = o.no_environment = 1;
    o.cpu_devices = 2;
    tolk_compile_opts c = TOLK_COMPILE_OPTS_INIT;
    c.opts = "UPCAST:0:4";
    c.target = "native";
    tolk_scope_opts with = TOLK_SCOPE_OPTS_INIT;
    with.compile = &c;
    tolk_ctx *ctx = NULL;
    tolk_device *a = NULL, *b = NULL;
    tolk_scope *src = NULL, *dst = NULL, *merged = NULL;
    tolk_buffer *x = NULL, *y = NULL, *m = NULL;
    tolk_transfer *plain = NULL, *merge = NULL;
    const float v[2] = {3, 4};
    float got[2] = {3, 4}, merged_got[2] = {3, 4};
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    st = st ? st : tolk_device_open(ctx, "CPU", &a, NULL);
    st = st ? st : tolk_device_open(ctx, "CPU:1", &b, NULL);
    st = st ? st : tolk_scope_create(a, &with, &dst, NULL);
    st = st ? st : tolk_scope_create(b, NULL, &src, NULL);
    st = st ? st : tolk_alloc_f32(b, 2, &x, NULL);
    st = st ? st : tolk_alloc_f32(a, 2, &y, NULL);
    st = st ? st : tolk_buffer_copyin(x, 0, v, sizeof v, NULL);
    st = st ? st : tolk_scope_bind(src, 1, x, NULL);
    st = st ? st : tolk_scope_bind(dst, 1, y, NULL);
    st = st ? st : tolk_transfer_create(dst, src, 1, 0, &plain, NULL, NULL);
    st = st ? st : tolk_transfer_create(dst, src, 1, 1, &merge, &merged, NULL);
    st = st ? st : tolk_transfer_run(plain, NULL);
    st = st ? st : tolk_transfer_run(merge, NULL);
    st = st ? st : tolk_scope_merge_buffer(merged, 1, TOLK_F32, 2, &m, NULL);
    st = st ? st : tolk_buffer_copyout(y, 0, got, sizeof got, NULL);
    st = st ? st : tolk_buffer_copyout(m, 0, merged_got, sizeof merged_got, NULL);
    if (!st && (memcmp(got, v, sizeof v) != 0 || memcmp(merged_got, v, sizeof v) != 0))
        st = TOLK_E_INTERNAL;
    tolk_buffer_unref(m);
    tolk_transfer_destroy(plain);
    tolk_transfer_destroy(merge);
    tolk_scope_unref(merged);
    tolk_scope_unref(src);
    tolk_scope_unref(dst);
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_out_of_memory(void **state) {
    (void)state;
    tk_test_oom(no_memory_in, NULL);
}

static void test_merge_of_a_node_without_elements(void **state) {
    (void)state;
    tolk_scope *s = scope_of(d0), *m;
    tolk_buffer *b;
    tolk_transfer *t;
    assert_int_equal(tolk_alloc_f32(d0, 0, &b, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_bind(s, 3, b, NULL), TOLK_OK);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_transfer_create(s, s, 3, 1, &t, &m, NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_run(t, &err), TOLK_OK);
    assert_int_equal(tolk_scope_merge_buffer(m, 3, TOLK_F32, 1, &b, NULL), TOLK_E_RANGE);
    assert_int_equal(tolk_scope_merge_buffer(m, 3, TOLK_F32, 0, &b, NULL), TOLK_OK);
    tolk_buffer_unref(b);
    tolk_transfer_destroy(t);
    tolk_scope_unref(m);
    tolk_scope_unref(s);
}

/* Pool 0 may be replaced by anybody: then there is nothing in it that was promised. */
static void test_merge_buffer_that_was_replaced_holds_no_node(void **state) {
    (void)state;
    tolk_scope *s = scope_of(d0), *m;
    tolk_transfer *t;
    tolk_buffer *b = NULL;
    (void)bind_two(s, 1, 5, 6);
    assert_int_equal(tolk_transfer_create(s, s, 1, 1, &t, &m, NULL), TOLK_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tolk_transfer_run(t, NULL), TOLK_OK);
        assert_int_equal(tolk_scope_merge_buffer(m, 1, TOLK_F32, 2, &b, NULL), TOLK_OK);
        tolk_buffer_unref(b);
        if (i)
            assert_int_equal(tolk_pool_alloc(d0, 0, 4096, 64, TOLK_POOL_STAGING, NULL), TOLK_OK);
        else
            assert_int_equal(tolk_pool_free(d0, 0, NULL), TOLK_OK);
        assert_int_equal(tolk_scope_merge_buffer(m, 1, TOLK_F32, 2, &b, &err), TOLK_E_NOT_FOUND);
        check_contains(err.msg, "node 1 in the merge buffer: nothing was merged on CPU since its "
                                "pool 0 was freed or replaced");
    }
    tolk_transfer_destroy(t);
    tolk_scope_unref(m);
    tolk_scope_unref(s);
}

static tolk_status fail_when_let_go(void *arg, tolk_error *e) {
    (void)e;
    for (int i = 0; i < 200000 && !*(_Atomic int *)arg; i++)
        usleep(100);
    return TOLK_E_IO;
}

/* A transfer that a stopped queue dropped brought nothing. */
static void test_merge_that_was_dropped_is_not_there(void **state) {
    (void)state;
    tolk_scope *s = scope_of(d0), *m;
    tolk_transfer *t;
    tolk_buffer *b = NULL;
    _Atomic int go = 0;
    (void)bind_two(s, 1, 5, 6);
    assert_int_equal(tolk_transfer_create(s, s, 1, 1, &t, &m, NULL), TOLK_OK);
    assert_int_equal(tolk_queue_submit(d0, fail_when_let_go, &go, NULL, "fails", NULL), TOLK_OK);
    assert_int_equal(tolk_transfer_run(t, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_merge_buffer(m, 1, TOLK_F32, 2, &b, NULL), TOLK_OK);
    tolk_buffer_unref(b);
    go = 1;
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_E_IO);
    assert_int_equal(tolk_device_recover(d0, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_merge_buffer(m, 1, TOLK_F32, 2, &b, &err), TOLK_E_NOT_FOUND);
    check_contains(err.msg, "node 1 in the merge buffer: the queue of CPU stopped before node 1");
    assert_int_equal(tolk_transfer_run(t, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_merge_buffer(m, 1, TOLK_F32, 2, &b, NULL), TOLK_OK);
    float x[2];
    assert_int_equal(tolk_buffer_copyout(b, 0, x, sizeof x, NULL), TOLK_OK);
    assert_true(x[0] == 5 && x[1] == 6);
    tolk_buffer_unref(b);
    /* what stops later does not undo it */
    assert_int_equal(tolk_queue_submit(d0, fail_when_let_go, &go, NULL, "fails", NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_E_IO);
    assert_int_equal(tolk_device_recover(d0, NULL), TOLK_OK);
    assert_int_equal(tolk_scope_merge_buffer(m, 1, TOLK_F32, 2, &b, NULL), TOLK_OK);
    tolk_buffer_unref(b);
    tolk_transfer_destroy(t);
    tolk_scope_unref(m);
    tolk_scope_unref(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define BOTH(name)                                                                                 \
    TEST(name), {                                                                                  \
        #name " (synchronous)", name, setup_synchronous, teardown, NULL                            \
    }
        TEST(test_child_begins_with_what_its_parent_has),
        TEST(test_merge_node_has_three_states),
        TEST(test_compile_options_are_inherited_copies),
        TEST(test_finalize_drops_what_the_scope_bound_itself),
        BOTH(test_finalize_can_be_tried_again),
        TEST(test_scope_of_a_destroyed_device),
        TEST(test_wrong_arguments),
        BOTH(test_O07_merge_has_no_effect_until_run_and_is_checked),
        BOTH(test_O08_two_devices_accumulate),
        BOTH(test_O08_merge_once),
        BOTH(test_O09_copy_to_a_scope_that_lacks_the_node),
        TEST(test_sizes_and_dtypes_that_differ),
        TEST(test_merge_of_what_was_never_written),
        BOTH(test_merge_of_a_node_without_elements),
        BOTH(test_merge_buffer_that_was_replaced_holds_no_node),
        TEST(test_merge_that_was_dropped_is_not_there),
        BOTH(test_merge_buffer_grows_and_holds_one_node),
        BOTH(test_threads_merge_on_one_device),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
