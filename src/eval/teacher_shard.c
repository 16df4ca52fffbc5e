// eval/teacher_shard.c: one shard of a teacher cache, checked whole.
#include "base/num.h"
#include "base/size.h"
#include "eval/teacher_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Sums of probabilities exceed 1 by the rounding of as many as are added: FP32, FP16.
#define SUM_MAX 1.0001
#define SUM_MAX_F16 1.01
#define LP_MAX 1e-6 // rounding may leave a probability above 1

void fg_teacher_shard_name(char out[FG_TEACHER_NAME_BYTES], int64_t i)
{
    snprintf(out, FG_TEACHER_NAME_BYTES, "teacher-%05" PRId64 ".safetensors", i);
}

static int find(const struct fg_teacher_shard *s, const char *name, enum fg_st_dtype dtype,
                int rank, const uint64_t *shape, const struct fg_st_tensor **out,
                struct fg_error *err)
{
    char expected[96], found[96], field[64];
    const char *path = fg_st_file_path(s->file);
    const struct fg_st_tensor *t = *out = fg_st_file_find(s->file, name);
    if (!t) return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, path, name, "a tensor", "none");
    bool same = t->dtype == dtype && t->rank == rank;
    int e = snprintf(expected, sizeof expected, "%s [", fg_st_dtype_name(dtype));
    int f = snprintf(found, sizeof found, "%s [", fg_st_dtype_name(t->dtype));
    for (int i = 0; i < rank; i++) {
        same = same && t->shape[i] == shape[i];
        e += snprintf(expected + e, sizeof expected - (size_t)e, "%s%" PRIu64, i ? ", " : "",
                      shape[i]);
    }
    for (int i = 0; i < t->rank && (size_t)f < sizeof found; i++)
        f +=
            snprintf(found + f, sizeof found - (size_t)f, "%s%" PRIu64, i ? ", " : "", t->shape[i]);
    if (same) return 0;
    snprintf(field, sizeof field, "tensor %s", name);
    snprintf(expected + e, sizeof expected - (size_t)e, "]");
    return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, path, field, expected, "%s]", found);
}

static int find_all(struct fg_teacher_shard *s, const struct fg_teacher_shape *w,
                    struct fg_error *err)
{
    uint64_t n = (uint64_t)w->n, p = (uint64_t)w->positions, k = (uint64_t)w->k;
    uint64_t seq = (uint64_t)w->seq;
    const uint64_t three[] = {n, w->rows ? seq - 1 : 0, k}, two[] = {p, k};
    const uint64_t *shape = w->rows ? three : two;
    int rank = w->rows ? 3 : 2;
    int rc = find(s, "ids", FG_ST_I32, rank, shape, &s->ids, err);
    if (!rc) rc = find(s, "lp", w->f16 ? FG_ST_F16 : FG_ST_F32, rank, shape, &s->lp, err);
    if (!rc) rc = find(s, "nll", FG_ST_F32, rank - 1, shape, &s->nll, err);
    return rc;
}

// starts, from `lengths` or the length of rows.
static int take_lengths(struct fg_teacher_shard *s, const struct fg_teacher_shape *w,
                        struct fg_error *err)
{
    const struct fg_st_tensor *t = NULL;
    const uint64_t shape[] = {(uint64_t)w->n};
    int rc = w->rows ? 0 : find(s, "lengths", FG_ST_I32, 1, shape, &t, err);
    if (rc) return rc;
    s->starts = malloc(((size_t)w->n + 1) * sizeof *s->starts);
    if (!s->starts) return fg_fail_memory(err, FG_TEACHER_WHAT, (uint64_t)w->n * 8);
    int64_t at = 0;
    for (int64_t i = 0; i < w->n; i++) {
        int32_t length = (int32_t)w->seq;
        if (t) memcpy(&length, t->data + 4 * i, sizeof length);
        if (length < 2) {
            char field[48];
            snprintf(field, sizeof field, "lengths[%" PRId64 "]", i);
            return fg_fail_range(err, FG_TEACHER_WHAT, fg_st_file_path(s->file), field, 2,
                                 INT32_MAX, length);
        }
        s->starts[i] = at;
        at += length - 1;
    }
    s->starts[w->n] = at;
    if (at == w->positions) return 0;
    char expected[64];
    snprintf(expected, sizeof expected, "%" PRId64 " positions", w->positions);
    return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, fg_st_file_path(s->file), "lengths", expected,
                   "%" PRId64, at);
}

