// quant/planner_moves.c: what differs between two plans, in words.
#include "base/buf.h"
#include "quant/planner_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A move while layers are added to it.
struct growing {
    struct fg_planner_move m;
    struct fg_buf layers;
    int64_t last;
    bool open; // the text ends in "A" of a range "A-last"
};

struct builder {
    const struct fg_planner *p;
    const struct fg_plan_list *a, *b;
    struct growing *v;
    uint64_t n, cap;
};

static void close_range(struct growing *g)
{
    if (g->open) fg_buf_printf(&g->layers, "-%" PRId64, g->last);
    g->open = false;
}

static void add_layer(struct growing *g, int64_t layer)
{
    if (g->m.n > 0 && layer == g->last + 1) {
        g->open = true;
    } else {
        close_range(g);
        if (layer >= 0) fg_buf_printf(&g->layers, "%s%" PRId64, g->m.n ? ", " : "", layer);
    }
    g->last = layer;
    g->m.n++;
}

// The move of that name and change, made when it is new; NULL: memory is out.
static struct growing *find(struct builder *b, const char *what, enum fg_qformat from,
                            enum fg_qformat to)
{
    for (uint64_t i = 0; i < b->n; i++) {
        struct growing *g = &b->v[i];
        if (strcmp(g->m.what, what) == 0 && g->m.from == from && g->m.to == to) return g;
    }
    if (b->n == b->cap) {
        const uint64_t cap = b->cap ? 2 * b->cap : 32;
        struct growing *grown = realloc(b->v, cap * sizeof *grown);
        if (!grown) return NULL;
        b->v = grown;
        b->cap = cap;
    }
    struct growing *g = &b->v[b->n++];
    *g = (struct growing){.m = {.from = from, .to = to}};
    snprintf(g->m.what, sizeof g->m.what, "%s", what);
    return g;
}

// Matrices [from, to) of one layer under one name.
static bool add_move(struct builder *b, uint64_t from, uint64_t to, const char *what)
{
    const int old = (int)b->a->mats[from].format, now = (int)b->b->mats[from].format;
    struct growing *g = find(b, what, (enum fg_qformat)old, (enum fg_qformat)now);
    if (!g) return false;
    for (uint64_t i = from; i < to; i++) {
        if (fg_planner_kind(&b->a->mats[i]) != fg_planner_kind(&b->a->mats[from])) continue;
        g->m.bytes +=
            (int64_t)fg_planner_bytes(b->p, i, now) - (int64_t)fg_planner_bytes(b->p, i, old);
        g->m.cost += b->p->mats[i].cost[now] - b->p->mats[i].cost[old];
    }
    add_layer(g, b->a->mats[from].layer);
    return true;
}

static bool same_kind(const struct fg_plan_mat *x, const struct fg_plan_mat *y)
{
    return x->layer == y->layer && fg_planner_kind(x) == fg_planner_kind(y);
}

// True when all matrices of the kind of `first` in its layer, before `end`, change alike.
static bool agree(const struct builder *b, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++) {
        if (!same_kind(&b->a->mats[i], &b->a->mats[first])) continue;
        if (b->a->mats[i].format != b->a->mats[first].format ||
            b->b->mats[i].format != b->b->mats[first].format)
            return false;
    }
    return true;
}

static bool add_moves(struct builder *b, uint64_t from, uint64_t to)
{
    bool ok = true;
    for (uint64_t i = from; i < to && ok; i++) {
        const struct fg_plan_mat *m = &b->a->mats[i];
        uint64_t first = from;
        while (!same_kind(&b->a->mats[first], m))
            first++;
        if (m->format == b->b->mats[i].format) continue;
        const unsigned kind = fg_planner_kind(m);
        if (kind != FG_FREE_HEAD && agree(b, first, to)) {
            const char *what = kind == FG_FREE_MLP ? "mlp" : kind == FG_FREE_KV ? "kv" : "mixer";
            if (i == first) ok = add_move(b, i, to, what);
        } else {
            ok = add_move(b, i, i + 1, fg_plan_part_name(m->part));
        }
    }
    return ok;
}

static int finish(struct fg_planner_moves *out, struct builder *b, struct fg_error *err)
{
    bool ok = true;
    out->v = calloc(b->n ? b->n : 1, sizeof *out->v);
    for (uint64_t i = 0; i < b->n; i++) {
        struct growing *g = &b->v[i];
        close_range(g);
        fg_buf_str(&g->layers, "");
        ok = ok && out->v && !g->layers.failed;
        if (ok) {
            out->v[out->n] = g->m;
            out->v[out->n].layers = strdup(g->layers.len ? g->layers.data : "");
            ok = out->v[out->n++].layers != NULL;
        }
        fg_buf_free(&g->layers);
    }
    return ok && out->v ? 0 : fg_fail_memory(err, FG_PLANNER_WHAT, b->n * sizeof *out->v);
}

int fg_planner_compare(struct fg_planner_moves *out, const struct fg_planner *p,
                       const struct fg_plan *a, const struct fg_plan *b, struct fg_error *err)
{
    struct fg_plan_list x = {0}, y = {0};
    struct builder build = {.p = p, .a = &x, .b = &y};
    bool ok = true;
    *out = (struct fg_planner_moves){0};
    int rc = fg_plan_resolve(&x, a, &p->shape, err);
    if (!rc) rc = fg_plan_resolve(&y, b, &p->shape, err);
    for (uint64_t i = 0, end; i < x.n && !rc && ok; i = end) {
        for (end = i + 1; end < x.n && x.mats[end].layer == x.mats[i].layer;)
            end++;
        ok = add_moves(&build, i, end);
    }
    if (!rc && !ok) rc = fg_fail_memory(err, FG_PLANNER_WHAT, build.cap * sizeof *build.v);
    const int made = finish(out, &build, rc ? NULL : err);
    if (!rc) rc = made;
    free(build.v);
    fg_plan_list_free(&x);
    fg_plan_list_free(&y);
    if (rc) fg_planner_moves_free(out);
    return rc;
}

void fg_planner_moves_free(struct fg_planner_moves *m)
{
    for (uint64_t i = 0; i < m->n; i++)
        free(m->v[i].layers);
    free(m->v);
    *m = (struct fg_planner_moves){0};
}
