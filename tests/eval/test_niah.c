// Facts in long prompts: the text that is made, prompts of their length, scores, and that no
// context shows in a result.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "eval/niah.h"
#include "eval/niah_prompt.h"
#include <inttypes.h>
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

static struct fg_buf sentences_of(uint64_t seed, size_t bytes)
{
    struct fg_buf b = {0};
    fg_haystack_sentences(&b, seed, bytes);
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

static bool same_fact(const struct fg_needle *a, const struct fg_needle *b)
{
    return strcmp(a->key, b->key) == 0 || strcmp(a->code, b->code) == 0;
}

// Every fact is a line of its own at its byte, the haystack is whole around them, and the question
// names the keys in order.
static void the_text_has_its_facts(void **state)
{
    (void)state;
    static const char hay[] = "One sentence here. Another\none, and then a third.";
    const size_t n = sizeof hay - 1;
    for (uint64_t seed = 0; seed < 200; seed++) {
        int asked = 1 + (int)(seed % FG_NEEDLES_MAX), all = asked + FG_NEEDLE_DISTRACTORS;
        struct fg_needles f;
        fg_needles_make(&f, seed, asked);
        const struct fg_needle *facts[FG_NEEDLES_MAX + FG_NEEDLE_DISTRACTORS];
        size_t at[FG_NEEDLES_MAX + FG_NEEDLE_DISTRACTORS];
        for (int i = 0; i < all; i++) {
            facts[i] = i < asked ? &f.asked[i] : &f.others[i - asked];
            at[i] = (size_t)(i * 7 + (int)seed) % (n + 1);
            assert_int_equal(strlen(facts[i]->code), 7);
            assert_int_equal(strspn(facts[i]->code, "0123456789"), 7);
            assert_true(facts[i]->code[0] != '0');
            for (int j = 0; j < i; j++)
                assert_false(same_fact(facts[i], facts[j]));
        }
        for (int i = 0; i < FG_NEEDLE_DISTRACTORS; i++)
            assert_true(f.other_share[i] >= 0 && f.other_share[i] < 1);
        struct fg_buf b = {0};
        fg_haystack_text(&b, &f, hay, n, at, at + asked, false);
        const char *question = strstr(b.data, "\n\nQuestion: ");
        assert_non_null(question);
        for (int i = 0; i < all; i++) {
            char line[FG_NEEDLE_LINE], alone[FG_NEEDLE_LINE + 2];
            snprintf(alone, sizeof alone, "\n%s\n", fg_needle_line(line, facts[i]));
            assert_int_equal(count(b.data, alone), 1);
            assert_int_equal(count(b.data, facts[i]->code), 1);
            // Before it: the haystack up to its byte, but for the facts and their line ends.
            const char *here = strstr(b.data, line), *from = strstr(b.data, "question at the end.");
            size_t seen = 0;
            for (from = strstr(from, "\n\n") + 2; from < here;) {
                if (strncmp(from, "The access code of the ", 23) == 0)
                    from = strchr(from, '\n') + 1;
                else if (*from == hay[seen])
                    seen++, from++;
                else
                    assert_true(*from++ == '\n');
            }
            assert_true(seen == at[i] || (seen == at[i] + 1 && hay[at[i]] == '\n'));
        }
        const char *key = question;
        for (int i = 0; i < asked; i++) {
            key = strstr(key, f.asked[i].key);
            assert_non_null(key);
        }
        for (int i = 0; i < FG_NEEDLE_DISTRACTORS; i++)
            assert_null(strstr(question, f.others[i].key));
        assert_non_null(
            strstr(question, asked == 1 ? "Answer with the number alone." : "in this order"));
        fg_buf_clear(&b);
        fg_haystack_text(&b, &f, hay, n, at, at + asked, true);
        // An open text stops where the codes would follow.
        const char *end = asked == 1 ? " is" : " are";
        assert_string_equal(b.data + b.len - strlen(end), end);
        fg_buf_free(&b);
    }
}

static void seeds_and_lengths(void **state)
{
    (void)state;
    struct fg_buf a = sentences_of(5, 6000), same = sentences_of(5, 6000);
    struct fg_buf other = sentences_of(6, 6000), longer = sentences_of(5, 20000);
    assert_in_range(a.len, 6000, 6300);
    assert_int_equal(a.len, same.len);
    assert_memory_equal(a.data, same.data, a.len);
    assert_memory_not_equal(a.data, other.data, 1000);
    assert_memory_equal(a.data, longer.data, a.len);
    // Nothing in the filler looks like a code.
    assert_int_equal(longer.data[strcspn(longer.data, "0123456789")], '\0');
    assert_null(strstr(longer.data, "access code"));
    struct fg_buf *all[] = {&a, &same, &other, &longer};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        fg_buf_free(all[i]);
}

static void replies_have_their_scores(void **state)
{
    (void)state;
    static const struct {
        int codes;
        const char *reply;
        int found;
        bool value, format, exact;
    } cases[] = {
        {1, "1111111", 1, true, true, true},
        {1, " \n1111111\n", 1, true, true, true},
        {1, "The code is 1111111.", 1, true, false, false},
        {1, "1111111.", 1, true, false, false},
        {1, "1111111,", 1, true, false, false},
        {1, "2222222", 0, false, true, false},
        {1, "111111", 0, false, false, false},
        {1, "11111112", 1, true, false, false},
        {1, "1111111 2222222", 1, true, false, false},
        {1, "", 0, false, false, false},
        {3, "1111111, 2222222, 3333333", 3, true, true, true},
        {3, "1111111\n2222222\n3333333\n", 3, true, true, true},
        {3, "2222222, 1111111, 3333333", 3, true, true, false},
        {3, "1111111, 2222222", 2, false, false, false},
        {3, "1111111, 2222222, 9999999", 2, false, true, false},
        {3, "1111111, 1111111, 1111111", 1, false, true, false},
        {3, "1111111, 2222222, 3333333, 4444444", 3, true, false, false},
        {3, "1111111, 2222222 and 3333333", 3, true, false, false},
        {3, ", 1111111, 2222222, 3333333", 3, true, false, false},
        {3, "111111122222223333333", 3, true, false, false},
        {3, "I don't know.", 0, false, false, false},
    };
    struct fg_needles f = {0};
    for (int i = 0; i < 3; i++)
        memset(f.asked[i].code, '1' + i, FG_NEEDLE_CODE - 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        f.n = cases[i].codes;
        struct fg_needle_score s = fg_needle_score(&f, cases[i].reply);
        if (s.n_found != cases[i].found || s.value != cases[i].value ||
            s.format != cases[i].format || s.exact != cases[i].exact)
            fail_msg("'%s': found %d, value %d, format %d, exact %d", cases[i].reply, s.n_found,
                     s.value, s.format, s.exact);
        for (int k = 0; k < f.n; k++)
            assert_int_equal(s.found[k], strstr(cases[i].reply, f.asked[k].code) != NULL);
    }
}

static struct fg_niah_result run(const struct fg_niah *job)
{
    struct fg_error err = {0};
    struct fg_niah_result r;
    check(fg_niah_run(job, &r, &err), &err);
    return r;
}

// What a place of a prompt is, counted anew: the tokens of the text before the fact's line.
static void check_place(const struct fg_niah_case *c, const struct fg_niah_fact *f, double share)
{
    assert_int_equal(f->hay_at, (int64_t)(share * (double)c->hay_tokens + 0.5));
    assert_in_range(f->at, f->hay_at, c->prompt_tokens - 1);
    // Before it stand introduction and template, and at most all the other facts.
    assert_true(f->at - f->hay_at < c->prompt_tokens - c->hay_tokens);
}

static void prompts_have_their_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = {800, 1500, 3000};
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
        assert_int_equal(fg_niah_cases(&job), 18);
        assert_int_equal(r.n_cases, 18);
        for (int i = 0; i < r.n_cases; i++) {
            const struct fg_niah_case *c = &r.cases[i];
            assert_int_equal(c->length, lengths[i / 6]);
            assert_int_equal(c->depth, depths[i / 2 % 3]);
            assert_int_equal(c->seed, 11 + i % 2);
            assert_in_range(c->prompt_tokens, c->length - 16 - 4, c->length - 16);
            assert_int_equal(c->n_facts, 1);
            check_place(c, &c->facts[0], c->depth / 100.0);
            assert_int_equal(strlen(c->prompt_hex), 64);
            assert_true(isfinite(c->logprob) && c->logprob < 0);
            assert_true(c->answer_tokens >= 1 && c->answer_tokens <= 8);
            assert_false(c->exact); // random weights
            assert_true(i == 0 || strcmp(c->prompt_hex, r.cases[i - 1].prompt_hex) != 0);
        }
        struct fg_niah_cell cell = fg_niah_cell(&r, 1500, 50);
        assert_int_equal(cell.cases, 2);
        assert_int_equal(cell.codes, 2);
        assert_int_equal(cell.value, r.cases[8].value + r.cases[9].value);
        assert_int_equal(cell.found, r.cases[8].n_found + r.cases[9].n_found);
        assert_true(cell.exact == 0 &&
                    cell.logprob == (r.cases[8].logprob + r.cases[9].logprob) / 2);
        assert_int_equal(fg_niah_cell(&r, 1501, 50).cases, 0);
        fg_niah_free(&r);
    }
}

