// KL on the partition of a teacher cache: closed forms, floors, every position against the logits
// by another way, the control, options, resuming, two reports against each other.
#include "kl_case.h"
#include "base/jwrite.h"
#include "eval/klk.h"
#include "eval/klk_summary.h"
#include "eval/logprob.h"
#include "eval/ppl.h"
#include "eval/teacher.h"

static struct scratch scratch;
static struct fg_pool *pool;
static char hex_a[FG_SHA256_HEX], hex_b[FG_SHA256_HEX];

// ---- one position

static void closed_forms(void **state)
{
    (void)state;
    struct fg_error err = {0};
    kc_check(fg_klk_self_check(&err), &err);
    // K = 1, p = 0.7, q = 0.6: 0.7 ln(7/6) + 0.3 ln(3/4) = 0.021601.
    float lp = logf(0.7f);
    double lq = log(0.6);
    assert_true(fabs(fg_klk(&lp, &lq, 1, false) - 0.021601) < 5e-7);
    // Three tokens and a rest, by hand.
    const float p[] = {logf(0.5f), logf(0.25f), logf(0.125f)};
    const double q[] = {log(0.25), log(0.25), log(0.25)};
    double want = 0.5 * log(2) + 0 + 0.125 * log(0.5) + 0.125 * log(0.125 / 0.25);
    assert_true(fabs(fg_klk(p, q, 3, false) - want) < 1e-7);
    // Equal on all tokens is equal in the rest.
    assert_true(fabs(fg_klk(&lp, &(double){(double)lp}, 1, false)) < 1e-15);
}

// p_t = 0: only its floor is left, whatever q has there; q_t = 0 costs p_t ln(p_t / 1e-12).
static void floors(void **state)
{
    (void)state;
    const float all[] = {0, -200};
    const double some[] = {log(0.25), log(0.25)};
    double none = 1e-12 * (log(1e-12) - log(0.5));
    assert_true(fabs(fg_klk(all, some, 2, false) - (log(4) + none)) < 1e-15);
    const float part[] = {logf(0.25f), logf(0.25f)};
    const double whole[] = {log(0.5), log(0.5)};
    double want = 0.5 * log(0.5) + 0.5 * (log(0.5) - log(1e-12));
    assert_true(fabs(fg_klk(part, whole, 2, false) - want) < 1e-6);
    assert_true(isfinite(fg_klk(part, whole, 2, false)));
    // Sums that rounding takes above 1 have a rest of 1e-12 on both sides.
    const float above[] = {1e-7f, -30};
    const double same[] = {(double)1e-7f, -30};
    assert_true(fg_klk(above, same, 2, false) == 0);
    // A token that has no probability in FP64 adds nothing.
    const float gone[] = {0, -1e4f};
    const double q[] = {log(0.5), log(0.5)};
    assert_true(fabs(fg_klk(gone, q, 2, true) - log(2)) < 1e-9);
}

// With all tokens it is the KL of the whole vocabulary.
static void the_whole_vocabulary(void **state)
{
    (void)state;
    enum { V = 64 };
    struct fg_random r = fg_random_named(9, "kl");
    for (int round = 0; round < 50; round++) {
        float p[V], q[V], lp[V];
        double lq[V], work[V], lse_p, lse_q;
        int32_t ids[V];
        int64_t best;
        bool top1;
        for (int i = 0; i < V; i++) {
            p[i] = (float)(12 * fg_random_u01(&r));
            q[i] = (float)(12 * fg_random_u01(&r));
        }
        double want = fg_eval_kl(p, q, V, work, &top1);
        assert_true(fg_lp_row(p, V, &lse_p, &best) && fg_lp_row(q, V, &lse_q, &best));
        fg_lp_top(p, V, V, ids);
        for (int j = 0; j < V; j++) {
            lp[j] = (float)((double)p[ids[j]] - lse_p);
            lq[j] = (double)q[ids[j]] - lse_q;
        }
        assert_true(fabs(fg_klk(lp, lq, V, true) - want) < 2e-7 * (1 + want)); // FP32 of lp
        // Fewer tokens tell less.
        double before = fg_klk(lp, lq, V, true);
        for (int k = V - 1; k >= 1; k /= 2) {
            double kl = fg_klk(lp, lq, k, false);
            assert_true(kl <= before + 1e-5 && kl > -1e-9); // a small rest has the errors of all
            before = kl;
        }
    }
}

