/* SPDX-License-Identifier: MIT
 *
 * Random linears on one to four devices, beside the same in a synchronous context and a plain loop.
 */
#include "realize/runs.h"

enum { SLOTS = 6, ELEMS = 96, PART = 48, CALLS = 12 };

typedef struct operand {
    int slot, at; /* a part of PART elements */
} operand;
typedef struct random_call {
    bool is_copy, whole; /* whole: all ELEMS of the buffers are copied */
    operand y, a, b;
} random_call;
typedef struct random_linear {
    int devices, device[SLOTS], n, graph_from, graph_to;
    random_call call[CALLS];
} random_linear;

static bool overlap(operand a, operand c) {
    return a.slot == c.slot && a.at < c.at + PART && c.at < a.at + PART;
}

static bool same(operand a, operand c) {
    return a.slot == c.slot && a.at == c.at;
}

static int below(uint64_t *s, int n) {
    return (int)(tk_test_rand(s) % (uint64_t)n);
}

static operand pick(uint64_t *s) {
    static const int starts[] = {0, 16, 48};
    return (operand){below(s, SLOTS), starts[below(s, 3)]};
}

/* A launch's buffers are on one device and apart from what it stores, or the same. */
static bool can_run(const random_linear *l, const random_call *c) {
    if (c->is_copy)
        return !overlap(c->y, c->a) && (!c->whole || c->y.slot != c->a.slot);
    return l->device[c->y.slot] == l->device[c->a.slot] &&
           l->device[c->y.slot] == l->device[c->b.slot] &&
           (same(c->y, c->a) || !overlap(c->y, c->a)) && (same(c->y, c->b) || !overlap(c->y, c->b));
}

static void make_random(random_linear *l, uint64_t *s) {
    memset(l, 0, sizeof *l);
    l->devices = 1 + below(s, 4);
    for (int i = 0; i < SLOTS; i++)
        l->device[i] = below(s, l->devices);
    int n = 1 + below(s, CALLS);
    while (l->n < n) {
        random_call c = {below(s, 3) == 0, below(s, 4) == 0, pick(s), pick(s), pick(s)};
        if (can_run(l, &c))
            l->call[l->n++] = c;
    }
    l->graph_from = below(s, n + 1);
    l->graph_to = l->graph_from + below(s, n + 1 - l->graph_from);
}

static void device_name(int i, char name[8]) {
    snprintf(name, 8, i ? "CPU:%d" : "CPU", i);
}

/* Slots 0 and 1 are inputs, the others BUFFERs. Nodes %100 + 10 slot: the whole, + 1, 2, 3: parts.
 */
static tolk_linear *write_random(rt *on, const random_linear *l) {
    char text[16384], device[8];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "%s%%21 = const index %d\n%%22 = const index 0\n"
                                "%%23 = const index 16\n",
                                MIX, ELEMS);
    for (int i = 0; i < SLOTS; i++) {
        int w = 100 + 10 * i;
        device_name(l->device[i], device);
        if (i < 2)
            n += (size_t)snprintf(text + n, sizeof text - n, "%%%d = param i32 (%%21) {slot=%d}\n",
                                  w, i);
        else
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = buffer i32 (%%21) {slot=%d, device=\"%s\"}\n", w, i,
                                  device);
        for (int k = 0; k < 3; k++)
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = slice i32 (%%%d, %%%d) {count=48}\n", w + 1 + k, w,
                                  k == 0   ? 22
                                  : k == 1 ? 23
                                           : 1);
    }
    int list[CALLS];
    for (int i = 0; i < l->n; i++) {
        const random_call *c = &l->call[i];
        const operand *o[] = {&c->y, &c->a, &c->b};
        int node[3];
        for (int k = 0; k < 3; k++)
            node[k] = 100 + 10 * o[k]->slot + (o[k]->at == 0 ? 1 : o[k]->at == 16 ? 2 : 3);
        list[i] = 301 + 2 * i;
        if (c->is_copy) {
            int y = c->whole ? 100 + 10 * c->y.slot : node[0],
                a = c->whole ? 100 + 10 * c->a.slot : node[1];
            device_name(l->device[c->y.slot], device);
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = copy i32 (%%%d) {device=\"%s\"}\n"
                                  "%%%d = call void (%%%d, %%%d, %%%d)\n",
                                  300 + 2 * i, a, device, list[i], 300 + 2 * i, y, a);
        } else {
            n += (size_t)snprintf(text + n, sizeof text - n,
                                  "%%%d = call void (%%20, %%%d, %%%d, %%%d)\n", list[i], node[0],
                                  node[1], node[2]);
        }
    }
    /* The calls from graph_from to graph_to as a graph. */
    if (l->graph_to > l->graph_from) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%%400 = linear void (");
        for (int i = l->graph_from; i < l->graph_to; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%%%d",
                                  i > l->graph_from ? ", " : "", list[i]);
        n += (size_t)snprintf(text + n, sizeof text - n,
                              ")\n%%401 = custom_function void (%%400) {name=\"graph\"}\n"
                              "%%402 = call void (%%401, %%100, %%110)\n");
    }
    n += (size_t)snprintf(text + n, sizeof text - n, "%%500 = linear void (");
    for (int i = 0, any = 0; i < l->n; i++) {
        bool in = i >= l->graph_from && i < l->graph_to;
        if (!in || i == l->graph_from)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%%%d", any++ ? ", " : "",
                                  in ? 402 : list[i]);
    }
    snprintf(text + n, sizeof text - n, ")\n");
    return linear_of(on, text);
}

