// Memory of keys and values: growing and shrinking in place and by copying keep what they promise,
// give memory back, and leave everything as it was wherever a system call fails.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs those first
#include <cmocka.h>

#include "base/arena.h"
#include "quant/random.h"
#include "runtime/kv.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POPULATE_WRITE 23 // MADV_POPULATE_WRITE, where headers are older

// ---- system calls that fail (see CMakeLists.txt)

static int countdown;    // 0: no failures; n: the n-th call from now fails
static bool failed;      // one did
static bool no_populate; // as on kernels that don't know it
static int n_mmaps;

static bool fails(void)
{
    if (countdown == 0 || --countdown > 0) return false;
    failed = true;
    errno = ENOMEM;
    return true;
}

static void fail_at(int n)
{
    countdown = n;
    failed = false;
}

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __real_mprotect(void *at, size_t n, int prot);
int __real_madvise(void *at, size_t n, int advice);
void *__real_calloc(size_t n, size_t size);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset);
int __wrap_mprotect(void *at, size_t n, int prot);
int __wrap_madvise(void *at, size_t n, int advice);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    n_mmaps++;
    return fails() ? MAP_FAILED : __real_mmap(at, n, prot, flags, fd, offset);
}

int __wrap_mprotect(void *at, size_t n, int prot)
{
    return fails() ? -1 : __real_mprotect(at, n, prot);
}

int __wrap_madvise(void *at, size_t n, int advice)
{
    if (no_populate && advice == POPULATE_WRITE) {
        errno = EINVAL;
        return -1;
    }
    return fails() ? -1 : __real_madvise(at, n, advice);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

// ---- rows that tell where they are

static const enum fg_kv_backing backings[] = {FG_KV_EXTEND, FG_KV_COPY};
static const int64_t widths[] = {20, 64, 80};

static struct fg_kv_shape shape_of(enum fg_kv_format format, int64_t D)
{
    return (struct fg_kv_shape){.n_layers = 3, .n_heads = 2, .D = D, .format = format};
}

static struct fg_kv *make(const struct fg_kv_shape *shape, int64_t rows_max,
                          enum fg_kv_backing backing)
{
    struct fg_kv *kv;
    struct fg_error err;
    assert_int_equal(fg_kv_new(&kv, shape, rows_max, backing, &err), 0);
    return kv;
}

#define D_MAX 128

// One row of keys and values as files have it.
struct row {
    uint8_t k[4 * D_MAX], v[4 * D_MAX];
    uint16_t ks, vs;
};

// Row `pos` of a head, different for every head, position and `salt`.
static struct row row_of(const struct fg_kv_head *h, int64_t head, int64_t pos, uint64_t salt)
{
    struct row r = {0};
    struct fg_random random =
        fg_random_seeded(salt * 1000003 + (uint64_t)head * 7919 + (uint64_t)pos);
    const int64_t k_bytes = h->D * (fg_kv_k8(h->format) ? 1 : h->format == FG_KV_F32 ? 4 : 2);
    const int64_t v_bytes = h->D * (fg_kv_v8(h->format) ? 1 : h->format == FG_KV_F32 ? 4 : 2);
    for (int64_t i = 0; i < k_bytes; i++)
        r.k[i] = (uint8_t)fg_random_below(&random, 256);
    for (int64_t i = 0; i < v_bytes; i++)
        r.v[i] = (uint8_t)fg_random_below(&random, 256);
    if (h->ks) r.ks = (uint16_t)fg_random_below(&random, 65536);
    if (h->vs) r.vs = (uint16_t)fg_random_below(&random, 65536);
    return r;
}

static void put_row(const struct fg_kv_head *h, int64_t at, const struct row *r)
{
    fg_kv_import(h, at, 1, r->k, h->ks ? &r->ks : NULL, r->v, h->vs ? &r->vs : NULL);
}

static bool has_row(const struct fg_kv_head *h, int64_t at, const struct row *r)
{
    struct row found = {0};
    fg_kv_export(h, at, 1, found.k, h->ks ? &found.ks : NULL, found.v, h->vs ? &found.vs : NULL);
    return memcmp(&found, r, sizeof found) == 0;
}

static const struct fg_kv_head *head_of(const struct fg_kv *kv, int64_t i)
{
    const int64_t n = fg_kv_shape(kv)->n_heads;
    return &fg_kv_heads(kv, i / n)[i % n];
}

static int64_t n_heads(const struct fg_kv *kv)
{
    return fg_kv_shape(kv)->n_layers * fg_kv_shape(kv)->n_heads;
}

static void fill(const struct fg_kv *kv, int64_t from, int64_t to, uint64_t salt)
{
    for (int64_t i = 0; i < n_heads(kv); i++)
        for (int64_t pos = from; pos < to; pos++) {
            struct row r = row_of(head_of(kv, i), i, pos, salt);
            put_row(head_of(kv, i), pos, &r);
        }
}

static void expect_rows(const struct fg_kv *kv, int64_t from, int64_t to, uint64_t salt)
{
    for (int64_t i = 0; i < n_heads(kv); i++)
        for (int64_t pos = from; pos < to; pos++) {
            struct row r = row_of(head_of(kv, i), i, pos, salt);
            if (!has_row(head_of(kv, i), pos, &r))
                fail_msg("format %s D %d backing %d: head %d row %d is another",
                         fg_kv_format_name(fg_kv_shape(kv)->format), (int)fg_kv_shape(kv)->D,
                         fg_kv_copies(kv), (int)i, (int)pos);
        }
}

// Bytes of this process: its addresses, or what of them is in memory.
static int64_t process_bytes(bool in_memory)
{
    long addresses = 0, memory = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &addresses, &memory), 2);
    fclose(f);
    return (int64_t)(in_memory ? memory : addresses) * sysconf(_SC_PAGESIZE);
}

