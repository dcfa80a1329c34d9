/* SPDX-License-Identifier: MIT
 *
 * Everything that a launch checks and knows (jit/meta.h), as C text. Names of the kernel and of its
 * parameters may be any text: in code they appear only where they are plain identifiers.
 */
#include "jit/header.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "ir/dtype.h"
#include "jit/cname.h"
#include "jit/kenv.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

tolk_status tk_header_symbol(const char *asked, const char *kernel, char out[TK_HEADER_SYMBOL],
                             tolk_error *err) {
    if (asked) {
        if (!tk_cname_is_identifier(asked) || strlen(asked) > TK_HEADER_SYMBOL / 2)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "symbol \"%.80s\": expected an identifier of C, at most %d bytes",
                                  asked, TK_HEADER_SYMBOL / 2);
        const char *taken = tk_cname_of_function(asked);
        if (taken)
            return tk_status_fail(err, TOLK_E_ARG, TK_NO_NODE,
                                  "symbol \"%s\" is %s: expected an identifier of C that has no "
                                  "meaning yet",
                                  asked, taken);
        snprintf(out, TK_HEADER_SYMBOL, "%s", asked);
        return TOLK_OK;
    }
    snprintf(out, TK_HEADER_SYMBOL, "tolk_kernel_%.80s", kernel);
    for (char *p = out; *p; p++)
        if (!tk_cname_is_letter(*p) && !tk_cname_is_digit(*p))
            *p = '_';
    if (tk_cname_of_function(out)) /* one of libtolk's functions */
        strcat(out, "_");
    return TOLK_OK;
}

/* Text of a kernel in a comment: what could end it, or is no letter, becomes '?'. */
static void put_plain(tk_strbuf *sb, const char *text) {
    for (const char *p = text; *p; p++)
        tk_strbuf_char(sb, tk_cname_is_letter(*p) || tk_cname_is_digit(*p) ||
                                   strchr(" .,:;+-=()[]<>", *p)
                               ? *p
                               : '?');
}

/* ---- parameters ---- */

typedef struct writer {
    tk_strbuf *sb;
    const tk_meta_view *m;
    const char *symbol;
    size_t n_params;
    int64_t scratch_bytes;
    bool dynamic, has_scratch;
} writer;

static const char *given_name(const writer *w, size_t i) {
    const tk_meta_param *p = &w->m->params[i];
    return p->name ? w->m->strings + p->name : NULL;
}

/* Can the parameter's own name stand in code? Capitals alone may be a macro, but for one letter. */
static bool is_plain(const writer *w, size_t i) {
    const char *name = given_name(w, i);
    if (!name || !tk_cname_is_identifier(name) || !tk_cname_can_be_parameter(name) ||
        strlen(name) > 40)
        return false;
    /* the function, and what the header makes of its name: scale_sizes, scale_h */
    size_t own = strlen(w->symbol);
    if (strncmp(name, w->symbol, own) == 0 && (!name[own] || name[own] == '_'))
        return false;
    bool lower = strlen(name) == 1;
    for (const char *p = name; *p; p++)
        lower |= *p >= 'a' && *p <= 'z';
    for (size_t k = 0; k < i; k++) {
        const char *other = given_name(w, k);
        if (other && strcmp(other, name) == 0)
            return false;
    }
    return lower;
}

static const char *code_name(const writer *w, size_t i, char buf[48]) {
    const tk_meta_param *p = &w->m->params[i];
    if (is_plain(w, i))
        snprintf(buf, 48, "%s", given_name(w, i));
    else if (p->slot < 0)
        snprintf(buf, 48, "slot_%llu", 0 - (unsigned long long)p->slot);
    else
        snprintf(buf, 48, "slot%lld", (long long)p->slot);
    return buf;
}

/* What holds an element; C has no narrow floats: their bits. */
static const char *c_type(tolk_dtype dtype) {
    switch (dtype) {
    case TOLK_I8:
        return "int8_t";
    case TOLK_I16:
        return "int16_t";
    case TOLK_I32:
        return "int32_t";
    case TOLK_I64:
    case TOLK_INDEX:
        return "int64_t";
    case TOLK_U16:
    case TOLK_F16:
    case TOLK_BF16:
        return "uint16_t";
    case TOLK_U32:
        return "uint32_t";
    case TOLK_U64:
        return "uint64_t";
    case TOLK_F32:
        return "float";
    case TOLK_F64:
        return "double";
    default:
        return "uint8_t"; /* bool, u8, fp8 */
    }
}

