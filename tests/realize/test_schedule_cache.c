/* SPDX-License-Identifier: MIT
 *
 * The cache of orders: what is found, keys that collide, bounds, threads, memory that is short.
 */
#include "realize/schedule_cache.h"

#include "base/ctx.h"
#include "support/tk_test.h"

#include <pthread.h>
#include <stdlib.h>

static tolk_ctx *ctx_of(const tolk_allocator *al) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx = NULL;
    opts.allocator = al;
    opts.no_environment = 1;
    return tk_ctx_init(&opts, &ctx, NULL) == TOLK_OK ? ctx : NULL;
}

/* What the cache takes for a sink and its list: it looks into neither. */
static const tolk_uop *sink_of(tolk_graph *g, int64_t number) {
    const tolk_uop *size = tk_uop_index_const(g, 4);
    tk_attr a[4] = {{.i = number}, {.i = TK_SPACE_GLOBAL}, {.i = 0}, {.blob = NULL}};
    const tolk_uop *b = size ? tk_uop(g, TK_OP_BUFFER, TOLK_F32, &size, 1, a) : NULL;
    return b ? tk_uop(g, TK_OP_SINK, TOLK_VOID, &b, 1, NULL) : NULL;
}
static const tolk_uop *list_of(tolk_graph *g, const tolk_uop *sink) {
    return sink ? tk_uop(g, TK_OP_LINEAR, TOLK_VOID, &sink->src[0], 1, NULL) : NULL;
}
static tk_hash128 key_of(uint64_t n) {
    return (tk_hash128){n, 1};
}

/* The list of sink `number` under a key, in a graph of its own; -1: it is not there. */
static int64_t found(tolk_ctx *ctx, tk_schedule_cache *c, uint64_t key, int64_t number) {
    tolk_graph *g;
    const tolk_uop *list;
    assert_int_equal(tk_graph_create(ctx, &g), TOLK_OK);
    assert_int_equal(tk_schedule_cache_find(c, key_of(key), g, sink_of(g, number), &list, NULL),
                     TOLK_OK);
    int64_t slot = list ? tk_uop_int(list->src[0], TK_A_BUFFER_SLOT) : -1;
    assert_true(!list || list->graph == g);
    tk_graph_destroy(g);
    return slot;
}

static void put(tolk_ctx *ctx, tk_schedule_cache *c, uint64_t key, int64_t number) {
    tolk_graph *g;
    assert_int_equal(tk_graph_create(ctx, &g), TOLK_OK);
    const tolk_uop *sink = sink_of(g, number);
    tk_schedule_cache_put(c, key_of(key), sink, list_of(g, sink));
    tk_graph_destroy(g);
}

static void test_what_was_kept_is_found(void **state) {
    (void)state;
    tolk_ctx *ctx = ctx_of(NULL);
    tk_schedule_cache *c = NULL;
    assert_int_equal(tk_schedule_cache_create(ctx, &c, NULL), TOLK_OK);
    assert_int_equal(found(ctx, c, 7, 3), -1);
    put(ctx, c, 7, 3);
    assert_int_equal(found(ctx, c, 7, 3), 3);
    assert_int_equal(found(ctx, c, 8, 3), -1);
    /* A key alone is no proof. */
    assert_int_equal(found(ctx, c, 7, 4), -1);
    put(ctx, c, 7, 4);
    assert_int_equal(found(ctx, c, 7, 3), 3);
    assert_int_equal(tk_schedule_cache_length(c), 1);
    tk_schedule_cache_clear(c);
    assert_int_equal(tk_schedule_cache_length(c), 0);
    assert_int_equal(found(ctx, c, 7, 3), -1);
    tk_schedule_cache_destroy(c);
    tk_ctx_fini(ctx);
}

static void test_the_least_recently_used_go(void **state) {
    (void)state;
    enum { MOST = TK_SCHEDULE_CACHE_ENTRIES };
    tolk_ctx *ctx = ctx_of(NULL);
    tk_schedule_cache *c = NULL;
    assert_int_equal(tk_schedule_cache_create(ctx, &c, NULL), TOLK_OK);
    for (int i = 0; i < MOST; i++)
        put(ctx, c, (uint64_t)i, i);
    assert_int_equal(found(ctx, c, 0, 0), 0); /* used again */
    for (int i = MOST; i < MOST + 10; i++)
        put(ctx, c, (uint64_t)i, i);
    assert_int_equal(tk_schedule_cache_length(c), MOST);
    assert_int_equal(found(ctx, c, 0, 0), 0);
    for (int i = 1; i <= 10; i++)
        assert_int_equal(found(ctx, c, (uint64_t)i, i), -1);
    for (int i = 11; i < MOST + 10; i++)
        assert_int_equal(found(ctx, c, (uint64_t)i, i), i);
    tk_schedule_cache_destroy(c);
    tk_ctx_fini(ctx);
}

