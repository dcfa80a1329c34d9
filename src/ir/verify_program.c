/* SPDX-License-Identifier: MIT
 *
 * The program stage: one pass over the list. A node that is listed again is executed again, and its
 * users see the last execution. A value is known until the loop or `if` ends inside which it was
 * made last; constants, params, buffers (also as an `after`) and specials are known from their
 * first place on.
 */
#include "ir/verify_parts.h"

#include "ir/access.h"
#include "ir/dtype.h"

#include <string.h>

typedef struct scope {
    const tolk_uop *opener; /* RANGE or IF; NULL for the whole program */
    uint32_t number;        /* each opening has its own */
    bool per_item;          /* work-items may enter it differently often */
} scope;

typedef struct program {
    const tk_verify_cx *cx;
    const tolk_uop *linear;
    tk_walk_map made_in; /* node -> number of the scope where it was executed last */
    tk_walk_map notes;   /* node -> kind, PER_ITEM */
    tk_walk_map base;    /* buffer, also as an after -> id + 1 of the buffer */
    TK_VEC(scope) scopes;
    TK_VEC(uint8_t) is_open; /* by scope number */
    tk_verify_defs defs;
} program;

enum { KIND_MASK = 0xf, PER_ITEM = 0x10 };

#define FAIL(p, u, ...) tk_verify_fail((p)->cx, u, TOLK_E_VERIFY, __VA_ARGS__)

static const char *op_name(const tolk_uop *u) {
    return tk_op_get(tk_uop_op(u))->name;
}

static tk_verify_kind kind_of(const program *p, const tolk_uop *u) {
    return (tk_verify_kind)(tk_walk_map_get(&p->notes, u->id) & KIND_MASK);
}

/* The buffer behind any number of AFTERs. */
static const tolk_uop *base_of(const program *p, const tolk_uop *u) {
    uint32_t id = tk_walk_map_get(&p->base, u->id);
    return id ? u->graph->nodes.at[id - 1] : u;
}

/* ---- sources ---- */

/* Known for the rest of the program, wherever it stands. */
static bool is_definition(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_CONST) || tk_uop_is(u, TK_OP_PARAM) || tk_uop_is(u, TK_OP_BUFFER) ||
           tk_uop_is(u, TK_OP_SPECIAL) || tk_uop_is(u, TK_OP_AFTER);
}

/* Source i says only that u comes behind it. */
static bool is_order(const tolk_uop *u, uint32_t i) {
    return i > 0 && (tk_uop_is(u, TK_OP_AFTER) || tk_uop_is(u, TK_OP_IF));
}

static tolk_status check_source(const program *p, const tolk_uop *u, uint32_t i) {
    const tolk_uop *s = u->src[i];
    uint32_t number = tk_walk_map_get(&p->made_in, s->id);
    if (number == 0)
        return FAIL(p, u, "operand %u (%s) does not stand in the list before it", i, op_name(s));
    if (is_order(u, i))
        return TOLK_OK;
    if (s->dtype != TOLK_VOID && !is_definition(s) && !p->is_open.at[number])
        return FAIL(p, u, "operand %u (%s) was made inside a loop or if that has ended", i,
                    op_name(s));
    tk_op op = tk_uop_op(u);
    tk_verify_kind kind = kind_of(p, s);
    if (kind == TK_VERIFY_BUFFER && !((op == TK_OP_INDEX || op == TK_OP_AFTER) && i == 0))
        return FAIL(p, u, "operand %u is a buffer, which feeds index and after only", i);
    if (kind != TK_VERIFY_BUFFER && op == TK_OP_AFTER)
        return FAIL(p, u, "operand 0 is %s, expected a buffer", op_name(s));
    if (kind == TK_VERIFY_PLACE &&
        !(i == 0 && (op == TK_OP_LOAD || op == TK_OP_STORE || op == TK_OP_ATOMIC_ADD)))
        return FAIL(p, u, "operand %u is a place, which feeds load, store and atomic_add only", i);
    return TOLK_OK;
}

/* ---- rules by op ---- */

static tolk_status check_definition(const program *p, const tolk_uop *u) {
    bool is_buffer = tk_uop_is(u, TK_OP_BUFFER);
    if (!tk_check_is_buffer(u))
        return TOLK_OK;
    if (is_buffer && tk_uop_int(u, TK_A_BUFFER_DYNAMIC))
        return TOLK_OK;
    if (u->n_src == 0)
        return FAIL(p, u, "no operand, expected the number of elements");
    if (!is_buffer)
        return TOLK_OK;
    if (tk_uop_int(u, TK_A_BUFFER_SPACE) == TK_SPACE_GLOBAL)
        return FAIL(p, u, "space is global, expected local or reg (global memory is a param)");
    if (tk_access_is_reg(u) && !tk_uop_is_const(u->src[0]))
        return FAIL(p, u, "space reg of %s elements, expected a constant", op_name(u->src[0]));
    return TOLK_OK;
}

