// The option tables and the parser over them (specs: cli 1.1, 1.2, 2; acceptance A01).
#include "cli/args.h"
#include "cli/cli.h"
#include "base/num.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- a small program of its own

static const struct fg_opt top_opts[] = {
    {.name = "help", .letter = 'h', .kind = FG_OPT_FLAG, .group = "G", .help = "x"},
    {.name = "version", .letter = 'V', .kind = FG_OPT_FLAG, .group = "G", .help = "x"},
    {.name = "verbose", .letter = 'v', .kind = FG_OPT_COUNT, .group = "G", .help = "x"},
    {.name = "threads",
     .kind = FG_OPT_INT,
     .min = 1,
     .max = 8,
     .env = "T_THREADS",
     .group = "G",
     .help = "x"},
    {0},
};
static const struct fg_opt run_opts[] = {
    {.name = "count", .letter = 'n', .kind = FG_OPT_INT, .def = "5", .min = 1, .max = 10},
    {.name = "ctx", .kind = FG_OPT_CONTEXT, .min = 1, .max = (int64_t)1 << 31},
    {.name = "ratio", .kind = FG_OPT_NUMBER, .def = "0.5", .low = 0, .low_open = true, .high = 1},
    {.name = "mode", .kind = FG_OPT_CHOICE, .def = "fast", .choices = "fast|exact|off"},
    {.name = "text", .letter = 't', .kind = FG_OPT_TEXT},
    {.name = "stop", .kind = FG_OPT_TEXTS},
    {.name = "file", .kind = FG_OPT_PATH},
    {.name = "bar", .kind = FG_OPT_FLAG, .def = "on"},
    {.name = "how", .kind = FG_OPT_CHOICE, .def = "all", .choices = "all|none"},
    {.name = "list", .kind = FG_OPT_TEXT, .value_optional = true},
    {0},
};
static const struct fg_opt *const top_tables[] = {top_opts, NULL};
static const struct fg_opt *const run_tables[] = {run_opts, NULL};
static const struct fg_opt must_opts[] = {
    {.name = "model", .kind = FG_OPT_TEXT, .required = true, .help = "a model"}, {0}};
static const struct fg_opt *const must_tables[] = {must_opts, NULL};
static const struct fg_command cmd_run = {
    .name = "run", .args = "PATH [MORE]", .args_min = 1, .args_max = 2, .opts = run_tables};
static const struct fg_command cmd_must = {.name = "must", .args = "", .opts = must_tables};
static const struct fg_command *const deep_subs[] = {&cmd_run, NULL};
static const struct fg_command cmd_deep = {.name = "deep", .args = "", .subs = deep_subs};
// Runs itself, and has a command of its own.
static int never(struct fg_cli *cli, struct fg_error *err)
{
    (void)cli;
    (void)err;
    abort();
}
static const struct fg_command cmd_both = {
    .name = "both", .args = "", .opts = must_tables, .subs = deep_subs, .run = never};
static const struct fg_command *const top_subs[] = {&cmd_run, &cmd_must, &cmd_deep, &cmd_both,
                                                    NULL};
static const struct fg_command top = {
    .name = "prog", .args = "", .opts = top_tables, .subs = top_subs};

static const char *no_env(const char *name)
{
    return strcmp(name, "HOME") == 0 ? "/home/me" : NULL;
}

static const char *bad_env(const char *name)
{
    return strcmp(name, "T_THREADS") == 0 ? "9" : NULL;
}

static const char *good_env(const char *name)
{
    return strcmp(name, "T_THREADS") == 0 ? "8" : NULL;
}

// Parses up to 14 words after the program's name.
static int parse(struct fg_args *a, fg_env_fn env, struct fg_error *err, ...)
{
    static const char *argv[16];
    int argc = 1;
    argv[0] = "prog";
    va_list ap;
    va_start(ap, err);
    for (const char *s; (s = va_arg(ap, const char *)) && argc < 15;)
        argv[argc++] = s;
    va_end(ap);
    memset(err, 0, sizeof *err);
    return fg_args_parse(a, &top, argc, argv, env, err);
}

