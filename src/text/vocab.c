#include "text/vocab.h"
#include "base/size.h"
#include "text/unicode.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "tokenizer"
#define BLOB_BYTES_MAX (1u << 31)
#define TOKENS_MAX (1u << 28)

// Byte alphabet of GPT-2: printable characters of Latin-1 stand for themselves, the other 68 bytes
// are U+0100 and up in order. Returns the byte of c, or -1.
static int byte_of_char(uint32_t c)
{
    if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255)) return (int)c;
    if (c < 0x100 || c > 0x143) return -1;
    int k = (int)c - 0x100;
    if (k < 33) return k;            // 0-32
    if (k < 67) return k - 33 + 127; // 127-160
    return 173;
}

bool fg_vocab_undo_alphabet(struct fg_buf *out, const char *s, size_t n)
{
    if (!fg_buf_reserve(out, n)) return false;
    size_t start = out->len;
    for (size_t i = 0, step; i < n; i += step) {
        int byte = byte_of_char(fg_utf8_get(s + i, &step));
        if (byte < 0) {
            out->len = start;
            fg_buf_add(out, s, n);
            return false;
        }
        out->data[out->len++] = (char)byte;
    }
    out->data[out->len] = '\0';
    return true;
}

void fg_vocab_free(struct fg_vocab *v)
{
    fg_buf_free(&v->blob);
    free(v->tokens);
    free(v->added);
    free(v->slots);
    free(v->merges);
    *v = (struct fg_vocab){0};
}

static int fail_token(const struct fg_vocab *v, struct fg_error *err, const char *field,
                      const char *s, size_t n, const char *expected, const char *found)
{
    char name[64], text[128];
    fg_escape(name, sizeof name, s, n);
    snprintf(text, sizeof text, "%s \"%s\"", field, name);
    return fg_fail(err, FG_EINPUT, WHAT, v->file, text, expected, "%s", found);
}

static int fail_id(const struct fg_vocab *v, struct fg_error *err, const char *field, const char *s,
                   size_t n, const char *expected, int64_t found)
{
    char number[32];
    snprintf(number, sizeof number, "%" PRId64, found);
    return fail_token(v, err, field, s, n, expected, number);
}

// Makes room for one more element of `bytes` at *array.
static bool grow(void *array, uint32_t n, uint32_t *cap, size_t bytes)
{
    if (n < *cap) return true;
    uint32_t more = *cap ? *cap * 2 : 1024;
    void *p = realloc(*(void **)array, more * bytes);
    if (!p) return false;
    *(void **)array = p;
    *cap = more;
    return true;
}

static struct fg_vocab_token *new_token(struct fg_vocab *v, const char *s, size_t n, int64_t id,
                                        const char *field, int *rc, struct fg_error *err)
{
    if (id < 0 || id > FG_TOKEN_ID_MAX) {
        *rc = fail_id(v, err, field, s, n, "an id of 0 to 2147483646", id);
        return NULL;
    }
    if (v->n_tokens >= TOKENS_MAX || n > BLOB_BYTES_MAX || v->blob.len > BLOB_BYTES_MAX - n) {
        *rc = fail_token(v, err, field, s, n, "fewer or shorter tokens", "too many");
        return NULL;
    }
    if (!grow(&v->tokens, v->n_tokens, &v->cap_tokens, sizeof *v->tokens)) {
        *rc = fg_fail_memory(err, WHAT, v->cap_tokens * 2 * sizeof *v->tokens);
        return NULL;
    }
    struct fg_vocab_token *t = &v->tokens[v->n_tokens];
    *t = (struct fg_vocab_token){
        .at = (uint32_t)v->blob.len, .id = (int32_t)id, .added = FG_VOCAB_NONE};
    t->literal = !fg_vocab_undo_alphabet(&v->blob, s, n);
    t->n_bytes = (uint32_t)(v->blob.len - t->at);
    if (v->blob.failed) {
        *rc = fg_fail_memory(err, WHAT, n);
        return NULL;
    }
    v->n_tokens++;
    return t;
}

