// Sensitivity tables: units and their texts, files that say what they should and files that do not,
// merging, looking up.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/file.h"
#include "quant/sens.h"
#include "support/scratch.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const bool kinds[] = {true, true, false, true};
static const struct fg_plan_shape shape = {.architecture = "qwen3_5",
                                           .n_layers = 4,
                                           .hidden = 576,
                                           .intermediate = 1536,
                                           .vocab = 1001,
                                           .is_linear = kinds};

static struct fg_sens parse(const char *text)
{
    struct fg_sens s;
    struct fg_error err = {0};
    if (fg_sens_parse(&s, text, strlen(text), "s.json", &err))
        fail_msg("%s: %s: expected %s, found %s", text, err.field, err.expected, err.found);
    return s;
}

static const struct fg_sens_row *find(const struct fg_sens *s, const char *unit,
                                      enum fg_sens_metric metric, enum fg_qformat format)
{
    struct fg_sens_unit u;
    assert_true(fg_sens_unit_parse(&u, unit));
    return fg_sens_find(s, metric, &u, format);
}

// ---- units

static void units_are_what_they_are_written_as(void **state)
{
    static const char *const good[] = {
        "0.gate",  "3.down",      "1023.up",    "2.qkv",       "2.z",    "2.out",    "7.q",
        "7.k",     "7.v",         "7.o",        "head",        "3.mlp",  "12.mixer", "mlp:0-7",
        "mlp:3-3", "mixer:24-31", "mlp:0-1023", "mixer:63-63", "10.gate"};
    static const char *const bad[] = {
        "",           "gate",      "3",         "3.",
        "3.gatee",    "03.gate",   "1024.gate", "-1.gate",
        "3.head",     "3.kv",      "3.lr_rank", "mlp",
        "mlp:",       "mlp:0",     "mlp:7-0",   "mlp:0-",
        "mlp:-7",     "mlp:0-7 ",  "mlp: 0-7",  "mlp:00-7",
        "mlp:0-1024", "mlps:0-7",  "mixer0-7",  "Head",
        " head",      "3.mlp:0-7", "3 .gate",   "3..gate",
        "0x3.gate",   "3.gate.",   "mlp:0-7-",  "99999999999999999999.gate"};
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct fg_sens_unit u;
        char text[FG_SENS_UNIT_TEXT];
        if (!fg_sens_unit_parse(&u, good[i])) fail_msg("%s", good[i]);
        assert_string_equal(fg_sens_unit_text(text, &u), good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct fg_sens_unit u;
        if (fg_sens_unit_parse(&u, bad[i])) fail_msg("%s was read", bad[i]);
    }
    const struct fg_plan_mat m = {.layer = 5, .part = FG_PLAN_OUT};
    const struct fg_sens_unit u = fg_sens_unit_of(&m);
    char text[FG_SENS_UNIT_TEXT];
    assert_string_equal(fg_sens_unit_text(text, &u), "5.out");
    const struct fg_plan_mat head = {.layer = -1, .part = FG_PLAN_HEAD};
    const struct fg_sens_unit h = fg_sens_unit_of(&head);
    assert_string_equal(fg_sens_unit_text(text, &h), "head");
}

// ---- files

#define HEAD "{\"schema\": \"forge.sens/1\", "
#define ROW(unit, format, metric, rest)                                                            \
    "{\"unit\": \"" unit "\", \"format\": \"" format "\", \"metric\": \"" metric "\", " rest "}"
