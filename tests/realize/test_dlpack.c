/* SPDX-License-Identifier: MIT
 *
 * Tensors of DLPack, out and in.
 */
#include "fake.h"

#include <dlpack/dlpack.h>

typedef struct DLManagedTensorVersioned managed;

static tolk_ctx *ctx;
static fake f, far;
static tolk_device *dev;
static tolk_error err;

static int setup(void **state) {
    (void)state;
    ctx = fake_ctx("2", NULL);
    fake_add(ctx, &f, "FAKE", 1, true, true);
    fake_add(ctx, &far, "FAR", 1, false, true);
    dev = fake_device(ctx, "FAKE");
    err = (tolk_error)TOLK_ERROR_INIT;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tolk_ctx_destroy(ctx);
    ctx = NULL;
    assert_true(f.live == 0 && far.live == 0);
    return 0;
}

/* The layout of version 1 on 64-bit systems, from its specification. */
static void test_the_layout_is_that_of_version_1(void **state) {
    (void)state;
    assert_int_equal(offsetof(managed, version.major), 0);
    assert_int_equal(offsetof(managed, version.minor), 4);
    assert_int_equal(offsetof(managed, manager_ctx), 8);
    assert_int_equal(offsetof(managed, deleter), 16);
    assert_int_equal(offsetof(managed, flags), 24);
    assert_int_equal(offsetof(managed, dl_tensor), 32);
    assert_int_equal(offsetof(managed, dl_tensor.data), 32);
    assert_int_equal(offsetof(managed, dl_tensor.device.device_type), 40);
    assert_int_equal(offsetof(managed, dl_tensor.device.device_id), 44);
    assert_int_equal(offsetof(managed, dl_tensor.ndim), 48);
    assert_int_equal(offsetof(managed, dl_tensor.dtype), 52);
    assert_int_equal(offsetof(managed, dl_tensor.dtype.bits), 53);
    assert_int_equal(offsetof(managed, dl_tensor.dtype.lanes), 54);
    assert_int_equal(offsetof(managed, dl_tensor.shape), 56);
    assert_int_equal(offsetof(managed, dl_tensor.strides), 64);
    assert_int_equal(offsetof(managed, dl_tensor.byte_offset), 72);
    assert_int_equal(sizeof(managed), 80);
}

/* dtype, type code, bits: numbers of the specification. */
static const struct {
    tolk_dtype dtype;
    uint8_t code, bits;
} types[] = {{TOLK_BOOL, 6, 8},     {TOLK_I8, 0, 8},       {TOLK_I16, 0, 16},  {TOLK_I32, 0, 32},
             {TOLK_I64, 0, 64},     {TOLK_U8, 1, 8},       {TOLK_U16, 1, 16},  {TOLK_U32, 1, 32},
             {TOLK_U64, 1, 64},     {TOLK_FP8E4M3, 10, 8}, {TOLK_BF16, 4, 16}, {TOLK_F16, 2, 16},
             {TOLK_FP8E5M2, 12, 8}, {TOLK_F32, 2, 32},     {TOLK_F64, 2, 64}};
enum { N_TYPES = sizeof types / sizeof *types };

static void test_out_of_every_dtype(void **state) {
    (void)state;
    for (size_t i = 0; i < N_TYPES; i++) {
        tolk_buffer *b;
        managed *t;
        uint8_t bytes[48], k = 0;
        assert_int_equal(tolk_buffer_create(dev, types[i].dtype, 6, NULL, &b, &err), TOLK_OK);
        size_t n = 6 * types[i].bits / 8;
        for (; k < n; k++)
            bytes[k] = (uint8_t)(k & 1);
        assert_int_equal(tolk_buffer_copyin(b, 0, bytes, n, &err), TOLK_OK);
        assert_int_equal(tolk_buffer_to_dlpack(b, NULL, 0, &t, &err), TOLK_OK);
        assert_true(t->version.major == 1 && t->flags == 0 && t->dl_tensor.ndim == 1);
        assert_true(t->dl_tensor.device.device_type == 1 && t->dl_tensor.device.device_id == 0);
        assert_true(t->dl_tensor.dtype.code == types[i].code &&
                    t->dl_tensor.dtype.bits == types[i].bits);
        assert_true(t->dl_tensor.dtype.lanes == 1 && t->dl_tensor.byte_offset == 0);
        assert_true(t->dl_tensor.shape[0] == 6 && t->dl_tensor.strides[0] == 1);
        assert_memory_equal(t->dl_tensor.data, bytes, n);
        tolk_buffer_unref(b);
        t->deleter(t);
    }
}

