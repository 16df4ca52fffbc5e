// base/progress.c: bar and lines.
#include "base/progress.h"
#include "base/error.h"
#include "base/jwrite.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct fg_progress {
    FILE *out; // NULL: silent
    bool tty, json;
    char name[64], item[64];
    uint64_t done, total, lines_done;
    enum fg_progress_unit unit;
    double start, last;
};

double fg_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

char *fg_format_seconds(char *out, size_t cap, double s)
{
    if (s < 0.0995)
        snprintf(out, cap, "%.1f ms", s * 1e3);
    else if (s < 59.95)
        snprintf(out, cap, "%.1f s", s);
    else if (s < 3599.5)
        snprintf(out, cap, "%d min %02d s", (int)(s + 0.5) / 60, (int)(s + 0.5) % 60);
    else if (s < 1e7)
        snprintf(out, cap, "%d h %02d min", (int)(s / 60 + 0.5) / 60, (int)(s / 60 + 0.5) % 60);
    else
        snprintf(out, cap, "a long time");
    return out;
}

char *fg_format_bytes(char *out, size_t cap, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    if (bytes < 1024) {
        snprintf(out, cap, "%" PRIu64 " B", bytes);
        return out;
    }
    double v = (double)bytes / 1024;
    int u = 0;
    while (v >= 1023.5 && u < 4) {
        v /= 1024;
        u++;
    }
    snprintf(out, cap, v < 9.995 ? "%.2f %s" : v < 99.95 ? "%.1f %s" : "%.0f %s", v, units[u]);
    return out;
}

struct fg_progress *fg_progress_new(FILE *out, enum fg_progress_mode mode, const char *name,
                                    uint64_t total, enum fg_progress_unit unit)
{
    struct fg_progress *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->out = mode == FG_PROGRESS_NONE ? NULL : out;
    p->tty = p->out && mode == FG_PROGRESS_AUTO && isatty(fileno(p->out));
    p->json = mode == FG_PROGRESS_JSON;
    fg_escape(p->name, sizeof p->name, name, strlen(name));
    p->total = total;
    p->unit = unit;
    p->start = p->last = fg_clock();
    return p;
}

static char *amount(char *out, size_t cap, const struct fg_progress *p, uint64_t n)
{
    if (p->unit == FG_PROGRESS_BYTES) return fg_format_bytes(out, cap, n);
    snprintf(out, cap, "%" PRIu64, n);
    return out;
}

static char *bytes_per_s(char *out, size_t cap, double rate)
{
    return fg_format_bytes(out, cap, rate < 0x1p63 ? (uint64_t)rate : UINT64_MAX);
}

// "12/30, 4.1/s, 4.4 s left"
static void describe(const struct fg_progress *p, double now, char *out, size_t cap)
{
    char done[32], total[32] = "", rate[48] = "", left[48] = "";
    double elapsed = now - p->start, per_s = elapsed > 0 ? (double)p->done / elapsed : 0;
    amount(done, sizeof done, p, p->done);
    if (p->total) amount(total, sizeof total, p, p->total);
    if (p->done > 0 && elapsed > 0) {
        if (p->unit == FG_PROGRESS_BYTES) {
            char b[32];
            snprintf(rate, sizeof rate, ", %s/s", bytes_per_s(b, sizeof b, per_s));
        } else {
            snprintf(rate, sizeof rate, ", %.3g/s", per_s);
        }
        if (p->total > p->done) {
            char t[32];
            snprintf(left, sizeof left, ", %s left",
                     fg_format_seconds(t, sizeof t, (double)(p->total - p->done) / per_s));
        }
    }
    snprintf(out, cap, "%s%s%s%s%s%s%s", done, p->total ? "/" : "", total, rate, left,
             p->item[0] ? "  " : "", p->item);
}

