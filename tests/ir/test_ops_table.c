/* SPDX-License-Identifier: MIT
 *
 * docs/ir.md holds the table that tools/standalone_ops_table.c makes from ops.def.
 */
#include "support/tk_test.h"

#define main ops_table_main
#include "../../tools/standalone_ops_table.c"
#undef main

#include <stdlib.h>

static void test_docs_hold_the_table_of_ops_def(void **state) {
    (void)state;
    char *made = NULL, *docs = NULL;
    size_t made_n, cap = 0;
    FILE *to = open_memstream(&made, &made_n);
    assert_non_null(to);
    print_table(to);
    assert_int_equal(fclose(to), 0);
    assert_non_null(strstr(made, "| `mulacc` | 3 | integers, floats |"));
    static const char *path;
    path = tk_test_source("docs/ir.md");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    ssize_t n = getdelim(&docs, &cap, 0, f);
    fclose(f);
    assert_true(n > 0);
    static const char begin[] = "<!-- ops begin -->\n";
    const char *at = strstr(docs, begin);
    assert_non_null(at);
    at += sizeof begin - 1;
    const char *end = strstr(at, "<!-- ops end -->\n");
    assert_non_null(end);
    if ((size_t)(end - at) != made_n || memcmp(at, made, made_n) != 0)
        fail_msg("docs/ir.md is behind ops.def: run build/tools/ops_table docs/ir.md (see there)");
    free(made);
    free(docs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_docs_hold_the_table_of_ops_def),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
