/* SPDX-License-Identifier: MIT */
#include "base/status.h"
#include "realize/buffer.h"
#include "realize/realize.h"

#include <dlpack/dlpack.h>

/* dtype, its code, bits */
static const struct {
    tolk_dtype dtype;
    uint8_t code, bits;
} types[] = {
    {TOLK_BOOL, kDLBool, 8},
    {TOLK_I8, kDLInt, 8},
    {TOLK_I16, kDLInt, 16},
    {TOLK_I32, kDLInt, 32},
    {TOLK_I64, kDLInt, 64},
    {TOLK_U8, kDLUInt, 8},
    {TOLK_U16, kDLUInt, 16},
    {TOLK_U32, kDLUInt, 32},
    {TOLK_U64, kDLUInt, 64},
    {TOLK_FP8E4M3, kDLFloat8_e4m3fn, 8},
    {TOLK_FP8E5M2, kDLFloat8_e5m2, 8},
    {TOLK_BF16, kDLBfloat, 16},
    {TOLK_F16, kDLFloat, 16},
    {TOLK_F32, kDLFloat, 32},
    {TOLK_F64, kDLFloat, 64},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* ---- out ---- */

/* A tensor and what it needs, in one block; shape and strides stand behind it. */
typedef struct exported {
    struct DLManagedTensorVersioned managed;
    tolk_ctx *ctx;
    tk_memory *memory;
    size_t bytes; /* of the block */
    int64_t dims[];
} exported;

static void drop_exported(struct DLManagedTensorVersioned *self) {
    exported *e = self->manager_ctx;
    tk_realize_here(e->ctx);
    tk_memory_unref(e->memory);
    tk_alloc_free(&e->ctx->al, e, e->bytes);
}

/* The product of a shape is n. */
static tolk_status check_shape(const int64_t *shape, size_t rank, size_t n, tolk_error *err) {
    size_t product = 1;
    bool fits = true, empty = false;
    for (size_t i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return tk_status_fail(err, TOLK_E_SHAPE, TK_NO_NODE,
                                  "tolk_buffer_to_dlpack: dimension %zu is %lld", i,
                                  (long long)shape[i]);
        empty |= shape[i] == 0;
        fits = fits && tk_mul_size(product, (size_t)shape[i], &product);
    }
    if (empty ? n == 0 : fits && product == n)
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_SHAPE, TK_NO_NODE,
                          "tolk_buffer_to_dlpack: the shape does not have the buffer's %zu "
                          "elements",
                          n);
}

static tolk_status export_piece(tolk_device *device, const tk_piece *p, const int64_t *shape,
                                size_t rank, size_t type, exported **out, tolk_error *err) {
    size_t bytes = sizeof(exported) + 2 * rank * sizeof(int64_t);
    exported *e = tk_alloc_zero(&device->ctx->al, bytes);
    if (!e)
        return tk_status_nomem(err);
    e->ctx = device->ctx;
    e->memory = tk_memory_ref(p->memory);
    e->bytes = bytes;
    for (size_t i = rank; i-- > 0;) {
        int64_t *strides = e->dims + rank;
        e->dims[i] = shape[i];
        /* Where there are no elements the strides may not fit; then they do not matter. */
        if (i + 1 == rank || __builtin_mul_overflow(strides[i + 1], shape[i + 1], &strides[i]))
            strides[i] = 1;
    }
    e->managed = (struct DLManagedTensorVersioned){
        .version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
        .manager_ctx = e,
        .deleter = drop_exported,
        .dl_tensor = {.data = p->bytes ? p->at : NULL,
                      .device = {kDLCPU, 0},
                      .ndim = (int32_t)rank,
                      .dtype = {types[type].code, types[type].bits, 1},
                      .shape = e->dims,
                      .strides = e->dims + rank}};
    *out = e;
    return TOLK_OK;
}

