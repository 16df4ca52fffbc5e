"""Prints the table `frozen` of src/text/unicode.c and writes tests/golden/nfc.jsonl.

    make_tokenizer_nfc.py [OUT.jsonl]

The Hugging Face library normalizes by tables of Unicode 9, so characters that take part in NFC and
came later are left alone by it; this finds them by comparing with a newer Unicode (unicodedata2,
18.0 when this was run). The golden file holds random strings of awkward characters and their NFC by
the library. Needs the Python packages tokenizers and unicodedata2.
"""
import json
import random
import sys

import unicodedata2 as ucd
from tokenizers import normalizers

HF = normalizers.NFC()
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def frozen():
    # Marks of the lowest and of the highest class: next to them, a mark of another class moves.
    classes = {}
    for c in POINTS:
        s = "x" + chr(c)
        if c < 0x900 and ucd.combining(chr(c)) and ucd.normalize("NFC", s) == s:
            classes.setdefault(ucd.combining(chr(c)), chr(c))
    low, high = classes[1], classes[max(k for k in classes if k <= 240)]
    found = set()
    for c in POINTS:
        texts = [chr(c), ucd.normalize("NFD", chr(c))]
        k = ucd.combining(chr(c))
        if k:
            texts.append("x" + chr(c) + low if k > 1 else "x" + high + chr(c))
        if any(HF.normalize_str(t) != ucd.normalize("NFC", t) for t in texts):
            found.add(c)
    return sorted(found)


def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def texts(rng, late):
    marks = [chr(c) for c in POINTS if ucd.combining(chr(c)) and c not in late]
    composites = [chr(c) for c in POINTS if ucd.decomposition(chr(c))[:1] not in ("", "<")]
    jamo = [chr(c) for r in ((0x1100, 0x1113), (0x1161, 0x1176), (0x11A7, 0x11C3), (0xAC00, 0xAC20)) for c in range(*r)]
    seconds = [chr(c) for c in (0x9BE, 0x9D7, 0xB3E, 0xBBE, 0xCC2, 0xCD5, 0xD3E, 0xDCF, 0x102E, 0x1B35, 0x11127, 0x114BA)]
    for _ in range(600):
        s = ""
        for _ in range(rng.randint(1, 8)):
            kind = rng.randrange(7)
            if kind == 0:
                s += rng.choice("aeiouACKs<= ")
            elif kind == 1:
                s += rng.choice(composites)
            elif kind == 2:
                s += ucd.normalize("NFD", rng.choice(composites))
            elif kind == 3:
                s += rng.choice(jamo)
            elif kind == 4:
                s += rng.choice(seconds)
            elif kind == 5 and rng.random() < 0.2:
                s += chr(rng.choice(late))
            else:
                s += rng.choice(marks)
        yield s
    for n in (15, 16, 17, 40, 300):
        yield "a" + "".join(rng.choice(marks) for _ in range(n)) + "b"


def main():
    late = frozen()
    print(", ".join("{0x%X, 0x%X}" % tuple(r) for r in ranges(late)))
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as f:
            for s in texts(random.Random(1), late):
                f.write(json.dumps({"text": s, "nfc": HF.normalize_str(s)}) + "\n")


if __name__ == "__main__":
    main()
