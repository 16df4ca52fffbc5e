#include "kernels/ref/vector.h"
#include "kernels/levels.h"

void fg_fill_vector_ref(struct fg_kernels *k)
{
    k->rms_norm = fg_rms_norm_ref;
    k->rms_norm_gated = fg_rms_norm_gated_ref;
    k->l2_norm = fg_l2_norm_ref;
    k->add = fg_add_ref;
    k->silu_mul = fg_silu_mul_ref;
    k->sigmoid_mul = fg_sigmoid_mul_ref;
    k->rope = fg_rope_ref;
    k->conv_silu = fg_conv_silu_ref;
    k->deltanet_gates = fg_deltanet_gates_ref;
    k->argmax = fg_argmax_ref;
}
