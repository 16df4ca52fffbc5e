// eval/haystack.c: the grammar, and where things stand in the text.
#include "eval/haystack.h"
#include "quant/random.h"
#include <stdio.h>
#include <string.h>

#define PARAGRAPH 6 // sentences

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

void fg_haystack_make(struct fg_haystack *h, uint64_t seed)
{
    struct fg_random r = fg_random_named(seed, "needles");
    *h = (struct fg_haystack){.seed = seed};
    struct fg_needle *all[1 + FG_NEEDLE_DISTRACTORS] = {&h->needle};
    for (int i = 0; i < FG_NEEDLE_DISTRACTORS; i++)
        all[i + 1] = &h->others[i];
    for (int i = 0; i <= FG_NEEDLE_DISTRACTORS;) {
        bool taken = false;
        snprintf(all[i]->key, FG_NEEDLE_KEY, "%s %s", PICK(colours, &r), PICK(places_named, &r));
        snprintf(all[i]->code, FG_NEEDLE_CODE, "%u",
                 (unsigned)(1000000 + fg_random_below(&r, 9000000)));
        for (int j = 0; j < i; j++)
            taken |=
                strcmp(all[j]->key, all[i]->key) == 0 || strcmp(all[j]->code, all[i]->code) == 0;
        i += !taken;
    }
}

static void add_fact(struct fg_buf *out, const struct fg_needle *n)
{
    fg_buf_printf(out, "The access code of the %s is %s.", n->key, n->code);
}

void fg_haystack_text(struct fg_buf *out, const struct fg_haystack *h, int64_t n, int64_t before,
                      bool open, size_t *needle_at)
{
    struct fg_random words = fg_random_named(h->seed, "sentences");
    struct fg_random at = fg_random_named(h->seed, "places");
    int64_t places[FG_NEEDLE_DISTRACTORS];
    size_t start = out->len;
    for (int i = 0; i < FG_NEEDLE_DISTRACTORS; i++) // shares of the text, so of any length
        places[i] = (int64_t)(fg_random_u01(&at) * (double)(n + 1));
    fg_buf_str(out,
               "These are notes from a small town. Among them are access codes. Read the notes "
               "and answer the question at the end.\n\n");
    for (int64_t i = 0; i <= n; i++) {
        for (int j = 0; j < FG_NEEDLE_DISTRACTORS; j++) {
            if (places[j] != i) continue;
            add_fact(out, &h->others[j]);
            fg_buf_char(out, ' ');
        }
        if (i == before) {
            *needle_at = out->len - start;
            add_fact(out, &h->needle);
            fg_buf_char(out, ' ');
        }
        if (i == n) break;
        add_sentence(out, &words);
        fg_buf_str(out, i % PARAGRAPH == PARAGRAPH - 1 ? "\n\n" : " ");
    }
    fg_buf_printf(out, "\n\nQuestion: What is the access code of the %s?", h->needle.key);
    if (open)
        fg_buf_printf(out, "\nAnswer: The access code of the %s is", h->needle.key);
    else
        fg_buf_str(out, " Answer with the number alone.");
}