// ---- models

struct world {
    struct forge_engine *a, *b; // the teacher's, another
    struct fg_eval_set set;
    struct fg_teacher *teacher;
    char cache[300], file[300];
};

static const int32_t lengths[] = {30, 2, 17, 64, 3, 25, 90, 41};
#define N ((int64_t)(sizeof lengths / sizeof lengths[0]))

static void make_cache(const struct world *w, const char *dir, int64_t k, bool f16)
{
    struct fg_error err = {0};
    struct fg_teacher_result r;
    const struct fg_teacher_job job = {.side = {.engine = w->a},
                                       .set = &w->set,
                                       .k = k,
                                       .f16 = f16,
                                       .block = 16,
                                       .out = dir,
                                       .model = hex_a,
                                       .tokenizer = "",
                                       .pool = pool};
    kc_check(fg_teacher_make(&job, &r, &err), &err);
}

static void open_world(struct world *w, int64_t k)
{
    struct fg_error err = {0};
    w->a = kc_open("a-s0", FORGE_EXACT, 2);
    w->b = kc_open("a-s1", FORGE_EXACT, 2);
    snprintf(w->file, sizeof w->file, "%s/trace", scratch.dir);
    snprintf(w->cache, sizeof w->cache, "%s/cache", scratch.dir);
    kc_trace(&w->set, w->file, lengths, N, 1);
    make_cache(w, w->cache, k, false);
    kc_check(fg_teacher_open(&w->teacher, w->cache, &err), &err);
}

static void close_world(struct world *w)
{
    fg_teacher_close(w->teacher);
    fg_eval_set_free(&w->set);
    forge_engine_close(w->a);
    forge_engine_close(w->b);
    kc_remove(w->cache);
}

static struct fg_klk_job job_of(struct world *w, struct forge_engine *e, const char *out)
{
    return (struct fg_klk_job){.set = &w->set,
                               .side = {.engine = e},
                               .teacher = w->teacher,
                               .topk = fg_teacher_facts(w->teacher)->k,
                               .rows = 16,
                               .out = out,
                               .model = "a model",
                               .model_digest = e == w->a ? hex_a : hex_b,
                               .tokenizer = "",
                               .command = "a test",
                               .pool = pool};
}

static struct fg_klk_summary run(const struct fg_klk_job *job)
{
    struct fg_error err = {0};
    struct fg_klk_result r;
    struct fg_klk_summary s;
    kc_check(fg_klk_run(job, &r, &err), &err);
    kc_check(fg_klk_summary_open(&s, job->out, &err), &err);
    return s;
}

static double *read_f64(const char *dir, const char *name, int64_t *n)
{
    char path[600];
    struct fg_error err = {0};
    struct fg_npy npy;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    kc_check(fg_npy_open(&npy, path, &err), &err);
    assert_int_equal(npy.dtype, FG_NPY_F64);
    assert_int_equal(npy.rank, 1);
    *n = (int64_t)npy.n;
    double *out = malloc(npy.n * sizeof *out);
    assert_non_null(out);
    memcpy(out, npy.data, npy.n * sizeof *out);
    fg_npy_close(&npy);
    return out;
}

// ---- the control

static void the_control_is_zero(void **state)
{
    (void)state;
    const int64_t ks[] = {12, 96}, rows[] = {1, 4, 8, 64};
    struct world w;
    char *out = kc_path(&scratch, "one"), *other = kc_path(&scratch, "other");
    for (int i = 0; i < 2; i++) {
        open_world(&w, ks[i]);
        for (int j = 0; j < 4; j++) {
            struct fg_klk_job job = job_of(&w, w.a, j ? other : out);
            job.rows = rows[j];
            struct fg_klk_summary s = run(&job);
            assert_true(s.control);
            assert_true(fabs(s.all.mean.value) < 1e-9);
            assert_true(s.all.max < 1e-7);
            assert_true(s.all.top1 == 1);
            assert_true(fabs(s.all.ppl / s.all.ref_ppl - 1) < 1e-6);
            fg_klk_summary_free(&s);
            if (j == 0) continue;
            kc_same(out, other, "kl.npy"); // rows change no bit
            kc_same(out, other, "nll.npy");
            kc_same(out, other, "q_topk_lp.npy");
            kc_remove(other);
        }
        kc_remove(out);
        close_world(&w);
    }
    free(out);
    free(other);
}

