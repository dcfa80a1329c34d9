/* SPDX-License-Identifier: MIT
 *
 * The passes one after another: the forms on the way are valid and compute the same, errors name
 * the node they are about, and nothing is left behind.
 */
#include "support/tk_stage.h"

#include "jit/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels of every kind ---- */

/* y[i, j] = sum over k of a[i, k] b[k, j] where j > 1, else 5; 6 x 9 x 11 */
static const char product[] =
    "tolk.uop 1\n%0 = const index 6\n%1 = const index 9\n%2 = const index 11\n"
    "%3 = stack index (%0, %1)\n%4 = stack index (%0, %2)\n%5 = stack index (%2, %1)\n"
    "%6 = param f32 (%3) {slot=0}\n%7 = param f32 (%4) {slot=1}\n%8 = param f32 (%5) {slot=2}\n"
    "%9 = range index (%0) {axis=0, kind=global}\n%10 = range index (%1) {axis=1, kind=global}\n"
    "%11 = range index (%2) {axis=2, kind=reduce}\n%12 = index f32 (%7, %9, %11)\n"
    "%13 = load f32 (%12)\n%14 = index f32 (%8, %11, %10)\n%15 = load f32 (%14)\n"
    "%16 = mul f32 (%13, %15)\n%17 = reduce f32 (%16, %11) {op=add}\n%18 = const index 1\n"
    "%19 = cmplt bool (%18, %10)\n%20 = const f32 5\n%21 = where f32 (%19, %17, %20)\n"
    "%22 = index f32 (%6, %9, %10)\n%23 = store void (%22, %21)\n%24 = end void (%23, %9, %10)\n"
    "%25 = sink void (%24) {name=\"product\"}\n";
/* y[gidx0, gidx1] = x[gidx1 + 1, gidx0] where that is inside: grid indices and a gated index */
static const char grid[] =
    "tolk.uop 1\n%0 = const index 7\n%1 = const index 5\n%2 = stack index (%0, %1)\n"
    "%3 = stack index (%1, %0)\n%4 = param i16 (%2) {slot=0}\n%5 = param i16 (%3) {slot=1}\n"
    "%6 = special index (%0) {name=\"gidx0\"}\n%7 = special index (%1) {name=\"gidx1\"}\n"
    "%8 = const index 1\n%9 = add index (%7, %8)\n%10 = cmplt bool (%9, %1)\n"
    "%11 = const index invalid\n%12 = where index (%10, %9, %11)\n%13 = index i16 (%5, %12, %6)\n"
    "%14 = load i16 (%13)\n%15 = index i16 (%4, %6, %7)\n%16 = store void (%15, %14)\n"
    "%17 = sink void (%16) {name=\"grid\"}\n";
/* n numbers: y[i] = i floordiv 3 + table[x[i]], and y[n] = their largest; some x are out of range
 */
static const char gather[] =
    "tolk.uop 1\n%0 = param i32 {slot=3, name=\"n\", space=alu, min=0, max=60}\n"
    "%1 = cast index (%0)\n%2 = const index 1\n%3 = add index (%1, %2)\n"
    "%4 = param i64 (%3) {slot=0}\n%5 = param i32 (%1) {slot=1}\n%6 = const index 12\n"
    "%7 = param i64 (%6) {slot=2}\n%8 = range index (%1) {axis=0, kind=global}\n"
    "%9 = index i32 (%5, %8)\n%10 = load i32 (%9)\n%11 = cast index (%10)\n"
    "%12 = index i64 (%7, %11)\n%13 = load i64 (%12)\n%14 = const index 3\n"
    "%15 = floordiv index (%8, %14)\n%16 = cast i64 (%15)\n%17 = add i64 (%13, %16)\n"
    "%18 = index i64 (%4, %8)\n%19 = store void (%18, %17)\n%20 = end void (%19, %8)\n"
    "%21 = range index (%1) {axis=1, kind=reduce}\n%22 = index i32 (%5, %21)\n"
    "%23 = load i32 (%22)\n%24 = reduce i32 (%23, %21) {op=max}\n%25 = cast i64 (%24)\n"
    "%26 = index i64 (%4, %1)\n%27 = store void (%26, %25)\n"
    "%28 = sink void (%20, %27) {name=\"gather\"}\n";
