// Words by Unicode, runs of them, and the index over many sets: against counting by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "corpus/grams.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct fg_words words_of(const char *text)
{
    struct fg_words w = {0};
    assert_true(fg_words_add(&w, text, strlen(text)));
    return w;
}

// Number of words, and whether two texts have the same ones.
static size_t count(const char *text)
{
    struct fg_words w = words_of(text);
    size_t n = w.n;
    fg_words_free(&w);
    return n;
}

static bool same(const char *a, const char *b)
{
    struct fg_words x = words_of(a), y = words_of(b);
    bool equal = x.n == y.n && memcmp(x.hash, y.hash, x.n * sizeof *x.hash) == 0;
    fg_words_free(&x);
    fg_words_free(&y);
    return equal;
}

static void finds_words(void **state)
{
    (void)state;
    assert_int_equal(count(""), 0);
    assert_int_equal(count(" .,-!\n"), 0);
    assert_int_equal(count("one two,three"), 3);
    assert_int_equal(count("don't o'clock 'quoted'"), 3);
    assert_int_equal(count("rock'n'roll dogs'"), 2);
    assert_int_equal(count("snake_case x1 3.5"), 4); // "3" and "5" stand apart
    assert_int_equal(count("Straße ΑΒΓ Ёжик"), 3);
    assert_int_equal(count("漢字とかな"), 5);
    assert_int_equal(count("C言語 を使う"), 6); // c 言 語 を 使 う
    assert_int_equal(count("ที่นี่"), 2);           // letters with their marks
    assert_true(same("The Quick, brown FOX", "the quick brown fox"));
    assert_true(same("Ёжик ΑΒΓ", "ёжик αβγ"));
    assert_true(same("don\xE2\x80\x99t", "DON'T"));
    assert_false(same("ab c", "a bc"));
    assert_false(same("a b", "b a"));
    assert_false(same("don't", "dont"));
}

static struct fg_grams grams(const char *text, int order)
{
    struct fg_words w = words_of(text);
    struct fg_grams g;
    assert_true(fg_grams_of(&g, &w, order));
    fg_words_free(&w);
    return g;
}

static double likeness(const char *a, const char *b)
{
    struct fg_grams x = grams(a, 3), y = grams(b, 3);
    double j = fg_grams_jaccard(&x, &y);
    fg_grams_free(&x);
    fg_grams_free(&y);
    return j;
}

static void compares_sets(void **state)
{
    (void)state;
    assert_true(likeness("a b c d e", "a b c d e") == 1);
    assert_true(likeness("a b c d e", "A, B, C, D, E!") == 1);
    assert_true(likeness("", "") == 0);
    assert_true(likeness("a b c", "") == 0);
    assert_true(likeness("a b", "a b") == 1); // fewer words than a run
    assert_true(likeness("a b", "a b c") == 0);
    // {abc bcd cde} and {abc bcd cdx}: two of four.
    assert_true(fabs(likeness("a b c d e", "a b c d x") - 0.5) < 1e-15);
    // A run that repeats counts once: {aba bab}, {aba bab aba}.
    assert_true(likeness("a b a b", "a b a b a") == 1);
}

static void searches_many(void **state)
{
    (void)state;
    struct fg_gram_index x = {0};
    struct fg_grams g;
    struct fg_error err;
    int64_t set;
    double like;
    char text[128];
    g = grams("nothing is here yet", 3);
    assert_int_equal(fg_gram_index_like(&x, &g, &set, &like, &err), 0);
    assert_int_equal(set, -1);
    assert_int_equal(fg_gram_index_first(&x, &g), -1);
    fg_grams_free(&g);
    for (int i = 0; i < 2000; i++) { // tables grow several times
        snprintf(text, sizeof text, "w%d w%d w%d shared run of words %d", i, i + 1, i + 2, i % 7);
        g = grams(text, 3);
        assert_true(fg_gram_index_add(&x, &g));
        fg_grams_free(&g);
    }
    for (int i = 0; i < 2000; i += 333) {
        snprintf(text, sizeof text, "w%d w%d w%d shared run of words %d", i, i + 1, i + 2, i % 7);
        g = grams(text, 3);
        assert_int_equal(fg_gram_index_like(&x, &g, &set, &like, &err), 0);
        assert_int_equal(set, i);
        assert_true(like == 1);
        assert_int_equal(fg_gram_index_first(&x, &g), 0); // "shared run of" is in all
        fg_grams_free(&g);
    }
    g = grams("w1500 w1501 w1502 and then something else", 3);
    assert_int_equal(fg_gram_index_first(&x, &g), 1500);
    assert_int_equal(fg_gram_index_like(&x, &g, &set, &like, &err), 0);
    assert_int_equal(set, 1500);
    assert_true(fabs(like - 1.0 / 10) < 1e-15); // 6 and 5 runs, one shared
    fg_grams_free(&g);
    g = grams("nobody wrote these words", 3);
    assert_int_equal(fg_gram_index_first(&x, &g), -1);
    fg_grams_free(&g);
    fg_gram_index_free(&x);
}

static void keeps_ids(void **state)
{
    (void)state;
    struct fg_gram_set s = {0};
    int32_t ids[13];
    assert_false(fg_gram_set_has(&s, 5));
    for (int i = 0; i < 5000; i++) {
        for (int k = 0; k < 13; k++)
            ids[k] = i * k;
        assert_false(fg_gram_set_has(&s, fg_gram_ids(ids, 13)));
        assert_true(fg_gram_set_add(&s, fg_gram_ids(ids, 13)));
        assert_true(fg_gram_set_add(&s, fg_gram_ids(ids, 13)));
        assert_true(fg_gram_set_has(&s, fg_gram_ids(ids, 13)));
    }
    assert_int_equal(s.used, 5000);
    assert_true(fg_gram_set_add(&s, 0));
    assert_true(fg_gram_set_has(&s, 0));
    ids[0] = 0;
    assert_true(fg_gram_ids(ids, 0) != fg_gram_ids(ids, 1));
    fg_gram_set_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_words),
        cmocka_unit_test(compares_sets),
        cmocka_unit_test(searches_many),
        cmocka_unit_test(keeps_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
