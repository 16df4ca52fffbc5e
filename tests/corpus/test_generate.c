// Sampling that is stopped, killed, damaged and resumed gives the same bytes; packing; sets of
// evaluation; contamination. On the tiny chat model.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "corpus/check.h"
#include "corpus/evalset.h"
#include "corpus/generate.h"
#include "corpus/pack.h"
#include "corpus/sequences.h"
#include "support/scratch.h"

static struct scratch tmp;
static struct fg_error err;
static struct forge_engine *engine;

static const char prompts_text[] = "{\"id\": \"a\", \"kind\": \"code\", \"messages\": [{\"role\": "
                                   "\"user\", \"content\": \"one\"}]}\n"
                                   "{\"id\": \"b\", \"kind\": \"math\", \"messages\": [{\"role\": "
                                   "\"system\", \"content\": \"s\"}, "
                                   "{\"role\": \"user\", \"content\": \"two\"}]}\n"
                                   "{\"id\": \"c\", \"kind\": \"code\", \"messages\": [{\"role\": "
                                   "\"user\", \"content\": \"three\"}]}\n"
                                   "{\"id\": \"d\", \"kind\": \"math\", \"messages\": [{\"role\": "
                                   "\"user\", \"content\": \"four\"}]}\n"
                                   "{\"id\": \"e\", \"kind\": \"rare\", \"messages\": [{\"role\": "
                                   "\"user\", \"content\": \"five\"}]}\n";

static struct fg_prompts prompts;

struct watch {
    size_t stop_at;           // sequences done
    int64_t stop_tokens;      // of the one at work
    size_t calls, stop_calls; // 0: never
};

static int watch(void *ctx, size_t done, const char *id, int64_t tokens)
{
    struct watch *w = ctx;
    assert_non_null(id);
    w->calls++;
    if (w->stop_calls) return w->calls >= w->stop_calls;
    return done == w->stop_at && tokens >= w->stop_tokens;
}

static struct fg_generate_job job_in(const char *dir)
{
    return (struct fg_generate_job){
        .engine = engine,
        .prompts = &prompts,
        .dir = dir,
        .seed = 5,
        .sampling = {.temperature = 0.6, .top_p = 0.95, .top_k = 20},
        .max_new = 24,
        .at_once = 1,
        .think = true,
        .model_digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    };
}

static void run(const struct fg_generate_job *job, struct fg_generate_result *r)
{
    char line[1024];
    if (fg_generate_run(job, r, &err)) fail_msg("%s", fg_error_line(&err, line, sizeof line));
}

static struct fg_buf read_file(const char *dir, const char *name)
{
    struct fg_buf b = {0};
    char *path = fg_path_join(dir, name);
    assert_int_equal(fg_file_read(&b, path, 1 << 24, &err), 0);
    free(path);
    return b;
}

static void same_files(const char *a, const char *b)
{
    static const char *const names[] = {FG_SEQUENCES_FILE, FG_SEQUENCES_ABOUT};
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        struct fg_buf x = read_file(a, names[i]), y = read_file(b, names[i]);
        if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0) fail_msg("%s differs", names[i]);
        fg_buf_free(&x);
        fg_buf_free(&y);
    }
}

static void read_sequences(struct fg_sequences *s, const char *dir)
{
    uint64_t bytes;
    char *path = fg_path_join(dir, FG_SEQUENCES_FILE);
    assert_int_equal(fg_sequences_read(s, &bytes, path, &err), 0);
    free(path);
}

static char ref[300]; // the run that the others are compared with

