// corpus/source.h: what rows are cut from (specs: quantization 6.2): texts, lines of documents or
// of conversations, other rows. Internal to rows_make.c and source*.c.
#ifndef FG_CORPUS_SOURCE_H
#define FG_CORPUS_SOURCE_H
#include "base/error.h"
#include "corpus/rows_make.h"
#include "text/tokenizer.h"
#include <stdbool.h>
#include <stdint.h>

// Tokens that follow each other, and the number of the sequence that each is from.
struct fg_source_unit {
    struct fg_ids ids, seq;
};

struct fg_source {
    const struct fg_corpus_rows_job *job;
    const char *path;
    int64_t rows;                // wanted; 0: all
    struct fg_source_unit *unit; // [n]
    size_t n, cap;
    bool turns;       // rows are taken from the units in turn, else from one after the other
    int32_t next_seq; // number of the next sequence, over all sources
    struct fg_corpus_source_facts facts;
};

// Reads a source as far as its rows need. Errors: FG_EINPUT, FG_ERESOURCE, FG_EINTERRUPTED.
int fg_source_read(struct fg_source *s, struct fg_error *err);
void fg_source_free(struct fg_source *s);

// For source_lines.c: a new empty unit, NULL when out of memory; ids as the next sequence.
struct fg_source_unit *fg_source_unit_new(struct fg_source *s);
bool fg_source_append(struct fg_source *s, struct fg_source_unit *u, const int32_t *ids, size_t n);
// Whether the source has what it is asked for.
bool fg_source_enough(const struct fg_source *s);
// Documents or conversations, one per line.
int fg_source_read_lines(struct fg_source *s, struct fg_error *err);
#endif
