// Manifests: what is written reads back; every rule of specs/runtime.md 1.2, with the JSON pointer
// of what breaks it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "support/build_on_disk.h"
#include "support/scratch.h"

static struct scratch tmp;
static struct fg_buf good; // text of a hybrid's manifest

static void describe(struct bd_build *b, const struct pb_model *pm, int64_t layers)
{
    static const char sha[] = PB_DIGEST;
    bd_describe(b, pm, layers);
    b->m.model.config_sha256 = sha;
    b->m.chunks = b->chunks;
    for (int64_t first = 0; first < layers; first += 2) {
        int64_t i = b->m.n_chunks++;
        snprintf(b->files[i], sizeof b->files[i], "sub/chunk%d", (int)i);
        b->chunks[i] = (struct fg_manifest_chunk){
            b->files[i], first, first + 1 < layers ? first + 1 : first, 1000, sha};
    }
    b->m.head.file = "head";
    b->m.head.bytes = UINT64_MAX;
    b->m.head.sha256 = b->m.head.id = b->m.embedding.sha256 = sha;
    b->m.embedding.file = "../model/embed.npy";
}

static void write_good(void)
{
    struct bd_build b;
    struct fg_error err = {0};
    const char *path = scratch_path(&tmp, "manifest.json");
    describe(&b, &pb_hybrid, 5);
    bd_ok(fg_manifest_write(&b.m, path, &err), &err);
    bd_ok(fg_file_read(&good, path, 1 << 20, &err), &err);
}

static void refused_text(const char *text, size_t n, int code, const char *part)
{
    struct fg_manifest m;
    struct fg_error err = {0};
    char line[1200];
    int rc = fg_manifest_parse(&m, text, n, "m.json", &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != code || !strstr(line, part) || !strstr(line, "m.json") || m.arena.head) {
        fail_msg("rc %d, \"%s\", wanted %d and \"%s\"", rc, line, code, part);
    }
}

// The good manifest with the first `old` replaced.
static void replaced(const char *old, const char *by, const char *part)
{
    const char *at = strstr(good.data, old);
    if (!at) fail_msg("no %s", old);
    struct fg_buf b = {0};
    fg_buf_add(&b, good.data, (size_t)(at - good.data));
    fg_buf_str(&b, by);
    fg_buf_str(&b, at + strlen(old));
    refused_text(b.data, b.len, FG_EINPUT, part);
    fg_buf_free(&b);
}

