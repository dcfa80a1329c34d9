/* SPDX-License-Identifier: MIT
 *
 * The context, its log, and what it reads of the environment.
 */
#include "base/ctx.h"

#include "support/tk_test.h"

#include "base/env.h"
#include "base/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct heard {
    int n, busy, overlaps;
    tolk_log_level level;
    char text[2048];
} heard;

static void hear(void *user, tolk_log_level level, const char *text) {
    heard *h = user;
    if (h->busy++)
        h->overlaps++;
    h->n++;
    h->level = level;
    strncpy(h->text, text, sizeof h->text - 1);
    h->busy--;
}

static tolk_ctx *listening(heard *h) {
    memset(h, 0, sizeof *h);
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.log = hear;
    opts.log_user = h;
    tolk_ctx *ctx;
    assert_int_equal(tk_ctx_init(&opts, &ctx, NULL), TOLK_OK);
    return ctx;
}

static void test_init_of_other_size_is_E_ARG(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.size = 4;
    tolk_ctx *ctx = (tolk_ctx *)state;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_ctx_init(&opts, &ctx, &err), TOLK_E_ARG);
    assert_ptr_equal(ctx, state); /* untouched on failure */
    assert_non_null(strstr(err.msg, "size is 4"));
}

static void test_init_with_half_an_allocator_is_E_ARG(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    heap.al.resize = NULL;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = &heap.al;
    tolk_ctx *ctx;
    assert_int_equal(tk_ctx_init(&opts, &ctx, NULL), TOLK_E_ARG);
}

static tolk_status make(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    opts.cache_dir = "some/where";
    tolk_ctx *ctx;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status status = tk_ctx_init(&opts, &ctx, &err);
    assert_int_equal(err.code, status);
    if (status != TOLK_OK)
        return status;
    assert_string_equal(ctx->cache_dir, "some/where");
    assert_ptr_not_equal(ctx->cache_dir, opts.cache_dir);
    tk_log_keep(ctx, "a long text", 11); /* without memory: dropped, and no harm done */
    tolk_last_log(ctx);
    tk_ctx_fini(ctx);
    return TOLK_OK;
}

static void test_init_without_memory_is_E_NOMEM(void **state) {
    (void)state;
    assert_true(tk_test_oom(make, NULL) >= 3);
}

static int destroyed[TK_CTX_PARTS], n_destroyed;

static void destroy_part(tolk_ctx *ctx, void *part) {
    (void)ctx;
    destroyed[n_destroyed++] = *(int *)part;
}

static void test_fini_destroys_parts_last_one_first(void **state) {
    (void)state;
    heard h;
    tolk_ctx *ctx = listening(&h);
    int id[TK_CTX_PARTS];
    for (int i = 0; i < TK_CTX_PARTS; i++) {
        id[i] = i;
        ctx->part[i] = &id[i];
        ctx->part_destroy[i] = destroy_part;
    }
    tk_ctx_fini(ctx);
    assert_int_equal(n_destroyed, TK_CTX_PARTS);
    for (int i = 0; i < TK_CTX_PARTS; i++)
        assert_int_equal(destroyed[i], TK_CTX_PARTS - 1 - i);
    tk_ctx_fini(NULL);
}

static void test_log_by_level(void **state) {
    (void)state;
    unsetenv("TOLK_DEBUG");
    heard h;
    tolk_ctx *ctx = listening(&h);
    tk_log(ctx, TOLK_LOG_WARNING, "%d%s", 4, "2");
    assert_int_equal(h.n, 1);
    assert_int_equal(h.level, TOLK_LOG_WARNING);
    assert_string_equal(h.text, "42");
    tk_log(ctx, TOLK_LOG_INFO, "not asked for");
    assert_int_equal(h.n, 1);
    tk_ctx_fini(ctx);
    setenv("TOLK_DEBUG", "1", 1);
    ctx = listening(&h);
    tk_log(ctx, TOLK_LOG_INFO, "asked for");
    tk_log(ctx, TOLK_LOG_DEBUG, "not asked for");
    assert_int_equal(h.n, 1);
    assert_string_equal(h.text, "asked for");
    tk_ctx_fini(ctx);
    unsetenv("TOLK_DEBUG");
}

