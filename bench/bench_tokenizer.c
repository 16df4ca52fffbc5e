// Speed of tokenizers: bench_tokenizer MODEL [TEXT]: opening time, and MB/s of encoding a file of
// text on one thread. MODEL is a folder with tokenizer.json or a GGUF file. Without TEXT, a
// megabyte of English-like text is made from a word list.
#include "base/buf.h"
#include "base/file.h"
#include "base/progress.h"
#include "format/gguf.h"
#include "text/tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (256u << 20)
#define OPENINGS 5
#define ENCODINGS 7

static void fail(const struct fg_error *err)
{
    char line[1024];
    fprintf(stderr, "bench_tokenizer: %s\n", fg_error_line(err, line, sizeof line));
    exit(err->code);
}

static struct fg_tokenizer *open_model(const char *path)
{
    struct fg_tokenizer *tok;
    struct fg_error err = {0};
    size_t len = strlen(path);
    if (len > 5 && strcmp(path + len - 5, ".gguf") == 0) {
        struct fg_gguf *gguf;
        if (fg_gguf_open(&gguf, path, &err)) fail(&err);
        if (fg_tokenizer_open_gguf(&tok, gguf, &err)) fail(&err);
        fg_gguf_close(gguf);
    } else if (fg_tokenizer_open(&tok, path, NULL, &err)) {
        fail(&err);
    }
    return tok;
}

// Words drawn with frequencies that fall as 1/rank, with commas, full stops, numbers and newlines.
static void make_text(struct fg_buf *text)
{
    static const char words[] =
        "the of and to in is that it was for on are with as his they be at one have this from by "
        "hot word but what some we can out other were all there when up use your how said an each "
        "she which do their time if will way about many then them write would like so these her "
        "long make thing see him two has look more day could go come did number sound no most "
        "people my over know water than call first who may down side been now find any new work "
        "part take get place made live where after back little only round man year came show every "
        "good me give our under name very through just form sentence great think say help low line "
        "differ turn cause much mean before move right boy old too same tell does set three want "
        "air well also play small end put home read hand port large spell add even land here must "
        "big high such follow act why ask men change went light kind off need house picture try us "
        "again animal point mother world near build self earth father head stand own page should "
        "country found answer school grow study still learn plant cover food sun four between "
        "state keep eye never last let thought city tree cross farm hard start might story";
    const char *list[256];
    size_t lens[256], n = 0;
    for (const char *w = words; *w && n < 256; n++) {
        size_t len = strcspn(w, " ");
        list[n] = w;
        lens[n] = len;
        w += len + (w[len] == ' ');
    }
    uint64_t state = 1;
    for (unsigned i = 0; text->len < 1u << 20; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        double u = (double)(state >> 11) / 9007199254740992.0;
        size_t k = (size_t)(u * u * (double)n);
        fg_buf_add(text, list[k], lens[k]);
        fg_buf_str(text, i % 97 == 0 ? ".\n\n" : i % 13 == 0 ? ". " : i % 7 == 0 ? ", " : " ");
        if (i % 101 == 0) fg_buf_printf(text, "%u ", (unsigned)(state >> 50));
    }
}

int main(int argc, char **argv)
{
    struct fg_error err = {0};
    struct fg_buf text = {0};
    struct fg_ids ids = {0};
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: bench_tokenizer MODEL [TEXT]\n");
        return 2;
    }
    struct fg_tokenizer *tok = NULL;
    double first_s = 0, best_s = 1e9;
    for (int i = 0; i < OPENINGS; i++) {
        fg_tokenizer_free(tok);
        double t = fg_clock();
        tok = open_model(argv[1]);
        t = fg_clock() - t;
        if (i == 0) first_s = t;
        if (t < best_s) best_s = t;
    }
    if (argc == 3) {
        if (fg_file_read(&text, argv[2], TEXT_BYTES_MAX, &err)) fail(&err);
    } else {
        make_text(&text);
    }
    double cold_s = 0, warm_s = 1e9;
    struct fg_tok_work *work;
    if (fg_tok_work_new(&work, tok, &err)) fail(&err);
    for (int i = 0; i < ENCODINGS; i++) {
        ids.n = 0;
        double t = fg_clock();
        if (fg_tokenizer_encode(tok, work, text.data, text.len, 0, &ids, &err)) fail(&err);
        t = fg_clock() - t;
        if (i == 0) cold_s = t;
        if (t < warm_s) warm_s = t;
    }
    double mb = (double)text.len / 1e6;
    printf(
        "%s: %d ids, opens in %.0f ms (first %.0f ms); %.2f MB to %zu ids, %.1f MB/s (first pass "
        "%.1f MB/s)\n",
        fg_tokenizer_kind(tok), (int)fg_tokenizer_size(tok), best_s * 1e3, first_s * 1e3, mb, ids.n,
        mb / warm_s, mb / cold_s);
    fg_tok_work_free(work);
    fg_tokenizer_free(tok);
    fg_ids_free(&ids);
    fg_buf_free(&text);
    return 0;
}
