// eval/haystack.c: the grammar, what stands where in the text, and what a reply is worth.
#include "eval/haystack.h"
#include "quant/random.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PARAGRAPH 6 // sentences
#define FACTS_MAX (FG_NEEDLES_MAX + FG_NEEDLE_DISTRACTORS)

static const char *const colours[] = {"amber",  "copper", "crimson", "ivory",  "emerald", "golden",
                                      "indigo", "silver", "scarlet", "violet", "ochre",   "azure"};
static const char *const places_named[] = {"lighthouse", "windmill", "observatory", "greenhouse",
                                           "boathouse",  "archive",  "bell tower",  "granary",
                                           "forge",      "aqueduct", "chapel",      "sawmill"};
static const char *const times[] = {
    "In the morning",     "After lunch",       "Late in the evening", "On the first warm day",
    "Before the rain",    "During the market", "At the end of March", "When the bells had rung",
    "On a quiet Tuesday", "Towards noon",      "In early autumn",     "Once the fog had lifted"};
static const char *const people[] = {
    "the gardener",       "the old baker",     "a young carpenter",   "the ferryman",
    "the schoolteacher",  "the postwoman",     "the clockmaker",      "a travelling musician",
    "the baker's sister", "the harbour pilot", "the librarian",       "a shepherd from the hills",
    "the miller",         "the doctor's son",  "the woman next door", "the town clerk"};
static const char *const deeds[] = {"carried",  "repaired", "painted", "counted",  "sold",
                                    "borrowed", "polished", "packed",  "measured", "drew",
                                    "found",    "cleaned",  "hid",     "traded",   "sorted"};
static const char *const things[] = {
    "two baskets of apples",    "a wooden ladder",       "the blue curtains",
    "a box of brass buttons",   "some old maps",         "a jar of honey",
    "the kitchen clock",        "three woollen coats",   "a stack of letters",
    "the broken wheelbarrow",   "a bundle of dry reeds", "the fishing nets",
    "a small iron key",         "the garden chairs",     "a loaf of rye bread",
    "several bottles of cider", "a pair of boots",       "the spare oars"};
static const char *const where[] = {"by the river",          "behind the mill",
                                    "near the old bridge",   "at the edge of the wood",
                                    "in front of the inn",   "under the chestnut",
                                    "beside the well",       "in the attic",
                                    "on the way to the sea", "outside the town hall",
                                    "in the long barn",      "at the crossroads"};
static const char *const endings[] = {
    "and nobody asked why",          "while the children watched",
    "and went home early",           "because the weather was fair",
    "without saying a word",         "and laughed about it later",
    "as had been agreed in spring",  "though it took all afternoon",
    "and wrote it down at once",     "while the kettle was boiling",
    "and thanked everyone for help", "which pleased the neighbours"};

#define PICK(list, r) (list)[fg_random_below((r), sizeof(list) / sizeof *(list))]

static void add_sentence(struct fg_buf *out, struct fg_random *r)
{
    const char *when = PICK(times, r), *who = PICK(people, r), *did = PICK(deeds, r),
               *what = PICK(things, r), *place = PICK(where, r), *end = PICK(endings, r);
    if (fg_random_below(r, 3) == 0) // the other order
        fg_buf_printf(out, "%s, %s, %s %s %s.", when, place, who, did, what);
    else
        fg_buf_printf(out, "%s %s %s %s %s, %s.", when, who, did, what, place, end);
}

void fg_needles_make(struct fg_needles *f, uint64_t seed, int n)
{
    struct fg_random r = fg_random_named(seed, "needles"), places = fg_random_named(seed, "places");
    struct fg_needle *all[FACTS_MAX];
    assert(n >= 1 && n <= FG_NEEDLES_MAX);
    *f = (struct fg_needles){.n = n};
    int n_all = n + FG_NEEDLE_DISTRACTORS;
    for (int i = 0; i < n_all; i++)
        all[i] = i < n ? &f->asked[i] : &f->others[i - n];
    for (int i = 0; i < n_all;) {
        bool taken = false;
        snprintf(all[i]->key, FG_NEEDLE_KEY, "%s %s", PICK(colours, &r), PICK(places_named, &r));
        snprintf(all[i]->code, FG_NEEDLE_CODE, "%u",
                 (unsigned)(1000000 + fg_random_below(&r, 9000000)));
        for (int j = 0; j < i; j++)
            taken |=
                strcmp(all[j]->key, all[i]->key) == 0 || strcmp(all[j]->code, all[i]->code) == 0;
        i += !taken;
    }
    for (int i = 0; i < FG_NEEDLE_DISTRACTORS; i++)
        f->other_share[i] = fg_random_u01(&places);
}