static int64_t resident(void)
{
    return process_bytes(true);
}

static int64_t bytes_of(const struct fg_kv *kv)
{
    return fg_kv_rows(kv) * (int64_t)fg_kv_position_bytes(fg_kv_shape(kv));
}

// ---- tests

static void sizes_are_those_of_the_formats(void **state)
{
    (void)state;
    static const uint64_t expected[FG_KV_N_ALL] = {
        [FG_KV_FP16] = 65536, [FG_KV_V8] = 49280, [FG_KV_KV8] = 33024, [FG_KV_F32] = 131072};
    for (int f = 0; f < FG_KV_N_ALL; f++) {
        struct fg_kv_shape big = {
            .n_layers = 16, .n_heads = 4, .D = 256, .format = (enum fg_kv_format)f};
        assert_int_equal(fg_kv_position_bytes(&big), expected[f]);
        big.D = 80; // three 32s
        struct fg_kv_shape same = big;
        same.D = 96;
        assert_int_equal(fg_kv_position_bytes(&big), fg_kv_position_bytes(&same));
        struct fg_kv *kv = make(&big, 300, FG_KV_AUTO);
        assert_int_equal(fg_kv_page_bytes(kv), FG_KV_PAGE * fg_kv_position_bytes(&big));
        fg_kv_free(kv);
    }
    fg_kv_free(NULL);
}

