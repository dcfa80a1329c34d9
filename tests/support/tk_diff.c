/* SPDX-License-Identifier: MIT */
#include "support/tk_diff.h"

#include "base/ctx.h"
#include "ir/dtype.h"
#include "ir/interp.h"
#include "ir/params.h"
#include "ir/scalar.h"
#include "jit/pipeline.h"
#include "jit/program.h"
#include "support/tk_gen.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const tk_diff_target_names[TK_DIFF_TARGETS + 1] = {"x86-64", "haswell",
                                                               "skylake-avx512", "sm_80"};

enum { MAX_BUFS = 12, MAX_VALS = 8, CANARY = 0xa5, MARGIN = 320 };

/* ---- crashes ---- */

static const char *volatile note, *volatile note_target, *volatile note_opts;

void tk_diff_note(const char *text) {
    note = text;
}

static void crashed(int sig) {
    static const char head[] = "\na signal while this ran:\n";
    ssize_t ignored = write(2, head, sizeof head - 1);
    const char *const parts[] = {note_target, " \"", note_opts, "\"\n", note};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i])
            ignored = write(2, parts[i], strlen(parts[i]));
    (void)ignored;
    signal(sig, SIG_DFL);
    raise(sig);
}

void tk_diff_init(tk_diff *d) {
    memset(d, 0, sizeof *d);
    tolk_ctx_opts opts = TOLK_CTX_OPTS_INIT;
    opts.no_environment = 1;
    opts.no_disk_cache = 1;
    opts.threads = 2;
    assert_int_equal(tolk_ctx_create(&opts, &d->ctx, NULL), TOLK_OK);
    assert_int_equal(tolk_device_open(d->ctx, "CPU", &d->device, NULL), TOLK_OK);
    const tk_host *host = d->device->backend->host(d->device);
    for (uint32_t i = 0; i < TK_DIFF_TARGETS; i++) {
        tk_target t;
        const char *missing;
        assert_int_equal(tk_target_parse(host, tk_diff_target_names[i], &t, NULL), TOLK_OK);
        d->runs[i] = tk_target_runs_on(&t, host, &missing);
    }
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], crashed);
}

void tk_diff_fini(tk_diff *d) {
    tolk_ctx_destroy(d->ctx);
}

/* ---- arguments ---- */

/* One buffer argument: what it holds before, and as many places to run on as are used. */
typedef struct array {
    tolk_dtype dtype;
    int64_t n;
    size_t bytes;
    char *before, *want;
    char *map, *at; /* of the run at hand: pages, the last one not accessible; the array in them */
    size_t map_bytes;
} array;

typedef struct arguments {
    array a[MAX_BUFS];
    size_t n_bufs, n_vals;
    void *bufs[MAX_BUFS];
    size_t bytes[MAX_BUFS];
    int64_t vals[MAX_VALS];
    int64_t slots[MAX_BUFS], val_slots[MAX_VALS];
} arguments;

static bool differ(tk_diff *d, const char *what) {
    snprintf(d->what, sizeof d->what, "%s", what);
    return false;
}

static bool arguments_init(tk_diff *d, arguments *x, const tolk_uop *kernel, unsigned which,
                           uint64_t seed) {
    memset(x, 0, sizeof *x);
    size_t n = tolk_kernel_param_count(kernel);
    for (size_t i = 0; i < n; i++) {
        tolk_param_info info;
        assert_int_equal(tolk_kernel_param(kernel, i, &info), TOLK_OK);
        if (info.is_scalar) {
            x->val_slots[x->n_vals] = info.slot;
            x->vals[x->n_vals++] = tk_gen_scalar(&info, which, seed);
        }
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < n; i++) {
        tolk_param_info info;
        int64_t dims[8];
        assert_int_equal(tolk_kernel_param(kernel, i, &info), TOLK_OK);
        if (info.is_scalar)
            continue;
        x->slots[x->n_bufs] = info.slot;
        array *a = &x->a[x->n_bufs++];
        a->dtype = info.dtype;
        tolk_error err = TOLK_ERROR_INIT;
        if (tolk_kernel_param_dims(kernel, i, x->vals, x->n_vals, dims, &a->n, &err) != TOLK_OK ||
            a->n > 1 << 20)
            return differ(d, "the sizes of the arguments");
        a->bytes = (size_t)a->n * tolk_dtype_bytes(a->dtype);
        a->before = malloc(a->bytes + 1);
        a->want = malloc(a->bytes + 1);
        assert_true(a->before && a->want);
        tk_gen_fill(&info, a->n, seed, a->before);
        size_t inner = (a->bytes + 2 * MARGIN + page - 1) / page * page;
        a->map_bytes = inner + page;
        a->map =
            mmap(NULL, a->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(a->map != MAP_FAILED);
        assert_int_equal(mprotect(a->map + inner, page, PROT_NONE), 0);
    }
    return true;
}

static void arguments_fini(arguments *x) {
    for (size_t i = 0; i < x->n_bufs; i++) {
        free(x->a[i].before);
        free(x->a[i].want);
        if (x->a[i].map)
            munmap(x->a[i].map, x->a[i].map_bytes);
    }
}

/* Fresh arrays: at the end of the accessible pages, or some elements before with canaries behind.
 */
static void place_arrays(arguments *x, uint64_t *rng) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < x->n_bufs; i++) {
        array *a = &x->a[i];
        size_t inner = a->map_bytes - page, elem = tolk_dtype_bytes(a->dtype);
        memset(a->map, CANARY, inner);
        uint64_t r = tk_test_rand(rng);
        size_t back = r & 1 ? 0 : MARGIN / 2 + (r >> 1) % 16 * elem;
        a->at = a->map + inner - back - a->bytes;
        memcpy(a->at, a->before, a->bytes);
        x->bufs[i] = a->at;
        x->bytes[i] = a->bytes;
    }
}

