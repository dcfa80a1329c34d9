/* SPDX-License-Identifier: MIT
 *
 * The part of the library that uses LLVM. Opening LLVM costs more than a warm start may take, so
 * libtolk.so keeps it in a library of its own, libtolk-llvm.so, which is opened by the first
 * compilation that no cache answers (module_open.c). The static library holds it itself
 * (module_linked.c).
 */
#ifndef TK_JIT_MODULE_H
#define TK_JIT_MODULE_H

#include "base/room.h"
#include "base/status.h"
#include "jit/llvm_api.h"

/* What it gives, at the symbol tolk_llvm_module. A function void tolk_llvm_opened(void) is to be
 * called as soon as it is opened, whatever build it belongs to. Beside size and hash nothing of it
 * may be used unless both are those of this library. */
typedef struct tk_module {
    uint32_t size;    /* sizeof(tk_module) */
    const char *hash; /* tk_code_hash: of the sources that it was built from */
    const char *llvm; /* tk_code_llvm: the LLVM that it was built for */
    /* The functions of llvm_api.h. */
    tolk_status (*emit)(tolk_ctx *ctx, const tk_target *target, const tolk_uop *linear,
                        const char *symbol, tk_llvm_form form, uint64_t *frame_bytes,
                        tk_phases *phases, char **out, size_t *len, tolk_error *err);
    /* NULL where the backend has a loader. */
    tolk_status (*link)(tolk_ctx *ctx, const void *object, size_t len, const char *symbol,
                        tk_code_linked **out, void **entry, tolk_error *err);
} tk_module;

/* The module, opened if it is not yet. Errors: TOLK_E_UNSUPPORTED: there is none, or it belongs to
 * another build. Threads: any. */
tolk_status tk_module_get(const tk_module **out, tolk_error *err);

/* LLVM ends the process when it gets no memory: what there must be before it is asked for code, and
 * for each instruction of the program; and before it is opened. */
enum {
    TK_MODULE_EMIT_BYTES = 24 << 20,
    TK_MODULE_NODE_BYTES = 6 << 10,
    TK_MODULE_BYTES = 112 << 20
};

static inline tolk_status tk_module_emit(tolk_ctx *ctx, const tk_target *target,
                                         const tolk_uop *linear, const char *symbol,
                                         tk_llvm_form form, uint64_t *frame_bytes,
                                         tk_phases *phases, char **out, size_t *len,
                                         tolk_error *err) {
    const tk_module *m;
    TK_TRY(tk_module_get(&m, err));
    TK_TRY(tk_room_for(TK_MODULE_EMIT_BYTES + TK_MODULE_NODE_BYTES * (size_t)linear->n_src,
                       "the code generator", err));
    return m->emit(ctx, target, linear, symbol, form, frame_bytes, phases, out, len, err);
}

static inline tolk_status tk_module_link(tolk_ctx *ctx, const void *object, size_t len,
                                         const char *symbol, tk_code_linked **out, void **entry,
                                         tolk_error *err) {
    const tk_module *m;
    TK_TRY(tk_module_get(&m, err));
    return m->link(ctx, object, len, symbol, out, entry, err);
}

#endif
