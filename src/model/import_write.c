// model/import_write.c: writing an imported checkpoint. The directory is locked and carries the
// identity of its job (specs: cli 1.6, 13); texts are made before the first byte is written, and
// config.json is the last to appear, so a directory that has one is whole.
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "format/safetensors.h"
#include "model/import_impl.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define SHARD_BYTES 5000000000ull // HF's usual size
#define CHUNK_BYTES (4ull << 20)  // between two calls of progress
#define HASHED_BYTES (64ull << 20)
#define JOB_NAME ".forge/import.json"

static const struct {
    const char *name;
    enum fg_dtype dtype; // unless KEEP
} dtypes[] = {
    [FG_IMPORT_KEEP] = {"keep", FG_F32},
    [FG_IMPORT_BF16] = {"bf16", FG_BF16},
    [FG_IMPORT_F16] = {"f16", FG_F16},
    [FG_IMPORT_F32] = {"f32", FG_F32},
};

bool fg_import_dtype_of_name(const char *name, enum fg_import_dtype *out)
{
    for (size_t i = 0; i < FG_COUNT(dtypes); i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *out = (enum fg_import_dtype)i;
            return true;
        }
    }
    return false;
}

// The small files, in order of writing.
enum { TOKENIZER, TOKENIZER_CONFIG, GENERATION_CONFIG, CHAT_TEMPLATE, CONFIG, N_TEXTS };
static const char *const text_names[N_TEXTS] = {"tokenizer.json", "tokenizer_config.json",
                                                "generation_config.json", "chat_template.jinja",
                                                "config.json"};

struct job {
    const struct fg_import *imp;
    const char *dir;
    struct fg_import_options options;
    struct fg_error *err;
    struct fg_buf texts[N_TEXTS];
    char *paths[N_TEXTS];
    bool written[N_TEXTS];
    struct fg_buf identity;
    int lock; // file descriptor, -1: none
};

static enum fg_dtype dtype_of(const struct job *j, const struct fg_import_tensor *t)
{
    return j->options.dtype == FG_IMPORT_KEEP ? t->dtype : dtypes[j->options.dtype].dtype;
}

static int make_texts(struct job *j)
{
    const struct fg_import *imp = j->imp;
    const enum fg_dtype *dtype =
        j->options.dtype == FG_IMPORT_KEEP ? NULL : &dtypes[j->options.dtype].dtype;
    int rc = fg_import_tokenizer(imp, &j->texts[TOKENIZER], j->err);
    if (!rc) rc = fg_import_tokenizer_config(imp, &j->texts[TOKENIZER_CONFIG], j->err);
    if (!rc) rc = fg_import_generation_config(imp, &j->texts[GENERATION_CONFIG], j->err);
    if (!rc) rc = fg_import_chat_template(imp, &j->texts[CHAT_TEMPLATE], j->err);
    if (!rc) rc = fg_import_config(imp, dtype, &j->texts[CONFIG], j->err);
    for (int i = 0; i < N_TEXTS && !rc; i++) {
        j->paths[i] = fg_path_join(j->dir, text_names[i]);
        if (!j->paths[i]) rc = fg_fail_memory(j->err, FG_IMPORT_WHAT, 0);
    }
    return rc;
}

// What makes two imports the same: the file (size, its first 64 MiB, which hold all metadata) and
// the options.
static int make_identity(struct job *j)
{
    uint64_t bytes;
    char hex[FG_SHA256_HEX];
    const uint8_t *data = fg_gguf_bytes(j->imp->gguf, &bytes);
    fg_sha256_hex(data, bytes < HASHED_BYTES ? bytes : HASHED_BYTES, hex);
    fg_buf_printf(&j->identity,
                  "{\"forge_import\": 1, \"source_bytes\": %" PRIu64
                  ", \"source_head_sha256\": \"%s\", \"dtype\": \"%s\", \"shard_bytes\": %" PRIu64
                  "}\n",
                  bytes, hex, dtypes[j->options.dtype].name, j->options.shard_bytes_max);
    return j->identity.failed ? fg_fail_memory(j->err, FG_IMPORT_WHAT, j->identity.len) : 0;
}

