/* SPDX-License-Identifier: MIT
 *
 * The binary cache in memory: what is found, what is built and how often, what goes. Most tests
 * give it builders of their own; the last ones look at the keys that the compiler makes. Case ids
 * are those of the collection this project tests against.
 */
#include "jit/cache.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "support/runtime.h"

#include <math.h>
#include <pthread.h>

static rt r;
static tolk_cache_stats stats;

static int teardown(void **state) {
    (void)state;
    if (r.ctx)
        rt_close(&r);
    return 0;
}

static void open_with(uint64_t entries, const char *dir) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.memory_entries = entries;
    rt_open(&r, dir, &o);
}

static void look(void) {
    assert_int_equal(tolk_cache_get_stats(r.ctx, &stats), TOLK_OK);
}

/* ---- builders ---- */

typedef struct maker {
    const char *text;       /* the bytes it makes */
    _Atomic int builds;     /* how often it was asked */
    _Atomic int failures;   /* how often it still fails */
    double seconds;         /* that it takes */
    _Atomic int *other;     /* it ends when the other has begun */
    tolk_ctx *ctx;          /* to ask for its own key while it builds */
    tolk_cached inner_from; /* where that came from */
} maker;

static bool any(void *user, const void *bytes, size_t len) {
    (void)user;
    (void)bytes, (void)len;
    return true;
}

static bool not_bad(void *user, const void *bytes, size_t len) {
    (void)user;
    return len != 3 || memcmp(bytes, "bad", 3) != 0;
}

static tolk_status build(void *user, char **out, size_t *len, tolk_error *err);

static tolk_status get(tolk_ctx *ctx, const char *key, bool bypass, maker *m, tk_binary **out,
                       tolk_cached *from) {
    return tk_cache_get(ctx, key, strlen(key), bypass, not_bad, build, m, out, from, NULL);
}

static tolk_status build(void *user, char **out, size_t *len, tolk_error *err) {
    maker *m = user;
    m->builds++;
    if (m->ctx) {
        tolk_ctx *ctx = m->ctx;
        tk_binary *inner = NULL;
        m->ctx = NULL;
        TK_TRY(get(ctx, "self", false, m, &inner, &m->inner_from));
        tk_binary_unref(ctx, inner);
    }
    for (double until = rt_now() + 10; m->other && !*m->other && rt_now() < until;)
        rt_sleep(0.001);
    if (m->seconds > 0)
        rt_sleep(m->seconds);
    if (m->failures > 0 && m->failures-- > 0)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE, "not this time");
    tk_strbuf sb;
    tk_strbuf_init(&sb, &r.ctx->al);
    tk_strbuf_str(&sb, m->text);
    *out = tk_strbuf_take(&sb, len);
    return *out ? TOLK_OK : tk_status_nomem(err);
}

/* Ask for a key and check where it comes from. */
static void ask(const char *key, maker *m, tolk_cached want) {
    tk_binary *b = NULL;
    tolk_cached from;
    assert_int_equal(get(r.ctx, key, false, m, &b, &from), TOLK_OK);
    if (from != want)
        fail_msg("\"%s\" comes from %d, expected %d", key, (int)from, (int)want);
    size_t len;
    const void *bytes = tk_binary_bytes(b, &len);
    assert_int_equal(len, strlen(m->text));
    assert_memory_equal(bytes, m->text, len);
    tk_binary_unref(r.ctx, b);
}

/* ---- one thread ---- */

static void test_get_builds_once_then_hits_and_counts(void **state) {
    (void)state;
    open_with(0, NULL);
    maker a = {.text = "code of a"}, b = {.text = "code of the other"};
    ask("a", &a, TOLK_CACHED_NONE);
    ask("a", &a, TOLK_CACHED_MEMORY);
    ask("b", &b, TOLK_CACHED_NONE);
    for (int i = 0; i < 5; i++)
        ask(i % 2 ? "a" : "b", i % 2 ? &a : &b, TOLK_CACHED_MEMORY);
    assert_int_equal(a.builds, 1);
    assert_int_equal(b.builds, 1);
    look();
    assert_int_equal(stats.misses, 2);
    assert_int_equal(stats.memory_hits, 6);
    assert_int_equal(stats.disk_hits, 0);
    assert_int_equal(stats.evictions, 0);
    assert_int_equal(stats.memory_entries, 2);
    assert_int_equal(stats.memory_bytes, strlen(a.text) + strlen(b.text));
    assert_string_equal(stats.disk_dir, "");
}

