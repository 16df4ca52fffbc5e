// quant/tilefile.c: a tile file opened, checked as hostile input, and looked up. Everything in it
// but the numbers follows from the shapes of its matrices, so reading compares with what writing
// would have laid out.
#include "quant/tilefile.h"
#include "base/crc32c.h"
#include "base/size.h"
#include "quant/tilefile_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ // Linux 5.14
#define MADV_POPULATE_READ 22
#endif

#define SECTIONS_MAX ((uint64_t)FG_TILE_MATS_MAX * FG_TILE_KINDS)

struct section {
    uint64_t offset, bytes;
    uint64_t crcs; // offset of its values
};

struct mat {
    uint64_t hash;
    struct fg_lut lut;
};

struct fg_tilefile {
    char *path;
    int fd; // holds the shared lock
    const uint8_t *data;
    uint64_t bytes;
    bool copy;
    char sha256[FG_SHA256_HEX];
    struct section *sections;
    uint64_t n_sections;
    struct mat *mats; // by hash
    uint64_t n_mats;
};

static int damaged(const struct fg_tilefile *t, struct fg_error *err, const char *field,
                   const char *expected, const char *found)
{
    return fg_fail(err, FG_EINTEGRITY, "tile file", t->path, field, expected, "%s", found);
}

static int differs(const struct fg_tilefile *t, struct fg_error *err, uint64_t section,
                   const char *part, uint64_t expected, uint64_t found)
{
    char field[64], want[24];
    snprintf(field, sizeof field, "%s of section %" PRIu64, part, section);
    snprintf(want, sizeof want, "%" PRIu64, expected);
    return fg_fail(err, FG_EINTEGRITY, "tile file", t->path, field, want, "%" PRIu64, found);
}

// ---- bytes

// Pages of these may fail to arrive, which kills a process that has mapped them.
static bool is_remote(int fd)
{
    static const uint32_t types[] = {
        0x6969u,     // NFS
        0x517Bu,     // SMB
        0xFE534D42u, // SMB2
        0xFF534D42u, // CIFS
        0x65735546u, // FUSE
        0x01021997u, // 9P
        0x00C36400u, // Ceph
        0x2011BAB0u, // exFAT
        0x4D44u,     // FAT
    };
    struct statfs st;
    if (fstatfs(fd, &st) != 0) return false;
    for (size_t i = 0; i < FG_COUNT(types); i++)
        if ((uint32_t)st.f_type == types[i]) return true;
    return false;
}

struct reading {
    int fd;
    uint8_t *to;
    uint64_t bytes;
    atomic_int error; // errno; -1: the file ended
};

