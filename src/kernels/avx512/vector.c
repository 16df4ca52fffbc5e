#include "kernels/avx512/vector.h"
#include "kernels/levels.h"

void fg_fill_vector_avx512(struct fg_kernels *k)
{
    k->rms_norm = fg_rms_norm_avx512;
    k->rms_norm_gated = fg_rms_norm_gated_avx512;
    k->l2_norm = fg_l2_norm_avx512;
    k->add = fg_add_avx512;
    k->silu_mul = fg_silu_mul_avx512;
    k->sigmoid_mul = fg_sigmoid_mul_avx512;
    k->rope = fg_rope_avx512;
    k->conv_silu = fg_conv_silu_avx512;
    k->deltanet_gates = fg_deltanet_gates_avx512;
    k->argmax = fg_argmax_avx512;
}
