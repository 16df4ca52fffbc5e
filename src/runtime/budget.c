#include "runtime/budget.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/size.h"
#include "kernels/parallel.h"
#include "runtime/kv.h"
#include <inttypes.h>

#define TIGHT_SHARE 0.85  // of what is available
#define DIGITS_BELOW 1024 // inputs narrower than this take two digits of INT8 (model/graph.c)

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

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// ---- buffers of a forward pass, in the order of fg_workspace_new

// Bytes per row of a call that do not depend on numerics.
static uint64_t row_bytes(const struct fg_config *c)
{
    const int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim;
    const int64_t value = c->n_v_heads * c->v_head_dim;
    // Residual, its norm, a branch; gate and up.
    int64_t floats = 3 * c->hidden + 2 * c->intermediate;
    // Rotary factors; projections, queries, keys, values, output; queries as attention takes them.
    if (c->n_full)
        floats += c->rot + (c->output_gate ? 2 * q : q) + 2 * q + 2 * kv +
                  c->n_heads * fg_kv_width(c->head_dim);
    // Before and after the convolution; z and output; two gates, raw and made.
    if (c->n_linear) floats += 2 * fg_config_conv_channels(c) + 2 * value + 4 * c->n_v_heads;
    return (uint64_t)floats * sizeof(float);
}

static int64_t widest_input(const struct fg_config *c)
{
    int64_t q = c->n_full ? c->n_heads * c->head_dim : 0;
    return most(most(c->hidden, c->intermediate), most(q, c->n_v_heads * c->v_head_dim));
}

// Per row what products make of their input.
static uint64_t input_bytes(const struct fg_config *c, const struct fg_budget_options *o)
{
    const uint64_t n = (uint64_t)widest_input(c);
    if (!o->quantized) return o->fast ? n * sizeof(uint16_t) : 0;
    const uint64_t rotated = n * sizeof(float);
    if (!o->fast) return rotated;
    const uint64_t digits = 2 * (uint64_t)most(c->hidden, DIGITS_BELOW);
    const uint64_t blocks = (n + FG_ACT_BLOCK - 1) / FG_ACT_BLOCK;
    return rotated + (n > digits ? n : digits) + 2 * blocks * (sizeof(float) + sizeof(int32_t));
}

// Queries as codes, with their scales and sums.
static uint64_t query_bytes(const struct fg_config *c, const struct fg_budget_options *o)
{
    if (!o->fast || c->n_full == 0) return 0;
    return (uint64_t)c->n_heads *
           (2 * (uint64_t)fg_kv_width(c->head_dim) + sizeof(float) + sizeof(int32_t));
}

uint64_t fg_budget_workspace_bytes(const struct fg_config *c, const struct fg_budget_options *o,
                                   int64_t capacity)
{
    const int64_t verify = o->verify_rows ? o->verify_rows : FG_SESSION_VERIFY;
    const int64_t cap = o->n_entries ? o->entries[o->n_entries - 1] : capacity;
    const int64_t T = most(o->rows < cap ? o->rows : cap, verify);
    const struct fg_parallel_sizes sizes = {.T = T,
                                            .n = widest_input(c),
                                            .quantized = o->quantized,
                                            .n_digits = most(c->hidden, DIGITS_BELOW),
                                            .D = c->n_full ? c->head_dim : 0,
                                            .dk = c->k_head_dim,
                                            .dv = c->v_head_dim};
    uint64_t bytes = times((uint64_t)T, row_bytes(c) + input_bytes(c, o) + query_bytes(c, o));
    bytes = plus(bytes, times((uint64_t)(o->threads > 0 ? o->threads : 1),
                              fg_parallel_scratch_bytes(&sizes)));
    if (c->n_full)
        bytes = plus(bytes,
                     times(fg_attn_partial_floats(capacity, c->n_heads, c->n_kv_heads, c->head_dim),
                           sizeof(float)));
    return bytes;
}

// ---- the table

// Of one row that was tried: keys, d, gates, and the row before the convolution, in every linear
// layer.
static uint64_t tried_row_bytes(const struct fg_config *c)
{
    if (c->n_linear == 0) return 0;
    const int64_t floats = c->n_k_heads * c->k_head_dim + c->n_v_heads * (c->v_head_dim + 1) +
                           fg_config_conv_channels(c);
    return (uint64_t)c->n_linear * (uint64_t)floats * sizeof(float);
}

uint64_t fg_budget_kv_position(const struct fg_config *c, enum fg_kv_format kv)
{
    const struct fg_kv_shape shape = {
        .n_layers = c->n_full, .n_heads = c->n_kv_heads, .D = c->head_dim, .format = kv};
    return c->n_full ? fg_kv_position_bytes(&shape) : 0;
}

