/* SPDX-License-Identifier: MIT
 *
 * The text of loop options, the order of axes, and every reason to refuse an option, in words.
 */
#include "support/tk_stage.h"

#include "jit/opt.h"

#include <stdio.h>
#include <string.h>

/* ---- text ---- */

static tk_opts parsed(const char *text, tolk_status status, tolk_error *err) {
    tk_opts opts;
    tk_vec_init(&opts, &tk_alloc_malloc);
    *err = (tolk_error)TOLK_ERROR_INIT;
    assert_int_equal(tk_opt_parse(text, &opts, err), status);
    return opts;
}

static void test_text_is_read_and_printed_in_one_form(void **state) {
    (void)state;
    static const char *const list[] = {
        "UPCAST:0:4", "LANE:1:16",  "UNROLL:2:8", "GROUPTOP:3:64", "THREAD:0:0",
        "SWAP:0:1",   "PADTO:2:32", "LOOP:7",     "UPCAST:10:16",  "PADTO:2147483647:2147483647",
        "LOCAL:0:16", "GROUP:1:8",  "NOLOCALS"};
    static const tk_opt want[] = {
        {TK_OPT_UPCAST, 0, 4},   {TK_OPT_LANE, 1, 16},
        {TK_OPT_UNROLL, 2, 8},   {TK_OPT_GROUPTOP, 3, 64},
        {TK_OPT_THREAD, 0, 0},   {TK_OPT_SWAP, 0, 1},
        {TK_OPT_PADTO, 2, 32},   {TK_OPT_LOOP, 7, 0},
        {TK_OPT_UPCAST, 10, 16}, {TK_OPT_PADTO, INT32_MAX, INT32_MAX},
        {TK_OPT_LOCAL, 0, 16},   {TK_OPT_GROUP, 1, 8},
        {TK_OPT_NOLOCALS, 0, 0},
    };
    char all[512] = "";
    tolk_error err;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        tk_opts one = parsed(list[i], TOLK_OK, &err);
        assert_int_equal(one.n, 1);
        assert_int_equal(one.at[0].kind, want[i].kind);
        assert_int_equal(one.at[0].axis, want[i].axis);
        assert_int_equal(one.at[0].arg, want[i].arg);
        char text[64];
        tk_opt_text(&one.at[0], text, sizeof text);
        assert_string_equal(text, list[i]);
        tk_vec_fini(&one);
        strcat(all, i % 2 ? ", " : "  ");
        strcat(all, list[i]);
    }
    tk_opts many = parsed(all, TOLK_OK, &err);
    assert_int_equal(many.n, sizeof list / sizeof *list);
    assert_int_equal(many.at[9].axis, INT32_MAX);
    tk_vec_fini(&many);
    tk_opts none = parsed(" , ", TOLK_OK, &err);
    assert_int_equal(none.n, 0);
    tk_vec_fini(&none);
}

static void test_text_is_cut_to_the_room_there_is(void **state) {
    (void)state;
    char text[8] = "xxxxxxx";
    tk_opt_text(&(tk_opt){TK_OPT_GROUPTOP, 3, 64}, text, sizeof text);
    assert_string_equal(text, "GROUPTO");
}

static void test_text_that_is_no_option_is_named(void **state) {
    (void)state;
    static const char *const bad[] = {"UPCAST",
                                      "UPCAST:",
                                      "UPCAST:0",
                                      "UPCAST:0:",
                                      "UPCAST:0:4:1",
                                      "UPCAST:0:x",
                                      "UPCAST:-1:4",
                                      "UPCAST:0:-4",
                                      "UPCAST:+0:4",
                                      "upcast:0:4",
                                      "UPCASTS:0:4",
                                      "LANES:0:4",
                                      "LOOP",
                                      "LOOP:0:1",
                                      "LOOP:",
                                      "NOLOCALS:0",
                                      "NOLOCALSX",
                                      "GROUP",
                                      "GROUPS:0:4",
                                      "LOCAL:1",
                                      "SWAP:1",
                                      "PADTO:0",
                                      "FOO:0:1",
                                      "UPCAST:0:2147483648",
                                      "UPCAST:2147483648:2",
                                      "LANE:0:99999999999999999999",
                                      "LANE::4",
                                      ":",
                                      "LANE:0:4;LANE:0:4",
                                      "LANE:0:4\nLANE:0:4",
                                      "UPCAST 0 4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tolk_error err;
        tk_opts opts = parsed(bad[i], TOLK_E_ARG, &err);
        tk_vec_fini(&opts);
        char want[80] = "loop option \"";
        strncat(want, bad[i], strcspn(bad[i], " "));
        if (strchr(want, '\n')) /* messages are one line */
            *strchr(want, '\n') = '?';
        if (strncmp(err.msg, want, strlen(want)) != 0 ||
            !strstr(err.msg, "\": expected UPCAST:AXIS:N, LANE:AXIS:N, UNROLL:AXIS:N, "
                             "LOCAL:AXIS:N, GROUP:AXIS:N, GROUPTOP:AXIS:N, THREAD:AXIS:N, "
                             "PADTO:AXIS:N, SWAP:AXIS:AXIS, LOOP:AXIS or NOLOCALS"))
            fail_msg("%s: %s", bad[i], err.msg);
    }
    /* the one that is wrong, not those before it; a long one is cut */
    tolk_error err;
    tk_opts opts = parsed("LANE:0:8 UPCAST:0:x LOOP:0", TOLK_E_ARG, &err);
    tk_vec_fini(&opts);
    assert_non_null(strstr(err.msg, "\"UPCAST:0:x\""));
    opts = parsed("LANE:000000000000000000000000000000000000000000000000000000000000000x",
                  TOLK_E_ARG, &err);
    tk_vec_fini(&opts);
    assert_non_null(strstr(err.msg, "\"LANE:00000000000000000000000000000000000\""));
}

