// Encodes and decodes texts for tokenizer_check.py. Usage: tok_dump MODEL, a folder with
// tokenizer.json or a GGUF file. Standard input holds requests, standard output the replies, all
// numbers 32 bits little-endian:
//   request  flags of fg_tokenizer_encode · number of bytes · text
//   reply    number of ids · ids · number of bytes · their decoding · the same from a stream that
//            is flushed at the end, again with its number of bytes
#include "base/buf.h"
#include "format/gguf.h"
#include "text/tokenizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const struct fg_error *err)
{
    char line[1024];
    fprintf(stderr, "tok_dump: %s\n", fg_error_line(err, line, sizeof line));
    exit(err->code);
}

static bool get(void *data, size_t n)
{
    return fread(data, 1, n, stdin) == n;
}

static void put(const void *data, size_t n)
{
    if (n && fwrite(data, 1, n, stdout) != n) exit(1);
}

static void put_bytes(const struct fg_buf *b)
{
    uint32_t n = (uint32_t)b->len;
    put(&n, sizeof n);
    put(b->data, b->len);
}

int main(int argc, char **argv)
{
    struct fg_tokenizer *tok;
    struct fg_tok_work *work;
    struct fg_error err = {0};
    if (argc != 2) return 2;
    size_t len = strlen(argv[1]);
    if (len > 5 && strcmp(argv[1] + len - 5, ".gguf") == 0) {
        struct fg_gguf *gguf;
        if (fg_gguf_open(&gguf, argv[1], &err)) fail(&err);
        if (fg_tokenizer_open_gguf(&tok, gguf, &err)) fail(&err);
        fg_gguf_close(gguf);
    } else if (fg_tokenizer_open(&tok, argv[1], NULL, &err)) {
        fail(&err);
    }
    if (fg_tok_work_new(&work, tok, &err)) fail(&err);
    struct fg_ids ids = {0};
    struct fg_buf text = {0}, whole = {0}, streamed = {0};
    for (uint32_t head[2]; get(head, sizeof head);) {
        ids.n = 0;
        fg_buf_clear(&text);
        fg_buf_clear(&whole);
        fg_buf_clear(&streamed);
        if (!fg_buf_reserve(&text, head[1]) || !get(text.data, head[1])) return 1;
        if (fg_tokenizer_encode(tok, work, text.data, head[1], head[0], &ids, &err)) fail(&err);
        if (fg_tokenizer_decode(tok, ids.data, ids.n, 0, &whole, &err)) fail(&err);
        struct fg_tok_stream s;
        fg_tok_stream_init(&s, tok, 0);
        for (size_t i = 0; i < ids.n; i++) {
            if (fg_tok_stream_push(&s, ids.data[i], &streamed, &err)) fail(&err);
        }
        if (fg_tok_stream_flush(&s, &streamed, &err)) fail(&err);
        uint32_t n = (uint32_t)ids.n;
        put(&n, sizeof n);
        put(ids.data, ids.n * sizeof *ids.data);
        put_bytes(&whole);
        put_bytes(&streamed);
    }
    fg_buf_free(&text);
    fg_buf_free(&whole);
    fg_buf_free(&streamed);
    fg_ids_free(&ids);
    fg_tok_work_free(work);
    fg_tokenizer_free(tok);
    return 0;
}
