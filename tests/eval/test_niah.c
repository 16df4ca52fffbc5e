// Facts in long prompts: the text that is made, prompts of their length, scores, and that no
// context shows in a result.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "eval/niah.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAT FORGE_GOLDEN_DIR "/models/chat-tiny"

static struct forge_engine *engine;

static void check(int rc, const struct fg_error *err)
{
    char line[1024];
    if (rc) fail_msg("%s", fg_error_line(err, line, sizeof line));
}

static struct fg_buf text_of(uint64_t seed, int64_t n, int64_t before, bool open, size_t *at)
{
    struct fg_haystack h;
    struct fg_buf b = {0};
    fg_haystack_make(&h, seed);
    fg_haystack_text(&b, &h, n, before, open, at);
    assert_false(b.failed);
    return b;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

static void the_text_has_its_facts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct fg_haystack h;
        size_t at;
        char fact[128];
        fg_haystack_make(&h, seed);
        assert_int_equal(strlen(h.needle.code), 7);
        assert_int_equal(strspn(h.needle.code, "0123456789"), 7);
        for (int i = 0; i < FG_NEEDLE_DISTRACTORS; i++) {
            assert_string_not_equal(h.needle.key, h.others[i].key);
            assert_string_not_equal(h.needle.code, h.others[i].code);
            for (int j = 0; j < i; j++)
                assert_string_not_equal(h.others[i].key, h.others[j].key);
        }
        struct fg_buf b = text_of(seed, 40, (int64_t)(seed % 41), false, &at);
        snprintf(fact, sizeof fact, "The access code of the %s is %s.", h.needle.key,
                 h.needle.code);
        assert_int_equal(strncmp(b.data + at, fact, strlen(fact)), 0);
        assert_int_equal(count(b.data, fact), 1);
        assert_int_equal(count(b.data, h.needle.code), 1);
        assert_int_equal(count(b.data, "The access code of the "), 1 + FG_NEEDLE_DISTRACTORS);
        for (int i = 0; i < FG_NEEDLE_DISTRACTORS; i++)
            assert_int_equal(count(b.data, h.others[i].code), 1);
        assert_non_null(strstr(b.data, "Answer with the number alone."));
        fg_buf_free(&b);
    }
}

static void seeds_and_lengths(void **state)
{
    (void)state;
    size_t at, early, late;
    struct fg_buf a = text_of(5, 60, 30, false, &at), same = text_of(5, 60, 30, false, &at);
    struct fg_buf other = text_of(6, 60, 30, false, &at);
    assert_int_equal(a.len, same.len);
    assert_memory_equal(a.data, same.data, a.len);
    assert_false(a.len == other.len && memcmp(a.data, other.data, a.len) == 0);
    struct fg_buf first = text_of(5, 60, 0, true, &early), last = text_of(5, 60, 60, true, &late);
    assert_true(early < 200 && late > first.len * 9 / 10);
    assert_int_equal(first.len, last.len);
    // An open text stops where the code would follow.
    const char *end = " is";
    assert_memory_equal(last.data + last.len - 3, end, 3);
    // Nothing in the filler looks like a code.
    struct fg_buf empty = text_of(5, 0, 0, false, &at), filled = text_of(5, 400, 0, false, &at);
    int digits = 0, filled_digits = 0;
    for (size_t i = 0; i < empty.len; i++)
        digits += empty.data[i] >= '0' && empty.data[i] <= '9';
    for (size_t i = 0; i < filled.len; i++)
        filled_digits += filled.data[i] >= '0' && filled.data[i] <= '9';
    assert_int_equal(digits, 7 * (1 + FG_NEEDLE_DISTRACTORS));
    assert_int_equal(filled_digits, digits);
    struct fg_buf *all[] = {&a, &same, &other, &first, &last, &empty, &filled};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        fg_buf_free(all[i]);
}

static struct fg_niah_result run(const struct fg_niah *job)
{
    struct fg_error err = {0};
    struct fg_niah_result r;
    check(fg_niah_run(job, &r, &err), &err);
    return r;
}

