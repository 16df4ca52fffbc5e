// eval/bench_kernels.c: kernels on their own, on all threads, with the widths of the 27B model and
// more weights than the caches hold.
#include "eval/bench.h"
#include "base/arena.h"
#include "kernels/parallel.h"
#include "quant/random.h"
#include "runtime/kv.h"
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
#define ATTN_ROWS_MAX 512
#define ATTN_POS_SHORT 4096
#define ATTN_POS_LONG 65536
#define ATTN_QUICK_BYTES ((uint64_t)64 << 20)
#define ATTN_LAYERS_MAX 32 // in turn, so that keys and values come from memory, as in a model
#define GDN_KEY_HEADS 16
#define GDN_VALUE_HEADS 48
#define GDN_DIM 128
#define GDN_LAYERS_MAX 16  // the same for states
#define GDN_FLOP 7         // per row and element of S: three FMAs and the decay
#define GDN_PENDING_FLOP 3 // per pending row and element: the update alone
#define GDN_TRIED 8        // rows that are tried
#define GDN_PENDING 4      // rows that were accepted before

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
    int64_t T, layers;
    float *x, *y;
    uint8_t *signs;
    struct fg_kv *kv;
    struct fg_attn_call attention;
    float *S[2]; // read and written, layers after each other
    struct fg_gdn_call gdn;
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
                                      .D = ATTN_DIM,
                                      .dk = GDN_DIM,
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
    for (int64_t layer = 0; layer < b->layers; layer++) {
        b->attention.kv = fg_kv_heads(b->kv, layer);
        fg_parallel_attention(&b->par, &b->attention);
    }
    return 0;
}

// Queries of ATTN_ROWS_MAX rows, as numbers and as codes.
static bool make_queries(struct kernels *b)
{
    struct fg_attn_call *c = &b->attention;
    const int64_t rows = (int64_t)ATTN_ROWS_MAX * ATTN_HEADS;
    const int64_t D = ATTN_DIM; // a whole width: rows have no padding
    float *q = random_floats(b, rows * D, 1);
    int8_t *qc = fg_arena_alloc(&b->arena, (uint64_t)(2 * rows * D), 1);
    float *qs = fg_arena_alloc(&b->arena, (uint64_t)rows, sizeof *qs);
    int32_t *qsum = fg_arena_alloc(&b->arena, (uint64_t)rows, sizeof *qsum);
    float *o = fg_arena_alloc(&b->arena, (uint64_t)(rows * D), sizeof *o);
    *c = (struct fg_attn_call){.o = o,
                               .q = q,
                               .qc = qc,
                               .qs = qs,
                               .qsum = qsum,
                               .n_heads = ATTN_HEADS,
                               .n_kv = ATTN_KV_HEADS,
                               .D = D,
                               .scale = 0.0625f};
    if (!q || !qc || !qs || !qsum || !o) return false;
    for (int64_t r = 0; r < rows; r++)
        fg_attn_query(b->par.kernels, qc + r * 2 * D, qs + r, qsum + r, q + r * D, D, c->scale);
    return true;
}

// Keys and values of `positions` positions in b->layers layers: a page of random rows, repeated.
static int make_history(struct kernels *b, enum fg_kv_format format, int64_t positions)
{
    const struct fg_kv_shape shape = {
        .n_layers = b->layers, .n_heads = ATTN_KV_HEADS, .D = ATTN_DIM, .format = format};
    int rc = fg_kv_new(&b->kv, &shape, positions, FG_KV_AUTO, b->err);
    if (rc == 0) rc = fg_kv_grow(b->kv, positions, 0, NULL, b->err);
    if (rc) return rc;
    const float *rows = random_floats(b, 2 * (int64_t)FG_KV_PAGE * ATTN_DIM, 1);
    void *page = fg_arena_alloc(&b->arena, fg_kv_page_bytes(b->kv), 1);
    if (!rows || !page) return out_of_memory(b, fg_kv_page_bytes(b->kv));
    for (int64_t i = 0; i < b->layers * ATTN_KV_HEADS * FG_KV_PAGE; i++) {
        const int64_t head = i / FG_KV_PAGE, pos = i % FG_KV_PAGE;
        const float *k = rows + 2 * pos * ATTN_DIM;
        b->par.kernels->kv_store(fg_kv_heads(b->kv, head / ATTN_KV_HEADS) + head % ATTN_KV_HEADS,
                                 pos, k, k + ATTN_DIM);
    }
    fg_kv_page_get(b->kv, 0, page);
    for (int64_t p = 1; p < fg_kv_rows(b->kv) / FG_KV_PAGE; p++)
        fg_kv_page_put(b->kv, p, 0, FG_KV_PAGE, page);
    return 0;
}

