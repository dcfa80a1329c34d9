/* SPDX-License-Identifier: MIT
 *
 * Work-groups: kernels with lidx, local memory, barriers, shuffles and atomic adds, by the
 * interpreter and by code for every CPU there is, against values that are computed here.
 */
#include "support/tk_kernel.h"
#include "support/tk_kernel_jit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 8192 };

static void run(const char *text, const int32_t *x, size_t n_x, const int32_t *want, size_t n_y) {
    tk_kernel_arg args[2] = {{TOLK_I32, n_y, NULL, want, NULL}, {TOLK_I32, n_x, x, NULL, NULL}};
    tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
}

/* y[g, i] = x[g, n - 1 - i] + x[g, i], for groups of n work-items */
static void test_work_items_read_what_others_stored_before_a_barrier(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, 7, 8, 16, 17, 31, 64, 100};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        char text[ROOM];
        int n = sizes[k], total = 3 * n;
        int32_t x[300], y[300];
        for (int i = 0; i < total; i++)
            x[i] = i * i - 50;
        for (int i = 0; i < total; i++)
            y[i] = x[i / n * n + n - 1 - i % n] + x[i];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index 3\n%%1 = const index %d\n%%2 = const index %d\n"
                 "%%3 = param i32 (%%2) {slot=0}\n%%4 = param i32 (%%2) {slot=1}\n"
                 "%%5 = special index (%%0) {name=\"gidx0\"}\n"
                 "%%6 = special index (%%1) {name=\"lidx0\"}\n%%7 = mul index (%%5, %%1)\n"
                 "%%8 = add index (%%7, %%6)\n%%9 = buffer i32 (%%1) {slot=0, space=local}\n"
                 "%%10 = index i32 (%%4, %%8)\n%%11 = load i32 (%%10)\n"
                 "%%12 = index i32 (%%9, %%6)\n%%13 = store void (%%12, %%11)\n"
                 "%%14 = barrier void (%%13)\n%%15 = after i32 (%%9, %%14)\n"
                 "%%16 = const index %d\n%%17 = sub index (%%16, %%6)\n"
                 "%%18 = index i32 (%%15, %%17)\n%%19 = load i32 (%%18)\n"
                 "%%20 = add i32 (%%19, %%11)\n%%21 = index i32 (%%3, %%8)\n"
                 "%%22 = store void (%%21, %%20)\n%%23 = sink void (%%22) {name=\"turned\"}\n",
                 n, total, n - 1);
        run(text, x, (size_t)total, y, (size_t)total);
    }
}

/* A loaded value lives across a barrier, behind which all store to the array that it is from:
 * y[i] = y[i + 1 in the group] + y[i], in place. */
static void test_a_value_that_was_loaded_before_a_barrier_is_kept(void **state) {
    (void)state;
    int32_t x[32], want[32];
    for (int i = 0; i < 32; i++)
        x[i] = 3 * i + 1;
    for (int i = 0; i < 32; i++)
        want[i] = x[i / 16 * 16 + (i + 1) % 16] + x[i];
    tk_kernel_arg arg = {TOLK_I32, 32, x, want, NULL};
    tk_kernel_run("tolk.uop 1\n%0 = const index 2\n%1 = const index 16\n%2 = const index 32\n"
                  "%3 = param i32 (%2) {slot=0}\n%4 = special index (%0) {name=\"gidx0\"}\n"
                  "%5 = special index (%1) {name=\"lidx0\"}\n%6 = mul index (%4, %1)\n"
                  "%7 = add index (%6, %5)\n%8 = const index 1\n%9 = add index (%5, %8)\n"
                  "%10 = floormod index (%9, %1)\n%11 = add index (%6, %10)\n"
                  "%12 = index i32 (%3, %7)\n%13 = load i32 (%12)\n%14 = index i32 (%3, %11)\n"
                  "%15 = load i32 (%14)\n%16 = buffer i32 (%1) {slot=0, space=local}\n"
                  "%17 = index i32 (%16, %5)\n%18 = add i32 (%15, %13)\n"
                  "%19 = store void (%17, %18)\n%20 = barrier void (%19)\n"
                  "%21 = after i32 (%16, %20)\n%22 = index i32 (%21, %5)\n%23 = load i32 (%22)\n"
                  "%24 = sub i32 (%23, %13)\n%25 = add i32 (%24, %13)\n"
                  "%26 = store void (%12, %25)\n%27 = sink void (%26) {name=\"in_place\"}\n",
                  &arg, 1, NULL, 0, TOLK_OK);
}

