/* SPDX-License-Identifier: MIT */
#include "npy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One row per dtype that a file can hold. */
static const struct {
    char kind;
    uint8_t bytes;
    tolk_dtype dtype;
} formats[] = {
    {'b', 1, TOLK_BOOL}, {'i', 1, TOLK_I8},  {'i', 2, TOLK_I16}, {'i', 4, TOLK_I32},
    {'i', 8, TOLK_I64},  {'u', 1, TOLK_U8},  {'u', 2, TOLK_U16}, {'u', 4, TOLK_U32},
    {'u', 8, TOLK_U64},  {'f', 2, TOLK_F16}, {'f', 4, TOLK_F32}, {'f', 8, TOLK_F64},
};

enum { N_FORMATS = sizeof formats / sizeof *formats, PREFIX_BYTES = 8 };

static int fail(char *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int fail(char *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err, NPY_ERR_BYTES, fmt, ap);
    va_end(ap);
    for (char *p = err; *p; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p == 127)
            *p = '?'; /* bytes of the file must not break the line or the terminal */
    return 0;
}

/* ---- the header's dict: a small strict reader of the Python literal that NumPy writes ---- */

typedef struct cursor {
    const char *p, *end;
    char *err;
} cursor;

static void skip_space(cursor *c) {
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
        c->p++;
}

static int at(cursor *c, char ch) {
    skip_space(c);
    return c->p < c->end && *c->p == ch;
}

static int eat(cursor *c, char ch) {
    if (!at(c, ch))
        return 0;
    c->p++;
    return 1;
}

static int expect(cursor *c, char ch, const char *where) {
    if (eat(c, ch))
        return 1;
    if (c->p == c->end)
        return fail(c->err, "bad .npy header: it ends where '%c' %s was expected", ch, where);
    return fail(c->err, "bad .npy header: expected '%c' %s, found '%c'", ch, where, *c->p);
}

/* A string literal without escapes (no name or dtype of ours has one). */
static int read_string(cursor *c, const char **s, size_t *len, const char *what) {
    skip_space(c);
    if (c->p == c->end || (*c->p != '\'' && *c->p != '"'))
        return fail(c->err, "bad .npy header: expected %s as a string", what);
    char quote = *c->p++;
    *s = c->p;
    while (c->p < c->end && *c->p != quote) {
        if (*c->p == '\\' || *c->p == '\n')
            return fail(c->err, "bad .npy header: unexpected character in %s", what);
        c->p++;
    }
    if (c->p == c->end)
        return fail(c->err, "bad .npy header: %s has no closing quote", what);
    *len = (size_t)(c->p - *s);
    c->p++;
    return 1;
}

static int read_word(cursor *c, const char *word) {
    skip_space(c);
    size_t n = strlen(word);
    if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
        return 0;
    c->p += n;
    return 1;
}

static int read_dim(cursor *c, int64_t *out) {
    skip_space(c);
    if (c->p < c->end && *c->p == '-')
        return fail(c->err, "bad .npy header: a dimension is negative");
    if (c->p == c->end || *c->p < '0' || *c->p > '9')
        return fail(c->err, "bad .npy header: expected a dimension in 'shape'");
    int64_t v = 0;
    for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; c->p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->p - '0', &v))
            return fail(c->err, "bad .npy header: a dimension is above 2^63-1");
    if (c->p < c->end && *c->p == 'L')
        c->p++; /* NumPy under Python 2 wrote its long integers so */
    *out = v;
    return 1;
}

static int read_shape(cursor *c, tk_npy_header *h) {
    if (!expect(c, '(', "before the shape"))
        return 0;
    h->rank = 0;
    int comma = 1;
    while (!at(c, ')')) {
        if (!comma)
            return expect(c, ',', "between dimensions");
        if (h->rank == NPY_MAX_RANK)
            return fail(c->err, "bad .npy header: more than %d dimensions", NPY_MAX_RANK);
        if (!read_dim(c, &h->dims[h->rank]))
            return 0;
        h->rank++;
        comma = eat(c, ',');
    }
    if (h->rank == 1 && !comma)
        return fail(c->err, "bad .npy header: the shape is a number, not a tuple");
    c->p++;
    return 1;
}

