// kernels/ref/gdn.c: the plain C truth of the DeltaNet recurrence over committed and tried rows
// (kernels/gdn.h).
#include "kernels/levels.h"
#include "kernels/ref/lanes.h"
#include <assert.h>
#include <math.h>
#include <string.h>

// S = k d^T + g S.
static void apply(float *S, int64_t dk, int64_t dv, const float *k, const float *d, float g)
{
    for (int64_t i = 0; i < dk; i++)
        for (int64_t j = 0; j < dv; j++)
            S[i * dv + j] = fmaf(k[i], d[j], g * S[i * dv + j]);
}

// o and d of row t from the state before it; m, p [dv] are scratch.
static void read_row(const float *S, int64_t dk, int64_t dv, const struct fg_gdn_rows *rows,
                     int64_t t, float *o, float *d, float *m, float *p)
{
    const float *q = rows->q + t * rows->ldq, *k = rows->k + t * rows->ldk;
    const float *v = rows->v + t * rows->ldv;
    const float g = rows->g[t * rows->ldg], beta = rows->beta[t * rows->ldg];

    float lane[16] = {0};
    for (int64_t i = 0; i < dk; i++)
        lane[i % 16] = fmaf(k[i], q[i], lane[i % 16]);
    const float kq = fg_tree(lane);

    for (int64_t j = 0; j < dv; j++)
        m[j] = p[j] = 0.0f;
    for (int64_t i = 0; i < dk; i++) {
        for (int64_t j = 0; j < dv; j++) {
            m[j] = fmaf(S[i * dv + j], k[i], m[j]);
            p[j] = fmaf(S[i * dv + j], q[i], p[j]);
        }
    }
    for (int64_t j = 0; j < dv; j++) {
        d[j] = beta * fmaf(-g, m[j], v[j]);
        o[j] = fmaf(kq, d[j], g * p[j]);
    }
}

static void gdn(const float *S, float *S_out, int64_t dk, int64_t dv,
                const struct fg_gdn_pending *pending, const struct fg_gdn_rows *rows, float *o,
                int64_t ldo, float *d, int64_t ldd, float *scratch)
{
    const size_t bytes = (size_t)(dk * dv) * sizeof *S;
    float *m = scratch, *p = m + dv, *d_row = p + dv, *tried = d_row + dv;
    assert(S_out || d);
    float *state = S_out ? S_out : tried; // evolves through the rows
    if (state != S) memcpy(state, S, bytes);
    for (int64_t t = 0; t < pending->n; t++)
        apply(state, dk, dv, pending->k + t * pending->ldk, pending->d + t * pending->ldd,
              pending->g[t * pending->ldg]);
    if (d && state != tried) state = memcpy(tried, state, bytes);
    for (int64_t t = 0; t < rows->T; t++) {
        float *dt = d ? d + t * ldd : d_row;
        read_row(state, dk, dv, rows, t, o + t * ldo, dt, m, p);
        if (!d || t + 1 < rows->T)
            apply(state, dk, dv, rows->k + t * rows->ldk, dt, rows->g[t * rows->ldg]);
    }
}

uint64_t fg_gdn_scratch_bytes(int64_t dk, int64_t dv)
{
    // Enough for every instruction set: the state of rows that are tried and four rows of it, each
    // a multiple of 64 bytes.
    const uint64_t row = ((uint64_t)dv + 15) / 16 * 16;
    return ((uint64_t)dk + 4) * row * sizeof(float);
}

void fg_fill_gdn_ref(struct fg_kernels *k)
{
    k->gdn = gdn;
}
