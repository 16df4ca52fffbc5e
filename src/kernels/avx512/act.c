#include "kernels/levels.h"

void fg_fill_act_avx512(struct fg_kernels *k)
{
    (void)k;
}
