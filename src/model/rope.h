// model/rope.h: rotary frequencies (specs: model 1.3, 6) and the angle table of a block of rows.
#ifndef FG_MODEL_ROPE_H
#define FG_MODEL_ROPE_H
#include "model/config.h"
#include <stdint.h>

struct fg_json;
struct json_object;

// Fills rot, rope_theta, inv_freq, rope_scale and rope_type from `obj` (rope_parameters, else
// rope_scaling, else the plain keys). head_dim, family and max_positions must be set. Errors:
// FG_EINPUT, FG_ERESOURCE.
int fg_rope_parse(struct fg_config *cfg, const struct fg_json *doc, struct json_object *obj,
                  const char *where, struct fg_arena *arena, struct fg_error *err);

// cos_out, sin_out [T][rot/2]: row t is position pos + t. The angle is the FP32 product of position
// and frequency, its cosine and sine are rounded from double, then multiplied by rope_scale, as the
// reference computes them.
void fg_rope_table(const struct fg_config *cfg, int64_t pos, int64_t T, float *cos_out,
                   float *sin_out);
#endif
