/* SPDX-License-Identifier: MIT
 *
 * What the realize layer keeps for a device.
 */
#ifndef TK_REALIZE_STATE_H
#define TK_REALIZE_STATE_H

#include "jit/backend.h"
#include "realize/memory.h"
#include "realize/queue.h"

/* What transfers left in pool 0 of a device, in the order of its queue: transfer.c. */
typedef struct tk_merge_state {
    uint64_t memory; /* number of the pool's memory that it is in; 0: nothing was merged yet */
    uint64_t node;
    size_t bytes;
    tk_watch copy; /* the command that brings it there, or one behind that */
} tk_merge_state;

typedef struct tk_device_state {
    tk_queue *queue;
    tk_book book; /* of its memory */
    uint64_t uid;
    uint32_t ordinal;      /* among the devices of its framework */
    _Atomic int64_t index; /* among those of the context; -1: none */
    _Atomic bool destroyed;
    tk_merge_state merge;      /* under tk_realize.names */
    _Atomic(void *) host_copy; /* of copy.c: memory for the next one that is queued; or NULL */
} tk_device_state;

static inline tk_device_state *tk_device_state_of(const tolk_device *device) {
    return device->realize;
}
/* TOLK_OK, or TOLK_E_DEVICE_DESTROYED naming it. */
tolk_status tk_device_check(const tolk_device *device, tolk_error *err);
/* With the context: end its queue if nobody did, and free it. */
void tk_device_end(tolk_device *device);

#endif
