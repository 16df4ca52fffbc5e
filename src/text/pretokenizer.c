#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenizer.h"
#include <pcre2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Bodies of the character classes. L, M and N are PCRE2's properties and what was assigned after
// Unicode 14, the version of PCRE2 10.42: with the ranges a newer PCRE2 gives the same pieces. S is
// white space without U+180E, which PCRE2's \s has and the HF library's has not.
#define S                                                                                          \
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"    \
    "\\x{205F}\\x{3000}"
#define L                                                                                          \
    "\\p{L}\\x{1C89}\\x{1C8A}\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{105C0}-\\x{105F3}"          \
    "\\x{10D4A}-\\x{10D65}\\x{10D6F}-\\x{10D85}\\x{10EC2}-\\x{10EC4}\\x{1123F}-\\x{11240}"         \
    "\\x{11380}-\\x{11389}\\x{1138B}\\x{1138E}\\x{11390}-\\x{113B5}\\x{113B7}\\x{113D1}"           \
    "\\x{113D3}\\x{11BC0}-\\x{11BE0}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}"          \
    "\\x{1342F}\\x{13441}-\\x{13446}\\x{13460}-\\x{143FA}\\x{16100}-\\x{1611D}\\x{16D40}-"         \
    "\\x{16D6C}\\x{18CFF}\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}"           \
    "\\x{1E4D0}-\\x{1E4EB}\\x{1E5D0}-\\x{1E5ED}\\x{1E5F0}\\x{2B739}\\x{2EBF0}-\\x{2EE5D}"          \
    "\\x{31350}-\\x{323AF}"
#define M                                                                                          \
    "\\p{M}\\x{897}\\x{CF3}\\x{ECE}\\x{10D69}-\\x{10D6D}\\x{10EFC}-\\x{10EFF}\\x{11241}"           \
    "\\x{113B8}-\\x{113C0}\\x{113C2}\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}-\\x{113D0}"          \
    "\\x{113D2}\\x{113E1}\\x{113E2}\\x{11F00}\\x{11F01}\\x{11F03}\\x{11F34}-\\x{11F3A}"            \
    "\\x{11F3E}-\\x{11F42}\\x{11F5A}\\x{13440}\\x{13447}-\\x{13455}\\x{1611E}-\\x{1612F}"          \
    "\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}\\x{1E5EE}\\x{1E5EF}"
#define N                                                                                          \
    "\\p{N}\\x{10D40}-\\x{10D49}\\x{116D0}-\\x{116E3}\\x{11BF0}-\\x{11BF9}\\x{11F50}-\\x{11F59}"   \
    "\\x{16130}-\\x{16139}\\x{16D70}-\\x{16D79}\\x{1CCF0}-\\x{1CCF9}\\x{1D2C0}-\\x{1D2D3}"         \
    "\\x{1E4F0}-\\x{1E4F9}\\x{1E5F1}-\\x{1E5FA}"
// The HF library isolates digits by a newer table than its regular expressions have.
#define DIGIT N "\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}"

#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define QWEN(digits, word, not_symbol)                                                             \
    "(?i:" CONTRACTIONS ")|[^\\r\\n" L N "]?[" word "]+|[" N "]" digits "| ?[^" S not_symbol       \
    "]+[\\r\\n]*|[" S "]*[\\r\\n]+|[" S "]+(?![^" S "])|[" S "]+"

static const struct {
    const char *name;
    const char *published; // the Regex of a Split in tokenizer.json; NULL: detected otherwise
    const char *pattern;   // for PCRE2, anchored
} kinds[FG_PRETOK_COUNT] = {
    [FG_PRETOK_QWEN2] =
        {
            "qwen2",
            "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"
            "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
            QWEN("", L, L N),
        },
    [FG_PRETOK_QWEN35] =
        {
            "qwen35",
            "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
            " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
            QWEN("", L M, L M N),
        },
    [FG_PRETOK_GPT2] =
        {
            "gpt2",
            CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
            CONTRACTIONS "| ?[" L "]+| ?[" N "]+| ?[^" S L N "]+|[" S "]+(?![^" S "])|[" S "]+",
        },
    // Two passes in the HF library, digits and then the rest between them, are one pattern here: a
    // digit ends the text that the look-ahead of the second pass sees.
    [FG_PRETOK_SMOLLM2] =
        {
            "smollm2",
            NULL,
            "[" DIGIT "]|" CONTRACTIONS "| ?[" L "]+| ?[^" S L DIGIT "]+|[" S "]+(?![^" S DIGIT
            "])|[" S "]+",
        },
    [FG_PRETOK_LLAMA3] =
        {
            "llama3",
            "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
            " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
            QWEN("{1,3}", L, L N),
        },
};

