// base/file.h: read-only maps with bounds-checked access, whole-file reads, atomic replacement.
#ifndef FG_BASE_FILE_H
#define FG_BASE_FILE_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct fg_buf;

// A file mapped read-only (MAP_PRIVATE). The path is copied. A zero-length file maps to data NULL,
// bytes 0.
struct fg_map {
    const uint8_t *data;
    uint64_t bytes;
    char *path;
};

// Errors: FG_EINPUT (missing, a directory, no permission), FG_ERESOURCE. On failure *map is zeroed.
int fg_map_open(struct fg_map *map, const char *path, struct fg_error *err);
void fg_map_close(struct fg_map *map); // zeroed maps are fine

// True when [at, at + n) lies inside the file.
bool fg_map_holds(const struct fg_map *map, uint64_t at, uint64_t n);
// Little-endian reads at byte `at`. FG_EINPUT naming the file and the offset when outside.
int fg_map_le32(const struct fg_map *map, uint64_t at, uint32_t *out, struct fg_error *err);
int fg_map_le64(const struct fg_map *map, uint64_t at, uint64_t *out, struct fg_error *err);
// Asks the kernel to read the range ahead of use; a hint that may do nothing.
void fg_map_prefetch(const struct fg_map *map, uint64_t at, uint64_t n);
// Tells the kernel that [data, data + n) of some map is not needed soon: whole pages leave this
// process and come back from the file when read again. For maps of files alone: other memory would
// lose its content. A hint that may do nothing.
void fg_map_release(const void *data, uint64_t n);

// Reads the whole file (path "-": stdin) into *out, replacing its content. Files past max_bytes:
// FG_EINPUT. Works for pipes. On failure *out is empty.
int fg_file_read(struct fg_buf *out, const char *path, uint64_t max_bytes, struct fg_error *err);
// The same for files that lie in a directory with others: no stdin, and what is not a regular file
// is FG_EINPUT, as a FIFO there would block for ever.
int fg_file_load(struct fg_buf *out, const char *path, uint64_t max_bytes, struct fg_error *err);

// True when a regular file, a directory exists at path.
bool fg_file_exists(const char *path);
bool fg_dir_exists(const char *path);
// True when the name is taken by anything, a link that leads nowhere included: opening it then
// tells what is wrong, where "no such file" would mislead.
bool fg_path_taken(const char *path);

// mkdir -p with mode 0777 & ~umask. FG_EINPUT, FG_ERESOURCE or FG_EFAILED.
int fg_dir_make(const char *path, struct fg_error *err);

// "dir/name" as a malloc'd string; NULL when out of memory.
char *fg_path_join(const char *dir, const char *name);
// A malloc'd copy with a leading "~" or "~user" replaced by the home directory ($HOME if home is
// not NULL, else the user database). NULL when out of memory; an unknown user leaves the text as it
// is.
char *fg_path_expand(const char *path, const char *home);

// A file that replaces `path` only when it is whole: written to a temporary file in the same
// directory, then fsync, rename, fsync of the directory. The mode of a file that is replaced is
// kept; a symbolic link is replaced, not followed. Abort removes the temporary; after kill -9 it
// stays behind as ".NAME.xxxxxxxx".
struct fg_atomic {
    int fd;
    char *path;
    char *temp;
    uint64_t bytes; // written so far
};
// FG_EINPUT when path is a directory or a special file, or can't be created.
int fg_atomic_open(struct fg_atomic *f, const char *path, struct fg_error *err);
int fg_atomic_write(struct fg_atomic *f, const void *data, uint64_t n, struct fg_error *err);
// Writes over bytes [at, at + n) of what has been written: a header that is known last.
int fg_atomic_write_at(struct fg_atomic *f, uint64_t at, const void *data, uint64_t n,
                       struct fg_error *err);
// Closes. On failure the old file is untouched, except when only the sync of the directory failed:
// then the new file is in place, but a power failure may undo it.
int fg_atomic_commit(struct fg_atomic *f, struct fg_error *err);
void fg_atomic_abort(struct fg_atomic *f); // after commit, or zeroed: nothing happens

// Whole content in one call.
int fg_file_replace(const char *path, const void *data, uint64_t n, struct fg_error *err);
#endif
