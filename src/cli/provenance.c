// cli/provenance.c
#include "cli/provenance.h"
#include "base/file.h"
#include <string.h>
#include <time.h>

void fg_cli_command_line(struct fg_buf *out)
{
    struct fg_buf raw = {0};
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_./=,:+@%";
    if (fg_file_read(&raw, "/proc/self/cmdline", 1u << 20, NULL)) return;
    for (size_t at = 0; at < raw.len;) {
        const char *arg = raw.data + at;
        size_t n = strnlen(arg, raw.len - at);
        bool quote = n == 0 || strspn(arg, plain) < n;
        if (at) fg_buf_char(out, ' ');
        if (quote) fg_buf_char(out, '\'');
        for (size_t i = 0; i < n; i++) {
            if (arg[i] == '\'') {
                fg_buf_str(out, "'\\''");
            } else {
                fg_buf_char(out, arg[i]);
            }
        }
        if (quote) fg_buf_char(out, '\'');
        at += n + 1;
    }
    fg_buf_free(&raw);
}

char *fg_cli_date(char out[FG_CLI_DATE])
{
    time_t now = time(NULL);
    struct tm utc;
    out[0] = '\0';
    if (gmtime_r(&now, &utc)) strftime(out, FG_CLI_DATE, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return out;
}
