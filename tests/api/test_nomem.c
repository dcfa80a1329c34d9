/* SPDX-License-Identifier: MIT
 *
 * Memory that ends anywhere between the text and the result: TOLK_E_NOMEM, nothing is left behind,
 * and the next try in the same context works. tk_test_oom fails each allocation in turn, alone and
 * with all that come after it.
 */
#include "support/runtime.h"

typedef struct work {
    const char *text;
    const char *dir; /* of the disk cache; NULL: none */
    int clear;       /* the next run finds it empty */
    size_t n_bufs, bytes[4], n_vals;
    int64_t vals[2];
    const float *want; /* the first buffer afterwards */
    size_t n_want;
    int emit;
} work;

static float x[600], y[600];

/* Everything once, in a context that is there. */
static tolk_status once(tolk_ctx *ctx, const work *w) {
    tolk_device *cpu;
    tolk_graph *g = NULL;
    const tolk_uop *root = NULL;
    tolk_program *p = NULL;
    tolk_error err = TOLK_ERROR_INIT;
    char *text = NULL;
    size_t len;
    tolk_status st = tolk_device_open(ctx, "CPU", &cpu, &err);
    if (!st)
        st = tolk_graph_create(ctx, &g);
    if (!st)
        st = tolk_parse(g, w->text, strlen(w->text), 0, &root, &err);
    if (!st)
        st = tolk_verify(root, TOLK_STAGE_KERNEL, &err);
    if (!st && w->emit) {
        st = tolk_emit(ctx, root, NULL, (tolk_emit_kind)(w->emit - 1), &text, &len, &err);
        if (!st)
            tolk_free_text(ctx, text);
    } else if (!st) {
        st = tolk_compile(cpu, root, NULL, &p, &err);
        void *bufs[] = {y, x, x, x};
        memset(y, 0, sizeof y);
        if (!st)
            st = tolk_launch(p, bufs, w->bytes, w->n_bufs, w->vals, w->n_vals, &err);
        if (!st && memcmp(y, w->want, w->n_want * sizeof *y) != 0)
            st = TOLK_E_INTERNAL; /* a result that is wrong is worse than none */
        tolk_program_unref(p);
    }
    tolk_graph_destroy(g);
    return st;
}

static tolk_status parse_to_launch(const tolk_allocator *al, void *user) {
    const work *w = user;
    const tk_test_heap *heap = al->user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    o.allocator = al;
    o.no_environment = 1;
    o.cache_dir = w->dir;
    o.no_disk_cache = !w->dir;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    st = once(ctx, w);
    if (st == TOLK_E_NOMEM && !heap->fail_onward) {
        st = once(ctx, w); /* there is memory again */
        if (st)
            fail_msg("allocation %zu failed, and the next try: %s", (size_t)heap->fail_at,
                     tolk_status_name(st));
    }
    /* with an entry in the cache and memory that ends now */
    if (!st && tk_test_share() >= 100) {
        tolk_status again = once(ctx, w);
        if (again && again != TOLK_E_NOMEM)
            fail_msg("allocation %zu fails, then: %s", (size_t)heap->fail_at,
                     tolk_status_name(again));
    }
    if (w->clear)
        (void)tolk_cache_clear(ctx, NULL); /* as far as there is memory for that */
    tolk_ctx_destroy(ctx);
    return st;
}

static const float triple[] = {3, 6, 9, 12, 15};

static void fill(void) {
    for (int i = 0; i < 600; i++)
        x[i] = (float)(i + 1);
}

static void test_without_memory_parse_verify_compile_launch_give_nomem(void **state) {
    (void)state;
    fill();
    work w = {.text = rt_text(RT_SCALE, 5, "3"),
              .n_bufs = 2,
              .bytes = {20, 20},
              .want = triple,
              .n_want = 5};
    printf("%zu allocations\n", tk_test_oom(parse_to_launch, &w));
}