/* ---- numbers ---- */

static void put_i64(tk_strbuf *sb, int64_t v) {
    if (v == INT64_MIN)
        tk_strbuf_str(sb, "(-INT64_C(9223372036854775807) - 1)");
    else
        tk_strbuf_fmt(sb, "INT64_C(%lld)", (long long)v);
}

/* How an operation on values of a dtype is asked for in the header's helper. '\0': not at all. */
static char helper_op(tk_op op, tolk_dtype dtype) {
    bool truth = dtype == TOLK_BOOL;
    if (tolk_dtype_is_float(dtype) && op != TK_OP_WHERE)
        return 0;
    switch (op) {
    case TK_OP_ADD:
        return truth ? '|' : '+';
    case TK_OP_MUL:
        return truth ? '&' : '*';
    case TK_OP_MAX:
        return truth ? '|' : 'M';
    case TK_OP_SUB:
        return '-';
    case TK_OP_NEG:
        return 'n';
    case TK_OP_MULACC:
        return 'a';
    case TK_OP_CDIV:
        return '/';
    case TK_OP_CMOD:
        return '%';
    case TK_OP_FLOORDIV:
        return 'f';
    case TK_OP_FLOORMOD:
        return 'm';
    case TK_OP_SHL:
        return 'l';
    case TK_OP_SHR:
        return 'r';
    case TK_OP_AND:
        return '&';
    case TK_OP_OR:
        return '|';
    case TK_OP_XOR:
        return '^';
    case TK_OP_CMPLT:
        return '<';
    case TK_OP_CMPNE:
        return '!';
    case TK_OP_CMPEQ:
        return '=';
    case TK_OP_WHERE:
        return '?';
    default:
        return 0;
    }
}

/* Bits that values of a dtype are cut to: 1 is bool. */
static int bits_of(tolk_dtype dtype) {
    return dtype == TOLK_BOOL ? 1 : (int)tk_dtype_bits(dtype);
}

/* The value table of docs/numerics.md for integers, and whether a number of 64 bits was left
 * (tk_expr_eval), as C. */
static const char helpers_1[] =
    "#ifndef TOLK_SIZE_HELPERS\n"
    "#define TOLK_SIZE_HELPERS\n"
    "/* A number, and whether the true one does not fit it. */\n"
    "typedef struct tolk_size {\n"
    "    int64_t v;\n"
    "    int bad;\n"
    "} tolk_size;\n"
    "\n"
    "static inline int64_t tolk_size_cut(int64_t v, int bits, int is_signed) {\n"
    "    uint64_t u = (uint64_t)v, mask;\n"
    "    if (bits == 1)\n"
    "        return v != 0;\n"
    "    if (bits == 64)\n"
    "        return v;\n"
    "    mask = ((uint64_t)1 << bits) - 1;\n"
    "    u &= mask;\n"
    "    return (int64_t)(is_signed && u >> (bits - 1) ? u | ~mask : u);\n"
    "}\n"
    "\n"
    "static inline int64_t tolk_size_divide(int64_t a, int64_t b, int is_signed, int floors,\n"
    "                                       int64_t *rem) {\n"
    "    int64_t q;\n"
    "    *rem = b ? 0 : a;\n"
    "    if (b == 0)\n"
    "        return 0;\n"
    "    if (!is_signed) {\n"
    "        *rem = (int64_t)((uint64_t)a % (uint64_t)b);\n"
    "        return (int64_t)((uint64_t)a / (uint64_t)b);\n"
    "    }\n"
    "    if (b == -1)\n"
    "        return (int64_t)(0 - (uint64_t)a);\n"
    "    q = a / b;\n"
    "    *rem = a % b;\n"
    "    if (floors && *rem != 0 && (*rem < 0) != (b < 0)) {\n"
    "        q--;\n"
    "        *rem += b;\n"
    "    }\n"
    "    return q;\n"
    "}\n"
    "\n"
    "static inline int tolk_size_sum_leaves(int64_t a, int64_t b) {\n"
    "    return b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b;\n"
    "}\n"
    "\n"
    "static inline int tolk_size_product_leaves(int64_t a, int64_t b) {\n"
    "    if (a == 0 || b == 0)\n"
    "        return 0;\n"
    "    if (a == -1 || b == -1)\n"
    "        return a == INT64_MIN || b == INT64_MIN;\n"
    "    return (int64_t)((uint64_t)a * (uint64_t)b) / b != a;\n"
    "}\n"
    "\n"
    "static inline uint64_t tolk_size_shift_right(uint64_t x, uint64_t y, int is_signed) {\n"
    "    const uint64_t sign = is_signed && x >> 63 ? UINT64_MAX : 0;\n"
    "    return y >= 64 ? sign : (x ^ sign) >> y ^ sign;\n"
    "}\n"
    "\n";
