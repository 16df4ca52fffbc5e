// model/rope.c: the four frequency rules and the table.
#include "model/rope.h"
#include "base/json.h"
#include "base/num.h"
#include "base/size.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct source {
    const struct fg_json *doc;
    struct json_object *obj; // rope_parameters or rope_scaling; NULL: none
    struct json_object *text;
    char where[64];
    const char *text_where;
    struct fg_error *err;
};

static int bad(const struct source *s, const char *key, const char *expected, double found)
{
    char field[128], text[32];
    snprintf(field, sizeof field, "%s%s", s->obj ? s->where : s->text_where, key);
    return fg_fail(s->err, FG_EINPUT, "config", s->doc->file, field, expected, "%s",
                   fg_format_f64(text, sizeof text, found));
}

// A number of the rope object that has no place elsewhere.
static int number(const struct source *s, const char *key, double def, double *out, bool *given)
{
    *out = def;
    if (given) *given = false;
    if (!s->obj) return 0;
    return fg_json_f64(s->doc, s->obj, s->where, key, def, out, given, s->err);
}

// A number that may stand in the rope object, in the text config, or in both if equal.
static int number_of_either(const struct source *s, const char *key, double def, double *out)
{
    double in_text;
    bool given = false, text_given;
    int rc = fg_json_f64(s->doc, s->text, s->text_where, key, def, &in_text, &text_given, s->err);
    if (rc == 0) rc = number(s, key, in_text, out, &given);
    if (rc == 0 && given && text_given && in_text != *out)
        return bad(s, key, "the same value in both places", in_text);
    return rc;
}

// Context of the unscaled model. Beside the rope object it wins over the value inside, as in the
// reference.
static int original_positions(const struct fg_config *cfg, const struct source *s, double *out)
{
    const char *key = "original_max_position_embeddings";
    bool given;
    int rc = fg_json_f64(s->doc, s->text, s->text_where, key, 0, out, &given, s->err);
    if (rc == 0 && !given) rc = number(s, key, (double)cfg->max_positions, out, NULL);
    if (rc == 0 && !(*out >= 1)) rc = bad(s, key, "at least 1", *out);
    return rc;
}

// yarn (section 6): low frequencies are divided by the factor, high ones kept, with a ramp between.
static int yarn(struct fg_config *cfg, const struct source *s)
{
    double factor, original, beta_fast, beta_slow, attention;
    bool has_attention, truncate;
    int rc = number(s, "factor", 1, &factor, NULL);
    if (rc == 0) rc = original_positions(cfg, s, &original);
    if (rc == 0) rc = number(s, "beta_fast", 32, &beta_fast, NULL);
    if (rc == 0) rc = number(s, "beta_slow", 1, &beta_slow, NULL);
    if (rc == 0) rc = number(s, "attention_factor", 0, &attention, &has_attention);
    if (rc == 0)
        rc = fg_json_bool(s->doc, s->obj, s->where, "truncate", true, &truncate, NULL, s->err);
    if (rc) return rc;
    if (!(factor >= 1)) return bad(s, "factor", "at least 1", factor);
    if (!(beta_fast > 0)) return bad(s, "beta_fast", "above 0", beta_fast);
    if (!(beta_slow > 0)) return bad(s, "beta_slow", "above 0", beta_slow);
    // The two variants of the attention factor that some models carry are not of these families.
    if (fg_json_has(s->obj, "mscale") || fg_json_has(s->obj, "mscale_all_dim"))
        return fg_fail(s->err, FG_EINPUT, "config", s->doc->file, "rope mscale", "none", "a value");

    double rot = (double)cfg->rot, two_pi = 2 * M_PI, ln_base = log(cfg->rope_theta);
    double lo = rot * log(original / (beta_fast * two_pi)) / (2 * ln_base);
    double hi = rot * log(original / (beta_slow * two_pi)) / (2 * ln_base);
    if (truncate) {
        lo = floor(lo);
        hi = ceil(hi);
    }
    if (lo < 0) lo = 0;
    if (hi > rot - 1) hi = rot - 1;
    if (lo == hi) hi += 0.001;
    for (int64_t i = 0; i < cfg->rot / 2; i++) {
        double ramp = ((double)i - lo) / (hi - lo);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        double w = cfg->inv_freq[i];
        cfg->inv_freq[i] = (float)(w * (1 - ramp) + w / factor * ramp);
    }
    cfg->rope_scale = (float)(has_attention ? attention : factor > 1 ? 0.1 * log(factor) + 1 : 1);
    return 0;
}

static int llama3(struct fg_config *cfg, const struct source *s)
{
    double factor, low, high, original;
    int rc = number(s, "factor", 0, &factor, NULL);
    if (rc == 0) rc = number(s, "low_freq_factor", 1, &low, NULL);
    if (rc == 0) rc = number(s, "high_freq_factor", 4, &high, NULL);
    if (rc == 0) rc = original_positions(cfg, s, &original);
    if (rc) return rc;
    if (!(factor >= 1)) return bad(s, "factor", "at least 1", factor);
    if (!(low > 0)) return bad(s, "low_freq_factor", "above 0", low);
    if (!(high > low)) return bad(s, "high_freq_factor", "above low_freq_factor", high);
    for (int64_t i = 0; i < cfg->rot / 2; i++) {
        double w = cfg->inv_freq[i], length = 2 * M_PI / w;
        if (length > original / low) {
            w /= factor;
        } else if (length >= original / high) {
            double t = (original / length - low) / (high - low);
            w = (1 - t) * w / factor + t * w;
        }
        cfg->inv_freq[i] = (float)w;
    }
    return 0;
}

