// cli/job_args.c
#include "cli/job_args.h"
#include "eval/teacher.h"

const struct fg_opt fg_opts_resume[] = {
    {.name = "resume",
     .kind = FG_OPT_FLAG,
     .def = "on",
     .listed_negative = true,
     .group = "Run",
     .help = "begin again, as --restart"},
    {.name = "restart",
     .kind = FG_OPT_FLAG,
     .def = "off",
     .group = "Run",
     .help = "drop what an earlier run finished"},
    {0},
};

const struct fg_opt fg_opts_kl[] = {
    {.name = "topk",
     .kind = FG_OPT_INT,
     .value = "K",
     .def_note = "all that the teacher has",
     .min = 1,
     .max = FG_TEACHER_K_MAX,
     .group = "Comparison",
     .help = "tokens of the teacher that count one by one; the others count together"},
    {.name = "skip-prefix",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = INT32_MAX,
     .group = "Comparison",
     .help = "leave the first N positions of each sequence out, as a shared system prompt"},
    {.name = "seqs",
     .kind = FG_OPT_INT,
     .value = "N",
     .def_note = "all",
     .min = 1,
     .max = INT32_MAX,
     .group = "Comparison",
     .help = "the first N sequences alone"},
    {.name = "rows",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "64",
     .min = 1,
     .max = 8192,
     .group = "Comparison",
     .help = "rows per forward call; results do not depend on it"},
    {0},
};

bool fg_cli_restart(const struct fg_args *args)
{
    return fg_args_flag(args, "restart") || !fg_args_flag(args, "resume");
}
