// tests/runtime/session_case.h: what the tests of sessions share: a tiny checkpoint with a text,
// all of whose outputs are known from one call, sessions over it, and comparison of all that they
// hold.
#ifndef FG_TESTS_SESSION_CASE_H
#define FG_TESTS_SESSION_CASE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs those first
#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "quant/random.h"
#include "runtime/session_impl.h"
#include "support/scratch.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Numerics and how keys and values are stored.
struct kind {
    bool fast;
    enum fg_kv_format kv;
    bool rotated;
};

static const struct kind kinds[] = {
    {false, FG_KV_F32, false}, {false, FG_KV_FP16, true}, {false, FG_KV_V8, false},
    {false, FG_KV_KV8, true},  {true, FG_KV_F32, false},  {true, FG_KV_FP16, false},
    {true, FG_KV_V8, true},    {true, FG_KV_KV8, true},   {true, FG_KV_KV8, false},
};

#define CASE_ENTRIES_MAX 4

struct fixture {
    struct scratch tmp;
    struct fg_model *m;
    struct fg_pool *pool;
    const struct fg_kernels *kernels;
    struct kind kind;
    int64_t entries[CASE_ENTRIES_MAX]; // of the sessions to come
    int n_entries;
    enum fg_kv_backing backing;
    int64_t verify_max;
    struct fg_log log;
    uint64_t reserve_bytes;
    // The text, and what one call over it gives.
    int64_t n;
    int32_t *ids;
    float *logits; // [n][vocab]
    float *taps;   // [n][layers][hidden]
    struct fg_session *whole;
};

static inline void must(int rc, const struct fg_error *err)
{
    char line[1024];
    if (rc) fail_msg("rc %d: %s", rc, fg_error_line(err, line, sizeof line));
}

// The committed checkpoint, as it is or, where `positions` is not 0, a copy that has so many.
static inline void open_model(struct fixture *f, const char *name, int64_t positions)
{
    static const char key[] = "\"max_position_embeddings\":";
    struct fg_error err = {0};
    struct fg_buf text = {0}, config = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s", FORGE_GOLDEN_DIR, name);
    if (positions) {
        char file[600];
        snprintf(file, sizeof file, "%s/config.json", path);
        must(fg_file_read(&text, file, 1u << 20, &err), &err);
        fg_buf_add(&text, "", 1);
        char *at = strstr((char *)text.data, key);
        assert_non_null(at);
        char *end = at + strcspn(at, ",}\n");
        fg_buf_printf(&config, "%.*s%s %" PRId64 "%s", (int)(at - (char *)text.data),
                      (char *)text.data, key, positions, end);
        scratch_write(&f->tmp, "config.json", config.data, config.len);
        fg_buf_free(&text);
        fg_buf_free(&config);
        snprintf(file, sizeof file, "%s/model.safetensors", path);
        must(fg_file_read(&text, file, 1u << 24, &err), &err);
        scratch_write(&f->tmp, "model.safetensors", text.data, text.len);
        fg_buf_free(&text);
        snprintf(path, sizeof path, "%s", f->tmp.dir);
    }
    must(fg_model_open(&f->m, path, true, NULL, &err), &err);
}

static inline struct fg_session *session(const struct fixture *f, int64_t rows_max)
{
    struct fg_session *s;
    struct fg_error err = {0};
    const struct fg_session_options o = {.kernels = f->kernels,
                                         .pool = f->pool,
                                         .fast = f->kind.fast,
                                         .kv = f->kind.kv,
                                         .rotated = f->kind.rotated,
                                         .backing = f->backing,
                                         .entries = f->entries,
                                         .n_entries = f->n_entries,
                                         .rows_max = rows_max,
                                         .verify_max = f->verify_max,
                                         .reserve_bytes = f->reserve_bytes,
                                         .log = f->log};
    int64_t layers[64];
    must(fg_session_new(&s, f->m, &o, &err), &err);
    for (int64_t i = 0; i < f->m->config.n_layers; i++)
        layers[i] = i;
    must(fg_session_set_layer_taps(s, layers, f->m->config.n_layers, &err), &err);
    return s;
}

static inline size_t vocab(const struct fixture *f)
{
    return (size_t)f->m->config.vocab;
}

static inline size_t tap_floats(const struct fixture *f)
{
    return (size_t)(f->m->config.n_layers * f->m->config.hidden);
}

