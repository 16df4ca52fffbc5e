// api/engine.c: opening an engine, and the text side of it.
#include "api/engine.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/jval.h"
#include "base/progress.h"
#include "base/json.h"
#include "format/build.h"
#include "format/gguf.h"
#include "model/import.h"
#include "runtime/compile.h"
#include "runtime/compile_text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forward_line(void *ctx, enum fg_log_level level, const char *line)
{
    const struct forge_engine *e = ctx;
    e->log_fn(e->log_ctx, (enum forge_log_level)level, line);
}

// Directory: tokenizer.json and the template's file. A directory without tokenizer is a bare
// checkpoint: remembered, reported when text is asked for.
static int open_text_of_dir(struct forge_engine *e, const char *dir, struct fg_error *err)
{
    char *path = fg_path_join(dir, "tokenizer.json");
    if (!path) return fg_fail_memory(err, "tokenizer", strlen(dir));
    bool has = fg_path_taken(path);
    if (!has) {
        fg_fail(&e->no_tok, FG_EINPUT, "tokenizer", path, NULL, NULL, "no such file");
    } else {
        int rc = fg_tokenizer_open(&e->tok, dir, &e->log, err);
        if (rc) {
            free(path);
            return rc;
        }
    }
    free(path);
    bool official = true;
    e->has_template = fg_chat_template_load(&e->variant, &official, dir, &e->no_template) == 0;
    if (e->has_template && !official)
        fg_log_warn(&e->log, "%s: the chat template differs from the official one; rendering as %s",
                    dir, fg_chat_variant_name(e->variant));
    return 0;
}

static int open_text_of_gguf(struct forge_engine *e, const char *path, struct fg_error *err)
{
    const struct fg_gguf *gguf = fg_import_gguf(e->model->import);
    int rc = fg_tokenizer_open_gguf(&e->tok, gguf, err);
    if (rc) return rc;
    struct fg_buf text = {0};
    bool official = true;
    rc = fg_import_chat_template(e->model->import, &text, err);
    if (rc) return rc;
    if (text.len == 0) {
        fg_fail(&e->no_template, FG_EINPUT, "chat template", path, "tokenizer.chat_template",
                "a template", "no such key");
        return 0;
    }
    e->has_template =
        fg_chat_variant_detect(&e->variant, &official, text.data, text.len, &e->no_template) == 0;
    fg_buf_free(&text);
    if (e->has_template && !official)
        fg_log_warn(&e->log, "%s: the chat template differs from the official one; rendering as %s",
                    path, fg_chat_variant_name(e->variant));
    return 0;
}

static int check_vocabulary(const struct forge_engine *e, const char *path, struct fg_error *err)
{
    int64_t size = fg_tokenizer_size(e->tok), vocab = e->model->config.vocab;
    if (size <= vocab) return 0;
    char expected[64];
    snprintf(expected, sizeof expected, "at most %lld tokens (vocab_size)", (long long)vocab);
    return fg_fail(err, FG_EINPUT, "tokenizer", path, "vocabulary", expected, "%lld",
                   (long long)size);
}

// Builds below this are packed in memory: quicker than looking for what was compiled.
#define COMPILE_BYTES_MIN (64ull << 20)
#define CONFIG_BYTES_MAX (16u << 20)

static bool find_tiles(const void *ctx, const char *name, struct fg_lut *out)
{
    return fg_compiled_lut(ctx, name, out);
}

static void on_compile(void *ctx, const struct fg_compile_event *event)
{
    const struct forge_engine_options *o = ctx;
    char line[FG_COMPILE_LINE];
    if (event->kind == FG_COMPILE_DONE && event->missing == 0) return; // nothing was to be done
    fg_compile_line(line, sizeof line, event);
    if (o->compile_line) o->compile_line(o->log_ctx, line);
}

static bool on_stop(void *ctx)
{
    const struct forge_engine_options *o = ctx;
    return o->stop(o->log_ctx);
}

// ---- contexts, KV format, memory: what is decided before weights are read

