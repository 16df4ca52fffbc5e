// kernels/dispatch.c: which levels of kernels this machine can run, and the table of each. A level
// is a named set of CPU features (Levels below); its table is ref overwritten upward. The tables
// are built once, on the first call, and never change after.
#include "base/arena.h"
#include "base/num.h"
#include "kernels/levels.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#if defined(__aarch64__) && !defined(FORGE_REF_ONLY)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Levels, each with what stands before it on its kind of machine: ref; avx2 = AVX2, FMA, F16C;
// avx2vnni = AVX-VNNI; avx512 = AVX-512 F, BW, VL, DQ; avx512vnni = AVX-512 VBMI, VNNI; avx512bf16
// = AVX512-BF16; amx = AMX-INT8 (and avx512vnni); neon = Advanced SIMD with dot products.
#define LEVELS_MAX 8
static struct fg_kernels tables[LEVELS_MAX];
static const struct fg_kernels *levels[LEVELS_MAX];
static int n_levels;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct fg_kernels *add_level(const char *isa)
{
    struct fg_kernels *k = &tables[n_levels];
    if (n_levels > 0) *k = tables[n_levels - 1];
    k->isa = isa;
    levels[n_levels++] = k;
    return k;
}

#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
struct features {
    bool avx2, avx2vnni, avx512, avx512vnni, avx512bf16, amx;
};

