// bench/roof.h: a clock, and what one thread of this machine can do at most.
#ifndef FG_BENCH_ROOF_H
#define FG_BENCH_ROOF_H
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#if defined(__x86_64__)
// 24 and 12 chains hide the latency of an FMA on two ports. The values stay at 1; the empty asm
// keeps the compiler from seeing that.
#define BENCH_FMA_ROUNDS 100000
__attribute__((target("avx512f"))) static inline float bench_fma_avx512(void)
{
    __m512 acc[24], one = _mm512_set1_ps(1), zero = _mm512_setzero_ps();
    for (int i = 0; i < 24; i++)
        acc[i] = one;
    for (int r = 0; r < BENCH_FMA_ROUNDS; r++) {
        __asm__ volatile("" : "+v"(one), "+v"(zero));
#pragma GCC unroll 24
        for (int i = 0; i < 24; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], one, zero);
    }
    for (int i = 1; i < 24; i++)
        acc[0] = _mm512_add_ps(acc[0], acc[i]);
    return _mm512_reduce_add_ps(acc[0]);
}

__attribute__((target("avx2,fma"))) static inline float bench_fma_avx2(void)
{
    __m256 acc[12], one = _mm256_set1_ps(1), zero = _mm256_setzero_ps();
    for (int i = 0; i < 12; i++)
        acc[i] = one;
    for (int r = 0; r < BENCH_FMA_ROUNDS; r++) {
        __asm__ volatile("" : "+x"(one), "+x"(zero));
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            acc[i] = _mm256_fmadd_ps(acc[i], one, zero);
    }
    for (int i = 1; i < 12; i++)
        acc[0] = _mm256_add_ps(acc[0], acc[i]);
    float lane[8];
    _mm256_storeu_ps(lane, acc[0]);
    return lane[0];
}
#endif

// Runs FP32 FMAs on registers alone, in the vectors of the level; returns their number of FLOP, 0
// where it has none. *sink keeps them from being left out.
static inline double bench_fma_run(const char *isa, float *sink)
{
#if defined(__x86_64__)
    if (strncmp(isa, "avx512", 6) == 0) {
        *sink += bench_fma_avx512();
        return 2.0 * 24 * 16 * BENCH_FMA_ROUNDS;
    }
    if (strcmp(isa, "avx2") == 0) {
        *sink += bench_fma_avx2();
        return 2.0 * 12 * 8 * BENCH_FMA_ROUNDS;
    }
#endif
    *sink += (float)isa[0];
    return 0;
}

// The best FLOP per second of one thread; 0 where the level has no vectors.
static inline double bench_fma_roof(const char *isa)
{
    double best = 0;
    volatile float kept = 0;
    for (int i = 0; i < 20; i++) {
        float sink = 0;
        double t0 = bench_now();
        double rate = bench_fma_run(isa, &sink) / (bench_now() - t0);
        kept = kept + sink;
        if (rate > best) best = rate;
    }
    return best;
}
#endif
