// Teacher caches: every number against the logits by another way, shards, resuming, and what a
// damaged or forged cache gets.
#include "kl_case.h"
#include "base/hash.h"
#include "base/job_dir.h"
#include "base/num.h"
#include "eval/logprob.h"
#include "eval/teacher.h"
#include "format/st_file.h"

static struct scratch scratch;
static struct fg_pool *pool;
static char model_hex[FG_SHA256_HEX];

static struct fg_teacher_job job_of(struct forge_engine *e, const struct fg_eval_set *set,
                                    const char *out)
{
    return (struct fg_teacher_job){.side = {.engine = e},
                                   .set = set,
                                   .k = 20,
                                   .block = 16,
                                   .out = out,
                                   .model = model_hex,
                                   .tokenizer = "",
                                   .pool = pool};
}

static struct fg_teacher_result make(const struct fg_teacher_job *job)
{
    struct fg_error err = {0};
    struct fg_teacher_result r;
    kc_check(fg_teacher_make(job, &r, &err), &err);
    return r;
}

static struct fg_teacher *open_cache(const char *dir)
{
    struct fg_error err = {0};
    struct fg_teacher *t;
    kc_check(fg_teacher_open(&t, dir, &err), &err);
    return t;
}

// ---- rows of logits

static void best_of_a_row(void **state)
{
    (void)state;
    enum { V = 300 };
    struct fg_random r = fg_random_named(5, "row");
    float x[V];
    int32_t ids[V];
    for (int64_t round = 0; round < 200; round++) {
        int64_t vocab = 1 + (int64_t)fg_random_below(&r, V);
        for (int64_t i = 0; i < vocab; i++) // few values: many ties
            x[i] = (float)fg_random_below(&r, 12) - 6;
        int64_t k = 1 + (int64_t)fg_random_below(&r, (uint64_t)vocab);
        fg_lp_top(x, vocab, k, ids);
        // The j-th has exactly j before it: larger, or equal with a lower id.
        for (int64_t j = 0; j < k; j++) {
            int64_t before = 0;
            for (int32_t i = 0; i < vocab; i++)
                before += x[i] > x[ids[j]] || (x[i] == x[ids[j]] && i < ids[j]);
            assert_int_equal(before, j);
        }
        double lse;
        int64_t best;
        assert_true(fg_lp_row(x, vocab, &lse, &best));
        assert_int_equal(best, ids[0]);
        long double lp[V];
        kc_log_softmax(lp, x, vocab);
        assert_true(fabsl((long double)x[best] - (long double)lse - lp[best]) < 1e-14L);
    }
    double lse;
    int64_t best;
    const float bad[][2] = {{NAN, 1}, {1, NAN}, {INFINITY, 1}, {-INFINITY, -INFINITY}};
    for (int i = 0; i < 4; i++)
        assert_false(fg_lp_row(bad[i], 2, &lse, &best));
    const float large[] = {3e38f, -3e38f};
    assert_true(fg_lp_row(large, 2, &lse, &best));
    assert_true(lse == (double)3e38f && best == 0);
}

// ---- what is in a cache

static void check_sequence(struct forge_engine *e, const struct fg_eval_set *set,
                           struct fg_teacher *t, int64_t i, bool f16)
{
    struct fg_eval_seq s = fg_eval_set_at(set, i);
    struct fg_error err = {0};
    float *logits = kc_logits(e, &s, &scratch);
    int64_t k = fg_teacher_facts(t)->k, n;
    kc_check(fg_teacher_positions(t, i, &n, &err), &err);
    assert_int_equal(n, s.length - 1);
    for (int64_t p = 0; p < n; p++) {
        int32_t ids[KC_VOCAB], want[KC_VOCAB];
        float lp[KC_VOCAB], nll;
        long double exact[KC_VOCAB];
        kc_check(fg_teacher_read(t, i, p, 1, ids, lp, &nll, &err), &err);
        fg_lp_top(logits + p * KC_VOCAB, KC_VOCAB, k, want);
        kc_log_softmax(exact, logits + p * KC_VOCAB, KC_VOCAB);
        assert_memory_equal(ids, want, (size_t)k * sizeof *ids);
        for (int64_t j = 0; j < k; j++) {
            float once = (float)exact[ids[j]];
            if (f16) once = fg_f16_to_f32(fg_f16_of_f32(once));
            assert_true(lp[j] == once || (!f16 && fabsf(lp[j] - once) < 1e-6f));
        }
        assert_true(fabsl((long double)nll + exact[s.ids[p + 1]]) < 1e-6L);
    }
    free(logits);
}

