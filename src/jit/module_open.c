/* SPDX-License-Identifier: MIT */
#include "jit/module.h"

#include "base/status.h"
#include "jit/code_hash.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define NAME "libtolk-llvm.so"

/* Once it is open it stays open, for all contexts: LLVM cannot be taken out of a process. */
static _Atomic(const tk_module *) opened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Another thread of the parent may have been opening it: the child cannot wait for that. */
static void forked(void) {
    pthread_mutex_init(&lock, NULL);
}

__attribute__((constructor)) static void at_load(void) {
    (void)pthread_atfork(NULL, NULL, forked);
}

/* Beside the file that this code is in. */
static bool beside(char *path, size_t bytes) {
    Dl_info here;
    void *inside = &opened;
    if (!dladdr(inside, &here) || !here.dli_fname)
        return false;
    const char *slash = strrchr(here.dli_fname, '/');
    int dir = slash ? (int)(slash + 1 - here.dli_fname) : 0;
    int n = snprintf(path, bytes, "%.*s" NAME, dir, here.dli_fname);
    return dir && n > 0 && (size_t)n < bytes;
}

static tolk_status look_at(void *library, const char *path, tolk_error *err) {
    void (*loaded)(void);
    void *symbol = dlsym(library, "tolk_llvm_opened");
    memcpy(&loaded, &symbol, sizeof loaded);
    if (loaded)
        loaded();
    const tk_module *m = dlsym(library, "tolk_llvm_module");
    if (!m || m->size != sizeof *m || strcmp(m->hash, tk_code_hash) != 0 ||
        strcmp(m->llvm, tk_code_llvm) != 0)
        return tk_status_fail(
            err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
            "\"%.120s\" belongs to another build of tolk: nothing can be compiled", path);
    atomic_store_explicit(&opened, m, memory_order_release);
    return TOLK_OK;
}

static tolk_status open_it(tolk_error *err) {
    static const char installed[] = TOLK_LIBDIR "/" NAME;
    TK_TRY(tk_room_for(TK_MODULE_BYTES, "opening the code generator", err));
    enum { HOW = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };
    char path[4096], first[160];
    const char *at = beside(path, sizeof path) ? path : installed;
    void *library = dlopen(at, HOW);
    if (!library) {
        const char *why = dlerror();
        snprintf(first, sizeof first, "%s", why ? why : "");
        library = dlopen(at = installed, HOW);
    }
    if (!library)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "nothing can be compiled: " NAME " cannot be opened: %s", first);
    return look_at(library, at, err);
}

tolk_status tk_module_get(const tk_module **out, tolk_error *err) {
    if (!atomic_load_explicit(&opened, memory_order_acquire)) {
        tolk_status st = TOLK_OK;
        pthread_mutex_lock(&lock);
        if (!atomic_load_explicit(&opened, memory_order_acquire))
            st = open_it(err);
        pthread_mutex_unlock(&lock);
        TK_TRY(st);
    }
    *out = atomic_load_explicit(&opened, memory_order_acquire);
    return TOLK_OK;
}
