// eval/report.h: what every report of an evaluation says of itself: which Forge, which machine,
// which model (specs: cli 14, quantization 7.5).
#ifndef FG_EVAL_REPORT_H
#define FG_EVAL_REPORT_H
#include "base/error.h"
#include "base/hash.h"
#include "base/jwrite.h"
#include "eval/ppl.h"
#include "forge/forge.h"
#include <stdbool.h>
#include <stdint.h>

// What tells one model from another.
struct fg_eval_identity {
    bool declared;           // hex is the weights digest that a manifest declares
    char hex[FG_SHA256_HEX]; // else the SHA-256 of the lines "NAME SHA256\n" of the model's files,
                             // sorted by name: config.json and all .safetensors or .gguf
};
// Reads the files of the model at `path` whole, unless a manifest speaks for them. `stop` (NULL:
// never) is asked between files. Errors: FG_EINPUT (none there, unreadable), FG_ERESOURCE,
// FG_EINTERRUPTED.
int fg_eval_identify(struct fg_eval_identity *id, const char *path, bool (*stop)(void *ctx),
                     void *ctx, struct fg_error *err);

// Members "schema", "kind", "version", "commit", "date" and "machine".
void fg_eval_report_head(struct fg_jwrite *w, const char *kind);
// Members "model", its digest, "family", "isa", "threads".
void fg_eval_report_model(struct fg_jwrite *w, const char *path, const struct fg_eval_identity *id,
                          const struct forge_engine *e);
// Object `key`: numerics, format of keys and values, attention of a side; plain_kv: they are not
// rotated where others of the format are.
void fg_eval_report_side(struct fg_jwrite *w, const char *key, const struct fg_eval_side *side);
// The same for people: "exact numerics, kv8 not rotated, attention stored".
char *fg_eval_side_text(char *out, uint64_t cap, const struct fg_eval_side *side);
const char *fg_eval_attention_name(enum forge_attention a);         // "stored", "seed", "c2t"
const char *fg_eval_numerics_name(const struct fg_eval_side *side); // "exact", "fast"
// Format of its keys and values: what its sessions say, else the engine's.
const char *fg_eval_kv_name(const struct fg_eval_side *side);
#endif
