// Jobs over quantized weights: equal to the written order put together from single plain kernels,
// for every level, number of threads, cut into rows, in both numerics modes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/num.h"
#include "base/size.h"
#include "kernels/numbers.h"
#include "kernels/parallel.h"
#include <math.h>
#include <string.h>

static const struct fg_kernels *ref(void)
{
    int n;
    return fg_kernels_levels(&n)[0];
}

static uint32_t next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static float *floats(struct fg_arena *a, int64_t n, uint64_t *seed)
{
    float *p = fg_arena_alloc(a, (uint64_t)n, sizeof *p);
    assert_non_null(p);
    fill_floats(p, n, seed, NUMBERS_UNIT);
    return p;
}

static void *elements(struct fg_arena *a, enum fg_dtype t, int64_t n, uint64_t *seed)
{
    void *p = fg_arena_alloc(a, (uint64_t)n, fg_dtype_bytes(t));
    assert_non_null(p);
    fill_elements(p, t, n, seed, NUMBERS_UNIT);
    return p;
}

static struct fg_lut make_lut(struct fg_arena *a, enum fg_layout l, int64_t n_out, int64_t n_in,
                              int rank, bool int8_factors, uint64_t *seed)
{
    const int64_t groups = fg_layout_groups(l, n_out), rows = groups * fg_layout_rows(l);
    const int period = fg_layout_is_six_bits(l) ? 64 : 16;
    struct fg_lut w = {.layout = l, .n_out = n_out, .n_in = n_in, .rank = rank};
    uint64_t bytes = (uint64_t)(groups * fg_layout_group_bytes(l, n_in));
    uint8_t *tiles = fg_arena_alloc(a, bytes, 1), *u8 = fg_arena_alloc(a, 128, 1);
    float *table = fg_arena_alloc(a, 128, sizeof *table);
    float *scale = fg_arena_alloc(a, (uint64_t)rows, sizeof *scale);
    float *scale_ts = fg_arena_alloc(a, (uint64_t)rows, sizeof *scale);
    assert_true(tiles && u8 && table && scale && scale_ts);
    for (uint64_t i = 0; i < bytes; i++)
        tiles[i] = (uint8_t)(next(seed) & 255);
    for (int i = 0; i < 128; i++) {
        bool again = i % 64 >= period;
        u8[i] = again ? u8[i - period] : (uint8_t)(1 + next(seed) % 255);
        table[i] = again ? table[i - period] : (float)next(seed) * 0x1p-31f - 1.0f;
    }
    for (int64_t i = 0; i < n_out; i++) {
        scale[i] = 0.5f + (float)(next(seed) % 100) * 0.01f;
        scale_ts[i] = scale[i] * 0.0078f;
    }
    w.tiles = tiles;
    w.table = table;
    w.table_u8 = u8;
    w.scale = scale;
    w.scale_ts = scale_ts;
    if (rank) {
        const enum fg_dtype t = int8_factors ? FG_INT8 : FG_F16;
        w.lr_a = elements(a, t, n_out * rank, seed);
        w.lr_b = elements(a, t, rank * n_in, seed);
        if (int8_factors) w.lr_scale = floats(a, rank, seed);
    }
    return w;
}

struct shape {
    enum fg_layout layout;
    int64_t n_out, n_in, block; // block 0: no rotation
    int rank, digits;
    bool int8_factors; // of the first matrix; the second has the other kind
};

