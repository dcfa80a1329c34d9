/* SPDX-License-Identifier: MIT
 *
 * The envelope of saved programs, with right checksums: other CPUs, other formats, parts that do
 * not add up.
 */
#include "support/tk_test.h"

#include "base/strbuf.h"
#include "jit/saved.h"

#include <stdlib.h>
#include <string.h>

static tolk_ctx *ctx;

static int setup(void **state) {
    (void)state;
    tolk_ctx_opts o = TOLK_CTX_OPTS_INIT;
    o.no_environment = 1;
    return tk_ctx_init(&o, &ctx, NULL);
}

static int teardown(void **state) {
    (void)state;
    tk_ctx_fini(ctx);
    return 0;
}

#define BIT(NAME) ((uint64_t)1 << TK_FEATURE_##NAME)
static const char binary[] = "thirty-two bytes of any binary.";

static char *write_saved(tk_arch arch, uint64_t features, size_t *len) {
    tk_saved s = {binary, sizeof binary, arch, features};
    char *out = NULL;
    assert_int_equal(tk_saved_write(ctx, &s, &out, len, NULL), TOLK_OK);
    return out;
}

static void test_what_was_written_is_read(void **state) {
    (void)state;
    uint64_t features[] = {0, BIT(AVX2) | BIT(SSE3), ((uint64_t)1 << TK_FEATURE_COUNT) - 1};
    for (int i = 0; i < 3; i++)
        for (int arch = TK_ARCH_X86_64; arch <= TK_ARCH_AARCH64; arch++) {
            tk_host host = {.arch = (tk_arch)arch, .features = features[i]};
            size_t len;
            char *bytes = write_saved(host.arch, features[i], &len);
            tk_saved s;
            assert_int_equal(tk_saved_open(&host, bytes, len, &s, NULL), TOLK_OK);
            assert_int_equal(s.arch, arch);
            assert_true(s.features == features[i]);
            assert_int_equal(s.binary_bytes, sizeof binary);
            assert_memory_equal(s.binary, binary, sizeof binary);
            tk_strbuf_text_free(&ctx->al, bytes);
        }
}

/* CPUF-03: code for a richer CPU is not run. */
static void test_CPUF_03_other_cpus_are_refused(void **state) {
    (void)state;
    size_t len;
    tk_saved s;
    tolk_error err = TOLK_ERROR_INIT;
    char *bytes = write_saved(TK_ARCH_X86_64, BIT(AVX2) | BIT(AVX512F), &len);
    tk_host host = {.arch = TK_ARCH_X86_64, .features = ~BIT(AVX512F)};
    assert_int_equal(tk_saved_open(&host, bytes, len, &s, &err), TOLK_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "needs avx512f, which this machine does not have"));
    host = (tk_host){.arch = TK_ARCH_AARCH64, .features = UINT64_MAX};
    assert_int_equal(tk_saved_open(&host, bytes, len, &s, &err), TOLK_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "needs x86-64"));
    /* a feature that this version does not know: nobody can say that it is there */
    char *name = memmem(bytes, len, "avx512f", 7);
    assert_non_null(name);
    memcpy(name, "avx999q", 7);
    tk_saved_seal(bytes, len);
    host = (tk_host){.arch = TK_ARCH_X86_64, .features = UINT64_MAX};
    assert_int_equal(tk_saved_open(&host, bytes, len, &s, &err), TOLK_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "needs avx999q"));
    tk_strbuf_text_free(&ctx->al, bytes);
}

static void test_another_format_is_refused(void **state) {
    (void)state;
    enum { FORMAT = 32 };
    size_t len;
    tk_saved s;
    tolk_error err = TOLK_ERROR_INIT;
    tk_host host = {.arch = TK_ARCH_X86_64};
    char *bytes = write_saved(TK_ARCH_X86_64, 0, &len);
    for (int i = 0; i < 16; i++) {
        bytes[FORMAT + i] ^= 4;
        tk_saved_seal(bytes, len);
        assert_int_equal(tk_saved_open(&host, bytes, len, &s, &err), TOLK_E_UNSUPPORTED);
        assert_non_null(strstr(err.msg, "saved by tolk 0."));
        assert_non_null(strstr(err.msg, "compile and save it anew"));
        bytes[FORMAT + i] ^= 4;
    }
    bytes[6] ^= 1; /* the next version of the envelope itself */
    tk_saved_seal(bytes, len);
    assert_int_equal(tk_saved_open(&host, bytes, len, &s, &err), TOLK_E_PARSE);
    tk_strbuf_text_free(&ctx->al, bytes);
}

/* Every byte of the header and the texts, any value, sealed: never out of bounds (sanitizers see
 * it), and what is accepted lies inside. */
static void test_sealed_damage_stays_inside(void **state) {
    (void)state;
    size_t len;
    tk_host host = {.arch = TK_ARCH_X86_64, .features = BIT(SSE3)};
    char *good = write_saved(TK_ARCH_X86_64, BIT(SSE3), &len);
    char *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        for (int value = 0; value < 256; value++) {
            memcpy(bytes, good, len);
            bytes[i] = (char)value;
            tk_saved_seal(bytes, len);
            tk_saved s;
            tolk_error err = TOLK_ERROR_INIT;
            tolk_status st = tk_saved_open(&host, bytes, len, &s, &err);
            assert_true(st == TOLK_OK || st == TOLK_E_PARSE || st == TOLK_E_UNSUPPORTED);
            if (st == TOLK_OK)
                assert_true((const char *)s.binary >= bytes &&
                            (const char *)s.binary + s.binary_bytes <= bytes + len);
        }
    free(bytes);
    tk_strbuf_text_free(&ctx->al, good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_read),
        cmocka_unit_test(test_CPUF_03_other_cpus_are_refused),
        cmocka_unit_test(test_another_format_is_refused),
        cmocka_unit_test(test_sealed_damage_stays_inside),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
