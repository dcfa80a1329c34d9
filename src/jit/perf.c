/* SPDX-License-Identifier: MIT
 *
 * Nothing is ever taken out of these files: code that is dropped and code that takes its place have
 * different times in the dump; in the map, which has no times, perf takes a later line.
 */
#include "jit/perf.h"

#include "base/file.h"
#include "base/phases.h"
#include "base/strbuf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the formats ---- */

typedef struct dump_header {
    uint32_t magic, version, total_size, elf_machine, pad, pid;
    uint64_t timestamp, flags;
} dump_header;
_Static_assert(sizeof(dump_header) == 40, "as perf reads it");

typedef struct dump_load {
    uint32_t id, total_size;
    uint64_t timestamp;
    uint32_t pid, tid;
    uint64_t vma, code_addr, code_size, code_index;
    /* the name with its NUL, the code */
} dump_load;
_Static_assert(sizeof(dump_load) == 56, "as perf reads it");

enum { DUMP_MAGIC = 0x4a695444, DUMP_VERSION = 1, DUMP_CODE_LOAD = 0 };

/* ---- the files of the process ---- */

static struct {
    int64_t pid;    /* 0: no files yet */
    int map, dump;  /* -1: it could not be made */
    uint64_t index; /* of the next code in the dump */
} files;

/* A file of this user in a directory that others may write to. */
static int open_own(const char *path, int flags, char warning[200]) {
    int fd = open(path, O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0644);
    struct stat s;
    if (fd >= 0 && (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid())) {
        close(fd);
        fd = -1;
        errno = EPERM;
    }
    if (fd < 0)
        snprintf(warning, 200, "TOLK_PERF: cannot write \"%s\": %s", path, strerrordesc_np(errno));
    return fd;
}

static int open_dump(char warning[200]) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/jit-%lld.dump", (long long)getpid());
    int fd = open_own(path, O_RDWR, warning);
    if (fd < 0)
        return fd;
    dump_header h = {.magic = DUMP_MAGIC,
                     .version = DUMP_VERSION,
                     .total_size = sizeof h,
#if defined(__x86_64__)
                     .elf_machine = EM_X86_64,
#else
                     .elf_machine = EM_AARCH64,
#endif
                     .pid = (uint32_t)getpid(),
                     .timestamp = tk_phases_now_ns()};
    bool ok = ftruncate(fd, 0) == 0 && tk_file_put(fd, &h, sizeof h);
    /* perf record learns of the file by a mapping of it that is executable; it stays. */
    if (ok && mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
                   0) == MAP_FAILED)
        ok = false;
    if (!ok) {
        snprintf(warning, 200, "TOLK_PERF: \"%s\" is of no use: %s", path, strerrordesc_np(errno));
        close(fd);
        return -1;
    }
    return fd;
}

static void write_map(const tk_observed *o) {
    char line[160];
    int n = snprintf(line, sizeof line, "%llx %zx %s\n", (unsigned long long)(uintptr_t)o->code,
                     o->code_bytes, o->name);
    if (files.map >= 0 && !tk_file_put(files.map, line, (size_t)n)) {
        close(files.map);
        files.map = -1;
    }
}

static void write_dump(tolk_ctx *ctx, const tk_observed *o) {
    size_t name = strlen(o->name) + 1;
    dump_load r = {.id = DUMP_CODE_LOAD,
                   .total_size = (uint32_t)(sizeof r + name + o->code_bytes),
                   .timestamp = tk_phases_now_ns(),
                   .pid = (uint32_t)getpid(),
                   .tid = (uint32_t)syscall(SYS_gettid),
                   .vma = (uintptr_t)o->code,
                   .code_addr = (uintptr_t)o->code,
                   .code_size = o->code_bytes,
                   .code_index = files.index++};
    tk_strbuf sb; /* one write, so that no record is torn */
    tk_strbuf_init(&sb, &ctx->al);
    tk_strbuf_bytes(&sb, &r, sizeof r);
    tk_strbuf_bytes(&sb, o->name, name);
    tk_strbuf_bytes(&sb, o->code, o->code_bytes);
    if (!sb.failed && files.dump >= 0 && !tk_file_put(files.dump, sb.at, sb.n)) {
        close(files.dump);
        files.dump = -1;
    }
    tk_strbuf_fini(&sb);
}

void tk_perf_add(tolk_ctx *ctx, const tk_observed *o, const tk_observed *before,
                 tk_perf_warnings *warnings) {
    if (files.pid != getpid()) {
        if (files.pid) { /* the parent's */
            close(files.map);
            close(files.dump);
        }
        char path[64];
        snprintf(path, sizeof path, "/tmp/perf-%lld.map", (long long)getpid());
        files.map = open_own(path, O_WRONLY | O_APPEND, warnings->text[0]);
        files.dump = open_dump(warnings->text[1]);
        files.index = 0;
        files.pid = getpid();
        for (; before; before = before->next) {
            write_map(before);
            write_dump(ctx, before);
        }
    }
    write_map(o);
    write_dump(ctx, o);
}
