// eval/bench_kernels.c: kernels on their own, on all threads, with the widths of the 27B model and
// more weights than the caches hold.
#include "eval/bench.h"
#include "base/arena.h"
#include "kernels/parallel.h"
#include "quant/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN 5120
#define INTERMEDIATE 17408
#define ROTATION 1024
#define ROWS_MAX 64
#define ATTN_HEADS 24
#define ATTN_KV_HEADS 4
#define ATTN_DIM 256
#define ATTN_POS_MAX 8192
#define ATTN_POS_BYTES (2 * ATTN_KV_HEADS * ATTN_DIM * sizeof(float))
#define GDN_KEY_HEADS 16
#define GDN_VALUE_HEADS 48
#define GDN_DIM 128
#define GDN_LAYERS_MAX 16 // in turn, so that states come from memory, as in a model
#define GDN_FLOP 7        // per row and element of S: three FMAs and the decay

static const int64_t row_counts[] = {1, 2, 3, 4, 6, 8, 16, 32, 64};
static const int64_t few_counts[] = {1, 8, 64};
#define N_ROWS (sizeof row_counts / sizeof row_counts[0])
#define N_FEW (sizeof few_counts / sizeof few_counts[0])

struct kernels {
    struct fg_bench *bench;
    struct fg_parallel par;
    struct fg_arena arena; // of one group of figures
    uint64_t bytes;
    struct fg_error *err;
    // What the figure at work calls.
    struct fg_linear linear;
    struct fg_input input;
    int64_t T, pos, layers;
    float *x, *y;
    uint8_t *signs;
    float *q, *k, *v, *o, *S, *alpha, *beta;
    int64_t *decoded; // per thread: keeps decoding from being left out
};

static int out_of_memory(struct kernels *b, uint64_t bytes)
{
    return fg_fail_memory(b->err, "bench", bytes);
}

static void *random_bytes(struct kernels *b, uint64_t n)
{
    uint64_t words = (n + 7) / 8;
    uint64_t *p = fg_arena_alloc(&b->arena, words, sizeof *p);
    struct fg_random r = fg_random_seeded(n);
    for (uint64_t i = 0; p && i < words; i++)
        p[i] = fg_random_next(&r);
    return p;
}

static float *random_floats(struct kernels *b, int64_t n, float scale)
{
    float *p = fg_arena_alloc(&b->arena, (uint64_t)n, sizeof *p);
    struct fg_random r = fg_random_seeded((uint64_t)n);
    for (int64_t i = 0; p && i < n; i++)
        p[i] = scale * (float)(2 * fg_random_u01(&r) - 1);
    return p;
}

// Threads, scratch, and inputs of ROWS_MAX rows in a fresh arena.
static int begin(struct kernels *b, bool quantized, bool fast)
{
    fg_arena_free(&b->arena);
    fg_arena_init(&b->arena, 0);
    b->par.fast = fast;
    struct fg_parallel_sizes sizes = {.T = ROWS_MAX,
                                      .n = INTERMEDIATE,
                                      .quantized = quantized,
                                      .G = ATTN_HEADS / ATTN_KV_HEADS,
                                      .D = ATTN_DIM,
                                      .dv = GDN_DIM};
    b->x = random_floats(b, ROWS_MAX * INTERMEDIATE, 1);
    b->signs = random_bytes(b, INTERMEDIATE / 8);
    bool ok = b->x && b->signs && fg_parallel_alloc(&b->par, &sizes, &b->arena);
    return ok ? 0 : out_of_memory(b, ROWS_MAX * INTERMEDIATE * sizeof(float));
}

static struct fg_bench_figure *figure(struct kernels *b, const char *name, int64_t rows,
                                      int64_t ctx)
{
    struct fg_bench_figure *f = fg_bench_add(b->bench->report, name);
    if (!f) {
        out_of_memory(b, sizeof *f);
        return NULL;
    }
    f->rows = rows;
    f->ctx = ctx;
    char what[96];
    snprintf(what, sizeof what, "%s, %lld rows", name, (long long)rows);
    if (b->bench->say) b->bench->say(b->bench->ctx, what);
    return f;
}