static void read_block(void *ctx, int64_t item, int worker)
{
    struct reading *r = ctx;
    uint64_t at = (uint64_t)item * FG_TILE_CRC_BLOCK, end = at + FG_TILE_CRC_BLOCK;
    (void)worker;
    if (end > r->bytes) end = r->bytes;
    while (at < end) {
        ssize_t n = pread(r->fd, r->to + at, (size_t)(end - at), (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            atomic_store(&r->error, n < 0 ? errno : -1);
            return;
        }
        at += (uint64_t)n;
    }
}

static void for_each(struct fg_pool *pool, uint64_t n, fg_job_fn fn, void *ctx)
{
    if (pool) {
        fg_pool_run(pool, (int64_t)n, fn, ctx);
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        fn(ctx, (int64_t)i, 0);
}

static int get_bytes(struct fg_tilefile *t, struct fg_pool *pool, struct fg_error *err)
{
    size_t size;
    if (!fg_to_size(&size, t->bytes)) return fg_fail_memory(err, "tile file", t->bytes);
    void *p = t->copy ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                      : mmap(NULL, size, PROT_READ, MAP_SHARED, t->fd, 0);
    if (p == MAP_FAILED) return fg_fail_errno(err, t->path, "map", errno);
    t->data = p;
    if (!t->copy) {
        madvise(p, size, MADV_WILLNEED);
        return 0;
    }
    madvise(p, size, MADV_HUGEPAGE);
    struct reading r = {.fd = t->fd, .to = p, .bytes = t->bytes};
    for_each(pool, fg_tile_blocks(t->bytes), read_block, &r);
    int e = atomic_load(&r.error);
    if (e == -1) return damaged(t, err, "size", "the size it had when opened", "less");
    if (e) return fg_fail_errno(err, t->path, "read", e);
    posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED); // there need not be two copies in memory
    mprotect(p, size, PROT_READ);
    return 0;
}

static int open_file(struct fg_tilefile *t, const char *path, enum fg_tilefile_memory memory,
                     struct fg_error *err)
{
    struct stat st;
    t->path = strdup(path);
    if (!t->path) return fg_fail_memory(err, "tile file", strlen(path));
    do
        t->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (t->fd < 0 && errno == EINTR);
    if (t->fd < 0) return fg_fail_errno(err, path, "open", errno);
    if (fstat(t->fd, &st) != 0) return fg_fail_errno(err, path, "stat", errno);
    if (!S_ISREG(st.st_mode)) return damaged(t, err, "type", "a regular file", "another kind");
    // File systems without locks are used without: then nobody may clear the cache meanwhile.
    while (flock(t->fd, LOCK_SH) != 0 && errno == EINTR)
        ;
    // Size and links after the lock: `cache clear` may have been faster.
    if (fstat(t->fd, &st) != 0) return fg_fail_errno(err, path, "stat", errno);
    if (st.st_nlink == 0) return fg_fail_errno(err, path, "open", ENOENT);
    t->bytes = (uint64_t)st.st_size;
    t->copy = memory == FG_TILEFILE_COPY || (memory == FG_TILEFILE_AUTO && is_remote(t->fd));
    return 0;
}

// ---- header and table

static int check_text(const struct fg_tilefile *t, uint64_t at, const char *field,
                      const char *expected, struct fg_error *err)
{
    char want[16] = "", found[64];
    memcpy(want, expected, strlen(expected));
    if (memcmp(t->data + at, want, sizeof want) == 0) return 0;
    size_t n = strnlen((const char *)t->data + at, sizeof want);
    return damaged(t, err, field, expected,
                   fg_escape(found, sizeof found, (const char *)t->data + at, n));
}

static void sha_of_header(struct fg_tilefile *t)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        t->sha256[2 * i] = digits[t->data[FG_TILE_AT_SHA + i] >> 4];
        t->sha256[2 * i + 1] = digits[t->data[FG_TILE_AT_SHA + i] & 15];
    }
}

static int check_header(struct fg_tilefile *t, const struct fg_tilefile_expect *x,
                        struct fg_error *err)
{
    const uint8_t *h = t->data;
    uint32_t abi = x->abi ? x->abi : FG_TILE_ABI;
    char want[24], found[24];
    if (memcmp(h, FG_TILE_MAGIC, sizeof FG_TILE_MAGIC) != 0)
        return damaged(t, err, "magic", FG_TILE_MAGIC, "other bytes");
    if (fg_tile_get32(h + FG_TILE_AT_VERSION) != FG_TILE_VERSION)
        return damaged(t, err, "version", "1", "another number");
    if (fg_tile_get32(h + FG_TILE_AT_ABI) != abi) {
        snprintf(want, sizeof want, "%" PRIu32, abi);
        snprintf(found, sizeof found, "%" PRIu32, fg_tile_get32(h + FG_TILE_AT_ABI));
        return damaged(t, err, "tile ABI", want, found);
    }
    int rc = check_text(t, FG_TILE_AT_ISA, "isa", FG_TILE_ISA, err);
    if (rc == 0)
        rc =
            check_text(t, FG_TILE_AT_LAYOUT, "layout", x->layout ? x->layout : FG_TILE_LAYOUT, err);
    if (rc) return rc;
    sha_of_header(t);
    if (x->sha256 && strcmp(x->sha256, t->sha256) != 0)
        return damaged(t, err, "sha256", x->sha256, t->sha256);
    uint64_t bytes = fg_tile_get64(h + FG_TILE_AT_SIZE);
    if (bytes != t->bytes) {
        snprintf(want, sizeof want, "%" PRIu64 " bytes", bytes);
        snprintf(found, sizeof found, "%" PRIu64, t->bytes);
        return damaged(t, err, "size", want, found);
    }
    t->n_sections = fg_tile_get32(h + FG_TILE_AT_SECTIONS);
    if (t->n_sections > SECTIONS_MAX ||
        t->n_sections > (t->bytes - FG_TILE_PAGE) / FG_TILE_ROW_BYTES)
        return damaged(t, err, "sections", "a table inside the file", "more");
    return 0;
}