int fg_vocab_add(struct fg_vocab *v, const char *s, size_t n, int64_t id, struct fg_error *err)
{
    int rc = 0;
    struct fg_vocab_token *t = new_token(v, s, n, id, "vocabulary entry", &rc, err);
    if (t) t->base = true;
    return rc;
}

int fg_vocab_add_added(struct fg_vocab *v, const char *s, size_t n, int64_t id, unsigned flags,
                       struct fg_error *err)
{
    if (n == 0) return 0;
    if (n > FG_ADDED_BYTES_MAX || v->n_added >= FG_ADDED_MAX) {
        return fail_token(v, err, "added token", s, n, "at most 100000 of at most 1024 bytes",
                          "more");
    }
    if (!grow(&v->added, v->n_added, &v->cap_added, sizeof *v->added)) {
        return fg_fail_memory(err, WHAT, v->cap_added * 2 * sizeof *v->added);
    }
    int rc = 0;
    struct fg_vocab_token *t = new_token(v, s, n, id, "added token", &rc, err);
    if (!t) return rc;
    t->added = v->n_added;
    struct fg_vocab_added *a = &v->added[v->n_added++];
    *a = (struct fg_vocab_added){
        .at = (uint32_t)v->blob.len, .n_bytes = (uint32_t)n, .flags = flags};
    fg_buf_add(&v->blob, s, n);
    return v->blob.failed ? fg_fail_memory(err, WHAT, n) : 0;
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint64_t hash_bytes(uint64_t seed, const char *s, size_t n)
{
    uint64_t h = seed ^ n, w;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&w, s, 8);
        h = mix(h ^ w);
    }
    w = 0;
    memcpy(&w, s, n);
    return mix(mix(h ^ w));
}

// The slot of the entry with these bytes, or the empty one where it belongs.
static uint32_t find_slot(const struct fg_vocab *v, const char *bytes, size_t n, bool literal,
                          uint64_t hash)
{
    uint32_t i = (uint32_t)hash & v->slot_mask;
    for (; v->slots[i].token != FG_VOCAB_NONE; i = (i + 1) & v->slot_mask) {
        if (v->slots[i].tag != (uint32_t)(hash >> 32)) continue;
        const struct fg_vocab_token *t = &v->tokens[v->slots[i].token];
        if (t->n_bytes == n && t->literal == literal && !memcmp(v->blob.data + t->at, bytes, n)) {
            break;
        }
    }
    return i;
}

uint32_t fg_vocab_find(const struct fg_vocab *v, const char *bytes, size_t n, bool literal)
{
    return v->slots[find_slot(v, bytes, n, literal, hash_bytes(v->seed, bytes, n))].token;
}

// Smallest power of two with room for n entries at a load of at most a half; NULL filled.
static void *new_table(uint64_t n, size_t bytes, uint32_t *mask)
{
    uint64_t size = 16;
    while (size < 2 * n)
        size *= 2;
    if (size > UINT32_MAX) return NULL;
    void *table = malloc(size * bytes);
    if (!table) return NULL;
    memset(table, 0xFF, size * bytes);
    *mask = (uint32_t)(size - 1);
    return table;
}

static int compare_tokens(const void *pa, const void *pb)
{
    const struct fg_vocab_token *a = pa, *b = pb;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    return a->at < b->at ? -1 : 1; // in the order in which they were added
}

static void sort_tokens(struct fg_vocab *v)
{
    for (uint32_t i = 1; i < v->n_tokens; i++) {
        if (compare_tokens(&v->tokens[i - 1], &v->tokens[i]) > 0) {
            qsort(v->tokens, v->n_tokens, sizeof *v->tokens, compare_tokens);
            return;
        }
    }
}

