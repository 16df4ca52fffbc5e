// The program as a whole: exit codes, error texts, JSON on every command, streams (specs: cli 1.3,
// 1.4, 19; acceptance A02, A03, A05, A21).
#include "base/json.h"
#include "base/num.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "format/npy.h"
#include "forge/forge.h"
#include "support/run.h"
#include "support/scratch.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#define MODELS FORGE_GOLDEN_DIR "/models/"
#define CHAT MODELS "chat-tiny"
#define BARE MODELS "a-s0" // no tokenizer
#define WORDS_MAX 24

static struct scratch scratch;
static const char *const no_env[] = {NULL};

// Runs forge with the words up to NULL.
static struct run_result forge_with(const char *const *env, const char *input, va_list ap)
{
    const char *argv[WORDS_MAX] = {FORGE_BINARY};
    int n = 1;
    for (const char *s; (s = va_arg(ap, const char *)) && n < WORDS_MAX - 1;)
        argv[n++] = s;
    argv[n] = NULL;
    return run_program(argv, env, input);
}

static struct run_result forge_run(const char *input, ...)
{
    va_list ap;
    va_start(ap, input);
    struct run_result r = forge_with(no_env, input, ap);
    va_end(ap);
    return r;
}

static struct run_result forge_env(const char *const *env, ...)
{
    va_list ap;
    va_start(ap, env);
    struct run_result r = forge_with(env, NULL, ap);
    va_end(ap);
    return r;
}

static void show(const struct run_result *r)
{
    print_error("exit %d\nstdout: %.2000s\nstderr: %.2000s\n", r->code, r->out, r->err);
}

// Exit code, nothing on stdout, and a first line of stderr that holds `text`.
static void expect_error(struct run_result r, int code, const char *text)
{
    char *hint = strstr(r.err, "\nhint: ");
    size_t lines = 0;
    for (size_t i = 0; i < r.n_err; i++)
        lines += r.err[i] == '\n';
    bool ok = r.code == code && r.n_out == 0 && strstr(r.err, text) && lines == (hint ? 2 : 1) &&
              strncmp(r.err, "forge", 5) == 0;
    if (!ok) show(&r);
    assert_true(ok);
    run_free(&r);
}

