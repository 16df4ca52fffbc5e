// bench/bench_attn.c: attention over stored keys and values (kernels/kv.h), per level, format and
// number of query rows that share a head: GB/s of pages read by all threads, and cycles of a thread
// per token and row.
//   memory: a history of several heads, each (head, segment) an item, as a decode step reads them.
//   cache:  one segment per thread, over and over.
// Best times: other programs can only take away.
// Usage: bench_attn [--threads N] [--tokens N] [--heads N] [--dim D] [--isa LEVEL] [--format NAME]
// [--rows R] [--exact]
#include "base/arena.h"
#include "base/thread.h"
#include "eval/bandwidth.h"
#include "kernels/kernels.h"
#include "roof.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define ROWS_MAX 1024
#define SECONDS 1.0 // per figure

struct bench {
    struct fg_pool *pool;
    int n_threads;
    int64_t tokens, heads, D;
    double clock;
};

struct job {
    const struct bench *b;
    const struct fg_kernels *k;
    struct fg_kv_head *kv; // [heads]
    struct fg_attn_rows rows;
    struct fg_attn_acc *acc; // [threads]
    uint8_t *scratch;
    uint64_t scratch_bytes;
    bool fast, cached;
    int64_t start; // the first item of a pass
};

static void *memory(uint64_t bytes)
{
    void *p = fg_alloc_aligned(bytes);
    if (!p) {
        fprintf(stderr, "bench_attn: out of memory\n");
        exit(5);
    }
    return p;
}

