// cli/args.c: the command-line parser.
#include "cli/args.h"
#include "base/file.h"
#include "base/num.h"
#include "base/size.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 2 // edits up to which a name is suggested

int fg_edit_distance(const char *a, const char *b)
{
    enum { MAX = 40 };
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX) return 99;
    int row[3][MAX + 1]; // two rows back, one back, this one: d[i][j] over prefixes a[0,i), b[0,j)
    for (size_t j = 0; j <= m; j++)
        row[1][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        row[2][0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = row[1][j - 1] + (a[i - 1] != b[j - 1]);
            if (row[1][j] + 1 < best) best = row[1][j] + 1;
            if (row[2][j - 1] + 1 < best) best = row[2][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                row[0][j - 2] + 1 < best)
                best = row[0][j - 2] + 1;
            row[2][j] = best;
        }
        memcpy(row[0], row[1], sizeof row[0]);
        memcpy(row[1], row[2], sizeof row[1]);
    }
    return row[1][m];
}

static bool in_choices(const char *choices, const char *text)
{
    size_t n = strlen(text);
    for (const char *c = choices;;) {
        size_t len = strcspn(c, "|");
        if (len == n && memcmp(c, text, n) == 0) return true;
        if (!c[len]) return false;
        c += len + 1;
    }
}

char *fg_opt_expected(const struct fg_opt *opt, char *out, unsigned cap)
{
    char lo[32], hi[32];
    switch (opt->kind) {
    case FG_OPT_FLAG: snprintf(out, cap, "on or off"); break;
    case FG_OPT_COUNT: snprintf(out, cap, "no value"); break;
    case FG_OPT_INT:
        snprintf(out, cap, "a whole number from %" PRId64 " to %" PRId64, opt->min, opt->max);
        break;
    case FG_OPT_CONTEXT:
        snprintf(out, cap, "a number of positions from %" PRId64 " to %" PRId64 ", as 16384 or 16K",
                 opt->min, opt->max);
        break;
    case FG_OPT_NUMBER:
        snprintf(out, cap, "a number %s %s to %s", opt->low_open ? "above" : "from",
                 fg_format_f64(lo, sizeof lo, opt->low), fg_format_f64(hi, sizeof hi, opt->high));
        break;
    case FG_OPT_CHOICE: {
        size_t at = 0;
        for (const char *c = opt->choices; *c && at + 8 < cap;) {
            size_t n = strcspn(c, "|");
            bool last = !c[n];
            int w = snprintf(out + at, cap - at, "%s%.*s",
                             c == opt->choices ? ""
                             : last            ? " or "
                                               : ", ",
                             (int)n, c);
            at += (size_t)w;
            c += n + !last;
        }
        break;
    }
    case FG_OPT_TEXT:
    case FG_OPT_TEXTS: snprintf(out, cap, "a text"); break;
    case FG_OPT_PATH: snprintf(out, cap, "a path"); break;
    }
    return out;
}

static bool parse_context(const char *text, int64_t *out)
{
    char digits[24];
    size_t n = strlen(text);
    if (n == 0 || n >= sizeof digits) return false;
    int64_t unit = text[n - 1] == 'K' || text[n - 1] == 'k' ? 1024 : 1;
    memcpy(digits, text, n + 1);
    if (unit != 1) digits[n - 1] = '\0';
    int64_t v;
    return fg_parse_i64(digits, &v) && !__builtin_mul_overflow(v, unit, out);
}