// Exit code, and stdout is one JSON object with a newline; the caller closes it.
static struct fg_json expect_json(struct run_result r, int code)
{
    struct fg_json doc = {0};
    struct fg_error err = {0};
    char line[1200];
    int rc = fg_json_parse(&doc, r.out, r.n_out, "stdout", &err);
    bool newline = r.n_out && strchr(r.out, '\n') == r.out + r.n_out - 1;
    if (rc || r.code != code || !newline) {
        print_error("%s\n", rc ? fg_error_line(&err, line, sizeof line) : "");
        show(&r);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(r.code, code);
    assert_true(newline);
    assert_true(json_object_is_type(doc.root, json_type_object));
    run_free(&r);
    return doc;
}

static void expect_keys(const struct fg_json *doc, const char *keys)
{
    char key[64];
    for (const char *at = keys; *at;) {
        size_t n = strcspn(at, " ");
        snprintf(key, sizeof key, "%.*s", (int)n, at);
        if (!json_object_object_get_ex(doc->root, key, NULL)) print_error("no key %s\n", key);
        assert_true(json_object_object_get_ex(doc->root, key, NULL));
        at += n + (at[n] != '\0');
    }
}

static struct json_object *member(struct json_object *o, const char *key)
{
    struct json_object *v = NULL;
    if (!json_object_object_get_ex(o, key, &v)) print_error("no member %s\n", key);
    assert_true(json_object_object_get_ex(o, key, NULL));
    return v;
}

static void expect_ok(struct run_result r, const char *out)
{
    bool ok = r.code == 0 && (!out || strcmp(r.out, out) == 0);
    if (!ok) show(&r);
    assert_true(ok);
    run_free(&r);
}

// ---- usage

static void test_usage_errors(void **state)
{
    (void)state;
    struct run_result r = forge_run(NULL, NULL);
    assert_int_equal(r.code, 2);
    assert_int_equal(r.n_out, 0);
    assert_non_null(strstr(r.err, "usage: forge"));
    run_free(&r);
    r = forge_run(NULL, "eval", NULL);
    assert_int_equal(r.code, 2);
    run_free(&r);
    expect_error(forge_run(NULL, "genrate", NULL), 2, "forge: command: ");
    expect_error(forge_run(NULL, "generate", "--nope", NULL), 2,
                 "forge generate: option: field --nope");
    expect_error(forge_run(NULL, "generate", "-m", NULL), 2, "field -m");
    expect_error(forge_run(NULL, "generate", "-p", "x", NULL), 2, "field --model");
    expect_error(forge_run(NULL, "generate", "-m", CHAT, "-n", "0", "-p", "x", NULL), 2,
                 "expected a whole number from 1");
    expect_error(forge_run(NULL, "generate", "-m", CHAT, "-p", "x", "-f", "y", NULL), 2,
                 "found several");
    expect_error(forge_run(NULL, "generate", "-m", CHAT, NULL), 2, "found none");
    expect_error(forge_run(NULL, "inspect", NULL), 2, "expected PATH");
    expect_error(forge_run(NULL, "inspect", "a", "b", NULL), 2, "found also b");
    expect_error(forge_run(NULL, "eval", "logit", NULL), 2, "forge eval: command");
}

static void test_help_everywhere(void **state)
{
    (void)state;
    static const char *const commands[] = {"doctor", "inspect", "generate", "chat",   "tokenize",
                                           "import", "eval",    "help",     "version"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        struct run_result r = forge_run(NULL, commands[i], "-h", NULL);
        char head[64];
        snprintf(head, sizeof head, "forge %s: ", commands[i]);
        if (r.code || strncmp(r.out, head, strlen(head)) != 0) show(&r);
        assert_int_equal(r.code, 0);
        assert_int_equal(r.n_err, 0);
        assert_memory_equal(r.out, head, strlen(head));
        struct run_result same = forge_run(NULL, "help", commands[i], NULL);
        assert_string_equal(r.out, same.out);
        run_free(&same);
        run_free(&r);
    }
    expect_ok(forge_run(NULL, "eval", "logits", "--help", NULL), NULL);
    expect_ok(forge_run(NULL, "--help", NULL), NULL);
}

static void test_quick_start(void **state)
{
    (void)state;
    // Specs: version in 20 ms, help in 30; the best of some runs, with room for sanitizers and a
    // busy machine.
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double start = fg_clock();
        expect_ok(forge_run(NULL, "--version", NULL), NULL);
        double s = fg_clock() - start;
        if (s < best) best = s;
    }
    if (best > 0.2) print_error("forge --version takes %.0f ms\n", best * 1e3);
    assert_true(best < 0.2);
}

// ---- JSON of every command

static void test_json_success(void **state)
{
    (void)state;
    struct fg_json d = expect_json(forge_run(NULL, "version", "--json", NULL), 0);
    expect_keys(&d, "version commit build_type compiler backends isa libraries");
    fg_json_close(&d);
    d = expect_json(forge_run(NULL, "--json", "--version", NULL), 0);
    fg_json_close(&d);
    d = expect_json(forge_run(NULL, "help", "--json", NULL), 0);
    expect_keys(&d, "name options commands");
    fg_json_close(&d);
    d = expect_json(forge_run(NULL, "doctor", "--json", "--no-measure", "--model", CHAT, NULL), 0);
    expect_keys(&d, "version platform cpu memory disk gpu mpi libraries environment bundle model "
                    "findings");
    fg_json_close(&d);
    d = expect_json(forge_run(NULL, "inspect", BARE, "--json", NULL), 0);
    expect_keys(&d, "path kind config tensors visual mtp metadata warnings");
    fg_json_close(&d);
    d = expect_json(forge_run(NULL, "inspect", BARE, "--tensors", "--json", NULL), 0);
    assert_int_equal(json_object_array_length(member(d.root, "tensors")), 56);
    fg_json_close(&d);
    d = expect_json(forge_run(NULL, "inspect", BARE, "--tensor", "model.norm.weight", "--stats",
                              "--head", "2", "--json", NULL),
                    0);
    expect_keys(&d, "name type shape bytes file stats head");
    assert_int_equal(json_object_array_length(member(d.root, "head")), 2);
    fg_json_close(&d);
    d = expect_json(forge_run(NULL, "tokenize", "-m", CHAT, "the user", "--json", NULL), 0);
    expect_keys(&d, "count ids pieces");
    fg_json_close(&d);
    d = expect_json(forge_run(NULL, "generate", "-m", CHAT, "-p", "hi", "-n", "5", "--logprobs",
                              "2", "--json", NULL),
                    0);
    expect_keys(&d, "text reasoning tokens logprobs finish_reason seed usage timings");
    assert_int_equal(json_object_array_length(member(d.root, "tokens")), 5);
    fg_json_close(&d);
    const char *out = scratch_path(&scratch, "json.npy");
    d = expect_json(
        forge_run(NULL, "eval", "logits", "-m", BARE, "--tokens", "1", "-o", out, "--json", NULL),
        0);
    expect_keys(&d, "status out tokens vocab rows numerics isa threads seconds");
    fg_json_close(&d);
}

