/* SPDX-License-Identifier: MIT
 *
 * From a graph of calls, perhaps applied to arguments, to one list of calls and the values of its
 * variables.
 */
#ifndef TK_SCHEDULE_WITH_VARS_H
#define TK_SCHEDULE_WITH_VARS_H

#include "ir/walk.h"

/* A variable that BINDs give a value, as the raw bits of the constant. */
typedef struct tk_with_vars_value {
    const char *name; /* of the graph */
    int64_t value;
} tk_with_vars_value;
typedef TK_VEC(tk_with_vars_value) tk_with_vars_values;

/* Put the calls of a graph of states in order: *list is a LINEAR of g, which is sink's.
 *   again: the same sink is likely to come again; false: it names what is new in each call. */
typedef tolk_status (*tk_with_vars_order)(void *user, tolk_graph *g, const tolk_uop *sink,
                                          bool again, const tolk_uop **list, tolk_error *err);

/* One LINEAR of the calls of root: a SINK of states (create_schedule.h), or a CALL of one or of a
 * LINEAR with arguments.
 *
 * In a CALL of calls PARAM slot i of the body is argument i, counted among all arguments, values of
 * variables too; a slot that no argument has stays. A BUFFER of the body with a slot of 0 or more
 * in global space is memory of that one call: a new BUFFER with a new negative slot, the same one
 * wherever the body names it. What the arguments name stays what it is. Calls of calls among the
 * calls are done in the same way, and what they give takes their place. Nothing of that reaches
 * into kernels.
 *
 * The order of a graph's calls does not depend on what its arguments are, unless two of them may be
 * the same memory (they name one BUFFER or PARAM): then these are put in before it is found.
 *
 * BINDs become their variables wherever they stand; *values gets the constant of each whose name a
 * kernel of the list has, once, in the order in which they are met; the others are dropped. Source:
 * section 1.11 of the notes on tinygrad's schedule.
 *   order: called with no BIND below sink; NULL: tk_create_schedule().
 *   made: gets the new BUFFERs; may be NULL.
 * Owner:   g, which is root's. values, made: initialized by the caller.
 * Errors:  TOLK_E_VERIFY (root is something else, an argument is no buffer and no variable, a call
 *          where none is expected), TOLK_E_DTYPE (an argument is of another dtype than its param),
 *          TOLK_E_ARG (a variable has two values), TOLK_E_UNSUPPORTED (its value is no constant),
 *          TOLK_E_LIMIT (too many calls), TOLK_E_NOMEM, those of order; g keeps no error.
 */
tolk_status tk_with_vars(tolk_graph *g, const tolk_uop *root, tk_with_vars_order order, void *user,
                         const tolk_uop **list, tk_with_vars_values *values, tk_walk_list *made,
                         tolk_error *err);

#endif