// What calls itself the teacher's model and is another has no report.
static void a_control_that_fails(void **state)
{
    (void)state;
    struct world w;
    struct fg_error err = {0};
    struct fg_klk_result r;
    char *out = kc_path(&scratch, "one");
    open_world(&w, 40);
    struct fg_klk_job job = job_of(&w, w.b, out);
    job.model_digest = hex_a;
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EFAILED);
    assert_string_equal(err.field, "control");
    char *summary = kc_path(&scratch, "one/summary.json"), *kl = kc_path(&scratch, "one/kl.npy");
    assert_false(fg_path_taken(summary) || fg_path_taken(kl));
    // Other settings make it none.
    kc_remove(out);
    job.side.session.kv_cache_dtype = "kv8";
    struct fg_klk_summary s = run(&job);
    assert_false(s.control);
    assert_string_equal(s.kv_cache, "kv8");
    fg_klk_summary_free(&s);
    kc_remove(out);
    close_world(&w);
    free(summary);
    free(kl);
    free(out);
}

// ---- every position

struct expected {
    double *kl, *nll;
    int64_t n;
    int64_t same;
};

// What a report must hold, from logits; k 0: the whole vocabulary.
static struct expected expect(struct world *w, const struct fg_klk_job *job, int64_t k)
{
    struct expected x = {.kl = malloc((size_t)w->set.positions * sizeof *x.kl),
                         .nll = malloc((size_t)w->set.positions * sizeof *x.nll)};
    assert_true(x.kl && x.nll);
    for (int64_t i = 0; i < w->set.n; i++) {
        struct fg_eval_seq s = fg_eval_set_at(&w->set, i);
        float *p = kc_logits(w->a, &s, &scratch), *q = kc_logits(job->side.engine, &s, &scratch);
        for (int64_t t = 0; t < s.length - 1; t++) {
            if (t < job->skip_prefix || (job->answers_only && t < s.plen - 1)) continue;
            const float *row = q + t * KC_VOCAB;
            long double lp[KC_VOCAB], lq[KC_VOCAB], kl = 0, left_p = 1, left_q = 1;
            int32_t ids[KC_VOCAB], best;
            kc_log_softmax(lp, p + t * KC_VOCAB, KC_VOCAB);
            kc_log_softmax(lq, row, KC_VOCAB);
            fg_lp_top(p + t * KC_VOCAB, KC_VOCAB, KC_VOCAB, ids);
            for (int64_t j = 0; j < (k ? k : KC_VOCAB); j++) {
                kl += expl(lp[ids[j]]) * (lp[ids[j]] - lq[ids[j]]);
                left_p -= expl(lp[ids[j]]);
                left_q -= expl(lq[ids[j]]);
            }
            if (k && k < KC_VOCAB) kl += left_p * (logl(left_p) - logl(left_q));
            fg_lp_top(row, KC_VOCAB, 1, &best);
            x.kl[x.n] = (double)kl;
            x.nll[x.n++] = (double)-lq[s.ids[t + 1]];
            x.same += best == ids[0];
        }
        free(p);
        free(q);
    }
    return x;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check_report(struct world *w, const struct fg_klk_job *job, int64_t k)
{
    struct fg_klk_summary s = run(job);
    struct expected x = expect(w, job, k);
    int64_t n;
    double *kl = read_f64(job->out, "kl.npy", &n), sum = 0, nll_sum = 0;
    assert_int_equal(n, x.n);
    double *nll = read_f64(job->out, "nll.npy", &n);
    for (int64_t i = 0; i < x.n; i++) {
        assert_true(fabs(kl[i] - x.kl[i]) < 1e-6);
        assert_true(fabs(nll[i] - x.nll[i]) < 1e-12);
        sum += x.kl[i];
        nll_sum += x.nll[i];
    }
    qsort(x.kl, (size_t)x.n, sizeof *x.kl, ascending);
    const struct fg_klk_figures *f = &s.all;
    assert_int_equal(f->positions, x.n);
    assert_true(fabs(f->mean.value - sum / (double)x.n) < 1e-6);
    assert_true(f->mean.lo < f->mean.value && f->mean.value < f->mean.hi);
    assert_true(fabs(f->median - fg_eval_quantile(x.kl, x.n, 0.5)) < 1e-6);
    assert_true(fabs(f->p95 - fg_eval_quantile(x.kl, x.n, 0.95)) < 1e-6);
    assert_true(fabs(f->p99 - fg_eval_quantile(x.kl, x.n, 0.99)) < 1e-6);
    assert_true(fabs(f->max - x.kl[x.n - 1]) < 1e-6);
    assert_true(f->top1 == (double)x.same / (double)x.n);
    assert_true(fabs(f->ppl / exp(nll_sum / (double)x.n) - 1) < 1e-12);
    // Domains are a partition here, and the whole is their mean.
    double together = 0;
    int64_t positions = 0, sequences = 0;
    for (int d = 0; d < s.n_domains; d++) {
        together += s.domains[d].f.mean.value * (double)s.domains[d].f.positions;
        positions += s.domains[d].f.positions;
        sequences += s.domains[d].f.sequences;
    }
    assert_int_equal(s.n_domains, 2);
    assert_string_equal(s.domains[0].name, "code");
    assert_int_equal(positions, x.n);
    assert_int_equal(sequences, f->sequences);
    assert_true(fabs(together / (double)positions - f->mean.value) < 1e-12);
    fg_klk_summary_free(&s);
    free(kl);
    free(nll);
    free(x.kl);
    free(x.nll);
    kc_remove(job->out);
}

static void every_position(void **state)
{
    (void)state;
    struct world w;
    char *out = kc_path(&scratch, "one");
    open_world(&w, 40);
    struct fg_klk_job job = job_of(&w, w.b, out);
    check_report(&w, &job, 40);
    job.topk = 7;
    check_report(&w, &job, 7);
    job.skip_prefix = 5;
    check_report(&w, &job, 7);
    job.answers_only = true;
    check_report(&w, &job, 7);
    job.skip_prefix = 0;
    check_report(&w, &job, 7);
    // Both side by side, over the whole vocabulary.
    const struct fg_eval_side reference = {.engine = w.a};
    job.teacher = NULL;
    job.reference = &reference;
    job.reference_digest = hex_a;
    check_report(&w, &job, 0);
    close_world(&w);
    open_world(&w, 96);
    job = job_of(&w, w.b, out);
    check_report(&w, &job, 96);
    close_world(&w);
    free(out);
}

// q_topk_lp.npy: ln q of the cache's tokens.
static void what_is_stored_of_q(void **state)
{
    (void)state;
    struct world w;
    struct fg_error err = {0};
    struct fg_npy npy;
    char *out = kc_path(&scratch, "one"), *path = kc_path(&scratch, "one/q_topk_lp.npy");
    open_world(&w, 10);
    struct fg_klk_job job = job_of(&w, w.b, out);
    struct fg_klk_summary s = run(&job);
    kc_check(fg_npy_open(&npy, path, &err), &err);
    assert_true(npy.dtype == FG_NPY_F32 && npy.rank == 2 && npy.shape[1] == 10);
    assert_int_equal(npy.shape[0], s.all.positions);
    const float *at = npy.data;
    for (int64_t i = 0; i < N; i++) {
        struct fg_eval_seq seq = fg_eval_set_at(&w.set, i);
        float *q = kc_logits(w.b, &seq, &scratch);
        for (int64_t t = 0; t < seq.length - 1; t++, at += 10) {
            long double lq[KC_VOCAB];
            int32_t ids[10];
            kc_check(fg_teacher_read(w.teacher, i, t, 1, ids, NULL, NULL, &err), &err);
            kc_log_softmax(lq, q + t * KC_VOCAB, KC_VOCAB);
            for (int j = 0; j < 10; j++)
                assert_true(fabsl((long double)at[j] - lq[ids[j]]) < 1e-6L);
        }
        free(q);
    }
    fg_npy_close(&npy);
    fg_klk_summary_free(&s);
    kc_remove(out);
    close_world(&w);
    free(out);
    free(path);
}

// ---- stopped and continued

static int stop_at(void *ctx, int64_t done, int64_t total)
{
    assert_true(done <= total);
    return done >= *(int64_t *)ctx;
}

static void resumed_is_the_same(void **state)
{
    (void)state;
    static const char *const files[] = {"kl.npy", "agreement.npy", "nll.npy", "q_topk_lp.npy"};
    const int64_t at[] = {1, 31, 47, 60, 150, 264};
    struct world w;
    struct fg_error err = {0};
    struct fg_klk_result r;
    char *ref = kc_path(&scratch, "ref"), *cut = kc_path(&scratch, "cut");
    char *ref_of_a = kc_path(&scratch, "of-a");
    open_world(&w, 12);
    struct fg_klk_job job = job_of(&w, w.b, ref);
    struct fg_klk_summary s = run(&job), t;
    job.out = cut;
    assert_int_equal(fg_klk_rows(&job), w.set.positions);
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        struct fg_pool *one;
        kc_check(fg_pool_new(&one, 1, &err), &err);
        job.progress = stop_at;
        job.ctx = (int64_t[]){at[i]};
        job.pool = i % 2 ? one : pool;
        assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINTERRUPTED);
        job.progress = NULL;
        assert_int_equal(fg_klk_summary_open(&t, cut, &err), FG_EINPUT);
        if (i == 3) { // a sequence that is damaged is done again
            struct fg_buf b = kc_read(cut, "state/part-000000.safetensors");
            b.len -= 3;
            kc_write(cut, "state/part-000000.safetensors", &b);
            fg_buf_free(&b);
        }
        if (i == 4) { // so is one of another job
            struct fg_klk_job other = job_of(&w, w.a, ref_of_a);
            other.progress = stop_at;
            other.ctx = (int64_t[]){60};
            assert_int_equal(fg_klk_run(&other, &r, &err), FG_EINTERRUPTED);
            struct fg_buf b = kc_read(ref_of_a, "state/part-000000.safetensors");
            kc_write(cut, "state/part-000000.safetensors", &b);
            fg_buf_free(&b);
            kc_remove(ref_of_a);
        }
        kc_check(fg_klk_run(&job, &r, &err), &err);
        assert_true(!r.finished && r.sequences == N);
        if (at[i] > 31 && i != 3) assert_true(r.sequences_found > 0);
        kc_check(fg_klk_summary_open(&t, cut, &err), &err);
        for (int f = 0; f < 4; f++)
            kc_same(ref, cut, files[f]);
        assert_true(t.all.mean.lo == s.all.mean.lo && t.all.mean.hi == s.all.mean.hi);
        fg_klk_summary_free(&t);
        kc_check(fg_klk_run(&job, &r, &err), &err);
        assert_true(r.finished);
        fg_pool_free(one);
        kc_remove(cut);
    }
    // Another job on the same directory.
    job.pool = pool;
    t = run(&job);
    job.skip_prefix = 3;
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "--skip-prefix");
    job.restart = true;
    fg_klk_summary_free(&t);
    t = run(&job);
    assert_int_equal(t.skip_prefix, 3);
    fg_klk_summary_free(&t);
    fg_klk_summary_free(&s);
    kc_remove(ref);
    kc_remove(cut);
    close_world(&w);
    free(ref);
    free(ref_of_a);
    free(cut);
}

