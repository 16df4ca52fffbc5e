// train/quantize_mats.c: finished matrices of the layer that is being worked on, one safetensors
// file each in state/, so that a job that was stopped fits none of them again (specs: quantization
// 4.5). They are ours alone: an export is made of its layer files.
#include "base/crc32c.h"
#include "base/file.h"
#include "base/size.h"
#include "format/st_file.h"
#include "train/quantize_impl.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHAT "quantize state"
#define SCHEMA "forge.matrix/1"
#define N_NUMBERS 8

int fg_quantize_job_id(const struct fg_quantize *q, char hex[FG_SHA256_HEX], struct fg_error *err)
{
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return fg_fail_memory(err, FG_QUANTIZE_WHAT, 0);
    for (int i = 0; i < q->n_options; i++) {
        fg_sha256_add(h, q->options[i].name, strlen(q->options[i].name) + 1);
        fg_sha256_add(h, q->options[i].value, strlen(q->options[i].value) + 1);
    }
    fg_sha256_end(h, hex);
    return 0;
}

static char *path_of(const struct fg_quantize *q, const struct fg_plan_mat *m)
{
    char name[96];
    snprintf(name, sizeof name, "state/%s.safetensors", m->name);
    return fg_path_join(q->o.output, name);
}

#define N_ARRAYS 6

// The arrays of a result in the order data, lut, scale, lr_a, lr_b, lr_scale; absent ones have no
// bytes.
struct arrays {
    const char *names[N_ARRAYS];
    uint64_t bytes[N_ARRAYS];
    uint64_t rows_of_data;
};

static struct arrays arrays_of(const struct fg_plan_mat *m)
{
    const enum fg_qformat f = m->format;
    const uint64_t rows = (uint64_t)m->rows, cols = (uint64_t)m->cols, rank = (uint64_t)m->rank;
    const uint64_t d = (uint64_t)fg_qformat_rows_per_index(f);
    struct arrays a = {.names = {"data", "lut", "scale", "lr_a", "lr_b", "lr_scale"}};
    uint64_t width = cols; // bytes of a row
    if (fg_qformat_is_lut(f)) width = fg_qformat_row_bytes(f, cols);
    if (fg_qformat_is_kept(f)) width = cols * (f == FG_Q_F32 ? 4 : 2);
    a.bytes[0] = rows / d * width;
    a.bytes[1] = (uint64_t)fg_qformat_entries(f) * d * 2;
    a.bytes[2] = fg_qformat_is_kept(f) ? 0 : rows * 2;
    a.bytes[3] = rows * rank * fg_lr_dtype_bytes(m->lr_dtype);
    a.bytes[4] = cols * rank * fg_lr_dtype_bytes(m->lr_dtype);
    a.bytes[5] = m->lr_dtype == FG_LR_I8 ? rank * sizeof(float) : 0;
    return a;
}

static void *slot(struct fg_quantize_result *r, int i, void *set)
{
    switch (i) {
    case 0: return set ? (r->fit.data = set) : r->fit.data;
    case 1: return set ? (void *)(r->fit.lut = set) : (void *)r->fit.lut;
    case 2: return set ? (void *)(r->fit.scale = set) : (void *)r->fit.scale;
    case 3: return set ? (r->lr_a = set) : r->lr_a;
    case 4: return set ? (r->lr_b = set) : r->lr_b;
    default: return set ? (void *)(r->lr_scale = set) : (void *)r->lr_scale;
    }
}

static double *number_of(struct fg_quantize_log *log, int i)
{
    double *const all[N_NUMBERS] = {&log->weight_snr_db, &log->lr_left,     &log->rel_err_h,
                                    &log->rel_err_h_rtn, &log->held_snr_db, &log->damp,
                                    &log->seconds,       &log->err_h};
    return all[i];
}

