// Layers one at a time give the residuals of the whole forward pass, bit for bit, in any company
// and on any number of threads; the pieces are the inputs that the matrices read.
#include "model/layerwise.h"
#include "base/arena.h"
#include "format/npy.h"
#include "kernels/kernels.h"
#include "model/graph.h"
#include "support/state.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#define SEQ 70
#define N_SEQS 3

struct kept {
    const char *name;
    int layer;
    float *data; // [SEQ][width]
};

static void keep(void *ctx, const char *name, int layer, int64_t pos, int64_t T, int64_t width,
                 const float *data, int64_t ld)
{
    struct kept *k = ctx;
    (void)pos;
    if (strcmp(name, k->name) != 0 || layer != k->layer) return;
    for (int64_t t = 0; t < T; t++)
        memcpy(k->data + t * width, data + t * ld, (size_t)width * sizeof *data);
}

// What the whole pass has under `name` in `layer`, [SEQ][width].
static float *whole(const struct fg_model *m, const struct fg_kernels *kernels,
                    struct fg_pool *pool, const int32_t *ids, const char *name, int layer,
                    int64_t width)
{
    struct fg_workspace *ws = NULL;
    const struct fg_workspace_options o = {.kernels = kernels, .pool = pool, .T_max = SEQ};
    struct fg_state state;
    struct kept k = {name, layer, state_floats(SEQ * width)};
    float *logits = state_floats(m->config.vocab);
    state_new(&state, &m->config, SEQ, FG_KV_F32, false, 8);
    assert_int_equal(fg_workspace_new(&ws, m, &o, NULL), 0);
    assert_int_equal(fg_workspace_fit(ws, m, SEQ, NULL), 0);
    fg_workspace_set_tap(ws, keep, &k);
    const struct fg_span span = {&state, SEQ};
    const struct fg_call call = {
        .ids = ids, .spans = &span, .n_spans = 1, .T = SEQ, .n_out = 1, .logits = logits};
    assert_int_equal(fg_forward(m, ws, &call, NULL), 0);
    fg_workspace_free(ws);
    state_free(&state, &m->config);
    free(logits);
    return k.data;
}

static void compare(const struct fg_model *m, const struct fg_kernels *kernels,
                    struct fg_pool *pool, const int32_t *ids, const char *name, int layer,
                    int64_t width, const float *got)
{
    for (int64_t i = 0; i < N_SEQS; i++) {
        float *want = whole(m, kernels, pool, ids + i * SEQ, name, layer, width);
        if (memcmp(want, got + i * SEQ * width, (size_t)(SEQ * width) * sizeof *want) != 0)
            fail_msg("%s of layer %d, sequence %d", name, layer, (int)i);
        free(want);
    }
}

static void run_layers(const struct fg_model *m, const struct fg_kernels *kernels,
                       struct fg_pool *pool, const int32_t *ids)
{
    const struct fg_config *c = &m->config;
    const int64_t H = c->hidden, n = N_SEQS * SEQ * H;
    const struct fg_layerwise_options o = {
        .kernels = kernels, .pool = pool, .seq = SEQ, .batch = N_SEQS};
    struct fg_layerwise *lw = NULL;
    assert_int_equal(fg_layerwise_new(&lw, m, &o, NULL), 0);
    float *x = state_floats(n);
    fg_layerwise_embed(lw, ids, N_SEQS, x);
    for (int l = 0; l < c->n_layers; l++) {
        const bool linear = c->is_linear[l];
        compare(m, kernels, pool, ids, "attn_norm", l, H,
                fg_layerwise_mixer_input(lw, l, x, N_SEQS));
        compare(m, kernels, pool, ids,
                linear           ? "gdn_norm"
                : c->output_gate ? "attn_gated"
                                 : "attn_o",
                l, linear ? c->n_v_heads * c->v_head_dim : c->n_heads * c->head_dim,
                fg_layerwise_mixer_inner(lw, l, x, N_SEQS));
        const float *y = fg_layerwise_mixer(lw, l, x, N_SEQS);
        for (int64_t i = 0; i < n; i++)
            x[i] += y[i];
        compare(m, kernels, pool, ids, "mlp_norm", l, H, fg_layerwise_mlp_input(lw, l, x, N_SEQS));
        compare(m, kernels, pool, ids, "mlp_act", l, c->intermediate,
                fg_layerwise_mlp_inner(lw, l, x, N_SEQS));
        y = fg_layerwise_mlp(lw, l, x, N_SEQS);
        for (int64_t i = 0; i < n; i++)
            x[i] += y[i];
        compare(m, kernels, pool, ids, "layer_out", l, H, x);
    }
    // The last row's alone goes through the head in a whole pass.
    float *want = whole(m, kernels, pool, ids, "final_norm", -1, H);
    const float *got = fg_layerwise_head_input(lw, x, N_SEQS);
    assert_memory_equal(want, got + (SEQ - 1) * H, (size_t)H * sizeof *got);
    free(want);
    free(x);
    fg_layerwise_free(lw);
}

static void test_layers(void **state)
{
    (void)state;
    static const char *const dirs[] = {"a-s0", "c-s0", "e-s0", "h-s0", "k-s0"};
    struct fg_pool *pools[2];
    const struct fg_kernels *kernels = NULL;
    assert_int_equal(fg_kernels_get(&kernels, NULL, NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(fg_pool_new(&pools[i], 1 + i, NULL), 0);
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        char dir[512], path[600];
        struct fg_model *m = NULL;
        struct fg_npy ids;
        snprintf(dir, sizeof dir, "%s/models/%s", FORGE_GOLDEN_DIR, dirs[i]);
        snprintf(path, sizeof path, "%s/tokens.npy", dir);
        assert_int_equal(fg_model_open(&m, dir, true, NULL, NULL), 0);
        assert_int_equal(fg_npy_open(&ids, path, NULL), 0);
        assert_true(ids.n >= N_SEQS * SEQ);
        run_layers(m, kernels, pools[i % 2], ids.data);
        fg_npy_close(&ids);
        fg_model_close(m);
    }
    for (int i = 0; i < 2; i++)
        fg_pool_free(pools[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
