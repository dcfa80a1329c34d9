/* SPDX-License-Identifier: MIT
 *
 * The library as a whole: what knows every layer.
 */
#include <tolk/tolk.h>

#include "base/ctx.h"
#include "base/env.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "cpu/cpu_device.h"
#include "jit/code_hash.h"
#include "jit/pipeline.h"
#include "realize/realize.h"

#include <string.h>

/* A letter that no pass has is most likely a mistake. */
static void check_dump(tolk_ctx *ctx) {
    char known[TK_PIPELINE_LETTERS];
    tk_pipeline_letters(known);
    const char *letters = tk_env_get(ctx, "TOLK_DUMP");
    if (letters && letters[strspn(letters, known)])
        tk_log(ctx, TOLK_LOG_WARNING,
               "TOLK_DUMP=\"%.64s\": there is no pass of letter '%c', expected letters of %s",
               letters, letters[strspn(letters, known)], known);
}

tolk_status tolk_ctx_create(const tolk_ctx_opts *opts, tolk_ctx **out, tolk_error *err) {
    if (!out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_ctx_create: out is NULL");
    tolk_ctx *ctx;
    TK_TRY(tk_ctx_init(opts, &ctx, err));
    tolk_status st = tk_realize_create(ctx, err);
    if (st == TOLK_OK)
        st = tk_cpu_family_add(ctx, err);
    if (st != TOLK_OK) {
        tk_ctx_fini(ctx);
        return st;
    }
    check_dump(ctx);
    *out = ctx;
    return TOLK_OK;
}

void tolk_ctx_destroy(tolk_ctx *ctx) {
    tk_ctx_fini(ctx);
}

void tolk_free_text(tolk_ctx *ctx, char *text) {
    if (ctx)
        tk_strbuf_text_free(&ctx->al, text);
}

uint32_t tolk_version(void) {
    return TOLK_VERSION_MAJOR << 16 | TOLK_VERSION_MINOR << 8 | TOLK_VERSION_PATCH;
}

/* A JSON list of what each device of a family says. */
static tolk_status put_devices(tolk_ctx *ctx, const char *family, tk_strbuf *sb) {
    size_t n, cap;
    tolk_device **list = NULL;
    TK_TRY(tolk_device_list(ctx, family, NULL, 0, &cap, NULL));
    if (family && !cap)
        return TOLK_E_NO_DEVICE;
    list = tk_alloc(&ctx->al, cap * sizeof *list);
    tolk_status st = list ? tolk_device_list(ctx, family, list, cap, &n, NULL) : TOLK_E_NOMEM;
    tk_strbuf_char(sb, '[');
    for (size_t i = 0; st == TOLK_OK && i < n && i < cap; i++) {
        char *text;
        size_t len;
        st = tolk_device_debug_info(list[i], &text, &len);
        if (st != TOLK_OK)
            break;
        tk_strbuf_str(sb, i ? ", " : "");
        tk_strbuf_bytes(sb, text, len);
        tolk_free_text(ctx, text);
    }
    tk_strbuf_char(sb, ']');
    tk_alloc_free(&ctx->al, list, cap * sizeof *list);
    return st;
}

tolk_status tolk_debug_info(tolk_ctx *ctx, const char *family, char **text, size_t *len) {
    if (!ctx || !text || !len)
        return TOLK_E_ARG;
    tolk_cache_stats stats;
    tolk_kernel_cache_stats kernels;
    TK_TRY(tolk_cache_get_stats(ctx, &stats));
    TK_TRY(tolk_kernel_cache_get_stats(ctx, &kernels));
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_fmt(&sb,
                  "{\"version\": \"%d.%d.%d\", \"llvm\": \"%s\", \"devices\": ", TOLK_VERSION_MAJOR,
                  TOLK_VERSION_MINOR, TOLK_VERSION_PATCH, tk_code_llvm);
    tolk_status st = put_devices(ctx, family, &sb);
    tk_strbuf_str(&sb, ", \"cache\": {\"dir\": ");
    tk_strbuf_json(&sb, stats.disk_dir);
    tk_strbuf_fmt(&sb, ", \"entries\": %llu, \"bytes\": %llu, \"limit_bytes\": %llu}, ",
                  (unsigned long long)stats.disk_entries, (unsigned long long)stats.disk_bytes,
                  (unsigned long long)ctx->cache_bytes);
    tk_strbuf_fmt(&sb, "\"kernels\": {\"entries\": %llu, \"hits\": %llu, \"misses\": %llu}, ",
                  (unsigned long long)kernels.entries, (unsigned long long)kernels.hits,
                  (unsigned long long)kernels.misses);
    tk_strbuf_str(&sb, "\"problems\": [");
    if (!stats.disk_dir[0] && !ctx->no_disk_cache)
        tk_strbuf_str(&sb,
                      "\"there is no usable cache directory: each process compiles its kernels "
                      "anew (set TOLK_CACHE_DIR, XDG_CACHE_HOME or HOME to a directory of "
                      "yours)\"");
    tk_strbuf_str(&sb, "]}");
    if (st != TOLK_OK) {
        tk_strbuf_fini(&sb);
        return st;
    }
    *text = tk_strbuf_take(&sb, len);
    return *text ? TOLK_OK : TOLK_E_NOMEM;
}