// Several codes: spread over the text, all of them in the answer that is tried.
static void several_codes_are_spread(void **state)
{
    (void)state;
    static const int64_t length = 3000;
    const struct fg_niah job = {.side = {.engine = engine},
                                .lengths = &length,
                                .n_lengths = 1,
                                .multi = 6,
                                .trials = 2,
                                .seed = 4,
                                .reply_max = 20};
    struct fg_niah_result r = run(&job);
    assert_int_equal(fg_niah_cases(&job), 2);
    assert_int_equal(r.n_cases, 2);
    for (int t = 0; t < 2; t++) {
        const struct fg_niah_case *c = &r.cases[t];
        struct fg_needles f;
        fg_needles_make(&f, 4 + (uint64_t)t, 6);
        assert_int_equal(c->depth, -1);
        assert_int_equal(c->n_facts, 6);
        assert_in_range(c->prompt_tokens, length - 96 - 4, length - 96); // room for the answer
        for (int i = 0; i < 6; i++) {
            check_place(c, &c->facts[i], (2 * i + 1) / 12.0);
            assert_string_equal(c->facts[i].needle.code, f.asked[i].code);
            assert_true(i == 0 || c->facts[i].at > c->facts[i - 1].at + 300);
        }
        // Five commas and blanks beside the six codes.
        struct fg_error err = {0};
        char answer[64] = "";
        for (int i = 0; i < 6; i++)
            snprintf(answer + strlen(answer), sizeof answer - strlen(answer), "%s%s", i ? ", " : "",
                     f.asked[i].code);
        int32_t *ids;
        size_t n;
        check(forge_tokenize(engine, answer, strlen(answer), false, &ids, &n, &err), &err);
        assert_int_equal(c->answer_tokens, n);
        assert_true(n > 16); // more than one block of logits
        free(ids);
    }
    struct fg_niah_cell cell = fg_niah_cell(&r, length, -1);
    assert_int_equal(cell.cases, 2);
    assert_int_equal(cell.codes, 12);
    fg_niah_free(&r);
}

