// Packages that are damaged: every row of the table of specs/runtime.md 1.4, for chunks, heads and
// drafters.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/buf.h"
#include "base/size.h"
#include "support/package_samples.h"
#include <inttypes.h>

// Opening (and, where that works, verifying) fails with `code` and one line that names the file and
// has `part` in it.
static void refused(const char *file, int code, const char *part)
{
    struct fg_package *p;
    struct fg_error err = {0};
    char line[1024];
    int rc = fg_package_open(&p, file, &err);
    if (!rc) {
        rc = fg_package_verify(p, &err);
        fg_package_close(p);
    } else {
        assert_null(p);
    }
    fg_error_line(&err, line, sizeof line);
    if (rc != code || !strstr(line, part) || !strstr(line, file)) {
        fail_msg("rc %d, \"%s\", wanted %d and \"%s\"", rc, line, code, part);
    }
}

// ---- damage to the text of the header and to bytes

struct image {
    struct fg_buf header; // JSON without the padding
    struct fg_buf data;
};

static void image_free(struct image *im)
{
    fg_buf_free(&im->header);
    fg_buf_free(&im->data);
}

static void image_read(struct image *im, int sample)
{
    struct fg_buf all = {0};
    struct fg_error err = {0};
    write_sample(sample);
    assert_int_equal(fg_file_read(&all, path, 1 << 24, &err), 0);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) {
        n = n << 8 | (uint8_t)all.data[i];
    }
    *im = (struct image){0};
    fg_buf_add(&im->data, all.data + 8 + n, all.len - 8 - n);
    while (all.data[8 + n - 1] == ' ') {
        n--;
    }
    fg_buf_add(&im->header, all.data + 8, n);
    fg_buf_free(&all);
}

static void write_raw(uint64_t header_bytes, const char *header, uint64_t n, const char *data,
                      uint64_t data_n)
{
    FILE *f = fopen(bad_path, "wb");
    uint8_t le[8];
    for (int i = 0; i < 8; i++) {
        le[i] = (uint8_t)(header_bytes >> (8 * i));
    }
    assert_non_null(f);
    assert_int_equal(fwrite(le, 1, 8, f), 8);
    if (n) assert_int_equal(fwrite(header, 1, n, f), n);
    if (data_n) assert_int_equal(fwrite(data, 1, data_n, f), data_n);
    assert_int_equal(fclose(f), 0);
}

static void image_refused(const struct image *im, const char *part)
{
    write_raw(im->header.len, im->header.data, im->header.len, im->data.data, im->data.len);
    refused(bad_path, FG_EINPUT, part);
}

// Replaces the first `old` at or behind the first `after` in the header.
static void replace(struct image *im, const char *after, const char *old, const char *by)
{
    char *from = strstr(im->header.data, after);
    char *at = from ? strstr(from, old) : NULL;
    if (!at) fail_msg("no \"%s\" behind \"%s\"", old, after);
    struct fg_buf b = {0};
    fg_buf_add(&b, im->header.data, (size_t)(at - im->header.data));
    fg_buf_str(&b, by);
    fg_buf_str(&b, at + strlen(old));
    fg_buf_free(&im->header);
    im->header = b;
}

static void replaced(int sample, const char *after, const char *old, const char *by,
                     const char *part)
{
    struct image im;
    image_read(&im, sample);
    replace(&im, after, old, by);
    image_refused(&im, part);
    image_free(&im);
}

struct entry {
    char key[160]; // "NAME":
    char dtype[16], shape[96];
    uint64_t begin, end;
    char text[400]; // all of it
};

static struct entry find_entry(const struct image *im, const char *name)
{
    struct entry e;
    snprintf(e.key, sizeof e.key, "\"%s\":{", name);
    const char *at = strstr(im->header.data, e.key);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(e.key),
                            "\"dtype\":\"%15[^\"]\",\"shape\":[%95[^]]],\"data_offsets\":[%" SCNu64
                            ",%" SCNu64 "]}",
                            e.dtype, e.shape, &e.begin, &e.end),
                     4);
    size_t n = (size_t)(strchr(at, '}') + 1 - at);
    assert_true(n < sizeof e.text);
    memcpy(e.text, at, n);
    e.text[n] = '\0';
    return e;
}

static void set_entry(struct image *im, const struct entry *e, const char *dtype, const char *shape,
                      const char *offsets)
{
    char text[600];
    snprintf(text, sizeof text, "%s\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":%s}", e->key,
             dtype ? dtype : e->dtype, shape ? shape : e->shape, offsets);
    replace(im, e->text, e->text, text);
}

