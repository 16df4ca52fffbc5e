// Snapshots as files: what is in them, that it is the same however the conversation came about,
// that it goes on bit for bit, and that nothing damaged or made up is taken for one.
#include "base/crc32c.h"
#include "runtime/session_case.h"
#include "runtime/snapshot.h"

static const char *const models[] = {"a-s0", "b-s0", "e-s0", "h-s0"};
static const struct kind kv8 = {true, FG_KV_KV8, true}, f32 = {false, FG_KV_F32, false};

// Of the header and the table, as server 10.6 has them.
#define AT_VERSION 4
#define AT_KIND 8
#define AT_TOKENS 12
#define AT_BUILD 20
#define AT_SECTIONS 52
#define AT_TABLE 64
#define BODY 192

enum { TOKS, GDNS, CONV, KVPG };

static uint32_t get32(const struct fg_buf *b, size_t at)
{
    uint32_t v;
    assert_true(at + sizeof v <= b->len);
    memcpy(&v, b->data + at, sizeof v);
    return v;
}

static uint64_t get64(const struct fg_buf *b, size_t at)
{
    return get32(b, at) | (uint64_t)get32(b, at + 4) << 32;
}

static size_t section_at(const struct fg_buf *b, int section)
{
    return (size_t)get64(b, (size_t)(AT_TABLE + 32 * section + 8));
}

static size_t section_bytes(const struct fg_buf *b, int section)
{
    return (size_t)get64(b, (size_t)(AT_TABLE + 32 * section + 16));
}

// Makes the checksums right again.
static void sign(struct fg_buf *b)
{
    for (int i = TOKS; i <= KVPG; i++) {
        uint32_t crc = fg_crc32c(0, b->data + section_at(b, i), section_bytes(b, i));
        memcpy(b->data + AT_TABLE + 32 * i + 24, &crc, sizeof crc);
    }
}

static struct fg_buf file_of(struct fixture *f, struct fg_session *s)
{
    struct fg_buf b = {0};
    struct fg_error err = {0};
    const char *path = scratch_path(&f->tmp, "save.fkc");
    must(fg_session_save(s, path, &err), &err);
    must(fg_file_read(&b, path, 1u << 30, &err), &err);
    return b;
}

static const char *write_file(struct fixture *f, const void *data, size_t n)
{
    return scratch_write(&f->tmp, "load.fkc", data, n);
}

// Both ways of taking a file in, each of which then goes on like the text.
static void taken_in(struct fixture *f, struct fg_session *s, const struct fg_buf *file,
                     int64_t pos)
{
    struct fg_error err = {0};
    struct fg_snapshot *snap;
    const char *path = write_file(f, file->data, file->len);
    must(fg_session_load(s, path, &err), &err);
    assert_int_equal(fg_session_pos(s), pos);
    assert_memory_equal(fg_session_ids(s), f->ids, (size_t)pos * sizeof(int32_t));
    feed_to(f, s, f->n, 31);
    check_same(s, f->whole);

    fg_session_reset(s);
    must(fg_snapshot_read(&snap, s, path, &err), &err);
    assert_true(fg_snapshot_valid(snap));
    assert_int_equal(fg_snapshot_pos(snap), pos);
    assert_memory_equal(fg_snapshot_ids(snap), f->ids, (size_t)pos * sizeof(int32_t));
    must(fg_snapshot_restore(s, snap, 0, &err), &err);
    struct fg_buf again = file_of(f, s);
    assert_int_equal(again.len, file->len);
    assert_memory_equal(again.data, file->data, file->len);
    fg_buf_free(&again);
    feed_to(f, s, f->n, 31);
    check_same(s, f->whole);
    fg_snapshot_free(snap);
}

// ---- what goes round

