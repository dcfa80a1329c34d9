/* SPDX-License-Identifier: MIT
 *
 * The guarded cache: keys, races between builds, clears and the end of devices, and that nothing is
 * lost or kept twice. Test names carry the numbers of the behaviour list that it is built to.
 */
#include "realize/guarded_cache.h"

#include "base/alloc.h"
#include "base/status.h"
#include "support/tk_test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- values that count ---- */

typedef struct value {
    _Atomic int refs;
    int number;
    bool bad; /* destroying it fails */
} value;

static _Atomic int built, destroyed, freed; /* callbacks, and values whose last reference went */

static void drop(value *v) {
    if (atomic_fetch_sub(&v->refs, 1) == 1) {
        freed++;
        tk_alloc_free(&tk_alloc_malloc, v, sizeof *v);
    }
}

static void *ref(void *p) {
    value *v = p;
    atomic_fetch_add(&v->refs, 1);
    return v;
}

static tolk_status destroy(void *p, tolk_error *err) {
    value *v = p;
    bool bad = v->bad;
    int number = v->number;
    destroyed++;
    drop(v);
    return bad ? tk_status_fail(err, TOLK_E_IO, TK_NO_NODE, "value %d", number) : TOLK_OK;
}

static const tk_guarded_cache_ops ops = {ref, destroy};

typedef struct maker {
    int number;
    bool bad;                       /* what it makes cannot be destroyed */
    bool fails;                     /* it makes nothing */
    void (*within)(struct maker *); /* called while it builds */
    int calls;
    tk_guarded_cache_key key;
} maker;

static tolk_status make(void *user, void **out, tolk_error *err) {
    maker *m = user;
    m->calls++;
    if (m->within)
        m->within(m);
    if (m->fails)
        return tk_status_fail(err, TOLK_E_COMPILE, TK_NO_NODE, "maker %d", m->number);
    value *v = tk_alloc_zero(&tk_alloc_malloc, sizeof *v);
    assert_non_null(v);
    atomic_init(&v->refs, 1);
    v->number = m->number;
    v->bad = m->bad;
    built++;
    *out = v;
    return TOLK_OK;
}

static tk_guarded_cache *c;

static void start(bool borrowing) {
    built = destroyed = freed = 0;
    assert_int_equal(tk_guarded_cache_create(&tk_alloc_malloc, &ops, borrowing, &c, NULL), TOLK_OK);
}

static void stop(void) {
    tk_guarded_cache_destroy(c);
    assert_int_equal(built, destroyed);
    assert_int_equal(built, freed);
}

/* What the cache counts is what the callbacks saw, and nothing is lost. */
static void check_conserved(void) {
    uint64_t hits, misses, b, d;
    tk_guarded_cache_count(c, &hits, &misses, &b, &d);
    assert_int_equal(b, built);
    assert_int_equal(d, destroyed);
    assert_int_equal(b, d + tk_guarded_cache_length(c));
}

static tk_guarded_cache_key key_of(const char *name) {
    return tk_guarded_cache_key_make("d", name, "s", NULL, 0);
}

static tolk_status get(const char *name, uint64_t device, maker *m, value **out, tolk_error *err) {
    tk_guarded_cache_key key = key_of(name);
    void *p = NULL;
    tolk_status st = tk_guarded_cache_find_or_build(c, &key, device, make, m, &p, err);
    if (st == TOLK_OK)
        *out = p;
    else
        assert_null(p);
    return st;
}

/* The number of the value of a key. */
static int number_of(const char *name, uint64_t device, maker *m) {
    value *v;
    assert_int_equal(get(name, device, m, &v, NULL), TOLK_OK);
    int n = v->number;
    drop(v);
    return n;
}

/* ---- keys ---- */

