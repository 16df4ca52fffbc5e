// runtime/snapshot_file.c: snapshots as files (specs: server 10.6, runtime 3.4), little-endian:
//
//   0   "FKC1"   4  version 1   8  kind 0   12  token count, u64   20  build id [32]
//   52  number of sections 4    56  zeros [8]
//   64  section table, 32 bytes each: tag, flags 0, offset u64, size u64, CRC-32C, 0
//       sections at multiples of 64, zeros between them:
//   TOKS  ids [pos] u32
//   GDNS  [linear layer][nv][dk][dv] FP32
//   CONV  [linear layer][K - 1][channels] FP32
//   KVPG  per page of 256 rows, the last with only its own: [full layer][kv head]
//         {keys [rows][D], values [rows][D], scales of keys [rows], of values [rows]}
//
// Nothing in it tells how the conversation came about or how the machine that wrote it keeps keys
// and values in memory.
#include "base/arena.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "base/size.h"
#include "runtime/session.h"
#include "runtime/session_impl.h"
#include "runtime/snapshot_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "FKC1"
#define HEADER_BYTES 64u
#define AT_VERSION 4
#define AT_KIND 8
#define AT_TOKENS 12
#define AT_BUILD 20
#define AT_SECTIONS 52
#define AT_RESERVED 56
#define ROW_BYTES 32u // of the section table
#define ALIGN 64u

enum section { TOKS, GDNS, CONV, KVPG, N_SECTIONS };
static const char tags[N_SECTIONS][5] = {"TOKS", "GDNS", "CONV", "KVPG"};

#define BODY_AT (HEADER_BYTES + N_SECTIONS * ROW_BYTES)

static const uint8_t zeros[ALIGN];

struct layout {
    uint64_t at[N_SECTIONS], bytes[N_SECTIONS], end;
};

// ---- rows of a head as files have them

// Up to a page of rows, each part aligned.
struct rows {
    uint8_t *k, *v;            // k is what is allocated
    uint16_t *ks, *vs;         // NULL where the part is not INT8
    uint64_t k_bytes, v_bytes; // of one row
};

static void measure_rows(struct rows *r, const struct fg_kv_shape *shape)
{
    const uint64_t D = (uint64_t)shape->D, wide = shape->format == FG_KV_F32 ? 4 : 2;
    *r = (struct rows){.k_bytes = fg_kv_k8(shape->format) ? D : D * wide,
                       .v_bytes = fg_kv_v8(shape->format) ? D : D * wide};
}

static bool rows_new(struct rows *r, const struct fg_kv_shape *shape)
{
    const uint64_t scale_bytes = FG_KV_PAGE * sizeof(uint16_t);
    measure_rows(r, shape);
    r->k = fg_alloc_aligned(FG_KV_PAGE * (r->k_bytes + r->v_bytes) + 2 * scale_bytes);
    if (!r->k) return false;
    r->v = r->k + FG_KV_PAGE * r->k_bytes; // aligned: FG_KV_PAGE is a multiple of 64
    uint8_t *scales = r->v + FG_KV_PAGE * r->v_bytes;
    r->ks = fg_kv_k8(shape->format) ? (uint16_t *)(void *)scales : NULL;
    r->vs = fg_kv_v8(shape->format) ? (uint16_t *)(void *)(scales + scale_bytes) : NULL;
    return true;
}

// Bytes of one row of all layers and heads in a file.
static uint64_t row_bytes(const struct fg_kv_shape *shape)
{
    struct rows r;
    measure_rows(&r, shape);
    const uint64_t scales = fg_kv_k8(shape->format) + fg_kv_v8(shape->format);
    return (uint64_t)(shape->n_layers * shape->n_heads) *
           (r.k_bytes + r.v_bytes + scales * sizeof(uint16_t));
}

