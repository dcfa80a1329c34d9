/* SPDX-License-Identifier: MIT
 *
 * Objects with their C headers: C and C++ programs that link them without libtolk are built and
 * run, and compute what the library computes; the sizes that a header tells are the library's.
 */
#include "support/runtime.h"

RT_FIXTURE

static char *dir;

static int has_cc(void) {
    return system("cc --version >/dev/null 2>&1") == 0;
}

static void write_file(const char *name, const char *text, size_t len) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* The object NAME.o and the header NAME.h of a kernel. */
static void emit(const char *text, const char *name, const tolk_compile_opts *opts) {
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    if (tolk_parse(g, text, strlen(text), 0, &root, &err))
        fail_msg("%s\n%s", err.msg, text);
    for (int header = 0; header < 2; header++) {
        char *out, file[128];
        size_t len;
        if (tolk_emit(r.ctx, root, opts, header ? TOLK_EMIT_HEADER : TOLK_EMIT_OBJ, &out, &len,
                      &err))
            fail_msg("%s\n%s", err.msg, text);
        snprintf(file, sizeof file, "%s.%s", name, header ? "h" : "o");
        write_file(file, out, len);
        tolk_free_text(r.ctx, out);
    }
    tolk_graph_destroy(g);
}

#define WARNINGS "-Wall -Wextra -Wpedantic -Werror"

/* Build main.c in `dir` with the objects, run it with arguments, and read what it prints. */
static void build(const char *main_text, const char *objects) {
    char command[2048];
    write_file("main.c", main_text, strlen(main_text));
    snprintf(command, sizeof command,
             "cd %s && cc -std=c11 -O1 " WARNINGS " main.c %s -o main 2>log || { cat log; false; }",
             dir, objects);
    if (system(command))
        fail_msg("a program with the header does not compile: %s", command);
    /* C++, where there is a compiler for it */
    snprintf(command, sizeof command,
             "cd %s && { command -v c++ >/dev/null || exit 0; } && "
             "c++ -x c++ -std=c++17 " WARNINGS
             " -c main.c -o main_cxx.o 2>log || { cat log; false; }",
             dir);
    if (system(command))
        fail_msg("a program with the header does not compile as C++: %s", command);
}

static void run_main(const char *args, char *out, size_t bytes) {
    char command[1024];
    snprintf(command, sizeof command, "cd %s && ./main %s", dir, args);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    size_t n = fread(out, 1, bytes - 1, f);
    out[n] = 0;
    int status = pclose(f);
    if (status)
        fail_msg("%s: status %d: %s", command, status, out);
}

/* y[i] = a x[at[i]] + y[i]: scalars, a gather that may be out of range, an array in place. */
static const char gather[] = "tolk.uop 1\n"
                             "%0 = param i32 {slot=9, name=\"n\", space=alu, min=0, max=64}\n"
                             "%1 = cast index (%0)\n"
                             "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"
                             "%3 = const index 64\n"
                             "%4 = param f32 (%3) {slot=1, name=\"x\"}\n"
                             "%5 = param i32 (%1) {slot=2, name=\"the place; */ \\u0041\"}\n"
                             "%6 = param f32 {slot=3, name=\"while\", space=alu}\n"
                             "%7 = range index (%1) {axis=0, kind=global}\n"
                             "%8 = index i32 (%5, %7)\n"
                             "%9 = load i32 (%8)\n"
                             "%10 = cast index (%9)\n"
                             "%11 = index f32 (%4, %10)\n"
                             "%12 = load f32 (%11)\n"
                             "%13 = mul f32 (%6, %12)\n"
                             "%14 = index f32 (%2, %7)\n"
                             "%15 = load f32 (%14)\n"
                             "%16 = add f32 (%13, %15)\n"
                             "%17 = store void (%14, %16)\n"
                             "%18 = end void (%17, %7)\n"
                             "%19 = sink void (%18) {name=\"a gather */ x\"}\n";

