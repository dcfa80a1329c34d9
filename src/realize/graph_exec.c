/* SPDX-License-Identifier: MIT
 *
 * A run that does not find the arguments of the run before compares place by place and gives the
 * device anew only the nodes that use what has changed. It does so in an instance (a graph of the
 * device with its own copy of everything) that is not under way; there are a few of them, made when
 * they are first needed, so that runs need not wait for each other.
 *
 * The edges hold for all arguments that overlap in the same way. What that is, an instance keeps as
 * a label for each argument: the first argument that it overlaps, by way of others too, and where
 * it lies beside that one. Equal labels mean equal edges; others, that it is recorded anew.
 */
#include "realize/graph_exec.h"

#include "base/map.h"
#include "base/status.h"
#include "realize/buffer.h"
#include "realize/deps.h"
#include "realize/realize.h"

#include <stdio.h>
#include <string.h>

enum { MOST_INSTANCES = 4 }; /* but for runs that a task of the queue submits */

typedef struct call {
    tolk_kernel *kernel; /* NULL: a copy */
    uint32_t n_args, n_vals;
    uint32_t *args, *vars;
    int64_t *fixed;
} call;

/* What the calls do with an argument. */
typedef struct use {
    bool by_kernel, reads, writes;
    bool is_source; /* the first call that uses it only reads it: there must be something */
    uint32_t first; /* that call */
    /* By the first call that uses it: "kernel scale: argument 1 ("x")", for errors. */
    const char *what;
} use;

/* Where an argument lies: an address, and where that is none of the host's, the memory it is in. */
typedef struct place {
    const void *root;
    uintptr_t from, to;
    const tk_memory *memory;
    tolk_dtype dtype;
    size_t elem_bytes;
} place;

/* How an argument lies to the others; an argument that overlaps none is {itself, 0, 0}. */
typedef struct label {
    uint32_t first;
    uintptr_t offset;
    size_t bytes;
} label;

typedef struct instance {
    tk_graph_exec *exec;
    _Atomic bool under_way;
    uint64_t ticket; /* of the last run that was queued */
    bool whole;      /* its graph is what `places` and `vars` say */
    void *graph;     /* the backend's; NULL: none yet */
    place *places;
    label *labels;
    uint32_t *order; /* arguments by place */
    int64_t *vars;
    tk_use *uses;
    size_t n_uses;
    tk_piece *pieces; /* of a run that is under way */
} instance;

struct tk_graph_exec {
    _Atomic uint32_t refs; /* one of the owner, one of each run that is under way */
    tolk_device *device;
    uint32_t n_calls, n_args, n_vars;
    size_t all_args, all_vals; /* of all calls together */
    uint32_t most_args, most_vals;
    call *calls;
    use *uses;
    TK_VEC(instance *) instances;
    uint64_t records;
    char name[48]; /* in the queue's errors */
    /* For the run that is being prepared. */
    tk_piece *pieces;
    place *places;
    label *labels;
    bool *arg_changed, *var_changed;
    void **bufs;
    size_t *bytes;
    int64_t *vals;
    void *memory; /* of all arrays */
    size_t memory_bytes;
};

/* ---- making one ---- */

/* Parts of one allocation: `at` NULL only adds up. */
static void *take(char *at, size_t *used, size_t bytes) {
    void *part = at ? at + *used : NULL;
    *used += (bytes + 15) & ~(size_t)15;
    return part;
}

static void count(tk_graph_exec *g, const tk_graph_exec_call *calls) {
    for (uint32_t i = 0; i < g->n_calls; i++) {
        const tk_meta *h = calls[i].kernel ? calls[i].kernel->program->meta.head : NULL;
        uint32_t n_args = h ? h->n_bufs : 2, n_vals = h ? h->n_vals : 0;
        g->most_args = n_args > g->most_args ? n_args : g->most_args;
        g->most_vals = n_vals > g->most_vals ? n_vals : g->most_vals;
        g->all_args += n_args;
        g->all_vals += n_vals;
    }
}

