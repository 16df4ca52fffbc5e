// runtime/kv.c: memory of keys and values. All of them lie in one place, in which every part of
// every head has a range of addresses of its own:
//
//   [keys: layer 0 head 0 | layer 0 head 1 | ... ] [values: ...] [scales of keys] [of values]
//   a range: [pages with memory .......][pages to come, without access .......]
//
// Growing in place puts memory under more pages of the ranges. Growing by copying takes a new place
// whose ranges have just the pages that are asked for. Shrinking is the same for both.
#include "runtime/kv.h"
#include "base/size.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE // Linux 5.14; older kernels refuse it
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE_BYTES (2ull << 20)
// Each range is two mappings for the kernel, which allows a process 65530 by default.
#define RANGES_MAX 16384

enum part { KEYS, VALUES, KEY_SCALES, VALUE_SCALES, N_PARTS };

struct place {
    uint8_t *base; // NULL: none
    uint64_t bytes;
    uint64_t at[N_PARTS];     // of the first range of a part
    uint64_t stride[N_PARTS]; // from a range to the next
};

struct fg_kv {
    struct fg_kv_shape shape;
    int64_t n_ranges;             // of a part: layers * heads
    uint64_t part_bytes[N_PARTS]; // of a page of one head
    uint64_t os_page;
    bool copies;
    int64_t pages, pages_max;
    struct place place;
    struct fg_kv_head *heads; // [layers][heads]
};

static void count_parts(const struct fg_kv_shape *s, uint64_t bytes[N_PARTS])
{
    bytes[KEYS] = (uint64_t)fg_kv_k_page_bytes(s->format, s->D);
    bytes[VALUES] = (uint64_t)fg_kv_v_page_bytes(s->format, s->D);
    bytes[KEY_SCALES] = fg_kv_k8(s->format) ? FG_KV_PAGE * sizeof(uint16_t) : 0;
    bytes[VALUE_SCALES] = fg_kv_v8(s->format) ? FG_KV_PAGE * sizeof(uint16_t) : 0;
}

// A page of one head, all parts.
static uint64_t head_bytes(const struct fg_kv_shape *s)
{
    uint64_t bytes[N_PARTS];
    count_parts(s, bytes);
    return bytes[KEYS] + bytes[VALUES] + bytes[KEY_SCALES] + bytes[VALUE_SCALES];
}

static uint64_t page_bytes(const struct fg_kv_shape *shape)
{
    return (uint64_t)(shape->n_layers * shape->n_heads) * head_bytes(shape);
}

uint64_t fg_kv_page_bytes(const struct fg_kv *kv)
{
    return page_bytes(&kv->shape);
}

uint64_t fg_kv_position_bytes(const struct fg_kv_shape *shape)
{
    return page_bytes(shape) / FG_KV_PAGE;
}

static int64_t pages_of(int64_t rows)
{
    return (rows + FG_KV_PAGE - 1) / FG_KV_PAGE;
}

// Bytes of a range that hold `pages` pages, in whole pages of the system.
static uint64_t range_bytes(const struct fg_kv *kv, int part, int64_t pages)
{
    uint64_t n = (uint64_t)pages * kv->part_bytes[part];
    return (n + kv->os_page - 1) & ~(kv->os_page - 1);
}

// Ranges for `pages` pages each. `spread`: those that can hold huge pages start at one. False when
// the sizes don't fit.
static bool lay_out(struct place *p, const struct fg_kv *kv, int64_t pages, bool spread)
{
    uint64_t at = 0, bytes;
    *p = (struct place){0};
    for (int part = 0; part < N_PARTS; part++) {
        if (!fg_mul(&bytes, (uint64_t)pages, kv->part_bytes[part])) return false;
        uint64_t align = spread && bytes >= HUGE_BYTES ? HUGE_BYTES : kv->os_page;
        if (!fg_align_up(&p->stride[part], bytes, align) || !fg_align_up(&p->at[part], at, align) ||
            !fg_mul(&bytes, p->stride[part], (uint64_t)kv->n_ranges) ||
            !fg_add(&at, p->at[part], bytes))
            return false;
    }
    p->bytes = at;
    return at <= SIZE_MAX / 2;
}

