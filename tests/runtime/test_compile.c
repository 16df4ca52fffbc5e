// forge compile as a library, on a small synthetic bundle: what is made and that it is right, what
// is kept, and that nothing ends it halfway: killed at any write, disks that fail, damaged files,
// two at once (specs: runtime 9.1, P3 to P6).
#include "base/buf.h"
#include "base/file.h"
#include "base/thread.h"
#include "bundle/synth.h"
#include "format/build.h"
#include "kernels/kernels.h"
#include "quant/tiles.h"
#include "runtime/cache.h"
#include "runtime/compile.h"
#include "runtime/compile_impl.h"
#include "support/scratch.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#define PACKAGES 3 // two chunks of four layers, the head
#define FILES_MAX 16

static struct scratch scratch;

// ---- the system calls of writing, in front of the C library's

enum fault {
    FAULT_NONE,
    FAULT_ENOSPC,
    FAULT_EIO,
    FAULT_SHORT,
    FAULT_KILL,
    FAULT_FLIP,
    FAULT_BLOCK
};
static enum fault fault;
static int countdown;       // the n-th call from now on fails; 0: none
static int calls;           // since the last reset
static bool every_time;     // FAULT_FLIP: not only once
static int gate[2];         // FAULT_BLOCK waits until something can be read here
static pid_t target;        // the process that is to fail; not its children
static uint64_t free_bytes; // of the disk; 0: plenty

static bool fails_now(void)
{
    if (getpid() != target) return false;
    calls++;
    return countdown > 0 && --countdown == 0;
}

static int fault_errno(void)
{
    if (fault == FAULT_KILL) raise(SIGKILL);
    if (fault == FAULT_BLOCK) {
        char c;
        while (syscall(SYS_read, gate[0], &c, 1) < 0)
            ;
        return 0;
    }
    return fault == FAULT_EIO ? EIO : fault == FAULT_ENOSPC ? ENOSPC : 0;
}

ssize_t write(int fd, const void *data, size_t n)
{
    if (fd <= 2 || n == 0 || fault == FAULT_NONE) return syscall(SYS_write, fd, data, n);
    if (fault == FAULT_FLIP && n < 10000) return syscall(SYS_write, fd, data, n);
    bool now = fails_now();
    if (fault == FAULT_FLIP && (now || (every_time && countdown == 0))) {
        uint8_t *copy = malloc(n);
        memcpy(copy, data, n);
        copy[n / 2] ^= 16;
        ssize_t r = syscall(SYS_write, fd, copy, n);
        free(copy);
        return r;
    }
    if (now && fault == FAULT_SHORT) return syscall(SYS_write, fd, data, (n + 1) / 2);
    int e = now ? fault_errno() : 0;
    if (!e) return syscall(SYS_write, fd, data, n);
    errno = e;
    return -1;
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    int e = fault != FAULT_NONE && fails_now() ? fault_errno() : 0;
    if (!e) return syscall(SYS_pwrite64, fd, data, n, at);
    errno = e;
    return -1;
}

int fsync(int fd)
{
    int e = fault != FAULT_NONE && fails_now() ? fault_errno() : 0;
    if (!e) return 0; // nothing here must outlast the machine
    (void)fd;
    errno = e;
    return -1;
}

int rename(const char *from, const char *to)
{
    int e = fault != FAULT_NONE && fails_now() ? fault_errno() : 0;
    if (!e) return (int)syscall(SYS_rename, from, to);
    errno = e;
    return -1;
}

int statvfs(const char *path, struct statvfs *v)
{
    struct stat st;
    if (stat(path, &st) != 0) return -1;
    uint64_t bytes = free_bytes ? free_bytes : UINT64_C(1) << 40;
    *v = (struct statvfs){.f_frsize = 1, .f_bsize = 1, .f_bavail = bytes};
    return 0;
}

static void set_fault(enum fault f, int n)
{
    fault = f;
    target = getpid();
    countdown = n;
    calls = 0;
    every_time = false;
}

// ---- running

struct seen {
    int counts[FG_COMPILE_DONE + 1];
    uint64_t packages, missing, made, bytes;
    char text[512], isa[32];
    long pid;
    int stop_after;             // events; 0: never
    int events, stops, stop_at; // stop_at: the n-th question; 0: never
    bool open_gate_when_waiting;
    char build[600], state[600]; // what the options point to
};

static void on_event(void *ctx, const struct fg_compile_event *e)
{
    struct seen *s = ctx;
    s->counts[e->kind]++;
    s->events++;
    s->packages = e->packages;
    if (e->kind == FG_COMPILE_PLAN) s->missing = e->missing, s->bytes = e->bytes;
    if (e->kind == FG_COMPILE_DONE) s->made = e->missing;
    if (e->kind == FG_COMPILE_WAITING) s->pid = e->pid;
    if (e->text) snprintf(s->text, sizeof s->text, "%s", e->text);
    snprintf(s->isa, sizeof s->isa, "%s", e->isa);
    if (e->kind == FG_COMPILE_WAITING && s->open_gate_when_waiting) {
        s->open_gate_when_waiting = false;
        assert_int_equal(syscall(SYS_write, gate[1], "x", 1), 1);
    }
}

static bool on_stop(void *ctx)
{
    struct seen *s = ctx;
    s->stops++;
    return (s->stop_at && s->stops >= s->stop_at) || (s->stop_after && s->events >= s->stop_after);
}

