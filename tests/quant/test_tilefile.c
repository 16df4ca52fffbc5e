// Tile files: what is written is read back in place; equal input gives equal bytes; every damage is
// an error: each section, header, table, gaps, truncation, other ABI, layout, package.
#include "base/buf.h"
#include "base/crc32c.h"
#include "base/file.h"
#include "kernels/numbers.h"
#include "quant/tilefile.h"
#include "support/scratch.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <cmocka.h>

#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PAGE 4096

static const struct fg_tilefile_mat mats[] = {
    {"layers.0.mlp.gate_proj", FG_P6, 70, 1000, 0, FG_LR_F16},
    {"layers.0.linear_attn.in_proj_qkv", FG_P4X2, 34, 129, 7, FG_LR_F16},
    {"layers.0.self_attn.k_proj", FG_I8, 17, 33, 3, FG_LR_F16},
    {"layers.0.self_attn.q_proj", FG_P4, 18, 33, 5, FG_LR_I8},
    {"layers.0.self_attn.v_proj", FG_I8, 17, 33, 2, FG_LR_I8},
    {"lm_head", FG_P4, 100, 64, 0, FG_LR_F16},
    {"layers.1.mlp.down_proj", FG_P6X1, 19, 50, 4, FG_LR_F16},
};
#define N_MATS (sizeof mats / sizeof mats[0])

static struct scratch scratch;

// Byte i of section k of matrix m: FP32 sections hold finite numbers.
static void fill(uint8_t *p, uint64_t n, int m, int k)
{
    uint64_t seed = (uint64_t)(m * 100 + k) + 1;
    bool floats =
        k == FG_TILE_TABLE || k == FG_TILE_SCALE || k == FG_TILE_SCALE_TS || k == FG_TILE_LR_SCALE;
    for (uint64_t i = 0; i + 4 <= n && floats; i += 4) {
        float f = next_number(&seed, NUMBERS_UNIT);
        memcpy(p + i, &f, 4);
    }
    for (uint64_t i = 0; i < n && !floats; i++)
        p[i] = (uint8_t)next_u32(&seed);
}

// Writes a file in pieces of `piece` bytes and returns its path.
static const char *write_file(const char *name, const struct fg_tilefile_mat *list, uint64_t n,
                              uint64_t piece)
{
    struct fg_tilefile_writer *w;
    struct fg_error err = {0};
    const char *path = scratch_path(&scratch, name);
    assert_int_equal(fg_tilefile_create(&w, path, SHA, list, n, &err), 0);
    for (uint64_t m = 0; m < n; m++)
        for (int k = 1; k <= FG_TILE_LR_SCALE; k++) {
            uint64_t bytes = fg_tilefile_section_bytes(&list[m], (enum fg_tile_kind)k);
            uint8_t *data = malloc((size_t)bytes + 1);
            assert_non_null(data);
            fill(data, bytes, (int)m, k);
            for (uint64_t at = 0; at < bytes; at += piece)
                assert_int_equal(
                    fg_tilefile_write(w, data + at, bytes - at < piece ? bytes - at : piece, &err),
                    0);
            free(data);
        }
    assert_int_equal(fg_tilefile_commit(w, &err), 0);
    return path;
}

static struct fg_buf load(const char *path)
{
    struct fg_buf b = {0};
    assert_int_equal(fg_file_load(&b, path, 1u << 30, NULL), 0);
    return b;
}

static int open_file(struct fg_tilefile **t, const char *path, enum fg_tilefile_verify verify,
                     struct fg_error *err)
{
    struct fg_tilefile_expect x = {.sha256 = SHA};
    *err = (struct fg_error){0};
    return fg_tilefile_open(t, path, &x, verify, NULL, err);
}

static void expect_section(const void *p, int m, int k)
{
    uint64_t bytes = fg_tilefile_section_bytes(&mats[m], (enum fg_tile_kind)k);
    if (bytes == 0) {
        assert_null(p);
        return;
    }
    uint8_t *want = malloc((size_t)bytes);
    assert_non_null(want);
    fill(want, bytes, m, k);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_memory_equal(p, want, bytes);
    free(want);
}

