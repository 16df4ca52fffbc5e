// train/walk.c: calibration rows through the layers. Files of the residual are in walk_file.c.
#include "train/walk.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/num.h"
#include "model/graph.h"
#include "model/layerwise.h"
#include "quant/dequant.h"
#include "quant/signs.h"
#include "train/walk_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "calibration"
#define BATCH_TOKENS 1024 // of a forward call: enough for the products, little memory
#define CHUNK 65536       // elements per item of loops over the residual

// ---- loops over elements

struct convert {
    uint16_t *half;
    float *wide;
    int64_t n;
};

static void widen_chunk(void *ctx, int64_t item, int worker)
{
    const struct convert *c = ctx;
    const int64_t end = (item + 1) * CHUNK < c->n ? (item + 1) * CHUNK : c->n;
    (void)worker;
    for (int64_t i = item * CHUNK; i < end; i++)
        c->wide[i] = fg_bf16_to_f32(c->half[i]);
}

static void narrow_chunk(void *ctx, int64_t item, int worker)
{
    const struct convert *c = ctx;
    const int64_t end = (item + 1) * CHUNK < c->n ? (item + 1) * CHUNK : c->n;
    (void)worker;
    for (int64_t i = item * CHUNK; i < end; i++)
        c->half[i] = fg_bf16_of_f32(c->wide[i]);
}

// ---- the residual

static int64_t sequence_floats(const struct fg_walk *w)
{
    return w->o.calib->seq * w->o.model->config.hidden;
}

// Rows [i, i + n) of calibration as FP32: the residual itself, or a copy in w->x.
static float *load(struct fg_walk *w, int64_t i, int64_t n)
{
    const int64_t each = sequence_floats(w);
    if (w->h) return w->h + i * each;
    struct convert c = {w->h16 + i * each, w->x, n * each};
    fg_pool_run(w->o.pool, (c.n + CHUNK - 1) / CHUNK, widen_chunk, &c);
    return w->x;
}

static void store(struct fg_walk *w, int64_t i, int64_t n, float *x)
{
    const int64_t each = sequence_floats(w);
    if (w->h) return;
    struct convert c = {w->h16 + i * each, x, n * each};
    fg_pool_run(w->o.pool, (c.n + CHUNK - 1) / CHUNK, narrow_chunk, &c);
}

struct plus {
    float *x;
    const float *y;
    int64_t n;
    bool *bad; // [items]
};

static void add_chunk(void *ctx, int64_t item, int worker)
{
    const struct plus *p = ctx;
    const int64_t end = (item + 1) * CHUNK < p->n ? (item + 1) * CHUNK : p->n;
    float sum = 0.0f;
    (void)worker;
    for (int64_t i = item * CHUNK; i < end; i++) {
        p->x[i] += p->y[i];
        sum += p->x[i] * 0.0f; // NaN and infinity give NaN
    }
    p->bad[item] = !(sum == 0.0f);
}

// x += y over n calibration rows.
static int add(struct fg_walk *w, float *x, const float *y, int64_t n, struct fg_error *err)
{
    struct plus p = {x, y, n * sequence_floats(w), w->bad};
    const int64_t items = (p.n + CHUNK - 1) / CHUNK;
    fg_pool_run(w->o.pool, items, add_chunk, &p);
    for (int64_t i = 0; i < items; i++) {
        if (w->bad[i])
            return fg_fail(err, FG_EFAILED, WHAT, w->o.model->path, NULL,
                           "finite values in every row", "NaN or infinity behind layer %" PRId64,
                           w->layer);
    }
    return 0;
}

static int64_t batch_at(const struct fg_walk *w, int64_t i)
{
    return w->o.calib->n - i < w->o.batch ? w->o.calib->n - i : w->o.batch;
}

// ---- making one

// As model/embed.h gives them while running: the same product.
static void embed_rows(const struct fg_qmat *m, const int32_t *ids, int64_t n, float *x)
{
    for (int64_t t = 0; t < n; t++)
        fg_qmat_dequantize(x + t * m->cols, m, ids[t], (int64_t)ids[t] + 1);
}

