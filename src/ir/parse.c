/* SPDX-License-Identifier: MIT
 *
 * The text form, read; docs/ir.md, "Text", is its grammar. Every node is checked by the rules of
 * its op (check.h). Nothing nests but brackets of depth one, so nothing recurses, and a graph may
 * be as deep as it has lines.
 *
 * Columns of errors count bytes, from 1.
 */
#include "base/near.h"
#include "base/phases.h"
#include "ir/check.h"
#include "ir/dtype.h"
#include "ir/literal.h"
#include "ir/uop.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A node may have TK_MANY sources, each at most "%1048575, ", and 2 MiB of string attributes, which
 * escapes make six times longer: with 16 MiB a line, whatever is printed can be read. */
enum {
    MAX_TEXT_BYTES = 256 << 20,
    MAX_LINE_BYTES = 16 << 20,
    MAX_STRING_BYTES = 2 << 20,
    MAX_LIST = 1 << 16,
    MAX_LINES = 1 << 20,      /* that define nodes */
    MAX_ALL_SOURCES = 1 << 23 /* of the whole text */
};

/* What a line defined. */
typedef struct definition {
    const tolk_uop *u;
    uint32_t line;
    bool used;
} definition;

typedef struct parser {
    tolk_graph *g;
    const char *text, *at, *end; /* at: cursor; end: of the current line */
    const char *line_at, *next;  /* of the current line, and of the next one */
    const char *text_end;
    uint32_t line;
    uint32_t flags;
    uint8_t stages; /* that ops must be of */
    size_t n_sources;
    tk_map numbers; /* N -> index of its definition */
    TK_VEC(definition) defs;
    TK_VEC(const tolk_uop *) src;
    TK_VEC(int64_t) ints;
    tk_strbuf string;
    tolk_error *err;
} parser;

/* ---- errors ---- */

__attribute__((format(printf, 4, 5))) static tolk_status
fail_at(parser *p, const char *where, tolk_status code, const char *fmt, ...) {
    char msg[sizeof((tolk_error *)0)->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return tk_status_fail_at(p->err, code, p->line, (uint32_t)(where - p->line_at) + 1, "%s", msg);
}

/* A piece of the text for a message: quoted, cut, and printable. */
typedef struct excerpt {
    char text[64];
} excerpt;

static excerpt quote(const char *s, size_t n) {
    excerpt e;
    size_t out = 0, i = 0;
    e.text[out++] = '"';
    for (; i < n && out < sizeof e.text - 12; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != 0x7f) {
            e.text[out++] = (char)c;
        } else {
            snprintf(e.text + out, 5, "\\x%02x", c);
            out += 4;
        }
    }
    while (i < n && out > 1 && ((unsigned char)s[i] & 0xc0) == 0x80) { /* no half characters */
        i--;
        out--;
    }
    if (i < n) {
        memcpy(e.text + out, "...", 3);
        out += 3;
    }
    e.text[out++] = '"';
    e.text[out] = 0;
    return e;
}

static bool is_word_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-' || c == '+' || c == '%' || (unsigned char)c >= 0x80;
}

static void skip_blanks(parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t'))
        p->at++;
}

static bool at_line_end(const parser *p) {
    return p->at == p->end || *p->at == ';';
}

/* "expected X, found Y", where Y is what stands at the cursor. */
static tolk_status expected(parser *p, const char *what) {
    if (at_line_end(p))
        return fail_at(p, p->at, TOLK_E_PARSE, "expected %s, found the end of the line", what);
    const char *q = p->at + 1;
    if (is_word_char(*p->at))
        while (q < p->end && is_word_char(*q))
            q++;
    excerpt e = quote(p->at, (size_t)(q - p->at));
    return fail_at(p, p->at, TOLK_E_PARSE, "expected %s, found %s", what, e.text);
}

/* What the graph recorded since it was clear. */
static tolk_status graph_failure(parser *p, const char *where) {
    return fail_at(p, where, p->g->error.code, "%s", p->g->error.msg);
}

static tolk_status no_memory(parser *p) {
    return fail_at(p, p->at, TOLK_E_NOMEM, "out of memory");
}