// Each sequence is what the public API draws from the seed of its prompt, with the stop token.
static void samples_what_the_api_does(void **state)
{
    (void)state;
    struct fg_generate_result r;
    struct fg_generate_job job = job_in(ref);
    struct watch w = {.stop_at = 99};
    job.progress = watch;
    job.ctx = &w;
    run(&job, &r);
    assert_int_equal(r.made, 5);
    assert_int_equal(r.found, 0);
    assert_true(w.calls > 20);
    struct fg_sequences s;
    read_sequences(&s, ref);
    assert_int_equal(s.n, 5);
    int64_t reply = 0;
    for (size_t i = 0; i < s.n; i++) {
        const struct fg_sequence *q = &s.item[i];
        const struct fg_prompt *p = &prompts.item[i];
        assert_string_equal(q->id, p->id);
        assert_string_equal(q->kind, p->kind);
        int32_t *ids;
        size_t n;
        assert_int_equal(forge_encode_chat(engine, p->json, strlen(p->json),
                                           "{\"enable_thinking\": true}", &ids, &n, &err),
                         0);
        assert_int_equal(q->n_prompt, n);
        assert_memory_equal(q->ids, ids, n * sizeof *ids);
        // The public API stops at the stop token and does not show it.
        struct forge_session *session;
        struct forge_generate_result g;
        struct forge_session_options so = {0};
        struct forge_generate_options o = {.max_tokens = 24, .sampling = job.sampling};
        o.sampling.seed = fg_generate_seed(5, p->id);
        assert_int_equal(forge_session_new(&session, engine, &so, &err), 0);
        assert_int_equal(forge_generate(session, ids, (int64_t)n, &o, &g, &err), 0);
        assert_int_equal(q->n - q->n_prompt, g.generated_tokens);
        assert_string_equal(q->finish, forge_finish_name(g.finish));
        int64_t held = forge_session_position(session); // all but the last one drawn
        assert_int_equal(forge_session_common_prefix(session, q->ids, q->n), held);
        assert_int_equal(held, q->n - 1);
        reply += g.generated_tokens;
        forge_session_free(session);
        free(ids);
    }
    assert_int_equal(r.reply_tokens, reply);
    fg_sequences_free(&s);
}

static void resumes_to_the_same_bytes(void **state)
{
    (void)state;
    char dir[300];
    struct fg_generate_result r;
    for (size_t at = 0; at < 5; at++) {
        for (int64_t tokens = 0; tokens < 12; tokens += 7) {
            snprintf(dir, sizeof dir, "%s/stop%zu-%lld", tmp.dir, at, (long long)tokens);
            struct fg_generate_job job = job_in(dir);
            struct watch w = {.stop_at = at, .stop_tokens = tokens};
            job.progress = watch;
            job.ctx = &w;
            assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINTERRUPTED);
            assert_int_equal(r.made, at);
            struct fg_sequences_about about;
            assert_int_equal(fg_sequences_about(&about, dir, &err), 0);
            assert_false(about.complete);
            job.progress = NULL;
            run(&job, &r);
            assert_int_equal(r.found, at);
            assert_int_equal(r.made, 5 - at);
            same_files(ref, dir);
        }
    }
    // Nothing is left to do.
    struct fg_generate_job job = job_in(dir);
    run(&job, &r);
    assert_int_equal(r.found, 5);
    assert_int_equal(r.made, 0);
    same_files(ref, dir);
}

// Several at a time, more than there are prompts included: the same; stopped, it keeps the first.
static void batches_to_the_same_bytes(void **state)
{
    (void)state;
    char dir[300];
    struct fg_generate_result r;
    for (int at_once = 2; at_once <= 8; at_once += 3) {
        snprintf(dir, sizeof dir, "%s/batch%d", tmp.dir, at_once);
        struct fg_generate_job job = job_in(dir);
        struct watch w = {.stop_calls = 9 + 4 * (size_t)(at_once % 3)};
        job.at_once = at_once;
        job.progress = watch;
        job.ctx = &w;
        assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINTERRUPTED);
        size_t kept = r.made;
        job.progress = NULL;
        run(&job, &r);
        assert_int_equal(r.found, kept);
        assert_int_equal(r.made, 5 - kept);
        same_files(ref, dir);
    }
}

