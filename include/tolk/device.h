/* SPDX-License-Identifier: MIT
 *
 * Devices.
 */
#ifndef TOLK_DEVICE_H
#define TOLK_DEVICE_H

#include <tolk/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tolk_device tolk_device;

/* Open a device by name: "CPU" ("cpu", "CPU:0" are the same).
 *
 * Owner:   ctx; the same name gives the same pointer.
 * Errors:  TOLK_E_NO_DEVICE, naming what there is.
 * Threads: any.
 */
TOLK_API tolk_status tolk_device_open(tolk_ctx *ctx, const char *name, tolk_device **out,
                                      tolk_error *err);
/* Number of devices of a context. */
TOLK_API size_t tolk_device_count(tolk_ctx *ctx);
/* Canonical name ("CPU"). Owner: device. */
TOLK_API const char *tolk_device_name(const tolk_device *device);
/* What was found, as one JSON object: name, cpu, isa, lanes, threads, features, ...
 * Owner: the caller, tolk_free_text(). */
TOLK_API tolk_status tolk_device_debug_info(tolk_device *device, char **text, size_t *len);
/* Stop the launches that run on the device now: they end with TOLK_E_CANCELLED, with part of their
 * results written. Later launches are not affected. Async-signal-safe; any thread. */
TOLK_API void tolk_cancel(tolk_device *device);

#ifdef __cplusplus
}
#endif
#endif