/* ---- tokens ---- */

static bool accept(parser *p, char c) {
    skip_blanks(p);
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static tolk_status expect(parser *p, char c, const char *what) {
    return accept(p, c) ? TOLK_OK : expected(p, what);
}

/* [A-Za-z0-9_]+; *n = 0 if there is none. */
static const char *word(parser *p, size_t *n) {
    skip_blanks(p);
    const char *from = p->at;
    while (p->at < p->end && (*p->at == '_' || (*p->at >= '0' && *p->at <= '9') ||
                              (*p->at >= 'a' && *p->at <= 'z') || (*p->at >= 'A' && *p->at <= 'Z')))
        p->at++;
    *n = (size_t)(p->at - from);
    return from;
}

/* %N */
static tolk_status node_number(parser *p, const char *what, uint64_t *out) {
    skip_blanks(p);
    const char *from = p->at;
    if (p->end - p->at < 2 || p->at[0] != '%' || p->at[1] < '0' || p->at[1] > '9')
        return expected(p, what);
    p->at++;
    uint64_t v = 0;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p->at - '0'), &v))
            return fail_at(p, from, TOLK_E_LIMIT, "the number of a node does not fit 64 bits");
    *out = v;
    return TOLK_OK;
}

static tolk_status integer(parser *p, const char *what, int64_t *out) {
    skip_blanks(p);
    const char *from = p->at;
    const char *q = p->at + (p->at < p->end && *p->at == '-');
    while (q < p->end && is_word_char(*q))
        q++;
    uint64_t bits;
    size_t n = (size_t)(q - from);
    switch (tk_literal_read(TOLK_I64, from, n, &bits)) {
    case TK_LITERAL_OK:
        p->at = q;
        *out = (int64_t)bits;
        return TOLK_OK;
    case TK_LITERAL_RANGE:
        return fail_at(p, from, TOLK_E_PARSE, "%s: %s does not fit a signed 64-bit integer", what,
                       quote(from, n).text);
    case TK_LITERAL_SYNTAX:
        break;
    }
    char full[80];
    snprintf(full, sizeof full, "an integer for %s", what);
    return expected(p, full);
}

/* A JSON string, decoded into p->string. */
static tolk_status string(parser *p, const char *key) {
    skip_blanks(p);
    const char *from = p->at;
    if (p->at == p->end || *p->at != '"') {
        char full[80];
        snprintf(full, sizeof full, "a string for %s", key);
        return expected(p, full);
    }
    p->at++;
    p->string.n = 0;
    tk_strbuf_bytes(&p->string, "", 0);
    for (;;) {
        const char *run = p->at;
        while (p->at < p->end && *p->at != '"' && *p->at != '\\' && (unsigned char)*p->at >= 0x20)
            p->at++;
        tk_strbuf_bytes(&p->string, run, (size_t)(p->at - run));
        if (p->string.n > MAX_STRING_BYTES)
            return fail_at(p, from, TOLK_E_LIMIT, "%s: a string of more than %d bytes", key,
                           MAX_STRING_BYTES);
        if (p->at == p->end)
            return fail_at(p, from, TOLK_E_PARSE, "%s: the string has no closing quote", key);
        if (*p->at == '"')
            break;
        if (*p->at != '\\')
            return fail_at(p, p->at, TOLK_E_PARSE,
                           "%s: control character 0x%02x in a string, expected an escape", key,
                           (unsigned char)*p->at);
        char utf8[4];
        size_t n, used = tk_literal_read_escape(p->at + 1, (size_t)(p->end - p->at) - 1, utf8, &n);
        if (!used)
            return fail_at(p, p->at, TOLK_E_PARSE,
                           "%s: %s is no escape, expected one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t "
                           "\\uXXXX (surrogates in pairs)",
                           key, quote(p->at, p->end - p->at < 2 ? 1 : 2).text);
        if (n == 1 && !utf8[0])
            return fail_at(p, p->at, TOLK_E_PARSE, "%s: a string cannot hold NUL", key);
        tk_strbuf_bytes(&p->string, utf8, n);
        p->at += 1 + used;
    }
    p->at++;
    return p->string.failed ? no_memory(p) : TOLK_OK;
}

