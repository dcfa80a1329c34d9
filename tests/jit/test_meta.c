/* SPDX-License-Identifier: MIT
 *
 * What a launch must know about a compiled kernel: written, read back, and refused where the bytes
 * are not what was written.
 */
#include "support/tk_stage.h"

#include "base/strbuf.h"
#include "jit/meta.h"

#include <stdlib.h>
#include <string.h>

static const char object[] = "\x7f"
                             "ELF and so on, 25 bytes";

/* A kernel's metadata with `object`, in memory of malloc. */
typedef struct written {
    void *bytes;
    size_t len;
} written;

static written write_meta(const char *text, const char *opts) {
    tk_stage s;
    tk_pipeline p;
    tolk_error err = TOLK_ERROR_INIT;
    tk_stage_open(&s, text, NULL);
    if (tk_pipeline_run(s.ctx, s.given, opts, &s.target, TOLK_BOUNDS_CHECK, false,
                        TK_PIPELINE_PROGRAM, &p, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    char *out = NULL;
    written w = {NULL, 0};
    assert_int_equal(tk_meta_write(&p, p.pass.given, object, sizeof object, 0, &out, &w.len, &err),
                     TOLK_OK);
    w.bytes = malloc(w.len);
    assert_non_null(w.bytes);
    memcpy(w.bytes, out, w.len);
    tk_strbuf_text_free(p.pass.g->al, out);
    tk_pipeline_fini(&p);
    tk_stage_close(&s);
    return w;
}

/* y = a x + y over n, slots out of order in the text */
static const char axpy[] =
    "tolk.uop 1\n%0 = param i32 {slot=7, name=\"n\", space=alu, min=1, max=5000}\n"
    "%1 = cast index (%0)\n%2 = param f32 (%1) {slot=2, name=\"y\"}\n%3 = param f32 (%1) {slot=5}\n"
    "%4 = param f32 {slot=3, name=\"a\", space=alu}\n%5 = range index (%1) {axis=0, kind=global}\n"
    "%6 = index f32 (%2, %5)\n%7 = index f32 (%3, %5)\n%8 = load f32 (%7)\n%9 = load f32 (%6)\n"
    "%10 = mul f32 (%4, %8)\n%11 = add f32 (%10, %9)\n%12 = store void (%6, %11)\n"
    "%13 = end void (%12, %5)\n%14 = sink void (%13) {name=\"axpy\"}\n";

static void check_param(const tk_meta_view *m, int i, int64_t slot, tolk_dtype dtype,
                        const char *name, bool is_scalar, bool loaded, bool stored) {
    const tk_meta_param *p = &m->params[i];
    assert_int_equal(p->slot, slot);
    assert_int_equal(p->dtype, dtype);
    assert_string_equal(m->strings + p->name, name);
    assert_int_equal(p->name != 0, *name != 0);
    assert_int_equal(p->is_scalar, is_scalar);
    assert_int_equal(p->loaded, loaded);
    assert_int_equal(p->stored, stored);
}

static void test_all_of_it_comes_back(void **state) {
    (void)state;
    written w = write_meta(axpy, "");
    tk_meta_view m;
    assert_true(tk_meta_open(w.bytes, w.len, &m));
    assert_int_equal(m.head->total_bytes, w.len);
    assert_int_equal(m.head->n_bufs, 2);
    assert_int_equal(m.head->n_vals, 2);
    assert_int_equal(m.head->lanes, 1);
    assert_int_equal(m.head->pieces, 0);
    assert_int_equal(m.steps[m.head->scratch_bytes].value, 0);
    assert_string_equal(m.strings + m.head->name, "axpy");
    assert_string_equal(m.strings + m.head->opts, "");
    assert_int_equal(m.head->object_bytes, sizeof object);
    assert_memory_equal(m.object, object, sizeof object);
    check_param(&m, 0, 2, TOLK_F32, "y", false, true, true);
    check_param(&m, 1, 3, TOLK_F32, "a", true, true, false);
    check_param(&m, 2, 5, TOLK_F32, "", false, true, false);
    check_param(&m, 3, 7, TOLK_I32, "n", true, true, false);
    assert_int_equal(m.params[3].min, 1);
    assert_int_equal(m.params[3].max, 5000);
    /* a and n, in ascending slot order; work of one launch with n = 100 */
    const int64_t vals[] = {0x40000000, 100};
    int64_t values[TK_EXPR_MAX_STEPS];
    tk_expr_eval(m.steps, m.head->n_steps, vals, values, NULL);
    assert_int_equal(values[m.params[0].size], 100);
    assert_int_equal(values[m.params[2].size], 100);
    assert_int_equal(values[m.head->span], 100);
    assert_int_equal(values[m.head->flops], 200);
    assert_int_equal(values[m.head->loaded_bytes], 800);
    assert_int_equal(values[m.head->stored_bytes], 400);
    free(w.bytes);
}

static void test_buffers_that_may_be_one_are_paired(void **state) {
    (void)state;
    /* y[i] = x[i] + 1: bufs 0 and 1, of the slots 4 and 9 */
    written w = write_meta(
        "tolk.uop 1\n%0 = const index 640\n%1 = param i32 (%0) {slot=9}\n"
        "%2 = param i32 (%0) {slot=4}\n%3 = range index (%0) {axis=0, kind=global}\n"
        "%4 = index i32 (%1, %3)\n%5 = load i32 (%4)\n%6 = const i32 1\n%7 = add i32 (%5, %6)\n"
        "%8 = index i32 (%2, %3)\n%9 = store void (%8, %7)\n%10 = end void (%9, %3)\n"
        "%11 = sink void (%10) {name=\"next\"}\n",
        NULL);
    tk_meta_view m;
    assert_true(tk_meta_open(w.bytes, w.len, &m));
    assert_int_equal(m.head->n_pairs, 1);
    assert_int_equal(m.pairs[0].a + m.pairs[0].b, 1);
    assert_int_equal(m.head->n_vals, 0);
    assert_true(tk_expr_is_constant(m.steps, m.head->n_steps));
    assert_string_equal(m.strings + m.head->opts, "LANE:0:8 UPCAST:0:4");
    assert_int_equal(m.head->lanes, 8);
    free(w.bytes);
}

static void test_work_counts_a_buffer_once_and_a_fold_per_element(void **state) {
    (void)state;
    /* y[i] = sum over k of x[k] w[i, k], 10 x 20, in f64 */
    written w = write_meta(
        "tolk.uop 1\n%0 = const index 10\n%1 = const index 20\n%2 = stack index (%0, %1)\n"
        "%3 = param f64 (%0) {slot=0}\n%4 = param f64 (%1) {slot=1}\n%5 = param f64 (%2) {slot=2}\n"
        "%6 = range index (%0) {axis=0, kind=global}\n"
        "%7 = range index (%1) {axis=1, kind=reduce}\n%8 = index f64 (%4, %7)\n"
        "%9 = load f64 (%8)\n%10 = index f64 (%5, %6, %7)\n%11 = load f64 (%10)\n"
        "%12 = mul f64 (%9, %11)\n%13 = reduce f64 (%12, %7) {op=add}\n%14 = index f64 (%3, %6)\n"
        "%15 = store void (%14, %13)\n%16 = end void (%15, %6)\n"
        "%17 = sink void (%16) {name=\"product\"}\n",
        "LANE:1:4");
    tk_meta_view m;
    assert_true(tk_meta_open(w.bytes, w.len, &m));
    int64_t values[TK_EXPR_MAX_STEPS];
    tk_expr_eval(m.steps, m.head->n_steps, NULL, values, NULL);
    assert_int_equal(values[m.head->flops], 2 * 10 * 20);
    assert_int_equal(values[m.head->loaded_bytes], 8 * (20 + 10 * 20));
    assert_int_equal(values[m.head->stored_bytes], 8 * 10);
    free(w.bytes);
}

static void test_pieces_and_scratch_of_a_long_reduction(void **state) {
    (void)state;
    written w = write_meta(
        "tolk.uop 1\n%0 = const index 4000\n%1 = const index 1\n%2 = const index 0\n"
        "%3 = param i64 (%1) {slot=0}\n%4 = param i64 (%0) {slot=1}\n"
        "%5 = range index (%0) {axis=0, kind=reduce}\n%6 = index i64 (%4, %5)\n%7 = load i64 (%6)\n"
        "%8 = reduce i64 (%7, %5) {op=add}\n%9 = index i64 (%3, %2)\n%10 = store void (%9, %8)\n"
        "%11 = sink void (%10) {name=\"sum\"}\n",
        "GROUPTOP:0:16");
    tk_meta_view m;
    assert_true(tk_meta_open(w.bytes, w.len, &m));
    assert_int_equal(m.head->pieces, 16);
    assert_true(m.steps[m.head->scratch_bytes].value >= 16 * 8);
    assert_int_equal(m.head->scratch_per_thread, 0);
    int64_t values[TK_EXPR_MAX_STEPS];
    tk_expr_eval(m.steps, m.head->n_steps, NULL, values, NULL);
    assert_int_equal(values[m.head->span], 17); /* the pieces, and what folds them */
    free(w.bytes);
}

/* ---- damage ---- */

static void test_other_lengths_and_alignments_are_refused(void **state) {
    (void)state;
    written w = write_meta(axpy, NULL);
    tk_meta_view m;
    char *room = malloc(w.len + 16);
    assert_non_null(room);
    for (size_t len = 0; len <= w.len + 8; len++) {
        /* in a block of just that size, so that a sanitizer sees a byte too many */
        char *block = malloc(len ? len : 1);
        assert_non_null(block);
        memset(block, 0, len);
        memcpy(block, w.bytes, len < w.len ? len : w.len);
        assert_int_equal(tk_meta_open(block, len, &m), len == w.len);
        free(block);
    }
    memcpy(room + 1, w.bytes, w.len);
    assert_false(tk_meta_open(room + 1, w.len, &m));
    free(room);
    free(w.bytes);
}

static void test_another_version_or_magic_is_refused(void **state) {
    (void)state;
    written w = write_meta(axpy, NULL);
    tk_meta_view m;
    tk_meta *h = w.bytes;
    uint32_t *const fields[] = {&h->magic, &h->version};
    for (int i = 0; i < 2; i++)
        for (int bit = 0; bit < 32; bit++) {
            *fields[i] ^= (uint32_t)1 << bit;
            assert_false(tk_meta_open(w.bytes, w.len, &m));
            *fields[i] ^= (uint32_t)1 << bit;
        }
    assert_true(tk_meta_open(w.bytes, w.len, &m));
    free(w.bytes);
}

/* Use all that a launch uses; a sanitizer sees what lies outside. */
static size_t use(const tk_meta_view *m) {
    const tk_meta *h = m->head;
    static const int64_t vals[4096];
    int64_t values[TK_EXPR_MAX_STEPS];
    bool wraps[TK_EXPR_MAX_STEPS];
    size_t sum = strlen(m->strings + h->name) + strlen(m->strings + h->opts);
    assert_true(h->n_vals <= 4096);
    tk_expr_eval(m->steps, h->n_steps, vals, values, wraps);
    for (size_t i = 0; i < (size_t)h->n_bufs + h->n_vals; i++) {
        const tk_meta_param *p = &m->params[i];
        sum += strlen(m->strings + p->name) + tolk_dtype_bytes(p->dtype);
        sum += p->is_scalar ? 0 : (size_t)values[p->size] + wraps[p->size];
    }
    for (size_t i = 0; i < h->n_pairs; i++)
        assert_true(m->pairs[i].a < h->n_bufs && m->pairs[i].b < h->n_bufs);
    sum += (size_t)values[h->span] + (size_t)values[h->flops] + (size_t)values[h->loaded_bytes] +
           (size_t)values[h->stored_bytes];
    for (size_t i = 0; i < h->object_bytes; i++)
        sum += ((const unsigned char *)m->object)[i];
    return sum;
}

/* One byte, any value: refused, or still whole. */
static void test_a_damaged_byte_is_refused_or_does_no_harm(void **state) {
    (void)state;
    written w = write_meta(axpy, "LANE:0:8 UPCAST:0:2");
    unsigned char *at = w.bytes;
    size_t refused = 0, used = 0;
    for (size_t i = 0; i < w.len; i++)
        for (int v = 1; v < 256; v++) {
            tk_meta_view m;
            at[i] ^= (unsigned char)v;
            if (tk_meta_open(w.bytes, w.len, &m))
                used += use(&m);
            else
                refused++;
            at[i] ^= (unsigned char)v;
        }
    assert_true(used > 0 && refused > sizeof(tk_meta) / 2 * 255);
    free(w.bytes);
}

static void test_many_damaged_bytes_do_no_harm(void **state) {
    (void)state;
    written w = write_meta(axpy, NULL);
    unsigned char *at = malloc(w.len);
    assert_non_null(at);
    uint64_t rng = tk_test_seed();
    size_t opened = 0, used = 0;
    for (uint64_t i = tk_test_count(400000); i > 0; i--) {
        memcpy(at, w.bytes, w.len);
        /* behind the header, whose damage is nearly always seen */
        for (uint64_t n = 1 + tk_test_rand(&rng) % 6; n > 0; n--)
            at[sizeof(tk_meta) + tk_test_rand(&rng) % (w.len - sizeof(tk_meta))] =
                (unsigned char)tk_test_rand(&rng);
        tk_meta_view m;
        if (tk_meta_open(at, w.len, &m)) {
            used += use(&m);
            opened++;
        }
    }
    assert_true(opened > 0 && used > 0);
    free(at);
    free(w.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it_comes_back),
        cmocka_unit_test(test_buffers_that_may_be_one_are_paired),
        cmocka_unit_test(test_work_counts_a_buffer_once_and_a_fold_per_element),
        cmocka_unit_test(test_pieces_and_scratch_of_a_long_reduction),
        cmocka_unit_test(test_other_lengths_and_alignments_are_refused),
        cmocka_unit_test(test_another_version_or_magic_is_refused),
        cmocka_unit_test(test_a_damaged_byte_is_refused_or_does_no_harm),
        cmocka_unit_test(test_many_damaged_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