// The entry NAME gets other offsets, printed with its own begin and end.
static void offsets_refused(int sample, const char *name, const char *offsets, const char *part)
{
    struct image im;
    image_read(&im, sample);
    struct entry e = find_entry(&im, name);
    set_entry(&im, &e, NULL, NULL, offsets);
    image_refused(&im, part);
    image_free(&im);
}

static void shape_refused(int sample, const char *name, const char *dtype, const char *shape,
                          const char *part)
{
    struct image im;
    char offsets[64];
    image_read(&im, sample);
    struct entry e = find_entry(&im, name);
    snprintf(offsets, sizeof offsets, "[%" PRIu64 ",%" PRIu64 "]", e.begin, e.end);
    set_entry(&im, &e, dtype, shape, offsets);
    image_refused(&im, part);
    image_free(&im);
}

// Overwrites bytes of a tensor and expects `part`.
static void poked(int sample, const char *name, uint64_t at, const void *bytes, size_t n,
                  const char *part)
{
    struct image im;
    image_read(&im, sample);
    struct entry e = find_entry(&im, name);
    assert_true(e.begin + at + n <= e.end);
    memcpy(im.data.data + e.begin + at, bytes, n);
    image_refused(&im, part);
    image_free(&im);
}

// ---- damage to the list of tensors

static struct fg_st_blob blobs[256];
static struct fg_st_pair pairs[16];
static struct fg_st_options options;
static uint64_t n_blobs;

static struct fg_st_file *load_blobs(int sample)
{
    struct fg_st_file *f;
    struct fg_error err = {0};
    write_sample(sample);
    assert_int_equal(fg_st_file_open(&f, "test", path, &err), 0);
    n_blobs = 0;
    for (uint64_t i = 0; i < fg_st_file_count(f); i++) {
        const struct fg_st_tensor *t = fg_st_file_at(f, i);
        if (strncmp(t->name, "~pad.", 5) == 0) continue;
        struct fg_st_blob *b = &blobs[n_blobs++];
        *b = (struct fg_st_blob){t->name, t->dtype, t->rank, {0}, t->data};
        memcpy(b->shape, t->shape, sizeof b->shape);
    }
    options = (struct fg_st_options){.metadata = pairs, .n_metadata = fg_st_file_n_metadata(f)};
    for (uint64_t i = 0; i < options.n_metadata; i++) {
        pairs[i] = fg_st_file_metadata_at(f, i);
    }
    return f;
}

static struct fg_st_blob *blob(const char *name)
{
    for (uint64_t i = 0; i < n_blobs; i++) {
        if (strcmp(blobs[i].name, name) == 0) return &blobs[i];
    }
    fail_msg("no tensor %s", name);
    return NULL;
}

static struct fg_st_pair *pair(const char *key)
{
    for (uint64_t i = 0; i < options.n_metadata; i++) {
        if (strcmp(pairs[i].key, key) == 0) return &pairs[i];
    }
    fail_msg("no key %s", key);
    return NULL;
}

