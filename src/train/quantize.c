// train/quantize.c: a quantization job: what there is to do, whether it fits, and doing it.
#include "train/quantize.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/size.h"
#include "model/needs.h"
#include "model/plan_shape.h"
#include "train/quantize_impl.h"
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BASE_BYTES (48ull << 20) // program, tables, threads, journal

// ---- choosing

static void short_name(char *out, size_t cap, const struct fg_plan_mat *m)
{
    if (m->layer < 0)
        snprintf(out, cap, "%s", fg_plan_part_name(m->part));
    else
        snprintf(out, cap, "%" PRId64 ".%s", m->layer, fg_plan_part_name(m->part));
}

static bool is_chosen(const struct fg_quantize *q, const struct fg_plan_mat *m)
{
    char name[48];
    if (q->o.layer_first >= 0 && (m->layer < q->o.layer_first || m->layer > q->o.layer_last))
        return false;
    if (!q->o.only) return true;
    short_name(name, sizeof name, m);
    return fnmatch(q->o.only, name, 0) == 0 || fnmatch(q->o.only, m->name, 0) == 0;
}

static int choose(struct fg_quantize *q, struct fg_error *err)
{
    struct fg_quantize_info *info = &q->info;
    int64_t layers = q->source.config->n_layers;
    char expected[64];
    if (q->o.layer_first >= 0 &&
        (q->o.layer_first > q->o.layer_last || q->o.layer_last >= layers)) {
        snprintf(expected, sizeof expected, "a range in 0-%" PRId64, layers - 1);
        return fg_fail(err, FG_EINPUT, FG_QUANTIZE_WHAT, NULL, "--layers", expected,
                       "%" PRId64 "-%" PRId64, q->o.layer_first, q->o.layer_last);
    }
    for (uint64_t i = 0; i < q->list.n; i++) {
        const struct fg_plan_mat *m = &q->list.mats[i];
        q->chosen[i] = is_chosen(q, m);
        if (!q->chosen[i]) continue;
        info->n_mats++;
        info->source_weights += (uint64_t)m->rows * (uint64_t)m->cols;
        info->weight_bytes += m->bytes;
        info->factor_bytes += m->factor_bytes;
    }
    info->whole = info->n_mats == q->list.n;
    if (info->n_mats > 0) return 0;
    return fg_fail(err, FG_EINPUT, FG_QUANTIZE_WHAT, NULL, "--only",
                   "a pattern of matrices, as \"*.down\", \"3.gate\" or \"head\"",
                   "none matches %s", q->o.only);
}

// ---- files

static bool in_list(const struct fg_quantize *q, const char *name)
{
    for (uint64_t i = 0; i < q->list.n; i++) {
        if (strcmp(q->list.mats[i].name, name) == 0) return true;
    }
    return false;
}

static int list_small(struct fg_quantize *q, struct fg_error *err)
{
    q->small = calloc(q->n_needs + 1, sizeof *q->small);
    if (!q->small) return fg_fail_memory(err, FG_QUANTIZE_WHAT, q->n_needs);
    for (uint64_t i = 0; i < q->n_needs; i++) {
        const struct fg_export_need *need = &q->needs[i];
        struct fg_quant_tensor t;
        if (need->is_mat && in_list(q, need->name)) continue;
        int rc = fg_quant_source_find(&q->source, need->name, need->is_mat, &t, err);
        if (rc) return rc;
        struct fg_quantize_small *s = &q->small[q->n_small++];
        snprintf(s->canonical, sizeof s->canonical, "%s", need->name);
        s->is_mat = need->is_mat;
        q->info.small_bytes += t.rows * t.cols * fg_dtype_bytes(t.dtype);
    }
    return 0;
}

static int source_bytes_of(const struct fg_quantize *q, const char *name, uint64_t *bytes,
                           struct fg_error *err)
{
    struct fg_quant_tensor t;
    int rc = fg_quant_source_find(&q->source, name, true, &t, err);
    *bytes = rc ? 0 : t.rows * t.cols * fg_dtype_bytes(t.dtype);
    return rc;
}

