/* SPDX-License-Identifier: MIT */
#include "support/tk_kernel.h"

#include "base/ctx.h"
#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/literal.h"
#include "ir/narrow.h"
#include "ir/scalar.h"
#include "ir/uop.h"
#include "ir/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const size_t tk_kernel_sizes[TK_KERNEL_N_SIZES] = {0,   1,   2,   3,   4,   5,   7,    8,   9,  15,
                                                   16,  17,  18,  31,  32,  33,  63,   64,  65, 73,
                                                   127, 128, 129, 447, 448, 449, 1000, 4097};

/* ---- engines ---- */

enum { MAX_ENGINES = 8, CANARY = 0xa5, UNWRITTEN = 0xee, MARGIN = 256, MAX_ARGS = 8 };

static struct {
    const char *name;
    tk_kernel_engine fn;
    bool fma;
} engines[MAX_ENGINES] = {{"interpreter", tolk_interpret, true}};
static size_t n_engines = 1;
size_t tk_kernel_offset = 1;
static bool interpreter_alone; /* the next runs, to save the time of compilations */
static size_t one_compiler;    /* 0: all of them run; else this picks one */
static tolk_error last_error;

void tk_kernel_add_engine(const char *name, tk_kernel_engine fn, bool fma) {
    assert_true(n_engines < MAX_ENGINES);
    engines[n_engines].name = name;
    engines[n_engines].fma = fma;
    engines[n_engines++].fn = fn;
}

/* Has the kernel something that no compiler has yet? */
static bool is_for_interpreter_only(const tolk_uop *kernel) {
    tk_walk_list nodes;
    tk_vec_init(&nodes, &tk_alloc_malloc);
    assert_int_equal(tk_walk(kernel, &nodes), TOLK_OK);
    bool found = false;
    for (size_t i = 0; i < nodes.n; i++)
        found |= tk_uop_is(nodes.at[i], TK_OP_WMMA);
    tk_vec_fini(&nodes);
    return found;
}

const tolk_error *tk_kernel_error(void) {
    return &last_error;
}

/* ---- guarded arrays ---- */

/* Where an array stands in its pages. */
typedef enum placement {
    ALIGNED,
    ONE_OFF,  /* one element behind an aligned address */
    AT_END,   /* an unmapped page follows */
    AT_START, /* an unmapped page precedes */
    PLACEMENTS
} placement;

typedef struct guarded {
    char *map, *first, *last; /* the mapping; its pages that can be accessed */
    size_t map_bytes;
    char *at; /* the array */
    size_t bytes;
} guarded;

static void guarded_init(guarded *g, const tk_kernel_arg *arg, placement where) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), elem = tolk_dtype_bytes(arg->dtype);
    g->bytes = arg->n * elem;
    size_t inner = (g->bytes + 2 * MARGIN + page - 1) / page * page;
    g->map_bytes = inner + 2 * page;
    g->map = mmap(NULL, g->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g->map != MAP_FAILED);
    g->first = g->map + page;
    g->last = g->first + inner;
    assert_int_equal(mprotect(g->first, inner, PROT_READ | PROT_WRITE), 0);
    memset(g->first, CANARY, inner);
    g->at = where == ALIGNED   ? g->first + MARGIN
            : where == ONE_OFF ? g->first + MARGIN + tk_kernel_offset * elem
            : where == AT_END  ? g->last - g->bytes
                               : g->first;
    if (arg->data)
        memcpy(g->at, arg->data, g->bytes);
    else
        memset(g->at, UNWRITTEN, g->bytes);
}

static bool canaries_live(const guarded *g) {
    for (const char *p = g->first; p < g->at; p++)
        if (*p != (char)CANARY)
            return false;
    for (const char *p = g->at + g->bytes; p < g->last; p++)
        if (*p != (char)CANARY)
            return false;
    return true;
}

static uint64_t element(const void *array, tolk_dtype dtype, size_t i) {
    uint64_t v = 0;
    size_t bytes = tolk_dtype_bytes(dtype);
    memcpy(&v, (const char *)array + i * bytes, bytes);
    return dtype == TOLK_BOOL ? v : tk_dtype_canon(dtype, v);
}

/* ---- runs ---- */

