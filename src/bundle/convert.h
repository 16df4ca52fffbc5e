// bundle/convert.h: an export becomes a bundle (specs: runtime 1, cli 13): OUTPUT/NAME/model with
// config, tokenizer and embedding, OUTPUT/NAME/forge with chunks of four layers, head and manifest.
// Streams: one matrix at a time. Stopped at any time it leaves only whole files; the same job
// continues.
#ifndef FG_BUNDLE_CONVERT_H
#define FG_BUNDLE_CONVERT_H
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_CONVERT_CHUNK_LAYERS 4
#define FG_CONVERT_CTXS_MAX 32

enum fg_convert_kv { FG_CONVERT_KV_FP16 = 1, FG_CONVERT_KV_V8 = 2, FG_CONVERT_KV_KV8 = 4 };

// done of total bytes are written; item: the file at work. False stops the job (FG_EINTERRUPTED).
typedef bool (*fg_convert_progress_fn)(void *ctx, uint64_t done, uint64_t total, const char *item);

struct fg_convert_options {
    const char *model_dir; // small tensors, embedding, config, tokenizer; NULL: the export has them
    const char *name;      // of the bundle; NULL: the export directory's
    int64_t ctxs[FG_CONVERT_CTXS_MAX]; // context entries, ascending multiples of 256
    int n_ctxs;                        // 0: the ladder of runtime 3.1, cut at the model's positions
    int64_t pctxs[FG_CONVERT_CTXS_MAX]; // entries with prefill, a subset of ctxs
    int n_pctxs;                        // 0: all; -1: none
    int kv;                             // formats offered, of enum fg_convert_kv; 0: all three
    int kv_default;                     // one of them; 0: kv8 if offered, else v8, else fp16
    const char *upstream_id, *upstream_revision; // provenance for the manifest; NULL: unknown
    bool dry_run;         // check everything, write nothing; the result has no digests
    struct fg_pool *pool; // NULL: one thread
    const struct fg_log *log;
    fg_convert_progress_fn progress;
    void *ctx;
};

struct fg_convert_result {
    char *dir;   // of the bundle, malloc'd
    char *build; // its directory of packages, malloc'd
    char digest[FG_SHA256_HEX];
    char head[FG_SHA256_HEX];
    uint64_t n_files, n_kept; // written in all, of those found whole from an earlier run
    uint64_t bytes;           // of all files
};
void fg_convert_result_free(struct fg_convert_result *r); // zeroed is fine

// Errors: FG_EINPUT (export or options), FG_EINTEGRITY (OUTPUT/NAME belongs to another job, or the
// digest that the export declares is another), FG_ERESOURCE (disk, memory; checked first), FG_EBUSY
// (another run), FG_EINTERRUPTED. On failure *result is zeroed.
int fg_convert(struct fg_convert_result *result, const char *export_dir, const char *output,
               const struct fg_convert_options *o, struct fg_error *err);
#endif
