/* SPDX-License-Identifier: MIT
 *
 * State of the emission of one program, shared by its files:
 *   llvm_emit.c        the walk over the list, and the function around it
 *   llvm_emit_scope.c  elements of reg buffers, loops and ifs
 *   llvm_cost.c        how large the code becomes
 */
#ifndef TK_JIT_LLVM_EMITTER_H
#define TK_JIT_LLVM_EMITTER_H

#include "base/map.h"
#include "ir/access.h"
#include "ir/params.h"
#include "jit/llvm_build.h"
#include "jit/llvm_wide.h"

/* An open loop or if. */
typedef struct tk_emit_scope {
    const tolk_uop *opener;
    LLVMBasicBlockRef before; /* block that the opener ended */
    LLVMBasicBlockRef body;   /* of a loop: its header */
    LLVMBasicBlockRef after;
    LLVMValueRef counter, size;
    bool guarded;       /* the body may run not at all */
    uint32_t set;       /* number of the opener: which elements are stored inside */
    size_t first_saved; /* in saved */
} tk_emit_scope;

/* A reg element that is stored inside a scope: its value before, and its phi in a loop's header. */
typedef struct tk_emit_saved {
    uint32_t reg;
    LLVMValueRef before, phi;
} tk_emit_saved;

typedef struct tk_emitter {
    tk_llvm_fn f;
    const tolk_uop *linear;
    const tk_params *params;
    const tolk_allocator *al;
    tk_map values; /* node id -> place of its pieces, and TOLK_MAX_LANES + 1 times as much */
    TK_VEC(LLVMValueRef) pieces;
    tk_map reg_first;      /* id of a reg BUFFER -> number of its first element */
    TK_VEC(uint32_t) part; /* of each instruction */
    TK_VEC(bool) lives_on; /* of each instruction: the store that gives an element its last value */
    tk_map used;           /* node id -> the last part that uses it; none: the first */
    TK_VEC(LLVMValueRef) reg;
    TK_VEC(tk_emit_scope) scopes;
    TK_VEC(tk_emit_saved) saved;
    TK_VEC(uint64_t) stored; /* one bit set an opener, set_words words each */
    size_t set_words;
    uint32_t next_set;
    uint32_t widest;         /* bytes */
    LLVMValueRef local_end;  /* i64: bytes of local buffers so far; NULL: there is none */
    uint64_t shared_end;     /* GPU: the same as a number */
    uint32_t n_locals;       /* and static ones so far */
    uint64_t shared;         /* GPU: bytes of them that a launch asks for */
    uint32_t threads;        /* GPU: of a block; 0: not known */
    bool streaming;          /* in the body for buffers that are aligned (GPU: vectors, too) */
    LLVMBasicBlockRef leave; /* where a cancelled loop goes; NULL: none so far */
    LLVMValueRef cancel;     /* address of the flag */
} tk_emitter;

/* In llvm_emit.c. False and NULL: failed, the error is recorded. */
bool tk_emit_out_of_memory(tk_emitter *e);
/* A program that the verifier would have refused. */
bool tk_emit_broken(tk_emitter *e, const tolk_uop *u, const char *why);
bool tk_emit_set_wide(tk_emitter *e, const tolk_uop *u, const tk_llvm_wide *x);
bool tk_emit_set_value(tk_emitter *e, const tolk_uop *u, LLVMValueRef v);
/* The value of u, cut as it was made; and of a scalar, an address. */
bool tk_emit_wide(tk_emitter *e, const tolk_uop *u, tk_llvm_wide *out);
LLVMValueRef tk_emit_value(tk_emitter *e, const tolk_uop *u);

/* In llvm_emit_scope.c. Pieces that an element of a reg buffer takes; number of the first piece of
 * the element that a place says; room for those of a buffer. */
uint32_t tk_emit_reg_pieces(const tk_emitter *e, const tolk_uop *buffer);
bool tk_emit_reg_number(tk_emitter *e, const tolk_uop *place, uint32_t *out);
bool tk_emit_add_regs(tk_emitter *e, const tolk_uop *buffer);
/* Which reg elements are stored inside each loop and if: before the walk. */
bool tk_emit_survey_stores(tk_emitter *e);
bool tk_emit_open_loop(tk_emitter *e, const tolk_uop *u);
bool tk_emit_close_loop(tk_emitter *e, const tolk_uop *u);
bool tk_emit_open_if(tk_emitter *e, const tolk_uop *u);
bool tk_emit_close_if(tk_emitter *e, const tolk_uop *u);
/* Where a cancelled loop goes. */
LLVMBasicBlockRef tk_emit_leave(tk_emitter *e);

#endif
