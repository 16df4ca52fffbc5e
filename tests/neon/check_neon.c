// The kernels on a machine where the suite does not run: without libraries, under an emulator
// (run.sh). Prints a digest of what ref computes in FP32 on seeded inputs, which must be the same
// on every architecture; then compares the levels above ref with it, bit for bit, and prints
// "ok: N cases".
#include "kernels/act_cases.h"
#include "kernels/kv_cases.h"
#include "kernels/kernels.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t digest = 0xCBF29CE484222325u; // FNV-1a
static long n_cases;

static void add_bytes(const void *data, size_t n)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i++)
        digest = (digest ^ p[i]) * 0x100000001B3u;
}

// Allocated once per case and never large; the program ends when memory does.
static void *zeros(int64_t bytes)
{
    void *p = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    if (!p) {
        perror("check_neon");
        exit(1);
    }
    return memset(p, 0, (size_t)bytes);
}

static float *numbers(int64_t n, uint64_t *seed, enum numbers kind)
{
    float *p = zeros(n * (int64_t)sizeof *p);
    fill_floats(p, n, seed, kind);
    return p;
}

// ---- ref: the same bits everywhere --------------------------------------------------------------

static void digest_dense(const struct fg_kernels *k)
{
    static const int64_t widths[] = {1, 16, 77, 256};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        for (int64_t T = 1; T <= 5; T += 2) {
            enum { ROWS = 9 };
            const int64_t n = widths[i];
            uint64_t seed = (uint64_t)(n * 10 + T);
            float *x = numbers(n * T, &seed, i % 2 ? NUMBERS_WIDE : NUMBERS_UNIT);
            float *y = zeros(T * ROWS * 4);
            uint8_t *w = zeros(ROWS * n * 4);
            uint16_t *x16 = zeros(n * T * 2);
            void *scratch = zeros((int64_t)fg_gemm_scratch_bytes(n, T));
            for (enum fg_dtype t = FG_F32; t < FG_N_DTYPES; t++) {
                fill_elements(w, t, ROWS * n, &seed, NUMBERS_UNIT);
                k->gemm[t](y, ROWS, w, n, 0, ROWS, x, n, T, scratch);
                add_bytes(y, (size_t)(T * ROWS) * sizeof *y);
                if (t == FG_INT8) continue; // factors alone, never widened
                k->widen(x, w, t, n);
                add_bytes(x, (size_t)n * sizeof *x);
            }
            fill_elements(w, FG_BF16, ROWS * n, &seed, NUMBERS_UNIT);
            k->to_bf16(x16, x, n * T);
            k->gemm_bf16_bf16(y, ROWS, w, n, 0, ROWS, x16, n, T, scratch);
            add_bytes(y, (size_t)(T * ROWS) * sizeof *y);
            free(x);
            free(y);
            free(w);
            free(x16);
            free(scratch);
        }
    }
}

static void digest_vector(const struct fg_kernels *k)
{
    for (int64_t n = 2; n <= 130; n += 8) {
        uint64_t seed = (uint64_t)n;
        float *a = numbers(n, &seed, NUMBERS_UNIT), *b = numbers(n, &seed, NUMBERS_WIDE);
        float *c = numbers(n, &seed, NUMBERS_UNIT), *y = zeros(n * 4);
        k->rms_norm(y, b, a, n, 1e-6f);
        add_bytes(y, (size_t)n * sizeof *y);
        k->rms_norm_gated(y, a, c, b, n, 1e-6f);
        add_bytes(y, (size_t)n * sizeof *y);
        k->l2_norm(y, a, n, 1e-6f, 0.5f);
        k->add(y, b, n);
        k->silu_mul(y, y, a, n);
        add_bytes(y, (size_t)n * sizeof *y);
        k->sigmoid_mul(y, a, b, n);
        k->rope(y, a, c, n / 2 * 2);
        add_bytes(y, (size_t)n * sizeof *y);
        k->deltanet_gates(y, b, a, c, b, a, n);
        add_bytes(y, (size_t)n * sizeof *y);
        add_bytes(b, (size_t)n * sizeof *b);
        int64_t at = k->argmax(a, n);
        add_bytes(&at, sizeof at);
        free(a);
        free(b);
        free(c);
        free(y);
    }
}

