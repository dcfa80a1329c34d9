/* SPDX-License-Identifier: MIT */
#include "cpu/cpu_device.h"

#include "base/env.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "cpu/cpu_detect.h"
#include "cpu/cpu_launch.h"
#include "cpu/cpu_object.h"
#include "jit/device.h"

typedef struct cpu {
    tk_host host;
    uint32_t threads; /* most of one launch */
} cpu;

static const tk_host *host(const tolk_device *device) {
    const cpu *c = device->state;
    return &c->host;
}

static tolk_status launch(tolk_device *device, tk_launch *l, tolk_error *err) {
    const cpu *c = device->state;
    return tk_cpu_launch(device, c->threads, l, err);
}

static tolk_status debug_info(tolk_device *device, char **text, size_t *len) {
    static const char *const names[TK_FEATURE_COUNT] = {
#define NAME_OF(NAME, text) text,
        TK_TARGET_FEATURES(NAME_OF)
#undef NAME_OF
    };
    const cpu *c = device->state;
    tk_target native;
    tolk_status st = tk_target_parse(&c->host, "native", &native, NULL);
    if (st != TOLK_OK)
        return st;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &device->ctx->al);
    const char *isa = native.arch == TK_ARCH_AARCH64 ? "neon"
                      : native.avx512                ? "avx512"
                      : native.avx2                  ? "avx2"
                                                     : "sse2";
    tk_strbuf_fmt(&sb,
                  "{\"name\": \"%s\", \"framework\": \"%s\", \"cpu\": \"%s\", \"model\": \"%s\", "
                  "\"isa\": \"%s\", \"vec_bytes\": %u, \"lanes_f32\": %u, \"threads\": %u, "
                  "\"cores\": %u, \"l1d_bytes\": %zu, \"l2_bytes\": %zu, \"l3_bytes\": %zu, "
                  "\"features\": [",
                  device->name, device->backend->framework, c->host.cpu, c->host.model, isa,
                  native.vec_bytes, native.vec_bytes / 4, c->threads, c->host.cores,
                  c->host.l1d_bytes, c->host.l2_bytes, c->host.l3_bytes);
    bool first = true;
    for (int i = 0; i < TK_FEATURE_COUNT; i++)
        if (c->host.features >> i & 1) {
            tk_strbuf_fmt(&sb, "%s\"%s\"", first ? "" : ", ", names[i]);
            first = false;
        }
    tk_strbuf_str(&sb, "]}");
    *text = tk_strbuf_take(&sb, len);
    return *text ? TOLK_OK : TOLK_E_NOMEM;
}

static void destroy(tolk_device *device) {
    tk_alloc_free(&device->ctx->al, device->state, sizeof(cpu));
}

/* The loader knows x86-64 objects. */
static const tk_backend backend = {.framework = "CPU",
                                   .host = host,
                                   .is_small = tk_cpu_launch_is_small,
                                   .launch = launch,
                                   .debug_info = debug_info,
                                   .destroy = destroy,
#if defined(__x86_64__)
                                   .check = tk_cpu_object_check,
                                   .load = tk_cpu_object_load
#endif
};

tolk_status tk_cpu_device_register(tolk_ctx *ctx, tolk_error *err) {
    cpu *c = tk_alloc_zero(&ctx->al, sizeof *c);
    if (!c)
        return tk_status_nomem(err);
    tk_cpu_detect(&c->host);
    int64_t asked = ctx->threads ? ctx->threads : tk_env_int(ctx, "TOLK_THREADS", 0, 1, 4096);
    c->threads = asked ? (uint32_t)asked : c->host.cores;
    tolk_status st = tk_device_register(ctx, &backend, "CPU", c, err);
    if (st != TOLK_OK)
        tk_alloc_free(&ctx->al, c, sizeof *c);
    return st;
}
