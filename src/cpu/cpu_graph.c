/* SPDX-License-Identifier: MIT
 *
 * A graph runs in one of two ways, which a commit chooses. One after the other: each node as a
 * launch of its own, so small ones are a call on this thread, and large ones take a team. Together,
 * where enough of the work does not depend on the rest of it: one team for the whole graph; a node
 * is cut into chunks, and threads take chunks of nodes whose turn has come, in the order in which
 * it came. So two nodes that depend on nothing run at the same time, and a node that is alone is
 * shared out among all threads.
 *
 * Which thread runs a chunk, and when, changes no result: chunks of a node touch different
 * elements, and nodes that do not depend on each other different memory. That holds for errors,
 * too: after a fault nodes in front of that node still run, as they may have an earlier one.
 */
#include "cpu/cpu_graph.h"

#include "base/relax.h"
#include "base/status.h"
#include "cpu/cpu_fp.h"
#include "cpu/cpu_launch.h"
#include "cpu/cpu_team.h"
#include "jit/device.h"
#include "jit/launch.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* What it costs beside the work of nodes, in the same measure: to run a node, to hand one over
 * between threads that want the same, to begin a team. */
#define NODE_WORK 5e3
#define HANDED_WORK 1.5e5
#define TEAM_WORK 2e5
/* Together only where that takes so much less. */
#define WORTH_IT 1.25
enum {
    COPY_CHUNK = 256 << 10, /* bytes */
    SPINS = 4000,
    SPINS_TO_NAP = 400 /* looks for work before a thread yields; yields before naps */
};
#define NO_NODE UINT32_MAX

/* Iterations, or bytes of a copy, of one node that may run at the same time: a node has two where
 * its kernel has a barrier, the second one after the first. */
typedef struct unit {
    uint32_t node, part;
    int64_t from, to, chunks; /* at least one chunk, which may be empty */
    uint32_t n_deps;          /* units that it runs after */
    uint32_t after, n_after;  /* in graph.after: units that run after it */
    /* Of a run. */
    _Atomic uint32_t waits;
    _Atomic int64_t next, left; /* first chunk nobody has taken, chunks that are not done */
} unit;

typedef struct node {
    const tolk_program *program; /* NULL: a copy */
    tk_launch launch;
    void *dest;
    const void *src;
    size_t bytes;
    size_t scratch;       /* where its memory begins, if threads share it */
    uint32_t first, last; /* units */
    uint32_t n_deps;      /* nodes, in graph.deps from `deps` */
    size_t deps;
    uint64_t fault; /* of a run: the place of the lowest chunk that faulted */
} node;

typedef struct graph {
    tolk_device *device;
    int threads;
    uint32_t n_nodes, n_units;
    node *nodes;
    unit *units;
    uint32_t *deps; /* of nodes */
    uint32_t *after;
    double *path; /* for plan(): work of the longest chain to the end of each node */
    void *memory; /* of all that, and of what nodes' bufs and vals point to */
    size_t memory_bytes;
    /* Of the last commit. */
    bool together;
    double work; /* one after the other */
    uint64_t most_frame;
    char *scratch; /* of nodes, then that of each thread; aligned to 64 */
    void *scratch_memory;
    size_t scratch_bytes; /* allocated */
    size_t own, stride;   /* where threads' own memory begins, and from one to the next */
    int scratch_threads;
    /* Of a run. */
    const _Atomic uint32_t *cancel;
    _Atomic uint32_t *ready;     /* unit + 1, in the order in which their turn came; 0: not yet */
    _Atomic uint32_t head, tail; /* the first that may have chunks, the end */
    _Atomic uint32_t faulted;    /* the first node that did; NO_NODE */
    _Atomic uint32_t cancelled;  /* the first node that did not run whole; NO_NODE */
    pthread_mutex_t fault_lock;
} graph;

/* ---- making one ---- */