static void same(const struct fg_manifest *a, const struct fg_manifest *b)
{
    assert_string_equal(a->release_name, b->release_name);
    assert_string_equal(a->weights_digest, b->weights_digest);
    assert_string_equal(a->upstream_id, b->upstream_id);
    assert_null(b->upstream_revision);
    assert_string_equal(a->export_name, b->export_name);
    assert_string_equal(a->export_digest, b->export_digest);
    assert_string_equal(a->graph_id, b->graph_id);
    assert_string_equal(a->arch, b->arch);
    assert_int_equal(a->numerics_abi, b->numerics_abi);
    assert_int_equal(a->model.layers, b->model.layers);
    assert_int_equal(a->model.rotary_dims, b->model.rotary_dims);
    assert_true(a->model.rope_theta == b->model.rope_theta);
    assert_true(a->model.rms_eps == b->model.rms_eps);
    assert_int_equal(a->model.has_gdn, b->model.has_gdn);
    assert_memory_equal(&a->model.gdn, &b->model.gdn, sizeof a->model.gdn);
    assert_memory_equal(a->model.is_linear, b->model.is_linear, (size_t)a->model.layers);
    assert_int_equal(a->n_taps, b->n_taps);
    assert_memory_equal(a->taps, b->taps, (size_t)a->n_taps * sizeof *a->taps);
    assert_int_equal(a->n_ctxs, b->n_ctxs);
    assert_int_equal(a->n_pctxs, b->n_pctxs);
    assert_memory_equal(a->ctxs, b->ctxs, sizeof a->ctxs);
    assert_memory_equal(a->kv_len, b->kv_len, sizeof a->kv_len);
    assert_memory_equal(a->pctxs, b->pctxs, sizeof a->pctxs);
    assert_memory_equal(a->pkv_len, b->pkv_len, sizeof a->pkv_len);
    assert_memory_equal(a->prefill_rows, b->prefill_rows, sizeof a->prefill_rows);
    assert_int_equal(a->kv.given, b->kv.given);
    assert_int_equal(a->kv.def, b->kv.def);
    assert_memory_equal(a->kv.offers, b->kv.offers, sizeof a->kv.offers);
    assert_memory_equal(a->kv.hadamard, b->kv.hadamard, sizeof a->kv.hadamard);
    assert_int_equal(a->kv.dim_token, b->kv.dim_token);
    assert_int_equal(a->rotation.given, b->rotation.given);
    assert_int_equal(a->rotation.block, b->rotation.block);
    assert_true(a->rotation.seed_mix_out == b->rotation.seed_mix_out);
    assert_int_equal(a->rotation.numpy, b->rotation.numpy);
    assert_string_equal(a->numerics.attention_mode, b->numerics.attention_mode);
    assert_int_equal(a->numerics.segment, b->numerics.segment);
    assert_true(a->numerics.unit_pf8 == b->numerics.unit_pf8);
    assert_int_equal(a->numerics.tile_prefill, b->numerics.tile_prefill);
    assert_int_equal(a->n_chunks, b->n_chunks);
    for (int64_t i = 0; i < a->n_chunks; i++) {
        assert_string_equal(a->chunks[i].file, b->chunks[i].file);
        assert_int_equal(a->chunks[i].first, b->chunks[i].first);
        assert_int_equal(a->chunks[i].last, b->chunks[i].last);
        assert_int_equal(a->chunks[i].bytes, b->chunks[i].bytes);
        assert_string_equal(a->chunks[i].sha256, b->chunks[i].sha256);
    }
    assert_string_equal(a->head.file, b->head.file);
    assert_true(a->head.bytes == b->head.bytes);
    assert_string_equal(a->head.id, b->head.id);
    assert_int_equal(a->head.rms1p, b->head.rms1p);
    assert_int_equal(a->embedding.kind, b->embedding.kind);
    assert_int_equal(a->embedding.file != NULL, b->embedding.file != NULL);
    if (a->embedding.file) assert_string_equal(a->embedding.file, b->embedding.file);
}

static void round_trips(void **state)
{
    (void)state;
    const char *path = scratch_path(&tmp, "trip.json");
    for (int i = 0; i < 4; i++) {
        struct bd_build b;
        struct fg_manifest m, again;
        struct fg_error err = {0};
        struct fg_buf first = {0}, second = {0};
        describe(&b, i & 1 ? &pb_dense : &pb_hybrid, 5);
        if (i & 2) {
            b.m.kv.def = FG_KV_V8;
            b.m.kv.offers[FG_KV_KV8] = b.m.kv.hadamard[FG_KV_KV8] = false;
            b.m.kv.dim_token = true;
            b.m.rotation.numpy = b.m.rotation.given;
            b.m.head.rms1p = true;
            b.m.n_pctxs = 0;
            memset(b.m.pctxs, 0, sizeof b.m.pctxs);
            memset(b.m.pkv_len, 0, sizeof b.m.pkv_len);
            memset(b.m.prefill_rows, 0, sizeof b.m.prefill_rows);
            b.m.n_taps = 0;
            b.m.embedding.kind = FG_EMBEDDING_INT8;
        }
        if (i == 3) {
            b.m.embedding.kind = FG_EMBEDDING_HEAD;
            b.m.embedding.file = b.m.embedding.sha256 = NULL;
        }
        bd_ok(fg_manifest_write(&b.m, path, &err), &err);
        bd_ok(fg_manifest_open(&m, path, &err), &err);
        same(&b.m, &m);
        assert_int_equal(m.n_ignored, 0);
        bd_ok(fg_file_read(&first, path, 1 << 20, &err), &err);
        bd_ok(fg_manifest_write(&m, path, &err), &err);
        bd_ok(fg_file_read(&second, path, 1 << 20, &err), &err);
        assert_string_equal(first.data, second.data);
        bd_ok(fg_manifest_parse(&again, second.data, second.len, "x", &err), &err);
        same(&m, &again);
        fg_manifest_close(&m);
        fg_manifest_close(&again);
        fg_buf_free(&first);
        fg_buf_free(&second);
    }
    // What is derived.
    static const char *const parts[] = {
        "\"T\": 8, \"TP\": 64, \"pend\": 8", "\"gdn_j\": [0, 1], \"att_j\": [], \"taps\": [0]",
        "\"gdn_j\": [1], \"att_j\": [0], \"taps\": []",
        "\"entries\": [\"v8_256\", \"v8_512\", \"v8_1k\", \"v8_8k\", \"p64_1k\", \"p32_8k\"]"};
    for (size_t i = 0; i < FG_COUNT(parts); i++) {
        if (!strstr(good.data, parts[i])) fail_msg("no %s in %s", parts[i], good.data);
    }
}

