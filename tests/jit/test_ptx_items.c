/* SPDX-License-Identifier: MIT
 *
 * Programs for a GPU whose threads meet: shared memory, barriers, shuffles, atomic additions. Their
 * PTX is looked at as text and assembled by ptxas where that is installed.
 */
#include "support/runtime.h"
#include "support/tk_ptx.h"

#include "base/strbuf.h"
#include "ir/uop.h"
#include "jit/llvm_api.h"

#include <stdio.h>
#include <string.h>

RT_FIXTURE

static tk_target target_of(const char *name) {
    static const tk_host none;
    tk_target t;
    tolk_error err = TOLK_ERROR_INIT;
    if (tk_target_parse(&none, name, &t, &err) != TOLK_OK)
        fail_msg("%s", err.msg);
    return t;
}

/* The PTX of a program in text, after all checks; to be freed by tk_strbuf_text_free. */
static char *ptx(const char *text, const char *chip) {
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    tk_target target = target_of(chip);
    char *out;
    size_t len;
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    if (tolk_parse(g, text, strlen(text), 0, &root, &err) ||
        tolk_verify(root, TOLK_STAGE_PROGRAM, &err))
        fail_msg("%u: %s\n%s", err.line, err.msg, text);
    if (tk_llvm_emit(r.ctx, &target, root, "tolk_kernel", TK_LLVM_ASM, NULL, NULL, &out, &len,
                     &err))
        fail_msg("%s\n%s", err.msg, text);
    tk_ptx_check(out, &target);
    tolk_graph_destroy(g);
    return out;
}

static void drop(char *text) {
    tk_strbuf_text_free(&r.ctx->al, text);
}

/* Each block of n threads turns its n elements of dtype around, through a local buffer. */
#define TURN                                                                                       \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = const index 64\n"                                                                       \
    "%%2 = const index 1000000\n"                                                                  \
    "%%3 = param %s (%%2) {slot=0}\n"                                                              \
    "%%4 = param %s (%%2) {slot=1}\n"                                                              \
    "%%5 = buffer %s (%%0) {slot=0, space=local}\n"                                                \
    "%%6 = special index (%%1) {name=\"gidx0\"}\n"                                                 \
    "%%7 = special index (%%0) {name=\"lidx0\"}\n"                                                 \
    "%%8 = mul index (%%6, %%0)\n"                                                                 \
    "%%9 = add index (%%8, %%7)\n"                                                                 \
    "%%10 = index %s (%%4, %%9)\n"                                                                 \
    "%%11 = load %s (%%10) {inbounds=true}\n"                                                      \
    "%%12 = index %s (%%5, %%7)\n"                                                                 \
    "%%13 = store void (%%12, %%11) {inbounds=true}\n"                                             \
    "%%14 = barrier void (%%13)\n"                                                                 \
    "%%15 = const index -1\n"                                                                      \
    "%%16 = add index (%%0, %%15)\n"                                                               \
    "%%17 = sub index (%%16, %%7)\n"                                                               \
    "%%18 = after %s (%%5, %%14)\n"                                                                \
    "%%19 = index %s (%%18, %%17)\n"                                                               \
    "%%20 = load %s (%%19) {inbounds=true}\n"                                                      \
    "%%21 = index %s (%%3, %%9)\n"                                                                 \
    "%%22 = store void (%%21, %%20) {inbounds=true}\n"                                             \
    "%%23 = linear void (%%0, %%1, %%2, %%3, %%4, %%5, %%6, %%7, %%8, %%9, %%10, %%11, %%12, "     \
    "%%13, %%14, %%15, %%16, %%17, %%18, %%19, %%20, %%21, %%22) {name=\"turn\"}\n"

static char *turn(int n, const char *d, const char *chip) {
    return ptx(rt_text(TURN, n, d, d, d, d, d, d, d, d, d, d), chip);
}

static void test_local_buffers_are_static_shared_memory(void **state) {
    (void)state;
    static const char *const dtypes[] = {"bool", "i8",  "i16", "i32", "i64",
                                         "u8",   "u32", "f32", "f64"};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char *text = turn(256, dtypes[i], "sm_75");
        tk_ptx_stands(text, "bar.sync", 1);
        assert_non_null(strstr(text, ".shared .align 16 .b8 tolk_local_0["));
        assert_null(strstr(text, ".extern"));
        assert_non_null(strstr(text, ".maxntid 256, 1, 1"));
        drop(text);
    }
    char *text = turn(256, "f32", "sm_90a");
    tk_ptx_stands(text, "st.shared.f32", 1);
    tk_ptx_stands(text, "ld.shared.f32", 1);
    assert_non_null(strstr(text, "tolk_local_0[1024]"));
    drop(text);
}

