// train/quantize_state.c: the output directory of a job: its lock, what earlier runs finished, and
// the two reports at the end (specs: quantization 4.5, 4.7, cli 1.6).
#include "base/file.h"
#include "base/json.h"
#include "base/num.h"
#include "base/size.h"
#include "bundle/digest.h"
#include "forge/forge.h"
#include "quant/export.h"
#include "train/quantize_impl.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCHEMA "forge.quantize/1"
#define PROGRESS "state/progress.json"
#define TIMING "state/timing.json"
#define EXPORT "export.json"
#define STATE_BYTES_MAX (64ull << 20)

static int with_path(char **out, const struct fg_quantize *q, const char *name,
                     struct fg_error *err)
{
    *out = fg_path_join(q->o.output, name);
    return *out ? 0 : fg_fail_memory(err, FG_QUANTIZE_WHAT, strlen(name));
}

static int replace_json(const struct fg_quantize *q, const char *name, struct fg_jwrite *w,
                        struct fg_error *err)
{
    char *path = NULL;
    fg_buf_char(&w->buf, '\n');
    int rc = w->buf.failed ? fg_fail_memory(err, FG_QUANTIZE_WHAT, w->buf.len)
                           : with_path(&path, q, name, err);
    if (!rc) rc = fg_file_replace(path, w->buf.data, w->buf.len, err);
    free(path);
    fg_jwrite_free(w);
    return rc;
}

// ---- progress.json

static void write_gptq_log(struct fg_jwrite *w, const struct fg_quantize_log *log)
{
    fg_jwrite_num(w, "err_h", log->err_h);
    fg_jwrite_num(w, "rel_err_h", log->rel_err_h);
    fg_jwrite_num(w, "rel_err_h_rtn", log->rel_err_h_rtn);
    fg_jwrite_num(w, "held_snr_db", log->held_snr_db);
    fg_jwrite_num(w, "damp", log->damp);
}

// MLP outputs on held-out rows, layer by layer; null where not measured.
static void write_mlp_snr(const struct fg_quantize *q, struct fg_jwrite *w)
{
    fg_jwrite_array(w, "mlp_snr_db");
    for (int64_t i = 0; i < q->source.config->n_layers; i++)
        fg_jwrite_num(w, NULL, q->mlp_snr_db[i]);
    fg_jwrite_end_array(w);
}

int fg_quantize_save_state(const struct fg_quantize *q, struct fg_error *err)
{
    const bool gptq = q->o.method == FG_QUANTIZE_GPTQ;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "schema", SCHEMA);
    fg_jwrite_object(&w, "options");
    for (int i = 0; i < q->n_options; i++)
        fg_jwrite_str(&w, q->options[i].name, q->options[i].value);
    fg_jwrite_end_object(&w);
    fg_jwrite_array(&w, "files");
    for (uint64_t i = 0; i < q->n_units; i++) {
        const struct fg_quantize_unit *u = &q->units[i];
        if (!u->done) continue;
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "file", u->file);
        fg_jwrite_uint(&w, "bytes", u->bytes);
        fg_jwrite_array(&w, "matrices");
        for (uint64_t j = u->first; j < u->first + u->n; j++) {
            const struct fg_quantize_log *log = &q->log[j];
            if (!log->done) continue;
            fg_jwrite_object(&w, NULL);
            fg_jwrite_str(&w, "name", q->list.mats[j].name);
            fg_jwrite_num(&w, "weight_snr_db", log->weight_snr_db);
            fg_jwrite_num(&w, "lr_left", log->lr_left);
            if (gptq) write_gptq_log(&w, log);
            fg_jwrite_str(&w, "source_sha256", log->source_sha256);
            fg_jwrite_end_object(&w);
        }
        fg_jwrite_end_array(&w);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    if (gptq) {
        fg_jwrite_int(&w, "walked", q->walked);
        write_mlp_snr(q, &w);
    }
    fg_jwrite_end_object(&w);
    return replace_json(q, PROGRESS, &w, err);
}

