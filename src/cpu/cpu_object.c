/* SPDX-License-Identifier: MIT
 *
 * Ref: System V ABI, chapters 4 and 5 (sections, symbols, relocation) and its x86-64 supplement,
 * section 4.4.
 */
#include "cpu/cpu_object.h"

#include "base/status.h"

#include <elf.h>
#include <string.h>

enum {
    MAX_SECTIONS = 256,
    MAX_ALIGN = 64,
    MAX_BYTES = 1 << 28,
    NOWHERE = -1 /* the place of a section that is not loaded */
};

typedef struct object {
    const char *bytes;
    size_t len;
    uint32_t n_sections;
    size_t sections_at;          /* the table of sections */
    int32_t place[MAX_SECTIONS]; /* of each section in memory */
    uint32_t size[MAX_SECTIONS];
    bool is_code[MAX_SECTIONS];
    size_t total; /* bytes in memory */
    size_t symbols_at, n_symbols;
    uint32_t symbols_section;
    const char *names;
    size_t n_names;
    uint32_t entry; /* place of the function */
} object;

static tolk_status refuse(tolk_error *err, const char *what) {
    return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE, "a compiled object: %s", what);
}

static bool inside(uint64_t len, uint64_t at, uint64_t n) {
    return at <= len && n <= len - at;
}

static Elf64_Shdr section(const object *o, uint32_t i) {
    Elf64_Shdr s;
    memcpy(&s, o->bytes + o->sections_at + i * sizeof s, sizeof s);
    return s;
}

static Elf64_Sym symbol_of(const object *o, uint64_t i) {
    Elf64_Sym s;
    memcpy(&s, o->bytes + o->symbols_at + i * sizeof s, sizeof s);
    return s;
}

static tolk_status read_header(object *o, tolk_error *err) {
    Elf64_Ehdr h;
    if (o->len < sizeof h || o->len > MAX_BYTES)
        return refuse(err, "its size");
    memcpy(&h, o->bytes, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64 ||
        h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_type != ET_REL || h.e_machine != EM_X86_64)
        return refuse(err, "it is no ELF64 object for x86-64");
    if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shnum > MAX_SECTIONS ||
        !inside(o->len, h.e_shoff, (uint64_t)h.e_shnum * sizeof(Elf64_Shdr)))
        return refuse(err, "its table of sections");
    o->n_sections = h.e_shnum;
    o->sections_at = h.e_shoff;
    return TOLK_OK;
}

/* Give a loaded section its place. */
static tolk_status lay_out(object *o, uint32_t i, const Elf64_Shdr *s, tolk_error *err) {
    uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
    uint64_t known = SHF_ALLOC | SHF_EXECINSTR | SHF_MERGE | SHF_STRINGS;
    if (s->sh_type != SHT_PROGBITS || (s->sh_flags & ~known))
        return refuse(err, "a section that is neither code nor constants");
    if (align > MAX_ALIGN || (align & (align - 1)))
        return refuse(err, "the alignment of a section");
    if (!inside(o->len, s->sh_offset, s->sh_size))
        return refuse(err, "a section that is not in it");
    size_t at = (o->total + align - 1) & ~(size_t)(align - 1);
    /* Sections may overlap in a file, so their sum is bounded on its own. */
    if (at + s->sh_size > MAX_BYTES)
        return refuse(err, "its size");
    o->place[i] = (int32_t)at;
    o->size[i] = (uint32_t)s->sh_size;
    o->is_code[i] = (s->sh_flags & SHF_EXECINSTR) != 0;
    o->total = at + s->sh_size;
    return TOLK_OK;
}

static tolk_status read_symbols(object *o, uint32_t i, const Elf64_Shdr *s, tolk_error *err) {
    if (o->symbols_section)
        return refuse(err, "more than one table of symbols");
    if (s->sh_entsize != sizeof(Elf64_Sym) || !inside(o->len, s->sh_offset, s->sh_size) ||
        s->sh_link >= o->n_sections)
        return refuse(err, "its table of symbols");
    Elf64_Shdr names = section(o, s->sh_link);
    if (names.sh_type != SHT_STRTAB || !inside(o->len, names.sh_offset, names.sh_size))
        return refuse(err, "the names of its symbols");
    o->symbols_section = i;
    o->symbols_at = s->sh_offset;
    o->n_symbols = s->sh_size / sizeof(Elf64_Sym);
    o->names = o->bytes + names.sh_offset;
    o->n_names = names.sh_size;
    return TOLK_OK;
}

static tolk_status read_sections(object *o, tolk_error *err) {
    for (uint32_t i = 0; i < o->n_sections; i++) {
        Elf64_Shdr s = section(o, i);
        o->place[i] = NOWHERE;
        if (s.sh_flags & SHF_ALLOC)
            TK_TRY(lay_out(o, i, &s, err));
        else if (s.sh_type == SHT_SYMTAB)
            TK_TRY(read_symbols(o, i, &s, err));
        else if (s.sh_type != SHT_NULL && s.sh_type != SHT_PROGBITS && s.sh_type != SHT_STRTAB &&
                 s.sh_type != SHT_RELA)
            return refuse(err, "a section of a kind that is not known");
    }
    return o->symbols_section ? TOLK_OK : refuse(err, "it has no table of symbols");
}

