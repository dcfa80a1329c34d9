/* SPDX-License-Identifier: MIT
 *
 * ir/softnarrow.h says what a conversion is, in nodes; here these nodes become instructions at
 * once.
 */
#include "jit/llvm_code.h"

#include "ir/dtype.h"
#include "ir/softnarrow.h"
#include "ir/walk.h"
#include "jit/llvm_alu.h"
#include "jit/llvm_cast.h"

enum { MOST_NODES = 128 };

/* The value of a scalar expression. in: of the params, by slot. */
static LLVMValueRef evaluate(tk_llvm_fn *f, const tolk_uop *root, const LLVMValueRef *in) {
    tk_walk_list list;
    LLVMValueRef v[MOST_NODES], s[3];
    uint32_t at[MOST_NODES]; /* place of a node in the list, by id: the graph is as small as that */
    tk_vec_init(&list, &f->ctx->al);
    if (!root || root->id >= MOST_NODES || tk_walk(root, &list) != TOLK_OK) {
        tk_vec_fini(&list);
        return tk_llvm_build_fail(f, TOLK_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < list.n; i++) {
        const tolk_uop *u = list.at[i];
        at[u->id] = (uint32_t)i;
        for (uint32_t k = 0; k < u->n_src; k++)
            s[k] = v[at[u->src[k]->id]];
        if (tk_uop_is(u, TK_OP_PARAM))
            v[i] = in[tk_uop_int(u, TK_A_PARAM_SLOT)];
        else if (tk_uop_is_const(u))
            v[i] = tk_llvm_build_const(f, u->dtype, tk_uop_bits(u));
        else if (tk_uop_is(u, TK_OP_CAST))
            v[i] = tk_llvm_cast(f, u->src[0]->dtype, u->dtype, s[0]);
        else if (tk_uop_is(u, TK_OP_BITCAST))
            v[i] = tk_llvm_cast_bits(f, u->src[0]->dtype, u->dtype, s[0]);
        else
            v[i] = tk_llvm_alu(f, u, 1, s);
    }
    LLVMValueRef r = v[list.n - 1];
    tk_vec_fini(&list);
    return r;
}

/* x NULL: the f32 of the code, else the code of the sum. */
static LLVMValueRef build(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef code, LLVMValueRef x) {
    tolk_graph *g;
    if (f->status != TOLK_OK || !code)
        return NULL;
    if (tolk_graph_create(f->ctx, &g) != TOLK_OK)
        return tk_llvm_build_fail(f, TOLK_E_NOMEM, "out of memory");
    const tolk_uop *root =
        tk_softnarrow_widen(g, dtype, tolk_variable(g, TOLK_U32, 0, NULL, 0, UINT32_MAX));
    if (root && x) {
        const tolk_uop *other = tolk_variable(g, TOLK_U32, 1, NULL, 0, UINT32_MAX);
        other = other ? tk_uop_bitcast(g, other, TOLK_F32) : NULL;
        root = other ? tk_softnarrow_round(g, dtype, tk_uop2(g, TK_OP_ADD, root, other)) : NULL;
        x = tk_llvm_cast_bits(f, TOLK_F32, TOLK_U32, x);
    }
    LLVMValueRef r = evaluate(f, root, (LLVMValueRef[]){code, x});
    tolk_graph_destroy(g);
    return r;
}

LLVMValueRef tk_llvm_code_widen(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef code) {
    return build(f, dtype, code, NULL);
}

LLVMValueRef tk_llvm_code_sum(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef code, LLVMValueRef x) {
    return x ? build(f, dtype, code, x) : NULL;
}

void tk_llvm_code_add(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef at, LLVMValueRef x) {
    tolk_dtype m = tk_softnarrow_code(dtype);
    tk_llvm_exchange loop;
    x = tk_llvm_code_widen(f, dtype, tk_llvm_build_convert(f, TK_LEGAL_ZEXT, m, TOLK_U32, x));
    LLVMValueRef old = x ? tk_llvm_build_exchange(f, m, at, &loop) : NULL;
    if (!old)
        return;
    LLVMValueRef sum =
        tk_llvm_code_sum(f, dtype, tk_llvm_build_convert(f, TK_LEGAL_ZEXT, m, TOLK_U32, old), x);
    tk_llvm_build_exchange_end(f, &loop,
                               tk_llvm_build_convert(f, TK_LEGAL_TRUNC, TOLK_U32, m, sum));
}
