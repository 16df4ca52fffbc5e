// runtime/session.c: memory of a conversation: states, keys and values, buffers, and the ladder of
// entries that it moves on. Calls over it are in session_call.c.
#include "runtime/session.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/size.h"
#include "kernels/parallel.h"
#include "quant/random.h"
#include "runtime/session_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIB (1024.0 * 1024.0)

// ---- the ladder

int fg_session_ladder(int64_t capacity, int64_t *entries)
{
    static const int64_t steps[] = {8192, 16384, 32768, 65536, 98304, 131072, 196608};
    int n = 0;
    for (size_t i = 0; i < FG_COUNT(steps) && steps[i] < capacity; i++)
        entries[n++] = steps[i];
    entries[n++] = capacity;
    return n;
}

int fg_session_entry_for(const struct fg_session *s, int64_t rows)
{
    for (int i = 0; i < s->n_entries; i++)
        if (rows <= s->entries[i]) return i;
    return -1;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// "8K", or the number where it is not in whole K.
static const char *entry_name(char *out, size_t cap, int64_t rows)
{
    if (rows % 1024 == 0)
        snprintf(out, cap, "%" PRId64 "K", rows / 1024);
    else
        snprintf(out, cap, "%" PRId64, rows);
    return out;
}

static void log_move(const struct fg_session *s, int64_t from, uint64_t peak, double ms)
{
    char a[24], b[24], text[48] = "";
    if (!fg_log_wants(&s->options.log, FG_LOG_INFO)) return;
    if (peak) snprintf(text, sizeof text, ", peak %.0f MiB", (double)peak / MIB);
    fg_log_info(&s->options.log, "[ctx] %s -> %s at pos %" PRId64 ", rows %" PRId64 ", %.0f ms%s",
                entry_name(a, sizeof a, from), entry_name(b, sizeof b, s->state.capacity),
                s->state.pos, s->hi, ms, text);
}

// Would keys and values of `rows` positions leave the reserve free?
static int check_budget(const struct fg_session *s, int64_t rows, struct fg_error *err)
{
    if (!s->kv || s->options.reserve_bytes == 0 || rows <= fg_kv_rows(s->kv)) return 0;
    struct fg_machine m;
    fg_machine_probe(&m);
    const uint64_t each = fg_kv_position_bytes(fg_kv_shape(s->kv));
    const uint64_t need = each * (uint64_t)rows, free_bytes = fg_machine_free_bytes(&m);
    uint64_t available =
        free_bytes > s->options.reserve_bytes ? free_bytes - s->options.reserve_bytes : 0;
    if (!fg_kv_copies(s->kv)) available += fg_session_kv_bytes(s); // what is there is part of it
    if (need <= available) return 0;
    return fg_fail(err, FG_ERESOURCE, "session", NULL, NULL, NULL,
                   "context %" PRId64 " needs %" PRIu64 " MiB KV cache, %" PRIu64 " MiB available",
                   rows, (need + (1u << 20) - 1) >> 20, available >> 20);
}

// Forgets rows from `row` on.
static void drop_rows(struct fg_session *s, int64_t row)
{
    if (row >= s->hi) return;
    fg_snapshots_before_write(s, row);
    s->hi = row;
}

// Small buffers first: whatever fails then, nothing has to be put back.
static int grow(struct fg_session *s, int64_t rows, uint64_t *peak, struct fg_error *err)
{
    int rc = check_budget(s, rows, err);
    if (rc == 0) rc = fg_workspace_fit(s->ws, s->model, rows, err);
    if (rc || !s->kv) return rc;
    rc = fg_kv_grow(s->kv, rows, s->hi, peak, err);
    // Memory for more rows than the entry has does no harm if this can't be done.
    if (rc && s->state.capacity > 0)
        (void)fg_workspace_fit(s->ws, s->model, s->state.capacity, NULL);
    return rc;
}

int fg_session_move(struct fg_session *s, int entry, int64_t keep, struct fg_error *err)
{
    const int64_t from = s->state.capacity, to = s->entries[entry];
    const double start = now_ms();
    uint64_t peak = 0;
    drop_rows(s, keep < to ? keep : to);
    if (to > from) {
        int rc = grow(s, to, &peak, err);
        if (rc) return rc;
    } else if (to < from) {
        if (s->kv) fg_kv_shrink(s->kv, to);
        (void)fg_workspace_fit(s->ws, s->model, to, NULL); // it holds more: no harm if it stays
    }
    s->entry = entry;
    s->state.capacity = to;
    if (from > 0 && to != from)
        log_move(s, from, s->kv && fg_kv_copies(s->kv) ? peak : 0, now_ms() - start);
    return 0;
}

int fg_session_fit(struct fg_session *s, int64_t rows, struct fg_error *err)
{
    if (rows <= s->state.capacity) return 0;
    const int entry = fg_session_entry_for(s, rows);
    if (entry < 0)
        return fg_fail_range(err, "session", NULL, "rows", 1, fg_session_capacity(s), rows);
    return fg_session_move(s, entry, s->hi, err);
}

// ---- making one

static int check_options(const struct fg_model *m, const struct fg_session_options *o,
                         struct fg_error *err)
{
    const int64_t max = m->config.max_positions, D = m->config.head_dim;
    if (!o->entries && (o->capacity < 1 || o->capacity > max))
        return fg_fail_range(err, "session", NULL, "context", 1, max, o->capacity);
    if (o->entries && (o->n_entries < 1 || o->n_entries > FG_SESSION_ENTRIES_MAX))
        return fg_fail_range(err, "session", NULL, "number of entries", 1, FG_SESSION_ENTRIES_MAX,
                             o->n_entries);
    for (int i = 0; o->entries && i < o->n_entries; i++) {
        int64_t min = i ? o->entries[i - 1] + 1 : 1;
        if (o->entries[i] < min || o->entries[i] > max)
            return fg_fail_range(err, "session", NULL, "context entry", min, max, o->entries[i]);
    }
    if (o->rows_max < 1 || o->rows_max > FG_SESSION_ROWS_MAX)
        return fg_fail_range(err, "session", NULL, "rows", 1, FG_SESSION_ROWS_MAX, o->rows_max);
    if (o->verify_max < 0 || o->verify_max > FG_SESSION_VERIFY_MAX)
        return fg_fail_range(err, "session", NULL, "verify rows", 0, FG_SESSION_VERIFY_MAX,
                             o->verify_max);
    if ((unsigned)o->kv >= FG_KV_N_ALL)
        return fg_fail_range(err, "session", NULL, "KV format", 0, FG_KV_N_ALL - 1, (int64_t)o->kv);
    if (o->rotated && m->config.n_full && (D < 8 || D > 1024 || (D & (D - 1)) != 0))
        return fg_fail(err, FG_EINPUT, "session", NULL, "rotated keys and values",
                       "a head width that is a power of two from 8 to 1024", "%" PRId64, D);
    return 0;
}

static int make_numerics_id(struct fg_session *s, struct fg_error *err)
{
    const struct fg_session_options *o = &s->options;
    char text[160];
    int n = snprintf(text, sizeof text, "forge-numerics %d %s kv=%s rotation=%s attention=%d",
                     FG_NUMERICS_ABI, o->fast ? "fast" : "exact", fg_kv_format_name(o->kv),
                     o->rotated ? "hadamard" : "none", (int)o->attention);
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return fg_fail_memory(err, "session", 0);
    fg_sha256_add(h, text, (uint64_t)n);
    fg_sha256_end_bytes(h, s->numerics_id);
    return 0;
}

void fg_session_numerics_id(const struct fg_session *s, uint8_t id[32])
{
    memcpy(id, s->numerics_id, sizeof s->numerics_id);
}

// Floats of one layer's S, so that the next one is aligned as well; of its convolution rows.
static uint64_t S_floats(const struct fg_config *c)
{
    return ((uint64_t)(c->n_v_heads * c->k_head_dim * c->v_head_dim) + 15) / 16 * 16;
}

static uint64_t conv_floats(const struct fg_config *c)
{
    return c->n_linear ? (uint64_t)((c->conv_kernel - 1) * fg_config_conv_channels(c)) : 0;
}

static uint64_t linear_before(const struct fg_config *c, int64_t layer)
{
    uint64_t n = 0;
    for (int64_t i = 0; i < layer; i++)
        n += c->is_linear[i];
    return n;
}

uint64_t fg_session_S_at(const struct fg_session *s, int64_t layer)
{
    const struct fg_config *c = &s->model->config;
    return linear_before(c, layer) * S_floats(c);
}

uint64_t fg_session_conv_at(const struct fg_session *s, int64_t layer)
{
    const struct fg_config *c = &s->model->config;
    return (uint64_t)c->n_linear * S_floats(c) + linear_before(c, layer) * conv_floats(c);
}

static bool make_tried_rows(struct fg_session *s, struct fg_tried_rows *rows)
{
    const struct fg_config *c = &s->model->config;
    const uint64_t n = (uint64_t)s->state.tried_max;
    const struct {
        float **p;
        int64_t width;
    } need[] = {{&rows->k, c->n_k_heads * c->k_head_dim},
                {&rows->d, c->n_v_heads * c->v_head_dim},
                {&rows->g, c->n_v_heads},
                {&rows->raw, fg_config_conv_channels(c)}};
    for (size_t i = 0; i < FG_COUNT(need); i++) {
        *need[i].p = fg_arena_alloc(&s->arena, n * (uint64_t)need[i].width, sizeof(float));
        if (!*need[i].p) return false;
    }
    return true;
}

static bool make_buffers(struct fg_session *s)
{
    const struct fg_config *c = &s->model->config;
    const uint64_t last = (uint64_t)s->entries[s->n_entries - 1];
    s->state_floats = (uint64_t)c->n_linear * (S_floats(c) + conv_floats(c));
    s->state.layers = fg_arena_alloc(&s->arena, (uint64_t)c->n_layers, sizeof *s->state.layers);
    s->ids = fg_arena_alloc(&s->arena, last, sizeof *s->ids);
    if (!s->state.layers || !s->ids) return false;
    for (int b = 0; b < 2; b++) {
        s->states[b] = fg_arena_alloc(&s->arena, s->state_floats, sizeof(float));
        if (!s->states[b]) return false;
    }
    for (int64_t i = 0; i < c->n_layers; i++) {
        struct fg_layer_state *l = &s->state.layers[i];
        if (!c->is_linear[i]) continue;
        for (int b = 0; b < 2; b++) {
            l->S[b] = s->states[b] + fg_session_S_at(s, i);
            l->conv[b] = s->states[b] + fg_session_conv_at(s, i);
            if (!make_tried_rows(s, &l->rows[b])) return false;
        }
    }
    return true;
}

static int make_kv(struct fg_session *s, struct fg_error *err)
{
    const struct fg_config *c = &s->model->config;
    const struct fg_kv_shape shape = {
        .n_layers = c->n_full, .n_heads = c->n_kv_heads, .D = c->head_dim, .format = s->options.kv};
    if (c->n_full == 0) return 0;
    int rc = fg_kv_new(&s->kv, &shape, s->entries[s->n_entries - 1], s->options.backing, err);
    if (rc) return rc;
    int64_t at = 0;
    for (int64_t i = 0; i < c->n_layers; i++)
        if (!c->is_linear[i]) s->state.layers[i].kv = fg_kv_heads(s->kv, at++);
    return 0;
}

// The most rows of one call.
static int64_t call_rows(const struct fg_session *s)
{
    return s->options.rows_max > s->state.tried_max ? s->options.rows_max : s->state.tried_max;
}

static int make(struct fg_session *s, struct fg_error *err)
{
    const struct fg_session_options *o = &s->options;
    const struct fg_workspace_options wo = {.kernels = o->kernels,
                                            .pool = o->pool,
                                            .fast = o->fast,
                                            .attention = o->attention,
                                            .T_max = call_rows(s)};
    if (!make_buffers(s))
        return fg_fail_memory(err, "session", 2 * s->state_floats * sizeof(float));
    int rc = make_numerics_id(s, err);
    if (rc == 0) rc = make_kv(s, err);
    if (rc == 0) rc = fg_workspace_new(&s->ws, s->model, &wo, err);
    if (rc == 0) rc = fg_session_move(s, 0, 0, err);
    return rc;
}

int fg_session_new(struct fg_session **out, const struct fg_model *m,
                   const struct fg_session_options *options, struct fg_error *err)
{
    *out = NULL;
    int rc = check_options(m, options, err);
    if (rc) return rc;
    struct fg_session *s = calloc(1, sizeof *s);
    if (!s) return fg_fail_memory(err, "session", sizeof *s);
    fg_arena_init(&s->arena, 0);
    s->model = m;
    s->options = *options;
    if (options->entries) {
        s->n_entries = options->n_entries;
        memcpy(s->entries, options->entries, (size_t)s->n_entries * sizeof *s->entries);
    } else {
        s->n_entries = fg_session_ladder(options->capacity, s->entries);
    }
    s->options.entries = s->entries;
    s->options.n_entries = s->n_entries;
    s->options.capacity = s->entries[s->n_entries - 1];
    if (s->options.rows_max > s->options.capacity) s->options.rows_max = s->options.capacity;
    if (s->options.verify_max == 0) s->options.verify_max = FG_SESSION_VERIFY;
    s->state.format = options->kv;
    s->state.rotated = options->rotated;
    s->state.tried_max = s->options.verify_max;
    rc = make(s, err);
    if (rc) {
        fg_session_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void fg_session_free(struct fg_session *s)
{
    if (!s) return;
    fg_snapshots_orphan(s);
    fg_workspace_free(s->ws);
    fg_kv_free(s->kv);
    free(s->best_work);
    fg_arena_free(&s->arena);
    free(s);
}

// ---- where it stands

void fg_session_reset(struct fg_session *s)
{
    (void)fg_session_move(s, 0, s->hi, NULL); // down or nowhere: can't fail
    s->state.pos = s->state.n_pending = s->state.n_tried = 0;
    memset(s->states[s->state.cur], 0, s->state_floats * sizeof(float));
}

int64_t fg_session_pos(const struct fg_session *s)
{
    return s->state.pos;
}

int64_t fg_session_tried(const struct fg_session *s)
{
    return s->state.n_tried;
}

int64_t fg_session_capacity(const struct fg_session *s)
{
    return s->entries[s->n_entries - 1];
}

int64_t fg_session_entry(const struct fg_session *s)
{
    return s->entries[s->entry];
}

const int32_t *fg_session_ids(const struct fg_session *s)
{
    return s->ids;
}

uint64_t fg_session_kv_bytes(const struct fg_session *s)
{
    return s->kv ? (uint64_t)fg_kv_rows(s->kv) * fg_kv_position_bytes(fg_kv_shape(s->kv)) : 0;
}

uint64_t fg_session_bytes(const struct fg_session *s)
{
    return s->arena.used_bytes + fg_workspace_bytes(s->ws) + s->best_bytes + fg_session_kv_bytes(s);
}

void fg_session_set_tap(struct fg_session *s, fg_tap_fn tap, void *ctx)
{
    fg_workspace_set_tap(s->ws, tap, ctx);
}

int fg_session_set_layer_taps(struct fg_session *s, const int64_t *layers, int64_t n,
                              struct fg_error *err)
{
    const int64_t n_max = (int64_t)FG_COUNT(s->taps), n_layers = s->model->config.n_layers;
    if (n < 0 || n > n_max)
        return fg_fail_range(err, "session", NULL, "number of layer taps", 0, n_max, n);
    for (int64_t i = 0; i < n; i++) {
        int64_t min = i ? layers[i - 1] + 1 : 0;
        if (layers[i] < min || layers[i] >= n_layers)
            return fg_fail_range(err, "session", NULL, "layer tap", min, n_layers - 1, layers[i]);
    }
    if (n) memcpy(s->taps, layers, (size_t)n * sizeof *layers);
    s->n_taps = n;
    return 0;
}

// ---- for measurements

// About normal, variance 1.
static float made_up(struct fg_random *r)
{
    double sum = -2.0;
    for (int i = 0; i < 4; i++)
        sum += fg_random_u01(r);
    return (float)(sum * 1.7320508075688772);
}

// Fills a page of every head and repeats it up to `rows`. page: room for one.
static void make_up_rows(struct fg_session *s, int64_t rows, struct fg_random *r, void *page)
{
    const struct fg_config *c = &s->model->config;
    float k[FG_KV_WIDTH_MAX], v[FG_KV_WIDTH_MAX];
    for (int64_t layer = 0; layer < c->n_full; layer++) {
        const struct fg_kv_head *heads = fg_kv_heads(s->kv, layer);
        for (int64_t i = 0; i < c->n_kv_heads * FG_KV_PAGE; i++) {
            for (int64_t d = 0; d < c->head_dim; d++) {
                k[d] = made_up(r);
                v[d] = made_up(r);
            }
            (void)s->options.kernels->kv_store(&heads[i / FG_KV_PAGE], i % FG_KV_PAGE, k, v);
        }
    }
    fg_kv_page_get(s->kv, 0, page);
    for (int64_t at = FG_KV_PAGE; at < rows; at += FG_KV_PAGE)
        fg_kv_page_put(s->kv, at / FG_KV_PAGE, 0, FG_KV_PAGE, page);
}

int fg_session_pretend(struct fg_session *s, int64_t pos, uint64_t seed, struct fg_error *err)
{
    struct fg_random r = fg_random_seeded(seed);
    if (s->state.pos != 0)
        return fg_fail(err, FG_EINPUT, "session", NULL, "made-up rows", "an empty session",
                       "%" PRId64 " rows", s->state.pos);
    if (pos < 0 || pos > fg_session_capacity(s))
        return fg_fail_range(err, "session", NULL, "rows", 0, fg_session_capacity(s), pos);
    const uint64_t page_bytes = s->kv ? fg_kv_position_bytes(fg_kv_shape(s->kv)) * FG_KV_PAGE : 0;
    void *page = fg_alloc_aligned(page_bytes);
    if (!page) return fg_fail_memory(err, "session", page_bytes);
    int rc = fg_session_fit(s, pos, err);
    if (rc == 0 && pos > 0) {
        fg_snapshots_before_write(s, 0);
        if (s->kv) make_up_rows(s, pos, &r, page);
        s->hi = s->hi > pos ? s->hi : pos;
        s->state.n_tried = 0;
        for (uint64_t i = 0; i < s->state_floats; i++)
            s->states[s->state.cur][i] = 0.1F * made_up(&r);
        for (int64_t i = 0; i < pos; i++)
            s->ids[i] = (int32_t)fg_random_below(&r, (uint64_t)s->model->config.vocab);
        s->state.pos = pos;
    }
    free(page);
    return rc;
}
