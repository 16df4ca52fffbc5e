// quant/plan_impl.h: what plan.c, plan_file.c and plan_builtin.c share.
#ifndef FG_QUANT_PLAN_IMPL_H
#define FG_QUANT_PLAN_IMPL_H
#include "base/json.h"
#include "quant/plan.h"

#define FG_PLAN_WHAT "plan"
#define FG_PLAN_LAYERS_MAX 1024
#define FG_PLAN_OVERRIDES_MAX 32768u

// What an override of a layer is about: a matrix (enum fg_plan_part), or one of these.
enum fg_plan_what {
    FG_WHAT_MLP = FG_PLAN_N_PARTS,
    FG_WHAT_MIXER,
    FG_WHAT_KV,
    FG_WHAT_BASIS,
    FG_WHAT_RANK,
    FG_WHAT_LR_DTYPE,
    FG_N_WHATS
};

struct fg_plan_override {
    int64_t layer; // -1: the head
    int what;
    int64_t value; // enum fg_qformat, enum fg_plan_basis, a rank, or enum fg_lr_dtype
};

// The model that a plan is for; 0 and "": not said.
struct fg_plan_for {
    char architecture[32];
    int64_t layers, hidden, intermediate, vocab;
};

struct fg_plan {
    char *name;
    bool builtin;
    enum fg_qformat mlp, mixer, kv, head;
    enum fg_plan_basis basis;
    enum fg_plan_mix_rot mix_rot;
    int64_t lr_rank;
    bool rank_set; // by fg_plan_set_lr_rank
    unsigned lr_parts;
    enum fg_lr_dtype lr_dtype;
    enum fg_plan_embed embed;
    struct fg_plan_for model;
    struct fg_plan_override *overrides; // sorted by layer, then what; each pair once
    uint64_t n, cap;
    bool has_bytes; // the totals below are part of the plan
    uint64_t weight_bytes, factor_bytes;
    struct fg_plan_notes notes;
};

// A plan with the defaults of the quantizer: MLP v2x64, mixers lut4, k and v int8, head lut4, all
// sites rotated, rank auto, factors on gdn and attn in F16. NULL when out of memory.
struct fg_plan *fg_plan_new(const char *name);
// Appends; fg_plan_sort afterwards. False when out of memory or past the limit.
bool fg_plan_add(struct fg_plan *p, int64_t layer, int what, int64_t value);
// Sorts; of a pair that was added twice the later one stays.
void fg_plan_sort(struct fg_plan *p);
// NULL when there is none.
const struct fg_plan_override *fg_plan_find(const struct fg_plan *p, int64_t layer, int what);
// "gate" ... "head", "mlp", "mixer", "kv", "basis", "lr_rank", "lr_dtype".
const char *fg_plan_what_name(int what);

// Fills *out and returns true when `name` is a built-in plan; *out is NULL when memory is out.
bool fg_plan_make_builtin(struct fg_plan **out, const char *name);

// plan_notes.c: the members "estimate" and "provenance" of a plan's object. Keys that are not known
// are skipped. Errors: FG_EINPUT naming the field.
int fg_plan_read_notes(struct fg_plan_notes *out, const struct fg_json *doc, struct fg_error *err);
void fg_plan_write_notes(const struct fg_plan_notes *notes, struct fg_jwrite *w);

const char *fg_plan_basis_name(enum fg_plan_basis b);
const char *fg_plan_mix_rot_name(enum fg_plan_mix_rot m);
#endif