int fg_walk_new(struct fg_walk **out, const struct fg_walk_options *o, struct fg_error *err)
{
    const struct fg_config *c = &o->model->config;
    const struct fg_calib *cal = o->calib;
    *out = NULL;
    struct fg_walk *w = calloc(1, sizeof *w);
    if (!w) return fg_fail_memory(err, WHAT, sizeof *w);
    w->o = *o;
    if (w->o.batch < 1) w->o.batch = BATCH_TOKENS / cal->seq;
    if (w->o.batch < 1) w->o.batch = 1;
    if (w->o.batch > FG_CALL_SPANS_MAX) w->o.batch = FG_CALL_SPANS_MAX;
    if (w->o.batch > cal->n) w->o.batch = cal->n;
    w->view = *o->model;
    w->view.weights.layers = calloc((uint64_t)c->n_layers, sizeof *w->view.weights.layers);
    const uint64_t each = (uint64_t)sequence_floats(w), n = (uint64_t)cal->n * each;
    if (o->bf16_state) {
        w->h16 = fg_alloc_aligned(n * sizeof *w->h16);
        w->x = fg_alloc_aligned((uint64_t)w->o.batch * each * sizeof *w->x);
    } else {
        w->h = fg_alloc_aligned(n * sizeof *w->h);
    }
    w->bad = calloc((uint64_t)w->o.batch * each / CHUNK + 1, sizeof *w->bad);
    int rc = 0;
    if (!w->view.weights.layers || !w->bad || !(w->h || (w->h16 && w->x)))
        rc = fg_fail_memory(err, WHAT, n * (o->bf16_state ? 2 : 4));
    if (!rc) {
        memcpy(w->view.weights.layers, o->model->weights.layers,
               (uint64_t)c->n_layers * sizeof *w->view.weights.layers);
        const struct fg_layerwise_options lo = {
            .kernels = o->kernels, .pool = o->pool, .seq = cal->seq, .batch = w->o.batch};
        rc = fg_layerwise_new(&w->lw, &w->view, &lo, err);
    }
    for (int64_t i = 0; i < cal->n && !rc; i += w->o.batch) {
        const int64_t b = batch_at(w, i);
        float *x = w->h ? w->h + i * (int64_t)each : w->x;
        if (o->embed)
            embed_rows(o->embed, cal->ids + i * cal->seq, b * cal->seq, x);
        else
            fg_layerwise_embed(w->lw, cal->ids + i * cal->seq, b, x);
        store(w, i, b, x);
    }
    if (rc) {
        fg_walk_free(w);
        return rc;
    }
    *out = w;
    return 0;
}

static void drop_replacements(struct fg_walk *w)
{
    for (int i = 0; i < w->n_replaced; i++)
        free(w->replaced[i]);
    w->n_replaced = 0;
    free(w->mlp_reference);
    w->mlp_reference = NULL;
}

static void drop_site(struct fg_walk *w)
{
    fg_hessian_free(&w->hessian);
    free(w->held);
    w->held = NULL;
    w->group = FG_WALK_NONE;
}

void fg_walk_free(struct fg_walk *w)
{
    if (!w) return;
    drop_replacements(w);
    drop_site(w);
    fg_layerwise_free(w->lw);
    free(w->view.weights.layers);
    free(w->h);
    free(w->h16);
    free(w->x);
    free(w->bad);
    free(w);
}

uint64_t fg_walk_bytes(const struct fg_config *c, int64_t rows, int64_t seq, int64_t held,
                       bool bf16_state, int64_t batch, int64_t width)
{
    if (batch < 1) batch = BATCH_TOKENS / seq > 1 ? BATCH_TOKENS / seq : 1;
    if (batch > rows) batch = rows;
    const uint64_t H = (uint64_t)c->hidden, n = (uint64_t)width;
    const uint64_t each = (uint64_t)seq * H * sizeof(float);
    uint64_t bytes =
        bf16_state ? (uint64_t)rows * each / 2 + (uint64_t)batch * each : (uint64_t)rows * each;
    bytes += fg_layerwise_bytes(c, seq, batch);
    bytes += n * n * sizeof(double) + FG_HESSIAN_SLAB * n * sizeof(float);
    bytes += (uint64_t)(held * seq) * (n + H) * sizeof(float);
    return bytes;
}

int64_t fg_walk_layer(const struct fg_walk *w)
{
    return w->layer;
}

// ---- places of matrices