// Addresses for what was laid out.
static bool map_place(struct place *p, int prot, int flags, uint64_t os_page)
{
    const uint64_t align = p->bytes >= HUGE_BYTES ? HUGE_BYTES : os_page;
    const size_t n = (size_t)(p->bytes + align - os_page);
    uint8_t *raw = mmap(NULL, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (raw == MAP_FAILED) return false;
    const size_t before = (size_t)(-(uintptr_t)raw & (align - 1));
    const size_t after = n - before - (size_t)p->bytes;
    if (before) munmap(raw, before);
    if (after) munmap(raw + before + p->bytes, after);
    p->base = raw + before;
    // A hint. The kernel makes a huge page only where a whole one has access.
    if (p->bytes >= HUGE_BYTES) madvise(p->base, (size_t)p->bytes, MADV_HUGEPAGE);
    return true;
}

static void unmap_place(struct place *p)
{
    if (p->base) munmap(p->base, (size_t)p->bytes);
    *p = (struct place){0};
}

static uint8_t *range(const struct place *p, int part, int64_t i)
{
    return p->base + p->at[part] + (uint64_t)i * p->stride[part];
}

// Memory under [p, p + n), which is empty.
static bool populate(uint8_t *p, uint64_t n, uint64_t os_page)
{
    if (madvise(p, (size_t)n, MADV_POPULATE_WRITE) == 0) return true;
    if (errno != EINVAL) return false;
    for (uint64_t i = 0; i < n; i += os_page)
        *(volatile uint8_t *)(p + i) = 0;
    return true;
}

// Takes memory and access from the pages [to, from) of all ranges. Without access nothing can bring
// the memory back by mistake; that this may fail (too many mappings) does no harm.
static void release(struct fg_kv *kv, int64_t from, int64_t to)
{
    for (int part = 0; part < N_PARTS; part++) {
        const uint64_t a = range_bytes(kv, part, to), b = range_bytes(kv, part, from);
        if (a == b) continue;
        for (int64_t i = 0; i < kv->n_ranges; i++) {
            uint8_t *p = range(&kv->place, part, i) + a;
            madvise(p, (size_t)(b - a), MADV_DONTNEED);
            mprotect(p, (size_t)(b - a), PROT_NONE);
        }
    }
}

static bool extend(struct fg_kv *kv, int64_t from, int64_t to)
{
    for (int part = 0; part < N_PARTS; part++) {
        const uint64_t a = range_bytes(kv, part, from), b = range_bytes(kv, part, to);
        if (a == b) continue;
        for (int64_t i = 0; i < kv->n_ranges; i++) {
            uint8_t *p = range(&kv->place, part, i) + a;
            if (mprotect(p, (size_t)(b - a), PROT_READ | PROT_WRITE) != 0 ||
                !populate(p, b - a, kv->os_page)) {
                release(kv, to, from);
                return false;
            }
        }
    }
    return true;
}

static void point_heads(struct fg_kv *kv)
{
    const struct place *p = &kv->place;
    for (int64_t i = 0; p->base && i < kv->n_ranges; i++) {
        struct fg_kv_head *h = &kv->heads[i];
        h->k = range(p, KEYS, i);
        h->v = range(p, VALUES, i);
        if (fg_kv_k8(h->format)) h->ks = (uint16_t *)(void *)range(p, KEY_SCALES, i);
        if (fg_kv_v8(h->format)) h->vs = (uint16_t *)(void *)range(p, VALUE_SCALES, i);
    }
}

// A place for `pages` pages with the first `kept` ones of the old.
static bool move(struct fg_kv *kv, int64_t pages, int64_t kept)
{
    struct place to;
    if (!lay_out(&to, kv, pages, false) || !map_place(&to, PROT_READ | PROT_WRITE, 0, kv->os_page))
        return false;
    if (!populate(to.base, to.bytes, kv->os_page)) {
        unmap_place(&to);
        return false;
    }
    for (int part = 0; part < N_PARTS && kept > 0; part++)
        for (int64_t i = 0; i < kv->n_ranges; i++)
            memcpy(range(&to, part, i), range(&kv->place, part, i),
                   (size_t)((uint64_t)kept * kv->part_bytes[part]));
    unmap_place(&kv->place);
    kv->place = to;
    point_heads(kv);
    return true;
}

// Addresses for all that may come.
static bool reserve(struct fg_kv *kv)
{
    if (!lay_out(&kv->place, kv, kv->pages_max, true) ||
        !map_place(&kv->place, PROT_NONE, MAP_NORESERVE, kv->os_page)) {
        kv->place = (struct place){0};
        return false;
    }
    point_heads(kv);
    return true;
}

int fg_kv_new(struct fg_kv **out, const struct fg_kv_shape *shape, int64_t rows_max,
              enum fg_kv_backing backing, struct fg_error *err)
{
    *out = NULL;
    struct fg_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return fg_fail_memory(err, "keys and values", sizeof *kv);
    kv->shape = *shape;
    kv->n_ranges = shape->n_layers * shape->n_heads;
    kv->os_page = (uint64_t)sysconf(_SC_PAGESIZE);
    kv->pages_max = pages_of(rows_max);
    count_parts(shape, kv->part_bytes);
    const uint64_t bytes = (uint64_t)kv->n_ranges * sizeof *kv->heads;
    kv->heads = calloc((size_t)kv->n_ranges, sizeof *kv->heads);
    if (!kv->heads) {
        fg_kv_free(kv);
        return fg_fail_memory(err, "keys and values", bytes);
    }
    for (int64_t i = 0; i < kv->n_ranges; i++)
        kv->heads[i] = (struct fg_kv_head){.format = shape->format, .D = shape->D};
    kv->copies = backing == FG_KV_COPY ||
                 (backing == FG_KV_AUTO && kv->n_ranges > RANGES_MAX / N_PARTS) || !reserve(kv);
    if (kv->copies && backing == FG_KV_EXTEND) {
        fg_kv_free(kv);
        return fg_fail(err, FG_ERESOURCE, "keys and values", NULL, "addresses", NULL,
                       "none for %" PRId64 " positions", rows_max);
    }
    *out = kv;
    return 0;
}

void fg_kv_free(struct fg_kv *kv)
{
    if (!kv) return;
    unmap_place(&kv->place);
    free(kv->heads);
    free(kv);
}

const struct fg_kv_shape *fg_kv_shape(const struct fg_kv *kv)
{
    return &kv->shape;
}

bool fg_kv_copies(const struct fg_kv *kv)
{
    return kv->copies;
}

int64_t fg_kv_rows(const struct fg_kv *kv)
{
    return kv->pages * FG_KV_PAGE;
}

int fg_kv_grow(struct fg_kv *kv, int64_t rows, int64_t keep, uint64_t *peak, struct fg_error *err)
{
    const int64_t pages = pages_of(rows), kept = pages_of(keep);
    const uint64_t bytes = page_bytes(&kv->shape); // of a page
    assert(pages <= kv->pages_max && kept <= kv->pages);
    int64_t most = kv->pages;
    if (pages > kv->pages) {
        if (!(kv->copies ? move(kv, pages, kept) : extend(kv, kv->pages, pages)))
            return fg_fail_memory(err, "keys and values", (uint64_t)pages * bytes);
        most = kv->copies ? kv->pages + pages : pages;
        kv->pages = pages;
    }
    if (peak) *peak = (uint64_t)most * bytes;
    return 0;
}

void fg_kv_shrink(struct fg_kv *kv, int64_t rows)
{
    const int64_t pages = pages_of(rows);
    if (pages >= kv->pages) return;
    release(kv, kv->pages, pages);
    kv->pages = pages;
}

const struct fg_kv_head *fg_kv_heads(const struct fg_kv *kv, int64_t layer)
{
    return kv->heads + layer * kv->shape.n_heads;
}

struct fg_kv_head fg_kv_page_head(const struct fg_kv_shape *shape, void *page, int64_t layer,
                                  int64_t head)
{
    uint64_t bytes[N_PARTS];
    count_parts(shape, bytes);
    struct fg_kv_head h = {.format = shape->format, .D = shape->D};
    h.k = (uint8_t *)page + (uint64_t)(layer * shape->n_heads + head) * head_bytes(shape);
    h.v = h.k + bytes[KEYS];
    uint8_t *scales = h.v + bytes[VALUES];
    if (bytes[KEY_SCALES]) h.ks = (uint16_t *)(void *)scales;
    if (bytes[VALUE_SCALES]) h.vs = (uint16_t *)(void *)(scales + bytes[KEY_SCALES]);
    return h;
}

// The head `h` from page `page` on.
static struct fg_kv_head from_page(const struct fg_kv *kv, struct fg_kv_head h, int64_t page)
{
    h.k += (uint64_t)page * kv->part_bytes[KEYS];
    h.v += (uint64_t)page * kv->part_bytes[VALUES];
    if (h.ks) h.ks += page * FG_KV_PAGE;
    if (h.vs) h.vs += page * FG_KV_PAGE;
    return h;
}

static void copy_page(const struct fg_kv *kv, const struct fg_kv_head *to,
                      const struct fg_kv_head *from)
{
    memcpy(to->k, from->k, (size_t)kv->part_bytes[KEYS]);
    memcpy(to->v, from->v, (size_t)kv->part_bytes[VALUES]);
    if (to->ks && from->ks) memcpy(to->ks, from->ks, (size_t)kv->part_bytes[KEY_SCALES]);
    if (to->vs && from->vs) memcpy(to->vs, from->vs, (size_t)kv->part_bytes[VALUE_SCALES]);
}

// Rows [first, last) of the layouts of kernels/kv.h, where the tokens of a row lie apart: arrays
// [blocks][n][tokens][unit bytes].
static void copy_tokens(uint8_t *to, const uint8_t *from, int64_t n, int64_t tokens, int64_t unit,
                        int64_t first, int64_t last)
{
    for (int64_t row = first; row < last;) {
        const int64_t block = row / tokens, lane = row % tokens;
        const int64_t lanes = last - row < tokens - lane ? last - row : tokens - lane;
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = ((block * n + i) * tokens + lane) * unit;
            memcpy(to + at, from + at, (size_t)(lanes * unit));
        }
        row += lanes;
    }
}

