/* SPDX-License-Identifier: MIT
 *
 * pass_opts: the loop options, those that were asked for or the heuristic's.
 *
 * Needs:  stage kernel, prepared.
 * Leaves: stage kernel: the graph that --emit=opt prints and every backend must equal bit for bit.
 *         Index arithmetic is simplified. p->applied names the options. No RANGE has parents: ENDs
 *         and REDUCEs say what is around what, and a copy of a loop whose outer one was replaced
 *         would have the name of the first and other parents.
 * Errors: TOLK_E_ARG for options that cannot be read or applied.
 */
#include "base/strbuf.h"
#include "ir/sym.h"
#include "jit/opt.h"
#include "jit/pass.h"

static const tolk_uop *drop_parents(void *user, const tk_kview *v, const tolk_uop *u,
                                    const tolk_uop **src, uint32_t n) {
    (void)v;
    return tk_uop_with_src(user, u, src, tk_uop_is(u, TK_OP_RANGE) ? 1 : n);
}

static const tolk_uop *without_parents(tk_pass *p, const tolk_uop *root) {
    tk_kview v;
    if (!tk_kview_init(&v, root))
        return tk_graph_fail(p->g, TOLK_E_NOMEM, "out of memory");
    const tolk_uop *r = tk_kview_rebuild(&v, drop_parents, p->g);
    tk_kview_fini(&v);
    return r;
}

tolk_status tk_pass_opts(tk_pass *p, const tolk_uop **root, tolk_error *err) {
    tk_opts opts;
    tk_vec_init(&opts, p->g->al);
    tk_strbuf sb;
    tk_strbuf_init(&sb, p->g->al);
    const tolk_uop *now = without_parents(p, *root);
    tolk_status st = TOLK_OK;
    if (!now) {
        st = tk_pass_failed(p, err);
    } else if (p->opts) {
        st = tk_opt_parse(p->opts, &opts, err);
        for (size_t i = 0; i < opts.n && st == TOLK_OK; i++)
            st = tk_opt_apply(&now, &opts.at[i], p->strict, err);
    } else if (tk_target_is_gpu(p->target)) {
        st = TOLK_OK; /* a thread for each iteration of the global ranges */
    } else if (!p->items) {
        st = tk_opt_heuristic(now, p->target->vec_bytes, p->strict, &opts, &now, err);
    }
    for (size_t i = 0; i < opts.n; i++) {
        char one[64];
        tk_opt_text(&opts.at[i], one, sizeof one);
        if (i)
            tk_strbuf_char(&sb, ' ');
        tk_strbuf_str(&sb, one);
    }
    tk_vec_fini(&opts);
    if (st == TOLK_OK && !(now = tk_sym(p->g, now)))
        st = tk_pass_failed(p, err);
    if (st == TOLK_OK && !(p->applied = tk_strbuf_take(&sb, NULL)))
        st = tk_status_nomem(err);
    if (st == TOLK_OK)
        *root = now;
    tk_strbuf_fini(&sb);
    return st;
}