static void digest_sequence(const struct fg_kernels *k)
{
    enum { T = 3, G = 2, D = 32, POS = 130, CHANNELS = 20, TAPS = 4 };
    uint64_t seed = 1;
    float *q = numbers(T * G * D, &seed, NUMBERS_UNIT), *o = zeros(T * G * D * 4);
    float *key = numbers((POS + T) * D, &seed, NUMBERS_UNIT);
    float *value = numbers((POS + T) * D, &seed, NUMBERS_UNIT);
    float *state = numbers(D * D, &seed, NUMBERS_UNIT);
    void *scratch = zeros((int64_t)fg_gdn_scratch_bytes(D, D));
    const struct fg_gdn_rows rows = {q, key, value, key, value, D, D, D, 1, T};
    k->gdn(state, state, D, D, &(struct fg_gdn_pending){.n = 0}, &rows, o, D, NULL, 0, scratch);
    add_bytes(o, (size_t)T * D * sizeof *o);
    add_bytes(state, (size_t)D * D * sizeof *state);
    k->conv_silu(o, CHANNELS, q, CHANNELS, key, value, CHANNELS, 0, CHANNELS, TAPS, T);
    add_bytes(o, (size_t)T * CHANNELS * sizeof *o);
    free(q);
    free(o);
    free(key);
    free(value);
    free(state);
    free(scratch);
}

// ---- quantized weights --------------------------------------------------------------------------

struct matrix {
    struct fg_lut w;
    struct fg_act x;
    struct fenced tiles, codes;
    float *table, *scale;
    uint8_t *table_u8;
    int64_t T;
};

// Everything random, also the indices of lanes past n_out and of columns past n_in.
static struct matrix matrix_new(enum fg_layout l, int64_t n_out, int64_t n_in, int64_t T,
                                uint64_t *seed)
{
    struct matrix m = {.T = T};
    const int64_t rows = fg_layout_groups(l, n_out) * fg_layout_rows(l);
    const int64_t bytes = fg_layout_groups(l, n_out) * fg_layout_group_bytes(l, n_in);
    m.tiles = fenced_new((size_t)bytes);
    for (int64_t i = 0; i < bytes; i++)
        m.tiles.data[i] = (uint8_t)(l == FG_I8 ? 1 + next_u32(seed) % 255 : next_u32(seed));
    m.table = numbers(128, seed, NUMBERS_UNIT);
    m.table_u8 = zeros(128);
    m.scale = numbers(rows, seed, NUMBERS_UNIT);
    for (int i = 0; i < 128; i++) {
        int at = fg_layout_is_six_bits(l) ? i : i / 64 * 64 + i % 16;
        m.table[i] = m.table[at];
        m.table_u8[i] = at == i ? (uint8_t)(1 + next_u32(seed) % 255) : m.table_u8[at];
    }
    m.w = (struct fg_lut){.layout = l,
                          .n_out = n_out,
                          .n_in = n_in,
                          .tiles = m.tiles.data,
                          .table = m.table,
                          .table_u8 = m.table_u8,
                          .scale = m.scale,
                          .scale_ts = m.scale};
    m.x = (struct fg_act){.n = n_in,
                          .ld = (n_in + 63) / 64 * 64,
                          .n_blocks = (n_in + FG_ACT_BLOCK - 1) / FG_ACT_BLOCK};
    m.codes = fenced_new((size_t)(T * m.x.ld));
    m.x.xc = (int8_t *)m.codes.data;
    m.x.sx = numbers(T * m.x.n_blocks, seed, NUMBERS_UNIT);
    m.x.sum = zeros(T * m.x.n_blocks * 4);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 0; i < n_in; i++) {
            int v = (int)(next_u32(seed) % 255) - 127;
            m.x.xc[t * m.x.ld + i] = (int8_t)v;
            m.x.sum[t * m.x.n_blocks + i / FG_ACT_BLOCK] += v;
        }
    }
    return m;
}

static void matrix_free(struct matrix *m)
{
    fenced_free(&m->tiles);
    fenced_free(&m->codes);
    free(m->table);
    free(m->table_u8);
    free(m->scale);
    free(m->x.sx);
    free(m->x.sum);
}

static void expect_same(const char *op, const char *isa, const struct matrix *m, const float *got,
                        const float *want, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (same_float(got[i], want[i])) continue;
        printf("%s, %s, layout %d, n_out %lld, n_in %lld, T %lld: [%lld] is %a, ref has %a\n", op,
               isa, (int)m->w.layout, (long long)m->w.n_out, (long long)m->w.n_in, (long long)m->T,
               (long long)i, (double)got[i], (double)want[i]);
        exit(1);
    }
    n_cases++;
}

