/* SPDX-License-Identifier: MIT
 *
 * The disk cache from inside: whatever stands in its directory is a hit that is right, or a miss.
 */
#include "jit/cache_disk.h"

#include "support/runtime.h"

#include "base/strbuf.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

static const char key[] = "the whole key of a kernel";
static const char bytes_in[] = "the bytes of a kernel, which are not many but some";

static char *dir;
static tolk_ctx *ctx;
static tk_cache_disk disk;
static _Atomic int logged;

static void count_log(void *user, tolk_log_level level, const char *text) {
    (void)user, (void)level, (void)text;
    logged++;
}

static void open_dir(const char *path, uint64_t limit) {
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.cache_dir = path;
    o.cache_bytes = limit;
    o.log = count_log;
    assert_int_equal(tolk_ctx_create(&o, &ctx, NULL), TOLK_OK);
    tk_cache_disk_init(&disk, ctx);
}

static void close_dir(void) {
    tk_cache_disk_fini(&disk);
    tolk_ctx_destroy(ctx);
}

static int setup(void **state) {
    (void)state;
    dir = rt_mkdir();
    open_dir(dir, 0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    close_dir();
    rt_rmdir(dir);
    return 0;
}

/* 1: a hit with these bytes; 0: a miss. */
static int hit(const char *k, size_t n_k, const void *want, size_t n) {
    char *out = NULL;
    size_t len = 0;
    if (!tk_cache_disk_read(&disk, k, n_k, &out, &len))
        return 0;
    assert_int_equal(len, n);
    assert_memory_equal(out, want, n);
    tk_strbuf_text_free(&ctx->al, out);
    return 1;
}

static int is_hit(void) {
    return hit(key, sizeof key, bytes_in, sizeof bytes_in);
}

static void put(void) {
    tk_cache_disk_write(&disk, key, sizeof key, bytes_in, sizeof bytes_in);
}

/* The path of the only entry. */
static char *entry_path(void) {
    static char path[1024];
    for (int shard = 0; shard < 256; shard++) {
        snprintf(path, sizeof path, "%s/%02x", dir, shard);
        DIR *d = opendir(path);
        for (struct dirent *e; d && (e = readdir(d));)
            if (e->d_name[0] != '.') {
                snprintf(path, sizeof path, "%s/%02x/%.200s", dir, shard, e->d_name);
                closedir(d);
                return path;
            }
        if (d)
            closedir(d);
    }
    fail_msg("no entry");
    return NULL;
}

static size_t read_whole(const char *path, char *to, size_t most) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(to, 1, most, f);
    fclose(f);
    return n;
}

static void write_whole(const char *path, const char *from, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(from, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_write_then_read_is_the_same(void **state) {
    (void)state;
    assert_false(is_hit());
    put();
    assert_true(is_hit());
    put();
    assert_true(is_hit());
    /* no bytes, an empty key, keys that differ in their length alone */
    tk_cache_disk_write(&disk, "", 0, "", 0);
    assert_true(hit("", 0, "", 0));
    tk_cache_disk_write(&disk, "\0", 1, "a", 1);
    assert_true(hit("", 0, "", 0));
    assert_true(hit("\0", 1, "a", 1));
    assert_false(hit("\0\0", 2, "", 0));
    tolk_cache_stats stats = {0};
    tk_cache_disk_stats(&disk, &stats);
    assert_int_equal(stats.disk_entries, 3);
    assert_int_equal(stats.damaged, 0);
    assert_string_equal(stats.disk_dir, dir);
    assert_int_equal(tk_cache_disk_clear(&disk, NULL), TOLK_OK);
    assert_false(is_hit());
}

static void test_DISK_01_every_byte_flipped_and_every_length_is_a_miss(void **state) {
    (void)state;
    put();
    char *path = entry_path(), whole[4096], damaged[4096];
    size_t n = read_whole(path, whole, sizeof whole);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(damaged, whole, n);
            damaged[i] ^= (char)(1 << bit);
            write_whole(path, damaged, n);
            if (is_hit())
                fail_msg("byte %zu, bit %d: a hit", i, bit);
        }
    for (size_t len = 0; len < n; len++) {
        write_whole(path, whole, len);
        assert_false(is_hit());
    }
    memcpy(damaged, whole, n);
    damaged[n] = 0;
    write_whole(path, damaged, n + 1);
    assert_false(is_hit());
    tolk_cache_stats stats = {0};
    tk_cache_disk_stats(&disk, &stats);
    assert_int_equal(stats.damaged, n * 9 + 1);
    put(); /* replaced */
    assert_true(is_hit());
}

static void test_DISK_01_directory_link_fifo_in_its_place_is_a_miss(void **state) {
    (void)state;
    put();
    char *path = entry_path();
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(is_hit());
    put();
    assert_true(is_hit()); /* an empty directory goes */
    unlink(path);
    assert_int_equal(symlink(path, path), 0);
    assert_false(is_hit());
    put();
    assert_true(is_hit());
    unlink(path);
    assert_int_equal(symlink("/dev/zero", path), 0);
    assert_false(is_hit());
    put();
    assert_true(is_hit());
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20); /* a reader of a FIFO would wait for ever */
    assert_false(is_hit());
    put();
    alarm(0);
    assert_true(is_hit());
    /* a directory with something in it stays, and costs nothing but time */
    unlink(path);
    char inner[1100];
    snprintf(inner, sizeof inner, "%s/x", path);
    assert_int_equal(mkdir(path, 0700), 0);
    write_whole(inner, "x", 1);
    put();
    assert_false(is_hit());
}

