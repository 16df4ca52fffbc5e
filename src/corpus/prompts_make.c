// corpus/prompts_make.c: prompts from templates: one draw per kind, number and attempt, from a
// stream of its own, so that no prompt depends on how another came about; and what keeps prompts
// apart (specs: quantization 6.3).
#include "base/size.h"
#include "corpus/grams.h"
#include "corpus/prompts.h"
#include "corpus/prompts_data.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WHAT "prompts"
#define ATTEMPTS 400 // of a prompt; then the templates are used up
#define EVAL_SEED 0x466F726765u
#define SCOPES 4

// What a kind draws from: one table of lists, or languages or sets of tools in turn.
struct kind {
    const char *name;
    int share; // of 100 for training, of 64 for evaluation
    const struct fg_phrase_list *lists;
    const struct fg_language *languages;
    const struct fg_toolset *tools;
};

static const struct kind train_kinds[] = {
    {"code", 30, fg_words_code, NULL, NULL},        {"agentic", 20, NULL, NULL, fg_toolsets},
    {"multilingual", 20, NULL, fg_languages, NULL}, {"math", 15, fg_words_math, NULL, NULL},
    {"rare", 15, fg_words_rare, NULL, NULL},
};
static const struct kind eval_kinds[] = {
    {"code", 16, fg_eval_code, NULL, NULL},
    {"math", 12, fg_eval_math, NULL, NULL},
    {"science", 12, fg_eval_science, NULL, NULL},
    {"writing", 10, fg_eval_writing, NULL, NULL},
    {"agentic", 4, NULL, NULL, fg_eval_toolsets},
    {"multilingual", 6, NULL, fg_eval_languages, NULL},
    {"reasoning", 4, fg_eval_reasoning, NULL, NULL},
};
#define N_TRAIN 5
#define N_EVAL 7
_Static_assert(FG_COUNT(train_kinds) == N_TRAIN && FG_COUNT(eval_kinds) == N_EVAL, "counts");

struct maker {
    struct fg_prompts *out;
    const char *prefix; // of ids: "", "dev-"
    const struct kind *kinds;
    int n_kinds, all; // all: the sum of the shares
    const struct fg_phrase_list *common;
    uint64_t seed;
    size_t taken[N_EVAL];       // of each kind
    struct fg_gram_index alike; // word 3-grams of what was made
    struct fg_gram_index runs;  // word 8-grams of what must not be met
    struct fg_buf said, json;   // the draw at hand
};

static void free_maker(struct maker *m)
{
    fg_gram_index_free(&m->alike);
    fg_gram_index_free(&m->runs);
    fg_buf_free(&m->said);
    fg_buf_free(&m->json);
}

// ---- JSON of one prompt

static void put_text(struct fg_buf *b, const char *key, const char *s, size_t n)
{
    fg_buf_printf(b, "\"%s\": ", key);
    fg_buf_json_str(b, s, n);
}

static void put_message(struct fg_buf *b, const char *role, const char *s, size_t n)
{
    if (b->data[b->len - 1] != '[') fg_buf_str(b, ", ");
    fg_buf_printf(b, "{\"role\": \"%s\", ", role);
    put_text(b, "content", s, n);
    fg_buf_char(b, '}');
}

// The field of a table's line up to the next mark, which is skipped.
static const char *field(const char **at, char mark, size_t *n)
{
    const char *s = *at, *end = strchr(s, mark);
    *n = end ? (size_t)(end - s) : strlen(s);
    *at = s + *n + (end != NULL);
    return s;
}

// "name:type!:what it means", type also "a,b,c".
static void put_parameter(struct fg_buf *b, const char *s, size_t n)
{
    const char *colon = memchr(s, ':', n), *end = s + n;
    const char *type = colon + 1, *about = memchr(type, ':', (size_t)(end - type));
    size_t n_type = (size_t)(about - type);
    if (type[n_type - 1] == '!') n_type--;
    fg_buf_json_str(b, s, (size_t)(colon - s));
    if (memchr(type, ',', n_type)) {
        fg_buf_str(b, ": {\"type\": \"string\", \"enum\": [\"");
        for (size_t i = 0; i < n_type; i++) {
            if (type[i] == ',')
                fg_buf_str(b, "\", \"");
            else
                fg_buf_char(b, type[i]);
        }
        fg_buf_str(b, "\"], ");
    } else {
        fg_buf_printf(b, ": {\"type\": \"%.*s\", ", (int)n_type, type);
    }
    put_text(b, "description", about + 1, (size_t)(end - about - 1));
    fg_buf_char(b, '}');
}