static const char helpers_2[] =
    "/* bits: of the operands; wide: they are signed and of 64 bits, so results must fit. */\n"
    "static inline tolk_size tolk_size_op(char op, int bits, int is_signed, tolk_size a,\n"
    "                                     tolk_size b, tolk_size c) {\n"
    "    const int wide = bits == 64 && is_signed;\n"
    "    uint64_t x = (uint64_t)a.v, y = (uint64_t)b.v, r = 0;\n"
    "    int leaves = 0;\n"
    "    int64_t rem;\n"
    "    tolk_size out;\n"
    "    switch (op) {\n"
    "    case '?':\n"
    "        out.v = a.v ? b.v : c.v;\n"
    "        out.bad = a.bad || (a.v ? b.bad : c.bad);\n"
    "        return out;\n"
    "    case '<':\n"
    "        r = is_signed ? a.v < b.v : x < y;\n"
    "        bits = 1;\n"
    "        break;\n"
    "    case '!':\n"
    "        r = x != y;\n"
    "        bits = 1;\n"
    "        break;\n"
    "    case '=':\n"
    "        r = x == y;\n"
    "        bits = 1;\n"
    "        break;\n"
    "    case '+':\n"
    "        r = x + y;\n"
    "        leaves = tolk_size_sum_leaves(a.v, b.v);\n"
    "        break;\n"
    "    case '-':\n"
    "        r = x - y;\n"
    "        leaves = b.v < 0 ? a.v > INT64_MAX + b.v : a.v < INT64_MIN + b.v;\n"
    "        break;\n"
    "    case 'n':\n"
    "        r = 0 - x;\n"
    "        leaves = a.v == INT64_MIN;\n"
    "        break;\n"
    "    case '*':\n"
    "        r = x * y;\n"
    "        leaves = tolk_size_product_leaves(a.v, b.v);\n"
    "        if ((a.v == 0 && !a.bad) || (b.v == 0 && !b.bad))\n"
    "            a.bad = b.bad = 0;\n"
    "        break;\n"
    "    case 'a':\n"
    "        r = x * y + (uint64_t)c.v;\n"
    "        leaves = tolk_size_product_leaves(a.v, b.v) ||\n"
    "                 tolk_size_sum_leaves((int64_t)(x * y), c.v);\n"
    "        break;\n"
    "    case 'M':\n"
    "        r = (is_signed ? a.v < b.v : x < y) ? y : x;\n"
    "        break;\n"
    "    case '/':\n"
    "    case 'f':\n"
    "        r = (uint64_t)tolk_size_divide(a.v, b.v, is_signed, op == 'f', &rem);\n"
    "        leaves = a.v == INT64_MIN && b.v == -1;\n"
    "        break;\n"
    "    case '%':\n"
    "    case 'm':\n"
    "        (void)tolk_size_divide(a.v, b.v, is_signed, op == 'm', &rem);\n"
    "        r = (uint64_t)rem;\n"
    "        break;\n"
    "    case 'l':\n"
    "        r = y >= (uint64_t)bits ? 0 : x << y;\n"
    "        leaves = a.v != 0 && (y >= 64 || tolk_size_shift_right(r, y, 1) != x);\n"
    "        break;\n"
    "    case 'r':\n"
    "        r = tolk_size_shift_right(x, y, is_signed);\n"
    "        break;\n"
    "    case '&':\n"
    "        r = x & y;\n"
    "        break;\n"
    "    case '|':\n"
    "        r = x | y;\n"
    "        break;\n"
    "    case '^':\n"
    "        r = x ^ y;\n"
    "        break;\n"
    "    default:\n"
    "        break;\n"
    "    }\n"
    "    out.v = tolk_size_cut((int64_t)r, bits, is_signed);\n"
    "    out.bad = a.bad || b.bad || c.bad || (wide && leaves);\n"
    "    return out;\n"
    "}\n"
    "\n"
    "/* u64: is the operand of that dtype? A large one fits no signed number. */\n"
    "static inline tolk_size tolk_size_cast(int bits, int is_signed, int u64, tolk_size a) {\n"
    "    tolk_size out;\n"
    "    out.v = tolk_size_cut(a.v, bits, is_signed);\n"
    "    out.bad = a.bad || (bits == 64 && is_signed && u64 && a.v < 0);\n"
    "    return out;\n"
    "}\n"
    "#endif\n\n";