static int measure(struct kernels *b, struct fg_bench_figure *f,
                   int (*run)(void *ctx, struct fg_error *err), int64_t calls)
{
    struct fg_bench_work work = {NULL, run, b, calls};
    return fg_bench_measure(b->bench, &work, f, b->err);
}

// ---- products

static int run_linear(void *ctx, struct fg_error *err)
{
    (void)err;
    struct kernels *b = ctx;
    fg_parallel_linear(&b->par, &b->linear, 1, &b->input, b->T);
    return 0;
}

static int products(struct kernels *b, const char *name, double bytes, bool integers,
                    const int64_t *counts, size_t n)
{
    double one = 0;
    for (size_t i = 0; i < n; i++) {
        struct fg_bench_figure *f = figure(b, name, counts[i], b->linear.n_in);
        if (!f) return FG_ERESOURCE;
        b->T = counts[i];
        f->bytes = bytes;
        double mac = (double)b->T * (double)b->linear.n_out * (double)b->linear.n_in;
        f->mac[integers ? FG_ROOF_I8 : FG_ROOF_F32] = mac;
        if (integers) f->mac[FG_ROOF_AMX] = mac;
        int rc = measure(b, f, run_linear, 1);
        if (rc) return rc;
        if (b->T == 1) one = f->seconds.median;
        f->ratio = one > 0 ? f->seconds.median / one : 0;
    }
    return 0;
}

static bool make_lut(struct kernels *b, struct fg_lut *w, enum fg_layout layout)
{
    int64_t rows = fg_layout_rows(layout);
    int64_t group = fg_layout_group_bytes(layout, HIDDEN);
    int64_t n_groups = (int64_t)(b->bytes / (uint64_t)group);
    if (n_groups < 1) n_groups = 1;
    float *table = fg_arena_alloc(&b->arena, 128, sizeof *table);
    uint8_t *table_u8 = fg_arena_alloc(&b->arena, 128, 1);
    float *scale = fg_arena_alloc(&b->arena, (uint64_t)(n_groups * rows), sizeof *scale);
    uint8_t *tiles = random_bytes(b, (uint64_t)(n_groups * group));
    if (!table || !table_u8 || !scale || !tiles) return false;
    for (int i = 0; i < 128; i++) {
        int code = i % 64 * 4 - 126;
        table_u8[i] = (uint8_t)(code + 128);
        table[i] = (float)code / 127;
    }
    for (int64_t i = 0; i < n_groups * rows; i++)
        scale[i] = 0.01f;
    *w = (struct fg_lut){.layout = layout,
                         .n_out = n_groups * rows,
                         .n_in = HIDDEN,
                         .tiles = tiles,
                         .table = table,
                         .table_u8 = table_u8,
                         .scale = scale,
                         .scale_ts = scale};
    return true;
}

static void decode_group(void *ctx, int64_t item, int worker)
{
    struct kernels *b = ctx;
    const struct fg_lut *w = b->linear.lut;
    float *out = b->y + (int64_t)worker * 2 * FG_LUT_LANES * HIDDEN;
    b->par.kernels->lut_decode[w->layout](out, HIDDEN, w, item);
    b->decoded[worker * 8] += (int64_t)out[0];
}

static int run_decode(void *ctx, struct fg_error *err)
{
    (void)err;
    struct kernels *b = ctx;
    const struct fg_lut *w = b->linear.lut;
    fg_pool_run(b->par.pool, fg_layout_groups(w->layout, w->n_out), decode_group, b);
    return 0;
}

