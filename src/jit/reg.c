/* SPDX-License-Identifier: MIT */
#include "jit/reg.h"

static const tk_attr inside[2] = {{.i = 1}, {.i = 0}}; /* inbounds, and not streamed */

const tolk_uop *tk_reg_buffer(tolk_graph *g, tolk_dtype dtype, int64_t elems, int64_t slot) {
    const tolk_uop *size = tk_uop_index_const(g, elems);
    tk_attr attrs[4] = {{.i = slot}, {.i = TK_SPACE_REG}, {.i = 0}, {.blob = NULL}};
    return size ? tk_uop(g, TK_OP_BUFFER, dtype, &size, 1, attrs) : NULL;
}

const tolk_uop *tk_reg_place(tolk_graph *g, const tolk_uop *buffer, int64_t k,
                             const tolk_uop *token) {
    if (buffer && token)
        buffer =
            tk_uop(g, TK_OP_AFTER, buffer->dtype, (const tolk_uop *[]){buffer, token}, 2, NULL);
    const tolk_uop *src[2] = {buffer, buffer ? tk_uop_index_const(g, k) : NULL};
    return src[1] ? tk_uop(g, TK_OP_INDEX, buffer->dtype, src, 2, NULL) : NULL;
}

const tolk_uop *tk_reg_store(tolk_graph *g, const tolk_uop *buffer, int64_t k,
                             const tolk_uop *value, const tolk_uop *token) {
    const tolk_uop *src[2] = {value ? tk_reg_place(g, buffer, k, token) : NULL, value};
    return src[0] ? tk_uop(g, TK_OP_STORE, TOLK_VOID, src, 2, inside) : NULL;
}

const tolk_uop *tk_reg_load(tolk_graph *g, const tolk_uop *buffer, int64_t k,
                            const tolk_uop *token) {
    const tolk_uop *place = tk_reg_place(g, buffer, k, token);
    return place ? tk_uop(g, TK_OP_LOAD, buffer->dtype, &place, 1, inside) : NULL;
}
