// forge/forge.h: the public API of libforge. What `forge` itself does with a model, another program
// can do through this header: open an engine (model, tokenizer, chat template; immutable, shared),
// make sessions (one conversation each, one caller at a time), run tokens, sample, decode.
//
// Functions that can fail return 0 or an FG_E code and fill *err (NULL is fine). Strings are UTF-8.
// Nothing here prints, exits or keeps global state.
#ifndef FORGE_FORGE_H
#define FORGE_FORGE_H
#include "forge/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FORGE_API __attribute__((visibility("default")))
#else
#define FORGE_API
#endif

struct forge_engine;   // opaque
struct forge_session;  // opaque
struct forge_snapshot; // opaque

// ---- version and machine

FORGE_API const char *forge_version(void);    // "0.1.0"
FORGE_API const char *forge_commit(void);     // of the source, "unknown" outside a checkout
FORGE_API const char *forge_build_type(void); // "Release"
FORGE_API const char *forge_compiler(void);   // "gcc 12.2.0"
// Kernel levels that this build has and this machine can run, slowest first: "ref", "avx2", ... i
// in [0, *n).
FORGE_API int forge_isa_count(void);
FORGE_API const char *forge_isa_name(int i);
FORGE_API int forge_threads_default(void); // cores that affinity and cgroup grant

// ---- engine

enum forge_numerics {
    FORGE_FAST, // quantized weights meet INT8 activations, integer sums; of models that are not
                // quantized, BF16 weights meet BF16 activations (F16 and F32 weights: as exact)
    FORGE_EXACT // FP32 activations: goldens, evaluation
};

enum forge_log_level { FORGE_LOG_ERROR, FORGE_LOG_WARN, FORGE_LOG_INFO, FORGE_LOG_DEBUG };
typedef void (*forge_log_fn)(void *ctx, enum forge_log_level level, const char *line);

struct forge_engine_options {
    const char *model; // checkpoint directory, GGUF file, quantized export, bundle or its build of
                       // packages; required
    const char *model_dir; // for exports without config, embedding and small tensors: a checkpoint
                           // that has them; NULL: none
    bool fill;             // matrices that the export lacks are model_dir's, unquantized
    // Where builds of packages are kept compiled for this machine. A build of more than 64 MiB that
    // is not compiled yet is compiled first, with lines to `compile_line`. NULL: packed in memory.
    const char *state_dir;
    void (*compile_line)(void *ctx, const char *line); // may be NULL; ctx is log_ctx
    bool (*stop)(void *ctx); // asked while compiling; true ends opening with FG_EINTERRUPTED
    // The largest context that sessions have where they don't say: of a build one of its entries,
    // of other models any number up to their positions. 0: 16384, or the largest that is below.
    int64_t ctx;
    // Keys and values of sessions where they don't say: "fp16", "v8", "kv8", "f32". NULL or "auto":
    // what a build's manifest has as its default; of other models f32 for exact numerics, kv8 for
    // fast ones. Both are checked before weights are read.
    const char *kv_cache_dtype;
    bool copy_weights; // compiled weights into memory with huge pages, not mapped
    bool allow_paging; // a model that does not fit into memory is a warning
    int threads;       // 0: forge_threads_default()
    const char *isa;   // kernel level; NULL: the best
    enum forge_numerics numerics;
    const char *chat_template; // variant name that overrides detection; NULL: detect
    bool strict;               // unknown tensors are an error
    bool model_only;           // no tokenizer, no template: token ids in, logits out
    bool text_only; // no weights: tokens and templates, no session. A GGUF is opened whole
    enum forge_log_level log_level;
    forge_log_fn log; // NULL: silent
    void *log_ctx;
};

// Opens a model with its tokenizer and chat template. A missing or unsupported chat template is no
// error here: what renders messages reports it. Errors: FG_EINPUT, FG_EUNSUPPORTED (isa),
// FG_ERESOURCE; *out is then NULL.
FORGE_API int forge_engine_open(struct forge_engine **out,
                                const struct forge_engine_options *options, struct fg_error *err);
FORGE_API void forge_engine_close(struct forge_engine *e); // NULL is fine; no session may be left