/* ---- axes ---- */

/* Ranges of every kind, in an order that is not theirs; one of size 1, which is no axis. */
static void test_axes_are_counted_by_kind_then_number_then_sub(void **state) {
    (void)state;
    static const char text[] =
        "tolk.uop 1\n%0 = const index 2\n%1 = const index 1\n"
        "%2 = stack index (%0, %0, %0, %0, %0, %0, %0, %0)\n%3 = param i32 (%2) {slot=0}\n"
        "%10 = range index (%0) {axis=0, kind=unroll}\n"
        "%11 = range index (%0) {axis=1, kind=reduce}\n"
        "%12 = range index (%0) {axis=2, kind=group_reduce}\n"
        "%13 = range index (%0) {axis=3, kind=upcast}\n"
        "%14 = range index (%0) {axis=4, kind=lane}\n"
        "%16 = range index (%0) {axis=6}\n"
        "%17 = range index (%0) {axis=9, kind=thread}\n"
        "%18 = range index (%0) {axis=8, sub=[1], kind=global}\n"
        "%19 = range index (%0) {axis=8, sub=[0, 3], kind=global}\n"
        "%20 = range index (%0) {axis=8, sub=[0], kind=global}\n"
        "%21 = range index (%1) {axis=7, kind=global}\n"
        "%22 = add index (%10, %11)\n%23 = add index (%22, %12)\n%24 = cast i32 (%23)\n"
        "%25 = reduce i32 (%24, %12, %11, %10) {op=add}\n"
        "%26 = index i32 (%3, %17, %20, %19, %18, %16, %14, %13, %21)\n"
        "%27 = store void (%26, %25)\n"
        "%28 = end void (%27, %17, %20, %19, %18, %21, %16, %13, %14)\n"
        "%29 = sink void (%28) {name=\"all\"}\n";
    static const struct {
        int64_t axis;
        tk_axis kind;
    } want[] = {{8, TK_AXIS_GLOBAL}, {8, TK_AXIS_GLOBAL},       {8, TK_AXIS_GLOBAL},
                {9, TK_AXIS_THREAD}, {6, TK_AXIS_LOOP},         {4, TK_AXIS_LANE},
                {3, TK_AXIS_UPCAST}, {2, TK_AXIS_GROUP_REDUCE}, {1, TK_AXIS_REDUCE},
                {0, TK_AXIS_UNROLL}};
    tk_stage s;
    tk_stage_open(&s, text, NULL);
    tk_kview v;
    tk_uops axes;
    assert_true(tk_kview_init(&v, s.given));
    tk_vec_init(&axes, v.al);
    assert_int_equal(tk_opt_axes(&v, &axes, NULL), TOLK_OK);
    assert_int_equal(axes.n, sizeof want / sizeof *want);
    for (size_t i = 0; i < axes.n; i++) {
        assert_int_equal(tk_uop_int(axes.at[i], TK_A_RANGE_AXIS), want[i].axis);
        assert_int_equal(tk_kview_axis(axes.at[i]), want[i].kind);
    }
    /* of axis 8: [0] before [1] before [0, 3] */
    assert_int_equal(tk_uop_attr(axes.at[0], TK_A_RANGE_SUB).blob->ints[0], 0);
    assert_int_equal(tk_uop_attr(axes.at[1], TK_A_RANGE_SUB).blob->ints[0], 1);
    assert_int_equal(tk_uop_attr(axes.at[2], TK_A_RANGE_SUB).blob->n, 2);
    tk_vec_fini(&axes);
    tk_kview_fini(&v);
    tk_stage_close(&s);
}

/* ---- refusals ---- */

static void refused_as(const char *kernel, const char *opts, bool strict, tolk_status status,
                       const char *msg) {
    tk_stage s;
    tk_stage_open(&s, kernel, NULL);
    tk_stage_run(&s, "P");
    s.pass.opts = opts;
    s.pass.strict = strict;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tk_stage_try(&s, 'O', &err);
    if (st == TOLK_OK)
        fail_msg("%s was applied, expected \"%s\"", opts, msg);
    assert_int_equal(st, status);
    assert_string_equal(err.msg, msg);
    tk_stage_close(&s);
}