/* More than 48 KiB cannot be static: it is part of what the launch asks for. */
static void test_much_local_memory_comes_with_the_launch(void **state) {
    (void)state;
    static const char big[] =
        "tolk.uop 1\n"
        "%%0 = const index %d\n"
        "%%1 = const index 32\n"
        "%%2 = param f32 (%%1) {slot=0}\n"
        "%%3 = buffer f32 (%%0) {slot=0, space=local}\n"
        "%%4 = buffer f32 (%%1) {slot=1, space=local}\n"
        "%%5 = special index (%%1) {name=\"lidx0\"}\n"
        "%%6 = const f32 0x1p+0\n"
        "%%7 = index f32 (%%3, %%5)\n"
        "%%8 = store void (%%7, %%6) {inbounds=true}\n"
        "%%9 = index f32 (%%4, %%5)\n"
        "%%10 = store void (%%9, %%6) {inbounds=true}\n"
        "%%11 = barrier void (%%8, %%10)\n"
        "%%12 = after f32 (%%3, %%11)\n"
        "%%13 = const index 0\n"
        "%%14 = index f32 (%%12, %%13)\n"
        "%%15 = load f32 (%%14) {inbounds=true}\n"
        "%%16 = index f32 (%%2, %%5)\n"
        "%%17 = store void (%%16, %%15) {inbounds=true}\n"
        "%%18 = linear void (%%0, %%1, %%2, %%3, %%4, %%5, %%6, %%7, %%8, %%9, %%10, %%11, %%12, "
        "%%13, %%14, %%15, %%16, %%17) {name=\"big\"}\n";
    char text[2048];
    snprintf(text, sizeof text, big, 12288 - 32); /* with the other buffer: 48 KiB */
    char *p = ptx(text, "sm_80");
    assert_non_null(strstr(p, "tolk_local_1["));
    assert_null(strstr(p, ".extern"));
    drop(p);
    snprintf(text, sizeof text, big, 12288);
    p = ptx(text, "sm_80");
    assert_null(strstr(p, "tolk_local"));
    assert_non_null(strstr(p, ".extern .shared .align 16 .b8 tolk_shared[];"));
    assert_non_null(strstr(p, "+49152]")); /* the second buffer stands behind the first */
    drop(p);
}

/* y[i] = the dynamic buffer at any index. */
static void test_the_dynamic_buffer_is_checked_against_the_launch(void **state) {
    (void)state;
    char *p = ptx("tolk.uop 1\n"
                  "%0 = const index 64\n"
                  "%1 = param f64 (%0) {slot=0}\n"
                  "%2 = param i64 {slot=1, space=alu}\n"
                  "%3 = buffer f64 {slot=0, space=local, dynamic=true}\n"
                  "%4 = special index (%0) {name=\"lidx0\"}\n"
                  "%5 = cast index (%2)\n"
                  "%6 = index f64 (%3, %5)\n"
                  "%7 = load f64 (%6)\n"
                  "%8 = index f64 (%1, %4)\n"
                  "%9 = store void (%8, %7) {inbounds=true}\n"
                  "%10 = linear void (%0, %1, %2, %3, %4, %5, %6, %7, %8, %9) {name=\"dyn\"}\n",
                  "sm_75");
    assert_non_null(strstr(p, "%dynamic_smem_size"));
    assert_non_null(strstr(p, ".extern .shared .align 16 .b8 tolk_shared[];"));
    tk_ptx_stands(p, "ld.shared.f64", 1);
    tk_ptx_stands(p, "atom.global.cas.b32", 1);
    drop(p);
}

/* y[i] = the value of thread i xor lane, in blocks of n; lane comes with the launch. */
#define SHUFFLE                                                                                    \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index %d\n"                                                                       \
    "%%1 = param %s (%%0) {slot=0}\n"                                                              \
    "%%2 = param %s {slot=1, space=alu}\n"                                                         \
    "%%3 = special index (%%0) {name=\"lidx0\"}\n"                                                 \
    "%%4 = index %s (%%1, %%3)\n"                                                                  \
    "%%5 = load %s (%%4) {inbounds=true}\n"                                                        \
    "%%6 = shuffle %s (%%5, %%2)\n"                                                                \
    "%%7 = store void (%%4, %%6) {inbounds=true}\n"                                                \
    "%%8 = linear void (%%0, %%1, %%2, %%3, %%4, %%5, %%6, %%7) {name=\"shuffle\"}\n"