static void prompts_have_their_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = {700, 1500, 3000};
    static const int depths[] = {0, 50, 100};
    for (int raw = 0; raw < 2; raw++) {
        const struct fg_niah job = {.side = {.engine = engine},
                                    .lengths = lengths,
                                    .n_lengths = 3,
                                    .depths = depths,
                                    .n_depths = 3,
                                    .trials = 2,
                                    .seed = 11,
                                    .reply_max = 8,
                                    .raw = raw};
        struct fg_niah_result r = run(&job);
        assert_int_equal(r.n_cases, 18);
        for (int i = 0; i < r.n_cases; i++) {
            const struct fg_niah_case *c = &r.cases[i];
            assert_int_equal(c->length, lengths[i / 6]);
            assert_int_equal(c->depth, depths[i / 2 % 3]);
            assert_int_equal(c->seed, 11 + i % 2);
            // A sentence of this tokenizer is at most as many tokens as bytes: below 200.
            assert_in_range(c->prompt_tokens, c->length - 16 - 200, c->length - 16);
            int64_t from = c->prompt_tokens * c->depth / 100;
            assert_true(llabs(c->needle_at - from) < 400);
            assert_true(c->needle_at < c->prompt_tokens);
            assert_true(isfinite(c->logprob) && c->logprob < 0);
            assert_true(c->answer_tokens >= 1 && c->answer_tokens <= 8);
            assert_false(c->exact); // random weights
        }
        struct fg_niah_cell cell = fg_niah_cell(&r, 1500, 50);
        assert_int_equal(cell.cases, 2);
        assert_int_equal(cell.value, r.cases[8].value + r.cases[9].value);
        assert_true(cell.exact == 0 &&
                    cell.logprob == (r.cases[8].logprob + r.cases[9].logprob) / 2);
        assert_int_equal(fg_niah_cell(&r, 1501, 50).cases, 0);
        fg_niah_free(&r);
    }
}

// The answer's probability is that of its tokens run one after the other, and the reply what
// generating from an empty session gives.
static void scores_are_of_the_prompt(void **state)
{
    (void)state;
    static const int64_t length = 900;
    static const int depth = 30;
    const struct fg_niah job = {.side = {.engine = engine},
                                .lengths = &length,
                                .n_lengths = 1,
                                .depths = &depth,
                                .n_depths = 1,
                                .trials = 1,
                                .seed = 3,
                                .reply_max = 12,
                                .raw = true};
    struct fg_niah_result r = run(&job);
    const struct fg_niah_case *c = &r.cases[0];
    // The text again: as many sentences as give as many tokens.
    struct fg_error err = {0};
    struct fg_haystack h;
    struct forge_engine_info info;
    forge_engine_info(engine, &info);
    fg_haystack_make(&h, 3);
    int32_t *ids = NULL, *answer;
    size_t n = 0, n_answer;
    for (int64_t s = 0; (int64_t)n != c->prompt_tokens; s++) {
        struct fg_buf b = {0};
        size_t at;
        assert_true(s < 100);
        free(ids);
        fg_haystack_text(&b, &h, s, (s * depth + 50) / 100, true, &at);
        check(forge_tokenize(engine, b.data, b.len, true, &ids, &n, &err), &err);
        fg_buf_free(&b);
    }
    char text[16];
    snprintf(text, sizeof text, " %s", h.needle.code);
    check(forge_tokenize(engine, text, strlen(text), false, &answer, &n_answer, &err), &err);
    assert_int_equal(n_answer, c->answer_tokens);
    struct forge_session *s;
    const struct forge_session_options o = {.capacity = 4096};
    check(forge_session_new(&s, engine, &o, &err), &err);
    float *logits = malloc((size_t)info.vocab * sizeof *logits);
    double logprob = 0;
    check(forge_session_run(s, ids, (int64_t)n, logits, 1, NULL, NULL, &err), &err);
    for (size_t i = 0; i < n_answer; i++) {
        double lp;
        forge_logprobs(logits, info.vocab, &answer[i], 1, &lp);
        logprob += lp;
        check(forge_session_run(s, &answer[i], 1, logits, 1, NULL, NULL, &err), &err);
    }
    assert_true(fabs(logprob - c->logprob) < 1e-9 * fabs(logprob));
    forge_session_free(s);
    free(logits);
    free(answer);
    free(ids);
    fg_niah_free(&r);
}