static size_t place_parts(tk_graph_exec *g, char *at, const tk_graph_exec_call *calls) {
    size_t used = 0;
    g->calls = take(at, &used, g->n_calls * sizeof *g->calls);
    g->uses = take(at, &used, g->n_args * sizeof *g->uses);
    g->pieces = take(at, &used, g->n_args * sizeof *g->pieces);
    g->places = take(at, &used, g->n_args * sizeof *g->places);
    g->labels = take(at, &used, g->n_args * sizeof *g->labels);
    g->arg_changed = take(at, &used, g->n_args * sizeof *g->arg_changed);
    g->var_changed = take(at, &used, g->n_vars * sizeof *g->var_changed);
    g->bufs = take(at, &used, g->most_args * sizeof *g->bufs);
    g->bytes = take(at, &used, g->most_args * sizeof *g->bytes);
    g->vals = take(at, &used, g->most_vals * sizeof *g->vals);
    for (uint32_t i = 0; i < g->n_calls; i++) {
        const tk_meta *h = calls[i].kernel ? calls[i].kernel->program->meta.head : NULL;
        call c = {
            .kernel = calls[i].kernel, .n_args = h ? h->n_bufs : 2, .n_vals = h ? h->n_vals : 0};
        c.args = take(at, &used, c.n_args * sizeof *c.args);
        c.vars = take(at, &used, c.n_vals * sizeof *c.vars);
        c.fixed = take(at, &used, c.n_vals * sizeof *c.fixed);
        if (!at)
            continue;
        if (c.n_args)
            memcpy(c.args, calls[i].args, c.n_args * sizeof *c.args);
        for (uint32_t v = 0; v < c.n_vals; v++) {
            c.vars[v] = calls[i].vars[v];
            c.fixed[v] = c.vars[v] == TK_GRAPH_EXEC_FIXED ? calls[i].fixed[v] : 0;
        }
        g->calls[i] = c;
    }
    return used;
}

/* The param of a kernel that is its buffer number b. */
static const tk_meta_param *buffer_param(const tolk_kernel *k, uint32_t b, size_t *place_of) {
    const tk_meta_param *p = k->program->meta.params;
    size_t i = 0;
    for (;; i++)
        if (!p[i].is_scalar && b-- == 0)
            break;
    *place_of = i;
    return &p[i];
}

/* Does a call read, write its argument a? param: 0 for its first one, of its kernel behind it. */
static void access_of(const call *c, uint32_t a, size_t *param, bool *reads, bool *writes) {
    *reads = a == 1;
    *writes = a == 0;
    if (!c->kernel)
        return;
    const tk_meta_param *m = c->kernel->program->meta.params;
    while (m[*param].is_scalar)
        ++*param;
    *reads = m[*param].loaded != 0;
    *writes = m[*param].stored != 0;
    ++*param;
}

static void note_uses(tk_graph_exec *g) {
    static const char *const of_copy[2] = {"what a copy writes to", "what a copy reads"};
    for (uint32_t i = 0; i < g->n_calls; i++) {
        const call *c = &g->calls[i];
        size_t p = 0;
        for (uint32_t a = 0; a < c->n_args; a++) {
            use *u = &g->uses[c->args[a]];
            bool reads, writes;
            access_of(c, a, &p, &reads, &writes);
            if (!u->what)
                u->what = c->kernel ? c->kernel->param[p - 1].what : of_copy[a];
            if (reads && !writes && !u->reads && !u->writes) {
                u->is_source = true;
                u->first = i;
            }
            u->by_kernel |= c->kernel != NULL;
            u->reads |= reads;
            u->writes |= writes;
        }
    }
}

static void free_instance(instance *x) {
    const tk_graph_exec *g = x->exec;
    const tolk_allocator *al = &g->device->ctx->al;
    if (x->graph)
        g->device->backend->graph->destroy(x->graph);
    tk_alloc_free(al, x->places, g->n_args * sizeof *x->places);
    tk_alloc_free(al, x->labels, g->n_args * sizeof *x->labels);
    tk_alloc_free(al, x->order, g->n_args * sizeof *x->order);
    tk_alloc_free(al, x->vars, g->n_vars * sizeof *x->vars);
    tk_alloc_free(al, x->uses, g->n_args * sizeof *x->uses);
    tk_alloc_free(al, x->pieces, g->n_args * sizeof *x->pieces);
    tk_alloc_free(al, x, sizeof *x);
}

