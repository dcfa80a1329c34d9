/* SPDX-License-Identifier: MIT
 *
 * What the commands of tolk-jit share. Every command returns an exit code: 0 done, 1 the work
 * failed, 2 bad usage or input, 130 interrupted; before 1 and 2 one line on stderr says why.
 */
#ifndef TK_TOOLS_TOOL_H
#define TK_TOOLS_TOOL_H

#include <tolk/tolk.h>

#include <stdio.h>

enum { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2, TOOL_INTERRUPTED = 130 };

/* ---- report.c: messages ---- */

/* One line "tolk-jit: ..." on stderr; control characters in it become '?'. Returns the code. */
int tk_report_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int tk_report_failed(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What a call of the library returned, with the place in `file` if it has one. file may be NULL. */
int tk_report_error(const char *file, tolk_status status, const tolk_error *err);
/* The same of a call that reads or checks what was given, before any work: a value out of its range
 * is then the input's fault. */
int tk_report_input(const char *file, tolk_status status, const tolk_error *err);
/* That a Ctrl-C ended the work. Returns TOOL_INTERRUPTED. Silent if a message said so already. */
int tk_report_interrupted(void);
/* Its lines alone, by functions that a signal handler may call. */
void tk_report_interrupted_in_handler(void);
/* From here on each of these messages is a line {"error": {...}} on stdout, too; or no more. */
void tk_report_json(int on);
/* A context with the defaults (at the prompt: that of the session), or NULL after a message; and
 * what a command does with it at its end. */
tolk_ctx *tk_report_context(void);
void tk_report_context_end(tolk_ctx *ctx);

/* ---- flags.c: the command line ---- */

enum { TK_LIST_MAX = 1024 };

typedef struct tk_list {
    const char *item[TK_LIST_MAX];
    size_t n;
} tk_list;

typedef enum tk_flag_kind {
    TK_FLAG_BOOL,   /* to: int */
    TK_FLAG_TEXT,   /* to: const char * */
    TK_FLAG_LIST,   /* to: tk_list */
    TK_FLAG_NUMBER, /* to: int64_t, from 1 up */
    TK_FLAG_BYTES   /* to: int64_t, from 0 up */
} tk_flag_kind;

typedef struct tk_flag {
    const char *name; /* with its dashes */
    tk_flag_kind kind;
    void *to;
} tk_flag;

/* Read argv[2..]: flags as "--name value" or "--name=value", the rest into files (at most max_files
 * of them). "--" ends the flags. Returns TOOL_DONE or TOOL_USAGE. */
int tk_flags_read(int argc, char **argv, const tk_flag *flags, size_t n_flags, tk_list *files,
                  size_t max_files);

/* ---- nodes.c: lists of nodes, the calls of a linear ---- */

/* Nodes in the order in which they were added, each once; {0}: none. */
typedef struct tk_nodes {
    const tolk_uop **at;
    size_t n, *slots, n_slots;
} tk_nodes;
int tk_nodes_add(tk_nodes *nodes, const tolk_uop *u, int *is_new);
void tk_nodes_free(tk_nodes *nodes);
/* Call fn for the calls of a linear in their order, those of linears and graphs in it at their
 * place, but of each of these only the first time that it is called; fn returns TOOL_DONE to go on.
 */
typedef int (*tk_call_fn)(void *user, const tolk_uop *call);
int tk_nodes_each_call(const tolk_uop *linear, tk_call_fn fn, void *user);

/* ---- source.c: kernels from files ---- */

typedef struct tk_source {
    tolk_graph *graph;
    const tolk_uop *root;
    tk_nodes kernels; /* that it has (or the program) */
    char *text;
    size_t len;
    char *kept; /* name of the kernel that was asked for from the session; NULL: a file was */
    /* Settings that a file of TOLK_REPRO has; NULL: it has none. */
    char *target, *opts, *bounds, *strict, *tier, *symbol, *emit;
} tk_source;

/* Read and parse a file, "-" for standard input. trusted: it may hold machine code. */
int tk_source_load(tolk_ctx *ctx, const char *path, int trusted, tk_source *out);
void tk_source_free(tk_source *source);
/* Did TOLK_REPRO write it? Then its kernel is to be compiled with the settings in it. */
int tk_source_is_repro(const tk_source *source);
/* Would one of these outputs replace the other, or be mixed with it? By path, by the existing file,
 * or both on standard output ("-" or NULL). What is no regular file (/dev/null) replaces nothing.
 */
int tk_source_same_output(const char *a, const char *b);
/* Write a file through a temporary one and a rename; "-" or NULL is standard output. */
int tk_source_write(const char *path, const char *bytes, size_t n);

/* ---- source_kernels.c: which kernels a file has ---- */

/* Fill in the kernels of a file that was parsed. */
int tk_source_find_kernels(tk_source *source);
/* Is it a linear of calls, which runs whole? */
int tk_source_is_calls(const tk_source *source);
/* The kernel (or program) to work on: the only one, or the one of that name. */
int tk_source_kernel(const tk_source *source, const char *path, const char *name,
                     const tolk_uop **out);
/* Kernel or program number i of the file; NULL: it has not so many. */
const tolk_uop *tk_source_at(const tk_source *source, size_t i);

/* Is a node that op? */
int tk_source_is_op(const tolk_uop *u, const char *name);

/* ---- times.c ---- */

/* Now, on a clock that only goes forward, in microseconds. */
double tk_times_now_us(void);
/* Sort n > 0 times, the shortest first; their median. */
double tk_times_median(double *us, size_t n);

/* ---- number.c: values of any dtype, from and to text ---- */

/* Is this text a number (or true, false, inf, nan)? */
int tk_number_is(const char *text);
typedef enum tk_number_result {
    TK_NUMBER_OK,
    TK_NUMBER_SYNTAX, /* no number of that kind of dtype */
    TK_NUMBER_RANGE   /* a number that the dtype does not reach */
} tk_number_result;
/* Bits of the number in a dtype, rounded once. */
tk_number_result tk_number_bits(tolk_ctx *ctx, tolk_dtype dtype, const char *text, uint64_t *bits);
/* Write n elements of an array, separated by spaces. */
void tk_number_print(FILE *to, tolk_ctx *ctx, tolk_dtype dtype, const void *data, size_t n);

/* ---- arrays.c: where arrays come from and go ---- */

/* Read the array of --arg NAME=WHERE; *what: "file" or "array", for messages. tk_npy_free() it. */
struct tk_npy_array;
int tk_arrays_load(const char *name, const char *where, struct tk_npy_array *out,
                   const char **what);
/* Write the array of --out NAME=WHERE. */
int tk_arrays_save(const char *name, const char *where, tolk_dtype dtype, int rank,
                   const int64_t *dims, const void *data, size_t bytes);
/* Would one of two --out replace the other? */
int tk_arrays_same_output(const char *a, const char *b);

/* ---- binding.c: arguments of a kernel ---- */

enum { TK_MAX_RANK = 8 };

typedef struct tk_arg {
    tolk_param_info info;
    char name[64]; /* the param's name, or slotN */
    int64_t dims[TK_MAX_RANK];
    int64_t elems;
    /* buffers */
    void *data, *initial; /* initial: the input of a buffer that is also stored to */
    size_t bytes;
    int given;       /* by --arg */
    const char *out; /* file to write, or NULL */
    int file_rank;   /* shape to write it with */
    int64_t file_dims[64];
    /* scalars */
    int64_t value;
    int has_value;
} tk_arg;

typedef struct tk_binding {
    tk_arg *args;
    size_t n;
    void **bufs;
    size_t *bytes;
    size_t n_bufs;
    int64_t *vals;
    size_t n_vals;
} tk_binding;

typedef struct tk_binding_request {
    tk_list args, outs, sets; /* NAME=VALUE */
    const char *grid, *block; /* "x", "x,y" or "x,y,z" for _grid_x .. _block_z, or NULL */
    int random;               /* inputs that are not given are drawn from *seed */
    uint64_t *seed;
} tk_binding_request;

/* Match the arguments with the params of a kernel, load and allocate. */
int tk_binding_make(tolk_ctx *ctx, const tolk_uop *kernel, const tk_binding_request *request,
                    tk_binding *out);
void tk_binding_free(tk_binding *b);
/* Give buffers that are loaded and stored their inputs back; zero those that are only stored. */
void tk_binding_rewind(tk_binding *b);
/* Write the files of --out. */
int tk_binding_save(const tk_binding *b);
/* Next number of a seeded sequence (splitmix64). */
uint64_t tk_binding_random(uint64_t *seed);

/* ---- run_linear.c: linears of calls ---- */

typedef struct tk_linear_request {
    const tk_list *args, *outs, *sets; /* NAME=VALUE */
    tolk_device *device;
    const tolk_compile_opts *compile;
    int64_t repeat;
    int json;
} tk_linear_request;

/* Check, compile and run it. path: of the file, for messages. */
int tk_run_linear(tolk_ctx *ctx, const char *path, const tk_source *source,
                  const tk_linear_request *request);

/* ---- estimate.c ---- */

/* About how many nodes the interpreter visits in one run; 0 if there is no telling. */
double tk_estimate_steps(tolk_ctx *ctx, const tolk_uop *kernel, const tk_binding *args);

/* ---- compare.c ---- */

/* First element where two arrays differ, n if none. Bit for bit, but any NaN equals any NaN: a NaN
 * against a number is a difference. bool: any two bytes that are not 0 are equal. */
size_t tk_compare_first(tolk_dtype dtype, const void *a, const void *b, size_t n);

/* ---- session.c: what the prompt keeps between commands ---- */

typedef struct tk_array {
    char name[64];
    tolk_dtype dtype;
    int rank;
    int64_t dims[64];
    void *data; /* from malloc */
    size_t bytes;
} tk_array;

typedef struct tk_kept_kernel {
    char name[128];
    char *file; /* it came from */
    char *text; /* of the whole file */
    size_t len;
} tk_kept_kernel;

/* Begin and end the session of this process. TOOL_DONE or a code. */
int tk_session_begin(void);
void tk_session_end(void);
int tk_session_is_on(void);
/* Its context; NULL outside of a session. */
tolk_ctx *tk_session_context(void);
/* Could this be the name of an array (and is it no file and no number)? Never outside of a session.
 */
int tk_session_is_name(const char *text);
/* NULL: there is none of that name. Pointers are valid until the next command. */
const tk_array *tk_session_array(const char *name);
const tk_kept_kernel *tk_session_kernel(const char *name);
/* The i-th in the order in which they were made; NULL past the last. */
const tk_array *tk_session_array_at(size_t i);
const tk_kept_kernel *tk_session_kernel_at(size_t i);
/* Keep a copy under a name, in place of what had that name. */
int tk_session_keep_array(const char *name, tolk_dtype dtype, int rank, const int64_t *dims,
                          const void *data, size_t bytes);
/* Keep the kernels of a file by their names. Silently does nothing outside of a session. */
void tk_session_keep_kernels(const tk_source *source, const char *file);
/* Forget an array or a kernel. 0: there was none. */
int tk_session_drop(const char *name);

/* ---- prompt.c, line.c, complete.c ---- */

/* Read commands from standard input until its end or `quit`. Returns the exit code. */
int tk_prompt(void);
/* The prompt's own commands: name and one line of help; NULL past the last. */
const char *tk_prompt_command(size_t i, const char **help);

/* A source of lines: a terminal with editing, history and completion, or any other input. */
typedef struct tk_line tk_line;
typedef enum tk_line_end {
    TK_LINE_OK,
    TK_LINE_NUL, /* a NUL byte is in it: no text */
    TK_LINE_INTERRUPTED,
    TK_LINE_EOF
} tk_line_end;
/* NULL: no memory. */
tk_line *tk_line_open(void);
void tk_line_close(tk_line *line);
int tk_line_is_terminal(const tk_line *line);
/* The next line without its newline, valid until the next call. A Ctrl-C at a terminal drops what
 * was typed. prompt is shown on terminals. */
tk_line_end tk_line_read(tk_line *line, const char *prompt, const char **text);

/* What could stand in place of the word before the cursor: whole words. n_typed: how many bytes of
 * each are typed already. out: at most `max`, each freed by the caller. Returns how many. */
size_t tk_complete(const char *line, size_t cursor, char **out, size_t max, size_t *n_typed);

/* ---- interrupt.c: Ctrl-C ---- */

/* From here on Ctrl-C cancels what runs on `device`; NULL: there is nothing to cancel, it ends the
 * process with a message and 130. A second Ctrl-C always does. */
void tk_interrupt_watch(tolk_device *device);
/* Static text of what begins now and cannot be stopped ("compiling"); NULL: it is over. */
void tk_interrupt_stage(const char *what);
/* Around a command of the prompt: there Ctrl-C never ends the process at once. One that meets
 * nothing it could cancel says so, and the third in one command ends the process with 130. */
void tk_interrupt_begin(void);
void tk_interrupt_end(void);
/* Was there a Ctrl-C (at the prompt: in this command)? */
int tk_interrupt_seen(void);
/* Around the message that there was one, so that there is one message wherever a second Ctrl-C
 * comes. tell() is 0 where there is a message already. */
int tk_interrupt_tell(void);
void tk_interrupt_told(void);

/* ---- json.c ---- */

/* A string with its quotes; and JSON that the library made. Each byte that is no part of
 * well-formed UTF-8 (of a file's name, say) comes out as U+FFFD. */
void tk_json_string(FILE *to, const char *text);
void tk_json_text(FILE *to, const char *text, size_t len);
/* Call fn for each string, number or word, with the keys that lead to it ("a.b"; lists have none).
 */
typedef void (*tk_json_fn)(void *user, const char *path, const char *value);
void tk_json_each(const char *text, size_t len, tk_json_fn fn, void *user);
/* Print the members of a JSON object that the library made, one a line: "  a.b  value". Strings in
 * the list "problems" are left out and counted. */
size_t tk_json_print_flat(FILE *to, const char *text, size_t len);
/* Print each string of the list "problems" behind `prefix`. */
void tk_json_print_problems(FILE *to, const char *prefix, const char *text, size_t len);
/* Find a top-level string or number; copies its text. Returns 0 if there is none. */
int tk_json_find(const char *text, size_t len, const char *key, char *out, size_t cap);

/* ---- history.c ---- */

/* What was compiled in this context, from number `first` on, one kernel a line with its phases; or,
 * as JSON, the list. Returns how many there were so far. */
uint64_t tk_history_print(FILE *to, tolk_ctx *ctx, uint64_t first, int json);

/* ---- commands.c ---- */

/* Run the command argv[1]. Returns its exit code. */
int tk_command_run(int argc, char **argv);
/* How all of them are used. */
void tk_command_usage(FILE *to);
/* The i-th command; NULL past the last. Its help, a line for each flag; NULL: no such command. */
const char *tk_command_name(size_t i);
const char *tk_command_help(const char *name);

/* ---- commands ---- */

int tk_cmd_run(int argc, char **argv);
int tk_cmd_emit(int argc, char **argv);
int tk_cmd_verify(int argc, char **argv);
int tk_cmd_fmt(int argc, char **argv);
int tk_cmd_cache(int argc, char **argv);
int tk_cmd_version(int argc, char **argv);
int tk_cmd_devices(int argc, char **argv);
int tk_cmd_doctor(int argc, char **argv);

#endif