// By hand: fg_st_file_write would refuse some of the tests' files, and wait for the disk.
static void image_of_blobs(struct image *im)
{
    fg_buf_str(&im->header, "{\"__metadata__\":{");
    for (uint64_t i = 0; i < options.n_metadata; i++) {
        if (i) fg_buf_char(&im->header, ',');
        fg_buf_json_str(&im->header, pairs[i].key, strlen(pairs[i].key));
        fg_buf_char(&im->header, ':');
        fg_buf_json_str(&im->header, pairs[i].value, strlen(pairs[i].value));
    }
    fg_buf_char(&im->header, '}');
    for (uint64_t i = 0; i < n_blobs; i++) {
        const struct fg_st_blob *b = &blobs[i];
        uint64_t bytes = fg_st_dtype_bytes(b->dtype), at = im->data.len;
        fg_buf_printf(&im->header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", b->name,
                      fg_st_dtype_name(b->dtype));
        for (int k = 0; k < b->rank; k++) {
            bytes *= b->shape[k];
            fg_buf_printf(&im->header, "%s%" PRIu64, k ? "," : "", b->shape[k]);
        }
        fg_buf_printf(&im->header, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        fg_buf_add(&im->data, b->data, bytes);
    }
    fg_buf_char(&im->header, '}');
}

static void blobs_refused(struct fg_st_file *f, int code, const char *part)
{
    struct image im = {0};
    image_of_blobs(&im);
    write_raw(im.header.len, im.header.data, im.header.len, im.data.data, im.data.len);
    image_free(&im);
    refused(bad_path, code, part);
    fg_st_file_close(f);
}

static void sizes_and_lengths(void **state)
{
    (void)state;
    make_sets(false);
    for (int i = 0; i < N_SAMPLES; i++) {
        struct fg_buf all = {0};
        struct fg_error err = {0};
        write_sample(i);
        assert_int_equal(fg_file_read(&all, path, 1 << 24, &err), 0);
        uint64_t data_at =
            8 + (uint64_t)(uint8_t)all.data[0] + ((uint64_t)(uint8_t)all.data[1] << 8);
        assert_int_equal(data_at % 4096, 0);
        scratch_write(&tmp, "bad", "", 0);
        refused(bad_path, FG_EINPUT, "size");
        scratch_write(&tmp, "bad", all.data, 7);
        refused(bad_path, FG_EINPUT, "size");
        for (uint64_t k = 0; k < 64; k++) {
            uint64_t n = all.len * k / 64;
            scratch_write(&tmp, "bad", all.data, n);
            refused(bad_path, FG_EINPUT, n < data_at ? "size" : "data_offsets of ");
        }
        // Every byte of the end and of the start of the header.
        for (uint64_t n = 0; n < 200; n++) {
            scratch_write(&tmp, "bad", all.data, n);
            refused(bad_path, FG_EINPUT, "size");
            scratch_write(&tmp, "bad", all.data, all.len - 1 - n);
            refused(bad_path, FG_EINPUT, "expected end <= data length");
        }
        const uint64_t lengths[] = {0, 1, 1ull << 63, all.len - 7, (64ull << 20) + 1, UINT64_MAX};
        for (size_t k = 0; k < FG_COUNT(lengths); k++) {
            write_raw(lengths[k], all.data + 8, all.len - 8, NULL, 0);
            refused(bad_path, FG_EINPUT, "header_length");
        }
        fg_buf_free(&all);
    }
    free_sets();
}

static void header_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *part;
    } cases[] = {
        {"{\"a\":", 5, "header (byte 13)"},
        {"{\"a\" 1}", 7, "header (byte 13)"},
        {"[1,2,3]", 7, "header (byte 8)"},
        {" {}", 3, "header (byte 8)"},
        {"{\"a\xFF\":1}", 8, "header (byte 11)"},
        {"{\"a\0\":1}", 8, "header (byte 11)"},
        {"{\"a\":1}", 7, "header (byte 13)"},
        {"{}", 2, "1 to 100000 tensors"},
        {"{\"a\":{\"dtype\":{\"b\":{\"c\":{}}}}}", 31, "dtype of a"},
        {"{\"a\":{\"shape\":[[[[1]]]]}}", 25, "shape of a"},
        {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 33, "tensor a"},
        {"{\"a\":{\"dtype\":\"U8\",\"x\":1}}", 26, "tensor a"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 31, "data_offsets of a"},
        {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,0]}}", 41, "shape of a"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 51, "1 to 256 bytes"},
        {"{\"a\\n\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 54, "control"},
        {"{\"__metadata__\":{\"a\":1}}", 24, "header (byte 29)"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"1\"}}", 34, "each key once"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 37, "__metadata__"},
    };
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        write_raw(cases[i].n, cases[i].text, cases[i].n, NULL, 0);
        refused(bad_path, FG_EINPUT, cases[i].part);
    }
    make_sets(false);
    for (int i = 0; i < N_SAMPLES; i++) {
        static const char *const tails[] = {"x", "\n", " {}", "  \t"};
        struct image im;
        for (size_t k = 0; k < FG_COUNT(tails); k++) {
            image_read(&im, i);
            fg_buf_str(&im.header, tails[k]);
            image_refused(&im, "spaces after the object");
            image_free(&im);
        }
        image_read(&im, i);
        fg_buf_add(&im.header, " \0", 2);
        image_refused(&im, "header (byte");
        image_free(&im);
        image_read(&im, i);
        fg_buf_str(&im.header, "   ");
        write_raw(im.header.len, im.header.data, im.header.len, im.data.data, im.data.len);
        fg_package_close(open_good(bad_path)); // unaligned, and good all the same
        image_free(&im);
    }
    free_sets();
}

