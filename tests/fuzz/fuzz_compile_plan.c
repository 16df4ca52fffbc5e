// Fuzz target: the plan of a compiled build (first byte even) or a file of measurements (odd), both
// JSON. What parses can be written and parsed again, to the same bytes.
#include "base/file.h"
#include "runtime/compile_plan.h"
#include "runtime/tuning.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static void remove_file(void)
{
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "%s/forge-fuzz-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    int fd = mkstemp(path);
    if (fd < 0) abort();
    close(fd);
    atexit(remove_file);
    return 0;
}

static void plan(const char *text, size_t n)
{
    struct fg_compile_plan_doc a, b;
    struct fg_buf one = {0}, two = {0};
    if (fg_compile_plan_parse(&a, text, n, "plan.json", NULL)) return;
    if (fg_compile_plan_write(&a.plan, &one, NULL) ||
        fg_compile_plan_parse(&b, one.data, one.len, "again.json", NULL) ||
        fg_compile_plan_write(&b.plan, &two, NULL) || one.len != two.len ||
        memcmp(one.data, two.data, one.len) != 0)
        abort();
    fg_buf_free(&one);
    fg_buf_free(&two);
    fg_compile_plan_close(&a);
    fg_compile_plan_close(&b);
}

static void tuning(const char *text, size_t n)
{
    static const char id[] = "0123456789abcdef";
    struct fg_tuning a, b;
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0) abort();
    if (fg_tuning_read(&a, path, id, NULL)) return;
    if (a.n_verify > FG_TUNING_ROWS_MAX || a.n_draft > FG_TUNING_POINTS_MAX) abort();
    if (fg_tuning_write(&a, path, id, NULL) || fg_tuning_read(&b, path, id, NULL) ||
        a.threads != b.threads || a.n_verify != b.n_verify || a.n_draft != b.n_draft)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n == 0) return 0;
    if (data[0] & 1)
        tuning((const char *)data + 1, n - 1);
    else
        plan((const char *)data + 1, n - 1);
    return 0;
}