static void unref(tk_graph_exec *g) {
    if (atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1)
        return;
    const tolk_allocator *al = &g->device->ctx->al;
    for (size_t i = 0; i < g->instances.n; i++)
        free_instance(g->instances.at[i]);
    tk_vec_fini(&g->instances);
    for (uint32_t i = 0; i < g->n_calls; i++)
        tolk_kernel_unref(g->calls[i].kernel);
    tk_alloc_free(al, g->memory, g->memory_bytes);
    tk_alloc_free(al, g, sizeof *g);
}

void tk_graph_exec_destroy(tk_graph_exec *g) {
    if (g)
        unref(g);
}

tolk_status tk_graph_exec_create(tolk_device *device, const tk_graph_exec_call *calls, size_t n,
                                 size_t n_args, size_t n_vars, tk_graph_exec **out,
                                 tolk_error *err) {
    const tolk_allocator *al = &device->ctx->al;
    TK_TRY(tk_device_check(device, err));
    if (!device->backend->graph)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE, "%s has no graphs",
                              device->name);
    for (size_t i = 0; i < n; i++)
        if (calls[i].kernel && calls[i].kernel->device != device)
            return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                                  "kernel %.60s in a graph of %.40s is compiled for %.40s",
                                  calls[i].kernel->name, device->name,
                                  calls[i].kernel->device->name);
    tk_graph_exec *g = tk_alloc_zero(al, sizeof *g);
    if (!g)
        return tk_status_nomem(err);
    atomic_init(&g->refs, 1);
    g->device = device;
    g->n_calls = (uint32_t)n;
    g->n_args = (uint32_t)n_args;
    g->n_vars = (uint32_t)n_vars;
    tk_vec_init(&g->instances, al);
    count(g, calls);
    g->memory_bytes = place_parts(g, NULL, calls) + 1;
    g->memory = tk_alloc_zero(al, g->memory_bytes);
    if (!g->memory) {
        tk_alloc_free(al, g, sizeof *g);
        return tk_status_nomem(err);
    }
    (void)place_parts(g, g->memory, calls);
    for (size_t i = 0; i < n; i++)
        (void)tolk_kernel_ref(g->calls[i].kernel);
    note_uses(g);
    snprintf(g->name, sizeof g->name, "graph of %zu", n);
    *out = g;
    return TOLK_OK;
}

uint32_t tk_graph_exec_arg(const tk_graph_exec *g, size_t i, uint32_t a) {
    return g->calls[i].args[a];
}

uint64_t tk_graph_exec_records(const tk_graph_exec *g) {
    return g->records;
}

size_t tk_graph_exec_instances(const tk_graph_exec *g) {
    return g->instances.n;
}

/* ---- instances ---- */

static tolk_status make_instance(tk_graph_exec *g, instance **out, tolk_error *err) {
    const tolk_allocator *al = &g->device->ctx->al;
    if (!tk_vec_reserve(&g->instances, g->instances.n + 1))
        return tk_status_nomem(err);
    instance *x = tk_alloc_zero(al, sizeof *x);
    if (!x)
        return tk_status_nomem(err);
    x->exec = g;
    x->places = tk_alloc(al, g->n_args * sizeof *x->places);
    x->labels = tk_alloc(al, g->n_args * sizeof *x->labels);
    x->order = tk_alloc(al, g->n_args * sizeof *x->order);
    x->vars = tk_alloc(al, g->n_vars * sizeof *x->vars);
    x->uses = tk_alloc(al, g->n_args * sizeof *x->uses);
    x->pieces = tk_alloc(al, g->n_args * sizeof *x->pieces);
    if (!x->places || !x->labels || !x->order || !x->vars || !x->uses || !x->pieces) {
        free_instance(x);
        return tk_status_nomem(err);
    }
    for (uint32_t i = 0; i < g->n_args; i++)
        x->order[i] = i;
    (void)tk_vec_push(&g->instances, x);
    *out = x;
    return TOLK_OK;
}

static instance *free_one(const tk_graph_exec *g) {
    for (size_t i = 0; i < g->instances.n; i++)
        if (!atomic_load_explicit(&g->instances.at[i]->under_way, memory_order_acquire))
            return g->instances.at[i];
    return NULL;
}