static void test_json_failure(void **state)
{
    (void)state;
    struct fg_json d = expect_json(forge_run(NULL, "generate", "--tokenz", "--json", NULL), 2);
    expect_keys(&d, "status error exit_code");
    struct json_object *e = member(d.root, "error");
    assert_string_equal(json_object_get_string(member(e, "code")), "invalid_input");
    assert_string_equal(json_object_get_string(member(e, "field")), "--tokenz");
    assert_string_equal(json_object_get_string(member(e, "hint")), "did you mean --tokens?");
    assert_int_equal(json_object_get_int(member(d.root, "exit_code")), 2);
    fg_json_close(&d);
    static const char *const lines[][6] = {
        {"doctor", "--model", "/nowhere", "--no-measure"},
        {"inspect", "/nowhere"},
        {"generate", "-m", "/nowhere", "-p", "x"},
        {"chat", "-m", "/nowhere"},
        {"chat", "-m", CHAT}, // has no one result to print
        {"tokenize", "-m", "/nowhere", "x"},
        {"import", "/nowhere", "-o", "/tmp/none"},
        {"help", "nothing"},
        {"eval"},
        {NULL},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *const *l = lines[i];
        d = expect_json(forge_run(NULL, "--json", l[0], l[1], l[2], l[3], l[4], NULL), 2);
        expect_keys(&d, "status error exit_code");
        fg_json_close(&d);
    }
}

// ---- exit codes

static void test_environment(void **state)
{
    (void)state;
    static const char *const bad_threads[] = {"FORGE_THREADS=0", NULL};
    static const char *const bad_isa[] = {"FORGE_ISA=mmx", NULL};
    static const char *const empty_state[] = {"FORGE_STATE=", NULL};
    static const char *const turkish[] = {"LC_ALL=tr_TR.UTF-8", "TZ=Asia/Kathmandu", NULL};
    static const char *const ref[] = {"FORGE_ISA=ref", "FORGE_THREADS=2", NULL};
    expect_error(forge_env(bad_threads, "version", NULL), 2, "field FORGE_THREADS");
    expect_error(forge_env(bad_isa, "doctor", NULL), 2, "field FORGE_ISA");
    expect_error(forge_env(empty_state, "doctor", "--no-measure", NULL), 2, "field FORGE_STATE");
    expect_ok(
        forge_env(turkish, "generate", "-m", CHAT, "-p", "x", "-n", "1", "--top-p", "0.5", NULL),
        NULL);
    struct fg_json d = expect_json(forge_env(ref, "doctor", "--no-measure", "--json", NULL), 0);
    assert_string_equal(json_object_get_string(member(member(d.root, "cpu"), "isa")), "ref");
    assert_int_equal(json_object_get_int(member(member(d.root, "cpu"), "threads_used")), 2);
    fg_json_close(&d);
    // A level of the build that this machine lacks cannot be tested on one that has all.
    if (forge_isa_count() < 4) {
        static const char *const lacking[] = {"FORGE_ISA=avx512bf16", NULL};
        expect_error(forge_env(lacking, "doctor", NULL), 7, "field FORGE_ISA");
    }
}

static void test_secrets(void **state)
{
    (void)state;
    static const char *const env[] = {"HF_TOKEN=very-secret", "HUGGING_FACE_HUB_TOKEN=secret-too",
                                      NULL};
    for (int json = 0; json < 2; json++) {
        struct run_result r =
            forge_env(env, "doctor", "--no-measure", json ? "--json" : NULL, NULL);
        assert_int_equal(r.code, 0);
        assert_null(strstr(r.out, "secret"));
        assert_non_null(strstr(r.out, "HF_TOKEN"));
        assert_null(strstr(r.err, "secret"));
        run_free(&r);
    }
}

static void test_strict_doctor(void **state)
{
    (void)state;
    // A limit that no machine should have.
    const char *argv[] = {"/bin/sh", "-c", "ulimit -n 40; exec \"$0\" doctor --no-measure --strict",
                          FORGE_BINARY, NULL};
    struct run_result r = run_program(argv, no_env, NULL);
    if (r.code != 5) show(&r);
    assert_int_equal(r.code, 5);
    assert_non_null(strstr(r.out, "FAIL  open_files"));
    run_free(&r);
}

