// bundle/convert.c: the job: what is to be written, the journal by which it continues, the order of
// work. The manifest comes last: a build that has one is whole.
#include "bundle/convert.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "base/jwrite.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/size.h"
#include "bundle/convert_impl.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define JOURNAL_BYTES_MAX (16ull << 20)
#define DISK_MARGIN (64ull << 20)
#define MANIFEST_FILE "manifest.json"
#define HASHED_BYTES (16ull << 20) // of the embedding, for the identity of a job

int fg_convert_tick(struct fg_convert_job *j, uint64_t at)
{
    if (!j->o->progress) return 0;
    // The first half of the work is reading the export for its digest.
    if (j->o->progress(j->o->ctx, j->total + j->done + at, 2 * j->total, j->item)) return 0;
    return fg_fail(j->err, FG_EINTERRUPTED, FG_CONVERT_WHAT, j->dir, NULL, NULL,
                   "stopped; the same command continues");
}

struct fg_convert_file *fg_convert_add_file(struct fg_convert_job *j, const char *dir,
                                            const char *name)
{
    char full[128];
    int n = snprintf(full, sizeof full, "%s/%s", dir, name);
    if (j->n_files == j->cap_files) {
        uint64_t more = j->cap_files ? 2 * j->cap_files : 32;
        struct fg_convert_file *p = realloc(j->files, more * sizeof *p);
        if (!p) {
            fg_fail_memory(j->err, FG_CONVERT_WHAT, more * sizeof *p);
            return NULL;
        }
        j->files = p;
        j->cap_files = more;
    }
    struct fg_convert_file *f = &j->files[j->n_files];
    *f = (struct fg_convert_file){.name = fg_arena_strdup(&j->arena, full, (size_t)n),
                                  .path = fg_path_join(j->dir, full)};
    if (!f->name || !f->path) {
        free(f->path);
        fg_fail_memory(j->err, FG_CONVERT_WHAT, sizeof full);
        return NULL;
    }
    j->n_files++;
    return f;
}

const struct fg_convert_file *fg_convert_find(const struct fg_convert_job *j, const char *name)
{
    const struct fg_convert_file *f = j->files;
    while (strcmp(f->name, name) != 0)
        f++;
    return f;
}

// ---- the job's directory

static int join_all(struct fg_convert_job *j, const char *output)
{
    j->dir = fg_path_join(output, j->name);
    j->model = j->dir ? fg_path_join(j->dir, "model") : NULL;
    j->build = j->dir ? fg_path_join(j->dir, "forge") : NULL;
    j->mark = j->dir ? fg_path_join(j->dir, ".forge") : NULL;
    j->journal = j->mark ? fg_path_join(j->mark, "convert.json") : NULL;
    if (j->journal && j->model && j->build) return 0;
    return fg_fail_memory(j->err, FG_CONVERT_WHAT, strlen(output));
}

// One directory name, as it stands in the manifest and in paths.
static int check_name(const struct fg_convert_job *j)
{
    if (j->name[0] != '\0' && strcmp(j->name, ".") != 0 && strcmp(j->name, "..") != 0 &&
        !strchr(j->name, '/') && strlen(j->name) < 200)
        return 0;
    return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, NULL, "name of the bundle",
                   "one directory name", "%s", j->name);
}

static int fail_option(const struct fg_convert_job *j, const char *option, const char *expected,
                       int64_t found)
{
    return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, NULL, option, expected, "%" PRId64, found);
}

