// Conversion: the bundle means what the export meant, whatever its layout; stopped or killed at any
// point, the same job continues to the same bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/num.h"
#include "bundle/convert.h"
#include "bundle/digest.h"
#include "bundle/source.h"
#include "format/build.h"
#include "support/export_build.h"
#include "support/foreign.h"
#include "support/scratch.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

static struct scratch tmp;
static struct foreign model;
static struct fg_export *foreign;

static int setup(void **state)
{
    (void)state;
    scratch_open(&tmp);
    foreign_init(&model);
    foreign = foreign_open(&model, FOREIGN_DIR, FOREIGN_MODEL, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fg_export_close(foreign);
    foreign_free(&model);
    scratch_close(&tmp);
    return 0;
}

// "TMP/name"; lasts until the second next call.
static const char *at(const char *name)
{
    static char paths[2][400];
    static int turn;
    turn = !turn;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", tmp.dir, name);
    return paths[turn];
}

static void convert(struct fg_convert_result *r, const char *from, const char *output,
                    const struct fg_convert_options *o)
{
    struct fg_error err = {0};
    char line[1024];
    if (fg_convert(r, from, output, o, &err))
        fail_msg("%s", fg_error_line(&err, line, sizeof line));
}

// Names and SHA-256 of all files below dir, in order of names.
static void tree(struct fg_buf *out, const char *dir)
{
    struct dirent **list;
    int n = scandir(dir, &list, NULL, alphasort);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        struct fg_error err = {0};
        char hex[FG_SHA256_HEX];
        const char *name = list[i]->d_name;
        char *path = fg_path_join(dir, name);
        assert_non_null(path);
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            fg_buf_printf(out, "%s\n", name);
            if (fg_dir_exists(path)) {
                tree(out, path);
            } else {
                assert_int_equal(fg_sha256_file(path, hex, &err), 0);
                fg_buf_printf(out, "%s\n", hex);
            }
        }
        free(path);
        free(list[i]);
    }
    free(list);
}

static void same_tree(const char *a, const char *b)
{
    struct fg_buf x = {0}, y = {0};
    tree(&x, a);
    tree(&y, b);
    assert_string_equal(x.data, y.data);
    fg_buf_free(&x);
    fg_buf_free(&y);
}

static void digest_of_source(struct fg_digest *d, const char *path)
{
    struct fg_source *s;
    struct fg_error err = {0};
    char line[1024];
    if (fg_source_open(&s, path, NULL, &err))
        fail_msg("%s", fg_error_line(&err, line, sizeof line));
    const struct fg_qset *set = fg_source_set(s);
    assert_int_equal(fg_digest_sets(d, &set, 1, NULL, &err), 0);
    fg_source_close(s);
}

