// Dense kernels: ref against the written orders of summation, then every level against ref bit for
// bit, over shapes, row ranges, numbers of rows, alignments, strides and extreme values.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/arena.h"
#include "base/size.h"
#include "kernels/kernels.h"
#include "kernels/numbers.h"
#include <float.h>
#include <math.h>
#include <string.h>

static const char *const dtype_names[] = {"f32", "f16", "bf16", "int8"};
#define CANARY 12345.678f

// One product: weights and x end at a forbidden page; y has space around each row.
struct product {
    enum fg_dtype type;
    bool dot2;
    int64_t n, n_out, T, ldx, ldy;
    uint64_t seed;
    enum numbers kind;
    struct fenced w, x;
    float *y, *truth;
    void *scratch;
};

static struct product product_new(enum fg_dtype type, bool dot2, int64_t n, int64_t n_out,
                                  int64_t T, uint64_t seed, enum numbers kind)
{
    struct product p = {
        .type = type, .dot2 = dot2, .n = n, .n_out = n_out, .T = T, .seed = seed, .kind = kind};
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    p.ldx = n + (int64_t)(next_u32(&state) % 3) * 5;
    p.ldy = n_out + (int64_t)(next_u32(&state) % 3) * 3;
    int64_t x_elems = (T - 1) * p.ldx + n;
    size_t odd = next_u32(&state) % 4; // weights end `odd` bytes before the page: any alignment
    p.w = fenced_new((size_t)(n_out * n) * fg_dtype_bytes(type) + odd);
    fill_elements(p.w.data, type, n_out * n, &state, kind);
    p.x = fenced_new((size_t)x_elems * (dot2 ? 2 : 4));
    fill_elements(p.x.data, dot2 ? FG_BF16 : FG_F32, x_elems, &state, kind);
    p.y = fg_alloc_aligned((uint64_t)(T * p.ldy) * 4);
    p.truth = fg_alloc_aligned((uint64_t)(T * p.ldy) * 4);
    p.scratch = fg_alloc_aligned(fg_gemm_scratch_bytes(n, T));
    assert_true(p.y && p.truth && p.scratch);
    return p;
}

static void product_free(struct product *p)
{
    fenced_free(&p->w);
    fenced_free(&p->x);
    free(p->y);
    free(p->truth);
    free(p->scratch);
}

// Rows [r0, r1) for x rows [t0, t0 + T) by level k into y.
static void run(const struct product *p, const struct fg_kernels *k, float *y, int64_t r0,
                int64_t r1, int64_t t0, int64_t T)
{
    const void *x = p->x.data + t0 * p->ldx * (p->dot2 ? 2 : 4);
    if (p->dot2)
        k->gemm_bf16_bf16(y + t0 * p->ldy, p->ldy, p->w.data, p->n, r0, r1, x, p->ldx, T,
                          p->scratch);
    else
        k->gemm[p->type](y + t0 * p->ldy, p->ldy, p->w.data, p->n, r0, r1, x, p->ldx, T,
                         p->scratch);
}

static void expect_truth(const struct product *p, const struct fg_kernels *k, const char *how)
{
    for (int64_t t = 0; t < p->T; t++) {
        for (int64_t r = 0; r < p->ldy; r++) {
            float got = p->y[t * p->ldy + r], want = p->truth[t * p->ldy + r];
            if (same_float(got, want)) continue;
            fail_msg("%s, %s%s, %s: n %lld, n_out %lld, T %lld, ldx %lld, ldy %lld, seed %llu, "
                     "kind %d: y[%lld][%lld] is %a, ref has %a",
                     k->isa, dtype_names[p->type], p->dot2 ? " x bf16" : "", how, (long long)p->n,
                     (long long)p->n_out, (long long)p->T, (long long)p->ldx, (long long)p->ldy,
                     (unsigned long long)p->seed, (int)p->kind, (long long)t, (long long)r,
                     (double)got, (double)want);
        }
    }
}

static void clear(const struct product *p, float *y)
{
    for (int64_t i = 0; i < p->T * p->ldy; i++)
        y[i] = CANARY;
}

// Every level, whole and cut into row ranges and single rows of x, against ref.
static void check(enum fg_dtype type, bool dot2, int64_t n, int64_t n_out, int64_t T, uint64_t seed,
                  enum numbers kind)
{
    struct product p = product_new(type, dot2, n, n_out, T, seed, kind);
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    clear(&p, p.truth);
    run(&p, levels[0], p.truth, 0, n_out, 0, T);
    for (int i = 1; i < n_levels; i++) {
        clear(&p, p.y);
        run(&p, levels[i], p.y, 0, n_out, 0, T);
        expect_truth(&p, levels[i], "whole");

        clear(&p, p.y);
        int64_t cut = n_out / 3, t_cut = T / 2;
        run(&p, levels[i], p.y, 0, cut, 0, T);
        if (t_cut > 0) run(&p, levels[i], p.y, cut, n_out, 0, t_cut);
        for (int64_t t = t_cut; t < T && t < t_cut + 3; t++)
            run(&p, levels[i], p.y, cut, n_out, t, 1);
        if (T > t_cut + 3) run(&p, levels[i], p.y, cut, n_out, t_cut + 3, T - t_cut - 3);
        expect_truth(&p, levels[i], "cut");
    }
    product_free(&p);
}

