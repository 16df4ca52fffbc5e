// cli/tokenize.c: `forge tokenize`: text to token ids and back (specs: cli 10.3). Needs only the
// tokenizer of a model, except for --messages, where the engine renders.
#include "cli/cli.h"
#include "base/buf.h"
#include "base/file.h"
#include "cli/model_args.h"
#include "eval/logits.h"
#include "format/build.h"
#include "format/gguf.h"
#include "text/tokenizer.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int open_tokenizer(const struct fg_cli *cli, struct fg_tokenizer **out, struct fg_error *err)
{
    const char *path = fg_args_text(&cli->args, "model");
    *out = NULL;
    if (fg_build_is(path)) { // the tokenizer of packages lies beside them
        struct fg_build *build;
        int rc = fg_build_open(&build, path, false, err);
        if (rc == 0) rc = fg_tokenizer_open(out, fg_build_model_dir(build), &cli->log, err);
        fg_build_close(build);
        return rc;
    }
    if (fg_dir_exists(path)) return fg_tokenizer_open(out, path, &cli->log, err);
    struct fg_gguf *gguf;
    int rc = fg_gguf_open(&gguf, path, err);
    if (rc) return rc;
    rc = fg_tokenizer_open_gguf(out, gguf, err);
    fg_gguf_close(gguf);
    return rc;
}

static int print_pieces(const struct fg_tokenizer *tok, const struct fg_ids *ids,
                        struct fg_error *err)
{
    for (size_t i = 0; i < ids->n; i++) {
        const char *bytes = "";
        size_t n = 0;
        char text[512];
        fg_tokenizer_token(tok, ids->data[i], &bytes, &n);
        printf("%" PRId32 "\t%s\n", ids->data[i], fg_escape(text, sizeof text, bytes, n));
    }
    return fg_out_flush(err);
}

static int print_ids(const struct fg_ids *ids, struct fg_error *err)
{
    for (size_t i = 0; i < ids->n; i++)
        printf("%s%" PRId32, i ? "," : "", ids->data[i]);
    putchar('\n');
    return fg_out_flush(err);
}

