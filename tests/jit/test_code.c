/* SPDX-License-Identifier: MIT
 *
 * Pages for code: what may be done with them at each moment, which come back, and how many there
 * are.
 */
#include "jit/code.h"

#include "support/runtime.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { SLAB_PAGES = 256 }; /* of 4 KiB: what is asked of the system at once */

static rt r;
static size_t page;

static int setup(void **state) {
    (void)state;
    rt_open(&r, NULL, NULL);
    page = (size_t)sysconf(_SC_PAGESIZE);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_close(&r);
    return 0;
}

static tk_code_piece get(size_t bytes) {
    tk_code_piece p = {0};
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_code_alloc(r.ctx, bytes, &p, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    return p;
}

static void seal(tk_code_piece *p, size_t used) {
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_code_seal(r.ctx, p, used, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
}

static void assert_perms(const void *at, const char *want) {
    char perms[5];
    rt_perms(at, perms);
    assert_string_equal(perms, want);
}

/* Mappings that hold code, all of the process. */
static int executable_maps(void) {
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        const char *perms = strchr(line, ' ');
        n += perms && perms[3] == 'x';
    }
    fclose(f);
    return n;
}

/* A function that returns n, and its bytes. */
static size_t write_returning(char *at, int n) {
#if defined(__x86_64__)
    char code[] = {(char)0xb8, 0, 0, 0, 0, (char)0xc3}; /* mov eax, n; ret */
    memcpy(code + 1, &n, sizeof n);
    memcpy(at, code, sizeof code);
    return sizeof code;
#else
    uint32_t code[] = {0x52800000u | (uint32_t)n << 5, 0xd65f03c0u}; /* mov w0, #n; ret */
    memcpy(at, code, sizeof code);
    return sizeof code;
#endif
}

static int call(const void *at) {
    int (*fn)(void);
    memcpy(&fn, &at, sizeof fn);
    return fn();
}

static void test_alloc_then_seal_is_writable_then_executable_never_both(void **state) {
    (void)state;
    tk_code_piece p = get(100);
    assert_int_equal((uintptr_t)p.at % page, 0);
    assert_true(p.bytes >= 100 && p.bytes % page == 0);
    assert_perms(p.at, "rw-p");
    assert_perms(p.at + p.bytes - 1, "rw-p");
    size_t n = write_returning(p.at, 42);
    seal(&p, n);
    assert_perms(p.at, "r-xp");
    assert_int_equal(call(p.at), 42);
    tk_code_free(r.ctx, &p);
    assert_perms(p.at, "r-xp"); /* its slab stays, in one mapping */
}

static void on_default(void) {
    signal(SIGSEGV, SIG_DFL); /* a sanitizer has a handler */
}

static int write_sealed(void *at) {
    on_default();
    *(volatile char *)at = 1;
    return 0;
}

static int run_unsealed(void *at) {
    on_default();
    return call(at);
}

static void test_writing_sealed_and_running_unsealed_memory_is_a_fault(void **state) {
    (void)state;
    tk_code_piece p = get(1);
    write_returning(p.at, 7);
    assert_int_equal(tk_test_child(run_unsealed, p.at, 20), -SIGSEGV);
    seal(&p, 16);
    assert_int_equal(tk_test_child(write_sealed, p.at, 20), -SIGSEGV);
    assert_int_equal(tk_test_child(run_unsealed, p.at, 20), 7);
    tk_code_free(r.ctx, &p);
}

static void test_alloc_of_any_size_is_whole_pages_and_at_least_one(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, page - 1, page, page + 1, 5 * page, 5 * page + 1};
    const size_t pages[] = {1, 1, 1, 1, 2, 5, 6};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tk_code_piece p = get(sizes[i]);
        assert_int_equal(p.bytes, pages[i] * page);
        memset(p.at, 0x90, p.bytes);
        tk_code_free(r.ctx, &p);
    }
}

static void test_seal_gives_back_the_pages_that_are_not_used(void **state) {
    (void)state;
    tk_code_piece p = get(10 * page);
    seal(&p, 2 * page + 1);
    assert_int_equal(p.bytes, 3 * page);
    tk_code_piece q = get(7 * page); /* fits in what came back, and nowhere before */
    assert_ptr_equal(q.at, p.at + 3 * page);
    assert_perms(p.at + 3 * page - 1, "r-xp");
    assert_perms(q.at, "rw-p");
    tk_code_free(r.ctx, &q);
    tk_code_free(r.ctx, &p);
    p = get(3 * page); /* used nothing: one page stays */
    seal(&p, 0);
    assert_int_equal(p.bytes, page);
    tk_code_free(r.ctx, &p);
}

static void test_free_lets_the_same_pages_be_used_again(void **state) {
    (void)state;
    tk_code_piece a = get(page), b = get(2 * page), c = get(page);
    tk_code_free(r.ctx, &b);
    tk_code_piece d = get(2 * page);
    assert_ptr_equal(d.at, b.at);
    tk_code_free(r.ctx, &a);
    tk_code_free(r.ctx, &c);
    tk_code_free(r.ctx, &d);
}