// The kernel saves AMX's registers only for processes that ask for them.
static bool ask_for_tiles(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

// CPUID says what the CPU has, XCR0 which registers the operating system saves.
static struct features detect(void)
{
    struct features f = {0};
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
    bool osxsave = c & bit_OSXSAVE, avx = c & bit_AVX, fma = c & bit_FMA, f16c = c & bit_F16C;
    if (!osxsave) return f;

    unsigned lo, hi;
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    bool ymm = (lo & 0x06) == 0x06;        // SSE and AVX state
    bool zmm = ymm && (lo & 0xE0) == 0xE0; // and opmask, upper halves, zmm16-31
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    unsigned max_subleaf = a;
    f.avx2 = ymm && avx && fma && f16c && (b & bit_AVX2);
    f.avx512 = f.avx2 && zmm && (b & bit_AVX512F) && (b & bit_AVX512BW) && (b & bit_AVX512VL) &&
               (b & bit_AVX512DQ);
    f.avx512vnni = f.avx512 && (c & bit_AVX512VBMI) && (c & bit_AVX512VNNI);
    enum { AMX_TILE = 1 << 24, AMX_INT8 = 1 << 25 }; // clang 14's cpuid.h has no names for them
    bool tiles = (lo & 0x60000) == 0x60000 && (d & AMX_TILE) && (d & AMX_INT8);
    f.amx = f.avx512vnni && tiles && ask_for_tiles();
    if (f.avx2 && max_subleaf >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        f.avx2vnni = a & bit_AVXVNNI;
        f.avx512bf16 = f.avx512 && (a & bit_AVX512BF16);
    }
    return f;
}

// A BF16 number by exponent class, so that lanes cancel, underflow, overflow and meet subnormals.
static uint16_t test_bf16(uint64_t *state, int kind)
{
    static const uint16_t exponent[4][2] = {{120, 16}, {56, 16}, {0, 3}, {180, 8}};
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    uint32_t u = (uint32_t)(*state >> 32);
    uint32_t e = exponent[kind][0] + (u >> 16) % exponent[kind][1];
    return (uint16_t)((u & 0x807F) | e << 7);
}

// VDPBF16PS ignores MXCSR and its order of operations was long undocumented, so it counts only
// where it gives the bits of dot2 (so few rows need no scratch).
static bool dot2_agrees(fg_gemm_bf16_fn gemm, fg_gemm_bf16_fn truth)
{
    enum { N = 77, ROWS = 8, T = 4 };
    uint16_t w[ROWS * N], x[T * N];
    float y[T * ROWS], y_true[T * ROWS];
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (int trial = 0; trial <= 16; trial++) {
        for (int i = 0; i < ROWS * N; i++)
            w[i] = trial < 16 ? test_bf16(&state, trial / 4) : 0;
        for (int i = 0; i < T * N; i++)
            x[i] = trial < 16 ? test_bf16(&state, trial % 4) : 0;
        if (trial == 16) { // 2^-126 - 3 * 2^-152 in lane 0: flushed or not, see fma_flush in ref
            w[0] = 0x2780, x[0] = 0x1880;
            w[32] = 0x1A80, x[32] = 0x9940;
        }
        gemm(y, ROWS, w, N, 0, ROWS, x, N, T, NULL);
        truth(y_true, ROWS, w, N, 0, ROWS, x, N, T, NULL);
        for (int i = 0; i < T * ROWS; i++) {
            if (fg_bits_of_f32(y[i]) != fg_bits_of_f32(y_true[i])) return false;
        }
    }
    return true;
}

// Products of quantized weights are exact, so a level whose instructions do something else shows it
// on random bytes. Few rows and many go different ways.
static bool lut_agrees(const struct fg_kernels *k, const struct fg_kernels *truth)
{
    enum { N = 77, LD = 128, ROWS = 35, T = 19, FEW = 2, TILES = 3 * 20 * 64 };
    _Alignas(64) uint8_t tiles[TILES], wide[128], narrow[128]; // tables of 64 and of 16 entries
    _Alignas(64) int8_t codes[T * LD] = {0};
    _Alignas(64) float scale[64];
    float sx[T], y[T * ROWS], y_true[T * ROWS];
    int32_t sum[T] = {0};
    uint64_t state = 0x9E3779B97F4A7C15u;
    for (int i = 0; i < TILES; i++)
        tiles[i] = (uint8_t)test_bf16(&state, 0);
    for (int i = 0; i < 128; i++)
        wide[i] = (uint8_t)(i & 15 ? test_bf16(&state, 0) | 1 : i & 16 ? 255 : 1);
    for (int i = 0; i < 128; i++)
        narrow[i] = wide[i & ~48];
    for (int i = 0; i < 64; i++)
        scale[i] = (float)(i + 1);
    for (int t = 0; t < T; t++) {
        sx[t] = 0.5f / (float)(t + 1);
        for (int i = 0; i < N; i++) {
            int v = (int)(test_bf16(&state, 0) & 255) - 128;
            codes[t * LD + i] = (int8_t)(v < -127 ? 127 : v);
            sum[t] += codes[t * LD + i];
        }
    }
    const struct fg_act x = {.n = N, .ld = LD, .n_blocks = 1, .xc = codes, .sx = sx, .sum = sum};
    void *scratch = fg_alloc_aligned(fg_lut_scratch_bytes(N));
    bool same = scratch != NULL;
    for (int l = 0; same && l < FG_N_LAYOUTS; l++) {
        const struct fg_lut w = {.layout = (enum fg_layout)l,
                                 .n_out = ROWS,
                                 .n_in = N,
                                 .tiles = tiles,
                                 .table_u8 =
                                     fg_layout_is_six_bits((enum fg_layout)l) ? wide : narrow,
                                 .scale = scale,
                                 .scale_ts = scale};
        const int64_t groups = fg_layout_groups(w.layout, ROWS);
        truth->lut_gemm[l](y_true, ROWS, &w, 0, groups, &x, 0, T, scratch);
        for (int64_t rows = FEW; same && rows <= T; rows += T - FEW) {
            memset(y, 0, sizeof y);
            k->lut_gemm[l](y, ROWS, &w, 0, groups, &x, 0, rows, scratch);
            same = memcmp(y, y_true, (size_t)(rows * ROWS) * sizeof *y) == 0;
        }
    }
    free(scratch);
    return same;
}

// Adds a level of products of quantized weights, unless this machine computes them wrongly.
static void add_lut_level(const char *isa, void (*fill)(struct fg_kernels *))
{
    struct fg_kernels k = tables[n_levels - 1];
    fill(&k);
    if (lut_agrees(&k, &tables[0])) fill(add_level(isa));
}

static void fill_avx512vnni(struct fg_kernels *k)
{
    fg_fill_lut_avx512vnni(k);
    fg_fill_attn_avx512vnni(k);
}

static void fill_amx(struct fg_kernels *k)
{
    fg_fill_lut_amx(k);
    fg_fill_attn_amx(k);
}
#endif

static void build(void)
{
    struct fg_kernels *k = add_level("ref");
    fg_fill_dense_ref(k);
    fg_fill_vector_ref(k);
    fg_fill_lut_ref(k);
    fg_fill_act_ref(k);
    fg_fill_fit_ref(k);
    fg_fill_attn_ref(k);
    fg_fill_gdn_ref(k);
#if defined(__x86_64__) && !defined(FORGE_REF_ONLY)
    struct features f = detect();
    if (f.avx2) {
        k = add_level("avx2");
        fg_fill_dense_avx2(k);
        fg_fill_vector_avx2(k);
        fg_fill_lut_avx2(k);
        fg_fill_act_avx2(k);
        fg_fill_fit_avx2(k);
        fg_fill_attn_avx2(k);
        fg_fill_gdn_avx2(k);
    }
    if (f.avx2vnni) fg_fill_lut_avx2vnni(add_level("avx2vnni"));
    if (f.avx512) {
        k = add_level("avx512");
        fg_fill_dense_avx512(k);
        fg_fill_vector_avx512(k);
        fg_fill_lut_avx512(k);
        fg_fill_act_avx512(k);
        fg_fill_fit_avx512(k);
        fg_fill_attn_avx512(k);
        fg_fill_gdn_avx512(k);
    }
    if (f.avx512vnni) add_lut_level("avx512vnni", fill_avx512vnni);
    struct fg_kernels bf16 = {0};
    if (f.avx512bf16) fg_fill_dense_avx512bf16(&bf16);
    if (f.avx512bf16 && dot2_agrees(bf16.gemm_bf16_bf16, tables[0].gemm_bf16_bf16))
        fg_fill_dense_avx512bf16(add_level("avx512bf16"));
    if (f.amx) add_lut_level("amx", fill_amx);
#elif defined(__aarch64__) && !defined(FORGE_REF_ONLY)
    if (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) {
        k = add_level("neon");
        fg_fill_lut_neon(k);
        fg_fill_act_neon(k);
        fg_fill_attn_neon(k);
    }
#endif
}

const struct fg_kernels *const *fg_kernels_levels(int *n)
{
    pthread_once(&once, build);
    *n = n_levels;
    return levels;
}

int fg_kernels_get(const struct fg_kernels **out, const char *isa, struct fg_error *err)
{
    static const char *const known[] = {"ref",        "avx2",       "avx2vnni", "avx512",
                                        "avx512vnni", "avx512bf16", "amx",      "neon"};
    int n;
    const struct fg_kernels *const *all = fg_kernels_levels(&n);
    *out = NULL;
    if (!isa || !isa[0]) {
        *out = all[n - 1];
        return 0;
    }
    for (int i = 0; i < n; i++) {
        if (strcmp(all[i]->isa, isa) == 0) {
            *out = all[i];
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i], isa) == 0)
            return fg_fail(err, FG_EUNSUPPORTED, "kernels", NULL, "isa",
                           "a level that this machine has", "%s; the best here is %s", isa,
                           all[n - 1]->isa);
    return fg_fail(err, FG_EINPUT, "kernels", NULL, "isa",
                   "ref, avx2, avx2vnni, avx512, avx512vnni, avx512bf16, amx or neon", "%s", isa);
}
