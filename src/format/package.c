// Opening a package: container (st_file.h), metadata, forge.matrices, the arrays of each matrix,
// the set of tensors (package_set.c), values; in that order, so that nothing is used before it is
// known to be sound.
#include "format/package.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/size.h"
#include "format/json_scan.h"
#include "format/names.h"
#include "format/package_impl.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT FG_PACKAGE_WHAT
#define FIELD_BYTES FG_PACKAGE_FIELD_BYTES
#define EXTENT_MAX INT32_MAX // of rows and columns
#define MATRICES_MAX 16384   // 1024 layers have fewer

struct fg_package {
    struct fg_arena arena;
    struct fg_st_file *file;
    struct fg_package_info info;
    struct fg_package_dims dims;
    struct fg_qset set;
    struct fg_qset_mat *mats;
    uint64_t *order; // place in forge.matrices of each matrix of the set
};

struct loader {
    struct fg_package *p;
    struct fg_qset_mat *mats; // as forge.matrices has them
    struct fg_name *names;    // of those, sorted
    uint64_t n, cap;
    struct fg_buf text;
    struct fg_error *err;
};

static const char *path_of(const struct loader *l)
{
    return fg_st_file_path(l->p->file);
}

// ---- metadata

static int fail_key(const struct loader *l, const char *key, const char *expected,
                    const char *found)
{
    return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), key, expected, found ? "\"%s\"" : "%s",
                   found ? found : "none");
}

static int read_digest(const struct loader *l, const char *key, const char **out)
{
    *out = fg_st_file_metadata(l->p->file, key);
    if (*out && fg_package_is_digest(*out)) return 0;
    return fail_key(l, key, "64 lower-case hexadecimal digits", *out);
}

// "a-b" in decimals as printf writes them.
static bool parse_layers(const char *text, int64_t *first, int64_t *last)
{
    char again[64];
    const char *s = text;
    int64_t n[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        while (*s >= '0' && *s <= '9' && n[i] < FG_PACKAGE_LAYERS_MAX) {
            n[i] = n[i] * 10 + (*s++ - '0');
        }
        if (i == 0 && *s++ != '-') return false;
    }
    *first = n[0];
    *last = n[1];
    snprintf(again, sizeof again, "%" PRId64 "-%" PRId64, n[0], n[1]);
    return strcmp(text, again) == 0 && n[0] <= n[1] && n[1] < FG_PACKAGE_LAYERS_MAX;
}

static int read_metadata(const struct loader *l)
{
    const struct fg_st_file *f = l->p->file;
    struct fg_package_info *info = &l->p->info;
    const char *format = fg_st_file_metadata(f, "forge.format");
    const char *version = fg_st_file_metadata(f, "forge.version");
    const char *kind = fg_st_file_metadata(f, "forge.kind");
    const char *layers = fg_st_file_metadata(f, "forge.layers");
    if (!format || strcmp(format, "package") != 0) {
        return fail_key(l, "forge.format", "\"package\"", format);
    }
    if (!version || strcmp(version, "1") != 0) {
        return fail_key(l, "forge.version", "\"1\"", version);
    }
    int k = 0;
    while (kind && k < FG_PACKAGE_N_KINDS &&
           strcmp(kind, fg_package_kind_name((enum fg_package_kind)k)) != 0) {
        k++;
    }
    if (!kind || k == FG_PACKAGE_N_KINDS) {
        return fail_key(l, "forge.kind", "chunk, head or drafter", kind);
    }
    info->kind = (enum fg_package_kind)k;
    info->layer_first = info->layer_last = -1;
    if (info->kind == FG_PACKAGE_HEAD) {
        if (layers) return fail_key(l, "forge.layers", "none in a head", layers);
    } else if (!layers || !parse_layers(layers, &info->layer_first, &info->layer_last)) {
        return fail_key(l, "forge.layers", "\"FIRST-LAST\", below 1024", layers);
    }
    int rc = read_digest(l, "forge.weights_digest", &info->weights_digest);
    if (!rc) rc = read_digest(l, "forge.export", &info->export_digest);
    info->id = fg_st_file_metadata(f, "forge.id");
    if (!rc && info->id) rc = read_digest(l, "forge.id", &info->id);
    if (rc) return rc;
    info->layout = fg_st_file_metadata(f, "forge.layout");
    if (!info->layout) return fail_key(l, "forge.layout", "\"canonical\"", NULL);
    if (strcmp(info->layout, "canonical") != 0) {
        fail_key(l, "forge.layout", "\"canonical\"", info->layout);
        fg_error_hint(l->err, "convert the export again: forge convert");
        if (l->err) l->err->code = FG_EUNSUPPORTED;
        return FG_EUNSUPPORTED;
    }
    info->path = path_of(l);
    info->bytes = fg_st_file_bytes(f);
    return 0;
}

