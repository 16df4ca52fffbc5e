// format/manifest_impl.h: what reading, checking and writing of manifests share; not for others.
#ifndef FG_FORMAT_MANIFEST_IMPL_H
#define FG_FORMAT_MANIFEST_IMPL_H
#include "format/manifest.h"

#define FG_MANIFEST_WHAT "manifest"

// What a KV format's object in kv_cache.formats says; NULL is JSON's null.
struct fg_kv_description {
    const char *keys, *values, *scales, *granularity;
};
extern const struct fg_kv_description fg_kv_descriptions[FG_KV_N_FORMATS];

// "f16", "int8", "head".
const char *fg_manifest_embedding_dtype(enum fg_embedding_kind kind);

// The part of fg_manifest_check that concerns ctxs and pctxs alone.
int fg_manifest_check_entries(const struct fg_manifest *m, const char *file, struct fg_error *err);
#endif
