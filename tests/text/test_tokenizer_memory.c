// Opening, encoding and decoding with the first, second, ... allocation failing: each fails cleanly
// and leaves its outputs as they were. And one tokenizer that many threads use at the same time.
#include "support/scratch.h"
#include "support/tokenizer_build.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

static struct scratch scratch;

static void write_model(void)
{
    struct fg_buf json = tb_json(
        &(struct tokenizer_build){.merges = "a b\nab c\n\xC4\xA0 a\n",
                                  .pre = TB_QWEN35,
                                  .normalizer = "{\"type\":\"NFC\"}",
                                  .added = "[{\"id\":300,\"content\":\"<t>\",\"special\":true}]"});
    const char config[] = "{\"eos_token\":\"<t>\"}", generation[] = "{\"eos_token_id\":[300,1]}";
    scratch_write(&scratch, "tokenizer.json", json.data, json.len);
    scratch_write(&scratch, "tokenizer_config.json", config, sizeof config - 1);
    scratch_write(&scratch, "generation_config.json", generation, sizeof generation - 1);
    fg_buf_free(&json);
}

static const char text[] =
    "abc e\xCC\x81 abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc <t> \xFF"
    " \xE0\xA4\x95\xE0\xA4\xBE 12";

#ifndef SANITIZED // the sanitizer brings allocators of its own
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static int countdown; // 0: no failures; n: the n-th allocation from now fails
static bool failed;   // one did

// json-c crashes when memory for a key runs out, so its allocations, partly made by libc's strdup,
// are left alone.
static bool is_exempt(void *caller)
{
    Dl_info info;
    return dladdr(caller, &info) && info.dli_fname &&
           (strstr(info.dli_fname, "libjson-c") || strstr(info.dli_fname, "/libc.so"));
}

static bool fails(void *caller)
{
    if (countdown == 0) return false;
    int left = countdown;
    countdown = 0; // dladdr may allocate
    bool exempt = is_exempt(caller);
    countdown = exempt ? left : left - 1;
    if (exempt || countdown > 0) return false;
    failed = true;
    errno = ENOMEM;
    return true;
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *malloc(size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(n);
}

EXPORTED void *calloc(size_t n, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(n, size);
}

EXPORTED void *realloc(void *p, size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(p, n);
}

EXPORTED void *aligned_alloc(size_t align, size_t n)
{
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(align, n);
}

static void opening(void **state)
{
    (void)state;
    write_model();
    int n_refused = 0;
    for (int n = 1;; n++) {
        struct fg_tokenizer *tok;
        struct fg_error err = {0};
        failed = false;
        countdown = n;
        int rc = fg_tokenizer_open(&tok, scratch.dir, NULL, &err);
        countdown = 0;
        if (rc) {
            assert_true(failed);
            assert_null(tok);
            n_refused++;
        } else {
            fg_tokenizer_free(tok);
        }
        if (!failed) break;
    }
    assert_true(n_refused > 20);
}

static void encoding(void **state)
{
    (void)state;
    write_model();
    struct fg_tokenizer *tok;
    assert_int_equal(fg_tokenizer_open(&tok, scratch.dir, NULL, NULL), 0);
    struct fg_ids whole = {0};
    assert_int_equal(fg_tokenizer_encode(tok, NULL, text, sizeof text - 1, 0, &whole, NULL), 0);
    for (int n = 1;; n++) {
        struct fg_ids ids = {0};
        int32_t before = 7;
        assert_true(fg_ids_add(&ids, &before, 1));
        struct fg_error err = {0};
        failed = false;
        countdown = n;
        int rc = fg_tokenizer_encode(tok, NULL, text, sizeof text - 1, 0, &ids, &err);
        countdown = 0;
        // PCRE2 does without its stack; everything else must be reported.
        if (rc) {
            assert_int_equal(rc, FG_ERESOURCE);
            assert_int_equal(ids.n, 1);
        } else {
            assert_int_equal(ids.n, whole.n + 1);
            assert_memory_equal(ids.data + 1, whole.data, whole.n * sizeof *whole.data);
        }
        assert_int_equal(ids.data[0], 7);
        fg_ids_free(&ids);
        if (!failed) break;
    }
    struct fg_buf out = {0};
    failed = false;
    countdown = 1;
    assert_int_equal(fg_tokenizer_decode(tok, whole.data, whole.n, 0, &out, NULL), FG_ERESOURCE);
    countdown = 0;
    assert_int_equal(out.len, 0);
    fg_buf_free(&out);
    fg_ids_free(&whole);
    fg_tokenizer_free(tok);
}
#endif

enum { THREADS = 4, ROUNDS = 200 };

struct job {
    const struct fg_tokenizer *tok;
    const struct fg_ids *want;
    bool same;
};

static void *encode_often(void *arg)
{
    struct job *job = arg;
    struct fg_tok_work *work;
    if (fg_tok_work_new(&work, job->tok, NULL)) return NULL;
    job->same = true;
    for (int i = 0; i < ROUNDS; i++) {
        struct fg_ids ids = {0};
        int rc = fg_tokenizer_encode(job->tok, work, text, sizeof text - 1, 0, &ids, NULL);
        job->same &= rc == 0 && ids.n == job->want->n &&
                     !memcmp(ids.data, job->want->data, ids.n * sizeof *ids.data);
        fg_ids_free(&ids);
    }
    fg_tok_work_free(work);
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    write_model();
    struct fg_tokenizer *tok;
    struct fg_ids want = {0};
    assert_int_equal(fg_tokenizer_open(&tok, scratch.dir, NULL, NULL), 0);
    assert_int_equal(fg_tokenizer_encode(tok, NULL, text, sizeof text - 1, 0, &want, NULL), 0);
    pthread_t ids[THREADS];
    struct job jobs[THREADS];
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (struct job){tok, &want, false};
        assert_int_equal(pthread_create(&ids[i], NULL, encode_often, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        assert_true(jobs[i].same);
    }
    fg_ids_free(&want);
    fg_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifndef SANITIZED
        cmocka_unit_test(opening),
        cmocka_unit_test(encoding),
#endif
        cmocka_unit_test(threads),
    };
    scratch_open(&scratch);
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&scratch);
    return rc;
}
