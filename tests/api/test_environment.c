/* SPDX-License-Identifier: MIT
 *
 * TOLK_DEBUG and TOLK_DUMP do what docs/environment.md says. The other variables have their tests
 * where they matter: TOLK_CPU and TOLK_THREADS in cpu.cpu_detect, the cache's in tool.disk.
 */
#include "support/runtime.h"

enum { MOST = 64 };

/* What a context logged. */
typedef struct lines {
    int n;
    tolk_log_level level[MOST];
    char *text[MOST];
} lines;

static void keep(void *user, tolk_log_level level, const char *text) {
    lines *l = user;
    if (l->n == MOST)
        fail_msg("more than %d messages", MOST);
    l->level[l->n] = level;
    l->text[l->n++] = strdup(text);
}

static void drop(lines *l) {
    for (int i = 0; i < l->n; i++)
        free(l->text[i]);
    l->n = 0;
}

/* Compile, launch and look up again with these values of TOLK_DEBUG and TOLK_DUMP (NULL: unset). */
static void logged(const char *debug, const char *letters, bool blind, lines *out) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.log = keep;
    o.log_user = out;
    o.no_environment = blind;
    o.no_disk_cache = 1;
    rt r = {.ctx = NULL};
    out->n = 0;
    if (debug)
        setenv("TOLK_DEBUG", debug, 1);
    if (letters)
        setenv("TOLK_DUMP", letters, 1);
    assert_int_equal(tolk_ctx_create(&o, &r.ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_device_open(r.ctx, "CPU", &r.cpu, NULL), TOLK_OK);
    for (int i = 0; i < 2; i++) {
        tolk_program *p = rt_compile(&r, rt_text(RT_SCALE, 1001, "3"));
        assert_true(rt_scale_is(p, 1001, 3)); /* looking changes nothing */
        tolk_program_unref(p);
    }
    rt_close(&r);
    unsetenv("TOLK_DEBUG");
    unsetenv("TOLK_DUMP");
}

static int count(const lines *l, tolk_log_level level) {
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += l->level[i] == level;
    return n;
}

static void test_TOLK_DEBUG_0_and_unset_are_silent(void **state) {
    (void)state;
    lines l;
    static const char *const values[] = {NULL, "", "0"};
    for (int i = 0; i < 3; i++) {
        logged(values[i], NULL, false, &l);
        assert_int_equal(l.n, 0);
    }
}

/* 1 tells of each kernel where it came from; nothing is a detail or a problem. */
static void test_TOLK_DEBUG_1_tells_what_happens(void **state) {
    (void)state;
    lines l;
    logged("1", NULL, false, &l);
    assert_int_equal(count(&l, TOLK_LOG_INFO), 2);
    assert_int_equal(l.n, 2);
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(l.text[i], "scale"));
    assert_non_null(strstr(l.text[0], "compiled"));
    assert_non_null(strstr(l.text[1], "memory"));
    drop(&l);
}

static void test_TOLK_DEBUG_from_2_on_tells_details(void **state) {
    (void)state;
    lines l;
    static const char *const values[] = {"2", "5", "9"};
    for (int i = 0; i < 3; i++) {
        logged(values[i], NULL, false, &l);
        assert_int_equal(count(&l, TOLK_LOG_INFO), 2);
        assert_true(count(&l, TOLK_LOG_DEBUG) >= 8); /* a pass each */
        assert_int_equal(count(&l, TOLK_LOG_INFO) + count(&l, TOLK_LOG_DEBUG), l.n);
        drop(&l);
    }
}

static void test_TOLK_DEBUG_that_is_no_level_is_warned_of_and_0(void **state) {
    (void)state;
    lines l;
    static const char *const values[] = {"10", "-1", "yes", "1x", "99999999999999999999", " "};
    for (int i = 0; i < 6; i++) {
        logged(values[i], NULL, false, &l);
        assert_int_equal(l.n, 1);
        assert_int_equal(l.level[0], TOLK_LOG_WARNING);
        assert_non_null(strstr(l.text[0], "TOLK_DEBUG"));
        assert_non_null(strstr(l.text[0], values[i]));
        drop(&l);
    }
}

/* ---- dumps ---- */

enum { LETTERS = 26 };

/* The letters that docs/environment.md lists, in its order. */
static const char *documented(void) {
    static char seen[LETTERS + 1];
    char *path = tk_test_source("docs/environment.md"), line[1024];
    FILE *f = fopen(path, "r");
    size_t n = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "| `TOLK_DUMP`", 13) == 0)
            for (const char *p = line + 13; (p = strchr(p, '`')); p++)
                if (p[1] && p[2] == '`') {
                    assert_true(n < LETTERS);
                    seen[n++] = p[1];
                    p += 2;
                }
    fclose(f);
    free(path);
    seen[n] = 0;
    assert_true(n >= 8);
    return seen;
}

