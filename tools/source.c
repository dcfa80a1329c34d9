/* SPDX-License-Identifier: MIT */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* No kernel text comes near; the parser's own limits are far below. */
enum { MAX_BYTES = 256 << 20 };

static int read_all(const char *path, char **text, size_t *len) {
    int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(0);
    if (fd < 0)
        return tk_report_usage("cannot open %.400s: %s", path, strerror(errno));
    size_t n = 0, cap = 1 << 16;
    char *buf = malloc(cap);
    int code = buf ? TOOL_DONE : tk_report_failed("out of memory");
    while (!code) {
        ssize_t got = read(fd, buf + n, cap - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            code = tk_report_usage("cannot read %.400s: %s", path, strerror(errno));
        if (got <= 0)
            break;
        n += (size_t)got;
        if (n > MAX_BYTES)
            code = tk_report_usage("%.400s is larger than %d MiB: expected a kernel in text", path,
                                   MAX_BYTES >> 20);
        if (n == cap && !code) {
            char *more = realloc(buf, cap * 2);
            if (!more)
                code = tk_report_failed("out of memory");
            else
                buf = more, cap *= 2;
        }
    }
    close(fd);
    if (code) {
        free(buf);
        return code;
    }
    *text = buf;
    *len = n;
    return TOOL_DONE;
}

/* ---- settings of a file that TOLK_REPRO wrote ---- */

/* The value of a line '; tolk-repro KEY="VALUE"', a JSON string, or NULL. */
static char *setting(const char *line, const char *end, const char *key) {
    static const char start[] = "; tolk-repro ";
    size_t n = strlen(key), head = sizeof start - 1;
    if ((size_t)(end - line) < head + n + 3 || memcmp(line, start, head) ||
        memcmp(line + head, key, n) || memcmp(line + head + n, "=\"", 2))
        return NULL;
    const char *p = line + head + n + 2;
    char *value = malloc((size_t)(end - p) + 1);
    size_t at = 0;
    while (value && p < end && *p != '"') {
        char c = *p++;
        if (c == '\\' && p < end) {
            c = *p++;
            if (c == 'u' && end - p >= 4) { /* a control character */
                char digits[5] = {p[0], p[1], p[2], p[3], 0};
                c = (char)strtol(digits, NULL, 16);
                p += 4;
            }
        }
        value[at++] = c;
    }
    if (value)
        value[at] = 0;
    return value;
}

/* They stand in the comments behind the first line. */
static void read_settings(tk_source *s) {
    const struct {
        const char *key;
        char **to;
    } known[] = {{"target", &s->target}, {"opts", &s->opts}, {"bounds", &s->bounds},
                 {"strict", &s->strict}, {"tier", &s->tier}, {"symbol", &s->symbol},
                 {"emit", &s->emit}};
    const char *end = s->text + s->len, *line = s->text;
    for (int n = 0; line < end; n++) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        stop = stop ? stop : end;
        if (n && *line != ';')
            return;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            char *value = setting(line, stop, known[k].key);
            if (value && *known[k].to)
                free(value);
            else if (value)
                *known[k].to = value;
        }
        line = stop < end ? stop + 1 : end;
    }
}

int tk_source_is_repro(const tk_source *source) {
    return source->target != NULL;
}

/* The text of a kernel that the prompt keeps under this name. */
static int kept_text(const char *name, tk_source *s) {
    const tk_kept_kernel *k = tk_session_kernel(name);
    if (!k)
        return 0;
    s->kept = strdup(name);
    s->text = malloc(k->len + 1);
    if (!s->kept || !s->text)
        return 0;
    memcpy(s->text, k->text, k->len);
    s->len = k->len;
    return 1;
}

int tk_source_load(tolk_ctx *ctx, const char *path, int trusted, tk_source *out) {
    tk_source s = {0};
    if (tk_session_is_on() && !strcmp(path, "-"))
        return tk_report_usage("-: standard input is the prompt's own: expected a file");
    int code = kept_text(path, &s) ? TOOL_DONE : read_all(path, &s.text, &s.len);
    if (code) {
        tk_source_free(&s);
        return code;
    }
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status st = tolk_graph_create(ctx, &s.graph);
    if (!st)
        st = tolk_parse(s.graph, s.text, s.len, trusted ? TOLK_PARSE_TRUSTED : 0, &s.root, &err);
    code = st ? tk_report_input(path, st, &err) : tk_source_find_kernels(&s);
    if (code) {
        tk_source_free(&s);
        return code;
    }
    read_settings(&s);
    *out = s;
    return TOOL_DONE;
}