// The same answers and bits whatever context holds the prompt, growth in the middle included
// (specs: runtime 9.3, N7).
static void contexts_do_not_show(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1000, 9000};
    static const int64_t capacities[] = {9000, 12000, 70000}; // the last two start with 8192
    static const int depth = 40;
    struct fg_niah_result first = {0};
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        const struct fg_niah job = {
            .side = {.engine = engine,
                     .session = {.capacity = capacities[i], .kv_cache_dtype = "kv8"}},
            .lengths = lengths,
            .n_lengths = 2,
            .depths = &depth,
            .n_depths = 1,
            .trials = 1,
            .seed = 21,
            .reply_max = 10};
        struct fg_niah_result r = run(&job);
        assert_int_equal(r.n_cases, 2);
        if (i == 0) {
            first = r;
            continue;
        }
        for (int c = 0; c < 2; c++) {
            assert_memory_equal(&r.cases[c].logprob, &first.cases[c].logprob, sizeof(double));
            assert_string_equal(r.cases[c].reply, first.cases[c].reply);
            assert_int_equal(r.cases[c].prompt_tokens, first.cases[c].prompt_tokens);
        }
        fg_niah_free(&r);
    }
    fg_niah_free(&first);
}

static int stop_at(void *ctx, int64_t done, int64_t total)
{
    assert_true(done <= total);
    return done >= *(int64_t *)ctx;
}

static void stopping_keeps_what_is_done(void **state)
{
    (void)state;
    static const int64_t length = 800;
    static const int depths[] = {0, 100};
    int64_t at = 900;
    const struct fg_niah job = {.side = {.engine = engine},
                                .lengths = &length,
                                .n_lengths = 1,
                                .depths = depths,
                                .n_depths = 2,
                                .trials = 2,
                                .seed = 1,
                                .reply_max = 4,
                                .progress = stop_at,
                                .ctx = &at};
    struct fg_niah_result r = run(&job);
    assert_true(r.stopped);
    assert_int_equal(r.n_cases, 1);
    fg_niah_free(&r);
}

static void what_is_refused(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_niah_result r;
    int64_t length = 100;
    int depth = 50;
    struct fg_niah job = {.side = {.engine = engine},
                          .lengths = &length,
                          .n_lengths = 1,
                          .depths = &depth,
                          .n_depths = 1,
                          .trials = 1,
                          .reply_max = 64};
    assert_int_equal(fg_niah_run(&job, &r, &err), FG_EINPUT); // the question alone is longer
    assert_string_equal(err.field, "length");
    assert_int_equal(r.n_cases, 0);
    fg_niah_free(&r);
    length = 40; // shorter than the reply
    assert_int_equal(fg_niah_run(&job, &r, &err), FG_EINPUT);
    fg_niah_free(&r);
    length = 1 << 20;
    assert_int_equal(fg_niah_run(&job, &r, &err), FG_EINPUT);
    fg_niah_free(&r);
    length = 5000;
    job.side.session.capacity = 4000;
    assert_int_equal(fg_niah_run(&job, &r, &err), FG_EINPUT);
    fg_niah_free(&r);
    // Weights alone: no text can be made of them.
    const struct forge_engine_options bare = {
        .model = CHAT, .threads = 1, .numerics = FORGE_EXACT, .model_only = true};
    struct forge_engine *e;
    check(forge_engine_open(&e, &bare, &err), &err);
    job.side = (struct fg_eval_side){.engine = e};
    assert_int_equal(fg_niah_run(&job, &r, &err), FG_EINPUT);
    fg_niah_free(&r);
    forge_engine_close(e);
}

static int open_engine(void **state)
{
    (void)state;
    const struct forge_engine_options o = {.model = CHAT, .threads = 2, .numerics = FORGE_EXACT};
    return forge_engine_open(&engine, &o, NULL);
}

static int close_engine(void **state)
{
    (void)state;
    forge_engine_close(engine);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_has_its_facts),    cmocka_unit_test(seeds_and_lengths),
        cmocka_unit_test(prompts_have_their_length), cmocka_unit_test(scores_are_of_the_prompt),
        cmocka_unit_test(contexts_do_not_show),      cmocka_unit_test(stopping_keeps_what_is_done),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests_name("niah", tests, open_engine, close_engine);
}
