// cli/inspect.c: `forge inspect`: what a model file or directory holds (specs: cli 16). Reads
// headers, and values only when asked. Quantized weights are inspect_weights.c's.
#include "cli/cli.h"
#include "base/file.h"
#include "base/json.h"
#include "base/progress.h"
#include "cli/inspect.h"
#include "eval/tensors.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "model/config.h"
#include "runtime/budget.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX ((uint64_t)16 << 20)
#define TYPES_MAX 64
#define ARRAY_SHOWN 4 // elements of a metadata array
#define TEXT_SHOWN 60 // bytes of a metadata text

struct count {
    const char *name; // dtype, or part of the model
    uint64_t n, bytes, weights;
};

struct inspect {
    struct fg_cli *cli;
    const char *path;
    bool is_dir;
    struct fg_tensors *tensors; // NULL: a directory with a config only
    bool has_config;
    struct fg_config config;
    struct fg_arena arena;      // of the config
    struct fg_error config_err; // a config that Forge does not run
    struct count types[TYPES_MAX];
    int n_types;
    uint64_t bytes, weights;
    struct count visual, mtp; // parts that the text model does not use
};

// ---- gathering

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static void add_to(struct count *c, const struct fg_tensor_view *v)
{
    c->n++;
    c->bytes += v->bytes;
    c->weights += v->n;
}

static void count_tensors(struct inspect *in)
{
    for (uint64_t i = 0; i < fg_tensors_count(in->tensors); i++) {
        struct fg_tensor_view v = fg_tensors_at(in->tensors, i);
        int t = 0;
        while (t < in->n_types && strcmp(in->types[t].name, v.dtype) != 0)
            t++;
        if (t == in->n_types && t < TYPES_MAX) in->types[in->n_types++].name = v.dtype;
        if (t < TYPES_MAX) add_to(&in->types[t], &v);
        in->bytes += v.bytes;
        in->weights += v.n;
        // Specs: model 2.4.
        if (starts_with(v.name, "visual.") || starts_with(v.name, "model.visual."))
            add_to(&in->visual, &v);
        if (starts_with(v.name, "mtp.") || starts_with(v.name, "model.mtp.")) add_to(&in->mtp, &v);
    }
}

// A model type that Forge does not run is worth a line, a malformed config is an error.
static int read_config(struct inspect *in, struct fg_error *err)
{
    char *path = fg_path_join(in->path, "config.json");
    if (!path) return fg_fail_memory(err, "inspect", strlen(in->path));
    int rc = 0;
    if (fg_path_taken(path)) {
        struct fg_json doc;
        rc = fg_json_open(&doc, path, CONFIG_BYTES_MAX, err);
        if (rc == 0) {
            rc = fg_config_parse(&in->config, &doc, &in->arena, &in->config_err);
            in->has_config = rc == 0;
            if (rc && rc != FG_EUNSUPPORTED && err) *err = in->config_err;
            if (rc == FG_EUNSUPPORTED) rc = 0;
            fg_json_close(&doc);
        }
    }
    free(path);
    return rc;
}

static bool dir_has(const char *dir, const char *name)
{
    char *path = fg_path_join(dir, name);
    bool has = path && fg_path_taken(path);
    free(path);
    return has;
}

static int open_tensors(struct inspect *in, struct fg_error *err)
{
    bool weights = !in->is_dir || dir_has(in->path, "model.safetensors") ||
                   dir_has(in->path, "model.safetensors.index.json");
    if (!weights && (in->has_config || in->config_err.code)) return 0;
    int rc = fg_tensors_open(&in->tensors, in->path, err);
    if (rc == 0) count_tensors(in);
    return rc;
}

// ---- the summary as text