// ---- forge.matrices

// "forge.matrices[i]" or "forge.matrices[i].KEY" for the matrix that is being read, l->n.
static const char *matrix_field(const struct loader *l, const char *key, char out[FIELD_BYTES])
{
    snprintf(out, FIELD_BYTES, "forge.matrices[%" PRIu64 "]%s%s", l->n, key[0] ? "." : "", key);
    return out;
}

// Puts the key in place of the scanner's byte offset.
static int relabel(const struct loader *l, int rc, const char *key)
{
    char field[FIELD_BYTES];
    if (rc != FG_EINPUT || !l->err || strncmp(l->err->field, "JSON byte", 9) != 0) return rc;
    matrix_field(l, key, field);
    fg_escape(l->err->field, sizeof l->err->field, field, strlen(field));
    return rc;
}

static int fail_matrix(const struct loader *l, const char *key, const char *expected,
                       const char *found)
{
    char field[FIELD_BYTES];
    return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), matrix_field(l, key, field), expected, "%s",
                   found);
}

static int read_extent(const struct loader *l, struct fg_scan *s, const char *key, uint64_t min,
                       uint64_t max, int64_t *out)
{
    char field[FIELD_BYTES];
    uint64_t v;
    int rc = fg_scan_u64(s, &v, l->err);
    if (rc) return relabel(l, rc, key);
    if (v < min || v > max) {
        return fg_fail_range(l->err, WHAT, path_of(l), matrix_field(l, key, field), (int64_t)min,
                             (int64_t)max, v > INT64_MAX ? INT64_MAX : (int64_t)v);
    }
    *out = (int64_t)v;
    return 0;
}

static const char *known_site(const char *name)
{
    static const char *const sites[] = {"mlp_in", "mlp_mid", "mix_in", "mix_out"};
    for (size_t i = 0; i < FG_COUNT(sites); i++) {
        if (strcmp(sites[i], name) == 0) return sites[i];
    }
    return NULL;
}

// null, or {"site":"mlp_in","block":1024}.
static int read_basis(struct loader *l, struct fg_scan *s, struct fg_qmat *m)
{
    static const char expected[] = "null or an object of site and block";
    unsigned seen = 0;
    bool first = true, more;
    if (fg_scan_peek(s) == 'n') return relabel(l, fg_scan_skip(s, l->err), "basis");
    int rc = fg_scan_char(s, '{', l->err);
    if (rc) return relabel(l, rc, "basis");
    while ((rc = fg_scan_next(s, '}', &first, &more, l->err)) == 0 && more) {
        if ((rc = fg_scan_key(s, &l->text, l->err))) return relabel(l, rc, "basis");
        unsigned key = strcmp(l->text.data, "site") == 0    ? 1
                       : strcmp(l->text.data, "block") == 0 ? 2
                                                            : 0;
        if (!key || (seen & key)) return fail_matrix(l, "basis", expected, l->text.data);
        seen |= key;
        if (key == 2) {
            rc = read_extent(l, s, "basis.block", 8, 1024, &m->block);
            if (rc) return rc;
            continue;
        }
        if ((rc = fg_scan_string(s, &l->text, l->err))) return relabel(l, rc, "basis.site");
        m->site = known_site(l->text.data);
        if (!m->site) {
            return fail_matrix(l, "basis.site", "mlp_in, mlp_mid, mix_in or mix_out", l->text.data);
        }
    }
    if (rc) return relabel(l, rc, "basis");
    return seen == 3 ? 0 : fail_matrix(l, "basis", expected, "one of them");
}