static void refused(const char *kernel, const char *opts, const char *msg) {
    refused_as(kernel, opts, false, TOLK_E_ARG, msg);
}

/* y[i] = x[i] over n of them; the loop is of some kind */
#define COPY(n, kind)                                                                              \
    "tolk.uop 1\n" n "%1 = param f32 (%0) {slot=0}\n%2 = param f32 (%0) {slot=1}\n"                \
    "%3 = range index (%0) {axis=0, kind=" kind "}\n%4 = index f32 (%1, %3)\n"                     \
    "%5 = index f32 (%2, %3)\n%6 = load f32 (%5)\n%7 = store void (%4, %6)\n"                      \
    "%8 = end void (%7, %3)\n%9 = sink void (%8) {name=\"copy\"}\n"
#define N100 "%0 = const index 100\n"
#define SYMBOLIC                                                                                   \
    "%10 = param i32 {slot=2, name=\"n\", space=alu, min=0, max=100}\n%0 = cast index (%10)\n"
/* y[i] = sum over k of x[i, k] */
#define ROWS(dtype)                                                                                \
    "tolk.uop 1\n%0 = const index 100\n%1 = stack index (%0, %0)\n"                                \
    "%2 = param " dtype " (%0) {slot=0}\n%3 = param " dtype " (%1) {slot=1}\n"                     \
    "%4 = range index (%0) {axis=0, kind=global}\n%5 = range index (%0) {axis=1, kind=reduce}\n"   \
    "%6 = index " dtype " (%3, %4, %5)\n%7 = load " dtype " (%6)\n"                                \
    "%8 = reduce " dtype " (%7, %5) {op=add}\n%9 = index " dtype " (%2, %4)\n"                     \
    "%10 = store void (%9, %8)\n%11 = end void (%10, %4)\n%12 = sink void (%11) {name=\"rows\"}\n"

static void test_an_axis_that_does_not_exist_is_refused(void **state) {
    (void)state;
    refused(COPY(N100, "global"), "UPCAST:1:4",
            "loop option UPCAST:1:4: expected an axis from 0 to 0");
    refused(COPY("%0 = const index 1\n", "global"), "LOOP:0",
            "loop option LOOP:0: the kernel has no axis");
    refused(ROWS("f32"), "SWAP:0:2", "loop option SWAP:0:2: the second axis does not exist");
}

static void test_amounts_out_of_range_are_refused(void **state) {
    (void)state;
    static const char copy[] = COPY(N100, "global"), rows[] = ROWS("i32");
    static const char small[] = "the amount must be at least 2";
    char msg[200];
    static const char *const one[] = {"UPCAST:0:1", "LANE:0:1",   "THREAD:0:1",
                                      "PADTO:0:1",  "UNROLL:1:1", "GROUPTOP:1:1",
                                      "PADTO:0:0",  "LOCAL:0:1",  "GROUP:1:1"};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        snprintf(msg, sizeof msg, "loop option %s: %s", one[i], small);
        refused(rows, one[i], msg);
    }
    refused(copy, "UPCAST:0:17", "loop option UPCAST:0:17: at most 16");
    refused(copy, "UPCAST:0:0", "loop option UPCAST:0:0: at most 16");
    refused(rows, "UNROLL:1:33", "loop option UNROLL:1:33: at most 32");
    refused(rows, "UNROLL:1:0", "loop option UNROLL:1:0: at most 32");
    refused(rows, "GROUPTOP:1:257", "loop option GROUPTOP:1:257: at most 256");
    refused(rows, "GROUP:1:257", "loop option GROUP:1:257: at most 256");
    static const char lanes[] = "lanes must be a power of two up to 64";
    static const char *const odd[] = {"LANE:0:3", "LANE:0:65", "LANE:0:128", "LANE:0:0",
                                      "LANE:1:6"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        snprintf(msg, sizeof msg, "loop option %s: %s", odd[i], lanes);
        refused(rows, odd[i], msg);
    }
}

static void test_the_whole_of_a_symbolic_axis_is_refused(void **state) {
    (void)state;
    static const char kernel[] = COPY(SYMBOLIC, "global");
    refused(kernel, "UPCAST:0:0", "loop option UPCAST:0:0: the whole axis needs a constant size");
    refused(kernel, "PADTO:0:8", "loop option PADTO:0:8: the axis needs a constant size");
}

