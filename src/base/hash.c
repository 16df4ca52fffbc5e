// base/hash.c: SHA-256 through libcrypto's EVP interface.
#include "base/hash.h"
#include "base/file.h"
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#define STEP_BYTES (16ull << 20) // of a file, between two releases of its pages

struct fg_sha256 {
    EVP_MD_CTX *md;
};

struct fg_sha256 *fg_sha256_new(void)
{
    struct fg_sha256 *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->md = EVP_MD_CTX_new();
    if (!h->md || EVP_DigestInit_ex(h->md, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(h->md);
        free(h);
        return NULL;
    }
    return h;
}

void fg_sha256_add(struct fg_sha256 *h, const void *data, uint64_t n)
{
    EVP_DigestUpdate(h->md, data, (size_t)n);
}

static void to_hex(const unsigned char *digest, char hex[FG_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < FG_SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[64] = '\0';
}

void fg_sha256_end_bytes(struct fg_sha256 *h, uint8_t digest[FG_SHA256_BYTES])
{
    memset(digest, 0, FG_SHA256_BYTES);
    EVP_DigestFinal_ex(h->md, digest, NULL); // neither update nor this allocates
    EVP_MD_CTX_free(h->md);
    free(h);
}

void fg_sha256_end(struct fg_sha256 *h, char hex[FG_SHA256_HEX])
{
    uint8_t digest[FG_SHA256_BYTES];
    fg_sha256_end_bytes(h, digest);
    to_hex(digest, hex);
}

bool fg_sha256_hex(const void *data, uint64_t n, char hex[FG_SHA256_HEX])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    hex[0] = '\0';
    if (EVP_Digest(data, (size_t)n, digest, NULL, EVP_sha256(), NULL) != 1) return false;
    to_hex(digest, hex);
    return true;
}

int fg_sha256_file(const char *path, char hex[FG_SHA256_HEX], struct fg_error *err)
{
    struct fg_map map;
    hex[0] = '\0';
    int rc = fg_map_open(&map, path, err);
    if (rc) return rc;
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) rc = fg_fail_memory(err, "sha256", map.bytes);
    for (uint64_t at = 0; at < map.bytes && h; at += STEP_BYTES) {
        uint64_t n = map.bytes - at < STEP_BYTES ? map.bytes - at : STEP_BYTES;
        fg_sha256_add(h, map.data + at, n);
        fg_map_release(map.data + at, n); // a large file need not be in memory as a whole
    }
    if (h) fg_sha256_end(h, hex);
    fg_map_close(&map);
    return rc;
}

uint64_t fg_fnv1a(const void *data, uint64_t n)
{
    const unsigned char *p = data;
    uint64_t h = 0xCBF29CE484222325u;
    for (uint64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001B3u;
    return h;
}
