/* SPDX-License-Identifier: MIT
 *
 * Walks a program's list once and builds one LLVM function.
 */
#include "jit/llvm_api.h"

#include "ir/bounds.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/params.h"
#include "jit/affine.h"
#include "jit/items.h"
#include "jit/kenv.h"
#include "jit/llvm_alu.h"
#include "jit/llvm_cast.h"
#include "jit/llvm_cost.h"
#include "jit/llvm_emitter.h"
#include "jit/llvm_mem.h"
#include "jit/llvm_object.h"
#include "jit/llvm_pool.h"
#include "jit/llvm_ptx.h"
#include "jit/llvm_wide.h"
#include "jit/pass.h"

enum {
    MAX_COST = 1 << 16, /* of a program, in instructions of the machine: some seconds */
    MAX_BLOCK_COST = 1024,
    MAX_REG_BITS = 1 << 26, /* of the sets of elements stored in loops */
    STREAM_ALIGN = 64       /* of buffers whose stores go around the caches */
};

bool tk_emit_out_of_memory(tk_emitter *e) {
    tk_llvm_build_fail(&e->f, TOLK_E_NOMEM, "out of memory");
    return false;
}

bool tk_emit_broken(tk_emitter *e, const tolk_uop *u, const char *why) {
    tk_llvm_build_fail(&e->f, TOLK_E_VERIFY, "%s: %s", tk_op_get(tk_uop_op(u))->name, why);
    return false;
}

static bool is_gpu(const tk_emitter *e) {
    return tk_target_is_gpu(e->f.target);
}

/* ---- values ---- */

/* In values: the first piece * PIECES + the number of them. */
enum { PIECES = TOLK_MAX_LANES + 1 };

bool tk_emit_set_wide(tk_emitter *e, const tolk_uop *u, const tk_llvm_wide *x) {
    if (e->f.status != TOLK_OK)
        return false;
    size_t first = e->pieces.n;
    for (uint32_t i = 0; i < x->n; i++) {
        if (!x->at[i])
            return tk_emit_broken(e, u, "it has no value");
        if (!tk_vec_push(&e->pieces, x->at[i]))
            return tk_emit_out_of_memory(e);
    }
    return tk_map_put(&e->values, u->id, first * PIECES + x->n) || tk_emit_out_of_memory(e);
}

bool tk_emit_set_value(tk_emitter *e, const tolk_uop *u, LLVMValueRef v) {
    tk_llvm_wide x = {.n = 1, .at = {v}};
    return tk_emit_set_wide(e, u, &x);
}

bool tk_emit_wide(tk_emitter *e, const tolk_uop *u, tk_llvm_wide *out) {
    u = tk_access_base(u);
    out->n = 0;
    uint64_t *at = tk_map_find(&e->values, u->id);
    if (!at) {
        if (!tk_uop_is_const(u))
            return tk_emit_broken(e, u, "used before it is made");
        if (!tk_llvm_legal_type(u->dtype)) {
            tk_llvm_build_unsupported(&e->f, "const", u->dtype);
            return false;
        }
        tk_llvm_wide_const(&e->f, u->dtype, tk_uop_bits(u), out);
        return tk_emit_set_wide(e, u, out);
    }
    out->n = (uint32_t)(*at % PIECES);
    for (uint32_t i = 0; i < out->n; i++)
        out->at[i] = e->pieces.at[*at / PIECES + i];
    return true;
}

LLVMValueRef tk_emit_value(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_wide x;
    if (!tk_emit_wide(e, u, &x))
        return NULL;
    if (x.n == 1)
        return x.at[0];
    tk_emit_broken(e, u, "a vector where a scalar is expected");
    return NULL;
}

/* ---- before the walk ---- */

/* Sizes, and the elements of reg buffers. */
static bool survey(tk_emitter *e) {
    const tolk_uop *l = e->linear;
    uint64_t cost = 0, openers = 0;
    if (l->n_src > TK_PROGRAM_MAX) {
        tk_llvm_build_fail(&e->f, TOLK_E_LIMIT, "a program of %u instructions, the most are %d",
                           l->n_src, TK_PROGRAM_MAX);
        return false;
    }
    for (uint32_t i = 0; i < l->n_src; i++) {
        const tolk_uop *u = l->src[i];
        if (tk_access_is_reg(u) && !tk_emit_add_regs(e, u))
            return false;
        openers += tk_uop_is(u, TK_OP_RANGE) || tk_uop_is(u, TK_OP_IF);
        uint32_t bytes = (uint32_t)tolk_dtype_bytes(u->dtype) * tk_uop_lanes(u);
        if (tk_uop_lanes(u) > 1 && bytes > e->widest)
            e->widest = bytes < e->f.target->vec_bytes ? bytes : e->f.target->vec_bytes;
        cost += tk_llvm_cost(&e->f, u);
        if (cost > MAX_COST) {
            tk_llvm_build_fail(&e->f, TOLK_E_LIMIT,
                               "a program that would become more than about %d instructions of "
                               "the machine",
                               MAX_COST);
            return false;
        }
    }
    e->set_words = (e->reg.n + 63) / 64;
    if (openers * e->set_words > MAX_REG_BITS / 64) {
        tk_llvm_build_fail(&e->f, TOLK_E_LIMIT, "too many loops over too many reg elements");
        return false;
    }
    size_t words = openers * e->set_words;
    return words == 0 || tk_vec_resize(&e->stored, words) || tk_emit_out_of_memory(e);
}

