/* SPDX-License-Identifier: MIT
 *
 * A saved program: header, version of the library that wrote it (text), CPU (text), binary from the
 * next multiple of 16. The texts end with NUL; numbers are little endian.
 */
#include "jit/saved.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "jit/program.h"

#include <stdio.h>
#include <string.h>

typedef struct header {
    char magic[8];
    uint64_t check_lo, check_hi; /* over all that follows */
    uint64_t total_bytes;
    uint64_t format_lo, format_hi; /* what the binary is written in: format() */
    uint32_t n_version, n_cpu;     /* bytes of the texts, their NULs included */
    uint64_t n_binary;
} header;
static const char magic[8] = "tolk\0p1";
enum { CHECKED_FROM = 24, LARGEST_FILE = 1 << 28 };
_Static_assert(offsetof(header, total_bytes) == CHECKED_FROM, "the checksum covers what follows");

/* ---- the format ---- */

/* The binary holds numbers of ops, dtypes and members of structs, and its code knows tolk_kenv: two
 * builds understand each other if and only if these are the same. */
static tk_hash128 format(void) {
    const uint32_t layout[] = {
        TK_META_VERSION,
        TOLK_VERSION_MAJOR,
        TOLK_VERSION_MINOR,
        sizeof(tk_meta),
        sizeof(tk_meta_param),
        sizeof(tk_meta_pair),
        sizeof(tk_expr_step),
        sizeof(tolk_kenv),
        offsetof(tk_meta, name),
        offsetof(tk_meta, span),
        offsetof(tk_meta, scratch_bytes),
        offsetof(tk_meta, scratch_per_thread),
        offsetof(tk_meta, object_bytes),
        offsetof(tk_meta, frame_bytes),
        offsetof(tk_meta, pieces),
        offsetof(tk_meta_param, size),
        offsetof(tolk_kenv, scratch),
        offsetof(tolk_kenv, cancel),
        offsetof(tolk_kenv, fault),
        offsetof(tolk_kenv, fault_index),
        offsetof(tolk_kenv, dynamic_bytes),
    };
    char text[4096]; /* a name more than fits would not be seen: asserted */
    size_t n = sizeof layout;
    memcpy(text, layout, sizeof layout);
    for (int op = 0; op < TK_OP_COUNT; op++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s ", tk_op_get((tk_op)op)->name);
    for (uint32_t dtype = 0; dtype < TOLK_DTYPE_COUNT; dtype++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s ", tolk_dtype_name(dtype));
    TK_ASSERT(n < sizeof text);
    return tk_hash128_bytes(text, n < sizeof text ? n : sizeof text);
}

/* ---- the CPU ---- */

static const char *const arch_names[] = {
    [TK_ARCH_X86_64] = "x86-64", [TK_ARCH_AARCH64] = "aarch64", [TK_ARCH_PTX] = "ptx"};
enum { N_ARCHS = sizeof arch_names / sizeof *arch_names };

/* "x86-64 sse3 avx2": names, as the numbers of features differ between versions. */
static void write_cpu(tk_strbuf *sb, const tk_saved *s) {
    tk_strbuf_str(sb, arch_names[s->arch]);
    for (int f = 0; f < TK_FEATURE_COUNT; f++)
        if (s->features >> f & 1)
            tk_strbuf_fmt(sb, " %s", tk_target_feature_name(f));
}

static tolk_status other_cpu(tolk_error *err, const char *needs, size_t n) {
    return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                          "the program was compiled for another CPU: it needs %.*s, which this "
                          "machine does not have",
                          (int)(n > 40 ? 40 : n), needs);
}

static tolk_status read_cpu(const tk_host *host, const char *text, tk_saved *out, tolk_error *err) {
    size_t n = strcspn(text, " ");
    int arch = 0;
    while (arch < N_ARCHS &&
           (strlen(arch_names[arch]) != n || memcmp(arch_names[arch], text, n) != 0))
        arch++;
    /* PTX is kept on any machine. */
    if (arch == N_ARCHS || ((tk_arch)arch != host->arch && arch != TK_ARCH_PTX))
        return other_cpu(err, text, n);
    out->arch = (tk_arch)arch;
    out->features = 0;
    for (const char *p = text + n; *p; p += n) {
        p++; /* the space */
        n = strcspn(p, " ");
        int f = 0;
        while (f < TK_FEATURE_COUNT && (strlen(tk_target_feature_name(f)) != n ||
                                        memcmp(tk_target_feature_name(f), p, n) != 0))
            f++;
        /* Nobody can say that the machine has a feature without a name here. */
        if (f == TK_FEATURE_COUNT || !(host->features >> f & 1))
            return other_cpu(err, p, n);
        out->features |= (uint64_t)1 << f;
    }
    return TOLK_OK;
}

/* ---- the envelope ---- */

static size_t padded(size_t n) {
    return (n + 15) & ~(size_t)15;
}

void tk_saved_seal(void *bytes, size_t len) {
    if (len < sizeof(header))
        return;
    header h;
    memcpy(&h, bytes, sizeof h);
    tk_hash128 sum = tk_hash128_bytes((char *)bytes + CHECKED_FROM, len - CHECKED_FROM);
    h.check_lo = sum.lo;
    h.check_hi = sum.hi;
    memcpy(bytes, &h, sizeof h);
}

tolk_status tk_saved_write(tolk_ctx *ctx, const tk_saved *s, char **out, size_t *len,
                           tolk_error *err) {
    tk_hash128 f = format();
    header h = {.format_lo = f.lo, .format_hi = f.hi, .n_binary = s->binary_bytes};
    memcpy(h.magic, magic, sizeof magic);
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_bytes(&sb, &h, sizeof h);
    tk_strbuf_fmt(&sb, "%d.%d.%d", TOLK_VERSION_MAJOR, TOLK_VERSION_MINOR, TOLK_VERSION_PATCH);
    tk_strbuf_char(&sb, 0);
    h.n_version = (uint32_t)(sb.n - sizeof h);
    write_cpu(&sb, s);
    tk_strbuf_char(&sb, 0);
    h.n_cpu = (uint32_t)(sb.n - sizeof h - h.n_version);
    while (!sb.failed && sb.n != padded(sb.n))
        tk_strbuf_char(&sb, 0);
    tk_strbuf_bytes(&sb, s->binary, s->binary_bytes);
    char *text = tk_strbuf_take(&sb, len);
    if (!text)
        return tk_status_nomem(err);
    h.total_bytes = *len;
    memcpy(text, &h, sizeof h);
    tk_saved_seal(text, *len);
    *out = text;
    return TOLK_OK;
}

static tolk_status damaged(tolk_error *err, const char *why) {
    return tk_status_fail(err, TOLK_E_PARSE, TK_NO_NODE, "the saved program is damaged: %s", why);
}

/* Does a text of n bytes at `at` end where it says? */
static bool is_text(const char *at, size_t n) {
    return n && strnlen(at, n) == n - 1;
}

tolk_status tk_saved_open(const tk_host *host, const void *bytes, size_t len, tk_saved *out,
                          tolk_error *err) {
    header h;
    if (len < sizeof h || memcmp(bytes, magic, sizeof magic) != 0)
        return tk_status_fail(err, TOLK_E_PARSE, TK_NO_NODE,
                              "not a saved program: expected what tolk_program_save writes");
    memcpy(&h, bytes, sizeof h);
    if (h.total_bytes != len)
        return tk_status_fail(err, TOLK_E_PARSE, TK_NO_NODE,
                              "the saved program is damaged: it says it has %llu bytes, there are "
                              "%zu",
                              (unsigned long long)h.total_bytes, len);
    const char *at = bytes;
    tk_hash128 sum = tk_hash128_bytes(at + CHECKED_FROM, len - CHECKED_FROM);
    if (sum.lo != h.check_lo || sum.hi != h.check_hi)
        return damaged(err, "its checksum is wrong");
    size_t rest = len - sizeof h;
    if (h.n_version > rest || h.n_cpu > rest - h.n_version)
        return damaged(err, "its texts are longer than it");
    const char *version = at + sizeof h, *cpu = version + h.n_version;
    if (!is_text(version, h.n_version) || !is_text(cpu, h.n_cpu))
        return damaged(err, "its texts have no end");
    size_t from = padded(sizeof h + h.n_version + h.n_cpu);
    if (from > len || h.n_binary != len - from)
        return damaged(err, "its parts do not add up");
    tk_hash128 f = format();
    if (h.format_lo != f.lo || h.format_hi != f.hi)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "the program was saved by tolk %.20s in another format than this "
                              "build (%d.%d.%d) reads: compile and save it anew",
                              version, TOLK_VERSION_MAJOR, TOLK_VERSION_MINOR, TOLK_VERSION_PATCH);
    tk_saved s = {.binary = at + from, .binary_bytes = (size_t)h.n_binary};
    TK_TRY(read_cpu(host, cpu, &s, err));
    *out = s;
    return TOLK_OK;
}