/* Local memory of 1 MiB, and as much again for values that live across the barrier: more than any
 * stack has room for. y[i] = x[n - 1 - i] */
static void test_local_arrays_larger_than_a_stack(void **state) {
    (void)state;
    enum { N = 512, EACH = 512 };
    int32_t *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    assert_true(x && y);
    for (int i = 0; i < N; i++)
        x[i] = i * 7;
    for (int i = 0; i < N; i++)
        y[i] = x[N - 1 - i];
    run("tolk.uop 1\n%0 = const index 512\n%1 = const index 4194304\n"
        "%2 = param i32 (%0) {slot=0}\n%3 = param i32 (%0) {slot=1}\n"
        "%4 = special index (%0) {name=\"lidx0\"}\n%5 = buffer i32 (%1) {slot=0, space=local}\n"
        "%6 = const index 8192\n%7 = mul index (%4, %6)\n%8 = index i32 (%5, %7)\n"
        "%9 = index i32 (%3, %4)\n%10 = load i32 (%9)\n%11 = store void (%8, %10)\n"
        "%12 = barrier void (%11)\n%13 = after i32 (%5, %12)\n%14 = const index 511\n"
        "%15 = sub index (%14, %4)\n%16 = mul index (%15, %6)\n%17 = index i32 (%13, %16)\n"
        "%18 = load i32 (%17)\n%19 = index i32 (%2, %4)\n%20 = store void (%19, %18)\n"
        "%21 = sink void (%20) {name=\"large\"}\n",
        x, N, y, N);
    free(x);
    free(y);
}

/* y[i] = x[i] + x[i xor lane in the warp of 32], a missing partner is the work-item itself */
static void test_shuffles_give_the_partner_in_the_warp(void **state) {
    (void)state;
    static const int sizes[] = {1, 5, 32, 40, 64, 70}, lanes[] = {0, 1, 2, 16, 31, 32, -1, 77};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t l = 0; l < sizeof lanes / sizeof *lanes; l++) {
            char text[ROOM];
            int32_t x[70], y[70];
            int n = sizes[s];
            for (int i = 0; i < n; i++)
                x[i] = i * 1000 + 7;
            for (int i = 0; i < n; i++) {
                int other = (i % 32) ^ lanes[l], partner = i / 32 * 32 + other;
                y[i] = x[i] + (other >= 0 && other < 32 && partner < n ? x[partner] : x[i]);
            }
            snprintf(text, sizeof text,
                     "tolk.uop 1\n%%0 = const index %d\n%%1 = param i32 (%%0) {slot=0}\n"
                     "%%2 = param i32 (%%0) {slot=1}\n%%3 = special index (%%0) {name=\"lidx0\"}\n"
                     "%%4 = index i32 (%%2, %%3)\n%%5 = load i32 (%%4)\n%%6 = const i32 %d\n"
                     "%%7 = shuffle i32 (%%5, %%6)\n%%8 = add i32 (%%5, %%7)\n"
                     "%%9 = index i32 (%%1, %%3)\n%%10 = store void (%%9, %%8)\n"
                     "%%11 = sink void (%%10) {name=\"shuffled\"}\n",
                     n, lanes[l]);
            run(text, x, (size_t)n, y, (size_t)n);
        }
}

/* A tree: for k = 0 .. 5 the first 32 >> k of 64 add what stands 32 >> k behind them. Half of the
 * group is idle at first, and all but one at the end; all reach each barrier. y[g] = sum of x[g, :]
 */
