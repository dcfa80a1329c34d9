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

/* Lines of the help that begin with two spaces and a dash: "  --emit=llvm|asm|obj    ...". */
static void offer_flags(found *f, const char *command) {
    const char *help = tk_command_help(command);
    for (const char *line = help; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, "  -", 3))
            continue;
        char word[128];
        const char *p = line + 2;
        size_t n = strcspn(p, " =\n"), values = strcspn(p, " \n");
        if (values >= sizeof word)
            continue;
        if (p[n] != '=') { /* "--bounds check|trust" and "--json" are words of their own */
            snprintf(word, sizeof word, "%.*s", (int)n, p);
            offer(f, "", word, "");
            continue;
        }
        for (const char *v = p + n + 1; v < p + values;) {
            size_t len = strcspn(v, "| \n");
            snprintf(word, sizeof word, "%.*s=%.*s", (int)n, p, (int)len, v);
            offer(f, "", word, "");
            v += len + 1;
        }
    }
}

/* Lines of the help that begin with two spaces and a small letter: "  stats    ...". How many. */
static size_t offer_words(found *f, const char *command, int at_word) {
    const char *help = tk_command_help(command);
    size_t n = 0;
    for (const char *line = help; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char word[64];
        if (strncmp(line, "  ", 2) || line[2] < 'a' || line[2] > 'z')
            continue;
        n++;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(line + 2, " \n"), line + 2);
        if (at_word)
            offer(f, "", word, "");
    }
    return n;
}

/* Values of a flag that its help lists: "  --bounds check|trust   ...". */
static void offer_values(found *f, const char *command, const char *flag) {
    const char *help = tk_command_help(command);
    size_t n = strlen(flag);
    for (const char *line = help; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, "  ", 2) || strncmp(line + 2, flag, n) || line[2 + n] != ' ')
            continue;
        const char *v = line + 2 + n + strspn(line + 2 + n, " ");
        size_t all = strcspn(v, " \n");
        if (!memchr(v, '|', all))
            continue;
        for (const char *end = v + all; v < end;) {
            char word[64];
            size_t len = strcspn(v, "| \n");
            snprintf(word, sizeof word, "%.*s", (int)len, v);
            offer(f, "", word, "");
            v += len + 1;
        }
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