static void test_shuffles_take_one_instruction_a_word(void **state) {
    (void)state;
    static const struct {
        const char *dtype;
        unsigned words;
    } dtypes[] = {{"bool", 1}, {"i8", 1},  {"u16", 1}, {"i32", 1},
                  {"u64", 2},  {"f32", 1}, {"f64", 2}, {"index", 2}};
    static const char *const lanes[] = {"i32", "u32", "i64", "u8"};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes - 1; i++)
        for (size_t k = 0; k < 4; k++) {
            const char *d = dtypes[i].dtype;
            char *p = ptx(rt_text(SHUFFLE, 64, d, lanes[k], d, d, d), "sm_75");
            tk_ptx_stands(p, "shfl.sync.bfly.b32", dtypes[i].words);
            assert_null(strstr(p, "%ntid")); /* whole warps */
            drop(p);
        }
    /* The last warp of 48 threads has 16: a partner beyond them is no partner. */
    char *p = ptx(rt_text(SHUFFLE, 48, "f32", "i32", "f32", "f32", "f32"), "sm_80");
    assert_non_null(strstr(p, "%ntid.x"));
    tk_ptx_stands(p, "shfl.sync.bfly.b32", 1);
    drop(p);
}

/* Thread i adds x[i] to buffer[at[i]], which is global or local. */
#define ATOMIC                                                                                     \
    "tolk.uop 1\n"                                                                                 \
    "%%0 = const index 128\n"                                                                      \
    "%%1 = const index 10\n"                                                                       \
    "%%2 = %s %s (%%1) {slot=0%s}\n"                                                               \
    "%%3 = param %s (%%0) {slot=1}\n"                                                              \
    "%%4 = param i32 (%%0) {slot=2}\n"                                                             \
    "%%5 = special index (%%0) {name=\"lidx0\"}\n"                                                 \
    "%%6 = index i32 (%%4, %%5)\n"                                                                 \
    "%%7 = load i32 (%%6) {inbounds=true}\n"                                                       \
    "%%8 = cast index (%%7)\n"                                                                     \
    "%%9 = index %s (%%3, %%5)\n"                                                                  \
    "%%10 = load %s (%%9) {inbounds=true}\n"                                                       \
    "%%11 = index %s (%%2, %%8)\n"                                                                 \
    "%%12 = atomic_add void (%%11, %%10)%s\n"                                                      \
    "%%13 = linear void (%%0, %%1, %%2, %%3, %%4, %%5, %%6, %%7, %%8, %%9, %%10, %%11, %%12) "     \
    "{name=\"atomic\"}\n"

static void test_atomic_additions(void **state) {
    (void)state;
    static const struct {
        const char *dtype, *mnemonic; /* NULL: an exchange of the word around it */
        const char *code;             /* NULL: numbers, not codes of that dtype */
    } dtypes[] = {{"i32", "add.u32", NULL}, {"u32", "add.u32", NULL},  {"i64", "add.u64", NULL},
                  {"u64", "add.u64", NULL}, {"f64", "add.f64", NULL},  {"f32", NULL, NULL},
                  {"i8", NULL, NULL},       {"u8", NULL, NULL},        {"i16", NULL, NULL},
                  {"u16", NULL, NULL},      {"u16", "cas.b16", "f16"}, {"u16", "cas.b16", "bf16"},
                  {"u8", NULL, "fp8e4m3"},  {"u8", NULL, "fp8e5m2"}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        for (int local = 0; local < 2; local++)
            for (int checked = 0; checked < 2; checked++) {
                const char *d = dtypes[i].dtype, *space = local ? "shared" : "global";
                char mnemonic[48], attrs[64] = "";
                if (!checked || dtypes[i].code)
                    snprintf(attrs, sizeof attrs, " {%s%s%s%s%s}", checked ? "" : "inbounds=true",
                             !checked && dtypes[i].code ? ", " : "",
                             dtypes[i].code ? "code=\"" : "", dtypes[i].code ? dtypes[i].code : "",
                             dtypes[i].code ? "\"" : "");
                char *p = ptx(rt_text(ATOMIC, local ? "buffer" : "param", d,
                                      local ? ", space=local" : "", d, d, d, d, attrs),
                              "sm_75");
                snprintf(mnemonic, sizeof mnemonic, "atom.%s.%s", space,
                         dtypes[i].mnemonic ? dtypes[i].mnemonic : "cas.b32");
                tk_ptx_stands(
                    p, mnemonic,
                    1 + (checked && !local && !dtypes[i].mnemonic)); /* and the fault record */
                if (!strcmp(d, "f32") ||
                    dtypes[i].code) /* never the instruction that loses denormals */
                    assert_true(!strstr(p, "atom.global.add") && !strstr(p, "atom.shared.add"));
                drop(p);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local_buffers_are_static_shared_memory),
        cmocka_unit_test(test_much_local_memory_comes_with_the_launch),
        cmocka_unit_test(test_the_dynamic_buffer_is_checked_against_the_launch),
        cmocka_unit_test(test_shuffles_take_one_instruction_a_word),
        cmocka_unit_test(test_atomic_additions),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