static char *path_of(const char *dir, const char *name)
{
    static char paths[8][600]; // in turns
    static int next;
    char *out = paths[next++ % 8];
    snprintf(out, sizeof paths[0], "%s/%s/%s", scratch.dir, dir, name);
    return out;
}

static const char *state_path(const char *name)
{
    return path_of(name, "");
}

// Forgets everything of a state directory.
static void clear_state(const char *name)
{
    nftw(state_path(name), scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct fg_compile_options options(const char *state, struct seen *s)
{
    *s = (struct seen){0};
    snprintf(s->build, sizeof s->build, "%s", path_of("bundle", ""));
    snprintf(s->state, sizeof s->state, "%s", state_path(state));
    return (struct fg_compile_options){.build_dir = s->build,
                                       .state_dir = s->state,
                                       .event = on_event,
                                       .stop = on_stop,
                                       .ctx_event = s};
}

static int compile(const struct fg_compile_options *o, struct fg_error *err)
{
    struct fg_compiled *c;
    *err = (struct fg_error){0};
    int rc = fg_compile(&c, o, err);
    assert_true(rc == 0 || c == NULL);
    fg_compiled_close(c);
    return rc;
}

// A plain run that must succeed; returns how many tile files it made.
static uint64_t compile_ok(const char *state)
{
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options(state, &s);
    int rc = compile(&o, &err);
    char line[1200];
    if (rc) print_error("%s\n", fg_error_line(&err, line, sizeof line));
    assert_int_equal(rc, 0);
    return s.made;
}

// ---- files

struct files {
    char names[FILES_MAX][96];
    struct fg_buf data[FILES_MAX];
    ino_t inodes[FILES_MAX];
    int n;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

// Files of state/builds/FOLDER, all or those that end in `end`, sorted.
static struct files list(const char *state, const char *folder, const char *end)
{
    struct files f = {0};
    char dir[64];
    snprintf(dir, sizeof dir, "%s/builds/%s", state, folder);
    DIR *d = opendir(path_of(dir, ""));
    if (!d) return f;
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name), m = end ? strlen(end) : 0;
        if (e->d_type == DT_DIR || n < m || (end && strcmp(e->d_name + n - m, end) != 0)) continue;
        assert_true(f.n < FILES_MAX);
        snprintf(f.names[f.n++], sizeof f.names[0], "%.95s", e->d_name);
    }
    closedir(d);
    qsort(f.names, (size_t)f.n, sizeof f.names[0], by_text);
    for (int i = 0; i < f.n; i++) {
        struct stat st;
        const char *path = path_of(dir, f.names[i]);
        assert_int_equal(stat(path, &st), 0);
        f.inodes[i] = st.st_ino;
        assert_int_equal(fg_file_load(&f.data[i], path, 1u << 30, NULL), 0);
    }
    return f;
}

static void free_files(struct files *f)
{
    for (int i = 0; i < f->n; i++)
        fg_buf_free(&f->data[i]);
}

static void expect_same(const struct files *a, const struct files *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        assert_string_equal(a->names[i], b->names[i]);
        assert_int_equal(a->data[i].len, b->data[i].len);
        assert_memory_equal(a->data[i].data, b->data[i].data, a->data[i].len);
    }
}

static struct files good_tiles, good_plans; // of an undisturbed run

// Tile files and plan are those of an undisturbed run, and nothing else is there.
static void expect_good(const char *state)
{
    struct files t = list(state, "tiles", NULL), p = list(state, "plans", NULL);
    expect_same(&t, &good_tiles);
    expect_same(&p, &good_plans);
    free_files(&t);
    free_files(&p);
}

// Nothing begun is left: no temporary file, no lock.
static void expect_no_leftovers(const char *state)
{
    struct fg_cache c;
    assert_int_equal(fg_cache_open(&c, state_path(state), NULL), 0);
    for (uint64_t i = 0; i < c.n; i++) {
        if (c.entries[i].kind == FG_CACHE_LEFTOVER) print_error("left: %s\n", c.entries[i].path);
        assert_int_not_equal(c.entries[i].kind, FG_CACHE_LEFTOVER);
    }
    fg_cache_close(&c);
}

static void clear_cache(const char *state)
{
    struct fg_cache c;
    assert_int_equal(fg_cache_open(&c, state_path(state), NULL), 0);
    for (uint64_t i = 0; i < c.n; i++) {
        bool kept;
        assert_int_equal(fg_cache_remove(state_path(state), &c.entries[i], &kept, NULL), 0);
        assert_false(kept);
    }
    fg_cache_close(&c);
    static const char *const folders[] = {"tiles", "plans", "tuning", ""};
    for (int i = 0; i < 4; i++) {
        struct files f = list(state, folders[i], NULL);
        if (f.n) print_error("left: %s\n", f.names[0]);
        assert_int_equal(f.n, 0);
    }
}

// ---- what is made

