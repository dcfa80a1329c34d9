/* SPDX-License-Identifier: MIT
 *
 * The .npy reader and writer: every dtype, version and edge shape, and every kind of bad file.
 */
#include "support/tk_test.h"

#include "../../tools/npy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct bytes {
    unsigned char b[4096];
    size_t n;
} bytes;

/* A file with this dict as it stands (no padding unless given), then zero data. */
static bytes file_of(int version, const char *dict, size_t data_bytes) {
    bytes f = {.n = 0};
    size_t len = strlen(dict);
    memcpy(f.b, "\x93NUMPY", 6);
    f.b[6] = (unsigned char)version;
    f.b[7] = 0;
    f.b[8] = (unsigned char)(len & 255);
    f.b[9] = (unsigned char)(len >> 8);
    f.n = 10;
    if (version > 1) {
        f.b[10] = f.b[11] = 0;
        f.n = 12;
    }
    memcpy(f.b + f.n, dict, len);
    f.n += len;
    memset(f.b + f.n, 0, data_bytes);
    f.n += data_bytes;
    return f;
}

static void make_temp_dir(char *dir) {
    strcpy(dir, "/tmp/tolk-npy-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static void write_bytes(const char *path, const void *data, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_parse_each_dtype_and_version_reads_it(void **state) {
    (void)state;
    static const struct {
        const char *descr;
        tolk_dtype dtype;
    } rows[] = {
        {"|b1", TOLK_BOOL}, {"|i1", TOLK_I8},  {"<i2", TOLK_I16}, {"<i4", TOLK_I32},
        {"<i8", TOLK_I64},  {"|u1", TOLK_U8},  {"<u2", TOLK_U16}, {"<u4", TOLK_U32},
        {"<u8", TOLK_U64},  {"<f2", TOLK_F16}, {"<f4", TOLK_F32}, {"<f8", TOLK_F64},
        {"<u1", TOLK_U8},   {"=f4", TOLK_F32}, {">i1", TOLK_I8},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int version = 1; version <= 3; version++) {
            char dict[200], err[NPY_ERR_BYTES] = "";
            snprintf(dict, sizeof dict,
                     "{'descr': '%s', 'fortran_order': False, 'shape': (3, 4), }  \n",
                     rows[i].descr);
            bytes f = file_of(version, dict, 0);
            tk_npy_header h;
            if (!tk_npy_parse(f.b, f.n, &h, err))
                fail_msg("%s version %d: %s", rows[i].descr, version, err);
            assert_int_equal(h.dtype, rows[i].dtype);
            assert_int_equal(h.rank, 2);
            assert_int_equal(h.dims[0], 3);
            assert_int_equal(h.dims[1], 4);
            assert_int_equal(h.elems, 12);
            assert_int_equal(h.data_bytes, 12 * tolk_dtype_bytes(rows[i].dtype));
            assert_int_equal(h.data_offset, f.n);
        }
}

static void test_parse_edge_shapes_counts_right(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        int rank;
        uint64_t elems;
    } rows[] = {
        {"()", 0, 1},
        {"(0,)", 1, 0},
        {"(1,)", 1, 1},
        {"(5, 0, 7)", 3, 0},
        {"(2L, 3L)", 2, 6},
        {"(2,3,)", 2, 6},
        {"(65536, 65536)", 2, 4294967296u},
        {"(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)",
         64, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char dict[400], err[NPY_ERR_BYTES] = "";
        snprintf(dict, sizeof dict, "{\"shape\":%s,\"descr\":\"<f4\",\"fortran_order\":False}",
                 rows[i].shape);
        bytes f = file_of(1, dict, 0);
        tk_npy_header h;
        if (!tk_npy_parse(f.b, f.n, &h, err))
            fail_msg("%s: %s", rows[i].shape, err);
        assert_int_equal(h.rank, rows[i].rank);
        assert_int_equal(h.elems, rows[i].elems);
    }
}

static void test_parse_bad_header_says_why(void **state) {
    (void)state;
    static const struct {
        const char *dict, *says;
    } rows[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "big-endian"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "object arrays"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "structured"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "'<c8' is not supported"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", "not supported"},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (1,), }", "not supported"},
        {"{'descr': '<M8', 'fortran_order': False, 'shape': (1,), }", "not supported"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", "not supported"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }", "Fortran-order"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3), }", "neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "negative"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3), }", "not a tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 3, }", "expected '('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,), }", "expected a dimension"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", "expected ','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1e3,), }", "expected ','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", "2^63-1"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 2), }",
         "larger than"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
         "larger than"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 9223372036854775807, 9), }",
         "larger than"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,), }",
         "larger than"},
        {"{'descr': '<f4', 'shape': (1,), }", "'fortran_order' is missing"},
        {"{'fortran_order': False, 'shape': (1,), }", "'descr' is missing"},
        {"{'descr': '<f4', 'fortran_order': False}", "'shape' is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "repeated"},
        {"{'x': 1, 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "unknown key 'x'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "after the dict"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}", "expected ','"},
        {"{'descr': '<f4", "no closing quote"},
        {"{'descr", "no closing quote"},
        {"{'descr': '\\x3cf4'}", "unexpected character"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1", "it ends where"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,", "expected a dimension"},
        {"{", "expected a key"},
        {"", "'{' at the start was expected"},
        {"garbage", "expected '{'"},
        {"{1: 2}", "expected a key"},
        {"{'a\x1b[31m': 2}", "unknown key 'a?[31m'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes f = file_of(1, rows[i].dict, 0);
        char err[NPY_ERR_BYTES] = "";
        tk_npy_header h = {.rank = 77};
        assert_false(tk_npy_parse(f.b, f.n, &h, err));
        if (!strstr(err, rows[i].says))
            fail_msg("%s\n  says \"%s\", expected \"%s\"", rows[i].dict, err, rows[i].says);
        assert_null(strchr(err, '\n'));
        assert_int_equal(h.rank, 77);
    }
}

