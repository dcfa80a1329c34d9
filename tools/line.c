/* SPDX-License-Identifier: MIT
 *
 * Lines for the prompt. On a terminal through libedit, where the build found it: editing, a history
 * that is kept in a file of this user, completion. Else as they come.
 *
 * Ctrl-C while a line is read: libedit would go on reading, so the characters come through a
 * function of ours, which ends the line.
 */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef TOLK_HAVE_EDIT
#include <histedit.h>
#include <wchar.h>
#endif

struct tk_line {
    int terminal;
    struct sigaction outside; /* of SIGINT, before a terminal was opened */
    char *text;               /* the last line */
    size_t room;
#ifdef TOLK_HAVE_EDIT
    EditLine *edit;
    History *history;
    char history_file[PATH_MAX]; /* "": none */
    const char *prompt;
    int interrupted;
#endif
};

/* A Ctrl-C becomes a byte in a pipe, so that it is met whenever and on whatever thread it comes. */
static int stop_pipe[2] = {-1, -1};

static void on_interrupt(int sig) {
    (void)sig;
    int old = errno;
    ssize_t n = write(stop_pipe[1], "", 1);
    (void)n; /* if the pipe is full there is a byte in it */
    errno = old;
}

static void catch_interrupts(struct sigaction *old) {
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = on_interrupt;
    act.sa_flags = SA_RESTART;
    sigemptyset(&act.sa_mask);
    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) == 0)
        sigaction(SIGINT, &act, old);
}

/* Wait for input. 0: there was a Ctrl-C. */
static int wait_for_input(void) {
    struct pollfd p[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                          {.fd = stop_pipe[0], .events = POLLIN}};
    while (poll(p, 2, -1) < 0 && errno == EINTR)
        ;
    if (!p[1].revents)
        return 1;
    char bytes[64];
    while (read(stop_pipe[0], bytes, sizeof bytes) > 0)
        ;
    return 0;
}

/* ---- any input ---- */

static tk_line_end read_plain(tk_line *l, const char *prompt, const char **text) {
    if (l->terminal) {
        fputs(prompt, stdout);
        fflush(stdout);
        if (!wait_for_input()) { /* a terminal gives whole lines */
            putchar('\n');
            return TK_LINE_INTERRUPTED;
        }
    }
    ssize_t n = getline(&l->text, &l->room, stdin);
    if (n < 0)
        return TK_LINE_EOF;
    if (n && l->text[n - 1] == '\n')
        l->text[--n] = 0;
    if (n && l->text[n - 1] == '\r')
        l->text[--n] = 0;
    *text = l->text;
    return memchr(l->text, 0, (size_t)n) ? TK_LINE_NUL : TK_LINE_OK;
}

#ifdef TOLK_HAVE_EDIT

/* ---- the history's file ---- */

static int make_private_dirs(char *path, size_t from) {
    for (char *p = path + from;; p++) {
        if (*p && *p != '/')
            continue;
        char c = *p;
        *p = 0;
        int ok = !mkdir(path, 0700) || errno == EEXIST;
        *p = c;
        if (!ok || !c)
            return ok;
    }
}

/* $XDG_STATE_HOME/tolk/history, else ~/.local/state/tolk/history. It must be this user's own. */
static void find_history(char *path, size_t bytes) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    path[0] = 0;
    if (state && state[0] == '/')
        n = snprintf(path, bytes, "%s/tolk", state);
    else if (home && home[0] == '/')
        n = snprintf(path, bytes, "%s/.local/state/tolk", home);
    else
        return;
    if (n < 0 || (size_t)n + sizeof "/history" > bytes || !make_private_dirs(path, 1)) {
        path[0] = 0;
        return;
    }
    strcat(path, "/history");
    /* Made with the right mode before anybody writes to it. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        fchmod(fd, 0600))
        path[0] = 0;
    if (fd >= 0)
        close(fd);
}

/* ---- characters ---- */