// Joins entries with the same id: a vocabulary entry and added tokens of the same text.
static int join_tokens(struct fg_vocab *v, struct fg_error *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        struct fg_vocab_token *t = &v->tokens[i], *last = n ? &v->tokens[n - 1] : NULL;
        if (!last || last->id != t->id) {
            v->tokens[n++] = *t;
            continue;
        }
        const char *text = v->blob.data + t->at;
        if (t->n_bytes != last->n_bytes || t->literal != last->literal ||
            memcmp(text, v->blob.data + last->at, t->n_bytes) != 0) {
            char field[32], expected[96];
            snprintf(field, sizeof field, "id %" PRId32 ":", t->id);
            fg_escape(expected, sizeof expected, v->blob.data + last->at, last->n_bytes);
            return fail_token(v, err, field, text, t->n_bytes, expected, "a repeated id");
        }
        if (last->base && t->base) {
            return fail_id(v, err, "vocabulary entry", text, t->n_bytes, "one entry for an id",
                           t->id);
        }
        last->base |= t->base;
        if (last->added == FG_VOCAB_NONE) last->added = t->added;
    }
    v->n_tokens = n;
    return 0;
}

// Control characters, and bytes that begin no character in use, may be missing (SmolLM2 has 21
// such).
static bool may_miss(unsigned byte)
{
    if (byte < 0x80)
        return (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
    return byte >= 0xF5 || byte == 0xC0 || byte == 0xC1 || byte == 0xF1 || byte == 0xF2;
}

// Fills `slots`. The slots of the tokens to come are asked for ahead: each is a cache miss.
static int enter_tokens(struct fg_vocab *v, struct fg_error *err)
{
    enum { AHEAD = 8 };
    uint64_t hashes[AHEAD];
    for (uint32_t i = 0; i < v->n_tokens + AHEAD; i++) {
        if (i >= AHEAD && v->tokens[i - AHEAD].base) {
            const struct fg_vocab_token *t = &v->tokens[i - AHEAD];
            const char *bytes = v->blob.data + t->at;
            uint64_t hash = hashes[i % AHEAD];
            uint32_t slot = find_slot(v, bytes, t->n_bytes, t->literal, hash);
            if (v->slots[slot].token != FG_VOCAB_NONE) {
                return fail_id(v, err, "vocabulary entry", bytes, t->n_bytes, "one id", t->id);
            }
            v->slots[slot] = (struct fg_vocab_slot){i - AHEAD, (uint32_t)(hash >> 32)};
        }
        if (i < v->n_tokens) {
            const struct fg_vocab_token *t = &v->tokens[i];
            hashes[i % AHEAD] = hash_bytes(v->seed, v->blob.data + t->at, t->n_bytes);
            __builtin_prefetch(&v->slots[(uint32_t)hashes[i % AHEAD] & v->slot_mask]);
        }
    }
    return 0;
}

// Points the added tokens at their entries and drops repetitions, which no entry points at.
static int enter_added(struct fg_vocab *v, struct fg_error *err)
{
    uint32_t n_added = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        const struct fg_vocab_token *t = &v->tokens[i];
        if (t->added == FG_VOCAB_NONE) continue;
        n_added++;
        v->added[t->added].token = i;
        const char *bytes = v->blob.data + t->at;
        uint32_t other = fg_vocab_find(v, bytes, t->n_bytes, t->literal);
        if (other != FG_VOCAB_NONE && other != i) {
            char expected[64];
            snprintf(expected, sizeof expected, "id %" PRId32 " of the vocabulary",
                     v->tokens[other].id);
            const struct fg_vocab_added *a = &v->added[t->added];
            return fail_id(v, err, "added token", v->blob.data + a->at, a->n_bytes, expected,
                           t->id);
        }
    }
    struct fg_vocab_added *kept = malloc((n_added ? n_added : 1) * sizeof *kept);
    if (!kept) return fg_fail_memory(err, WHAT, n_added * sizeof *kept);
    n_added = 0;
    for (uint32_t i = 0; i < v->n_tokens; i++) {
        struct fg_vocab_token *t = &v->tokens[i];
        if (t->added == FG_VOCAB_NONE) continue;
        kept[n_added] = v->added[t->added];
        t->added = n_added++;
    }
    free(v->added);
    v->added = kept;
    v->n_added = v->cap_added = n_added;
    return 0;
}

