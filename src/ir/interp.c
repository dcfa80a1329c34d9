/* SPDX-License-Identifier: MIT
 *
 * A run: arguments are checked, the plan is made, work-groups run one after the other. The
 * work-items of a group run one after the other, too, unless they meet at barriers, shuffles or
 * shared matrices: then each has its own values and stack, and runs until it has to wait.
 */
#include "ir/interp.h"

#include "ir/dtype.h"
#include "ir/interp_plan.h"

#include <fenv.h>
#include <string.h>

enum { WARP = 32, MAX_GROUP = 1 << 16, FRESH = 0xcb };

/* ---- arguments ---- */

static tolk_status check_scalar(const char *kernel, const tk_param *p, int64_t v, tolk_error *err) {
    char text[64];
    if (!tolk_dtype_is_int(p->dtype))
        return TOLK_OK;
    if ((uint64_t)v != tk_dtype_canon(p->dtype, (uint64_t)v))
        return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "kernel \"%.60s\": %s is %lld, which does not fit %s", kernel,
                              tk_params_text(p, text), (long long)v, tolk_dtype_name(p->dtype));
    int64_t lo = tk_uop_int(p->node, TK_A_PARAM_MIN), hi = tk_uop_int(p->node, TK_A_PARAM_MAX);
    if (!tk_params_within(p->dtype, lo, hi, v))
        return tk_status_fail(err, TOLK_E_LAUNCH, TK_NO_NODE,
                              "kernel \"%.60s\": %s is %lld, expected %lld..%lld", kernel,
                              tk_params_text(p, text), (long long)v, (long long)lo, (long long)hi);
    return TOLK_OK;
}

static tolk_status check_count(const char *kernel, const char *what, size_t have, size_t want,
                               const tk_param *missing, tolk_error *err) {
    char text[64];
    if (have < want)
        return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE,
                              "kernel \"%.60s\": no value for %s: %zu %s given, expected %zu",
                              kernel, tk_params_text(missing, text), have, what, want);
    if (have > want)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "kernel \"%.60s\": %zu %s given, expected %zu", kernel, have, what,
                              want);
    return TOLK_OK;
}

static tolk_status check_args(tk_interp *in, const char *kernel) {
    const tk_interp_args *args = in->args;
    const tk_params *params = &in->params;
    if ((args->n_bufs && (!args->bufs || !args->bytes)) || (args->n_vals && !args->vals))
        return tk_status_fail(in->err, TOLK_E_ARG, TK_NO_NODE,
                              "kernel \"%.60s\": the list of arguments is NULL", kernel);
    TK_TRY(check_count(kernel, "scalars", args->n_vals, params->n_vals,
                       args->n_vals < params->n_vals ? tk_params_val(params, (uint32_t)args->n_vals)
                                                     : NULL,
                       in->err));
    TK_TRY(check_count(kernel, "buffers", args->n_bufs, params->n_bufs,
                       args->n_bufs < params->n_bufs ? tk_params_buf(params, (uint32_t)args->n_bufs)
                                                     : NULL,
                       in->err));
    for (size_t i = 0; i < params->list.n; i++) {
        const tk_param *p = &params->list.at[i];
        if (p->is_scalar)
            TK_TRY(check_scalar(kernel, p, args->vals[p->place], in->err));
    }
    return TOLK_OK;
}

/* Once the plan knows how many elements each has. */
static tolk_status check_bufs(const tk_interp *in, const char *kernel) {
    for (size_t i = 0; i < in->plan.bufs.n; i++) {
        const tk_interp_buf *f = &in->plan.bufs.at[i];
        char text[64];
        if (!f->param)
            continue;
        size_t want = (size_t)f->scalars * tolk_dtype_bytes(f->dt);
        size_t have = in->args->bytes[f->param->place];
        if (have < want)
            return tk_status_fail(in->err, TOLK_E_LAUNCH, TK_NO_NODE,
                                  "kernel \"%.60s\": %s has %zu bytes, expected %zu", kernel,
                                  tk_params_text(f->param, text), have, want);
        if (want && !f->base)
            return tk_status_fail(in->err, TOLK_E_ARG, TK_NO_NODE, "kernel \"%.60s\": %s is NULL",
                                  kernel, tk_params_text(f->param, text));
    }
    return TOLK_OK;
}

/* ---- work-items ---- */

