/* SPDX-License-Identifier: MIT
 *
 * Random linears on one to four devices: kernels, in place and over a number of elements that is a
 * variable or bound, copies, views of views and views that a call binds, several buffers as one,
 * graphs, inputs that are one buffer, buffers that are rebound, on other devices, or not there yet,
 * nothing at all; run, as execs, planned and by jits, with and without a free list, beside the same
 * in a synchronous context and a plain loop.
 */
#include "realize/runs.h"

enum {
    ELEMS = 96,
    PART = 48, /* elements of an operand */
    SINGLES = 6,
    MULTIS = 2,
    VIEWS = 2,
    FIRST_VIEW = SINGLES + 2 * MULTIS,
    ARRAYS = FIRST_VIEW + VIEWS, /* a multi has two */
    CALLS = 12,
    ROUNDS = 6
};

/* ---- what a linear is ---- */

typedef enum body {
    MIX_OF,
    OF_N,
    OF_M,
    BUMP,
    NUMBER,
    NOTHING,
    COPY,
    COPY_WHOLE,
    COPY_NONE,
    BIND_VIEW
} body;

/* Elements at..at + PART of one buffer, or of two. */
typedef enum operand_kind { SINGLE, SELECT, VIEW, MULTI, STACK } operand_kind;
typedef struct operand {
    operand_kind kind;
    int slot, other; /* STACK: two singles; SELECT: the position is `other` */
    int at;
    bool nested; /* as a slice of a slice */
} operand;

typedef struct random_call {
    body body;
    operand y, a, b;
    int m; /* OF_M: what its variable is bound to */
} random_call;

/* How it is run. */
typedef enum plan { AS_IT_IS, PLANNED, BY_JIT, PLANS } plan;
typedef struct random_linear {
    int devices;
    int single_on[SINGLES], multi_on[2], view_on[VIEWS];
    bool fresh[SINGLES]; /* written whole before anything else: may be unbound before a run */
    plan plan;
    bool no_graphs;
    int n, graph_from, graph_to;
    random_call call[CALLS];
} random_linear;

/* ---- a plain loop ---- */

typedef struct place {
    int array, at;
} place;
typedef struct model {
    uint32_t mem[ARRAYS][ELEMS];
    int device[ARRAYS];
    place view[VIEWS]; /* what they stand for */
    int input[2];      /* single of each input */
    int n;             /* the variable */
} model;

static bool is_several(const operand *o) {
    return o->kind == MULTI || o->kind == STACK;
}

/* Where an operand is at a position. */
static place place_of(const model *m, const operand *o, int position) {
    switch (o->kind) {
    case SINGLE:
        return (place){o->slot < 2 ? m->input[o->slot] : o->slot, o->at};
    case SELECT:
        return (place){SINGLES + 2 * o->slot + o->other, o->at};
    case VIEW:
        return m->view[o->slot];
    case MULTI:
        return (place){SINGLES + 2 * o->slot + position, o->at};
    default: {
        int s = position ? o->other : o->slot;
        return (place){s < 2 ? m->input[s] : s, o->at};
    }
    }
}

static bool same(place a, place c) {
    return a.array == c.array && a.at == c.at;
}
static bool overlap(place a, place c) {
    return a.array == c.array && a.at < c.at + PART && c.at < a.at + PART;
}

static int n_read(body k) {
    return k == BUMP ? 0 : k == MIX_OF ? 2 : 1;
}

/* May the call run as memory is now? A launch's buffers are on one device, and apart from what it
 * stores, or the same; what is no operand of this body is not looked at. */
