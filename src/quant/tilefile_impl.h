// quant/tilefile_impl.h: the bytes of a tile file's header and section table, for tilefile.c and
// tilefile_write.c alone.
#ifndef FG_QUANT_TILEFILE_IMPL_H
#define FG_QUANT_TILEFILE_IMPL_H
#include "quant/tilefile.h"

#define FG_TILE_MAGIC "FGTILE1" // with its NUL
#define FG_TILE_VERSION 1
#define FG_TILE_PAGE 4096u
#define FG_TILE_ROW_BYTES 64u
#define FG_TILE_KINDS 10 // numbered from 1

// Offsets in the header.
enum {
    FG_TILE_AT_VERSION = 8,
    FG_TILE_AT_ABI = 12,
    FG_TILE_AT_ISA = 16,
    FG_TILE_AT_LAYOUT = 32,
    FG_TILE_AT_SHA = 48,
    FG_TILE_AT_SIZE = 80,
    FG_TILE_AT_SECTIONS = 88,
    FG_TILE_AT_CRC = 92,
    FG_TILE_AT_END = 96
};

// Offsets in a row of the section table.
enum {
    FG_TILE_ROW_NAME = 0,
    FG_TILE_ROW_KIND = 8,
    FG_TILE_ROW_ROWS = 12,
    FG_TILE_ROW_COLS = 16,
    FG_TILE_ROW_LAYOUT = 20,
    FG_TILE_ROW_OFFSET = 24,
    FG_TILE_ROW_SIZE = 32,
    FG_TILE_ROW_BLOCK = 40,
    FG_TILE_ROW_CRCS = 48
};

// Rows and columns that the table has for a section of a matrix.
void fg_tile_section_shape(const struct fg_tilefile_mat *m, enum fg_tile_kind kind, uint32_t *rows,
                           uint32_t *cols);

static inline uint64_t fg_tile_blocks(uint64_t bytes)
{
    return bytes / FG_TILE_CRC_BLOCK + (bytes % FG_TILE_CRC_BLOCK != 0);
}

static inline void fg_tile_put32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static inline void fg_tile_put64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static inline uint32_t fg_tile_get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t fg_tile_get64(const uint8_t *p)
{
    return fg_tile_get32(p) | (uint64_t)fg_tile_get32(p + 4) << 32;
}
#endif