/* What the calls do, one after the other. */
static void simulate(const random_linear *l, uint32_t mem[SLOTS][ELEMS]) {
    for (int i = 0; i < l->n; i++) {
        const random_call *c = &l->call[i];
        if (c->is_copy && c->whole) {
            memcpy(mem[c->y.slot], mem[c->a.slot], sizeof mem[0]);
            continue;
        }
        for (int k = 0; k < PART; k++) {
            uint32_t a = mem[c->a.slot][c->a.at + k], x = mem[c->b.slot][c->b.at + k];
            mem[c->y.slot][c->y.at + k] = c->is_copy ? a : a + 3 * x;
        }
    }
}

/* One context and what stands for the slots in it. */
typedef struct side {
    rt r;
    tolk_bindings *b;
    tolk_buffer *buf[SLOTS];
    tolk_linear *l;
    tolk_exec *e;
} side;

static void bind_slots(side *s, const random_linear *l, tolk_graph *g, unsigned which,
                       uint32_t mem[SLOTS][ELEMS]) {
    char device[8];
    for (int i = 0; i < SLOTS; i++) {
        if (!(which >> i & 1))
            continue;
        tolk_buffer_unref(s->buf[i]);
        device_name(l->device[i], device);
        assert_int_equal(tolk_alloc_i32(device_of(&s->r, device), ELEMS, &s->buf[i], NULL),
                         TOLK_OK);
        assert_int_equal(tolk_buffer_copyin(s->buf[i], 0, mem[i], sizeof mem[i], NULL), TOLK_OK);
        const tolk_uop *node = buffer_node(g, ELEMS, i, device);
        assert_int_equal(tolk_bindings_seed(s->b, node, s->buf[i], NULL), TOLK_OK);
    }
}

static void run_side(side *s, const random_linear *l, tolk_graph *g, bool exec, int round) {
    char device[8];
    const tolk_uop *inputs[2];
    tolk_run_args a = TOLK_RUN_INIT;
    tolk_error why = TOLK_ERROR_INIT;
    for (int i = 0; i < 2; i++) {
        device_name(l->device[i], device);
        inputs[i] = buffer_node(g, ELEMS, i, device);
    }
    a.inputs = inputs;
    a.n_inputs = 2;
    a.wait = round & 1;
    if (!s->e)
        assert_int_equal(tolk_exec_create(s->b, s->l, NULL, &s->e, NULL), TOLK_OK);
    if (exec ? tolk_exec_run(s->e, &a, &why) : tolk_run_linear(s->b, s->l, NULL, &a, &why))
        fail_msg("%s", why.msg);
}

static void compare(side *s, uint32_t mem[SLOTS][ELEMS], uint64_t number) {
    for (int i = 0; i < SLOTS; i++) {
        uint32_t have[ELEMS];
        assert_int_equal(tolk_buffer_copyout(s->buf[i], 0, have, sizeof have, NULL), TOLK_OK);
        if (memcmp(have, mem[i], sizeof have) != 0)
            fail_msg("linear %llu: slot %d differs", (unsigned long long)number, i);
    }
}

static void one_random(side sides[2], uint64_t number) {
    random_linear l;
    uint64_t state = tk_test_seed() + number * 1000003;
    uint32_t mem[SLOTS][ELEMS];
    make_random(&l, &state);
    tolk_graph *g[2];
    for (int k = 0; k < 2; k++) {
        assert_int_equal(tolk_graph_create(sides[k].r.ctx, &g[k]), TOLK_OK);
        assert_int_equal(tolk_bindings_create(sides[k].r.cpu, &sides[k].b, NULL), TOLK_OK);
        sides[k].l = write_random(&sides[k].r, &l);
    }
    for (int round = 0; round < 4; round++) {
        unsigned which = round ? (unsigned)below(&state, 1 << SLOTS) : (1u << SLOTS) - 1;
        bool exec = below(&state, 2) != 0;
        for (int i = 0; i < SLOTS; i++)
            for (int k = 0; which >> i & 1 && k < ELEMS; k++)
                mem[i][k] = (uint32_t)tk_test_rand(&state);
        for (int k = 0; k < 2; k++) {
            bind_slots(&sides[k], &l, g[k], which, mem);
            run_side(&sides[k], &l, g[k], exec, round);
        }
        simulate(&l, mem);
        for (int k = 0; k < 2; k++)
            compare(&sides[k], mem, number);
    }
    for (int k = 0; k < 2; k++) {
        side *s = &sides[k];
        tolk_exec_destroy(s->e);
        tolk_bindings_destroy(s->b);
        tolk_linear_unref(s->l);
        tolk_graph_destroy(g[k]);
        for (int i = 0; i < SLOTS; i++)
            tolk_buffer_unref(s->buf[i]);
        memset(s->buf, 0, sizeof s->buf);
        s->e = NULL;
    }
}

/* GRAPH-07, too: the first run, later ones and execs do the same. */
static void test_GRAPH_07_random_linears(void **state) {
    (void)state;
    static side sides[2];
    memset(sides, 0, sizeof sides);
    for (uint32_t k = 0; k < 2; k++) {
        tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
        o.cpu_devices = 4;
        o.synchronous = k;
        rt_open(&sides[k].r, NULL, &o);
    }
    uint64_t n = tk_test_count(10000);
    for (uint64_t i = 0; i < n; i++)
        one_random(sides, i);
    for (int k = 0; k < 2; k++)
        rt_close(&sides[k].r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_GRAPH_07_random_linears),
    };
    return cmocka_run_group_tests_name("run_random", tests, NULL, NULL);
}
