// format/gguf_grids.h: the codebooks of GGUF's IQ2 and IQ3 types. They are constants that define
// these formats, as ggml's quantizer has them (ggml-org/ggml, MIT license); packed here.
//   IQ2: an entry is 8 magnitudes of 2 bits, lowest first: 0 1 2 stand for 8 25 43.
//   IQ3: an entry is 4 magnitudes of 4 bits, lowest first, each 0 to 7: 4 12 20 28 36 44 52 62 in
//        IQ3_XXS, 1 3 5 7 9 11 13 15 in IQ3_S.
#ifndef FG_FORMAT_GGUF_GRIDS_H
#define FG_FORMAT_GGUF_GRIDS_H
#include <stdint.h>

extern const uint16_t fg_gguf_grid_iq2_xxs[256];
extern const uint16_t fg_gguf_grid_iq2_xs[512];
extern const uint16_t fg_gguf_grid_iq2_s[1024];
extern const uint16_t fg_gguf_grid_iq3_xxs[256];
extern const uint16_t fg_gguf_grid_iq3_s[512];
#endif
