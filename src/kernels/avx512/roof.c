// kernels/avx512/roof.c: see kernels/roof.h.
#include "kernels/roof_loops.h"
#include <immintrin.h>

FG_ROOF_CHAINS(fg_roof_f32_avx512, __m512, __m512, 24, "v", _mm512_set1_ps(1), _mm512_setzero_ps(),
               _mm512_set1_ps(1), _mm512_fmadd_ps, _mm512_add_ps, _mm512_cvtss_f32, 16)