/* Is it in a loaded section? */
static bool is_here(const object *o, const Elf64_Sym *s) {
    return s->st_shndx < o->n_sections && o->place[s->st_shndx] != NOWHERE &&
           s->st_value <= o->size[s->st_shndx];
}

static tolk_status find_entry(object *o, const char *symbol, tolk_error *err) {
    size_t n = strlen(symbol) + 1;
    for (uint64_t i = 1; i < o->n_symbols; i++) {
        Elf64_Sym s = symbol_of(o, i);
        if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || !inside(o->n_names, s.st_name, n) ||
            memcmp(o->names + s.st_name, symbol, n) != 0)
            continue;
        if (!is_here(o, &s) || !o->is_code[s.st_shndx] || s.st_value == o->size[s.st_shndx])
            return refuse(err, "its function is not in its code");
        o->entry = (uint32_t)o->place[s.st_shndx] + (uint32_t)s.st_value;
        return TOLK_OK;
    }
    return refuse(err, "it lacks its function");
}

/* One relocation of loaded section `in`: a 32-bit distance. memory: NULL: only look. */
static tolk_status relocate(const object *o, uint32_t in, const Elf64_Rela *r, char *memory,
                            tolk_error *err) {
    uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
    uint64_t number = ELF64_R_SYM(r->r_info);
    if (type != R_X86_64_PC32 && type != R_X86_64_PLT32)
        return refuse(err, "a relocation of a kind that is not known");
    if (!inside(o->size[in], r->r_offset, sizeof(int32_t)) || number >= o->n_symbols)
        return refuse(err, "a relocation that is not in it");
    Elf64_Sym s = symbol_of(o, number);
    if (!is_here(o, &s))
        return refuse(err, "a symbol that it does not define");
    /* Distances inside of a piece: where that lies does not matter. */
    int64_t from = (int64_t)o->place[in] + (int64_t)r->r_offset;
    int64_t to = (int64_t)o->place[s.st_shndx] + (int64_t)s.st_value, sum;
    if (__builtin_add_overflow(to - from, r->r_addend, &sum) || sum < INT32_MIN || sum > INT32_MAX)
        return refuse(err, "a relocation that does not reach");
    int32_t distance = (int32_t)sum;
    if (memory)
        memcpy(memory + from, &distance, sizeof distance);
    return TOLK_OK;
}

static tolk_status relocate_all(const object *o, char *memory, tolk_error *err) {
    for (uint32_t i = 0; i < o->n_sections; i++) {
        Elf64_Shdr s = section(o, i);
        if (s.sh_type != SHT_RELA)
            continue;
        if (s.sh_entsize != sizeof(Elf64_Rela) || !inside(o->len, s.sh_offset, s.sh_size) ||
            s.sh_info >= o->n_sections || s.sh_link != o->symbols_section)
            return refuse(err, "its table of relocations");
        if (o->place[s.sh_info] == NOWHERE) /* of what is not loaded */
            continue;
        for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= s.sh_size; at += sizeof(Elf64_Rela)) {
            Elf64_Rela r;
            memcpy(&r, o->bytes + s.sh_offset + at, sizeof r);
            TK_TRY(relocate(o, s.sh_info, &r, memory, err));
        }
    }
    return TOLK_OK;
}

static tolk_status look_at(object *o, const void *bytes, size_t len, const char *symbol,
                           tolk_error *err) {
    o->bytes = bytes;
    o->len = len;
    o->total = 0;
    o->symbols_section = 0;
    TK_TRY(read_header(o, err));
    TK_TRY(read_sections(o, err));
    TK_TRY(find_entry(o, symbol, err));
    return relocate_all(o, NULL, err);
}

tolk_status tk_cpu_object_check(const void *bytes, size_t len, const char *symbol, size_t *total,
                                tolk_error *err) {
    object o;
    TK_TRY(look_at(&o, bytes, len, symbol, err));
    if (total)
        *total = o.total;
    return TOLK_OK;
}

static void copy_sections(const object *o, char *memory) {
    memset(memory, 0, o->total);
    for (uint32_t i = 0; i < o->n_sections; i++)
        if (o->place[i] != NOWHERE)
            memcpy(memory + o->place[i], o->bytes + section(o, i).sh_offset, o->size[i]);
}

tolk_status tk_cpu_object_load(tolk_ctx *ctx, const void *bytes, size_t len, const char *symbol,
                               tk_code_linked **out, void **entry, tolk_error *err) {
    object o;
    TK_TRY(look_at(&o, bytes, len, symbol, err));
    tk_code_linked *code = tk_alloc_zero(&ctx->al, sizeof *code);
    if (!code)
        return tk_status_nomem(err);
    tolk_status st = tk_code_alloc(ctx, o.total, &code->piece, err);
    if (st != TOLK_OK) {
        tk_alloc_free(&ctx->al, code, sizeof *code);
        return st;
    }
    copy_sections(&o, code->piece.at);
    st = relocate_all(&o, code->piece.at, err);
    if (st == TOLK_OK)
        st = tk_code_seal(ctx, &code->piece, o.total, err);
    if (st != TOLK_OK) {
        tk_code_unlink(ctx, code);
        return st;
    }
    code->used = o.total;
    *entry = code->piece.at + o.entry;
    *out = code;
    return TOLK_OK;
}
