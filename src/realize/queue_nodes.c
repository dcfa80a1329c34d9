/* SPDX-License-Identifier: MIT
 *
 * The memory of queued commands. A queue keeps it from one command to the next, and all that it
 * keeps is at least as large as the largest that was asked for. So which of them a command gets
 * makes no difference, and a program that submits the same again and again takes no memory any
 * more. What is larger than TK_MOST_ROOM is made and freed with its command.
 */
#include "realize/queue_parts.h"

static void free_node(const tk_queue *q, tk_node *n) {
    if (n->after != n->few)
        tk_alloc_free(&q->ctx->al, n->after, n->max_after * sizeof *n->after);
    tk_alloc_free(&q->ctx->al, n, sizeof *n + n->room_bytes);
}

void tk_queue_free_nodes(const tk_queue *q, tk_node *list) {
    for (tk_node *next; list; list = next) {
        next = list->next;
        free_node(q, list);
    }
}

bool tk_queue_widen_node(const tk_queue *q, tk_node *n, size_t n_after) {
    size_t bytes;
    if (n_after <= n->max_after)
        return true;
    tk_watch *after =
        tk_mul_size(n_after, sizeof *after, &bytes) ? tk_alloc(&q->ctx->al, bytes) : NULL;
    if (!after)
        return false;
    if (n->after != n->few)
        tk_alloc_free(&q->ctx->al, n->after, n->max_after * sizeof *n->after);
    n->after = after;
    n->max_after = n_after;
    return true;
}

/* NULL: there is no memory. */
static tk_node *new_node(tk_queue *q, size_t room_bytes, size_t n_after) {
    size_t bytes;
    tk_node *n = tk_add_size(sizeof *n, room_bytes, &bytes) ? tk_alloc(&q->ctx->al, bytes) : NULL;
    if (!n)
        return NULL;
    *n = (tk_node){.after = n->few, .max_after = TK_FEW_WATCHES, .room_bytes = room_bytes};
    if (!tk_queue_widen_node(q, n, n_after)) {
        free_node(q, n);
        return NULL;
    }
    atomic_store_explicit(&q->had_node, true, memory_order_relaxed);
    return n;
}

/* Under the lock: nodes have this much from now on. Those that have less, to be freed. */
static tk_node *raise_sizes(tk_queue *q, size_t room_bytes, size_t n_after) {
    if (room_bytes <= q->room_bytes && n_after <= q->max_after)
        return NULL;
    tk_node *small = q->free;
    q->free = NULL;
    q->n_free = 0;
    q->room_bytes = room_bytes > q->room_bytes ? room_bytes : q->room_bytes;
    q->max_after = n_after > q->max_after ? n_after : q->max_after;
    return small;
}

tk_node *tk_queue_free_node(tk_queue *q) {
    tk_node *n = q->free;
    if (n) {
        q->free = n->next;
        q->n_free--;
    }
    return n;
}

tk_node *tk_queue_take_node(tk_queue *q, size_t room_bytes, size_t n_after) {
    if (room_bytes > TK_MOST_ROOM)
        return new_node(q, room_bytes, n_after);
    room_bytes = (room_bytes + 63) & ~(size_t)63;
    tk_queue_lock(q);
    tk_node *small = raise_sizes(q, room_bytes, n_after), *n = tk_queue_free_node(q);
    room_bytes = q->room_bytes;
    n_after = q->max_after;
    tk_queue_unlock(q);
    tk_queue_free_nodes(q, small);
    return n ? n : new_node(q, room_bytes, n_after);
}

void tk_queue_unwatch_node(tk_node *n) {
    for (size_t i = 0; i < n->n_after; i++)
        tk_queue_unwatch(&n->after[i]);
    n->n_after = 0;
}

/* Under the lock: has it the sizes of those that are kept, and is there a place? */
static bool keep_node(tk_queue *q, tk_node *n) {
    if (q->n_free >= q->max_free || n->room_bytes > TK_MOST_ROOM || n->room_bytes < q->room_bytes ||
        n->max_after < q->max_after)
        return false;
    n->next = q->free;
    q->free = n;
    q->n_free++;
    return true;
}

void tk_queue_drop_node(tk_queue *q, tk_node *n) {
    tk_queue_unwatch_node(n);
    tk_queue_lock(q);
    bool kept = keep_node(q, n);
    tk_queue_unlock(q);
    if (!kept)
        free_node(q, n);
}

void *tk_queue_room(tk_queue *q, size_t bytes) {
    tk_queue_here(q);
    tk_node *n = tk_queue_take_node(q, bytes, 0);
    return n ? n + 1 : NULL;
}

void tk_queue_drop_room(tk_queue *q, void *room) {
    tk_queue_here(q);
    tk_queue_drop_node(q, tk_queue_node_of(room));
}

bool tk_queue_had_room(const tk_queue *q) {
    return atomic_load_explicit(&q->had_node, memory_order_relaxed);
}

void tk_queue_trim(tk_queue *q) {
    tk_queue_here(q);
    tk_queue_lock(q);
    tk_node *kept = q->free;
    q->free = NULL;
    q->n_free = 0;
    q->room_bytes = 0;
    q->max_after = TK_FEW_WATCHES;
    tk_queue_unlock(q);
    tk_queue_free_nodes(q, kept);
}

void tk_queue_reserve(tk_queue *q, size_t n, size_t room_bytes, size_t n_after) {
    tk_queue_here(q);
    n = n < TK_MOST_FREE_NODES ? n : TK_MOST_FREE_NODES;
    tk_queue_lock(q);
    q->max_free = q->max_free > n ? q->max_free : (uint32_t)n;
    tk_queue_unlock(q);
    tk_node *taken = NULL;
    for (size_t i = 0; i < n; i++) {
        tk_node *x = tk_queue_take_node(q, room_bytes, n_after);
        if (!x)
            break;
        x->next = taken;
        taken = x;
    }
    for (tk_node *next; taken; taken = next) {
        next = taken->next;
        tk_queue_drop_node(q, taken);
    }
}
