/* SPDX-License-Identifier: MIT
 *
 * Work that is shared out over several devices: shards and what is gathered from them, replicas,
 * sums within shards and over all devices; also with one device twice. In every way to run it.
 */
#include "realize/ways.h"

enum { WHOLE = 48, MOST = 4, COLUMNS = 4 };

/* What is written so far: nodes from 200 on. */
typedef struct writer {
    char text[16384], calls[1200];
    size_t n;
    int next, devices;
} writer;

__attribute__((format(printf, 2, 3))) static int emit(writer *w, const char *fmt, ...) {
    va_list ap;
    w->n += (size_t)snprintf(w->text + w->n, sizeof w->text - w->n, "%%%d = ", w->next);
    va_start(ap, fmt);
    w->n += (size_t)vsnprintf(w->text + w->n, sizeof w->text - w->n, fmt, ap);
    va_end(ap);
    assert_true(w->n < sizeof w->text);
    return w->next++;
}

static void add_call(writer *w, int call) {
    size_t n = strlen(w->calls);
    snprintf(w->calls + n, sizeof w->calls - n, "%s%%%d", n ? ", " : "", call);
}

static void copy(writer *w, int to, int from) {
    int body = emit(w, "copy i32 (%%%d) {device=\"CPU\"}\n", from);
    add_call(w, emit(w, "call void (%%%d, %%%d, %%%d)\n", body, to, from));
}

static int shard(writer *w, int of, int i) {
    return emit(w, "mselect i32 (%%%d) {index=%d}\n", of, i);
}

/* The same buffer, or one of each position, as several. */
static int stack_of(writer *w, const int *nodes) {
    char list[64] = "";
    for (int i = 0; i < w->devices; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%%%d", i ? ", " : "",
                 nodes[i]);
    return emit(w, "mstack i32 (%s)\n", list);
}

static const char *device_list(int devices, bool twice) {
    return twice ? "CPU,CPU" : devices == 2 ? "CPU,CPU:1" : "CPU,CPU:1,CPU:2,CPU:3";
}

/* %1 is the size of a shard, %2 of the whole, %3 of the rows of a shard. Kernels: %20 y = a + b,
 * %30 y = sum of a row of a, %40 y = a + b[0] + _device_num. */
static void begin(writer *w, int devices) {
    memset(w, 0, sizeof *w);
    w->devices = devices;
    w->next = 200;
    w->n = (size_t)snprintf(
        w->text, sizeof w->text,
        "tolk.uop 1\n"
        "%%1 = const index %d\n%%2 = const index %d\n%%3 = const index %d\n"
        "%%4 = const index %d\n%%5 = const index 1\n%%6 = const index 0\n"
        "%%7 = param i32 (%%1) {slot=0}\n%%8 = param i32 (%%1) {slot=1}\n"
        "%%9 = param i32 (%%1) {slot=2}\n%%10 = range index (%%1) {axis=0, kind=global}\n"
        "%%11 = index i32 (%%7, %%10)\n%%12 = index i32 (%%8, %%10)\n"
        "%%13 = index i32 (%%9, %%10)\n%%14 = load i32 (%%12)\n%%15 = load i32 (%%13)\n"
        "%%16 = add i32 (%%14, %%15)\n%%17 = store void (%%11, %%16)\n"
        "%%18 = end void (%%17, %%10)\n%%20 = sink void (%%18) {name=\"sum\"}\n"
        "%%21 = param i32 (%%3) {slot=0}\n%%22 = range index (%%3) {axis=0, kind=global}\n"
        "%%23 = range index (%%4) {axis=1, kind=reduce}\n%%24 = mul index (%%22, %%4)\n"
        "%%25 = add index (%%24, %%23)\n%%26 = index i32 (%%8, %%25)\n%%27 = load i32 (%%26)\n"
        "%%28 = reduce i32 (%%27, %%23) {op=add}\n%%29 = index i32 (%%21, %%22)\n"
        "%%31 = store void (%%29, %%28)\n%%32 = end void (%%31, %%22)\n"
        "%%30 = sink void (%%32) {name=\"rows\"}\n"
        "%%33 = param i32 (%%5) {slot=2}\n%%34 = index i32 (%%33, %%6)\n%%35 = load i32 (%%34)\n"
        "%%36 = param i32 {slot=3, name=\"_device_num\", space=alu, min=0, max=3}\n"
        "%%37 = add i32 (%%14, %%35)\n%%38 = add i32 (%%37, %%36)\n"
        "%%39 = store void (%%11, %%38)\n%%41 = end void (%%39, %%10)\n"
        "%%40 = sink void (%%41) {name=\"plus\"}\n",
        WHOLE / devices, WHOLE, WHOLE / devices / COLUMNS, COLUMNS);
}

