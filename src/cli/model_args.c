// cli/model_args.c: model, session and sampling options.
#include "cli/model_args.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/utf8.h"
#include "format/json_scan.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define TEXT_BYTES_MAX ((uint64_t)1 << 30)
#define CTX_MAX ((int64_t)1 << 31)

const struct fg_opt fg_opts_model[] = {
    {.name = "model",
     .letter = 'm',
     .kind = FG_OPT_PATH,
     .value = "PATH",
     .required = true,
     .group = "Model",
     .help = "a checkpoint directory, a GGUF file, a quantized export, or a bundle of packages"},
    {.name = "strict",
     .kind = FG_OPT_FLAG,
     .group = "Model",
     .help = "tensors that the architecture does not have are an error"},
    {0},
};

const struct fg_opt fg_opts_memory[] = {
    {.name = "weights",
     .kind = FG_OPT_CHOICE,
     .value = "HOW",
     .def = "map",
     .choices = "map|copy",
     .group = "Model",
     .help = "compiled weights: map (the file, shared between processes) or copy (into memory with "
             "huge pages; for network and removable disks this is always done)"},
    {.name = "allow-paging",
     .kind = FG_OPT_FLAG,
     .group = "Model",
     .help = "run a model that does not fit into memory, from disk and many times slower"},
    {0},
};

const struct fg_opt fg_opts_kv[] = {
    {.name = "kv-cache-dtype",
     .kind = FG_OPT_CHOICE,
     .value = "TYPE",
     .def = "auto",
     .choices = "auto|fp16|v8|kv8|f32",
     .group = "Model",
     .help = "keys and values of the conversation: auto (the build's default; of other models kv8, "
             "or f32 with exact numerics), fp16, v8 (values in INT8), kv8 (both in INT8) or f32"},
    {0},
};

#define NUMERICS_HELP                                                                              \
    "fast (INT8 activations for quantized weights, BF16 ones for BF16 weights) or exact (FP32 "    \
    "throughout)"

const struct fg_opt fg_opts_numerics_fast[] = {
    {.name = "numerics",
     .kind = FG_OPT_CHOICE,
     .value = "MODE",
     .def = "fast",
     .choices = "fast|exact",
     .group = "Model",
     .help = NUMERICS_HELP},
    {0},
};

const struct fg_opt fg_opts_numerics_exact[] = {
    {.name = "numerics",
     .kind = FG_OPT_CHOICE,
     .value = "MODE",
     .def = "exact",
     .choices = "fast|exact",
     .group = "Model",
     .help = NUMERICS_HELP},
    {0},
};

const struct fg_opt fg_opts_template[] = {
    {.name = "chat-template",
     .kind = FG_OPT_CHOICE,
     .value = "NAME",
     .def_note = "what the model's own template is recognized as",
     .choices = "qwen3.8|qwen3.6|qwen3.5|qwen3.5-nothink|smollm2",
     .group = "Model",
     .help = "how messages become a prompt: qwen3.8, qwen3.6, qwen3.5, qwen3.5-nothink or "
             "smollm2"},
    {0},
};

const struct fg_opt fg_opts_ctx[] = {
    {.name = "ctx",
     .kind = FG_OPT_CONTEXT,
     .value = "N",
     .def_note = "16384, or the largest below it that the model has",
     .min = 1,
     .max = CTX_MAX,
     .group = "Model",
     .help = "positions that prompt and reply may take, as 8192 or 8K: of a bundle one of its "
             "entries. Memory grows with the conversation"},
    {0},
};

const struct fg_opt fg_opts_think[] = {
    {.name = "think",
     .kind = FG_OPT_FLAG,
     .group = "Reply",
     .help = "let the model reason before it answers, where its template can"},
    {0},
};