static void test_parse_rank_65_is_refused(void **state) {
    (void)state;
    char dict[400] = "{'descr': '<f4', 'fortran_order': False, 'shape': (", err[NPY_ERR_BYTES];
    for (int i = 0; i < 65; i++)
        strcat(dict, "1,");
    strcat(dict, ")}");
    bytes f = file_of(1, dict, 0);
    tk_npy_header h;
    assert_false(tk_npy_parse(f.b, f.n, &h, err));
    assert_non_null(strstr(err, "more than 64"));
}

static void test_parse_bad_prefix_says_why(void **state) {
    (void)state;
    char err[NPY_ERR_BYTES];
    tk_npy_header h;
    assert_false(tk_npy_parse("", 0, &h, err));
    assert_non_null(strstr(err, "not a .npy file"));
    assert_false(tk_npy_parse("\x93NUMPX\x01\x00\x02\x00{}", 12, &h, err));
    assert_non_null(strstr(err, "not a .npy file"));
    assert_false(tk_npy_parse("\x93NUMPY\x04\x00\x02\x00{}", 12, &h, err));
    assert_non_null(strstr(err, "version 4.0"));
    assert_false(tk_npy_parse("\x93NUMPY\x01\x01\x02\x00{}", 12, &h, err));
    assert_non_null(strstr(err, "version 1.1"));
    assert_false(tk_npy_parse("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12, &h, err));
    assert_non_null(strstr(err, "4294967295 bytes"));
    assert_false(tk_npy_parse("\x93NUMPY\x02\x00\x02\x00", 10, &h, err));
    assert_non_null(strstr(err, "ends inside"));
}

static void test_parse_every_cut_of_a_header_fails(void **state) {
    (void)state;
    bytes f = file_of(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }\n", 0);
    for (size_t n = 0; n < f.n; n++) {
        char err[NPY_ERR_BYTES] = "";
        tk_npy_header h;
        unsigned char *exact = malloc(n ? n : 1);
        assert_non_null(exact);
        memcpy(exact, f.b, n);
        assert_false(tk_npy_parse(exact, n, &h, err));
        assert_true(err[0] != 0);
        free(exact);
    }
}

static void test_load_wrong_length_is_refused(void **state) {
    (void)state;
    char dir[32], path[64], err[NPY_ERR_BYTES];
    make_temp_dir(dir);
    snprintf(path, sizeof path, "%s/a.npy", dir);
    static const size_t wrong[] = {0, 1, 11, 13, 16, 1000};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        bytes f =
            file_of(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", wrong[i]);
        write_bytes(path, f.b, f.n);
        tk_npy_array a;
        assert_false(tk_npy_load(path, &a, err));
        assert_non_null(strstr(err, "the header says 12 bytes of data (3 elements of f32)"));
    }
    bytes f = file_of(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", 12);
    write_bytes(path, f.b, f.n);
    tk_npy_array a;
    assert_true(tk_npy_load(path, &a, err));
    assert_int_equal(a.head.elems, 3);
    tk_npy_free(&a);
    unlink(path);
    rmdir(dir);
}

/* A header of 8 EiB must fail by comparison with the file, not by trying to allocate. */
static void test_load_lying_header_costs_no_memory(void **state) {
    (void)state;
    char dir[32], path[64], err[NPY_ERR_BYTES];
    make_temp_dir(dir);
    snprintf(path, sizeof path, "%s/a.npy", dir);
    bytes f = file_of(
        1, "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775807,), }\n", 5);
    write_bytes(path, f.b, f.n);
    tk_npy_array a;
    assert_false(tk_npy_load(path, &a, err));
    assert_non_null(strstr(err, "the file has 5"));
    unlink(path);

    /* The same through a pipe, whose length nobody knows. */
    assert_int_equal(mkfifo(path, 0600), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        FILE *out = fopen(path, "wb");
        if (out)
            fwrite(f.b, 1, f.n, out);
        _exit(!out || fclose(out));
    }
    assert_false(tk_npy_load(path, &a, err));
    assert_non_null(strstr(err, "truncated"));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(path);
    rmdir(dir);
}

static void test_load_from_pipe_reads_all(void **state) {
    (void)state;
    enum { N = 700001 }; /* more than the first growth step */
    char dir[32], path[64], err[NPY_ERR_BYTES];
    make_temp_dir(dir);
    snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    int32_t *data = malloc(N * sizeof *data);
    assert_non_null(data);
    for (int i = 0; i < N; i++)
        data[i] = i * 7;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(!tk_npy_save(path, TOLK_I32, 1, (int64_t[]){N}, data, err));
    tk_npy_array a;
    if (!tk_npy_load(path, &a, err))
        fail_msg("%s", err);
    assert_int_equal(a.head.elems, N);
    assert_memory_equal(a.data, data, N * sizeof *data);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    tk_npy_free(&a);
    free(data);
    unlink(path);
    rmdir(dir);
}

static void test_load_missing_or_odd_path_says_why(void **state) {
    (void)state;
    char err[NPY_ERR_BYTES];
    tk_npy_array a;
    assert_false(tk_npy_load("/nonexistent/x.npy", &a, err));
    assert_non_null(strstr(err, "cannot open: No such file"));
    assert_false(tk_npy_load("/tmp", &a, err));
    assert_non_null(strstr(err, "directory"));
    assert_false(tk_npy_load("/dev/null", &a, err));
    assert_non_null(strstr(err, "not a .npy file"));
    assert_false(tk_npy_load("/dev/zero", &a, err));
    assert_non_null(strstr(err, "not a .npy file"));
}

static void test_save_then_load_gives_the_same(void **state) {
    (void)state;
    char dir[32], path[64], err[NPY_ERR_BYTES];
    make_temp_dir(dir);
    snprintf(path, sizeof path, "%s/a.npy", dir);
    unsigned char data[24 * 8];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37);
    static const struct {
        int rank;
        int64_t dims[4];
    } shapes[] = {{0, {0}}, {1, {24}}, {2, {4, 6}}, {4, {2, 3, 1, 4}}, {1, {0}}, {3, {2, 0, 5}}};
    for (tolk_dtype dtype = TOLK_BOOL; dtype <= TOLK_F64; dtype++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            if (!tk_npy_save(path, dtype, shapes[s].rank, shapes[s].dims, data, err))
                fail_msg("%s: %s", tolk_dtype_name(dtype), err);
            tk_npy_array a;
            if (!tk_npy_load(path, &a, err))
                fail_msg("%s: %s", tolk_dtype_name(dtype), err);
            assert_true(tk_npy_accepts(a.head.dtype, dtype));
            assert_int_equal(a.head.dtype, tk_npy_carrier(dtype));
            assert_int_equal(a.head.data_offset % 64, 0);
            assert_int_equal(a.head.rank, shapes[s].rank);
            for (int i = 0; i < a.head.rank; i++)
                assert_int_equal(a.head.dims[i], shapes[s].dims[i]);
            assert_memory_equal(a.data, data, a.head.data_bytes);
            tk_npy_free(&a);
        }
    unlink(path);
    rmdir(dir);
}

/* The exact bytes that numpy.save(numpy.array([1.5, -2], 'f4')) writes. */
static void test_save_f32_matches_numpy_bytes(void **state) {
    (void)state;
    char dir[32], path[64], err[NPY_ERR_BYTES];
    make_temp_dir(dir);
    snprintf(path, sizeof path, "%s/a.npy", dir);
    float v[2] = {1.5f, -2};
    assert_true(tk_npy_save(path, TOLK_F32, 1, (int64_t[]){2}, v, err));
    unsigned char want[136], got[200];
    memset(want, ' ', sizeof want);
    memcpy(want, "\x93NUMPY\x01\x00\x76\x00", 10);
    static const char dict[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    memcpy(want + 10, dict, sizeof dict - 1);
    want[127] = '\n';
    memcpy(want + 128, "\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof got, f), sizeof want);
    fclose(f);
    assert_memory_equal(got, want, sizeof want);
    unlink(path);
    rmdir(dir);
}

static void test_save_refuses_what_has_no_form(void **state) {
    (void)state;
    char err[NPY_ERR_BYTES];
    int64_t huge[] = {INT64_MAX, 2}, negative[] = {-1};
    float v = 0;
    assert_false(tk_npy_save("/tmp/never.npy", TOLK_INDEX, 0, NULL, &v, err));
    assert_non_null(strstr(err, "index"));
    assert_false(tk_npy_save("/tmp/never.npy", TOLK_F32, 2, huge, &v, err));
    assert_false(tk_npy_save("/tmp/never.npy", TOLK_F32, 1, negative, &v, err));
    assert_false(tk_npy_save("/tmp/never.npy", TOLK_F32, 65, huge, &v, err));
    assert_false(tk_npy_save("/nonexistent/x.npy", TOLK_F32, 0, NULL, &v, err));
    assert_non_null(strstr(err, "cannot write"));
    assert_false(tk_npy_save("/tmp", TOLK_F32, 0, NULL, &v, err));
    assert_non_null(strstr(err, "directory"));
}

/* A write that fails half way leaves the older file whole and no litter. */
static void test_save_that_fails_keeps_the_old_file(void **state) {
    (void)state;
    char dir[32], path[64], err[NPY_ERR_BYTES];
    make_temp_dir(dir);
    snprintf(path, sizeof path, "%s/a.npy", dir);
    float old[2] = {1, 2};
    assert_true(tk_npy_save(path, TOLK_F32, 1, (int64_t[]){2}, old, err));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        static char big[100000];
        struct rlimit limit = {4096, 4096}; /* bytes a file may have */
        setrlimit(RLIMIT_FSIZE, &limit);
        signal(SIGXFSZ, SIG_IGN);
        _exit(tk_npy_save(path, TOLK_U8, 1, (int64_t[]){sizeof big}, big, err) ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    tk_npy_array a;
    assert_true(tk_npy_load(path, &a, err));
    assert_int_equal(a.head.elems, 2);
    assert_memory_equal(a.data, old, sizeof old);
    tk_npy_free(&a);
    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* fails if a temporary file is left */
}

static void test_save_through_a_link_keeps_the_link(void **state) {
    (void)state;
    char dir[32], path[64], link_path[64], err[NPY_ERR_BYTES];
    make_temp_dir(dir);
    snprintf(path, sizeof path, "%s/a.npy", dir);
    snprintf(link_path, sizeof link_path, "%s/link.npy", dir);
    float v = 1;
    assert_true(tk_npy_save(path, TOLK_F32, 0, NULL, &v, err));
    assert_int_equal(symlink(path, link_path), 0);
    v = 5;
    assert_true(tk_npy_save(link_path, TOLK_F32, 0, NULL, &v, err));
    struct stat st;
    assert_int_equal(lstat(link_path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    tk_npy_array a;
    assert_true(tk_npy_load(path, &a, err));
    assert_true(*(float *)a.data == 5);
    tk_npy_free(&a);
    unlink(link_path);
    unlink(path);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_each_dtype_and_version_reads_it),
        cmocka_unit_test(test_parse_edge_shapes_counts_right),
        cmocka_unit_test(test_parse_bad_header_says_why),
        cmocka_unit_test(test_parse_rank_65_is_refused),
        cmocka_unit_test(test_parse_bad_prefix_says_why),
        cmocka_unit_test(test_parse_every_cut_of_a_header_fails),
        cmocka_unit_test(test_load_wrong_length_is_refused),
        cmocka_unit_test(test_load_lying_header_costs_no_memory),
        cmocka_unit_test(test_load_from_pipe_reads_all),
        cmocka_unit_test(test_load_missing_or_odd_path_says_why),
        cmocka_unit_test(test_save_then_load_gives_the_same),
        cmocka_unit_test(test_save_f32_matches_numpy_bytes),
        cmocka_unit_test(test_save_refuses_what_has_no_form),
        cmocka_unit_test(test_save_that_fails_keeps_the_old_file),
        cmocka_unit_test(test_save_through_a_link_keeps_the_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
