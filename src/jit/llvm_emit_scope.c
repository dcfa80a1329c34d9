/* SPDX-License-Identifier: MIT
 *
 * What loops and ifs change: elements of reg buffers, which are values from the start. Loops and
 * ifs are structured, so that each knows beforehand which elements are stored inside, and gets a
 * phi for each of those. Loops are rotated: a guard, then a body with the test at its end.
 */
#include "jit/llvm_emitter.h"

#include "jit/pass.h"

enum { MAX_REGS = 1 << 14 };

/* ---- reg elements ---- */

/* Pieces that the elements of a reg buffer take. */
uint32_t tk_emit_reg_pieces(const tk_emitter *e, const tolk_uop *buffer) {
    return tolk_dtype_lanes(buffer->dtype) / tk_llvm_wide_lanes(&e->f, buffer->dtype);
}

/* Number of the first piece of an element. */
bool tk_emit_reg_number(tk_emitter *e, const tolk_uop *place, uint32_t *out) {
    const tolk_uop *buffer = tk_access_base(place->src[0]),
                   *i = place->n_src > 1 ? place->src[1] : NULL;
    uint64_t *first = tk_map_find(&e->reg_first, buffer->id);
    if (!first || !i || !tk_uop_is_const(i) || i->attr[0].i < 0 ||
        i->attr[0].i >= buffer->src[0]->attr[0].i)
        return tk_emit_broken(e, place, "no element of a reg buffer");
    *out = (uint32_t)(*first + (uint64_t)i->attr[0].i * tk_emit_reg_pieces(e, buffer));
    return true;
}

bool tk_emit_add_regs(tk_emitter *e, const tolk_uop *buffer) {
    if (tk_map_find(&e->reg_first, buffer->id))
        return true;
    if (!buffer->n_src || !tk_uop_is_const(buffer->src[0]) || buffer->src[0]->attr[0].i < 0)
        return tk_emit_broken(e, buffer, "a reg buffer without a constant size");
    if (!tk_llvm_legal_type(buffer->dtype)) {
        tk_llvm_build_unsupported(&e->f, "buffer", buffer->dtype);
        return false;
    }
    uint64_t n = tk_uop_bits(buffer->src[0]), first = e->reg.n;
    if (n <= MAX_REGS)
        n *= tk_emit_reg_pieces(e, buffer);
    if (n > MAX_REGS || first + n > MAX_REGS) {
        tk_llvm_build_fail(&e->f, TOLK_E_LIMIT, "more than %d registers in reg buffers", MAX_REGS);
        return false;
    }
    LLVMValueRef zero = tk_llvm_build_zero(
        &e->f, tk_llvm_wide_piece(buffer->dtype, tk_llvm_wide_lanes(&e->f, buffer->dtype)));
    for (uint64_t i = 0; i < n; i++)
        if (!tk_vec_push(&e->reg, zero))
            return tk_emit_out_of_memory(e);
    return tk_map_put(&e->reg_first, buffer->id, first) || tk_emit_out_of_memory(e);
}

/* ---- which are stored where ---- */

static uint64_t *set_of(tk_emitter *e, uint32_t set) {
    return e->set_words ? e->stored.at + set * e->set_words : NULL; /* none without registers */
}