/* Is a value a constant of the text: one step without any before it? */
static bool is_number(const writer *w, uint16_t value) {
    return w->m->steps[value].op == TK_OP_CONST;
}

/* The steps that sizes need a variable for: in[i]. Errors: TOLK_E_UNSUPPORTED. */
static tolk_status find_needed(const writer *w, bool *in, tolk_error *err) {
    const tk_meta *h = w->m->head;
    in[h->span] = !is_number(w, h->span);
    for (size_t i = 0; i < w->n_params; i++)
        if (!w->m->params[i].is_scalar)
            in[w->m->params[i].size] |= !is_number(w, w->m->params[i].size);
    for (uint32_t i = h->n_steps; i-- > 0;) {
        const tk_expr_step *s = &w->m->steps[i];
        if (!in[i] || s->op == TK_OP_CONST)
            continue;
        bool is_float = tolk_dtype_is_float(s->dtype);
        if (s->op == TK_OP_PARAM && !is_float)
            continue;
        if (s->op == TK_OP_CAST)
            is_float |= tolk_dtype_is_float((tolk_dtype)s->value);
        else if (s->op != TK_OP_PARAM)
            is_float |= !helper_op((tk_op)s->op, s->dtype);
        if (is_float)
            return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                                  "C header of kernel %.60s: a size has %s of %s in it, expected "
                                  "integer arithmetic",
                                  w->m->strings + h->name, tk_op_get((tk_op)s->op)->name,
                                  tolk_dtype_name(s->dtype));
        uint32_t n = tk_op_get((tk_op)s->op)->max_src;
        in[s->a] |= n > 0;
        in[s->b] |= n > 1;
        in[s->c] |= n > 2;
    }
    return TOLK_OK;
}

static void put_step(const writer *w, uint32_t i) {
    const tk_expr_step *s = &w->m->steps[i];
    tk_strbuf *sb = w->sb;
    tk_strbuf_fmt(sb, "    const tolk_size s%u = ", i);
    int bits = bits_of(s->dtype), is_signed = tk_dtype_is_signed(s->dtype);
    if (s->op == TK_OP_CONST) {
        tk_strbuf_str(sb, "{");
        put_i64(sb, s->value);
        tk_strbuf_str(sb, ", 0};\n");
    } else if (s->op == TK_OP_PARAM) {
        tk_strbuf_fmt(sb, "{tolk_size_cut(vals[%lld], %d, %d), 0};\n", (long long)s->value, bits,
                      is_signed);
    } else if (s->op == TK_OP_CAST) {
        tk_strbuf_fmt(sb, "tolk_size_cast(%d, %d, %d, s%u);\n", bits, is_signed,
                      s->value == TOLK_U64, s->a);
    } else {
        uint32_t n = tk_op_get((tk_op)s->op)->max_src;
        tk_strbuf_fmt(sb, "tolk_size_op('%c', %d, %d, s%u, ", helper_op((tk_op)s->op, s->dtype),
                      bits, is_signed, s->a);
        for (uint32_t k = 1; k < 3; k++)
            if (n > k)
                tk_strbuf_fmt(sb, "s%u%s", k == 1 ? s->b : s->c, k == 1 ? ", " : ");\n");
            else
                tk_strbuf_fmt(sb, "none%s", k == 1 ? ", " : ");\n");
    }
}