static void test_products(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_build *b;
    struct fg_compiled *c;
    struct fg_compile_options o = options("good", &s);
    assert_int_equal(fg_build_open(&b, path_of("bundle", ""), false, &err), 0);
    assert_int_equal(fg_compile(&c, &o, &err), 0);
    assert_int_equal(s.counts[FG_COMPILE_DONE], 1);
    const struct fg_manifest *m = fg_build_manifest(b);
    const struct fg_compile_plan *p = fg_compiled_plan(c);
    assert_int_equal(fg_compiled_count(c), PACKAGES);
    assert_int_equal(p->n_packages, PACKAGES);
    assert_int_equal(p->n_entries, m->n_ctxs); // all are below 16384
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < PACKAGES; i++) {
        const char *sha = i + 1 < PACKAGES ? m->chunks[i].sha256 : m->head.sha256;
        assert_string_equal(fg_tilefile_sha256(fg_compiled_tiles(c, i)), sha);
        assert_string_equal(p->packages[i].sha256, sha);
        assert_int_equal(p->packages[i].tile_bytes, fg_tilefile_size(fg_compiled_tiles(c, i)));
        bytes += p->packages[i].tile_bytes;
    }
    assert_int_equal(bytes, fg_compiled_bytes(c));
    for (int i = 0; i < p->n_entries; i++) {
        assert_int_equal(p->entries[i].ctx, m->ctxs[i]);
        assert_true(p->entries[i].prefill_rows >= 32);
        assert_true(p->entries[i].scratch_bytes > 4 * 8 * (uint64_t)m->model.vocab);
    }
    // Every quantized matrix, as fg_lut_build makes it, and no other.
    const struct fg_qset *set = fg_build_set(b);
    uint64_t n = 0;
    bool layouts[FG_N_LAYOUTS] = {0};
    for (uint64_t i = 0; i < set->n_mats; i++) {
        const struct fg_qmat *q = &set->mats[i].m;
        struct fg_lut found, want;
        struct fg_arena arena;
        if (fg_layout_of_format(q->format) == FG_N_LAYOUTS) {
            assert_false(fg_compiled_lut(c, set->mats[i].name, &found));
            continue;
        }
        fg_arena_init(&arena, 0);
        assert_true(fg_compiled_lut(c, set->mats[i].name, &found));
        assert_int_equal(fg_lut_build(&want, q, &arena, &err), 0);
        assert_string_equal(p->mats[n++].name, set->mats[i].name);
        layouts[found.layout] = true;
        assert_int_equal(found.layout, want.layout);
        assert_int_equal(found.n_out, want.n_out);
        assert_int_equal(found.n_in, want.n_in);
        assert_int_equal(found.rank, want.rank);
        size_t rows =
            (size_t)(fg_layout_groups(want.layout, want.n_out) * fg_layout_rows(want.layout));
        assert_memory_equal(found.tiles, want.tiles,
                            fg_tiles_bytes(want.layout, want.n_out, want.n_in));
        if (want.layout != FG_I8) {
            assert_memory_equal(found.table, want.table, 128 * sizeof(float));
            assert_memory_equal(found.table_u8, want.table_u8, 128);
        }
        assert_memory_equal(found.scale, want.scale, rows * sizeof(float));
        assert_memory_equal(found.scale_ts, want.scale_ts, rows * sizeof(float));
        if (want.rank) {
            size_t row = (size_t)want.rank * fg_lr_dtype_bytes(q->lr_dtype);
            assert_memory_equal(found.lr_a, want.lr_a, row * (size_t)want.n_out);
            assert_memory_equal(found.lr_b, want.lr_b, row * (size_t)want.n_in);
            assert_int_equal(found.lr_scale != NULL, q->lr_dtype == FG_LR_I8);
            if (found.lr_scale)
                assert_memory_equal(found.lr_scale, want.lr_scale,
                                    (size_t)want.rank * sizeof(float));
        }
        fg_arena_free(&arena);
    }
    assert_int_equal(p->n_mats, n);
    for (int i = 0; i < FG_N_LAYOUTS; i++)
        assert_true(layouts[i]);
    fg_compiled_close(c);
    fg_build_close(b);
    expect_no_leftovers("good");
}

static void test_second_run_only_maps(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options("good", &s);
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.made, 0);
    assert_int_equal(s.counts[FG_COMPILE_PLAN], 0);
    assert_int_equal(s.counts[FG_COMPILE_PACKAGE], 0);
    assert_int_equal(s.counts[FG_COMPILE_DONE], 1);
    struct files t = list("good", "tiles", NULL);
    for (int i = 0; i < t.n; i++)
        assert_int_equal(t.inodes[i], good_tiles.inodes[i]);
    free_files(&t);
    o.build_dir = path_of("bundle", "forge"); // the packages' folder is as good
    assert_int_equal(compile(&o, &err), 0);
    o.verify = FG_TILEFILE_HEADER;
    o.memory = FG_TILEFILE_COPY;
    assert_int_equal(compile(&o, &err), 0);
    expect_good("good");
}

static void test_same_bytes_anywhere(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options("other", &s);
    assert_int_equal(fg_pool_new(&o.pool, 3, &err), 0);
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.made, PACKAGES);
    assert_int_equal(s.counts[FG_COMPILE_PLAN], 1);
    assert_int_equal(s.counts[FG_COMPILE_ESTIMATE], 1);
    assert_int_equal(s.counts[FG_COMPILE_PACKAGE], PACKAGES);
    assert_int_equal(s.counts[FG_COMPILE_PACKAGE_DONE], PACKAGES);
    expect_good("other");
    o.force = true;
    struct files before = list("other", "tiles", NULL);
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.made, PACKAGES);
    expect_good("other");
    fg_pool_free(o.pool);
    free_files(&before);
    clear_cache("other");
}