static void test_DISK_07_another_keys_file_is_a_miss(void **state) {
    (void)state;
    put();
    char whole[4096], mine[1024];
    snprintf(mine, sizeof mine, "%s", entry_path());
    size_t n = read_whole(mine, whole, sizeof whole);
    assert_int_equal(tk_cache_disk_clear(&disk, NULL), TOLK_OK);
    tk_cache_disk_write(&disk, "another", 7, "other bytes", 11);
    char *path = entry_path();
    write_whole(path, whole, n);
    assert_false(hit("another", 7, "other bytes", 11));
    assert_false(is_hit());
}

static void test_bound_old_entries_go_first_and_what_is_used_stays(void **state) {
    (void)state;
    close_dir();
    open_dir(dir, 100000);
    char *big = calloc(1, 4000);
    assert_non_null(big);
    put();
    for (int i = 0; i < 200; i++) {
        char k[16];
        int n = snprintf(k, sizeof k, "key %d", i);
        tk_cache_disk_write(&disk, k, (size_t)n, big, 4000);
        assert_true(is_hit()); /* used all the time */
        rt_sleep(0.0005);
    }
    tolk_cache_stats stats = {0};
    tk_cache_disk_stats(&disk, &stats);
    assert_true(stats.disk_bytes <= 110000);
    assert_true(stats.disk_entries >= 15);
    assert_true(hit("key 199", 7, big, 4000)); /* the newest */
    assert_false(hit("key 0", 5, big, 4000));
    free(big);
}

static void test_files_of_killed_writers_do_not_count_and_go(void **state) {
    (void)state;
    put();
    char temp[1100];
    snprintf(temp, sizeof temp, "%s", entry_path());
    strcpy(strrchr(temp, '/'), "/.tmpabcdef");
    write_whole(temp, "half", 4);
    tolk_cache_stats stats = {0};
    tk_cache_disk_stats(&disk, &stats);
    assert_int_equal(stats.disk_entries, 1);
    assert_int_equal(tk_cache_disk_clear(&disk, NULL), TOLK_OK);
    assert_int_not_equal(access(temp, F_OK), 0);
    /* old ones go when the directory is looked through */
    write_whole(temp, "half", 4);
    struct timespec old[2] = {{1000000, 0}, {1000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, temp, old, 0), 0);
    close_dir();
    open_dir(dir, 1);
    put();
    assert_int_not_equal(access(temp, F_OK), 0);
}

static void test_limit_on_file_size_nothing_is_written_and_nobody_dies(void **state) {
    (void)state;
    struct rlimit old, none;
    getrlimit(RLIMIT_FSIZE, &old);
    none = old;
    none.rlim_cur = 20;
    setrlimit(RLIMIT_FSIZE, &none);
    put(); /* SIGXFSZ would end the test */
    setrlimit(RLIMIT_FSIZE, &old);
    assert_false(is_hit());
    put();
    assert_true(is_hit());
}

static void test_directories_that_others_may_write_are_refused(void **state) {
    (void)state;
    close_dir();
    static const mode_t modes[] = {0777, 0720, 0702, 01777};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(chmod(dir, modes[i]), 0);
        int before = logged;
        open_dir(dir, 0);
        assert_null(disk.dir);
        assert_true(logged > before); /* and says so */
        put();
        assert_false(is_hit());
        assert_int_equal(tk_cache_disk_clear(&disk, NULL), TOLK_OK);
        close_dir();
    }
    assert_int_equal(chmod(dir, 0700), 0);
    /* what is no directory, and what cannot be made */
    char path[1100];
    snprintf(path, sizeof path, "%s/file", dir);
    write_whole(path, "x", 1);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", i < 2 ? dir : "/proc",
                 i == 0   ? "/file"
                 : i == 1 ? "/file/below"
                          : "/nothing/here");
        open_dir(path, 0);
        assert_null(disk.dir);
        put();
        close_dir();
    }
    /* made with its parents, mode 0700, slashes at its end dropped */
    snprintf(path, sizeof path, "%s/a/b//c///", dir);
    open_dir(path, 0);
    put();
    assert_true(is_hit());
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
    close_dir();
    open_dir(dir, 0);
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_write_then_read_is_the_same),
        CASE(test_DISK_01_every_byte_flipped_and_every_length_is_a_miss),
        CASE(test_DISK_01_directory_link_fifo_in_its_place_is_a_miss),
        CASE(test_DISK_07_another_keys_file_is_a_miss),
        CASE(test_bound_old_entries_go_first_and_what_is_used_stays),
        CASE(test_files_of_killed_writers_do_not_count_and_go),
        CASE(test_limit_on_file_size_nothing_is_written_and_nobody_dies),
        CASE(test_directories_that_others_may_write_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