static enum fg_walk_group group_of(const struct fg_plan_mat *m)
{
    switch (m->part) {
    case FG_PLAN_OUT:
    case FG_PLAN_O: return FG_WALK_MIX_OUT;
    case FG_PLAN_GATE:
    case FG_PLAN_UP: return FG_WALK_MLP_IN;
    case FG_PLAN_DOWN: return FG_WALK_MLP_MID;
    case FG_PLAN_HEAD: return FG_WALK_HEAD;
    default: return FG_WALK_MIX_IN;
    }
}

static struct fg_mat *matrix_of(struct fg_layer *l, enum fg_plan_part part)
{
    switch (part) {
    case FG_PLAN_GATE: return &l->gate;
    case FG_PLAN_UP: return &l->up;
    case FG_PLAN_DOWN: return &l->down;
    case FG_PLAN_QKV: return &l->qkv;
    case FG_PLAN_Z: return &l->z;
    case FG_PLAN_OUT: return &l->out;
    case FG_PLAN_Q: return &l->q;
    case FG_PLAN_K: return &l->k;
    case FG_PLAN_V: return &l->v;
    case FG_PLAN_O: return &l->o;
    default: return NULL;
    }
}

static int tick(struct fg_walk *w, const char *what, int64_t done, struct fg_error *err)
{
    char item[96];
    if (!w->o.tick) return 0;
    if (w->layer < w->o.model->config.n_layers)
        snprintf(item, sizeof item, "layer %" PRId64 ": %s, row %" PRId64 " of %" PRId64, w->layer,
                 what, done, w->o.calib->n);
    else
        snprintf(item, sizeof item, "%s, row %" PRId64 " of %" PRId64, what, done, w->o.calib->n);
    return w->o.tick(w->o.ctx, item, err);
}

// ---- passing on

// MLP outputs of held-out rows with the matrices as they are now, [n_held][seq][hidden]; a
// replacement of any comes later.
static int keep_reference(struct fg_walk *w, struct fg_error *err)
{
    const struct fg_calib *cal = w->o.calib;
    const int64_t each = sequence_floats(w);
    if (cal->n_held == 0) return 0;
    const uint64_t bytes = (uint64_t)(cal->n_held * each) * sizeof(float);
    w->mlp_reference = fg_alloc_aligned(bytes);
    if (!w->mlp_reference) return fg_fail_memory(err, WHAT, bytes);
    int64_t at = 0;
    for (int64_t i = 0; i < cal->n; i++) {
        if (!cal->held[i]) continue;
        const float *x = load(w, i, 1);
        memcpy(w->mlp_reference + at * each, fg_layerwise_mlp(w->lw, (int)w->layer, x, 1),
               (size_t)each * sizeof *x);
        at++;
    }
    return 0;
}

// The residual of all rows behind the mixer.
static int pass_mixer(struct fg_walk *w, struct fg_error *err)
{
    int rc = 0;
    if (w->mixed) return 0;
    drop_site(w);
    for (int64_t i = 0; i < w->o.calib->n && !rc; i += w->o.batch) {
        const int64_t n = batch_at(w, i);
        rc = tick(w, "mixer", i, err);
        if (rc) break;
        float *x = load(w, i, n);
        rc = add(w, x, fg_layerwise_mixer(w->lw, (int)w->layer, x, n), n, err);
        if (!rc) store(w, i, n, x);
    }
    // A stream that is stopped half-way is not used again: the job goes on from a file.
    w->mixed = rc == 0;
    return rc ? rc : keep_reference(w, err);
}

// Of the output y of n rows from row i on: error of held-out ones against the reference.
static void compare_reference(struct fg_walk *w, int64_t i, int64_t n, const float *y,
                              int64_t *held_at, double *signal, double *noise)
{
    const int64_t each = sequence_floats(w);
    for (int64_t k = 0; k < n; k++) {
        if (!w->o.calib->held[i + k]) continue;
        const float *want = w->mlp_reference + (*held_at)++ * each;
        for (int64_t j = 0; j < each; j++) {
            const double d = (double)want[j] - y[k * each + j];
            *signal += (double)want[j] * want[j];
            *noise += d * d;
        }
    }
}

