/* SPDX-License-Identifier: MIT */
#include "linear_cells.h"

#include <inttypes.h>
#include <stdlib.h>

static int is_scalar(const tolk_uop *u) {
    const char *space = tk_source_is_op(u, "param") ? tk_cells_text(u, "space") : NULL;
    return tk_source_is_op(u, "bind") || (space && !strcmp(space, "alu"));
}

/* ---- the buffers of the calls ---- */

static tk_cell *cell_of(tk_cells *all, const tolk_uop *node) {
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].node == node)
            return &all->at[i];
    if (all->n == all->cap) {
        size_t cap = all->cap ? 2 * all->cap : 16;
        tk_cell *more = realloc(all->at, cap * sizeof *more);
        if (!more)
            return NULL;
        all->at = more;
        all->cap = cap;
    }
    tk_cell *c = &all->at[all->n++];
    *c = (tk_cell){
        .node = node, .is_param = tk_source_is_op(node, "param"), .dtype = tolk_uop_dtype(node)};
    int64_t slot = tk_cells_number(node, "slot");
    snprintf(c->slot, sizeof c->slot, "%" PRId64, slot);
    snprintf(c->full, sizeof c->full, "%s%" PRId64, c->is_param ? "param" : "buffer", slot);
    if (c->is_param)
        c->name = tk_cells_text(node, "name");
    return c;
}

/* A name that a kernel has for it, or NULL: it has none; "": no kernel says so. */
static void add_name(tk_cell *c, const char *name) {
    if ((name && !*name) || (c->is_param && tk_cells_text(c->node, "name")))
        return;
    if (!name || (c->name && strcmp(c->name, name)))
        c->many_names = 1;
    else
        c->name = name;
}

/* Note what a call does with each buffer that an argument is made of. whole: the argument is the
 * buffer itself. */
static int note_arg(tk_cells *all, const tolk_uop *arg, int loaded, int stored, const char *name) {
    tk_nodes nodes = {0};
    int is_new, code = tk_nodes_add(&nodes, arg, &is_new);
    for (size_t k = 0; k < nodes.n && !code; k++) {
        const tolk_uop *u = nodes.at[k];
        if (tk_source_is_op(u, "param") || tk_source_is_op(u, "buffer")) {
            tk_cell *c = cell_of(all, u);
            if (!c) {
                code = tk_report_failed("out of memory");
                break;
            }
            c->needs_input |= loaded && !c->is_stored;
            c->is_loaded |= loaded;
            c->is_stored |= stored;
            if (u == arg)
                add_name(c, name);
            continue;
        }
        size_t from = tk_source_is_op(u, "mstack") ? tolk_uop_n_src(u) : tolk_uop_n_src(u) ? 1 : 0;
        for (size_t i = from; i-- > 0 && !code;)
            code = tk_nodes_add(&nodes, tolk_uop_src(u, i), &is_new);
    }
    tk_nodes_free(&nodes);
    return code;
}

static int is_bound(const tolk_uop *call, const char *name) {
    for (size_t i = 1; i < tolk_uop_n_src(call); i++) {
        const tolk_uop *u = tolk_uop_src(call, i);
        const char *own =
            tk_source_is_op(u, "bind") ? tk_cells_text(tolk_uop_src(u, 0), "name") : NULL;
        if (own && !strcmp(own, name))
            return 1;
    }
    return 0;
}

static int note_variables(tk_cells *all, const tolk_uop *call, const tolk_uop *sink) {
    for (size_t p = 0; p < tolk_kernel_param_count(sink); p++) {
        tolk_param_info info;
        size_t k = 0;
        if (tolk_kernel_param(sink, p, &info) || !info.is_scalar || !info.name ||
            is_bound(call, info.name))
            continue;
        while (k < all->n_needed && strcmp(all->needed[k].info.name, info.name))
            k++;
        if (k < all->n_needed)
            continue;
        tk_needed *more = realloc(all->needed, (all->n_needed + 1) * sizeof *more);
        if (!more)
            return tk_report_failed("out of memory");
        all->needed = more;
        all->needed[all->n_needed++] = (tk_needed){info, tolk_kernel_name(sink), 0};
    }
    return TOOL_DONE;
}

static int note_launch(tk_cells *all, const tolk_uop *call, const tolk_uop *sink) {
    size_t n = tolk_kernel_param_count(sink), p = 0;
    int code = note_variables(all, call, sink);
    for (size_t i = 1; i < tolk_uop_n_src(call) && !code; i++) {
        const tolk_uop *arg = tolk_uop_src(call, i);
        tolk_param_info info = {0};
        if (is_scalar(arg))
            continue;
        while (p < n && tolk_kernel_param(sink, p, &info) == TOLK_OK && info.is_scalar)
            p++;
        p++;
        code = note_arg(all, arg, info.is_loaded, info.is_stored, info.name);
    }
    return code;
}