/* Mappings are as many as slabs, not as many as pieces. */
static void test_capacity_sealed_pieces_share_the_mappings_of_their_slabs(void **state) {
    (void)state;
    if (page != 4096)
        skip();
    static tk_code_piece p[3 * SLAB_PAGES];
    tk_code_piece first = get(1); /* the slab that there is anyway */
    int before = executable_maps();
    for (int i = 0; i < 3 * SLAB_PAGES; i++) {
        p[i] = get(page);
        size_t n = write_returning(p[i].at, i);
        seal(&p[i], n);
    }
    /* 768 pieces are 3 slabs more. Linux may leave what was written apart from what was not. */
    assert_true(executable_maps() - before <= 8);
    for (int i = 0; i < 3 * SLAB_PAGES; i++)
        assert_int_equal(call(p[i].at), i);
    for (int i = 0; i < 3 * SLAB_PAGES; i++)
        tk_code_free(r.ctx, &p[i]);
    /* and again: no memory beside those slabs */
    for (int i = 0; i < 3 * SLAB_PAGES - 1; i++) {
        p[i] = get(page);
        seal(&p[i], page);
    }
    assert_true(executable_maps() - before <= 8);
    for (int i = 0; i < 3 * SLAB_PAGES - 1; i++)
        tk_code_free(r.ctx, &p[i]);
    tk_code_free(r.ctx, &first);
}

static void test_piece_larger_than_a_slab_has_its_own_memory_and_gives_it_back(void **state) {
    (void)state;
    const size_t bytes = ((size_t)SLAB_PAGES + 1) * 4096;
    tk_code_piece p = get(bytes);
    assert_true(p.bytes >= bytes);
    memset(p.at, 0x90, p.bytes);
    write_returning(p.at + bytes - 64, 9);
    seal(&p, bytes);
    assert_perms(p.at, "r-xp");
    assert_int_equal(call(p.at + bytes - 64), 9);
    tk_code_piece q = get(1); /* elsewhere */
    assert_true(q.at < p.at || q.at >= p.at + p.bytes);
    tk_code_free(r.ctx, &q);
    tk_code_free(r.ctx, &p);
    assert_perms(p.at + page, "");
}

static void test_alloc_of_more_than_there_is_says_so_and_harms_nothing(void **state) {
    (void)state;
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX / 2, (size_t)1 << 62};
    for (int i = 0; i < 4; i++) {
        tk_code_piece p = {0};
        tolk_error err = TOLK_ERROR_INIT;
        assert_int_equal(tk_code_alloc(r.ctx, sizes[i], &p, &err), TOLK_E_NOMEM);
        assert_int_equal(err.code, TOLK_E_NOMEM);
        assert_null(p.at);
    }
    tk_code_piece p = get(1);
    seal(&p, write_returning(p.at, 5));
    assert_int_equal(call(p.at), 5);
    tk_code_free(r.ctx, &p);
}

/* In a child: the system gives no more memory, then one piece is freed and one fits again. */
static int run_dry(void *arg) {
    (void)arg;
    static tk_code_piece p[64];
    if (!tk_test_limit_memory((size_t)20 << 20))
        return 1;
    tolk_error err = TOLK_ERROR_INIT;
    int n = 0;
    while (n < 64 && tk_code_alloc(r.ctx, (size_t)1 << 20, &p[n], &err) == TOLK_OK)
        n++;
    if (n == 0 || n == 64 || err.code != TOLK_E_NOMEM || !strstr(err.msg, "1048576"))
        return 2;
    tk_code_free(r.ctx, &p[n / 2]);
    if (tk_code_alloc(r.ctx, (size_t)1 << 20, &p[n / 2], &err) != TOLK_OK)
        return 3;
    if (tk_code_seal(r.ctx, &p[n / 2], write_returning(p[n / 2].at, 3), &err) != TOLK_OK ||
        call(p[n / 2].at) != 3)
        return 4;
    return 0;
}

static void test_alloc_until_the_system_refuses_is_nomem_and_free_helps(void **state) {
    (void)state;
    if (TK_TEST_ASAN || TK_TEST_TSAN)
        skip(); /* they reserve terabytes */
    assert_int_equal(tk_test_child(run_dry, NULL, 20), 0);
}