static void what_is_refused(void **state)
{
    (void)state;
    struct world w;
    struct fg_error err = {0};
    struct fg_klk_result r;
    char *out = kc_path(&scratch, "one"), *cache = kc_path(&scratch, "half");
    open_world(&w, 12);
    struct fg_klk_job job = job_of(&w, w.b, out);
    job.topk = 13;
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "--topk");
    job = job_of(&w, w.b, out);
    job.skip_prefix = 1000;
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINPUT); // nothing is left
    // Another vocabulary.
    struct forge_engine *e = kc_open("chat-tiny", FORGE_EXACT, 1);
    job = job_of(&w, e, out);
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "vocab");
    const struct fg_eval_side side = {.engine = e};
    job = job_of(&w, w.a, out);
    job.teacher = NULL;
    job.reference = &side;
    job.reference_digest = hex_b;
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINTEGRITY);
    forge_engine_close(e);
    // Other sequences than the teacher's.
    struct fg_eval_set other;
    char *file = kc_path(&scratch, "other");
    kc_trace(&other, file, lengths, N, 2);
    job = job_of(&w, w.b, out);
    job.set = &other;
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "rows_sha256");
    fg_eval_set_free(&other);
    // A cache for training.
    make_cache(&w, cache, 12, true);
    struct fg_teacher *half;
    kc_check(fg_teacher_open(&half, cache, &err), &err);
    job = job_of(&w, w.b, out);
    job.teacher = half;
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "lp");
    fg_teacher_close(half);
    // A shard that changed after it was made.
    fg_teacher_close(w.teacher);
    struct fg_buf b = kc_read(w.cache, "teacher-00000.safetensors");
    b.data[b.len / 2] ^= 1;
    kc_write(w.cache, "teacher-00000.safetensors", &b);
    fg_buf_free(&b);
    kc_check(fg_teacher_open(&w.teacher, w.cache, &err), &err);
    job = job_of(&w, w.b, out);
    assert_int_equal(fg_klk_run(&job, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "sha256");
    kc_remove(cache);
    kc_remove(out);
    close_world(&w);
    free(file);
    free(cache);
    free(out);
}

