// model/plan_shape.c
#include "model/plan_shape.h"

struct fg_plan_shape fg_plan_shape_of(const struct fg_config *cfg)
{
    int64_t q = cfg->n_heads * cfg->head_dim;
    struct fg_plan_shape s = {
        .architecture = fg_family_name(cfg->family),
        .n_layers = cfg->n_layers,
        .hidden = cfg->hidden,
        .intermediate = cfg->intermediate,
        .vocab = cfg->vocab,
        .is_linear = cfg->is_linear,
        .q_rows = cfg->output_gate ? 2 * q : q,
        .kv_rows = cfg->n_kv_heads * cfg->head_dim,
        .o_cols = q,
        .tied = cfg->tied,
    };
    if (cfg->n_linear > 0) {
        s.qkv_rows = fg_config_conv_channels(cfg);
        s.z_rows = cfg->n_v_heads * cfg->v_head_dim;
        s.ab_rows = cfg->n_v_heads;
    }
    return s;
}