static int read_descr(cursor *c, tk_npy_header *h) {
    if (at(c, '['))
        return fail(c->err, "structured arrays are not supported: expected one plain dtype");
    const char *s;
    size_t len;
    if (!read_string(c, &s, &len, "'descr'"))
        return 0;
    int shown = len < 24 ? (int)len : 24;
    if (len >= 2 && s[0] == '|' && s[1] == 'O')
        return fail(c->err, "object arrays are not supported (dtype '%.*s')", shown, s);
    if (len == 3 && s[2] >= '1' && s[2] <= '8') {
        for (size_t i = 0; i < N_FORMATS; i++) {
            if (formats[i].kind != s[1] || formats[i].bytes != s[2] - '0')
                continue;
            if (s[0] == '>' && formats[i].bytes > 1)
                return fail(c->err,
                            "big-endian arrays are not supported (dtype '%.*s'): expected "
                            "'<%c%d'",
                            shown, s, formats[i].kind, formats[i].bytes);
            if (s[0] != '<' && s[0] != '=' && s[0] != '>' &&
                !(s[0] == '|' && formats[i].bytes == 1))
                break;
            h->dtype = formats[i].dtype;
            return 1;
        }
    }
    return fail(c->err, "dtype '%.*s' is not supported: expected bool, i1-i8, u1-u8, f2, f4 or f8",
                shown, s);
}

static int read_dict(cursor *c, tk_npy_header *h) {
    enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
    unsigned seen = 0;
    int fortran = 0, comma = 1;
    if (!expect(c, '{', "at the start"))
        return 0;
    while (!at(c, '}')) {
        if (!comma)
            return expect(c, ',', "between the entries");
        const char *key;
        size_t len;
        if (!read_string(c, &key, &len, "a key") || !expect(c, ':', "after a key"))
            return 0;
        unsigned bit = 0;
        if (len == 5 && !memcmp(key, "descr", 5)) {
            bit = DESCR;
            if (!read_descr(c, h))
                return 0;
        } else if (len == 13 && !memcmp(key, "fortran_order", 13)) {
            bit = ORDER;
            if (read_word(c, "True"))
                fortran = 1;
            else if (!read_word(c, "False"))
                return fail(c->err, "bad .npy header: 'fortran_order' is neither True nor False");
        } else if (len == 5 && !memcmp(key, "shape", 5)) {
            bit = SHAPE;
            if (!read_shape(c, h))
                return 0;
        } else {
            return fail(c->err, "bad .npy header: unknown key '%.*s'", len < 24 ? (int)len : 24,
                        key);
        }
        if (seen & bit)
            return fail(c->err, "bad .npy header: key '%.*s' is repeated", (int)len, key);
        seen |= bit;
        comma = eat(c, ',');
    }
    c->p++;
    skip_space(c);
    if (c->p != c->end)
        return fail(c->err, "bad .npy header: unexpected text after the dict");
    if (seen != (DESCR | ORDER | SHAPE))
        return fail(c->err, "bad .npy header: key '%s' is missing",
                    !(seen & DESCR)   ? "descr"
                    : !(seen & ORDER) ? "fortran_order"
                                      : "shape");
    if (fortran && h->rank > 1)
        return fail(c->err, "Fortran-order arrays are not supported: expected C order "
                            "(numpy.ascontiguousarray)");
    return 1;
}

/* Elements and bytes. A zero dimension makes the array empty, but the others must still multiply
 * to a size that exists, as in NumPy: a header that says otherwise is a lie. */
static int count(tk_npy_header *h, char *err) {
    int64_t bytes = (int64_t)tolk_dtype_bytes(h->dtype);
    int empty = 0;
    for (int i = 0; i < h->rank; i++) {
        if (h->dims[i] == 0)
            empty = 1;
        else if (__builtin_mul_overflow(bytes, h->dims[i], &bytes))
            return fail(err, "bad .npy header: the array is larger than 2^63-1 bytes");
    }
    h->data_bytes = empty ? 0 : (uint64_t)bytes;
    h->elems = h->data_bytes / tolk_dtype_bytes(h->dtype);
    return 1;
}

