// model/import_tensors.c: which GGUF tensor is which HF tensor, and reading its rows
// (sections 11.2, 11.4 to 11.6).
#include "base/num.h"
#include "base/size.h"
#include "format/gguf_dequant.h"
#include "model/import_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the table of tensors

// An extent by meaning.
enum dim {
    D_ONE,
    D_V,
    D_H,
    D_F,
    D_Q,
    D_Q_GATE,
    D_KV,
    D_HEAD,
    D_QKV,
    D_VAL,
    D_NV,
    D_K,
    D_DV,
    N_DIMS
};

enum layer_kind { IN_NONE, IN_ANY, IN_FULL, IN_LINEAR };
enum need { REQUIRED, OPTIONAL, QKV_BIAS, O_BIAS, MLP_BIAS };
enum order { SAME, ROTARY, VALUE_ROWS, VALUE_TAIL_ROWS, VALUE_COLUMNS };

#define L FG_ARCH_LLAMA
#define Q2 FG_ARCH_QWEN2
#define Q3 FG_ARCH_QWEN3
#define Q35 FG_ARCH_QWEN35
#define DENSE (L | Q2 | Q3)
#define ALL (DENSE | Q35)

// The end of a line of the table.
#define SAME_ORDER .order = SAME
#define BY(how, head) .order = (how), .block = (head)
#define LESS_ONE .change = FG_CHANGE_MINUS_ONE

struct rule {
    const char *gguf, *hf; // within a layer, or whole names
    int archs;
    enum layer_kind in;
    enum need need;
    enum dim rows, cols; // rows D_ONE: a vector
    enum order order;
    enum dim block; // of the order: a head of it
    enum fg_import_change change;
};

