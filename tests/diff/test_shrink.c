/* SPDX-License-Identifier: MIT
 *
 * The random suites make what fails smaller: it still fails, and is as small as it can be.
 */
#include "support/tk_gen.h"

#include "base/ctx.h"
#include "ir/uop.h"

/* "Fails": has a store of that many lanes to memory. */
static bool stores(const tolk_uop *root, void *user) {
    const uint32_t *lanes = user;
    for (uint32_t i = 0; i < root->n_src; i++) {
        const tolk_uop *u = root->src[i];
        if (tk_uop_is(u, TK_OP_STORE) && tk_uop_lanes(u->src[1]) == *lanes &&
            tk_uop_is(u->src[0]->src[0], TK_OP_PARAM))
            return true;
    }
    return false;
}

static void test_programs_shrink_to_what_fails(void **state) {
    (void)state;
    tolk_ctx *ctx;
    assert_int_equal(tolk_ctx_create(NULL, &ctx, NULL), TOLK_OK);
    int shrunk = 0;
    for (uint64_t seed = 1; seed < 60; seed++) {
        tolk_graph *g;
        assert_int_equal(tolk_graph_create(ctx, &g), TOLK_OK);
        const tolk_uop *program = tk_gen_program(g, seed);
        uint32_t one = 1;
        if (program && stores(program, &one)) {
            const tolk_uop *least = tk_gen_shrink(program, stores, &one);
            assert_true(stores(least, &one));
            assert_int_equal(tolk_verify(least, TOLK_STAGE_PROGRAM, NULL), TOLK_OK);
            /* A store needs its place and value, and those what they are made of. */
            assert_true(least->n_src <= program->n_src);
            for (uint32_t i = 0; i < least->n_src; i++) {
                const tolk_uop *u = least->src[i];
                bool used = tk_uop_is(u, TK_OP_STORE) || tk_uop_is(u, TK_OP_END) ||
                            tk_uop_is(u, TK_OP_ENDIF);
                for (uint32_t k = i + 1; k < least->n_src && !used; k++)
                    for (uint32_t s = 0; s < least->src[k]->n_src; s++)
                        used |= least->src[k]->src[s] == least->src[i];
                if (!used) {
                    char *text;
                    size_t len;
                    assert_int_equal(tolk_print(least, &text, &len), TOLK_OK);
                    fail_msg("nothing uses instruction %u of\n%s", i, text);
                }
            }
            shrunk++;
        }
        tolk_graph_destroy(g);
    }
    assert_true(shrunk > 20);
    tolk_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs_shrink_to_what_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
