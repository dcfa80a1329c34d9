/* SPDX-License-Identifier: MIT */
#include "schedule/old_states.h"

#include "base/arena.h"
#include "base/status.h"
#include "ir/check.h"
#include "ir/params.h"
#include "schedule/call_args.h"

/* Which bytes of which buffer a node stands for, behind how many AFTERs. */
typedef struct part {
    const tolk_uop *root; /* BUFFER or PARAM; NULL: several, or not known */
    uint32_t depth;
    int64_t from, to;
} part;

/* What a body does with the buffers of a call, in their order. */
typedef enum use { READS = 1, WRITES = 2 } use;
typedef struct access {
    uint32_t n;
    uint8_t *use; /* NULL: nobody knows */
} access;

/* A range of bytes in which all lies that was written; none: from >= to. */
typedef struct span {
    int64_t from, to;
} span;

/* A state of one buffer: the one before it, and one further back, such that few steps lead from any
 * state to any before it. Base: both are itself. */
typedef struct link {
    const tolk_uop *state;
    uint32_t depth, prior, jump; /* places in links */
    span step, far;              /* what was written since prior, since jump */
} link;

/* Of one call: the argument of a buffer that is behind most AFTERs. */
typedef struct latest {
    uint32_t call, arg, depth;
} latest;

typedef struct checking {
    const tolk_allocator *al;
    tolk_error *err;
    tk_arena scratch;
    TK_VEC(part) parts;
    tk_walk_map part_of; /* node -> index + 1 */
    TK_VEC(access) accesses;
    tk_walk_map access_of; /* body -> index + 1 */
    TK_VEC(link) links;
    tk_walk_map link_of; /* state -> index + 1 */
    TK_VEC(latest) latest;
    tk_walk_map latest_of; /* root -> index + 1 */
    tk_walk_list path;
} checking;

/* ---- parts ---- */

/* Does it only say how one buffer is looked at? */
static bool is_view(const tolk_uop *u) {
    return tk_uop_is(u, TK_OP_RESHAPE) || tk_uop_is(u, TK_OP_CONTIGUOUS) ||
           tk_uop_is(u, TK_OP_SLICE) || (tk_uop_is(u, TK_OP_NOOP) && u->n_src == 1);
}

/* The state that is looked at. */
static const tolk_uop *state_of(const tolk_uop *u) {
    while (is_view(u))
        u = u->src[0];
    return u;
}

/* The part that a node stands for, given that of its first source. */
static part above(const tolk_uop *u, part p) {
    int64_t bytes = tolk_dtype_bytes(u->dtype), at;
    if (tk_uop_is(u, TK_OP_AFTER))
        p.depth++;
    if (!tk_uop_is(u, TK_OP_SLICE) || !p.root)
        return p;
    at = (int64_t)tolk_dtype_bytes(u->src[0]->dtype);
    if (!tk_uop_is_const(u->src[1]) || !tk_check_mul(&at, u->src[1]->attr[0].i) ||
        !tk_check_mul(&bytes, tk_uop_int(u, TK_A_SLICE_COUNT)) ||
        __builtin_add_overflow(p.from, at, &p.from) || __builtin_add_overflow(p.from, bytes, &p.to))
        p.root = NULL;
    return p;
}

static tolk_status part_of(checking *c, const tolk_uop *u, part *out) {
    uint32_t at;
    c->path.n = 0;
    while (!(at = tk_walk_map_get(&c->part_of, u->id)) &&
           (is_view(u) || tk_uop_is(u, TK_OP_AFTER))) {
        if (!tk_vec_push(&c->path, u))
            return tk_status_nomem(c->err);
        u = u->src[0];
    }
    bool is_one = tk_uop_is(u, TK_OP_BUFFER) || tk_uop_is(u, TK_OP_PARAM);
    part p = {.root = is_one ? u : NULL, .to = INT64_MAX};
    if (at)
        p = c->parts.at[at - 1];
    while (c->path.n) {
        u = tk_vec_pop(&c->path);
        p = above(u, p);
        if (!tk_vec_push(&c->parts, p) ||
            !tk_walk_map_put(&c->part_of, u->id, (uint32_t)c->parts.n))
            return tk_status_nomem(c->err);
    }
    *out = p;
    return TOLK_OK;
}

