// runtime/compile_check.c: tests that run in a child process, where a crash is an answer: is a new
// tile file whole and what the package says, and do a level's kernels work on this CPU?
#include "base/arena.h"
#include "base/num.h"
#include "format/bits.h"
#include "quant/dequant.h"
#include "quant/tiles.h"
#include "runtime/compile_impl.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECKS 64

// ---- child

typedef int (*child_fn)(void *ctx, struct fg_error *err);

static _Noreturn void in_child(child_fn fn, void *ctx, const int *close_fds, uint64_t n_fds,
                               int answer, pid_t parent)
{
    static const int crashes[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGINT, SIGTERM};
    prctl(PR_SET_PDEATHSIG, SIGKILL); // a test without anyone who asks
    prctl(PR_SET_DUMPABLE, 0);        // and without a core file
    for (uint64_t i = 0; i < n_fds; i++)
        close(close_fds[i]); // the parent's locks end with the parent
    if (getppid() != parent) _exit(FG_EFAILED);
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++)
        signal(crashes[i], SIG_DFL);
    struct fg_error err = {0};
    int rc = fn(ctx, &err);
    ssize_t told = write(answer, &err, sizeof err); // less than PIPE_BUF: whole
    (void)told;
    _exit(rc);
}

// Runs fn in a child. Returns its code and error; FG_EINTEGRITY when it crashed.
static int ask_child(child_fn fn, void *ctx, const int *close_fds, uint64_t n_fds,
                     struct fg_compile_job *j, struct fg_error *err)
{
    int pipes[2];
    if (pipe2(pipes, O_CLOEXEC | O_NONBLOCK) != 0)
        return fg_fail_errno(err, NULL, "make a pipe", errno);
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        close(pipes[0]);
        close(pipes[1]);
        return fg_fail_errno(err, NULL, "start a process", errno);
    }
    if (pid == 0) in_child(fn, ctx, close_fds, n_fds, pipes[1], parent);
    close(pipes[1]);
    int status = 0, rc = 0;
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) <= 0) {
        if (got < 0 && errno != EINTR) break;
        if (rc == 0) {
            rc = fg_compile_tick(j, err);
            if (rc) kill(pid, SIGKILL);
        }
        fg_compile_nap();
    }
    struct fg_error told = {0};
    bool whole = read(pipes[0], &told, sizeof told) == (ssize_t)sizeof told;
    close(pipes[0]);
    if (rc) return rc;
    if (got == pid && WIFEXITED(status)) {
        rc = WEXITSTATUS(status);
        if (rc && err && whole) *err = told;
        if (rc && !whole) rc = fg_fail(err, rc, "self-check", NULL, NULL, NULL, "no answer");
        return rc;
    }
    return fg_fail(err, FG_EINTEGRITY, "self-check", NULL, NULL, "an answer", "signal %d",
                   got == pid && WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

// ---- products

static uint64_t next(uint64_t *state) // splitmix64
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

// INT8 activations of one row: random codes in block b, zeros in the others.
struct activations {
    struct fg_act act;
    int8_t *xc;
    float *sx;
    int32_t *sum;
};

static bool make_activations(struct activations *a, int64_t n)
{
    int64_t ld = (n + 63) / 64 * 64, blocks = (n + FG_ACT_BLOCK - 1) / FG_ACT_BLOCK;
    a->xc = fg_alloc_aligned((uint64_t)ld);
    a->sx = fg_alloc_aligned((uint64_t)blocks * sizeof *a->sx);
    a->sum = fg_alloc_aligned((uint64_t)blocks * sizeof *a->sum);
    a->act = (struct fg_act){
        .n = n, .ld = ld, .n_blocks = blocks, .xc = a->xc, .sx = a->sx, .sum = a->sum};
    return a->xc && a->sx && a->sum;
}

static void free_activations(struct activations *a)
{
    free(a->xc);
    free(a->sx);
    free(a->sum);
}

static void fill(struct activations *a, int64_t b, uint64_t *state)
{
    int64_t k0 = b * FG_ACT_BLOCK, k1 = k0 + FG_ACT_BLOCK;
    if (k1 > a->act.n) k1 = a->act.n;
    for (int64_t i = 0; i < a->act.n_blocks; i++)
        a->sx[i] = 1;
    a->sum[b] = 0;
    for (int64_t k = k0; k < k1; k++) {
        a->xc[k] = (int8_t)((int)(next(state) % 255) - 127);
        a->sum[b] += a->xc[k];
    }
}

// Integer product of row r with block b, from the package's own storage, and the row's scale_ts.
static int64_t canonical(const struct fg_qmat *m, int64_t r, int64_t b, const int8_t *xc,
                         uint8_t *indices, float *scale_ts)
{
    int64_t k0 = b * FG_ACT_BLOCK, k1 = k0 + FG_ACT_BLOCK, acc = 0;
    if (k1 > m->cols) k1 = m->cols;
    float scale = fg_f16_to_f32(fg_le16_at(m->scale, r));
    *scale_ts = scale;
    if (m->format == FG_Q_INT8) {
        for (int64_t k = k0; k < k1; k++)
            acc += (int64_t)m->codes[r * m->cols + k] * xc[k];
        return acc;
    }
    int per = fg_qformat_rows_per_index(m->format), n = fg_qformat_entries(m->format);
    int t = (int)(r % per);
    float most = 0, value[64];
    for (int i = 0; i < n; i++) {
        value[i] = fg_f16_to_f32(fg_le16_at(m->lut, i * per + t));
        most = fmaxf(most, fabsf(value[i]));
    }
    float ts = most / 127.0f;
    *scale_ts = scale * ts;
    const uint8_t *row =
        m->pidx + (uint64_t)(r / per) * fg_qformat_row_bytes(m->format, (uint64_t)m->cols);
    fg_bits_unpack(indices, row, (uint64_t)m->cols, fg_qformat_index_bits(m->format));
    for (int64_t k = k0; k < k1; k++)
        acc += ts > 0 ? (int64_t)rintf(value[indices[k]] / ts) * xc[k] : 0;
    return acc;
}

static bool same_bits(float a, float b)
{
    return fg_bits_of_f32(a) == fg_bits_of_f32(b);
}

// One row and block: the kernel's product from the tiles is acc * scale_ts, each exact.
static int check_product(const struct fg_kernels *k, const struct fg_lut *l,
                         const struct fg_qset_mat *m, uint64_t *state, const char *path,
                         struct fg_error *err)
{
    int64_t rows = fg_layout_rows(l->layout), r = (int64_t)(next(state) % (uint64_t)l->n_out);
    int64_t g = r / rows, blocks = (l->n_in + FG_ACT_BLOCK - 1) / FG_ACT_BLOCK;
    int64_t b = (int64_t)(next(state) % (uint64_t)blocks);
    struct activations a = {0};
    float *y = fg_alloc_aligned((uint64_t)l->n_out * sizeof *y);
    void *scratch = fg_alloc_aligned(fg_lut_scratch_bytes(l->n_in));
    uint8_t *indices = malloc((size_t)l->n_in);
    int rc = 0;
    if (!make_activations(&a, l->n_in) || !y || !scratch || !indices) {
        rc = fg_fail_memory(err, "self-check", (uint64_t)l->n_in);
    } else {
        float scale_ts;
        fill(&a, b, state);
        int64_t acc = canonical(&m->m, r, b, a.xc, indices, &scale_ts);
        k->lut_gemm[l->layout](y, l->n_out, l, g, g + 1, &a.act, 0, 1, scratch);
        float scale = fg_f16_to_f32(fg_le16_at(m->m.scale, r));
        bool table = same_bits(l->scale[r], scale) && same_bits(l->scale_ts[r], scale_ts);
        if (!table || !same_bits(y[r], (float)acc * scale_ts)) {
            char field[160];
            snprintf(field, sizeof field, "%.96s row %" PRId64 " block %" PRId64, m->name, r, b);
            rc = fg_fail(err, FG_EINTEGRITY, "self-check", path, field,
                         table ? "the package's product" : "the package's scale", "another one");
        }
    }
    free(indices);
    free(scratch);
    free(y);
    free_activations(&a);
    return rc;
}

// ---- a tile file

struct file_check {
    const char *path, *sha256;
    const struct fg_qset *set;
    const struct fg_kernels *kernels;
};

static int check_factors(const struct fg_lut *l, const struct fg_qset_mat *m, const char *path,
                         struct fg_error *err)
{
    const bool int8 = m->m.lr_dtype == FG_LR_I8;
    if (l->rank != m->m.rank || l->n_out != m->m.rows || l->n_in != m->m.cols ||
        (l->lr_scale != NULL) != int8)
        return fg_fail(err, FG_EINTEGRITY, "self-check", path, m->name, "the package's shape",
                       "another one");
    if (l->rank == 0) return 0;
    const uint64_t bytes = (uint64_t)l->rank * fg_lr_dtype_bytes(m->m.lr_dtype);
    if (memcmp(l->lr_a, m->m.lr_a, (size_t)(bytes * (uint64_t)l->n_out)) != 0 ||
        memcmp(l->lr_b, m->m.lr_b, (size_t)(bytes * (uint64_t)l->n_in)) != 0 ||
        (int8 && memcmp(l->lr_scale, m->m.lr_scale, (size_t)l->rank * sizeof(float)) != 0))
        return fg_fail(err, FG_EINTEGRITY, "self-check", path, m->name, "the package's factors",
                       "others");
    return 0;
}

static int check_file(void *ctx, struct fg_error *err)
{
    const struct file_check *c = ctx;
    struct fg_tilefile *t;
    struct fg_tilefile_expect expect = {.sha256 = c->sha256, .memory = FG_TILEFILE_MAP};
    int rc = fg_tilefile_open(&t, c->path, &expect, FG_TILEFILE_BLOCKS, NULL, err);
    if (rc) return rc;
    uint64_t n = 0, state = fg_fnv1a(c->sha256, strlen(c->sha256));
    const struct fg_qset_mat **mats = calloc((size_t)c->set->n_mats + 1, sizeof(void *));
    if (!mats) rc = fg_fail_memory(err, "self-check", c->set->n_mats);
    for (uint64_t i = 0; i < c->set->n_mats && rc == 0; i++) {
        const struct fg_qset_mat *m = &c->set->mats[i];
        struct fg_lut l;
        if (fg_layout_of_format(m->m.format) == FG_N_LAYOUTS) continue;
        if (fg_tilefile_lut(t, m->name, &l))
            rc = check_factors(&l, m, c->path, err);
        else
            rc = fg_fail(err, FG_EINTEGRITY, "self-check", c->path, m->name, "a matrix", "none");
        mats[n++] = m;
    }
    if (rc == 0 && n != fg_tilefile_n_mats(t))
        rc = fg_fail(err, FG_EINTEGRITY, "self-check", c->path, "matrices", "as many as quantized",
                     "%" PRIu64, fg_tilefile_n_mats(t));
    for (int i = 0; i < CHECKS && n && rc == 0; i++) {
        const struct fg_qset_mat *m = mats[next(&state) % n];
        struct fg_lut l;
        if (fg_tilefile_lut(t, m->name, &l))
            rc = check_product(c->kernels, &l, m, &state, c->path, err);
    }
    free(mats);
    fg_tilefile_close(t);
    return rc;
}

int fg_compile_check(const char *path, const struct fg_package *p, const char *sha256,
                     const struct fg_kernels *kernels, const int *lock_fds, uint64_t n_locks,
                     struct fg_compile_job *j, struct fg_error *err)
{
    struct file_check c = {
        .path = path, .sha256 = sha256, .set = fg_package_set(p), .kernels = kernels};
    int rc = ask_child(check_file, &c, lock_fds, n_locks, j, err);
    if (rc == FG_EINTEGRITY && err && !err->file[0])
        snprintf(err->file, sizeof err->file, "%s", path);
    return rc;
}

// ---- kernels of a level

// Random matrix in tiles; n_out and n_in end within a group and a unit.
static bool make_lut(struct fg_lut *l, enum fg_layout layout, struct fg_arena *arena,
                     uint64_t *state)
{
    *l = (struct fg_lut){.layout = layout, .n_out = 41, .n_in = 1250};
    uint64_t rows = (uint64_t)(fg_layout_groups(layout, l->n_out) * fg_layout_rows(layout));
    uint64_t bytes = fg_tiles_bytes(layout, l->n_out, l->n_in);
    uint8_t *tiles = fg_arena_alloc(arena, bytes, 1), *u8 = fg_arena_alloc(arena, 128, 1);
    float *table = fg_arena_alloc(arena, 128, sizeof *table);
    float *scale = fg_arena_alloc(arena, rows, sizeof *scale);
    if (!tiles || !u8 || !table || !scale) return false;
    for (uint64_t i = 0; i < bytes; i++)
        tiles[i] = (uint8_t)(next(state) >> 32);
    for (int i = 0; i < 128; i++) {
        int index =
            fg_layout_is_six_bits(layout) ? i : i / 64 * 64 + i % 16; // 16 entries four times
        u8[i] = (uint8_t)(1 + (index * 37 + 11) % 255);
        table[i] = (float)(u8[i] - 128) * 0.0078125f;
    }
    for (uint64_t r = 0; r < (uint64_t)l->n_out; r++)
        scale[r] = 0.001f * (float)(1 + next(state) % 1000);
    if (layout == FG_I8)
        for (uint64_t i = 0; i < bytes; i++)
            tiles[i] |= 1; // no code -128
    l->tiles = tiles, l->table = table, l->table_u8 = u8, l->scale = l->scale_ts = scale;
    return true;
}

#define SMOKE_ROWS 9 // of activations: a call of one row, and one of several

// A matrix, activations for it, and room for two results: of ref and of the level.
struct smoke {
    struct fg_lut lut;
    struct fg_act act;
    uint64_t y_bytes, rows_bytes;
    float *y[2];    // [SMOKE_ROWS][n_out]
    float *rows[2]; // decoded group
    void *scratch;
};

static bool make_smoke(struct smoke *s, enum fg_layout layout, const struct fg_kernels *k,
                       struct fg_arena *arena, uint64_t *state)
{
    if (!make_lut(&s->lut, layout, arena, state)) return false;
    int64_t n = s->lut.n_in, blocks = (n + FG_ACT_BLOCK - 1) / FG_ACT_BLOCK;
    struct fg_act *a = &s->act;
    *a = (struct fg_act){.n = n, .ld = (n + 63) / 64 * 64, .n_blocks = blocks};
    a->xc = fg_arena_alloc(arena, SMOKE_ROWS, (uint64_t)a->ld);
    a->sx = fg_arena_alloc(arena, (uint64_t)(SMOKE_ROWS * blocks), sizeof *a->sx);
    a->sum = fg_arena_alloc(arena, (uint64_t)(SMOKE_ROWS * blocks), sizeof *a->sum);
    s->scratch = fg_arena_alloc(arena, fg_lut_scratch_bytes(n), 1);
    s->y_bytes = (uint64_t)(SMOKE_ROWS * s->lut.n_out) * sizeof(float);
    s->rows_bytes = (uint64_t)(fg_layout_rows(layout) * n) * sizeof(float);
    for (int v = 0; v < 2; v++) {
        s->y[v] = fg_arena_alloc(arena, s->y_bytes, 1);
        s->rows[v] = fg_arena_alloc(arena, s->rows_bytes, 1);
        if (!s->y[v] || !s->rows[v]) return false;
    }
    if (!a->xc || !a->sx || !a->sum || !s->scratch) return false;
    for (int64_t at = 0; at < SMOKE_ROWS * blocks; at++) {
        float x[FG_ACT_BLOCK];
        int64_t k0 = at % blocks * FG_ACT_BLOCK, width = n - k0;
        if (width > FG_ACT_BLOCK) width = FG_ACT_BLOCK;
        for (int64_t c = 0; c < width; c++)
            x[c] = (float)(int32_t)(next(state) >> 32) * 0x1p-31f;
        k->quantize(a->xc + at / blocks * a->ld + k0, &a->sx[at], &a->sum[at], x, width);
    }
    return true;
}

static bool same_results(const struct smoke *s, const struct fg_kernels *ref,
                         const struct fg_kernels *k)
{
    enum fg_layout layout = s->lut.layout;
    const struct fg_kernels *both[2] = {ref, k};
    int64_t n_out = s->lut.n_out, groups = fg_layout_groups(layout, n_out);
    for (int v = 0; v < 2; v++) {
        fg_lut_gemm_fn gemm = both[v]->lut_gemm[layout];
        gemm(s->y[v], n_out, &s->lut, 0, groups, &s->act, 0, 1, s->scratch);
        gemm(s->y[v], n_out, &s->lut, 0, groups, &s->act, 1, SMOKE_ROWS, s->scratch);
        both[v]->lut_decode[layout](s->rows[v], s->lut.n_in, &s->lut, 0);
    }
    return memcmp(s->y[0], s->y[1], (size_t)s->y_bytes) == 0 &&
           memcmp(s->rows[0], s->rows[1], (size_t)s->rows_bytes) == 0;
}

static int check_kernels(void *ctx, struct fg_error *err)
{
    const struct fg_kernels *k = ctx, *ref;
    struct fg_arena arena;
    uint64_t state = 1;
    int rc = fg_kernels_get(&ref, "ref", err);
    if (rc) return rc;
    fg_arena_init(&arena, 0);
    for (int i = 0; i < FG_N_LAYOUTS && rc == 0; i++) {
        struct smoke s;
        if (!make_smoke(&s, (enum fg_layout)i, k, &arena, &state))
            rc = fg_fail_memory(err, "self-check", arena.used_bytes);
        else if (!same_results(&s, ref, k))
            rc = fg_fail(err, FG_EUNSUPPORTED, "kernels", NULL, k->isa, "the numbers of ref",
                         "others, layout %d", i);
    }
    fg_arena_free(&arena);
    return rc;
}

int fg_compile_smoke(const struct fg_kernels *kernels, struct fg_compile_job *j,
                     struct fg_error *err)
{
    int rc = ask_child(check_kernels, (void *)kernels, NULL, 0, j, err);
    if (rc != FG_EINTEGRITY) return rc;
    char found[sizeof err->found] = "a crash";
    if (err) memcpy(found, err->found, sizeof found);
    return fg_fail(err, FG_EUNSUPPORTED, "kernels", NULL, kernels->isa, "kernels that run", "%s",
                   found);
}