/* ---- params ---- */

static LLVMValueRef argument(tk_emitter *e, LLVMValueRef array, uint32_t place, LLVMTypeRef type) {
    tk_llvm_fn *f = &e->f;
    LLVMValueRef at =
        tk_llvm_build_address(f, TOLK_I64, array, tk_llvm_build_const(f, TOLK_INDEX, place), true);
    LLVMValueRef x = LLVMBuildLoad2(f->b, type, at, "");
    LLVMSetAlignment(x, 8);
    return x;
}

/* Scalars come in 64 bits, floats as bit patterns in the low ones. */
static LLVMValueRef scalar_argument(tk_emitter *e, const tk_param *p) {
    tk_llvm_fn *f = &e->f;
    if (!tk_llvm_legal_type(p->dtype))
        return tk_llvm_build_unsupported(f, "param", p->dtype);
    LLVMValueRef x = argument(e, f->vals, p->place, tk_llvm_build_type(f, TOLK_I64));
    if (!tolk_dtype_is_float(p->dtype))
        return tk_llvm_cast(f, TOLK_I64, p->dtype, x);
    tolk_dtype bits = tk_dtype_bits(p->dtype) == 32 ? TOLK_U32 : TOLK_U64;
    return tk_llvm_cast_bits(f, bits, p->dtype, tk_llvm_cast(f, TOLK_U64, bits, x));
}

static bool emit_params(tk_emitter *e) {
    for (size_t i = 0; i < e->params->list.n; i++) {
        const tk_param *p = &e->params->list.at[i];
        LLVMValueRef x = is_gpu(e) ? tk_llvm_ptx_param(&e->f, e->params, p)
                         : p->is_scalar
                             ? scalar_argument(e, p)
                             : argument(e, e->f.bufs, p->place, tk_llvm_build_pointer_type(&e->f));
        if (!tk_emit_set_value(e, p->node, x))
            return false;
    }
    return true;
}

/* ---- memory ---- */

/* Elements of the dynamic local buffer in this launch. */
static LLVMValueRef dynamic_elements(tk_emitter *e, const tolk_uop *buffer) {
    tk_llvm_fn *f = &e->f;
    if (is_gpu(e))
        return tk_llvm_ptx_dynamic_elements(f, buffer->dtype, e->shared);
    LLVMValueRef at = tk_llvm_build_address(
        f, TOLK_U8, f->env, tk_llvm_build_const(f, TOLK_INDEX, offsetof(tolk_kenv, dynamic_bytes)),
        true);
    LLVMValueRef bytes = tk_llvm_build_load(f, TOLK_INDEX, at);
    LLVMValueRef each = tk_llvm_build_const(f, TOLK_INDEX, tolk_dtype_bytes(buffer->dtype));
    return tk_llvm_build_bin(f, TK_LEGAL_UDIV, TOLK_U64, bytes, each);
}

static bool describe(tk_emitter *e, const tolk_uop *u, tolk_dtype dtype, tk_llvm_access *a) {
    const tolk_uop *place = u->src[0], *buffer = tk_access_base(place->src[0]);
    bool adds = tk_uop_is(u, TK_OP_ATOMIC_ADD), is_store = adds || tk_uop_is(u, TK_OP_STORE);
    if (!tk_uop_is(place, TK_OP_INDEX) || place->n_src != 2)
        return tk_emit_broken(e, u, "operand 0 is no place in a buffer");
    const tolk_uop *size = buffer->n_src ? buffer->src[0] : NULL;
    *a = (tk_llvm_access){.dtype = dtype,
                          .base = tk_emit_value(e, buffer),
                          .scattered = tk_uop_lanes(place) > 1,
                          .const_size = -1,
                          .fault_slot = tk_uop_is(buffer, TK_OP_PARAM)
                                            ? (uint32_t)tk_uop_int(buffer, TK_A_PARAM_SLOT)
                                            : UINT32_MAX};
    a->gated = u->n_src == 3;
    if (!tk_emit_wide(e, place->src[1], &a->index) ||
        (a->gated && !tk_emit_wide(e, u->src[2], &a->gate)) ||
        ((is_store || a->gated) && !tk_emit_wide(e, u->src[1], &a->value)))
        return false;
    bool inbounds = tk_uop_int(u, adds       ? TK_A_ATOMIC_ADD_INBOUNDS
                                  : is_store ? TK_A_STORE_INBOUNDS
                                             : TK_A_LOAD_INBOUNDS) != 0;
    if (inbounds)
        return e->f.status == TOLK_OK;
    if (tk_uop_is(buffer, TK_OP_BUFFER) && tk_uop_int(buffer, TK_A_BUFFER_DYNAMIC)) {
        a->size = dynamic_elements(e, buffer);
        return e->f.status == TOLK_OK;
    }
    if (!size)
        return tk_emit_broken(e, buffer, "no number of elements to check an access against");
    a->size = tk_emit_value(e, size);
    if (tk_uop_is_const(size))
        a->const_size = size->attr[0].i;
    return e->f.status == TOLK_OK;
}