// ---- two reports

static void compared(void **state)
{
    (void)state;
    struct world w;
    struct fg_error err = {0};
    char *x = kc_path(&scratch, "x"), *y = kc_path(&scratch, "y"), *z = kc_path(&scratch, "z");
    open_world(&w, 12);
    struct fg_klk_job job = job_of(&w, w.b, x);
    struct fg_klk_summary a = run(&job);
    job.side.session.kv_cache_dtype = "kv8";
    job.out = y;
    struct fg_klk_summary b = run(&job);
    struct fg_klk_comparison c;
    kc_check(fg_klk_compare(&c, &a, &b, 0, &err), &err);
    assert_true(fabs(c.all.mean_a - a.all.mean.value) < 1e-12);
    assert_true(fabs(c.all.mean_b - b.all.mean.value) < 1e-12);
    assert_true(fabs(c.all.change.value - (c.all.mean_b / c.all.mean_a - 1)) < 1e-12);
    assert_true(c.all.change.lo <= c.all.change.value && c.all.change.value <= c.all.change.hi);
    assert_true(c.all.better + c.all.worse <= N && c.all.sequences == N);
    assert_int_equal(c.domains[0].sequences + c.domains[1].sequences, N);
    // The same engine with kv8 is near itself: directly, by what is stored of both.
    assert_true(c.direct.known && c.direct.mean.value > 0 && c.direct.mean.value < 1e-2);
    assert_true(c.direct.median <= c.direct.p99 && c.direct.p99 <= c.direct.max);
    // By hand, from the arrays.
    int64_t n;
    double *kl_a = read_f64(x, "kl.npy", &n), *kl_b = read_f64(y, "kl.npy", &n), sum_a = 0,
           sum_b = 0;
    int64_t at = 0, better = 0;
    for (int64_t i = 0; i < N; i++) {
        double p = 0, q = 0;
        for (int64_t t = 0; t < lengths[i] - 1; t++, at++) {
            p += kl_a[at];
            q += kl_b[at];
        }
        better += q < p;
        sum_a += p;
        sum_b += q;
    }
    assert_int_equal(at, n);
    assert_int_equal(c.all.better, better);
    assert_true(fabs(c.all.change.value - (sum_b / sum_a - 1)) < 1e-12);
    free(kl_a);
    free(kl_b);
    free(c.domains);
    // With itself.
    kc_check(fg_klk_compare(&c, &a, &a, 0, &err), &err);
    assert_true(c.all.change.value == 0 && c.all.change.lo == 0 && c.all.change.hi == 0);
    assert_true(c.all.better == 0 && c.direct.max < 1e-12);
    free(c.domains);
    // Other options are another metric.
    struct fg_klk_summary other;
    job.out = z;
    job.skip_prefix = 2;
    other = run(&job);
    assert_int_equal(fg_klk_compare(&c, &a, &other, 0, &err), FG_EINPUT);
    assert_string_equal(err.field, "options.skip_prefix");
    fg_klk_summary_free(&other);
    job.restart = true;
    job.skip_prefix = 0;
    job.topk = 11;
    other = run(&job);
    assert_int_equal(fg_klk_compare(&c, &a, &other, 0, &err), FG_EINPUT);
    assert_string_equal(err.field, "options.topk");
    fg_klk_summary_free(&other);
    const struct fg_eval_side reference = {.engine = w.a};
    job.teacher = NULL;
    job.reference = &reference;
    job.reference_digest = hex_a;
    other = run(&job);
    assert_int_equal(fg_klk_compare(&c, &a, &other, 0, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "reference_sha256");
    // Both without a cache: no direct distance, the change is there.
    kc_check(fg_klk_compare(&c, &other, &other, 0, &err), &err);
    assert_false(c.direct.known);
    free(c.domains);
    fg_klk_summary_free(&other);
    // Arrays that do not belong.
    struct fg_buf bytes = kc_read(z, "kl.npy");
    bytes.data[bytes.len - 1] = 0x7f;
    bytes.data[bytes.len - 2] = (char)0xf8; // NaN
    kc_write(y, "kl.npy", &bytes);
    assert_int_equal(fg_klk_compare(&c, &a, &b, 0, &err), FG_EINPUT);
    bytes.len -= 8;
    kc_write(y, "kl.npy", &bytes);
    assert_int_equal(fg_klk_compare(&c, &a, &b, 0, &err), FG_EINPUT);
    fg_buf_free(&bytes);
    fg_klk_summary_free(&a);
    fg_klk_summary_free(&b);
    kc_remove(x);
    kc_remove(y);
    kc_remove(z);
    close_world(&w);
    free(x);
    free(y);
    free(z);
}

// Reports are files of others: every cut, and numbers that do not fit each other.
static void damaged_reports(void **state)
{
    (void)state;
    struct world w;
    struct fg_error err = {0};
    char *out = kc_path(&scratch, "one");
    open_world(&w, 12);
    struct fg_klk_job job = job_of(&w, w.b, out);
    struct fg_klk_summary s = run(&job);
    fg_klk_summary_free(&s);
    struct fg_buf summary = kc_read(out, "summary.json"), lines = kc_read(out, "sequences.jsonl");
    for (size_t n = 0; n < summary.len - 2; n += 61) {
        struct fg_buf b = summary;
        b.len = n;
        kc_write(out, "summary.json", &b);
        assert_int_equal(fg_klk_summary_open(&s, out, &err), FG_EINPUT);
    }
    static const char *const changes[][2] = {
        {"\"kind\": \"kl\"", "\"kind\": \"ppl\""},
        {"\"sequences\": 8", "\"sequences\": 9"},
        {"\"sequences\": 8", "\"sequences\": 7"},
        {"\"positions\": 264", "\"positions\": 265"},
        {"\"mean_kl\": ", "\"mean_kl\": null, \"x\": "},
        {"\"trace_sha256\": \"", "\"trace_sha256\": \"g"},
        {"\"sequences\": 8", "\"sequences\": 1e300"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct fg_buf b = {0};
        const char *at = strstr(summary.data, changes[i][0]);
        if (!at) fail_msg("not there: %s", changes[i][0]);
        fg_buf_add(&b, summary.data, (size_t)(at - summary.data));
        fg_buf_str(&b, changes[i][1]);
        fg_buf_str(&b, at + strlen(changes[i][0]));
        kc_write(out, "summary.json", &b);
        if (fg_klk_summary_open(&s, out, &err) != FG_EINPUT)
            fail_msg("accepted: %s", changes[i][1]);
        fg_buf_free(&b);
    }
    kc_write(out, "summary.json", &summary);
    for (size_t n = 0; n < lines.len - 1; n += 53) {
        struct fg_buf b = lines;
        b.len = n;
        kc_write(out, "sequences.jsonl", &b);
        assert_int_equal(fg_klk_summary_open(&s, out, &err), FG_EINPUT);
    }
    fg_buf_free(&summary);
    fg_buf_free(&lines);
    kc_remove(out);
    close_world(&w);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_forms),         cmocka_unit_test(floors),
        cmocka_unit_test(the_whole_vocabulary), cmocka_unit_test(the_control_is_zero),
        cmocka_unit_test(a_control_that_fails), cmocka_unit_test(every_position),
        cmocka_unit_test(what_is_stored_of_q),  cmocka_unit_test(resumed_is_the_same),
        cmocka_unit_test(what_is_refused),      cmocka_unit_test(compared),
        cmocka_unit_test(damaged_reports),
    };
    struct fg_error err = {0};
    scratch_open(&scratch);
    kc_check(fg_pool_new(&pool, 4, &err), &err);
    kc_identity("a-s0", hex_a);
    kc_identity("a-s1", hex_b);
    int failed = cmocka_run_group_tests_name("klk", tests, NULL, NULL);
    fg_pool_free(pool);
    scratch_close(&scratch);
    return failed;
}
