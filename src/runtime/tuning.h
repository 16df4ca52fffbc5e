// runtime/tuning.h: what was measured on this machine with a build (specs: runtime 2.5). Never part
// of an identity, never changes a result; missing or foreign: fg_tuning_default.
#ifndef FG_RUNTIME_TUNING_H
#define FG_RUNTIME_TUNING_H
#include "base/error.h"
#include "base/hash.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_TUNING_ROWS_MAX 16   // rows of a verify call that are measured
#define FG_TUNING_POINTS_MAX 33 // contexts of a draft cost
#define FG_TUNING_BYTES_MAX (1u << 20)

// Cost of a verify call of `rows` rows: ms + ms_per_1k * positions / 1024.
struct fg_tuning_row {
    int64_t rows;
    double ms, ms_per_1k;
};

struct fg_tuning_point { // of a draft call
    int64_t ctx;
    double ms;
};

struct fg_tuning {
    int64_t threads, prefetch_bytes, prefill_rows; // 0: not measured
    struct fg_tuning_row verify[FG_TUNING_ROWS_MAX];
    struct fg_tuning_point draft[FG_TUNING_POINTS_MAX];
    int n_verify, n_draft; // rows and contexts ascending
};

// Identity of machine and build: CPU, cores, threads that may run, memory, level, weights. 16 hex
// digits, the stem of the file name. False when out of memory.
bool fg_tuning_id(const char *isa, const char *weights_digest, char id[17]);

// <state>/builds/tuning/<id>.json; malloc'd, NULL when out of memory.
char *fg_tuning_path(const char *state_dir, const char *id);

// Errors: FG_EINPUT (damaged, missing), FG_EINTEGRITY (of another id); *t is then the default.
int fg_tuning_read(struct fg_tuning *t, const char *path, const char *id, struct fg_error *err);
int fg_tuning_write(const struct fg_tuning *t, const char *path, const char *id,
                    struct fg_error *err);
void fg_tuning_default(struct fg_tuning *t); // all cores, 1024 bytes ahead, nothing measured
#endif
