// quant/signs.c: signs of rotation sites, and the rotation of weights.
#include "quant/signs.h"
#include "quant/jobs.h"
#include "quant/random.h"
#include <string.h>

#define ROWS_PER_ITEM 16

void fg_signs_splitmix64(uint8_t *bits, uint64_t seed, int64_t n)
{
    struct fg_random r = fg_random_seeded(seed);
    memset(bits, 0, (size_t)((n + 7) / 8));
    for (int64_t i = 0; i < n; i += 64) {
        const uint64_t word = fg_random_next(&r);
        for (int64_t j = 0; j < 64 && i + j < n; j++)
            bits[(i + j) / 8] |= (uint8_t)((word >> j & 1) << (j % 8));
    }
}

// ---- NumPy's SeedSequence and PCG64

__extension__ typedef unsigned __int128 u128;

struct pcg64 {
    u128 state, inc;
};

static uint32_t seed_hash(uint32_t v, uint32_t *constant)
{
    v ^= *constant;
    *constant *= 0x931E8875u;
    v *= *constant;
    return v ^ v >> 16;
}

static uint32_t seed_mix(uint32_t x, uint32_t y)
{
    uint32_t r = 0xCA01F9DDu * x - 0x4973F715u * y;
    return r ^ r >> 16;
}

static void pcg64_step(struct pcg64 *p)
{
    const u128 multiplier = (u128)0x2360ED051FC65DA4u << 64 | 0x4385DF649FCCF645u;
    p->state = p->state * multiplier + p->inc;
}

static struct pcg64 pcg64_seeded(uint32_t seed)
{
    uint32_t constant = 0x43B0D7E5u, pool[4];
    for (int i = 0; i < 4; i++)
        pool[i] = seed_hash(i == 0 ? seed : 0, &constant);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            if (a != b) pool[b] = seed_mix(pool[b], seed_hash(pool[a], &constant));

    uint64_t words[4] = {0};
    uint32_t h = 0x8B51F9DDu;
    for (int i = 0; i < 8; i++) {
        uint32_t v = pool[i % 4] ^ h;
        h *= 0x58F38DEDu;
        v *= h;
        v ^= v >> 16;
        words[i / 2] |= (uint64_t)v << (32 * (i % 2));
    }
    struct pcg64 p = {.inc = ((u128)words[2] << 64 | words[3]) * 2 + 1};
    pcg64_step(&p);
    p.state += (u128)words[0] << 64 | words[1];
    pcg64_step(&p);
    return p;
}

static uint64_t pcg64_next(struct pcg64 *p)
{
    pcg64_step(p);
    const uint64_t folded = (uint64_t)(p->state >> 64) ^ (uint64_t)p->state;
    const int by = (int)(p->state >> 122);
    return folded >> by | folded << (-by & 63);
}

void fg_signs_numpy_pcg64(uint8_t *bits, uint32_t seed, int64_t n)
{
    struct pcg64 p = pcg64_seeded(seed);
    uint64_t word = 0;
    memset(bits, 0, (size_t)((n + 7) / 8));
    for (int64_t i = 0; i < n; i++) {
        if (i % 2 == 0) word = pcg64_next(&p);
        const uint64_t plus = word >> (i % 2 == 0 ? 31 : 63) & 1;
        bits[i / 8] |= (uint8_t)((plus ^ 1) << (i % 8));
    }
}

// ---- sites

int64_t fg_rotation_block(int64_t width)
{
    if (width <= 0) return 0;
    int64_t block = width & -width;
    if (block > 1024) block = 1024;
    return block < 8 ? 0 : block;
}

bool fg_rotation_seed(uint64_t *seed, const char *site, int64_t layer)
{
    static const char *const sites[] = {"mlp_in", "mlp_mid", "mix_in", "mix_out"};
    for (uint64_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        if (strcmp(site, sites[i]) != 0) continue;
        *seed = 1000 * (i + 1) + (uint64_t)layer;
        return true;
    }
    return false;
}

// ---- weights

struct rotation {
    float *w;
    int64_t rows, cols, block;
    const uint8_t *signs;
    const struct fg_kernels *kernels;
    bool inverse;
};

static void unrotate_row(const struct rotation *r, float *row)
{
    static const uint8_t plus[1024 / 8]; // the transform alone: a block has at most 1024 columns
    for (int64_t c = 0; c < r->cols; c += r->block)
        r->kernels->rotate(row + c, row + c, plus, r->block, r->block);
    for (int64_t c = 0; c < r->cols; c++)
        if (r->signs[c / 8] >> (c % 8) & 1) row[c] = -row[c];
}

static void rotate_item(void *ctx, int64_t item, int worker)
{
    const struct rotation *r = ctx;
    (void)worker;
    for (int64_t i = item * ROWS_PER_ITEM; i < (item + 1) * ROWS_PER_ITEM && i < r->rows; i++) {
        float *row = r->w + i * r->cols;
        if (r->inverse)
            unrotate_row(r, row);
        else
            r->kernels->rotate(row, row, r->signs, r->cols, r->block);
    }
}

static void rotate_all(struct rotation *r, struct fg_pool *pool)
{
    fg_job_run(pool, (r->rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM, rotate_item, r);
}

void fg_rotate_rows(float *w, int64_t rows, int64_t cols, const uint8_t *signs, int64_t block,
                    const struct fg_kernels *kernels, struct fg_pool *pool)
{
    struct rotation r = {w, rows, cols, block, signs, kernels, false};
    rotate_all(&r, pool);
}

void fg_unrotate_rows(float *w, int64_t rows, int64_t cols, const uint8_t *signs, int64_t block,
                      const struct fg_kernels *kernels, struct fg_pool *pool)
{
    struct rotation r = {w, rows, cols, block, signs, kernels, true};
    rotate_all(&r, pool);
}
