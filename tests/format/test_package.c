// Packages: what is written reads back.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/size.h"
#include "support/package_samples.h"
#include <dirent.h>

static int files_in_scratch(void)
{
    int n = 0;
    DIR *d = opendir(tmp.dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(d);
    return n;
}

static void same_array(const void *a, const void *b, uint64_t bytes)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a) assert_memory_equal(a, b, bytes);
}

static void same_matrix(const struct fg_qmat *a, const struct fg_qmat *b)
{
    uint64_t rows = (uint64_t)a->rows, cols = (uint64_t)a->cols, rank = (uint64_t)a->rank;
    uint64_t per = (uint64_t)fg_qformat_rows_per_index(a->format);
    assert_int_equal(a->format, b->format);
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->cols, b->cols);
    assert_int_equal(a->rank, b->rank);
    assert_int_equal(a->lr_dtype, b->lr_dtype);
    assert_int_equal(a->block, b->block);
    assert_int_equal(a->site == NULL, b->site == NULL);
    if (a->site) assert_string_equal(a->site, b->site);
    same_array(a->pidx, b->pidx, rows / per * fg_qformat_row_bytes(a->format, cols));
    same_array(a->codes, b->codes, rows * cols);
    same_array(a->weight, b->weight, rows * cols * (a->format == FG_Q_F32 ? 4 : 2));
    same_array(a->lut, b->lut, (uint64_t)fg_qformat_entries(a->format) * per * 2);
    same_array(a->scale, b->scale, rows * 2);
    same_array(a->lr_a, b->lr_a, rows * rank * fg_lr_dtype_bytes(a->lr_dtype));
    same_array(a->lr_b, b->lr_b, rank * cols * fg_lr_dtype_bytes(a->lr_dtype));
    same_array(a->lr_scale, b->lr_scale, rank * sizeof(float));
}

static void same_set(const struct fg_qset *a, const struct fg_qset *b)
{
    assert_int_equal(a->n_mats, b->n_mats);
    assert_int_equal(a->n_small, b->n_small);
    assert_int_equal(a->n_rots, b->n_rots);
    for (uint64_t i = 0; i < a->n_mats; i++) {
        assert_string_equal(a->mats[i].name, b->mats[i].name);
        same_matrix(&a->mats[i].m, &b->mats[i].m);
    }
    for (uint64_t i = 0; i < a->n_small; i++) {
        assert_string_equal(a->small[i].name, b->small[i].name);
        assert_int_equal(a->small[i].dtype, b->small[i].dtype);
        assert_int_equal(a->small[i].rank, b->small[i].rank);
        assert_memory_equal(a->small[i].shape, b->small[i].shape, sizeof a->small[i].shape);
        assert_int_equal(a->small[i].bytes, b->small[i].bytes);
        assert_memory_equal(a->small[i].data, b->small[i].data, a->small[i].bytes);
    }
    for (uint64_t i = 0; i < a->n_rots; i++) {
        assert_int_equal(a->rots[i].layer, b->rots[i].layer);
        assert_string_equal(a->rots[i].site, b->rots[i].site);
        assert_int_equal(a->rots[i].n, b->rots[i].n);
        assert_int_equal(a->rots[i].block, b->rots[i].block);
        assert_memory_equal(a->rots[i].bits, b->rots[i].bits, (uint64_t)(a->rots[i].n + 7) / 8);
    }
}

static void round_trips(void **state)
{
    (void)state;
    for (int i = 0; i < N_SAMPLES; i++) {
        struct fg_error err = {0};
        struct fg_st_written first, second;
        uint64_t bytes;
        char sha[FG_SHA256_HEX];
        make_sets(false);
        assert_int_equal(fg_package_write(path, &specs[i], &first, &err), 0);
        assert_int_equal(fg_sha256_file(path, sha, &err), 0);
        assert_string_equal(sha, first.sha256);
        assert_int_equal(fg_package_bytes(&specs[i], &bytes, &err), 0);
        assert_int_equal(bytes, first.bytes);
        struct fg_package *p = open_good(path);
        const struct fg_package_info *info = fg_package_info(p);
        assert_int_equal(info->kind, specs[i].kind);
        assert_int_equal(info->layer_first, i == HEAD ? -1 : specs[i].layer_first);
        assert_int_equal(info->layer_last, i == HEAD ? -1 : specs[i].layer_last);
        assert_string_equal(info->weights_digest, PB_DIGEST);
        assert_string_equal(info->export_digest, PB_EXPORT);
        assert_string_equal(info->layout, "canonical");
        assert_int_equal(info->bytes, first.bytes);
        if (i == HEAD) {
            assert_string_equal(info->id, PB_ID);
        } else {
            assert_null(info->id);
        }
        same_set(&sets[i].set, fg_package_set(p));
        // Layout of the file: data at 4096, every tensor at 64, sorted by name.
        const struct fg_st_file *f = fg_package_file(p);
        const char *before = "";
        const uint8_t *start = fg_st_file_at(f, 0)->data;
        for (uint64_t k = 0; k < fg_st_file_count(f); k++) {
            const struct fg_st_tensor *t = fg_st_file_at(f, k);
            if (strncmp(t->name, "~pad.", 5) == 0) continue;
            assert_true(strcmp(before, t->name) < 0);
            assert_int_equal((uintptr_t)t->data % 64, 0);
            before = t->name;
        }
        assert_int_equal((uintptr_t)start % 4096, 0);
        fg_package_close(p);
        free_sets();
        // A byte per index gives the same file.
        make_sets(true);
        assert_int_equal(fg_package_write(path, &specs[i], &second, &err), 0);
        assert_string_equal(first.sha256, second.sha256);
        free_sets();
    }
}

