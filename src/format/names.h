// format/names.h: a sorted list of names, for lookup and for finding duplicates. Binary search and
// not a hash table: names come from files, and nothing chosen in a file can make it slow.
#ifndef FG_FORMAT_NAMES_H
#define FG_FORMAT_NAMES_H
#include <stdint.h>

#define FG_NAME_NONE UINT64_MAX

struct fg_name {
    const char *name; // a C string of the caller's
    uint64_t at;      // the caller's index
};

// Sorts n names by byte value. Returns a name that occurs twice, or NULL.
const char *fg_names_sort(struct fg_name *names, uint64_t n);
// `at` of the name in a sorted list, FG_NAME_NONE when absent.
uint64_t fg_names_find(const struct fg_name *names, uint64_t n, const char *name);
#endif