int fg_opt_parse(struct fg_opt_slot *slot, const char *text, const char *home, const char *what,
                 const char *field, struct fg_error *err)
{
    const struct fg_opt *opt = slot->opt;
    bool ok = true;
    int64_t i = 0;
    double number = 0;
    switch (opt->kind) {
    case FG_OPT_FLAG: // of a variable; the line has --name and --no-name
        ok = in_choices("1|0|on|off|yes|no|true|false", text);
        slot->flag = in_choices("1|on|yes|true", text);
        break;
    case FG_OPT_COUNT:
    case FG_OPT_INT:
        ok = fg_parse_i64(text, &i) && i >= opt->min && i <= opt->max;
        if (ok) slot->i = i;
        break;
    case FG_OPT_CONTEXT:
        ok = parse_context(text, &i) && i >= opt->min && i <= opt->max;
        if (ok) slot->i = i;
        break;
    case FG_OPT_NUMBER:
        ok = fg_parse_f64(text, &number) && number <= opt->high &&
             (opt->low_open ? number > opt->low : number >= opt->low);
        if (ok) slot->number = number;
        break;
    case FG_OPT_CHOICE:
        ok = in_choices(opt->choices, text);
        if (ok) slot->text = text;
        break;
    case FG_OPT_TEXT: slot->text = text; break;
    case FG_OPT_PATH: {
        ok = text[0] != '\0';
        if (!ok) break;
        char *path = fg_path_expand(text, home);
        if (!path) return fg_fail_memory(err, what, strlen(text) + 1);
        free(slot->expanded);
        slot->expanded = path;
        slot->text = path;
        break;
    }
    case FG_OPT_TEXTS: {
        const char **list = realloc(slot->list, ((size_t)slot->n_list + 1) * sizeof slot->list[0]);
        if (!list) return fg_fail_memory(err, what, sizeof slot->list[0]);
        slot->list = list;
        list[slot->n_list++] = text;
        break;
    }
    }
    if (ok) return 0;

    char expected[160], found[80];
    fg_escape(found, sizeof found, text, strlen(text));
    return fg_fail(err, FG_EINPUT, what, NULL, field,
                   fg_opt_expected(opt, expected, sizeof expected), "%s",
                   text[0] ? found : "an empty text");
}

// ---- the walk over argv

struct walk {
    struct fg_args *args;
    const char *home;
    struct fg_error *err;
};

static int add_tables(struct walk *w, const struct fg_command *c)
{
    struct fg_args *args = w->args;
    size_t total = (size_t)args->n_slots;
    for (int t = 0; c->opts && c->opts[t]; t++) {
        for (const struct fg_opt *o = c->opts[t]; o->name; o++)
            total++;
    }
    struct fg_opt_slot *slots = realloc(args->slots, (total + 1) * sizeof *slots);
    if (!slots) return fg_fail_memory(w->err, "options", total * sizeof *slots);
    args->slots = slots;
    for (int t = 0; c->opts && c->opts[t]; t++) {
        for (const struct fg_opt *o = c->opts[t]; o->name; o++)
            slots[args->n_slots++] = (struct fg_opt_slot){.opt = o};
    }
    args->path[args->depth++] = c;
    return 0;
}

static struct fg_opt_slot *find_long(struct fg_args *args, const char *name, size_t n)
{
    for (int i = 0; i < args->n_slots; i++) {
        const char *have = args->slots[i].opt->name;
        if (strlen(have) == n && memcmp(have, name, n) == 0) return &args->slots[i];
    }
    return NULL;
}

static struct fg_opt_slot *find_letter(struct fg_args *args, char letter)
{
    for (int i = 0; i < args->n_slots; i++) {
        if (args->slots[i].opt->letter == letter) return &args->slots[i];
    }
    return NULL;
}

// Whether --no-NAME means something.
static bool can_negate(const struct fg_opt *o)
{
    return o->kind == FG_OPT_FLAG || (o->kind == FG_OPT_CHOICE && in_choices(o->choices, "none"));
}

// arg starts with "--". True when it is a long option of this command.
static bool is_known(struct fg_args *args, const char *arg)
{
    size_t n = strcspn(arg + 2, "=");
    if (n == 0) return false;
    if (find_long(args, arg + 2, n)) return true;
    struct fg_opt_slot *s = strncmp(arg, "--no-", 5) == 0 ? find_long(args, arg + 5, n - 3) : NULL;
    return s && can_negate(s->opt);
}

