#include "base/kv_format.h"
#include <string.h>

static const char *const names[FG_KV_N_ALL] = {"fp16", "v8", "kv8", "f32"};

const char *fg_kv_format_name(enum fg_kv_format f)
{
    return names[f];
}

bool fg_kv_format_of_name(const char *name, enum fg_kv_format *out)
{
    for (int i = 0; i < FG_KV_N_ALL; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (enum fg_kv_format)i;
        return true;
    }
    return false;
}