static void expect_content(const struct fg_tilefile *t)
{
    assert_int_equal(fg_tilefile_n_mats(t), N_MATS);
    assert_string_equal(fg_tilefile_sha256(t), SHA);
    for (int m = 0; m < (int)N_MATS; m++) {
        struct fg_lut l;
        assert_true(fg_tilefile_lut(t, mats[m].name, &l));
        assert_int_equal(l.layout, mats[m].layout);
        assert_int_equal(l.n_out, mats[m].n_out);
        assert_int_equal(l.n_in, mats[m].n_in);
        assert_int_equal(l.rank, mats[m].rank);
        expect_section(l.tiles, m, FG_TILE_TILES);
        expect_section(l.table, m, FG_TILE_TABLE);
        expect_section(l.table_u8, m, FG_TILE_TABLE_U8);
        expect_section(l.scale, m, FG_TILE_SCALE);
        expect_section(l.scale_ts, m, FG_TILE_SCALE_TS);
        const bool int8 = mats[m].lr_dtype == FG_LR_I8;
        expect_section(l.lr_a, m, int8 ? FG_TILE_LR_A8 : FG_TILE_LR_A);
        expect_section(l.lr_b, m, int8 ? FG_TILE_LR_B8 : FG_TILE_LR_B);
        expect_section(l.lr_scale, m, FG_TILE_LR_SCALE);
    }
    struct fg_lut l;
    assert_false(fg_tilefile_lut(t, "layers.0.mlp.up_proj", &l));
}

static void test_round_trip(void **state)
{
    (void)state;
    struct fg_error err;
    struct fg_tilefile *t;
    struct fg_pool *pool;
    const char *path = write_file("a.fgt", mats, N_MATS, 1 << 20);
    struct fg_buf one = load(path);
    assert_int_equal(one.len, fg_tilefile_bytes(mats, N_MATS));
    assert_int_equal(fg_pool_new(&pool, 3, &err), 0);
    for (int i = 0; i < 8; i++) {
        struct fg_tilefile_expect x = {.sha256 = i & 4 ? SHA : NULL,
                                       .memory = i & 1 ? FG_TILEFILE_COPY : FG_TILEFILE_AUTO};
        int rc = fg_tilefile_open(&t, path, &x, i & 4 ? FG_TILEFILE_HEADER : FG_TILEFILE_BLOCKS,
                                  i & 2 ? pool : NULL, &err);
        assert_int_equal(rc, 0);
        assert_int_equal(fg_tilefile_is_copy(t), i & 1);
        assert_int_equal(fg_tilefile_size(t), one.len);
        expect_content(t);
        fg_tilefile_close(t);
    }
    fg_pool_free(pool);
    write_file("b.fgt", mats, N_MATS, 13);
    struct fg_buf two = load(scratch_path(&scratch, "b.fgt"));
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    fg_buf_free(&one);
    fg_buf_free(&two);
}

// Sections of more than one block of 8 MiB, the last one short; a file without any section.
static void test_sizes(void **state)
{
    (void)state;
    struct fg_error err;
    struct fg_tilefile *t;
    const struct fg_tilefile_mat big[] = {{"a", FG_I8, 4096 + 16, 4096, 0, FG_LR_F16}};
    struct fg_lut l;
    const char *path = write_file("big.fgt", big, 1, 3u << 20);
    assert_int_equal(open_file(&t, path, FG_TILEFILE_BLOCKS, &err), 0);
    assert_true(fg_tilefile_lut(t, "a", &l));
    assert_int_equal(l.n_out, 4096 + 16);
    fg_tilefile_close(t);
    struct fg_buf b = load(path);
    b.data[PAGE * 2 + (9u << 20)] ^= 1; // in the second block
    scratch_write(&scratch, "big.fgt", b.data, b.len);
    assert_int_equal(open_file(&t, path, FG_TILEFILE_BLOCKS, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "block 1 of section 0");
    fg_buf_free(&b);
    path = write_file("none.fgt", mats, 0, 1);
    assert_int_equal(open_file(&t, path, FG_TILEFILE_BLOCKS, &err), 0);
    assert_int_equal(fg_tilefile_n_mats(t), 0);
    assert_false(fg_tilefile_lut(t, "a", &l));
    fg_tilefile_close(t);
}

static uint64_t word(const struct fg_buf *b, uint64_t at, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes - 1; i >= 0; i--)
        v = v << 8 | (uint8_t)b->data[at + (uint64_t)i];
    return v;
}

static void set_word(struct fg_buf *b, uint64_t at, int bytes, uint64_t v)
{
    for (int i = 0; i < bytes; i++)
        b->data[at + (uint64_t)i] = (char)(v >> 8 * i);
}

// The header's CRC after a change that a writer of hostile files would make.
static void sign(struct fg_buf *b)
{
    uint64_t head = word(b, PAGE + 24, 8); // offset of the first section
    set_word(b, 92, 4, 0);
    set_word(b, 92, 4, fg_crc32c(0, b->data, head));
}

