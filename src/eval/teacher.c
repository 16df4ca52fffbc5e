// eval/teacher.c: the cache is made shard by shard: sequences through one session, blocks of rows,
// each row's best entries by the pool. What a shard says of its job lets a later run take it.
#include "base/arena.h"
#include "base/file.h"
#include "base/job_dir.h"
#include "base/jwrite.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/size.h"
#include "eval/logprob.h"
#include "eval/report.h"
#include "eval/teacher_impl.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_FACTS 8

static const char *const owned[] = {"index.json", "teacher-*.safetensors", NULL};

// Sequences [first, first + n).
struct cut {
    int64_t first, n, positions;
    uint64_t bytes;
    char sha256[FG_SHA256_HEX];
};

struct make {
    const struct fg_teacher_job *job;
    struct fg_teacher_result *result;
    int64_t k, vocab;
    char k_text[24];
    struct fg_job_fact facts[N_FACTS];
    char job_hex[FG_SHA256_HEX]; // of the facts
    struct cut *cuts;
    int64_t n_cuts;
    struct forge_session *session;
    float *logits; // [block][vocab]
    // Of the shard at work: [positions][k], [positions].
    int32_t *ids;
    float *lp, *nll;
    uint16_t *half;   // lp in FP16
    int32_t *lengths; // [n]
    int64_t done;     // positions
    double nll_sum;
    int64_t nll_n;
    bool stopped;
};

// ---- rows of a block

struct block {
    const struct make *m;
    const int32_t *next; // the token after each row
    int64_t at;          // position in the shard of row 0
    bool *bad;           // [rows]
};

static void score_row(void *ctx, int64_t row, int worker)
{
    const struct block *b = ctx;
    const struct make *m = b->m;
    const float *x = m->logits + row * m->vocab;
    double lse;
    int64_t best, at = b->at + row;
    int32_t *ids = m->ids + at * m->k;
    float *lp = m->lp + at * m->k;
    (void)worker;
    b->bad[row] = !fg_lp_row(x, m->vocab, &lse, &best);
    if (b->bad[row]) return;
    fg_lp_top(x, m->vocab, m->k, ids);
    for (int64_t j = 0; j < m->k; j++)
        lp[j] = (float)((double)x[ids[j]] - lse);
    m->nll[at] = (float)(lse - (double)x[b->next[row]]);
    b->bad[row] = !(lp[m->k - 1] >= -3e38f) || !(m->nll[at] <= 3e38f); // -infinity among them
    for (int64_t j = 0; m->half && j < m->k; j++)
        m->half[at * m->k + j] = fg_f16_of_f32(lp[j]);
}

static int score_block(struct make *m, int64_t seq, int64_t pos, const int32_t *ids, int64_t n,
                       int64_t at, bool *bad, struct fg_error *err)
{
    struct block b = {.m = m, .next = ids + 1, .at = at, .bad = bad};
    fg_pool_run(m->job->pool, n, score_row, &b);
    for (int64_t i = 0; i < n; i++) {
        m->nll_sum += (double)m->nll[at + i];
        m->nll_n++;
        if (!bad[i]) continue;
        char field[80];
        snprintf(field, sizeof field, "logits of sequence %" PRId64 ", position %" PRId64, seq,
                 pos + i);
        return fg_fail(err, FG_EFAILED, FG_TEACHER_WHAT, NULL, field, "finite numbers", "others");
    }
    return 0;
}

static int run_sequence(struct make *m, int64_t i, int64_t at, bool *bad, struct fg_error *err)
{
    const struct fg_teacher_job *job = m->job;
    struct fg_eval_seq s = fg_eval_set_at(job->set, i);
    forge_session_reset(m->session);
    for (int64_t pos = 0; pos < s.length - 1;) {
        int64_t n = s.length - 1 - pos < job->block ? s.length - 1 - pos : job->block;
        double start = fg_clock();
        int rc = forge_session_run(m->session, s.ids + pos, n, m->logits, n, NULL, NULL, err);
        m->result->run_seconds += fg_clock() - start;
        if (!rc) rc = score_block(m, i, pos, s.ids + pos, n, at + pos, bad, err);
        if (rc) return rc;
        pos += n;
        m->done += n;
        if (job->progress && job->progress(job->ctx, m->done, job->set->positions) != 0) {
            m->stopped = true;
            return fg_fail(err, FG_EINTERRUPTED, FG_TEACHER_WHAT, NULL, NULL, NULL, "stopped");
        }
    }
    return 0;
}

// ---- shards