static bool same(tk_guarded_cache_key a, tk_guarded_cache_key b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

static void test_S01_key_is_of_all_its_parts(void **state) {
    (void)state;
    static const char *const o[][2] = {{"tier", "full"}, {"strict", "1"}};
    static const char *const p[][2] = {{"tier", "quick"}, {"strict", "1"}};
    static const char *const q[][2] = {{"tier", "full"}, {"bounds", "1"}};
    tk_guarded_cache_key k = tk_guarded_cache_key_make("1", "scale", "text", o, 2);
    assert_true(same(k, tk_guarded_cache_key_make("1", "scale", "text", o, 2)));
    assert_false(same(k, tk_guarded_cache_key_make("2", "scale", "text", o, 2)));
    assert_false(same(k, tk_guarded_cache_key_make("1", "scala", "text", o, 2)));
    assert_false(same(k, tk_guarded_cache_key_make("1", "scale", "texts", o, 2)));
    assert_false(same(k, tk_guarded_cache_key_make("1", "scale", "text", p, 2)));
    assert_false(same(k, tk_guarded_cache_key_make("1", "scale", "text", q, 2)));
    assert_false(same(k, tk_guarded_cache_key_make("1", "scale", "text", o, 1)));
    assert_false(same(k, tk_guarded_cache_key_make("1", "scale", "text", NULL, 0)));
}

static void test_S01_no_part_looks_like_the_end_of_another(void **state) {
    (void)state;
    static const char *const one[][2] = {{"a", "1,b=2"}}, *const two[][2] = {{"a", "1"},
                                                                             {"b", "2"}};
    static const char *const swapped[][2] = {{"1", "a"}, {"b", "2"}};
    assert_false(same(tk_guarded_cache_key_make("d", "n", "s", one, 1),
                      tk_guarded_cache_key_make("d", "n", "s", two, 2)));
    assert_false(same(tk_guarded_cache_key_make("d", "n", "s", swapped, 2),
                      tk_guarded_cache_key_make("d", "n", "s", two, 2)));
    assert_false(same(tk_guarded_cache_key_make("a:b", "c", "s", NULL, 0),
                      tk_guarded_cache_key_make("a", "b:c", "s", NULL, 0)));
}

static void test_S02_order_of_options_does_not_count(void **state) {
    (void)state;
    /* All orders of five, two of them equal and two of one name. */
    static const char *const all[5][2] = {
        {"a", "1"}, {"b", "2"}, {"c", "3"}, {"c", "3"}, {"a", "4"}};
    tk_guarded_cache_key want = tk_guarded_cache_key_make("d", "n", "s", all, 5);
    for (int n = 0; n < 120; n++) {
        const char *o[5][2];
        bool used[5] = {false};
        for (int i = 0, left = n, f = 24; i < 5; i++) {
            int k = left / f;
            left %= f;
            f /= i < 4 ? 4 - i : 1;
            for (int j = 0; j < 5; j++)
                if (!used[j] && k-- == 0) {
                    memcpy(o[i], all[j], sizeof o[i]);
                    used[j] = true;
                    break;
                }
        }
        assert_true(same(
            want, tk_guarded_cache_key_make("d", "n", "s", (const char *const(*)[2])(void *)o, 5)));
    }
    /* One of the equal ones less is another key. */
    static const char *const less[4][2] = {{"a", "1"}, {"b", "2"}, {"c", "3"}, {"a", "4"}};
    assert_false(same(want, tk_guarded_cache_key_make("d", "n", "s", less, 4)));
}

/* ---- many threads ---- */

enum { THREADS = 8, LOOKUPS = TK_TEST_TSAN ? 800 : 4000, SHARED = 16, PRIVATE = 4 };

typedef struct worker {
    pthread_t thread;
    int number;
    int seen[SHARED]; /* value of each shared key; -1: none yet */
    bool wrong;
    tolk_status allowed; /* that a lookup may end with beside TOLK_OK */
    uint64_t device;
    uint64_t random;
} worker;

static _Atomic int next_number;

static void *look_up(void *arg) {
    worker *w = arg;
    for (int i = 0; i < LOOKUPS; i++) {
        uint64_t r = tk_test_rand(&w->random) % (SHARED + PRIVATE);
        char name[32];
        if (r < SHARED)
            snprintf(name, sizeof name, "shared %d", (int)r);
        else
            snprintf(name, sizeof name, "private %d %d", w->number, (int)r);
        maker m = {.number = next_number++};
        value *v = NULL;
        tolk_status st = get(name, w->device, &m, &v, NULL);
        if (st == TOLK_OK) {
            if (r < SHARED && w->seen[r] < 0)
                w->seen[r] = v->number;
            w->wrong |= !w->allowed && r < SHARED && w->seen[r] != v->number;
            drop(v);
        } else {
            w->wrong |= st != w->allowed;
        }
    }
    return NULL;
}

static void run_workers(worker *w, tolk_status allowed, uint64_t device) {
    next_number = 1;
    for (int i = 0; i < THREADS; i++) {
        w[i] = (worker){.number = i,
                        .allowed = allowed,
                        .device = device,
                        .random = tk_test_seed() + (uint64_t)i};
        memset(w[i].seen, -1, sizeof w[i].seen);
        assert_int_equal(pthread_create(&w[i].thread, NULL, look_up, &w[i]), 0);
    }
}

static void join_workers(worker *w) {
    for (int i = 0; i < THREADS; i++) {
        pthread_join(w[i].thread, NULL);
        assert_false(w[i].wrong);
    }
}

static void test_S03_lookups_of_many_threads_agree(void **state) {
    (void)state;
    start(true);
    worker w[THREADS];
    run_workers(w, TOLK_OK, 1);
    join_workers(w);
    for (int k = 0; k < SHARED; k++)
        for (int i = 1; i < THREADS; i++)
            assert_int_equal(w[i].seen[k], w[0].seen[k]);
    assert_int_equal(tk_guarded_cache_length(c), SHARED + THREADS * PRIVATE);
    check_conserved();
    stop();
}

static _Atomic bool done;

static void *clear_often(void *arg) {
    (void)arg;
    while (!done) {
        if (tk_guarded_cache_clear(c, NULL) != TOLK_OK)
            return arg;
        sched_yield();
    }
    return NULL;
}

static void *evict_often(void *arg) {
    while (!done) {
        if (tk_guarded_cache_evict_device(c, 1, NULL) != TOLK_OK)
            return arg;
        sched_yield();
    }
    return NULL;
}

static void race(bool borrowing, tolk_status allowed, void *(*other)(void *)) {
    worker w[THREADS];
    pthread_t t;
    void *failed;
    done = false;
    start(borrowing);
    assert_int_equal(pthread_create(&t, NULL, other, &failed), 0);
    run_workers(w, allowed, 1);
    join_workers(w);
    done = true;
    pthread_join(t, &failed);
    assert_null(failed);
    check_conserved();
}

static void test_S04_clear_during_lookups(void **state) {
    (void)state;
    /* An owning cache: nobody fails. (S04 allows any number of values for a key, so the workers are
     * told that another status is allowed, one that never comes.) */
    race(false, TOLK_E_INTERNAL, clear_often);
    assert_int_equal(tk_guarded_cache_clear(c, NULL), TOLK_OK);
    assert_int_equal(tk_guarded_cache_length(c), 0);
    check_conserved();
    stop();
    race(true, TOLK_E_CACHE_CLEARED, clear_often);
    stop();
}

static void test_S05_evict_during_lookups(void **state) {
    (void)state;
    race(true, TOLK_E_DEVICE_DESTROYED, evict_often);
    stop();
}

/* ---- one build and what happens meanwhile ---- */

static void evict_7(maker *m) {
    (void)m;
    assert_int_equal(tk_guarded_cache_evict_device(c, 7, NULL), TOLK_OK);
}

static void clear(maker *m) {
    (void)m;
    assert_int_equal(tk_guarded_cache_clear(c, NULL), TOLK_OK);
}

static void test_S06_evict_during_a_build(void **state) {
    (void)state;
    start(false);
    maker m = {.number = 1, .within = evict_7}, again = {.number = 2};
    value *v;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(get("k", 7, &m, &v, &err), TOLK_E_DEVICE_DESTROYED);
    assert_non_null(strstr(err.msg, "uid 7"));
    assert_int_equal(destroyed, 1);
    assert_int_equal(tk_guarded_cache_length(c), 0);
    assert_int_equal(number_of("k", 7, &again), 2);
    check_conserved();
    stop();
}

static void test_S06_evict_of_another_device_leaves_a_build_alone(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1, .within = evict_7}, none = {.number = 2, .within = evict_7};
    assert_int_equal(number_of("k", 8, &m), 1);
    assert_int_equal(number_of("no device", 0, &none), 2);
    assert_int_equal(tk_guarded_cache_evict_device(c, 0, NULL), TOLK_OK); /* 0 names none */
    assert_int_equal(tk_guarded_cache_length(c), 2);
    stop();
}

