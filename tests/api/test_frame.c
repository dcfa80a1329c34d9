/* SPDX-License-Identifier: MIT
 *
 * A kernel that keeps some 60 KiB of vectors on the stack, launched where a stack has less: on the
 * caller's thread and on OpenMP's.
 */
#include "support/runtime.h"

#include <stdarg.h>
#include <sys/resource.h>

enum { COLUMNS = 480, SMALL = 64 << 10 };

typedef struct text {
    char *at;
    size_t n;
    int number; /* of the next node */
} text;

__attribute__((format(printf, 2, 3))) static int node(text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    t->n += (size_t)sprintf(t->at + t->n, "%%%d = ", t->number);
    t->n += (size_t)vsprintf(t->at + t->n, fmt, ap);
    t->n += (size_t)sprintf(t->at + t->n, "\n");
    va_end(ap);
    return t->number++;
}

/* y[k * rows + r] = x[k * rows + r] * (sum of x[j * rows + r]): all columns are alive at once. */
static char *make_text(int rows) {
    static char memory[1 << 18];
    text t = {memory, 0, 0};
    int load[COLUMNS], at[COLUMNS], store[COLUMNS];
    t.n += (size_t)sprintf(t.at, "tolk.uop 1\n");
    int size = node(&t, "const index %d", rows * COLUMNS), n = node(&t, "const index %d", rows);
    int y = node(&t, "param f64 (%%%d) {slot=0, name=\"y\"}", size);
    int x = node(&t, "param f64 (%%%d) {slot=1, name=\"x\"}", size);
    int r = node(&t, "range index (%%%d) {axis=0, kind=global}", n);
    for (int k = 0; k < COLUMNS; k++) {
        int first = k == 1 ? n : node(&t, "const index %d", rows * k);
        at[k] = node(&t, "add index (%%%d, %%%d)", r, first);
        load[k] = node(&t, "load f64 (%%%d)", node(&t, "index f64 (%%%d, %%%d)", x, at[k]));
    }
    int sum = load[0];
    for (int k = 1; k < COLUMNS; k++)
        sum = node(&t, "add f64 (%%%d, %%%d)", sum, load[k]);
    for (int k = 0; k < COLUMNS; k++) {
        int value = node(&t, "mul f64 (%%%d, %%%d)", load[k], sum);
        store[k] = node(&t, "store void (%%%d, %%%d)", node(&t, "index f64 (%%%d, %%%d)", y, at[k]),
                        value);
    }
    t.n += (size_t)sprintf(t.at + t.n, "%%%d = group void (%%%d", t.number, store[0]);
    for (int k = 1; k < COLUMNS; k++)
        t.n += (size_t)sprintf(t.at + t.n, ", %%%d", store[k]);
    t.n += (size_t)sprintf(t.at + t.n, ")\n");
    int all = t.number++;
    node(&t, "sink void (%%%d) {name=\"wide\"}", node(&t, "end void (%%%d, %%%d)", all, r));
    return t.at;
}

typedef struct launch {
    const tolk_program *program;
    int rows;
    double *x, *y;
    bool no_threads; /* from now on */
    tolk_status status;
} launch;

static void *run(void *arg) {
    launch *l = arg;
    struct rlimit none = {0, 0};
    if (l->no_threads && (setrlimit(RLIMIT_NPROC, &none) || (geteuid() == 0 && setuid(65534))))
        _exit(77);
    size_t bytes = sizeof *l->x * COLUMNS * (size_t)l->rows;
    l->status = tolk_launch(l->program, (void *[]){l->y, l->x}, (const size_t[]){bytes, bytes}, 2,
                            NULL, 0, NULL);
    return NULL;
}

static bool is_right(const launch *l) {
    for (int r = 0; r < l->rows; r++) {
        double sum = 0;
        for (int k = 0; k < COLUMNS; k++)
            sum += l->x[k * l->rows + r];
        for (int k = 0; k < COLUMNS; k++)
            if (l->y[k * l->rows + r] != l->x[k * l->rows + r] * sum)
                return false;
    }
    return true;
}

typedef struct setting {
    int rows;          /* few: on the caller's thread alone; many: on a team */
    const char *stack; /* of OpenMP's threads; NULL: as it is */
    bool small;        /* the caller's stack has 64 KiB */
    bool no_threads;
    tolk_status want;
} setting;

/* Exit code 0: the status that is wanted, and where that is TOLK_OK each element is right. */
static int child(void *arg) {
    const setting *s = arg;
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    tolk_compile_opts c = TOLK_COMPILE_OPTS_INIT;
    tolk_graph *g;
    const tolk_uop *kernel;
    tolk_program *p;
    rt r;
    if (s->stack)
        setenv("KMP_STACKSIZE", s->stack, 1);
    opts.threads = 3;
    c.opts = "LANE:0:16"; /* 128 bytes a column */
    rt_open(&r, NULL, &opts);
    char *text = make_text(s->rows);
    if (tolk_graph_create(r.ctx, &g) || tolk_parse(g, text, strlen(text), 0, &kernel, NULL) ||
        tolk_compile(r.cpu, kernel, &c, &p, NULL))
        return 1;
    launch l = {.program = p, .rows = s->rows, .no_threads = s->no_threads};
    size_t n = COLUMNS * (size_t)s->rows;
    l.x = calloc(n, sizeof *l.x);
    l.y = calloc(n, sizeof *l.y);
    for (size_t i = 0; i < n; i++)
        l.x[i] = (double)(i % 97);
    for (int i = 0; i < (s->no_threads ? 1 : 2); i++) {
        if (s->small)
            tk_test_on_stack(SMALL, run, &l);
        else
            run(&l);
        if (l.status != s->want)
            return 10 + (int)l.status;
    }
    if (l.status == TOLK_OK && !is_right(&l))
        return 2;
    free(l.x);
    free(l.y);
    tolk_program_unref(p);
    tolk_graph_destroy(g);
    rt_close(&r);
    return 0;
}

static void check(setting s) {
    int code = tk_test_child(child, &s, 100);
    if (code)
        fail_msg("%d rows, stack of threads %s, small %d: the child ended with %d", s.rows,
                 s.stack ? s.stack : "as it is", s.small, code);
}

static void test_large_frames_run_on_any_stack(void **state) {
    (void)state;
    check((setting){.rows = 64, .small = true});
    check((setting){.rows = 8192, .small = true});
    check((setting){.rows = 8192, .stack = "130k"});
}

static void test_a_large_frame_without_room_is_an_error(void **state) {
    (void)state;
    setting s = {.rows = 64, .small = true, .no_threads = true, .want = TOLK_E_NOMEM};
    int code = tk_test_child(child, &s, 100);
    if (code == 77)
        skip(); /* this user is not limited */
    assert_int_equal(code, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_frames_run_on_any_stack),
        cmocka_unit_test(test_a_large_frame_without_room_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
