/* SPDX-License-Identifier: MIT */
#include "jit/cache_disk.h"

#include "base/env.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/strbuf.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A file: this header, the key, the bytes (from a multiple of 16). The checksum is over all that
 * follows it. */
typedef struct header {
    char magic[8];
    uint64_t check_lo, check_hi;
    uint64_t n_key, n_bytes;
} header;
static const char magic[8] = "tolk\0c1";
enum { CHECKED_FROM = 24, LARGEST_FILE = 1 << 28 };
_Static_assert(offsetof(header, n_key) == CHECKED_FROM, "the checksum covers what follows it");

#define TEMPORARY ".tmp"

/* ---- the directory ---- */

static void make_dirs(char *path) {
    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char c = *p;
        *p = 0;
        bool there = mkdir(path, 0700) == 0 || errno == EEXIST;
        *p = c;
        if (!there || !c)
            return;
    }
}

/* Is it a directory of ours that nobody else may write to? */
static bool trusted(tolk_ctx *ctx, const char *path) {
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISDIR(s.st_mode))
        return false;
    if (s.st_uid != geteuid() || (s.st_mode & 022)) {
        tk_log(ctx, TOLK_LOG_WARNING,
               "cache directory \"%s\" is not used: it must belong to this user and be writable by "
               "nobody else",
               path);
        return false;
    }
    return true;
}

static char *directory(tolk_ctx *ctx) {
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    const char *dir = ctx->cache_dir, *v;
    if (dir) {
        tk_strbuf_str(&sb, dir);
    } else if ((v = tk_env_get(ctx, "TOLK_CACHE_DIR"))) {
        tk_strbuf_str(&sb, v);
    } else if ((v = tk_env_get(ctx, "XDG_CACHE_HOME")) && *v == '/') {
        tk_strbuf_str(&sb, v);
        tk_strbuf_str(&sb, "/tolk");
    } else if ((v = tk_env_get(ctx, "HOME")) && *v == '/') {
        tk_strbuf_str(&sb, v);
        tk_strbuf_str(&sb, "/.cache/tolk");
    } else {
        return NULL;
    }
    while (sb.n > 1 && sb.at[sb.n - 1] == '/')
        sb.at[--sb.n] = 0;
    return tk_strbuf_take(&sb, NULL);
}

void tk_cache_disk_init(tk_cache_disk *d, tolk_ctx *ctx) {
    d->ctx = ctx;
    d->max_bytes = ctx->cache_bytes;
    atomic_init(&d->damaged, 0);
    atomic_init(&d->written_bytes, 0);
    d->dir = ctx->no_disk_cache ? NULL : directory(ctx);
    if (!d->dir)
        return;
    make_dirs(d->dir); /* whatever comes of it: one that is only readable still serves */
    if (!trusted(ctx, d->dir)) {
        tk_strbuf_text_free(&ctx->al, d->dir);
        d->dir = NULL;
    }
}

void tk_cache_disk_fini(tk_cache_disk *d) {
    if (d->ctx)
        tk_strbuf_text_free(&d->ctx->al, d->dir);
    d->dir = NULL;
}

static bool entry_path(const tk_cache_disk *d, const void *key, size_t n_key, char *path,
                       size_t bytes, size_t *dir_len) {
    tk_hash128 h = tk_hash128_bytes(key, n_key);
    int n = snprintf(path, bytes, "%s/%02x/%016llx%016llx.tolk", d->dir, (unsigned)(h.hi >> 56),
                     (unsigned long long)h.hi, (unsigned long long)h.lo);
    *dir_len = strlen(d->dir) + 3;
    return n > 0 && (size_t)n < bytes;
}

/* ---- reading ---- */

