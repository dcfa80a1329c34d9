/* SPDX-License-Identifier: MIT */
#include "ir/literal.h"

#include "base/status.h"
#include "ir/dtype.h"

#include <string.h>

__extension__ typedef unsigned __int128 u128;

/* ---- formats ---- */

typedef struct format {
    int frac, exp;        /* bits of fraction and exponent */
    uint64_t last_finite; /* greatest finite code without sign */
    uint64_t nan;         /* the default quiet NaN */
} format;

static format format_of(tolk_dtype dtype) {
    switch (tk_dtype_scalar(dtype)) {
    case TOLK_FP8E4M3: /* no infinity: one code more is finite */
        return (format){3, 4, 0x7e, 0x7f};
    case TOLK_FP8E5M2:
        return (format){2, 5, 0x7b, 0x7e};
    case TOLK_BF16:
        return (format){7, 8, 0x7f7f, 0x7fc0};
    case TOLK_F16:
        return (format){10, 5, 0x7bff, 0x7e00};
    case TOLK_F32:
        return (format){23, 8, 0x7f7fffff, 0x7fc00000};
    default:
        return (format){52, 11, 0x7fefffffffffffff, 0x7ff8000000000000};
    }
}

static bool has_inf(tolk_dtype dtype) {
    return tk_dtype_scalar(dtype) != TOLK_FP8E4M3;
}

/* ---- integers ---- */

static int digit_of(char c, unsigned base) {
    unsigned d = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                 : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                        : 99;
    return d < base ? (int)d : -1;
}

static bool is_hex(const char *s, size_t n) {
    return n > 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
}

/* Digits without a sign; a prefix 0x makes them hex. */
static tk_literal_result read_magnitude(const char *s, size_t n, uint64_t *out) {
    unsigned base = 10;
    if (is_hex(s, n)) {
        base = 16;
        s += 2;
        n -= 2;
    }
    if (!n)
        return TK_LITERAL_SYNTAX;
    uint64_t v = 0;
    bool fits = true;
    for (size_t i = 0; i < n; i++) {
        int d = digit_of(s[i], base);
        if (d < 0)
            return TK_LITERAL_SYNTAX;
        if (__builtin_mul_overflow(v, (uint64_t)base, &v) ||
            __builtin_add_overflow(v, (uint64_t)d, &v))
            fits = false;
    }
    *out = v;
    return fits ? TK_LITERAL_OK : TK_LITERAL_RANGE;
}

static tk_literal_result read_int(tolk_dtype dtype, const char *s, size_t n, uint64_t *bits) {
    bool negative = n && *s == '-';
    uint64_t v = 0;
    tk_literal_result r = read_magnitude(s + negative, n - negative, &v);
    if (r != TK_LITERAL_OK)
        return r;
    uint64_t most; /* greatest magnitude of this sign */
    if (tk_dtype_is_signed(dtype))
        most = (uint64_t)tk_dtype_max(dtype) + negative;
    else
        most = negative ? 0 : UINT64_MAX >> (64 - tk_dtype_bits(dtype));
    if (v > most)
        return TK_LITERAL_RANGE;
    *bits = tk_dtype_canon(dtype, negative ? 0 - v : v);
    return TK_LITERAL_OK;
}

/* ---- reading floats ----
 *
 * Both notations give (m + something in [0, 1)) * 2^e2 exactly: m of up to 64 bits, and whether the
 * something is zero. That is all a correct rounding needs, as no dtype has more than 53 bits. */

typedef struct binary {
    uint64_t m;
    int64_t e2;
    bool sticky;
} binary;

static binary binary_of_u128(u128 v, int64_t e2, bool sticky) {
    while (v >> 64) {
        unsigned shift = 64 - (unsigned)__builtin_clzll((uint64_t)(v >> 64));
        sticky |= (v & (((u128)1 << shift) - 1)) != 0;
        v >>= shift;
        e2 += shift;
    }
    return (binary){(uint64_t)v, e2, sticky};
}