static bool can_run(const model *m, const random_call *c) {
    int positions = is_several(&c->y) ? 2 : 1;
    const operand *in[] = {&c->a, &c->b};
    for (int k = 0; k < n_read(c->body); k++)
        if (is_several(in[k]) != is_several(&c->y))
            return false;
    if (c->body == COPY || c->body == COPY_WHOLE || c->body == COPY_NONE)
        return c->body != COPY_WHOLE || (c->y.kind != VIEW && c->a.kind != VIEW);
    if (c->body == BIND_VIEW)
        return c->y.kind == VIEW && c->a.kind != VIEW && positions == 1 &&
               m->device[place_of(m, &c->a, 0).array] == m->device[FIRST_VIEW + c->y.slot];
    if (c->body == NUMBER && positions == 1)
        return false;
    for (int p = 0; p < positions; p++) {
        place y = place_of(m, &c->y, p);
        for (int k = 0; k < n_read(c->body); k++) {
            place x = place_of(m, in[k], p);
            if (m->device[x.array] != m->device[y.array] || (overlap(x, y) && !same(x, y)))
                return false;
        }
    }
    return true;
}

static void do_call(model *m, const random_call *c) {
    for (int p = 0; p < (is_several(&c->y) ? 2 : 1); p++) {
        place at = place_of(m, &c->y, p), a = place_of(m, &c->a, p), b = place_of(m, &c->b, p);
        uint32_t *y = m->mem[at.array] + at.at, *x = m->mem[a.array] + a.at,
                 *z = m->mem[b.array] + b.at;
        if (c->body == COPY)
            memmove(y, x, PART * sizeof *y);
        if (c->body == COPY_WHOLE)
            memmove(m->mem[at.array], m->mem[a.array], sizeof m->mem[0]);
        if (c->body == BIND_VIEW)
            m->view[c->y.slot] = a;
        for (int k = 0; k < PART; k++)
            if (c->body == MIX_OF)
                y[k] = x[k] + 3 * z[k];
            else if (c->body == BUMP)
                y[k] = 2 * y[k] + 1;
            else if (c->body == NUMBER)
                y[k] = x[k] + 100 * (uint32_t)p;
            else if (c->body == OF_N && k < m->n)
                y[k] = x[k] + (uint32_t)m->n;
            else if (c->body == OF_M && k < c->m)
                y[k] = x[k] + (uint32_t)c->m;
    }
}

/* One after the other; false: one of them cannot run. */
static bool simulate(model *m, const random_linear *l) {
    for (int i = 0; i < l->n; i++) {
        if (!can_run(m, &l->call[i]))
            return false;
        do_call(m, &l->call[i]);
    }
    return true;
}

/* ---- making one ---- */

static int below(uint64_t *s, int n) {
    return (int)(tk_test_rand(s) % (uint64_t)n);
}

static operand pick(uint64_t *s, bool several) {
    static const int starts[] = {0, 16, 48};
    operand o = {SINGLE, below(s, SINGLES), 0, starts[below(s, 3)], below(s, 3) == 0};
    int kind = below(s, 8);
    if (several) {
        o.kind = kind < 5 ? MULTI : STACK;
        o.slot = o.kind == MULTI ? below(s, MULTIS) : o.slot;
        o.other = below(s, SINGLES);
    } else if (kind < 3) {
        o.kind = kind ? VIEW : SELECT;
        o.slot = below(s, kind ? VIEWS : MULTIS);
        o.other = below(s, 2);
        o.at = kind ? 0 : o.at;
    }
    return o;
}

static random_call pick_call(uint64_t *s) {
    static const body bodies[] = {MIX_OF,     MIX_OF,    OF_N,      OF_M,     BUMP,
                                  NUMBER,     NOTHING,   COPY,      COPY,     COPY_WHOLE,
                                  COPY_WHOLE, COPY_NONE, BIND_VIEW, BIND_VIEW};
    random_call c = {.body = bodies[below(s, (int)(sizeof bodies / sizeof *bodies))],
                     .m = 1 + below(s, PART)};
    bool several = c.body != BIND_VIEW && below(s, 4) == 0;
    c.y = pick(s, several);
    c.a = pick(s, several);
    c.b = pick(s, several);
    if (c.body == BIND_VIEW)
        c.y = (operand){VIEW, below(s, VIEWS), 0, 0, false};
    if (below(s, 4) == 0)
        c.a = c.y; /* in place */
    return c;
}

