// bundle/synth_values.c: random arrays at the speed of a disk. The words of an array are one
// SplitMix64 stream named after it; the generator counts, so threads start anywhere in it.
#include "bundle/synth_impl.h"
#include "base/num.h"
#include "quant/random.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_BYTES ((uint64_t)64 << 10)
#define WORD_BYTES ((uint64_t)8)
#define GOLDEN 0x9E3779B97F4A7C15u // what the generator adds to its state per word

// Quantiles of the normal distribution at (k + 1/2) / n, scaled to unit variance. Pairs are the
// product of two such tables.
static const float levels4[4] = {-1.3629f, -0.3775f, 0.3775f, 1.3629f};
static const float levels8[8] = {-1.6630f, -0.9617f, -0.5298f, -0.1705f,
                                 0.1705f,  0.5298f,  0.9617f,  1.6630f};
static const float levels16[16] = {-1.9382f, -1.3714f, -1.0509f, -0.8079f, -0.6026f, -0.4185f,
                                   -0.2468f, -0.0816f, 0.0816f,  0.2468f,  0.4185f,  0.6026f,
                                   0.8079f,  1.0509f,  1.3714f,  1.9382f};
static const float upper_levels64[32] = {
    0.0198f, 0.0594f, 0.0991f, 0.1389f, 0.1789f, 0.2193f, 0.2600f, 0.3011f,
    0.3427f, 0.3849f, 0.4278f, 0.4715f, 0.5161f, 0.5617f, 0.6085f, 0.6566f,
    0.7063f, 0.7577f, 0.8112f, 0.8671f, 0.9257f, 0.9877f, 1.0536f, 1.1243f,
    1.2010f, 1.2854f, 1.3799f, 1.4882f, 1.6170f, 1.7793f, 2.0073f, 2.4417f};

enum kind {
    BYTES, // as they come
    CODES, // INT8 without -128
    HALVES // 16-bit floating point: random sign and mantissa under one exponent
};

struct fill {
    uint8_t *out;
    uint64_t bytes;
    uint64_t state; // of the generator before the first word
    enum kind kind;
    uint64_t keep, exponent; // HALVES: bits of a word that stay random; those that are set
};

static uint64_t next_word(const struct fill *f, struct fg_random *r)
{
    uint64_t w = fg_random_next(r);
    if (f->kind == HALVES) return (w & f->keep) | f->exponent;
    if (f->kind == CODES) {
        uint64_t low = w & 0x7F7F7F7F7F7F7F7Fu; // bytes of 0x80 become 0x81
        uint64_t some = (low + 0x7F7F7F7F7F7F7F7Fu) & 0x8080808080808080u; // low bits not all 0
        w |= (w & ~some & 0x8080808080808080u) >> 7;
    }
    return w;
}

static void fill_block(void *ctx, int64_t item, int worker)
{
    (void)worker;
    const struct fill *f = ctx;
    uint64_t at = (uint64_t)item * BLOCK_BYTES, end = at + BLOCK_BYTES;
    if (end > f->bytes) end = f->bytes;
    struct fg_random r = {f->state + GOLDEN * (at / WORD_BYTES)};
    for (; at + WORD_BYTES <= end; at += WORD_BYTES) {
        uint64_t w = next_word(f, &r);
        memcpy(f->out + at, &w, WORD_BYTES);
    }
    if (at < end) {
        uint64_t w = next_word(f, &r);
        memcpy(f->out + at, &w, end - at);
    }
}

static struct fg_random stream(const struct fg_synth_source *s, const char *name, const char *array)
{
    char tag[160];
    snprintf(tag, sizeof tag, "synth/%s.%s", name, array);
    return fg_random_named(s->seed, tag);
}