/* A vector access of a GPU whose buffer may not be aligned to it: shared memory always is. */
static bool is_wide(const tk_emitter *e, const tolk_uop *u) {
    bool load = tk_uop_is(u, TK_OP_LOAD), store = tk_uop_is(u, TK_OP_STORE);
    return is_gpu(e) && (load || store) && tk_uop_lanes(load ? u : u->src[1]) > 1 &&
           tk_uop_is(tk_access_base(u->src[0]->src[0]), TK_OP_PARAM);
}

static bool emit_load(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_wide x;
    if (tk_access_is_reg(tk_access_base(u->src[0]->src[0]))) {
        uint32_t reg;
        if (!tk_emit_reg_number(e, u->src[0], &reg))
            return false;
        x.n = tk_emit_reg_pieces(e, tk_access_base(u->src[0]->src[0]));
        for (uint32_t i = 0; i < x.n; i++)
            x.at[i] = e->reg.at[reg + i];
        return tk_emit_set_wide(e, u, &x);
    }
    tk_llvm_access a;
    if (!describe(e, u, u->dtype, &a))
        return false;
    if (is_gpu(e))
        return tk_emit_set_value(e, u,
                                 tk_llvm_ptx_load(&e->f, &a, is_wide(e, u) && !e->streaming,
                                                  tk_uop_int(u, TK_A_LOAD_READONLY) != 0));
    return tk_llvm_mem_load(&e->f, &a, &x) && tk_emit_set_wide(e, u, &x);
}

/* Around the caches go whole vectors at places that are aligned if the buffer is. */
static bool is_streamed(const tolk_uop *u) {
    if (!tk_uop_is(u, TK_OP_STORE) || !tk_uop_int(u, TK_A_STORE_STREAM) ||
        !tk_uop_int(u, TK_A_STORE_INBOUNDS) || u->n_src != 2 ||
        tk_dtype_scalar(u->src[1]->dtype) == TOLK_BOOL || tk_uop_lanes(u->src[1]) < 2 ||
        tk_uop_lanes(u->src[0]) != 1 || !tk_uop_is(tk_access_base(u->src[0]->src[0]), TK_OP_PARAM))
        return false;
    int64_t elem = (int64_t)tolk_dtype_bytes(u->src[1]->dtype), lanes = tk_uop_lanes(u->src[1]);
    int64_t need = elem * lanes < STREAM_ALIGN ? elem * lanes : STREAM_ALIGN;
    return tk_affine_divisor(u->src[0]->src[1]) * elem >= need;
}

/* A store around the caches, of a whole vector at a place that is aligned to it. */
static bool stream_store(tk_emitter *e, const tk_llvm_access *a) {
    tk_llvm_fn *f = &e->f;
    tk_llvm_wide x = a->value;
    uint32_t lanes = tk_llvm_wide_lanes(f, a->dtype);
    tk_llvm_wide_cut(f, a->dtype, &x, lanes);
    for (uint32_t i = 0; i < x.n; i++) {
        LLVMValueRef place =
            tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, a->index.at[0],
                              tk_llvm_build_const(f, TOLK_INDEX, (uint64_t)i * lanes));
        LLVMValueRef at = tk_llvm_build_address(f, a->dtype, a->base, place, true);
        tk_llvm_build_stream(f, tk_llvm_wide_piece(a->dtype, lanes), at, x.at[i]);
    }
    return f->status == TOLK_OK;
}

static bool emit_store(tk_emitter *e, const tolk_uop *u) {
    if (tk_access_is_reg(tk_access_base(u->src[0]->src[0]))) {
        uint32_t reg;
        tk_llvm_wide x;
        if (!tk_emit_wide(e, u->src[1], &x) || !tk_emit_reg_number(e, u->src[0], &reg))
            return false;
        tk_llvm_wide_cut(&e->f, u->src[1]->dtype, &x, tk_llvm_wide_lanes(&e->f, u->src[1]->dtype));
        for (uint32_t i = 0; i < x.n; i++)
            e->reg.at[reg + i] = x.at[i];
        return e->f.status == TOLK_OK;
    }
    tk_llvm_access a;
    if (!describe(e, u, u->src[1]->dtype, &a))
        return false;
    if (is_gpu(e))
        return tk_llvm_ptx_store(&e->f, &a, is_wide(e, u) && !e->streaming);
    return e->streaming && is_streamed(u) ? stream_store(e, &a) : tk_llvm_mem_store(&e->f, &a);
}

/* ---- lanes ---- */

/* Operand i of a STACK as lane *lane of piece *at of a vector; false: it is something else. */
static bool is_lane(tk_emitter *e, const tolk_uop *x, LLVMValueRef *at, uint32_t *lane) {
    if (!tk_uop_is(x, TK_OP_INDEX) || tk_uop_lanes(x->src[0]) < 2 ||
        tk_check_is_buffer(tk_access_base(x->src[0])))
        return false;
    tk_llvm_wide v;
    if (!tk_emit_wide(e, x->src[0], &v))
        return false;
    uint32_t lanes = tk_uop_lanes(x->src[0]) / v.n, k = (uint32_t)x->src[1]->attr[0].i;
    *at = v.at[k / lanes];
    *lane = k % lanes;
    return true;
}

/* Lanes [from, from + n) of a STACK that are those of one or two pieces of equal type, in any
 * order: one shuffle, or none. NULL: they are not. */