static bool read_all(int fd, void *to, size_t n) {
    for (char *p = to; n;) {
        ssize_t r = read(fd, p, n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return false;
        p += r;
        n -= (size_t)r;
    }
    return true;
}

static size_t padded(uint64_t n_key) {
    return (size_t)((sizeof(header) + n_key + 15) & ~(uint64_t)15);
}

/* The whole file, or NULL. Never waits: no FIFO, no link, no directory. */
static char *read_file(const tk_cache_disk *d, const char *path, size_t *len, bool *exists) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    *exists = fd >= 0 || errno != ENOENT;
    if (fd < 0)
        return NULL;
    struct stat s;
    char *file = NULL;
    if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
        s.st_size >= (off_t)sizeof(header) && s.st_size <= LARGEST_FILE) {
        *len = (size_t)s.st_size;
        file = tk_alloc(&d->ctx->al, *len);
        if (file && !read_all(fd, file, *len)) {
            tk_alloc_free(&d->ctx->al, file, *len);
            file = NULL;
        }
    }
    close(fd);
    return file;
}

bool tk_cache_disk_read(tk_cache_disk *d, const void *key, size_t n_key, char **out, size_t *len) {
    char path[4096];
    size_t dir_len, n;
    bool exists;
    if (!d->dir || !entry_path(d, key, n_key, path, sizeof path, &dir_len))
        return false;
    char *file = read_file(d, path, &n, &exists);
    bool good = false;
    header h;
    if (file) {
        memcpy(&h, file, sizeof h);
        good = memcmp(h.magic, magic, sizeof magic) == 0 && h.n_key == n_key && h.n_bytes <= n &&
               padded(n_key) + h.n_bytes == n && memcmp(file + sizeof h, key, n_key) == 0;
        if (good) {
            tk_hash128 sum = tk_hash128_bytes(file + CHECKED_FROM, n - CHECKED_FROM);
            good = sum.lo == h.check_lo && sum.hi == h.check_hi;
        }
    }
    if (good) {
        tk_strbuf sb;
        tk_strbuf_init(&sb, &d->ctx->al);
        tk_strbuf_bytes(&sb, file + padded(n_key), (size_t)h.n_bytes);
        *out = tk_strbuf_take(&sb, len);
        good = *out != NULL;
        utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW); /* used now; it may fail */
    } else if (exists) {
        atomic_fetch_add(&d->damaged, 1);
        tk_log(d->ctx, TOLK_LOG_INFO, "cache entry \"%s\" is not usable and will be replaced",
               path);
    }
    tk_alloc_free(&d->ctx->al, file, file ? n : 0);
    return good;
}

/* ---- keeping it small ---- */

typedef struct file_info {
    int64_t used_ns;
    uint64_t bytes;
    bool temporary; /* of a writer that is at it, or was killed */
    char name[48];  /* "xx/HASH.tolk" */
} file_info;

typedef TK_VEC(file_info) file_list;

static bool is_temporary(const char *name) {
    return strncmp(name, TEMPORARY, sizeof TEMPORARY - 1) == 0;
}