static void test_options_of_the_wrong_kind_of_axis_are_refused(void **state) {
    (void)state;
    static const char rows[] = ROWS("i32"), loop[] = COPY(N100, "loop");
    refused(rows, "UPCAST:1:4",
            "loop option UPCAST:1:4: the axis must be a global, loop or local axis of a store");
    refused(rows, "UPCAST:0:4 UPCAST:1:2",
            "loop option UPCAST:1:2: the axis must be a global, loop or local axis of a store");
    refused(rows, "LOCAL:1:4",
            "loop option LOCAL:1:4: the axis must be a global or loop axis of a store");
    refused(rows, "LOCAL:0:4 LOCAL:1:2",
            "loop option LOCAL:1:2: the axis must be a global or loop axis of a store");
    refused(rows, "LOCAL:0:4 THREAD:1:2",
            "loop option THREAD:1:2: the axis must be a global or independent loop axis");
    refused(rows, "GROUP:0:4",
            "loop option GROUP:0:4: the axis must be a reduction's, not yet split into lanes");
    refused(rows, "GROUP:1:4 GROUP:1:2",
            "loop option GROUP:1:2: the axis must be a reduction's, not yet split into lanes");
    refused(rows, "THREAD:1:4",
            "loop option THREAD:1:4: the axis must be a global or independent loop axis");
    refused(rows, "UNROLL:0:4",
            "loop option UNROLL:0:4: the axis must be a reduction's, not yet unrolled");
    refused(rows, "UNROLL:1:4 UNROLL:2:2",
            "loop option UNROLL:2:2: the axis must be a reduction's, not yet unrolled");
    refused(rows, "GROUPTOP:0:4",
            "loop option GROUPTOP:0:4: the axis must be a reduction's, not yet split into lanes");
    refused(rows, "UNROLL:1:4 GROUPTOP:2:2",
            "loop option GROUPTOP:2:2: the axis must be a reduction's, not yet split into lanes");
    refused(rows, "LANE:0:4 LANE:1:2",
            "loop option LANE:1:2: the axis is already unrolled or a lane");
    refused(rows, "UNROLL:1:4 LANE:2:2",
            "loop option LANE:2:2: the axis is already unrolled or a lane");
    refused(rows, "LOOP:1", "loop option LOOP:1: the axis must be global");
    refused(loop, "LOOP:0", "loop option LOOP:0: the axis must be global");
    refused(rows, "SWAP:0:1", "loop option SWAP:0:1: both axes must be global");
    refused(rows, "SWAP:1:0", "loop option SWAP:1:0: both axes must be global");
    static const char *const padded[] = {"LANE:0:4 PADTO:1:3", "UPCAST:0:4 PADTO:1:3",
                                         "UNROLL:1:4 PADTO:2:3", "THREAD:0:4 PADTO:0:3"};
    for (size_t i = 0; i < 4; i++) {
        char msg[200];
        snprintf(msg, sizeof msg, "loop option %s: the axis is unrolled, a lane or a thread",
                 strchr(padded[i], ' ') + 1);
        refused(rows, padded[i], msg);
    }
}

static void test_a_second_lane_axis_is_refused(void **state) {
    (void)state;
    static const char both[] = "something already depends on another lane axis";
    char msg[200];
    snprintf(msg, sizeof msg, "loop option LANE:2:4: %s", both);
    refused(ROWS("i32"), "LANE:0:4 LANE:2:4", msg);
    snprintf(msg, sizeof msg, "loop option LANE:0:4: %s", both);
    refused(ROWS("i32"), "LANE:1:4 LANE:0:4", msg);
}

static void test_mostly_padding_is_refused(void **state) {
    (void)state;
    refused(COPY("%0 = const index 2\n", "global"), "PADTO:0:8",
            "loop option PADTO:0:8: more than three quarters would be padding");
    refused(COPY("%0 = const index 4\n", "global"), "PADTO:0:16",
            "loop option PADTO:0:16: more than three quarters would be padding");
}

static void test_strict_refuses_what_reorders_float_sums_alone(void **state) {
    (void)state;
    static const char *const lists[] = {"UNROLL:1:4", "GROUPTOP:1:4", "LANE:1:4", "GROUP:1:4"};
    for (size_t i = 0; i < 4; i++) {
        char msg[200];
        snprintf(msg, sizeof msg,
                 "loop option %s: it changes the order of a float sum, and strict forbids that",
                 lists[i]);
        refused_as(ROWS("f32"), lists[i], true, TOLK_E_ARG, msg);
        tk_stage s;
        tk_stage_open(&s, ROWS("i32"), NULL);
        s.pass.opts = lists[i];
        s.pass.strict = true;
        tk_stage_run(&s, "PO");
        tk_stage_same(&s, NULL, 0);
        tk_stage_close(&s);
    }
}

/* y[i] = sum over k < i + 1 of x[k]: the size of the inner loop depends on the outer one */
static const char triangle[] =
    "tolk.uop 1\n%0 = const index 20\n%1 = param i32 (%0) {slot=0}\n%2 = param i32 (%0) {slot=1}\n"
    "%3 = range index (%0) {axis=0, kind=global}\n%4 = const index 1\n%5 = add index (%3, %4)\n"
    "%6 = range index (%5, %3) {axis=1, kind=reduce}\n%7 = index i32 (%2, %6)\n"
    "%8 = load i32 (%7)\n%9 = reduce i32 (%8, %6) {op=add}\n%10 = index i32 (%1, %3)\n"
    "%11 = store void (%10, %9)\n%12 = end void (%11, %3)\n"
    "%13 = sink void (%12) {name=\"triangle\"}\n";