uint64_t tk_npy_header_bytes(const void *bytes, size_t n, char *err) {
    const uint8_t *b = bytes;
    if (n < PREFIX_BYTES + 2 || memcmp(b, "\x93NUMPY", 6) != 0) {
        fail(err, "not a .npy file: it does not begin with \"\\x93NUMPY\"");
        return 0;
    }
    if (b[6] < 1 || b[6] > 3 || b[7] != 0) {
        fail(err, "unknown .npy format version %d.%d: expected 1.0, 2.0 or 3.0", b[6], b[7]);
        return 0;
    }
    uint64_t len = (uint64_t)b[8] | (uint64_t)b[9] << 8;
    uint64_t start = PREFIX_BYTES + 2;
    if (b[6] > 1) {
        start = PREFIX_BYTES + 4;
        if (n < start) {
            fail(err, "bad .npy header: the file ends inside it");
            return 0;
        }
        len |= (uint64_t)b[10] << 16 | (uint64_t)b[11] << 24;
    }
    if (len > NPY_MAX_HEADER_BYTES) {
        fail(err, "bad .npy header: it claims %" PRIu64 " bytes, the limit is %d", len,
             NPY_MAX_HEADER_BYTES);
        return 0;
    }
    return start + len;
}

int tk_npy_parse(const void *bytes, size_t n, tk_npy_header *out, char *err) {
    uint64_t total = tk_npy_header_bytes(bytes, n, err);
    if (!total)
        return 0;
    if (total > n)
        return fail(err, "bad .npy header: the file ends inside it");
    const uint8_t *b = bytes;
    const char *text = (const char *)bytes;
    tk_npy_header h = {.data_offset = total};
    cursor c = {text + PREFIX_BYTES + (b[6] == 1 ? 2 : 4), text + total, err};
    if (!read_dict(&c, &h) || !count(&h, err))
        return 0;
    *out = h;
    return 1;
}

/* ---- files ---- */

