#include "base/job_dir.h"
#include "base/file.h"
#include "base/json.h"
#include "base/jwrite.h"
#include "base/size.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define SCHEMA "forge.job/1"
#define JOB_BYTES_MAX (16u << 20)

struct fg_job_dir {
    int lock;
};

// A path as the caller's to free, or FG_ERESOURCE.
static int join(char **out, const char *dir, const char *name, struct fg_error *err)
{
    *out = fg_path_join(dir, name);
    return *out ? 0 : fg_fail_memory(err, "path", strlen(dir));
}

static int take_lock(struct fg_job_dir *d, const struct fg_job_dir_options *o, struct fg_error *err)
{
    char *path;
    int rc = join(&path, o->dir, ".forge/lock", err);
    if (rc) return rc;
    d->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (d->lock < 0)
        rc = fg_fail_errno(err, path, "open", errno);
    else if (flock(d->lock, LOCK_EX | LOCK_NB) != 0)
        rc = errno == EWOULDBLOCK ? fg_fail(err, FG_EBUSY, o->what, path, "lock",
                                            "no other run on this directory", "one")
                                  : fg_fail_errno(err, path, "lock", errno);
    free(path);
    return rc;
}

static bool owned(const struct fg_job_dir_options *o, const char *name)
{
    for (int i = 0; o->owned[i]; i++) {
        if (fnmatch(o->owned[i], name, FNM_PERIOD) == 0) return true;
    }
    return false;
}

// ".NAME.xxxxxxxx", as struct fg_atomic calls its temporary files.
static bool temporary(const struct fg_job_dir_options *o, const char *name)
{
    char inner[256];
    const char *dot = strrchr(name, '.');
    if (name[0] != '.' || !dot || dot == name) return false;
    size_t n = (size_t)(dot - name - 1);
    if (strlen(dot + 1) != 8 || strspn(dot + 1, "0123456789abcdef") != 8 || n >= sizeof inner)
        return false;
    memcpy(inner, name + 1, n);
    inner[n] = '\0';
    return owned(o, inner) || strcmp(inner, "job.json") == 0;
}

static void sweep(const struct fg_job_dir_options *o, const char *dir)
{
    DIR *d = opendir(dir);
    if (!d) return; // whoever needs the directory says why
    for (struct dirent *e; (e = readdir(d));) {
        if (temporary(o, e->d_name) || (o->restart && owned(o, e->d_name)))
            unlinkat(dirfd(d), e->d_name, 0);
    }
    closedir(d);
}

// Anything beside .forge and a state directory, which a run killed at its start leaves.
static int has_content(const char *dir, bool *content, struct fg_error *err)
{
    static const char *const ours[] = {".", "..", ".forge", "state"};
    *content = false;
    DIR *d = opendir(dir);
    if (!d) return fg_fail_errno(err, dir, "read", errno);
    for (struct dirent *e; (e = readdir(d));) {
        bool known = false;
        for (size_t i = 0; i < FG_COUNT(ours); i++)
            known = known || strcmp(e->d_name, ours[i]) == 0;
        *content = *content || !known;
    }
    closedir(d);
    return 0;
}

// The member `key` must be `value`.
static int expect(const struct fg_job_dir_options *o, const struct fg_json *doc, const char *key,
                  const char *value, struct fg_error *err)
{
    const char *s = "";
    char found[64];
    int rc = fg_json_str(doc, doc->root, "", key, "", &s, NULL, err);
    if (rc || strcmp(s, value) == 0) return rc;
    fg_escape(found, sizeof found, s, strlen(s));
    return fg_fail(err, FG_EINPUT, o->what, doc->file, key, value, "%s", found);
}

// A run of the same kind, whose files restart may drop; with its facts, unless it does.
static int compare(const struct fg_job_dir_options *o, const char *path, struct fg_error *err)
{
    struct fg_json doc;
    struct json_object *facts = NULL;
    int rc = fg_json_open(&doc, path, JOB_BYTES_MAX, err);
    if (rc) return rc;
    rc = expect(o, &doc, "schema", SCHEMA, err);
    if (!rc) rc = expect(o, &doc, "job", o->what, err);
    if (!rc) rc = fg_json_obj(&doc, doc.root, "", "facts", &facts, err);
    for (int i = 0; i < o->n && !rc && !o->restart; i++) {
        const char *was = "";
        rc = fg_json_str(&doc, facts, "facts.", o->facts[i].name, "", &was, NULL, err);
        if (rc || strcmp(was, o->facts[i].value) == 0) continue;
        char then[100];
        fg_escape(then, sizeof then, was, strlen(was));
        rc = fg_fail(err, FG_EINTEGRITY, o->what, path, o->facts[i].name,
                     "what the run that this directory holds has", "now %.100s, then %s",
                     o->facts[i].value, then);
        fg_error_hint(err, "give the same, another directory, or --restart to begin again");
    }
    fg_json_close(&doc);
    return rc;
}

static int save(const struct fg_job_dir_options *o, const char *path, struct fg_error *err)
{
    struct fg_jwrite w = {0};
    fg_jwrite_object(&w, NULL);
    fg_jwrite_str(&w, "schema", SCHEMA);
    fg_jwrite_str(&w, "job", o->what);
    fg_jwrite_object(&w, "facts");
    for (int i = 0; i < o->n; i++)
        fg_jwrite_str(&w, o->facts[i].name, o->facts[i].value);
    fg_jwrite_end_object(&w);
    fg_jwrite_end_object(&w);
    fg_buf_char(&w.buf, '\n');
    int rc = w.buf.failed ? fg_fail_memory(err, o->what, w.buf.len)
                          : fg_file_replace(path, w.buf.data, w.buf.len, err);
    fg_jwrite_free(&w);
    return rc;
}

// The facts are written last: killed before, the directory is empty still, or says whose it was.
static int claim(struct fg_job_dir *d, const struct fg_job_dir_options *o, const char *state,
                 const char *job, struct fg_error *err)
{
    char *mark;
    bool content = false;
    int rc = join(&mark, o->dir, ".forge", err);
    if (rc) return rc;
    rc = fg_dir_make(o->dir, err);
    if (!rc) rc = has_content(o->dir, &content, err);
    if (!rc && content && !fg_file_exists(job))
        rc = fg_fail(err, FG_EINPUT, o->what, o->dir, "output",
                     "a new or empty directory, or one of the same job", "other content");
    if (!rc) rc = fg_dir_make(mark, err);
    if (!rc) rc = take_lock(d, o, err);
    if (!rc) rc = fg_dir_make(state, err);
    bool there = !rc && fg_file_exists(job);
    if (there) rc = compare(o, job, err);
    if (!rc) sweep(o, o->dir);
    if (!rc) sweep(o, state);
    if (!rc && (!there || o->restart)) rc = save(o, job, err);
    free(mark);
    return rc;
}

int fg_job_dir_open(struct fg_job_dir **out, const struct fg_job_dir_options *o,
                    struct fg_error *err)
{
    char *state = NULL, *job = NULL;
    struct fg_job_dir *d = malloc(sizeof *d);
    *out = NULL;
    if (!d) return fg_fail_memory(err, o->what, sizeof *d);
    *d = (struct fg_job_dir){.lock = -1};
    int rc = join(&state, o->dir, "state", err);
    if (!rc) rc = join(&job, o->dir, "state/job.json", err);
    if (!rc) rc = claim(d, o, state, job, err);
    free(state);
    free(job);
    if (rc) {
        fg_job_dir_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

void fg_job_dir_close(struct fg_job_dir *d)
{
    if (d && d->lock >= 0) close(d->lock);
    free(d);
}