/* ---- what calls do ---- */

static tolk_status access_of(checking *c, const tolk_uop *call, access *out) {
    const tolk_uop *body = call->src[0];
    bool copies = tk_uop_is(body, TK_OP_COPY), program = tk_uop_is(body, TK_OP_PROGRAM);
    *out = (access){0};
    if (!copies && !program && (!tk_uop_is(body, TK_OP_SINK) || tk_check_calls_list(call)))
        return TOLK_OK;
    uint32_t at = tk_walk_map_get(&c->access_of, body->id);
    if (!at) {
        access a = {.n = 2};
        tk_params params = {.n_bufs = 0};
        if (!copies) {
            TK_TRY(tk_params_init(&params, program ? body->src[0] : body, c->al, c->err));
            a.n = params.n_bufs;
        }
        a.use = tk_arena_zero(&c->scratch, a.n ? a.n : 1);
        for (uint32_t i = 0; a.use && i < a.n; i++) {
            const tk_param *x = copies ? NULL : tk_params_buf(&params, i);
            a.use[i] = copies ? (uint8_t)(i ? READS : WRITES)
                              : (uint8_t)((x->loaded ? READS : 0) | (x->stored ? WRITES : 0));
        }
        if (!copies)
            tk_params_fini(&params);
        if (!a.use || !tk_vec_push(&c->accesses, a) ||
            !tk_walk_map_put(&c->access_of, body->id, (uint32_t)c->accesses.n))
            return tk_status_nomem(c->err);
        at = (uint32_t)c->accesses.n;
    }
    *out = c->accesses.at[at - 1];
    return TOLK_OK;
}

static bool is_apart(span a, int64_t from, int64_t to) {
    return a.from >= a.to || a.to <= from || to <= a.from;
}

static span join(span a, span b) {
    if (a.from >= a.to)
        return b;
    if (b.from >= b.to)
        return a;
    return (span){a.from < b.from ? a.from : b.from, a.to > b.to ? a.to : b.to};
}

/* What a call certainly writes of a buffer. hits: is a part of `read` among it? */
static tolk_status add_written(checking *c, const tolk_uop *call, part read, span *out,
                               bool *hits) {
    access a;
    TK_TRY(access_of(c, call, &a));
    for (uint32_t i = 1, buffer = 0; i < call->n_src && buffer < a.n; i++) {
        part p;
        if (tk_check_is_value(call->src[i]))
            continue;
        if (!(a.use[buffer++] & WRITES))
            continue;
        TK_TRY(part_of(c, call->src[i], &p));
        if (p.root != read.root)
            continue;
        *out = join(*out, (span){p.from, p.to});
        *hits |= !is_apart((span){p.from, p.to}, read.from, read.to);
    }
    return TOLK_OK;
}

static const tolk_uop *call_of(const tolk_uop *u) {
    if (tk_uop_is(u, TK_OP_END))
        u = u->src[0];
    return tk_uop_is(u, TK_OP_CALL) ? u : NULL;
}

static bool has_call(const tolk_uop *state, const tolk_uop *call) {
    for (uint32_t i = 1; tk_uop_is(state, TK_OP_AFTER) && i < state->n_src; i++)
        if (call_of(state->src[i]) == call)
            return true;
    return false;
}

/* What the calls wrote that made a state from the one before; the first that wrote to a part of
 * `read` to *writer. */
static tolk_status find_written(checking *c, const tolk_uop *state, part read, span *out,
                                const tolk_uop **writer) {
    const tolk_uop *prior = state_of(state->src[0]);
    *out = (span){0, 0};
    *writer = NULL;
    for (uint32_t i = 1; i < state->n_src; i++) {
        const tolk_uop *call = call_of(state->src[i]);
        bool hits = false;
        if (!call || has_call(prior, call))
            continue;
        TK_TRY(add_written(c, call, read, out, &hits));
        *writer = hits && !*writer ? call : *writer;
    }
    return TOLK_OK;
}