// n rows to a file's bytes, or from them; returns the end of those.
static uint8_t *rows_to_bytes(const struct rows *r, uint64_t n, uint8_t *to)
{
    to = (uint8_t *)mempcpy(to, r->k, n * r->k_bytes);
    to = (uint8_t *)mempcpy(to, r->v, n * r->v_bytes);
    if (r->ks) to = (uint8_t *)mempcpy(to, r->ks, n * sizeof *r->ks);
    if (r->vs) to = (uint8_t *)mempcpy(to, r->vs, n * sizeof *r->vs);
    return to;
}

static const uint8_t *rows_of_bytes(const struct rows *r, uint64_t n, const uint8_t *from)
{
    const struct {
        void *to;
        uint64_t bytes;
    } parts[] = {{r->k, n * r->k_bytes},
                 {r->v, n * r->v_bytes},
                 {r->ks, n * sizeof *r->ks},
                 {r->vs, n * sizeof *r->vs}};
    for (size_t i = 0; i < FG_COUNT(parts); i++) {
        if (!parts[i].to) continue;
        memcpy(parts[i].to, from, parts[i].bytes);
        from += parts[i].bytes;
    }
    return from;
}

static int64_t rows_of_page(int64_t pos, int64_t page)
{
    const int64_t left = pos - page * FG_KV_PAGE;
    return left < FG_KV_PAGE ? left : FG_KV_PAGE;
}

// A file of `pos` rows. False: too large for any.
static bool lay_out(struct layout *l, const struct fg_snapshot_kind *kind, uint64_t pos)
{
    const uint64_t n_linear = (uint64_t)kind->n_linear;
    *l = (struct layout){.end = BODY_AT};
    if (!fg_mul(&l->bytes[TOKS], pos, sizeof(int32_t)) ||
        !fg_mul(&l->bytes[GDNS], n_linear, (uint64_t)kind->S_floats * sizeof(float)) ||
        !fg_mul(&l->bytes[CONV], n_linear, (uint64_t)kind->conv_floats * sizeof(float)) ||
        !fg_mul(&l->bytes[KVPG], pos, row_bytes(&kind->shape)))
        return false;
    for (int i = 0; i < N_SECTIONS; i++)
        if (!fg_align_up(&l->at[i], l->end, ALIGN) || !fg_add(&l->end, l->at[i], l->bytes[i]))
            return false;
    return true;
}

// ---- writing