#define REFUSED(expected, ...)                                                                     \
    do {                                                                                           \
        struct fg_args a_;                                                                         \
        struct fg_error e_;                                                                        \
        char line_[1200];                                                                          \
        assert_int_equal(parse(&a_, no_env, &e_, __VA_ARGS__, NULL), FG_EINPUT);                   \
        fg_error_line(&e_, line_, sizeof line_);                                                   \
        if (strcmp(line_, expected) != 0) print_error("%s\n", line_);                              \
        assert_string_equal(line_, expected);                                                      \
        fg_args_free(&a_);                                                                         \
    } while (0)

static void test_values(void **state)
{
    (void)state;
    struct fg_args a;
    struct fg_error err;
    assert_int_equal(parse(&a, no_env, &err, "-vv", "run", "--count", "7", "x", "--ctx=16K",
                           "--mode", "exact", "--no-bar", "--file", "~/f", "--no-how", "y", NULL),
                     0);
    assert_ptr_equal(fg_args_command(&a), &cmd_run);
    assert_int_equal(fg_args_int(&a, "verbose"), 2);
    assert_int_equal(fg_args_int(&a, "count"), 7);
    assert_int_equal(fg_args_int(&a, "ctx"), 16384);
    assert_string_equal(fg_args_text(&a, "mode"), "exact");
    assert_string_equal(fg_args_text(&a, "file"), "/home/me/f");
    assert_false(fg_args_flag(&a, "bar"));
    assert_string_equal(fg_args_text(&a, "how"), "none");
    assert_true(fg_args_given(&a, "count"));
    assert_false(fg_args_given(&a, "ratio"));
    assert_true(fg_args_number(&a, "ratio") == 0.5);
    assert_null(fg_args_text(&a, "text"));
    assert_int_equal(a.n_rest, 2);
    assert_string_equal(a.rest[0], "x");
    assert_string_equal(a.rest[1], "y");
    fg_args_free(&a);
}

static void test_last_wins_lists_grow(void **state)
{
    (void)state;
    struct fg_args a;
    struct fg_error err;
    assert_int_equal(parse(&a, no_env, &err, "run", "-n1", "-n", "2", "--bar", "--no-bar", "--bar",
                           "--stop", "a,b", "--stop=", "x", NULL),
                     0);
    assert_int_equal(fg_args_int(&a, "count"), 2);
    assert_true(fg_args_flag(&a, "bar"));
    const struct fg_opt_slot *stop = fg_args_slot(&a, "stop");
    assert_int_equal(stop->n_list, 2);
    assert_string_equal(stop->list[0], "a,b");
    assert_string_equal(stop->list[1], "");
    fg_args_free(&a);
}

static void test_end_of_options(void **state)
{
    (void)state;
    struct fg_args a;
    struct fg_error err;
    assert_int_equal(parse(&a, no_env, &err, "run", "-", "--", "--count", NULL), 0);
    assert_int_equal(a.n_rest, 2);
    assert_string_equal(a.rest[0], "-");
    assert_string_equal(a.rest[1], "--count");
    fg_args_free(&a);
}

static void test_optional_value(void **state)
{
    (void)state;
    struct fg_args a;
    struct fg_error err;
    assert_int_equal(parse(&a, no_env, &err, "run", "--list", "x", NULL), 0);
    assert_string_equal(fg_args_text(&a, "list"), "");
    assert_int_equal(a.n_rest, 1);
    fg_args_free(&a);
    assert_int_equal(parse(&a, no_env, &err, "run", "x", "--list", "p", NULL), 0);
    assert_string_equal(fg_args_text(&a, "list"), "p");
    fg_args_free(&a);
    assert_int_equal(parse(&a, no_env, &err, "run", "--list=q", "x", NULL), 0);
    assert_string_equal(fg_args_text(&a, "list"), "q");
    fg_args_free(&a);
}

static void test_subcommands_and_help(void **state)
{
    (void)state;
    struct fg_args a;
    struct fg_error err;
    char name[64];
    assert_int_equal(parse(&a, no_env, &err, "deep", "run", "x", NULL), 0);
    assert_string_equal(fg_args_name(&a, name, sizeof name), "prog deep run");
    fg_args_free(&a);
    // What follows -h is not looked at, what is missing is not missed.
    assert_int_equal(parse(&a, no_env, &err, "deep", "run", "-h", "--nonsense", NULL), 0);
    assert_true(a.help);
    assert_ptr_equal(fg_args_command(&a), &cmd_run);
    fg_args_free(&a);
    assert_int_equal(parse(&a, no_env, &err, NULL), 0);
    assert_ptr_equal(fg_args_command(&a), &top);
    fg_args_free(&a);
}