/* Round to nearest even. False: overflow. */
static bool round_binary(const format *f, binary b, uint64_t *code) {
    if (b.m == 0) { /* zero; a sticky bit alone never occurs */
        *code = 0;
        return true;
    }
    unsigned lead = (unsigned)__builtin_clzll(b.m);
    uint64_t m = b.m << lead;
    int64_t e = b.e2 - lead + 63; /* the value is 1.x * 2^e */
    int64_t bias = ((int64_t)1 << (f->exp - 1)) - 1, e_min = 1 - bias;
    if (e > bias + 1)
        return false;
    int64_t shift = 63 - f->frac;
    if (e < e_min)
        shift += e_min - e;
    if (shift > 64) {
        *code = 0;
        return true;
    }
    uint64_t kept = shift == 64 ? 0 : m >> shift;
    uint64_t half = (uint64_t)1 << (shift - 1), rest = m & (half - 1);
    if (e >= e_min) /* the leading bit counts the exponent up by one */
        kept += (uint64_t)(e - e_min) << f->frac;
    if ((m & half) && (rest || b.sticky || (kept & 1)))
        kept++;
    *code = kept;
    return kept <= f->last_finite;
}

/* "e" or "p", sign, digits; saturates far outside of what any number of digits can bring back. */
static bool read_exponent(const char *s, size_t n, int64_t *out) {
    bool negative = n && *s == '-';
    size_t i = n && (*s == '-' || *s == '+');
    int64_t v = 0;
    if (i == n)
        return false;
    for (; i < n; i++) {
        int d = digit_of(s[i], 10);
        if (d < 0)
            return false;
        if (v < (int64_t)1 << 50)
            v = v * 10 + d;
    }
    *out = negative ? -v : v;
    return true;
}

static bool read_hex_float(const char *s, size_t n, binary *out) {
    binary b = {0, 0, false};
    bool point = false, any = false;
    int64_t p = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == 'p' || s[i] == 'P') {
            if (!read_exponent(s + i + 1, n - i - 1, &p))
                return false;
            break;
        }
        if (s[i] == '.') {
            if (point)
                return false;
            point = true;
            continue;
        }
        int d = digit_of(s[i], 16);
        if (d < 0)
            return false;
        any = true;
        if (b.m >> 60) {
            b.sticky |= d != 0;
            b.e2 += point ? 0 : 4;
        } else {
            b.m = b.m << 4 | (uint64_t)d;
            b.e2 -= point ? 4 : 0;
        }
    }
    b.e2 += p;
    *out = b;
    return any;
}

/* A decimal: digits * 10^e10. More than MOST_DIGITS never change a rounding to 53 bits except by
 * being zero or not (a midpoint of two doubles has at most 768), which a last digit 1 stands for.
 */
enum { MOST_DIGITS = 800 };
typedef struct decimal {
    uint8_t digit[MOST_DIGITS + 1];
    int n;
    int64_t e10;
} decimal;

static bool read_decimal(const char *s, size_t n, decimal *out) {
    bool point = false, any = false, dropped = false;
    int64_t e = 0;
    out->n = 0;
    out->e10 = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] == 'e' || s[i] == 'E') {
            if (!read_exponent(s + i + 1, n - i - 1, &e))
                return false;
            break;
        }
        if (s[i] == '.') {
            if (point)
                return false;
            point = true;
            continue;
        }
        int d = digit_of(s[i], 10);
        if (d < 0)
            return false;
        any = true;
        if (out->n == MOST_DIGITS) {
            dropped |= d != 0;
            out->e10 += point ? 0 : 1;
        } else {
            if (out->n || d)
                out->digit[out->n++] = (uint8_t)d;
            out->e10 -= point ? 1 : 0;
        }
    }
    if (dropped) {
        out->digit[out->n++] = 1;
        out->e10--;
    }
    while (out->n && out->digit[out->n - 1] == 0) {
        out->n--;
        out->e10++;
    }
    out->e10 += e;
    return any;
}

/* Unsigned big integers, least limb first. 10^1131 has 118 limbs. */
enum { LIMBS = 128 };
typedef struct big {
    uint32_t at[LIMBS];
    int n; /* no leading zero limbs */
} big;

