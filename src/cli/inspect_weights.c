// cli/inspect_weights.c: `forge inspect` of quantized weights: exports, builds and bundles,
// packages, manifests.
#include "base/file.h"
#include "base/progress.h"
#include "base/size.h"
#include "bundle/digest.h"
#include "bundle/source.h"
#include "cli/inspect.h"
#include "format/build.h"
#include "format/package.h"
#include "quant/export.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PLAN_SHOWN 100 // bytes

// Sums over the matrices of one format.
struct sums {
    uint64_t n, bytes, weights;
};

struct totals {
    struct sums formats[FG_Q_N_FORMATS];
    struct sums quantized; // all but kept ones
    uint64_t n_factors, factor_bytes, small_bytes;
    int64_t rank_min, rank_max;
};

static void count(struct totals *t, const struct fg_qset *s)
{
    *t = (struct totals){0};
    for (uint64_t i = 0; i < s->n_mats; i++) {
        const struct fg_qmat *m = &s->mats[i].m;
        struct sums *f = &t->formats[m->format];
        uint64_t bytes = 0, weights = (uint64_t)m->rows * (uint64_t)m->cols;
        fg_qformat_bytes(m->format, (uint64_t)m->rows, (uint64_t)m->cols, &bytes);
        f->n++;
        f->bytes += bytes;
        f->weights += weights;
        if (!fg_qformat_is_kept(m->format)) {
            t->quantized.n++;
            t->quantized.bytes += bytes;
            t->quantized.weights += weights;
        }
        if (!m->rank) continue;
        t->n_factors++;
        bytes = 0;
        fg_lr_bytes(m->lr_dtype, (uint64_t)m->rows, (uint64_t)m->cols, (uint64_t)m->rank, &bytes);
        t->factor_bytes += bytes;
        if (t->n_factors == 1 || m->rank < t->rank_min) t->rank_min = m->rank;
        if (m->rank > t->rank_max) t->rank_max = m->rank;
    }
    for (uint64_t i = 0; i < s->n_small; i++)
        t->small_bytes += s->small[i].bytes;
}

static double bits(const struct sums *s)
{
    return s->weights ? 8.0 * (double)s->bytes / (double)s->weights : 0.0;
}

// ---- as text

static void print_totals(const struct fg_qset *s)
{
    struct totals t;
    char bytes[32];
    count(&t, s);
    printf("matrices     %" PRIu64 "\n", s->n_mats);
    for (int i = 0; i < FG_Q_N_FORMATS; i++) {
        const struct sums *f = &t.formats[i];
        if (f->n == 0) continue;
        printf("  %-10s %6" PRIu64 "  %10s  %.4g bits per weight\n",
               fg_qformat_name((enum fg_qformat)i), f->n,
               fg_format_bytes(bytes, sizeof bytes, f->bytes), bits(f));
    }
    printf("quantized    %s, %.4g bits per weight\n",
           fg_format_bytes(bytes, sizeof bytes, t.quantized.bytes), bits(&t.quantized));
    if (t.n_factors) {
        char most[32] = "";
        if (t.rank_max > t.rank_min) snprintf(most, sizeof most, " to %" PRId64, t.rank_max);
        printf("low rank     %" PRIu64 " matrices, rank %" PRId64 "%s, %s\n", t.n_factors,
               t.rank_min, most, fg_format_bytes(bytes, sizeof bytes, t.factor_bytes));
    }
    printf("rotations    %" PRIu64 " sites\n", s->n_rots);
    printf("small        %" PRIu64 " tensors, %s\n", s->n_small,
           fg_format_bytes(bytes, sizeof bytes, t.small_bytes));
}

static void print_export(const struct fg_export *e)
{
    const struct fg_export_facts *f = fg_export_facts(e);
    const struct fg_export_embedding *em = fg_export_embedding(e);
    char bytes[32], shown[PLAN_SHOWN + 4];
    printf("layout       %s\n", f->original ? "the original's" : "Forge's");
    if (f->forge) printf("written by   forge %s\n", f->forge);
    printf("files        %" PRIu64 ", %s, %" PRId64 " layers\n", f->n_files,
           fg_format_bytes(bytes, sizeof bytes, f->bytes), f->n_layers);
    if (f->block)
        printf("signs        %s, blocks up to %" PRId64 "\n", fg_signs_name(f->signs), f->block);
    if (f->digest) printf("digest       %s\n", f->digest);
    if (f->head_digest) printf("head digest  %s\n", f->head_digest);
    if (f->plan && f->plan[0] != '{') // of an object, the formats below say more than its start
        printf("plan         %s\n", fg_escape(shown, sizeof shown, f->plan, strlen(f->plan)));
    if (em->kind == FG_EMBEDDING_HEAD)
        printf("embedding    is the head\n");
    else if (em->data)
        printf("embedding    %s [%" PRId64 ", %" PRId64 "]\n", fg_st_dtype_name(em->dtype),
               em->vocab, em->hidden);
}