// Killed while a line was being written: every length of the file.
static void survives_cut_lines(void **state)
{
    (void)state;
    char dir[300], path[400];
    struct fg_generate_result r;
    snprintf(dir, sizeof dir, "%s/cut", tmp.dir);
    struct fg_generate_job job = job_in(dir);
    run(&job, &r);
    struct fg_buf whole = read_file(dir, FG_SEQUENCES_FILE);
    snprintf(path, sizeof path, "%s/%s", dir, FG_SEQUENCES_FILE);
    for (size_t n = 0; n < whole.len; n += 307) {
        assert_int_equal(truncate(path, (off_t)n), 0);
        size_t lines = 0;
        for (size_t i = 0; i < n; i++)
            lines += whole.data[i] == '\n';
        run(&job, &r);
        assert_int_equal(r.found, lines);
        same_files(ref, dir);
    }
    fg_buf_free(&whole);
}

static void refuses_other_jobs(void **state)
{
    (void)state;
    struct fg_generate_result r;
    struct fg_generate_job job = job_in(ref);
    job.seed = 6;
    assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "--seed");
    job = job_in(ref);
    job.max_new = 25;
    assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINTEGRITY);
    job = job_in(ref);
    job.raw = true;
    assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "template");
    job = job_in(ref);
    job.sampling.temperature = 0.7;
    assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINTEGRITY);
    // A directory of something else.
    char dir[300];
    snprintf(dir, sizeof dir, "%s/foreign", tmp.dir);
    mkdir(dir, 0777);
    scratch_write(&tmp, "foreign/notes", "x", 1);
    job = job_in(dir);
    assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINPUT);
    // Sequences of other prompts, and lines that are none.
    snprintf(dir, sizeof dir, "%s/odd", tmp.dir);
    job = job_in(dir);
    run(&job, &r);
    static const char *const bad[] = {
        "{\"id\": \"b\", \"kind\": \"code\", \"finish\": \"stop\", \"prompt\": [1], \"reply\": "
        "[2]}\n",
        "{\"id\": \"a\", \"kind\": \"code\", \"finish\": \"stop\", \"prompt\": [1], \"reply\": "
        "[2]}\n",
        "{}\n",
        "x\n",
        "{\"id\": \"a\", \"kind\": \"code\", \"finish\": \"why\", \"prompt\": [1], \"reply\": "
        "[2]}\n",
        "{\"id\": \"a\", \"kind\": \"code\", \"finish\": \"stop\", \"prompt\": [1.5], \"reply\": "
        "[2]}\n",
        "{\"id\": \"a\", \"kind\": \"code\", \"finish\": \"stop\", \"prompt\": [-1], \"reply\": "
        "[2]}\n",
        "{\"id\": \"a\", \"kind\": \"code\", \"finish\": \"stop\", \"prompt\": [1], \"reply\": "
        "[]}\n",
        "{\"id\": \"a\", \"kind\": \"code\", \"finish\": \"stop\", \"prompt\": 1, \"reply\": "
        "[2]}\n",
        "{\"id\": \"a\", \"kind\": \"code\", \"finish\": \"stop\", \"prompt\": [4294967296], "
        "\"reply\": [2]}\n",
    };
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        scratch_write(&tmp, "odd/" FG_SEQUENCES_FILE, bad[i], strlen(bad[i]));
        assert_int_equal(fg_generate_run(&job, &r, &err), i < 2 ? FG_EINTEGRITY : FG_EINPUT);
        struct fg_buf after = read_file(dir, FG_SEQUENCES_FILE);
        assert_int_equal(after.len, strlen(bad[i])); // it is left as it was
        fg_buf_free(&after);
    }
    job.restart = true;
    run(&job, &r);
    assert_int_equal(r.found, 0);
    same_files(ref, dir);
}