static bool touches(const operand *o, int single) {
    return (o->kind == SINGLE && o->slot == single) ||
           (o->kind == STACK && (o->slot == single || o->other == single));
}

/* Is the first call that has to do with it a copy to all of it? */
static bool is_fresh(const random_linear *l, int single) {
    for (int i = 0; i < l->n; i++) {
        const random_call *c = &l->call[i];
        const operand *in[] = {&c->a, &c->b};
        for (int k = 0; k < n_read(c->body); k++)
            if (touches(in[k], single))
                return false;
        if (touches(&c->y, single))
            return c->body == COPY_WHOLE && c->y.kind == SINGLE;
    }
    return false;
}

static void begin_model(model *m, const random_linear *l) {
    memset(m, 0, sizeof *m);
    for (int i = 0; i < SINGLES; i++)
        m->device[i] = l->single_on[i];
    for (int i = 0; i < 2 * MULTIS; i++)
        m->device[SINGLES + i] = l->multi_on[i & 1];
    for (int i = 0; i < VIEWS; i++) {
        m->device[FIRST_VIEW + i] = l->view_on[i];
        m->view[i] = (place){FIRST_VIEW + i, 0};
    }
    m->input[1] = 1;
    m->n = 1;
}

static void make_random(random_linear *l, uint64_t *s) {
    static model m;
    memset(l, 0, sizeof *l);
    l->devices = 1 + below(s, 4);
    for (int i = 0; i < SINGLES; i++)
        l->single_on[i] = below(s, l->devices);
    for (int i = 0; i < 2; i++)
        l->multi_on[i] = below(s, l->devices); /* one device may be there twice */
    for (int i = 0; i < VIEWS; i++)
        l->view_on[i] = below(s, l->devices);
    begin_model(&m, l);
    int n = 1 + below(s, CALLS);
    while (l->n < n) {
        random_call c = pick_call(s);
        if (can_run(&m, &c)) {
            do_call(&m, &c);
            l->call[l->n++] = c;
        }
    }
    l->plan = (plan)below(s, PLANS);
    l->no_graphs = below(s, 2);
    for (int i = 2; i < SINGLES; i++)
        l->fresh[i] = below(s, 3) && is_fresh(l, i);
    l->graph_from = below(s, n + 1);
    l->graph_to = l->graph_from + below(s, n + 1 - l->graph_from);
}

/* ---- as text ---- */

/* Behind the nodes of MIX: the other kernels, %70 to %73 are sizes. */
#define KERNELS                                                                                    \
    MIX "%21 = param i32 {slot=3, name=\"n\", space=alu, min=1, max=48}\n"                         \
        "%22 = cast index (%21)\n%23 = range index (%22) {axis=0, kind=global}\n"                  \
        "%24 = index i32 (%2, %23)\n%25 = index i32 (%3, %23)\n%26 = load i32 (%25)\n"             \
        "%27 = add i32 (%26, %21)\n%28 = store void (%24, %27)\n%29 = end void (%28, %23)\n"       \
        "%30 = sink void (%29) {name=\"of_n\"}\n"                                                  \
        "%31 = param i32 {slot=3, name=\"m\", space=alu, min=1, max=48}\n"                         \
        "%32 = cast index (%31)\n%33 = range index (%32) {axis=0, kind=global}\n"                  \
        "%34 = index i32 (%2, %33)\n%35 = index i32 (%3, %33)\n%36 = load i32 (%35)\n"             \
        "%37 = add i32 (%36, %31)\n%38 = store void (%34, %37)\n%39 = end void (%38, %33)\n"       \
        "%40 = sink void (%39) {name=\"of_m\"}\n"                                                  \
        "%41 = load i32 (%6)\n%42 = const i32 2\n%43 = mul i32 (%41, %42)\n%44 = const i32 1\n"    \
        "%45 = add i32 (%43, %44)\n%46 = store void (%6, %45)\n%47 = end void (%46, %5)\n"         \
        "%48 = sink void (%47) {name=\"bump\"}\n"                                                  \
        "%49 = param i32 {slot=3, name=\"_device_num\", space=alu, min=0, max=7}\n"                \
        "%50 = const i32 100\n%51 = mul i32 (%49, %50)\n%52 = add i32 (%9, %51)\n"                 \
        "%53 = store void (%6, %52)\n%54 = end void (%53, %5)\n"                                   \
        "%55 = sink void (%54) {name=\"number\"}\n"                                                \
        "%56 = const index 0\n%57 = param i32 (%56) {slot=0}\n%58 = param i32 (%56) {slot=1}\n"    \
        "%59 = range index (%56) {axis=0, kind=global}\n%60 = index i32 (%57, %59)\n"              \
        "%61 = index i32 (%58, %59)\n%62 = load i32 (%61)\n%63 = store void (%60, %62)\n"          \
        "%64 = end void (%63, %59)\n%65 = sink void (%64) {name=\"nothing\"}\n"                    \
        "%70 = const index 96\n%71 = const index 16\n%72 = const index 32\n"