/* y[i, j] = 3 for j <= i */
static const char stairs[] =
    "tolk.uop 1\n%0 = const index 8\n%1 = stack index (%0, %0)\n%2 = param i32 (%1) {slot=0}\n"
    "%3 = range index (%0) {axis=0, kind=global}\n%4 = const index 1\n%5 = add index (%3, %4)\n"
    "%6 = range index (%5, %3) {axis=1, kind=global}\n%7 = index i32 (%2, %3, %6)\n"
    "%8 = const i32 3\n%9 = store void (%7, %8)\n%10 = end void (%9, %3, %6)\n"
    "%11 = sink void (%10) {name=\"stairs\"}\n";

static void test_axes_that_others_are_sized_by_are_not_split(void **state) {
    (void)state;
    static const char *const lists[] = {"UPCAST:0:4", "LANE:0:4", "LOCAL:0:4"};
    for (size_t i = 0; i < 3; i++) {
        char msg[200];
        snprintf(msg, sizeof msg, "loop option %s: the size of another loop depends on the axis",
                 lists[i]);
        refused(triangle, lists[i], msg);
        refused(stairs, lists[i], msg);
    }
    refused(stairs, "SWAP:0:1",
            "loop option SWAP:0:1: the size of another loop depends on the axis");
    refused(stairs, "SWAP:1:0",
            "loop option SWAP:1:0: the size of another loop depends on the axis");
    /* y[0] = 1 for i < 3, j < 4, k < j + 1: k cannot stand outside of j */
    refused("tolk.uop 1\n%0 = const index 3\n%1 = const index 1\n%2 = const index 0\n"
            "%3 = param i32 (%1) {slot=0}\n%4 = index i32 (%3, %2)\n%5 = const i32 1\n"
            "%6 = store void (%4, %5)\n%7 = range index (%0) {axis=0, kind=global}\n"
            "%8 = const index 4\n%9 = range index (%8) {axis=1, kind=global}\n"
            "%10 = add index (%9, %1)\n%11 = range index (%10) {axis=2, kind=global}\n"
            "%12 = end void (%6, %7, %9, %11)\n%13 = sink void (%12) {name=\"steps\"}\n",
            "SWAP:0:2", "loop option SWAP:0:2: the size of the axis depends on another loop");
}

/* y[i] = y[i - 1] + 1 in order, for i = 1 ... 19 */
static const char chain[] =
    "tolk.uop 1\n%0 = const index 20\n%1 = const index 19\n%2 = param i32 (%0) {slot=0}\n"
    "%3 = range index (%1) {axis=0}\n%4 = index i32 (%2, %3)\n%5 = load i32 (%4)\n"
    "%6 = const i32 1\n%7 = add i32 (%5, %6)\n%8 = const index 1\n%9 = add index (%3, %8)\n"
    "%10 = index i32 (%2, %9)\n%11 = store void (%10, %7)\n%12 = end void (%11, %3)\n"
    "%13 = sink void (%12) {name=\"chain\"}\n";
/* the last of the iterations in order stores to y[0] */
static const char last[] =
    "tolk.uop 1\n%0 = const index 20\n%1 = const index 0\n%2 = param i32 (%0) {slot=0}\n"
    "%3 = range index (%0) {axis=0}\n%4 = index i32 (%2, %1)\n%5 = cast i32 (%3)\n"
    "%6 = store void (%4, %5)\n%7 = end void (%6, %3)\n%8 = sink void (%7) {name=\"last\"}\n";
/* y[i + j] = 8 i + j, loops in order: each element is stored to by several i */
static const char diagonal[] =
    "tolk.uop 1\n%0 = const index 8\n%1 = const index 15\n%2 = param i32 (%1) {slot=0}\n"
    "%3 = range index (%0) {axis=0}\n%4 = range index (%0) {axis=1}\n%5 = add index (%3, %4)\n"
    "%6 = index i32 (%2, %5)\n%7 = mul index (%3, %0)\n%8 = add index (%7, %4)\n"
    "%9 = cast i32 (%8)\n%10 = store void (%6, %9)\n%11 = end void (%10, %3, %4)\n"
    "%12 = sink void (%11) {name=\"diagonal\"}\n";
/* y[(u8)i] = i: 256 iterations later it is the same element again */
static const char wrapped[] =
    "tolk.uop 1\n%0 = const index 512\n%1 = const index 256\n%2 = param i32 (%1) {slot=0}\n"
    "%3 = range index (%0) {axis=0}\n%4 = cast u8 (%3)\n%5 = cast index (%4)\n"
    "%6 = index i32 (%2, %5)\n%7 = cast i32 (%3)\n%8 = store void (%6, %7)\n"
    "%9 = end void (%8, %3)\n%10 = sink void (%9) {name=\"wrapped\"}\n";
