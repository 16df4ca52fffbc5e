// kernels/roof.c: which loops a level has: those of the level itself and of all below it.
#include "kernels/roof.h"
#include "kernels/kernels.h"
#include "kernels/roof_loops.h"
#include <string.h>

static const struct {
    const char *isa;
    enum fg_roof_kind kind;
    fg_roof_fn run;
} loops_of[] = {
#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
    {"avx2", FG_ROOF_F32, fg_roof_f32_avx2},
    {"avx2", FG_ROOF_I8, fg_roof_i8_avx2},
    {"avx2vnni", FG_ROOF_I8, fg_roof_i8_avx2vnni},
    {"avx512", FG_ROOF_F32, fg_roof_f32_avx512},
    {"avx512vnni", FG_ROOF_I8, fg_roof_i8_avx512vnni},
    {"amx", FG_ROOF_AMX, fg_roof_amx},
#elif defined(__aarch64__) && !defined(FORGE_REF_ONLY)
    {"neon", FG_ROOF_F32, fg_roof_f32_neon},
    {"neon", FG_ROOF_I8, fg_roof_i8_neon},
#endif
    {"", FG_ROOF_F32, NULL},
};

void fg_roof_loops(struct fg_roof_loops *loops, const char *isa)
{
    *loops = (struct fg_roof_loops){0};
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    int last = n - 1;
    while (last >= 0 && strcmp(levels[last]->isa, isa) != 0)
        last--;
    for (int i = 0; i <= last; i++) {
        for (size_t l = 0; l < sizeof loops_of / sizeof loops_of[0]; l++) {
            if (strcmp(loops_of[l].isa, levels[i]->isa) == 0)
                loops->run[loops_of[l].kind] = loops_of[l].run;
        }
    }
}
