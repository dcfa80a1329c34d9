/* SPDX-License-Identifier: MIT
 *
 * Arguments of launches: in any order, what is missing or too much, what does not fit its param.
 * Test names carry the numbers of the behaviour list that this layer is built to, and case ids.
 */
#include "realize/kernels.h"

#include "realize/args.h"

TWO_DEVICES

/* ---- S23 ---- */

static void test_S23_any_order_is_ascending(void **state) {
    (void)state;
    static const uint32_t order[] = {7, 0, 65535, 3, 4, 1};
    static const uint32_t sorted[] = {0, 1, 3, 4, 7, 65535};
    tolk_args *a = args_of(&r);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(tolk_args_i32(a, order[i], (int32_t)order[i], NULL), TOLK_OK);
    assert_int_equal(tolk_args_count(a), 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(a->list.at[i].slot, sorted[i]);
        assert_int_equal(a->list.at[i].value, sorted[i]);
    }
    tolk_args_destroy(a);
}

static void test_S23_last_of_a_slot_counts(void **state) {
    (void)state;
    tolk_args *a = args_of(&r);
    tolk_buffer *x = floats(d0, N, 2), *y = floats(d0, N, -1), *other = floats(d0, N, 9);
    assert_int_equal(tolk_args_f32(a, 2, 100, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 4, other, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 1, y, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 4, x, NULL), TOLK_OK);
    assert_int_equal(tolk_args_f64(a, 2, 7, NULL), TOLK_OK); /* of another dtype meanwhile */
    assert_int_equal(tolk_args_f32(a, 2, 0.5f, NULL), TOLK_OK);
    assert_int_equal(tolk_args_count(a), 3);
    tolk_buffer_unref(other); /* the last reference */
    assert_int_equal(tolk_run(d0, "add", KERNEL_ADD, a, NULL, NULL, 0, NULL), TOLK_OK);
    check_floats(y, 2.5f);
    tolk_args_destroy(a);
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
}

static void test_S23_args_can_be_used_again(void **state) {
    (void)state;
    tolk_args *a = args_of(&r);
    tolk_buffer *x = floats(d0, N, 2), *y = floats(d0, N, -1);
    tolk_kernel *k = kernel_of(d0, "add", KERNEL_ADD);
    assert_int_equal(tolk_args_buffer(a, 1, y, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 4, x, NULL), TOLK_OK);
    tolk_buffer_unref(x); /* args keep it */
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tolk_args_f32(a, 2, (float)i, NULL), TOLK_OK);
        assert_int_equal(tolk_kernel_run(k, a, NULL, NULL, 0, NULL), TOLK_OK);
        check_floats(y, 2 + (float)i);
    }
    tolk_args_destroy(a);
    tolk_kernel_unref(k);
    tolk_buffer_unref(y);
}

