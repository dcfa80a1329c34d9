/* SPDX-License-Identifier: MIT
 *
 * Kernels for a GPU: iterations as threads, lanes as scalars. The program is interpreted work-item
 * by work-item and compared with the kernel.
 */
#include "support/tk_stage.h"

#include "ir/uop.h"

#include <stdio.h>
#include <string.h>

/* y[i] = 2 x[i], i < n elements */
#define SCALE(n)                                                                                   \
    "tolk.uop 1\n"                                                                                 \
    "%0 = const index " n "\n"                                                                     \
    "%1 = param f32 (%0) {slot=0}\n"                                                               \
    "%2 = param f32 (%0) {slot=1}\n"                                                               \
    "%3 = range index (%0) {axis=0, kind=global}\n"                                                \
    "%4 = index f32 (%2, %3)\n"                                                                    \
    "%5 = load f32 (%4)\n"                                                                         \
    "%6 = add f32 (%5, %5)\n"                                                                      \
    "%7 = index f32 (%1, %3)\n"                                                                    \
    "%8 = store void (%7, %6)\n"                                                                   \
    "%9 = end void (%8, %3)\n"                                                                     \
    "%10 = sink void (%9) {name=\"scale\"}\n"

/* Sizes of gidx0 and lidx0. */
static void sizes(const tk_stage *s, int64_t *blocks, int64_t *threads) {
    *blocks = *threads = 0;
    for (size_t i = 0; i < 2; i++) {
        const tolk_uop *u = tk_stage_find(s, TK_OP_SPECIAL, i);
        if (u)
            *(strcmp(tk_uop_str(u, TK_A_SPECIAL_NAME), "gidx0") ? threads : blocks) =
                u->src[0]->attr[0].i;
    }
}

static void grid_is(const char *text, int64_t blocks, int64_t threads, size_t branches) {
    tk_stage s;
    int64_t b, t;
    tk_stage_open(&s, text, "sm_80");
    s.pass.opts = "";
    tk_stage_run(&s, "POGEVNDFLIS");
    sizes(&s, &b, &t);
    assert_int_equal(b, blocks);
    assert_int_equal(t, threads);
    assert_int_equal(tk_stage_count(&s, TK_OP_IF), branches);
    assert_int_equal(s.pass.grid[0]->attr[0].i, blocks);
    assert_int_equal(s.pass.block[0]->attr[0].i, threads);
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

static void test_blocks_are_whole_warps_and_only_a_rest_is_branched_around(void **state) {
    (void)state;
    grid_is(SCALE("1024"), 4, 256, 0);
    grid_is(SCALE("1000"), 4, 256, 1);
    grid_is(SCALE("384"), 3, 128, 0);
    grid_is(SCALE("64"), 1, 64, 0);
    grid_is(SCALE("65"), 1, 96, 1);
    grid_is(SCALE("2"), 1, 32, 1);
    grid_is(SCALE("1"), 1, 1, 0);
}

/* Where the grid is too small a thread takes several iterations, a grid apart. */
static void test_a_grid_that_is_too_small_is_gone_over_several_times(void **state) {
    (void)state;
    static const int64_t most[] = {1, 2, 3, 4, 7};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        tk_stage s;
        int64_t b, t;
        tk_stage_open(&s, SCALE("1000"), "sm_80");
        s.pass.opts = "";
        s.pass.most_blocks = most[i];
        tk_stage_run(&s, "POGEVNDFLIS");
        sizes(&s, &b, &t);
        assert_int_equal(b, most[i] < 4 ? most[i] : 4);
        assert_int_equal(tk_stage_count(&s, TK_OP_RANGE), most[i] < 4);
        tk_stage_same(&s, NULL, 0);
        tk_stage_close(&s);
    }
}

/* Two outputs of different sizes, one of a size that comes with the launch. */
#define TWO                                                                                        \
    "tolk.uop 1\n"                                                                                 \
    "%0 = param i32 {slot=3, name=\"n\", space=alu, min=0, max=600}\n"                             \
    "%1 = cast index (%0)\n"                                                                       \
    "%2 = const index 300\n"                                                                       \
    "%3 = param i32 (%1) {slot=0}\n"                                                               \
    "%4 = param i32 (%2) {slot=1}\n"                                                               \
    "%5 = param i32 (%2) {slot=2}\n"                                                               \
    "%6 = range index (%1) {axis=0, kind=global}\n"                                                \
    "%7 = range index (%2) {axis=1, kind=global}\n"                                                \
    "%8 = const index 300\n"                                                                       \
    "%9 = floormod index (%6, %8)\n"                                                               \
    "%10 = index i32 (%5, %9)\n"                                                                   \
    "%11 = load i32 (%10)\n"                                                                       \
    "%12 = index i32 (%3, %6)\n"                                                                   \
    "%13 = store void (%12, %11)\n"                                                                \
    "%14 = end void (%13, %6)\n"                                                                   \
    "%15 = index i32 (%5, %7)\n"                                                                   \
    "%16 = load i32 (%15)\n"                                                                       \
    "%17 = add i32 (%16, %0)\n"                                                                    \
    "%18 = index i32 (%4, %7)\n"                                                                   \
    "%19 = store void (%18, %17)\n"                                                                \
    "%20 = end void (%19, %7)\n"                                                                   \
    "%21 = sink void (%14, %20) {name=\"two\"}\n"