static void checks_prompts_first(void **state)
{
    (void)state;
    struct fg_generate_result r;
    struct fg_prompts p = {0};
    char dir[300];
    snprintf(dir, sizeof dir, "%s/never", tmp.dir);
    struct fg_generate_job job = job_in(dir);
    job.prompts = &p;
    job.session.capacity = 4096;
    assert_true(fg_prompts_add(&p, "good", "k", prompts.item[0].json, ""));
    assert_true(fg_prompts_add(&p, "bad", "k",
                               "{\"messages\": [{\"role\": \"nobody\", \"content\": \"x\"}]}", ""));
    assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINPUT);
    assert_non_null(strstr(err.found, "(prompt bad)"));
    assert_false(fg_path_taken(dir));
    struct fg_buf text = {0};
    fg_buf_str(&text, "{\"messages\": [{\"role\": \"user\", \"content\": \"");
    for (int i = 0; i < 4096; i++)
        fg_buf_str(&text, "x ");
    fg_buf_str(&text, "\"}]}");
    fg_prompts_free(&p);
    assert_true(fg_prompts_add(&p, "long", "k", text.data, ""));
    assert_int_equal(fg_generate_run(&job, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "long");
    assert_false(fg_path_taken(dir));
    fg_buf_free(&text);
    fg_prompts_free(&p);
}

static void renders_plain_text(void **state)
{
    (void)state;
    struct fg_buf out = {0};
    struct fg_prompt p = {.id = "x",
                          .json = "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, "
                                  "{\"role\": \"user\", \"content\": \"U\"}, {\"role\": "
                                  "\"assistant\", \"content\": \"\", \"tool_calls\": [{\"name\": "
                                  "\"f\"}]}], \"tools\": [{\"a\": 1}, {\"b\": 2}]}"};
    assert_int_equal(fg_generate_plain(&out, &p, &err), 0);
    assert_string_equal(out.data, "S\n\n{\"a\": 1}\n{\"b\": 2}\n\nU\n\n[{\"name\": \"f\"}]\n\n");
    fg_buf_clear(&out);
    p.json = "{\"messages\": [{\"content\": [{}]}]}";
    assert_int_equal(fg_generate_plain(&out, &p, &err), FG_EINPUT);
    fg_buf_free(&out);
    // And samples it.
    char dir[300];
    struct fg_generate_result r;
    struct fg_sequences s;
    int32_t *ids;
    size_t n;
    snprintf(dir, sizeof dir, "%s/raw", tmp.dir);
    struct fg_generate_job job = job_in(dir);
    job.raw = true;
    run(&job, &r);
    read_sequences(&s, dir);
    assert_int_equal(forge_tokenize(engine, "s\n\ntwo\n\n", 8, false, &ids, &n, &err), 0);
    assert_int_equal(s.item[1].n_prompt, n);
    assert_memory_equal(s.item[1].ids, ids, n * sizeof *ids);
    free(ids);
    fg_sequences_free(&s);
}

// ---- packing

