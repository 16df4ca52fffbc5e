// kernels/kv.h: keys and values as they are stored, and attention over them (specs: runtime 4, 5).
// Members of struct fg_kernels of these types follow the written orders below in every instruction
// set, so a row's result is the same bits wherever and in whatever company it is computed.
//
// PAGES. FG_KV_PAGE tokens of one KV head of one layer; pages of a head follow each other, page j
// holds positions 256 j .. 256 j + 255. W = fg_kv_width(D): D rounded up to 32, dims from D on are
// 0.
//   keys, 32-bit or 16-bit floats   [16 blocks][W][16 tokens]        lanes are tokens
//   keys, INT8                      [16 blocks][W / 4][16 tokens][4 dims], byte = code + 128
//   values, floats                  [256 tokens][W]                  lanes are dims
//   values, INT8                    [W / 32][64 quads][32 dims][4 tokens], byte = code (signed)
//   scales (of INT8 parts)          [256] FP16
//
// STORED FORM of a row x[D] (specs: runtime 4.1). F32: as is. FP16: h = fp16(x), to nearest even,
// saturated to +-65504. INT8: a = max |h|; s = fp16(max(a / 127, 1e-6)); code = clamp(rint(h / s),
// -127, 127), an FP32 division by s as stored, rint half to even. What is read back: x, h, or code
// * s (one FP32 product).
//
// ATTENTION. Row at position P sees tokens 0 .. P; others take part in nothing. Tile j = page j,
// segment = FG_KV_SEGMENT tokens = 8 tiles. A tile gives a triple (m, l, o[W]); over its visible
// tokens t, k_t and v_t as read back:
//   exact, and every part of `fast` that is not INT8:
//     s_t = (FMA chain from zero over d = 0 .. D-1 of q[d] * k_t[d]) * scale;  m = max s_t;
//     e_t = exp(s_t - m) (ref/math.h);  l = tree of 16 lanes, lane (t mod 16) += e_t ascending;
//     o[d] = FMA chain from zero over t ascending of e_t * v_t[d]
//   fast, INT8 keys, the query's code c[d] = 255 * hi[d] + lo[d]:
//     A_t = sum_d kc_t[d] * c[d], an exact integer;  s_t = ((float)A_t * qs) * ks_t
//   fast, INT8 values (l as above):
//     w_t = e_t * vs_t;  pm = max w_t;  pm = 0: o = 0, else P_t = rint(w_t * (32767 / pm)), half to
//     even, at most 32767;  O[d] = sum_t P_t * vc_t[d], an exact integer;
//     o[d] = (float)O[d] * (pm / 32767)
// COMBINE (m, l, o) with a later (m2, l2, o2). The first empty (m = -infinity): the other as it is,
// whatever it is, so that what is not a number stays so. Else the other empty: the first,
// unchanged. Else M = max(m, m2), a = exp(m - M), b = exp(m2 - M);
//   l = fma(l, a, l2 * b);  o[d] = fma(o[d], a, o2[d] * b);  m = M.
// A segment is the left fold of its tiles, ascending; a row the left fold of its segments; the
// result is o[d] / l.
// QUERY in INT8: two digits of base 255, as fg_quantize2_fn (lut.h) makes them of the row as one
// block, with its s; qs = s * scale. One digit doubles what `fast` costs on heads of 64
// (bench/RESULTS.md); the second needs no other reading of keys.
#ifndef FG_KERNELS_KV_H
#define FG_KERNELS_KV_H
#include "base/kv_format.h"
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#define FG_KV_PAGE 256
#define FG_KV_SEGMENT 2048
#define FG_KV_TILES (FG_KV_SEGMENT / FG_KV_PAGE)
#define FG_KV_WIDTH_MAX 512               // head_dim of the models that are loaded is at most this
#define FG_KV_QUERY_MAX (255 * 127 + 127) // largest code of a query

// A_t, and what comes off it where a kernel multiplies the bytes of keys, which have 128 added.
static_assert((int64_t)128 * FG_KV_QUERY_MAX * FG_KV_WIDTH_MAX <= INT32_MAX,
              "sums of codes are 32-bit integers");

static inline int64_t fg_kv_width(int64_t D)
{
    return (D + 31) / 32 * 32;
}

static inline int64_t fg_kv_k_page_bytes(enum fg_kv_format f, int64_t D)
{
    return FG_KV_PAGE * fg_kv_width(D) * (f == FG_KV_F32 ? 4 : fg_kv_k8(f) ? 1 : 2);
}

static inline int64_t fg_kv_v_page_bytes(enum fg_kv_format f, int64_t D)
{
    return FG_KV_PAGE * fg_kv_width(D) * (f == FG_KV_F32 ? 4 : fg_kv_v8(f) ? 1 : 2);
}