static void every_position_of_a_trace(void **state)
{
    (void)state;
    const int32_t lengths[] = {30, 2, 17, 64, 3};
    struct fg_eval_set set;
    char *file = kc_path(&scratch, "trace"), *out = kc_path(&scratch, "cache");
    struct forge_engine *e = kc_open("a-s0", FORGE_EXACT, 2);
    kc_trace(&set, file, lengths, 5, 1);
    struct fg_teacher_job job = job_of(e, &set, out);
    for (int f16 = 0; f16 < 2; f16++) {
        job.f16 = f16;
        job.restart = f16; // the same directory
        struct fg_teacher_result r = make(&job);
        assert_int_equal(r.positions, 30 + 2 + 17 + 64 + 3 - 5);
        assert_int_equal(r.shards, 1);
        assert_int_equal(r.shards_found, 0);
        struct fg_teacher *t = open_cache(out);
        const struct fg_teacher_facts *f = fg_teacher_facts(t);
        assert_true(!f->rows && f->f16 == f16 && f->k == 20 && f->vocab == KC_VOCAB && f->n == 5);
        assert_string_equal(f->model, model_hex);
        assert_string_equal(f->rows_sha256, set.sha256);
        assert_string_equal(f->sha256, r.sha256);
        assert_string_equal(f->numerics, "exact");
        assert_string_equal(f->kv_cache, "f32");
        struct fg_error err = {0};
        kc_check(fg_teacher_check_set(t, &set, &err), &err);
        for (int64_t i = 0; i < 5; i++)
            check_sequence(e, &set, t, i, f16);
        fg_teacher_close(t);
    }
    fg_eval_set_free(&set);
    forge_engine_close(e);
    kc_remove(out);
    free(file);
    free(out);
}