/* ---- attributes ---- */

static tolk_status string_value(parser *p, const char *key, tk_attr *out) {
    TK_TRY(string(p, key));
    out->blob = tk_blob_str(p->g, p->string.at, p->string.n);
    return out->blob ? TOLK_OK : no_memory(p);
}

static tolk_status bytes_value(parser *p, const char *key, tk_attr *out) {
    skip_blanks(p);
    const char *from = p->at;
    TK_TRY(string(p, key));
    /* Two digits become one byte in place. */
    for (size_t i = 0; i < p->string.n; i++) {
        uint64_t byte;
        char digits[4] = {'0', 'x', p->string.at[i & ~(size_t)1], p->string.at[i]};
        if (p->string.n % 2 || tk_literal_read(TOLK_U8, digits, 4, &byte) != TK_LITERAL_OK)
            return fail_at(p, from, TOLK_E_PARSE, "%s: expected a string of two hex digits a byte",
                           key);
        if (i % 2)
            p->string.at[i / 2] = (char)byte;
    }
    out->blob = tk_blob_str(p->g, p->string.at, p->string.n / 2);
    return out->blob ? TOLK_OK : no_memory(p);
}

static tolk_status ints_value(parser *p, const char *key, tk_attr *out) {
    char what[80];
    snprintf(what, sizeof what, "a list of integers for %s, as [1, 2]", key);
    p->ints.n = 0;
    TK_TRY(expect(p, '[', what));
    if (!accept(p, ']'))
        do {
            int64_t v;
            if (p->ints.n == MAX_LIST)
                return fail_at(p, p->at, TOLK_E_LIMIT, "%s: more than %d integers", key, MAX_LIST);
            TK_TRY(integer(p, key, &v));
            if (!tk_vec_push(&p->ints, v))
                return no_memory(p);
            if (accept(p, ']'))
                break;
            TK_TRY(expect(p, ',', "\",\" or \"]\""));
        } while (true);
    out->blob = tk_blob_ints(p->g, p->ints.at, p->ints.n);
    return out->blob ? TOLK_OK : no_memory(p);
}

static tolk_status word_value(parser *p, const tk_attr_info *info, tk_attr *out) {
    skip_blanks(p);
    const char *from = p->at;
    size_t n;
    const char *s = word(p, &n);
    if (info->kind == TK_ATTR_BOOL) {
        uint64_t bits;
        if (tk_literal_read(TOLK_BOOL, s, n, &bits) == TK_LITERAL_OK) {
            out->i = (int64_t)bits;
            return TOLK_OK;
        }
    } else if ((out->i = tk_op_enum_find(info->kind, s, n)) >= 0) {
        return TOLK_OK;
    }
    char what[160];
    int used = snprintf(what, sizeof what, "for %s one of", info->key);
    if (info->kind == TK_ATTR_BOOL)
        snprintf(what + used, sizeof what - (size_t)used, " true, false");
    else
        for (int64_t i = 0; tk_op_enum_text(info->kind, i); i++)
            used += snprintf(what + used, sizeof what - (size_t)used, "%s %s", i ? "," : "",
                             tk_op_enum_text(info->kind, i));
    p->at = from;
    return expected(p, what);
}

static tolk_status value(parser *p, const tk_attr_info *info, tk_attr *out) {
    switch (info->kind) {
    case TK_ATTR_INT:
        return integer(p, info->key, &out->i);
    case TK_ATTR_STR:
        return string_value(p, info->key, out);
    case TK_ATTR_INTS:
        return ints_value(p, info->key, out);
    case TK_ATTR_BYTES:
        return bytes_value(p, info->key, out);
    case TK_ATTR_BOOL:
    case TK_ATTR_SPACE:
    case TK_ATTR_AXIS:
    case TK_ATTR_ROP:
        break;
    }
    return word_value(p, info, out);
}

enum { MAX_ATTRS = 8, NEAR_BYTES = 160 };

