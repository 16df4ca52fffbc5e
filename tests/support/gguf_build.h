// tests/support/gguf_build.h: builds small GGUF files in memory. A test changes bytes of the result
// to make bad ones.
#ifndef FG_TESTS_GGUF_BUILD_H
#define FG_TESTS_GGUF_BUILD_H
#include "base/buf.h"
#include "format/gguf.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct gguf_build {
    uint32_t version;
    uint64_t alignment; // written as general.alignment by the caller, used for offsets
    struct fg_buf kvs, infos, data;
    uint64_t n_kvs, n_tensors;
};

static inline void gb_begin(struct gguf_build *b)
{
    *b = (struct gguf_build){.version = 3, .alignment = 32};
}

static inline void gb_le(struct fg_buf *out, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        fg_buf_char(out, (char)(v >> (8 * i) & 0xFF));
    }
}

static inline void gb_text(struct fg_buf *out, const char *s)
{
    gb_le(out, strlen(s), 8);
    fg_buf_str(out, s);
}

static inline void gb_key(struct gguf_build *b, const char *key, enum fg_gguf_kind kind)
{
    gb_text(&b->kvs, key);
    gb_le(&b->kvs, kind, 4);
    b->n_kvs++;
}

// An integer or bool of `bytes` bytes.
static inline void gb_int(struct gguf_build *b, const char *key, enum fg_gguf_kind kind, int64_t v,
                          int bytes)
{
    gb_key(b, key, kind);
    gb_le(&b->kvs, (uint64_t)v, bytes);
}

static inline void gb_u32(struct gguf_build *b, const char *key, uint32_t v)
{
    gb_int(b, key, FG_GGUF_U32, v, 4);
}

static inline void gb_f32(struct gguf_build *b, const char *key, float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    gb_int(b, key, FG_GGUF_F32, u, 4);
}

static inline void gb_str(struct gguf_build *b, const char *key, const char *v)
{
    gb_key(b, key, FG_GGUF_STRING);
    gb_text(&b->kvs, v);
}

static inline void gb_array(struct gguf_build *b, const char *key, enum fg_gguf_kind element,
                            uint64_t n)
{
    gb_key(b, key, FG_GGUF_ARRAY);
    gb_le(&b->kvs, element, 4);
    gb_le(&b->kvs, n, 8);
}

static inline void gb_strings(struct gguf_build *b, const char *key, const char *const *v,
                              uint64_t n)
{
    gb_array(b, key, FG_GGUF_STRING, n);
    for (uint64_t i = 0; i < n; i++) {
        gb_text(&b->kvs, v[i]);
    }
}

static inline void gb_i32s(struct gguf_build *b, const char *key, const int32_t *v, uint64_t n)
{
    gb_array(b, key, FG_GGUF_I32, n);
    for (uint64_t i = 0; i < n; i++) {
        gb_le(&b->kvs, (uint32_t)v[i], 4);
    }
}

// A tensor whose data follow the previous one's; data NULL: bytes of a counter. Extent 0 is the
// number of columns.
static inline void gb_tensor(struct gguf_build *b, const char *name, uint32_t type, int n_dims,
                             const uint64_t *extent, const void *data)
{
    uint64_t n = 1, weights = 1, bytes = 4;
    while (b->data.len % b->alignment) {
        fg_buf_char(&b->data, 0);
    }
    gb_text(&b->infos, name);
    gb_le(&b->infos, (uint64_t)n_dims, 4);
    for (int i = 0; i < n_dims; i++) {
        gb_le(&b->infos, extent[i], 8);
        n *= extent[i];
    }
    gb_le(&b->infos, type, 4);
    gb_le(&b->infos, b->data.len, 8);
    fg_gguf_type_block(type, &weights, &bytes);
    bytes *= n / weights;
    if (data) {
        fg_buf_add(&b->data, data, bytes);
    } else {
        for (uint64_t i = 0; i < bytes; i++) {
            fg_buf_char(&b->data, (char)i);
        }
    }
    b->n_tensors++;
}

// The file into *out; the builder is freed.
static inline void gb_end(struct gguf_build *b, struct fg_buf *out)
{
    fg_buf_clear(out);
    fg_buf_str(out, "GGUF");
    gb_le(out, b->version, 4);
    gb_le(out, b->n_tensors, 8);
    gb_le(out, b->n_kvs, 8);
    fg_buf_add(out, b->kvs.data, b->kvs.len);
    fg_buf_add(out, b->infos.data, b->infos.len);
    while (out->len % b->alignment) {
        fg_buf_char(out, 0);
    }
    fg_buf_add(out, b->data.data, b->data.len);
    fg_buf_free(&b->kvs);
    fg_buf_free(&b->infos);
    fg_buf_free(&b->data);
}
#endif
