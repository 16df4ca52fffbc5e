// quant/plan_formats.c: a plan from the format of each matrix.
#include "base/size.h"
#include "quant/plan_impl.h"
#include <stdio.h>
#include <string.h>

// The three defaults of matrices in layers, and the override of one layer for each.
enum group { MLP, MIXER, KV, N_GROUPS };
static const int whats[N_GROUPS] = {FG_WHAT_MLP, FG_WHAT_MIXER, FG_WHAT_KV};

static enum group group_of(const struct fg_plan_mat *m)
{
    if (fg_plan_part_is_mlp(m->part)) return MLP;
    return m->part == FG_PLAN_K || m->part == FG_PLAN_V ? KV : MIXER;
}

// Which format most matrices [from, to) of the group have; `among`: if that is as frequent as any,
// it is. -1: there are none.
static int most(const struct fg_plan_list *l, const enum fg_qformat *formats, uint64_t from,
                uint64_t to, enum group g, int among)
{
    uint64_t counts[FG_Q_N_FORMATS] = {0};
    int best = among;
    for (uint64_t i = from; i < to; i++) {
        if (l->mats[i].layer >= 0 && group_of(&l->mats[i]) == g) counts[formats[i]]++;
    }
    for (int f = 0; f < FG_Q_N_FORMATS; f++) {
        if (counts[f] > (best < 0 ? 0 : counts[best])) best = f;
    }
    return best >= 0 && counts[best] > 0 ? best : -1;
}

static bool add_layer(struct fg_plan *p, const struct fg_plan_list *l,
                      const enum fg_qformat *formats, uint64_t from, uint64_t to,
                      const int defaults[N_GROUPS])
{
    const int64_t layer = l->mats[from].layer;
    int base[N_GROUPS];
    bool ok = true;
    for (int g = 0; g < N_GROUPS; g++) {
        base[g] = most(l, formats, from, to, (enum group)g, defaults[g]);
        if (base[g] >= 0 && base[g] != defaults[g])
            ok = ok && fg_plan_add(p, layer, whats[g], base[g]);
    }
    for (uint64_t i = from; i < to; i++) {
        const struct fg_plan_mat *m = &l->mats[i];
        if ((int)formats[i] != base[group_of(m)])
            ok = ok && fg_plan_add(p, layer, (int)m->part, (int64_t)formats[i]);
    }
    return ok;
}

// Defaults and overrides that give these formats.
static bool add_formats(struct fg_plan *p, const struct fg_plan_list *l,
                        const enum fg_qformat *formats)
{
    int defaults[N_GROUPS];
    enum fg_qformat *const fields[N_GROUPS] = {&p->mlp, &p->mixer, &p->kv};
    bool ok = true;
    for (int g = 0; g < N_GROUPS; g++) {
        defaults[g] = most(l, formats, 0, l->n, (enum group)g, -1);
        if (defaults[g] < 0) defaults[g] = (int)*fields[g];
        *fields[g] = (enum fg_qformat)defaults[g];
    }
    for (uint64_t i = 0, end; i < l->n && ok; i = end) {
        for (end = i + 1; end < l->n && l->mats[end].layer == l->mats[i].layer;)
            end++;
        if (l->mats[i].layer < 0)
            p->head = formats[i];
        else
            ok = add_layer(p, l, formats, i, end, defaults);
    }
    return ok;
}

int fg_plan_reformat(struct fg_plan **out, const struct fg_plan *base,
                     const struct fg_plan_shape *shape, const enum fg_qformat *formats, uint64_t n,
                     const char *name, struct fg_error *err)
{
    struct fg_plan *from = NULL, *made = NULL;
    struct fg_plan_list list = {0};
    *out = NULL;
    int rc = fg_plan_specialize(&from, base, shape, err);
    if (!rc) rc = fg_plan_resolve(&list, from, shape, err);
    if (!rc && list.n != n)
        rc = fg_fail(err, FG_EINPUT, FG_PLAN_WHAT, name, NULL, "a format for each matrix",
                     "another number of formats");
    if (!rc) {
        made = fg_plan_new(name);
        bool ok = made != NULL;
        if (ok) {
            made->basis = from->basis;
            made->mix_rot = from->mix_rot;
            made->lr_rank = from->lr_rank;
            made->lr_parts = from->lr_parts;
            made->lr_dtype = from->lr_dtype;
            made->embed = from->embed;
        }
        for (uint64_t i = 0; i < from->n && ok; i++) {
            const struct fg_plan_override *o = &from->overrides[i];
            if (o->what == FG_WHAT_BASIS || o->what == FG_WHAT_RANK || o->what == FG_WHAT_LR_DTYPE)
                ok = fg_plan_add(made, o->layer, o->what, o->value);
        }
        ok = ok && add_formats(made, &list, formats);
        if (!ok) rc = fg_fail_memory(err, FG_PLAN_WHAT, sizeof *made);
    }
    if (!rc) {
        fg_plan_sort(made);
        rc = fg_plan_specialize(out, made, shape, err);
    }
    fg_plan_free(made);
    fg_plan_free(from);
    fg_plan_list_free(&list);
    return rc;
}
