/* SPDX-License-Identifier: MIT
 *
 * tolk-jit: run, look at, check and time kernels from the command line.
 */
#include "tool.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage;
} commands[] = {
    {"run", tk_cmd_run,
     "run K.uop --arg NAME=FILE.npy|NUMBER ... --out NAME=FILE.npy ... [--set VAR=N]\n"
     "      [--kernel NAME] [--device CPU|interp] [--target CPU] [--global x,y,z]\n"
     "      [--local x,y,z] [--opts \"...\"] [--bounds check|trust] [--strict] [--repeat N]\n"
     "      [--json]"},
    {"emit", tk_cmd_emit,
     "emit K.uop --emit=uop|opt|program|llvm|asm|obj [--kernel NAME] [--target CPU]\n"
     "      [--opts \"...\"] [--bounds check|trust] [--strict] [-o FILE]"},
    {"verify", tk_cmd_verify,
     "verify K.uop [--kernel NAME] [--device D ...] [--target CPU ...] [--opts \"...\"]\n"
     "      [--arg NAME=FILE.npy|NUMBER ...] [--set VAR=N ...] [--rounds N] [--seed N] [--json]"},
    {"fmt", tk_cmd_fmt, "fmt FILE ... [-i] [--check]"},
    {"devices", tk_cmd_devices, "devices [--json]"},
    {"doctor", tk_cmd_doctor, "doctor [--json]"},
    {"cache", tk_cmd_cache, "cache stats|clear [--json]"},
    {"version", tk_cmd_version, "version [--json]"},
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *to) {
    fputs("usage:\n", to);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  tolk-jit %s\n", commands[i].usage);
    fputs("exit: 0 done, 1 the work failed, 2 bad usage or input, 130 interrupted\n", to);
}

static int dispatch(int argc, char **argv) {
    char known[256] = "";
    for (size_t i = 0, n = 0; i < N_COMMANDS; i++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", commands[i].name);
    if (argc < 2)
        return tk_report_usage("expected a command: %s (tolk-jit --help shows how)", known);
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        print_usage(stdout);
        return TOOL_DONE;
    }
    if (!strcmp(name, "--version"))
        name = "version";
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name))
            continue;
        for (int k = 2; k < argc && strcmp(argv[k], "--"); k++)
            if (!strcmp(argv[k], "--help") || !strcmp(argv[k], "-h")) {
                printf("usage: tolk-jit %s\n", commands[i].usage);
                return TOOL_DONE;
            }
        return commands[i].run(argc, argv);
    }
    return tk_report_usage("unknown command '%.100s': expected %s", name, known);
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error code here, not a death */
    int code = dispatch(argc, argv);
    errno = 0;
    if ((fflush(stdout) || ferror(stdout)) && code == TOOL_DONE) {
        if (errno == EPIPE)
            return TOOL_FAILED; /* the reader left on purpose: no words */
        return tk_report_failed("cannot write the output: %s",
                                errno ? strerror(errno) : "an earlier write failed");
    }
    return code;
}