static void test_each_effect_has_threads_of_its_own(void **state) {
    (void)state;
    static const int64_t n[] = {0, 1, 255, 256, 257, 600};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        for (int64_t most = 0; most < 3; most++) {
            tk_stage s;
            tk_stage_open(&s, TWO, "sm_75");
            s.pass.opts = "";
            s.pass.most_blocks = most;
            tk_stage_run(&s, "POGEVNDFLIS");
            assert_int_equal(tk_stage_count(&s, TK_OP_IF), 2);
            tk_stage_same(&s, &n[i], 1);
            tk_stage_close(&s);
        }
}

/* Effects that must happen in order: one thread. y[i] = x[i] for ordered i, then y[0] = y[1]. */
static void test_effects_in_order_are_done_by_one_thread(void **state) {
    (void)state;
    static const char text[] = "tolk.uop 1\n"
                               "%0 = const index 40\n"
                               "%1 = param i32 (%0) {slot=0}\n"
                               "%2 = param i32 (%0) {slot=1}\n"
                               "%3 = range index (%0) {axis=0}\n"
                               "%4 = index i32 (%2, %3)\n"
                               "%5 = load i32 (%4)\n"
                               "%6 = index i32 (%1, %3)\n"
                               "%7 = store void (%6, %5)\n"
                               "%8 = end void (%7, %3)\n"
                               "%9 = after i32 (%1, %8)\n"
                               "%10 = const index 1\n"
                               "%11 = index i32 (%9, %10)\n"
                               "%12 = load i32 (%11)\n"
                               "%13 = const index 0\n"
                               "%14 = index i32 (%1, %13)\n"
                               "%15 = store void (%14, %12)\n"
                               "%16 = sink void (%8, %15) {name=\"order\"}\n";
    tk_stage s;
    tk_stage_open(&s, text, "sm_80");
    s.pass.opts = "";
    tk_stage_run(&s, "POGEVNDFLIS");
    assert_int_equal(tk_stage_count(&s, TK_OP_SPECIAL), 0);
    assert_int_equal(s.pass.grid[0]->attr[0].i, 1);
    assert_int_equal(s.pass.block[0]->attr[0].i, 1);
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

/* ---- work-items that meet ---- */

/* y[g1, g0, l2, l0] = x of the work-item on the other side of the group: through local memory.
 * Sizes: gidx0, gidx1, lidx0, lidx2. */
static const char *turned(int g0, int g1, int l0, int l2) {
    static char text[4096];
    snprintf(text, sizeof text,
             "tolk.uop 1\n"
             "%%0 = const index %d\n%%1 = const index %d\n%%2 = const index %d\n"
             "%%3 = const index %d\n%%4 = const index %d\n%%5 = const index %d\n"
             "%%6 = param i32 (%%5) {slot=0}\n%%7 = param i32 (%%5) {slot=1}\n"
             "%%8 = buffer i32 (%%4) {slot=0, space=local}\n"
             "%%9 = special index (%%0) {name=\"gidx0\"}\n"
             "%%10 = special index (%%1) {name=\"gidx1\"}\n"
             "%%11 = special index (%%2) {name=\"lidx0\"}\n"
             "%%12 = special index (%%3) {name=\"lidx2\"}\n"
             "%%13 = mul index (%%12, %%2)\n%%14 = add index (%%13, %%11)\n"
             "%%15 = mul index (%%10, %%0)\n%%16 = add index (%%15, %%9)\n"
             "%%17 = mul index (%%16, %%4)\n%%18 = add index (%%17, %%14)\n"
             "%%19 = index i32 (%%7, %%18)\n%%20 = load i32 (%%19)\n"
             "%%21 = index i32 (%%8, %%14)\n%%22 = store void (%%21, %%20)\n"
             "%%23 = barrier void (%%22)\n%%24 = after i32 (%%8, %%23)\n"
             "%%25 = const index -1\n%%26 = add index (%%4, %%25)\n%%27 = sub index (%%26, %%14)\n"
             "%%28 = index i32 (%%24, %%27)\n%%29 = load i32 (%%28)\n"
             "%%30 = index i32 (%%6, %%18)\n%%31 = store void (%%30, %%29)\n"
             "%%32 = sink void (%%31) {name=\"turned\"}\n",
             g0, g1, l0, l2, l0 * l2, g0 * g1 * l0 * l2);
    return text;
}

static void groups_are(const char *text, int64_t gx, int64_t gy, int64_t bx, int64_t bz,
                       size_t specials) {
    tk_stage s;
    tk_stage_open(&s, text, "sm_80");
    tk_stage_run(&s, "POGEVNDFLIS");
    const int64_t want[6] = {gx, gy, 1, bx, 1, bz};
    for (int d = 0; d < 3; d++) {
        assert_int_equal(s.pass.grid[d]->attr[0].i, want[d]);
        assert_int_equal(s.pass.block[d]->attr[0].i, want[3 + d]);
    }
    assert_int_equal(tk_stage_count(&s, TK_OP_SPECIAL), specials);
    assert_int_equal(tk_stage_count(&s, TK_OP_BARRIER), 1);
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

static void test_groups_are_blocks_and_fold_where_a_dimension_is_too_large(void **state) {
    (void)state;
    groups_are(turned(3, 2, 8, 4), 3, 2, 8, 4, 4);
    groups_are(turned(1, 1, 1, 1), 1, 1, 1, 1, 0); /* simplified away */
    /* y has room for 65,535 blocks, z for 64 threads. */
    groups_are(turned(1, 65535, 2, 1), 1, 65535, 2, 1, 2);
    groups_are(turned(1, 65536, 2, 1), 65536, 1, 2, 1, 2);
    groups_are(turned(2, 2, 3, 64), 2, 2, 3, 64, 4);
    groups_are(turned(2, 2, 3, 65), 2, 2, 195, 1, 3);
}

/* The status and message of a kernel that has no code for the chip. */
static void refuses(const char *text, const char *chip, tolk_status want, const char *part) {
    tk_stage s;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = TOLK_OK;
    tk_stage_open(&s, text, chip);
    for (const char *letter = "POGEVNDFLIS"; *letter && st == TOLK_OK; letter++)
        st = tk_stage_try(&s, *letter, &err);
    if (st != want || !strstr(err.msg, part))
        fail_msg("%s: %s, expected %s: %s", tolk_status_name(st), err.msg, tolk_status_name(want),
                 part);
    tk_stage_close(&s);
}

static void test_what_does_not_fit_a_block_is_told(void **state) {
    (void)state;
    refuses(turned(1, 1, 1025, 1), "sm_80", TOLK_E_LIMIT, "1025 work-items");
    refuses(turned(1, 1, 32, 33), "sm_80", TOLK_E_LIMIT, "at most 1024 threads");
    /* 65 KiB of local memory are too much for sm_75, and not for sm_80. */
    static char text[1024];
    snprintf(text, sizeof text,
             "tolk.uop 1\n%%0 = const index 16640\n%%1 = const index 32\n"
             "%%2 = param f32 (%%1) {slot=0}\n%%3 = special index (%%1) {name=\"lidx0\"}\n"
             "%%4 = buffer f32 (%%0) {slot=0, space=local}\n%%5 = index f32 (%%4, %%3)\n"
             "%%6 = const f32 0x1p+0\n%%7 = store void (%%5, %%6)\n%%8 = barrier void (%%7)\n"
             "%%9 = after f32 (%%4, %%8)\n%%10 = index f32 (%%9, %%3)\n%%11 = load f32 (%%10)\n"
             "%%12 = index f32 (%%2, %%3)\n%%13 = store void (%%12, %%11)\n"
             "%%14 = sink void (%%13) {name=\"much\"}\n");
    refuses(text, "sm_75", TOLK_E_LIMIT, "66560 bytes of local memory");
    tk_stage s;
    tk_stage_open(&s, text, "sm_80");
    tk_stage_run(&s, "POGEVNDFLIS");
    assert_int_equal(s.pass.scratch->attr[0].i, 66560);
    tk_stage_close(&s);
}

/* Local ranges without a meeting: a block has as many threads. */
static void test_local_ranges_are_the_threads_of_a_block(void **state) {
    (void)state;
    tk_stage s;
    int64_t b, t;
    tk_stage_open(&s, SCALE("1024"), "sm_80");
    s.pass.opts = "LOCAL:0:64";
    tk_stage_run(&s, "POGEVNDFLIS");
    sizes(&s, &b, &t);
    assert_int_equal(b, 16);
    assert_int_equal(t, 64);
    assert_int_equal(tk_stage_count(&s, TK_OP_RANGE), 0);
    tk_stage_same(&s, NULL, 0);
    tk_stage_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_whole_warps_and_only_a_rest_is_branched_around),
        cmocka_unit_test(test_a_grid_that_is_too_small_is_gone_over_several_times),
        cmocka_unit_test(test_each_effect_has_threads_of_its_own),
        cmocka_unit_test(test_effects_in_order_are_done_by_one_thread),
        cmocka_unit_test(test_groups_are_blocks_and_fold_where_a_dimension_is_too_large),
        cmocka_unit_test(test_what_does_not_fit_a_block_is_told),
        cmocka_unit_test(test_local_ranges_are_the_threads_of_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
