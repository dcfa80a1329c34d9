/* SPDX-License-Identifier: MIT
 *
 * What perf and GDB are told: the files and the list are read as their documentation says, with
 * kernels of several contexts, dropped ones, and in the child of a fork.
 * tests/tool/test_observers.sh asks the real programs.
 */
#include "support/runtime.h"

#include "base/strbuf.h"
#include "jit/gdb.h"
#include "jit/observe.h"
#include "jit/perf.h"

#include <elf.h>
#include <sys/wait.h>

static void open_with(rt *r, const char *variable) {
    setenv(variable, "1", 1);
    rt_open(r, NULL, NULL);
    unsetenv(variable);
}

static const char *kernel_named(const char *name) {
    return rt_text("tolk.uop 1\n"
                   "%%0 = param f32 {slot=0, name=\"y\"}\n"
                   "%%1 = index f32 (%%0)\n"
                   "%%2 = const f32 1\n"
                   "%%3 = store void (%%1, %%2)\n"
                   "%%4 = sink void (%%3) {name=\"%s\"}\n",
                   name);
}

/* ---- GDB ---- */

static int gdb_count(void) {
    int n = 0;
    const tk_gdb_entry *before = NULL;
    for (const tk_gdb_entry *e = tk_gdb_list()->first; e; e = e->next, n++) {
        assert_ptr_equal(e->prev, before);
        before = e;
    }
    return n;
}

/* The function that an ELF file in memory tells of. */
static void read_elf(const char *bytes, size_t len, const char **name, uint64_t *at,
                     uint64_t *size) {
    const Elf64_Ehdr *h = (const void *)bytes;
    assert_true(len > sizeof *h);
    assert_memory_equal(h->e_ident,
                        "\x7f"
                        "ELF\2\1\1",
                        7);
    assert_int_equal(h->e_type, ET_REL);
    assert_true(h->e_shoff + (uint64_t)h->e_shnum * sizeof(Elf64_Shdr) <= len);
    const Elf64_Shdr *s = (const void *)(bytes + h->e_shoff);
    const char *names = bytes + s[h->e_shstrndx].sh_offset;
    int text = 0, symtab = 0;
    for (int i = 1; i < h->e_shnum; i++) {
        assert_true(s[i].sh_offset + s[i].sh_size <= len);
        if (strcmp(names + s[i].sh_name, ".text") == 0)
            text = i;
        if (strcmp(names + s[i].sh_name, ".symtab") == 0 && s[i].sh_type == SHT_SYMTAB)
            symtab = i;
    }
    assert_true(text && symtab);
    const Elf64_Sym *sym = (const void *)(bytes + s[symtab].sh_offset);
    assert_int_equal(s[symtab].sh_size, 2 * sizeof *sym);
    assert_int_equal(sym[1].st_shndx, text);
    assert_int_equal(ELF64_ST_TYPE(sym[1].st_info), STT_FUNC);
    *name = bytes + s[s[symtab].sh_link].sh_offset + sym[1].st_name;
    *at = s[text].sh_addr + sym[1].st_value;
    *size = sym[1].st_size;
    assert_memory_equal(bytes + s[text].sh_offset, (const void *)(uintptr_t)*at, *size);
}

static void test_gdb_list_follows_the_kernels(void **state) {
    (void)state;
    rt a, b, off;
    open_with(&a, "TOLK_GDB");
    open_with(&b, "TOLK_GDB");
    rt_open(&off, NULL, NULL);
    assert_int_equal(tk_gdb_list()->version, 1);
    assert_int_equal(gdb_count(), 0);
    tolk_program *p = rt_compile(&a, kernel_named("one")), *q = rt_compile(&b, kernel_named("two")),
                 *o = rt_compile(&off, kernel_named("three"));
    assert_int_equal(gdb_count(), 2);
    assert_int_equal(tk_gdb_list()->action, 0);
    const char *name;
    uint64_t at, size;
    const tk_gdb_entry *e = tk_gdb_list()->first;
    read_elf(e->symfile, e->symfile_bytes, &name, &at, &size);
    assert_string_equal(name, "tolk_kernel_two");
    assert_true(size > 0 && size < 4096);
    char perms[5];
    rt_perms((void *)(uintptr_t)at, perms);
    assert_string_equal(perms, "r-xp");
    read_elf(e->next->symfile, e->next->symfile_bytes, &name, &at, &size);
    assert_string_equal(name, "tolk_kernel_one");

    /* one entry for two programs of one kernel */
    tolk_program *again = rt_compile(&a, kernel_named("one"));
    assert_int_equal(gdb_count(), 2);
    tolk_program_unref(p);
    tolk_program_unref(again);
    tolk_program_unref(q);
    tolk_program_unref(o);
    assert_int_equal(gdb_count(), 2); /* the caches keep them */
    assert_int_equal(tolk_cache_clear(b.ctx, NULL), TOLK_OK);
    assert_int_equal(gdb_count(), 1);
    rt_close(&a);
    rt_close(&b);
    rt_close(&off);
    assert_int_equal(gdb_count(), 0);
}

