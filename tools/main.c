/* SPDX-License-Identifier: MIT
 *
 * tolk-jit: run, look at, check and time kernels, from the command line or at a prompt.
 */
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error code here, not a death */
    signal(SIGXFSZ, SIG_IGN); /* so is a file that may not grow */
    tk_interrupt_watch(NULL);
    int code = argc < 2 ? tk_prompt() : tk_command_run(argc, argv);
    if (argc > 1 && code == TOOL_DONE && tk_interrupt_seen())
        code = tk_report_interrupted(); /* it was done before it could be stopped */
    errno = 0;
    if ((fflush(stdout) || ferror(stdout)) && code == TOOL_DONE) {
        if (errno == EPIPE)
            return TOOL_FAILED; /* the reader left on purpose: no words */
        return tk_report_failed("cannot write the output: %s",
                                errno ? strerror(errno) : "an earlier write failed");
    }
    return code;
}