static int map_bytes(struct fg_vocab *v, struct fg_error *err)
{
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b;
        v->byte_token[b] = fg_vocab_find(v, &byte, 1, false);
        if (v->byte_token[b] != FG_VOCAB_NONE) continue;
        if (!may_miss(b)) {
            return fg_fail(err, FG_EINPUT, WHAT, v->file, "model.vocab", "a token for every byte",
                           "none for byte 0x%02X", b);
        }
        v->n_bytes_missing++;
    }
    return 0;
}

int fg_vocab_seal(struct fg_vocab *v, uint64_t n_merges, struct fg_error *err)
{
    sort_tokens(v);
    int rc = join_tokens(v, err);
    if (rc) return rc;
    for (size_t i = 0; i < v->blob.len; i += 64) {
        size_t n = v->blob.len - i < 64 ? v->blob.len - i : 64;
        v->seed = hash_bytes(v->seed, v->blob.data + i, n);
    }
    if (!(v->slots = new_table(v->n_tokens, sizeof *v->slots, &v->slot_mask))) {
        return fg_fail_memory(err, WHAT, v->n_tokens);
    }
    if (!(v->merges = new_table(n_merges, sizeof *v->merges, &v->merge_mask))) {
        return fg_fail_memory(err, WHAT, n_merges);
    }
    if ((rc = enter_tokens(v, err))) return rc;
    if ((rc = enter_added(v, err))) return rc;
    return map_bytes(v, err);
}

void fg_vocab_set_unknown(struct fg_vocab *v, uint32_t index)
{
    for (unsigned b = 0; b < 256; b++) {
        if (v->byte_token[b] == FG_VOCAB_NONE) v->byte_token[b] = index;
    }
}

static int fail_merge(const struct fg_vocab *v, uint32_t rank, struct fg_error *err, const char *s,
                      size_t n, const char *expected, const char *found)
{
    char field[48];
    snprintf(field, sizeof field, "merge %" PRIu32 ":", rank);
    return fail_token(v, err, field, s, n, expected, found);
}

// Enters a merge whose parts are found.
static int enter_merge(struct fg_vocab *v, const struct fg_vocab_key key[3], uint32_t left,
                       uint32_t right, uint32_t result, struct fg_error *err)
{
    const char *a = v->blob.data + key[0].at, *b = v->blob.data + key[1].at;
    uint32_t rank = v->n_merges;
    if (left == FG_VOCAB_NONE || right == FG_VOCAB_NONE) {
        bool is_left = left == FG_VOCAB_NONE;
        return fail_merge(v, rank, err, is_left ? a : b, key[is_left ? 0 : 1].n_bytes,
                          "parts in the vocabulary", "no such token");
    }
    if (result == FG_VOCAB_NONE) {
        return fail_merge(v, rank, err, v->blob.data + key[2].at, key[2].n_bytes,
                          "a result in the vocabulary", "no such token");
    }
    if (rank >= (v->merge_mask + 1) / 2) {
        return fail_merge(v, rank, err, a, key[0].n_bytes, "as many merges as announced", "more");
    }
    uint32_t i = fg_merge_slot(v, left, right);
    for (; v->merges[i].left != FG_VOCAB_NONE; i = (i + 1) & v->merge_mask) {
        if (v->merges[i].left == left && v->merges[i].right == right) {
            char found[48];
            snprintf(found, sizeof found, "the pair of merge %" PRIu32 " again", v->merges[i].rank);
            return fail_merge(v, rank, err, a, key[0].n_bytes, "each pair once", found);
        }
    }
    v->merges[i] = (struct fg_merge){left, right, rank, result};
    v->n_merges++;
    return 0;
}