static void check_matrix(const struct fg_kernels *k, const struct fg_kernels *ref,
                         const struct matrix *m)
{
    const enum fg_layout l = m->w.layout;
    const int64_t groups = fg_layout_groups(l, m->w.n_out), rows = fg_layout_rows(l);
    const int64_t ldy = m->w.n_out + 3, n = m->T * ldy, ldo = m->w.n_in + 1;
    void *scratch = zeros((int64_t)fg_lut_scratch_bytes(m->w.n_in));
    float *y = zeros(n * 4), *want = zeros(n * 4);
    ref->lut_gemm[l](want, ldy, &m->w, 0, groups, &m->x, 0, m->T, scratch);
    k->lut_gemm[l](y, ldy, &m->w, 0, groups, &m->x, 0, m->T, scratch);
    expect_same("gemm", k->isa, m, y, want, n);
    if (groups > 1 && m->T > 1) { // a part of it
        memset(y, 0, (size_t)n * sizeof *y);
        memset(want, 0, (size_t)n * sizeof *want);
        ref->lut_gemm[l](want, ldy, &m->w, 1, groups, &m->x, 1, m->T, scratch);
        k->lut_gemm[l](y, ldy, &m->w, 1, groups, &m->x, 1, m->T, scratch);
        expect_same("part of gemm", k->isa, m, y, want, n);
    }
    free(y);
    free(want);
    y = zeros(rows * ldo * 4);
    want = zeros(rows * ldo * 4);
    ref->lut_decode[l](want, ldo, &m->w, groups - 1);
    k->lut_decode[l](y, ldo, &m->w, groups - 1);
    expect_same("decode", k->isa, m, y, want, rows * ldo);
    free(y);
    free(want);
    free(scratch);
}

static void check_lut(const struct fg_kernels *k, const struct fg_kernels *ref)
{
    static const int64_t widths[] = {1, 3, 15, 16, 17, 40, 64, 72, 200, 1000, 1024, 1036, 2100};
    static const int64_t outputs[] = {1, 5, 16, 31, 33, 70};
    static const int64_t counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 64, 67};
    uint64_t seed = 7;
    for (enum fg_layout l = FG_P6; l < FG_N_LAYOUTS; l++) {
        for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            for (size_t j = 0; j < sizeof counts / sizeof counts[0]; j++) {
                int64_t T = counts[j], n_out = outputs[(i + j) % 6];
                if (T * widths[i] > 20000 && i % 3) continue; // ref is slow under an emulator
                struct matrix m = matrix_new(l, n_out, widths[i], T, &seed);
                check_matrix(k, ref, &m);
                matrix_free(&m);
            }
        }
    }
}

static void expect(bool same, const struct act_case *c)
{
    if (!same) {
        printf("%s\n", c->what);
        exit(1);
    }
    n_cases++;
}

static void check_act(const struct fg_kernels *k, const struct fg_kernels *ref)
{
    struct act_case c = {.kernels = k, .ref = ref};
    for (c.kind = 0; c.kind < N_ACT_KINDS; c.kind++) {
        for (int64_t B = 8; B <= 1024; B *= 2) {
            c.n = 3 * B;
            c.seed = (uint64_t)(c.n + c.kind);
            expect(act_case_rotate(&c, B, c.kind % 2), &c);
        }
        for (int64_t i = 0; i < 36; i++) {
            static const int64_t large[] = {576, 1000, 1023, 1024};
            c.n = i < 32 ? 2 * i + 1 : large[i - 32];
            c.seed = (uint64_t)(c.n * 7 + c.kind);
            expect(act_case_quantize(&c, 1), &c);
            expect(act_case_quantize(&c, 2), &c);
            expect(act_case_sum_exp(&c, 1), &c);
            expect(act_case_sum_exp(&c, 200), &c);
        }
    }
}

// ---- keys, values and attention over them -------------------------------------------------------

struct attn_case {
    const struct fg_kernels *k, *ref;
    enum fg_kv_format format;
    int64_t D, n, base; // rows, two at each position from `base` on
    enum numbers kind;
    uint64_t seed;
};

static void expect_attn(bool same, const char *op, const struct attn_case *c)
{
    if (!same) {
        printf("%s, %s, %s, D %lld, %lld rows from %lld on, kind %d: not what ref has\n", op,
               c->k->isa, format_names[c->format], (long long)c->D, (long long)c->n,
               (long long)c->base, (int)c->kind);
        exit(1);
    }
    n_cases++;
}