// ended: NULL while the job runs.
static void write_json(const struct fg_progress *p, double now, const char *ended)
{
    const double seconds = now - p->start;
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "stage", p->name);
    if (p->item[0])
        fg_jwrite_str(&w, "item", p->item);
    else
        fg_jwrite_null(&w, "item");
    fg_jwrite_uint(&w, "done", p->done);
    if (p->total)
        fg_jwrite_uint(&w, "total", p->total);
    else
        fg_jwrite_null(&w, "total");
    fg_jwrite_str(&w, "unit", p->unit == FG_PROGRESS_BYTES ? "bytes" : "count");
    fg_jwrite_num(&w, "seconds", seconds);
    if (p->done > 0 && p->total > p->done)
        fg_jwrite_num(&w, "eta_s", seconds / (double)p->done * (double)(p->total - p->done));
    else
        fg_jwrite_null(&w, "eta_s");
    if (ended)
        fg_jwrite_str(&w, "ended", ended);
    else
        fg_jwrite_null(&w, "ended");
    fg_jwrite_end_object(&w);
    if (w.buf.data && !w.buf.failed) fprintf(p->out, "%s\n", w.buf.data);
    fflush(p->out);
    fg_jwrite_free(&w);
}

static void draw(struct fg_progress *p, double now)
{
    if (p->json) {
        write_json(p, now, NULL);
        return;
    }
    char text[256];
    describe(p, now, text, sizeof text);
    if (!p->tty) {
        fprintf(p->out, "%s: %s\n", p->name, text);
        fflush(p->out);
        return;
    }
    struct winsize ws; // asked each time, so a resized window needs no signal handler
    int cols = ioctl(fileno(p->out), TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0 ? ws.ws_col : 80;
    char bar[23] = "";
    if (p->total && cols >= 70) {
        int full = p->done < p->total ? (int)((double)p->done / (double)p->total * 20) : 20;
        bar[0] = '[';
        memset(bar + 1, ' ', 20);
        memset(bar + 1, '#', (size_t)full);
        bar[21] = ']';
        bar[22] = '\0';
    }
    char line[512], shown[512];
    int n = snprintf(line, sizeof line, "%s %s%s%s", p->name, bar, bar[0] ? " " : "", text);
    // No character has more columns than bytes; one column stays free, or the cursor would wrap.
    fg_escape(shown, (size_t)cols < sizeof shown ? (size_t)cols : sizeof shown, line, (size_t)n);
    fprintf(p->out, "\r\033[K%s", shown);
    fflush(p->out);
}

void fg_progress_set(struct fg_progress *p, uint64_t done, const char *item)
{
    if (!p || !p->out) return;
    p->done = done;
    fg_escape(p->item, sizeof p->item, item ? item : "", item ? strlen(item) : 0);
    double now = fg_clock();
    if (p->tty || p->json) {
        if (now - p->last < (p->json ? 1.0 : 0.1)) return;
    } else {
        bool step = !p->total || done - p->lines_done >= p->total / 20;
        if (now - p->last < 10 || !step) return;
        p->lines_done = done;
    }
    p->last = now;
    draw(p, now);
}

void fg_progress_end(struct fg_progress *p, bool ok)
{
    if (!p) return;
    if (p->out && p->json) {
        write_json(p, fg_clock(), ok ? "done" : "stopped");
    } else if (p->out) {
        char t[32], n[32], rate[64] = "";
        double elapsed = fg_clock() - p->start;
        amount(n, sizeof n, p, p->done);
        if (elapsed > 0 && p->done > 0) {
            char b[32];
            if (p->unit == FG_PROGRESS_BYTES)
                snprintf(rate, sizeof rate, " (%s/s)",
                         bytes_per_s(b, sizeof b, (double)p->done / elapsed));
            else
                snprintf(rate, sizeof rate, " (%.3g/s)", (double)p->done / elapsed);
        }
        if (p->tty) fprintf(p->out, "\r\033[K");
        // Of a job that was refused before it began, the error says all.
        if (ok || p->done > 0)
            fprintf(p->out, "%s: %s %s in %s%s\n", p->name, ok ? "done," : "stopped after", n,
                    fg_format_seconds(t, sizeof t, elapsed), rate);
        fflush(p->out);
    }
    free(p);
}
