// quant/signs.h: block Hadamard rotations of weights, and the signs and seeds of their sites
// (specs: quantization 2 and A). Rotation of activations is the kernels' (kernels/lut.h, rotate).
#ifndef FG_QUANT_SIGNS_H
#define FG_QUANT_SIGNS_H
#include "base/thread.h"
#include "kernels/kernels.h"
#include <stdbool.h>
#include <stdint.h>

// Bitmaps [ceil(n / 8)], least significant bit first, 1 = -1, bits from n on 0.
void fg_signs_splitmix64(uint8_t *bits, uint64_t seed, int64_t n);
// As NumPy's default_rng(seed).choice([-1, 1], n) draws them; for exports of the original.
void fg_signs_numpy_pcg64(uint8_t *bits, uint32_t seed, int64_t n);

// Block of a site of this width: the largest power of two that divides it, at most 1024; 0 where
// that is below 8 and the site is not rotated.
int64_t fg_rotation_block(int64_t width);

// Seed of a site of a layer: 1000, 2000, 3000, 4000 + layer for "mlp_in", "mlp_mid", "mix_in",
// "mix_out". False for another name.
bool fg_rotation_seed(uint64_t *seed, const char *site, int64_t layer);

// w [rows][cols] in place: W' = W M, each row as fg_rotate_fn turns an activation row. `block`
// divides cols. Threads of `pool` share the rows (NULL: the caller alone).
void fg_rotate_rows(float *w, int64_t rows, int64_t cols, const uint8_t *signs, int64_t block,
                    const struct fg_kernels *kernels, struct fg_pool *pool);
// The inverse, Q M^T: transform, then signs.
void fg_unrotate_rows(float *w, int64_t rows, int64_t cols, const uint8_t *signs, int64_t block,
                      const struct fg_kernels *kernels, struct fg_pool *pool);
#endif