static void test_contexts(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options("ctx", &s);
    struct fg_compiled *c;
    o.ctx = 256;
    assert_int_equal(fg_compile(&c, &o, &err), 0);
    assert_int_equal(s.made, PACKAGES);
    assert_int_equal(fg_compiled_plan(c)->n_entries, 1);
    char small[FG_SHA256_HEX];
    memcpy(small, fg_compiled_plan(c)->key, sizeof small);
    fg_compiled_close(c);
    struct files before = list("ctx", "tiles", NULL);
    o = options("ctx", &s);
    o.ctx = 1024;
    assert_int_equal(fg_compile(&c, &o, &err), 0);
    assert_int_equal(s.made, 0);
    assert_int_equal(fg_compiled_plan(c)->n_entries, 3);
    assert_string_not_equal(small, fg_compiled_plan(c)->key);
    fg_compiled_close(c);
    struct files after = list("ctx", "tiles", NULL), plans = list("ctx", "plans", NULL);
    for (int i = 0; i < after.n; i++)
        assert_int_equal(before.inodes[i], after.inodes[i]);
    assert_int_equal(plans.n, 2);
    free_files(&before);
    free_files(&after);
    free_files(&plans);
    // A server takes the smallest plan that holds its context and makes one only if there is none.
    o = options("ctx", &s);
    o.wait = true;
    o.ctx = 512;
    assert_int_equal(fg_compile(&c, &o, &err), 0);
    assert_int_equal(fg_compiled_plan(c)->n_entries, 3);
    fg_compiled_close(c);
    o.ctx = 256;
    assert_int_equal(fg_compile(&c, &o, &err), 0);
    assert_string_equal(small, fg_compiled_plan(c)->key);
    fg_compiled_close(c);
    o.ctx = 300;
    assert_int_equal(compile(&o, &err), FG_EINPUT);
    assert_string_equal(err.expected, "256, 512, 1024");
    assert_string_equal(err.found, "300");
    o.ctx = 0;
    o.numerics = "sloppy";
    assert_int_equal(compile(&o, &err), FG_EINPUT);
    o.numerics = "exact";
    assert_int_equal(fg_compile(&c, &o, &err), 0);
    assert_int_equal(s.made, 0);
    fg_compiled_close(c);
    clear_cache("ctx");
}

static void test_dry_run(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options("dry", &s);
    o.dry_run = true;
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.missing, PACKAGES);
    uint64_t bytes = 0;
    for (int i = 0; i < good_tiles.n; i++)
        bytes += good_tiles.data[i].len;
    assert_int_equal(s.bytes, bytes);
    assert_false(fg_path_taken(state_path("dry")));
    o = options("good", &s);
    o.dry_run = true;
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.missing, 0);
    assert_int_equal(s.counts[FG_COMPILE_PLAN], 1);
}

static void test_every_level(void **state)
{
    (void)state;
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    char keys[16][FG_SHA256_HEX];
    for (int i = 0; i < n; i++) {
        struct seen s;
        struct fg_error err;
        struct fg_compiled *c;
        struct fg_compile_options o = options("isa", &s);
        o.isa = levels[i]->isa;
        o.force = true; // so that the self-check of new files runs at this level
        assert_int_equal(fg_compile(&c, &o, &err), 0);
        assert_int_equal(s.made, PACKAGES);
        assert_string_equal(s.isa, levels[i]->isa);
        assert_string_equal(fg_compiled_plan(c)->isa, levels[i]->isa);
        memcpy(keys[i], fg_compiled_plan(c)->key, FG_SHA256_HEX);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
        fg_compiled_close(c);
        struct files t = list("isa", "tiles", NULL);
        expect_same(&t, &good_tiles);
        free_files(&t);
    }
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options("isa", &s);
    o.isa = "vax";
    assert_int_equal(compile(&o, &err), FG_EINPUT);
    clear_cache("isa");
}

// Kernels that are wrong, or that this CPU can't run.
static fg_lut_gemm_fn true_gemm;

static void wrong_gemm(float *y, int64_t ldy, const struct fg_lut *w, int64_t g0, int64_t g1,
                       const struct fg_act *x, int64_t t0, int64_t t1, void *at)
{
    true_gemm(y, ldy, w, g0, g1, x, t0, t1, at);
    int64_t rows = fg_layout_rows(w->layout);
    for (int64_t r = g0 * rows; r < w->n_out && r < g1 * rows; r++)
        y[t0 * ldy + r] += 0x1p-10f;
}

static void illegal_gemm(float *y, int64_t ldy, const struct fg_lut *w, int64_t g0, int64_t g1,
                         const struct fg_act *x, int64_t t0, int64_t t1, void *at)
{
    (void)y, (void)ldy, (void)w, (void)g0, (void)g1, (void)x, (void)t0, (void)t1, (void)at;
    raise(SIGILL);
}

