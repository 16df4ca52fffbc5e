// cli/eval_ppl.c: `forge eval ppl`: perplexity, and the distance between two settings of a model.
#include "cli/eval.h"
#include "base/buf.h"
#include "base/kv_format.h"
#include "base/progress.h"
#include "cli/model_args.h"
#include "eval/ppl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CTX_MAX ((int64_t)1 << 31)
#define ATTENTIONS "stored|seed|c2t"
#define SIDE_WORDS "fp16, v8, kv8, f32, fast, exact, stored, seed, c2t, rotated or plain"

struct ppl {
    struct fg_cli *cli;
    struct forge_engine *engine, *second; // second: of other numerics
    struct fg_eval_side side, against;
    struct fg_eval_identity identity;
    struct fg_eval_ppl job;
    struct fg_eval_ppl_result result;
    struct fg_progress *bar;
    int32_t *ids;
    size_t n_ids;
    char ids_hex[FG_SHA256_HEX];
    int64_t windows; // that there are
};

static int on_progress(void *ctx, int64_t done, int64_t total)
{
    struct ppl *p = ctx;
    (void)total;
    fg_progress_set(p->bar, (uint64_t)done, NULL);
    return fg_signals_pending() != 0;
}

static void set_attention(struct fg_eval_side *side, const char *name)
{
    for (int a = FORGE_ATTENTION_STORED; a <= FORGE_ATTENTION_C2T; a++) {
        if (strcmp(fg_eval_attention_name((enum forge_attention)a), name) == 0)
            side->session.attention = (enum forge_attention)a;
    }
    // The original stores nothing rotated, and its arithmetic is for that.
    if (side->session.attention != FORGE_ATTENTION_STORED) side->session.plain_kv = true;
}

// One word of --against. *numerics receives the name of numerics.
static bool take_word(struct fg_eval_side *side, const char *word, const char **numerics)
{
    enum fg_kv_format format;
    if (fg_kv_format_of_name(word, &format)) {
        side->session.kv_cache_dtype = fg_kv_format_name(format);
    } else if (strcmp(word, "fast") == 0 || strcmp(word, "exact") == 0) {
        *numerics = strcmp(word, "fast") == 0 ? "fast" : "exact";
    } else if (strcmp(word, "stored") == 0 || strcmp(word, "seed") == 0 ||
               strcmp(word, "c2t") == 0) {
        set_attention(side, word);
    } else if (strcmp(word, "rotated") == 0 || strcmp(word, "plain") == 0) {
        side->session.plain_kv = strcmp(word, "plain") == 0;
    } else {
        return false;
    }
    return true;
}

// The reference: this side, but for what --against says. *numerics is NULL where it is the same.
static int take_against(struct ppl *p, const char **numerics, struct fg_error *err)
{
    const char *given = fg_args_text(&p->cli->args, "against");
    bool known = true;
    *numerics = NULL;
    p->against = p->side;
    for (const char *at = given; at && known; at = *at ? at + 1 : NULL) {
        size_t n = strcspn(at, ",");
        char word[16];
        snprintf(word, sizeof word, "%.*s", (int)(n < sizeof word ? n : sizeof word - 1), at);
        known = take_word(&p->against, word, numerics);
        at += n;
    }
    p->against.session.plain_kv |= p->against.session.attention != FORGE_ATTENTION_STORED;
    if (*numerics && strcmp(*numerics, fg_args_text(&p->cli->args, "numerics")) == 0)
        *numerics = NULL;
    if (known) return 0;
    char shown[128];
    fg_escape(shown, sizeof shown, given, strlen(given));
    return fg_fail(err, FG_EINPUT, "option", NULL, "--against", "words among " SIDE_WORDS, "%s",
                   shown);
}

static int check_options(const struct ppl *p, struct fg_error *err)
{
    const struct fg_args *args = &p->cli->args;
    bool text = fg_args_given(args, "text"), tokens = fg_args_given(args, "tokens");
    if (text == tokens)
        return fg_fail(err, FG_EINPUT, "option", NULL, "--text", "one of --text and --tokens", "%s",
                       text ? "both" : "none");
    return 0;
}

