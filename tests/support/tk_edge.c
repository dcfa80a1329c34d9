/* SPDX-License-Identifier: MIT */
#include "support/tk_edge.h"

#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/scalar.h"
#include "jit/backend.h"
#include "jit/target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each has other instructions for something: SSE2 no blend, no min of every integer, no trunc. */
static const char *const target_names[] = {"x86-64", "x86-64-v2", "haswell", "skylake-avx512"};
enum { TARGETS = sizeof target_names / sizeof *target_names, CANARY = 0xa5, MARGIN = 256 };

static tolk_ctx *ctx;
static tolk_device *device;
static bool runs[TARGETS], has_fma[TARGETS];

int tk_edge_setup(void **state) {
    (void)state;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    opts.threads = 1;
    if (tolk_ctx_create(&opts, &ctx, NULL) != TOLK_OK ||
        tolk_device_open(ctx, "CPU", &device, NULL) != TOLK_OK)
        return 1;
    const tk_host *host = device->backend->host(device);
    for (size_t t = 0; t < TARGETS; t++) {
        tk_target target;
        const char *missing = NULL;
        if (tk_target_parse(host, target_names[t], &target, NULL) != TOLK_OK)
            return 1;
        runs[t] = tk_target_runs_on(&target, host, &missing);
        has_fma[t] = target.fma;
        if (!runs[t])
            print_message("not run: %s (this machine has no %s)\n", target_names[t], missing);
    }
    return 0;
}

int tk_edge_teardown(void **state) {
    (void)state;
    tolk_ctx_destroy(ctx);
    return 0;
}

tolk_graph *tk_edge_graph(void) {
    tolk_graph *g;
    assert_int_equal(tolk_graph_create(ctx, &g), TOLK_OK);
    return g;
}

/* ---- kernels ---- */

/* rows 0: their number is the scalar param n, and which operand (or -1) is a scalar param, too. */
static const tolk_uop *build(tolk_graph *g, const tk_edge *e, size_t rows, int scalar) {
    const char *out = tolk_dtype_name(e->out);
    tk_strbuf sb;
    tk_strbuf_init(&sb, &tk_alloc_malloc);
    tk_strbuf_str(&sb, "tolk.uop 1\n");
    if (rows)
        tk_strbuf_fmt(&sb, "%%1 = const index %zu\n", rows);
    else
        tk_strbuf_str(&sb, "%3 = param i32 {slot=9, name=\"n\", space=alu, min=0, max=10000000}\n"
                           "%1 = cast index (%3)\n");
    tk_strbuf_str(&sb, "%2 = range index (%1) {axis=0, kind=global}\n");
    for (int k = 0; k < TK_EDGE_OPERANDS && e->in[k] != TOLK_VOID; k++) {
        const char *in = tolk_dtype_name(e->in[k]);
        if (k == scalar) {
            tk_strbuf_fmt(&sb, "%%%d = param %s {slot=%d, name=\"s\", space=alu}\n", 100 + k, in,
                          10 + k);
            continue;
        }
        tk_strbuf_fmt(&sb,
                      "%%%d = param %s (%%1) {slot=%d}\n%%%d = index %s (%%%d, %%2)\n"
                      "%%%d = load %s (%%%d)\n",
                      10 + k, in, 1 + k, 20 + k, in, 10 + k, 100 + k, in, 20 + k);
    }
    tk_strbuf_str(&sb, e->body);
    size_t results = e->results ? e->results : 1;
    tk_strbuf_fmt(&sb,
                  "\n%%4 = const index %zu\n%%5 = stack index (%%4, %%1)\n"
                  "%%6 = param %s (%%5) {slot=0}\n",
                  results, out);
    for (size_t r = 0; r < results; r++)
        tk_strbuf_fmt(&sb,
                      "%%%zu = const index %zu\n%%%zu = index %s (%%6, %%%zu, %%2)\n"
                      "%%%zu = store void (%%%zu, %%%zu)\n",
                      100000 + r, r, 200000 + r, out, 100000 + r, 300000 + r, 200000 + r, 200 + r);
    tk_strbuf_str(&sb, "%7 = group void (");
    for (size_t r = 0; r < results; r++)
        tk_strbuf_fmt(&sb, "%s%%%zu", r ? ", " : "", 300000 + r);
    tk_strbuf_str(&sb, ")\n%8 = end void (%7, %2)\n%9 = sink void (%8) {name=\"edge\"}\n");
    char *text = tk_strbuf_take(&sb, NULL);
    assert_non_null(text);
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) != TOLK_OK ||
        tolk_verify(root, TOLK_STAGE_KERNEL, &err) != TOLK_OK)
        fail_msg("%s: %s\n%s", e->name, err.msg, text);
    tk_strbuf_text_free(&tk_alloc_malloc, text);
    return root;
}

