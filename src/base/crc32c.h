// base/crc32c.h: CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected, as in RFC 3720 B.4). Guards
// against damage, never against an adversary.
#ifndef FG_BASE_CRC32C_H
#define FG_BASE_CRC32C_H
#include <stdint.h>

// The CRC of what `crc` covers followed by n bytes of data; crc is 0 at the start, so
//   fg_crc32c(fg_crc32c(0, a, n), b, m) == fg_crc32c(0, ab, n + m).
// Uses the CPU's instruction where it has one; the value is the same everywhere.
uint32_t fg_crc32c(uint32_t crc, const void *data, uint64_t n);

// The same by tables alone.
uint32_t fg_crc32c_portable(uint32_t crc, const void *data, uint64_t n);
#endif
