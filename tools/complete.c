/* SPDX-License-Identifier: MIT
 *
 * What Tab offers at the prompt. Commands and their flags are those of their help, so nothing is
 * listed twice.
 */
#include "tool.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct found {
    char **out;
    size_t n, max;
    const char *typed; /* what a candidate begins with */
    size_t n_typed;
} found;

static void offer(found *f, const char *before, const char *word, const char *behind) {
    if (f->n == f->max)
        return;
    size_t n = strlen(before) + strlen(word) + strlen(behind) + 1;
    char *text = malloc(n);
    if (!text)
        return;
    snprintf(text, n, "%s%s%s", before, word, behind);
    int fits = !strncmp(text, f->typed, f->n_typed);
    for (size_t i = 0; fits && i < f->n; i++)
        fits = strcmp(f->out[i], text) != 0;
    if (fits)
        f->out[f->n++] = text;
    else
        free(text);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void offer_commands(found *f) {
    const char *name, *help;
    for (size_t i = 0; (name = tk_command_name(i)); i++)
        offer(f, f->typed[0] == ':' ? ":" : "", name, "");
    for (size_t i = 0; (name = tk_prompt_command(i, &help)); i++)
        offer(f, f->typed[0] == ':' ? ":" : "", name, "");
}

/* The first line of a help behind `at`, NULL: the first of all, that begins with two spaces and a
 * character of `first`; what stands behind the spaces. NULL: there is none. */
static const char *help_line(const char *help, const char *at, const char *first) {
    const char *line = help;
    if (at)
        line = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL;
    for (; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, "  ", 2) && line[2] && strchr(first, line[2]))
            return line + 2;
    return NULL;
}

/* "llvm|asm|obj", n bytes of it: each of the words. */
static void offer_each(found *f, const char *before, const char *words, size_t n) {
    for (const char *v = words; v < words + n;) {
        char word[64];
        size_t len = strcspn(v, "| \n");
        snprintf(word, sizeof word, "%.*s", (int)len, v);
        offer(f, before, word, "");
        v += len + 1;
    }
}

/* "  --emit=llvm|asm|obj    ...". */
static void offer_flags(found *f, const char *command) {
    const char *help = tk_command_help(command), *p = NULL;
    while ((p = help_line(help, p, "-"))) {
        char word[128];
        size_t n = strcspn(p, " =\n"), values = strcspn(p, " \n");
        if (values >= sizeof word)
            continue;
        /* "--bounds check|trust" and "--json" are words of their own */
        int more = p[n] == '=';
        snprintf(word, sizeof word, "%.*s", (int)n + more, p);
        if (more)
            offer_each(f, word, p + n + 1, values - n - 1);
        else
            offer(f, "", word, "");
    }
}

/* "  stats    ...". How many. */
static size_t offer_words(found *f, const char *command, int at_word) {
    const char *help = tk_command_help(command), *p = NULL;
    size_t n = 0;
    for (; (p = help_line(help, p, "abcdefghijklmnopqrstuvwxyz")); n++) {
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(p, " \n"), p);
        if (at_word)
            offer(f, "", word, "");
    }
    return n;
}

/* Values of a flag that its help lists: "  --bounds check|trust   ...". */
static void offer_values(found *f, const char *command, const char *flag) {
    const char *help = tk_command_help(command), *p = NULL;
    size_t n = strlen(flag);
    while (flag[0] && (p = help_line(help, p, (char[]){flag[0], 0}))) {
        if (strncmp(p, flag, n) || p[n] != ' ')
            continue;
        const char *v = p + n + strspn(p + n, " ");
        size_t all = strcspn(v, " \n");
        if (memchr(v, '|', all))
            offer_each(f, "", v, all);
    }
}

/* Files and folders: `before` is what stands before the path in the word ("x="). */
static void offer_files(found *f, const char *before) {
    const char *path = f->typed + strlen(before), *slash = strrchr(path, '/');
    char folder[4096], lead[4352];
    if ((size_t)(slash ? slash - path + 1 : 0) >= sizeof folder)
        return;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 0, path);
    snprintf(lead, sizeof lead, "%.200s%s", before, folder);
    const char *start = slash ? slash + 1 : path;
    DIR *dir = opendir(folder[0] ? folder : ".");
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if ((e->d_name[0] == '.' && start[0] != '.') || !strcmp(e->d_name, ".") ||
            !strcmp(e->d_name, ".."))
            continue;
        int is_folder = !fstatat(dirfd(dir), e->d_name, &st, 0) && S_ISDIR(st.st_mode);
        offer(f, lead, e->d_name, is_folder ? "/" : "");
    }
    closedir(dir);
}

static void offer_names(found *f, const char *before, int arrays, int kernels) {
    const tk_array *a;
    const tk_kept_kernel *k;
    for (size_t i = 0; arrays && (a = tk_session_array_at(i)); i++)
        offer(f, before, a->name, "");
    for (size_t i = 0; kernels && (k = tk_session_kernel_at(i)); i++)
        offer(f, before, k->name, "");
}

size_t tk_complete(const char *line, size_t cursor, char **out, size_t max, size_t *n_typed) {
    char command[32] = "", flag[64] = "", *word;
    size_t at = 0, n_words = 0, start = 0;
    for (;;) { /* the words before the cursor; quotes are not looked at */
        at += strspn(line + at, " \t");
        size_t n = strcspn(line + at, " \t");
        start = at < cursor ? at : cursor;
        if (at + n >= cursor)
            break;
        if (!n_words)
            snprintf(command, sizeof command, "%.*s", (int)(n < 31 ? n : 31), line + at);
        snprintf(flag, sizeof flag, "%.*s", (int)(n < 63 ? n : 63), line + at);
        n_words++;
        at += n;
    }
    word = strndup(line + start, cursor - start);
    if (!word)
        return 0;
    found f = {.out = out, .max = max, .typed = word, .n_typed = strlen(word)};
    const char *name = command[0] == ':' ? command + 1 : command;
    const char *eq = strchr(word, '=');
    char before[256] = "";
    if (eq && (size_t)(eq - word) < sizeof before - 1)
        snprintf(before, sizeof before, "%.*s=", (int)(eq - word), word);
    if (!n_words) {
        offer_commands(&f);
    } else if (word[0] == '-') {
        offer_flags(&f, name);
    } else {
        offer_values(&f, name, flag);
        if (!f.n && offer_words(&f, name, n_words == 1)) {
            /* The command takes such a word and no file. */
        } else if (!f.n && eq) {
            offer_names(&f, before, 1, 0);
            offer_files(&f, before);
        } else if (!f.n &&
                   (!strcmp(name, "show") || !strcmp(name, "drop") || !strcmp(name, "save"))) {
            offer_names(&f, "", 1, strcmp(name, "save") != 0);
            if (!strcmp(name, "save") && n_words > 1)
                offer_files(&f, "");
        } else if (!f.n && !strcmp(name, "help")) {
            offer_commands(&f);
        } else if (!f.n) {
            offer_names(&f, "", 0, 1);
            offer_files(&f, "");
        }
    }
    *n_typed = f.n_typed;
    free(word);
    qsort(out, f.n, sizeof *out, by_text);
    return f.n;
}
