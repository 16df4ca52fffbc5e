// base/log.h: levelled log lines. A log belongs to whoever created it and is handed down by
// pointer; a NULL log is silent.
#ifndef FG_BASE_LOG_H
#define FG_BASE_LOG_H
#include <stdbool.h>
#include <stdio.h>

enum fg_log_level { FG_LOG_ERROR, FG_LOG_WARN, FG_LOG_INFO, FG_LOG_DEBUG };

#define FG_LOG_LINE_BYTES 2048 // longest line with its NUL

// sink gets one line without newline: control characters in the message are escaped, what is too
// long is cut with "...". Must be callable from any thread that logs.
typedef void (*fg_log_fn)(void *ctx, enum fg_log_level level, const char *line);

struct fg_log {
    enum fg_log_level level; // lines above it are dropped
    fg_log_fn sink;
    void *ctx;
};

void fg_log_line(const struct fg_log *log, enum fg_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define fg_log_warn(log, ...) fg_log_line((log), FG_LOG_WARN, __VA_ARGS__)
#define fg_log_info(log, ...) fg_log_line((log), FG_LOG_INFO, __VA_ARGS__)
#define fg_log_debug(log, ...) fg_log_line((log), FG_LOG_DEBUG, __VA_ARGS__)
bool fg_log_wants(const struct fg_log *log, enum fg_log_level level);

// A sink that writes "level: line" to the FILE* in ctx.
void fg_log_file_sink(void *ctx, enum fg_log_level level, const char *line);
#endif
