/* SPDX-License-Identifier: MIT
 *
 * The loader of saved programs on arbitrary bytes, as they are and with a right checksum: no crash,
 * an error is one line, and of what is accepted every part can be used.
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
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
