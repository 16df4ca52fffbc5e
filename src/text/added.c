#include "text/added.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct fg_added_node {
    uint32_t child, sibling; // 0: none
    uint32_t added;          // token that ends here, or FG_VOCAB_NONE
    unsigned char byte;
};

// A new node for `byte`, linked in at *link (an offset in nodes, which may move). 0: out of memory.
static uint32_t new_node(struct fg_added_trie *t, unsigned char byte)
{
    if (t->n_nodes == t->cap_nodes) {
        uint32_t cap = t->cap_nodes ? t->cap_nodes * 2 : 256;
        struct fg_added_node *p = realloc(t->nodes, cap * sizeof *p);
        if (!p) return 0;
        t->nodes = p;
        t->cap_nodes = cap;
    }
    t->nodes[t->n_nodes] = (struct fg_added_node){.added = FG_VOCAB_NONE, .byte = byte};
    return t->n_nodes++;
}

static uint32_t child_of(const struct fg_added_trie *t, uint32_t node, unsigned char byte)
{
    uint32_t c = t->nodes[node].child;
    while (c && t->nodes[c].byte != byte)
        c = t->nodes[c].sibling;
    return c;
}

// Node of s, made with all on the way to it; 0: out of memory.
static uint32_t insert(struct fg_added_trie *t, const char *s, size_t n)
{
    unsigned char first = (unsigned char)s[0];
    uint32_t node = t->root[first];
    if (!node && !(node = t->root[first] = new_node(t, first))) return 0;
    for (size_t i = 1; i < n; i++) {
        uint32_t c = child_of(t, node, (unsigned char)s[i]);
        if (!c) {
            if (!(c = new_node(t, (unsigned char)s[i]))) return 0;
            t->nodes[c].sibling = t->nodes[node].child;
            t->nodes[node].child = c;
        }
        node = c;
    }
    return node;
}

static int fail_twice(const struct fg_vocab *v, uint32_t a, uint32_t b, struct fg_error *err)
{
    char name[64], field[96];
    fg_escape(name, sizeof name, v->blob.data + v->added[a].at, v->added[a].n_bytes);
    snprintf(field, sizeof field, "added token \"%s\"", name);
    return fg_fail(err, FG_EINPUT, "tokenizer", v->file, field, "one id",
                   "%" PRId32 " and %" PRId32, v->tokens[v->added[a].token].id,
                   v->tokens[v->added[b].token].id);
}

int fg_added_build(struct fg_added_trie *trie, const struct fg_vocab *v, bool normalized,
                   struct fg_error *err)
{
    *trie = (struct fg_added_trie){0};
    new_node(trie, 0); // index 0 means none
    for (uint32_t i = 0; i < v->n_added; i++) {
        const struct fg_vocab_added *a = &v->added[i];
        if (((a->flags & FG_ADDED_NORMALIZED) != 0) != normalized) continue;
        uint32_t node = trie->nodes ? insert(trie, v->blob.data + a->at, a->n_bytes) : 0;
        int rc = node ? 0 : fg_fail_memory(err, "tokenizer", 0);
        if (!rc && trie->nodes[node].added != FG_VOCAB_NONE) {
            rc = fail_twice(v, trie->nodes[node].added, i, err);
        }
        if (rc) {
            fg_added_free(trie);
            return rc;
        }
        trie->nodes[node].added = i;
    }
    return 0;
}

void fg_added_free(struct fg_added_trie *trie)
{
    free(trie->nodes);
    *trie = (struct fg_added_trie){0};
}

bool fg_added_find(const struct fg_added_trie *trie, const char *text, size_t n, size_t from,
                   struct fg_added_match *match)
{
    for (size_t begin = from; begin < n; begin++) {
        uint32_t node = trie->root[(unsigned char)text[begin]];
        if (!node) continue;
        bool found = false;
        for (size_t end = begin + 1;; end++) {
            if (trie->nodes[node].added != FG_VOCAB_NONE) {
                found = true;
                *match = (struct fg_added_match){begin, end, trie->nodes[node].added};
            }
            if (end == n || !(node = child_of(trie, node, (unsigned char)text[end]))) break;
        }
        if (found) return true;
    }
    return false;
}

uint32_t fg_added_exact(const struct fg_added_trie *trie, const char *text, size_t n)
{
    uint32_t node = n ? trie->root[(unsigned char)text[0]] : 0;
    for (size_t i = 1; node && i < n; i++)
        node = child_of(trie, node, (unsigned char)text[i]);
    return node ? trie->nodes[node].added : FG_VOCAB_NONE;
}