static bool init_item(tk_interp *in, tk_interp_item *it) {
    const tk_interp_plan *plan = &in->plan;
    tk_vec_init(&it->stack, in->al);
    tk_vec_init(&it->spill, in->al);
    it->val = tk_alloc(in->al, ((size_t)plan->n_vals + 1) * sizeof *it->val);
    it->state = tk_alloc(in->al, plan->nodes.n);
    it->limit = tk_alloc_zero(in->al, ((size_t)plan->n_ranges + 1) * sizeof *it->limit);
    it->active = tk_alloc_zero(in->al, ((size_t)plan->n_ranges + 1) * sizeof *it->active);
    it->reg = tk_alloc(in->al, plan->reg_bytes + 1);
    if (!it->val || !it->state || !it->limit || !it->active || !it->reg)
        return false;
    memcpy(it->val, in->val0, ((size_t)plan->n_vals + 1) * sizeof *it->val);
    return true;
}

static void fini_item(const tk_interp *in, tk_interp_item *it) {
    const tk_interp_plan *plan = &in->plan;
    tk_vec_fini(&it->stack);
    tk_vec_fini(&it->spill);
    tk_alloc_free(in->al, it->val, ((size_t)plan->n_vals + 1) * sizeof *it->val);
    tk_alloc_free(in->al, it->state, plan->nodes.n);
    tk_alloc_free(in->al, it->limit, ((size_t)plan->n_ranges + 1) * sizeof *it->limit);
    tk_alloc_free(in->al, it->active, ((size_t)plan->n_ranges + 1) * sizeof *it->active);
    tk_alloc_free(in->al, it->reg, plan->reg_bytes + 1);
}

/* Make it the work-item at these indices, about to start. */
static void start_item(const tk_interp *in, tk_interp_item *it,
                       const int64_t index[TK_INTERP_DIMS]) {
    const tk_interp_plan *plan = &in->plan;
    memcpy(it->state, in->state0, plan->nodes.n);
    memset(it->reg, FRESH, plan->reg_bytes);
    it->pc = 0;
    it->waiting = it->granted = it->done = false;
    for (size_t n = 0; n < plan->specials.n; n++) {
        const tk_interp_node *k = &plan->nodes.at[plan->specials.at[n]];
        it->val[k->val] = (uint64_t)index[k->special];
    }
}

static tolk_status step_item(tk_interp *in, tk_interp_item *it) {
    return in->plan.is_program ? tk_interp_program_step(in, it) : tk_interp_kernel_step(in, it);
}

/* ---- work-items that meet ---- */

static void grant(tk_interp_item *it) {
    it->waiting = false;
    it->granted = true;
}

/* Each waiting item of the warp gets the value of item w xor lane, its own if that does not wait at
 * the same node. The values were copied before any of them is overwritten. */
static tolk_status exchange_shuffle(tk_interp *in, tk_interp_item *warp, uint32_t n,
                                    uint32_t node) {
    const tk_interp_node *k = tk_interp_node_at(in, node);
    const tk_interp_node *value = tk_interp_node_at(in, tk_interp_src(in, k, 0));
    const tk_interp_node *lane = tk_interp_node_at(in, tk_interp_src(in, k, 1));
    for (uint32_t w = 0; w < n; w++) {
        tk_interp_item *it = &warp[w];
        if (!it->waiting || it->wait != node)
            continue;
        uint64_t other = w ^ it->val[lane->val];
        bool there = other < n && warp[other].waiting && warp[other].wait == node;
        /* The shuffle's own words are written, those of its operand are read: no order matters. */
        memcpy(it->val + k->val, (there ? &warp[other] : it)->val + value->val,
               k->width * sizeof *it->val);
    }
    for (uint32_t w = 0; w < n; w++)
        if (warp[w].waiting && warp[w].wait == node)
            grant(&warp[w]);
    return TOLK_OK;
}

static tolk_status exchange_wmma(tk_interp *in, tk_interp_item *warp, uint32_t n, uint32_t node) {
    for (uint32_t w = 0; w < n; w++)
        if (!warp[w].waiting || warp[w].wait != node)
            return tk_status_fail(in->err, TOLK_E_LAUNCH, TK_NO_NODE,
                                  "wmma: not all work-items of a warp reach it");
    TK_TRY(tk_interp_wmma(in, warp, n, node));
    for (uint32_t w = 0; w < n; w++)
        grant(&warp[w]);
    return TOLK_OK;
}