/* The error of running "add" with arguments in these slots; -1 ends the list. */
static void check_slots(const int *slots, const char *text) {
    tolk_args *a = args_of(&r);
    tolk_buffer *b = floats(d0, N, 1), *c = floats(d0, N, 1);
    tolk_error err = TOLK_ERROR_INIT;
    for (; *slots >= 0; slots++)
        if (*slots == 1 || *slots == 4)
            assert_int_equal(tolk_args_buffer(a, (uint32_t)*slots, *slots == 1 ? b : c, NULL),
                             TOLK_OK);
        else
            assert_int_equal(tolk_args_f32(a, (uint32_t)*slots, 1, NULL), TOLK_OK);
    assert_int_equal(tolk_run(d0, "add", KERNEL_ADD, a, NULL, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_string_equal(err.msg, text);
    tolk_args_destroy(a);
    tolk_buffer_unref(b);
    tolk_buffer_unref(c);
}

static void test_S23_gaps_and_extras_are_named(void **state) {
    (void)state;
    check_slots((int[]){-1}, "kernel add: missing: 1, 2, 4; expected 3 arguments, got 0");
    check_slots((int[]){1, 4, -1}, "kernel add: missing: 2; expected 3 arguments, got 2");
    check_slots((int[]){1, 2, -1}, "kernel add: missing: 4; expected 3 arguments, got 2");
    check_slots((int[]){1, 2, 4, 7, -1}, "kernel add: unexpected: 7; expected 3 arguments, got 4");
    check_slots((int[]){0, 3, 1, 2, 4, -1},
                "kernel add: unexpected: 0, 3; expected 3 arguments, got 5");
    check_slots((int[]){1, 3, 4, -1},
                "kernel add: missing: 2; unexpected: 3; expected 3 arguments, got 3");
    int many[60];
    for (int i = 0; i < 59; i++)
        many[i] = 100 + i;
    many[59] = -1;
    check_slots(many, "kernel add: missing: 1, 2, 4; unexpected: 100, 101, 102, 103, 104, 105, "
                      "106, 107, 108, 109, 110, ...; expected 3 arguments, got 59");
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_run(d0, "add", KERNEL_ADD, NULL, NULL, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_string_equal(err.msg, "kernel add: missing: 1, 2, 4; expected 3 arguments, got 0");
    assert_int_equal(tolk_run(d0, "fill", KERNEL_FILL, NULL, NULL, NULL, 0, &err), TOLK_E_LAUNCH);
    assert_string_equal(err.msg, "kernel fill: missing: 0; expected 1 argument, got 0");
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK); /* nothing of that stopped the queue */
}

/* ---- ERR-03: wrong launch arguments ---- */

/* Runs `add` with these in slots 1, 2 and 4. */
static tolk_status add_with(tolk_device *d, tolk_buffer *y, tolk_buffer *x, tolk_error *err) {
    tolk_args *a = args_of(&r);
    assert_int_equal(tolk_args_buffer(a, 1, y, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 4, x, NULL), TOLK_OK);
    assert_int_equal(tolk_args_f32(a, 2, 1, NULL), TOLK_OK);
    tolk_status st = tolk_run(d, "add", KERNEL_ADD, a, NULL, NULL, 0, err);
    tolk_args_destroy(a);
    return st;
}

/* What a launch that is refused would have stored to has nothing in it, nor has one view of memory
 * because another one of it is stored to. */
static void test_a_refused_launch_stores_nothing(void **state) {
    (void)state;
    float v[N];
    tolk_buffer *y = NULL, *x = NULL, *base = NULL, *half[2];
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_alloc_f32(d0, N, &y, NULL), TOLK_OK);
    assert_int_equal(tolk_alloc_f32(d0, N, &x, NULL), TOLK_OK);
    assert_int_equal(tolk_alloc_f32(d0, 2 * N, &base, NULL), TOLK_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(tolk_buffer_view(base, i * N * 4, TOLK_F32, N, &half[i], NULL), TOLK_OK);
    assert_int_equal(add_with(d0, y, x, &err), TOLK_E_UNBOUND);
    assert_int_equal(tolk_buffer_copyout(y, 0, v, sizeof v, NULL), TOLK_E_UNBOUND);
    assert_int_equal(add_with(d0, half[0], half[1], &err), TOLK_E_UNBOUND);
    assert_int_equal(tolk_buffer_copy(x, y, NULL), TOLK_E_UNBOUND);
    void *at = NULL;
    assert_int_equal(tolk_buffer_map(x, &at, NULL), TOLK_OK); /* the caller may write to it now */
    for (int i = 0; i < N; i++)
        ((float *)at)[i] = 4;
    assert_int_equal(add_with(d0, y, x, &err), TOLK_OK);
    check_floats(y, 5);
    tolk_buffer_unref(y); /* its memory is the next one's, what was in it is not */
    assert_int_equal(tolk_alloc_f32(d0, N, &y, NULL), TOLK_OK);
    assert_int_equal(add_with(d0, x, y, &err), TOLK_E_UNBOUND);
    tolk_buffer_unref(half[0]);
    tolk_buffer_unref(half[1]);
    tolk_buffer_unref(base);
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
}

static void test_ERR_03_wrong_dtype_of_a_buffer(void **state) {
    (void)state;
    tolk_buffer *y = floats(d0, N, 0), *i = NULL, *custom = NULL, *same = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_alloc_i32(d0, N, &i, NULL), TOLK_OK);
    assert_int_equal(tolk_alloc_custom(d0, N, 8, &custom, NULL), TOLK_OK);
    assert_int_equal(tolk_alloc_custom(d0, N, 4, &same, NULL), TOLK_OK);
    assert_int_equal(add_with(d0, y, i, &err), TOLK_E_UNBOUND);
    assert_string_equal(err.msg,
                        "kernel add: argument 4 (\"x\"): nothing was stored to the buffer yet");
    assert_int_equal(tolk_buffer_copyin(i, 0, (int32_t[1]){1}, 4, NULL), TOLK_OK);
    assert_int_equal(add_with(d0, y, i, &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg,
                        "kernel add: argument 4 (\"x\"): expected a buffer of f32, got one of i32");
    assert_int_equal(add_with(d0, custom, y, &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg, "kernel add: argument 1 (\"y\"): expected a buffer of f32, got "
                                 "one of elements of 8 bytes");
    assert_int_equal(add_with(d0, same, y, &err), TOLK_OK); /* a size is all that is known of it */
    tolk_buffer_unref(i);
    tolk_buffer_unref(custom);
    tolk_buffer_unref(same);
    tolk_buffer_unref(y);
}

static void test_ERR_03_scalar_for_a_buffer_and_buffer_for_a_scalar(void **state) {
    (void)state;
    tolk_args *a = args_of(&r);
    tolk_buffer *b = floats(d0, N, 0);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_args_i64(a, 1, 1, NULL), TOLK_OK);
    assert_int_equal(tolk_args_f32(a, 2, 1, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 4, b, NULL), TOLK_OK);
    assert_int_equal(tolk_run(d0, "add", KERNEL_ADD, a, NULL, NULL, 0, &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg,
                        "kernel add: argument 1 (\"y\"): expected a buffer of f32, got a scalar "
                        "i64");
    assert_int_equal(tolk_args_buffer(a, 1, b, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 2, b, NULL), TOLK_OK);
    assert_int_equal(tolk_run(d0, "add", KERNEL_ADD, a, NULL, NULL, 0, &err), TOLK_E_DTYPE);
    assert_string_equal(err.msg,
                        "kernel add: argument 2 (\"a\"): expected a scalar f32, got a buffer");
    tolk_args_destroy(a);
    tolk_buffer_unref(b);
}

static void test_ERR_03_wrong_device(void **state) {
    (void)state;
    tolk_buffer *y = floats(d0, N, 0), *x = floats(d1, N, 0);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(add_with(d0, y, x, &err), TOLK_E_DEVICE);
    assert_string_equal(err.msg, "kernel add: argument 4 (\"x\"): the buffer is on device CPU:1, "
                                 "the kernel on CPU");
    assert_int_equal(add_with(d1, y, x, &err), TOLK_E_DEVICE);
    check_contains(err.msg, "argument 1 (\"y\")");
    tolk_buffer_unref(y);
    tolk_buffer_unref(x);
}

static void test_ERR_03_too_small(void **state) {
    (void)state;
    tolk_buffer *y = floats(d0, N, 0), *x = floats(d0, N - 1, 0), *none = floats(d0, 0, 0);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(add_with(d0, y, x, &err), TOLK_E_LAUNCH);
    assert_string_equal(err.msg, "kernel add: param \"x\" (slot 4): expected 64 bytes (16 x f32), "
                                 "got 60");
    assert_int_equal(add_with(d0, none, y, &err), TOLK_E_LAUNCH);
    check_contains(err.msg, "param \"y\" (slot 1): expected 64 bytes (16 x f32), got 0");
    tolk_buffer_unref(y);
    tolk_buffer_unref(x);
    tolk_buffer_unref(none);
}

static void test_ERR_03_freed_buffer(void **state) {
    (void)state;
    tolk_buffer *y = floats(d0, N, 0), *x = floats(d0, N, 0);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_buffer_free(x, NULL), TOLK_OK);
    assert_int_equal(add_with(d0, y, x, &err), TOLK_E_FREED);
    check_contains(err.msg, "kernel add: argument 4");
    assert_int_equal(tolk_device_await(d0, NULL), TOLK_OK);
    tolk_buffer_unref(y);
    tolk_buffer_unref(x);
}

static void test_ERR_03_overlapping_buffers(void **state) {
    (void)state;
    tolk_buffer *b = floats(d0, 2 * N, 0), *y = NULL, *x = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_buffer_view(b, 0, TOLK_F32, N, &y, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_view(b, 4, TOLK_F32, N, &x, NULL), TOLK_OK);
    assert_int_equal(add_with(d0, y, x, &err), TOLK_E_ALIAS);
    check_contains(err.msg, "(slot 1)");
    check_contains(err.msg, "(slot 4)");
    tolk_buffer_unref(x);
    assert_int_equal(tolk_buffer_view(b, N * 4, TOLK_F32, N, &x, NULL), TOLK_OK);
    assert_int_equal(add_with(d0, y, x, &err), TOLK_OK); /* side by side */
    check_floats(y, 1);
    assert_int_equal(add_with(d0, y, y, &err), TOLK_OK); /* in place */
    check_floats(y, 2);
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
    tolk_buffer_unref(b);
}

static void test_ERR_03_null_and_limits(void **state) {
    (void)state;
    tolk_args *a = args_of(&r), *none = NULL;
    tolk_buffer *b = floats(d0, N, 0);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_args_buffer(a, 3, NULL, &err), TOLK_E_ARG);
    check_contains(err.msg, "argument 3");
    assert_int_equal(tolk_args_buffer(NULL, 3, b, &err), TOLK_E_ARG);
    assert_int_equal(tolk_args_i32(NULL, 3, 1, &err), TOLK_E_ARG);
    assert_int_equal(tolk_args_i64(NULL, 3, 1, &err), TOLK_E_ARG);
    assert_int_equal(tolk_args_f32(NULL, 3, 1, &err), TOLK_E_ARG);
    assert_int_equal(tolk_args_f64(NULL, 3, 1, &err), TOLK_E_ARG);
    assert_int_equal(tolk_args_buffer(a, 65536, b, &err), TOLK_E_LIMIT);
    check_contains(err.msg, "65536");
    assert_int_equal(tolk_args_i32(a, UINT32_MAX, 1, &err), TOLK_E_LIMIT);
    assert_int_equal(tolk_args_count(a), 0);
    assert_int_equal(tolk_args_count(NULL), 0);
    assert_int_equal(tolk_args_create(NULL, &none, &err), TOLK_E_ARG);
    assert_int_equal(tolk_args_create(r.ctx, NULL, &err), TOLK_E_ARG);
    tolk_args_destroy(NULL);
    tolk_args_destroy(a);
    tolk_buffer_unref(b);
}

/* ---- dtypes and values of scalars ---- */

/* y[0] = s as i64, for a scalar of a dtype. */
static const char *scalar_kernel(const char *dtype, const char *more) {
    return rt_text("tolk.uop 1\n"
                   "%%0 = param i64 {slot=0, name=\"y\"}\n"
                   "%%1 = param %s {slot=1, name=\"s\", space=alu%s}\n"
                   "%%2 = cast i64 (%%1)\n"
                   "%%3 = index i64 (%%0)\n"
                   "%%4 = store void (%%3, %%2)\n"
                   "%%5 = sink void (%%4) {name=\"k\"}\n",
                   dtype, more);
}

enum kind { I32, I64, F32, F64 };

static void check_scalar(const char *dtype, enum kind kind, int64_t value, tolk_status want,
                         const char *text) {
    tolk_buffer *y = NULL;
    tolk_args *a = args_of(&r);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_alloc_i64(d0, 1, &y, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 0, y, NULL), TOLK_OK);
    tolk_status st = kind == I32   ? tolk_args_i32(a, 1, (int32_t)value, NULL)
                     : kind == I64 ? tolk_args_i64(a, 1, value, NULL)
                     : kind == F32 ? tolk_args_f32(a, 1, (float)value, NULL)
                                   : tolk_args_f64(a, 1, (double)value, NULL);
    assert_int_equal(st, TOLK_OK);
    st = tolk_run(d0, "k", scalar_kernel(dtype, ""), a, NULL, NULL, 0, &err);
    if (st != want)
        fail_msg("%s from kind %d, %lld: %s, expected %s (%s)", dtype, (int)kind, (long long)value,
                 tolk_status_name(st), tolk_status_name(want), err.msg);
    int64_t got = 0;
    if (want == TOLK_OK) {
        assert_int_equal(tolk_buffer_copyout(y, 0, &got, 8, NULL), TOLK_OK);
        if (got != value)
            fail_msg("%s from kind %d is %lld, expected %lld", dtype, (int)kind, (long long)got,
                     (long long)value);
    } else {
        check_contains(err.msg, "kernel k: argument 1 (\"s\")");
        check_contains(err.msg, text);
    }
    tolk_args_destroy(a);
    tolk_buffer_unref(y);
}

