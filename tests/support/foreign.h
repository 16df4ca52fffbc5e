// tests/support/foreign.h: the export tests/golden/foreign, in the original's layout, and the model
// that it was made of.
#ifndef FG_TESTS_FOREIGN_H
#define FG_TESTS_FOREIGN_H
#include "base/json.h"
#include "model/needs.h"
#include "quant/export.h"
#include <stdio.h>
#include <stdlib.h>

#define FOREIGN_DIR FORGE_GOLDEN_DIR "/foreign"
#define FOREIGN_MODEL FORGE_GOLDEN_DIR "/models/g-s0"

struct foreign {
    struct fg_arena arena;
    struct fg_config config;
    struct fg_export_need *needs;
    uint64_t n_needs;
};

static inline void foreign_init(struct foreign *f)
{
    struct fg_json doc;
    struct fg_error err = {0};
    fg_arena_init(&f->arena, 0);
    if (fg_json_open(&doc, FOREIGN_MODEL "/config.json", 1 << 20, &err) ||
        fg_config_parse(&f->config, &doc, &f->arena, &err) ||
        fg_model_needs(&f->needs, &f->n_needs, &f->config, &f->arena, &err)) {
        fprintf(stderr, "%s: no model\n", FOREIGN_MODEL);
        exit(1);
    }
    fg_json_close(&doc);
}

static inline void foreign_free(struct foreign *f)
{
    fg_arena_free(&f->arena);
}

// An export of this model that must open. model: FOREIGN_MODEL, or NULL when it needs none.
static inline struct fg_export *foreign_open(const struct foreign *f, const char *dir,
                                             const char *model, struct fg_pool *pool)
{
    struct fg_export *e;
    struct fg_error err = {0};
    char line[1024];
    const struct fg_export_options o = {
        .model_dir = model, .needs = f->needs, .n_needs = f->n_needs, .pool = pool};
    if (fg_export_open(&e, dir, &o, &err)) {
        fprintf(stderr, "%s\n", fg_error_line(&err, line, sizeof line));
        exit(1);
    }
    return e;
}
#endif
