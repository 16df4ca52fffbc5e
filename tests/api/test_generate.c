// The public API on the tiny chat model: generation does not depend on how it is asked for, stops
// where it should, and keeps what a session already holds.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs those first
#include <cmocka.h>

#include "forge/forge.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct forge_engine *engine(const char *name, bool model_only)
{
    struct forge_engine *e = NULL;
    struct fg_error err = {0};
    char path[512];
    snprintf(path, sizeof path, "%s/models/%s", FORGE_GOLDEN_DIR, name);
    struct forge_engine_options o = {.model = path,
                                     .threads = 2,
                                     .numerics = FORGE_EXACT,
                                     .strict = true,
                                     .model_only = model_only};
    if (forge_engine_open(&e, &o, &err))
        fail_msg("%s: %s %s: %s", err.what, err.file, err.field, err.found);
    return e;
}

static struct forge_session *session(struct forge_engine *e, int64_t capacity, int64_t rows)
{
    struct forge_session *s;
    struct fg_error err;
    struct forge_session_options o = {.capacity = capacity, .rows = rows};
    assert_int_equal(forge_session_new(&s, e, &o, &err), 0);
    return s;
}

struct collected {
    int32_t ids[512];
    int64_t n;
    char text[4096];
    size_t text_n;
    int64_t stop_after; // tokens; 0: never
    bool sees_logits;
};

static int collect(void *ctx, int32_t id, const char *text, size_t n, const float *logits)
{
    struct collected *c = ctx;
    assert_int_equal(logits == NULL, id < 0 || !c->sees_logits);
    if (id >= 0) c->ids[c->n++] = id;
    memcpy(c->text + c->text_n, text, n);
    c->text_n += n;
    return c->stop_after && c->n >= c->stop_after;
}

static const char MESSAGES[] = "[{\"role\":\"user\",\"content\":\"Tell me something, please.\"}]";

static struct forge_generate_result generate(struct forge_session *s, const int32_t *ids, size_t n,
                                             struct forge_generate_options o, struct collected *c)
{
    struct forge_generate_result r;
    struct fg_error err = {0};
    int64_t stop_after = c->stop_after;
    memset(c, 0, sizeof *c);
    c->stop_after = stop_after;
    c->sees_logits = o.sampling.temperature > 0 || o.keep_logits;
    o.on_token = collect;
    o.ctx = c;
    if (forge_generate(s, ids, (int64_t)n, &o, &r, &err))
        fail_msg("%s %s: %s", err.what, err.field, err.found);
    return r;
}

static void text_is_the_same_however_it_is_made(void **state)
{
    (void)state;
    struct forge_engine *e = engine("chat-tiny", false);
    struct fg_error err;
    int32_t *ids;
    size_t n;
    assert_int_equal(forge_encode_chat(e, MESSAGES, strlen(MESSAGES), NULL, &ids, &n, &err), 0);
    for (int greedy = 0; greedy < 2; greedy++) {
        struct forge_generate_options o = {.max_tokens = 60, .ignore_stop_tokens = true};
        if (!greedy)
            o.sampling = (struct forge_sampling){
                .temperature = 1, .top_k = 20, .top_p = 0.95, .seed = 42, .presence = 0.5};
        static struct collected first, c;
        struct forge_session *s = session(e, 1024, 512);
        struct forge_generate_result r = generate(s, ids, n, o, &first);
        assert_int_equal(r.generated_tokens, 60);
        assert_int_equal(r.cached_tokens, 0);
        assert_int_equal(r.finish, FORGE_FINISH_LENGTH);
        // Again in the same session: the prompt is not run again (a hybrid's state can't be cut, so
        // it is here), same text.
        generate(s, ids, n, o, &c);
        assert_memory_equal(c.ids, first.ids, sizeof c.ids);
        forge_session_free(s);
        // One row at a time, and with all logits of a greedy reply.
        s = session(e, 1024, 1);
        o.keep_logits = true;
        generate(s, ids, n, o, &c);
        o.keep_logits = false;
        assert_memory_equal(c.ids, first.ids, sizeof c.ids);
        assert_int_equal(c.text_n, first.text_n);
        assert_memory_equal(c.text, first.text, c.text_n);
        // What was generated so far, given as a prompt, goes on with the same tokens, and nothing
        // is run twice.
        int32_t longer[512];
        memcpy(longer, ids, n * sizeof *ids);
        memcpy(longer + n, first.ids, 25 * sizeof *ids);
        forge_session_reset(s);
        o.max_tokens = 25;
        generate(s, ids, n, o, &c);
        o.max_tokens = 35;
        o.sampling.presence = 0; // the penalty counts output only, and the output is now shorter
        r = generate(s, longer, n + 25, o, &c);
        assert_int_equal(r.cached_tokens, n + 24);
        if (greedy) assert_memory_equal(c.ids, first.ids + 25, 35 * sizeof *ids);
        forge_session_free(s);
        // The streamed text is what decoding all ids at once gives.
        char *text;
        size_t text_n;
        assert_int_equal(
            forge_detokenize(e, first.ids, (size_t)first.n, true, &text, &text_n, &err), 0);
        assert_int_equal(text_n, first.text_n);
        assert_memory_equal(text, first.text, text_n);
        free(text);
    }
    free(ids);
    forge_engine_close(e);
}

