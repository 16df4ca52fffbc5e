// runtime/snapshot.c: taking snapshots, what happens to their rows when the session goes on, and
// restoring. Files are in snapshot_file.c.
//
// A snapshot claims the session's rows [0, live). The write barrier lowers `live` to the row that
// is about to change, after copying the pages that hold claimed rows from there on; a restore
// raises it again. So whether a snapshot is good never depends on comparing positions or tokens.
#include "runtime/snapshot.h"
#include "base/hash.h"
#include "runtime/session_impl.h"
#include "runtime/snapshot_impl.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- pages

struct fg_snapshot_page *fg_snapshot_page_new(const struct fg_kv_shape *shape)
{
    struct fg_snapshot_page *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->refs = 1;
    p->bytes = fg_kv_position_bytes(shape) * FG_KV_PAGE;
    // Not from the heap, which would keep the megabytes of a page that is freed.
    void *data =
        mmap(NULL, (size_t)p->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
        free(p);
        return NULL;
    }
    p->data = data;
    return p;
}

static void page_free(struct fg_snapshot_page *p)
{
    if (!p || --p->refs > 0) return;
    munmap(p->data, (size_t)p->bytes);
    free(p);
}

// The end of the rows that the snapshot has in a page.
static int64_t end_of_page(const struct fg_snapshot *snap, int64_t page)
{
    const int64_t end = (page + 1) * FG_KV_PAGE;
    return end < snap->pos ? end : snap->pos;
}

// A reference to a copy of a page whose rows up to `end` are live now: that of another snapshot
// which claims them as well, or a new one. NULL: no memory.
static struct fg_snapshot_page *copy_of(const struct fg_session *s, int64_t page, int64_t end)
{
    for (const struct fg_snapshot *o = s->snapshots; o; o = o->next) {
        if (o->live < end || page >= o->n_pages || !o->pages[page]) continue;
        o->pages[page]->refs++;
        return o->pages[page];
    }
    struct fg_snapshot_page *p = fg_snapshot_page_new(fg_kv_shape(s->kv));
    if (p) fg_kv_page_get(s->kv, page, p->data);
    return p;
}

// Copies what is missing from the page of `row` on. False, with nothing changed: no memory.
static bool keep_pages(struct fg_snapshot *snap, int64_t row)
{
    const int64_t first = row / FG_KV_PAGE;
    int64_t missing = 0, got = 0;
    for (int64_t j = first; j < snap->n_pages; j++)
        missing += !snap->pages[j];
    if (missing == 0) return true;
    int64_t *taken = calloc((size_t)missing, sizeof *taken);
    if (!taken) return false;
    for (int64_t j = first; j < snap->n_pages; j++) {
        if (snap->pages[j]) continue;
        snap->pages[j] = copy_of(snap->session, j, end_of_page(snap, j));
        if (!snap->pages[j]) break;
        taken[got++] = j;
    }
    const bool whole = got == missing;
    while (!whole && got > 0) {
        page_free(snap->pages[taken[--got]]);
        snap->pages[taken[got]] = NULL;
    }
    free(taken);
    return whole;
}

static bool has_pages(const struct fg_snapshot *snap, int64_t row)
{
    for (int64_t j = row / FG_KV_PAGE; j < snap->n_pages; j++)
        if (!snap->pages[j]) return false;
    return true;
}

// Gives up what only restoring it needs.
static void lose(struct fg_snapshot *snap)
{
    for (int64_t j = 0; j < snap->n_pages; j++) {
        page_free(snap->pages[j]);
        snap->pages[j] = NULL;
    }
    free(snap->states);
    snap->states = NULL;
    snap->lost = true;
    snap->live = 0;
}

void fg_snapshots_before_write(struct fg_session *s, int64_t row)
{
    // Those with more rows come first, so that the others find their copies. Claims fall after all
    // have been looked at: sharing goes by them.
    for (struct fg_snapshot *o = s->snapshots; o; o = o->next) {
        if (o->live <= row) continue;
        if (!(o->rows == FG_SNAPSHOT_LIVE ? has_pages(o, row) : keep_pages(o, row))) lose(o);
    }
    for (struct fg_snapshot *o = s->snapshots; o; o = o->next)
        if (o->live > row) o->live = row;
}

void fg_snapshots_orphan(struct fg_session *s)
{
    for (struct fg_snapshot *o = s->snapshots, *next; o; o = next) {
        next = o->next;
        if (!has_pages(o, 0)) lose(o);
        o->session = NULL;
        o->next = NULL;
        o->live = 0;
    }
    s->snapshots = NULL;
}

// ---- what a snapshot and a session must agree in