/* One character of UTF-8. 1, 0 at the end of the input, -1 for a Ctrl-C. */
static int get_char(EditLine *edit, wchar_t *out) {
    tk_line *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    unsigned char bytes[4];
    size_t n = 0, want = 1;
    while (n < want) {
        if (!wait_for_input()) {
            l->interrupted = 1;
            return -1;
        }
        ssize_t got = read(STDIN_FILENO, bytes + n, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        if (n == 0)
            want = bytes[0] >= 0xf0 ? 4 : bytes[0] >= 0xe0 ? 3 : bytes[0] >= 0xc0 ? 2 : 1;
        else if ((bytes[n] & 0xc0) != 0x80) /* no UTF-8: as '?' */
            break;
        n++;
    }
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    wchar_t c = bytes[0] & first[want];
    for (size_t i = 1; i < want && n == want; i++)
        c = c << 6 | (bytes[i] & 0x3f);
    *out = n == want && (bytes[0] < 0x80 || bytes[0] >= 0xc0) ? c : L'?';
    return 1;
}

/* ---- completion ---- */

static char *show_prompt(EditLine *edit) {
    tk_line *l = NULL;
    el_get(edit, EL_CLIENTDATA, &l);
    return (char *)(uintptr_t)(l ? l->prompt : "");
}

/* Put in what all candidates have in common; if that is nothing, list them. */
static unsigned char complete(EditLine *edit, int ch) {
    (void)ch;
    enum { MOST = 256 };
    const LineInfo *info = el_line(edit);
    size_t n_line = (size_t)(info->lastchar - info->buffer), typed;
    size_t cursor = (size_t)(info->cursor - info->buffer);
    char *line = malloc(n_line + 1), *found[MOST];
    if (!line)
        return CC_ERROR;
    memcpy(line, info->buffer, n_line);
    line[n_line] = 0;
    size_t n = tk_complete(line, cursor, found, MOST, &typed);
    free(line);
    if (!n)
        return CC_ERROR;
    size_t common = strlen(found[0]);
    for (size_t i = 1; i < n; i++) {
        size_t k = 0;
        while (k < common && found[i][k] == found[0][k])
            k++;
        common = k;
    }
    unsigned char answer = CC_REFRESH;
    size_t last = strlen(found[0]);
    char behind = last ? found[0][last - 1] : 0; /* a folder or a NAME= goes on */
    if (n > 1 && common == typed) {
        putchar('\n');
        for (size_t i = 0; i < n; i++)
            printf("%s%s", found[i], i + 1 < n ? "  " : "\n");
        fflush(stdout);
        answer = CC_REDISPLAY;
    } else {
        found[0][common] = 0;
        if (el_insertstr(edit, found[0] + typed) && found[0][typed])
            answer = CC_ERROR;
        else if (n == 1 && behind != '/' && behind != '=')
            el_insertstr(edit, " ");
    }
    for (size_t i = 0; i < n; i++)
        free(found[i]);
    return answer;
}

/* ---- libedit ---- */

static void open_edit(tk_line *l) {
    HistEvent event;
    /* So that it reads and shows UTF-8; numbers stay those of the C locale. */
    setlocale(LC_CTYPE, "C.UTF-8");
    l->edit = el_init("tolk-jit", stdin, stdout, stderr);
    l->history = l->edit ? history_init() : NULL;
    if (!l->history)
        return;
    history(l->history, &event, H_SETSIZE, 1000);
    history(l->history, &event, H_SETUNIQUE, 1);
    find_history(l->history_file, sizeof l->history_file);
    if (l->history_file[0])
        history(l->history, &event, H_LOAD, l->history_file);
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_PROMPT, show_prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_HIST, history, l->history);
    el_set(l->edit, EL_GETCFN, get_char);
    el_set(l->edit, EL_ADDFN, "tolk-complete", "complete the word", complete);
    el_set(l->edit, EL_BIND, "^I", "tolk-complete", NULL);
    el_set(l->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_source(l->edit, NULL); /* the user's ~/.editrc */
}

static void close_edit(tk_line *l) {
    HistEvent event;
    if (l->history && l->history_file[0])
        history(l->history, &event, H_SAVE, l->history_file);
    if (l->history)
        history_end(l->history);
    if (l->edit)
        el_end(l->edit);
}

static tk_line_end read_edit(tk_line *l, const char *prompt, const char **text) {
    HistEvent event;
    int n = 0;
    l->prompt = prompt;
    l->interrupted = 0;
    el_set(l->edit, EL_PREP_TERM, 1); /* before the prompt is seen: a Ctrl-D is lost otherwise */
    const char *line = el_gets(l->edit, &n);
    if (l->interrupted) {
        el_reset(l->edit);
        putchar('\n');
        return TK_LINE_INTERRUPTED;
    }
    if (!line || n <= 0) {
        putchar('\n');
        return TK_LINE_EOF;
    }
    size_t len = (size_t)n;
    char *copy = realloc(l->text, len + 1);
    if (!copy)
        return TK_LINE_EOF;
    l->text = copy;
    memcpy(copy, line, len);
    while (len && (copy[len - 1] == '\n' || copy[len - 1] == '\r'))
        len--;
    copy[len] = 0;
    if (copy[strspn(copy, " \t")])
        history(l->history, &event, H_ENTER, copy);
    *text = copy;
    return TK_LINE_OK;
}

#endif

/* ---- both ---- */

tk_line *tk_line_open(void) {
    tk_line *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (l->terminal)
        catch_interrupts(&l->outside);
#ifdef TOLK_HAVE_EDIT
    if (l->terminal)
        open_edit(l);
#endif
    return l;
}

void tk_line_close(tk_line *l) {
    if (!l)
        return;
#ifdef TOLK_HAVE_EDIT
    close_edit(l);
#endif
    if (stop_pipe[0] >= 0) {
        sigaction(SIGINT, &l->outside, NULL);
        close(stop_pipe[0]);
        close(stop_pipe[1]);
        stop_pipe[0] = stop_pipe[1] = -1;
    }
    free(l->text);
    free(l);
}

int tk_line_is_terminal(const tk_line *l) {
    return l->terminal;
}

tk_line_end tk_line_read(tk_line *l, const char *prompt, const char **text) {
    fflush(stdout);
#ifdef TOLK_HAVE_EDIT
    if (l->history)
        return read_edit(l, prompt, text);
#endif
    return read_plain(l, prompt, text);
}
