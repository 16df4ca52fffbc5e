// api/engine.h: the insides of the public objects, for api/*.c. This folder implements forge.h and
// sits above every module but cli/.
#ifndef FG_API_ENGINE_H
#define FG_API_ENGINE_H
#include "base/log.h"
#include "base/thread.h"
#include "forge/forge.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "runtime/budget.h"
#include "runtime/contexts.h"
#include "runtime/session.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

#define FORGE_ROWS_DEFAULT 512 // of a forward call

struct forge_engine {
    struct fg_compiled *compiled; // tiles of the model; NULL: in memory
    struct fg_model *model;
    struct fg_tokenizer *tok; // NULL: model only, or none in the directory
    struct fg_error no_tok;   // why tok is NULL
    bool has_template;
    enum fg_chat_variant variant;
    struct fg_error no_template; // why has_template is false
    struct fg_pool *pool;
    const struct fg_kernels *kernels;
    enum forge_numerics numerics;
    struct fg_contexts contexts; // n is 0 until they are known
    struct fg_context context;   // of sessions that don't say
    enum fg_kv_format kv;        // the same
    int64_t *taps;               // [n_taps] of the manifest
    int64_t n_taps;
    forge_log_fn log_fn;
    void *log_ctx;
    struct fg_log log;
    double load_seconds;
};

struct forge_session {
    struct forge_engine *engine;
    struct fg_session *run;
    forge_log_fn log_fn; // its own; NULL: the engine's
    void *log_ctx;
};

// The engine's tokenizer, or FG_EINPUT saying why there is none.
int forge_need_tokenizer(const struct forge_engine *e, struct fg_error *err);
#endif
