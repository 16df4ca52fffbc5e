// quant/tilefile_write.c: a tile file, streamed: all sizes are known before the first byte, so the
// sections come one after the other and the header last.
#include "base/crc32c.h"
#include "base/file.h"
#include "base/size.h"
#include "quant/tilefile_impl.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct section {
    uint64_t offset, bytes;
    uint64_t first_block; // of the file's CRC values
};

struct fg_tilefile_writer {
    struct fg_atomic file;
    uint8_t *head; // header, section table, CRC values, zeros up to the first section
    uint64_t head_bytes, crcs_at, file_bytes;
    struct section *sections;
    uint64_t n_sections;
    uint64_t at;     // section that is being filled
    uint64_t filled; // bytes of it
    uint32_t crc;    // of the block that is being filled
};

uint64_t fg_tilefile_section_bytes(const struct fg_tilefile_mat *m, enum fg_tile_kind kind)
{
    uint64_t groups = (uint64_t)fg_layout_groups(m->layout, m->n_out);
    const bool lut = m->layout != FG_I8, int8_factors = m->lr_dtype == FG_LR_I8;
    const uint64_t n_a = (uint64_t)m->n_out * (uint64_t)m->rank;
    const uint64_t n_b = (uint64_t)m->rank * (uint64_t)m->n_in;
    switch (kind) {
    case FG_TILE_TILES: return groups * (uint64_t)fg_layout_group_bytes(m->layout, m->n_in);
    case FG_TILE_TABLE: return lut ? 2 * 64 * sizeof(float) : 0;
    case FG_TILE_TABLE_U8: return lut ? 2 * 64 : 0;
    case FG_TILE_SCALE:
    case FG_TILE_SCALE_TS: return groups * (uint64_t)fg_layout_rows(m->layout) * sizeof(float);
    case FG_TILE_LR_A: return int8_factors ? 0 : n_a * sizeof(uint16_t);
    case FG_TILE_LR_B: return int8_factors ? 0 : n_b * sizeof(uint16_t);
    case FG_TILE_LR_A8: return int8_factors ? n_a : 0;
    case FG_TILE_LR_B8: return int8_factors ? n_b : 0;
    case FG_TILE_LR_SCALE: return int8_factors ? (uint64_t)m->rank * sizeof(float) : 0;
    }
    return 0;
}

void fg_tile_section_shape(const struct fg_tilefile_mat *m, enum fg_tile_kind kind, uint32_t *rows,
                           uint32_t *cols)
{
    *rows = (uint32_t)m->n_out, *cols = (uint32_t)m->n_in;
    switch (kind) {
    case FG_TILE_TILES: break;
    case FG_TILE_TABLE:
    case FG_TILE_TABLE_U8: *rows = 2, *cols = 64; break;
    case FG_TILE_SCALE:
    case FG_TILE_SCALE_TS: *cols = 1; break;
    case FG_TILE_LR_A:
    case FG_TILE_LR_A8: *cols = (uint32_t)m->rank; break;
    case FG_TILE_LR_B:
    case FG_TILE_LR_B8: *rows = (uint32_t)m->rank; break;
    case FG_TILE_LR_SCALE: *rows = (uint32_t)m->rank, *cols = 1; break;
    }
}

// Sizes of the parts of a file; section tables of valid matrices. False when the sum does not fit.
struct measure {
    uint64_t n_sections, n_blocks, head_bytes, crcs_at, file_bytes;
};

static bool measure(struct measure *out, const struct fg_tilefile_mat *mats, uint64_t n)
{
    struct measure s = {0};
    uint64_t data = 0;
    for (uint64_t i = 0; i < n; i++)
        for (int k = 1; k <= FG_TILE_KINDS; k++) {
            uint64_t bytes = fg_tilefile_section_bytes(&mats[i], (enum fg_tile_kind)k);
            if (bytes == 0) continue;
            s.n_sections++;
            s.n_blocks += fg_tile_blocks(bytes);
            if (!fg_align_up(&data, data, FG_TILE_PAGE) || !fg_add(&data, data, bytes))
                return false;
        }
    s.crcs_at = FG_TILE_PAGE + s.n_sections * FG_TILE_ROW_BYTES;
    s.head_bytes = s.crcs_at + s.n_blocks * sizeof(uint32_t);
    if (!fg_align_up(&s.head_bytes, s.head_bytes, FG_TILE_PAGE) ||
        !fg_add(&s.file_bytes, s.head_bytes, data))
        return false;
    *out = s;
    return true;
}