const struct fg_opt fg_opts_sampling[] = {
    {.name = "temperature",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def_note = "0.7, with --think 1.0",
     .low = 0,
     .high = 2,
     .group = "Sampling",
     .help = "how freely tokens are drawn; 0 takes the likeliest"},
    {.name = "top-p",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def_note = "0.8, with --think 0.95",
     .low = 0,
     .high = 1,
     .group = "Sampling",
     .help = "keep the likeliest tokens up to this sum; 0 keeps one"},
    {.name = "top-k",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "20",
     .min = -1,
     .max = INT32_MAX,
     .group = "Sampling",
     .help = "keep this many of the likeliest tokens; 0 means 20, -1 all"},
    {.name = "min-p",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "0",
     .low = 0,
     .high = 1,
     .group = "Sampling",
     .help = "drop tokens below this share of the likeliest"},
    {.name = "repetition",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "1",
     .low = 0,
     .low_open = true,
     .high = 10,
     .group = "Sampling",
     .help = "penalty, a factor, on tokens of prompt and reply"},
    {.name = "presence",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "0",
     .low = -2,
     .high = 2,
     .group = "Sampling",
     .help = "penalty on tokens that the reply has"},
    {.name = "frequency",
     .kind = FG_OPT_NUMBER,
     .value = "X",
     .def = "0",
     .low = -2,
     .high = 2,
     .group = "Sampling",
     .help = "penalty per time that the reply has a token"},
    {.name = "seed",
     .kind = FG_OPT_INT,
     .value = "N",
     .def_note = "random",
     .min = INT64_MIN,
     .max = INT64_MAX,
     .group = "Sampling",
     .help = "the same seed, prompt and options give the same text"},
    {0},
};

static void forward_line(void *ctx, enum forge_log_level level, const char *line)
{
    const struct fg_cli *cli = ctx;
    cli->log.sink(cli->log.ctx, (enum fg_log_level)level, line);
}

// Commands choose among the tables above; what a command does not have is not set.
static const char *text_or_null(const struct fg_args *args, const char *name)
{
    for (int i = 0; i < args->n_slots; i++) {
        if (strcmp(args->slots[i].opt->name, name) == 0) return args->slots[i].text;
    }
    return NULL;
}

static bool given_flag(const struct fg_args *args, const char *name)
{
    for (int i = 0; i < args->n_slots; i++) {
        if (strcmp(args->slots[i].opt->name, name) == 0) return args->slots[i].flag;
    }
    return false;
}

static int64_t int_or_zero(const struct fg_args *args, const char *name)
{
    for (int i = 0; i < args->n_slots; i++) {
        if (strcmp(args->slots[i].opt->name, name) == 0) return args->slots[i].i;
    }
    return 0;
}

void fg_cli_name_option(struct fg_error *err)
{
    if (!err) return;
    if (strcmp(err->field, "ctx") == 0) snprintf(err->field, sizeof err->field, "--ctx");
    if (strcmp(err->field, "kv_cache_dtype") == 0)
        snprintf(err->field, sizeof err->field, "--kv-cache-dtype");
}

static void compile_line(void *ctx, const char *line)
{
    const struct fg_cli *cli = ctx;
    if (cli->log.level > FG_LOG_ERROR) fprintf(stderr, "[compile] %s\n", line);
}

// Only after signals are caught does one stop a compilation in order; before that it ends the
// program, which loses nothing either.
static bool stop_compile(void *ctx)
{
    (void)ctx;
    return fg_signals_pending() != 0;
}

int fg_cli_open(struct forge_engine **out, const struct forge_engine_options *o,
                struct fg_error *err)
{
    int rc = forge_engine_open(out, o, err);
    if (rc == FG_EINPUT) fg_cli_name_option(err);
    return rc;
}

int fg_cli_engine(struct fg_cli *cli, enum fg_cli_part part, struct forge_engine **out,
                  struct fg_error *err)
{
    char *state = NULL;
    int rc = fg_cli_state_dir(cli, false, &state, err);
    if (rc) return rc;
    const char *numerics = text_or_null(&cli->args, "numerics");
    const char *weights = text_or_null(&cli->args, "weights");
    struct forge_engine_options o = {
        .model = fg_args_text(&cli->args, "model"),
        .threads = cli->threads,
        .isa = cli->isa,
        .numerics = numerics && strcmp(numerics, "exact") == 0 ? FORGE_EXACT : FORGE_FAST,
        .chat_template = text_or_null(&cli->args, "chat-template"),
        .strict = fg_args_flag(&cli->args, "strict"),
        .ctx = int_or_zero(&cli->args, "ctx"),
        .kv_cache_dtype = text_or_null(&cli->args, "kv-cache-dtype"),
        .allow_paging = given_flag(&cli->args, "allow-paging"),
        .copy_weights = weights && strcmp(weights, "copy") == 0,
        .state_dir = state,
        .compile_line = compile_line,
        .stop = stop_compile,
        .model_only = part == FG_CLI_WEIGHTS,
        .text_only = part == FG_CLI_TEXT,
        .log_level = (enum forge_log_level)cli->log.level,
        .log = forward_line,
        .log_ctx = cli,
    };
    rc = fg_cli_open(out, &o, err);
    free(state);
    return rc;
}