static void big_mul_add(big *b, uint32_t factor, uint32_t add) {
    uint64_t carry = add;
    for (int i = 0; i < b->n; i++) {
        carry += (uint64_t)b->at[i] * factor;
        b->at[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry) {
        TK_ASSERT(b->n < LIMBS);
        b->at[b->n++] = (uint32_t)carry;
    }
}

static void big_mul_pow10(big *b, int64_t e) {
    for (; e >= 9; e -= 9)
        big_mul_add(b, 1000000000, 0);
    for (; e > 0; e--)
        big_mul_add(b, 10, 0);
}

static int big_bits(const big *b) {
    return b->n ? 32 * b->n - __builtin_clz(b->at[b->n - 1]) : 0;
}

static void big_shl(big *b, int by) {
    int limbs = by / 32, bits = by % 32;
    TK_ASSERT(b->n + limbs + 1 <= LIMBS);
    for (int i = b->n + limbs; i >= 0; i--) {
        int from = i - limbs;
        uint64_t hi = from >= 0 && from < b->n ? b->at[from] : 0;
        uint64_t lo = from >= 1 && from - 1 < b->n ? b->at[from - 1] : 0;
        b->at[i] = (uint32_t)(hi << bits | (bits ? lo >> (32 - bits) : 0));
    }
    b->n += limbs + 1;
    while (b->n && !b->at[b->n - 1])
        b->n--;
}

static bool big_less(const big *a, const big *b) {
    if (a->n != b->n)
        return a->n < b->n;
    for (int i = a->n - 1; i >= 0; i--)
        if (a->at[i] != b->at[i])
            return a->at[i] < b->at[i];
    return false;
}

/* a -= b, where a >= b */
static void big_sub(big *a, const big *b) {
    uint64_t borrow = 0;
    for (int i = 0; i < a->n; i++) {
        uint64_t d = (uint64_t)a->at[i] - (i < b->n ? b->at[i] : 0) - borrow;
        a->at[i] = (uint32_t)d;
        borrow = d >> 63;
    }
    while (a->n && !a->at[a->n - 1])
        a->n--;
}

static binary binary_of_big(const decimal *d) {
    big num = {.n = 0}, den = {.n = 1};
    den.at[0] = 1;
    for (int i = 0; i < d->n; i++)
        big_mul_add(&num, 10, d->digit[i]);
    big_mul_pow10(d->e10 > 0 ? &num : &den, d->e10 > 0 ? d->e10 : -d->e10);
    /* Scale to equal bit lengths: the quotient is in (1/2, 2). Then 64 bits of it, one by one. */
    int ahead = big_bits(&num) - big_bits(&den);
    big_shl(ahead < 0 ? &num : &den, ahead < 0 ? -ahead : ahead);
    binary b = {0, ahead - 63, false};
    for (int i = 0; i < 64; i++) {
        b.m <<= 1;
        if (!big_less(&num, &den)) {
            big_sub(&num, &den);
            b.m |= 1;
        }
        big_shl(&num, 1);
    }
    b.sticky = num.n != 0;
    return b;
}

static uint64_t pow10_u64(int64_t e) {
    uint64_t v = 1;
    while (e-- > 0)
        v *= 10;
    return v;
}

static binary binary_of_decimal(const decimal *d) {
    if (d->n == 0)
        return (binary){0, 0, false};
    /* All dtypes are 0 below 10^-330 and overflow above 10^320: keeps the powers small. */
    if (d->n + d->e10 < -330)
        return (binary){1, -4000, false};
    if (d->n + d->e10 > 320)
        return (binary){1, 4000, false};
    if (d->n > 19 || d->e10 > 19 || d->e10 < -19)
        return binary_of_big(d);
    uint64_t v = 0;
    for (int i = 0; i < d->n; i++)
        v = v * 10 + d->digit[i];
    if (d->e10 >= 0)
        return binary_of_u128((u128)v * pow10_u64(d->e10), 0, false);
    /* 127 bits over at most 64: at least 62 bits of quotient. */
    unsigned lead = (unsigned)__builtin_clzll(v);
    u128 num = (u128)(v << lead) << 63, den = pow10_u64(-d->e10);
    return binary_of_u128(num / den, -(int64_t)lead - 63, num % den != 0);
}

static tk_literal_result read_float(tolk_dtype dtype, const char *s, size_t n, uint64_t *bits) {
    format f = format_of(dtype);
    bool negative = n && *s == '-';
    const uint64_t sign = (uint64_t)negative << (f.frac + f.exp);
    if (n > 6 && memcmp(s, "nan(0x", 6) == 0 && s[n - 1] == ')') {
        uint64_t v = 0;
        tk_literal_result r = read_magnitude(s + 4, n - 5, &v);
        if (r != TK_LITERAL_OK)
            return r;
        uint64_t magnitude = v & (((uint64_t)1 << (f.frac + f.exp)) - 1);
        if (tk_dtype_canon(dtype, v) != v || magnitude <= f.last_finite + has_inf(dtype))
            return TK_LITERAL_RANGE;
        *bits = v;
        return TK_LITERAL_OK;
    }
    if (n == 3 && memcmp(s, "nan", 3) == 0) {
        *bits = f.nan;
        return TK_LITERAL_OK;
    }
    s += negative;
    n -= negative;
    if (n == 3 && memcmp(s, "inf", 3) == 0) {
        if (!has_inf(dtype))
            return TK_LITERAL_RANGE;
        *bits = (f.last_finite + 1) | sign;
        return TK_LITERAL_OK;
    }
    binary b;
    if (is_hex(s, n)) {
        if (!read_hex_float(s + 2, n - 2, &b))
            return TK_LITERAL_SYNTAX;
    } else {
        decimal d;
        if (!read_decimal(s, n, &d))
            return TK_LITERAL_SYNTAX;
        b = binary_of_decimal(&d);
    }
    uint64_t code;
    if (!round_binary(&f, b, &code))
        return TK_LITERAL_RANGE;
    *bits = code | sign;
    return TK_LITERAL_OK;
}

tk_literal_result tk_literal_read(tolk_dtype dtype, const char *s, size_t n, uint64_t *bits) {
    if (dtype == TOLK_BOOL) {
        bool is_true = n == 4 && memcmp(s, "true", 4) == 0;
        if (!is_true && !(n == 5 && memcmp(s, "false", 5) == 0))
            return TK_LITERAL_SYNTAX;
        *bits = is_true;
        return TK_LITERAL_OK;
    }
    return tolk_dtype_is_float(dtype) ? read_float(dtype, s, n, bits) : read_int(dtype, s, n, bits);
}

/* ---- writing numbers ---- */

static void write_float(tk_strbuf *sb, tolk_dtype dtype, uint64_t bits) {
    format f = format_of(dtype);
    uint64_t magnitude = bits & (((uint64_t)1 << (f.frac + f.exp)) - 1);
    bool negative = bits >> (f.frac + f.exp) & 1;
    if (magnitude > f.last_finite && !(has_inf(dtype) && magnitude == f.last_finite + 1)) {
        tk_strbuf_str(sb, "nan");
        if (bits != f.nan) {
            tk_strbuf_char(sb, '(');
            tk_strbuf_hex(sb, bits);
            tk_strbuf_char(sb, ')');
        }
        return;
    }
    if (negative)
        tk_strbuf_char(sb, '-');
    if (magnitude > f.last_finite) {
        tk_strbuf_str(sb, "inf");
        return;
    }
    if (!magnitude) {
        tk_strbuf_str(sb, "0x0p+0");
        return;
    }
    int64_t bias = ((int64_t)1 << (f.exp - 1)) - 1;
    int64_t e = (int64_t)(magnitude >> f.frac) - bias;
    uint64_t frac = magnitude << (64 - f.frac); /* left of the leading bit nothing remains */
    if (magnitude >> f.frac == 0) {             /* denormal: shift its leading bit out */
        unsigned lead = (unsigned)__builtin_clzll(frac);
        frac = lead == 63 ? 0 : frac << (lead + 1);
        e = -bias - (int64_t)lead;
    }
    tk_strbuf_str(sb, "0x1");
    if (frac)
        tk_strbuf_char(sb, '.');
    for (; frac; frac <<= 4)
        tk_strbuf_char(sb, "0123456789abcdef"[frac >> 60]);
    tk_strbuf_str(sb, e < 0 ? "p-" : "p+");
    tk_strbuf_u64(sb, (uint64_t)(e < 0 ? -e : e));
}

void tk_literal_write(tk_strbuf *sb, tolk_dtype dtype, uint64_t bits) {
    if (tolk_dtype_is_float(dtype))
        write_float(sb, dtype, bits);
    else if (dtype == TOLK_BOOL)
        tk_strbuf_str(sb, bits ? "true" : "false");
    else if (tk_dtype_is_signed(dtype))
        tk_strbuf_i64(sb, (int64_t)bits);
    else
        tk_strbuf_u64(sb, bits);
}

/* ---- strings ---- */

/* Bytes of the well-formed sequence at s (RFC 3629: no surrogates, no overlong forms), 0 if none.
 */
static size_t utf8_length(const unsigned char *s, size_t n) {
    unsigned c = s[0];
    if (c < 0x80)
        return 1;
    size_t len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || n < len)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && s[1] < 0xa0) || (c == 0xed && s[1] > 0x9f) || (c == 0xf0 && s[1] < 0x90) ||
        (c == 0xf4 && s[1] > 0x8f))
        return 0;
    return len;
}

