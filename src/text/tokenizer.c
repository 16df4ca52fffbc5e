#include "text/tokenizer.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "text/tokenizer_parts.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REPLACEMENT "\xEF\xBF\xBD" // U+FFFD

void fg_ids_free(struct fg_ids *ids)
{
    free(ids->data);
    *ids = (struct fg_ids){0};
}

bool fg_ids_add(struct fg_ids *ids, const int32_t *data, size_t n)
{
    if (n > ids->cap - ids->n) {
        if (n > SIZE_MAX / 16 || ids->n > SIZE_MAX / 16) return false;
        size_t cap = ids->cap + ids->cap / 2 + n + 16;
        int32_t *p = realloc(ids->data, cap * sizeof *p);
        if (!p) return false;
        ids->data = p;
        ids->cap = cap;
    }
    if (n) memcpy(ids->data + ids->n, data, n * sizeof *data);
    ids->n += n;
    return true;
}

struct fg_tokenizer *fg_tokenizer_empty(void)
{
    struct fg_tokenizer *tok = calloc(1, sizeof *tok);
    if (!tok) return NULL;
    tok->bos = tok->eos = tok->pad = -1;
    return tok;
}

void fg_tokenizer_free(struct fg_tokenizer *tok)
{
    if (!tok) return;
    fg_added_free(&tok->raw);
    fg_added_free(&tok->normalized);
    fg_pretok_free(tok->pretok);
    fg_vocab_free(&tok->vocab);
    fg_ids_free(&tok->stop);
    free(tok);
}

static int compare_ids(const void *pa, const void *pb)
{
    int32_t a = *(const int32_t *)pa, b = *(const int32_t *)pb;
    return (a > b) - (a < b);
}

int fg_tokenizer_finish(struct fg_tokenizer *tok, struct fg_error *err)
{
    int rc = fg_pretok_new(&tok->pretok, tok->kind, err);
    if (!rc) rc = fg_added_build(&tok->raw, &tok->vocab, false, err);
    if (!rc) rc = fg_added_build(&tok->normalized, &tok->vocab, true, err);
    if (rc) return rc;
    struct fg_ids *stop = &tok->stop;
    if (tok->eos >= 0 && !fg_ids_add(stop, &tok->eos, 1))
        return fg_fail_memory(err, "tokenizer", 4);
    if (stop->n) {
        qsort(stop->data, stop->n, sizeof *stop->data, compare_ids);
        size_t n = 1;
        for (size_t i = 1; i < stop->n; i++) {
            if (stop->data[i] != stop->data[n - 1]) stop->data[n++] = stop->data[i];
        }
        stop->n = n;
    }
    return 0;
}

bool fg_tokenizer_digest(const struct fg_tokenizer *tok, char hex[FG_SHA256_HEX])
{
    struct fg_sha256 *h = fg_sha256_new();
    hex[0] = '\0';
    if (!h) return false;
    for (int32_t id = 0; id < fg_tokenizer_size(tok); id++) {
        const char *bytes;
        size_t n;
        if (!fg_tokenizer_token(tok, id, &bytes, &n)) continue;
        uint32_t v[2] = {(uint32_t)id, (uint32_t)n};
        uint8_t head[8];
        for (int i = 0; i < 8; i++)
            head[i] = (uint8_t)(v[i / 4] >> 8 * (i % 4));
        fg_sha256_add(h, head, sizeof head);
        fg_sha256_add(h, bytes, n);
    }
    fg_sha256_end(h, hex);
    return true;
}

int32_t fg_tokenizer_size(const struct fg_tokenizer *tok)
{
    // An id is below 2^31, and the largest possible one is refused when the vocabulary is sealed.
    return tok->vocab.tokens[tok->vocab.n_tokens - 1].id + 1;
}

const char *fg_tokenizer_kind(const struct fg_tokenizer *tok)
{
    return fg_pretok_name(tok->kind);
}

int32_t fg_tokenizer_bos(const struct fg_tokenizer *tok)
{
    return tok->bos;
}

int32_t fg_tokenizer_eos(const struct fg_tokenizer *tok)
{
    return tok->eos;
}

int32_t fg_tokenizer_pad(const struct fg_tokenizer *tok)
{
    return tok->pad;
}

size_t fg_tokenizer_stop_ids(const struct fg_tokenizer *tok, const int32_t **ids)
{
    *ids = tok->stop.data;
    return tok->stop.n;
}

bool fg_tokenizer_is_stop(const struct fg_tokenizer *tok, int32_t id)
{
    for (size_t i = 0; i < tok->stop.n; i++) {
        if (tok->stop.data[i] == id) return true;
    }
    return false;
}

static const struct fg_vocab_added *added_of(const struct fg_tokenizer *tok, int32_t id)
{
    uint32_t i = fg_vocab_index(&tok->vocab, id);
    if (i == FG_VOCAB_NONE || tok->vocab.tokens[i].added == FG_VOCAB_NONE) return NULL;
    return &tok->vocab.added[tok->vocab.tokens[i].added];
}

