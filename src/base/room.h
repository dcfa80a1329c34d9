/* SPDX-License-Identifier: MIT
 *
 * Is there memory for what ends the process where it gets none?
 */
#ifndef TK_BASE_ROOM_H
#define TK_BASE_ROOM_H

#include "base/status.h"

#include <stddef.h>

/* Can the process map so many bytes more? They are not kept: others may take them. Errors:
 * TOLK_E_NOMEM, saying what for. Threads: any. */
tolk_status tk_room_for(size_t bytes, const char *what, tolk_error *err);

#endif
