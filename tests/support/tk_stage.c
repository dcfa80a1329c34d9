/* SPDX-License-Identifier: MIT */
#include "support/tk_stage.h"

#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/interp.h"
#include "ir/params.h"
#include "ir/scalar.h"
#include "jit/repeat.h"
#include "support/tk_code.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BUFS = 8, MAX_VALS = 8 };

static const struct {
    char letter;
    tolk_status (*run)(tk_pass *p, const tolk_uop **root, tolk_error *err);
} passes[] = {
    {'P', tk_pass_prepare}, {'O', tk_pass_opts},   {'G', tk_pass_group},     {'E', tk_pass_peel},
    {'V', tk_pass_prove},   {'N', tk_pass_narrow}, {'D', tk_pass_decompose}, {'F', tk_pass_flatten},
    {'L', tk_pass_lower},   {'I', tk_pass_items},  {'S', tk_pass_scalar},
};

static const tolk_uop *parse(tolk_graph *g, const char *text) {
    const tolk_uop *root = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) != TOLK_OK)
        fail_msg("line %u, column %u: %s\n%s", err.line, err.column, err.msg, text);
    return root;
}

static void must_verify(const tolk_uop *root, tolk_stage stage, const char *who) {
    tolk_error err = TOLK_ERROR_INIT;
    if (tolk_verify(root, stage, &err) == TOLK_OK)
        return;
    char *text = NULL;
    size_t len;
    (void)tolk_print(root, &text, &len);
    fail_msg("%s: %s\n%s", who, err.msg, text ? text : "");
}

