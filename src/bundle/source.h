// bundle/source.h: quantized weights wherever they lie: an export, a build (a directory with
// manifest.json), a bundle (with a build in it), one package file. The kind is found by content.
#ifndef FG_BUNDLE_SOURCE_H
#define FG_BUNDLE_SOURCE_H
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "format/qset.h"
#include "model/config.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_source; // opaque
struct fg_export;
struct fg_build;
struct fg_package;

enum fg_source_kind { FG_SOURCE_NONE, FG_SOURCE_EXPORT, FG_SOURCE_BUILD, FG_SOURCE_PACKAGE };
// FG_SOURCE_NONE: nothing of these. Reads directory entries and at most a file's header.
enum fg_source_kind fg_source_kind(const char *path);

struct fg_source_options {
    const char *model_dir; // for exports, as quant/export.h says; NULL: none
    struct fg_pool *pool;
    const struct fg_log *log;
    bool partial; // an export may lack tensors that its model needs: for inspection
};

// Opens and checks against the config at hand (of the export, the build or model_dir). Errors as
// fg_export_open and the package reader's; *out is then NULL.
int fg_source_open(struct fg_source **out, const char *path, const struct fg_source_options *o,
                   struct fg_error *err);
void fg_source_close(struct fg_source *s); // NULL is fine

enum fg_source_kind fg_source_kind_of(const struct fg_source *s);
// All its matrices, small tensors and rotations.
const struct fg_qset *fg_source_set(const struct fg_source *s);
// NULL when the source is of another kind.
const struct fg_export *fg_source_export(const struct fg_source *s);
const struct fg_build *fg_source_build(const struct fg_source *s);
const struct fg_package *fg_source_package(const struct fg_source *s);
// NULL when no config.json was found.
const struct fg_config *fg_source_config(const struct fg_source *s);
// Directory of the build (with manifest.json), of the export, or the package's path.
const char *fg_source_path(const struct fg_source *s);
#endif