static void test_environment(void **state)
{
    (void)state;
    struct fg_args a;
    struct fg_error err;
    assert_int_equal(parse(&a, good_env, &err, "run", "x", NULL), 0);
    assert_int_equal(fg_args_int(&a, "threads"), 8);
    assert_true(fg_args_given(&a, "threads"));
    fg_args_free(&a);
    assert_int_equal(parse(&a, bad_env, &err, "run", "x", NULL), FG_EINPUT);
    assert_string_equal(err.field, "T_THREADS");
    fg_args_free(&a);
    // The line wins, and a variable that it overrides is not looked at.
    assert_int_equal(parse(&a, bad_env, &err, "run", "x", "--threads", "2", NULL), 0);
    assert_int_equal(fg_args_int(&a, "threads"), 2);
    fg_args_free(&a);
}

static void test_refused(void **state)
{
    (void)state;
    REFUSED("option: field --count: expected a whole number from 1 to 10, found 0", "run", "x",
            "--count", "0");
    REFUSED("option: field --count: expected a whole number from 1 to 10, found 11", "run", "x",
            "--count=11");
    REFUSED("option: field --count: expected a whole number from 1 to 10, found 3x", "run", "x",
            "--count=3x");
    REFUSED("option: field --count: expected a whole number from 1 to 10, found an empty text",
            "run", "x", "--count=");
    REFUSED("option: field -n: expected a whole number from 1 to 10, found nothing", "run", "x",
            "-n");
    REFUSED("option: field --count: expected a whole number from 1 to 10, found nothing", "run",
            "x", "--count", "--bar");
    REFUSED("option: field --ratio: expected a number above 0.0 to 1.0, found 0", "run", "x",
            "--ratio", "0");
    REFUSED("option: field --ratio: expected a number above 0.0 to 1.0, found nan", "run", "x",
            "--ratio", "nan");
    REFUSED("option: field --ratio: expected a number above 0.0 to 1.0, found 1,0", "run", "x",
            "--ratio", "1,0");
    REFUSED("option: field --mode: expected fast, exact or off, found fas", "run", "x", "--mode",
            "fas");
    REFUSED("option: field --mode: expected fast, exact or off, found fast|exact", "run", "x",
            "--mode", "fast|exact");
    REFUSED("option: field --bar: expected no value, found a value", "run", "x", "--bar=1");
    REFUSED("option: field --coun: expected an option of this command, found no such option", "run",
            "x", "--coun", "3");
    REFUSED("option: field -x: expected an option of this command, found no such option", "run",
            "-x");
    REFUSED("option: field --no-count: expected an option of this command, found no such option",
            "run", "x", "--no-count");
    REFUSED("option: field --no-mode: expected an option of this command, found no such option",
            "run", "x", "--no-mode");
    REFUSED("option: field --no-how: expected no value, found a value", "run", "x", "--no-how=1");
    REFUSED("command: expected a command, found rum", "rum");
    REFUSED("command: expected a command, found \\x1B[2J", "\033[2J");
    REFUSED("arguments: expected PATH [MORE], found nothing", "run");
    REFUSED("arguments: expected PATH [MORE], found also c", "run", "a", "b", "c");
    REFUSED("arguments: expected no arguments, found a", "must", "a");
    REFUSED("option: field --model: expected a model, found nothing", "must");
}

static void test_contexts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value; // 0: refused
    } cases[] = {{"1", 1},
                 {"8k", 8192},
                 {"2097152K", (int64_t)1 << 31},
                 {"2147483648", (int64_t)1 << 31},
                 {"2147483649", 0},
                 {"2097153K", 0},
                 {"9007199254740993K", 0},
                 {"0", 0},
                 {"-1", 0},
                 {"K", 0},
                 {"", 0},
                 {"8KiB", 0},
                 {"1.5K", 0},
                 {" 8", 0},
                 {"999999999999999999999999999999", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fg_opt_slot slot = {.opt = &run_opts[1]};
        struct fg_error err;
        int rc = fg_opt_parse(&slot, cases[i].text, NULL, "option", "--ctx", &err);
        if ((rc == 0) != (cases[i].value != 0)) print_error("%s: rc %d\n", cases[i].text, rc);
        assert_int_equal(rc, cases[i].value ? 0 : FG_EINPUT);
        assert_int_equal(slot.i, cases[i].value);
    }
}

