// kernels/amx/roof.c: see kernels/roof.h. Four sums hide the latency of TDPBUSD; two tiles of each
// operand, as a product of 32 by 32 has them.
#include "kernels/roof_loops.h"
#include <immintrin.h>
#include <string.h>

// Layout of LDTILECFG's operand, palette 1.
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

uint64_t fg_roof_amx(uint32_t *sink)
{
    struct tile_config config = {.palette = 1};
    _Alignas(64) uint8_t bytes[16 * 64];
    memset(bytes, 1, sizeof bytes);
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = 64;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, bytes, 64);
    _tile_loadd(5, bytes, 64);
    _tile_loadd(6, bytes, 64);
    _tile_loadd(7, bytes, 64);
    for (int r = 0; r < FG_ROOF_ROUNDS; r++) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, bytes, 64);
    _tile_release();
    *sink += bytes[0];
    return (uint64_t)FG_ROOF_ROUNDS * 4 * 16 * 16 * 64;
}