static void test_out_with_a_shape(void **state) {
    (void)state;
    tolk_buffer *b, *v;
    managed *t = NULL;
    assert_int_equal(tolk_alloc_f32(dev, 25, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_view(b, 4, TOLK_F32, 24, &v, &err), TOLK_OK);
    const int64_t shape[] = {2, 3, 4}, bad[] = {2, 3, 5}, negative[] = {-2, -12},
                  wraps[] = {(int64_t)1 << 33, ((int64_t)1 << 33) + 1}, none[] = {0, 24};
    assert_int_equal(tolk_buffer_to_dlpack(v, shape, 3, &t, &err), TOLK_OK);
    assert_true(t->dl_tensor.ndim == 3);
    for (int i = 0; i < 3; i++) {
        assert_true(t->dl_tensor.shape[i] == shape[i]);
        assert_true(t->dl_tensor.strides[i] == (i == 0 ? 12 : i == 1 ? 4 : 1));
    }
    void *at;
    assert_int_equal(tolk_buffer_map(v, &at, &err), TOLK_OK);
    assert_ptr_equal(t->dl_tensor.data, at);
    t->deleter(t);
    t = NULL;
    assert_int_equal(tolk_buffer_to_dlpack(v, bad, 3, &t, &err), TOLK_E_SHAPE);
    assert_int_equal(tolk_buffer_to_dlpack(v, negative, 2, &t, &err), TOLK_E_SHAPE);
    assert_int_equal(tolk_buffer_to_dlpack(v, wraps, 2, &t, &err), TOLK_E_SHAPE);
    assert_int_equal(tolk_buffer_to_dlpack(v, none, 2, &t, &err), TOLK_E_SHAPE);
    assert_int_equal(tolk_buffer_to_dlpack(v, NULL, 2, &t, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_to_dlpack(v, shape, SIZE_MAX, &t, &err), TOLK_E_SHAPE);
    assert_int_equal(tolk_buffer_to_dlpack(NULL, shape, 3, &t, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_to_dlpack(v, shape, 3, NULL, &err), TOLK_E_ARG);
    assert_null(t);
    tolk_buffer_unref(v);
    assert_int_equal(tolk_buffer_view(b, 4, TOLK_F32, 1, &v, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_to_dlpack(v, shape, 0, &t, &err), TOLK_OK); /* a scalar */
    assert_int_equal(t->dl_tensor.ndim, 0);
    t->deleter(t);
    tolk_buffer_unref(v);
    tolk_buffer_unref(b);
}

static void test_out_of_nothing(void **state) {
    (void)state;
    tolk_buffer *b;
    managed *t;
    const int64_t shape[] = {(int64_t)1 << 62, 0, (int64_t)1 << 62, (int64_t)1 << 62};
    assert_int_equal(tolk_alloc_f32(dev, 0, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_to_dlpack(b, shape, 4, &t, &err), TOLK_OK);
    assert_null(t->dl_tensor.data);
    assert_true(t->dl_tensor.shape[1] == 0);
    tolk_buffer_unref(b);
    tolk_buffer *c;
    assert_int_equal(tolk_buffer_from_dlpack(dev, t, &c, &err), TOLK_OK);
    tolk_buffer_info i;
    assert_int_equal(tolk_buffer_get_info(c, &i), TOLK_OK);
    assert_true(i.n == 0 && i.dtype == TOLK_F32);
    tolk_buffer_unref(c);
}

static void test_what_cannot_go_out(void **state) {
    (void)state;
    tolk_buffer *b;
    managed *t = NULL;
    assert_int_equal(tolk_alloc_custom(dev, 4, 4, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_to_dlpack(b, NULL, 0, &t, &err), TOLK_E_DTYPE);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_alloc_f32(fake_device(ctx, "FAR"), 4, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_to_dlpack(b, NULL, 0, &t, &err), TOLK_E_UNSUPPORTED);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_alloc_f32(dev, 4, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_free(b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_to_dlpack(b, NULL, 0, &t, &err), TOLK_E_FREED);
    assert_null(t);
    tolk_buffer_unref(b);
}

static void *delete_it(void *arg) {
    managed *t = arg;
    t->deleter(t);
    return NULL;
}

static void test_the_tensor_keeps_the_memory_on_any_thread(void **state) {
    (void)state;
    tolk_buffer *b, *c;
    managed *t;
    float x[4] = {1, 2, 3, 4};
    assert_int_equal(tolk_alloc_f32(dev, 4, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(b, 0, x, 16, &err), TOLK_OK);
    assert_int_equal(tolk_alloc_f32(dev, 4, &c, &err), TOLK_OK);
    gate g;
    gate_close(&g, dev);
    gate_open(&g);
    float zeros[4] = {0};
    assert_int_equal(tolk_buffer_copyin(c, 0, zeros, 16, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copy(c, b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_to_dlpack(c, NULL, 0, &t, &err), TOLK_OK); /* waits */
    assert_memory_equal(t->dl_tensor.data, x, 16);
    assert_int_equal(tolk_buffer_free(c, &err), TOLK_OK);
    tolk_buffer_unref(c);
    tolk_buffer_unref(b);
    assert_int_equal(tolk_device_used_memory(dev), 16);
    assert_memory_equal(t->dl_tensor.data, x, 16);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, delete_it, t), 0);
    pthread_join(thread, NULL);
    assert_int_equal(tolk_device_used_memory(dev), 0);
}

/* ---- in ---- */

static _Atomic int deleted;
static void count_delete(managed *self) {
    (void)self;
    deleted++;
}

/* 2 x 3 f32 elements from byte 4 of host memory on. */
typedef struct tensor {
    managed m;
    int64_t shape[3], strides[3];
    float data[8];
} tensor;

static tensor *make(tensor *t) {
    *t = (tensor){.shape = {2, 3}, .strides = {3, 1}, .data = {0, 1, 2, 3, 4, 5, 6, 7}};
    t->m = (managed){.version = {1, 3},
                     .deleter = count_delete,
                     .dl_tensor = {.data = t->data,
                                   .device = {kDLCPU, 0},
                                   .ndim = 2,
                                   .dtype = {2, 32, 1},
                                   .shape = t->shape,
                                   .strides = t->strides,
                                   .byte_offset = 4}};
    deleted = 0;
    return t;
}

static void test_in_without_a_copy(void **state) {
    (void)state;
    tensor t;
    for (int strides = 0; strides < 2; strides++) {
        make(&t);
        if (!strides)
            t.m.dl_tensor.strides = NULL;
        tolk_buffer *b, *v;
        assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_OK);
        tolk_buffer_info i;
        assert_int_equal(tolk_buffer_get_info(b, &i), TOLK_OK);
        assert_true(i.dtype == TOLK_F32 && i.n == 6 && i.is_allocated);
        void *at;
        assert_int_equal(tolk_buffer_map(b, &at, &err), TOLK_OK);
        assert_ptr_equal(at, t.data + 1);
        float x = 9;
        assert_int_equal(tolk_buffer_copyin(b, 20, &x, 4, &err), TOLK_OK);
        assert_true(t.data[6] == 9);
        assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, 2, &v, &err), TOLK_OK);
        tolk_buffer_unref(b);
        assert_int_equal(deleted, 0);
        tolk_buffer_unref(v);
        assert_int_equal(deleted, 1);
        assert_int_equal(stats_of(dev).allocs, 0);
    }
}

static void test_in_of_every_dtype(void **state) {
    (void)state;
    tensor t;
    int known = 0;
    for (unsigned code = 0; code < 32; code++)
        for (unsigned bits = 0; bits < 256; bits++) {
            make(&t);
            t.m.dl_tensor.dtype.code = (uint8_t)code;
            t.m.dl_tensor.dtype.bits = (uint8_t)bits;
            t.m.dl_tensor.ndim = 0;
            size_t i = 0;
            while (i < N_TYPES && (types[i].code != code || types[i].bits != bits))
                i++;
            tolk_buffer *b = NULL;
            tolk_status st = tolk_buffer_from_dlpack(dev, &t.m, &b, &err);
            if (i == N_TYPES) {
                assert_int_equal(st, TOLK_E_UNSUPPORTED);
                assert_int_equal(deleted, 0);
                continue;
            }
            assert_int_equal(st, TOLK_OK);
            tolk_buffer_info info;
            assert_int_equal(tolk_buffer_get_info(b, &info), TOLK_OK);
            assert_true(info.dtype == types[i].dtype && info.n == 1);
            tolk_buffer_unref(b);
            assert_int_equal(deleted, 1);
            known++;
        }
    assert_int_equal(known, N_TYPES);
}

static void test_strides_that_do_not_matter(void **state) {
    (void)state;
    static const struct {
        int64_t shape[3], strides[3];
        tolk_status want;
        size_t n;
    } rows[] = {
        {{1, 2, 3}, {77, 3, 1}, TOLK_OK, 6},
        {{2, 1, 3}, {3, -5, 1}, TOLK_OK, 6},
        {{2, 3, 1}, {3, 1, 0}, TOLK_OK, 6},
        {{1, 1, 1}, {5, 6, 7}, TOLK_OK, 1},
        {{2, 0, 3}, {9, 9, 9}, TOLK_OK, 0},
        {{3, 2, 1}, {1, 3, 1}, TOLK_E_UNSUPPORTED, 0},
        {{1, 2, 3}, {6, 1, 2}, TOLK_E_UNSUPPORTED, 0},
        {{1, 2, 2}, {8, 4, 2}, TOLK_E_UNSUPPORTED, 0},
        {{1, 1, 3}, {1, 1, -1}, TOLK_E_UNSUPPORTED, 0},
        {{1, 1, 3}, {1, 1, 0}, TOLK_E_UNSUPPORTED, 0},
        {{1, 1, -3}, {1, 1, 1}, TOLK_E_ARG, 0},
        {{INT64_MAX, INT64_MAX, 2}, {1, 1, 1}, TOLK_E_LIMIT, 0},
        {{INT64_MAX, 0, INT64_MAX}, {1, 1, 1}, TOLK_OK, 0},
        {{1, INT64_MAX / 4, 2}, {1, 2, 1}, TOLK_E_LIMIT, 0},
    };
    tensor t;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make(&t);
        t.m.dl_tensor.ndim = 3;
        memcpy(t.shape, rows[i].shape, sizeof t.shape);
        memcpy(t.strides, rows[i].strides, sizeof t.strides);
        tolk_buffer *b = NULL;
        assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), rows[i].want);
        if (rows[i].want) {
            assert_null(b);
            assert_int_equal(deleted, 0);
            continue;
        }
        tolk_buffer_info info;
        assert_int_equal(tolk_buffer_get_info(b, &info), TOLK_OK);
        assert_int_equal(info.n, rows[i].n);
        tolk_buffer_unref(b);
        assert_int_equal(deleted, 1);
    }
}

static void test_what_cannot_come_in(void **state) {
    (void)state;
    tensor t;
    tolk_buffer *b = NULL;
    make(&t)->m.version.major = 2;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_UNSUPPORTED);
    make(&t)->m.version.major = 0;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_UNSUPPORTED);
    make(&t)->m.flags = 1;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "read-only"));
    make(&t)->m.dl_tensor.device.device_type = 2;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_UNSUPPORTED);
    make(&t)->m.dl_tensor.dtype.lanes = 4;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_UNSUPPORTED);
    make(&t)->m.dl_tensor.dtype.lanes = 0;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_UNSUPPORTED);
    make(&t)->m.dl_tensor.data = NULL;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_ARG);
    make(&t)->m.dl_tensor.shape = NULL;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_ARG);
    make(&t)->m.dl_tensor.ndim = -1;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_ARG);
    make(&t)->m.dl_tensor.byte_offset = UINT64_MAX - 8;
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_E_LIMIT);
    make(&t);
    assert_int_equal(tolk_buffer_from_dlpack(fake_device(ctx, "FAR"), &t.m, &b, &err),
                     TOLK_E_UNSUPPORTED);
    assert_int_equal(tolk_buffer_from_dlpack(NULL, &t.m, &b, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_from_dlpack(dev, NULL, &b, &err), TOLK_E_ARG);
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, NULL, &err), TOLK_E_ARG);
    assert_null(b);
    assert_int_equal(deleted, 0);
    t.m.deleter = NULL; /* nothing to be called */
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_OK);
    tolk_buffer_unref(b);
}

