// Maps, reads, folders, paths and atomic replacement.
#include "base/buf.h"
#include "base/file.h"
#include "support/scratch.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static struct scratch scratch;

// Asserts that the file holds these n bytes.
static void expect_content(const char *path, const void *data, size_t n)
{
    char got[4096];
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    assert_true(n < sizeof got);
    assert_int_equal(fread(got, 1, sizeof got, f), n);
    assert_memory_equal(got, data, n);
    fclose(f);
}

static int count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

// A fresh folder inside the scratch folder.
static const char *fresh_dir(const char *name)
{
    static char dir[600];
    snprintf(dir, sizeof dir, "%s", scratch_path(&scratch, name));
    assert_int_equal(mkdir(dir, 0777), 0);
    return dir;
}

static char *in(const char *dir, const char *name)
{
    char *p = fg_path_join(dir, name);
    assert_non_null(p);
    return p;
}

static void test_map_gives_the_bytes(void **state)
{
    (void)state;
    unsigned char data[10000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 + i / 256);
    struct fg_map map;
    struct fg_error err;
    const char *path = scratch_write(&scratch, "map", data, sizeof data);
    assert_int_equal(fg_map_open(&map, path, &err), 0);
    assert_int_equal(map.bytes, sizeof data);
    assert_memory_equal(map.data, data, sizeof data);
    assert_string_equal(map.path, path);
    uint32_t v32;
    uint64_t v64;
    for (uint64_t at = 0; at < 64; at++) { // odd addresses too
        assert_int_equal(fg_map_le32(&map, at, &v32, &err), 0);
        assert_int_equal(v32, data[at] | (uint32_t)data[at + 1] << 8 |
                                  (uint32_t)data[at + 2] << 16 | (uint32_t)data[at + 3] << 24);
        assert_int_equal(fg_map_le64(&map, at, &v64, &err), 0);
        uint64_t want = 0;
        for (int i = 7; i >= 0; i--)
            want = want << 8 | data[at + (uint64_t)i];
        assert_true(v64 == want);
    }
    fg_map_prefetch(&map, 0, map.bytes);
    fg_map_prefetch(&map, 4097, 1000);
    fg_map_prefetch(&map, 0, UINT64_MAX); // outside: ignored
    fg_map_prefetch(&map, 0, 0);
    fg_map_close(&map);
    assert_null(map.data);
    fg_map_close(&map); // twice is fine
}

static void test_map_ranges(void **state)
{
    (void)state;
    struct fg_map map;
    struct fg_error err;
    char line[2048];
    assert_int_equal(fg_map_open(&map, scratch_write(&scratch, "r", "0123456789", 10), &err), 0);
    assert_true(fg_map_holds(&map, 0, 10));
    assert_true(fg_map_holds(&map, 10, 0));
    assert_true(fg_map_holds(&map, 9, 1));
    assert_false(fg_map_holds(&map, 0, 11));
    assert_false(fg_map_holds(&map, 10, 1));
    assert_false(fg_map_holds(&map, 11, 0));
    assert_false(fg_map_holds(&map, UINT64_MAX, 0));
    assert_false(fg_map_holds(&map, UINT64_MAX, UINT64_MAX));
    assert_false(fg_map_holds(&map, 1, UINT64_MAX));
    assert_false(fg_map_holds(&map, 5, UINT64_MAX - 4));
    uint32_t v32 = 7;
    uint64_t v64 = 7;
    assert_int_equal(fg_map_le32(&map, 6, &v32, &err), 0);
    assert_int_equal(fg_map_le64(&map, 2, &v64, &err), 0);
    v32 = 7, v64 = 7;
    const uint64_t bad[] = {7, 10, 11, UINT64_MAX - 3, UINT64_MAX};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(fg_map_le32(&map, bad[i], &v32, &err), FG_EINPUT);
        assert_int_equal(fg_map_le64(&map, bad[i], &v64, &err), FG_EINPUT);
    }
    assert_int_equal(v32, 7);
    assert_int_equal(v64, 7);
    assert_int_equal(fg_map_le64(&map, 3, &v64, &err), FG_EINPUT);
    fg_error_line(&err, line, sizeof line);
    assert_non_null(strstr(line, scratch.path));
    assert_non_null(strstr(line, "offset 3"));
    assert_non_null(strstr(line, "10"));
    fg_map_close(&map);
}

