// eval/tensors.c: one view over safetensors, GGUF and npy.
#include "eval/tensors.h"
#include "base/file.h"
#include "base/num.h"
#include "format/gguf.h"
#include "format/gguf_dequant.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_ELEMENTS 4096 // a multiple of every GGUF block length

struct fg_tensors {
    enum fg_tensors_kind kind;
    struct fg_checkpoint *checkpoint;
    struct fg_gguf *gguf;
    struct fg_npy npy;
};

const char *fg_tensors_kind_name(enum fg_tensors_kind kind)
{
    static const char *const names[] = {"safetensors", "gguf", "npy"};
    return names[kind];
}

// By the first bytes. A safetensors file starts with a length and a JSON object.
static int detect(const char *path, enum fg_tensors_kind *kind, struct fg_error *err)
{
    struct fg_map map;
    *kind = FG_TENSORS_SAFETENSORS;
    if (fg_dir_exists(path)) return 0;
    int rc = fg_map_open(&map, path, err);
    if (rc) return rc;
    bool known = true;
    if (map.bytes >= 4 && memcmp(map.data, "GGUF", 4) == 0) {
        *kind = FG_TENSORS_GGUF;
    } else if (map.bytes >= 6 && memcmp(map.data, "\x93NUMPY", 6) == 0) {
        *kind = FG_TENSORS_NPY;
    } else {
        const char *dot = strrchr(path, '.');
        bool named = dot && strcmp(dot, ".safetensors") == 0; // damaged, but meant as one
        known = named || (map.bytes >= 9 && map.data[8] == '{');
    }
    if (!known) {
        char found[40];
        fg_escape(found, sizeof found, (const char *)map.data, map.bytes < 8 ? map.bytes : 8);
        rc = fg_fail(err, FG_EINPUT, "inspect", path, "byte 0", "safetensors, GGUF or npy", "%s",
                     map.bytes ? found : "an empty file");
    }
    fg_map_close(&map);
    return rc;
}

