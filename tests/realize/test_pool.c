/* SPDX-License-Identifier: MIT
 *
 * Pools by number: replaced, freed, cleared, packed, and buffers in them. Ids are those of the
 * behaviour lists this project tests against.
 */
#include "fake.h"

static tolk_ctx *ctx;
static fake f;
static tolk_device *dev;
static tolk_error err;

static int setup(void **state) {
    (void)state;
    ctx = fake_ctx("2", NULL);
    fake_add(ctx, &f, "FAKE", 2, true, true);
    dev = fake_device(ctx, "FAKE");
    err = (tolk_error)TOLK_ERROR_INIT;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_ctx_destroy(ctx);
    ctx = NULL;
    assert_int_equal(f.live, 0);
    return 0;
}

static void alloc(uint64_t id, size_t bytes) {
    assert_int_equal(tolk_pool_alloc(dev, id, bytes, 1, TOLK_POOL_DEFAULT, &err), TOLK_OK);
}

static char *address(uint64_t id, size_t offset) {
    tolk_buffer *b;
    void *at;
    assert_int_equal(tolk_buffer_in_pool(dev, id, offset, TOLK_U8, 0, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_map(b, &at, &err), TOLK_OK);
    tolk_buffer_unref(b);
    return at;
}

static void test_O1_growing_a_pool_frees_the_old_one_once_and_first(void **state) {
    (void)state;
    alloc(0, 1000);
    assert_int_equal(f.calls[FAKE_RELEASE], 0);
    f.room = 2500; /* both at once would not fit */
    alloc(0, 2000);
    assert_int_equal(f.calls[FAKE_RELEASE], 1);
    assert_int_equal(f.calls[FAKE_ALLOC], 2);
    assert_int_equal(stats_of(dev).reclaims, 0);
    alloc(7, 100); /* a fresh one frees nothing */
    assert_int_equal(f.calls[FAKE_RELEASE], 1);
    assert_int_equal(tolk_device_used_memory(dev), 2100);
}

static void test_O1_an_id_that_cannot_be_replaced_is_free(void **state) {
    (void)state;
    alloc(0, 1000);
    f.room = 2000;
    assert_int_equal(tolk_pool_alloc(dev, 0, 3000, 1, TOLK_POOL_DEFAULT, &err), TOLK_E_NOMEM);
    assert_int_equal(f.live, 0);
    assert_int_equal(tolk_memset_zero(dev, 0, 0, 0, &err), TOLK_E_NOT_FOUND);
    alloc(0, 1500);
}

static void test_O2_offsets_and_a_freed_pool(void **state) {
    (void)state;
    alloc(5, 64);
    assert_ptr_equal(address(5, 8), address(5, 0) + 8);
    assert_int_equal((uintptr_t)address(5, 0) % 64, 0);
    assert_int_equal(tolk_pool_free(dev, 5, &err), TOLK_OK);
    assert_int_equal(f.live, 0);
    tolk_buffer *b;
    assert_int_equal(tolk_buffer_in_pool(dev, 5, 0, TOLK_U8, 1, &b, &err), TOLK_E_NOT_FOUND);
    assert_non_null(strstr(err.msg, "5"));
    assert_int_equal(tolk_memset_zero(dev, 5, 0, 1, &err), TOLK_E_NOT_FOUND);
    assert_int_equal(tolk_pool_free(dev, 5, &err), TOLK_OK); /* again, and one that never was */
    assert_int_equal(tolk_pool_free(dev, UINT64_MAX, &err), TOLK_OK);
}

static void test_ids_of_two_devices_are_unrelated(void **state) {
    (void)state;
    tolk_device *other = fake_device(ctx, "FAKE:1");
    alloc(1, 64);
    assert_int_equal(tolk_memset_zero(other, 1, 0, 1, &err), TOLK_E_NOT_FOUND);
    assert_int_equal(tolk_pool_alloc(other, 1, 128, 1, TOLK_POOL_STAGING, &err), TOLK_OK);
    assert_int_equal(tolk_pool_free(other, 1, &err), TOLK_OK);
    assert_int_equal(tolk_memset_zero(dev, 1, 0, 64, &err), TOLK_OK);
}

static void test_alignment_and_mode_are_checked(void **state) {
    (void)state;
    assert_int_equal(tolk_pool_alloc(dev, 0, 64, 0, TOLK_POOL_DEFAULT, &err), TOLK_E_ARG);
    assert_int_equal(tolk_pool_alloc(dev, 0, 64, 48, TOLK_POOL_DEFAULT, &err), TOLK_E_ARG);
    assert_non_null(strstr(err.msg, "48"));
    assert_int_equal(tolk_pool_alloc(dev, 0, 64, 1, (tolk_pool_mode)4, &err), TOLK_E_ARG);
    assert_int_equal(tolk_pool_alloc(NULL, 0, 64, 1, TOLK_POOL_DEFAULT, &err), TOLK_E_ARG);
    assert_int_equal(tolk_pool_alloc(dev, 0, 64, 8192, TOLK_POOL_CONSTANT, &err), TOLK_OK);
    assert_int_equal((uintptr_t)address(0, 0) % 8192, 0);
    assert_int_equal(tolk_pool_alloc(dev, 0, SIZE_MAX, 64, TOLK_POOL_DEVICE, &err), TOLK_E_NOMEM);
    tolk_device *cpu = fake_device(ctx, "CPU");
    assert_int_equal(tolk_pool_alloc(cpu, 0, SIZE_MAX - 32, 64, TOLK_POOL_DEVICE, &err),
                     TOLK_E_NOMEM);
}

static void test_size_0_is_a_pool(void **state) {
    (void)state;
    alloc(0, 0);
    assert_int_equal(tolk_memset_zero(dev, 0, 0, 0, &err), TOLK_OK);
    assert_int_equal(tolk_memset_zero(dev, 0, 0, 1, &err), TOLK_E_RANGE);
    tolk_buffer *b;
    assert_int_equal(tolk_buffer_in_pool(dev, 0, 0, TOLK_F64, 0, &b, &err), TOLK_OK);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_buffer_in_pool(dev, 0, 0, TOLK_F64, 1, &b, &err), TOLK_E_RANGE);
}

