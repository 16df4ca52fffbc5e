// Stored matrices: numbers against single bits, and every value that a reader must refuse.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/size.h"
#include "quant/dequant.h"
#include "quant/matrices.h"
#include <stdio.h>

static void example(void **state)
{
    (void)state;
    uint16_t lut[128] = {0}, scale[2] = {fg_f16_of_f32(2), fg_f16_of_f32(4)};
    lut[6] = fg_f16_of_f32(-0.25f);
    lut[7] = fg_f16_of_f32(0.5f);
    const uint8_t pidx[] = {3};
    const struct fg_qmat m = {
        .format = FG_Q_V2X64, .rows = 2, .cols = 1, .pidx = pidx, .lut = lut, .scale = scale};
    float out[2];
    fg_qmat_dequantize(out, &m, 0, 2);
    assert_true(out[0] == -0.5f && out[1] == 2.0f);
}

static void all_formats(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{2, 1}, {4, 7}, {6, 64}, {10, 513}, {2, 1200}};
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        for (size_t i = 0; i < FG_COUNT(shapes); i++) {
            for (int bytes = 0; bytes < 2; bytes++) {
                const int64_t rows = shapes[i][0], cols = shapes[i][1];
                struct stored s =
                    stored_new((enum fg_qformat)f, rows, cols, 0, bytes, (uint64_t)f * 10 + i);
                float *out = malloc((size_t)(rows * cols) * sizeof *out);
                assert_non_null(out);
                for (int64_t r0 = 0; r0 < rows; r0++) { // odd ranges of pairs too
                    const int64_t r1 = r0 + 3 < rows ? r0 + 3 : rows;
                    fg_qmat_dequantize(out, &s.m, r0, r1);
                    for (int64_t r = r0; r < r1; r++)
                        for (int64_t c = 0; c < cols; c++)
                            assert_memory_equal(&out[(r - r0) * cols + c],
                                                (float[]){stored_at(&s.m, r, c)}, sizeof(float));
                }
                assert_int_equal(fg_qmat_check(&s.m, "m", "f", true, NULL), 0);
                free(out);
                stored_free(&s);
            }
        }
    }
}

static void row_indices(void **state)
{
    (void)state;
    struct stored packed = stored_new(FG_Q_V2X64, 6, 77, 0, false, 5);
    struct stored bytes = stored_new(FG_Q_V2X64, 6, 77, 0, true, 5);
    for (int64_t g = 0; g < 3; g++) {
        uint8_t a[77], b[77];
        fg_qmat_row_indices(a, &packed.m, g);
        fg_qmat_row_indices(b, &bytes.m, g);
        assert_memory_equal(a, b, sizeof a);
        assert_memory_equal(a, bytes.m.idx + g * 77, sizeof a);
    }
    stored_free(&packed);
    stored_free(&bytes);
}

static void factors(void **state)
{
    (void)state;
    struct stored s = stored_new(FG_Q_LUT4, 5, 9, 3, false, 4);
    float b[3 * 9];
    fg_qmat_lr_b(b, &s.m);
    for (int64_t i = 0; i < 3 * 9; i++)
        assert_true(b[i] == fg_f16_to_f32(fg_le16_at(s.m.lr_b, i)));
    for (int64_t i = 0; i < 5 * 3; i++)
        assert_true(fg_qmat_lr_a(&s.m, i / 3, i % 3) == fg_f16_to_f32(fg_le16_at(s.m.lr_a, i)));

    stored_int8_factors(&s, 5);
    const int8_t *codes_a = s.m.lr_a, *codes_b = s.m.lr_b;
    fg_qmat_lr_b(b, &s.m);
    for (int64_t i = 0; i < 3 * 9; i++) {
        float scale;
        memcpy(&scale, (const uint8_t *)s.m.lr_scale + 4 * (i / 9), 4);
        assert_true(fg_qmat_lr_scale(&s.m, i / 9) == scale);
        assert_true(b[i] == scale * (float)codes_b[i]);
    }
    for (int64_t i = 0; i < 5 * 3; i++)
        assert_true(fg_qmat_lr_a(&s.m, i / 3, i % 3) == (float)codes_a[i]);
    stored_free(&s);
}