// The config of a directory; *there is false when it has none. `arena` holds what it leads to.
static int read_config(struct fg_config *config, const char *dir, bool *there,
                       struct fg_arena *arena, struct fg_error *err)
{
    struct fg_json doc = {0};
    char *path = fg_path_join(dir, "config.json");
    *there = false;
    if (!path) return fg_fail_memory(err, "config", strlen(dir));
    int rc = 0;
    if (fg_file_exists(path)) {
        rc = fg_json_open(&doc, path, CONFIG_BYTES_MAX, err);
        if (rc == 0) rc = fg_config_parse(config, &doc, arena, err);
        *there = rc == 0;
    }
    fg_json_close(&doc);
    free(path);
    return rc;
}

// What e->contexts offers, and what was asked for of it.
static int choose(struct forge_engine *e, const struct forge_engine_options *o,
                  struct fg_error *err)
{
    int rc = fg_contexts_pick(&e->context, &e->contexts, o->ctx, o->model, err);
    return rc ? rc : fg_contexts_kv(&e->kv, &e->contexts, o->kv_cache_dtype, o->model, err);
}

// Is there memory for the model, of which `bytes` will be read per token?
static int check_memory(const struct forge_engine *e, const struct forge_engine_options *o,
                        const struct fg_config *config, uint64_t bytes, bool quantized,
                        struct fg_error *err)
{
    struct fg_budget budget;
    const struct fg_budget_options bo = {.weight_bytes = bytes,
                                         .quantized = quantized,
                                         .fast = e->numerics == FORGE_FAST,
                                         .kv = e->kv,
                                         .entries = e->context.entries,
                                         .n_entries = e->context.n_entries,
                                         .rows = FORGE_ROWS_DEFAULT,
                                         .threads = fg_pool_threads(e->pool)};
    fg_budget_make(&budget, config, &bo);
    return fg_budget_check(&budget, o->model, o->allow_paging, &e->log, err);
}

static int keep_taps(struct forge_engine *e, const struct fg_manifest *m, struct fg_error *err)
{
    if (m->n_taps == 0) return 0;
    const size_t bytes = (size_t)m->n_taps * sizeof *e->taps;
    e->taps = malloc(bytes);
    if (!e->taps) return fg_fail_memory(err, "taps", bytes);
    memcpy(e->taps, m->taps, bytes);
    e->n_taps = m->n_taps;
    return 0;
}

static int check_build(struct forge_engine *e, const struct forge_engine_options *o,
                       const struct fg_build *build, uint64_t bytes, struct fg_error *err)
{
    struct fg_arena arena;
    struct fg_config config;
    const char *dir = fg_build_model_dir(build);
    bool there;
    fg_arena_init(&arena, 0);
    int rc = read_config(&config, dir, &there, &arena, err);
    if (rc == 0 && !there)
        rc = fg_fail(err, FG_EINPUT, "config", dir, "config.json", "a file", "nothing");
    if (rc == 0) {
        fg_contexts_of_build(&e->contexts, fg_build_manifest(build), config.max_positions);
        rc = choose(e, o, err);
    }
    if (rc == 0) rc = check_memory(e, o, &config, bytes, true, err);
    if (rc == 0) rc = keep_taps(e, fg_build_manifest(build), err);
    fg_arena_free(&arena);
    return rc;
}

// The config of a GGUF file's metadata; whatever is wrong with the file is said when it is opened.
static void read_gguf_config(struct fg_config *config, const char *path, bool *there,
                             struct fg_arena *arena)
{
    struct fg_import *gguf;
    struct fg_buf text = {0};
    struct fg_json doc = {0};
    *there = false;
    if (fg_import_open(&gguf, path, NULL)) return;
    *there = fg_import_config(gguf, NULL, &text, NULL) == 0 &&
             fg_json_parse(&doc, text.data, text.len, path, NULL) == 0 &&
             fg_config_parse(config, &doc, arena, NULL) == 0;
    fg_json_close(&doc);
    fg_buf_free(&text);
    fg_import_close(gguf);
}

