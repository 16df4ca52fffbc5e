// tests/kernels/numbers.h: seeded inputs for kernel tests, memory with a forbidden page after it,
// and comparison of bits.
#ifndef FG_TESTS_KERNELS_NUMBERS_H
#define FG_TESTS_KERNELS_NUMBERS_H
#include "base/num.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static inline uint32_t next_u32(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (uint32_t)(*seed >> 32);
}

enum numbers {
    NUMBERS_UNIT,    // in (-1, 1): sums round
    NUMBERS_WIDE,    // exponents far apart and cancelling
    NUMBERS_SMALL,   // products and sums near and below the smallest normal number
    NUMBERS_SPECIAL, // zeros of both signs, subnormals, largest values, infinities, a rare NaN
    N_NUMBERS
};

static inline float next_number(uint64_t *seed, enum numbers kind)
{
    uint32_t u = next_u32(seed), v = next_u32(seed);
    float unit = (float)(int32_t)u * 0x1p-31f;
    switch (kind) {
    case NUMBERS_WIDE: return fg_f32_of_bits((u & 0x807FFFFF) | (100 + v % 40) << 23);
    case NUMBERS_SMALL: return fg_f32_of_bits((u & 0x807FFFFF) | (52 + v % 16) << 23);
    case NUMBERS_SPECIAL:
        switch (v % 64) {
        case 0: return fg_f32_of_bits(u & 0x80000000);
        case 1: return fg_f32_of_bits(u & 0x807FFFFF);
        case 2: return fg_f32_of_bits((u & 0x80000000) | 0x00800000);
        case 3: return v & 0x100 ? unit : fg_f32_of_bits((u & 0x80000000) | 0x7F7FFFFF);
        case 4: return v & 0xF00 ? unit : fg_f32_of_bits((u & 0x80000000) | 0x7F800000);
        case 5: return v & 0xFF00 ? unit : fg_f32_of_bits(0x7FC00000 | (u & 0xFFFF));
        default: return v & 0x1000 ? unit : fg_f32_of_bits(u & 0x80000000);
        }
    default: return unit;
    }
}

// n elements of type t to dst, any alignment. 16-bit types also get subnormals and extremes of
// their own in the special kind.
static inline void fill_elements(uint8_t *dst, enum fg_dtype t, int64_t n, uint64_t *seed,
                                 enum numbers kind)
{
    for (int64_t i = 0; i < n; i++) {
        float f = next_number(seed, kind);
        uint16_t h = t == FG_F16 ? fg_f16_of_f32(f) : fg_bf16_of_f32(f);
        if (kind == NUMBERS_SPECIAL && next_u32(seed) % 32 == 0)
            h = (uint16_t)(next_u32(seed) & (t == FG_F16 ? 0x83FF : 0x807F));
        if (t == FG_INT8)
            dst[i] = (uint8_t)next_u32(seed);
        else if (t == FG_F32)
            memcpy(dst + 4 * i, &f, 4);
        else
            memcpy(dst + 2 * i, &h, 2);
    }
}

static inline void fill_floats(float *dst, int64_t n, uint64_t *seed, enum numbers kind)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = next_number(seed, kind);
}

// Bytes that end where reading is forbidden.
struct fenced {
    uint8_t *data; // the caller's `bytes`
    void *map;
    size_t map_bytes;
};

static inline struct fenced fenced_new(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (bytes + page - 1) / page * page;
    struct fenced f = {.map_bytes = size + page};
    f.map = mmap(NULL, f.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f.map == MAP_FAILED || mprotect((uint8_t *)f.map + size, page, PROT_NONE) != 0) {
        perror("fenced_new");
        exit(1);
    }
    f.data = (uint8_t *)f.map + size - bytes;
    return f;
}

static inline void fenced_free(struct fenced *f)
{
    munmap(f->map, f->map_bytes);
}

// Same bits, or both NaN (payloads are not part of the contract).
static inline bool same_float(float a, float b)
{
    return fg_bits_of_f32(a) == fg_bits_of_f32(b) || (a != a && b != b);
}
#endif
