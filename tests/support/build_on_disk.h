// tests/support/build_on_disk.h: a small bundle on disk: model/ with config and embedding, forge/
// with chunks, head and manifest.
#ifndef FG_TESTS_BUILD_ON_DISK_H
#define FG_TESTS_BUILD_ON_DISK_H
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "format/manifest.h"
#include "format/npy.h"
#include "support/package_build.h"

#define BD_LAYERS_MAX 8

struct bd_build {
    char dir[512];   // of the bundle
    char forge[600]; // of the build
    char config[600], embedding[600], manifest_path[600];
    struct fg_manifest m;
    struct fg_manifest_chunk chunks[BD_LAYERS_MAX];
    bool is_linear[BD_LAYERS_MAX];
    int64_t taps[2];
    char files[BD_LAYERS_MAX][64];
    struct fg_st_written written[BD_LAYERS_MAX + 1]; // the head's is the last
    char config_sha[FG_SHA256_HEX], embedding_sha[FG_SHA256_HEX];
};

static inline void bd_ok(int rc, const struct fg_error *err)
{
    char line[1024];
    if (!rc) return;
    fprintf(stderr, "%s\n", fg_error_line(err, line, sizeof line));
    abort();
}

static inline void bd_model(struct bd_build *b, const struct pb_model *pm, int64_t layers,
                            int64_t interval)
{
    struct fg_manifest_model *m = &b->m.model;
    *m = (struct fg_manifest_model){.layers = layers,
                                    .hidden = pm->hidden,
                                    .intermediate = pm->intermediate,
                                    .vocab = pm->vocab,
                                    .is_linear = b->is_linear,
                                    .n_heads = pm->n_heads,
                                    .n_kv_heads = pm->n_kv_heads,
                                    .head_dim = pm->head_dim,
                                    .rotary_dims = pm->head_dim / 4 * 2,
                                    .rope_theta = 1e7,
                                    .rms_eps = 1e-6,
                                    .has_gdn = pm->v_heads > 0};
    if (m->has_gdn) {
        m->gdn = (struct fg_manifest_gdn){pm->k_heads, pm->v_heads, pm->dk, pm->dv, pm->conv};
    }
    for (int64_t i = 0; i < layers; i++) {
        b->is_linear[i] = m->has_gdn && (i + 1) % interval != 0;
    }
}

static inline void bd_config(struct bd_build *b, int64_t interval)
{
    const struct fg_manifest_model *m = &b->m.model;
    struct fg_error err = {0};
    FILE *f = fopen(b->config, "wb");
    if (!f) abort();
    fprintf(f,
            "{\"model_type\": \"%s\", \"num_hidden_layers\": %d, \"hidden_size\": %d, "
            "\"intermediate_size\": %d, \"vocab_size\": %d, \"num_attention_heads\": %d, "
            "\"num_key_value_heads\": %d, \"head_dim\": %d, \"rms_norm_eps\": 1e-6, "
            "\"rope_parameters\": {\"rope_theta\": 10000000, \"partial_rotary_factor\": %.17g}",
            b->m.arch, (int)m->layers, (int)m->hidden, (int)m->intermediate, (int)m->vocab,
            (int)m->n_heads, (int)m->n_kv_heads, (int)m->head_dim,
            (double)m->rotary_dims / (double)m->head_dim);
    if (m->has_gdn) {
        fprintf(f,
                ", \"linear_num_key_heads\": %d, \"linear_num_value_heads\": %d, "
                "\"linear_key_head_dim\": %d, \"linear_value_head_dim\": %d, "
                "\"linear_conv_kernel_dim\": %d, \"full_attention_interval\": %d",
                (int)m->gdn.k_heads, (int)m->gdn.v_heads, (int)m->gdn.dk, (int)m->gdn.dv,
                (int)m->gdn.conv, (int)interval);
    }
    fputs("}\n", f);
    if (fclose(f) != 0) abort();
    bd_ok(fg_sha256_file(b->config, b->config_sha, &err), &err);
    b->m.model.config_sha256 = b->config_sha;
}

