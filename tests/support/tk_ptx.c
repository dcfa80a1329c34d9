/* SPDX-License-Identifier: MIT */
#include "support/tk_ptx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KERNELS = 100 };

/* ---- the listed instructions ---- */

/* docs/ptx.md, where mnemonics stand between backquotes. */
static const char *listed(void) {
    static char *text;
    if (text)
        return text;
    char *path = tk_test_source("docs/ptx.md");
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("%s cannot be read", path);
    enum { ROOM = 1 << 16 };
    assert_non_null(text = calloc(1, ROOM));
    assert_true(fread(text, 1, ROOM - 1, f) < ROOM - 1);
    fclose(f);
    free(path);
    return text;
}

/* Is `at` what a pattern up to its closing backquote stands for? {a,b} is a or b. */
static bool matches(const char *pattern, const char *at, size_t n) {
    while (*pattern != '`' && *pattern != '{') {
        if (n == 0 || *pattern != *at)
            return false;
        pattern++, at++, n--;
    }
    if (*pattern == '`')
        return n == 0;
    const char *rest = strchr(pattern, '}') + 1;
    for (pattern++; pattern < rest; pattern += strcspn(pattern, ",}") + 1) {
        size_t k = strcspn(pattern, ",}");
        if (k <= n && !memcmp(pattern, at, k) && matches(rest, at + k, n - k))
            return true;
    }
    return false;
}

static bool is_listed(const char *mnemonic, size_t n) {
    const char *at = strstr(listed(), "## Instructions");
    assert_non_null(at);
    while ((at = strchr(at, '`'))) {
        if (matches(at + 1, mnemonic, n))
            return true;
        if (!(at = strchr(at + 1, '`')))
            break;
        at++;
    }
    return false;
}

/* ---- looking at text ---- */

static char wrong[300];

static const char *say(const char *what, const char *at) {
    size_t n = strcspn(at, "\n");
    snprintf(wrong, sizeof wrong, "%s: %.*s", what, (int)(n > 150 ? 150 : n), at);
    return wrong;
}

static bool starts(const char *at, const char *with) {
    return strncmp(at, with, strlen(with)) == 0;
}

/* A float operation says how it rounds, or does not round. */
static bool rounds(const char *mnemonic, size_t n) {
    static const char *const rounded[] = {"add", "sub", "mul", "fma", "div", "rcp", "sqrt", "mad"};
    bool is_float =
        n > 4 && (!memcmp(mnemonic + n - 4, ".f32", 4) || !memcmp(mnemonic + n - 4, ".f64", 4));
    for (size_t i = 0; is_float && i < sizeof rounded / sizeof *rounded; i++) {
        size_t k = strlen(rounded[i]);
        if (!memcmp(mnemonic, rounded[i], k) && mnemonic[k] == '.')
            return memcmp(mnemonic + k, ".rn.", 4) == 0;
    }
    return true;
}

/* One line of a function's body; at: its first character that is no blank. */
static const char *wrong_line(const char *at) {
    if (*at == '@') { /* a predicate */
        at += strcspn(at, " \t");
        at += strspn(at, " \t");
    }
    if (*at == '.' || *at == '$' || *at == '{' || *at == '}' || *at == '/' || *at == ')' ||
        *at == '(' || *at == '\n' || !*at)
        return NULL; /* directives, labels, comments */
    size_t n = strcspn(at, " \t;\n");
    if (!rounds(at, n))
        return say("a float operation without .rn", at);
    return is_listed(at, n) ? NULL : say("an instruction that docs/ptx.md does not list", at);
}

const char *tk_ptx_forbidden(const char *text) {
    static const char *const never[] = {".approx",         ".ftz",   "call",  ".func",
                                        ".extern .func",   ".local", "__nv_", ".weak",
                                        ".extern .global", "%SP",    ".full", "vprintf"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(text, never[i]))
            return say("what must never be there", strstr(text, never[i]));
    for (const char *at = strstr(text, ".extern"); at; at = strstr(at + 1, ".extern"))
        if (!starts(at, ".extern .shared"))
            return say("an external symbol", at);
    return NULL;
}

const char *tk_ptx_wrong(const char *text, const tk_target *target) {
    char version[40], chip[64];
    snprintf(version, sizeof version, ".version %u.%u\n", target->ptx / 10, target->ptx % 10);
    snprintf(chip, sizeof chip, ".target %s\n", target->cpu);
    if (!strstr(text, version))
        return say("another version than", version);
    if (!strstr(text, chip))
        return say("another chip than", chip);
    const char *forbidden = tk_ptx_forbidden(text);
    if (forbidden)
        return forbidden;
    const char *body = strstr(text, "\n{");
    if (!strstr(text, ".visible .entry tolk_kernel(") || !body)
        return say("no kernel", text);
    for (const char *at = body + 1; *at;) {
        const char *line = at + strspn(at, " \t");
        const char *why = wrong_line(line);
        if (why)
            return why;
        at = strchr(at, '\n');
        if (!at)
            break;
        at++;
    }
    return NULL;
}