/* Serve the first shuffle or matrix that an item of the warp waits at. *served: there was one. */
static tolk_status exchange(tk_interp *in, tk_interp_item *warp, uint32_t n, bool *served) {
    for (uint32_t w = 0; w < n; w++) {
        uint32_t node = warp[w].wait;
        tk_op op = tk_interp_node_at(in, node)->op;
        if (!warp[w].waiting || op == TK_OP_BARRIER)
            continue;
        *served = true;
        return op == TK_OP_SHUFFLE ? exchange_shuffle(in, warp, n, node)
                                   : exchange_wmma(in, warp, n, node);
    }
    return TOLK_OK;
}

/* All items wait at barriers or are done. *more: they go on. */
static tolk_status pass_barrier(tk_interp *in, bool *more) {
    const tk_interp_item *first = &in->items[0];
    *more = first->waiting;
    for (uint32_t w = 0; w < in->n_items; w++) {
        tk_interp_item *it = &in->items[w];
        if (it->waiting != *more || (*more && it->wait != first->wait))
            return tk_status_fail(in->err, TOLK_E_LAUNCH, TK_NO_NODE,
                                  "work-items 0 and %u of a group do not reach the same barriers",
                                  w);
    }
    for (uint32_t w = 0; *more && w < in->n_items; w++)
        grant(&in->items[w]);
    return TOLK_OK;
}

static tolk_status run_together(tk_interp *in) {
    for (bool more = true; more;) {
        for (uint32_t w = 0; w < in->n_items; w++)
            if (!in->items[w].done && !in->items[w].waiting)
                TK_TRY(step_item(in, &in->items[w]));
        bool served = false;
        for (uint32_t w = 0; w < in->n_items; w += WARP) {
            uint32_t n = in->n_items - w < WARP ? in->n_items - w : WARP;
            TK_TRY(exchange(in, &in->items[w], n, &served));
        }
        if (!served)
            TK_TRY(pass_barrier(in, &more));
    }
    return TOLK_OK;
}

/* ---- work-groups ---- */

/* The next combination of index[first .. last), the first fastest. False after the last one. */
static bool advance(const tk_interp *in, int64_t *index, int first, int last) {
    for (int d = first; d < last; d++) {
        if (++index[d] < in->dims[d])
            return true;
        index[d] = 0;
    }
    return false;
}

static tolk_status run_group(tk_interp *in, int64_t index[TK_INTERP_DIMS]) {
    memset(in->local, FRESH, in->plan.local_bytes);
    uint32_t w = 0;
    do {
        tk_interp_item *it = &in->items[in->plan.meets ? w++ : 0];
        start_item(in, it, index);
        if (!in->plan.meets)
            TK_TRY(step_item(in, it));
    } while (advance(in, index, TK_INTERP_LIDX, TK_INTERP_DIMS));
    return in->plan.meets ? run_together(in) : TOLK_OK;
}

static tolk_status run_groups(tk_interp *in) {
    int64_t index[TK_INTERP_DIMS] = {0}, group = 1;
    for (int d = 0; d < TK_INTERP_DIMS; d++) {
        if (in->dims[d] < 0)
            in->dims[d] = 1; /* the kernel does not ask for this index */
        if (in->dims[d] == 0)
            return TOLK_OK;
    }
    for (int d = TK_INTERP_LIDX; d < TK_INTERP_DIMS; d++)
        if (in->dims[d] > MAX_GROUP || (group *= in->dims[d]) > MAX_GROUP)
            return tk_status_fail(in->err, TOLK_E_LIMIT, TK_NO_NODE,
                                  "more than %d work-items in a group", MAX_GROUP);
    uint32_t n = in->plan.meets ? (uint32_t)group : 1;
    in->items_bytes = n * sizeof *in->items;
    in->items = tk_alloc_zero(in->al, in->items_bytes);
    in->run_memory = tk_alloc(in->al, in->plan.run_bytes + 1);
    in->local = tk_alloc(in->al, in->plan.local_bytes + 1);
    if (!in->local)
        return tk_status_fail(in->err, TOLK_E_NOMEM, TK_NO_NODE,
                              "there is no memory for the %zu bytes of local memory of this kernel",
                              in->plan.local_asked);
    if (!in->items || !in->run_memory)
        return tk_status_nomem(in->err);
    memset(in->run_memory, FRESH, in->plan.run_bytes);
    for (; in->n_items < n; in->n_items++)
        if (!init_item(in, &in->items[in->n_items])) {
            fini_item(in, &in->items[in->n_items]);
            return tk_status_nomem(in->err);
        }
    do {
        TK_TRY(run_group(in, index));
    } while (advance(in, index, 0, TK_INTERP_LIDX));
    return TOLK_OK;
}

