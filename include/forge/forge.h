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

struct forge_engine;  // opaque
struct forge_session; // opaque

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
    // Where builds of packages are kept compiled for this machine. A build of more than 64 MiB that
    // is not compiled yet is compiled first, with lines to `compile_line`. NULL: packed in memory.
    const char *state_dir;
    void (*compile_line)(void *ctx, const char *line); // may be NULL; ctx is log_ctx
    bool (*stop)(void *ctx); // asked while compiling; true ends opening with FG_EINTERRUPTED
    int64_t ctx;             // the largest context that sessions will have; 0: 16384 at most
    bool copy_weights;       // compiled weights into memory with huge pages, not mapped
    bool allow_paging;       // a model that does not fit into memory is a warning
    int threads;             // 0: forge_threads_default()
    const char *isa;         // kernel level; NULL: the best
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
    uint64_t token_bytes;           // weights read per decoded token: all but an untied embedding
    uint64_t state_bytes;           // of a session: recurrent state and convolution rows
    uint64_t kv_bytes_per_position; // of a session
    double load_seconds;
};
FORGE_API void forge_engine_info(const struct forge_engine *e, struct forge_engine_info *out);

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

struct forge_session_options {
    int64_t
        capacity; // positions; 0: min(16384, the model's maximum). Memory is touched as it is used
    int64_t rows; // most rows per forward call; 0: 512. Results do not depend on it
};

// A session over `e`, which must outlive it. Errors: FG_EINPUT (capacity above the model's
// maximum), FG_ERESOURCE.
FORGE_API int forge_session_new(struct forge_session **out, struct forge_engine *e,
                                const struct forge_session_options *options, struct fg_error *err);
FORGE_API void forge_session_free(struct forge_session *s);              // NULL is fine
FORGE_API int64_t forge_session_position(const struct forge_session *s); // rows so far
FORGE_API int64_t forge_session_capacity(const struct forge_session *s);
FORGE_API void forge_session_reset(struct forge_session *s);
// Bytes of memory of the session's own: states, cache rows in use, buffers.
FORGE_API uint64_t forge_session_bytes(const struct forge_session *s);

// Called between blocks of rows; `done` of `total` tokens of this call have run. A value other than
// 0 stops the call.
typedef int (*forge_progress_fn)(void *ctx, int64_t done, int64_t total);

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

// How many of ids[0, n) the session already holds from its start on.
FORGE_API int64_t forge_session_common_prefix(const struct forge_session *s, const int32_t *ids,
                                              int64_t n);
// Cuts the session to its first `pos` rows. False (and nothing changed) when the model's states do
// not allow it; pos = 0 always works.
FORGE_API bool forge_session_rewind(struct forge_session *s, int64_t pos);

// Writes the session to a file (atomically), or replaces its content by a saved one of the same
// model and numerics; results then go on bit for bit. Errors: FG_EINPUT (not such a file, too long
// for the capacity), FG_EINTEGRITY (other model, checksum), FG_ERESOURCE; a failed load leaves an
// empty session.
FORGE_API int forge_session_save(const struct forge_session *s, const char *path,
                                 struct fg_error *err);
FORGE_API int forge_session_load(struct forge_session *s, const char *path, struct fg_error *err);

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