// A text of somebody: cut from its start to the length, between characters.
static void a_text_is_the_haystack(void **state)
{
    (void)state;
    static const char part[] = "Das M\xc3\xbchlrad drehte sich \xe2\x80\x93 \xf0\x9f\x8c\x8a. ";
    static const int64_t length = 1600;
    static const int depths[] = {0, 33, 67, 100};
    struct fg_error err = {0};
    struct fg_buf text = {0};
    for (int i = 0; i < 200; i++)
        fg_buf_printf(&text, "%d%s", i, part);
    int32_t *ids;
    size_t n;
    check(forge_tokenize(engine, text.data, text.len, false, &ids, &n, &err), &err);
    assert_true(n > 2000);
    struct fg_niah job = {.side = {.engine = engine},
                          .lengths = &length,
                          .n_lengths = 1,
                          .depths = depths,
                          .n_depths = 4,
                          .trials = 1,
                          .seed = 2,
                          .text = ids,
                          .n_text = (int64_t)n,
                          .text_name = "book.txt",
                          .reply_max = 4};
    struct fg_niah_result r = run(&job);
    assert_int_equal(r.n_cases, 4);
    struct fg_niah_hay hay;
    check(fg_niah_hay_take(&hay, engine, ids, (int64_t)n, &err), &err);
    assert_int_equal(hay.bytes, text.len);
    assert_memory_equal(hay.text, text.data, text.len);
    for (int i = 0; i < 4; i++) {
        const struct fg_niah_case *c = &r.cases[i];
        // A character is up to four tokens: where a place would part one, the nearest is taken.
        assert_in_range(c->prompt_tokens, length - 16 - 8, length - 16);
        double from = depths[i] / 100.0 * (double)c->hay_tokens;
        assert_true(fabs((double)c->facts[0].hay_at - from) <= 2.5);
        // The prompt again: its text must be the haystack, whole, with the lines in it.
        struct fg_niah_ask ask = {.engine = engine};
        struct fg_niah_prompt p;
        char hex[FG_SHA256_HEX];
        fg_needles_make(&ask.facts, 2, 1);
        ask.share[0] = depths[i] / 100.0;
        check(fg_niah_prompt_fit(&p, &ask, &hay, length - 16, &err), &err);
        assert_true(fg_sha256_hex(p.ids, (uint64_t)p.n * sizeof *p.ids, hex));
        assert_string_equal(hex, c->prompt_hex);
        char *said, line[FG_NEEDLE_LINE];
        size_t n_said, n_before;
        check(forge_detokenize(engine, p.ids, (size_t)p.n, false, &said, &n_said, &err), &err);
        assert_null(strstr(said, "\xef\xbf\xbd")); // no character is cut
        const char *at = strstr(said, fg_needle_line(line, &ask.facts.asked[0]));
        assert_non_null(at);
        int32_t *before;
        check(forge_tokenize(engine, said, (size_t)(at - said), true, &before, &n_before, &err),
              &err);
        assert_int_equal(n_before, c->facts[0].at);
        free(before);
        free(said);
        fg_niah_prompt_free(&p);
    }
    fg_niah_free(&r);
    // As many tokens as the prompt needs are enough, one less is not.
    int64_t needed = 0;
    job.n_text = 1;
    assert_int_equal(fg_niah_run(&job, &r, &err), FG_EINPUT);
    assert_string_equal(err.file, "book.txt");
    assert_int_equal(sscanf(err.expected, "at least %" SCNd64 " tokens", &needed), 1);
    assert_string_equal(err.found, "1");
    assert_int_equal(r.n_cases, 0);
    fg_niah_free(&r);
    job.n_text = needed - 1;
    assert_int_equal(fg_niah_run(&job, &r, &err), FG_EINPUT);
    fg_niah_free(&r);
    job.n_text = needed;
    r = run(&job);
    assert_in_range(r.cases[0].hay_tokens, needed - 4, needed);
    assert_in_range(r.cases[0].prompt_tokens, length - 16 - 8, length - 16);
    fg_niah_free(&r);
    fg_niah_hay_free(&hay);
    fg_buf_free(&text);
    free(ids);
}