static void says_what_ends_a_reply(void **state)
{
    (void)state;
    struct forge_engine *e = engine("chat-tiny", false), *bare = engine("chat-tiny", true);
    const int32_t *ids;
    assert_int_equal(forge_stop_ids(e, &ids), 2);
    assert_int_equal(ids[0], 268);
    assert_int_equal(ids[1], 270);
    assert_int_equal(forge_stop_ids(bare, &ids), 0);
    assert_null(ids);
    forge_engine_close(bare);
    forge_engine_close(e);
}

static void stop_strings_end_the_text(void **state)
{
    (void)state;
    struct forge_engine *e = engine("chat-tiny", false);
    struct fg_error err;
    static struct collected whole, c;
    int32_t *ids;
    size_t n;
    assert_int_equal(forge_tokenize(e, "Once upon a time", 16, true, &ids, &n, &err), 0);
    struct forge_generate_options o = {.max_tokens = 80, .ignore_stop_tokens = true};
    struct forge_session *s = session(e, 1024, 64);
    generate(s, ids, n, o, &whole);
    assert_true(whole.text_n > 12);
    // Every stretch of the text as a stop string: the text ends right before its first place.
    for (size_t at = 0; at + 5 < whole.text_n; at += 3) {
        char stop[6] = {0};
        memcpy(stop, whole.text + at, 5);
        if (memchr(stop, 0, 5)) continue;
        const char *stops[] = {"never in the text, not in a million years", stop};
        o.stop = stops;
        o.n_stop = 2;
        struct forge_generate_result r = generate(s, ids, n, o, &c);
        const char *want = memmem(whole.text, whole.text_n, stop, 5);
        assert_int_equal(r.finish, FORGE_FINISH_STOP);
        assert_int_equal(c.text_n, want - whole.text);
        assert_memory_equal(c.text, whole.text, c.text_n);
    }
    // One that never comes changes nothing, however much of it shows up at the end.
    char tail[16] = {0};
    memcpy(tail, whole.text + whole.text_n - 4, 4);
    strcat(tail, "@@@@");
    const char *never[] = {tail, ""};
    o.stop = never;
    struct forge_generate_result r = generate(s, ids, n, o, &c);
    assert_int_equal(r.finish, FORGE_FINISH_LENGTH);
    assert_int_equal(c.text_n, whole.text_n);
    assert_memory_equal(c.text, whole.text, whole.text_n);
    forge_session_free(s);
    free(ids);
    forge_engine_close(e);
}

