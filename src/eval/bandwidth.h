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

// Sum of the 64-bit words of n bytes, by the widest vectors: what fg_bandwidth_read does with each
// piece. data is 8-byte aligned, n a multiple of 256.
uint64_t fg_bandwidth_sum(const void *data, uint64_t n);
#endif
