// format/gguf_dequant.h: GGUF blocks to FP32, in the operation order of specs/model.md 11.2 and,
// for the types that it does not list, of the format's reference decoder, so that the result has
// the same bits as that one's.
#ifndef FG_FORMAT_GGUF_DEQUANT_H
#define FG_FORMAT_GGUF_DEQUANT_H
#include <stdbool.h>
#include <stdint.h>

// True for F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ2_XXS, IQ2_XS, IQ2_S,
// IQ3_XXS, IQ3_S, IQ4_NL and IQ4_XS.
bool fg_gguf_can_dequant(uint32_t type);

// dst[i] = weight i of a row of n weights. src: n / block blocks at any alignment; n must be a
// multiple of the block length. dst: FP32, does not alias src. Requires fg_gguf_can_dequant(type).
void fg_gguf_dequant_row(uint32_t type, const void *src, float *dst, uint64_t n);
#endif