static void print_package(const struct fg_package *p)
{
    const struct fg_package_info *i = fg_package_info(p);
    char bytes[32];
    printf("package      %s", fg_package_kind_name(i->kind));
    if (i->layer_first >= 0) printf(", layers %" PRId64 "-%" PRId64, i->layer_first, i->layer_last);
    printf(", %s, layout %s\n", fg_format_bytes(bytes, sizeof bytes, i->bytes), i->layout);
    printf("weights      %s\nexport       %s\n", i->weights_digest, i->export_digest);
    if (i->id) printf("id           %s\n", i->id);
}

// ---- as JSON

static void json_sums(struct fg_jwrite *w, const char *name, const struct sums *s)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "format", name);
    fg_jwrite_uint(w, "count", s->n);
    fg_jwrite_uint(w, "bytes", s->bytes);
    fg_jwrite_uint(w, "weights", s->weights);
    fg_jwrite_num(w, "bits_per_weight", bits(s));
    fg_jwrite_end_object(w);
}

static void json_totals(struct fg_jwrite *w, const struct fg_qset *s)
{
    struct totals t;
    count(&t, s);
    fg_jwrite_uint(w, "matrices", s->n_mats);
    fg_jwrite_array(w, "formats");
    for (int i = 0; i < FG_Q_N_FORMATS; i++) {
        if (t.formats[i].n) json_sums(w, fg_qformat_name((enum fg_qformat)i), &t.formats[i]);
    }
    fg_jwrite_end_array(w);
    fg_jwrite_uint(w, "quantized_bytes", t.quantized.bytes);
    fg_jwrite_num(w, "bits_per_weight", bits(&t.quantized));
    fg_jwrite_object(w, "low_rank");
    fg_jwrite_uint(w, "matrices", t.n_factors);
    fg_jwrite_int(w, "rank_min", t.rank_min);
    fg_jwrite_int(w, "rank_max", t.rank_max);
    fg_jwrite_uint(w, "bytes", t.factor_bytes);
    fg_jwrite_end_object(w);
    fg_jwrite_uint(w, "rotations", s->n_rots);
    fg_jwrite_uint(w, "small_tensors", s->n_small);
    fg_jwrite_uint(w, "small_bytes", t.small_bytes);
}

static void json_export(struct fg_jwrite *w, const struct fg_export *e)
{
    const struct fg_export_facts *f = fg_export_facts(e);
    const struct fg_export_embedding *em = fg_export_embedding(e);
    fg_jwrite_object(w, "export");
    fg_jwrite_str(w, "name", f->name);
    fg_jwrite_str(w, "layout", f->original ? "original" : "forge");
    fg_jwrite_str(w, "forge", f->forge);
    fg_jwrite_int(w, "layers", f->n_layers);
    fg_jwrite_uint(w, "files", f->n_files);
    fg_jwrite_uint(w, "bytes", f->bytes);
    fg_jwrite_str(w, "signs", fg_signs_name(f->signs));
    fg_jwrite_int(w, "block", f->block);
    fg_jwrite_str(w, "digest", f->digest);
    fg_jwrite_str(w, "head_digest", f->head_digest);
    fg_jwrite_str(w, "plan", f->plan);
    fg_jwrite_bool(w, "embedding", em->kind != FG_EMBEDDING_NONE);
    if (em->kind != FG_EMBEDDING_NONE)
        fg_jwrite_str(w, "embedding_dtype",
                      em->kind == FG_EMBEDDING_HEAD ? "head" : fg_st_dtype_name(em->dtype));
    fg_jwrite_end_object(w);
}

static void json_package(struct fg_jwrite *w, const struct fg_package *p)
{
    const struct fg_package_info *i = fg_package_info(p);
    fg_jwrite_object(w, "package");
    fg_jwrite_str(w, "kind", fg_package_kind_name(i->kind));
    fg_jwrite_int(w, "first_layer", i->layer_first);
    fg_jwrite_int(w, "last_layer", i->layer_last);
    fg_jwrite_uint(w, "bytes", i->bytes);
    fg_jwrite_str(w, "layout", i->layout);
    fg_jwrite_str(w, "weights_digest", i->weights_digest);
    fg_jwrite_str(w, "export_digest", i->export_digest);
    fg_jwrite_str(w, "id", i->id);
    fg_jwrite_end_object(w);
}

// ---- the whole

// The manifest of a build or bundle, as a malloc'd path; the file itself when it is one. NULL:
// neither.
static char *manifest_of(const char *path)
{
    static const char *const places[] = {"manifest.json", "forge/manifest.json",
                                         "coreai/manifest.json"};
    if (!fg_dir_exists(path)) {
        const char *name = strrchr(path, '/');
        return strcmp(name ? name + 1 : path, "manifest.json") == 0 && fg_file_exists(path)
                   ? strdup(path)
                   : NULL;
    }
    for (size_t i = 0; i < FG_COUNT(places); i++) {
        char *file = fg_path_join(path, places[i]);
        if (file && fg_file_exists(file)) return file;
        free(file);
    }
    return NULL;
}

bool fg_inspect_is_weights(const char *path)
{
    if (fg_source_kind(path) != FG_SOURCE_NONE) return true;
    char *manifest = manifest_of(path);
    bool is = manifest != NULL;
    free(manifest);
    return is;
}