/* ---- perf ---- */

static char *read_file(const char *fmt, pid_t pid, size_t *len) {
    static char bytes[1 << 16];
    char path[64];
    snprintf(path, sizeof path, fmt, (int)pid);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    *len = fread(bytes, 1, sizeof bytes - 1, f);
    bytes[*len] = 0;
    fclose(f);
    return bytes;
}

static void remove_files(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)pid);
    unlink(path);
    snprintf(path, sizeof path, "/tmp/jit-%d.dump", (int)pid);
    unlink(path);
}

/* Names in the dump, with a space behind each; every record is as the format says. */
static void read_dump(const char *bytes, size_t len, pid_t pid, char *names, size_t room) {
    uint32_t w[6];
    uint64_t when, last;
    assert_true(len >= 40);
    memcpy(w, bytes, sizeof w);
    assert_int_equal(w[0], 0x4a695444);
    assert_int_equal(w[1], 1);
    assert_int_equal(w[2], 40);
#if defined(__x86_64__)
    assert_int_equal(w[3], EM_X86_64);
#endif
    assert_int_equal(w[5], pid);
    memcpy(&last, bytes + 24, 8);
    size_t at = 40, n = 0;
    for (uint64_t index = 0; at < len; index++) {
        uint64_t code[4];
        assert_true(at + 56 <= len);
        memcpy(w, bytes + at, 8);
        memcpy(&when, bytes + at + 8, 8);
        assert_int_equal(w[0], 0);
        assert_true(when >= last);
        last = when;
        memcpy(w + 2, bytes + at + 16, 8);
        assert_int_equal(w[2], pid);
        memcpy(code, bytes + at + 24, 32);
        assert_int_equal(code[0], code[1]);
        assert_int_equal(code[3], index);
        const char *name = bytes + at + 56;
        assert_int_equal(w[1], 56 + strlen(name) + 1 + code[2]);
        assert_true(at + w[1] <= len);
        n += (size_t)snprintf(names + n, room - n, "%s ", name);
        at += w[1];
    }
}

static int in_child(void *arg) {
    rt *r = arg;
    rt_compile(r, kernel_named("child"));
    size_t len;
    char *map = read_file("/tmp/perf-%d.map", getpid(), &len);
    /* what the parent compiled is there, too */
    int good = map && strstr(map, " tolk_kernel_one\n") && strstr(map, " tolk_kernel_two\n") &&
               strstr(map, " tolk_kernel_child\n");
    char names[256] = "", *dump = read_file("/tmp/jit-%d.dump", getpid(), &len);
    if (dump)
        read_dump(dump, len, getpid(), names, sizeof names);
    good = good && strstr(names, "tolk_kernel_one ") && strstr(names, "tolk_kernel_child ");
    remove_files(getpid());
    return good ? 0 : 1;
}

static void test_perf_files_tell_names_and_code(void **state) {
    (void)state;
    rt r, off;
    size_t len;
    char names[256] = "";
    rt_open(&off, NULL, NULL);
    tolk_program *zero = rt_compile(&off, kernel_named("zero"));
    assert_null(read_file("/tmp/perf-%d.map", getpid(), &len));
    open_with(&r, "TOLK_PERF");
    assert_null(read_file("/tmp/perf-%d.map", getpid(), &len)); /* no kernel, no file */
    tolk_program *one = rt_compile(&r, kernel_named("one"));
    tolk_program *p = rt_compile(&r, kernel_named("two")), *q = rt_compile(&r, kernel_named("two"));
    assert_ptr_not_equal(p, q);
    char *map = read_file("/tmp/perf-%d.map", getpid(), &len);
    assert_non_null(map);
    unsigned long long at;
    unsigned size;
    char name[64];
    assert_int_equal(sscanf(map, "%llx %x %63s\n", &at, &size, name), 3);
    assert_string_equal(name, "tolk_kernel_one");
    assert_true(size > 0 && size < 4096);
    char perms[5];
    rt_perms((void *)(uintptr_t)at, perms);
    assert_string_equal(perms, "r-xp");
    map = strchr(map, '\n') + 1;
    assert_int_equal(sscanf(map, "%llx %x %63s\n", &at, &size, name), 3);
    assert_string_equal(name, "tolk_kernel_two");
    assert_string_equal(strchr(map, '\n'), "\n");
    char *dump = read_file("/tmp/jit-%d.dump", getpid(), &len);
    assert_non_null(dump);
    read_dump(dump, len, getpid(), names, sizeof names);
    assert_string_equal(names, "tolk_kernel_one tolk_kernel_two ");
    assert_memory_equal(dump + len - size, (void *)(uintptr_t)at, size);
    assert_int_equal(tk_test_child(in_child, &r, 60), 0);
    /* the parent's are as they were */
    dump = read_file("/tmp/jit-%d.dump", getpid(), &len);
    names[0] = 0;
    read_dump(dump, len, getpid(), names, sizeof names);
    assert_string_equal(names, "tolk_kernel_one tolk_kernel_two ");
    remove_files(getpid());
    tolk_program_unref(one);
    tolk_program_unref(p);
    tolk_program_unref(q);
    tolk_program_unref(zero);
    rt_close(&r);
    rt_close(&off);
}