static void with(const char *old, const char *by, struct fg_manifest *m)
{
    struct fg_error err = {0};
    struct fg_buf b = {0};
    const char *at = strstr(good.data, old);
    assert_non_null(at);
    fg_buf_add(&b, good.data, (size_t)(at - good.data));
    fg_buf_str(&b, by);
    fg_buf_str(&b, at + strlen(old));
    bd_ok(fg_manifest_parse(m, b.data, b.len, "m.json", &err), &err);
    fg_buf_free(&b);
}

static void reads_what_may_vary(void **state)
{
    (void)state;
    struct fg_manifest m;
    with("{", "{\"extra\": {\"a\": [1, {\"b\": null}]}, ", &m);
    assert_int_equal(m.n_ignored, 1);
    assert_string_equal(m.ignored[0], "/extra");
    fg_manifest_close(&m);
    with("\"bytes\": 1000", "\"note~/\": \"x\", \"bytes\": 1000", &m);
    assert_string_equal(m.ignored[0], "/chunks/0/note~0~1");
    fg_manifest_close(&m);
    // Without kv_cache fp16 alone is offered.
    const char *kv = strstr(good.data, ", \"kv_cache\"");
    const char *end = strstr(good.data, ", \"rotation\": {\"type\"");
    assert_non_null(kv);
    assert_non_null(end);
    struct fg_buf b = {0};
    struct fg_error err = {0};
    fg_buf_add(&b, good.data, (size_t)(kv - good.data));
    fg_buf_str(&b, end);
    bd_ok(fg_manifest_parse(&m, b.data, b.len, "m.json", &err), &err);
    assert_false(m.kv.given);
    assert_true(m.kv.offers[FG_KV_FP16] && !m.kv.offers[FG_KV_V8] && !m.kv.offers[FG_KV_KV8]);
    fg_manifest_close(&m);
    fg_buf_free(&b);
    // A cache rotation that is not said: none for fp16 and v8, hadamard for kv8.
    with(", \"rotation\": {\"fp16\": \"none\", \"v8\": \"none\", \"kv8\": \"hadamard\"}", "", &m);
    assert_true(!m.kv.hadamard[FG_KV_FP16] && !m.kv.hadamard[FG_KV_V8] && m.kv.hadamard[FG_KV_KV8]);
    assert_false(m.kv.dim_token);
    fg_manifest_close(&m);
}

// Files of another writer: tests/reference/make_package_seeds.py.
static void reads_another_writers(void **state)
{
    (void)state;
    for (int hybrid = 0; hybrid < 2; hybrid++) {
        struct fg_manifest m;
        struct fg_error err = {0};
        char file[600];
        snprintf(file, sizeof file, "%s/../fuzz/corpus/manifest/%s", FORGE_GOLDEN_DIR,
                 hybrid ? "hybrid" : "dense");
        bd_ok(fg_manifest_open(&m, file, &err), &err);
        assert_int_equal(m.model.has_gdn, hybrid);
        assert_int_equal(m.kv.given, hybrid);
        assert_int_equal(m.kv_len[1], 8000);
        assert_int_equal(m.prefill_rows[0], 32);
        assert_true(m.model.rms_eps == 1e-6);
        assert_null(m.upstream_revision);
        fg_manifest_close(&m);
    }
}

