// Rows and traces: what is written reads back, byte for byte the same; NumPy's arrays; files that
// disagree with themselves, the vocabulary or the tokenizer, cut at every boundary.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/error.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/size.h"
#include "format/npy.h"
#include "format/rows.h"
#include "format/st_file.h"
#include "support/scratch.h"

#define SHA_A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define SHA_B "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static struct scratch tmp;
static struct fg_error err;

static int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99};
static int32_t seq_id[] = {0, 0, 0, 1, 1, 1, 1, -1, 2, 2, 2, 2};
static uint8_t mask[] = {1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1};
static int32_t lengths[] = {4, 2, 6}, plens[] = {0, 2, 5};
static uint8_t label[] = {1, 0, 1};

static struct fg_rows sample_rows(void)
{
    return (struct fg_rows){.n = 3,
                            .seq = 4,
                            .ids = ids,
                            .seq_id = seq_id,
                            .mask = mask,
                            .facts = {SHA_A, "a.txt:2,b.jsonl:1", "calib", UINT64_MAX}};
}

static struct fg_trace sample_trace(void)
{
    return (struct fg_trace){.n = 3,
                             .total = 12,
                             .ids = ids,
                             .lengths = lengths,
                             .plens = plens,
                             .label = label,
                             .n_labels = 2,
                             .labels = {"code", "m\"th"},
                             .facts = {SHA_A, "x", "dev", 7}};
}

static void rows_read_back(void **state)
{
    (void)state;
    struct fg_rows rows = sample_rows(), back;
    char path[512], sha[FG_SHA256_HEX], again[FG_SHA256_HEX];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "rows"));
    assert_int_equal(fg_rows_write(path, &rows, sha, &err), 0);
    assert_int_equal(fg_rows_open(&back, path, 100, 4, SHA_A, &err), 0);
    assert_int_equal(back.n, 3);
    assert_int_equal(back.seq, 4);
    assert_memory_equal(back.ids, ids, sizeof ids);
    assert_memory_equal(back.seq_id, seq_id, sizeof seq_id);
    assert_memory_equal(back.mask, mask, sizeof mask);
    assert_string_equal(back.facts.tokenizer_sha256, SHA_A);
    assert_string_equal(back.facts.source, rows.facts.source);
    assert_string_equal(back.facts.split, "calib");
    assert_true(back.facts.seed == UINT64_MAX);
    assert_string_equal(back.sha256, sha);
    assert_int_equal(fg_rows_write(path, &back, again, &err), 0);
    assert_string_equal(again, sha);
    fg_rows_free(&back);
    // Without the optional parts, by a reader that demands nothing.
    rows.seq_id = NULL;
    rows.mask = NULL;
    rows.facts = (struct fg_rows_facts){0};
    assert_int_equal(fg_rows_write(path, &rows, NULL, &err), 0);
    assert_int_equal(fg_rows_open(&back, path, 0, 0, SHA_B, &err), 0);
    assert_null(back.seq_id);
    assert_null(back.mask);
    assert_string_equal(back.facts.source, "");
    fg_rows_free(&back);
    fg_rows_free(&back);
}

static void traces_read_back(void **state)
{
    (void)state;
    struct fg_trace t = sample_trace(), back;
    char path[512], sha[FG_SHA256_HEX];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "trace"));
    assert_int_equal(fg_trace_write(path, &t, sha, &err), 0);
    assert_int_equal(fg_trace_open(&back, path, 100, SHA_A, &err), 0);
    assert_int_equal(back.n, 3);
    assert_int_equal(back.total, 12);
    assert_int_equal(back.longest, 6);
    assert_int_equal(back.starts[0], 0);
    assert_int_equal(back.starts[1], 4);
    assert_int_equal(back.starts[2], 6);
    assert_memory_equal(back.ids, ids, sizeof ids);
    assert_memory_equal(back.lengths, lengths, sizeof lengths);
    assert_memory_equal(back.plens, plens, sizeof plens);
    assert_memory_equal(back.label, label, sizeof label);
    assert_int_equal(back.n_labels, 2);
    assert_string_equal(back.labels[0], "code");
    assert_string_equal(back.labels[1], "m\"th");
    assert_string_equal(back.facts.split, "dev");
    assert_string_equal(back.sha256, sha);
    fg_trace_free(&back);
    fg_trace_free(&back);
    t.label = NULL;
    t.n_labels = 0;
    assert_int_equal(fg_trace_write(path, &t, NULL, &err), 0);
    assert_int_equal(fg_trace_open(&back, path, 0, NULL, &err), 0);
    assert_null(back.label);
    assert_int_equal(back.n_labels, 0);
    fg_trace_free(&back);
}