static void ranges(void **state)
{
    (void)state;
    make_sets(false);
    for (int i = 0; i < N_SAMPLES; i++) {
        struct image im;
        char name[128], other[128], offsets[96], part[160], text[700];
        snprintf(name, sizeof name, "%s.pidx", main_mat[i]);
        snprintf(other, sizeof other, "%s.scale", main_mat[i]);
        snprintf(part, sizeof part, "data_offsets of %s", name);
        image_read(&im, i);
        struct entry e = find_entry(&im, name);
        // The same name twice: the error has it twice, too.
        replace(&im, "{", other, name);
        image_refused(&im, part);
        image_free(&im);
        // Two names over one range.
        image_read(&im, i);
        snprintf(text, sizeof text, ",\"twin\":%s", strchr(e.text, '{'));
        fg_buf_str(&im.header, "");
        im.header.data[--im.header.len] = '\0'; // the closing brace
        fg_buf_str(&im.header, text);
        fg_buf_char(&im.header, '}');
        image_refused(&im, "data_offsets of ");
        image_refused(&im, "overlap");
        image_refused(&im, "twin");
        image_refused(&im, name);
        image_free(&im);
        // Shifted by one byte: a hole before it, an overlap behind it, or the reverse.
        snprintf(offsets, sizeof offsets, "[%" PRIu64 ",%" PRIu64 "]", e.begin + 1, e.end + 1);
        offsets_refused(i, name, offsets, "data_offsets of ");
        offsets_refused(i, name, offsets, "(hole)");
        if (e.begin) {
            snprintf(offsets, sizeof offsets, "[%" PRIu64 ",%" PRIu64 "]", e.begin - 1, e.end - 1);
            offsets_refused(i, name, offsets, "(overlap)");
        }
        // Data behind the last tensor.
        image_read(&im, i);
        fg_buf_char(&im.data, 'x');
        image_refused(&im, "data_offsets of ");
        image_refused(&im, "data length");
        image_free(&im);

        snprintf(offsets, sizeof offsets, "[%" PRIu64 ",%" PRIu64 "]", e.end, e.begin);
        offsets_refused(i, name, offsets, part);
        snprintf(offsets, sizeof offsets, "[-%" PRIu64 ",%" PRIu64 "]", e.begin + 1, e.end);
        offsets_refused(i, name, offsets, part);
        snprintf(offsets, sizeof offsets, "[%" PRIu64 ".0,%" PRIu64 "]", e.begin, e.end);
        offsets_refused(i, name, offsets, part);
        snprintf(offsets, sizeof offsets, "[%" PRIu64 ",1e18]", e.begin);
        offsets_refused(i, name, offsets, part);
        snprintf(offsets, sizeof offsets, "[%" PRIu64 ",1000000000000000000]", e.begin);
        offsets_refused(i, name, offsets, part);
        snprintf(offsets, sizeof offsets, "[%" PRIu64 ",\"%" PRIu64 "\"]", e.begin, e.end);
        offsets_refused(i, name, offsets, part);
        snprintf(offsets, sizeof offsets, "[%" PRIu64 "]", e.begin);
        offsets_refused(i, name, offsets, part);
        snprintf(offsets, sizeof offsets, "[%" PRIu64 ",%" PRIu64 ",0]", e.begin, e.end);
        offsets_refused(i, name, offsets, part);
        offsets_refused(i, name, "[0,18446744073709551615]", part);
        offsets_refused(i, name, "[0,18446744073709551616]", part);
    }
    free_sets();
}

static void shapes_and_dtypes(void **state)
{
    (void)state;
    make_sets(false);
    for (int i = 0; i < N_SAMPLES; i++) {
        char name[128], part[160], shape[128];
        struct image im;
        snprintf(name, sizeof name, "%s.scale", main_mat[i]);
        snprintf(part, sizeof part, "shape of %s", name);
        image_read(&im, i);
        struct entry e = find_entry(&im, name);
        image_free(&im);
        shape_refused(i, name, NULL, "4294967296,4294967296", part);
        shape_refused(i, name, NULL, "1099511627776", part);
        shape_refused(i, name, NULL, "1,1,1,1,1,1,1,1,1", part);
        shape_refused(i, name, NULL, "-3", part);
        shape_refused(i, name, NULL, "3.0", part);
        snprintf(shape, sizeof shape, "1,%s", e.shape);
        shape_refused(i, name, NULL, shape, part);
        // Zero where more is needed.
        struct fg_st_file *f = load_blobs(i);
        blob(name)->shape[0] = 0;
        blobs_refused(f, FG_EINPUT, part);
        // One row less than forge.matrices says.
        f = load_blobs(i);
        blob(name)->shape[0]--;
        blobs_refused(f, FG_EINPUT, part);

        snprintf(part, sizeof part, "dtype of %s", name);
        shape_refused(i, name, "F4", NULL, part);
        shape_refused(i, name, "BF16", NULL, "expected F16");
        shape_refused(i, name, "BF16", NULL, part);
        f = load_blobs(i);
        blob(name)->dtype = FG_ST_F8_E4M3;
        blobs_refused(f, FG_EINPUT, part);
        f = load_blobs(i);
        blob(name)->dtype = FG_ST_F8_E4M3;
        blobs_refused(f, FG_EINPUT, "expected F16");
        const char *small = i == CHUNK     ? "layers.1.linear_attn.A_log"
                            : i == HEAD    ? "norm.weight"
                            : i == DRAFTER ? "hidden_norm.weight"
                                           : "layers.2.input_layernorm.weight";
        snprintf(part, sizeof part, "dtype of %s", small);
        shape_refused(i, small, "I32", NULL, part);
    }
    // Shapes that agree with forge.matrices, but not with each other.
    struct fg_st_file *f = load_blobs(CHUNK);
    blob("layers.1.linear_attn.conv1d.weight")->shape[1] = 2;
    blob("layers.1.linear_attn.conv1d.weight")->shape[2] = 2;
    blobs_refused(f, FG_EINPUT, "shape of layers.1.linear_attn.conv1d.weight");
    f = load_blobs(CHUNK);
    blob("layers.0.rot.mlp_in")->shape[0]--;
    blobs_refused(f, FG_EINPUT, "shape of layers.0.rot.mlp_in");
    f = load_blobs(CHUNK);
    blob("layers.0.rot.mlp_in")->dtype = FG_ST_I8;
    blobs_refused(f, FG_EINPUT, "dtype of layers.0.rot.mlp_in");
    f = load_blobs(CHUNK);
    blob("layers.2.input_layernorm.weight")->shape[0] = 31;
    blobs_refused(f, FG_EINPUT, "shape of layers.2.input_layernorm.weight: expected [32]");
    f = load_blobs(DENSE);
    blob("layers.3.self_attn.k_proj.bias")->rank = 2;
    blob("layers.3.self_attn.k_proj.bias")->shape[1] = 1;
    blobs_refused(f, FG_EINPUT, "shape of layers.3.self_attn.k_proj.bias");
    free_sets();
}