// Appends the unit of matrices [first, first + n) if one of them is chosen.
static int add_unit(struct fg_quantize *q, enum fg_quantize_kind kind, int64_t layer,
                    uint64_t first, uint64_t n, struct fg_error *err)
{
    struct fg_quantize_unit u = {.kind = kind, .layer = layer, .first = first, .n = n};
    uint64_t n_chosen = 0;
    for (uint64_t i = first; i < first + n; i++) {
        const struct fg_plan_mat *m = &q->list.mats[i];
        uint64_t bytes;
        if (!q->chosen[i]) continue;
        n_chosen++;
        int rc = source_bytes_of(q, m->name, &bytes, err);
        if (rc) return rc;
        u.source_bytes += bytes;
        u.payload += m->factor_bytes + (q->o.unpacked && fg_qformat_is_lut(m->format)
                                            ? (uint64_t)m->rows * (uint64_t)m->cols
                                            : m->bytes);
    }
    if (n_chosen == 0) return 0;
    if (kind == FG_UNIT_HEAD)
        snprintf(u.file, sizeof u.file, "lm_head.safetensors");
    else
        snprintf(u.file, sizeof u.file, "layer_%02" PRId64 "%s.safetensors", layer,
                 kind == FG_UNIT_MIXER ? "_mixer" : "");
    q->units[q->n_units++] = u;
    return 0;
}

// What is copied comes first: the values that it refuses are found before hours of fitting.
static int add_copies(struct fg_quantize *q, struct fg_error *err)
{
    q->units[q->n_units++] = (struct fg_quantize_unit){
        .kind = FG_UNIT_SMALL, .file = "small.safetensors", .payload = q->info.small_bytes};
    if (q->list.embed == FG_PLAN_EMBED_HEAD) return 0;
    struct fg_quantize_unit *embed = &q->units[q->n_units++];
    *embed = (struct fg_quantize_unit){
        .kind = FG_UNIT_EMBED, .file = FG_QUANTIZE_EMBED_FILE, .payload = q->list.embed_bytes};
    q->info.embed_bytes = q->list.embed_bytes;
    return source_bytes_of(q, "embed_tokens", &embed->source_bytes, err);
}

// The head, which was added last, to the place before the layers.
static void move_head(struct fg_quantize *q)
{
    const struct fg_quantize_unit head = q->units[q->n_units - 1];
    uint64_t at = q->n_units - 1;
    for (; at > 0 && q->units[at - 1].kind != FG_UNIT_SMALL; at--)
        q->units[at] = q->units[at - 1];
    q->units[at] = head;
}

static int list_units(struct fg_quantize *q, struct fg_error *err)
{
    uint64_t most = 2 * (uint64_t)q->source.config->n_layers + 3, at = 0;
    int rc = 0;
    q->units = calloc(most, sizeof *q->units);
    if (!q->units) return fg_fail_memory(err, FG_QUANTIZE_WHAT, most * sizeof *q->units);
    if (q->info.whole) rc = add_copies(q, err);
    while (at < q->list.n && !rc) {
        const struct fg_plan_mat *m = &q->list.mats[at];
        bool mlp = fg_plan_part_is_mlp(m->part);
        uint64_t n = 1;
        while (at + n < q->list.n && q->list.mats[at + n].layer == m->layer &&
               fg_plan_part_is_mlp(q->list.mats[at + n].part) == mlp)
            n++;
        rc = add_unit(q,
                      m->layer < 0 ? FG_UNIT_HEAD
                      : mlp        ? FG_UNIT_MLP
                                   : FG_UNIT_MIXER,
                      m->layer, at, n, err);
        at += n;
    }
    if (!rc && fg_quantize_head_first(q)) move_head(q);
    // The stream of calibration passes a layer's mixer first.
    for (uint64_t i = 0; i + 1 < q->n_units; i++) {
        struct fg_quantize_unit *u = &q->units[i];
        if (u[0].kind != FG_UNIT_MLP || u[1].kind != FG_UNIT_MIXER || u[0].layer != u[1].layer)
            continue;
        const struct fg_quantize_unit mlp = u[0];
        u[0] = u[1];
        u[1] = mlp;
    }
    return rc;
}

