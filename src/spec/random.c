// spec/random.c: Philox and the two functions that sampling needs to be machine-independent.
#include "spec/random.h"
#include <string.h>

void fg_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)c0 * 0xD2511F53u, b = (uint64_t)c2 * 0xCD9E8D57u;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

double fg_random_uniform(uint64_t seed, uint32_t token, int64_t pos, enum fg_random_stream stream)
{
    uint64_t p = (uint64_t)pos;
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)}, w[4];
    uint32_t counter[4] = {token, (uint32_t)p, (uint32_t)(p >> 32), (uint32_t)stream};
    fg_philox(w, counter, key);
    uint64_t m = (uint64_t)w[0] << 20 | w[1] >> 12;
    return ((double)m + 0.5) * 0x1p-52;
}

double fg_ln(double x)
{
    // x = 2^e * m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <
    // 0.172.
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1022;
    bits = (bits & 0x000FFFFFFFFFFFFFu) | 0x3FE0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m); // [0.5, 1)
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    double f = m - 1, s = f / (2 + f), z = s * s, sum = 0;
    for (int k = 21; k >= 3; k -= 2)
        sum = (sum + 1.0 / k) * z;
    const double ln2_hi = 0x1.62e42fee00000p-1, ln2_lo = 0x1.a39ef35793c76p-33;
    return (double)e * ln2_hi + (2 * s + (2 * s * sum + (double)e * ln2_lo));
}

double fg_exp_neg(double x)
{
    if (!(x > -745)) return 0;
    const double ln2_hi = 0x1.62e42fee00000p-1, ln2_lo = 0x1.a39ef35793c76p-33;
    int n = (int)(x * 1.4426950408889634 - 0.5); // x <= 0: rounds to nearest
    double r = (x - n * ln2_hi) - n * ln2_lo, sum = 1;
    for (int k = 14; k >= 1; k--) // Taylor: |r| <= 0.35
        sum = 1 + sum * r / k;
    // 2^n in two steps, so that results below the normal range round once more at most.
    double scale;
    int half = n / 2;
    uint64_t bits = (uint64_t)(half + 1023) << 52;
    memcpy(&scale, &bits, sizeof scale);
    sum *= scale;
    bits = (uint64_t)(n - half + 1023) << 52;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

double fg_random_gumbel(uint64_t seed, uint32_t token, int64_t pos, enum fg_random_stream stream)
{
    return -fg_ln(-fg_ln(fg_random_uniform(seed, token, pos, stream)));
}
