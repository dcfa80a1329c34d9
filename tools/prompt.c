/* SPDX-License-Identifier: MIT
 *
 * The prompt: the commands of tolk-jit in one process, with arrays and kernels by name. A command
 * that fails is one line, and the next is read.
 */
#include "npy.h"
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- its own commands ---- */

static int need(int argc, char **argv, int least, int most, const char *what) {
    if (argc - 2 >= least && argc - 2 <= most)
        return TOOL_DONE;
    return argc - 2 < least ? tk_report_usage("%s: expected %s", argv[1], what)
                            : tk_report_usage("%s: unexpected argument '%.100s': expected %s",
                                              argv[1], argv[2 + most], what);
}

static void print_shape(const tk_array *a) {
    printf("%s = %s[", a->name, tolk_dtype_name(a->dtype));
    for (int d = 0; d < a->rank; d++)
        printf("%s%" PRId64, d ? ", " : "", a->dims[d]);
    putchar(']');
}

static int cmd_arrays(int argc, char **argv) {
    int code = need(argc, argv, 0, 0, "no argument");
    const tk_array *a;
    for (size_t i = 0; !code && (a = tk_session_array_at(i)); i++) {
        print_shape(a);
        printf("  %zu bytes\n", a->bytes);
    }
    return code;
}

static int cmd_kernels(int argc, char **argv) {
    int code = need(argc, argv, 0, 0, "no argument");
    const tk_kept_kernel *k;
    for (size_t i = 0; !code && (k = tk_session_kernel_at(i)); i++)
        printf("%s  from %s\n", k->name, k->file);
    return code;
}

static int no_such(const char *command, const char *name) {
    return tk_report_usage(
        "%s: there is no array or kernel '%.100s': expected a name that `arrays` "
        "or `kernels` lists",
        command, name);
}

static int show_kernel(const char *name) {
    char *argv[] = {(char *)"tolk-jit", (char *)"emit", (char *)(uintptr_t)name,
                    (char *)"--emit=uop", NULL};
    return tk_command_run(4, argv);
}

static int cmd_show(int argc, char **argv) {
    enum { SHOWN = 64 };
    int code = need(argc, argv, 1, 2, "NAME and perhaps how many elements");
    if (code)
        return code;
    const tk_array *a = tk_session_array(argv[2]);
    if (!a && tk_session_kernel(argv[2]))
        return show_kernel(argv[2]);
    if (!a)
        return no_such("show", argv[2]);
    char *end = NULL;
    unsigned long long most = argc > 3 ? strtoull(argv[3], &end, 10) : SHOWN;
    if (end && (*end || argv[3][0] == '-'))
        return tk_report_usage("show: '%.100s': expected a number of elements", argv[3]);
    size_t n = a->bytes / tolk_dtype_bytes(a->dtype);
    print_shape(a);
    fputs(n ? " " : "", stdout);
    tk_number_print(stdout, tk_session_context(), a->dtype, a->data, n < most ? n : (size_t)most);
    puts(n > most ? " ..." : "");
    return TOOL_DONE;
}

static int cmd_save(int argc, char **argv) {
    char err[NPY_ERR_BYTES];
    int code = need(argc, argv, 2, 2, "NAME and FILE.npy");
    if (code)
        return code;
    const tk_array *a = tk_session_array(argv[2]);
    if (!a)
        return tk_report_usage("save: there is no array '%.100s': expected a name that `arrays` "
                               "lists",
                               argv[2]);
    if (!tk_npy_save(argv[3], a->dtype, a->rank, a->dims, a->data, err))
        return tk_report_failed("save %s %.300s: %s", a->name, argv[3], err);
    return TOOL_DONE;
}

