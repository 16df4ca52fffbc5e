// cli/model_args.h: the options by which commands name a model and steer sampling (specs: cli 1.7,
// 10.1), and what they turn into.
#ifndef FG_CLI_MODEL_ARGS_H
#define FG_CLI_MODEL_ARGS_H
#include "cli/cli.h"
#include "forge/forge.h"

extern const struct fg_opt fg_opts_model[];          // --model (required), --strict
extern const struct fg_opt fg_opts_memory[];         // --weights, --allow-paging
extern const struct fg_opt fg_opts_kv[];             // --kv-cache-dtype
extern const struct fg_opt fg_opts_numerics_fast[];  // --numerics, default fast
extern const struct fg_opt fg_opts_numerics_exact[]; // the same, default exact
extern const struct fg_opt fg_opts_template[];       // --chat-template
extern const struct fg_opt fg_opts_ctx[];            // --ctx
extern const struct fg_opt fg_opts_sampling[];       // --temperature ... --seed
extern const struct fg_opt fg_opts_think[];          // --think

// Opens what --model names, or a part of it: weights alone, tokenizer and template alone, with
// those of the options above that the command has; sessions that don't say get --ctx and
// --kv-cache-dtype. A build that is not compiled yet is compiled, with lines on stderr. Errors as
// forge_engine_open.
enum fg_cli_part { FG_CLI_ALL, FG_CLI_WEIGHTS, FG_CLI_TEXT };
int fg_cli_engine(struct fg_cli *cli, enum fg_cli_part part, struct forge_engine **out,
                  struct fg_error *err);
// An error about a context or KV format then names the option of the line.
void fg_cli_name_option(struct fg_error *err);
// forge_engine_open with options that the command filled itself; errors name the options of the
// line.
int fg_cli_open(struct forge_engine **out, const struct forge_engine_options *o,
                struct fg_error *err);

// The ids of <think> and </think>, -1 where the tokenizer has no such token.
int fg_cli_think_ids(const struct forge_engine *e, int32_t *open_id, int32_t *close_id,
                     struct fg_error *err);

// What the sampling options say; values that nobody gave follow the mode (specs: server 4): with
// thinking 1.0, 0.95, 20, else 0.7, 0.8, 20. A seed that nobody gave stays as `seed`.
struct forge_sampling fg_cli_sampling(const struct fg_args *args, bool think, uint64_t seed);
// A seed from the system's randomness, below 2^63.
int fg_cli_random_seed(uint64_t *seed, struct fg_error *err);

// Reads text that a person wrote: `path` or "-", at most 1 GiB. Bytes that are not UTF-8 are
// FG_EINPUT with their offset, or become U+FFFD with replace_invalid. *out holds at least a NUL.
struct fg_buf;
int fg_cli_read_text(const char *path, bool replace_invalid, struct fg_buf *out,
                     struct fg_error *err);
// The same check for text at hand: n bytes of `file` (NULL: of `field`).
int fg_cli_check_text(const char *text, size_t n, const char *file, const char *field,
                      struct fg_error *err);

// forge_render_chat of JSON that came from `file`, which its errors then name; NULL: from no file.
int fg_cli_render(const struct forge_engine *e, const struct fg_buf *json, const char *file,
                  const char *kwargs_json, char **text, size_t *n_bytes, struct fg_error *err);
#endif
