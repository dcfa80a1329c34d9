/* SPDX-License-Identifier: MIT
 *
 * The prompt on a terminal: Ctrl-C at an empty line, in a line, in a kernel and in what cannot be
 * stopped; Ctrl-D; completion and history (where the tool was built with libedit).
 */
#include "support/runtime.h"

#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>

static const char *jit;
static char *dir;
static int has_edit;

typedef struct session {
    pid_t pid;
    int fd;
    char seen[1 << 18]; /* all that was shown */
    size_t n, from;     /* from: where the next expectation begins */
} session;

static void start(session *s) {
    memset(s, 0, sizeof *s);
    s->pid = forkpty(&s->fd, NULL, NULL, NULL);
    if (s->pid < 0) {
        print_message("this system gives no terminal: %s\n", strerror(errno));
        skip();
    }
    if (s->pid == 0) {
        if (chdir(dir))
            _exit(98);
        setenv("HOME", dir, 1);
        unsetenv("XDG_STATE_HOME");
        setenv("TERM", "xterm", 1);
        setenv("COLUMNS", "200", 1);
        signal(SIGINT, SIG_DFL);
        execl(jit, jit, (char *)NULL);
        _exit(99);
    }
}

/* Read what comes within `ms`. 0 at the end. */
static int more(session *s, int ms) {
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    if (poll(&p, 1, ms) <= 0)
        return 1;
    ssize_t n = read(s->fd, s->seen + s->n, sizeof s->seen - 1 - s->n);
    if (n > 0)
        s->n += (size_t)n;
    s->seen[s->n] = 0;
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Wait until the text is shown, behind what was expected before. */
static void expect(session *s, const char *text) {
    double end = rt_now() + 60;
    for (;;) {
        char *at = strstr(s->seen + s->from, text);
        if (at) {
            s->from = (size_t)(at - s->seen) + strlen(text);
            return;
        }
        if (rt_now() > end || !more(s, 100)) {
            kill(s->pid, SIGKILL);
            fail_msg("the terminal does not show \"%s\" but: %s", text, s->seen + s->from);
        }
    }
}

static void type(session *s, const char *text) {
    assert_int_equal(write(s->fd, text, strlen(text)), strlen(text));
}

/* The exit code; -N: ended by signal N. */
static int end(session *s) {
    int status = 0;
    double stop = rt_now() + 60;
    while (waitpid(s->pid, &status, WNOHANG) == 0) {
        if (rt_now() > stop) {
            kill(s->pid, SIGKILL);
            fail_msg("the prompt does not end: %s", s->seen + s->from);
        }
        more(s, 20);
    }
    close(s->fd);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* REPL-01 */
static void test_REPL_01_control_d_ends_with_0(void **state) {
    (void)state;
    static session s;
    start(&s);
    expect(&s, "tolk> ");
    type(&s, "bogus\r");
    expect(&s, "unknown command 'bogus'");
    expect(&s, "tolk> ");
    type(&s, "\x04");
    assert_int_equal(end(&s), 0);
}

static void test_REPL_01_control_c_drops_the_line(void **state) {
    (void)state;
    static session s;
    start(&s);
    for (int i = 0; i < 3; i++) {
        expect(&s, "tolk> ");
        type(&s, "\x03");
    }
    expect(&s, "tolk> ");
    type(&s, "frobnicate this");
    expect(&s, "this");
    type(&s, "\x03");
    expect(&s, "tolk> ");
    type(&s, "arrays \\\r");
    expect(&s, "... ");
    type(&s, "more");
    expect(&s, "more");
    type(&s, "\x03");
    expect(&s, "tolk> ");
    type(&s, "version\r");
    expect(&s, "LLVM");
    expect(&s, "tolk> ");
    assert_null(strstr(s.seen, "unknown command"));
    assert_null(strstr(s.seen, "unexpected argument"));
    type(&s, "quit\r");
    assert_int_equal(end(&s), 0);
}

static void test_REPL_01_control_c_stops_a_kernel_and_keeps_the_session(void **state) {
    (void)state;
    static session s;
    start(&s);
    expect(&s, "tolk> ");
    type(&s, "run scale.uop --arg x=1 --out y=mine\r");
    expect(&s, "mine = f32[100] 3 3 3");
    expect(&s, "tolk> ");
    for (int i = 0; i < 2; i++) {
        type(&s, "run long.uop --out y=never\r");
        rt_sleep(1.5); /* it is in the kernel: if not yet, the same has to come of it */
        type(&s, "\x03");
        if (i)
            type(&s, "\x03\x03\x03\x03"); /* an impatient one */
        expect(&s, "cancelled");
        expect(&s, "tolk> ");
    }
    type(&s, "show mine 2\r");
    expect(&s, "mine = f32[100] 3 3 ...");
    expect(&s, "tolk> ");
    type(&s, "show never\r");
    expect(&s, "no array or kernel 'never'");
    expect(&s, "tolk> ");
    type(&s, "run scale --arg x=mine\r");
    expect(&s, "y = f32[100] 9 9 9");
    expect(&s, "tolk> ");
    type(&s, "\x04");
    assert_int_equal(end(&s), 0);
}

static void test_REPL_01_what_cannot_be_stopped_says_so(void **state) {
    (void)state;
    static session s;
    start(&s);
    expect(&s, "tolk> ");
    type(&s, "run long.uop --device interp\r");
    rt_sleep(1.5);
    type(&s, "\x03");
    expect(&s, "the interpreter cannot be stopped, its end is waited for");
    for (int i = 0; i < 2; i++) {
        rt_sleep(0.3); /* signals of one kind that wait are one */
        type(&s, "\x03");
    }
    assert_int_equal(end(&s), 130);
}

static void test_tab_completes_and_history_is_kept(void **state) {
    (void)state;
    if (!has_edit)
        skip();
    static session s;
    start(&s);
    expect(&s, "tolk> ");
    type(&s, "ver\t"); /* verify, version */
    expect(&s, "verify  version");
    /* What is put in is seen by what the line does: a terminal is told of changes only. */
    type(&s, "if\tsca\t--ro\t1 --bo\tch\t\r");
    expect(&s, "same     CPU");
    expect(&s, "kernel scale: ");
    expect(&s, "0 differ (seed 1)");
    expect(&s, "tolk> ");
    type(&s, "run sc\t\t"); /* the kernel that is kept now, and the file */
    expect(&s, "scale  scale.uop");
    type(&s, " --arg x=2 --out y=first\r");
    expect(&s, "first = f32[100] 6 6");
    expect(&s, "tolk> ");
    type(&s, "run scale --arg x=fi\t\r");
    expect(&s, "y = f32[100] 18 18");
    expect(&s, "tolk> ");
    type(&s, ":emi\tscale --emit=pr\t\r");
    expect(&s, " = linear ");
    expect(&s, "tolk> ");
    type(&s, "typed, not run\x15"
             "quit\r"); /* ^U drops the line */
    assert_int_equal(end(&s), 0);

    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s/.local/state/tolk/history", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    snprintf(path, sizeof path, "%s/.local/state/tolk", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);

    start(&s);
    expect(&s, "tolk> ");
    type(&s, "load scale.uop\r");
    expect(&s, "tolk> ");
    type(&s, "\x10\x10\x10\r"); /* ^P: load, quit, the emit of before */
    expect(&s, " = linear ");
    expect(&s, "tolk> ");
    type(&s, "\x04");
    assert_int_equal(end(&s), 0);
}

static void write_kernel(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int setup(void **state) {
    (void)state;
    char command[1024];
    jit = getenv("TOLK_JIT");
    assert_non_null(jit);
    dir = rt_mkdir();
    snprintf(command, sizeof command, "objdump -p '%s' | grep -q 'NEEDED.*libedit'", jit);
    has_edit = system(command) == 0;
    write_kernel("scale.uop", rt_text(RT_SCALE, 100, "3"));
    write_kernel("long.uop", TK_TEST_LONG_KERNEL);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    rt_rmdir(dir);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_REPL_01_control_d_ends_with_0),
        cmocka_unit_test(test_REPL_01_control_c_drops_the_line),
        cmocka_unit_test(test_REPL_01_control_c_stops_a_kernel_and_keeps_the_session),
        cmocka_unit_test(test_REPL_01_what_cannot_be_stopped_says_so),
        cmocka_unit_test(test_tab_completes_and_history_is_kept),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