int fg_vocab_merges_end(struct fg_vocab *v, struct fg_error *err)
{
    if (!v->n_pending) return 0;
    // Each loop touches what the one before has asked for.
    uint32_t n = v->n_pending, found[FG_VOCAB_PENDING][3];
    struct fg_vocab_key *keys = &v->pending[0][0];
    for (uint32_t i = 0; i < 3 * n; i++) {
        uint32_t t = v->slots[(uint32_t)keys[i].hash & v->slot_mask].token;
        if (t != FG_VOCAB_NONE) __builtin_prefetch(&v->tokens[t]);
    }
    for (uint32_t i = 0; i < 3 * n; i++) {
        uint32_t t = v->slots[(uint32_t)keys[i].hash & v->slot_mask].token;
        if (t != FG_VOCAB_NONE) __builtin_prefetch(v->blob.data + v->tokens[t].at);
    }
    for (uint32_t i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++) {
            const struct fg_vocab_key *key = &v->pending[i][k];
            found[i][k] = v->slots[find_slot(v, v->blob.data + key->at, key->n_bytes, key->literal,
                                             key->hash)]
                              .token;
        }
        __builtin_prefetch(&v->merges[fg_merge_slot(v, found[i][0], found[i][1])]);
    }
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = enter_merge(v, v->pending[i], found[i][0], found[i][1], found[i][2], err);
    v->n_pending = 0;
    v->blob.len = v->pending_at;
    return rc;
}

static void set_key(struct fg_vocab *v, struct fg_vocab_key *key, size_t at, bool literal)
{
    key->at = (uint32_t)at;
    key->n_bytes = (uint32_t)(v->blob.len - at);
    key->literal = literal;
    key->hash = hash_bytes(v->seed, v->blob.data + at, key->n_bytes);
    __builtin_prefetch(&v->slots[(uint32_t)key->hash & v->slot_mask]);
}

int fg_vocab_merge(struct fg_vocab *v, const char *a, size_t n_a, const char *b, size_t n_b,
                   struct fg_error *err)
{
    // With an empty part the result would be the other part, and merging would not end.
    if (n_a == 0 || n_b == 0) {
        return fail_merge(v, v->n_merges + v->n_pending, err, n_a ? a : b, n_a ? n_a : n_b,
                          "two parts", "an empty one");
    }
    if (v->n_pending == 0) v->pending_at = v->blob.len;
    struct fg_vocab_key *key = v->pending[v->n_pending];
    size_t start = v->blob.len;
    bool literal_a = !fg_vocab_undo_alphabet(&v->blob, a, n_a);
    set_key(v, &key[0], start, literal_a);
    size_t middle = v->blob.len;
    bool literal_b = !fg_vocab_undo_alphabet(&v->blob, b, n_b);
    set_key(v, &key[1], middle, literal_b);
    if (literal_a || literal_b) { // joined as strings, not as bytes
        start = v->blob.len;
        fg_buf_add(&v->blob, a, n_a);
        fg_buf_add(&v->blob, b, n_b);
    }
    set_key(v, &key[2], start, literal_a || literal_b);
    if (v->blob.failed) return fg_fail_memory(err, WHAT, n_a + n_b);
    return ++v->n_pending < FG_VOCAB_PENDING ? 0 : fg_vocab_merges_end(v, err);
}

int fg_vocab_merge_line(struct fg_vocab *v, const char *s, size_t n, struct fg_error *err)
{
    const char *space = memchr(s, ' ', n);
    if (!space) {
        return fail_merge(v, v->n_merges + v->n_pending, err, s, n,
                          "two parts with a space between", "one");
    }
    size_t n_a = (size_t)(space - s);
    return fg_vocab_merge(v, s, n_a, space + 1, n - n_a - 1, err);
}