static void compare(const char *engine, bool fma, placement where, const guarded *g,
                    const tk_kernel_arg *arg, size_t slot) {
    if (!canaries_live(g))
        fail_msg("%s, placement %d: something beside array %zu (%zu elements) was changed", engine,
                 (int)where, slot, arg->n);
    const void *want = arg->want ? arg->want : arg->data;
    if (!fma && arg->want_no_fma)
        want = arg->want_no_fma;
    for (size_t i = 0; i < arg->n; i++) {
        uint64_t have = element(g->at, arg->dtype, i);
        uint64_t expected = want ? element(want, arg->dtype, i)
                                 : tk_dtype_canon(arg->dtype, UINT64_C(0xeeeeeeeeeeeeeeee));
        bool same = want || arg->dtype != TOLK_BOOL ? tk_scalar_same(arg->dtype, have, expected)
                                                    : have == UNWRITTEN;
        if (!same)
            fail_msg("%s, placement %d: array %zu (%zu elements of %s) has 0x%" PRIx64
                     " at %zu, expected 0x%" PRIx64,
                     engine, (int)where, slot, arg->n, tolk_dtype_name(arg->dtype), have, i,
                     expected);
    }
}

void tk_kernel_run_uop(const tolk_uop *kernel, const tk_kernel_arg *args, size_t n_args,
                       const int64_t *vals, size_t n_vals, tolk_status status) {
    assert_true(n_args <= MAX_ARGS);
    size_t engines_here = interpreter_alone ? 1 : n_engines;
    bool lacking = engines_here > 1 && is_for_interpreter_only(kernel);
    for (size_t e = 0; e < engines_here; e++) {
        if (e > 0 && one_compiler && e != 1 + one_compiler % (n_engines - 1))
            continue;
        for (placement where = ALIGNED; where < PLACEMENTS; where++) {
            guarded g[MAX_ARGS];
            void *bufs[MAX_ARGS];
            size_t bytes[MAX_ARGS];
            for (size_t i = 0; i < n_args; i++) {
                guarded_init(&g[i], &args[i], where);
                bufs[i] = g[i].at;
                bytes[i] = g[i].bytes;
            }
            last_error = (tolk_error)TOLK_ERROR_INIT;
            tolk_status st = engines[e].fn(kernel, bufs, bytes, n_args, vals, n_vals, &last_error);
            bool refused = e > 0 && lacking;
            tolk_status expected = refused ? TOLK_E_UNSUPPORTED : status;
            if (st != expected)
                fail_msg("%s, placement %d: %s (%s), expected %s", engines[e].name, (int)where,
                         tolk_status_name(st), last_error.msg, tolk_status_name(expected));
            for (size_t i = 0; i < n_args; i++) {
                if (!refused)
                    compare(engines[e].name, engines[e].fma, where, &g[i], &args[i], i);
                assert_int_equal(munmap(g[i].map, g[i].map_bytes), 0);
            }
        }
    }
}

/* A text in a graph of its own, verified. */
typedef struct parsed {
    tolk_ctx *ctx;
    tolk_graph *graph;
    const tolk_uop *root;
} parsed;

static parsed parse(const char *text) {
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    parsed p = {NULL, NULL, NULL};
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_ctx_init(&opts, &p.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(p.ctx, &p.graph), TOLK_OK);
    if (tolk_parse(p.graph, text, strlen(text), 0, &p.root, &err) != TOLK_OK)
        fail_msg("line %u, column %u: %s\n%s", err.line, err.column, err.msg, text);
    if (tolk_verify(p.root, TOLK_STAGE_ANY, &err) != TOLK_OK)
        fail_msg("node %u: %s\n%s", err.node, err.msg, text);
    return p;
}

static void parsed_free(parsed *p) {
    tolk_graph_destroy(p->graph);
    tk_ctx_fini(p->ctx);
}

void tk_kernel_run(const char *text, const tk_kernel_arg *args, size_t n_args, const int64_t *vals,
                   size_t n_vals, tolk_status status) {
    parsed p = parse(text);
    tk_kernel_run_uop(p.root, args, n_args, vals, n_vals, status);
    parsed_free(&p);
}

size_t tk_kernel_engines(void) {
    return n_engines;
}

tolk_status tk_kernel_run_on(size_t engine, const char *text, void *const *bufs,
                             const size_t *bytes, size_t n_bufs, const int64_t *vals,
                             size_t n_vals) {
    parsed p = parse(text);
    last_error = (tolk_error)TOLK_ERROR_INIT;
    tolk_status st = engines[engine].fn(p.root, bufs, bytes, n_bufs, vals, n_vals, &last_error);
    parsed_free(&p);
    return st;
}

/* ---- elementwise ---- */

static char *array_of(tolk_dtype dtype, const uint64_t *bits, size_t count, size_t n) {
    size_t bytes = tolk_dtype_bytes(dtype);
    char *array = malloc(n * bytes + 1);
    assert_non_null(array);
    for (size_t i = 0; i < n; i++)
        memcpy(array + i * bytes, &bits[i % count], bytes);
    return array;
}