// Norms of qwen35 are stored with 1 added (11.6), hence their own lines.
static const struct rule rules[] = {
    {"token_embd.weight", "model.embed_tokens.weight", ALL, IN_NONE, REQUIRED, D_V, D_H,
     SAME_ORDER},
    {"attn_norm.weight", "input_layernorm.weight", DENSE, IN_ANY, REQUIRED, D_ONE, D_H, SAME_ORDER},
    {"attn_norm.weight", "input_layernorm.weight", Q35, IN_ANY, REQUIRED, D_ONE, D_H, LESS_ONE},
    {"attn_q.weight", "self_attn.q_proj.weight", L, IN_FULL, REQUIRED, D_Q, D_H,
     BY(ROTARY, D_HEAD)},
    {"attn_q.bias", "self_attn.q_proj.bias", L, IN_FULL, QKV_BIAS, D_ONE, D_Q, BY(ROTARY, D_HEAD)},
    {"attn_k.weight", "self_attn.k_proj.weight", L, IN_FULL, REQUIRED, D_KV, D_H,
     BY(ROTARY, D_HEAD)},
    {"attn_k.bias", "self_attn.k_proj.bias", L, IN_FULL, QKV_BIAS, D_ONE, D_KV, BY(ROTARY, D_HEAD)},
    {"attn_q.weight", "self_attn.q_proj.weight", Q2 | Q3, IN_FULL, REQUIRED, D_Q, D_H, SAME_ORDER},
    {"attn_q.weight", "self_attn.q_proj.weight", Q35, IN_FULL, REQUIRED, D_Q_GATE, D_H, SAME_ORDER},
    {"attn_q.bias", "self_attn.q_proj.bias", Q2 | Q3, IN_FULL, QKV_BIAS, D_ONE, D_Q, SAME_ORDER},
    {"attn_k.weight", "self_attn.k_proj.weight", Q2 | Q3 | Q35, IN_FULL, REQUIRED, D_KV, D_H,
     SAME_ORDER},
    {"attn_k.bias", "self_attn.k_proj.bias", Q2 | Q3, IN_FULL, QKV_BIAS, D_ONE, D_KV, SAME_ORDER},
    {"attn_v.weight", "self_attn.v_proj.weight", ALL, IN_FULL, REQUIRED, D_KV, D_H, SAME_ORDER},
    {"attn_v.bias", "self_attn.v_proj.bias", DENSE, IN_FULL, QKV_BIAS, D_ONE, D_KV, SAME_ORDER},
    {"attn_output.weight", "self_attn.o_proj.weight", ALL, IN_FULL, REQUIRED, D_H, D_Q, SAME_ORDER},
    {"attn_output.bias", "self_attn.o_proj.bias", DENSE, IN_FULL, O_BIAS, D_ONE, D_H, SAME_ORDER},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", Q3, IN_FULL, REQUIRED, D_ONE, D_HEAD,
     SAME_ORDER},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", Q3, IN_FULL, REQUIRED, D_ONE, D_HEAD,
     SAME_ORDER},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", Q35, IN_FULL, REQUIRED, D_ONE, D_HEAD,
     LESS_ONE},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", Q35, IN_FULL, REQUIRED, D_ONE, D_HEAD,
     LESS_ONE},
    {"attn_qkv.weight", "linear_attn.in_proj_qkv.weight", Q35, IN_LINEAR, REQUIRED, D_QKV, D_H,
     BY(VALUE_TAIL_ROWS, D_DV)},
    {"attn_gate.weight", "linear_attn.in_proj_z.weight", Q35, IN_LINEAR, REQUIRED, D_VAL, D_H,
     BY(VALUE_ROWS, D_DV)},
    {"ssm_beta.weight", "linear_attn.in_proj_b.weight", Q35, IN_LINEAR, REQUIRED, D_NV, D_H,
     BY(VALUE_ROWS, D_ONE)},
    {"ssm_alpha.weight", "linear_attn.in_proj_a.weight", Q35, IN_LINEAR, REQUIRED, D_NV, D_H,
     BY(VALUE_ROWS, D_ONE)},
    {"ssm_conv1d.weight", "linear_attn.conv1d.weight", Q35, IN_LINEAR, REQUIRED, D_QKV, D_K,
     BY(VALUE_TAIL_ROWS, D_DV)},
    {"ssm_dt.bias", "linear_attn.dt_bias", Q35, IN_LINEAR, REQUIRED, D_ONE, D_NV,
     BY(VALUE_COLUMNS, D_ONE)},
    {"ssm_a", "linear_attn.A_log", Q35, IN_LINEAR, REQUIRED, D_ONE, D_NV, BY(VALUE_COLUMNS, D_ONE),
     .change = FG_CHANGE_LOG_NEGATIVE},
    {"ssm_norm.weight", "linear_attn.norm.weight", Q35, IN_LINEAR, REQUIRED, D_ONE, D_DV,
     SAME_ORDER},
    {"ssm_out.weight", "linear_attn.out_proj.weight", Q35, IN_LINEAR, REQUIRED, D_H, D_VAL,
     BY(VALUE_COLUMNS, D_DV)},
    {"ffn_norm.weight", "post_attention_layernorm.weight", DENSE, IN_ANY, REQUIRED, D_ONE, D_H,
     SAME_ORDER},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", Q35, IN_ANY, REQUIRED, D_ONE,
     D_H, LESS_ONE},
    {"ffn_gate.weight", "mlp.gate_proj.weight", ALL, IN_ANY, REQUIRED, D_F, D_H, SAME_ORDER},
    {"ffn_up.weight", "mlp.up_proj.weight", ALL, IN_ANY, REQUIRED, D_F, D_H, SAME_ORDER},
    {"ffn_down.weight", "mlp.down_proj.weight", ALL, IN_ANY, REQUIRED, D_H, D_F, SAME_ORDER},
    {"ffn_gate.bias", "mlp.gate_proj.bias", L, IN_ANY, MLP_BIAS, D_ONE, D_F, SAME_ORDER},
    {"ffn_up.bias", "mlp.up_proj.bias", L, IN_ANY, MLP_BIAS, D_ONE, D_F, SAME_ORDER},
    {"ffn_down.bias", "mlp.down_proj.bias", L, IN_ANY, MLP_BIAS, D_ONE, D_H, SAME_ORDER},
    {"output_norm.weight", "model.norm.weight", DENSE, IN_NONE, REQUIRED, D_ONE, D_H, SAME_ORDER},
    {"output_norm.weight", "model.norm.weight", Q35, IN_NONE, REQUIRED, D_ONE, D_H, LESS_ONE},
    {"output.weight", "lm_head.weight", ALL, IN_NONE, OPTIONAL, D_V, D_H, SAME_ORDER},
};

#undef L
#undef Q2
#undef Q3
#undef Q35
#undef DENSE
#undef ALL
#undef SAME_ORDER
#undef BY
#undef LESS_ONE

// ---- binding

