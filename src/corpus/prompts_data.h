// corpus/prompts_data.h: the templates and word lists that prompts are made of, all of them our
// own. Training and evaluation prompts have tables apart from each other, so that their wordings
// differ. Internal to prompts*.c.
#ifndef FG_CORPUS_PROMPTS_DATA_H
#define FG_CORPUS_PROMPTS_DATA_H
#include "corpus/phrase.h"
#include <stddef.h>

// Tables of lists, the last zeroed. Each kind's table has a list "prompt" of whole templates.
extern const struct fg_phrase_list fg_words_common[]; // words that all training kinds share
extern const struct fg_phrase_list fg_words_code[];
extern const struct fg_phrase_list fg_words_math[];
extern const struct fg_phrase_list fg_words_rare[];

// One language of the multilingual kinds: its own "prompt" list and what that needs.
struct fg_language {
    const char *name; // "de"
    const struct fg_phrase_list *lists;
};
extern const struct fg_language fg_languages[]; // the last has name NULL

// Tools of an agent and what is asked of it. Tools are "name|what it does|parameter|parameter...",
// a parameter "name:type!:what it means" ("!": required) or "name:a,b,c:..." for a choice.
struct fg_toolset {
    const char *name;
    const char *const *tools; // NULL at the end
    // Lists: "system", "task" and what they need; "call" of first steps that were made already,
    // "tool|arguments as JSON|result".
    const struct fg_phrase_list *lists;
};
extern const struct fg_toolset fg_toolsets[]; // the last has name NULL

// The same for evaluation.
extern const struct fg_phrase_list fg_eval_common[];
extern const struct fg_phrase_list fg_eval_code[], fg_eval_math[], fg_eval_science[],
    fg_eval_writing[], fg_eval_reasoning[];
extern const struct fg_language fg_eval_languages[];
extern const struct fg_toolset fg_eval_toolsets[];
#endif