/* Nothing of another is written to, and a bad value is a warning. */
static int link_child(void *unused) {
    (void)unused;
    char map[64], dump[64], target[] = "/tmp/tolk-observe-XXXXXX";
    int fd = mkstemp(target);
    snprintf(map, sizeof map, "/tmp/perf-%d.map", (int)getpid());
    snprintf(dump, sizeof dump, "/tmp/jit-%d.dump", (int)getpid());
    if (fd < 0 || symlink(target, map) || mkdir(dump, 0700))
        return 1;
    rt r;
    open_with(&r, "TOLK_PERF");
    tolk_program *p = rt_compile(&r, kernel_named("one"));
    float y = 0;
    void *buf = &y;
    size_t bytes = 4;
    int good = tolk_launch(p, &buf, &bytes, 1, NULL, 0, NULL) == TOLK_OK && y == 1 &&
               lseek(fd, 0, SEEK_END) == 0 && r.logged == 2 && strstr(r.log, "TOLK_PERF");
    unlink(map);
    rmdir(dump);
    unlink(target);
    return good ? 0 : 2;
}

static void test_links_and_directories_are_left_alone(void **state) {
    (void)state;
    assert_int_equal(tk_test_child(link_child, NULL, 60), 0);
    rt r;
    setenv("TOLK_GDB", "yes", 1);
    rt_open(&r, NULL, NULL);
    unsetenv("TOLK_GDB");
    assert_non_null(strstr(r.log, "TOLK_GDB=\"yes\" ignored"));
    tolk_program_unref(rt_compile(&r, kernel_named("one")));
    assert_int_equal(gdb_count(), 0);
    rt_close(&r);
}

static void test_function_bytes_of_any_bytes(void **state) {
    (void)state;
    rt r;
    rt_open(&r, NULL, NULL);
    tolk_graph *g;
    const tolk_uop *root;
    char *object, *text = strdup(kernel_named("one"));
    size_t len;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, text, strlen(text), 0, &root, NULL), TOLK_OK);
    assert_int_equal(tolk_emit(r.ctx, root, NULL, TOLK_EMIT_OBJ, &object, &len, NULL), TOLK_OK);
    size_t bytes = tk_observe_function_bytes(object, len, "tolk_kernel_one");
    assert_true(bytes > 0 && bytes < len);
    assert_int_equal(tk_observe_function_bytes(object, len, "tolk_kernel_on"), 0);
    char *copy = malloc(len);
    assert_non_null(copy);
    for (size_t i = 0; i < len; i++)
        for (int v = 0; v < 256; v += 15) {
            memcpy(copy, object, len);
            copy[i] = (char)v;
            (void)tk_observe_function_bytes(copy, len, "tolk_kernel_one"); /* sanitizers look on */
        }
    for (size_t cut = 0; cut < len; cut++) {
        char *part = malloc(cut ? cut : 1);
        memcpy(part, object, cut);
        (void)tk_observe_function_bytes(part, cut, "tolk_kernel_one");
        free(part);
    }
    free(copy);
    free(text);
    tolk_free_text(r.ctx, object);
    tolk_graph_destroy(g);
    rt_close(&r);
}

static tolk_status observed_with(const tolk_allocator *al, void *user) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_disk_cache = 1;
    tolk_ctx *ctx;
    tolk_device *cpu;
    tolk_program *p = NULL;
    setenv("TOLK_GDB", "1", 1);
    setenv("TOLK_PERF", "1", 1);
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    unsetenv("TOLK_GDB");
    unsetenv("TOLK_PERF");
    if (st)
        return st;
    st = tolk_device_open(ctx, "CPU", &cpu, NULL);
    const char **saved = user;
    if (!st)
        st = tolk_program_load(cpu, saved[0], (size_t)(uintptr_t)saved[1], &p, NULL);
    tolk_program_unref(p);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory(void **state) {
    (void)state;
    rt r;
    rt_open(&r, NULL, NULL);
    char *bytes;
    size_t len;
    tolk_program *p = rt_compile(&r, kernel_named("one"));
    assert_int_equal(tolk_program_save(p, &bytes, &len, NULL), TOLK_OK);
    tolk_program_unref(p);
    const char *saved[] = {bytes, (const char *)(uintptr_t)len};
    tk_test_oom(observed_with, saved);
    assert_int_equal(gdb_count(), 0);
    tolk_free_text(r.ctx, bytes);
    rt_close(&r);
    remove_files(getpid());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gdb_list_follows_the_kernels),
        cmocka_unit_test(test_perf_files_tell_names_and_code),
        cmocka_unit_test(test_links_and_directories_are_left_alone),
        cmocka_unit_test(test_function_bytes_of_any_bytes),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
