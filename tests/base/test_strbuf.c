/* SPDX-License-Identifier: MIT */
#include "base/strbuf.h"

#include "support/tk_test.h"

#include <string.h>

static void test_appends_join(void **state) {
    (void)state;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &tk_alloc_malloc);
    tk_strbuf_str(&sb, "a=");
    tk_strbuf_i64(&sb, INT64_MIN);
    tk_strbuf_char(&sb, ' ');
    tk_strbuf_u64(&sb, UINT64_MAX);
    tk_strbuf_bytes(&sb, " xyz", 2);
    tk_strbuf_hex(&sb, 0xdeadbeef);
    tk_strbuf_fmt(&sb, " %s/%d", "b", -5);
    tk_strbuf_i64(&sb, 0);
    tk_strbuf_hex(&sb, 0);
    size_t len;
    char *text = tk_strbuf_take(&sb, &len);
    assert_string_equal(text, "a=-9223372036854775808 18446744073709551615 x0xdeadbeef b/-500x0");
    assert_int_equal(len, strlen(text));
    tk_strbuf_text_free(&tk_alloc_malloc, text);
}

static void test_take_of_nothing_is_the_empty_text(void **state) {
    (void)state;
    tk_test_heap heap;
    tk_test_heap_init(&heap);
    tk_strbuf sb;
    tk_strbuf_init(&sb, &heap.al);
    size_t len = 9;
    char *text = tk_strbuf_take(&sb, &len);
    assert_string_equal(text, "");
    assert_int_equal(len, 0);
    tk_strbuf_text_free(&heap.al, text);
    tk_strbuf_text_free(&heap.al, NULL);
    assert_int_equal(heap.live, 0);
    assert_false(heap.bad_size);
}

static void test_bytes_with_nul_are_kept(void **state) {
    (void)state;
    tk_strbuf sb;
    tk_strbuf_init(&sb, &tk_alloc_malloc);
    tk_strbuf_bytes(&sb, "a\0b", 3);
    assert_int_equal(sb.n, 3);
    assert_memory_equal(sb.at, "a\0b", 4);
    tk_strbuf_fini(&sb);
}

static tolk_status fill(const tolk_allocator *al, void *user) {
    (void)user;
    tk_strbuf sb;
    tk_strbuf_init(&sb, al);
    for (int i = 0; i < 100; i++)
        tk_strbuf_fmt(&sb, "line %d of many\n", i);
    bool failed = sb.failed;
    char *text = tk_strbuf_take(&sb, NULL);
    /* No text that lacks a part is ever handed out. */
    assert_int_equal(text == NULL, failed);
    assert_true(!text || strlen(text) == 10 * 15 + 90 * 16);
    tk_strbuf_text_free(al, text);
    tk_strbuf_fini(&sb);
    return failed ? TOLK_E_NOMEM : TOLK_OK;
}

static void test_append_without_memory_gives_no_text(void **state) {
    (void)state;
    assert_true(tk_test_oom(fill, NULL) > 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_appends_join),
        cmocka_unit_test(test_take_of_nothing_is_the_empty_text),
        cmocka_unit_test(test_bytes_with_nul_are_kept),
        cmocka_unit_test(test_append_without_memory_gives_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