static void test_scalars_that_fit(void **state) {
    (void)state;
    static const struct {
        const char *dtype;
        int64_t lo, hi;
    } t[] = {{"bool", 0, 1},         {"i8", INT8_MIN, INT8_MAX},
             {"u8", 0, UINT8_MAX},   {"i16", INT16_MIN, INT16_MAX},
             {"u16", 0, UINT16_MAX}, {"i32", INT32_MIN, INT32_MAX},
             {"u32", 0, UINT32_MAX}, {"i64", INT64_MIN, INT64_MAX},
             {"u64", 0, INT64_MAX},  {"index", INT64_MIN, INT64_MAX}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const char *d = t[i].dtype;
        bool wide = t[i].hi == INT64_MAX;
        check_scalar(d, I64, t[i].lo, TOLK_OK, "");
        check_scalar(d, I64, t[i].hi, TOLK_OK, "");
        if (!wide) {
            check_scalar(d, I64, t[i].hi + 1, TOLK_E_LAUNCH, "does not fit");
            check_scalar(d, I64, t[i].lo - 1, TOLK_E_LAUNCH, "does not fit");
            check_scalar(d, I64, INT64_MIN, TOLK_E_LAUNCH, "does not fit");
        }
        if (strcmp(d, "i64") == 0 || strcmp(d, "u64") == 0) {
            check_scalar(d, I32, 1, TOLK_E_DTYPE, "got i32"); /* wider than what was given */
        } else {
            check_scalar(d, I32, 1, TOLK_OK, "");
            check_scalar(d, I32, t[i].lo > INT32_MIN ? t[i].lo : INT32_MIN, TOLK_OK, "");
        }
        check_scalar(d, F32, 1, TOLK_E_DTYPE, "got f32");
        check_scalar(d, F64, 1, TOLK_E_DTYPE, "got f64");
    }
    check_scalar("u64", I64, -1, TOLK_E_LAUNCH, "-1 does not fit u64");
    check_scalar("u32", I32, -1, TOLK_E_LAUNCH, "-1 does not fit u32");
    check_scalar("bool", I32, 2, TOLK_E_LAUNCH, "2 does not fit bool");
}

