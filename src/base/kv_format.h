// base/kv_format.h: how keys and values of a conversation are stored (specs: runtime 4.1). The
// names are those of manifests and options.
#ifndef FG_BASE_KV_FORMAT_H
#define FG_BASE_KV_FORMAT_H
#include <stdbool.h>

enum fg_kv_format {
    FG_KV_FP16,                  // keys and values in FP16
    FG_KV_V8,                    // keys in FP16, values in INT8
    FG_KV_KV8,                   // both in INT8
    FG_KV_N_FORMATS,             // those that a manifest can offer
    FG_KV_F32 = FG_KV_N_FORMATS, // the reference: checkpoints in exact mode, tests
    FG_KV_N_ALL
};
const char *fg_kv_format_name(enum fg_kv_format f);                  // "fp16", "v8", "kv8", "f32"
bool fg_kv_format_of_name(const char *name, enum fg_kv_format *out); // false: no such name

// INT8 keys / values with one FP16 scale per token and head?
static inline bool fg_kv_k8(enum fg_kv_format f)
{
    return f == FG_KV_KV8;
}

static inline bool fg_kv_v8(enum fg_kv_format f)
{
    return f == FG_KV_KV8 || f == FG_KV_V8;
}
#endif
