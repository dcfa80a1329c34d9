/* SPDX-License-Identifier: MIT
 *
 * Hooks: who is called when, what a failure does, clears within clears. Test names carry the
 * numbers of the behaviour list that this layer is built to.
 */
#include "realize/hooks.h"

#include "base/alloc.h"
#include "base/status.h"
#include "support/tk_test.h"

#include <pthread.h>
#include <string.h>

static tk_hooks *h;
static char trace[256]; /* a letter for each call */

static int setup(void **state) {
    (void)state;
    trace[0] = 0;
    return tk_hooks_create(&tk_alloc_malloc, &h, NULL) != TOLK_OK;
}

static int teardown(void **state) {
    (void)state;
    tk_hooks_destroy(h);
    return 0;
}

static tolk_status note(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)event, (void)err;
    strcat(trace, user);
    return TOLK_OK;
}

static tolk_status fails(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)event;
    strcat(trace, user);
    return tk_status_fail(err, TOLK_E_IO, TK_NO_NODE, "hook %s", (const char *)user);
}

static uint64_t add(tolk_hook_kind kind, tolk_hook_fn fn, const char *letter) {
    uint64_t id = 0;
    assert_int_equal(tk_hooks_add(h, kind, fn, (void *)(uintptr_t)letter, &id, NULL), TOLK_OK);
    assert_true(id > 0);
    return id;
}

static tolk_status clear_all(tolk_error *err) {
    const tolk_hook_event event = {.kind = TOLK_HOOK_CLEAR_ALL};
    return tk_hooks_notify(h, &event, err);
}

typedef struct seen {
    const char *framework[4];
    uint32_t ordinal[4];
    uint64_t uid[4];
    size_t n;
} seen;

static tolk_status see(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)err;
    seen *s = user;
    s->framework[s->n] = event->framework;
    s->ordinal[s->n] = event->ordinal;
    s->uid[s->n++] = event->uid;
    return TOLK_OK;
}

static void test_S11_device_destroy_gets_framework_and_ordinal_in_order(void **state) {
    (void)state;
    seen s = {.n = 0};
    uint64_t id;
    assert_int_equal(tk_hooks_add(h, TOLK_HOOK_DEVICE_DESTROY, see, &s, &id, NULL), TOLK_OK);
    add(TOLK_HOOK_CLEAR_ALL, note, "a");
    const tolk_hook_event cpu = {TOLK_HOOK_DEVICE_DESTROY, "CPU", 1, 7, 0},
                          gpu = {TOLK_HOOK_DEVICE_DESTROY, "CUDA", 1, 3, 0};
    assert_int_equal(tk_hooks_notify(h, &cpu, NULL), TOLK_OK);
    assert_int_equal(tk_hooks_notify(h, &gpu, NULL), TOLK_OK);
    assert_int_equal(s.n, 2);
    assert_string_equal(s.framework[0], "CPU");
    assert_string_equal(s.framework[1], "CUDA");
    assert_int_equal(s.ordinal[0], 1);
    assert_int_equal(s.uid[0], 7);
    assert_int_equal(s.uid[1], 3);
    assert_string_equal(trace, "");
}

static void test_S12_all_are_called_where_one_fails(void **state) {
    (void)state;
    add(TOLK_HOOK_CLEAR_ALL, note, "a");
    add(TOLK_HOOK_CLEAR_ALL, fails, "b");
    add(TOLK_HOOK_CLEAR_ALL, fails, "c");
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(clear_all(&err), TOLK_E_IO);
    assert_string_equal(err.msg, "hook b");
    assert_string_equal(trace, "abc");
}

static tolk_status body(void *user, tolk_error *err) {
    (void)err;
    strcat(trace, user);
    return TOLK_OK;
}

static tolk_status bad_body(void *user, tolk_error *err) {
    strcat(trace, user);
    return tk_status_fail(err, TOLK_E_RANGE, TK_NO_NODE, "the body");
}