#define SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void rows_are_read_and_found(void **state)
{
    (void)state;
    static const char *const rows[] = {
        ROW("mlp:0-3", "v2x16", "kl",
            "\"value\": 0.5, \"ci95\": [0.25, 1], \"tokens\": 40023, \"trace_sha256\": \"" SHA
            "\""),
        ROW("3.gate", "v2x64", "rel_err_h", "\"value\": 0.01"),
        ROW("3.gate", "v2x64", "err_h", "\"value\": 7, \"ci95\": null"),
        ROW("2.mixer", "lut4", "delta_nll", "\"value\": -0.001"),
        ROW("head", "LUT4 per-tensor + pcs", "kl", "\"value\": 0"),
        ROW("3.gate", "v2x64", "rel_err_h", "\"value\": 0.02"),
        ROW("3.gate", "lut4", "fisher_kl", "\"value\": 0.5"),
        ROW("3.gate", "lut4", "ns", "\"value\": 12345"),
    };
    struct fg_buf text = {0};
    fg_buf_str(&text,
               HEAD "\"model\": {\"architecture\": \"qwen3_5\", \"layers\": 4, \"hidden\": "
                    "576}, \"provenance\": {\"command\": \"x\", \"more\": [1]}, \"rows\": [");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (i) fg_buf_str(&text, ", ");
        fg_buf_str(&text, rows[i]);
    }
    fg_buf_str(&text, "]}");
    struct fg_sens s = parse(text.data);
    fg_buf_free(&text);
    assert_int_equal(s.n, 7); // one came twice
    assert_int_equal(s.layers, 4);
    assert_int_equal(s.vocab, 0);
    assert_int_equal(strlen(s.sha256), 64);
    const struct fg_sens_row *row = find(&s, "mlp:0-3", FG_SENS_KL, FG_Q_V2X16);
    assert_non_null(row);
    assert_true(row->value == 0.5 && row->ci95[0] == 0.25 && row->ci95[1] == 1);
    assert_int_equal(row->tokens, 40023);
    assert_string_equal(row->trace_sha256, SHA);
    row = find(&s, "3.gate", FG_SENS_REL_ERR, FG_Q_V2X64);
    assert_true(row && row->value == 0.02 && isnan(row->ci95[0])); // the later one
    assert_true(find(&s, "3.gate", FG_SENS_ERR, FG_Q_V2X64)->value == 7);
    assert_true(find(&s, "2.mixer", FG_SENS_DELTA_NLL, FG_Q_LUT4)->value == -0.001);
    assert_non_null(find(&s, "head", FG_SENS_KL, FG_Q_LUT4));
    assert_non_null(find(&s, "3.gate", FG_SENS_FISHER, FG_Q_LUT4));
    assert_non_null(find(&s, "3.gate", FG_SENS_NS, FG_Q_LUT4));
    assert_null(find(&s, "3.gate", FG_SENS_NS, FG_Q_V2X64));
    assert_null(find(&s, "2.mlp", FG_SENS_DELTA_NLL, FG_Q_LUT4));
    assert_null(find(&s, "mlp:0-2", FG_SENS_KL, FG_Q_V2X16));
    assert_null(find(&s, "mixer:0-3", FG_SENS_KL, FG_Q_V2X16));
    fg_sens_free(&s);
}

static void refused(const char *text, const char *field)
{
    struct fg_sens s;
    struct fg_error err = {0};
    const int rc = fg_sens_parse(&s, text, strlen(text), "s.json", &err);
    char line[1024];
    fg_error_line(&err, line, sizeof line);
    if (rc != FG_EINPUT || strcmp(err.field, field) != 0 || strcmp(err.file, "s.json") != 0 ||
        s.rows || strchr(line, '\n'))
        fail_msg("%s: rc %d, field %s, wanted %s", text, rc, err.field, field);
}

#define ONE(unit, format, metric, rest) HEAD "\"rows\": [" ROW(unit, format, metric, rest) "]}"
#define V "\"value\": 1"