static void test_bad_kernels(void **state)
{
    (void)state;
    const struct fg_kernels *ref;
    struct fg_error err;
    struct seen s;
    struct fg_compile_options o = options("good", &s);
    struct fg_compile_job j = {.o = &o, .heartbeat_s = 1000};
    struct fg_build *b;
    assert_int_equal(fg_kernels_get(&ref, "ref", &err), 0);
    assert_int_equal(fg_build_open(&b, s.build, false, &err), 0);
    const struct fg_package *p = fg_build_package(b, 0);
    const char *sha = fg_build_manifest(b)->chunks[0].sha256;
    char name[FG_STORE_NAME_MAX], path[600];
    fg_store_tile_name(name, sha);
    snprintf(path, sizeof path, "%s", path_of("good/builds/tiles", name));
    assert_int_equal(fg_compile_smoke(ref, &j, &err), 0);
    assert_int_equal(fg_compile_check(path, p, sha, ref, NULL, 0, &j, &err), 0);
    for (int layout = 0; layout < FG_N_LAYOUTS; layout++) {
        struct fg_kernels bad = *ref;
        true_gemm = ref->lut_gemm[layout];
        bad.lut_gemm[layout] = wrong_gemm;
        assert_int_equal(fg_compile_smoke(&bad, &j, &err), FG_EUNSUPPORTED);
        bad.lut_gemm[layout] = illegal_gemm;
        assert_int_equal(fg_compile_smoke(&bad, &j, &err), FG_EUNSUPPORTED);
        assert_string_equal(err.found, "signal 4");
        bad = *ref;
        bad.lut_decode[layout] = ref->lut_decode[layout == FG_I8 ? FG_P4 : FG_I8];
        assert_int_equal(fg_compile_smoke(&bad, &j, &err), FG_EUNSUPPORTED);
    }
    struct fg_kernels bad = *ref;
    true_gemm = ref->lut_gemm[FG_P6];
    bad.lut_gemm[FG_P6] = wrong_gemm;
    assert_int_equal(fg_compile_check(path, p, sha, &bad, NULL, 0, &j, &err), FG_EINTEGRITY);
    assert_non_null(strstr(err.field, "mlp"));
    bad.lut_gemm[FG_P6] = illegal_gemm;
    assert_int_equal(fg_compile_check(path, p, sha, &bad, NULL, 0, &j, &err), FG_EINTEGRITY);
    assert_string_equal(err.file, path);
    assert_int_equal(fg_compile_check(path, fg_build_package(b, 1), sha, ref, NULL, 0, &j, &err),
                     FG_EINTEGRITY); // the tiles of another package
    fg_build_close(b);
}

// ---- stopped, killed, out of luck

static void test_stopped(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options("stop", &s);
    assert_int_equal(compile(&o, &err), 0);
    int events = s.events;
    assert_true(s.stops > 50); // one for each matrix, and more while it waits
    clear_cache("stop");
    for (int i = 1; i <= 12; i++) {
        o = options("stop", &s);
        s.stop_at = 4 * i;
        assert_int_equal(compile(&o, &err), FG_EINTERRUPTED);
        expect_no_leftovers("stop");
        clear_cache("stop");
    }
    o = options("stop", &s);
    s.stop_after = events - 2; // in the last package: the others are kept
    assert_int_equal(compile(&o, &err), FG_EINTERRUPTED);
    assert_true(compile_ok("stop") < PACKAGES);
    expect_good("stop");
    clear_cache("stop");
}

static int n_calls; // of an undisturbed run

// Runs in a child, with the n-th call failing; returns waitpid's status.
static int run_in_child(const char *state, enum fault f, int n)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct seen s;
        struct fg_error err = {0};
        struct fg_compiled *c;
        struct fg_compile_options o = options(state, &s);
        set_fault(f, n);
        int rc = fg_compile(&c, &o, &err);
        fg_compiled_close(c);
        _exit(rc);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void test_killed(void **state)
{
    (void)state;
    assert_true(n_calls > 40);
    for (int i = 0; i < 20; i++) {
        int status = run_in_child("kill", FAULT_KILL, 1 + (n_calls - 1) * i / 19);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        run_in_child("kill", FAULT_KILL, 3 * i + 1); // over what that one left, if it gets so far
        compile_ok("kill");
        expect_good("kill");
        expect_no_leftovers("kill");
        clear_state("kill");
    }
    // Killed, and then the cache is cleared: nothing stays.
    run_in_child("kill", FAULT_KILL, n_calls / 2);
    clear_cache("kill");
}

static void test_failing_disk(void **state)
{
    (void)state;
    static const struct {
        enum fault fault;
        int code;
    } faults[] = {{FAULT_ENOSPC, FG_ERESOURCE}, {FAULT_EIO, FG_EFAILED}, {FAULT_SHORT, 0}};
    for (int i = 0; i < 3; i++) {
        int step = n_calls / 9 + 1;
        for (int at = 1; at <= n_calls; at += step) {
            struct seen s;
            struct fg_error err;
            struct fg_compile_options o = options("disk", &s);
            set_fault(faults[i].fault, at);
            int rc = compile(&o, &err);
            set_fault(FAULT_NONE, 0);
            // What only saves time next time (hashes, the number in a lock) may fail unseen.
            if (rc && rc != faults[i].code) print_error("fault %d at %d: code %d\n", i, at, rc);
            assert_true(rc == 0 || rc == faults[i].code);
            if (rc) assert_true(err.found[0]);
            expect_no_leftovers("disk");
            compile_ok("disk");
            expect_good("disk");
            clear_state("disk");
        }
    }
}