void fg_inspect_config(const struct fg_config *c)
{
    char state[32], kv[32];
    printf("model        %s, %.4g million parameters\n", fg_family_name(c->family),
           (double)fg_config_parameters(c) / 1e6);
    printf("layers       %" PRId64 ": %" PRId64 " linear (Gated DeltaNet), %" PRId64
           " full attention\n",
           c->n_layers, c->n_linear, c->n_full);
    printf("sizes        hidden %" PRId64 ", MLP %" PRId64 ", vocabulary %" PRId64
           ", positions %" PRId64 ", head %s\n",
           c->hidden, c->intermediate, c->vocab, c->max_positions, c->tied ? "tied" : "its own");
    printf("attention    %" PRId64 " heads over %" PRId64 " key-value heads of %" PRId64
           ", rotary %" PRId64 " (%s)\n",
           c->n_heads, c->n_kv_heads, c->head_dim, c->rot, c->rope_type);
    if (c->n_linear)
        printf("deltanet     %" PRId64 " key heads of %" PRId64 ", %" PRId64
               " value heads of %" PRId64 ", kernel %" PRId64 "\n",
               c->n_k_heads, c->k_head_dim, c->n_v_heads, c->v_head_dim, c->conv_kernel);
    printf(
        "session      %s of state, per position",
        fg_format_bytes(state, sizeof state, fg_config_state_bytes(c) + fg_config_conv_bytes(c)));
    for (int f = 0; f < FG_KV_N_ALL; f++)
        printf("%s %s in %s", f ? "," : "",
               fg_format_bytes(kv, sizeof kv, fg_budget_kv_position(c, (enum fg_kv_format)f)),
               fg_kv_format_name((enum fg_kv_format)f));
    putchar('\n');
}

static void print_config(const struct inspect *in)
{
    if (in->config_err.code) {
        char line[512];
        printf("config       not one that Forge runs: %s\n",
               fg_error_line(&in->config_err, line, sizeof line));
    }
    if (in->has_config) fg_inspect_config(&in->config);
}

// One metadata value, shortened, into out.
static void metadata_text(const struct fg_gguf_kv *kv, struct fg_buf *out)
{
    const uint8_t *at = kv->data;
    enum fg_gguf_kind kind = kv->kind == FG_GGUF_ARRAY ? kv->element : kv->kind;
    if (kv->kind == FG_GGUF_ARRAY)
        fg_buf_printf(out, "%" PRIu64 " x %s: ", kv->n, fg_gguf_kind_name(kv->element));
    if (kind == FG_GGUF_ARRAY) {
        fg_buf_str(out, "arrays");
        return;
    }
    for (uint64_t i = 0; i < kv->n && i < ARRAY_SHOWN; i++) {
        if (i) fg_buf_str(out, ", ");
        if (kind == FG_GGUF_STRING) {
            uint64_t n;
            char text[TEXT_SHOWN + 4];
            memcpy(&n, at, sizeof n);
            fg_buf_str(out, fg_escape(text, sizeof text, (const char *)at + 8, n));
            at += 8 + n;
        } else if (kind == FG_GGUF_BOOL) {
            fg_buf_str(out, fg_gguf_kv_number(kv, i) != 0 ? "true" : "false");
        } else {
            fg_buf_printf(out, "%.9g", fg_gguf_kv_number(kv, i));
        }
    }
    if (kv->n > ARRAY_SHOWN) fg_buf_str(out, ", ...");
}

static void print_gguf(const struct fg_gguf *g)
{
    printf("gguf         version %" PRIu32 ", alignment %" PRIu64 "\n", fg_gguf_version(g),
           fg_gguf_alignment(g));
    for (uint64_t i = 0; i < fg_gguf_n_kvs(g); i++) {
        const struct fg_gguf_kv *kv = fg_gguf_kv_at(g, i);
        struct fg_buf text = {0};
        char key[128];
        metadata_text(kv, &text);
        printf("  %-42s %s\n", fg_escape(key, sizeof key, kv->key, strlen(kv->key)),
               text.data ? text.data : "");
        fg_buf_free(&text);
    }
}

static void print_part(const struct count *c, const char *name)
{
    char bytes[32];
    if (c->n == 0) return;
    printf("%-12s %" PRIu64 " tensors, %s: not used by the text model\n", name, c->n,
           fg_format_bytes(bytes, sizeof bytes, c->bytes));
}