size_t tk_literal_utf8(const char *s, size_t n) {
    size_t i = 0;
    while (i < n) {
        size_t len = utf8_length((const unsigned char *)s + i, n - i);
        if (!len)
            return i;
        i += len;
    }
    return n;
}

static const char escapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t"; /* pairs: letter, character */

void tk_literal_write_string(tk_strbuf *sb, const char *s, size_t n) {
    tk_strbuf_char(sb, '"');
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        tk_strbuf_bytes(sb, s + from, i - from);
        from = i + 1;
        const char *e = escapes;
        while (*e && (unsigned char)e[1] != c)
            e += 2;
        tk_strbuf_char(sb, '\\');
        if (*e) {
            tk_strbuf_char(sb, *e);
        } else {
            tk_strbuf_str(sb, "u00");
            tk_strbuf_char(sb, "0123456789abcdef"[c >> 4]);
            tk_strbuf_char(sb, "0123456789abcdef"[c & 15]);
        }
    }
    tk_strbuf_bytes(sb, s + from, n - from);
    tk_strbuf_char(sb, '"');
}

static bool read_hex4(const char *s, size_t n, uint32_t *out) {
    uint32_t v = 0;
    for (size_t i = 0; i < 4; i++) {
        int d = i < n ? digit_of(s[i], 16) : -1;
        if (d < 0)
            return false;
        v = v << 4 | (uint32_t)d;
    }
    *out = v;
    return true;
}