/* ---- arrays ---- */

typedef struct arrays {
    const tk_edge *e;
    size_t results, out_bytes, in_bytes[TK_EDGE_OPERANDS];
    int operands, scalar;
    uint64_t value; /* of the scalar */
    char *in[TK_EDGE_OPERANDS], *got;
    char *want[2]; /* without and with FMA */
} arrays;

static void arrays_init(arrays *a, const tk_edge *e) {
    memset(a, 0, sizeof *a);
    a->e = e;
    a->scalar = -1;
    a->results = e->results ? e->results : 1;
    a->out_bytes = tolk_dtype_bytes(e->out);
    for (; a->operands < TK_EDGE_OPERANDS && e->in[a->operands] != TOLK_VOID; a->operands++) {
        int k = a->operands;
        size_t bytes = a->in_bytes[k] = tolk_dtype_bytes(e->in[k]);
        a->in[k] = malloc(e->rows * bytes + 1);
        assert_non_null(a->in[k]);
        for (size_t i = 0; i < e->rows && e->bits[k]; i++)
            memcpy(a->in[k] + i * bytes, &e->bits[k][i], bytes); /* little-endian */
    }
    for (int fma = 0; fma < 2; fma++)
        a->want[fma] = malloc(a->results * e->rows * a->out_bytes + 1);
    a->got = malloc(a->results * e->rows * a->out_bytes + MARGIN);
    assert_true(a->want[0] && a->want[1] && a->got);
}

static void arrays_fini(arrays *a) {
    for (int k = 0; k < a->operands; k++)
        free(a->in[k]);
    free(a->want[0]);
    free(a->want[1]);
    free(a->got);
}

static uint64_t element(const char *at, tolk_dtype dtype, size_t i) {
    uint64_t bits = 0;
    size_t bytes = tolk_dtype_bytes(dtype);
    memcpy(&bits, at + i * bytes, bytes);
    return dtype == TOLK_BOOL ? bits : tk_dtype_canon(dtype, bits);
}

static void differs(const arrays *a, const char *who, size_t result, size_t row, uint64_t have,
                    uint64_t want) {
    char text[256] = "";
    size_t n = 0;
    for (int k = 0; k < a->operands; k++) {
        uint64_t bits = k == a->scalar ? a->value : element(a->in[k], a->e->in[k], row);
        n += (size_t)snprintf(text + n, sizeof text - n, " %s 0x%" PRIx64,
                              tolk_dtype_name(a->e->in[k]), bits);
    }
    fail_msg("%s, %s: result %zu of row %zu (%s ) is %s 0x%" PRIx64 ", expected 0x%" PRIx64,
             a->e->name, who, result, row, text, tolk_dtype_name(a->e->out), have, want);
}

static bool same(const tk_edge *e, uint64_t a, uint64_t b) {
    return e->all_bits ? a == b : tk_scalar_same(e->out, a, b);
}

/* got holds `rows` rows from `first` on, of a target with FMA or without. */
static void compare(const arrays *a, const char *who, bool fma, size_t first, size_t rows) {
    const tk_edge *e = a->e;
    for (size_t r = 0; r < a->results; r++)
        for (size_t i = 0; i < rows; i++) {
            uint64_t have = element(a->got, e->out, r * rows + i);
            uint64_t want = element(a->want[fma], e->out, r * e->rows + first + i);
            if (!same(e, have, want))
                differs(a, who, r, first + i, have, want);
        }
    const char *end = a->got + a->results * rows * a->out_bytes;
    for (int i = 0; i < MARGIN; i++)
        if (end[i] != (char)CANARY)
            fail_msg("%s, %s: byte %d behind the results was changed", e->name, who, i);
}

typedef tolk_status (*runner)(const void *what, void *const *bufs, const size_t *bytes,
                              size_t n_bufs, const int64_t *vals, size_t n_vals, tolk_error *err);

static tolk_status run_interpreter(const void *what, void *const *bufs, const size_t *bytes,
                                   size_t n_bufs, const int64_t *vals, size_t n_vals,
                                   tolk_error *err) {
    return tolk_interpret(what, bufs, bytes, n_bufs, vals, n_vals, err);
}