/* int NAME_sizes(vals, sizes): sizes[0] the span, sizes[1 + i] the elements of buffer i. */
static tolk_status put_sizes(const writer *w, tolk_error *err) {
    const tk_meta *h = w->m->head;
    tk_strbuf *sb = w->sb;
    bool in[TK_EXPR_MAX_STEPS] = {false}, helpers = false;
    int64_t values[TK_EXPR_MAX_STEPS] = {0};
    if (tk_expr_is_constant(w->m->steps, h->n_steps)) /* written as the numbers they are */
        tk_expr_eval(w->m->steps, h->n_steps, NULL, values, NULL);
    else
        helpers = true;
    if (helpers) {
        TK_TRY(find_needed(w, in, err));
        tk_strbuf_str(sb, helpers_1);
        tk_strbuf_str(sb, helpers_2);
    }
    tk_strbuf_fmt(
        sb,
        "/* sizes[0]: the iterations of the kernel; sizes[1 + i]: the elements of bufs[i]. "
        "-1: a negative\n * number of elements, or one that does not fit. */\n"
        "static inline void %s_sizes(const int64_t *vals, int64_t *sizes) {\n",
        w->symbol);
    bool none = false;
    for (uint32_t i = 0; i < h->n_steps && helpers; i++) {
        const tk_expr_step *s = &w->m->steps[i];
        none |= in[i] && s->op != TK_OP_CONST && s->op != TK_OP_PARAM && s->op != TK_OP_CAST &&
                tk_op_get((tk_op)s->op)->max_src < 3;
    }
    if (none)
        tk_strbuf_str(sb, "    const tolk_size none = {0, 0};\n");
    for (uint32_t i = 0; i < h->n_steps && helpers; i++)
        if (in[i])
            put_step(w, i);
    tk_strbuf_str(sb, "    (void)vals;\n"); /* no size may depend on it */
    size_t n = 0;
    for (size_t i = 0; i <= w->n_params; i++) {
        if (i && w->m->params[i - 1].is_scalar)
            continue;
        uint16_t value = i ? w->m->params[i - 1].size : h->span;
        bool number = !helpers || is_number(w, value);
        int64_t v = helpers ? w->m->steps[value].value : values[value];
        tk_strbuf_fmt(sb, "    sizes[%zu] = ", n++);
        if (number)
            put_i64(sb, v > 0 ? v : i && v < 0 ? -1 : 0);
        else if (i)
            tk_strbuf_fmt(sb, "s%u.bad || s%u.v < 0 ? -1 : s%u.v", value, value, value);
        else
            tk_strbuf_fmt(sb, "s%u.bad ? -1 : s%u.v < 0 ? 0 : s%u.v", value, value, value);
        tk_strbuf_str(sb, ";\n");
    }
    tk_strbuf_str(sb, "}\n\n");
    tk_strbuf_fmt(
        sb,
        "/* Iterations of the kernel: its end, begun at 0. -1: they do not fit 63 bits. */\n"
        "static inline int64_t %s_span(const int64_t *vals) {\n"
        "    int64_t sizes[%u];\n"
        "    %s_sizes(vals, sizes);\n"
        "    return sizes[0];\n}\n\n"
        "/* Elements that bufs[buf] must have. -1: negative, too many, or there is no such "
        "buffer. */\n"
        "static inline int64_t %s_elems(int buf, const int64_t *vals) {\n"
        "    int64_t sizes[%u];\n"
        "    %s_sizes(vals, sizes);\n"
        "    return buf < 0 || buf >= %u ? -1 : sizes[1 + buf];\n}\n\n",
        w->symbol, h->n_bufs + 1, w->symbol, w->symbol, h->n_bufs + 1, w->symbol, h->n_bufs);
    return TOLK_OK;
}

/* ---- the text ---- */

static const char kenv_text[] =
    "#ifndef TOLK_KENV_DEFINED\n"
    "#define TOLK_KENV_DEFINED\n"
    "/* What a kernel gets beside its arguments, one for each thread that calls it. */\n"
    "typedef struct tolk_kenv {\n"
    "    uint64_t size;          /* sizeof(tolk_kenv) */\n"
    "    void *scratch;          /* aligned to 64; see the kernel's SCRATCH_BYTES */\n"
    "    int64_t thread;         /* number of the thread, from 0 */\n"
    "    const uint32_t *cancel; /* never NULL; not 0: leave the loops that look at it */\n"
    "    uint32_t fault;         /* 0 before; the first access out of range sets it to 1 ... */\n"
    "    uint32_t fault_slot;    /* ... and tells the slot of its parameter */\n"
    "    int64_t fault_index;    /* ... and the element */\n"
    "    int64_t dynamic_bytes;  /* of the dynamic local buffer, behind SCRATCH_BYTES; else 0 */\n"
    "} tolk_kenv;\n"
    "#endif\n\n";