/* Keys are bytes, compared whole. */
static void test_keys_that_differ_anywhere_are_different_entries(void **state) {
    (void)state;
    open_with(0, NULL);
    static char long_key[3000];
    memset(long_key, 'k', sizeof long_key - 1);
    static const char *const keys[] = {"k", "kk", "kkk", "K", "k ", " k", "\x01", long_key};
    enum { N = sizeof keys / sizeof *keys };
    maker m[N];
    char texts[N][16];
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "text %d", i);
        m[i] = (maker){.text = texts[i]};
        ask(keys[i], &m[i], TOLK_CACHED_NONE);
    }
    long_key[1500] = 'x';
    maker other = {.text = "another"};
    ask(long_key, &other, TOLK_CACHED_NONE);
    long_key[1500] = 'k';
    for (int i = 0; i < N; i++)
        ask(keys[i], &m[i], TOLK_CACHED_MEMORY);
    ask("", &other, TOLK_CACHED_NONE); /* no byte at all is a key, too */
    ask("", &other, TOLK_CACHED_MEMORY);
}

static void test_bound_what_was_used_least_recently_goes_first(void **state) {
    (void)state;
    open_with(3, NULL);
    maker m = {.text = "12345"};
    ask("a", &m, TOLK_CACHED_NONE);
    ask("b", &m, TOLK_CACHED_NONE);
    ask("c", &m, TOLK_CACHED_NONE);
    ask("a", &m, TOLK_CACHED_MEMORY); /* now b is the oldest */
    ask("d", &m, TOLK_CACHED_NONE);
    look();
    assert_int_equal(stats.evictions, 1);
    assert_int_equal(stats.memory_entries, 3);
    assert_int_equal(stats.memory_bytes, 15);
    ask("c", &m, TOLK_CACHED_MEMORY);
    ask("a", &m, TOLK_CACHED_MEMORY);
    ask("d", &m, TOLK_CACHED_MEMORY);
    ask("b", &m, TOLK_CACHED_NONE); /* instead of c */
    ask("a", &m, TOLK_CACHED_MEMORY);
    ask("c", &m, TOLK_CACHED_NONE);
    /* many more than there is room for */
    for (int i = 0; i < 500; i++)
        ask(rt_text("key %d", i), &m, TOLK_CACHED_NONE);
    look();
    assert_int_equal(stats.memory_entries, 3);
    assert_int_equal(stats.memory_bytes, 15);
    assert_int_equal(stats.misses, 506);
    assert_int_equal(stats.evictions, 503);
}

static void test_evicted_and_cleared_binaries_live_on_in_their_users(void **state) {
    (void)state;
    open_with(1, NULL);
    maker a = {.text = "first"}, b = {.text = "second"};
    tk_binary *held = NULL, *again = NULL;
    tolk_cached from;
    size_t len;
    assert_int_equal(get(r.ctx, "a", false, &a, &held, &from), TOLK_OK);
    ask("b", &b, TOLK_CACHED_NONE); /* a goes */
    assert_memory_equal(tk_binary_bytes(held, &len), "first", 5);
    assert_int_equal(get(r.ctx, "b", false, &b, &again, &from), TOLK_OK);
    assert_int_equal(tolk_cache_clear(r.ctx, NULL), TOLK_OK);
    look();
    assert_int_equal(stats.memory_entries, 0);
    assert_int_equal(stats.memory_bytes, 0);
    assert_memory_equal(tk_binary_bytes(again, &len), "second", 6);
    tk_binary_unref(r.ctx, tk_binary_ref(again));
    assert_memory_equal(tk_binary_bytes(again, &len), "second", 6);
    tk_binary_unref(r.ctx, again);
    tk_binary_unref(r.ctx, held);
    ask("b", &b, TOLK_CACHED_NONE);
}