static void saved_and_loaded(const char *model, struct kind kind, const int64_t *cuts,
                             size_t n_cuts)
{
    struct fixture f;
    open_case(&f, model, kind, 320, 0, 1);
    struct fg_session *s = session(&f, 64);
    // Another ladder, backing, size of blocks, number of threads.
    struct fixture g = f;
    struct fg_error err = {0};
    g.backing = FG_KV_COPY;
    g.verify_max = 5;
    g.n_entries = 3;
    memcpy(g.entries, (int64_t[]){90, 300, 777}, 3 * sizeof *g.entries);
    must(fg_pool_new(&g.pool, 3, &err), &err);
    struct fg_session *t = session(&g, 17);
    for (size_t c = 0; c < n_cuts; c++) {
        fg_session_reset(s);
        feed_to(&f, s, cuts[c], 50);
        struct fg_buf one = file_of(&f, s);
        fg_session_reset(t);
        cycle_to(&g, t, cuts[c], 77 + c);
        struct fg_buf two = file_of(&g, t);
        assert_int_equal(one.len, two.len);
        assert_memory_equal(one.data, two.data, one.len);
        taken_in(&g, t, &one, cuts[c]);
        taken_in(&f, s, &two, cuts[c]);
        fg_buf_free(&one);
        fg_buf_free(&two);
    }
    fg_session_free(t);
    fg_session_free(s);
    fg_pool_free(g.pool);
    close_case(&f);
}

static void files_depend_on_the_conversation_alone(void **state)
{
    (void)state;
    static const int64_t cuts[] = {300, 2, 0, 1, 3, 64, 255, 256, 257};
    for (size_t i = 0; i < FG_COUNT(kinds); i++)
        saved_and_loaded("a-s0", kinds[i], cuts, i == FG_COUNT(kinds) - 2 ? FG_COUNT(cuts) : 1);
    for (size_t i = 1; i < FG_COUNT(models); i++) {
        saved_and_loaded(models[i], kv8, cuts, 2);
        saved_and_loaded(models[i], f32, cuts, 2);
    }
}

static void files_go_from_one_instruction_set_to_another(void **state)
{
    (void)state;
    int n;
    const struct fg_kernels *const *levels = fg_kernels_levels(&n);
    for (size_t k = 0; k < FG_COUNT(kinds); k += 3) {
        struct fixture f;
        open_case(&f, "a-s0", kinds[k], 320, 0, 1);
        struct fg_session *s = session(&f, 64);
        feed_to(&f, s, 300, 64);
        struct fg_buf best = file_of(&f, s);
        fg_session_free(s);
        for (int i = 0; i < n; i++) {
            f.kernels = levels[i];
            s = session(&f, 50);
            taken_in(&f, s, &best, 300);
            fg_session_reset(s);
            feed_to(&f, s, 300, 7);
            struct fg_buf file = file_of(&f, s);
            assert_int_equal(file.len, best.len);
            assert_memory_equal(file.data, best.data, best.len);
            fg_buf_free(&file);
            fg_session_free(s);
        }
        fg_buf_free(&best);
        close_case(&f);
    }
}

static void snapshots_are_written_wherever_their_rows_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(models); i++) {
        struct fixture f;
        struct fg_error err = {0};
        struct fg_snapshot *snap;
        open_case(&f, models[i], kv8, 700, 0, 1);
        struct fg_session *s = session(&f, 64);
        feed_to(&f, s, 600, 64);
        struct fg_buf file = file_of(&f, s), again = {0};
        const char *path = scratch_path(&f.tmp, "snap.fkc");
        must(fg_snapshot_take(&snap, s, FG_SNAPSHOT_DETACH, &err), &err);
        for (int where = 0; where < 4; where++) {
            if (where == 1) must(fg_snapshot_detach(snap, 300, &err), &err); // some are copies
            if (where == 2) fg_session_reset(s);
            if (where == 2) must(fg_session_run(s, f.ids + 9, 5, NULL, 0, NULL, NULL, &err), &err);
            if (where == 3) fg_session_free(s);
            path = scratch_path(&f.tmp, "snap.fkc");
            must(fg_snapshot_write(snap, path, &err), &err);
            must(fg_file_read(&again, path, 1u << 30, &err), &err);
            assert_int_equal(again.len, file.len);
            assert_memory_equal(again.data, file.data, file.len);
        }
        assert_int_equal(fg_snapshot_write(snap, f.tmp.dir, &err), FG_EINPUT);
        fg_snapshot_free(snap);
        fg_buf_free(&again);
        fg_buf_free(&file);
        close_case(&f);
    }
}

// ---- what is in them