static void test_files(void **state)
{
    (void)state;
    expect_error(forge_run(NULL, "inspect", "/nowhere/at/all", NULL), 2, "/nowhere/at/all");
    const char *dir = scratch.dir;
    expect_error(forge_run(NULL, "inspect", dir, NULL), 2, dir);
    char path[512];
    snprintf(path, sizeof path, "%s",
             scratch_write(&scratch, "junk.bin", "not a model at all", 18));
    expect_error(forge_run(NULL, "inspect", path, NULL), 2, "expected safetensors, GGUF or npy");
    snprintf(path, sizeof path, "%s", scratch_write(&scratch, "empty.gguf", "", 0));
    expect_error(forge_run(NULL, "inspect", path, NULL), 2, "found an empty file");
    expect_error(forge_run(NULL, "generate", "-m", path, "-p", "x", "--raw", NULL), 2, path);
    expect_error(forge_run(NULL, "import", path, "-o", dir, NULL), 2, path);
    expect_error(forge_run(NULL, "generate", "-m", BARE, "-p", "x", NULL), 2, "chat template");
    expect_error(forge_run(NULL, "generate", "-m", BARE, "-p", "x", "--raw", NULL), 2, "tokenizer");
}

static void test_prompts(void **state)
{
    (void)state;
    expect_error(forge_run(NULL, "generate", "-m", CHAT, "-p", "", NULL), 2, "expected a text");
    expect_error(forge_run("", "generate", "-m", CHAT, "-f", "-", NULL), 2, "expected a text");
    expect_error(forge_run("ab\xC3(", "generate", "-m", CHAT, "-f", "-", NULL), 2, "field byte 2");
    expect_error(forge_run(NULL, "generate", "-m", CHAT, "-p", "a\xFF", NULL), 2,
                 "field --prompt, byte 1");
    struct run_result r = forge_run("ab\xC3(", "generate", "-q", "-m", CHAT, "-f", "-", "-n", "3",
                                    "--replace-invalid", NULL);
    if (r.code) show(&r);
    assert_int_equal(r.code, 0);
    run_free(&r);
    r = forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "hello there", "--ctx", "8", NULL);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "(the context)"));
    run_free(&r);
    expect_error(forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "x", "--ctx", "1M", NULL), 2,
                 "field --ctx");
    r = forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "x", "--ctx", "128K", "-n", "1", NULL);
    assert_int_equal(r.code, 0);
    run_free(&r);
    expect_error(
        forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "x", "--ctx", "129K", "-n", "1", NULL),
        2, "field --ctx: expected 1 to 131072, the model's maximum");
    // The way out, where there is one.
    char words[600] = "";
    for (int i = 0; i < 100; i++)
        memcpy(words + 5 * i, "word ", 6);
    expect_error(forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", words, "--ctx", "8", NULL), 2,
                 "hint: --ctx ");
}

static void test_kv_cache(void **state)
{
    (void)state;
    static const char *const formats[] = {"auto", "fp16", "v8", "kv8", "f32"};
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(&scratch, "kv.npy"));
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct fg_json d = expect_json(forge_run(NULL, "eval", "logits", "-m", BARE, "--tokens",
                                                 "1,2,3", "--out", path, "--kv-cache-dtype",
                                                 formats[i], "--ctx", "64", "--json", NULL),
                                       0);
        assert_string_equal(json_object_get_string(member(d.root, "kv_cache_dtype")),
                            i ? formats[i] : "f32"); // of exact numerics
        fg_json_close(&d);
        expect_ok(forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "x", "-n", "2",
                            "--kv-cache-dtype", formats[i], NULL),
                  NULL);
    }
    expect_error(
        forge_run(NULL, "generate", "-m", CHAT, "-p", "x", "--kv-cache-dtype", "kv4", NULL), 2,
        "field --kv-cache-dtype: expected auto, fp16, v8, kv8 or f32, found kv4");
    expect_error(forge_run(NULL, "eval", "logits", "-m", BARE, "--tokens", "1,2,3", "--out", path,
                           "--ctx", "2", NULL),
                 2, "context of 2");
}