// Checks the CRC of everything before the first section, whose offset goes to *head_bytes.
static int check_head_crc(const struct fg_tilefile *t, uint64_t *head_bytes, struct fg_error *err)
{
    uint64_t blocks = 0;
    for (uint64_t i = 0; i < t->n_sections; i++) {
        const uint8_t *row = t->data + FG_TILE_PAGE + i * FG_TILE_ROW_BYTES;
        uint64_t bytes = fg_tile_get64(row + FG_TILE_ROW_SIZE);
        if (bytes == 0 || bytes > t->bytes) return differs(t, err, i, "bytes", t->bytes, bytes);
        blocks += fg_tile_blocks(bytes);
    }
    uint64_t end = FG_TILE_PAGE + t->n_sections * FG_TILE_ROW_BYTES + blocks * sizeof(uint32_t);
    end = (end + FG_TILE_PAGE - 1) & ~(uint64_t)(FG_TILE_PAGE - 1);
    if (end > t->bytes) return damaged(t, err, "sections", "a table inside the file", "more");
    static const uint8_t zero[4];
    uint32_t crc = fg_crc32c(0, t->data, FG_TILE_AT_CRC);
    crc = fg_crc32c(crc, zero, sizeof zero);
    crc = fg_crc32c(crc, t->data + FG_TILE_AT_END, end - FG_TILE_AT_END);
    if (crc != fg_tile_get32(t->data + FG_TILE_AT_CRC))
        return damaged(t, err, "header", "its CRC-32C", "another one");
    *head_bytes = end;
    return 0;
}

static void point(struct fg_lut *l, enum fg_tile_kind kind, const uint8_t *p)
{
    switch (kind) {
    case FG_TILE_TILES: l->tiles = p; break;
    case FG_TILE_TABLE: l->table = (const float *)(const void *)p; break;
    case FG_TILE_TABLE_U8: l->table_u8 = p; break;
    case FG_TILE_SCALE: l->scale = (const float *)(const void *)p; break;
    case FG_TILE_SCALE_TS: l->scale_ts = (const float *)(const void *)p; break;
    case FG_TILE_LR_A:
    case FG_TILE_LR_A8: l->lr_a = p; break;
    case FG_TILE_LR_B:
    case FG_TILE_LR_B8: l->lr_b = p; break;
    case FG_TILE_LR_SCALE: l->lr_scale = (const float *)(const void *)p; break;
    }
}

// Where the next section and its CRC values must be.
struct cursor {
    uint64_t section, offset, crcs;
};

