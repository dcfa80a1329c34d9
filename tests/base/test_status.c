/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include "support/tk_test.h"

#include <string.h>

static void test_name_and_text_of_every_status(void **state) {
    (void)state;
#define ROW(name, value, text)                                                                     \
    assert_int_equal(name, value);                                                                 \
    assert_string_equal(tolk_status_name(name), #name);                                            \
    assert_string_equal(tolk_status_text(name), text);
    TOLK_STATUS_MAP(ROW)
#undef ROW
}

static void test_name_and_text_of_no_status_are_not_null(void **state) {
    (void)state;
    for (int v = 26; v < 2000; v += 97) {
        assert_non_null(tolk_status_name((tolk_status)v));
        assert_non_null(tolk_status_text((tolk_status)v));
    }
}

static void test_fail_fills_every_field(void **state) {
    (void)state;
    tolk_error err;
    memset(&err, 0xee, sizeof err);
    assert_int_equal(tk_status_fail(&err, TOLK_E_SHAPE, 17, "%d and %s", 3, "four"), TOLK_E_SHAPE);
    assert_int_equal(err.code, TOLK_E_SHAPE);
    assert_int_equal(err.node, 17);
    assert_int_equal(err.line + err.column, 0);
    assert_string_equal(err.msg, "3 and four");
    assert_int_equal(tk_status_fail_at(&err, TOLK_E_PARSE, 4, 9, "here"), TOLK_E_PARSE);
    assert_int_equal(err.node, TK_NO_NODE);
    assert_int_equal(err.line, 4);
    assert_int_equal(err.column, 9);
    assert_int_equal(tk_status_nomem(&err), TOLK_E_NOMEM);
    assert_int_equal(err.code, TOLK_E_NOMEM);
    assert_int_equal(err.line, 0);
}

static void test_fail_without_error_only_returns(void **state) {
    (void)state;
    assert_int_equal(tk_status_fail(NULL, TOLK_E_IO, 0, "%d", 1), TOLK_E_IO);
    assert_int_equal(tk_status_nomem(NULL), TOLK_E_NOMEM);
}

/* Whatever is in a name or a path, a message is one line of UTF-8. */
static void test_fail_message_is_utf8(void **state) {
    (void)state;
    tolk_error err;
    tk_status_fail(&err, TOLK_E_ARG, 0, "\"%s\" %.3s", "a\xff\n\xc3(\xed\xa0\x80", "bc\xc3\xa4");
    assert_string_equal(err.msg, "\"a??"
                                 "?(??"
                                 "?\" bc?");
    tk_status_fail(&err, TOLK_E_ARG, 0, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_string_equal(err.msg, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
}

/* A message that is too long never ends inside a character. */
static void test_fail_long_message_is_cut_between_characters(void **state) {
    (void)state;
    char text[600];
    for (size_t ascii = 0; ascii < 4; ascii++) {
        memset(text, 'a', ascii);
        for (size_t i = ascii; i + 3 < sizeof text; i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4); /* the euro sign */
        tolk_error err;
        tk_status_fail(&err, TOLK_E_ARG, 0, "%s", text);
        size_t n = strlen(err.msg);
        assert_in_range(n, sizeof err.msg - 5, sizeof err.msg - 1);
        assert_int_equal((n - ascii) % 3, 0);
        assert_memory_equal(err.msg, text, n);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_name_and_text_of_every_status),
        cmocka_unit_test(test_name_and_text_of_no_status_are_not_null),
        cmocka_unit_test(test_fail_fills_every_field),
        cmocka_unit_test(test_fail_without_error_only_returns),
        cmocka_unit_test(test_fail_message_is_utf8),
        cmocka_unit_test(test_fail_long_message_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