static void rows_are_a_trace(void **state)
{
    (void)state;
    struct fg_rows rows = sample_rows();
    struct fg_trace t;
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "rows"));
    assert_int_equal(fg_rows_write(path, &rows, NULL, &err), 0);
    assert_int_equal(fg_trace_open(&t, path, 100, SHA_A, &err), 0);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.total, 12);
    assert_int_equal(t.longest, 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t.lengths[i], 4);
        assert_int_equal(t.plens[i], 0);
        assert_int_equal(t.starts[i], 4 * i);
    }
    assert_memory_equal(t.ids, ids, sizeof ids);
    assert_string_equal(t.facts.split, "calib");
    fg_trace_free(&t);
    assert_int_equal(fg_trace_open(&t, path, 50, SHA_A, &err), FG_EINPUT);
    // Sequences of one token have nothing to predict.
    rows.n = 12;
    rows.seq = 1;
    assert_int_equal(fg_rows_write(path, &rows, NULL, &err), 0);
    assert_int_equal(fg_trace_open(&t, path, 0, NULL, &err), FG_EINPUT);
    assert_string_equal(err.field, "lengths");
}

static void reads_npy(void **state)
{
    (void)state;
    const uint64_t shape[] = {3, 4}, flat[] = {12}, empty[] = {0, 1ull << 63};
    int64_t wide[12];
    struct fg_rows rows;
    struct fg_trace trace;
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "rows.npy"));
    for (int i = 0; i < 12; i++)
        wide[i] = ids[i];
    for (int narrow = 0; narrow < 2; narrow++) {
        enum fg_npy_dtype dtype = narrow ? FG_NPY_I32 : FG_NPY_I64;
        const void *data = narrow ? (const void *)ids : wide;
        assert_int_equal(fg_npy_write(path, dtype, 2, shape, data, &err), 0);
        assert_int_equal(fg_rows_open(&rows, path, 100, 4, SHA_A, &err), 0);
        assert_int_equal(rows.n, 3);
        assert_memory_equal(rows.ids, ids, sizeof ids);
        assert_string_equal(rows.facts.tokenizer_sha256, "");
        assert_int_equal(strlen(rows.sha256), 64);
        fg_rows_free(&rows);
        assert_int_equal(fg_trace_open(&trace, path, 100, NULL, &err), 0);
        assert_int_equal(trace.longest, 4);
        fg_trace_free(&trace);
    }
    static const int64_t bad[] = {-1, INT64_MIN, 1ll << 31, (1ll << 32) + 5};
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        wide[6] = bad[i];
        assert_int_equal(fg_npy_write(path, FG_NPY_I64, 2, shape, wide, &err), 0);
        assert_int_equal(fg_rows_open(&rows, path, 0, 0, NULL, &err), FG_EINPUT);
        assert_non_null(strstr(err.found, "row 1, column 2"));
        assert_null(rows.ids);
    }
    assert_int_equal(fg_npy_write(path, FG_NPY_I32, 1, flat, ids, &err), 0);
    assert_int_equal(fg_rows_open(&rows, path, 0, 0, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_npy_write(path, FG_NPY_U32, 2, shape, ids, &err), 0);
    assert_int_equal(fg_rows_open(&rows, path, 0, 0, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_npy_write(path, FG_NPY_I32, 2, empty, ids, &err), 0);
    assert_int_equal(fg_rows_open(&rows, path, 0, 0, NULL, &err), FG_EINPUT);
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    struct fg_rows rows = sample_rows(), back;
    struct fg_trace trace = sample_trace(), tback;
    char path[512], line[1024];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "rows"));
    assert_int_equal(fg_rows_write(path, &rows, NULL, &err), 0);
    assert_int_equal(fg_rows_open(&back, path, 99, 4, SHA_A, &err), FG_EINPUT);
    assert_string_equal(err.field, "ids");
    assert_string_equal(err.expected, "tokens below 99");
    assert_string_equal(err.found, "token 99 at row 2, column 3");
    assert_null(back.ids);
    assert_int_equal(fg_rows_open(&back, path, 100, 1024, SHA_A, &err), FG_EINPUT);
    assert_string_equal(err.expected, "1024 tokens per row");
    assert_int_equal(fg_rows_open(&back, path, 99, 4, SHA_B, &err), FG_EINPUT);
    assert_non_null(strstr(fg_error_line(&err, line, sizeof line),
                           "made for tokenizer 0123456789ab, the model has fedcba987654"));
    assert_int_equal(fg_trace_write(path, &trace, NULL, &err), 0);
    assert_int_equal(fg_trace_open(&tback, path, 99, NULL, &err), FG_EINPUT);
    assert_string_equal(err.found, "token 99 at sequence 2, column 5");
    assert_int_equal(fg_trace_open(&tback, path, 0, SHA_B, &err), FG_EINPUT);
    // A trace is no rows.
    assert_int_equal(fg_rows_open(&back, path, 0, 0, NULL, &err), FG_EINPUT);
    assert_string_equal(err.field, "schema");
    assert_int_equal(fg_rows_open(&back, "/nowhere/rows", 0, 0, NULL, &err), FG_EINPUT);
    assert_int_equal(fg_trace_open(&tback, tmp.dir, 0, NULL, &err), FG_EINPUT);
}

