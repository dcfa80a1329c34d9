/* SPDX-License-Identifier: MIT
 *
 * Linking: what an object defines is found, what it does not define is found nowhere, least of all
 * in the process.
 */
#include "jit/code.h"
#include "jit/llvm_api.h"
#include "jit/llvm_pool.h"

#include "support/runtime.h"

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/TargetMachine.h>

#include <pthread.h>

#if defined(__x86_64__)
#define TRIPLE "x86_64-unknown-linux-gnu"
#define ARCH TK_ARCH_X86_64
#else
#define TRIPLE "aarch64-unknown-linux-gnu"
#define ARCH TK_ARCH_AARCH64
#endif

RT_FIXTURE

typedef struct object {
    LLVMMemoryBufferRef buffer;
    const char *at;
    size_t len;
} object;

/* LLVM IR to an object, as tk_llvm_emit makes them. */
static object make(const char *ir) {
    char *why = NULL;
    LLVMContextRef lc = LLVMContextCreate();
    LLVMModuleRef module = NULL;
    LLVMTargetRef t = NULL;
    object o = {NULL, NULL, 0};
    tk_llvm_pool_init_arch(ARCH);
    if (LLVMParseIRInContext(lc, LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, strlen(ir), "test"),
                             &module, &why) ||
        LLVMGetTargetFromTriple(TRIPLE, &t, &why))
        fail_msg("%s", why);
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        t, TRIPLE, "", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    LLVMSetTarget(module, TRIPLE);
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &why, &o.buffer))
        fail_msg("%s", why);
    o.at = LLVMGetBufferStart(o.buffer);
    o.len = LLVMGetBufferSize(o.buffer);
    LLVMDisposeModule(module);
    LLVMDisposeTargetMachine(machine);
    LLVMContextDispose(lc);
    return o;
}

static void drop(object *o) {
    LLVMDisposeMemoryBuffer(o->buffer);
}

/* A function @f that returns n. */
static object returning(int n) {
    return make(rt_text("define i32 @f() {\n  ret i32 %d\n}\n", n));
}

