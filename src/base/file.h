/* SPDX-License-Identifier: MIT
 *
 * Whole files.
 */
#ifndef TK_BASE_FILE_H
#define TK_BASE_FILE_H

#include "base/ctx.h"

/* Read a file, at most max_bytes of it. *out: text of base/strbuf.h, *len its bytes. Never waits:
 * what is no regular file is refused. Errors: TOLK_E_IO, TOLK_E_LIMIT, TOLK_E_NOMEM. */
tolk_status tk_file_read(tolk_ctx *ctx, const char *path, size_t max_bytes, char **out, size_t *len,
                         tolk_error *err);
/* Write a file through a temporary one beside it and a rename, so that a reader sees all of it or
 * what was there before; behind a link it is the file that is replaced. What is no regular file is
 * refused. Errors: TOLK_E_IO, TOLK_E_NOMEM. */
tolk_status tk_file_write(tolk_ctx *ctx, const char *path, const void *bytes, size_t n,
                          tolk_error *err);
/* Write all n bytes to a descriptor. False: errno says why. A file that would grow past the limit
 * of this process (which the system answers with SIGXFSZ) is refused with EFBIG. */
bool tk_file_put(int fd, const void *bytes, size_t n);

#endif