// What kernels.h and parallel.h say, row by row, with plain kernels.
static void truth(float *y, const struct fg_lut *w, const struct fg_input *in, int64_t T, bool fast,
                  struct fg_arena *a)
{
    const struct fg_kernels *k = ref();
    const int64_t n = w->n_in, blocks = (n + FG_ACT_BLOCK - 1) / FG_ACT_BLOCK;
    const int64_t ld = (n + 63) / 64 * 64, groups = fg_layout_groups(w->layout, w->n_out);
    float *xr = fg_arena_alloc(a, (uint64_t)n, sizeof *xr), sx[2][8];
    float *part = fg_arena_alloc(a, (uint64_t)w->n_out, sizeof *part), u[256];
    int8_t *codes[2] = {fg_arena_alloc(a, (uint64_t)ld, 1), fg_arena_alloc(a, (uint64_t)ld, 1)};
    float *rows = fg_arena_alloc(a, (uint64_t)(2 * FG_LUT_LANES * n), sizeof *rows);
    int32_t sum[2][8];
    assert_true(xr && part && codes[0] && codes[1] && rows && blocks <= 8 && w->rank <= 256);
    for (int64_t t = 0; t < T; t++, y += w->n_out) {
        memcpy(xr, in->x + t * in->ldx, (size_t)n * sizeof *xr);
        if (in->signs) k->rotate(xr, xr, in->signs, n, in->block);
        for (int d = 0; fast && d < (in->digits == 2 ? 2 : 1); d++) {
            for (int64_t b = 0; b < blocks; b++) {
                int64_t at = b * FG_ACT_BLOCK, len = n - at < FG_ACT_BLOCK ? n - at : FG_ACT_BLOCK;
                float two[2];
                int32_t sums[2];
                if (in->digits == 2) {
                    k->quantize2(codes[0] + at, codes[1] + at, two, sums, xr + at, len);
                    sx[d][b] = two[d];
                    sum[d][b] = sums[d];
                } else {
                    k->quantize(codes[0] + at, &sx[0][b], &sum[0][b], xr + at, len);
                }
            }
            struct fg_act act = {n, ld, blocks, codes[d], sx[d], sum[d]};
            k->lut_gemm[w->layout](d ? part : y, w->n_out, w, 0, groups, &act, 0, 1, NULL);
            for (int64_t r = 0; d && r < w->n_out; r++)
                y[r] += part[r];
        }
        for (int64_t g = 0; !fast && g < groups; g++) {
            int64_t r0 = g * fg_layout_rows(w->layout), r1 = r0 + fg_layout_rows(w->layout);
            if (r1 > w->n_out) r1 = w->n_out;
            k->lut_decode[w->layout](rows, n, w, g);
            k->gemm[FG_F32](y + r0, 1, rows, n, 0, r1 - r0, xr, n, 1, NULL);
            for (int64_t r = r0; r < r1; r++)
                y[r] *= w->scale[r];
        }
        if (!w->rank) continue;
        const enum fg_dtype type = w->lr_scale ? FG_INT8 : FG_F16;
        k->gemm[type](u, w->rank, w->lr_b, n, 0, w->rank, xr, n, 1, NULL);
        for (int j = 0; w->lr_scale && j < w->rank; j++)
            u[j] *= w->lr_scale[j];
        k->gemm[type](part, w->n_out, w->lr_a, w->rank, 0, w->n_out, u, w->rank, 1, NULL);
        for (int64_t r = 0; r < w->n_out; r++)
            y[r] += part[r];
    }
}

static struct fg_parallel parallel_new(struct fg_arena *a, const struct fg_kernels *k, int threads,
                                       bool fast, const struct fg_parallel_sizes *sizes)
{
    struct fg_error err;
    struct fg_parallel par = {.kernels = k, .fast = fast};
    assert_int_equal(fg_pool_new(&par.pool, threads, &err), 0);
    assert_true(fg_parallel_alloc(&par, sizes, a));
    memset(par.scratch, 0xFF, (size_t)par.scratch_bytes_per_worker * (size_t)threads);
    return par;
}