static int build_id(const struct fg_session *s, uint8_t id[FG_SHA256_BYTES], struct fg_error *err)
{
    uint8_t numerics[32];
    char text[32];
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return fg_fail_memory(err, "snapshot", FG_SHA256_BYTES);
    fg_session_numerics_id(s, numerics);
    snprintf(text, sizeof text, "snapshot %d %s", FG_SNAPSHOT_VERSION,
             fg_kv_format_name(s->options.kv));
    fg_sha256_add(h, s->model->digest, sizeof s->model->digest - 1);
    fg_sha256_add(h, numerics, sizeof numerics);
    fg_sha256_add(h, text, strlen(text));
    fg_sha256_end_bytes(h, id);
    return 0;
}

int fg_snapshot_kind_of(struct fg_snapshot_kind *kind, const struct fg_session *s,
                        struct fg_error *err)
{
    const struct fg_config *c = &s->model->config;
    *kind = (struct fg_snapshot_kind){.n_linear = c->n_linear};
    if (s->kv) kind->shape = *fg_kv_shape(s->kv);
    if (c->n_linear) {
        kind->S_floats = c->n_v_heads * c->k_head_dim * c->v_head_dim;
        kind->conv_floats = (c->conv_kernel - 1) * fg_config_conv_channels(c);
    }
    return build_id(s, kind->build_id, err);
}

static bool alike(const struct fg_snapshot_kind *a, const struct fg_snapshot_kind *b)
{
    return memcmp(a->build_id, b->build_id, sizeof a->build_id) == 0 &&
           a->shape.n_layers == b->shape.n_layers && a->shape.n_heads == b->shape.n_heads &&
           a->shape.D == b->shape.D && a->shape.format == b->shape.format &&
           a->n_linear == b->n_linear && a->S_floats == b->S_floats &&
           a->conv_floats == b->conv_floats;
}

uint64_t fg_snapshot_state_bytes(const struct fg_snapshot_kind *kind)
{
    return (uint64_t)(kind->n_linear * (kind->S_floats + kind->conv_floats)) * sizeof(float);
}

// ---- one snapshot

// Memory that may be for nothing.
static void *some(uint64_t bytes)
{
    return malloc(bytes ? (size_t)bytes : 1);
}

int fg_snapshot_new(struct fg_snapshot **out, struct fg_session *s, int64_t pos,
                    struct fg_error *err)
{
    *out = NULL;
    struct fg_snapshot *snap = calloc(1, sizeof *snap);
    if (!snap) return fg_fail_memory(err, "snapshot", sizeof *snap);
    int rc = fg_snapshot_kind_of(&snap->kind, s, err);
    if (rc) {
        free(snap);
        return rc;
    }
    snap->rows = FG_SNAPSHOT_DETACH;
    snap->pos = pos;
    snap->n_pages = s->kv ? (pos + FG_KV_PAGE - 1) / FG_KV_PAGE : 0;
    const uint64_t bytes = fg_snapshot_state_bytes(&snap->kind);
    const uint64_t id_bytes = (uint64_t)pos * sizeof *snap->ids;
    snap->states = some(bytes);
    snap->ids = some(id_bytes);
    snap->pages = calloc(snap->n_pages ? (size_t)snap->n_pages : 1, sizeof(void *));
    if (!snap->states || !snap->ids || !snap->pages) {
        fg_snapshot_free(snap);
        return fg_fail_memory(err, "snapshot", bytes + id_bytes);
    }
    snap->session = s;
    struct fg_snapshot **at = &s->snapshots;
    while (*at && (*at)->pos > pos)
        at = &(*at)->next;
    snap->next = *at;
    *at = snap;
    *out = snap;
    return 0;
}

void fg_snapshot_free(struct fg_snapshot *snap)
{
    if (!snap) return;
    if (snap->session) {
        struct fg_snapshot **at = &snap->session->snapshots;
        while (*at != snap)
            at = &(*at)->next;
        *at = snap->next;
    }
    for (int64_t j = 0; snap->pages && j < snap->n_pages; j++)
        page_free(snap->pages[j]);
    free(snap->pages);
    free(snap->states);
    free(snap->ids);
    free(snap);
}

// The states of all linear layers, to `kept` or from it.
static void copy_states(const struct fg_session *s, const struct fg_snapshot_kind *kind,
                        float *kept, bool restore)
{
    const struct fg_config *c = &s->model->config;
    float *live = s->states[s->state.cur], *S = kept,
          *conv = kept + kind->n_linear * kind->S_floats;
    for (int64_t i = 0; i < c->n_layers; i++) {
        if (!c->is_linear[i]) continue;
        float *live_S = live + fg_session_S_at(s, i), *live_conv = live + fg_session_conv_at(s, i);
        memcpy(restore ? live_S : S, restore ? S : live_S, (size_t)kind->S_floats * sizeof *S);
        memcpy(restore ? live_conv : conv, restore ? conv : live_conv,
               (size_t)kind->conv_floats * sizeof *conv);
        S += kind->S_floats;
        conv += kind->conv_floats;
    }
}