// Text of n tokens; positions 0: those that the checkpoint has.
static inline void open_case(struct fixture *f, const char *name, struct kind kind, int64_t n,
                             int64_t positions, int threads)
{
    struct fg_error err = {0};
    *f = (struct fixture){.kind = kind, .n = n, .n_entries = 1};
    scratch_open(&f->tmp);
    open_model(f, name, positions);
    const int64_t D = f->m->config.head_dim;
    if ((D & (D - 1)) != 0) f->kind.rotated = false;
    f->entries[0] = n + 1024 < f->m->config.max_positions ? n + 1024 : f->m->config.max_positions;
    must(fg_pool_new(&f->pool, threads, &err), &err);
    must(fg_kernels_get(&f->kernels, NULL, &err), &err);
    f->ids = calloc((size_t)n, sizeof *f->ids);
    for (int64_t i = 0; i < n; i++)
        f->ids[i] = (int32_t)((i * 7919 + i * i) % f->m->config.vocab);
    f->logits = calloc((size_t)n * vocab(f), sizeof(float));
    f->taps = calloc((size_t)n * tap_floats(f), sizeof(float));
    f->whole = session(f, n);
    must(fg_session_feed(
             f->whole,
             &(struct fg_feed){
                 .ids = f->ids, .n = n, .logits = f->logits, .n_out = n, .taps = f->taps},
             &err),
         &err);
}

static inline void close_case(struct fixture *f)
{
    free(f->ids);
    free(f->logits);
    free(f->taps);
    fg_session_free(f->whole);
    fg_model_close(f->m);
    fg_pool_free(f->pool);
    scratch_close(&f->tmp);
}

// ---- calls, compared with the whole

// Outputs of rows of the text from `at` on, bit for bit.
static inline void check_rows(const struct fixture *f, int64_t at, int64_t n, const float *logits,
                              const float *taps)
{
    const size_t V = vocab(f), X = tap_floats(f);
    for (size_t i = 0; i < (size_t)n; i++) {
        if (logits &&
            memcmp(logits + i * V, f->logits + ((size_t)at + i) * V, V * sizeof(float)) != 0)
            fail_msg("logits of row %" PRId64 " differ", at + (int64_t)i);
        if (taps && memcmp(taps + i * X, f->taps + ((size_t)at + i) * X, X * sizeof(float)) != 0)
            fail_msg("taps of row %" PRId64 " differ", at + (int64_t)i);
    }
}

// Feeds the text up to `to` in calls of `step` rows.
static inline void feed_to(const struct fixture *f, struct fg_session *s, int64_t to, int64_t step)
{
    struct fg_error err = {0};
    float *out = calloc((size_t)step * vocab(f), sizeof *out);
    float *taps = calloc((size_t)step * tap_floats(f), sizeof *taps);
    while (fg_session_pos(s) < to) {
        const int64_t at = fg_session_pos(s), n = to - at < step ? to - at : step;
        const struct fg_feed feed = {
            .ids = f->ids + at, .n = n, .logits = out, .n_out = n, .taps = taps};
        must(fg_session_feed(s, &feed, &err), &err);
        assert_int_equal(fg_session_pos(s), at + n);
        check_rows(f, at, n, out, taps);
    }
    free(out);
    free(taps);
}

// Tries n rows, of which the first `right` are the text's and the others are not.
static inline void try_rows(const struct fixture *f, struct fg_session *s, int64_t n, int64_t right)
{
    struct fg_error err = {0};
    const int64_t at = fg_session_pos(s);
    int32_t ids[FG_SESSION_VERIFY_MAX];
    float *out = calloc(FG_SESSION_VERIFY_MAX * vocab(f), sizeof *out);
    float *taps = calloc(FG_SESSION_VERIFY_MAX * tap_floats(f), sizeof *taps);
    for (int64_t i = 0; i < n; i++) {
        int32_t id = at + i < f->n ? f->ids[at + i] : 0;
        ids[i] = i < right ? id : (int32_t)((id + 1 + i) % f->m->config.vocab);
    }
    const struct fg_feed feed = {.ids = ids, .n = n, .logits = out, .n_out = n, .taps = taps};
    must(fg_session_verify(s, &feed, &err), &err);
    assert_int_equal(fg_session_pos(s), at);
    assert_int_equal(fg_session_tried(s), n);
    check_rows(f, at, right, out, taps);
    free(out);
    free(taps);
}

static inline void accept_rows(struct fg_session *s, int64_t k)
{
    struct fg_error err = {0};
    const int64_t at = fg_session_pos(s);
    must(fg_session_accept(s, k, &err), &err);
    assert_int_equal(fg_session_pos(s), at + k);
    assert_int_equal(fg_session_tried(s), 0);
}