static int attention_figure(struct kernels *b, const char *name, int64_t pos, int64_t T)
{
    const enum fg_kv_format format = fg_kv_shape(b->kv)->format;
    const int64_t layers = b->layers;
    struct fg_bench_figure *f = figure(b, name, T, pos);
    if (!f) return FG_ERESOURCE;
    b->attention.pos = pos;
    b->attention.T = T;
    if (T > FG_ATTN_FEW_MAX) b->layers = 1; // bound by arithmetic, wherever the history is
    const double seen = (double)T * (double)pos + (double)T * (double)(T + 1) / 2;
    const double mac = seen * ATTN_HEADS * ATTN_DIM;
    const double layer_bytes = (double)fg_kv_position_bytes(fg_kv_shape(b->kv)) / (double)layers;
    f->bytes = layer_bytes * (double)(pos + T);
    // Queries and probabilities of 15 bits are two digits: INT8 is multiplied twice.
    const bool k8 = b->par.fast && fg_kv_k8(format), v8 = b->par.fast && fg_kv_v8(format);
    f->mac[FG_ROOF_I8] = (k8 ? 2 * mac : 0) + (v8 ? 2 * mac : 0);
    f->mac[FG_ROOF_F32] = (k8 ? 0 : mac) + (v8 ? 0 : mac);
    int rc = measure(b, f, run_attention, b->layers);
    b->layers = layers;
    return rc;
}

// Few rows and many over a history of about `pos` positions in one format.
static int attention_figures(struct kernels *b, enum fg_kv_format format, bool fast, int64_t pos)
{
    static const int64_t counts[] = {1, 8, 64, ATTN_ROWS_MAX};
    const struct fg_kv_shape one = {
        .n_layers = 1, .n_heads = ATTN_KV_HEADS, .D = ATTN_DIM, .format = format};
    const int64_t most = (int64_t)(b->bytes / fg_kv_position_bytes(&one));
    int rc = begin(b, false, fast);
    if (rc) return rc;
    b->layers = most / pos < 1 ? 1 : most / pos;
    if (b->layers > ATTN_LAYERS_MAX) b->layers = ATTN_LAYERS_MAX;
    const uint64_t partials =
        fg_attn_partial_floats(pos + ATTN_ROWS_MAX, ATTN_HEADS, ATTN_KV_HEADS, ATTN_DIM);
    b->par.partials = fg_arena_alloc(&b->arena, partials, sizeof *b->par.partials);
    if (!b->par.partials || !make_queries(b)) return out_of_memory(b, partials * sizeof(float));
    rc = make_history(b, format, pos + ATTN_ROWS_MAX);
    char name[FG_BENCH_NAME];
    snprintf(name, sizeof name, "attention %s%s", fg_kv_format_name(format), fast ? "" : " exact");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && rc == 0; i++) {
        if (counts[i] == ATTN_ROWS_MAX && pos > ATTN_POS_SHORT) continue; // a minute of nothing new
        rc = attention_figure(b, name, pos, counts[i]);
    }
    fg_kv_free(b->kv);
    b->kv = NULL;
    return rc;
}

static int all_attention_figures(struct kernels *b)
{
    static const struct {
        enum fg_kv_format format;
        bool fast;
    } ways[] = {{FG_KV_KV8, true}, {FG_KV_V8, true}, {FG_KV_FP16, true}, {FG_KV_KV8, false}};
    static const int64_t histories[] = {ATTN_POS_SHORT, ATTN_POS_LONG};
    int rc = 0;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0] && rc == 0; i++) {
        for (size_t h = 0; h < sizeof histories / sizeof histories[0] && rc == 0; h++) {
            const bool small = b->bytes < ATTN_QUICK_BYTES; // only to see that it works
            rc = attention_figures(b, ways[i].format, ways[i].fast,
                                   small ? histories[h] / 64 : histories[h]);
        }
    }
    return rc;
}

static int run_gdn(void *ctx, struct fg_error *err)
{
    (void)err;
    struct kernels *b = ctx;
    const int64_t state = (int64_t)GDN_VALUE_HEADS * GDN_DIM * GDN_DIM;
    for (int64_t layer = 0; layer < b->layers; layer++) {
        b->gdn.S = b->S[0] + layer * state;
        b->gdn.S_out = b->S[1] + layer * state;
        fg_parallel_gdn(&b->par, &b->gdn);
    }
    return 0;
}