/* "after NAME:" and a text that can be read again; what it holds passes the verifier. */
static void is_dump(const char *text, bool program) {
    const char *end = strstr(text, ":\n");
    rt r;
    tolk_graph *g;
    const tolk_uop *root;
    tolk_error err = TOLK_ERROR_INIT;
    if (strncmp(text, "after ", 6) != 0 || !end)
        fail_msg("no \"after PASS:\": %.80s", text);
    rt_open(&r, NULL, NULL);
    assert_int_equal(tolk_graph_create(r.ctx, &g), TOLK_OK);
    if (tolk_parse(g, end + 2, strlen(end + 2), 0, &root, &err) ||
        tolk_verify(root, program ? TOLK_STAGE_PROGRAM : TOLK_STAGE_KERNEL, &err))
        fail_msg("%u:%u: %s\n%s", err.line, err.column, err.msg, text);
    tolk_graph_destroy(g);
    rt_close(&r);
}

/* Each letter of the documentation prints after one pass; for others there is a warning. The second
 * compilation is a hit: no pass runs. */
static void test_TOLK_DUMP_prints_after_the_pass_of_each_documented_letter(void **state) {
    (void)state;
    const char *known = documented();
    lines l;
    for (char c = 'A'; c <= 'Z'; c++) {
        char letter[2] = {c, 0};
        bool listed = strchr(known, c) != NULL;
        logged(NULL, letter, false, &l);
        if (l.n != 1 || count(&l, TOLK_LOG_WARNING) == listed)
            fail_msg("%c: %d messages, and docs/environment.md lists it: %d", c, l.n, listed);
        if (!listed)
            assert_non_null(strstr(l.text[0], "TOLK_DUMP"));
        if (listed) {
            assert_int_equal(l.level[0], TOLK_LOG_DEBUG); /* whatever TOLK_DEBUG is */
            is_dump(l.text[0], c == 'L' || c == 'I' || c == 'S');
        }
        drop(&l);
    }
}

/* All of them, given backwards and twice, print once each in the order of the documentation. */
static void test_TOLK_DUMP_prints_in_the_order_of_the_passes(void **state) {
    (void)state;
    const char *known = documented();
    char backwards[2 * LETTERS + 1] = "";
    size_t n = strlen(known);
    lines all, one;
    for (size_t i = 0; i < 2 * n; i++)
        backwards[i] = known[n - 1 - i % n];
    logged(NULL, backwards, false, &all);
    assert_int_equal(all.n, n);
    for (size_t i = 0; i < n; i++) {
        char letter[2] = {known[i], 0};
        logged(NULL, letter, false, &one);
        assert_int_equal(one.n, 1);
        assert_string_equal(all.text[i], one.text[0]);
        drop(&one);
    }
    drop(&all);
    logged(NULL, "xyz 19p", false, &all); /* no letter of a pass */
    assert_int_equal(all.n, 1);
    assert_int_equal(all.level[0], TOLK_LOG_WARNING);
    assert_non_null(strstr(all.text[0], "TOLK_DUMP=\"xyz 19p\""));
    drop(&all);
    logged(NULL, "", false, &all);
    assert_int_equal(all.n, 0);
}

static void test_no_environment_sees_neither(void **state) {
    (void)state;
    lines l;
    logged("9", "PL", true, &l);
    assert_int_equal(l.n, 0);
    logged("nonsense", "P", true, &l);
    assert_int_equal(l.n, 0);
}

/* Without a callback messages go to stderr, one line each. */
static int to_stderr(void *arg) {
    const char *path = arg;
    setenv("TOLK_DEBUG", "1", 1);
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    if (fd < 0 || dup2(fd, 2) < 0)
        return 1;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_disk_cache = 1;
    rt r = {.ctx = NULL};
    if (tolk_ctx_create(&o, &r.ctx, NULL) || tolk_device_open(r.ctx, "CPU", &r.cpu, NULL))
        return 2;
    tolk_program_unref(rt_compile(&r, rt_text(RT_SCALE, 10, "3")));
    rt_close(&r);
    char text[1000] = "";
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    const char *end = strchr(text, '\n');
    return n > 0 && strncmp(text, "tolk: info: ", 12) == 0 && strstr(text, "scale") && end &&
                   !end[1]
               ? 0
               : 3;
}

static void test_TOLK_DEBUG_without_a_callback_goes_to_stderr(void **state) {
    (void)state;
    char *dir = rt_mkdir();
    int code = tk_test_child(to_stderr, (void *)(uintptr_t)rt_text("%s/err", dir), 60);
    rt_rmdir(dir);
    assert_int_equal(code, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TOLK_DEBUG_0_and_unset_are_silent),
        cmocka_unit_test(test_TOLK_DEBUG_1_tells_what_happens),
        cmocka_unit_test(test_TOLK_DEBUG_from_2_on_tells_details),
        cmocka_unit_test(test_TOLK_DEBUG_that_is_no_level_is_warned_of_and_0),
        cmocka_unit_test(test_TOLK_DUMP_prints_after_the_pass_of_each_documented_letter),
        cmocka_unit_test(test_TOLK_DUMP_prints_in_the_order_of_the_passes),
        cmocka_unit_test(test_no_environment_sees_neither),
        cmocka_unit_test(test_TOLK_DEBUG_without_a_callback_goes_to_stderr),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