/* Elements at any address, from the first byte to the last. */
static void test_in_at_any_alignment(void **state) {
    (void)state;
    tensor t;
    tolk_buffer *b, *c;
    for (uint64_t offset = 0; offset < 8; offset++) {
        make(&t)->m.dl_tensor.byte_offset = offset;
        float y[6];
        assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_OK);
        assert_int_equal(tolk_buffer_copyout(b, 0, y, sizeof y, &err), TOLK_OK);
        assert_memory_equal(y, (char *)t.data + offset, sizeof y);
        assert_int_equal(tolk_alloc_f32(dev, 6, &c, &err), TOLK_OK);
        assert_int_equal(tolk_buffer_copy(c, b, &err), TOLK_OK);
        assert_int_equal(tolk_buffer_copyout(c, 0, y, sizeof y, &err), TOLK_OK);
        assert_memory_equal(y, (char *)t.data + offset, sizeof y);
        tolk_buffer_unref(b);
        tolk_buffer_unref(c);
    }
}

static void test_a_deleter_waits_for_queued_work(void **state) {
    (void)state;
    tensor t;
    tolk_buffer *b, *c;
    make(&t);
    assert_int_equal(tolk_buffer_from_dlpack(dev, &t.m, &b, &err), TOLK_OK);
    assert_int_equal(tolk_alloc_f32(dev, 6, &c, &err), TOLK_OK);
    gate g;
    gate_close(&g, dev);
    assert_int_equal(tolk_buffer_copy(c, b, &err), TOLK_OK);
    tolk_buffer_unref(b);
    assert_int_equal(deleted, 0);
    gate_open(&g);
    assert_int_equal(tolk_device_await(dev, &err), TOLK_OK);
    assert_int_equal(deleted, 1);
    tolk_buffer_unref(c);
}