static void test_full_disk(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    uint64_t bytes = 0, margin = (64u << 20) + (1u << 30);
    for (int i = 0; i < good_tiles.n; i++)
        bytes += good_tiles.data[i].len;
    struct fg_compile_options o = options("full", &s);
    free_bytes = bytes + margin - 1;
    assert_int_equal(compile(&o, &err), FG_ERESOURCE);
    assert_string_equal(err.expected, "1.07 GiB free");
    assert_string_equal(err.found, "1.07 GiB");
    struct files t = list("full", "tiles", NULL);
    assert_int_equal(t.n, 0);
    free_bytes = bytes + margin;
    assert_int_equal(compile(&o, &err), 0);
    free_bytes = 1; // nothing to write, nothing needed
    assert_int_equal(compile(&o, &err), 0);
    free_bytes = 0;
    clear_cache("full");
}

// ---- damage

static void damage(const char *state, int file, uint64_t at, uint8_t flip)
{
    char dir[64];
    snprintf(dir, sizeof dir, "%s/builds/tiles", state);
    int fd = open(path_of(dir, good_tiles.names[file]), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    uint8_t c = (uint8_t)good_tiles.data[file].data[at] ^ flip;
    assert_int_equal(pwrite(fd, &c, 1, (off_t)at), 1);
    close(fd);
}

static void expect_mended(const char *state)
{
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options(state, &s);
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.counts[FG_COMPILE_PURGED], 1);
    assert_int_equal(s.made, 1);
    assert_true(s.text[0]);
    expect_good(state);
    expect_no_leftovers(state);
}

static void test_damage_is_mended(void **state)
{
    (void)state;
    compile_ok("bad");
    static const uint64_t header[] = {0, 9, 12, 33, 50, 80, 88, 93, 4096, 4100, 4130};
    for (size_t i = 0; i < sizeof header / sizeof header[0]; i++) {
        damage("bad", (int)i % PACKAGES, header[i], 1);
        expect_mended("bad");
    }
    for (int i = 0; i < 12; i++) {
        uint64_t n = good_tiles.data[i % PACKAGES].len;
        damage("bad", i % PACKAGES, n - 1 - (n - 8192) * (uint64_t)i / 12, 64);
        expect_mended("bad");
    }
    for (int i = 0; i < 8; i++) {
        const struct fg_buf *b = &good_tiles.data[i % PACKAGES];
        const char *path = path_of("bad/builds/tiles", good_tiles.names[i % PACKAGES]);
        assert_int_equal(truncate(path, (off_t)(b->len * (uint64_t)i / 8)), 0);
        expect_mended("bad");
    }
    // The file of another package under this one's name.
    const char *path = path_of("bad/builds/tiles", good_tiles.names[1]);
    fg_file_replace(path, good_tiles.data[0].data, good_tiles.data[0].len, NULL);
    expect_mended("bad");
    // A plan that is damaged, and hashes that are.
    path = path_of("bad/builds/plans", good_plans.names[0]);
    fg_file_replace(path, "{}", 2, NULL);
    fg_file_replace(path_of("bad/builds", "hashes.json"), "[1", 2, NULL);
    assert_int_equal(compile_ok("bad"), 0);
    expect_good("bad");
    clear_cache("bad");
}

// What reaches the disk is not what was written: once is mended, always is an error.
static void test_bad_memory(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options("ram", &s);
    set_fault(FAULT_FLIP, 7);
    assert_int_equal(compile(&o, &err), 0);
    set_fault(FAULT_NONE, 0);
    assert_int_equal(s.counts[FG_COMPILE_PURGED], 1);
    expect_good("ram");
    clear_cache("ram");
    o = options("ram", &s);
    set_fault(FAULT_FLIP, 1);
    every_time = true;
    assert_int_equal(compile(&o, &err), FG_EFAILED);
    set_fault(FAULT_NONE, 0);
    assert_int_equal(s.counts[FG_COMPILE_PURGED], 1);
    assert_non_null(strstr(err.field, "block"));
    assert_non_null(strstr(err.file, ".fgt"));
    struct files t = list("ram", "tiles", NULL);
    assert_int_equal(t.n, 0);
    clear_cache("ram");
}

// As a user who may not write there. Root may write everywhere, so root becomes nobody.
static void test_read_only(void **state)
{
    (void)state;
    compile_ok("ro");
    damage("ro", 0, good_tiles.data[0].len - 100, 1);
    char *tiles = path_of("ro/builds", "tiles");
    for (int i = 0; i < 2; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct seen s;
            struct fg_error err;
            struct fg_compile_options o = options("ro", &s);
            if (chmod(scratch.dir, 0755) || chmod(tiles, 0555) ||
                (getuid() == 0 && (setgid(65534) || setuid(65534))))
                _exit(99);
            _exit(compile(&o, &err));
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(WEXITSTATUS(status), i == 0 ? FG_EFAILED : 0);
        chmod(tiles, 0755);
        compile_ok("ro"); // with everything there, reading is enough
    }
    clear_cache("ro");
}

