/* SPDX-License-Identifier: MIT
 *
 * One function of LLVM IR under construction. Every instruction on values is built here, and only
 * if llvm_legal.def lists it.
 *
 * Failure is sticky: the first one is kept in the tk_llvm_fn and in its error, builders return NULL
 * then and whenever an operand is NULL, so that a chain of calls needs one look at its end.
 *
 * Types are dtypes: bool is i1 in values. Memory holds bytes: a bool is one byte there, and values
 * "in memory form" are as memory holds them, u8 for bool.
 */
#ifndef TK_JIT_LLVM_BUILD_H
#define TK_JIT_LLVM_BUILD_H

#include "base/ctx.h"
#include "base/status.h"
#include "jit/llvm_legal.h"

#include <llvm-c/Core.h>

/* LLVM's numbers of a GPU's address spaces. */
enum { TK_LLVM_GLOBAL = 1, TK_LLVM_SHARED = 3 };

/* What a stack slot is for. */
enum {
    TK_LLVM_SLOT_DUMMY, /* where lanes go that must not touch memory */
    TK_LLVM_SLOT_VALUES,
    TK_LLVM_SLOT_GATES,
    TK_LLVM_SLOT_INDICES,
    TK_LLVM_SLOTS
};
enum { TK_LLVM_FN_OTHERS = 65 };

typedef struct tk_llvm_fn {
    tolk_ctx *ctx;
    const tk_target *target;
    uint8_t classes; /* tk_llvm_legal_classes(target) */
    tolk_error *err;
    tolk_status status;
    LLVMContextRef lc;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMValueRef fn;
    LLVMBasicBlockRef entry;                  /* stack slots go here */
    LLVMValueRef bufs, vals, begin, end, env; /* the arguments, see kenv.h */
    LLVMValueRef slot[TK_LLVM_SLOTS];         /* stack slots by use, NULL: none so far */
    LLVMValueRef others[TK_LLVM_FN_OTHERS];   /* functions beside this one (llvm_lanes.c) */
    uint32_t n_calls; /* of intrinsics in the block where the builder stands */
    bool is_large;    /* more than a few blocks' worth: what LLVM does with the square of the
                         program's size must not happen */
} tk_llvm_fn;

/* An empty function void (ptr, ptr, i64, i64, ptr) named symbol in f->module, with an entry block
 * where the builder stands. widest: bytes of the widest vector in it. */
void tk_llvm_build_function(tk_llvm_fn *f, const char *symbol, uint32_t widest);

/* The same for a function of other arguments: f->fn and f->entry become its own. helper: it is
 * called by the kernel alone. */
void tk_llvm_build_define(tk_llvm_fn *f, const char *name, LLVMTypeRef *args, unsigned n);
void tk_llvm_build_helper(tk_llvm_fn *f, const char *name, LLVMTypeRef *args, unsigned n);