static void put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void put64(uint8_t *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

struct writer {
    struct fg_atomic file;
    uint32_t crc; // of the section
};

static int add(struct writer *w, const void *data, uint64_t n, struct fg_error *err)
{
    w->crc = fg_crc32c(w->crc, data, n);
    return fg_atomic_write(&w->file, data, n, err);
}

// The rows of one head in page `page` of the snapshot, from its copy or from the session.
static void get_rows(const struct fg_snapshot *snap, int64_t page, int64_t layer, int64_t head,
                     int64_t n, const struct rows *r)
{
    if (snap->pages[page]) {
        const struct fg_kv_head h =
            fg_kv_page_head(&snap->kind.shape, snap->pages[page]->data, layer, head);
        fg_kv_export(&h, 0, n, r->k, r->ks, r->v, r->vs);
    } else {
        const struct fg_kv_head *h = &fg_kv_heads(snap->session->kv, layer)[head];
        fg_kv_export(h, page * FG_KV_PAGE, n, r->k, r->ks, r->v, r->vs);
    }
}

static int write_pages(const struct fg_snapshot *snap, struct writer *w, struct fg_error *err)
{
    const struct fg_kv_shape *shape = &snap->kind.shape;
    const uint64_t page_bytes = FG_KV_PAGE * row_bytes(shape);
    struct rows r;
    if (snap->n_pages == 0) return 0;
    uint8_t *bytes = malloc((size_t)page_bytes);
    if (!rows_new(&r, shape) || !bytes) {
        free(r.k);
        free(bytes);
        return fg_fail_memory(err, "snapshot", page_bytes);
    }
    int rc = 0;
    for (int64_t j = 0; j < snap->n_pages && rc == 0; j++) {
        const int64_t n = rows_of_page(snap->pos, j);
        uint8_t *to = bytes;
        for (int64_t layer = 0; layer < shape->n_layers; layer++)
            for (int64_t head = 0; head < shape->n_heads; head++) {
                get_rows(snap, j, layer, head, n, &r);
                to = rows_to_bytes(&r, (uint64_t)n, to);
            }
        rc = add(w, bytes, (uint64_t)(to - bytes), err);
    }
    free(bytes);
    free(r.k);
    return rc;
}

static int write_section(const struct fg_snapshot *snap, int section, uint64_t bytes,
                         struct writer *w, struct fg_error *err)
{
    const int64_t conv_at = snap->kind.n_linear * snap->kind.S_floats;
    switch (section) {
    case TOKS: return add(w, snap->ids, bytes, err);
    case GDNS: return add(w, snap->states, bytes, err);
    case CONV: return add(w, snap->states + conv_at, bytes, err);
    default: return write_pages(snap, w, err);
    }
}

static int write_all(const struct fg_snapshot *snap, struct writer *w, struct fg_error *err)
{
    uint8_t head[BODY_AT] = {0};
    struct layout l;
    if (!lay_out(&l, &snap->kind, (uint64_t)snap->pos))
        return fg_fail(err, FG_ERESOURCE, "snapshot", NULL, "size", NULL, "too large for a file");
    memcpy(head, MAGIC, 4);
    put32(head + AT_VERSION, FG_SNAPSHOT_VERSION);
    put64(head + AT_TOKENS, (uint64_t)snap->pos);
    memcpy(head + AT_BUILD, snap->kind.build_id, sizeof snap->kind.build_id);
    put32(head + AT_SECTIONS, N_SECTIONS);
    int rc = fg_atomic_write(&w->file, head, sizeof head, err);
    for (int i = 0; i < N_SECTIONS && rc == 0; i++) {
        uint8_t *row = head + HEADER_BYTES + (unsigned)i * ROW_BYTES;
        w->crc = 0;
        rc = fg_atomic_write(&w->file, zeros, l.at[i] - w->file.bytes, err);
        if (rc == 0) rc = write_section(snap, i, l.bytes[i], w, err);
        memcpy(row, tags[i], 4);
        put64(row + 8, l.at[i]);
        put64(row + 16, l.bytes[i]);
        put32(row + 24, w->crc);
    }
    return rc ? rc : fg_atomic_write_at(&w->file, 0, head, sizeof head, err);
}

int fg_snapshot_write(const struct fg_snapshot *snap, const char *path, struct fg_error *err)
{
    struct writer w = {0};
    if (snap->lost) return fg_snapshot_not_valid(err);
    int rc = fg_atomic_open(&w.file, path, err);
    if (rc) return rc;
    rc = write_all(snap, &w, err);
    if (rc) {
        fg_atomic_abort(&w.file);
        return rc;
    }
    return fg_atomic_commit(&w.file, err);
}

// ---- reading

struct reader {
    struct fg_map map;
    struct fg_snapshot_kind kind; // of the session that it is for
    struct layout layout;
    struct rows rows;
    int64_t pos;
};

static int refuse(const struct reader *r, int code, const char *section, const char *what,
                  const char *expected, uint64_t found, struct fg_error *err)
{
    char field[48];
    snprintf(field, sizeof field, "%s%s%s", section, section[0] ? " " : "", what);
    return fg_fail(err, code, "snapshot", r->map.path, field, expected, "%" PRIu64, found);
}

// A number of the header or the table that can have one value only.
static int expect(const struct reader *r, uint64_t at, int bytes, const char *section,
                  const char *what, uint64_t value, struct fg_error *err)
{
    char expected[32];
    uint32_t low = 0;
    uint64_t found = 0;
    int rc =
        bytes == 8 ? fg_map_le64(&r->map, at, &found, err) : fg_map_le32(&r->map, at, &low, err);
    if (bytes == 4) found = low;
    if (rc || found == value) return rc;
    snprintf(expected, sizeof expected, "%" PRIu64, value);
    return refuse(r, FG_EINPUT, section, what, expected, found, err);
}

static int check_build(const struct reader *r, struct fg_error *err)
{
    const uint8_t *found = r->map.data + AT_BUILD, *id = r->kind.build_id;
    char expected[16];
    if (memcmp(found, id, sizeof r->kind.build_id) == 0) return 0;
    snprintf(expected, sizeof expected, "%02x%02x%02x%02x", id[0], id[1], id[2], id[3]);
    int rc = fg_fail(err, FG_EINTEGRITY, "snapshot", r->map.path, "build id", expected,
                     "%02x%02x%02x%02x", found[0], found[1], found[2], found[3]);
    fg_error_hint(err, "it is of another model, or of other numerics or another format of keys and "
                       "values");
    return rc;
}

static int check_header(struct reader *r, int64_t max_positions, struct fg_error *err)
{
    uint64_t pos = 0;
    if (!fg_map_holds(&r->map, 0, BODY_AT) || memcmp(r->map.data, MAGIC, 4) != 0)
        return fg_fail(err, FG_EINPUT, "snapshot", r->map.path, "magic", MAGIC, "another file");
    int rc = expect(r, AT_VERSION, 4, "", "version", FG_SNAPSHOT_VERSION, err);
    if (rc == 0) rc = expect(r, AT_KIND, 4, "", "kind", 0, err);
    if (rc == 0) rc = expect(r, AT_SECTIONS, 4, "", "sections", N_SECTIONS, err);
    if (rc == 0) rc = expect(r, AT_RESERVED, 8, "", "reserved", 0, err);
    if (rc == 0) rc = check_build(r, err);
    if (rc == 0) rc = fg_map_le64(&r->map, AT_TOKENS, &pos, err);
    if (rc) return rc;
    if (pos > (uint64_t)max_positions) {
        char expected[48];
        snprintf(expected, sizeof expected, "at most %" PRId64, max_positions);
        return refuse(r, FG_EINPUT, "", "position", expected, pos, err);
    }
    r->pos = (int64_t)pos;
    return 0;
}

static int check_section(const struct reader *r, int i, struct fg_error *err)
{
    const struct layout *l = &r->layout;
    const uint64_t row = HEADER_BYTES + (unsigned)i * ROW_BYTES;
    const uint64_t before = i ? l->at[i - 1] + l->bytes[i - 1] : BODY_AT;
    uint32_t crc = 0;
    if (memcmp(r->map.data + row, tags[i], 4) != 0)
        return fg_fail(err, FG_EINPUT, "snapshot", r->map.path, "section tag", tags[i], "another");
    int rc = expect(r, row + 4, 4, tags[i], "flags", 0, err);
    if (rc == 0) rc = expect(r, row + 8, 8, tags[i], "offset", l->at[i], err);
    if (rc == 0) rc = expect(r, row + 16, 8, tags[i], "size", l->bytes[i], err);
    if (rc == 0) rc = expect(r, row + 28, 4, tags[i], "padding", 0, err);
    if (rc == 0) rc = fg_map_le32(&r->map, row + 24, &crc, err);
    if (rc) return rc;
    if (memcmp(r->map.data + before, zeros, l->at[i] - before) != 0)
        return fg_fail(err, FG_EINPUT, "snapshot", r->map.path, "bytes before a section", "zeros",
                       "others before %s", tags[i]);
    const uint32_t found = fg_crc32c(0, r->map.data + l->at[i], l->bytes[i]);
    if (found == crc) return 0;
    char expected[16];
    snprintf(expected, sizeof expected, "%" PRIu32, crc);
    return refuse(r, FG_EINTEGRITY, tags[i], "checksum", expected, found, err);
}

static int check_ids(const struct reader *r, int64_t vocab, struct fg_error *err)
{
    char expected[48];
    for (int64_t i = 0; i < r->pos; i++) {
        uint32_t id = 0;
        int rc = fg_map_le32(&r->map, r->layout.at[TOKS] + 4 * (uint64_t)i, &id, err);
        if (rc) return rc;
        if ((int64_t)id < vocab) continue;
        snprintf(expected, sizeof expected, "ids from 0 to %" PRId64, vocab - 1);
        return refuse(r, FG_EINPUT, tags[TOKS], "id", expected, id, err);
    }
    return 0;
}

static bool finite_f32(const uint8_t *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 4) {
        uint32_t bits;
        memcpy(&bits, p + i, sizeof bits);
        if ((bits & 0x7F800000u) == 0x7F800000u) return false;
    }
    return true;
}