struct binder {
    struct fg_import *imp;
    struct fg_error *err;
    uint64_t dims[N_DIMS];
    bool *used; // [tensors of the GGUF]
};

static int fail_tensor(const struct binder *b, const char *name, const char *expected,
                       const char *found)
{
    return fg_fail(b->err, FG_EINPUT, FG_IMPORT_WHAT, b->imp->path, name, expected, "%s", found);
}

static bool has(const struct binder *b, const char *name)
{
    return fg_gguf_tensor_find(b->imp->gguf, name) != NULL;
}

static void set_dims(struct binder *b)
{
    const struct fg_import_params *p = &b->imp->params;
    const int64_t q = p->n_heads * p->head_dim, value = p->n_v_heads * p->v_head_dim;
    const int64_t dims[N_DIMS] = {
        [D_ONE] = 1,
        [D_V] = p->vocab,
        [D_H] = p->hidden,
        [D_F] = p->intermediate,
        [D_Q] = q,
        [D_Q_GATE] = 2 * q,
        [D_KV] = p->n_kv_heads * p->head_dim,
        [D_HEAD] = p->head_dim,
        [D_QKV] = 2 * p->n_k_heads * p->k_head_dim + value,
        [D_VAL] = value,
        [D_NV] = p->n_v_heads,
        [D_K] = p->conv_kernel,
        [D_DV] = p->v_head_dim,
    };
    for (int i = 0; i < N_DIMS; i++) {
        b->dims[i] = (uint64_t)dims[i];
    }
}

// What only the tensors tell: vocabulary, tied head, biases, rotary divisors.
static int inspect(struct binder *b)
{
    struct fg_import *imp = b->imp;
    struct fg_import_params *p = &imp->params;
    const struct fg_gguf_tensor *embed = fg_gguf_tensor_find(imp->gguf, "token_embd.weight");
    if (!embed) return fail_tensor(b, "token_embd.weight", "the embedding", "no such tensor");
    if (embed->extent[1] < 1 || embed->extent[1] > INT32_MAX) {
        return fail_tensor(b, embed->name, "1 to 2147483647 rows", "another number");
    }
    p->vocab = (int64_t)embed->extent[1];
    p->tied = !has(b, "output.weight");
    p->qkv_bias = has(b, "blk.0.attn_q.bias") || p->arch == FG_ARCH_QWEN2;
    p->o_bias = has(b, "blk.0.attn_output.bias");
    p->mlp_bias = has(b, "blk.0.ffn_gate.bias");
    if (p->o_bias != (p->qkv_bias && p->arch != FG_ARCH_QWEN2)) {
        return fail_tensor(b, "blk.0.attn_output.bias",
                           p->arch == FG_ARCH_QWEN2 ? "no bias"
                                                    : "a bias exactly if attn_q has one",
                           p->o_bias ? "a bias" : "none");
    }
    imp->rope_freqs = fg_gguf_tensor_find(imp->gguf, "rope_freqs.weight");
    if (!imp->rope_freqs) return 0;
    b->used[imp->rope_freqs - fg_gguf_tensor_at(imp->gguf, 0)] = true;
    if (imp->rope_freqs->type != FG_GGML_F32 || imp->rope_freqs->n != (uint64_t)p->rot / 2) {
        return fail_tensor(b, imp->rope_freqs->name, "F32, one divisor per rotary frequency",
                           "another type or length");
    }
    for (uint64_t i = 0; i < imp->rope_freqs->n; i++) {
        float f;
        memcpy(&f, imp->rope_freqs->data + 4 * i, sizeof f);
        if (!(f > 0) || !isfinite(f)) {
            return fail_tensor(b, imp->rope_freqs->name, "positive divisors", "another value");
        }
    }
    return 0;
}

static bool wanted(const struct binder *b, const struct rule *r)
{
    const struct fg_import_params *p = &b->imp->params;
    switch (r->need) {
    case QKV_BIAS: return p->qkv_bias;
    case O_BIAS: return p->o_bias;
    case MLP_BIAS: return p->mlp_bias;
    case OPTIONAL: return has(b, r->gguf);
    default: return true;
    }
}

