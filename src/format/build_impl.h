// format/build_impl.h: parts of format/build.c; not for other modules.
#ifndef FG_FORMAT_BUILD_IMPL_H
#define FG_FORMAT_BUILD_IMPL_H
#include "format/build.h"
#include "format/manifest_impl.h"

// Compares m->model with the config.json at `path`; `manifest` is the manifest's path for errors.
// FG_EINPUT where they differ or the config can't be read.
int fg_build_check_config(const char *path, const struct fg_manifest *m, const char *manifest,
                          struct fg_error *err);
#endif
