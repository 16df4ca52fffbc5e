// cli/inspect.h: what the files of `forge inspect` share.
#ifndef FG_CLI_INSPECT_H
#define FG_CLI_INSPECT_H
#include "cli/cli.h"
#include "model/config.h"

struct fg_source;

// The lines that describe a text model, and the member "config" (null for NULL).
void fg_inspect_config(const struct fg_config *c);
void fg_inspect_config_json(struct fg_jwrite *w, const struct fg_config *c);

// True when the path holds quantized weights or a manifest: fg_inspect_weights is for it.
bool fg_inspect_is_weights(const char *path);
// inspect_weights.c: exports, builds, bundles, packages, manifests. Options as `forge inspect` has.
int fg_inspect_weights(struct fg_cli *cli, struct fg_error *err);

// inspect_matrix.c: the list of matrices and tensors that match, one of them.
int fg_inspect_matrices(struct fg_cli *cli, const struct fg_source *s, const char *pattern,
                        struct fg_error *err);
int fg_inspect_matrix(struct fg_cli *cli, const struct fg_source *s, const char *name,
                      struct fg_error *err);

// inspect_manifest.c: a manifest of either version as lines or as the members of an object. `path`
// is the file. FG_EINPUT and so on for one that is damaged.
int fg_inspect_manifest(struct fg_cli *cli, const char *path, struct fg_jwrite *w,
                        struct fg_error *err);
#endif
