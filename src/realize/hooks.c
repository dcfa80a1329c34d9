/* SPDX-License-Identifier: MIT
 *
 * Hooks, in the order they were added. A notification takes one after the other from the list, by
 * their numbers, and holds no lock while it calls: it needs no memory, so no hook is left out.
 */
#include "realize/hooks.h"

#include "base/alloc.h"
#include "base/status.h"

#include <pthread.h>

typedef struct hook {
    struct hook *next;
    uint64_t id;
    tolk_hook_kind kind;
    tolk_hook_fn fn;
    void *user;
} hook;

struct tk_hooks {
    const tolk_allocator *al;
    pthread_mutex_t lock;
    hook *first; /* ids ascend */
    hook **end;
    uint64_t last_id;
};

tolk_status tk_hooks_create(const tolk_allocator *al, tk_hooks **out, tolk_error *err) {
    tk_hooks *h = tk_alloc_zero(al, sizeof *h);
    if (!h)
        return tk_status_nomem(err);
    h->al = al;
    h->end = &h->first;
    pthread_mutex_init(&h->lock, NULL);
    *out = h;
    return TOLK_OK;
}

void tk_hooks_destroy(tk_hooks *h) {
    if (!h)
        return;
    for (hook *at = h->first, *next; at; at = next) {
        next = at->next;
        tk_alloc_free(h->al, at, sizeof *at);
    }
    pthread_mutex_destroy(&h->lock);
    tk_alloc_free(h->al, h, sizeof *h);
}

tolk_status tk_hooks_add(tk_hooks *h, tolk_hook_kind kind, tolk_hook_fn fn, void *user,
                         uint64_t *id, tolk_error *err) {
    if (!fn || !id)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_hook_add: fn or id is NULL");
    if ((int)kind < TOLK_HOOK_CLEAR_ALL || kind > TOLK_HOOK_RECLAIM)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_hook_add: unknown kind %d",
                              (int)kind);
    hook *new = tk_alloc_zero(h->al, sizeof *new);
    if (!new)
        return tk_status_nomem(err);
    *new = (hook){.kind = kind, .fn = fn, .user = user};
    pthread_mutex_lock(&h->lock);
    *id = new->id = ++h->last_id;
    *h->end = new;
    h->end = &new->next;
    pthread_mutex_unlock(&h->lock);
    return TOLK_OK;
}

tolk_status tk_hooks_remove(tk_hooks *h, uint64_t id, tolk_error *err) {
    hook *gone = NULL;
    pthread_mutex_lock(&h->lock);
    for (hook **at = &h->first; *at; at = &(*at)->next)
        if ((*at)->id == id) {
            gone = *at;
            *at = gone->next;
            if (!*at)
                h->end = at;
            break;
        }
    pthread_mutex_unlock(&h->lock);
    if (!gone)
        return tk_status_fail(err, TOLK_E_NOT_FOUND, TK_NO_NODE, "there is no hook %llu",
                              (unsigned long long)id);
    tk_alloc_free(h->al, gone, sizeof *gone);
    return TOLK_OK;
}

/* The first hook of a kind with an id above *id and up to last; false: none. */
static bool next_hook(tk_hooks *h, tolk_hook_kind kind, uint64_t last, uint64_t *id, hook *out) {
    bool found = false;
    pthread_mutex_lock(&h->lock);
    for (const hook *at = h->first; at && at->id <= last && !found; at = at->next)
        if (at->id > *id && at->kind == kind) {
            *out = *at;
            *id = at->id;
            found = true;
        }
    pthread_mutex_unlock(&h->lock);
    return found;
}

/* *first becomes st, and *err its error, unless there was a failure before. */
static void keep_first(tolk_status st, const tolk_error *from, tolk_status *first,
                       tolk_error *err) {
    if (st == TOLK_OK || *first != TOLK_OK)
        return;
    *first = st;
    if (from->code == TOLK_OK) /* it did not say what failed */
        tk_status_fail(err, st, TK_NO_NODE, "%s", tolk_status_text(st));
    else if (err)
        *err = *from;
}

/* ---- what a thread is in the middle of telling, the innermost first ---- */

typedef struct telling {
    const tk_hooks *hooks;
    tolk_hook_kind kind;
    uint64_t uid;
    const struct telling *outer;
} telling;
static _Thread_local const telling *innermost;

/* A hook that causes what it is told of would be told of that without end. */
static bool is_told(const tk_hooks *h, const tolk_hook_event *event) {
    for (const telling *t = innermost; t; t = t->outer)
        if (t->hooks == h && t->kind == event->kind && t->uid == event->uid)
            return true;
    return false;
}

/* Call them all. */
static tolk_status tell(tk_hooks *h, const tolk_hook_event *event, tolk_error *err) {
    tolk_status first = TOLK_OK;
    pthread_mutex_lock(&h->lock);
    uint64_t last = h->last_id, id = 0; /* hooks that hooks add wait for the next event */
    pthread_mutex_unlock(&h->lock);
    hook one;
    while (next_hook(h, event->kind, last, &id, &one)) {
        tolk_error own = TOLK_ERROR_INIT;
        tolk_status st = one.fn(one.user, event, &own);
        keep_first(st, &own, &first, err);
    }
    return first;
}

tolk_status tk_hooks_notify(tk_hooks *h, const tolk_hook_event *event, tolk_error *err) {
    if (is_told(h, event))
        return TOLK_OK;
    const telling mine = {h, event->kind, event->uid, innermost};
    innermost = &mine;
    tolk_status st = tell(h, event, err);
    innermost = mine.outer;
    return st;
}

tolk_status tk_hooks_around_clear(tk_hooks *h, tolk_status (*body)(void *user, tolk_error *err),
                                  void *user, tolk_error *err) {
    static const tolk_hook_event event = {.kind = TOLK_HOOK_CLEAR_ALL};
    if (is_told(h, &event))
        return body(user, err);
    const telling mine = {h, event.kind, event.uid, innermost};
    innermost = &mine;
    tolk_error before = TOLK_ERROR_INIT, within = TOLK_ERROR_INIT, behind = TOLK_ERROR_INIT;
    tolk_status st_before = tell(h, &event, &before);
    tolk_status st_within = body(user, &within);
    tolk_status st_behind = tell(h, &event, &behind);
    innermost = mine.outer;
    tolk_status first = TOLK_OK;
    keep_first(st_within, &within, &first, err);
    keep_first(st_before, &before, &first, err);
    keep_first(st_behind, &behind, &first, err);
    return first;
}

/* If the lock was held the list may be half changed: the child begins an empty one. */
void tk_hooks_forked(tk_hooks *h) {
    if (pthread_mutex_trylock(&h->lock) == 0) {
        pthread_mutex_unlock(&h->lock);
        return;
    }
    pthread_mutex_init(&h->lock, NULL);
    h->first = NULL;
    h->end = &h->first;
}