/* One that is not under way: there is, it is made, or waited for. */
static tolk_status take_instance(tk_graph_exec *g, instance **out, tolk_error *err) {
    tk_queue *q = tk_device_state_of(g->device)->queue;
    while (!(*out = free_one(g))) {
        if (g->instances.n < MOST_INSTANCES || tk_queue_is_inside(q))
            return make_instance(g, out, err);
        const instance *oldest = g->instances.at[0];
        for (size_t i = 1; i < g->instances.n; i++)
            if (g->instances.at[i]->ticket < oldest->ticket)
                oldest = g->instances.at[i];
        TK_TRY(tk_queue_wait(q, oldest->ticket, err)); /* what is done was released */
    }
    return TOLK_OK;
}

/* ---- what is as it was ---- */

static void drop_pieces(tk_piece *pieces, size_t n) {
    for (size_t i = 0; i < n; i++)
        tk_piece_drop(&pieces[i]);
}

static tolk_status take_piece(const tk_graph_exec *g, uint32_t i, tolk_buffer *arg,
                              tolk_error *err) {
    const use *u = &g->uses[i];
    const tolk_device *d = tk_buffer_device(arg);
    if (u->by_kernel ? d != g->device : d->backend->memory != g->device->backend->memory)
        return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                              "%s: the buffer is on device %.40s, the graph on %.40s", u->what,
                              d->name, g->device->name);
    if (!u->is_source)
        return tk_buffer_piece(arg, u->what, &g->pieces[i], err);
    tolk_error why = TOLK_ERROR_INIT;
    tolk_buffer_info info;
    tolk_status st = tk_buffer_piece_bound(arg, u->what, &g->pieces[i], &why);
    if (st == TOLK_E_UNBOUND && tolk_buffer_get_info(arg, &info) == TOLK_OK && info.is_allocated)
        return tk_buffer_piece(arg, u->what, &g->pieces[i], err); /* find_writers() sees to it */
    if (st != TOLK_OK && err)
        *err = why;
    return st;
}

static bool is_missing(const tk_graph_exec *g, uint32_t arg) {
    const tk_piece *p = &g->pieces[arg];
    return g->uses[arg].is_source && p->bytes && !tk_memory_is_stored(p->memory);
}

/* What a call is the first to read, and nothing was stored to, a call before it must write.
 * written: memory. */
static tolk_status find_writers(const tk_graph_exec *g, tk_map *written, tolk_error *err) {
    for (uint32_t i = 0; i < g->n_calls; i++) {
        const call *c = &g->calls[i];
        size_t param = 0;
        bool reads, writes, ok = true;
        for (uint32_t a = 0; a < c->n_args; a++) {
            uint32_t arg = c->args[a];
            if (g->uses[arg].first == i && is_missing(g, arg) &&
                !tk_map_find(written, (uintptr_t)g->pieces[arg].memory))
                return tk_status_fail(err, TOLK_E_UNBOUND, TK_NO_NODE,
                                      "%s: nothing was stored to the buffer yet",
                                      g->uses[arg].what);
        }
        for (uint32_t a = 0; a < c->n_args && ok; a++) {
            access_of(c, a, &param, &reads, &writes);
            ok = !writes || tk_map_put(written, (uintptr_t)g->pieces[c->args[a]].memory, 1);
        }
        if (!ok)
            return tk_status_nomem(err);
    }
    return TOLK_OK;
}

static tolk_status check_sources(const tk_graph_exec *g, tolk_error *err) {
    uint32_t i = 0;
    while (i < g->n_args && !is_missing(g, i))
        i++;
    if (i == g->n_args)
        return TOLK_OK;
    tk_map written;
    tk_map_init(&written, &g->device->ctx->al);
    tolk_status st = find_writers(g, &written, err);
    tk_map_fini(&written);
    return st;
}

/* What is read first last, as calls before may give it memory. */
static tolk_status take_all(tk_graph_exec *g, tolk_buffer *const *args, tolk_error *err) {
    bool visible = g->device->backend->memory->host_visible;
    for (int sources = 0; sources < 2; sources++)
        for (uint32_t i = 0; i < g->n_args; i++) {
            if (g->uses[i].is_source != sources)
                continue;
            TK_TRY(take_piece(g, i, args[i], err));
            const tk_piece *p = &g->pieces[i];
            uintptr_t from = visible ? (uintptr_t)p->at : p->offset;
            g->places[i] = (place){visible ? NULL : p->memory,
                                   from,
                                   from + p->bytes,
                                   p->memory,
                                   p->dtype,
                                   p->elem_bytes};
        }
    return check_sources(g, err);
}

