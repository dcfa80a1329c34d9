/* SPDX-License-Identifier: MIT */
#include "ir/locate.h"

#include "ir/walk.h"

#include <stdio.h>

tk_location tk_locate(const tolk_uop *root, const tolk_uop *u) {
    const tolk_graph *g = root->graph;
    const tk_place *whole = tk_graph_place(g, root->id);
    tk_location l = {.number = TK_NO_NODE, .place = whole ? tk_graph_place(g, u->id) : NULL};
    tk_walk_list nodes;
    tk_vec_init(&nodes, g->al);
    tolk_status st = tk_walk(root, &nodes);
    for (size_t i = 0; st == TOLK_OK && i < nodes.n; i++) {
        if (nodes.at[i] == u)
            l.number = (uint32_t)i;
        /* Numbers of two texts, or of none, would be mixed. */
        const tk_place *place = l.place ? tk_graph_place(g, nodes.at[i]->id) : NULL;
        if (!place || place->text != whole->text)
            l.place = NULL;
    }
    tk_vec_fini(&nodes);
    if (l.place)
        snprintf(l.name, sizeof l.name, "%%%llu", (unsigned long long)l.place->number);
    else
        snprintf(l.name, sizeof l.name, "%%%u", l.number);
    return l;
}

void tk_locate_error(const tk_location *at, tolk_error *err) {
    if (!err)
        return;
    err->node = at->number;
    err->line = at->place ? at->place->line : 0;
    err->column = at->place ? at->place->column : 0;
}

static void copy_places(const tolk_graph *from, const tk_walk_list *nodes, tolk_graph *to,
                        const tk_walk_list *copies) {
    if (nodes->n != copies->n || !tk_vec_resize(&to->places, to->nodes.n))
        return;
    for (size_t i = 0; i < nodes->n; i++) {
        const tk_place *place = tk_graph_place(from, nodes->at[i]->id);
        if (place)
            to->places.at[copies->at[i]->id] = *place;
    }
}

void tk_locate_copy(const tolk_uop *root, const tolk_uop *copy) {
    const tk_place *whole = tk_graph_place(root->graph, root->id);
    tolk_graph *g = copy->graph;
    if (!whole || g == root->graph || g->n_texts)
        return;
    tk_walk_list nodes, copies;
    tk_vec_init(&nodes, g->al);
    tk_vec_init(&copies, g->al);
    if (tk_walk(root, &nodes) == TOLK_OK && tk_walk(copy, &copies) == TOLK_OK) {
        copy_places(root->graph, &nodes, g, &copies);
        g->n_texts = whole->text; /* what is read into it later is another one */
    }
    tk_vec_fini(&copies);
    tk_vec_fini(&nodes);
}
