/* SPDX-License-Identifier: MIT */
#include "tool.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic(tolk_device *) watched;
static volatile sig_atomic_t seen;

static void cancel(void) {
    tolk_device *device = atomic_load(&watched);
    if (!device)
        _exit(TOOL_INTERRUPTED);
    tolk_cancel(device);
    /* A launch that begins just now is not reached by this call: try again until one was. */
    alarm(1);
}

static void on_interrupt(int sig) {
    if (sig == SIGINT) {
        if (seen)
            _exit(TOOL_INTERRUPTED);
        seen = 1;
    }
    cancel();
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

int tk_interrupt_seen(void) {
    return seen;
}