static struct fg_import_perm order_of(const struct binder *b, const struct rule *r)
{
    const struct fg_import_params *p = &b->imp->params;
    struct fg_import_perm perm = {.block = b->dims[r->block]};
    if (r->order == ROTARY) {
        perm.order = FG_ORDER_ROTARY;
        perm.columns = r->rows == D_ONE; // of a bias, the elements
    } else if (r->order != SAME && p->n_v_heads > p->n_k_heads) {
        perm.order = FG_ORDER_VALUE;
        perm.columns = r->order == VALUE_COLUMNS;
        perm.n_k = (uint64_t)p->n_k_heads;
        perm.ratio = (uint64_t)(p->n_v_heads / p->n_k_heads);
        if (r->order == VALUE_TAIL_ROWS) {
            perm.from = b->dims[r->rows] - (uint64_t)(p->n_v_heads * p->v_head_dim);
        }
    }
    return perm;
}

static int check_source(const struct binder *b, const struct fg_gguf_tensor *t, uint64_t rows,
                        uint64_t cols)
{
    if (!fg_gguf_can_dequant(t->type)) {
        return fail_tensor(b, t->name,
                           "F32, F16, BF16, Q8_0, Q4_0 to Q5_1, Q2_K to Q6_K or IQ2_XXS to IQ4_XS",
                           fg_gguf_type_name(t->type));
    }
    uint64_t n;
    if (t->extent[0] == cols && fg_mul(&n, rows, cols) && n == t->n) return 0;
    char expected[64], found[112];
    snprintf(expected, sizeof expected, "extents %" PRIu64 " x %" PRIu64, cols, rows);
    snprintf(found, sizeof found, "%" PRIu64 " x %" PRIu64 " x %" PRIu64 " x %" PRIu64,
             t->extent[0], t->extent[1], t->extent[2], t->extent[3]);
    return fail_tensor(b, t->name, expected, found);
}

static enum fg_dtype stored_dtype(uint32_t type)
{
    return type == FG_GGML_F16 ? FG_F16 : type == FG_GGML_BF16 ? FG_BF16 : FG_F32;
}

static bool is_plain(uint32_t type)
{
    return type == FG_GGML_F32 || type == FG_GGML_F16 || type == FG_GGML_BF16;
}

// Adds the tensor of rule r; layer -1: not of a layer.
static int add(struct binder *b, const struct rule *r, int64_t layer)
{
    struct fg_import *imp = b->imp;
    char name[FG_GGUF_TENSOR_NAME_MAX + 64];
    if (layer < 0) {
        snprintf(name, sizeof name, "%s", r->gguf);
    } else {
        snprintf(name, sizeof name, "blk.%" PRId64 ".%s", layer, r->gguf);
    }
    const struct fg_gguf_tensor *t = fg_gguf_tensor_find(imp->gguf, name);
    if (!t) {
        return fail_tensor(b, name,
                           r->in == IN_LINEAR ? "a tensor of the linear-attention layer"
                           : r->in == IN_FULL ? "a tensor of the full-attention layer"
                                              : "a tensor of the model",
                           "no such tensor");
    }
    b->used[t - fg_gguf_tensor_at(imp->gguf, 0)] = true;

    struct fg_import_tensor out = {.source_name = t->name, .source_type = t->type};
    out.rows = b->dims[r->rows];
    out.cols = b->dims[r->cols];
    int rc = check_source(b, t, out.rows, out.cols);
    if (rc) return rc;
    if (r->rows != D_ONE) out.shape[out.rank++] = out.rows;
    if (r->cols == D_K) out.shape[out.rank++] = 1; // a depthwise convolution: one input channel
    out.shape[out.rank++] = out.cols;

    struct fg_import_source src = {.tensor = t, .perm = order_of(b, r), .change = r->change};
    bool as_is = is_plain(t->type) && src.perm.order == FG_ORDER_SAME && !src.change;
    out.dtype = src.change ? FG_F32 : stored_dtype(t->type);
    out.data = as_is ? t->data : NULL;

    char hf[128];
    if (layer < 0) {
        snprintf(hf, sizeof hf, "%s", r->hf);
    } else {
        snprintf(hf, sizeof hf, "model.layers.%" PRId64 ".%s", layer, r->hf);
    }
    out.name = fg_arena_strdup(&imp->arena, hf, strlen(hf));
    if (!out.name) return fg_fail_memory(b->err, FG_IMPORT_WHAT, strlen(hf));
    imp->tensors[imp->n] = out;
    imp->sources[imp->n] = src;
    imp->names[imp->n] = (struct fg_name){out.name, imp->n};
    imp->n++;
    return 0;
}