static void release_layer(const struct fg_walk *w)
{
    const struct fg_layer *l = &w->o.model->weights.layers[w->layer];
    const struct fg_mat *mats[] = {&l->q, &l->k, &l->v,   &l->o,    &l->qkv, &l->z,
                                   &l->b, &l->a, &l->out, &l->gate, &l->up,  &l->down};
    if (!w->o.model->checkpoint) return; // a GGUF's tensors may be memory of our own
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        if (mats[i]->data)
            fg_map_release(mats[i]->data, (uint64_t)(mats[i]->n_out * mats[i]->n_in) *
                                              fg_dtype_bytes(mats[i]->dtype));
    }
}

int fg_walk_next(struct fg_walk *w, double *mlp_snr_db, struct fg_error *err)
{
    double signal = 0, noise = 0;
    int64_t held_at = 0;
    int rc = pass_mixer(w, err);
    const bool compare = w->mlp_reference != NULL && w->n_replaced > 0;
    drop_site(w);
    for (int64_t i = 0; i < w->o.calib->n && !rc; i += w->o.batch) {
        const int64_t n = batch_at(w, i);
        rc = tick(w, "MLP", i, err);
        if (rc) break;
        float *x = load(w, i, n);
        const float *y = fg_layerwise_mlp(w->lw, (int)w->layer, x, n);
        if (compare) compare_reference(w, i, n, y, &held_at, &signal, &noise);
        rc = add(w, x, y, n, err);
        if (!rc) store(w, i, n, x);
    }
    if (rc) return rc;
    if (mlp_snr_db) *mlp_snr_db = compare ? 10 * log10(signal / noise) : NAN;
    release_layer(w);
    drop_replacements(w);
    w->view.weights.layers[w->layer] = w->o.model->weights.layers[w->layer];
    w->layer++;
    w->mixed = false;
    return 0;
}

int fg_walk_replace(struct fg_walk *w, const struct fg_plan_mat *m, float *W, struct fg_error *err)
{
    int rc = 0;
    if (group_of(m) >= FG_WALK_MLP_IN && m->layer >= 0) rc = pass_mixer(w, err);
    struct fg_mat *mat =
        rc || m->layer < 0 ? NULL : matrix_of(&w->view.weights.layers[m->layer], m->part);
    if (!mat || w->n_replaced == FG_WALK_REPLACED_MAX) { // the head: nothing comes behind it
        free(W);
        return rc;
    }
    w->replaced[w->n_replaced++] = W;
    *mat = (struct fg_mat){.data = W, .dtype = FG_F32, .n_out = m->rows, .n_in = m->cols};
    return 0;
}

// ---- sums

// Rows on their way into H.
struct capture {
    float *slab;     // [slab_rows][width]
    int64_t n, most; // sequences in it, at most
    int64_t n_held;  // sequences
    int64_t width;
    const struct fg_plan_mat *m;
    const uint8_t *signs; // NULL: plain
};

static void rotate(const struct fg_walk *w, const struct capture *c, float *x, int64_t rows)
{
    if (c->signs) fg_rotate_rows(x, rows, c->width, c->signs, c->m->block, w->o.kernels, w->o.pool);
}

static int flush(struct fg_walk *w, struct capture *c, struct fg_error *err)
{
    int rc = 0;
    const int64_t rows = c->n * w->o.calib->seq;
    rotate(w, c, c->slab, rows);
    for (int64_t r = 0; r < rows && !rc; r += FG_HESSIAN_SLAB) {
        const int64_t n = rows - r < FG_HESSIAN_SLAB ? rows - r : FG_HESSIAN_SLAB;
        rc = fg_hessian_add(&w->hessian, c->slab + r * c->width, n, w->o.pool, err);
    }
    c->n = 0;
    return rc;
}

static int keep(struct fg_walk *w, struct capture *c, int64_t i, int64_t n, const float *rows,
                struct fg_error *err)
{
    const int64_t each = w->o.calib->seq * c->width;
    int rc = 0;
    for (int64_t k = 0; k < n && !rc; k++) {
        const bool held = w->o.calib->held[i + k];
        float *to = held ? w->held + c->n_held++ * each : c->slab + c->n++ * each;
        memcpy(to, rows + k * each, (size_t)each * sizeof *to);
        if (c->n == c->most) rc = flush(w, c, err);
    }
    return rc;
}