static void check_types(int64_t n, int64_t n_out, int64_t T, uint64_t seed, enum numbers kind)
{
    for (int type = 0; type < FG_N_DTYPES; type++)
        check((enum fg_dtype)type, false, n, n_out, T, seed, kind);
    check(FG_BF16, true, n, n_out, T, seed, kind);
}

static const int64_t T_all[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 17, 64, 65, 130};

static void test_small_n_every_level_equals_ref(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 70; n++)
        for (size_t i = 0; i < 11; i++)
            check_types(n, 1 + (n * 7 + T_all[i]) % 11, T_all[i], (uint64_t)(n * 1000 + T_all[i]),
                        (enum numbers)((n + (int64_t)i) % N_NUMBERS));
}

static void test_real_n_every_level_equals_ref(void **state)
{
    (void)state;
    static const int64_t n_all[] = {576, 1000, 1536, 1537, 3001, 5120};
    for (size_t j = 0; j < FG_COUNT(n_all); j++)
        for (size_t i = 0; i < FG_COUNT(T_all); i++)
            check_types(n_all[j], T_all[i] > 17 ? 6 : 11, T_all[i], j * 100 + i,
                        (enum numbers)((j + i) % 2));
}

// More weight rows than a panel holds, with k in one part and in several.
static void test_many_rows_every_level_equals_ref(void **state)
{
    (void)state;
    check_types(48, 150, 130, 1, NUMBERS_UNIT);
    check_types(1540, 67, 101, 2, NUMBERS_UNIT);
    check_types(2063, 35, 9, 3, NUMBERS_WIDE);
}

static void test_extreme_values_every_level_equals_ref(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++)
        for (int kind = NUMBERS_WIDE; kind < N_NUMBERS; kind++)
            check_types(1 + (int64_t)(seed * 29 % 150), 7, seed % 2 ? 3 : 13, seed,
                        (enum numbers)kind);
}

// Every lane underflows to -0, and so does the sum: a kernel that adds zeros past n gives +0.
static void test_lanes_past_n_keep_minus_zero(void **state)
{
    (void)state;
    enum { N = 80, ROWS = 4, T = 3 };
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    float w[ROWS * N], x[T * N], y[3][T * ROWS];
    uint16_t w_half[ROWS * N], x_half[T * N];
    for (int i = 0; i < ROWS * N; i++)
        w[i] = 0x1p-80f, w_half[i] = fg_bf16_of_f32(w[i]);
    for (int i = 0; i < T * N; i++)
        x[i] = -0x1p-80f, x_half[i] = fg_bf16_of_f32(x[i]);
    for (int i = 0; i < n_levels; i++) {
        for (int64_t n = 16; n <= N; n++) {
            int n_kinds = n >= 31 ? 3 : 2; // from there all lanes of dot2 have a pair
            levels[i]->gemm[FG_F32](y[0], ROWS, w, n, 0, ROWS, x, n, T, NULL);
            levels[i]->gemm[FG_BF16](y[1], ROWS, w_half, n, 0, ROWS, x, n, T, NULL);
            levels[i]->gemm_bf16_bf16(y[2], ROWS, w_half, n, 0, ROWS, x_half, n, T, NULL);
            for (int j = 0; j < n_kinds * T * ROWS; j++)
                if (!same_float(y[j / (T * ROWS)][j % (T * ROWS)], -0.0f))
                    fail_msg("%s, n %lld, kind %d, output %d", levels[i]->isa, (long long)n,
                             j / (T * ROWS), j % (T * ROWS));
        }
    }
}

// ---- ref against the text of kernels.h

static float tree(const float lane[16])
{
    float a[16];
    memcpy(a, lane, sizeof a);
    for (int j = 0; j < 8; j++)
        a[j] = a[j] + a[j + 8];
    for (int j = 0; j < 4; j++)
        a[j] = a[j] + a[j + 4];
    for (int j = 0; j < 2; j++)
        a[j] = a[j] + a[j + 2];
    return a[0] + a[1];
}