tolk_status tolk_buffer_to_dlpack(tolk_buffer *buffer, const int64_t *shape, size_t rank,
                                  struct DLManagedTensorVersioned **out, tolk_error *err) {
    static const char call[] = "tolk_buffer_to_dlpack";
    tolk_buffer_info info;
    if (!buffer || !out || (rank && !shape))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: an argument is NULL", call);
    TK_TRY(tolk_buffer_get_info(buffer, &info));
    size_t type = 0;
    while (type < N_TYPES && types[type].dtype != info.dtype)
        type++;
    if (type == N_TYPES)
        return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE, "%s: %s is no type of DLPack", call,
                              tolk_dtype_name(info.dtype));
    int64_t n = (int64_t)info.n;
    if (!shape) {
        shape = &n;
        rank = 1;
    }
    if (rank > INT32_MAX / 16)
        return tk_status_fail(err, TOLK_E_SHAPE, TK_NO_NODE, "%s: rank %zu", call, rank);
    TK_TRY(check_shape(shape, rank, info.n, err));
    void *at;
    TK_TRY(tolk_buffer_map(buffer, &at, err)); /* waits */
    tk_piece p;
    TK_TRY(tk_buffer_piece(buffer, call, &p, err));
    exported *e = NULL;
    tolk_status st = export_piece(info.device, &p, shape, rank, type, &e, err);
    tk_piece_drop(&p);
    if (st == TOLK_OK)
        *out = &e->managed;
    return st;
}

/* ---- in ---- */

static tolk_status refuse(tolk_error *err, const char *why) {
    return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE, "tolk_buffer_from_dlpack: %s", why);
}

/* Number of elements of a tensor that lies row-major without gaps. */
static tolk_status count(const DLTensor *t, size_t *out, tolk_error *err) {
    size_t n = 1;
    bool fits = true, empty = false;
    if (t->ndim < 0 || (t->ndim && !t->shape))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_buffer_from_dlpack: rank %d%s",
                              (int)t->ndim, t->ndim < 0 ? "" : " without a shape");
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "tolk_buffer_from_dlpack: dimension %d is %lld", (int)i,
                                  (long long)t->shape[i]);
        empty |= t->shape[i] == 0;
        fits = fits && tk_mul_size(n, (size_t)t->shape[i], &n);
    }
    *out = empty ? 0 : n;
    if (!fits && !empty)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "tolk_buffer_from_dlpack: the number of elements does not fit");
    size_t want = 1;
    for (int32_t i = t->ndim; i-- > 0 && t->strides && *out > 1;) {
        if (t->shape[i] != 1 && t->strides[i] != (int64_t)want)
            return tk_status_fail(
                err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                "tolk_buffer_from_dlpack: dimension %d has stride %lld, row-major "
                "is %zu",
                (int)i, (long long)t->strides[i], want);
        want *= (size_t)t->shape[i];
    }
    return TOLK_OK;
}

static void drop_imported(void *user) {
    struct DLManagedTensorVersioned *tensor = user;
    if (tensor->deleter)
        tensor->deleter(tensor);
}

tolk_status tolk_buffer_from_dlpack(tolk_device *device, struct DLManagedTensorVersioned *tensor,
                                    tolk_buffer **out, tolk_error *err) {
    if (!device || !tensor || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_buffer_from_dlpack: an argument is NULL");
    if (tensor->version.major != DLPACK_MAJOR_VERSION)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "tolk_buffer_from_dlpack: version %u.%u of DLPack, expected %d",
                              tensor->version.major, tensor->version.minor, DLPACK_MAJOR_VERSION);
    const DLTensor *t = &tensor->dl_tensor;
    if (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
        return refuse(err, "the tensor is read-only");
    if (t->device.device_type != kDLCPU)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "tolk_buffer_from_dlpack: memory of device kind %d, expected that of "
                              "the CPU (%d)",
                              (int)t->device.device_type, kDLCPU);
    size_t type = 0, n = 0;
    while (type < N_TYPES &&
           (types[type].code != t->dtype.code || types[type].bits != t->dtype.bits))
        type++;
    if (t->dtype.lanes != 1 || type == N_TYPES)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "tolk_buffer_from_dlpack: no dtype for type code %u, %u bits, %u "
                              "lanes",
                              t->dtype.code, t->dtype.bits, t->dtype.lanes);
    TK_TRY(count(t, &n, err));
    return tk_buffer_over(device, types[type].dtype, n, t->data, t->byte_offset, drop_imported,
                          tensor, out, err);
}