static tolk_status nested(void *user, tolk_error *err) {
    strcat(trace, "(");
    tolk_status st = tk_hooks_around_clear(h, body, user, err);
    strcat(trace, ")");
    return st;
}

static void test_S13_around_clear_notifies_before_and_behind(void **state) {
    (void)state;
    add(TOLK_HOOK_CLEAR_ALL, note, "a");
    assert_int_equal(tk_hooks_around_clear(h, body, "B", NULL), TOLK_OK);
    assert_string_equal(trace, "aBa");
}

static void test_S13_nested_clears_notify_twice_in_all(void **state) {
    (void)state;
    add(TOLK_HOOK_CLEAR_ALL, note, "a");
    assert_int_equal(tk_hooks_around_clear(h, nested, "B", NULL), TOLK_OK);
    assert_string_equal(trace, "a(B)a");
    trace[0] = 0;
    assert_int_equal(tk_hooks_around_clear(h, body, "B", NULL), TOLK_OK);
    assert_string_equal(trace, "aBa");
}

static tk_hooks *other;

static tolk_status other_body(void *user, tolk_error *err) {
    return tk_hooks_around_clear(other, body, user, err);
}

static void test_S13_hooks_of_another_context_are_another_clear(void **state) {
    (void)state;
    uint64_t id;
    assert_int_equal(tk_hooks_create(&tk_alloc_malloc, &other, NULL), TOLK_OK);
    assert_int_equal(tk_hooks_add(other, TOLK_HOOK_CLEAR_ALL, note, "o", &id, NULL), TOLK_OK);
    add(TOLK_HOOK_CLEAR_ALL, note, "a");
    assert_int_equal(tk_hooks_around_clear(h, other_body, "B", NULL), TOLK_OK);
    assert_string_equal(trace, "aoBoa");
    tk_hooks_destroy(other);
}

static void *clear_on_thread(void *arg) {
    (void)arg;
    return (void *)(uintptr_t)(tk_hooks_around_clear(h, body, "T", NULL) != TOLK_OK);
}

static tolk_status with_thread(void *user, tolk_error *err) {
    (void)user, (void)err;
    pthread_t t;
    void *failed;
    assert_int_equal(pthread_create(&t, NULL, clear_on_thread, NULL), 0);
    pthread_join(t, &failed);
    assert_null(failed);
    return TOLK_OK;
}

static void test_S13_another_thread_still_notifies(void **state) {
    (void)state;
    add(TOLK_HOOK_CLEAR_ALL, note, "a");
    assert_int_equal(tk_hooks_around_clear(h, with_thread, NULL, NULL), TOLK_OK);
    assert_string_equal(trace, "aaTaa");
}

static void test_S13_body_runs_where_a_hook_fails(void **state) {
    (void)state;
    add(TOLK_HOOK_CLEAR_ALL, fails, "a");
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_hooks_around_clear(h, body, "B", &err), TOLK_E_IO);
    assert_string_equal(err.msg, "hook a");
    assert_string_equal(trace, "aBa");
}

static void test_S13_failure_of_the_body_comes_first(void **state) {
    (void)state;
    add(TOLK_HOOK_CLEAR_ALL, fails, "a");
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_hooks_around_clear(h, bad_body, "B", &err), TOLK_E_RANGE);
    assert_string_equal(err.msg, "the body");
    assert_string_equal(trace, "aBa");
}

static uint64_t mine;

static tolk_status adds(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)event, (void)err;
    strcat(trace, user);
    add(TOLK_HOOK_CLEAR_ALL, note, "n");
    return TOLK_OK;
}

static tolk_status removes_itself(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)event;
    strcat(trace, user);
    return tk_hooks_remove(h, mine, err);
}

static void test_hooks_that_change_the_list_hold_up_nothing(void **state) {
    (void)state;
    uint64_t a = add(TOLK_HOOK_CLEAR_ALL, adds, "a");
    mine = add(TOLK_HOOK_CLEAR_ALL, removes_itself, "r");
    assert_int_equal(clear_all(NULL), TOLK_OK);
    assert_string_equal(trace, "ar"); /* what was added waits for the next event */
    assert_int_equal(tk_hooks_remove(h, a, NULL), TOLK_OK);
    trace[0] = 0;
    assert_int_equal(clear_all(NULL), TOLK_OK);
    assert_string_equal(trace, "n");
}

