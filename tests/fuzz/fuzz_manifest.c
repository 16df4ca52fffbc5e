// Fuzz target: manifest.json. What parses keeps all rules, and is the same after being written and
// read again.
#include "base/error.h"
#include "format/manifest.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[128];

static void remove_all(void)
{
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "%s/forge-fuzz-%d.json",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (int)getpid());
    atexit(remove_all);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fg_manifest m, again;
    struct fg_error err = {0};
    int rc = fg_manifest_parse(&m, (const char *)data, n, "fuzz", &err);
    if (rc) {
        if (err.code != rc || !err.field[0] || m.arena.head) abort();
        return 0;
    }
    if (fg_manifest_check(&m, "fuzz", NULL)) abort();
    if (fg_manifest_write(&m, path, NULL) || fg_manifest_open(&again, path, NULL)) abort();
    if (strcmp(m.release_name, again.release_name) != 0 || m.n_chunks != again.n_chunks ||
        m.model.rope_theta != again.model.rope_theta || m.kv.def != again.kv.def ||
        memcmp(m.ctxs, again.ctxs, sizeof m.ctxs) != 0 || again.n_ignored) {
        abort();
    }
    fg_manifest_close(&m);
    fg_manifest_close(&again);
    return 0;
}
