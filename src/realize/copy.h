/* SPDX-License-Identifier: MIT
 *
 * Moving bytes in the order of a queue.
 */
#ifndef TK_REALIZE_COPY_H
#define TK_REALIZE_COPY_H

#include "realize/buffer.h"
#include "realize/state.h"

/* Submit to the device of dst: dst, of the same number of bytes, becomes what src is, by way of
 * host memory where their families cannot do it themselves. The pieces are the caller's. Errors:
 * TOLK_E_NOMEM, TOLK_E_DEVICE (another context), those of tk_queue_submit. */
tolk_status tk_copy_pieces(tolk_device *dst_device, const tk_piece *dst, tolk_device *src_device,
                           const tk_piece *src, tolk_error *err);
/* tolk_buffer_copy(). awaited: the caller waits for it right away, so on idle queues it runs on
 * this thread, however long it takes. */
tolk_status tk_copy_buffers(tolk_buffer *dst, tolk_buffer *src, bool awaited, tolk_error *err);
/* What copies keep for a device in its state. fini: also after a failure. */
tolk_status tk_copy_init(tolk_ctx *ctx, tk_device_state *s, tolk_error *err);
void tk_copy_fini(tolk_ctx *ctx, tk_device_state *s);
/* Room of a copy that waits in a queue. */
size_t tk_copy_waiting_bytes(void);
/* What tolk_buffer_copy() would refuse; dst has memory then. */
tolk_status tk_copy_check(tolk_buffer *dst, tolk_buffer *src, tolk_error *err);
/* Submit: zeros. */
tolk_status tk_copy_zero(tolk_device *device, const tk_piece *piece, tolk_error *err);

#endif