unsigned tk_ptx_count(const char *text, const char *mnemonic) {
    unsigned n = 0;
    size_t len = strlen(mnemonic);
    for (const char *at = strstr(text, mnemonic); at; at = strstr(at + len, mnemonic)) {
        bool first = at > text && strchr(" \t\n", at[-1]);
        bool last = strchr(" \t;\n", at[len]) != NULL;
        n += first && last;
    }
    return n;
}

void tk_ptx_stands(const char *text, const char *mnemonic, unsigned want) {
    unsigned n = tk_ptx_count(text, mnemonic);
    if (n != want)
        fail_msg("%s: %u times, expected %u\n%s", mnemonic, n, want, text);
}

/* ---- the assembler ---- */

const char *tk_ptx_assembler(void) {
    static char path[400];
    static bool looked;
    const char *own = getenv("TOLK_PTXAS"), *dirs = getenv("PATH");
    if (looked)
        return *path ? path : NULL;
    looked = true;
    if (own) {
        snprintf(path, sizeof path, "%s", access(own, X_OK) == 0 ? own : "");
        return *path ? path : NULL;
    }
    for (; dirs && *dirs; dirs += strcspn(dirs, ":"), dirs += *dirs == ':') {
        snprintf(path, sizeof path, "%.*s/ptxas", (int)strcspn(dirs, ":"), dirs);
        if (access(path, X_OK) == 0)
            return path;
    }
    snprintf(path, sizeof path, "/usr/local/cuda/bin/ptxas");
    if (access(path, X_OK) != 0)
        *path = 0;
    return *path ? path : NULL;
}

void tk_ptx_module_init(tk_ptx_module *m, const tk_target *target) {
    *m = (tk_ptx_module){.target = *target};
}

static void append(tk_ptx_module *m, const char *at, size_t n) {
    if (m->len + n + 1 > m->room) {
        m->room = 2 * (m->len + n + 1);
        assert_non_null(m->text = realloc(m->text, m->room));
    }
    memcpy(m->text + m->len, at, n);
    m->text[m->len += n] = 0;
}

/* Run ptxas on a file; 0: accepted. Its output stays in the file `log`. */
static int run_assembler(const char *chip, const char *file, const char *log) {
    char arch[40];
    snprintf(arch, sizeof arch, "-arch=%s", chip);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen(log, "w", stderr) || dup2(2, 1) < 0)
            _exit(127);
        execl(tk_ptx_assembler(), "ptxas", arch, "-O1", "--warn-on-spills", file, "-o", "/dev/null",
              (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void assemble(tk_ptx_module *m) {
    if (!m->kernels || !tk_ptx_assembler()) {
        m->len = m->kernels = 0;
        return;
    }
    char file[] = "/tmp/tolk-ptx-XXXXXX", log[40];
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(m->text, 1, m->len, f), m->len);
    assert_int_equal(fclose(f), 0);
    snprintf(log, sizeof log, "%s.log", file);
    int code = run_assembler(m->target.cpu, file, log);
    if (code) {
        char said[1500] = "";
        f = fopen(log, "r");
        if (f) {
            said[fread(said, 1, sizeof said - 1, f)] = 0;
            fclose(f);
        }
        fail_msg("ptxas for %s: %d; the module is %s\n%s", m->target.cpu, code, file, said);
    }
    unlink(file);
    unlink(log);
    m->assembled += m->kernels;
    m->len = m->kernels = 0;
}

void tk_ptx_module_add(tk_ptx_module *m, const char *text) {
    static const char name[] = "tolk_kernel", shared[] = "tolk_shared";
    const char *body = strstr(text, ".address_size 64");
    assert_non_null(body);
    body += strlen(".address_size 64");
    if (!m->kernels) /* the header: the same for all */
        append(m, text, (size_t)(body - text));
    char tag[24];
    int n = snprintf(tag, sizeof tag, "_%u", m->kernels);
    for (const char *at = body; *at;) {
        size_t k = starts(at, name) ? sizeof name - 1 : starts(at, shared) ? sizeof shared - 1 : 0;
        append(m, at, k ? k : 1);
        at += k ? k : 1;
        if (k)
            append(m, tag, (size_t)n);
    }
    if (++m->kernels == KERNELS)
        assemble(m);
}

void tk_ptx_module_fini(tk_ptx_module *m) {
    assemble(m);
    free(m->text);
}

void tk_ptx_check(const char *text, const tk_target *target) {
    const char *why = tk_ptx_wrong(text, target);
    if (why)
        fail_msg("%s\n%s", why, text);
    tk_ptx_module module;
    tk_ptx_module_init(&module, target);
    tk_ptx_module_add(&module, text);
    tk_ptx_module_fini(&module);
}
