// CRC-32C on the vectors of RFC 3720 B.4, against a bit by bit form, and in pieces; the instruction
// and the tables give one value.
#include "base/crc32c.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint32_t by_bits(uint32_t crc, const uint8_t *p, uint64_t n)
{
    uint32_t r = ~crc;
    for (uint64_t i = 0; i < n; i++) {
        r ^= p[i];
        for (int b = 0; b < 8; b++)
            r = r & 1 ? r >> 1 ^ 0x82F63B78u : r >> 1;
    }
    return ~r;
}

static void test_vectors(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    static const uint8_t read_command[48] = {[0] = 0x01,  [1] = 0xC0,  [16] = 0x14, [22] = 0x04,
                                             [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02};
    const struct {
        const void *data;
        uint64_t n;
        uint32_t crc;
    } vectors[] = {
        {"", 0, 0},
        {"123456789", 9, 0xE3069283u},
        {zeros, 32, 0x8A9136AAu},
        {ones, 32, 0x62A8AB43u},
        {up, 32, 0x46DD794Eu},
        {down, 32, 0x113FDB5Cu},
        {read_command, 48, 0xD9963A56u},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        assert_int_equal(fg_crc32c(0, vectors[i].data, vectors[i].n), vectors[i].crc);
        assert_int_equal(fg_crc32c_portable(0, vectors[i].data, vectors[i].n), vectors[i].crc);
    }
}

// Lengths around every change of path, from every alignment.
static void test_lengths(void **state)
{
    (void)state;
    enum { N = 3 * 16384 * 2 + 3 * 512 * 2 + 100 };
    uint8_t *data = malloc(N + 8);
    assert_non_null(data);
    uint32_t x = 1;
    for (int i = 0; i < N + 8; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (uint8_t)(x >> 24);
    }
    static const uint64_t lengths[] = {1,    7,     8,     9,     1535,         1536,  1537,
                                       3072, 49151, 49152, 49153, 49152 + 1537, 98304, N};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int at = 0; at < 8; at++) {
            uint32_t crc = by_bits(0, data + at, lengths[i]);
            assert_int_equal(fg_crc32c(0, data + at, lengths[i]), crc);
            assert_int_equal(fg_crc32c_portable(0, data + at, lengths[i]), crc);
        }
    uint32_t whole = fg_crc32c(0, data, N);
    for (uint64_t cut = 0; cut <= N; cut += 4999) {
        assert_int_equal(fg_crc32c(fg_crc32c(0, data, cut), data + cut, N - cut), whole);
        assert_int_equal(fg_crc32c_portable(fg_crc32c(0, data, cut), data + cut, N - cut), whole);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