static void shape_of(const struct make *m, const struct cut *c, struct fg_teacher_shape *w)
{
    *w = (struct fg_teacher_shape){.rows = m->job->rows,
                                   .f16 = m->job->f16,
                                   .k = m->k,
                                   .vocab = m->vocab,
                                   .seq = m->job->set->longest,
                                   .n = c->n,
                                   .positions = c->positions};
}

static int write_shard(struct make *m, struct cut *c, int64_t index, const char *path,
                       struct fg_error *err)
{
    uint64_t n = (uint64_t)c->n, p = (uint64_t)c->positions, k = (uint64_t)m->k;
    uint64_t seq = (uint64_t)m->job->set->longest;
    bool rows = m->job->rows;
    struct fg_st_blob blobs[] = {
        {.name = "ids", .dtype = FG_ST_I32, .rank = 2, .shape = {p, k}, .data = m->ids},
        {.name = "lp", .dtype = FG_ST_F32, .rank = 2, .shape = {p, k}, .data = m->lp},
        {.name = "nll", .dtype = FG_ST_F32, .rank = 1, .shape = {p}, .data = m->nll},
        {.name = "lengths", .dtype = FG_ST_I32, .rank = 1, .shape = {n}, .data = m->lengths},
    };
    for (int i = 0; i < 3 && rows; i++) {
        blobs[i].rank++;
        blobs[i].shape[0] = n;
        blobs[i].shape[1] = seq - 1;
        blobs[i].shape[2] = i < 2 ? k : 0;
    }
    if (m->half) {
        blobs[1].dtype = FG_ST_F16;
        blobs[1].data = m->half;
    }
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, index);
    const struct fg_st_pair meta[] = {
        {"schema", FG_TEACHER_SCHEMA}, {"job", m->job_hex}, {"shard", number}};
    const struct fg_st_options o = {.metadata = meta, .n_metadata = FG_COUNT(meta), .hash = true};
    struct fg_st_written written;
    int rc = fg_st_file_write(path, blobs, rows ? 3 : 4, &o, &written, err);
    if (rc) return rc;
    c->bytes = written.bytes;
    memcpy(c->sha256, written.sha256, sizeof c->sha256);
    return 0;
}

// A shard of an earlier run: there, of this job and this place, and whole. What is not is made
// again.
static int find_shard(const struct make *m, struct cut *c, int64_t index, const char *path,
                      bool *found, struct fg_error *err)
{
    struct fg_teacher_shape shape;
    struct fg_teacher_shard s;
    char number[24];
    *found = false;
    if (!fg_file_exists(path)) return 0;
    shape_of(m, c, &shape);
    int rc = fg_teacher_shard_open(&s, path, &shape, err);
    if (rc) return rc == FG_EINPUT ? 0 : rc;
    snprintf(number, sizeof number, "%" PRId64, index);
    const char *job = fg_st_file_metadata(s.file, "job"),
               *at = fg_st_file_metadata(s.file, "shard");
    *found = job && at && strcmp(job, m->job_hex) == 0 && strcmp(at, number) == 0;
    c->bytes = fg_st_file_bytes(s.file);
    fg_teacher_shard_close(&s);
    return *found ? fg_sha256_file(path, c->sha256, err) : 0;
}

static int make_shard(struct make *m, int64_t index, bool *bad, struct fg_error *err)
{
    struct cut *c = &m->cuts[index];
    char name[FG_TEACHER_NAME_BYTES];
    bool found;
    fg_teacher_shard_name(name, index);
    char *path = fg_path_join(m->job->out, name);
    if (!path) return fg_fail_memory(err, FG_TEACHER_WHAT, strlen(m->job->out));
    int rc = find_shard(m, c, index, path, &found, err);
    if (!rc && found) {
        m->done += c->positions;
        m->result->shards_found++;
    } else if (!rc) {
        for (int64_t i = 0, at = 0; i < c->n && !rc; i++) {
            m->lengths[i] = (int32_t)fg_eval_set_at(m->job->set, c->first + i).length;
            rc = run_sequence(m, c->first + i, at, bad, err);
            at += m->lengths[i] - 1;
        }
        if (!rc) rc = write_shard(m, c, index, path, err);
    }
    m->result->bytes += c->bytes;
    free(path);
    return rc;
}

// ---- the whole

