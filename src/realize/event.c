/* SPDX-License-Identifier: MIT
 *
 * The public functions of queues and events.
 */
#include "base/status.h"
#include "realize/state.h"

struct tolk_event {
    tolk_ctx *ctx;
    tk_watch watch;
};

/* The queue of a device that a caller gave, or NULL and the error. */
static tk_queue *queue_of(const tolk_device *device, const char *call, tolk_error *err) {
    if (device && device->realize)
        return tk_device_state_of(device)->queue;
    tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: the device is NULL", call);
    return NULL;
}

/* ---- queue ---- */

tolk_status tolk_queue_submit(tolk_device *device, tolk_task_fn fn, void *arg,
                              tolk_release_fn release, const char *label, tolk_error *err) {
    tk_queue *q = queue_of(device, "tolk_queue_submit", err);
    if (!q)
        return TOLK_E_ARG;
    if (!fn)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_queue_submit: fn is NULL");
    tk_command c = {.run = fn, .release = release, .arg = arg, .label = label};
    return tk_queue_submit(q, &c, NULL, err);
}

tolk_status tolk_device_await(tolk_device *device, tolk_error *err) {
    tk_queue *q = queue_of(device, "tolk_device_await", err);
    return q ? tk_queue_await(q, err) : TOLK_E_ARG;
}

int tolk_device_is_idle(const tolk_device *device) {
    const tk_queue *q = queue_of(device, "", NULL);
    return q ? tk_queue_idle(q) : 1;
}

tolk_status tolk_device_recover(tolk_device *device, tolk_error *err) {
    tk_queue *q = queue_of(device, "tolk_device_recover", err);
    return q ? tk_queue_recover(q, err) : TOLK_E_ARG;
}

/* ---- events ---- */

static tolk_status record(tolk_device *device, const char *call, tolk_event **out,
                          tolk_error *err) {
    tk_queue *q = queue_of(device, call, err);
    if (!q)
        return TOLK_E_ARG;
    if (!out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "%s: out is NULL", call);
    tolk_event *e = tk_alloc_zero(&device->ctx->al, sizeof *e);
    if (!e)
        return tk_status_nomem(err);
    e->ctx = device->ctx;
    tolk_status st = tk_queue_mark(q, &e->watch, err);
    if (st == TOLK_OK)
        *out = e;
    else
        tk_alloc_free(&e->ctx->al, e, sizeof *e);
    return st;
}

tolk_status tolk_event_record(tolk_device *device, tolk_event **out, tolk_error *err) {
    return record(device, "tolk_event_record", out, err);
}

tolk_status tolk_device_all_work(tolk_device *device, tolk_event **out, tolk_error *err) {
    return record(device, "tolk_device_all_work", out, err);
}

tolk_status tolk_event_sync(tolk_event *event, tolk_error *err) {
    if (!event)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_event_sync: the event is NULL");
    return tk_queue_wait_watched(&event->watch, err);
}

int tolk_event_is_done(const tolk_event *event) {
    return event && tk_queue_done_watched(&event->watch);
}

tolk_status tolk_device_wait_for(tolk_device *device, tolk_event *event, tolk_error *err) {
    tk_queue *q = queue_of(device, "tolk_device_wait_for", err);
    if (!q)
        return TOLK_E_ARG;
    if (!event)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_device_wait_for: the event is NULL");
    if (event->ctx != device->ctx) /* which may go before the wait does */
        return tk_status_fail(err, TOLK_E_DEVICE, TK_NO_NODE,
                              "tolk_device_wait_for: the event is of another context than device "
                              "%s",
                              device->name);
    return tk_queue_wait_for(q, &event->watch, err);
}

void tolk_event_destroy(tolk_event *event) {
    if (!event)
        return;
    tk_queue_unwatch(&event->watch);
    tk_alloc_free(&event->ctx->al, event, sizeof *event);
}