static int bad(const struct fg_teacher_shard *s, const char *tensor, int64_t p, int64_t j,
               const char *expected, double found, struct fg_error *err)
{
    char field[80];
    snprintf(field, sizeof field, "%s at position %" PRId64 ", entry %" PRId64, tensor, p, j);
    return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, fg_st_file_path(s->file), field, expected,
                   "%.9g", found);
}

static float lp_at(const struct fg_teacher_shard *s, const struct fg_teacher_shape *w, int64_t i)
{
    uint16_t half;
    float v;
    if (w->f16) {
        memcpy(&half, s->lp->data + 2 * i, sizeof half);
        return fg_f16_to_f32(half);
    }
    memcpy(&v, s->lp->data + 4 * i, sizeof v);
    return v;
}

// Position p: `seen` [vocab] holds p + 1 for the ids that it has had.
static int check_position(const struct fg_teacher_shard *s, const struct fg_teacher_shape *w,
                          int64_t p, int64_t *seen, struct fg_error *err)
{
    double sum = 0, before = LP_MAX;
    float nll;
    memcpy(&nll, s->nll->data + 4 * p, sizeof nll);
    if (!isfinite(nll) || (double)nll < -LP_MAX)
        return bad(s, "nll", p, 0, "a finite number from 0 on", (double)nll, err);
    for (int64_t j = 0; j < w->k; j++) {
        int32_t id;
        memcpy(&id, s->ids->data + 4 * (p * w->k + j), sizeof id);
        if (id < 0 || id >= w->vocab)
            return bad(s, "ids", p, j, "an id of the vocabulary", id, err);
        if (seen[id] == p + 1) return bad(s, "ids", p, j, "each id once", id, err);
        seen[id] = p + 1;
        double lp = (double)lp_at(s, w, p * w->k + j);
        if (!isfinite(lp) || lp > before)
            return bad(s, "lp", p, j, "finite, at most 0 and descending", lp, err);
        before = lp;
        sum += exp(lp);
    }
    return sum <= (w->f16 ? SUM_MAX_F16 : SUM_MAX)
               ? 0
               : bad(s, "lp", p, w->k - 1, "probabilities of at most 1 together", sum, err);
}

static int check_values(const struct fg_teacher_shard *s, const struct fg_teacher_shape *w,
                        struct fg_error *err)
{
    int64_t *seen = calloc((size_t)w->vocab, sizeof *seen);
    int rc = seen ? 0 : fg_fail_memory(err, FG_TEACHER_WHAT, (uint64_t)w->vocab * sizeof *seen);
    for (int64_t p = 0; p < w->positions && !rc; p++)
        rc = check_position(s, w, p, seen, err);
    free(seen);
    return rc;
}

int fg_teacher_shard_open(struct fg_teacher_shard *s, const char *path,
                          const struct fg_teacher_shape *shape, struct fg_error *err)
{
    *s = (struct fg_teacher_shard){0};
    int rc = fg_st_file_open(&s->file, FG_TEACHER_WHAT, path, err);
    if (!rc) rc = find_all(s, shape, err);
    if (!rc) rc = take_lengths(s, shape, err);
    if (!rc) rc = check_values(s, shape, err);
    if (rc) fg_teacher_shard_close(s);
    return rc;
}

void fg_teacher_shard_close(struct fg_teacher_shard *s)
{
    fg_st_file_close(s->file);
    free(s->starts);
    *s = (struct fg_teacher_shard){0};
}