static tolk_status take_pieces(tk_graph_exec *g, tolk_buffer *const *args, tolk_error *err) {
    memset(g->pieces, 0, g->n_args * sizeof *g->pieces);
    tolk_status st = take_all(g, args, err);
    if (st != TOLK_OK)
        drop_pieces(g->pieces, g->n_args);
    return st;
}

static bool same_place(const place *a, const place *b) {
    return a->root == b->root && a->from == b->from && a->to == b->to && a->memory == b->memory &&
           a->dtype == b->dtype && a->elem_bytes == b->elem_bytes;
}

/* Mark what differs from the instance; how many arguments. */
static uint32_t compare(tk_graph_exec *g, const instance *x, const int64_t *vars, bool *any_var) {
    uint32_t n = 0;
    *any_var = false;
    for (uint32_t i = 0; i < g->n_args; i++) {
        g->arg_changed[i] = !x->whole || !same_place(&x->places[i], &g->places[i]);
        n += g->arg_changed[i];
    }
    for (uint32_t i = 0; i < g->n_vars; i++) {
        g->var_changed[i] = !x->whole || x->vars[i] != vars[i];
        *any_var |= g->var_changed[i];
    }
    return n;
}

/* ---- how arguments overlap ---- */

static bool is_before(const place *p, uint32_t a, uint32_t b) {
    if (p[a].root != p[b].root)
        return (uintptr_t)p[a].root < (uintptr_t)p[b].root;
    if (p[a].from != p[b].from)
        return p[a].from < p[b].from;
    return p[a].to != p[b].to ? p[a].to < p[b].to : a < b;
}

static void sift(const place *p, uint32_t *order, uint32_t at, uint32_t n) {
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_before(p, order[child], order[child + 1]))
            child++;
        if (!is_before(p, order[at], order[child]))
            return;
        uint32_t swap = order[at];
        order[at] = order[child];
        order[child] = swap;
    }
}

/* In place: where few places changed each of them moves, else by a heap. */
static void sort(const place *p, uint32_t *order, uint32_t n, uint32_t n_changed) {
    if (n_changed <= 8) {
        for (uint32_t i = 1; i < n; i++) {
            uint32_t x = order[i], k = i;
            for (; k > 0 && is_before(p, x, order[k - 1]); k--)
                order[k] = order[k - 1];
            order[k] = x;
        }
        return;
    }
    for (uint32_t i = n / 2; i-- > 0;)
        sift(p, order, i, n);
    for (uint32_t end = n; end-- > 1;) {
        uint32_t swap = order[0];
        order[0] = order[end];
        order[end] = swap;
        sift(p, order, 0, end);
    }
}

/* The labels of arguments order[from .. to), which overlap, or of the one that is alone. */
static void set_labels(const place *p, const uint32_t *order, uint32_t from, uint32_t to,
                       label *labels) {
    uint32_t first = order[from];
    for (uint32_t i = from; i < to; i++)
        first = order[i] < first ? order[i] : first;
    for (uint32_t i = from; i < to; i++) {
        const place *x = &p[order[i]];
        labels[order[i]] = to - from == 1
                               ? (label){order[i], 0, 0}
                               : (label){first, x->from - p[first].from, x->to - x->from};
    }
}

/* order: sorted. An empty one has a label of its own, or that of those around it. */
static void label_all(const place *p, const uint32_t *order, uint32_t n, label *labels) {
    uint32_t from = 0;
    uintptr_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        const place *x = &p[order[i]];
        if (i > from && (x->root != p[order[from]].root || x->from >= end)) {
            set_labels(p, order, from, i, labels);
            from = i;
        }
        end = i == from || x->to > end ? x->to : end;
    }
    if (n)
        set_labels(p, order, from, n, labels);
}

static bool same_labels(const label *a, const label *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].first != b[i].first || a[i].offset != b[i].offset || a[i].bytes != b[i].bytes)
            return false;
    return true;
}