static void add_const(tk_strbuf *sb, int number, tolk_dtype dtype, uint64_t bits) {
    tk_strbuf_fmt(sb, "%%%d = const %s ", number, tolk_dtype_name(dtype));
    tk_literal_write(sb, dtype, bits);
    tk_strbuf_char(sb, '\n');
}

/* How the operands of an elementwise case come into the kernel. */
typedef enum form { FROM_BUFFERS, FROM_BUFFERS_SYMBOLIC, FROM_CONSTANTS, FROM_LOOP } form;

static void add_operand(tk_strbuf *sb, form f, const tk_kernel_rows *rows, int which, size_t row) {
    tolk_dtype dtype = which ? rows->b : rows->a;
    const uint64_t *bits = which ? rows->b_bits : rows->a_bits;
    const char *name = tolk_dtype_name(dtype);
    int at = 100 + which, temp = 1000 + 20000 * which;
    switch (f) {
    case FROM_BUFFERS:
    case FROM_BUFFERS_SYMBOLIC:
        tk_strbuf_fmt(sb, "%%%d = param %s (%%1) {slot=%d}\n", 10 + which, name, 1 + which);
        tk_strbuf_fmt(sb, "%%%d = index %s (%%%d, %%2)\n", 20 + which, name, 10 + which);
        tk_strbuf_fmt(sb, "%%%d = load %s (%%%d)\n", at, name, 20 + which);
        break;
    case FROM_CONSTANTS:
        add_const(sb, at, dtype, bits[row]);
        break;
    case FROM_LOOP: /* where(i % count == k, operand k, ...) */
        tk_strbuf_fmt(sb, "%%%d = const index %zu\n", temp, rows->count);
        tk_strbuf_fmt(sb, "%%%d = floormod index (%%2, %%%d)\n", temp + 1, temp);
        add_const(sb, temp + 2, dtype, bits[0]);
        for (size_t k = 1; k <= rows->count; k++) {
            int t = temp + 10 * (int)k, before = k == 1 ? temp + 2 : t - 10 + 3;
            size_t pick = k % rows->count;
            tk_strbuf_fmt(sb, "%%%d = const index %zu\n", t, pick);
            tk_strbuf_fmt(sb, "%%%d = cmpeq bool (%%%d, %%%d)\n", t + 1, temp + 1, t);
            add_const(sb, t + 2, dtype, bits[pick]);
            tk_strbuf_fmt(sb, "%%%d = where %s (%%%d, %%%d, %%%d)\n", k == rows->count ? at : t + 3,
                          name, t + 1, t + 2, before);
        }
        break;
    }
}

static char *kernel_text(form f, const char *body, const tk_kernel_rows *rows, size_t n,
                         size_t row) {
    tk_strbuf sb;
    tk_strbuf_init(&sb, &tk_alloc_malloc);
    tk_strbuf_str(&sb, "tolk.uop 1\n");
    if (f == FROM_BUFFERS_SYMBOLIC)
        tk_strbuf_str(&sb, "%3 = param i32 {slot=9, name=\"n\", space=alu, min=0, max=100000}\n"
                           "%1 = cast index (%3)\n");
    else
        tk_strbuf_fmt(&sb, "%%1 = const index %zu\n", n);
    tk_strbuf_fmt(&sb, "%%2 = range index (%%1) {axis=0, kind=global}\n");
    tk_strbuf_fmt(&sb, "%%4 = param %s (%%1) {slot=0}\n", tolk_dtype_name(rows->out));
    add_operand(&sb, f, rows, 0, row);
    if (rows->b != TOLK_VOID)
        add_operand(&sb, f, rows, 1, row);
    tk_strbuf_str(&sb, body);
    tk_strbuf_fmt(&sb,
                  "\n%%5 = index %s (%%4, %%2)\n%%6 = store void (%%5, %%200)\n"
                  "%%7 = end void (%%6, %%2)\n%%8 = sink void (%%7) {name=\"case\"}\n",
                  tolk_dtype_name(rows->out));
    assert_false(sb.failed);
    return tk_strbuf_take(&sb, NULL);
}