static int read_tokens(struct ppl *p, struct fg_error *err)
{
    const struct fg_args *args = &p->cli->args;
    const char *tokens = fg_args_text(args, "tokens");
    if (tokens) return fg_cli_eval_ids(tokens, &p->ids, &p->n_ids, err);
    struct fg_buf text = {0};
    int rc = fg_cli_read_text(fg_args_text(args, "text"), fg_args_flag(args, "replace-invalid"),
                              &text, err);
    if (rc == 0)
        rc = forge_tokenize(p->engine, text.data, text.len, false, &p->ids, &p->n_ids, err);
    fg_buf_free(&text);
    return rc;
}

static int make_job(struct ppl *p, struct fg_error *err)
{
    const struct fg_args *args = &p->cli->args;
    struct forge_engine_info info;
    forge_engine_info(p->engine, &info);
    int64_t limit = fg_args_int(args, "limit"), n = (int64_t)p->n_ids;
    if (limit && limit < n) n = limit;
    struct fg_eval_ppl *job = &p->job;
    *job = (struct fg_eval_ppl){.ids = p->ids,
                                .n = n,
                                .window = info.ctx,
                                .rows = fg_args_int(args, "rows"),
                                .side = p->side,
                                .progress = on_progress,
                                .ctx = p};
    if (fg_args_given(args, "window")) job->window = fg_args_int(args, "window");
    job->stride = fg_args_given(args, "stride") ? fg_args_int(args, "stride") : job->window;
    char expected[64];
    if (job->stride > job->window) {
        snprintf(expected, sizeof expected, "at most %" PRId64 ", the window", job->window);
        return fg_fail(err, FG_EINPUT, "option", NULL, "--stride", expected, "%" PRId64,
                       job->stride);
    }
    if (fg_args_given(args, "ctx") && job->window > info.ctx) {
        snprintf(expected, sizeof expected, "at most %" PRId64 " (--ctx)", info.ctx);
        return fg_fail(err, FG_EINPUT, "option", NULL, "--window", expected, "%" PRId64,
                       job->window);
    }
    if (fg_args_given(args, "ctx")) job->side.session.capacity = info.ctx;
    p->against.session.capacity = job->side.session.capacity;
    if (fg_args_given(args, "against")) job->against = &p->against;
    bool hashed = fg_sha256_hex(job->ids, (uint64_t)n * sizeof *job->ids, p->ids_hex);
    return hashed ? 0 : fg_fail_memory(err, "token ids", (uint64_t)n * sizeof *job->ids);
}

static int open_engines(struct ppl *p, const char *numerics, struct fg_error *err)
{
    bool text = fg_args_given(&p->cli->args, "text");
    int rc = fg_cli_engine(p->cli, text ? FG_CLI_ALL : FG_CLI_WEIGHTS, &p->engine, err);
    p->side.engine = p->against.engine = p->engine;
    if (rc || !numerics) return rc;
    // The other engine's sessions are told the format: its own default may be another one.
    struct forge_engine_info info;
    forge_engine_info(p->engine, &info);
    if (!p->against.session.kv_cache_dtype) p->against.session.kv_cache_dtype = info.kv_cache_dtype;
    rc = fg_args_set(&p->cli->args, "numerics", numerics, "option", err);
    if (rc == 0) rc = fg_cli_engine(p->cli, FG_CLI_WEIGHTS, &p->second, err);
    p->against.engine = p->second;
    return rc;
}

// ---- report

static void json_figures(struct fg_jwrite *w, const char *key, const struct fg_eval_ppl_figures *f,
                         bool against)
{
    fg_jwrite_object(w, key);
    fg_jwrite_int(w, "tokens", f->tokens);
    fg_jwrite_num(w, "nll", f->nll);
    fg_jwrite_num(w, "ppl", f->ppl);
    if (against) {
        fg_jwrite_num(w, "ref_nll", f->ref_nll);
        fg_jwrite_num(w, "ref_ppl", f->ref_ppl);
        fg_jwrite_num(w, "mean_kl", f->kl_mean);
        fg_jwrite_num(w, "median_kl", f->kl_median);
        fg_jwrite_num(w, "p99_kl", f->kl_p99);
        fg_jwrite_num(w, "max_kl", f->kl_max);
        fg_jwrite_num(w, "top1", f->top1);
    }
    fg_jwrite_end_object(w);
}

static double rate(int64_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : 0;
}

