#include "runtime/budget.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/size.h"
#include <inttypes.h>

#define RESERVE_BYTES (256ull << 20)

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t r;
    return fg_mul(&r, a, b) ? r : UINT64_MAX;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t r;
    return fg_add(&r, a, b) ? r : UINT64_MAX;
}

// Floats per row of a forward call: residual, norms and branch, MLP, projections of either mixer.
static uint64_t row_floats(const struct fg_config *c)
{
    uint64_t q = (uint64_t)(c->n_heads * c->head_dim), kv = (uint64_t)(c->n_kv_heads * c->head_dim);
    uint64_t full = 4 * q + 2 * kv;
    uint64_t linear = 2 * (uint64_t)fg_config_conv_channels(c) +
                      2 * (uint64_t)(c->n_v_heads * c->v_head_dim) + 4 * (uint64_t)c->n_v_heads;
    uint64_t mlp = 4 * (uint64_t)c->intermediate; // gate, up, rotated, codes and scales
    return 3 * (uint64_t)c->hidden + full + linear + mlp;
}

void fg_budget_make(struct fg_budget *b, const struct fg_config *cfg, uint64_t weight_bytes,
                    int64_t ctx, int64_t rows)
{
    struct fg_machine m;
    fg_machine_probe(&m);
    uint64_t per_row = times(row_floats(cfg), sizeof(float));
    *b = (struct fg_budget){
        .weights = weight_bytes,
        .states = plus(fg_config_state_bytes(cfg), fg_config_conv_bytes(cfg)),
        .kv = times(fg_config_kv_bytes_per_position(cfg), (uint64_t)ctx),
        .scratch = plus(times(per_row, (uint64_t)rows), (uint64_t)cfg->vocab * sizeof(float)),
        .reserve = RESERVE_BYTES,
        .available = fg_machine_free_bytes(&m),
    };
}

uint64_t fg_budget_need(const struct fg_budget *b)
{
    return plus(plus(plus(b->weights, b->states), plus(b->kv, b->scratch)), b->reserve);
}

int fg_budget_check(const struct fg_budget *b, const struct fg_config *cfg, const char *what,
                    bool allow_paging, const struct fg_log *log, struct fg_error *err)
{
    char need[32], free_text[32], weights[32];
    struct fg_budget empty = *b;
    empty.kv = 0;
    const uint64_t without = fg_budget_need(&empty), with = fg_budget_need(b);
    fg_format_bytes(need, sizeof need, without);
    fg_format_bytes(free_text, sizeof free_text, b->available);
    fg_format_bytes(weights, sizeof weights, b->weights);
    if (without > b->available && !allow_paging) {
        fg_fail(err, FG_ERESOURCE, "memory", what, NULL, need,
                "%s available; the weights alone are %s", free_text, weights);
        if (err)
            snprintf(err->hint, sizeof err->hint,
                     "--allow-paging runs it from disk, many times slower");
        return FG_ERESOURCE;
    }
    if (without > b->available) {
        fg_log_warn(log, "%s needs %s of memory, %s is available: it will be read from disk", what,
                    need, free_text);
    } else if (with > b->available) {
        uint64_t per_position = fg_config_kv_bytes_per_position(cfg);
        fg_log_warn(log, "%s: memory is enough for about %" PRIu64 " positions of context", what,
                    per_position ? (b->available - without) / per_position : 0);
    }
    return 0;
}
