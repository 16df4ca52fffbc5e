// kernels/avx512/gdn.c: the recurrence of Gated DeltaNet (gdn.h), 16 columns to a register.
//
// Columns do not meet, so a stripe of 64 goes through everything pending and all rows of the call
// before the next begins: 128 rows of it are 32 KiB. Between passes a stripe lives in scratch,
// where it is contiguous: in S, whose rows are 512 bytes, it would lie in half of the sets of L1.
// The update by one row and the reads for the next are one pass.
#include "kernels/avx512/math.h"
#include "kernels/inline.h"
#include "kernels/levels.h"
#include <assert.h>
#include <stdbool.h>

enum { VECS = 4, WIDE = 16 * VECS }; // registers and columns of a full stripe

// A pass over a stripe of dk rows: from one place in memory to another; `to` NULL stores nothing.
struct pass {
    const float *from;
    float *to;
    int64_t ld_from, ld_to, dk;
};

// m and p of gdn.h.
struct products {
    __m512 m[VECS], p[VECS];
};

// Columns 16 * c .. of a stripe; only one of a single register may be partial, with the lanes `in`.
FG_INLINE __m512 load(const float *x, int c, const int n_vec, __mmask16 in)
{
    return n_vec == VECS ? _mm512_loadu_ps(x + 16 * c) : _mm512_maskz_loadu_ps(in, x + 16 * c);
}

FG_INLINE void store(float *x, int c, const int n_vec, __mmask16 in, __m512 v)
{
    if (n_vec == VECS)
        _mm512_storeu_ps(x + 16 * c, v);
    else
        _mm512_mask_storeu_ps(x + 16 * c, in, v);
}

FG_INLINE void add_products(struct products *x, const __m512 *s, float k, float q, const int n_vec)
{
    const __m512 ki = _mm512_set1_ps(k), qi = _mm512_set1_ps(q);
    FG_UNROLL_FULL
    for (int c = 0; c < n_vec; c++) {
        x->m[c] = _mm512_fmadd_ps(s[c], ki, x->m[c]);
        x->p[c] = _mm512_fmadd_ps(s[c], qi, x->p[c]);
    }
}

FG_INLINE struct products no_products(void)
{
    struct products x;
    FG_UNROLL_FULL
    for (int c = 0; c < VECS; c++)
        x.m[c] = x.p[c] = _mm512_setzero_ps();
    return x;
}

// Applies what is pending; with `read` returns the products of k and q.
FG_INLINE struct products apply(const struct pass *a, const struct fg_gdn_pending *pending,
                                const bool read, const float *k, const float *q, const int n_vec,
                                __mmask16 in)
{
    struct products x = no_products();
    for (int64_t i = 0; i < a->dk; i++) {
        __m512 s[VECS];
        FG_UNROLL_FULL
        for (int c = 0; c < n_vec; c++)
            s[c] = load(a->from + i * a->ld_from, c, n_vec, in);
        for (int64_t t = 0; t < pending->n; t++) {
            const float *d = pending->d + t * pending->ldd;
            const __m512 kt = _mm512_set1_ps(pending->k[t * pending->ldk + i]);
            const __m512 g = _mm512_set1_ps(pending->g[t * pending->ldg]);
            FG_UNROLL_FULL
            for (int c = 0; c < n_vec; c++)
                s[c] = _mm512_fmadd_ps(kt, load(d, c, n_vec, in), _mm512_mul_ps(g, s[c]));
        }
        if (a->to) {
            FG_UNROLL_FULL
            for (int c = 0; c < n_vec; c++)
                store(a->to + i * a->ld_to, c, n_vec, in, s[c]);
        }
        if (read) add_products(&x, s, k[i], q[i], n_vec);
    }
    return x;
}

// The update by a row with key k0, decay g and change d; with `read` returns the products of the
// next row's k and q.
FG_INLINE struct products update(const struct pass *a, const float *k0, __m512 g, const __m512 *d,
                                 const bool read, const float *k, const float *q, const int n_vec,
                                 __mmask16 in)
{
    struct products x = no_products();
    for (int64_t i = 0; i < a->dk; i++) {
        const __m512 ki = _mm512_set1_ps(k0[i]);
        __m512 s[VECS];
        FG_UNROLL_FULL
        for (int c = 0; c < n_vec; c++) {
            s[c] = load(a->from + i * a->ld_from, c, n_vec, in);
            s[c] = _mm512_fmadd_ps(ki, d[c], _mm512_mul_ps(g, s[c]));
            store(a->to + i * a->ld_to, c, n_vec, in, s[c]);
        }
        if (read) add_products(&x, s, k[i], q[i], n_vec);
    }
    return x;
}