static bool same_floats(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!same_float(a[i], b[i])) return false;
    return true;
}

// Empty; l and o are NaN, which must not show.
static struct fg_attn_acc triples_new(int64_t n, int64_t W)
{
    struct fg_attn_acc a = {.m = zeros(n * 4), .l = zeros(n * 4), .o = zeros(n * W * 4)};
    memset(a.l, 0xFF, (size_t)n * 4);
    memset(a.o, 0xFF, (size_t)(n * W) * 4);
    for (int64_t r = 0; r < n; r++)
        a.m[r] = -INFINITY;
    return a;
}

static void triples_free(struct fg_attn_acc *a)
{
    free(a->m);
    free(a->l);
    free(a->o);
}

static bool same_triples(const struct fg_attn_acc *a, const struct fg_attn_acc *b, int64_t n,
                         int64_t W)
{
    for (int64_t r = 0; r < n; r++) // the sign of a zero m has no effect
        if (!(a->m[r] == b->m[r])) return false;
    return same_floats(a->l, b->l, n) && same_floats(a->o, b->o, n * W);
}

// Tokens 0 .. last into pages full of NaN, the same by both.
static void check_store(struct attn_case *c, struct pages *p, struct pages *want, int64_t last)
{
    float *x = zeros(2 * c->D * 4), *v = x + c->D;
    pages_fill(p, 0xFF, 0x7E00);
    pages_fill(want, 0xFF, 0x7E00);
    for (int64_t t = 0; t <= last; t++) {
        fill_floats(x, 2 * c->D, &c->seed, c->kind);
        bool done = c->k->kv_store(&p->h, t, x, v);
        expect_attn(c->ref->kv_store(&want->h, t, x, v) && done, "kv_store", c);
    }
    expect_attn(!pages_differ(p, want), "kv_store", c);
    free(x);
}

static void check_query(struct attn_case *c, int8_t *qc, float *qs, int32_t *qsum, const float *q,
                        float scale)
{
    const int64_t W = fg_kv_width(c->D);
    int8_t codes[2 * FG_KV_WIDTH_MAX];
    float s;
    int32_t sum;
    fg_attn_query(c->ref, qc, qs, qsum, q, c->D, scale);
    fg_attn_query(c->k, codes, &s, &sum, q, c->D, scale);
    expect_attn(memcmp(codes, qc, (size_t)(2 * W)) == 0 && same_float(s, *qs) && sum == *qsum,
                "query", c);
}

static void check_attention(struct attn_case c)
{
    const int64_t W = fg_kv_width(c.D), last = c.base + (c.n - 1) / 2;
    struct pages kv = pages_new(c.format, c.D, last / FG_KV_PAGE + 1);
    struct pages stored = pages_new(c.format, c.D, last / FG_KV_PAGE + 1);
    check_store(&c, &stored, &kv, last);
    pages_free(&stored);

    float *q = zeros(c.n * W * 4), *qs = zeros(c.n * 4), *out = zeros(2 * c.D * 4);
    int8_t *qc = zeros(c.n * 2 * W);
    int32_t *qsum = zeros(c.n * 4);
    int64_t *pos = zeros(c.n * 8);
    const float scale = 1.0f / sqrtf((float)c.D);
    for (int64_t r = 0; r < c.n; r++) {
        pos[r] = c.base + r / 2;
        fill_floats(q + r * W, c.D, &c.seed, c.kind);
        check_query(&c, qc + r * 2 * W, qs + r, qsum + r, q + r * W, scale);
    }
    const struct fg_attn_rows rows = {
        .n = c.n, .q = q, .qc = qc, .qs = qs, .qsum = qsum, .pos = pos, .scale = scale};
    void *scratch = zeros((int64_t)fg_attn_tile_scratch_bytes(c.D));
    for (int fast = 0; fast < 2; fast++) {
        struct fg_attn_acc a = triples_new(c.n, W), b = triples_new(c.n, W);
        for (int64_t tile = 0; tile <= last / FG_KV_PAGE; tile++) {
            c.k->attn_tile[fast](&a, &kv.h, tile, &rows, 0, c.n, scratch);
            c.ref->attn_tile[fast](&b, &kv.h, tile, &rows, 0, c.n, scratch);
        }
        expect_attn(same_triples(&a, &b, c.n, W), fast ? "fast" : "exact", &c);
        struct fg_attn_acc sum = triples_new(c.n, W), want = triples_new(c.n, W);
        for (int i = 0; i < 2; i++) {
            c.k->attn_combine(&sum, &a, 0, c.n, W);
            c.ref->attn_combine(&want, &a, 0, c.n, W);
        }
        expect_attn(same_triples(&sum, &want, c.n, W), "combine", &c);
        c.k->attn_finish(out, &sum, c.n - 1, c.D);
        c.ref->attn_finish(out + c.D, &sum, c.n - 1, c.D);
        expect_attn(same_floats(out, out + c.D, c.D), "finish", &c);
        triples_free(&a);
        triples_free(&b);
        triples_free(&sum);
        triples_free(&want);
    }
    free(q);
    free(qs);
    free(out);
    free(qc);
    free(qsum);
    free(pos);
    free(scratch);
    pages_free(&kv);
}