static void what_is_not_understood_is_named(void **state)
{
    (void)state;
    refused("[]", "");
    refused("null", "");
    refused("{}", "schema");
    refused("{\"schema\": \"forge.sens/2\", \"rows\": []}", "schema");
    refused("{\"schema\": 1, \"rows\": []}", "schema");
    refused(HEAD "\"row\": []}", "row");
    refused(HEAD "\"model\": {}}", "rows");
    refused(HEAD "\"rows\": {}}", "rows");
    refused(HEAD "\"rows\": [[]]}", "rows[0]");
    refused(HEAD "\"rows\": [null]}", "rows[0]");
    refused(HEAD "\"rows\": [{}]}", "rows[0].unit");
    refused(ONE("3.gatee", "lut4", "kl", V), "rows[0].unit");
    refused(ONE("3.\\n", "lut4", "kl", V), "rows[0].unit");
    refused(ONE("3.gate", "lut5", "kl", V), "rows[0].format");
    refused(ONE("3.gate", "f32", "kl", V), "rows[0].format");
    refused(ONE("3.gate", "lut4", "KL", V), "rows[0].metric");
    refused(ONE("3.gate", "lut4", "kl", "\"value\": \"1\""), "rows[0].value");
    refused(ONE("3.gate", "lut4", "kl", "\"value\": null"), "rows[0].value");
    refused(ONE("3.gate", "lut4", "kl", "\"value\": 1e999"), "rows[0].value");
    refused(ONE("3.gate", "lut4", "kl", "\"value\": -1"), "rows[0].value");
    refused(ONE("3.gate", "lut4", "kl", "\"values\": 1"), "rows[0].values");
    refused(ONE("3.mlp", "lut4", "rel_err_h", V), "rows[0].unit");
    refused(ONE("mlp:0-7", "lut4", "ns", V), "rows[0].unit");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"ci95\": [1]"), "rows[0].ci95");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"ci95\": [2, 1]"), "rows[0].ci95");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"ci95\": [1, 1e999]"), "rows[0].ci95");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"ci95\": [1, \"2\"]"), "rows[0].ci95");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"ci95\": {}"), "rows[0].ci95");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"tokens\": -1"), "rows[0].tokens");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"tokens\": 1.5"), "rows[0].tokens");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"trace_sha256\": \"0123\""), "rows[0].trace_sha256");
    refused(ONE("mlp:0-7", "lut4", "kl", V ", \"trace_sha256\": \"" SHA "00\""),
            "rows[0].trace_sha256");
    refused(HEAD "\"model\": {\"layer\": 4}, \"rows\": []}", "model.layer");
    refused(HEAD "\"model\": {\"layers\": 1025}, \"rows\": []}", "model.layers");
    refused(HEAD "\"model\": {\"digest\": \"x\"}, \"rows\": []}", "model.digest");
    refused(HEAD "\"model\": {\"architecture\": \"a234567890123456789012345678901234567890\"}, "
                 "\"rows\": []}",
            "model.architecture");
    refused(HEAD "\"rows\": []", "line 1:38");
    refused("", "line 1:1");
}

// Cut at every byte a file is refused with one line and nothing is left.
static void cut_files(void **state)
{
    static const char text[] = ONE("mlp:0-7", "lut4", "kl", V ", \"ci95\": [0, 2]");
    (void)state;
    for (size_t n = 0; n + 1 < sizeof text; n++) {
        char *copy = malloc(n + 1); // no byte behind the end
        struct fg_sens s;
        struct fg_error err = {0};
        memcpy(copy, text, n);
        assert_int_equal(fg_sens_parse(&s, copy, n, "s.json", &err), FG_EINPUT);
        assert_null(s.rows);
        free(copy);
    }
}

// ---- writing, merging, models

static void files_come_back_the_same(void **state)
{
    (void)state;
    struct scratch dir;
    scratch_open(&dir);
    char *a = fg_path_join(dir.dir, "a.json"), *b = fg_path_join(dir.dir, "b.json");
    struct fg_error err = {0};
    struct fg_sens s = {0}, again;
    struct fg_buf one = {0}, two = {0};
    fg_sens_set_model(&s, &shape);
    memcpy(s.digest, SHA, sizeof SHA);
    const char *units[] = {"head", "mixer:0-3", "3.gate", "0.mlp", "1.qkv"};
    for (int i = 0; i < 40; i++) {
        struct fg_sens_row row = {.format = (enum fg_qformat)(i % 4),
                                  .metric = i % 5 == 2 || i % 5 == 4 ? FG_SENS_REL_ERR : FG_SENS_KL,
                                  .value = 1.0 / (i + 3),
                                  .ci95 = {i % 2 ? 0.1 : NAN, i % 2 ? 0.9 : NAN},
                                  .tokens = i};
        assert_true(fg_sens_unit_parse(&row.unit, units[i % 5]));
        if (i % 3) memcpy(row.trace_sha256, SHA, sizeof SHA);
        assert_int_equal(fg_sens_add(&s, &row, &err), 0);
    }
    fg_sens_sort(&s);
    assert_int_equal(s.n, 20);
    assert_int_equal(fg_sens_write(&s, a, "forge plan measure", "2026-01-01", &err), 0);
    assert_int_equal(fg_sens_open(&again, a, &err), 0);
    assert_int_equal(again.n, s.n);
    assert_string_equal(again.digest, SHA);
    for (uint64_t i = 0; i < s.n; i++) {
        const struct fg_sens_row *x = &s.rows[i],
                                 *y = fg_sens_find(&again, x->metric, &x->unit, x->format);
        assert_non_null(y);
        assert_true(x->value == y->value && x->tokens == y->tokens);
        assert_true(isnan(x->ci95[0]) ? isnan(y->ci95[1]) : x->ci95[1] == y->ci95[1]);
        assert_string_equal(x->trace_sha256, y->trace_sha256);
    }
    assert_int_equal(fg_sens_write(&again, b, "forge plan measure", "2026-01-01", &err), 0);
    assert_int_equal(fg_file_read(&one, a, 1 << 20, &err), 0);
    assert_int_equal(fg_file_read(&two, b, 1 << 20, &err), 0);
    assert_string_equal(one.data, two.data);
    fg_buf_free(&one);
    fg_buf_free(&two);
    fg_sens_free(&s);
    fg_sens_free(&again);
    free(a);
    free(b);
    scratch_close(&dir);
}

