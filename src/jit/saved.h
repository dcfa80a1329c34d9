/* SPDX-License-Identifier: MIT
 *
 * Saved programs: the bytes of a binary (jit/meta.h) in an envelope that says what they are,
 * whether they are whole and which CPU runs them.
 */
#ifndef TK_JIT_SAVED_H
#define TK_JIT_SAVED_H

#include "base/ctx.h"
#include "jit/target.h"

#include <tolk/jit.h>

/* A saved program that was looked at; points into its bytes. */
typedef struct tk_saved {
    const void *binary; /* what tk_meta_write made; at any address */
    size_t binary_bytes;
    tk_arch arch;
    uint64_t features; /* bits TK_FEATURE_* that the code may use */
} tk_saved;

/* The envelope around a binary. *out: text of base/strbuf.h. Errors: TOLK_E_NOMEM. */
tolk_status tk_saved_write(tolk_ctx *ctx, const tk_saved *saved, char **out, size_t *len,
                           tolk_error *err);
/* Look at bytes, which may be anything and lie at any address; of the binary only the length is
 * looked at. Errors: TOLK_E_PARSE, TOLK_E_UNSUPPORTED. */
tolk_status tk_saved_open(const tk_host *host, const void *bytes, size_t len, tk_saved *out,
                          tolk_error *err);
/* Give bytes the checksum that they should have, if they are long enough for one: tests damage what
 * stands behind it. */
void tk_saved_seal(void *bytes, size_t len);

#endif