static int read_member(struct loader *l, struct fg_scan *s, int key, struct fg_qset_mat *mat)
{
    struct fg_qmat *m = &mat->m;
    int rc;
    switch (key) {
    case 0:
        if ((rc = fg_scan_string(s, &l->text, l->err))) return relabel(l, rc, "name");
        if (l->text.len < 1 || l->text.len > FG_ST_FILE_NAME_MAX) {
            return fail_matrix(l, "name", "1 to 256 bytes", "another length");
        }
        mat->name = fg_arena_strdup(&l->p->arena, l->text.data, l->text.len);
        return mat->name ? 0 : fg_fail_memory(l->err, WHAT, l->text.len);
    case 1:
        if ((rc = fg_scan_string(s, &l->text, l->err))) return relabel(l, rc, "format");
        if (!fg_qformat_of_name(l->text.data, &m->format) ||
            strcmp(fg_qformat_name(m->format), l->text.data) != 0) {
            return fail_matrix(l, "format", "v2x16, v2x64, lut4, lut6, int8, bf16, f16 or f32",
                               l->text.data);
        }
        return 0;
    case 2: return read_extent(l, s, "rows", 1, EXTENT_MAX, &m->rows);
    case 3: return read_extent(l, s, "cols", 1, EXTENT_MAX, &m->cols);
    case 4: return read_basis(l, s, m);
    case 5: return read_extent(l, s, "rank", 0, FG_PACKAGE_RANK_MAX, &m->rank);
    default:
        if ((rc = fg_scan_string(s, &l->text, l->err))) return relabel(l, rc, "lr_dtype");
        if (!fg_lr_dtype_of_name(l->text.data, &m->lr_dtype))
            return fail_matrix(l, "lr_dtype", "f16 or i8", l->text.data);
        return 0;
    }
}

static int read_matrix(struct loader *l, struct fg_scan *s, struct fg_qset_mat *mat)
{
    // The last is optional: F16, as packages before it have.
    static const char *const keys[] = {"name",  "format", "rows",    "cols",
                                       "basis", "rank",   "lr_dtype"};
    unsigned seen = 0;
    bool first = true, more;
    int rc = fg_scan_char(s, '{', l->err);
    if (rc) return relabel(l, rc, "");
    while ((rc = fg_scan_next(s, '}', &first, &more, l->err)) == 0 && more) {
        if ((rc = fg_scan_key(s, &l->text, l->err))) return relabel(l, rc, "");
        unsigned k = 0;
        while (k < FG_COUNT(keys) && strcmp(keys[k], l->text.data) != 0) {
            k++;
        }
        if (k == FG_COUNT(keys) || (seen & 1u << k)) {
            return fail_matrix(l, "", "name, format, rows, cols, basis, rank, lr_dtype, once each",
                               l->text.data);
        }
        seen |= 1u << k;
        if ((rc = read_member(l, s, (int)k, mat))) return rc;
    }
    if (rc) return relabel(l, rc, "");
    for (unsigned k = 0; k + 1 < FG_COUNT(keys); k++) {
        if (!(seen & 1u << k)) return fail_matrix(l, keys[k], "the key", "none");
    }
    if (mat->m.rows % fg_qformat_rows_per_index(mat->m.format) != 0) {
        return fail_matrix(l, "rows", "an even number", "an odd one");
    }
    return 0;
}

static int read_matrices(struct loader *l)
{
    const char *json = fg_st_file_metadata(l->p->file, "forge.matrices");
    struct fg_scan s;
    bool first = true, more;
    if (!json) return fail_key(l, "forge.matrices", "a JSON array", NULL);
    int rc = fg_scan_begin(&s, json, strlen(json), WHAT, path_of(l), l->err);
    if (!rc) rc = fg_scan_char(&s, '[', l->err);
    if (rc) return relabel(l, rc, "");
    while ((rc = fg_scan_next(&s, ']', &first, &more, l->err)) == 0 && more) {
        if (l->n == MATRICES_MAX) {
            return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), "forge.matrices",
                           "at most 16384 objects", "more");
        }
        if (l->n == l->cap) {
            uint64_t cap = l->cap ? l->cap * 2 : 64;
            struct fg_qset_mat *mats = realloc(l->mats, cap * sizeof *mats);
            if (!mats) return fg_fail_memory(l->err, WHAT, cap * sizeof *mats);
            l->mats = mats;
            l->cap = cap;
        }
        struct fg_qset_mat mat = {.file = path_of(l)};
        if ((rc = read_matrix(l, &s, &mat))) return rc;
        l->mats[l->n++] = mat;
    }
    if (!rc) rc = fg_scan_end(&s, l->err);
    if (rc) return relabel(l, rc, "");
    l->names = malloc((l->n ? l->n : 1) * sizeof *l->names);
    if (!l->names) return fg_fail_memory(l->err, WHAT, l->n * sizeof *l->names);
    for (uint64_t i = 0; i < l->n; i++) {
        l->names[i] = (struct fg_name){l->mats[i].name, i};
    }
    if (!fg_names_sort(l->names, l->n)) return 0;
    uint64_t at = 1; // the later of the first two that are equal
    while (strcmp(l->names[at - 1].name, l->names[at].name) != 0) {
        at++;
    }
    uint64_t a = l->names[at - 1].at, b = l->names[at].at;
    l->n = a > b ? a : b;
    return fail_matrix(l, "name", "each matrix once", l->names[at].name);
}

