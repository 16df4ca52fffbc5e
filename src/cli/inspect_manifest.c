// cli/inspect_manifest.c: manifests of builds: Forge's, and the original's, which Forge shows but
// does not run.
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "cli/inspect.h"
#include "format/manifest.h"
#include <inttypes.h>
#include <string.h>

#define ORIGINAL "coreai1"

static void print_list(const char *what, const int64_t *values, int64_t n)
{
    printf("%-12s ", what);
    for (int64_t i = 0; i < n; i++)
        printf("%s%" PRId64, i ? ", " : "", values[i]);
    printf("%s\n", n ? "" : "none");
}

static void json_list(struct fg_jwrite *w, const char *key, const int64_t *values, int64_t n)
{
    fg_jwrite_array(w, key);
    for (int64_t i = 0; i < n; i++)
        fg_jwrite_int(w, NULL, values[i]);
    fg_jwrite_end_array(w);
}

static void print_forge(const struct fg_manifest *m)
{
    char bytes[32];
    uint64_t total = m->head.bytes;
    for (int64_t i = 0; i < m->n_chunks; i++)
        total += m->chunks[i].bytes;
    printf("release      %s\n", m->release_name);
    if (m->upstream_id)
        printf("upstream     %s at %s\n", m->upstream_id,
               m->upstream_revision ? m->upstream_revision : "an unknown revision");
    printf("weights      %s\n", m->weights_digest);
    printf("export       %s, %s\n", m->export_name, m->export_digest);
    printf("graph        %s, %s, arithmetic %" PRId64 "\n", m->graph_id, m->arch, m->numerics_abi);
    print_list("contexts", m->ctxs, m->n_ctxs);
    print_list("prefill", m->pctxs, m->n_pctxs);
    printf("kv formats  ");
    for (int i = 0; i < FG_KV_N_FORMATS; i++) {
        const enum fg_kv_format f = (enum fg_kv_format)i;
        if (m->kv.given ? m->kv.offers[i] : f == FG_KV_FP16)
            printf(" %s%s%s", fg_kv_format_name(f),
                   m->kv.given && m->kv.def == f ? " (default)" : "",
                   m->kv.hadamard[i] ? " (rotated)" : "");
    }
    printf("\n");
    if (m->rotation.given)
        printf("rotation     blocks up to %" PRId64 ", seeds %" PRIu64 ", %" PRIu64 ", %" PRIu64
               ", %" PRIu64 " plus the layer, %s\n",
               m->rotation.block, m->rotation.seed_mlp_in, m->rotation.seed_mlp_mid,
               m->rotation.seed_mix_in, m->rotation.seed_mix_out,
               m->rotation.numpy ? "numpy-pcg64" : "splitmix64");
    print_list("taps", m->taps, m->n_taps);
    printf("packages     %" PRId64 " chunks and the head, %s\n", m->n_chunks,
           fg_format_bytes(bytes, sizeof bytes, total));
    for (int64_t i = 0; i < m->n_chunks; i++)
        printf("  %-32s layers %" PRId64 "-%" PRId64 ", %s\n", m->chunks[i].file,
               m->chunks[i].first, m->chunks[i].last,
               fg_format_bytes(bytes, sizeof bytes, m->chunks[i].bytes));
    printf("  %-32s %s, id %s\n", m->head.file, fg_format_bytes(bytes, sizeof bytes, m->head.bytes),
           m->head.id);
    printf("embedding    %s\n", m->embedding.file ? m->embedding.file : "is the head");
}

