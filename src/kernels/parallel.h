// kernels/parallel.h: jobs over row ranges on a thread pool; the only place where kernels meet
// threads. An item is a range of outputs, and every output is computed whole by one kernel call, so
// results depend neither on the cut nor on the number of threads. Which thread runs an item decides
// its scratch and nothing else.
#ifndef FG_KERNELS_PARALLEL_H
#define FG_KERNELS_PARALLEL_H
#include "base/arena.h"
#include "base/thread.h"
#include "kernels/kernels.h"

// Memory for what linear jobs make of their input. Any part may be NULL where no job needs it.
struct fg_room {
    uint16_t *xh;  // [T][n]: rounded to BF16, for dense BF16 weights in fast mode
    float *xr;     // [T][n]: rotated
    int8_t *codes; // INT8 activations in fast mode: [rows][n in whole lines]
    float *sx;     // [rows][blocks]
    int32_t *sum;  // [rows][blocks]
    float *lr;     // [T][sum of the ranks of a job's matrices]
};

// Rows of a call that are few: their segments are computed apart.
#define FG_ATTN_FEW_MAX 16
// Floats for the segments of few rows over a history of `capacity` positions.
uint64_t fg_attn_partial_floats(int64_t capacity, int64_t n_heads, int64_t n_kv, int64_t D);

// Kernels, threads and memory for the jobs below.
struct fg_parallel {
    const struct fg_kernels *kernels;
    struct fg_pool *pool;
    uint8_t *scratch; // fg_pool_threads(pool) * scratch_bytes_per_worker, 64-byte aligned
    uint64_t scratch_bytes_per_worker; // at least fg_parallel_scratch_bytes
    struct fg_room room;
    float *partials; // fg_attn_partial_floats, 64-byte aligned; the caller's
    bool fast; // numerics mode: quantized weights take INT8 activations, dense BF16 weights BF16
               // ones (dot2)
};

// The largest jobs that will come.
struct fg_parallel_sizes {
    int64_t T;        // rows
    int64_t n;        // width of an input
    bool quantized;   // there are quantized weights
    int64_t rank_sum; // of the factors of one job
    int64_t n_digits; // widest input in two digits
    int64_t D;        // attention: head width; 0: none
    int64_t dk, dv;   // DeltaNet: widths of key and value heads; 0: none
};
// Scratch of one worker, in whole cache lines.
uint64_t fg_parallel_scratch_bytes(const struct fg_parallel_sizes *s);
// Sets scratch and room from `arena` for par's pool and mode. False when memory is out.
bool fg_parallel_alloc(struct fg_parallel *par, const struct fg_parallel_sizes *s,
                       struct fg_arena *arena);

// ---- linear

// One weight matrix of a job: y[t*ldy + r] = product of row r and input row t, + low-rank part
// (quantized: y += dot(lr_a[r], u), u[j] = dot(lr_b[j], x'), of INT8 factors times lr_scale[j]; x'
// the rotated input), + bias[r]; each + one FP32 addition.
struct fg_linear {
    const void *w; // dense: [n_out][n_in]
    enum fg_dtype dtype;
    int64_t n_out, n_in;
    const float *bias; // [n_out] or NULL
    float *y;
    int64_t ldy;
    const struct fg_lut *lut; // quantized; w is then NULL
    bool exact;               // dense: FP32 activations in fast mode too
};

// What the matrices of a job multiply.
struct fg_input {
    const float *x; // [T][n], stride ldx
    int64_t ldx, n;
    const uint8_t *signs; // rotation of the quantized matrices' input (lut.h); NULL: none. Dense
    int64_t block;        // matrices read x as it is
    int digits;           // of INT8 activations: 1 or 2 (0 is 1)
};

// All matrices in one job.
void fg_parallel_linear(const struct fg_parallel *par, const struct fg_linear *mats, int n_mats,
                        const struct fg_input *in, int64_t T);

// The best of a head's logits without keeping them. Per row t: ids and logits of the k largest,
// descending, lower id first among equals; NaN logits count as -infinity and set *nan. lse[t] = log
// sum exp over all, folded over segments of FG_HEAD_SEGMENT ids, ascending: (m, s) of a segment is
// its maximum and sum_exp; fold: M = max, s = s1 * exp(m1 - M) + s2 * exp(m2 - M).
#define FG_HEAD_SEGMENT 1024
#define FG_HEAD_TOP_MAX 256
struct fg_best {
    int64_t k;     // 1 .. FG_HEAD_TOP_MAX, at most n_out
    int32_t *ids;  // [T][k]
    float *logits; // [T][k]
    float *lse;    // [T]
    void *work;    // fg_best_work_bytes(n_out, T, k), 64-byte aligned
    bool nan;
};
uint64_t fg_best_work_bytes(int64_t n_out, int64_t T, int64_t k);
// mat->y is not used.
void fg_parallel_best(const struct fg_parallel *par, const struct fg_linear *mat,
                      const struct fg_input *in, int64_t T, struct fg_best *best);

// ---- mixers and loops

// Attention of T consecutive rows of one conversation over stored keys and values (kv.h). Row t
// stands at pos + t; row t * G + g of a KV head is query head g of its group of G.
struct fg_attn_call {
    float *o;                    // [T][n_heads][D]
    const struct fg_kv_head *kv; // [n_kv]
    const float *q;              // [n_kv][T * G][W], W = fg_kv_width(D)
    const int8_t *qc;            // [n_kv][T * G][hi, lo][W]: the same as codes, with
    const float *qs;             // [n_kv][T * G] and
    const int32_t *qsum; // [n_kv][T * G]; unused where keys are not INT8 or mode is not fast
    int64_t pos, T, n_heads, n_kv, D;
    float scale;
};
// Few rows meet a long history in segments on all threads, many rows in groups of rows; the results
// are the same. Requires par->partials for pos + T positions.
void fg_parallel_attention(const struct fg_parallel *par, const struct fg_attn_call *call);

// DeltaNet over all value heads; value head j uses q/k head j / (nv / nk). The members of `rows`
// and `pending` are those of head 0, their strides those of kernels/gdn.h: q, k [T][nk][dk]; v, o,
// d [T][nv][dv]; g, beta [T][nv]. S, S_out [nv][dk][dv]. o and d have rows of nv * dv.
struct fg_gdn_call {
    const float *S;
    float *S_out;
    int64_t nk, nv, dk, dv;
    struct fg_gdn_pending pending;
    struct fg_gdn_rows rows;
    float *o, *d;
};
void fg_parallel_gdn(const struct fg_parallel *par, const struct fg_gdn_call *call);
// Any per-row or per-range loop: fn over [0, n) in chunks of `grain`.
void fg_parallel_for(const struct fg_parallel *par, int64_t n, int64_t grain,
                     void (*fn)(void *ctx, const struct fg_kernels *k, int64_t i0, int64_t i1),
                     void *ctx);
#endif