// What the manifest would refuse at the end of all the work (specs: runtime 1.2).
static int check_options(const struct fg_convert_job *j)
{
    const struct fg_convert_options *o = j->o;
    for (int i = 0; i < o->n_ctxs; i++) {
        if (o->ctxs[i] < FG_MANIFEST_CTX_STEP || o->ctxs[i] > FG_MANIFEST_CTX_MAX ||
            o->ctxs[i] % FG_MANIFEST_CTX_STEP != 0)
            return fail_option(j, "ctx", "multiples of 256 up to 1048576", o->ctxs[i]);
        if (i && o->ctxs[i] <= o->ctxs[i - 1])
            return fail_option(j, "ctx", "ascending entries", o->ctxs[i]);
    }
    for (int i = 0; i < o->n_pctxs; i++) {
        bool entry = o->n_ctxs == 0;
        for (int k = 0; k < o->n_ctxs; k++)
            entry = entry || o->ctxs[k] == o->pctxs[i];
        if (!entry || (i && o->pctxs[i] <= o->pctxs[i - 1]))
            return fail_option(j, "pctx", "entries of --ctx, ascending", o->pctxs[i]);
    }
    if (o->n_pctxs > 0 && o->n_ctxs == 0)
        return fail_option(j, "pctx", "given together with --ctx", o->pctxs[0]);
    if (o->kv_default && o->kv && !(o->kv & o->kv_default))
        return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, NULL, "kv-cache-default",
                       "one of the formats offered", "another");
    return 0;
}

// The directory is new, empty, or has the mark of a conversion.
static int check_dir(const struct fg_convert_job *j)
{
    if (!fg_path_taken(j->dir)) return 0;
    DIR *d = opendir(j->dir);
    if (!d) return fg_fail_errno(j->err, j->dir, "read", errno);
    bool content = false;
    for (struct dirent *e; (e = readdir(d));) {
        content = content || (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
                              strcmp(e->d_name, ".forge") != 0);
    }
    closedir(d);
    if (!content || fg_file_exists(j->journal)) return 0;
    int rc = fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, j->dir, "--output",
                     "a directory that has no bundle of this name", "one");
    fg_error_hint(j->err, "give another --output, or remove that directory");
    return rc;
}

static int take_lock(struct fg_convert_job *j)
{
    char *path = fg_path_join(j->mark, "lock");
    if (!path) return fg_fail_memory(j->err, FG_CONVERT_WHAT, 0);
    int rc = fg_dir_make(j->mark, j->err);
    if (!rc) {
        j->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (j->lock < 0)
            rc = fg_fail_errno(j->err, path, "open", errno);
        else if (flock(j->lock, LOCK_EX | LOCK_NB) != 0)
            rc = errno == EWOULDBLOCK ? fg_fail(j->err, FG_EBUSY, FG_CONVERT_WHAT, path, "lock",
                                                "no other conversion into this directory", "one")
                                      : fg_fail_errno(j->err, path, "lock", errno);
    }
    free(path);
    return rc;
}