typedef struct writer {
    char text[16384];
    size_t n;
    int next; /* number of the next node */
} writer;

__attribute__((format(printf, 2, 3))) static int emit(writer *w, const char *fmt, ...) {
    va_list ap;
    w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "%%%d = ", w->next);
    va_start(ap, fmt);
    w->n += (size_t)vsnprintf(w->text + w->n, sizeof w->text - w->n, fmt, ap);
    va_end(ap);
    assert_true(w->n < sizeof w->text);
    return w->next++;
}

static void device_name(int i, char name[8]) {
    snprintf(name, 8, i ? "CPU:%d" : "CPU", i);
}

/* All of the buffer of an operand: nodes 100 ..., 110 ..., 120 ... are buffers. */
static int whole(writer *w, const operand *o) {
    switch (o->kind) {
    case SINGLE:
        return 100 + o->slot;
    case SELECT:
        return emit(w, "mselect i32 (%%%d) {index=%d}\n", 110 + o->slot, o->other);
    case VIEW:
        return 120 + o->slot;
    case MULTI:
        return 110 + o->slot;
    default:
        return emit(w, "mstack i32 (%%%d, %%%d)\n", 100 + o->slot, 100 + o->other);
    }
}

static int sliced(writer *w, int of, int offset, int count) {
    return emit(w, "slice i32 (%%%d, %%%d) {count=%d}\n", of,
                offset == 0    ? 56
                : offset == 16 ? 71
                : offset == 32 ? 72
                               : 1,
                count);
}

/* A part of each, or of what was put together: the same. */
static int part(writer *w, const operand *o, int count) {
    if (o->kind == VIEW)
        return count == PART ? 120 + o->slot : sliced(w, 120 + o->slot, 0, count);
    if (o->kind == SELECT && o->nested)
        return emit(w, "mselect i32 (%%%d) {index=%d}\n", sliced(w, 110 + o->slot, o->at, count),
                    o->other);
    if (o->kind == STACK && o->nested) {
        int x = sliced(w, 100 + o->slot, o->at, count), y = sliced(w, 100 + o->other, o->at, count);
        return emit(w, "mstack i32 (%%%d, %%%d)\n", x, y);
    }
    int of = whole(w, o);
    if (o->nested && o->at >= 16) /* of a slice that begins before it */
        return sliced(w, sliced(w, of, o->at - 16, 64), 16, count);
    return sliced(w, of, o->at, count);
}