static int json_report(const struct ppl *p, struct fg_error *err)
{
    const struct fg_args *args = &p->cli->args;
    const struct fg_eval_ppl *job = &p->job;
    const struct fg_eval_ppl_result *r = &p->result;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "status", r->stopped ? "stopped" : "ok");
    fg_eval_report_head(&w, "ppl");
    fg_eval_report_model(&w, fg_args_text(args, "model"), &p->identity, p->engine);
    fg_jwrite_str(&w, "text", fg_args_text(args, "text"));
    fg_jwrite_str(&w, "tokens_sha256", p->ids_hex);
    fg_jwrite_int(&w, "tokens", job->n);
    fg_jwrite_int(&w, "tokens_left_out", r->tokens_left_out);
    fg_jwrite_int(&w, "window", job->window);
    fg_jwrite_int(&w, "stride", job->stride);
    fg_jwrite_int(&w, "rows", job->rows);
    fg_jwrite_int(&w, "windows", r->windows);
    fg_jwrite_int(&w, "windows_planned", p->windows);
    fg_eval_report_side(&w, "settings", &job->side);
    if (job->against) fg_eval_report_side(&w, "against", job->against);
    json_figures(&w, "all", &r->all, job->against);
    json_figures(&w, "last_quarter", &r->last, job->against);
    fg_jwrite_num(&w, "seconds", r->seconds);
    fg_jwrite_num(&w, "tokens_per_second", rate(r->tokens_run, r->seconds));
    if (job->against) {
        fg_jwrite_num(&w, "ref_seconds", r->ref_seconds);
        fg_jwrite_num(&w, "ref_tokens_per_second", rate(r->tokens_run, r->ref_seconds));
    }
    return fg_cli_eval_report(p->cli, &w, err);
}

static void print_figures(const char *what, const struct fg_eval_ppl_figures *f, bool against)
{
    printf("%-14s %9" PRId64 " %9.5f %9.4f", what, f->tokens, f->nll, f->ppl);
    if (against)
        printf(" %9.4f %10.3e %10.3e %10.3e %10.3e %7.2f%%", f->ref_ppl, f->kl_mean, f->kl_median,
               f->kl_p99, f->kl_max, 100 * f->top1);
    printf("\n");
}

static int print_report(const struct ppl *p, struct fg_error *err)
{
    const struct fg_eval_ppl *job = &p->job;
    const struct fg_eval_ppl_result *r = &p->result;
    char side[96], against[96], time[32];
    printf("%s\n", fg_eval_side_text(side, sizeof side, &job->side));
    if (job->against)
        printf("against %s\n", fg_eval_side_text(against, sizeof against, job->against));
    printf("%" PRId64 " of %" PRId64 " windows of %" PRId64 " tokens, every %" PRId64 "%s",
           r->windows, p->windows, job->window, job->stride,
           job->stride < job->window ? "; what overlaps is scored once" : "");
    if (r->tokens_left_out) printf("; %" PRId64 " tokens left out", r->tokens_left_out);
    printf("\n\n%-14s %9s %9s %9s", "", "tokens", "mean NLL", "ppl");
    if (job->against)
        printf(" %9s %10s %10s %10s %10s %8s", "ref ppl", "mean KL", "median", "p99", "max",
               "top-1");
    printf("\n");
    print_figures("all", &r->all, job->against);
    print_figures("last quarters", &r->last, job->against);
    printf("\n%s, %.1f tokens/s", fg_format_seconds(time, sizeof time, r->seconds),
           rate(r->tokens_run, r->seconds));
    if (job->against)
        printf("; against %s, %.1f tokens/s", fg_format_seconds(time, sizeof time, r->ref_seconds),
               rate(r->tokens_run, r->ref_seconds));
    printf("\n");
    return fg_out_flush(err);
}

static int evaluate(struct ppl *p, struct fg_error *err)
{
    int64_t rows;
    p->windows = fg_eval_ppl_windows(&p->job, &rows);
    p->bar = fg_progress_new(stderr, p->cli->progress, "ppl", (uint64_t)rows, FG_PROGRESS_COUNT);
    int rc = fg_eval_ppl(&p->job, &p->result, err);
    fg_progress_end(p->bar, rc == 0 && !p->result.stopped);
    p->bar = NULL;
    if (rc == 0 && !p->cli->json) rc = print_report(p, err);
    if (rc == 0) rc = json_report(p, err);
    int sig = fg_signals_pending();
    return rc == 0 && p->result.stopped && sig ? fg_signals_exit_code(sig) : rc;
}

