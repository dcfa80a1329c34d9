/* SPDX-License-Identifier: MIT */
#include "support/tk_object.h"

#include <elf.h>
#include <string.h>

typedef struct symbols {
    const char *base;
    size_t n;
    const char *names;
    size_t names_bytes;
} symbols;

static bool find_section(const char *o, size_t len, unsigned type, size_t link, Elf64_Shdr *out) {
    Elf64_Ehdr h;
    if (len < sizeof h)
        return false;
    memcpy(&h, o, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_shentsize != sizeof *out ||
        h.e_shoff + (size_t)h.e_shnum * sizeof *out > len)
        return false;
    for (size_t i = 0; i < h.e_shnum; i++) {
        memcpy(out, o + h.e_shoff + i * sizeof *out, sizeof *out);
        if (type ? out->sh_type == type : i == link)
            return out->sh_offset + out->sh_size <= len;
    }
    return false;
}

static bool open_symbols(const void *object, size_t len, symbols *s) {
    Elf64_Shdr table, names;
    const char *o = object;
    if (!find_section(o, len, SHT_SYMTAB, 0, &table) ||
        !find_section(o, len, 0, table.sh_link, &names))
        return false;
    s->base = o + table.sh_offset;
    s->n = table.sh_size / sizeof(Elf64_Sym);
    s->names = o + names.sh_offset;
    s->names_bytes = names.sh_size;
    return true;
}

static const char *symbol(const symbols *s, size_t i, Elf64_Sym *out) {
    memcpy(out, s->base + i * sizeof *out, sizeof *out);
    return out->st_name < s->names_bytes ? s->names + out->st_name : "(damaged)";
}

const char *tk_object_undefined(const void *object, size_t len) {
    symbols s;
    if (!open_symbols(object, len, &s))
        return "(damaged)";
    for (size_t i = 1; i < s.n; i++) {
        Elf64_Sym sym;
        const char *name = symbol(&s, i, &sym);
        if (sym.st_shndx == SHN_UNDEF)
            return name;
    }
    return NULL;
}

bool tk_object_defines(const void *object, size_t len, const char *name) {
    symbols s;
    if (!open_symbols(object, len, &s))
        return false;
    for (size_t i = 1; i < s.n; i++) {
        Elf64_Sym sym;
        const char *here = symbol(&s, i, &sym);
        if (sym.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(sym.st_info) == STT_FUNC &&
            strcmp(here, name) == 0)
            return true;
    }
    return false;
}
