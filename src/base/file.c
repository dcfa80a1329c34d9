/* SPDX-License-Identifier: MIT */
#include "base/file.h"

#include "base/status.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static tolk_status io_error(tolk_error *err, const char *what, const char *path, int why) {
    return tk_status_fail(err, TOLK_E_IO, TK_NO_NODE, "cannot %s \"%.120s\": %s", what, path,
                          strerrordesc_np(why));
}

static tolk_status read_open(tolk_ctx *ctx, int fd, const char *path, size_t max_bytes, char **out,
                             size_t *len, tolk_error *err) {
    struct stat s;
    if (fstat(fd, &s) != 0)
        return io_error(err, "read", path, errno);
    if (!S_ISREG(s.st_mode))
        return tk_status_fail(err, TOLK_E_IO, TK_NO_NODE,
                              "cannot read \"%.120s\": expected a regular file", path);
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    for (;;) {
        char part[16384];
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int why = errno;
            tk_strbuf_fini(&sb);
            return io_error(err, "read", path, why);
        }
        if (n == 0)
            break;
        if (sb.n + (size_t)n > max_bytes) {
            tk_strbuf_fini(&sb);
            return tk_status_fail(err, TOLK_E_LIMIT, TK_NO_NODE,
                                  "\"%.120s\" has more than %zu bytes", path, max_bytes);
        }
        tk_strbuf_bytes(&sb, part, (size_t)n);
    }
    *out = tk_strbuf_take(&sb, len);
    return *out ? TOLK_OK : tk_status_nomem(err);
}

tolk_status tk_file_read(tolk_ctx *ctx, const char *path, size_t max_bytes, char **out, size_t *len,
                         tolk_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return io_error(err, "open", path, errno);
    tolk_status st = read_open(ctx, fd, path, max_bytes, out, len, err);
    close(fd);
    return st;
}

bool tk_file_put(int fd, const void *bytes, size_t n) {
    struct rlimit most;
    struct stat s;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
        fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
        (n > most.rlim_cur || (uint64_t)s.st_size > most.rlim_cur - n)) {
        errno = EFBIG;
        return false;
    }
    for (const char *p = bytes; n;) {
        ssize_t r = write(fd, p, n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        p += r;
        n -= (size_t)r;
    }
    return true;
}

/* A new file beside path. mkostemp would make it private, and only a change of the process's umask
 * could tell what another would have. *temp: text of base/strbuf.h. */
static int open_beside(tolk_ctx *ctx, const char *path, char **temp) {
    for (int i = 0; i < 1000; i++) {
        tk_strbuf sb;
        tk_strbuf_init(&sb, &ctx->al);
        tk_strbuf_fmt(&sb, "%s.tmp%lld.%d", path, (long long)getpid(), i);
        *temp = tk_strbuf_take(&sb, NULL);
        if (!*temp) {
            errno = ENOMEM;
            return -1;
        }
        int fd = open(*temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0)
            return fd;
        int why = errno;
        tk_strbuf_text_free(&ctx->al, *temp);
        *temp = NULL;
        errno = why;
        if (why != EEXIST)
            return -1;
    }
    return -1;
}

static tolk_status replace(tolk_ctx *ctx, const char *path, const void *bytes, size_t n,
                           tolk_error *err) {
    char *temp;
    int fd = open_beside(ctx, path, &temp), why = errno;
    if (fd < 0)
        return why == ENOMEM ? tk_status_nomem(err) : io_error(err, "write", path, why);
    bool ok = tk_file_put(fd, bytes, n);
    why = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (ok && rename(temp, path) != 0) {
        ok = false;
        why = errno;
    }
    if (!ok)
        unlink(temp);
    tk_strbuf_text_free(&ctx->al, temp);
    return ok ? TOLK_OK : io_error(err, "write", path, why);
}

tolk_status tk_file_write(tolk_ctx *ctx, const char *path, const void *bytes, size_t n,
                          tolk_error *err) {
    struct stat s;
    if (stat(path, &s) != 0)
        return replace(ctx, path, bytes, n, err);
    if (!S_ISREG(s.st_mode))
        return tk_status_fail(err, TOLK_E_IO, TK_NO_NODE,
                              "cannot write \"%.120s\": expected a regular file", path);
    /* Behind a link it is the file that is replaced. */
    char *file = realpath(path, NULL);
    tolk_status st = file ? replace(ctx, file, bytes, n, err) : io_error(err, "write", path, errno);
    free(file);
    return st;
}
