// bench/bench_model.c: a whole model: prefill of N tokens and decode after them, medians over runs,
// beside the read bandwidth measured right before and after. Usage: bench_model --model DIR
// [--threads N] [--isa LEVEL] [--numerics fast|exact] [--prefill 512] [--decode 128] [--runs 5]
//        [--once prefill|decode]
// One JSON object on stdout. --once: a single run without bandwidth, for interleaving with a peer:
// prints seconds.
#include "eval/bandwidth.h"
#include "forge/forge.h"
#include "roof.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *model, *isa, *once;
    int threads, runs;
    int64_t prefill, decode;
    enum forge_numerics numerics;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, compare);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void die(const char *what, const struct fg_error *err)
{
    fprintf(stderr, "bench_model: %s: %s %s %s %s\n", what, err->what, err->file, err->field,
            err->found);
    exit(1);
}

// Seconds of one prefill and one decode from an empty session; the ids are arbitrary, as speed does
// not depend on them.
static void run_once(struct forge_session *s, const struct options *o, int64_t vocab, float *logits,
                     double *prefill_s, double *decode_s)
{
    struct fg_error err = {0};
    int32_t *ids = malloc((size_t)o->prefill * sizeof *ids);
    for (int64_t i = 0; i < o->prefill; i++)
        ids[i] = (int32_t)((i * 7919 + 13) % vocab);
    forge_session_reset(s);
    double start = bench_now();
    if (forge_session_run(s, ids, o->prefill, logits, 1, NULL, NULL, &err)) die("prefill", &err);
    *prefill_s = bench_now() - start;
    start = bench_now();
    for (int64_t i = 0; i < o->decode; i++) {
        int32_t id;
        forge_top_ids(logits, vocab, 1, &id);
        if (forge_session_run(s, &id, 1, logits, 1, NULL, NULL, &err)) die("decode", &err);
    }
    *decode_s = bench_now() - start;
    free(ids);
}

static void parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--model") == 0)
            o->model = value;
        else if (strcmp(name, "--isa") == 0)
            o->isa = value;
        else if (strcmp(name, "--once") == 0)
            o->once = value;
        else if (strcmp(name, "--threads") == 0)
            o->threads = atoi(value);
        else if (strcmp(name, "--runs") == 0)
            o->runs = atoi(value);
        else if (strcmp(name, "--prefill") == 0)
            o->prefill = atoll(value);
        else if (strcmp(name, "--decode") == 0)
            o->decode = atoll(value);
        else if (strcmp(name, "--numerics") == 0)
            o->numerics = strcmp(value, "exact") == 0 ? FORGE_EXACT : FORGE_FAST;
    }
    if (!o->model || o->runs < 1 || o->runs > 100 || o->prefill < 1 || o->decode < 0) {
        fprintf(stderr,
                "usage: bench_model --model DIR [--threads N] [--isa LEVEL] [--numerics "
                "fast|exact] [--prefill N] [--decode N] [--runs N] [--once prefill|decode]\n");
        exit(2);
    }
}

int main(int argc, char **argv)
{
    struct options o = {.runs = 5, .prefill = 512, .decode = 128};
    struct fg_error err = {0};
    struct forge_engine *e;
    struct forge_session *s;
    struct forge_engine_info info;
    double prefill[100], decode[100], before = 0, after = 0;
    parse(&o, argc, argv);
    struct forge_engine_options eo = {.model = o.model,
                                      .threads = o.threads,
                                      .isa = o.isa,
                                      .numerics = o.numerics,
                                      .model_only = true};
    if (forge_engine_open(&e, &eo, &err)) die("model", &err);
    forge_engine_info(e, &info);
    struct forge_session_options so = {.capacity = forge_context_for(e, o.prefill + o.decode + 1)};
    if (forge_session_new(&s, e, &so, &err)) die("session", &err);
    float *logits = malloc((size_t)info.vocab * sizeof *logits);

    if (o.once) { // warm first: pages of the file, clocks
        struct options warm = o;
        warm.decode = 4;
        run_once(s, &warm, info.vocab, logits, prefill, decode);
        run_once(s, &o, info.vocab, logits, prefill, decode);
        printf("%.6f\n", strcmp(o.once, "decode") == 0 ? decode[0] : prefill[0]);
    } else {
        run_once(s, &o, info.vocab, logits, prefill, decode);
        if (fg_bandwidth_read(1ull << 30, info.threads, 0.5, &before, &err)) die("bandwidth", &err);
        for (int i = 0; i < o.runs; i++)
            run_once(s, &o, info.vocab, logits, &prefill[i], &decode[i]);
        if (fg_bandwidth_read(1ull << 30, info.threads, 0.5, &after, &err)) die("bandwidth", &err);
        double p = median(prefill, o.runs), d = median(decode, o.runs);
        double token_s = o.decode ? d / (double)o.decode : 0;
        double rate = o.decode ? (double)info.token_bytes / token_s : 0;
        printf("{\"model\":\"%s\",\"isa\":\"%s\",\"numerics\":\"%s\",\"threads\":%d,"
               "\"token_bytes\":%llu,\"prefill_tokens\":%lld,\"prefill_tokens_per_second\":%.1f,"
               "\"decode_tokens\":%lld,\"decode_tokens_per_second\":%.2f,"
               "\"decode_bytes_per_second\":%.4g,\"read_bytes_per_second_before\":%.4g,"
               "\"read_bytes_per_second_after\":%.4g,\"decode_share_of_bandwidth\":%.3f}\n",
               o.model, info.isa, info.numerics == FORGE_EXACT ? "exact" : "fast", info.threads,
               (unsigned long long)info.token_bytes, (long long)o.prefill, (double)o.prefill / p,
               (long long)o.decode, (double)o.decode / d, rate, before, after,
               rate / fmax(before, after));
    }
    free(logits);
    forge_session_free(s);
    forge_engine_close(e);
    return 0;
}
