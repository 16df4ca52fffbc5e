// cli/commands.c: the root of the command tree and the options that every command takes.
#include "cli/cli.h"

static const struct fg_opt global_opts[] = {
    {.name = "help",
     .letter = 'h',
     .group = "Global",
     .kind = FG_OPT_FLAG,
     .help = "explain this command"},
    {.name = "version",
     .letter = 'V',
     .group = "Global",
     .kind = FG_OPT_FLAG,
     .help = "print the version"},
    {.name = "quiet", .letter = 'q', .group = "Global", .kind = FG_OPT_FLAG, .help = "errors only"},
    {.name = "verbose",
     .letter = 'v',
     .group = "Global",
     .kind = FG_OPT_COUNT,
     .help = "log more: -v what happens, -vv for debugging"},
    {.name = "json",
     .group = "Global",
     .kind = FG_OPT_FLAG,
     .help = "the result as one JSON object on standard output, errors too"},
    {.name = "color",
     .group = "Global",
     .kind = FG_OPT_CHOICE,
     .value = "WHEN",
     .def = "auto",
     .choices = "auto|always|never",
     .help = "auto, always or never: colour on terminals, everywhere, nowhere"},
    {.name = "progress",
     .group = "Global",
     .kind = FG_OPT_CHOICE,
     .value = "HOW",
     .def = "auto",
     .choices = "auto|plain|json|none",
     .help =
         "of long jobs, on standard error: auto, a bar on terminals and lines elsewhere; plain, "
         "lines; json, an object on each line; none, as --no-progress"},
    {.name = "threads",
     .group = "Global",
     .kind = FG_OPT_INT,
     .value = "N",
     .def_note = "the cores that affinity and cgroup grant",
     .min = 1,
     .max = 1024,
     .env = "FORGE_THREADS",
     .help = "threads that compute; results do not depend on it"},
    {0},
};

static const struct fg_opt *const global_tables[] = {global_opts, NULL};

static const struct fg_command *const commands[] = {
    &fg_cmd_doctor,  &fg_cmd_compile,  &fg_cmd_cache,  &fg_cmd_inspect,
    &fg_cmd_digest,  &fg_cmd_generate, &fg_cmd_chat,   &fg_cmd_tokenize,
    &fg_cmd_import,  &fg_cmd_plan,     &fg_cmd_corpus, &fg_cmd_quantize,
    &fg_cmd_convert, &fg_cmd_teacher,  &fg_cmd_eval,   &fg_cmd_bench,
    &fg_cmd_help,    &fg_cmd_version,  NULL,
};

const struct fg_command fg_root = {
    .name = "forge",
    .summary = "run large language models on this machine",
    .args = "",
    .opts = global_tables,
    .subs = commands,
};
