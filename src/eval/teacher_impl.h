// eval/teacher_impl.h: shards, shared by teacher.c, which makes them, and teacher_read.c.
#ifndef FG_EVAL_TEACHER_IMPL_H
#define FG_EVAL_TEACHER_IMPL_H
#include "base/error.h"
#include "base/hash.h"
#include "eval/teacher.h"
#include "format/st_file.h"
#include <stdint.h>

#define FG_TEACHER_WHAT "teacher"
#define FG_TEACHER_NAME_BYTES 32 // of a shard's file name

// What a shard must be.
struct fg_teacher_shape {
    bool rows, f16;
    int64_t k, vocab;
    int64_t seq;       // of rows
    int64_t n;         // sequences
    int64_t positions; // of all
};

// An open one. Zeroed is closed.
struct fg_teacher_shard {
    struct fg_st_file *file;
    const struct fg_st_tensor *ids, *lp, *nll;
    int64_t *starts; // [n + 1]: first position of each sequence
};

void fg_teacher_shard_name(char out[FG_TEACHER_NAME_BYTES], int64_t i);
// Opens and checks all but hashes. Errors: FG_EINPUT, FG_ERESOURCE.
int fg_teacher_shard_open(struct fg_teacher_shard *s, const char *path,
                          const struct fg_teacher_shape *shape, struct fg_error *err);
void fg_teacher_shard_close(struct fg_teacher_shard *s);
#endif
