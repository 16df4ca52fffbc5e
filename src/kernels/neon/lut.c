#include "kernels/levels.h"

void fg_fill_lut_neon(struct fg_kernels *k)
{
    (void)k;
}

void fg_fill_act_neon(struct fg_kernels *k)
{
    (void)k;
}