static int print_json(const struct fg_tokenizer *tok, const struct fg_ids *ids, const char *text,
                      size_t n, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    if (text) fg_jwrite_text(&w, "text", text, n);
    fg_jwrite_uint(&w, "count", ids->n);
    fg_jwrite_array(&w, "ids");
    for (size_t i = 0; i < ids->n; i++)
        fg_jwrite_int(&w, NULL, ids->data[i]);
    fg_jwrite_end_array(&w);
    fg_jwrite_array(&w, "pieces");
    for (size_t i = 0; i < ids->n; i++) {
        const char *bytes = "";
        size_t n_bytes = 0;
        fg_tokenizer_token(tok, ids->data[i], &bytes, &n_bytes);
        fg_jwrite_text(&w, NULL, bytes, n_bytes);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

static int print_text(const char *text, size_t n, struct fg_error *err)
{
    fwrite(text, 1, n, stdout);
    if (n == 0 || text[n - 1] != '\n') putchar('\n');
    return fg_out_flush(err);
}

// text: what --render prints; NULL where there is nothing rendered.
static int print_result(const struct fg_cli *cli, const struct fg_tokenizer *tok,
                        const struct fg_ids *ids, const char *text, size_t n, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    if (cli->json) return print_json(tok, ids, text, n, err);
    if (fg_args_flag(args, "render")) return print_text(text, n, err);
    if (fg_args_flag(args, "pieces")) return print_pieces(tok, ids, err);
    if (!fg_args_flag(args, "count")) return print_ids(ids, err);
    printf("%zu\n", ids->n);
    return fg_out_flush(err);
}

static int decode(struct fg_cli *cli, const struct fg_tokenizer *tok, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const char *list = fg_args_text(args, "decode");
    bool hide = fg_args_given(args, "special") && !fg_args_flag(args, "special");
    struct fg_ids ids = {0};
    struct fg_buf text = {0};
    int rc = fg_eval_parse_ids(list, strlen(list), NULL, &ids.data, &ids.n, err);
    if (rc == 0)
        rc = fg_tokenizer_decode(tok, ids.data, ids.n, hide ? FG_TOK_SKIP_SPECIAL : 0, &text, err);
    fg_buf_add(&text, "", 0);
    if (rc == 0 && text.failed) rc = fg_fail_memory(err, "text", text.len);
    if (rc == 0)
        rc = cli->json ? print_json(tok, &ids, text.data, text.len, err)
                       : print_text(text.data, text.len, err);
    fg_buf_free(&text);
    fg_ids_free(&ids);
    return rc;
}

static int encode_messages(struct fg_cli *cli, const struct fg_tokenizer *tok, struct fg_error *err)
{
    struct forge_engine *e = NULL;
    struct fg_buf json = {0};
    struct fg_ids ids = {0};
    char *text = NULL;
    size_t n = 0;
    const char *file = fg_args_text(&cli->args, "messages");
    int rc = fg_cli_read_text(file, fg_args_flag(&cli->args, "replace-invalid"), &json, err);
    if (rc == 0) rc = fg_cli_engine(cli, FG_CLI_TEXT, &e, err);
    if (rc == 0) rc = fg_cli_render(e, &json, file, NULL, &text, &n, err);
    if (rc == 0) rc = forge_tokenize(e, text, n, true, &ids.data, &ids.n, err);
    if (rc == 0) rc = print_result(cli, tok, &ids, text, n, err);
    fg_ids_free(&ids);
    free(text);
    forge_engine_close(e);
    fg_buf_free(&json);
    return rc;
}

static int encode_text(struct fg_cli *cli, const struct fg_tokenizer *tok, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    bool replace = fg_args_flag(args, "replace-invalid");
    struct fg_buf text = {0};
    struct fg_ids ids = {0};
    int rc = 0;
    if (args->n_rest) {
        fg_buf_str(&text, args->rest[0]);
        if (text.failed) rc = fg_fail_memory(err, "text", text.len);
        if (rc == 0 && !replace) rc = fg_cli_check_text(text.data, text.len, NULL, "TEXT", err);
    } else {
        const char *file = fg_args_text(args, "file");
        rc = fg_cli_read_text(file ? file : "-", replace, &text, err);
    }
    if (rc == 0)
        rc = fg_tokenizer_encode(tok, NULL, text.data, text.len,
                                 fg_args_flag(args, "special") ? 0 : FG_TOK_PLAIN, &ids, err);
    if (rc == 0) rc = print_result(cli, tok, &ids, NULL, 0, err);
    fg_ids_free(&ids);
    fg_buf_free(&text);
    return rc;
}

static int check_options(const struct fg_args *args, struct fg_error *err)
{
    static const char *const pairs[][2] = {
        {"ids", "pieces"},  {"ids", "count"},       {"pieces", "count"},
        {"decode", "file"}, {"decode", "messages"}, {"messages", "file"},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof pairs / sizeof pairs[0]; i++)
        rc = fg_args_exclusive(args, pairs[i][0], pairs[i][1], err);
    bool other = fg_args_given(args, "file") || fg_args_given(args, "decode") ||
                 fg_args_given(args, "messages");
    if (rc == 0 && args->n_rest && other)
        rc = fg_fail(err, FG_EINPUT, "arguments", NULL, NULL,
                     "TEXT, --file, --decode or --messages", "several of them");
    if (rc == 0 && fg_args_flag(args, "render") && !fg_args_given(args, "messages"))
        rc = fg_fail(err, FG_EINPUT, "option", NULL, "--render", "--messages with it",
                     "no --messages");
    return rc;
}

static int run_tokenize(struct fg_cli *cli, struct fg_error *err)
{
    struct fg_tokenizer *tok = NULL;
    int rc = check_options(&cli->args, err);
    if (rc == 0) rc = open_tokenizer(cli, &tok, err);
    if (rc == 0) {
        rc = fg_args_given(&cli->args, "decode")     ? decode(cli, tok, err)
             : fg_args_given(&cli->args, "messages") ? encode_messages(cli, tok, err)
                                                     : encode_text(cli, tok, err);
    }
    fg_tokenizer_free(tok);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "file",
     .letter = 'f',
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Text",
     .help = "read the text from a file; - is standard input"},
    {.name = "decode",
     .kind = FG_OPT_TEXT,
     .value = "IDS",
     .group = "Text",
     .help = "the other way round: ids as 1,2,3 to text"},
    {.name = "messages",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Text",
     .help = "a conversation as JSON, through the model's chat template"},
    {.name = "special",
     .kind = FG_OPT_FLAG,
     .group = "Text",
     .help = "find special tokens in the text; with --decode they are shown unless --no-special"},
    {.name = "replace-invalid",
     .kind = FG_OPT_FLAG,
     .group = "Text",
     .help = "read bytes that are not UTF-8 as U+FFFD"},
    {.name = "ids",
     .kind = FG_OPT_FLAG,
     .group = "Output",
     .help = "the ids, separated by commas; what is printed without a choice"},
    {.name = "pieces", .kind = FG_OPT_FLAG, .group = "Output", .help = "a line per token"},
    {.name = "count", .kind = FG_OPT_FLAG, .group = "Output", .help = "the number of tokens"},
    {.name = "render",
     .kind = FG_OPT_FLAG,
     .group = "Output",
     .help = "with --messages: the prompt as text"},
    {0},
};
static const struct fg_opt *const tables[] = {options, fg_opts_model, fg_opts_template, NULL};
static const char *const examples[] = {"forge tokenize -m model/ 'Hello, world' --pieces",
                                       "forge tokenize -m model/ --decode 9707,11,1879",
                                       "forge tokenize -m model/ --messages chat.json --render",
                                       NULL};

const struct fg_command fg_cmd_tokenize = {
    .name = "tokenize",
    .group = "Use",
    .summary = "turn text into token ids, and back",
    .about = "Without TEXT and --file it reads standard input.",
    .args = "[TEXT]",
    .args_max = 1,
    .opts = tables,
    .examples = examples,
    .run = run_tokenize,
};
