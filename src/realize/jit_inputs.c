/* SPDX-License-Identifier: MIT */
#include "realize/jit.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "realize/buffer.h"
#include "realize/exec.h"
#include "realize/multi.h"
#include "realize/resolve.h"

#include <stdio.h>
#include <string.h>

/* ---- where buffers are ---- */

static tolk_status add_place(const tk_jit_replay *p, tk_jit_places *out, tolk_buffer *b,
                             uint32_t input, bool is_written, tolk_error *err) {
    char what[48];
    tk_piece piece;
    tolk_buffer_info info;
    snprintf(what, sizeof what, input < p->n_inputs ? "jit: input %u" : "jit: a buffer", input);
    TK_TRY(tolk_buffer_get_info(b, &info));
    TK_TRY(tk_buffer_piece(b, what, &piece, err));
    tk_jit_place x = {.device = info.device,
                      .dtype = info.dtype,
                      .elem_bytes = info.elem_bytes,
                      .n = info.n,
                      .from = (uintptr_t)piece.at,
                      .to = (uintptr_t)piece.at + piece.bytes,
                      .input = input,
                      .is_written = is_written};
    tk_piece_drop(&piece);
    return tk_vec_push(out, x) ? TOLK_OK : tk_status_nomem(err);
}

static tolk_status add_places(const tk_jit_replay *p, tk_jit_places *out, tolk_buffer *one,
                              tolk_multi *many, uint32_t input, bool is_written, tolk_error *err) {
    if (one)
        return add_place(p, out, one, input, is_written, err);
    for (size_t i = 0; i < many->n; i++)
        TK_TRY(add_place(p, out, many->at[i], input, is_written, err));
    return TOLK_OK;
}

static tolk_status look_input(const tolk_jit *jit, const tk_jit_replay *p, tk_jit_places *out,
                              const tolk_uop *node, uint32_t input, tolk_error *err) {
    tolk_buffer *one = NULL;
    tolk_multi *many = NULL;
    char name[96];
    TK_TRY(tolk_bindings_find(jit->bindings, node, &one, &many, err));
    if (!one && !many)
        return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE,
                              "jit: input %u, %s, stands for nothing", input,
                              tk_resolve_name(node, name));
    (void)tolk_buffer_ref(one); /* a hook may take it out of the bindings */
    (void)tolk_multi_ref(many);
    tolk_status st = add_places(p, out, one, many, input, p->writes.at[input], err);
    tolk_buffer_unref(one);
    tolk_multi_unref(many);
    return st;
}

static tolk_status look(const tolk_jit *jit, const tk_jit_replay *p, tk_jit_places *out,
                        const tolk_run_args *args, tolk_error *err) {
    out->n = 0;
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        if (!args->inputs[i])
            return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE, "jit: input %u is NULL", i);
        TK_TRY(look_input(jit, p, out, args->inputs[i], i, err));
    }
    for (size_t i = 0; i < p->others.n; i++) {
        tolk_buffer *one = NULL;
        tolk_multi *many = NULL;
        TK_TRY(tolk_resolve(jit->bindings, args, p->others.at[i], &one, &many, err));
        tolk_status st =
            add_places(p, out, one, many, p->n_inputs, p->writes.at[p->n_inputs + i], err);
        tolk_buffer_unref(one);
        tolk_multi_unref(many);
        if (st != TOLK_OK)
            return st;
    }
    return TOLK_OK;
}

/* Some byte is of both: of what has none, none is. */
static bool is_over(const tk_jit_place *a, const tk_jit_place *b) {
    return (a->from > b->from ? a->from : b->from) < (a->to < b->to ? a->to : b->to);
}

/* ---- when it is captured ---- */

static bool is_one(const tk_jit_replay *p, const tk_jit_place *a, const tk_jit_place *b) {
    return a->input < p->n_inputs && b->input < p->n_inputs && a->input != b->input &&
           p->one_as.at[a->input] == p->one_as.at[b->input] && a->from == b->from;
}

static tolk_status remember_overlaps(tk_jit_replay *p, tolk_error *err) {
    const tk_jit_places *all = &p->captured;
    for (uint32_t b = 0; b < all->n; b++)
        for (uint32_t a = 0; a < b && all->at[a].input < p->n_inputs; a++) {
            const tk_jit_place *x = &all->at[a], *y = &all->at[b];
            tk_jit_overlap o = {a, b, (intptr_t)(y->from - x->from), is_one(p, x, y)};
            if (is_over(x, y) && !tk_vec_push(&p->overlaps, o))
                return tk_status_nomem(err);
        }
    return TOLK_OK;
}

static tolk_status remember_names(const tolk_jit *jit, tk_jit_replay *p, const tolk_run_args *args,
                                  tolk_error *err) {
    for (size_t i = 0; i < args->n_vars; i++) {
        tk_strbuf sb;
        tk_strbuf_init(&sb, &jit->ctx->al);
        tk_strbuf_str(&sb, args->vars[i].name);
        char *name = tk_strbuf_take(&sb, NULL);
        if (!name || !tk_vec_push(&p->names, name)) {
            tk_strbuf_text_free(&jit->ctx->al, name);
            return tk_status_nomem(err);
        }
    }
    return TOLK_OK;
}

tolk_status tk_jit_inputs_remember(const tolk_jit *jit, tk_jit_replay *p, const tolk_run_args *args,
                                   tolk_error *err) {
    TK_TRY(remember_names(jit, p, args, err));
    TK_TRY(look(jit, p, &p->captured, args, err));
    return remember_overlaps(p, err);
}

/* ---- when it is replayed ---- */

