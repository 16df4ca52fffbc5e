#include "format/bits.h"

bool fg_bits_pack(uint8_t *packed, const uint8_t *idx, uint64_t n, int b)
{
    unsigned mask = (1u << b) - 1, acc = 0, excess = 0;
    int held = 0;
    for (uint64_t j = 0; j < n; j++) {
        excess |= idx[j] & ~mask;
        acc |= (idx[j] & mask) << held;
        held += b;
        if (held >= 8) {
            *packed++ = (uint8_t)acc;
            acc >>= 8;
            held -= 8;
        }
    }
    if (held > 0) *packed = (uint8_t)acc;
    return excess == 0;
}

void fg_bits_unpack(uint8_t *idx, const uint8_t *packed, uint64_t n, int b)
{
    unsigned mask = (1u << b) - 1, acc = 0;
    int held = 0;
    for (uint64_t j = 0; j < n; j++) {
        if (held < b) {
            acc |= (unsigned)*packed++ << held;
            held += 8;
        }
        idx[j] = (uint8_t)(acc & mask);
        acc >>= b;
        held -= b;
    }
}

bool fg_bits_pad_is_zero(const uint8_t *packed, uint64_t n, int b)
{
    unsigned used = (unsigned)(n * (uint64_t)b % 8);
    return used == 0 || packed[fg_bits_bytes(n, b) - 1] >> used == 0;
}