// Rows of one head as a file has them, at `at`; returns the end.
static size_t check_head(const struct fg_buf *file, size_t at, const struct fg_kv_head *h,
                         int64_t pos, int64_t n)
{
    struct rows_image im = image_new(h, n);
    fg_kv_export(h, pos, n, im.k, im.ks, im.v, im.vs);
    const size_t k = part_bytes(h, fg_kv_k8(h->format), n);
    const size_t v = part_bytes(h, fg_kv_v8(h->format), n), scales = 2 * (size_t)n;
    assert_memory_equal(file->data + at, im.k, k);
    at += k;
    assert_memory_equal(file->data + at, im.v, v);
    at += v;
    if (im.ks) {
        assert_memory_equal(file->data + at, im.ks, scales);
        at += scales;
    }
    if (im.vs) {
        assert_memory_equal(file->data + at, im.vs, scales);
        at += scales;
    }
    image_free(&im);
    return at;
}

static void layout_of(const char *model, struct kind kind)
{
    static const char *const tags[] = {"TOKS", "GDNS", "CONV", "KVPG"};
    const int64_t pos = 300;
    struct fixture f;
    open_case(&f, model, kind, pos, 0, 1);
    const struct fg_config *c = &f.m->config;
    struct fg_session *s = f.whole;
    struct fg_buf file = file_of(&f, s);
    const size_t S = (size_t)(c->n_v_heads * c->k_head_dim * c->v_head_dim);
    const size_t conv =
        c->n_linear ? (size_t)((c->conv_kernel - 1) * fg_config_conv_channels(c)) : 0;

    assert_memory_equal(file.data, "FKC1", 4);
    assert_int_equal(get32(&file, AT_VERSION), 1);
    assert_int_equal(get32(&file, AT_KIND), 0);
    assert_int_equal(get64(&file, AT_TOKENS), pos);
    assert_int_equal(get32(&file, AT_SECTIONS), 4);
    assert_int_equal(get64(&file, AT_SECTIONS + 4), 0);
    size_t end = BODY;
    for (int i = TOKS; i <= KVPG; i++) {
        const size_t row = (size_t)(AT_TABLE + 32 * i);
        assert_memory_equal(file.data + row, tags[i], 4);
        assert_int_equal(get32(&file, row + 4), 0);
        assert_int_equal(section_at(&file, i), (end + 63) / 64 * 64);
        end = section_at(&file, i) + section_bytes(&file, i);
        assert_int_equal(get32(&file, row + 24),
                         fg_crc32c(0, file.data + section_at(&file, i), section_bytes(&file, i)));
        assert_int_equal(get32(&file, row + 28), 0);
    }
    assert_int_equal(end, file.len);
    assert_int_equal(section_bytes(&file, TOKS), 4 * pos);
    assert_memory_equal(file.data + section_at(&file, TOKS), f.ids, 4 * (size_t)pos);

    size_t S_at = section_at(&file, GDNS), conv_at = section_at(&file, CONV);
    for (int64_t i = 0; i < c->n_layers; i++) {
        const struct fg_layer_state *l = &s->state.layers[i];
        if (!c->is_linear[i]) continue;
        assert_memory_equal(file.data + S_at, l->S[s->state.cur], S * sizeof(float));
        assert_memory_equal(file.data + conv_at, l->conv[s->state.cur], conv * sizeof(float));
        S_at += S * sizeof(float);
        conv_at += conv * sizeof(float);
    }
    assert_int_equal(S_at, section_at(&file, GDNS) + section_bytes(&file, GDNS));
    assert_int_equal(conv_at, section_at(&file, CONV) + section_bytes(&file, CONV));

    size_t at = section_at(&file, KVPG);
    for (int64_t page = 0; page < 2; page++)
        for (int64_t i = 0; i < c->n_layers; i++)
            for (int64_t h = 0; !c->is_linear[i] && h < c->n_kv_heads; h++)
                at = check_head(&file, at, &s->state.layers[i].kv[h], page * 256, page ? 44 : 256);
    assert_int_equal(at, file.len);
    fg_buf_free(&file);
    close_case(&f);
}

static void the_layout_is_that_of_the_format(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(kinds); i++)
        for (size_t m = 0; m < FG_COUNT(models); m++)
            layout_of(models[m], kinds[i]);
}

// ---- what is refused

