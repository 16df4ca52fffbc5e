// Fuzz target: a snapshot file. First byte: bits 0-1 the format of keys and values, bit 2 the model
// (hybrid or dense), bits 3-4 how the rest becomes a file:
//   0  as it is
//   1  with the build id and the checksums made right, so that the checks behind them are reached
//   2  as the content of a file: the next byte is the number of tokens; what is missing is 0
// What reads writes the same bytes again, and its session goes on without harm.
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "runtime/session.h"
#include "runtime/snapshot.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AT_TOKENS 12
#define AT_BUILD 20
#define BUILD_BYTES 32
#define AT_TABLE 64
#define SECTIONS 4
#define BODY (AT_TABLE + 32 * SECTIONS)

static char dir[64], path[128], again[128];
static struct fg_session *sessions[2][FG_KV_N_ALL];
static struct fg_buf empty[2][FG_KV_N_ALL]; // file of an empty session

static void remove_all(void)
{
    unlink(path);
    unlink(again);
    rmdir(dir);
}

static void check(bool holds)
{
    if (!holds) abort();
}

static void make_session(int dense, enum fg_kv_format kv, const struct fg_model *m,
                         struct fg_pool *pool)
{
    static const int64_t entries[] = {64, 300};
    struct fg_session_options o = {
        .pool = pool, .kv = kv, .entries = entries, .n_entries = 2, .rows_max = 8};
    check(fg_kernels_get(&o.kernels, NULL, NULL) == 0);
    check(fg_session_new(&sessions[dense][kv], m, &o, NULL) == 0);
    check(fg_session_save(sessions[dense][kv], path, NULL) == 0);
    check(fg_file_read(&empty[dense][kv], path, 1u << 20, NULL) == 0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const names[2] = {"f-s0", "h-s0"};
    struct fg_pool *pool;
    (void)argc;
    (void)argv;
    snprintf(dir, sizeof dir, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    check(mkdtemp(dir) != NULL);
    snprintf(path, sizeof path, "%s/snapshot", dir);
    snprintf(again, sizeof again, "%s/again", dir);
    atexit(remove_all);
    check(fg_pool_new(&pool, 1, NULL) == 0);
    for (int dense = 0; dense < 2; dense++) {
        char model[512];
        struct fg_model *m;
        snprintf(model, sizeof model, "%s/models/%s", FORGE_GOLDEN_DIR, names[dense]);
        check(fg_model_open(&m, model, true, NULL, NULL) == 0);
        for (int kv = 0; kv < FG_KV_N_ALL; kv++)
            make_session(dense, (enum fg_kv_format)kv, m, pool);
    }
    return 0;
}

static uint64_t get(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

// Build id and checksums of whatever the table says.
static void sign(uint8_t *file, size_t n, const uint8_t *build)
{
    if (n < BODY) return;
    memcpy(file + AT_BUILD, build, BUILD_BYTES);
    for (int i = 0; i < SECTIONS; i++) {
        uint8_t *row = file + AT_TABLE + 32 * i;
        uint64_t at = get(row + 8), bytes = get(row + 16);
        if (at < BODY || at > n || bytes > n - at) continue;
        uint32_t crc = fg_crc32c(0, file + at, bytes);
        memcpy(row + 24, &crc, sizeof crc);
    }
}

// A file of `tokens` tokens around `data`, whose bytes go to its sections in turn.
static uint8_t *wrap(size_t *n, const uint8_t *data, size_t n_data, uint64_t tokens,
                     const struct fg_buf *like, uint64_t row_bytes)
{
    uint64_t end = BODY, at[SECTIONS],
             bytes[SECTIONS] = {4 * tokens, get((const uint8_t *)like->data + AT_TABLE + 32 + 16),
                                get((const uint8_t *)like->data + AT_TABLE + 64 + 16),
                                row_bytes * tokens};
    for (int i = 0; i < SECTIONS; i++) {
        at[i] = (end + 63) / 64 * 64;
        end = at[i] + bytes[i];
    }
    uint8_t *file = calloc(1, end);
    check(file != NULL);
    memcpy(file, like->data, BODY);
    memcpy(file + AT_TOKENS, &tokens, sizeof tokens);
    for (int i = 0; i < SECTIONS; i++) {
        memcpy(file + AT_TABLE + 32 * i + 8, &at[i], sizeof at[i]);
        memcpy(file + AT_TABLE + 32 * i + 16, &bytes[i], sizeof bytes[i]);
        size_t take = n_data < bytes[i] ? n_data : (size_t)bytes[i];
        memcpy(file + at[i], data, take);
        data += take;
        n_data -= take;
    }
    sign(file, end, (const uint8_t *)like->data + AT_BUILD);
    *n = end;
    return file;
}

static void read_back(struct fg_session *s, const uint8_t *file, size_t n)
{
    static const int32_t ids[] = {1, 2, 3};
    struct fg_snapshot *snap;
    struct fg_error err = {0};
    struct fg_buf written = {0};
    if (fg_snapshot_read(&snap, s, path, &err)) {
        check(err.what[0] && err.found[0] && !snap);
        return;
    }
    check(fg_snapshot_valid(snap));
    check(fg_snapshot_write(snap, again, &err) == 0);
    check(fg_file_read(&written, again, 1u << 24, &err) == 0);
    check(written.len == n && memcmp(written.data, file, n) == 0);
    fg_buf_free(&written);
    int rc = fg_snapshot_restore(s, snap, 0, &err);
    check(rc == (fg_snapshot_pos(snap) > fg_session_capacity(s) ? FG_EINPUT : 0));
    if (rc == 0) {
        check(fg_session_pos(s) == fg_snapshot_pos(snap));
        check(fg_session_save(s, again, &err) == 0);
        check(fg_file_read(&written, again, 1u << 24, &err) == 0);
        check(written.len == n && memcmp(written.data, file, n) == 0);
        fg_buf_free(&written);
        rc = fg_session_run(s, ids, 3, NULL, 0, NULL, NULL, &err); // large values may overflow
        check(rc == 0 || rc == FG_EFAILED || rc == FG_EINPUT);
    }
    fg_session_reset(s);
    check(fg_session_load(s, path, &err) ==
          (fg_snapshot_pos(snap) > fg_session_capacity(s) ? FG_EINPUT : 0));
    fg_snapshot_free(snap);
    fg_session_reset(s);
    check(fg_session_run(s, ids, 3, NULL, 0, NULL, NULL, &err) == 0);
    fg_session_reset(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    // Of a row over all layers and heads in a file: four layers of two heads of 16, or one of 24.
    static const uint64_t row_bytes[2][FG_KV_N_ALL] = {{96, 74, 52, 192}, {512, 400, 288, 1024}};
    if (n < 2) return 0;
    const int kv = data[0] & 3, dense = data[0] >> 2 & 1, how = data[0] >> 3 & 3;
    const struct fg_buf *like = &empty[dense][kv];
    size_t bytes = n - 1;
    uint8_t *file;
    if (how == 2) {
        file = wrap(&bytes, data + 2, n - 2, data[1] + (data[1] & 1 ? 256u : 0), like,
                    row_bytes[dense][kv]);
    } else {
        file = malloc(bytes);
        check(file != NULL);
        memcpy(file, data + 1, bytes);
        if (how == 1) sign(file, bytes, (const uint8_t *)like->data + AT_BUILD);
    }
    FILE *f = fopen(path, "wb");
    check(f && fwrite(file, 1, bytes, f) == bytes && fclose(f) == 0);
    read_back(sessions[dense][kv], file, bytes);
    free(file);
    return 0;
}