static LLVMValueRef shuffled(tk_emitter *e, const tolk_uop *u, uint32_t from, uint32_t n) {
    LLVMValueRef of[2] = {NULL, NULL};
    uint8_t lanes[TOLK_MAX_LANES];
    bool in_order = true;
    if (tk_dtype_scalar(u->dtype) == TOLK_BOOL)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        LLVMValueRef at;
        uint32_t lane;
        if (!is_lane(e, u->src[from + i], &at, &lane))
            return NULL;
        uint32_t k = !of[0] || of[0] == at ? 0 : 1;
        if ((of[k] && of[k] != at) || (k && LLVMTypeOf(at) != LLVMTypeOf(of[0])))
            return NULL;
        of[k] = at;
        lanes[i] = (uint8_t)(lane + (k ? LLVMGetVectorSize(LLVMTypeOf(at)) : 0));
        in_order &= lanes[i] == i;
    }
    if (in_order && LLVMGetVectorSize(LLVMTypeOf(of[0])) == n)
        return of[0];
    tolk_dtype piece = tk_llvm_wide_piece(u->dtype, LLVMGetVectorSize(LLVMTypeOf(of[0])));
    return tk_llvm_build_shuffle(&e->f, piece, of[0], of[1], lanes, n);
}

/* The same for any: lanes that are constants at once, the others put in one by one. Bools as bytes:
 * single lanes of masks are dear. */
static LLVMValueRef assembled(tk_emitter *e, const tolk_uop *u, uint32_t from, uint32_t n) {
    tk_llvm_fn *f = &e->f;
    tolk_dtype dtype = tk_llvm_wide_piece(u->dtype, n), m = tk_llvm_build_memory_dtype(dtype);
    tolk_dtype element = tk_dtype_scalar(m);
    const tolk_uop *const *src = u->src + from;
    LLVMValueRef lane[TOLK_MAX_LANES];
    for (uint32_t i = 0; i < n; i++)
        lane[i] = tk_uop_is_const(src[i]) ? tk_llvm_build_const(f, element, tk_uop_bits(src[i]))
                                          : LLVMGetPoison(tk_llvm_build_type(f, element));
    LLVMValueRef v = LLVMConstVector(lane, n);
    for (uint32_t i = 0; i < n; i++)
        if (!tk_uop_is_const(src[i]))
            v = tk_llvm_build_insert(
                f, m, v,
                tk_llvm_cast(f, tk_dtype_scalar(u->dtype), element, tk_emit_value(e, src[i])), i);
    return tk_llvm_cast(f, m, dtype, v);
}

static bool emit_stack(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_fn *f = &e->f;
    if (!tk_llvm_legal_type(u->dtype)) {
        tk_llvm_build_unsupported(f, "stack", u->dtype);
        return false;
    }
    if (tk_uop_lanes(u) != u->n_src || u->n_src > TOLK_MAX_LANES)
        return tk_emit_broken(e, u, "not one operand a lane");
    tk_llvm_wide x;
    bool splat = true;
    for (uint32_t i = 1; i < u->n_src; i++)
        splat &= u->src[i] == u->src[0];
    if (is_gpu(e)) /* what a vector store takes */
        return tk_emit_set_value(e, u, assembled(e, u, 0, u->n_src));
    if (splat && !tk_uop_is_const(u->src[0])) {
        tk_llvm_wide_splat(f, u->dtype, tk_emit_value(e, u->src[0]), &x);
        return tk_emit_set_wide(e, u, &x);
    }
    uint32_t lanes = tk_llvm_wide_lanes(f, u->dtype);
    x.n = u->n_src / lanes;
    for (uint32_t i = 0; i < x.n; i++) {
        x.at[i] = shuffled(e, u, i * lanes, lanes);
        if (!x.at[i])
            x.at[i] = assembled(e, u, i * lanes, lanes);
    }
    return tk_emit_set_wide(e, u, &x);
}

/* A place is looked at by its load or store; otherwise a lane. */
static bool emit_index(tk_emitter *e, const tolk_uop *u) {
    const tolk_uop *v = tk_access_base(u->src[0]);
    if (tk_check_is_buffer(v))
        return true;
    if (u->n_src != 2 || !tk_uop_is_const(u->src[1]) || u->src[1]->attr[0].i < 0 ||
        u->src[1]->attr[0].i >= tk_uop_lanes(v))
        return tk_emit_broken(e, u, "no constant lane of a vector");
    tk_llvm_wide x;
    return tk_emit_wide(e, v, &x) &&
           tk_emit_set_value(
               e, u, tk_llvm_wide_lane(&e->f, v->dtype, &x, (uint32_t)u->src[1]->attr[0].i));
}

/* ---- the walk ---- */

/* Threads of a GPU's block, the most there can be. exactly: their number, 0 if it is not known. */
static uint32_t block_threads(const tk_emitter *e, bool exactly) {
    uint32_t n = 1;
    for (uint32_t i = 0; i < e->linear->n_src; i++) {
        const tolk_uop *u = e->linear->src[i];
        if (!tk_uop_is(u, TK_OP_SPECIAL) ||
            tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), NULL) != TK_SPECIAL_LIDX)
            continue;
        tk_bound b = tk_bounds(u->src[0]);
        if (exactly && !tk_uop_is_const(u->src[0]))
            return 0;
        if (b.state != 1 || b.hi > TK_TARGET_MOST_THREADS / n)
            return exactly ? 0 : TK_TARGET_MOST_THREADS;
        n *= b.hi > 1 ? (uint32_t)b.hi : 1;
    }
    return n;
}