/* fold in a register: acc = 2 acc + 1, then y[0] = acc */
static const char accumulator[] =
    "tolk.uop 1\n%0 = const index 10\n%1 = const index 1\n%2 = const index 0\n"
    "%3 = param i32 (%1) {slot=0}\n%4 = buffer i32 (%1) {slot=0, space=reg}\n"
    "%5 = index i32 (%4, %2)\n%6 = const i32 1\n%7 = store void (%5, %6)\n"
    "%8 = range index (%0) {axis=0}\n%9 = after i32 (%4, %7, %8)\n%10 = index i32 (%9, %2)\n"
    "%11 = load i32 (%10)\n%12 = add i32 (%11, %11)\n%13 = add i32 (%12, %6)\n"
    "%14 = store void (%5, %13)\n%15 = end void (%14, %8)\n%16 = after i32 (%4, %15)\n"
    "%17 = index i32 (%16, %2)\n%18 = load i32 (%17)\n%19 = index i32 (%3, %2)\n"
    "%20 = store void (%19, %18)\n%21 = sink void (%20) {name=\"accumulator\"}\n";

static void test_iterations_that_depend_on_each_other_stay_in_order(void **state) {
    (void)state;
    static const char *const kernels[] = {chain, last, diagonal, wrapped, accumulator};
    static const char *const lists[] = {"UPCAST:0:4", "LANE:0:4", "PADTO:0:3", "LOCAL:0:4"};
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        for (size_t i = 0; i < 4; i++) {
            char msg[200];
            snprintf(msg, sizeof msg, "loop option %s: iterations of the axis depend on each other",
                     lists[i]);
            refused(kernels[k], lists[i], msg);
        }
        refused(kernels[k], "THREAD:0:2",
                "loop option THREAD:0:2: the axis must be a global or independent loop axis");
    }
}

/* y[0] = sum over k of k times what a register has after k + 1 steps */
static const char state_of_steps[] =
    "tolk.uop 1\n%0 = const index 10\n%1 = const index 1\n%2 = const index 0\n"
    "%3 = param i32 (%1) {slot=0}\n%4 = buffer i32 (%1) {slot=0, space=reg}\n"
    "%5 = index i32 (%4, %2)\n%6 = const i32 1\n%7 = store void (%5, %6)\n"
    "%8 = range index (%0) {axis=0, kind=reduce}\n%9 = after i32 (%4, %7, %8)\n"
    "%10 = index i32 (%9, %2)\n%11 = load i32 (%10)\n%12 = add i32 (%11, %11)\n"
    "%13 = store void (%5, %12)\n%14 = after i32 (%4, %13)\n%15 = index i32 (%14, %2)\n"
    "%16 = load i32 (%15)\n%17 = cast i32 (%8)\n%18 = mul i32 (%16, %17)\n"
    "%19 = reduce i32 (%18, %8) {op=add}\n%20 = index i32 (%3, %2)\n"
    "%21 = store void (%20, %19)\n%22 = sink void (%21) {name=\"state\"}\n";

static void test_reductions_of_what_steps_leave_stay_in_order(void **state) {
    (void)state;
    static const char *const lists[] = {"UNROLL:0:2", "LANE:0:2", "GROUPTOP:0:2", "PADTO:0:4",
                                        "GROUP:0:2"};
    for (size_t i = 0; i < 5; i++) {
        char msg[200];
        snprintf(msg, sizeof msg, "loop option %s: iterations of the axis depend on each other",
                 lists[i]);
        refused(state_of_steps, lists[i], msg);
    }
}

/* One range in a REDUCE and in the END of an accumulator: y[0] = sum of x, y[1] = the fold of
 * accumulator[]. Iterations that are added would go into the fold. */
static const char shared[] =
    "tolk.uop 1\n%0 = const index 10\n%1 = const index 1\n%2 = const index 0\n"
    "%30 = const index 2\n%3 = param i32 (%30) {slot=0}\n%31 = param i32 (%0) {slot=1}\n"
    "%4 = buffer i32 (%1) {slot=0, space=reg}\n%5 = index i32 (%4, %2)\n%6 = const i32 1\n"
    "%7 = store void (%5, %6)\n%8 = range index (%0) {axis=0}\n%9 = after i32 (%4, %7, %8)\n"
    "%10 = index i32 (%9, %2)\n%11 = load i32 (%10)\n%12 = add i32 (%11, %11)\n"
    "%13 = add i32 (%12, %6)\n%14 = store void (%5, %13)\n%15 = end void (%14, %8)\n"
    "%16 = after i32 (%4, %15)\n%17 = index i32 (%16, %2)\n%18 = load i32 (%17)\n"
    "%19 = index i32 (%3, %1)\n%20 = store void (%19, %18)\n%32 = index i32 (%31, %8)\n"
    "%33 = load i32 (%32)\n%34 = reduce i32 (%33, %8) {op=add}\n%35 = index i32 (%3, %2)\n"
    "%36 = store void (%35, %34)\n%37 = sink void (%20, %36) {name=\"shared\"}\n";