static void test_changed_package(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    compile_ok("pkg");
    struct fg_build *b;
    assert_int_equal(fg_build_open(&b, path_of("bundle", ""), false, &err), 0);
    char path[600];
    snprintf(path, sizeof path, "%s", fg_package_info(fg_build_package(b, 0))->path);
    const struct fg_qset_mat *m = fg_build_find_mat(b, "layers.0.mlp.gate_proj");
    assert_non_null(m);
    struct fg_buf data = {0};
    assert_int_equal(fg_file_load(&data, path, 1u << 30, NULL), 0);
    const char *at = memmem(data.data, data.len, m->m.pidx, 64);
    assert_non_null(at);
    off_t place = at - data.data;
    fg_build_close(b);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    uint8_t c = (uint8_t)data.data[place] ^ 1;
    assert_int_equal(pwrite(fd, &c, 1, place), 1);
    // With its tile file there, and without: the manifest names another package.
    struct fg_compile_options o = options("pkg", &s);
    assert_int_equal(compile(&o, &err), FG_EINTEGRITY);
    assert_string_equal(err.field, "sha256");
    assert_string_equal(err.file, path);
    o.force = true;
    assert_int_equal(compile(&o, &err), FG_EINTEGRITY);
    assert_int_equal(s.counts[FG_COMPILE_CHANGED], 1);
    expect_no_leftovers("pkg");
    c ^= 1;
    assert_int_equal(pwrite(fd, &c, 1, place), 1);
    close(fd);
    compile_ok("pkg");
    expect_good("pkg");
    fg_buf_free(&data);
    clear_cache("pkg");
}

// Old packages are hashed once.
static void test_hashes(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_build *b;
    assert_int_equal(fg_build_open(&b, path_of("bundle", ""), false, &err), 0);
    struct timespec old[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000, .tv_nsec = 5}};
    for (uint64_t i = 0; i < PACKAGES; i++) {
        const char *path = fg_package_info(fg_build_package(b, i))->path;
        assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    }
    struct fg_compile_options o = options("hash", &s);
    assert_int_equal(compile(&o, &err), 0); // hashed while they were compiled
    o = options("hash", &s);
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.counts[FG_COMPILE_HASHING], 0);
    old[1].tv_nsec = 6; // touched
    utimensat(AT_FDCWD, fg_package_info(fg_build_package(b, 1))->path, old, 0);
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.counts[FG_COMPILE_HASHING], 1);
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(s.counts[FG_COMPILE_HASHING], 1);
    fg_build_close(b);
    clear_cache("hash");
}

// ---- two at once

static void test_two_at_once(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    for (int i = 0; i < 3; i++) { // refuse, wait until stopped, wait until it is done
        assert_int_equal(pipe(gate), 0);
        int ready[2];
        assert_int_equal(pipe(ready), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            struct fg_compiled *c;
            struct fg_compile_options o = options("two", &s);
            if (syscall(SYS_write, ready[1], "r", 1) != 1) _exit(98);
            set_fault(FAULT_BLOCK, 6);
            int rc = fg_compile(&c, &o, &err);
            fg_compiled_close(c);
            _exit(rc);
        }
        char ch;
        assert_int_equal(read(ready[0], &ch, 1), 1);
        struct files locks;
        do { // until the other one has the locks
            locks = list("two", "tiles", ".lock");
            free_files(&locks);
        } while (locks.n < PACKAGES);
        struct fg_compile_options o = options("two", &s);
        o.wait = i > 0;
        s.stop_after = i == 1 ? 1 : 0;
        s.open_gate_when_waiting = i == 2;
        int rc = compile(&o, &err);
        if (i == 0) {
            assert_int_equal(rc, FG_EBUSY);
            char text[32];
            snprintf(text, sizeof text, "process %d", (int)pid);
            assert_non_null(strstr(err.found, text));
        } else {
            assert_int_equal(rc, i == 1 ? FG_EINTERRUPTED : 0);
            assert_int_equal(s.counts[FG_COMPILE_WAITING] > 0, 1);
            assert_int_equal(s.pid, pid);
        }
        if (i < 2) assert_int_equal(syscall(SYS_write, gate[1], "x", 1), 1);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(WEXITSTATUS(status), 0);
        expect_good("two");
        expect_no_leftovers("two");
        clear_cache("two");
        close(gate[0]), close(gate[1]), close(ready[0]), close(ready[1]);
    }
}

static void test_heartbeat(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_compile_options o = options("beat", &s);
    o.heartbeat_s = 1e-9;
    assert_int_equal(compile(&o, &err), 0);
    assert_true(s.counts[FG_COMPILE_HEARTBEAT] > PACKAGES);
    clear_cache("beat");
}

// ---- measuring

struct measuring {
    struct seen seen;
    int calls, rc;
};

static int measure(void *ctx, const struct fg_compiled *c, struct fg_tuning *t,
                   struct fg_error *err)
{
    struct measuring *m = ctx;
    struct fg_lut l;
    assert_true(fg_compiled_lut(c, "lm_head", &l));
    m->calls++;
    t->threads = 3;
    t->n_verify = 2;
    t->verify[0] = (struct fg_tuning_row){1, 12.5, 0.25};
    t->verify[1] = (struct fg_tuning_row){8, 20, 0.5};
    return m->rc ? fg_fail(err, m->rc, "measure", NULL, NULL, NULL, "stopped") : 0;
}