/* Which reg elements are stored inside each loop and if. */
bool tk_emit_survey_stores(tk_emitter *e) {
    TK_VEC(uint32_t) open;
    tk_vec_init(&open, e->al);
    uint32_t n = 0;
    bool ok = true;
    for (uint32_t i = 0; ok && i < e->linear->n_src; i++) {
        const tolk_uop *u = e->linear->src[i];
        switch (tk_uop_op(u)) {
        case TK_OP_RANGE:
        case TK_OP_IF:
            ok = tk_vec_push(&open, n) || tk_emit_out_of_memory(e);
            n++;
            break;
        case TK_OP_END:
        case TK_OP_ENDIF: {
            if (!open.n) {
                ok = tk_emit_broken(e, u, "closes nothing");
                break;
            }
            uint32_t inner = tk_vec_pop(&open);
            for (size_t w = 0; open.n && w < e->set_words; w++)
                set_of(e, tk_vec_last(&open))[w] |= set_of(e, inner)[w];
            break;
        }
        case TK_OP_STORE: {
            uint32_t reg;
            if (!open.n || !tk_uop_is(u->src[0], TK_OP_INDEX) ||
                !tk_access_is_reg(tk_access_base(u->src[0]->src[0])))
                break;
            ok = tk_emit_reg_number(e, u->src[0], &reg);
            for (uint32_t n = ok ? tk_emit_reg_pieces(e, tk_access_base(u->src[0]->src[0])) : 0;
                 n--; reg++)
                set_of(e, tk_vec_last(&open))[reg / 64] |= (uint64_t)1 << reg % 64;
            break;
        }
        default:
            break;
        }
    }
    tk_vec_fini(&open);
    return ok;
}

/* ---- scopes ---- */

/* The bits of a scope's set, one after the other: *reg from the given one on. */
static bool next_stored(tk_emitter *e, uint32_t set, uint32_t *reg) {
    const uint64_t *words = set_of(e, set);
    for (size_t w = *reg / 64; w < e->set_words; w++) {
        uint64_t bits = words[w] & (w == *reg / 64 ? UINT64_MAX << *reg % 64 : UINT64_MAX);
        if (bits) {
            *reg = (uint32_t)(w * 64) + (uint32_t)__builtin_ctzll(bits);
            return true;
        }
    }
    return false;
}

/* Enter a scope: in a loop's header (is_loop) each element stored inside gets a phi. */
static bool open_scope(tk_emitter *e, tk_emit_scope *s, bool is_loop) {
    s->set = e->next_set++;
    s->first_saved = e->saved.n;
    for (uint32_t r = 0; next_stored(e, s->set, &r); r++) {
        tk_emit_saved v = {r, e->reg.at[r], NULL};
        if (is_loop) {
            v.phi = LLVMBuildPhi(e->f.b, LLVMTypeOf(v.before), "");
            LLVMAddIncoming(v.phi, &v.before, &s->before, 1);
            e->reg.at[r] = v.phi;
        }
        if (!tk_vec_push(&e->saved, v))
            return tk_emit_out_of_memory(e);
    }
    return tk_vec_push(&e->scopes, *s) || tk_emit_out_of_memory(e);
}

/* In the block after a scope that need not have run: the elements as they were before, or as they
 * are at the end of the scope, in block `end`. */
static bool merge_regs(tk_emitter *e, const tk_emit_scope *s, LLVMBasicBlockRef end) {
    for (size_t i = s->first_saved; i < e->saved.n; i++) {
        tk_emit_saved v = e->saved.at[i];
        LLVMValueRef now = e->reg.at[v.reg];
        e->reg.at[v.reg] = tk_llvm_build_phi(&e->f, LLVMTypeOf(now), v.before, s->before, now, end);
    }
    e->saved.n = s->first_saved;
    return e->f.status == TOLK_OK;
}

LLVMBasicBlockRef tk_emit_leave(tk_emitter *e) {
    if (!e->leave)
        e->leave = tk_llvm_build_block(&e->f, "leave");
    return e->leave;
}

/* One look at the cancel flag; the function returns at once when it is set. */
static bool poll(tk_emitter *e) {
    tk_llvm_fn *f = &e->f;
    LLVMBasicBlockRef go_on = tk_llvm_build_block(f, "go_on");
    LLVMValueRef flag = tk_llvm_build_load(f, TOLK_U32, e->cancel);
    if (!flag)
        return false;
    LLVMSetAlignment(flag, 4); /* it is tolk's own: an atomic load of any address is a call */
    LLVMSetOrdering(flag, LLVMAtomicOrderingMonotonic);
    LLVMValueRef set =
        tk_llvm_build_bin(f, TK_LEGAL_NE, TOLK_U32, flag, tk_llvm_build_zero(f, TOLK_U32));
    tk_llvm_build_branch(f, set, tk_emit_leave(e), go_on, TK_LLVM_UNLIKELY);
    tk_llvm_build_enter(f, go_on);
    return true;
}

