/* SPDX-License-Identifier: MIT
 *
 * Arguments of a launch, as they are kept.
 */
#ifndef TK_REALIZE_ARGS_H
#define TK_REALIZE_ARGS_H

#include "base/vec.h"

#include <tolk/realize.h>

enum { TK_ARGS_MAX_SLOT = 65535 };

typedef struct tk_arg {
    uint32_t slot;
    tolk_dtype dtype;    /* of a scalar: i32, i64, f32 or f64 */
    tolk_buffer *buffer; /* referenced; NULL: a scalar */
    int64_t value;       /* of a scalar: a float as its bit pattern in the low bytes */
} tk_arg;

struct tolk_args {
    tolk_ctx *ctx;
    TK_VEC(tk_arg) list; /* in ascending slot order */
};

#endif