/* The bytes of all entries are bounded, too; one that is larger stands alone. */
static void test_large_binaries_go_before_there_are_many(void **state) {
    (void)state;
    enum { BYTES = 8 << 20, KEYS = 12, LARGE = 100 << 20 };
    open_with(0, NULL);
    char *text = malloc(LARGE + 1);
    assert_non_null(text);
    memset(text, 'x', LARGE);
    text[LARGE] = 0;
    maker m = {.text = text + LARGE - BYTES};
    for (int k = 0; k < KEYS; k++) {
        char key[2] = {(char)('a' + k), 0};
        ask(key, &m, TOLK_CACHED_NONE);
        look();
        assert_true(stats.memory_bytes <= 64 << 20);
    }
    assert_int_equal(stats.memory_entries, 8);
    assert_int_equal(stats.evictions, KEYS - 8);
    ask("l", &m, TOLK_CACHED_MEMORY);
    ask("a", &m, TOLK_CACHED_NONE);
    m.text = text;
    ask("large", &m, TOLK_CACHED_NONE);
    ask("large", &m, TOLK_CACHED_MEMORY);
    look();
    assert_int_equal(stats.memory_entries, 1);
    free(text);
}

static void test_bypass_neither_looks_nor_keeps(void **state) {
    (void)state;
    open_with(0, NULL);
    maker m = {.text = "x"};
    tk_binary *b = NULL;
    tolk_cached from;
    ask("a", &m, TOLK_CACHED_NONE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(get(r.ctx, "a", true, &m, &b, &from), TOLK_OK);
        assert_int_equal(from, TOLK_CACHED_NONE);
        tk_binary_unref(r.ctx, b);
        assert_int_equal(get(r.ctx, "new", true, &m, &b, &from), TOLK_OK);
        tk_binary_unref(r.ctx, b);
    }
    assert_int_equal(m.builds, 5);
    look();
    assert_int_equal(stats.memory_entries, 1);
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.memory_hits, 0);
    ask("new", &m, TOLK_CACHED_NONE);
}

static void test_failure_is_passed_on_and_not_kept(void **state) {
    (void)state;
    open_with(0, NULL);
    maker m = {.text = "at last", .failures = 3};
    for (int i = 0; i < 3; i++) {
        tk_binary *b = (tk_binary *)1;
        tolk_cached from;
        tolk_error err = TOLK_ERROR_INIT;
        assert_int_equal(tk_cache_get(r.ctx, "a", 1, false, any, build, &m, &b, &from, &err),
                         TOLK_E_UNSUPPORTED);
        assert_string_equal(err.msg, "not this time");
        assert_ptr_equal(b, (tk_binary *)1); /* untouched */
        look();
        assert_int_equal(stats.memory_entries, 0);
    }
    ask("a", &m, TOLK_CACHED_NONE);
    ask("a", &m, TOLK_CACHED_MEMORY);
    assert_int_equal(m.builds, 4);
}

/* A build that needs its own key does not wait for itself. */
static void test_thread_that_asks_for_what_it_builds_builds(void **state) {
    (void)state;
    open_with(0, NULL);
    maker m = {.text = "inner and outer", .ctx = r.ctx};
    ask("self", &m, TOLK_CACHED_NONE);
    assert_int_equal(m.builds, 2);
    assert_int_equal(m.inner_from, TOLK_CACHED_NONE);
    ask("self", &m, TOLK_CACHED_MEMORY);
    look();
    assert_int_equal(stats.memory_entries, 1);
}

static void test_disk_bytes_that_are_no_kernel_are_built_again(void **state) {
    (void)state;
    char *dir = rt_mkdir();
    open_with(0, dir);
    maker bad = {.text = "bad"}, good = {.text = "good"};
    ask("a", &bad, TOLK_CACHED_NONE);
    rt_close(&r);
    open_with(0, dir);
    ask("a", &good, TOLK_CACHED_NONE); /* not what is on disk */
    look();
    assert_int_equal(stats.damaged, 1);
    assert_int_equal(stats.misses, 1);
    rt_close(&r);
    open_with(0, dir);
    ask("a", &good, TOLK_CACHED_DISK); /* it replaced the other */
    rt_rmdir(dir);
}

static tolk_status use_cache(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_disk_cache = 1;
    o.memory_entries = 1;
    tolk_status st = tolk_ctx_create(&o, &r.ctx, NULL);
    if (st)
        return st;
    static const char *const keys[] = {"a", "a", "b", "a"};
    maker m = {.text = "bytes"};
    for (int i = 0; i < 4 && !st; i++) {
        tk_binary *b;
        tolk_cached from;
        st = get(r.ctx, keys[i], false, &m, &b, &from);
        if (!st)
            tk_binary_unref(r.ctx, b);
    }
    tolk_ctx_destroy(r.ctx);
    r.ctx = NULL;
    return st;
}