static void test_a_tree_sum_in_local_memory_with_less_and_less_of_the_group(void **state) {
    (void)state;
    int32_t x[256], y[4] = {0};
    for (int i = 0; i < 256; i++) {
        x[i] = i * i % 97;
        y[i / 64] += x[i];
    }
    run("tolk.uop 1\n%0 = const index 4\n%1 = const index 64\n%2 = const index 256\n"
        "%3 = param i32 (%0) {slot=0}\n%4 = param i32 (%2) {slot=1}\n"
        "%5 = special index (%0) {name=\"gidx0\"}\n%6 = special index (%1) {name=\"lidx0\"}\n"
        "%7 = mul index (%5, %1)\n%8 = add index (%7, %6)\n%9 = index i32 (%4, %8)\n"
        "%10 = load i32 (%9)\n%11 = const index 128\n%12 = buffer i32 (%11) {slot=0, space=local}\n"
        "%13 = index i32 (%12, %6)\n%14 = store void (%13, %10)\n%15 = barrier void (%14)\n"
        "%16 = const index 6\n%17 = range index (%16) {axis=0}\n%18 = const index 32\n"
        "%19 = shr index (%18, %17)\n%20 = cmplt bool (%6, %19)\n%21 = add index (%6, %19)\n"
        "%22 = after i32 (%12, %15, %17)\n%23 = index i32 (%22, %6)\n%24 = const i32 0\n"
        "%25 = load i32 (%23, %24, %20)\n%26 = index i32 (%22, %21)\n"
        "%27 = load i32 (%26, %24, %20)\n%28 = add i32 (%25, %27)\n"
        "%29 = store void (%13, %28, %20)\n%30 = barrier void (%29)\n%31 = end void (%30, %17)\n"
        "%32 = after i32 (%12, %15, %31)\n%33 = const index 0\n%34 = index i32 (%32, %33)\n"
        "%35 = load i32 (%34)\n%36 = index i32 (%3, %5)\n%37 = cmpeq bool (%6, %33)\n"
        "%38 = store void (%36, %35, %37)\n%39 = sink void (%38) {name=\"tree\"}\n",
        x, 256, y, 4);
}

/* h[x mod 8] += 1 for each work-item of each group; each also adds 2 to one element, whatever the
 * place depends on. */
static void test_atomic_adds_count_each_work_item_once(void **state) {
    (void)state;
    static const char *const dtypes[] = {"i32", "u8", "i16", "i64", "f32", "f64", "u64"};
    static const tolk_dtype codes[] = {TOLK_I32, TOLK_U8,  TOLK_I16, TOLK_I64,
                                       TOLK_F32, TOLK_F64, TOLK_U64};
    enum { N = 90 };
    int32_t x[N], count[9] = {0};
    for (int i = 0; i < N; i++) {
        x[i] = i * i + i / 7;
        count[x[i] % 8]++;
        count[8] += 2;
    }
    for (size_t d = 0; d < sizeof codes / sizeof *codes; d++) {
        unsigned char before[9 * 8], want[9 * 8];
        size_t bytes = tolk_dtype_bytes(codes[d]);
        for (int i = 0; i < 9; i++)
            for (int k = 0; k < 2; k++) {
                int v = k ? count[i] + i : i;
                unsigned char *at = (k ? want : before) + (size_t)i * bytes;
                if (codes[d] == TOLK_F32)
                    memcpy(at, &(float){(float)v}, 4);
                else if (codes[d] == TOLK_F64)
                    memcpy(at, &(double){v}, 8);
                else
                    memcpy(at, &(int64_t){v}, bytes);
            }
        char text[ROOM];
        snprintf(text, sizeof text,
                 "tolk.uop 1\n%%0 = const index 9\n%%1 = const index 6\n%%2 = const index 15\n"
                 "%%3 = const index 90\n%%4 = param %s (%%0) {slot=0}\n"
                 "%%5 = param i32 (%%3) {slot=1}\n%%6 = special index (%%1) {name=\"gidx0\"}\n"
                 "%%7 = special index (%%2) {name=\"lidx0\"}\n%%8 = mul index (%%6, %%2)\n"
                 "%%9 = add index (%%8, %%7)\n%%10 = index i32 (%%5, %%9)\n%%11 = load i32 (%%10)\n"
                 "%%12 = const i32 7\n%%13 = and i32 (%%11, %%12)\n%%14 = cast index (%%13)\n"
                 "%%15 = index %s (%%4, %%14)\n%%16 = const %s 1\n"
                 "%%17 = atomic_add void (%%15, %%16)\n%%18 = const index 8\n"
                 "%%19 = index %s (%%4, %%18)\n%%20 = const %s 2\n"
                 "%%21 = atomic_add void (%%19, %%20)\n"
                 "%%22 = sink void (%%17, %%21) {name=\"counted\"}\n",
                 dtypes[d], dtypes[d], dtypes[d], dtypes[d], dtypes[d]);
        tk_kernel_arg args[2] = {{codes[d], 9, before, want, NULL}, {TOLK_I32, N, x, NULL, NULL}};
        tk_kernel_run(text, args, 2, NULL, 0, TOLK_OK);
    }
}

