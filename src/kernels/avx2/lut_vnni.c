// kernels/avx2/lut_vnni.c: products of quantized weights with AVX-VNNI.
#include "kernels/avx2/lut_gemm.h"
#include "kernels/levels.h"

#define LAYOUT(name, layout)                                                                       \
    static void fg_lut_gemm_##name##_avx2vnni(float *y, int64_t ldy, const struct fg_lut *w,       \
                                              int64_t g0, int64_t g1, const struct fg_act *x,      \
                                              int64_t t0, int64_t t1, void *scratch)               \
    {                                                                                              \
        fg_lut_gemm(layout, y, ldy, w, g0, g1, x, t0, t1, scratch);                                \
    }
LAYOUT(p6, FG_P6)
LAYOUT(p4x2, FG_P4X2)
LAYOUT(p4, FG_P4)
LAYOUT(i8, FG_I8)
LAYOUT(p6x1, FG_P6X1)

void fg_fill_lut_avx2vnni(struct fg_kernels *k)
{
    k->lut_gemm[FG_P6] = fg_lut_gemm_p6_avx2vnni;
    k->lut_gemm[FG_P4X2] = fg_lut_gemm_p4x2_avx2vnni;
    k->lut_gemm[FG_P4] = fg_lut_gemm_p4_avx2vnni;
    k->lut_gemm[FG_I8] = fg_lut_gemm_i8_avx2vnni;
    k->lut_gemm[FG_P6X1] = fg_lut_gemm_p6x1_avx2vnni;
}
