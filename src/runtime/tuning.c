// runtime/tuning.c: measurements of this machine as a file.
#include "runtime/tuning.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/jwrite.h"
#include "base/machine.h"
#include "base/thread.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT "forge-tuning-1"

void fg_tuning_default(struct fg_tuning *t)
{
    *t = (struct fg_tuning){.prefetch_bytes = 1024};
}

bool fg_tuning_id(const char *isa, const char *weights_digest, char id[17])
{
    struct fg_machine m;
    struct fg_buf text = {0};
    char hex[FG_SHA256_HEX];
    fg_machine_probe(&m);
    fg_buf_printf(&text, "%s|%s|%d|%d|%d|%d|%.2f|%" PRIu64 "|%s|%s", m.cpu, m.arch, m.sockets,
                  m.cores, m.threads, m.allowed, m.cgroup_cpus, m.ram_bytes, isa, weights_digest);
    bool ok = !text.failed && fg_sha256_hex(text.data, text.len, hex);
    fg_buf_free(&text);
    if (ok) {
        memcpy(id, hex, 16);
        id[16] = '\0';
    }
    return ok;
}

char *fg_tuning_path(const char *state_dir, const char *id)
{
    char *path;
    return asprintf(&path, "%s/builds/tuning/%s.json", state_dir, id) < 0 ? NULL : path;
}

int fg_tuning_write(const struct fg_tuning *t, const char *path, const char *id,
                    struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "format", FORMAT);
    fg_jwrite_str(&w, "id", id);
    fg_jwrite_int(&w, "threads", t->threads);
    fg_jwrite_int(&w, "prefetch_bytes", t->prefetch_bytes);
    fg_jwrite_int(&w, "prefill_rows", t->prefill_rows);
    fg_jwrite_array(&w, "verify");
    for (int i = 0; i < t->n_verify; i++) {
        fg_jwrite_object(&w, NULL);
        fg_jwrite_int(&w, "rows", t->verify[i].rows);
        fg_jwrite_num(&w, "ms", t->verify[i].ms);
        fg_jwrite_num(&w, "ms_per_1k", t->verify[i].ms_per_1k);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_array(&w, "draft");
    for (int i = 0; i < t->n_draft; i++) {
        fg_jwrite_object(&w, NULL);
        fg_jwrite_int(&w, "ctx", t->draft[i].ctx);
        fg_jwrite_num(&w, "ms", t->draft[i].ms);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    fg_buf_char(&w.buf, '\n');
    int rc = w.buf.failed ? fg_fail_memory(err, "tuning", w.buf.len)
                          : fg_file_replace(path, w.buf.data, w.buf.len, err);
    fg_jwrite_free(&w);
    return rc;
}

static int array_of(const struct fg_json *doc, const char *key, int max, struct json_object **out,
                    int *n, struct fg_error *err)
{
    int rc = fg_json_arr(doc, doc->root, "", key, out, err);
    if (rc) return rc;
    size_t len = *out ? json_object_array_length(*out) : 0;
    if (len > (size_t)max)
        return fg_fail_range(err, "tuning", doc->file, key, 0, max, (int64_t)len);
    *n = (int)len;
    return 0;
}

// A time of at least 0, in milliseconds.
static int take_ms(const struct fg_json *doc, struct json_object *obj, const char *where,
                   const char *key, double *out, struct fg_error *err)
{
    int rc = fg_json_f64(doc, obj, where, key, 0, out, NULL, err);
    if (rc == 0 && !(*out >= 0))
        rc = fg_fail(err, FG_EINPUT, "tuning", doc->file, key, "at least 0", "%g", *out);
    return rc;
}

static int take_lists(const struct fg_json *doc, struct fg_tuning *t, struct fg_error *err)
{
    struct json_object *list;
    int rc = array_of(doc, "verify", FG_TUNING_ROWS_MAX, &list, &t->n_verify, err);
    for (int i = 0; i < t->n_verify && rc == 0; i++) {
        struct fg_tuning_row *r = &t->verify[i];
        struct json_object *obj = json_object_array_get_idx(list, (size_t)i);
        int64_t least = i ? t->verify[i - 1].rows + 1 : 1;
        rc = fg_json_i64(doc, obj, "verify.", "rows", 0, least, 4096, &r->rows, NULL, err);
        if (rc == 0 && r->rows < least)
            rc = fg_fail_range(err, "tuning", doc->file, "verify.rows", least, 4096, r->rows);
        if (rc == 0) rc = take_ms(doc, obj, "verify.", "ms", &r->ms, err);
        if (rc == 0) rc = take_ms(doc, obj, "verify.", "ms_per_1k", &r->ms_per_1k, err);
    }
    if (rc == 0) rc = array_of(doc, "draft", FG_TUNING_POINTS_MAX, &list, &t->n_draft, err);
    for (int i = 0; i < t->n_draft && rc == 0; i++) {
        struct fg_tuning_point *p = &t->draft[i];
        struct json_object *obj = json_object_array_get_idx(list, (size_t)i);
        int64_t least = i ? t->draft[i - 1].ctx + 1 : 1;
        rc = fg_json_i64(doc, obj, "draft.", "ctx", 0, least, 1 << 20, &p->ctx, NULL, err);
        if (rc == 0 && p->ctx < least)
            rc = fg_fail_range(err, "tuning", doc->file, "draft.ctx", least, 1 << 20, p->ctx);
        if (rc == 0) rc = take_ms(doc, obj, "draft.", "ms", &p->ms, err);
    }
    return rc;
}

static int take(const struct fg_json *doc, struct fg_tuning *t, const char *id,
                struct fg_error *err)
{
    const char *format, *found;
    struct json_object *root = doc->root;
    int rc = fg_json_str(doc, root, "", "format", "", &format, NULL, err);
    if (rc == 0) rc = fg_json_str(doc, root, "", "id", "", &found, NULL, err);
    if (rc) return rc;
    if (strcmp(format, FORMAT) != 0)
        return fg_fail(err, FG_EINPUT, "tuning", doc->file, "format", FORMAT, "another one");
    if (strcmp(found, id) != 0)
        return fg_fail(err, FG_EINTEGRITY, "tuning", doc->file, "id", id, "another one");
    rc = fg_json_i64(doc, root, "", "threads", 0, 0, 1024, &t->threads, NULL, err);
    if (rc == 0)
        rc = fg_json_i64(doc, root, "", "prefetch_bytes", 1024, 0, 1 << 20, &t->prefetch_bytes,
                         NULL, err);
    if (rc == 0)
        rc = fg_json_i64(doc, root, "", "prefill_rows", 0, 0, 4096, &t->prefill_rows, NULL, err);
    return rc ? rc : take_lists(doc, t, err);
}

int fg_tuning_read(struct fg_tuning *t, const char *path, const char *id, struct fg_error *err)
{
    struct fg_buf text = {0};
    struct fg_json doc = {0};
    fg_tuning_default(t);
    int rc = fg_file_load(&text, path, FG_TUNING_BYTES_MAX, err);
    if (rc == 0) rc = fg_json_parse(&doc, text.data, text.len, path, err);
    if (rc == 0) rc = take(&doc, t, id, err);
    fg_json_close(&doc);
    fg_buf_free(&text);
    if (rc) fg_tuning_default(t);
    return rc;
}
