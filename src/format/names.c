#include "format/names.h"
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_name *)a)->name, ((const struct fg_name *)b)->name);
}

const char *fg_names_sort(struct fg_name *names, uint64_t n)
{
    if (n < 2) return NULL;
    qsort(names, n, sizeof *names, by_name);
    for (uint64_t i = 1; i < n; i++) {
        if (strcmp(names[i - 1].name, names[i].name) == 0) return names[i].name;
    }
    return NULL;
}

uint64_t fg_names_find(const struct fg_name *names, uint64_t n, const char *name)
{
    struct fg_name key = {.name = name};
    if (n == 0) return FG_NAME_NONE;
    const struct fg_name *hit = bsearch(&key, names, n, sizeof *names, by_name);
    return hit ? hit->at : FG_NAME_NONE;
}
