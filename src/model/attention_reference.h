// model/attention_reference.h: the arithmetic of the original's attention, for comparison by
// `forge eval --attention seed|c2t` (specs: runtime 5.1, 5.6). Rows of the call see each other's
// keys and values in FP16 and not quantized, and the history as it is stored; so a row's value
// depends on the call that it came in, and these modes cannot serve.
#ifndef FG_MODEL_ATTENTION_REFERENCE_H
#define FG_MODEL_ATTENTION_REFERENCE_H
#include "kernels/kv.h"
#include "model/graph.h"
#include <stdint.h>

// Steps of mode c2t; tiles are cut from position 0.
struct fg_c2t_units {
    float s8, s8b;                     // of scores: u * clamp(rint(s / u), -128, 127)
    float pf8;                         // of probabilities: u * e4m3(p / u)
    int64_t tile_verify, tile_prefill; // history tokens per tile, calls of up to 8 rows and others
};
// What the original uses: 1/4, 1/4, 1/64, 2048, 4096.
struct fg_c2t_units fg_c2t_units_default(void);

// Bytes of scratch for calls of up to T rows with G query heads per KV head.
uint64_t fg_attention_reference_scratch_bytes(int64_t D, int64_t T, int64_t G,
                                              const struct fg_c2t_units *units);

// One KV head's group: T rows at positions pos .. pos + T - 1, row t sees the history [0, pos) and
// rows 0 .. t of the call. Scale 1 / sqrt(D).
//   o [T][G][D], row stride ldo; q [T][G][D] after rotary, ldq; k, v [T][D] of this KV head, ldk,
//   ldv; nothing rotated: kv holds keys and values as they are (fg_state.rotated false).
//   scratch: 64-byte aligned, of fg_attention_reference_scratch_bytes. o aliases nothing.
// Mode FG_ATTENTION_SEED: FP32 scores, softmax and sums; of units only the tiles matter.
// FG_ATTENTION_C2T: of the history, INT8 scores and FP8 E4M3 probabilities; values that are stored
// as floats have no scale to fold into these, so there p = e.
void fg_attention_reference(float *o, int64_t ldo, const float *q, int64_t ldq, const float *k,
                            int64_t ldk, const float *v, int64_t ldv, const struct fg_kv_head *kv,
                            int64_t pos, int64_t T, int64_t G, enum fg_attention mode,
                            const struct fg_c2t_units *units, void *scratch);
#endif
