// api/engine.h: the insides of the public objects, for api/*.c. This folder implements forge.h and
// sits above every module but cli/.
#ifndef FG_API_ENGINE_H
#define FG_API_ENGINE_H
#include "base/log.h"
#include "base/thread.h"
#include "forge/forge.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "runtime/session.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

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
    forge_log_fn log_fn;
    void *log_ctx;
    struct fg_log log;
    double load_seconds;
};

struct forge_session {
    struct forge_engine *engine;
    struct fg_session *run;
};

// The engine's tokenizer, or FG_EINPUT saying why there is none.
int forge_need_tokenizer(const struct forge_engine *e, struct fg_error *err);
#endif