static int write_call(writer *w, const random_call *c) {
    static const int sinks[] = {20, 30, 40, 48, 55, 65};
    int count = c->body == NOTHING || c->body == COPY_NONE ? 0 : PART;
    if (c->body == BIND_VIEW) {
        int of = whole(w, &c->a);
        int view = sliced(w, of, c->a.at, PART);
        return emit(w, "call void (%%%d, %%%d, %%%d)\n", view, 120 + c->y.slot, of);
    }
    int y = c->body == COPY_WHOLE ? whole(w, &c->y) : part(w, &c->y, count);
    if (c->body == BUMP)
        return emit(w, "call void (%%48, %%%d)\n", y);
    int a = c->body == COPY_WHOLE ? whole(w, &c->a) : part(w, &c->a, count);
    if (c->body >= COPY)
        return emit(w, "call void (%%%d, %%%d, %%%d)\n",
                    emit(w, "copy i32 (%%%d) {device=\"CPU\"}\n", a), y, a);
    if (c->body == MIX_OF)
        return emit(w, "call void (%%20, %%%d, %%%d, %%%d)\n", y, a, part(w, &c->b, count));
    if (c->body == OF_M) {
        int value = emit(w, "const i32 %d\n", c->m);
        int bind = emit(w, "bind i32 (%%31, %%%d)\n", value);
        return emit(w, "call void (%%40, %%%d, %%%d, %%%d)\n", y, bind, a);
    }
    return emit(w, "call void (%%%d, %%%d, %%%d)\n", sinks[c->body], y, a);
}

static void list_text(char *out, size_t size, const int *list, int n) {
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%%%d", i ? ", " : "", list[i]);
}

static tolk_linear *write_random(rt *on, const random_linear *l) {
    static writer w;
    char device[2][8], text[400];
    w.n = (size_t)snprintf(w.text, sizeof w.text, "%s", KERNELS);
    for (int i = 0; i < SINGLES; i++) {
        w.next = 100 + i;
        device_name(l->single_on[i], device[0]);
        if (i < 2)
            (void)emit(&w, "param i32 (%%70) {slot=%d}\n", i);
        else
            (void)emit(&w, "buffer i32 (%%70) {slot=%d, device=\"%s\"}\n", i, device[0]);
    }
    for (int i = 0; i < MULTIS; i++) {
        w.next = 110 + i;
        device_name(l->multi_on[0], device[0]);
        device_name(l->multi_on[1], device[1]);
        (void)emit(&w, "buffer i32 (%%70) {slot=%d, device=\"%s,%s\"}\n", 10 + i, device[0],
                   device[1]);
    }
    for (int i = 0; i < VIEWS; i++) {
        w.next = 120 + i;
        (void)emit(&w, "buffer i32 (%%1) {slot=%d}\n", 20 + i);
    }
    w.next = 200;
    int call[CALLS], outer[CALLS + 1], n = 0;
    for (int i = 0; i < l->n; i++)
        call[i] = write_call(&w, &l->call[i]);
    for (int i = 0; i < l->n; i++) {
        if (i < l->graph_from || i >= l->graph_to)
            outer[n++] = call[i];
        if (i != l->graph_from || l->graph_to <= l->graph_from)
            continue;
        list_text(text, sizeof text, call + l->graph_from, l->graph_to - l->graph_from);
        int inner = emit(&w, "linear void (%s)\n", text);
        int body = emit(&w, "custom_function void (%%%d) {name=\"graph\"}\n", inner);
        outer[n++] = emit(&w, "call void (%%%d, %%100, %%101)\n", body);
    }
    list_text(text, sizeof text, outer, n);
    (void)emit(&w, "linear void (%s)\n", text);
    return linear_of(on, w.text);
}

/* ---- running it ---- */

enum { SIDES = 3 }; /* with a free list, without, and synchronous */

/* One context and what stands for the slots in it. */
typedef struct side {
    rt r;
    tolk_bindings *b;
    tolk_graph *g;
    tolk_linear *l; /* planned, if it is to be */
    tolk_exec *e;
    tolk_jit *jit;
    tolk_buffer *buf[ARRAYS]; /* NULL: it was left to the bindings */
} side;

