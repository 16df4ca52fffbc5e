// eval/roof.h: the ceilings of this machine, measured again and again beside what they bound: a
// shared host changes both memory and clock within seconds.
#ifndef FG_EVAL_ROOF_H
#define FG_EVAL_ROOF_H
#include "base/error.h"
#include "kernels/roof.h"
#include <stdint.h>

struct fg_roofs {
    double read;                 // bytes per second, all threads, from memory
    double mac[FG_ROOF_N_KINDS]; // multiply-adds per second, all threads; 0: no such instruction
};

struct fg_roof_meter; // opaque: threads and a buffer larger than the caches

// A meter of n_threads threads for the instructions of level `isa`. The buffer has `bytes` (whole
// MiB, at least one) and stays in memory until it is freed. Errors: FG_EINPUT (n_threads),
// FG_ERESOURCE; *out is then NULL.
int fg_roof_meter_new(struct fg_roof_meter **out, int n_threads, const char *isa, uint64_t bytes,
                      struct fg_error *err);
void fg_roof_meter_free(struct fg_roof_meter *m); // NULL is fine

// Measures each ceiling for about `seconds` (reading: whole passes, at least one) and gives the
// best pass.
void fg_roof_measure(struct fg_roof_meter *m, double seconds, struct fg_roofs *out);
#endif