static int layout_figures(struct kernels *b, enum fg_layout layout, const char *name)
{
    struct fg_lut w;
    int rc = begin(b, true, true);
    if (rc) return rc;
    int n_threads = fg_pool_threads(b->par.pool);
    b->decoded = fg_arena_alloc(&b->arena, (uint64_t)n_threads * 8, sizeof *b->decoded);
    if (!make_lut(b, &w, layout) || !b->decoded) return out_of_memory(b, b->bytes);
    int64_t decoded = (int64_t)n_threads * 2 * FG_LUT_LANES * HIDDEN;
    int64_t outputs = ROWS_MAX * w.n_out;
    b->y =
        fg_arena_alloc(&b->arena, (uint64_t)(outputs > decoded ? outputs : decoded), sizeof *b->y);
    if (!b->y) return out_of_memory(b, (uint64_t)outputs * sizeof *b->y);
    b->linear =
        (struct fg_linear){.n_out = w.n_out, .n_in = HIDDEN, .y = b->y, .ldy = w.n_out, .lut = &w};
    b->input = (struct fg_input){.x = b->x, .ldx = INTERMEDIATE, .n = HIDDEN};
    double bytes =
        (double)fg_layout_groups(layout, w.n_out) * (double)fg_layout_group_bytes(layout, HIDDEN);
    rc = products(b, name, bytes, true, row_counts, N_ROWS);
    char text[FG_BENCH_NAME];
    if (rc == 0) {
        snprintf(text, sizeof text, "%s exact", name);
        b->par.fast = false;
        rc = products(b, text, bytes, false, few_counts, N_FEW);
    }
    if (rc) return rc;
    snprintf(text, sizeof text, "%s decode", name);
    struct fg_bench_figure *f = figure(b, text, 0, HIDDEN);
    if (!f) return FG_ERESOURCE;
    f->bytes = bytes;
    return measure(b, f, run_decode, 1);
}

static int dense_figures(struct kernels *b, enum fg_dtype dtype, const char *name)
{
    int rc = begin(b, false, true);
    if (rc) return rc;
    int64_t n_out = (int64_t)(b->bytes / (HIDDEN * fg_dtype_bytes(dtype)));
    n_out = n_out < 1 ? 1 : n_out;
    uint64_t n = (uint64_t)n_out * HIDDEN;
    uint16_t *w = random_bytes(b, n * sizeof *w);
    b->y = fg_arena_alloc(&b->arena, (uint64_t)(ROWS_MAX * n_out), sizeof *b->y);
    if (!w || !b->y) return out_of_memory(b, b->bytes);
    for (uint64_t i = 0; i < n; i++) // near 1, of either sign
        w[i] = (uint16_t)((w[i] & 0x807F) | (dtype == FG_BF16 ? 0x3F80 : 0x3C00));
    b->linear = (struct fg_linear){.w = w,
                                   .dtype = dtype,
                                   .n_out = n_out,
                                   .n_in = HIDDEN,
                                   .y = b->y,
                                   .ldy = n_out,
                                   .exact = dtype != FG_BF16};
    b->input = (struct fg_input){.x = b->x, .ldx = INTERMEDIATE, .n = HIDDEN};
    return products(b, name, (double)n * sizeof *w, false, few_counts, N_FEW);
}

// ---- what stands around products

static void rotate_rows(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1)
{
    struct kernels *b = ctx;
    for (int64_t i = i0; i < i1; i++)
        k->rotate(b->y + i * INTERMEDIATE, b->x + i * INTERMEDIATE, b->signs, INTERMEDIATE,
                  ROTATION);
}

static void quantize_rows(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1)
{
    struct kernels *b = ctx;
    for (int64_t i = i0; i < i1; i++) {
        int8_t *codes = (int8_t *)(b->y + i * INTERMEDIATE);
        for (int64_t at = 0; at < INTERMEDIATE; at += FG_ACT_BLOCK) {
            float scale;
            int32_t sum;
            k->quantize(codes + at, &scale, &sum, b->x + i * INTERMEDIATE + at, FG_ACT_BLOCK);
        }
    }
}

