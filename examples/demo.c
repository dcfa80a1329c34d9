/* SPDX-License-Identifier: MIT
 *
 * demo EXAMPLES-DIR OUT-DIR: compile the kernels of this folder, run them on real arrays, check
 * their results against plain C, print their times, and leave pictures as PNG.
 */
#include <tolk/tolk.h>

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MAX_BUFS = 4, MAX_VALS = 4, WIDTH = 1024, HEIGHT = 768, STEPS = 200, TAPS = 11 };

/* One kernel with its arguments, buffers and scalars in the order of their slots. */
typedef struct job {
    void *buf[MAX_BUFS];
    size_t bytes[MAX_BUFS];
    size_t n_bufs;
    int64_t val[MAX_VALS];
    size_t n_vals;
    int in_place; /* buffer 0 is read, too: it is given back its input before each run */
} job;

static uint32_t random_state = 1;

static float random_float(void) { /* in [-1, 1) */
    random_state = random_state * 1664525 + 1013904223;
    return (float)(random_state >> 8) * 0x1p-23f - 1;
}

static void *add_buffer(job *j, size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "demo: out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    j->buf[j->n_bufs] = p;
    j->bytes[j->n_bufs++] = bytes;
    return p;
}

static float *add_floats(job *j, size_t n, int filled) {
    float *p = add_buffer(j, n * sizeof *p);
    for (size_t i = 0; filled && i < n; i++)
        p[i] = random_float();
    return p;
}

static int near(double a, double b, double tolerance) {
    return fabs(a - b) <= tolerance * (1 + fabs(b));
}

/* ---- the kernels: arguments, and what plain C says about the result ---- */

static void make_scale(job *j) {
    add_floats(j, 1024, 0);
    add_floats(j, 1024, 1);
}

static int check_scale(const job *j) {
    const float *y = j->buf[0], *x = j->buf[1];
    for (int i = 0; i < 1024; i++)
        if (y[i] != 3 * x[i])
            return 0;
    return 1;
}

enum { AXPY_N = 1 << 22 };

static void make_axpy(job *j) {
    float a = 0.5f;
    uint32_t bits;
    memcpy(&bits, &a, sizeof bits);
    add_floats(j, AXPY_N, 0);
    add_floats(j, AXPY_N, 1);
    j->val[0] = bits;
    j->val[1] = AXPY_N;
    j->n_vals = 2;
    j->in_place = 1; /* y begins as 0 */
}

static int check_axpy(const job *j) {
    const float *y = j->buf[0], *x = j->buf[1];
    for (int i = 0; i < AXPY_N; i++)
        if (y[i] != 0.5f * x[i])
            return 0;
    return 1;
}

enum { SUM_N = 4194304 };

static void make_sum(job *j) {
    add_floats(j, 1, 0);
    add_floats(j, SUM_N, 1);
}

static int check_sum(const job *j) {
    const float *x = j->buf[1];
    double sum = 0, magnitude = 0;
    for (int i = 0; i < SUM_N; i++) {
        sum += (double)x[i];
        magnitude += fabs((double)x[i]);
    }
    /* n eps times the sum of magnitudes is the bound; half of the digits are plenty in practice */
    return fabs((double)*(const float *)j->buf[0] - sum) <= 1e-5 * magnitude;
}

enum { GEMM_N = 256 };

static void make_sgemm(job *j) {
    add_floats(j, GEMM_N * GEMM_N, 0);
    add_floats(j, GEMM_N * GEMM_N, 1);
    add_floats(j, GEMM_N * GEMM_N, 1);
}

static int check_sgemm(const job *j) {
    const float *c = j->buf[0], *a = j->buf[1], *b = j->buf[2];
    for (int r = 0; r < GEMM_N; r++)
        for (int q = 0; q < GEMM_N; q++) {
            double v = 0;
            for (int k = 0; k < GEMM_N; k++)
                v += (double)a[r * GEMM_N + k] * (double)b[k * GEMM_N + q];
            if (fabs((double)c[r * GEMM_N + q] - v) > 1e-4)
                return 0;
        }
    return 1;
}

