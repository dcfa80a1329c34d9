/* SPDX-License-Identifier: MIT
 *
 * Text to value and back for every dtype. Both go through the library: a number is read by putting
 * it as a constant into a one-element kernel that the interpreter runs, and f16, bf16 and fp8 are
 * shown through a kernel that casts them to f32. So the tool rounds exactly as kernels do.
 */
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int tk_number_is(const char *text) {
    if (!strcmp(text, "true") || !strcmp(text, "false"))
        return 1;
    if (!text[0] || text[0] == ' ' || (text[0] >= '\t' && text[0] <= '\r'))
        return 0;
    char *end;
    strtod(text, &end); /* the tool never leaves the C locale */
    return !*end;
}

/* Run a kernel given as text on buffers. */
static int run_text(tolk_ctx *ctx, const char *text, void **bufs, const size_t *bytes, size_t n) {
    tolk_graph *graph;
    const tolk_uop *root;
    if (tolk_graph_create(ctx, &graph))
        return 0;
    int ok = !tolk_parse(graph, text, strlen(text), 0, &root, NULL) &&
             !tolk_interpret(root, bufs, bytes, n, NULL, 0, NULL);
    tolk_graph_destroy(graph);
    return ok;
}

/* A number that no constant of the dtype holds: too large, or of another kind? */
static tk_number_result why_not(tolk_dtype dtype, const char *text) {
    int whole = text[text[0] == '-'] &&
                strspn(text + (text[0] == '-'), "0123456789") == strlen(text + (text[0] == '-'));
    int hex = strstr(text, "0x") == text + (text[0] == '-');
    if (tolk_dtype_is_float(dtype)) /* a word as "infinity" is no literal, whatever strtod says */
        return tk_number_is(text) && strchr("0123456789.", text[text[0] == '-']) ? TK_NUMBER_RANGE
                                                                                 : TK_NUMBER_SYNTAX;
    return dtype != TOLK_BOOL && (whole || (hex && tk_number_is(text) && !strpbrk(text, ".pP")))
               ? TK_NUMBER_RANGE
               : TK_NUMBER_SYNTAX;
}

tk_number_result tk_number_bits(tolk_ctx *ctx, tolk_dtype dtype, const char *text, uint64_t *bits) {
    if (*text == '+')
        text++;
    /* Only what can be in a literal, so that the text stays one. */
    if (!*text || strlen(text) > 400 ||
        strspn(text, "0123456789abcdefinptruslxABCDEFINPTRUSLX+-.()") != strlen(text))
        return TK_NUMBER_SYNTAX;
    /* No literal has the sign of a NaN: it is put on. */
    int minus_nan = tolk_dtype_is_float(dtype) && !strcmp(text, "-nan");
    text += minus_nan;
    char kernel[1024];
    const char *name = tolk_dtype_name(dtype);
    snprintf(kernel, sizeof kernel,
             "tolk.uop 1\n"
             "%%0 = const index 1\n"
             "%%1 = param %s (%%0) {slot=0, name=\"v\"}\n"
             "%%2 = const index 0\n"
             "%%3 = index %s (%%1, %%2)\n"
             "%%4 = const %s %s\n"
             "%%5 = store void (%%3, %%4)\n"
             "%%6 = sink void (%%5) {name=\"number\"}\n",
             name, name, name, text);
    uint64_t v = 0;
    void *buf = &v;
    size_t bytes = tolk_dtype_bytes(dtype);
    if (!run_text(ctx, kernel, &buf, &bytes, 1))
        return why_not(dtype, text);
    *bits = minus_nan ? v | (uint64_t)1 << (8 * bytes - 1) : v;
    return TK_NUMBER_OK;
}

/* Widen n elements of a narrow float to f32. */
static int widen(tolk_ctx *ctx, tolk_dtype dtype, const void *data, float *out, size_t n) {
    char kernel[1024];
    const char *name = tolk_dtype_name(dtype);
    snprintf(kernel, sizeof kernel,
             "tolk.uop 1\n"
             "%%0 = const index %zu\n"
             "%%1 = param f32 (%%0) {slot=0, name=\"out\"}\n"
             "%%2 = param %s (%%0) {slot=1, name=\"in\"}\n"
             "%%3 = range index (%%0) {axis=0, kind=global}\n"
             "%%4 = index %s (%%2, %%3)\n"
             "%%5 = load %s (%%4)\n"
             "%%6 = cast f32 (%%5)\n"
             "%%7 = index f32 (%%1, %%3)\n"
             "%%8 = store void (%%7, %%6)\n"
             "%%9 = end void (%%8, %%3)\n"
             "%%10 = sink void (%%9) {name=\"widen\"}\n",
             n, name, name, name);
    void *bufs[2] = {out, (void *)(uintptr_t)data};
    size_t bytes[2] = {n * sizeof *out, n * tolk_dtype_bytes(dtype)};
    return run_text(ctx, kernel, bufs, bytes, 2);
}

static void print_float(FILE *to, double v, int digits) {
    if (v != v)
        fputs("nan", to); /* never "-nan": the sign of a NaN means nothing */
    else
        fprintf(to, "%.*g", digits, v);
}

void tk_number_print(FILE *to, tolk_ctx *ctx, tolk_dtype dtype, const void *data, size_t n) {
    float *wide = NULL;
    int narrow =
        dtype == TOLK_F16 || dtype == TOLK_BF16 || dtype == TOLK_FP8E4M3 || dtype == TOLK_FP8E5M2;
    if (narrow && n) {
        wide = malloc(n * sizeof *wide);
        if (!wide || !widen(ctx, dtype, data, wide, n)) {
            fputs("(cannot be shown)", to);
            free(wide);
            return;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const char *p = (const char *)data + i * tolk_dtype_bytes(dtype);
        if (i)
            fputc(' ', to);
        switch (dtype) {
        case TOLK_BOOL:
            fputs(*p ? "true" : "false", to);
            break;
#define SHOW(KIND, TYPE, FORMAT)                                                                   \
    case KIND: {                                                                                   \
        TYPE v;                                                                                    \
        memcpy(&v, p, sizeof v);                                                                   \
        fprintf(to, "%" FORMAT, v);                                                                \
        break;                                                                                     \
    }
            SHOW(TOLK_I8, int8_t, PRId8)
            SHOW(TOLK_I16, int16_t, PRId16)
            SHOW(TOLK_I32, int32_t, PRId32)
            SHOW(TOLK_I64, int64_t, PRId64)
            SHOW(TOLK_U8, uint8_t, PRIu8)
            SHOW(TOLK_U16, uint16_t, PRIu16)
            SHOW(TOLK_U32, uint32_t, PRIu32)
            SHOW(TOLK_U64, uint64_t, PRIu64)
#undef SHOW
        case TOLK_F32: {
            float v;
            memcpy(&v, p, sizeof v);
            print_float(to, v, 9);
            break;
        }
        case TOLK_F64: {
            double v;
            memcpy(&v, p, sizeof v);
            print_float(to, v, 17);
            break;
        }
        default:
            if (wide)
                print_float(to, wide[i], 6);
        }
    }
    free(wide);
}
