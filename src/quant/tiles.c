// quant/tiles.c: canonical storage to tiles.
#include "quant/tiles.h"
#include "base/num.h"
#include "quant/dequant.h"
#include "quant/pack.h"
#include <math.h>
#include <string.h>

#define PIECE 256 // columns of a group packed at a time: whole units of every layout

enum fg_layout fg_layout_of_format(enum fg_qformat f)
{
    switch (f) {
    case FG_Q_V2X64: return FG_P6;
    case FG_Q_V2X16: return FG_P4X2;
    case FG_Q_LUT4: return FG_P4;
    case FG_Q_LUT6: return FG_P6X1;
    case FG_Q_INT8: return FG_I8;
    default: return FG_N_LAYOUTS;
    }
}

uint64_t fg_tiles_bytes(enum fg_layout l, int64_t rows, int64_t cols)
{
    return (uint64_t)fg_layout_groups(l, rows) * (uint64_t)fg_layout_group_bytes(l, cols);
}

// Indices (int8: code + 128) of one lane, columns [c0, c0 + n), then the padding up to PIECE.
static void lane_indices(uint8_t idx[PIECE], const struct fg_qmat *m, int64_t index_row, int64_t c0,
                         int64_t n)
{
    const bool is_int8 = m->format == FG_Q_INT8;
    memset(idx, is_int8 ? 128 : 0, PIECE);
    if (index_row >= m->rows / fg_qformat_rows_per_index(m->format)) return;
    if (is_int8) {
        const int8_t *codes = m->codes + index_row * m->cols + c0;
        for (int64_t j = 0; j < n; j++)
            idx[j] = (uint8_t)(codes[j] + 128);
    } else if (m->idx) {
        memcpy(idx, m->idx + index_row * m->cols + c0, (size_t)n);
    } else {
        const int bits = fg_qformat_index_bits(m->format);
        const uint8_t *row = m->pidx + index_row * fg_pack_bytes(m->cols, bits);
        fg_unpack_indices(idx, row + c0 / 8 * bits, n, bits);
    }
}

// One lane's bytes of a unit, at unit + 4 * lane, from its indices of the unit's columns.
static void put_lane(uint8_t *at, const uint8_t *idx, enum fg_layout l)
{
    for (int c = 0; c < 4; c++) {
        switch (l) {
        case FG_P6:
        case FG_P6X1:
            for (int x = 0; x < 3; x++)
                at[64 * x + c] = (uint8_t)(idx[4 * x + c] | (idx[12 + c] >> (2 * x) & 3) << 6);
            break;
        case FG_I8: at[c] = idx[c]; break;
        default: at[c] = (uint8_t)(idx[c] | idx[4 + c] << 4); break;
        }
    }
}

void fg_tiles_pack(uint8_t *out, const struct fg_qmat *m, int64_t g0, int64_t g1)
{
    const enum fg_layout l = fg_layout_of_format(m->format);
    const int64_t unit_cols = fg_layout_unit_cols(l), unit_bytes = fg_layout_unit_bytes(l);
    const int64_t group_bytes = fg_layout_group_bytes(l, m->cols);
    for (int64_t g = g0; g < g1; g++, out += group_bytes) {
        for (int64_t c0 = 0; c0 < m->cols; c0 += PIECE) {
            const int64_t n = m->cols - c0 < PIECE ? m->cols - c0 : PIECE;
            for (int lane = 0; lane < FG_LUT_LANES; lane++) {
                uint8_t idx[PIECE];
                lane_indices(idx, m, g * FG_LUT_LANES + lane, c0, n);
                uint8_t *unit = out + c0 / unit_cols * unit_bytes + 4 * lane;
                for (int64_t c = 0; c < n; c += unit_cols, unit += unit_bytes)
                    put_lane(unit, idx + c, l);
            }
        }
    }
}

void fg_tiles_unpack_indices(uint8_t *idx, const uint8_t *group, enum fg_layout l, int lane,
                             int64_t cols)
{
    const int64_t unit_cols = fg_layout_unit_cols(l), unit_bytes = fg_layout_unit_bytes(l);
    const uint8_t *at = group + 4 * lane;
    for (int64_t k = 0; k < cols; k += unit_cols, at += unit_bytes) {
        uint8_t unit[16]; // one, to the end
        for (int c = 0; c < 4; c++) {
            if (fg_layout_is_six_bits(l)) {
                const uint8_t a = at[c], b = at[64 + c], d = at[128 + c];
                unit[c] = a & 63;
                unit[4 + c] = b & 63;
                unit[8 + c] = d & 63;
                unit[12 + c] = (uint8_t)(a >> 6 | b >> 6 << 2 | d >> 6 << 4);
            } else if (l == FG_I8) {
                unit[c] = at[c];
            } else {
                unit[c] = at[c] & 15;
                unit[4 + c] = at[c] >> 4;
            }
        }
        memcpy(idx + k, unit, (size_t)(cols - k < unit_cols ? cols - k : unit_cols));
    }
}