static int save_timing(const struct fg_quantize *q, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_num(&w, "seconds", q->info.seconds);
    fg_jwrite_object(&w, "matrices");
    for (uint64_t i = 0; i < q->list.n; i++) {
        if (q->log[i].done && q->log[i].seconds > 0)
            fg_jwrite_num(&w, q->list.mats[i].name, q->log[i].seconds);
    }
    fg_jwrite_end_object(&w);
    fg_jwrite_end_object(&w);
    return replace_json(q, TIMING, &w, err);
}

static int check_options(const struct fg_quantize *q, const struct fg_json *doc,
                         struct json_object *options, struct fg_error *err)
{
    for (int i = 0; i < q->n_options; i++) {
        const char *was = NULL, *name = q->options[i].name;
        int rc = fg_json_str(doc, options, "options.", name, "", &was, NULL, err);
        if (rc) return rc;
        if (strcmp(was, q->options[i].value) == 0) continue;
        rc = fg_fail(err, FG_EINTEGRITY, FG_QUANTIZE_WHAT, doc->file, name,
                     "the options of the run that this directory holds", "now %s, then %s",
                     q->options[i].value, was);
        fg_error_hint(err, "give these options, another directory, or --restart to begin again");
        return rc;
    }
    return 0;
}

static bool file_has(const struct fg_quantize *q, const char *name, uint64_t bytes)
{
    struct stat st;
    char *path = fg_path_join(q->o.output, name);
    bool same =
        path && stat(path, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes;
    free(path);
    return same;
}

// The log of one matrix of a finished file. A number that is null was not finite.
static int read_matrix(struct fg_quantize *q, const struct fg_json *doc, struct json_object *obj,
                       const struct fg_quantize_unit *u, struct fg_error *err)
{
    const char *name = "", *sha = "";
    struct fg_quantize_log l = fg_quantize_log_empty();
    int rc = fg_json_str(doc, obj, "matrices.", "name", "", &name, NULL, err);
    const struct {
        const char *key;
        double *value;
    } numbers[] = {{"weight_snr_db", &l.weight_snr_db},
                   {"lr_left", &l.lr_left},
                   {"rel_err_h", &l.rel_err_h},
                   {"rel_err_h_rtn", &l.rel_err_h_rtn},
                   {"held_snr_db", &l.held_snr_db},
                   {"damp", &l.damp},
                   {"err_h", &l.err_h}};
    for (size_t i = 0; i < FG_COUNT(numbers) && !rc; i++)
        rc = fg_json_f64(doc, obj, "matrices.", numbers[i].key, *numbers[i].value, numbers[i].value,
                         NULL, err);
    if (!rc) rc = fg_json_str(doc, obj, "matrices.", "source_sha256", "", &sha, NULL, err);
    for (uint64_t j = u->first; j < u->first + u->n && !rc; j++) {
        struct fg_quantize_log *log = &q->log[j];
        if (strcmp(q->list.mats[j].name, name) != 0) continue;
        *log = l;
        log->done = true;
        snprintf(log->source_sha256, sizeof log->source_sha256, "%s", sha);
    }
    return rc;
}

// A file counts as finished when it is there with its size and all its matrices are logged.
static int read_file(struct fg_quantize *q, const struct fg_json *doc, struct json_object *obj,
                     struct fg_error *err)
{
    const char *name = "";
    int64_t bytes = 0;
    struct json_object *mats = NULL;
    struct fg_quantize_unit *u = NULL;
    int rc = fg_json_str(doc, obj, "files.", "file", "", &name, NULL, err);
    if (!rc) rc = fg_json_i64(doc, obj, "files.", "bytes", 0, 0, INT64_MAX, &bytes, NULL, err);
    if (!rc) rc = fg_json_arr(doc, obj, "files.", "matrices", &mats, err);
    for (uint64_t i = 0; i < q->n_units; i++) {
        if (strcmp(q->units[i].file, name) == 0) u = &q->units[i];
    }
    if (rc || !u || !file_has(q, u->file, (uint64_t)bytes)) return rc;
    for (size_t i = 0; mats && i < json_object_array_length(mats) && !rc; i++)
        rc = read_matrix(q, doc, json_object_array_get_idx(mats, i), u, err);
    bool whole = true;
    for (uint64_t j = u->first; j < u->first + u->n; j++)
        whole = whole && (q->log[j].done || !q->chosen[j]);
    u->done = !rc && whole;
    u->bytes = (uint64_t)bytes;
    return rc;
}

static void forget(struct fg_quantize *q)
{
    for (uint64_t i = 0; i < q->list.n; i++)
        q->log[i] = (struct fg_quantize_log){0};
    for (uint64_t i = 0; i < q->n_units; i++)
        q->units[i].done = false;
    q->walked = 0;
    q->info.finished = false;
}

static void count_done(struct fg_quantize *q)
{
    uint64_t left = 1 << 20; // reports and texts
    q->info.n_done = 0;
    q->done_bytes = 0;
    for (uint64_t i = 0; i < q->n_units; i++) {
        const struct fg_quantize_unit *u = &q->units[i];
        if (u->done) {
            q->info.n_done++;
            q->done_bytes += u->source_bytes;
        } else {
            left += u->payload + 65536; // header
        }
    }
    q->info.disk_bytes = left;
}

// What a finished job's export.json adds to its journal.
static int read_digests(struct fg_quantize *q, const char *path, struct fg_error *err)
{
    struct fg_json doc = {0};
    const char *digest = "", *head = "";
    int rc = fg_json_open(&doc, path, STATE_BYTES_MAX, err);
    if (!rc) rc = fg_json_str(&doc, doc.root, "", "digest", "", &digest, NULL, err);
    if (!rc) rc = fg_json_str(&doc, doc.root, "", "head_digest", "", &head, NULL, err);
    snprintf(q->digest, sizeof q->digest, "%s", rc ? "" : digest);
    snprintf(q->head_digest, sizeof q->head_digest, "%s", rc ? "" : head);
    fg_json_close(&doc);
    return rc;
}

static int read_walk(struct fg_quantize *q, const struct fg_json *doc, struct fg_error *err)
{
    struct json_object *snr = NULL;
    const int64_t layers = q->source.config->n_layers;
    int rc = fg_json_i64(doc, doc->root, "", "walked", 0, 0, layers, &q->walked, NULL, err);
    if (!rc) rc = fg_json_arr(doc, doc->root, "", "mlp_snr_db", &snr, err);
    for (int64_t i = 0; snr && i < layers && !rc; i++) {
        struct json_object *v = json_object_array_get_idx(snr, (size_t)i);
        q->mlp_snr_db[i] = v ? json_object_get_double(v) : NAN;
    }
    return rc;
}

int fg_quantize_load_state(struct fg_quantize *q, struct fg_error *err)
{
    struct fg_json doc = {0};
    struct json_object *options = NULL, *files = NULL;
    char *path = NULL, *done = NULL;
    const char *schema = "";
    forget(q);
    count_done(q);
    if (!q->o.output) return 0;
    int rc = with_path(&path, q, PROGRESS, err);
    if (!rc) rc = with_path(&done, q, EXPORT, err);
    if (!rc && !q->o.restart && fg_file_exists(path)) {
        rc = fg_json_open(&doc, path, STATE_BYTES_MAX, err);
        if (!rc) rc = fg_json_str(&doc, doc.root, "", "schema", "", &schema, NULL, err);
        if (!rc && strcmp(schema, SCHEMA) != 0)
            rc = fg_fail(err, FG_EINPUT, FG_QUANTIZE_WHAT, path, "schema", SCHEMA, "%s", schema);
        if (!rc) rc = fg_json_obj(&doc, doc.root, "", "options", &options, err);
        if (!rc) rc = check_options(q, &doc, options, err);
        if (!rc) rc = fg_json_arr(&doc, doc.root, "", "files", &files, err);
        for (size_t i = 0; files && i < json_object_array_length(files) && !rc; i++)
            rc = read_file(q, &doc, json_object_array_get_idx(files, i), err);
        if (!rc && q->o.method == FG_QUANTIZE_GPTQ) rc = read_walk(q, &doc, err);
        q->info.finished = !rc && fg_file_exists(done);
        for (uint64_t i = 0; i < q->n_units; i++)
            q->info.finished = q->info.finished && q->units[i].done;
        if (q->info.finished) rc = read_digests(q, done, err);
    }
    fg_json_close(&doc);
    free(path);
    free(done);
    if (!rc) count_done(q);
    return rc;
}

// ---- the directory

// Anything beside .forge and a state directory, which a run killed at its start leaves.
static int has_content(const struct fg_quantize *q, bool *content, struct fg_error *err)
{
    static const char *const ours[] = {".", "..", ".forge", "state"};
    *content = false;
    DIR *d = opendir(q->o.output);
    if (!d) return fg_fail_errno(err, q->o.output, "read", errno);
    for (struct dirent *e; (e = readdir(d));) {
        bool known = false;
        for (size_t i = 0; i < FG_COUNT(ours); i++)
            known = known || strcmp(e->d_name, ours[i]) == 0;
        if (!known) *content = true;
    }
    closedir(d);
    return 0;
}

static bool is_ours(const struct fg_quantize *q, const char *name, size_t n)
{
    static const char *const reports[] = {EXPORT, "progress.json", "timing.json"};
    for (uint64_t i = 0; i < q->n_units; i++) {
        if (strlen(q->units[i].file) == n && strncmp(q->units[i].file, name, n) == 0) return true;
    }
    for (int i = 0; fg_quant_text_name(i); i++) {
        const char *text = fg_quant_text_name(i);
        if (strlen(text) == n && strncmp(text, name, n) == 0) return true;
    }
    for (size_t i = 0; i < FG_COUNT(reports); i++) {
        if (strlen(reports[i]) == n && strncmp(reports[i], name, n) == 0) return true;
    }
    return false;
}

// A file of an export that this job does not write: layer_NN[_mixer].safetensors and the others.
static bool is_export_file(const char *name)
{
    static const char *const others[] = {"lm_head.safetensors", "small.safetensors",
                                         "embed_tokens.safetensors"};
    int64_t layer;
    int used = 0;
    for (size_t i = 0; i < FG_COUNT(others); i++) {
        if (strcmp(name, others[i]) == 0) return true;
    }
    if (sscanf(name, "layer_%" SCNd64 "%n", &layer, &used) != 1) return false;
    return strcmp(name + used, ".safetensors") == 0 ||
           strcmp(name + used, "_mixer.safetensors") == 0;
}

// A matrix or a residual in state/.
static bool is_state_file(const char *name, size_t n)
{
    static const char end[] = ".safetensors";
    const size_t tail = sizeof end - 1;
    if (n <= tail || strncmp(name + n - tail, end, tail) != 0) return false;
    return strncmp(name, "h-", 2) == 0 || strncmp(name, "layers.", 7) == 0 ||
           strncmp(name, "lm_head.", 8) == 0;
}

// Temporary files ".NAME.xxxxxxxx" (struct fg_atomic) of killed runs; with `all` the files too.
static void sweep(const struct fg_quantize *q, const char *dir, bool in_state, bool all)
{
    DIR *d = opendir(dir);
    if (!d) return; // whoever needs the directory says why
    for (struct dirent *e; (e = readdir(d));) {
        const char *dot = strrchr(e->d_name, '.');
        bool temporary =
            e->d_name[0] == '.' && dot > e->d_name && strspn(dot + 1, "0123456789abcdef") == 8 &&
            dot[9] == 0 &&
            (is_ours(q, e->d_name + 1, (size_t)(dot - e->d_name - 1)) ||
             (in_state && is_state_file(e->d_name + 1, (size_t)(dot - e->d_name - 1))));
        bool whole = all && (in_state ? is_state_file(e->d_name, strlen(e->d_name))
                                      : is_ours(q, e->d_name, strlen(e->d_name)) ||
                                            is_export_file(e->d_name));
        if (temporary || whole) unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

static int take_lock(struct fg_quantize *q, struct fg_error *err)
{
    char *path = NULL;
    int rc = with_path(&path, q, ".forge/lock", err);
    if (rc) return rc;
    q->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (q->lock < 0)
        rc = fg_fail_errno(err, path, "open", errno);
    else if (flock(q->lock, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK ? fg_fail(err, FG_EBUSY, FG_QUANTIZE_WHAT, path, "lock",
                                            "no other run on this directory", "one")
                                  : fg_fail_errno(err, path, "lock", errno);
    free(path);
    return rc;
}

int fg_quantize_claim(struct fg_quantize *q, struct fg_error *err)
{
    char *mark = NULL, *state = NULL, *progress = NULL;
    bool content = false;
    int rc = with_path(&mark, q, ".forge", err);
    if (!rc) rc = with_path(&state, q, "state", err);
    if (!rc) rc = with_path(&progress, q, PROGRESS, err);
    if (!rc) rc = fg_dir_make(q->o.output, err);
    if (!rc) rc = has_content(q, &content, err);
    if (!rc && content && !fg_file_exists(progress))
        rc = fg_fail(err, FG_EINPUT, FG_QUANTIZE_WHAT, q->o.output, "--output",
                     "a new or empty directory, or one of the same job", "other content");
    if (!rc) rc = fg_dir_make(mark, err);
    if (!rc) rc = take_lock(q, err);
    if (!rc) rc = fg_dir_make(state, err);
    // A new journal comes after the old files are gone: killed in between, the directory still says
    // whose it is.
    if (!rc) {
        sweep(q, state, true, q->o.restart);
        sweep(q, q->o.output, false, q->o.restart);
        if (q->o.restart) rc = fg_quantize_save_state(q, err);
    }
    free(mark);
    free(state);
    free(progress);
    return rc;
}

// ---- export.json

static void write_model(const struct fg_quantize *q, struct fg_jwrite *w)
{
    const struct fg_config *c = q->source.config;
    fg_jwrite_object(w, "model");
    fg_jwrite_str(w, "architecture", fg_family_name(c->family));
    fg_jwrite_int(w, "layers", c->n_layers);
    fg_jwrite_int(w, "hidden", c->hidden);
    fg_jwrite_int(w, "intermediate", c->intermediate);
    fg_jwrite_int(w, "vocab", c->vocab);
    fg_jwrite_str(w, "source", q->source.gguf ? "gguf" : "safetensors");
    fg_jwrite_str(w, "source_digest", q->source.digest);
    fg_jwrite_end_object(w);
}

static void write_matrix(const struct fg_quantize *q, struct fg_jwrite *w, uint64_t i, bool times)
{
    const struct fg_plan_mat *m = &q->list.mats[i];
    const struct fg_quantize_log *log = &q->log[i];
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "name", m->name);
    fg_jwrite_str(w, "format", fg_qformat_name(m->format));
    fg_jwrite_int(w, "rows", m->rows);
    fg_jwrite_int(w, "cols", m->cols);
    fg_jwrite_str(w, "basis", m->site ? "online" : "plain");
    if (m->site) {
        fg_jwrite_str(w, "site", m->site);
        fg_jwrite_int(w, "block", m->block);
        fg_jwrite_uint(w, "seed", m->seed);
    }
    fg_jwrite_uint(w, "bytes", m->bytes);
    fg_jwrite_num(w, "weight_snr_db", log->weight_snr_db);
    fg_jwrite_int(w, "lr_rank", m->rank);
    if (m->rank) {
        if (m->lr_dtype != FG_LR_F16) fg_jwrite_str(w, "lr_dtype", fg_lr_dtype_name(m->lr_dtype));
        fg_jwrite_uint(w, "lr_bytes", m->factor_bytes);
        fg_jwrite_num(w, "lr_left", log->lr_left);
    }
    if (q->o.method == FG_QUANTIZE_GPTQ) write_gptq_log(w, log);
    fg_jwrite_str(w, "source_sha256", log->source_sha256);
    if (times && log->seconds > 0) fg_jwrite_num(w, "seconds", log->seconds);
    fg_jwrite_end_object(w);
}

static void write_export(const struct fg_quantize *q, struct fg_jwrite *w, bool times)
{
    fg_jwrite_object(w, NULL);
    fg_jwrite_str(w, "schema", "forge.export/1");
    fg_jwrite_str(w, "forge", forge_version());
    fg_jwrite_str(w, "method", q->o.method == FG_QUANTIZE_GPTQ ? "gptq" : "rtn");
    fg_jwrite_str(w, "signs", "splitmix64");
    fg_jwrite_bool(w, "complete", q->info.whole);
    write_model(q, w);
    fg_plan_write(q->plan, w, "plan");
    fg_jwrite_object(w, "options");
    for (int i = 0; i < q->n_options; i++)
        fg_jwrite_str(w, q->options[i].name, q->options[i].value);
    fg_jwrite_end_object(w);
    fg_jwrite_object(w, "bytes");
    fg_jwrite_uint(w, "weights", q->info.weight_bytes);
    fg_jwrite_uint(w, "factors", q->info.factor_bytes);
    fg_jwrite_uint(w, "embed", q->info.embed_bytes);
    fg_jwrite_uint(w, "small", q->info.small_bytes);
    fg_jwrite_end_object(w);
    fg_jwrite_array(w, "matrices");
    for (uint64_t i = 0; i < q->list.n; i++) {
        if (q->log[i].done) write_matrix(q, w, i, times);
    }
    fg_jwrite_end_array(w);
    if (q->o.method == FG_QUANTIZE_GPTQ) write_mlp_snr(q, w);
    fg_jwrite_array(w, "files");
    for (uint64_t i = 0; i < q->n_units; i++) {
        fg_jwrite_object(w, NULL);
        fg_jwrite_str(w, "file", q->units[i].file);
        fg_jwrite_uint(w, "bytes", q->units[i].bytes);
        fg_jwrite_end_object(w);
    }
    fg_jwrite_end_array(w);
    if (q->digest[0]) fg_jwrite_str(w, "digest", q->digest);
    if (q->head_digest[0]) fg_jwrite_str(w, "head_digest", q->head_digest);
    if (times) fg_jwrite_num(w, "seconds", q->info.seconds);
    fg_jwrite_end_object(w);
}

static bool on_digest(void *ctx, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return fg_quantize_tick(ctx, "digest", NULL) == 0;
}

// Opens what was written as any reader would, and takes its digest.
static int take_digest(struct fg_quantize *q, struct fg_error *err)
{
    struct fg_export_options eo = {.needs = q->needs,
                                   .n_needs = q->n_needs,
                                   .kernels = q->o.kernels,
                                   .pool = q->o.pool,
                                   .log = q->o.log};
    struct fg_digest_options d = {
        .pool = q->o.pool, .progress = on_digest, .progress_ctx = q, .release = true};
    struct fg_export *e = NULL;
    struct fg_digest digest;
    int rc = fg_export_open(&e, q->o.output, &eo, err);
    if (rc) return rc;
    const struct fg_qset *set = fg_export_set(e);
    rc = fg_digest_sets(&digest, &set, 1, &d, err);
    if (!rc) {
        memcpy(q->digest, digest.hex, sizeof q->digest);
        memcpy(q->head_digest, digest.head, sizeof q->head_digest);
        fg_digest_free(&digest);
    }
    fg_export_close(e);
    return rc;
}

void fg_quantize_drop_state(const struct fg_quantize *q)
{
    char *state = fg_path_join(q->o.output, "state");
    if (state) sweep(q, state, true, true);
    free(state);
}

int fg_quantize_finish(struct fg_quantize *q, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    int rc = save_timing(q, err);
    if (!rc && q->info.whole) rc = take_digest(q, err);
    if (rc) return rc;
    write_export(q, &w, false);
    rc = replace_json(q, EXPORT, &w, err);
    if (!rc) fg_quantize_drop_state(q);
    return rc;
}

int fg_quantize_report(const struct fg_quantize *q, const char *path, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    write_export(q, &w, true);
    fg_buf_char(&w.buf, '\n');
    int rc = w.buf.failed ? fg_fail_memory(err, FG_QUANTIZE_WHAT, w.buf.len)
                          : fg_file_replace(path, w.buf.data, w.buf.len, err);
    fg_jwrite_free(&w);
    return rc;
}