static tolk_status no_attribute(parser *p, tk_op op, const char *key, size_t n) {
    const tk_attr_info *info = &tk_op_attrs[tk_op_get(op)->attr_first];
    tk_near near = tk_near_start(key, n);
    char hint[NEAR_BYTES], known[NEAR_BYTES] = "";
    for (uint32_t i = 0, used = 0; i < tk_op_n_attr(op) && used < sizeof known; i++) {
        tk_near_try(&near, info[i].key);
        used += (uint32_t)snprintf(known + used, sizeof known - used, "%s%s",
                                   i ? ", " : ": expected ", info[i].key);
    }
    return fail_at(p, key, TOLK_E_PARSE, "%s has no attribute %s%s%s", tk_op_get(op)->name,
                   quote(key, n).text, known, tk_near_text(&near, hint, sizeof hint));
}

/* The optional "{...}". attrs: room for MAX_ATTRS, filled in table order, defaults included. */
static tolk_status attributes(parser *p, tk_op op, const char *op_at, tk_attr *attrs) {
    const tk_attr_info *info = &tk_op_attrs[tk_op_get(op)->attr_first];
    uint32_t n_attr = tk_op_n_attr(op);
    const char *name = tk_op_get(op)->name;
    bool given[MAX_ATTRS] = {false};
    TK_ASSERT(n_attr <= MAX_ATTRS);
    for (uint32_t i = 0; i < n_attr; i++)
        if (info[i].kind == TK_ATTR_STR || info[i].kind == TK_ATTR_INTS ||
            info[i].kind == TK_ATTR_BYTES)
            attrs[i].blob = NULL;
        else
            attrs[i].i = info[i].def;
    if (accept(p, '{'))
        do {
            size_t n;
            const char *key = word(p, &n);
            if (!n)
                return expected(p, "the key of an attribute");
            uint32_t i = 0;
            while (i < n_attr && !(strlen(info[i].key) == n && memcmp(info[i].key, key, n) == 0))
                i++;
            if (i == n_attr)
                return no_attribute(p, op, key, n);
            if (given[i])
                return fail_at(p, key, TOLK_E_PARSE, "%s: attribute \"%s\" is given twice", name,
                               info[i].key);
            given[i] = true;
            TK_TRY(expect(p, '=', "\"=\" after the key of an attribute"));
            TK_TRY(value(p, &info[i], &attrs[i]));
            if (accept(p, '}'))
                break;
            TK_TRY(expect(p, ',', "\",\" or \"}\" after an attribute"));
        } while (true);
    for (uint32_t i = 0; i < n_attr; i++)
        if (info[i].required && !given[i])
            return fail_at(p, op_at, TOLK_E_PARSE, "%s: attribute \"%s\" is missing", name,
                           info[i].key);
    return TOLK_OK;
}

/* ---- nodes ---- */

static tolk_status sources(parser *p) {
    p->src.n = 0;
    if (!accept(p, '('))
        return TOLK_OK;
    do {
        uint64_t number;
        skip_blanks(p);
        const char *from = p->at;
        TK_TRY(node_number(p, "a source, as %3", &number));
        uint64_t *found = tk_map_find(&p->numbers, number);
        if (!found)
            return fail_at(p, from, TOLK_E_PARSE, "%s is used before it is defined",
                           quote(from, (size_t)(p->at - from)).text);
        if (p->src.n == TK_MANY || p->n_sources == MAX_ALL_SOURCES)
            return fail_at(p, from, TOLK_E_LIMIT,
                           "more than %d sources of one node, or %d of all nodes", TK_MANY,
                           MAX_ALL_SOURCES);
        definition *d = &p->defs.at[*found];
        d->used = true;
        p->n_sources++;
        if (!tk_vec_push(&p->src, d->u))
            return no_memory(p);
        if (accept(p, ')'))
            return TOLK_OK;
        TK_TRY(expect(p, ',', "\",\" or \")\" after a source"));
    } while (true);
}

