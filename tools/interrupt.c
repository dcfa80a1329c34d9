/* SPDX-License-Identifier: MIT */
#include "tool.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic(tolk_device *) watched;
static _Atomic(const char *) stage; /* what goes on and cannot be stopped; NULL: nothing such */
static volatile sig_atomic_t seen;  /* how often */
static volatile sig_atomic_t in_session;
/* The message that ends the work: a handler may come in the middle of it, on any thread. */
enum { UNTOLD, TELLING, TOLD };
static _Atomic(int) message = UNTOLD;
static struct sigaction outside; /* of SIGINT, while a command of a session runs */

enum { ENOUGH = 3 /* for who wants out of a session that does not listen */ };

static void say(const char *text) {
    ssize_t n = write(STDERR_FILENO, text, strlen(text));
    (void)n; /* a handler can do no more */
}

int tk_interrupt_tell(void) {
    int was = UNTOLD;
    return atomic_compare_exchange_strong(&message, &was, TELLING);
}

void tk_interrupt_told(void) {
    fflush(stdout); /* the next Ctrl-C may end the process without it */
    atomic_store(&message, TOLD);
}

/* From a handler: end the process, unless its message is being written: its end comes by itself. */
static void end_process(void) {
    if (tk_interrupt_tell())
        tk_report_interrupted_in_handler();
    else if (atomic_load(&message) == TELLING)
        return;
    _exit(TOOL_INTERRUPTED);
}

static void cancel(tolk_device *device) {
    tolk_cancel(device);
    /* A launch that begins just now is not reached by this call: try again until one was. */
    alarm(1);
}

/* At the prompt: what runs is cancelled, what cannot be is waited for. */
static void in_command(tolk_device *device) {
    const char *what = atomic_load(&stage);
    if (device)
        cancel(device);
    if (device && !what)
        return;
    if (seen == 1) {
        say("\ntolk-jit: ");
        say(what ? what : "this");
        say(" cannot be stopped, its end is waited for (Ctrl-C twice more ends tolk-jit)\n");
    }
    if (seen >= ENOUGH)
        end_process();
}

static void on_interrupt(int sig) {
    tolk_device *device = atomic_load(&watched);
    if (sig == SIGALRM) {
        if (device)
            cancel(device);
        return;
    }
    seen = seen + 1;
    if (in_session)
        in_command(device);
    else if (seen > 1 || !device)
        end_process();
    else
        cancel(device);
}

void tk_interrupt_watch(tolk_device *device) {
    atomic_store(&watched, device);
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = on_interrupt;
    act.sa_flags = SA_RESTART;
    sigemptyset(&act.sa_mask);
    sigaction(SIGALRM, &act, NULL);
    /* A shell starts its background jobs with SIGINT ignored; that stays so. */
    struct sigaction old;
    if (!sigaction(SIGINT, NULL, &old) && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &act, NULL);
}

void tk_interrupt_stage(const char *what) {
    atomic_store(&stage, what);
}

void tk_interrupt_begin(void) {
    in_session = 1;
    seen = 0;
    atomic_store(&message, UNTOLD);
    tk_interrupt_stage(NULL);
    sigaction(SIGINT, NULL, &outside);
    tk_interrupt_watch(NULL);
}

void tk_interrupt_end(void) {
    alarm(0);
    atomic_store(&watched, NULL);
    tk_interrupt_stage(NULL);
    sigaction(SIGINT, &outside, NULL);
    /* Between two commands of a pipe Ctrl-C ends the process. */
    in_session = 0;
    seen = 0;
    atomic_store(&message, UNTOLD);
}

int tk_interrupt_seen(void) {
    return seen > 0;
}
