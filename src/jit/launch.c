/* SPDX-License-Identifier: MIT
 *
 * Launching a program: what it takes, whether it may have what it is given, and running it.
 */
#include "jit/launch.h"

#include "ir/dtype.h"
#include "ir/params.h"
#include "jit/tier.h"

#include <stdio.h>

tolk_status tk_launch_check_span(const tolk_program *p, const bool *wraps, tolk_error *err) {
    if (wraps[p->meta.head->scratch_bytes])
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "kernel %.60s: the bytes of its local memory do not fit 63 bits",
                              p->meta.strings + p->meta.head->name);
    if (!wraps[p->meta.head->span])
        return TOLK_OK;
    return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                          "kernel %.60s: the number of its iterations does not fit 63 bits",
                          p->meta.strings + p->meta.head->name);
}

/* ---- checks ---- */

/* "param "x" (slot 1)" */
static const char *name_param(const tolk_program *p, const tk_meta_param *m, char buf[96]) {
    if (m->name)
        snprintf(buf, 96, "param \"%.60s\" (slot %lld)", p->meta.strings + m->name,
                 (long long)m->slot);
    else
        snprintf(buf, 96, "param in slot %lld", (long long)m->slot);
    return buf;
}

/* "kernel scale: param "x" (slot 1)" */
static const char *describe(const tolk_program *p, const tk_meta_param *m, char buf[192]) {
    char param[96];
    snprintf(buf, 192, "kernel %.60s: %s", p->meta.strings + p->meta.head->name,
             name_param(p, m, param));
    return buf;
}

static tolk_status check_scalars(const tolk_program *p, const int64_t *vals, tolk_error *err) {
    const tk_meta *h = p->meta.head;
    char who[192];
    for (size_t i = 0, v = 0; v < h->n_vals; i++) {
        const tk_meta_param *m = &p->meta.params[i];
        if (!m->is_scalar)
            continue;
        if (!tolk_dtype_is_float(m->dtype)) {
            int64_t x = (int64_t)tk_dtype_canon(m->dtype, (uint64_t)vals[v]);
            if (x != vals[v] && m->dtype != TOLK_BOOL)
                return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE, "%s: %lld does not fit %s",
                                      describe(p, m, who), (long long)vals[v],
                                      tolk_dtype_name(m->dtype));
            if (!tk_params_within((tolk_dtype)m->dtype, m->min, m->max, x))
                return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                                      "%s is %lld, expected %lld to %lld", describe(p, m, who),
                                      (long long)x, (long long)m->min, (long long)m->max);
        }
        v++;
    }
    return TOLK_OK;
}

static tolk_status check_buffers(const tolk_program *p, void *const *bufs, const size_t *bytes,
                                 const int64_t *values, const bool *wraps, tolk_error *err) {
    const tk_meta *h = p->meta.head;
    char who[192];
    for (size_t i = 0, b = 0; b < h->n_bufs; i++) {
        const tk_meta_param *m = &p->meta.params[i];
        if (m->is_scalar)
            continue;
        int64_t elems = values[m->size];
        size_t need;
        if (wraps && wraps[m->size])
            return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                                  "%s: its size with these scalars does not fit 63 bits",
                                  describe(p, m, who));
        if (elems < 0)
            return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                                  "%s: a dimension is negative with these scalars",
                                  describe(p, m, who));
        if (!tk_mul_size((size_t)elems, tolk_dtype_bytes(m->dtype), &need))
            return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                                  "%s: its size is %lld elements with these scalars",
                                  describe(p, m, who), (long long)elems);
        if (bytes[b] < need)
            return tk_status_fail(
                err, TOLK_E_LAUNCH, TK_NO_NODE, "%s: expected %zu bytes (%lld x %s), got %zu",
                describe(p, m, who), need, (long long)elems, tolk_dtype_name(m->dtype), bytes[b]);
        if (need && !bufs[b])
            return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE, "%s is NULL",
                                  describe(p, m, who));
        b++;
    }
    return TOLK_OK;
}

static bool may_share(const tolk_program *p, uint32_t a, uint32_t b) {
    for (uint32_t i = 0; i < p->meta.head->n_pairs; i++) {
        const tk_meta_pair *q = &p->meta.pairs[i];
        if ((q->a == a && q->b == b) || (q->a == b && q->b == a))
            return true;
    }
    return false;
}

/* A stored buffer may overlap another one only as a whole, and only where the kernel reads and
 * writes the same element. Sizes are those that the kernel declares. */