static tolk_status constant(parser *p, tolk_dtype dtype, const tolk_uop **out) {
    char name[16];
    tk_dtype_text(dtype, name);
    skip_blanks(p);
    const char *from = p->at;
    if (dtype == TOLK_VOID || tolk_dtype_lanes(dtype) != 1)
        return fail_at(p, from, TOLK_E_PARSE, "const: dtype %s, expected a scalar one", name);
    const char *q = from;
    while (q < p->end && *q != ' ' && *q != '\t' && *q != ';' && *q != '{')
        q++;
    size_t n = (size_t)(q - from);
    char what[64];
    snprintf(what, sizeof what, "a literal of %s", name);
    if (!n)
        return expected(p, what);
    p->at = q;
    if (n == 7 && memcmp(from, "invalid", 7) == 0) {
        if (dtype != TOLK_INDEX)
            return fail_at(p, from, TOLK_E_PARSE, "const: invalid is of dtype index, not %s", name);
        *out = tk_uop_invalid(p->g);
        return *out ? TOLK_OK : graph_failure(p, from);
    }
    uint64_t bits;
    switch (tk_literal_read(dtype, from, n, &bits)) {
    case TK_LITERAL_OK:
        *out = tk_uop_const(p->g, dtype, bits);
        return *out ? TOLK_OK : graph_failure(p, from);
    case TK_LITERAL_RANGE:
        return fail_at(p, from, TOLK_E_PARSE, "const: %s is out of the range of %s",
                       quote(from, n).text, name);
    case TK_LITERAL_SYNTAX:
        break;
    }
    return fail_at(p, from, TOLK_E_PARSE, "const: expected %s, found %s", what,
                   quote(from, n).text);
}

static const char *stage_name(uint8_t stages) {
    return stages == TK_STAGE_T ? "tensor" : stages == TK_STAGE_K ? "kernel" : "program";
}

/* OP DTYPE ... up to the end of the line or the comment. */
static tolk_status node(parser *p, const tolk_uop **out) {
    size_t n;
    const char *op_at = word(p, &n);
    tk_op op;
    if (!n)
        return expected(p, "an op");
    char hint[NEAR_BYTES];
    if (!tk_op_find(op_at, n, &op)) {
        tk_near near = tk_near_start(op_at, n);
        for (int i = 0; i < TK_OP_COUNT; i++)
            tk_near_try(&near, tk_op_get((tk_op)i)->name);
        return fail_at(p, op_at, TOLK_E_PARSE, "there is no op %s%s", quote(op_at, n).text,
                       tk_near_text(&near, hint, sizeof hint));
    }
    const tk_op_info *info = tk_op_get(op);
    if (!(info->stages & p->stages))
        return fail_at(p, op_at, TOLK_E_PARSE, "%s is not an op of the %s stage", info->name,
                       stage_name(p->stages));
    if (op == TK_OP_BINARY && !(p->flags & TOLK_PARSE_TRUSTED))
        return fail_at(p, op_at, TOLK_E_PARSE,
                       "binary: machine code is accepted from trusted texts only "
                       "(TOLK_PARSE_TRUSTED, --trusted)");
    const char *dtype_at = word(p, &n);
    tolk_dtype dtype;
    if (!n)
        return expected(p, "a dtype");
    if (!tolk_dtype_parse(dtype_at, n, &dtype)) {
        tk_near near = tk_near_start(dtype_at, n);
        for (tolk_dtype i = 0; i < TOLK_DTYPE_COUNT; i++)
            tk_near_try(&near, tolk_dtype_name(i));
        return fail_at(p, dtype_at, TOLK_E_PARSE, "there is no dtype %s%s", quote(dtype_at, n).text,
                       tk_near_text(&near, hint, sizeof hint));
    }
    if (op == TK_OP_CONST)
        return constant(p, dtype, out);
    tk_attr attrs[MAX_ATTRS];
    TK_TRY(sources(p));
    TK_TRY(attributes(p, op, op_at, attrs));
    skip_blanks(p);
    if (!at_line_end(p))
        return expected(p, p->src.n ? "\"{\" or the end of the line"
                                    : "\"(\", \"{\" or the end of the line");
    tolk_error why = TOLK_ERROR_INIT;
    tolk_status st = tk_check_node(p->g, op, dtype, p->src.at, p->src.n, attrs, &why);
    if (st != TOLK_OK)
        return fail_at(p, op_at, st, "%s", why.msg);
    *out = tk_uop(p->g, op, dtype, p->src.at, p->src.n, attrs);
    return *out ? TOLK_OK : graph_failure(p, op_at);
}

