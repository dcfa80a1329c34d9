/* SPDX-License-Identifier: MIT */
#include "ir/key.h"

#include <string.h>

/* The serialization of one node, hashed piece by piece: when the buffer is full it is replaced by
 * the hash of what it holds, so nothing is allocated and every byte counts. Numbers are
 * little-endian on every machine. */
typedef struct serial {
    unsigned char at[512];
    size_t n;
} serial;

static void put_u64(serial *s, uint64_t v);

static void fold(serial *s) {
    tk_hash128 h = tk_hash128_bytes(s->at, s->n);
    s->n = 0;
    put_u64(s, h.lo);
    put_u64(s, h.hi);
}

static void put_u64(serial *s, uint64_t v) {
    if (s->n + 8 > sizeof s->at)
        fold(s);
    for (int i = 0; i < 8; i++)
        s->at[s->n++] = (unsigned char)(v >> (8 * i));
}

static void put_hash(serial *s, tk_hash128 h) {
    put_u64(s, h.lo);
    put_u64(s, h.hi);
}

static void put_attr(serial *s, tk_attr_kind kind, tk_attr value) {
    bool is_blob = kind == TK_ATTR_STR || kind == TK_ATTR_BYTES || kind == TK_ATTR_INTS;
    if (!is_blob) {
        put_u64(s, (uint64_t)value.i);
        return;
    }
    if (!value.blob) { /* absent is not empty */
        put_u64(s, UINT64_MAX);
        return;
    }
    put_u64(s, value.blob->n);
    if (value.blob->str)
        put_hash(s, tk_hash128_bytes(value.blob->str, value.blob->n));
    for (size_t i = 0; value.blob->ints && i < value.blob->n; i++)
        put_u64(s, (uint64_t)value.blob->ints[i]);
}

static tk_hash128 key_of(const tolk_uop *u, const tk_key_memo *keys) {
    serial s = {.n = 0};
    /* The name, not the number: a new row in the table leaves the keys of other ops alone. */
    const char *name = tk_op_get(tk_uop_op(u))->name;
    put_u64(&s, tk_hash64_bytes(name, strlen(name)));
    put_u64(&s, (uint64_t)u->flags | (uint64_t)u->dtype << 32);
    put_u64(&s, u->n_src);
    if (u->op == TK_OP_CONST)
        put_u64(&s, tk_uop_bits(u));
    uint32_t n_attr = tk_op_n_attr(tk_uop_op(u));
    const tk_attr_info *info = &tk_op_attrs[tk_op_get(tk_uop_op(u))->attr_first];
    for (uint32_t i = 0; i < n_attr; i++)
        put_attr(&s, info[i].kind, u->attr[i]);
    for (uint32_t i = 0; i < u->n_src; i++)
        put_hash(&s, keys[u->src[i]->id].key);
    return tk_hash128_bytes(s.at, s.n);
}

tk_hash128 tk_key(const tolk_uop *u) {
    tolk_graph *g = u->graph;
    size_t done = g->keys.n;
    if (u->id < done)
        return g->keys.at[u->id].key;
    if (!tk_vec_resize(&g->keys, (size_t)u->id + 1)) {
        tk_graph_fail(g, TOLK_E_NOMEM, "out of memory");
        return (tk_hash128){0, 0};
    }
    /* Sources have lower ids: in the order of ids all are ready, and depth costs no stack. */
    for (size_t id = done; id <= u->id; id++)
        g->keys.at[id] = (tk_key_memo){key_of(g->nodes.at[id], g->keys.at), true};
    return g->keys.at[u->id].key;
}

tolk_key tolk_uop_key(const tolk_uop *u) {
    tk_hash128 h = tk_key(u);
    return (tolk_key){h.lo, h.hi};
}