static const char gather_main[] =
    "#include \"gather.h\"\n"
    "#include \"gather.h\"\n"
    "#include <stdio.h>\n"
    "int main(void) {\n"
    "    float y[64], x[64];\n"
    "    int32_t at[64];\n"
    "    int i, status;\n"
    "    for (i = 0; i < 64; i++) {\n"
    "        y[i] = (float)i;\n"
    "        x[i] = (float)(i * i);\n"
    "        at[i] = 63 - i;\n"
    "    }\n"
    "    at[5] = 64;\n"
    "    status = tolk_kernel_a_gather____x_run(y, x, at, 0.5f, 20);\n"
    "    printf(\"%d\", status);\n"
    "    for (i = 0; i < 22; i++)\n"
    "        printf(\" %a\", (double)y[i]);\n"
    "    at[5] = 0;\n"
    "    printf(\" %d\", tolk_kernel_a_gather____x_run(y, x, at, 0.5f, 20));\n"
    "    printf(\" %d\", tolk_kernel_a_gather____x_run(y, x, at, 0.5f, 0));\n"
    "    printf(\" %d\", tolk_kernel_a_gather____x_run(y, x, at, 0.5f, 65));\n"
    "    printf(\" %d\\n\", tolk_kernel_a_gather____x_run(y, x, at, 0.5f, -1));\n"
    "    return 0;\n"
    "}\n";

static void test_program_with_a_header_computes_the_same(void **state) {
    (void)state;
    if (!has_cc())
        skip();
    emit(gather, "gather", NULL);
    build(gather_main, "gather.o");
    char out[4096], want[4096];
    run_main("", out, sizeof out);
    size_t n = (size_t)snprintf(want, sizeof want, "1"); /* the access to x[64] */
    for (int i = 0; i < 22; i++) {
        float x = i == 5 ? 0 : (float)((63 - i) * (63 - i));
        float y = i < 20 ? 0.5f * x + (float)i : (float)i;
        n += (size_t)snprintf(want + n, sizeof want - n, " %a", (double)y);
    }
    snprintf(want + n, sizeof want - n, " 0 0 -1 -1\n");
    assert_string_equal(out, want);
}

/* y[i] = x[7 - i] through the dynamic local buffer. */
static const char dynamic[] =
    "tolk.uop 1\n%0 = const index 8\n%1 = param i32 (%0) {slot=0, name=\"y\"}\n"
    "%2 = param i32 (%0) {slot=1, name=\"x\"}\n%3 = special index (%0) {name=\"lidx0\"}\n"
    "%4 = buffer u8 (%0) {slot=0, space=local}\n"
    "%5 = buffer i32 {slot=1, space=local, dynamic=true}\n%6 = index i32 (%2, %3)\n"
    "%7 = load i32 (%6)\n%8 = index i32 (%5, %3)\n%9 = store void (%8, %7)\n"
    "%10 = cast u8 (%3)\n%11 = index u8 (%4, %3)\n%12 = store void (%11, %10)\n"
    "%13 = barrier void (%9, %12)\n%14 = after i32 (%5, %13)\n%15 = after u8 (%4, %13)\n"
    "%16 = index u8 (%15, %3)\n%17 = load u8 (%16)\n%18 = cast index (%17)\n"
    "%19 = const index 7\n%20 = sub index (%19, %18)\n%21 = index i32 (%14, %20)\n"
    "%22 = load i32 (%21)\n%23 = index i32 (%1, %3)\n%24 = store void (%23, %22)\n"
    "%25 = sink void (%24) {name=\"turned\"}\n";

static const char dynamic_main[] =
    "#include \"turned.h\"\n"
    "#include <stdio.h>\n"
    "static union { int64_t aligns; char bytes[64 + TURNED_SCRATCH_BYTES + 36]; } room;\n"
    "int main(void) {\n"
    "    int32_t y[8], x[8];\n"
    "    size_t shared;\n"
    "    int i;\n"
    "    void *scratch = (void *)(((uintptr_t)room.bytes + 63) & ~(uintptr_t)63);\n"
    "    for (i = 0; i < 8; i++)\n"
    "        x[i] = 100 + i;\n"
    "    for (shared = 0; shared <= 36; shared += 4) {\n"
    "        printf(\"%d:\", turned_run(y, x, scratch, shared));\n"
    "        for (i = 0; i < 8; i++)\n"
    "            printf(\" %d\", (int)y[i]);\n"
    "        puts(\"\");\n"
    "    }\n"
    "    printf(\"%d\\n\", turned_run(y, x, scratch, (size_t)-1));\n"
    "    return 0;\n"
    "}\n";

