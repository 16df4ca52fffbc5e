"""Makes the seeds of fuzz_tokenizer: make_tokenizer_seeds.py tests/fuzz/corpus/tokenizer"""
import json
import os
import sys

KEEP = [*range(33, 127), *range(161, 173), *range(174, 256)]
REST = [b for b in range(256) if b not in KEEP]
ALPHABET = {**{b: chr(b) for b in KEEP}, **{b: chr(256 + i) for i, b in enumerate(REST)}}

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
ADDED = [{"id": 300, "content": "<t>", "lstrip": True, "special": True},
         {"id": 301, "content": "<t>x", "rstrip": True, "normalized": False},
         {"id": 302, "content": "word", "single_word": True}]
WHOLE = {
    "added_tokens": ADDED,
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence",
                      "pretokenizers": [{"type": "Digits", "individual_digits": True}, BYTE_LEVEL]},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<t>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<t>": {"id": "<t>", "ids": [300], "tokens": ["<t>"]}}},
    "decoder": BYTE_LEVEL,
    "model": {"type": "BPE", "unk_token": None, "ignore_merges": True,
              "vocab": {**{ALPHABET[b]: b for b in range(256)}, "ab": 256}, "merges": [["a", "b"]]},
}
# kind, merges, added tokens, text: see fuzz_tokenizer.c
PARTS = [
    ("0", "a b\nab c\nĠ a\n", "", "abc abc don't 'LL 123\r\n  x"),
    ("1", "à ¤\n", "", "e\u0301 \u0928\u094d\u0926\u0940 \u00a0\u3000x"),
    ("q", "a a\naa aa\n", json.dumps(ADDED), " a <t> e\u0301 word words<t>xaaaa"),
    ("3", "1 2\n", json.dumps(ADDED), "a  12 <t>\n"),
    ("4", "a a\naa a\n", "", "a" * 80 + "   \n\n ==="),
]


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)

    def write(name, data):
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)

    write("whole", b"j" + json.dumps(WHOLE, ensure_ascii=False, separators=(",", ":")).encode())
    for i, (kind, merges, added, text) in enumerate(PARTS):
        write(f"parts{i}", (kind + merges + "\0" + added + "\0" + text).encode())
    write("bytes", b"2\xc3\x83 \xc2\xa9\n\0\0ab\xff\xe2\x82 \xed\xa0\x80\xf0\x9f\x98")


if __name__ == "__main__":
    main()
