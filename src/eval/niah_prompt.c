// eval/niah_prompt.c: a haystack is cut between tokens, and the whole tokenized again.
#include "eval/niah_prompt.h"
#include "base/jwrite.h"
#include <stdlib.h>
#include <string.h>

#define BYTES_PER_TOKEN 4 // the first guess

// ---- haystacks

static int hay_text(struct fg_niah_hay *hay, const struct forge_engine *e, struct fg_error *err)
{
    int rc = forge_detokenize(e, hay->ids, (size_t)hay->n, false, &hay->text, &hay->bytes, err);
    if (rc) fg_niah_hay_free(hay);
    return rc;
}

int fg_niah_hay_sentences(struct fg_niah_hay *hay, const struct forge_engine *e, uint64_t seed,
                          int64_t n, struct fg_error *err)
{
    struct fg_buf text = {0};
    size_t got = 0;
    *hay = (struct fg_niah_hay){0};
    int rc = 0;
    for (size_t bytes = (size_t)n * BYTES_PER_TOKEN; rc == 0 && got < (size_t)n; bytes *= 2) {
        free(hay->ids);
        hay->ids = NULL;
        fg_buf_clear(&text);
        fg_haystack_sentences(&text, seed, bytes);
        rc = text.failed ? fg_fail_memory(err, "sentences", bytes)
                         : forge_tokenize(e, text.data, text.len, false, &hay->ids, &got, err);
    }
    fg_buf_free(&text);
    if (rc) return rc;
    hay->n = (int64_t)got;
    return hay_text(hay, e, err);
}

int fg_niah_hay_take(struct fg_niah_hay *hay, const struct forge_engine *e, const int32_t *ids,
                     int64_t n, struct fg_error *err)
{
    *hay = (struct fg_niah_hay){.ids = malloc(n ? (size_t)n * sizeof *ids : 1), .n = n};
    if (!hay->ids) return fg_fail_memory(err, "token ids", (uint64_t)n * sizeof *ids);
    if (n) memcpy(hay->ids, ids, (size_t)n * sizeof *ids);
    return hay_text(hay, e, err);
}

void fg_niah_hay_free(struct fg_niah_hay *hay)
{
    free(hay->ids);
    free(hay->text);
    *hay = (struct fg_niah_hay){0};
}

// A place of the haystack between two tokens, and between two characters.
struct cut {
    int64_t token;
    size_t byte;
};

// *whole: what stands before `token` is a beginning of the text, so no character is cut.
static int cut_at(struct cut *cut, const struct forge_engine *e, const struct fg_niah_hay *hay,
                  int64_t token, bool *whole, struct fg_error *err)
{
    char *before;
    size_t n;
    int rc = forge_detokenize(e, hay->ids, (size_t)token, false, &before, &n, err);
    if (rc) return rc;
    *whole = n <= hay->bytes && memcmp(before, hay->text, n) == 0;
    *cut = (struct cut){token, n};
    free(before);
    return 0;
}

// The nearest to `token`, the earlier of two.
static int cut_near(struct cut *cut, const struct forge_engine *e, const struct fg_niah_hay *hay,
                    int64_t token, struct fg_error *err)
{
    for (int64_t off = 0; off <= hay->n; off++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            int64_t at = token + sign * off;
            bool whole;
            if (at < 0 || at > hay->n || (off == 0 && sign > 0)) continue;
            int rc = cut_at(cut, e, hay, at, &whole, err);
            if (rc || whole) return rc;
        }
    }
    return fg_fail(err, FG_EFAILED, "needle", NULL, "haystack", "whole characters", "none");
}

// ---- prompts

void fg_niah_prompt_free(struct fg_niah_prompt *p)
{
    free(p->ids);
    *p = (struct fg_niah_prompt){0};
}

// As the template has it. *text is the caller's.
static int render(const struct fg_niah_ask *ask, const struct fg_buf *body, char **text, size_t *n,
                  struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_array(&w, NULL);
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "role", "user");
    fg_jwrite_text(&w, "content", body->data, body->len);
    fg_jwrite_end_object(&w);
    fg_jwrite_end_array(&w);
    int rc = w.buf.failed ? fg_fail_memory(err, "prompt", body->len)
                          : forge_render_chat(ask->engine, w.buf.data, w.buf.len,
                                              "{\"enable_thinking\": false}", text, n, err);
    fg_jwrite_free(&w);
    return rc;
}