static void keeps_the_weights(void **state)
{
    (void)state;
    struct fg_convert_result r;
    struct fg_digest d;
    struct fg_error err = {0};
    struct fg_buf golden = {0};
    const struct fg_convert_options o = {.model_dir = FOREIGN_MODEL};
    convert(&r, FOREIGN_DIR, at("plain"), &o);
    assert_string_equal(r.dir, at("plain/foreign"));
    assert_string_equal(r.build, at("plain/foreign/forge"));
    assert_int_equal(r.n_kept, 0);
    assert_int_equal(r.n_files, 1 + 1 + 2 + 1); // config, embedding, chunk and head, manifest

    // The digest that NumPy computes of the export, over the packages.
    assert_int_equal(fg_file_read(&golden, FOREIGN_DIR "/digest.txt", 1 << 20, &err), 0);
    digest_of_source(&d, r.dir);
    assert_memory_equal(d.lines, golden.data, strlen(d.lines));
    assert_memory_equal(r.digest, golden.data + golden.len - 65, 64);
    assert_string_equal(d.hex, r.digest);
    assert_string_equal(d.head, r.head);
    fg_digest_free(&d);
    fg_buf_free(&golden);

    struct fg_build *b;
    char line[1024];
    if (fg_build_open(&b, r.dir, true, &err))
        fail_msg("%s", fg_error_line(&err, line, sizeof line));
    const struct fg_manifest *m = fg_build_manifest(b);
    assert_string_equal(m->release_name, "foreign");
    assert_string_equal(m->weights_digest, r.digest);
    assert_string_equal(m->export_digest, r.digest);
    assert_string_equal(m->head.id, r.head);
    assert_string_equal(m->arch, "qwen3_5");
    assert_true(m->head.rms1p);
    assert_int_equal(m->n_chunks, 1);
    assert_int_equal(m->chunks[0].last, 3);
    assert_string_equal(m->chunks[0].file, "chunk_L00-03.safetensors");
    assert_int_equal(m->n_ctxs, 1); // the model has 1024 positions
    assert_int_equal(m->ctxs[0], 1024);
    assert_int_equal(m->kv.def, FG_KV_KV8);
    assert_true(m->rotation.given && m->rotation.numpy);
    assert_int_equal(m->rotation.block, 16);
    assert_int_equal(m->rotation.seed_mix_out, 4000);

    const struct fg_export_embedding *em = fg_export_embedding(foreign);
    const struct fg_build_embedding *rows = fg_build_embedding(b);
    assert_int_equal(em->dtype, FG_ST_BF16);
    assert_int_equal(rows->vocab, em->vocab);
    for (int64_t i = 0; i < em->vocab * em->hidden; i++) {
        uint16_t h;
        memcpy(&h, (const uint8_t *)em->data + 2 * i, sizeof h);
        assert_int_equal(((const uint16_t *)rows->data)[i], fg_f16_of_f32(fg_bf16_to_f32(h)));
    }
    fg_build_close(b);
    fg_convert_result_free(&r);

    // Nothing of the job is left, and what is there is not written over.
    assert_false(fg_path_taken(at("plain/foreign/.forge")));
    assert_int_equal(fg_convert(&r, FOREIGN_DIR, at("plain"), &o, &err), FG_EINPUT);
    assert_string_equal(err.file, at("plain/foreign"));
    assert_null(r.dir);
}

static void is_the_same_for_every_layout(void **state)
{
    (void)state;
    struct fg_error err = {0};
    for (int bytes = 0; bytes < 2; bytes++) {
        struct export_build b;
        struct fg_convert_result r;
        char from[400], out[400];
        snprintf(from, sizeof from, "%s/own%d/foreign", tmp.dir, bytes);
        snprintf(out, sizeof out, "%s/own%d/out", tmp.dir, bytes);
        eb_from(&b, foreign, true, bytes);
        assert_int_equal(eb_write(&b, from, &err), 0);
        eb_free(&b);
        const struct fg_convert_options o = {.model_dir = FOREIGN_MODEL};
        convert(&r, from, out, &o);
        same_tree(r.dir, at("plain/foreign"));
        fg_convert_result_free(&r);
    }
}

// ---- stopping

struct stopper {
    int after; // calls of progress
    bool kill;
    int reading; // calls before the first file
};

static bool stop(void *ctx, uint64_t done, uint64_t total, const char *item)
{
    struct stopper *s = ctx;
    assert_true(done <= total);
    assert_non_null(item);
    s->reading += strcmp(item, "reading the export") == 0;
    if (--s->after >= 0) return true;
    if (s->kill) raise(SIGKILL);
    return false;
}

// Until the first file only the export is read; then a package calls for each of its tensors, and
// steps of this many calls meet every file, also in its middle.
#define STEP 5

static int first_stop(void)
{
    static int turn;
    char out[64];
    struct stopper s = {.after = 1000000};
    struct fg_convert_result r;
    const struct fg_convert_options o = {.model_dir = FOREIGN_MODEL, .progress = stop, .ctx = &s};
    snprintf(out, sizeof out, "count%d", turn++);
    convert(&r, FOREIGN_DIR, at(out), &o);
    fg_convert_result_free(&r);
    assert_true(s.reading > 10 && 1000000 - s.after > s.reading + 4 * STEP);
    return s.reading - 1;
}