static tolk_status both_ways(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_disk_cache = 1;
    o.allocator = al;
    o.log = fake_log;
    tolk_ctx *c;
    tolk_device *d;
    tolk_buffer *b = NULL, *in = NULL;
    managed *t = NULL;
    const int64_t shape[] = {2, 3};
    tolk_status st = tolk_ctx_create(&o, &c, NULL);
    if (st != TOLK_OK)
        return st;
    st = tolk_device_open(c, "CPU", &d, NULL);
    if (st == TOLK_OK)
        st = tolk_alloc_f32(d, 6, &b, NULL);
    if (st == TOLK_OK)
        st = tolk_buffer_to_dlpack(b, shape, 2, &t, NULL);
    tolk_buffer_unref(b);
    if (st == TOLK_OK) {
        st = tolk_buffer_from_dlpack(d, t, &in, NULL);
        if (st != TOLK_OK)
            t->deleter(t); /* it stayed ours */
    }
    tolk_buffer_unref(in);
    tolk_ctx_destroy(c);
    return st;
}

static void test_oom_of_dlpack(void **state) {
    (void)state;
    tk_test_oom(both_ways, NULL);
}

/* A buffer of `on` over the memory of one of `of`, never given back. */
static tolk_buffer *leaked[5];
static void leak_over(int i, tolk_device *on, tolk_device *of) {
    tolk_buffer *b;
    managed *t;
    int64_t n = 16;
    char x[64] = {0};
    assert_int_equal(tolk_alloc_f32(of, 16, &b, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(b, 0, x, sizeof x, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_to_dlpack(b, &n, 1, &t, &err), TOLK_OK);
    assert_int_equal(tolk_buffer_from_dlpack(on, t, &leaked[i], &err), TOLK_OK);
    tolk_buffer_unref(b);
}

/* The end of the context gives everything back once, whatever holds what. */
static void test_leaked_tensors_of_two_devices_end_with_the_context(void **state) {
    (void)state;
    tolk_device *cpu = fake_device(ctx, "CPU"), *cpu1 = fake_device(ctx, "CPU:1");
    leak_over(0, cpu, cpu1);
    leak_over(1, cpu1, cpu);
    leak_over(2, cpu, dev);
    leak_over(3, dev, cpu1);
    leak_over(4, dev, dev);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        T(test_the_layout_is_that_of_version_1),
        T(test_out_of_every_dtype),
        T(test_out_with_a_shape),
        T(test_out_of_nothing),
        T(test_what_cannot_go_out),
        T(test_the_tensor_keeps_the_memory_on_any_thread),
        T(test_in_without_a_copy),
        T(test_in_of_every_dtype),
        T(test_strides_that_do_not_matter),
        T(test_what_cannot_come_in),
        T(test_in_at_any_alignment),
        T(test_a_deleter_waits_for_queued_work),
        T(test_leaked_tensors_of_two_devices_end_with_the_context),
        T(test_oom_of_dlpack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