// The shape of the matrix whose sections begin at row `at`, from the first row and, for the rank,
// the row of its first factor.
static int shape_at(const struct fg_tilefile *t, uint64_t at, struct fg_tilefile_mat *m,
                    struct fg_error *err)
{
    const uint8_t *row = t->data + FG_TILE_PAGE + at * FG_TILE_ROW_BYTES;
    uint32_t layout = fg_tile_get32(row + FG_TILE_ROW_LAYOUT);
    uint32_t n_out = fg_tile_get32(row + FG_TILE_ROW_ROWS);
    uint32_t n_in = fg_tile_get32(row + FG_TILE_ROW_COLS);
    if (fg_tile_get32(row + FG_TILE_ROW_KIND) != FG_TILE_TILES)
        return differs(t, err, at, "kind", FG_TILE_TILES, fg_tile_get32(row + FG_TILE_ROW_KIND));
    if (layout >= FG_N_LAYOUTS) return differs(t, err, at, "layout", FG_N_LAYOUTS - 1, layout);
    if (n_out < 1 || n_out > UINT32_MAX / 4 || n_in < 1 || n_in > UINT32_MAX / 4)
        return damaged(t, err, "rows and columns", "from 1 to 2^30", "another number");
    *m = (struct fg_tilefile_mat){
        .layout = (enum fg_layout)layout, .n_out = (int64_t)n_out, .n_in = (int64_t)n_in};
    uint64_t factor = at + (layout == FG_I8 ? 3 : 5); // after tiles, tables and scales
    if (factor < t->n_sections) {
        const uint8_t *f = t->data + FG_TILE_PAGE + factor * FG_TILE_ROW_BYTES;
        uint32_t rank = fg_tile_get32(f + FG_TILE_ROW_COLS);
        uint32_t kind = fg_tile_get32(f + FG_TILE_ROW_KIND);
        if (kind == FG_TILE_LR_A || kind == FG_TILE_LR_A8) {
            m->lr_dtype = kind == FG_TILE_LR_A8 ? FG_LR_I8 : FG_LR_F16;
            if (rank < 1 || rank > FG_TILE_RANK_MAX)
                return differs(t, err, factor, "columns", FG_TILE_RANK_MAX, rank);
            m->rank = (int64_t)rank;
        }
    }
    return 0;
}

static int take_section(struct fg_tilefile *t, struct cursor *c, uint64_t hash,
                        const struct fg_tilefile_mat *m, enum fg_tile_kind kind, struct fg_lut *lut,
                        struct fg_error *err)
{
    uint64_t i = c->section, bytes = fg_tilefile_section_bytes(m, kind);
    if (i == t->n_sections) return damaged(t, err, "sections", "all of the last matrix", "fewer");
    const uint8_t *row = t->data + FG_TILE_PAGE + i * FG_TILE_ROW_BYTES;
    uint32_t rows, cols;
    fg_tile_section_shape(m, kind, &rows, &cols);
    uint64_t offset = (c->offset + FG_TILE_PAGE - 1) & ~(uint64_t)(FG_TILE_PAGE - 1);
    const struct {
        const char *part;
        uint64_t expected, found;
    } fields[] = {
        {"name", hash, fg_tile_get64(row + FG_TILE_ROW_NAME)},
        {"kind", kind, fg_tile_get32(row + FG_TILE_ROW_KIND)},
        {"rows", rows, fg_tile_get32(row + FG_TILE_ROW_ROWS)},
        {"columns", cols, fg_tile_get32(row + FG_TILE_ROW_COLS)},
        {"layout", m->layout, fg_tile_get32(row + FG_TILE_ROW_LAYOUT)},
        {"bytes", bytes, fg_tile_get64(row + FG_TILE_ROW_SIZE)},
        {"offset", offset, fg_tile_get64(row + FG_TILE_ROW_OFFSET)},
        {"CRC block", FG_TILE_CRC_BLOCK, fg_tile_get32(row + FG_TILE_ROW_BLOCK)},
        {"CRC offset", c->crcs, fg_tile_get64(row + FG_TILE_ROW_CRCS)},
    };
    for (size_t f = 0; f < FG_COUNT(fields); f++)
        if (fields[f].expected != fields[f].found)
            return differs(t, err, i, fields[f].part, fields[f].expected, fields[f].found);
    if (offset > t->bytes || bytes > t->bytes - offset)
        return differs(t, err, i, "end", t->bytes, offset + bytes);
    point(lut, kind, t->data + offset);
    t->sections[i] = (struct section){.offset = offset, .bytes = bytes, .crcs = c->crcs};
    c->section++;
    c->offset = offset + bytes;
    c->crcs += fg_tile_blocks(bytes) * sizeof(uint32_t);
    return 0;
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = ((const struct mat *)a)->hash, y = ((const struct mat *)b)->hash;
    return (x > y) - (x < y);
}

