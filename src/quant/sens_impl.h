// quant/sens_impl.h: what sens.c and sens_file.c share.
#ifndef FG_QUANT_SENS_IMPL_H
#define FG_QUANT_SENS_IMPL_H

#define FG_SENS_WHAT "sens"
#define FG_SENS_LAYERS_MAX 1024
#define FG_SENS_ROWS_MAX 262144u // 1024 layers, 7 matrices, 6 formats, 6 metrics
#endif