/* ---- states, and those before them ---- */

static tolk_status add_link(checking *c, const tolk_uop *state, part read, uint32_t at,
                            uint32_t *out) {
    const tolk_uop *writer;
    link l = {.state = state, .prior = (uint32_t)c->links.n, .jump = (uint32_t)c->links.n};
    if (tk_uop_is(state, TK_OP_AFTER)) {
        link before = c->links.at[at], far = c->links.at[before.jump];
        TK_TRY(find_written(c, state, read, &l.step, &writer));
        l.prior = at;
        l.depth = before.depth + 1;
        /* Two steps of one length become one of twice that, and one more. */
        bool is_twice = before.depth - far.depth == far.depth - c->links.at[far.jump].depth;
        l.jump = is_twice ? far.jump : at;
        l.far = is_twice ? join(l.step, join(before.far, far.far)) : l.step;
    }
    if (!tk_vec_push(&c->links, l) ||
        !tk_walk_map_put(&c->link_of, state->id, (uint32_t)c->links.n))
        return tk_status_nomem(c->err);
    *out = (uint32_t)c->links.n - 1;
    return TOLK_OK;
}

/* The place of a state of the buffer that is read. */
static tolk_status link_of(checking *c, const tolk_uop *state, part read, uint32_t *out) {
    tk_walk_list new_ones;
    uint32_t at;
    tolk_status st = TOLK_OK;
    tk_vec_init(&new_ones, c->al);
    while (!(at = tk_walk_map_get(&c->link_of, state->id)) && st == TOLK_OK) {
        if (!tk_vec_push(&new_ones, state))
            st = tk_status_nomem(c->err);
        if (!tk_uop_is(state, TK_OP_AFTER))
            break;
        state = state_of(state->src[0]);
    }
    *out = at - 1;
    while (new_ones.n && st == TOLK_OK)
        st = add_link(c, tk_vec_pop(&new_ones), read, *out, out);
    tk_vec_fini(&new_ones);
    return st;
}

/* Is `old` a state before `at`? */
static bool is_before(const checking *c, uint32_t old, uint32_t at) {
    uint32_t depth = c->links.at[old].depth;
    while (c->links.at[at].depth > depth) {
        const link *l = &c->links.at[at];
        at = c->links.at[l->jump].depth >= depth ? l->jump : l->prior;
    }
    return at == old;
}

/* A call between two states that wrote to what is read: the latest one. */
static tolk_status find_writer(checking *c, uint32_t old, uint32_t at, part read,
                               const tolk_uop **out) {
    uint32_t depth = c->links.at[old].depth;
    span all;
    while (c->links.at[at].depth > depth && !*out) {
        link l = c->links.at[at];
        bool far = c->links.at[l.jump].depth >= depth && is_apart(l.far, read.from, read.to);
        if (!far && !is_apart(l.step, read.from, read.to))
            TK_TRY(find_written(c, l.state, read, &all, out));
        at = far ? l.jump : l.prior;
    }
    return TOLK_OK;
}

/* ---- calls ---- */

static tolk_status refuse(const checking *c, const tolk_uop *call, uint32_t number, uint32_t old,
                          uint32_t behind, const tolk_uop *root, const tolk_uop *writer) {
    int64_t slot = tk_uop_is(root, TK_OP_BUFFER) ? tk_uop_int(root, TK_A_BUFFER_SLOT)
                                                 : tk_uop_int(root, TK_A_PARAM_SLOT);
    return tk_status_fail(
        c->err, TOLK_E_VERIFY, TK_NO_NODE,
        "schedule: call \"%.40s\" (number %u): argument %u is %s {slot=%lld} before call \"%.40s\" "
        "wrote to it, argument %u is behind that: no order gives it both",
        tk_call_args_name(call), (unsigned)number, (unsigned)old - 1,
        tk_op_get(tk_uop_op(root))->name, (long long)slot, tk_call_args_name(writer),
        (unsigned)behind - 1);
}