// Puts `value` at byte offset `at` of an array, expects the refusal of `field`, and undoes it.
static void refused(struct stored *s, const void *array, int64_t at, const void *value, size_t n,
                    bool pads, const char *field)
{
    uint8_t *p = s->block + ((const uint8_t *)array - s->block) + at, old[4];
    memcpy(old, p, n);
    memcpy(p, value, n);
    struct fg_error err = {0};
    assert_int_equal(fg_qmat_check(&s->m, "layers.0.x", "some.file", pads, &err), FG_EINPUT);
    assert_string_equal(err.field, field);
    assert_string_equal(err.file, "some.file");
    memcpy(p, old, n);
    assert_int_equal(fg_qmat_check(&s->m, "layers.0.x", "some.file", true, &err), 0);
}

static void values_that_are_refused(void **state)
{
    (void)state;
    const uint16_t nan = 0x7E01, inf = 0x7C00, minus = 0xBC00, zero = 0, minus_zero = 0x8000;
    struct stored s = stored_new(FG_Q_V2X64, 4, 5, 3, false, 9);
    refused(&s, s.m.lut, 2 * 127, &nan, 2, false, "layers.0.x.lut[127]");
    refused(&s, s.m.lut, 0, &inf, 2, false, "layers.0.x.lut[0]");
    refused(&s, s.m.scale, 2 * 3, &zero, 2, false, "layers.0.x.scale[3]");
    refused(&s, s.m.scale, 2 * 2, &minus_zero, 2, false, "layers.0.x.scale[2]");
    refused(&s, s.m.scale, 0, &minus, 2, false, "layers.0.x.scale[0]");
    refused(&s, s.m.scale, 0, &inf, 2, false, "layers.0.x.scale[0]");
    refused(&s, s.m.scale, 2, &nan, 2, false, "layers.0.x.scale[1]");
    refused(&s, s.m.lr_a, 2 * 11, &nan, 2, false, "layers.0.x.lr_a[11]");
    refused(&s, s.m.lr_b, 2 * 14, &inf, 2, false, "layers.0.x.lr_b[14]");
    // 30 bits of indices in 4 bytes: the upper two bits of the last are pad.
    const uint8_t pad = (uint8_t)(s.m.pidx[7] | 0x40);
    refused(&s, s.m.pidx, 7, &pad, 1, true, "layers.0.x.pidx[7]");
    const float nothing = 0, negative = -1, nan32 = NAN, inf32 = INFINITY;
    stored_int8_factors(&s, 10);
    refused(&s, s.m.lr_scale, 4 * 2, &nothing, 4, false, "layers.0.x.lr_scale[2]");
    refused(&s, s.m.lr_scale, 4, &negative, 4, false, "layers.0.x.lr_scale[1]");
    refused(&s, s.m.lr_scale, 0, &nan32, 4, false, "layers.0.x.lr_scale[0]");
    refused(&s, s.m.lr_scale, 0, &inf32, 4, false, "layers.0.x.lr_scale[0]");
    refused(&s, s.m.lr_a, 11, "\x80", 1, true, "layers.0.x.lr_a[11]");
    refused(&s, s.m.lr_b, 14, "\x80", 1, true, "layers.0.x.lr_b[14]");
    stored_free(&s);

    s = stored_new(FG_Q_LUT4, 3, 5, 0, true, 9);
    refused(&s, s.m.idx, 14, "\x10", 1, false, "layers.0.x.idx[14]");
    refused(&s, s.m.idx, 0, "\xff", 1, true, "layers.0.x.idx[0]");
    stored_free(&s);

    s = stored_new(FG_Q_INT8, 3, 5, 0, false, 9);
    refused(&s, s.m.codes, 13, "\x80", 1, true, "layers.0.x.int8[13]");
    refused(&s, s.m.scale, 4, &zero, 2, false, "layers.0.x.scale[2]");
    stored_free(&s);

    s = stored_new(FG_Q_BF16, 3, 5, 0, false, 9);
    refused(&s, s.m.weight, 2 * 14, "\x80\x7f", 2, true, "layers.0.x.weight[14]");
    stored_free(&s);
    s = stored_new(FG_Q_F16, 3, 5, 0, false, 9);
    refused(&s, s.m.weight, 2, &nan, 2, true, "layers.0.x.weight[1]");
    stored_free(&s);
    s = stored_new(FG_Q_F32, 3, 5, 0, false, 9);
    refused(&s, s.m.weight, 4, "\x00\x00\x80\xff", 4, true, "layers.0.x.weight[1]");
    stored_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(example),
        cmocka_unit_test(all_formats),
        cmocka_unit_test(row_indices),
        cmocka_unit_test(factors),
        cmocka_unit_test(values_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