static tolk_status hand_over(void *user, tolk_bindings *to, const tolk_run_args *args,
                             tolk_error *e) {
    side *s = user;
    return tolk_realize_linear(to, s->l, NULL, 0, NULL, args, e);
}

static const tolk_uop *single_node(tolk_graph *g, const random_linear *l, int i) {
    char device[8];
    device_name(l->single_on[i], device);
    return buffer_node(g, ELEMS, i, device);
}
static const tolk_uop *multi_node(tolk_graph *g, const random_linear *l, int i) {
    char device[2][8], both[20];
    for (int k = 0; k < 2; k++)
        device_name(l->multi_on[k], device[k]);
    snprintf(both, sizeof both, "%s,%s", device[0], device[1]);
    return buffer_node(g, ELEMS, 10 + i, both);
}
static const tolk_uop *view_node(tolk_graph *g, int i) {
    return buffer_node(g, PART, 20 + i, NULL);
}

static bool is_temporary(const random_linear *l, int array) {
    return l->plan != AS_IT_IS && array < SINGLES && l->fresh[array];
}

static void open_side(side *s, const random_linear *l) {
    assert_int_equal(tolk_graph_create(s->r.ctx, &s->g), TOLK_OK);
    assert_int_equal(tolk_bindings_create(s->r.cpu, &s->b, NULL), TOLK_OK);
    s->l = write_random(&s->r, l);
    if (l->plan == PLANNED) {
        const tolk_uop *held[SINGLES + MULTIS + VIEWS];
        size_t n = 0;
        for (int i = 0; i < SINGLES; i++)
            if (!is_temporary(l, i))
                held[n++] = single_node(s->g, l, i);
        for (int i = 0; i < MULTIS; i++)
            held[n++] = multi_node(s->g, l, i);
        for (int i = 0; i < VIEWS; i++)
            held[n++] = view_node(s->g, i);
        tolk_linear *planned = NULL;
        assert_int_equal(tolk_memory_plan(s->l, held, n, &planned, NULL), TOLK_OK);
        tolk_linear_unref(s->l);
        s->l = planned;
    }
    tolk_jit_opts o = TOLK_JIT_OPTS_INIT;
    o.no_graphs = l->no_graphs;
    if (l->plan == BY_JIT)
        assert_int_equal(tolk_jit_create(s->b, hand_over, s, &o, &s->jit, NULL), TOLK_OK);
    else
        assert_int_equal(tolk_exec_create(s->b, s->l, NULL, &s->e, NULL), TOLK_OK);
}

static void close_side(side *s) {
    tolk_jit_destroy(s->jit);
    tolk_exec_destroy(s->e);
    tolk_bindings_destroy(s->b);
    tolk_linear_unref(s->l);
    tolk_graph_destroy(s->g);
    for (int i = 0; i < ARRAYS; i++)
        tolk_buffer_unref(s->buf[i]);
    *s = (side){.r = s->r};
}

static tolk_buffer *fill(side *s, const model *m, int array, size_t n) {
    char device[8];
    tolk_buffer *x = NULL;
    device_name(m->device[array], device);
    assert_int_equal(tolk_alloc_i32(device_of(&s->r, device), n, &x, NULL), TOLK_OK);
    assert_int_equal(tolk_buffer_copyin(x, 0, m->mem[array], n * 4, NULL), TOLK_OK);
    tolk_buffer_unref(s->buf[array]);
    s->buf[array] = x;
    return x;
}

