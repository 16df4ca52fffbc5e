// quant/plan_builtin.c: the plans that Forge knows by name; configs/plans/ has the same as files.
#include "base/size.h"
#include "quant/plan_impl.h"
#include <stdlib.h>
#include <string.h>

// MLP layers of release 0.1 at lut4, and those that u48 adds; -1 ends a list.
static const int lut4_release_01[] = {23, 24, 25, 27, 28, 30, 32, 35, 36, 37, 39, 40, 41, 42,
                                      44, 45, 49, 51, 53, 54, 55, 58, 60, 61, 62, 63, -1};
static const int lut4_u48[] = {48, 50, 52, 56, 57, 59, -1};
static const int none[] = {-1};

struct builtin {
    const char *name;
    enum fg_qformat mlp, mixer, head;
    bool released; // for the 27B, with totals, rank 64
    enum fg_plan_mix_rot mix_rot;
    int narrow_mixers;      // layers below have their mixer at v2x16
    const int *lut4_mlp[2]; // layers with their MLP at lut4
    uint64_t weight_bytes;
};

static const struct builtin builtins[] = {
    {"release-0.1",
     FG_Q_V2X16,
     FG_Q_LUT4,
     FG_Q_LUT4,
     true,
     FG_MIX_NONE,
     24,
     {lut4_release_01, none},
     9737787552u},
    {"release-0.2",
     FG_Q_V2X64,
     FG_Q_LUT4,
     FG_Q_LUT4,
     true,
     FG_MIX_BOTH,
     24,
     {none, none},
     10138907232u},
    {"u48",
     FG_Q_V2X16,
     FG_Q_LUT4,
     FG_Q_LUT4,
     true,
     FG_MIX_NONE,
     24,
     {lut4_release_01, lut4_u48},
     10138867296u},
    {"all-v2x16", FG_Q_V2X16, FG_Q_V2X16, FG_Q_LUT4, false, FG_MIX_BOTH, 0, {none, none}, 0},
    {"all-v2x64", FG_Q_V2X64, FG_Q_V2X64, FG_Q_LUT4, false, FG_MIX_BOTH, 0, {none, none}, 0},
    {"all-lut4", FG_Q_LUT4, FG_Q_LUT4, FG_Q_LUT4, false, FG_MIX_BOTH, 0, {none, none}, 0},
    {"all-lut6", FG_Q_LUT6, FG_Q_LUT6, FG_Q_LUT6, false, FG_MIX_BOTH, 0, {none, none}, 0},
};

#define FACTOR_BYTES 316669952u // rank 64 on all 208 mixer matrices

const char *fg_plan_builtin(int i)
{
    return i >= 0 && (size_t)i < FG_COUNT(builtins) ? builtins[i].name : NULL;
}

static bool fill(struct fg_plan *p, const struct builtin *b)
{
    bool ok = true;
    p->builtin = true;
    p->mlp = b->mlp;
    p->mixer = b->mixer;
    p->mix_rot = b->mix_rot;
    p->head = b->head;
    // Beside six bits, factors cost more bytes than they gain.
    if (b->mixer == FG_Q_LUT6) p->lr_rank = 0;
    if (b->released) {
        p->lr_rank = 64;
        p->model = (struct fg_plan_for){"qwen3_5", 64, 5120, 17408, 248320};
        p->has_bytes = true;
        p->weight_bytes = b->weight_bytes;
        p->factor_bytes = FACTOR_BYTES;
    }
    for (int i = 0; i < b->narrow_mixers; i++)
        ok = ok && fg_plan_add(p, i, FG_WHAT_MIXER, FG_Q_V2X16);
    for (int list = 0; list < 2; list++) {
        for (const int *at = b->lut4_mlp[list]; *at >= 0; at++)
            ok = ok && fg_plan_add(p, *at, FG_WHAT_MLP, FG_Q_LUT4);
    }
    fg_plan_sort(p);
    return ok;
}

bool fg_plan_make_builtin(struct fg_plan **out, const char *name)
{
    for (size_t i = 0; i < FG_COUNT(builtins); i++) {
        if (strcmp(builtins[i].name, name) != 0) continue;
        *out = fg_plan_new(name);
        if (*out && !fill(*out, &builtins[i])) {
            fg_plan_free(*out);
            *out = NULL;
        }
        return true;
    }
    return false;
}