static int buffer(writer *w, const char *size, int slot, const char *devices) {
    return devices ? emit(w, "buffer i32 (%s) {slot=%d, device=\"%s\"}\n", size, slot, devices)
                   : emit(w, "buffer i32 (%s) {slot=%d}\n", size, slot);
}

static int slice(writer *w, int of, int at, int count) {
    int offset = emit(w, "const index %d\n", at);
    return emit(w, "slice i32 (%%%d, %%%d) {count=%d}\n", of, offset, count);
}

/* The shards of x in slot 0, and what was made of them put together in slot 1. */
static void share_out(writer *w, int x, int m) {
    int each = WHOLE / w->devices;
    for (int i = 0; i < w->devices; i++)
        copy(w, shard(w, m, i), slice(w, x, i * each, each));
}
static void gather(writer *w, int y, int m, int each) {
    for (int i = 0; i < w->devices; i++)
        copy(w, slice(w, y, i * each, each), shard(w, m, i));
}

typedef void (*check_fn)(int devices, int round);
static void run_all(const writer *w, check_fn check) {
    for (way_kind k = 0; k < WAYS; k++) {
        way one;
        way_open(&one, k, w->text, w->calls, NULL);
        (void)seed(WHOLE, 1, NULL, -1, 0);
        (void)seed(1, 2, NULL, 1000, 0);
        for (int i = 0; i < 4; i++) {
            (void)seed(WHOLE, 0, NULL, i, 1);
            way_well(&one, NULL);
            check(w->devices, i);
        }
        way_close(&one);
    }
}

static const struct {
    int devices;
    bool twice;
} places[] = {{2, false}, {4, false}, {2, true}};
#define EACH_PLACE for (int p = 0; p < 3; p++)

static void check_round_trip(int devices, int round) {
    (void)devices;
    check_ints(bound(WHOLE, 1, NULL), round, 1);
}

static void test_shards_are_gathered_again(void **state) {
    (void)state;
    static writer w;
    EACH_PLACE {
        begin(&w, places[p].devices);
        int x = buffer(&w, "%2", 0, NULL), y = buffer(&w, "%2", 1, NULL);
        int m = buffer(&w, "%1", 3, device_list(places[p].devices, places[p].twice));
        share_out(&w, x, m);
        gather(&w, y, m, WHOLE / w.devices);
        run_all(&w, check_round_trip);
    }
}

static void check_sharded(int devices, int round) {
    int32_t y[WHOLE];
    read_ints(bound(WHOLE, 1, NULL), y, WHOLE);
    for (int i = 0; i < WHOLE; i++) /* 2 x + 1000 + the shard's number */
        assert_int_equal(y[i], 2 * (round + i) + 1000 + i / (WHOLE / devices));
}