static void test_command_with_both(void **state)
{
    (void)state;
    struct fg_args a;
    struct fg_error err;
    assert_int_equal(parse(&a, no_env, &err, "both", "--model", "m", NULL), 0);
    assert_ptr_equal(fg_args_command(&a), &cmd_both);
    assert_string_equal(fg_args_text(&a, "model"), "m");
    fg_args_free(&a);
    // The command inside has its own options, and none of the outer one's is required.
    assert_int_equal(parse(&a, no_env, &err, "-v", "both", "run", "x", "--count", "3", NULL), 0);
    assert_ptr_equal(fg_args_command(&a), &cmd_run);
    assert_int_equal(fg_args_int(&a, "count"), 3);
    assert_int_equal(fg_args_int(&a, "verbose"), 1);
    fg_args_free(&a);
    REFUSED("option: field --model: expected a model, found nothing", "both");
    REFUSED("option: field --model: expected no option of both before run, found one", "both",
            "--model", "m", "run", "x");
    REFUSED("command: expected a command, found other", "both", "--model", "m", "other");
    REFUSED("option: field --model: expected an option of this command, found no such option",
            "both", "run", "x", "--model", "m");
}

static void test_suggestions(void **state)
{
    (void)state;
    struct fg_args a;
    struct fg_error err;
    assert_int_equal(parse(&a, no_env, &err, "run", "x", "--coutn", "3", NULL), FG_EINPUT);
    assert_string_equal(err.hint, "did you mean --count?");
    fg_args_free(&a);
    assert_int_equal(parse(&a, no_env, &err, "run", "x", "--nobar", NULL), FG_EINPUT);
    assert_string_equal(err.hint, "did you mean --no-bar?");
    fg_args_free(&a);
    assert_int_equal(parse(&a, no_env, &err, "dep", NULL), FG_EINPUT);
    assert_string_equal(err.hint, "did you mean prog deep?");
    fg_args_free(&a);
    assert_int_equal(parse(&a, no_env, &err, "elephant", NULL), FG_EINPUT);
    assert_string_equal(err.hint, "prog --help lists the commands");
    fg_args_free(&a);
    assert_int_equal(fg_edit_distance("abc", "abc"), 0);
    assert_int_equal(fg_edit_distance("abc", "acb"), 1);
    assert_int_equal(fg_edit_distance("", "ab"), 2);
    assert_int_equal(fg_edit_distance("kitten", "sitting"), 3);
}

// ---- the tables of the real program

typedef void (*visit_fn)(const struct fg_command *c, const struct fg_opt *o, const char *help);

static void visit(const struct fg_command *const *path, int depth, visit_fn fn)
{
    const struct fg_command *c = path[depth - 1];
    struct fg_args a = {.depth = depth};
    memcpy(a.path, path, (size_t)depth * sizeof *path);
    char *help = NULL;
    size_t n;
    FILE *f = open_memstream(&help, &n);
    fg_help_print(f, &a);
    fclose(f);
    for (int t = 0; c->opts && c->opts[t]; t++) {
        for (const struct fg_opt *o = c->opts[t]; o->name; o++)
            fn(c, o, help);
    }
    free(help);
    for (int i = 0; depth < FG_COMMAND_DEPTH_MAX && c->subs && c->subs[i]; i++) {
        const struct fg_command *next[FG_COMMAND_DEPTH_MAX];
        memcpy(next, path, (size_t)depth * sizeof *path);
        next[depth] = c->subs[i];
        visit(next, depth + 1, fn);
    }
}

static void visit_all(visit_fn fn)
{
    const struct fg_command *root[] = {&fg_root};
    visit(root, 1, fn);
}