static void run_form(form f, const char *body, const tk_kernel_rows *rows, size_t n, size_t row) {
    size_t first = f == FROM_CONSTANTS ? row : 0, period = f == FROM_CONSTANTS ? 1 : rows->count;
    char *a = array_of(rows->a, rows->a_bits, rows->count, n), *b = NULL;
    char *want = array_of(rows->out, rows->want + first, period, n), *no_fma = NULL;
    if (rows->want_no_fma)
        no_fma = array_of(rows->out, rows->want_no_fma + first, period, n);
    size_t n_args = 1;
    tk_kernel_arg args[3] = {{rows->out, n, NULL, want, no_fma}};
    if (f == FROM_BUFFERS || f == FROM_BUFFERS_SYMBOLIC) {
        args[n_args++] = (tk_kernel_arg){rows->a, n, a, NULL, NULL};
        if (rows->b != TOLK_VOID) {
            b = array_of(rows->b, rows->b_bits, rows->count, n);
            args[n_args++] = (tk_kernel_arg){rows->b, n, b, NULL, NULL};
        }
    }
    char *text = kernel_text(f, body, rows, n, row);
    const int64_t size = (int64_t)n;
    tk_kernel_run(text, args, n_args, &size, f == FROM_BUFFERS_SYMBOLIC, TOLK_OK);
    tk_strbuf_text_free(&tk_alloc_malloc, text);
    free(a);
    free(b);
    free(want);
    free(no_fma);
}

/* What is compiled on one target only, another one each time, unless all is wanted. */
static size_t any_compiler(void) {
    static uint64_t rng;
    if (!rng)
        rng = tk_test_seed() | 1;
    return tk_test_share() < 100 ? 1 + (size_t)(tk_test_rand(&rng) % 60) : 0;
}

/* Is this one of the share of kernels that are compiled? All of them at 100 percent. */
static bool is_drawn(void) {
    static uint64_t rng, drawn;
    if (!drawn++)
        rng = tk_test_seed();
    return tk_test_rand(&rng) % 100 < tk_test_share();
}

void tk_kernel_elementwise(const char *body, const tk_kernel_rows *rows) {
    if (rows->count > 64) {
        run_form(FROM_BUFFERS, body, rows, rows->count, 0);
        return;
    }
    for (size_t i = 0; i < TK_KERNEL_N_SIZES; i++) {
        interpreter_alone = tk_kernel_sizes[i] != 17 && !is_drawn();
        one_compiler = any_compiler();
        run_form(FROM_BUFFERS, body, rows, tk_kernel_sizes[i], 0);
    }
    for (size_t row = 0; row < rows->count; row++) {
        interpreter_alone = !is_drawn();
        run_form(FROM_CONSTANTS, body, rows, 17, row);
    }
    interpreter_alone = false;
    one_compiler = any_compiler();
    run_form(FROM_LOOP, body, rows, 73, 0);
    one_compiler = 0;
    for (size_t i = 0; i < TK_KERNEL_N_SIZES; i++)
        run_form(FROM_BUFFERS_SYMBOLIC, body, rows, tk_kernel_sizes[i], 0);
}

/* ---- reductions ---- */

void tk_kernel_reduce(const char *op, tolk_dtype dtype, const uint64_t *data, size_t n_data,
                      size_t n, uint64_t want) {
    char *row = array_of(dtype, data, n_data, n), *out = array_of(dtype, &want, 1, 3);
    size_t bytes = n * tolk_dtype_bytes(dtype);
    char *rows = malloc(3 * bytes + 1);
    assert_non_null(rows);
    for (int r = 0; r < 3; r++)
        memcpy(rows + r * bytes, row, bytes);
    const char *name = tolk_dtype_name(dtype);
    for (size_t m = 1; m <= 3; m += 2) {
        char text[1024];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n"
                 "%%0 = const index %zu\n%%1 = const index %zu\n%%2 = stack index (%%0, %%1)\n"
                 "%%3 = param %s (%%0) {slot=0}\n%%4 = param %s (%%2) {slot=1}\n"
                 "%%5 = range index (%%0) {axis=0, kind=global}\n"
                 "%%6 = range index (%%1) {axis=1, kind=reduce}\n"
                 "%%7 = index %s (%%4, %%5, %%6)\n%%8 = load %s (%%7)\n"
                 "%%9 = reduce %s (%%8, %%6) {op=%s}\n%%10 = index %s (%%3, %%5)\n"
                 "%%11 = store void (%%10, %%9)\n%%12 = end void (%%11, %%5)\n"
                 "%%13 = sink void (%%12) {name=\"reduction\"}\n",
                 m, n, name, name, name, name, name, op, name);
        const tk_kernel_arg args[] = {{dtype, m, NULL, out, NULL},
                                      {dtype, m * n, rows, NULL, NULL}};
        tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
    }
    free(row);
    free(rows);
    free(out);
}

/* ---- bits ---- */

uint64_t tk_kernel_f32(float v) {
    return tk_narrow_round(TOLK_F32, (double)v);
}

uint64_t tk_kernel_f64(double v) {
    return tk_narrow_round(TOLK_F64, v);
}

uint64_t tk_kernel_float(tolk_dtype dtype, double v) {
    return tk_narrow_round(dtype, v);
}