static void copy_rows(const struct fg_kv_head *to, const struct fg_kv_head *from, int64_t first,
                      int64_t last)
{
    const int64_t W = fg_kv_width(to->D), n = last - first;
    const enum fg_kv_format f = to->format;
    if (fg_kv_k8(f))
        copy_tokens(to->k, from->k, W / 4, 16, 4, first, last);
    else
        copy_tokens(to->k, from->k, W, 16, f == FG_KV_F32 ? 4 : 2, first, last);
    const int64_t stripe = 32 * FG_KV_PAGE, row = W * (f == FG_KV_F32 ? 4 : 2);
    if (fg_kv_v8(f))
        for (int64_t d = 0; d < W / 32; d++)
            copy_tokens(to->v + d * stripe, from->v + d * stripe, 32, 4, 1, first, last);
    else
        memcpy(to->v + first * row, from->v + first * row, (size_t)(n * row));
    if (to->ks && from->ks) memcpy(to->ks + first, from->ks + first, (size_t)n * sizeof *to->ks);
    if (to->vs && from->vs) memcpy(to->vs + first, from->vs + first, (size_t)n * sizeof *to->vs);
}

void fg_kv_page_get(const struct fg_kv *kv, int64_t page, void *out)
{
    const int64_t n_heads = kv->shape.n_heads;
    for (int64_t i = 0; i < kv->n_ranges; i++) {
        struct fg_kv_head to = fg_kv_page_head(&kv->shape, out, i / n_heads, i % n_heads);
        struct fg_kv_head from = from_page(kv, kv->heads[i], page);
        copy_page(kv, &to, &from);
    }
}

void fg_kv_page_put(struct fg_kv *kv, int64_t page, int64_t first, int64_t last, const void *in)
{
    const int64_t n_heads = kv->shape.n_heads;
    for (int64_t i = 0; i < kv->n_ranges; i++) {
        // Only read: a head has no constant form.
        struct fg_kv_head from = fg_kv_page_head(&kv->shape, (void *)in, i / n_heads, i % n_heads);
        struct fg_kv_head to = from_page(kv, kv->heads[i], page);
        if (first == 0 && last == FG_KV_PAGE)
            copy_page(kv, &to, &from);
        else
            copy_rows(&to, &from, first, last);
    }
}
