/* SPDX-License-Identifier: MIT */
#include "ir/dtype.h"

#include <stdio.h>
#include <string.h>

enum { V, B, S, U, F };

static const struct {
    const char *name;
    uint8_t bytes, cls;
} table[TOLK_DTYPE_COUNT] = {
#define ROW(name, value, text, bytes, cls) [value] = {text, bytes, cls},
    TOLK_DTYPE_MAP(ROW)
#undef ROW
};

static int cls_of(tolk_dtype dt) {
    return tk_dtype_valid(dt) ? table[tk_dtype_scalar(dt)].cls : V;
}

tolk_dtype tolk_dtype_vec(tolk_dtype scalar, uint32_t lanes) {
    if (!tk_dtype_valid(scalar) || !lanes || lanes > TOLK_MAX_LANES || (lanes & (lanes - 1)))
        return TOLK_VOID;
    if (tk_dtype_scalar(scalar) == TOLK_VOID)
        return TOLK_VOID;
    return tk_dtype_scalar(scalar) | (tolk_dtype)__builtin_ctz(lanes) << 8;
}

tolk_dtype tolk_dtype_scalar(tolk_dtype dtype) {
    return tk_dtype_valid(dtype) ? tk_dtype_scalar(dtype) : TOLK_VOID;
}

uint32_t tolk_dtype_lanes(tolk_dtype dtype) {
    return tk_dtype_valid(dtype) ? 1u << (dtype >> 8) : 1;
}

size_t tolk_dtype_bytes(tolk_dtype dtype) {
    return tk_dtype_valid(dtype) ? table[tk_dtype_scalar(dtype)].bytes : 0;
}

const char *tolk_dtype_name(tolk_dtype dtype) {
    return tk_dtype_valid(dtype) ? table[tk_dtype_scalar(dtype)].name : "?";
}

int tolk_dtype_parse(const char *text, size_t len, tolk_dtype *out) {
    for (tolk_dtype k = 0; k < TOLK_DTYPE_COUNT; k++) {
        size_t n = strlen(table[k].name);
        if (n > len || memcmp(table[k].name, text, n) != 0)
            continue;
        if (n == len) {
            *out = k;
            return 1;
        }
        if (text[n] != 'x' || len - n > 3)
            continue;
        uint32_t lanes = 0;
        for (size_t i = n + 1; i < len; i++) {
            if (text[i] < '0' || text[i] > '9' || (lanes == 0 && text[i] == '0'))
                return 0;
            lanes = lanes * 10 + (uint32_t)(text[i] - '0');
        }
        if (lanes < 2)
            return 0;
        tolk_dtype v = tolk_dtype_vec(k, lanes);
        if (v == TOLK_VOID)
            return 0;
        *out = v;
        return 1;
    }
    return 0;
}

int tolk_dtype_is_float(tolk_dtype dtype) {
    return cls_of(dtype) == F;
}

int tolk_dtype_is_int(tolk_dtype dtype) {
    int c = cls_of(dtype);
    return c == S || c == U;
}

int tolk_dtype_is_unsigned(tolk_dtype dtype) {
    int c = cls_of(dtype);
    return c == U || c == B;
}

uint32_t tk_dtype_bits(tolk_dtype dt) {
    return (uint32_t)tolk_dtype_bytes(dt) * 8;
}

bool tk_dtype_is_signed(tolk_dtype dt) {
    return cls_of(dt) == S;
}

uint64_t tk_dtype_canon(tolk_dtype dt, uint64_t bits) {
    uint32_t w = tk_dtype_bits(dt);
    switch (cls_of(dt)) {
    case B:
        return bits != 0;
    case S:
        return w == 64 ? bits : (uint64_t)((int64_t)(bits << (64 - w)) >> (64 - w));
    case U:
    case F:
        return w == 64 ? bits : bits & (((uint64_t)1 << w) - 1);
    }
    return 0;
}

int64_t tk_dtype_min(tolk_dtype dt) {
    return cls_of(dt) == S ? INT64_MIN >> (64 - tk_dtype_bits(dt)) : 0;
}

int64_t tk_dtype_max(tolk_dtype dt) {
    switch (cls_of(dt)) {
    case S:
        return INT64_MAX >> (64 - tk_dtype_bits(dt));
    case U:
        return tk_dtype_bits(dt) == 64 ? INT64_MAX : (INT64_MAX >> (63 - tk_dtype_bits(dt)));
    case B:
        return 1;
    }
    return 0;
}

const char *tk_dtype_text(tolk_dtype dt, char buf[16]) {
    if (tolk_dtype_lanes(dt) == 1)
        snprintf(buf, 16, "%s", tolk_dtype_name(dt));
    else
        snprintf(buf, 16, "%sx%u", tolk_dtype_name(dt), tolk_dtype_lanes(dt));
    return buf;
}
