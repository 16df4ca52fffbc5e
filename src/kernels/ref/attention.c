#include "kernels/attn_scratch.h"
#include "kernels/ref/lanes.h"
#include "kernels/ref/math.h"
#include "kernels/ref/vector.h"

// One query over positions 0 .. n-1; o is the accumulator.
static void attend(float *o, const float *q, const float *k, int64_t ldk, const float *v,
                   int64_t ldv, int64_t n, int64_t D, float scale)
{
    float m = -INFINITY, l = 0.0f;
    for (int64_t d = 0; d < D; d++)
        o[d] = 0.0f;

    for (int64_t p0 = 0; p0 < n; p0 += FG_ATTN_TILE) {
        int64_t n_tile = n - p0 < FG_ATTN_TILE ? n - p0 : FG_ATTN_TILE;
        float e[FG_ATTN_TILE];
        float m_new = m;
        for (int64_t p = 0; p < n_tile; p++) {
            const float *kp = k + (p0 + p) * ldk;
            float lane[16] = {0};
            for (int64_t d = 0; d < D; d++)
                lane[d % 16] = fmaf(q[d], kp[d], lane[d % 16]);
            e[p] = fg_tree(lane) * scale;
            m_new = e[p] > m_new ? e[p] : m_new;
        }

        float correction = fg_exp_f32(m - m_new); // exp(-inf) = 0 in the first tile
        float sum[16] = {0};
        for (int64_t p = 0; p < n_tile; p++) {
            e[p] = fg_exp_f32(e[p] - m_new);
            sum[p % 16] += e[p];
        }
        l = fmaf(l, correction, fg_tree(sum));
        m = m_new;

        for (int64_t d = 0; d < D; d++)
            o[d] *= correction;
        for (int64_t p = 0; p < n_tile; p++)
            for (int64_t d = 0; d < D; d++)
                o[d] = fmaf(e[p], v[(p0 + p) * ldv + d], o[d]);
    }
    for (int64_t d = 0; d < D; d++)
        o[d] /= l;
}

void fg_attention_ref(float *o, int64_t ldo, const float *q, int64_t ldq, const float *k,
                      int64_t ldk, const float *v, int64_t ldv, int64_t pos, int64_t T, int64_t G,
                      int64_t D, float scale, void *scratch)
{
    (void)scratch; // the vector versions keep several rows' accumulators there
    for (int64_t t = 0; t < T; t++)
        for (int64_t g = 0; g < G; g++)
            attend(o + t * ldo + g * D, q + t * ldq + g * D, k, ldk, v, ldv, pos + t + 1, D, scale);
}

uint64_t fg_attn_scratch_bytes(int64_t T, int64_t G, int64_t D)
{
    (void)T; // rows are taken FG_ATTN_ROWS at a time whatever their number
    (void)G;
    uint64_t stride = ((uint64_t)D + 15) / 16 * 16;
    uint64_t floats = FG_ATTN_ROWS * (2 * stride + 2) + FG_ATTN_TILE * FG_ATTN_BLOCK;
    return floats * sizeof(float);
}