/* The numbers of groups and of work-items in one are arguments. */
static void test_sizes_from_the_reserved_variables(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {3, 5}, {4, 32}, {2, 17}};
    for (size_t k = 0; k < 4; k++) {
        int64_t groups = sizes[k][0], n = sizes[k][1];
        int32_t y[128];
        for (int64_t i = 0; i < groups * n; i++)
            y[i] = (int32_t)(i / n * 100 + (i % n + 1) % n);
        tk_kernel_arg arg = {TOLK_I32, (size_t)(groups * n), NULL, y, NULL};
        tk_kernel_run(
            "tolk.uop 1\n%0 = param i32 {slot=1, name=\"_grid_x\", space=alu, min=1, max=4}\n"
            "%1 = param i32 {slot=2, name=\"_block_x\", space=alu, min=1, max=32}\n"
            "%2 = cast index (%0)\n%3 = cast index (%1)\n%4 = mul index (%2, %3)\n"
            "%5 = param i32 (%4) {slot=0}\n%6 = special index (%2) {name=\"gidx0\"}\n"
            "%7 = special index (%3) {name=\"lidx0\"}\n"
            "%8 = buffer i32 (%3) {slot=0, space=local}\n%9 = index i32 (%8, %7)\n"
            "%10 = cast i32 (%7)\n%11 = store void (%9, %10)\n%12 = barrier void (%11)\n"
            "%13 = const index 1\n%14 = add index (%7, %13)\n%15 = floormod index (%14, %3)\n"
            "%16 = after i32 (%8, %12)\n%17 = index i32 (%16, %15)\n%18 = load i32 (%17)\n"
            "%19 = const i32 100\n%20 = cast i32 (%6)\n%21 = mul i32 (%20, %19)\n"
            "%22 = add i32 (%21, %18)\n%23 = mul index (%6, %3)\n%24 = add index (%23, %7)\n"
            "%25 = index i32 (%5, %24)\n%26 = store void (%25, %22)\n"
            "%27 = sink void (%26) {name=\"sized\"}\n",
            &arg, 1, sizes[k], 2, TOLK_OK);
    }
}

/* A store out of local memory is dropped, a load gives 0, and the launch says so. */
static void test_accesses_out_of_local_memory_are_reported(void **state) {
    (void)state;
    int32_t y[8] = {0, 0, 1, 2, 3, 4, 5, 0};
    tk_kernel_arg arg = {TOLK_I32, 8, NULL, y, NULL};
    tk_kernel_run("tolk.uop 1\n%0 = const index 8\n%1 = const index 7\n"
                  "%2 = param i32 (%0) {slot=0}\n%3 = special index (%0) {name=\"lidx0\"}\n"
                  "%4 = buffer i32 (%1) {slot=0, space=local}\n%5 = index i32 (%4, %3)\n"
                  "%6 = const i32 1\n%7 = cast i32 (%3)\n%8 = sub i32 (%7, %6)\n"
                  "%9 = const i32 0\n%10 = max i32 (%8, %9)\n%11 = store void (%5, %10)\n"
                  "%12 = barrier void (%11)\n%13 = after i32 (%4, %12)\n"
                  "%14 = index i32 (%13, %3)\n%15 = load i32 (%14)\n%16 = index i32 (%2, %3)\n"
                  "%17 = store void (%16, %15)\n%18 = sink void (%17) {name=\"out\"}\n",
                  &arg, 1, NULL, 0, TOLK_E_RANGE);
}

/* A register that one region stores to in a branch alone is what the region before left elsewhere:
 * y[i] = i odd ? 5 : i. A program of a work-item, with a barrier between two uses of the register.
 */