static tolk_status check_alias(const tolk_program *p, void *const *bufs, const int64_t *values,
                               tolk_error *err) {
    const tk_meta *h = p->meta.head;
    size_t n_params = (size_t)h->n_bufs + h->n_vals;
    char who[192], other[96];
    for (size_t i = 0, a = 0; i < n_params; i++) {
        const tk_meta_param *m = &p->meta.params[i];
        if (m->is_scalar)
            continue;
        size_t a_bytes = (size_t)values[m->size] * tolk_dtype_bytes(m->dtype);
        for (size_t j = 0, b = 0; m->stored && a_bytes && j < n_params; j++) {
            const tk_meta_param *o = &p->meta.params[j];
            if (o->is_scalar)
                continue;
            size_t b_bytes = (size_t)values[o->size] * tolk_dtype_bytes(o->dtype);
            uintptr_t x = (uintptr_t)bufs[a], y = (uintptr_t)bufs[b];
            bool twice = o->stored && j < i; /* that pair was looked at from the other side */
            if (i != j && !twice && b_bytes && x < y + b_bytes && y < x + a_bytes &&
                !(x == y && may_share(p, (uint32_t)a, (uint32_t)b)))
                return tk_status_fail(err, TOLK_E_ALIAS, TK_NO_NODE,
                                      "%s overlaps %s, and the kernel stores to it",
                                      describe(p, m, who), name_param(p, o, other));
            b++;
        }
        a++;
    }
    return TOLK_OK;
}

/* Are the buffers certainly good: large enough, and apart? Where not, check_buffers() and
 * check_alias() look closer. */
static bool bufs_are_good(const tolk_program *p, void *const *bufs, const size_t *bytes) {
    const tk_launch_buf *buf = p->buf;
    size_t n = p->meta.head->n_bufs;
    if (!buf)
        return n == 0;
    for (size_t a = 0; a < n; a++) {
        if (bytes[a] < buf[a].bytes || !bufs[a])
            return false;
        uintptr_t x = (uintptr_t)bufs[a];
        for (size_t b = 0; buf[a].stored && b < n; b++) {
            uintptr_t y = (uintptr_t)bufs[b];
            if (a != b && x < y + buf[b].bytes && y < x + buf[a].bytes)
                return false;
        }
    }
    return true;
}

tolk_status tk_launch_faulted(const tolk_program *p, const tk_launch *l, tolk_error *err) {
    char who[192];
    for (size_t i = 0; i < (size_t)p->meta.head->n_bufs + p->meta.head->n_vals; i++) {
        const tk_meta_param *m = &p->meta.params[i];
        if (m->slot == (int64_t)l->fault_slot && !m->is_scalar)
            return tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE, "%s: index %lld is out of range",
                                  describe(p, m, who), (long long)l->fault_index);
    }
    return tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE,
                          "kernel %.60s: local memory: index %lld is out of range",
                          p->meta.strings + p->meta.head->name, (long long)l->fault_index);
}

static tolk_status count_error(const tolk_program *p, const char *what, size_t want, size_t got,
                               tolk_error *err) {
    return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE, "kernel %.60s: expected %zu %s, got %zu",
                          p->meta.strings + p->meta.head->name, want, what, got);
}

/* Operations plus bytes. From 2^53 on it is only "very long", so that the number is exact and no
 * floating-point flag of the caller is raised. */
static double work_of(const tk_meta *h, const int64_t *values) {
    const int64_t most = (int64_t)1 << 53;
    const int64_t parts[] = {values[h->flops], values[h->loaded_bytes], values[h->stored_bytes]};
    int64_t sum = 0;
    for (int i = 0; i < 3; i++)
        sum += parts[i] < 0 || parts[i] > most ? most : parts[i];
    return (double)(sum < most ? sum : most);
}

/* The bytes of the launch's local memory with those of the dynamic buffer, which stands behind. */
static tolk_status add_shared(const tolk_program *p, size_t shared_bytes, tk_launch *l,
                              tolk_error *err) {
    if (!p->meta.head->dynamic)
        return TOLK_OK;
    size_t room = (size_t)INT64_MAX - l->scratch_bytes;
    if (shared_bytes > room)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "kernel %.60s: %zu bytes for its dynamic local buffer, expected at "
                              "most %zu",
                              p->meta.strings + p->meta.head->name, shared_bytes, room);
    l->scratch_bytes += shared_bytes;
    l->dynamic_bytes = shared_bytes;
    return TOLK_OK;
}

/* ---- launching ---- */

tolk_status tk_launch_prepare(const tolk_program *p, void *const *bufs, const size_t *bytes,
                              size_t n_bufs, const int64_t *vals, size_t n_vals,
                              size_t shared_bytes, tk_launch *out, tolk_error *err) {
    const tk_meta *h = p->meta.head;
    if (h->is_ptx)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "kernel %.60s is compiled for a GPU, and %s is none",
                              p->meta.strings + h->name, p->device->name);
    if (n_bufs != h->n_bufs || (n_bufs && (!bufs || !bytes)))
        return count_error(p, "buffers", h->n_bufs, bufs && bytes ? n_bufs : 0, err);
    if (n_vals != h->n_vals || (n_vals && !vals))
        return count_error(p, "scalars", h->n_vals, vals ? n_vals : 0, err);
    int64_t own[TK_EXPR_MAX_STEPS];
    bool wraps[TK_EXPR_MAX_STEPS];
    const int64_t *values = p->values;
    if (h->n_vals)
        TK_TRY(check_scalars(p, vals, err));
    if (!p->constant) {
        tk_expr_eval(p->meta.steps, h->n_steps, vals, own, wraps);
        values = own;
        TK_TRY(tk_launch_check_span(p, wraps, err));
    }
    if (!bufs_are_good(p, bufs, bytes)) {
        TK_TRY(check_buffers(p, bufs, bytes, values, p->constant ? NULL : wraps, err));
        TK_TRY(check_alias(p, bufs, values, err));
    }
    *out = (tk_launch){.bufs = bufs,
                       .vals = vals,
                       .span = values[h->span],
                       .work = work_of(h, values),
                       .pieces = h->pieces,
                       .scratch_bytes = (size_t)values[h->scratch_bytes],
                       .scratch_per_thread = h->scratch_per_thread != 0,
                       .frame_bytes = h->frame_bytes};
    return add_shared(p, shared_bytes, out, err);
}