static tolk_status run_interpreter_no_fma(const void *what, void *const *bufs, const size_t *bytes,
                                          size_t n_bufs, const int64_t *vals, size_t n_vals,
                                          tolk_error *err) {
    return tolk_interpret_with(what, bufs, bytes, n_bufs, vals, n_vals, TOLK_INTERPRET_NO_FMA, err);
}

static tolk_status run_program(const void *what, void *const *bufs, const size_t *bytes,
                               size_t n_bufs, const int64_t *vals, size_t n_vals, tolk_error *err) {
    return tolk_launch(what, bufs, bytes, n_bufs, vals, n_vals, err);
}

/* Rows first .. first+rows-1 to a->got. sized: the kernel has no param n. */
static void launch(const arrays *a, const char *who, runner run, const void *what, bool sized,
                   size_t first, size_t rows) {
    void *bufs[TK_EDGE_OPERANDS + 1] = {a->got};
    size_t n = 1, bytes[TK_EDGE_OPERANDS + 1] = {a->results * rows * a->out_bytes};
    for (int k = 0; k < a->operands; k++) {
        if (k == a->scalar)
            continue;
        bufs[n] = a->in[k] + first * a->in_bytes[k];
        bytes[n++] = rows * a->in_bytes[k];
    }
    const int64_t vals[2] = {(int64_t)rows, (int64_t)a->value};
    size_t n_vals = (sized ? 0 : 1) + (a->scalar < 0 ? 0 : 1);
    memset(a->got, CANARY, bytes[0] + MARGIN);
    tolk_error err = TOLK_ERROR_INIT;
    if (run(what, bufs, bytes, n, vals, n_vals, &err) != TOLK_OK)
        fail_msg("%s, %s: %s", a->e->name, who, err.msg);
}

/* NULL: too large with these options, which 64 lanes on narrow registers may be. */
static tolk_program *compile(const tk_edge *e, const tolk_uop *kernel, size_t target,
                             const char *opts) {
    tolk_compile_opts o = TOLK_COMPILE_OPTS_INIT;
    o.target = target_names[target];
    o.opts = opts;
    o.no_cache = 1;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_compile(device, kernel, &o, &p, &err);
    if (st == TOLK_E_LIMIT && opts && strstr(opts, ":64"))
        return NULL;
    if (st != TOLK_OK)
        fail_msg("%s on %s, options \"%s\": %s", e->name, o.target, opts ? opts : "heuristic",
                 err.msg);
    return p;
}

/* What the rows give by the interpreter, for targets with FMA and without. */
static void interpret(arrays *a, const tolk_uop *kernel, bool sized) {
    const tk_edge *e = a->e;
    const size_t bytes = a->results * e->rows * a->out_bytes;
    launch(a, "interpreter", run_interpreter, kernel, sized, 0, e->rows);
    memcpy(a->want[1], a->got, bytes);
    if (e->functions)
        launch(a, "interpreter", run_interpreter_no_fma, kernel, sized, 0, e->rows);
    memcpy(a->want[0], a->got, bytes);
}

static void check_stated(const arrays *a) {
    const tk_edge *e = a->e;
    for (size_t i = 0; e->want && i < a->results * e->rows; i++) {
        uint64_t have = element(a->want[1], e->out, i);
        if (!same(e, have, e->want[i]))
            differs(a, "interpreter", i / e->rows, i % e->rows, have, e->want[i]);
    }
}

/* ---- ways ---- */

static void run_with(const arrays *a, const tolk_uop *kernel, size_t target, const char *opts) {
    char who[96];
    snprintf(who, sizeof who, "%s, options \"%s\"", target_names[target],
             opts ? opts : "heuristic");
    tolk_program *p = compile(a->e, kernel, target, opts);
    if (!p)
        return;
    launch(a, who, run_program, p, true, 0, a->e->rows);
    compare(a, who, has_fma[target], 0, a->e->rows);
    tolk_program_unref(p);
}

/* Windows smaller than the vectors: each row is in a tail once, and in several of its lanes. All of
 * at most 4096 rows, else some. */
static void run_windows(const arrays *a, const tolk_uop *kernel, size_t target) {
    static const size_t sizes[] = {1, 3, 7};
    char who[96];
    const size_t rows = a->e->rows, step = rows / 4096 + 1;
    tolk_program *p = compile(a->e, kernel, target, "LANE:0:8");
    for (size_t s = 0; s < 3; s++) {
        snprintf(who, sizeof who, "%s, %zu rows at a time", target_names[target], sizes[s]);
        for (size_t at = 0; at < rows; at += sizes[s] * step) {
            size_t n = rows - at < sizes[s] ? rows - at : sizes[s];
            launch(a, who, run_program, p, false, at, n);
            compare(a, who, has_fma[target], at, n);
        }
    }
    snprintf(who, sizeof who, "%s, symbolic size", target_names[target]);
    launch(a, who, run_program, p, false, 0, rows);
    compare(a, who, has_fma[target], 0, rows);
    tolk_program_unref(p);
}

