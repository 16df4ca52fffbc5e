// corpus/grams.c: words, runs, and who else has them.
#include "corpus/grams.h"
#include "text/unicode.h"
#include <stdlib.h>
#include <string.h>

// Multiplying by odd constants and folding the upper half down spreads every input bit (the mixing
// steps of SplitMix64, specs: quantization B).
static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) + 0x9E3779B97F4A7C15u;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
    h = (h ^ h >> 27) * 0x94D049BB133111EBu;
    return h ^ h >> 31;
}

// Makes room for one more element. False: out of memory.
static bool grow(void **array, size_t n, size_t *cap, size_t element_bytes)
{
    if (n < *cap) return true;
    size_t want = *cap ? *cap * 2 : 64;
    void *p = realloc(*array, want * element_bytes);
    if (!p) return false;
    *array = p;
    *cap = want;
    return true;
}

// ---- words

static bool stands_alone(uint32_t c)
{
    return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) ||
           (c >= 0x1780 && c <= 0x17FF) || (c >= 0x3005 && c <= 0x3007) ||
           (c >= 0x3041 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x20000 && c <= 0x3FFFF);
}

// Vowel signs and tone marks of the scripts above, which belong to the letter before them.
static bool is_mark_alone(uint32_t c)
{
    return c == 0x0E31 || (c >= 0x0E34 && c <= 0x0E3A) || (c >= 0x0E47 && c <= 0x0E4E) ||
           c == 0x0EB1 || (c >= 0x0EB4 && c <= 0x0EBC) || (c >= 0x0EC8 && c <= 0x0ECD) ||
           (c >= 0x102B && c <= 0x103E) || (c >= 0x17B6 && c <= 0x17D3) || c == 0x3099 ||
           c == 0x309A;
}

static bool put_word(struct fg_words *w, uint64_t hash)
{
    void *p = w->hash;
    bool fits = grow(&p, w->n, &w->cap, sizeof *w->hash);
    w->hash = p;
    if (fits) w->hash[w->n++] = hash;
    return fits;
}

bool fg_words_add(struct fg_words *w, const char *text, size_t n)
{
    const uint64_t none = 1;
    uint64_t word = none;
    bool alone = false; // the word at hand is a character that stands alone
    for (size_t at = 0, step; at < n; at += step) {
        uint32_t c = fg_utf8_get(text + at, &step);
        bool mark = alone && is_mark_alone(c);
        bool inside = word != none && !alone && (c == '\'' || c == 0x2019) && at + step < n;
        if (inside) {
            size_t ignored;
            uint32_t after = fg_utf8_get(text + at + step, &ignored);
            inside = fg_is_word(after) && !stands_alone(after);
        }
        if (!fg_is_word(c) && !inside && !mark) {
            if (word != none && !put_word(w, word)) return false;
            word = none;
            alone = false;
            continue;
        }
        if (word != none && !mark && (alone || stands_alone(c))) {
            if (!put_word(w, word)) return false;
            word = none;
        }
        if (word == none) alone = stands_alone(c);
        word = mix(word, inside ? '\'' : fg_lower(c));
    }
    return word == none || put_word(w, word);
}

void fg_words_free(struct fg_words *w)
{
    free(w->hash);
    *w = (struct fg_words){0};
}

// ---- sets of runs

static int ascending(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

bool fg_grams_of(struct fg_grams *out, const struct fg_words *words, int order)
{
    *out = (struct fg_grams){0};
    size_t k = (size_t)order < words->n ? (size_t)order : words->n;
    if (k == 0) return true;
    size_t n = words->n - k + 1;
    out->item = malloc(n * sizeof *out->item);
    if (!out->item) return false;
    for (size_t i = 0; i < n; i++) {
        uint64_t h = 0;
        for (size_t j = 0; j < k; j++)
            h = mix(h, words->hash[i + j]);
        out->item[i] = h;
    }
    qsort(out->item, n, sizeof *out->item, ascending);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || out->item[i] != out->item[i - 1]) out->item[out->n++] = out->item[i];
    }
    return true;
}

void fg_grams_free(struct fg_grams *g)
{
    free(g->item);
    *g = (struct fg_grams){0};
}

double fg_grams_jaccard(const struct fg_grams *a, const struct fg_grams *b)
{
    size_t shared = 0;
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        shared += a->item[i] == b->item[j];
        uint64_t x = a->item[i], y = b->item[j];
        i += x <= y;
        j += y <= x;
    }
    size_t all = a->n + b->n - shared;
    return all ? (double)shared / (double)all : 0;
}

// ---- index

static size_t find(const struct fg_gram_index *x, uint64_t key)
{
    size_t i = (size_t)mix(0, key) & (x->cap - 1);
    while (x->head[i] && x->key[i] != key)
        i = (i + 1) & (x->cap - 1);
    return i;
}