static int fail_unknown_option(struct walk *w, const char *arg)
{
    char field[80], name[80];
    size_t n = strcspn(arg, "=");
    fg_escape(field, sizeof field, arg, n);
    int rc = fg_fail(w->err, FG_EINPUT, "option", NULL, field, "an option of this command",
                     "no such option");
    const char *best = NULL;
    int least = NEAR + 1;
    bool negated = false;
    for (int i = 0; i < w->args->n_slots && strncmp(arg, "--", 2) == 0; i++) {
        const struct fg_opt *o = w->args->slots[i].opt;
        for (int no = 0; no <= can_negate(o); no++) {
            snprintf(name, sizeof name, "--%s%s", no ? "no-" : "", o->name);
            int d = fg_edit_distance(field, name);
            if (d < least) least = d, best = o->name, negated = no;
        }
    }
    if (best) {
        fg_error_hint(w->err, "did you mean --%s%s?", negated ? "no-" : "", best);
    } else {
        char command[64];
        fg_error_hint(w->err, "%s --help lists the options",
                      fg_args_name(w->args, command, sizeof command));
    }
    return rc;
}

static int fail_unknown_command(struct walk *w, const struct fg_command *c, const char *arg)
{
    char found[80];
    int rc = fg_fail(w->err, FG_EINPUT, "command", NULL, NULL, "a command", "%s",
                     fg_escape(found, sizeof found, arg, strlen(arg)));
    const char *best = NULL;
    int least = NEAR + 1;
    for (int i = 0; c->subs[i]; i++) {
        int d = fg_edit_distance(arg, c->subs[i]->name);
        if (d < least) least = d, best = c->subs[i]->name;
    }
    char command[64];
    fg_args_name(w->args, command, sizeof command);
    if (best) {
        fg_error_hint(w->err, "did you mean %s %s?", command, best);
    } else {
        fg_error_hint(w->err, "%s --help lists the commands", command);
    }
    return rc;
}

static int fail_value(struct walk *w, const char *field)
{
    return fg_fail(w->err, FG_EINPUT, "option", NULL, field, "no value", "a value");
}

// One option with `field` as it was written; value NULL: none attached. *i is moved past a value
// that is the next argument.
static int take(struct walk *w, struct fg_opt_slot *slot, const char *field, const char *value,
                int argc, const char *const *argv, int *i)
{
    const struct fg_opt *opt = slot->opt;
    slot->source = FG_OPT_LINE;
    if (opt->kind == FG_OPT_FLAG || opt->kind == FG_OPT_COUNT) {
        if (value) return fail_value(w, field);
        slot->flag = true;
        slot->i++;
        if (strcmp(opt->name, "help") == 0) w->args->help = true;
        if (strcmp(opt->name, "version") == 0) w->args->version = true;
        return 0;
    }
    if (!value && *i + 1 < argc) {
        // An option's name is hardly meant as a value; --name=VALUE takes it all the same.
        const char *next = argv[*i + 1];
        bool option = strncmp(next, "--", 2) == 0 && next[2] && is_known(w->args, next);
        bool skip = opt->value_optional &&
                    (next[0] == '-' || w->args->n_rest < fg_args_command(w->args)->args_min);
        if (!option && !skip) value = argv[++*i];
    }
    if (!value && opt->value_optional) value = "";
    if (!value) {
        char expected[160];
        return fg_fail(w->err, FG_EINPUT, "option", NULL, field,
                       fg_opt_expected(opt, expected, sizeof expected), "nothing");
    }
    return fg_opt_parse(slot, value, w->home, "option", field, w->err);
}

static int take_long(struct walk *w, int argc, const char *const *argv, int *i)
{
    const char *arg = argv[*i], *name = arg + 2;
    size_t n = strcspn(name, "=");
    const char *value = name[n] ? name + n + 1 : NULL;
    char field[80];
    fg_escape(field, sizeof field, arg, n + 2);
    struct fg_opt_slot *slot = find_long(w->args, name, n);
    if (slot) return take(w, slot, field, value, argc, argv, i);

    if (n > 3 && strncmp(name, "no-", 3) == 0) {
        slot = find_long(w->args, name + 3, n - 3);
        if (slot && slot->opt->kind == FG_OPT_FLAG) {
            int rc = take(w, slot, field, value, argc, argv, i);
            slot->flag = false;
            return rc;
        }
        if (slot && can_negate(slot->opt)) {
            if (value) return fail_value(w, field);
            return take(w, slot, field, "none", argc, argv, i);
        }
    }
    return fail_unknown_option(w, arg);
}