static void packs_rows(void **state)
{
    (void)state;
    const char *dirs[] = {ref};
    struct fg_pack_job job = {
        .dirs = dirs, .n_dirs = 1, .seq = 16, .holdout = 0.5, .split = "train"};
    struct fg_rows rows, held;
    struct fg_pack_facts facts;
    struct fg_sequences s;
    read_sequences(&s, ref);
    assert_int_equal(fg_pack_rows(&rows, &held, &facts, &job, &err), 0);
    // Both parts, put together by hand.
    int32_t ids[2][4096], seq_id[2][4096];
    int64_t n[2] = {0}, n_held = 0;
    for (size_t i = 0; i < s.n; i++) {
        bool apart = fg_pack_is_held(s.item[i].ids, s.item[i].n_prompt, 0.5);
        n_held += apart;
        for (int64_t k = 0; k < s.item[i].n; k++) {
            ids[apart][n[apart]] = s.item[i].ids[k];
            seq_id[apart][n[apart]++] = (int32_t)i;
        }
    }
    assert_true(n_held > 0 && n_held < 5); // of five prompts, by chance known
    assert_int_equal(facts.held, n_held);
    assert_int_equal(facts.sequences, 5);
    assert_int_equal(facts.tokens, n[0] + n[1]);
    const struct fg_rows *parts[] = {&rows, &held};
    for (int part = 0; part < 2; part++) {
        assert_int_equal(parts[part]->n, n[part] / 16);
        size_t bytes = (size_t)parts[part]->n * 16 * sizeof(int32_t);
        assert_memory_equal(parts[part]->ids, ids[part], bytes);
        assert_memory_equal(parts[part]->seq_id, seq_id[part], bytes);
        assert_int_equal(parts[part]->facts.seed, 5);
        assert_int_equal(strlen(parts[part]->facts.tokenizer_sha256), 64);
    }
    assert_string_equal(held.facts.split, "train-holdout");
    fg_rows_free(&rows);
    fg_rows_free(&held);
    // The share of a hash: growing shares hold growing sets.
    int64_t counts[4] = {0};
    for (int32_t i = 0; i < 4000; i++) {
        const double shares[] = {0, 0.05, 0.5, 1};
        bool before = false;
        for (int k = 0; k < 4; k++) {
            bool now = fg_pack_is_held(&i, 1, shares[k]);
            counts[k] += now;
            assert_true(now || !before);
            before = now;
        }
    }
    assert_int_equal(counts[0], 0);
    assert_true(counts[1] > 140 && counts[1] < 260);
    assert_true(counts[2] > 1900 && counts[2] < 2100);
    assert_int_equal(counts[3], 4000);
    // Too long a row, another tokenizer, a run that has not finished.
    job.seq = 1 << 19;
    assert_int_equal(fg_pack_rows(&rows, &held, &facts, &job, &err), FG_EINPUT);
    assert_null(rows.ids);
    struct fg_buf about = read_file(ref, FG_SEQUENCES_ABOUT),
                  text = read_file(ref, FG_SEQUENCES_FILE);
    char dir[300];
    snprintf(dir, sizeof dir, "%s/packed", tmp.dir);
    mkdir(dir, 0777);
    char *sha = strstr(about.data, "\"tokenizer_sha256\": \"") + 21;
    *sha = *sha == 'a' ? 'b' : 'a';
    scratch_write(&tmp, "packed/" FG_SEQUENCES_ABOUT, about.data, about.len);
    scratch_write(&tmp, "packed/" FG_SEQUENCES_FILE, text.data, text.len);
    const char *two[] = {ref, dir};
    job = (struct fg_pack_job){.dirs = two, .n_dirs = 2, .seq = 16, .split = ""};
    assert_int_equal(fg_pack_rows(&rows, &held, &facts, &job, &err), FG_EINPUT);
    assert_string_equal(err.field, "tokenizer_sha256");
    char *complete = strstr(about.data, "true");
    memcpy(complete, "null", 4);
    scratch_write(&tmp, "packed/" FG_SEQUENCES_ABOUT, about.data, about.len);
    job.dirs = two + 1;
    job.n_dirs = 1;
    assert_int_equal(fg_pack_rows(&rows, &held, &facts, &job, &err), FG_EINPUT);
    assert_string_equal(err.field, "complete");
    job.partial = true;
    assert_int_equal(fg_pack_rows(&rows, &held, &facts, &job, &err), 0);
    assert_int_equal(held.n, 0);
    fg_rows_free(&rows);
    fg_buf_free(&about);
    fg_buf_free(&text);
    fg_sequences_free(&s);
}