/* What the whole graph uses, neighbours as one. */
static void collect_uses(tk_graph_exec *g, instance *x) {
    x->n_uses = 0;
    for (uint32_t i = 0; i < g->n_args; i++) {
        const tk_piece *p = &g->pieces[x->order[i]];
        const use *u = &g->uses[x->order[i]];
        if (!p->bytes || !(u->reads || u->writes))
            continue;
        tk_use *last = x->n_uses ? &x->uses[x->n_uses - 1] : NULL;
        size_t to = p->offset + p->bytes;
        if (last && last->memory == p->memory && last->writes == u->writes &&
            p->offset <= last->to && p->offset >= last->from)
            last->to = to > last->to ? to : last->to;
        else
            x->uses[x->n_uses++] = (tk_use){p->memory, p->offset, to, u->writes};
    }
}

/* ---- nodes ---- */

static tolk_status wrong_type(const tolk_kernel *k, uint32_t b, const tk_piece *p,
                              tolk_error *err) {
    size_t place_of;
    const tk_meta_param *m = buffer_param(k, b, &place_of);
    char type[48];
    snprintf(type, sizeof type, "elements of %zu bytes", p->elem_bytes);
    return tk_status_fail(err, TOLK_E_DTYPE, TK_NO_NODE,
                          "%s: expected a buffer of %s, got one of %s", k->param[place_of].what,
                          tolk_dtype_name((tolk_dtype)m->dtype),
                          p->dtype == TOLK_VOID ? type : tolk_dtype_name(p->dtype));
}

/* Check a kernel's arguments and make the launch ready. bufs and vals: room for them; they stay in
 * it. */
static tolk_status prepare_kernel(const tk_graph_exec *g, const call *c, const int64_t *vars,
                                  void **bufs, int64_t *vals, tk_launch *out, tolk_error *err) {
    const tk_meta_view *meta = &c->kernel->program->meta;
    for (uint32_t p = 0, a = 0, v = 0; a < c->n_args || v < c->n_vals; p++) {
        const tk_meta_param *m = &meta->params[p];
        if (m->is_scalar) {
            vals[v] = c->vars[v] == TK_GRAPH_EXEC_FIXED ? c->fixed[v] : vars[c->vars[v]];
            v++;
            continue;
        }
        const tk_piece *x = &g->pieces[c->args[a]];
        tolk_dtype want = (tolk_dtype)m->dtype;
        if (x->dtype == TOLK_VOID ? x->elem_bytes != tolk_dtype_bytes(want) : x->dtype != want)
            return wrong_type(c->kernel, a, x, err);
        bufs[a] = x->at;
        g->bytes[a] = x->bytes;
        a++;
    }
    return tk_launch_prepare(c->kernel->program, bufs, g->bytes, c->n_args, vals, c->n_vals, 0, out,
                             err);
}

static tolk_status prepare_copy(const tk_graph_exec *g, const call *c, tk_graph_node *out,
                                tolk_error *err) {
    const tk_piece *d = &g->pieces[c->args[0]], *s = &g->pieces[c->args[1]];
    if (d->dtype != s->dtype || d->elem_bytes != s->elem_bytes)
        return tk_status_fail(
            err, TOLK_E_DTYPE, TK_NO_NODE, "a copy in a graph: to %s of %zu bytes, from %s of %zu",
            tolk_dtype_name(d->dtype), d->elem_bytes, tolk_dtype_name(s->dtype), s->elem_bytes);
    if (d->bytes != s->bytes)
        return tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE,
                              "a copy in a graph: to %zu bytes, from %zu", d->bytes, s->bytes);
    *out = (tk_graph_node){.dest = d->at, .src = s->at, .bytes = d->bytes};
    return TOLK_OK;
}

static tolk_status prepare_call(const tk_graph_exec *g, const call *c, const int64_t *vars,
                                void **bufs, int64_t *vals, tk_launch *launch, tk_graph_node *out,
                                tolk_error *err) {
    if (!c->kernel)
        return prepare_copy(g, c, out, err);
    TK_TRY(prepare_kernel(g, c, vars, bufs, vals, launch, err));
    *out = (tk_graph_node){.program = c->kernel->program, .launch = launch};
    return TOLK_OK;
}

static bool is_changed(const tk_graph_exec *g, const call *c) {
    for (uint32_t a = 0; a < c->n_args; a++)
        if (g->arg_changed[c->args[a]])
            return true;
    for (uint32_t v = 0; v < c->n_vals; v++)
        if (c->vars[v] != TK_GRAPH_EXEC_FIXED && g->var_changed[c->vars[v]])
            return true;
    return false;
}

