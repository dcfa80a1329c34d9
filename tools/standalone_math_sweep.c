/* SPDX-License-Identifier: MIT
 *
 * math_sweep: the error of one function of math.def over every f32 there is.
 *
 *   math_sweep FUNCTION [--no-fma] [--step N] [--y Y]
 *
 * FUNCTION: exp exp2 log log2 sin cos tanh erf, or pow with the exponent Y. --step N takes every
 * N-th bit pattern. The reference is libm's f64 function. Prints the worst error in ULP of f32 (the
 * spacing at the exact result) and where it is; exit 1 if that is above 1 ULP.
 */
#include "ir/mathfn.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct function {
    const char *name;
    tk_op op;
    double (*reference)(double);
} functions[] = {
    {"exp", TK_OP_EXP, exp},    {"exp2", TK_OP_EXP2, exp2}, {"log", TK_OP_LOG, log},
    {"log2", TK_OP_LOG2, log2}, {"sin", TK_OP_SIN, sin},    {"cos", TK_OP_COS, cos},
    {"tanh", TK_OP_TANH, tanh}, {"erf", TK_OP_ERF, erf},    {"pow", TK_OP_POW, NULL},
};

enum { THREADS = 2, WRONG = 1000000 /* an error that is no matter of rounding */ };

typedef struct sweep {
    const struct function *function;
    bool fma;
    float y;
    uint64_t from, step;
    double worst;
    uint32_t worst_bits;
} sweep;

static float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static double error_ulp(float got, double exact) {
    float rounded = (float)exact;
    if (isnan(exact) || isnan(got))
        return isnan(exact) && isnan(got) ? 0 : WRONG;
    if (isinf(got) || isinf(rounded))
        return got == rounded ? 0 : WRONG;
    if (exact == 0 || got == 0) {
        if (!signbit(got) != !signbit(exact))
            return WRONG;
    }
    int e = -125;
    if (exact != 0)
        frexp(exact, &e);
    if (e < -125)
        e = -125;
    return fabs(got - exact) * ldexp(1, 24 - e);
}

static float compute(const sweep *s, uint32_t bits) {
    return float_of(
        (uint32_t)tk_mathfn_eval(s->function->op, TOLK_F32, bits, bits_of(s->y), s->fma));
}

static double reference(const sweep *s, uint32_t bits) {
    double x = float_of(bits);
    return s->function->reference ? s->function->reference(x) : pow(x, s->y);
}

static void *run(void *arg) {
    sweep *s = arg;
    s->worst = -1;
    for (uint64_t u = s->from; u < 1ULL << 32; u += s->step) {
        double e = error_ulp(compute(s, (uint32_t)u), reference(s, (uint32_t)u));
        if (e > s->worst) {
            s->worst = e;
            s->worst_bits = (uint32_t)u;
        }
    }
    return NULL;
}

static int usage(void) {
    fprintf(stderr, "usage: math_sweep exp|exp2|log|log2|sin|cos|tanh|erf|pow [--no-fma] [--step N]"
                    " [--y Y (pow)]\n");
    return 2;
}

int main(int argc, char **argv) {
    sweep part[THREADS] = {{.fma = true, .step = 1, .y = 2.5F}};
    for (size_t i = 0; argc > 1 && i < sizeof functions / sizeof functions[0]; i++)
        if (!strcmp(argv[1], functions[i].name))
            part[0].function = &functions[i];
    if (!part[0].function)
        return usage();
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--no-fma"))
            part[0].fma = false;
        else if (!strcmp(argv[i], "--step") && i + 1 < argc)
            part[0].step = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--y") && i + 1 < argc)
            part[0].y = strtof(argv[++i], NULL);
        else
            return usage();
    }
    if (part[0].step == 0)
        return usage();

    pthread_t thread[THREADS];
    bool started[THREADS] = {false};
    for (int i = 1; i < THREADS; i++) {
        part[i] = part[0];
        part[i].from = (uint64_t)i * part[0].step;
    }
    for (int i = 0; i < THREADS; i++)
        part[i].step *= THREADS;
    for (int i = 1; i < THREADS; i++)
        started[i] = pthread_create(&thread[i], NULL, run, &part[i]) == 0;
    run(&part[0]);
    const sweep *worst = &part[0];
    for (int i = 1; i < THREADS; i++) {
        if (started[i])
            pthread_join(thread[i], NULL);
        else
            run(&part[i]);
        if (part[i].worst > worst->worst)
            worst = &part[i];
    }
    printf("%s f32 %s: worst %.4f ULP at %a (0x%08x): %a, exact %a\n", worst->function->name,
           worst->fma ? "fma" : "no-fma", worst->worst, (double)float_of(worst->worst_bits),
           (unsigned)worst->worst_bits, (double)compute(worst, worst->worst_bits),
           reference(worst, worst->worst_bits));
    return worst->worst > 1.0;
}