/* A later text takes over the nodes that it shares with an earlier one: the last one read is the
 * one whose nodes have all their places. */
static bool keep_place(parser *p, const tolk_uop *u, uint64_t number, const char *at) {
    tolk_graph *g = p->g;
    if (u->id >= g->places.n && !tk_vec_resize(&g->places, u->id + 1))
        return false;
    tk_place *place = &g->places.at[u->id];
    if (place->text != g->n_texts)
        *place = (tk_place){p->line, (uint32_t)(at - p->line_at) + 1, g->n_texts, number};
    return true;
}

static tolk_status definition_line(parser *p) {
    skip_blanks(p);
    if (at_line_end(p))
        return TOLK_OK;
    const char *from = p->at;
    uint64_t number;
    TK_TRY(node_number(p, "a node, as %0 = ...", &number));
    uint64_t *old = tk_map_find(&p->numbers, number);
    if (old)
        return fail_at(p, from, TOLK_E_PARSE, "%s is defined twice, before in line %u",
                       quote(from, (size_t)(p->at - from)).text, p->defs.at[*old].line);
    if (p->defs.n == MAX_LINES)
        return fail_at(p, from, TOLK_E_LIMIT, "more than %d nodes", MAX_LINES);
    TK_TRY(expect(p, '=', "\"=\" after the number of a node"));
    skip_blanks(p);
    const char *op_at = p->at;
    const tolk_uop *u = NULL;
    TK_TRY(node(p, &u));
    skip_blanks(p);
    if (!at_line_end(p))
        return expected(p, "the end of the line");
    if (!keep_place(p, u, number, op_at) || !tk_map_put(&p->numbers, number, p->defs.n) ||
        !tk_vec_push(&p->defs, ((definition){u, p->line, false})))
        return no_memory(p);
    return TOLK_OK;
}

/* ---- lines ---- */

/* Makes the next line current. False at the end of the text. */
static bool next_line(parser *p) {
    if (p->next == p->text_end)
        return false;
    const char *lf = memchr(p->next, '\n', (size_t)(p->text_end - p->next));
    p->at = p->line_at = p->next;
    p->end = lf ? lf : p->text_end;
    p->next = lf ? lf + 1 : p->text_end;
    return true;
}

/* The place behind a line: that of the next one, or the end of a last line without LF. */
static void end_line(parser *p) {
    if (p->next[-1] == '\n') {
        p->line_at = p->next;
        p->line++;
    }
}

/* Rule 1, before anything of the line is looked at. Drops the CR of a CRLF. */
static tolk_status check_line(parser *p) {
    if (p->end - p->at > MAX_LINE_BYTES)
        return fail_at(p, p->at, TOLK_E_LIMIT, "a line of more than %d bytes", MAX_LINE_BYTES);
    if (p->end < p->text_end && p->end > p->at && p->end[-1] == '\r')
        p->end--;
    size_t n = (size_t)(p->end - p->at), valid = tk_literal_utf8(p->at, n);
    if (valid < n)
        return fail_at(p, p->at + valid, TOLK_E_PARSE, "byte 0x%02x is not UTF-8",
                       (unsigned char)p->at[valid]);
    for (const char *q = p->at; q < p->end; q++)
        if ((unsigned char)*q < 0x20 && *q != '\t')
            return fail_at(p, q, TOLK_E_PARSE, "control character 0x%02x", (unsigned char)*q);
    return TOLK_OK;
}