struct forge_engine_info {
    const char *family; // "qwen3_5", "llama", ...
    const char *isa;    // kernel level in use
    int threads;
    enum forge_numerics numerics;
    const char *chat_template; // variant name; NULL: none
    const char *tokenizer;     // pre-tokenizer's name; NULL: none
    int64_t vocab, hidden, n_layers, n_linear_layers, n_full_layers, max_positions;
    uint64_t parameters, weight_bytes;
    uint64_t token_bytes; // weights read per decoded token: all but an untied embedding
    bool of_build;        // contexts and formats are those of a manifest
    // Contexts, ascending: the build's entries, or the ladder up to max_positions.
    const int64_t *entries;
    int n_entries;
    int64_t ctx;                    // of sessions that don't say: its name, an entry of a build
    const char *kv_cache_dtype;     // of sessions that don't say
    bool kv_rotated;                // their keys and values are stored rotated
    uint64_t kv_bytes_per_position; // of them
    uint64_t state_bytes; // of a session: recurrent state and convolution rows, twice: a call reads
                          // one and writes the other
    const int64_t *taps;  // layers that the manifest names for a drafter, ascending
    int64_t n_taps;
    double load_seconds;
};
// Pointers are the engine's.
FORGE_API void forge_engine_info(const struct forge_engine *e, struct forge_engine_info *out);
// The smallest context for a session of `rows` positions; 0 when none has room.
FORGE_API int64_t forge_context_for(const struct forge_engine *e, int64_t rows);

// ---- text

// Appends nothing, gives a new array: *ids is the caller's (free), *n its length. special: added
// tokens in the text are found; otherwise everything is plain text. Errors: FG_EINPUT (no
// tokenizer), FG_ERESOURCE.
FORGE_API int forge_tokenize(const struct forge_engine *e, const char *text, size_t n_bytes,
                             bool special, int32_t **ids, size_t *n, struct fg_error *err);
// *text is the caller's (free), NUL-terminated, *n_bytes long. Errors: FG_EINPUT (an id without
// token), FG_ERESOURCE.
FORGE_API int forge_detokenize(const struct forge_engine *e, const int32_t *ids, size_t n,
                               bool skip_special, char **text, size_t *n_bytes,
                               struct fg_error *err);

// SHA-256, 64 lower-case digits and the NUL, of what the token ids stand for (ids and bytes): equal
// for a GGUF file and the checkpoint that it was made from. Empty without a tokenizer. Errors:
// FG_ERESOURCE.
FORGE_API int forge_tokenizer_digest(const struct forge_engine *e, char hex[65],
                                     struct fg_error *err);
// The tokens that end a reply, ascending; *ids is the engine's. Returns their number, 0 without a
// tokenizer.
FORGE_API size_t forge_stop_ids(const struct forge_engine *e, const int32_t **ids);

// A conversation as prompt text. `json` holds either an array of messages or an object {"messages",
// "tools", "chat_template_kwargs"}. kwargs_json (NULL: none) is an object whose keys win over
// those. add_generation_prompt defaults to true. *text is the caller's (free). Errors: FG_EINPUT.
FORGE_API int forge_render_chat(const struct forge_engine *e, const char *json, size_t n_json,
                                const char *kwargs_json, char **text, size_t *n_bytes,
                                struct fg_error *err);
// The same as token ids: marks of the template are special, and so are marks inside messages (as HF
// does it).
FORGE_API int forge_encode_chat(const struct forge_engine *e, const char *json, size_t n_json,
                                const char *kwargs_json, int32_t **ids, size_t *n,
                                struct fg_error *err);

// ---- sessions
//
// A session starts in the smallest context of its ladder and moves up as it fills, so its memory
// follows the conversation; results do not depend on it (docs/long-context.md).

// How attention treats keys and values. The first is the product; the others repeat the arithmetic
// of the original for comparison: there a row's value depends on the block that it came in.
enum forge_attention { FORGE_ATTENTION_STORED, FORGE_ATTENTION_SEED, FORGE_ATTENTION_C2T };

