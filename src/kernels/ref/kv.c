// kernels/ref/kv.c: keys and values to their stored form and back. What a row is (quantize, read)
// and where it lies in its page (element, put, fg_kv_row) are apart; files know the first alone.
#include "kernels/ref/kv.h"
#include "base/num.h"
#include <math.h>
#include <stddef.h>
#include <string.h>

#define F16_MAX 0x7BFF // 65504
#define CODE_MAX 127
#define SCALE_MIN 1e-6f

// The keys or the values of a head.
struct part {
    uint8_t *pages;
    uint16_t *scales;
    int64_t D, W;
    int64_t size; // bytes of an element: 1 (codes), 2, 4
    uint8_t flip; // codes of keys are stored with 128 added: their sign bit flipped
    bool keys;
};

static struct part part_of(const struct fg_kv_head *h, bool keys)
{
    const bool codes = keys ? fg_kv_k8(h->format) : fg_kv_v8(h->format);
    return (struct part){
        .pages = keys ? h->k : h->v,
        .scales = keys ? h->ks : h->vs,
        .D = h->D,
        .W = fg_kv_width(h->D),
        .size = codes                    ? 1
                : h->format == FG_KV_F32 ? 4
                                         : 2,
        .flip = codes && keys ? 0x80 : 0,
        .keys = keys,
    };
}

// Where dim d of position pos lies.
static uint8_t *element(const struct part *p, int64_t pos, int64_t d)
{
    const int64_t t = pos % FG_KV_PAGE;
    const bool codes = p->size == 1;
    int64_t at;
    if (p->keys)
        at = codes ? (t / 16 * (p->W / 4) + d / 4) * 64 + t % 16 * 4 + d % 4
                   : (t / 16 * p->W + d) * 16 + t % 16;
    else
        at = codes ? (d / 32 * (FG_KV_PAGE / 4) + t / 4) * 128 + d % 32 * 4 + t % 4 : t * p->W + d;
    return p->pages + (pos / FG_KV_PAGE * FG_KV_PAGE * p->W + at) * p->size;
}

// A constant size each: a call of memcpy per element would be most of the time.
static void copy(uint8_t *to, const uint8_t *from, int64_t size)
{
    switch (size) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    default: memcpy(to, from, 4);
    }
}

static void get(void *row, const struct part *p, int64_t pos)
{
    uint8_t *to = row;
    for (int64_t d = 0; d < p->D; d++) {
        copy(to + d * p->size, element(p, pos, d), p->size);
        to[d * p->size] ^= p->flip;
    }
}

static void put(const struct part *p, int64_t pos, const void *row)
{
    static const uint8_t zero[4] = {0};
    const uint8_t *from = row;
    for (int64_t d = 0; d < p->W; d++) {
        uint8_t *to = element(p, pos, d);
        copy(to, d < p->D ? from + d * p->size : zero, p->size);
        *to ^= p->flip;
    }
}

static bool finite_row(const float *x, int64_t D)
{
    for (int64_t d = 0; d < D; d++)
        if (!isfinite(x[d])) return false;
    return true;
}

static uint16_t f16_saturated(float x)
{
    const uint16_t h = fg_f16_of_f32(x);
    return (h & 0x7FFF) > F16_MAX ? (uint16_t)((h & 0x8000) | F16_MAX) : h;
}

// Codes of FP16 numbers h [D]; returns the scale.
static uint16_t quantize(int8_t *code, const uint16_t *h, int64_t D)
{
    float a = 0;
    for (int64_t d = 0; d < D; d++)
        a = fmaxf(a, fabsf(fg_f16_to_f32(h[d])));
    const uint16_t scale = fg_f16_of_f32(fmaxf(a / CODE_MAX, SCALE_MIN));
    const float s = fg_f16_to_f32(scale);
    for (int64_t d = 0; d < D; d++) {
        const float c = rintf(fg_f16_to_f32(h[d]) / s);
        code[d] = (int8_t)fminf(fmaxf(c, -CODE_MAX), CODE_MAX);
    }
    return scale;
}

static bool store_row(const struct part *p, int64_t pos, const float *x)
{
    if (!finite_row(x, p->D)) return false;
    if (p->size == 4) {
        put(p, pos, x);
        return true;
    }
    uint16_t h[FG_KV_WIDTH_MAX];
    for (int64_t d = 0; d < p->D; d++)
        h[d] = f16_saturated(x[d]);
    if (p->size == 2) {
        put(p, pos, h);
        return true;
    }
    int8_t code[FG_KV_WIDTH_MAX];
    p->scales[pos] = quantize(code, h, p->D);
    put(p, pos, code);
    return true;
}

// ---- codes of keys against queries

// w_i = (I + sum_{j <= i} u_j u_j^T)^-1 u_i over dims i, u_i [DIRECTIONS] column i of U: by
// rank-one updates of the inverse.
static void feedback_weights(float w[][FG_KV_DIRECTIONS], const float u[][FG_KV_DIRECTIONS],
                             int64_t D)
{
    float inverse[FG_KV_DIRECTIONS][FG_KV_DIRECTIONS] = {{0}};
    for (int a = 0; a < FG_KV_DIRECTIONS; a++)
        inverse[a][a] = 1;
    for (int64_t i = 0; i < D; i++) {
        float z[FG_KV_DIRECTIONS] = {0}, below = 1;
        for (int b = 0; b < FG_KV_DIRECTIONS; b++)
            for (int a = 0; a < FG_KV_DIRECTIONS; a++)
                z[a] += inverse[b][a] * u[i][b];
        for (int a = 0; a < FG_KV_DIRECTIONS; a++)
            below += u[i][a] * z[a];
        for (int a = 0; a < FG_KV_DIRECTIONS; a++)
            w[i][a] = z[a] / below;
        for (int b = 0; b < FG_KV_DIRECTIONS; b++)
            for (int a = 0; a < FG_KV_DIRECTIONS; a++)
                inverse[b][a] -= w[i][b] * z[a];
    }
}