static bool emit_special(tk_emitter *e, const tolk_uop *u) {
    int dim;
    tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), &dim);
    if (is_gpu(e) && kind == TK_SPECIAL_GIDX) {
        tk_bound b = tk_bounds(u->src[0]);
        bool wide = dim == 0 && (b.state != 1 || b.hi > INT32_MAX);
        return tk_emit_set_value(e, u, tk_llvm_ptx_block(&e->f, dim, wide));
    }
    if (is_gpu(e) && kind == TK_SPECIAL_LIDX)
        return tk_emit_set_value(e, u, tk_llvm_ptx_thread(&e->f, dim));
    if (kind == TK_SPECIAL_SPAN_BEGIN)
        return tk_emit_set_value(e, u, e->f.begin);
    if (kind == TK_SPECIAL_SPAN_END)
        return tk_emit_set_value(e, u, e->f.end);
    tk_llvm_build_unsupported(&e->f, tk_uop_str(u, TK_A_SPECIAL_NAME), u->dtype);
    return false;
}

/* Lanes in which u is computed at once: those of the widest elements among its operands and result.
 * Masks, and what is narrowed, follow the others. */
static uint32_t lanes_of(const tk_emitter *e, const tolk_uop *u, const tk_llvm_wide *s) {
    uint32_t lanes = tk_uop_lanes(u);
    bool masks_only = true;
    for (uint32_t i = 0; i <= u->n_src; i++) {
        tolk_dtype dt = i < u->n_src ? u->src[i]->dtype : u->dtype;
        if (tk_dtype_scalar(dt) == TOLK_BOOL)
            continue;
        uint32_t n = tk_llvm_wide_lanes(&e->f, dt);
        lanes = n < lanes ? n : lanes;
        masks_only = false;
    }
    for (uint32_t i = 0; masks_only && i < u->n_src; i++) {
        uint32_t n = tk_uop_lanes(u) / s[i].n;
        lanes = n < lanes ? n : lanes;
    }
    return lanes;
}

/* Integers cut down to fewer bits: whole registers of the result at once, which is what the code
 * generator packs best. */
static bool is_narrowing(const tolk_uop *u) {
    tolk_dtype from = u->src[0]->dtype;
    return tk_uop_is(u, TK_OP_CAST) && !tolk_dtype_is_float(from) &&
           !tolk_dtype_is_float(u->dtype) && tk_dtype_scalar(u->dtype) != TOLK_BOOL &&
           tk_dtype_bits(tk_dtype_scalar(u->dtype)) < tk_dtype_bits(tk_dtype_scalar(from));
}

static bool emit_alu(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_fn *f = &e->f;
    tk_llvm_wide s[3], r;
    for (uint32_t i = 0; i < u->n_src; i++)
        if (!tk_emit_wide(e, u->src[i], &s[i]))
            return false;
    uint32_t lanes = is_narrowing(u) ? tk_llvm_wide_lanes(f, u->dtype) : lanes_of(e, u, s);
    tolk_dtype from = tk_llvm_wide_piece(u->src[0]->dtype, lanes),
               to = tk_llvm_wide_piece(u->dtype, lanes);
    for (uint32_t i = 0; i < u->n_src; i++)
        tk_llvm_wide_cut(f, u->src[i]->dtype, &s[i], lanes);
    r.n = tk_uop_lanes(u) / lanes;
    for (uint32_t k = 0; k < r.n && f->status == TOLK_OK; k++) {
        LLVMValueRef x[3] = {s[0].at[k], u->n_src > 1 ? s[1].at[k] : NULL,
                             u->n_src > 2 ? s[2].at[k] : NULL};
        r.at[k] = tk_uop_is(u, TK_OP_CAST)      ? tk_llvm_cast(f, from, to, x[0])
                  : tk_uop_is(u, TK_OP_BITCAST) ? tk_llvm_cast_bits(f, from, to, x[0])
                                                : tk_llvm_alu(f, u, lanes, x);
    }
    if (f->status == TOLK_OK && tk_dtype_scalar(u->dtype) != TOLK_BOOL)
        tk_llvm_wide_cut(f, u->dtype, &r, tk_llvm_wide_lanes(f, u->dtype));
    return tk_emit_set_wide(e, u, &r);
}

