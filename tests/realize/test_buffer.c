/* SPDX-License-Identifier: MIT
 *
 * Buffers and views: what they are, when they get memory, who keeps it and when it goes. Ids are
 * those of the behaviour lists this project tests against.
 */
#include "fake.h"

static tolk_ctx *ctx;
static fake f, far;
static tolk_device *dev, *away;
static tolk_error err;
static int released;

static int setup(void **state) {
    (void)state;
    ctx = fake_ctx("2", NULL);
    fake_add(ctx, &f, "FAKE", 2, true, true);
    fake_add(ctx, &far, "FAR", 1, false, true);
    dev = fake_device(ctx, "FAKE");
    away = fake_device(ctx, "FAR");
    err = (tolk_error)TOLK_ERROR_INIT;
    released = 0;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    if (ctx)
        tolk_ctx_destroy(ctx);
    ctx = NULL;
    assert_true(f.live == 0 && far.live == 0);
    return 0;
}

static void count_release(void *user) {
    (void)user;
    released++;
}

static tolk_buffer *floats(tolk_device *d, size_t n) {
    tolk_buffer *b;
    assert_int_equal(tolk_alloc_f32(d, n, &b, &err), TOLK_OK);
    return b;
}

static tolk_buffer_info info_of(const tolk_buffer *b) {
    tolk_buffer_info i;
    assert_int_equal(tolk_buffer_get_info(b, &i), TOLK_OK);
    return i;
}

static void *map(tolk_buffer *b) {
    void *at;
    assert_int_equal(tolk_buffer_map(b, &at, &err), TOLK_OK);
    return at;
}

static void test_typed_and_custom_elements(void **state) {
    (void)state;
    tolk_buffer *b[5];
    assert_int_equal(tolk_alloc_f32(dev, 3, &b[0], &err), TOLK_OK);
    assert_int_equal(tolk_alloc_f64(dev, 3, &b[1], &err), TOLK_OK);
    assert_int_equal(tolk_alloc_i32(dev, 3, &b[2], &err), TOLK_OK);
    assert_int_equal(tolk_alloc_i64(dev, 3, &b[3], &err), TOLK_OK);
    assert_int_equal(tolk_alloc_custom(dev, 3, 12, &b[4], &err), TOLK_OK);
    const tolk_dtype want[] = {TOLK_F32, TOLK_F64, TOLK_I32, TOLK_I64, TOLK_VOID};
    const size_t elem[] = {4, 8, 4, 8, 12};
    for (int i = 0; i < 5; i++) {
        tolk_buffer_info n = info_of(b[i]);
        assert_true(n.device == dev && n.dtype == want[i] && n.n == 3);
        assert_true(n.elem_bytes == elem[i] && n.bytes == 3 * elem[i]);
        assert_true(!n.offset && !n.base && !n.is_allocated && !n.is_freed);
        tolk_buffer_unref(b[i]);
    }
    assert_int_equal(f.calls[FAKE_ALLOC], 0);
}

static void test_what_is_no_buffer(void **state) {
    (void)state;
    tolk_buffer *b = NULL;
    tolk_buffer_opts o = TOLK_BUFFER_OPTS_INIT;
    assert_int_equal(tolk_buffer_create(NULL, TOLK_F32, 1, NULL, &b, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 1, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_create(dev, TOLK_VOID, 1, NULL, &b, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_buffer_create(dev, TOLK_INDEX, 1, NULL, &b, &err), TOLK_E_DTYPE);
    assert_non_null(strstr(err.msg, "index"));
    assert_int_equal(tolk_buffer_create(dev, tolk_dtype_vec(TOLK_F32, 4), 1, NULL, &b, &err),
                     TOLK_E_DTYPE);
    assert_int_equal(tolk_buffer_create(dev, 99, 1, NULL, &b, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_alloc_custom(dev, 1, 0, &b, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_alloc_f32(dev, SIZE_MAX / 2, &b, &err), TOLK_E_LIMIT);
    assert_int_equal(tolk_alloc_custom(dev, 2, SIZE_MAX / 2 + 1, &b, &err), TOLK_E_LIMIT);
    o.alignment = 24;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 1, &o, &b, &err), TOLK_E_ARG);
    o.alignment = 0;
    o.elem_bytes = 8;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 1, &o, &b, &err), TOLK_E_ARG);
    o.elem_bytes = 0;
    o.no_reuse = 2;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 1, &o, &b, &err), TOLK_E_ARG);
    o.no_reuse = 0;
    o.release = count_release;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 1, &o, &b, &err), TOLK_E_ARG);
    o.size = 3;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 1, &o, &b, &err), TOLK_E_ARG);
    assert_null(b);
    tolk_buffer_unref(NULL);
    assert_null(tolk_buffer_ref(NULL));
    assert_int_equal(tolk_buffer_free(NULL, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_get_info(NULL, NULL), TOLK_E_ARG);
    void *at;
    assert_int_equal(tolk_buffer_map(NULL, &at, &err), TOLK_E_ARG);
}