int fg_quantize_save_mat(const struct fg_quantize *q, const struct fg_plan_mat *m,
                         const struct fg_quantize_result *r, struct fg_error *err)
{
    const struct arrays a = arrays_of(m);
    struct fg_quantize_result copy = *r;
    struct fg_st_blob blobs[N_ARRAYS];
    char id[FG_SHA256_HEX], numbers[N_NUMBERS * 26] = "", crc[16];
    uint64_t n = 0;
    uint32_t sum = 0;
    int rc = fg_quantize_job_id(q, id, err);
    if (rc) return rc;
    for (int i = 0; i < N_ARRAYS; i++) {
        if (a.bytes[i] == 0) continue;
        const void *data = slot(&copy, i, NULL);
        sum = fg_crc32c(sum, data, a.bytes[i]);
        blobs[n++] = (struct fg_st_blob){
            .name = a.names[i], .dtype = FG_ST_U8, .rank = 1, .shape = {a.bytes[i]}, .data = data};
    }
    for (int i = 0, at = 0; i < N_NUMBERS; i++)
        at +=
            snprintf(numbers + at, sizeof numbers - (size_t)at, "%.17g ", *number_of(&copy.log, i));
    snprintf(crc, sizeof crc, "%08" PRIx32, sum);
    const struct fg_st_pair pairs[] = {{"schema", SCHEMA},
                                       {"id", id},
                                       {"matrix", m->name},
                                       {"log", numbers},
                                       {"source_sha256", r->log.source_sha256},
                                       {"crc32c", crc}};
    const struct fg_st_options o = {.metadata = pairs, .n_metadata = FG_COUNT(pairs)};
    char *path = path_of(q, m);
    rc = path ? fg_st_file_write(path, blobs, n, &o, NULL, err)
              : fg_fail_memory(err, FG_QUANTIZE_WHAT, strlen(m->name));
    free(path);
    return rc;
}

static bool says(const struct fg_st_file *f, const char *key, const char *value)
{
    const char *found = fg_st_file_metadata(f, key);
    return found && strcmp(found, value) == 0;
}

static bool read_numbers(const struct fg_st_file *f, struct fg_quantize_log *log)
{
    const char *text = fg_st_file_metadata(f, "log"),
               *sha = fg_st_file_metadata(f, "source_sha256");
    if (!text || !sha) return false;
    for (int i = 0; i < N_NUMBERS; i++) {
        char *end;
        *number_of(log, i) = strtod(text, &end);
        if (end == text) return false;
        text = end;
    }
    snprintf(log->source_sha256, sizeof log->source_sha256, "%s", sha);
    return true;
}

// False: damaged, or of another job; what is in *r so far is the caller's to free.
static bool read_arrays(const struct fg_st_file *f, const struct fg_plan_mat *m,
                        struct fg_quantize_result *r)
{
    const struct arrays a = arrays_of(m);
    uint32_t sum = 0;
    char crc[16];
    for (int i = 0; i < N_ARRAYS; i++) {
        const struct fg_st_tensor *t = fg_st_file_find(f, a.names[i]);
        if (a.bytes[i] == 0) continue;
        if (!t || t->dtype != FG_ST_U8 || t->bytes != a.bytes[i]) return false;
        void *data = malloc(a.bytes[i]);
        if (!data) return false;
        memcpy(data, t->data, a.bytes[i]);
        slot(r, i, data);
        sum = fg_crc32c(sum, data, a.bytes[i]);
    }
    snprintf(crc, sizeof crc, "%08" PRIx32, sum);
    r->fit.format = m->format;
    r->fit.rows = m->rows;
    r->fit.cols = m->cols;
    r->fit.data_bytes = a.bytes[0];
    return says(f, "crc32c", crc);
}

int fg_quantize_load_mat(const struct fg_quantize *q, const struct fg_plan_mat *m,
                         struct fg_quantize_result *r, bool *found, struct fg_error *err)
{
    struct fg_st_file *f = NULL;
    char id[FG_SHA256_HEX];
    *found = false;
    *r = (struct fg_quantize_result){.log = fg_quantize_log_empty()};
    int rc = fg_quantize_job_id(q, id, err);
    char *path = path_of(q, m);
    if (!rc && !path) rc = fg_fail_memory(err, FG_QUANTIZE_WHAT, strlen(m->name));
    if (!rc && fg_file_exists(path) && fg_st_file_open(&f, WHAT, path, NULL) == 0)
        *found = says(f, "schema", SCHEMA) && says(f, "id", id) && says(f, "matrix", m->name) &&
                 read_numbers(f, &r->log) && read_arrays(f, m, r);
    if (!*found) fg_quantize_result_free(r);
    fg_st_file_close(f);
    free(path);
    return rc;
}

void fg_quantize_drop_mats(const struct fg_quantize *q, int64_t layer)
{
    for (uint64_t i = 0; i < q->list.n; i++) {
        if (q->list.mats[i].layer != layer || !q->chosen[i]) continue;
        char *path = path_of(q, &q->list.mats[i]);
        if (path) unlink(path);
        free(path);
    }
}
