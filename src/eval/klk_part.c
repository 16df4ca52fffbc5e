// eval/klk_part.c: a finished sequence as a file of its own, until all are: what is there has been
// whole when it got its name.
#include "base/file.h"
#include "base/num.h"
#include "base/size.h"
#include "eval/klk_impl.h"
#include "format/st_file.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "forge.kl-part/1"
#define PARTS 5

int fg_klk_part_new(struct fg_klk_part *p, int64_t n_max, int64_t k, struct fg_error *err)
{
    uint64_t n = (uint64_t)n_max, bytes;
    *p = (struct fg_klk_part){0};
    if (!fg_mul(&bytes, n, (uint64_t)k) || !fg_mul(&bytes, bytes, sizeof *p->q))
        return fg_fail_memory(err, FG_KLK_WHAT, UINT64_MAX);
    p->kl = malloc(n * sizeof *p->kl);
    p->nll = malloc(n * sizeof *p->nll);
    p->ref_nll = malloc(n * sizeof *p->ref_nll);
    p->agree = malloc(n);
    p->q = k ? malloc(bytes) : NULL;
    if (p->kl && p->nll && p->ref_nll && p->agree && (p->q || !k)) return 0;
    fg_klk_part_free(p);
    return fg_fail_memory(err, FG_KLK_WHAT, bytes + n * 25);
}

void fg_klk_part_free(struct fg_klk_part *p)
{
    free(p->kl);
    free(p->nll);
    free(p->ref_nll);
    free(p->agree);
    free(p->q);
    *p = (struct fg_klk_part){0};
}

static char *path_of(const struct fg_klk_run *r, int64_t i)
{
    char name[48];
    snprintf(name, sizeof name, "state/part-%06" PRId64 ".safetensors", i);
    return fg_path_join(r->job->out, name);
}

// The arrays of a part of p->n positions.
static int blobs_of(const struct fg_klk_run *r, const struct fg_klk_part *p,
                    struct fg_st_blob blobs[PARTS])
{
    uint64_t n = (uint64_t)p->n;
    const struct fg_st_blob all[PARTS] = {
        {.name = "kl", .dtype = FG_ST_F64, .rank = 1, .shape = {n}, .data = p->kl},
        {.name = "nll", .dtype = FG_ST_F64, .rank = 1, .shape = {n}, .data = p->nll},
        {.name = "ref_nll", .dtype = FG_ST_F64, .rank = 1, .shape = {n}, .data = p->ref_nll},
        {.name = "agree", .dtype = FG_ST_U8, .rank = 1, .shape = {n}, .data = p->agree},
        {.name = "q", .dtype = FG_ST_F32, .rank = 2, .shape = {n, (uint64_t)r->k}, .data = p->q},
    };
    memcpy(blobs, all, sizeof all);
    return r->k ? PARTS : PARTS - 1;
}

int fg_klk_part_save(const struct fg_klk_run *r, int64_t i, const struct fg_klk_part *p,
                     struct fg_error *err)
{
    struct fg_st_blob blobs[PARTS];
    char number[24], seconds[40];
    snprintf(number, sizeof number, "%" PRId64, i);
    const struct fg_st_pair meta[] = {
        {"schema", SCHEMA},
        {"job", r->job_hex},
        {"sequence", number},
        {"seconds", fg_format_f64(seconds, sizeof seconds, p->seconds)}};
    const struct fg_st_options o = {.metadata = meta, .n_metadata = FG_COUNT(meta)};
    char *path = path_of(r, i);
    if (!path) return fg_fail_memory(err, FG_KLK_WHAT, 0);
    int n = blobs_of(r, p, blobs);
    int rc = fg_st_file_write(path, blobs, (uint64_t)n, &o, NULL, err);
    free(path);
    return rc;
}

static bool all_finite(const double *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) return false;
    }
    return true;
}

static bool metadata_is(const struct fg_st_file *f, const char *key, const char *value)
{
    const char *found = fg_st_file_metadata(f, key);
    return found && strcmp(found, value) == 0;
}

// p holds arrays for p->n positions.
static bool take(const struct fg_klk_run *r, const struct fg_st_file *f, int64_t i,
                 struct fg_klk_part *p)
{
    struct fg_st_blob blobs[PARTS];
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, i);
    const char *seconds = fg_st_file_metadata(f, "seconds");
    if (!metadata_is(f, "schema", SCHEMA) || !metadata_is(f, "job", r->job_hex) ||
        !metadata_is(f, "sequence", number) || !seconds || !fg_parse_f64(seconds, &p->seconds))
        return false;
    int n = blobs_of(r, p, blobs);
    void *const to[PARTS] = {p->kl, p->nll, p->ref_nll, p->agree, p->q};
    for (int b = 0; b < n; b++) {
        const struct fg_st_tensor *t = fg_st_file_find(f, blobs[b].name);
        if (!t || t->dtype != blobs[b].dtype || t->rank != blobs[b].rank ||
            memcmp(t->shape, blobs[b].shape, sizeof t->shape) != 0)
            return false;
        memcpy(to[b], t->data, t->bytes);
    }
    return all_finite(p->kl, p->n) && all_finite(p->nll, p->n) && all_finite(p->ref_nll, p->n);
}

int fg_klk_part_load(const struct fg_klk_run *r, int64_t i, struct fg_klk_part *p, bool *found,
                     struct fg_error *err)
{
    struct fg_st_file *f = NULL;
    char *path = path_of(r, i);
    *found = false;
    if (!path) return fg_fail_memory(err, FG_KLK_WHAT, 0);
    int rc = fg_file_exists(path) ? fg_st_file_open(&f, FG_KLK_WHAT, path, err) : 0;
    if (rc == FG_EINPUT) rc = 0; // damaged: made again
    *found = f && take(r, f, i, p);
    fg_st_file_close(f);
    free(path);
    return rc;
}

void fg_klk_clean(const struct fg_klk_run *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        char *path = path_of(r, i);
        if (path) unlink(path);
        free(path);
    }
}