static bool finite_f16(const uint8_t *p, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += 2) {
        uint16_t bits;
        memcpy(&bits, p + i, sizeof bits);
        if ((bits & 0x7C00u) == 0x7C00u) return false;
    }
    return true;
}

// Keys or values that storing a row can give: what depends on them is then bounded as ever.
static bool good_part(const uint8_t *p, const uint16_t *scales, uint64_t n, uint64_t bytes,
                      enum fg_kv_format format)
{
    if (!scales) return format == FG_KV_F32 ? finite_f32(p, n * bytes) : finite_f16(p, n * bytes);
    for (uint64_t i = 0; i < n; i++)
        if (scales[i] == 0 || scales[i] >= 0x7C00) return false; // zero, not finite, negative
    return memchr(p, 0x80, n * bytes) == NULL;                   // -128
}

static int check_pages(const struct reader *r, struct fg_error *err)
{
    const struct fg_kv_shape *shape = &r->kind.shape;
    const uint8_t *from = r->map.data + r->layout.at[KVPG];
    for (int64_t j = 0; j * FG_KV_PAGE < r->pos; j++) {
        const uint64_t n = (uint64_t)rows_of_page(r->pos, j);
        for (int64_t i = 0; i < shape->n_layers * shape->n_heads; i++) {
            from = rows_of_bytes(&r->rows, n, from);
            if (!good_part(r->rows.k, r->rows.ks, n, r->rows.k_bytes, shape->format) ||
                !good_part(r->rows.v, r->rows.vs, n, r->rows.v_bytes, shape->format))
                return refuse(r, FG_EINPUT, tags[KVPG], "page", "values as rows are stored",
                              (uint64_t)j, err);
        }
    }
    return 0;
}

