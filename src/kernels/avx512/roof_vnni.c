// kernels/avx512/roof_vnni.c: see kernels/roof.h.
#include "kernels/avx512/dot4.h"
#include "kernels/roof_loops.h"

static int first(__m512i v)
{
    return _mm_cvtsi128_si32(_mm512_castsi512_si128(v));
}

FG_ROOF_CHAINS(fg_roof_i8_avx512vnni, __m512i, __m512i, 24, "v", _mm512_set1_epi8(1),
               _mm512_set1_epi8(-1), _mm512_setzero_si512(), fg_dot4_avx512, _mm512_add_epi32,
               first, 64)
