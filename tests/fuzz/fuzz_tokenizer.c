// Arbitrary text as a tokenizer.json (first byte 'j'), or parts of a small tokenizer and a text to
// encode with it: KIND merges NUL added NUL text, where KIND is a digit for the pre-tokenizer,
// merges are "a b" lines and added is the JSON of added_tokens. What encodes must decode, at once
// and as a stream, to the repaired text where nothing normalizes it.
#include "support/tokenizer_build.h"
#include <stdlib.h>

static struct scratch scratch;

static void close_scratch(void)
{
    scratch_close(&scratch);
}

static void check(bool holds)
{
    if (!holds) abort();
}

static void check_text(const struct fg_tokenizer *tok, struct fg_tok_work *work, const char *text,
                       size_t n, unsigned flags, bool identity)
{
    struct fg_ids ids = {0};
    struct fg_buf whole = {0}, stream = {0}, repaired = {0};
    check(fg_tokenizer_encode(tok, work, text, n, flags, &ids, NULL) == 0);
    struct fg_tok_stream s;
    fg_tok_stream_init(&s, tok, 0);
    for (size_t i = 0; i < ids.n; i++) {
        check(ids.data[i] >= 0 && ids.data[i] < fg_tokenizer_size(tok));
        size_t len = stream.len;
        check(fg_tok_stream_push(&s, ids.data[i], &stream, NULL) == 0);
        check(stream.len == len || !fg_utf8_repair(&repaired, stream.data + len, stream.len - len));
    }
    check(fg_tok_stream_flush(&s, &stream, NULL) == 0);
    check(fg_tokenizer_decode(tok, ids.data, ids.n, 0, &whole, NULL) == 0);
    check(whole.len == stream.len && (!whole.len || !memcmp(whole.data, stream.data, whole.len)));
    if (identity) {
        if (!fg_utf8_repair(&repaired, text, n)) fg_buf_add(&repaired, text, n);
        check(repaired.len == whole.len);
        check(!whole.len || !memcmp(repaired.data, whole.data, whole.len));
    }
    fg_buf_free(&whole);
    fg_buf_free(&stream);
    fg_buf_free(&repaired);
    fg_ids_free(&ids);
}

static void open_and_check(const struct fg_buf *json, const char *text, size_t n, bool identity)
{
    struct fg_tokenizer *tok;
    struct fg_tok_work *work;
    struct fg_error err = {0};
    scratch_write(&scratch, "tokenizer.json", json->data, json->len);
    int rc = fg_tokenizer_open(&tok, scratch.dir, NULL, &err);
    check(rc == 0 || (rc == FG_EINPUT && err.found[0] && !tok));
    if (rc) return;
    check(fg_tok_work_new(&work, tok, NULL) == 0);
    for (unsigned flags = 0; flags < 8; flags++)
        check_text(tok, work, text, n, flags, identity && !(flags & FG_TOK_WRAP));
    fg_tok_work_free(work);
    fg_tokenizer_free(tok);
}

// The lines of s[0, n) that have a space after their first character and before their last.
static void keep_merges(struct fg_buf *out, const char *s, size_t n)
{
    while (n) {
        const char *end = memchr(s, '\n', n);
        size_t len = end ? (size_t)(end - s) : n;
        const char *space = memchr(s, ' ', len);
        if (space && space > s && space + 1 < s + len && !memchr(s, 0, len)) {
            fg_buf_add(out, s, len);
            fg_buf_char(out, '\n');
        }
        size_t used = len + (end != NULL);
        s += used;
        n -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const pre[] = {TB_QWEN2, TB_QWEN35, TB_BYTE_LEVEL, TB_SMOLLM2, TB_LLAMA3};
    if (!scratch.dir[0]) {
        scratch_open(&scratch);
        atexit(close_scratch);
    }
    if (size == 0) return 0;
    const char *s = (const char *)data + 1;
    size_t n = size - 1;
    if (data[0] == 'j') {
        struct fg_buf json = {0};
        fg_buf_add(&json, s, n);
        open_and_check(&json, s, n, false);
        fg_buf_free(&json);
        return 0;
    }
    const char *added = memchr(s, 0, n);
    const char *text = added ? memchr(added + 1, 0, n - (size_t)(added + 1 - s)) : NULL;
    if (!text) return 0;
    struct fg_buf merges = {0}, added_copy = {0}, json;
    keep_merges(&merges, s, (size_t)(added - s));
    fg_buf_add(&added_copy, added + 1, (size_t)(text - added - 1));
    // Without added tokens, which may take white space along, and without NFC the text comes back.
    bool bare = added_copy.len == 0, nfc = data[0] & 0x40;
    struct tokenizer_build b = {.merges = merges.data,
                                .added = bare ? NULL : added_copy.data,
                                .pre = pre[(data[0] & 0x3F) % 5],
                                .normalizer = nfc ? "{\"type\":\"NFC\"}" : NULL,
                                .pairs = data[0] & 0x80};
    json = tb_json(&b);
    open_and_check(&json, text + 1, n - (size_t)(text + 1 - s), bare && !nfc);
    fg_buf_free(&json);
    fg_buf_free(&merges);
    fg_buf_free(&added_copy);
    return 0;
}