static size_t n_bufs_of(const tk_graph_node *n) {
    return n->program ? n->program->meta.head->n_bufs : 0;
}
static size_t n_vals_of(const tk_graph_node *n) {
    return n->program ? n->program->meta.head->n_vals : 0;
}

/* Parts of one allocation: `at` NULL only adds up. */
static void *take(char *at, size_t *used, size_t bytes) {
    void *part = at ? at + *used : NULL;
    *used += (bytes + 63) & ~(size_t)63;
    return part;
}

static size_t place_parts(graph *g, char *at, const tk_graph_node *nodes, size_t n_deps) {
    size_t used = 0;
    g->nodes = take(at, &used, g->n_nodes * sizeof *g->nodes);
    g->units = take(at, &used, g->n_units * sizeof *g->units);
    g->ready = take(at, &used, g->n_units * sizeof *g->ready);
    g->deps = take(at, &used, n_deps * sizeof *g->deps);
    g->after = take(at, &used, (n_deps + g->n_units) * sizeof *g->after);
    g->path = take(at, &used, g->n_nodes * sizeof *g->path);
    for (size_t i = 0; i < g->n_nodes; i++) {
        void *bufs = take(at, &used, n_bufs_of(&nodes[i]) * sizeof(void *));
        void *vals = take(at, &used, n_vals_of(&nodes[i]) * sizeof(int64_t));
        if (at) {
            g->nodes[i].launch.bufs = bufs;
            g->nodes[i].launch.vals = vals;
        }
    }
    return used;
}

/* Its units, and the units that each of those before it gets behind it. */
static void link_nodes(graph *g, const tk_graph_node *nodes) {
    uint32_t n_units = 0, deps = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        node *n = &g->nodes[i];
        n->program = nodes[i].program;
        n->first = n_units;
        n->last = n_units + (nodes[i].program && nodes[i].launch->pieces > 0);
        for (uint32_t u = n->first; u <= n->last; u++)
            g->units[u] = (unit){.node = i, .part = u - n->first, .n_deps = u > n->first};
        g->units[n->first].n_deps = (uint32_t)nodes[i].n_deps;
        n_units = n->last + 1;
        n->deps = deps;
        n->n_deps = (uint32_t)nodes[i].n_deps;
        for (size_t k = 0; k < nodes[i].n_deps; k++) {
            TK_ASSERT(nodes[i].deps[k] < i);
            g->deps[deps++] = nodes[i].deps[k];
            g->units[g->nodes[nodes[i].deps[k]].last].n_after++;
        }
        if (n->last > n->first)
            g->units[n->first].n_after++;
    }
    uint32_t at = 0;
    for (uint32_t u = 0; u < n_units; u++) {
        g->units[u].after = at;
        at += g->units[u].n_after;
        g->units[u].n_after = 0;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->n_deps; k++) {
            unit *before = &g->units[g->nodes[g->deps[n->deps + k]].last];
            g->after[before->after + before->n_after++] = n->first;
        }
        if (n->last > n->first)
            g->after[g->units[n->first].after + g->units[n->first].n_after++] = n->last;
    }
}

tolk_status tk_cpu_graph_build(tolk_device *device, uint32_t max_threads,
                               const tk_graph_node *nodes, size_t n, void **out, tolk_error *err) {
    const tolk_allocator *al = &device->ctx->al;
    size_t n_deps = 0, n_units = 0;
    for (size_t i = 0; i < n; i++) {
        n_deps += nodes[i].n_deps;
        n_units += 1 + (nodes[i].program && nodes[i].launch->pieces > 0);
    }
    if (n_deps + n_units >= NO_NODE)
        return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE, "a graph of %zu nodes with %zu edges",
                              n, n_deps);
    graph *g = tk_alloc_zero(al, sizeof *g);
    if (!g)
        return tk_status_nomem(err);
    g->device = device;
    g->threads = (int)max_threads;
    g->n_nodes = (uint32_t)n;
    g->n_units = (uint32_t)n_units;
    g->memory_bytes = place_parts(g, NULL, nodes, n_deps) + 64;
    g->memory = tk_alloc_zero(al, g->memory_bytes);
    if (!g->memory) {
        tk_alloc_free(al, g, sizeof *g);
        return tk_status_nomem(err);
    }
    char *at = (char *)(((uintptr_t)g->memory + 63) & ~(uintptr_t)63);
    (void)place_parts(g, at, nodes, n_deps);
    link_nodes(g, nodes);
    for (size_t i = 0; i < n; i++)
        tk_cpu_graph_set(g, i, &nodes[i]);
    pthread_mutex_init(&g->fault_lock, NULL);
    *out = g;
    return TOLK_OK;
}

