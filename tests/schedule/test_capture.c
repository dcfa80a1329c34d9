/* SPDX-License-Identifier: MIT
 *
 * Stacks of capture hooks: innermost first, one stack for each thread, and forks.
 */
#include "schedule/capture.h"

#include "support/tk_test.h"

#include <pthread.h>

static tolk_ctx *open_ctx(const tolk_allocator *al) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    tolk_ctx *ctx = NULL;
    if (tk_ctx_init(&opts, &ctx, NULL) == TOLK_OK && tk_capture_create(ctx, NULL) != TOLK_OK) {
        tk_ctx_fini(ctx);
        ctx = NULL;
    }
    return ctx;
}

static tolk_status hook(const tk_capture *c, const void *what, tolk_error *err) {
    (void)err;
    *(const void **)c->user = what;
    return TOLK_OK;
}

static void *innermost(tolk_ctx *ctx) {
    tk_capture c;
    return tk_capture_find(ctx, &c) ? c.user : NULL;
}

static tolk_status push(tolk_ctx *ctx, void *user) {
    return tk_capture_push(ctx, &(tk_capture){hook, NULL, user}, NULL);
}

static void test_capture_innermost_comes_first(void **state) {
    (void)state;
    tolk_ctx *ctx = open_ctx(NULL);
    const void *a = NULL, *b = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_null(innermost(ctx));
    assert_int_equal(tk_capture_pop(ctx, &err), TOLK_E_NOT_FOUND);
    assert_int_equal(push(ctx, &a), TOLK_OK);
    assert_int_equal(push(ctx, &b), TOLK_OK);
    assert_ptr_equal(innermost(ctx), &b);
    tk_capture c;
    assert_true(tk_capture_find(ctx, &c));
    assert_int_equal(c.hook(&c, ctx, NULL), TOLK_OK);
    assert_ptr_equal(b, ctx);
    assert_null(a);
    assert_int_equal(tk_capture_pop(ctx, NULL), TOLK_OK);
    assert_ptr_equal(innermost(ctx), &a);
    assert_int_equal(tk_capture_pop(ctx, NULL), TOLK_OK);
    assert_null(innermost(ctx));
    assert_int_equal(push(ctx, &a), TOLK_OK); /* freed with the context */
    tk_ctx_fini(ctx);
}

static void *other_thread(void *arg) {
    tolk_ctx *ctx = arg;
    const void *mine = NULL;
    assert_null(innermost(ctx));
    assert_int_equal(tk_capture_pop(ctx, NULL), TOLK_E_NOT_FOUND);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(push(ctx, &mine), TOLK_OK);
        assert_ptr_equal(innermost(ctx), &mine);
        assert_int_equal(tk_capture_pop(ctx, NULL), TOLK_OK);
    }
    /* Left behind: no thread that comes later takes it for its own. */
    assert_int_equal(push(ctx, &mine), TOLK_OK);
    return NULL;
}

static void test_capture_threads_have_stacks_of_their_own(void **state) {
    (void)state;
    tolk_ctx *ctx = open_ctx(NULL);
    const void *a = NULL;
    pthread_t t[4];
    assert_int_equal(push(ctx, &a), TOLK_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&t[i], NULL, other_thread, ctx), 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_ptr_equal(innermost(ctx), &a);
    }
    assert_int_equal(tk_capture_pop(ctx, NULL), TOLK_OK);
    assert_null(innermost(ctx));
    tk_ctx_fini(ctx);
}

static int child(void *arg) {
    tolk_ctx *ctx = arg;
    const void *a = NULL;
    return !(innermost(ctx) && push(ctx, &a) == TOLK_OK && innermost(ctx) == (void *)&a &&
             tk_capture_pop(ctx, NULL) == TOLK_OK && tk_capture_pop(ctx, NULL) == TOLK_OK &&
             !innermost(ctx));
}

static void test_capture_goes_on_in_the_child_of_a_fork(void **state) {
    (void)state;
    tolk_ctx *ctx = open_ctx(NULL);
    const void *a = NULL;
    assert_int_equal(push(ctx, &a), TOLK_OK);
    assert_int_equal(tk_test_child(child, ctx, 20), 0);
    assert_ptr_equal(innermost(ctx), &a);
    tk_ctx_fini(ctx);
}

static tolk_status push_some(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx *ctx = open_ctx(al);
    if (!ctx)
        return TOLK_E_NOMEM;
    const void *a = NULL;
    tolk_status st = push(ctx, &a);
    assert_int_equal(innermost(ctx) != NULL, st == TOLK_OK);
    tk_ctx_fini(ctx);
    return st;
}

static void test_capture_without_memory_fails_cleanly(void **state) {
    (void)state;
    assert_true(tk_test_oom(push_some, NULL) >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capture_innermost_comes_first),
        cmocka_unit_test(test_capture_threads_have_stacks_of_their_own),
        cmocka_unit_test(test_capture_goes_on_in_the_child_of_a_fork),
        cmocka_unit_test(test_capture_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
