// base/crc32c.c: CRC-32C by the CPU's instruction, three streams at once to hide its latency, and
// by tables. Polynomials over GF(2) modulo the CRC's, lowest power in the highest bit.
#include "base/crc32c.h"
#include <pthread.h>
#include <string.h>
#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
#include <immintrin.h>
#define HAVE_INSTRUCTION
#endif

#define POLY 0x82F63B78u

static uint32_t tables[8][256]; // tables[k][b]: register after byte b and k bytes of zero
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t r = b;
        for (int i = 0; i < 8; i++)
            r = r >> 1 ^ (POLY & (0u - (r & 1)));
        tables[0][b] = r;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++)
            tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 255];
}

uint32_t fg_crc32c_portable(uint32_t crc, const void *data, uint64_t n)
{
    pthread_once(&once, make_tables);
    const uint8_t *p = data;
    uint32_t r = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a = r ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                          (uint32_t)p[3] << 24);
        r = tables[7][a & 255] ^ tables[6][a >> 8 & 255] ^ tables[5][a >> 16 & 255] ^
            tables[4][a >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^
            tables[0][p[7]];
    }
    for (; n > 0; n--)
        r = r >> 8 ^ tables[0][(r ^ *p++) & 255];
    return ~r;
}

#ifdef HAVE_INSTRUCTION
// Bytes of one of three streams, and x^(8 * bytes): a register moves past that many zeros by a
// product with it.
#define LONG 16384
#define LONG_POWER 0xBF455269u
#define SHORT 512
#define SHORT_POWER 0x74C360A4u

static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t r = 0;
    for (int i = 31; i >= 0; i--) {
        r ^= b & (0u - (a >> i & 1));
        b = b >> 1 ^ (POLY & (0u - (b & 1)));
    }
    return r;
}

static inline uint64_t load(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

// The register after three blocks of `block` bytes, a multiple of 8.
__attribute__((target("sse4.2"))) static uint32_t three(uint32_t r, const uint8_t *p,
                                                        uint64_t block, uint32_t power)
{
    uint64_t a = r, b = 0, c = 0;
    for (uint64_t i = 0; i < block; i += 8) {
        a = _mm_crc32_u64(a, load(p + i));
        b = _mm_crc32_u64(b, load(p + block + i));
        c = _mm_crc32_u64(c, load(p + 2 * block + i));
    }
    return times(times((uint32_t)a, power) ^ (uint32_t)b, power) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const uint8_t *p,
                                                                 uint64_t n)
{
    uint32_t r = ~crc;
    for (; n >= 3 * LONG; n -= 3 * LONG, p += 3 * LONG)
        r = three(r, p, LONG, LONG_POWER);
    for (; n >= 3 * SHORT; n -= 3 * SHORT, p += 3 * SHORT)
        r = three(r, p, SHORT, SHORT_POWER);
    for (; n >= 8; n -= 8, p += 8)
        r = (uint32_t)_mm_crc32_u64(r, load(p));
    for (; n > 0; n--)
        r = _mm_crc32_u8(r, *p++);
    return ~r;
}
#endif

uint32_t fg_crc32c(uint32_t crc, const void *data, uint64_t n)
{
#ifdef HAVE_INSTRUCTION
    if (__builtin_cpu_supports("sse4.2")) return by_instruction(crc, data, n);
#endif
    return fg_crc32c_portable(crc, data, n);
}