static tolk_status check_index(const program *p, const tolk_uop *u) {
    const tolk_uop *base = base_of(p, u->src[0]);
    if (kind_of(p, base) != TK_VERIFY_BUFFER) /* else check.h knows that it is a lane */
        return tk_uop_lanes(base) > 1
                   ? TOLK_OK
                   : FAIL(p, u, "operand 0 is %s, expected a buffer or a vector", op_name(base));
    if (u->n_src != 2)
        return FAIL(p, u, "%u indices, expected 1", u->n_src - 1);
    if (!tk_access_is_reg(base))
        return TOLK_OK;
    const tolk_uop *i = u->src[1];
    int64_t size = base->src[0]->attr[0].i;
    if (!tk_uop_is_const(i) || i->attr[0].i < 0 || i->attr[0].i >= size)
        return FAIL(p, u, "the index into space reg is no constant in 0..%lld",
                    (long long)size - 1);
    return TOLK_OK;
}

static tolk_status check_access(const program *p, const tolk_uop *u) {
    const tolk_uop *place = u->src[0];
    if (kind_of(p, place) != TK_VERIFY_PLACE)
        return FAIL(p, u, "operand 0 is no place in a buffer");
    const tolk_uop *base = base_of(p, place->src[0]);
    if (!tk_access_is_reg(base))
        return TOLK_OK;
    char have[16], want[16];
    if (tk_uop_is(u, TK_OP_ATOMIC_ADD))
        return FAIL(p, u, "an atomic access to space reg");
    if (u->n_src == 3)
        return FAIL(p, u, "a gated access to space reg");
    tolk_dtype dtype = tk_uop_is(u, TK_OP_LOAD) ? u->dtype : u->src[1]->dtype;
    if (dtype != base->dtype)
        return tk_verify_fail(p->cx, u, TOLK_E_DTYPE, "%s in a buffer of %s in space reg",
                              tk_dtype_text(dtype, have), tk_dtype_text(base->dtype, want));
    return TOLK_OK;
}

static tolk_status check_barrier(const program *p, const tolk_uop *u) {
    for (size_t i = 0; i < p->scopes.n; i++)
        if (p->scopes.at[i].per_item)
            return FAIL(p, u, "inside %s %s, which depends on the work-item",
                        op_name(p->scopes.at[i].opener),
                        tk_verify_name_of(p->cx, p->scopes.at[i].opener).text);
    return TOLK_OK;
}

static tolk_status check_op(const program *p, const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_CONST:
        return tk_uop_is_invalid(u) ? FAIL(p, u, "invalid, expected at the kernel stage only")
                                    : TOLK_OK;
    case TK_OP_PARAM:
    case TK_OP_BUFFER:
        return check_definition(p, u);
    case TK_OP_STACK:
        return tk_uop_lanes(u) > 1 ? TOLK_OK
                                   : FAIL(p, u, "a stack without lanes, expected a vector");
    case TK_OP_INDEX:
        return check_index(p, u);
    case TK_OP_LOAD:
    case TK_OP_STORE:
    case TK_OP_ATOMIC_ADD:
        return check_access(p, u);
    case TK_OP_RANGE:
        return u->n_src == 1 ? TOLK_OK : FAIL(p, u, "%u operands, expected the size", u->n_src);
    case TK_OP_END:
        return u->n_src == 1 && tk_uop_is(u->src[0], TK_OP_RANGE)
                   ? TOLK_OK
                   : FAIL(p, u, "expected a range as the only operand");
    case TK_OP_BARRIER:
    case TK_OP_SHUFFLE:
        return check_barrier(p, u);
    case TK_OP_LINEAR:
        return FAIL(p, u, "a linear inside a program");
    default:
        return TOLK_OK;
    }
}

/* ---- scopes ---- */

static bool open_scope(program *p, const tolk_uop *opener, bool per_item) {
    scope s = {opener, (uint32_t)p->is_open.n, per_item};
    return tk_vec_push(&p->is_open, 1) && tk_vec_push(&p->scopes, s);
}

