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
    emit(RT_SUM, "sum", &opts);
    tolk_program *p = NULL;
    assert_int_equal(rt_try(&r, RT_SUM, &opts, &p, NULL), TOLK_OK);
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

#define KEYWORD "a keyword of C or C++"
#define RESERVED "reserved, as all that begin with _ are for C"
#define MACRO "a macro of C's headers or compilers"
#define FUNCTION "a function of the C library"
#define TYPE "a type of the C library"
#define OWN "a name of tolk or its header"

static const struct {
    const char *name, *is;
} names[] = {
    /* C11 6.4.1, C++20 [lex.key] and [lex.digraph] */
    {"_Bool", KEYWORD},
    {"_Alignas", KEYWORD},
    {"_Alignof", KEYWORD},
    {"_Atomic", KEYWORD},
    {"_Complex", KEYWORD},
    {"_Generic", KEYWORD},
    {"_Imaginary", KEYWORD},
    {"_Noreturn", KEYWORD},
    {"_Static_assert", KEYWORD},
    {"_Thread_local", KEYWORD},
    {"auto", KEYWORD},
    {"break", KEYWORD},
    {"case", KEYWORD},
    {"char", KEYWORD},
    {"const", KEYWORD},
    {"continue", KEYWORD},
    {"default", KEYWORD},
    {"do", KEYWORD},
    {"double", KEYWORD},
    {"else", KEYWORD},
    {"enum", KEYWORD},
    {"extern", KEYWORD},
    {"float", KEYWORD},
    {"for", KEYWORD},
    {"goto", KEYWORD},
    {"if", KEYWORD},
    {"inline", KEYWORD},
    {"int", KEYWORD},
    {"long", KEYWORD},
    {"register", KEYWORD},
    {"restrict", KEYWORD},
    {"return", KEYWORD},
    {"short", KEYWORD},
    {"signed", KEYWORD},
    {"sizeof", KEYWORD},
    {"static", KEYWORD},
    {"struct", KEYWORD},
    {"switch", KEYWORD},
    {"typedef", KEYWORD},
    {"union", KEYWORD},
    {"unsigned", KEYWORD},
    {"void", KEYWORD},
    {"volatile", KEYWORD},
    {"while", KEYWORD},
    {"template", KEYWORD},
    {"class", KEYWORD},
    {"new", KEYWORD},
    {"xor_eq", KEYWORD},
    {"wchar_t", KEYWORD},
    {"char8_t", KEYWORD},
    {"co_await", KEYWORD},
    /* C11 7.1.3 */
    {"_", RESERVED},
    {"_x", RESERVED},
    {"_X", RESERVED},
    {"__x", RESERVED},
    {"__attribute__", RESERVED},
    {"__restrict", RESERVED},
    {"__func__", RESERVED},
    {"_start", RESERVED},
    /* <stddef.h>, <stdint.h>, <string.h>, and functions that an object would replace */
    {"NULL", MACRO},
    {"errno", MACRO},
    {"offsetof", MACRO},
    {"INT64_C", MACRO},
    {"INT32_MAX", MACRO},
    {"UINT_FAST8_MAX", MACRO},
    {"SIZE_MAX", MACRO},
    {"WCHAR_MIN", MACRO},
    {"size_t", TYPE},
    {"int64_t", TYPE},
    {"uint32_t", TYPE},
    {"uint64_t", TYPE},
    {"uint_least8_t", TYPE},
    {"max_align_t", TYPE},
    {"memset", FUNCTION},
    {"memcpy", FUNCTION},
    {"strlen", FUNCTION},
    {"index", FUNCTION},
    {"malloc", FUNCTION},
    {"printf", FUNCTION},
    {"exp", FUNCTION},
    {"erf", FUNCTION},
    {"erff", FUNCTION},
    {"sqrtl", FUNCTION},
    {"csqrtf", FUNCTION},
    {"main", "the function that a C program starts with"},
    /* the header's */
    {"tolk_kenv", OWN},
    {"tolk_never", OWN},
    {"tolk_bufs", OWN},
    {"tolk_size_op", OWN},
    {"TOLK_KENV_DEFINED", OWN},
    {"tolk_launch", OWN},
    {"tolk_kernel_name", OWN},
    {"slot0", OWN},
    {"slot_7", OWN},
};

/* Names that are near one of those, and what the header's own variables and members are called. */
static const char *const good[] = {
    "whiles", "Bool",    "a_",     "scale",       "x",
    "vals",   "sizes",   "bufs",   "begin",       "env",
    "none",   "s0",      "int_t1", "gemm_t",      "expo",
    "l",      "f",       "slots",  "slot",        "INT",
    "MAX",    "stride",  "totals", "tolk_kernel", "tolk_kernel_scale",
    "size",   "WARP_SZ", "tolkien"};