// Chunks of two layers, the head, the embedding.
static inline void bd_files(struct bd_build *b, const struct pb_model *pm)
{
    struct fg_error err = {0};
    char path[700];
    b->m.chunks = b->chunks;
    for (int64_t first = 0; first < b->m.model.layers; first += 2) {
        int64_t i = b->m.n_chunks++;
        int64_t last = first + 1 < b->m.model.layers ? first + 1 : first;
        struct pb_set s;
        pb_begin(&s, (uint32_t)i + 1);
        for (int64_t layer = first; layer <= last; layer++) {
            pb_layer(&s, pm, layer, b->is_linear[layer]);
        }
        pb_end(&s);
        struct fg_package_spec spec = pb_spec(&s, FG_PACKAGE_CHUNK, first, last);
        snprintf(b->files[i], sizeof b->files[i], "chunk_L%02d-%02d.safetensors", (int)first,
                 (int)last);
        snprintf(path, sizeof path, "%s/%s", b->forge, b->files[i]);
        bd_ok(fg_package_write(path, &spec, &b->written[i], &err), &err);
        b->chunks[i] = (struct fg_manifest_chunk){b->files[i], first, last, b->written[i].bytes,
                                                  b->written[i].sha256};
        pb_free(&s);
    }
    struct pb_set s;
    pb_begin(&s, 99);
    pb_head(&s, pm);
    pb_end(&s);
    struct fg_package_spec spec = pb_spec(&s, FG_PACKAGE_HEAD, 0, 0);
    struct fg_st_written *w = &b->written[BD_LAYERS_MAX];
    snprintf(path, sizeof path, "%s/head.safetensors", b->forge);
    bd_ok(fg_package_write(path, &spec, w, &err), &err);
    pb_free(&s);
    b->m.head.file = "head.safetensors";
    b->m.head.bytes = w->bytes;
    b->m.head.sha256 = w->sha256;
    b->m.head.id = PB_ID;
    b->m.head.rms1p = true;

    uint64_t shape[2] = {(uint64_t)pm->vocab, (uint64_t)pm->hidden};
    uint16_t *rows = calloc((size_t)(pm->vocab * pm->hidden), sizeof *rows);
    if (!rows) abort();
    for (int64_t i = 0; i < pm->vocab * pm->hidden; i++) {
        rows[i] = (uint16_t)(0x3000 + i % 1000);
    }
    bd_ok(fg_npy_write(b->embedding, FG_NPY_F16, 2, shape, rows, &err), &err);
    free(rows);
    bd_ok(fg_sha256_file(b->embedding, b->embedding_sha, &err), &err);
    b->m.embedding.file = "../model/embed_tokens_fp16.npy";
    b->m.embedding.sha256 = b->embedding_sha;
}

static inline void bd_write_manifest(const struct bd_build *b)
{
    struct fg_error err = {0};
    bd_ok(fg_manifest_write(&b->m, b->manifest_path, &err), &err);
}

// A manifest without files, for tests of manifests alone.
static inline void bd_describe(struct bd_build *b, const struct pb_model *pm, int64_t layers)
{
    memset(b, 0, sizeof *b);
    b->m.release_name = "tiny";
    b->m.weights_digest = PB_DIGEST;
    b->m.upstream_id = "example/tiny";
    b->m.export_name = "tiny-export";
    b->m.export_digest = PB_EXPORT;
    b->m.graph_id = "tiny-graph";
    b->m.arch = pm->v_heads ? "qwen3_5" : pm->qk_norm ? "qwen3" : "llama";
    bd_model(b, pm, layers, 3);
    fg_manifest_defaults(&b->m);
    b->taps[0] = 0;
    b->taps[1] = layers - 1;
    b->m.taps = b->taps;
    b->m.n_taps = layers > 1 ? 2 : 1;
    static const int64_t ctxs[] = {256, 512, 1024, 8192};
    for (int i = 0; i < 4; i++) {
        b->m.ctxs[i] = b->m.kv_len[i] = ctxs[i];
    }
    b->m.n_ctxs = 4;
    for (int i = 0; i < 2; i++) {
        b->m.pctxs[i] = b->m.pkv_len[i] = ctxs[i + 2];
        b->m.prefill_rows[i] = i ? 32 : 64;
    }
    b->m.n_pctxs = 2;
    if (pm->rotated) {
        b->m.rotation = (struct fg_manifest_rotation){.given = true,
                                                      .block = 1024,
                                                      .seed_mlp_in = 1000,
                                                      .seed_mlp_mid = 2000,
                                                      .seed_mix_in = 3000,
                                                      .seed_mix_out = UINT64_MAX};
    }
}

// The whole bundle in the new directory `dir`.
static inline void bd_make(struct bd_build *b, const char *dir, const struct pb_model *pm,
                           int64_t layers)
{
    struct fg_error err = {0};
    char model[600];
    bd_describe(b, pm, layers);
    snprintf(b->dir, sizeof b->dir, "%s", dir);
    snprintf(b->forge, sizeof b->forge, "%s/forge", dir);
    snprintf(model, sizeof model, "%s/model", dir);
    snprintf(b->config, sizeof b->config, "%s/model/config.json", dir);
    snprintf(b->embedding, sizeof b->embedding, "%s/model/embed_tokens_fp16.npy", dir);
    snprintf(b->manifest_path, sizeof b->manifest_path, "%s/forge/manifest.json", dir);
    bd_ok(fg_dir_make(b->forge, &err), &err);
    bd_ok(fg_dir_make(model, &err), &err);
    bd_config(b, 3);
    bd_files(b, pm);
    bd_write_manifest(b);
}
#endif