// Two quantized matrices of the shape and a dense one, as a mixer's input projections.
static void job(const struct shape *s, int64_t T, int threads, bool fast)
{
    struct fg_arena a;
    fg_arena_init(&a, 0);
    uint64_t seed = (uint64_t)(s->n_out * 131 + s->n_in * 7 + T);
    const int64_t n_out[3] = {s->n_out, 16 * 3 + 5, 7}, ldx = s->n_in + 3;
    struct fg_lut luts[2] = {
        make_lut(&a, s->layout, n_out[0], s->n_in, s->rank, s->int8_factors, &seed),
        make_lut(&a, s->layout == FG_P4 ? FG_I8 : FG_P4, n_out[1], s->n_in, s->rank / 2,
                 !s->int8_factors, &seed)};
    uint16_t *dense = fg_arena_alloc(&a, (uint64_t)(n_out[2] * s->n_in), sizeof *dense);
    fill_elements((uint8_t *)dense, FG_BF16, n_out[2] * s->n_in, &seed, NUMBERS_UNIT);
    uint8_t *signs = fg_arena_alloc(&a, (uint64_t)(s->n_in + 7) / 8, 1);
    for (int64_t i = 0; i < (s->n_in + 7) / 8; i++)
        signs[i] = (uint8_t)(next(&seed) & 255);
    const struct fg_input in = {.x = floats(&a, T * ldx, &seed),
                                .ldx = ldx,
                                .n = s->n_in,
                                .signs = s->block ? signs : NULL,
                                .block = s->block,
                                .digits = s->digits};
    float *bias = floats(&a, n_out[1], &seed), *want[3], *y[3];
    for (int i = 0; i < 3; i++)
        want[i] = floats(&a, T * n_out[i], &seed);
    for (int i = 0; i < 2; i++)
        truth(want[i], &luts[i], &in, T, fast, &a);
    for (int64_t i = 0; i < T * n_out[1]; i++)
        want[1][i] += bias[i % n_out[1]];
    ref()->gemm[FG_BF16](want[2], n_out[2], dense, s->n_in, 0, n_out[2], in.x, ldx, T,
                         fg_arena_alloc(&a, 1, fg_gemm_scratch_bytes(s->n_in, T)));

    const struct fg_parallel_sizes sizes = {.T = T,
                                            .n = s->n_in,
                                            .quantized = true,
                                            .rank_sum = s->rank + s->rank / 2,
                                            .n_digits = s->n_in,
                                            .D = 1,
                                            .dv = 1};
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int l = 0; l < n_levels; l++) {
        struct fg_parallel par = parallel_new(&a, levels[l], threads, fast, &sizes);
        struct fg_linear mats[3];
        for (int i = 0; i < 3; i++) {
            y[i] = floats(&a, T * n_out[i], &seed);
            mats[i] = (struct fg_linear){.lut = i < 2 ? &luts[i] : NULL,
                                         .w = i < 2 ? NULL : dense,
                                         .dtype = FG_BF16,
                                         .exact = true,
                                         .n_out = n_out[i],
                                         .n_in = s->n_in,
                                         .bias = i == 1 ? bias : NULL,
                                         .y = y[i],
                                         .ldy = n_out[i]};
        }
        fg_parallel_linear(&par, mats, 3, &in, T);
        for (int i = 0; i < 3; i++)
            for (int64_t j = 0; j < T * n_out[i]; j++)
                if (!same_float(y[i][j], want[i][j]))
                    fail_msg("%s, layout %d, [%lld][%lld], block %lld, rank %d, digits %d, T %lld, "
                             "threads %d, fast %d: matrix %d, element %lld is %a, not %a",
                             levels[l]->isa, s->layout, (long long)s->n_out, (long long)s->n_in,
                             (long long)s->block, s->rank, s->digits, (long long)T, threads, fast,
                             i, (long long)j, (double)y[i][j], (double)want[i][j]);
        fg_pool_free(par.pool);
    }
    fg_arena_free(&a);
}

