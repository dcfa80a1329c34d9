/* SPDX-License-Identifier: MIT
 *
 * The loader of objects: what it loads does what LLVM's linker makes of it, and no byte of
 * an object is believed.
 */
#include "cpu/cpu_object.h"
#include "jit/llvm_api.h"
#include "jit/program.h"

#include "support/runtime.h"
#include "support/tk_gen.h"

#include <elf.h>
#include <inttypes.h>

RT_FIXTURE

#if !defined(__x86_64__)
int main(void) {
    return 77;
}
#else

/* ---- the same as the linker ---- */

enum { MAX_BUFS = 16 };

/* Runs p on what the seed gives; the bytes of all buffers afterwards, in one piece. */
static char *run(const tolk_program *p, const tolk_uop *kernel, uint64_t seed, size_t *len,
                 tolk_status *status) {
    void *bufs[MAX_BUFS];
    size_t bytes[MAX_BUFS], n_bufs = 0, n_vals = 0, n = tolk_kernel_param_count(kernel), at = 0;
    int64_t vals[MAX_BUFS], dims[8], elems;
    tolk_param_info info;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(tolk_kernel_param(kernel, i, &info), TOLK_OK);
        if (info.is_scalar)
            vals[n_vals++] = tk_gen_scalar(&info, 2, seed);
    }
    *len = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(tolk_kernel_param(kernel, i, &info), TOLK_OK);
        if (info.is_scalar)
            continue;
        assert_int_equal(tolk_kernel_param_dims(kernel, i, vals, n_vals, dims, &elems, NULL),
                         TOLK_OK);
        bytes[n_bufs] = (size_t)elems * tolk_dtype_bytes(info.dtype);
        bufs[n_bufs] = malloc(bytes[n_bufs] + 1);
        assert_non_null(bufs[n_bufs]);
        tk_gen_fill(&info, elems, seed, bufs[n_bufs]);
        *len += bytes[n_bufs++];
    }
    tolk_error err = TOLK_ERROR_INIT;
    *status = tolk_launch(p, bufs, bytes, n_bufs, vals, n_vals, &err);
    char *all = malloc(*len + 1);
    assert_non_null(all);
    for (size_t i = 0; i < n_bufs; i++) {
        memcpy(all + at, bufs[i], bytes[i]);
        at += bytes[i];
        free(bufs[i]);
    }
    return all;
}

