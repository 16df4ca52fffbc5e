// runtime/snapshot.h: a conversation at one moment, to come back to (specs: runtime 3.4, server
// 10.3). Recurrent states are copied. Keys and values stay in the session as long as nobody writes
// over them; before that happens, the pages that a snapshot needs are copied ("detached"), and
// snapshots that need the same page share the copy.
#ifndef FG_RUNTIME_SNAPSHOT_H
#define FG_RUNTIME_SNAPSHOT_H
#include "base/error.h"
#include "runtime/session.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_snapshot; // opaque

enum fg_snapshot_rows {
    FG_SNAPSHOT_DETACH, // pages are copied when their rows are about to be lost
    FG_SNAPSHOT_LIVE    // they are not: the snapshot is then lost
};

// Flushes, then keeps the session at its position. The snapshot is the caller's until
// fg_snapshot_free; the session may be freed before it, and then only one that is detached is still
// good. Errors: FG_ERESOURCE; *out is then NULL.
int fg_snapshot_take(struct fg_snapshot **out, struct fg_session *s, enum fg_snapshot_rows rows,
                     struct fg_error *err);
void fg_snapshot_free(struct fg_snapshot *snap); // NULL is fine

int64_t fg_snapshot_pos(const struct fg_snapshot *snap);
const int32_t *fg_snapshot_ids(const struct fg_snapshot *snap); // [pos]
bool fg_snapshot_valid(const struct fg_snapshot *snap);         // can be restored
// Bytes of its own: states, and its part of copied pages (shared ones divided).
uint64_t fg_snapshot_bytes(const struct fg_snapshot *snap);
// Copies the pages with rows from `row` on now (0: all), and needs the session's no more. Errors:
// FG_ERESOURCE, FG_EFAILED (not valid).
int fg_snapshot_detach(struct fg_snapshot *snap, int64_t row, struct fg_error *err);

// Puts the session where the snapshot was, in the smallest entry that holds max(pos + verify rows,
// rows_needed); what was tried or pending is gone. `s` is the session that it was taken from or,
// for one that is wholly detached, another of the same model, format and numerics. The snapshot
// stays good. Errors: FG_EFAILED (not valid, or not of this session), FG_EINPUT (no entry is large
// enough), FG_ERESOURCE; the session is then as it was.
int fg_snapshot_restore(struct fg_session *s, struct fg_snapshot *snap, int64_t rows_needed,
                        struct fg_error *err);

// Files (server 10.6): header "FKC1", section table with a CRC-32C each, sections TOKS GDNS CONV
// KVPG. Bytes depend on the conversation alone. Write is atomic. Read gives a detached snapshot
// for sessions like `s` and checks everything before it is used. Errors: FG_EINPUT (not such a
// file, sizes that don't agree, ids outside the vocabulary), FG_EINTEGRITY (another model, format
// or numerics; a checksum), FG_ERESOURCE, FG_EFAILED (write: not valid).
int fg_snapshot_write(const struct fg_snapshot *snap, const char *path, struct fg_error *err);
int fg_snapshot_read(struct fg_snapshot **out, struct fg_session *s, const char *path,
                     struct fg_error *err);
#endif