static void test_jobs_follow_the_written_order(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {FG_P6, 70, 576, 64, 16, 1, false},   {FG_P6, 300, 1536, 512, 0, 1, false},
        {FG_P6, 290, 1536, 512, 40, 1, true}, {FG_P4X2, 66, 2048, 1024, 8, 1, true},
        {FG_P4, 1000, 64, 0, 0, 2, false},    {FG_P4, 37, 100, 0, 5, 1, false},
        {FG_P4, 37, 100, 0, 5, 2, true},      {FG_I8, 40, 1040, 16, 24, 2, false},
        {FG_P6X1, 37, 1096, 8, 9, 2, false},  {FG_P6X1, 200, 576, 64, 12, 1, true},
    };
    static const struct {
        int64_t T;
        int threads;
    } runs[] = {{1, 2}, {5, 1}, {13, 3}, {70, 2}};
    for (size_t i = 0; i < FG_COUNT(shapes); i++)
        for (size_t j = 0; j < FG_COUNT(runs); j++)
            for (int fast = 0; fast < 2; fast++)
                if (runs[j].T < 70 || i % 2 == 0) // the widest take longest under sanitizers
                    job(&shapes[i], runs[j].T, runs[j].threads, fast != 0);
}

// ---- the head

static void best(int64_t n_out, int64_t T, int64_t k, int threads, bool fast)
{
    struct fg_arena a;
    fg_arena_init(&a, 0);
    uint64_t seed = (uint64_t)(n_out + T * 17 + k);
    enum { N = 64 };
    struct fg_lut w = make_lut(&a, FG_P4, n_out, N, 0, false, &seed);
    for (int64_t i = 10; i + 3 < n_out; i += 17) { // equal logits: rows that are copies
        ((float *)(uintptr_t)w.scale)[i] = 0;
        ((float *)(uintptr_t)w.scale_ts)[i] = 0;
    }
    const struct fg_input in = {.x = floats(&a, T * N, &seed), .ldx = N, .n = N, .digits = 2};
    const struct fg_parallel_sizes sizes = {
        .T = T, .n = N, .quantized = true, .n_digits = N, .D = 1, .dk = 1, .dv = 1};
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    struct fg_parallel par = parallel_new(&a, levels[n_levels - 1], threads, fast, &sizes);
    float *logits = floats(&a, T * n_out, &seed);
    const struct fg_linear m = {.lut = &w, .n_out = n_out, .n_in = N, .y = logits, .ldy = n_out};
    fg_parallel_linear(&par, &m, 1, &in, T);
    struct fg_best b = {.k = k,
                        .ids = fg_arena_alloc(&a, (uint64_t)(T * k), sizeof *b.ids),
                        .logits = fg_arena_alloc(&a, (uint64_t)(T * k), sizeof *b.logits),
                        .lse = fg_arena_alloc(&a, (uint64_t)T, sizeof *b.lse),
                        .work = fg_arena_alloc(&a, 1, fg_best_work_bytes(n_out, T, k))};
    fg_parallel_best(&par, &m, &in, T, &b);
    assert_false(b.nan);
    for (int64_t t = 0; t < T; t++) {
        float *row = logits + t * n_out;
        double sum = 0;
        for (int64_t i = 0; i < n_out; i++)
            sum += exp((double)row[i]);
        assert_true(fabs(log(sum) - (double)b.lse[t]) < 1e-4);
        for (int64_t j = 0; j < k; j++) { // selection by the rule, one after the other
            int64_t most = ref()->argmax(row, n_out);
            assert_int_equal(b.ids[t * k + j], most);
            assert_true(same_float(b.logits[t * k + j], row[most]));
            row[most] = -INFINITY;
        }
    }
    // A row that is no number anywhere is reported.
    ((float *)(uintptr_t)w.scale)[n_out - 1] = NAN;
    ((float *)(uintptr_t)w.scale_ts)[n_out - 1] = NAN;
    fg_parallel_best(&par, &m, &in, T, &b);
    assert_true(b.nan);
    fg_pool_free(par.pool);
    fg_arena_free(&a);
}

static void test_best_is_a_selection_of_all_logits(void **state)
{
    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        best(5, 1, 1, 1, fast != 0);
        best(1024, 3, 5, 2, fast != 0);
        best(2500, 11, 1, 3, fast != 0);
        best(3073, 2, 256, 2, fast != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_follow_the_written_order),
        cmocka_unit_test(test_best_is_a_selection_of_all_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