/* y[i] = exp(x[i]) / sum of exp(x), and a register that counts */
static const char counted[] =
    "tolk.uop 1\n%0 = const index 21\n%1 = const index 1\n%2 = const index 0\n"
    "%3 = param f64 (%0) {slot=0}\n%4 = param f64 (%0) {slot=1}\n"
    "%5 = buffer f64 (%1) {slot=0, space=reg}\n%6 = index f64 (%5, %2)\n%7 = const f64 0\n"
    "%8 = store void (%6, %7)\n%9 = range index (%0) {axis=0}\n%10 = after f64 (%5, %8, %9)\n"
    "%11 = index f64 (%10, %2)\n%12 = load f64 (%11)\n%13 = index f64 (%4, %9)\n"
    "%14 = load f64 (%13)\n%15 = exp f64 (%14)\n%16 = add f64 (%12, %15)\n"
    "%17 = store void (%6, %16)\n%18 = end void (%17, %9)\n%19 = after f64 (%5, %8, %18)\n"
    "%20 = index f64 (%19, %2)\n%21 = load f64 (%20)\n%22 = range index (%0) {axis=1}\n"
    "%23 = index f64 (%4, %22)\n%24 = load f64 (%23)\n%25 = exp f64 (%24)\n"
    "%26 = fdiv f64 (%25, %21)\n%27 = index f64 (%3, %22)\n%28 = store void (%27, %26)\n"
    "%29 = end void (%28, %22)\n%30 = sink void (%29) {name=\"counted\"}\n";

static const struct {
    const char *text, *opts; /* beside "" and the heuristic's */
    size_t n_vals;
} kernels[] = {
    {product, "LANE:1:4 UPCAST:0:2 UNROLL:4:3", 0},
    {grid, "LANE:0:4", 0},
    {gather, "LANE:0:8 GROUPTOP:2:4", 1},
    {counted, "LANE:1:8", 0},
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels };
static const char *const targets[] = {"x86-64", "haswell", "skylake-avx512", "aarch64"};
static const int64_t sizes[] = {0, 1, 7, 8, 33, 60};

static void same_at_all_sizes(tk_stage *s, size_t n_vals) {
    if (!n_vals)
        tk_stage_same(s, NULL, 0);
    for (size_t i = 0; n_vals && i < sizeof sizes / sizeof *sizes; i++)
        tk_stage_same(s, &sizes[i], 1);
}

static void valid(const tolk_uop *root, tolk_stage stage) {
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_verify(root, stage, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
}

static void test_every_form_is_valid_and_computes_the_same(void **state) {
    (void)state;
    for (size_t k = 0; k < N_KERNELS; k++)
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
            const char *const lists[] = {NULL, "", kernels[k].opts};
            tk_stage s;
            tk_stage_open(&s, kernels[k].text, targets[t]);
            for (int o = 0; o < 3; o++) {
                tk_pipeline p;
                tolk_error err = TOLK_ERROR_INIT;
                if (tk_pipeline_run(s.ctx, s.given, lists[o], &s.target, TOLK_BOUNDS_CHECK, false,
                                    TK_PIPELINE_PROGRAM, &p, &err) != TOLK_OK)
                    fail_msg("%s: %s", lists[o] ? lists[o] : "heuristic", err.msg);
                valid(p.kernel, TOLK_STAGE_KERNEL);
                valid(p.opt, TOLK_STAGE_KERNEL);
                valid(p.program, TOLK_STAGE_PROGRAM);
                const tolk_uop *const forms[] = {p.kernel, p.opt, p.program};
                for (int i = 0; i < 3; i++) {
                    s.root = forms[i];
                    same_at_all_sizes(&s, kernels[k].n_vals);
                }
                tk_pipeline_fini(&p);
            }
            tk_stage_close(&s);
        }
}

/* What tolk_emit prints, read back, is the same form. */
static void test_emitted_text_can_be_read_and_run(void **state) {
    (void)state;
    static const tolk_emit_kind kinds[] = {TOLK_EMIT_UOP, TOLK_EMIT_OPT, TOLK_EMIT_PROGRAM};
    for (size_t k = 0; k < N_KERNELS; k++) {
        tk_stage s;
        tk_stage_open(&s, kernels[k].text, "haswell");
        for (int i = 0; i < 3; i++) {
            tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
            tolk_error err = TOLK_ERROR_INIT;
            char *text, *again;
            size_t len, len_again;
            opts.target = "haswell";
            assert_int_equal(tolk_emit(s.ctx, s.given, &opts, kinds[i], &text, &len, &err),
                             TOLK_OK);
            if (tolk_parse(s.pass.g, text, len, 0, &s.root, &err) != TOLK_OK)
                fail_msg("%s\n%s", err.msg, text);
            valid(s.root, i == 2 ? TOLK_STAGE_PROGRAM : TOLK_STAGE_KERNEL);
            same_at_all_sizes(&s, kernels[k].n_vals);
            /* once more: the same to the byte */
            assert_int_equal(tolk_emit(s.ctx, s.given, &opts, kinds[i], &again, &len_again, &err),
                             TOLK_OK);
            assert_int_equal(len, len_again);
            assert_memory_equal(text, again, len);
            tolk_free_text(s.ctx, text);
            tolk_free_text(s.ctx, again);
        }
        tk_stage_close(&s);
    }
}