// The pages of one KV head. 64-byte aligned.
struct fg_kv_head {
    enum fg_kv_format format;
    int64_t D;
    uint8_t *k, *v;
    uint16_t *ks, *vs; // [positions] FP16; NULL where the part is not INT8
};

// Stores one row, k [D] and v [D] FP32, at position `pos`; dims from D to W become zero (code 0).
// False when a value is NaN or infinite; what is stored is then unspecified. Rows of different
// positions may be stored by different threads at once.
typedef bool (*fg_kv_store_fn)(const struct fg_kv_head *h, int64_t pos, const float *k,
                               const float *v);

// Chooses the codes of an INT8 key that is stored at `pos` again, so that its products with queries
// come out better at the same scale: k [D] is what was stored, q [n][ldq] the queries of its own
// row (in the basis of k), which tell where queries of its head point. Of e = k - code * s the
// error
//   sum_j (u_j . e)^2 + e . e,  u_j = q_j / sqrt(FG_KV_RIDGE * sum q^2 / D),
// is brought down by rounding dims D - 1 .. 0 in turn, each to its value plus what the errors so
// far ask of it (error feedback as in GPTQ, arXiv 2210.17323; H = I + U^T U). More than
// FG_KV_DIRECTIONS queries are summed into as many, j into j mod FG_KV_DIRECTIONS. Queries of zeros
// or beyond all bounds change nothing. The same in every instruction set: plain C, FP32, in this
// order.
#define FG_KV_DIRECTIONS 8
#define FG_KV_RIDGE 0.3f
void fg_kv_shape_key(const struct fg_kv_head *h, int64_t pos, const float *k, const float *q,
                     int64_t n, int64_t ldq);

// Query rows that share a KV head.
struct fg_attn_rows {
    int64_t n;
    const float *q;      // [n][W] FP32, zero from D on
    const int8_t *qc;    // [n][hi, lo][W], zero from D on, 64-byte aligned   } fast with INT8 keys;
    const float *qs;     // [n]                                               } else unused, may be
    const int32_t *qsum; // [n] sums of the codes c                           } NULL
    const int64_t *pos;  // [n]: of each row; ascending, not strictly
    float scale;         // D^(-1/2)
};

// Running triples of rows: m, l [n], o [n][W], 64-byte aligned. m = -infinity: empty, l and o
// unspecified.
struct fg_attn_acc {
    float *m, *l, *o;
};

struct fg_kernels;
// One query row to INT8 by kn->quantize2: qc [2][W] with zeros from D on, *qs, *qsum.
void fg_attn_query(const struct fg_kernels *kn, int8_t *qc, float *qs, int32_t *qsum,
                   const float *q, int64_t D, float scale);
// Combines the triples of tile `tile` into acc, for rows [r0, r1); rows that see nothing of it stay
// as they are. Nothing of tokens that no row sees is used, whatever it is. scratch:
// fg_attn_tile_scratch_bytes(D), 64-byte aligned.
typedef void (*fg_attn_tile_fn)(const struct fg_attn_acc *acc, const struct fg_kv_head *kv,
                                int64_t tile, const struct fg_attn_rows *rows, int64_t r0,
                                int64_t r1, void *scratch);
// Combines `later` into acc, rows [r0, r1) of both; W floats per row.
typedef void (*fg_attn_combine_fn)(const struct fg_attn_acc *acc, const struct fg_attn_acc *later,
                                   int64_t r0, int64_t r1, int64_t W);
// out[d] = o[d] / l of row r, d in [0, D).
typedef void (*fg_attn_finish_fn)(float *out, const struct fg_attn_acc *acc, int64_t r, int64_t D);

// Query rows that the tile kernels take at once, at most: their scratch is made for it.
#define FG_ATTN_BLOCK_MAX 16
uint64_t fg_attn_tile_scratch_bytes(int64_t D);

// Reads the stored form of rows [pos, pos + n) back as FP32: k, v [n][D]; either may be NULL. Plain
// C; for tests, evaluation and files.
void fg_kv_read(const struct fg_kv_head *h, int64_t pos, int64_t n, float *k, float *v);
// The bytes of rows as files have them, token-major: keys and values as codes (int8), FP16 or FP32
// [n][D], scales [n]; and back. Arrays of parts that are not INT8 take no scales (NULL).
void fg_kv_export(const struct fg_kv_head *h, int64_t pos, int64_t n, void *k, uint16_t *ks,
                  void *v, uint16_t *vs);
void fg_kv_import(const struct fg_kv_head *h, int64_t pos, int64_t n, const void *k,
                  const uint16_t *ks, const void *v, const uint16_t *vs);
#endif