// Rows from the smallest scale to past the largest FP16; rows that hold something that is not
// finite, which are refused; codes of queries of every kind.
static void check_special(struct attn_case c)
{
    struct pages kv = pages_new(c.format, c.D, 1), want = pages_new(c.format, c.D, 1);
    float *x = zeros(2 * c.D * 4);
    pages_fill(&kv, 0xFF, 0x7E00);
    pages_fill(&want, 0xFF, 0x7E00);
    for (int t = 0; t < 120; t++) {
        fill_floats(x, 2 * c.D, &c.seed, NUMBERS_UNIT);
        for (int64_t i = 0; i < 2 * c.D; i++)
            x[i] = ldexpf(x[i], t / 3 - 20);
        bool done = c.k->kv_store(&kv.h, t, x, x + c.D);
        expect_attn(c.ref->kv_store(&want.h, t, x, x + c.D) && done, "kv_store", &c);
    }
    expect_attn(!pages_differ(&kv, &want), "kv_store", &c);
    for (int64_t i = 0; i < 2 * c.D; i++) {
        fill_floats(x, 2 * c.D, &c.seed, NUMBERS_UNIT);
        x[i] = i % 3 ? i % 3 == 1 ? INFINITY : -INFINITY : NAN;
        expect_attn(!c.k->kv_store(&kv.h, 0, x, x + c.D), "kv_store", &c);
    }
    for (int i = 0; i < 50; i++) {
        int8_t qc[2 * FG_KV_WIDTH_MAX];
        float qs;
        int32_t qsum;
        fill_floats(x, c.D, &c.seed, (enum numbers)(i % N_NUMBERS));
        if (i < 6) { // around the smallest that has codes
            for (int64_t d = 0; d < c.D; d++)
                x[d] = ldexpf(x[d], -100 - i);
        }
        check_query(&c, qc, &qs, &qsum, x, 0.25f);
    }
    free(x);
    pages_free(&kv);
    pages_free(&want);
}

static void check_kv(const struct fg_kernels *k, const struct fg_kernels *ref)
{
    static const int64_t dims[] = {8, 33, 64, 80, 256}, counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 13};
    static const int64_t bases[] = {0, 14, 40, 250, 255};
    static const enum numbers kinds[] = {NUMBERS_UNIT, NUMBERS_WIDE, NUMBERS_SMALL};
    for (int f = 0; f < FG_KV_N_ALL; f++) {
        for (int64_t i = 0; i < COUNT(dims); i++) {
            struct attn_case c = {k, ref, (enum fg_kv_format)f, dims[i], 1, 0, NUMBERS_SPECIAL, 5};
            check_special(c);
            for (int64_t j = 0; j < COUNT(counts); j++) {
                c.n = counts[j];
                c.base = bases[(i + j) % COUNT(bases)];
                c.kind = kinds[(f + i + j) % COUNT(kinds)];
                c.seed = (uint64_t)(f * 1000 + i * 100 + j + 1);
                check_attention(c);
            }
        }
    }
}

int main(void)
{
    int n_levels;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n_levels);
    digest_dense(levels[0]);
    digest_vector(levels[0]);
    digest_sequence(levels[0]);
    printf("ref %016llx\n", (unsigned long long)digest);
    for (int level = 1; level < n_levels; level++) {
        check_lut(levels[level], levels[0]);
        check_act(levels[level], levels[0]);
        check_kv(levels[level], levels[0]);
        printf("%s ", levels[level]->isa);
    }
    printf("ok: %ld cases\n", n_cases);
    return 0;
}