static int find_token(const struct forge_engine *e, const char *text, int32_t *id,
                      struct fg_error *err)
{
    int32_t *ids;
    size_t n;
    *id = -1;
    int rc = forge_tokenize(e, text, strlen(text), true, &ids, &n, err);
    if (rc) return rc;
    if (n == 1) *id = ids[0];
    free(ids);
    return 0;
}

int fg_cli_think_ids(const struct forge_engine *e, int32_t *open_id, int32_t *close_id,
                     struct fg_error *err)
{
    int rc = find_token(e, "<think>", open_id, err);
    return rc ? rc : find_token(e, "</think>", close_id, err);
}

struct forge_sampling fg_cli_sampling(const struct fg_args *args, bool think, uint64_t seed)
{
    struct forge_sampling s = {
        .temperature = think ? 1.0 : 0.7,
        .top_p = think ? 0.95 : 0.8,
        .min_p = fg_args_number(args, "min-p"),
        .repetition = fg_args_number(args, "repetition"),
        .presence = fg_args_number(args, "presence"),
        .frequency = fg_args_number(args, "frequency"),
        .seed = seed,
    };
    if (fg_args_given(args, "temperature")) s.temperature = fg_args_number(args, "temperature");
    if (fg_args_given(args, "top-p")) s.top_p = fg_args_number(args, "top-p");
    // The engine's 0 means off; here it keeps the one token that any sum above 0 keeps.
    if (s.top_p == 0) s.top_p = 1e-300;
    int64_t k = fg_args_int(args, "top-k");
    s.top_k = k < 0 ? 0 : k == 0 ? 20 : (int32_t)k;
    if (fg_args_given(args, "seed")) s.seed = (uint64_t)fg_args_int(args, "seed");
    return s;
}

int fg_cli_random_seed(uint64_t *seed, struct fg_error *err)
{
    uint64_t v;
    if (getrandom(&v, sizeof v, 0) != sizeof v)
        return fg_fail(err, FG_EFAILED, "seed", NULL, NULL, "random bytes", "%s", strerror(errno));
    *seed = v >> 1;
    return 0;
}

int fg_cli_check_text(const char *text, size_t n, const char *file, const char *field,
                      struct fg_error *err)
{
    size_t valid = fg_utf8_valid_bytes(text, n);
    if (valid == n) return 0;
    char where[64];
    snprintf(where, sizeof where, "%s%sbyte %zu", field ? field : "", field ? ", " : "", valid);
    return fg_fail(err, FG_EINPUT, "prompt", file, where, "UTF-8", "0x%02x",
                   (unsigned char)text[valid]);
}

static void replace_bad(struct fg_buf *text)
{
    struct fg_buf good = {0};
    for (size_t i = 0; i < text->len;) {
        bool valid;
        size_t len =
            fg_utf8_step((const unsigned char *)text->data + i, text->len - i, &valid, NULL);
        if (valid) {
            fg_buf_add(&good, text->data + i, len);
        } else {
            fg_buf_str(&good, "\xEF\xBF\xBD");
        }
        i += len;
    }
    fg_buf_free(text);
    *text = good;
}

int fg_cli_read_text(const char *path, bool replace_invalid, struct fg_buf *out,
                     struct fg_error *err)
{
    int rc = fg_file_read(out, path, TEXT_BYTES_MAX, err);
    if (rc) return rc;
    fg_buf_add(out, "", 0);
    if (replace_invalid) {
        replace_bad(out);
    } else {
        rc = fg_cli_check_text(out->data, out->len, strcmp(path, "-") ? path : "standard input",
                               NULL, err);
        if (rc) fg_error_hint(err, "--replace-invalid reads on with U+FFFD in its place");
    }
    if (rc == 0 && out->failed) rc = fg_fail_memory(err, "text", out->len);
    if (rc) fg_buf_free(out);
    return rc;
}

int fg_cli_render(const struct forge_engine *e, const struct fg_buf *json, const char *file,
                  const char *kwargs_json, char **text, size_t *n_bytes, struct fg_error *err)
{
    struct forge_engine_info info;
    forge_engine_info(e, &info);
    int rc = forge_render_chat(e, json->data, json->len, kwargs_json, text, n_bytes, err);
    // Without a template the error is the model's, and has its file.
    if (rc == FG_EINPUT && info.chat_template && file && err)
        fg_escape(err->file, sizeof err->file, file, strlen(file));
    return rc;
}
