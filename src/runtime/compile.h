// runtime/compile.h: specialization of a build for this machine (specs: runtime 2; cli 8): sees to
// it that every package's tile file and the plan exist under <state>/builds, sound, and opens them.
// The same call serves `forge compile` and every start of a model; when all is there it maps,
// checks and returns.
//
//   <state>/builds/tiles/<package sha256[:24]>-<layout>-a<abi>.fgt   quant/tilefile.h
//   <state>/builds/plans/<key>.json                                  runtime/compile_plan.h
//   <state>/builds/tuning/<id>.json                                  runtime/tuning.h
//   <state>/builds/hashes.json     (dev, inode, size, mtime) -> sha256 of packages
//
// Safe to stop and to kill at any point: a file under its final name is complete. Tile files do not
// depend on the context, on the ISA level or on threads.
#ifndef FG_RUNTIME_COMPILE_H
#define FG_RUNTIME_COMPILE_H
#include "base/error.h"
#include "base/thread.h"
#include "quant/tilefile.h"
#include "runtime/compile_plan.h"
#include "runtime/tuning.h"
#include <stdbool.h>
#include <stdint.h>

struct fg_build;    // format/manifest.h
struct fg_compiled; // opaque, immutable

enum fg_compile_event_kind {
    FG_COMPILE_PLAN,         // missing, packages, bytes, free_bytes: what is to be done
    FG_COMPILE_ESTIMATE,     // expected_s: in total
    FG_COMPILE_PACKAGE,      // name, index, missing, expected_s, left_s: begins
    FG_COMPILE_HEARTBEAT,    // name, index, missing, seconds, expected_s, left_s
    FG_COMPILE_PACKAGE_DONE, // name, index, missing, seconds, left_s
    FG_COMPILE_PURGED,       // name, text: a damaged tile file was removed and is made again
    FG_COMPILE_CHANGED,      // name: the package changed while it was read; once more
    FG_COMPILE_LOWER,        // isa, text: the level's kernels failed their test; this one instead
    FG_COMPILE_WAITING,      // name, pid, seconds: another process makes this file
    FG_COMPILE_HASHING,      // packages, bytes: of packages whose hash is not known yet
    FG_COMPILE_TUNING,       // the machine is being measured
    FG_COMPILE_DONE          // packages, missing (made now), seconds
};

struct fg_compile_event {
    enum fg_compile_event_kind kind;
    const char *name; // package: file name without its ending
    const char *text; // why
    const char *isa, *numerics;
    const struct fg_compile_plan *plan; // entries
    uint64_t packages, missing;         // in all; to make now
    uint64_t index;                     // of the package among the missing ones, from 1
    uint64_t bytes, free_bytes;         // to write; on the disk
    double seconds, expected_s, left_s;
    long pid; // of the other process; 0: unknown
};
typedef void (*fg_compile_event_fn)(void *ctx, const struct fg_compile_event *event);

// True: stop as soon as possible.
typedef bool (*fg_compile_stop_fn)(void *ctx);

// Measures this machine with the compiled build (the engine is above this module).
typedef int (*fg_compile_measure_fn)(void *ctx, const struct fg_compiled *c, struct fg_tuning *out,
                                     struct fg_error *err);

struct fg_compile_options {
    const char *build_dir;        // directory with manifest.json; used when build is NULL
    const struct fg_build *build; // opened by the caller, whose it stays
    const char *state_dir;
    const char *isa;      // level; NULL: the best that passes its test
    const char *numerics; // "fast", "exact"; NULL: "fast"
    int64_t ctx;          // largest entry; 0: 16384 or the largest below it, else the smallest
    int threads;          // that will run the model, for prefill rows; 0: fg_threads_default
    struct fg_pool *pool; // workers of the compilation; NULL: the caller alone
    bool force;           // make tile files, plan and tuning of this build again
    bool dry_run;         // FG_COMPILE_PLAN (and ESTIMATE), nothing written, *out NULL
    bool wait; // while another process compiles: wait for it, else FG_EBUSY. And a plan with more
               // entries than asked for will do, if it is there
    enum fg_tilefile_verify verify;
    enum fg_tilefile_memory memory;
    double heartbeat_s;            // 0: 30
    fg_compile_event_fn event;     // may be NULL, as the next two; in the calling thread
    fg_compile_stop_fn stop;       // asked at least every half second
    fg_compile_measure_fn measure; // called when there is no tuning, or with force
    void *ctx_event;               // of the three
};

// Errors: FG_EINPUT (build, ctx that is no entry), FG_EINTEGRITY (package other than the manifest
// says), FG_ERESOURCE (disk, memory), FG_EBUSY, FG_EUNSUPPORTED (isa), FG_EINTERRUPTED (stop),
// FG_EFAILED (a tile file is damaged again after it was made anew, or can't be replaced); *out is
// then NULL.
int fg_compile(struct fg_compiled **out, const struct fg_compile_options *o, struct fg_error *err);
void fg_compiled_close(struct fg_compiled *c); // NULL is fine

const struct fg_compile_plan *fg_compiled_plan(const struct fg_compiled *c);
const struct fg_tuning *fg_compiled_tuning(const struct fg_compiled *c);
// Tile file of package i in manifest order: chunks, then the head. i < fg_compiled_count.
uint64_t fg_compiled_count(const struct fg_compiled *c);
const struct fg_tilefile *fg_compiled_tiles(const struct fg_compiled *c, uint64_t i);
// The matrix of that name in any of them.
bool fg_compiled_lut(const struct fg_compiled *c, const char *name, struct fg_lut *out);
uint64_t fg_compiled_bytes(const struct fg_compiled *c); // of all tile files
#endif