static void test_map_refuses_what_is_no_file(void **state)
{
    (void)state;
    struct fg_map map;
    struct fg_error err;
    uint32_t v;
    // An empty file is a file.
    assert_int_equal(fg_map_open(&map, scratch_write(&scratch, "empty", "", 0), &err), 0);
    assert_null(map.data);
    assert_int_equal(map.bytes, 0);
    assert_true(fg_map_holds(&map, 0, 0));
    assert_int_equal(fg_map_le32(&map, 0, &v, &err), FG_EINPUT);
    fg_map_prefetch(&map, 0, 0);
    fg_map_close(&map);

    char fifo[600], dangling[600], loop[600];
    snprintf(fifo, sizeof fifo, "%s", scratch_path(&scratch, "fifo"));
    snprintf(dangling, sizeof dangling, "%s", scratch_path(&scratch, "dangling"));
    snprintf(loop, sizeof loop, "%s", scratch_path(&scratch, "loop"));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("/proc/nonexistent/target", dangling), 0);
    assert_int_equal(symlink(loop, loop), 0);
    const char *const bad[] = {fifo, dangling, loop, scratch.dir, "/dev/null", "/proc/nonexistent",
                               ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(&map, 0xFF, sizeof map);
        alarm(10); // a FIFO without a writer would block for ever
        assert_int_equal(fg_map_open(&map, bad[i], &err), FG_EINPUT);
        alarm(0);
        assert_string_equal(err.file, bad[i]);
        assert_true(err.found[0] != '\0');
        assert_null(map.data);
        assert_null(map.path);
        assert_int_equal(map.bytes, 0);

        struct fg_buf b = {0};
        alarm(10);
        assert_int_equal(fg_file_load(&b, bad[i], 100, &err), FG_EINPUT);
        alarm(0);
        assert_string_equal(err.file, bad[i]);
        assert_null(b.data);
        assert_int_equal(fg_path_taken(bad[i]), i < 5);
    }
    assert_false(fg_path_taken("/dev/null/below"));
}