static void test_an_axis_of_a_reduction_and_a_store_is_neither_split_nor_padded(void **state) {
    (void)state;
    refused(shared, "LANE:0:4",
            "loop option LANE:0:4: the axis is both a reduction's and a store's");
    refused(shared, "UNROLL:0:2",
            "loop option UNROLL:0:2: the axis must be a reduction's, not yet unrolled");
    refused(shared, "PADTO:0:4",
            "loop option PADTO:0:4: iterations of the axis depend on each other");
}

/* Two nested loops of one axis number, told apart by their sizes alone. */
static const char namesakes[] =
    "tolk.uop 1\n%0 = const index 8\n%1 = const index 16\n%2 = stack index (%0, %1)\n"
    "%3 = param i32 (%2) {slot=0}\n%4 = range index (%0) {axis=0, kind=global}\n"
    "%5 = range index (%1) {axis=0, kind=global}\n%6 = index i32 (%3, %4, %5)\n%7 = const i32 1\n"
    "%8 = store void (%6, %7)\n%9 = end void (%8, %4, %5)\n%10 = sink void (%9) {name=\"two\"}\n";

static void test_a_range_is_not_given_the_name_of_another(void **state) {
    (void)state;
    refused(namesakes, "UPCAST:0:4 UPCAST:0:4",
            "loop option UPCAST:0:4: the kernel has a range of the new one's name already");
    /* sizes 8 and 4 of axis 0, and 4 of axis 1 */
    static const char three[] =
        "tolk.uop 1\n%0 = const index 8\n%1 = const index 4\n%2 = stack index (%0, %1, %0)\n"
        "%3 = param i32 (%2) {slot=0}\n%4 = range index (%0) {axis=0, kind=global}\n"
        "%5 = range index (%1) {axis=0, kind=global}\n"
        "%6 = range index (%1) {axis=1, kind=global}\n%7 = index i32 (%3, %5, %6, %4)\n"
        "%8 = const i32 1\n%9 = store void (%7, %8)\n%10 = end void (%9, %4, %5, %6)\n"
        "%11 = sink void (%10) {name=\"three\"}\n";
    refused(three, "SWAP:1:2",
            "loop option SWAP:1:2: the kernel has a range of the new one's name already");
}

/* y[i] = the sum over k of x[i, k] times the largest of row k of x */
static const char nested[] =
    "tolk.uop 1\n%0 = const index 100\n%1 = stack index (%0, %0)\n%2 = param i32 (%0) {slot=0}\n"
    "%3 = param i32 (%1) {slot=1}\n%4 = range index (%0) {axis=0, kind=global}\n"
    "%5 = range index (%0) {axis=1, kind=reduce}\n%6 = range index (%0) {axis=2, kind=reduce}\n"
    "%7 = index i32 (%3, %5, %6)\n%8 = load i32 (%7)\n%9 = reduce i32 (%8, %6) {op=max}\n"
    "%10 = index i32 (%3, %4, %5)\n%11 = load i32 (%10)\n%12 = mul i32 (%9, %11)\n"
    "%13 = reduce i32 (%12, %5) {op=add}\n%14 = index i32 (%2, %4)\n%15 = store void (%14, %13)\n"
    "%16 = end void (%15, %4)\n%17 = sink void (%16) {name=\"nested\"}\n";

