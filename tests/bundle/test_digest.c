// Digests: the lines that NumPy computes of the same arrays; one digest for every way of packing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/file.h"
#include "bundle/digest.h"
#include "quant/tiles.h"
#include "support/export_build.h"
#include "support/foreign.h"
#include "support/scratch.h"

static struct scratch tmp;
static struct foreign model;
static struct fg_export *foreign;
static struct fg_buf golden; // digest.txt: lines, then the root

static int setup(void **state)
{
    struct fg_error err = {0};
    (void)state;
    scratch_open(&tmp);
    foreign_init(&model);
    foreign = foreign_open(&model, FOREIGN_DIR, FOREIGN_MODEL, NULL);
    return fg_file_read(&golden, FOREIGN_DIR "/digest.txt", 1 << 20, &err);
}

static int teardown(void **state)
{
    (void)state;
    fg_export_close(foreign);
    fg_buf_free(&golden);
    foreign_free(&model);
    scratch_close(&tmp);
    return 0;
}

static void digest_of(struct fg_digest *d, const struct fg_qset *set,
                      const struct fg_digest_options *o)
{
    struct fg_error err = {0};
    char line[1024];
    if (fg_digest_sets(d, &set, 1, o, &err)) fail_msg("%s", fg_error_line(&err, line, sizeof line));
}

static void equals_numpy(void **state)
{
    (void)state;
    struct fg_digest d;
    digest_of(&d, fg_export_set(foreign), NULL);
    size_t n = strlen(d.lines);
    assert_int_equal(golden.len, n + 1 + 64 + 1);
    assert_memory_equal(d.lines, golden.data, n);
    assert_memory_equal(d.hex, golden.data + n + 1, 64);

    // The head's id is made of the lines of lm_head and norm.weight.
    struct fg_buf head = {0};
    char hex[FG_SHA256_HEX];
    const char *start = strstr(d.lines, "lm_head.idx"), *end = strstr(start, "\nnorm.weight");
    assert_true(start && end);
    fg_buf_str(&head, start);
    assert_int_equal(strlen(strchr(end + 1, ' ')), strlen(" BF16[32] ") + 64); // the last line
    fg_sha256_hex(head.data, head.len, hex);
    assert_string_equal(d.head, hex);
    fg_buf_free(&head);
    fg_digest_free(&d);
}

static void does_not_depend_on_packing_or_threads(void **state)
{
    (void)state;
    struct fg_digest want;
    struct fg_error err = {0};
    digest_of(&want, fg_export_set(foreign), NULL);
    for (int variant = 0; variant < 4; variant++) {
        struct export_build b;
        struct fg_digest d;
        struct fg_pool *pool;
        char dir[300];
        snprintf(dir, sizeof dir, "%s/%d", tmp.dir, variant);
        eb_from(&b, foreign, true, variant & 1);
        assert_int_equal(eb_write(&b, dir, &err), 0);
        eb_free(&b);
        assert_int_equal(fg_pool_new(&pool, variant < 2 ? 1 : 3, &err), 0);
        struct fg_export *e = foreign_open(&model, dir, NULL, pool);
        const struct fg_digest_options o = {.pool = pool, .release = true};
        digest_of(&d, fg_export_set(e), &o);
        assert_string_equal(d.hex, want.hex);
        assert_string_equal(d.lines, want.lines);
        fg_digest_free(&d);
        fg_export_close(e);
        fg_pool_free(pool);
    }
    fg_digest_free(&want);
}

// Indices as the kernels' tiles hold them.
static int from_tiles(void *ctx, const struct fg_qset_mat *mat, int64_t row0, int64_t n_rows,
                      uint8_t *out, struct fg_error *err)
{
    const enum fg_layout l = fg_layout_of_format(mat->m.format);
    const int64_t bytes = fg_layout_group_bytes(l, mat->m.cols);
    uint8_t *tiles = malloc(fg_tiles_bytes(l, mat->m.rows, mat->m.cols));
    (void)err;
    assert_non_null(tiles);
    fg_tiles_pack(tiles, &mat->m, 0, fg_layout_groups(l, mat->m.rows));
    for (int64_t r = row0; r < row0 + n_rows; r++) {
        uint8_t *row = out + (r - row0) * mat->m.cols;
        fg_tiles_unpack_indices(row, tiles + r / FG_LUT_LANES * bytes, l, (int)(r % FG_LUT_LANES),
                                mat->m.cols);
        for (int64_t j = 0; j < mat->m.cols && l == FG_I8; j++)
            row[j] ^= 0x80;
    }
    free(tiles);
    ++*(int *)ctx;
    return 0;
}

static void is_the_same_through_tiles(void **state)
{
    (void)state;
    struct fg_digest a, b;
    int calls = 0;
    const struct fg_digest_options o = {.unpack = from_tiles, .unpack_ctx = &calls};
    digest_of(&a, fg_export_set(foreign), NULL);
    digest_of(&b, fg_export_set(foreign), &o);
    assert_string_equal(a.hex, b.hex);
    assert_int_equal(calls, 4 * 3 + 3 * 3 + 4 + 1);
    fg_digest_free(&a);
    fg_digest_free(&b);
}

