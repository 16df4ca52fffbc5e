// runtime/compile_impl.h: the parts of `forge compile`, for compile*.c and cache.c alone.
//   compile.c          what is there, what is missing, in which order
//   compile_package.c  one package to its tile file
//   compile_check.c    tests in a child process: a new tile file, a level's kernels
//   compile_store.c    files under <state>/builds: names, locks, hashes, leftovers
#ifndef FG_RUNTIME_COMPILE_IMPL_H
#define FG_RUNTIME_COMPILE_IMPL_H
#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"
#include "format/package.h"
#include "kernels/kernels.h"
#include "runtime/compile.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// ---- store

#define FG_STORE_LOCK "builds.lock" // of the small files
#define FG_STORE_NAME_MAX 64        // "<24 hex>-<layout>-a<abi>.fgt" and its NUL

struct fg_store {
    char *root, *tiles, *plans, *tuning, *hashes; // <state>/builds and what is in it
};

// Paths alone; nothing is made. FG_ERESOURCE.
int fg_store_init(struct fg_store *s, const char *state_dir, struct fg_error *err);
int fg_store_make(const struct fg_store *s, struct fg_error *err); // the folders
void fg_store_free(struct fg_store *s);                            // zeroed is fine
void fg_store_tile_name(char name[FG_STORE_NAME_MAX], const char *package_sha256);

// An exclusive lock: a file with the owner's process id in it, under flock, removed when released.
struct fg_store_lock {
    int fd; // -1: not held
    char *path;
};
// Takes "<path>.lock". FG_EBUSY, and *pid (0: unknown), when another process has it.
int fg_store_lock(struct fg_store_lock *l, const char *path, long *pid, struct fg_error *err);
void fg_store_unlock(struct fg_store_lock *l);
// Lock of the small files (plans, tuning, hashes), which is held for moments: waits for it.
int fg_store_lock_small(const struct fg_store *s, struct fg_store_lock *l, struct fg_error *err);

// Name of a temporary file of struct fg_atomic: ".NAME.xxxxxxxx" with NAME ending in `suffix`.
bool fg_store_is_temp(const char *name, const char *suffix);
// Removes temporary files of `name` in `dir`, whose lock the caller holds; NULL: of all JSON files.
void fg_store_sweep(const char *dir, const char *name);

// SHA-256 of files that did not change since they were hashed, by device, inode, size and mtime.
struct fg_hashes {
    struct fg_hash_entry *list;
    uint64_t n, cap;
    bool changed;
};
// What can't be read counts as empty.
void fg_hashes_load(struct fg_hashes *h, const char *path);
void fg_hashes_free(struct fg_hashes *h);
// The known hash of the file as it is now, or NULL.
const char *fg_hashes_find(const struct fg_hashes *h, const char *path);
// Remembers; files touched within the last seconds are not, as they may change unnoticed.
void fg_hashes_put(struct fg_hashes *h, const char *path, const char sha256[FG_SHA256_HEX]);
// Writes them, with what others have added meanwhile; the small lock must be held.
int fg_hashes_save(struct fg_hashes *h, const char *path, struct fg_error *err);

// ---- work that can be stopped and reports

struct fg_compile_job {
    const struct fg_compile_options *o;
    struct fg_compile_event event; // what is constant in events of one run
    double heartbeat_s;
    double began, beat; // fg_clock of the package's start and last sign of life
    double expected_s, left_s;
};
void fg_compile_say(const struct fg_compile_job *j, enum fg_compile_event_kind kind);
// Heartbeat when it is due. FG_EINTERRUPTED when the caller wants to stop.
int fg_compile_tick(struct fg_compile_job *j, struct fg_error *err);
void fg_compile_nap(void); // a few milliseconds, between looks at what others do

// SHA-256 of bytes in a thread of its own, and then fg_package_verify where `package` is given.
struct fg_hasher {
    pthread_t thread;
    const uint8_t *data;
    uint64_t bytes;
    const struct fg_package *package;
    atomic_bool stop, done;
    char sha256[FG_SHA256_HEX]; // "" when memory was out
    int rc;                     // of fg_package_verify
    struct fg_error err;
    bool started;
};
int fg_hasher_start(struct fg_hasher *h, struct fg_error *err);
// Waits, ticking. Errors: FG_EINTERRUPTED, FG_ERESOURCE, those of fg_package_verify.
int fg_hasher_join(struct fg_hasher *h, struct fg_compile_job *j, struct fg_error *err);
// The bytes of a package as they are mapped.
void fg_compile_package_bytes(const struct fg_package *p, const uint8_t **data, uint64_t *bytes);

// Writes a package's tile file under its final name. *changed: the bytes that were read do not have
// the hash `sha256`; nothing is then written. Errors: FG_EINPUT (contents of the package),
// FG_EINTERRUPTED, FG_ERESOURCE, those of tilefile.h.
int fg_compile_package(const char *path, const struct fg_package *p, const char *sha256,
                       bool *changed, struct fg_compile_job *j, struct fg_error *err);
// Bytes that it will have.
int fg_compile_package_size(const struct fg_package *p, uint64_t *bytes, struct fg_error *err);

// ---- tests in a child process

// Maps the new file, checks all of it, and compares 64 random integer products of `kernels` with
// the package's own numbers, scales and factors too. lock_fds are closed in the child. Errors:
// FG_EINTEGRITY (also when the child crashed), FG_EINTERRUPTED, FG_ERESOURCE.
int fg_compile_check(const char *path, const struct fg_package *p, const char *sha256,
                     const struct fg_kernels *kernels, const int *lock_fds, uint64_t n_locks,
                     struct fg_compile_job *j, struct fg_error *err);
// Runs the kernels of a level on small matrices of every layout against ref. FG_EUNSUPPORTED when
// they differ or crash.
int fg_compile_smoke(const struct fg_kernels *kernels, struct fg_compile_job *j,
                     struct fg_error *err);
#endif