static uint64_t element(const char *at, tolk_dtype dtype, int64_t i) {
    uint64_t bits = 0;
    size_t bytes = tolk_dtype_bytes(dtype);
    memcpy(&bits, at + (size_t)i * bytes, bytes);
    return dtype == TOLK_BOOL ? bits : tk_dtype_canon(dtype, bits);
}

static void keep(arguments *x) {
    for (size_t i = 0; i < x->n_bufs; i++)
        memcpy(x->a[i].want, x->a[i].at, x->a[i].bytes);
}

static bool compare(tk_diff *d, const arguments *x, const char *who) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < x->n_bufs; i++) {
        const array *a = &x->a[i];
        for (int64_t k = 0; k < a->n; k++) {
            uint64_t h = element(a->at, a->dtype, k), w = element(a->want, a->dtype, k);
            if (tk_scalar_same(a->dtype, h, w))
                continue;
            snprintf(d->what, sizeof d->what,
                     "%s: buffer %zu (%s) of %lld: element %lld is 0x%llx, "
                     "expected 0x%llx",
                     who, i, tolk_dtype_name(a->dtype), (long long)a->n, (long long)k,
                     (unsigned long long)h, (unsigned long long)w);
            return false;
        }
        for (const char *p = a->map; p < a->map + a->map_bytes - page; p++)
            if (*p != (char)CANARY && (p < a->at || p >= a->at + a->bytes)) {
                snprintf(d->what, sizeof d->what, "%s: buffer %zu: byte %lld beside it changed",
                         who, i, (long long)(p - a->at));
                return false;
            }
    }
    return true;
}

/* ---- runs ---- */

/* root may have lost some of the kernel's params. */
static tolk_status interpret(arguments *x, const tolk_uop *root, bool fma, uint64_t *rng,
                             tolk_error *err) {
    place_arrays(x, rng);
    void *bufs[MAX_BUFS];
    size_t bytes[MAX_BUFS];
    int64_t vals[MAX_VALS];
    tk_interp_args args = {.bufs = bufs, .bytes = bytes, .vals = vals, .no_fma = !fma};
    tk_params params;
    tolk_status st = tk_params_init(&params, root, &tk_alloc_malloc, err);
    for (size_t i = 0; i < x->n_bufs && st == TOLK_OK; i++)
        if (tk_params_find(&params, x->slots[i])) {
            bufs[args.n_bufs] = x->bufs[i];
            bytes[args.n_bufs++] = x->bytes[i];
        }
    for (size_t i = 0; i < x->n_vals && st == TOLK_OK; i++)
        if (tk_params_find(&params, x->val_slots[i]))
            vals[args.n_vals++] = x->vals[i];
    tk_params_fini(&params);
    return st == TOLK_OK ? tk_interp_run(root, &args, err) : st;
}

static bool same_status(tk_diff *d, const char *who, tolk_status have, tolk_status want,
                        const tolk_error *err) {
    if (have == want)
        return true;
    snprintf(d->what, sizeof d->what, "%s: %s (%s), expected %s", who, tolk_status_name(have),
             err->msg, tolk_status_name(want));
    return false;
}

/* The span in pieces, as threads share it out. */
static tolk_status run_pieces(const tolk_program *p, arguments *x, uint64_t *rng) {
    const tk_meta *h = p->meta.head;
    int64_t values[TK_EXPR_MAX_STEPS];
    tk_expr_eval(p->meta.steps, h->n_steps, x->vals, values, NULL);
    int64_t span = values[h->span];
    _Atomic uint32_t cancel;
    atomic_init(&cancel, 0);
    size_t bytes = (size_t)values[h->scratch_bytes];
    void *scratch = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    assert_non_null(scratch);
    tolk_kenv env = {.size = sizeof env, .scratch = scratch, .cancel = &cancel};
    for (int64_t at = 0; at < span;) {
        int64_t n = 1 + (int64_t)(tk_test_rand(rng) % (uint64_t)(span - at));
        if (n > 9 && tk_test_rand(rng) & 1)
            n = (n - 1) / 8 * 8 + 1;
        p->fn(x->bufs, x->vals, at, at + n, &env);
        at += n;
    }
    free(scratch);
    return env.fault ? TOLK_E_RANGE : TOLK_OK;
}

