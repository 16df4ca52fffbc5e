// corpus/generate.c: prompts as tokens, the directory of a run, and what of it is done. Drawing is
// in batch.c.
#include "corpus/generate.h"
#include "base/file.h"
#include "base/job_dir.h"
#include "base/jval.h"
#include "base/jwrite.h"
#include "base/num.h"
#include "base/progress.h"
#include "corpus/batch.h"
#include "corpus/lines.h"
#include "corpus/sequences.h"
#include "quant/random.h"
#include "text/chat_python.h"
#include "text/tokenizer.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHAT "generate"
#define FACTS 13

struct run {
    const struct fg_generate_job *job;
    struct fg_generate_result *result;
    struct fg_job_dir *dir;
    int64_t capacity;       // of sessions
    struct fg_ids *prompts; // [n] token ids
    char tokenizer[FG_SHA256_HEX], digest[FG_SHA256_HEX];
    char *path; // of the sequences
    int fd;
};

uint64_t fg_generate_seed(uint64_t seed, const char *id)
{
    char tag[FG_PROMPT_ID_MAX + 16];
    snprintf(tag, sizeof tag, "generate/%s", id);
    struct fg_random r = fg_random_named(seed, tag);
    return fg_random_next(&r);
}

// ---- prompts as tokens

static int put_content(struct fg_buf *out, const struct fg_prompt *p, const struct fg_jval *content,
                       struct fg_error *err)
{
    if (!content || content->kind == FG_JNULL || (content->kind == FG_JSTRING && content->n == 0))
        return 0;
    if (content->kind != FG_JSTRING)
        return fg_fail(err, FG_EINPUT, WHAT, NULL, p->id, "messages with text alone",
                       "content of %s", fg_jval_kind(content));
    fg_buf_add(out, content->text, content->n);
    fg_buf_str(out, "\n\n");
    return 0;
}

int fg_generate_plain(struct fg_buf *out, const struct fg_prompt *p, struct fg_error *err)
{
    struct fg_jdoc doc;
    int rc = fg_jdoc_parse(&doc, p->json, strlen(p->json), p->id, err);
    if (rc) return rc;
    const struct fg_jval *messages = fg_jval_get(&doc.root, "messages");
    const struct fg_jval *tools = fg_jval_get(&doc.root, "tools");
    for (size_t i = 0; messages && messages->kind == FG_JARRAY && i < messages->n && !rc; i++) {
        const struct fg_jval *m = &messages->items[i], *calls = fg_jval_get(m, "tool_calls");
        rc = put_content(out, p, fg_jval_get(m, "content"), err);
        if (!rc && calls && calls->kind == FG_JARRAY) {
            fg_chat_json(out, calls);
            fg_buf_str(out, "\n\n");
        }
        if (i > 0 || !tools || tools->kind != FG_JARRAY) continue;
        for (size_t t = 0; t < tools->n; t++) {
            fg_chat_json(out, &tools->items[t]);
            fg_buf_str(out, t + 1 < tools->n ? "\n" : "\n\n");
        }
    }
    fg_jdoc_free(&doc);
    if (!rc && out->failed) rc = fg_fail_memory(err, WHAT, out->len);
    return rc;
}

static int encode(const struct fg_generate_job *job, const struct fg_prompt *p, int32_t **ids,
                  size_t *n, struct fg_error *err)
{
    struct fg_buf text = {0};
    if (!job->raw) {
        const char *kwargs =
            job->think ? "{\"enable_thinking\": true}" : "{\"enable_thinking\": false}";
        return forge_encode_chat(job->engine, p->json, strlen(p->json), kwargs, ids, n, err);
    }
    int rc = fg_generate_plain(&text, p, err);
    if (!rc)
        rc = forge_tokenize(job->engine, text.data ? text.data : "", text.len, false, ids, n, err);
    fg_buf_free(&text);
    return rc;
}

static int measure(struct run *r, struct fg_error *err)
{
    struct forge_session *session;
    int rc = forge_session_new(&session, r->job->engine, &r->job->session, err);
    if (rc) return rc;
    r->capacity = forge_session_capacity(session);
    forge_session_free(session);
    return 0;
}

// All prompts before any is run: a mistake in the last one must not cost the hours before it.
static int encode_all(struct run *r, struct fg_error *err)
{
    const struct fg_prompts *p = r->job->prompts;
    const int64_t room = r->capacity;
    r->prompts = calloc(p->n ? p->n : 1, sizeof *r->prompts);
    if (!r->prompts) return fg_fail_memory(err, WHAT, p->n * sizeof *r->prompts);
    for (size_t i = 0; i < p->n; i++) {
        int32_t *ids = NULL;
        size_t n = 0;
        char expected[64];
        int rc = encode(r->job, &p->item[i], &ids, &n, err);
        if (rc == FG_EINPUT && err && !err->file[0]) {
            char found[sizeof err->found];
            snprintf(found, sizeof found, "%.200s (prompt %.40s)", err->found, p->item[i].id);
            fg_escape(err->found, sizeof err->found, found, strlen(found));
        }
        if (!rc && (n < 1 || (int64_t)n >= room)) {
            snprintf(expected, sizeof expected, "1 to %" PRId64 " tokens (the context)", room - 1);
            rc = fg_fail(err, FG_EINPUT, WHAT, NULL, p->item[i].id, expected, "%zu", n);
        }
        if (!rc && !fg_ids_add(&r->prompts[i], ids, n)) rc = fg_fail_memory(err, WHAT, n);
        free(ids);
        if (rc) return rc;
    }
    return 0;
}

