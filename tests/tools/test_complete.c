/* SPDX-License-Identifier: MIT
 *
 * What Tab offers: the words that may stand at the cursor.
 */
#include "../../tools/tool.h"
#include "support/tk_test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/tolk-complete-XXXXXX";

/* All candidates at the end of a line, each with a comma behind. */
static const char *offers(const char *line, size_t *typed) {
    static char text[8192];
    char *out[64];
    size_t at = 0, n = tk_complete(line, strlen(line), out, 64, typed);
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%s,", out[i]);
        free(out[i]);
    }
    return text;
}

static void expect(const char *line, const char *want) {
    size_t typed;
    const char *got = offers(line, &typed);
    if (strcmp(got, want) != 0)
        fail_msg("\"%s\": \"%s\", expected \"%s\"", line, got, want);
}

static void test_commands(void **state) {
    (void)state;
    expect("ver", "verify,version,");
    expect(":ver", ":verify,:version,");
    expect("  sho", "show,");
    expect("xyz", "");
    expect("help ru", "run,");
    size_t typed;
    const char *all = offers("", &typed);
    for (size_t i = 0; tk_command_name(i); i++)
        assert_non_null(strstr(all, tk_command_name(i)));
    assert_non_null(strstr(all, "quit,"));
    assert_int_equal(typed, 0);
    (void)offers("run k.uop --re", &typed);
    assert_int_equal(typed, 4);
}

static void test_flags_and_their_values_are_those_of_the_help(void **state) {
    (void)state;
    expect("run k.uop --re", "--repeat,");
    expect(":run k.uop --re", "--repeat,");
    expect("verify k.uop --r", "--rounds,");
    expect("emit k.uop --emit=a", "--emit=asm,");
    expect("emit k.uop --emit=o", "--emit=obj,--emit=opt,");
    expect("run k.uop --bounds ", "check,trust,");
    expect("run k.uop --bounds t", "trust,");
    expect("run k.uop --device i", "interp,");
    expect("bogus --r", "");
    expect("fmt -", "--check,--drop-comments,--trusted,-i,");
    expect("cache ", "clear,stats,");
    expect(":cache s", "stats,"); /* and not the file scale.uop */
    expect("cache stats ", "");
    expect("cache stats --j", "--json,");
}

static void test_files_and_names(void **state) {
    (void)state;
    expect("run sc", "scale.uop,");
    expect("run sub/", "sub/deep.uop,");
    expect("run su", "sub/,");
    expect("run k --arg x=s", "x=scale.uop,x=sub/,");
    expect("run k --arg x=sub/d", "x=sub/deep.uop,");
    expect("run .h", ".hidden,");
    expect("run /nonexistent/", "");
    assert_int_equal(tk_session_begin(), TOOL_DONE);
    int64_t dims[] = {2};
    float data[2] = {1, 2};
    assert_int_equal(tk_session_keep_array("sums", TOLK_F32, 1, dims, data, sizeof data),
                     TOOL_DONE);
    expect("run k --arg x=s", "x=scale.uop,x=sub/,x=sums,");
    expect("show su", "sums,");
    expect("run su", "sub/,"); /* an array is no kernel */
    expect("save sums sc", "scale.uop,");
    assert_true(tk_session_drop("sums"));
    assert_false(tk_session_drop("sums"));
    expect("show su", "");
    tk_session_end();
}

/* Whatever is typed, and wherever the cursor is: nothing is read outside of the line. */
static void test_any_line(void **state) {
    (void)state;
    static const char *const words[] = {"run",     " ",        "  ", "--",  "-", "=",
                                        "x=",      "/",        "\\", "\"",  ":", "emit",
                                        "--emit=", "\xff\xfe", "%s", "show"};
    uint64_t seed = tk_test_seed();
    for (uint64_t i = tk_test_count(20000); i--;) {
        char line[128] = "", *out[8];
        for (int k = 0; k < 6; k++)
            strcat(line, words[tk_test_rand(&seed) % (sizeof words / sizeof *words)]);
        char *copy = strdup(line);
        size_t typed = 99, cursor = tk_test_rand(&seed) % (strlen(line) + 1);
        size_t n = tk_complete(copy, cursor, out, 8, &typed);
        assert_true(n <= 8 && typed <= cursor);
        for (size_t k = 0; k < n; k++) {
            assert_true(strlen(out[k]) >= typed);
            assert_memory_equal(out[k], copy + cursor - typed, typed);
            free(out[k]);
        }
        free(copy);
    }
}

static void make(const char *name) {
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fclose(f);
}

static int setup(void **state) {
    (void)state;
    if (!mkdtemp(dir) || chdir(dir) || mkdir("sub", 0700))
        return -1;
    make("scale.uop");
    make("sub/deep.uop");
    make(".hidden");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    unlink("scale.uop");
    unlink("sub/deep.uop");
    unlink(".hidden");
    rmdir("sub");
    return chdir("/") || rmdir(dir) ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_flags_and_their_values_are_those_of_the_help),
        cmocka_unit_test(test_files_and_names),
        cmocka_unit_test(test_any_line),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
