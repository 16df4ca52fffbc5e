// runtime/kv.h: memory of keys and values of one session (specs: runtime 3.1, 4.2). Growth and
// shrinking in place of one reserved range of addresses, or by copying; which rows mean something
// is the session's business. Not thread-safe.
#ifndef FG_RUNTIME_KV_H
#define FG_RUNTIME_KV_H
#include "base/error.h"
#include "base/kv_format.h"
#include "kernels/kv.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_kv; // opaque

struct fg_kv_shape {
    int64_t n_layers; // full attention layers
    int64_t n_heads;  // KV heads
    int64_t D;
    enum fg_kv_format format;
};
// Bytes of one position over all layers and heads, scales included.
uint64_t fg_kv_position_bytes(const struct fg_kv_shape *shape);

enum fg_kv_backing {
    FG_KV_AUTO,   // in place; by copying where addresses can't be reserved
    FG_KV_EXTEND, // in place, or fail
    FG_KV_COPY    // by copying
};

// Room for nothing yet; up to rows_max positions later. Errors: FG_ERESOURCE; *out is then NULL.
int fg_kv_new(struct fg_kv **out, const struct fg_kv_shape *shape, int64_t rows_max,
              enum fg_kv_backing backing, struct fg_error *err);
void fg_kv_free(struct fg_kv *kv); // NULL is fine
const struct fg_kv_shape *fg_kv_shape(const struct fg_kv *kv);
bool fg_kv_copies(const struct fg_kv *kv);  // growing copies
int64_t fg_kv_rows(const struct fg_kv *kv); // positions with memory, in whole pages

// Memory for `rows` positions (at most rows_max), all of it touched; the first `keep` rows keep
// their content. A no-op when there is as much. *peak (NULL: unwanted) receives the most bytes that
// keys and values had at once. Errors: FG_ERESOURCE, with nothing changed.
int fg_kv_grow(struct fg_kv *kv, int64_t rows, int64_t keep, uint64_t *peak, struct fg_error *err);
// Gives the memory of positions from `rows` on back to the system, at once.
void fg_kv_shrink(struct fg_kv *kv, int64_t rows);

// The heads of a full attention layer (counted among those), [n_heads]. The array stays where it is
// until fg_kv_free; its members follow growth and shrinking.
const struct fg_kv_head *fg_kv_heads(const struct fg_kv *kv, int64_t layer);

// One page of all layers and heads, [layer][head]{keys, values, scales of keys, of values}, each as
// it is in memory: fg_kv_page_bytes, FG_KV_PAGE times fg_kv_position_bytes. Page numbers below
// fg_kv_rows / FG_KV_PAGE.
uint64_t fg_kv_page_bytes(const struct fg_kv *kv);
void fg_kv_page_get(const struct fg_kv *kv, int64_t page, void *out);
// Rows [first, last) of the page, from what fg_kv_page_get gave.
void fg_kv_page_put(struct fg_kv *kv, int64_t page, int64_t first, int64_t last, const void *in);
// One head of such a copy, as a head of FG_KV_PAGE positions; `page` is 64-byte aligned.
struct fg_kv_head fg_kv_page_head(const struct fg_kv_shape *shape, void *page, int64_t layer,
                                  int64_t head);
#endif