/* Local memory: a piece of the launch's scratch memory, on cache lines of its own. */
static bool emit_local(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_fn *f = &e->f;
    bool dynamic = tk_uop_int(u, TK_A_BUFFER_DYNAMIC);
    if (!tk_llvm_legal_type(u->dtype) || (!u->n_src && !dynamic)) {
        tk_llvm_build_unsupported(f, "local memory of this kind,", u->dtype);
        return false;
    }
    LLVMValueRef at = tk_llvm_build_address(
        f, TOLK_U8, f->env, tk_llvm_build_const(f, TOLK_INDEX, offsetof(tolk_kenv, scratch)), true);
    LLVMValueRef scratch = LLVMBuildLoad2(f->b, tk_llvm_build_pointer_type(f), at, "");
    LLVMSetAlignment(scratch, 8);
    LLVMValueRef zero = tk_llvm_build_zero(f, TOLK_INDEX);
    LLVMValueRef offset = e->local_end ? e->local_end : zero;
    LLVMValueRef base = tk_llvm_build_address(f, TOLK_U8, scratch, offset, true);
    if (dynamic) /* the last one */
        return tk_emit_set_value(e, u, base);
    /* As tk_items_scratch() adds them up. */
    uint64_t each = tolk_dtype_bytes(u->dtype) * tk_uop_lanes(u);
    LLVMValueRef bytes = tk_emit_value(e, u->src[0]);
    bytes = tk_llvm_build_bin(f, TK_LEGAL_SMAX, TOLK_INDEX, bytes, zero);
    bytes = tk_llvm_build_bin(f, TK_LEGAL_MUL, TOLK_INDEX, bytes,
                              tk_llvm_build_const(f, TOLK_INDEX, each));
    bytes = tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, bytes,
                              tk_llvm_build_const(f, TOLK_INDEX, 63));
    bytes = tk_llvm_build_bin(f, TK_LEGAL_AND, TOLK_INDEX, bytes,
                              tk_llvm_build_const(f, TOLK_INDEX, ~(uint64_t)63));
    e->local_end = tk_llvm_build_bin(f, TK_LEGAL_ADD, TOLK_INDEX, offset, bytes);
    return tk_emit_set_value(e, u, base);
}

/* Local memory of a GPU: static as far as that goes, else a part of what the launch asks for. */
static bool emit_shared(tk_emitter *e, const tolk_uop *u) {
    tk_llvm_fn *f = &e->f;
    bool dynamic = tk_uop_int(u, TK_A_BUFFER_DYNAMIC);
    if (!tk_llvm_legal_type(u->dtype)) {
        tk_llvm_build_unsupported(f, "local memory of", u->dtype);
        return false;
    }
    if (dynamic) /* behind all others */
        return tk_emit_set_value(e, u, tk_llvm_ptx_dynamic(f, e->shared));
    uint64_t bytes = tk_items_shared_bytes(u), from = e->shared_end;
    e->shared_end += bytes;
    return tk_emit_set_value(e, u,
                             e->shared ? tk_llvm_ptx_dynamic(f, from)
                                       : tk_llvm_ptx_shared(f, e->n_locals++, bytes));
}

static bool emit_shuffle(tk_emitter *e, const tolk_uop *u) {
    LLVMValueRef x = tk_emit_value(e, u->src[0]), lane = tk_emit_value(e, u->src[1]);
    return x && lane &&
           tk_emit_set_value(
               e, u, tk_llvm_ptx_shuffle(&e->f, u->dtype, x, u->src[1]->dtype, lane, e->threads));
}

static bool emit_node(tk_emitter *e, const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_CONST: /* made where used */
    case TK_OP_PARAM:
    case TK_OP_AFTER:
        return true;
    case TK_OP_BUFFER:
        return tk_access_is_reg(u) || (is_gpu(e) ? emit_shared(e, u) : emit_local(e, u));
    case TK_OP_BARRIER:
        if (is_gpu(e))
            tk_llvm_ptx_barrier(&e->f);
        /* The launcher lets no call run over a barrier unless that call runs alone. */
        return true;
    case TK_OP_SPECIAL:
        return emit_special(e, u);
    case TK_OP_STACK:
        return emit_stack(e, u);
    case TK_OP_INDEX:
        return emit_index(e, u);
    case TK_OP_LOAD:
        return emit_load(e, u);
    case TK_OP_STORE:
        return emit_store(e, u);
    case TK_OP_ATOMIC_ADD: {
        tk_llvm_access a;
        if (!describe(e, u, u->src[1]->dtype, &a))
            return false;
        a.code = tk_check_code(tk_uop_attr(u, TK_A_ATOMIC_ADD_CODE).blob);
        return (is_gpu(e) ? tk_llvm_ptx_atomic_add(&e->f, &a) : tk_llvm_mem_atomic_add(&e->f, &a));
    }
    case TK_OP_SHUFFLE:
        if (is_gpu(e))
            return emit_shuffle(e, u);
        break;
    case TK_OP_RANGE:
        return tk_emit_open_loop(e, u);
    case TK_OP_IF:
        return tk_emit_open_if(e, u);
    case TK_OP_END:
    case TK_OP_ENDIF:
        if (!e->scopes.n)
            return tk_emit_broken(e, u, "closes nothing");
        return tk_uop_is(u, TK_OP_END) ? tk_emit_close_loop(e, u) : tk_emit_close_if(e, u);
    default:
        if (tk_op_is_alu(tk_uop_op(u)))
            return emit_alu(e, u);
        break;
    }
    tk_llvm_build_unsupported(&e->f, tk_op_get(tk_uop_op(u))->name, u->dtype);
    return false;
}

static bool polls(const tk_emitter *e) {
    for (uint32_t i = 0; i < e->linear->n_src; i++) {
        const tolk_uop *u = e->linear->src[i];
        if (tk_uop_is(u, TK_OP_RANGE) && tk_uop_int(u, TK_A_RANGE_POLL))
            return true;
    }
    return false;
}

/* Large programs are cut: what LLVM does to a block takes time with the square of its size. Finds
 * the part of each instruction, the last part in which each is used, and which stores to reg
 * elements are the last ones of their part. */
