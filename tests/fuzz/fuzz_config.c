// fuzz_config: any text as a config.json: parsed, or refused with a file name in the error; sizes
// of what was accepted must be computable.
#include "base/json.h"
#include "model/config.h"
#include "model/rope.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_json doc;
    struct fg_error err = {0};
    if (fg_json_parse(&doc, (const char *)data, size, "config.json", &err)) return 0;
    struct fg_arena arena;
    struct fg_config c;
    fg_arena_init(&arena, 64u << 20);
    int rc = fg_config_parse(&c, &doc, &arena, &err);
    if (rc == FG_EINPUT && !err.file[0]) abort();
    if (rc == 0) {
        if (c.n_linear + c.n_full != c.n_layers || c.n_heads % c.n_kv_heads != 0) abort();
        if (fg_config_parameters(&c) == 0 || fg_config_kv_bytes_per_position(&c) % 4 != 0) abort();
        float *table = malloc((size_t)c.rot * 2 * sizeof *table);
        if (table && c.rot <= 4096) fg_rope_table(&c, 1000, 1, table, table + c.rot / 2);
        free(table);
    }
    fg_arena_free(&arena);
    fg_json_close(&doc);
    return 0;
}