static void test_without_memory_is_nomem_and_leaves_nothing(void **state) {
    (void)state;
    tk_test_oom(use_cache, NULL);
}

/* ---- several threads ---- */

enum { THREADS = 8 };

typedef struct asker {
    pthread_t thread;
    const char *key;
    maker *m;
    tolk_status status;
    tolk_cached from;
} asker;

static void *ask_one(void *arg) {
    asker *a = arg;
    tk_binary *b = NULL;
    a->status = get(r.ctx, a->key, false, a->m, &b, &a->from);
    if (!a->status)
        tk_binary_unref(r.ctx, b);
    return NULL;
}

static void ask_together(asker *a, int n) {
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask_one, &a[i]), 0);
    for (int i = 0; i < n; i++)
        pthread_join(a[i].thread, NULL);
}

static void test_threads_that_ask_for_one_key_build_it_once(void **state) {
    (void)state;
    open_with(0, NULL);
    maker m = {.text = "one", .seconds = 0.05};
    asker a[THREADS];
    for (int i = 0; i < THREADS; i++)
        a[i] = (asker){.key = "k", .m = &m};
    ask_together(a, THREADS);
    int built = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(a[i].status, TOLK_OK);
        built += a[i].from == TOLK_CACHED_NONE;
    }
    assert_int_equal(built, 1);
    assert_int_equal(m.builds, 1);
    look();
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.memory_hits, THREADS - 1);
}

/* Who waits for a build that fails builds, too, one after the other. */
static void test_threads_that_wait_for_a_failure_build_themselves(void **state) {
    (void)state;
    for (int failures = 1; failures <= THREADS; failures += 3) {
        open_with(0, NULL);
        maker m = {.text = "one", .seconds = 0.01, .failures = failures};
        asker a[THREADS];
        for (int i = 0; i < THREADS; i++)
            a[i] = (asker){.key = "k", .m = &m};
        ask_together(a, THREADS);
        int failed = 0, built = 0;
        for (int i = 0; i < THREADS; i++) {
            failed += a[i].status == TOLK_E_UNSUPPORTED;
            built += a[i].status == TOLK_OK && a[i].from == TOLK_CACHED_NONE;
        }
        assert_int_equal(failed, failures);
        assert_int_equal(built, 1);
        assert_int_equal(m.builds, failures + 1);
        look();
        assert_int_equal(stats.memory_entries, 1);
        rt_close(&r);
    }
}

/* Each build ends when the other has begun. */
static void test_threads_with_different_keys_do_not_wait_for_each_other(void **state) {
    (void)state;
    open_with(0, NULL);
    maker a = {.text = "a"}, b = {.text = "b"};
    a.other = &b.builds;
    b.other = &a.builds;
    asker both[2] = {{.key = "a", .m = &a}, {.key = "b", .m = &b}};
    double start = rt_now();
    ask_together(both, 2);
    assert_true(rt_now() - start < 5);
    assert_int_equal(both[0].status, TOLK_OK);
    assert_int_equal(both[1].status, TOLK_OK);
}

static _Atomic int stop, wrong;

static void *clear_always(void *arg) {
    (void)arg;
    while (!stop) {
        wrong += tolk_cache_clear(r.ctx, NULL) != TOLK_OK;
        rt_sleep(0.0001);
    }
    return NULL;
}

static void *ask_always(void *arg) {
    uint64_t seed = (uint64_t)(uintptr_t)arg;
    static const char *const keys[] = {"a", "b", "c", "d", "e"};
    for (int i = 0; i < 2000; i++) {
        uint64_t random = tk_test_rand(&seed);
        maker m = {.text = keys[random % 5], .failures = random >> 8 & 15 ? 0 : 1};
        tk_binary *b = NULL;
        tolk_cached from;
        if (get(r.ctx, m.text, random >> 16 & 31 ? false : true, &m, &b, &from) == TOLK_OK) {
            size_t len;
            const char *bytes = tk_binary_bytes(b, &len);
            wrong += len != 1 || *bytes != *m.text;
            tk_binary_unref(r.ctx, b);
        } else {
            wrong += m.builds == 0; /* somebody else's failure */
        }
    }
    return NULL;
}

