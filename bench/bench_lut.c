// bench/bench_lut.c: products of quantized weights with INT8 activations, per level and layout:
// GB/s of packed weights and multiply-adds per second, for numbers of activation rows.
//   memory: matrices one after another that no cache holds together.
//   cache:  one stretch of weights that a thread's cache holds, over and over.
// Best times: other programs can only take away.
// Usage: bench_lut [--threads N] [--mib M] [--isa LEVEL] [--layout NAME] [--rows T] [--shape IN
// OUT]
#include "base/arena.h"
#include "base/num.h"
#include "base/size.h"
#include "base/thread.h"
#include "kernels/kernels.h"
#include "roof.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const layout_names[FG_N_LAYOUTS] = {"p6", "p4x2", "p4", "i8", "p6x1"};
#define ITEM_BYTES (256 << 10)   // of weights, what a thread takes at once
#define CACHED_BYTES (256 << 10) // of weights, per thread
#define ACT_BYTES (1 << 20)
#define T_MAX 1024

struct bench {
    struct fg_pool *pool;
    int n_threads;
    uint8_t *weights;
    uint64_t weights_bytes;
    float *table, *scale;
    uint8_t *table_u8, *scratch;
    uint64_t scratch_bytes;
    double seconds; // per figure
};

struct job {
    const struct fg_kernels *k;
    const struct bench *b;
    struct fg_lut w;
    struct fg_act x;
    float *y;
    int64_t T, t0, t1; // all rows of activations, and the block of them in work
    int64_t item_groups, n_groups;
    int repeats; // of each item
};

static void product_item(void *ctx, int64_t item, int worker)
{
    const struct job *j = ctx;
    int64_t g0 = item * j->item_groups, g1 = g0 + j->item_groups;
    if (g1 > j->n_groups) g1 = j->n_groups;
    for (int i = 0; i < j->repeats; i++)
        j->k->lut_gemm[j->w.layout](j->y, j->w.n_out, &j->w, g0, g1, &j->x, j->t0, j->t1,
                                    j->b->scratch + (uint64_t)worker * j->b->scratch_bytes);
}

// Seconds of a matrix whose tiles start at `tiles`; rows of activations in blocks that a cache
// holds while the matrix goes by.
static double run_once(struct job *j, const uint8_t *tiles, int64_t n_items)
{
    j->w.tiles = tiles;
    double t0 = bench_now();
    const int64_t block = ACT_BYTES / j->x.ld < 64 ? 64 : ACT_BYTES / j->x.ld / 32 * 32;
    for (j->t0 = 0; j->t0 < j->T; j->t0 = j->t1) {
        j->t1 = j->T - j->t0 < block ? j->T : j->t0 + block;
        fg_pool_run(j->b->pool, n_items, product_item, j);
    }
    return bench_now() - t0;
}

static void bench_shape(struct bench *b, const struct fg_kernels *k, enum fg_layout l, int64_t n_in,
                        int64_t n_out, int64_t T)
{
    struct job j = {.k = k, .b = b, .T = T, .n_groups = fg_layout_groups(l, n_out), .repeats = 1};
    const int64_t group_bytes = fg_layout_group_bytes(l, n_in);
    const uint64_t bytes = (uint64_t)(j.n_groups * group_bytes);
    j.w = (struct fg_lut){.layout = l,
                          .n_out = n_out,
                          .n_in = n_in,
                          .table = b->table,
                          .table_u8 = b->table_u8,
                          .scale = b->scale,
                          .scale_ts = b->scale};
    j.x.n = n_in;
    j.x.ld = (n_in + 63) / 64 * 64;
    j.x.n_blocks = (n_in + FG_ACT_BLOCK - 1) / FG_ACT_BLOCK;
    j.x.xc = fg_alloc_aligned((uint64_t)(T * j.x.ld));
    j.x.sx = fg_alloc_aligned((uint64_t)(T * j.x.n_blocks) * 4);
    j.x.sum = fg_alloc_aligned((uint64_t)(T * j.x.n_blocks) * 4);
    j.y = fg_alloc_aligned((uint64_t)(T * n_out) * 4);
    if (!j.x.xc || !j.x.sx || !j.x.sum || !j.y) {
        fprintf(stderr, "bench_lut: out of memory\n");
        exit(5);
    }
    for (int64_t i = 0; i < T * j.x.ld; i++)
        j.x.xc[i] = (int8_t)(i % 17 - 8);

    j.item_groups = ITEM_BYTES / group_bytes > 2 ? ITEM_BYTES / group_bytes / 2 * 2 : 2;
    int64_t n_items = (j.n_groups + j.item_groups - 1) / j.item_groups;
    double memory = 1e30, cache = 1e30, start = bench_now();
    uint64_t at = 0;
    for (bool all = false; !all || bench_now() - start < b->seconds;) {
        double each = run_once(&j, b->weights + at, n_items);
        if (each < memory) memory = each;
        at += bytes;
        if (at + bytes > b->weights_bytes || bench_now() - start > 2 * b->seconds)
            at = 0, all = true;
    }
    // One item per thread, repeated until it takes about a millisecond.
    int64_t groups = CACHED_BYTES / group_bytes > 2 ? CACHED_BYTES / group_bytes / 2 * 2 : 2;
    j.item_groups = groups < j.n_groups / b->n_threads ? groups : j.n_groups / b->n_threads;
    double share = (double)j.item_groups / (double)j.n_groups;
    j.repeats = 1 + (int)(1e-3 / (memory * share * b->n_threads));
    start = bench_now();
    while (bench_now() - start < b->seconds / 2) {
        double each = run_once(&j, b->weights, b->n_threads) / share / b->n_threads / j.repeats;
        if (each < cache) cache = each;
    }
    double macs = (double)n_in * (double)n_out * (double)T;
    printf("%-11s %-5s %6" PRId64 " %6" PRId64 " %5" PRId64 "  %8.1f %9.1f  %8.1f %9.1f\n", k->isa,
           layout_names[l], n_in, n_out, T, (double)bytes / memory * 1e-9, macs / memory * 1e-9,
           (double)bytes / cache * 1e-9, macs / cache * 1e-9);
    fflush(stdout);
    free(j.x.xc);
    free(j.x.sx);
    free(j.x.sum);
    free(j.y);
}