static void test_without_memory_with_a_disk_cache_gives_nomem_or_misses(void **state) {
    (void)state;
    fill();
    char *dir = rt_mkdir();
    work w = {.text = rt_text(RT_SCALE, 5, "3"),
              .dir = dir,
              .n_bufs = 2,
              .bytes = {20, 20},
              .want = triple,
              .n_want = 5};
    tk_test_oom(parse_to_launch, &w); /* reads an entry */
    w.clear = 1;
    tk_test_oom(parse_to_launch, &w); /* writes one */
    rt_rmdir(dir);
}

/* Scalars, gates, a loop with a vector tail, a sum, a math function: more of the passes. */
static void test_without_memory_every_pass_gives_nomem(void **state) {
    (void)state;
    fill();
    work w = {.text = "tolk.uop 1\n"
                      "%0 = param i32 {slot=2, name=\"n\", space=alu, min=1, max=40}\n"
                      "%1 = cast index (%0)\n"
                      "%2 = const index 600\n"
                      "%3 = param f32 (%1) {slot=0}\n"
                      "%4 = param f32 (%2) {slot=1}\n"
                      "%5 = range index (%1) {axis=0, kind=global}\n"
                      "%6 = const index 9\n"
                      "%7 = range index (%6) {axis=1, kind=reduce}\n"
                      "%8 = const index 15\n"
                      "%9 = mul index (%5, %8)\n"
                      "%10 = add index (%9, %7)\n"
                      "%11 = const index 4\n"
                      "%12 = cmplt bool (%7, %11)\n"
                      "%13 = index f32 (%4, %10)\n"
                      "%14 = const f32 0\n"
                      "%15 = load f32 (%13, %14, %12)\n"
                      "%16 = reduce f32 (%15, %7) {op=add}\n"
                      "%17 = index f32 (%3, %5)\n"
                      "%18 = store void (%17, %16)\n"
                      "%19 = end void (%18, %5)\n"
                      "%20 = sink void (%19) {name=\"rows\"}\n",
              .n_bufs = 2,
              .bytes = {40 * 4, 600 * 4},
              .n_vals = 1,
              .vals = {37},
              .n_want = 37};
    static float want[37];
    for (int i = 0; i < 37; i++)
        for (int k = 0; k < 4; k++)
            want[i] += x[15 * i + k];
    w.want = want;
    printf("%zu allocations\n", tk_test_oom(parse_to_launch, &w));
}

static void test_without_memory_every_form_gives_nomem(void **state) {
    (void)state;
    /* the others end earlier on the same way */
    static const tolk_emit_kind kinds[] = {TOLK_EMIT_UOP, TOLK_EMIT_OPT, TOLK_EMIT_ASM};
    for (int i = 0; i < 3; i++) {
        work w = {.text = rt_text(RT_SCALE, 5, "3"), .emit = (int)kinds[i] + 1};
        tk_test_oom(parse_to_launch, &w);
    }
}

/* The rest of the API that makes something. */
static tolk_status other_calls(const tolk_allocator *al, void *user) {
    (void)user;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    tolk_ctx *ctx;
    o.allocator = al;
    o.no_environment = 1;
    tolk_status st = tolk_ctx_create(&o, &ctx, NULL);
    if (st)
        return st;
    char *text = NULL;
    size_t len;
    tolk_device *cpu;
    tolk_cache_stats stats;
    st = tolk_device_open(ctx, "CPU", &cpu, NULL);
    if (!st)
        st = tolk_device_debug_info(cpu, &text, &len);
    if (!st) {
        tolk_free_text(ctx, text);
        st = tolk_debug_info(ctx, NULL, &text, &len);
    }
    if (!st) {
        tolk_free_text(ctx, text);
        st = tolk_cache_get_stats(ctx, &stats);
    }
    if (!st)
        st = tolk_cache_clear(ctx, NULL);
    tolk_ctx_destroy(ctx);
    return st;
}

static void test_without_memory_information_gives_nomem(void **state) {
    (void)state;
    tk_test_oom(other_calls, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_memory_parse_verify_compile_launch_give_nomem),
        cmocka_unit_test(test_without_memory_with_a_disk_cache_gives_nomem_or_misses),
        cmocka_unit_test(test_without_memory_every_pass_gives_nomem),
        cmocka_unit_test(test_without_memory_every_form_gives_nomem),
        cmocka_unit_test(test_without_memory_information_gives_nomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
