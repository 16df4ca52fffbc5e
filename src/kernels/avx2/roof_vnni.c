// kernels/avx2/roof_vnni.c: see kernels/roof.h.
#include "kernels/avx2/dot4.h"
#include "kernels/roof_loops.h"

static int first(__m256i v)
{
    return _mm256_extract_epi32(v, 0);
}

FG_ROOF_CHAINS(fg_roof_i8_avx2vnni, __m256i, __m256i, 12, "x", _mm256_set1_epi8(1),
               _mm256_set1_epi8(-1), _mm256_setzero_si256(), fg_dot4_avx2, _mm256_add_epi32, first,
               32)
