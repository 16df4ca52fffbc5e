// eval/roof.h: what this machine's memory can do at the moment, to put measured rates beside.
#ifndef FG_EVAL_ROOF_H
#define FG_EVAL_ROOF_H
#include "base/error.h"
#include "base/thread.h"
#include <stdint.h>

// Reads a buffer of `bytes` (at least 64 MiB; larger than every cache to mean memory) with all
// threads of the pool again and again for about `seconds`, and gives the best pass in bytes per
// second. Errors: FG_ERESOURCE.
int fg_roof_read(double *bytes_per_second, struct fg_pool *pool, uint64_t bytes, double seconds,
                 struct fg_error *err);
#endif