static int add_all(struct binder *b)
{
    const struct fg_import_params *p = &b->imp->params;
    size_t r = 0;
    int rc;
    for (; rules[r].in == IN_NONE; r++) {
        if ((rc = add(b, &rules[r], -1))) return rc;
    }
    for (int64_t i = 0; i < p->n_layers; i++) {
        for (size_t k = r; k < FG_COUNT(rules); k++) {
            enum layer_kind other = fg_import_is_full(p, i) ? IN_LINEAR : IN_FULL;
            if (rules[k].in == IN_NONE || rules[k].in == other ||
                !(rules[k].archs & (int)p->arch) || !wanted(b, &rules[k])) {
                continue;
            }
            if ((rc = add(b, &rules[k], i))) return rc;
        }
    }
    for (; r < FG_COUNT(rules); r++) {
        if (rules[r].in != IN_NONE || !(rules[r].archs & (int)p->arch) || !wanted(b, &rules[r])) {
            continue;
        }
        if ((rc = add(b, &rules[r], -1))) return rc;
    }
    return 0;
}

static int warn(struct binder *b, const char *what, uint64_t n, const char *example)
{
    char line[256];
    if (n == 0) return 0;
    snprintf(line, sizeof line, "%" PRIu64 " tensors %s are left out (first: %s)", n, what,
             example);
    char *copy = fg_arena_strdup(&b->imp->arena, line, strlen(line));
    if (!copy) return fg_fail_memory(b->err, FG_IMPORT_WHAT, strlen(line));
    b->imp->warnings[b->imp->n_warnings++] = copy;
    return 0;
}

// Layer number of "blk.N.rest", -1 for other names.
static int64_t layer_of(const char *name)
{
    if (strncmp(name, "blk.", 4) != 0) return -1;
    char *end;
    long long v = strtoll(name + 4, &end, 10);
    return *end == '.' && end > name + 4 && v >= 0 ? v : -1;
}

// A layer with a tensor that no rule knows computes something else than we would: refused. Tensors
// outside the layers, and prediction layers behind the last one, are left out with a warning.
static int check_rest(struct binder *b)
{
    const struct fg_gguf *g = b->imp->gguf;
    uint64_t n_extra = 0, n_other = 0;
    const char *extra = NULL, *other = NULL;
    for (uint64_t i = 0; i < fg_gguf_n_tensors(g); i++) {
        if (b->used[i]) continue;
        const char *name = fg_gguf_tensor_at(g, i)->name;
        int64_t layer = layer_of(name);
        if (layer >= 0 && layer < b->imp->params.n_layers) {
            char expected[64];
            snprintf(expected, sizeof expected, "the tensors of a %s layer",
                     b->imp->params.arch_name);
            return fail_tensor(b, name, expected, "one more");
        }
        if (layer >= 0) {
            if (n_extra++ == 0) extra = name;
        } else if (n_other++ == 0) {
            other = name;
        }
    }
    int rc = warn(b, "behind the last layer", n_extra, extra);
    return rc ? rc : warn(b, "that the architecture does not have", n_other, other);
}

int fg_import_bind(struct fg_import *imp, struct fg_error *err)
{
    struct binder b = {.imp = imp, .err = err};
    uint64_t n = fg_gguf_n_tensors(imp->gguf);
    uint64_t cap = n ? n : 1; // each is used at most once
    b.used = calloc(cap, sizeof *b.used);
    imp->tensors = calloc(cap, sizeof *imp->tensors);
    imp->sources = calloc(cap, sizeof *imp->sources);
    imp->names = calloc(cap, sizeof *imp->names);
    int rc;
    if (!b.used || !imp->tensors || !imp->sources || !imp->names) {
        rc = fg_fail_memory(err, FG_IMPORT_WHAT, n * sizeof *imp->tensors);
        goto done;
    }
    rc = inspect(&b);
    if (rc) goto done;
    set_dims(&b);
    rc = add_all(&b);
    if (!rc) rc = check_rest(&b);
    if (!rc) fg_names_sort(imp->names, imp->n);
done:
    free(b.used);
    return rc;
}

// ---- rows