/* Fail for a reason of its own. Returns NULL. */
LLVMValueRef tk_llvm_build_fail(tk_llvm_fn *f, tolk_status status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* "what f32x8: the code generator for ... has no such operation". Returns NULL. */
LLVMValueRef tk_llvm_build_unsupported(tk_llvm_fn *f, const char *what, tolk_dtype dtype);

LLVMTypeRef tk_llvm_build_type(const tk_llvm_fn *f, tolk_dtype dtype);
LLVMTypeRef tk_llvm_build_pointer_type(const tk_llvm_fn *f);
/* bool becomes u8, all else stays. */
tolk_dtype tk_llvm_build_memory_dtype(tolk_dtype dtype);
/* Canonical bits (ir/dtype.h), the same in every lane. */
LLVMValueRef tk_llvm_build_const(const tk_llvm_fn *f, tolk_dtype dtype, uint64_t bits);
LLVMValueRef tk_llvm_build_zero(const tk_llvm_fn *f, tolk_dtype dtype);
/* 0, 1, 2 ... of an integer vector. */
LLVMValueRef tk_llvm_build_iota(const tk_llvm_fn *f, tolk_dtype dtype);

/* Forms UN, BIN and CMP, TER, SEL. dtype: of the operands (SEL: of the values; bool is done by
 * logic), with lanes. */
LLVMValueRef tk_llvm_build_un(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, LLVMValueRef a);
LLVMValueRef tk_llvm_build_bin(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, LLVMValueRef a,
                               LLVMValueRef b);
LLVMValueRef tk_llvm_build_ter(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, LLVMValueRef a,
                               LLVMValueRef b, LLVMValueRef c);
LLVMValueRef tk_llvm_build_select(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef mask,
                                  LLVMValueRef yes, LLVMValueRef no);
LLVMValueRef tk_llvm_build_convert(tk_llvm_fn *f, tk_legal_op op, tolk_dtype from, tolk_dtype to,
                                   LLVMValueRef x);
LLVMValueRef tk_llvm_build_not(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x);

/* ANY and EVERY (one lane: the lane itself), BITS. mask: bool with its lanes. */
LLVMValueRef tk_llvm_build_mask(tk_llvm_fn *f, tk_legal_op op, tolk_dtype mask_dtype,
                                LLVMValueRef mask);

/* Lanes. dtype: of the vector. */
LLVMValueRef tk_llvm_build_splat(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x);
LLVMValueRef tk_llvm_build_insert(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef v, LLVMValueRef x,
                                  uint32_t lane);
LLVMValueRef tk_llvm_build_extract(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef v, uint32_t lane);
/* Lanes of a (0 ..) and b (behind those of a; b may be NULL: none), n of them. */
LLVMValueRef tk_llvm_build_shuffle(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef a, LLVMValueRef b,
                                   const uint8_t *lanes, uint32_t n);
/* Lanes [from, from + n) of a vector of 2 or more of any type, masks too, and the lanes of two of
 * them one after the other: how a value is cut (llvm_wide.h). */
LLVMValueRef tk_llvm_build_lanes(tk_llvm_fn *f, LLVMValueRef x, uint32_t from, uint32_t n);
LLVMValueRef tk_llvm_build_joined(tk_llvm_fn *f, LLVMValueRef a, LLVMValueRef b);

/* Address of element `index` (i64, or a vector: a vector of addresses) of an array at base. */
LLVMValueRef tk_llvm_build_address(tk_llvm_fn *f, tolk_dtype element, LLVMValueRef base,
                                   LLVMValueRef index, bool inbounds);
/* Memory. dtype: of the value in memory form, with lanes; any alignment of an element will do.
 * Masked ones touch no memory where the mask is not set. */
LLVMValueRef tk_llvm_build_load(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address);
LLVMValueRef tk_llvm_build_store(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                 LLVMValueRef x);
/* A store around the caches; address must be aligned to the value, or to 64 if that is larger. */
LLVMValueRef tk_llvm_build_stream(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                  LLVMValueRef x);
/* Add x to what is there, at once as other threads see it. x: a scalar in memory form; is_or: or
 * its bits instead. address must be aligned to it. */
LLVMValueRef tk_llvm_build_rmw_add(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                   LLVMValueRef x, bool is_or);
LLVMValueRef tk_llvm_build_masked_load(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                       LLVMValueRef mask, LLVMValueRef alt);
LLVMValueRef tk_llvm_build_masked_store(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                        LLVMValueRef mask, LLVMValueRef x);
LLVMValueRef tk_llvm_build_gather(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef addresses,
                                  LLVMValueRef mask, LLVMValueRef alt);
LLVMValueRef tk_llvm_build_scatter(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef addresses,
                                   LLVMValueRef mask, LLVMValueRef x);
/* GPU: an intrinsic with operands of dtype; an exchange of what is at address, if that is `old`,
 * for `fresh`, which gives what was there; an addition. */
LLVMValueRef tk_llvm_build_gpu(tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype, const char *name,
                               LLVMValueRef *args, unsigned n);
LLVMValueRef tk_llvm_build_cas(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                               LLVMValueRef old, LLVMValueRef fresh);
/* A loop that gives what is at address (a scalar of dtype) a new value as one step of all threads.
 * begin: the value that is there, NULL: failed. What is built then makes the new one of it. end:
 * the loop is over when nobody else stored in between. */
typedef struct tk_llvm_exchange {
    tolk_dtype dtype;
    LLVMValueRef address, first, old;
    LLVMBasicBlockRef before, again;
} tk_llvm_exchange;
LLVMValueRef tk_llvm_build_exchange(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                    tk_llvm_exchange *x);
void tk_llvm_build_exchange_end(tk_llvm_fn *f, const tk_llvm_exchange *x, LLVMValueRef fresh);
LLVMValueRef tk_llvm_build_atom_add(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef address,
                                    LLVMValueRef x);
bool tk_llvm_build_has(const tk_llvm_fn *f, tk_legal_op op, tolk_dtype dtype);

/* Control. */
LLVMBasicBlockRef tk_llvm_build_block(tk_llvm_fn *f, const char *name);
void tk_llvm_build_enter(tk_llvm_fn *f, LLVMBasicBlockRef block);
void tk_llvm_build_jump(tk_llvm_fn *f, LLVMBasicBlockRef to);
void tk_llvm_build_return(tk_llvm_fn *f);
typedef enum tk_llvm_odds { TK_LLVM_EVEN, TK_LLVM_LIKELY, TK_LLVM_UNLIKELY } tk_llvm_odds;
void tk_llvm_build_branch(tk_llvm_fn *f, LLVMValueRef cond, LLVMBasicBlockRef yes,
                          LLVMBasicBlockRef no, tk_llvm_odds odds);
/* The value that comes from each of two blocks. */
LLVMValueRef tk_llvm_build_phi(tk_llvm_fn *f, LLVMTypeRef type, LLVMValueRef a,
                               LLVMBasicBlockRef from_a, LLVMValueRef b, LLVMBasicBlockRef from_b);
/* x is needed where the builder stands: it is not moved into a later block. */
void tk_llvm_build_keep(tk_llvm_fn *f, tolk_dtype dtype, LLVMValueRef x);
/* Bytes on the stack, aligned to 16; made in the entry block. */
LLVMValueRef tk_llvm_build_stack(tk_llvm_fn *f, uint32_t bytes);

#endif