static void test_tuning(void **state)
{
    (void)state;
    struct measuring m = {.rc = FG_EINTERRUPTED};
    struct fg_error err;
    struct fg_compiled *c;
    struct fg_compile_options o = options("tune", &m.seen);
    o.measure = measure;
    o.ctx_event = &m;
    assert_int_equal(fg_compile(&c, &o, &err), FG_EINTERRUPTED);
    m.rc = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fg_compile(&c, &o, &err), 0);
        assert_int_equal(m.calls, 2); // the second time it is read
        assert_int_equal(fg_compiled_tuning(c)->threads, 3);
        assert_int_equal(fg_compiled_tuning(c)->n_verify, 2);
        assert_true(fg_compiled_tuning(c)->verify[1].ms_per_1k == 0.5);
        fg_compiled_close(c);
    }
    struct files f = list("tune", "tuning", ".json");
    assert_int_equal(f.n, 1);
    fg_file_replace(path_of("tune/builds/tuning", f.names[0]), "{\"verify\":7}", 12, NULL);
    free_files(&f);
    o.measure = NULL; // nobody to measure: the defaults
    assert_int_equal(fg_compile(&c, &o, &err), 0);
    assert_int_equal(fg_compiled_tuning(c)->threads, 0);
    assert_int_equal(fg_compiled_tuning(c)->prefetch_bytes, 1024);
    fg_compiled_close(c);
    o.measure = measure;
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(m.calls, 3);
    o.force = true;
    assert_int_equal(compile(&o, &err), 0);
    assert_int_equal(m.calls, 4);
    clear_cache("tune");
}

// ---- the cache

static void test_cache(void **state)
{
    (void)state;
    struct seen s;
    struct fg_error err;
    struct fg_compiled *c;
    struct fg_cache cache;
    struct fg_compile_options o = options("cache", &s);
    assert_int_equal(fg_cache_open(&cache, state_path("cache"), &err), 0);
    assert_int_equal(cache.n, 0);
    fg_cache_close(&cache);
    assert_int_equal(fg_compile(&c, &o, &err), 0);
    char stranger[600];
    snprintf(stranger, sizeof stranger, "%s", path_of("cache/builds/tiles", "notes.txt"));
    assert_int_equal(fg_file_replace(stranger, "mine", 4, NULL), 0);
    assert_int_equal(fg_cache_open(&cache, state_path("cache"), &err), 0);
    int kinds[FG_CACHE_LEFTOVER + 1] = {0};
    for (uint64_t i = 0; i < cache.n; i++) {
        const struct fg_cache_entry *e = &cache.entries[i];
        bool kept;
        kinds[e->kind]++;
        assert_int_equal(e->in_use, e->kind == FG_CACHE_TILES);
        assert_int_equal(fg_cache_check(e, NULL, &err), 0);
        assert_int_equal(fg_cache_remove(state_path("cache"), e, &kept, &err), 0);
        assert_int_equal(kept, e->kind == FG_CACHE_TILES);
    }
    assert_int_equal(kinds[FG_CACHE_TILES], PACKAGES);
    assert_int_equal(kinds[FG_CACHE_PLAN], 1);
    fg_cache_close(&cache);
    struct files t = list("cache", "tiles", ".fgt");
    assert_int_equal(t.n, PACKAGES);
    free_files(&t);
    fg_compiled_close(c);
    compile_ok("cache");
    damage("cache", 1, good_tiles.data[1].len - 5, 1);
    fg_file_replace(path_of("cache/builds/plans", good_plans.names[0]), "{}", 2, NULL);
    assert_int_equal(fg_cache_open(&cache, state_path("cache"), &err), 0);
    int bad = 0;
    for (uint64_t i = 0; i < cache.n; i++)
        bad += fg_cache_check(&cache.entries[i], NULL, &err) != 0;
    assert_int_equal(bad, 2);
    fg_cache_close(&cache);
    assert_int_equal(unlink(stranger), 0); // it was none of ours, and stayed
    clear_cache("cache");
}

// ----

static int set_up(void **state)
{
    (void)state;
    struct fg_error err = {0};
    scratch_open(&scratch);
    char dir[600];
    snprintf(dir, sizeof dir, "%s/bundle", scratch.dir);
    struct fg_synth_options o = {.shape = "tiny-hybrid", .dir = dir, .seed = 1};
    if (fg_synth_write(&o, NULL, &err)) {
        char line[1200];
        print_error("%s\n", fg_error_line(&err, line, sizeof line));
        return 1;
    }
    set_fault(FAULT_SHORT, 0); // counts
    compile_ok("good");
    n_calls = calls;
    set_fault(FAULT_NONE, 0);
    good_tiles = list("good", "tiles", NULL);
    good_plans = list("good", "plans", NULL);
    return good_tiles.n == PACKAGES && good_plans.n == 1 ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    free_files(&good_tiles);
    free_files(&good_plans);
    scratch_close(&scratch);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_second_run_only_maps),
        cmocka_unit_test(test_same_bytes_anywhere),
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_dry_run),
        cmocka_unit_test(test_every_level),
        cmocka_unit_test(test_bad_kernels),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_failing_disk),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_damage_is_mended),
        cmocka_unit_test(test_bad_memory),
        cmocka_unit_test(test_read_only),
        cmocka_unit_test(test_changed_package),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_two_at_once),
        cmocka_unit_test(test_heartbeat),
        cmocka_unit_test(test_tuning),
        cmocka_unit_test(test_cache),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