static void limits_and_cancelling(void **state)
{
    (void)state;
    struct forge_engine *e = engine("chat-tiny", false);
    struct fg_error err;
    static struct collected c;
    int32_t *ids;
    size_t n;
    assert_int_equal(forge_tokenize(e, "Once upon a time", 16, true, &ids, &n, &err), 0);
    struct forge_generate_options o = {.max_tokens = 500, .ignore_stop_tokens = true};
    // The context ends the reply; the last token needs no room.
    struct forge_session *s = session(e, (int64_t)n + 10, 64);
    struct forge_generate_result r = generate(s, ids, n, o, &c);
    assert_int_equal(r.finish, FORGE_FINISH_CONTEXT);
    assert_int_equal(r.generated_tokens, 11);
    c.stop_after = 4;
    r = generate(s, ids, n, o, &c);
    assert_int_equal(r.finish, FORGE_FINISH_CANCELLED);
    assert_int_equal(r.generated_tokens, 4);
    // Too long a prompt, none, no room for a token: said before anything runs.
    int32_t *many = calloc(n + 11, sizeof *many);
    assert_int_equal(forge_generate(s, many, (int64_t)n + 11, &o, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "prompt");
    assert_int_equal(forge_generate(s, ids, 0, &o, &r, &err), FG_EINPUT);
    o.max_tokens = 0;
    assert_int_equal(forge_generate(s, ids, 1, &o, &r, &err), FG_EINPUT);
    o.max_tokens = 5;
    o.sampling.temperature = NAN;
    assert_int_equal(forge_generate(s, ids, 1, &o, &r, &err), FG_EINPUT);
    assert_string_equal(err.field, "temperature");
    free(many);
    forge_session_free(s);
    free(ids);
    forge_engine_close(e);
}

static void templates_take_requests_and_arguments(void **state)
{
    (void)state;
    struct forge_engine *e = engine("chat-tiny", false);
    struct forge_engine_info info;
    struct fg_error err = {0};
    char *a, *b;
    size_t na, nb;
    forge_engine_info(e, &info);
    assert_non_null(info.chat_template);
    // The same request as a bare list and as an object; arguments of the caller win.
    const char *object =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me something, please.\"}],"
        "\"chat_template_kwargs\":{\"enable_thinking\":false}}";
    const char *off = "{\"enable_thinking\":false}";
    assert_int_equal(forge_render_chat(e, MESSAGES, strlen(MESSAGES), off, &a, &na, &err), 0);
    assert_int_equal(forge_render_chat(e, object, strlen(object), NULL, &b, &nb, &err), 0);
    assert_string_equal(a, b);
    assert_non_null(strstr(a, "</think>"));
    free(b);
    assert_int_equal(
        forge_render_chat(e, object, strlen(object), "{\"enable_thinking\":true}", &b, &nb, &err),
        0);
    assert_string_not_equal(a, b);
    free(b);
    assert_int_equal(forge_render_chat(e, MESSAGES, strlen(MESSAGES),
                                       "{\"add_generation_prompt\":false}", &b, &nb, &err),
                     0);
    assert_null(strstr(b, "assistant"));
    free(b);
    free(a);
    static const char *const bad[] = {"",
                                      "[",
                                      "[]",
                                      "7",
                                      "{}",
                                      "{\"messages\":7}",
                                      "[{\"role\":\"nobody\",\"content\":\"x\"}]",
                                      "{\"messages\":[],\"chat_template_kwargs\":[]}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (forge_render_chat(e, bad[i], strlen(bad[i]), NULL, &a, &na, &err) != FG_EINPUT)
            fail_msg("accepted: %s", bad[i]);
        assert_null(a);
    }
    assert_int_equal(forge_render_chat(e, MESSAGES, strlen(MESSAGES), "[]", &a, &na, &err),
                     FG_EINPUT);
    forge_engine_close(e);
}

static void engines_say_what_is_missing(void **state)
{
    (void)state;
    struct fg_error err = {0};
    int32_t *ids;
    size_t n;
    char *text;
    struct forge_engine *e = engine("a-s0", false); // no tokenizer in that folder
    assert_int_equal(forge_tokenize(e, "x", 1, true, &ids, &n, &err), FG_EINPUT);
    assert_non_null(strstr(err.file, "tokenizer.json"));
    assert_int_equal(forge_render_chat(e, MESSAGES, strlen(MESSAGES), NULL, &text, &n, &err),
                     FG_EINPUT);
    forge_engine_close(e);

    e = engine("chat-tiny", true);
    assert_int_equal(forge_tokenize(e, "x", 1, true, &ids, &n, &err), FG_EINPUT);
    forge_engine_close(e);

    struct forge_engine_options o = {.model = "/nowhere/at/all"};
    assert_int_equal(forge_engine_open(&e, &o, &err), FG_EINPUT);
    assert_null(e);
    o.isa = "avx9000";
    assert_int_equal(forge_engine_open(&e, &o, &err), FG_EINPUT);
    o = (struct forge_engine_options){0};
    assert_int_equal(forge_engine_open(&e, &o, &err), FG_EINPUT);
}

static void logprobs_and_top_ids(void **state)
{
    (void)state;
    const float row[6] = {1, 3, NAN, 3, -2, 0};
    int32_t top[6];
    double lp[2];
    forge_top_ids(row, 6, 3, top);
    assert_int_equal(top[0], 1);
    assert_int_equal(top[1], 3);
    assert_int_equal(top[2], 0);
    const int32_t ids[2] = {1, 4};
    forge_logprobs(row, 6, ids, 2, lp);
    double sum = exp(1) + 2 * exp(3) + exp(-2) + 1;
    assert_true(fabs(lp[0] - (3 - log(sum))) < 1e-12);
    assert_true(fabs(lp[1] - (-2 - log(sum))) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_the_same_however_it_is_made),
        cmocka_unit_test(says_what_ends_a_reply),
        cmocka_unit_test(stop_strings_end_the_text),
        cmocka_unit_test(limits_and_cancelling),
        cmocka_unit_test(templates_take_requests_and_arguments),
        cmocka_unit_test(engines_say_what_is_missing),
        cmocka_unit_test(logprobs_and_top_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