// What a call is given; see gdn.h.
struct call {
    const float *S;
    float *S_out;
    int64_t dk, dv;
    const struct fg_gdn_pending *pending;
    const struct fg_gdn_rows *rows;
    float *o, *d, *scratch;
    int64_t ldo, ldd;
};

// Columns j .. j + n - 1, n_vec registers of them.
FG_INLINE void stripe(const struct call *a, int64_t j, const int n_vec, int64_t n)
{
    const struct fg_gdn_rows *r = a->rows;
    const __mmask16 in = fg_lanes_avx512(n);
    const bool tried = a->d != NULL;
    float *const out = a->S_out ? a->S_out + j : NULL;
    struct fg_gdn_pending pending = *a->pending;
    if (pending.n > 0) pending.d += j;

    // The first pass stores the state before the rows where that is asked for or another follows.
    struct pass pass = {.from = a->S + j, .ld_from = a->dv, .ld_to = a->dv, .dk = a->dk};
    const bool moves = pending.n > 0 || a->S_out != a->S;
    if (moves && out && (tried || r->T == 0)) {
        pass.to = out;
    } else if (pending.n > 0 && (!tried || r->T > 1)) { // rows after the first read it
        pass.to = a->scratch;
        pass.ld_to = n;
    }
    if (r->T == 0) {
        if (pass.to) apply(&pass, &pending, false, NULL, NULL, n_vec, in);
        return;
    }
    struct products x = apply(&pass, &pending, true, r->k, r->q, n_vec, in);

    for (int64_t t = 0; t < r->T; t++) {
        const float *q = r->q + t * r->ldq, *k = r->k + t * r->ldk, *v = r->v + t * r->ldv + j;
        const __m512 g = _mm512_set1_ps(r->g[t * r->ldg]);
        const __m512 beta = _mm512_set1_ps(r->beta[t * r->ldg]);
        const __m512 kq = _mm512_set1_ps(fg_dot_avx512(k, q, a->dk));
        __m512 d[VECS];
        FG_UNROLL_FULL
        for (int c = 0; c < n_vec; c++) {
            __m512 vc = load(v, c, n_vec, in);
            d[c] = _mm512_mul_ps(beta, _mm512_fnmadd_ps(g, x.m[c], vc));
            __m512 oc = _mm512_fmadd_ps(kq, d[c], _mm512_mul_ps(g, x.p[c]));
            store(a->o + t * a->ldo + j, c, n_vec, in, oc);
            if (tried) store(a->d + t * a->ldd + j, c, n_vec, in, d[c]);
        }
        if (pass.to) {
            pass.from = pass.to;
            pass.ld_from = pass.ld_to;
        }
        if (t + 1 < r->T) {
            pass.to = a->scratch;
            pass.ld_to = n;
            x = update(&pass, k, g, d, true, k + r->ldk, q + r->ldq, n_vec, in);
        } else if (!tried) {
            pass.to = out;
            pass.ld_to = a->dv;
            update(&pass, k, g, d, false, NULL, NULL, n_vec, in);
        }
    }
}

static void fg_gdn_avx512(const float *S, float *S_out, int64_t dk, int64_t dv,
                          const struct fg_gdn_pending *pending, const struct fg_gdn_rows *rows,
                          float *o, int64_t ldo, float *d, int64_t ldd, float *scratch)
{
    assert(S && (S_out || d));
    const struct call a = {.S = S,
                           .S_out = S_out,
                           .dk = dk,
                           .dv = dv,
                           .pending = pending,
                           .rows = rows,
                           .o = o,
                           .d = d,
                           .scratch = scratch,
                           .ldo = ldo,
                           .ldd = ldd};
    int64_t j = 0;
    for (; j + WIDE <= dv; j += WIDE)
        stripe(&a, j, VECS, WIDE);
    for (; j < dv; j += 16)
        stripe(&a, j, 1, dv - j < 16 ? dv - j : 16);
}

void fg_fill_gdn_avx512(struct fg_kernels *k)
{
    k->gdn = fg_gdn_avx512;
}