static void test_threads_with_clear_and_eviction_and_failures_get_their_own_bytes(void **state) {
    (void)state;
    open_with(2, NULL);
    pthread_t threads[THREADS], clearer;
    stop = wrong = 0;
    assert_int_equal(pthread_create(&clearer, NULL, clear_always, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_always, (void *)(uintptr_t)(i + 1)),
                         0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    stop = 1;
    pthread_join(clearer, NULL);
    assert_int_equal(wrong, 0);
    look();
    assert_true(stats.memory_entries <= 2);
    assert_true(stats.memory_hits > 0 && stats.misses > 0);
}

/* ---- the keys of kernels ---- */

#define PLUS                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index 1\n"                                                                        \
    "%%1 = param %s (%%0) {slot=0}\n"                                                              \
    "%%2 = param %s (%%0) {slot=1}\n"                                                              \
    "%%3 = const index 0\n"                                                                        \
    "%%4 = index %s (%%2, %%3)\n"                                                                  \
    "%%5 = load %s (%%4)\n"                                                                        \
    "%%6 = const %s %s\n"                                                                          \
    "%%7 = %s %s (%%5, %%6)\n"                                                                     \
    "%%8 = index %s (%%1, %%3)\n"                                                                  \
    "%%9 = store void (%%8, %%7)\n"                                                                \
    "%%10 = sink void (%%9) {name=\"plus\"}\n"

typedef struct constant {
    const char *dtype, *op, *literal;
    uint64_t x, want; /* bits */
} constant;

/* KEY-05: x op c, where only c differs, or only its dtype. */
static const constant constants[] = {
    {"i32", "add", "1", 41, 42},
    {"f32", "add", "1", 0x40000000, 0x40400000},
    {"bool", "add", "true", 0, 1},
    {"bool", "add", "false", 0, 0},
    {"i32", "add", "2", 41, 43},
    {"i64", "add", "9007199254740992", 0, 9007199254740992},
    {"i64", "add", "9007199254740993", 0, 9007199254740993},
    {"f64", "mul", "0.0", 0x3ff0000000000000, 0},
    {"f64", "mul", "-0.0", 0x3ff0000000000000, 0x8000000000000000},
    {"f32", "add", "0x1.fffffep0", 0, 0x3fffffff},
    {"f32", "add", "0x1.fffffcp0", 0, 0x3ffffffe},
    {"u8", "add", "1", 255, 0},
    {"i8", "add", "1", 127, 0x80},
};
enum { N_CONSTANTS = sizeof constants / sizeof *constants };

static void run_constant(const constant *c, tolk_cached want) {
    const char *d = c->dtype;
    tolk_program *p = rt_compile(&r, rt_text(PLUS, d, d, d, d, d, c->literal, c->op, d, d));
    tolk_program_info info;
    assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
    if (info.cached != want)
        fail_msg("%s %s: from %d, expected %d", d, c->literal, (int)info.cached, (int)want);
    uint64_t x = c->x, y = 0;
    void *bufs[] = {&y, &x};
    size_t bytes[] = {8, 8};
    assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
    if (y != c->want)
        fail_msg("%s %s: 0x%llx, expected 0x%llx", d, c->literal, (unsigned long long)y,
                 (unsigned long long)c->want);
    tolk_program_unref(p);
}

static void test_KEY_05_each_constant_has_a_kernel_of_its_own(void **state) {
    (void)state;
    open_with(0, NULL);
    for (int i = 0; i < N_CONSTANTS; i++)
        run_constant(&constants[i], TOLK_CACHED_NONE);
    look();
    assert_int_equal(stats.misses, N_CONSTANTS);
    assert_int_equal(stats.memory_hits, 0);
    for (int i = N_CONSTANTS; i-- > 0;)
        run_constant(&constants[i], TOLK_CACHED_MEMORY);
    look();
    assert_int_equal(stats.misses, N_CONSTANTS);
    assert_int_equal(stats.memory_hits, N_CONSTANTS);
}

/* KEY-05: the sign of zero and the payload of a NaN are part of a constant. */
static void test_KEY_05_nan_payloads_and_signs_of_zero_are_kept_apart(void **state) {
    (void)state;
    static const struct {
        const char *literal;
        uint32_t bits;
    } t[] = {{"nan(0x7fc00000)", 0x7fc00000},
             {"nan(0x7fc00001)", 0x7fc00001},
             {"nan(0xffc00000)", 0xffc00000},
             {"nan(0x7f800001)", 0x7f800001},
             {"0.0", 0},
             {"-0.0", 0x80000000}};
    enum { N = sizeof t / sizeof *t };
    open_with(0, NULL);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < N; i++) {
            tolk_program *p =
                rt_compile(&r, rt_text("tolk.uop 1\n%%0 = const index 1\n"
                                       "%%1 = param f32 (%%0) {slot=0}\n%%2 = const index 0\n"
                                       "%%3 = index f32 (%%1, %%2)\n%%4 = const f32 %s\n"
                                       "%%5 = store void (%%3, %%4)\n"
                                       "%%6 = sink void (%%5) {name=\"c\"}\n",
                                       t[i].literal));
            uint32_t y = 1;
            void *bufs[] = {&y};
            size_t bytes[] = {4};
            assert_int_equal(tolk_launch(p, bufs, bytes, 1, NULL, 0, NULL), TOLK_OK);
            assert_int_equal(y, t[i].bits);
            tolk_program_unref(p);
        }
    look();
    assert_int_equal(stats.misses, N);
    assert_int_equal(stats.memory_hits, N);
    /* 1 / (x c) tells the zeros apart */
    for (int negative = 0; negative < 2; negative++) {
        tolk_program *p = rt_compile(
            &r, rt_text("tolk.uop 1\n%%0 = const index 1\n%%1 = param f32 (%%0) {slot=0}\n"
                        "%%2 = param f32 (%%0) {slot=1}\n%%3 = const index 0\n"
                        "%%4 = index f32 (%%2, %%3)\n%%5 = load f32 (%%4)\n%%6 = const f32 %s\n"
                        "%%7 = mul f32 (%%5, %%6)\n%%8 = reciprocal f32 (%%7)\n"
                        "%%9 = index f32 (%%1, %%3)\n%%10 = store void (%%9, %%8)\n"
                        "%%11 = sink void (%%10) {name=\"c\"}\n",
                        negative ? "-0.0" : "0.0"));
        float x = 3, y = 0;
        void *bufs[] = {&y, &x};
        size_t bytes[] = {4, 4};
        assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
        assert_true(y == (negative ? -INFINITY : INFINITY));
        tolk_program_unref(p);
    }
}