static void continues_after_a_stop(void **state)
{
    (void)state;
    uint64_t kept_least = UINT64_MAX, kept_most = 0;
    for (int after = first_stop();; after += STEP) {
        struct stopper s = {.after = after};
        struct fg_convert_result r;
        struct fg_error err = {0};
        struct fg_convert_options o = {.model_dir = FOREIGN_MODEL, .progress = stop, .ctx = &s};
        char out[400];
        snprintf(out, sizeof out, "%s/stop%d", tmp.dir, after);
        int rc = fg_convert(&r, FOREIGN_DIR, out, &o, &err);
        if (rc == 0) {
            fg_convert_result_free(&r);
            break;
        }
        assert_int_equal(rc, FG_EINTERRUPTED);
        assert_null(r.dir);
        s.after = 1000000;
        convert(&r, FOREIGN_DIR, out, &o);
        same_tree(r.dir, at("plain/foreign"));
        if (r.n_kept > kept_most) kept_most = r.n_kept;
        if (r.n_kept < kept_least) kept_least = r.n_kept;
        fg_convert_result_free(&r);
    }
    assert_int_equal(kept_least, 0);
    assert_true(kept_most >= 3);
}

static void continues_after_a_kill(void **state)
{
    (void)state;
    for (int after = first_stop();; after += STEP) {
        struct stopper s = {.after = after, .kill = true};
        struct fg_convert_result r;
        struct fg_convert_options o = {.model_dir = FOREIGN_MODEL, .progress = stop, .ctx = &s};
        char out[400];
        int status;
        snprintf(out, sizeof out, "%s/kill%d", tmp.dir, after);
        pid_t pid = fork();
        if (pid == 0) {
            struct fg_error err = {0};
            _exit(fg_convert(&r, FOREIGN_DIR, out, &o, &err));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            break;
        }
        o.progress = NULL;
        convert(&r, FOREIGN_DIR, out, &o);
        same_tree(r.dir, at("plain/foreign"));
        fg_convert_result_free(&r);
    }
}

