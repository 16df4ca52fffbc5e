#include "kernels/levels.h"

void fg_fill_lut_amx(struct fg_kernels *k)
{
    (void)k;
}