void tk_launch_begin(const tolk_program *p, tk_launch *launch) {
    if (p->tier)
        tk_tier_launch(p, launch->work);
    launch->fn = atomic_load_explicit(&p->fn, memory_order_acquire);
}

tolk_status tk_launch_run(const tolk_program *p, tk_launch *launch, tolk_error *err) {
    tk_launch_begin(p, launch);
    TK_TRY(p->device->backend->launch(p->device, launch, err));
    return launch->faulted ? tk_launch_faulted(p, launch, err) : TOLK_OK;
}

tolk_status tolk_launch(const tolk_program *program, void *const *bufs, const size_t *bytes,
                        size_t n_bufs, const int64_t *vals, size_t n_vals, tolk_error *err) {
    return tolk_launch_with(program, bufs, bytes, n_bufs, vals, n_vals, NULL, err);
}

tolk_status tolk_launch_with(const tolk_program *program, void *const *bufs, const size_t *bytes,
                             size_t n_bufs, const int64_t *vals, size_t n_vals,
                             const tolk_launch_opts *opts, tolk_error *err) {
    if (!program)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_launch: program is NULL");
    TK_TRY(tk_params_check_launch(opts, err));
    tk_launch l;
    TK_TRY(tk_launch_prepare(program, bufs, bytes, n_bufs, vals, n_vals,
                             opts ? opts->shared_bytes : 0, &l, err));
    return tk_launch_run(program, &l, err);
}

/* ---- what a launch takes ---- */

tolk_status tolk_program_estimate(const tolk_program *program, const int64_t *vals, size_t n_vals,
                                  double *flops, double *bytes) {
    if (!program || !flops || !bytes)
        return TOLK_E_ARG;
    const tk_meta *h = program->meta.head;
    if (n_vals != h->n_vals || (n_vals && !vals))
        return TOLK_E_ARG;
    int64_t values[TK_EXPR_MAX_STEPS];
    tk_expr_eval(program->meta.steps, h->n_steps, vals, values, NULL);
    *flops = (double)values[h->flops];
    *bytes = (double)values[h->loaded_bytes] + (double)values[h->stored_bytes];
    return TOLK_OK;
}

tolk_status tolk_program_param(const tolk_program *program, size_t i, tolk_param_info *out) {
    if (!program || !out)
        return TOLK_E_ARG;
    const tk_meta *h = program->meta.head;
    if (i >= (size_t)h->n_bufs + h->n_vals)
        return TOLK_E_ARG;
    const tk_meta_param *m = &program->meta.params[i];
    *out = (tolk_param_info){.name = m->name ? program->meta.strings + m->name : NULL,
                             .slot = m->slot,
                             .dtype = m->dtype,
                             .is_scalar = m->is_scalar,
                             .is_loaded = m->loaded,
                             .is_stored = m->stored,
                             .min = m->is_scalar ? m->min : 0,
                             .max = m->is_scalar ? m->max : 0};
    return TOLK_OK;
}

tolk_status tolk_program_param_elems(const tolk_program *program, size_t i, const int64_t *vals,
                                     size_t n_vals, int64_t *elems, tolk_error *err) {
    const tolk_program *p = program;
    if (!p || !elems)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_program_param_elems: program or elems is NULL");
    const tk_meta *h = p->meta.head;
    char who[192];
    if (i >= (size_t)h->n_bufs + h->n_vals || p->meta.params[i].is_scalar)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "kernel %.60s: parameter %zu is no buffer", p->meta.strings + h->name,
                              i);
    const tk_meta_param *m = &p->meta.params[i];
    if (n_vals != h->n_vals || (n_vals && !vals))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "kernel %.60s: expected %u scalars, got %zu",
                              p->meta.strings + h->name, h->n_vals, vals ? n_vals : 0);
    TK_TRY(check_scalars(p, vals, err));
    int64_t values[TK_EXPR_MAX_STEPS];
    bool wraps[TK_EXPR_MAX_STEPS];
    tk_expr_eval(p->meta.steps, h->n_steps, vals, values, wraps);
    if (wraps[m->size])
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                              "%s: its size with these scalars does not fit 63 bits",
                              describe(p, m, who));
    if (values[m->size] < 0)
        return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "%s: a dimension is negative with these scalars",
                              describe(p, m, who));
    *elems = values[m->size];
    return TOLK_OK;
}