// Tokens that join when the text is tokenized again leave room, which more of the haystack fills.
static void joined_tokens_leave_room(void **state)
{
    (void)state;
    struct fg_error err = {0};
    struct fg_buf text = sentences_of(9, 4000);
    int32_t *ids = malloc(text.len * sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        int32_t *one;
        size_t count;
        check(forge_tokenize(engine, text.data + i, 1, false, &one, &count, &err), &err);
        assert_int_equal(count, 1);
        ids[n++] = one[0];
        free(one);
    }
    struct fg_niah_hay hay;
    struct fg_niah_ask ask = {.engine = engine, .share = {0.5}, .raw = true};
    struct fg_niah_prompt p;
    fg_needles_make(&ask.facts, 9, 1);
    check(fg_niah_hay_take(&hay, engine, ids, (int64_t)n, &err), &err);
    check(fg_niah_prompt_fit(&p, &ask, &hay, 2500, &err), &err);
    assert_in_range(p.n, 2500 - 2, 2500);
    int64_t parts = p.hay_tokens;
    fg_niah_prompt_free(&p);
    check(fg_niah_prompt_fit(&p, &ask, &(struct fg_niah_hay){.text = ""}, 2500, &err), &err);
    assert_true(parts > 2500 - p.n + 10); // it did join
    fg_niah_prompt_free(&p);
    fg_niah_hay_free(&hay);
    fg_buf_free(&text);
    free(ids);
}