// What is no build: a checkpoint, an export, a GGUF file. Without a config to read, what was asked
// for is checked once the model is open.
static int check_files(struct forge_engine *e, const struct forge_engine_options *o,
                       struct fg_error *err)
{
    struct fg_arena arena;
    struct fg_config config;
    bool there = false;
    int rc = 0;
    fg_arena_init(&arena, 0);
    if (fg_file_exists(o->model)) {
        read_gguf_config(&config, o->model, &there, &arena);
    } else if (fg_dir_exists(o->model)) {
        rc = read_config(&config, o->model, &there, &arena, err);
        if (rc == 0 && !there && o->model_dir)
            rc = read_config(&config, o->model_dir, &there, &arena, err);
    }
    if (rc == 0 && there) {
        fg_contexts_of_config(&e->contexts, &config, e->numerics == FORGE_FAST);
        rc = choose(e, o, err);
    }
    fg_arena_free(&arena);
    return rc;
}

// Once the model is open: what could not be said before. Weights that were put into memory are in
// what is available no more; a checkpoint's are mapped and still to be read.
static int check_model(struct forge_engine *e, const struct forge_engine_options *o,
                       struct fg_error *err)
{
    const struct fg_model *m = e->model;
    int rc = 0;
    if (e->contexts.n == 0) {
        fg_contexts_of_config(&e->contexts, &m->config, e->numerics == FORGE_FAST);
        rc = choose(e, o, err);
    }
    if (rc || e->contexts.of_build) return rc;
    return check_memory(e, o, &m->config, m->checkpoint ? m->token_bytes : 0, m->quantized, err);
}

// A build of packages: is what was asked for there, is there memory for it, and are there its
// tiles?
static int prepare_build(struct forge_engine *e, const struct forge_engine_options *o,
                         struct fg_error *err)
{
    struct fg_build *build;
    int rc = fg_build_open(&build, o->model, false, err);
    if (rc) return rc;
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < fg_build_n_packages(build); i++)
        bytes += fg_package_info(fg_build_package(build, i))->bytes;
    rc = check_build(e, o, build, bytes, err);
    if (rc == 0 && bytes >= COMPILE_BYTES_MIN && o->state_dir) {
        bool fast = o->numerics == FORGE_FAST, forced = o->isa && o->isa[0];
        struct forge_engine_options asked = *o;
        const struct fg_compile_options compile = {.build = build,
                                                   .state_dir = o->state_dir,
                                                   .isa = forced ? e->kernels->isa : NULL,
                                                   .numerics = fast ? "fast" : "exact",
                                                   .ctx = e->context.entry,
                                                   .threads = fg_pool_threads(e->pool),
                                                   .pool = e->pool,
                                                   .wait = true,
                                                   .memory = o->copy_weights ? FG_TILEFILE_COPY
                                                                             : FG_TILEFILE_AUTO,
                                                   .event = on_compile,
                                                   .stop = o->stop ? on_stop : NULL,
                                                   .ctx_event = &asked};
        rc = fg_compile(&e->compiled, &compile, err);
        // A level whose kernels fail their test is not used.
        if (rc == 0) rc = fg_kernels_get(&e->kernels, fg_compiled_plan(e->compiled)->isa, err);
    }
    fg_build_close(build);
    // Packages that are compiled are hashed on the way; those packed in memory are hashed here.
    if (rc == 0 && !e->compiled) {
        rc = fg_build_open(&build, o->model, true, err);
        if (rc == 0) fg_build_close(build);
    }
    return rc;
}

// Tokenizer and template of a directory: a build has them beside itself, an export may not.
static int open_text_only(struct forge_engine *e, const struct forge_engine_options *o,
                          struct fg_error *err)
{
    int rc;
    if (fg_build_is(o->model)) {
        struct fg_build *build;
        rc = fg_build_open(&build, o->model, false, err);
        if (rc) return rc;
        rc = open_text_of_dir(e, fg_build_model_dir(build), err);
        fg_build_close(build);
    } else {
        rc = open_text_of_dir(e, o->model, err);
    }
    if (rc == 0 && o->chat_template) {
        rc = fg_chat_variant_by_name(&e->variant, o->chat_template, err);
        e->has_template = rc == 0;
    }
    return rc;
}

