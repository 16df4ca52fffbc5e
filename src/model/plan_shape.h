// model/plan_shape.h: a config's matrices as quant/plan.h wants them.
#ifndef FG_MODEL_PLAN_SHAPE_H
#define FG_MODEL_PLAN_SHAPE_H
#include "model/config.h"
#include "quant/plan.h"

// Points into `cfg`, which must outlive the shape.
struct fg_plan_shape fg_plan_shape_of(const struct fg_config *cfg);
#endif