/* New buffers with what the model has for the arrays of a set. */
static void bind_arrays(side *s, const random_linear *l, const model *m, uint64_t set) {
    for (int i = 0; i < SINGLES; i++)
        if (set >> i & 1)
            assert_int_equal(
                tolk_bindings_seed(s->b, single_node(s->g, l, i), fill(s, m, i, ELEMS), NULL),
                TOLK_OK);
    for (int i = 0; i < MULTIS; i++) {
        int a = SINGLES + 2 * i;
        if (!(set >> a & 3))
            continue;
        tolk_buffer *two[] = {fill(s, m, a, ELEMS), fill(s, m, a + 1, ELEMS)};
        tolk_multi *both = NULL;
        assert_int_equal(tolk_multi_of(two, 2, &both, NULL), TOLK_OK);
        assert_int_equal(tolk_bindings_seed_multi(s->b, multi_node(s->g, l, i), both, NULL),
                         TOLK_OK);
        tolk_multi_unref(both);
    }
    for (int i = 0; i < VIEWS; i++)
        if (set >> (FIRST_VIEW + i) & 1)
            assert_int_equal(tolk_bindings_seed(s->b, view_node(s->g, i),
                                                fill(s, m, FIRST_VIEW + i, PART), NULL),
                             TOLK_OK);
}

/* What the bindings made, or nothing. */
static void unbind_single(side *s, const random_linear *l, int i) {
    tolk_bindings_remove(s->b, single_node(s->g, l, i));
    tolk_buffer_unref(s->buf[i]);
    s->buf[i] = NULL;
}

static void run_side(side *s, const random_linear *l, const model *m, bool exec, bool wait,
                     uint64_t number) {
    const tolk_uop *inputs[2];
    tolk_var n = {"n", m->n};
    tolk_run_args a = with_vars(&n, 1);
    tolk_error why = TOLK_ERROR_INIT;
    for (int i = 0; i < 2; i++)
        inputs[i] = single_node(s->g, l, m->input[i]);
    a.inputs = inputs;
    a.n_inputs = 2;
    a.wait = wait;
    if (s->jit ? tolk_jit_call(s->jit, &a, &why)
        : exec ? tolk_exec_run(s->e, &a, &why)
               : tolk_run_linear(s->b, s->l, NULL, &a, &why))
        fail_msg("linear %llu: %s", (unsigned long long)number, why.msg);
}

static void compare(side *s, int side_number, const random_linear *l, const model *m,
                    uint64_t number, int round) {
    for (int i = 0; i < ARRAYS; i++) {
        uint32_t have[ELEMS];
        tolk_buffer *x = s->buf[i];
        if (is_temporary(l, i))
            continue;
        if (!x && i < SINGLES)
            assert_int_equal(tolk_bindings_find(s->b, single_node(s->g, l, i), &x, NULL, NULL),
                             TOLK_OK);
        assert_non_null(x);
        size_t bytes = i < FIRST_VIEW ? sizeof have : PART * sizeof *have;
        assert_int_equal(tolk_buffer_copyout(x, 0, have, bytes, NULL), TOLK_OK);
        if (memcmp(have, m->mem[i], bytes) != 0)
            fail_msg("linear %llu, round %d, side %d: array %d differs", (unsigned long long)number,
                     round, side_number, i);
    }
}