static void put_tool(struct fg_buf *b, const char *tool)
{
    size_t n;
    const char *s = field(&tool, '|', &n), *first;
    fg_buf_str(b, "{\"type\": \"function\", \"function\": {");
    put_text(b, "name", s, n);
    fg_buf_str(b, ", ");
    s = field(&tool, '|', &n);
    put_text(b, "description", s, n);
    fg_buf_str(b, ", \"parameters\": {\"type\": \"object\", \"properties\": {");
    first = tool;
    while (*tool) {
        if (tool != first) fg_buf_str(b, ", ");
        s = field(&tool, '|', &n);
        put_parameter(b, s, n);
    }
    fg_buf_str(b, "}, \"required\": [");
    for (tool = first; *tool;) {
        s = field(&tool, '|', &n);
        if (!memmem(s, n, "!:", 2)) continue;
        if (b->data[b->len - 1] != '[') fg_buf_str(b, ", ");
        fg_buf_json_str(b, s, (size_t)((const char *)memchr(s, ':', n) - s));
    }
    fg_buf_str(b, "]}}}");
}

// ---- drawing

// What an agent did first: a call and its result.
static void put_call(struct fg_buf *b, const char *call, size_t n_name, const char *text)
{
    size_t n_arguments, n_result;
    field(&text, '|', &n_result); // the name
    const char *arguments = field(&text, '|', &n_arguments), *result = text;
    n_result = strlen(result);
    fg_buf_printf(b,
                  ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"type\": "
                  "\"function\", \"function\": {\"name\": \"%.*s\", \"arguments\": %.*s}}]}",
                  (int)n_name, call, (int)n_arguments, arguments);
    put_message(b, "tool", result, n_result);
}

// A set's prompt: what the agent is, what is asked, every third time a step made already, and some
// of the tools, at least three.
static void draw_agent(struct maker *m, struct fg_phrase *p, const struct fg_toolset *set)
{
    struct fg_buf text = {0};
    struct fg_buf *b = &m->json;
    fg_phrase_put(p, &text, fg_phrase_pick(p, "system"));
    put_message(b, "system", text.data, text.len);
    fg_phrase_put(p, &m->said, fg_phrase_pick(p, "task"));
    const char *note = fg_phrase_pick(p, "note");
    if (fg_random_below(p->random, 2)) {
        fg_buf_char(&m->said, ' ');
        fg_phrase_put(p, &m->said, note);
    }
    put_message(b, "user", m->said.data, m->said.len);
    const char *call = fg_random_below(p->random, 3) == 0 ? fg_phrase_pick(p, "call") : NULL;
    size_t n_name = call ? (size_t)(strchr(call, '|') - call) : 0;
    if (call) {
        fg_buf_clear(&text);
        fg_phrase_put(p, &text, call);
        put_call(b, call, n_name, text.data);
    }
    fg_buf_str(b, "], \"tools\": [");
    size_t n = 0, left = 0, used = 0;
    while (set->tools[n])
        n++;
    for (size_t i = 0; i < n; i++) {
        left = n - i;
        bool called = call && strncmp(set->tools[i], call, n_name + 1) == 0;
        bool kept = fg_random_below(p->random, 4) != 0;
        if (!called && !kept && used + left > 3) continue;
        if (used++) fg_buf_str(b, ", ");
        put_tool(b, set->tools[i]);
    }
    fg_buf_char(b, ']');
    p->failed = p->failed || text.failed;
    fg_buf_free(&text);
}

// Makes the draw at hand: m->said, and m->json as the line without its end. False: the tables have
// a mistake, or memory is out.
static bool draw(struct maker *m, int kind, size_t number, int attempt, const char *id)
{
    char tag[96];
    const struct kind *k = &m->kinds[kind];
    const struct fg_phrase_list *scopes[SCOPES] = {k->lists, m->common, NULL, NULL};
    const struct fg_toolset *set = NULL;
    size_t n = 1; // each table has one entry at least
    if (k->languages) {
        while (k->languages[n].name)
            n++;
        scopes[0] = k->languages[number % n].lists;
    } else if (k->tools) {
        while (k->tools[n].name)
            n++;
        set = &k->tools[number % n];
        scopes[0] = set->lists;
    }
    snprintf(tag, sizeof tag, "prompts/%s%s/%zu/%d", m->prefix, k->name, number, attempt);
    struct fg_random random = fg_random_named(m->seed, tag);
    struct fg_phrase p = {.random = &random, .scopes = scopes};
    fg_buf_clear(&m->said);
    fg_buf_clear(&m->json);
    fg_buf_printf(&m->json, "{\"id\": \"%s\", \"kind\": \"%s\", \"messages\": [", id, k->name);
    if (set) {
        draw_agent(m, &p, set);
    } else {
        fg_phrase_put(&p, &m->said, fg_phrase_pick(&p, "prompt"));
        put_message(&m->json, "user", m->said.data, m->said.len);
        fg_buf_char(&m->json, ']');
    }
    fg_buf_char(&m->json, '}');
    return !p.failed && !m->said.failed && !m->json.failed;
}

// Whether the draw at hand may stay; it is then remembered.
static int judge(struct maker *m, bool *good, struct fg_error *err)
{
    struct fg_words words = {0};
    struct fg_grams alike = {0}, runs = {0};
    int64_t other;
    double likeness;
    int rc = 0;
    bool fits = fg_words_add(&words, m->said.data, m->said.len) &&
                fg_grams_of(&alike, &words, FG_PROMPTS_LIKE_ORDER) &&
                fg_grams_of(&runs, &words, FG_PROMPTS_RUN_ORDER);
    if (fits) rc = fg_gram_index_like(&m->alike, &alike, &other, &likeness, err);
    *good =
        fits && !rc && likeness < FG_PROMPTS_LIKENESS && fg_gram_index_first(&m->runs, &runs) < 0;
    if (*good) fits = fg_gram_index_add(&m->alike, &alike);
    if (!fits) rc = fg_fail_memory(err, WHAT, m->said.len);
    fg_words_free(&words);
    fg_grams_free(&alike);
    fg_grams_free(&runs);
    return rc;
}