/* The next of those that run; baseline x86-64 always does. */
static size_t next_target(void) {
    static size_t turn;
    do
        turn = (turn + 1) % TARGETS;
    while (!runs[turn]);
    return turn;
}

/* Vectors of one register and of a few, and what is none. More lanes than 64 bytes only with the
 * whole suite: compiling them takes long. */
static const char *next_lanes(const tk_edge *e) {
    static const char *const lists[] = {"LANE:0:2",  "LANE:0:4",   "LANE:0:8",
                                        "LANE:0:16", "UPCAST:0:3", "LANE:0:4 UPCAST:0:3",
                                        "LANE:0:32", "LANE:0:64"};
    static const size_t lanes[] = {2, 4, 8, 16, 3, 12, 32, 64};
    static size_t turn;
    size_t bytes = e->out == TOLK_BOOL ? 1 : tolk_dtype_bytes(e->out);
    if (bytes < tolk_dtype_bytes(e->in[0]))
        bytes = tolk_dtype_bytes(e->in[0]);
    do
        turn = (turn + 1) % (sizeof lists / sizeof *lists);
    while (e->rows < 20 ? lanes[turn] > 4 : lanes[turn] * bytes > 64 && tk_test_share() < 100);
    return lists[turn];
}

void tk_edge_run_ways(const tk_edge *e, unsigned ways) {
    tolk_graph *g = tk_edge_graph();
    const tolk_uop *kernel = build(g, e, e->rows, -1);
    const tolk_uop *any = ways & TK_EDGE_WINDOWS ? build(g, e, 0, -1) : NULL;
    const size_t first = ways & TK_EDGE_ONE_TARGET ? next_target() : 0;
    const size_t past = ways & TK_EDGE_ONE_TARGET ? first + 1 : TARGETS;
    arrays a;
    arrays_init(&a, e);
    interpret(&a, kernel, true);
    check_stated(&a);
    for (size_t t = first; t < past; t++) {
        if (!runs[t])
            continue;
        if (ways & TK_EDGE_HEURISTIC)
            run_with(&a, kernel, t, NULL);
        if (ways & TK_EDGE_NONE)
            run_with(&a, kernel, t, "");
        if (ways & TK_EDGE_LANES)
            run_with(&a, kernel, t, next_lanes(e));
        if (ways & TK_EDGE_WINDOWS)
            run_windows(&a, any, t);
    }
    arrays_fini(&a);
    tolk_graph_destroy(g);
}

void tk_edge_run(const tk_edge *e) {
    if (tk_test_share() >= 100) {
        tk_edge_run_ways(e, TK_EDGE_EVERYTHING);
        return;
    }
    tk_edge_run_ways(e, TK_EDGE_LANES);
    tk_edge_run_ways(e, TK_EDGE_NONE | TK_EDGE_WINDOWS | TK_EDGE_ONE_TARGET);
}

void tk_edge_run_scalar(const tk_edge *e, int which, const uint64_t *values, size_t n) {
    tolk_graph *g = tk_edge_graph();
    const tolk_uop *kernel = build(g, e, 0, which);
    arrays a;
    arrays_init(&a, e);
    a.scalar = which;
    tolk_program *p[TARGETS] = {NULL};
    const size_t only = tk_test_share() >= 100 ? TARGETS : next_target();
    for (size_t t = 0; t < TARGETS; t++)
        if (runs[t] && (only == TARGETS || t == only))
            p[t] = compile(e, kernel, t, "LANE:0:8");
    for (size_t i = 0; i < n; i++) {
        a.value = values[i];
        interpret(&a, kernel, false);
        for (size_t t = 0; t < TARGETS; t++) {
            if (!p[t])
                continue;
            char who[96];
            snprintf(who, sizeof who, "%s, operand %d a scalar", target_names[t], which);
            launch(&a, who, run_program, p[t], false, 0, e->rows);
            compare(&a, who, has_fma[t], 0, e->rows);
        }
    }
    for (size_t t = 0; t < TARGETS; t++)
        tolk_program_unref(p[t]);
    arrays_fini(&a);
    tolk_graph_destroy(g);
}