static void continues_only_the_same_job(void **state)
{
    (void)state;
    struct stopper s;
    struct fg_convert_result r;
    struct fg_error err = {0};
    struct fg_convert_options o = {.model_dir = FOREIGN_MODEL, .progress = stop, .ctx = &s};
    // Until the first file is there.
    for (int after = 1; !fg_path_taken(at("same/foreign/model/config.json")); after++) {
        s = (struct stopper){.after = after};
        assert_int_equal(fg_convert(&r, FOREIGN_DIR, at("same"), &o, &err), FG_EINTERRUPTED);
    }
    o.progress = NULL;
    o.kv = FG_CONVERT_KV_FP16;
    assert_int_equal(fg_convert(&r, FOREIGN_DIR, at("same"), &o, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "identity");
    o.kv = 0;

    // A finished file that changed is made again.
    const char *config = at("same/foreign/model/config.json");
    assert_true(fg_file_exists(config));
    assert_int_equal(fg_file_replace(config, "{}", 2, &err), 0);

    // Another run at the same time.
    int fd = open(at("same/foreign/.forge/lock"), O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_int_equal(fg_convert(&r, FOREIGN_DIR, at("same"), &o, &err), FG_EBUSY);
    close(fd);
    convert(&r, FOREIGN_DIR, at("same"), &o);
    same_tree(r.dir, at("plain/foreign"));
    fg_convert_result_free(&r);
}

// ---- what is refused

static void refused(const char *from, const struct fg_convert_options *o, int code,
                    const char *part)
{
    struct fg_convert_result r;
    struct fg_error err = {0};
    char line[1024];
    int rc = fg_convert(&r, from, at("refused"), o, &err);
    fg_error_line(&err, line, sizeof line);
    if (rc != code || !strstr(line, part) || r.dir)
        fail_msg("rc %d, \"%s\", wanted %d, \"%s\"", rc, line, code, part);
    assert_false(fg_path_taken(at("refused/foreign/forge")));
}

static void refuses_bad_options(void **state)
{
    (void)state;
    struct fg_convert_options o = {.model_dir = FOREIGN_MODEL, .n_ctxs = 2, .ctxs = {512, 700}};
    refused(FOREIGN_DIR, &o, FG_EINPUT, "ctx: expected multiples of 256");
    o.ctxs[1] = 512;
    refused(FOREIGN_DIR, &o, FG_EINPUT, "ascending");
    o.ctxs[1] = 1024;
    o.n_pctxs = 1;
    o.pctxs[0] = 768;
    refused(FOREIGN_DIR, &o, FG_EINPUT, "pctx");
    o.n_pctxs = 0;
    o.kv = FG_CONVERT_KV_FP16;
    o.kv_default = FG_CONVERT_KV_KV8;
    refused(FOREIGN_DIR, &o, FG_EINPUT, "kv-cache-default");
    o = (struct fg_convert_options){.model_dir = FOREIGN_MODEL, .name = "a/b"};
    refused(FOREIGN_DIR, &o, FG_EINPUT, "name of the bundle");
    o = (struct fg_convert_options){0};
    refused(FOREIGN_DIR, &o, FG_EINPUT, "config.json");
    refused(FOREIGN_MODEL, &o, FG_EINPUT, "a quantized export");
}

static void refuses_bad_exports(void **state)
{
    (void)state;
    struct export_build b;
    struct fg_error err = {0};
    const struct fg_convert_options o = {.model_dir = FOREIGN_MODEL};
    const char *from = at("bad/foreign");
    char dir[400];
    snprintf(dir, sizeof dir, "%s", from);

    // An index out of its table shows when the matrix is read.
    eb_from(&b, foreign, true, true);
    eb_data(eb_file(&b, "layer_00.safetensors"), "gate.idx")[5] = 0xFF;
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    refused(dir, &o, FG_EINPUT, "layers.0.mlp.gate_proj.idx[5]");

    // An embedding that F16 does not hold.
    eb_from(&b, foreign, true, true);
    memcpy(eb_data(eb_file(&b, "embed_tokens.safetensors"), "embed_tokens.weight") + 2 * 33,
           "\x80\x47", 2); // 65536 in BF16
    assert_int_equal(eb_write(&b, dir, &err), 0);
    struct fg_convert_result r;
    assert_int_equal(fg_convert(&r, dir, at("range"), &o, &err), FG_EINPUT);
    assert_string_equal(err.field, "embedding[1, 1]");
    assert_false(fg_path_taken(at("range/foreign/model/embed_tokens_fp16.npy")));
    eb_free(&b);

    // Seeds that the manifest has no words for.
    eb_from(&b, foreign, true, false);
    struct eb_file *f = eb_file(&b, "layer_02.safetensors");
    eb_meta(&b, f, "seed_mid", "77");
    fg_signs_numpy_pcg64(eb_data(f, "rot.mlp_mid"), 77, 48);
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    refused(dir, &o, FG_EINPUT, "seeds of the rotations");

    // Blocks that are not those of their widths.
    eb_from(&b, foreign, true, false);
    eb_meta(&b, eb_file(&b, "layer_02_mixer.safetensors"), "block_in", "32");
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    refused(dir, &o, FG_EINPUT, "block of layers.0.rot.mlp_in: expected 32 for a width of 32");

    // A digest that the export declares and does not have.
    char path[500];
    eb_from(&b, foreign, true, false);
    assert_int_equal(eb_write(&b, dir, &err), 0);
    eb_free(&b);
    snprintf(path, sizeof path, "%s/export.json", dir);
    assert_int_equal(fg_file_replace(path, "{\"digest\": \"00\"}", 16, &err), 0);
    refused(dir, &o, FG_EINTEGRITY, "digest in export.json");
}

static void plans_without_writing(void **state)
{
    (void)state;
    struct fg_convert_result r;
    const struct fg_convert_options o = {
        .model_dir = FOREIGN_MODEL, .dry_run = true, .n_ctxs = 1, .ctxs = {512}};
    convert(&r, FOREIGN_DIR, at("dry"), &o);
    assert_int_equal(r.n_files, 5);
    assert_true(r.bytes > 60000);
    assert_false(fg_path_taken(at("dry")));
    fg_convert_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_weights),
        cmocka_unit_test(is_the_same_for_every_layout),
        cmocka_unit_test(continues_after_a_stop),
        cmocka_unit_test(continues_after_a_kill),
        cmocka_unit_test(continues_only_the_same_job),
        cmocka_unit_test(refuses_bad_options),
        cmocka_unit_test(refuses_bad_exports),
        cmocka_unit_test(plans_without_writing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
