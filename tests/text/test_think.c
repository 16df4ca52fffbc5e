// Splitting a reply into reasoning and content.
#include "text/think.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

enum { OPEN = 7, CLOSE = 8, WORD = 1 };

struct piece {
    int32_t id;
    const char *text;
};

// Feeds the pieces and compares both channels.
static void expect(bool inside, bool cut, const struct piece *pieces, const char *reasoning,
                   const char *content)
{
    struct fg_think t;
    struct fg_buf r = {0}, c = {0};
    fg_think_init(&t, OPEN, CLOSE, inside);
    for (const struct piece *p = pieces; p->text; p++)
        fg_think_push(&t, p->id, p->text, strlen(p->text), &r, &c);
    fg_think_end(&t, cut, &r, &c);
    fg_think_free(&t);
    assert_string_equal(r.data ? r.data : "", reasoning);
    assert_string_equal(c.data ? c.data : "", content);
    fg_buf_free(&r);
    fg_buf_free(&c);
}

#define P(...) ((const struct piece[]){__VA_ARGS__, {0, NULL}})

static void test_split(void **state)
{
    (void)state;
    expect(true, false,
           P({WORD, "\nso"}, {WORD, " it\n"}, {CLOSE, "</think>"}, {WORD, "\n\n"}, {WORD, "Yes."}),
           "so it", "Yes.");
    expect(false, false, P({WORD, "Yes."}), "", "Yes.");
    // Never closed: all of it is reasoning.
    expect(true, true, P({WORD, "hm"}, {WORD, " hm "}), "hm hm", "");
    // Closed at once.
    expect(true, false, P({CLOSE, "</think>"}, {WORD, "a"}), "", "a");
}

static void test_marks_are_tokens(void **state)
{
    (void)state;
    expect(true, false, P({WORD, "a</thi"}, {WORD, "nk>b"}, {CLOSE, "</think>"}, {WORD, "c"}),
           "a</think>b", "c");
    expect(false, false, P({WORD, "x</think>y"}), "", "x</think>y");
    // An opening mark counts at the start only.
    expect(false, false, P({OPEN, "<think>"}, {WORD, "r"}, {CLOSE, "</think>"}, {WORD, "c"}), "r",
           "c");
    expect(false, false, P({WORD, "c"}, {OPEN, "<think>"}, {WORD, "r"}), "", "c<think>r");
    // A second closing mark is text.
    expect(true, false, P({CLOSE, "</think>"}, {WORD, "a"}, {CLOSE, "</think>"}), "", "a</think>");
}

// Text that comes later than its token, as behind a possible stop string.
static void test_late_text(void **state)
{
    (void)state;
    expect(true, false, P({WORD, ""}, {CLOSE, "a"}, {WORD, "</think>b"}), "a", "b");
    expect(true, false, P({CLOSE, ""}, {-1, "a</think>b"}), "a", "b");
    expect(false, false, P({OPEN, ""}, {WORD, "<think>r"}, {CLOSE, "</think>"}), "r", "");
}

static void test_edges(void **state)
{
    (void)state;
    expect(false, false, P({WORD, "\n\n a"}, {WORD, "\n"}, {WORD, " "}), "", " a");
    expect(false, true, P({WORD, "a"}, {WORD, "\n "}), "", "a\n ");
    expect(false, false, P({WORD, "a\n"}, {WORD, "\nb"}), "", "a\n\nb");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_marks_are_tokens),
        cmocka_unit_test(test_late_text),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