// Where GGUF has what stands at index i in HF's order.
static uint64_t place(const struct fg_import_perm *p, uint64_t i)
{
    if (p->order == FG_ORDER_ROTARY) {
        uint64_t in_head = i % p->block, half = p->block / 2;
        return i - in_head + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
    }
    if (p->order == FG_ORDER_VALUE && i >= p->from) {
        uint64_t head = (i - p->from) / p->block, in_head = (i - p->from) % p->block;
        uint64_t tiled = head % p->ratio * p->n_k + head / p->ratio;
        return p->from + tiled * p->block + in_head;
    }
    return i;
}

static int fail_value(const struct fg_import *imp, const struct fg_import_tensor *t, uint64_t row,
                      uint64_t col, const char *expected, float v, struct fg_error *err)
{
    char field[160];
    snprintf(field, sizeof field, "%s row %" PRIu64 " column %" PRIu64, t->source_name, row, col);
    return fg_fail(err, FG_EINPUT, FG_IMPORT_WHAT, imp->path, field, expected, "%g", (double)v);
}

static int narrow(const struct fg_import *imp, const struct fg_import_tensor *t, uint64_t row,
                  const float *x, enum fg_dtype dtype, uint16_t *dst, struct fg_error *err)
{
    for (uint64_t i = 0; i < t->cols; i++) {
        if (dtype == FG_BF16) {
            dst[i] = fg_bf16_of_f32(x[i]);
            continue;
        }
        dst[i] = fg_f16_of_f32(x[i]);
        if ((dst[i] & 0x7FFF) == 0x7C00 && isfinite(x[i])) {
            int rc = fail_value(imp, t, row, i, "a value in FP16's range", x[i], err);
            fg_error_hint(err, "--dtype bf16 or f32 holds it");
            return rc;
        }
    }
    return 0;
}

// Row `row` of HF's order as FP32 into out [cols]; tmp [cols] is used for column permutations.
static int make_row(const struct fg_import *imp, const struct fg_import_tensor *t,
                    const struct fg_import_source *s, uint64_t row, float *out, float *tmp,
                    struct fg_error *err)
{
    uint64_t at = s->perm.columns ? row : place(&s->perm, row);
    const uint8_t *src = s->tensor->data + at * (s->tensor->bytes / t->rows);
    bool permute = s->perm.columns && s->perm.order != FG_ORDER_SAME;
    fg_gguf_dequant_row(t->source_type, src, permute ? tmp : out, t->cols);
    for (uint64_t i = 0; permute && i < t->cols; i++) {
        out[i] = tmp[place(&s->perm, i)];
    }
    for (uint64_t i = 0; s->change == FG_CHANGE_MINUS_ONE && i < t->cols; i++) {
        out[i] -= 1;
    }
    for (uint64_t i = 0; s->change == FG_CHANGE_LOG_NEGATIVE && i < t->cols; i++) {
        if (!(out[i] < 0)) return fail_value(imp, t, row, i, "a value below 0", out[i], err);
        out[i] = (float)log(-(double)out[i]);
    }
    return 0;
}

int fg_import_read(const struct fg_import *imp, const struct fg_import_tensor *t, uint64_t row0,
                   uint64_t row1, enum fg_dtype dtype, void *dst, struct fg_error *err)
{
    const struct fg_import_source *s = &imp->sources[t - imp->tensors];
    uint64_t dst_row = t->cols * fg_dtype_bytes(dtype), src_row = s->tensor->bytes / t->rows;
    bool copy = is_plain(t->source_type) && stored_dtype(t->source_type) == dtype && !s->change &&
                (!s->perm.columns || s->perm.order == FG_ORDER_SAME);
    if (copy) {
        for (uint64_t r = row0; r < row1; r++) {
            memcpy((uint8_t *)dst + (r - row0) * dst_row,
                   s->tensor->data + place(&s->perm, r) * src_row, dst_row);
        }
        return 0;
    }
    float *buffer = malloc(2 * t->cols * sizeof *buffer);
    if (!buffer) return fg_fail_memory(err, FG_IMPORT_WHAT, 2 * t->cols * sizeof *buffer);
    int rc = 0;
    for (uint64_t r = row0; r < row1 && !rc; r++) {
        uint8_t *out = (uint8_t *)dst + (r - row0) * dst_row;
        float *x = dtype == FG_F32 ? (float *)(void *)out : buffer;
        rc = make_row(imp, t, s, r, x, buffer + t->cols, err);
        if (!rc && dtype != FG_F32) {
            rc = narrow(imp, t, r, x, dtype, (uint16_t *)(void *)out, err);
        }
    }
    free(buffer);
    return rc;
}
