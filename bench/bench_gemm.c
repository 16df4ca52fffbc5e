// bench/bench_gemm.c: dense products against the roofs of this machine, for every level of kernels.
//   T = 1: weights read in GB/s, over a set of matrices that no cache holds, against the read
//          bandwidth of a plain sum over the same memory with the same threads, before and after.
//   T > 1: GFLOP/s against FP32 FMAs on registers alone, in the level's own vectors.
// Best times: other programs can only take away.
// Usage: bench_gemm [--json] [--threads N] [--gib G] [--isa LEVEL]
#include "base/arena.h"
#include "base/num.h"
#include "base/size.h"
#include "kernels/parallel.h"
#include "roof.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define N_TYPES 5 // the four, and BF16 times BF16
static const char *const type_names[N_TYPES] = {"f32", "f16", "bf16", "int8", "bf16 fast"};

struct bench {
    struct fg_pool *pool;
    int n_threads;
    uint8_t *weights;
    uint64_t weights_bytes;
    const char *isa; // NULL: all
    bool json;
    bool comma;
};

// ---- roofs

// What is timed at once when reading; passes go over all the weights, which no cache holds.
#define STRETCH (128u << 20)

struct read_job {
    const uint8_t *data;
    uint64_t item_bytes;
    float sums[256];
};

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float sum_avx512(const uint8_t *p, uint64_t bytes)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (uint64_t i = 0; i + 256 <= bytes; i += 256) {
        a = _mm512_add_epi32(a, _mm512_loadu_si512(p + i));
        b = _mm512_add_epi32(b, _mm512_loadu_si512(p + i + 64));
        c = _mm512_add_epi32(c, _mm512_loadu_si512(p + i + 128));
        d = _mm512_add_epi32(d, _mm512_loadu_si512(p + i + 192));
    }
    a = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
    return (float)_mm512_reduce_add_epi32(a);
}

__attribute__((target("avx2"))) static float sum_avx2(const uint8_t *p, uint64_t bytes)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (uint64_t i = 0; i + 128 <= bytes; i += 128) {
        a = _mm256_add_epi32(a, _mm256_loadu_si256((const __m256i *)(const void *)(p + i)));
        b = _mm256_add_epi32(b, _mm256_loadu_si256((const __m256i *)(const void *)(p + i + 32)));
        c = _mm256_add_epi32(c, _mm256_loadu_si256((const __m256i *)(const void *)(p + i + 64)));
        d = _mm256_add_epi32(d, _mm256_loadu_si256((const __m256i *)(const void *)(p + i + 96)));
    }
    int out[8];
    a = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
    _mm256_storeu_si256((__m256i *)(void *)out, a);
    return (float)(out[0] + out[1] + out[2] + out[3] + out[4] + out[5] + out[6] + out[7]);
}

#endif

static float sum_plain(const uint8_t *p, uint64_t bytes)
{
    uint64_t sum = 0, u;
    for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&u, p + i, 8);
        sum += u;
    }
    return (float)sum;
}

static void read_item(void *ctx, int64_t item, int worker)
{
    struct read_job *job = ctx;
    const uint8_t *p = job->data + (uint64_t)item * job->item_bytes;
    float sum;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        sum = sum_avx512(p, job->item_bytes);
    else if (__builtin_cpu_supports("avx2"))
        sum = sum_avx2(p, job->item_bytes);
    else
#endif
        sum = sum_plain(p, job->item_bytes);
    job->sums[worker % 256] += sum;
}

// Bytes per second: the best stretch of two passes, since other programs can only take away.
static double read_roof(const struct bench *b)
{
    double best = 0;
    for (uint64_t at = 0; at + STRETCH <= 2 * b->weights_bytes; at += STRETCH) {
        struct read_job job = {.data = b->weights + at % b->weights_bytes, .item_bytes = 256 << 10};
        double t0 = bench_now();
        fg_pool_run(b->pool, (int64_t)(STRETCH / job.item_bytes), read_item, &job);
        double rate = STRETCH / (bench_now() - t0);
        if (rate > best) best = rate;
    }
    return best;
}

struct fma_job {
    const char *isa;
    float sums[256];
};

static void fma_item(void *ctx, int64_t item, int worker)
{
    struct fma_job *job = ctx;
    (void)item;
    bench_fma_run(job->isa, &job->sums[worker % 256]);
}