void tk_cpu_graph_destroy(void *graph_) {
    graph *g = graph_;
    const tolk_allocator *al = &g->device->ctx->al;
    pthread_mutex_destroy(&g->fault_lock);
    tk_alloc_free(al, g->scratch_memory, g->scratch_bytes);
    tk_alloc_free(al, g->memory, g->memory_bytes);
    tk_alloc_free(al, g, sizeof *g);
}

void tk_cpu_graph_set(void *graph_, size_t i, const tk_graph_node *from) {
    graph *g = graph_;
    node *n = &g->nodes[i];
    TK_ASSERT(n->program == from->program);
    if (!n->program) {
        n->dest = from->dest;
        n->src = from->src;
        n->bytes = from->bytes;
        return;
    }
    void **bufs = (void **)(uintptr_t)n->launch.bufs;
    int64_t *vals = (int64_t *)(uintptr_t)n->launch.vals;
    for (size_t b = 0; b < n_bufs_of(from); b++)
        bufs[b] = from->launch->bufs[b];
    for (size_t v = 0; v < n_vals_of(from); v++)
        vals[v] = from->launch->vals[v];
    n->launch = *from->launch;
    n->launch.bufs = bufs;
    n->launch.vals = vals;
}

/* ---- committing ---- */

static bool overlaps(const node *n) {
    uintptr_t d = (uintptr_t)n->dest, s = (uintptr_t)n->src;
    return d < s + n->bytes && s < d + n->bytes;
}

static void plan_unit(const graph *g, const node *n, unit *u) {
    if (!n->program) {
        u->from = 0;
        u->to = (int64_t)n->bytes;
        u->chunks = overlaps(n) ? 1 : (u->to + COPY_CHUNK - 1) / COPY_CHUNK;
    } else {
        const tk_launch *l = &n->launch;
        int64_t span = l->span > 0 ? l->span : 0;
        int64_t barrier = l->pieces < span ? l->pieces : span;
        u->from = u->part ? barrier : 0;
        u->to = u->part || n->first == n->last ? span : barrier;
        u->chunks = l->work < TK_CPU_PARALLEL_WORK
                        ? 1
                        : tk_cpu_chunk_count(l->work, u->to - u->from, g->threads);
    }
    u->chunks = u->chunks < 1 ? 1 : u->chunks;
}

/* Is it shared out among threads when it runs alone? */
static bool is_shared(const graph *g, const node *n) {
    return n->program && n->launch.work >= TK_CPU_PARALLEL_WORK && n->launch.span >= g->threads;
}

/* How long it takes either way, and so which to take. */
static void plan(graph *g) {
    double sum = 0, longest = 0;
    g->work = 0;
    g->most_frame = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        node *n = &g->nodes[i];
        double before = 0, work = n->program ? n->launch.work : 2 * (double)n->bytes;
        for (uint32_t k = 0; k < n->n_deps; k++) {
            double p = g->path[g->deps[n->deps + k]];
            before = p > before ? p : before;
        }
        double least = is_shared(g, n) ? work / g->threads : work;
        g->work += least + (is_shared(g, n) ? TEAM_WORK : NODE_WORK);
        sum += work + HANDED_WORK;
        g->path[i] = before + least + HANDED_WORK;
        longest = g->path[i] > longest ? g->path[i] : longest;
        if (n->program && n->launch.frame_bytes > g->most_frame)
            g->most_frame = n->launch.frame_bytes;
        for (uint32_t u = n->first; u <= n->last; u++)
            plan_unit(g, n, &g->units[u]);
    }
    sum /= g->threads;
    double together = (sum > longest ? sum : longest) + TEAM_WORK;
    /* A large frame may need a stack of its own, which a launch alone can have. */
    g->together = g->threads > 1 && g->work >= TK_CPU_PARALLEL_WORK &&
                  g->work >= WORTH_IT * together && g->most_frame <= TK_CPU_SMALL_FRAME;
}