static void test_doctor_contexts(void **state)
{
    (void)state;
    struct run_result r = forge_run(NULL, "doctor", "--no-measure", "--model", CHAT, "--ctx", "40K",
                                    "--kv-cache-dtype", "v8", NULL);
    if (r.code) show(&r);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "memory by context, keys and values in v8"));
    assert_non_null(strstr(r.out, "context 40960: "));
    assert_null(strstr(r.out, "context 65536: "));
    run_free(&r);
    struct fg_json d =
        expect_json(forge_run(NULL, "doctor", "--json", "--no-measure", "--model", CHAT, NULL), 0);
    struct json_object *model = member(d.root, "model"), *contexts = member(model, "contexts");
    assert_int_equal(json_object_array_length(contexts), 6); // 8K to 128K
    for (size_t i = 0; i < 6; i++) {
        struct json_object *c = json_object_array_get_idx(contexts, i);
        int64_t total = json_object_get_int64(member(model, "weight_bytes")) +
                        json_object_get_int64(member(model, "state_bytes")) +
                        json_object_get_int64(member(c, "kv_bytes")) +
                        json_object_get_int64(member(c, "scratch_bytes"));
        assert_int_equal(json_object_get_int64(member(c, "bytes")), total);
        assert_int_equal(json_object_get_int64(member(c, "kv_bytes")),
                         json_object_get_int64(member(c, "positions")) *
                             json_object_get_int64(member(model, "kv_bytes_per_position")));
    }
    fg_json_close(&d);
    expect_error(forge_run(NULL, "doctor", "--ctx", "8K", NULL), 2, "field --ctx");
    expect_error(forge_run(NULL, "doctor", "--model", CHAT, "--ctx", "129K", NULL), 2,
                 "field --ctx: expected 1 to 131072");
    expect_error(forge_run(NULL, "doctor", "--model", CHAT, "--bundle", CHAT, NULL), 2,
                 "found both");
}

// Of a build only entries, and only what it offers; said before its weights are read.
static void test_build_contexts(void **state)
{
    (void)state;
    char out[512], bundle[640];
    snprintf(out, sizeof out, "%s", scratch_path(&scratch, "converted"));
    snprintf(bundle, sizeof bundle, "%s/hybrid", out);
    expect_ok(forge_run(NULL, "convert", "-q", "--export", FORGE_GOLDEN_DIR "/exports/hybrid",
                        "--output", out, "--ctx", "256,1024", "--kv-cache-dtype", "fp16", NULL),
              NULL);
    expect_error(forge_run(NULL, "eval", "logits", "-m", bundle, "--tokens", "1", "--out", out,
                           "--ctx", "512", NULL),
                 2, "field --ctx: expected 256, 1024, found 512");
    expect_error(forge_run(NULL, "eval", "logits", "-m", bundle, "--tokens", "1", "--out", out,
                           "--kv-cache-dtype", "kv8", NULL),
                 2, "field --kv-cache-dtype: expected auto, fp16, f32, found kv8");
    expect_error(forge_run(NULL, "doctor", "--bundle", bundle, "--ctx", "300", NULL), 2,
                 "field --ctx: expected 256, 1024, found 300");
    struct fg_json d = expect_json(
        forge_run(NULL, "doctor", "--json", "--no-measure", "--bundle", bundle, NULL), 0);
    struct json_object *b = member(d.root, "bundle"), *model = member(d.root, "model");
    assert_int_equal(json_object_array_length(member(b, "contexts")), 2);
    assert_int_equal(json_object_array_length(member(b, "kv_cache_dtypes")), 1);
    assert_int_equal(json_object_array_length(member(model, "contexts")), 2);
    assert_string_equal(json_object_get_string(member(model, "kv_cache_dtype")), "fp16");
    fg_json_close(&d);
}

// ---- what commands print

static void test_generate(void **state)
{
    (void)state;
    // The seed decides; greedy needs none. Raw and streamed text equal the JSON's.
    struct run_result a =
        forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "hi", "--seed", "4", "-n", "30", NULL);
    struct run_result b = forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "hi", "--seed", "4",
                                    "-n", "30", "--threads", "1", NULL);
    struct run_result c =
        forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "hi", "--seed", "5", "-n", "30", NULL);
    if (a.code) show(&a);
    assert_int_equal(a.code, 0);
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    struct fg_json d = expect_json(forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "hi",
                                             "--seed", "4", "-n", "30", "--json", NULL),
                                   0);
    const char *text = json_object_get_string(member(d.root, "text"));
    assert_memory_equal(text, a.out, strlen(text));
    assert_int_equal(json_object_get_int64(member(d.root, "seed")), 4);
    assert_string_equal(json_object_get_string(member(d.root, "finish_reason")), "length");

    // A stop string ends the text before itself.
    char stop[4] = {a.out[4], a.out[5], '\0'};
    struct run_result s = forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "hi", "--seed", "4",
                                    "-n", "30", "--stop", stop, NULL);
    size_t at = (size_t)(strstr(a.out, stop) - a.out);
    assert_memory_equal(s.out, a.out, at);
    assert_int_equal(s.n_out, at + (at > 0));
    fg_json_close(&d);
    run_free(&s);
    run_free(&a);
    run_free(&b);
    run_free(&c);
}