static int cut_shards(struct make *m, struct fg_error *err)
{
    const struct fg_eval_set *set = m->job->set;
    m->cuts = calloc((size_t)set->n, sizeof *m->cuts);
    if (!m->cuts) return fg_fail_memory(err, FG_TEACHER_WHAT, (uint64_t)set->n * sizeof *m->cuts);
    struct cut *c = NULL;
    for (int64_t i = 0; i < set->n; i++) {
        int64_t n = fg_eval_set_at(set, i).length - 1;
        bool full =
            c && (m->job->rows ? c->n == FG_TEACHER_ROWS : c->positions + n > FG_TEACHER_POSITIONS);
        if (!c || full) {
            c = &m->cuts[m->n_cuts++];
            c->first = i;
        }
        c->n++;
        c->positions += n;
    }
    return 0;
}

static int allocate(struct make *m, struct fg_error *err)
{
    const struct fg_teacher_job *job = m->job;
    uint64_t positions = 1, n = 1, entries, bytes, logits; // every sequence has a position
    for (int64_t i = 0; i < m->n_cuts; i++) {
        if ((uint64_t)m->cuts[i].positions > positions) positions = (uint64_t)m->cuts[i].positions;
        if ((uint64_t)m->cuts[i].n > n) n = (uint64_t)m->cuts[i].n;
    }
    if (!fg_mul(&entries, positions, (uint64_t)m->k) || !fg_mul(&bytes, entries, 4) ||
        !fg_mul(&logits, (uint64_t)job->block * (uint64_t)m->vocab, 4))
        return fg_fail_memory(err, FG_TEACHER_WHAT, UINT64_MAX);
    m->ids = malloc(bytes);
    m->lp = malloc(bytes);
    m->half = job->f16 ? malloc(bytes / 2) : NULL;
    m->nll = malloc(positions * sizeof *m->nll);
    m->lengths = malloc(n * sizeof *m->lengths);
    m->logits = fg_alloc_aligned(logits);
    if (m->ids && m->lp && m->nll && m->lengths && m->logits && (m->half || !job->f16)) return 0;
    return fg_fail_memory(err, FG_TEACHER_WHAT, 2 * bytes + logits);
}

static int open_session(struct make *m, struct fg_error *err)
{
    struct forge_session_options o = m->job->side.session;
    int64_t rows = m->job->set->longest - 1;
    o.capacity = forge_context_for(m->job->side.engine, rows);
    if (o.capacity == 0) {
        struct forge_engine_info info;
        char expected[64];
        forge_engine_info(m->job->side.engine, &info);
        snprintf(expected, sizeof expected, "at most %" PRId64 " tokens, the model's positions",
                 info.max_positions + 1);
        return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, NULL, "longest sequence", expected,
                       "%" PRId64, rows + 1);
    }
    o.rows = m->job->block;
    return forge_session_new(&m->session, m->job->side.engine, &o, err);
}

static int take_facts(struct make *m, struct fg_error *err)
{
    const struct fg_teacher_job *job = m->job;
    struct fg_buf text = {0};
    snprintf(m->k_text, sizeof m->k_text, "%" PRId64, m->k);
    const struct fg_job_fact facts[N_FACTS] = {
        {"kind", job->rows ? "rows" : "trace"},
        {"model", job->model},
        {"tokenizer", job->tokenizer},
        {"rows", job->set->sha256},
        {"--topk", m->k_text},
        {"--lp", job->f16 ? "f16" : "f32"},
        {"--numerics", fg_eval_numerics_name(&job->side)},
        {"--kv-cache-dtype", fg_eval_kv_name(&job->side)},
    };
    memcpy(m->facts, facts, sizeof facts);
    for (int i = 0; i < N_FACTS; i++)
        fg_buf_printf(&text, "%s %s\n", facts[i].name, facts[i].value);
    bool made = !text.failed && fg_sha256_hex(text.data, text.len, m->job_hex);
    fg_buf_free(&text);
    return made ? 0 : fg_fail_memory(err, FG_TEACHER_WHAT, 0);
}