static void limits(void **state)
{
    (void)state;
    struct fg_buf b = {0};
    fg_buf_char(&b, '{');
    for (int i = 0; i <= 100000; i++) {
        fg_buf_printf(&b, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                      i ? "," : "", i);
    }
    fg_buf_char(&b, '}');
    write_raw(b.len, b.data, b.len, NULL, 0);
    refused(bad_path, FG_EINPUT, "at most 100000 tensors");

    fg_buf_clear(&b);
    fg_buf_str(&b, "{\"");
    for (int i = 0; i < 1 << 20; i++) {
        fg_buf_char(&b, 'n');
    }
    fg_buf_str(&b, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    write_raw(b.len, b.data, b.len, NULL, 0);
    refused(bad_path, FG_EINPUT, "256 bytes");

    fg_buf_clear(&b);
    fg_buf_str(&b, "{\"__metadata__\":{\"k\":\"");
    for (int i = 0; i < 5 << 20; i++) {
        fg_buf_char(&b, 'v');
    }
    fg_buf_str(&b, "\"}}");
    write_raw(b.len, b.data, b.len, NULL, 0);
    refused(bad_path, FG_EINPUT, "__metadata__");
    for (int i = 0; i < 60 << 20; i++) {
        fg_buf_char(&b, ' ');
    }
    write_raw(b.len, b.data, b.len, NULL, 0);
    refused(bad_path, FG_EINPUT, "header_length");

    fg_buf_clear(&b);
    fg_buf_str(&b, "{\"__metadata__\":{");
    for (int i = 0; i <= 1024; i++) {
        fg_buf_printf(&b, "%s\"k%d\":\"\"", i ? "," : "", i);
    }
    fg_buf_str(&b, "}}");
    write_raw(b.len, b.data, b.len, NULL, 0);
    refused(bad_path, FG_EINPUT, "at most 1024 keys");
    fg_buf_free(&b);
}

static void missing_and_extra(void **state)
{
    (void)state;
    make_sets(false);
    for (int i = 0; i < N_SAMPLES; i++) {
        // Each tensor missing, and each with another layer's name.
        struct fg_st_file *f = load_blobs(i);
        uint64_t n = n_blobs;
        fg_st_file_close(f);
        for (uint64_t k = 0; k < n; k++) {
            char part[200], name[200];
            f = load_blobs(i);
            snprintf(part, sizeof part, "tensor %s", blobs[k].name);
            // What is in no table but forge.matrices is named with the key that asks for it.
            blobs[k] = blobs[--n_blobs];
            char *weight = strstr(part, ".weight");
            if (weight && (strstr(part, "_proj") || strstr(part, "lm_head"))) *weight = '\0';
            bool optional = strstr(part, "_norm.weight") || strstr(part, ".bias") ||
                            strstr(part, "_conv.") || strstr(part, "candidate");
            blobs_refused(f, FG_EINPUT, optional ? "tensor " : part);

            f = load_blobs(i);
            if (strncmp(blobs[k].name, "layers.", 7) == 0) {
                snprintf(name, sizeof name, "layers.9.%s", blobs[k].name + 9);
            } else {
                snprintf(name, sizeof name, "layers.0.%s", blobs[k].name);
            }
            blobs[k].name = name;
            blobs_refused(f, FG_EINPUT, "tensor ");
        }
        static const char *const extra[] = {"x",
                                            "layers.1000.mlp.gate_proj.bias",
                                            "layers.-1.x",
                                            "layers.00.input_layernorm.weight",
                                            "x.pidx",
                                            "x.lr_a",
                                            "x.lr_scale",
                                            "layers.0.rot.mlp_out",
                                            "layers.5.rot.mlp_in",
                                            "lm_head.idx",
                                            "layers.0.linear_attn.out_proj.bias"};
        for (size_t k = 0; k < FG_COUNT(extra); k++) {
            char part[200];
            f = load_blobs(i);
            blobs[n_blobs++] = (struct fg_st_blob){extra[k], FG_ST_U8, 1, {1}, "x"};
            snprintf(part, sizeof part, "tensor %s", extra[k]);
            blobs_refused(f, FG_EINPUT, part);
        }
    }
    free_sets();
}

static void matrices(void **state)
{
    (void)state;
    make_sets(false);
#define MAT0 "\\\"name\\\":\\\"layers.0.mlp.gate_proj\\\""
#define Q(key) "\\\"" key "\\\":"
    replaced(CHUNK, MAT0, Q("rows") "48", Q("rows") "47", "].rows");
    replaced(CHUNK, MAT0, Q("rows") "48", Q("rows") "46", "].rows");
    replaced(CHUNK, MAT0, Q("rows") "48", Q("rows") "0", "].rows");
    replaced(CHUNK, MAT0, Q("rows") "48", Q("rows") "-48", "].rows");
    replaced(CHUNK, MAT0, Q("rows") "48", Q("rows") "48.0", "].rows");
    replaced(CHUNK, MAT0, Q("rows") "48", Q("rows") "4294967344", "].rows");
    replaced(CHUNK, MAT0, Q("cols") "32", Q("cols") "31", "].cols");
    replaced(CHUNK, MAT0, Q("cols") "32", Q("cols") "40", "].cols");
    replaced(CHUNK, MAT0, "v2x64", "v3x64", "].format");
    replaced(CHUNK, MAT0, "v2x64", "vector 2x64 + pcs", "].format");
    replaced(CHUNK, MAT0, "v2x64", "int8", "].format");
    replaced(CHUNK, MAT0, "v2x64", "bf16", "].format");
    replaced(CHUNK, MAT0, "v2x64", "v2x16", "].format");
    replaced(CHUNK, MAT0, "v2x64", "lut4", "forge.matrices[");
    replaced(CHUNK, "layers.0.linear_attn.in_proj_a\\\"", "bf16", "lut4", "].format");
    replaced(CHUNK, "layers.0.linear_attn.in_proj_a\\\"", "bf16", "f16", "dtype of ");
    replaced(CHUNK, "layers.0.linear_attn.in_proj_qkv\\\"", Q("rank") "4", Q("rank") "0", "].rank");
    replaced(CHUNK, "layers.0.linear_attn.in_proj_qkv\\\"", Q("rank") "4", Q("rank") "5", "].rank");
    replaced(CHUNK, "layers.0.linear_attn.in_proj_qkv\\\"", Q("rank") "4", Q("rank") "65537",
             "].rank");
    replaced(CHUNK, MAT0, Q("rank") "0", Q("rank") "1", "].rank");
#define INT8 "layers.0.linear_attn.in_proj_z\\\""
#define KIND "," Q("lr_dtype") "\\\"i8\\\""
    replaced(CHUNK, INT8, KIND, "," Q("lr_dtype") "\\\"i4\\\"", "].lr_dtype");
    replaced(CHUNK, INT8, KIND, "," Q("lr_dtype") "8", "].lr_dtype");
    replaced(CHUNK, INT8, KIND, "," Q("lr_dtype") "\\\"f16\\\"", "].lr_dtype");
    replaced(CHUNK, INT8, KIND, "", "].lr_dtype");
    replaced(CHUNK, INT8, KIND, KIND KIND, "forge.matrices[");
    replaced(CHUNK, INT8, Q("rank") "1", Q("rank") "0", "].rank");
    replaced(CHUNK, INT8, Q("rank") "1", Q("rank") "2", "].rank");
    replaced(CHUNK, MAT0, Q("rank") "0", Q("rank") "0" KIND, "].lr_dtype");
    replaced(CHUNK, "layers.0.linear_attn.in_proj_qkv\\\"", Q("rank") "4", Q("rank") "4" KIND,
             "dtype of layers.0.linear_attn.in_proj_qkv.lr_a");
    replaced(CHUNK, MAT0, "mlp_in", "mlp_mid", "].basis");
    replaced(CHUNK, MAT0, "mlp_in", "nowhere", "].basis");
    replaced(CHUNK, MAT0, Q("block") "32", Q("block") "16", "].basis");
    replaced(CHUNK, MAT0, Q("block") "32", Q("block") "24", "].basis");
    replaced(CHUNK, MAT0, Q("block") "32", Q("block") "2048", "].basis");
    replaced(CHUNK, MAT0, Q("block") "32", Q("blocks") "32", "].basis");
    replaced(CHUNK, MAT0, "," Q("block") "32", "", "].basis");
    replaced(CHUNK, "layers.0.linear_attn.in_proj_a\\\"", "null",
             "{" Q("site") "\\\"mix_in\\\"," Q("block") "32}", "].basis");
    replaced(CHUNK, "layers.0.mlp.down_proj\\\"", "{" Q("site") "\\\"mlp_mid\\\"," Q("block") "16}",
             "null", "tensor layers.0.rot.mlp_mid");
    replaced(HEAD, "lm_head\\\"", "null", "{" Q("site") "\\\"mlp_in\\\"," Q("block") "32}",
             "].basis");
    for (int i = 0; i < N_SAMPLES; i++) {
        char at[128];
        snprintf(at, sizeof at, "%s\\\"", main_mat[i]);
        replaced(i, at, Q("rank"), Q("ranks"), "forge.matrices[");
        replaced(i, at, "," Q("rank") "0", "", "].rank");
        replaced(i, at, Q("rank"), Q("rows"), "forge.matrices[");
        replaced(i, at, "}", "", "forge.matrices");
        replaced(i, "forge.matrices\"", "\"[{", "\"{{", "forge.matrices");
        replaced(i, "forge.matrices\"", "\"[{", "\"[7,{", "forge.matrices[0]");
        replaced(i, "forge.matrices\"", "}]\"", "}]]\"", "forge.matrices");
        replaced(i, "forge.matrices\"", "}]\"", "},]\"", "forge.matrices");
        replaced(i, "{", "forge.matrices\"", "forge.matrixes\"", "forge.matrices");
        replaced(i, "{", main_mat[i], "other", "tensor ");
        replaced(i, "{", "\"forge.format\":\"package\"", "\"forge.format\":\"tiles\"",
                 "forge.format");
        replaced(i, "{", "\"forge.version\":\"1\"", "\"forge.version\":\"2\"", "forge.version");
        replaced(i, "{", "\"forge.kind\":\"", "\"forge.kind\":\"my", "forge.kind");
        replaced(i, "{", "forge.kind", "forge.sort", "forge.kind");
        replaced(i, "{", PB_DIGEST, "0123", "forge.weights_digest");
        replaced(i, "{", PB_EXPORT, "FEDC", "forge.export");
        replaced(i, "{", "forge.export", "forge.import", "forge.export");
    }
    replaced(HEAD, "{", PB_ID, "zz", "forge.id");
    replaced(HEAD, "{", "\"forge.kind\"", "\"forge.layers\":\"0-3\",\"forge.kind\"",
             "forge.layers");
    static const char *const layers[] = {"2-0",  "0",    "-2",  "0-",     "0-02",
                                         "+0-2", "0-2 ", "a-b", "0-1024", "0-99999999999999999999"};
    for (size_t k = 0; k < FG_COUNT(layers); k++) {
        char by[64];
        snprintf(by, sizeof by, "\"forge.layers\":\"%s\"", layers[k]);
        replaced(CHUNK, "{", "\"forge.layers\":\"0-2\"", by, "forge.layers");
    }
    replaced(CHUNK, "{", "\"forge.layers\":\"0-2\"", "\"forge.layers\":\"0-1\"",
             "tensor layers.2.");
    replaced(CHUNK, "{", "\"forge.layers\":\"0-2\"", "\"forge.layers\":\"0-3\"",
             "tensor layers.3.");
    replaced(CHUNK, "{", "\"forge.layers\":\"0-2\"", "\"forge.layers\":\"1-2\"",
             "tensor layers.0.");
    // The same matrix twice, and one that is not there.
    struct fg_st_file *f = load_blobs(HEAD);
    pair("forge.matrices")->value =
        "[{\"name\":\"lm_head\",\"format\":\"lut4\",\"rows\":40,\"cols\":32,\"basis\":null,"
        "\"rank\":0},{\"name\":\"lm_head\",\"format\":\"lut4\",\"rows\":40,\"cols\":32,"
        "\"basis\":null,\"rank\":0}]";
    blobs_refused(f, FG_EINPUT, "forge.matrices[1].name");
    f = load_blobs(HEAD);
    pair("forge.matrices")->value = "[]";
    blobs_refused(f, FG_EINPUT, "tensor lm_head");
    f = load_blobs(HEAD);
    pair("forge.layout")->value = "p6-avx512";
    blobs_refused(f, FG_EUNSUPPORTED, "forge.layout");
    // A matrix whose tensors are there without being declared.
    f = load_blobs(CHUNK);
    pair("forge.matrices")->value = "[]";
    blobs_refused(f, FG_EINPUT, "tensor layers.0.");
    free_sets();
}

static void values(void **state)
{
    (void)state;
    static const uint16_t nan = 0x7E01, inf = 0x7C00, minus = 0xBC00, zero = 0, minus_zero = 0x8000;
    static const uint8_t low = 0x80, pad = 0xF0;
    static const float f32_inf = -__builtin_inff();
    make_sets(false);
    for (int i = 0; i < N_SAMPLES; i++) {
        const uint16_t *const bad[] = {&nan, &inf, &minus, &zero, &minus_zero};
        char name[128], part[160];
        for (size_t k = 0; k < FG_COUNT(bad); k++) {
            snprintf(name, sizeof name, "%s.scale", main_mat[i]);
            snprintf(part, sizeof part, "%s[7]", name);
            poked(i, name, 14, bad[k], 2, part);
        }
        snprintf(name, sizeof name, "%s.lut", main_mat[i]);
        snprintf(part, sizeof part, "%s[15]", name);
        poked(i, name, 30, &nan, 2, part);
        poked(i, name, 30, &inf, 2, part);
        const char *norm = i == HEAD || i == DRAFTER ? "norm.weight"
                           : i == CHUNK              ? "layers.1.input_layernorm.weight"
                                                     : "layers.3.input_layernorm.weight";
        snprintf(part, sizeof part, "%s[3]", norm);
        poked(i, norm, 12, &f32_inf, 4, part);
    }
    poked(CHUNK, "layers.0.linear_attn.in_proj_qkv.lr_a", 2, &nan, 2,
          "layers.0.linear_attn.in_proj_qkv.lr_a[1]");
    poked(CHUNK, "layers.0.linear_attn.in_proj_qkv.lr_b", 0, &inf, 2,
          "layers.0.linear_attn.in_proj_qkv.lr_b[0]");
    static const float nothing = 0, negative = -1;
    static const uint32_t nan32 = 0x7FC00001;
    poked(CHUNK, "layers.0.linear_attn.in_proj_z.lr_scale", 0, &nothing, 4,
          "layers.0.linear_attn.in_proj_z.lr_scale[0]");
    poked(CHUNK, "layers.0.linear_attn.in_proj_z.lr_scale", 0, &negative, 4,
          "layers.0.linear_attn.in_proj_z.lr_scale[0]");
    poked(CHUNK, "layers.0.linear_attn.in_proj_z.lr_scale", 0, &nan32, 4,
          "layers.0.linear_attn.in_proj_z.lr_scale[0]");
    poked(CHUNK, "layers.0.linear_attn.in_proj_z.lr_scale", 0, &f32_inf, 4,
          "layers.0.linear_attn.in_proj_z.lr_scale[0]");
    poked(CHUNK, "layers.0.linear_attn.conv1d.weight", 4, &nan, 2,
          "layers.0.linear_attn.conv1d.weight[2]");
    static const uint16_t bf16_nan = 0x7F81;
    poked(CHUNK, "layers.2.post_attention_layernorm.weight", 62, &bf16_nan, 2,
          "layers.2.post_attention_layernorm.weight[31]");
    // What only fg_package_verify sees.
    poked(CHUNK, "layers.0.linear_attn.out_proj.int8", 5, &low, 1, "out_proj.int8[5]");
    poked(CHUNK, "layers.0.linear_attn.in_proj_z.lr_a", 6, &low, 1, "in_proj_z.lr_a[6]");
    poked(CHUNK, "layers.0.linear_attn.in_proj_z.lr_b", 7, &low, 1, "in_proj_z.lr_b[7]");
    poked(CHUNK, "layers.0.linear_attn.in_proj_a.weight", 8, &bf16_nan, 2, "in_proj_a.weight[4]");
    poked(DENSE, "layers.2.mlp.gate_proj.pidx", 10, &pad, 1, "forge.matrices[");
    poked(DENSE, "layers.2.mlp.gate_proj.pidx", 10, &pad, 1, "gate_proj.pidx row 0");
    free_sets();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_and_lengths),
        cmocka_unit_test(header_text),
        cmocka_unit_test(ranges),
        cmocka_unit_test(shapes_and_dtypes),
        cmocka_unit_test(limits),
        cmocka_unit_test(missing_and_extra),
        cmocka_unit_test(matrices),
        cmocka_unit_test(values),
    };
    samples_open();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close(&tmp);
    return failed;
}