/* ---- the run ---- */

static tolk_status report_fault(const tk_interp *in, const char *kernel) {
    const tk_interp_buf *f = &in->plan.bufs.at[in->fault_buf];
    char name[64];
    if (f->param)
        tk_params_text(f->param, name);
    else
        memcpy(name, "scratch", sizeof "scratch");
    return tk_status_fail(
        in->err, TOLK_E_RANGE, TK_NO_NODE,
        "kernel \"%.60s\": %s %s at index %lld%s, which has %lld elements", kernel,
        in->fault_store ? "store to" : "load of", name, (long long)in->fault_index,
        in->fault_bad ? " (a dimension is out of range)" : "", (long long)(f->scalars / f->lanes));
}

static tolk_status run(tk_interp *in, const tolk_uop *root) {
    const char *kernel = tolk_kernel_name(root);
    TK_TRY(tk_params_init(&in->params, root, in->al, in->err));
    TK_TRY(check_args(in, kernel));
    TK_TRY(tk_interp_plan_init(in, root));
    TK_TRY(check_bufs(in, kernel));
    TK_TRY(run_groups(in));
    return in->fault ? report_fault(in, kernel) : TOLK_OK;
}

tolk_status tk_interp_run(const tolk_uop *root, const tk_interp_args *args, tolk_error *err) {
    if (!root || !args)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "the kernel is NULL");
    if (!tk_uop_is(root, TK_OP_SINK) && !tk_uop_is(root, TK_OP_LINEAR))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "%s: expected a kernel (sink) or a program (linear)",
                              tk_op_get(tk_uop_op(root))->name);
    const tolk_allocator *al = root->graph->al;
    tk_interp *in = tk_alloc_zero(al, sizeof *in);
    if (!in)
        return tk_status_nomem(err);
    in->al = al;
    in->args = args;
    in->err = err;
    in->fma = !args->no_fma;
    /* Rounding, denormals and traps as the value table wants them, whatever the caller has set. */
    fenv_t caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    tolk_status st = run(in, root);
    fesetenv(&caller);
    for (uint32_t i = 0; i < in->n_items; i++)
        fini_item(in, &in->items[i]);
    tk_alloc_free(al, in->items, in->items_bytes);
    tk_alloc_free(al, in->run_memory, in->plan.run_bytes + 1);
    tk_alloc_free(al, in->local, in->plan.local_bytes + 1);
    tk_alloc_free(al, in->val0, ((size_t)in->plan.n_vals + 1) * sizeof *in->val0);
    tk_alloc_free(al, in->state0, in->plan.nodes.n);
    tk_interp_plan_fini(&in->plan);
    tk_params_fini(&in->params);
    tk_alloc_free(al, in, sizeof *in);
    return st;
}

tolk_status tolk_interpret_launch(const tolk_uop *kernel, void *const *bufs, const size_t *bytes,
                                  size_t n_bufs, const int64_t *vals, size_t n_vals, uint32_t flags,
                                  const tolk_launch_opts *opts, tolk_error *err) {
    TK_TRY(tk_params_check_launch(opts, err));
    if (flags & ~(uint32_t)TOLK_INTERPRET_NO_FMA)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "unknown flags 0x%x", flags);
    tk_interp_args args = {.bufs = bufs,
                           .bytes = bytes,
                           .n_bufs = n_bufs,
                           .vals = vals,
                           .n_vals = n_vals,
                           .dynamic_bytes = opts ? opts->shared_bytes : 0,
                           .no_fma = (flags & TOLK_INTERPRET_NO_FMA) != 0};
    return tk_interp_run(kernel, &args, err);
}

tolk_status tolk_interpret_with(const tolk_uop *kernel, void *const *bufs, const size_t *bytes,
                                size_t n_bufs, const int64_t *vals, size_t n_vals, uint32_t flags,
                                tolk_error *err) {
    return tolk_interpret_launch(kernel, bufs, bytes, n_bufs, vals, n_vals, flags, NULL, err);
}

tolk_status tolk_interpret(const tolk_uop *kernel, void *const *bufs, const size_t *bytes,
                           size_t n_bufs, const int64_t *vals, size_t n_vals, tolk_error *err) {
    return tolk_interpret_with(kernel, bufs, bytes, n_bufs, vals, n_vals, 0, err);
}
