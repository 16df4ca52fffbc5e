// Fuzz target: a plan (first byte even) or a table of sensitivities (odd), both JSON. What parses
// means the same when it is written and parsed again; a table that fits the model gives plans
// within their budgets.
#include "base/file.h"
#include "quant/planner.h"
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const bool kinds[] = {true, false, true, true};
static const struct fg_plan_shape shape = {.architecture = "qwen3_5",
                                           .n_layers = 4,
                                           .hidden = 64,
                                           .intermediate = 96,
                                           .vocab = 101,
                                           .is_linear = kinds,
                                           .q_rows = 64,
                                           .kv_rows = 16,
                                           .o_cols = 32,
                                           .qkv_rows = 48,
                                           .z_rows = 16,
                                           .ab_rows = 2};
static char path[64];
static struct fg_plan *base;

static void remove_file(void)
{
    unlink(path);
    fg_plan_free(base);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    const int fd = mkstemp(path);
    if (fd < 0 || fg_plan_open(&base, "release-0.2", NULL)) abort();
    close(fd);
    atexit(remove_file);
    return 0;
}

static void plan(const char *text, size_t n)
{
    struct fg_plan *a, *b;
    struct fg_plan_list x, y;
    struct fg_jwrite one = {0}, two = {0};
    if (fg_plan_parse(&a, text, n, "plan.json", NULL)) return;
    fg_plan_write_whole(a, &one, NULL);
    if (fg_plan_parse(&b, one.buf.data, one.buf.len, "again.json", NULL)) abort();
    fg_plan_write_whole(b, &two, NULL);
    if (one.buf.len != two.buf.len || memcmp(one.buf.data, two.buf.data, one.buf.len) != 0) abort();
    const int rc = fg_plan_resolve(&x, a, &shape, NULL);
    if (rc != fg_plan_resolve(&y, b, &shape, NULL)) abort();
    for (uint64_t i = 0; rc == 0 && i < x.n; i++) {
        if (x.mats[i].format != y.mats[i].format || x.mats[i].rank != y.mats[i].rank) abort();
    }
    fg_plan_list_free(&x);
    fg_plan_list_free(&y);
    fg_jwrite_free(&one);
    fg_jwrite_free(&two);
    fg_plan_free(a);
    fg_plan_free(b);
}

static void solve(const struct fg_sens *s)
{
    const struct fg_planner_options o = {.base = base,
                                         .sens = s,
                                         .allow = 1u << FG_Q_V2X16 | 1u << FG_Q_LUT4,
                                         .free = FG_FREE_MLP | FG_FREE_MIXER,
                                         .rho = 1};
    struct fg_planner *p;
    struct fg_planner_result r;
    if (fg_planner_new(&p, &shape, &o, NULL)) return;
    const struct fg_planner_info *i = fg_planner_info(p);
    const uint64_t budget = i->least_bytes + (i->most_bytes - i->least_bytes) / 2;
    if (fg_planner_solve(&r, p, budget, INFINITY, "solved", NULL) || r.sums.bytes > budget) abort();
    fg_planner_result_free(&r);
    fg_planner_free(p);
}

static void table(const char *text, size_t n)
{
    struct fg_sens a, b;
    if (fg_sens_parse(&a, text, n, "sens.json", NULL)) return;
    if (fg_sens_write(&a, path, NULL, NULL, NULL) || fg_sens_open(&b, path, NULL) || a.n != b.n)
        abort();
    for (uint64_t i = 0; i < a.n; i++) {
        const struct fg_sens_row *x = &a.rows[i],
                                 *y = fg_sens_find(&b, x->metric, &x->unit, x->format);
        if (!y || x->value != y->value || x->tokens != y->tokens) abort();
    }
    if (fg_sens_check(&a, &shape, "sens.json", NULL) == 0) solve(&a);
    fg_sens_free(&a);
    fg_sens_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    if (data[0] & 1)
        table((const char *)data + 1, n - 1);
    else
        plan((const char *)data + 1, n - 1);
    return 0;
}
