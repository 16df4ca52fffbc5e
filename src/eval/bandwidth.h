// eval/bandwidth.h: the rate at which this machine reads memory: the roof that decoding lives
// under.
#ifndef FG_EVAL_BANDWIDTH_H
#define FG_EVAL_BANDWIDTH_H
#include "base/error.h"
#include <stdint.h>

// Reads a buffer of `bytes` (whole MiB are used, at least one) again and again for about
// `seconds` with n_threads threads; *rate is the best pass in bytes per second. The buffer should
// be larger than the caches. Errors: FG_ERESOURCE.
int fg_bandwidth_read(uint64_t bytes, int n_threads, double seconds, double *rate,
                      struct fg_error *err);
#endif