void fg_tiles_tables(float table[2][64], uint8_t table_u8[2][64], float ts[2],
                     const struct fg_qmat *m)
{
    const int d = fg_qformat_rows_per_index(m->format), entries = fg_qformat_entries(m->format);
    memset(table, 0, 2 * sizeof *table);
    memset(table_u8, 128, 2 * sizeof *table_u8);
    ts[0] = ts[1] = 0;
    for (int t = 0; t < d; t++) {
        float most = 0;
        for (int i = 0; i < 64; i++) { // 16 entries lie there four times
            table[t][i] = fg_f16_to_f32(fg_le16_at(m->lut, i % entries * d + t));
            most = fmaxf(most, fabsf(table[t][i]));
        }
        ts[t] = most / 127.0f;
        for (int i = 0; i < 64 && ts[t] > 0; i++)
            table_u8[t][i] = (uint8_t)((int)rintf(table[t][i] / ts[t]) + 128);
    }
}

void fg_tiles_scales(float *scale, float *scale_ts, const struct fg_qmat *m, const float ts[2])
{
    const enum fg_layout l = fg_layout_of_format(m->format);
    const int64_t n = fg_layout_groups(l, m->rows) * fg_layout_rows(l);
    const int64_t d = fg_qformat_rows_per_index(m->format);
    for (int64_t r = 0; r < n; r++) {
        scale[r] = r < m->rows ? fg_f16_to_f32(fg_le16_at(m->scale, r)) : 0;
        scale_ts[r] = l == FG_I8 ? scale[r] : scale[r] * ts[r % d];
    }
}

// A copy of n F16 numbers from any alignment; false when memory is out.
static bool copy_f16(const uint16_t **out, const void *src, int64_t n, struct fg_arena *arena)
{
    uint16_t *p = fg_arena_alloc(arena, (uint64_t)n, sizeof *p);
    if (!p) return false;
    for (int64_t i = 0; i < n; i++)
        p[i] = fg_le16_at(src, i);
    *out = p;
    return true;
}

// The factors of m, in memory of the arena; false when that is out.
static bool copy_factors(struct fg_lut *out, const struct fg_qmat *m, struct fg_arena *arena)
{
    const int64_t n_a = m->rows * m->rank, n_b = m->rank * m->cols;
    const uint16_t *a, *b;
    if (m->lr_dtype == FG_LR_F16) {
        if (!copy_f16(&a, m->lr_a, n_a, arena) || !copy_f16(&b, m->lr_b, n_b, arena)) return false;
        out->lr_a = a;
        out->lr_b = b;
        return true;
    }
    int8_t *codes_a = fg_arena_alloc(arena, (uint64_t)n_a, 1);
    int8_t *codes_b = fg_arena_alloc(arena, (uint64_t)n_b, 1);
    float *scale = fg_arena_alloc(arena, (uint64_t)m->rank, sizeof *scale);
    if (!codes_a || !codes_b || !scale) return false;
    memcpy(codes_a, m->lr_a, (size_t)n_a);
    memcpy(codes_b, m->lr_b, (size_t)n_b);
    for (int64_t k = 0; k < m->rank; k++)
        scale[k] = fg_qmat_lr_scale(m, k);
    out->lr_a = codes_a;
    out->lr_b = codes_b;
    out->lr_scale = scale;
    return true;
}

int fg_lut_build(struct fg_lut *out, const struct fg_qmat *m, struct fg_arena *arena,
                 struct fg_error *err)
{
    const enum fg_layout l = fg_layout_of_format(m->format);
    const int64_t groups = fg_layout_groups(l, m->rows), n = groups * fg_layout_rows(l);
    const uint64_t bytes = fg_tiles_bytes(l, m->rows, m->cols);
    *out = (struct fg_lut){.layout = l, .n_out = m->rows, .n_in = m->cols, .rank = (int)m->rank};

    uint8_t *tiles = fg_arena_alloc(arena, bytes, 1);
    float *scale = fg_arena_alloc(arena, (uint64_t)n, sizeof *scale);
    float *scale_ts = fg_arena_alloc(arena, (uint64_t)n, sizeof *scale_ts);
    float(*table)[64] = fg_arena_alloc(arena, 2, sizeof *table);
    uint8_t(*table_u8)[64] = fg_arena_alloc(arena, 2, sizeof *table_u8);
    bool ok = tiles && scale && scale_ts && table && table_u8;
    if (ok && m->rank) ok = copy_factors(out, m, arena);
    if (!ok) {
        *out = (struct fg_lut){0};
        return fg_fail_memory(err, "tiles", bytes);
    }

    float ts[2] = {0};
    if (l != FG_I8) {
        fg_tiles_tables(table, table_u8, ts, m);
        out->table = &table[0][0];
        out->table_u8 = &table_u8[0][0];
    }
    fg_tiles_scales(scale, scale_ts, m, ts);
    fg_tiles_pack(tiles, m, 0, groups);
    out->tiles = tiles;
    out->scale = scale;
    out->scale_ts = scale_ts;
    return 0;
}
