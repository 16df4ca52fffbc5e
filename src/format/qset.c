// format/qset.c: look-up in a view of quantized weights.
#include "format/qset.h"
#include <stdlib.h>
#include <string.h>

static int by_mat(const void *name, const void *mat)
{
    return strcmp(name, ((const struct fg_qset_mat *)mat)->name);
}

static int by_small(const void *name, const void *small)
{
    return strcmp(name, ((const struct fg_qset_small *)small)->name);
}

static int by_rot(const void *key, const void *rot)
{
    const struct fg_qset_rot *k = key, *r = rot;
    if (k->layer != r->layer) return k->layer < r->layer ? -1 : 1;
    return strcmp(k->site, r->site);
}

const struct fg_qset_mat *fg_qset_find_mat(const struct fg_qset *s, const char *name)
{
    if (!s->n_mats) return NULL; // the array may be NULL then
    return bsearch(name, s->mats, (size_t)s->n_mats, sizeof *s->mats, by_mat);
}

const struct fg_qset_small *fg_qset_find_small(const struct fg_qset *s, const char *name)
{
    if (!s->n_small) return NULL;
    return bsearch(name, s->small, (size_t)s->n_small, sizeof *s->small, by_small);
}

const struct fg_qset_rot *fg_qset_find_rot(const struct fg_qset *s, int64_t layer, const char *site)
{
    if (!s->n_rots) return NULL;
    const struct fg_qset_rot key = {.layer = layer, .site = site};
    return bsearch(&key, s->rots, (size_t)s->n_rots, sizeof *s->rots, by_rot);
}