static int read_table(struct fg_tilefile *t, uint64_t head_bytes, struct fg_error *err)
{
    t->sections = calloc((size_t)t->n_sections + 1, sizeof *t->sections);
    t->mats = calloc((size_t)t->n_sections + 1, sizeof *t->mats);
    if (!t->sections || !t->mats) return fg_fail_memory(err, "tile file", t->n_sections);
    struct cursor c = {.offset = head_bytes,
                       .crcs = FG_TILE_PAGE + t->n_sections * FG_TILE_ROW_BYTES};
    while (c.section < t->n_sections) {
        struct fg_tilefile_mat m;
        struct mat *mat = &t->mats[t->n_mats];
        int rc = shape_at(t, c.section, &m, err);
        if (rc) return rc;
        mat->hash = fg_tile_get64(t->data + FG_TILE_PAGE + c.section * FG_TILE_ROW_BYTES);
        mat->lut = (struct fg_lut){
            .layout = m.layout, .n_out = m.n_out, .n_in = m.n_in, .rank = (int)m.rank};
        for (int k = 1; k <= FG_TILE_KINDS; k++) {
            enum fg_tile_kind kind = (enum fg_tile_kind)k;
            if (fg_tilefile_section_bytes(&m, kind) == 0) continue;
            rc = take_section(t, &c, mat->hash, &m, kind, &mat->lut, err);
            if (rc) return rc;
        }
        t->n_mats++;
    }
    if (c.offset != t->bytes) return damaged(t, err, "size", "the end of the last section", "more");
    qsort(t->mats, (size_t)t->n_mats, sizeof *t->mats, by_hash);
    for (uint64_t i = 1; i < t->n_mats; i++)
        if (t->mats[i].hash == t->mats[i - 1].hash)
            return damaged(t, err, "names", "each once", "one twice");
    return 0;
}

// ---- contents

struct checking {
    const struct fg_tilefile *t;
    const uint64_t *first; // [n_sections]: number of a section's first block
    _Atomic uint64_t bad;  // lowest block that is damaged
};