static void packs_a_trace(void **state)
{
    (void)state;
    const char *dirs[] = {ref, ref};
    struct fg_pack_job job = {.dirs = dirs, .n_dirs = 2, .split = "select"};
    struct fg_trace t, back;
    struct fg_pack_facts facts;
    struct fg_sequences s;
    char path[512], line[1024];
    read_sequences(&s, ref);
    assert_int_equal(fg_pack_trace(&t, &facts, &job, &err), 0);
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "t.safetensors"));
    if (fg_trace_write(path, &t, NULL, &err)) fail_msg("%s", fg_error_line(&err, line, 1024));
    assert_int_equal(fg_trace_open(&back, path, 0, NULL, &err), 0);
    assert_int_equal(back.n, 10);
    assert_int_equal(back.n_labels, 3);
    assert_string_equal(back.labels[0], "code");
    assert_string_equal(back.labels[2], "rare");
    for (size_t i = 0; i < 10; i++) {
        const struct fg_sequence *q = &s.item[i % 5];
        assert_int_equal(back.lengths[i], q->n);
        assert_int_equal(back.plens[i], q->n_prompt);
        assert_string_equal(back.labels[back.label[i]], q->kind);
        assert_memory_equal(back.ids + back.starts[i], q->ids, (size_t)q->n * sizeof *q->ids);
        assert_int_equal(t.starts[i], back.starts[i]);
    }
    assert_int_equal(t.longest, back.longest);
    fg_trace_free(&t);
    fg_trace_free(&back);
    fg_sequences_free(&s);
}

static void makes_a_set(void **state)
{
    (void)state;
    char dir[300], out[300], again[300];
    struct fg_generate_result r;
    struct fg_trace t, u;
    snprintf(dir, sizeof dir, "%s/dev.work", tmp.dir);
    snprintf(out, sizeof out, "%s/dev.safetensors", tmp.dir);
    snprintf(again, sizeof again, "%s/dev2.safetensors", tmp.dir);
    struct fg_evalset_job job = {.set = FG_PROMPTS_DEV, .generate = job_in(dir), .out = out};
    struct watch w = {.stop_at = 30, .stop_tokens = 1};
    job.generate.max_new = 2;
    job.generate.progress = watch;
    job.generate.ctx = &w;
    assert_int_equal(fg_evalset_make(&job, &r, &t, &err), FG_EINTERRUPTED);
    assert_false(fg_path_taken(out));
    job.generate.progress = NULL;
    assert_int_equal(fg_evalset_make(&job, &r, &t, &err), 0);
    assert_int_equal(r.found, 30);
    assert_int_equal(t.n, 64);
    assert_int_equal(t.n_labels, 7);
    assert_string_equal(t.facts.split, "dev");
    int64_t counts[7] = {0};
    for (int64_t i = 0; i < t.n; i++)
        counts[t.label[i]]++;
    for (int k = 0; k < 7; k++) {
        if (strcmp(t.labels[k], "code") == 0) assert_int_equal(counts[k], 16);
        if (strcmp(t.labels[k], "reasoning") == 0) assert_int_equal(counts[k], 4);
    }
    job.out = again;
    assert_int_equal(fg_evalset_make(&job, &r, &u, &err), 0);
    assert_int_equal(r.made, 0);
    assert_string_equal(t.sha256, u.sha256);
    fg_trace_free(&t);
    fg_trace_free(&u);
}

// ---- contamination

