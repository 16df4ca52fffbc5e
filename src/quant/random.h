// quant/random.h: random numbers that are the same everywhere (specs: quantization B): SplitMix64
// and streams of it by name.
#ifndef FG_QUANT_RANDOM_H
#define FG_QUANT_RANDOM_H
#include "base/hash.h"
#include <stdint.h>
#include <string.h>

struct fg_random {
    uint64_t state;
};

static inline uint64_t fg_random_next(struct fg_random *r)
{
    uint64_t z = r->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

// The stream of a bare seed.
static inline struct fg_random fg_random_seeded(uint64_t seed)
{
    return (struct fg_random){seed};
}

// The stream `tag` of a seed; its own seed is the first output of SplitMix64(seed ^ FNV-1a(tag)).
static inline struct fg_random fg_random_named(uint64_t seed, const char *tag)
{
    struct fg_random r = {seed ^ fg_fnv1a(tag, strlen(tag))};
    return (struct fg_random){fg_random_next(&r)};
}

// Uniform in [0, 1), a multiple of 2^-53.
static inline double fg_random_u01(struct fg_random *r)
{
    return (double)(fg_random_next(r) >> 11) * 0x1p-53;
}

// Uniform in [0, n), n >= 1: the high half of next * n.
static inline uint64_t fg_random_below(struct fg_random *r, uint64_t n)
{
    __extension__ typedef unsigned __int128 u128;
    return (uint64_t)((u128)fg_random_next(r) * n >> 64);
}
#endif
