// corpus/rows_make.h: rows of token ids from texts, conversations and other rows, for calibration
// (specs: quantization 6.1, 6.2). Kinds of sources, by the end of the name:
//
//   .jsonl              one object per line, all with "text" or all with "messages"
//   .safetensors, .npy  rows of the same length (format/rows.h)
//   others              a text, tokenized as a whole
//
// Texts have no BOS, and what looks like a special token in them is text. Documents ("text") follow
// each other. Conversations are rendered by the model's chat template, and rows are taken from them
// in turn: the first row of each, the second of each, ...; conversations shorter than a row go on
// into the next one. A conversation whose replies have thinking in more than one user turn is
// rendered turn by turn, as templates drop the thinking of past turns; tools and system message
// stand in the first. Results of tools are cut at 6,000 characters. Partial rows are dropped.
#ifndef FG_CORPUS_ROWS_MAKE_H
#define FG_CORPUS_ROWS_MAKE_H
#include "base/error.h"
#include "forge/forge.h"
#include "format/rows.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_CORPUS_SOURCES_MAX 64
#define FG_CORPUS_TOOL_CHARS 6000

struct fg_corpus_source {
    const char *path;
    int64_t rows; // 0: all there are
};

struct fg_corpus_rows_job {
    const struct forge_engine *engine; // tokenizer and template
    const struct fg_corpus_source *sources;
    int n_sources;
    int64_t seq;             // tokens per row, >= 2
    int64_t holdout_every;   // of a source's rows every such one goes to `held`; 0: none
    const char *split;       // of the rows; held ones have "SPLIT-holdout"
    uint64_t seed;           // recorded; nothing is drawn
    bool replace_invalid;    // bytes of texts that are not UTF-8 become U+FFFD, else an error
    bool (*stop)(void *ctx); // asked between documents and sources; may be NULL
    void *ctx;
};

enum fg_corpus_kind { FG_CORPUS_TEXT, FG_CORPUS_DOCUMENTS, FG_CORPUS_CHATS, FG_CORPUS_ROWS };
const char *fg_corpus_kind_name(enum fg_corpus_kind kind); // "text", "documents", ...

struct fg_corpus_source_facts {
    enum fg_corpus_kind kind;
    int64_t rows, held; // taken; held of them
    int64_t documents;  // read; a text is one
    int64_t tokens;     // of these
};

// Makes the rows, sources in order, and those held out (may be NULL without holdout_every); facts
// [n_sources]. Errors: FG_EINPUT (unreadable, malformed, fewer rows than asked for: expected and
// found, with tokens), FG_ERESOURCE, FG_EINTERRUPTED; *rows and *held are then empty.
int fg_corpus_rows_make(struct fg_rows *rows, struct fg_rows *held,
                        struct fg_corpus_source_facts *facts, const struct fg_corpus_rows_job *job,
                        struct fg_error *err);
#endif