static void test_reasoning_apart(void **state)
{
    (void)state;
    struct fg_json d =
        expect_json(forge_run(NULL, "generate", "-q", "-m", CHAT, "-p", "hi", "--think", "-n", "9",
                              "--temperature", "0", "--json", NULL),
                    0);
    assert_string_equal(json_object_get_string(member(d.root, "text")), "");
    assert_true(json_object_get_string_len(member(d.root, "reasoning")) > 0);
    struct json_object *usage = member(d.root, "usage");
    assert_int_equal(json_object_get_int(member(usage, "reasoning_tokens")), 9);
    fg_json_close(&d);
}

static void test_tokenize(void **state)
{
    (void)state;
    expect_ok(forge_run(NULL, "tokenize", "-m", CHAT, "the user", NULL), "116,257,32,267\n");
    expect_ok(forge_run(NULL, "tokenize", "-m", CHAT, "the user", "--count", NULL), "4\n");
    expect_ok(forge_run("a", "tokenize", "-m", CHAT, NULL), "97\n");
    expect_ok(forge_run(NULL, "tokenize", "-m", CHAT, "--special", "<|im_end|>", NULL), "270\n");
    expect_ok(forge_run(NULL, "tokenize", "-m", CHAT, "--decode", "97,270,98", NULL),
              "a<|im_end|>b\n");
    expect_ok(forge_run(NULL, "tokenize", "-m", CHAT, "--decode", "97 270", "--no-special", NULL),
              "a\n");
    expect_ok(forge_run(NULL, "tokenize", "-m", CHAT, "a\n", "--pieces", NULL), "97\ta\n10\t\\n\n");
    struct run_result r = forge_run("[{\"role\": \"user\", \"content\": \"x\"}]", "tokenize", "-q",
                                    "-m", CHAT, "--messages", "-", "--render", NULL);
    if (r.code) show(&r);
    assert_non_null(strstr(r.out, "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n"));
    run_free(&r);
    const char *file = scratch_write(&scratch, "messages.json", "[", 1);
    expect_error(forge_run(NULL, "tokenize", "-q", "-m", CHAT, "--messages", file, NULL), 2, file);
    expect_error(forge_run("{}", "tokenize", "-q", "-m", CHAT, "--messages", "-", NULL), 2,
                 "field messages");
    expect_error(forge_run(NULL, "tokenize", "-m", CHAT, "--decode", "275", NULL), 2, "275");
    expect_error(forge_run(NULL, "tokenize", "-m", CHAT, "--decode", "1,x", NULL), 2,
                 "field token 1");
    expect_error(forge_run(NULL, "tokenize", "-m", CHAT, "x", "--render", NULL), 2,
                 "field --render");
}