// ---- from tensors to a set

// Array of a matrix by the end of its name: *part and the length of the matrix's name.
static bool split_name(const char *name, enum fg_package_part *part, size_t *stem)
{
    size_t len = strlen(name);
    for (int i = 0; i < FG_PACKAGE_N_PARTS; i++) {
        const char *suffix = fg_package_suffix((enum fg_package_part)i);
        size_t n = strlen(suffix);
        if (len <= n || strcmp(name + len - n, suffix) != 0) continue;
        *part = (enum fg_package_part)i;
        *stem = len - n;
        return true;
    }
    return false;
}

enum role { PAD, PART, ROT, SMALL };

static int fail_tensor(const struct loader *l, const char *name, const char *expected,
                       const char *found)
{
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "tensor %s", name);
    return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), field, expected, "%s", found);
}

static int fail_dtype(const struct loader *l, const struct fg_st_tensor *t, const char *expected)
{
    char field[FIELD_BYTES];
    snprintf(field, sizeof field, "dtype of %s", t->name);
    return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), field, expected, "%s",
                   fg_st_dtype_name(t->dtype));
}

// What a tensor is, by its name and the matrices that are declared.
static int role_of(struct loader *l, const struct fg_st_tensor *t, enum role *role)
{
    enum fg_package_part part = FG_PART_WEIGHT;
    size_t stem;
    int64_t layer;
    const char *rest;
    if (strncmp(t->name, FG_ST_PAD, strlen(FG_ST_PAD)) == 0) {
        *role = PAD;
        return t->dtype == FG_ST_U8 ? 0 : fail_dtype(l, t, "U8");
    }
    if (fg_package_layer_of(t->name, &layer, &rest) && strncmp(rest, "rot.", strlen("rot.")) == 0) {
        *role = ROT;
        return t->dtype == FG_ST_U8 ? 0 : fail_dtype(l, t, "U8");
    }
    *role = SMALL;
    if (!split_name(t->name, &part, &stem)) return 0;
    char name[FG_ST_FILE_NAME_MAX + 1];
    memcpy(name, t->name, stem);
    name[stem] = '\0';
    uint64_t at = fg_names_find(l->names, l->n, name);
    if (at >= l->n) { // FG_NAME_NONE
        if (part == FG_PART_WEIGHT) return 0;
        return fail_tensor(l, t->name, "a matrix of that name in forge.matrices", "none");
    }
    struct fg_package_array array;
    *role = PART;
    if (fg_package_array(&l->mats[at].m, part, &array)) return 0;
    char field[FIELD_BYTES], expected[FIELD_BYTES];
    const char *key = fg_package_part_key(part);
    if (part == FG_PART_LR_SCALE && l->mats[at].m.rank == 0) key = "rank";
    snprintf(field, sizeof field, "forge.matrices[%" PRIu64 "].%s", at, key);
    snprintf(expected, sizeof expected, "one that has the tensor %s", t->name);
    return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), field, expected, "%s",
                   strcmp(key, "format") == 0     ? fg_qformat_name(l->mats[at].m.format)
                   : strcmp(key, "lr_dtype") == 0 ? fg_lr_dtype_name(l->mats[at].m.lr_dtype)
                                                  : "0");
}

