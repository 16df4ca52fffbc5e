// Text to ids: added tokens, normalization, pieces, merges (specs: model 12.3).
#include "base/buf.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/tokenizer_parts.h"
#include "text/unicode.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (1u << 31)

// Ids of pieces seen, one cache line each: a new piece takes the place of an old one.
#define CACHE_BITS 13
#define PIECE_MAX 22
#define PIECE_IDS_MAX 10

struct piece {
    uint8_t n_bytes; // 0: empty
    uint8_t n_ids;
    char bytes[PIECE_MAX];
    int32_t ids[PIECE_IDS_MAX];
};
static_assert(sizeof(struct piece) == 64, "one cache line");

struct fg_tok_work {
    struct fg_pretok_work *pretok;
    struct fg_bpe_work bpe;
    struct fg_buf repaired, nfc;
    struct piece *cache;
};

int fg_tok_work_new(struct fg_tok_work **out, const struct fg_tokenizer *tok, struct fg_error *err)
{
    *out = NULL;
    struct fg_tok_work *w = calloc(1, sizeof *w);
    if (!w) return fg_fail_memory(err, "tokenizer", sizeof *w);
    size_t bytes = sizeof *w->cache << CACHE_BITS;
    int rc = fg_pretok_work_new(&w->pretok, tok->pretok, err);
    if (!rc && !(w->cache = aligned_alloc(64, bytes))) rc = fg_fail_memory(err, "tokenizer", bytes);
    if (rc) {
        fg_tok_work_free(w);
        return rc;
    }
    memset(w->cache, 0, bytes);
    *out = w;
    return 0;
}

void fg_tok_work_free(struct fg_tok_work *work)
{
    if (!work) return;
    fg_pretok_work_free(work->pretok);
    fg_bpe_work_free(&work->bpe);
    fg_buf_free(&work->repaired);
    fg_buf_free(&work->nfc);
    free(work->cache);
    free(work);
}

struct run {
    const struct fg_tokenizer *tok;
    struct fg_tok_work *work;
    unsigned flags;
    struct fg_ids *out;
    struct fg_error *err;
};

static int add_ids(const struct run *r, const int32_t *ids, size_t n)
{
    return fg_ids_add(r->out, ids, n) ? 0 : fg_fail_memory(r->err, "tokenizer", n * sizeof *ids);
}

static int encode_whole_piece(const struct run *r, const char *s, size_t n)
{
    const struct fg_vocab *v = &r->tok->vocab;
    if (r->tok->ignore_merges) {
        uint32_t i = fg_vocab_find(v, s, n, false);
        if (i != FG_VOCAB_NONE) return add_ids(r, &v->tokens[i].id, 1);
    }
    size_t n_symbols;
    int rc = fg_bpe_merge(v, &r->work->bpe, s, n, &n_symbols, r->err);
    for (size_t i = 0; i < n_symbols && !rc; i++)
        rc = add_ids(r, &v->tokens[r->work->bpe.symbols[i]].id, 1);
    return rc;
}

static uint64_t load(const char *s)
{
    uint64_t w;
    memcpy(&w, s, 8);
    return w;
}

static size_t cache_slot(const char *s, size_t n)
{
    uint64_t a = 0, b = 0, c = 0;
    if (n >= 8) {
        a = load(s);
        b = load(s + n - 8);
        if (n > 16) c = load(s + 8);
    } else {
        for (size_t i = 0; i < n; i++)
            a = a << 8 | (unsigned char)s[i];
    }
    uint64_t h = (a ^ n) * 0x9E3779B97F4A7C15u;
    h ^= (b + 0x632BE59BD9B4E019u) * 0xD6E8FEB86659FD93u;
    h ^= c * 0xA0761D6478BD642Fu;
    h *= 0x9E3779B97F4A7C15u;
    return (size_t)(h >> (64 - CACHE_BITS));
}

static int encode_piece(const struct run *r, const char *s, size_t n)
{
    if (n > PIECE_MAX) return encode_whole_piece(r, s, n);
    struct piece *p = &r->work->cache[cache_slot(s, n)];
    if (p->n_bytes == n && memcmp(p->bytes, s, n) == 0) return add_ids(r, p->ids, p->n_ids);
    size_t start = r->out->n;
    int rc = encode_whole_piece(r, s, n);
    size_t n_ids = r->out->n - start;
    if (rc || n_ids > PIECE_IDS_MAX) return rc;
    p->n_bytes = (uint8_t)n;
    p->n_ids = (uint8_t)n_ids;
    memcpy(p->bytes, s, n);
    if (n_ids) memcpy(p->ids, r->out->data + start, n_ids * sizeof *p->ids);
    return 0;
}

static int encode_pieces(const struct run *r, const char *s, size_t n)
{
    for (size_t at = 0, end; at < n; at = end) {
        int rc = fg_pretok_next(r->tok->pretok, r->work->pretok, s, n, at, &end, r->err);
        if (!rc) rc = encode_piece(r, s + at, end - at);
        if (rc) return rc;
    }
    return 0;
}

// Whether the character that ends at s[at), or begins there, is part of a word.
static bool word_before(const char *s, size_t at)
{
    if (at == 0) return false;
    do
        at--;
    while (at > 0 && ((unsigned char)s[at] & 0xC0) == 0x80);
    size_t step;
    return fg_is_word(fg_utf8_get(s + at, &step));
}