// Temporary files of a killed run: ".NAME.xxxxxxxx" (struct fg_atomic).
static void remove_leftovers(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));) {
        const char *dot = strrchr(e->d_name, '.');
        if (e->d_name[0] == '.' && dot && dot > e->d_name &&
            strspn(dot + 1, "0123456789abcdef") == 8 && dot[9] == '\0')
            unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

// ---- identity and journal

// What makes two jobs the same: the weights, and everything else that shows in the files.
static int make_identity(struct fg_convert_job *j)
{
    const struct fg_convert_options *o = j->o;
    const struct fg_export_facts *facts = fg_export_facts(j->export);
    char sha[FG_SHA256_HEX];
    struct fg_buf b = {0};
    int rc = fg_sha256_file(facts->config, sha, j->err);
    if (rc) return rc;
    fg_buf_printf(&b, "forge-convert-1\n%s\n%s\n%s\n%s\n", j->name, facts->name, j->digest.hex,
                  sha);
    for (int i = 0; i < o->n_ctxs; i++)
        fg_buf_printf(&b, "%" PRId64 " ", o->ctxs[i]);
    fg_buf_printf(&b, "\n%d ", o->n_pctxs);
    for (int i = 0; i < o->n_pctxs; i++)
        fg_buf_printf(&b, "%" PRId64 " ", o->pctxs[i]);
    fg_buf_printf(&b, "\n%d %d\n%s\n%s\n", o->kv, o->kv_default,
                  o->upstream_id ? o->upstream_id : "",
                  o->upstream_revision ? o->upstream_revision : "");
    for (uint64_t i = 0; i < j->n_files && !rc; i++) {
        const struct fg_convert_file *f = &j->files[i];
        sha[0] = '\0';
        if (f->source) rc = fg_sha256_file(f->source, sha, j->err);
        fg_buf_printf(&b, "%s %" PRIu64 " %s\n", f->name, f->bytes, sha);
    }
    const struct fg_export_embedding *em = fg_export_embedding(j->export);
    const uint64_t bytes = (uint64_t)em->vocab * (uint64_t)em->hidden * 2; // at least
    snprintf(sha, sizeof sha, "head");
    if (em->data && em->kind == FG_EMBEDDING_INT8) // the codes, at least
        fg_sha256_hex(em->data, bytes / 2 < HASHED_BYTES ? bytes / 2 : HASHED_BYTES, sha);
    else if (em->data)
        fg_sha256_hex(em->data, bytes < HASHED_BYTES ? bytes : HASHED_BYTES, sha);
    fg_buf_printf(&b, "embedding %s\n", sha);
    if (rc) {
        fg_buf_free(&b);
        return rc;
    }
    if (b.failed || !fg_sha256_hex(b.data, b.len, j->identity))
        rc = fg_fail_memory(j->err, FG_CONVERT_WHAT, b.len);
    fg_buf_free(&b);
    return rc;
}

static int write_journal(struct fg_convert_job *j)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "schema", "forge.convert/1");
    fg_jwrite_str(&w, "identity", j->identity);
    fg_jwrite_array(&w, "files");
    for (uint64_t i = 0; i < j->n_files; i++) {
        const struct fg_convert_file *f = &j->files[i];
        if (!f->done) continue;
        fg_jwrite_object(&w, NULL);
        fg_jwrite_str(&w, "name", f->name);
        fg_jwrite_uint(&w, "bytes", f->bytes);
        fg_jwrite_str(&w, "sha256", f->sha256);
        fg_jwrite_end_object(&w);
    }
    fg_jwrite_end_array(&w);
    fg_jwrite_end_object(&w);
    fg_buf_char(&w.buf, '\n');
    int rc = w.buf.failed ? fg_fail_memory(j->err, FG_CONVERT_WHAT, w.buf.len)
                          : fg_file_replace(j->journal, w.buf.data, w.buf.len, j->err);
    fg_jwrite_free(&w);
    return rc;
}

// A file that the journal lists is kept when its bytes are the listed ones.
static int keep_file(struct fg_convert_job *j, const struct fg_json *doc, struct json_object *entry)
{
    const char *name, *sha;
    int64_t bytes;
    int rc = fg_json_str(doc, entry, "files[].", "name", "", &name, NULL, j->err);
    if (!rc) rc = fg_json_str(doc, entry, "files[].", "sha256", "", &sha, NULL, j->err);
    if (!rc)
        rc = fg_json_i64(doc, entry, "files[].", "bytes", 0, 0, INT64_MAX, &bytes, NULL, j->err);
    if (rc) return rc;
    for (uint64_t i = 0; i < j->n_files; i++) {
        struct fg_convert_file *f = &j->files[i];
        char found[FG_SHA256_HEX];
        if (strcmp(f->name, name) != 0 || f->done || !fg_file_exists(f->path)) continue;
        j->item = f->name;
        rc = fg_convert_tick(j, 0);
        if (!rc) rc = fg_sha256_file(f->path, found, j->err);
        if (rc) return rc;
        if (strcmp(found, sha) != 0) continue;
        memcpy(f->sha256, found, sizeof found);
        j->done += f->bytes; // what the total counts for it
        f->bytes = (uint64_t)bytes;
        f->done = true;
        j->n_kept++;
    }
    return 0;
}