static void test_logits(void **state)
{
    (void)state;
    char first[512], path[512];
    snprintf(first, sizeof first, "%s", scratch_path(&scratch, "first.npy"));
    expect_ok(forge_run(NULL, "eval", "logits", "-m", BARE, "--tokens", BARE "/tokens.npy", "--out",
                        first, NULL),
              "");
    struct fg_npy a, b;
    struct fg_error err;
    assert_int_equal(fg_npy_open(&a, first, &err), 0);
    assert_int_equal(a.rank, 2);
    assert_int_equal(a.shape[0], 600);
    assert_int_equal(a.shape[1], 96);
    // The same bits for every row count, thread count and kernel path.
    static const char *const rows[] = {"1", "4", "8", "64"};
    for (size_t i = 0; i < 4; i++) {
        for (int isa = 0; isa < forge_isa_count(); isa += i == 1 ? 1 : forge_isa_count()) {
            char level[48];
            snprintf(level, sizeof level, "FORGE_ISA=%s", forge_isa_name(isa));
            const char *const env[] = {level, NULL};
            snprintf(path, sizeof path, "%s", scratch_path(&scratch, "again.npy"));
            expect_ok(forge_env(env, "eval", "logits", "-m", BARE, "--tokens", BARE "/tokens.npy",
                                "--out", path, "--rows", rows[i], "--threads", i % 2 ? "1" : "2",
                                NULL),
                      "");
            assert_int_equal(fg_npy_open(&b, path, &err), 0);
            if (memcmp(a.data, b.data, a.n * 4) != 0) print_error("rows %s, %s\n", rows[i], level);
            assert_memory_equal(a.data, b.data, a.n * 4);
            fg_npy_close(&b);
        }
    }
    // A tap, and a text file of ids.
    char ids[512];
    snprintf(ids, sizeof ids, "%s", scratch_write(&scratch, "ids.txt", "1, 2\n3\n", 7));
    expect_ok(forge_run(NULL, "eval", "logits", "-m", BARE, "--tokens", ids, "--out", path, "--tap",
                        "attn_norm", "--tap-layer", "1", "--rows", "1", NULL),
              "");
    assert_int_equal(fg_npy_open(&b, path, &err), 0);
    assert_int_equal(b.shape[0], 3);
    assert_int_equal(b.shape[1], 32);
    fg_npy_close(&b);
    fg_npy_close(&a);

    struct run_result r = forge_run(NULL, "eval", "logits", "-m", BARE, "--tokens", "1", "--out",
                                    scratch_path(&scratch, "none.npy"), "--tap", "nope", NULL);
    assert_int_equal(r.code, 2);
    assert_int_equal(access(scratch_path(&scratch, "none.npy"), F_OK), -1);
    run_free(&r);
    expect_error(forge_run(NULL, "eval", "logits", "-m", BARE, "--tokens", "96", "--out", path,
                           "--no-progress", NULL),
                 2, "expected 0 to 95");
}

static void test_inspect_text(void **state)
{
    (void)state;
    struct run_result r = forge_run(NULL, "inspect", BARE, NULL);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "qwen3_5"));
    assert_non_null(strstr(r.out, "3 linear"));
    run_free(&r);
    r = forge_run(NULL, "inspect", BARE, "--tensors", "layers.3.*norm.weight", NULL);
    assert_non_null(strstr(r.out, "model.layers.3.self_attn.q_norm.weight"));
    assert_null(strstr(r.out, "layers.2."));
    run_free(&r);
    r = forge_run(NULL, "inspect", BARE "/tokens.npy", NULL);
    assert_non_null(strstr(r.out, "shape        ["));
    run_free(&r);
    r = forge_run(NULL, "inspect", FORGE_GOLDEN_DIR "/gguf/dequant.gguf", NULL);
    assert_non_null(strstr(r.out, "IQ3_XXS"));
    assert_non_null(strstr(r.out, " 3.0625 bits per weight"));
    run_free(&r);
    r = forge_run(NULL, "inspect", BARE, "--tensors", "nope*", NULL);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "no tensor matches nope*"));
    run_free(&r);
    expect_error(forge_run(NULL, "inspect", BARE, "--tensor", "nope", NULL), 2, "no such tensor");
    // Cut anywhere: one line and 2, never a crash.
    FILE *f = fopen(BARE "/model.safetensors", "rb");
    assert_non_null(f);
    static char bytes[1 << 18];
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t i = 0; i < 64; i++) {
        const char *path = scratch_write(&scratch, "cut.safetensors", bytes, n * i / 64);
        expect_error(forge_run(NULL, "inspect", path, NULL), 2, path);
    }
}

static void test_closed_pipe(void **state)
{
    (void)state;
    // The reader is gone before anything is written.
    const char *argv[] = {"/bin/bash", "-c",
                          "(sleep 0.2; exec \"$0\" help --json) | true; exit ${PIPESTATUS[0]}",
                          FORGE_BINARY, NULL};
    struct run_result r = run_program(argv, no_env, NULL);
    if (r.code != 141 || r.n_err) show(&r);
    assert_int_equal(r.code, 141);
    assert_int_equal(r.n_err, 0);
    run_free(&r);
    const char *full[] = {"/bin/bash", "-c", "\"$0\" help --json > /dev/full", FORGE_BINARY, NULL};
    r = run_program(full, no_env, NULL);
    if (r.code != 5) show(&r);
    assert_int_equal(r.code, 5);
    run_free(&r);
}

// A shell line, with forge as "$0".
static struct run_result shell(const char *line, const char *input)
{
    const char *argv[] = {"/bin/bash", "-c", line, FORGE_BINARY, scratch.dir, CHAT, NULL};
    return run_program(argv, no_env, input);
}