static void test_memory_comes_at_first_use(void **state) {
    (void)state;
    tolk_buffer_opts o = TOLK_BUFFER_OPTS_INIT;
    o.alignment = 4096;
    tolk_buffer *b, *v;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 100, &o, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(b, 40, TOLK_F32, 10, &v, &err), TOLK_OK);
    assert_int_equal(f.calls[FAKE_ALLOC], 0);
    assert_int_equal(tolk_device_used_memory(dev), 0);
    char *at = map(v);
    assert_int_equal(f.calls[FAKE_ALLOC], 1);
    assert_int_equal(tolk_device_used_memory(dev), 400);
    assert_true(info_of(b).is_allocated && info_of(v).is_allocated);
    assert_ptr_equal(map(b), at - 40);
    assert_int_equal((uintptr_t)map(b) % 4096, 0);
    tolk_buffer_unref(v);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_device_used_memory(dev), 0);
    o.alignment = 0;
    o.no_reuse = 1;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 100, &o, &b, &err), TOLK_OK);
    (void)map(b);
    tolk_buffer_unref(b);
    assert_int_equal(f.calls[FAKE_RELEASE], 1);
}

static void test_views_fold_to_the_base(void **state) {
    (void)state;
    tolk_buffer *b = floats(dev, 100), *v, *w, *z;
    assert_int_equal(tolk_buffer_view(b, 40, TOLK_F32, 50, &v, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(v, 8, TOLK_F64, 3, &w, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(w, 24, TOLK_U8, 0, &z, &err), TOLK_OK); /* its end */
    tolk_buffer_info i = info_of(w);
    assert_true(i.base == b && i.offset == 48 && i.bytes == 24 && i.dtype == TOLK_F64);
    i = info_of(z);
    assert_true(i.base == b && i.offset == 72 && i.n == 0);
    assert_ptr_equal(map(w), (char *)map(b) + 48);
    assert_ptr_equal(map(z), (char *)map(b) + 72);
    /* The handles go in any order. */
    tolk_buffer_unref(b);
    tolk_buffer_unref(v);
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    assert_int_equal(tolk_buffer_copyin(w, 0, x, 24, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyout(w, 0, y, 24, &err), TOLK_OK);
    assert_memory_equal(x, y, 24);
    tolk_buffer_unref(w);
    assert_int_equal(tolk_device_used_memory(dev), 400);
    tolk_buffer_unref(z);
    assert_int_equal(tolk_device_used_memory(dev), 0);
}

static void test_a_view_must_lie_in_its_buffer(void **state) {
    (void)state;
    tolk_buffer *b = floats(dev, 10), *v = NULL, *part;
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 11, &v, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_view(b, 40, TOLK_F32, 1, &v, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_view(b, 44, TOLK_F32, 0, &v, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_view(b, SIZE_MAX - 3, TOLK_F32, 1, &v, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_view(b, 4, TOLK_F32, SIZE_MAX, &v, &err), TOLK_E_LIMIT);
    assert_int_equal(tolk_buffer_view(b, 2, TOLK_F32, 1, &v, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_VOID, 1, &v, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_buffer_view(NULL, 0, TOLK_F32, 1, &v, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 1, NULL, &err), TOLK_E_ARG);
    assert_null(v);
    /* A part is the limit, not the whole; and an element stands at a multiple of its bytes. */
    assert_int_equal(tolk_buffer_view(b, 1, TOLK_U8, 20, &part, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(part, 0, TOLK_U8, 21, &v, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_view(part, 20, TOLK_U8, 1, &v, &err), TOLK_E_RANGE);
    assert_int_equal(tolk_buffer_view(part, 0, TOLK_F32, 1, &v, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_free(part, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_OK); /* no view was left behind */
    tolk_buffer_unref(part);
    tolk_buffer_unref(b);
}

static void test_views_of_custom_elements(void **state) {
    (void)state;
    tolk_buffer *b, *v;
    assert_int_equal(tolk_alloc_custom(dev, 10, 12, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(b, 24, TOLK_VOID, 8, &v, &err), TOLK_OK);
    assert_true(info_of(v).elem_bytes == 12 && info_of(v).bytes == 96);
    tolk_buffer_unref(v);
    assert_int_equal(tolk_buffer_view(b, 16, TOLK_VOID, 1, &v, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_view(b, 24, TOLK_VOID, 9, &v, &err), TOLK_E_RANGE);
    tolk_buffer_unref(b);
}

static void test_size_0(void **state) {
    (void)state;
    tolk_buffer *b = floats(dev, 0), *v;
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F64, 0, &v, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(b, 0, NULL, 0, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyout(v, 0, NULL, 0, &err), TOLK_OK);
    assert_non_null(map(b));
    assert_int_equal(tolk_device_used_memory(dev), 0);
    assert_int_equal(stats_of(dev).allocs, 1);
    tolk_buffer_unref(v);
    tolk_buffer_unref(b);
    assert_int_equal(stats_of(dev).frees, 1);
}

/* ---- freeing ---- */

static void test_free_is_idempotent_and_uses_after_it_are_refused(void **state) {
    (void)state;
    tolk_buffer *b = floats(dev, 10), *v, *other = floats(dev, 10);
    float x[10] = {0};
    void *at;
    (void)map(b);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_OK);
    assert_int_equal(tolk_device_used_memory(dev), 0);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_OK);
    tolk_memory_stats s = stats_of(dev);
    assert_true(s.double_frees == 2 && s.frees == 1);
    assert_true(info_of(b).is_freed && !info_of(b).is_allocated);
    assert_int_equal(tolk_buffer_copyin(b, 0, x, 4, &err), TOLK_E_FREED);
    assert_int_equal(tolk_buffer_copyin(b, 0, x, 0, &err), TOLK_E_FREED);
    assert_int_equal(tolk_buffer_copyout(b, 0, x, 4, &err), TOLK_E_FREED);
    assert_int_equal(tolk_buffer_copy(b, other, &err), TOLK_E_FREED);
    assert_int_equal(tolk_buffer_copy(other, b, &err), TOLK_E_FREED);
    assert_int_equal(tolk_buffer_map(b, &at, &err), TOLK_E_FREED);
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 1, &v, &err), TOLK_E_FREED);
    tk_piece p;
    assert_int_equal(tk_buffer_piece(b, "kernel k: argument 1", &p, &err), TOLK_E_FREED);
    assert_non_null(strstr(err.msg, "kernel k: argument 1"));
    tolk_buffer_unref(b);
    tolk_buffer_unref(other);
}

static void test_a_base_with_views_is_busy(void **state) {
    (void)state;
    tolk_buffer *b = floats(dev, 10), *v, *w;
    (void)map(b);
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 5, &v, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(v, 0, TOLK_F32, 5, &w, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_E_BUSY);
    assert_non_null(strstr(err.msg, "2 views"));
    assert_true(info_of(b).is_allocated);
    assert_int_equal(tolk_buffer_free(v, &err), TOLK_OK); /* w is a view of b */
    assert_int_equal(tolk_buffer_free(v, &err), TOLK_OK);
    assert_int_equal(stats_of(dev).double_frees, 1);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_E_BUSY);
    assert_non_null(strstr(err.msg, "1 view "));
    tolk_buffer_unref(v);
    tolk_buffer_unref(w);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_OK);
    assert_int_equal(tolk_device_used_memory(dev), 0);
    tolk_buffer_unref(b);
}

static void test_queued_work_keeps_what_is_freed(void **state) {
    (void)state;
    tolk_buffer *a = floats(dev, 10), *b = floats(dev, 10);
    float x[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, y[10];
    assert_int_equal(tolk_buffer_copyin(a, 0, x, sizeof x, &err), TOLK_OK);
    (void)map(b);
    gate g;
    gate_close(&g, dev);
    assert_int_equal(tolk_buffer_copy(b, a, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_free(a, &err), TOLK_OK);
    tolk_buffer_unref(a);
    assert_int_equal(tolk_device_used_memory(dev), 80);
    tolk_buffer *c = floats(dev, 10); /* may not get that memory */
    tk_piece p;
    assert_int_equal(tk_buffer_piece(c, "c", &p, &err), TOLK_OK);
    memset(p.at, 0, 40);
    tk_piece_drop(&p);
    gate_open(&g);
    assert_int_equal(tolk_buffer_copyout(b, 0, y, sizeof y, &err), TOLK_OK);
    assert_memory_equal(x, y, sizeof x);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_int_equal(tolk_device_used_memory(dev), 80);
    tolk_buffer_unref(b);
    tolk_buffer_unref(c);
}

static void test_O13_used_memory_of_buffers(void **state) {
    (void)state;
    tolk_buffer *a = floats(dev, 100), *b = floats(dev, 50);
    (void)map(a);
    (void)map(b);
    assert_int_equal(tolk_device_used_memory(dev), 600);
    tolk_buffer_unref(a);
    tolk_memory_stats s = stats_of(dev);
    assert_true(s.live_bytes == 200 && s.peak_bytes == 600 && s.cached_bytes == 400);
    tolk_device_rebase_peak(dev);
    assert_int_equal(stats_of(dev).peak_bytes, 200);
    tolk_device_trim(dev);
    assert_int_equal(f.live, 200);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_device_used_memory(NULL), 0);
    tolk_device_rebase_peak(NULL);
    tolk_device_trim(NULL);
}

/* ---- memory of the caller ---- */

static void test_external_memory_is_used_and_released_once(void **state) {
    (void)state;
    static float host[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    tolk_buffer_opts o = TOLK_BUFFER_OPTS_INIT;
    o.external = host;
    o.release = count_release;
    tolk_buffer *b, *v;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 8, &o, &b, &err), TOLK_OK);
    assert_ptr_equal(map(b), host);
    assert_true(info_of(b).is_allocated);
    assert_int_equal(tolk_device_used_memory(dev), 0);
    assert_int_equal(tolk_buffer_view(b, 16, TOLK_F32, 4, &v, &err), TOLK_OK);
    float y[4];
    assert_int_equal(tolk_buffer_copyout(v, 0, y, 16, &err), TOLK_OK);
    assert_memory_equal(y, host + 4, 16);
    tolk_buffer_unref(b);
    assert_int_equal(released, 0);
    tolk_buffer_unref(v);
    assert_int_equal(released, 1);
    assert_int_equal(f.calls[FAKE_ALLOC], 0);
    /* Freed: at once, or when queued work is done with it; and never again. */
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 8, &o, &b, &err), TOLK_OK);
    gate g;
    gate_close(&g, dev);
    tolk_buffer *to = floats(dev, 8);
    assert_int_equal(tolk_buffer_copy(to, b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_OK);
    tolk_buffer_unref(b);
    assert_int_equal(released, 1);
    gate_open(&g);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_int_equal(released, 2);
    tolk_buffer_unref(to);
    /* What is refused is not released. */
    assert_int_equal(tolk_buffer_create(dev, TOLK_INDEX, 8, &o, &b, &err), TOLK_E_DTYPE);
    assert_int_equal(tolk_buffer_create(away, TOLK_F32, 8, &o, &b, &err), TOLK_E_UNSUPPORTED);
    o.alignment = 4096;
    o.external = (char *)host + 4;
    assert_int_equal(tolk_buffer_create(dev, TOLK_F32, 1, &o, &b, &err), TOLK_E_ARG);
    assert_int_equal(released, 2);
}

static void test_memory_that_the_host_cannot_see_is_not_mapped(void **state) {
    (void)state;
    tolk_buffer *b = floats(away, 4);
    void *at = NULL;
    float x[4] = {1, 2, 3, 4}, y[4];
    assert_int_equal(tolk_buffer_map(b, &at, &err), TOLK_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "FAR"));
    assert_null(at);
    assert_int_equal(tolk_buffer_copyin(b, 0, x, 16, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyout(b, 0, y, 16, &err), TOLK_OK);
    assert_memory_equal(x, y, 16);
    tolk_buffer_unref(b);
    tolk_device_trim(away);
}

static void test_map_waits_for_what_uses_the_bytes(void **state) {
    (void)state;
    tolk_buffer *a = floats(dev, 8), *b = floats(dev, 8), *c = floats(dev, 8), *half;
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(tolk_buffer_copyin(a, 0, x, 32, &err), TOLK_OK);
    (void)map(c);
    gate g;
    gate_close(&g, dev);
    assert_int_equal(tolk_buffer_copy(b, a, &err), TOLK_OK);
    (void)map(c); /* nobody uses it */
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 4, &half, &err), TOLK_OK);
    struct timespec ts = {0, 20000000};
    nanosleep(&ts, NULL);
    gate_open(&g);
    assert_memory_equal(map(half), x, 16);
    tolk_buffer_unref(half);
    tolk_buffer_unref(a);
    tolk_buffer_unref(b);
    tolk_buffer_unref(c);
}

/* ---- threads ---- */

static tolk_buffer *shared;
static void *at_first[8];

static void *first_use(void *arg) {
    size_t i = (size_t)arg;
    tolk_buffer *v;
    assert_int_equal(tolk_buffer_view(shared, i * 4, TOLK_F32, 1, &v, NULL), TOLK_OK);
    void *at;
    assert_int_equal(tolk_buffer_map(v, &at, NULL), TOLK_OK);
    at_first[i] = (char *)at - i * 4;
    tolk_buffer_unref(v);
    tolk_buffer_unref(shared);
    return NULL;
}

static void test_first_use_by_many_threads_is_one_allocation(void **state) {
    (void)state;
    for (int round = 0; round < 50; round++) {
        tolk_device_trim(dev);
        tolk_device_rebase_peak(dev);
        int before = f.calls[FAKE_ALLOC];
        shared = floats(dev, 1000);
        pthread_t t[8];
        for (size_t i = 0; i < 8; i++) {
            (void)tolk_buffer_ref(shared);
            assert_int_equal(pthread_create(&t[i], NULL, first_use, (void *)i), 0);
        }
        tolk_buffer_unref(shared);
        for (int i = 0; i < 8; i++)
            pthread_join(t[i], NULL);
        for (int i = 1; i < 8; i++)
            assert_ptr_equal(at_first[i], at_first[0]);
        assert_int_equal(f.calls[FAKE_ALLOC], before + 1);
        tolk_memory_stats s = stats_of(dev);
        assert_true(s.live_bytes == 0 && s.peak_bytes == 4000);
    }
}

static void *free_it(void *arg) {
    assert_int_equal(tolk_buffer_free(arg, NULL), TOLK_OK);
    tolk_buffer_unref(arg);
    return NULL;
}

static void test_free_by_many_threads_frees_once(void **state) {
    (void)state;
    tolk_buffer_opts o = TOLK_BUFFER_OPTS_INIT;
    char host[4];
    o.external = host;
    o.release = count_release;
    tolk_buffer *b;
    assert_int_equal(tolk_buffer_create(dev, TOLK_U8, 4, &o, &b, &err), TOLK_OK);
    pthread_t t[6];
    for (int i = 0; i < 6; i++) {
        (void)tolk_buffer_ref(b);
        assert_int_equal(pthread_create(&t[i], NULL, free_it, b), 0);
    }
    for (int i = 0; i < 6; i++)
        pthread_join(t[i], NULL);
    tolk_buffer_unref(b);
    assert_int_equal(released, 1);
    assert_int_equal(stats_of(dev).double_frees, 5);
}

/* ---- what fails ---- */

static tolk_status use_buffers(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_disk_cache = 1;
    o.allocator = al;
    o.log = fake_log;
    static float host[64], back[64];
    tolk_ctx *c;
    tolk_device *d;
    tolk_buffer *b = NULL, *v = NULL, *e = NULL, *big = NULL, *big2 = NULL;
    tolk_status st = tolk_ctx_create(&o, &c, NULL);
    if (st != TOLK_OK)
        return st;
    tolk_buffer_opts x = TOLK_BUFFER_OPTS_INIT;
    x.external = host;
    int before = released;
    x.release = count_release;
    st = tolk_device_open(c, "CPU", &d, NULL);
    if (st == TOLK_OK)
        st = tolk_alloc_f32(d, 64, &b, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_view(b, 16, TOLK_F32, 60, &v, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_create(d, TOLK_F32, 64, &x, &e, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_copy(b, e, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_copyout(v, 0, back, 240, NULL);
    if (st == TOLK_OK)
        st = tolk_alloc_f32(d, 100000, &big, NULL);
    if (st == TOLK_OK)
        st = tolk_alloc_f32(d, 100000, &big2, NULL);
    void *at;
    if (st == TOLK_OK)
        st = tolk_buffer_map(big, &at, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_copy(big2, big, NULL); /* queued */
    if (st == TOLK_OK)
        st = tolk_buffer_copyout(big2, 0, back, 240, NULL);
    bool had = e != NULL;
    tolk_buffer_unref(b);
    tolk_buffer_unref(v);
    tolk_buffer_unref(e);
    tolk_buffer_unref(big);
    tolk_buffer_unref(big2);
    tolk_ctx_destroy(c);
    assert_int_equal(released, before + had);
    return st;
}

static void test_oom_of_buffers(void **state) {
    (void)state;
    tk_test_oom(use_buffers, NULL);
}

static void test_first_use_without_memory(void **state) {
    (void)state;
    f.room = 100;
    tolk_buffer *b = floats(dev, 26);
    void *at;
    assert_int_equal(tolk_buffer_map(b, &at, &err), TOLK_E_NOMEM);
    assert_non_null(strstr(err.msg, "104"));
    assert_false(info_of(b).is_allocated);
    f.room = 0;
    (void)map(b); /* another time there is some */
    tolk_buffer_unref(b);
}

static void test_handles_of_a_destroyed_device_are_given_back(void **state) {
    (void)state;
    tolk_buffer *b = floats(dev, 10), *v, *n;
    (void)map(b);
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 5, &v, &err), TOLK_OK);
    assert_int_equal(tolk_device_destroy(dev, &err), TOLK_OK);
    assert_int_equal(f.live, 40);
    void *at;
    assert_int_equal(tolk_buffer_map(b, &at, &err), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 1, &n, &err), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_alloc_f32(dev, 1, &n, &err), TOLK_E_DEVICE_DESTROYED);
    assert_int_equal(tolk_buffer_free(v, &err), TOLK_OK);
    tolk_buffer_unref(v);
    tolk_buffer_unref(b);
    assert_int_equal(f.live, 0); /* nothing is kept any more */
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_typed_and_custom_elements),
        T(test_what_is_no_buffer),
        T(test_memory_comes_at_first_use),
        T(test_views_fold_to_the_base),
        T(test_a_view_must_lie_in_its_buffer),
        T(test_views_of_custom_elements),
        T(test_size_0),
        T(test_free_is_idempotent_and_uses_after_it_are_refused),
        T(test_a_base_with_views_is_busy),
        T(test_queued_work_keeps_what_is_freed),
        T(test_O13_used_memory_of_buffers),
        T(test_external_memory_is_used_and_released_once),
        T(test_memory_that_the_host_cannot_see_is_not_mapped),
        T(test_map_waits_for_what_uses_the_bytes),
        T(test_first_use_by_many_threads_is_one_allocation),
        T(test_free_by_many_threads_frees_once),
        T(test_oom_of_buffers),
        T(test_first_use_without_memory),
        T(test_handles_of_a_destroyed_device_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