static void check_documented(const struct fg_command *c, const struct fg_opt *o, const char *help)
{
    char line[128];
    if (!o->group || !o->help || !o->help[0]) print_error("%s --%s: no help\n", c->name, o->name);
    assert_non_null(o->group);
    assert_non_null(o->help);
    snprintf(line, sizeof line, "--%s%s", o->listed_negative ? "no-" : "", o->name);
    if (!strstr(help, line)) print_error("%s: %s is not in its help\n", c->name, line);
    assert_non_null(strstr(help, line));
    bool takes_value = o->kind != FG_OPT_FLAG && o->kind != FG_OPT_COUNT;
    assert_int_equal(takes_value, o->value != NULL);
    if (o->kind == FG_OPT_CHOICE) {
        for (const char *at = o->choices; *at;) {
            size_t n = strcspn(at, "|");
            snprintf(line, sizeof line, "%.*s", (int)n, at);
            if (!strstr(o->help, line)) print_error("--%s: %s not explained\n", o->name, line);
            assert_non_null(strstr(o->help, line));
            at += n + (at[n] != '\0');
        }
    }
    for (const struct fg_opt *g = fg_root.opts[0]; g->name && c != &fg_root; g++) {
        assert_string_not_equal(g->name, o->name);
        assert_true(!o->letter || g->letter != o->letter);
    }
}

static void test_every_option_documented(void **state)
{
    (void)state;
    visit_all(check_documented);
}

static int try_value(const struct fg_opt *o, const char *text, struct fg_opt_slot *slot)
{
    *slot = (struct fg_opt_slot){.opt = o};
    return fg_opt_parse(slot, text, NULL, "option", o->name, NULL);
}

// The default in the table is what is in force, by construction: it is parsed as a value. What is
// left to check is that it parses and that help shows it.
static void check_default_and_range(const struct fg_command *c, const struct fg_opt *o,
                                    const char *help)
{
    struct fg_opt_slot slot;
    char text[64];
    if (o->def) {
        assert_int_equal(try_value(o, o->def, &slot), 0);
        snprintf(text, sizeof text, "default %s", o->def);
        if (o->kind != FG_OPT_FLAG && !strstr(help, text)) {
            // The line may have been broken between the two words.
            snprintf(text, sizeof text, "%s", o->def);
            if (!strstr(help, text)) print_error("%s --%s: no default\n", c->name, o->name);
            assert_non_null(strstr(help, text));
        }
    }
    if (o->kind == FG_OPT_INT || o->kind == FG_OPT_CONTEXT) {
        int64_t edges[2] = {o->min, o->max};
        for (int i = 0; i < 2; i++) {
            snprintf(text, sizeof text, "%" PRId64, edges[i]);
            assert_int_equal(try_value(o, text, &slot), 0);
            assert_int_equal(slot.i, edges[i]);
            int64_t beyond;
            if (__builtin_add_overflow(edges[i], i ? 1 : -1, &beyond)) {
                snprintf(text, sizeof text, "%s",
                         i ? "9223372036854775808" : "-9223372036854775809");
            } else {
                snprintf(text, sizeof text, "%" PRId64, beyond);
            }
            if (try_value(o, text, &slot) == 0) print_error("--%s takes %s\n", o->name, text);
            assert_int_equal(try_value(o, text, &slot), FG_EINPUT);
        }
    } else if (o->kind == FG_OPT_NUMBER) {
        assert_int_equal(try_value(o, fg_format_f64(text, sizeof text, o->high), &slot), 0);
        assert_int_equal(try_value(o, fg_format_f64(text, sizeof text, o->low), &slot),
                         o->low_open ? FG_EINPUT : 0);
        assert_int_equal(
            try_value(o, fg_format_f64(text, sizeof text, nextafter(o->high, INFINITY)), &slot),
            FG_EINPUT);
        assert_int_equal(
            try_value(o, fg_format_f64(text, sizeof text, nextafter(o->low, -INFINITY)), &slot),
            FG_EINPUT);
        assert_int_equal(try_value(o, "nan", &slot), FG_EINPUT);
        assert_int_equal(try_value(o, "1e999", &slot), FG_EINPUT);
    } else if (o->kind == FG_OPT_CHOICE) {
        assert_int_equal(try_value(o, "no-such-choice", &slot), FG_EINPUT);
    }
}

static void test_defaults_and_ranges(void **state)
{
    (void)state;
    visit_all(check_default_and_range);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_last_wins_lists_grow),
        cmocka_unit_test(test_end_of_options),
        cmocka_unit_test(test_optional_value),
        cmocka_unit_test(test_subcommands_and_help),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_command_with_both),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_every_option_documented),
        cmocka_unit_test(test_defaults_and_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
