// model/config.h: what config.json says about a text model, checked (specs: model 1, 9). One
// structure for the hybrid family and its dense relatives; flags, not families, steer the graph.
#ifndef FG_MODEL_CONFIG_H
#define FG_MODEL_CONFIG_H
#include "base/arena.h"
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_json;

enum fg_family { FG_FAMILY_QWEN35, FG_FAMILY_QWEN3, FG_FAMILY_QWEN2, FG_FAMILY_LLAMA };

#define FG_CONFIG_LAYERS_MAX 1024
#define FG_CONFIG_CONV_MAX 8 // longest convolution kernel

struct fg_config {
    enum fg_family family;
    int64_t vocab, hidden, intermediate, n_layers, max_positions;
    bool *is_linear; // [n_layers]: Gated DeltaNet, else full attention
    int64_t n_linear, n_full;

    // Full attention.
    int64_t n_heads, n_kv_heads, head_dim;
    bool qk_norm, output_gate;
    bool qkv_bias, o_bias, mlp_bias;

    // Gated DeltaNet. All 0 in dense models.
    int64_t conv_kernel;            // K
    int64_t n_k_heads, n_v_heads;   // nk, nv
    int64_t k_head_dim, v_head_dim; // dk, dv

    float norm_eps;
    bool norm_zero_centred; // norm weights are stored as w of (1 + w)
    bool tied;              // logits use the embedding

    // Rotary (section 6): frequency i turns pair (i, i + rot/2) by position * inv_freq[i]; cosine
    // and sine are multiplied by rope_scale.
    int64_t rot;
    double rope_theta;
    float *inv_freq; // [rot / 2]
    float rope_scale;
    const char *rope_type; // "default", "linear", "yarn", "llama3"
};

// Parses a whole config.json. Arrays come from `arena`, which must outlive the config.
// Errors: FG_EINPUT (field, expected, found), FG_EUNSUPPORTED for model types that Forge does not
// run, FG_ERESOURCE.
int fg_config_parse(struct fg_config *cfg, const struct fg_json *doc, struct fg_arena *arena,
                    struct fg_error *err);

const char *fg_family_name(enum fg_family family); // "qwen3_5", "llama", ...

// Sizes of section 8 and 1.4. Channels of the convolution: 2*nk*dk + nv*dv.
int64_t fg_config_conv_channels(const struct fg_config *cfg);
// Parameters of the text model, a tied head counted once.
uint64_t fg_config_parameters(const struct fg_config *cfg);
// Bytes of one session: recurrent states, convolution rows, keys and values per position; all FP32.
uint64_t fg_config_state_bytes(const struct fg_config *cfg);
uint64_t fg_config_conv_bytes(const struct fg_config *cfg);
uint64_t fg_config_kv_bytes_per_position(const struct fg_config *cfg);
#endif