enum { ROWS = 512, COLUMNS = 1024 };

static void make_softmax(job *j) {
    add_floats(j, ROWS * COLUMNS, 0);
    float *x = add_floats(j, ROWS * COLUMNS, 1);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] *= 20;
}

static int check_softmax(const job *j) {
    const float *y = j->buf[0], *x = j->buf[1];
    for (int r = 0; r < ROWS; r++, x += COLUMNS, y += COLUMNS) {
        double top = -INFINITY, sum = 0;
        for (int i = 0; i < COLUMNS; i++)
            top = fmax(top, (double)x[i]);
        for (int i = 0; i < COLUMNS; i++)
            sum += exp((double)x[i] - top);
        for (int i = 0; i < COLUMNS; i++)
            if (fabs((double)y[i] - exp((double)x[i] - top) / sum) > 1e-6)
                return 0;
    }
    return 1;
}

enum { GELU_N = 1048576 };

static void make_gelu(job *j) {
    add_floats(j, GELU_N, 0);
    float *x = add_floats(j, GELU_N, 1);
    for (int i = 0; i < GELU_N; i++)
        x[i] *= 6;
}

static int check_gelu(const job *j) {
    const float *y = j->buf[0], *x = j->buf[1];
    for (int i = 0; i < GELU_N; i++)
        if (!near((double)y[i], (double)x[i] / 2 * (1 + erf((double)x[i] * 0.70710678118654752)),
                  1e-6))
            return 0;
    return 1;
}

enum { TABLE_N = 4096, IDS_N = 1048576 };

static void make_gather(job *j) {
    add_floats(j, IDS_N, 0);
    add_floats(j, TABLE_N, 1);
    int32_t *ids = add_buffer(j, IDS_N * sizeof *ids);
    for (int i = 0; i < IDS_N; i++)
        ids[i] = (int32_t)((random_float() + 1) * (TABLE_N / 2));
}

static int check_gather(const job *j) {
    const float *y = j->buf[0], *table = j->buf[1];
    const int32_t *ids = j->buf[2];
    for (int i = 0; i < IDS_N; i++)
        if (y[i] != table[ids[i]])
            return 0;
    return 1;
}

enum { HISTOGRAM_N = 65536 };

static void make_histogram(job *j) {
    add_buffer(j, 256 * sizeof(int32_t));
    uint8_t *x = add_buffer(j, HISTOGRAM_N);
    for (int i = 0; i < HISTOGRAM_N; i++)
        x[i] = (uint8_t)(128 + 64 * (random_float() + random_float()));
}

static int check_histogram(const job *j) {
    const int32_t *h = j->buf[0];
    const uint8_t *x = j->buf[1];
    int32_t want[256] = {0};
    for (int i = 0; i < HISTOGRAM_N; i++)
        want[x[i]]++;
    return !memcmp(h, want, sizeof want);
}

/* Black inside the set, outside a colour that goes round with the logarithm of the steps. */
static void colour(float steps, uint8_t rgb[3]) {
    if (steps >= (float)STEPS) {
        rgb[0] = rgb[1] = rgb[2] = 0;
        return;
    }
    float t = logf(steps + 1) * 1.1f;
    for (int k = 0; k < 3; k++)
        rgb[k] = (uint8_t)(127.5f + 127 * cosf(t * 2.1f + 3.4f + (float)k * 0.75f));
}

/* As bright as the eye takes a colour to be, 0 to 255. */
static float brightness(float steps) {
    uint8_t rgb[3];
    colour(steps, rgb);
    return 0.299f * (float)rgb[0] + 0.587f * (float)rgb[1] + 0.114f * (float)rgb[2];
}

static void grey(float value, uint8_t rgb[3]) {
    rgb[0] = rgb[1] = rgb[2] = (uint8_t)fminf(fmaxf(value + 0.5f, 0), 255);
}

static float *picture; /* the steps of the Mandelbrot set, which the blur takes, too */

static void make_mandelbrot(job *j) {
    picture = add_floats(j, WIDTH * HEIGHT, 0);
}