static bool widen_index(struct fg_gram_index *x)
{
    if (x->used * 2 < x->cap) return true;
    struct fg_gram_index big = {.cap = x->cap ? x->cap * 2 : 1024};
    big.key = calloc(big.cap, sizeof *big.key);
    big.head = calloc(big.cap, sizeof *big.head);
    if (!big.key || !big.head) {
        free(big.key);
        free(big.head);
        return false;
    }
    for (size_t i = 0; i < x->cap; i++) {
        if (!x->head[i]) continue;
        size_t at = find(&big, x->key[i]);
        big.key[at] = x->key[i];
        big.head[at] = x->head[i];
    }
    free(x->key);
    free(x->head);
    x->key = big.key;
    x->head = big.head;
    x->cap = big.cap;
    return true;
}

static bool add_posting(struct fg_gram_index *x, uint64_t key, uint32_t set)
{
    if (x->n_post >= UINT32_MAX - 1 || !widen_index(x)) return false;
    size_t cap_next = x->cap_post;
    void *sets = x->set, *next = x->next;
    bool fits = grow(&sets, x->n_post, &x->cap_post, sizeof *x->set);
    x->set = sets;
    fits = fits && grow(&next, x->n_post, &cap_next, sizeof *x->next);
    x->next = next;
    if (!fits) return false;
    size_t at = find(x, key);
    if (!x->head[at]) x->used++;
    x->key[at] = key;
    x->set[x->n_post] = set;
    x->next[x->n_post] = x->head[at];
    x->head[at] = (uint32_t)++x->n_post;
    return true;
}

bool fg_gram_index_add(struct fg_gram_index *x, const struct fg_grams *g)
{
    void *size = x->size;
    bool fits = grow(&size, x->n_sets, &x->cap_sets, sizeof *x->size);
    x->size = size;
    if (!fits || g->n > UINT32_MAX) return false;
    for (size_t i = 0; i < g->n; i++) {
        if (!add_posting(x, g->item[i], (uint32_t)x->n_sets)) return false;
    }
    x->size[x->n_sets++] = (uint32_t)g->n;
    return true;
}

void fg_gram_index_free(struct fg_gram_index *x)
{
    free(x->key);
    free(x->head);
    free(x->set);
    free(x->next);
    free(x->size);
    *x = (struct fg_gram_index){0};
}

int fg_gram_index_like(const struct fg_gram_index *x, const struct fg_grams *g, int64_t *set,
                       double *likeness, struct fg_error *err)
{
    uint32_t *shared = calloc(x->n_sets ? x->n_sets : 1, sizeof *shared);
    double best = 0;
    *set = -1;
    if (!shared) return fg_fail_memory(err, "prompts", x->n_sets * sizeof *shared);
    for (size_t i = 0; x->cap && i < g->n; i++) {
        for (uint32_t p = x->head[find(x, g->item[i])]; p; p = x->next[p - 1])
            shared[x->set[p - 1]]++;
    }
    for (size_t i = 0; i < x->n_sets; i++) {
        double like = (double)shared[i] / (double)(g->n + x->size[i] - shared[i]);
        if (shared[i] && like > best) {
            best = like;
            *set = (int64_t)i;
        }
    }
    if (likeness) *likeness = best;
    free(shared);
    return 0;
}

int64_t fg_gram_index_first(const struct fg_gram_index *x, const struct fg_grams *g)
{
    int64_t first = -1;
    for (size_t i = 0; x->cap && i < g->n; i++) {
        for (uint32_t p = x->head[find(x, g->item[i])]; p; p = x->next[p - 1]) {
            if (first < 0 || x->set[p - 1] < first) first = x->set[p - 1];
        }
    }
    return first;
}

// ---- token ids

uint64_t fg_gram_ids(const int32_t *ids, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = mix(h, (uint64_t)(uint32_t)ids[i] + 1);
    return h;
}

static size_t place(const uint64_t *key, size_t cap, uint64_t hash)
{
    size_t i = (size_t)hash & (cap - 1);
    while (key[i] && key[i] != hash)
        i = (i + 1) & (cap - 1);
    return i;
}

bool fg_gram_set_add(struct fg_gram_set *s, uint64_t hash)
{
    if (hash == 0) hash = 1;
    if (s->used * 2 >= s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 1024;
        uint64_t *key = calloc(cap, sizeof *key);
        if (!key) return false;
        for (size_t i = 0; i < s->cap; i++) {
            if (s->key[i]) key[place(key, cap, s->key[i])] = s->key[i];
        }
        free(s->key);
        s->key = key;
        s->cap = cap;
    }
    size_t i = place(s->key, s->cap, hash);
    if (!s->key[i]) s->used++;
    s->key[i] = hash;
    return true;
}

bool fg_gram_set_has(const struct fg_gram_set *s, uint64_t hash)
{
    if (hash == 0) hash = 1;
    return s->cap && s->key[place(s->key, s->cap, hash)] != 0;
}

void fg_gram_set_free(struct fg_gram_set *s)
{
    free(s->key);
    *s = (struct fg_gram_set){0};
}