_Static_assert(offsetof(tolk_kenv, size) == 0 && offsetof(tolk_kenv, scratch) == 8 &&
                   offsetof(tolk_kenv, thread) == 16 && offsetof(tolk_kenv, cancel) == 24 &&
                   offsetof(tolk_kenv, fault) == 32 && offsetof(tolk_kenv, fault_slot) == 36 &&
                   offsetof(tolk_kenv, fault_index) == 40 &&
                   offsetof(tolk_kenv, dynamic_bytes) == 48 && sizeof(tolk_kenv) == 56,
               "kenv_text is the struct of jit/kenv.h");

static void put_top(const writer *w, const tk_target *target) {
    const tk_meta *h = w->m->head;
    tk_strbuf *sb = w->sb;
    tk_strbuf_str(sb, "/* Kernel ");
    put_plain(sb, w->m->strings + h->name);
    tk_strbuf_fmt(sb,
                  ", made by tolk %d.%d.%d.\n *\n"
                  " * The object that was emitted with this header holds the function; it calls "
                  "nothing and needs no\n * library. It runs on %s",
                  TOLK_VERSION_MAJOR, TOLK_VERSION_MINOR, TOLK_VERSION_PATCH,
                  target->arch == TK_ARCH_AARCH64 ? "aarch64" : "x86-64");
    uint64_t features = tk_target_features(target);
    size_t column = 28;
    for (int f = 0, first = 1; f < TK_FEATURE_COUNT; f++)
        if (features >> f & 1) {
            const char *name = tk_target_feature_name(f);
            if (column + strlen(name) + 2 > 94) {
                tk_strbuf_str(sb, "\n *  ");
                column = 4;
            }
            tk_strbuf_fmt(sb, "%s %s", first ? " with" : "", name);
            column += strlen(name) + 1;
            first = 0;
        }
    tk_strbuf_str(sb, ".\n * Loop options: ");
    const char *opts = w->m->strings + h->opts;
    put_plain(sb, *opts ? opts : "none");
    tk_strbuf_str(sb, "\n *\n * Parameters, in ascending order of their slots:\n");
    for (size_t i = 0, bufs = 0, vals = 0; i < w->n_params; i++) {
        const tk_meta_param *p = &w->m->params[i];
        const char *name = given_name(w, i);
        if (p->is_scalar)
            tk_strbuf_fmt(sb, " *   vals[%zu]  slot %lld  ", vals++, (long long)p->slot);
        else
            tk_strbuf_fmt(sb, " *   bufs[%zu]  slot %lld  ", bufs++, (long long)p->slot);
        put_plain(sb, name ? name : "(no name)");
        tk_strbuf_fmt(sb, ": %s", tolk_dtype_name(p->dtype));
        if (!p->is_scalar)
            tk_strbuf_fmt(sb, "%s%s%s", p->loaded ? ", read" : "", p->stored ? ", written" : "",
                          p->loaded || p->stored ? "" : ", not touched");
        else if (!tolk_dtype_is_float(p->dtype) && p->dtype != TOLK_BOOL)
            tk_strbuf_fmt(sb, ", %lld to %lld", (long long)p->min, (long long)p->max);
        tk_strbuf_char(sb, '\n');
    }
    tk_strbuf_str(sb,
                  " * A scalar is the low bytes of its element of vals: an integer extended to 64 "
                  "bits, a float its bits.\n"
                  " * Arrays may begin at any address; multiples of 64 are fastest. One that is "
                  "written may overlap\n * no other one");
    for (uint32_t i = 0; i < w->m->head->n_pairs; i++)
        tk_strbuf_fmt(sb, "%s bufs[%u] and bufs[%u]",
                      i ? "," : ", but these may be the same array:", w->m->pairs[i].a,
                      w->m->pairs[i].b);
    tk_strbuf_str(sb, ".\n"
                      " * Rounding is to the nearest, and denormals are kept: call it with the "
                      "floating-point settings\n * that a program starts with.\n */\n");
}