/* Scratch memory of all nodes and for so many threads. False: the sizes do not fit. */
static bool place_scratch(graph *g, int threads, size_t *bytes) {
    size_t shared = 0, own = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        node *n = &g->nodes[i];
        size_t stride = n->program ? tk_cpu_scratch_stride(&n->launch) : 0;
        if (n->program && stride < n->launch.scratch_bytes)
            return false;
        if (n->program && n->launch.scratch_per_thread) {
            own = stride > own ? stride : own;
        } else {
            n->scratch = shared;
            if (!tk_add_size(shared, stride, &shared))
                return false;
        }
    }
    g->own = shared;
    g->stride = own;
    g->scratch_threads = threads;
    return tk_mul_size(own, (size_t)threads, bytes) && tk_add_size(*bytes, shared, bytes) &&
           tk_add_size(*bytes, 64, bytes);
}

tolk_status tk_cpu_graph_commit(void *graph_, tolk_error *err) {
    graph *g = graph_;
    const tolk_allocator *al = &g->device->ctx->al;
    /* Also without floating-point flags of the caller: sizes are computed. */
    tk_cpu_fp old = tk_cpu_fp_enter();
    plan(g);
    tk_cpu_fp_leave(old);
    size_t bytes;
    int threads = g->threads;
    for (; threads > 0; threads /= 2) {
        if (!place_scratch(g, threads, &bytes))
            continue;
        if (bytes <= g->scratch_bytes)
            break;
        void *memory = tk_alloc(al, bytes);
        if (!memory)
            continue;
        tk_alloc_free(al, g->scratch_memory, g->scratch_bytes);
        g->scratch_memory = memory;
        g->scratch_bytes = bytes;
        break;
    }
    if (!threads)
        return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE,
                              "there is no memory for the local memory of a graph of %u nodes",
                              g->n_nodes);
    g->scratch = (char *)(((uintptr_t)g->scratch_memory + 63) & ~(uintptr_t)63);
    return TOLK_OK;
}

bool tk_cpu_graph_is_small(const void *graph_) {
    const graph *g = graph_;
    return g->work < TK_CPU_PARALLEL_WORK;
}

/* ---- both ways ---- */

static bool is_cancelled(const graph *g) {
    return atomic_load_explicit(g->cancel, memory_order_relaxed) != 0;
}

static void *scratch_of(const graph *g, const node *n, int thread) {
    return n->launch.scratch_per_thread ? g->scratch + g->own + (size_t)thread * g->stride
                                        : g->scratch + n->scratch;
}

static tolk_status cancelled_at(const graph *g, uint32_t i, tolk_error *err) {
    const tolk_program *p = g->nodes[i].program;
    if (!p)
        return tk_status_fail(err, TOLK_E_CANCELLED, TK_NO_NODE,
                              "the graph was cancelled at its node %u, a copy of %zu bytes", i,
                              g->nodes[i].bytes);
    return tk_status_fail(err, TOLK_E_CANCELLED, TK_NO_NODE,
                          "the graph was cancelled at its node %u, kernel %.60s", i,
                          p->meta.strings + p->meta.head->name);
}

/* ---- one after the other ---- */