// Finds one array of matrix `at` and checks it against the declaration. *data NULL: the matrix has
// no such array.
static int take(const struct loader *l, uint64_t at, enum fg_package_part part, const void **data)
{
    const struct fg_qset_mat *mat = &l->mats[at];
    struct fg_package_array a;
    char name[FG_ST_FILE_NAME_MAX + 16], field[FIELD_BYTES], expected[FIELD_BYTES];
    *data = NULL;
    if (!fg_package_array(&mat->m, part, &a)) return 0;
    snprintf(name, sizeof name, "%s%s", mat->name, a.suffix);
    const struct fg_st_tensor *t = fg_st_file_find(l->p->file, name);
    if (!t) {
        snprintf(expected, sizeof expected, "to be there, as forge.matrices[%" PRIu64 "].%s says",
                 at, fg_package_part_key(part));
        return fail_tensor(l, name, expected, "none");
    }
    if (t->dtype != a.dtype) return fail_dtype(l, t, fg_st_dtype_name(a.dtype));
    snprintf(field, sizeof field, "shape of %s", name);
    if (t->rank != a.rank) {
        snprintf(expected, sizeof expected, "%d dimensions", a.rank);
        return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), field, expected, "%d", t->rank);
    }
    for (int k = 0; k < a.rank; k++) {
        if (t->shape[k] == a.shape[k]) continue;
        snprintf(expected, sizeof expected,
                 "extent %d to be %" PRIu64 ", as forge.matrices[%" PRIu64 "].%s says", k,
                 a.shape[k], at, a.why[k]);
        return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), field, expected, "%" PRIu64,
                       t->shape[k]);
    }
    *data = t->data;
    return 0;
}

static int take_arrays(const struct loader *l, uint64_t at)
{
    struct fg_qmat *m = &l->mats[at].m;
    const void *data[FG_PACKAGE_N_PARTS];
    for (int i = 0; i < FG_PACKAGE_N_PARTS; i++) {
        int rc = take(l, at, (enum fg_package_part)i, &data[i]);
        if (rc) return rc;
    }
    m->codes = data[FG_PART_INT8];
    m->lr_a = data[FG_PART_LR_A];
    m->lr_b = data[FG_PART_LR_B];
    m->lr_scale = data[FG_PART_LR_SCALE];
    m->lut = data[FG_PART_LUT];
    m->pidx = data[FG_PART_PIDX];
    m->scale = data[FG_PART_SCALE];
    m->weight = data[FG_PART_WEIGHT];
    return 0;
}

static int by_small_name(const void *a, const void *b)
{
    return strcmp(((const struct fg_qset_small *)a)->name, ((const struct fg_qset_small *)b)->name);
}

static int by_rot(const void *a, const void *b)
{
    const struct fg_qset_rot *x = a, *y = b;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return strcmp(x->site, y->site);
}

// The set needs its matrices already: they tell width and block.
static int make_rot(const struct loader *l, const struct fg_st_tensor *t, struct fg_qset_rot *out)
{
    const char *rest, *site = NULL;
    int64_t layer = -1;
    char field[FIELD_BYTES], expected[FIELD_BYTES];
    if (fg_package_layer_of(t->name, &layer, &rest)) site = known_site(rest + strlen("rot."));
    const struct fg_qset_mat *mat = site ? fg_package_mat_at_site(&l->p->set, layer, site) : NULL;
    if (!mat) {
        return fail_tensor(l, t->name, "signs of a matrix's basis", "signs that no matrix uses");
    }
    uint64_t bytes = ((uint64_t)mat->m.cols + 7) / 8;
    if (t->rank != 1 || t->shape[0] != bytes) {
        snprintf(field, sizeof field, "shape of %s", t->name);
        snprintf(expected, sizeof expected, "[%" PRIu64 "], a bit per column of %s", bytes,
                 mat->name);
        return fg_fail(l->err, FG_EINPUT, WHAT, path_of(l), field, expected,
                       "%d dimensions, %" PRIu64, t->rank, t->shape[0]);
    }
    *out = (struct fg_qset_rot){
        .layer = layer, .site = site, .n = mat->m.cols, .block = mat->m.block, .bits = t->data};
    return 0;
}