// A layer's matrices in FP32, as the stream of calibration passes through them: of the largest.
static uint64_t replaced_bytes(const struct fg_quantize *q)
{
    uint64_t most = 0, sum = 0;
    for (uint64_t i = 0; i < q->list.n; i++) {
        const struct fg_plan_mat *m = &q->list.mats[i];
        if (m->layer < 0) break;
        if (i == 0 || q->list.mats[i - 1].layer != m->layer) sum = 0;
        sum += 4 * (uint64_t)m->rows * (uint64_t)m->cols;
        if (sum > most) most = sum;
    }
    return most;
}

// The most that a file takes: the matrices that are finished in it, and the one being fitted.
static void estimate_peak(struct fg_quantize *q)
{
    const bool gptq = q->o.method == FG_QUANTIZE_GPTQ;
    uint64_t peak = 0;
    for (uint64_t i = 0; i < q->n_units; i++) {
        const struct fg_quantize_unit *u = &q->units[i];
        uint64_t held = 0;
        q->total_bytes += u->source_bytes;
        for (uint64_t j = u->first; j < u->first + u->n; j++) {
            const struct fg_plan_mat *m = &q->list.mats[j];
            if (!q->chosen[j]) continue;
            held += m->bytes + m->factor_bytes;
            uint64_t now = held + fg_quantize_fit_bytes(q, m);
            if (gptq)
                now += (m->layer < 0 ? 0 : replaced_bytes(q)) +
                       fg_walk_bytes(q->source.config, q->calib.n, q->o.seq, q->calib.n_held,
                                     q->o.bf16_state, q->o.batch, m->cols);
            if (now > peak) peak = now;
        }
        if (q->o.unpacked && u->n > 0 && held + u->payload > peak) peak = held + u->payload;
    }
    q->info.peak_bytes = peak + BASE_BYTES;
    q->info.source_bytes = q->total_bytes;
}

struct fg_quantize_log fg_quantize_log_empty(void)
{
    return (struct fg_quantize_log){.weight_snr_db = INFINITY,
                                    .lr_left = 1,
                                    .err_h = NAN,
                                    .rel_err_h = NAN,
                                    .rel_err_h_rtn = NAN,
                                    .held_snr_db = NAN,
                                    .damp = NAN};
}

// ---- options, as the journal compares them