// -x, -xVALUE, and flags together as in -qv.
static int take_short(struct walk *w, int argc, const char *const *argv, int *i)
{
    for (const char *at = argv[*i] + 1; *at && !w->args->help; at++) {
        char field[3] = {'-', *at, '\0'};
        struct fg_opt_slot *slot = find_letter(w->args, *at);
        if (!slot) return fail_unknown_option(w, (unsigned char)*at < 0x80 ? field : argv[*i]);
        bool plain = slot->opt->kind == FG_OPT_FLAG || slot->opt->kind == FG_OPT_COUNT;
        const char *value = !plain && at[1] ? at + 1 : NULL;
        int rc = take(w, slot, field, value, argc, argv, i);
        if (rc || !plain) return rc;
    }
    return 0;
}

// A subcommand of a command that runs itself takes the place of its options.
static int drop_tables(struct walk *w, const struct fg_command *c, const char *sub)
{
    struct fg_args *args = w->args;
    int n = 0;
    for (int t = 0; c->opts && c->opts[t]; t++) {
        for (const struct fg_opt *o = c->opts[t]; o->name; o++)
            n++;
    }
    for (int i = args->n_slots - n; i < args->n_slots; i++) {
        if (args->slots[i].source != FG_OPT_LINE) continue;
        char field[48], expected[64];
        snprintf(field, sizeof field, "--%s", args->slots[i].opt->name);
        snprintf(expected, sizeof expected, "no option of %s before %s", c->name, sub);
        return fg_fail(w->err, FG_EINPUT, "option", NULL, field, expected, "one");
    }
    args->n_slots -= n;
    return 0;
}

static int take_positional(struct walk *w, const char *arg)
{
    struct fg_args *args = w->args;
    const struct fg_command *c = fg_args_command(args);
    if (c->subs && args->n_rest == 0) {
        for (int i = 0; c->subs[i]; i++) {
            if (strcmp(c->subs[i]->name, arg) != 0) continue;
            int rc = c->run ? drop_tables(w, c, arg) : 0;
            return rc ? rc : add_tables(w, c->subs[i]);
        }
        if (!c->run || c->args_max == 0) return fail_unknown_command(w, c, arg);
    }
    if (args->n_rest >= c->args_max) {
        char found[80];
        fg_escape(found, sizeof found, arg, strlen(arg));
        int rc = fg_fail(w->err, FG_EINPUT, "arguments", NULL, NULL,
                         c->args_max ? c->args : "no arguments", "%s%s", c->args_max ? "also " : "",
                         found);
        char command[64];
        fg_error_hint(w->err, "%s --help shows how it is used",
                      fg_args_name(args, command, sizeof command));
        return rc;
    }
    args->rest[args->n_rest++] = arg;
    return 0;
}

// Variables, then defaults, for what the line did not say; then what must not be missing.
static int complete(struct walk *w, fg_env_fn env)
{
    struct fg_args *args = w->args;
    for (int i = 0; i < args->n_slots; i++) {
        struct fg_opt_slot *slot = &args->slots[i];
        const struct fg_opt *opt = slot->opt;
        if (slot->source == FG_OPT_LINE) continue;
        const char *value = opt->env ? env(opt->env) : NULL;
        int rc;
        if (value) {
            slot->source = FG_OPT_ENV;
            rc = fg_opt_parse(slot, value, w->home, "environment", opt->env, w->err);
            if (rc) return rc;
        } else if (opt->def) {
            slot->source = FG_OPT_DEFAULT;
            rc = fg_opt_parse(slot, opt->def, w->home, "default", opt->name, w->err);
            if (rc) return rc;
        } else if (opt->required) {
            char field[48], command[64];
            snprintf(field, sizeof field, "--%s", opt->name);
            rc = fg_fail(w->err, FG_EINPUT, "option", NULL, field, opt->help, "nothing");
            fg_error_hint(w->err, "%s --help shows how it is used",
                          fg_args_name(args, command, sizeof command));
            return rc;
        }
    }
    const struct fg_command *c = fg_args_command(args);
    if ((!c->subs || c->run) && args->n_rest < c->args_min)
        return fg_fail(w->err, FG_EINPUT, "arguments", NULL, NULL, c->args, "nothing");
    return 0;
}