static void test_out_of_handles_is_a_resource(void **state)
{
    (void)state;
    struct rlimit old, none;
    struct fg_map map;
    struct fg_error err;
    const char *path = scratch_write(&scratch, "h", "x", 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){0, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int rc = fg_map_open(&map, path, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(rc, FG_ERESOURCE);
}

static void test_read(void **state)
{
    (void)state;
    struct fg_buf b = {0};
    struct fg_error err;
    fg_buf_str(&b, "old content");
    assert_int_equal(fg_file_read(&b, scratch_write(&scratch, "f", "a\0b", 3), 3, &err), 0);
    assert_int_equal(b.len, 3);
    assert_memory_equal(b.data, "a\0b", 4);
    assert_int_equal(fg_file_read(&b, scratch.path, 2, &err), FG_EINPUT);
    assert_int_equal(b.len, 0);
    assert_string_equal(err.expected, "at most 2 bytes");
    assert_int_equal(fg_file_read(&b, scratch_write(&scratch, "e", "", 0), 0, &err), 0);
    assert_string_equal(b.data, "");
    assert_int_equal(fg_file_read(&b, scratch.dir, 100, &err), FG_EINPUT);
    assert_int_equal(fg_file_read(&b, "/proc/nonexistent", 100, &err), FG_EINPUT);
    assert_int_equal(b.len, 0);
    // A source without an end stops at the limit.
    assert_int_equal(fg_file_read(&b, "/dev/zero", 1 << 20, &err), FG_EINPUT);
    assert_null(b.data);
    static char large[1 << 20];
    memset(large, 'L', sizeof large);
    assert_int_equal(
        fg_file_read(&b, scratch_write(&scratch, "l", large, sizeof large), sizeof large, &err), 0);
    assert_int_equal(b.len, sizeof large);
    assert_memory_equal(b.data, large, sizeof large);
    assert_int_equal(fg_file_load(&b, scratch.path, sizeof large, &err), 0);
    assert_int_equal(b.len, sizeof large);
    assert_int_equal(fg_file_load(&b, scratch.path, sizeof large - 1, &err), FG_EINPUT);
    fg_buf_free(&b);
}

static void test_read_stdin_from_a_pipe(void **state)
{
    (void)state;
    struct fg_buf b = {0};
    struct fg_error err;
    int ends[2], saved = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        for (int i = 0; i < 200; i++) { // more than a pipe holds, in small pieces
            char piece[1000];
            memset(piece, 'p', sizeof piece);
            if (write(ends[1], piece, sizeof piece) < 0) _exit(1);
        }
        _exit(0);
    }
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    int rc = fg_file_read(&b, "-", 1 << 20, &err);
    if (saved >= 0) {
        dup2(saved, STDIN_FILENO);
        close(saved);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(b.len, 200000);
    assert_int_equal(waitpid(child, NULL, 0), child);
    fg_buf_free(&b);
}

static void test_exists(void **state)
{
    (void)state;
    assert_true(fg_file_exists(scratch_write(&scratch, "x", "", 0)));
    assert_false(fg_dir_exists(scratch.path));
    assert_true(fg_dir_exists(scratch.dir));
    assert_false(fg_file_exists(scratch.dir));
    assert_false(fg_file_exists("/proc/nonexistent"));
    assert_false(fg_dir_exists("/proc/nonexistent"));
}

static void test_dir_make(void **state)
{
    (void)state;
    struct fg_error err;
    const char *dir = fresh_dir("mk");
    char *deep = in(dir, "a/b//c/"), *file = in(dir, "file"), *below = in(dir, "file/x");
    assert_int_equal(fg_dir_make(deep, &err), 0);
    assert_true(fg_dir_exists(deep));
    assert_int_equal(fg_dir_make(deep, &err), 0); // again is fine
    assert_int_equal(fg_dir_make("/", &err), 0);
    assert_int_equal(fg_dir_make(".", &err), 0);
    assert_int_equal(fg_dir_make("", &err), FG_EINPUT);
    fclose(fopen(file, "we"));
    assert_int_equal(fg_dir_make(file, &err), FG_EINPUT);
    assert_string_equal(err.found, strerror(ENOTDIR));
    assert_int_equal(fg_dir_make(below, &err), FG_EINPUT);
    assert_int_equal(fg_dir_make("/proc/forge-test", &err), FG_EINPUT);
    free(deep);
    free(file);
    free(below);
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const joins[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"", "b", "b"}, {"/", "b", "/b"}, {"a", "", "a/"}};
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        char *p = fg_path_join(joins[i][0], joins[i][1]);
        assert_string_equal(p, joins[i][2]);
        free(p);
    }
    static const char *const expansions[][2] = {
        {"~", "/home/me"},
        {"~/x/y", "/home/me/x/y"},
        {"plain", "plain"},
        {"a/~/b", "a/~/b"},
        {"", ""},
        {"~no-such-user/x", "~no-such-user/x"},
        {"~root/x", "/root/x"},
    };
    for (size_t i = 0; i < sizeof expansions / sizeof expansions[0]; i++) {
        char *p = fg_path_expand(expansions[i][0], "/home/me");
        assert_string_equal(p, expansions[i][1]);
        free(p);
    }
    char *p = fg_path_expand("~/x", NULL); // from the user database
    assert_non_null(strstr(p, "/x"));
    assert_true(p[0] == '/');
    free(p);
    char longer[5000];
    memset(longer, 'u', sizeof longer - 1);
    longer[0] = '~';
    longer[sizeof longer - 1] = '\0';
    p = fg_path_expand(longer, NULL);
    assert_string_equal(p, longer);
    free(p);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void test_replace_makes_and_replaces(void **state)
{
    (void)state;
    struct fg_error err;
    const char *dir = fresh_dir("rep");
    char *path = in(dir, "file");
    mode_t mask = umask(027);
    assert_int_equal(fg_file_replace(path, "one", 3, &err), 0);
    expect_content(path, "one", 3);
    assert_int_equal(mode_of(path), 0640); // a new file follows the umask
    umask(mask);
    assert_int_equal(chmod(path, 0604), 0);
    assert_int_equal(fg_file_replace(path, "second", 6, &err), 0);
    expect_content(path, "second", 6);
    assert_int_equal(mode_of(path), 0604); // a replaced one keeps its mode
    assert_int_equal(fg_file_replace(path, "", 0, &err), 0);
    expect_content(path, "", 0);
    assert_int_equal(count_entries(dir), 1);
    free(path);

    char name[256]; // the longest name that a folder holds
    memset(name, 'n', 255);
    name[255] = '\0';
    path = in(dir, name);
    assert_int_equal(fg_file_replace(path, "x", 1, &err), 0);
    expect_content(path, "x", 1);
    free(path);

    char here[4096]; // a name without a folder
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(fg_file_replace("bare", "y", 1, &err), 0);
    expect_content("bare", "y", 1);
    assert_int_equal(chdir(here), 0);
}

static void test_abort_leaves_the_old_file(void **state)
{
    (void)state;
    struct fg_error err;
    struct fg_atomic f;
    const char *dir = fresh_dir("abort");
    char *path = in(dir, "file");
    assert_int_equal(fg_file_replace(path, "old", 3, &err), 0);
    assert_int_equal(fg_atomic_open(&f, path, &err), 0);
    assert_int_equal(fg_atomic_write(&f, "new", 3, &err), 0);
    assert_int_equal(f.bytes, 3);
    expect_content(path, "old", 3); // not before the commit
    assert_int_equal(count_entries(dir), 2);
    fg_atomic_abort(&f);
    expect_content(path, "old", 3);
    assert_int_equal(count_entries(dir), 1);
    fg_atomic_abort(&f); // twice is fine
    assert_int_equal(fg_atomic_open(&f, path, &err), 0);
    assert_int_equal(fg_atomic_commit(&f, &err), 0);
    fg_atomic_abort(&f); // after the commit too
    expect_content(path, "", 0);
    f = (struct fg_atomic){0};
    fg_atomic_abort(&f);
    assert_true(fcntl(0, F_GETFD) != -1 || errno == EBADF); // and descriptor 0 was not its to close
    free(path);
}

static void test_a_header_is_written_last(void **state)
{
    (void)state;
    struct fg_error err;
    struct fg_atomic f;
    char *path = in(fresh_dir("header"), "file");
    assert_int_equal(fg_atomic_open(&f, path, &err), 0);
    assert_int_equal(fg_atomic_write(&f, "....body", 8, &err), 0);
    assert_int_equal(fg_atomic_write_at(&f, 0, "head", 4, &err), 0);
    assert_int_equal(fg_atomic_write(&f, " tail", 5, &err), 0); // goes on at the end
    assert_int_equal(fg_atomic_write_at(&f, 13, "", 0, &err), 0);
    assert_int_equal(f.bytes, 13);
    assert_int_equal(fg_atomic_commit(&f, &err), 0);
    expect_content(path, "headbody tail", 13);
    free(path);
}

static void test_refused_targets(void **state)
{
    (void)state;
    struct fg_error err;
    struct fg_atomic f;
    const char *dir = fresh_dir("targets");
    struct stat before, after;
    assert_int_equal(stat("/dev/null", &before), 0);
    // As root a rename would put a plain file in the device's place.
    assert_int_equal(fg_file_replace("/dev/null", "x", 1, &err), FG_EINPUT);
    assert_int_equal(stat("/dev/null", &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(fg_atomic_open(&f, dir, &err), FG_EINPUT);
    fg_atomic_abort(&f); // after a failed open: nothing happens
    assert_int_equal(fg_atomic_open(&f, "/proc/nonexistent/file", &err), FG_EINPUT);
    assert_string_equal(err.file, "/proc/nonexistent/file");
    assert_int_equal(fg_atomic_open(&f, "", &err), FG_EINPUT);
    assert_int_equal(count_entries(dir), 0);
}

static void test_a_symbolic_link_is_replaced(void **state)
{
    (void)state;
    struct fg_error err;
    struct stat st;
    const char *dir = fresh_dir("links");
    char *target = in(dir, "target"), *link = in(dir, "link");
    assert_int_equal(fg_file_replace(target, "kept", 4, &err), 0);
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(fg_file_replace(link, "new", 3, &err), 0);
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISREG(st.st_mode));
    expect_content(target, "kept", 4);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("nowhere", link), 0); // dangling
    assert_int_equal(fg_file_replace(link, "new", 3, &err), 0);
    expect_content(link, "new", 3);
    free(target);
    free(link);
}

static void test_a_full_disk_leaves_the_old_file(void **state)
{
    (void)state;
    struct fg_error err;
    static char large[100000];
    const char *dir = fresh_dir("full");
    char *path = in(dir, "file");
    assert_int_equal(fg_file_replace(path, "old", 3, &err), 0);
    // A file size limit stands in for a full disk: the write comes back short, then fails.
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){50000, old.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int rc = fg_file_replace(path, large, sizeof large, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(rc, FG_ERESOURCE);
    assert_string_equal(err.file, path);
    expect_content(path, "old", 3);
    assert_int_equal(count_entries(dir), 1);

    // And /dev/full for ENOSPC itself, behind the descriptor of an open replacement.
    struct fg_atomic f;
    assert_int_equal(fg_atomic_open(&f, path, &err), 0);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full >= 0) {
        assert_true(dup2(full, f.fd) >= 0);
        close(full);
        assert_int_equal(fg_atomic_write(&f, "x", 1, &err), FG_ERESOURCE);
        assert_string_equal(err.found, strerror(ENOSPC));
    }
    fg_atomic_abort(&f);
    expect_content(path, "old", 3);
    free(path);
}

static void test_a_failed_sync_leaves_the_old_file(void **state)
{
    (void)state;
    struct fg_error err;
    struct fg_atomic f;
    const char *dir = fresh_dir("sync");
    char *path = in(dir, "file");
    int ends[2];
    assert_int_equal(fg_file_replace(path, "old", 3, &err), 0);
    assert_int_equal(fg_atomic_open(&f, path, &err), 0);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], f.fd) >= 0); // a pipe can't be synced
    assert_int_equal(fg_atomic_commit(&f, &err), FG_EINPUT);
    assert_string_equal(err.what, "sync");
    close(ends[0]);
    close(ends[1]);
    expect_content(path, "old", 3);
    assert_int_equal(count_entries(dir), 1);
    free(path);
}

