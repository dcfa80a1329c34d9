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
                       const char *name, const tk_target *target, const char *emit, size_t *len) {
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
    put_setting(&sb, "tier", target->quick ? "quick" : "full");
    if (emit)
        put_setting(&sb, "emit", emit);
    if (emit && opts->symbol)
        put_setting(&sb, "symbol", opts->symbol);
    tk_strbuf_bytes(&sb, text + first, n - first);
    tolk_free_text(ctx, text);
    return tk_strbuf_take(&sb, len);
}

/* Write the file under a name that was not there, DIR/KERNEL-PID-THREAD-N.uop. It appears as a
 * whole: the process may end at any time. False: errno says why. */
static bool write_new(tolk_ctx *ctx, const char *dir, const char *kernel, const char *text,
                      size_t len, char **path) {
    char plain[41];
    size_t n = 0;
    for (; kernel[n] && n + 1 < sizeof plain; n++) {
        char c = kernel[n];
        bool keep = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        plain[n] = keep || c == '_' ? c : '_';
    }
    plain[n] = 0;
    long thread = (long)syscall(SYS_gettid);
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_fmt(&sb, "%s/.%s-%lld-%ld.tmp", dir, plain, (long long)getpid(), thread);
    char *temp = tk_strbuf_take(&sb, NULL);
    /* One of that name is left of a process that is gone. */
    if (temp)
        unlink(temp);
    int fd = temp ? open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    int why = temp ? errno : ENOMEM;
    bool ok = fd >= 0 && tk_file_put(fd, text, len);
    if (fd >= 0 && !ok)
        why = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        why = errno;
    }
    for (int i = 0; ok && !*path && i < 10000; i++) {
        tk_strbuf_init(&sb, &ctx->al);
        tk_strbuf_fmt(&sb, "%s/%s-%lld-%ld-%d.uop", dir, plain, (long long)getpid(), thread, i);
        *path = tk_strbuf_take(&sb, NULL);
        if (*path && link(temp, *path) == 0)
            break;
        why = *path ? errno : ENOMEM;
        ok = why == EEXIST;
        tk_strbuf_text_free(&ctx->al, *path);
        *path = NULL;
    }
    if (fd >= 0)
        unlink(temp);
    tk_strbuf_text_free(&ctx->al, temp);
    errno = why;
    return *path != NULL;
}

void tk_repro_begin(tolk_ctx *ctx, const tolk_uop *kernel, const tolk_compile_opts *opts,
                    const char *name, const tk_target *target, const char *emit, tk_repro *out) {
    out->path = NULL;
    const char *dir = tk_env_get(ctx, "TOLK_REPRO");
    if (!dir)
        return;
    size_t len;
    char *text = make_text(ctx, kernel, opts, name, target, emit, &len);
    if (!text)
        return;
    (void)mkdir(dir, 0777); /* whatever comes of it: the file tells */
    if (!write_new(ctx, dir, tolk_kernel_name(kernel), text, len, &out->path))
        tk_log(ctx, TOLK_LOG_WARNING, "TOLK_REPRO=\"%.300s\": kernel %.60s cannot be written: %s",
               dir, tolk_kernel_name(kernel), strerrordesc_np(errno));
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
