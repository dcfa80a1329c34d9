/* SPDX-License-Identifier: MIT
 *
 * Distances between words, and which names are offered.
 */
#include "support/tk_test.h"

#include "base/near.h"

#include <stdint.h>
#include <string.h>

static size_t distance(const char *a, const char *b) {
    size_t d = tk_near_distance(a, strlen(a), b, strlen(b));
    assert_int_equal(tk_near_distance(b, strlen(b), a, strlen(a)), d);
    return d;
}

static void test_near_distance_counts_edits(void **state) {
    (void)state;
    assert_int_equal(distance("", ""), 0);
    assert_int_equal(distance("mul", "mul"), 0);
    assert_int_equal(distance("", "mul"), 3);
    assert_int_equal(distance("mull", "mul"), 1);
    assert_int_equal(distance("mlu", "mul"), 1); /* two neighbours */
    assert_int_equal(distance("ml", "mul"), 1);
    assert_int_equal(distance("max", "mul"), 2);
    assert_int_equal(distance("kitten", "sitting"), 3);
    char word[33];
    memset(word, 'a', sizeof word);
    assert_int_equal(tk_near_distance(word, 31, word, 31), 0);
    assert_true(tk_near_distance(word, 32, word, 32) == SIZE_MAX);
    assert_true(tk_near_distance(word, 1, word, 32) == SIZE_MAX);
}

static void offers(const char *word, const char *expected) {
    static const char *const names[] = {"add",   "mul",    "max",   "sub",
                                        "range", "reduce", "cmplt", "cmpne"};
    char text[64];
    tk_near near = tk_near_start(word, strlen(word));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        tk_near_try(&near, names[i]);
    assert_string_equal(tk_near_text(&near, text, sizeof text), expected);
}

static void test_near_offers_the_nearest(void **state) {
    (void)state;
    offers("mull", " (did you mean mul?)");
    offers("rnage", " (did you mean range?)");
    offers("reduction", "");
    offers("cmple", " (did you mean cmplt or cmpne?)");
    offers("mux", " (did you mean mul or max?)");
    offers("xy", "");
    offers("", "");
    offers("frobnicate", "");
    char small[10];
    tk_near near = tk_near_start("mull", 4);
    tk_near_try(&near, "mul");
    assert_string_equal(tk_near_text(&near, small, sizeof small), " (did you");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near_distance_counts_edits),
        cmocka_unit_test(test_near_offers_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