/* What shapes the code is in the key: each of these is built once. */
static void test_KEY_01_options_and_targets_are_kept_apart(void **state) {
    (void)state;
    open_with(0, NULL);
    const char *text = rt_text(RT_SCALE, 100, "3");
    tolk_compile_opts o[6];
    for (int i = 0; i < 6; i++)
        o[i] = (tolk_compile_opts)TOLK_COMPILE_OPTS_INIT;
    o[1].opts = "";
    o[2].opts = "LANE:0:4";
    o[3].target = "x86-64";
    o[4].bounds = TOLK_BOUNDS_TRUST;
    o[5].strict = 1;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 6; i++) {
            tolk_program *p = NULL;
            tolk_error err = TOLK_ERROR_INIT;
            if (rt_try(&r, text, &o[i], &p, &err))
                fail_msg("%s", err.msg);
            tolk_program_info info;
            assert_int_equal(tolk_program_get_info(p, &info), TOLK_OK);
            assert_int_equal(info.cached, round ? TOLK_CACHED_MEMORY : TOLK_CACHED_NONE);
            assert_true(rt_scale_is(p, 100, 3));
            tolk_program_unref(p);
        }
    look();
    assert_int_equal(stats.misses, 6);
    assert_int_equal(stats.memory_hits, 6);
}