static int read_journal(struct fg_convert_job *j)
{
    struct fg_json doc = {0};
    struct json_object *files = NULL;
    const char *identity;
    if (!fg_file_exists(j->journal)) return write_journal(j);
    int rc = fg_json_open(&doc, j->journal, JOURNAL_BYTES_MAX, j->err);
    if (!rc) rc = fg_json_str(&doc, doc.root, "", "identity", "", &identity, NULL, j->err);
    if (!rc && strcmp(identity, j->identity) != 0) {
        rc = fg_fail(j->err, FG_EINTEGRITY, FG_CONVERT_WHAT, j->journal, "identity",
                     "the export and the options of the run that was stopped", "others");
        fg_error_hint(j->err, "repeat that run, or remove the directory");
    }
    if (!rc) rc = fg_json_arr(&doc, doc.root, "", "files", &files, j->err);
    for (size_t i = 0; !rc && files && i < json_object_array_length(files); i++)
        rc = keep_file(j, &doc, json_object_array_get_idx(files, i));
    fg_json_close(&doc);
    remove_leftovers(j->model);
    remove_leftovers(j->build);
    remove_leftovers(j->mark);
    return rc;
}

// ---- the order of work

static bool on_digest(void *ctx, uint64_t done, uint64_t total)
{
    struct fg_convert_job *j = ctx;
    if (!j->o->progress) return true;
    double share = total ? (double)done / (double)total : 1.0;
    return j->o->progress(j->o->ctx, (uint64_t)(share * (double)j->total), 2 * j->total,
                          "reading the export");
}

static int make_digest(struct fg_convert_job *j)
{
    const struct fg_qset *set = fg_export_set(j->export);
    const struct fg_export_facts *facts = fg_export_facts(j->export);
    struct fg_digest_options o = {
        .pool = j->o->pool, .progress = on_digest, .progress_ctx = j, .release = true};
    int rc = fg_digest_sets(&j->digest, &set, 1, &o, j->err);
    if (rc == FG_EINTERRUPTED)
        return fg_fail(j->err, rc, FG_CONVERT_WHAT, facts->dir, NULL, NULL,
                       "stopped; nothing was written");
    if (!rc && facts->digest && strcmp(facts->digest, j->digest.hex) != 0)
        rc = fg_fail(j->err, FG_EINTEGRITY, FG_CONVERT_WHAT, facts->dir, "digest in export.json",
                     facts->digest, "%s", j->digest.hex);
    return rc;
}

static int check_disk(const struct fg_convert_job *j, const char *output)
{
    uint64_t need = DISK_MARGIN, have = fg_disk_free_bytes(output);
    char a[32], b[32];
    for (uint64_t i = 0; i < j->n_files; i++) {
        if (!j->files[i].done) need += j->files[i].bytes;
    }
    if (have == 0 || need <= have) return 0;
    fg_format_bytes(a, sizeof a, need);
    return fg_fail(j->err, FG_ERESOURCE, FG_CONVERT_WHAT, output, "disk space", a, "%s free",
                   fg_format_bytes(b, sizeof b, have));
}

static int write_file(struct fg_convert_job *j, struct fg_convert_file *f)
{
    const uint64_t counted = f->bytes;
    j->item = f->name;
    int rc = fg_convert_tick(j, 0);
    if (rc) return rc;
    if (f->source)
        rc = fg_convert_copy(j, f);
    else if (f->first == -2)
        rc = fg_convert_embedding(j, f);
    else
        rc = fg_convert_package(j, f);
    if (!rc && !f->sha256[0]) {
        rc = fg_sha256_file(f->path, f->sha256, j->err);
        struct fg_map map;
        if (!rc) rc = fg_map_open(&map, f->path, j->err);
        if (!rc) {
            f->bytes = map.bytes;
            fg_map_close(&map);
        }
    }
    j->done += counted;
    f->done = rc == 0;
    return rc ? rc : write_journal(j);
}

static int write_all(struct fg_convert_job *j)
{
    int rc = fg_dir_make(j->model, j->err);
    if (!rc) rc = fg_dir_make(j->build, j->err);
    for (uint64_t i = 0; i < j->n_files && !rc; i++) {
        if (!j->files[i].done) rc = write_file(j, &j->files[i]);
    }
    char *path = fg_path_join(j->build, MANIFEST_FILE);
    if (!path && !rc) rc = fg_fail_memory(j->err, FG_CONVERT_WHAT, 0);
    if (!rc) rc = fg_convert_manifest(j, path);
    free(path);
    return rc;
}

