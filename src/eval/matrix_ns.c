// eval/matrix_ns.c
#include "eval/matrix_ns.h"
#include "base/arena.h"
#include "base/progress.h"
#include "eval/bench.h"
#include "kernels/parallel.h"
#include "quant/random.h"
#include "quant/tiles.h"

#define WHAT "speed"
#define RUNS 7
#define BYTES_MIN (192ull << 20) // of all matrices of one measurement, more than caches hold
#define COPIES_MAX 4096
#define SECONDS_MIN 0.02 // of one run

struct run {
    struct fg_parallel par;
    struct fg_arena arena;
    struct fg_linear *mats; // [copies]
    struct fg_lut *luts;    // [copies]
    int64_t copies;
    struct fg_input input;
};

static void fill_random(void *data, uint64_t bytes)
{
    struct fg_random r = fg_random_seeded(bytes);
    uint64_t *p = data;
    for (uint64_t i = 0; i < bytes / 8; i++)
        p[i] = fg_random_next(&r);
}

static uint64_t stored_bytes(enum fg_qformat f, int64_t rows, int64_t cols)
{
    if (fg_qformat_is_kept(f)) return 2 * (uint64_t)rows * (uint64_t)cols;
    return fg_tiles_bytes(fg_layout_of_format(f), rows, cols);
}

// One matrix of made-up weights; tables and scales are shared by all.
static bool make_matrix(struct run *r, enum fg_qformat f, int64_t rows, int64_t cols, int64_t i,
                        const struct fg_lut *model, float *y)
{
    const uint64_t bytes = stored_bytes(f, rows, cols);
    uint8_t *data = fg_arena_alloc(&r->arena, bytes + 8, 1);
    if (!data) return false;
    fill_random(data, bytes);
    r->mats[i] = (struct fg_linear){.n_out = rows, .n_in = cols, .y = y, .ldy = rows};
    if (fg_qformat_is_kept(f)) {
        uint16_t *w = (uint16_t *)(void *)data;
        const uint16_t one = f == FG_Q_BF16 ? 0x3F80 : 0x3C00; // near 1, of either sign
        for (int64_t k = 0; k < rows * cols; k++)
            w[k] = (uint16_t)((w[k] & 0x807F) | one);
        r->mats[i].w = w;
        r->mats[i].dtype = f == FG_Q_BF16 ? FG_BF16 : FG_F16;
        r->mats[i].exact = f != FG_Q_BF16;
        return true;
    }
    r->luts[i] = *model;
    r->luts[i].tiles = data;
    r->mats[i].lut = &r->luts[i];
    return true;
}

static bool make_tables(struct run *r, enum fg_qformat f, int64_t rows, int64_t cols,
                        struct fg_lut *out)
{
    const enum fg_layout layout = fg_layout_of_format(f);
    const int64_t n = fg_layout_groups(layout, rows) * fg_layout_rows(layout);
    float *table = fg_arena_alloc(&r->arena, 128, sizeof *table);
    uint8_t *table_u8 = fg_arena_alloc(&r->arena, 128, 1);
    float *scale = fg_arena_alloc(&r->arena, (uint64_t)n, sizeof *scale);
    if (!table || !table_u8 || !scale) return false;
    for (int i = 0; i < 128; i++) {
        const int code = i % 64 * 4 - 126;
        table_u8[i] = (uint8_t)(code + 128);
        table[i] = (float)code / 127;
    }
    for (int64_t i = 0; i < n; i++)
        scale[i] = 0.01f;
    *out = (struct fg_lut){.layout = layout,
                           .n_out = rows,
                           .n_in = cols,
                           .table = table,
                           .table_u8 = table_u8,
                           .scale = scale,
                           .scale_ts = scale};
    return true;
}

static bool make(struct run *r, enum fg_qformat f, int64_t rows, int64_t cols)
{
    const uint64_t bytes = stored_bytes(f, rows, cols);
    const struct fg_parallel_sizes sizes = {.T = 1, .n = cols, .quantized = !fg_qformat_is_kept(f)};
    struct fg_lut model = {0};
    r->copies = (int64_t)(BYTES_MIN / (bytes + 1)) + 1;
    if (r->copies > COPIES_MAX) r->copies = COPIES_MAX;
    r->mats = fg_arena_alloc(&r->arena, (uint64_t)r->copies, sizeof *r->mats);
    r->luts = fg_arena_alloc(&r->arena, (uint64_t)r->copies, sizeof *r->luts);
    float *x = fg_arena_alloc(&r->arena, (uint64_t)cols, sizeof *x);
    float *y = fg_arena_alloc(&r->arena, (uint64_t)rows, sizeof *y);
    if (!r->mats || !r->luts || !x || !y || !fg_parallel_alloc(&r->par, &sizes, &r->arena))
        return false;
    if (!fg_qformat_is_kept(f) && !make_tables(r, f, rows, cols, &model)) return false;
    struct fg_random random = fg_random_seeded(1);
    for (int64_t k = 0; k < cols; k++)
        x[k] = (float)(2 * fg_random_u01(&random) - 1);
    r->input = (struct fg_input){.x = x, .ldx = cols, .n = cols};
    bool ok = true;
    for (int64_t i = 0; i < r->copies && ok; i++)
        ok = make_matrix(r, f, rows, cols, i, &model, y);
    return ok;
}

// Seconds of one product, over whole rounds through all matrices.
static double run_once(const struct run *r)
{
    const double start = fg_clock();
    double seconds = 0;
    int64_t n = 0;
    do {
        for (int64_t i = 0; i < r->copies; i++)
            fg_parallel_linear(&r->par, &r->mats[i], 1, &r->input, 1);
        n += r->copies;
        seconds = fg_clock() - start;
    } while (seconds < SECONDS_MIN);
    return seconds / (double)n;
}

int fg_matrix_ns(double *ns, enum fg_qformat f, int64_t rows, int64_t cols,
                 const struct fg_kernels *kernels, struct fg_pool *pool, struct fg_error *err)
{
    struct run r = {.par = {.kernels = kernels, .pool = pool, .fast = true}};
    double seconds[RUNS];
    int rc = 0;
    if (rows % fg_qformat_rows_per_index(f))
        return fg_fail(err, FG_EINPUT, WHAT, NULL, fg_qformat_name(f), "an even number of rows",
                       "an odd one");
    fg_arena_init(&r.arena, 0);
    if (!make(&r, f, rows, cols)) rc = fg_fail_memory(err, WHAT, BYTES_MIN);
    if (!rc) {
        run_once(&r); // warms up
        for (int i = 0; i < RUNS; i++)
            seconds[i] = run_once(&r);
        *ns = 1e9 * fg_bench_stat_of(seconds, RUNS).median;
    }
    fg_arena_free(&r.arena);
    return rc;
}