static void test_caller_says_the_size_of_the_dynamic_buffer(void **state) {
    (void)state;
    if (!has_cc())
        skip();
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.symbol = "turned";
    emit(dynamic, "turned", &opts);
    char text[8192];
    snprintf(text, sizeof text, "#define TURNED_SCRATCH_BYTES turned_SCRATCH_BYTES\n%s",
             dynamic_main);
    build(text, "turned.o");
    char out[4096], want[4096];
    run_main("", out, sizeof out);
    size_t n = 0;
    for (int elems = 0; elems <= 9; elems++) {
        n += (size_t)snprintf(want + n, sizeof want - n, "%d:", elems < 8);
        for (int i = 0; i < 8; i++)
            n +=
                (size_t)snprintf(want + n, sizeof want - n, " %d", 7 - i < elems ? 100 + 7 - i : 0);
        n += (size_t)snprintf(want + n, sizeof want - n, "\n");
    }
    snprintf(want + n, sizeof want - n, "-1\n");
    assert_string_equal(out, want);
}

/* Two kernels in one program, scratch memory, a barrier, parts on several calls. */
static const char sum[] = "tolk.uop 1\n"
                          "%0 = const index 100000\n"
                          "%1 = param f32 {slot=0, name=\"s\"}\n"
                          "%2 = param f32 (%0) {slot=1, name=\"x\"}\n"
                          "%3 = range index (%0) {axis=0, kind=reduce}\n"
                          "%4 = index f32 (%2, %3)\n"
                          "%5 = load f32 (%4)\n"
                          "%6 = reduce f32 (%5, %3) {op=add}\n"
                          "%7 = index f32 (%1)\n"
                          "%8 = store void (%7, %6)\n"
                          "%9 = sink void (%8) {name=\"sum\"}\n";

static const char sum_main[] =
    "#include \"sum.h\"\n"
    "#include \"scale.h\"\n"
    "#include <stdio.h>\n"
    "static float x[100000], y[100000];\n"
    "static union { char bytes[sum_SCRATCH_BYTES + 64]; } room;\n"
    "int main(void) {\n"
    "    int i;\n"
    "    float a = -1, b = -1;\n"
    "    void *bufs[2];\n"
    "    void *scratch = (void *)(((uintptr_t)room.bytes + 63) & ~(uintptr_t)63);\n"
    "    static const uint32_t never = 0;\n"
    "    tolk_kenv env;\n"
    "    int64_t at, span = sum_span(NULL);\n"
    "    for (i = 0; i < 100000; i++)\n"
    "        x[i] = (float)(i % 77) * 0.37f;\n"
    "    if (scale_run(y, x) || sum_run(&a, y, scratch) || sum_elems(0, NULL) != 1 ||\n"
    "        sum_elems(1, NULL) != 100000 || sum_elems(2, NULL) != -1 || sum_elems(-1, NULL) != "
    "-1)\n"
    "        return 1;\n"
    "    bufs[0] = &b;\n"
    "    bufs[1] = y;\n"
    "    memset(&env, 0, sizeof env);\n"
    "    env.size = sizeof env;\n"
    "    env.cancel = &never;\n"
    "    env.scratch = scratch;\n"
    "    for (at = sum_PIECES - 1; at >= 0; at--)\n"
    "        sum(bufs, NULL, at, at + 1, &env);\n"
    "    sum(bufs, NULL, sum_PIECES, span, &env);\n"
    "    printf(\"%a %a\\n\", (double)a, (double)b);\n"
    "    return 0;\n"
    "}\n";

static void test_two_kernels_scratch_and_barrier(void **state) {
    (void)state;
    if (!has_cc())
        skip();
    static float x[100000];
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.symbol = "sum";
    opts.opts = "GROUPTOP:0:8"; /* so that there is a barrier, whatever the machine */
    emit(sum, "sum", &opts);
    tolk_program *p = NULL;
    assert_int_equal(rt_try(&r, sum, &opts, &p, NULL), TOLK_OK);
    opts = (tolk_compile_opts)TOLK_COMPILE_OPTS_INIT;
    opts.symbol = "scale";
    emit(rt_text(RT_SCALE, 100000, "3"), "scale", &opts);
    build(sum_main, "sum.o scale.o");
    for (int i = 0; i < 100000; i++)
        x[i] = (float)(i % 77) * 0.37f * 3;
    float s = -1;
    void *bufs[] = {&s, x};
    size_t bytes[] = {4, sizeof x};
    assert_int_equal(tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL), TOLK_OK);
    char out[256], want[256];
    run_main("", out, sizeof out);
    snprintf(want, sizeof want, "%a %a\n", (double)s, (double)s);
    assert_string_equal(out, want);
    tolk_program_unref(p);
}