static void growing_and_shrinking_keep_rows(void **state)
{
    (void)state;
    for (size_t b = 0; b < 2; b++)
        for (int f = 0; f < FG_KV_N_ALL; f++)
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
                struct fg_error err;
                struct fg_kv_shape shape = shape_of((enum fg_kv_format)f, widths[w]);
                struct fg_kv *kv = make(&shape, 2000, backings[b]);
                assert_int_equal(fg_kv_copies(kv), backings[b] == FG_KV_COPY);
                assert_int_equal(fg_kv_rows(kv), 0);
                const struct fg_kv_head *heads = fg_kv_heads(kv, 0);
                const int64_t each = (int64_t)fg_kv_position_bytes(&shape);
                uint64_t peak;

                assert_int_equal(fg_kv_grow(kv, 1, 0, &peak, &err), 0);
                assert_int_equal(fg_kv_rows(kv), 256);
                assert_int_equal(peak, 256 * each);
                const uint8_t *address = heads[0].k;
                fill(kv, 0, 256, 1);
                assert_int_equal(fg_kv_grow(kv, 600, 200, &peak, &err), 0);
                assert_int_equal(fg_kv_rows(kv), 768);
                assert_int_equal(peak, (backings[b] == FG_KV_COPY ? 1024 : 768) * each);
                expect_rows(kv, 0, 200, 1);
                fill(kv, 200, 768, 1);
                assert_int_equal(fg_kv_grow(kv, 700, 768, &peak, &err), 0); // there is as much
                assert_int_equal(peak, 768 * each);
                assert_int_equal(fg_kv_rows(kv), 768);

                fg_kv_shrink(kv, 300);
                assert_int_equal(fg_kv_rows(kv), 512);
                expect_rows(kv, 0, 512, 1);
                fg_kv_shrink(kv, 512); // no less
                assert_int_equal(fg_kv_rows(kv), 512);
                assert_int_equal(fg_kv_grow(kv, 2000, 300, NULL, &err), 0);
                assert_int_equal(fg_kv_rows(kv), 2048);
                expect_rows(kv, 0, 300, 1);
                fill(kv, 300, 2048, 2);
                expect_rows(kv, 0, 300, 1);
                expect_rows(kv, 300, 2048, 2);
                fg_kv_shrink(kv, 0);
                assert_int_equal(fg_kv_rows(kv), 0);
                assert_int_equal(fg_kv_grow(kv, 256, 0, NULL, &err), 0);
                fill(kv, 0, 256, 3);
                expect_rows(kv, 0, 256, 3);

                assert_ptr_equal(fg_kv_heads(kv, 0), heads);
                if (backings[b] == FG_KV_EXTEND) assert_ptr_equal(heads[0].k, address);
                fg_kv_free(kv);
            }
}

// Large parts, whose ranges start at huge pages.
static const struct fg_kv_shape large = {
    .n_layers = 4, .n_heads = 2, .D = 128, .format = FG_KV_KV8};

static void memory_is_what_is_said_and_comes_back(void **state)
{
    (void)state;
    static const int64_t steps[] = {256, 16384, 20000, 5000, 12000, 300, 0, 16384};
    // Whole pages of the system at the end of 32 ranges, and what else a process does.
    const int64_t slack = (int64_t)32 * 4096 + (512 << 10);
    for (int kind = 0; kind < 4; kind++) {
        struct fg_error err;
        const enum fg_kv_backing backing = backings[kind % 2];
        no_populate = kind >= 2;
        const int64_t before = resident();
        struct fg_kv *kv = make(&large, 40000, backing);
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            const int64_t keep = steps[i] < fg_kv_rows(kv) ? steps[i] : fg_kv_rows(kv);
            if (steps[i] > fg_kv_rows(kv))
                assert_int_equal(fg_kv_grow(kv, steps[i], keep, NULL, &err), 0);
            else
                fg_kv_shrink(kv, steps[i]);
            const int64_t found = resident() - before, expected = bytes_of(kv);
            if (found < expected - slack || found > expected + slack)
                fail_msg("backing %d, %d rows: %lld bytes in memory, %lld expected", backing,
                         (int)fg_kv_rows(kv), (long long)found, (long long)expected);
        }
        fg_kv_free(kv);
        assert_in_range(resident() - before + slack, 0, 2 * slack);
        no_populate = false;
    }
}

// Can the process read the byte at p?
static bool readable(const uint8_t *p)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    ssize_t n = write(ends[1], p, 1);
    close(ends[0]);
    close(ends[1]);
    return n == 1;
}

