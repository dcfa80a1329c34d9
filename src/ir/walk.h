/* SPDX-License-Identifier: MIT
 *
 * Walks over a graph, and which ranges each node depends on. Nothing here recurses, and nothing
 * writes to the graph: several threads may walk one graph that nobody changes.
 */
#ifndef TK_IR_WALK_H
#define TK_IR_WALK_H

#include "ir/uop.h"

/* A number for each node of a graph, 0 where none was put. Sparse: costs memory only near the ids
 * that are used, so a walk over a small part of a large graph stays small. */
typedef struct tk_walk_map {
    const tolk_allocator *al;
    uint32_t **page;
    size_t n_pages;
} tk_walk_map;
enum { TK_WALK_PAGE = 256 };

void tk_walk_map_init(tk_walk_map *map, const tolk_allocator *al);
void tk_walk_map_fini(tk_walk_map *map);
/* False when out of memory. */
bool tk_walk_map_put(tk_walk_map *map, uint32_t id, uint32_t value);
static inline uint32_t tk_walk_map_get(const tk_walk_map *map, uint32_t id) {
    size_t p = id / TK_WALK_PAGE;
    return p < map->n_pages && map->page[p] ? map->page[p][id % TK_WALK_PAGE] : 0;
}

typedef TK_VEC(const tolk_uop *) tk_walk_list;

/* Append the nodes that root reaches to out, each once, sources before users and left to right; the
 * root is last. Errors: TOLK_E_NOMEM (out keeps what it had got). */
tolk_status tk_walk(const tolk_uop *root, tk_walk_list *out);
/* The same, but the sources of a node are visited only if enter(node, user); the node itself is
 * always in the list. */
tolk_status tk_walk_gated(const tolk_uop *root, bool (*enter)(const tolk_uop *u, void *user),
                          void *user, tk_walk_list *out);

/* Append what an END of a kernel repeats: its effect, the effects of groups and barriers among
 * them, and those of ENDs in it; each once. Errors: TOLK_E_NOMEM. */
tolk_status tk_walk_repeated(const tolk_uop *end, tk_walk_list *out);

/* The ranges that the nodes below a root depend on (docs/ir.md, "Ranges"). */
typedef struct tk_walk_ranges {
    tk_walk_list nodes;     /* what tk_walk gives */
    tk_walk_list ranges;    /* the RANGE nodes, numbered in that order */
    size_t n_words;         /* 64-bit words of one set; bit r: range number r */
    TK_VEC(uint64_t) words; /* interned sets, set 0 is empty */
    tk_walk_map set_of;     /* node -> set + 1 */
    tk_walk_map number_of;  /* RANGE -> number + 1 */
} tk_walk_ranges;
enum { TK_WALK_MAX_RANGES = 4096 };

/* Errors: TOLK_E_NOMEM; TOLK_E_LIMIT if there are more than TK_WALK_MAX_RANGES. Call _fini in any
 * case. */
tolk_status tk_walk_ranges_init(tk_walk_ranges *w, const tolk_uop *root, const tolk_allocator *al);
void tk_walk_ranges_fini(tk_walk_ranges *w);
/* Set of a node below the root: n_words words. NULL for a node that the root does not reach. */
const uint64_t *tk_walk_ranges_of(const tk_walk_ranges *w, const tolk_uop *u);
/* Equal numbers mean equal sets; 0 is the empty set. */
uint32_t tk_walk_ranges_set(const tk_walk_ranges *w, const tolk_uop *u);
/* Number of a RANGE node, -1 if the root does not reach it. */
int32_t tk_walk_ranges_number(const tk_walk_ranges *w, const tolk_uop *range);
bool tk_walk_ranges_has(const tk_walk_ranges *w, const tolk_uop *u, const tolk_uop *range);
/* First source of u that closes ranges; UINT32_MAX if u closes none. */
uint32_t tk_walk_closes_from(const tolk_uop *u);

#endif