static void refuses_to_write(void **state)
{
    (void)state;
    static int32_t bad_id[12] = {[5] = -1}, bad_seq[12] = {[5] = -2};
    static uint8_t bad_mask[12] = {[5] = 2}, bad_label[] = {0, 2, 1};
    static int32_t short_len[] = {1, 5, 6}, other_sum[] = {4, 2, 7}, long_p[] = {0, 3, 5},
                   minus_p[] = {-1, 2, 5};
    struct fg_rows rows[8];
    struct fg_trace trace[11];
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "unwritten"));
    for (size_t i = 0; i < FG_COUNT(rows); i++)
        rows[i] = sample_rows();
    rows[0].ids = bad_id;
    rows[1].seq_id = bad_seq;
    rows[2].mask = bad_mask;
    rows[3].n = 0;
    rows[4].seq = 0;
    rows[5].seq = (1 << 24) + 1;
    rows[6].facts.tokenizer_sha256[0] = 'A';
    rows[7].facts.tokenizer_sha256[63] = '\0';
    for (size_t i = 0; i < FG_COUNT(rows); i++) {
        if (fg_rows_write(path, &rows[i], NULL, &err) != FG_EINPUT) fail_msg("rows %zu", i);
    }
    for (size_t i = 0; i < FG_COUNT(trace); i++)
        trace[i] = sample_trace();
    trace[0].ids = bad_id;
    trace[1].lengths = short_len;
    trace[2].lengths = other_sum;
    trace[3].plens = long_p;
    trace[4].plens = minus_p;
    trace[5].label = bad_label;
    trace[6].label = NULL;
    trace[7].n_labels = 0;
    strcpy(trace[8].labels[1], "code");
    strcpy(trace[9].labels[1], "");
    trace[10].n = 0;
    for (size_t i = 0; i < FG_COUNT(trace); i++) {
        if (fg_trace_write(path, &trace[i], NULL, &err) != FG_EINPUT) fail_msg("trace %zu", i);
    }
    assert_false(fg_path_taken(path));
}

// Writes a file by hand; open must give the field.
static void check_refused(const struct fg_st_blob *blobs, uint64_t n,
                          const struct fg_st_pair *pairs, uint64_t n_pairs, bool trace,
                          const char *field)
{
    struct fg_st_options o = {.metadata = pairs, .n_metadata = n_pairs};
    struct fg_rows rows;
    struct fg_trace t;
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_path(&tmp, "odd"));
    assert_int_equal(fg_st_file_write(path, blobs, n, &o, NULL, &err), 0);
    assert_int_equal(trace ? fg_trace_open(&t, path, 0, NULL, &err)
                           : fg_rows_open(&rows, path, 0, 0, NULL, &err),
                     FG_EINPUT);
    assert_string_equal(err.field, field);
    if (trace) {
        assert_null(t.ids);
    } else {
        assert_null(rows.ids);
    }
}