struct forge_session_options {
    int64_t capacity;           // context, as forge_engine_options.ctx; 0: the engine's
    int64_t rows;               // most rows per forward call; 0: 512. Results do not depend on it
    int64_t verify_rows;        // most rows of forge_session_verify, 1 .. 16; 0: 8
    const char *kv_cache_dtype; // as forge_engine_options.kv_cache_dtype; NULL: the engine's
    bool plain_kv;              // keys and values are not rotated, for comparison
    enum forge_attention attention;
    int64_t reserve_bytes; // memory that growing leaves free; 0: 256 MiB, -1: it does not ask
    // Lines of this session, as "[ctx] 8K -> 16K ..." at info. NULL: to the engine's log.
    enum forge_log_level log_level;
    forge_log_fn log;
    void *log_ctx;
};

// A session over `e`, which must outlive it. Errors: FG_EINPUT (capacity that is no entry or above
// the model's maximum, a format that is not offered), FG_ERESOURCE.
FORGE_API int forge_session_new(struct forge_session **out, struct forge_engine *e,
                                const struct forge_session_options *options, struct fg_error *err);
FORGE_API void forge_session_free(struct forge_session *s);              // NULL is fine
FORGE_API int64_t forge_session_position(const struct forge_session *s); // rows so far
FORGE_API int64_t forge_session_capacity(const struct forge_session *s); // positions at most
FORGE_API int64_t forge_session_entry(const struct forge_session *s);    // that have memory now
FORGE_API int64_t forge_session_tried(const struct forge_session *s);    // rows waiting for accept
// Empty, in the smallest context; memory goes back to the system.
FORGE_API void forge_session_reset(struct forge_session *s);
// Makes sure that `rows` positions fit. Errors: FG_EINPUT (above the capacity), FG_ERESOURCE; the
// session is then as it was.
FORGE_API int forge_session_fit(struct forge_session *s, int64_t rows, struct fg_error *err);
// Bytes of memory of the session's own: states, buffers, keys and values of its entry; the last
// alone.
FORGE_API uint64_t forge_session_bytes(const struct forge_session *s);
FORGE_API uint64_t forge_session_kv_bytes(const struct forge_session *s);

// Called between blocks of rows; `done` of `total` tokens of this call have run. A value other than
// 0 stops the call.
typedef int (*forge_progress_fn)(void *ctx, int64_t done, int64_t total);

// Asked between layers; true stops the call.
typedef bool (*forge_cancel_fn)(void *ctx);

// Runs ids[0, n) after what the session holds. logits (NULL: none) receives the last n_logits rows,
// [n_logits][vocab] FP32, n_logits <= n. progress may be NULL. Errors: FG_EINPUT (id outside the
// vocabulary, capacity exceeded, n < 1): the session is unchanged. FG_EINTERRUPTED: stopped by
// `progress`; the session holds the rows that have run.
FORGE_API int forge_session_run(struct forge_session *s, const int32_t *ids, int64_t n,
                                float *logits, int64_t n_logits, forge_progress_fn progress,
                                void *ctx, struct fg_error *err);

// The best of a row's logits, for callers that need no more: they are then never kept in memory.
struct forge_best {
    int64_t k;     // 1 .. 256, at most the vocabulary
    int32_t *ids;  // [n_rows][k], by descending logit, lower id first among equals
    float *logits; // [n_rows][k]; NaN counts as -infinity
    float *lse;    // [n_rows]: log sum exp of the whole row
    bool nan;      // some logit was NaN
};
// As forge_session_run, for the last n_rows rows. Errors also: FG_EINPUT (k).
FORGE_API int forge_session_run_best(struct forge_session *s, const int32_t *ids, int64_t n,
                                     struct forge_best *best, int64_t n_rows,
                                     forge_progress_fn progress, void *ctx, struct fg_error *err);

// The whole call, for prompts and for verifying: any part of the outputs, none of them, or stopping
// in the middle of a block.
struct forge_feed {
    const int32_t *ids; // [n]
    int64_t n;
    float *logits;           // of the last n_out rows [n_out][vocab]; NULL: `best`, or none
    struct forge_best *best; // or the best of them
    int64_t n_out;
    float *taps; // [n][layers][hidden] FP32 (forge_session_set_layer_taps), or NULL
    forge_progress_fn progress;
    forge_cancel_fn cancel;
    void *ctx; // of both
};
// Runs and commits the rows; those that were tried are dropped first. Errors as forge_session_run;
// FG_EFAILED: a row is not finite. After FG_EINTERRUPTED and FG_EFAILED the session holds the
// blocks that ran whole.
FORGE_API int forge_session_feed(struct forge_session *s, const struct forge_feed *feed,
                                 struct fg_error *err);