// ---- the directory

static int open_dir(struct run *r, struct fg_error *err)
{
    const struct fg_generate_job *job = r->job;
    struct forge_engine_info info;
    static const char *const owned[] = {FG_SEQUENCES_FILE, FG_SEQUENCES_ABOUT, NULL};
    char seed[24], temperature[32], top_p[32], top_k[16], max_new[24], capacity[24];
    forge_engine_info(job->engine, &info);
    snprintf(seed, sizeof seed, "%" PRIu64, job->seed);
    snprintf(top_k, sizeof top_k, "%" PRId32, job->sampling.top_k);
    snprintf(max_new, sizeof max_new, "%" PRId64, job->max_new);
    snprintf(capacity, sizeof capacity, "%" PRId64, r->capacity);
    const struct fg_job_fact facts[FACTS] = {
        {"prompts", r->digest},
        {"model", job->model_digest},
        {"tokenizer", r->tokenizer},
        {"template", job->raw ? "none" : info.chat_template},
        {"--seed", seed},
        {"--temperature",
         fg_format_f64(temperature, sizeof temperature, job->sampling.temperature)},
        {"--top-p", fg_format_f64(top_p, sizeof top_p, job->sampling.top_p)},
        {"--top-k", top_k},
        {"--max-new", max_new},
        {"--think", job->think ? "on" : "off"},
        {"--numerics", info.numerics == FORGE_EXACT ? "exact" : "fast"},
        {"--kv-cache-dtype", info.kv_cache_dtype},
        {"--ctx", capacity},
    };
    struct fg_job_dir_options o = {.what = WHAT,
                                   .dir = job->dir,
                                   .facts = facts,
                                   .n = FACTS,
                                   .owned = owned,
                                   .restart = job->restart};
    int rc = fg_job_dir_open(&r->dir, &o, err);
    if (rc) return rc;
    r->path = fg_path_join(job->dir, FG_SEQUENCES_FILE);
    return r->path ? 0 : fg_fail_memory(err, WHAT, strlen(job->dir));
}

static int write_about(const struct run *r, bool complete, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    char seed[24];
    char *path = fg_path_join(r->job->dir, FG_SEQUENCES_ABOUT);
    snprintf(seed, sizeof seed, "%" PRIu64, r->job->seed);
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "schema", FG_SEQUENCES_SCHEMA);
    fg_jwrite_bool(&w, "complete", complete);
    fg_jwrite_uint(&w, "prompts", r->job->prompts->n);
    fg_jwrite_str(&w, "prompts_sha256", r->digest);
    fg_jwrite_str(&w, "model_digest", r->job->model_digest);
    fg_jwrite_str(&w, "tokenizer_sha256", r->tokenizer);
    fg_jwrite_str(&w, "seed", seed);
    fg_jwrite_num(&w, "temperature", r->job->sampling.temperature);
    fg_jwrite_num(&w, "top_p", r->job->sampling.top_p);
    fg_jwrite_int(&w, "top_k", r->job->sampling.top_k);
    fg_jwrite_int(&w, "max_new", r->job->max_new);
    fg_jwrite_bool(&w, "think", r->job->think);
    fg_jwrite_bool(&w, "raw", r->job->raw);
    if (complete) {
        fg_jwrite_int(&w, "prompt_tokens", r->result->prompt_tokens);
        fg_jwrite_int(&w, "reply_tokens", r->result->reply_tokens);
        fg_jwrite_uint(&w, "ended", r->result->ended);
    }
    fg_jwrite_end_object(&w);
    fg_buf_char(&w.buf, '\n');
    int rc = !path || w.buf.failed ? fg_fail_memory(err, WHAT, w.buf.len)
                                   : fg_file_replace(path, w.buf.data, w.buf.len, err);
    fg_jwrite_free(&w);
    free(path);
    return rc;
}

static void count(struct run *r, const struct fg_sequence *s)
{
    r->result->prompt_tokens += s->n_prompt;
    r->result->reply_tokens += s->n - s->n_prompt;
    r->result->ended += strcmp(s->finish, "stop") == 0;
}

// What earlier runs left must be the first prompts of this one.
static int check_found(struct run *r, const struct fg_sequences *found, struct fg_error *err)
{
    const struct fg_prompts *p = r->job->prompts;
    for (size_t i = 0; i < found->n; i++) {
        const struct fg_sequence *s = &found->item[i];
        bool same = i < p->n && strcmp(s->id, p->item[i].id) == 0 &&
                    s->n_prompt == (int64_t)r->prompts[i].n &&
                    memcmp(s->ids, r->prompts[i].data, r->prompts[i].n * sizeof *s->ids) == 0;
        if (!same) {
            char field[40];
            snprintf(field, sizeof field, "line %zu", i + 1);
            return fg_fail(err, FG_EINTEGRITY, WHAT, r->path, field,
                           i < p->n ? p->item[i].id : "no further line", "%s, or other tokens",
                           s->id);
        }
        count(r, s);
    }
    r->result->found = found->n;
    return 0;
}