// Opening the file is an error; without its contents being read only if `header_sees`.
static void expect_damage(const struct fg_buf *b, const char *what, bool header_sees)
{
    struct fg_tilefile *t;
    struct fg_error err;
    unlink(scratch_path(&scratch, "bad.fgt")); // some file systems sync what is written over
    const char *path = scratch_write(&scratch, "bad.fgt", b->data, b->len);
    int rc = open_file(&t, path, FG_TILEFILE_BLOCKS, &err);
    if (rc != FG_EINTEGRITY || t || !err.found[0]) print_error("%s: code %d\n", what, rc);
    assert_int_equal(rc, FG_EINTEGRITY);
    assert_null(t);
    rc = open_file(&t, path, FG_TILEFILE_HEADER, &err);
    if (rc != (header_sees ? FG_EINTEGRITY : 0)) print_error("%s: header: code %d\n", what, rc);
    assert_int_equal(rc, header_sees ? FG_EINTEGRITY : 0);
    fg_tilefile_close(t);
}

static void test_flipped_bits(void **state)
{
    (void)state;
    struct fg_buf b = load(write_file("a.fgt", mats, N_MATS, 1 << 20));
    uint64_t sections = word(&b, 88, 4), head = word(&b, PAGE + 24, 8);
    char what[64];
    uint64_t seed = 5;
    assert_true(sections > 20);
    for (uint64_t i = 0; i < sections; i++) {
        uint64_t row = PAGE + 64 * i, at = word(&b, row + 24, 8), n = word(&b, row + 32, 8);
        uint64_t places[] = {at, at + n - 1, at + next_u32(&seed) % n};
        for (int k = 0; k < 3; k++) {
            char flip = (char)(1 << next_u32(&seed) % 8);
            snprintf(what, sizeof what, "section %d byte %d", (int)i, (int)(places[k] - at));
            b.data[places[k]] ^= flip;
            expect_damage(&b, what, false);
            b.data[places[k]] ^= flip;
        }
        if (i + 1 < sections) { // the gap after it
            b.data[at + n] ^= 2;
            expect_damage(&b, "gap", false);
            b.data[at + n] ^= 2;
        }
    }
    for (uint64_t at = 0; at < head; at += at < 128 ? 1 : 7) {
        char flip = (char)(1 << next_u32(&seed) % 8);
        snprintf(what, sizeof what, "header byte %d", (int)at);
        b.data[at] ^= flip;
        expect_damage(&b, what, true);
        b.data[at] ^= flip;
    }
    fg_buf_free(&b);
}

static void test_truncated(void **state)
{
    (void)state;
    struct fg_buf b = load(write_file("a.fgt", mats, N_MATS, 1 << 20));
    size_t whole = b.len;
    for (size_t i = 0; i < 64; i++) {
        b.len = whole * i / 64;
        expect_damage(&b, "truncated", true);
    }
    b.len = whole - 1;
    expect_damage(&b, "one byte less", true);
    fg_buf_char(&b, 0); // overwrites the last byte
    fg_buf_char(&b, 0);
    expect_damage(&b, "one byte more", true);
    fg_buf_free(&b);
}

// Files with a right CRC and wrong numbers: nothing but the checks stands between them and a crash.
static void test_hostile(void **state)
{
    (void)state;
    struct fg_buf b = load(write_file("a.fgt", mats, N_MATS, 1 << 20));
    struct fg_buf good = load(scratch_path(&scratch, "a.fgt"));
    static const uint64_t values[] = {0,          1,          2,          64,
                                      4095,       4097,       UINT32_MAX, 0x7FFFFFFF,
                                      0x40000000, UINT64_MAX, 1u << 20,   UINT64_MAX / 64 + 1};
    static const struct {
        int at, bytes;
    } fields[] = {{0, 8}, {8, 4}, {12, 4}, {16, 4}, {20, 4}, {24, 8}, {32, 8}, {40, 4}, {48, 8}};
    uint64_t sections = word(&b, 88, 4);
    char what[80];
    for (uint64_t row = 0; row < sections; row += 3)
        for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++)
            for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
                uint64_t at = PAGE + 64 * row + (uint64_t)fields[f].at;
                uint64_t mask = fields[f].bytes == 8 ? UINT64_MAX : UINT32_MAX;
                if (word(&b, at, fields[f].bytes) == (values[v] & mask)) continue;
                set_word(&b, at, fields[f].bytes, values[v]);
                if (fields[f].at != 24 && fields[f].at != 32) sign(&b);
                snprintf(what, sizeof what, "row %d field %d value %llx", (int)row, fields[f].at,
                         (unsigned long long)values[v]);
                // A name is free, as long as all rows of the matrix have it.
                expect_damage(&b, what, true);
                memcpy(b.data, good.data, b.len);
            }
    static const uint32_t counts[] = {0, 1, 3, 1000, 65536, 114688, 114689, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        set_word(&b, 88, 4, counts[i]);
        sign(&b);
        expect_damage(&b, "sections", true);
        memcpy(b.data, good.data, b.len);
    }
    // One matrix twice: the name of the last one becomes that of the first.
    uint64_t name = word(&b, PAGE, 8);
    for (uint64_t row = sections - 5; row < sections; row++)
        set_word(&b, PAGE + 64 * row, 8, name);
    sign(&b);
    expect_damage(&b, "a name twice", true);
    memcpy(b.data, good.data, b.len);
    // A scale that is no number, with its CRC.
    uint64_t scale = PAGE + 64 * 3, at = word(&b, scale + 24, 8);
    set_word(&b, at, 4, 0x7F800000);
    set_word(&b, word(&b, scale + 48, 8), 4, fg_crc32c(0, b.data + at, word(&b, scale + 32, 8)));
    sign(&b);
    expect_damage(&b, "infinite scale", false);
    fg_buf_free(&b);
    fg_buf_free(&good);
}

