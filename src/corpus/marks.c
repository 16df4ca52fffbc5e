// corpus/marks.c: marks by asking the tokenizer, the template's words by rendering.
#include "corpus/marks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHAT "template"

void fg_marks_close(struct fg_marks *m)
{
    free(m->known);
    fg_gram_set_free(&m->words);
    *m = (struct fg_marks){0};
}

// Does tokenizing the text with added tokens find one?
static int is_added(const struct forge_engine *e, const char *text, size_t n, bool *added,
                    struct fg_error *err)
{
    int32_t *with = NULL, *without = NULL;
    size_t n_with = 0, n_without = 0;
    int rc = forge_tokenize(e, text, n, true, &with, &n_with, err);
    if (!rc) rc = forge_tokenize(e, text, n, false, &without, &n_without, err);
    *added = !rc && (n_with != n_without || memcmp(with, without, n_with * sizeof *with) != 0);
    free(with);
    free(without);
    return rc;
}

int fg_marks_ask(struct fg_marks *m, int32_t id, bool *mark, struct fg_error *err)
{
    *mark = false;
    if ((size_t)id >= m->n) {
        size_t n = (size_t)id + 4096;
        uint8_t *known = realloc(m->known, n);
        if (!known) return fg_fail_memory(err, WHAT, n);
        memset(known + m->n, 0, n - m->n);
        m->known = known;
        m->n = n;
    }
    if (!m->known[id]) {
        char *shown = NULL, *skipped = NULL;
        size_t n = 0, n_skipped = 0;
        int rc = forge_detokenize(m->engine, &id, 1, false, &shown, &n, err);
        if (!rc) rc = forge_detokenize(m->engine, &id, 1, true, &skipped, &n_skipped, err);
        bool added = !rc && n_skipped != n;
        if (!rc && !added) rc = is_added(m->engine, shown, n, &added, err);
        free(shown);
        free(skipped);
        if (rc) return rc;
        m->known[id] = added ? 2 : 1;
    }
    *mark = m->known[id] == 2;
    return 0;
}

bool fg_marks_has(const struct fg_marks *m, uint64_t hash)
{
    return fg_gram_set_has(&m->words, hash);
}

// ---- the template's words

#define USER "{\"role\": \"user\", \"content\": \"x\"}"
#define SYSTEM "{\"role\": \"system\", \"content\": \"x\"}"
#define CALL                                                                                       \
    "{\"role\": \"assistant\", \"content\": \"x\", \"reasoning_content\": \"x\", \"tool_calls\": " \
    "[{\"type\": \"function\", \"function\": {\"name\": \"x\", \"arguments\": {\"x\": \"x\"}}}]}"
#define RESULT "{\"role\": \"tool\", \"content\": \"x\"}"
// Tool schemas are the conversation's, but what JSON puts between their names and texts is not: of
// several tools and parameters, so that every such stretch occurs.
#define TEXT "\"x\": {\"type\": \"string\", \"description\": \"x\"}"
#define SENTENCE "\"x\": {\"type\": \"string\", \"description\": \"x.\"}"
#define NUMBER ", \"x2\": {\"type\": \"integer\", \"description\": \"x\"}"
#define TOOL(about, parameters, required)                                                          \
    "{\"type\": \"function\", \"function\": {\"name\": \"x\", \"description\": \"" about           \
    "\", \"parameters\": {\"type\": \"object\", \"properties\": {" parameters                      \
    "}, \"required\": [" required "]}}}"
#define TOOLS                                                                                      \
    "\"tools\": [" TOOL("x.", TEXT, "\"x\"") ", " TOOL("x.", TEXT NUMBER, "\"x\"") ", " TOOL(      \
        "x", TEXT NUMBER, "") ", " TOOL("x", "", "") ", " TOOL("x.", SENTENCE NUMBER,              \
                                                               "\"x\", \"x2\"") "]"

static int add_words(struct fg_marks *m, const int32_t *ids, size_t n, struct fg_error *err)
{
    size_t clean = 0, window = (size_t)m->window;
    for (size_t i = 0; i < n; i++) {
        bool mark;
        int rc = fg_marks_ask(m, ids[i], &mark, err);
        if (rc) return rc;
        clean = mark ? 0 : clean + 1;
        if (clean < window) continue;
        if (!fg_gram_set_add(&m->words, fg_gram_ids(ids + i + 1 - window, window)))
            return fg_fail_memory(err, WHAT, n);
    }
    return 0;
}

int fg_marks_open(struct fg_marks *m, const struct forge_engine *engine, int window,
                  struct fg_error *err)
{
    static const char *const chats[] = {
        "{\"messages\": [" USER "]}",
        "{\"messages\": [" SYSTEM ", " USER "]}",
        "{\"messages\": [" USER ", " CALL ", " RESULT ", " USER "]}",
        "{\"messages\": [" SYSTEM ", " USER ", " CALL ", " RESULT "], " TOOLS "}",
        "{\"messages\": [" USER ", " CALL ", " RESULT "], " TOOLS "}",
    };
    static const char *const kwargs[] = {
        "{}", "{\"enable_thinking\": true}", "{\"enable_thinking\": false}",
        "{\"add_generation_prompt\": false, \"preserve_thinking\": true}",
        "{\"reasoning_effort\": \"low\"}"};
    struct forge_engine_info info;
    *m = (struct fg_marks){.engine = engine, .window = window};
    forge_engine_info(engine, &info);
    int rc = 0;
    for (size_t c = 0; info.chat_template && c < sizeof chats / sizeof *chats && !rc; c++) {
        for (size_t k = 0; k < sizeof kwargs / sizeof *kwargs && !rc; k++) {
            int32_t *ids = NULL;
            size_t n = 0;
            rc = forge_encode_chat(engine, chats[c], strlen(chats[c]), kwargs[k], &ids, &n, err);
            if (!rc) rc = add_words(m, ids, n, err);
            free(ids);
        }
    }
    if (rc) fg_marks_close(m);
    return rc;
}
