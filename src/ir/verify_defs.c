/* SPDX-License-Identifier: MIT
 *
 * What a kernel or program declares: one param per slot and per name, one special per name, at most
 * one buffer whose size is given at the launch.
 */
#include "ir/verify_parts.h"

#include <string.h>

void tk_verify_defs_init(tk_verify_defs *d, const tk_verify_cx *cx) {
    memset(d, 0, sizeof *d);
    d->cx = cx;
    tk_map_init(&d->slots, cx->al);
    tk_map_init(&d->names, cx->al);
}

void tk_verify_defs_fini(tk_verify_defs *d) {
    tk_map_fini(&d->slots);
    tk_map_fini(&d->names);
}

/* Note (key -> u). If another node was there, *other is it. */
static tolk_status note(tk_verify_defs *d, tk_map *map, uint64_t key, const tolk_uop *u,
                        const tolk_uop **other) {
    const uint64_t *known = tk_map_find(map, key);
    *other =
        known && (uintptr_t)*known != (uintptr_t)u ? (const tolk_uop *)(uintptr_t)*known : NULL;
    if (known || tk_map_put(map, key, (uintptr_t)u))
        return TOLK_OK;
    return tk_status_nomem(d->cx->err);
}

static bool same_variable(const tolk_uop *a, const tolk_uop *b) {
    return a->dtype == b->dtype && tk_uop_int(a, TK_A_PARAM_MIN) == tk_uop_int(b, TK_A_PARAM_MIN) &&
           tk_uop_int(a, TK_A_PARAM_MAX) == tk_uop_int(b, TK_A_PARAM_MAX);
}

static tolk_status add_param(tk_verify_defs *d, const tolk_uop *u) {
    const tolk_uop *other;
    bool by_name = d->variables_by_name && tk_check_is_scalar_param(u);
    int64_t slot = tk_uop_int(u, TK_A_PARAM_SLOT);
    const tk_blob *name = tk_uop_attr(u, TK_A_PARAM_NAME).blob;
    if (name) {
        TK_TRY(note(d, &d->names, (uintptr_t)name, u, &other));
        bool variables = other && tk_check_is_scalar_param(u) && tk_check_is_scalar_param(other);
        if (variables && by_name && same_variable(u, other))
            return TOLK_OK;
        if (variables)
            return tk_verify_fail(d->cx, u, TOLK_E_VERIFY,
                                  "variable \"%.60s\" is declared twice, differently (%s)",
                                  name->str, tk_verify_name_of(d->cx, other).text);
        if (other)
            return tk_verify_fail(d->cx, u, TOLK_E_VERIFY, "%s is named \"%.60s\", too",
                                  tk_verify_name_of(d->cx, other).text, name->str);
    }
    if (by_name)
        return TOLK_OK;
    TK_TRY(note(d, &d->slots, (uint64_t)slot, u, &other));
    if (other)
        return tk_verify_fail(d->cx, u, TOLK_E_VERIFY, "slot %lld is that of %s, too",
                              (long long)slot, tk_verify_name_of(d->cx, other).text);
    return TOLK_OK;
}

static tolk_status add_special(tk_verify_defs *d, const tolk_uop *u) {
    int axis = 0;
    const char *name = tk_uop_str(u, TK_A_SPECIAL_NAME);
    tk_special kind = tk_check_special(name, &axis);
    const tolk_uop **at = &d->special[kind][axis];
    if (*at && *at != u)
        return tk_verify_fail(d->cx, u, TOLK_E_VERIFY, "%s has another size in %s", name,
                              tk_verify_name_of(d->cx, *at).text);
    *at = u;
    bool groups = false, flat = false;
    for (int i = 0; i < 3; i++) {
        groups |= d->special[TK_SPECIAL_GIDX][i] || d->special[TK_SPECIAL_LIDX][i];
        flat |= d->special[TK_SPECIAL_IDX][i] != NULL;
    }
    if (groups && flat)
        return tk_verify_fail(d->cx, u, TOLK_E_VERIFY,
                              "idx0..2 (no work-groups) together with gidx0..2 or lidx0..2");
    return TOLK_OK;
}

tolk_status tk_verify_defs_add(tk_verify_defs *d, const tolk_uop *u) {
    switch (tk_uop_op(u)) {
    case TK_OP_PARAM:
        return add_param(d, u);
    case TK_OP_SPECIAL:
        return add_special(d, u);
    case TK_OP_BUFFER:
        if (!tk_uop_int(u, TK_A_BUFFER_DYNAMIC))
            return TOLK_OK;
        if (d->dynamic && d->dynamic != u)
            return tk_verify_fail(d->cx, u, TOLK_E_VERIFY,
                                  "%s is dynamic, too; there may be one dynamic buffer",
                                  tk_verify_name_of(d->cx, d->dynamic).text);
        d->dynamic = u;
        return TOLK_OK;
    default:
        return TOLK_OK;
    }
}