static bool run_code(tk_diff *d, const tolk_program *p, arguments *x, tolk_status want,
                     uint64_t *rng) {
    for (int k = 0; k < 2; k++) {
        tolk_error err = TOLK_ERROR_INIT;
        place_arrays(x, rng);
        if (k == 1 && p->meta.head->pieces)
            return true;
        tolk_status st = k ? run_pieces(p, x, rng)
                           : tolk_launch(p, x->bufs, x->bytes, x->n_bufs, x->vals, x->n_vals, &err);
        d->launches++;
        const char *who = k ? "code, span in pieces" : "code";
        if (!same_status(d, who, st, want, &err) || !compare(d, x, who))
            return false;
    }
    return true;
}

/* The launch that a GPU is asked for: enough threads, and no more blocks than it can. */
static bool check_grid(tk_diff *d, const tolk_program *p, const arguments *x) {
    const tk_meta *h = p->meta.head;
    int64_t values[TK_EXPR_MAX_STEPS];
    tk_expr_eval(p->meta.steps, h->n_steps, x->vals, values, NULL);
    int64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        int64_t blocks = values[h->grid[i]], block = values[h->block[i]];
        if (blocks < 0 || blocks > (i ? 65535 : INT32_MAX) || block < 1 ||
            block > (i == 2 ? 64 : 1024))
            return differ(d, "a grid or block that is too large");
        threads *= blocks * block;
    }
    return threads >= values[h->span] || differ(d, "fewer threads than iterations");
}

static bool check_values(tk_diff *d, const tolk_uop *kernel, const tk_pipeline *p, bool fma,
                         bool exact, const tolk_program *program, arguments *x, uint64_t *rng) {
    tolk_error err = TOLK_ERROR_INIT;
    tolk_status want = interpret(x, p->opt, fma, rng, &err);
    if (want != TOLK_OK && want != TOLK_E_RANGE)
        return same_status(d, "interpreter, after the options", want, TOLK_OK, &err);
    keep(x);
    /* Of an access whose value nothing needs after simplification, the report may be gone with it;
     * then it is gone in every later form. */
    tolk_status st = interpret(x, p->program, fma, rng, &err), code = st;
    if ((st != TOLK_OK || want != TOLK_E_RANGE) &&
        !same_status(d, "interpreter, program", st, want, &err))
        return false;
    if (!compare(d, x, "interpreter, program"))
        return false;
    if (exact) {
        st = interpret(x, kernel, fma, rng, &err);
        /* Of the kernel as given, an access whose value nothing needs may be gone. */
        if ((st != TOLK_E_RANGE || want != TOLK_OK) &&
            !same_status(d, "interpreter, the kernel as given", st, want, &err))
            return false;
        if (!compare(d, x, "interpreter, the kernel as given"))
            return false;
    }
    return program->meta.head->is_ptx ? check_grid(d, program, x)
                                      : run_code(d, program, x, code, rng);
}

/* The program as it comes back from bytes: what the disk cache and files hold. */
static bool reload(tk_diff *d, tolk_program **program) {
    tolk_error err = TOLK_ERROR_INIT;
    char *bytes = NULL;
    size_t len;
    tolk_program *loaded = NULL;
    tolk_status st = tolk_program_save(*program, &bytes, &len, &err);
    if (st == TOLK_OK)
        st = tolk_program_load(d->device, bytes, len, &loaded, &err);
    tolk_free_text(d->ctx, bytes);
    tolk_program_unref(*program);
    *program = loaded;
    return same_status(d, "saving and loading", st, TOLK_OK, &err);
}