char *fg_needle_line(char *out, const struct fg_needle *needle)
{
    snprintf(out, FG_NEEDLE_LINE, "The access code of the %s is %s.", needle->key, needle->code);
    return out;
}

void fg_haystack_sentences(struct fg_buf *out, uint64_t seed, size_t bytes)
{
    struct fg_random words = fg_random_named(seed, "sentences");
    size_t start = out->len;
    for (int64_t i = 1; !out->failed && out->len - start < bytes; i++) {
        add_sentence(out, &words);
        fg_buf_str(out, i % PARAGRAPH == 0 ? "\n\n" : " ");
    }
}

// A line of its own, wherever the text around it stands.
static void add_fact(struct fg_buf *out, const struct fg_needle *needle)
{
    char line[FG_NEEDLE_LINE];
    if (out->len && out->data[out->len - 1] != '\n') fg_buf_char(out, '\n');
    fg_buf_str(out, fg_needle_line(line, needle));
    fg_buf_char(out, '\n');
}

// "access code of the A", "access codes of the A, the B and the C".
static void add_keys(struct fg_buf *out, const struct fg_needles *f)
{
    fg_buf_str(out, f->n == 1 ? "access code of " : "access codes of ");
    for (int i = 0; i < f->n; i++)
        fg_buf_printf(out, "%sthe %s",
                      i == 0          ? ""
                      : i == f->n - 1 ? " and "
                                      : ", ",
                      f->asked[i].key);
}

static void add_question(struct fg_buf *out, const struct fg_needles *f, bool open)
{
    fg_buf_printf(out, "\n\nQuestion: What %s the ", f->n == 1 ? "is" : "are");
    add_keys(out, f);
    fg_buf_char(out, '?');
    if (open) {
        fg_buf_str(out, "\nAnswer: The ");
        add_keys(out, f);
        fg_buf_str(out, f->n == 1 ? " is" : ", in this order, are");
    } else {
        fg_buf_str(out, f->n == 1 ? " Answer with the number alone."
                                  : " Answer with the numbers alone, in this order, with commas "
                                    "between them.");
    }
}

void fg_haystack_text(struct fg_buf *out, const struct fg_needles *f, const char *haystack,
                      size_t n, const size_t *asked_at, const size_t *other_at, bool open)
{
    struct fact {
        size_t at;
        const struct fg_needle *needle;
    } facts[FACTS_MAX];
    int n_facts = f->n + FG_NEEDLE_DISTRACTORS;
    for (int i = 0; i < n_facts; i++) { // in the order of the text
        const bool asked = i < f->n;
        const struct fact fact = {asked ? asked_at[i] : other_at[i - f->n],
                                  asked ? &f->asked[i] : &f->others[i - f->n]};
        int to = i;
        for (; to > 0 && facts[to - 1].at > fact.at; to--)
            facts[to] = facts[to - 1];
        facts[to] = fact;
    }
    fg_buf_str(out, "These are notes. Among them are access codes. Read the notes and answer the "
                    "question at the end.\n\n");
    size_t from = 0;
    for (int i = 0; i < n_facts; i++) {
        fg_buf_add(out, haystack + from, facts[i].at - from);
        from = facts[i].at;
        add_fact(out, facts[i].needle);
    }
    fg_buf_add(out, haystack + from, n - from);
    add_question(out, f, open);
}

struct fg_needle_score fg_needle_score(const struct fg_needles *f, const char *reply)
{
    static const char digits[] = "0123456789", blanks[] = " \t\r\n", between[] = " \t\r\n,";
    struct fg_needle_score score = {0};
    for (int i = 0; i < f->n; i++) {
        score.found[i] = strstr(reply, f->asked[i].code) != NULL;
        score.n_found += score.found[i];
    }
    score.value = score.n_found == f->n;
    int groups = 0;
    bool same = true, ended = false;
    const char *at = reply + strspn(reply, blanks);
    while (!ended && strspn(at, digits) == FG_NEEDLE_CODE - 1) {
        same &= groups < f->n && memcmp(at, f->asked[groups].code, FG_NEEDLE_CODE - 1) == 0;
        groups++;
        at += FG_NEEDLE_CODE - 1;
        ended = at[strspn(at, blanks)] == '\0';
        at += strspn(at, between);
    }
    score.format = ended && groups == f->n;
    score.exact = score.format && same;
    return score;
}
