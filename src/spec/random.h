// spec/random.h: counter-based random numbers (specs: speculative 5.2): Philox4x32-10 keyed by the
// seed, with token, position and stream as the counter. No state, so nothing that is drawn depends
// on what was drawn before. J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
// 2011.
#ifndef FG_SPEC_RANDOM_H
#define FG_SPEC_RANDOM_H
#include <stdint.h>

enum fg_random_stream { FG_RANDOM_TARGET = 0 };

// out = Philox4x32-10 of counter and key.
void fg_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);
// Uniform in (0, 1): 52 bits and a half, never 0 or 1.
double fg_random_uniform(uint64_t seed, uint32_t token, int64_t pos, enum fg_random_stream stream);
// Gumbel noise -ln(-ln U); at most FG_GUMBEL_MAX.
double fg_random_gumbel(uint64_t seed, uint32_t token, int64_t pos, enum fg_random_stream stream);
#define FG_GUMBEL_MAX 36.7368006

// Natural logarithm of a positive finite normal double by our own series, so that draws are the
// same on every machine whatever its libm. Relative error below 1e-15 away from 1, absolute below
// 2e-16 near it.
double fg_ln(double x);
// e^x for x <= 0, by our own series; 0 below -745. Relative error below 1e-15.
double fg_exp_neg(double x);
#endif