static void test_O5_two_buffers_in_a_pool_are_independent(void **state) {
    (void)state;
    size_t bytes[] = {400, 40}, align[] = {4, 64}, sizes[2], pools;
    tolk_pool_place place[2];
    assert_int_equal(tolk_pool_pack(bytes, align, 2, 1000, place, sizes, &pools, &err), TOLK_OK);
    assert_int_equal(pools, 1);
    alloc(2, sizes[0]);
    tolk_buffer *a, *b;
    assert_int_equal(tolk_buffer_in_pool(dev, 2, place[0].offset, TOLK_I32, 100, &a, &err),
                     TOLK_OK);
    assert_int_equal(tolk_buffer_in_pool(dev, 2, place[1].offset, TOLK_F64, 5, &b, &err), TOLK_OK);
    int32_t ones[100], back[100];
    double twos[5] = {2, 2, 2, 2, 2}, two[5];
    for (int i = 0; i < 100; i++)
        ones[i] = 1;
    assert_int_equal(tolk_buffer_copyin(a, 0, ones, sizeof ones, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(b, 0, twos, sizeof twos, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyout(a, 0, back, sizeof back, &err), TOLK_OK);
    assert_memory_equal(ones, back, sizeof ones);
    assert_int_equal(tolk_buffer_copyout(b, 0, two, sizeof two, &err), TOLK_OK);
    assert_memory_equal(twos, two, sizeof twos);
    /* They keep the memory when the number is given to another. */
    alloc(2, 64);
    assert_int_equal(tolk_buffer_copyout(a, 0, back, sizeof back, &err), TOLK_OK);
    assert_memory_equal(ones, back, sizeof ones);
    tolk_buffer_unref(a);
    assert_int_equal(f.calls[FAKE_RELEASE], 0);
    tolk_buffer_unref(b);
    assert_int_equal(f.calls[FAKE_RELEASE], 1);
}

static void test_a_buffer_in_a_pool_must_lie_in_it(void **state) {
    (void)state;
    alloc(1, 64);
    tolk_buffer *b;
    assert_int_equal(tolk_buffer_in_pool(dev, 1, 60, TOLK_F32, 1, &b, &err), TOLK_OK);
    tolk_buffer_info info;
    assert_int_equal(tolk_buffer_get_info(b, &info), TOLK_OK);
    assert_true(info.n == 1 && info.bytes == 4 && !info.base && info.is_allocated);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_buffer_in_pool(dev, 1, 64, TOLK_F32, 1, &b, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_in_pool(dev, 1, 68, TOLK_F32, 0, &b, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_in_pool(dev, 1, SIZE_MAX - 3, TOLK_F32, 1, &b, &err),
                     TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_in_pool(dev, 1, 2, TOLK_F32, 1, &b, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_in_pool(dev, 1, 0, TOLK_F32, SIZE_MAX, &b, &err), TOLK_E_LIMIT);
    assert_int_equal(tolk_buffer_in_pool(dev, 1, 0, TOLK_INDEX, 1, &b, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_buffer_in_pool(dev, 1, 0, TOLK_VOID, 1, &b, &err), TOLK_E_DTYPE);
}

static void test_O6_zeros_at_an_offset_and_nowhere_else(void **state) {
    (void)state;
    alloc(3, 100);
    char *at = address(3, 0);
    memset(at, 7, 100);
    assert_int_equal(tolk_memset_zero(dev, 3, 13, 50, &err), TOLK_OK);
    (void)address(3, 0); /* waits */
    for (int i = 0; i < 100; i++)
        assert_int_equal(at[i], i >= 13 && i < 63 ? 0 : 7);
    assert_int_equal(tolk_memset_zero(dev, 3, 100, 0, &err), TOLK_OK);
    assert_int_equal(tolk_memset_zero(dev, 3, 99, 2, &err), TOLK_E_RANGE);
    assert_non_null(strstr(err.msg, "100"));
    assert_int_equal(tolk_memset_zero(dev, 3, 101, 0, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_memset_zero(dev, 3, SIZE_MAX, 2, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_memset_zero(dev, 3, 2, SIZE_MAX, &err), TOLK_E_RANGE);
    assert_int_equal(at[99], 7);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_int_equal(f.calls[FAKE_ZERO], 1);
}

static void test_O6_zeros_are_written_in_the_order_of_the_queue(void **state) {
    (void)state;
    alloc(3, 64);
    char *at = address(3, 0);
    memset(at, 7, 64);
    gate g;
    gate_close(&g, dev);
    assert_int_equal(tolk_memset_zero(dev, 3, 0, 64, &err), TOLK_OK);
    assert_int_equal(tolk_pool_free(dev, 3, &err), TOLK_OK); /* the queued work keeps it */
    usleep(20000);
    assert_int_equal(at[0], 7);
    assert_int_equal(f.live, 64);
    gate_open(&g);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_int_equal(f.live, 0);
}

static void test_a_failing_memset_stops_the_queue(void **state) {
    (void)state;
    alloc(3, 1 << 20);
    f.fail[FAKE_ZERO] = 1;
    assert_int_equal(tolk_memset_zero(dev, 3, 0, 1 << 20, &err), TOLK_OK);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_E_IO);
    assert_int_equal(tolk_memset_zero(dev, 3, 0, 64, &err), TOLK_E_IO);
    assert_int_equal(tolk_device_recover(dev, &err), TOLK_OK);
    f.fail[FAKE_ZERO] = 2;
    assert_int_equal(tolk_memset_zero(dev, 3, 0, 64, &err), TOLK_E_IO); /* it ran at once */
    assert_int_equal(tolk_device_recover(dev, &err), TOLK_OK);
    assert_int_equal(tolk_memset_zero(dev, 3, 0, 64, &err), TOLK_OK);
}

static void test_O13_used_memory_of_pools(void **state) {
    (void)state;
    alloc(1, 1000);
    alloc(2, 500);
    tolk_device_rebase_peak(dev);
    assert_int_equal(tolk_pool_free(dev, 1, &err), TOLK_OK);
    tolk_memory_stats s = stats_of(dev);
    assert_true(s.live_bytes == 500 && s.peak_bytes == 1500 && s.cached_bytes == 0);
    tolk_device_rebase_peak(dev);
    assert_int_equal(stats_of(dev).peak_bytes, 500);
    alloc(2, 800); /* in place: the difference is added */
    s = stats_of(dev);
    assert_true(s.live_bytes == 800 && s.peak_bytes == 800);
}

/* ---- packing ---- */

typedef struct vector {
    size_t n, bytes[3], align[3], pools;
    tolk_pool_place place[3];
    size_t sizes[2];
} vector;

static void test_O3_vectors_of_packing(void **state) {
    (void)state;
    static const vector v[] = {
        {3, {100, 100, 50}, {1, 4, 8}, 1, {{0, 0}, {0, 100}, {0, 200}}, {250}},
        {2, {600, 600}, {1, 1}, 2, {{0, 0}, {1, 0}}, {600, 600}},
        {2, {1000, 1}, {1, 1}, 2, {{0, 0}, {1, 0}}, {1000, 1}},
        {2, {5, 8}, {1, 8}, 1, {{0, 0}, {0, 8}}, {16}},
        {0, {0}, {0}, 0, {{0, 0}}, {0}},
        {3, {0, 1000, 0}, {1, 1, 1}, 1, {{0, 0}, {0, 0}, {0, 1000}}, {1000}},
        {2, {999, 0}, {1, 512}, 2, {{0, 0}, {1, 0}}, {999, 0}},
        {2, {1, 1}, {1, (size_t)1 << 63}, 2, {{0, 0}, {1, 0}}, {1, 1}},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        tolk_pool_place place[3] = {{9, 9}, {9, 9}, {9, 9}};
        size_t sizes[3] = {9, 9, 9}, pools = 9;
        assert_int_equal(
            tolk_pool_pack(v[i].bytes, v[i].align, v[i].n, 1000, place, sizes, &pools, &err),
            TOLK_OK);
        assert_int_equal(pools, v[i].pools);
        for (size_t k = 0; k < v[i].n; k++) {
            assert_int_equal(place[k].pool, v[i].place[k].pool);
            assert_int_equal(place[k].offset, v[i].place[k].offset);
        }
        for (size_t k = 0; k < pools; k++)
            assert_int_equal(sizes[k], v[i].sizes[k]);
    }
    size_t big = 2000, one = 1, three = 3, none = 0, sizes, pools = 9;
    tolk_pool_place place = {9, 9};
    assert_int_equal(tolk_pool_pack(&big, &one, 1, 1000, &place, &sizes, &pools, &err),
                     TOLK_E_LIMIT);
    assert_non_null(strstr(err.msg, "2000"));
    assert_int_equal(tolk_pool_pack(&one, &three, 1, 1000, &place, &sizes, &pools, &err),
                     TOLK_E_ARG);
    assert_int_equal(tolk_pool_pack(&one, &none, 1, 1000, &place, &sizes, &pools, &err),
                     TOLK_E_ARG);
    assert_int_equal(tolk_pool_pack(NULL, &one, 1, 1000, &place, &sizes, &pools, &err), TOLK_E_ARG);
    assert_int_equal(tolk_pool_pack(&one, &one, 1, 1000, &place, &sizes, NULL, &err), TOLK_E_ARG);
    assert_int_equal(pools, 9);
    assert_int_equal(place.pool, 9);
    assert_int_equal(tolk_pool_pack(NULL, NULL, 0, 0, NULL, NULL, &pools, &err), TOLK_OK);
    assert_int_equal(pools, 0);
}

static void test_O3_random_packing(void **state) {
    (void)state;
    uint64_t rng = tk_test_seed();
    enum { N = 40 };
    for (uint64_t k = tk_test_count(20000); k-- > 0;) {
        size_t n = tk_test_rand(&rng) % N, cap = 500 + tk_test_rand(&rng) % 2000;
        size_t bytes[N], align[N], sizes[N], pools;
        tolk_pool_place p[N];
        for (size_t i = 0; i < n; i++) {
            bytes[i] = tk_test_rand(&rng) % 500;
            align[i] = (size_t)1 << tk_test_rand(&rng) % 10;
        }
        assert_int_equal(tolk_pool_pack(bytes, align, n, cap, p, sizes, &pools, &err), TOLK_OK);
        for (size_t i = 0; i < n; i++) {
            assert_true(p[i].offset % align[i] == 0 && p[i].offset + bytes[i] <= cap);
            assert_true(p[i].pool < pools && p[i].offset + bytes[i] <= sizes[p[i].pool]);
            if (!i) {
                assert_true(p[i].pool == 0 && p[i].offset == 0);
                continue;
            }
            size_t end = p[i - 1].offset + bytes[i - 1];
            size_t next = (end + align[i] - 1) / align[i] * align[i];
            if (p[i].pool == p[i - 1].pool)
                assert_int_equal(p[i].offset, next);
            else
                assert_true(p[i].pool == p[i - 1].pool + 1 && next + bytes[i] > cap);
        }
    }
}

/* ---- what fails and runs at once ---- */

static tolk_status use_pools(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_disk_cache = 1;
    o.allocator = al;
    o.log = fake_log;
    tolk_ctx *c;
    tolk_device *d = NULL;
    tolk_buffer *b = NULL;
    tolk_status st = tolk_ctx_create(&o, &c, NULL), end = TOLK_OK;
    if (st != TOLK_OK)
        return st;
    st = tolk_device_open(c, "CPU", &d, NULL);
    for (uint64_t i = 0; st == TOLK_OK && i < 20; i++)
        st = tolk_pool_alloc(d, i % 12 * 1000003, 256 << 10, 64, TOLK_POOL_DEFAULT, NULL);
    if (st == TOLK_OK)
        st = tolk_memset_zero(d, 0, 0, 256 << 10, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_in_pool(d, 0, 64, TOLK_F32, 4, &b, NULL);
    tolk_buffer_unref(b);
    if (d)
        end = tolk_device_await(d, NULL);
    tolk_ctx_destroy(c);
    return st != TOLK_OK ? st : end;
}

static void test_oom_of_pools(void **state) {
    (void)state;
    tk_test_oom(use_pools, NULL);
}

static void *churn(void *arg) {
    uint64_t rng = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < 1500; i++) {
        uint64_t id = tk_test_rand(&rng) % 4;
        tolk_buffer *b;
        tolk_status st;
        switch (tk_test_rand(&rng) % 4) {
        case 0:
            st = tolk_pool_alloc(dev, id, 64 + tk_test_rand(&rng) % 1000, 64, TOLK_POOL_DEFAULT,
                                 NULL);
            assert_int_equal(st, TOLK_OK);
            break;
        case 1:
            assert_int_equal(tolk_pool_free(dev, id, NULL), TOLK_OK);
            break;
        case 2:
            st = tolk_memset_zero(dev, id, 8, 48, NULL);
            assert_true(st == TOLK_OK || st == TOLK_E_NOT_FOUND);
            break;
        default:
            if (tolk_buffer_in_pool(dev, id, 16, TOLK_U8, 32, &b, NULL) == TOLK_OK) {
                uint8_t x[32] = {0};
                assert_int_equal(tolk_buffer_copyin(b, 0, x, 32, NULL), TOLK_OK);
                tolk_buffer_unref(b);
            }
        }
    }
    return NULL;
}

static void test_threads_replace_and_free(void **state) {
    (void)state;
    pthread_t t[4];
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    for (uint64_t id = 0; id < 4; id++)
        assert_int_equal(tolk_pool_free(dev, id, NULL), TOLK_OK);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_int_equal(tolk_device_used_memory(dev), 0);
    assert_int_equal(f.live, 0);
}

static void test_a_destroyed_device_has_no_pools(void **state) {
    (void)state;
    alloc(1, 64);
    tolk_buffer *b;
    assert_int_equal(tolk_buffer_in_pool(dev, 1, 0, TOLK_U8, 64, &b, &err), TOLK_OK);
    alloc(2, 640);
    assert_int_equal(tolk_device_destroy(dev, &err), TOLK_OK);
    assert_int_equal(f.live, 64);
    assert_int_equal(tolk_pool_alloc(dev, 1, 64, 1, TOLK_POOL_DEFAULT, &err),
                     TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_memset_zero(dev, 1, 0, 1, &err), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_pool_free(dev, 1, &err), TOLK_OK);
    uint8_t x = 0;
    assert_int_equal(tolk_buffer_copyin(b, 0, &x, 1, &err), TOLK_E_DEVICE_DESTROYED);
    tolk_buffer_unref(b);
    assert_int_equal(f.live, 0);
}

/* A view of a buffer in a pool: what counts is where its elements lie in the pool. */
static void test_a_view_lies_at_a_multiple_of_its_element(void **state) {
    (void)state;
    alloc(4, 100);
    tolk_buffer *b, *v = NULL;
    assert_int_equal(tolk_buffer_in_pool(dev, 4, 1, TOLK_U8, 64, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 4, &v, &err), TOLK_E_ARG);
    assert_string_equal(err.msg,
                        "tolk_buffer_view: offset 1 is no multiple of an element's 4 bytes");
    assert_int_equal(tolk_buffer_view(b, 4, TOLK_F32, 4, &v, &err), TOLK_E_ARG);
    assert_null(v);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_buffer_in_pool(dev, 4, 4, TOLK_U8, 64, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(b, 4, TOLK_F32, 4, &v, &err), TOLK_OK);
    tolk_buffer_unref(v);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_pool_free(dev, 4, NULL), TOLK_OK);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_O1_growing_a_pool_frees_the_old_one_once_and_first),
        T(test_O1_an_id_that_cannot_be_replaced_is_free),
        T(test_O2_offsets_and_a_freed_pool),
        T(test_ids_of_two_devices_are_unrelated),
        T(test_alignment_and_mode_are_checked),
        T(test_size_0_is_a_pool),
        T(test_O5_two_buffers_in_a_pool_are_independent),
        T(test_a_buffer_in_a_pool_must_lie_in_it),
        T(test_a_view_lies_at_a_multiple_of_its_element),
        T(test_O6_zeros_at_an_offset_and_nowhere_else),
        T(test_O6_zeros_are_written_in_the_order_of_the_queue),
        T(test_a_failing_memset_stops_the_queue),
        T(test_O13_used_memory_of_pools),
        T(test_O3_vectors_of_packing),
        T(test_O3_random_packing),
        T(test_oom_of_pools),
        T(test_threads_replace_and_free),
        T(test_a_destroyed_device_has_no_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