// The kind that lags most behind its share.
static int next_kind(const struct maker *m)
{
    int best = 0;
    int64_t most = INT64_MIN, n = (int64_t)m->out->n + 1;
    for (int k = 0; k < m->n_kinds; k++) {
        int64_t lag = n * m->kinds[k].share - (int64_t)m->taken[k] * m->all;
        if (lag > most) {
            most = lag;
            best = k;
        }
    }
    return best;
}

static int make_one(struct maker *m, struct fg_error *err)
{
    int kind = next_kind(m);
    size_t number = m->taken[kind]++;
    const char *name = m->kinds[kind].name;
    char id[64];
    snprintf(id, sizeof id, "%s%s-%05zu", m->prefix, name, number);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        bool good;
        if (!draw(m, kind, number, attempt, id)) return fg_fail_memory(err, WHAT, m->json.len);
        int rc = judge(m, &good, err);
        if (rc) return rc;
        if (!good) continue;
        if (fg_prompts_add(m->out, id, name, m->json.data, m->said.data)) return 0;
        return fg_fail_memory(err, WHAT, m->json.len);
    }
    return fg_fail(err, FG_EINPUT, WHAT, NULL, name, "as many prompts as the templates give",
                   "no new one after %zu", number);
}

static int make(struct maker *m, size_t n, struct fg_error *err)
{
    int rc = 0;
    for (int k = 0; k < m->n_kinds; k++)
        m->all += m->kinds[k].share;
    while (m->out->n < n && !rc)
        rc = make_one(m, err);
    if (rc) fg_prompts_free(m->out);
    return rc;
}

// Runs of 8 words of these prompts are not met from now on.
static int avoid(struct maker *m, const struct fg_prompts *p, struct fg_error *err)
{
    for (size_t i = 0; i < p->n; i++) {
        struct fg_words words = {0};
        struct fg_grams runs = {0};
        bool fits = fg_words_add(&words, p->item[i].said, strlen(p->item[i].said)) &&
                    fg_grams_of(&runs, &words, FG_PROMPTS_RUN_ORDER) &&
                    fg_gram_index_add(&m->runs, &runs);
        fg_words_free(&words);
        fg_grams_free(&runs);
        if (!fits) return fg_fail_memory(err, WHAT, p->n);
    }
    return 0;
}

// The sets before `last` and that one, each into sets[...].
static int make_sets(struct fg_prompts *sets, enum fg_prompt_set last, struct fg_error *err)
{
    int rc = 0;
    for (int s = 0; s <= (int)last && !rc; s++) {
        char prefix[16];
        snprintf(prefix, sizeof prefix, "%s-", fg_prompt_set_name((enum fg_prompt_set)s));
        struct maker m = {.out = &sets[s],
                          .prefix = prefix,
                          .kinds = eval_kinds,
                          .n_kinds = N_EVAL,
                          .common = fg_eval_common,
                          .seed = EVAL_SEED};
        for (int earlier = 0; earlier < s && !rc; earlier++)
            rc = avoid(&m, &sets[earlier], err);
        if (!rc) rc = make(&m, s == FG_PROMPTS_DEV ? 64 : 128, err);
        free_maker(&m);
    }
    return rc;
}

int fg_prompts_eval(struct fg_prompts *out, enum fg_prompt_set set, struct fg_error *err)
{
    struct fg_prompts sets[FG_PROMPTS_TRAIN] = {0};
    int rc = make_sets(sets, set, err);
    *out = (struct fg_prompts){0};
    if (!rc) {
        *out = sets[set];
        sets[set] = (struct fg_prompts){0};
    }
    for (int s = 0; s < FG_PROMPTS_TRAIN; s++)
        fg_prompts_free(&sets[s]);
    return rc;
}

int fg_prompts_train(struct fg_prompts *out, uint64_t seed, size_t n, struct fg_error *err)
{
    struct fg_prompts sets[FG_PROMPTS_TRAIN] = {0};
    struct maker m = {.out = out,
                      .prefix = "",
                      .kinds = train_kinds,
                      .n_kinds = N_TRAIN,
                      .common = fg_words_common,
                      .seed = seed};
    *out = (struct fg_prompts){0};
    int rc = make_sets(sets, FG_PROMPTS_SEALED, err);
    for (int s = 0; s < FG_PROMPTS_TRAIN && !rc; s++)
        rc = avoid(&m, &sets[s], err);
    if (!rc) rc = make(&m, n, err);
    free_maker(&m);
    for (int s = 0; s < FG_PROMPTS_TRAIN; s++)
        fg_prompts_free(&sets[s]);
    return rc;
}