/* The function of the kernel's object as LLVM's linker places it. */
static tk_kernel_fn link_with_llvm(const tolk_uop *kernel, tk_code_linked **code) {
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.symbol = "f";
    tolk_error err = TOLK_ERROR_INIT;
    char *object;
    size_t len;
    void *entry;
    tk_kernel_fn fn;
    if (tolk_emit(r.ctx, kernel, &opts, TOLK_EMIT_OBJ, &object, &len, &err) != TOLK_OK ||
        tk_llvm_link(r.ctx, object, len, "f", code, &entry, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    tolk_free_text(r.ctx, object);
    memcpy(&fn, &entry, sizeof fn);
    return fn;
}

/* 1,000 kernels at a share of 100 percent. */
static void test_random_kernels_do_the_same_loaded_and_linked(void **state) {
    (void)state;
    uint64_t rng = tk_test_seed();
    unsigned done = 0, want = 10 * tk_test_share();
    for (unsigned i = 0; done < want; i++) {
        uint64_t seed = tk_test_rand(&rng);
        tolk_graph *g;
        size_t n_linked, n_loaded;
        assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
        const tolk_uop *kernel = tk_gen_kernel(g, seed);
        tolk_program *p;
        tolk_error err = TOLK_ERROR_INIT;
        if (kernel && tolk_compile(r.cpu, kernel, NULL, &p, &err) == TOLK_OK) {
            tolk_status st_linked, st_loaded;
            tk_code_linked *code;
            char *loaded = run(p, kernel, seed, &n_loaded, &st_loaded);
            tk_kernel_fn linked_fn = link_with_llvm(kernel, &code);
            assert_ptr_not_equal(linked_fn, atomic_load(&p->fn));
            atomic_store(&p->fn, linked_fn);
            char *linked = run(p, kernel, seed, &n_linked, &st_linked);
            if (st_linked != st_loaded || n_linked != n_loaded ||
                memcmp(linked, loaded, n_linked) != 0)
                fail_msg("seed 0x%" PRIx64 ": the loaded kernel differs", seed);
            free(linked);
            free(loaded);
            tolk_program_unref(p);
            tk_code_unlink(r.ctx, code);
            done++;
        }
        tolk_graph_destroy(g);
        assert_true(i < 20 * want + 100);
    }
}

/* ---- objects ---- */

typedef struct bytes {
    char *at;
    size_t n;
} bytes;

/* An object with constants and relocations. */
static bytes make(void) {
    static const char text[] =
        "tolk.uop 1\n%0 = const index 1000\n%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
        "%2 = param f32 (%0) {slot=1, name=\"x\"}\n%3 = range index (%0) {axis=0, kind=global}\n"
        "%4 = index f32 (%1, %3)\n%5 = index f32 (%2, %3)\n%6 = load f32 (%5)\n"
        "%7 = sin f32 (%6)\n%8 = store void (%4, %7)\n%9 = end void (%8, %3)\n"
        "%10 = sink void (%9) {name=\"sine\"}\n";
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    bytes b;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, text, sizeof text - 1, 0, &root, &err), TOLK_OK);
    char *object;
    if (tolk_emit(r.ctx, root, NULL, TOLK_EMIT_OBJ, &object, &b.n, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    b.at = malloc(b.n);
    assert_non_null(b.at);
    memcpy(b.at, object, b.n);
    tolk_free_text(r.ctx, object);
    tolk_graph_destroy(g);
    return b;
}

static const char symbol[] = "tolk_kernel_sine";

/* Loads it or refuses it, and both calls agree; what it does when it is run is not looked at. */
static bool loads(const void *object, size_t n) {
    tk_code_linked *code = NULL;
    void *entry = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status checked = tk_cpu_object_check(object, n, symbol, NULL, &err);
    tolk_status loaded = tk_cpu_object_load(r.ctx, object, n, symbol, &code, &entry, &err);
    assert_int_equal(checked, loaded);
    if (loaded != TOLK_OK) {
        assert_int_equal(loaded, TOLK_E_UNSUPPORTED);
        assert_null(code);
        assert_true(strlen(err.msg) > 10);
        return false;
    }
    assert_true((char *)entry >= code->piece.at && (char *)entry < code->piece.at + code->used);
    tk_code_unlink(r.ctx, code);
    return true;
}

static void test_an_object_is_loaded_without_write_access(void **state) {
    (void)state;
    bytes b = make();
    tk_code_linked *code;
    void *entry;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_cpu_object_load(r.ctx, b.at, b.n, symbol, &code, &entry, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    char perms[5];
    rt_perms(entry, perms);
    assert_string_equal(perms, "r-xp");
    tk_code_unlink(r.ctx, code);
    assert_int_equal(tk_cpu_object_load(r.ctx, b.at, b.n, "cosine", &code, &entry, &err),
                     TOLK_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "function"));
    free(b.at);
}

static void test_every_cut_is_refused(void **state) {
    (void)state;
    bytes b = make();
    for (size_t n = 0; n < b.n; n++) {
        char *part = malloc(n ? n : 1); /* of its own size: sanitizers see what is behind it */
        assert_non_null(part);
        memcpy(part, b.at, n);
        if (loads(part, n)) /* the table of sections is the last thing in the file */
            fail_msg("%zu of %zu bytes are loaded", n, b.n);
        free(part);
    }
    free(b.at);
}

static void test_damage_is_refused_or_harmless(void **state) {
    (void)state;
    bytes b = make();
    for (size_t i = 0; i < b.n; i++)
        for (int bit = 0; bit < 8; bit += 1 + (i > 64 && i < b.n / 2) * 3) {
            b.at[i] = (char)(b.at[i] ^ 1 << bit);
            (void)loads(b.at, b.n);
            b.at[i] = (char)(b.at[i] ^ 1 << bit);
        }
    uint64_t rng = tk_test_seed();
    Elf64_Ehdr h;
    memcpy(&h, b.at, sizeof h);
    char *copy = malloc(b.n);
    assert_non_null(copy);
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, b.at, b.n);
        for (unsigned k = 1 + tk_test_rand(&rng) % 4; k--;) {
            /* mostly in the tables, and numbers at the ends of their range */
            size_t from = tk_test_rand(&rng) % 4 ? h.e_shoff - 4096 % b.n : 0;
            size_t at = from + tk_test_rand(&rng) % (b.n - from - 8);
            uint64_t v = tk_test_rand(&rng) >> tk_test_rand(&rng) % 64;
            memcpy(copy + at, &v, 1 + tk_test_rand(&rng) % 8);
        }
        (void)loads(copy, b.n);
    }
    free(copy);
    free(b.at);
}

