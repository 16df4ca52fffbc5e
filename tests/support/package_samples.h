// tests/support/package_samples.h: one package of each kind, for the tests of packages. Included
// after cmocka.h.
#ifndef FG_TESTS_PACKAGE_SAMPLES_H
#define FG_TESTS_PACKAGE_SAMPLES_H
#include "base/error.h"
#include "base/file.h"
#include "support/package_build.h"
#include "support/scratch.h"

static struct scratch tmp;
static char path[512], bad_path[512];

enum { CHUNK, HEAD, DRAFTER, DENSE, N_SAMPLES };
static const char *const main_mat[N_SAMPLES] = {"layers.0.mlp.gate_proj", "lm_head", "fc",
                                                "layers.2.mlp.gate_proj"};
static struct pb_set sets[N_SAMPLES];
static struct fg_package_spec specs[N_SAMPLES];

static inline void make_sets(bool as_idx)
{
    static const bool linear[3] = {true, true, false};
    for (int i = 0; i < N_SAMPLES; i++) {
        pb_begin(&sets[i], (uint32_t)i);
        sets[i].as_idx = as_idx;
    }
    for (int i = 0; i < 3; i++) {
        pb_layer(&sets[CHUNK], &pb_hybrid, i, linear[i]);
    }
    pb_head(&sets[HEAD], &pb_hybrid);
    pb_drafter(&sets[DRAFTER], &pb_hybrid);
    pb_layer(&sets[DENSE], &pb_dense, 2, false);
    pb_layer(&sets[DENSE], &pb_dense, 3, false);
    for (int i = 0; i < N_SAMPLES; i++) {
        pb_end(&sets[i]);
    }
    specs[CHUNK] = pb_spec(&sets[CHUNK], FG_PACKAGE_CHUNK, 0, 2);
    specs[HEAD] = pb_spec(&sets[HEAD], FG_PACKAGE_HEAD, 0, 0);
    specs[DRAFTER] = pb_spec(&sets[DRAFTER], FG_PACKAGE_DRAFTER, 0, 0);
    specs[DENSE] = pb_spec(&sets[DENSE], FG_PACKAGE_CHUNK, 2, 3);
}

static inline void free_sets(void)
{
    unlink(path);
    for (int i = 0; i < N_SAMPLES; i++) {
        pb_free(&sets[i]);
    }
}

static inline void write_sample(int sample)
{
    static int written = -1;
    if (written == sample && fg_file_exists(path)) return;
    written = sample;
    struct fg_error err = {0};
    char line[1024];
    if (fg_package_write(path, &specs[sample], NULL, &err)) {
        fail_msg("%s", fg_error_line(&err, line, sizeof line));
    }
}

static inline struct fg_package *open_good(const char *file)
{
    struct fg_package *p;
    struct fg_error err = {0};
    char line[1024];
    if (fg_package_open(&p, file, &err) || fg_package_verify(p, &err)) {
        fail_msg("%s", fg_error_line(&err, line, sizeof line));
    }
    return p;
}

static inline void samples_open(void)
{
    scratch_open(&tmp);
    snprintf(path, sizeof path, "%s/good", tmp.dir);
    snprintf(bad_path, sizeof bad_path, "%s/bad", tmp.dir);
}
#endif