// FLOP per second of all threads, in the widest vectors of the level; 0 where it has none.
static double fma_roof(const struct bench *b, const char *isa)
{
    struct fma_job job = {.isa = isa};
    double flop = bench_fma_run(isa, &job.sums[0]), best = 0;
    for (int i = 0; i < 40 && flop > 0; i++) {
        double t0 = bench_now();
        fg_pool_run(b->pool, b->n_threads, fma_item, &job);
        double rate = flop * b->n_threads / (bench_now() - t0);
        if (rate > best) best = rate;
    }
    return best;
}

// ---- products

static void print_line(struct bench *b, const char *isa, const char *type, int64_t n, int64_t n_out,
                       int64_t T, double rate, double roof)
{
    if (b->json) {
        printf("%s{\"isa\":\"%s\",\"type\":\"%s\",\"n\":%" PRId64 ",\"n_out\":%" PRId64
               ",\"T\":%" PRId64 ",\"%s\":%.2f,\"roof\":%.2f}",
               b->comma ? ",\n  " : "\n  ", isa, type, n, n_out, T,
               T == 1 ? "gb_per_s" : "gflop_per_s", rate * 1e-9, roof * 1e-9);
        b->comma = true;
        return;
    }
    printf("%-10s  %-9s  %6" PRId64 "  %7" PRId64 "  %4" PRId64 "  %8.1f %-7s", isa, type, n, n_out,
           T, rate * 1e-9, T == 1 ? "GB/s" : "GFLOP/s");
    if (roof > 0)
        printf("  %5.1f%% of %.1f\n", 100 * rate / roof, roof * 1e-9);
    else
        printf("\n");
}

// Runs matrices [n_out][n] over the weight memory, one after another, each a job of its own as in a
// model, for at least `seconds` and two passes of T = 1; returns seconds per matrix, of the best
// stretch of matrices (T = 1) or the best matrix.
static double time_products(const struct bench *b, const struct fg_kernels *k, int type, int64_t n,
                            int64_t n_out, int64_t T, double seconds)
{
    enum fg_dtype dtype = type < FG_N_DTYPES ? (enum fg_dtype)type : FG_BF16;
    uint64_t matrix_bytes = (uint64_t)(n * n_out) * fg_dtype_bytes(dtype);
    int n_matrices = (int)(b->weights_bytes / matrix_bytes);
    const struct fg_parallel_sizes sizes = {.T = T, .n = n, .D = 64, .dv = 64};
    uint64_t scratch_bytes = fg_parallel_scratch_bytes(&sizes);
    float *x = fg_alloc_aligned((uint64_t)(T * n) * 4);
    float *y = fg_alloc_aligned((uint64_t)(T * n_out) * 4);
    uint16_t *xh = fg_alloc_aligned((uint64_t)(T * n) * 2);
    uint8_t *scratch = fg_alloc_aligned(scratch_bytes * (uint64_t)b->n_threads);
    if (!x || !y || !xh || !scratch) {
        fprintf(stderr, "bench_gemm: out of memory\n");
        exit(5);
    }
    for (int64_t i = 0; i < T * n; i++)
        x[i] = (float)(i % 17 - 8) * 0.125f;
    struct fg_parallel par = {.kernels = k,
                              .pool = b->pool,
                              .scratch = scratch,
                              .scratch_bytes_per_worker = scratch_bytes,
                              .room.xh = xh,
                              .fast = type == FG_N_DTYPES};
    const struct fg_input in = {.x = x, .ldx = n, .n = n};
    int at_once = T == 1 ? (int)(STRETCH / matrix_bytes) : 1;
    int n_at_least = T == 1 ? 2 * n_matrices : 1;
    double best = 1e30, start = bench_now();
    for (int m = 0; m < n_at_least || bench_now() - start < seconds; m += at_once) {
        double t0 = bench_now();
        for (int i = 0; i < at_once; i++) {
            uint64_t at = (uint64_t)((m + i) % n_matrices) * matrix_bytes;
            struct fg_linear mat = {.w = b->weights + at,
                                    .dtype = dtype,
                                    .n_out = n_out,
                                    .n_in = n,
                                    .y = y,
                                    .ldy = n_out};
            fg_parallel_linear(&par, &mat, 1, &in, T);
        }
        double each = (bench_now() - t0) / at_once;
        if (each < best) best = each;
    }
    free(x);
    free(y);
    free(xh);
    free(scratch);
    return best;
}

static bool differs(const struct fg_kernels *k, const struct fg_kernels *below, int type)
{
    if (!below) return true;
    return type < FG_N_DTYPES ? k->gemm[type] != below->gemm[type]
                              : k->gemm_bf16_bf16 != below->gemm_bf16_bf16;
}

