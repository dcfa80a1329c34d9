/* SPDX-License-Identifier: MIT
 *
 * The example kernels with a few things changed at random (ops, dtypes, literals, sizes, sources,
 * kinds of ranges), each through all of `tolk-jit verify`: parser, verifier, interpreter, compiler.
 * A mutant is refused with a message, or it runs and the compiled code equals the interpreter; no
 * mutant ends the process by a signal.
 */
#include "support/tk_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TEXT = 16384, MAX_LINES = 128, ALL_MUTANTS = 1500, SECONDS = 60 };

typedef struct rng {
    uint64_t state;
} rng;

static uint32_t pick(rng *r, uint32_t n) {
    return (uint32_t)(tk_test_rand(&r->state) >> 32) % n;
}

/* ---- the text as lines ---- */

typedef struct text {
    char line[MAX_LINES][160];
    int n;
} text;

static void load(text *t, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "examples/%s.uop", name);
    char *source = tk_test_source(path);
    FILE *f = fopen(source, "r");
    free(source);
    assert_non_null(f);
    t->n = 0;
    while (t->n < MAX_LINES && fgets(t->line[t->n], sizeof t->line[0], f)) {
        t->line[t->n][strcspn(t->line[t->n], "\n")] = 0;
        if (t->line[t->n][0] != ';')
            t->n++;
    }
    fclose(f);
    assert_true(t->n > 5);
}

/* Replace the first `from` of a line that stands as a word there. */
static int replace_word(char *line, const char *from, const char *to) {
    size_t len = strlen(from);
    for (char *p = line; (p = strstr(p, from)) != NULL; p++) {
        char before = p == line ? ' ' : p[-1], after = p[len];
        if (strchr(" (=", before) && (!after || strchr(" ,)}", after))) {
            char rest[160];
            snprintf(rest, sizeof rest, "%s", p + len);
            snprintf(p, 160 - (size_t)(p - line), "%s%s", to, rest);
            return 1;
        }
    }
    return 0;
}

static void replace_all(text *t, const char *from, const char *to) {
    for (int i = 0; i < t->n; i++)
        replace_word(t->line[i], from, to);
}

/* Sizes for the interpreter: nothing above a few hundred elements. */
static void shrink(text *t, const char *n) {
    static const char *const large[] = {"4194304", "1048576", "65536", "1024", "4096"};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        replace_all(t, large[i], n);
    replace_all(t, "768", "13");
    replace_all(t, "512", "5");
    replace_all(t, "256", "17");
    replace_all(t, "200", "9");
}

/* ---- mutations ---- */

#define CHOOSE(r, list) list[pick(r, sizeof list / sizeof *list)]

static const char *const binary[] = {
    "add", "mul", "max", "sub", "fdiv", "pow",   "cdiv",  "cmod",     "floordiv", "floormod",
    "shl", "shr", "and", "or",  "xor",  "cmplt", "cmpne", "threefry", "cmpeq"};
static const char *const unary[] = {"exp",  "exp2", "log",  "log2",       "sin", "cos",
                                    "tanh", "erf",  "sqrt", "reciprocal", "neg", "trunc"};
static const char *const dtypes[] = {"bool", "i8",  "i16", "i32", "i64",   "u8",  "u16",
                                     "u32",  "u64", "f32", "f64", "index", "f16", "bf16"};
static const char *const kinds[] = {"loop", "global", "reduce", "upcast", "unroll",
                                    "lane", "thread", "local",  "warp",   "group_reduce"};
static const char *const sizes[] = {"0", "1",  "2",  "3",  "4",  "5",  "7",  "8",
                                    "9", "15", "16", "17", "31", "33", "64", "-1"};
static const char *const literals[] = {
    "0",    "1",      "-1",         "2",           "255",
    "-128", "65535",  "2147483647", "-2147483648", "9223372036854775807",
    "1.5",  "inf",    "nan",        "-0.0",        "1e30",
    "true", "invalid"};

static void replace_op(rng *r, char *line, const char *const *ops, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (replace_word(line, ops[i], ops[pick(r, (uint32_t)n)]))
            return;
}

static void new_literal(rng *r, char *line) {
    char *p = strstr(line, " = const ");
    if (!p)
        return;
    p = strchr(p + 9, ' ');
    if (p)
        snprintf(p + 1, 160 - (size_t)(p + 1 - line), "%s",
                 strstr(line, "const index") ? CHOOSE(r, sizes) : CHOOSE(r, literals));
}