static void shape_text(const struct fg_tensor_view *v, char *out, size_t cap)
{
    size_t at = (size_t)snprintf(out, cap, "[");
    for (int i = 0; i < v->rank && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%" PRIu64, i ? ", " : "", v->shape[i]);
    if (at < cap) snprintf(out + at, cap - at, "]");
}

// With the scales of the blocks: IQ3_XXS has 3.0625.
static double bits_per_weight(uint64_t bytes, uint64_t weights)
{
    return weights ? 8.0 * (double)bytes / (double)weights : 0.0;
}

static void print_tensors_summary(const struct inspect *in)
{
    char bytes[32], shape[192];
    if (fg_tensors_kind(in->tensors) == FG_TENSORS_NPY) { // its one array
        struct fg_tensor_view v = fg_tensors_at(in->tensors, 0);
        shape_text(&v, shape, sizeof shape);
        printf("shape        %s\n", shape);
    }
    printf("tensors      %" PRIu64 ", %s, %.6g bits per weight\n", fg_tensors_count(in->tensors),
           fg_format_bytes(bytes, sizeof bytes, in->bytes),
           bits_per_weight(in->bytes, in->weights));
    for (int i = 0; i < in->n_types; i++) {
        const struct count *c = &in->types[i];
        printf("  %-10s %6" PRIu64 "  %10s  %.6g bits per weight\n", c->name, c->n,
               fg_format_bytes(bytes, sizeof bytes, c->bytes),
               bits_per_weight(c->bytes, c->weights));
    }
    print_part(&in->visual, "visual");
    print_part(&in->mtp, "mtp");
    const struct fg_checkpoint *c = fg_tensors_checkpoint(in->tensors);
    for (uint64_t i = 0; c && i < fg_checkpoint_n_metadata(c); i++) {
        const char *key, *value;
        char k[128], v[TEXT_SHOWN + 4];
        fg_checkpoint_metadata(c, i, &key, &value);
        printf("metadata     %s = %s\n", fg_escape(k, sizeof k, key, strlen(key)),
               fg_escape(v, sizeof v, value, strlen(value)));
    }
    for (uint64_t i = 0; c && i < fg_checkpoint_n_warnings(c); i++)
        printf("warning      %s\n", fg_checkpoint_warning(c, i));
}

static const char *kind_of(const struct inspect *in)
{
    if (!in->tensors) return "checkpoint directory without weights";
    if (in->is_dir)
        return in->has_config || in->config_err.code ? "checkpoint directory"
                                                     : "directory of safetensors";
    return fg_tensors_kind_name(fg_tensors_kind(in->tensors));
}

static void print_summary(const struct inspect *in)
{
    char path[512];
    printf("%s\nkind         %s\n", fg_escape(path, sizeof path, in->path, strlen(in->path)),
           kind_of(in));
    print_config(in);
    if (!in->tensors) return;
    if (fg_tensors_gguf(in->tensors)) print_gguf(fg_tensors_gguf(in->tensors));
    print_tensors_summary(in);
}

// ---- the summary as JSON

void fg_inspect_config_json(struct fg_jwrite *w, const struct fg_config *c)
{
    if (!c) {
        fg_jwrite_null(w, "config");
        return;
    }
    fg_jwrite_object(w, "config");
    fg_jwrite_str(w, "family", fg_family_name(c->family));
    fg_jwrite_uint(w, "parameters", fg_config_parameters(c));
    fg_jwrite_int(w, "layers", c->n_layers);
    fg_jwrite_int(w, "linear_layers", c->n_linear);
    fg_jwrite_int(w, "full_layers", c->n_full);
    fg_jwrite_int(w, "hidden", c->hidden);
    fg_jwrite_int(w, "intermediate", c->intermediate);
    fg_jwrite_int(w, "vocab", c->vocab);
    fg_jwrite_int(w, "max_positions", c->max_positions);
    fg_jwrite_int(w, "heads", c->n_heads);
    fg_jwrite_int(w, "kv_heads", c->n_kv_heads);
    fg_jwrite_int(w, "head_dim", c->head_dim);
    fg_jwrite_int(w, "rotary_dim", c->rot);
    fg_jwrite_str(w, "rotary_type", c->rope_type);
    fg_jwrite_bool(w, "tied_head", c->tied);
    fg_jwrite_uint(w, "state_bytes", fg_config_state_bytes(c) + fg_config_conv_bytes(c));
    fg_jwrite_uint(w, "kv_bytes_per_position", fg_budget_kv_position(c, FG_KV_F32));
    fg_jwrite_object(w, "kv_bytes_per_position_by_dtype");
    for (int f = 0; f < FG_KV_N_ALL; f++)
        fg_jwrite_uint(w, fg_kv_format_name((enum fg_kv_format)f),
                       fg_budget_kv_position(c, (enum fg_kv_format)f));
    fg_jwrite_end_object(w);
    fg_jwrite_end_object(w);
}

static void json_config(struct fg_jwrite *w, const struct inspect *in)
{
    char line[512];
    fg_inspect_config_json(w, in->has_config ? &in->config : NULL);
    if (in->has_config) return;
    fg_jwrite_str(w, "config_problem",
                  in->config_err.code ? fg_error_line(&in->config_err, line, sizeof line) : NULL);
}

static void json_count(struct fg_jwrite *w, const char *key, const struct count *c)
{
    fg_jwrite_object(w, key);
    fg_jwrite_uint(w, "count", c->n);
    fg_jwrite_uint(w, "bytes", c->bytes);
    fg_jwrite_end_object(w);
}

static void json_metadata(struct fg_jwrite *w, const struct inspect *in)
{
    const struct fg_checkpoint *c = in->tensors ? fg_tensors_checkpoint(in->tensors) : NULL;
    const struct fg_gguf *g = in->tensors ? fg_tensors_gguf(in->tensors) : NULL;
    fg_jwrite_object(w, "metadata");
    for (uint64_t i = 0; c && i < fg_checkpoint_n_metadata(c); i++) {
        const char *key, *value;
        fg_checkpoint_metadata(c, i, &key, &value);
        fg_jwrite_str(w, key, value);
    }
    for (uint64_t i = 0; g && i < fg_gguf_n_kvs(g); i++) {
        const struct fg_gguf_kv *kv = fg_gguf_kv_at(g, i);
        struct fg_buf text = {0};
        metadata_text(kv, &text);
        bool number = kv->kind != FG_GGUF_ARRAY && kv->kind != FG_GGUF_STRING;
        if (kv->kind == FG_GGUF_BOOL) {
            fg_jwrite_bool(w, kv->key, fg_gguf_kv_number(kv, 0) != 0);
        } else if (number) {
            fg_jwrite_num(w, kv->key, fg_gguf_kv_number(kv, 0));
        } else {
            fg_jwrite_str(w, kv->key, text.data);
        }
        fg_buf_free(&text);
    }
    fg_jwrite_end_object(w);
    fg_jwrite_array(w, "warnings");
    for (uint64_t i = 0; c && i < fg_checkpoint_n_warnings(c); i++)
        fg_jwrite_str(w, NULL, fg_checkpoint_warning(c, i));
    fg_jwrite_end_array(w);
}

static int json_summary(const struct inspect *in, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "path", in->path);
    fg_jwrite_str(&w, "kind", kind_of(in));
    json_config(&w, in);
    fg_jwrite_object(&w, "tensors");
    fg_jwrite_uint(&w, "count", in->tensors ? fg_tensors_count(in->tensors) : 0);
    fg_jwrite_uint(&w, "bytes", in->bytes);
    fg_jwrite_uint(&w, "weights", in->weights);
    fg_jwrite_num(&w, "bits_per_weight", bits_per_weight(in->bytes, in->weights));
    fg_jwrite_array(&w, "types");
    for (int i = 0; i < in->n_types; i++) {
        const struct count *c = &in->types[i];
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "type", c->name);
        fg_jwrite_uint(&w, "count", c->n);
        fg_jwrite_uint(&w, "bytes", c->bytes);
        fg_jwrite_num(&w, "bits_per_weight", bits_per_weight(c->bytes, c->weights));
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    json_count(&w, "visual", &in->visual);
    json_count(&w, "mtp", &in->mtp);
    json_metadata(&w, in);
    fg_jwrite_end_object(&w);
    return fg_out_json(&w, err);
}