// The job is done: its mark goes, and what is left is a bundle.
static void remove_mark(struct fg_convert_job *j)
{
    char *lock = fg_path_join(j->mark, "lock");
    unlink(j->journal);
    if (lock) unlink(lock);
    free(lock);
    rmdir(j->mark);
}

static int open_export(struct fg_convert_job *j, const char *export_dir)
{
    struct fg_source_options o = {
        .model_dir = j->o->model_dir, .pool = j->o->pool, .log = j->o->log};
    if (fg_source_kind(export_dir) != FG_SOURCE_EXPORT)
        return fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, export_dir, NULL, "a quantized export",
                       fg_path_taken(export_dir) ? "something else" : "no such directory");
    int rc = fg_source_open(&j->source, export_dir, &o, j->err);
    if (rc) return rc;
    j->export = fg_source_export(j->source);
    j->config = fg_source_config(j->source);
    if (j->config) return 0;
    rc = fg_fail(j->err, FG_EINPUT, FG_CONVERT_WHAT, export_dir, "config.json",
                 "one in the export or the model directory", "none");
    fg_error_hint(j->err, "give the checkpoint with --model");
    return rc;
}

static void result_of(struct fg_convert_result *r, struct fg_convert_job *j)
{
    *r = (struct fg_convert_result){.dir = j->dir,
                                    .build = j->build,
                                    .n_files = j->n_files + 1, // the manifest
                                    .n_kept = j->n_kept};
    memcpy(r->digest, j->digest.hex, sizeof r->digest);
    memcpy(r->head, j->digest.head, sizeof r->head);
    for (uint64_t i = 0; i < j->n_files; i++)
        r->bytes += j->files[i].bytes;
    j->dir = j->build = NULL;
}

static int work(struct fg_convert_job *j, const char *output)
{
    int rc = fg_dir_make(output, j->err);
    if (!rc) rc = take_lock(j);
    if (!rc) rc = make_digest(j);
    if (!rc) rc = make_identity(j);
    if (!rc) rc = read_journal(j);
    if (!rc) rc = write_all(j);
    if (rc) return rc;
    j->item = "";
    if (j->o->progress) j->o->progress(j->o->ctx, 2 * j->total, 2 * j->total, "");
    remove_mark(j);
    return 0;
}

int fg_convert(struct fg_convert_result *result, const char *export_dir, const char *output,
               const struct fg_convert_options *o, struct fg_error *err)
{
    struct fg_convert_job job = {.o = o, .err = err, .lock = -1}, *j = &job;
    *result = (struct fg_convert_result){0};
    fg_arena_init(&j->arena, 0);
    int rc = check_options(j);
    if (!rc) rc = open_export(j, export_dir);
    if (!rc) {
        j->name = o->name ? o->name : fg_export_facts(j->export)->name;
        rc = check_name(j);
    }
    if (!rc) rc = join_all(j, output);
    if (!rc) rc = check_dir(j);
    if (!rc) rc = fg_convert_list_model(j);
    if (!rc) rc = fg_convert_list_build(j);
    for (uint64_t i = 0; i < j->n_files; i++)
        j->total += j->files[i].bytes;
    if (!rc) rc = check_disk(j, output);
    if (!rc && !o->dry_run) rc = work(j, output);
    if (!rc) result_of(result, j);
    if (j->lock >= 0) close(j->lock);
    for (uint64_t i = 0; i < j->n_files; i++)
        free(j->files[i].path);
    free(j->files);
    free(j->dir);
    free(j->model);
    free(j->build);
    free(j->mark);
    free(j->journal);
    fg_digest_free(&j->digest);
    fg_source_close(j->source);
    fg_arena_free(&j->arena);
    return rc;
}

void fg_convert_result_free(struct fg_convert_result *r)
{
    free(r->dir);
    free(r->build);
    *r = (struct fg_convert_result){0};
}