// Of large pages, where the machine has them.
static void *pages(uint64_t bytes)
{
    const uint64_t large = 2 << 20;
    bytes = (bytes + large - 1) / large * large;
    uint8_t *p = aligned_alloc(large, bytes);
    if (!p) {
        fprintf(stderr, "bench_attn: out of memory\n");
        exit(5);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(i * 2654435761u >> 13 & 0x3B); // of any format, a small number
    return p;
}

// Cycles per second, from a chain of additions.
static double core_clock(void)
{
    double best = 0;
    for (int i = 0; i < 20; i++) {
        const uint64_t rounds = 1 << 20;
        uint64_t x = 0;
        double t = bench_now();
        for (uint64_t r = 0; r < rounds; r++) {
            x += r;
            __asm__ volatile("" : "+r"(x));
        }
        double rate = (double)rounds / (bench_now() - t);
        if (rate > best) best = rate;
    }
    return best;
}

static void item(void *ctx, int64_t i, int worker)
{
    const struct job *j = ctx;
    const int64_t segments = j->b->tokens / FG_KV_SEGMENT;
    i = (j->start + i) % (j->b->heads * segments);
    const struct fg_kv_head *kv = &j->kv[j->cached ? 0 : i / segments];
    const int64_t first = j->cached ? worker * FG_KV_TILES : i % segments * FG_KV_TILES;
    const struct fg_attn_acc *acc = &j->acc[worker];
    for (int64_t r = 0; r < j->rows.n; r++)
        acc->m[r] = -INFINITY;
    for (int64_t t = first; t < first + FG_KV_TILES; t++)
        j->k->attn_tile[j->fast](acc, kv, t, &j->rows, 0, j->rows.n,
                                 j->scratch + (uint64_t)worker * j->scratch_bytes);
}

// Passes are short, so that some go undisturbed; they wander through the history.
static void figure(struct job *j, bool cached)
{
    const struct bench *b = j->b;
    const enum fg_kv_format f = j->kv[0].format;
    const int64_t per_thread = cached ? 24 / j->rows.n + 1 : 96 / j->rows.n + 1;
    const int64_t items = per_thread * b->n_threads;
    double best = 1e30, start = bench_now();
    j->cached = cached;
    j->start = 0;
    do {
        double t = bench_now();
        fg_pool_run_near(b->pool, items, item, j);
        t = bench_now() - t;
        if (t < best) best = t;
        j->start += items;
    } while (bench_now() - start < SECONDS);
    const double tokens = (double)(items * FG_KV_SEGMENT);
    const double bytes =
        (double)(fg_kv_k_page_bytes(f, b->D) + fg_kv_v_page_bytes(f, b->D)) / FG_KV_PAGE;
    printf("  %-6s %7.2f cycles %6.2f GB/s", cached ? "cache" : "memory",
           best * b->clock * b->n_threads / tokens / (double)j->rows.n,
           bytes * tokens / best * 1e-9);
}

#define READ_BYTES (1 << 20) // of an item

struct reads {
    const uint8_t *data;
    uint64_t n_items, start, sums[64];
};

static void read_item(void *ctx, int64_t i, int worker)
{
    struct reads *r = ctx;
    const uint64_t at = (r->start + (uint64_t)i) % r->n_items;
    r->sums[worker % 64] += fg_bandwidth_sum(r->data + at * READ_BYTES, READ_BYTES);
}

// Bytes per second that all threads read, in passes as short as those of the figures.
static double read_rate(const struct bench *b)
{
    struct reads r = {.n_items = 512};
    uint8_t *data = pages(r.n_items * READ_BYTES);
    const int64_t items = 16 * b->n_threads;
    double best = 1e30, start = bench_now();
    r.data = data;
    do {
        double t = bench_now();
        fg_pool_run_near(b->pool, items, read_item, &r);
        t = bench_now() - t;
        if (t < best) best = t;
        r.start += (uint64_t)items;
    } while (bench_now() - start < SECONDS);
    free(data);
    return (double)(items * READ_BYTES) / best;
}

static void bench_rows(struct job *j, int64_t n, const float *q, int8_t *qc, float *qs,
                       int32_t *qsum, int64_t *pos)
{
    const int64_t W = fg_kv_width(j->b->D);
    j->rows = (struct fg_attn_rows){n, q, qc, qs, qsum, pos, 1.0f / 16};
    for (int64_t r = 0; r < n; r++) {
        fg_attn_query(j->k, qc + r * 2 * W, qs + r, qsum + r, q + r * W, j->b->D, j->rows.scale);
        pos[r] = j->b->tokens - 1;
    }
    printf("%-11s %-4s %-5s D %3lld rows %4lld", j->k->isa, fg_kv_format_name(j->kv[0].format),
           j->fast ? "fast" : "exact", (long long)j->b->D, (long long)n);
    figure(j, true);
    figure(j, false);
    printf("\n");
    fflush(stdout);
}

static void bench_format(const struct bench *b, enum fg_kv_format f, const char *isa, bool exact,
                         int64_t only)
{
    const int64_t W = fg_kv_width(b->D), bytes = FG_KV_PAGE * sizeof(uint16_t);
    const int64_t n_pages = b->tokens / FG_KV_PAGE;
    struct job j = {.b = b, .fast = !exact, .scratch_bytes = fg_attn_tile_scratch_bytes(b->D)};
    j.kv = memory((uint64_t)b->heads * sizeof *j.kv);
    for (int64_t h = 0; h < b->heads; h++) {
        struct fg_kv_head *kv = &j.kv[h];
        *kv = (struct fg_kv_head){.format = f, .D = b->D};
        kv->k = pages((uint64_t)(n_pages * fg_kv_k_page_bytes(f, b->D)));
        kv->v = pages((uint64_t)(n_pages * fg_kv_v_page_bytes(f, b->D)));
        if (fg_kv_k8(f)) kv->ks = pages((uint64_t)(n_pages * bytes));
        if (fg_kv_v8(f)) kv->vs = pages((uint64_t)(n_pages * bytes));
    }
    j.acc = memory((uint64_t)b->n_threads * sizeof *j.acc);
    for (int i = 0; i < b->n_threads; i++)
        j.acc[i] =
            (struct fg_attn_acc){memory(ROWS_MAX * sizeof(float)), memory(ROWS_MAX * sizeof(float)),
                                 memory((uint64_t)(ROWS_MAX * W) * sizeof(float))};
    j.scratch = memory((uint64_t)b->n_threads * j.scratch_bytes);
    float *q = memory((uint64_t)(ROWS_MAX * W) * sizeof *q), *qs = memory(ROWS_MAX * sizeof *qs);
    int8_t *qc = memory((uint64_t)(2 * ROWS_MAX * W));
    int32_t *qsum = memory(ROWS_MAX * sizeof *qsum);
    int64_t *pos = memory(ROWS_MAX * sizeof *pos);
    for (int64_t r = 0; r < ROWS_MAX; r++)
        for (int64_t d = 0; d < b->D; d++)
            q[r * W + d] = (float)((r * 31 + d * 17) % 61 - 30) * 0.02f;

    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    for (int l = n - 1; l > 0; l--) {
        j.k = levels[l];
        if (isa ? strcmp(isa, j.k->isa) != 0
                : levels[l - 1]->attn_tile[j.fast] == j.k->attn_tile[j.fast])
            continue;
        static const int64_t rows[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 48, 384};
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (only == 0 || only == rows[i]) bench_rows(&j, rows[i], q, qc, qs, qsum, pos);
    }
    for (int64_t h = 0; h < b->heads; h++) {
        free(j.kv[h].k);
        free(j.kv[h].v);
        free(j.kv[h].ks);
        free(j.kv[h].vs);
    }
    for (int i = 0; i < b->n_threads; i++) {
        free(j.acc[i].m);
        free(j.acc[i].l);
        free(j.acc[i].o);
    }
    void *all[] = {j.kv, j.acc, j.scratch, q, qs, qc, qsum, pos};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

int main(int argc, char **argv)
{
    struct bench b = {.n_threads = 2, .tokens = 65536, .heads = 4, .D = 256};
    const char *isa = NULL;
    enum fg_kv_format format = FG_KV_N_ALL;
    bool exact = false;
    int64_t only = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--threads") == 0) b.n_threads = atoi(value);
        if (strcmp(argv[i], "--tokens") == 0)
            b.tokens = atoll(value) / FG_KV_SEGMENT * FG_KV_SEGMENT;
        if (strcmp(argv[i], "--heads") == 0) b.heads = atoll(value);
        if (strcmp(argv[i], "--dim") == 0) b.D = atoll(value);
        if (strcmp(argv[i], "--isa") == 0) isa = value;
        if (strcmp(argv[i], "--rows") == 0) only = atoll(value);
        if (strcmp(argv[i], "--exact") == 0) exact = true;
        if (strcmp(argv[i], "--format") == 0 && !fg_kv_format_of_name(value, &format)) {
            fprintf(stderr, "bench_attn: no format %s\n", value);
            return 2;
        }
    }
    if (b.n_threads < 1 || b.tokens < FG_KV_SEGMENT * b.n_threads || b.heads < 1 || b.D < 1 ||
        b.D > FG_KV_WIDTH_MAX) {
        fprintf(stderr, "bench_attn: at least a segment per thread, a head, 1 to %d dims\n",
                FG_KV_WIDTH_MAX);
        return 2;
    }
    struct fg_error err;
    if (fg_pool_new(&b.pool, b.n_threads, &err)) return 5;
    b.clock = core_clock();
    printf("%d threads, %lld heads of %lld tokens, clock %.2f GHz, reads %.1f GB/s\n", b.n_threads,
           (long long)b.heads, (long long)b.tokens, b.clock * 1e-9, read_rate(&b) * 1e-9);
    for (enum fg_kv_format f = 0; f < FG_KV_N_ALL; f++)
        if (format == FG_KV_N_ALL || format == f) bench_format(&b, f, isa, exact, only);
    fg_pool_free(b.pool);
    return 0;
}
