/* SPDX-License-Identifier: MIT
 *
 * The two names are static: a library's or a program's table of symbols has them as long as it is
 * not stripped, GDB (from version 11 on) looks into each, and no other JIT of the process, LLVM's
 * own among them, meets them.
 */
#include "jit/gdb.h"

#include "base/strbuf.h"

#include <elf.h>
#include <string.h>

/* ---- the interface ---- */

static tk_gdb_descriptor __jit_debug_descriptor __attribute__((used)) = {.version = 1};

/* GDB has a breakpoint here. */
static void __attribute__((noinline, used)) __jit_debug_register_code(void) {
    __asm__ volatile("" ::: "memory");
}

const tk_gdb_descriptor *tk_gdb_list(void) {
    return &__jit_debug_descriptor;
}

static void tell(tk_gdb_entry *entry, uint32_t action) {
    __jit_debug_descriptor.relevant = entry;
    __jit_debug_descriptor.action = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action = 0;
    __jit_debug_descriptor.relevant = NULL;
}

/* ---- the file ---- */

enum { S_NULL, S_TEXT, S_SYMTAB, S_STRTAB, S_SHSTRTAB, N_SECTIONS };
enum { N_SYMBOLS = 2 };
static const char section_names[] = "\0.text\0.symtab\0.strtab\0.shstrtab";

/* Header, section headers, symbols, names, code: everything at its offset in one struct. */
typedef struct file {
    Elf64_Ehdr head;
    Elf64_Shdr section[N_SECTIONS];
    Elf64_Sym symbol[N_SYMBOLS];
    char section_names[sizeof section_names];
    char names[1 + sizeof((tk_observed *)0)->name];
} file;

char *tk_gdb_elf(tolk_ctx *ctx, const tk_observed *o, size_t *len) {
    file f;
    memset(&f, 0, sizeof f);
    const unsigned char ident[] = {ELFMAG0,    ELFMAG1,     ELFMAG2,   ELFMAG3,
                                   ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    memcpy(f.head.e_ident, ident, sizeof ident);
    f.head.e_type = ET_REL;
#if defined(__x86_64__)
    f.head.e_machine = EM_X86_64;
#else
    f.head.e_machine = EM_AARCH64;
#endif
    f.head.e_version = EV_CURRENT;
    f.head.e_shoff = offsetof(file, section);
    f.head.e_ehsize = sizeof f.head;
    f.head.e_shentsize = sizeof *f.section;
    f.head.e_shnum = N_SECTIONS;
    f.head.e_shstrndx = S_SHSTRTAB;
    memcpy(f.section_names, section_names, sizeof section_names);
    memcpy(f.names + 1, o->name, sizeof o->name);
    f.section[S_TEXT] = (Elf64_Shdr){.sh_name = 1,
                                     .sh_type = SHT_PROGBITS,
                                     .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                     .sh_addr = (uintptr_t)o->code, /* GDB needs no more */
                                     .sh_offset = sizeof f,
                                     .sh_size = o->code_bytes,
                                     .sh_addralign = 16};
    f.section[S_SYMTAB] = (Elf64_Shdr){.sh_name = 7,
                                       .sh_type = SHT_SYMTAB,
                                       .sh_offset = offsetof(file, symbol),
                                       .sh_size = sizeof f.symbol,
                                       .sh_link = S_STRTAB,
                                       .sh_info = 1, /* the first that is global */
                                       .sh_addralign = 8,
                                       .sh_entsize = sizeof *f.symbol};
    f.section[S_STRTAB] = (Elf64_Shdr){.sh_name = 15,
                                       .sh_type = SHT_STRTAB,
                                       .sh_offset = offsetof(file, names),
                                       .sh_size = sizeof f.names,
                                       .sh_addralign = 1};
    f.section[S_SHSTRTAB] = (Elf64_Shdr){.sh_name = 23,
                                         .sh_type = SHT_STRTAB,
                                         .sh_offset = offsetof(file, section_names),
                                         .sh_size = sizeof f.section_names,
                                         .sh_addralign = 1};
    f.symbol[1] = (Elf64_Sym){.st_name = 1,
                              .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                              .st_shndx = S_TEXT,
                              .st_size = o->code_bytes};
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_bytes(&sb, &f, sizeof f);
    tk_strbuf_bytes(&sb, o->code, o->code_bytes);
    return tk_strbuf_take(&sb, len);
}

/* ---- kernels ---- */

void tk_gdb_add(tolk_ctx *ctx, tk_observed *o) {
    size_t len = 0;
    char *elf = tk_gdb_elf(ctx, o, &len);
    tk_gdb_entry *entry = elf ? tk_alloc_zero(&ctx->al, sizeof *entry) : NULL;
    if (!entry) {
        tk_strbuf_text_free(&ctx->al, elf);
        return;
    }
    entry->symfile = elf;
    entry->symfile_bytes = len;
    entry->next = __jit_debug_descriptor.first;
    if (entry->next)
        entry->next->prev = entry;
    __jit_debug_descriptor.first = entry;
    o->gdb = entry;
    tell(entry, 1);
}

void tk_gdb_remove(tolk_ctx *ctx, tk_observed *o) {
    tk_gdb_entry *entry = o->gdb;
    if (!entry)
        return;
    if (entry->next)
        entry->next->prev = entry->prev;
    *(entry->prev ? &entry->prev->next : &__jit_debug_descriptor.first) = entry->next;
    tell(entry, 2);
    tk_strbuf_text_free(&ctx->al, (char *)(uintptr_t)entry->symfile);
    tk_alloc_free(&ctx->al, entry, sizeof *entry);
    o->gdb = NULL;
}