static void check_access(const struct fg_kv *kv)
{
    const int64_t rows = fg_kv_rows(kv), D = fg_kv_shape(kv)->D;
    for (int64_t i = 0; i < n_heads(kv); i++) {
        const struct fg_kv_head *h = head_of(kv, i);
        const uint64_t row = (uint64_t)fg_kv_k_page_bytes(h->format, D) / FG_KV_PAGE;
        if (rows) assert_true(readable(h->k + row * (uint64_t)rows - 1));
        if (!fg_kv_copies(kv)) assert_false(readable(h->k + row * (uint64_t)rows));
    }
}

// Growth from `from` to `to` rows with each of its system calls failing.
static void growth_fails_cleanly(const struct fg_kv_shape *shape, enum fg_kv_backing backing,
                                 int64_t from, int64_t to)
{
    struct fg_error err;
    struct fg_kv *kv = make(shape, to + FG_KV_PAGE, backing);
    assert_int_equal(fg_kv_grow(kv, from, 0, NULL, &err), 0);
    fill(kv, 0, from, 5);
    int n = 0, failures = 0, rc;
    do {
        const int64_t rows = fg_kv_rows(kv);
        const int64_t before = resident(), addresses = process_bytes(false);
        uint64_t peak = 12345;
        fail_at(++n);
        rc = fg_kv_grow(kv, to, from, &peak, &err);
        countdown = 0;
        if (rc == 0) break; // none failed, or a hint
        failures++;
        assert_int_equal(rc, FG_ERESOURCE);
        assert_true(failed);
        assert_int_equal(peak, 12345);
        assert_int_equal(fg_kv_rows(kv), rows);
        expect_rows(kv, 0, from, 5);
        check_access(kv);
        assert_in_range(resident() - before + (256 << 10), 0, 512 << 10);
        assert_in_range(process_bytes(false) - addresses + (256 << 10), 0, 512 << 10);
    } while (n < 1000);
    assert_true(failures >= (backing == FG_KV_COPY ? 1 : 2 * (int)n_heads(kv)));
    assert_int_equal(rc, 0);
    expect_rows(kv, 0, from, 5);
    fill(kv, to - 100, to, 6);
    expect_rows(kv, 0, from, 5);
    expect_rows(kv, to - 100, to, 6);
    check_access(kv);
    fg_kv_free(kv);
}

static void failures_of_growth_leave_everything(void **state)
{
    (void)state;
    struct fg_kv_shape few = large;
    few.n_layers = 1;
    for (size_t b = 0; b < 2; b++) {
        for (int f = 0; f < FG_KV_N_ALL; f++) {
            struct fg_kv_shape shape = shape_of((enum fg_kv_format)f, 64);
            growth_fails_cleanly(&shape, backings[b], 300, 2048);
        }
        growth_fails_cleanly(&few, backings[b], 20, 256 * 66);
    }
}

