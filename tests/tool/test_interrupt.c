/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C while tolk-jit runs a kernel that would take minutes: it ends soon, with exit code 130 and
 * not by the signal, on the CPU and on the interpreter. REPL-01's part that exists without a
 * prompt.
 */
#include "support/tk_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char kernel[] = TK_TEST_LONG_KERNEL;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void interrupt_run_on(const char *device) {
    const char *jit = getenv("TOLK_JIT");
    assert_non_null(jit);
    char path[] = "/tmp/tolk-interrupt-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, kernel, sizeof kernel - 1), sizeof kernel - 1);
    close(fd);

    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        execl(jit, jit, "run", path, "--device", device, (char *)NULL);
        _exit(99);
    }
    /* Time to be in the kernel: if the machine is slow this still is before it, which must end the
     * same way, so the test cannot fail by being early. */
    struct timespec pause = {1, 0};
    nanosleep(&pause, NULL);
    int status;
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* it is still at work */
    kill(pid, SIGINT);
    double start = now();
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct timespec tick = {0, 5000000};
        nanosleep(&tick, NULL);
        if (now() - start > 20) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            unlink(path);
            fail_msg("%s: still running 20 s after the signal", device);
        }
    }
    unlink(path);
    if (WIFSIGNALED(status))
        fail_msg("%s: ended by signal %d", device, WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 130);
}

static void test_REPL_01_interrupt_on_cpu_ends_with_130(void **state) {
    (void)state;
    interrupt_run_on("CPU");
}

static void test_REPL_01_interrupt_on_interpreter_ends_with_130(void **state) {
    (void)state;
    interrupt_run_on("interp");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_REPL_01_interrupt_on_cpu_ends_with_130),
        cmocka_unit_test(test_REPL_01_interrupt_on_interpreter_ends_with_130),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