static tolk_status header(parser *p) {
    static const char expects[] = "the header \"tolk.uop 1\"";
    static const char magic[] = "tolk.uop";
    size_t n;
    if (p->end - p->at >= 3 && memcmp(p->at, "\xef\xbb\xbf", 3) == 0)
        return fail_at(p, p->at, TOLK_E_PARSE, "expected %s, found a byte order mark", expects);
    if ((size_t)(p->end - p->at) < sizeof magic - 1 || memcmp(p->at, magic, sizeof magic - 1) != 0)
        return expected(p, expects);
    p->at += sizeof magic - 1;
    const char *version = word(p, &n);
    if (n != 1 || *version != '1' || version == p->line_at + sizeof magic - 1) {
        p->at = version;
        return expected(p, "version 1 after \"tolk.uop\"");
    }
    skip_blanks(p);
    if (at_line_end(p))
        return TOLK_OK;
    const char *key = word(p, &n);
    if (n != 5 || memcmp(key, "stage", 5) != 0) {
        p->at = key;
        return expected(p, "\"stage=\" or the end of the line");
    }
    TK_TRY(expect(p, '=', "\"=\" after \"stage\""));
    const char *name = word(p, &n);
    for (p->stages = TK_STAGE_T; p->stages <= TK_STAGE_P; p->stages <<= 1)
        if (strlen(stage_name(p->stages)) == n && memcmp(stage_name(p->stages), name, n) == 0)
            break;
    if (p->stages > TK_STAGE_P) {
        p->at = name;
        return expected(p, "tensor, kernel or program");
    }
    skip_blanks(p);
    return at_line_end(p) ? TOLK_OK : expected(p, "the end of the line");
}

static tolk_status all_lines(parser *p, const tolk_uop **root) {
    for (bool first = true; next_line(p); first = false) {
        TK_TRY(check_line(p));
        TK_TRY(first ? header(p) : definition_line(p));
        end_line(p);
    }
    p->at = p->end = p->text_end;
    if (p->text == p->text_end)
        return fail_at(p, p->at, TOLK_E_PARSE, "expected the header \"tolk.uop 1\", found no text");
    if (!p->defs.n)
        return fail_at(p, p->at, TOLK_E_PARSE, "expected a node, found the end of the text");
    /* Each line but the last has a later one that uses it: then, step by step, all reach the last.
     */
    for (size_t i = 0; i + 1 < p->defs.n; i++)
        if (!p->defs.at[i].used) {
            p->line = p->defs.at[i].line;
            p->line_at = p->at;
            return fail_at(p, p->at, TOLK_E_PARSE,
                           "this node is not used: the root, in line %u, does not reach it",
                           tk_vec_last(&p->defs).line);
        }
    *root = tk_vec_last(&p->defs).u;
    return TOLK_OK;
}

tolk_status tolk_parse(tolk_graph *graph, const char *text, size_t len, uint32_t flags,
                       const tolk_uop **root, tolk_error *err) {
    if (!graph || !root || (len && !text))
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_parse: an argument is NULL");
    if (flags & ~(uint32_t)TOLK_PARSE_TRUSTED)
        return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE, "tolk_parse: unknown flags 0x%x", flags);
    if (len > MAX_TEXT_BYTES)
        return tk_status_fail_at(err, TOLK_E_LIMIT, 1, 1, "a text of %zu bytes, at most %d", len,
                                 MAX_TEXT_BYTES);
    uint64_t start = tk_phases_now_ns();
    if (!len)
        text = ""; /* it may be NULL */
    parser p = {.g = graph,
                .text = text,
                .at = text,
                .end = text,
                .line_at = text,
                .next = text,
                .text_end = text + len,
                .line = 1,
                .flags = flags,
                .stages = TK_STAGE_T | TK_STAGE_K | TK_STAGE_P,
                .err = err};
    tk_map_init(&p.numbers, graph->al);
    tk_vec_init(&p.defs, graph->al);
    tk_vec_init(&p.src, graph->al);
    tk_vec_init(&p.ints, graph->al);
    tk_strbuf_init(&p.string, graph->al);
    /* A wrong text is the caller's to hear of, not the graph's to remember. */
    tolk_error before = graph->error;
    graph->error.code = TOLK_OK;
    graph->n_texts++;
    tolk_status st = all_lines(&p, root);
    graph->error = before;
    tk_map_fini(&p.numbers);
    tk_vec_fini(&p.defs);
    tk_vec_fini(&p.src);
    tk_vec_fini(&p.ints);
    tk_strbuf_fini(&p.string);
    graph->parse_ns = tk_phases_now_ns() - start;
    return st;
}