static void new_source(rng *r, char *line) {
    int self;
    if (sscanf(line, "%%%d", &self) != 1 || self == 0 || !strchr(line, '('))
        return;
    int commas = 0;
    for (char *p = line; *p; p++)
        commas += *p == ',';
    int which = (int)pick(r, (uint32_t)commas + 1);
    for (char *p = strchr(line, '('); p; p = strchr(p + 1, '%')) {
        char *at = *p == '(' ? p + 1 : p;
        if (*at != '%' || which-- > 0)
            continue;
        char rest[160];
        snprintf(rest, sizeof rest, "%s", at + 1 + strspn(at + 1, "0123456789"));
        snprintf(at, 160 - (size_t)(at - line), "%%%u%s", pick(r, (uint32_t)self), rest);
        return;
    }
}

static void new_value_of(rng *r, char *line, const char *key, const char *const *values, size_t n) {
    char *p = strstr(line, key);
    if (!p)
        return;
    p += strlen(key);
    char rest[160];
    snprintf(rest, sizeof rest, "%s", p + strcspn(p, ",}"));
    snprintf(p, 160 - (size_t)(p - line), "%s%s", values[pick(r, (uint32_t)n)], rest);
}

static void mutate(rng *r, text *t) {
    static const char *const from[] = {"f32", "i32", "u8"};
    static const char *const axes[] = {"0", "1", "2", "3"};
    static const char *const folds[] = {"add", "mul", "max"};
    for (uint32_t k = 1 + pick(r, 3); k > 0; k--) {
        char *line = t->line[1 + pick(r, (uint32_t)t->n - 1)];
        switch (pick(r, 8)) {
        case 0: {
            const char *a = CHOOSE(r, from), *b = CHOOSE(r, dtypes);
            replace_all(t, a, b);
            break;
        }
        case 1:
            replace_op(r, line, binary, sizeof binary / sizeof *binary);
            break;
        case 2:
            replace_op(r, line, unary, sizeof unary / sizeof *unary);
            break;
        case 3:
        case 4:
            new_literal(r, line);
            break;
        case 5:
            new_source(r, line);
            break;
        case 6:
            new_value_of(r, line, "kind=", kinds, sizeof kinds / sizeof *kinds);
            break;
        case 7:
            new_value_of(r, line, "axis=", axes, 4);
            new_value_of(r, line, "op=", folds, 3);
            break;
        }
    }
}

/* ---- one mutant ---- */

static void write_text(const text *t, const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < t->n; i++)
        fprintf(f, "%s\n", t->line[i]);
    assert_int_equal(fclose(f), 0);
}

static void show(const text *t) {
    for (int i = 0; i < t->n; i++)
        fprintf(stderr, "%s\n", t->line[i]);
}

/* Exit status of `tolk-jit verify path`; its output is in out. */
static int run_verify(const char *path, char *out, size_t cap) {
    const char *jit = getenv("TOLK_JIT");
    int fd[2];
    assert_non_null(jit);
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(SECONDS); /* a hang ends as a death by signal */
        dup2(fd[1], 1);
        dup2(fd[1], 2);
        close(fd[0]);
        execl(jit, jit, "verify", path, "--rounds", "1", (char *)NULL);
        _exit(99);
    }
    close(fd[1]);
    size_t n = 0;
    char chunk[4096];
    for (ssize_t got; (got = read(fd[0], chunk, sizeof chunk)) > 0;)
        for (ssize_t i = 0; i < got && n + 1 < cap; i++)
            out[n++] = chunk[i];
    out[n] = 0;
    close(fd[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_mutants_are_refused_or_right(void **state) {
    (void)state;
    static const char *const names[] = {"scale",  "axpy",      "gelu",  "sum",  "softmax",
                                        "gather", "histogram", "sgemm", "blur", "mandelbrot"};
    static const char *const counts[] = {"1", "2", "5", "16", "17", "33", "70"};
    static text t;
    char path[] = "/tmp/tolk-mutant-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    rng r = {tk_test_seed()};
    int n = (int)tk_test_count(ALL_MUTANTS), refused = 0;
    for (int i = 0; i < n; i++) {
        const char *name = CHOOSE(&r, names);
        load(&t, name);
        shrink(&t, CHOOSE(&r, counts));
        mutate(&r, &t);
        write_text(&t, path);
        static char out[1 << 16];
        int status = run_verify(path, out, sizeof out);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        /* A mutant of the Mandelbrot kernel may read a register before it is written, whose value
         * is not defined. */
        int differs = strstr(out, "DIFFERS") && strcmp(name, "mandelbrot");
        if (code < 0 || code > 2 || differs || (code == 2 && !strstr(out, "tolk-jit: "))) {
            show(&t);
            unlink(path);
            fail_msg("mutant %d: status 0x%x: %s", i, (unsigned)status, out);
        }
        refused += code == 2;
    }
    unlink(path);
    printf("%d mutants, %d refused\n", n, refused);
    assert_true(refused < n); /* or none of them got past the parser */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants_are_refused_or_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