// Rows of a call and rows that are pending, of ROWS_MAX and GDN_PENDING rows.
static bool make_gdn_rows(struct kernels *b)
{
    const int64_t key = GDN_KEY_HEADS * GDN_DIM, value = GDN_VALUE_HEADS * GDN_DIM;
    const int64_t gates = (int64_t)ROWS_MAX * GDN_VALUE_HEADS;
    float *qk = random_floats(b, ROWS_MAX * key, 0.1f), *v = random_floats(b, ROWS_MAX * value, 1);
    float *g = fg_arena_alloc(&b->arena, (uint64_t)gates, sizeof *g);
    float *beta = fg_arena_alloc(&b->arena, (uint64_t)gates, sizeof *beta);
    float *o = fg_arena_alloc(&b->arena, (uint64_t)(ROWS_MAX * value), sizeof *o);
    if (!qk || !v || !g || !beta || !o) return false;
    for (int64_t i = 0; i < gates; i++) {
        g[i] = 0.95f;
        beta[i] = 0.5f;
    }
    b->gdn = (struct fg_gdn_call){
        .nk = GDN_KEY_HEADS,
        .nv = GDN_VALUE_HEADS,
        .dk = GDN_DIM,
        .dv = GDN_DIM,
        .pending = {.k = qk, .d = v, .g = g, .ldk = key, .ldd = value, .ldg = GDN_VALUE_HEADS},
        .rows = {.q = qk,
                 .k = qk,
                 .v = v,
                 .g = g,
                 .beta = beta,
                 .ldq = key,
                 .ldk = key,
                 .ldv = value,
                 .ldg = GDN_VALUE_HEADS},
        .o = o};
    return true;
}

static int gdn_figure(struct kernels *b, const char *name, int64_t rows, int64_t pending)
{
    const double state = (double)GDN_VALUE_HEADS * GDN_DIM * GDN_DIM;
    struct fg_bench_figure *f = figure(b, name, rows, GDN_DIM);
    if (!f) return FG_ERESOURCE;
    b->gdn.rows.T = rows;
    b->gdn.pending.n = pending;
    f->bytes = 2 * state * sizeof(float); // one state read, the other written
    f->mac[FG_ROOF_F32] =
        state * ((double)rows * GDN_FLOP + (double)pending * GDN_PENDING_FLOP) / 2;
    return measure(b, f, run_gdn, b->layers);
}

static int deltanet_figures(struct kernels *b)
{
    const int64_t state = (int64_t)GDN_VALUE_HEADS * GDN_DIM * GDN_DIM;
    const int64_t value = GDN_VALUE_HEADS * GDN_DIM;
    int rc = begin(b, false, true);
    if (rc) return rc;
    b->layers = (int64_t)(b->bytes / (2 * (uint64_t)state * sizeof(float))) + 1;
    if (b->layers > GDN_LAYERS_MAX) b->layers = GDN_LAYERS_MAX;
    for (int i = 0; i < 2; i++)
        b->S[i] = random_floats(b, b->layers * state, 0.01f);
    float *d = fg_arena_alloc(&b->arena, GDN_TRIED * (uint64_t)value, sizeof *d);
    if (!b->S[0] || !b->S[1] || !d || !make_gdn_rows(b))
        return out_of_memory(b, 2 * (uint64_t)(b->layers * state) * sizeof(float));
    for (size_t i = 0; i < N_FEW && rc == 0; i++)
        rc = gdn_figure(b, "deltanet", few_counts[i], 0);
    b->gdn.d = d;
    if (rc == 0) rc = gdn_figure(b, "deltanet tried", GDN_TRIED, GDN_PENDING);
    return rc;
}

int fg_bench_kernels(struct fg_bench *bench, const struct fg_kernels *k, int n_threads,
                     uint64_t bytes, struct fg_error *err)
{
    static const struct {
        enum fg_layout layout;
        const char *name;
    } layouts[] = {
        {FG_P6, "p6"}, {FG_P4X2, "p4x2"}, {FG_P4, "p4"}, {FG_I8, "i8"}, {FG_P6X1, "p6x1"}};
    struct kernels b = {.bench = bench, .par = {.kernels = k}, .bytes = bytes, .err = err};
    fg_arena_init(&b.arena, 0);
    int rc = fg_pool_new(&b.par.pool, n_threads, err);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0] && rc == 0; i++)
        rc = layout_figures(&b, layouts[i].layout, layouts[i].name);
    if (rc == 0) rc = dense_figures(&b, FG_BF16, "bf16");
    if (rc == 0) rc = dense_figures(&b, FG_F16, "f16");
    if (rc == 0) rc = around_figures(&b);
    if (rc == 0) rc = all_attention_figures(&b);
    if (rc == 0) rc = deltanet_figures(&b);
    fg_kv_free(b.kv);
    fg_arena_free(&b.arena);
    fg_pool_free(b.par.pool);
    return rc;
}