static int load_calls;
static int load_from_set(void *ctx, const char *name, struct fg_qmat *m, struct fg_error *err)
{
    const struct fg_qset_mat *mat = fg_qset_find_mat(ctx, name);
    assert_non_null(mat);
    load_calls++;
    if (strcmp(name, "lm_head") == 0)
        return fg_fail(err, FG_EFAILED, "test", NULL, NULL, NULL, "x");
    *m = mat->m;
    return 0;
}

static bool stop_after(void *ctx, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    return (*(int *)ctx)-- > 0;
}

static void writes_as_asked(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_st_written whole, lazy;
    make_sets(false);
    assert_int_equal(fg_package_write(path, &specs[CHUNK], &whole, &err), 0);
    // Arrays that come one matrix after the other.
    struct pb_set copy = sets[CHUNK];
    struct fg_package_spec spec = specs[CHUNK];
    copy.set.mats = copy.mats;
    for (uint64_t i = 0; i < copy.set.n_mats; i++) {
        struct fg_qmat *m = &copy.mats[i].m;
        *m = (struct fg_qmat){m->format,
                              m->rows,
                              m->cols,
                              .rank = m->rank,
                              .site = m->site,
                              .block = m->block,
                              .lr_dtype = m->lr_dtype};
    }
    spec.set = &copy.set;
    assert_int_equal(fg_package_write(path, &spec, NULL, &err), FG_EINPUT);
    spec.load = load_from_set;
    spec.load_ctx = &sets[CHUNK].set;
    load_calls = 0;
    assert_int_equal(fg_package_write(path, &spec, &lazy, &err), 0);
    assert_string_equal(lazy.sha256, whole.sha256);
    assert_int_equal(load_calls, copy.set.n_mats);
    // A load that fails, and a stop at any point, leave the old file alone.
    char sha[FG_SHA256_HEX];
    struct fg_package_spec head = specs[HEAD];
    head.load = load_from_set;
    head.load_ctx = &sets[HEAD].set;
    assert_int_equal(fg_package_write(path, &head, NULL, &err), FG_EFAILED);
    spec = specs[CHUNK];
    spec.progress = stop_after;
    for (int steps = 0; steps < 40; steps += 7) {
        int left = steps;
        spec.progress_ctx = &left;
        assert_int_equal(fg_package_write(path, &spec, NULL, &err), FG_EINTERRUPTED);
    }
    int enough = 1000;
    spec.progress_ctx = &enough;
    assert_int_equal(fg_package_write(path, &spec, NULL, &err), 0);
    assert_int_equal(fg_sha256_file(path, sha, &err), 0);
    assert_string_equal(sha, whole.sha256);
    assert_int_equal(files_in_scratch(), 1);
    free_sets();
}

static void write_refused(struct fg_package_spec spec, const char *part)
{
    struct fg_error err = {0};
    char line[1024];
    int rc = fg_package_write(path, &spec, NULL, &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != FG_EINPUT || !strstr(line, part)) {
        fail_msg("rc %d, \"%s\", wanted \"%s\"", rc, line, part);
    }
}

