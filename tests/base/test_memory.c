// Failing allocations: every call that allocates is run with its first, second, ... allocation
// failing until it succeeds, and must fail cleanly each time. Threads that can't be started too.
#include "base/arena.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/jval.h"
#include "base/progress.h"
#include "base/thread.h"
#include "support/scratch.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

static struct scratch scratch;

#ifndef SANITIZED // the sanitizer brings allocators of its own
// The program's allocators, in front of glibc's; shared libraries find them as well.
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static int countdown; // 0: no failures; n: the n-th allocation from now fails
static bool failed;   // one did

static bool fails(void)
{
    if (countdown == 0 || --countdown > 0) return false;
    failed = true;
    errno = ENOMEM;
    return true;
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

EXPORTED void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

EXPORTED void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}

EXPORTED void *aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __libc_memalign(align, n);
}

// Each returns 0 or an error code and leaves nothing behind.
static int make_arena(struct fg_error *err)
{
    struct fg_arena a;
    fg_arena_init(&a, 0);
    bool ok = fg_arena_alloc(&a, 10, 10) && fg_arena_alloc(&a, 100000, 10) &&
              fg_arena_strdup(&a, "text", 4);
    fg_arena_free(&a);
    return ok ? 0 : fg_fail_memory(err, "arena", 1);
}

static int fill_buf(struct fg_error *err)
{
    struct fg_buf b = {0};
    for (int i = 0; i < 50; i++)
        fg_buf_printf(&b, "%d words, ", i);
    fg_buf_json_str(&b, "a\nb", 3);
    bool ok = !b.failed;
    if (b.len > 8) assert_memory_equal(b.data, "0 words,", 8);
    fg_buf_free(&b);
    return ok ? 0 : fg_fail_memory(err, "buf", 1);
}

static int map_file(struct fg_error *err)
{
    struct fg_map map;
    int rc = fg_map_open(&map, scratch.path, err);
    if (rc) assert_true(!map.data && !map.path && map.bytes == 0);
    fg_map_close(&map);
    return rc;
}

static int read_file(struct fg_error *err)
{
    struct fg_buf b = {0};
    int rc = fg_file_read(&b, scratch.path, 1 << 20, err);
    if (rc) assert_int_equal(b.len, 0);
    fg_buf_free(&b);
    return rc;
}

static int replace_file(struct fg_error *err)
{
    char path[600];
    snprintf(path, sizeof path, "%s.copy", scratch.path);
    int rc = fg_file_replace(path, "x", 1, err);
    // It may be in place although the sync of its folder failed.
    if (rc && strcmp(err->what, "sync directory") != 0) assert_false(fg_file_exists(path));
    unlink(path);
    return rc;
}

static int make_dirs(struct fg_error *err)
{
    return fg_dir_make(scratch.dir, err);
}

static int make_pool(struct fg_error *err)
{
    struct fg_pool *pool;
    int rc = fg_pool_new(&pool, 1, err);
    if (rc) assert_null(pool);
    fg_pool_free(pool);
    return rc;
}

static int hash_file(struct fg_error *err)
{
    char hex[FG_SHA256_HEX];
    int rc = fg_sha256_file(scratch.path, hex, err);
    assert_int_equal(strlen(hex), rc ? 0 : 64);
    return rc;
}

static int hash_pieces(struct fg_error *err)
{
    char hex[FG_SHA256_HEX];
    struct fg_sha256 *h = fg_sha256_new();
    if (!h) return fg_fail_memory(err, "sha256", 1);
    fg_sha256_add(h, "abc", 3);
    fg_sha256_end(h, hex);
    assert_memory_equal(hex, "ba7816bf", 8);
    return 0;
}

static int show_progress(struct fg_error *err)
{
    struct fg_progress *p = fg_progress_new(NULL, FG_PROGRESS_NONE, "p", 1, FG_PROGRESS_COUNT);
    int rc = p ? 0 : fg_fail_memory(err, "progress", 1);
    fg_progress_set(p, 1, "item");
    fg_progress_end(p, true);
    return rc;
}

static int parse_values(struct fg_error *err)
{
    struct fg_jdoc doc;
    const char text[] = "{\"a\":[1,2,{\"b\":null}],\"c\":\"d\",\"a\":3}";
    int rc = fg_jdoc_parse(&doc, text, sizeof text - 1, "t", err);
    fg_jdoc_free(&doc);
    return rc;
}

// Scalars only: json-c 0.16 itself ends in a crash when a key can't be copied.
static int parse_json(struct fg_error *err)
{
    struct fg_json doc;
    int rc = fg_json_parse(&doc, "12345", 5, "t", err);
    if (rc) assert_true(!doc.root && !doc.file);
    if (!rc) assert_int_equal(json_object_get_int(doc.root), 12345);
    fg_json_close(&doc);
    // Nor does it always tell that memory is out from a text that is cut off.
    return rc ? fg_fail_memory(err, "json", 5) : 0;
}

static const struct {
    const char *name;
    int (*run)(struct fg_error *err);
} cases[] = {
    {"arena", make_arena},       {"buf", fill_buf},          {"map", map_file},
    {"read", read_file},         {"replace", replace_file},  {"mkdir", make_dirs},
    {"pool", make_pool},         {"sha256 file", hash_file}, {"sha256", hash_pieces},
    {"progress", show_progress}, {"jval", parse_values},     {"json", parse_json},
};

static void test_each_allocation_fails_once(void **state)
{
    (void)state;
    struct fg_error err;
    char line[2048];
    scratch_write(&scratch, "file", "content", 7);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(cases[i].run(&err), 0); // and libraries make what they keep
        for (int nth = 1;; nth++) {
            countdown = nth;
            failed = false;
            int rc = cases[i].run(&err);
            countdown = 0;
            if (!failed) { // no n-th allocation: the call is through
                assert_int_equal(rc, 0);
                assert_true(nth > 1);
                break;
            }
            // A call may do without an allocation (asprintf without its last realloc) if it says
            // so and has done its work, which run checks; the first is never one of those.
            if (rc != FG_ERESOURCE && (rc != 0 || nth == 1))
                fail_msg("%s, allocation %d: rc %d, %s", cases[i].name, nth, rc,
                         rc ? fg_error_line(&err, line, sizeof line) : "");
            assert_true(nth < 1000);
        }
    }
}

// Address space for a few stacks only.
static void test_threads_that_cannot_start(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {400u << 20, 400u << 20};
        struct fg_pool *pool;
        struct fg_error err;
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(3);
        int rc = fg_pool_new(&pool, 200, &err); // 200 stacks of 8 MiB
        if (rc != FG_ERESOURCE || pool) _exit(4);
        if (fg_pool_new(&pool, 3, &err) != 0) _exit(5); // what was started has gone again
        fg_pool_free(pool);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}
#endif

static int setup(void **state)
{
    (void)state;
    scratch_open(&scratch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_close(&scratch);
    return 0;
}

#ifdef SANITIZED
static void test_needs_a_build_without_sanitizers(void **state)
{
    (void)state;
    skip();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef SANITIZED
        cmocka_unit_test(test_needs_a_build_without_sanitizers),
#else
        cmocka_unit_test(test_each_allocation_fails_once),
        cmocka_unit_test(test_threads_that_cannot_start),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
