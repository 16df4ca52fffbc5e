// kernels/ref/lanes.h: the end of every written order of summation in kernels.h.
#ifndef FG_KERNELS_REF_LANES_H
#define FG_KERNELS_REF_LANES_H

// tree(lane) of kernels.h; destroys the lanes.
static inline float fg_tree(float lane[16])
{
    for (int half = 8; half >= 1; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}
#endif