bool tk_diff_check(tk_diff *d, const tolk_uop *kernel, uint32_t target, const char *opts,
                   bool strict, uint64_t seed, bool *refused) {
    uint64_t rng = seed;
    tk_target t;
    tk_pipeline p;
    tolk_error err = TOLK_ERROR_INIT;
    *refused = false;
    note_target = tk_diff_target_names[target];
    note_opts = opts ? opts : "heuristic";
    assert_int_equal(tk_target_parse(d->device->backend->host(d->device),
                                     tk_diff_target_names[target], &t, NULL),
                     TOLK_OK);
    tolk_status st = tk_pipeline_run(d->ctx, kernel, opts, &t, TOLK_BOUNDS_CHECK, strict,
                                     TK_PIPELINE_PROGRAM, &p, &err);
    bool good = true;
    tolk_program *program = NULL;
    /* May unroll, or be written, beyond what is compiled. */
    bool forced = (opts && *opts) || tk_uop_is(kernel, TK_OP_LINEAR);
    if ((st == TOLK_E_ARG && opts) || (st == TOLK_E_LIMIT && forced)) {
        *refused = true;
        d->refused++;
    } else if (st != TOLK_OK) {
        good = same_status(d, "pipeline", st, TOLK_OK, &err);
    } else if (tolk_verify(p.program, TOLK_STAGE_PROGRAM, &err) != TOLK_OK) {
        good = same_status(d, "verifying the program", err.code, TOLK_OK, &err);
    } else {
        d->optimized++;
        tolk_compile_opts co = TOLK_COMPILE_OPTS_INIT;
        co.opts = opts;
        co.target = tk_diff_target_names[target];
        co.strict = strict;
        co.no_cache = 1;
        co.tier = tk_test_rand(&rng) % 3 ? TOLK_TIER_FULL : TOLK_TIER_QUICK;
        st = tolk_compile(d->device, kernel, &co, &program, &err);
        if (st == TOLK_E_LIMIT && forced) {
            *refused = true;
            d->refused++;
        } else {
            good = same_status(d, "compiling", st, TOLK_OK, &err);
        }
        if (good && program && tk_test_rand(&rng) % 4 == 0)
            good = reload(d, &program);
    }
    bool scalars = false;
    for (size_t i = 0; i < tolk_kernel_param_count(kernel); i++) {
        tolk_param_info info;
        tolk_kernel_param(kernel, i, &info);
        scalars |= info.is_scalar != 0;
    }
    if (good && program && program->meta.head->is_ptx && d->on_ptx)
        good = d->on_ptx(d, program->meta.object);
    bool exact = strict || !tk_gen_has_float_sum(kernel);
    for (unsigned which = 0; good && program && which < (scalars ? 3 : 1); which++) {
        arguments x;
        good = arguments_init(d, &x, kernel, which, seed + which) &&
               check_values(d, kernel, &p, t.fma, exact, program, &x, &rng);
        if (!good) {
            size_t at = strlen(d->what);
            for (size_t i = 0; i < x.n_vals && at < sizeof d->what; i++)
                at += (size_t)snprintf(d->what + at, sizeof d->what - at, "%s%lld",
                                       i ? ", " : "; scalars ", (long long)x.vals[i]);
        }
        arguments_fini(&x);
    }
    tolk_program_unref(program);
    tk_pipeline_fini(&p);
    note_target = note_opts = NULL;
    return good;
}

void tk_diff_options(tk_diff *d, const tolk_uop *kernel, uint32_t target, bool strict,
                     uint64_t *rng, char *opts, size_t bytes) {
    static const char *const kinds[] = {"UPCAST", "LANE",  "LANE",    "UNROLL", "THREAD",
                                        "SWAP",   "PADTO", "LOOP",    "LANE",   "GROUPTOP",
                                        "LOCAL",  "GROUP", "NOLOCALS"};
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    static const int amounts[] = {2, 3, 4, 5, 7, 8, 16, 32, 64, 0, 4, 8};
    tk_target t;
    assert_int_equal(tk_target_parse(d->device->backend->host(d->device),
                                     tk_diff_target_names[target], &t, NULL),
                     TOLK_OK);
    opts[0] = 0;
    for (int i = 0; i < 7; i++) {
        char list[256];
        uint64_t r = tk_test_rand(rng);
        const char *kind = kinds[r % N_KINDS];
        unsigned axis = (unsigned)(r >> 8) % 6;
        if (!strcmp(kind, "NOLOCALS")) {
            if (r >> 8 & 3)
                continue;
            snprintf(list, sizeof list, "%s%sNOLOCALS", opts, *opts ? " " : "");
        } else if (!strcmp(kind, "LOOP"))
            snprintf(list, sizeof list, "%s%sLOOP:%u", opts, *opts ? " " : "", axis);
        else
            snprintf(list, sizeof list, "%s%s%s:%u:%d", opts, *opts ? " " : "", kind, axis,
                     !strcmp(kind, "SWAP") ? (int)(r >> 16) % 6 & 3 : amounts[(r >> 16) % 12]);
        tk_pipeline p;
        tolk_status st = tk_pipeline_run(d->ctx, kernel, list, &t, TOLK_BOUNDS_CHECK, strict,
                                         TK_PIPELINE_OPT, &p, NULL);
        tk_pipeline_fini(&p);
        if (st == TOLK_E_ARG)
            d->refused++;
        else if (strlen(list) < bytes)
            strcpy(opts, list); /* a failure of another kind is for tk_diff_check to find */
    }
}