static void test_ref_follows_the_written_order(void **state)
{
    (void)state;
    enum { N = 203 };
    int n_levels;
    const struct fg_kernels *ref = fg_kernels_levels(&n_levels)[0];
    for (uint64_t seed = 1; seed < 30; seed++) {
        uint64_t s = seed;
        float w[N], x[N], y, lane[16] = {0};
        fill_floats(w, N, &s, NUMBERS_WIDE);
        fill_floats(x, N, &s, NUMBERS_WIDE);
        for (int k = 0; k < N; k++)
            lane[k % 16] = fmaf(w[k], x[k], lane[k % 16]);
        ref->gemm[FG_F32](&y, 1, w, N, 0, 1, x, N, 1, NULL);
        if (!same_float(y, tree(lane))) fail_msg("seed %llu", (unsigned long long)seed);

        double exact = 0;
        float largest = 0;
        for (int k = 0; k < N; k++) {
            exact += (double)w[k] * (double)x[k];
            largest = fmaxf(largest, fabsf(w[k] * x[k]));
        }
        assert_true(fabs(exact - (double)y) <= (double)largest * N * (double)FLT_EPSILON);
    }
}

// Products of one number that show the order by their rounding.
static void test_dot2_adds_the_odd_element_first(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    // Lane 0: pair 0 makes 1; pair 16 adds 2^-24 (odd, lost to the tie) and -1 (even).
    // Even first would leave 2^-24.
    uint16_t w[34] = {0}, x[34] = {0};
    w[0] = fg_bf16_of_f32(1), x[0] = fg_bf16_of_f32(1);
    w[33] = fg_bf16_of_f32(0x1p-12f), x[33] = fg_bf16_of_f32(0x1p-12f);
    w[32] = fg_bf16_of_f32(1), x[32] = fg_bf16_of_f32(-1);
    for (int i = 0; i < n_levels; i++) {
        float y = 7;
        levels[i]->gemm_bf16_bf16(&y, 1, w, 34, 0, 1, x, 34, 1, NULL);
        if (y != 0) fail_msg("%s: %a", levels[i]->isa, (double)y);
    }
}

static void test_dot2_flushes_subnormals(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    const struct {
        float w0, x0, w1, x1; // pairs 0 and 16 of lane 0, even elements
        float want;
    } cases[] = {
        {0x1p-130f, 0x1p100f, 0, 0, 0},  // a subnormal weight is zero
        {0x1p100f, -0x1p-130f, 0, 0, 0}, // a subnormal activation is zero
        {0x1p-64f, 0x1p-63f, 0x1p100f, 0x1p-100f, 1},
        {0x1p-63f, 0x1p-63f, 0, 0, 0x1p-126f},                // the smallest normal number stays
        {0x1p-64f, 0x1p-63f, 0, 0, 0},                        // half of it is flushed
        {-0x1p-64f, 0x1p-63f, 0, 0, 0},                       // and sums with +0 lanes to +0
        {0x1p-48f, 0x1p-78f, 0x1p-74f, -0x1.8p-77f, 0},       // tiny after rounding to 24 bits
        {0x1p-48f, 0x1p-78f, 0x1p-74f, -0x1p-77f, 0x1p-126f}, // a tie, to even: not tiny
        {0x1p-62f, 0x1p-63f, 0x1p-63f, -0x1.8p-63f, 0},       // a sum that turns subnormal
    };
    for (size_t c = 0; c < FG_COUNT(cases); c++) {
        uint16_t w[33] = {0}, x[33] = {0};
        w[0] = fg_bf16_of_f32(cases[c].w0), x[0] = fg_bf16_of_f32(cases[c].x0);
        w[32] = fg_bf16_of_f32(cases[c].w1), x[32] = fg_bf16_of_f32(cases[c].x1);
        for (int i = 0; i < n_levels; i++) {
            float y = 7;
            levels[i]->gemm_bf16_bf16(&y, 1, w, 33, 0, 1, x, 33, 1, NULL);
            if (!same_float(y, cases[c].want))
                fail_msg("%s, case %zu: %a", levels[i]->isa, c, (double)y);
        }
    }
}

// The caller's floating-point environment is the caller's.
static void test_subnormals_work_after_dot2(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    uint16_t one = 0x3F80;
    for (int i = 0; i < n_levels; i++) {
        float y;
        levels[i]->gemm_bf16_bf16(&y, 1, &one, 1, 0, 1, &one, 1, 1, NULL);
        volatile float tiny = FLT_MIN;
        assert_true(tiny / 2 > 0);
    }
}

// ---- conversions

