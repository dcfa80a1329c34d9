/* SPDX-License-Identifier: MIT
 *
 * A shared library reaches __cxa_atexit, where destructors of static objects are registered,
 * through an address in its own table of imports (System V gABI, chapter 5, "Dynamic linking").
 * That address is replaced by one of a function which registers a wrapper around the destructor
 * instead. No other library is touched.
 */
#include "base/exit.h"

#include "base/alloc.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { IMPORT_CALL = R_X86_64_JUMP_SLOT, IMPORT_DATA = R_X86_64_GLOB_DAT };
#else
enum { IMPORT_CALL = R_AARCH64_JUMP_SLOT, IMPORT_DATA = R_AARCH64_GLOB_DAT };
#endif

typedef int registrar(void (*fn)(void *), void *arg, void *dso);

static registrar *system_register;
static void (*before)(void);

/* ---- the wrapper ---- */

typedef struct destructor {
    void (*fn)(void *);
    void *arg;
} destructor;

static void destroy(void *p) {
    destructor d = *(destructor *)p;
    tk_alloc_free(&tk_alloc_malloc, p, sizeof d);
    before();
    d.fn(d.arg);
}

static int register_wrapped(void (*fn)(void *), void *arg, void *dso) {
    destructor *d = tk_alloc(&tk_alloc_malloc, sizeof *d);
    if (!d)
        return system_register(fn, arg, dso);
    *d = (destructor){fn, arg};
    int failed = system_register(destroy, d, dso);
    if (failed)
        tk_alloc_free(&tk_alloc_malloc, d, sizeof *d);
    return failed;
}

/* ---- the table of imports ---- */

typedef struct imports {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * calls, *data;
    size_t n_calls, n_data, n_relative; /* the first n_relative of data name no symbol */
} imports;

/* Addresses in a dynamic section are relocated on some systems only. */
static const void *at(const struct link_map *map, ElfW(Addr) address) {
    return (const void *)(address < map->l_addr ? map->l_addr + address : address); /* NOLINT */
}

static imports imports_of(const struct link_map *map) {
    imports t = {0};
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++)
        switch (d->d_tag) {
        case DT_SYMTAB:
            t.symbols = at(map, d->d_un.d_ptr);
            break;
        case DT_STRTAB:
            t.strings = at(map, d->d_un.d_ptr);
            break;
        case DT_JMPREL:
            t.calls = at(map, d->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            t.n_calls = d->d_un.d_val / sizeof *t.calls;
            break;
        case DT_RELA:
            t.data = at(map, d->d_un.d_ptr);
            break;
        case DT_RELASZ:
            t.n_data = d->d_un.d_val / sizeof *t.data;
            break;
        case DT_RELACOUNT:
            t.n_relative = d->d_un.d_val;
            break;
        default:
            break;
        }
    return t;
}

/* Where the address of an imported function stands; NULL: not among these. */
static void **find_import(const struct link_map *map, const imports *t, const ElfW(Rela) * r,
                          size_t n, uint32_t type, const char *name) {
    for (size_t i = 0; t->symbols && t->strings && r && i < n; i++) {
        if (ELF64_R_TYPE(r[i].r_info) != type)
            continue;
        const ElfW(Sym) *s = &t->symbols[ELF64_R_SYM(r[i].r_info)];
        if (s->st_shndx == SHN_UNDEF && strcmp(t->strings + s->st_name, name) == 0)
            return (void **)(map->l_addr + r[i].r_offset); /* NOLINT */
    }
    return NULL;
}

/* ---- replacing the address ---- */

typedef struct sealed {
    uintptr_t base, place; /* of the library; in it */
    bool is_sealed;        /* made read-only after linking */
} sealed;

static int look_at(struct dl_phdr_info *info, size_t bytes, void *user) {
    (void)bytes;
    sealed *s = user;
    if (info->dlpi_addr != s->base)
        return 0;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t from = s->base + h->p_vaddr, to = (from + h->p_memsz) & ~(page - 1);
        if (h->p_type == PT_GNU_RELRO && s->place >= from && s->place < to)
            s->is_sealed = true;
    }
    return 1;
}

static bool replace(const struct link_map *map, void **place, void *with) {
    sealed s = {map->l_addr, (uintptr_t)place, false};
    dl_iterate_phdr(look_at, &s);
    uintptr_t bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)place & ~(bytes - 1)); /* NOLINT */
    if (s.is_sealed && mprotect(page, bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    __atomic_store_n(place, with, __ATOMIC_RELEASE);
    if (s.is_sealed)
        (void)mprotect(page, bytes, PROT_READ);
    return true;
}

/* What is registered points to code of this library: it must not be unloaded. */
static bool stay_loaded(void) {
    Dl_info here;
    struct link_map *map = NULL;
    registrar *fn = register_wrapped;
    void *inside;
    memcpy(&inside, &fn, sizeof inside);
    if (!dladdr1(inside, &here, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return false;
    return !*map->l_name || dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

bool tk_exit_before(const void *inside, void (*first)(void)) {
    static const char name[] = "__cxa_atexit";
    Dl_info library;
    struct link_map *map = NULL;
    if (!dladdr1(inside, &library, (void **)&map, RTLD_DL_LINKMAP) || !map || !*map->l_name)
        return false;
    imports t = imports_of(map);
    void **place = find_import(map, &t, t.calls, t.n_calls, IMPORT_CALL, name);
    if (!place && t.n_relative <= t.n_data)
        place =
            find_import(map, &t, t.data + t.n_relative, t.n_data - t.n_relative, IMPORT_DATA, name);
    void *found = dlsym(RTLD_DEFAULT, name), *mine;
    registrar *fn = register_wrapped;
    if (!place || !found || !stay_loaded())
        return false;
    memcpy(&system_register, &found, sizeof found);
    memcpy(&mine, &fn, sizeof fn);
    before = first;
    return replace(map, place, mine);
}