static bool survey_parts(tk_emitter *e) {
    const tolk_uop *l = e->linear;
    if (!tk_vec_resize(&e->part, l->n_src) || !tk_vec_resize(&e->lives_on, l->n_src))
        return tk_emit_out_of_memory(e);
    uint32_t cost = 0, part = 0;
    for (uint32_t i = 0; i < l->n_src; i++) {
        const tolk_uop *u = l->src[i];
        cost += tk_llvm_cost(&e->f, u);
        if (cost > MAX_BLOCK_COST) {
            cost = 0;
            part++;
        }
        e->part.at[i] = part;
        for (uint32_t k = 0; part && k < u->n_src; k++)
            if (!tk_map_put(&e->used, tk_access_base(u->src[k])->id, part))
                return tk_emit_out_of_memory(e);
    }
    e->f.is_large = part > 0;
    if (!e->f.is_large || !e->reg.n)
        return true;
    TK_VEC(uint32_t) seen; /* the part in which an element's last store was seen, from 1 */
    tk_vec_init(&seen, e->al);
    bool ok = tk_vec_resize(&seen, e->reg.n) || tk_emit_out_of_memory(e);
    for (uint32_t i = l->n_src; ok && i-- > 0;) {
        const tolk_uop *u = l->src[i];
        uint32_t reg;
        if (!tk_uop_is(u, TK_OP_STORE) || !tk_access_is_reg(tk_access_base(u->src[0]->src[0])))
            continue;
        ok = tk_emit_reg_number(e, u->src[0], &reg);
        if (ok && seen.at[reg] != e->part.at[i] + 1) {
            e->lives_on.at[i] = true;
            seen.at[reg] = e->part.at[i] + 1;
        }
    }
    tk_vec_fini(&seen);
    return ok;
}

/* LLVM moves what a later block alone needs into that block, and so all into the last one, unless
 * something needs it here. */
static void keep_part(tk_emitter *e, uint32_t i) {
    const tolk_uop *u = e->linear->src[i];
    if (e->lives_on.at[i])
        u = tk_access_base(u->src[1]);
    else if (tk_uop_is(u, TK_OP_STORE))
        return;
    uint64_t *used = tk_map_find(&e->used, u->id), *at = tk_map_find(&e->values, u->id);
    if (!at || !(e->lives_on.at[i] || (used && *used > e->part.at[i])))
        return;
    uint32_t n = (uint32_t)(*at % PIECES), lanes = tk_uop_lanes(u) / n;
    for (uint32_t k = 0; k < n; k++)
        tk_llvm_build_keep(&e->f, tk_llvm_wide_piece(u->dtype, lanes),
                           e->pieces.at[*at / PIECES + k]);
}

/* The next part begins: a new block. A jump alone would be merged again, so it depends on what is
 * always true and only we know. */
static void split_block(tk_emitter *e) {
    tk_llvm_fn *f = &e->f;
    LLVMBasicBlockRef next = tk_llvm_build_block(f, "next");
    LLVMValueRef is_call =
        LLVMBuildICmp(f->b, LLVMIntNE, f->env, LLVMConstNull(LLVMTypeOf(f->env)), "");
    tk_llvm_build_branch(f, is_call, next, tk_emit_leave(e), TK_LLVM_LIKELY);
    tk_llvm_build_enter(f, next);
}

