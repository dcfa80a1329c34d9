/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include "support/tk_test.h"

#include <string.h>

/* Keys are stored on disk, so the function must be XXH3 itself: its published values for no input.
 */
static void test_bytes_of_nothing_is_xxh3(void **state) {
    (void)state;
    tk_hash128 h = tk_hash128_bytes("", 0);
    assert_true(h.lo == 0x6001c324468d497f && h.hi == 0x99aa06d3014798d8);
    assert_true(tk_hash64_bytes("", 0) == 0x2d06800538d394c2);
}

static void test_bytes_every_flipped_bit_changes_both_halves(void **state) {
    (void)state;
    unsigned char text[64];
    uint64_t seed = tk_test_seed();
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (unsigned char)tk_test_rand(&seed);
    tk_hash128 h = tk_hash128_bytes(text, sizeof text);
    for (size_t bit = 0; bit < 8 * sizeof text; bit++) {
        text[bit / 8] ^= (unsigned char)(1 << bit % 8);
        tk_hash128 g = tk_hash128_bytes(text, sizeof text);
        assert_true(g.lo != h.lo && g.hi != h.hi);
        text[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void test_mix_is_a_bijection_on_a_sample(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 300; i++)
        for (uint64_t k = i + 1; k < 300; k++)
            assert_true(tk_hash_mix(i) != tk_hash_mix(k));
    assert_true(tk_hash_combine(1, 2) != tk_hash_combine(2, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_nothing_is_xxh3),
        cmocka_unit_test(test_bytes_every_flipped_bit_changes_both_halves),
        cmocka_unit_test(test_mix_is_a_bijection_on_a_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
