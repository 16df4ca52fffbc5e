// Log lines: levels, one line each, the FILE sink.
#include "base/log.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct seen {
    int n;
    enum fg_log_level level;
    char line[FG_LOG_LINE_BYTES];
};

static void keep(void *ctx, enum fg_log_level level, const char *line)
{
    struct seen *s = ctx;
    s->n++;
    s->level = level;
    snprintf(s->line, sizeof s->line, "%s", line);
}

static void test_levels(void **state)
{
    (void)state;
    for (int limit = FG_LOG_ERROR; limit <= FG_LOG_DEBUG; limit++) {
        struct seen s = {0};
        struct fg_log log = {(enum fg_log_level)limit, keep, &s};
        for (int level = FG_LOG_ERROR; level <= FG_LOG_DEBUG; level++) {
            s.n = 0;
            fg_log_line(&log, (enum fg_log_level)level, "value %d", level);
            assert_int_equal(s.n, level <= limit);
            assert_int_equal(fg_log_wants(&log, (enum fg_log_level)level), level <= limit);
            if (s.n) assert_int_equal(s.level, level);
        }
    }
}

static void test_no_log_is_silent(void **state)
{
    (void)state;
    fg_log_warn(NULL, "nobody hears");
    struct fg_log log = {FG_LOG_DEBUG, NULL, NULL};
    fg_log_warn(&log, "nobody hears");
    assert_false(fg_log_wants(NULL, FG_LOG_ERROR));
    assert_false(fg_log_wants(&log, FG_LOG_ERROR));
}

static void test_one_line_each(void **state)
{
    (void)state;
    struct seen s = {0};
    struct fg_log log = {FG_LOG_DEBUG, keep, &s};
    fg_log_info(&log, "%s", "two\nlines\x1b[2J and \xC3\xA9");
    assert_int_equal(s.n, 1);
    assert_string_equal(s.line, "two\\nlines\\x1B[2J and \xC3\xA9");
    char longer[10000];
    memset(longer, 'y', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    fg_log_debug(&log, "%s", longer);
    assert_int_equal(strlen(s.line), FG_LOG_LINE_BYTES - 1);
    assert_string_equal(s.line + FG_LOG_LINE_BYTES - 4, "...");
}

static void test_file_sink(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    struct fg_log log = {FG_LOG_DEBUG, fg_log_file_sink, f};
    fg_log_line(&log, FG_LOG_ERROR, "a");
    fg_log_warn(&log, "b");
    fg_log_info(&log, "c %s", "d");
    fg_log_debug(&log, "e");
    fclose(f);
    assert_string_equal(text, "error: a\nwarn: b\ninfo: c d\ndebug: e\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_no_log_is_silent),
        cmocka_unit_test(test_one_line_each),
        cmocka_unit_test(test_file_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
