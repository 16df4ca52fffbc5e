// Packed indices: the specification's examples, and every width and length against bits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "base/size.h"
#include "quant/pack.h"
#include "quant/random.h"

static void examples(void **state)
{
    (void)state;
    uint8_t out[3];
    fg_pack_indices(out, (const uint8_t[]){5, 10}, 2, 4);
    assert_memory_equal(out, "\xa5", 1);
    fg_pack_indices(out, (const uint8_t[]){1, 2, 3, 63}, 4, 6);
    assert_memory_equal(out, "\x81\x30\xfc", 3);
    fg_pack_indices(out, (const uint8_t[]){1, 2, 3, 4, 5, 6, 7, 0}, 8, 3);
    assert_memory_equal(out, "\xd1\x58\x1f", 3);
    assert_int_equal(fg_pack_bytes(5, 6), 4);
    assert_int_equal(fg_pack_bytes(0, 6), 0);
}

// All widths, 1 .. 200 columns: bit p of the stream is where it should be, nothing is written past
// the row, pad bits are 0, and the way back gives the same indices.
static void round_trip(void **state)
{
    (void)state;
    static const int widths[] = {2, 3, 4, 6, 8};
    struct fg_random r = fg_random_seeded(1);
    for (size_t w = 0; w < FG_COUNT(widths); w++) {
        const int bits = widths[w];
        for (int64_t n = 1; n <= 200; n++) {
            uint8_t idx[200], back[208], packed[208];
            for (int64_t j = 0; j < n; j++)
                idx[j] = (uint8_t)fg_random_below(&r, 1u << bits);
            memset(packed, 0xEE, sizeof packed);
            memset(back, 0xEE, sizeof back);
            fg_pack_indices(packed, idx, n, bits);
            const int64_t bytes = fg_pack_bytes(n, bits);
            for (int64_t p = 0; p < bytes * 8; p++) {
                int want = p < n * bits ? idx[p / bits] >> (p % bits) & 1 : 0;
                assert_int_equal(packed[p / 8] >> (p % 8) & 1, want);
            }
            assert_int_equal(packed[bytes], 0xEE);
            assert_true(fg_pack_pad_is_zero(packed, n, bits));
            fg_unpack_indices(back, packed, n, bits);
            assert_memory_equal(back, idx, (size_t)n);
            assert_int_equal(back[n], 0xEE);
        }
    }
}

static void pad_bits(void **state)
{
    (void)state;
    uint8_t packed[8] = {0};
    for (int64_t n = 1; n <= 9; n++) {
        for (int64_t p = n * 6; p < fg_pack_bytes(n, 6) * 8; p++) {
            packed[p / 8] = (uint8_t)(1 << (p % 8));
            assert_false(fg_pack_pad_is_zero(packed, n, 6));
            uint8_t idx[9];
            fg_unpack_indices(idx, packed, n, 6);
            for (int64_t j = 0; j < n; j++)
                assert_int_equal(idx[j], 0);
            packed[p / 8] = 0;
        }
        assert_true(fg_pack_pad_is_zero(packed, n, 6));
    }
    assert_true(fg_pack_pad_is_zero((const uint8_t[]){0xFF}, 2, 4)); // no pad there
    assert_false(fg_pack_pad_is_zero((const uint8_t[]){0x1F}, 1, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(pad_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