void tk_source_free(tk_source *source) {
    tolk_graph_destroy(source->graph);
    tk_nodes_free(&source->kernels);
    free(source->text);
    free(source->kept);
    free(source->target);
    free(source->opts);
    free(source->bounds);
    free(source->strict);
    free(source->tier);
    free(source->symbol);
    free(source->emit);
    *source = (tk_source){0};
}

/* Its directory and what is behind that; path is cut. */
static const char *split_path(char *path, struct stat *dir) {
    char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    int bad;
    if (slash == path) {
        bad = stat("/", dir);
    } else {
        if (slash)
            *slash = 0;
        bad = stat(slash ? path : ".", dir);
    }
    return bad ? NULL : name;
}

int tk_source_same_output(const char *a, const char *b) {
    int out_a = !a || !strcmp(a, "-"), out_b = !b || !strcmp(b, "-");
    if (out_a && out_b)
        return 1;
    struct stat sa, sb;
    int is_a = !(out_a ? fstat(STDOUT_FILENO, &sa) : stat(a, &sa));
    int is_b = !(out_b ? fstat(STDOUT_FILENO, &sb) : stat(b, &sb));
    if (is_a && is_b)
        return S_ISREG(sa.st_mode) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
    if (is_a || is_b || out_a || out_b)
        return 0;
    char pa[PATH_MAX], pb[PATH_MAX]; /* two that are to be made */
    if (strlen(a) >= sizeof pa || strlen(b) >= sizeof pb)
        return !strcmp(a, b);
    strcpy(pa, a);
    strcpy(pb, b);
    const char *name_a = split_path(pa, &sa), *name_b = split_path(pb, &sb);
    if (!name_a || !name_b)
        return !strcmp(a, b);
    return sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino && !strcmp(name_a, name_b);
}

static int put_all(int fd, const char *bytes, size_t n) {
    while (n) {
        ssize_t put = write(fd, bytes, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return 0;
        bytes += put;
        n -= (size_t)put;
    }
    return 1;
}

/* A regular file is replaced by rename; anything else (a pipe, /dev/null) is written in place. */
int tk_source_write(const char *path, const char *bytes, size_t n) {
    if (!path || !strcmp(path, "-")) {
        fwrite(bytes, 1, n, stdout); /* main() looks at stdout's error at the end */
        return TOOL_DONE;
    }
    struct stat st;
    int exists = !stat(path, &st);
    if (exists && !S_ISREG(st.st_mode)) {
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return tk_report_usage("cannot write %.400s: %s", path, strerror(errno));
        int ok = put_all(fd, bytes, n);
        if ((close(fd) || !ok) && errno)
            return tk_report_failed("cannot write %.400s: %s", path, strerror(errno));
        return TOOL_DONE;
    }
    if (exists && access(path, W_OK))
        return tk_report_usage("cannot write %.400s: %s", path, strerror(errno));
    char *final = exists ? realpath(path, NULL) : strdup(path);
    char *temp = final ? malloc(strlen(final) + 12) : NULL;
    if (!temp) {
        free(final);
        return tk_report_failed("out of memory");
    }
    sprintf(temp, "%s.tmpXXXXXX", final);
    int code = TOOL_DONE;
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) {
        code = tk_report_usage("cannot write %.400s: %s", path, strerror(errno));
    } else {
        mode_t mask = umask(0);
        umask(mask);
        mode_t mode = exists ? st.st_mode & 07777 : 0666 & ~mask;
        int ok = put_all(fd, bytes, n) && !fchmod(fd, mode);
        if (close(fd))
            ok = 0;
        if (!ok || rename(temp, final)) {
            code = tk_report_failed("cannot write %.400s: %s", path, strerror(errno));
            unlink(temp);
        }
    }
    free(temp);
    free(final);
    return code;
}
