/* SPDX-License-Identifier: MIT
 *
 * THR-05: exit() while the very first compilations of a process run. LLVM makes most of its tables
 * then, and exit() destroys them. This process itself uses nothing of the library: each child is a
 * fresh one.
 */
#include "support/runtime.h"

#include <pthread.h>

/* exit() comes between the end of a compiler's thread and its join: that is no leak. */
#if TK_TEST_TSAN
const char *__tsan_default_options(void); /* NOLINT */
const char *__tsan_default_options(void) {
    return "report_thread_leaks=0";
}
#endif

static rt shared;

static void *compile(void *arg) {
    tolk_compile_opts opts = TOLK_COMPILE_OPTS_INIT;
    opts.no_cache = 1;
    for (int i = 0; i < 200; i++) {
        tolk_program *p = NULL;
        if (rt_try(&shared, rt_text(RT_SCALE, 1000, "3"), &opts, &p, NULL) != TOLK_OK)
            break; /* the process ends */
        tolk_program_unref(p);
    }
    return arg;
}

/* 1 to 4 threads compile; exit() from 0 to 9 ms after their start, by main or by a thread. */
static void *leave(void *arg) {
    exit(7);
    return arg;
}

static int exit_in_first_compilation(void *arg) {
    int run = *(int *)arg;
    pthread_t thread;
    rt_open(&shared, NULL, NULL);
    for (int i = 0; i < 1 + run % 4; i++)
        if (pthread_create(&thread, NULL, compile, NULL))
            return 1;
    rt_sleep(1e-6 * (double)(run * 37 % 9000 / (1 + run % 3)));
    if (run % 5 == 0 && pthread_create(&thread, NULL, leave, NULL) == 0)
        pthread_join(thread, NULL);
    exit(7);
}

static void test_THR_05_exit_during_the_first_compilation_ends_with_its_status(void **state) {
    (void)state;
    int runs = 60 + (int)tk_test_count(1400);
    for (int i = 0; i < runs; i++) {
        int code = tk_test_child(exit_in_first_compilation, &i, 60);
        if (code != 7)
            fail_msg("run %d of %d ended with %d, expected 7", i, runs, code);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_THR_05_exit_during_the_first_compilation_ends_with_its_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
