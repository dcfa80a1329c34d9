/* SPDX-License-Identifier: MIT */
#include "jit/code.h"

#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLAB_BYTES = 1 << 20, MAX_PAGES = SLAB_BYTES / 4096 };

typedef struct slab {
    struct slab *next;
    char *at;
    size_t bytes, pages, used; /* used: pages that are taken */
    uint8_t taken[MAX_PAGES];  /* of slabs of the usual size; larger ones hold one piece */
} slab;

typedef struct code {
    pthread_mutex_t lock;
    slab *slabs;
    size_t page;
} code;

static void destroy(tolk_ctx *ctx, void *part) {
    code *c = part;
    for (slab *s = c->slabs, *next; s; s = next) {
        next = s->next;
        munmap(s->at, s->bytes);
        tk_alloc_free(&ctx->al, s, sizeof *s);
    }
    pthread_mutex_destroy(&c->lock);
    tk_alloc_free(&ctx->al, c, sizeof *c);
}

static void after_fork(tolk_ctx *ctx, void *part) {
    (void)ctx;
    pthread_mutex_init(&((code *)part)->lock, NULL);
}

/* The state is made on first use; the context's log lock guards that moment. */
static code *state(tolk_ctx *ctx) {
    pthread_mutex_lock(&ctx->log_lock);
    code *c = ctx->part[TK_CTX_CODE];
    if (!c && (c = tk_alloc_zero(&ctx->al, sizeof *c))) {
        pthread_mutex_init(&c->lock, NULL);
        c->page = (size_t)sysconf(_SC_PAGESIZE);
        ctx->part_destroy[TK_CTX_CODE] = destroy;
        ctx->part_fork[TK_CTX_CODE] = after_fork;
        ctx->part[TK_CTX_CODE] = c;
    }
    pthread_mutex_unlock(&ctx->log_lock);
    return c;
}

static slab *new_slab(tolk_ctx *ctx, code *c, size_t bytes) {
    if (bytes < SLAB_BYTES)
        bytes = SLAB_BYTES;
    slab *s = tk_alloc_zero(&ctx->al, sizeof *s);
    if (!s)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        tk_alloc_free(&ctx->al, s, sizeof *s);
        return NULL;
    }
    s->at = at;
    s->bytes = bytes;
    s->pages = bytes / c->page;
    s->next = c->slabs;
    c->slabs = s;
    return s;
}

/* First run of n free pages; pages if there is none. */
static size_t find_run(const slab *s, size_t n) {
    size_t run = 0;
    if (s->bytes > SLAB_BYTES)
        return s->used ? s->pages : n <= s->pages ? 0 : s->pages;
    for (size_t i = 0; i < s->pages; i++) {
        run = s->taken[i] ? 0 : run + 1;
        if (run == n)
            return i + 1 - n;
    }
    return s->pages;
}

static void mark(slab *s, size_t from, size_t n, bool taken) {
    if (s->bytes == SLAB_BYTES)
        memset(s->taken + from, taken, n);
    s->used += taken ? n : 0 - n;
}

tolk_status tk_code_alloc(tolk_ctx *ctx, size_t bytes, tk_code_piece *out, tolk_error *err) {
    code *c = state(ctx);
    if (!c || bytes > SIZE_MAX / 2)
        return tk_status_nomem(err);
    size_t n = (bytes + c->page - 1) / c->page;
    if (!n)
        n = 1;
    pthread_mutex_lock(&c->lock);
    slab *s = c->slabs;
    size_t at = 0;
    while (s && (at = find_run(s, n)) == s->pages)
        s = s->next;
    if (!s && (s = new_slab(ctx, c, n * c->page)))
        at = 0;
    if (s)
        mark(s, at, n, true);
    pthread_mutex_unlock(&c->lock);
    if (!s)
        return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE, "no executable memory (%zu bytes): %s",
                              n * c->page, strerrordesc_np(errno));
    *out = (tk_code_piece){s->at + at * c->page, n * c->page, s};
    if (mprotect(out->at, out->bytes, PROT_READ | PROT_WRITE) != 0) {
        int why = errno;
        tk_code_free(ctx, out);
        return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE, "memory for code: mprotect: %s",
                              strerrordesc_np(why));
    }
    return TOLK_OK;
}

tolk_status tk_code_seal(tolk_ctx *ctx, tk_code_piece *piece, size_t used, tolk_error *err) {
    code *c = ctx->part[TK_CTX_CODE];
    slab *s = piece->slab;
    if (mprotect(piece->at, piece->bytes, PROT_READ | PROT_EXEC) != 0)
        return tk_status_fail(err, TOLK_E_NOMEM, TK_NO_NODE, "memory for code: mprotect: %s",
                              strerrordesc_np(errno));
    __builtin___clear_cache(piece->at, piece->at + piece->bytes);
    size_t keep = (used + c->page - 1) / c->page, n = piece->bytes / c->page;
    if (keep < 1)
        keep = 1;
    if (keep < n && s->bytes == SLAB_BYTES) {
        pthread_mutex_lock(&c->lock);
        mark(s, (size_t)(piece->at - s->at) / c->page + keep, n - keep, false);
        pthread_mutex_unlock(&c->lock);
        piece->bytes = keep * c->page;
    }
    return TOLK_OK;
}

void tk_code_free(tolk_ctx *ctx, const tk_code_piece *piece) {
    code *c = ctx->part[TK_CTX_CODE];
    slab *s = piece->slab;
    if (!c || !s)
        return;
    /* A piece that was never sealed is made like the rest, so that the slab is one mapping. */
    mprotect(piece->at, piece->bytes, PROT_READ | PROT_EXEC);
    pthread_mutex_lock(&c->lock);
    mark(s, (size_t)(piece->at - s->at) / c->page, piece->bytes / c->page, false);
    bool drop = s->used == 0 && s->bytes > SLAB_BYTES;
    if (drop) {
        slab **link = &c->slabs;
        while (*link != s)
            link = &(*link)->next;
        *link = s->next;
    }
    pthread_mutex_unlock(&c->lock);
    if (drop) {
        munmap(s->at, s->bytes);
        tk_alloc_free(&ctx->al, s, sizeof *s);
    }
}

void tk_code_unlink(tolk_ctx *ctx, tk_code_linked *code) {
    if (!code)
        return;
    tk_code_free(ctx, &code->piece);
    tk_alloc_free(&ctx->al, code, sizeof *code);
}