bool fg_tokenizer_token(const struct fg_tokenizer *tok, int32_t id, const char **bytes, size_t *n)
{
    const struct fg_vocab *v = &tok->vocab;
    uint32_t i = fg_vocab_index(v, id);
    *bytes = "";
    *n = 0;
    if (i == FG_VOCAB_NONE) return false;
    const struct fg_vocab_added *a = added_of(tok, id);
    *bytes = v->blob.data + (a ? a->at : v->tokens[i].at);
    *n = a ? a->n_bytes : v->tokens[i].n_bytes;
    return true;
}

bool fg_tokenizer_is_added(const struct fg_tokenizer *tok, int32_t id)
{
    return added_of(tok, id) != NULL;
}

bool fg_tokenizer_is_special(const struct fg_tokenizer *tok, int32_t id)
{
    const struct fg_vocab_added *a = added_of(tok, id);
    return a && (a->flags & FG_ADDED_SPECIAL);
}

int32_t fg_tokenizer_find_added(const struct fg_tokenizer *tok, const char *text, size_t n)
{
    uint32_t i = fg_added_exact(&tok->raw, text, n);
    if (i == FG_VOCAB_NONE) i = fg_added_exact(&tok->normalized, text, n);
    return i == FG_VOCAB_NONE ? -1 : tok->vocab.tokens[tok->vocab.added[i].token].id;
}

void fg_tok_stream_init(struct fg_tok_stream *s, const struct fg_tokenizer *tok, unsigned flags)
{
    *s = (struct fg_tok_stream){.tok = tok, .flags = flags};
}

// Emits from the held bytes what they decide. Afterwards they are none, or the begin of a
// character.
static void settle(struct fg_tok_stream *s, struct fg_buf *out)
{
    while (s->n_held) {
        bool valid, cut;
        size_t step = fg_utf8_step(s->held, s->n_held, &valid, &cut);
        if (cut) return;
        if (valid) {
            fg_buf_add(out, s->held, step);
        } else {
            fg_buf_str(out, REPLACEMENT);
        }
        s->n_held -= (unsigned)step;
        memmove(s->held, s->held + step, s->n_held);
    }
}

int fg_tok_stream_push(struct fg_tok_stream *s, int32_t id, struct fg_buf *out,
                       struct fg_error *err)
{
    const char *text;
    size_t n;
    if (!fg_tokenizer_token(s->tok, id, &text, &n)) {
        return fg_fail(err, FG_EINPUT, "tokenizer", NULL, "token id", "an id of the vocabulary",
                       "%" PRId32, id);
    }
    if ((s->flags & FG_TOK_SKIP_SPECIAL) && fg_tokenizer_is_special(s->tok, id)) return 0;
    struct fg_tok_stream before = *s;
    size_t len = out->len, i = 0;
    const unsigned char *bytes = (const unsigned char *)text;
    while (s->n_held && i < n) {
        s->held[s->n_held++] = bytes[i++];
        settle(s, out);
    }
    size_t kept = i; // bytes[.., kept) are in out or held
    while (i < n) {
        bool valid, cut;
        size_t step = fg_utf8_step(bytes + i, n - i, &valid, &cut);
        if (!valid) {
            fg_buf_add(out, bytes + kept, i - kept);
            kept = i + step;
            if (cut) {
                memcpy(s->held, bytes + i, step);
                s->n_held = (unsigned)step;
            } else {
                fg_buf_str(out, REPLACEMENT);
            }
        }
        i += step;
    }
    fg_buf_add(out, bytes + kept, n - kept);
    if (!out->failed) return 0;
    *s = before;
    out->len = len;
    return fg_fail_memory(err, "tokenizer", n);
}

int fg_tok_stream_flush(struct fg_tok_stream *s, struct fg_buf *out, struct fg_error *err)
{
    // What is held is the begin of one character: one maximal subpart.
    if (s->n_held) fg_buf_str(out, REPLACEMENT);
    s->n_held = 0;
    return out->failed ? fg_fail_memory(err, "tokenizer", 3) : 0;
}

int fg_tokenizer_decode(const struct fg_tokenizer *tok, const int32_t *ids, size_t n,
                        unsigned flags, struct fg_buf *out, struct fg_error *err)
{
    struct fg_tok_stream s;
    size_t len = out->len;
    int rc = 0;
    fg_tok_stream_init(&s, tok, flags);
    for (size_t i = 0; i < n && !rc; i++)
        rc = fg_tok_stream_push(&s, ids[i], out, err);
    if (!rc) rc = fg_tok_stream_flush(&s, out, err);
    if (rc && out->data) {
        out->len = len;
        out->data[len] = '\0';
    }
    return rc;
}
