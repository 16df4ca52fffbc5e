// model/packaged.h: quantized weights as a model binds them: an export (quant/export.h) or a build
// (format/build.h) opened, its matrices in tiles, rotations beside them.
#ifndef FG_MODEL_PACKAGED_H
#define FG_MODEL_PACKAGED_H
#include "base/arena.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "model/weights.h"
#include <stdbool.h>

struct fg_packaged; // opaque

// Tiles that exist already: those of a compiled build. False: no matrix of that name.
struct fg_tile_source {
    bool (*find)(const void *ctx, const char *name, struct fg_lut *out);
    const void *ctx;
};

// True when the path is an export or a build: what fg_packaged_open takes.
bool fg_packaged_is(const char *path);

// Opens the files at `path` and parses their config into *cfg (its arrays in `arena`). model_dir:
// where an export's small tensors, embedding and config are if it has none; NULL: nowhere. fill:
// its matrices too, where the export lacks them. tiles NULL: every matrix is packed into memory of
// `arena`. Errors: FG_EINPUT, FG_EINTEGRITY, FG_EUNSUPPORTED, FG_ERESOURCE; *out is then NULL.
int fg_packaged_open(struct fg_packaged **out, struct fg_config *cfg, const char *path,
                     const char *model_dir, bool fill, const struct fg_tile_source *tiles,
                     struct fg_pool *pool, const struct fg_log *log, struct fg_arena *arena,
                     struct fg_error *err);
void fg_packaged_close(struct fg_packaged *p); // NULL is fine

// What fg_weights_bind takes; belongs to p.
const struct fg_tensor_source *fg_packaged_source(const struct fg_packaged *p);
// Directory with tokenizer and chat template.
const char *fg_packaged_text_dir(const struct fg_packaged *p);
#endif