static void test_S07_clear_during_a_build_that_borrows(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1, .within = clear}, again = {.number = 2};
    value *v;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(get("k", 7, &m, &v, &err), TOLK_E_CACHE_CLEARED);
    assert_non_null(strstr(err.msg, "cleared"));
    assert_int_equal(tk_guarded_cache_length(c), 0);
    assert_int_equal(number_of("k", 7, &again), 2);
    assert_int_equal(again.calls, 1);
    check_conserved();
    stop();
}

static void test_S08_clear_during_a_build_that_owns(void **state) {
    (void)state;
    start(false);
    maker m = {.number = 1, .within = clear}, again = {.number = 2};
    assert_int_equal(number_of("k", 7, &m), 1);
    assert_int_equal(tk_guarded_cache_length(c), 1);
    assert_int_equal(number_of("k", 7, &again), 1);
    assert_int_equal(again.calls, 0);
    stop();
}

static void test_S09_all_are_destroyed_where_one_fails(void **state) {
    (void)state;
    start(true);
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        maker m = {.number = i, .bad = i == 2};
        assert_int_equal(number_of(name, 1, &m), i);
    }
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_guarded_cache_clear(c, &err), TOLK_E_IO);
    assert_string_equal(err.msg, "value 2");
    assert_int_equal(destroyed, 4);
    assert_int_equal(tk_guarded_cache_length(c), 0);
    check_conserved();
    maker bad = {.number = 5, .bad = true}, good = {.number = 6};
    number_of("a", 1, &bad);
    number_of("b", 1, &good);
    assert_int_equal(tk_guarded_cache_evict_device(c, 1, &err), TOLK_E_IO);
    assert_string_equal(err.msg, "value 5");
    assert_int_equal(tk_guarded_cache_length(c), 0);
    stop();
}