bool tk_emit_open_loop(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_fn *f = &e->f;
    const tolk_uop *size = tk_access_base(u->src[0]);
    tk_emit_scope s = {
        .opener = u, .before = LLVMGetInsertBlock(f->b), .size = tk_emit_value(e, size)};
    if (!s.size)
        return false;
    s.body = tk_llvm_build_block(f, "loop");
    s.after = tk_llvm_build_block(f, "after");
    LLVMValueRef zero = tk_llvm_build_zero(f, TOLK_INDEX);
    s.guarded = !(tk_uop_is_const(size) && size->attr[0].i > 0);
    if (s.guarded)
        tk_llvm_build_branch(f, tk_llvm_build_bin(f, TK_LEGAL_SLT, TOLK_INDEX, zero, s.size),
                             s.body, s.after, TK_LLVM_EVEN);
    else
        tk_llvm_build_jump(f, s.body);
    tk_llvm_build_enter(f, s.body);
    s.counter = LLVMBuildPhi(f->b, tk_llvm_build_type(f, TOLK_INDEX), "");
    LLVMAddIncoming(s.counter, &zero, &s.before, 1);
    return open_scope(e, &s, true) && tk_emit_set_value(e, u, s.counter) &&
           (!e->cancel || !tk_uop_int(u, TK_A_RANGE_POLL) || poll(e));
}

bool tk_emit_close_loop(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_fn *f = &e->f;
    tk_emit_scope s = tk_vec_pop(&e->scopes);
    if (s.opener != u->src[0])
        return tk_emit_broken(e, u, "closes another loop than the innermost");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(f->b);
    LLVMValueRef one = tk_llvm_build_const(f, TOLK_INDEX, 1);
    LLVMValueRef next = LLVMBuildNSWAdd(f->b, s.counter, one, ""); /* at most the size */
    LLVMAddIncoming(s.counter, &next, &latch, 1);
    for (size_t i = s.first_saved; i < e->saved.n; i++) {
        tk_emit_saved v = e->saved.at[i];
        LLVMAddIncoming(v.phi, &e->reg.at[v.reg], &latch, 1);
    }
    tk_llvm_build_branch(f, tk_llvm_build_bin(f, TK_LEGAL_SLT, TOLK_INDEX, next, s.size), s.body,
                         s.after, TK_LLVM_EVEN);
    tk_llvm_build_enter(f, s.after);
    if (s.guarded)
        return merge_regs(e, &s, latch);
    e->saved.n = s.first_saved;
    return f->status == TOLK_OK;
}

/* Ifs guard what few lanes need (slow bodies of functions): laid out aside. */
bool tk_emit_open_if(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_fn *f = &e->f;
    tk_emit_scope s = {.opener = u};
    tk_llvm_wide x;
    if (!tk_emit_wide(e, u->src[0], &x))
        return false;
    LLVMValueRef cond = tk_llvm_wide_mask(f, TK_LEGAL_ANY, u->src[0]->dtype, &x);
    if (!cond)
        return false;
    s.before = LLVMGetInsertBlock(f->b);
    s.body = tk_llvm_build_block(f, "if");
    s.after = tk_llvm_build_block(f, "endif");
    tk_llvm_build_branch(f, cond, s.body, s.after, TK_LLVM_UNLIKELY);
    tk_llvm_build_enter(f, s.body);
    return open_scope(e, &s, false);
}

bool tk_emit_close_if(tk_emitter *e, const tolk_uop *u) {
    tk_emit_scope s = tk_vec_pop(&e->scopes);
    if (s.opener != u->src[0])
        return tk_emit_broken(e, u, "closes another if than the innermost");
    LLVMBasicBlockRef end = LLVMGetInsertBlock(e->f.b);
    tk_llvm_build_jump(&e->f, s.after);
    tk_llvm_build_enter(&e->f, s.after);
    return merge_regs(e, &s, end);
}