struct fg_pretok {
    enum fg_pretok_kind kind;
    pcre2_code *code;
};

struct fg_pretok_work {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; // NULL: no JIT in this build of PCRE2
};

const char *fg_pretok_name(enum fg_pretok_kind kind)
{
    return kinds[kind].name;
}

bool fg_pretok_of_regex(const char *regex, size_t n, enum fg_pretok_kind *kind)
{
    for (int k = 0; k < FG_PRETOK_COUNT; k++) {
        const char *p = kinds[k].published;
        if (!p || strlen(p) != n || memcmp(p, regex, n) != 0) continue;
        *kind = (enum fg_pretok_kind)k;
        return true;
    }
    return false;
}

static int fail_pcre(struct fg_error *err, const char *name, int code)
{
    if (code == PCRE2_ERROR_NOMEMORY) return fg_fail_memory(err, "pre-tokenizer", 0);
    PCRE2_UCHAR message[128] = "";
    pcre2_get_error_message(code, message, sizeof message);
    return fg_fail(err, FG_EFAILED, "pre-tokenizer", NULL, name, "a match", "PCRE2: %s",
                   (const char *)message);
}

int fg_pretok_new(struct fg_pretok **out, enum fg_pretok_kind kind, struct fg_error *err)
{
    *out = NULL;
    struct fg_pretok *p = calloc(1, sizeof *p);
    if (!p) return fg_fail_memory(err, "pre-tokenizer", sizeof *p);
    p->kind = kind;
    int code;
    PCRE2_SIZE at;
    p->code = pcre2_compile((PCRE2_SPTR)kinds[kind].pattern, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_DOLLAR_ENDONLY, &code,
                            &at, NULL);
    if (!p->code) {
        free(p);
        return fail_pcre(err, kinds[kind].name, code);
    }
    pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); // without JIT matching is slower, not different
    *out = p;
    return 0;
}

void fg_pretok_free(struct fg_pretok *p)
{
    if (!p) return;
    pcre2_code_free(p->code);
    free(p);
}

int fg_pretok_work_new(struct fg_pretok_work **out, const struct fg_pretok *p, struct fg_error *err)
{
    *out = NULL;
    struct fg_pretok_work *work = calloc(1, sizeof *work);
    if (!work) return fg_fail_memory(err, "pre-tokenizer", sizeof *work);
    work->match = pcre2_match_data_create_from_pattern(p->code, NULL);
    work->context = pcre2_match_context_create(NULL);
    if (!work->match || !work->context) {
        fg_pretok_work_free(work);
        return fg_fail_memory(err, "pre-tokenizer", 0);
    }
    work->stack = pcre2_jit_stack_create(32 << 10, 4 << 20, NULL);
    if (work->stack) pcre2_jit_stack_assign(work->context, NULL, work->stack);
    // The patterns backtrack one character at a time over at most one run, so their work is linear;
    // the default limit would stop at runs of ten million characters.
    pcre2_set_match_limit(work->context, UINT32_MAX);
    *out = work;
    return 0;
}

void fg_pretok_work_free(struct fg_pretok_work *work)
{
    if (!work) return;
    pcre2_match_data_free(work->match);
    pcre2_match_context_free(work->context);
    pcre2_jit_stack_free(work->stack);
    free(work);
}

int fg_pretok_next_regex(const struct fg_pretok *p, struct fg_pretok_work *work, const char *text,
                         size_t n, size_t at, size_t *end, struct fg_error *err)
{
    int rc = pcre2_match(p->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, work->match,
                         work->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
        rc = pcre2_match(p->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         work->match, work->context);
    }
    if (rc < 0) return fail_pcre(err, kinds[p->kind].name, rc);
    *end = pcre2_get_ovector_pointer(work->match)[1];
    return 0;
}