// Loading fails with `code` (0: bad input or damage) and leaves an empty session, reading leaves
// all as it was.
static void refused(struct fixture *f, struct fg_session *s, const void *data, size_t n, int code,
                    const char *field)
{
    struct fg_error err = {0};
    struct fg_snapshot *snap = (struct fg_snapshot *)s; // anything but NULL
    const char *path = write_file(f, data, n);
    const int64_t pos = fg_session_pos(s);
    int rc = fg_snapshot_read(&snap, s, path, &err);
    assert_null(snap);
    assert_null(s->snapshots);
    assert_int_equal(fg_session_pos(s), pos);
    if (code ? rc != code : rc != FG_EINPUT && rc != FG_EINTEGRITY)
        fail_msg("rc %d for field %s, %s", rc, err.field, field ? field : "");
    assert_true(err.field[0] && err.found[0] && strcmp(err.file, path) == 0);
    if (field) assert_string_equal(err.field, field);
    assert_int_equal(fg_session_load(s, path, NULL), rc);
    assert_int_equal(fg_session_pos(s), 0);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static const struct kind two[] = {{true, FG_KV_KV8, true}, {false, FG_KV_V8, false}};
    for (size_t k = 0; k < FG_COUNT(two); k++) {
        struct fixture f;
        open_case(&f, k ? "b-s0" : "a-s0", two[k], 270, 0, 1);
        struct fg_session *s = session(&f, 64);
        feed_to(&f, s, 261, 64); // leaves zeros before sections
        struct fg_buf file = file_of(&f, s);
        for (size_t i = 0; i < 64; i++)
            refused(&f, s, file.data, file.len * i / 64, FG_EINPUT, NULL);
        for (size_t i = 0; i < BODY; i++) // every byte of header and table
            for (int bit = 0; bit < 8; bit += 7) {
                file.data[i] ^= (char)(1 << bit);
                refused(&f, s, file.data, file.len, 0, NULL);
                file.data[i] ^= (char)(1 << bit);
            }
        size_t end = BODY;
        for (int i = TOKS; i <= KVPG; i++) {
            const size_t at = section_at(&file, i), n = section_bytes(&file, i);
            for (; end < at; end++) {
                file.data[end] ^= 1;
                refused(&f, s, file.data, file.len, FG_EINPUT, "bytes before a section");
                file.data[end] ^= 1;
            }
            char field[16];
            snprintf(field, sizeof field, "%.4s checksum", file.data + AT_TABLE + 32 * i);
            for (size_t part = 0; part <= 32; part++) {
                const size_t byte = at + (n - 1) * part / 32;
                file.data[byte] ^= 16;
                refused(&f, s, file.data, file.len, FG_EINTEGRITY, field);
                file.data[byte] ^= 16;
            }
            end = at + n;
        }
        struct fg_buf longer = {0};
        fg_buf_add(&longer, file.data, file.len);
        fg_buf_add(&longer, "", 1);
        refused(&f, s, longer.data, longer.len, FG_EINPUT, "size");
        fg_buf_free(&longer);
        refused(&f, s, "FORGESES", 8, FG_EINPUT, "magic");
        feed_to(&f, s, f.n, 64); // it still works
        check_same(s, f.whole);
        taken_in(&f, s, &file, 261); // and the file is whole again
        fg_buf_free(&file);
        fg_session_free(s);
        close_case(&f);
    }
}

static void set32(struct fg_buf *b, size_t at, uint32_t v)
{
    memcpy(b->data + at, &v, sizeof v);
}