void tk_stage_open(tk_stage *s, const char *text, const char *target) {
    *s = (tk_stage){.target = tk_code_any_target(target ? target : "haswell")};
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    assert_int_equal(tolk_ctx_create(&opts, &s->ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_graph_create(s->ctx, &s->text), TOLK_OK);
    assert_int_equal(tolk_graph_create(s->ctx, &s->pass.g), TOLK_OK);
    s->given = s->root = parse(s->text, text);
    must_verify(s->given, TOLK_STAGE_KERNEL, "the kernel as given");
    s->pass.target = &s->target;
}

void tk_stage_close(tk_stage *s) {
    tk_strbuf_text_free(s->pass.g->al, s->pass.applied);
    tolk_graph_destroy(s->pass.g);
    tolk_graph_destroy(s->text);
    tolk_ctx_destroy(s->ctx);
}

tolk_status tk_stage_try(tk_stage *s, char letter, tolk_error *err) {
    size_t i = 0;
    while (passes[i].letter != letter)
        i++;
    const tolk_uop *before = s->root;
    tolk_status st = passes[i].run(&s->pass, &s->root, err);
    bool program = letter == 'L' || letter == 'I' || letter == 'S';
    if (st == TOLK_OK && !program)
        assert_non_null(s->root = tk_repeat_effects(s->pass.g, s->root));
    if (st == TOLK_OK)
        must_verify(s->root, program ? TOLK_STAGE_PROGRAM : TOLK_STAGE_KERNEL, (char[]){letter, 0});
    else
        assert_ptr_equal(s->root, before);
    return st;
}

void tk_stage_run(tk_stage *s, const char *letters) {
    for (; *letters; letters++) {
        tolk_error err = TOLK_ERROR_INIT;
        if (tk_stage_try(s, *letters, &err) != TOLK_OK)
            fail_msg("pass %c: %s", *letters, err.msg);
    }
}

void tk_stage_is(tk_stage *s, const char *text) {
    const tolk_uop *want = parse(s->pass.g, text);
    if (want == s->root)
        return;
    char *have = NULL, *wanted = NULL;
    size_t len;
    assert_int_equal(tolk_print(s->root, &have, &len), TOLK_OK);
    assert_int_equal(tolk_print(want, &wanted, &len), TOLK_OK);
    fail_msg("the graph is\n%sand should be\n%s", have, wanted);
}

/* ---- values ---- */

typedef struct buffer {
    int64_t slot;
    tolk_dtype dtype;
    size_t n, bytes;
    char *before, *want, *have;
} buffer;

static void fill(buffer *b) {
    bool is_float = tolk_dtype_is_float(b->dtype);
    for (size_t i = 0; i < b->n; i++) {
        int64_t v = (int64_t)((i * 7 + (size_t)b->slot * 5 + 3) % 23);
        if (b->dtype == TOLK_BOOL)
            v &= 1;
        else if (!tolk_dtype_is_unsigned(b->dtype))
            v -= 8;
        uint64_t bits = is_float ? tk_scalar_cast(TOLK_I64, b->dtype, (uint64_t)v)
                                 : tk_dtype_canon(b->dtype, (uint64_t)v);
        memcpy(b->before + i * tolk_dtype_bytes(b->dtype), &bits, tolk_dtype_bytes(b->dtype));
    }
}

/* root may have lost some of the kernel's params. */
static tolk_status interpret(const tk_stage *s, const tolk_uop *root, buffer *all, size_t n_all,
                             const int64_t *slots, const int64_t *all_vals, size_t n_vals,
                             tolk_error *err) {
    void *bufs[MAX_BUFS];
    size_t bytes[MAX_BUFS];
    int64_t vals[MAX_VALS];
    tk_interp_args args = {.bufs = bufs, .bytes = bytes, .vals = vals, .no_fma = !s->target.fma};
    tk_params params;
    assert_int_equal(tk_params_init(&params, root, &tk_alloc_malloc, NULL), TOLK_OK);
    for (size_t i = 0; i < n_all; i++) {
        memcpy(all[i].have, all[i].before, all[i].bytes);
        if (tk_params_find(&params, all[i].slot)) {
            bufs[args.n_bufs] = all[i].have;
            bytes[args.n_bufs++] = all[i].bytes;
        }
    }
    for (size_t i = 0; i < n_vals; i++)
        if (tk_params_find(&params, slots[i]))
            vals[args.n_vals++] = all_vals[i];
    tk_params_fini(&params);
    return tk_interp_run(root, &args, err);
}

static void must_agree(const buffer *b) {
    for (size_t k = 0; k < b->n; k++) {
        uint64_t have = 0, want = 0;
        size_t bytes = tolk_dtype_bytes(b->dtype);
        memcpy(&have, b->have + k * bytes, bytes);
        memcpy(&want, b->want + k * bytes, bytes);
        if (b->dtype != TOLK_BOOL) {
            have = tk_dtype_canon(b->dtype, have);
            want = tk_dtype_canon(b->dtype, want);
        }
        if (!tk_scalar_same(b->dtype, have, want))
            fail_msg("slot %d, element %zu: 0x%llx after the passes, 0x%llx before", (int)b->slot,
                     k, (unsigned long long)have, (unsigned long long)want);
    }
}

void tk_stage_same(tk_stage *s, const int64_t *vals, size_t n_vals) {
    buffer all[MAX_BUFS];
    int64_t slots[MAX_VALS];
    size_t n = 0, n_slots = 0;
    tolk_error err = TOLK_ERROR_INIT;
    for (size_t i = 0; i < tolk_kernel_param_count(s->given); i++) {
        tolk_param_info info;
        int64_t dims[8], elems;
        assert_int_equal(tolk_kernel_param(s->given, i, &info), TOLK_OK);
        if (info.is_scalar) {
            assert_true(n_slots < MAX_VALS);
            slots[n_slots++] = info.slot;
            continue;
        }
        assert_true(n < MAX_BUFS);
        assert_int_equal(tolk_kernel_param_dims(s->given, i, vals, n_vals, dims, &elems, &err),
                         TOLK_OK);
        buffer *b = &all[n++];
        *b = (buffer){.slot = info.slot, .dtype = info.dtype, .n = (size_t)elems};
        b->bytes = b->n * tolk_dtype_bytes(b->dtype);
        char **parts[] = {&b->before, &b->want, &b->have};
        for (int k = 0; k < 3; k++)
            assert_non_null(*parts[k] = calloc(1, b->bytes + 8));
        fill(b);
    }
    assert_int_equal(n_slots, n_vals);
    tolk_status want = interpret(s, s->given, all, n, slots, vals, n_vals, &err);
    assert_true(want == TOLK_OK || want == TOLK_E_RANGE);
    for (size_t i = 0; i < n; i++)
        memcpy(all[i].want, all[i].have, all[i].bytes);
    tolk_status have = interpret(s, s->root, all, n, slots, vals, n_vals, &err);
    if (have != want)
        fail_msg("%s (%s) after the passes, %s before", tolk_status_name(have), err.msg,
                 tolk_status_name(want));
    for (size_t i = 0; i < n; i++) {
        must_agree(&all[i]);
        free(all[i].before);
        free(all[i].want);
        free(all[i].have);
    }
}

/* ---- nodes ---- */

const tolk_uop *tk_stage_find(const tk_stage *s, tk_op op, size_t i) {
    tk_kview v;
    const tolk_uop *found = NULL;
    assert_true(tk_kview_init(&v, s->root));
    for (size_t k = 0; k < v.order.n && !found; k++)
        if (tk_uop_is(v.order.at[k], op) && i-- == 0)
            found = v.order.at[k];
    tk_kview_fini(&v);
    return found;
}

size_t tk_stage_count(const tk_stage *s, tk_op op) {
    size_t n = 0;
    while (tk_stage_find(s, op, n))
        n++;
    return n;
}