static void versions(void **state)
{
    (void)state;
    struct fg_manifest m;
    struct fg_error err = {0};
    static const char original[] = "{\"T\": 8, \"deep\": [[1]], \"version\": \"coreai1\"}";
    assert_int_equal(fg_manifest_parse(&m, original, sizeof original - 1, "m", &err),
                     FG_EUNSUPPORTED);
    assert_non_null(strstr(err.hint, "forge convert"));
    assert_string_equal(err.field, "/version");
    replaced("forge1", "forge2", "/version");
    replaced("\"forge1\"", "1", "/version");
    replaced("\"version\": \"forge1\", ", "", "/version");
    refused_text("{}", 2, FG_EINPUT, "/version");
    refused_text("[]", 2, FG_EINPUT, "JSON byte 0");
    refused_text("", 0, FG_EINPUT, "JSON byte 0");
    refused_text("{\"version\"", 10, FG_EINPUT, "JSON byte");
    assert_int_equal(fg_manifest_open(&m, "/nowhere", NULL), FG_EINPUT);
    assert_int_equal(fg_manifest_open(&m, tmp.dir, NULL), FG_EINPUT);
}

static void syntax(void **state)
{
    (void)state;
    // Cut anywhere.
    for (size_t n = 0; n < good.len - 1; n += n % 64 == 63 ? 7 : 1) {
        refused_text(good.data, n, FG_EINPUT, "m.json");
    }
    struct fg_buf b = {0};
    fg_buf_add(&b, good.data, good.len);
    fg_buf_str(&b, "x");
    refused_text(b.data, b.len, FG_EINPUT, "JSON byte");
    b.data[b.len - 1] = '\0';
    refused_text(b.data, b.len, FG_EINPUT, "JSON byte");
    b.data[40] = (char)0xFF;
    refused_text(b.data, b.len, FG_EINPUT, "JSON byte 40");
    fg_buf_free(&b);
    // 17 levels in a key that nobody knows; 16 are fine.
    struct fg_manifest m;
    with("{", "{\"x\":[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]], ", &m);
    fg_manifest_close(&m);
    replaced("{", "{\"x\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]], ", "/x");
    char *big = malloc(FG_MANIFEST_BYTES_MAX + 1);
    assert_non_null(big);
    memset(big, ' ', FG_MANIFEST_BYTES_MAX + 1);
    refused_text(big, FG_MANIFEST_BYTES_MAX + 1, FG_EINPUT, "size");
    free(big);
}

// Each value of the good manifest gets each wrong type. Values are found by walking the text.
static void wrong_types(void **state)
{
    (void)state;
    static const char *const others[] = {"null", "true", "-1", "1.5",    "1e400",
                                         "\"\"", "[]",   "{}", "[null]", "18446744073709551616"};
    size_t n = 0;
    for (const char *at = good.data; (at = strstr(at, "\": ")); at++) {
        const char *value = at + 3;
        size_t len = value[0] == '"' ? strcspn(value + 1, "\"") + 2 : strcspn(value, ",}]");
        if (value[0] == '{' || value[0] == '[') len = 0;
        for (size_t i = 0; i < FG_COUNT(others); i++) {
            struct fg_manifest m;
            struct fg_error err = {0};
            struct fg_buf b = {0};
            if (len == 0) { // an object or array: another in place of its opening
                int depth = 0;
                do {
                    depth += value[len] == '{' || value[len] == '[';
                    depth -= value[len] == '}' || value[len] == ']';
                    len++;
                } while (depth);
            }
            fg_buf_add(&b, good.data, (size_t)(value - good.data));
            fg_buf_str(&b, others[i]);
            fg_buf_str(&b, value + len);
            int rc = fg_manifest_parse(&m, b.data, b.len, "m.json", &err);
            // A few may be what they are not here: null identities, other booleans, no rotation, no
            // prefill, no taps.
            if (rc == 0) {
                n++;
                fg_manifest_close(&m);
            } else if (rc != FG_EINPUT || err.field[0] != '/') {
                fail_msg("rc %d, field %s for %s", rc, err.field, b.data);
            }
            fg_buf_free(&b);
        }
    }
    assert_in_range(n, 1, 32);
}

