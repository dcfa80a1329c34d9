/* SPDX-License-Identifier: MIT */
#include "base/env.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>

const char *tk_env_get(const tolk_ctx *ctx, const char *name) {
    if (ctx->no_environment)
        return NULL;
    const char *v = secure_getenv(name);
    return v && *v ? v : NULL;
}

const char *tk_env_of_process(const char *name) {
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

int64_t tk_env_int(tolk_ctx *ctx, const char *name, int64_t fallback, int64_t lo, int64_t hi) {
    const char *text = tk_env_get(ctx, name);
    if (!text)
        return fallback;
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || *end || end == text || v < lo || v > hi) {
        tk_log(ctx, TOLK_LOG_WARNING, "%s=\"%.64s\" ignored: expected a number from %lld to %lld",
               name, text, (long long)lo, (long long)hi);
        return fallback;
    }
    return v;
}