int fg_args_parse(struct fg_args *args, const struct fg_command *root, int argc,
                  const char *const *argv, fg_env_fn env, struct fg_error *err)
{
    *args = (struct fg_args){0};
    struct walk w = {.args = args, .home = env("HOME"), .err = err};
    int rc = add_tables(&w, root);
    if (rc) return rc;
    args->rest = calloc((size_t)(argc > 0 ? argc : 0) + 1, sizeof args->rest[0]);
    if (!args->rest) return fg_fail_memory(err, "options", (uint64_t)argc * sizeof args->rest[0]);

    bool options = true;
    for (int i = 1; i < argc && !args->help; i++) {
        const char *arg = argv[i];
        if (options && strcmp(arg, "--") == 0) {
            options = false;
        } else if (options && strncmp(arg, "--", 2) == 0) {
            rc = take_long(&w, argc, argv, &i);
        } else if (options && arg[0] == '-' && arg[1]) {
            rc = take_short(&w, argc, argv, &i);
        } else {
            rc = take_positional(&w, arg);
        }
        if (rc) return rc;
    }
    return args->help || args->version ? 0 : complete(&w, env);
}

void fg_args_free(struct fg_args *args)
{
    for (int i = 0; i < args->n_slots; i++) {
        free(args->slots[i].list);
        free(args->slots[i].expanded);
    }
    free(args->slots);
    free(args->rest);
    *args = (struct fg_args){0};
}

// ---- access

const struct fg_command *fg_args_command(const struct fg_args *args)
{
    return args->path[args->depth - 1];
}

char *fg_args_name(const struct fg_args *args, char *out, unsigned cap)
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < args->depth && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%s", i ? " " : "", args->path[i]->name);
    return out;
}

const struct fg_opt_slot *fg_args_slot(const struct fg_args *args, const char *name)
{
    for (int i = 0; i < args->n_slots; i++) {
        if (strcmp(args->slots[i].opt->name, name) == 0) return &args->slots[i];
    }
    assert(false); // the name is in none of the command's tables
    return NULL;
}

bool fg_args_given(const struct fg_args *args, const char *name)
{
    return fg_args_slot(args, name)->source >= FG_OPT_ENV;
}

bool fg_args_flag(const struct fg_args *args, const char *name)
{
    return fg_args_slot(args, name)->flag;
}

int64_t fg_args_int(const struct fg_args *args, const char *name)
{
    return fg_args_slot(args, name)->i;
}

double fg_args_number(const struct fg_args *args, const char *name)
{
    return fg_args_slot(args, name)->number;
}

const char *fg_args_text(const struct fg_args *args, const char *name)
{
    return fg_args_slot(args, name)->text;
}

int fg_args_set(struct fg_args *args, const char *name, const char *text, const char *what,
                struct fg_error *err)
{
    struct fg_opt_slot *slot = find_long(args, name, strlen(name));
    assert(slot);
    int rc = fg_opt_parse(slot, text, NULL, what, name, err);
    if (rc == 0) slot->source = FG_OPT_LINE;
    return rc;
}

int fg_args_exclusive(const struct fg_args *args, const char *a, const char *b,
                      struct fg_error *err)
{
    if (!fg_args_given(args, a) || !fg_args_given(args, b)) return 0;
    char field[48], expected[64];
    snprintf(field, sizeof field, "--%s", a);
    snprintf(expected, sizeof expected, "either --%s or --%s", a, b);
    return fg_fail(err, FG_EINPUT, "option", NULL, field, expected, "both");
}
