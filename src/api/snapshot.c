// api/snapshot.c: public snapshots over runtime/snapshot.h.
#include "runtime/snapshot.h"
#include "api/engine.h"
#include <stdlib.h>

struct forge_snapshot {
    struct fg_snapshot *snap;
};

// Gives what `rc` says was made a public face.
static int give(struct forge_snapshot **out, struct fg_snapshot *snap, int rc, struct fg_error *err)
{
    *out = NULL;
    if (rc) return rc;
    struct forge_snapshot *s = malloc(sizeof *s);
    if (!s) {
        fg_snapshot_free(snap);
        return fg_fail_memory(err, "snapshot", sizeof *s);
    }
    s->snap = snap;
    *out = s;
    return 0;
}

int forge_snapshot_take(struct forge_snapshot **out, struct forge_session *s,
                        enum forge_snapshot_rows rows, struct fg_error *err)
{
    struct fg_snapshot *snap = NULL;
    const enum fg_snapshot_rows kept =
        rows == FORGE_SNAPSHOT_LIVE ? FG_SNAPSHOT_LIVE : FG_SNAPSHOT_DETACH;
    int rc = fg_snapshot_take(&snap, s->run, kept, err);
    return give(out, snap, rc, err);
}

void forge_snapshot_free(struct forge_snapshot *snap)
{
    if (!snap) return;
    fg_snapshot_free(snap->snap);
    free(snap);
}

int64_t forge_snapshot_pos(const struct forge_snapshot *snap)
{
    return fg_snapshot_pos(snap->snap);
}

const int32_t *forge_snapshot_ids(const struct forge_snapshot *snap)
{
    return fg_snapshot_ids(snap->snap);
}

bool forge_snapshot_valid(const struct forge_snapshot *snap)
{
    return fg_snapshot_valid(snap->snap);
}

uint64_t forge_snapshot_bytes(const struct forge_snapshot *snap)
{
    return fg_snapshot_bytes(snap->snap);
}

int forge_snapshot_detach(struct forge_snapshot *snap, int64_t row, struct fg_error *err)
{
    return fg_snapshot_detach(snap->snap, row, err);
}

int forge_snapshot_restore(struct forge_session *s, struct forge_snapshot *snap,
                           int64_t rows_needed, struct fg_error *err)
{
    return fg_snapshot_restore(s->run, snap->snap, rows_needed, err);
}

int forge_snapshot_write(const struct forge_snapshot *snap, const char *path, struct fg_error *err)
{
    return fg_snapshot_write(snap->snap, path, err);
}

int forge_snapshot_read(struct forge_snapshot **out, struct forge_session *s, const char *path,
                        struct fg_error *err)
{
    struct fg_snapshot *snap = NULL;
    int rc = fg_snapshot_read(&snap, s->run, path, err);
    return give(out, snap, rc, err);
}