static int make_set(struct loader *l)
{
    struct fg_package *p = l->p;
    uint64_t n = fg_st_file_count(p->file), n_small = 0, n_rots = 0;
    enum role *roles = fg_arena_alloc(&p->arena, n, sizeof *roles);
    p->mats = fg_arena_alloc(&p->arena, l->n, sizeof *p->mats);
    p->order = fg_arena_alloc(&p->arena, l->n, sizeof *p->order);
    if (!roles || !p->mats || !p->order) return fg_fail_memory(l->err, WHAT, n);
    for (uint64_t i = 0; i < n; i++) {
        int rc = role_of(l, fg_st_file_at(p->file, i), &roles[i]);
        if (rc) return rc;
        n_small += roles[i] == SMALL;
        n_rots += roles[i] == ROT;
    }
    for (uint64_t i = 0; i < l->n; i++) {
        int rc = take_arrays(l, i);
        if (rc) return rc;
    }
    for (uint64_t i = 0; i < l->n; i++) {
        p->order[i] = l->names[i].at;
        p->mats[i] = l->mats[l->names[i].at];
    }
    p->set.mats = p->mats;
    p->set.n_mats = l->n;

    struct fg_qset_small *small = fg_arena_alloc(&p->arena, n_small, sizeof *small);
    struct fg_qset_rot *rots = fg_arena_alloc(&p->arena, n_rots, sizeof *rots);
    if (!small || !rots) return fg_fail_memory(l->err, WHAT, n);
    p->set.small = small;
    p->set.rots = rots;
    for (uint64_t i = 0; i < n; i++) {
        const struct fg_st_tensor *t = fg_st_file_at(p->file, i);
        if (roles[i] == SMALL) {
            struct fg_qset_small *s = &small[p->set.n_small++];
            *s = (struct fg_qset_small){.name = t->name,
                                        .dtype = t->dtype,
                                        .rank = t->rank,
                                        .data = t->data,
                                        .bytes = t->bytes,
                                        .file = t->file};
            memcpy(s->shape, t->shape, sizeof s->shape);
        } else if (roles[i] == ROT) {
            int rc = make_rot(l, t, &rots[p->set.n_rots++]);
            if (rc) return rc;
        }
    }
    if (n_small > 1) qsort(small, n_small, sizeof *small, by_small_name);
    if (n_rots > 1) qsort(rots, n_rots, sizeof *rots, by_rot);
    return 0;
}

// ---- open

static int load(struct loader *l, const char *path, const struct fg_package_expect *expect)
{
    struct fg_package *p = l->p;
    int rc = fg_st_file_open(&p->file, WHAT, path, l->err);
    if (!rc) rc = read_metadata(l);
    if (!rc) rc = read_matrices(l);
    if (!rc) rc = make_set(l);
    if (rc) return rc;
    struct fg_package_range range = {
        .kind = p->info.kind, .first = p->info.layer_first, .last = p->info.layer_last};
    if (expect) {
        p->dims = expect->dims;
        range.is_linear = expect->is_linear;
        range.n_layers = expect->n_layers;
    }
    rc = fg_package_check_set(&p->set, &range, p->order, &p->dims, p->info.path, l->err);
    return rc ? rc : fg_package_check_values(&p->set, p->info.path, l->err);
}

int fg_package_open_expecting(struct fg_package **out, const char *path,
                              const struct fg_package_expect *expect, struct fg_error *err)
{
    *out = NULL;
    struct fg_package *p = calloc(1, sizeof *p);
    if (!p) return fg_fail_memory(err, WHAT, sizeof *p);
    fg_arena_init(&p->arena, 0);
    struct loader l = {.p = p, .err = err};
    int rc = load(&l, path, expect);
    fg_buf_free(&l.text);
    free(l.mats);
    free(l.names);
    if (rc) {
        fg_package_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

int fg_package_open(struct fg_package **out, const char *path, struct fg_error *err)
{
    return fg_package_open_expecting(out, path, NULL, err);
}

void fg_package_close(struct fg_package *p)
{
    if (!p) return;
    fg_st_file_close(p->file);
    fg_arena_free(&p->arena);
    free(p);
}

const struct fg_package_info *fg_package_info(const struct fg_package *p)
{
    return &p->info;
}

const struct fg_package_dims *fg_package_dims(const struct fg_package *p)
{
    return &p->dims;
}

const struct fg_qset *fg_package_set(const struct fg_package *p)
{
    return &p->set;
}

const struct fg_st_file *fg_package_file(const struct fg_package *p)
{
    return p->file;
}

int fg_package_verify(const struct fg_package *p, struct fg_error *err)
{
    return fg_package_check_slow(&p->set, p->order, p->info.path, err);
}