static void test_the_options_form_ends_before_the_program(void **state) {
    (void)state;
    tk_stage s;
    tk_pipeline p, q;
    tk_stage_open(&s, product, NULL);
    uint32_t nodes = tolk_graph_count(s.text);
    assert_int_equal(tk_pipeline_run(s.ctx, s.given, NULL, &s.target, TOLK_BOUNDS_CHECK, false,
                                     TK_PIPELINE_OPT, &p, NULL),
                     TOLK_OK);
    assert_null(p.program);
    assert_non_null(p.opt);
    assert_int_equal(tk_pipeline_run(s.ctx, s.given, p.pass.applied, &s.target, TOLK_BOUNDS_CHECK,
                                     false, TK_PIPELINE_PROGRAM, &q, NULL),
                     TOLK_OK);
    tolk_key a = tolk_uop_key(p.opt), b = tolk_uop_key(q.opt);
    assert_memory_equal(&a, &b, sizeof a);
    tk_pipeline_fini(&p);
    tk_pipeline_fini(&q);
    tk_pipeline_fini(&q);
    /* the graph of the kernel as given is as it was */
    assert_int_equal(tolk_graph_count(s.text), nodes);
    tk_stage_close(&s);
}

/* ---- errors ---- */

#define STORE_OF(more, dtype, value)                                                               \
    "tolk.uop 1\n%0 = const index 4\n%1 = const index 0\n" more "%50 = param " dtype               \
    " (%0) {slot=0}\n%51 = index " dtype " (%50, %1)\n%52 = store void (%51, " value ")\n"         \
    "%53 = sink void (%52) {name=\"lacking\"}\n"

static const struct {
    const char *text, *op, *msg;
    uint32_t line;
} lacking[] = {
    {STORE_OF("%2 = const f32 1\n%3 = stack f32 (%2, %2, %2, %2)\n"
              "%4 = wmma f32 (%3, %3, %3) {dims=[2, 2, 2]}\n%5 = index f32 (%4, %1)\n",
              "f32", "%5"),
     "wmma", "%4 wmma: the compiler does not have this op", 6},
};

/* Does line "%number = op" stand in the text of the kernel? */
static bool is_line(const tolk_uop *kernel, uint32_t number, const char *op) {
    char *text, line[64];
    size_t len;
    snprintf(line, sizeof line, "\n%%%u = %s ", number, op);
    assert_int_equal(tolk_print(kernel, &text, &len), TOLK_OK);
    bool found = strstr(text, line) != NULL;
    tolk_free_text(kernel->graph->ctx, text);
    return found;
}

static void test_what_is_lacking_is_named_as_the_text_numbers_it(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        tk_stage s;
        tk_pipeline p;
        tolk_error err = TOLK_ERROR_INIT;
        /* in a graph that has other nodes before it */
        tk_stage_open(&s, product, NULL);
        const char *text = lacking[i].text;
        const tolk_uop *root;
        if (tolk_parse(s.text, text, strlen(text), 0, &root, &err) != TOLK_OK ||
            tolk_verify(root, TOLK_STAGE_KERNEL, &err) != TOLK_OK)
            fail_msg("%s\n%s", err.msg, text);
        err = (tolk_error)TOLK_ERROR_INIT;
        assert_int_equal(tk_pipeline_run(s.ctx, root, NULL, &s.target, TOLK_BOUNDS_CHECK, false,
                                         TK_PIPELINE_PROGRAM, &p, &err),
                         TOLK_E_UNSUPPORTED);
        assert_string_equal(err.msg, lacking[i].msg);
        assert_int_equal(err.line, lacking[i].line);
        if (!is_line(root, err.node, lacking[i].op))
            fail_msg("%s: node %u", err.msg, err.node);
        assert_null(p.program);
        tk_pipeline_fini(&p);
        assert_int_equal(tk_pipeline_run(s.ctx, root, NULL, &s.target, TOLK_BOUNDS_CHECK, false,
                                         TK_PIPELINE_OPT, &p, NULL),
                         TOLK_E_UNSUPPORTED);
        tk_pipeline_fini(&p);
        tk_stage_close(&s);
    }
}