static int check_all(struct reader *r, const struct fg_config *c, struct fg_error *err)
{
    int rc = check_header(r, c->max_positions, err);
    if (rc) return rc;
    if (!lay_out(&r->layout, &r->kind, (uint64_t)r->pos) || r->layout.end != r->map.bytes) {
        char expected[32];
        snprintf(expected, sizeof expected, "%" PRIu64 " bytes", r->layout.end);
        return refuse(r, FG_EINPUT, "", "size", expected, r->map.bytes, err);
    }
    for (int i = 0; i < N_SECTIONS && rc == 0; i++)
        rc = check_section(r, i, err);
    if (rc == 0) rc = check_ids(r, c->vocab, err);
    for (int i = GDNS; i <= CONV && rc == 0; i++)
        if (!finite_f32(r->map.data + r->layout.at[i], r->layout.bytes[i]))
            rc = fg_fail(err, FG_EINPUT, "snapshot", r->map.path, tags[i], "finite numbers",
                         "others");
    if (rc || r->layout.bytes[KVPG] == 0) return rc;
    if (!rows_new(&r->rows, &r->kind.shape)) return fg_fail_memory(err, "snapshot", 0);
    return check_pages(r, err);
}

static void reader_close(struct reader *r)
{
    free(r->rows.k);
    fg_map_close(&r->map);
}

