/* SPDX-License-Identifier: MIT
 *
 * The file is the kernel's text with a few comments behind its first line, one a setting:
 *
 *     tolk.uop 1
 *     ; tolk-repro target="native,-fma"
 *     ; tolk-repro opts="LANE:0:4"
 *
 * Strings have JSON's escapes. tools/source.c reads them.
 */
#include "jit/repro.h"

#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void put_setting(tk_strbuf *sb, const char *key, const char *value) {
    tk_strbuf_fmt(sb, "; tolk-repro %s=", key);
    tk_strbuf_json(sb, value);
    tk_strbuf_char(sb, '\n');
}

/* The whole file. NULL without memory. */
static char *make_text(tolk_ctx *ctx, const tolk_uop *kernel, const tolk_compile_opts *opts,
                       const char *name, const tk_target *target, size_t *len) {
    char *text;
    size_t n;
    if (tolk_print(kernel, &text, &n) != TOLK_OK)
        return NULL;
    const char *rest = memchr(text, '\n', n);
    size_t first = rest ? (size_t)(rest + 1 - text) : n;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_bytes(&sb, text, first);
    tk_strbuf_fmt(&sb,
                  "; This kernel failed to compile with tolk %d.%d.%d, or ended the process that "
                  "compiled it;\n; tolk-jit run, emit and verify use the settings below where they "
                  "are given no others.\n; The target was %s: %s\n",
                  TOLK_VERSION_MAJOR, TOLK_VERSION_MINOR, TOLK_VERSION_PATCH, target->cpu,
                  target->features);
    put_setting(&sb, "target", name ? name : "native");
    if (opts->opts)
        put_setting(&sb, "opts", opts->opts);
    put_setting(&sb, "bounds", opts->bounds == TOLK_BOUNDS_TRUST ? "trust" : "check");
    if (opts->strict)
        put_setting(&sb, "strict", "1");
    tk_strbuf_bytes(&sb, text + first, n - first);
    tolk_free_text(ctx, text);
    return tk_strbuf_take(&sb, len);
}

/* A file that was not there: DIR/KERNEL-PID-THREAD-N.uop. */
static int open_new(tolk_ctx *ctx, const char *dir, const char *kernel, char **path) {
    char plain[41];
    size_t n = 0;
    for (; kernel[n] && n + 1 < sizeof plain; n++) {
        char c = kernel[n];
        bool keep = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        plain[n] = keep || c == '_' ? c : '_';
    }
    plain[n] = 0;
    for (int i = 0; i < 10000; i++) {
        tk_strbuf sb;
        tk_strbuf_init(&sb, &ctx->al);
        tk_strbuf_fmt(&sb, "%s/%s-%lld-%ld-%d.uop", dir, plain, (long long)getpid(),
                      (long)syscall(SYS_gettid), i);
        *path = tk_strbuf_take(&sb, NULL);
        int fd = *path ? open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
        if (fd >= 0 || !*path)
            return fd;
        int why = errno;
        tk_strbuf_text_free(&ctx->al, *path);
        *path = NULL;
        errno = why;
        if (why != EEXIST)
            return -1;
    }
    return -1;
}

void tk_repro_begin(tolk_ctx *ctx, const tolk_uop *kernel, const tolk_compile_opts *opts,
                    const char *name, const tk_target *target, tk_repro *out) {
    out->path = NULL;
    const char *dir = tk_env_get(ctx, "TOLK_REPRO");
    if (!dir)
        return;
    size_t len;
    char *text = make_text(ctx, kernel, opts, name, target, &len);
    if (!text)
        return;
    (void)mkdir(dir, 0777); /* whatever comes of it: the file tells */
    int fd = open_new(ctx, dir, tolk_kernel_name(kernel), &out->path);
    bool ok = fd >= 0 && tk_file_put(fd, text, len);
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (!ok) {
        tk_log(ctx, TOLK_LOG_WARNING, "TOLK_REPRO=\"%.300s\": kernel %.60s cannot be written: %s",
               dir, tolk_kernel_name(kernel), strerrordesc_np(why));
        if (out->path)
            unlink(out->path);
        tk_strbuf_text_free(&ctx->al, out->path);
        out->path = NULL;
    }
    tk_strbuf_text_free(&ctx->al, text);
}

void tk_repro_end(tolk_ctx *ctx, tk_repro *repro, tolk_status st) {
    if (!repro->path)
        return;
    if (st == TOLK_OK)
        unlink(repro->path);
    else
        tk_log(ctx, TOLK_LOG_WARNING, "the kernel that failed to compile is in \"%.700s\"",
               repro->path);
    tk_strbuf_text_free(&ctx->al, repro->path);
    repro->path = NULL;
}