static void bench_level(struct bench *b, const struct fg_kernels *k, const char *layout, int64_t T,
                        int64_t n_in, int64_t n_out)
{
    static const int64_t shapes[][2] = {{5120, 17408}, {17408, 5120}};
    static const int64_t T_all[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 512};
    for (int l = 0; l < FG_N_LAYOUTS; l++) {
        if (layout && strcmp(layout, layout_names[l]) != 0) continue;
        for (size_t s = 0; s < FG_COUNT(shapes); s++) {
            if (n_in > 0 && s > 0) continue;
            for (size_t i = 0; i < FG_COUNT(T_all); i++) {
                if (T > 0 && i > 0) continue;
                bench_shape(b, k, (enum fg_layout)l, n_in > 0 ? n_in : shapes[s][0],
                            n_in > 0 ? n_out : shapes[s][1], T > 0 ? T : T_all[i]);
            }
        }
    }
}

int main(int argc, char **argv)
{
    struct bench b = {
        .n_threads = fg_threads_default(), .weights_bytes = 1u << 30, .seconds = 0.15};
    const char *isa = NULL, *layout = NULL;
    int64_t T = 0, n_in = 0, n_out = 0;
    for (int i = 1; i < argc; i++) {
        int64_t v = 0;
        bool number = i + 1 < argc && fg_parse_i64(argv[i + 1], &v);
        if (i + 1 < argc && strcmp(argv[i], "--isa") == 0) {
            isa = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--layout") == 0) {
            layout = argv[++i];
        } else if (number && strcmp(argv[i], "--threads") == 0 && v >= 1 && v <= 1024) {
            b.n_threads = (int)v, i++;
        } else if (number && strcmp(argv[i], "--mib") == 0 && v >= 256 && v <= 65536) {
            b.weights_bytes = (uint64_t)v << 20, i++;
        } else if (number && strcmp(argv[i], "--rows") == 0 && v >= 1 && v <= T_MAX) {
            T = v, i++;
        } else if (number && i + 2 < argc && strcmp(argv[i], "--shape") == 0 && v >= 64 &&
                   v <= 65536 && fg_parse_i64(argv[i + 2], &n_out) && n_out >= 64 &&
                   n_out <= 1 << 20 && n_out * v <= 128 << 20) {
            n_in = v, i += 2;
        } else {
            fprintf(stderr, "usage: bench_lut [--threads N] [--mib M] [--isa LEVEL] "
                            "[--layout NAME] [--rows T] [--shape IN OUT]\n");
            return 2;
        }
    }
    struct fg_error err;
    char line[512];
    if (fg_pool_new(&b.pool, b.n_threads, &err) != 0) {
        fprintf(stderr, "bench_lut: %s\n", fg_error_line(&err, line, sizeof line));
        return err.code;
    }
    b.scratch_bytes = fg_lut_scratch_bytes(65536);
    b.weights = fg_alloc_aligned(b.weights_bytes);
    b.table = fg_alloc_aligned(128 * sizeof(float));
    b.table_u8 = fg_alloc_aligned(128);
    b.scale = fg_alloc_aligned((uint64_t)(2 << 20) * sizeof(float));
    b.scratch = fg_alloc_aligned(b.scratch_bytes * (uint64_t)b.n_threads);
    if (!b.weights || !b.table || !b.table_u8 || !b.scale || !b.scratch) {
        fprintf(stderr, "bench_lut: out of memory\n");
        return 5;
    }
    for (uint64_t i = 0; i + 8 <= b.weights_bytes; i += 8)
        memcpy(b.weights + i, &(uint64_t){i * 0x9E3779B97F4A7C15u}, 8);
    for (int i = 0; i < 128; i++) {
        b.table[i] = (float)(i - 64);
        b.table_u8[i] = (uint8_t)(i + 64);
    }
    printf("%d threads, %" PRIu64 " MiB of weights\n"
           "%-11s %-5s %6s %6s %5s  %18s  %18s\n"
           "%38s %8s %9s  %8s %9s\n",
           b.n_threads, b.weights_bytes >> 20, "isa", "", "n_in", "n_out", "rows", "memory",
           "cache", "", "GB/s", "GMAC/s", "GB/s", "GMAC/s");
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int i = 1; i < n_levels; i++) {
        if (isa && strcmp(isa, levels[i]->isa) != 0) continue;
        if (!isa && levels[i]->lut_gemm[FG_P6] == levels[i - 1]->lut_gemm[FG_P6]) continue;
        bench_level(&b, levels[i], layout, T, n_in, n_out);
    }
    fg_pool_free(b.pool);
    free(b.weights);
    free(b.table);
    free(b.table_u8);
    free(b.scale);
    free(b.scratch);
    return 0;
}