int fg_tensors_open(struct fg_tensors **out, const char *path, struct fg_error *err)
{
    *out = NULL;
    enum fg_tensors_kind kind;
    int rc = detect(path, &kind, err);
    if (rc) return rc;
    struct fg_tensors *t = calloc(1, sizeof *t);
    if (!t) return fg_fail_memory(err, "inspect", sizeof *t);
    t->kind = kind;
    switch (kind) {
    case FG_TENSORS_SAFETENSORS: rc = fg_checkpoint_open(&t->checkpoint, path, err); break;
    case FG_TENSORS_GGUF: rc = fg_gguf_open(&t->gguf, path, err); break;
    case FG_TENSORS_NPY: rc = fg_npy_open(&t->npy, path, err); break;
    }
    if (rc) {
        fg_tensors_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

void fg_tensors_close(struct fg_tensors *t)
{
    if (!t) return;
    fg_checkpoint_close(t->checkpoint);
    fg_gguf_close(t->gguf);
    fg_npy_close(&t->npy);
    free(t);
}

enum fg_tensors_kind fg_tensors_kind(const struct fg_tensors *t)
{
    return t->kind;
}

const struct fg_checkpoint *fg_tensors_checkpoint(const struct fg_tensors *t)
{
    return t->checkpoint;
}

const struct fg_gguf *fg_tensors_gguf(const struct fg_tensors *t)
{
    return t->gguf;
}

uint64_t fg_tensors_count(const struct fg_tensors *t)
{
    switch (t->kind) {
    case FG_TENSORS_SAFETENSORS: return fg_checkpoint_count(t->checkpoint);
    case FG_TENSORS_GGUF: return fg_gguf_n_tensors(t->gguf);
    case FG_TENSORS_NPY: break;
    }
    return 1;
}

static struct fg_tensor_view of_safetensors(const struct fg_st_tensor *s)
{
    struct fg_tensor_view v = {.name = s->name,
                               .dtype = fg_st_dtype_name(s->dtype),
                               .rank = s->rank,
                               .n = s->bytes / fg_st_dtype_bytes(s->dtype),
                               .data = s->data,
                               .bytes = s->bytes,
                               .file = s->file};
    memcpy(v.shape, s->shape, sizeof v.shape);
    return v;
}

static struct fg_tensor_view of_gguf(const struct fg_gguf *g, const struct fg_gguf_tensor *s)
{
    struct fg_tensor_view v = {.name = s->name,
                               .dtype = fg_gguf_type_name(s->type),
                               .rank = s->n_dims,
                               .n = s->n,
                               .data = s->data,
                               .bytes = s->bytes,
                               .file = fg_gguf_path(g)};
    for (int i = 0; i < s->n_dims; i++)
        v.shape[i] = s->extent[s->n_dims - 1 - i];
    return v;
}

static struct fg_tensor_view of_npy(const struct fg_npy *s)
{
    struct fg_tensor_view v = {.name = "array",
                               .dtype = fg_npy_dtype_name(s->dtype),
                               .rank = s->rank,
                               .n = s->n,
                               .data = s->data,
                               .bytes = s->n * fg_npy_dtype_bytes(s->dtype),
                               .file = s->map.path};
    memcpy(v.shape, s->shape, sizeof v.shape);
    return v;
}

struct fg_tensor_view fg_tensors_at(const struct fg_tensors *t, uint64_t i)
{
    struct fg_tensor_view v =
        t->kind == FG_TENSORS_SAFETENSORS ? of_safetensors(fg_checkpoint_at(t->checkpoint, i))
        : t->kind == FG_TENSORS_GGUF      ? of_gguf(t->gguf, fg_gguf_tensor_at(t->gguf, i))
                                          : of_npy(&t->npy);
    v.at = i;
    return v;
}

bool fg_tensors_find(const struct fg_tensors *t, const char *name, struct fg_tensor_view *out)
{
    for (uint64_t i = 0; i < fg_tensors_count(t); i++) {
        *out = fg_tensors_at(t, i);
        if (strcmp(out->name, name) == 0) return true;
    }
    return false;
}

// ---- values

enum number { BOOL, U8, I8, U16, I16, U32, I32, U64, I64, F8_E4M3, F8_E5M2, F16, BF16, F32, F64 };

static enum number number_of_st(enum fg_st_dtype d)
{
    static const enum number map[FG_ST_N_DTYPES] = {
        [FG_ST_BOOL] = BOOL, [FG_ST_U8] = U8,           [FG_ST_I8] = I8,
        [FG_ST_I16] = I16,   [FG_ST_U16] = U16,         [FG_ST_I32] = I32,
        [FG_ST_U32] = U32,   [FG_ST_I64] = I64,         [FG_ST_U64] = U64,
        [FG_ST_F16] = F16,   [FG_ST_BF16] = BF16,       [FG_ST_F32] = F32,
        [FG_ST_F64] = F64,   [FG_ST_F8_E4M3] = F8_E4M3, [FG_ST_F8_E5M2] = F8_E5M2,
    };
    return map[d];
}

static enum number number_of_npy(enum fg_npy_dtype d)
{
    static const enum number map[FG_NPY_N_DTYPES] = {
        [FG_NPY_BOOL] = BOOL, [FG_NPY_I8] = I8,   [FG_NPY_U8] = U8,   [FG_NPY_I16] = I16,
        [FG_NPY_U16] = U16,   [FG_NPY_I32] = I32, [FG_NPY_U32] = U32, [FG_NPY_I64] = I64,
        [FG_NPY_U64] = U64,   [FG_NPY_F16] = F16, [FG_NPY_F32] = F32, [FG_NPY_F64] = F64,
    };
    return map[d];
}

// One little-endian number of `bytes` bytes, at any alignment.
static double number_at(const uint8_t *p, enum number type, uint64_t bytes)
{
    uint64_t u = 0;
    memcpy(&u, p, bytes);
    double d;
    switch (type) {
    case BOOL:
    case U8:
    case U16:
    case U32:
    case U64: return (double)u;
    case I8: return (int8_t)u;
    case I16: return (int16_t)u;
    case I32: return (int32_t)u;
    case I64: return (double)(int64_t)u;
    case F8_E4M3: return fg_f8e4m3_to_f32((uint8_t)u);
    case F8_E5M2: return fg_f16_to_f32((uint16_t)(u << 8)); // the upper half of a binary16
    case F16: return fg_f16_to_f32((uint16_t)u);
    case BF16: return fg_bf16_to_f32((uint16_t)u);
    case F32: return fg_f32_of_bits((uint32_t)u);
    case F64: break;
    }
    memcpy(&d, &u, sizeof d);
    return d;
}

// Whole blocks around [from, from + n) are decoded; n <= BLOCK_ELEMENTS.
static int read_blocks(uint32_t type, const struct fg_tensor_view *v, uint64_t from, uint64_t n,
                       double *out, struct fg_error *err)
{
    uint64_t weights, bytes;
    if (!fg_gguf_can_dequant(type) || !fg_gguf_type_block(type, &weights, &bytes))
        return fg_fail(err, FG_EUNSUPPORTED, "tensor", v->file, v->name, "a type with a decoder",
                       "%s", v->dtype);
    uint64_t first = from / weights, last = (from + n + weights - 1) / weights;
    float *values = malloc((last - first) * weights * sizeof *values);
    if (!values) return fg_fail_memory(err, "tensor", (last - first) * weights * sizeof *values);
    fg_gguf_dequant_row(type, v->data + first * bytes, values, (last - first) * weights);
    for (uint64_t i = 0; i < n; i++)
        out[i] = values[from - first * weights + i];
    free(values);
    return 0;
}

int fg_tensors_read(const struct fg_tensors *t, const struct fg_tensor_view *v, uint64_t from,
                    uint64_t n, double *out, struct fg_error *err)
{
    if (t->kind == FG_TENSORS_GGUF) {
        uint32_t type = fg_gguf_tensor_at(t->gguf, v->at)->type;
        int rc = 0;
        for (uint64_t i = 0; i < n && rc == 0; i += BLOCK_ELEMENTS) {
            uint64_t some = n - i < BLOCK_ELEMENTS ? n - i : BLOCK_ELEMENTS;
            rc = read_blocks(type, v, from + i, some, out + i, err);
        }
        return rc;
    }
    enum number type = t->kind == FG_TENSORS_NPY
                           ? number_of_npy(t->npy.dtype)
                           : number_of_st(fg_checkpoint_at(t->checkpoint, v->at)->dtype);
    uint64_t bytes = v->n ? v->bytes / v->n : 0;
    for (uint64_t i = 0; i < n; i++)
        out[i] = number_at(v->data + (from + i) * bytes, type, bytes);
    return 0;
}

int fg_tensors_stats(const struct fg_tensors *t, const struct fg_tensor_view *v,
                     struct fg_tensor_stats *out, struct fg_error *err)
{
    *out = (struct fg_tensor_stats){0};
    double *values = malloc(BLOCK_ELEMENTS * sizeof *values);
    if (!values) return fg_fail_memory(err, "tensor", BLOCK_ELEMENTS * sizeof *values);
    double mean = 0, squares = 0; // Welford's running mean and sum of squared deviations
    uint64_t finite = 0;
    int rc = 0;
    for (uint64_t i = 0; i < v->n && rc == 0; i += BLOCK_ELEMENTS) {
        uint64_t n = v->n - i < BLOCK_ELEMENTS ? v->n - i : BLOCK_ELEMENTS;
        rc = fg_tensors_read(t, v, i, n, values, err);
        for (uint64_t j = 0; j < n && rc == 0; j++) {
            double x = values[j];
            out->n_nan += isnan(x) != 0;
            out->n_inf += isinf(x) != 0;
            out->n_zero += x == 0;
            if (!isfinite(x)) continue;
            if (finite == 0 || x < out->min) out->min = x;
            if (finite == 0 || x > out->max) out->max = x;
            finite++;
            double delta = x - mean;
            mean += delta / (double)finite;
            squares += delta * (x - mean);
        }
    }
    free(values);
    out->mean = mean;
    out->std = finite ? sqrt(squares / (double)finite) : 0;
    return rc;
}

bool fg_tensor_matches(const char *pattern, const char *name)
{
    for (const char *at = name; at; at = strchr(at, '.')) {
        if (at != name) at++;
        if (fnmatch(pattern, at, 0) == 0) return true;
    }
    return false;
}
