/* SPDX-License-Identifier: MIT */
#include "cpu/cpu_device.h"

#include "base/env.h"
#include "base/status.h"
#include "cpu/cpu_detect.h"
#include "cpu/cpu_graph.h"
#include "cpu/cpu_launch.h"
#include "cpu/cpu_memory.h"
#include "cpu/cpu_object.h"
#include "jit/device.h"

#include <unistd.h>

/* What all CPU devices have in common. */
typedef struct cpu_family {
    tk_host host;
    uint32_t devices;
    uint32_t threads; /* of one launch, as asked for; 0: a device's share of the cores */
} cpu_family;

typedef struct cpu {
    const cpu_family *family;
    uint32_t threads; /* most of one launch */
} cpu;

static const tk_host *host(const tolk_device *device) {
    const cpu *c = device->state;
    return &c->family->host;
}

static tolk_status launch(tolk_device *device, tk_launch *l, tolk_error *err) {
    const cpu *c = device->state;
    return tk_cpu_launch(device, c->threads, l, err);
}

static tolk_status build_graph(tolk_device *device, const tk_graph_node *nodes, size_t n,
                               void **out, tolk_error *err) {
    const cpu *c = device->state;
    return tk_cpu_graph_build(device, c->threads, nodes, n, out, err);
}

static const tk_graph_ops graph_ops = {.build = build_graph,
                                       .set = tk_cpu_graph_set,
                                       .commit = tk_cpu_graph_commit,
                                       .is_small = tk_cpu_graph_is_small,
                                       .launch = tk_cpu_graph_launch,
                                       .destroy = tk_cpu_graph_destroy};

static tolk_status count(tolk_ctx *ctx, void *family, uint32_t *n, tolk_error *err) {
    (void)ctx, (void)err;
    const cpu_family *f = family;
    *n = f->devices;
    return TOLK_OK;
}

/* Its share of the cores, of which there may be less than devices: one at least. */
static uint32_t cores_of(const cpu_family *f, uint32_t ordinal) {
    uint32_t each = f->host.cores / f->devices + (ordinal < f->host.cores % f->devices);
    return each ? each : 1;
}

static tolk_status open_device(tolk_device *device, void *family, uint32_t ordinal,
                               tolk_error *err) {
    cpu *c = tk_alloc_zero(&device->ctx->al, sizeof *c);
    if (!c)
        return tk_status_nomem(err);
    c->family = family;
    c->threads = c->family->threads ? c->family->threads : cores_of(family, ordinal);
    device->state = c;
    return TOLK_OK;
}

static void destroy(tolk_device *device) {
    tk_alloc_free(&device->ctx->al, device->state, sizeof(cpu));
}

static void family_destroy(tolk_ctx *ctx, void *family) {
    tk_alloc_free(&ctx->al, family, sizeof(cpu_family));
}

static tk_target native(const cpu_family *f) {
    tk_target t = {0};
    (void)tk_target_parse(&f->host, "native", &t, NULL); /* a name that every host has */
    return t;
}

static void limits(tolk_ctx *ctx, void *family, uint32_t ordinal, tolk_limits *out) {
    (void)ctx;
    const cpu_family *f = family;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    out->lanes_bytes = native(f).vec_bytes;
    out->total_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    out->warp = 1;
    out->multiprocessors = cores_of(f, ordinal);
    out->has_f64 = out->has_i64 = out->has_f16 = out->has_atomics = out->is_cpu = 1;
}

static void debug_info(const tolk_device *device, tk_strbuf *sb) {
    static const char *const names[TK_FEATURE_COUNT] = {
#define NAME_OF(NAME, text) text,
        TK_TARGET_FEATURES(NAME_OF)
#undef NAME_OF
    };
    const cpu *c = device->state;
    const tk_host *h = &c->family->host;
    tk_target t = native(c->family);
    const char *isa = t.arch == TK_ARCH_AARCH64 ? "neon"
                      : t.avx512                ? "avx512"
                      : t.avx2                  ? "avx2"
                                                : "sse2";
    tk_strbuf_fmt(sb,
                  "\"cpu\": \"%s\", \"model\": \"%s\", \"isa\": \"%s\", \"vec_bytes\": %u, "
                  "\"lanes_f32\": %u, \"threads\": %u, \"cores\": %u, \"l1d_bytes\": %zu, "
                  "\"l2_bytes\": %zu, \"l3_bytes\": %zu, \"features\": [",
                  h->cpu, h->model, isa, t.vec_bytes, t.vec_bytes / 4, c->threads, h->cores,
                  h->l1d_bytes, h->l2_bytes, h->l3_bytes);
    bool first = true;
    for (int i = 0; i < TK_FEATURE_COUNT; i++)
        if (h->features >> i & 1) {
            tk_strbuf_fmt(sb, "%s\"%s\"", first ? "" : ", ", names[i]);
            first = false;
        }
    tk_strbuf_str(sb, "]");
}

/* The loader knows x86-64 objects. */
static const tk_backend backend = {.framework = "CPU",
                                   .priority = 50,
                                   .count = count,
                                   .open = open_device,
                                   .limits = limits,
                                   .family_destroy = family_destroy,
                                   .memory = &tk_cpu_memory,
                                   .host = host,
                                   .is_small = tk_cpu_launch_is_small,
                                   .launch = launch,
                                   .graph = &graph_ops,
                                   .debug_info = debug_info,
                                   .destroy = destroy,
#if defined(__x86_64__)
                                   .check = tk_cpu_object_check,
                                   .load = tk_cpu_object_load
#endif
};

tolk_status tk_cpu_family_add(tolk_ctx *ctx, tolk_error *err) {
    if (ctx->cpu_devices > TK_CPU_DEVICES)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_ctx_opts.cpu_devices is %u, expected at most %d",
                              ctx->cpu_devices, TK_CPU_DEVICES);
    cpu_family *f = tk_alloc_zero(&ctx->al, sizeof *f);
    if (!f)
        return tk_status_nomem(err);
    tk_cpu_detect(&f->host);
    int64_t devices = ctx->cpu_devices ? ctx->cpu_devices
                                       : tk_env_int(ctx, "TOLK_CPU_DEVICES", 1, 1, TK_CPU_DEVICES);
    int64_t threads = ctx->threads ? ctx->threads : tk_env_int(ctx, "TOLK_THREADS", 0, 1, 4096);
    f->devices = (uint32_t)devices;
    f->threads = (uint32_t)threads;
    tolk_status st = tk_family_add(ctx, &backend, f, &f->host, err);
    if (st != TOLK_OK)
        tk_alloc_free(&ctx->al, f, sizeof *f);
    return st;
}