/* All instructions of the list, from the block where the builder stands to a return. */
static bool emit_body(tk_emitter *e) {
    tk_llvm_fn *f = &e->f;
    for (uint32_t i = 0; i < e->linear->n_src; i++) {
        if (i && e->part.at[i] != e->part.at[i - 1])
            split_block(e);
        if (!emit_node(e, e->linear->src[i]))
            return false;
        if (f->is_large)
            keep_part(e, i);
    }
    if (e->scopes.n)
        return tk_emit_broken(e, tk_vec_last(&e->scopes).opener, "still open at the end");
    /* What went around the caches is visible when the function is left. */
    if (e->streaming && !is_gpu(e))
        LLVMBuildFence(f->b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
    tk_llvm_build_return(f);
    return true;
}

/* Are the buffers of all streamed stores (GPU: vector accesses) aligned? NULL: there are none, or
 * failure. */
static LLVMValueRef buffers_aligned(tk_emitter *e) {
    tk_llvm_fn *f = &e->f;
    uint64_t align = is_gpu(e) ? TK_LLVM_PTX_VECTOR_ALIGN : STREAM_ALIGN;
    LLVMTypeRef i64 = LLVMInt64TypeInContext(f->lc);
    LLVMValueRef bits = NULL;
    for (uint32_t i = 0; i < e->linear->n_src; i++) {
        const tolk_uop *u = e->linear->src[i];
        if (!(is_gpu(e) ? is_wide(e, u) : is_streamed(u)))
            continue;
        LLVMValueRef base = tk_emit_value(e, tk_access_base(u->src[0]->src[0]));
        if (!base)
            return NULL;
        LLVMValueRef at = LLVMBuildPtrToInt(f->b, base, i64, "");
        bits = bits ? LLVMBuildOr(f->b, bits, at, "") : at;
    }
    if (!bits)
        return NULL;
    bits = LLVMBuildAnd(f->b, bits, LLVMConstInt(i64, align - 1, 0), "");
    return LLVMBuildICmp(f->b, LLVMIntEQ, bits, LLVMConstInt(i64, 0, 0), "");
}

/* The list once more: nothing of the first time counts. */
static void start_over(tk_emitter *e) {
    for (size_t i = 0; i < e->reg.n; i++)
        e->reg.at[i] = LLVMConstNull(LLVMTypeOf(e->reg.at[i]));
    e->next_set = 0;
    e->saved.n = 0;
    e->local_end = NULL;
    e->shared_end = 0;
    e->n_locals = 0;
}

static bool emit_function(tk_emitter *e, const char *symbol) {
    tk_llvm_fn *f = &e->f;
    if (!survey(e) || !survey_parts(e) || !tk_emit_survey_stores(e))
        return false;
    if (!is_gpu(e))
        tk_llvm_build_function(f, symbol, e->widest);
    else if (!tk_llvm_ptx_function(f, symbol, e->params, block_threads(e, false)))
        return false;
    if (!emit_params(e))
        return false;
    if (polls(e) && !is_gpu(e)) {
        LLVMValueRef at = tk_llvm_build_address(
            f, TOLK_U8, f->env, tk_llvm_build_const(f, TOLK_INDEX, offsetof(tolk_kenv, cancel)),
            true);
        e->cancel = LLVMBuildLoad2(f->b, tk_llvm_build_pointer_type(f), at, "");
    }
    LLVMValueRef aligned = buffers_aligned(e);
    if (f->status != TOLK_OK)
        return false;
    if (aligned) {
        /* Two bodies: one for buffers that are aligned, one for any. */
        LLVMBasicBlockRef stream = tk_llvm_build_block(f, "stream"),
                          plain = tk_llvm_build_block(f, "plain");
        tk_llvm_build_branch(f, aligned, stream, plain, TK_LLVM_EVEN);
        tk_llvm_build_enter(f, stream);
        e->streaming = true;
        if (!emit_body(e))
            return false;
        e->streaming = false;
        start_over(e);
        tk_llvm_build_enter(f, plain);
    }
    if (!emit_body(e))
        return false;
    if (e->leave) {
        tk_llvm_build_enter(f, e->leave);
        tk_llvm_build_return(f);
    }
    return true;
}

/* ---- entry ---- */

static tolk_status emit_module(tk_emitter *e, tk_llvm_session *s, const char *symbol,
                               tk_llvm_form form, tk_phases *phases, char **out, size_t *len) {
    tk_llvm_fn *f = &e->f;
    LLVMTargetMachineRef machine;
    LLVMTargetDataRef layout;
    TK_TRY(tk_llvm_pool_machine(s, f->target, &machine, &layout, f->err));
    f->lc = s->lc;
    LLVMContextSetDiscardValueNames(f->lc, form != TK_LLVM_IR);
    f->module = LLVMModuleCreateWithNameInContext(symbol, f->lc);
    f->b = LLVMCreateBuilderInContext(f->lc);
    LLVMSetTarget(f->module, f->target->triple);
    LLVMSetModuleDataLayout(f->module, layout);
    tolk_status st = emit_function(e, symbol) ? TOLK_OK : f->status;
    LLVMDisposeBuilder(f->b);
    tk_phases_mark(phases, "llvm");
    if (st == TOLK_OK)
        st = tk_llvm_object_write(f->ctx, s, f->module, machine, form, out, len, f->err);
    LLVMDisposeModule(f->module);
    tk_phases_mark(phases, "object");
    return st;
}

tolk_status tk_llvm_emit(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear,
                         const char *symbol, tk_llvm_form form, uint64_t *frame_bytes,
                         tk_phases *phases, char **out, size_t *len, tolk_error *err) {
    tk_params params;
    TK_TRY(tk_params_init(&params, linear, &ctx->al, err));
    tk_emitter e = {.linear = linear, .params = &params, .al = &ctx->al};
    e.f = (tk_llvm_fn){
        .ctx = ctx, .target = target, .classes = tk_llvm_legal_classes(target), .err = err};
    if (is_gpu(&e)) {
        e.shared = tk_items_shared(linear);
        e.threads = block_threads(&e, true);
    }
    tk_map_init(&e.values, e.al);
    tk_vec_init(&e.pieces, e.al);
    tk_map_init(&e.reg_first, e.al);
    tk_map_init(&e.used, e.al);
    tk_vec_init(&e.part, e.al);
    tk_vec_init(&e.lives_on, e.al);
    tk_vec_init(&e.reg, e.al);
    tk_vec_init(&e.scopes, e.al);
    tk_vec_init(&e.saved, e.al);
    tk_vec_init(&e.stored, e.al);
    tk_llvm_session *s;
    tolk_status st = tk_llvm_pool_take(ctx, &s, err);
    if (st == TOLK_OK) {
        st = emit_module(&e, s, symbol, form, phases, out, len);
        if (frame_bytes)
            *frame_bytes = s->frame_bytes;
        tk_llvm_pool_give(ctx, s);
    }
    tk_vec_fini(&e.stored);
    tk_vec_fini(&e.saved);
    tk_vec_fini(&e.scopes);
    tk_vec_fini(&e.reg);
    tk_map_fini(&e.reg_first);
    tk_map_fini(&e.used);
    tk_vec_fini(&e.part);
    tk_vec_fini(&e.lives_on);
    tk_vec_fini(&e.pieces);
    tk_map_fini(&e.values);
    tk_params_fini(&params);
    return st;
}