static void test_float_scalars_are_of_their_dtype(void **state) {
    (void)state;
    check_scalar("f32", F32, -3, TOLK_OK, "");
    check_scalar("f64", F64, 1234567, TOLK_OK, "");
    check_scalar("f32", F64, 1, TOLK_E_DTYPE, "expected a scalar f32, got f64");
    check_scalar("f64", F32, 1, TOLK_E_DTYPE, "expected a scalar f64, got f32");
    check_scalar("f32", I32, 1, TOLK_E_DTYPE, "expected a scalar f32, got i32");
    check_scalar("f64", I64, 1, TOLK_E_DTYPE, "expected a scalar f64, got i64");
}

static void test_scalar_out_of_its_bounds(void **state) {
    (void)state;
    tolk_buffer *y = NULL;
    tolk_args *a = args_of(&r);
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_alloc_i64(d0, 1, &y, NULL), TOLK_OK);
    assert_int_equal(tolk_args_buffer(a, 0, y, NULL), TOLK_OK);
    assert_int_equal(tolk_args_i32(a, 1, 11, NULL), TOLK_OK);
    assert_int_equal(
        tolk_run(d0, "k", scalar_kernel("i32", ", min=0, max=10"), a, NULL, NULL, 0, &err),
        TOLK_E_LAUNCH);
    assert_string_equal(err.msg, "kernel k: param \"s\" (slot 1) is 11, expected 0 to 10");
    tolk_args_destroy(a);
    tolk_buffer_unref(y);
}

