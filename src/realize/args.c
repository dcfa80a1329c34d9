/* SPDX-License-Identifier: MIT */
#include "realize/args.h"

#include "base/ctx.h"
#include "base/status.h"

#include <string.h>

tolk_status tolk_args_create(tolk_ctx *ctx, tolk_args **out, tolk_error *err) {
    if (!ctx || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_args_create: an argument is NULL");
    tolk_args *args = tk_alloc_zero(&ctx->al, sizeof *args);
    if (!args)
        return tk_status_nomem(err);
    args->ctx = ctx;
    tk_vec_init(&args->list, &ctx->al);
    *out = args;
    return TOLK_OK;
}

void tolk_args_destroy(tolk_args *args) {
    if (!args)
        return;
    for (size_t i = 0; i < args->list.n; i++)
        tolk_buffer_unref(args->list.at[i].buffer);
    tk_vec_fini(&args->list);
    tk_alloc_free(&args->ctx->al, args, sizeof *args);
}

/* Keep an argument in the place of its slot. Its buffer becomes that of args. */
static tolk_status set(tolk_args *args, const tk_arg *arg, tolk_error *err) {
    if (!args)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_args: args is NULL");
    if (arg->slot > TK_ARGS_MAX_SLOT)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE, "argument %u: expected 0 to %d",
                              arg->slot, TK_ARGS_MAX_SLOT);
    size_t at = args->list.n; /* as a rule they come in order */
    while (at > 0 && args->list.at[at - 1].slot > arg->slot)
        at--;
    if (at > 0 && args->list.at[at - 1].slot == arg->slot) {
        tolk_buffer *old = args->list.at[at - 1].buffer;
        args->list.at[at - 1] = *arg;
        tolk_buffer_ref(arg->buffer);
        tolk_buffer_unref(old);
        return TOLK_OK;
    }
    if (!tk_vec_reserve(&args->list, args->list.n + 1))
        return tk_status_nomem(err);
    memmove(args->list.at + at + 1, args->list.at + at,
            (args->list.n - at) * sizeof *args->list.at);
    args->list.at[at] = *arg;
    args->list.n++;
    tolk_buffer_ref(arg->buffer);
    return TOLK_OK;
}

tolk_status tolk_args_buffer(tolk_args *args, uint32_t i, tolk_buffer *buffer, tolk_error *err) {
    if (!buffer)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "argument %u: buffer is NULL", i);
    return set(args, &(tk_arg){.slot = i, .buffer = buffer}, err);
}

tolk_status tolk_args_i32(tolk_args *args, uint32_t i, int32_t value, tolk_error *err) {
    return set(args, &(tk_arg){.slot = i, .dtype = TOLK_I32, .value = value}, err);
}

tolk_status tolk_args_i64(tolk_args *args, uint32_t i, int64_t value, tolk_error *err) {
    return set(args, &(tk_arg){.slot = i, .dtype = TOLK_I64, .value = value}, err);
}

tolk_status tolk_args_f32(tolk_args *args, uint32_t i, float value, tolk_error *err) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return set(args, &(tk_arg){.slot = i, .dtype = TOLK_F32, .value = bits}, err);
}

tolk_status tolk_args_f64(tolk_args *args, uint32_t i, double value, tolk_error *err) {
    tk_arg arg = {.slot = i, .dtype = TOLK_F64};
    memcpy(&arg.value, &value, sizeof value);
    return set(args, &arg, err);
}

size_t tolk_args_count(const tolk_args *args) {
    return args ? args->list.n : 0;
}
