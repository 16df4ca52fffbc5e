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
// Twelve chains hide the latency of an FMA on two ports; the empty asm keeps the compiler from
// folding the constants.
#define BENCH_FMA_ROUNDS 100000
__attribute__((target("avx512f"))) static inline float bench_fma_avx512(void)
{
    __m512 acc[12], one = _mm512_set1_ps(1), zero = _mm512_setzero_ps();
    for (int i = 0; i < 12; i++)
        acc[i] = one;
    for (int r = 0; r < BENCH_FMA_ROUNDS; r++) {
        __asm__ volatile("" : "+v"(one), "+v"(zero));
#pragma GCC unroll 12
        for (int i = 0; i < 12; i++)
            acc[i] = _mm512_fmadd_ps(acc[i], one, zero);
    }
    for (int i = 1; i < 12; i++)
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

// FP32 FMAs on registers alone, in FLOP per second of one thread, in the vectors of the level; 0
// where it has none.
static inline double bench_fma_roof(const char *isa)
{
    double best = 0;
#if defined(__x86_64__)
    int lanes = strncmp(isa, "avx512", 6) == 0 ? 16 : strcmp(isa, "avx2") == 0 ? 8 : 0;
    for (int i = 0; i < 10 && lanes; i++) {
        double t0 = bench_now();
        volatile float sink = lanes == 16 ? bench_fma_avx512() : bench_fma_avx2();
        (void)sink;
        double rate = 2.0 * 12 * lanes * BENCH_FMA_ROUNDS / (bench_now() - t0);
        if (rate > best) best = rate;
    }
#else
    (void)isa;
#endif
    return best;
}
#endif