static void rules(void **state)
{
    (void)state;
    static const char *const cases[][3] = {
        {"\"name\": \"tiny\"", "\"name\": \"\"", "/release/name"},
        {"\"weights_digest\": \"0123", "\"weights_digest\": \"012", "/release/weights_digest"},
        {"\"weights_digest\": \"0123", "\"weights_digest\": \"012G", "/release/weights_digest"},
        {"\"digest\": \"fedc", "\"digest\": \"FEDC", "/export/digest"},
        {"\"arch\": \"qwen3_5\"", "\"arch\": \"gpt\"", "/graph/arch"},
        {"\"numerics_abi\": 1", "\"numerics_abi\": 0", "/graph/numerics_abi"},
        {"\"layers\": 5", "\"layers\": 6", "/model/layer_types"},
        {"\"layers\": 5", "\"layers\": 1025", "/model/layers"},
        {"\"hidden\": 32", "\"hidden\": 0", "/model/hidden"},
        {"\"hidden\": 32", "\"hidden\": 4294967296", "/model/hidden"},
        {"\"hidden\": 32", "\"hidden\": 32, \"hidden\": 32", "/model/hidden"},
        {"\"hidden\": 32, ", "", "/model/hidden"},
        {"\"linear_attention\"", "\"sliding_attention\"", "/model/layer_types/0"},
        {"\"n_heads\": 2", "\"n_heads\": 0", "/model/n_heads"},
        {"\"n_kv_heads\": 1", "\"n_kv_heads\": 3", "/model/n_kv_heads"},
        {"\"rotary_dims\": 4", "\"rotary_dims\": 3", "/model/rotary_dims"},
        {"\"rotary_dims\": 4", "\"rotary_dims\": 10", "/model/rotary_dims"},
        {"\"rope_theta\": 1", "\"rope_theta\": -1", "/model/rope_theta"},
        {"\"rms_eps\": 1", "\"rms_eps\": -1", "/model/rms_eps"},
        {"\"dv\": 8", "\"dv\": 65537", "/model/gdn/dv"},
        {"\"gdn\": {\"k_heads\": 1, \"v_heads\": 2, \"dk\": 4, \"dv\": 8, \"conv\": 4}",
         "\"gdn\": null", "/model/layer_types/0"},
        {"\"config_sha256\": \"0", "\"config_sha256\": \"", "/model/config_sha256"},
        {"\"T\": 8", "\"T\": 7", "/T"},
        {"\"TP\": 64", "\"TP\": 65", "/TP"},
        {"\"pend\": 8", "\"pend\": 16", "/pend"},
        {"\"taps\": [0, 4]", "\"taps\": [0, 5]", "/taps/1"},
        {"\"taps\": [0, 4]", "\"taps\": [4, 0]", "/taps/1"},
        {"\"taps\": [0, 4]", "\"taps\": [4, 4]", "/taps/1"},
        {"\"taps\": [0, 4]", "\"taps\": [0, 1, 4]", "/chunks/0/taps"},
        {"\"ctxs\": [256, 512", "\"ctxs\": [255, 512", "/ctxs/0"},
        {"\"ctxs\": [256, 512", "\"ctxs\": [512, 256", "/ctxs/1"},
        {"\"ctxs\": [256, 512", "\"ctxs\": [256, 256", "/ctxs/1"},
        {"\"ctxs\": [256, 512, 1024, 8192]", "\"ctxs\": []", "/ctxs"},
        {"\"ctxs\": [256, 512, 1024, 8192]", "\"ctxs\": [1048832]", "/ctxs/0"},
        {"\"ctxs\": [256, 512, 1024, 8192]", "\"ctxs\": [256, 1024, 8192]", "/kv_len"},
        {"\"ctxs\": [256, 512, 1024, 8192]", "\"ctxs\": [256, 512, 768, 1024, 8192]",
         "/kv_len/768"},
        {"\"pctxs\": [1024, 8192]", "\"pctxs\": [768, 8192]", "/pctxs/0"},
        {"\"pctxs\": [1024, 8192]", "\"pctxs\": [512, 8192]", "/pkv_len/512"},
        {"\"kv_len\": {\"256\": 256", "\"kv_len\": {\"256\": 257", "/kv_len/256"},
        {"\"kv_len\": {\"256\": 256", "\"kv_len\": {\"256\": 0", "/kv_len/256"},
        {"\"kv_len\": {\"256\": 256", "\"kv_len\": {\"0256\": 256", "/kv_len/0256"},
        {"\"kv_len\": {\"256\": 256", "\"kv_len\": {\"256\": 256, \"256\": 256", "/kv_len/256"},
        {"\"kv_len\": {\"256\": 256", "\"kv_len\": {\"x\": 256", "/kv_len/x"},
        {"\"kv_len\": {\"256\": 256", "\"kv_len\": {\"99999999999999999999\": 256", "/kv_len/9"},
        {"\"prefill_rows\": {\"1024\": 64", "\"prefill_rows\": {\"1024\": 65",
         "/prefill_rows/1024"},
        {"\"prefill_rows\": {\"1024\": 64, ", "\"prefill_rows\": {", "/prefill_rows/1024"},
        {"\"format\": \"selectable\"", "\"format\": \"kv8\"", "/kv_cache/format"},
        {"\"default\": \"kv8\"", "\"default\": \"kv4\"", "/kv_cache/default"},
        {"\"formats\": {\"fp16\"", "\"formats\": {\"kv4\"", "/kv_cache/formats/kv4"},
        {"\"v8\": {\"format\": \"v8\"", "\"v8\": {\"format\": \"kv8\"",
         "/kv_cache/formats/v8/format"},
        {"\"keys\": \"float16\"", "\"keys\": \"int8\"", "/kv_cache/formats/fp16/keys"},
        {"\"values\": \"float16\"", "\"values\": \"int8\"", "/kv_cache/formats/fp16/values"},
        {"\"scales\": null", "\"scales\": \"float16\"", "/kv_cache/formats/fp16/scales"},
        {"\"scale_granularity\": \"token_head\"", "\"scale_granularity\": null",
         "/kv_cache/formats/v8/scale_granularity"},
        {"\"stable_attention\": true", "\"stable_attention\": 1",
         "/kv_cache/formats/fp16/stable_attention"},
        {"\"stable_attention\": true", "\"stable_attention\": true, \"x\": 1",
         "/kv_cache/formats/fp16/x"},
        {"\"key_layout\": \"token_dim\"", "\"key_layout\": \"x\"", "/kv_cache/key_layout"},
        {"\"key_layout\"", "\"key_order\"", "/kv_cache/key_order"},
        {"\"kv8\": \"hadamard\"", "\"kv8\": \"fwht\"", "/kv_cache/rotation/kv8"},
        {"\"head_dim\": 8", "\"head_dim\": 12", "/kv_cache/rotation/kv8"},
        {"\"block_hadamard\"", "\"dense\"", "/rotation/type"},
        {"\"block\": 1024", "\"block\": 1000", "/rotation/block"},
        {"\"block\": 1024", "\"block\": 2048", "/rotation/block"},
        {"\"mlp_in\": 1000", "\"mlp_on\": 1000", "/rotation/seeds/mlp_on"},
        {"\"splitmix64\"", "\"mt19937\"", "/rotation/signs"},
        {"\"rotation\": {\"type\"", "\"rotation\": {\"x\": 0, \"type\"", "/rotation/x"},
        {"\"mode\": \"stored\"", "\"mode\": \"seed\"", "/numerics/attention/mode"},
        {"\"tile\": 256", "\"tile\": 255", "/numerics/attention/tile"},
        {"\"segment\": 2048", "\"segment\": 2049", "/numerics/attention/segment"},
        {"\"act_block\": 1024", "\"act_block\": 1000", "/numerics/act_block"},
        {"\"unit_s8\": 0.25", "\"unit_s8\": 0", "/numerics/c2t/unit_s8"},
        {"\"act_block\"", "\"x\": 1, \"act_block\"", "/numerics/x"},
        {"sub/chunk0", "../chunk0", "/chunks/0/file"},
        {"sub/chunk0", "/chunk0", "/chunks/0/file"},
        {"sub/chunk0", "sub//chunk0", "/chunks/0/file"},
        {"sub/chunk0", "sub/./chunk0", "/chunks/0/file"},
        {"sub/chunk0", "sub/", "/chunks/0/file"},
        {"sub/chunk0", "", "/chunks/0/file"},
        {"sub/chunk0", "a\\\\b", "/chunks/0/file"},
        {"sub/chunk0", "a*", "/chunks/0/file"},
        {"sub/chunk0", "a\\n", "/chunks/0/file"},
        {"sub/chunk1", "sub/chunk0", "/chunks/1/file"},
        {"\"file\": \"head\"", "\"file\": \"sub/chunk0\"", "/head/file"},
        {"\"file\": \"head\"", "\"file\": \"..\"", "/head/file"},
        {"\"layers\": [0, 1]", "\"layers\": [0, 2]", "/chunks/1/layers"},
        {"\"layers\": [2, 3]", "\"layers\": [1, 3]", "/chunks/1/layers"},
        {"\"layers\": [2, 3]", "\"layers\": [3, 3]", "/chunks/1/layers"},
        {"\"layers\": [2, 3]", "\"layers\": [3, 2]", "/chunks/1/layers"},
        {"\"layers\": [2, 3]", "\"layers\": [2]", "/chunks/1/layers"},
        {"\"layers\": [4, 4]", "\"layers\": [4, 5]", "/chunks/2/layers"},
        {"\"gdn_j\": [0, 1]", "\"gdn_j\": [0]", "/chunks/0/gdn_j"},
        {"\"att_j\": [0]", "\"att_j\": [2]", "/chunks/1/att_j"},
        {"\"taps\": [4], \"entries\"", "\"taps\": [0], \"entries\"", "/chunks/2/taps"},
        {"\"v8_256\"", "8", "/chunks/0/entries/0"},
        {"\"norm\": \"rms\"", "\"norm\": \"layer\"", "/head/norm"},
        {"\"logits\": \"h8\"", "\"logits\": \"h16\"", "/head/logits"},
        {"\"id\": \"0123", "\"id\": \"x123", "/head/id"},
        {"../model/embed.npy", "../model/../x", "/embedding/file"},
        {"../model/embed.npy", "../models/x", "/embedding/file"},
        {"../model/embed.npy", "model/x", "/embedding/file"},
        {"../model/embed.npy", "../model/", "/embedding/file"},
        {"\"dtype\": \"f16\"", "\"dtype\": \"bf16\"", "/embedding/dtype"},
        {"\"dtype\": \"f16\"", "\"dtype\": 8", "/embedding/dtype"},
        {"\"dtype\": \"f16\"", "\"dtype\": \"head\"", "/embedding/file"},
        {"\"file\": \"../model/embed.npy\", \"dtype\": \"f16\"", "\"dtype\": \"head\"",
         "/embedding/sha256"},
        {"\"file\": \"../model/embed.npy\", ", "", "/embedding/file"},
    };
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        replaced(cases[i][0], cases[i][1], cases[i][2]);
    }
    // Chunks that end too early.
    const char *third = strstr(good.data, ", {\"file\": \"sub/chunk2\"");
    const char *head = strstr(good.data, "], \"head\"");
    assert_non_null(third);
    assert_non_null(head);
    struct fg_buf b = {0};
    fg_buf_add(&b, good.data, (size_t)(third - good.data));
    fg_buf_str(&b, head);
    refused_text(b.data, b.len, FG_EINPUT, "/chunks");
    fg_buf_free(&b);
}

