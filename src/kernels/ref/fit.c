// kernels/ref/fit.c: the plain C truth of what fitting codebooks needs.
#include "kernels/levels.h"
#include <math.h>

#define BLOCK 64 // samples that go through the entries together: a loop that compilers vectorize

static void fg_nearest2_ref(uint8_t *idx, float *dist, const float *x0, const float *x1,
                            const float *w0, const float *w1, const float *c, int K, int64_t n)
{
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int m = n - i < BLOCK ? (int)(n - i) : BLOCK;
        float best[BLOCK], at[4][BLOCK] = {{0}};
        int32_t best_idx[BLOCK] = {0};
        for (int j = 0; j < m; j++) {
            at[0][j] = x0[i + j];
            at[1][j] = x1[i + j];
            at[2][j] = w0[i + j];
            at[3][j] = w1[i + j];
        }
        for (int j = 0; j < BLOCK; j++)
            best[j] = INFINITY;
        for (int e = 0; e < K; e++) {
            const float c0 = c[e], c1 = c[K + e];
            for (int j = 0; j < BLOCK; j++) {
                const float d0 = at[0][j] - c0, d1 = at[1][j] - c1;
                const float d = at[2][j] * d0 * d0 + at[3][j] * d1 * d1;
                const int32_t less = -(d < best[j]); // a mask: no branch in the loop
                best[j] = d < best[j] ? d : best[j];
                best_idx[j] = (e & less) | (best_idx[j] & ~less);
            }
        }
        for (int j = 0; j < m; j++) {
            dist[i + j] = best[j];
            idx[i + j] = (uint8_t)best_idx[j];
        }
    }
}

void fg_fill_fit_ref(struct fg_kernels *k)
{
    k->nearest2 = fg_nearest2_ref;
}