/* Another thread builds the same key, from beginning to end. */
static void *win(void *arg) {
    return (void *)(uintptr_t)number_of("k", 7, arg);
}

static void lose(maker *m) {
    pthread_t t;
    void *n;
    maker winner = {.number = m->number + 1};
    assert_int_equal(pthread_create(&t, NULL, win, &winner), 0);
    pthread_join(t, &n);
    assert_int_equal((uintptr_t)n, m->number + 1);
}

static void lose_and_evict_before(maker *m) {
    evict_7(m);
    lose(m);
}

static void test_S10_lost_race_with_a_failing_destroy(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1, .bad = true, .within = lose};
    value *v;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(get("k", 7, &m, &v, &err), TOLK_OK);
    assert_int_equal(v->number, 2);
    assert_int_equal(err.code, TOLK_OK);
    assert_int_equal(destroyed, 1);
    assert_int_equal(tk_guarded_cache_length(c), 1);
    drop(v);
    check_conserved();
    stop();
}

static void test_S10_a_fresh_entry_comes_before_a_stale_build(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1, .within = lose_and_evict_before};
    assert_int_equal(number_of("k", 7, &m), 2);
    check_conserved();
    stop();
}

/* ---- the rest of section 1.5 ---- */

static void test_failed_build_is_not_remembered(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1, .fails = true}, again = {.number = 2};
    value *v;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(get("k", 7, &m, &v, &err), TOLK_E_COMPILE);
    assert_string_equal(err.msg, "maker 1");
    assert_int_equal(tk_guarded_cache_length(c), 0);
    check_conserved();
    assert_int_equal(number_of("k", 7, &again), 2);
    stop();
}

static void build_another(maker *m) {
    maker inner = {.number = m->number + 10};
    assert_int_equal(number_of("inner", 7, &inner), m->number + 10);
    maker same_key = {.number = m->number + 20};
    assert_int_equal(number_of("k", 7, &same_key), m->number + 20);
}

static void test_build_may_use_the_cache(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1, .within = build_another};
    assert_int_equal(number_of("k", 7, &m), 21);
    assert_int_equal(tk_guarded_cache_length(c), 2);
    check_conserved();
    stop();
}

static void test_value_in_use_outlives_the_cache(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1};
    value *v;
    assert_int_equal(get("k", 7, &m, &v, NULL), TOLK_OK);
    assert_int_equal(tk_guarded_cache_clear(c, NULL), TOLK_OK);
    assert_int_equal(destroyed, 1);
    assert_int_equal(freed, 0);
    assert_int_equal(v->number, 1);
    drop(v);
    assert_int_equal(freed, 1);
    stop();
}

