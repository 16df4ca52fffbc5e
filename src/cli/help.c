// cli/help.c: help texts and the `help` command, made from the option tables.
#include "cli/cli.h"
#include "base/num.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100     // of help texts: fixed, so that they are the same everywhere
#define NAME_WIDTH 30 // column where the explanations start

// Prints text from column `at` on, broken at spaces, further lines indented to `indent`.
static void print_wrapped(FILE *out, const char *text, size_t at, size_t indent)
{
    while (*text) {
        size_t room = WIDTH > at ? WIDTH - at : 1;
        size_t n = strcspn(text, "\n"), cut = n;
        if (n > room) {
            cut = room;
            while (cut > 0 && text[cut] != ' ')
                cut--;
            if (cut == 0) cut = strcspn(text, " \n"); // one word longer than the line
        }
        fprintf(out, "%.*s\n", (int)cut, text);
        text += cut;
        while (*text == ' ' || *text == '\n')
            text++;
        if (*text) fprintf(out, "%*s", (int)indent, "");
        at = indent;
    }
}

// "-n, --tokens N" into out.
static void option_head(const struct fg_opt *o, char *out, size_t cap)
{
    char letter[8] = "";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    const char *no = o->kind != FG_OPT_FLAG ? "" : o->listed_negative ? "no-" : "";
    snprintf(out, cap, "%s--%s%s%s%s", letter, no, o->name, o->value ? " " : "",
             o->value ? o->value : "");
}

// Help, then what the table knows besides: range, default, variable.
static void option_text(const struct fg_opt *o, char *out, size_t cap)
{
    char lo[32], hi[32];
    size_t at = (size_t)snprintf(out, cap, "%s", o->help);
#define ADD(...) at += at < cap ? (size_t)snprintf(out + at, cap - at, __VA_ARGS__) : 0
    switch (o->kind) {
    case FG_OPT_INT:
    case FG_OPT_CONTEXT:
        if (o->max != INT64_MAX) ADD(" (%" PRId64 " to %" PRId64 ")", o->min, o->max);
        break;
    case FG_OPT_NUMBER:
        ADD(" (%s%s to %s)", o->low_open ? "above " : "", fg_format_f64(lo, sizeof lo, o->low),
            fg_format_f64(hi, sizeof hi, o->high));
        break;
    case FG_OPT_TEXTS: ADD(" (may be repeated)"); break;
    default: break;
    }
    if (o->required) ADD("; required");
    if (o->def && o->kind != FG_OPT_FLAG) ADD("; default %s", o->def);
    if (o->def_note) ADD("; default %s", o->def_note);
    if (o->env) ADD("; variable %s", o->env);
#undef ADD
}

static void print_option(FILE *out, const struct fg_opt *o)
{
    char head[96], text[768];
    option_head(o, head, sizeof head);
    option_text(o, text, sizeof text);
    size_t n = strlen(head) + 2;
    fprintf(out, "  %s", head);
    if (n + 2 > NAME_WIDTH) {
        fprintf(out, "\n");
        n = 0;
    }
    fprintf(out, "%*s", (int)(NAME_WIDTH - n), "");
    print_wrapped(out, text, NAME_WIDTH, NAME_WIDTH);
}

static void print_options(FILE *out, const struct fg_command *c)
{
    const char *group = NULL;
    for (int t = 0; c->opts && c->opts[t]; t++) {
        for (const struct fg_opt *o = c->opts[t]; o->name; o++) {
            if (!group || strcmp(group, o->group) != 0) fprintf(out, "\n%s:\n", o->group);
            group = o->group;
            print_option(out, o);
        }
    }
}

static void print_commands(FILE *out, const struct fg_command *c)
{
    const char *group = NULL;
    for (int i = 0; c->subs[i]; i++) {
        const struct fg_command *s = c->subs[i];
        if (!group || strcmp(group, s->group) != 0) fprintf(out, "\n%s:\n", s->group);
        group = s->group;
        fprintf(out, "  %-12s %s\n", s->name, s->summary);
    }
}

void fg_help_short(FILE *out, const struct fg_command *root)
{
    fprintf(out, "usage: %s [GLOBAL] COMMAND [OPTIONS] [ARGS]\n", root->name);
    print_commands(out, root);
    fprintf(out, "\n%s COMMAND --help explains a command, %s --help the global options.\n",
            root->name, root->name);
}