// Up to `to` by rows that are tried, some of them wrong, with other calls in between.
static inline void cycle_to(const struct fixture *f, struct fg_session *s, int64_t to,
                            uint64_t seed)
{
    struct fg_random r = fg_random_seeded(seed);
    while (fg_session_pos(s) < to) {
        const int64_t left = to - fg_session_pos(s), T = s->options.verify_max;
        int64_t n = 1 + (int64_t)fg_random_below(&r, (uint64_t)T), k;
        if (n > f->entries[f->n_entries - 1] - fg_session_pos(s))
            n = f->entries[f->n_entries - 1] - fg_session_pos(s);
        k = (int64_t)fg_random_below(&r, (uint64_t)(n < left ? n : left) + 1);
        switch (fg_random_below(&r, 8)) {
        case 0: feed_to(f, s, fg_session_pos(s) + (left < 3 ? left : 3), 1); continue;
        case 1: fg_session_flush(s); continue;
        case 2: try_rows(f, s, n, 0); break; // replaced
        default: break;
        }
        try_rows(f, s, n, k);
        accept_rows(s, k);
    }
}

// ---- all that a session holds

// Rows of keys and values as files have them.
struct rows_image {
    void *k, *v;
    uint16_t *ks, *vs;
};

static inline size_t part_bytes(const struct fg_kv_head *h, bool int8, int64_t n)
{
    return (size_t)(n * h->D) * (int8 ? 1 : h->format == FG_KV_F32 ? 4 : 2);
}

static inline struct rows_image image_new(const struct fg_kv_head *h, int64_t n)
{
    struct rows_image im = {.k = malloc(part_bytes(h, fg_kv_k8(h->format), n) + 1),
                            .v = malloc(part_bytes(h, fg_kv_v8(h->format), n) + 1)};
    if (fg_kv_k8(h->format)) im.ks = malloc((size_t)n * sizeof *im.ks + 1);
    if (fg_kv_v8(h->format)) im.vs = malloc((size_t)n * sizeof *im.vs + 1);
    return im;
}

static inline void image_free(struct rows_image *im)
{
    free(im->k);
    free(im->v);
    free(im->ks);
    free(im->vs);
}

static inline void check_kv(const struct fg_kv_head *a, const struct fg_kv_head *b, int64_t n)
{
    struct rows_image x = image_new(a, n), y = image_new(b, n);
    fg_kv_export(a, 0, n, x.k, x.ks, x.v, x.vs);
    fg_kv_export(b, 0, n, y.k, y.ks, y.v, y.vs);
    assert_memory_equal(x.k, y.k, part_bytes(a, fg_kv_k8(a->format), n));
    assert_memory_equal(x.v, y.v, part_bytes(a, fg_kv_v8(a->format), n));
    if (x.ks) assert_memory_equal(x.ks, y.ks, (size_t)n * sizeof *x.ks);
    if (x.vs) assert_memory_equal(x.vs, y.vs, (size_t)n * sizeof *x.vs);
    image_free(&x);
    image_free(&y);
}

// Flushes both; position, ids, states, keys and values are then the same bits.
static inline void check_same(struct fg_session *a, struct fg_session *b)
{
    const struct fg_config *c = &a->model->config;
    fg_session_flush(a);
    fg_session_flush(b);
    const int64_t pos = fg_session_pos(a);
    assert_int_equal(pos, fg_session_pos(b));
    assert_memory_equal(fg_session_ids(a), fg_session_ids(b), (size_t)pos * sizeof(int32_t));
    assert_int_equal(a->state_floats, b->state_floats);
    if (memcmp(a->states[a->state.cur], b->states[b->state.cur],
               (size_t)a->state_floats * sizeof(float)) != 0)
        fail_msg("recurrent states differ at position %" PRId64, pos);
    for (int64_t i = 0; i < c->n_layers && pos > 0; i++)
        for (int64_t h = 0; !c->is_linear[i] && h < c->n_kv_heads; h++)
            check_kv(&a->state.layers[i].kv[h], &b->state.layers[i].kv[h], pos);
}

// All keys and values from pos on become NaN.
static inline void poison(struct fg_session *s)
{
    const struct fg_config *c = &s->model->config;
    const int64_t pos = fg_session_pos(s), n = s->kv ? fg_kv_rows(s->kv) - pos : 0;
    for (int64_t i = 0; i < c->n_layers && n > 0; i++) {
        for (int64_t h = 0; !c->is_linear[i] && h < c->n_kv_heads; h++) {
            const struct fg_kv_head *head = &s->state.layers[i].kv[h];
            struct rows_image im = image_new(head, n);
            const bool k8 = fg_kv_k8(head->format), v8 = fg_kv_v8(head->format);
            memset(im.k, k8 ? 0x7F : 0xFF, part_bytes(head, k8, n)); // 0xFF..: NaN
            memset(im.v, v8 ? 0x7F : 0xFF, part_bytes(head, v8, n));
            for (int64_t t = 0; t < n; t++) {
                if (im.ks) im.ks[t] = 0x7E00;
                if (im.vs) im.vs[t] = 0x7E00;
            }
            fg_kv_import(head, pos, n, im.k, im.ks, im.v, im.vs);
            image_free(&im);
        }
    }
}
#endif