static bool word_after(const char *s, size_t n, size_t at)
{
    size_t step;
    return at < n && fg_is_word(fg_utf8_get(s + at, &step));
}

static size_t skip_space_back(const char *s, size_t at, size_t min)
{
    while (at > min) {
        size_t i = at - 1, step;
        while (i > min && ((unsigned char)s[i] & 0xC0) == 0x80)
            i--;
        if (!fg_is_space(fg_utf8_get(s + i, &step))) break;
        at = i;
    }
    return at;
}

static size_t skip_space(const char *s, size_t n, size_t at)
{
    for (size_t step; at < n && fg_is_space(fg_utf8_get(s + at, &step)); at += step)
        continue;
    return at;
}

static int encode_text(const struct run *r, const char *s, size_t n);

// Finds the tokens of the trie in s and hands what lies between them on: raw text to
// encode_text, normalized text to encode_pieces.
static int encode_marked(const struct run *r, bool normalized, const char *s, size_t n)
{
    const struct fg_vocab *v = &r->tok->vocab;
    const struct fg_added_trie *trie = normalized ? &r->tok->normalized : &r->tok->raw;
    int (*rest)(const struct run *, const char *, size_t) =
        normalized ? encode_pieces : encode_text;
    size_t done = 0; // s[0, done) is encoded
    struct fg_added_match m;
    for (size_t from = 0; fg_added_find(trie, s, n, from, &m); from = m.end) {
        const struct fg_vocab_added *a = &v->added[m.added];
        size_t begin = m.begin, end = m.end;
        if (begin < done) continue; // in the white space that the token before took
        if ((a->flags & FG_ADDED_SINGLE_WORD) && (word_before(s, begin) || word_after(s, n, end))) {
            continue;
        }
        if (a->flags & FG_ADDED_LSTRIP) begin = skip_space_back(s, begin, done);
        if (a->flags & FG_ADDED_RSTRIP) end = skip_space(s, n, end);
        int rc = begin > done ? rest(r, s + done, begin - done) : 0;
        if (!rc) rc = add_ids(r, &v->tokens[a->token].id, 1);
        if (rc) return rc;
        done = end;
    }
    return done < n ? rest(r, s + done, n - done) : 0;
}

static int encode_text(const struct run *r, const char *s, size_t n)
{
    struct fg_buf *nfc = &r->work->nfc;
    if (r->tok->nfc) {
        fg_buf_clear(nfc);
        bool changed = fg_nfc(nfc, s, n);
        if (nfc->failed) return fg_fail_memory(r->err, "tokenizer", n);
        if (changed) {
            s = nfc->data;
            n = nfc->len;
        }
    }
    bool plain = (r->flags & FG_TOK_PLAIN) || r->tok->normalized.n_nodes <= 1;
    return plain ? encode_pieces(r, s, n) : encode_marked(r, true, s, n);
}

static int encode_valid(const struct run *r, const char *s, size_t n)
{
    bool plain = (r->flags & FG_TOK_PLAIN) || r->tok->raw.n_nodes <= 1;
    return plain ? encode_text(r, s, n) : encode_marked(r, false, s, n);
}

// Valid stretches as text, and what lies between them byte by byte.
static int encode_raw(const struct run *r, const char *s, size_t n)
{
    size_t begin = 0, i = 0;
    bool text = true; // what s[begin, i) is
    while (i < n) {
        bool valid;
        size_t step = fg_utf8_step((const unsigned char *)s + i, n - i, &valid, NULL);
        if (valid != text) {
            int rc = i == begin ? 0
                     : text     ? encode_valid(r, s + begin, i - begin)
                                : encode_whole_piece(r, s + begin, i - begin);
            if (rc) return rc;
            begin = i;
            text = valid;
        }
        i += step;
    }
    if (begin == n) return 0;
    return text ? encode_valid(r, s + begin, n - begin)
                : encode_whole_piece(r, s + begin, n - begin);
}

int fg_tokenizer_encode(const struct fg_tokenizer *tok, struct fg_tok_work *work, const char *text,
                        size_t n, unsigned flags, struct fg_ids *out, struct fg_error *err)
{
    if (n >= TEXT_BYTES_MAX) {
        return fg_fail(err, FG_EINPUT, "tokenizer", NULL, "text", "less than 2 GiB", "%zu bytes",
                       n);
    }
    struct fg_tok_work *own = NULL;
    if (!work) {
        int rc = fg_tok_work_new(&own, tok, err);
        if (rc) return rc;
        work = own;
    }
    struct run r = {tok, work, flags, out, err};
    size_t start = out->n;
    int rc = flags & FG_TOK_WRAP ? add_ids(&r, tok->before.ids, tok->before.n) : 0;
    if (!rc && (flags & FG_TOK_RAW)) {
        rc = encode_raw(&r, text, n);
    } else if (!rc) {
        fg_buf_clear(&work->repaired);
        bool repaired = fg_utf8_repair(&work->repaired, text, n);
        if (work->repaired.failed) {
            rc = fg_fail_memory(err, "tokenizer", n);
        } else if (repaired) {
            rc = encode_valid(&r, work->repaired.data, work->repaired.len);
        } else {
            rc = encode_valid(&r, text, n);
        }
    }
    if (!rc && (flags & FG_TOK_WRAP)) rc = add_ids(&r, tok->after.ids, tok->after.n);
    if (rc) out->n = start;
    fg_tok_work_free(own);
    return rc;
}