/* ---- many ---- */

enum { INPUTS = 40 };

/* y = x0 a0 + x1 a1 + ..., more arguments than a launch keeps on its stack: y in slot 0, each x
 * and a behind it. */
static const char *many_text(void) {
    static char text[16384];
    int n = snprintf(text, sizeof text,
                     "tolk.uop 1\n%%0 = const index 16\n%%1 = param f32 (%%0) {slot=0}\n"
                     "%%2 = range index (%%0) {axis=0, kind=global}\n%%3 = const f32 0x0p+0\n");
    for (int i = 0; i < INPUTS; i++) {
        int at = 10 * (i + 1);
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "%%%d = param f32 (%%0) {slot=%d}\n%%%d = index f32 (%%%d, %%2)\n"
                      "%%%d = load f32 (%%%d)\n%%%d = param f32 {slot=%d, space=alu}\n"
                      "%%%d = mul f32 (%%%d, %%%d)\n%%%d = add f32 (%%%d, %%%d)\n",
                      at, 2 * i + 1, at + 1, at, at + 2, at + 1, at + 3, 2 * i + 2, at + 4, at + 2,
                      at + 3, at + 5, i ? at - 5 : 3, at + 4);
    }
    snprintf(text + n, sizeof text - (size_t)n,
             "%%1000 = index f32 (%%1, %%2)\n%%1001 = store void (%%1000, %%%d)\n"
             "%%1002 = end void (%%1001, %%2)\n%%1003 = sink void (%%1002) {name=\"many\"}\n",
             10 * INPUTS + 5);
    return text;
}

