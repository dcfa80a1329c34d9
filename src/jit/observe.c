/* SPDX-License-Identifier: MIT */
#include "jit/observe.h"

#include "base/log.h"
#include "jit/gdb.h"
#include "jit/header.h"
#include "jit/perf.h"

#include <elf.h>
#include <string.h>

/* ---- the length of a function ---- */

static bool inside(size_t len, uint64_t at, uint64_t n) {
    return at <= len && n <= len - at;
}

static size_t look_in(const char *bytes, size_t len, const Elf64_Shdr *symtab,
                      const Elf64_Shdr *strtab, const char *symbol) {
    size_t n = strlen(symbol) + 1;
    if (!inside(len, symtab->sh_offset, symtab->sh_size) ||
        !inside(len, strtab->sh_offset, strtab->sh_size))
        return 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symtab->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym s;
        memcpy(&s, bytes + symtab->sh_offset + at, sizeof s);
        if (ELF64_ST_TYPE(s.st_info) == STT_FUNC && s.st_shndx != SHN_UNDEF &&
            inside(strtab->sh_size, s.st_name, n) &&
            memcmp(bytes + strtab->sh_offset + s.st_name, symbol, n) == 0)
            return s.st_size;
    }
    return 0;
}

size_t tk_observe_function_bytes(const void *object, size_t len, const char *symbol) {
    const char *bytes = object;
    Elf64_Ehdr h;
    if (len < sizeof h)
        return 0;
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(len, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr)))
        return 0;
    for (uint32_t i = 0; i < h.e_shnum; i++) {
        Elf64_Shdr symtab, strtab;
        memcpy(&symtab, bytes + h.e_shoff + i * sizeof symtab, sizeof symtab);
        if (symtab.sh_type != SHT_SYMTAB || symtab.sh_link >= h.e_shnum)
            continue;
        memcpy(&strtab, bytes + h.e_shoff + symtab.sh_link * sizeof strtab, sizeof strtab);
        return look_in(bytes, len, &symtab, &strtab, symbol);
    }
    return 0;
}

/* ---- the list ---- */

/* All observed kernels of the process, and the lock around what the observers keep. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tk_observed *list;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The child of a fork is another process to perf: it gets files of its own, of all kernels. */
static void before_fork(void) {
    pthread_mutex_lock(&lock);
}

static void after_fork(void) {
    pthread_mutex_unlock(&lock);
}

static void start(void) {
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

void tk_observe_add(tolk_ctx *ctx, const char *kernel, const void *entry, const void *object,
                    size_t len, const char *symbol, tk_observed **out) {
    *out = NULL;
    char name[TK_HEADER_SYMBOL];
    size_t bytes = tk_observe_function_bytes(object, len, symbol);
    tk_observed *o = bytes ? tk_alloc_zero(&ctx->al, sizeof *o) : NULL;
    if (!o || tk_header_symbol(NULL, kernel, name, NULL) != TOLK_OK) {
        tk_alloc_free(&ctx->al, o, sizeof *o);
        return;
    }
    memcpy(o->name, name, sizeof o->name - 1);
    o->code = entry;
    o->code_bytes = bytes;
    tk_perf_warnings warnings = {{"", ""}};
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
    if (ctx->perf)
        tk_perf_add(ctx, o, list, &warnings);
    if (ctx->gdb)
        tk_gdb_add(ctx, o);
    o->next = list;
    if (list)
        list->prev = o;
    list = o;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 2; i++)
        if (warnings.text[i][0])
            tk_log(ctx, TOLK_LOG_WARNING, "%s", warnings.text[i]);
    *out = o;
}

void tk_observe_remove(tolk_ctx *ctx, tk_observed *o) {
    if (!o)
        return;
    pthread_mutex_lock(&lock);
    tk_gdb_remove(ctx, o);
    if (o->next)
        o->next->prev = o->prev;
    *(o->prev ? &o->prev->next : &list) = o->next;
    pthread_mutex_unlock(&lock);
    tk_alloc_free(&ctx->al, o, sizeof *o);
}