static void failures_of_making_one(void **state)
{
    (void)state;
    static const enum fg_kv_backing kinds[] = {FG_KV_AUTO, FG_KV_EXTEND, FG_KV_COPY};
    const struct fg_kv_shape shape = shape_of(FG_KV_V8, 64);
    struct fg_error err;
    struct fg_kv *kv;
    for (size_t k = 0; k < 3; k++)
        for (int n = 1;; n++) {
            fail_at(n);
            int rc = fg_kv_new(&kv, &shape, 5000, kinds[k], &err);
            countdown = 0;
            if (rc) {
                assert_int_equal(rc, FG_ERESOURCE);
                assert_null(kv);
                assert_true(failed);
                continue;
            }
            // Addresses that can't be reserved: by copying, where that is allowed.
            assert_int_equal(fg_kv_copies(kv), kinds[k] == FG_KV_COPY || (failed && n == 3));
            assert_int_equal(fg_kv_grow(kv, 600, 0, NULL, &err), 0);
            fill(kv, 0, 600, 1);
            expect_rows(kv, 0, 600, 1);
            fg_kv_free(kv);
            if (!failed) break;
        }
    // More addresses than there are, and more than numbers hold.
    for (int i = 0; i < 2; i++) {
        const int64_t rows_max = i ? INT64_MAX - 256 : (int64_t)1 << 44;
        assert_int_equal(fg_kv_new(&kv, &shape, rows_max, FG_KV_EXTEND, &err), FG_ERESOURCE);
        assert_null(kv);
        assert_int_equal(fg_kv_new(&kv, &shape, rows_max, FG_KV_AUTO, &err), 0);
        assert_true(fg_kv_copies(kv));
        assert_int_equal(fg_kv_grow(kv, 300, 0, NULL, &err), 0);
        assert_int_equal(fg_kv_grow(kv, rows_max, 300, NULL, &err), FG_ERESOURCE);
        assert_int_equal(fg_kv_rows(kv), 512);
        fg_kv_free(kv);
    }
    // More ranges than the kernel has room for mappings.
    const struct fg_kv_shape many = {.n_layers = 1024, .n_heads = 32, .D = 8, .format = FG_KV_KV8};
    kv = make(&many, 1 << 20, FG_KV_AUTO);
    assert_true(fg_kv_copies(kv));
    n_mmaps = 0;
    assert_int_equal(fg_kv_grow(kv, 256, 0, NULL, &err), 0);
    assert_int_equal(n_mmaps, 1);
    fg_kv_free(kv);
}

static void pages_are_taken_and_put_back(void **state)
{
    (void)state;
    static const int64_t parts[][2] = {{0, 256}, {0, 1},     {255, 256}, {3, 3},
                                       {0, 16},  {16, 32},   {5, 23},    {17, 250},
                                       {1, 255}, {100, 101}, {4, 8}};
    for (size_t b = 0; b < 2; b++)
        for (int f = 0; f < FG_KV_N_ALL; f++)
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
                struct fg_error err;
                struct fg_kv_shape shape = shape_of((enum fg_kv_format)f, widths[w]);
                struct fg_kv *kv = make(&shape, 1024, backings[b]);
                assert_int_equal(fg_kv_grow(kv, 1024, 0, NULL, &err), 0);
                fill(kv, 0, 1024, 7);
                uint8_t *page = fg_alloc_aligned(fg_kv_page_bytes(kv));
                fg_kv_page_get(kv, 2, page);
                for (int64_t i = 0; i < n_heads(kv); i++) { // its heads
                    const int64_t layer = i / shape.n_heads, head = i % shape.n_heads;
                    struct fg_kv_head h = fg_kv_page_head(&shape, page, layer, head);
                    assert_int_equal(h.format, f);
                    assert_int_equal(h.D, widths[w]);
                    for (int64_t t = 0; t < FG_KV_PAGE; t++) {
                        struct row r = row_of(&h, i, 512 + t, 7);
                        assert_true(has_row(&h, t, &r));
                    }
                }
                for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
                    fill(kv, 512, 768, 8);
                    fg_kv_page_put(kv, 2, parts[i][0], parts[i][1], page);
                    expect_rows(kv, 0, 512, 7);
                    expect_rows(kv, 512, 512 + parts[i][0], 8);
                    expect_rows(kv, 512 + parts[i][0], 512 + parts[i][1], 7);
                    expect_rows(kv, 512 + parts[i][1], 768, 8);
                    expect_rows(kv, 768, 1024, 7);
                }
                free(page);
                fg_kv_free(kv);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_formats),
        cmocka_unit_test(growing_and_shrinking_keep_rows),
        cmocka_unit_test(memory_is_what_is_said_and_comes_back),
        cmocka_unit_test(failures_of_growth_leave_everything),
        cmocka_unit_test(failures_of_making_one),
        cmocka_unit_test(pages_are_taken_and_put_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