void fg_budget_make(struct fg_budget *b, const struct fg_config *c,
                    const struct fg_budget_options *o)
{
    const uint64_t verify = (uint64_t)(o->verify_rows ? o->verify_rows : FG_SESSION_VERIFY);
    struct fg_machine m;
    fg_machine_probe(&m);
    *b = (struct fg_budget){
        .weights = o->weight_bytes,
        .states = plus(times(2, fg_config_state_bytes(c) + fg_config_conv_bytes(c)),
                       times(2 * verify, tried_row_bytes(c))),
        .reserve = FG_BUDGET_RESERVE,
        .kv_position = fg_budget_kv_position(c, o->kv),
        .kv = o->kv,
        .n_entries = o->n_entries,
    };
    for (int i = 0; i < o->n_entries; i++) {
        struct fg_budget_entry *e = &b->entries[i];
        const uint64_t ctx = (uint64_t)o->entries[i];
        const uint64_t pages = ctx / FG_KV_PAGE + (ctx % FG_KV_PAGE != 0);
        e->ctx = o->entries[i];
        e->kv = times(b->kv_position, pages * FG_KV_PAGE);
        // And a row of logits; the ids so far.
        e->scratch = plus(fg_budget_workspace_bytes(c, o, e->ctx),
                          plus((uint64_t)c->vocab * sizeof(float), times(ctx, sizeof(int32_t))));
        e->total = plus(plus(b->weights, b->states), plus(e->kv, e->scratch));
    }
    fg_budget_judge(b, fg_machine_free_bytes(&m));
}

uint64_t fg_budget_need(const struct fg_budget *b, int entry)
{
    return plus(b->entries[entry].total, b->reserve);
}

void fg_budget_judge(struct fg_budget *b, uint64_t available)
{
    b->available = available;
    for (int i = 0; i < b->n_entries; i++) {
        struct fg_budget_entry *e = &b->entries[i];
        if (fg_budget_need(b, i) > available)
            e->verdict = FG_BUDGET_NO;
        else if ((double)fg_budget_need(b, i) > TIGHT_SHARE * (double)available)
            e->verdict = FG_BUDGET_TIGHT;
        else
            e->verdict = FG_BUDGET_FITS;
    }
}

const char *fg_budget_verdict_name(enum fg_budget_verdict v)
{
    static const char *const names[] = {"fits", "tight", "does not fit"};
    return names[v];
}

int fg_budget_largest(const struct fg_budget *b)
{
    int at = b->n_entries - 1;
    while (at >= 0 && b->entries[at].verdict == FG_BUDGET_NO)
        at--;
    return at;
}

char *fg_budget_line(const struct fg_budget *b, int entry, char *out, size_t cap)
{
    const struct fg_budget_entry *e = &b->entries[entry];
    char weights[32], kv[32], states[32], scratch[32], total[32];
    snprintf(out, cap, "context %" PRId64 ": weights %s + KV %s + states %s + scratch %s = %s: %s",
             e->ctx, fg_format_bytes(weights, sizeof weights, b->weights),
             fg_format_bytes(kv, sizeof kv, e->kv),
             fg_format_bytes(states, sizeof states, b->states),
             fg_format_bytes(scratch, sizeof scratch, e->scratch),
             fg_format_bytes(total, sizeof total, e->total), fg_budget_verdict_name(e->verdict));
    return out;
}

static int refuse(const struct fg_budget *b, const char *what, const struct fg_log *log,
                  struct fg_error *err)
{
    char need[32], have[32], weights[32], line[256];
    for (int i = 0; i < b->n_entries; i++)
        fg_log_warn(log, "%s", fg_budget_line(b, i, line, sizeof line));
    fg_fail(err, FG_ERESOURCE, "memory", what, NULL,
            fg_format_bytes(need, sizeof need, fg_budget_need(b, 0)),
            "%s available; the weights alone are %s",
            fg_format_bytes(have, sizeof have, b->available),
            fg_format_bytes(weights, sizeof weights, b->weights));
    fg_error_hint(err, "--allow-paging runs it from disk, many times slower");
    return FG_ERESOURCE;
}

int fg_budget_check(const struct fg_budget *b, const char *what, bool allow_paging,
                    const struct fg_log *log, struct fg_error *err)
{
    const int cap = b->n_entries - 1, fits = fg_budget_largest(b);
    char need[32], have[32];
    if (fits == cap) return 0;
    if (fits < 0 && !allow_paging) return refuse(b, what, log, err);
    fg_format_bytes(need, sizeof need, fg_budget_need(b, fits < 0 ? 0 : cap));
    fg_format_bytes(have, sizeof have, b->available);
    if (fits < 0) {
        fg_log_warn(log, "%s needs %s of memory, %s is available: it will be read from disk", what,
                    need, have);
    } else {
        fg_log_warn(log,
                    "%s: context %" PRId64 " needs %s of memory, %s is available; the largest that "
                    "fits is %" PRId64,
                    what, b->entries[cap].ctx, need, have, b->entries[fits].ctx);
    }
    return 0;
}