// Results that get nowhere are an error with its reason.
static void test_lost_output(void **state)
{
    (void)state;
    expect_error(shell("exec \"$0\" version >&-", NULL), 2, "standard output: Bad file");
    expect_error(shell("exec \"$0\" version > /dev/full", NULL), 5, "standard output: No space");
    expect_error(shell("exec \"$0\" version --json > /dev/full", NULL), 5,
                 "standard output: No space");
    static const char *const chats[] = {"-p hi", ""};
    for (int i = 0; i < 2; i++) {
        char line[160];
        snprintf(line, sizeof line, "exec \"$0\" -q chat -m \"$2\" -n 2 %s > /dev/full", chats[i]);
        expect_error(shell(line, "hi\n"), 5, "standard output: No space");
        snprintf(line, sizeof line, "exec \"$0\" -q chat -m \"$2\" -n 2 %s >&-", chats[i]);
        expect_error(shell(line, "hi\n"), 2, "standard output: Bad file");
    }
}

// A quota is a full disk: the reason, and no temporary file.
static void test_file_size_limit(void **state)
{
    (void)state;
    expect_error(
        shell("ulimit -f 1; exec \"$0\" eval logits -m \"$2\" --tokens 1,2,3,4,5,6 --rows 1 "
              "-q --out \"$1/limited.npy\"",
              NULL),
        5, "limited.npy: File too large");
    expect_ok(shell("ls -A \"$1\" | grep limited | wc -l", NULL), "0\n");
}

// Files of a checkpoint that are something else: the reason, and no wait for a writer.
static void test_files_in_disguise(void **state)
{
    (void)state;
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json",
                                        "tokenizer_config.json", "generation_config.json"};
    static const struct {
        const char *make, *text;
    } kinds[] = {{"mkfifo", "a regular file, found a special file"},
                 {"mkdir", "a regular file, found a directory"},
                 {"ln -s missing", "No such file or directory"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            char line[600], text[160];
            snprintf(line, sizeof line,
                     "d=\"$1/disguise\"; rm -rf \"$d\"; cp -r \"$2\" \"$d\" && rm \"$d/%s\" && "
                     "%s \"$d/%s\" && exec timeout 20 \"$0\" -q generate -m \"$d\" -p hi -n 2",
                     names[i], kinds[k].make, names[i]);
            snprintf(text, sizeof text, k < 2 ? "%s: expected %s" : "%s: %s", names[i],
                     kinds[k].text);
            expect_error(shell(line, NULL), 2, text);
        }
    }
}

// Refused before the work starts: one line, none of a summary.
static void test_refused_jobs(void **state)
{
    (void)state;
    expect_error(forge_run(NULL, "eval", "logits", "-m", CHAT, "--tokens", "1,275", "--out",
                           scratch_path(&scratch, "o.npy"), NULL),
                 2, "field token 1");
    expect_error(forge_run(NULL, "eval", "logits", "-m", CHAT, "--tokens", "1", "--out",
                           scratch_path(&scratch, "missing/o.npy"), NULL),
                 2, "missing/o.npy: No such file");
}

static void test_visible(void **state)
{
    (void)state;
    struct fg_buf b = {0};
    static const char text[] = "a\n\tb\033[2J\r\x7F\xC2\x9B\xC3\xA9\xFF";
    fg_out_visible(&b, text, sizeof text - 1);
    assert_string_equal(b.data, "a\n\tb\\x1B[2J\\x0D\\x7F\\xC2\\x9B\xC3\xA9\\xFF");
    fg_buf_free(&b);
}

static int group_setup(void **state)
{
    (void)state;
    scratch_open(&scratch);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage_errors),    cmocka_unit_test(test_help_everywhere),
        cmocka_unit_test(test_quick_start),     cmocka_unit_test(test_json_success),
        cmocka_unit_test(test_json_failure),    cmocka_unit_test(test_environment),
        cmocka_unit_test(test_secrets),         cmocka_unit_test(test_strict_doctor),
        cmocka_unit_test(test_files),           cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_kv_cache),        cmocka_unit_test(test_doctor_contexts),
        cmocka_unit_test(test_build_contexts),  cmocka_unit_test(test_generate),
        cmocka_unit_test(test_reasoning_apart), cmocka_unit_test(test_tokenize),
        cmocka_unit_test(test_logits),          cmocka_unit_test(test_inspect_text),
        cmocka_unit_test(test_closed_pipe),     cmocka_unit_test(test_visible),
        cmocka_unit_test(test_lost_output),     cmocka_unit_test(test_refused_jobs),
        cmocka_unit_test(test_file_size_limit), cmocka_unit_test(test_files_in_disguise),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
