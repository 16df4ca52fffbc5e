// cli/eval_report.c: what the subcommands of `forge eval` share: ids, lists, identity, reports.
#include "cli/eval.h"
#include "base/file.h"
#include "eval/logits.h"
#include <string.h>

const struct fg_opt fg_opts_eval_report[] = {
    {.name = "report",
     .kind = FG_OPT_PATH,
     .value = "FILE",
     .group = "Result",
     .help = "write the report as JSON to this file too"},
    {0},
};

int fg_cli_eval_ids(const char *given, int32_t **ids, size_t *n, struct fg_error *err)
{
    size_t len = strlen(given);
    if (strspn(given, "0123456789, ") == len && !fg_file_exists(given))
        return fg_eval_parse_ids(given, len, NULL, ids, n, err);
    return fg_eval_read_ids(given, ids, n, err);
}

int fg_cli_eval_list(const char *text, const char *field, int64_t min, int64_t max, int64_t *out,
                     int *n, struct fg_error *err)
{
    struct fg_opt one = {.name = field, .kind = FG_OPT_CONTEXT, .min = min, .max = max};
    *n = 0;
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        char word[32];
        snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1), at);
        if (*n == FG_EVAL_LIST_MAX)
            return fg_fail(err, FG_EINPUT, "option", NULL, field, "at most 32 numbers", "more");
        struct fg_opt_slot slot = {.opt = &one};
        int rc = fg_opt_parse(&slot, word, NULL, "option", field, err);
        if (rc) return rc;
        out[(*n)++] = slot.i;
        at += len;
        if (!*at) return 0;
    }
}

static bool stop(void *ctx)
{
    (void)ctx;
    return fg_signals_pending() != 0;
}

int fg_cli_eval_identify(const struct fg_cli *cli, struct fg_eval_identity *id,
                         struct fg_error *err)
{
    return fg_eval_identify(id, fg_args_text(&cli->args, "model"), stop, NULL, err);
}

int fg_cli_eval_report_check(const struct fg_cli *cli, struct fg_error *err)
{
    const char *path = fg_args_text(&cli->args, "report");
    struct fg_atomic f = {0};
    int rc = path ? fg_atomic_open(&f, path, err) : 0;
    fg_atomic_abort(&f);
    return rc;
}

int fg_cli_eval_report(const struct fg_cli *cli, struct fg_jwrite *w, struct fg_error *err)
{
    const char *path = fg_args_text(&cli->args, "report");
    int rc = 0;
    fg_jwrite_end_object(w);
    if (path && w->buf.failed) rc = fg_fail_memory(err, "report", w->buf.len);
    if (path && rc == 0) {
        struct fg_atomic f = {0};
        rc = fg_atomic_open(&f, path, err);
        if (rc == 0) rc = fg_atomic_write(&f, w->buf.data, w->buf.len, err);
        if (rc == 0) rc = fg_atomic_write(&f, "\n", 1, err);
        if (rc == 0) rc = fg_atomic_commit(&f, err);
        fg_atomic_abort(&f);
    }
    if (cli->json && rc == 0) return fg_out_json(w, err);
    fg_jwrite_free(w);
    return rc;
}
