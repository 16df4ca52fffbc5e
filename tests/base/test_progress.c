// Progress: lines off a terminal, a bar on one (a pseudo-terminal), and the texts of durations and
// sizes.
#include "base/progress.h"
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <cmocka.h>

static void test_seconds(void **state)
{
    (void)state;
    static const struct {
        double s;
        const char *text;
    } cases[] = {
        {0, "0.0 ms"},          {0.0012, "1.2 ms"},     {0.0994, "99.4 ms"},
        {0.0996, "0.1 s"},      {3.2, "3.2 s"},         {59.94, "59.9 s"},
        {59.96, "1 min 00 s"},  {65, "1 min 05 s"},     {3599.4, "59 min 59 s"},
        {3599.6, "1 h 00 min"}, {7860, "2 h 11 min"},   {1e6, "277 h 47 min"},
        {1e7, "a long time"},   {1e300, "a long time"},
    };
    char out[32];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(fg_format_seconds(out, sizeof out, cases[i].s), cases[i].text);
    assert_string_equal(fg_format_seconds(out, sizeof out, 1.0 / 0.0), "a long time");
}

static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        uint64_t n;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {512, "512 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {10235, "10.0 KiB"}, // 9.995 KiB
        {102399, "100 KiB"},
        {1024 * 1023, "1023 KiB"},
        {1024 * 1024 - 1, "1.00 MiB"},
        {18ull << 30, "18.0 GiB"},
        {3ull << 40, "3.00 TiB"},
        {UINT64_MAX, "16384 PiB"},
    };
    char out[32];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(fg_format_bytes(out, sizeof out, cases[i].n), cases[i].text);
}

static void test_the_clock_goes_forward(void **state)
{
    (void)state;
    double a = fg_clock();
    usleep(2000);
    double b = fg_clock();
    assert_true(b - a >= 0.002 && b - a < 60);
}

static void test_silent(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct fg_progress *p = fg_progress_new(f, FG_PROGRESS_NONE, "quiet", 10, FG_PROGRESS_COUNT);
    assert_non_null(p);
    fg_progress_set(p, 5, "x");
    fg_progress_end(p, true);
    p = fg_progress_new(NULL, FG_PROGRESS_AUTO, "nowhere", 10, FG_PROGRESS_COUNT);
    fg_progress_set(p, 5, "x");
    fg_progress_end(p, true);
    fg_progress_set(NULL, 1, NULL); // what an allocation that failed leaves
    fg_progress_end(NULL, true);
    fclose(f);
    assert_string_equal(text, "");
    free(text);
}

static void test_lines_off_a_terminal(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct fg_progress *p =
        fg_progress_new(f, FG_PROGRESS_AUTO, "hash\x1b", 1000, FG_PROGRESS_BYTES);
    for (uint64_t done = 0; done <= 1000; done += 10)
        fg_progress_set(p, done, "file"); // no ten seconds yet: no line
    fflush(f);
    assert_int_equal(n, 0);
    fg_progress_end(p, true);
    fflush(f);
    assert_memory_equal(text, "hash\\x1B: done, 1000 B in ", 25);
    assert_non_null(strstr(text, "/s)\n"));
    assert_null(strchr(text, '\r'));
    assert_ptr_equal(strchr(text, '\n'), text + n - 1); // one line
    fclose(f);
    free(text);

    f = open_memstream(&text, &n);
    p = fg_progress_new(f, FG_PROGRESS_AUTO, "fit", 0, FG_PROGRESS_COUNT);
    fg_progress_set(p, 7, NULL);
    fg_progress_end(p, false);
    fclose(f);
    assert_memory_equal(text, "fit: stopped after 7 in ", 24);
    free(text);
}

static void test_json_for_programs(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    struct fg_progress *p =
        fg_progress_new(f, FG_PROGRESS_JSON, "fit \"all\"", 40, FG_PROGRESS_BYTES);
    fg_progress_set(p, 10, "layer 3");
    fg_progress_end(p, false);
    p = fg_progress_new(f, FG_PROGRESS_JSON, "walk", 0, FG_PROGRESS_COUNT);
    fg_progress_set(p, 7, NULL);
    fg_progress_end(p, true);
    fclose(f);
    static const char *const want[][2] = {
        {"{\"stage\": \"fit \\\"all\\\"\", \"item\": \"layer 3\", \"done\": 10, \"total\": 40, "
         "\"unit\": \"bytes\", \"seconds\": ",
         ", \"ended\": \"stopped\"}\n"},
        {"{\"stage\": \"walk\", \"item\": null, \"done\": 7, \"total\": null, \"unit\": \"count\", "
         "\"seconds\": ",
         ", \"eta_s\": null, \"ended\": \"done\"}\n"}};
    const char *at = text;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const char *running = strstr(at, ", \"ended\": null}\n"); // only where a second has passed
        if (running && running < strchr(at, '\n')) at = strchr(at, '\n') + 1;
        assert_memory_equal(at, want[i][0], strlen(want[i][0]));
        const char *end = strchr(at, '\n') + 1;
        assert_memory_equal(end - strlen(want[i][1]), want[i][1], strlen(want[i][1]));
        at = end;
    }
    assert_int_equal(*at, 0);
    free(text);
}

