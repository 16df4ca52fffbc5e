// Builds: a whole bundle opens and is one set; everything that may differ between its files is
// noticed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/error.h"
#include "base/size.h"
#include "format/build.h"
#include "support/build_on_disk.h"
#include "support/scratch.h"

static struct scratch tmp;
static struct bd_build hybrid;

static struct fg_build *open_good(const char *dir, bool verify)
{
    struct fg_build *b;
    struct fg_error err = {0};
    char line[1024];
    if (fg_build_open(&b, dir, verify, &err)) fail_msg("%s", fg_error_line(&err, line, 1024));
    return b;
}

static void refused(bool verify, int code, const char *part)
{
    struct fg_build *b;
    struct fg_error err = {0};
    char line[1024];
    int rc = fg_build_open(&b, hybrid.dir, verify, &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != code || b || !strstr(line, part)) {
        fail_msg("rc %d, \"%s\", wanted %d and \"%s\"", rc, line, code, part);
    }
}

// Makes the bundle anew in its directory.
static void remake(void)
{
    nftw(hybrid.dir, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    char dir[300];
    snprintf(dir, sizeof dir, "%s/bundle", tmp.dir);
    bd_make(&hybrid, dir, &pb_hybrid, 5);
}

static void opens(void **state)
{
    (void)state;
    struct fg_build *b = open_good(hybrid.dir, true);
    assert_string_equal(fg_build_dir(b), hybrid.forge);
    assert_int_equal(fg_build_n_packages(b), 4);
    assert_int_equal(fg_package_info(fg_build_package(b, 1))->layer_first, 2);
    assert_int_equal(fg_package_info(fg_build_package(b, 3))->kind, FG_PACKAGE_HEAD);
    assert_string_equal(fg_build_manifest(b)->release_name, "tiny");
    char config[700];
    snprintf(config, sizeof config, "%s/config.json", fg_build_model_dir(b));
    assert_true(fg_file_exists(config));
    // One set, sorted, of everything.
    const struct fg_qset *set = fg_build_set(b);
    uint64_t n_mats = 0, n_small = 0, n_rots = 0;
    for (uint64_t i = 0; i < fg_build_n_packages(b); i++) {
        const struct fg_qset *s = fg_package_set(fg_build_package(b, i));
        n_mats += s->n_mats;
        n_small += s->n_small;
        n_rots += s->n_rots;
        for (uint64_t k = 0; k < s->n_mats; k++) {
            const struct fg_qset_mat *mat = fg_build_find_mat(b, s->mats[k].name);
            assert_non_null(mat);
            assert_ptr_equal(mat->m.scale, s->mats[k].m.scale);
        }
        for (uint64_t k = 0; k < s->n_small; k++) {
            assert_ptr_equal(fg_build_find_small(b, s->small[k].name)->data, s->small[k].data);
        }
        for (uint64_t k = 0; k < s->n_rots; k++) {
            assert_ptr_equal(fg_build_find_rot(b, s->rots[k].layer, s->rots[k].site)->bits,
                             s->rots[k].bits);
        }
    }
    assert_int_equal(n_mats, set->n_mats);
    assert_int_equal(n_small, set->n_small);
    assert_int_equal(n_rots, set->n_rots);
    assert_int_equal(n_rots, 20);
    assert_null(fg_build_find_mat(b, "layers.5.mlp.gate_proj"));
    assert_null(fg_build_find_small(b, "lm_head"));
    assert_null(fg_build_find_rot(b, 5, "mlp_in"));
    const struct fg_build_embedding *e = fg_build_embedding(b);
    assert_int_equal(e->vocab, 40);
    assert_int_equal(e->hidden, 32);
    assert_int_equal(e->kind, FG_EMBEDDING_DENSE);
    assert_int_equal(((const uint16_t *)e->data)[1], 0x3001);
    assert_string_equal(e->path + strlen(e->path) - 22, "/embed_tokens_fp16.npy");
    fg_build_close(b);
    fg_build_close(NULL);
    b = open_good(hybrid.forge, false); // the directory of the manifest
    fg_build_close(b);
    assert_true(fg_build_is(hybrid.dir));
    assert_true(fg_build_is(hybrid.forge));
    assert_false(fg_build_is(tmp.dir));
    assert_false(fg_build_is("/nowhere"));
    char slash[600];
    snprintf(slash, sizeof slash, "%s/", hybrid.dir);
    b = open_good(slash, true);
    fg_build_close(b);
    assert_int_equal(fg_build_open(&b, tmp.dir, false, NULL), FG_EINPUT);
    assert_int_equal(fg_build_open(&b, "/nowhere", false, NULL), FG_EINPUT);
    assert_int_equal(fg_build_open(&b, "", false, NULL), FG_EINPUT);
}

static void opens_dense(void **state)
{
    (void)state;
    static const struct pb_model models[] = {
        {.hidden = 24,
         .intermediate = 40,
         .vocab = 9,
         .n_heads = 3,
         .n_kv_heads = 1,
         .head_dim = 8,
         .rotated = true},
        {.hidden = 32,
         .intermediate = 16,
         .vocab = 9,
         .n_heads = 2,
         .n_kv_heads = 2,
         .head_dim = 16,
         .qk_norm = true},
    };
    for (size_t i = 0; i <= FG_COUNT(models); i++) {
        struct bd_build dense;
        char dir[300];
        snprintf(dir, sizeof dir, "%s/dense%zu", tmp.dir, i);
        bd_make(&dense, dir, i < FG_COUNT(models) ? &models[i] : &pb_dense, 3);
        struct fg_build *b = open_good(dir, true);
        assert_false(fg_build_manifest(b)->model.has_gdn);
        assert_non_null(fg_build_find_mat(b, "layers.2.self_attn.q_proj"));
        fg_build_close(b);
    }
}

// The manifest says something else, and everything follows from that.
static void differs_from_the_manifest(void **state)
{
    (void)state;
    struct bd_build was = hybrid;
#define CHANGED(member, value, verify, code, part)                                                 \
    do {                                                                                           \
        hybrid.m.member = value;                                                                   \
        bd_write_manifest(&hybrid);                                                                \
        hybrid.m.member = was.m.member;                                                            \
        refused(verify, code, part);                                                               \
    } while (0)
    static const char other[] = PB_ID;
    CHANGED(model.config_sha256, other, false, FG_EINTEGRITY, "config_sha256");
    CHANGED(weights_digest, other, false, FG_EINTEGRITY, "forge.weights_digest");
    CHANGED(export_digest, other, false, FG_EINTEGRITY, "forge.export");
    CHANGED(head.id, PB_EXPORT, false, FG_EINTEGRITY, "head.id");
    CHANGED(head.bytes, 5, false, FG_EINTEGRITY, "/head/bytes");
    CHANGED(head.sha256, other, true, FG_EINTEGRITY, "/head/sha256");
    CHANGED(embedding.sha256, other, true, FG_EINTEGRITY, "/embedding/sha256");
    CHANGED(head.file, "other", false, FG_EINPUT, "forge/other");
    CHANGED(embedding.file, "../model/none", false, FG_EINPUT, "model/none");
    CHANGED(embedding.file, "../model/config.json", false, FG_EINPUT, "config.json");
    CHANGED(model.hidden, 64, false, FG_EINPUT, "/model/hidden");
    CHANGED(model.head_dim, 16, false, FG_EINPUT, "/model/head_dim");
    CHANGED(model.gdn.conv, 3, false, FG_EINPUT, "/model/gdn/conv");
    CHANGED(model.rms_eps, 1e-5, false, FG_EINPUT, "/model/rms_eps");
    CHANGED(model.rope_theta, 1e4, false, FG_EINPUT, "/model/rope_theta");
    CHANGED(model.rotary_dims, 2, false, FG_EINPUT, "/model/rotary_dims");
    CHANGED(rotation.given, false, false, FG_EINPUT, "rot.");
    CHANGED(rotation.block, 16, false, FG_EINPUT, "rot.");
    hybrid.is_linear[1] = false;
    bd_write_manifest(&hybrid);
    hybrid.is_linear[1] = true;
    refused(false, FG_EINPUT, "/model/layer_types/1");
    hybrid.chunks[1].sha256 = other;
    bd_write_manifest(&hybrid);
    refused(true, FG_EINTEGRITY, "/chunks/1/sha256");
    hybrid.chunks[1] = was.chunks[1];
    hybrid.chunks[0].file = was.chunks[1].file; // exchanged
    hybrid.chunks[1].file = was.chunks[0].file;
    hybrid.chunks[0].bytes = was.chunks[1].bytes;
    hybrid.chunks[1].bytes = was.chunks[0].bytes;
    bd_write_manifest(&hybrid);
    refused(false, FG_EINPUT, "forge.layers");
    hybrid.chunks[0] = was.chunks[0];
    hybrid.chunks[1] = was.chunks[1];
    // The head in a chunk's place, and the reverse.
    hybrid.m.head.file = was.chunks[2].file;
    hybrid.m.head.bytes = was.chunks[2].bytes;
    hybrid.chunks[2].file = was.m.head.file;
    hybrid.chunks[2].bytes = was.m.head.bytes;
    bd_write_manifest(&hybrid);
    refused(false, FG_EINPUT, "forge.kind");
    hybrid = was;
    hybrid.m.chunks = hybrid.chunks;
    bd_write_manifest(&hybrid);
    fg_build_close(open_good(hybrid.dir, true));
}

static void edit(const char *path, uint64_t at, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void files_that_changed(void **state)
{
    (void)state;
    char path[800], other[800];
    struct fg_error err = {0};
    // A package cut by one byte, and one that is another's.
    snprintf(path, sizeof path, "%s/%s", hybrid.forge, hybrid.files[1]);
    assert_int_equal(truncate(path, (off_t)hybrid.chunks[1].bytes - 1), 0);
    refused(false, FG_EINTEGRITY, "/chunks/1/bytes");
    remake();
    // A flipped bit in the indices is seen when hashes are asked for.
    struct fg_build *b = open_good(hybrid.dir, false);
    const struct fg_package *p = fg_build_package(b, 1);
    const struct fg_st_tensor *t =
        fg_st_file_find(fg_package_file(p), "layers.2.mlp.gate_proj.pidx");
    uint64_t at = 0;
    for (uint64_t i = 0; i < fg_st_file_count(fg_package_file(p)); i++) {
        at += fg_st_file_at(fg_package_file(p), i)->bytes;
    }
    at = hybrid.chunks[1].bytes - at; // where the data start
    at += (uint64_t)(t->data - fg_st_file_at(fg_package_file(p), 0)->data);
    char flipped = (char)(t->data[0] ^ 1);
    fg_build_close(b);
    edit(path, at, &flipped, 1);
    fg_build_close(open_good(hybrid.dir, false));
    refused(true, FG_EINTEGRITY, "/chunks/1/sha256");
    remake();
    // A package of another release: same shapes and size, another digest.
    struct pb_set s;
    pb_begin(&s, 7);
    pb_layer(&s, &pb_hybrid, 2, hybrid.is_linear[2]);
    pb_layer(&s, &pb_hybrid, 3, hybrid.is_linear[3]);
    pb_end(&s);
    struct fg_package_spec spec = pb_spec(&s, FG_PACKAGE_CHUNK, 2, 3);
    spec.weights_digest = PB_ID;
    bd_ok(fg_package_write(path, &spec, NULL, &err), &err);
    pb_free(&s);
    refused(false, FG_EINTEGRITY, "forge.weights_digest");
    remake();
    // Files that are missing, links or something else.
    assert_int_equal(unlink(path), 0);
    refused(false, FG_EINPUT, hybrid.files[1]);
    snprintf(other, sizeof other, "%s/%s", hybrid.forge, hybrid.files[0]);
    assert_int_equal(symlink(other, path), 0);
    refused(false, FG_EINPUT, "symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    refused(false, FG_EINPUT, "regular file");
    remake();
    snprintf(other, sizeof other, "%s/model2", hybrid.dir);
    snprintf(path, sizeof path, "%s/model", hybrid.dir);
    assert_int_equal(rename(path, other), 0);
    refused(false, FG_EINPUT, "model");
    assert_int_equal(symlink(other, path), 0);
    refused(false, FG_EINPUT, "symbolic link");
    remake();
    edit(hybrid.config, 3, "x", 1);
    refused(false, FG_EINTEGRITY, "config_sha256");
    remake();
    // The embedding: another shape, dtype, length.
    static const uint16_t rows[40 * 33];
    bd_ok(fg_npy_write(hybrid.embedding, FG_NPY_F16, 2, (const uint64_t[]){40, 33}, rows, &err),
          &err);
    refused(false, FG_EINPUT, "shape");
    bd_ok(fg_npy_write(hybrid.embedding, FG_NPY_F16, 1, (const uint64_t[]){40}, rows, &err), &err);
    refused(false, FG_EINPUT, "shape");
    bd_ok(fg_npy_write(hybrid.embedding, FG_NPY_U16, 2, (const uint64_t[]){40, 32}, rows, &err),
          &err);
    refused(false, FG_EINPUT, "descr");
    bd_ok(fg_npy_write(hybrid.embedding, FG_NPY_F16, 2, (const uint64_t[]){40, 32}, rows, &err),
          &err);
    fg_build_close(open_good(hybrid.dir, false));
    refused(true, FG_EINTEGRITY, "/embedding/sha256");
    assert_int_equal(truncate(hybrid.embedding, 2000), 0);
    refused(false, FG_EINPUT, "embed_tokens_fp16.npy");
    remake();
    scratch_write(&tmp, "bundle/forge/manifest.json", "{\"version\": \"coreai1\"}", 22);
    refused(false, FG_EUNSUPPORTED, "/version");
    remake();
}

// An embedding in INT8, and none where the head is it.
static void other_embeddings(void **state)
{
    (void)state;
    struct bd_build was = hybrid;
    struct fg_error err = {0};
    struct fg_embedding_int8 q;
    char path[600], sha[FG_SHA256_HEX];
    snprintf(path, sizeof path, "%s/model/rows.safetensors", hybrid.dir);
    hybrid.m.embedding.kind = FG_EMBEDDING_INT8;
    hybrid.m.embedding.file = "../model/rows.safetensors";
    hybrid.m.embedding.sha256 = sha;
    static const uint64_t shapes[][2] = {{40, 32}, {40, 33}, {41, 32}};
    for (size_t i = 0; i < FG_COUNT(shapes); i++) {
        static int8_t codes[41 * 33];
        uint16_t scales[41];
        struct fg_st_stream *s = NULL;
        for (int k = 0; k < 41; k++)
            scales[k] = (uint16_t)(0x3C00 + k);
        codes[33] = -5;
        bd_ok(fg_embedding_int8_stream(&s, path, shapes[i][0], shapes[i][1], "0", &err), &err);
        bd_ok(fg_st_stream_add(s, codes, shapes[i][0] * shapes[i][1], &err), &err);
        bd_ok(fg_st_stream_add(s, scales, shapes[i][0] * 2, &err), &err);
        bd_ok(fg_st_stream_commit(s, NULL, &err), &err);
        bd_ok(fg_sha256_file(path, sha, &err), &err);
        bd_write_manifest(&hybrid);
        if (i > 0) {
            refused(false, FG_EINPUT, "embed_tokens.int8");
            continue;
        }
        struct fg_build *b = open_good(hybrid.dir, true);
        const struct fg_build_embedding *e = fg_build_embedding(b);
        assert_int_equal(e->kind, FG_EMBEDDING_INT8);
        assert_int_equal(((const int8_t *)e->data)[33], -5);
        assert_int_equal(((const uint8_t *)e->scale)[2], 1);
        fg_build_close(b);
        bd_ok(fg_embedding_int8_open(&q, path, true, &err), &err);
        fg_embedding_int8_close(&q);
    }
    sha[0] = sha[0] == '0' ? '1' : '0';
    bd_write_manifest(&hybrid);
    refused(true, FG_EINTEGRITY, "/embedding/sha256");
    hybrid.m.embedding.file = "../model/embed_tokens_fp16.npy";
    bd_write_manifest(&hybrid);
    refused(false, FG_EINPUT, "embed_tokens_fp16.npy"); // not in INT8
    hybrid.m.embedding.kind = FG_EMBEDDING_HEAD;
    hybrid.m.embedding.file = hybrid.m.embedding.sha256 = NULL;
    bd_write_manifest(&hybrid);
    assert_int_equal(unlink(hybrid.embedding), 0);
    struct fg_build *b = open_good(hybrid.dir, true);
    const struct fg_build_embedding *e = fg_build_embedding(b);
    assert_int_equal(e->kind, FG_EMBEDDING_HEAD);
    assert_null(e->data);
    assert_int_equal(e->vocab, 40);
    fg_build_close(b);
    hybrid = was;
    remake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens),
        cmocka_unit_test(opens_dense),
        cmocka_unit_test(differs_from_the_manifest),
        cmocka_unit_test(files_that_changed),
        cmocka_unit_test(other_embeddings),
    };
    scratch_open(&tmp);
    remake();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