static void test_drop_takes_out_one(void **state) {
    (void)state;
    start(true);
    for (int i = 0; i < 2000; i++) { /* more than there are buckets */
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        maker m = {.number = i, .bad = i == 7};
        assert_int_equal(number_of(name, 1, &m), i);
    }
    for (int i = 0; i < 2000; i += 7) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        tk_guarded_cache_key key = key_of(name);
        tolk_error err = TOLK_ERROR_INIT;
        assert_int_equal(tk_guarded_cache_drop(c, &key, &err), i == 7 ? TOLK_E_IO : TOLK_OK);
        assert_int_equal(tk_guarded_cache_drop(c, &key, &err), TOLK_OK); /* it is not there */
    }
    check_conserved();
    assert_int_equal(tk_guarded_cache_length(c), 2000 - 286);
    for (int i = 0; i < 2000; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        maker m = {.number = -i};
        assert_int_equal(number_of(name, 1, &m), i % 7 ? i : -i);
    }
    check_conserved();
    stop();
}

static void test_counts(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1}, bad = {.number = 2, .fails = true};
    value *v;
    uint64_t hits, misses, b, d;
    number_of("k", 7, &m);
    number_of("k", 7, &m);
    number_of("k", 7, &m);
    assert_int_equal(get("l", 7, &bad, &v, NULL), TOLK_E_COMPILE);
    tk_guarded_cache_count(c, &hits, &misses, &b, &d);
    assert_int_equal(hits, 2);
    assert_int_equal(misses, 2);
    assert_int_equal(b, 1);
    assert_int_equal(d, 0);
    stop();
}

static void forget_in_fork(maker *m) {
    (void)m;
    tk_guarded_cache_forked(c);
}

static void test_build_goes_on_in_the_child_of_a_fork(void **state) {
    (void)state;
    start(true);
    maker m = {.number = 1, .within = forget_in_fork};
    assert_int_equal(number_of("k", 7, &m), 1);
    assert_int_equal(tk_guarded_cache_length(c), 1);
    stop();
}

static tolk_status in_memory(const tolk_allocator *al, void *user) {
    (void)user;
    built = destroyed = freed = 0;
    TK_TRY(tk_guarded_cache_create(al, &ops, true, &c, NULL));
    maker m = {.number = 1}, n = {.number = 2};
    value *v;
    tolk_status st = get("a", 1, &m, &v, NULL);
    if (st == TOLK_OK) {
        drop(v);
        st = get("b", 2, &n, &v, NULL);
    }
    if (st == TOLK_OK)
        drop(v);
    check_conserved();
    assert_int_equal(tk_guarded_cache_evict_device(c, 1, NULL), TOLK_OK); /* takes no memory */
    stop();
    return st;
}

static void test_out_of_memory(void **state) {
    (void)state;
    assert_int_equal(tk_test_oom(in_memory, NULL), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_S01_key_is_of_all_its_parts),
        cmocka_unit_test(test_S01_no_part_looks_like_the_end_of_another),
        cmocka_unit_test(test_S02_order_of_options_does_not_count),
        cmocka_unit_test(test_S03_lookups_of_many_threads_agree),
        cmocka_unit_test(test_S04_clear_during_lookups),
        cmocka_unit_test(test_S05_evict_during_lookups),
        cmocka_unit_test(test_S06_evict_during_a_build),
        cmocka_unit_test(test_S06_evict_of_another_device_leaves_a_build_alone),
        cmocka_unit_test(test_S07_clear_during_a_build_that_borrows),
        cmocka_unit_test(test_S08_clear_during_a_build_that_owns),
        cmocka_unit_test(test_S09_all_are_destroyed_where_one_fails),
        cmocka_unit_test(test_S10_lost_race_with_a_failing_destroy),
        cmocka_unit_test(test_S10_a_fresh_entry_comes_before_a_stale_build),
        cmocka_unit_test(test_failed_build_is_not_remembered),
        cmocka_unit_test(test_build_may_use_the_cache),
        cmocka_unit_test(test_value_in_use_outlives_the_cache),
        cmocka_unit_test(test_drop_takes_out_one),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_build_goes_on_in_the_child_of_a_fork),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