// Anything beside the directory of the mark.
static int has_content(const struct job *j, bool *content)
{
    DIR *d = opendir(j->dir);
    if (!d) return fg_fail_errno(j->err, j->dir, "read", errno);
    *content = false;
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            strcmp(e->d_name, ".forge") != 0) {
            *content = true;
        }
    }
    closedir(d);
    return 0;
}

// Temporary files that a killed run left: ".NAME.xxxxxxxx" (struct fg_atomic) of names that the job
// writes.
static void remove_leftovers(const struct job *j)
{
    static const char *const starts[] = {".model", ".tokenizer", ".generation_config.json.",
                                         ".chat_template.jinja.", ".config.json."};
    DIR *d = opendir(j->dir);
    if (!d) return; // the job itself will say why
    for (struct dirent *e; (e = readdir(d));) {
        const char *dot = strrchr(e->d_name, '.');
        if (!dot || strspn(dot + 1, "0123456789abcdef") != 8 || dot[9]) continue;
        for (size_t i = 0; i < FG_COUNT(starts); i++) {
            if (strncmp(e->d_name, starts[i], strlen(starts[i])) == 0) {
                unlinkat(dirfd(d), e->d_name, 0);
                break;
            }
        }
    }
    closedir(d);
}

static int take_lock(struct job *j)
{
    char *path = fg_path_join(j->dir, ".forge/lock");
    if (!path) return fg_fail_memory(j->err, FG_IMPORT_WHAT, 0);
    int rc = 0;
    j->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (j->lock < 0) {
        rc = fg_fail_errno(j->err, path, "open", errno);
    } else if (flock(j->lock, LOCK_EX | LOCK_NB) != 0) {
        rc = errno == EWOULDBLOCK ? fg_fail(j->err, FG_EBUSY, FG_IMPORT_WHAT, path, "lock",
                                            "no other import into this directory", "one")
                                  : fg_fail_errno(j->err, path, "lock", errno);
    }
    free(path);
    return rc;
}

// Compares the mark of an earlier run with this job, or makes one.
static int check_mark(struct job *j, const char *path, bool marked)
{
    struct fg_buf found = {0};
    if (!marked) return fg_file_replace(path, j->identity.data, j->identity.len, j->err);
    int rc = fg_file_load(&found, path, 4096, j->err);
    if (!rc &&
        (found.len != j->identity.len || memcmp(found.data, j->identity.data, found.len) != 0)) {
        rc = fg_fail(j->err, FG_EINTEGRITY, FG_IMPORT_WHAT, path, "identity",
                     "this file and these options", "another import");
        fg_error_hint(j->err, "give another directory, or remove this one");
    }
    fg_buf_free(&found);
    if (!rc) remove_leftovers(j);
    return rc;
}

// The directory is new, empty, or of this very job; then it is locked and marked.
static int claim_dir(struct job *j)
{
    bool content = false;
    char *path = fg_path_join(j->dir, JOB_NAME), *mark = fg_path_join(j->dir, ".forge");
    int rc = path && mark ? fg_dir_make(j->dir, j->err) : fg_fail_memory(j->err, FG_IMPORT_WHAT, 0);
    if (!rc) rc = has_content(j, &content);
    if (!rc && content && !fg_file_exists(path)) {
        rc = fg_fail(j->err, FG_EINPUT, FG_IMPORT_WHAT, j->dir, "--output",
                     "a new or empty directory, or one of the same import", "other content");
    }
    if (!rc) rc = fg_dir_make(mark, j->err);
    if (!rc) rc = take_lock(j);
    if (!rc) rc = check_mark(j, path, fg_file_exists(path));
    free(path);
    free(mark);
    return rc;
}

static int write_text(struct job *j, int i)
{
    // An earlier run of the same job wrote a template too, so none can be left over.
    if (i == CHAT_TEMPLATE && j->texts[i].len == 0) return 0;
    int rc = fg_file_replace(j->paths[i], j->texts[i].data, j->texts[i].len, j->err);
    j->written[i] = rc == 0;
    return rc;
}