// Divisors of the frequencies, as GGUF files carry them (rope_freqs.weight; specs: model 11.4).
static int divisors(struct fg_config *cfg, const struct source *s)
{
    struct json_object *list;
    int rc = fg_json_arr(s->doc, s->text, s->text_where, "forge_rope_freq_divisors", &list, s->err);
    if (rc || !list) return rc;
    if ((int64_t)json_object_array_length(list) != cfg->rot / 2)
        return fg_fail(s->err, FG_EINPUT, "config", s->doc->file, "forge_rope_freq_divisors",
                       "one number per frequency", "%zu", json_object_array_length(list));
    for (int64_t i = 0; i < cfg->rot / 2; i++) {
        struct json_object *v = json_object_array_get_idx(list, (size_t)i);
        double d = v ? json_object_get_double(v) : 0;
        if (!(d > 0) || !isfinite(d))
            return fg_fail(s->err, FG_EINPUT, "config", s->doc->file, "forge_rope_freq_divisors",
                           "positive numbers", "entry %lld", (long long)i);
        cfg->inv_freq[i] = cfg->inv_freq[i] / (float)d;
    }
    return 0;
}

int fg_rope_parse(struct fg_config *cfg, const struct fg_json *doc, struct json_object *obj,
                  const char *where, struct fg_arena *arena, struct fg_error *err)
{
    struct source s = {.doc = doc, .text = obj, .text_where = where, .err = err};
    const char *key = "rope_parameters", *type, *old_type;
    int rc = fg_json_obj(doc, obj, where, key, &s.obj, err);
    if (rc == 0 && !s.obj) rc = fg_json_obj(doc, obj, where, key = "rope_scaling", &s.obj, err);
    if (rc) return rc;
    snprintf(s.where, sizeof s.where, "%s%s.", where, key);

    double partial;
    rc = number_of_either(&s, "rope_theta", 10000, &cfg->rope_theta);
    if (rc == 0)
        rc = number_of_either(&s, "partial_rotary_factor",
                              cfg->family == FG_FAMILY_QWEN35 ? 0.25 : 1.0, &partial);
    if (rc) return rc;
    if (!(cfg->rope_theta > 1)) return bad(&s, "rope_theta", "above 1", cfg->rope_theta);
    if (!(partial > 0 && partial <= 1))
        return bad(&s, "partial_rotary_factor", "above 0, at most 1", partial);
    cfg->rot = (int64_t)((double)cfg->head_dim * partial);
    if (cfg->rot < 2 || cfg->rot % 2 != 0)
        return bad(&s, "partial_rotary_factor", "an even number of rotated components, at least 2",
                   (double)cfg->rot);

    type = old_type = NULL;
    if (s.obj) rc = fg_json_str(doc, s.obj, s.where, "rope_type", NULL, &type, NULL, err);
    if (rc == 0 && s.obj) rc = fg_json_str(doc, s.obj, s.where, "type", NULL, &old_type, NULL, err);
    if (rc) return rc;
    // Multimodal files say "mrope" in the old key: plain rotary for text.
    if (old_type && strcmp(old_type, "mrope") == 0) old_type = "default";
    if (type && old_type && strcmp(type, old_type) != 0)
        return fg_fail(err, FG_EINPUT, "config", doc->file, "rope type", type, "%s", old_type);
    if (!type) type = old_type ? old_type : "default";

    cfg->rope_scale = 1;
    cfg->inv_freq = fg_arena_alloc(arena, (uint64_t)cfg->rot / 2, sizeof *cfg->inv_freq);
    if (!cfg->inv_freq) return fg_fail_memory(err, "config", (uint64_t)cfg->rot * 2);
    for (int64_t i = 0; i < cfg->rot / 2; i++)
        cfg->inv_freq[i] = (float)pow(cfg->rope_theta, -2.0 * (double)i / (double)cfg->rot);

    if (strcmp(type, "default") == 0) {
        cfg->rope_type = "default";
    } else if (strcmp(type, "yarn") == 0) {
        cfg->rope_type = "yarn";
        rc = yarn(cfg, &s);
    } else if (strcmp(type, "llama3") == 0) {
        cfg->rope_type = "llama3";
        rc = llama3(cfg, &s);
    } else if (strcmp(type, "linear") == 0) {
        double factor;
        cfg->rope_type = "linear";
        rc = number(&s, "factor", 1, &factor, NULL);
        if (rc == 0 && !(factor > 0)) return bad(&s, "factor", "above 0", factor);
        for (int64_t i = 0; rc == 0 && i < cfg->rot / 2; i++)
            cfg->inv_freq[i] = cfg->inv_freq[i] / (float)factor;
    } else {
        return fg_fail(err, FG_EINPUT, "config", doc->file, "rope_type",
                       "default, linear, yarn or llama3", "%s", type);
    }
    if (rc == 0) rc = divisors(cfg, &s);
    return rc;
}

void fg_rope_table(const struct fg_config *cfg, int64_t pos, int64_t T, float *cos_out,
                   float *sin_out)
{
    int64_t half = cfg->rot / 2;
    for (int64_t t = 0; t < T; t++) {
        float p = (float)(pos + t);
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)(p * cfg->inv_freq[i]); // the product is rounded to FP32
            cos_out[t * half + i] = (float)cos(angle) * cfg->rope_scale;
            sin_out[t * half + i] = (float)sin(angle) * cfg->rope_scale;
        }
    }
}