/* Elements of shards, and an operand that all of them have. */
static void test_elements_of_shards_and_a_replica(void **state) {
    (void)state;
    static writer w;
    EACH_PLACE {
        const char *on = device_list(places[p].devices, places[p].twice);
        begin(&w, places[p].devices);
        int x = buffer(&w, "%2", 0, NULL), y = buffer(&w, "%2", 1, NULL);
        int c = buffer(&w, "%5", 2, NULL), m = buffer(&w, "%1", 3, on);
        int sum = buffer(&w, "%1", 4, on), all = buffer(&w, "%5", 5, on);
        int out = buffer(&w, "%1", 6, on);
        const int same[MOST] = {c, c, c, c};
        share_out(&w, x, m);
        copy(&w, all, stack_of(&w, same)); /* to each device */
        add_call(&w, emit(&w, "call void (%%20, %%%d, %%%d, %%%d)\n", sum, m, m));
        add_call(&w, emit(&w, "call void (%%40, %%%d, %%%d, %%%d)\n", out, sum, all));
        gather(&w, y, out, WHOLE / w.devices);
        run_all(&w, check_sharded);
    }
}

static void check_rows(int devices, int round) {
    int32_t y[WHOLE];
    (void)devices;
    read_ints(bound(WHOLE, 1, NULL), y, WHOLE);
    for (int i = 0; i < WHOLE; i++)
        assert_int_equal(y[i],
                         i < WHOLE / COLUMNS ? COLUMNS * round + COLUMNS * COLUMNS * i + 6 : -1);
}

/* A sum within each shard: its results are shards. */
static void test_sums_within_shards_stay_shards(void **state) {
    (void)state;
    static writer w;
    EACH_PLACE {
        const char *on = device_list(places[p].devices, places[p].twice);
        begin(&w, places[p].devices);
        int x = buffer(&w, "%2", 0, NULL), y = buffer(&w, "%2", 1, NULL);
        int m = buffer(&w, "%1", 3, on), rows = buffer(&w, "%3", 4, on);
        share_out(&w, x, m);
        add_call(&w, emit(&w, "call void (%%30, %%%d, %%%d)\n", rows, m));
        gather(&w, y, rows, WHOLE / w.devices / COLUMNS);
        run_all(&w, check_rows);
    }
}

static void check_all_reduced(int devices, int round) {
    int32_t y[WHOLE];
    int each = WHOLE / devices;
    read_ints(bound(WHOLE, 1, NULL), y, WHOLE);
    for (int i = 0; i < WHOLE; i++) { /* each shard is the sum of all of them */
        int sum = 0;
        for (int d = 0; d < devices; d++)
            sum += round + d * each + i % each;
        assert_int_equal(y[i], sum);
    }
}

/* Each device gets the sum of all shards: by copies of each shard to all devices. */
static void test_sums_over_all_devices(void **state) {
    (void)state;
    static writer w;
    EACH_PLACE {
        const char *on = device_list(places[p].devices, places[p].twice);
        begin(&w, places[p].devices);
        int x = buffer(&w, "%2", 0, NULL), y = buffer(&w, "%2", 1, NULL);
        int m = buffer(&w, "%1", 3, on),
            total[2] = {buffer(&w, "%1", 4, on), buffer(&w, "%1", 5, on)};
        int part = buffer(&w, "%1", 6, on), so_far = total[0];
        share_out(&w, x, m);
        for (int i = 0; i < w.devices; i++) {
            int one = shard(&w, m, i);
            const int same[MOST] = {one, one, one, one};
            copy(&w, i ? part : so_far, stack_of(&w, same));
            if (!i)
                continue;
            int next = total[i % 2];
            add_call(&w, emit(&w, "call void (%%20, %%%d, %%%d, %%%d)\n", next, so_far, part));
            so_far = next;
        }
        gather(&w, y, so_far, WHOLE / w.devices);
        run_all(&w, check_all_reduced);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_shards_are_gathered_again),
        TEST(test_elements_of_shards_and_a_replica),
        TEST(test_sums_within_shards_stay_shards),
        TEST(test_sums_over_all_devices),
    };
    return cmocka_run_group_tests_name("run_sharded", tests, NULL, NULL);
}