static void add_option(struct fg_quantize *q, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void add_option(struct fg_quantize *q, const char *name, const char *fmt, ...)
{
    struct fg_quantize_option *o = &q->options[q->n_options++];
    va_list ap;
    o->name = name;
    va_start(ap, fmt);
    vsnprintf(o->value, sizeof o->value, fmt, ap);
    va_end(ap);
}

// Plans are compared by what they mean for this model, and named by where they come from.
static int plan_digest(const struct fg_quantize *q, char hex[FG_SHA256_HEX], struct fg_error *err)
{
    struct fg_buf text = {0};
    for (uint64_t i = 0; i < q->list.n; i++) {
        const struct fg_plan_mat *m = &q->list.mats[i];
        fg_buf_printf(&text, "%s %s %s %" PRId64 " %" PRIu64 " %" PRId64 "%s\n", m->name,
                      fg_qformat_name(m->format), m->site ? m->site : "plain", m->block, m->seed,
                      m->rank, m->lr_dtype == FG_LR_I8 ? " i8" : "");
    }
    if (q->list.embed != FG_PLAN_EMBED_F16)
        fg_buf_printf(&text, "embed %s\n", fg_plan_embed_name(q->list.embed));
    int rc = text.failed || !fg_sha256_hex(text.data, text.len, hex)
                 ? fg_fail_memory(err, FG_QUANTIZE_WHAT, text.len)
                 : 0;
    fg_buf_free(&text);
    return rc;
}

static int note_options(struct fg_quantize *q, struct fg_error *err)
{
    const struct fg_quantize_options *o = &q->o;
    static const char *const fits[] = {"plain", "diag", "full"};
    const bool gptq = o->method == FG_QUANTIZE_GPTQ;
    char hex[FG_SHA256_HEX];
    int rc = plan_digest(q, hex, err);
    if (rc) return rc;
    add_option(q, "model", "%s", q->source.digest);
    add_option(q, "method", "%s", gptq ? "gptq" : "rtn");
    add_option(q, "plan", "%s", hex);
    add_option(q, "row-weight", "%d", o->row_weight);
    add_option(q, "lr-iters", "%d", o->lr_iters);
    add_option(q, "lr-split", "%s", o->lr_balanced ? "balanced" : "a");
    if (gptq) {
        add_option(q, "calib", "%s", q->calib.sha256);
        add_option(q, "seq", "%" PRId64, o->seq);
        add_option(q, "holdout", "%" PRId64, o->holdout);
        add_option(q, "damp", "%.17g", o->damp);
        add_option(q, "order", "%s", o->order == FG_GPTQ_ORDER_ACT ? "act" : "none");
        add_option(q, "aw", "%d", o->aw);
        add_option(q, "lr-fit", "%s", fits[o->lr_fit]);
        add_option(q, "refine", "%d", o->refine);
        add_option(q, "state-dtype", "%s", o->bf16_state ? "bf16" : "f32");
        if (o->source_stream) add_option(q, "stream", "source");
    }
    add_option(q, "kmeans-seed", "%" PRIu64, o->kmeans_seed);
    if (o->layer_first >= 0)
        add_option(q, "layers", "%" PRId64 "-%" PRId64, o->layer_first, o->layer_last);
    else
        add_option(q, "layers", "all");
    add_option(q, "only", "%s", o->only ? o->only : "*");
    add_option(q, "unpacked", "%d", o->unpacked);
    return 0;
}

// ---- the job

int fg_quantize_open(struct fg_quantize **out, const struct fg_quantize_options *o,
                     struct fg_error *err)
{
    *out = NULL;
    struct fg_quantize *q = calloc(1, sizeof *q);
    if (!q) return fg_fail_memory(err, FG_QUANTIZE_WHAT, sizeof *q);
    q->o = *o;
    q->lock = -1;
    fg_arena_init(&q->arena, 0);
    struct fg_export_need *needs = NULL;
    int rc = fg_quant_source_open(&q->source, o->model, o->log, err);
    if (!rc) {
        struct fg_plan_shape shape = fg_plan_shape_of(q->source.config);
        rc = fg_plan_resolve(&q->list, o->plan, &shape, err);
        if (!rc) rc = fg_plan_specialize(&q->plan, o->plan, &shape, err);
    }
    if (!rc) {
        q->chosen = calloc(q->list.n, sizeof *q->chosen);
        q->log = calloc(q->list.n, sizeof *q->log);
        if (!q->chosen || !q->log) rc = fg_fail_memory(err, FG_QUANTIZE_WHAT, q->list.n);
    }
    if (!rc) rc = fg_model_needs(&needs, &q->n_needs, q->source.config, &q->arena, err);
    q->needs = needs;
    if (!rc) rc = choose(q, err);
    if (!rc && q->info.whole) rc = list_small(q, err);
    if (!rc) rc = list_units(q, err);
    if (!rc && o->method == FG_QUANTIZE_GPTQ) rc = fg_quantize_open_calib(q, err);
    if (!rc) rc = note_options(q, err);
    if (!rc) {
        estimate_peak(q);
        q->info.list = &q->list;
        q->info.n_files = q->n_units;
        snprintf(q->info.model_digest, sizeof q->info.model_digest, "%s", q->source.digest);
        rc = fg_quantize_load_state(q, err);
    }
    if (rc) {
        fg_quantize_free(q);
        return rc;
    }
    *out = q;
    return 0;
}

void fg_quantize_free(struct fg_quantize *q)
{
    if (!q) return;
    if (q->lock >= 0) close(q->lock);
    fg_quantize_close_walk(q);
    fg_quant_source_close(&q->source);
    fg_plan_list_free(&q->list);
    fg_plan_free(q->plan);
    fg_arena_free(&q->arena);
    free(q->chosen);
    free(q->log);
    free(q->units);
    free(q->small);
    free(q);
}

const struct fg_quantize_info *fg_quantize_info(const struct fg_quantize *q)
{
    return &q->info;
}

int fg_quantize_check(const struct fg_quantize *q, struct fg_error *err)
{
    struct fg_machine machine;
    char expected[64], found[32];
    if (q->info.finished) return 0;
    uint64_t have = q->o.memory_limit;
    if (!have) {
        fg_machine_probe(&machine);
        have = fg_machine_free_bytes(&machine);
    }
    if (have && q->info.peak_bytes > have) {
        fg_format_bytes(expected, sizeof expected, q->info.peak_bytes);
        fg_format_bytes(found, sizeof found, have);
        return fg_fail(err, FG_ERESOURCE, FG_QUANTIZE_WHAT, NULL, "memory", expected, "%s", found);
    }
    uint64_t disk = fg_disk_free_bytes(q->o.output);
    if (disk && q->info.disk_bytes > disk) {
        fg_format_bytes(expected, sizeof expected, q->info.disk_bytes);
        fg_format_bytes(found, sizeof found, disk);
        return fg_fail(err, FG_ERESOURCE, FG_QUANTIZE_WHAT, q->o.output, "disk space", expected,
                       "%s", found);
    }
    return 0;
}

int fg_quantize_tick(struct fg_quantize *q, const char *item, struct fg_error *err)
{
    if (!q->o.progress || q->o.progress(q->o.ctx, q->done_bytes, q->total_bytes, item)) return 0;
    return fg_fail(err, FG_EINTERRUPTED, FG_QUANTIZE_WHAT, q->o.output, NULL, NULL,
                   "stopped; the same command goes on from here");
}

// Unit i of those that are left; behind a layer's last one the stream leaves it.
static int run_unit(struct fg_quantize *q, uint64_t i, struct fg_error *err)
{
    struct fg_quantize_unit *u = &q->units[i];
    const bool in_layer = u->kind == FG_UNIT_MLP || u->kind == FG_UNIT_MIXER;
    int rc = fg_quantize_ready_walk(q, u, err);
    if (!rc && u->done && q->walk && in_layer && u->layer >= q->walked)
        rc = fg_quantize_walk_restore(q, u, &u->done, err);
    if (!rc && !u->done) {
        const uint64_t before = q->done_bytes;
        rc = fg_quantize_write_unit(q, u, err);
        q->done_bytes = before + (rc ? 0 : u->source_bytes);
        if (rc) return rc;
        q->info.n_done++;
        rc = fg_quantize_save_state(q, err);
    }
    if (u->kind == FG_UNIT_HEAD && fg_quantize_head_first(q)) fg_quantize_end_walk(q);
    const bool last = i + 1 == q->n_units || u[1].layer != u->layer;
    if (!rc && q->walk && in_layer && last)
        rc = fg_quantize_walk_leave(q, u->layer, i + 1 < q->n_units, err);
    return rc;
}

int fg_quantize_run(struct fg_quantize *q, struct fg_error *err)
{
    double start = fg_clock();
    int rc = fg_quantize_claim(q, err);
    // Another run may have gone on between opening and the lock.
    if (!rc && !q->o.restart) rc = fg_quantize_load_state(q, err);
    if (!rc && q->info.finished) fg_quantize_drop_state(q); // killed behind export.json
    if (rc || q->info.finished) return rc;
    rc = fg_quantize_save_state(q, err);
    if (!rc) rc = fg_quantize_write_texts(q, err);
    for (uint64_t i = 0; i < q->n_units && !rc; i++)
        rc = run_unit(q, i, err);
    q->info.seconds = fg_clock() - start;
    if (!rc) rc = fg_quantize_finish(q, err);
    q->info.seconds = fg_clock() - start;
    q->info.finished = rc == 0;
    return rc;
}

bool fg_quantize_result(const struct fg_quantize *q, uint64_t i, struct fg_quantize_mat *out)
{
    if (i >= q->list.n || !q->log[i].done) return false;
    const struct fg_quantize_log *log = &q->log[i];
    *out = (struct fg_quantize_mat){.weight_snr_db = log->weight_snr_db,
                                    .lr_left = log->lr_left,
                                    .err_h = log->err_h,
                                    .rel_err_h = log->rel_err_h,
                                    .rel_err_h_rtn = log->rel_err_h_rtn,
                                    .held_snr_db = log->held_snr_db,
                                    .damp = log->damp,
                                    .seconds = log->seconds};
    memcpy(out->source_sha256, log->source_sha256, sizeof out->source_sha256);
    return true;
}