int forge_engine_open(struct forge_engine **out, const struct forge_engine_options *o,
                      struct fg_error *err)
{
    double start = fg_clock();
    *out = NULL;
    if (!o->model || !o->model[0])
        return fg_fail(err, FG_EINPUT, "model", NULL, NULL, NULL, "no model was named");
    struct forge_engine *e = calloc(1, sizeof *e);
    if (!e) return fg_fail_memory(err, "engine", sizeof *e);
    e->numerics = o->numerics;
    e->log_fn = o->log;
    e->log_ctx = o->log_ctx;
    if (o->log)
        e->log = (struct fg_log){
            .level = (enum fg_log_level)o->log_level, .sink = forward_line, .ctx = e};
    int rc = fg_kernels_get(&e->kernels, o->isa, err);
    if (rc == 0)
        rc = fg_pool_new(&e->pool, o->threads > 0 ? o->threads : fg_threads_default(), err);
    if (rc == 0 && o->text_only && fg_dir_exists(o->model)) {
        rc = open_text_only(e, o, err);
        if (rc) {
            forge_engine_close(e);
            return rc;
        }
        *out = e;
        return 0;
    }
    if (rc == 0 && fg_build_is(o->model))
        rc = prepare_build(e, o, err);
    else if (rc == 0 && !o->text_only)
        rc = check_files(e, o, err);
    const struct fg_tile_source tiles = {.find = find_tiles, .ctx = e->compiled};
    const struct fg_model_options model = {.strict = o->strict,
                                           .model_dir = o->model_dir,
                                           .fill = o->fill,
                                           .tiles = e->compiled ? &tiles : NULL,
                                           .pool = e->pool,
                                           .log = &e->log};
    if (rc == 0) rc = fg_model_open_with(&e->model, o->model, &model, err);
    if (rc == 0 && !o->text_only) rc = check_model(e, o, err);
    if (rc == 0 && o->model_only)
        fg_fail(&e->no_tok, FG_EINPUT, "tokenizer", NULL, NULL, NULL,
                "the engine was opened without one");
    if (rc == 0 && !o->model_only)
        rc = e->model->text_dir ? open_text_of_dir(e, e->model->text_dir, err)
                                : open_text_of_gguf(e, o->model, err);
    if (rc == 0 && e->tok) rc = check_vocabulary(e, o->model, err);
    if (rc == 0 && o->chat_template) {
        rc = fg_chat_variant_by_name(&e->variant, o->chat_template, err);
        e->has_template = rc == 0;
    }
    if (rc) {
        forge_engine_close(e);
        return rc;
    }
    e->load_seconds = fg_clock() - start;
    fg_log_info(
        &e->log, "%s: %s, %lld layers, %s kernels, %d threads, %s numerics, context %lld, KV %s",
        o->model, fg_family_name(e->model->config.family), (long long)e->model->config.n_layers,
        e->kernels->isa, fg_pool_threads(e->pool), e->numerics == FORGE_FAST ? "fast" : "exact",
        (long long)e->context.entry, fg_kv_format_name(e->kv));
    *out = e;
    return 0;
}

void forge_engine_close(struct forge_engine *e)
{
    if (!e) return;
    fg_tokenizer_free(e->tok);
    fg_model_close(e->model);
    fg_compiled_close(e->compiled);
    fg_pool_free(e->pool);
    free(e->taps);
    free(e);
}

