// kernels/neon/kv.h: what attn.c needs of kv.c.
#ifndef FG_KERNELS_NEON_KV_H
#define FG_KERNELS_NEON_KV_H
#include "kernels/kv.h"

bool fg_kv_store_neon(const struct fg_kv_head *h, int64_t pos, const float *k, const float *v);
#endif