static int tokens_before(int64_t *n, const struct fg_niah_ask *ask, const char *text,
                         const char *line, struct fg_error *err)
{
    const char *at = strstr(text, line);
    if (!at)
        return fg_fail(err, FG_EINPUT, "needle", NULL, "chat template", "the message as it is",
                       "no line \"%s\"", line);
    int32_t *ids;
    size_t count;
    int rc = forge_tokenize(ask->engine, text, (size_t)(at - text), true, &ids, &count, err);
    if (rc) return rc;
    free(ids);
    *n = (int64_t)count;
    return 0;
}

static int encode(struct fg_niah_prompt *p, const struct fg_niah_ask *ask,
                  const struct fg_buf *body, struct fg_error *err)
{
    if (body->failed) return fg_fail_memory(err, "prompt", body->len);
    char *rendered = NULL;
    const char *text = body->data;
    size_t bytes = body->len, n = 0;
    int rc = ask->raw ? 0 : render(ask, body, &rendered, &bytes, err);
    if (rc) return rc;
    if (rendered) text = rendered;
    rc = forge_tokenize(ask->engine, text, bytes, true, &p->ids, &n, err);
    p->n = (int64_t)n;
    for (int i = 0; rc == 0 && i < ask->facts.n; i++) {
        char line[FG_NEEDLE_LINE];
        rc = tokens_before(&p->at[i], ask, text, fg_needle_line(line, &ask->facts.asked[i]), err);
    }
    free(rendered);
    return rc;
}

// With the first n tokens of the haystack.
static int prompt_of(struct fg_niah_prompt *p, const struct fg_niah_ask *ask,
                     const struct fg_niah_hay *hay, int64_t n, struct fg_error *err)
{
    size_t asked_at[FG_NEEDLES_MAX], other_at[FG_NEEDLE_DISTRACTORS];
    struct cut end = {0}, cut = {0};
    *p = (struct fg_niah_prompt){0};
    int rc = cut_near(&end, ask->engine, hay, n, err);
    if (rc) return rc;
    p->hay_tokens = end.token;
    for (int i = 0; rc == 0 && i < ask->facts.n + FG_NEEDLE_DISTRACTORS; i++) {
        bool asked = i < ask->facts.n;
        double share = asked ? ask->share[i] : ask->facts.other_share[i - ask->facts.n];
        rc = cut_near(&cut, ask->engine, hay, (int64_t)(share * (double)end.token + 0.5), err);
        if (rc) break;
        if (cut.token > end.token) cut = end; // where the nearest cut is beyond it
        if (asked) p->hay_at[i] = cut.token;
        *(asked ? &asked_at[i] : &other_at[i - ask->facts.n]) = cut.byte;
    }
    if (rc) return rc;
    struct fg_buf body = {0};
    fg_haystack_text(&body, &ask->facts, hay->text, end.byte, asked_at, other_at, ask->raw);
    rc = encode(p, ask, &body, err);
    fg_buf_free(&body);
    if (rc) fg_niah_prompt_free(p);
    return rc;
}

int fg_niah_prompt_fit(struct fg_niah_prompt *p, const struct fg_niah_ask *ask,
                       const struct fg_niah_hay *hay, int64_t tokens, struct fg_error *err)
{
    int rc = prompt_of(p, ask, hay, 0, err);
    if (rc) return rc;
    if (p->n > tokens) {
        int64_t n = p->n;
        fg_niah_prompt_free(p);
        return fg_fail_range(err, "needle", NULL, "tokens of a prompt", n, INT32_MAX, tokens);
    }
    // Joined texts have about as many tokens as their parts: grow by what is free until nothing is,
    // then shrink by what is too much.
    int64_t n = 0, next = tokens - p->n;
    bool shrinks = false;
    while (true) {
        if (next > hay->n) next = hay->n;
        if (next < 0) next = 0;
        if (next == n) return 0;
        struct fg_niah_prompt q;
        rc = prompt_of(&q, ask, hay, next, err);
        if (rc) break;
        int64_t free_tokens = tokens - q.n;
        n = next;
        if (free_tokens < 0) {
            shrinks = true;
            next += free_tokens;
            fg_niah_prompt_free(&q);
            continue;
        }
        fg_niah_prompt_free(p);
        *p = q;
        if (shrinks || free_tokens == 0) return 0;
        next += free_tokens;
    }
    fg_niah_prompt_free(p);
    return rc;
}
