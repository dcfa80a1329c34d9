/* SPDX-License-Identifier: MIT */
#include "ir/import.h"

static tolk_status copy(tolk_graph *g, const tk_walk_list *nodes, tk_walk_map *made,
                        tolk_error *err) {
    TK_VEC(const tolk_uop *) src;
    tk_vec_init(&src, g->al);
    tolk_status st = TOLK_OK;
    for (size_t k = 0; k < nodes->n && st == TOLK_OK; k++) {
        const tolk_uop *u = nodes->at[k];
        if (tk_walk_map_get(made, u->id))
            continue;
        if (!tk_vec_resize(&src, u->n_src)) {
            st = tk_status_nomem(err);
            break;
        }
        for (uint32_t i = 0; i < u->n_src; i++)
            src.at[i] = g->nodes.at[tk_walk_map_get(made, u->src[i]->id) - 1];
        const tolk_uop *c = tk_uop_import(g, u, src.at);
        if (!c)
            st = tk_graph_take_error(g, err);
        else if (!tk_walk_map_put(made, u->id, c->id + 1))
            st = tk_status_nomem(err);
    }
    tk_vec_fini(&src);
    return st;
}

static bool is_new(const tolk_uop *u, void *made) {
    return !tk_walk_map_get(made, u->id);
}

tolk_status tk_import_more(tolk_graph *g, const tolk_uop *root, tk_walk_map *made,
                           const tolk_uop **out, tolk_error *err) {
    tk_walk_list nodes;
    tolk_status st = TOLK_OK;
    tk_vec_init(&nodes, g->al);
    if (is_new(root, made)) {
        st = tk_walk_gated(root, is_new, made, &nodes) == TOLK_OK ? TOLK_OK : tk_status_nomem(err);
        if (st == TOLK_OK)
            st = copy(g, &nodes, made, err);
    }
    tk_vec_fini(&nodes);
    if (st == TOLK_OK)
        *out = g->nodes.at[tk_walk_map_get(made, root->id) - 1];
    return st;
}

tolk_status tk_import(tolk_graph *g, const tolk_uop *root, const tolk_uop **out, tolk_error *err) {
    if (root->graph == g) {
        *out = root;
        return TOLK_OK;
    }
    tk_walk_map made;
    tk_walk_map_init(&made, g->al);
    tolk_status st = tk_import_more(g, root, &made, out, err);
    tk_walk_map_fini(&made);
    return st;
}