enum { OTHER, LETTER, DIGIT_, SPACE, NEWLINE, FAR }; // FAR: not ASCII

static const uint8_t classes[256] = {
    ['0' ... '9'] = DIGIT_, ['A' ... 'Z'] = LETTER, ['a' ... 'z'] = LETTER, ['\t'] = SPACE,
    ['\v'] = SPACE,         ['\f'] = SPACE,         [' '] = SPACE,          ['\n'] = NEWLINE,
    ['\r'] = NEWLINE,       [0x80 ... 0xFF] = FAR,
};

// Length of the contraction at s, which begins with an apostrophe; 0 when there is none, SIZE_MAX
// when the next character is not ASCII (U+017F folds to s).
static size_t contraction(const char *s, size_t n, bool fold)
{
    if (n < 2) return 0;
    unsigned char a = (unsigned char)s[1];
    if (a >= 0x80) return SIZE_MAX;
    unsigned char bit = fold ? 0x20 : 0;
    a |= bit;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (n < 3) return 0;
    unsigned char b = (unsigned char)s[2];
    if (b < 0x80) b |= bit;
    bool two = ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l');
    return two ? 3 : 0;
}

// Length of the piece at the begin of s[0, n) when ASCII alone decides it, else 0.
static size_t match_ascii(enum fg_pretok_kind kind, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    bool gpt2 = kind == FG_PRETOK_GPT2 || kind == FG_PRETOK_SMOLLM2;
    unsigned first = classes[s[0]], next = n > 1 ? classes[s[1]] : OTHER;
    size_t i = 1;
    if (first == FAR) return 0;
    if (s[0] == '\'') {
        size_t len = contraction(text, n, !gpt2);
        if (len) return len == SIZE_MAX ? 0 : len;
    }
    // A run of letters, behind a space (GPT-2) or any one character but a newline or digit (Qwen).
    bool leads = gpt2 ? s[0] == ' ' : first == SPACE || first == OTHER;
    if (leads && n > 1 && next == FAR) return 0;
    if (first == LETTER || (leads && n > 1 && next == LETTER)) {
        while (i < n && classes[s[i]] == LETTER)
            i++;
        return i < n && classes[s[i]] == FAR ? 0 : i;
    }
    if (first == DIGIT_ || (kind == FG_PRETOK_GPT2 && s[0] == ' ' && n > 1 && next == DIGIT_)) {
        size_t max = kind == FG_PRETOK_GPT2 ? n : kind == FG_PRETOK_LLAMA3 && n >= 3 ? 3 : 1;
        if (kind == FG_PRETOK_LLAMA3 && n < 3) max = n;
        while (i < max && classes[s[i]] == DIGIT_)
            i++;
        return i < max && classes[s[i]] == FAR ? 0 : i;
    }
    if (first == OTHER || (s[0] == ' ' && n > 1 && next == OTHER)) {
        while (i < n && classes[s[i]] == OTHER)
            i++;
        if (i < n && classes[s[i]] == FAR) return 0;
        while (!gpt2 && i < n && classes[s[i]] == NEWLINE)
            i++;
        return i;
    }
    // White space. Qwen ends at the last newline of the run; the rest is as GPT-2.
    size_t newline = first == NEWLINE ? 1 : 0;
    for (; i < n && (classes[s[i]] == SPACE || classes[s[i]] == NEWLINE); i++) {
        if (classes[s[i]] == NEWLINE) newline = i + 1;
    }
    if (i < n && classes[s[i]] == FAR) return 0;
    if (!gpt2 && newline) return newline;
    bool at_end = i == n || (kind == FG_PRETOK_SMOLLM2 && classes[s[i]] == DIGIT_);
    return at_end || i == 1 ? i : i - 1; // the last space belongs to what follows
}

int fg_pretok_next(const struct fg_pretok *p, struct fg_pretok_work *work, const char *text,
                   size_t n, size_t at, size_t *end, struct fg_error *err)
{
    size_t len = match_ascii(p->kind, text + at, n - at);
    if (!len) return fg_pretok_next_regex(p, work, text, n, at, end, err);
    *end = at + len;
    return 0;
}
