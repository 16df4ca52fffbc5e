// base/hash.h: SHA-256 over libcrypto, and the hexadecimal form used everywhere.
#ifndef FG_BASE_HASH_H
#define FG_BASE_HASH_H
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

#define FG_SHA256_BYTES 32
#define FG_SHA256_HEX 65 // 64 lower-case digits and the NUL

struct fg_sha256;                      // opaque
struct fg_sha256 *fg_sha256_new(void); // NULL when out of memory
void fg_sha256_add(struct fg_sha256 *h, const void *data, uint64_t n);
void fg_sha256_end(struct fg_sha256 *h, char hex[FG_SHA256_HEX]);               // frees h
void fg_sha256_end_bytes(struct fg_sha256 *h, uint8_t digest[FG_SHA256_BYTES]); // likewise
// Of n bytes at once. False, and hex empty, when out of memory.
bool fg_sha256_hex(const void *data, uint64_t n, char hex[FG_SHA256_HEX]);
// Of a file. Errors as fg_map_open; hex is then empty.
int fg_sha256_file(const char *path, char hex[FG_SHA256_HEX], struct fg_error *err);

// FNV-1a, 64 bits: hash tables over trusted or bounded input, never identity.
uint64_t fg_fnv1a(const void *data, uint64_t n);
#endif