static int add_text(void *ctx, int32_t id, const char *text, size_t n, const float *logits)
{
    (void)id;
    (void)logits;
    fg_buf_add(ctx, text, n);
    return 0;
}

// The answer's probability is that of its tokens run one after the other, and the reply what
// generating from an empty session gives.
static void scores_are_of_the_prompt(void **state)
{
    (void)state;
    static const int64_t length = 1500;
    static const int depth = 30;
    for (int multi = 0; multi <= 9; multi += 9) {
        const struct fg_niah job = {.side = {.engine = engine},
                                    .lengths = &length,
                                    .n_lengths = 1,
                                    .depths = multi ? NULL : &depth,
                                    .n_depths = multi ? 0 : 1,
                                    .multi = multi,
                                    .trials = 1,
                                    .seed = 8,
                                    .reply_max = 300,
                                    .raw = true};
        struct fg_niah_result r = run(&job);
        const struct fg_niah_case *c = &r.cases[0];
        struct fg_error err = {0};
        struct fg_niah_ask ask = {.engine = engine, .share = {0.3}, .raw = true};
        struct fg_niah_hay hay;
        struct fg_niah_prompt p;
        struct forge_engine_info info;
        forge_engine_info(engine, &info);
        fg_needles_make(&ask.facts, 8, multi ? multi : 1);
        for (int i = 0; i < multi; i++)
            ask.share[i] = (2 * i + 1) / 18.0;
        check(fg_niah_hay_sentences(&hay, engine, 8, length, &err), &err);
        check(fg_niah_prompt_fit(&p, &ask, &hay, c->prompt_tokens, &err), &err);
        assert_int_equal(p.n, c->prompt_tokens);
        char text[96] = "";
        for (int i = 0; i < ask.facts.n; i++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? ", " : " ",
                     ask.facts.asked[i].code);
        int32_t *answer;
        size_t n_answer;
        check(forge_tokenize(engine, text, strlen(text), false, &answer, &n_answer, &err), &err);
        assert_int_equal(n_answer, c->answer_tokens);
        struct forge_session *s;
        const struct forge_session_options o = {.capacity = 4096};
        check(forge_session_new(&s, engine, &o, &err), &err);
        float *logits = malloc((size_t)info.vocab * sizeof *logits);
        double logprob = 0;
        check(forge_session_run(s, p.ids, p.n, logits, 1, NULL, NULL, &err), &err);
        for (size_t i = 0; i < n_answer; i++) {
            double lp;
            forge_logprobs(logits, info.vocab, &answer[i], 1, &lp);
            logprob += lp;
            check(forge_session_run(s, &answer[i], 1, logits, 1, NULL, NULL, &err), &err);
        }
        assert_true(fabs(logprob - c->logprob) < 1e-9 * fabs(logprob));
        // The reply: greedy, from an empty session.
        forge_session_reset(s);
        static const char *const ends[] = {".", "\n"};
        struct fg_buf reply = {0};
        fg_buf_add(&reply, "", 0);
        const struct forge_generate_options g = {
            .max_tokens = 300, .stop = ends, .n_stop = 2, .on_token = add_text, .ctx = &reply};
        struct forge_generate_result result;
        check(forge_generate(s, p.ids, p.n, &g, &result, &err), &err);
        assert_string_equal(reply.data, c->reply);
        assert_true(multi == 0 || result.generated_tokens < 100); // it wrote a stop
        fg_buf_free(&reply);
        forge_session_free(s);
        fg_niah_prompt_free(&p);
        fg_niah_hay_free(&hay);
        free(logits);
        free(answer);
        fg_niah_free(&r);
    }
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
            assert_string_equal(r.cases[c].prompt_hex, first.cases[c].prompt_hex);
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
        cmocka_unit_test(replies_have_their_scores), cmocka_unit_test(prompts_have_their_length),
        cmocka_unit_test(several_codes_are_spread),  cmocka_unit_test(a_text_is_the_haystack),
        cmocka_unit_test(joined_tokens_leave_room),  cmocka_unit_test(scores_are_of_the_prompt),
        cmocka_unit_test(contexts_do_not_show),      cmocka_unit_test(stopping_keeps_what_is_done),
        cmocka_unit_test(what_is_refused),
    };
    return cmocka_run_group_tests_name("niah", tests, open_engine, close_engine);
}