static void *log_much(void *ctx) {
    for (int i = 0; i < 2000; i++) {
        tk_log(ctx, TOLK_LOG_ERROR, "%d", i);
        tk_log_keep(ctx, "kept", 4);
    }
    return NULL;
}

static void test_log_from_many_threads_is_one_call_at_a_time(void **state) {
    (void)state;
    heard h;
    tolk_ctx *ctx = listening(&h);
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, log_much, ctx), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(h.n, 8000);
    assert_int_equal(h.overlaps, 0);
    assert_string_equal(tolk_last_log(ctx), "kept");
    tk_ctx_fini(ctx);
}

static void test_last_log_stays_until_the_next(void **state) {
    (void)state;
    heard h;
    tolk_ctx *ctx = listening(&h);
    assert_string_equal(tolk_last_log(ctx), "");
    tk_log_keep(ctx, "first", 5);
    const char *first = tolk_last_log(ctx);
    tk_log_keep(ctx, "second", 6);
    assert_string_equal(first, "first"); /* still valid: nobody asked again */
    assert_string_equal(tolk_last_log(ctx), "second");
    assert_string_equal(tolk_last_log(ctx), "second");
    tk_ctx_fini(ctx);
}

static void test_env_int_takes_numbers_in_range_only(void **state) {
    (void)state;
    heard h;
    tolk_ctx *ctx = listening(&h);
    unsetenv("TOLK_X");
    assert_int_equal(tk_env_int(ctx, "TOLK_X", 7, 0, 99), 7);
    assert_int_equal(h.n, 0);
    static const char *const good[] = {"0", "99", "12"};
    static const int64_t value[] = {0, 99, 12};
    for (size_t i = 0; i < 3; i++) {
        setenv("TOLK_X", good[i], 1);
        assert_int_equal(tk_env_int(ctx, "TOLK_X", 7, 0, 99), value[i]);
    }
    assert_int_equal(h.n, 0);
    static const char *const bad[] = {"100", "-1", "5x", "x", " ", "99999999999999999999"};
    for (int i = 0; i < 6; i++) {
        setenv("TOLK_X", bad[i], 1);
        assert_int_equal(tk_env_int(ctx, "TOLK_X", 7, 0, 99), 7);
        assert_int_equal(h.n, i + 1);
        assert_non_null(strstr(h.text, "TOLK_X"));
    }
    setenv("TOLK_X", "", 1);
    assert_null(tk_env_get(ctx, "TOLK_X"));
    tk_ctx_fini(ctx);
    unsetenv("TOLK_X");
}

static void test_no_environment_sees_none(void **state) {
    (void)state;
    setenv("TOLK_DEBUG", "2", 1);
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    tolk_ctx *ctx;
    assert_int_equal(tk_ctx_init(&opts, &ctx, NULL), TOLK_OK);
    assert_int_equal(ctx->debug, 0);
    assert_null(tk_env_get(ctx, "HOME"));
    tk_ctx_fini(ctx);
    unsetenv("TOLK_DEBUG");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_of_other_size_is_E_ARG),
        cmocka_unit_test(test_init_with_half_an_allocator_is_E_ARG),
        cmocka_unit_test(test_init_without_memory_is_E_NOMEM),
        cmocka_unit_test(test_fini_destroys_parts_last_one_first),
        cmocka_unit_test(test_log_by_level),
        cmocka_unit_test(test_log_from_many_threads_is_one_call_at_a_time),
        cmocka_unit_test(test_last_log_stays_until_the_next),
        cmocka_unit_test(test_env_int_takes_numbers_in_range_only),
        cmocka_unit_test(test_no_environment_sees_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