/* Is what argument `old` reads a state before what argument `behind` is, and lost by then? */
static tolk_status check_pair(checking *c, const tolk_uop *call, uint32_t number, uint32_t old,
                              part read, uint32_t behind) {
    uint32_t from, at;
    const tolk_uop *writer = NULL;
    TK_TRY(link_of(c, state_of(call->src[old]), read, &from));
    TK_TRY(link_of(c, state_of(call->src[behind]), read, &at));
    if (is_before(c, from, at))
        TK_TRY(find_writer(c, from, at, read, &writer));
    return writer ? refuse(c, call, number, old, behind, read.root, writer) : TOLK_OK;
}

/* The latest argument of each buffer to c->latest. */
static tolk_status find_latest(checking *c, const tolk_uop *call, uint32_t number, bool *differ) {
    *differ = false;
    for (uint32_t i = 1; i < call->n_src; i++) {
        part p;
        if (tk_check_is_value(call->src[i]))
            continue;
        TK_TRY(part_of(c, call->src[i], &p));
        if (!p.root)
            continue;
        uint32_t at = tk_walk_map_get(&c->latest_of, p.root->id);
        if (!at && (!tk_vec_push(&c->latest, (latest){0}) ||
                    !tk_walk_map_put(&c->latest_of, p.root->id, at = (uint32_t)c->latest.n)))
            return tk_status_nomem(c->err);
        latest *l = &c->latest.at[at - 1];
        bool known = l->arg && l->call == number;
        *differ |= known && l->depth != p.depth;
        if (!known || l->depth < p.depth)
            *l = (latest){number, i, p.depth};
    }
    return TOLK_OK;
}

static tolk_status check_call(checking *c, const tolk_uop *call, uint32_t number) {
    bool differ;
    access a;
    TK_TRY(find_latest(c, call, number, &differ));
    if (!differ)
        return TOLK_OK;
    TK_TRY(access_of(c, call, &a));
    for (uint32_t i = 1, buffer = 0; i < call->n_src && buffer < a.n; i++) {
        part p;
        if (tk_check_is_value(call->src[i]))
            continue;
        bool reads = a.use[buffer++] == READS;
        TK_TRY(part_of(c, call->src[i], &p));
        if (!reads || !p.root)
            continue;
        latest l = c->latest.at[tk_walk_map_get(&c->latest_of, p.root->id) - 1];
        if (l.depth > p.depth)
            TK_TRY(check_pair(c, call, number, i, p, l.arg));
    }
    return TOLK_OK;
}

tolk_status tk_old_states_check(const tk_walk_list *calls, const tolk_allocator *al,
                                tolk_error *err) {
    checking c = {.al = al, .err = err};
    tk_arena_init(&c.scratch, al);
    tk_vec_init(&c.parts, al);
    tk_vec_init(&c.accesses, al);
    tk_vec_init(&c.links, al);
    tk_vec_init(&c.latest, al);
    tk_vec_init(&c.path, al);
    tk_walk_map_init(&c.part_of, al);
    tk_walk_map_init(&c.access_of, al);
    tk_walk_map_init(&c.link_of, al);
    tk_walk_map_init(&c.latest_of, al);
    tolk_status st = TOLK_OK;
    for (size_t i = 0; i < calls->n && st == TOLK_OK; i++)
        st = check_call(&c, calls->at[i], (uint32_t)i);
    tk_walk_map_fini(&c.latest_of);
    tk_walk_map_fini(&c.link_of);
    tk_walk_map_fini(&c.access_of);
    tk_walk_map_fini(&c.part_of);
    tk_vec_fini(&c.path);
    tk_vec_fini(&c.latest);
    tk_vec_fini(&c.links);
    tk_vec_fini(&c.accesses);
    tk_vec_fini(&c.parts);
    tk_arena_fini(&c.scratch);
    return st;
}
