/* SPDX-License-Identifier: MIT */
#include "base/room.h"

#include <sys/mman.h>

tolk_status tk_room_for(size_t bytes, const char *what, tolk_error *err) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE,
                              "out of memory: %s takes up to %zu MiB, which this process cannot "
                              "have (see ulimit -v)",
                              what, bytes >> 20);
    munmap(p, bytes);
    return TOLK_OK;
}