static void test_many_arguments(void **state) {
    (void)state;
    tolk_buffer *y = floats(d0, N, -1), *x[INPUTS];
    tolk_args *a = args_of(&r);
    float want = 0;
    for (int i = INPUTS - 1; i >= 0; i--) {
        x[i] = floats(d0, N, (float)i);
        assert_int_equal(tolk_args_f32(a, (uint32_t)(2 * i + 2), 2, NULL), TOLK_OK);
        assert_int_equal(tolk_args_buffer(a, (uint32_t)(2 * i + 1), x[i], NULL), TOLK_OK);
        want += 2 * (float)i;
    }
    assert_int_equal(tolk_args_buffer(a, 0, y, NULL), TOLK_OK);
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_run(d0, "many", many_text(), a, NULL, NULL, 0, &err))
        fail_msg("%s", err.msg);
    check_floats(y, want);
    tolk_args_destroy(a);
    for (int i = 0; i < INPUTS; i++)
        tolk_buffer_unref(x[i]);
    tolk_buffer_unref(y);
}

static char *folder;

static tolk_status no_memory_for_many(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.cache_dir = folder;
    o.no_environment = 1;
    tolk_ctx *ctx = NULL;
    tolk_device *d = NULL;
    tolk_args *a = NULL;
    tolk_buffer *x = NULL, *y = NULL;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    st = st ? st : tolk_device_open(ctx, "CPU", &d, NULL);
    st = st ? st : tolk_args_create(ctx, &a, NULL);
    st = st ? st : tolk_alloc_f32(d, N, &x, NULL);
    st = st ? st : tolk_buffer_copyin(x, 0, (float[N]){0}, N * sizeof(float), NULL);
    st = st ? st : tolk_alloc_f32(d, N, &y, NULL);
    st = st ? st : tolk_args_buffer(a, 0, y, NULL);
    for (uint32_t i = 0; i < INPUTS; i++) {
        st = st ? st : tolk_args_buffer(a, 2 * i + 1, x, NULL);
        st = st ? st : tolk_args_f32(a, 2 * i + 2, 1, NULL);
    }
    st = st ? st : tolk_run(d, "many", many_text(), a, NULL, NULL, 0, NULL);
    st = st ? st : tolk_device_await(d, NULL);
    tolk_args_destroy(a);
    tolk_buffer_unref(x);
    tolk_buffer_unref(y);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_out_of_memory_for_many_arguments(void **state) {
    (void)state;
    folder = rt_mkdir();
    tk_test_oom(no_memory_for_many, NULL);
    rt_rmdir(folder);
}

static tolk_status no_memory_in(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_disk_cache = o.no_environment = 1;
    tolk_ctx *ctx;
    tolk_args *a = NULL;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    st = tolk_args_create(ctx, &a, NULL);
    for (uint32_t i = 0; i < 40 && !st; i++) {
        st = tolk_args_i64(a, 77 * i % 41, i, NULL);
        assert_int_equal(tolk_args_count(a), i + (st ? 0 : 1));
    }
    tolk_args_destroy(a);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_out_of_memory(void **state) {
    (void)state;
    tk_test_oom(no_memory_in, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_S23_any_order_is_ascending),
        TEST(test_S23_last_of_a_slot_counts),
        TEST(test_S23_args_can_be_used_again),
        TEST(test_S23_gaps_and_extras_are_named),
        TEST(test_a_refused_launch_stores_nothing),
        TEST(test_ERR_03_wrong_dtype_of_a_buffer),
        TEST(test_ERR_03_scalar_for_a_buffer_and_buffer_for_a_scalar),
        TEST(test_ERR_03_wrong_device),
        TEST(test_ERR_03_too_small),
        TEST(test_ERR_03_freed_buffer),
        TEST(test_ERR_03_overlapping_buffers),
        TEST(test_ERR_03_null_and_limits),
        TEST(test_scalars_that_fit),
        TEST(test_float_scalars_are_of_their_dtype),
        TEST(test_scalar_out_of_its_bounds),
        TEST(test_many_arguments),
        cmocka_unit_test(test_out_of_memory_for_many_arguments),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