static int resume(struct run *r, struct fg_error *err)
{
    struct fg_sequences found = {0};
    uint64_t whole_bytes = 0;
    int rc = 0;
    if (fg_path_taken(r->path)) rc = fg_sequences_read(&found, &whole_bytes, r->path, err);
    if (!rc) rc = check_found(r, &found, err);
    fg_sequences_free(&found);
    if (rc) return rc;
    r->fd = open(r->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (r->fd < 0) return fg_fail_errno(err, r->path, "open", errno);
    // A line that a killed run left unfinished goes away.
    if (ftruncate(r->fd, (off_t)whole_bytes) != 0)
        return fg_fail_errno(err, r->path, "truncate", errno);
    return 0;
}

static int append(struct run *r, const struct fg_buf *line, struct fg_error *err)
{
    if (line->failed) return fg_fail_memory(err, WHAT, line->len);
    for (size_t at = 0; at < line->len;) {
        ssize_t n = write(r->fd, line->data + at, line->len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fg_fail_errno(err, r->path, "write", errno);
        at += (size_t)n;
    }
    return fdatasync(r->fd) == 0 ? 0 : fg_fail_errno(err, r->path, "sync", errno);
}

// ---- sampling

static int on_progress(void *ctx, size_t prompt, int64_t tokens)
{
    const struct run *r = ctx;
    const struct fg_generate_job *job = r->job;
    size_t done = r->result->found + r->result->made;
    if (!job->progress) return 0;
    return job->progress(job->ctx, done, job->prompts->item[r->result->found + prompt].id, tokens);
}

static int on_reply(void *ctx, size_t prompt, const struct fg_ids *ids, enum forge_finish finish,
                    struct fg_error *err)
{
    struct run *r = ctx;
    const struct fg_prompt *p = &r->job->prompts->item[r->result->found + prompt];
    struct fg_sequence s = {.id = p->id,
                            .kind = p->kind,
                            .ids = ids->data,
                            .n_prompt = (int64_t)r->prompts[r->result->found + prompt].n,
                            .n = (int64_t)ids->n};
    struct fg_buf line = {0};
    snprintf(s.finish, sizeof s.finish, "%s", forge_finish_name(finish));
    fg_sequence_line(&line, &s);
    int rc = append(r, &line, err);
    fg_buf_free(&line);
    if (rc) return rc;
    count(r, &s);
    r->result->made++;
    r->result->made_tokens += s.n - s.n_prompt;
    return 0;
}

static int sample(struct run *r, struct fg_error *err)
{
    const struct fg_generate_job *job = r->job;
    const size_t found = r->result->found, n = job->prompts->n - found;
    const double start = fg_clock();
    if (n == 0) return write_about(r, true, err);
    uint64_t *seeds = malloc(n * sizeof *seeds);
    if (!seeds) return fg_fail_memory(err, WHAT, n * sizeof *seeds);
    for (size_t i = 0; i < n; i++)
        seeds[i] = fg_generate_seed(job->seed, job->prompts->item[found + i].id);
    const struct fg_batch_job batch = {.engine = job->engine,
                                       .session = job->session,
                                       .sampling = job->sampling,
                                       .prompts = r->prompts + found,
                                       .seeds = seeds,
                                       .n = n,
                                       .at_once = job->at_once,
                                       .max_new = job->max_new,
                                       .take = on_reply,
                                       .progress = on_progress,
                                       .ctx = r};
    int rc = write_about(r, false, err);
    if (!rc) rc = fg_batch_run(&batch, err);
    r->result->seconds = fg_clock() - start;
    free(seeds);
    return rc ? rc : write_about(r, true, err);
}

int fg_generate_run(const struct fg_generate_job *job, struct fg_generate_result *result,
                    struct fg_error *err)
{
    struct run r = {.job = job, .result = result, .fd = -1};
    *result = (struct fg_generate_result){0};
    int rc = forge_tokenizer_digest(job->engine, r.tokenizer, err);
    if (!rc && !fg_prompts_digest(job->prompts, r.digest)) rc = fg_fail_memory(err, WHAT, 0);
    if (!rc) rc = measure(&r, err);
    if (!rc) rc = encode_all(&r, err);
    if (!rc && !job->dry_run) rc = open_dir(&r, err);
    if (!rc && !job->dry_run) rc = resume(&r, err);
    if (!rc && !job->dry_run) rc = sample(&r, err);
    for (size_t i = 0; !rc && job->dry_run && i < job->prompts->n; i++)
        result->prompt_tokens += (int64_t)r.prompts[i].n;
    if (r.fd >= 0) close(r.fd);
    fg_job_dir_close(r.dir);
    for (size_t i = 0; r.prompts && i < job->prompts->n; i++)
        fg_ids_free(&r.prompts[i]);
    free(r.prompts);
    free(r.path);
    return rc;
}
