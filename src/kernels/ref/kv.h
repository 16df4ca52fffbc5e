// kernels/ref/kv.h: rows of a head's pages (layouts: kernels/kv.h), for the plain C kernels.
#ifndef FG_KERNELS_REF_KV_H
#define FG_KERNELS_REF_KV_H
#include "kernels/kv.h"

// The row at `pos` of keys or of values as files have it: D codes (int8), FP16 or FP32.
void fg_kv_row(void *row, const struct fg_kv_head *h, bool keys, int64_t pos);
bool fg_kv_store_ref(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v);
#endif