/* NAME=FILE.npy, or a file of kernels. */
static int load_one(const char *text) {
    const char *eq = strchr(text, '=');
    char name[64], err[NPY_ERR_BYTES];
    if (!eq) {
        tk_source source;
        int code = tk_source_load(tk_session_context(), text, 0, &source);
        if (code)
            return code;
        tk_session_keep_kernels(&source, text);
        tk_source_free(&source);
        return TOOL_DONE;
    }
    snprintf(name, sizeof name, "%.*s", (int)(eq - text < 63 ? eq - text : 63), text);
    if (!tk_session_is_name(name) || eq - text > 63)
        return tk_report_usage("load %.200s: expected NAME=FILE.npy, a name of letters, digits and "
                               "_ that is no number",
                               text);
    tk_npy_array file;
    if (!tk_npy_load(eq + 1, &file, err))
        return tk_report_usage("load %s=%.300s: %s", name, eq + 1, err);
    int code = tk_session_keep_array(name, file.head.dtype, file.head.rank, file.head.dims,
                                     file.data, (size_t)file.head.data_bytes);
    tk_npy_free(&file);
    return code;
}

static int cmd_load(int argc, char **argv) {
    int code = need(argc, argv, 1, TK_LIST_MAX, "K.uop or NAME=FILE.npy");
    for (int i = 2; i < argc && !code; i++)
        code = load_one(argv[i]);
    return code;
}

static int cmd_drop(int argc, char **argv) {
    int code = need(argc, argv, 1, TK_LIST_MAX, "names of arrays and kernels");
    for (int i = 2; i < argc && !code; i++)
        if (!tk_session_drop(argv[i]))
            code = no_such("drop", argv[i]);
    return code;
}

static int cmd_history(int argc, char **argv) {
    int json = argc > 2 && !strcmp(argv[2], "--json");
    int code = need(argc, argv, 0, json, "nothing or --json");
    if (code)
        return code;
    tk_history_print(stdout, tk_session_context(), 0, json);
    if (json)
        putchar('\n');
    return TOOL_DONE;
}

static int cmd_help(int argc, char **argv);