/* As a program that includes a header sees it: with each of the good names as symbol. */
static void test_headers_with_any_symbol_compile(void **state) {
    (void)state;
    if (!has_cc())
        skip();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[1024], out[64];
        tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
        opts.symbol = good[i];
        opts.tier = TOLK_TIER_QUICK;
        emit(rt_text(RT_SCALE, 3, "3"), "named", &opts);
        snprintf(text, sizeof text,
                 "#include \"named.h\"\n#include <stdio.h>\n"
                 "int main(void) {\n"
                 "    static float in[3] = {1, 2, 3}, out[3];\n"
                 "    int status = %s_run(out, in);\n"
                 "    printf(\"%%d %%g %%g %%g\", status, out[0], out[1], out[2]);\n"
                 "    return 0;\n}\n",
                 good[i]);
        build(text, "named.o");
        run_main("", out, sizeof out);
        assert_string_equal(out, "0 3 6 9");
    }
}

static int is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

enum { MAX_WORDS = 4000 };

static int add_word(char (*words)[64], int n, const char *word, size_t len) {
    if (!len || len > 50 || (word[0] >= '0' && word[0] <= '9'))
        return n;
    for (int i = 0; i < n; i++)
        if (strlen(words[i]) == len && memcmp(words[i], word, len) == 0)
            return n;
    assert_true(n < MAX_WORDS);
    memcpy(words[n], word, len);
    words[n][len] = 0;
    return n + 1;
}

static int add_words(char (*words)[64], int n, const char *text) {
    while (*text) {
        size_t len = 0;
        while (is_word(text[len]))
            len++;
        n = add_word(words, n, text, len);
        text += len ? len : 1;
    }
    return n;
}

/* y[i] = a for a of f32, which is copied by memcpy, and a second buffer, with names. */
static const char *named(const char *buffer, const char *scalar) {
    return rt_text("tolk.uop 1\n"
                   "%%0 = param i32 {slot=2, space=alu, min=0, max=64}\n"
                   "%%1 = cast index (%%0)\n"
                   "%%2 = param f32 (%%1) {slot=0, name=\"%s\"}\n"
                   "%%3 = param f32 {slot=1, name=\"%s\", space=alu}\n"
                   "%%4 = range index (%%1) {axis=0, kind=global}\n"
                   "%%5 = index f32 (%%2, %%4)\n"
                   "%%6 = store void (%%5, %%3)\n"
                   "%%7 = end void (%%6, %%4)\n"
                   "%%8 = sink void (%%7) {name=\"named\"}\n",
                   buffer, scalar);
}

static char *header_of(const char *text, const char *symbol) {
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    char *out = NULL;
    size_t len;
    opts.symbol = symbol;
    opts.tier = TOLK_TIER_QUICK;
    opts.no_cache = 1;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) ||
        tolk_emit(r.ctx, root, &opts, TOLK_EMIT_HEADER, &out, &len, &err))
        fail_msg("%s\n%s", err.msg, text);
    tolk_graph_destroy(g);
    return out;
}

/* Every word of a header, and every name of the lists above, is the name of a buffer once and that
 * of a scalar once: the header compiles. */