/* Every entry of the cache, and what writers have not renamed yet. */
static void list_files(const tk_cache_disk *d, file_list *out) {
    for (int shard = 0; shard < 256; shard++) {
        char path[4096];
        int n = snprintf(path, sizeof path, "%s/%02x", d->dir, shard);
        DIR *dir = n > 0 && n < (int)sizeof path ? opendir(path) : NULL;
        if (!dir)
            continue;
        for (struct dirent *e; (e = readdir(dir));) {
            struct stat s;
            file_info f;
            size_t len = strlen(e->d_name);
            bool temporary = is_temporary(e->d_name);
            if ((e->d_name[0] == '.' && !temporary) || len > 40 ||
                fstatat(dirfd(dir), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0)
                continue;
            snprintf(f.name, sizeof f.name, "%02x/%.44s", shard, e->d_name);
            f.used_ns = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec;
            f.temporary = temporary;
            f.bytes = S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
            if (!tk_vec_push(out, f))
                break;
        }
        closedir(dir);
    }
}

static bool remove_file(const tk_cache_disk *d, const char *name) {
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s", d->dir, name);
    if (n <= 0 || n >= (int)sizeof path)
        return false;
    if (unlink(path) == 0 || errno == ENOENT)
        return true;
    return errno == EISDIR && rmdir(path) == 0;
}

static int by_use(const void *pa, const void *pb) {
    const file_info *a = pa, *b = pb;
    return a->used_ns < b->used_ns ? -1 : a->used_ns > b->used_ns;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Remove what was used longest ago until the cache is a tenth below its bound. */
static void trim(tk_cache_disk *d) {
    file_list files;
    tk_vec_init(&files, &d->ctx->al);
    list_files(d, &files);
    uint64_t total = 0;
    int64_t now = now_ns();
    for (size_t i = 0; i < files.n; i++) {
        /* Nobody writes for an hour. */
        if (files.at[i].temporary && now - files.at[i].used_ns > 3600 * (int64_t)1000000000 &&
            remove_file(d, files.at[i].name))
            files.at[i].bytes = 0;
        total += files.at[i].bytes;
    }
    if (total > d->max_bytes) {
        qsort(files.at, files.n, sizeof *files.at, by_use);
        for (size_t i = 0; i < files.n && total > d->max_bytes - d->max_bytes / 10; i++)
            if (remove_file(d, files.at[i].name))
                total -= files.at[i].bytes;
    }
    tk_vec_fini(&files);
}

/* ---- writing ---- */

void tk_cache_disk_write(tk_cache_disk *d, const void *key, size_t n_key, const void *bytes,
                         size_t len) {
    char path[4096], temp[4096 + 32];
    size_t dir_len;
    if (!d->dir || !entry_path(d, key, n_key, path, sizeof path, &dir_len))
        return;
    size_t total = padded(n_key) + len;
    char *file = total <= LARGEST_FILE ? tk_alloc_zero(&d->ctx->al, total) : NULL;
    if (!file)
        return;
    header h = {.n_key = n_key, .n_bytes = len};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(file, &h, sizeof h);
    memcpy(file + sizeof h, key, n_key);
    memcpy(file + padded(n_key), bytes, len);
    tk_hash128 sum = tk_hash128_bytes(file + CHECKED_FROM, total - CHECKED_FROM);
    h.check_lo = sum.lo;
    h.check_hi = sum.hi;
    memcpy(file, &h, sizeof h);
    /* The shard's directory, then a file of its own name in it that becomes the entry. */
    path[dir_len] = 0;
    mkdir(path, 0700);
    path[dir_len] = '/';
    snprintf(temp, sizeof temp, "%.*s/" TEMPORARY "XXXXXX", (int)dir_len, path);
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd >= 0) {
        bool ok = tk_file_put(fd, file, total);
        ok = close(fd) == 0 && ok;
        if (ok && rename(temp, path) != 0) {
            /* Something else stands there; a directory must go first. */
            ok = rmdir(path) == 0 && rename(temp, path) == 0;
        }
        if (!ok)
            unlink(temp);
        uint64_t before = atomic_fetch_add(&d->written_bytes, total);
        /* Looking at every file is slow: do it after each sixteenth of the bound is written, and
         * for one in 16 of the entries that a process writes first. */
        uint64_t step = d->max_bytes / 16 + 1;
        if (before / step != (before + total) / step || (before == 0 && sum.lo % 16 == 0))
            trim(d);
    }
    tk_alloc_free(&d->ctx->al, file, total);
}

/* ---- public ---- */

void tk_cache_disk_stats(tk_cache_disk *d, tolk_cache_stats *out) {
    out->damaged = atomic_load(&d->damaged);
    if (!d->dir)
        return;
    snprintf(out->disk_dir, sizeof out->disk_dir, "%s", d->dir);
    file_list files;
    tk_vec_init(&files, &d->ctx->al);
    list_files(d, &files);
    for (size_t i = 0; i < files.n; i++) {
        out->disk_entries += !files.at[i].temporary;
        out->disk_bytes += files.at[i].bytes;
    }
    tk_vec_fini(&files);
}

tolk_status tk_cache_disk_clear(tk_cache_disk *d, tolk_error *err) {
    if (!d->dir)
        return TOLK_OK;
    file_list files;
    tk_vec_init(&files, &d->ctx->al);
    list_files(d, &files);
    size_t left = 0;
    for (size_t i = 0; i < files.n; i++)
        left += !remove_file(d, files.at[i].name);
    tk_vec_fini(&files);
    return left ? tk_status_fail(err, TOLK_E_IO, TK_NO_NODE,
                                 "%zu entries of the cache \"%.100s\" could not be removed", left,
                                 d->dir)
                : TOLK_OK;
}