static tolk_status run_node(graph *g, node *n, _Atomic uint32_t *stop, tolk_error *err) {
    tk_launch *l = &n->launch;
    if (!n->program) {
        if (n->bytes)
            memmove(n->dest, n->src, n->bytes);
        return TOLK_OK;
    }
    tk_launch_begin(n->program, l);
    if (l->span <= 0)
        return TOLK_OK;
    l->faulted = false;
    if (l->work < TK_CPU_PARALLEL_WORK && l->frame_bytes <= TK_CPU_SMALL_FRAME) {
        tolk_kenv env = {.size = sizeof env,
                         .scratch = scratch_of(g, n, 0),
                         .cancel = g->cancel,
                         .dynamic_bytes = (int64_t)l->dynamic_bytes};
        l->fn(l->bufs, l->vals, 0, l->span, &env);
        if (!env.fault)
            return TOLK_OK;
        l->fault_slot = env.fault_slot;
        l->fault_index = env.fault_index;
        return tk_launch_faulted(n->program, l, err);
    }
    int threads = l->scratch_per_thread ? g->scratch_threads : g->threads;
    tk_cpu_place p = {l, scratch_of(g, n, 0), g->cancel, stop, threads};
    TK_TRY(tk_cpu_launch_at(&p, err));
    return l->faulted ? tk_launch_faulted(n->program, l, err) : TOLK_OK;
}

static tolk_status run_in_order(graph *g, _Atomic uint32_t *stop, tolk_error *err) {
    tk_cpu_fp old = tk_cpu_fp_enter();
    tolk_status st = TOLK_OK;
    for (uint32_t i = 0; i < g->n_nodes && st == TOLK_OK; i++) {
        st = run_node(g, &g->nodes[i], stop, err);
        if (st == TOLK_OK && is_cancelled(g))
            st = cancelled_at(g, i, err);
    }
    tk_cpu_fp_leave(old);
    return st;
}

/* ---- together ---- */

/* Make *at the least of it and i. */
static void lower(_Atomic uint32_t *at, uint32_t i) {
    uint32_t old = atomic_load_explicit(at, memory_order_relaxed);
    while (i < old && !atomic_compare_exchange_weak_explicit(at, &old, i, memory_order_relaxed,
                                                             memory_order_relaxed))
        ;
}

static void keep_fault(graph *g, const unit *u, int64_t chunk, const tolk_kenv *env) {
    node *n = &g->nodes[u->node];
    uint64_t place = (uint64_t)u->part << 62 | (uint64_t)chunk;
    pthread_mutex_lock(&g->fault_lock);
    if (place < n->fault) {
        n->fault = place;
        n->launch.fault_slot = env->fault_slot;
        n->launch.fault_index = env->fault_index;
    }
    pthread_mutex_unlock(&g->fault_lock);
    lower(&g->faulted, u->node);
}

static void run_chunk(graph *g, const unit *u, int64_t chunk, int thread) {
    const node *n = &g->nodes[u->node];
    const tk_launch *l = &n->launch;
    int64_t from = tk_cpu_chunk_begin(u->from, u->to, u->chunks, chunk);
    int64_t to = tk_cpu_chunk_begin(u->from, u->to, u->chunks, chunk + 1);
    if (from >= to || u->node > atomic_load_explicit(&g->faulted, memory_order_relaxed))
        return;
    if (is_cancelled(g)) {
        lower(&g->cancelled, u->node);
        return;
    }
    if (!n->program) {
        memmove((char *)n->dest + from, (const char *)n->src + from, (size_t)(to - from));
        return;
    }
    tolk_kenv env = {.size = sizeof env,
                     .scratch = scratch_of(g, n, thread),
                     .thread = thread,
                     .cancel = g->cancel,
                     .dynamic_bytes = (int64_t)l->dynamic_bytes};
    l->fn(l->bufs, l->vals, from, to, &env);
    if (env.fault)
        keep_fault(g, u, chunk, &env);
    if (is_cancelled(g))
        lower(&g->cancelled, u->node);
}

static void make_ready(graph *g, uint32_t u) {
    uint32_t at = atomic_fetch_add_explicit(&g->tail, 1, memory_order_relaxed);
    atomic_store_explicit(&g->ready[at], u + 1, memory_order_release);
}