// What the other side of a pseudo-terminal of `cols` columns shows.
struct terminal {
    int master;
    FILE *out;
    char seen[1 << 16];
    size_t n;
};

static void terminal_open(struct terminal *t, unsigned short cols)
{
    t->n = 0;
    t->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (t->master < 0) skip(); // no /dev/pts here
    assert_int_equal(grantpt(t->master), 0);
    assert_int_equal(unlockpt(t->master), 0);
    int slave = open(ptsname(t->master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    struct winsize ws = {.ws_row = 24, .ws_col = cols};
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &ws), 0);
    t->out = fdopen(slave, "w");
    assert_non_null(t->out);
}

static const char *terminal_read(struct terminal *t)
{
    struct pollfd p = {.fd = t->master, .events = POLLIN};
    while (t->n < sizeof t->seen - 1 && poll(&p, 1, 50) > 0) {
        ssize_t got = read(t->master, t->seen + t->n, sizeof t->seen - 1 - t->n);
        if (got <= 0) break;
        t->n += (size_t)got;
    }
    t->seen[t->n] = '\0';
    return t->seen;
}

static void terminal_close(struct terminal *t)
{
    fclose(t->out);
    close(t->master);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p++)
        n++;
    return n;
}

static void test_a_bar_on_a_terminal(void **state)
{
    (void)state;
    static struct terminal t;
    terminal_open(&t, 100);
    struct fg_progress *p =
        fg_progress_new(t.out, FG_PROGRESS_AUTO, "download", 1000, FG_PROGRESS_COUNT);
    double start = fg_clock();
    uint64_t done = 0;
    while (fg_clock() - start < 0.65) {
        fg_progress_set(p, done < 500 ? ++done : 500, "a\x1b[31mb.bin");
        usleep(1000);
    }
    double elapsed = fg_clock() - start;
    const char *seen = terminal_read(&t);
    int redraws = count(seen, "\r\033[K");
    assert_true(redraws >= 2 && redraws <= (int)(elapsed * 10) + 1); // at most ten a second
    assert_non_null(strstr(seen, "download [##"));
    assert_non_null(strstr(seen, "/1000"));
    assert_non_null(strstr(seen, "/s, "));
    assert_non_null(strstr(seen, " left"));
    assert_non_null(strstr(seen, "a\\x1B[31mb.bin")); // no escape of a hostile name gets through
    assert_null(strstr(seen, "\033[31m"));
    assert_null(strchr(seen, '\n')); // one line, redrawn

    struct winsize narrow = {.ws_row = 24, .ws_col = 20}; // as a resized window
    assert_int_equal(ioctl(fileno(t.out), TIOCSWINSZ, &narrow), 0);
    t.n = 0;
    usleep(110000);
    fg_progress_set(p, 600, "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9");
    seen = terminal_read(&t);
    assert_memory_equal(seen, "\r\033[Kdownload 600/1", 18);
    assert_true(strlen(seen) <= 4 + 19); // and the cursor stays on the line
    t.n = 0;
    fg_progress_end(p, true);
    seen = terminal_read(&t);
    assert_memory_equal(seen, "\r\033[Kdownload: done, 600 in ", 27);
    terminal_close(&t);
}

static void test_odd_amounts(void **state)
{
    (void)state;
    static struct terminal t;
    terminal_open(&t, 80);
    static const uint64_t totals[] = {0, 1, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        struct fg_progress *p =
            fg_progress_new(t.out, FG_PROGRESS_AUTO, "odd", totals[i], FG_PROGRESS_BYTES);
        usleep(110000);
        fg_progress_set(p, UINT64_MAX, NULL); // past the total
        usleep(110000);
        fg_progress_set(p, 1, NULL); // and back
        terminal_read(&t);
        fg_progress_end(p, false);
    }
    assert_int_equal(count(terminal_read(&t), "odd: stopped after 1 B in "), 3);
    fg_progress_end(fg_progress_new(t.out, FG_PROGRESS_AUTO, "none", 9, FG_PROGRESS_BYTES), false);
    assert_null(strstr(terminal_read(&t), "none"));
    fg_progress_end(fg_progress_new(t.out, FG_PROGRESS_AUTO, "none", 0, FG_PROGRESS_BYTES), true);
    assert_non_null(strstr(terminal_read(&t), "none: done, 0 B in "));
    terminal_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_the_clock_goes_forward),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_lines_off_a_terminal),
        cmocka_unit_test(test_json_for_programs),
        cmocka_unit_test(test_a_bar_on_a_terminal),
        cmocka_unit_test(test_odd_amounts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
