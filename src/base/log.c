// base/log.c: log lines.
#include "base/log.h"
#include "base/error.h"
#include <stdarg.h>
#include <string.h>

bool fg_log_wants(const struct fg_log *log, enum fg_log_level level)
{
    return log && log->sink && level <= log->level;
}

void fg_log_line(const struct fg_log *log, enum fg_log_level level, const char *fmt, ...)
{
    if (!fg_log_wants(log, level)) return;
    char text[2 * FG_LOG_LINE_BYTES], line[FG_LOG_LINE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log->sink(log->ctx, level, fg_escape(line, sizeof line, text, strlen(text)));
}

void fg_log_file_sink(void *ctx, enum fg_log_level level, const char *line)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    fprintf((FILE *)ctx, "%s: %s\n", names[level], line);
}