static void fill(const struct fg_synth_source *s, struct fill *f)
{
    int64_t n = (int64_t)((f->bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
    if (s->pool)
        fg_pool_run(s->pool, n, fill_block, f);
    else
        for (int64_t i = 0; i < n; i++)
            fill_block(f, i, 0);
}

// Four F16 or BF16 numbers a word, magnitudes in [2^e, 2^(e+1)) with 2^e <= deviation.
static void halves(struct fill *f, double deviation, int mantissa_bits, int bias)
{
    uint64_t exponent = (uint64_t)(ilogb(deviation) + bias) << mantissa_bits;
    uint64_t keep = 0x8000u | ((1u << mantissa_bits) - 1);
    f->kind = HALVES;
    f->exponent = exponent * 0x0001000100010001u;
    f->keep = keep * 0x0001000100010001u;
}

static void f16s(struct fill *f, double deviation)
{
    halves(f, deviation, 10, 15);
}

static void bf16s(struct fill *f, double deviation)
{
    halves(f, deviation, 7, 127);
}

static bool resize(struct fg_buf *b, uint64_t bytes)
{
    fg_buf_clear(b);
    return fg_buf_reserve(b, bytes);
}

// n F16 numbers of a stream in a buffer of the source.
static const uint16_t *factor(const struct fg_synth_source *s, struct fg_buf *b, const char *name,
                              const char *array, int64_t n, double deviation)
{
    uint64_t bytes = (uint64_t)n * sizeof(uint16_t);
    if (!resize(b, bytes)) return NULL;
    struct fill f = {(uint8_t *)b->data, bytes, stream(s, name, array).state, BYTES, 0, 0};
    f16s(&f, deviation);
    fill(s, &f);
    return (const uint16_t *)(const void *)b->data;
}

static const uint16_t *scales(struct fg_synth_source *s, const char *name, int64_t rows,
                              double deviation)
{
    if (!resize(&s->scale, (uint64_t)rows * sizeof(uint16_t))) return NULL;
    uint16_t *out = (uint16_t *)(void *)s->scale.data;
    struct fg_random r = stream(s, name, "scale");
    for (int64_t i = 0; i < rows; i++)
        out[i] = fg_f16_of_f32((float)(deviation * (0.8 + 0.4 * fg_random_u01(&r))));
    return out;
}

static void fill_table(struct fg_synth_source *s, enum fg_qformat format)
{
    if (format == FG_Q_LUT4) {
        for (int i = 0; i < 16; i++)
            s->table[i] = fg_f16_of_f32(levels16[i]);
        return;
    }
    if (format == FG_Q_LUT6) {
        for (int i = 0; i < 32; i++) {
            s->table[32 + i] = fg_f16_of_f32(upper_levels64[i]);
            s->table[31 - i] = fg_f16_of_f32(-upper_levels64[i]);
        }
        return;
    }
    int n = format == FG_Q_V2X64 ? 8 : 4;
    const float *levels = n == 8 ? levels8 : levels4;
    for (int i = 0; i < n * n; i++) {
        s->table[2 * i] = fg_f16_of_f32(levels[i / n]);
        s->table[2 * i + 1] = fg_f16_of_f32(levels[i % n]);
    }
}

// Bits of a row's last byte that belong to no index are 0.
static void clear_pads(uint8_t *rows, int64_t n_rows, uint64_t row_bytes, uint64_t bits)
{
    if (bits % 8 == 0) return;
    for (int64_t i = 1; i <= n_rows; i++)
        rows[(uint64_t)i * row_bytes - 1] &= (uint8_t)((1u << bits % 8) - 1);
}

static bool fill_indices(struct fg_synth_source *s, const char *name, struct fg_qmat *m)
{
    int64_t n_rows = m->rows / fg_qformat_rows_per_index(m->format);
    uint64_t cols = (uint64_t)m->cols, row_bytes = fg_qformat_row_bytes(m->format, cols);
    uint64_t bytes = (uint64_t)n_rows * row_bytes;
    if (m->format == FG_Q_INT8) bytes = (uint64_t)m->rows * cols;
    if (fg_qformat_is_kept(m->format)) bytes = (uint64_t)m->rows * cols * sizeof(uint16_t);
    if (!resize(&s->indices, bytes)) return false;
    struct fill f = {(uint8_t *)s->indices.data, bytes, stream(s, name, "data").state, BYTES, 0, 0};
    if (m->format == FG_Q_INT8) f.kind = CODES;
    if (fg_qformat_is_kept(m->format)) bf16s(&f, 1 / sqrt((double)cols));
    fill(s, &f);
    if (fg_qformat_is_lut(m->format)) {
        clear_pads(f.out, n_rows, row_bytes, cols * (uint64_t)fg_qformat_index_bits(m->format));
        m->pidx = f.out;
    } else if (m->format == FG_Q_INT8) {
        m->codes = (const int8_t *)f.out;
    } else {
        m->weight = f.out;
    }
    return true;
}

int fg_synth_matrix(struct fg_synth_source *s, const char *name, struct fg_qmat *m,
                    struct fg_error *err)
{
    double deviation = 1 / sqrt((double)m->cols); // of a weight, so that outputs are about inputs
    bool ok = fill_indices(s, name, m);
    if (fg_qformat_is_lut(m->format)) {
        fill_table(s, m->format);
        m->lut = s->table;
    }
    if (!fg_qformat_is_kept(m->format)) {
        double code = m->format == FG_Q_INT8 ? 127 / sqrt(3.0) : 1; // deviation of what is scaled
        m->scale = scales(s, name, m->rows, deviation / code);
        ok = ok && m->scale;
    }
    if (m->rank > 0) {
        double rank = (double)m->rank;
        m->lr_a = factor(s, &s->lr_a, name, "lr_a", m->rows * m->rank, 0.2 / sqrt(rank));
        m->lr_b = factor(s, &s->lr_b, name, "lr_b", m->rank * m->cols, deviation);
        ok = ok && m->lr_a && m->lr_b;
    }
    return ok ? 0 : fg_fail_memory(err, name, (uint64_t)m->rows * (uint64_t)m->cols);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static double small_value(const char *name, bool zero_centred, double u)
{
    // exp(A_log) from 1 to 16 and softplus(dt_bias) from 0.001 to 0.1, both even in the logarithm;
    // straight lines, as libm's functions are not the same everywhere.
    if (ends_with(name, ".A_log")) return 2.77 * u;
    if (ends_with(name, ".dt_bias")) return -6.9 + 4.65 * u;
    if (ends_with(name, "conv1d.weight")) return u - 0.5;
    double near = 0.1 * (u - 0.5);
    bool plain = ends_with(name, "linear_attn.norm.weight") || !zero_centred;
    if (ends_with(name, "norm.weight")) return plain ? 1 + near : near;
    return near; // biases
}

void fg_synth_small(const struct fg_synth_source *s, const char *name, bool zero_centred,
                    uint16_t *out, uint64_t n)
{
    struct fg_random r = stream(s, name, "small");
    for (uint64_t i = 0; i < n; i++)
        out[i] = fg_bf16_of_f32((float)small_value(name, zero_centred, fg_random_u01(&r)));
}

void fg_synth_embedding(const struct fg_synth_source *s, uint64_t first, uint16_t *out, uint64_t n)
{
    struct fill f = {.out = (uint8_t *)out, .bytes = n * sizeof *out};
    f.state = stream(s, "embed_tokens", "weight").state + GOLDEN * (first / 4);
    f16s(&f, 0.02);
    fill(s, &f);
}

void fg_synth_source_free(struct fg_synth_source *s)
{
    fg_buf_free(&s->indices);
    fg_buf_free(&s->scale);
    fg_buf_free(&s->lr_a);
    fg_buf_free(&s->lr_b);
}
