/* SPDX-License-Identifier: MIT
 *
 * The loader of saved programs on arbitrary bytes, as they are and with a right checksum, and on a
 * program of this build with changes at places that the bytes name: no crash, an error is one line,
 * and of what is accepted every part can be used.
 */
#include "base/ctx.h"
#include "jit/meta.h"
#include "jit/saved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "fuzz_saved: %s\n", what);
        abort(); /* how a fuzzer is told of a finding */
    }
}

/* Read all that a launch reads of a binary that may be anything. */
static void use_binary(const void *binary, size_t bytes) {
    void *copy = malloc(bytes ? bytes : 1); /* aligned, and a read past the end is seen */
    check(copy != NULL, "no memory");
    if (bytes)
        memcpy(copy, binary, bytes);
    tk_meta_view m;
    if (tk_meta_open(copy, bytes, &m)) {
        const tk_meta *h = m.head;
        size_t n = strlen(m.strings + h->name) + strlen(m.strings + h->opts);
        for (size_t i = 0; i < (size_t)h->n_bufs + h->n_vals; i++)
            if (m.params[i].name)
                n += strlen(m.strings + m.params[i].name);
        check(n < 2 * bytes * ((size_t)h->n_bufs + h->n_vals + 2), "names");
        int64_t *vals = calloc(h->n_vals + 1, sizeof *vals);
        int64_t values[TK_EXPR_MAX_STEPS];
        bool wraps[TK_EXPR_MAX_STEPS];
        check(vals != NULL, "no memory");
        static const int64_t fills[] = {0, 1, -1, INT64_MAX, INT64_MIN};
        for (size_t f = 0; f < sizeof fills / sizeof *fills; f++) {
            for (uint32_t i = 0; i < h->n_vals; i++)
                vals[i] = fills[f];
            tk_expr_eval(m.steps, h->n_steps, vals, values, wraps);
        }
        free(vals);
        uint64_t sum = 0;
        for (uint64_t i = 0; i < h->object_bytes; i++)
            sum += ((const uint8_t *)m.object)[i];
        check(sum <= 255 * h->object_bytes, "object");
    }
    free(copy);
}

static void open_saved(const uint8_t *bytes, size_t size) {
    tk_host host = {.arch = TK_ARCH_X86_64, .features = UINT64_MAX};
    tk_saved s;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tk_saved_open(&host, bytes, size, &s, &err);
    if (st == TOLK_OK) {
        check((const uint8_t *)s.binary >= bytes && s.binary_bytes <= size &&
                  (const uint8_t *)s.binary + s.binary_bytes <= bytes + size,
              "binary outside of the bytes");
        use_binary(s.binary, s.binary_bytes);
    } else {
        check(st == TOLK_E_PARSE || st == TOLK_E_UNSUPPORTED, "status");
        check(err.msg[0] && !strchr(err.msg, '\n'), "an error is one line of text");
    }
}

/* A program that this build saved, with scalars, expressions and pairs in it; kept. */
static const char *good_program(size_t *len) {
    static char *good;
    static size_t good_len;
    static const char text[] =
        "tolk.uop 1\n%0 = param i32 {slot=7, name=\"n\", space=alu, min=1, max=5000}\n"
        "%1 = cast index (%0)\n%2 = param f32 (%1) {slot=2, name=\"y\"}\n"
        "%3 = param f32 (%1) {slot=5}\n%4 = param f32 {slot=3, name=\"a\", space=alu}\n"
        "%5 = range index (%1) {axis=0, kind=global}\n%6 = index f32 (%2, %5)\n"
        "%7 = index f32 (%3, %5)\n%8 = load f32 (%7)\n%9 = load f32 (%6)\n"
        "%10 = mul f32 (%4, %8)\n%11 = add f32 (%10, %9)\n%12 = store void (%6, %11)\n"
        "%13 = end void (%12, %5)\n%14 = sink void (%13) {name=\"axpy\"}\n";
    if (!good) {
        tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
        opts.no_environment = 1;
        tolk_ctx *ctx = NULL;
        tolk_graph *g = NULL;
        tolk_device *cpu = NULL;
        const tolk_uop *root = NULL;
        tolk_program *p = NULL;
        char *bytes = NULL;
        check(!tolk_ctx_create(&opts, &ctx, NULL) && !tolk_graph_create(ctx, &g) &&
                  !tolk_device_open(ctx, "CPU", &cpu, NULL) &&
                  !tolk_parse(g, text, sizeof text - 1, 0, &root, NULL) &&
                  !tolk_compile(cpu, root, NULL, &p, NULL) &&
                  !tolk_program_save(p, &bytes, &good_len, NULL),
              "no program");
        good = malloc(good_len);
        check(good != NULL, "no memory");
        memcpy(good, bytes, good_len);
        tolk_free_text(ctx, bytes);
        tolk_program_unref(p);
        tolk_graph_destroy(g);
        tolk_ctx_destroy(ctx);
    }
    *len = good_len;
    return good;
}

/* data: changes of three bytes each, place (16 bits) and value. */
static void change_good(const uint8_t *data, size_t size) {
    size_t len;
    const char *good = good_program(&len);
    uint8_t *copy = malloc(len);
    check(copy != NULL, "no memory");
    memcpy(copy, good, len);
    for (size_t i = 0; i + 3 <= size; i += 3)
        copy[(size_t)(data[i] | data[i + 1] << 8) % len] = data[i + 2];
    tk_saved_seal(copy, len);
    open_saved(copy, len);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    change_good(data, size);
    uint8_t *copy = malloc(size ? size : 1);
    check(copy != NULL, "no memory");
    if (size)
        memcpy(copy, data, size);
    open_saved(copy, size);
    tk_saved_seal(copy, size);
    open_saved(copy, size);
    use_binary(data, size);
    free(copy);
    return 0;
}