/* What changes before a round, in the model; returns the arrays that get new buffers. */
static uint64_t change(const random_linear *l, model *m, uint64_t *s, int round, bool *unbind) {
    static model tried;
    const uint64_t all = ((uint64_t)1 << ARRAYS) - 1;
    /* Some of it, all of it, or nothing: then the inputs and the variable alone may change. */
    uint64_t set = round && below(s, 4) ? below(s, 3) ? tk_test_rand(s) & all : 0 : all;
    bool shift = l->plan != BY_JIT && round && below(s, 3) == 0;
    bool alias = l->plan == BY_JIT ? round ? m->input[1] == 0 : below(s, 3) == 0 : below(s, 3) == 0;
    for (int i = 0; i < MULTIS; i++) /* both or none */
        if (set >> (SINGLES + 2 * i) & 3)
            set |= (uint64_t)3 << (SINGLES + 2 * i);
    for (int i = 0; i < SINGLES; i++) {
        /* The bindings make it on its node's device. */
        unbind[i] =
            l->fresh[i] && m->device[i] == l->single_on[i] && (l->plan != AS_IT_IS || below(s, 2));
        shift = shift && !unbind[i];
    }
    set = shift ? all : set;
    for (int i = 0; i < ARRAYS && shift; i++) /* all go to other devices, the same way */
        m->device[i] = (m->device[i] + 1) % l->devices;
    m->n = 1 + below(s, PART);
    for (int i = 0; i < VIEWS; i++) {
        /* A view of what is replaced would be one of memory that has no name. */
        int of = m->view[i].array;
        if (set >> of & 1 || (of < SINGLES && unbind[of]))
            set |= (uint64_t)1 << (FIRST_VIEW + i);
        if (set >> (FIRST_VIEW + i) & 1)
            m->view[i] = (place){FIRST_VIEW + i, 0};
    }
    /* Inputs are one buffer if all calls can run then. */
    m->input[0] = 0;
    m->input[1] = alias ? 0 : 1;
    tried = *m;
    if (!simulate(&tried, l)) {
        m->input[1] = alias && l->plan == BY_JIT && round ? 0 : 1;
        for (int i = 0; i < VIEWS; i++) {
            m->view[i] = (place){FIRST_VIEW + i, 0};
            set |= (uint64_t)1 << (FIRST_VIEW + i);
        }
    }
    for (int i = 0; i < ARRAYS; i++)
        for (int k = 0; set >> i & 1 && k < ELEMS; k++)
            m->mem[i][k] = (uint32_t)tk_test_rand(s);
    for (int i = 0; i < SINGLES; i++)
        if (unbind[i])
            set &= ~((uint64_t)1 << i);
    return set;
}

static void one_random(side sides[SIDES], uint64_t number) {
    random_linear l;
    static model m;
    uint64_t state = tk_test_seed() + number * 1000003;
    make_random(&l, &state);
    begin_model(&m, &l);
    for (int k = 0; k < SIDES; k++)
        open_side(&sides[k], &l);
    for (int round = 0; round < ROUNDS; round++) {
        bool unbind[SINGLES], exec = below(&state, 2) != 0;
        uint64_t set = change(&l, &m, &state, round, unbind);
        for (int k = 0; k < SIDES; k++) {
            for (int i = 0; i < SINGLES; i++)
                if (unbind[i])
                    unbind_single(&sides[k], &l, i);
            bind_arrays(&sides[k], &l, &m, set);
            run_side(&sides[k], &l, &m, exec, round & 1, number);
        }
        assert_true(simulate(&m, &l));
        for (int k = 0; k < SIDES; k++)
            compare(&sides[k], k, &l, &m, number, round);
    }
    for (int k = 0; k < SIDES; k++)
        close_side(&sides[k]);
}

/* GRAPH-07, too: the first run, later ones and execs do the same; and MEM-05: without a free list.
 */
static void test_GRAPH_07_MEM_05_random_linears(void **state) {
    (void)state;
    static side sides[SIDES];
    memset(sides, 0, sizeof sides);
    for (uint32_t k = 0; k < SIDES; k++) {
        tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
        o.cpu_devices = 4;
        o.synchronous = k == SIDES - 1;
        if (k == 1)
            setenv("TOLK_FREELIST_BYTES", "0", 1);
        rt_open(&sides[k].r, NULL, &o);
        for (int d = 1; d < 4; d++) { /* reads the environment */
            char name[8];
            device_name(d, name);
            (void)device_of(&sides[k].r, name);
        }
        unsetenv("TOLK_FREELIST_BYTES");
    }
    uint64_t n = tk_test_count(10000);
    for (uint64_t i = 0; i < n; i++)
        one_random(sides, i);
    for (int k = 0; k < SIDES; k++)
        rt_close(&sides[k].r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_GRAPH_07_MEM_05_random_linears),
    };
    return cmocka_run_group_tests_name("run_random", tests, NULL, NULL);
}