static tolk_status patch(const tk_graph_exec *g, const instance *x, const int64_t *vars,
                         tolk_error *err) {
    const tk_graph_ops *ops = g->device->backend->graph;
    for (uint32_t i = 0; i < g->n_calls; i++) {
        const call *c = &g->calls[i];
        tk_launch launch;
        tk_graph_node node;
        if (!is_changed(g, c))
            continue;
        TK_TRY(prepare_call(g, c, vars, g->bufs, g->vals, &launch, &node, err));
        ops->set(x->graph, i, &node);
    }
    return ops->commit(x->graph, err);
}

/* ---- recording ---- */

/* Where to put what a graph is built from. */
typedef struct recording {
    tk_graph_node *nodes;
    tk_launch *launches;
    void **bufs;
    int64_t *vals;
    tk_deps_range *ranges;
    size_t *first; /* of a node's edges */
    TK_VEC(uint32_t) edges;
    tk_deps deps;
    void *memory;
    size_t memory_bytes;
} recording;

static size_t place_recording(recording *r, char *at, const tk_graph_exec *g) {
    size_t used = 0;
    r->nodes = take(at, &used, g->n_calls * sizeof *r->nodes);
    r->launches = take(at, &used, g->n_calls * sizeof *r->launches);
    r->bufs = take(at, &used, g->all_args * sizeof *r->bufs);
    r->vals = take(at, &used, g->all_vals * sizeof *r->vals);
    r->ranges = take(at, &used, g->most_args * sizeof *r->ranges);
    r->first = take(at, &used, ((size_t)g->n_calls + 1) * sizeof *r->first);
    return used;
}

/* The edges of call i. */
static tolk_status find_edges(const tk_graph_exec *g, recording *r, uint32_t i, tolk_error *err) {
    const call *c = &g->calls[i];
    size_t n = 0, n_found, param = 0;
    const uint32_t *found;
    for (uint32_t a = 0; a < c->n_args; a++) {
        bool reads, writes;
        access_of(c, a, &param, &reads, &writes);
        const place *p = &g->places[c->args[a]];
        if (reads || writes)
            r->ranges[n++] = (tk_deps_range){p->root, p->from, p->to, writes};
    }
    TK_TRY(tk_deps_access(&r->deps, i, r->ranges, n, &found, &n_found, err));
    for (size_t k = 0; k < n_found; k++)
        if (!tk_vec_push(&r->edges, found[k]))
            return tk_status_nomem(err);
    r->first[i + 1] = r->edges.n;
    return TOLK_OK;
}

static tolk_status record_in(tk_graph_exec *g, recording *r, const int64_t *vars, void **graph,
                             tolk_error *err) {
    const tk_graph_ops *ops = g->device->backend->graph;
    size_t buf = 0, val = 0;
    r->first[0] = 0;
    for (uint32_t i = 0; i < g->n_calls; i++) {
        const call *c = &g->calls[i];
        TK_TRY(prepare_call(g, c, vars, r->bufs + buf, r->vals + val, &r->launches[i], &r->nodes[i],
                            err));
        TK_TRY(find_edges(g, r, i, err));
        buf += c->n_args;
        val += c->n_vals;
    }
    for (uint32_t i = 0; i < g->n_calls; i++) {
        r->nodes[i].deps = r->edges.at ? r->edges.at + r->first[i] : NULL;
        r->nodes[i].n_deps = r->first[i + 1] - r->first[i];
    }
    void *made;
    TK_TRY(ops->build(g->device, r->nodes, g->n_calls, &made, err));
    tolk_status st = ops->commit(made, err);
    if (st != TOLK_OK)
        ops->destroy(made);
    else
        *graph = made;
    return st;
}

static tolk_status record(tk_graph_exec *g, const int64_t *vars, void **graph, tolk_error *err) {
    const tolk_allocator *al = &g->device->ctx->al;
    recording r;
    size_t bytes = place_recording(&r, NULL, g);
    void *memory = tk_alloc(al, bytes);
    if (!memory)
        return tk_status_nomem(err);
    (void)place_recording(&r, memory, g);
    tk_vec_init(&r.edges, al);
    tk_deps_init(&r.deps, al);
    tolk_status st = record_in(g, &r, vars, graph, err);
    tk_deps_fini(&r.deps);
    tk_vec_fini(&r.edges);
    tk_alloc_free(al, memory, bytes);
    return st;
}

