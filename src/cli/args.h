// cli/args.h: option tables, and the parser over them (specs: cli 1.1, 1.2, 2). A command is a
// static table; what it accepts, what --help prints and what `forge help --json` lists all come
// from it. Values are checked here; what they mean together is the command's.
#ifndef FG_CLI_ARGS_H
#define FG_CLI_ARGS_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

enum fg_opt_kind {
    FG_OPT_FLAG,    // --name, --no-name
    FG_OPT_COUNT,   // -v, -vv: how often
    FG_OPT_INT,     // whole number in [min, max]
    FG_OPT_CONTEXT, // positions: 16384 or 16K, in [min, max]
    FG_OPT_NUMBER,  // finite number in [low, high]
    FG_OPT_CHOICE,  // one of choices; --no-name where "none" is one of them
    FG_OPT_TEXT,    // any text
    FG_OPT_PATH,    // a path; "~" and "~user" at its start are replaced
    FG_OPT_TEXTS    // any text; every occurrence adds one
};

struct fg_opt {
    const char *name; // without the dashes
    char letter;      // short form, or 0
    enum fg_opt_kind kind;
    bool required;
    // The value may be missing (text is then ""): the next argument is taken for it only when it is
    // no option and the positional arguments that must be there have come. FG_OPT_TEXT.
    bool value_optional;
    bool listed_negative; // a flag that is on unless --no-NAME is given, and listed so
    const char *value;    // what help calls the value: "N", "FILE"
    const char *def;      // parsed as if it had been given last of all; NULL: stays unset
    const char *def_note; // what absence means, where no single value says it
    int64_t min, max;
    double low, high;
    bool low_open;       // low itself is refused
    const char *choices; // "fast|exact"
    const char *env;     // variable that stands in when the option is absent
    const char *group;   // heading in help
    const char *help;
    const char *since; // version; NULL: 0.1.0, the first
};

struct fg_cli;

struct fg_command {
    const char *name;
    const char *group;
    const char *summary;    // one line, lower case, no full stop
    const char *about;      // paragraphs below the usage line; may be NULL
    const char *args;       // "PATH", "[TEXT]"; "" when there are none
    int args_min, args_max; // positional arguments
    const struct fg_opt *const
        *opts; // tables, NULL at the end; each table ends with a zeroed entry
    // Subcommands, NULL at the end; NULL: none. One that is not named where there is a `run` leaves
    // the line to this command; one that is has its own options alone.
    const struct fg_command *const *subs;
    const char *const *examples; // NULL at the end; NULL: none
    // Returns the exit code. With err->code set, main.c prints the error; else the command has said
    // all there is to say.
    int (*run)(struct fg_cli *cli, struct fg_error *err);
};

#define FG_COMMAND_DEPTH_MAX 4 // forge, eval, kl, compare

enum fg_opt_source { FG_OPT_UNSET, FG_OPT_DEFAULT, FG_OPT_ENV, FG_OPT_LINE };

struct fg_opt_slot {
    const struct fg_opt *opt;
    enum fg_opt_source source;
    bool flag;
    int64_t i;         // FG_OPT_COUNT, INT, CONTEXT
    double number;     // FG_OPT_NUMBER
    const char *text;  // FG_OPT_CHOICE, TEXT, PATH
    const char **list; // FG_OPT_TEXTS
    int n_list;
    char *expanded; // what text points to, when a path was expanded
};

// A parsed command line. Strings point into argv, the environment or the tables.
struct fg_args {
    const struct fg_command *path[FG_COMMAND_DEPTH_MAX]; // root first
    int depth;                                           // entries in path
    struct fg_opt_slot *slots;
    int n_slots;
    const char **rest; // positional arguments
    int n_rest;
    bool help, version; // asked for; the rest of the line was then not checked to the end
};

// Looks a variable up; NULL when it is not set.
typedef const char *(*fg_env_fn)(const char *name);

// Parses argv[1, argc) for the tree of commands under `root`, whose own tables hold the global
// options. Errors: FG_EINPUT; *args then still names the command that was reached. Free *args in
// every case.
int fg_args_parse(struct fg_args *args, const struct fg_command *root, int argc,
                  const char *const *argv, fg_env_fn env, struct fg_error *err);
void fg_args_free(struct fg_args *args);

// The command that the line names: the last of path.
const struct fg_command *fg_args_command(const struct fg_args *args);
// "forge eval logits" into out; returns out.
char *fg_args_name(const struct fg_args *args, char *out, unsigned cap);

// Values by option name, which must be in the tables of the command.
const struct fg_opt_slot *fg_args_slot(const struct fg_args *args, const char *name);
bool fg_args_given(const struct fg_args *args, const char *name); // on the line or by a variable
bool fg_args_flag(const struct fg_args *args, const char *name);
int64_t fg_args_int(const struct fg_args *args, const char *name);
double fg_args_number(const struct fg_args *args, const char *name);
const char *fg_args_text(const struct fg_args *args, const char *name); // NULL: unset

// Parses one value as the option would have it, into *slot. FG_EINPUT with `what` and `field` as
// given. Also for values that are set while a program runs (/set in chat).
int fg_opt_parse(struct fg_opt_slot *slot, const char *text, const char *home, const char *what,
                 const char *field, struct fg_error *err);
// Gives an option another value, as if the line had said so. The option must exist.
int fg_args_set(struct fg_args *args, const char *name, const char *text, const char *what,
                struct fg_error *err);
// "a whole number from 1 to 64", "fast or exact" into out; returns out.
char *fg_opt_expected(const struct fg_opt *opt, char *out, unsigned cap);

// Changes, insertions, deletions and swaps of neighbours between two short words; capped at 99.
int fg_edit_distance(const char *a, const char *b);

// FG_EINPUT: two options that exclude each other were both given.
int fg_args_exclusive(const struct fg_args *args, const char *a, const char *b,
                      struct fg_error *err);
#endif