#define AROUND_REPEATS 20

static int run_rotate(void *ctx, struct fg_error *err)
{
    (void)err;
    struct kernels *b = ctx;
    for (int i = 0; i < AROUND_REPEATS; i++)
        fg_parallel_for(&b->par, b->T, 1, rotate_rows, b);
    return 0;
}

static int run_quantize(void *ctx, struct fg_error *err)
{
    (void)err;
    struct kernels *b = ctx;
    for (int i = 0; i < AROUND_REPEATS; i++)
        fg_parallel_for(&b->par, b->T, 1, quantize_rows, b);
    return 0;
}

// Additions of the transform and products of the quantizer count as multiply-adds.
static int around_figures(struct kernels *b)
{
    int rc = begin(b, false, true);
    if (rc) return rc;
    b->y = fg_arena_alloc(&b->arena, ROWS_MAX * INTERMEDIATE, sizeof *b->y);
    if (!b->y) return out_of_memory(b, ROWS_MAX * INTERMEDIATE * sizeof *b->y);
    b->T = ROWS_MAX;
    struct fg_bench_figure *f = figure(b, "rotate", b->T, INTERMEDIATE);
    if (!f) return FG_ERESOURCE;
    double values = (double)b->T * INTERMEDIATE;
    f->mac[FG_ROOF_F32] = values * log2(ROTATION);
    rc = measure(b, f, run_rotate, AROUND_REPEATS);
    if (rc) return rc;
    f = figure(b, "quantize", b->T, INTERMEDIATE);
    if (!f) return FG_ERESOURCE;
    f->mac[FG_ROOF_F32] = values;
    return measure(b, f, run_quantize, AROUND_REPEATS);
}

// ---- mixers

static int run_attention(void *ctx, struct fg_error *err)
{
    (void)err;
    struct kernels *b = ctx;
    fg_parallel_attention(&b->par, b->o, b->q, b->k, b->v, b->pos + ROWS_MAX, b->pos, b->T,
                          ATTN_HEADS, ATTN_KV_HEADS, ATTN_DIM, 0.0625f);
    return 0;
}

static int attention_figures(struct kernels *b)
{
    int rc = begin(b, false, true);
    if (rc) return rc;
    b->pos = (int64_t)(b->bytes / ATTN_POS_BYTES);
    if (b->pos > ATTN_POS_MAX) b->pos = ATTN_POS_MAX;
    int64_t cache = ATTN_KV_HEADS * (b->pos + ROWS_MAX) * ATTN_DIM;
    int64_t rows = (int64_t)ROWS_MAX * ATTN_HEADS * ATTN_DIM;
    b->k = random_floats(b, cache, 1);
    b->v = random_floats(b, cache, 1);
    b->q = random_floats(b, rows, 1);
    b->o = fg_arena_alloc(&b->arena, (uint64_t)rows, sizeof *b->o);
    if (!b->k || !b->v || !b->q || !b->o) return out_of_memory(b, (uint64_t)cache * 8);
    for (size_t i = 0; i < N_FEW && rc == 0; i++) {
        struct fg_bench_figure *f = figure(b, "attention", few_counts[i], b->pos);
        if (!f) return FG_ERESOURCE;
        b->T = few_counts[i];
        double seen = (double)b->T * (double)b->pos + (double)b->T * (double)(b->T + 1) / 2;
        f->bytes = (double)ATTN_POS_BYTES * (double)(b->pos + b->T);
        f->mac[FG_ROOF_F32] = 2 * seen * ATTN_HEADS * ATTN_DIM;
        rc = measure(b, f, run_attention, 1);
    }
    return rc;
}

