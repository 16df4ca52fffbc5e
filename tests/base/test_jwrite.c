// JSON text, value by value.
#include "base/jwrite.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

static void test_shapes(void **state)
{
    (void)state;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_int(&w, "a\"b", -3);
    fg_jwrite_uint(&w, "u", UINT64_MAX);
    fg_jwrite_array(&w, "list");
    fg_jwrite_object(&w, NULL);
    fg_jwrite_end_object(&w);
    fg_jwrite_num(&w, NULL, 0.5);
    fg_jwrite_num(&w, NULL, NAN);
    fg_jwrite_num(&w, NULL, -INFINITY);
    fg_jwrite_array(&w, NULL);
    fg_jwrite_end_array(&w);
    fg_jwrite_end_array(&w);
    fg_jwrite_bool(&w, "t", true);
    fg_jwrite_null(&w, "n");
    fg_jwrite_str(&w, "s", NULL);
    fg_jwrite_text(&w, "raw", "x\0\n\xff", 4);
    fg_jwrite_end_object(&w);
    assert_false(w.buf.failed);
    assert_string_equal(w.buf.data,
                        "{\"a\\\"b\": -3, \"u\": 18446744073709551615, \"list\": [{}, 0.5, null, "
                        "null, []], \"t\": true, \"n\": null, \"s\": null, \"raw\": "
                        "\"x\\u0000\\n\xEF\xBF\xBD\"}");
    fg_jwrite_free(&w);
    assert_null(w.buf.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
