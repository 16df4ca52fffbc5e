// bench/bench_attention.c: attention and DeltaNet kernels of every level, one thread, best of
// several runs, against FP32 FMAs on registers.
//   attention: 4 FLOP per query row, head, position and component; GB/s of K and V read once.
//   deltanet: 7 FLOP per row and element of S: three FMAs (m, p, update) and the decay.
// Usage: bench_attention [--isa LEVEL] [--runs N]
#include "base/arena.h"
#include "kernels/kernels.h"
#include "roof.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *random_floats(int64_t n, float scale)
{
    float *x = fg_alloc_aligned((uint64_t)n * sizeof *x);
    if (!x) {
        fprintf(stderr, "bench_attention: out of memory\n");
        exit(5);
    }
    uint32_t u = 12345;
    for (int64_t i = 0; i < n; i++) {
        u = u * 1664525 + 1013904223;
        x[i] = (float)(int32_t)u * 0x1p-31f * scale;
    }
    return x;
}

static const struct attention_case {
    const char *what;
    int64_t pos, T, G, D;
} attention_cases[] = {
    {"prefill", 0, 512, 3, 64},   {"prefill", 0, 512, 4, 128},   {"prefill", 0, 512, 6, 256},
    {"verify", 4096, 8, 6, 256},  {"prefill", 4096, 64, 6, 256}, {"decode", 2047, 1, 3, 64},
    {"decode", 16383, 1, 6, 256}, {"decode", 32767, 1, 1, 128},
};

static void bench_attention(const struct fg_kernels *k, const struct attention_case *c, int runs,
                            double roof)
{
    int64_t n = c->pos + c->T, n_q = c->T * c->G * c->D;
    float *K = random_floats(n * c->D, 1), *V = random_floats(n * c->D, 1);
    float *q = random_floats(n_q, 1), *o = random_floats(n_q, 1);
    float *scratch =
        random_floats((int64_t)(fg_attn_scratch_bytes(c->T, c->G, c->D) / sizeof(float)), 1);
    double best = 1e30;
    for (int i = 0; i < runs; i++) {
        double t0 = bench_now();
        k->attention(o, c->G * c->D, q, c->G * c->D, K, c->D, V, c->D, c->pos, c->T, c->G, c->D,
                     0.125f, scratch);
        double t = bench_now() - t0;
        if (t < best) best = t;
    }
    double pairs = (double)c->T * (double)c->pos + (double)c->T * (double)(c->T + 1) / 2;
    double flops = 4 * pairs * (double)(c->G * c->D) / best;
    printf("%-11s attention %-7s pos %5lld T %3lld G %lld D %3lld  %10.1f us %7.1f GFLOP/s", k->isa,
           c->what, (long long)c->pos, (long long)c->T, (long long)c->G, (long long)c->D,
           best * 1e6, flops * 1e-9);
    if (roof > 0) printf(" %3.0f %%", 100 * flops / roof);
    printf(" %6.1f GB/s\n", (double)(n * c->D) * 8 / best * 1e-9);
    free(K);
    free(V);
    free(q);
    free(o);
    free(scratch);
}

// 16 heads in turn, so that one row meets states that come from L2 or beyond, as in a model.
static void bench_deltanet(const struct fg_kernels *k, int64_t T, int runs, double roof)
{
    enum { HEADS = 16, DIM = 128 };
    float *S = random_floats(HEADS * DIM * DIM, 0.01f), *o = random_floats(T * DIM, 1);
    float *q = random_floats(T * DIM, 0.01f), *key = random_floats(T * DIM, 0.1f);
    float *v = random_floats(T * DIM, 1), *scratch = random_floats(3 * DIM, 1);
    float *alpha = random_floats(T, 0), *beta = random_floats(T, 0);
    for (int64_t t = 0; t < T; t++) {
        alpha[t] = 0.95f;
        beta[t] = 0.5f;
    }
    double best = 1e30;
    for (int i = 0; i < runs; i++) {
        double t0 = bench_now();
        for (int h = 0; h < HEADS; h++)
            k->deltanet(S + h * DIM * DIM, DIM, DIM, o, DIM, q, DIM, key, DIM, v, DIM, alpha, beta,
                        1, T, scratch);
        double t = (bench_now() - t0) / HEADS;
        if (t < best) best = t;
    }
    double flops = 7.0 * (double)T * DIM * DIM / best;
    printf("%-11s deltanet  T %3lld dk %d dv %d                 %10.2f us %7.1f GFLOP/s", k->isa,
           (long long)T, DIM, DIM, best * 1e6, flops * 1e-9);
    if (roof > 0) printf(" %3.0f %%", 100 * flops / roof);
    printf("   %.2f us a row\n", best / (double)T * 1e6);
    float *all[] = {S, o, q, key, v, scratch, alpha, beta};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

int main(int argc, char **argv)
{
    const char *isa = NULL;
    int runs = 10;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--isa") == 0) isa = argv[i + 1];
        if (strcmp(argv[i], "--runs") == 0) runs = atoi(argv[i + 1]);
    }
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int level = 0; level < n_levels; level++) {
        const struct fg_kernels *k = levels[level];
        if (isa ? strcmp(isa, k->isa) != 0 : strcmp(k->isa, "avx512bf16") == 0)
            continue; // avx512bf16 has the vector kernels of avx512
        double roof = bench_fma_roof(k->isa);
        printf("%-11s FMA on registers %.1f GFLOP/s\n", k->isa, roof * 1e-9);
        int level_runs = strcmp(k->isa, "ref") == 0 ? 1 : runs;
        for (size_t c = 0; c < sizeof attention_cases / sizeof *attention_cases; c++)
            bench_attention(k, &attention_cases[c], level_runs, roof);
        static const int64_t rows[] = {1, 8, 64};
        for (size_t i = 0; i < 3; i++)
            bench_deltanet(k, rows[i], level_runs * 10, roof);
    }
    return 0;
}