static bool is_captured(const tk_jit_replay *p, const char *name) {
    for (size_t i = 0; i < p->names.n; i++)
        if (strcmp(p->names.at[i], name) == 0)
            return true;
    return false;
}

/* All names that were captured, and no other ones. One with two values is what the run refuses. */
static tolk_status check_names(const tk_jit_replay *p, const tolk_run_args *args, tolk_error *err) {
    for (size_t i = 0; i < p->names.n; i++) {
        size_t k = i; /* most likely it is where it was */
        for (size_t tries = 0; tries < args->n_vars; tries++, k++) {
            k = k < args->n_vars ? k : 0;
            if (strcmp(args->vars[k].name, p->names.at[i]) == 0)
                break;
        }
        if (k >= args->n_vars || strcmp(args->vars[k].name, p->names.at[i]) != 0)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "jit: variable \"%.60s\" was captured, and has no value now",
                                  p->names.at[i]);
    }
    for (size_t i = 0; args->n_vars > p->names.n && i < args->n_vars; i++)
        if (!is_captured(p, args->vars[i].name))
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "jit: variable \"%.60s\" was not captured, and has a value now",
                                  args->vars[i].name);
    return TOLK_OK;
}

static tolk_status wrong(const tk_jit_place *is, tolk_status code, const char *verb,
                         const char *has, const char *was, tolk_error *err) {
    return tk_status_fail(err, code, TK_NO_NODE,
                          "jit: input %u %s %.60s, expected %.60s as captured", is->input, verb,
                          has, was);
}

static tolk_status check_place(const tk_jit_place *is, const tk_jit_place *was, tolk_error *err) {
    char has[64], had[64];
    if (is->device != was->device)
        return wrong(is, TOLK_E_DEVICE, "is on", tolk_device_name(is->device),
                     tolk_device_name(was->device), err);
    if (is->dtype != was->dtype || is->elem_bytes != was->elem_bytes)
        return wrong(is, TOLK_E_DTYPE, "is", tolk_dtype_name(is->dtype),
                     tolk_dtype_name(was->dtype), err);
    if (is->n == was->n)
        return TOLK_OK;
    snprintf(has, sizeof has, "%zu elements", is->n);
    snprintf(had, sizeof had, "%zu", was->n);
    return wrong(is, TOLK_E_SHAPE, "has", has, had, err);
}

static tolk_status check_places(const tk_jit_replay *p, tolk_error *err) {
    const tk_jit_places *now = &p->now, *was = &p->captured;
    for (size_t i = 0; i < now->n && i < was->n; i++) {
        const tk_jit_place *a = &now->at[i], *b = &was->at[i];
        if (a->input != b->input)
            return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                                  "jit: input %u is on another number of devices than captured",
                                  a->input < b->input ? a->input : b->input);
        if (a->input < p->n_inputs)
            TK_TRY(check_place(a, b, err));
    }
    if (now->n != was->n)
        return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                              "jit: a buffer is on another number of devices than captured");
    return TOLK_OK;
}

static tolk_status aliased(const tk_jit_replay *p, const tk_jit_place *a, const tk_jit_place *b,
                           tolk_error *err) {
    if (b->input == p->n_inputs)
        return tk_status_fail(err, TOLK_E_ALIAS, TK_NO_NODE,
                              "jit: input %u is the memory of another buffer of what was captured, "
                              "which it was not then: copy it",
                              a->input);
    return tk_status_fail(err, TOLK_E_ALIAS, TK_NO_NODE,
                          "jit: inputs %u and %u are the same memory, which they were not when "
                          "captured",
                          a->input, b->input);
}

static const tk_jit_overlap *find_overlap(const tk_jit_replay *p, uint32_t a, uint32_t b) {
    for (size_t i = 0; i < p->overlaps.n; i++)
        if (p->overlaps.at[i].a == a && p->overlaps.at[i].b == b)
            return &p->overlaps.at[i];
    return NULL;
}

/* What was apart must be apart, unless both are only read by what was captured and one is no input;
 * what was one input must be one. */
static tolk_status check_overlaps(const tk_jit_replay *p, tolk_error *err) {
    const tk_jit_places *all = &p->now;
    for (uint32_t b = 0; b < all->n; b++)
        for (uint32_t a = 0; a < b && all->at[a].input < p->n_inputs; a++) {
            const tk_jit_place *x = &all->at[a], *y = &all->at[b];
            if (!is_over(x, y) || (y->input == p->n_inputs && !x->is_written && !y->is_written))
                continue;
            const tk_jit_overlap *o = find_overlap(p, a, b);
            if (!o || o->distance != (intptr_t)(y->from - x->from))
                return aliased(p, x, y, err);
        }
    for (size_t i = 0; i < p->overlaps.n; i++) {
        const tk_jit_overlap *o = &p->overlaps.at[i];
        if (o->is_one && all->at[o->a].from != all->at[o->b].from)
            return tk_status_fail(err, TOLK_E_ALIAS, TK_NO_NODE,
                                  "jit: inputs %u and %u were one buffer when captured, and are "
                                  "two now",
                                  all->at[o->a].input, all->at[o->b].input);
    }
    return TOLK_OK;
}

tolk_status tk_jit_inputs_check(const tolk_jit *jit, tk_jit_replay *p, const tolk_run_args *args,
                                tolk_error *err) {
    if (args->n_inputs != p->n_inputs)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "jit: %zu inputs, expected %u as captured", args->n_inputs,
                              p->n_inputs);
    TK_TRY(check_names(p, args, err));
    if (tk_exec_is_settled(p->exec, args))
        return TOLK_OK; /* looked at before the run that found them */
    TK_TRY(look(jit, p, &p->now, args, err));
    TK_TRY(check_places(p, err));
    return check_overlaps(p, err);
}