/* ---- public ---- */

tolk_status tolk_program_save(const tolk_program *program, char **bytes, size_t *len,
                              tolk_error *err) {
    if (!program || !bytes || !len)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_program_save: an argument is NULL");
    tk_saved s = {.arch = program->arch, .features = program->features};
    s.binary = tk_binary_bytes(program->binary, &s.binary_bytes);
    return tk_saved_write(program->ctx, &s, bytes, len, err);
}

tolk_status tolk_program_save_file(const tolk_program *program, const char *path, tolk_error *err) {
    if (!program || !path)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_program_save_file: an argument is NULL");
    char *bytes;
    size_t len;
    TK_TRY(tolk_program_save(program, &bytes, &len, err));
    tolk_status st = tk_file_write(program->ctx, path, bytes, len, err);
    tolk_free_text(program->ctx, bytes);
    return st;
}

tolk_status tolk_program_load(tolk_device *device, const void *bytes, size_t len,
                              tolk_program **out, tolk_error *err) {
    uint64_t start = tk_phases_now_ns();
    if (!device || (!bytes && len) || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_program_load: an argument is NULL");
    tolk_ctx *ctx = device->ctx;
    tk_ctx_after_fork(ctx);
    tk_saved s;
    TK_TRY(tk_saved_open(device->backend->host(device), bytes, len, &s, err));
    /* Its own copy, aligned. */
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_bytes(&sb, s.binary, s.binary_bytes);
    size_t n;
    char *copy = tk_strbuf_take(&sb, &n);
    if (!copy)
        return tk_status_nomem(err);
    tk_meta_view view;
    if (!tk_meta_open(copy, n, &view) || view.head->is_ptx != (s.arch == TK_ARCH_PTX)) {
        tk_strbuf_text_free(&ctx->al, copy);
        return damaged(err, "what it says of its kernel makes no sense");
    }
    tk_binary *binary = tk_binary_create(ctx, copy, n);
    if (!binary) {
        tk_strbuf_text_free(&ctx->al, copy);
        return tk_status_nomem(err);
    }
    return tk_program_open(device, binary, TOLK_CACHED_SAVED, s.arch, s.features, start, out, err);
}

tolk_status tolk_program_load_file(tolk_device *device, const char *path, tolk_program **out,
                                   tolk_error *err) {
    if (!device || !path || !out)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                              "tolk_program_load_file: an argument is NULL");
    char *bytes;
    size_t len;
    TK_TRY(tk_file_read(device->ctx, path, LARGEST_FILE, &bytes, &len, err));
    tolk_status st = tolk_program_load(device, bytes, len, out, err);
    tolk_free_text(device->ctx, bytes);
    return st;
}