/* Bytes read, fewer than n only at the end of the file; -1 and errno on failure. */
static ssize_t read_full(int fd, void *to, size_t n) {
    size_t done = 0;
    while (done < n) {
        size_t part = n - done < (1u << 30) ? n - done : 1u << 30;
        ssize_t got = read(fd, (char *)to + done, part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static void *read_header(int fd, tk_npy_header *h, char *err) {
    char *buf = malloc(PREFIX_BYTES + 4);
    if (!buf) {
        fail(err, "out of memory");
        return NULL;
    }
    /* A version 1 header has its length in 10 bytes and at least two more in "{}". */
    ssize_t got = read_full(fd, buf, PREFIX_BYTES + 4);
    if (got < 0) {
        fail(err, "cannot read: %s", strerror(errno));
        goto bad;
    }
    uint64_t total = tk_npy_header_bytes(buf, (size_t)got, err);
    if (!total)
        goto bad;
    if (total > (uint64_t)got) {
        char *more = realloc(buf, total);
        if (!more) {
            fail(err, "out of memory");
            goto bad;
        }
        buf = more;
        ssize_t rest = read_full(fd, buf + got, total - (uint64_t)got);
        if (rest < 0) {
            fail(err, "cannot read: %s", strerror(errno));
            goto bad;
        }
        got += rest;
    }
    if (!tk_npy_parse(buf, (size_t)got, h, err))
        goto bad;
    if ((uint64_t)got > h->data_offset) {
        /* Only a dict shorter than 2 bytes could leave data here, and it would not have parsed. */
        fail(err, "bad .npy header: it is too short");
        goto bad;
    }
    return buf;
bad:
    free(buf);
    return NULL;
}

/* Is the file at its end? */
static int at_end(int fd, uint64_t n, char *err) {
    char extra;
    if (read_full(fd, &extra, 1) == 0)
        return 1;
    return fail(err, "the header says %" PRIu64 " bytes of data, the file has more", n);
}

/* Read the data of a regular file, whose length is known to fit. Aligned for vectors. */
static void *read_known(int fd, uint64_t n, char *err) {
    void *buf = aligned_alloc(64, n / 64 * 64 + 64);
    if (!buf) {
        fail(err, "out of memory for %" PRIu64 " bytes", n);
        return NULL;
    }
    ssize_t got = read_full(fd, buf, n);
    if (got < 0)
        fail(err, "cannot read: %s", strerror(errno));
    else if ((uint64_t)got < n)
        fail(err, "truncated: the header says %" PRIu64 " bytes of data, the file has %zd", n, got);
    else if (at_end(fd, n, err))
        return buf;
    free(buf);
    return NULL;
}

/* Read the data of a pipe. Memory grows as the bytes arrive, so that a lying header cannot ask for
 * more than there is. */
static void *read_unknown(int fd, uint64_t n, char *err) {
    uint64_t cap = n < (1u << 20) ? n : 1u << 20, done = 0;
    char *buf = malloc(cap ? cap : 1);
    while (buf) {
        ssize_t got = read_full(fd, buf + done, cap - done);
        if (got < 0) {
            fail(err, "cannot read: %s", strerror(errno));
            free(buf);
            return NULL;
        }
        done += (uint64_t)got;
        if (done < cap) {
            fail(err, "truncated: the header says %" PRIu64 " bytes of data, the file has %" PRIu64,
                 n, done);
            free(buf);
            return NULL;
        }
        if (cap == n) {
            if (at_end(fd, n, err))
                return buf;
            free(buf);
            return NULL;
        }
        cap = n - cap < cap ? n : cap * 2;
        char *more = realloc(buf, cap);
        if (!more)
            free(buf);
        buf = more;
    }
    fail(err, "out of memory for %" PRIu64 " bytes", n);
    return NULL;
}

int tk_npy_load(const char *path, tk_npy_array *out, char *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail(err, "cannot open: %s", strerror(errno));
    struct stat st;
    if (fstat(fd, &st)) {
        close(fd);
        return fail(err, "cannot read: %s", strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        close(fd);
        return fail(err, "cannot read: it is a directory");
    }
    tk_npy_header h;
    void *head = read_header(fd, &h, err);
    void *data = NULL;
    if (head) {
        uint64_t have = (uint64_t)st.st_size - h.data_offset; /* used for regular files only */
        if (S_ISREG(st.st_mode) && have != h.data_bytes)
            fail(err,
                 "the header says %" PRIu64 " bytes of data (%" PRIu64
                 " elements of %s), the file has %" PRIu64,
                 h.data_bytes, h.elems, tolk_dtype_name(h.dtype), have);
        else
            data = S_ISREG(st.st_mode) ? read_known(fd, h.data_bytes, err)
                                       : read_unknown(fd, h.data_bytes, err);
    }
    free(head);
    close(fd);
    if (!data)
        return 0;
    out->head = h;
    out->data = data;
    return 1;
}

void tk_npy_free(tk_npy_array *a) {
    free(a->data);
    a->data = NULL;
}

tolk_dtype tk_npy_carrier(tolk_dtype dtype) {
    switch (dtype) {
    case TOLK_BF16:
        return TOLK_U16;
    case TOLK_FP8E4M3:
    case TOLK_FP8E5M2:
        return TOLK_U8;
    default:
        return dtype;
    }
}

int tk_npy_accepts(tolk_dtype file, tolk_dtype param) {
    return file == tk_npy_carrier(param);
}

static int write_full(int fd, const void *from, uint64_t n) {
    const char *p = from;
    while (n) {
        ssize_t put = write(fd, p, n < (1u << 30) ? n : 1u << 30);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return 0;
        p += put;
        n -= (uint64_t)put;
    }
    return 1;
}

/* The header as NumPy writes it: padded so that the data starts at a multiple of 64. */
static size_t format_header(char *to, size_t cap, char kind, int bytes, int rank,
                            const int64_t *dims) {
    char *text = to + PREFIX_BYTES + 2;
    size_t room = cap - PREFIX_BYTES - 2;
    size_t n = (size_t)snprintf(text, room,
                                "{'descr': '%c%c%d', 'fortran_order': False, "
                                "'shape': (",
                                bytes == 1 ? '|' : '<', kind, bytes);
    for (int i = 0; i < rank; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%" PRId64, i ? ", " : "", dims[i]);
    n += (size_t)snprintf(text + n, room - n, "%s), }", rank == 1 ? "," : "");
    while ((PREFIX_BYTES + 2 + n + 1) % 64)
        text[n++] = ' ';
    text[n++] = '\n';
    memcpy(to, "\x93NUMPY\x01\x00", PREFIX_BYTES);
    to[PREFIX_BYTES] = (char)(n & 255);
    to[PREFIX_BYTES + 1] = (char)(n >> 8);
    return PREFIX_BYTES + 2 + n;
}

/* Open what `path` shall become: the file itself if it is no regular one, else a new file beside
 * it, whose name is left in *temp and its final name (links followed) in *final. */
static int open_target(const char *path, char **temp, char **final, char *err) {
    struct stat st;
    *temp = *final = NULL;
    if (!stat(path, &st)) {
        if (S_ISDIR(st.st_mode))
            return fail(err, "cannot write: it is a directory") - 1;
        if (!S_ISREG(st.st_mode)) {
            int fd = open(path, O_WRONLY | O_CLOEXEC);
            return fd >= 0 ? fd : fail(err, "cannot write: %s", strerror(errno)) - 1;
        }
        if (access(path, W_OK))
            return fail(err, "cannot write: %s", strerror(errno)) - 1;
        *final = realpath(path, NULL);
    } else {
        *final = strdup(path);
    }
    *temp = *final ? malloc(strlen(*final) + 12) : NULL;
    if (!*temp)
        return fail(err, "out of memory") - 1;
    sprintf(*temp, "%s.tmpXXXXXX", *final);
    int fd = mkostemp(*temp, O_CLOEXEC);
    if (fd < 0) {
        fail(err, "cannot write: %s", strerror(errno));
        free(*temp);
        *temp = NULL;
        return -1;
    }
    mode_t mask = umask(0);
    umask(mask);
    if (fchmod(fd, 0666 & ~mask)) {
        /* The file is only less shared than usual. */
    }
    return fd;
}

int tk_npy_save(const char *path, tolk_dtype dtype, int rank, const int64_t *dims, const void *data,
                char *err) {
    tolk_dtype carrier = tk_npy_carrier(dtype);
    size_t f = 0;
    while (f < N_FORMATS && formats[f].dtype != carrier)
        f++;
    if (f == N_FORMATS)
        return fail(err, "dtype %s has no form in .npy files", tolk_dtype_name(dtype));
    tk_npy_header h = {.dtype = carrier, .rank = rank};
    if (rank < 0 || rank > NPY_MAX_RANK)
        return fail(err, "rank %d: expected 0 to %d", rank, NPY_MAX_RANK);
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return fail(err, "dimension %d is negative", i);
        h.dims[i] = dims[i];
    }
    if (!count(&h, err))
        return 0;

    char head[2048];
    size_t head_bytes =
        format_header(head, sizeof head, formats[f].kind, formats[f].bytes, rank, dims);
    char *temp, *final;
    int fd = open_target(path, &temp, &final, err);
    int ok = fd >= 0;
    if (ok && (!write_full(fd, head, head_bytes) || !write_full(fd, data, h.data_bytes)))
        ok = fail(err, "cannot write: %s", strerror(errno));
    if (fd >= 0 && close(fd) && ok)
        ok = fail(err, "cannot write: %s", strerror(errno));
    if (ok && temp && rename(temp, final))
        ok = fail(err, "cannot write: %s", strerror(errno));
    if (!ok && temp)
        unlink(temp);
    free(temp);
    free(final);
    return ok;
}