size_t tk_literal_read_escape(const char *s, size_t n, char out[4], size_t *out_n) {
    if (!n)
        return 0;
    for (const char *e = escapes; *e; e += 2)
        if (*e == s[0]) {
            out[0] = e[1];
            *out_n = 1;
            return 1;
        }
    uint32_t c, low;
    if (s[0] != 'u' || !read_hex4(s + 1, n - 1, &c))
        return 0;
    size_t used = 5;
    if (c >= 0xd800 && c <= 0xdfff) {
        if (c > 0xdbff || n < 11 || s[5] != '\\' || s[6] != 'u' || !read_hex4(s + 7, 4, &low) ||
            low < 0xdc00 || low > 0xdfff)
            return 0;
        c = 0x10000 + ((c & 0x3ff) << 10) + (low & 0x3ff);
        used = 11;
    }
    if (c < 0x80) {
        out[0] = (char)c;
        *out_n = 1;
    } else if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        *out_n = 2;
    } else if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        *out_n = 3;
    } else {
        out[0] = (char)(0xf0 | c >> 18);
        out[1] = (char)(0x80 | (c >> 12 & 0x3f));
        out[2] = (char)(0x80 | (c >> 6 & 0x3f));
        out[3] = (char)(0x80 | (c & 0x3f));
        *out_n = 4;
    }
    return used;
}