static int run_ppl(struct fg_cli *cli, struct fg_error *err)
{
    struct ppl p = {.cli = cli};
    const char *numerics;
    p.side.session.plain_kv = fg_args_flag(&cli->args, "plain-kv");
    set_attention(&p.side, fg_args_text(&cli->args, "attention"));
    int rc = check_options(&p, err);
    if (rc == 0) rc = take_against(&p, &numerics, err);
    if (rc == 0) rc = fg_cli_eval_report_check(cli, err);
    if (rc) return rc;
    fg_signals_catch();
    rc = open_engines(&p, numerics, err);
    if (rc == 0) rc = read_tokens(&p, err);
    if (rc == 0) rc = make_job(&p, err);
    if (rc == 0) rc = fg_cli_eval_identify(cli, &p.identity, err);
    if (rc == 0) rc = evaluate(&p, err);
    int sig = fg_signals_pending();
    forge_engine_close(p.engine);
    forge_engine_close(p.second);
    free(p.ids);
    return rc == FG_EINTERRUPTED && sig ? fg_signals_exit_code(sig) : rc;
}

static const struct fg_opt options[] = {
    {.name = "text",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Text",
     .help = "a text, tokenized as a whole; - is standard input"},
    {.name = "tokens",
     .kind = FG_OPT_TEXT,
     .value = "LIST|FILE",
     .group = "Text",
     .help = "token ids as 1,2,3, or a file of them: npy of int32 or int64, or text"},
    {.name = "replace-invalid",
     .kind = FG_OPT_FLAG,
     .group = "Text",
     .help = "read bytes that are not UTF-8 as U+FFFD"},
    {.name = "limit",
     .kind = FG_OPT_CONTEXT,
     .value = "N",
     .def_note = "all",
     .min = 2,
     .max = CTX_MAX,
     .group = "Text",
     .help = "the first N tokens alone"},
    {.name = "window",
     .kind = FG_OPT_CONTEXT,
     .value = "N",
     .def_note = "the context",
     .min = 2,
     .max = CTX_MAX,
     .group = "Text",
     .help = "tokens per window, each from an empty session, as 2048 or 2K"},
    {.name = "stride",
     .kind = FG_OPT_CONTEXT,
     .value = "N",
     .def_note = "the window",
     .min = 1,
     .max = CTX_MAX,
     .group = "Text",
     .help = "tokens from one window to the next; where windows overlap, a token is scored once"},
    {.name = "rows",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "64",
     .min = 1,
     .max = 8192,
     .group = "Measurement",
     .help = "rows per forward call; memory holds the logits of as many. Results depend on it for "
             "attention seed and c2t alone"},
    {.name = "against",
     .kind = FG_OPT_TEXT,
     .value = "WORDS",
     .group = "Measurement",
     .help = "a reference: the same windows once more, with what differs: " SIDE_WORDS
             ", several with commas, as fp16,exact"},
    {.name = "attention",
     .kind = FG_OPT_CHOICE,
     .value = "MODE",
     .def = "stored",
     .choices = ATTENTIONS,
     .group = "Measurement",
     .help = "stored (as in serving), or the original's arithmetic: seed (a call's own rows in "
             "FP16) or c2t (and scores in INT8 steps, probabilities in FP8); these don't rotate"},
    {.name = "plain-kv",
     .kind = FG_OPT_FLAG,
     .group = "Measurement",
     .help = "keys and values that would be stored rotated are not"},
    {0},
};
static const struct fg_opt *const tables[] = {
    options,     fg_opts_eval_report, fg_opts_model, fg_opts_memory, fg_opts_numerics_exact,
    fg_opts_ctx, fg_opts_kv,          NULL};
static const char *const examples[] = {
    "forge eval ppl -m model/ --text book.txt --window 2K",
    "forge eval ppl -m model/ --text book.txt --window 2K --kv-cache-dtype kv8 --against fp16",
    "forge eval ppl -m model/ --text book.txt --numerics fast --against exact --json", NULL};

const struct fg_command fg_cmd_eval_ppl = {
    .name = "ppl",
    .group = "Measure",
    .summary = "perplexity of a text, and the distance between two settings of a model",
    .about = "With --against, KL is of the reference from this model: sum of p (ln p - ln q) over "
             "the whole vocabulary, p the reference's, per token, in nats. Figures are also given "
             "for the last quarter of each window, where most history is. The rest of a text that "
             "fills no window is left out. Ctrl-C ends it and reports what is done.",
    .args = "",
    .opts = tables,
    .examples = examples,
    .run = run_ppl,
};