/* Sizes: expressions of n and m, each the size of a buffer and of a loop. */
static const char *const sizes[] = {
    "%9 = mul i64 (%0, %1)\n",
    "%9 = add i64 (%0, %1)\n",
    "%9 = sub i64 (%0, %1)\n",
    "%2 = neg i64 (%0)\n%9 = sub i64 (%2, %1)\n",
    "%9 = max i64 (%0, %1)\n",
    "%9 = mulacc i64 (%0, %1, %1)\n",
    "%9 = cdiv i64 (%0, %1)\n",
    "%9 = cmod i64 (%0, %1)\n",
    "%9 = floordiv i64 (%0, %1)\n",
    "%9 = floormod i64 (%0, %1)\n",
    "%9 = shl i64 (%0, %1)\n",
    "%9 = shr i64 (%0, %1)\n",
    "%9 = and i64 (%0, %1)\n",
    "%9 = or i64 (%0, %1)\n",
    "%9 = xor i64 (%0, %1)\n",
    "%2 = cmplt bool (%0, %1)\n%3 = mul i64 (%0, %0)\n%9 = where i64 (%2, %1, %3)\n",
    "%2 = cmpeq bool (%0, %1)\n%9 = where i64 (%2, %1, %0)\n",
    "%2 = cmpne bool (%0, %1)\n%3 = cast bool (%0)\n%4 = add bool (%2, %3)\n"
    "%9 = where i64 (%4, %1, %0)\n",
    "%2 = cast u8 (%0)\n%3 = cast u8 (%1)\n%4 = mul u8 (%2, %3)\n%9 = cast i64 (%4)\n",
    "%2 = cast i16 (%0)\n%3 = cast i16 (%1)\n%4 = floordiv i16 (%2, %3)\n%9 = cast i64 (%4)\n",
    "%2 = cast i8 (%0)\n%3 = cast i8 (%1)\n%4 = shl i8 (%2, %3)\n%9 = cast i64 (%4)\n",
    "%2 = cast i32 (%0)\n%3 = cast i32 (%1)\n%4 = shr i32 (%2, %3)\n%9 = cast i64 (%4)\n",
    "%2 = cast u64 (%0)\n%3 = cast u64 (%1)\n%4 = floordiv u64 (%2, %3)\n%9 = cast i64 (%4)\n",
    "%2 = cast u64 (%0)\n%3 = cast u64 (%1)\n%4 = cmod u64 (%2, %3)\n%9 = cast i64 (%4)\n",
    "%2 = cast u64 (%0)\n%3 = cast u64 (%1)\n%4 = max u64 (%2, %3)\n%9 = cast i64 (%4)\n",
    "%2 = cast u32 (%0)\n%3 = cast u32 (%1)\n%4 = cmplt bool (%2, %3)\n%5 = cast i64 (%4)\n"
    "%6 = mul i64 (%0, %0)\n%9 = mul i64 (%5, %6)\n",
};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

/* z has the size and is not touched, so that the size may be what it likes. */
static const char *size_kernel(int i) {
    return rt_text("tolk.uop 1\n"
                   "%%0 = param i64 {slot=2, name=\"n\", space=alu}\n"
                   "%%1 = param i64 {slot=3, name=\"m\", space=alu}\n"
                   "%s"
                   "%%10 = cast index (%%9)\n"
                   "%%11 = param f32 (%%10) {slot=0, name=\"z\"}\n"
                   "%%12 = range index (%%10) {axis=0, kind=global}\n"
                   "%%13 = index f32 (%%11, %%12)\n"
                   "%%14 = const f32 1\n"
                   "%%15 = store void (%%13, %%14)\n"
                   "%%16 = end void (%%15, %%12)\n"
                   "%%17 = sink void (%%16) {name=\"k%d\"}\n",
                   sizes[i], i);
}

static const int64_t edges[] = {0,          1,           2,         3,         7,
                                8,          63,          64,        100,       127,
                                128,        255,         256,       -1,        -2,
                                -7,         -128,        32767,     65536,     2147483647,
                                2147483648, -32768,      INT64_MAX, INT64_MIN, INT64_MIN + 1,
                                3037000500, -3037000500, 4294967296};
enum { N_EDGES = sizeof edges / sizeof *edges };