static void json_forge(struct fg_jwrite *w, const struct fg_manifest *m)
{
    fg_jwrite_str(w, "version", "forge1");
    fg_jwrite_str(w, "release", m->release_name);
    fg_jwrite_str(w, "weights_digest", m->weights_digest);
    fg_jwrite_str(w, "upstream_id", m->upstream_id);
    fg_jwrite_str(w, "upstream_revision", m->upstream_revision);
    fg_jwrite_str(w, "export", m->export_name);
    fg_jwrite_str(w, "export_digest", m->export_digest);
    fg_jwrite_str(w, "arch", m->arch);
    json_list(w, "ctxs", m->ctxs, m->n_ctxs);
    json_list(w, "pctxs", m->pctxs, m->n_pctxs);
    fg_jwrite_array(w, "kv_formats");
    for (int i = 0; i < FG_KV_N_FORMATS; i++) {
        if (m->kv.given ? m->kv.offers[i] : i == FG_KV_FP16)
            fg_jwrite_str(w, NULL, fg_kv_format_name((enum fg_kv_format)i));
    }
    fg_jwrite_end_array(w);
    fg_jwrite_str(w, "kv_default", fg_kv_format_name(m->kv.given ? m->kv.def : FG_KV_FP16));
    json_list(w, "taps", m->taps, m->n_taps);
    fg_jwrite_array(w, "chunks");
    for (int64_t i = 0; i < m->n_chunks; i++) {
        fg_jwrite_object(w, NULL);
        fg_jwrite_str(w, "file", m->chunks[i].file);
        json_list(w, "layers", (const int64_t[]){m->chunks[i].first, m->chunks[i].last}, 2);
        fg_jwrite_uint(w, "bytes", m->chunks[i].bytes);
        fg_jwrite_str(w, "sha256", m->chunks[i].sha256);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_object(w, "head");
    fg_jwrite_str(w, "file", m->head.file);
    fg_jwrite_uint(w, "bytes", m->head.bytes);
    fg_jwrite_str(w, "sha256", m->head.sha256);
    fg_jwrite_str(w, "id", m->head.id);
    fg_jwrite_end_object(w);
}

// ---- the original's: whatever members it has, at the top level

static int show_original(const struct fg_json *doc, struct fg_jwrite *w)
{
    struct json_object *chunks = NULL;
    if (w) {
        fg_jwrite_str(w, "version", ORIGINAL);
        fg_jwrite_bool(w, "runs", false);
    } else {
        printf("version      " ORIGINAL ": the original's, which Forge does not run; convert its "
               "export\n");
    }
    if (json_object_object_get_ex(doc->root, "chunks", &chunks) &&
        json_object_is_type(chunks, json_type_array)) {
        if (w)
            fg_jwrite_uint(w, "n_chunks", json_object_array_length(chunks));
        else
            printf("packages     %zu chunks\n", json_object_array_length(chunks));
    }
    if (w) fg_jwrite_object(w, "members");
    json_object_object_foreach(doc->root, key, value)
    {
        char name[64], shown[160];
        const char *text = json_object_to_json_string_ext(
            value, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
        if (value == chunks || strcmp(key, "version") == 0) continue;
        fg_escape(shown, sizeof shown, text, strlen(text));
        if (w)
            fg_jwrite_str(w, key, text);
        else
            printf("  %-24s %s\n", fg_escape(name, sizeof name, key, strlen(key)), shown);
    }
    if (w) fg_jwrite_end_object(w);
    return 0;
}

int fg_inspect_manifest(struct fg_cli *cli, const char *path, struct fg_jwrite *w,
                        struct fg_error *err)
{
    struct fg_json doc;
    struct fg_manifest m;
    const char *version = "";
    int rc = fg_json_open(&doc, path, FG_MANIFEST_BYTES_MAX, err);
    if (rc) return rc;
    rc = fg_json_str(&doc, doc.root, "", "version", "", &version, NULL, err);
    bool original = !rc && strcmp(version, ORIGINAL) == 0;
    if (original) rc = show_original(&doc, w);
    fg_json_close(&doc);
    if (rc || original) return rc;
    rc = fg_manifest_open(&m, path, err);
    if (rc) return rc;
    for (int i = 0; i < m.n_ignored; i++)
        fg_log_debug(&cli->log, "%s: %s means nothing here", path, m.ignored[i]);
    if (w)
        json_forge(w, &m);
    else
        print_forge(&m);
    fg_manifest_close(&m);
    return 0;
}