static void test_parameters_of_any_name_compile(void **state) {
    (void)state;
    if (!has_cc())
        skip();
    static char words[MAX_WORDS][64];
    int n = 0;
    char *text = header_of(named("y", "a"), "named");
    n = add_words(words, n, strstr(text, "#ifndef"));
    tolk_free_text(r.ctx, text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        n = add_word(words, n, names[i].name, strlen(names[i].name));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        n = add_word(words, n, good[i], strlen(good[i]));
    /* all headers in one file, each with a symbol of its own */
    char path[512], symbol[32];
    snprintf(path, sizeof path, "%s/all.h", dir);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < n; i++) {
        snprintf(symbol, sizeof symbol, "k%d", i);
        text = header_of(named(words[i], words[(i + 1) % n]), symbol);
        assert_true(fputs(text, f) >= 0);
        tolk_free_text(r.ctx, text);
    }
    /* kernels whose names would be those of the API */
    text = header_of(rt_text("tolk.uop 1\n%%0 = sink void {name=\"name\"}\n"), NULL);
    assert_non_null(strstr(text, "\nvoid tolk_kernel_name_("));
    tolk_free_text(r.ctx, text);
    /* what the header makes of its symbol */
    static const char *const own[] = {"", "_h", "_run", "_sizes", "_N_BUFS", "er"};
    for (int i = 0; i < (int)(sizeof own / sizeof *own); i++) {
        char name[64];
        snprintf(symbol, sizeof symbol, "own%d", i);
        snprintf(name, sizeof name, "%s%s", symbol, own[i]);
        text = header_of(named(name, "a"), symbol);
        assert_int_equal(strstr(text, "float *slot0") == NULL, strcmp(own[i], "er") == 0);
        assert_true(fputs(text, f) >= 0);
        tolk_free_text(r.ctx, text);
    }
    assert_int_equal(fclose(f), 0);
    char command[2048];
    static const char *const languages[] = {"cc -x c -std=c11", "cc -x c -std=gnu17",
                                            "c++ -x c++ -std=gnu++17"};
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        snprintf(command, sizeof command,
                 "cd %s && { [ %d = 0 ] || command -v c++ >/dev/null || exit 0; } && "
                 "printf '#include \"all.h\"\\n' | %s " WARNINGS
                 " -fsyntax-only - 2>log || { head -20 log; false; }",
                 dir, i == 2, languages[i]);
        if (system(command))
            fail_msg("a header does not compile: %s", command);
    }
}

/* What the includes of a header declare is refused as symbol, whatever the C library. */
static void test_symbols_that_the_includes_declare_are_refused(void **state) {
    (void)state;
    if (!has_cc())
        skip();
    static char words[MAX_WORDS][64];
    char command[1024], word[128];
    /* functions: a name before '('; types: the last name of a typedef; macros */
    snprintf(command, sizeof command,
             "cd %s && printf '#include <stddef.h>\\n#include <stdint.h>\\n#include <string.h>\\n' "
             ">inc.c && { cc -E -P inc.c | grep -oE '[A-Za-z_0-9]+ *\\(' | tr -d ' ('; "
             "cc -E -P inc.c | grep -oE '[A-Za-z_0-9]+;' | tr -d ';'; "
             "cc -E -dM inc.c | awk '{print $2}' | sed 's/(.*//'; } | sort -u",
             dir);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    int n = 0;
    while (fgets(word, sizeof word, f))
        n = add_word(words, n, word, strcspn(word, "\n"));
    assert_int_equal(pclose(f), 0);
    assert_true(n > 200);
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    char *out;
    size_t len;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, RT_SUM, sizeof RT_SUM - 1, 0, &root, &err), TOLK_OK);
    for (int i = 0; i < n; i++) {
        opts.symbol = words[i];
        if (tolk_emit(r.ctx, root, &opts, TOLK_EMIT_HEADER, &out, &len, &err) != TOLK_E_ARG)
            fail_msg("the symbol %s is taken", words[i]);
    }
    tolk_graph_destroy(g);
}

static void test_headers_are_refused_with_a_reason(void **state) {
    (void)state;
    static const char *const bad[] = {"", "1a", "a b", "a-b", "\xc3\xa9", "a\nb", "a$b"};
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    char *out;
    size_t len;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    assert_int_equal(tolk_parse(g, RT_SUM, sizeof RT_SUM - 1, 0, &root, &err), TOLK_OK);
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        opts.symbol = bad[i];
        assert_int_equal(tolk_emit(r.ctx, root, &opts, TOLK_EMIT_OBJ, &out, &len, &err),
                         TOLK_E_ARG);
        assert_non_null(strstr(err.msg, "expected an identifier of C, at most 64 bytes"));
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char want[160];
        opts.symbol = names[i].name;
        if (tolk_emit(r.ctx, root, &opts, TOLK_EMIT_HEADER, &out, &len, &err) != TOLK_E_ARG)
            fail_msg("the symbol %s is taken", names[i].name);
        snprintf(want, sizeof want, "symbol \"%s\" is %s: expected an identifier of C that",
                 names[i].name, names[i].is);
        if (!strstr(err.msg, want))
            fail_msg("%s: expected %s", err.msg, want);
    }
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        opts.symbol = good[i];
        if (tolk_emit(r.ctx, root, &opts, TOLK_EMIT_HEADER, &out, &len, &err))
            fail_msg("%s", err.msg);
        tolk_free_text(r.ctx, out);
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
        cmocka_unit_test(test_headers_with_any_symbol_compile),
        cmocka_unit_test(test_parameters_of_any_name_compile),
        cmocka_unit_test(test_symbols_that_the_includes_declare_are_refused),
    };
    return cmocka_run_group_tests(tests, setup_dir, teardown_dir);
}