static tolk_status two_pieces(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.allocator = al;
    o.no_disk_cache = 1;
    tolk_ctx *ctx;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    tk_code_piece p, q;
    st = tk_code_alloc(ctx, 100, &p, NULL);
    if (!st) {
        st = tk_code_alloc(ctx, (size_t)2 << 20, &q, NULL);
        if (!st)
            tk_code_free(ctx, &q);
        tk_code_free(ctx, &p);
    }
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory_for_its_own_lists_is_nomem(void **state) {
    (void)state;
    tk_test_oom(two_pieces, NULL);
}

static void test_context_that_goes_takes_its_slabs_along(void **state) {
    (void)state;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_disk_cache = 1;
    tolk_ctx *ctx;
    tk_code_piece p, q;
    assert_int_equal(tolk_ctx_create(&o, &ctx, NULL), TOLK_OK);
    assert_int_equal(tk_code_alloc(ctx, 1, &p, NULL), TOLK_OK);
    assert_int_equal(tk_code_alloc(ctx, (size_t)3 << 20, &q, NULL), TOLK_OK);
    tolk_ctx_destroy(ctx);
    assert_perms(p.at, "");
    assert_perms(q.at + page, "");
}

/* The last reference of a program frees its pages: the next kernel of its size has them. */
static void test_program_unref_frees_its_code(void **state) {
    (void)state;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.no_cache = 1;
    tolk_program *p = NULL;
    int maps = executable_maps();
    tk_code_piece probe = get(1);
    char *hole = probe.at;
    tk_code_free(r.ctx, &probe);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(rt_try(&r, rt_text(RT_SCALE, 64, "3"), &opts, &p, NULL), TOLK_OK);
        assert_true(rt_scale_is(p, 64, 3));
        assert_perms(hole, "r-xp");
        tolk_program *q = tolk_program_ref(p);
        tolk_program_unref(p);
        assert_true(rt_scale_is(q, 64, 3)); /* one reference is enough */
        probe = get(1);
        assert_ptr_not_equal(probe.at, hole); /* the program lies there */
        tk_code_free(r.ctx, &probe);
        tolk_program_unref(q);
        probe = get(1);
        assert_ptr_equal(probe.at, hole);
        tk_code_free(r.ctx, &probe);
    }
    assert_true(executable_maps() <= maps + 2);
}

/* ---- many at once ---- */

enum { THREADS = 8 };
static _Atomic int wrong, stop;

static void *alloc_and_run(void *arg) {
    int id = *(int *)arg;
    uint64_t seed = 1000 + (uint64_t)id;
    tk_code_piece p[16];
    int value[16] = {0};
    bool there[16] = {false};
    for (int i = 0; i < 400; i++) {
        uint64_t random = tk_test_rand(&seed);
        int k = (int)(random % 16);
        if (there[k]) {
            wrong += call(p[k].at) != value[k];
            tk_code_free(r.ctx, &p[k]);
            there[k] = false;
            continue;
        }
        if (tk_code_alloc(r.ctx, (random >> 8) % (9 * page), &p[k], NULL) != TOLK_OK) {
            wrong++;
            continue;
        }
        there[k] = true;
        value[k] = (int)(random >> 40 & 0x7fff);
        size_t used = write_returning(p[k].at, value[k]);
        wrong += tk_code_seal(r.ctx, &p[k], random & 1 ? used : p[k].bytes, NULL) != TOLK_OK;
    }
    for (int k = 0; k < 16; k++)
        if (there[k]) {
            wrong += call(p[k].at) != value[k];
            tk_code_free(r.ctx, &p[k]);
        }
    return NULL;
}

static void *look_at_maps(void *arg) {
    int *most = arg, both;
    while (!stop) {
        rt_maps(&both);
        *most = both > *most ? both : *most;
    }
    return NULL;
}

static void test_8_threads_allocate_and_run_no_page_is_ever_writable_and_executable(void **state) {
    (void)state;
    pthread_t threads[THREADS], looker;
    int ids[THREADS], most = 0, both;
    rt_maps(&both); /* a sanitizer's or a debugger's */
    stop = wrong = 0;
    assert_int_equal(pthread_create(&looker, NULL, look_at_maps, &most), 0);
    for (int i = 0; i < THREADS; i++) {
        ids[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, alloc_and_run, &ids[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    stop = 1;
    pthread_join(looker, NULL);
    assert_int_equal(wrong, 0);
    assert_true(most <= both);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_then_seal_is_writable_then_executable_never_both),
        cmocka_unit_test(test_writing_sealed_and_running_unsealed_memory_is_a_fault),
        cmocka_unit_test(test_alloc_of_any_size_is_whole_pages_and_at_least_one),
        cmocka_unit_test(test_seal_gives_back_the_pages_that_are_not_used),
        cmocka_unit_test(test_free_lets_the_same_pages_be_used_again),
        cmocka_unit_test(test_capacity_sealed_pieces_share_the_mappings_of_their_slabs),
        cmocka_unit_test(test_piece_larger_than_a_slab_has_its_own_memory_and_gives_it_back),
        cmocka_unit_test(test_alloc_of_more_than_there_is_says_so_and_harms_nothing),
        cmocka_unit_test(test_alloc_until_the_system_refuses_is_nomem_and_free_helps),
        cmocka_unit_test(test_without_memory_for_its_own_lists_is_nomem),
        cmocka_unit_test(test_context_that_goes_takes_its_slabs_along),
        cmocka_unit_test(test_program_unref_frees_its_code),
        cmocka_unit_test(test_8_threads_allocate_and_run_no_page_is_ever_writable_and_executable),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