// Tries ids[0, n), n <= verify_rows, after what the session holds, and commits nothing; n_out is n
// or 0. Replaces what was tried before. Errors as forge_session_feed; the session is then as it
// was.
FORGE_API int forge_session_verify(struct forge_session *s, const struct forge_feed *feed,
                                   struct fg_error *err);
// The same for rows of several sessions of one engine, equal in format and numerics, through one
// pass over the weights: the ids and outputs of the sessions follow each other. All or none; the
// rows together are at most the first session's `rows`.
FORGE_API int forge_session_verify_batch(struct forge_session *const *sessions,
                                         const int64_t *n_rows, int n_sessions,
                                         const struct forge_feed *feed, struct fg_error *err);
// Commits the first k of the rows that were tried and drops the others, as if they had been run; at
// no cost, the next call applies them. FG_EINPUT: k is not in 0 .. their number.
FORGE_API int forge_session_accept(struct forge_session *s, int64_t k, struct fg_error *err);
FORGE_API void forge_session_flush(struct forge_session *s); // applies them now
// Layers whose residual goes to forge_feed.taps: ascending, below the model's layers, at most 64.
// FG_EINPUT.
FORGE_API int forge_session_set_layer_taps(struct forge_session *s, const int64_t *layers,
                                           int64_t n, struct fg_error *err);
// For measurements: an empty session stands at `pos` with made-up keys, values and states. Errors:
// FG_EINPUT (not empty, too long), FG_ERESOURCE.
FORGE_API int forge_session_pretend(struct forge_session *s, int64_t pos, uint64_t seed,
                                    struct fg_error *err);

// How many of ids[0, n) the session already holds from its start on.
FORGE_API int64_t forge_session_common_prefix(const struct forge_session *s, const int32_t *ids,
                                              int64_t n);
// Cuts the session to its first `pos` rows. False (and nothing changed) when the model's states do
// not allow it; pos = 0 always works.
FORGE_API bool forge_session_rewind(struct forge_session *s, int64_t pos);

// Writes the session to a file (atomically), or replaces its content by a saved one of the same
// model, KV format and numerics; results then go on bit for bit. Errors: FG_EINPUT (not such a
// file, too long for the capacity), FG_EINTEGRITY (other model, format, checksum), FG_ERESOURCE; a
// failed load leaves an empty session.
FORGE_API int forge_session_save(struct forge_session *s, const char *path, struct fg_error *err);
FORGE_API int forge_session_load(struct forge_session *s, const char *path, struct fg_error *err);

// ---- snapshots: a conversation at one moment, to come back to

enum forge_snapshot_rows {
    FORGE_SNAPSHOT_DETACH, // keys and values are copied when they are about to be overwritten
    FORGE_SNAPSHOT_LIVE    // they are not: the snapshot is then lost
};
// Recurrent states are copied; keys and values stay in the session as long as nobody writes over
// them. *out is the caller's. Errors: FG_ERESOURCE.
FORGE_API int forge_snapshot_take(struct forge_snapshot **out, struct forge_session *s,
                                  enum forge_snapshot_rows rows, struct fg_error *err);
FORGE_API void forge_snapshot_free(struct forge_snapshot *snap); // NULL is fine
FORGE_API int64_t forge_snapshot_pos(const struct forge_snapshot *snap);
FORGE_API const int32_t *forge_snapshot_ids(const struct forge_snapshot *snap); // [pos]
FORGE_API bool forge_snapshot_valid(const struct forge_snapshot *snap);         // can be restored
FORGE_API uint64_t forge_snapshot_bytes(const struct forge_snapshot *snap);     // of its own
// Copies keys and values from row `row` on now (0: all); all of them, and the session may go.
// Errors: FG_EFAILED (not valid), FG_ERESOURCE.
FORGE_API int forge_snapshot_detach(struct forge_snapshot *snap, int64_t row, struct fg_error *err);
// The session stands where the snapshot was, in the smallest context with room for rows_needed
// positions too. It is the session that it was taken from or, for one that is wholly detached,
// another of the same engine options. The snapshot stays good. Errors: FG_EFAILED (not valid, not
// of this session), FG_EINPUT (too long), FG_ERESOURCE; the session is then as it was.
FORGE_API int forge_snapshot_restore(struct forge_session *s, struct forge_snapshot *snap,
                                     int64_t rows_needed, struct fg_error *err);