// Columns of U; false when there is nothing to go by.
static bool directions(float u[][FG_KV_DIRECTIONS], const float *q, int64_t n, int64_t ldq,
                       int64_t D)
{
    float energy = 0;
    memset(u, 0, (size_t)D * sizeof u[0]);
    for (int64_t j = 0; j < n; j++)
        for (int64_t d = 0; d < D; d++)
            u[d][j % FG_KV_DIRECTIONS] += q[j * ldq + d];
    for (int64_t d = 0; d < D; d++)
        for (int a = 0; a < FG_KV_DIRECTIONS; a++)
            energy += u[d][a] * u[d][a];
    if (!(energy > 0x1p-80f && energy < 0x1p80f)) return false;
    const float scale = 1 / sqrtf(FG_KV_RIDGE * energy / (float)D);
    for (int64_t d = 0; d < D; d++)
        for (int a = 0; a < FG_KV_DIRECTIONS; a++)
            u[d][a] *= scale;
    return true;
}

void fg_kv_shape_key(const struct fg_kv_head *h, int64_t pos, const float *k, const float *q,
                     int64_t n, int64_t ldq)
{
    const struct part p = part_of(h, true);
    float u[FG_KV_WIDTH_MAX][FG_KV_DIRECTIONS], w[FG_KV_WIDTH_MAX][FG_KV_DIRECTIONS];
    float sum[FG_KV_DIRECTIONS] = {0}; // U e of the dims that are rounded
    int8_t code[FG_KV_WIDTH_MAX];
    if (p.size != 1 || !finite_row(k, p.D) || !directions(u, q, n, ldq, p.D)) return;
    const float s = fg_f16_to_f32(p.scales[pos]);
    feedback_weights(w, u, p.D);
    for (int64_t d = p.D - 1; d >= 0; d--) {
        const float x = fg_f16_to_f32(f16_saturated(k[d]));
        float t = x;
        for (int a = 0; a < FG_KV_DIRECTIONS; a++)
            t += w[d][a] * sum[a];
        const float c = fminf(fmaxf(rintf(t / s), -CODE_MAX), CODE_MAX), e = x - c * s;
        code[d] = (int8_t)c;
        for (int a = 0; a < FG_KV_DIRECTIONS; a++)
            sum[a] += u[d][a] * e;
    }
    put(&p, pos, code);
}

bool fg_kv_store_ref(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v)
{
    const struct part keys = part_of(h, true), values = part_of(h, false);
    return store_row(&keys, pos, k) && store_row(&values, pos, v);
}

void fg_kv_row(void *row, const struct fg_kv_head *h, bool keys, int64_t pos)
{
    const struct part p = part_of(h, keys);
    get(row, &p, pos);
}

static void read_rows(float *x, const struct part *p, int64_t pos, int64_t n)
{
    for (int64_t i = 0; i < n; i++, x += p->D) {
        union {
            int8_t code[FG_KV_WIDTH_MAX];
            uint16_t f16[FG_KV_WIDTH_MAX];
        } row;
        if (p->size == 4) {
            get(x, p, pos + i);
            continue;
        }
        get(&row, p, pos + i);
        const float s = p->size == 1 ? fg_f16_to_f32(p->scales[pos + i]) : 0;
        for (int64_t d = 0; d < p->D; d++)
            x[d] = p->size == 1 ? (float)row.code[d] * s : fg_f16_to_f32(row.f16[d]);
    }
}

void fg_kv_read(const struct fg_kv_head *h, int64_t pos, int64_t n, float *k, float *v)
{
    const struct part keys = part_of(h, true), values = part_of(h, false);
    if (k) read_rows(k, &keys, pos, n);
    if (v) read_rows(v, &values, pos, n);
}

static void export_rows(void *rows, uint16_t *scales, const struct part *p, int64_t pos, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        get((uint8_t *)rows + i * p->D * p->size, p, pos + i);
        if (p->size == 1) scales[i] = p->scales[pos + i];
    }
}

void fg_kv_export(const struct fg_kv_head *h, int64_t pos, int64_t n, void *k, uint16_t *ks,
                  void *v, uint16_t *vs)
{
    const struct part keys = part_of(h, true), values = part_of(h, false);
    export_rows(k, ks, &keys, pos, n);
    export_rows(v, vs, &values, pos, n);
}

static void import_rows(const struct part *p, int64_t pos, int64_t n, const void *rows,
                        const uint16_t *scales)
{
    for (int64_t i = 0; i < n; i++) {
        put(p, pos + i, (const uint8_t *)rows + i * p->D * p->size);
        if (p->size == 1) p->scales[pos + i] = scales[i];
    }
}

void fg_kv_import(const struct fg_kv_head *h, int64_t pos, int64_t n, const void *k,
                  const uint16_t *ks, const void *v, const uint16_t *vs)
{
    const struct part keys = part_of(h, true), values = part_of(h, false);
    import_rows(&keys, pos, n, k, ks);
    import_rows(&values, pos, n, v, vs);
}