static void put_function(const writer *w) {
    const tk_meta *h = w->m->head;
    tk_strbuf *sb = w->sb;
    tk_strbuf_str(sb,
                  "/* The iterations [begin, end) of the kernel; all of them are [0, span). Any "
                  "parts in any order, on\n * any threads, each with its own env, make the "
                  "whole");
    if (h->pieces)
        tk_strbuf_fmt(
            sb,
            "; but those from %s_PIECES on begin when all\n * before it are done, and all "
            "share one scratch",
            w->symbol);
    if (h->frame_bytes)
        tk_strbuf_fmt(sb, ". It takes %llu bytes of stack", (unsigned long long)h->frame_bytes);
    if (w->has_scratch && h->scratch_per_thread)
        tk_strbuf_str(sb, ". Each thread has a scratch of its own");
    if (w->dynamic)
        tk_strbuf_fmt(
            sb,
            ".\n * Scratch has %s_SCRATCH_BYTES and env->dynamic_bytes behind them, for the "
            "dynamic local buffer",
            w->symbol);
    tk_strbuf_fmt(sb,
                  ". */\n"
                  "void %s(void *const *bufs, const int64_t *vals, int64_t begin, int64_t end,\n"
                  "    tolk_kenv *env);\n\n"
                  "#define %s_N_BUFS %u\n"
                  "#define %s_N_VALS %u\n"
                  "#define %s_SCRATCH_BYTES %lluu\n",
                  w->symbol, w->symbol, h->n_bufs, w->symbol, h->n_vals, w->symbol,
                  (unsigned long long)w->scratch_bytes);
    if (h->pieces) {
        tk_strbuf_fmt(sb, "#define %s_PIECES ", w->symbol);
        put_i64(sb, h->pieces);
        tk_strbuf_char(sb, '\n');
    }
    tk_strbuf_char(sb, '\n');
}

/* The checks of an integer scalar that its C type does not make. */
static void put_scalar_check(const writer *w, size_t i, const char *name) {
    const tk_meta_param *p = &w->m->params[i];
    tk_strbuf *sb = w->sb;
    if (tolk_dtype_is_float(p->dtype) || p->dtype == TOLK_BOOL)
        return;
    bool is_signed = tk_dtype_is_signed(p->dtype), u64 = p->dtype == TOLK_U64;
    bool low = is_signed ? p->min > tk_dtype_min(p->dtype) : p->min > 0;
    bool high = u64 ? p->max != INT64_MAX : p->max < tk_dtype_max(p->dtype);
    if (!low && !high)
        return;
    tk_strbuf_str(sb, "    if (");
    if (low) {
        tk_strbuf_fmt(sb, "%s < ", name);
        if (is_signed)
            put_i64(sb, p->min);
        else
            tk_strbuf_fmt(sb, "UINT64_C(%lld)", (long long)p->min);
    }
    if (high) {
        tk_strbuf_fmt(sb, "%s%s > ", low ? " || " : "", name);
        if (is_signed)
            put_i64(sb, p->max);
        else
            tk_strbuf_fmt(sb, "UINT64_C(%lld)", (long long)p->max);
    }
    tk_strbuf_str(sb, ")\n        return -1;\n");
}