static void test_kill_in_the_middle_leaves_the_old_file(void **state)
{
    (void)state;
    struct fg_error err;
    const char *dir = fresh_dir("kill");
    char *path = in(dir, "file");
    assert_int_equal(fg_file_replace(path, "old", 3, &err), 0);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct fg_atomic f;
        if (fg_atomic_open(&f, path, &err) || fg_atomic_write(&f, "half of it", 10, &err) ||
            write(ready[1], "!", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    expect_content(path, "old", 3);
    assert_int_equal(fg_file_replace(path, "next run", 8, &err), 0); // what stayed behind is no bar
    expect_content(path, "next run", 8);
    free(path);
}

// A reader sees a whole old or a whole new file, never anything between.
static void test_readers_see_whole_files(void **state)
{
    (void)state;
    struct fg_error err;
    enum { BYTES = 3000 };
    static char block[BYTES];
    const char *dir = fresh_dir("whole");
    char *path = in(dir, "file");
    memset(block, 'A', BYTES);
    assert_int_equal(fg_file_replace(path, block, BYTES, &err), 0);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0;; i++) {
            memset(block, 'A' + i % 26, BYTES);
            if (fg_file_replace(path, block, BYTES, &err)) _exit(1);
        }
    }
    for (int i = 0; i < 300; i++) {
        struct fg_map map;
        assert_int_equal(fg_map_open(&map, path, &err), 0);
        assert_int_equal(map.bytes, BYTES);
        for (size_t k = 1; k < BYTES; k++)
            assert_int_equal(map.data[k], map.data[0]);
        fg_map_close(&map);
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    free(path);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_gives_the_bytes),
        cmocka_unit_test(test_map_ranges),
        cmocka_unit_test(test_map_refuses_what_is_no_file),
        cmocka_unit_test(test_out_of_handles_is_a_resource),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_read_stdin_from_a_pipe),
        cmocka_unit_test(test_exists),
        cmocka_unit_test(test_dir_make),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_replace_makes_and_replaces),
        cmocka_unit_test(test_abort_leaves_the_old_file),
        cmocka_unit_test(test_a_header_is_written_last),
        cmocka_unit_test(test_refused_targets),
        cmocka_unit_test(test_a_symbolic_link_is_replaced),
        cmocka_unit_test(test_a_full_disk_leaves_the_old_file),
        cmocka_unit_test(test_a_failed_sync_leaves_the_old_file),
        cmocka_unit_test(test_kill_in_the_middle_leaves_the_old_file),
        cmocka_unit_test(test_readers_see_whole_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