// Section of block `item`: the last one whose first block is not beyond it.
static uint64_t section_of(const struct checking *c, uint64_t item)
{
    uint64_t lo = 0, hi = c->t->n_sections;
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (c->first[mid] <= item)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static void check_block(void *ctx, int64_t item, int worker)
{
    struct checking *c = ctx;
    const struct fg_tilefile *t = c->t;
    uint64_t number = (uint64_t)item, i = section_of(c, number);
    const struct section *s = &t->sections[i];
    uint64_t block = number - c->first[i], at = block * FG_TILE_CRC_BLOCK;
    uint64_t n = s->bytes - at < FG_TILE_CRC_BLOCK ? s->bytes - at : FG_TILE_CRC_BLOCK;
    const uint8_t *p = t->data + s->offset + at;
    (void)worker;
    // Maps the block's pages in one call; sections begin on pages, and blocks are multiples of
    // them. Where the kernel does not know the call, reading maps them one by one.
    if (!t->copy) madvise((void *)p, (size_t)n, MADV_POPULATE_READ);
    uint32_t want = fg_tile_get32(t->data + s->crcs + block * sizeof(uint32_t));
    if (fg_crc32c(0, p, n) == want) return;
    uint64_t bad = atomic_load(&c->bad);
    while (number < bad && !atomic_compare_exchange_weak(&c->bad, &bad, number))
        ;
}

static int check_blocks(const struct fg_tilefile *t, struct fg_pool *pool, struct fg_error *err)
{
    uint64_t *first = malloc((size_t)(t->n_sections + 1) * sizeof *first), n = 0;
    if (!first) return fg_fail_memory(err, "tile file", t->n_sections * sizeof *first);
    for (uint64_t i = 0; i < t->n_sections; i++) {
        first[i] = n;
        n += fg_tile_blocks(t->sections[i].bytes);
    }
    struct checking c = {.t = t, .first = first, .bad = UINT64_MAX};
    for_each(pool, n, check_block, &c);
    int rc = 0;
    uint64_t bad = atomic_load(&c.bad);
    if (bad != UINT64_MAX) {
        char field[80];
        uint64_t i = section_of(&c, bad);
        snprintf(field, sizeof field, "block %" PRIu64 " of section %" PRIu64, bad - first[i], i);
        rc = damaged(t, err, field, "its CRC-32C", "another one");
    }
    free(first);
    return rc;
}

static int check_gaps(const struct fg_tilefile *t, struct fg_error *err)
{
    for (uint64_t i = 0; i + 1 < t->n_sections; i++)
        for (uint64_t at = t->sections[i].offset + t->sections[i].bytes;
             at < t->sections[i + 1].offset; at++)
            if (t->data[at]) return differs(t, err, i, "byte after the end", 0, t->data[at]);
    return 0;
}

static bool all_finite(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

static int check_numbers(const struct fg_tilefile *t, struct fg_error *err)
{
    for (uint64_t i = 0; i < t->n_mats; i++) {
        const struct fg_lut *l = &t->mats[i].lut;
        int64_t rows = fg_layout_groups(l->layout, l->n_out) * fg_layout_rows(l->layout);
        if ((l->table && !all_finite(l->table, 128)) || !all_finite(l->scale, rows) ||
            !all_finite(l->scale_ts, rows) || (l->lr_scale && !all_finite(l->lr_scale, l->rank)))
            return damaged(t, err, "tables and scales", "finite numbers", "another");
    }
    return 0;
}

int fg_tilefile_open(struct fg_tilefile **out, const char *path,
                     const struct fg_tilefile_expect *expect, enum fg_tilefile_verify verify,
                     struct fg_pool *pool, struct fg_error *err)
{
    *out = NULL;
    struct fg_tilefile *t = calloc(1, sizeof *t);
    if (!t) return fg_fail_memory(err, "tile file", sizeof *t);
    t->fd = -1;
    uint64_t head_bytes = 0;
    int rc = open_file(t, path, expect->memory, err);
    if (rc == 0 && t->bytes < FG_TILE_PAGE)
        rc = damaged(t, err, "size", "at least 4096 bytes", "less");
    if (rc == 0) rc = get_bytes(t, pool, err);
    if (rc == 0) rc = check_header(t, expect, err);
    if (rc == 0) rc = check_head_crc(t, &head_bytes, err);
    if (rc == 0) rc = read_table(t, head_bytes, err);
    if (rc == 0 && verify == FG_TILEFILE_BLOCKS) {
        rc = check_blocks(t, pool, err);
        if (rc == 0) rc = check_gaps(t, err);
        if (rc == 0) rc = check_numbers(t, err);
    }
    if (rc) {
        fg_tilefile_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void fg_tilefile_close(struct fg_tilefile *t)
{
    if (!t) return;
    if (t->data) munmap((void *)t->data, (size_t)t->bytes);
    if (t->fd >= 0) close(t->fd);
    free(t->mats);
    free(t->sections);
    free(t->path);
    free(t);
}

bool fg_tilefile_lut(const struct fg_tilefile *t, const char *name, struct fg_lut *out)
{
    struct mat key = {.hash = fg_fnv1a(name, strlen(name))};
    const struct mat *m = bsearch(&key, t->mats, (size_t)t->n_mats, sizeof *t->mats, by_hash);
    if (!m) return false;
    *out = m->lut;
    return true;
}

const char *fg_tilefile_path(const struct fg_tilefile *t)
{
    return t->path;
}

const char *fg_tilefile_sha256(const struct fg_tilefile *t)
{
    return t->sha256;
}

uint64_t fg_tilefile_size(const struct fg_tilefile *t)
{
    return t->bytes;
}

uint64_t fg_tilefile_n_mats(const struct fg_tilefile *t)
{
    return t->n_mats;
}

bool fg_tilefile_is_copy(const struct fg_tilefile *t)
{
    return t->copy;
}

int fg_tilefile_lock(const struct fg_tilefile *t, struct fg_error *err)
{
    if (mlock(t->data, (size_t)t->bytes) == 0) return 0;
    if (errno == EPERM || errno == ENOMEM || errno == EAGAIN) {
        int rc =
            fg_fail(err, FG_ERESOURCE, "mlock", t->path, "memlock",
                    "a limit of at least the file's size", "less than %" PRIu64 " bytes", t->bytes);
        fg_error_hint(err, "ulimit -l unlimited");
        return rc;
    }
    return fg_fail_errno(err, t->path, "lock", errno);
}