// A file with a checksum per part, written atomically; its bytes depend on the conversation alone.
// What was read is detached. Errors: FG_EINPUT (not such a file), FG_EINTEGRITY (another model,
// format, numerics; a checksum), FG_ERESOURCE, FG_EFAILED (write: not valid).
FORGE_API int forge_snapshot_write(const struct forge_snapshot *snap, const char *path,
                                   struct fg_error *err);
FORGE_API int forge_snapshot_read(struct forge_snapshot **out, struct forge_session *s,
                                  const char *path, struct fg_error *err);

// Every intermediate of the forward pass (names in src/model/graph.h), during forge_session_run.
// NULL: none.
typedef void (*forge_tap_fn)(void *ctx, const char *name, int layer, int64_t pos, int64_t rows,
                             int64_t width, const float *data, int64_t stride);
FORGE_API void forge_session_tap(struct forge_session *s, forge_tap_fn tap, void *ctx);

// ---- generation

// Sampling in the order of specs: server 7.1. Zeroed is greedy.
struct forge_sampling {
    double temperature;         // 0: greedy; penalties then do not apply
    double top_p;               // 0 or 1: off
    double min_p;               // 0: off
    int32_t top_k;              // 0: off
    double repetition;          // 0 or 1: off; over prompt and output
    double presence, frequency; // over the output
    uint64_t seed;              // the same seed, prompt and options give the same text
};

enum forge_finish {
    FORGE_FINISH_STOP,      // a stop token or string
    FORGE_FINISH_LENGTH,    // the token limit
    FORGE_FINISH_CONTEXT,   // the session is full
    FORGE_FINISH_CANCELLED, // the callback said so
};
FORGE_API const char *forge_finish_name(enum forge_finish f); // "stop", "length", ...

// One step of a generation: `id` was drawn and `text` (n bytes of complete characters, often 0)
// became final. id is -1 for the text that the end sets free. logits is the raw row that id was
// drawn from; NULL at the end, and in greedy generation without keep_logits. A value other than 0
// stops the generation after this token.
typedef int (*forge_token_fn)(void *ctx, int32_t id, const char *text, size_t n,
                              const float *logits);

struct forge_generate_options {
    int64_t max_tokens; // >= 1
    struct forge_sampling sampling;
    bool ignore_stop_tokens;
    const char *const *stop; // strings that end the text; they are not part of it
    size_t n_stop;
    bool keep_special;          // special tokens appear in the text
    bool keep_logits;           // on_token gets every row of logits
    forge_progress_fn progress; // during the prompt; may be NULL
    forge_token_fn on_token;    // may be NULL
    void *ctx;                  // of both
};

struct forge_generate_result {
    enum forge_finish finish;
    int64_t prompt_tokens;    // in all
    int64_t cached_tokens;    // of these, kept from before
    int64_t generated_tokens; // stop token included
    double prompt_seconds, generate_seconds;
};

// Continues ids[0, n) (the whole prompt, n >= 1): keeps what the session already holds of it, runs
// the rest, then draws tokens. The session ends holding prompt and drawn tokens, except the last
// drawn one. Errors as forge_session_run; a progress callback that stops the prompt gives
// FG_EINTERRUPTED.
FORGE_API int forge_generate(struct forge_session *s, const int32_t *ids, int64_t n,
                             const struct forge_generate_options *options,
                             struct forge_generate_result *result, struct fg_error *err);

// log softmax of one raw row, natural logarithm, FP64: out[k] for ids[k].
FORGE_API void forge_logprobs(const float *logits, int64_t vocab, const int32_t *ids, size_t n,
                              double *out);
// The k largest entries of a row, descending, lower id first among equals. ids [k].
FORGE_API void forge_top_ids(const float *logits, int64_t vocab, int32_t k, int32_t *ids);
#endif