// Everything that opening leaves: hashes of a manifest, indices, codes, pad bits, the digest that
// an export declares.
static int verify(const struct fg_source *s, const char *path, struct fg_error *err)
{
    struct fg_build *b;
    if (fg_source_build(s)) {
        int rc = fg_build_open(&b, path, true, err);
        if (!rc) fg_build_close(b);
        return rc;
    }
    if (fg_source_package(s)) return fg_package_verify(fg_source_package(s), err);
    const struct fg_export_facts *f = fg_export_facts(fg_source_export(s));
    const struct fg_qset *set = fg_source_set(s);
    const struct fg_digest_options o = {.release = true};
    struct fg_digest d = {0};
    int rc = 0;
    for (uint64_t i = 0; i < set->n_mats && !rc; i++)
        rc = fg_export_check_codes(&set->mats[i], err);
    if (!rc && f->digest) rc = fg_digest_sets(&d, &set, 1, &o, err);
    if (!rc && f->digest && strcmp(f->digest, d.hex) != 0)
        rc = fg_fail(err, FG_EINTEGRITY, "inspect", f->dir, "digest in export.json", f->digest,
                     "%s", d.hex);
    fg_digest_free(&d);
    return rc;
}

static const char *kind_name(enum fg_source_kind kind)
{
    static const char *const names[] = {
        [FG_SOURCE_NONE] = "manifest",
        [FG_SOURCE_EXPORT] = "quantized export",
        [FG_SOURCE_BUILD] = "build",
        [FG_SOURCE_PACKAGE] = "package",
    };
    return names[kind];
}

// s NULL: a manifest alone.
static int summary(struct fg_cli *cli, const struct fg_source *s, const char *manifest,
                   bool verified, struct fg_error *err)
{
    const char *path = cli->args.rest[0];
    struct fg_jwrite w = {0}, *json = cli->json ? &w : NULL;
    const char *kind = kind_name(s ? fg_source_kind_of(s) : FG_SOURCE_NONE);
    char shown[512];
    int rc = 0;
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "path", path);
    fg_jwrite_str(&w, "kind", kind);
    if (!json)
        printf("%s\nkind         %s\n", fg_escape(shown, sizeof shown, path, strlen(path)), kind);
    if (s && json) fg_inspect_config_json(json, fg_source_config(s));
    if (s && !json && fg_source_config(s)) fg_inspect_config(fg_source_config(s));
    if (manifest) {
        fg_jwrite_object(&w, "manifest");
        rc = fg_inspect_manifest(cli, manifest, json, err);
        fg_jwrite_end_object(&w);
    }
    if (!rc && s && json) {
        if (fg_source_export(s)) json_export(json, fg_source_export(s));
        if (fg_source_package(s)) json_package(json, fg_source_package(s));
        json_totals(json, fg_source_set(s));
    } else if (!rc && s) {
        if (fg_source_export(s)) print_export(fg_source_export(s));
        if (fg_source_package(s)) print_package(fg_source_package(s));
        print_totals(fg_source_set(s));
        if (verified) printf("verified     everything that can be checked\n");
    }
    fg_jwrite_bool(&w, "verified", verified);
    fg_jwrite_end_object(&w);
    if (!rc && json) rc = fg_out_json(json, err);
    if (!json && !rc) rc = fg_out_flush(err);
    fg_jwrite_free(&w);
    return rc;
}

int fg_inspect_weights(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    const char *path = args->rest[0], *pattern = fg_args_text(args, "tensors");
    const char *tensor = fg_args_text(args, "tensor");
    const bool wants_verify = fg_args_flag(args, "verify");
    const struct fg_source_options o = {.log = &cli->log, .partial = !wants_verify};
    struct fg_source *s = NULL;
    char *manifest = manifest_of(path);
    const bool alone = fg_source_kind(path) == FG_SOURCE_NONE;
    int rc = 0;
    fg_signals_guard_maps();
    if (!alone) rc = fg_source_open(&s, path, &o, err);
    // The original's builds have a manifest to show and packages that nothing here reads.
    bool shown = rc == FG_EUNSUPPORTED && manifest && !pattern && !tensor && !wants_verify;
    if (shown || (alone && !pattern && !tensor && !wants_verify)) {
        *err = (struct fg_error){0}; // that nothing here runs it is no failure to show it
        rc = summary(cli, NULL, manifest, false, err);
    } else if (!rc && !s) {
        rc = fg_fail(err, FG_EINPUT, "inspect", path, NULL, "packages", "a manifest alone");
    } else if (rc && manifest && !cli->json && !pattern && !tensor) {
        struct fg_error ignored = {0}; // what is readable of a damaged build
        fg_inspect_manifest(cli, manifest, NULL, &ignored);
    } else if (!rc) {
        if (wants_verify) rc = verify(s, path, err);
        if (!rc && tensor)
            rc = fg_inspect_matrix(cli, s, tensor, err);
        else if (!rc && pattern)
            rc = fg_inspect_matrices(cli, s, pattern, err);
        else if (!rc)
            rc = summary(cli, s, manifest, wants_verify, err);
    }
    fg_source_close(s);
    free(manifest);
    return rc;
}