static int write_tensors(struct job *j, struct fg_st_writer *w)
{
    uint64_t done = 0, total = fg_st_writer_bytes(w);
    uint8_t *chunk = NULL;
    uint64_t chunk_bytes = 0;
    int rc = 0;
    for (uint64_t i = 0; i < j->imp->n && !rc; i++) {
        const struct fg_import_tensor *t = &j->imp->tensors[i];
        enum fg_dtype dtype = dtype_of(j, t);
        uint64_t row_bytes = t->cols * fg_dtype_bytes(dtype); // cols < 2^34
        uint64_t step = row_bytes < CHUNK_BYTES ? CHUNK_BYTES / row_bytes : 1;
        if (step > t->rows) step = t->rows;
        if (step * row_bytes > chunk_bytes) {
            free(chunk);
            chunk_bytes = step * row_bytes;
            chunk = malloc(chunk_bytes);
            if (!chunk) return fg_fail_memory(j->err, FG_IMPORT_WHAT, chunk_bytes);
        }
        for (uint64_t r = 0; r < t->rows && !rc; r += step) {
            uint64_t end = t->rows - r < step ? t->rows : r + step;
            if (j->options.progress && !j->options.progress(j->options.ctx, done, total, t->name)) {
                rc = fg_fail(j->err, FG_EINTERRUPTED, FG_IMPORT_WHAT, j->dir, NULL, NULL,
                             "stopped; nothing is left but the mark of the job");
                break;
            }
            rc = fg_import_read(j->imp, t, r, end, dtype, chunk, j->err);
            if (!rc) rc = fg_st_writer_add(w, chunk, (end - r) * row_bytes, j->err);
            done += (end - r) * row_bytes;
        }
    }
    free(chunk);
    if (!rc && j->options.progress) j->options.progress(j->options.ctx, done, total, "");
    return rc;
}

static int write_weights(struct job *j)
{
    static const enum fg_st_dtype st[] = {
        [FG_F32] = FG_ST_F32, [FG_F16] = FG_ST_F16, [FG_BF16] = FG_ST_BF16};
    struct fg_st_spec *specs = calloc(j->imp->n, sizeof *specs);
    if (!specs) return fg_fail_memory(j->err, FG_IMPORT_WHAT, j->imp->n * sizeof *specs);
    for (uint64_t i = 0; i < j->imp->n; i++) {
        const struct fg_import_tensor *t = &j->imp->tensors[i];
        specs[i].name = t->name;
        specs[i].dtype = st[dtype_of(j, t)];
        specs[i].rank = t->rank;
        memcpy(specs[i].shape, t->shape, sizeof t->shape);
    }
    struct fg_st_writer *w;
    int rc = fg_st_writer_open(&w, j->dir, specs, j->imp->n, j->options.shard_bytes_max, j->err);
    free(specs);
    if (rc) return rc;
    rc = write_tensors(j, w);
    if (!rc) rc = fg_st_writer_commit(w, j->err);
    if (rc) fg_st_writer_abort(w);
    return rc;
}

int fg_import_write(const struct fg_import *imp, const char *dir,
                    const struct fg_import_options *options, struct fg_error *err)
{
    struct job job = {.imp = imp, .dir = dir, .options = *options, .err = err, .lock = -1};
    struct job *j = &job;
    if (!j->options.shard_bytes_max) j->options.shard_bytes_max = SHARD_BYTES;
    int rc = make_texts(j);
    if (!rc) rc = make_identity(j);
    if (!rc) rc = claim_dir(j);
    // A config of an earlier run goes first: while the others change, the directory is not whole.
    if (!rc) unlink(j->paths[CONFIG]);
    for (int i = 0; i < CONFIG && !rc; i++) {
        rc = write_text(j, i);
    }
    if (!rc) rc = write_weights(j);
    if (!rc) rc = write_text(j, CONFIG);
    for (int i = 0; i < N_TEXTS; i++) {
        if (rc && j->written[i]) unlink(j->paths[i]);
        free(j->paths[i]);
        fg_buf_free(&j->texts[i]);
    }
    fg_buf_free(&j->identity);
    if (j->lock >= 0) close(j->lock);
    return rc;
}