void forge_engine_info(const struct forge_engine *e, struct forge_engine_info *out)
{
    if (!e->model) {
        *out = (struct forge_engine_info){
            .family = "",
            .isa = e->kernels->isa,
            .threads = fg_pool_threads(e->pool),
            .numerics = e->numerics,
            .chat_template = e->has_template ? fg_chat_variant_name(e->variant) : NULL,
            .tokenizer = e->tok ? fg_tokenizer_kind(e->tok) : NULL,
        };
        return;
    }
    const struct fg_config *c = &e->model->config;
    *out = (struct forge_engine_info){
        .family = fg_family_name(c->family),
        .isa = e->kernels->isa,
        .threads = fg_pool_threads(e->pool),
        .numerics = e->numerics,
        .chat_template = e->has_template ? fg_chat_variant_name(e->variant) : NULL,
        .tokenizer = e->tok ? fg_tokenizer_kind(e->tok) : NULL,
        .vocab = c->vocab,
        .hidden = c->hidden,
        .n_layers = c->n_layers,
        .n_linear_layers = c->n_linear,
        .n_full_layers = c->n_full,
        .max_positions = c->max_positions,
        .parameters = fg_config_parameters(c),
        .weight_bytes = e->model->weight_bytes,
        .token_bytes = e->model->token_bytes,
        .of_build = e->contexts.of_build,
        .entries = e->contexts.entries,
        .n_entries = e->contexts.n,
        .ctx = e->context.entry,
        .kv_cache_dtype = fg_kv_format_name(e->kv),
        .kv_rotated = e->contexts.rotated[e->kv],
        .kv_bytes_per_position = fg_budget_kv_position(c, e->kv),
        .state_bytes = 2 * (fg_config_state_bytes(c) + fg_config_conv_bytes(c)),
        .taps = e->taps,
        .n_taps = e->n_taps,
        .load_seconds = e->load_seconds,
    };
}

int64_t forge_context_for(const struct forge_engine *e, int64_t rows)
{
    return e->model ? fg_contexts_holding(&e->contexts, rows) : 0;
}

int forge_isa_count(void)
{
    int n;
    fg_kernels_levels(&n);
    return n;
}

const char *forge_isa_name(int i)
{
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    return i >= 0 && i < n ? levels[i]->isa : NULL;
}

int forge_threads_default(void)
{
    return fg_threads_default();
}

int forge_need_tokenizer(const struct forge_engine *e, struct fg_error *err)
{
    if (e->tok) return 0;
    if (err) *err = e->no_tok;
    return e->no_tok.code;
}

int forge_tokenizer_digest(const struct forge_engine *e, char hex[65], struct fg_error *err)
{
    hex[0] = '\0';
    return !e->tok || fg_tokenizer_digest(e->tok, hex) ? 0 : fg_fail_memory(err, "tokenizer", 0);
}

size_t forge_stop_ids(const struct forge_engine *e, const int32_t **ids)
{
    *ids = NULL;
    return e->tok ? fg_tokenizer_stop_ids(e->tok, ids) : 0;
}

int forge_tokenize(const struct forge_engine *e, const char *text, size_t n_bytes, bool special,
                   int32_t **ids, size_t *n, struct fg_error *err)
{
    struct fg_ids out = {0};
    *ids = NULL;
    *n = 0;
    int rc = forge_need_tokenizer(e, err);
    if (rc) return rc;
    rc = fg_tokenizer_encode(e->tok, NULL, text, n_bytes, special ? 0 : FG_TOK_PLAIN, &out, err);
    if (rc) {
        fg_ids_free(&out);
        return rc;
    }
    *ids = out.data;
    *n = out.n;
    return 0;
}

// Hands the buffer's memory over; an empty one becomes an empty string.
static int give(struct fg_buf *b, char **text, size_t *n, struct fg_error *err)
{
    if (!b->data) fg_buf_add(b, "", 0);
    if (b->failed) {
        fg_buf_free(b);
        return fg_fail_memory(err, "text", b->len);
    }
    *text = b->data;
    *n = b->len;
    return 0;
}

int forge_detokenize(const struct forge_engine *e, const int32_t *ids, size_t n, bool skip_special,
                     char **text, size_t *n_bytes, struct fg_error *err)
{
    struct fg_buf b = {0};
    *text = NULL;
    *n_bytes = 0;
    int rc = forge_need_tokenizer(e, err);
    if (rc == 0)
        rc = fg_tokenizer_decode(e->tok, ids, n, skip_special ? FG_TOK_SKIP_SPECIAL : 0, &b, err);
    if (rc) {
        fg_buf_free(&b);
        return rc;
    }
    return give(&b, text, n_bytes, err);
}