static void refuses_to_write(void **state)
{
    (void)state;
    make_sets(true);
    struct fg_package_spec spec = specs[CHUNK];
    spec.weights_digest = "12";
    write_refused(spec, "forge.weights_digest");
    spec = specs[CHUNK];
    spec.export_digest = "name";
    write_refused(spec, "forge.export");
    spec = specs[HEAD];
    spec.id = "x";
    write_refused(spec, "forge.id");
    spec = specs[CHUNK];
    spec.layer_last = 1024;
    write_refused(spec, "forge.layers");
    spec = specs[CHUNK];
    spec.layer_last = 3;
    write_refused(spec, "tensor layers.3.");
    spec.layer_last = 1;
    write_refused(spec, "tensor layers.2.");
    spec.kind = FG_PACKAGE_HEAD;
    write_refused(spec, "tensor layers.0.");
    struct fg_qset_mat *mat = &sets[CHUNK].mats[3]; // layers.0.linear_attn.in_proj_z? any will do
    int64_t rows = mat->m.rows;
    mat->m.rows = rows + 1;
    write_refused(specs[CHUNK], "forge.matrices[");
    mat->m.rows = rows;
    mat = (struct fg_qset_mat *)fg_qset_find_mat(&sets[CHUNK].set, main_mat[CHUNK]);
    ((uint8_t *)mat->m.idx)[17] = 64;
    write_refused(specs[CHUNK], "layers.0.mlp.gate_proj.idx");
    free_sets();
}

// Files of another writer, from the text of the specification:
// tests/reference/make_package_seeds.py.
static void reads_another_writers(void **state)
{
    (void)state;
    static const char *const names[] = {"chunk", "dense", "drafter", "head"};
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        char file[600];
        snprintf(file, sizeof file, "%s/../fuzz/corpus/package/%s", FORGE_GOLDEN_DIR, names[i]);
        struct fg_package *p = open_good(file);
        const struct fg_qset *set = fg_package_set(p);
        for (uint64_t k = 0; k < set->n_mats; k++) {
            const struct fg_qmat *m = &set->mats[k].m;
            if (!m->pidx) continue;
            int bits = fg_qformat_index_bits(m->format), n = fg_qformat_entries(m->format);
            uint8_t row[64];
            for (int64_t r = 0; r < m->rows / fg_qformat_rows_per_index(m->format); r++) {
                uint64_t at = (uint64_t)r * fg_qformat_row_bytes(m->format, (uint64_t)m->cols);
                fg_bits_unpack(row, m->pidx + at, (uint64_t)m->cols, bits);
                for (int64_t c = 0; c < m->cols; c++) {
                    assert_int_equal(row[c], (7 * r + 5 * c + 3) % n);
                }
            }
        }
        if (strcmp(names[i], "chunk") == 0) {
            assert_int_equal(fg_package_info(p)->layer_first, 4);
            const struct fg_qset_mat *mat =
                fg_qset_find_mat(set, "layers.4.linear_attn.in_proj_qkv");
            assert_string_equal(mat->m.site, "mix_in");
            assert_int_equal(mat->m.rank, 1);
            assert_int_equal(fg_qset_find_rot(set, 5, "mlp_mid")->bits[0], 5);
        }
        fg_package_close(p);
    }
}

static void expectations(void **state)
{
    (void)state;
    struct fg_package *p;
    struct fg_error err = {0};
    make_sets(false);
    write_sample(CHUNK);
    p = open_good(path);
    bool linear[3] = {true, true, false};
    struct fg_package_expect expect = {
        .dims = *fg_package_dims(p), .is_linear = linear, .n_layers = 3};
    fg_package_close(p);
    assert_int_equal(expect.dims.hidden, 32);
    assert_int_equal(expect.dims.intermediate, 48);
    assert_int_equal(expect.dims.q_rows, 32);
    assert_int_equal(expect.dims.attn_out, 16);
    assert_int_equal(expect.dims.conv_channels, 24);
    assert_int_equal(expect.dims.v_head_dim, 8);
    assert_int_equal(fg_package_open_expecting(&p, path, &expect, &err), 0);
    fg_package_close(p);
    expect.dims.intermediate = 64;
    assert_int_equal(fg_package_open_expecting(&p, path, &expect, &err), FG_EINPUT);
    assert_non_null(strstr(err.field, "shape of layers.0.mlp.gate_proj"));
    expect.dims.intermediate = 48;
    linear[1] = false;
    assert_int_equal(fg_package_open_expecting(&p, path, &expect, &err), FG_EINPUT);
    assert_non_null(strstr(err.field, "tensor layers.1.linear_attn"));
    // No error wanted, no error given.
    assert_int_equal(fg_package_open_expecting(&p, path, &expect, NULL), FG_EINPUT);
    assert_int_equal(fg_package_open(&p, "/nowhere", NULL), FG_EINPUT);
    assert_int_equal(fg_package_open(&p, tmp.dir, NULL), FG_EINPUT);
    free_sets();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),      cmocka_unit_test(writes_as_asked),
        cmocka_unit_test(refuses_to_write), cmocka_unit_test(reads_another_writers),
        cmocka_unit_test(expectations),
    };
    samples_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