static void test_remove_unknown_is_not_found(void **state) {
    (void)state;
    tolk_error err = TOLK_ERROR_INIT;
    uint64_t a = add(TOLK_HOOK_RECLAIM, note, "a"), b = add(TOLK_HOOK_RECLAIM, note, "b");
    assert_int_equal(tk_hooks_remove(h, b, NULL), TOLK_OK);
    assert_int_equal(tk_hooks_remove(h, b, &err), TOLK_E_NOT_FOUND);
    assert_int_equal(tk_hooks_remove(h, 0, &err), TOLK_E_NOT_FOUND);
    assert_int_equal(tk_hooks_remove(h, a, NULL), TOLK_OK);
    add(TOLK_HOOK_CLEAR_ALL, note, "c"); /* behind a list that had become empty */
    assert_int_equal(clear_all(NULL), TOLK_OK);
    assert_string_equal(trace, "c");
}

static void test_add_wrong_arguments(void **state) {
    (void)state;
    uint64_t id = 5;
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(tk_hooks_add(h, TOLK_HOOK_RECLAIM, NULL, NULL, &id, &err), TOLK_E_ARG);
    assert_int_equal(tk_hooks_add(h, TOLK_HOOK_RECLAIM, note, NULL, NULL, &err), TOLK_E_ARG);
    assert_int_equal(tk_hooks_add(h, (tolk_hook_kind)9, note, NULL, &id, &err), TOLK_E_ARG);
    assert_int_equal(id, 5);
}

static tolk_status silent(void *user, const tolk_hook_event *event, tolk_error *err) {
    (void)user, (void)event, (void)err;
    return TOLK_E_BUSY;
}

static void test_failure_without_a_message_has_one(void **state) {
    (void)state;
    add(TOLK_HOOK_CLEAR_ALL, silent, "");
    tolk_error err = TOLK_ERROR_INIT;
    assert_int_equal(clear_all(&err), TOLK_E_BUSY);
    assert_int_equal(err.code, TOLK_E_BUSY);
    assert_string_equal(err.msg, "object is in use");
}

static tolk_status in_memory(const tolk_allocator *al, void *user) {
    (void)user;
    tk_hooks *hooks;
    uint64_t id;
    const tolk_hook_event event = {.kind = TOLK_HOOK_CLEAR_ALL};
    TK_TRY(tk_hooks_create(al, &hooks, NULL));
    tolk_status st = tk_hooks_add(hooks, TOLK_HOOK_CLEAR_ALL, note, "", &id, NULL);
    if (st == TOLK_OK)
        st = tk_hooks_add(hooks, TOLK_HOOK_CLEAR_ALL, note, "", &id, NULL);
    if (st == TOLK_OK) /* takes no memory, so it cannot fail for it */
        assert_int_equal(tk_hooks_notify(hooks, &event, NULL), TOLK_OK);
    tk_hooks_destroy(hooks);
    return st;
}

static void test_out_of_memory(void **state) {
    (void)state;
    assert_int_equal(tk_test_oom(in_memory, NULL), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_S11_device_destroy_gets_framework_and_ordinal_in_order),
        TEST(test_S12_all_are_called_where_one_fails),
        TEST(test_S13_around_clear_notifies_before_and_behind),
        TEST(test_S13_nested_clears_notify_twice_in_all),
        TEST(test_S13_hooks_of_another_context_are_another_clear),
        TEST(test_S13_another_thread_still_notifies),
        TEST(test_S13_body_runs_where_a_hook_fails),
        TEST(test_S13_failure_of_the_body_comes_first),
        TEST(test_hooks_that_change_the_list_hold_up_nothing),
        TEST(test_remove_unknown_is_not_found),
        TEST(test_add_wrong_arguments),
        TEST(test_failure_without_a_message_has_one),
        TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