// kwargs of the request, then the caller's over them, then add_generation_prompt unless somebody
// set it.
static struct fg_jval merge_kwargs(struct fg_arena *arena, const struct fg_jval *of_request,
                                   const struct fg_jval *of_caller, bool *failed)
{
    size_t n = 1 + (of_request ? of_request->n : 0) + (of_caller ? of_caller->n : 0), used = 0;
    struct fg_jmember *members = fg_arena_alloc(arena, n, sizeof *members);
    *failed = members == NULL;
    if (!members) return fg_jval_object(NULL, 0);
    members[used++] = fg_jmember_of("add_generation_prompt", fg_jval_bool(true));
    const struct fg_jval *sources[] = {of_request, of_caller};
    for (size_t s = 0; s < 2; s++) {
        for (size_t i = 0; sources[s] && i < sources[s]->n; i++) {
            const struct fg_jmember *m = &sources[s]->members[i];
            size_t at = 0;
            while (at < used && (members[at].key_n != m->key_n ||
                                 memcmp(members[at].key, m->key, m->key_n) != 0))
                at++;
            members[at] = *m;
            if (at == used) used++;
        }
    }
    return fg_jval_object(members, used);
}

static int need_object(const struct fg_jval *v, const char *name, struct fg_error *err)
{
    if (!v || v->kind == FG_JOBJECT) return 0;
    return fg_fail(err, FG_EINPUT, "chat", NULL, name, "an object", "another value");
}

int forge_render_chat(const struct forge_engine *e, const char *json, size_t n_json,
                      const char *kwargs_json, char **text, size_t *n_bytes, struct fg_error *err)
{
    struct fg_jdoc doc = {0}, extra = {0};
    struct fg_buf b = {0};
    *text = NULL;
    *n_bytes = 0;
    if (!e->has_template) {
        if (err) *err = e->no_template;
        return e->no_template.code ? e->no_template.code
                                   : fg_fail(err, FG_EINPUT, "chat template", NULL, NULL, NULL,
                                             "the engine was opened without one");
    }
    int rc = fg_jdoc_parse(&doc, json, n_json, "messages", err);
    if (rc == 0 && kwargs_json)
        rc = fg_jdoc_parse(&extra, kwargs_json, strlen(kwargs_json), "template arguments", err);
    struct fg_chat_input in = {0};
    const struct fg_jval *of_request = NULL;
    if (rc == 0 && doc.root.kind == FG_JOBJECT) {
        in.messages = fg_jval_get(&doc.root, "messages");
        in.tools = fg_jval_get(&doc.root, "tools");
        of_request = fg_jval_get(&doc.root, "chat_template_kwargs");
        rc = in.messages ? need_object(of_request, "chat_template_kwargs", err)
                         : fg_fail(err, FG_EINPUT, "chat", NULL, "messages", "an array", "nothing");
    } else if (rc == 0) {
        in.messages = &doc.root;
    }
    if (rc == 0 && kwargs_json) rc = need_object(&extra.root, "template arguments", err);
    if (rc == 0) {
        bool failed;
        struct fg_jval kwargs =
            merge_kwargs(&doc.arena, of_request, kwargs_json ? &extra.root : NULL, &failed);
        in.kwargs = &kwargs;
        rc = failed ? fg_fail_memory(err, "chat", n_json)
                    : fg_chat_render(&b, NULL, e->variant, &in, err);
    }
    fg_jdoc_free(&extra);
    fg_jdoc_free(&doc);
    if (rc) {
        fg_buf_free(&b);
        return rc;
    }
    return give(&b, text, n_bytes, err);
}

int forge_encode_chat(const struct forge_engine *e, const char *json, size_t n_json,
                      const char *kwargs_json, int32_t **ids, size_t *n, struct fg_error *err)
{
    char *text;
    size_t n_bytes;
    *ids = NULL;
    *n = 0;
    int rc = forge_render_chat(e, json, n_json, kwargs_json, &text, &n_bytes, err);
    if (rc) return rc;
    rc = forge_tokenize(e, text, n_bytes, true, ids, n, err);
    free(text);
    return rc;
}
