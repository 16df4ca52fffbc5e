// text/tokenizer.h: byte-level BPE tokenizers (specs: model 12): text to token ids and back. Loads
// tokenizer.json with its companions, or the metadata of a GGUF file. Chat templates are rendered
// by chat_template.h; this file knows nothing about messages.
//
// A tokenizer is immutable after opening and may be shared by any number of threads. What encoding
// needs to write to is in a struct fg_tok_work, which has one user at a time.
#ifndef FG_TEXT_TOKENIZER_H
#define FG_TEXT_TOKENIZER_H
#include "base/error.h"
#include "base/hash.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fg_buf;
struct fg_gguf;
struct fg_log;
struct fg_tokenizer; // opaque
struct fg_tok_work;  // opaque

// Token ids that grow. Zeroed is empty; free with fg_ids_free.
struct fg_ids {
    int32_t *data;
    size_t n;   // ids
    size_t cap; // ids
};
void fg_ids_free(struct fg_ids *ids);                           // and resets it to empty
bool fg_ids_add(struct fg_ids *ids, const int32_t *, size_t n); // false: out of memory

// Reads dir/tokenizer.json, and where they exist dir/tokenizer_config.json (eos, bos and pad token,
// add_bos_token, further added tokens) and dir/generation_config.json (stop ids).
//   log  NULL, or where ignored fields are mentioned (debug)
// *out is the caller's until fg_tokenizer_free; NULL after a failure.
// Errors: FG_EINPUT (file, field, expected, found) for everything that section 12.1 refuses and for
// pre-tokenizers and normalizers that are not built in; FG_ERESOURCE.
int fg_tokenizer_open(struct fg_tokenizer **out, const char *dir, const struct fg_log *log,
                      struct fg_error *err);

// The same from the metadata of an open GGUF file (specs: model 11.7), which may be closed
// afterwards.
int fg_tokenizer_open_gguf(struct fg_tokenizer **out, const struct fg_gguf *gguf,
                           struct fg_error *err);
void fg_tokenizer_free(struct fg_tokenizer *tok); // NULL is fine

// Largest id + 1. Rows of the embedding from here on are padding and are never produced. Ids below
// it may be unused when the file has gaps.
int32_t fg_tokenizer_size(const struct fg_tokenizer *tok);
// Name of the pre-tokenizer: "qwen2", "qwen35", "gpt2", "smollm2" or "llama3".
const char *fg_tokenizer_kind(const struct fg_tokenizer *tok);

int32_t fg_tokenizer_bos(const struct fg_tokenizer *tok); // -1: none
int32_t fg_tokenizer_eos(const struct fg_tokenizer *tok); // of tokenizer_config.json; -1: none
int32_t fg_tokenizer_pad(const struct fg_tokenizer *tok); // -1: none
// The ids that end a reply: eos_token_id of generation_config.json (a number or a list) and the
// eos_token of tokenizer_config.json (specs: model 1.2, "Stop set"). Ascending, each once; *ids
// belongs to tok. Returns their number, 0 when the files name none.
size_t fg_tokenizer_stop_ids(const struct fg_tokenizer *tok, const int32_t **ids);
bool fg_tokenizer_is_stop(const struct fg_tokenizer *tok, int32_t id);

// The bytes that id decodes to (part of a character, possibly); an added token's literal text.
// Owned by tok. False, and *n = 0, when no token has this id.
bool fg_tokenizer_token(const struct fg_tokenizer *tok, int32_t id, const char **bytes, size_t *n);
bool fg_tokenizer_is_added(const struct fg_tokenizer *tok, int32_t id);
bool fg_tokenizer_is_special(const struct fg_tokenizer *tok, int32_t id);
// Id of the added token whose text is exactly these n bytes, as "<|im_end|>"; -1 when there is
// none.
int32_t fg_tokenizer_find_added(const struct fg_tokenizer *tok, const char *text, size_t n);

// SHA-256 of what the ids stand for: for each id that has a token, ascending, the id and the number
// of bytes (u32, little-endian), then the bytes of fg_tokenizer_token. A GGUF file and the
// checkpoint that it was made from agree. False, and hex empty, when out of memory.
bool fg_tokenizer_digest(const struct fg_tokenizer *tok, char hex[FG_SHA256_HEX]);

// Scratch memory and caches of one encoding thread. Encoding is faster with a workspace that is
// used again; results are the same. Must be freed before tok. Errors: FG_ERESOURCE.
int fg_tok_work_new(struct fg_tok_work **out, const struct fg_tokenizer *tok, struct fg_error *err);
void fg_tok_work_free(struct fg_tok_work *work); // NULL is fine

enum {
    // Added tokens in the text are plain text (for text of users). Without it all of them are
    // found, special or not, as templates need it.
    FG_TOK_PLAIN = 1,
    // Adds what the tokenizer's files ask for around a text: BOS and EOS where add_bos_token or a
    // template post-processor says so. Nothing for Qwen and SmolLM2.
    FG_TOK_WRAP = 2,
    // Bytes that are not UTF-8 are encoded as they are, each invalid stretch on its own. Without it
    // each maximal invalid subpart becomes U+FFFD first.
    FG_TOK_RAW = 4,
};

// Appends the ids of text[0, n) to *out. work may be NULL (a temporary one is made).
// Errors: FG_ERESOURCE; FG_EINPUT for a text of 2 GiB or more; *out then keeps its first ids.
int fg_tokenizer_encode(const struct fg_tokenizer *tok, struct fg_tok_work *work, const char *text,
                        size_t n, unsigned flags, struct fg_ids *out, struct fg_error *err);

enum {
    FG_TOK_SKIP_SPECIAL = 1 // special tokens are left out
};

// Appends the text of ids[0, n) to *out: valid UTF-8, with U+FFFD for each maximal invalid subpart.
// Errors: FG_EINPUT for an id that no token has (padding rows included); FG_ERESOURCE.
int fg_tokenizer_decode(const struct fg_tokenizer *tok, const int32_t *ids, size_t n,
                        unsigned flags, struct fg_buf *out, struct fg_error *err);

// Decoding token by token. Only complete characters come out; what comes out in total is what
// fg_tokenizer_decode gives for all ids at once. Plain data, copy it to fork a stream.
struct fg_tok_stream {
    const struct fg_tokenizer *tok;
    unsigned flags; // as for decode
    unsigned n_held;
    uint8_t held[4]; // begin of a character whose rest has not come
};
void fg_tok_stream_init(struct fg_tok_stream *s, const struct fg_tokenizer *tok, unsigned flags);
// Appends the characters that id completes to *out (often none). Errors as fg_tokenizer_decode; the
// stream is then unchanged.
int fg_tok_stream_push(struct fg_tok_stream *s, int32_t id, struct fg_buf *out,
                       struct fg_error *err);
// End of the stream: an incomplete character becomes U+FFFD. The stream can be used again.
int fg_tok_stream_flush(struct fg_tok_stream *s, struct fg_buf *out, struct fg_error *err);
#endif