static void test_work_groups_that_no_device_has_are_refused(void **state) {
    (void)state;
    static const char copy[] = COPY("%0 = const index 2048\n", "global");
    refused(copy, "LOCAL:0:1025",
            "loop option LOCAL:0:1025: a group would have more than 1024 work-items");
    refused(copy, "LOCAL:0:0",
            "loop option LOCAL:0:0: a group would have more than 1024 work-items");
    refused(ROWS("i32"), "LOCAL:0:50 GROUP:2:21",
            "loop option GROUP:2:21: a group would have more than 1024 work-items");
    refused(ROWS("i32"), "GROUPTOP:1:64 LOCAL:0:17",
            "loop option LOCAL:0:17: a group would have more than 1024 work-items");
    refused(nested, "GROUP:2:4", "loop option GROUP:2:4: the reduction is inside of another one");
    refused(nested, "GROUPTOP:2:4",
            "loop option GROUPTOP:2:4: the reduction is inside of another one");
    /* Partial results: 4 bytes for each of 768 work-items; 16 are 49152, 17 are too many. */
    static const char shared_memory[] =
        "partial results of a group would need more than 49152 bytes of local memory";
    char msg[200];
    snprintf(msg, sizeof msg, "loop option UPCAST:0:9: %s", shared_memory);
    refused(ROWS("f64"), "LOCAL:0:12 GROUP:2:64 UPCAST:0:9", msg);
    snprintf(msg, sizeof msg, "loop option GROUP:2:64: %s", shared_memory);
    refused(ROWS("f64"), "UPCAST:0:9 LOCAL:0:12 GROUP:2:64", msg);
    tk_stage s;
    tk_stage_open(&s, ROWS("f64"), NULL);
    s.pass.opts = "LOCAL:0:12 GROUP:2:64 UPCAST:0:8";
    tk_stage_run(&s, "PO");
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

static void test_NOLOCALS_and_work_groups_exclude_each_other(void **state) {
    (void)state;
    static const char *const lists[] = {"NOLOCALS LOCAL:0:4", "NOLOCALS LANE:0:4 GROUP:2:4",
                                        "NOLOCALS UPCAST:0:2 GROUPTOP:2:4"};
    for (size_t i = 0; i < 3; i++) {
        char msg[200];
        snprintf(msg, sizeof msg, "loop option %s: NOLOCALS stands before it",
                 strrchr(lists[i], ' ') + 1);
        refused(ROWS("i32"), lists[i], msg);
    }
    static const char have[] = "the kernel has local, warp or group_reduce axes";
    char msg[200];
    snprintf(msg, sizeof msg, "loop option NOLOCALS: %s", have);
    refused(ROWS("i32"), "LOCAL:0:4 NOLOCALS", msg);
    refused(ROWS("i32"), "GROUP:1:4 NOLOCALS", msg);
    refused(ROWS("i32"), "GROUPTOP:1:4 NOLOCALS", msg);
}

static void test_sizes_near_the_end_of_the_integers_are_refused(void **state) {
    (void)state;
    static const char *const lists[] = {"PADTO:0:4", "UPCAST:0:4", "LANE:0:8", "THREAD:0:2"};
    /* y[0] = 1, in each of 2^63 - 1 iterations: nobody runs it, but options are tried on it */
    static const char kernel[] =
        "tolk.uop 1\n%0 = const index 9223372036854775807\n%1 = const index 1\n"
        "%2 = const index 0\n%3 = param f32 (%1) {slot=0}\n"
        "%4 = range index (%0) {axis=0, kind=global}\n%5 = index f32 (%3, %2)\n%6 = cast f32 (%4)\n"
        "%7 = store void (%5, %6)\n%8 = end void (%7, %4)\n%9 = sink void (%8) {name=\"long\"}\n";
    for (size_t i = 0; i < 4; i++) {
        char msg[200];
        snprintf(msg, sizeof msg, "loop option %s: the axis is too long", lists[i]);
        refused(kernel, lists[i], msg);
    }
}

static void test_a_range_is_split_32_times_at_most(void **state) {
    (void)state;
    /* PADTO to one more than the size, again and again */
    char list[1024] = "";
    for (int i = 0; i < 32; i++)
        sprintf(list + strlen(list), "PADTO:0:%d ", 101 + i);
    tk_stage s;
    tk_stage_open(&s, COPY(N100, "global"), NULL);
    s.pass.opts = list;
    tk_stage_run(&s, "PO");
    assert_int_equal(tk_uop_attr(tk_stage_find(&s, TK_OP_RANGE, 0), TK_A_RANGE_SUB).blob->n, 32);
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
    strcat(list, "PADTO:0:133");
    refused_as(COPY(N100, "global"), list, false, TOLK_E_LIMIT,
               "a range was split more than 32 times");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_read_and_printed_in_one_form),
        cmocka_unit_test(test_text_is_cut_to_the_room_there_is),
        cmocka_unit_test(test_text_that_is_no_option_is_named),
        cmocka_unit_test(test_axes_are_counted_by_kind_then_number_then_sub),
        cmocka_unit_test(test_an_axis_that_does_not_exist_is_refused),
        cmocka_unit_test(test_amounts_out_of_range_are_refused),
        cmocka_unit_test(test_the_whole_of_a_symbolic_axis_is_refused),
        cmocka_unit_test(test_options_of_the_wrong_kind_of_axis_are_refused),
        cmocka_unit_test(test_a_second_lane_axis_is_refused),
        cmocka_unit_test(test_mostly_padding_is_refused),
        cmocka_unit_test(test_strict_refuses_what_reorders_float_sums_alone),
        cmocka_unit_test(test_axes_that_others_are_sized_by_are_not_split),
        cmocka_unit_test(test_iterations_that_depend_on_each_other_stay_in_order),
        cmocka_unit_test(test_reductions_of_what_steps_leave_stay_in_order),
        cmocka_unit_test(test_an_axis_of_a_reduction_and_a_store_is_neither_split_nor_padded),
        cmocka_unit_test(test_a_range_is_not_given_the_name_of_another),
        cmocka_unit_test(test_work_groups_that_no_device_has_are_refused),
        cmocka_unit_test(test_NOLOCALS_and_work_groups_exclude_each_other),
        cmocka_unit_test(test_sizes_near_the_end_of_the_integers_are_refused),
        cmocka_unit_test(test_a_range_is_split_32_times_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
