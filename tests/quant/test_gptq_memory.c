// Failing allocations of Hessians, factors and GPTQ: each call is run with its first, second, ...
// allocation failing until it succeeds, must fail cleanly each time, and must keep nothing.
#include "base/size.h"
#include "quant/gptq.h"
#include "quant/synthetic.h"
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifdef SANITIZED // the sanitizer brings allocators of its own
static void needs_a_build_without_sanitizers(void **state)
{
    (void)state;
    skip();
}
#else
// The program's allocators, in front of glibc's. Shared libraries find them as well, and BLAS does
// not look at what it gets: only calls from the program itself fail.
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);
extern const char __executable_start[], etext[];

static int countdown; // 0: no failures; n: the n-th allocation from now fails
static bool failed;   // one did
static int64_t held;  // blocks

static void *counted(void *p)
{
    held += p != NULL;
    return p;
}

static bool fails(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;
    if (at < (uintptr_t)__executable_start || at >= (uintptr_t)etext) return false;
    if (countdown == 0 || --countdown > 0) return false;
    failed = true;
    errno = ENOMEM;
    return true;
}

#define EXPORTED __attribute__((visibility("default")))
#define FAILS fails(__builtin_return_address(0))

EXPORTED void *malloc(size_t n)
{
    return FAILS ? NULL : counted(__libc_malloc(n));
}

EXPORTED void *calloc(size_t n, size_t size)
{
    return FAILS ? NULL : counted(__libc_calloc(n, size));
}

EXPORTED void *realloc(void *p, size_t n)
{
    if (FAILS) return NULL;
    held -= p != NULL;
    return counted(__libc_realloc(p, n));
}

EXPORTED void *aligned_alloc(size_t align, size_t n)
{
    return FAILS ? NULL : counted(__libc_memalign(align, n));
}

EXPORTED void free(void *p)
{
    held -= p != NULL;
    __libc_free(p);
}

enum { ROWS = 20, COLS = 150 };

static float *W, *x;
static struct fg_hessian H;
static struct fg_gptq_factor F;

static int make_hessian(struct fg_error *err)
{
    struct fg_hessian h;
    int rc = fg_hessian_new(&h, COLS, err);
    if (!rc) rc = fg_hessian_add(&h, x, 300, NULL, err);
    if (!rc) fg_hessian_finish(&h, NULL);
    fg_hessian_free(&h);
    return rc;
}

static int measure(struct fg_error *err)
{
    const double error = fg_hessian_error(&H, W, ROWS, NULL, NULL);
    return isnan(error) ? fg_fail_memory(err, "error", 1) : 0;
}

static int factorize(struct fg_error *err)
{
    struct fg_gptq_factor f;
    const int rc = fg_gptq_factorize(&f, &H, FG_GPTQ_ORDER_ACT, 0.01, "x", NULL, err);
    if (rc) assert_true(!f.U && !f.perm && !f.diag && !f.dead);
    fg_gptq_factor_free(&f);
    return rc;
}

static int quantize(enum fg_qformat f, struct fg_error *err)
{
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    struct fg_gptq_options o = {
        .fit = fg_fit_defaults("x", levels[0], NULL), .aw = true, .refine = 2};
    struct fg_fit_result r;
    struct fg_gptq_stats stats;
    const int rc = fg_gptq(&r, &stats, true, f, W, ROWS, COLS, &H, &F, NULL, &o, err);
    if (rc) assert_true(!r.data && !r.lut && !r.scale);
    fg_fit_free(&r);
    return rc;
}

static int quantize_pairs(struct fg_error *err)
{
    return quantize(FG_Q_V2X16, err);
}

static int quantize_int8(struct fg_error *err)
{
    return quantize(FG_Q_INT8, err);
}

static int keep(struct fg_error *err)
{
    return quantize(FG_Q_BF16, err);
}

static void each_allocation_fails_once(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int (*run)(struct fg_error *err);
        int allocations_min;
    } cases[] = {{"Hessian", make_hessian, 2}, {"trace", measure, 2},
                 {"factor", factorize, 7},     {"v2x16", quantize_pairs, 20},
                 {"int8", quantize_int8, 14},  {"bf16", keep, 6}};
    x = synthetic_gauss(300 * COLS, "memory/inputs");
    W = synthetic_gauss(ROWS * COLS, "memory/weights");
    H = synthetic_hessian(x, 300, COLS, NULL);
    assert_int_equal(fg_gptq_factorize(&F, &H, FG_GPTQ_ORDER_ACT, 0.01, "x", NULL, NULL), 0);
    for (size_t c = 0; c < FG_COUNT(cases); c++) {
        struct fg_error err = {0};
        assert_int_equal(cases[c].run(&err), 0); // libraries keep what they take at first
        int n = 1;
        for (failed = true; failed; n++) {
            const int64_t before = held;
            err = (struct fg_error){0};
            failed = false;
            countdown = n;
            const int rc = cases[c].run(&err);
            countdown = 0;
            // What gives memory back may fail and change nothing.
            if (rc && (rc != FG_ERESOURCE || !failed))
                fail_msg("%s, allocation %d: %d", cases[c].name, n, rc);
            if (held != before)
                fail_msg("%s, allocation %d: %d blocks left", cases[c].name, n,
                         (int)(held - before));
        }
        if (n - 2 < cases[c].allocations_min) fail_msg("%s: %d allocations", cases[c].name, n - 2);
    }
    fg_gptq_factor_free(&F);
    fg_hessian_free(&H);
    free(W);
    free(x);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef SANITIZED
        cmocka_unit_test(needs_a_build_without_sanitizers),
#else
        cmocka_unit_test(each_allocation_fails_once),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