static int check_mandelbrot(const job *j) {
    const float *steps = j->buf[0];
    for (int r = 0; r < HEIGHT; r += 7)
        for (int c = 0; c < WIDTH; c += 5) {
            float re = (float)c * 0x1.8p-9f + -2.25f, im = (float)r * 0x1.8p-9f + -1.125f;
            float x = 0, y = 0;
            int n = 0;
            for (int k = 0; k < STEPS && x * x + y * y < 4; k++, n++) {
                float xy = x * y;
                x = x * x - y * y + re;
                y = xy + xy + im;
            }
            if (steps[r * WIDTH + c] != (float)n)
                return 0;
        }
    return 1;
}

static void make_blur(job *j) {
    add_floats(j, WIDTH * HEIGHT, 0);
    float *x = add_floats(j, WIDTH * HEIGHT, 0);
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        x[i] = brightness(picture[i]);
    float *w = add_floats(j, TAPS * TAPS, 0);
    double sum = 0;
    for (int i = 0; i < TAPS * TAPS; i++) {
        int dy = i / TAPS - TAPS / 2, dx = i % TAPS - TAPS / 2;
        w[i] = expf(-(float)(dx * dx + dy * dy) / 12);
        sum += (double)w[i];
    }
    for (int i = 0; i < TAPS * TAPS; i++)
        w[i] /= (float)sum;
}

static int check_blur(const job *j) {
    const float *y = j->buf[0], *x = j->buf[1], *w = j->buf[2];
    for (int r = 0; r < HEIGHT; r += r < 8 || r > HEIGHT - 9 ? 1 : 13)
        for (int c = 0; c < WIDTH; c++) {
            double v = 0;
            for (int i = 0; i < TAPS * TAPS; i++) {
                int rr = r + i / TAPS - TAPS / 2, cc = c + i % TAPS - TAPS / 2;
                if (rr >= 0 && rr < HEIGHT && cc >= 0 && cc < WIDTH)
                    v += (double)w[i] * (double)x[rr * WIDTH + cc];
            }
            if (!near((double)y[r * WIDTH + c], v, 1e-4))
                return 0;
        }
    return 1;
}

/* ---- pictures ---- */

typedef void (*to_rgb)(float value, uint8_t rgb[3]);

static int write_png(const char *path, const float *values, to_rgb convert) {
    uint8_t *rgb = malloc((size_t)WIDTH * HEIGHT * 3);
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = WIDTH, .height = HEIGHT, .format = PNG_FORMAT_RGB};
    for (size_t i = 0; rgb && i < (size_t)WIDTH * HEIGHT; i++)
        convert(values[i], rgb + i * 3);
    int ok = rgb && png_image_write_to_file(&image, path, 0, rgb, 0, NULL);
    if (ok)
        printf("wrote %s\n", path);
    else
        fprintf(stderr, "demo: cannot write %s: %s\n", path, rgb ? image.message : "no memory");
    free(rgb);
    return ok;
}

/* ---- running ---- */

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static char *read_file(const char *dir, const char *name, size_t *len) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.uop", dir, name);
    FILE *f = fopen(path, "rb");
    char *text = malloc(1 << 20);
    *len = f && text ? fread(text, 1, 1 << 20, f) : 0;
    if (!*len)
        fprintf(stderr, "demo: cannot read %s: %s\n", path, strerror(errno));
    if (f)
        fclose(f);
    return text;
}

/* Best of as many runs as fit in about 50 ms. */
static tolk_status time_runs(const tolk_program *program, job *j, double *best, tolk_error *err) {
    double start = now_us();
    *best = INFINITY;
    for (int i = 0; i < 1000 && (i < 3 || now_us() - start < 50e3); i++) {
        if (j->in_place)
            memset(j->buf[0], 0, j->bytes[0]);
        double t = now_us();
        tolk_status st = tolk_launch(program, j->buf, j->bytes, j->n_bufs, j->val, j->n_vals, err);
        if (st)
            return st;
        *best = fmin(*best, now_us() - t);
    }
    return TOLK_OK;
}