static void finds_shared_prompts(void **state)
{
    (void)state;
    struct fg_prompts dev, train;
    struct fg_check_result r;
    assert_int_equal(fg_prompts_eval(&dev, FG_PROMPTS_DEV, &err), 0);
    assert_int_equal(fg_prompts_train(&train, 7, 100, &err), 0);
    char clean[512], dirty[512], other[512];
    snprintf(clean, sizeof clean, "%s", scratch_path(&tmp, "clean.jsonl"));
    assert_int_equal(fg_prompts_write(clean, &train, &err), 0);
    // One that quotes an evaluation prompt, and one that is an earlier one with a word more.
    struct fg_buf text = {0}, said = {0};
    size_t quoted = 0;
    for (size_t i = 0; i < dev.n; i++) {
        if (strlen(dev.item[i].said) > strlen(dev.item[quoted].said)) quoted = i;
    }
    fg_buf_printf(&said, "please, before lunch: %s", dev.item[quoted].said);
    fg_buf_str(&text, "{\"id\": \"quote\", \"messages\": [{\"role\": \"user\", \"content\": ");
    fg_buf_json_str(&text, said.data, said.len);
    fg_buf_str(&text, "}]}\n{\"id\": \"twin\", \"messages\": [{\"role\": \"user\", \"content\": ");
    fg_buf_clear(&said);
    fg_buf_printf(&said, "%s Thanks.", train.item[3].said);
    fg_buf_json_str(&text, said.data, said.len);
    fg_buf_str(&text, "}]}\n");
    snprintf(dirty, sizeof dirty, "%s", scratch_write(&tmp, "dirty.jsonl", text.data, text.len));
    const char *files[] = {clean, dirty};
    struct fg_check_job job = {.prompts = files, .n_prompts = 1};
    assert_int_equal(fg_check_run(&job, &r, &err), 0);
    assert_true(r.good);
    assert_int_equal(r.n_prompts, 100);
    assert_int_equal(r.n_against, 64 + 3 * 128);
    fg_check_free(&r);
    job.n_prompts = 2;
    assert_int_equal(fg_check_run(&job, &r, &err), 0);
    assert_false(r.good);
    assert_int_equal(r.n_prompts, 102);
    assert_int_equal(r.n_pairs, 2);
    assert_string_equal(r.pair[0].id, "quote");
    assert_string_equal(r.pair[0].other, dev.item[quoted].id);
    assert_true(r.pair[0].likeness == 0);
    assert_string_equal(r.pair[1].id, "twin");
    assert_string_equal(r.pair[1].other, train.item[3].id);
    assert_true(r.pair[1].likeness >= 0.6 && r.pair[1].likeness < 1);
    fg_check_free(&r);
    // Evaluation prompts of a file.
    static const char mine[] = "{\"id\": \"mine\", \"messages\": [{\"role\": \"user\", "
                               "\"content\": \"a b c d e f g h\"}]}";
    static const char close[] = "{\"id\": \"x\", \"messages\": [{\"role\": \"user\", \"content\": "
                                "\"zz A, B; c d e f g h!\"}]}\n{\"id\": \"y\", \"messages\": "
                                "[{\"role\": \"user\", \"content\": \"a b c d e f g\"}]}";
    snprintf(other, sizeof other, "%s", scratch_write(&tmp, "own.jsonl", mine, sizeof mine - 1));
    scratch_write(&tmp, "dirty.jsonl", close, sizeof close - 1);
    const char *against[] = {other};
    job = (struct fg_check_job){
        .prompts = files + 1, .n_prompts = 1, .against = against, .n_against = 1};
    assert_int_equal(fg_check_run(&job, &r, &err), 0);
    assert_int_equal(r.n_pairs, 2);
    char want[600];
    snprintf(want, sizeof want, "mine of %s", other);
    assert_string_equal(r.pair[0].id, "x");
    assert_string_equal(r.pair[0].other, want);
    assert_string_equal(r.pair[1].id, "y"); // five of the six runs of three words
    assert_true(r.pair[1].likeness > 0.6);
    fg_check_free(&r);
    fg_buf_free(&text);
    fg_buf_free(&said);
    fg_prompts_free(&dev);
    fg_prompts_free(&train);
}