static const struct {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: ends the session */
    const char *help;
} commands[] = {
    {"load", cmd_load,
     "load K.uop ... | NAME=FILE.npy ...   keep the kernels of a file, an array, by name"},
    {"kernels", cmd_kernels, "kernels                              list the kernels that are kept"},
    {"arrays", cmd_arrays, "arrays                               list the arrays that are kept"},
    {"show", cmd_show,
     "show NAME [N]                        the first N elements; a kernel's text"},
    {"save", cmd_save, "save NAME FILE.npy                   write an array"},
    {"drop", cmd_drop, "drop NAME ...                        forget arrays and kernels"},
    {"history", cmd_history,
     "history [--json]                     what was compiled, and the time of each phase"},
    {"help", cmd_help, "help [COMMAND]                       this, or a command's flags"},
    {"quit", NULL, "quit                                 the end, as is Ctrl-D"},
    {"exit", NULL, "exit                                 the same"},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

const char *tk_prompt_command(size_t i, const char **help) {
    if (i >= N_COMMANDS)
        return NULL;
    *help = commands[i].help;
    return commands[i].name;
}

static int cmd_help(int argc, char **argv) {
    int code = need(argc, argv, 0, 1, "nothing or a command");
    if (code)
        return code;
    for (size_t i = 0; argc > 2 && i < N_COMMANDS; i++)
        if (!strcmp(argv[2], commands[i].name)) {
            puts(commands[i].help);
            return TOOL_DONE;
        }
    if (argc > 2) {
        char *of[] = {argv[0], argv[2], (char *)"--help", NULL};
        return tk_command_run(3, of);
    }
    tk_command_usage(stdout);
    puts("at the prompt, with or without ':' before them:");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %s\n", commands[i].help);
    puts("names: `run K.uop --out y=NAME` keeps an array, `--arg x=NAME` takes one; a kernel that "
         "was\n"
         "read is kept by its name, and stands for its file in run, emit and verify. What has a "
         "dot\n"
         "or a slash is a file.");
    return TOOL_DONE;
}

/* ---- a line ---- */

enum { MAX_WORDS = 2 * TK_LIST_MAX };

/* Split in place: words between spaces, '...' and "..." as they are, a backslash before any
 * character, # begins a comment. Returns the number of words, -1 after a message. */
static int split(char *line, char **words) {
    char *from = line, *to = line;
    int n = 0;
    for (;;) {
        from += strspn(from, " \t");
        if (!*from || *from == '#')
            return n;
        if (n == MAX_WORDS) {
            tk_report_usage("the line has more than %d words", MAX_WORDS);
            return -1;
        }
        words[n++] = to;
        char quote = 0;
        for (; *from && (quote || (*from != ' ' && *from != '\t')); from++) {
            if (*from == quote)
                quote = 0;
            else if (!quote && (*from == '"' || *from == '\''))
                quote = *from;
            else if (*from == '\\' && quote != '\'' && from[1])
                *to++ = *++from;
            else
                *to++ = *from;
        }
        if (quote) {
            tk_report_usage("there is a %c that no other one ends", quote);
            return -1;
        }
        int more = *from != 0;
        *to++ = 0; /* never behind `from`: what separates words is dropped */
        from += more;
        if (!more)
            return n;
    }
}

/* Run one line. *quit becomes 1 where it ends the session. */
static int run_line(char *line, int *quit) {
    static char *argv[MAX_WORDS + 2];
    argv[0] = (char *)"tolk-jit";
    tk_report_json(0);
    int n = split(line, argv + 1);
    if (n <= 0)
        return n < 0 ? TOOL_USAGE : TOOL_DONE;
    argv[n + 1] = NULL;
    if (argv[1][0] == ':' && argv[1][1])
        argv[1]++;
    tk_interrupt_begin();
    int code = -1;
    for (size_t i = 0; i < N_COMMANDS && code < 0; i++)
        if (!strcmp(argv[1], commands[i].name)) {
            *quit = !commands[i].run;
            code = *quit ? need(n + 1, argv, 0, 0, "no argument") : commands[i].run(n + 1, argv);
            *quit = *quit && !code;
        }
    if (code < 0)
        code = tk_command_run(n + 1, argv);
    if (tk_interrupt_seen() && code == TOOL_DONE)
        code = tk_report_interrupted(); /* it was done before it could be stopped */
    tk_interrupt_end();
    tk_report_json(0);
    return code;
}

/* ---- the prompt ---- */

/* Lines that end with a backslash go on in the next. Returns how the last one ended; *line is from
 * malloc and has what was read. */
static tk_line_end read_command(tk_line *input, char **line) {
    size_t n = 0;
    const char *text;
    *line = NULL;
    for (;;) {
        tk_line_end end = tk_line_read(input, n ? "    ... " : "tolk> ", &text);
        if (end != TK_LINE_OK)
            return end == TK_LINE_EOF && *line ? TK_LINE_OK : end;
        size_t len = strlen(text);
        int goes_on = len && text[len - 1] == '\\' && !(len > 1 && text[len - 2] == '\\');
        char *more = realloc(*line, n + len + 1);
        if (!more) {
            tk_report_failed("out of memory");
            return TK_LINE_INTERRUPTED;
        }
        *line = more;
        memcpy(more + n, text, len + 1);
        n += len - (size_t)goes_on;
        more[n] = 0;
        if (!goes_on)
            return TK_LINE_OK;
    }
}

int tk_prompt(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    tk_line *input = tk_line_open();
    if (!input)
        return tk_report_failed("out of memory");
    int worst = tk_session_begin(), quit = worst != TOOL_DONE, failed = quit;
    int terminal = tk_line_is_terminal(input);
    if (terminal && !quit)
        puts("tolk-jit: `help` lists the commands, Tab completes, Ctrl-D ends");
    while (!quit) {
        char *line;
        tk_line_end end = read_command(input, &line);
        int code = end == TK_LINE_OK    ? run_line(line, &quit)
                   : end == TK_LINE_NUL ? tk_report_usage("a line has a NUL byte: expected text")
                                        : TOOL_DONE;
        worst = code > worst ? code : worst;
        quit |= end == TK_LINE_EOF;
        free(line);
        fflush(stdout);
    }
    tk_session_end();
    tk_line_close(input);
    /* Who types saw every message; a script's exit code tells of the worst of its commands. */
    return terminal && !failed ? TOOL_DONE : worst;
}
