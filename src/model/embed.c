// model/embed.c
#include "model/embed.h"
#include "base/num.h"
#include "quant/dequant.h"
#include "quant/tiles.h"

// Row `row` of tiles. Its indices wait in the last quarter of `out`: float k ends before index k +
// 1 does.
static void tile_row(float *out, const struct fg_lut *w, int64_t row)
{
    const int64_t rows = fg_layout_rows(w->layout), n = w->n_in, in_group = row % rows;
    const int64_t per_lane = rows / FG_LUT_LANES;
    const uint8_t *group = w->tiles + row / rows * fg_layout_group_bytes(w->layout, n);
    uint8_t *idx = (uint8_t *)out + 3 * n;
    const float scale = w->scale[row];
    fg_tiles_unpack_indices(idx, group, w->layout, (int)(in_group / per_lane), n);
    if (w->layout == FG_I8) {
        for (int64_t k = 0; k < n; k++)
            out[k] = scale * (float)((int)idx[k] - 128);
        return;
    }
    const float *table = w->table + 64 * (in_group % per_lane);
    for (int64_t k = 0; k < n; k++)
        out[k] = scale * table[idx[k]];
}

static void code_row(float *out, const struct fg_mat *e, int64_t row)
{
    const int8_t *codes = (const int8_t *)e->data + row * e->n_in;
    const float scale = fg_f16_to_f32(fg_le16_at(e->row_scale, row));
    for (int64_t k = 0; k < e->n_in; k++)
        out[k] = scale * (float)codes[k];
}

struct look_up {
    float *x;
    const struct fg_mat *e;
    const int32_t *ids;
};

static void decode_rows(void *ctx, const struct fg_kernels *k, int64_t t0, int64_t t1)
{
    const struct look_up *l = ctx;
    (void)k;
    for (int64_t t = t0; t < t1; t++) {
        float *out = l->x + t * l->e->n_in;
        if (l->e->lut)
            tile_row(out, l->e->lut, l->ids[t]);
        else
            code_row(out, l->e, l->ids[t]);
    }
}

void fg_embed_rows(float *x, const struct fg_mat *embed, const int32_t *ids, int64_t T,
                   const struct fg_parallel *par)
{
    if (embed->lut || embed->row_scale) {
        struct look_up l = {x, embed, ids};
        fg_parallel_for(par, T, 1, decode_rows, &l);
        return;
    }
    const uint64_t row_bytes = (uint64_t)embed->n_in * fg_dtype_bytes(embed->dtype);
    for (int64_t t = 0; t < T; t++)
        par->kernels->widen(x + t * embed->n_in,
                            (const uint8_t *)embed->data + (uint64_t)ids[t] * row_bytes,
                            embed->dtype, embed->n_in);
}