/* What the library never makes, one at a time. */
static void test_what_is_outside_of_the_subset_is_refused(void **state) {
    (void)state;
    bytes b = make();
    Elf64_Ehdr h;
    memcpy(&h, b.at, sizeof h);
    assert_true(loads(b.at, b.n));
    unsigned symbols = 0, relocations = 0, loaded = 0;
    for (unsigned i = 0; i < h.e_shnum; i++) {
        char *at = b.at + h.e_shoff + i * sizeof(Elf64_Shdr);
        Elf64_Shdr s, bad;
        memcpy(&s, at, sizeof s);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        bad = s;                                                                                   \
        change;                                                                                    \
        memcpy(at, &bad, sizeof bad);                                                              \
        assert_false(loads(b.at, b.n));                                                            \
        memcpy(at, &s, sizeof s);                                                                  \
    } while (0)
        if ((s.sh_flags & SHF_ALLOC) && s.sh_size) {
            loaded++;
            REFUSED(bad.sh_flags |= SHF_WRITE);
            REFUSED(bad.sh_flags |= SHF_TLS);
            REFUSED(bad.sh_type = SHT_NOBITS);
            REFUSED(bad.sh_type = SHT_INIT_ARRAY);
            REFUSED(bad.sh_addralign = 128);
            REFUSED(bad.sh_addralign = 3);
            REFUSED(bad.sh_size = b.n + 1);
            REFUSED(bad.sh_offset = b.n - s.sh_size + 1);
            REFUSED(bad.sh_offset = UINT64_MAX - 8);
        } else if (s.sh_type == SHT_SYMTAB) {
            symbols++;
            REFUSED(bad.sh_link = h.e_shnum);
            REFUSED(bad.sh_entsize = 8);
            REFUSED(bad.sh_type = SHT_DYNSYM);
        } else if (s.sh_type == SHT_RELA) {
            relocations++;
            REFUSED(bad.sh_type = SHT_REL);
            REFUSED(bad.sh_info = h.e_shnum);
            REFUSED(bad.sh_link = 0);
            for (uint64_t k = 0; k + sizeof(Elf64_Rela) <= s.sh_size; k += sizeof(Elf64_Rela)) {
                Elf64_Rela rel, other;
                memcpy(&rel, b.at + s.sh_offset + k, sizeof rel);
                const Elf64_Rela wrong[] = {
                    {rel.r_offset, ELF64_R_INFO(ELF64_R_SYM(rel.r_info), R_X86_64_64), 0},
                    {rel.r_offset, ELF64_R_INFO(ELF64_R_SYM(rel.r_info), R_X86_64_GOTPCREL), 0},
                    {rel.r_offset, ELF64_R_INFO(0, R_X86_64_PC32), 0},
                    {rel.r_offset, ELF64_R_INFO(UINT32_MAX, R_X86_64_PC32), 0},
                    {UINT64_MAX - 1, rel.r_info, rel.r_addend},
                    {(uint64_t)b.n, rel.r_info, rel.r_addend},
                    {rel.r_offset, rel.r_info, INT64_MAX},
                    {rel.r_offset, rel.r_info, INT64_MIN},
                    {rel.r_offset, rel.r_info, INT64_C(1) << 32}};
                for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
                    other = wrong[w];
                    memcpy(b.at + s.sh_offset + k, &other, sizeof other);
                    if (loads(b.at, b.n))
                        fail_msg("relocation %zu is done", w);
                    memcpy(b.at + s.sh_offset + k, &rel, sizeof rel);
                }
            }
        }
    }
    assert_true(symbols == 1 && relocations >= 1 && loaded >= 2);
    assert_true(loads(b.at, b.n));
    free(b.at);
}

static tolk_status load_with(const tolk_allocator *al, void *user) {
    const bytes *b = user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    tolk_ctx *ctx;
    tolk_status st = tolk_ctx_create(&opts, &ctx, NULL);
    if (st != TOLK_OK)
        return st;
    tk_code_linked *code = NULL;
    void *entry;
    st = tk_cpu_object_load(ctx, b->at, b->n, symbol, &code, &entry, NULL);
    if (st == TOLK_OK)
        tk_code_unlink(ctx, code);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_memory_that_ends_is_an_error(void **state) {
    (void)state;
    bytes b = make();
    tk_test_oom(load_with, &b);
    free(b.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_object_is_loaded_without_write_access),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_damage_is_refused_or_harmless),
        cmocka_unit_test(test_what_is_outside_of_the_subset_is_refused),
        cmocka_unit_test(test_memory_that_ends_is_an_error),
        cmocka_unit_test(test_random_kernels_do_the_same_loaded_and_linked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
#endif
