/* SPDX-License-Identifier: MIT
 *
 * Who is told when caches are emptied, devices go, memory is short.
 */
#ifndef TK_REALIZE_HOOKS_H
#define TK_REALIZE_HOOKS_H

#include <tolk/realize.h>

#include <stdbool.h>

typedef struct tk_hooks tk_hooks;

tolk_status tk_hooks_create(const tolk_allocator *al, tk_hooks **out, tolk_error *err);
void tk_hooks_destroy(tk_hooks *h);
tolk_status tk_hooks_add(tk_hooks *h, tolk_hook_kind kind, tolk_hook_fn fn, void *user,
                         uint64_t *id, tolk_error *err);
tolk_status tk_hooks_remove(tk_hooks *h, uint64_t id, tolk_error *err);
/* Call all of event->kind. The first failure, after the last one was called. None is called where
 * this thread is in the middle of telling the same of the same device: a hook caused it. */
tolk_status tk_hooks_notify(tk_hooks *h, const tolk_hook_event *event, tolk_error *err);
/* CLEAR_ALL, body(user), CLEAR_ALL: the second one reaches what was built on released things
 * meanwhile. Inside of another one on the same thread only the body runs. body's failure comes
 * first. */
tolk_status tk_hooks_around_clear(tk_hooks *h, tolk_status (*body)(void *user, tolk_error *err),
                                  void *user, tolk_error *err);
void tk_hooks_forked(tk_hooks *h);

#endif
