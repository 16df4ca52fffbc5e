// runtime/session_file.c: a session as a file. Little-endian:
//
//   0   8  "FORGESES"
//   8   4  version 1
//   12  4  numerics: 0 exact, 1 fast
//   16  64 model digest, hexadecimal
//   80  8  position (rows)
//   88  8  floats of recurrent state (all layers)
//   96  .. ids      [position] int32
//       .. states   FP32
//       .. cache    per full layer: keys, then values, [n_kv_heads][position][head_dim] FP32
//       64 SHA-256 of everything before, hexadecimal
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "runtime/session.h"
#include "runtime/session_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "FORGESES"
#define VERSION 1u
#define HEADER_BYTES 96u
#define DIGEST_BYTES 64u

static uint64_t payload_bytes(const struct fg_session *s, uint64_t pos)
{
    return pos * sizeof(int32_t) + s->state_floats * sizeof(float) +
           pos * fg_config_kv_bytes_per_position(&s->model->config);
}

// Writer that hashes what it writes.
struct out {
    struct fg_atomic file;
    struct fg_sha256 *hash;
};

static int put(struct out *o, const void *data, uint64_t n, struct fg_error *err)
{
    fg_sha256_add(o->hash, data, n);
    return fg_atomic_write(&o->file, data, n, err);
}

static int write_all(const struct fg_session *s, struct out *o, struct fg_error *err)
{
    const struct fg_config *c = &s->model->config;
    uint8_t header[HEADER_BYTES] = {0};
    uint32_t version = VERSION, fast = s->fast;
    uint64_t pos = (uint64_t)s->state.pos;
    memcpy(header, MAGIC, 8);
    memcpy(header + 8, &version, 4);
    memcpy(header + 12, &fast, 4);
    memcpy(header + 16, s->model->digest, 64);
    memcpy(header + 80, &pos, 8);
    memcpy(header + 88, &s->state_floats, 8);
    int rc = put(o, header, sizeof header, err);
    if (rc == 0) rc = put(o, s->ids, pos * sizeof *s->ids, err);
    if (rc == 0) rc = put(o, s->states, s->state_floats * sizeof(float), err);
    for (int64_t i = 0; i < c->n_layers && rc == 0; i++) {
        const struct fg_layer_state *l = &s->state.layers[i];
        if (c->is_linear[i]) continue;
        for (int64_t h = 0; h < 2 * c->n_kv_heads && rc == 0; h++) { // values follow the keys
            const float *rows = l->k + h * s->state.capacity * c->head_dim;
            rc = put(o, rows, pos * (uint64_t)c->head_dim * sizeof(float), err);
        }
    }
    return rc;
}

int fg_session_save(const struct fg_session *s, const char *path, struct fg_error *err)
{
    char hex[FG_SHA256_HEX];
    struct out o = {.hash = fg_sha256_new()};
    if (!o.hash) return fg_fail_memory(err, "session", 0);
    int rc = fg_atomic_open(&o.file, path, err);
    if (rc) {
        fg_sha256_end(o.hash, hex);
        return rc;
    }
    rc = write_all(s, &o, err);
    fg_sha256_end(o.hash, hex);
    if (rc == 0) rc = fg_atomic_write(&o.file, hex, DIGEST_BYTES, err);
    if (rc) {
        fg_atomic_abort(&o.file);
        return rc;
    }
    return fg_atomic_commit(&o.file, err);
}

static int check_header(const struct fg_session *s, const struct fg_map *map, uint64_t *pos,
                        struct fg_error *err)
{
    const uint8_t *p = map->data;
    uint32_t version, fast;
    uint64_t floats, bytes;
    if (!fg_map_holds(map, 0, HEADER_BYTES + DIGEST_BYTES) || memcmp(p, MAGIC, 8) != 0)
        return fg_fail(err, FG_EINPUT, "session", map->path, "magic", MAGIC, "another file");
    memcpy(&version, p + 8, 4);
    memcpy(&fast, p + 12, 4);
    memcpy(pos, p + 80, 8);
    memcpy(&floats, p + 88, 8);
    if (version != VERSION)
        return fg_fail(err, FG_EINPUT, "session", map->path, "version", "1", "%" PRIu32, version);
    if (memcmp(p + 16, s->model->digest, 64) != 0)
        return fg_fail(err, FG_EINTEGRITY, "session", map->path, "model", s->model->digest, "%.64s",
                       (const char *)p + 16);
    if (fast != (uint32_t)s->fast)
        return fg_fail(err, FG_EINTEGRITY, "session", map->path, "numerics",
                       s->fast ? "fast" : "exact", "%s", fast == 1 ? "fast" : "exact");
    if (*pos > (uint64_t)s->state.capacity) {
        char expected[48];
        snprintf(expected, sizeof expected, "at most %" PRId64, s->state.capacity);
        return fg_fail(err, FG_EINPUT, "session", map->path, "position", expected, "%" PRIu64,
                       *pos);
    }
    bytes = HEADER_BYTES + payload_bytes(s, *pos) + DIGEST_BYTES;
    if (floats != s->state_floats || map->bytes != bytes) {
        char expected[48];
        snprintf(expected, sizeof expected, "%" PRIu64 " bytes", bytes);
        return fg_fail(err, FG_EINPUT, "session", map->path, "size", expected, "%" PRIu64,
                       map->bytes);
    }
    char hex[FG_SHA256_HEX];
    fg_sha256_hex(p, map->bytes - DIGEST_BYTES, hex);
    if (memcmp(hex, p + map->bytes - DIGEST_BYTES, DIGEST_BYTES) != 0)
        return fg_fail(err, FG_EINTEGRITY, "session", map->path, "checksum", hex, "%.64s",
                       (const char *)p + map->bytes - DIGEST_BYTES);
    return 0;
}

static int check_ids(const struct fg_session *s, const struct fg_map *map, uint64_t pos,
                     struct fg_error *err)
{
    for (uint64_t i = 0; i < pos; i++) {
        int32_t id;
        memcpy(&id, map->data + HEADER_BYTES + i * sizeof id, sizeof id);
        if (id < 0 || id >= s->model->config.vocab)
            return fg_fail(err, FG_EINPUT, "session", map->path, "ids", "ids of the vocabulary",
                           "%" PRId32, id);
    }
    return 0;
}

int fg_session_load(struct fg_session *s, const char *path, struct fg_error *err)
{
    const struct fg_config *c = &s->model->config;
    struct fg_map map;
    uint64_t pos = 0;
    fg_session_rewind(s, 0);
    int rc = fg_map_open(&map, path, err);
    if (rc) return rc;
    rc = check_header(s, &map, &pos, err);
    if (rc == 0) rc = check_ids(s, &map, pos, err);
    if (rc == 0) {
        const uint8_t *p = map.data + HEADER_BYTES;
        memcpy(s->ids, p, pos * sizeof *s->ids);
        p += pos * sizeof *s->ids;
        memcpy(s->states, p, s->state_floats * sizeof(float));
        p += s->state_floats * sizeof(float);
        for (int64_t i = 0; i < c->n_layers; i++) {
            const struct fg_layer_state *l = &s->state.layers[i];
            if (c->is_linear[i]) continue;
            for (int64_t h = 0; h < 2 * c->n_kv_heads; h++) {
                uint64_t n = pos * (uint64_t)c->head_dim * sizeof(float);
                memcpy(l->k + h * s->state.capacity * c->head_dim, p, n);
                p += n;
            }
        }
        s->state.pos = (int64_t)pos;
    }
    fg_map_close(&map);
    return rc;
}