/* END and ENDIF close the innermost scope, which must be that of their source. */
static tolk_status close_scope(program *p, const tolk_uop *u) {
    const tolk_uop *opener = tk_vec_last(&p->scopes).opener;
    if (opener != u->src[0]) {
        if (!opener)
            return FAIL(p, u, "no loop or if is open here");
        return FAIL(p, u, "closes %s, but %s is the innermost open one",
                    tk_verify_name_of(p->cx, u->src[0]).text,
                    tk_verify_name_of(p->cx, opener).text);
    }
    p->is_open.at[tk_vec_last(&p->scopes).number] = 0;
    p->scopes.n--;
    return TOLK_OK;
}

static uint32_t note(const program *p, const tolk_uop *u) {
    uint32_t per_item = 0;
    for (uint32_t i = 0; i < u->n_src && !is_order(u, i); i++)
        per_item |= tk_walk_map_get(&p->notes, u->src[i]->id) & PER_ITEM;
    if (tk_uop_is(u, TK_OP_SPECIAL)) {
        tk_special kind = tk_check_special(tk_uop_str(u, TK_A_SPECIAL_NAME), NULL);
        if (kind == TK_SPECIAL_LIDX || kind == TK_SPECIAL_IDX)
            per_item = PER_ITEM;
    }
    tk_verify_kind kind = u->dtype == TOLK_VOID ? TK_VERIFY_EFFECT : TK_VERIFY_VALUE;
    if (tk_check_is_buffer(u) || tk_uop_is(u, TK_OP_AFTER))
        kind = TK_VERIFY_BUFFER;
    else if (tk_uop_is(u, TK_OP_INDEX) && kind_of(p, u->src[0]) == TK_VERIFY_BUFFER)
        kind = TK_VERIFY_PLACE;
    return (uint32_t)kind | per_item;
}

static tolk_status step(program *p, const tolk_uop *u) {
    TK_TRY(tk_verify_node(p->cx, u, TK_STAGE_P));
    for (uint32_t i = 0; i < u->n_src; i++)
        TK_TRY(check_source(p, u, i));
    TK_TRY(check_op(p, u));
    TK_TRY(tk_verify_defs_add(&p->defs, u));
    uint32_t notes = note(p, u);
    bool ok = tk_walk_map_put(&p->notes, u->id, notes);
    if ((notes & KIND_MASK) == TK_VERIFY_BUFFER) {
        const tolk_uop *base = tk_uop_is(u, TK_OP_AFTER) ? base_of(p, u->src[0]) : u;
        ok = ok && tk_walk_map_put(&p->base, u->id, base->id + 1);
    }
    if (tk_uop_is(u, TK_OP_END) || tk_uop_is(u, TK_OP_ENDIF))
        TK_TRY(close_scope(p, u));
    if (tk_uop_is(u, TK_OP_RANGE) || tk_uop_is(u, TK_OP_IF)) {
        uint32_t number = tk_walk_map_get(&p->made_in, u->id);
        if (number && p->is_open.at[number])
            return FAIL(p, u, "opened again inside itself");
        ok = ok && open_scope(p, u, (notes & PER_ITEM) != 0);
    }
    ok = ok && tk_walk_map_put(&p->made_in, u->id, tk_vec_last(&p->scopes).number);
    return ok ? TOLK_OK : tk_status_nomem(p->cx->err);
}

static tolk_status verify(program *p) {
    const tolk_uop *linear = p->linear;
    if (!tk_uop_is(linear, TK_OP_LINEAR))
        return FAIL(p, linear, "the root of a program is a linear");
    TK_TRY(tk_verify_node(p->cx, linear, TK_STAGE_P));
    /* Scope 1 is the program; 0 stands for "not listed". */
    if (!tk_vec_push(&p->is_open, 0) || !open_scope(p, NULL, false))
        return tk_status_nomem(p->cx->err);
    for (uint32_t i = 0; i < linear->n_src; i++)
        TK_TRY(step(p, linear->src[i]));
    const tolk_uop *opener = tk_vec_last(&p->scopes).opener;
    return opener ? FAIL(p, opener, "still open at the end of the program") : TOLK_OK;
}

tolk_status tk_verify_program(const tk_verify_cx *cx, const tolk_uop *linear) {
    program p = {.cx = cx, .linear = linear};
    tk_walk_map_init(&p.made_in, cx->al);
    tk_walk_map_init(&p.notes, cx->al);
    tk_walk_map_init(&p.base, cx->al);
    tk_vec_init(&p.scopes, cx->al);
    tk_vec_init(&p.is_open, cx->al);
    tk_verify_defs_init(&p.defs, cx);
    tolk_status st = verify(&p);
    tk_verify_defs_fini(&p.defs);
    tk_vec_fini(&p.is_open);
    tk_vec_fini(&p.scopes);
    tk_walk_map_fini(&p.base);
    tk_walk_map_fini(&p.notes);
    tk_walk_map_fini(&p.made_in);
    return st;
}
