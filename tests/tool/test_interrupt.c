/* SPDX-License-Identifier: MIT
 *
 * Ctrl-C while tolk-jit runs a kernel that would take minutes: it ends soon, with exit code 130 and
 * not by the signal, on the CPU and on the interpreter. REPL-01's part that exists without a
 * prompt.
 */
#include "support/runtime.h"
#include "support/tk_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* ---- words ---- */

enum { MOST_TEXT = 1 << 24 };

/* What a file has, with a NUL behind it. */
static void read_file(const char *path, char *text) {
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, MOST_TEXT - 1, f);
    text[n] = 0;
    fclose(f);
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++)
        n++;
    return n;
}

static void write_short_kernel(const char *path) {
    static const char text[] = "tolk.uop 1\n"
                               "%0 = const index 64\n"
                               "%1 = param f32 (%0) {slot=0, name=\"y\"}\n"
                               "%2 = range index (%0) {axis=0, kind=global}\n"
                               "%3 = index f32 (%1, %2)\n"
                               "%4 = const f32 1\n"
                               "%5 = store void (%3, %4)\n"
                               "%6 = end void (%5, %2)\n"
                               "%7 = sink void (%6) {name=\"short\"}\n";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Run tolk-jit in a folder of its own, on lines of input or none, and interrupt it after a time,
 * `presses` times at once. It must end with 130 and say so in one line, in JSON too where that was
 * asked for: anywhere in a loop of short launches, not only inside of one. */
static void interrupt_says_so(char *const argv[], const char *input, long ms, int presses) {
    static char out[MOST_TEXT], err[MOST_TEXT];
    const char *jit = getenv("TOLK_JIT");
    assert_non_null(jit);
    char dir[] = "/tmp/tolk-interrupt-XXXXXX", home[4096];
    assert_non_null(getcwd(home, sizeof home));
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    write_short_kernel("short.uop");
    int in[2];
    assert_int_equal(pipe(in), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        dup2(in[0], STDIN_FILENO);
        close(in[1]);
        if (!freopen("out", "w", stdout) || !freopen("err", "w", stderr))
            _exit(98);
        execv(jit, argv);
        _exit(99);
    }
    close(in[0]);
    assert_int_equal(write(in[1], input, strlen(input)), strlen(input));
    struct stat st = {0};
    double start = now();
    while (input[0] && now() - start < 20 && (stat("out", &st) || !st.st_size))
        rt_sleep(0.005); /* the first of the lines is done */
    rt_sleep((double)ms * 1e-3);
    for (int i = 0; i < presses; i++)
        kill(pid, SIGINT);
    close(in[1]);
    int status = 0;
    start = now();
    while (waitpid(pid, &status, WNOHANG) == 0) {
        rt_sleep(0.005);
        if (now() - start > 60) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
    }
    read_file("out", out);
    read_file("err", err);
    unlink("short.uop");
    unlink("out");
    unlink("err");
    assert_int_equal(chdir(home), 0);
    rmdir(dir);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT && ms < 5000) {
        interrupt_says_so(argv, input, 2 * ms, presses); /* on a slow machine: before main() */
        return;
    }
    int json = strstr(input, "--json") != NULL;
    for (char *const *a = argv; *a; a++)
        json |= !strcmp(*a, "--json");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 130 ||
        count(err, "tolk-jit: interrupted\n") + count(err, "the launch was cancelled\n") != 1 ||
        count(out, "{\"error\": {\"exit\": 130, \"status\": \"TOLK_E_CANCELLED\"") != json)
        fail_msg("%s %s, %d presses: status %x, stderr \"%s\", stdout \"%.2000s\"",
                 argv[1] ? argv[1] : "prompt", input, presses, (unsigned)status, err, out);
}

static void test_interrupt_says_so_in_a_line_and_in_json(void **state) {
    (void)state;
    static char jit[] = "tolk-jit", run[] = "run", verify[] = "verify", file[] = "short.uop",
                repeat[] = "--repeat=16000000", rounds[] = "--rounds=1000000", json[] = "--json",
                interp[] = "--device=interp";
    char *on_cpu[] = {jit, run, file, repeat, json, NULL};
    char *on_interp[] = {jit, run, file, repeat, interp, NULL};
    char *verified[] = {jit, verify, file, rounds, json, NULL};
    char *prompt[] = {jit, NULL};
    for (int i = 0; i < 4; i++) {
        long ms = 300 + 37 * i;
        int presses = 1 + i % 2;
        interrupt_says_so(on_cpu, "", ms, presses);
        interrupt_says_so(on_interp, "", ms, presses);
        interrupt_says_so(verified, "", ms, presses);
        interrupt_says_so(prompt, "version\nrun short.uop --repeat 16000000 --json\n", ms, presses);
        interrupt_says_so(prompt, "version\nverify short.uop --rounds 1000000 --json\n", ms,
                          presses);
    }
    interrupt_says_so(prompt, "", 500, 1); /* while it waits for a line */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_REPL_01_interrupt_on_cpu_ends_with_130),
        cmocka_unit_test(test_REPL_01_interrupt_on_interpreter_ends_with_130),
        cmocka_unit_test(test_interrupt_says_so_in_a_line_and_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