static void refuses_to_write(void **state)
{
    (void)state;
    struct bd_build b;
    struct fg_error err = {0};
    const char *path = scratch_path(&tmp, "bad.json");
    describe(&b, &pb_hybrid, 5);
    b.chunks[1].last = 4;
    assert_int_equal(fg_manifest_write(&b.m, path, &err), FG_EINPUT);
    assert_string_equal(err.field, "/chunks/2/layers");
    describe(&b, &pb_hybrid, 5);
    b.m.kv.def = FG_KV_FP16;
    b.m.kv.offers[FG_KV_FP16] = false;
    assert_int_equal(fg_manifest_write(&b.m, path, &err), FG_EINPUT);
    assert_string_equal(err.field, "/kv_cache/default");
    describe(&b, &pb_hybrid, 5);
    b.m.export_name = NULL;
    assert_int_equal(fg_manifest_write(&b.m, path, &err), FG_EINPUT);
    assert_string_equal(err.field, "/export/name");
    assert_false(fg_file_exists(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trips),
        cmocka_unit_test(reads_what_may_vary),
        cmocka_unit_test(reads_another_writers),
        cmocka_unit_test(versions),
        cmocka_unit_test(syntax),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(rules),
        cmocka_unit_test(refuses_to_write),
    };
    scratch_open(&tmp);
    write_good();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    fg_buf_free(&good);
    scratch_close(&tmp);
    return failed;
}