static tk_code_linked *linked(const object *o, void **entry) {
    tk_code_linked *code = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_llvm_link(r.ctx, o->at, o->len, "f", &code, entry, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    return code;
}

static int call(const void *at) {
    int (*fn)(void);
    memcpy(&fn, &at, sizeof fn);
    return fn();
}

/* A page for code that is free now. */
static char *free_page(void) {
    tk_code_piece p;
    assert_int_equal(tk_code_alloc(r.ctx, 1, &p, NULL), TOLK_OK);
    tk_code_free(r.ctx, &p);
    return p.at;
}

static void test_link_finds_the_function_in_executable_pages(void **state) {
    (void)state;
    object o = returning(42);
    void *entry = NULL;
    tk_code_linked *code = linked(&o, &entry);
    drop(&o); /* nothing of it is needed any more */
    char perms[5];
    rt_perms(entry, perms);
    assert_string_equal(perms, "r-xp");
    assert_int_equal(call(entry), 42);
    assert_true(code->used >= 2 && code->used < 4096);
    tk_code_unlink(r.ctx, code);
    tk_code_unlink(r.ctx, NULL);
}

/* CG-03 below the compiler: one name, many objects, alive at once and one after the other. */
static void test_CG_03_objects_with_one_symbol_each_runs_its_own(void **state) {
    (void)state;
    enum { N = 200 };
    static tk_code_linked *code[N];
    static void *entry[N];
    for (int i = 0; i < N; i++) {
        object o = returning(i);
        code[i] = linked(&o, &entry[i]);
        drop(&o);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(call(entry[i]), i);
    for (int i = 0; i < N; i += 2)
        tk_code_unlink(r.ctx, code[i]);
    for (int i = 1; i < N; i += 2) {
        assert_int_equal(call(entry[i]), i);
        tk_code_unlink(r.ctx, code[i]);
    }
    object o = returning(7);
    char *page = free_page();
    for (int i = 0; i < 100; i++) {
        tk_code_linked *again = linked(&o, &entry[0]);
        assert_int_equal(call(entry[0]), 7);
        tk_code_unlink(r.ctx, again);
    }
    assert_ptr_equal(free_page(), page); /* all of it came back */
    drop(&o);
}

/* MEM-07: constants of more than a slab, and some with the alignment of a vector. */
static void test_MEM_07_large_and_aligned_constants_are_reached(void **state) {
    (void)state;
    enum { ELEMENTS = 400000 };
    char *ir = malloc(16 * ELEMENTS + 2000), *p = ir;
    assert_non_null(ir);
    p += sprintf(p, "@table = private constant [%d x i32] [", ELEMENTS);
    for (int i = 0; i < ELEMENTS; i++)
        p += sprintf(p, "%si32 %d", i ? ", " : "", i * 3);
    sprintf(p,
            "]\n@vector = private constant <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, "
            "i32 6, i32 7, i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>, align "
            "64\n"
            "define i64 @f(i64 %%i) {\n"
            "  %%a = getelementptr [%d x i32], ptr @table, i64 0, i64 %%i\n"
            "  %%x = load i32, ptr %%a\n"
            "  %%p = ptrtoint ptr @vector to i64\n"
            "  %%low = and i64 %%p, 63\n"
            "  %%y = zext i32 %%x to i64\n"
            "  %%z = add i64 %%y, %%low\n"
            "  ret i64 %%z\n}\n",
            ELEMENTS);
    object o = make(ir);
    free(ir);
    void *entry;
    tk_code_linked *code = linked(&o, &entry);
    drop(&o);
    int64_t (*fn)(int64_t);
    memcpy(&fn, &entry, sizeof fn);
    /* The low bits of the vector's address are added: there are none. */
    static const int at[] = {0, 1, 1000, ELEMENTS / 2, ELEMENTS - 1};
    for (int i = 0; i < 5; i++)
        assert_int_equal(fn(at[i]), 3 * at[i]);
    tk_code_unlink(r.ctx, code);
}

/* ---- what is refused ---- */

static void refused(const object *o, const char *symbol, const char *names) {
    tk_code_linked *code = NULL;
    void *entry = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    char *page = free_page();
    assert_int_equal(tk_llvm_link(r.ctx, o->at, o->len, symbol, &code, &entry, &err),
                     TOLK_E_COMPILE);
    assert_int_equal(err.code, TOLK_E_COMPILE);
    if (!strstr(err.msg, "linking") || !strstr(err.msg, names))
        fail_msg("\"%s\" does not name %s", err.msg, names);
    assert_null(code);
    assert_null(entry);
    assert_ptr_equal(free_page(), page);
    /* it harms nobody else */
    object good = returning(5);
    code = linked(&good, &entry);
    assert_int_equal(call(entry), 5);
    tk_code_unlink(r.ctx, code);
    drop(&good);
}

/* Not those of the process either: an object is whole, or it is not ours. */
static void test_link_symbols_that_the_object_lacks_are_refused_by_name(void **state) {
    (void)state;
    static const char *const functions[] = {"no_such_function", "getpid",       "malloc", "expf",
                                            "memcpy",           "tolk_version", "abort",  "f_",
                                            "__stack_chk_fail", "main"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        object o = make(rt_text("declare i32 @%s()\n"
                                "define i32 @f() {\n  %%1 = call i32 @%s()\n  ret i32 %%1\n}\n",
                                functions[i], functions[i]));
        refused(&o, "f", functions[i]);
        drop(&o);
    }
    static const char *const data[] = {"no_such_data", "environ", "stdout"};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        object o = make(rt_text("@%s = external global i32\n"
                                "define i32 @f() {\n  %%1 = load i32, ptr @%s\n  ret i32 %%1\n}\n",
                                data[i], data[i]));
        refused(&o, "f", data[i]);
        drop(&o);
    }
}

static void test_link_entry_that_the_object_lacks_is_refused_by_name(void **state) {
    (void)state;
    static const char *const entries[] = {"g", "getpid", "malloc", "tolk_version", "F", "f "};
    object o = returning(1);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        refused(&o, entries[i], entries[i]);
    drop(&o);
}

static void test_link_what_is_no_object_is_refused(void **state) {
    (void)state;
    static const char rubbish[300] = "this is not an object at all";
    object o = returning(1);
    const object none = {NULL, rubbish, 0}, text = {NULL, rubbish, sizeof rubbish},
                 head = {NULL, o.at, 64};
    refused(&none, "f", "object");
    refused(&text, "f", "object");
    refused(&head, "f", "object");
    drop(&o);
}

/* ---- memory, threads ---- */

static tolk_status link_once(const tolk_allocator *al, void *user) {
    const object *o = user;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.allocator = al;
    opts.no_disk_cache = 1;
    tolk_ctx *ctx;
    tk_code_linked *code;
    void *entry;
    tolk_status st = tolk_ctx_create(&opts, &ctx, NULL);
    if (st)
        return st;
    st = tk_llvm_link(ctx, o->at, o->len, "f", &code, &entry, NULL);
    if (!st)
        tk_code_unlink(ctx, code);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_link_without_memory_is_nomem_and_leaves_nothing(void **state) {
    (void)state;
    object o = returning(1);
    tk_test_oom(link_once, &o);
    drop(&o);
}

enum { THREADS = 6 };
static _Atomic int wrong;

typedef struct job {
    object o;
    int value;
} job;

static void *link_many(void *arg) {
    const job *j = arg;
    for (int i = 0; i < 100; i++) {
        void *entry;
        tk_code_linked *code;
        if (tk_llvm_link(r.ctx, j->o.at, j->o.len, "f", &code, &entry, NULL)) {
            wrong++;
            continue;
        }
        wrong += call(entry) != j->value;
        tk_code_unlink(r.ctx, code);
    }
    return NULL;
}

static void test_link_from_several_threads_at_once_each_runs_its_own(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    job jobs[THREADS];
    wrong = 0;
    for (int i = 0; i < THREADS; i++)
        jobs[i] = (job){returning(100 + i), 100 + i};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, link_many, &jobs[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        drop(&jobs[i].o);
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link_finds_the_function_in_executable_pages),
        cmocka_unit_test(test_CG_03_objects_with_one_symbol_each_runs_its_own),
        cmocka_unit_test(test_MEM_07_large_and_aligned_constants_are_reached),
        cmocka_unit_test(test_link_symbols_that_the_object_lacks_are_refused_by_name),
        cmocka_unit_test(test_link_entry_that_the_object_lacks_is_refused_by_name),
        cmocka_unit_test(test_link_what_is_no_object_is_refused),
        cmocka_unit_test(test_link_without_memory_is_nomem_and_leaves_nothing),
        cmocka_unit_test(test_link_from_several_threads_at_once_each_runs_its_own),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
