/* SPDX-License-Identifier: MIT
 *
 * Programs: a program counter runs down the list; RANGE and END, IF and ENDIF move it.
 */
#include "ir/interp_plan.h"

/* Is any lane of the condition set? */
static bool any_lane(const tk_interp *in, const tk_interp_item *it, uint32_t cond) {
    const tk_interp_node *k = tk_interp_node_at(in, cond);
    bool any = false;
    for (uint32_t l = 0; l < k->width; l++)
        any |= it->val[k->val + l] != 0;
    return any;
}

static void open_range(const tk_interp *in, tk_interp_item *it, const tk_interp_node *k,
                       uint32_t pos) {
    int64_t size = (int64_t)it->val[tk_interp_node_at(in, tk_interp_src(in, k, 0))->val];
    it->limit[k->range] = size;
    it->val[k->val] = 0;
    it->pc = size > 0 ? pos + 1 : in->plan.match.at[pos] + 1;
}

static void close_range(const tk_interp *in, tk_interp_item *it, uint32_t pos) {
    uint32_t at = in->plan.match.at[pos];
    const tk_interp_node *range = tk_interp_node_at(in, in->plan.order.at[at]);
    int64_t next = (int64_t)it->val[range->val] + 1;
    bool again = next < it->limit[range->range];
    if (again)
        it->val[range->val] = (uint64_t)next;
    it->pc = again ? at + 1 : pos + 1;
}

tolk_status tk_interp_program_step(tk_interp *in, tk_interp_item *it) {
    const tk_interp_plan *plan = &in->plan;
    while (it->pc < plan->order.n && !it->waiting) {
        uint32_t pos = it->pc, n = plan->order.at[pos];
        const tk_interp_node *k = tk_interp_node_at(in, n);
        it->pc = pos + 1;
        switch (k->op) {
        case TK_OP_RANGE:
            open_range(in, it, k, pos);
            break;
        case TK_OP_END:
            close_range(in, it, pos);
            break;
        case TK_OP_IF:
            if (!any_lane(in, it, tk_interp_src(in, k, 0)))
                it->pc = plan->match.at[pos] + 1;
            break;
        case TK_OP_CONST:
        case TK_OP_PARAM:
        case TK_OP_BUFFER:
        case TK_OP_SPECIAL:
            break;
        default:
            if (tk_interp_meets(k) && in->n_items > 1) {
                if (!it->granted) {
                    it->pc = pos;
                    it->wait = n;
                    it->waiting = true;
                }
                it->granted = false;
            } else if (k->op == TK_OP_WMMA) {
                TK_TRY(tk_interp_wmma(in, it, 1, n));
            } else {
                tk_interp_eval(in, it, n);
            }
            break;
        }
    }
    it->done = !it->waiting;
    return TOLK_OK;
}