/* A graph that is called again loads nothing that it did not load the first time. */
static int note_call(void *cells, const tolk_uop *call) {
    tk_cells *all = cells;
    const tolk_uop *body = tolk_uop_src(call, 0);
    if (tk_source_is_op(body, "copy") || tk_source_is_op(body, "slice")) {
        int code = note_arg(all, tolk_uop_src(call, 2), 1, 0, "");
        return code ? code : note_arg(all, tolk_uop_src(call, 1), 0, 1, "");
    }
    return note_launch(all, call, tk_source_is_op(body, "program") ? tolk_uop_src(body, 0) : body);
}

/* ---- names ---- */

static int by_slot(const void *a, const void *b) {
    const tk_cell *x = a, *y = b;
    int64_t i = tk_cells_number(x->node, "slot"), k = tk_cells_number(y->node, "slot");
    return i != k ? (i > k) - (i < k) : x->is_param - y->is_param;
}

/* The name that is a cell's own, or NULL. */
static const char *own_name(const tk_cells *all, const tk_cell *c) {
    if (!c->name || c->many_names)
        return NULL;
    for (size_t i = 0; i < all->n; i++)
        if (&all->at[i] != c && all->at[i].name && !strcmp(all->at[i].name, c->name))
            return NULL;
    return c->name;
}

const char *tk_cells_shown(const tk_cells *all, const tk_cell *c) {
    const char *name = own_name(all, c);
    return name ? name : c->full;
}

/* "buffer0 (x), buffer1": all, by slot, with their other names; cut where there is no more room. */
static void list_cells(const tk_cells *all, char *out, size_t cap) {
    size_t at = (size_t)snprintf(out, cap, "%s", all->n ? "" : "none");
    for (size_t i = 0; i < all->n; i++) {
        const char *name = own_name(all, &all->at[i]);
        char item[160];
        size_t len =
            (size_t)snprintf(item, sizeof item, "%s%s%s%.100s%s", i ? ", " : "", all->at[i].full,
                             name ? " (" : "", name ? name : "", name ? ")" : "");
        if (at + len + sizeof ", ..." > cap) {
            snprintf(out + at, cap - at, ", ...");
            return;
        }
        memcpy(out + at, item, len + 1);
        at += len;
    }
}

size_t tk_cells_match(const tk_cells *all, const char *text, size_t len, tk_cell **out) {
    size_t found = 0;
    for (int exact = 1; exact >= 0 && !found; exact--)
        for (size_t i = 0; i < all->n; i++) {
            tk_cell *c = &all->at[i];
            const char *own[] = {c->full, exact ? NULL : c->slot,
                                 exact || c->many_names ? NULL : c->name};
            int is = 0;
            for (int k = 0; k < 3; k++)
                is |= own[k] && strlen(own[k]) == len && !memcmp(own[k], text, len);
            if (is) {
                *out = c;
                found++;
            }
        }
    return found;
}

tk_needed *tk_cells_variable(const tk_cells *all, const char *text, size_t len) {
    for (size_t k = 0; k < all->n_needed; k++)
        if (strlen(all->needed[k].info.name) == len && !memcmp(all->needed[k].info.name, text, len))
            return &all->needed[k];
    return NULL;
}

int tk_cells_find(tk_cells *all, const char *flag, const char *text, tk_cell **out,
                  const char **value) {
    const char *eq = strchr(text, '=');
    if (!eq || eq == text || !eq[1])
        return tk_report_usage("%s %.200s: expected NAME=VALUE", flag, text);
    size_t len = (size_t)(eq - text), found = tk_cells_match(all, text, len, out);
    *value = eq + 1;
    if (found == 1)
        return TOOL_DONE;
    if (!found && tk_cells_variable(all, text, len))
        return tk_report_usage("%s %.200s: it is a variable of the calls: expected --set %.200s",
                               flag, text, text);
    char names[240];
    list_cells(all, names, sizeof names);
    return tk_report_usage("%s %.200s: %s buffer of that name: expected %s", flag, text,
                           found ? "there is more than one" : "there is no", names);
}

/* ---- all of them ---- */

int tk_cells_init(tk_cells *all, const tolk_uop *linear) {
    *all = (tk_cells){0};
    int code = tk_nodes_each_call(linear, note_call, all);
    if (all->n)
        qsort(all->at, all->n, sizeof *all->at, by_slot);
    return code;
}

void tk_cells_fini(tk_cells *all) {
    free(all->at);
    free(all->needed);
}
