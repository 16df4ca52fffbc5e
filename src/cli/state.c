// cli/state.c: where Forge keeps what belongs to the user and not to a model.
#include "cli/cli.h"
#include "base/file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_STATE "~/.anemll-forge"

int fg_cli_state_dir(const struct fg_cli *cli, bool make, char **out, struct fg_error *err)
{
    static const char *const variables[] = {"ANEMLL_FORGE_STATE", "FORGE_STATE"};
    const char *dir = NULL, *variable = NULL;
    *out = NULL;
    for (int i = 0; i < 2 && !dir; i++) {
        dir = cli->env(variables[i]);
        variable = variables[i];
    }
    if (dir && !dir[0])
        return fg_fail(err, FG_EINPUT, "environment", NULL, variable, "a directory",
                       "an empty text");
    char *path = fg_path_expand(dir ? dir : DEFAULT_STATE, cli->env("HOME"));
    if (!path) return fg_fail_memory(err, "state directory", sizeof DEFAULT_STATE);
    if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
        // Parents that are missing belong to nobody else: the usual mode will do for them.
        char *slash = strrchr(path, '/');
        int rc = 0;
        if (errno == ENOENT && slash && slash > path) {
            *slash = '\0';
            rc = fg_dir_make(path, err);
            *slash = '/';
        }
        if (rc == 0 && mkdir(path, 0700) != 0 && errno != EEXIST)
            rc = fg_fail_errno(err, path, "make", errno);
        if (rc) {
            free(path);
            return rc;
        }
    }
    *out = path;
    return 0;
}
