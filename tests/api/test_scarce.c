/* SPDX-License-Identifier: MIT
 *
 * Large launches where OpenMP cannot have what it wants: odd environments, no threads, no memory.
 * libomp ends the process then, so the launch has to do without. Each case is a process of its own,
 * in which OpenMP has not been used.
 */
#include "support/runtime.h"

#include <grp.h>
#include <sys/resource.h>

enum { LARGE = 4000000 }; /* far above what one thread does alone */

typedef struct scarcity {
    const char *name, *value; /* of a variable; NULL: none */
    size_t memory;            /* more bytes of address space than now; 0: any number */
    bool no_threads;
} scarcity;

/* Exit code 0: launched, and each element is right. */
static int launch_with(void *arg) {
    const scarcity *s = arg;
    static float x[LARGE], y[LARGE];
    void *bufs[] = {y, x};
    const size_t bytes[] = {sizeof y, sizeof x};
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.threads = 4;
    rt r;
    if (s->name)
        setenv(s->name, s->value, 1);
    rt_open(&r, NULL, &opts);
    tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, LARGE, "3"));
    for (int i = 0; i < LARGE; i++)
        x[i] = (float)i;
    if (s->memory && !tk_test_limit_memory(s->memory))
        return 1;
    if (s->no_threads) {
        struct rlimit none = {0, 0};
        if (setrlimit(RLIMIT_NPROC, &none) ||
            (geteuid() == 0 && (setgroups(0, NULL) || setuid(65534))))
            return 2;
    }
    if (tolk_launch(p, bufs, bytes, 2, NULL, 0, NULL) != TOLK_OK)
        return 3;
    for (int i = 0; i < LARGE; i++)
        if (y[i] != 3 * x[i])
            return 4;
    return 0;
}

static void check(const scarcity *s) {
    int code = tk_test_child(launch_with, (void *)(uintptr_t)s, 60); /* NOLINT */
    if (code != 0)
        fail_msg("%s=%s, %zu bytes%s: the child ended with %d", s->name ? s->name : "-",
                 s->name ? s->value : "-", s->memory, s->no_threads ? ", no threads" : "", code);
}

static void test_scarce_odd_OpenMP_variables_launches_are_right(void **state) {
    (void)state;
    static const scarcity cases[] = {
        {.name = "OMP_STACKSIZE", .value = "1000G"},
        {.name = "OMP_STACKSIZE", .value = "1"},
        {.name = "OMP_STACKSIZE", .value = "junk"},
        {.name = "OMP_STACKSIZE", .value = "-1"},
        {.name = "KMP_STACKSIZE", .value = "900000g"},
        {.name = "OMP_NUM_THREADS", .value = "junk"},
        {.name = "OMP_NUM_THREADS", .value = "junk"},
        {.name = "OMP_NUM_THREADS", .value = "2,junk"},
        {.name = "OMP_NUM_THREADS", .value = "99999"},
        {.name = "OMP_NUM_THREADS", .value = "3 , 2"},
        {.name = "OMP_NUM_THREADS", .value = "0"},
        {.name = "OMP_THREAD_LIMIT", .value = "1"},
        {.name = "KMP_AFFINITY", .value = "junk"},
        {.name = "OMP_PLACES", .value = "{99999}"},
        {.name = "KMP_BLOCKTIME", .value = "junk"},
        {.name = "OMP_DYNAMIC", .value = "true"},
        {.name = "OMP_MAX_ACTIVE_LEVELS", .value = "0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i]);
}

static void test_scarce_no_more_threads_launches_are_right(void **state) {
    (void)state;
    check(&(scarcity){.no_threads = true});
}

static void test_scarce_address_space_launches_are_right(void **state) {
    (void)state;
    if (TK_TEST_ASAN || TK_TEST_TSAN)
        skip(); /* they map what they want */
    for (size_t mib = 0; mib <= 800; mib += mib < 4 ? 1 : mib < 160 ? 6 : 40)
        check(&(scarcity){.memory = (mib << 20) + 4096});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scarce_odd_OpenMP_variables_launches_are_right),
        cmocka_unit_test(test_scarce_no_more_threads_launches_are_right),
        cmocka_unit_test(test_scarce_address_space_launches_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