uint64_t fg_tilefile_bytes(const struct fg_tilefile_mat *mats, uint64_t n)
{
    struct measure s;
    return measure(&s, mats, n) ? s.file_bytes : 0;
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int check(const char *path, const struct fg_tilefile_mat *mats, uint64_t n,
                 struct fg_error *err)
{
    if (n > FG_TILE_MATS_MAX)
        return fg_fail_range(err, "tile file", path, "matrices", 0, FG_TILE_MATS_MAX, (int64_t)n);
    for (uint64_t i = 0; i < n; i++) {
        const struct fg_tilefile_mat *m = &mats[i];
        if (m->n_out < 1 || m->n_out > UINT32_MAX / 4 || m->n_in < 1 || m->n_in > UINT32_MAX / 4)
            return fg_fail(err, FG_EINPUT, "tile file", path, m->name,
                           "rows and columns below 2^30", "%" PRId64 " x %" PRId64, m->n_out,
                           m->n_in);
        if (m->rank < 0 || m->rank > FG_TILE_RANK_MAX)
            return fg_fail_range(err, "tile file", path, m->name, 0, FG_TILE_RANK_MAX, m->rank);
    }
    uint64_t *hashes = malloc((size_t)(n + 1) * sizeof *hashes);
    if (!hashes) return fg_fail_memory(err, "tile file", n * sizeof *hashes);
    for (uint64_t i = 0; i < n; i++)
        hashes[i] = fg_fnv1a(mats[i].name, strlen(mats[i].name));
    qsort(hashes, (size_t)n, sizeof *hashes, by_hash);
    int rc = 0;
    for (uint64_t i = 1; i < n && rc == 0; i++)
        if (hashes[i] == hashes[i - 1])
            rc = fg_fail(err, FG_EINPUT, "tile file", path, "names", "names that differ in FNV-1a",
                         "two of %016" PRIx64, hashes[i]);
    free(hashes);
    return rc;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool put_sha(uint8_t *p, const char *hex)
{
    if (strlen(hex) != 64) return false;
    for (int i = 0; i < 32; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        p[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

// Section table in `head`, and the same in w->sections.
static void lay_out(struct fg_tilefile_writer *w, const struct fg_tilefile_mat *mats, uint64_t n)
{
    uint64_t at = w->head_bytes, block = 0, s = 0;
    for (uint64_t i = 0; i < n; i++)
        for (int k = 1; k <= FG_TILE_KINDS; k++) {
            enum fg_tile_kind kind = (enum fg_tile_kind)k;
            uint64_t bytes = fg_tilefile_section_bytes(&mats[i], kind);
            if (bytes == 0) continue;
            uint32_t rows, cols;
            fg_tile_section_shape(&mats[i], kind, &rows, &cols);
            at = (at + FG_TILE_PAGE - 1) & ~(uint64_t)(FG_TILE_PAGE - 1);
            uint8_t *row = w->head + FG_TILE_PAGE + s * FG_TILE_ROW_BYTES;
            fg_tile_put64(row + FG_TILE_ROW_NAME, fg_fnv1a(mats[i].name, strlen(mats[i].name)));
            fg_tile_put32(row + FG_TILE_ROW_KIND, (uint32_t)kind);
            fg_tile_put32(row + FG_TILE_ROW_ROWS, rows);
            fg_tile_put32(row + FG_TILE_ROW_COLS, cols);
            fg_tile_put32(row + FG_TILE_ROW_LAYOUT, (uint32_t)mats[i].layout);
            fg_tile_put64(row + FG_TILE_ROW_OFFSET, at);
            fg_tile_put64(row + FG_TILE_ROW_SIZE, bytes);
            fg_tile_put32(row + FG_TILE_ROW_BLOCK, FG_TILE_CRC_BLOCK);
            fg_tile_put64(row + FG_TILE_ROW_CRCS, w->crcs_at + block * sizeof(uint32_t));
            w->sections[s++] = (struct section){.offset = at, .bytes = bytes, .first_block = block};
            block += fg_tile_blocks(bytes);
            at += bytes;
        }
}

int fg_tilefile_create(struct fg_tilefile_writer **out, const char *path, const char *sha256,
                       const struct fg_tilefile_mat *mats, uint64_t n, struct fg_error *err)
{
    struct measure s;
    size_t head_bytes;
    *out = NULL;
    int rc = check(path, mats, n, err);
    if (rc) return rc;
    if (!measure(&s, mats, n) || !fg_to_size(&head_bytes, s.head_bytes))
        return fg_fail(err, FG_EINPUT, "tile file", path, "size", "a size of 64 bits", "more");
    struct fg_tilefile_writer *w = calloc(1, sizeof *w);
    if (!w) return fg_fail_memory(err, "tile file", sizeof *w);
    w->file.fd = -1;
    w->head_bytes = s.head_bytes;
    w->crcs_at = s.crcs_at;
    w->file_bytes = s.file_bytes;
    w->n_sections = s.n_sections;
    w->head = calloc(1, head_bytes);
    w->sections = calloc((size_t)s.n_sections + 1, sizeof *w->sections);
    if (!w->head || !w->sections) {
        rc = fg_fail_memory(err, "tile file", s.head_bytes);
        goto fail;
    }
    memcpy(w->head, FG_TILE_MAGIC, sizeof FG_TILE_MAGIC);
    fg_tile_put32(w->head + FG_TILE_AT_VERSION, FG_TILE_VERSION);
    fg_tile_put32(w->head + FG_TILE_AT_ABI, FG_TILE_ABI);
    memcpy(w->head + FG_TILE_AT_ISA, FG_TILE_ISA, sizeof FG_TILE_ISA);
    memcpy(w->head + FG_TILE_AT_LAYOUT, FG_TILE_LAYOUT, sizeof FG_TILE_LAYOUT);
    fg_tile_put64(w->head + FG_TILE_AT_SIZE, s.file_bytes);
    fg_tile_put32(w->head + FG_TILE_AT_SECTIONS, (uint32_t)s.n_sections);
    if (!put_sha(w->head + FG_TILE_AT_SHA, sha256)) {
        rc = fg_fail(err, FG_EINPUT, "tile file", path, "sha256", "64 hexadecimal digits", "%s",
                     sha256);
        goto fail;
    }
    lay_out(w, mats, n);
    rc = fg_atomic_open(&w->file, path, err);
    if (rc == 0) rc = fg_atomic_write(&w->file, w->head, w->head_bytes, err);
    if (rc) goto fail;
    *out = w;
    return 0;
fail:
    fg_tilefile_abort(w);
    return rc;
}

static void end_block(struct fg_tilefile_writer *w, const struct section *s)
{
    uint64_t block = s->first_block + (w->filled - 1) / FG_TILE_CRC_BLOCK;
    fg_tile_put32(w->head + w->crcs_at + block * sizeof(uint32_t), w->crc);
    w->crc = 0;
}

int fg_tilefile_write(struct fg_tilefile_writer *w, const void *data, uint64_t n,
                      struct fg_error *err)
{
    static const uint8_t zeros[FG_TILE_PAGE];
    const uint8_t *p = data;
    while (n > 0) {
        if (w->at == w->n_sections)
            return fg_fail(err, FG_EFAILED, "tile file", w->file.path, "sections",
                           "as many bytes as they have", "%" PRIu64 " more", n);
        const struct section *s = &w->sections[w->at];
        int rc;
        if (w->filled == 0 && w->file.bytes < s->offset) {
            rc = fg_atomic_write(&w->file, zeros, s->offset - w->file.bytes, err);
            if (rc) return rc;
        }
        uint64_t step = FG_TILE_CRC_BLOCK - w->filled % FG_TILE_CRC_BLOCK;
        if (step > n) step = n;
        if (step > s->bytes - w->filled) step = s->bytes - w->filled;
        rc = fg_atomic_write(&w->file, p, step, err);
        if (rc) return rc;
        w->crc = fg_crc32c(w->crc, p, step);
        w->filled += step;
        p += step;
        n -= step;
        if (w->filled % FG_TILE_CRC_BLOCK == 0 || w->filled == s->bytes) end_block(w, s);
        if (w->filled == s->bytes) {
            w->at++;
            w->filled = 0;
        }
    }
    return 0;
}

static int write_head(struct fg_tilefile_writer *w, struct fg_error *err)
{
    fg_tile_put32(w->head + FG_TILE_AT_CRC, fg_crc32c(0, w->head, w->head_bytes));
    for (uint64_t done = 0; done < w->head_bytes;) {
        ssize_t n = pwrite(w->file.fd, w->head + done, (size_t)(w->head_bytes - done), (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fg_fail_errno(err, w->file.path, "write", errno);
        done += (uint64_t)n;
    }
    return 0;
}

int fg_tilefile_commit(struct fg_tilefile_writer *w, struct fg_error *err)
{
    int rc = 0;
    if (w->at != w->n_sections)
        rc = fg_fail(err, FG_EFAILED, "tile file", w->file.path, "sections", "all of them full",
                     "%" PRIu64 " of %" PRIu64, w->at, w->n_sections);
    if (rc == 0) rc = write_head(w, err);
    if (rc == 0) rc = fg_atomic_commit(&w->file, err);
    fg_tilefile_abort(w);
    return rc;
}

void fg_tilefile_abort(struct fg_tilefile_writer *w)
{
    if (!w) return;
    fg_atomic_abort(&w->file);
    free(w->sections);
    free(w->head);
    free(w);
}
