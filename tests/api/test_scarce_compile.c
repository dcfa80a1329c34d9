/* SPDX-License-Identifier: MIT
 *
 * Compilations where the address space of the process ends: LLVM ends the process when it gets no
 * memory, so the library has to see that there is enough before it asks LLVM. Each case is a
 * process of its own.
 */
#include "support/runtime.h"

enum { LONGEST = 3000, ROOM = 1000000 };

typedef struct scarcity {
    int length;    /* of a chain of instructions */
    size_t memory; /* more bytes of address space than now */
    bool first;    /* nothing was compiled before */
} scarcity;

/* y[i] = a long chain of x[i], i < 1000. */
static const char *chain(int length) {
    static char text[ROOM];
    size_t n = (size_t)snprintf(
        text, ROOM,
        "tolk.uop 1\n%%0 = const index 1000\n%%1 = param f32 (%%0) {slot=0}\n"
        "%%2 = param f32 (%%0) {slot=1}\n%%3 = range index (%%0) {axis=0, kind=global}\n"
        "%%4 = index f32 (%%2, %%3)\n%%5 = load f32 (%%4)\n%%6 = index f32 (%%1, %%3)\n");
    int at = 6, value = 5;
    for (int i = 0; i < length; i++, value = at)
        n += (size_t)snprintf(text + n, ROOM - n,
                              "%%%d = const f32 %d.5\n%%%d = mul f32 (%%%d, %%%d)\n"
                              "%%%d = add f32 (%%%d, %%5)\n",
                              at + 1, i, at + 2, value, at + 1, at + 3, at + 2),
            at += 3;
    snprintf(text + n, ROOM - n,
             "%%%d = store void (%%6, %%%d)\n%%%d = end void (%%%d, %%3)\n"
             "%%%d = sink void (%%%d) {name=\"chain\"}\n",
             at + 1, value, at + 2, at + 1, at + 3, at + 2);
    return text;
}

/* Exit code 0: compiled; 1: refused for want of memory, or as LLVM could not be loaded. */
static int compile_with(void *arg) {
    const scarcity *s = arg;
    const char *text = chain(s->length);
    rt r;
    rt_open(&r, NULL, NULL);
    if (!s->first)
        rt_compile(&r, rt_text(RT_SCALE, 10, "3"));
    if (!tk_test_limit_memory(s->memory))
        return 2;
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.tier = TOLK_TIER_FULL;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = rt_try(&r, text, &opts, &p, &err);
    bool refused = st == TOLK_E_NOMEM || strstr(err.msg, "libtolk-llvm.so cannot be opened");
    return st == TOLK_OK ? 0 : refused ? 1 : 3;
}

static void test_scarce_memory_compilations_are_right_or_refused(void **state) {
    (void)state;
    if (TK_TEST_ASAN || TK_TEST_TSAN)
        skip(); /* they map what they want */
    static const int lengths[] = {2, 1000, LONGEST};
    static const size_t mib[] = {0, 1, 3, 8, 17, 20, 34, 48, 64, 70, 84, 100, 150, 400};
    int compiled = 0;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
        for (size_t i = 0; i < sizeof mib / sizeof *mib; i++)
            for (int first = 0; first < 2; first++) {
                scarcity s = {lengths[k], (mib[i] << 20) + 4096, first};
                int code = tk_test_child(compile_with, &s, 60);
                if (code != 0 && code != 1)
                    fail_msg("%d instructions, %zu MiB, %s: the child ended with %d", s.length,
                             mib[i], first ? "first" : "not first", code);
                compiled += code == 0;
            }
    assert_true(compiled >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scarce_memory_compilations_are_right_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
