// quant/pack.c: bit streams of indices. Eight indices are `bits` whole bytes, so runs of eight go
// through one 64-bit word and only the end is done bit by bit.
#include "quant/pack.h"
#include <string.h>

static void pack8(uint8_t *out, const uint8_t *idx, int bits)
{
    uint64_t word = 0;
    for (int j = 0; j < 8; j++)
        word |= (uint64_t)idx[j] << (j * bits);
    for (int b = 0; b < bits; b++)
        out[b] = (uint8_t)(word >> (8 * b));
}

static void unpack8(uint8_t *idx, const uint8_t *packed, int bits)
{
    uint64_t word = 0;
    for (int b = 0; b < bits; b++)
        word |= (uint64_t)packed[b] << (8 * b);
    for (int j = 0; j < 8; j++)
        idx[j] = (uint8_t)(word >> (j * bits) & ((1u << bits) - 1));
}

// A constant number of bits lets the compiler unroll what is inside.
static inline __attribute__((always_inline)) void pack_run(uint8_t *out, const uint8_t *idx,
                                                           int64_t n, const int bits)
{
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        pack8(out + j / 8 * bits, idx + j, bits);
    if (j == n) return;
    uint8_t last[8] = {0}, bytes[8];
    memcpy(last, idx + j, (size_t)(n - j));
    pack8(bytes, last, bits);
    memcpy(out + j / 8 * bits, bytes, (size_t)fg_pack_bytes(n - j, bits));
}

static inline __attribute__((always_inline)) void unpack_run(uint8_t *idx, const uint8_t *packed,
                                                             int64_t n, const int bits)
{
    int64_t j = 0;
    for (; j + 8 <= n; j += 8)
        unpack8(idx + j, packed + j / 8 * bits, bits);
    if (j == n) return;
    uint8_t last[8], bytes[8] = {0};
    memcpy(bytes, packed + j / 8 * bits, (size_t)fg_pack_bytes(n - j, bits));
    unpack8(last, bytes, bits);
    memcpy(idx + j, last, (size_t)(n - j));
}

void fg_pack_indices(uint8_t *out, const uint8_t *idx, int64_t n, int bits)
{
    switch (bits) {
    case 2: pack_run(out, idx, n, 2); break;
    case 3: pack_run(out, idx, n, 3); break;
    case 4: pack_run(out, idx, n, 4); break;
    case 6: pack_run(out, idx, n, 6); break;
    default: memcpy(out, idx, (size_t)n); break;
    }
}

void fg_unpack_indices(uint8_t *idx, const uint8_t *packed, int64_t n, int bits)
{
    switch (bits) {
    case 2: unpack_run(idx, packed, n, 2); break;
    case 3: unpack_run(idx, packed, n, 3); break;
    case 4: unpack_run(idx, packed, n, 4); break;
    case 6: unpack_run(idx, packed, n, 6); break;
    default: memcpy(idx, packed, (size_t)n); break;
    }
}

bool fg_pack_pad_is_zero(const uint8_t *packed, int64_t n, int bits)
{
    const int used = (int)(n % 8 * bits % 8); // bits of the last byte that belong to indices
    return used == 0 || packed[fg_pack_bytes(n, bits) - 1] >> used == 0;
}