static void test_sizes_of_a_header_are_those_of_the_library(void **state) {
    (void)state;
    if (!has_cc())
        skip();
    static char text[32768], out[1 << 20];
    char objects[1024] = "";
    size_t n = 0;
    for (int i = 0; i < N_SIZES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "#include \"k%d.h\"\n", i);
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "#include <stdio.h>\n"
                          "static const int64_t edges[] = {");
    for (int i = 0; i < N_EDGES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%lld%s,",
                              (long long)(edges[i] == INT64_MIN ? edges[i] + 1 : edges[i]),
                              edges[i] == INT64_MIN ? " - 1" : "");
    snprintf(text + n, sizeof text - n, "};\n");
    n += 3;
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "int main(void) {\n"
                          "    int a, b;\n"
                          "    for (a = 0; a < %d; a++)\n"
                          "        for (b = 0; b < %d; b++) {\n"
                          "            int64_t vals[2];\n"
                          "            vals[0] = edges[a];\n"
                          "            vals[1] = edges[b];\n",
                          N_EDGES, N_EDGES);
    for (int i = 0; i < N_SIZES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "            printf(\"%%lld \", (long long)tolk_kernel_k%d_elems(0, "
                              "vals));\n",
                              i);
    snprintf(text + n, sizeof text - n, "        }\n    return 0;\n}\n");
    tolk_program *p[N_SIZES];
    for (int i = 0; i < N_SIZES; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", i);
        emit(size_kernel(i), name, NULL);
        snprintf(objects + strlen(objects), sizeof objects - strlen(objects), "%s.o ", name);
        p[i] = rt_compile(&r, size_kernel(i));
    }
    build(text, objects);
    run_main("", out, sizeof out);
    char *at = out;
    int refused = 0, told = 0;
    for (int a = 0; a < N_EDGES; a++)
        for (int b = 0; b < N_EDGES; b++)
            for (int i = 0; i < N_SIZES; i++) {
                int64_t vals[] = {edges[a], edges[b]}, want = -1;
                tolk_error err = TOLK_ERROR_INIT;
                if (tolk_program_param_elems(p[i], 0, vals, 2, &want, &err))
                    want = -1;
                int64_t got = strtoll(at, &at, 10);
                if (got != want)
                    fail_msg("n = %lld, m = %lld: the header says %lld, the library %lld (%s): %s",
                             (long long)vals[0], (long long)vals[1], (long long)got,
                             (long long)want, err.msg, sizes[i]);
                *(want < 0 ? &refused : &told) += 1;
            }
    assert_true(refused > 1000 && told > 1000);
    for (int i = 0; i < N_SIZES; i++)
        tolk_program_unref(p[i]);
}

static void test_headers_are_refused_with_a_reason(void **state) {
    (void)state;
    static const char *const bad[] = {"",    "1a",       "a b",  "while", "a-b",
                                      "int", "\xc3\xa9", "a\nb", "main",  "template"};
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    char *out;
    size_t len;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, sum, sizeof sum - 1, 0, &root, &err), TOLK_OK);
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        opts.symbol = bad[i];
        assert_int_equal(tolk_emit(r.ctx, root, &opts, TOLK_EMIT_OBJ, &out, &len, &err),
                         TOLK_E_ARG);
        assert_non_null(strstr(err.msg, "expected an identifier of C"));
    }
    /* a size that is no integer arithmetic */
    static const char odd[] = "tolk.uop 1\n"
                              "%0 = param f32 {slot=1, name=\"a\", space=alu}\n"
                              "%1 = cast index (%0)\n"
                              "%2 = param f32 (%1) {slot=0, name=\"y\"}\n"
                              "%3 = range index (%1) {axis=0, kind=global}\n"
                              "%4 = index f32 (%2, %3)\n"
                              "%5 = store void (%4, %0)\n"
                              "%6 = end void (%5, %3)\n"
                              "%7 = sink void (%6) {name=\"odd\"}\n";
    opts.symbol = NULL;
    if (!tolk_parse(g, odd, sizeof odd - 1, 0, &root, &err) &&
        !tolk_verify(root, TOLK_STAGE_KERNEL, &err)) {
        assert_int_equal(tolk_emit(r.ctx, root, &opts, TOLK_EMIT_HEADER, &out, &len, &err),
                         TOLK_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "C header of kernel odd"));
    }
    tolk_graph_destroy(g);
}

static int setup_dir(void **state) {
    dir = rt_mkdir();
    return setup(state);
}

static int teardown_dir(void **state) {
    rt_rmdir(dir);
    return teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program_with_a_header_computes_the_same),
        cmocka_unit_test(test_two_kernels_scratch_and_barrier),
        cmocka_unit_test(test_caller_says_the_size_of_the_dynamic_buffer),
        cmocka_unit_test(test_sizes_of_a_header_are_those_of_the_library),
        cmocka_unit_test(test_headers_are_refused_with_a_reason),
    };
    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}