/* A sink of n different buffers. */
static void put_large(tolk_ctx *ctx, tk_schedule_cache *c, uint64_t key, int n) {
    tolk_graph *g;
    assert_int_equal(tk_graph_create(ctx, &g), TOLK_OK);
    const tolk_uop **src = malloc((size_t)n * sizeof *src);
    for (int i = 0; i < n; i++)
        src[i] = sink_of(g, i)->src[0];
    const tolk_uop *sink = tk_uop(g, TK_OP_SINK, TOLK_VOID, src, (size_t)n, NULL);
    tk_schedule_cache_put(c, key_of(key), sink, list_of(g, sink));
    free(src);
    tk_graph_destroy(g);
}

static void test_the_nodes_of_all_are_bounded(void **state) {
    (void)state;
    enum { HALF = TK_SCHEDULE_CACHE_NODES / 2 + 100 };
    tolk_ctx *ctx = ctx_of(NULL);
    tk_schedule_cache *c = NULL;
    assert_int_equal(tk_schedule_cache_create(ctx, &c, NULL), TOLK_OK);
    put(ctx, c, 1, 1);
    put_large(ctx, c, 2, TK_SCHEDULE_CACHE_NODES); /* more than there is room for at all */
    assert_int_equal(tk_schedule_cache_length(c), 1);
    put_large(ctx, c, 3, HALF);
    assert_int_equal(tk_schedule_cache_length(c), 2);
    put_large(ctx, c, 4, HALF);
    assert_int_equal(tk_schedule_cache_length(c), 1);
    tk_schedule_cache_destroy(c);
    tk_ctx_fini(ctx);
}

typedef struct sharer {
    tolk_ctx *ctx;
    tk_schedule_cache *c;
    uint64_t seed;
    int wrong;
} sharer;

static void *use(void *arg) {
    sharer *s = arg;
    for (int i = 0; i < 2000; i++) {
        uint64_t n = tk_test_rand(&s->seed) % 300, what = tk_test_rand(&s->seed) % 40;
        tolk_graph *g;
        const tolk_uop *list = NULL;
        if (what == 0)
            tk_schedule_cache_clear(s->c);
        if (tk_graph_create(s->ctx, &g) != TOLK_OK)
            return NULL;
        const tolk_uop *sink = sink_of(g, (int64_t)n);
        s->wrong += tk_schedule_cache_find(s->c, key_of(n), g, sink, &list, NULL) != TOLK_OK;
        if (list)
            s->wrong += tk_uop_int(list->src[0], TK_A_BUFFER_SLOT) != (int64_t)n;
        else
            tk_schedule_cache_put(s->c, key_of(n), sink, list_of(g, sink));
        tk_graph_destroy(g);
    }
    return NULL;
}

static void test_threads_share_it(void **state) {
    (void)state;
    enum { THREADS = 4 };
    tolk_ctx *ctx = ctx_of(NULL);
    tk_schedule_cache *c = NULL;
    pthread_t t[THREADS];
    sharer s[THREADS];
    assert_int_equal(tk_schedule_cache_create(ctx, &c, NULL), TOLK_OK);
    for (int i = 0; i < THREADS; i++) {
        s[i] = (sharer){ctx, c, tk_test_seed() + (uint64_t)i, 0};
        assert_int_equal(pthread_create(&t[i], NULL, use, &s[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(s[i].wrong, 0);
    }
    assert_true(tk_schedule_cache_length(c) <= TK_SCHEDULE_CACHE_ENTRIES);
    tk_schedule_cache_destroy(c);
    tk_ctx_fini(ctx);
}

static tolk_status little_memory(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx *ctx = ctx_of(al);
    tk_schedule_cache *c = NULL;
    tolk_graph *g = NULL;
    const tolk_uop *list = NULL, *sink = NULL;
    if (!ctx)
        return TOLK_E_NOMEM;
    tolk_status st = tk_schedule_cache_create(ctx, &c, NULL);
    if (st == TOLK_OK)
        st = tk_graph_create(ctx, &g);
    if (st == TOLK_OK) {
        sink = sink_of(g, 3);
        const tolk_uop *own = list_of(g, sink);
        st = own ? TOLK_OK : TOLK_E_NOMEM;
        if (own)
            tk_schedule_cache_put(c, key_of(3), sink, own);
    }
    if (st == TOLK_OK)
        st = tk_schedule_cache_find(c, key_of(3), g, sink, &list, NULL);
    tk_graph_destroy(g);
    tk_schedule_cache_destroy(c);
    tk_ctx_fini(ctx);
    return st;
}

static void test_without_memory_it_keeps_nothing(void **state) {
    (void)state;
    assert_true(tk_test_oom(little_memory, NULL) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_kept_is_found),
        cmocka_unit_test(test_the_least_recently_used_go),
        cmocka_unit_test(test_the_nodes_of_all_are_bounded),
        cmocka_unit_test(test_threads_share_it),
        cmocka_unit_test(test_without_memory_it_keeps_nothing),
    };
    return cmocka_run_group_tests_name("schedule_cache", tests, NULL, NULL);
}