// ---- tensors

static void json_view(struct fg_jwrite *w, const struct fg_tensor_view *v)
{
    fg_jwrite_str(w, "name", v->name);
    fg_jwrite_str(w, "type", v->dtype);
    fg_jwrite_array(w, "shape");
    for (int i = 0; i < v->rank; i++)
        fg_jwrite_uint(w, NULL, v->shape[i]);
    fg_jwrite_end_array(w);
    fg_jwrite_uint(w, "bytes", v->bytes);
    fg_jwrite_str(w, "file", v->file);
}

static int list_tensors(const struct inspect *in, const char *pattern, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_array(&w, "tensors");
    bool any = false;
    for (uint64_t i = 0; i < fg_tensors_count(in->tensors); i++) {
        struct fg_tensor_view v = fg_tensors_at(in->tensors, i);
        if (pattern[0] && !fg_tensor_matches(pattern, v.name)) continue;
        any = true;
        if (in->cli->json) {
            fg_jwrite_object(&w, NULL);
            json_view(&w, &v);
            fg_jwrite_end_object(&w);
            continue;
        }
        char name[256], shape[192], bytes[32];
        shape_text(&v, shape, sizeof shape);
        printf("%-8s %-22s %10s  %s\n", v.dtype, shape,
               fg_format_bytes(bytes, sizeof bytes, v.bytes),
               fg_escape(name, sizeof name, v.name, strlen(v.name)));
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    if (!any && pattern[0]) {
        char shown[256];
        fg_out_warn(in->cli, "no tensor matches %s",
                    fg_escape(shown, sizeof shown, pattern, strlen(pattern)));
    }
    if (in->cli->json) return fg_out_json(&w, err);
    fg_jwrite_free(&w);
    return fg_out_flush(err);
}

static int show_tensor(const struct inspect *in, const char *name, struct fg_error *err)
{
    const struct fg_args *args = &in->cli->args;
    bool want_stats = fg_args_flag(args, "stats"), json = in->cli->json;
    struct fg_tensor_view v;
    if (!fg_tensors_find(in->tensors, name, &v)) {
        int rc = fg_fail(err, FG_EINPUT, "inspect", in->path, name, "a tensor of this file",
                         "no such tensor");
        fg_error_hint(err, "--tensors lists them");
        return rc;
    }
    uint64_t head = (uint64_t)fg_args_int(args, "head");
    if (head > v.n) head = v.n;
    struct fg_tensor_stats s;
    double *values = malloc((head + 1) * sizeof *values);
    if (!values) return fg_fail_memory(err, "tensor", head * sizeof *values);
    int rc = want_stats ? fg_tensors_stats(in->tensors, &v, &s, err) : 0;
    if (rc == 0) rc = fg_tensors_read(in->tensors, &v, 0, head, values, err);
    struct fg_jwrite w = {0};
    if (rc == 0 && json) {
        fg_jwrite_object(&w, NULL);
        json_view(&w, &v);
        if (want_stats) {
            fg_jwrite_object(&w, "stats");
            fg_jwrite_num(&w, "min", s.min);
            fg_jwrite_num(&w, "max", s.max);
            fg_jwrite_num(&w, "mean", s.mean);
            fg_jwrite_num(&w, "std", s.std);
            fg_jwrite_uint(&w, "zeros", s.n_zero);
            fg_jwrite_uint(&w, "nan", s.n_nan);
            fg_jwrite_uint(&w, "infinite", s.n_inf);
            fg_jwrite_end_object(&w);
        }
        fg_jwrite_array(&w, "head");
        for (uint64_t i = 0; i < head; i++)
            fg_jwrite_num(&w, NULL, values[i]);
        fg_jwrite_end_array(&w);
        fg_jwrite_end_object(&w);
        rc = fg_out_json(&w, err);
    } else if (rc == 0) {
        char shape[192], bytes[32];
        shape_text(&v, shape, sizeof shape);
        printf("%s\n%s %s, %s\n", v.name, v.dtype, shape,
               fg_format_bytes(bytes, sizeof bytes, v.bytes));
        if (want_stats)
            printf("min %.9g, max %.9g, mean %.9g, std %.9g; %" PRIu64 " zeros, %" PRIu64
                   " NaN, %" PRIu64 " infinite\n",
                   s.min, s.max, s.mean, s.std, s.n_zero, s.n_nan, s.n_inf);
        for (uint64_t i = 0; i < head; i++)
            printf("%.9g\n", values[i]);
        rc = fg_out_flush(err);
    }
    free(values);
    return rc;
}

static int run_inspect(struct fg_cli *cli, struct fg_error *err)
{
    const struct fg_args *args = &cli->args;
    struct inspect in = {.cli = cli, .path = args->rest[0], .is_dir = fg_dir_exists(args->rest[0])};
    const char *pattern = fg_args_text(args, "tensors"), *tensor = fg_args_text(args, "tensor");
    int rc = fg_args_exclusive(args, "tensors", "tensor", err);
    if (rc == 0 && !tensor && (fg_args_flag(args, "stats") || fg_args_given(args, "head")))
        rc = fg_fail(err, FG_EINPUT, "option", NULL, "--tensor", "the name of a tensor", "nothing");
    if (rc == 0 && fg_inspect_is_weights(in.path)) return fg_inspect_weights(cli, err);
    if (rc == 0 && fg_args_flag(args, "verify"))
        rc = fg_fail(err, FG_EINPUT, "inspect", in.path, NULL,
                     "an export, a build, a bundle or a package for --verify", "something else");
    if (rc == 0 && in.is_dir) rc = read_config(&in, err);
    if (rc == 0) rc = open_tensors(&in, err);
    if (rc == 0 && (pattern || tensor) && !in.tensors)
        rc = fg_fail(err, FG_EINPUT, "inspect", in.path, NULL, "model.safetensors", "no weights");
    if (rc == 0) {
        if (tensor) {
            rc = show_tensor(&in, tensor, err);
        } else if (pattern) {
            rc = list_tensors(&in, pattern, err);
        } else if (cli->json) {
            rc = json_summary(&in, err);
        } else {
            print_summary(&in);
            rc = fg_out_flush(err);
        }
    } else if (in.has_config && !cli->json && !pattern && !tensor) {
        print_config(&in); // what is readable of a damaged checkpoint
    }
    fg_tensors_close(in.tensors);
    fg_arena_free(&in.arena);
    return rc;
}

static const struct fg_opt options[] = {
    {.name = "tensors",
     .kind = FG_OPT_TEXT,
     .value = "PATTERN",
     .value_optional = true,
     .group = "Inspect",
     .help = "list the tensors; PATTERN (* ? []) matches a name or what follows one of its dots"},
    {.name = "tensor",
     .kind = FG_OPT_TEXT,
     .value = "NAME",
     .group = "Inspect",
     .help = "show one tensor"},
    {.name = "stats",
     .kind = FG_OPT_FLAG,
     .group = "Inspect",
     .help = "with --tensor: smallest, largest, mean, deviation, zeros, NaN, use of the table"},
    {.name = "head",
     .kind = FG_OPT_INT,
     .value = "N",
     .def = "0",
     .min = 0,
     .max = 1000000,
     .group = "Inspect",
     .help = "with --tensor: the first N values"},
    {.name = "verify",
     .kind = FG_OPT_FLAG,
     .group = "Inspect",
     .help = "quantized weights: check hashes, digest, indices and padding too"},
    {0},
};
static const struct fg_opt *const tables[] = {options, NULL};
static const char *const examples[] = {"forge inspect model/",
                                       "forge inspect model.gguf --tensors 'blk.0.*'",
                                       "forge inspect model/ --tensor model.norm.weight --stats",
                                       "forge inspect bundle/ --tensors 'layers.0.*'",
                                       "forge inspect export/ --verify",
                                       NULL};

const struct fg_command fg_cmd_inspect = {
    .name = "inspect",
    .group = "Machine",
    .summary = "look into a model file or directory",
    .about = "Knows safetensors, GGUF, npy, checkpoint directories, quantized exports, packages, "
             "builds, bundles and manifests by their content.",
    .args = "PATH",
    .args_min = 1,
    .args_max = 1,
    .opts = tables,
    .examples = examples,
    .run = run_inspect,
};