// `below`: the level before this one, whose figures need no repeating where it has the same kernel;
// NULL: none.
static void bench_level(struct bench *b, const struct fg_kernels *k, const struct fg_kernels *below)
{
    double bandwidth = read_roof(b);
    static const int64_t shapes[][2] = {{576, 1536}, {1536, 576}, {5120, 5120}};
    static const int64_t T_all[] = {8, 64, 512};
    bool ref = strcmp(k->isa, "ref") == 0;
    for (int type = 0; type < N_TYPES; type++) {
        enum fg_dtype dtype = type < FG_N_DTYPES ? (enum fg_dtype)type : FG_BF16;
        for (size_t s = 0; s < FG_COUNT(shapes); s++) {
            if (ref || !differs(k, below, type)) continue; // the truth need not be fast
            int64_t n = shapes[s][0], n_out = shapes[s][1];
            double each = time_products(b, k, type, n, n_out, 1, 0);
            double bytes = (double)(n * n_out) * (double)fg_dtype_bytes(dtype);
            print_line(b, k->isa, type_names[type], n, n_out, 1, bytes / each, bandwidth);
        }
    }
    double roof = fma_roof(b, k->isa);
    for (int type = 0; type < N_TYPES; type++) {
        for (size_t s = 0; s < FG_COUNT(shapes); s++) {
            for (size_t t = 0; t < FG_COUNT(T_all); t++) {
                int64_t n = shapes[s][0], n_out = shapes[s][1], T = T_all[t];
                if ((ref && (s > 0 || T > 8)) || !differs(k, below, type)) continue;
                double each = time_products(b, k, type, n, n_out, T, 0.15);
                double flop = 2.0 * (double)n * (double)n_out * (double)T;
                print_line(b, k->isa, type_names[type], n, n_out, T, flop / each, roof);
            }
        }
    }
}

int main(int argc, char **argv)
{
    struct bench b = {.n_threads = fg_threads_default(), .weights_bytes = 1u << 30};
    for (int i = 1; i < argc; i++) {
        int64_t v = 0;
        if (strcmp(argv[i], "--json") == 0) {
            b.json = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--isa") == 0) {
            b.isa = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--threads") == 0 &&
                   fg_parse_i64(argv[i + 1], &v) && v >= 1 && v <= 1024) {
            b.n_threads = (int)v, i++;
        } else if (i + 1 < argc && strcmp(argv[i], "--gib") == 0 && fg_parse_i64(argv[i + 1], &v) &&
                   v >= 1 && v <= 256) {
            b.weights_bytes = (uint64_t)v << 30, i++;
        } else {
            fprintf(stderr, "usage: bench_gemm [--json] [--threads N] [--gib G] [--isa LEVEL]\n");
            return 2;
        }
    }
    struct fg_error err;
    char line[512];
    if (fg_pool_new(&b.pool, b.n_threads, &err) != 0) {
        fprintf(stderr, "bench_gemm: %s\n", fg_error_line(&err, line, sizeof line));
        return err.code;
    }
    b.weights = fg_alloc_aligned(b.weights_bytes);
    if (!b.weights) {
        fprintf(stderr, "bench_gemm: out of memory\n");
        return 5;
    }
    // Small finite numbers as F32, F16 and BF16 alike.
    for (uint64_t i = 0; i + 4 <= b.weights_bytes; i += 4)
        memcpy(b.weights + i, &(uint32_t){0x3C003C00u + (uint32_t)(i >> 2) % 256u}, 4);

    double before = read_roof(&b);
    if (b.json)
        printf("{\"threads\":%d,\"weights_bytes\":%" PRIu64
               ",\"read_gb_per_s_before\":%.2f,\"results\":[",
               b.n_threads, b.weights_bytes, before * 1e-9);
    else
        printf("%d threads, %" PRIu64 " MiB of weights, plain read %.1f GB/s\n"
               "%-10s  %-9s  %6s  %7s  %4s\n",
               b.n_threads, b.weights_bytes >> 20, before * 1e-9, "isa", "weights", "n", "n_out",
               "T");
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int i = 0; i < n_levels; i++)
        if (!b.isa || strcmp(b.isa, levels[i]->isa) == 0)
            bench_level(&b, levels[i], i > 0 && !b.isa ? levels[i - 1] : NULL);
    double after = read_roof(&b);
    if (b.json)
        printf("\n],\"read_gb_per_s_after\":%.2f}\n", after * 1e-9);
    else
        printf("plain read afterwards %.1f GB/s\n", after * 1e-9);
    fg_pool_free(b.pool);
    free(b.weights);
    return 0;
}