/* ---- a run ---- */

/* Make the instance what pieces and vars say. */
static tolk_status update(tk_graph_exec *g, instance *x, const int64_t *vars, tolk_error *err) {
    const tk_graph_ops *ops = g->device->backend->graph;
    bool any_var, anew = !x->graph;
    uint32_t n_changed = compare(g, x, vars, &any_var);
    if (x->whole && !n_changed && !any_var)
        return TOLK_OK;
    bool was_whole = x->whole;
    x->whole = false;
    if (n_changed || anew) {
        sort(g->places, x->order, g->n_args, was_whole ? n_changed : UINT32_MAX);
        label_all(g->places, x->order, g->n_args, g->labels);
        if (!anew && !same_labels(g->labels, x->labels, g->n_args)) {
            ops->destroy(x->graph);
            x->graph = NULL;
            anew = true;
        }
    }
    if (anew) {
        TK_TRY(record(g, vars, &x->graph, err));
        g->records++;
        memcpy(x->labels, g->labels, g->n_args * sizeof *x->labels);
    } else {
        TK_TRY(patch(g, x, vars, err));
    }
    if (n_changed || anew)
        collect_uses(g, x);
    memcpy(x->places, g->places, g->n_args * sizeof *x->places);
    if (g->n_vars)
        memcpy(x->vars, vars, g->n_vars * sizeof *x->vars);
    x->whole = true;
    return TOLK_OK;
}

static tolk_status run_queued(void *arg, tolk_error *err) {
    const instance *x = arg;
    return x->exec->device->backend->graph->launch(x->graph, err);
}

static void release_queued(void *arg) {
    instance *x = arg;
    tk_graph_exec *g = x->exec;
    drop_pieces(x->pieces, g->n_args);
    atomic_store_explicit(&x->under_way, false, memory_order_release);
    unref(g);
}

/* Submit it; the pieces become the command's. */
static tolk_status submit(tk_graph_exec *g, instance *x, tolk_error *err) {
    tk_command c = {.run = run_queued, .release = release_queued, .arg = x, .label = g->name};
    uint64_t ticket;
    memcpy(x->pieces, g->pieces, g->n_args * sizeof *x->pieces);
    atomic_store_explicit(&x->under_way, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    x->ticket = UINT64_MAX;
    tk_queue *q = tk_device_state_of(g->device)->queue;
    tolk_status st = tk_memory_submit(g->device->ctx, x->uses, x->n_uses, q, &c, &ticket, err);
    if (st == TOLK_OK) {
        x->ticket = ticket;
        return tk_queue_ran(q, err);
    }
    atomic_store_explicit(&x->under_way, false, memory_order_relaxed);
    drop_pieces(x->pieces, g->n_args);
    unref(g); /* the owner still has one */
    return st;
}

/* Run it here if the queue is idle and it is small, or the caller waits for it anyway: *ran. */
static tolk_status run_here(const tk_graph_exec *g, const instance *x, bool awaited, bool *ran,
                            tolk_error *err) {
    const tk_graph_ops *ops = g->device->backend->graph;
    tk_queue *q = tk_device_state_of(g->device)->queue;
    *ran = (awaited || ops->is_small(x->graph)) &&
           tk_memory_enter(g->device->ctx, x->uses, x->n_uses, q);
    if (!*ran)
        return TOLK_OK;
    tolk_error own = TOLK_ERROR_INIT;
    tolk_status st = ops->launch(x->graph, &own);
    tk_queue_leave(q, st, &own, g->name);
    if (st != TOLK_OK && err)
        *err = own;
    return st;
}

tolk_status tk_graph_exec_run(tk_graph_exec *g, tolk_buffer *const *args, const int64_t *vars,
                              bool awaited, tolk_error *err) {
    instance *x;
    bool ran = false;
    tk_realize_here(g->device->ctx);
    TK_TRY(tk_device_check(g->device, err));
    TK_TRY(take_instance(g, &x, err));
    TK_TRY(take_pieces(g, args, err));
    tolk_status st = update(g, x, vars, err);
    if (st == TOLK_OK)
        st = run_here(g, x, awaited, &ran, err);
    if (st == TOLK_OK && !ran)
        return submit(g, x, err);
    drop_pieces(g->pieces, g->n_args);
    return st;
}