static int run_deltanet(void *ctx, struct fg_error *err)
{
    (void)err;
    struct kernels *b = ctx;
    int64_t state = (int64_t)GDN_VALUE_HEADS * GDN_DIM * GDN_DIM;
    for (int64_t layer = 0; layer < b->layers; layer++)
        fg_parallel_deltanet(&b->par, b->S + layer * state, GDN_KEY_HEADS, GDN_VALUE_HEADS, GDN_DIM,
                             GDN_DIM, b->o, b->q, GDN_KEY_HEADS * GDN_DIM, b->k,
                             GDN_KEY_HEADS * GDN_DIM, b->v, GDN_VALUE_HEADS * GDN_DIM, b->alpha,
                             b->beta, b->T);
    return 0;
}

static int deltanet_figures(struct kernels *b)
{
    int rc = begin(b, false, true);
    if (rc) return rc;
    int64_t state = (int64_t)GDN_VALUE_HEADS * GDN_DIM * GDN_DIM;
    int64_t keys = (int64_t)ROWS_MAX * GDN_KEY_HEADS * GDN_DIM;
    int64_t values = (int64_t)ROWS_MAX * GDN_VALUE_HEADS * GDN_DIM;
    int64_t gates = (int64_t)ROWS_MAX * GDN_VALUE_HEADS;
    b->layers = (int64_t)(b->bytes / ((uint64_t)state * sizeof(float))) + 1;
    if (b->layers > GDN_LAYERS_MAX) b->layers = GDN_LAYERS_MAX;
    b->S = random_floats(b, b->layers * state, 0.01f);
    b->q = random_floats(b, keys, 0.1f);
    b->k = random_floats(b, keys, 0.1f);
    b->v = random_floats(b, values, 1);
    b->o = fg_arena_alloc(&b->arena, (uint64_t)values, sizeof *b->o);
    b->alpha = fg_arena_alloc(&b->arena, (uint64_t)gates, sizeof *b->alpha);
    b->beta = fg_arena_alloc(&b->arena, (uint64_t)gates, sizeof *b->beta);
    if (!b->S || !b->q || !b->k || !b->v || !b->o || !b->alpha || !b->beta)
        return out_of_memory(b, (uint64_t)(b->layers * state) * sizeof *b->S);
    for (int64_t i = 0; i < gates; i++) {
        b->alpha[i] = 0.95f;
        b->beta[i] = 0.5f;
    }
    for (size_t i = 0; i < N_FEW && rc == 0; i++) {
        struct fg_bench_figure *f = figure(b, "deltanet", few_counts[i], GDN_DIM);
        if (!f) return FG_ERESOURCE;
        b->T = few_counts[i];
        f->bytes = (double)state * sizeof(float);
        f->mac[FG_ROOF_F32] = GDN_FLOP / 2.0 * (double)b->T * (double)state;
        rc = measure(b, f, run_deltanet, b->layers);
    }
    return rc;
}

int fg_bench_kernels(struct fg_bench *bench, const struct fg_kernels *k, int n_threads,
                     uint64_t bytes, struct fg_error *err)
{
    static const struct {
        enum fg_layout layout;
        const char *name;
    } layouts[] = {{FG_P6, "p6"}, {FG_P4X2, "p4x2"}, {FG_P4, "p4"}, {FG_I8, "i8"}};
    struct kernels b = {.bench = bench, .par = {.kernels = k}, .bytes = bytes, .err = err};
    fg_arena_init(&b.arena, 0);
    int rc = fg_pool_new(&b.par.pool, n_threads, err);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0] && rc == 0; i++)
        rc = layout_figures(&b, layouts[i].layout, layouts[i].name);
    if (rc == 0) rc = dense_figures(&b, FG_BF16, "bf16");
    if (rc == 0) rc = dense_figures(&b, FG_F16, "f16");
    if (rc == 0) rc = around_figures(&b);
    if (rc == 0) rc = attention_figures(&b);
    if (rc == 0) rc = deltanet_figures(&b);
    fg_arena_free(&b.arena);
    fg_pool_free(b.par.pool);
    return rc;
}
