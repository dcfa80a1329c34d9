/* SPDX-License-Identifier: MIT
 *
 * Nodes of a device and the buffers that hold their values.
 */
#ifndef TK_REALIZE_SCOPE_H
#define TK_REALIZE_SCOPE_H

#include <tolk/realize.h>

#include <stdbool.h>

/* The buffer of a node, referenced for the caller; NULL: none. */
tolk_buffer *tk_scope_take(const tolk_scope *scope, uint64_t node);

#endif