// Letters are tokens of the tiny vocabulary, so runs can be counted by hand.
static void counts_shared_runs(void **state)
{
    (void)state;
    static const char chat[] = "[{\"role\": \"user\", \"content\": \"abcdefghijklmnopqrst\"}]";
    int32_t *ids, *plain;
    size_t n, n_plain;
    assert_int_equal(forge_encode_chat(engine, chat, strlen(chat),
                                       "{\"reasoning_effort\": \"low\"}", &ids, &n, &err),
                     0);
    assert_int_equal(
        forge_tokenize(engine, "0123456789abcdefghijklmnop!", 27, false, &plain, &n_plain, &err),
        0);
    assert_int_equal(n_plain, 27);
    int32_t *turn;
    size_t n_turn;
    assert_int_equal(
        forge_tokenize(engine, "user\nabcdefghijklmnopqrst", 25, false, &turn, &n_turn, &err), 0);
    free(turn);
    int32_t lengths[] = {(int32_t)n}, plens[] = {1};
    struct fg_trace trace = {
        .n = 1, .total = (int64_t)n, .ids = ids, .lengths = lengths, .plens = plens};
    struct fg_rows rows = {.n = 1, .seq = 27, .ids = plain};
    char trace_path[512], rows_path[512], whole_path[512];
    snprintf(trace_path, sizeof trace_path, "%s", scratch_path(&tmp, "shared-trace"));
    snprintf(rows_path, sizeof rows_path, "%s", scratch_path(&tmp, "shared-rows"));
    snprintf(whole_path, sizeof whole_path, "%s", scratch_path(&tmp, "shared-whole"));
    assert_int_equal(fg_trace_write(trace_path, &trace, NULL, &err), 0);
    assert_int_equal(fg_rows_write(rows_path, &rows, NULL, &err), 0);
    const char *rows_list[] = {rows_path}, *traces[] = {trace_path};
    struct fg_check_job job = {.rows = rows_list,
                               .n_rows = 1,
                               .traces = traces,
                               .n_traces = 1,
                               .engine = engine,
                               .share_max = FG_CHECK_SHARE};
    struct fg_check_result r;
    assert_int_equal(fg_check_run(&job, &r, &err), 0);
    // What is not the template's: the role and the 20 letters, between two marks. Of their runs
    // "abcdefghijklm" to "defghijklmnop" stand in the rows.
    int64_t windows = (int64_t)n_turn - 12;
    assert_int_equal(r.trace[0].windows, windows);
    assert_int_equal(r.trace[0].present, 4);
    assert_false(r.trace[0].good);
    assert_false(r.good);
    assert_int_equal(r.row_tokens, 27);
    fg_check_free(&r);
    job.share_max = 0.5;
    assert_int_equal(fg_check_run(&job, &r, &err), 0);
    assert_true(r.good);
    fg_check_free(&r);
    // Rows that hold the trace whole: all of it.
    struct fg_rows whole = {.n = 1, .seq = (int64_t)n, .ids = ids};
    assert_int_equal(fg_rows_write(whole_path, &whole, NULL, &err), 0);
    rows_list[0] = whole_path;
    assert_int_equal(fg_check_run(&job, &r, &err), 0);
    assert_int_equal(r.trace[0].windows, windows);
    assert_int_equal(r.trace[0].present, windows);
    fg_check_free(&r);
    free(ids);
    free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_what_the_api_does),
        cmocka_unit_test(resumes_to_the_same_bytes),
        cmocka_unit_test(batches_to_the_same_bytes),
        cmocka_unit_test(survives_cut_lines),
        cmocka_unit_test(refuses_other_jobs),
        cmocka_unit_test(checks_prompts_first),
        cmocka_unit_test(renders_plain_text),
        cmocka_unit_test(packs_rows),
        cmocka_unit_test(packs_a_trace),
        cmocka_unit_test(makes_a_set),
        cmocka_unit_test(finds_shared_prompts),
        cmocka_unit_test(counts_shared_runs),
    };
    char path[512], line[1024];
    scratch_open(&tmp);
    snprintf(path, sizeof path, "%s/models/chat-tiny", FORGE_GOLDEN_DIR);
    snprintf(ref, sizeof ref, "%s/ref", tmp.dir);
    struct forge_engine_options o = {.model = path, .threads = 1, .numerics = FORGE_EXACT};
    if (forge_engine_open(&engine, &o, &err)) {
        fprintf(stderr, "%s\n", fg_error_line(&err, line, sizeof line));
        return 1;
    }
    const char *file = scratch_write(&tmp, "prompts.jsonl", prompts_text, sizeof prompts_text - 1);
    if (fg_prompts_read(&prompts, file, &err)) {
        fprintf(stderr, "%s\n", fg_error_line(&err, line, sizeof line));
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fg_prompts_free(&prompts);
    forge_engine_close(engine);
    scratch_close(&tmp);
    return failed;
}