static float *rows_of(struct fg_walk *w, enum fg_walk_group group, const float *x, int64_t n)
{
    const int layer = (int)w->layer;
    switch (group) {
    case FG_WALK_MIX_IN: return fg_layerwise_mixer_input(w->lw, layer, x, n);
    case FG_WALK_MIX_OUT: return fg_layerwise_mixer_inner(w->lw, layer, x, n);
    case FG_WALK_MLP_IN: return fg_layerwise_mlp_input(w->lw, layer, x, n);
    case FG_WALK_MLP_MID: return fg_layerwise_mlp_inner(w->lw, layer, x, n);
    default: return fg_layerwise_head_input(w->lw, x, n);
    }
}

static void add_ridge(struct fg_hessian *h, double share)
{
    double trace = 0;
    for (int64_t i = 0; i < h->n; i++)
        trace += h->H[i * h->n + i];
    for (int64_t i = 0; i < h->n; i++)
        h->H[i * h->n + i] += share * (trace / (double)h->n);
}

static int sum(struct fg_walk *w, enum fg_walk_group group, struct capture *c, struct fg_error *err)
{
    static const char *const names[] = {"",
                                        "input of the mixer",
                                        "output of the mixer",
                                        "input of the MLP",
                                        "middle of the MLP",
                                        "input of the head"};
    const struct fg_calib *cal = w->o.calib;
    int rc = 0;
    for (int64_t i = 0; i < cal->n && !rc; i += w->o.batch) {
        const int64_t n = batch_at(w, i);
        rc = tick(w, names[group], i, err);
        if (!rc) rc = keep(w, c, i, n, rows_of(w, group, load(w, i, n), n), err);
    }
    if (!rc && c->n > 0) rc = flush(w, c, err);
    if (rc) return rc;
    fg_hessian_finish(&w->hessian, w->o.pool);
    if (group == FG_WALK_HEAD && w->o.head_ridge > 0) add_ridge(&w->hessian, w->o.head_ridge);
    rotate(w, c, w->held, c->n_held * cal->seq);
    return 0;
}

static int capture(struct fg_walk *w, enum fg_walk_group group, const struct fg_plan_mat *m,
                   struct fg_error *err)
{
    const struct fg_calib *cal = w->o.calib;
    struct capture c = {.width = m->cols, .m = m};
    uint8_t *signs = NULL;
    drop_site(w);
    c.most = FG_HESSIAN_SLAB / cal->seq > 1 ? FG_HESSIAN_SLAB / cal->seq : 1;
    const uint64_t each = (uint64_t)(cal->seq * m->cols) * sizeof(float);
    c.slab = fg_alloc_aligned((uint64_t)c.most * each);
    w->held = fg_alloc_aligned((uint64_t)(cal->n_held + 1) * each);
    int rc = c.slab && w->held ? fg_hessian_new(&w->hessian, m->cols, err)
                               : fg_fail_memory(err, WHAT, (uint64_t)c.most * each);
    if (!rc && m->site) {
        signs = malloc((uint64_t)(m->cols + 7) / 8);
        if (!signs) rc = fg_fail_memory(err, WHAT, (uint64_t)m->cols);
    }
    if (!rc) {
        if (signs) fg_signs_splitmix64(signs, m->seed, m->cols);
        c.signs = signs;
        rc = sum(w, group, &c, err);
    }
    free(signs);
    free(c.slab);
    if (rc) {
        drop_site(w);
        return rc;
    }
    w->group = group;
    w->rotated = m->site != NULL;
    w->serial++;
    return 0;
}

int fg_walk_site(struct fg_walk *w, const struct fg_plan_mat *m, struct fg_walk_site *out,
                 struct fg_error *err)
{
    const enum fg_walk_group group = group_of(m);
    int rc = 0;
    if (group == FG_WALK_MLP_IN || group == FG_WALK_MLP_MID) rc = pass_mixer(w, err);
    if (!rc && (w->group != group || w->rotated != (m->site != NULL)))
        rc = capture(w, group, m, err);
    if (rc) return rc;
    const int64_t n_held = w->o.calib->n_held * w->o.calib->seq;
    *out = (struct fg_walk_site){
        .H = &w->hessian, .held = n_held ? w->held : NULL, .n_held = n_held, .serial = w->serial};
    return 0;
}