static void put_caller(const writer *w) {
    const tk_meta *h = w->m->head;
    tk_strbuf *sb = w->sb;
    char name[48];
    tk_strbuf_fmt(
        sb,
        "/* The whole kernel on this thread. 0: done. 1: done, but accesses were out of "
        "range: those loads gave\n * 0, those stores were dropped. -1: a scalar is out of "
        "its bounds, or a size negative or too large;\n * nothing was done. Arrays have "
        "the elements that %s_elems says; their number is not\n * checked.",
        w->symbol);
    if (w->has_scratch)
        tk_strbuf_fmt(sb, "\n * tolk_scratch: %s_SCRATCH_BYTES bytes%s, aligned to 64.", w->symbol,
                      w->dynamic ? " + tolk_shared_bytes, those of the dynamic local buffer" : "");
    tk_strbuf_fmt(sb, " */\nstatic inline int %s_run(", w->symbol);
    for (size_t i = 0; i < w->n_params; i++) {
        const tk_meta_param *p = &w->m->params[i];
        tk_strbuf_fmt(sb, "%s%s%s %s%s", i ? ", " : "", p->is_scalar || p->stored ? "" : "const ",
                      c_type(p->dtype), p->is_scalar ? "" : "*", code_name(w, i, name));
    }
    if (w->has_scratch)
        tk_strbuf_fmt(sb, "%svoid *tolk_scratch%s", w->n_params ? ", " : "",
                      w->dynamic ? ", size_t tolk_shared_bytes" : "");
    else if (!w->n_params)
        tk_strbuf_str(sb, "void");
    tk_strbuf_fmt(sb,
                  ") {\n    static const uint32_t tolk_never = 0;\n"
                  "    void *tolk_bufs[%u] = {NULL};\n"
                  "    int64_t tolk_vals[%u] = {0};\n"
                  "    tolk_kenv tolk_env;\n"
                  "    int64_t tolk_sizes[%u];\n"
                  "    int tolk_i;\n",
                  h->n_bufs ? h->n_bufs : 1, h->n_vals ? h->n_vals : 1, h->n_bufs + 1);
    for (size_t i = 0, bufs = 0, vals = 0; i < w->n_params; i++) {
        const tk_meta_param *p = &w->m->params[i];
        code_name(w, i, name);
        if (!p->is_scalar) {
            tk_strbuf_fmt(sb, "    tolk_bufs[%zu] = (void *)%s;\n", bufs++, name);
            continue;
        }
        put_scalar_check(w, i, name);
        if (p->dtype == TOLK_F32 || p->dtype == TOLK_F64)
            tk_strbuf_fmt(sb, "    memcpy(&tolk_vals[%zu], &%s, sizeof %s);\n", vals++, name, name);
        else if (p->dtype == TOLK_BOOL)
            tk_strbuf_fmt(sb, "    tolk_vals[%zu] = %s != 0;\n", vals++, name);
        else
            tk_strbuf_fmt(sb, "    tolk_vals[%zu] = (int64_t)%s;\n", vals++, name);
    }
    tk_strbuf_fmt(sb,
                  "    %s_sizes(tolk_vals, tolk_sizes);\n"
                  "    for (tolk_i = 0; tolk_i < %u; tolk_i++)\n"
                  "        if (tolk_sizes[tolk_i] < 0)\n"
                  "            return -1;\n"
                  "%s"
                  "    memset(&tolk_env, 0, sizeof tolk_env);\n"
                  "    tolk_env.size = sizeof tolk_env;\n"
                  "    tolk_env.cancel = &tolk_never;\n",
                  w->symbol, h->n_bufs + 1,
                  w->dynamic ? "    if (tolk_shared_bytes > INT64_MAX)\n        return -1;\n" : "");
    if (w->has_scratch)
        tk_strbuf_str(sb, "    tolk_env.scratch = tolk_scratch;\n");
    if (w->dynamic)
        tk_strbuf_str(sb, "    tolk_env.dynamic_bytes = (int64_t)tolk_shared_bytes;\n");
    tk_strbuf_fmt(sb,
                  "    if (tolk_sizes[0] > 0)\n"
                  "        %s(tolk_bufs, tolk_vals, 0, tolk_sizes[0], &tolk_env);\n"
                  "    return tolk_env.fault != 0;\n}\n",
                  w->symbol);
}

tolk_status tk_header_write(tolk_ctx *ctx, const tk_meta_view *meta, const tk_target *target,
                            const char *symbol, char **out, size_t *len, tolk_error *err) {
    const tk_expr_step *scratch = &meta->steps[meta->head->scratch_bytes];
    if (scratch->op != TK_OP_CONST)
        return tk_status_fail(err, TOLK_E_UNSUPPORTED, TK_NO_NODE,
                              "kernel %.60s: scalars decide how much local memory it needs; a C "
                              "header is written for a constant size",
                              meta->strings + meta->head->name);
    tk_strbuf sb;
    tk_strbuf_init(&sb, &ctx->al);
    writer w = {.sb = &sb,
                .m = meta,
                .symbol = symbol,
                .n_params = (size_t)meta->head->n_bufs + meta->head->n_vals,
                .scratch_bytes = scratch->value,
                .dynamic = meta->head->dynamic,
                .has_scratch = scratch->value || meta->head->dynamic};
    put_top(&w, target);
    tk_strbuf_fmt(&sb,
                  "#ifndef %s_h\n#define %s_h\n\n#include <stddef.h>\n#include <stdint.h>\n"
                  "#include <string.h>\n\n"
                  "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                  symbol, symbol);
    tk_strbuf_str(&sb, kenv_text);
    put_function(&w);
    tolk_status st = put_sizes(&w, err);
    if (st != TOLK_OK) {
        tk_strbuf_fini(&sb);
        return st;
    }
    put_caller(&w);
    tk_strbuf_str(&sb, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    *out = tk_strbuf_take(&sb, len);
    return *out ? TOLK_OK : tk_status_nomem(err);
}