static void refuses_odd_files(void **state)
{
    (void)state;
    static char overlong[1100];
    memset(overlong, 'x', sizeof overlong - 1);
    const struct fg_st_pair meta[] = {{"schema", FG_ROWS_SCHEMA}};
    const struct fg_st_blob good = {"ids", FG_ST_I32, 2, {3, 4}, ids};
    struct fg_st_blob b[2] = {good, {"seq_id", FG_ST_I32, 2, {4, 3}, seq_id}};
    check_refused(b, 1, NULL, 0, false, "schema");
    check_refused(b, 2, meta, 1, false, "seq_id");
    b[1] = (struct fg_st_blob){"mask", FG_ST_I8, 2, {3, 4}, mask};
    check_refused(b, 2, meta, 1, false, "mask");
    b[1] = (struct fg_st_blob){"maks", FG_ST_U8, 2, {3, 4}, mask};
    check_refused(b, 2, meta, 1, false, "maks");
    check_refused(b + 1, 1, meta, 1, false, "maks");
    b[0] = (struct fg_st_blob){"ids", FG_ST_I32, 1, {12}, ids};
    check_refused(b, 1, meta, 1, false, "ids");
    b[0] = (struct fg_st_blob){"mask", FG_ST_U8, 2, {3, 4}, mask};
    check_refused(b, 1, meta, 1, false, "ids");
    b[0] = (struct fg_st_blob){"ids", FG_ST_I32, 2, {0, 4}, ids};
    check_refused(b, 1, meta, 1, false, "ids: rows");
    const char *const seeds[] = {"-1", "x", "18446744073709551616", "1111111111111111111111111"};
    for (size_t i = 0; i < FG_COUNT(seeds); i++) {
        const struct fg_st_pair seed[] = {meta[0], {"seed", seeds[i]}};
        check_refused(&good, 1, seed, 2, false, "seed");
    }
    const struct fg_st_pair sha[] = {meta[0], {"tokenizer_sha256", "abc"}};
    check_refused(&good, 1, sha, 2, false, "tokenizer_sha256");
    const struct fg_st_pair source[] = {meta[0], {"source", overlong}};
    check_refused(&good, 1, source, 2, false, "source");

    struct fg_st_blob t[] = {{"ids", FG_ST_I32, 1, {12}, ids},
                             {"lengths", FG_ST_I32, 1, {3}, lengths},
                             {"plens", FG_ST_I32, 1, {3}, plens},
                             {"label", FG_ST_U8, 1, {3}, label}};
    const char *const labels[] = {
        "",          "[]",     "{}",
        "[\"a\",1]", "[\"a\"", "[\"a\\u0000\",\"b\"]",
        "[\"a\"]",   "3",      "[\"0123456789012345678901234567890123\"]"};
    const char *const fields[] = {"labels", "labels", "labels", "labels", "1:5",
                                  "labels", "label",  "labels", "labels"};
    for (size_t i = 0; i < FG_COUNT(labels); i++) {
        const struct fg_st_pair pairs[] = {{"schema", FG_TRACE_SCHEMA}, {"labels", labels[i]}};
        struct fg_st_options o = {.metadata = pairs, .n_metadata = 2};
        struct fg_trace back;
        assert_int_equal(fg_st_file_write(scratch_path(&tmp, "odd"), t, 4, &o, NULL, &err), 0);
        assert_int_equal(fg_trace_open(&back, tmp.path, 0, NULL, &err), FG_EINPUT);
        if (!strstr(err.field, fields[i])) fail_msg("%s: field %s", labels[i], err.field);
    }
    const struct fg_st_pair tmeta[] = {{"schema", FG_TRACE_SCHEMA}};
    t[2].shape[0] = 2;
    check_refused(t, 3, tmeta, 1, true, "plens");
    t[2].shape[0] = 3;
    t[0].shape[0] = 11;
    check_refused(t, 3, tmeta, 1, true, "lengths");
    check_refused(t, 2, tmeta, 1, true, "plens");
    t[1].shape[0] = t[2].shape[0] = 0;
    check_refused(t, 3, tmeta, 1, true, "sequences");
}

static void refuses_cut_files(void **state)
{
    (void)state;
    struct fg_rows rows = sample_rows(), back;
    struct fg_trace trace = sample_trace(), tback;
    for (int i = 0; i < 2; i++) {
        const char *path = scratch_path(&tmp, "whole");
        struct fg_buf whole = {0};
        assert_int_equal(i ? fg_trace_write(path, &trace, NULL, &err)
                           : fg_rows_write(path, &rows, NULL, &err),
                         0);
        assert_int_equal(fg_file_read(&whole, path, 1 << 20, &err), 0);
        for (size_t n = 0; n < whole.len; n++) {
            path = scratch_write(&tmp, "cut", whole.data, n);
            assert_int_equal(fg_rows_open(&back, path, 0, 0, NULL, &err), FG_EINPUT);
            assert_int_equal(fg_trace_open(&tback, path, 0, NULL, &err), FG_EINPUT);
        }
        fg_buf_free(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_read_back),    cmocka_unit_test(traces_read_back),
        cmocka_unit_test(rows_are_a_trace),  cmocka_unit_test(reads_npy),
        cmocka_unit_test(refuses_to_write),  cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(refuses_odd_files), cmocka_unit_test(refuses_cut_files),
    };
    scratch_open(&tmp);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