static void test_a_register_that_only_some_work_items_store_to_is_kept(void **state) {
    (void)state;
    int32_t y[9];
    for (int i = 0; i < 9; i++)
        y[i] = i % 2 ? 5 : i;
    tk_kernel_arg arg = {TOLK_I32, 9, NULL, y, NULL};
    tk_kernel_run("tolk.uop 1\n%0 = const index 9\n%1 = const index 0\n%2 = const index 1\n"
                  "%3 = param i32 (%0) {slot=0}\n%4 = special index (%0) {name=\"lidx0\"}\n"
                  "%5 = buffer i32 (%2) {slot=0, space=reg}\n%6 = index i32 (%5, %1)\n"
                  "%7 = cast i32 (%4)\n%8 = store void (%6, %7)\n%9 = barrier void (%8)\n"
                  "%10 = and index (%4, %2)\n%11 = cmpeq bool (%10, %2)\n"
                  "%12 = if void (%11, %9)\n%13 = const i32 5\n%14 = store void (%6, %13)\n"
                  "%15 = endif void (%12)\n%16 = after i32 (%5, %15)\n"
                  "%17 = index i32 (%16, %1)\n%18 = load i32 (%17)\n%19 = index i32 (%3, %4)\n"
                  "%20 = store void (%19, %18)\n"
                  "%21 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
                  "%14, %15, %16, %17, %18, %19, %20) {name=\"some\"}\n",
                  &arg, 1, NULL, 0, TOLK_OK);
}

/* A loop's size may be any index, also a lane of a vector. */
static void test_a_loop_as_long_as_a_lane_says(void **state) {
    (void)state;
    static const int32_t want[3] = {0, 1, 2};
    tk_kernel_arg arg = {TOLK_I32, 3, NULL, want, NULL};
    tk_kernel_run("tolk.uop 1\n%0 = const index 3\n%1 = param i32 (%0) {slot=0}\n"
                  "%2 = const index 1\n%3 = stack indexx2 (%2, %0)\n%4 = index index (%3, %2)\n"
                  "%5 = range index (%4) {axis=0}\n%6 = index i32 (%1, %5)\n%7 = cast i32 (%5)\n"
                  "%8 = store void (%6, %7)\n%9 = end void (%5)\n"
                  "%10 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9) {name=\"lane\"}\n",
                  &arg, 1, NULL, 0, TOLK_OK);
}

/* inbounds=true in a text proves nothing: what is outside is dropped and reported. */
static void test_a_claim_of_bounds_in_a_text_is_checked(void **state) {
    (void)state;
    static const int32_t before[8] = {1, 2, 3, 4, 5, 6, 7, 8}, want[8] = {1, 2, 3, 4, 5, 1, 2, 3};
    tk_kernel_arg arg = {TOLK_I32, 8, before, want, NULL};
    tk_kernel_run("tolk.uop 1\n%0 = const index 8\n%1 = const index 0\n%2 = const index 5\n"
                  "%3 = param i32 (%0) {slot=0}\n%4 = index i32 (%3, %1)\n"
                  "%5 = load i32x4 (%4) {inbounds=true}\n%6 = index i32 (%3, %2)\n"
                  "%7 = store void (%6, %5) {inbounds=true}\n"
                  "%8 = linear void (%0, %1, %2, %3, %4, %5, %6, %7) {name=\"claim\"}\n",
                  &arg, 1, NULL, 0, TOLK_E_RANGE);
}

int main(void) {
    tk_kernel_add_compilers();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_items_read_what_others_stored_before_a_barrier),
        cmocka_unit_test(test_a_value_that_was_loaded_before_a_barrier_is_kept),
        cmocka_unit_test(test_local_arrays_larger_than_a_stack),
        cmocka_unit_test(test_shuffles_give_the_partner_in_the_warp),
        cmocka_unit_test(test_a_tree_sum_in_local_memory_with_less_and_less_of_the_group),
        cmocka_unit_test(test_atomic_adds_count_each_work_item_once),
        cmocka_unit_test(test_sizes_from_the_reserved_variables),
        cmocka_unit_test(test_accesses_out_of_local_memory_are_reported),
        cmocka_unit_test(test_a_register_that_only_some_work_items_store_to_is_kept),
        cmocka_unit_test(test_a_loop_as_long_as_a_lane_says),
        cmocka_unit_test(test_a_claim_of_bounds_in_a_text_is_checked),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tk_kernel_close_compilers();
    return failed;
}
