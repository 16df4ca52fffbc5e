// Arbitrary text as a template to recognize, and as a JSON object {messages, tools, kwargs} to
// render with every variant. What is rendered is checked: segments cover it, the same without
// segments, and JSON that is printed reads back as the same.
#include "text/chat_python.h"
#include "text/chat_template.h"
#include <stdlib.h>

static void check(bool holds)
{
    if (!holds) abort();
}

static void check_segments(const struct fg_chat_segments *s, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        check(s->items[i].at == at && s->items[i].n > 0);
        check(i == 0 || s->items[i].given != s->items[i - 1].given);
        at += s->items[i].n;
    }
    check(at == n);
}

static void check_render(enum fg_chat_variant variant, const struct fg_chat_input *in)
{
    struct fg_buf with = {0}, without = {0};
    struct fg_chat_segments segments = {0};
    struct fg_error err;
    int rc = fg_chat_render(&with, &segments, variant, in, &err);
    check(fg_chat_render(&without, NULL, variant, in, NULL) == rc);
    check(with.len == without.len && (rc == 0 || with.len == 0));
    check(with.len == 0 || memcmp(with.data, without.data, with.len) == 0);
    check(rc == 0 || (err.found[0] && err.code == rc));
    check_segments(&segments, with.len);
    fg_buf_free(&with);
    fg_buf_free(&without);
    fg_chat_segments_free(&segments);
}

static void check_json(const struct fg_jval *v)
{
    struct fg_buf first = {0}, second = {0};
    struct fg_jdoc doc;
    fg_chat_json(&first, v);
    if (fg_jdoc_parse(&doc, first.data, first.len, "printed", NULL) == 0) {
        fg_chat_json(&second, &doc.root);
        check(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
        fg_jdoc_free(&doc);
    } else { // an overflow prints as Python's Infinity, which is not JSON
        check(memmem(first.data, first.len, "Infinity", 8) != NULL);
    }
    fg_buf_free(&first);
    fg_buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    enum fg_chat_variant variant;
    bool official;
    struct fg_jdoc doc;
    struct fg_error err;
    int rc = fg_chat_variant_detect(&variant, &official, text, n, &err);
    check(rc == 0 ? variant < FG_CHAT_VARIANTS : rc == FG_EINPUT);
    if (fg_jdoc_parse(&doc, text, n, "input", &err)) {
        check(err.field[0] && err.expected[0] && err.found[0]);
        return 0;
    }
    struct fg_chat_input in = {fg_jval_get(&doc.root, "messages"), fg_jval_get(&doc.root, "tools"),
                               fg_jval_get(&doc.root, "kwargs")};
    for (int v = 0; v < FG_CHAT_VARIANTS; v++)
        check_render((enum fg_chat_variant)v, &in);
    check_json(&doc.root);
    fg_jdoc_free(&doc);
    return 0;
}