/* KEY-07: how a kernel came about is not in the key. */
static void test_KEY_07_equal_kernels_hit_however_they_were_made(void **state) {
    (void)state;
    open_with(0, NULL);
    tolk_program_unref(rt_compile(&r, rt_text(RT_SCALE, 1000, "0x1.8p+1")));
    /* other numbers, order, literals, comments, line ends, and a graph that holds more */
    tolk_program_unref(rt_compile(&r, "tolk.uop 1 stage=kernel\r\n"
                                      "; the same\r\n"
                                      "%70 = const f32 3 ; three\r\n"
                                      "%9 = const index 0x3e8\r\n"
                                      "%8 = param f32 (%9) {name=\"x\", slot=1}\r\n"
                                      "%7 = param f32 (%9) {slot=0, name=\"y\"}\r\n"
                                      "%6 = range index (%9) {kind=global, axis=0}\r\n"
                                      "%5 = index f32 (%8, %6)\r\n"
                                      "%4 = load f32 (%5)\r\n"
                                      "%3 = mul f32 (%4, %70)\r\n"
                                      "%2 = index f32 (%7, %6)\r\n"
                                      "%1 = store void (%2, %3)\r\n"
                                      "%0 = end void (%1, %6)\r\n"
                                      "%100 = sink void (%0) {name=\"scale\"}\r\n"));
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    const int64_t dims[] = {1000};
    (void)tolk_const_float(g, TOLK_F64, 7); /* not part of it */
    const tolk_uop *x = tolk_param(g, TOLK_F32, dims, 1, 1, "x");
    const tolk_uop *y = tolk_param(g, TOLK_F32, dims, 1, 0, "y");
    const tolk_uop *i = tolk_range(g, tolk_const_int(g, TOLK_INDEX, 1000), 0, TOLK_AXIS_GLOBAL);
    const tolk_uop *v =
        tolk_mul(g, tolk_load(g, tolk_index(g, x, &i, 1)), tolk_const_float(g, TOLK_F32, 3));
    const tolk_uop *e = tolk_end(g, tolk_store(g, tolk_index(g, y, &i, 1), v), &i, 1);
    const tolk_uop *k = tolk_sink(g, &e, 1, "scale");
    tolk_program *p = NULL;
    assert_int_equal(tolk_compile(r.cpu, k, NULL, &p, NULL), TOLK_OK);
    assert_true(rt_scale_is(p, 1000, 3));
    tolk_program_unref(p);
    tolk_graph_destroy(g);
    look();
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.memory_hits, 2);
}

/* ---- KEY-07: in another process ---- */

static const char *self;

static int second_process(char *dir) {
    open_with(0, dir);
    for (int i = 0; i < N_CONSTANTS; i++)
        run_constant(&constants[i], TOLK_CACHED_DISK);
    look();
    bool good = stats.misses == 0 && stats.disk_hits == N_CONSTANTS && stats.damaged == 0;
    rt_close(&r);
    return good ? 0 : 1;
}

static void test_KEY_07_a_second_process_compiles_nothing(void **state) {
    (void)state;
    char *dir = rt_mkdir(), *path = realpath(self, NULL);
    assert_non_null(path);
    open_with(0, dir);
    for (int i = 0; i < N_CONSTANTS; i++)
        run_constant(&constants[i], TOLK_CACHED_NONE);
    /* another folder, other variables in another order; addresses are others anyway */
    static const char *const how[] = {"cd / && env -u LANG A=1 B=2", "cd /tmp && env B=2 A=1",
                                      "cd / && env -i"};
    for (int i = 0; i < 3; i++)
        assert_int_equal(system(rt_text("%s '%s' '%s'", how[i], path, dir)), 0);
    free(path);
    rt_rmdir(dir);
}

int main(int argc, char **argv) {
    if (argc > 1)
        return second_process(argv[1]);
    self = argv[0];
#define TEST(f) cmocka_unit_test_teardown(f, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_get_builds_once_then_hits_and_counts),
        TEST(test_keys_that_differ_anywhere_are_different_entries),
        TEST(test_bound_what_was_used_least_recently_goes_first),
        TEST(test_evicted_and_cleared_binaries_live_on_in_their_users),
        TEST(test_large_binaries_go_before_there_are_many),
        TEST(test_bypass_neither_looks_nor_keeps),
        TEST(test_failure_is_passed_on_and_not_kept),
        TEST(test_thread_that_asks_for_what_it_builds_builds),
        TEST(test_disk_bytes_that_are_no_kernel_are_built_again),
        TEST(test_without_memory_is_nomem_and_leaves_nothing),
        TEST(test_threads_that_ask_for_one_key_build_it_once),
        TEST(test_threads_that_wait_for_a_failure_build_themselves),
        TEST(test_threads_with_different_keys_do_not_wait_for_each_other),
        TEST(test_threads_with_clear_and_eviction_and_failures_get_their_own_bytes),
        TEST(test_KEY_01_options_and_targets_are_kept_apart),
        TEST(test_KEY_05_each_constant_has_a_kernel_of_its_own),
        TEST(test_KEY_05_nan_payloads_and_signs_of_zero_are_kept_apart),
        TEST(test_KEY_07_equal_kernels_hit_however_they_were_made),
        TEST(test_KEY_07_a_second_process_compiles_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