static void test_expectations(void **state)
{
    (void)state;
    struct fg_tilefile *t;
    struct fg_error err;
    const char *path = write_file("a.fgt", mats, N_MATS, 1 << 20);
    const struct {
        struct fg_tilefile_expect x;
        const char *field;
    } cases[] = {{{.sha256 = OTHER}, "sha256"},
                 {{.sha256 = SHA, .abi = FG_TILE_ABI + 1}, "tile ABI"},
                 {{.sha256 = SHA, .layout = "p8"}, "layout"}};
    for (size_t i = 0; i < 3; i++) {
        int rc = fg_tilefile_open(&t, path, &cases[i].x, FG_TILEFILE_HEADER, NULL, &err);
        assert_int_equal(rc, FG_EINTEGRITY);
        assert_string_equal(err.field, cases[i].field);
        assert_string_equal(err.file, path);
        assert_null(t);
    }
    assert_int_equal(open_file(&t, scratch_path(&scratch, "missing"), FG_TILEFILE_BLOCKS, &err),
                     FG_EINPUT);
    assert_int_equal(open_file(&t, scratch.dir, FG_TILEFILE_BLOCKS, &err), FG_EINTEGRITY);
}

static void test_lock(void **state)
{
    (void)state;
    struct fg_tilefile *t;
    struct fg_error err;
    const char *path = write_file("a.fgt", mats, N_MATS, 1 << 20);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(open_file(&t, path, FG_TILEFILE_HEADER, &err), 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    fg_tilefile_close(t);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
}

static void test_writer_errors(void **state)
{
    (void)state;
    struct fg_tilefile_writer *w;
    struct fg_error err = {0};
    const char *path = scratch_path(&scratch, "w.fgt");
    const struct fg_tilefile_mat twice[] = {{"a", FG_P4, 16, 8, 0, FG_LR_F16},
                                            {"a", FG_P4, 16, 8, 0, FG_LR_F16}};
    const struct fg_tilefile_mat empty[] = {{"a", FG_P4, 0, 8, 0, FG_LR_F16}};
    const struct fg_tilefile_mat huge[] = {{"a", FG_P4, 16, INT64_C(1) << 31, 0, FG_LR_F16}};
    const struct fg_tilefile_mat rank[] = {{"a", FG_P4, 16, 8, FG_TILE_RANK_MAX + 1, FG_LR_F16}};
    const struct {
        const struct fg_tilefile_mat *list;
        uint64_t n;
    } cases[] = {{twice, 2}, {empty, 1}, {huge, 1}, {rank, 1}, {twice, FG_TILE_MATS_MAX + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int rc = fg_tilefile_create(&w, path, SHA, cases[i].list, cases[i].n, &err);
        assert_int_equal(rc, FG_EINPUT);
        assert_null(w);
    }
    assert_int_equal(fg_tilefile_create(&w, path, "123", mats, N_MATS, &err), FG_EINPUT);
    assert_int_equal(fg_tilefile_create(&w, path, SHA, mats, N_MATS, &err), 0);
    uint8_t bytes[100] = {0};
    assert_int_equal(fg_tilefile_write(w, bytes, sizeof bytes, &err), 0);
    assert_int_equal(fg_tilefile_commit(w, &err), FG_EFAILED); // sections are not full
    assert_int_equal(fg_tilefile_create(&w, path, SHA, mats, 0, &err), 0);
    assert_int_equal(fg_tilefile_write(w, bytes, 1, &err), FG_EFAILED); // there are none
    fg_tilefile_abort(w);
    fg_tilefile_abort(NULL);
    assert_false(fg_path_taken(path));
}

static int open_scratch(void **state)
{
    (void)state;
    scratch_open(&scratch);
    return 0;
}

static int close_scratch(void **state)
{
    (void)state;
    scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_flipped_bits), cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_hostile),      cmocka_unit_test(test_expectations),
        cmocka_unit_test(test_lock),         cmocka_unit_test(test_writer_errors),
    };
    return cmocka_run_group_tests(tests, open_scratch, close_scratch);
}