static void index_json(const struct make *m, struct fg_jwrite *w)
{
    const struct fg_teacher_job *job = m->job;
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "schema", FG_TEACHER_SCHEMA);
    fg_jwrite_str(w, "forge", forge_version());
    fg_jwrite_str(w, "kind", job->rows ? "rows" : "trace");
    fg_jwrite_int(w, "k", m->k);
    if (job->rows) fg_jwrite_int(w, "seq", job->set->longest);
    fg_jwrite_int(w, "vocab", m->vocab);
    fg_jwrite_str(w, "lp", job->f16 ? "f16" : "f32");
    fg_jwrite_int(w, "sequences", job->set->n);
    fg_jwrite_int(w, "positions", job->set->positions);
    fg_jwrite_str(w, "model_digest", job->model);
    fg_jwrite_str(w, "tokenizer_sha256", job->tokenizer);
    fg_jwrite_str(w, "rows_sha256", job->set->sha256);
    fg_jwrite_str(w, "numerics", fg_eval_numerics_name(&job->side));
    fg_jwrite_str(w, "kv_cache", fg_eval_kv_name(&job->side));
    fg_jwrite_array(w, "sources");
    for (int i = 0; i < job->set->n_files; i++) {
        fg_jwrite_object(w, NULL);
        fg_jwrite_str(w, "sha256", job->set->files[i].sha256);
        fg_jwrite_int(w, "sequences", job->set->files[i].n);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_array(w, "shards");
    for (int64_t i = 0; i < m->n_cuts; i++) {
        char name[FG_TEACHER_NAME_BYTES];
        fg_teacher_shard_name(name, i);
        fg_jwrite_object(w, NULL);
        fg_jwrite_str(w, "file", name);
        fg_jwrite_int(w, "sequences", m->cuts[i].n);
        fg_jwrite_int(w, "positions", m->cuts[i].positions);
        fg_jwrite_uint(w, "bytes", m->cuts[i].bytes);
        fg_jwrite_str(w, "sha256", m->cuts[i].sha256);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_end_object(w);
    fg_buf_char(&w->buf, '\n');
}

static int write_index(const struct make *m, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    index_json(m, &w);
    char *path = fg_path_join(m->job->out, "index.json");
    int rc = w.buf.failed || !path || !fg_sha256_hex(w.buf.data, w.buf.len, m->result->sha256)
                 ? fg_fail_memory(err, FG_TEACHER_WHAT, w.buf.len)
                 : fg_file_replace(path, w.buf.data, w.buf.len, err);
    free(path);
    fg_jwrite_free(&w);
    return rc;
}

static int check(const struct make *m, struct fg_error *err)
{
    const struct fg_eval_set *set = m->job->set;
    if (m->job->rows && set->longest != set->shortest) {
        char expected[64];
        snprintf(expected, sizeof expected, "all of %" PRId64 " tokens, as the longest",
                 set->longest);
        return fg_fail(err, FG_EINPUT, FG_TEACHER_WHAT, NULL, "rows", expected, "one of %" PRId64,
                       set->shortest);
    }
    return 0;
}

static int run(struct make *m, struct fg_error *err)
{
    const struct fg_teacher_job *job = m->job;
    const struct fg_job_dir_options o = {.what = FG_TEACHER_WHAT,
                                         .dir = job->out,
                                         .facts = m->facts,
                                         .n = N_FACTS,
                                         .owned = owned,
                                         .restart = job->restart};
    struct fg_job_dir *dir = NULL;
    bool *bad = calloc((size_t)job->block, sizeof *bad);
    int rc = bad ? 0 : fg_fail_memory(err, FG_TEACHER_WHAT, (uint64_t)job->block);
    if (!rc) rc = open_session(m, err);
    if (!rc) rc = cut_shards(m, err);
    if (!rc) rc = allocate(m, err);
    if (!rc) rc = fg_job_dir_open(&dir, &o, err);
    for (int64_t i = 0; i < m->n_cuts && !rc; i++)
        rc = make_shard(m, i, bad, err);
    if (!rc) rc = write_index(m, err);
    fg_job_dir_close(dir);
    free(bad);
    return rc;
}

int fg_teacher_make(const struct fg_teacher_job *job, struct fg_teacher_result *result,
                    struct fg_error *err)
{
    assert(job->block >= 1 && job->k >= 1 && job->k <= FG_TEACHER_K_MAX);
    struct forge_engine_info info;
    double start = fg_clock();
    *result = (struct fg_teacher_result){0};
    forge_engine_info(job->side.engine, &info);
    struct make m = {.job = job,
                     .result = result,
                     .vocab = info.vocab,
                     .k = job->k < info.vocab ? job->k : info.vocab};
    int rc = check(&m, err);
    if (!rc) rc = take_facts(&m, err);
    if (!rc) rc = run(&m, err);
    result->shards = m.n_cuts;
    result->positions = job->set->positions;
    result->k = m.k;
    result->nll = m.nll_n ? m.nll_sum / (double)m.nll_n : 0;
    result->seconds = fg_clock() - start;
    forge_session_free(m.session);
    free(m.cuts);
    free(m.logits);
    free(m.ids);
    free(m.lp);
    free(m.half);
    free(m.nll);
    free(m.lengths);
    return rc;
}
