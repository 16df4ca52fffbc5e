// tests/eval/kl_case.h: sequences in files, models, and their logits by another way, for the tests
// of teacher caches and of what is measured against them.
#ifndef FG_TESTS_KL_CASE_H
#define FG_TESTS_KL_CASE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/file.h"
#include "base/thread.h"
#include "eval/logits.h"
#include "eval/report.h"
#include "eval/sequences.h"
#include "format/npy.h"
#include "format/rows.h"
#include "quant/random.h"
#include "support/scratch.h"
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KC_MODELS FORGE_GOLDEN_DIR "/models"
#define KC_VOCAB 96 // of a-s0 and a-s1

static inline void kc_check(int rc, const struct fg_error *err)
{
    char line[1400];
    if (rc) fail_msg("%s", fg_error_line(err, line, sizeof line));
}

static inline struct forge_engine *kc_open(const char *name, enum forge_numerics numerics,
                                           int threads)
{
    char dir[512];
    struct fg_error err = {0};
    struct forge_engine *e;
    snprintf(dir, sizeof dir, KC_MODELS "/%s", name);
    const struct forge_engine_options o = {.model = dir, .threads = threads, .numerics = numerics};
    kc_check(forge_engine_open(&e, &o, &err), &err);
    return e;
}

static inline void kc_identity(const char *name, char hex[FG_SHA256_HEX])
{
    char dir[512];
    struct fg_error err = {0};
    struct fg_eval_identity id;
    snprintf(dir, sizeof dir, KC_MODELS "/%s", name);
    kc_check(fg_eval_identify(&id, dir, NULL, NULL, &err), &err);
    memcpy(hex, id.hex, sizeof id.hex);
}

// A trace of n sequences of random ids with two labels, or of rows of `seq`; opened from its file.
static inline void kc_trace(struct fg_eval_set *set, const char *path, const int32_t *lengths,
                            int64_t n, uint64_t seed)
{
    struct fg_error err = {0};
    struct fg_trace t = {.n = n, .n_labels = 2, .labels = {"code", "prose"}};
    struct fg_random r = fg_random_named(seed, "ids");
    for (int64_t i = 0; i < n; i++)
        t.total += lengths[i];
    t.ids = malloc((size_t)t.total * sizeof *t.ids);
    t.lengths = malloc((size_t)n * sizeof *t.lengths);
    t.plens = malloc((size_t)n * sizeof *t.plens);
    t.label = malloc((size_t)n);
    assert_true(t.ids && t.lengths && t.plens && t.label);
    for (int64_t i = 0; i < t.total; i++)
        t.ids[i] = (int32_t)fg_random_below(&r, KC_VOCAB);
    for (int64_t i = 0; i < n; i++) {
        t.lengths[i] = lengths[i];
        t.plens[i] = lengths[i] / 3;
        t.label[i] = i % 3 == 2;
    }
    kc_check(fg_trace_write(path, &t, NULL, &err), &err);
    fg_trace_free(&t);
    kc_check(fg_eval_set_open(set, &path, 1, KC_VOCAB, "", &err), &err);
}

static inline void kc_rows(const char *path, int64_t n, int64_t seq, uint64_t seed)
{
    struct fg_error err = {0};
    struct fg_random r = fg_random_named(seed, "ids");
    struct fg_rows rows = {.n = n, .seq = seq, .ids = malloc((size_t)(n * seq) * 4)};
    assert_non_null(rows.ids);
    for (int64_t i = 0; i < n * seq; i++)
        rows.ids[i] = (int32_t)fg_random_below(&r, KC_VOCAB);
    kc_check(fg_rows_write(path, &rows, NULL, &err), &err);
    fg_rows_free(&rows);
}

// Logits [length][vocab] of a sequence from an empty session, through fg_eval_logits.
static inline float *kc_logits(struct forge_engine *e, const struct fg_eval_seq *s,
                               struct scratch *scratch)
{
    struct fg_error err = {0};
    struct fg_npy npy;
    const char *path = scratch_path(scratch, "logits.npy");
    const struct fg_eval_logits job = {
        .ids = s->ids, .n = (size_t)s->length, .rows = 5, .out = path};
    kc_check(fg_eval_logits(e, &job, &err), &err);
    kc_check(fg_npy_open(&npy, path, &err), &err);
    size_t bytes = npy.n * sizeof(float);
    float *out = malloc(bytes);
    assert_non_null(out);
    memcpy(out, npy.data, bytes);
    fg_npy_close(&npy);
    return out;
}

// ln of the probabilities of a row, in long double.
static inline void kc_log_softmax(long double *out, const float *x, int64_t n)
{
    long double max = (long double)x[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        max = (long double)x[i] > max ? (long double)x[i] : max;
    for (int64_t i = 0; i < n; i++)
        sum += expl((long double)x[i] - max);
    for (int64_t i = 0; i < n; i++)
        out[i] = (long double)x[i] - max - logl(sum);
}

static inline struct fg_buf kc_read(const char *dir, const char *name)
{
    char path[600];
    struct fg_error err = {0};
    struct fg_buf b = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    kc_check(fg_file_load(&b, path, 1u << 28, &err), &err);
    return b;
}

// The same bytes in both directories?
static inline void kc_same(const char *a, const char *b, const char *name)
{
    struct fg_buf x = kc_read(a, name), y = kc_read(b, name);
    if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0) fail_msg("%s differs", name);
    fg_buf_free(&x);
    fg_buf_free(&y);
}

static inline void kc_write(const char *dir, const char *name, const struct fg_buf *b)
{
    char path[600];
    struct fg_error err = {0};
    snprintf(path, sizeof path, "%s/%s", dir, name);
    kc_check(fg_file_replace(path, b->data, b->len, &err), &err);
}

// "scratch/name" as the caller's to free.
static inline char *kc_path(struct scratch *s, const char *name)
{
    char *path = strdup(scratch_path(s, name));
    assert_non_null(path);
    return path;
}

static inline int kc_remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void kc_remove(const char *dir)
{
    nftw(dir, kc_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
#endif