// Rows of two files, 64 in a shard; a K beyond the vocabulary takes all of it.
static void rows_in_shards(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_eval_set set;
    char *a = kc_path(&scratch, "rows-a"), *b = kc_path(&scratch, "rows-b");
    char *out = kc_path(&scratch, "cache");
    struct forge_engine *e = kc_open("a-s0", FORGE_EXACT, 1);
    kc_rows(a, 50, 9, 1);
    kc_rows(b, 30, 9, 2);
    const char *const files[] = {a, b};
    kc_check(fg_eval_set_open(&set, files, 2, KC_VOCAB, "", &err), &err);
    struct fg_teacher_job job = job_of(e, &set, out);
    job.rows = true;
    job.k = 512;
    struct fg_teacher_result r = make(&job);
    assert_int_equal(r.shards, 2);
    assert_int_equal(r.k, KC_VOCAB);
    struct fg_teacher *t = open_cache(out);
    assert_true(fg_teacher_facts(t)->rows);
    assert_int_equal(fg_teacher_facts(t)->seq, 9);
    assert_int_equal(fg_teacher_facts(t)->n_shards, 2);
    const int64_t some[] = {0, 49, 50, 63, 64, 79};
    for (int i = 0; i < 6; i++)
        check_sequence(e, &set, t, some[i], false);
    fg_teacher_close(t);
    // The files in another order are other rows, and rows of other lengths are none.
    const char *const turned[] = {b, a};
    fg_eval_set_free(&set);
    kc_check(fg_eval_set_open(&set, turned, 2, KC_VOCAB, "", &err), &err);
    t = open_cache(out);
    assert_int_equal(fg_teacher_check_set(t, &set, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "rows_sha256");
    fg_teacher_close(t);
    fg_eval_set_free(&set);
    kc_rows(b, 30, 10, 2);
    kc_check(fg_eval_set_open(&set, files, 2, KC_VOCAB, "", &err), &err);
    assert_int_equal(fg_teacher_make(&job, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "rows");
    fg_eval_set_free(&set);
    forge_engine_close(e);
    kc_remove(out);
    free(a);
    free(b);
    free(out);
}

// ---- the same bytes, whatever happens

struct stopper {
    int64_t at;
};

static int stop_at(void *ctx, int64_t done, int64_t total)
{
    assert_true(done <= total);
    return done >= ((struct stopper *)ctx)->at;
}

static void resumed_is_the_same(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_eval_set set;
    char *file = kc_path(&scratch, "rows"), *ref = kc_path(&scratch, "ref");
    char *cut = kc_path(&scratch, "cut");
    struct forge_engine *e = kc_open("a-s0", FORGE_EXACT, 2);
    kc_rows(file, 200, 12, 3);
    const char *const files[] = {file};
    kc_check(fg_eval_set_open(&set, files, 1, KC_VOCAB, "", &err), &err);
    struct fg_teacher_job job = job_of(e, &set, ref);
    job.rows = true;
    make(&job);
    const int64_t at[] = {1, 64 * 11, 64 * 11 + 5, 130 * 11, 200 * 11};
    for (int i = 0; i < 5; i++) {
        struct stopper s = {at[i]};
        struct fg_teacher_result r;
        struct fg_pool *one;
        kc_check(fg_pool_new(&one, 1, &err), &err);
        job.out = cut;
        job.pool = i % 2 ? one : pool; // the bytes do not depend on threads
        job.block = i % 2 ? 3 : 16;    // nor on the block
        job.progress = stop_at;
        job.ctx = &s;
        assert_int_equal(fg_teacher_make(&job, &r, &err), FG_EINTERRUPTED);
        struct fg_teacher *t;
        assert_int_equal(fg_teacher_open(&t, cut, &err), FG_EINPUT); // no index yet
        assert_non_null(strstr(err.hint, "goes on"));
        job.progress = NULL;
        r = make(&job);
        assert_int_equal(r.shards, 4);
        assert_int_equal(r.shards_found, (at[i] - 1) / (64 * 11));
        kc_same(ref, cut, "index.json");
        for (int s2 = 0; s2 < 4; s2++) {
            char name[64];
            snprintf(name, sizeof name, "teacher-%05d.safetensors", s2);
            kc_same(ref, cut, name);
        }
        r = make(&job); // finished: nothing is done again
        assert_int_equal(r.shards_found, 4);
        fg_pool_free(one);
        kc_remove(cut);
    }
    // A shard that is damaged or of another place is made again.
    job.out = cut;
    make(&job);
    struct fg_buf b = kc_read(cut, "teacher-00001.safetensors");
    kc_write(cut, "teacher-00000.safetensors", &b);
    b.len /= 2;
    kc_write(cut, "teacher-00002.safetensors", &b);
    fg_buf_free(&b);
    assert_int_equal(make(&job).shards_found, 2);
    kc_same(ref, cut, "index.json");
    kc_same(ref, cut, "teacher-00000.safetensors");
    kc_same(ref, cut, "teacher-00002.safetensors");
    fg_eval_set_free(&set);
    forge_engine_close(e);
    kc_remove(ref);
    kc_remove(cut);
    free(file);
    free(ref);
    free(cut);
}

static void other_jobs_are_refused(void **state)
{
    (void)state;
    struct fg_error err = {0};
    const int32_t lengths[] = {8, 9};
    struct fg_eval_set set, other;
    struct fg_teacher_result r;
    char *file = kc_path(&scratch, "trace"), *out = kc_path(&scratch, "cache");
    struct forge_engine *e = kc_open("a-s0", FORGE_EXACT, 1);
    kc_trace(&set, file, lengths, 2, 1);
    struct fg_teacher_job job = job_of(e, &set, out), changed;
    make(&job);
    changed = job;
    changed.k = 21;
    assert_int_equal(fg_teacher_make(&changed, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "--topk");
    assert_string_equal(err.found, "now 21, then 20");
    changed = job;
    changed.f16 = true;
    assert_int_equal(fg_teacher_make(&changed, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "--lp");
    changed = job;
    changed.model = "another";
    assert_int_equal(fg_teacher_make(&changed, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "model");
    kc_trace(&other, file, lengths, 2, 2);
    changed = job;
    changed.set = &other;
    assert_int_equal(fg_teacher_make(&changed, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "rows");
    changed.restart = true;
    make(&changed);
    // Two runs at once.
    const struct fg_job_fact none[] = {{"a", "b"}};
    const char *const owned[] = {NULL};
    const struct fg_job_dir_options o = {.what = "test",
                                         .dir = scratch_path(&scratch, "busy"),
                                         .facts = none,
                                         .n = 1,
                                         .owned = owned};
    struct fg_job_dir *d, *again;
    kc_check(fg_job_dir_open(&d, &o, &err), &err);
    assert_int_equal(fg_job_dir_open(&again, &o, &err), FG_EBUSY);
    fg_job_dir_close(d);
    kc_check(fg_job_dir_open(&d, &o, &err), &err);
    fg_job_dir_close(d);
    // A directory with something else in it.
    scratch_write(&scratch, "busy/mine", "x", 1);
    changed.out = scratch_path(&scratch, "busy");
    assert_int_equal(fg_teacher_make(&changed, &r, &err), FG_EINPUT); // the test's
    assert_string_equal(err.field, "job");
    scratch_write(&scratch, "logits.npy", "x", 1);
    changed.out = scratch.dir;
    assert_int_equal(fg_teacher_make(&changed, &r, &err), FG_EINPUT);
    assert_string_equal(err.found, "other content");
    fg_eval_set_free(&set);
    fg_eval_set_free(&other);
    forge_engine_close(e);
    kc_remove(out);
    free(file);
    free(out);
}

// ---- damaged and forged

static int read_all(const char *dir, struct fg_error *err)
{
    struct fg_teacher *t;
    int rc = fg_teacher_open(&t, dir, err);
    if (rc) return rc;
    for (int64_t i = 0; i < fg_teacher_facts(t)->n && !rc; i++)
        rc = fg_teacher_read(t, i, 0, 0, NULL, NULL, NULL, err);
    fg_teacher_close(t);
    return rc;
}

static void damaged_shards(void **state)
{
    (void)state;
    struct fg_error err = {0};
    const int32_t lengths[] = {12, 7};
    struct fg_eval_set set;
    char *file = kc_path(&scratch, "trace"), *out = kc_path(&scratch, "cache");
    struct forge_engine *e = kc_open("a-s0", FORGE_EXACT, 1);
    kc_trace(&set, file, lengths, 2, 1);
    struct fg_teacher_job job = job_of(e, &set, out);
    make(&job);
    const char *name = "teacher-00000.safetensors";
    struct fg_buf good = kc_read(out, name), index = kc_read(out, "index.json");
    assert_int_equal(read_all(out, &err), 0);
    // Any byte that is another one.
    for (size_t at = 0; at < good.len; at += good.len / 40) {
        struct fg_buf b = good;
        b.data[at] ^= 0x10;
        kc_write(out, name, &b);
        assert_int_equal(read_all(out, &err), FG_EINTEGRITY);
        assert_string_equal(err.field, "sha256");
        b.data[at] ^= 0x10;
    }
    // Cut anywhere.
    for (size_t n = 0; n < good.len; n += good.len / 20 + 1) {
        struct fg_buf b = good;
        b.len = n;
        kc_write(out, name, &b);
        assert_int_equal(read_all(out, &err), FG_EINTEGRITY);
        assert_string_equal(err.field, "size");
    }
    kc_write(out, name, &good);
    // An index that is cut, and one that says other things.
    for (size_t n = 0; n < index.len - 1; n += 37) {
        struct fg_buf b = index;
        b.len = n;
        kc_write(out, "index.json", &b);
        assert_int_equal(read_all(out, &err), FG_EINPUT);
    }
    static const char *const changes[][3] = {
        {"forge.teacher/1", "forge.teacher/2", "schema"},
        {"\"kind\": \"trace\"", "\"kind\": \"other\"", "kind"},
        {"\"k\": 20", "\"k\": 97", "k"},
        {"\"k\": 20", "\"k\": 00", ""},
        {"\"vocab\": 96", "\"vocab\": -6", "vocab"},
        {"\"lp\": \"f32\"", "\"lp\": \"f64\"", "lp"},
        {"\"sequences\": 2,", "\"sequences\": 3,", "shards"},
        {"\"positions\": 17", "\"positions\": 16", "shards"},
        {"\"model_digest\": \"", "\"model_digest\": \"x", "model_digest"},
        {"\"shards\": [", "\"shards\": [{},", "shards[0].sequences"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct fg_buf b = {0};
        const char *at = strstr(index.data, changes[i][0]);
        assert_non_null(at);
        fg_buf_add(&b, index.data, (size_t)(at - index.data));
        fg_buf_str(&b, changes[i][1]);
        fg_buf_str(&b, at + strlen(changes[i][0]));
        kc_write(out, "index.json", &b);
        if (read_all(out, &err) != FG_EINPUT) fail_msg("accepted: %s", changes[i][1]);
        if (changes[i][2][0]) assert_string_equal(err.field, changes[i][2]);
        fg_buf_free(&b);
    }
    fg_buf_free(&good);
    fg_buf_free(&index);
    fg_eval_set_free(&set);
    forge_engine_close(e);
    kc_remove(out);
    free(file);
    free(out);
}

// A cache whose hashes are right and whose values need not be.
struct forged {
    int32_t ids[6], lengths[2];
    float lp[6], nll[3];
};

static int forge_cache(const struct forged *f, uint64_t n_lengths, struct fg_error *err)
{
    const struct fg_st_blob blobs[] = {
        {.name = "ids", .dtype = FG_ST_I32, .rank = 2, .shape = {3, 2}, .data = f->ids},
        {.name = "lp", .dtype = FG_ST_F32, .rank = 2, .shape = {3, 2}, .data = f->lp},
        {.name = "nll", .dtype = FG_ST_F32, .rank = 1, .shape = {3}, .data = f->nll},
        {.name = "lengths",
         .dtype = FG_ST_I32,
         .rank = 1,
         .shape = {n_lengths},
         .data = f->lengths},
    };
    const struct fg_st_options o = {.hash = true};
    struct fg_st_written w;
    char *dir = kc_path(&scratch, "forged");
    struct fg_buf index = {0};
    kc_check(fg_dir_make(dir, err), err);
    kc_check(fg_st_file_write(scratch_path(&scratch, "forged/teacher-00000.safetensors"), blobs, 4,
                              &o, &w, err),
             err);
    fg_buf_printf(&index,
                  "{\"schema\": \"forge.teacher/1\", \"kind\": \"trace\", \"k\": 2, \"vocab\": 5, "
                  "\"lp\": \"f32\", \"sequences\": 2, \"positions\": 3, \"model_digest\": \"%s\", "
                  "\"rows_sha256\": \"%s\", \"shards\": [{\"sequences\": 2, \"positions\": 3, "
                  "\"bytes\": %llu, \"sha256\": \"%s\"}]}",
                  model_hex, model_hex, (unsigned long long)w.bytes, w.sha256);
    kc_write(dir, "index.json", &index);
    fg_buf_free(&index);
    int rc = read_all(dir, err);
    free(dir);
    return rc;
}

static void forged_values(void **state)
{
    (void)state;
    struct fg_error err = {0};
    const struct forged good = {.ids = {0, 4, 3, 1, 2, 0},
                                .lengths = {3, 2},
                                .lp = {-0.7f, -0.8f, -0.1f, -3, -1, -1},
                                .nll = {0, 1, 20}};
    assert_int_equal(forge_cache(&good, 2, &err), 0);
    struct forged f;
#define FORGED(change, what)                                                                       \
    do {                                                                                           \
        f = good;                                                                                  \
        change;                                                                                    \
        assert_int_equal(forge_cache(&f, 2, &err), FG_EINPUT);                                     \
        if (strncmp(err.field, what, strlen(what)) != 0) fail_msg("%s: %s", what, err.field);      \
    } while (0)
    FORGED(f.ids[1] = 5, "ids at position 0, entry 1");
    FORGED(f.ids[2] = -1, "ids at position 1, entry 0");
    FORGED(f.ids[5] = 2, "ids at position 2, entry 1"); // twice
    FORGED(f.lp[0] = NAN, "lp at position 0, entry 0");
    FORGED(f.lp[3] = -INFINITY, "lp at position 1, entry 1");
    FORGED(f.lp[1] = -0.69f, "lp at position 0, entry 1"); // ascending
    FORGED(f.lp[4] = 0.5f, "lp at position 2, entry 0");
    FORGED(f.lp[2] = f.lp[3] = -0.6f, "lp at position 1, entry 1"); // more than 1 together
    FORGED(f.nll[2] = NAN, "nll at position 2");
    FORGED(f.nll[0] = -1, "nll at position 0");
    FORGED(f.lengths[1] = 1, "lengths[1]");
    FORGED(f.lengths[0] = 4, "lengths");
#undef FORGED
    assert_int_equal(forge_cache(&good, 1, &err), FG_EINPUT);
    assert_string_equal(err.field, "tensor lengths");
    kc_remove(scratch_path(&scratch, "forged"));
}

static void what_a_model_has_no_room_for(void **state)
{
    (void)state;
    struct fg_error err = {0};
    const int32_t lengths[] = {1026}; // a-s0 has 1024 positions, the last token needs none
    struct fg_eval_set set;
    struct fg_teacher_result r;
    char *file = kc_path(&scratch, "trace"), *out = kc_path(&scratch, "cache");
    struct forge_engine *e = kc_open("a-s0", FORGE_EXACT, 1);
    kc_trace(&set, file, lengths, 1, 1);
    struct fg_teacher_job job = job_of(e, &set, out);
    assert_int_equal(fg_teacher_make(&job, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "longest sequence");
    fg_eval_set_free(&set);
    // A tokenizer that is another one.
    const char *const files[] = {scratch_path(&scratch, "named")};
    int32_t ids[] = {1, 2, 3};
    struct fg_rows rows = {.n = 1, .seq = 3, .ids = ids};
    memset(rows.facts.tokenizer_sha256, 'a', 64);
    kc_check(fg_rows_write(files[0], &rows, NULL, &err), &err);
    assert_int_equal(fg_eval_set_open(&set, files, 1, KC_VOCAB, model_hex, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "tokenizer_sha256");
    kc_check(fg_eval_set_open(&set, files, 1, KC_VOCAB, rows.facts.tokenizer_sha256, &err), &err);
    fg_eval_set_free(&set);
    assert_int_equal(fg_eval_set_open(&set, files, 1, 3, "", &err), FG_EINPUT); // vocabulary
    forge_engine_close(e);
    free(file);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(best_of_a_row),          cmocka_unit_test(every_position_of_a_trace),
        cmocka_unit_test(rows_in_shards),         cmocka_unit_test(resumed_is_the_same),
        cmocka_unit_test(other_jobs_are_refused), cmocka_unit_test(damaged_shards),
        cmocka_unit_test(forged_values),          cmocka_unit_test(what_a_model_has_no_room_for),
    };
    struct fg_error err = {0};
    scratch_open(&scratch);
    kc_check(fg_pool_new(&pool, 4, &err), &err);
    kc_identity("a-s0", model_hex);
    int failed = cmocka_run_group_tests_name("teacher", tests, NULL, NULL);
    fg_pool_free(pool);
    scratch_close(&scratch);
    return failed;
}