// Opens a file for sessions like `s` and checks all of it. *r is the caller's to close.
static int reader_open(struct reader *r, const struct fg_session *s, const char *path,
                       struct fg_error *err)
{
    *r = (struct reader){0};
    int rc = fg_snapshot_kind_of(&r->kind, s, err);
    if (rc == 0) rc = fg_map_open(&r->map, path, err);
    if (rc == 0) rc = check_all(r, &s->model->config, err);
    if (rc) reader_close(r);
    return rc;
}

// The file as a snapshot of `s`, but for keys and values.
static int read_states(struct fg_snapshot **out, struct fg_session *s, const struct reader *r,
                       struct fg_error *err)
{
    int rc = fg_snapshot_new(out, s, r->pos, err);
    if (rc) return rc;
    const struct layout *l = &r->layout;
    float *conv = (*out)->states + r->kind.n_linear * r->kind.S_floats;
    memcpy((*out)->ids, r->map.data + l->at[TOKS], l->bytes[TOKS]);
    memcpy((*out)->states, r->map.data + l->at[GDNS], l->bytes[GDNS]);
    memcpy(conv, r->map.data + l->at[CONV], l->bytes[CONV]);
    return 0;
}

// Keys and values to the snapshot's pages, which are there, or (`kv` not NULL) to a session's.
static void read_rows(const struct reader *r, const struct fg_snapshot *snap,
                      const struct fg_kv *kv)
{
    const struct fg_kv_shape *shape = &r->kind.shape;
    const struct rows *rows = &r->rows;
    const uint8_t *from = r->map.data + r->layout.at[KVPG];
    for (int64_t j = 0; j < snap->n_pages; j++) {
        const int64_t n = rows_of_page(r->pos, j);
        for (int64_t i = 0; i < shape->n_layers * shape->n_heads; i++) {
            const int64_t layer = i / shape->n_heads, head = i % shape->n_heads;
            struct fg_kv_head h = kv ? fg_kv_heads(kv, layer)[head]
                                     : fg_kv_page_head(shape, snap->pages[j]->data, layer, head);
            from = rows_of_bytes(rows, (uint64_t)n, from);
            fg_kv_import(&h, kv ? j * FG_KV_PAGE : 0, n, rows->k, rows->ks, rows->v, rows->vs);
        }
    }
}

int fg_snapshot_read(struct fg_snapshot **out, struct fg_session *s, const char *path,
                     struct fg_error *err)
{
    struct reader r;
    *out = NULL;
    int rc = reader_open(&r, s, path, err);
    if (rc) return rc;
    rc = read_states(out, s, &r, err);
    for (int64_t j = 0; rc == 0 && j < (*out)->n_pages; j++) {
        (*out)->pages[j] = fg_snapshot_page_new(&r.kind.shape);
        if (!(*out)->pages[j]) rc = fg_fail_memory(err, "snapshot", r.layout.bytes[KVPG]);
    }
    if (rc == 0) read_rows(&r, *out, NULL);
    reader_close(&r);
    if (rc) {
        fg_snapshot_free(*out);
        *out = NULL;
    }
    return rc;
}

// ---- a session as a file

int fg_session_save(struct fg_session *s, const char *path, struct fg_error *err)
{
    struct fg_snapshot *snap;
    int rc = fg_snapshot_take(&snap, s, FG_SNAPSHOT_LIVE, err);
    if (rc) return rc;
    rc = fg_snapshot_write(snap, path, err);
    fg_snapshot_free(snap);
    return rc;
}

// Not by restoring what fg_snapshot_read gives: keys and values would be in memory twice.
int fg_session_load(struct fg_session *s, const char *path, struct fg_error *err)
{
    struct reader r;
    struct fg_snapshot *snap;
    fg_session_reset(s);
    int rc = reader_open(&r, s, path, err);
    if (rc) return rc;
    rc = read_states(&snap, s, &r, err);
    if (rc == 0) {
        rc = fg_snapshot_settle(s, snap, 0, 0, err);
        if (rc == 0) read_rows(&r, snap, s->kv);
        fg_snapshot_free(snap);
    }
    reader_close(&r);
    return rc;
}
