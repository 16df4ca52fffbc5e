// train/sensitivity.c
#include "train/sensitivity.h"
#include "train/quantize_impl.h"
#include <stdlib.h>
#include <string.h>

struct measure {
    const struct fg_sensitivity_options *o;
    struct fg_quantize *q;
};

static bool is_wanted(const struct measure *s, const struct fg_plan_mat *m, enum fg_qformat f)
{
    uint64_t bytes;
    return fg_qformat_bytes(f, (uint64_t)m->rows, (uint64_t)m->cols, &bytes) &&
           !(s->o->known && s->o->known(s->o->ctx, m, f));
}

static int measure_format(struct measure *s, const struct fg_plan_mat *m, const float *W,
                          const struct fg_walk_site *site, enum fg_qformat f, struct fg_error *err)
{
    struct fg_plan_mat as = *m;
    struct fg_quantize_result fitted = {.log = fg_quantize_log_empty()};
    struct fg_gptq_stats stats = {0};
    struct fg_sensitivity_result r = {.mat = m, .format = f, .tokens = s->q->calib.tokens};
    struct fg_fitter fitter = {.q = s->q, .m = &as, .W = W, .site = site};
    as.format = f;
    as.rank = 0;
    fitter.fit = fg_quantize_fit_options(s->q, &as);
    int rc = fg_quantize_round(&fitter, W, true, &fitted.fit, &stats, err);
    if (!rc) rc = fg_quantize_held(&fitter, &fitted, &fitted.log.held_snr_db, &r.rel_err_t, err);
    fg_quantize_result_free(&fitted);
    if (rc) return rc;
    r.err_h = stats.error;
    r.rel_err_h = stats.error / stats.signal;
    r.rel_err_h_rtn = stats.error_rtn / stats.signal;
    memcpy(r.calib_sha256, s->q->calib.sha256, sizeof r.calib_sha256);
    return s->o->result(s->o->ctx, &r, err);
}

static int measure_matrix(struct measure *s, const struct fg_plan_mat *m, struct fg_error *err)
{
    struct fg_walk_site site;
    char sha256[FG_SHA256_HEX];
    float *W = NULL;
    bool any = false;
    for (int i = 0; i < s->o->n_formats; i++)
        any = any || is_wanted(s, m, s->o->formats[i]);
    if (!any) return 0;
    const int64_t layer = m->layer < 0 ? s->q->source.config->n_layers : m->layer;
    int rc = fg_quantize_tick(s->q, m->name, err);
    if (!rc) rc = fg_quantize_walk_to(s->q, layer, err);
    if (!rc) rc = fg_quantize_site(s->q, m, &site, err);
    if (!rc) rc = fg_quantize_read(s->q, m, &W, sha256, err);
    for (int i = 0; i < s->o->n_formats && !rc; i++) {
        rc = fg_quantize_tick(s->q, NULL, err);
        if (!rc && is_wanted(s, m, s->o->formats[i]))
            rc = measure_format(s, m, W, &site, s->o->formats[i], err);
    }
    free(W);
    return rc;
}

int fg_sensitivity_run(const struct fg_sensitivity_options *o, struct fg_error *err)
{
    struct measure s = {.o = o};
    struct fg_quantize_options qo = o->quantize;
    qo.method = FG_QUANTIZE_GPTQ;
    qo.output = NULL;
    qo.source_stream = true; // nothing is replaced, and the embedding is the source's
    int rc = fg_quantize_open(&s.q, &qo, err);
    if (rc) return rc;
    rc = fg_quantize_start_walk(s.q, err);
    for (uint64_t u = 0; u < s.q->n_units && !rc; u++) {
        const struct fg_quantize_unit *unit = &s.q->units[u];
        for (uint64_t i = unit->first; i < unit->first + unit->n && !rc; i++) {
            if (s.q->chosen[i]) rc = measure_matrix(&s, &s.q->list.mats[i], err);
        }
        s.q->done_bytes += rc ? 0 : unit->source_bytes;
    }
    fg_quantize_free(s.q);
    return rc;
}