static void test_bad_options_are_told_and_are_about_no_node(void **state) {
    (void)state;
    static const struct {
        const char *opts, *msg;
    } bad[] = {
        {"LANE:7:4", "loop option LANE:7:4: expected an axis from 0 to 2"},
        {"LANE:1:4 LANE:2:4", "loop option LANE:2:4: the axis is already unrolled or a lane"},
        {"nonsense", "loop option \"nonsense\": expected UPCAST:AXIS:N"}};
    for (size_t i = 0; i < 3; i++) {
        tk_stage s;
        tk_pipeline p;
        tolk_error err = TOLK_ERROR_INIT;
        tk_stage_open(&s, product, NULL);
        assert_int_equal(tk_pipeline_run(s.ctx, s.given, bad[i].opts, &s.target, TOLK_BOUNDS_CHECK,
                                         false, TK_PIPELINE_PROGRAM, &p, &err),
                         TOLK_E_ARG);
        assert_int_equal(strncmp(err.msg, bad[i].msg, strlen(bad[i].msg)), 0);
        assert_int_equal(err.node, UINT32_MAX);
        assert_null(p.opt);
        tk_pipeline_fini(&p);
        tk_stage_close(&s);
    }
}

/* ---- TOLK_DUMP ---- */

typedef struct heard {
    char text[8192];
} heard;

static void hear(void *user, tolk_log_level level, const char *text) {
    heard *h = user;
    if (level == TOLK_LOG_DEBUG && strlen(h->text) + strlen(text) < sizeof h->text)
        strcat(h->text, text);
}

static void test_dump_prints_the_graph_after_the_passes_of_its_letters(void **state) {
    (void)state;
    static const char *const names[] = {"prepare",   "opts",    "group", "peel", "prove",
                                        "decompose", "flatten", "lower", "items"};
    static const char letters[] = "POGEVDFLI";
    for (int i = 0; i < 9; i++) {
        tk_stage s;
        tk_pipeline p;
        heard h = {""};
        tolk_ctx *ctx;
        tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
        opts.log = hear;
        opts.log_user = &h;
        opts.no_disk_cache = 1;
        assert_int_equal(setenv("TOLK_DUMP", (char[]){letters[i], 0}, 1), 0);
        assert_int_equal(tolk_ctx_create(&opts, &ctx, NULL), TOLK_OK);
        tk_stage_open(&s, grid, NULL);
        assert_int_equal(tk_pipeline_run(ctx, s.given, "", &s.target, TOLK_BOUNDS_CHECK, false,
                                         TK_PIPELINE_PROGRAM, &p, NULL),
                         TOLK_OK);
        for (int k = 0; k < 9; k++) {
            char head[64];
            snprintf(head, sizeof head, "after %s:\ntolk.uop 1\n", names[k]);
            assert_int_equal(strstr(h.text, head) != NULL, i == k);
        }
        assert_non_null(strstr(h.text, i >= 7 ? "linear void" : "sink void"));
        tk_pipeline_fini(&p);
        tolk_ctx_destroy(ctx);
        tk_stage_close(&s);
    }
    unsetenv("TOLK_DUMP");
}

/* ---- memory ---- */

static tolk_status run_all(const tolk_allocator *al, void *user) {
    tk_stage *s = user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    tk_pipeline p;
    opts.allocator = al;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    tolk_status st = tolk_ctx_create(&opts, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tolk_error err = TOLK_ERROR_INIT;
    st = tk_pipeline_run(ctx, s->given, s->pass.opts, &s->target, TOLK_BOUNDS_CHECK, false,
                         TK_PIPELINE_PROGRAM, &p, &err);
    if (st != TOLK_OK && st != TOLK_E_NOMEM)
        print_message("%s\n", err.msg);
    tk_pipeline_fini(&p);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_out_of_memory_anywhere(void **state) {
    (void)state;
    static const struct {
        const char *text, *opts;
    } runs[] = {{grid, NULL},
                {product, NULL},
                {product, "SWAP:0:1 LANE:0:4 UPCAST:1:2 UNROLL:4:3"},
                {gather, NULL},
                {gather, "LANE:0:8 GROUPTOP:2:4"}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        tk_stage s;
        tk_stage_open(&s, runs[i].text, NULL);
        s.pass.opts = runs[i].opts;
        assert_true(tk_test_oom(run_all, &s) > 100);
        tk_stage_close(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_is_valid_and_computes_the_same),
        cmocka_unit_test(test_emitted_text_can_be_read_and_run),
        cmocka_unit_test(test_the_options_form_ends_before_the_program),
        cmocka_unit_test(test_what_is_lacking_is_named_as_the_text_numbers_it),
        cmocka_unit_test(test_bad_options_are_told_and_are_about_no_node),
        cmocka_unit_test(test_dump_prints_the_graph_after_the_passes_of_its_letters),
        cmocka_unit_test(test_out_of_memory_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