static void test_to_bf16_rounds_as_num_does(void **state)
{
    (void)state;
    enum { N = 4096 };
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    float *src = malloc(N * sizeof *src);
    uint16_t *dst = malloc((N + 1) * sizeof *dst);
    assert_true(src && dst);
    uint64_t seed = 5;
    for (int i = 0; i < N; i++) { // any bits, and ties
        uint32_t u = next_u32(&seed);
        src[i] = fg_f32_of_bits(i % 3 == 0 ? (u & 0xFFFF0000) | 0x8000 : u);
    }
    src[0] = fg_f32_of_bits(0x7F800001); // a signalling NaN whose upper half looks infinite
    src[1] = fg_f32_of_bits(0x7F7FFFFF); // rounds to infinity
    src[2] = fg_f32_of_bits(0x80000001);
    for (int l = 0; l < n_levels; l++) {
        for (int64_t n = 0; n <= N; n = n < 70 ? n + 1 : n * 2 + 11) {
            dst[n] = 0xABCD;
            levels[l]->to_bf16(dst, src, n);
            assert_int_equal(dst[n], 0xABCD);
            for (int64_t i = 0; i < n; i++)
                if (dst[i] != fg_bf16_of_f32(src[i]))
                    fail_msg("%s: %08x became %04x", levels[l]->isa, fg_bits_of_f32(src[i]),
                             dst[i]);
        }
    }
    free(src);
    free(dst);
}

static void test_widen_covers_every_16_bit_number(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    uint8_t *src = malloc(65536 * 2 + 1);
    float *dst = malloc(65536 * sizeof *dst);
    assert_true(src && dst);
    for (uint32_t h = 0; h < 65536; h++)
        memcpy(src + 1 + 2 * h, &(uint16_t){(uint16_t)h}, 2);
    for (int l = 0; l < n_levels; l++) {
        levels[l]->widen(dst, src + 1, FG_F16, 65536);
        for (uint32_t h = 0; h < 65536; h++)
            if (!same_float(dst[h], fg_f16_to_f32((uint16_t)h)))
                fail_msg("%s: f16 %04x became %a", levels[l]->isa, h, (double)dst[h]);
        levels[l]->widen(dst, src + 1, FG_BF16, 65536);
        for (uint32_t h = 0; h < 65536; h++)
            if (!same_float(dst[h], fg_bf16_to_f32((uint16_t)h)))
                fail_msg("%s: bf16 %04x became %a", levels[l]->isa, h, (double)dst[h]);
    }
    free(src);
    free(dst);
}

static void test_widen_keeps_to_its_row(void **state)
{
    (void)state;
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    for (int i_type = 0; i_type < FG_N_DTYPES; i_type++) {
        enum fg_dtype type = (enum fg_dtype)i_type;
        for (int64_t n = 1; n <= 40; n++) {
            size_t bytes = (size_t)n * fg_dtype_bytes(type);
            struct fenced src = fenced_new(bytes), dst = fenced_new((size_t)n * 4);
            uint64_t seed = (uint64_t)n;
            fill_elements(src.data, type, n, &seed, NUMBERS_SPECIAL);
            float truth[40];
            levels[0]->widen(truth, src.data, type, n);
            for (int l = 1; l < n_levels; l++) {
                float *out = (float *)(void *)dst.data;
                levels[l]->widen(out, src.data, type, n);
                for (int64_t i = 0; i < n; i++)
                    if (!same_float(out[i], truth[i]))
                        fail_msg("%s, %s, n %lld, element %lld", levels[l]->isa, dtype_names[type],
                                 (long long)n, (long long)i);
            }
            fenced_free(&src);
            fenced_free(&dst);
        }
    }
}

static void test_scratch_grows_with_n_and_T(void **state)
{
    (void)state;
    uint64_t before = 0;
    for (int64_t n = 1; n < 20000; n += 13) {
        uint64_t bytes = fg_gemm_scratch_bytes(n, 512);
        assert_true(bytes >= before && bytes >= fg_gemm_scratch_bytes(n, 1));
        before = bytes;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ref_follows_the_written_order),
        cmocka_unit_test(test_dot2_adds_the_odd_element_first),
        cmocka_unit_test(test_dot2_flushes_subnormals),
        cmocka_unit_test(test_subnormals_work_after_dot2),
        cmocka_unit_test(test_small_n_every_level_equals_ref),
        cmocka_unit_test(test_real_n_every_level_equals_ref),
        cmocka_unit_test(test_many_rows_every_level_equals_ref),
        cmocka_unit_test(test_extreme_values_every_level_equals_ref),
        cmocka_unit_test(test_lanes_past_n_keep_minus_zero),
        cmocka_unit_test(test_to_bf16_rounds_as_num_does),
        cmocka_unit_test(test_widen_covers_every_16_bit_number),
        cmocka_unit_test(test_widen_keeps_to_its_row),
        cmocka_unit_test(test_scratch_grows_with_n_and_T),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
