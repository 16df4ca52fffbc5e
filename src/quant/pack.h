// quant/pack.h: rows of packed indices (specs: quantization 1.2). A row is one bit stream, bit p in
// byte p / 8, least significant bit first; index j takes bits [j * bits, (j + 1) * bits). Rows
// start on a byte; the bits after the last index are 0.
#ifndef FG_QUANT_PACK_H
#define FG_QUANT_PACK_H
#include <stdbool.h>
#include <stdint.h>

// Bytes of n packed indices. bits is 2, 3, 4, 6 or 8 here and below; n >= 0.
static inline int64_t fg_pack_bytes(int64_t n, int bits)
{
    return (n * bits + 7) / 8;
}

// out [fg_pack_bytes] from idx [n], each below 2^bits. No aliasing.
void fg_pack_indices(uint8_t *out, const uint8_t *idx, int64_t n, int bits);
// The reverse: idx [n] from packed [fg_pack_bytes]. Any bytes give indices below 2^bits; pad bits
// are not looked at. A row may be read in pieces that start at a multiple of 8 indices.
void fg_unpack_indices(uint8_t *idx, const uint8_t *packed, int64_t n, int bits);
// True when the bits after the last of n indices are 0.
bool fg_pack_pad_is_zero(const uint8_t *packed, int64_t n, int bits);
#endif