static int run_job(tolk_ctx *ctx, tolk_device *device, const char *dir, const char *name, job *j,
                   int (*check)(const job *)) {
    static const char *const cached[] = {"none", "memory", "disk"};
    tolk_error err = TOLK_ERROR_INIT;
    tolk_graph *graph = NULL;
    const tolk_uop *kernel = NULL;
    tolk_program *program = NULL;
    tolk_program_info info;
    size_t len;
    double us = 0, compile_us = 0, flops = 0, bytes = 0;
    char *text = read_file(dir, name, &len);
    tolk_status st = len ? tolk_graph_create(ctx, &graph) : TOLK_E_IO;
    if (!st)
        st = tolk_parse(graph, text, len, 0, &kernel, &err);
    if (!st) {
        double t = now_us();
        st = tolk_compile(device, kernel, NULL, &program, &err);
        compile_us = now_us() - t;
    }
    if (!st)
        st = tolk_program_get_info(program, &info);
    if (!st)
        st = tolk_program_estimate(program, j->val, j->n_vals, &flops, &bytes);
    if (!st)
        st = time_runs(program, j, &us, &err);
    int ok = !st && check(j);
    if (st)
        fprintf(stderr, "demo: %s: %s\n", name, err.msg[0] ? err.msg : tolk_status_text(st));
    else
        printf("%-12s %10.3f   %-7s %12.2f %10.2f %9.2f   %s\n", name, compile_us * 1e-3,
               cached[info.cached], us, flops / us * 1e-3, bytes / us * 1e-3,
               ok ? "right" : "WRONG");
    fflush(stdout);
    tolk_program_unref(program);
    tolk_graph_destroy(graph);
    free(text);
    return ok;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*make)(job *);
        int (*check)(const job *);
        const char *png; /* picture of buffer 0 */
        to_rgb convert;
    } jobs[] = {
        {"scale", make_scale, check_scale, NULL, NULL},
        {"axpy", make_axpy, check_axpy, NULL, NULL},
        {"gelu", make_gelu, check_gelu, NULL, NULL},
        {"sum", make_sum, check_sum, NULL, NULL},
        {"softmax", make_softmax, check_softmax, NULL, NULL},
        {"sgemm", make_sgemm, check_sgemm, NULL, NULL},
        {"gather", make_gather, check_gather, NULL, NULL},
        {"histogram", make_histogram, check_histogram, NULL, NULL},
        {"mandelbrot", make_mandelbrot, check_mandelbrot, "mandelbrot.png", colour},
        {"blur", make_blur, check_blur, "blur.png", grey},
    };
    if (argc != 3) {
        fprintf(stderr, "demo: expected the folder of the kernels and a folder for pictures\n");
        return 2;
    }
    tolk_error err = TOLK_ERROR_INIT;
    tolk_ctx *ctx = NULL;
    tolk_device *device;
    tolk_status st = tolk_ctx_create(NULL, &ctx, &err);
    if (!st)
        st = tolk_device_open(ctx, "CPU", &device, &err);
    if (st) {
        fprintf(stderr, "demo: %s\n", err.msg);
        return 1;
    }
    mkdir(argv[2], 0777); /* if it fails, writing the first picture says why */

    printf("kernel       compile ms   cache           run us    GFLOP/s      GB/s   result\n");
    int failed = 0;
    float *mandelbrot = NULL;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        job j = {0};
        jobs[i].make(&j);
        if (!run_job(ctx, device, argv[1], jobs[i].name, &j, jobs[i].check)) {
            failed = 1;
        } else if (jobs[i].png) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[2], jobs[i].png);
            failed |= !write_png(path, j.buf[0], jobs[i].convert);
        }
        for (size_t b = 0; b < j.n_bufs; b++)
            if (j.buf[b] == picture)
                mandelbrot = picture; /* the blur reads it later */
            else
                free(j.buf[b]);
    }
    free(mandelbrot);
    tolk_ctx_destroy(ctx);
    return failed;
}
