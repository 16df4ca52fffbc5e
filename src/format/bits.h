// format/bits.h: rows of packed indices (specs: quantization 1.2). Index j of b bits is bits
// [j*b, (j+1)*b) of the row's stream, least significant first; bit p of the stream is bit p mod 8
// of byte p / 8. What is left of the last byte is 0. b = 6: 1, 2, 3, 63 gives 81 30 fc.
#ifndef FG_FORMAT_BITS_H
#define FG_FORMAT_BITS_H
#include <stdbool.h>
#include <stdint.h>

static inline uint64_t fg_bits_bytes(uint64_t n, int b) // of n indices, n < 2^60
{
    return (n * (uint64_t)b + 7) / 8;
}

// Packs n indices, one byte each, into fg_bits_bytes(n, b) bytes; b from 1 to 8; no aliasing. False
// when an index does not fit in b bits; its upper bits are then dropped.
bool fg_bits_pack(uint8_t *packed, const uint8_t *idx, uint64_t n, int b);
// The reverse. The pad bits are not looked at.
void fg_bits_unpack(uint8_t *idx, const uint8_t *packed, uint64_t n, int b);
// True when the bits of the last byte that belong to no index are 0.
bool fg_bits_pad_is_zero(const uint8_t *packed, uint64_t n, int b);
#endif
