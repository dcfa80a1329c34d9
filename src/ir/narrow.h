/* SPDX-License-Identifier: MIT
 *
 * Exact conversions of the narrow floats f16, bf16, fp8e4m3 and fp8e5m2, in integer code only, so
 * that they give the same bits on every machine, whatever its rounding mode or its flags.
 *
 * Narrowing rounds once, to nearest, ties to even; denormals are exact. What overflows becomes
 * infinity, in fp8e4m3 (which has none) NaN: there 464 ties to 448, all above and infinity are NaN.
 * NaN stays NaN: quiet, sign and upper payload bits kept. Widening is exact and quiets a NaN.
 */
#ifndef TK_IR_NARROW_H
#define TK_IR_NARROW_H

#include <tolk/dtype.h>

uint16_t tk_narrow_f16_from_f32(float v);
uint16_t tk_narrow_f16_from_f64(double v);
float tk_narrow_f16_to_f32(uint16_t bits);
double tk_narrow_f16_to_f64(uint16_t bits);

uint16_t tk_narrow_bf16_from_f32(float v);
uint16_t tk_narrow_bf16_from_f64(double v);
float tk_narrow_bf16_to_f32(uint16_t bits);
double tk_narrow_bf16_to_f64(uint16_t bits);

uint8_t tk_narrow_fp8e4m3_from_f32(float v);
uint8_t tk_narrow_fp8e4m3_from_f64(double v);
float tk_narrow_fp8e4m3_to_f32(uint8_t bits);
double tk_narrow_fp8e4m3_to_f64(uint8_t bits);

uint8_t tk_narrow_fp8e5m2_from_f32(float v);
uint8_t tk_narrow_fp8e5m2_from_f64(double v);
float tk_narrow_fp8e5m2_to_f32(uint8_t bits);
double tk_narrow_fp8e5m2_to_f64(uint8_t bits);

/* The generic forms. dtype: any float dtype, f32 and f64 included; its lanes are ignored. Bits are
 * in the low bytes, the rest is zero; a dtype that is no float gives 0. */
uint64_t tk_narrow_round(tolk_dtype dtype, double v);
double tk_narrow_widen(tolk_dtype dtype, uint64_t bits);

/* Integer to float, rounded once. */
uint64_t tk_narrow_from_i64(tolk_dtype dtype, int64_t v);
uint64_t tk_narrow_from_u64(tolk_dtype dtype, uint64_t v);

/* a * b + c rounded once, for f16, bf16 and the fp8s (their products are exact in f64, their sums
 * are not). Other dtypes give 0: f32 and f64 have fmaf() and fma(). */
uint64_t tk_narrow_fma(tolk_dtype dtype, uint64_t a, uint64_t b, uint64_t c);

#endif