static void later_files_win_and_models_agree(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_sens all = {0};
    struct fg_sens a = parse(HEAD "\"model\": {\"layers\": 4}, \"rows\": [" ROW(
        "mlp:0-3", "lut4", "kl", "\"value\": 1") ", " ROW("head", "lut4", "kl",
                                                          "\"value\": 3") "]}");
    struct fg_sens b = parse(HEAD "\"model\": {\"layers\": 4, \"vocab\": 1001}, \"rows\": [" ROW(
        "mlp:0-3", "lut4", "kl", "\"value\": 2") "]}");
    struct fg_sens c = parse(HEAD "\"model\": {\"vocab\": 1000}, \"rows\": []}");
    assert_int_equal(fg_sens_merge(&all, &a, "a", &err), 0);
    assert_int_equal(fg_sens_merge(&all, &b, "b", &err), 0);
    assert_int_equal(all.n, 2);
    assert_true(find(&all, "mlp:0-3", FG_SENS_KL, FG_Q_LUT4)->value == 2);
    assert_true(find(&all, "head", FG_SENS_KL, FG_Q_LUT4)->value == 3);
    assert_int_equal(all.vocab, 1001);
    assert_int_equal(fg_sens_merge(&all, &c, "c", &err), FG_EINPUT);
    assert_string_equal(err.file, "c");
    assert_string_equal(err.field, "model.vocab");
    assert_int_equal(fg_sens_check(&all, &shape, "all", &err), 0);
    assert_int_equal(fg_sens_check(&c, &shape, "c", &err), FG_EINPUT);
    assert_string_equal(err.field, "model.vocab");
    fg_sens_free(&all);
    fg_sens_free(&a);
    fg_sens_free(&b);
    fg_sens_free(&c);
}

static void units_that_the_model_does_not_have(void **state)
{
    static const char *const bad[] = {"4.gate", "mlp:0-4", "mixer:4-4", "0.q", "2.qkv", "9.mlp"};
    static const char *const good[] = {"3.gate", "mlp:0-3", "0.qkv", "2.q", "2.v", "head"};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        char text[256];
        struct fg_error err = {0};
        snprintf(text, sizeof text, HEAD "\"rows\": [" ROW("%s", "lut4", "kl", V) "]}", bad[i]);
        struct fg_sens s = parse(text);
        assert_int_equal(fg_sens_check(&s, &shape, "s.json", &err), FG_EINPUT);
        assert_string_equal(err.field, bad[i]);
        fg_sens_free(&s);
        snprintf(text, sizeof text, HEAD "\"rows\": [" ROW("%s", "lut4", "kl", V) "]}", good[i]);
        s = parse(text);
        assert_int_equal(fg_sens_check(&s, &shape, "s.json", &err), 0);
        fg_sens_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_are_what_they_are_written_as),
        cmocka_unit_test(rows_are_read_and_found),
        cmocka_unit_test(what_is_not_understood_is_named),
        cmocka_unit_test(cut_files),
        cmocka_unit_test(files_come_back_the_same),
        cmocka_unit_test(later_files_win_and_models_agree),
        cmocka_unit_test(units_that_the_model_does_not_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
