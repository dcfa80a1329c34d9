/* SPDX-License-Identifier: MIT
 *
 * The text form, written; docs/ir.md, "Text", describes it.
 */
#include "base/strbuf.h"
#include "ir/dtype.h"
#include "ir/literal.h"
#include "ir/walk.h"

static bool is_default(const tk_attr_info *info, tk_attr value) {
    switch (info->kind) {
    case TK_ATTR_STR:
    case TK_ATTR_INTS:
    case TK_ATTR_BYTES:
        return value.blob == NULL;
    default:
        return !info->required && value.i == info->def;
    }
}

static void write_value(tk_strbuf *out, tk_attr_kind kind, tk_attr value) {
    switch (kind) {
    case TK_ATTR_INT:
        tk_strbuf_i64(out, value.i);
        break;
    case TK_ATTR_BOOL:
        tk_strbuf_str(out, value.i ? "true" : "false");
        break;
    case TK_ATTR_STR:
        tk_literal_write_string(out, value.blob->str, value.blob->n);
        break;
    case TK_ATTR_INTS:
        tk_strbuf_char(out, '[');
        for (size_t i = 0; i < value.blob->n; i++) {
            if (i)
                tk_strbuf_str(out, ", ");
            tk_strbuf_i64(out, value.blob->ints[i]);
        }
        tk_strbuf_char(out, ']');
        break;
    case TK_ATTR_BYTES:
        tk_strbuf_char(out, '"');
        for (size_t i = 0; i < value.blob->n; i++) {
            unsigned char c = (unsigned char)value.blob->str[i];
            tk_strbuf_char(out, "0123456789abcdef"[c >> 4]);
            tk_strbuf_char(out, "0123456789abcdef"[c & 15]);
        }
        tk_strbuf_char(out, '"');
        break;
    case TK_ATTR_SPACE:
    case TK_ATTR_AXIS:
    case TK_ATTR_ROP:
        tk_strbuf_str(out, tk_op_enum_text(kind, value.i));
        break;
    }
}

static void write_attrs(tk_strbuf *out, const tolk_uop *u) {
    const tk_op_info *op = tk_op_get(tk_uop_op(u));
    uint32_t n = tk_op_n_attr(tk_uop_op(u));
    bool open = false;
    for (uint32_t i = 0; i < n; i++) {
        const tk_attr_info *info = &tk_op_attrs[op->attr_first + i];
        if (is_default(info, u->attr[i]))
            continue;
        tk_strbuf_str(out, open ? ", " : " {");
        tk_strbuf_str(out, info->key);
        tk_strbuf_char(out, '=');
        write_value(out, info->kind, u->attr[i]);
        open = true;
    }
    if (open)
        tk_strbuf_char(out, '}');
}

static void write_node(tk_strbuf *out, const tolk_uop *u, uint32_t number,
                       const tk_walk_map *numbers) {
    char dtype[16];
    tk_strbuf_char(out, '%');
    tk_strbuf_u64(out, number);
    tk_strbuf_str(out, " = ");
    tk_strbuf_str(out, tk_op_get(tk_uop_op(u))->name);
    tk_strbuf_char(out, ' ');
    tk_strbuf_str(out, tk_dtype_text(u->dtype, dtype));
    if (tk_uop_is_invalid(u)) {
        tk_strbuf_str(out, " invalid");
    } else if (tk_uop_is_const(u)) {
        tk_strbuf_char(out, ' ');
        tk_literal_write(out, u->dtype, tk_uop_bits(u));
    }
    for (uint32_t i = 0; i < u->n_src; i++) {
        tk_strbuf_str(out, i ? ", %" : " (%");
        tk_strbuf_u64(out, tk_walk_map_get(numbers, u->src[i]->id));
    }
    if (u->n_src)
        tk_strbuf_char(out, ')');
    write_attrs(out, u);
    tk_strbuf_char(out, '\n');
}

tolk_status tolk_print(const tolk_uop *root, char **text, size_t *len) {
    if (!root || !text)
        return TOLK_E_ARG;
    const tolk_allocator *al = root->graph->al;
    tk_walk_list nodes;
    tk_walk_map numbers; /* by id */
    tk_strbuf out;
    tk_vec_init(&nodes, al);
    tk_walk_map_init(&numbers, al);
    tk_strbuf_init(&out, al);
    tolk_status st = tk_walk(root, &nodes);
    tk_strbuf_str(&out, "tolk.uop 1\n");
    for (uint32_t i = 0; st == TOLK_OK && i < nodes.n; i++) {
        if (!tk_walk_map_put(&numbers, nodes.at[i]->id, i))
            st = TOLK_E_NOMEM;
        write_node(&out, nodes.at[i], i, &numbers);
    }
    size_t n = 0;
    char *taken = st == TOLK_OK ? tk_strbuf_take(&out, &n) : NULL;
    tk_strbuf_fini(&out);
    tk_walk_map_fini(&numbers);
    tk_vec_fini(&nodes);
    if (!taken)
        return TOLK_E_NOMEM;
    *text = taken;
    if (len)
        *len = n;
    return TOLK_OK;
}
