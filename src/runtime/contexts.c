#include "runtime/contexts.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROTATED_WIDTH_MIN 8
#define ROTATED_WIDTH_MAX 1024

void fg_contexts_of_build(struct fg_contexts *c, const struct fg_manifest *m, int64_t max_positions)
{
    *c = (struct fg_contexts){.of_build = true,
                              .max_positions = max_positions,
                              .n = m->n_ctxs,
                              .kv = m->kv.given ? m->kv.def : FG_KV_FP16};
    _Static_assert(FG_MANIFEST_CTXS_MAX <= FG_SESSION_ENTRIES_MAX, "entries have room");
    for (int i = 0; i < m->n_ctxs; i++) {
        c->entries[i] = m->ctxs[i];
        // The smallest entry that a manifest can have is longer than some small models.
        c->rows[i] = m->kv_len[i] < max_positions ? m->kv_len[i] : max_positions;
    }
    for (int f = 0; f < FG_KV_N_FORMATS; f++) {
        c->offers[f] = m->kv.given ? m->kv.offers[f] : f == FG_KV_FP16;
        c->rotated[f] = m->kv.given && m->kv.hadamard[f];
    }
    c->offers[FG_KV_F32] = true;
}

void fg_contexts_of_config(struct fg_contexts *c, const struct fg_config *cfg, bool fast)
{
    const int64_t D = cfg->head_dim;
    *c = (struct fg_contexts){.max_positions = cfg->max_positions,
                              .kv = fast ? FG_KV_KV8 : FG_KV_F32};
    c->n = fg_session_ladder(cfg->max_positions, c->entries);
    memcpy(c->rows, c->entries, sizeof c->rows);
    for (int f = 0; f < FG_KV_N_ALL; f++)
        c->offers[f] = true;
    c->rotated[FG_KV_KV8] = D >= ROTATED_WIDTH_MIN && D <= ROTATED_WIDTH_MAX && (D & (D - 1)) == 0;
}

char *fg_contexts_list(const struct fg_contexts *c, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < c->n && n < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%" PRId64, i ? ", " : "", c->entries[i]);
    return out;
}

static int pick_entry(struct fg_context *out, const struct fg_contexts *c, int64_t ctx,
                      const char *file, struct fg_error *err)
{
    int at = ctx == 0 ? 0 : -1;
    for (int i = 0; i < c->n; i++) {
        if (ctx == 0 ? c->entries[i] <= FG_CONTEXT_DEFAULT : c->entries[i] == ctx) at = i;
    }
    if (at < 0) {
        char list[sizeof err->expected];
        return fg_fail(err, FG_EINPUT, "context", file, "ctx",
                       fg_contexts_list(c, list, sizeof list), "%" PRId64, ctx);
    }
    out->entry = c->entries[at];
    out->capacity = c->rows[at];
    for (int i = 0; i <= at; i++) {
        if (out->n_entries && c->rows[i] == out->entries[out->n_entries - 1]) continue;
        out->entries[out->n_entries++] = c->rows[i];
    }
    return 0;
}

int fg_contexts_pick(struct fg_context *out, const struct fg_contexts *c, int64_t ctx,
                     const char *file, struct fg_error *err)
{
    *out = (struct fg_context){0};
    if (c->of_build) return pick_entry(out, c, ctx, file, err);
    if (ctx == 0)
        ctx = c->max_positions < FG_CONTEXT_DEFAULT ? c->max_positions : FG_CONTEXT_DEFAULT;
    if (ctx < 1 || ctx > c->max_positions) {
        char expected[80];
        snprintf(expected, sizeof expected, "1 to %" PRId64 ", the model's maximum",
                 c->max_positions);
        return fg_fail(err, FG_EINPUT, "context", file, "ctx", expected, "%" PRId64, ctx);
    }
    out->entry = out->capacity = ctx;
    out->n_entries = fg_session_ladder(ctx, out->entries);
    return 0;
}

int64_t fg_contexts_holding(const struct fg_contexts *c, int64_t rows)
{
    if (!c->of_build) return rows <= c->max_positions ? rows : 0;
    for (int i = 0; i < c->n; i++) {
        if (c->rows[i] >= rows) return c->entries[i];
    }
    return 0;
}

int fg_contexts_kv(enum fg_kv_format *out, const struct fg_contexts *c, const char *name,
                   const char *file, struct fg_error *err)
{
    *out = c->kv;
    if (!name || strcmp(name, "auto") == 0) return 0;
    if (fg_kv_format_of_name(name, out) && c->offers[*out]) return 0;
    *out = c->kv;
    char list[64] = "auto", found[64];
    size_t n = strlen(list);
    for (int f = 0; f < FG_KV_N_ALL; f++) {
        if (c->offers[f])
            n += (size_t)snprintf(list + n, sizeof list - n, ", %s",
                                  fg_kv_format_name((enum fg_kv_format)f));
    }
    return fg_fail(err, FG_EINPUT, "KV cache", file, "kv_cache_dtype", list, "%s",
                   fg_escape(found, sizeof found, name, strlen(name)));
}