void fg_help_print(FILE *out, const struct fg_args *args)
{
    const struct fg_command *c = fg_args_command(args);
    char name[64];
    fg_args_name(args, name, sizeof name);
    fprintf(out, "%s: %s\n\nusage: %s", name, c->summary, name);
    if (args->depth == 1) fprintf(out, " [GLOBAL]");
    bool runs = !c->subs || c->run;
    fprintf(out, runs ? " [OPTIONS]" : " COMMAND [OPTIONS] [ARGS]\n");
    if (runs) fprintf(out, "%s%s\n", c->args[0] ? " " : "", c->args);
    if (c->about) {
        fprintf(out, "\n");
        print_wrapped(out, c->about, 0, 0);
    }
    if (c->subs) print_commands(out, c);
    print_options(out, c);
    if (args->depth > 1) print_options(out, args->path[0]);
    for (int i = 0; c->examples && c->examples[i]; i++)
        fprintf(out, "%s  %s\n", i ? "" : "\nExamples:\n", c->examples[i]);
    if (args->depth == 1) {
        fprintf(out, "\nEnvironment:\n"
                     "  FORGE_THREADS             stands in for --threads\n"
                     "  FORGE_ISA                 kernel path, one that forge version lists\n"
                     "  FORGE_STATE               state directory, else ~/.anemll-forge\n"
                     "  ANEMLL_FORGE_STATE        the same, and wins over FORGE_STATE\n"
                     "  NO_COLOR                  not empty: no colour\n"
                     "\nExit codes: 0 done, 1 failed, 2 bad input, 3 wrong hash or identity, "
                     "5 not enough memory or disk,\n6 another run is at work on the same output, "
                     "7 not possible on this machine, 130 stopped by Ctrl-C,\n143 "
                     "terminated.\n");
    }
}

// ---- the help command

static const char *kind_name(enum fg_opt_kind kind)
{
    static const char *const names[] = {"flag",   "count", "integer", "context", "number",
                                        "choice", "text",  "path",    "texts"};
    return names[kind];
}

static void json_option(struct fg_jwrite *w, const struct fg_opt *o)
{
    char letter[2] = {o->letter, '\0'};
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "long", o->name);
    fg_jwrite_str(w, "short", o->letter ? letter : NULL);
    fg_jwrite_str(w, "kind", kind_name(o->kind));
    fg_jwrite_str(w, "value", o->value);
    fg_jwrite_str(w, "default", o->def);
    fg_jwrite_str(w, "default_note", o->def_note);
    fg_jwrite_bool(w, "required", o->required);
    fg_jwrite_bool(w, "value_optional", o->value_optional);
    if (o->kind == FG_OPT_INT || o->kind == FG_OPT_CONTEXT) {
        fg_jwrite_int(w, "minimum", o->min);
        fg_jwrite_int(w, "maximum", o->max);
    } else if (o->kind == FG_OPT_NUMBER) {
        fg_jwrite_num(w, o->low_open ? "exclusive_minimum" : "minimum", o->low);
        fg_jwrite_num(w, "maximum", o->high);
    } else if (o->kind == FG_OPT_CHOICE) {
        fg_jwrite_array(w, "choices");
        for (const char *c = o->choices; *c;) {
            size_t n = strcspn(c, "|");
            fg_jwrite_text(w, NULL, c, n);
            c += n + (c[n] != '\0');
        }
        fg_jwrite_end_array(w);
    }
    fg_jwrite_str(w, "environment", o->env);
    fg_jwrite_str(w, "group", o->group);
    fg_jwrite_str(w, "help", o->help);
    fg_jwrite_str(w, "since", o->since ? o->since : "0.1.0");
    fg_jwrite_end_object(w);
}

static void json_command(struct fg_jwrite *w, const struct fg_command *c)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "name", c->name);
    fg_jwrite_str(w, "group", c->group);
    fg_jwrite_str(w, "summary", c->summary);
    fg_jwrite_str(w, "about", c->about);
    fg_jwrite_str(w, "arguments", c->args);
    fg_jwrite_array(w, "options");
    for (int t = 0; c->opts && c->opts[t]; t++) {
        for (const struct fg_opt *o = c->opts[t]; o->name; o++)
            json_option(w, o);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_array(w, "commands");
    for (int i = 0; c->subs && c->subs[i]; i++)
        json_command(w, c->subs[i]);
    fg_jwrite_end_array(w);
    fg_jwrite_end_object(w);
}

static int run_help(struct fg_cli *cli, struct fg_error *err)
{
    // The words after `help` name a command as they would on a line of their own.
    const char *line[FG_COMMAND_DEPTH_MAX + 2] = {cli->root->name};
    int n = 1;
    for (int i = 0; i < cli->args.n_rest; i++)
        line[n++] = cli->args.rest[i];
    line[n++] = "--help";
    struct fg_args named;
    int rc = fg_args_parse(&named, cli->root, n, line, cli->env, err);
    if (rc == 0 && cli->json) {
        struct fg_jwrite w = {0};
        json_command(&w, fg_args_command(&named));
        rc = fg_out_json(&w, err);
    } else if (rc == 0) {
        fg_help_print(stdout, &named);
        rc = fg_out_flush(err);
    }
    fg_args_free(&named);
    return rc;
}

static const char *const examples[] = {"forge help generate", "forge help --json", NULL};

const struct fg_command fg_cmd_help = {
    .name = "help",
    .group = "Self",
    .summary = "explain a command",
    .about = "With --json: the option tables, of one command or of all.",
    .args = "[COMMAND]",
    .args_max = FG_COMMAND_DEPTH_MAX - 1,
    .examples = examples,
    .run = run_help,
};