static void takes_the_union_of_sets(void **state)
{
    (void)state;
    const struct fg_qset *all = fg_export_set(foreign);
    const struct fg_qset a = {.mats = all->mats, .n_mats = 5, .rots = all->rots, .n_rots = 3};
    const struct fg_qset b = {.mats = all->mats + 5,
                              .n_mats = all->n_mats - 5,
                              .small = all->small,
                              .n_small = all->n_small,
                              .rots = all->rots + 3,
                              .n_rots = all->n_rots - 3};
    const struct fg_qset *const sets[] = {&b, &a}, *const twice[] = {all, &a};
    struct fg_digest whole, parts;
    struct fg_error err = {0};
    digest_of(&whole, all, NULL);
    assert_int_equal(fg_digest_sets(&parts, sets, 2, NULL, &err), 0);
    assert_string_equal(whole.hex, parts.hex);
    fg_digest_free(&parts);
    fg_digest_free(&whole);
    assert_int_equal(fg_digest_sets(&parts, twice, 2, NULL, &err), FG_EINPUT);
    assert_null(parts.lines);
}

static void can_be_limited(void **state)
{
    (void)state;
    struct fg_digest d;
    struct fg_digest_options o = {.only = "layers.1."};
    digest_of(&d, fg_export_set(foreign), &o);
    for (const char *line = d.lines; line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        assert_memory_equal(line, "layers.1.", 9);
    fg_digest_free(&d);
    o.only = "layers.3.self_attn.k_proj";
    digest_of(&d, fg_export_set(foreign), &o);
    assert_int_equal(d.n_lines, 4); // int8, scale and factors
    fg_digest_free(&d);
    o.only = "layers.3.self_attn.k";
    digest_of(&d, fg_export_set(foreign), &o);
    assert_int_equal(d.n_lines, 0);
    fg_digest_free(&d);
}

static bool stop_at_once(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return false;
}

static void refuses_and_stops(void **state)
{
    (void)state;
    struct fg_digest d;
    struct fg_error err = {0};
    const struct fg_digest_options o = {.progress = stop_at_once};
    const struct fg_qset *set = fg_export_set(foreign);
    assert_int_equal(fg_digest_sets(&d, &set, 1, &o, &err), FG_EINTERRUPTED);
    assert_null(d.lines);

    const struct fg_qset_mat *gate = fg_qset_find_mat(set, "layers.0.mlp.gate_proj");
    struct fg_qset_mat mat = *gate;
    uint8_t *idx = malloc((size_t)(mat.m.rows / 2 * mat.m.cols));
    assert_non_null(idx);
    memcpy(idx, mat.m.idx, (size_t)(mat.m.rows / 2 * mat.m.cols));
    idx[100] = 64;
    mat.m.idx = idx;
    const struct fg_qset bad = {.mats = &mat, .n_mats = 1}, *sets = &bad;
    assert_int_equal(fg_digest_sets(&d, &sets, 1, NULL, &err), FG_EINPUT);
    assert_string_equal(err.field, "layers.0.mlp.gate_proj.idx[100]");
    free(idx);
}

static void note(void *ctx, const char *name, const char *what)
{
    fg_buf_printf(ctx, "%s %s;", what, name);
}

static void compares_lists(void **state)
{
    (void)state;
    struct fg_digest d;
    struct fg_error err = {0};
    struct fg_buf notes = {0}, text = {0};
    uint64_t n;
    digest_of(&d, fg_export_set(foreign), NULL);
    assert_int_equal(fg_digest_compare(&d, golden.data, golden.len, "f", note, &notes, &n, &err),
                     0);
    assert_int_equal(n, 0);

    // One line changed, one gone, one more.
    char *line = strstr(golden.data, "layers.2.mlp.up_proj.lut");
    char *next = strchr(line, '\n') + 1, *after = strchr(next, '\n') + 1;
    fg_buf_add(&text, golden.data, (size_t)(next - golden.data));
    text.data[text.len - 2] = text.data[text.len - 2] == '0' ? '1' : '0';
    fg_buf_str(&text, after);
    fg_buf_printf(&text, "zzz U8[1] %064d\n", 0);
    assert_int_equal(fg_digest_compare(&d, text.data, text.len, "f", note, &notes, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_string_equal(notes.data, "differs layers.2.mlp.up_proj.lut;"
                                    "extra layers.2.mlp.up_proj.scale;missing zzz;");
    assert_int_equal(fg_digest_compare(&d, "a b c\n", 6, "f", note, &notes, &n, &err), FG_EINPUT);
    assert_string_equal(err.field, "line 1");
    assert_string_equal(err.file, "f");
    fg_buf_free(&notes);
    fg_buf_free(&text);
    fg_digest_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_numpy),
        cmocka_unit_test(does_not_depend_on_packing_or_threads),
        cmocka_unit_test(is_the_same_through_tiles),
        cmocka_unit_test(takes_the_union_of_sets),
        cmocka_unit_test(can_be_limited),
        cmocka_unit_test(refuses_and_stops),
        cmocka_unit_test(compares_lists),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
