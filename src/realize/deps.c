/* SPDX-License-Identifier: MIT
 *
 * A root is a sorted list of disjoint segments, each with the node that wrote it last and those
 * that have read it since. An access cuts the segments at its ends, so that it covers whole ones. A
 * list of readers is shared by the segments that were one when they were read: only its beginning
 * differs.
 */
#include "realize/deps.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct segment {
    uintptr_t from, to;
    uint32_t writer;  /* or NONE */
    uint32_t readers; /* the latest one in tk_deps.readers, or NONE */
} segment;

typedef struct tk_deps_root {
    TK_VEC(segment) list;
} tk_deps_root;

typedef struct tk_deps_reader {
    uint32_t node, next;
} tk_deps_reader;

void tk_deps_init(tk_deps *d, const tolk_allocator *al) {
    *d = (tk_deps){.al = al};
    tk_map_init(&d->numbers, al);
    tk_vec_init(&d->roots, al);
    tk_vec_init(&d->readers, al);
    tk_vec_init(&d->seen, al);
    tk_vec_init(&d->found, al);
}

void tk_deps_fini(tk_deps *d) {
    for (size_t i = 0; i < d->roots.n; i++)
        tk_vec_fini(&d->roots.at[i].list);
    tk_map_fini(&d->numbers);
    tk_vec_fini(&d->roots);
    tk_vec_fini(&d->readers);
    tk_vec_fini(&d->seen);
    tk_vec_fini(&d->found);
}

/* NULL: out of memory. */
static tk_deps_root *root_of(tk_deps *d, const void *root) {
    const uint64_t *number = tk_map_find(&d->numbers, (uintptr_t)root);
    if (number)
        return &d->roots.at[*number];
    tk_deps_root made;
    tk_vec_init(&made.list, d->al);
    if (!tk_map_put(&d->numbers, (uintptr_t)root, d->roots.n) || !tk_vec_push(&d->roots, made))
        return NULL;
    return &tk_vec_last(&d->roots);
}

/* The first segment that ends behind `at`. */
static size_t first_behind(const tk_deps_root *r, uintptr_t at) {
    size_t lo = 0, hi = r->list.n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (r->list.at[mid].to > at)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static bool insert(tk_deps_root *r, size_t i, segment s) {
    if (!tk_vec_reserve(&r->list, r->list.n + 1))
        return false;
    memmove(r->list.at + i + 1, r->list.at + i, (r->list.n - i) * sizeof s);
    r->list.at[i] = s;
    r->list.n++;
    return true;
}

/* See to it that no segment has `at` inside of it. */
static bool cut(tk_deps_root *r, uintptr_t at) {
    size_t i = first_behind(r, at);
    if (i == r->list.n || r->list.at[i].from >= at)
        return true;
    segment left = r->list.at[i];
    left.to = at;
    if (!insert(r, i, left))
        return false;
    r->list.at[i + 1].from = at;
    return true;
}

/* ---- what is waited for ---- */

static bool find(tk_deps *d, uint32_t node) {
    if (node == NONE || d->seen.at[node] == d->access)
        return true;
    d->seen.at[node] = d->access;
    return tk_vec_push(&d->found, node);
}

static bool find_all(tk_deps *d, const tk_deps_range *x) {
    tk_deps_root *r = root_of(d, x->root);
    if (!r)
        return false;
    for (size_t i = first_behind(r, x->from); i < r->list.n && r->list.at[i].from < x->to; i++) {
        if (!find(d, r->list.at[i].writer))
            return false;
        uint32_t reader = x->writes ? r->list.at[i].readers : NONE;
        for (; reader != NONE; reader = d->readers.at[reader].next)
            if (!find(d, d->readers.at[reader].node))
                return false;
    }
    return true;
}

/* ---- what is remembered ---- */

static bool wrote(tk_deps_root *r, uint32_t node, uintptr_t from, uintptr_t to) {
    if (!cut(r, from) || !cut(r, to))
        return false;
    size_t begin = first_behind(r, from), end = begin;
    while (end < r->list.n && r->list.at[end].from < to)
        end++;
    segment s = {from, to, node, NONE};
    if (begin == end)
        return insert(r, begin, s);
    r->list.at[begin] = s;
    memmove(r->list.at + begin + 1, r->list.at + end, (r->list.n - end) * sizeof s);
    r->list.n -= end - begin - 1;
    return true;
}

static bool was_read(tk_deps *d, tk_deps_root *r, uint32_t node, uintptr_t from, uintptr_t to) {
    if (!cut(r, from) || !cut(r, to))
        return false;
    uint32_t shared = NONE, made = NONE; /* the list that segments before this one had, and got */
    for (size_t i = first_behind(r, from); from < to; i++) {
        uintptr_t next = i < r->list.n && r->list.at[i].from < to ? r->list.at[i].from : to;
        if (from < next && !insert(r, i, (segment){from, next, NONE, NONE}))
            return false;
        segment *s = &r->list.at[i];
        if (made == NONE || s->readers != shared) {
            shared = s->readers;
            made = (uint32_t)d->readers.n;
            if (d->readers.n == NONE || !tk_vec_push(&d->readers, ((tk_deps_reader){node, shared})))
                return false;
        }
        s->readers = made;
        from = s->to;
    }
    return true;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static bool access_all(tk_deps *d, uint32_t node, const tk_deps_range *ranges, size_t n) {
    if (!tk_vec_resize(&d->seen, (size_t)node + 1))
        return false;
    d->access++;
    d->found.n = 0;
    for (size_t i = 0; i < n; i++)
        if (ranges[i].from < ranges[i].to && !find_all(d, &ranges[i]))
            return false;
    for (size_t i = 0; i < n; i++) {
        const tk_deps_range *x = &ranges[i];
        if (x->from >= x->to)
            continue;
        tk_deps_root *r = root_of(d, x->root);
        if (!r ||
            !(x->writes ? wrote(r, node, x->from, x->to) : was_read(d, r, node, x->from, x->to)))
            return false;
    }
    return true;
}

tolk_status tk_deps_access(tk_deps *d, uint32_t node, const tk_deps_range *ranges, size_t n,
                           const uint32_t **out, size_t *n_out, tolk_error *err) {
    TK_ASSERT(node != NONE && node >= d->seen.n);
    if (!access_all(d, node, ranges, n))
        return tk_status_nomem(err);
    if (d->found.n > 1)
        qsort(d->found.at, d->found.n, sizeof *d->found.at, by_number);
    *out = d->found.at;
    *n_out = d->found.n;
    return TOLK_OK;
}