// Files whose checksums are right and whose content no conversation has.
static void made_up_content_is_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < FG_COUNT(kinds); k++) {
        struct fixture f;
        open_case(&f, "a-s0", kinds[k], 300, 0, 1);
        const struct fg_config *c = &f.m->config;
        const enum fg_kv_format kv = kinds[k].kv;
        struct fg_session *s = session(&f, 64);
        struct fg_buf good = file_of(&f, f.whole);
        const size_t toks = section_at(&good, TOKS), gdns = section_at(&good, GDNS);
        const size_t conv = section_at(&good, CONV), kvpg = section_at(&good, KVPG);
        const uint32_t nan = 0x7FC00000, minus_inf = 0xFF800000;
        const struct {
            size_t at;
            uint32_t value;
            const char *field;
        } cases[] = {
            {toks + 4 * 299, (uint32_t)c->vocab, "TOKS id"},
            {toks, 0xFFFFFFFF, "TOKS id"},
            {gdns, nan, "GDNS"},
            {conv - 4, minus_inf, "GDNS"}, // its end is at a multiple of 64
            {conv, 0x7F800000, "CONV"},
            {conv + section_bytes(&good, CONV) - 4, nan, "CONV"},
            {kvpg, kv == FG_KV_F32 ? nan : 0x80007C00, "KVPG page"}, // also: FP16 inf, code -128
            // The end: a scale of values, or values.
            {good.len - 4, kv == FG_KV_F32 ? minus_inf : 0x7E003C00, "KVPG page"},
            {good.len - 4, kv == FG_KV_F32 ? minus_inf : 0x3C00FC01, "KVPG page"},
            {good.len - 4,
             kv == FG_KV_F32 ? nan
             : fg_kv_v8(kv)  ? 0x00003C00
                             : 0x7C003C00,
             "KVPG page"},
            {good.len - 4,
             kv == FG_KV_F32 ? nan
             : fg_kv_v8(kv)  ? 0x3C009C00
                             : 0xFC003C00,
             "KVPG page"},
        };
        for (size_t i = 0; i < FG_COUNT(cases); i++) {
            struct fg_buf bad = {0};
            fg_buf_add(&bad, good.data, good.len);
            set32(&bad, cases[i].at, cases[i].value);
            sign(&bad);
            refused(&f, s, bad.data, bad.len, FG_EINPUT, cases[i].field);
            fg_buf_free(&bad);
        }
        // Other positions than it has rows for; more than the model has.
        set32(&good, AT_TOKENS, 299);
        refused(&f, s, good.data, good.len, FG_EINPUT, "size");
        set32(&good, AT_TOKENS, 301);
        refused(&f, s, good.data, good.len, FG_EINPUT, "size");
        set32(&good, AT_TOKENS, (uint32_t)c->max_positions + 1);
        refused(&f, s, good.data, good.len, FG_EINPUT, "position");
        set32(&good, AT_TOKENS + 4, 0x80000000);
        refused(&f, s, good.data, good.len, FG_EINPUT, "position");
        set32(&good, AT_TOKENS, 300);
        set32(&good, AT_TOKENS + 4, 0);
        taken_in(&f, s, &good, 300);
        fg_buf_free(&good);
        fg_session_free(s);
        close_case(&f);
    }
}

static void files_of_others_are_refused(void **state)
{
    (void)state;
    struct fixture f, g;
    struct fg_error err = {0};
    open_case(&f, "a-s0", kv8, 50, 0, 1);
    open_case(&g, "a-s1", kv8, 50, 0, 1); // same shapes, other weights
    struct fg_buf file = file_of(&f, f.whole);
    refused(&g, g.whole, file.data, file.len, FG_EINTEGRITY, "build id");
    for (size_t k = 0; k < FG_COUNT(kinds); k++) {
        if (memcmp(&kinds[k], &kv8, sizeof kv8) == 0) continue;
        f.kind = kinds[k];
        struct fg_session *s = session(&f, 64);
        refused(&f, s, file.data, file.len, FG_EINTEGRITY, "build id");
        fg_session_free(s);
    }
    // A session with less room than the conversation has rows.
    f.kind = kv8;
    f.entries[0] = 49;
    struct fg_session *small = session(&f, 49);
    struct fg_snapshot *snap;
    const char *path = write_file(&f, file.data, file.len);
    must(fg_snapshot_read(&snap, small, path, &err), &err);
    assert_int_equal(fg_snapshot_restore(small, snap, 0, &err), FG_EINPUT);
    fg_snapshot_free(snap);
    feed_to(&f, small, 10, 10);
    assert_int_equal(fg_session_load(small, path, &err), FG_EINPUT);
    assert_int_equal(fg_session_pos(small), 0);
    feed_to(&f, small, 49, 10);
    assert_int_equal(fg_session_load(small, f.tmp.dir, &err), FG_EINPUT);
    assert_int_equal(fg_session_load(small, "/nonexistent", &err), FG_EINPUT);
    fg_session_free(small);
    fg_buf_free(&file);
    close_case(&g);
    close_case(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_depend_on_the_conversation_alone),
        cmocka_unit_test(files_go_from_one_instruction_set_to_another),
        cmocka_unit_test(snapshots_are_written_wherever_their_rows_are),
        cmocka_unit_test(the_layout_is_that_of_the_format),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(made_up_content_is_refused),
        cmocka_unit_test(files_of_others_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
