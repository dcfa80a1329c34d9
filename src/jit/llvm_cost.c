/* SPDX-License-Identifier: MIT */
#include "jit/llvm_cost.h"

#include "ir/dtype.h"
#include "jit/llvm_emitter.h"

/* Pieces in which u is computed: those of its widest elements. */
static uint32_t pieces_of(const tk_llvm_fn *f, const tolk_uop *u) {
    uint32_t most = 1;
    for (uint32_t i = 0; i <= u->n_src; i++) {
        tolk_dtype dt = i < u->n_src ? u->src[i]->dtype : u->dtype;
        uint32_t n = tolk_dtype_lanes(dt);
        if (n > 1)
            n /= tk_llvm_wide_lanes(f, dt);
        most = n > most ? n : most;
    }
    return most;
}

/* Instructions of the machine that a load or store becomes, about. */
static uint32_t access_cost(const tk_llvm_fn *f, const tolk_uop *u) {
    bool is_store = tk_uop_is(u, TK_OP_STORE), gated = u->n_src == 3;
    tolk_dtype dtype = is_store ? u->src[1]->dtype : u->dtype;
    tolk_dtype piece = tk_llvm_wide_piece(dtype, tk_llvm_wide_lanes(f, dtype));
    uint32_t lanes = tolk_dtype_lanes(dtype), n = pieces_of(f, u);
    bool checked = !tk_uop_int(u, is_store ? TK_A_STORE_INBOUNDS : TK_A_LOAD_INBOUNDS);
    if (tk_access_is_reg(tk_access_base(u->src[0]->src[0])))
        return n;
    if (tk_uop_lanes(u->src[0]) > 1) {
        bool one = tk_llvm_build_has(f, is_store ? TK_LEGAL_SCATTER : TK_LEGAL_GATHER,
                                     tk_llvm_build_memory_dtype(piece));
        return (one ? 4 * n : (gated ? 7 : 3) * lanes) + (checked ? 6 * n + 16 : 0);
    }
    bool mask = tk_llvm_build_has(f, is_store ? TK_LEGAL_MSTORE : TK_LEGAL_MLOAD,
                                  tk_llvm_build_memory_dtype(piece));
    return (gated && lanes > 1 && !mask ? 6 * n + 16 : n + 1) + (checked ? 2 * n + 16 : 0);
}

/* The same of an elementwise op: of one piece. */
static uint32_t alu_cost(const tk_llvm_fn *f, const tolk_uop *u) {
    tolk_dtype dt = tk_dtype_scalar(u->src[0]->dtype);
    uint32_t bits = tk_dtype_bits(dt), lanes = tk_uop_lanes(u) / pieces_of(f, u);
    bool sse2 = f->classes & TK_LEGAL_ON_SSE2, is_float = tolk_dtype_is_float(dt);
    if (tk_uop_lanes(u) == 1)
        lanes = 1;
    switch (tk_uop_op(u)) {
    case TK_OP_CDIV:
    case TK_OP_CMOD:
    case TK_OP_FLOORDIV:
    case TK_OP_FLOORMOD:
        return 12 * lanes;
    case TK_OP_MUL:
    case TK_OP_MULACC:
        return is_float || lanes == 1 ? 1 : bits == 16 ? 2 : 8;
    case TK_OP_CMPLT:
    case TK_OP_CMPNE:
    case TK_OP_CMPEQ:
        return lanes == 1 ? 2 : is_float ? 2 : bits == 64 ? (sse2 ? 10 : 4) : 3;
    case TK_OP_WHERE:
        return sse2 ? 4 : 2;
    case TK_OP_MAX:
        return is_float ? 8 : bits == 64 ? (sse2 ? 14 : 5) : 4;
    case TK_OP_SHL:
    case TK_OP_SHR:
        return lanes == 1 ? 4 : 12;
    case TK_OP_CAST:
        if (dt == TOLK_F16 || tk_dtype_scalar(u->dtype) == TOLK_F16)
            return 3;
        return lanes == 1 ? 4 : 12;
    default:
        return 1;
    }
}

uint32_t tk_llvm_cost(const tk_llvm_fn *f, const tolk_uop *u) {
    tk_op op = tk_uop_op(u);
    uint32_t n = pieces_of(f, u), spills = n > 8 ? n / 2 : 0;
    if (op == TK_OP_ATOMIC_ADD)
        return (tk_uop_attr(u, TK_A_ATOMIC_ADD_CODE).blob ? 96 : 16) * tk_uop_lanes(u->src[1]);
    if (op == TK_OP_LOAD || op == TK_OP_STORE)
        return access_cost(f, u) + spills;
    if (tk_op_is_alu(op))
        return alu_cost(f, u) * n + spills;
    if (op == TK_OP_STACK && u->n_src > 1 && u->src[0] != u->src[u->n_src - 1])
        return u->n_src;
    return 1;
}
