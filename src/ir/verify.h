/* SPDX-License-Identifier: MIT
 *
 * The rules of docs/ir.md about whole graphs. Messages name the node as the text does that it was
 * read from, or as tolk_print numbers it.
 */
#ifndef TK_IR_VERIFY_H
#define TK_IR_VERIFY_H

#include "ir/uop.h"

/* The stage that a root is of: LINEAR (of anything but calls) program; SINK with a name, or a GROUP
 * of such, kernel; else tensor. */
tolk_stage tk_verify_stage(const tolk_uop *root);

/* Check every rule of a stage (TOLK_STAGE_ANY: the root's own).
 *
 * Reads the graph only, except at the tensor stage, where shapes are kept in its memo tables.
 * Time and memory are linear in the nodes for a bounded number of ranges.
 * Errors: TOLK_E_VERIFY, _DTYPE, _SHAPE, _LIMIT, _RANGE, _NOMEM; err (may be NULL) has the number
 * of the node, and a message "%N op: what is there, what was expected".
 */
tolk_status tk_verify(const tolk_uop *root, tolk_stage stage, tolk_error *err);

#endif