int fg_snapshot_take(struct fg_snapshot **out, struct fg_session *s, enum fg_snapshot_rows rows,
                     struct fg_error *err)
{
    struct fg_snapshot *snap;
    *out = NULL;
    fg_session_flush(s);
    int rc = fg_snapshot_new(&snap, s, s->state.pos, err);
    if (rc) return rc;
    snap->rows = rows;
    snap->live = snap->pos;
    copy_states(s, &snap->kind, snap->states, false);
    memcpy(snap->ids, s->ids, (size_t)snap->pos * sizeof *snap->ids);
    *out = snap;
    return 0;
}

int64_t fg_snapshot_pos(const struct fg_snapshot *snap)
{
    return snap->pos;
}

const int32_t *fg_snapshot_ids(const struct fg_snapshot *snap)
{
    return snap->ids;
}

bool fg_snapshot_valid(const struct fg_snapshot *snap)
{
    return !snap->lost;
}

uint64_t fg_snapshot_bytes(const struct fg_snapshot *snap)
{
    uint64_t n = (uint64_t)snap->pos * sizeof *snap->ids +
                 (snap->states ? fg_snapshot_state_bytes(&snap->kind) : 0);
    for (int64_t j = 0; j < snap->n_pages; j++)
        if (snap->pages[j]) n += snap->pages[j]->bytes / (uint64_t)snap->pages[j]->refs;
    return n;
}

int fg_snapshot_not_valid(struct fg_error *err)
{
    return fg_fail(err, FG_EFAILED, "snapshot", NULL, "rows", "in the session, or copied",
                   "overwritten or dropped");
}

int fg_snapshot_detach(struct fg_snapshot *snap, int64_t row, struct fg_error *err)
{
    if (snap->lost) return fg_snapshot_not_valid(err);
    if (row >= snap->pos || keep_pages(snap, row > 0 ? row : 0)) return 0;
    return fg_fail_memory(err, "snapshot",
                          (uint64_t)snap->n_pages * fg_kv_position_bytes(&snap->kind.shape) *
                              FG_KV_PAGE);
}

// ---- restoring

// The smallest entry for max(pos + rows to try, rows_needed). A conversation that fills the largest
// one has no room for rows to try; it can be restored all the same.
static int entry_for(const struct fg_session *s, int64_t pos, int64_t rows_needed, int *entry,
                     struct fg_error *err)
{
    const int64_t largest = fg_session_capacity(s);
    int64_t rows = pos + s->options.verify_max;
    if (rows > largest) rows = largest;
    if (rows < pos) rows = pos;
    if (rows < rows_needed) rows = rows_needed;
    *entry = fg_session_entry_for(s, rows);
    if (*entry >= 0) return 0;
    return fg_fail_range(err, "session", NULL, "rows", 0, largest, rows);
}

int fg_snapshot_settle(struct fg_session *s, const struct fg_snapshot *snap, int64_t row,
                       int64_t rows_needed, struct fg_error *err)
{
    int entry;
    int rc = entry_for(s, snap->pos, rows_needed, &entry, err);
    if (rc == 0) rc = fg_session_move(s, entry, s->hi, err);
    if (rc) return rc;
    if (row < snap->pos) fg_snapshots_before_write(s, row);
    copy_states(s, &snap->kind, snap->states, true);
    memcpy(s->ids, snap->ids, (size_t)snap->pos * sizeof *s->ids);
    s->state.pos = snap->pos;
    s->state.n_pending = s->state.n_tried = 0;
    if (s->hi < snap->pos) s->hi = snap->pos;
    return 0;
}

int fg_snapshot_restore(struct fg_session *s, struct fg_snapshot *snap, int64_t rows_needed,
                        struct fg_error *err)
{
    const bool own = snap->session == s;
    const int64_t row = own ? snap->live : 0;
    if (snap->lost) return fg_snapshot_not_valid(err);
    if (!own) {
        struct fg_snapshot_kind kind;
        int rc = fg_snapshot_kind_of(&kind, s, err);
        if (rc) return rc;
        if (!alike(&snap->kind, &kind) || !has_pages(snap, 0))
            return fg_fail(err, FG_EFAILED, "snapshot", NULL, "session",
                           "the one that it was taken from, or one like it and all pages copied",
                           "another");
    }
    int rc = fg_snapshot_settle(s, snap, row, rows_needed, err);
    if (rc) return rc;
    for (int64_t j = row / FG_KV_PAGE; j < snap->n_pages && row < snap->pos; j++) {
        const int64_t start = j * FG_KV_PAGE, first = row > start ? row - start : 0;
        fg_kv_page_put(s->kv, j, first, end_of_page(snap, j) - start, snap->pages[j]->data);
    }
    if (own) snap->live = snap->pos;
    return 0;
}