static void finish(graph *g, const unit *u) {
    for (uint32_t k = 0; k < u->n_after; k++) {
        uint32_t next = g->after[u->after + k];
        if (atomic_fetch_sub_explicit(&g->units[next].waits, 1, memory_order_acq_rel) == 1)
            make_ready(g, next);
    }
}

/* There is nothing to do right now. */
static void idle(uint32_t *times) {
    if (++*times < SPINS) {
        tk_relax();
    } else if (*times < SPINS + SPINS_TO_NAP) {
        (void)sched_yield();
    } else {
        struct timespec nap = {0, 50000};
        nanosleep(&nap, NULL);
    }
}

/* Take chunks until all are taken. Faults and cancelling leave out what chunks do, not the chunks;
 * so this ends in one way only. */
static void work(void *arg, int thread) {
    graph *g = arg;
    uint32_t times = 0, head;
    tk_cpu_fp old = tk_cpu_fp_enter();
    while ((head = atomic_load_explicit(&g->head, memory_order_relaxed)) < g->n_units) {
        uint32_t entry = atomic_load_explicit(&g->ready[head], memory_order_acquire);
        if (!entry) {
            idle(&times);
            continue;
        }
        unit *u = &g->units[entry - 1];
        int64_t c = atomic_fetch_add_explicit(&u->next, 1, memory_order_relaxed);
        if (c >= u->chunks) {
            atomic_compare_exchange_strong_explicit(&g->head, &head, head + 1, memory_order_relaxed,
                                                    memory_order_relaxed);
            continue;
        }
        times = 0;
        run_chunk(g, u, c, thread);
        if (atomic_fetch_sub_explicit(&u->left, 1, memory_order_acq_rel) == 1)
            finish(g, u);
    }
    tk_cpu_fp_leave(old);
}

static void begin_run(graph *g) {
    atomic_store_explicit(&g->head, 0, memory_order_relaxed);
    atomic_store_explicit(&g->tail, 0, memory_order_relaxed);
    atomic_store_explicit(&g->faulted, NO_NODE, memory_order_relaxed);
    atomic_store_explicit(&g->cancelled, NO_NODE, memory_order_relaxed);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        g->nodes[i].fault = UINT64_MAX;
        if (g->nodes[i].program)
            tk_launch_begin(g->nodes[i].program, &g->nodes[i].launch);
    }
    for (uint32_t i = 0; i < g->n_units; i++)
        atomic_store_explicit(&g->ready[i], 0, memory_order_relaxed);
    for (uint32_t i = 0; i < g->n_units; i++) {
        unit *u = &g->units[i];
        atomic_store_explicit(&u->waits, u->n_deps, memory_order_relaxed);
        atomic_store_explicit(&u->next, 0, memory_order_relaxed);
        atomic_store_explicit(&u->left, u->chunks, memory_order_relaxed);
        if (!u->n_deps)
            make_ready(g, i);
    }
}

static tolk_status run_together(graph *g, _Atomic uint32_t *stop, tolk_error *err) {
    begin_run(g);
    tk_cpu_team_run(g->scratch_threads, g->most_frame, stop, work, g);
    uint32_t faulted = atomic_load(&g->faulted), cancelled = atomic_load(&g->cancelled);
    if (faulted != NO_NODE)
        return tk_launch_faulted(g->nodes[faulted].program, &g->nodes[faulted].launch, err);
    return cancelled == NO_NODE ? TOLK_OK : cancelled_at(g, cancelled, err);
}

tolk_status tk_cpu_graph_launch(void *graph_, tolk_error *err) {
    graph *g = graph_;
    int slot = tk_device_enter(g->device, &g->cancel);
    _Atomic uint32_t *stop = slot < 0 ? NULL : &g->device->slot[slot].half.cancel;
    tolk_status st = g->together ? run_together(g, stop, err) : run_in_order(g, stop, err);
    tk_device_leave(g->device, slot);
    return st;
}
