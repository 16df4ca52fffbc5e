"""Compares Forge's tokenizers with the Hugging Face library on real vocabularies.

    tokenizer_check.py --dump TOK_DUMP [--qwen3 DIR] [--smollm2 FILE.gguf] [--golden FILE.jsonl]

TOK_DUMP is the program built from tok_dump.c; DIR holds the tokenizer.json of Qwen3, from which the
ones with the patterns of Qwen3.5, GPT-2 and Llama 3 are derived; FILE.jsonl is tokenizer_qwen3.jsonl. Installs and downloads
nothing; needs the Python packages tokenizers, and gguf for --smollm2. Compared are ids, decodings
and streams of: every code point alone and after "a", space and "#"; random strings of awkward
parts; random bytes; and 5 MB of code and prose found on the machine. Exit code 1 when anything
differs.
"""
import argparse
import glob
import json
import os
import random
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
          r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
RAW = 4  # FG_TOK_RAW
PLAIN = 1  # FG_TOK_PLAIN
CHUNK = 100000
SHOWN = 5

PARTS = [
    "a", "b", "Z", "the", " the", "don't", "I'LL", "'s", "'ſ", "'S", "’s", "ſ", "K", " ", "  ", "   ",
    "\t", "\n", "\r", "\r\n", "\n\n", " \n", "\v", "\f", "\x1c", "\x1f", "\x85", "\xa0", "\u1680",
    "\u2003", "\u2028", "\u2029", "\u202f", "\u3000", "\u180e", "\u200b", "\ufeff", "\u200d", "0", "1",
    "12345", "１２３", "½", "Ⅷ", "²", "٣", "𝟘", "!", "!!", "->", "(x):\n", "};\r\n\r\n", "=", "====", "#",
    "\x00", "\x07", "\x7f", "é", "e\u0301", "\u0301", "\u0327", "\u0301\u0327", "\u05b0", "\u094d", "क", "ि",
    "ไทย", "עִ", "தமிழ்", "한글", "\u1112\u1161\u11ab", "\u1100", "\u1161", "\u11a8", "\u212b", "\u0958",
    "\uf900", "\u0344", "\u0f73", "中文", "日本語", "，", "。", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "1️⃣", "👍🏽",
    "\U000e0067\U000e007f", "𝔘𝔫𝔦", "\ufffe", "\uffff", "\U0010ffff", "\U0001fffe", "<|im_start|>", "<|im_end|>",
    "<|endoftext|>", "<|im_", "end|>", "<|<|im_end|>|>", "<think>", "</think>", "<tool_call>", "<", "|", ">",
    "Ġ", "Ċ", "ï¿½", "\ufffd", "\u0951\u0327\u0301", "ꙺ", "\U00011935\U00011930", "\U0001e130\u0301",
]


class Forge:
    def __init__(self, program, model):
        self.argv = [program, model]

    def encode(self, texts, flags=0):
        """[(ids, decoded bytes)] of byte strings; checks that the stream decodes alike."""
        data = b"".join(struct.pack("<II", flags, len(t)) + t for t in texts)
        out = subprocess.run(self.argv, input=data, stdout=subprocess.PIPE, check=True).stdout
        at, result = 0, []
        for _ in texts:
            (n,) = struct.unpack_from("<I", out, at)
            ids = list(struct.unpack_from(f"<{n}i", out, at + 4))
            at += 4 + 4 * n
            decoded = []
            for _ in range(2):
                (n,) = struct.unpack_from("<I", out, at)
                decoded.append(out[at + 4:at + 4 + n])
                at += 4 + n
            if decoded[0] != decoded[1]:
                raise SystemExit(f"stream and decoding differ: {decoded}")
            result.append((ids, decoded[0]))
        return result


class Check:
    def __init__(self, name, forge, hf, missing=()):
        self.name, self.forge, self.hf = name, forge, hf
        self.missing = set(missing)  # bytes that the vocabulary lacks
        self.failed = 0

    def differ(self, what, text, a, b):
        self.failed += 1
        if self.failed <= SHOWN:
            print(f"  {self.name} {what}: {text[:60]!r}: forge {a[:20]!r}, hf {b[:20]!r}")

    def texts(self, what, texts, flags=0):
        """texts: str, or bytes that need not be UTF-8."""
        began, failed, total = time.time(), self.failed, 0
        for i in range(0, len(texts), CHUNK):
            part = texts[i:i + CHUNK]
            raw = [t.encode() if isinstance(t, str) else t for t in part]
            plain = [t if isinstance(t, str) else t.decode("utf-8", "replace") for t in part]
            ref = [e.ids for e in self.hf.encode_batch_fast(plain, add_special_tokens=False)]
            ref_text = self.hf.decode_batch(ref, skip_special_tokens=False)
            for text, (ids, decoded), hf_ids, hf_text in zip(
                    plain, self.forge.encode(raw, flags), ref, ref_text):
                total += len(text)
                if ids != hf_ids:
                    self.differ(what, text, ids, hf_ids)
                elif decoded != hf_text.encode():
                    self.differ(what + ", decoding", text, decoded, hf_text)
                elif not self.missing.intersection(text.encode()):
                    # Added tokens stand between the pieces that are normalized.
                    want = self.normalized(text)
                    if decoded.decode() != want:
                        self.differ(what + ", round trip", text, decoded.decode(), want)
        print(f"{self.name}: {what}: {len(texts)} texts, {total} characters, "
              f"{self.failed - failed} differ ({time.time() - began:.0f} s)", flush=True)

    def normalized(self, text):
        if not self.hf.normalizer:
            return text
        out, at = "", 0
        for begin, end in self.added_in(text):
            out += self.hf.normalizer.normalize_str(text[at:begin]) + text[begin:end]
            at = end
        return out + self.hf.normalizer.normalize_str(text[at:])

    def added_in(self, text):
        names = [t.content for t in self.hf.get_added_tokens_decoder().values()]
        at = 0
        while at < len(text):
            at = text.find("<", at)  # every added token of these vocabularies begins so
            if at < 0:
                return
            longest = max((len(n) for n in names if text.startswith(n, at)), default=0)
            if longest:
                yield at, at + longest
            at += longest or 1

    def raw_bytes(self, texts):
        for text, (ids, decoded) in zip(texts, self.forge.encode(texts, RAW | PLAIN)):
            if not self.missing and not self.hf.normalizer and decoded != text.decode(
                    "utf-8", "replace").encode():
                self.differ("raw bytes", str(text), list(decoded), list(text))
        print(f"{self.name}: raw bytes: {len(texts)} texts")


def code_points():
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def corpus():
    """About 2.5 MB each of code and of prose, in pieces of a file each."""
    lib = sysconfig.get_paths()["stdlib"]
    lists = [sorted(glob.glob(os.path.join(lib, "*.py"))),
             sorted(glob.glob("/usr/share/common-licenses/*")) +
             sorted(glob.glob("/usr/share/doc/*/copyright"))]
    texts, sizes = [], []
    for files in lists:
        size = 0
        for name in files:
            if size >= 2500000:
                break
            with open(name, "rb") as f:
                data = f.read()
            texts.append(data)
            size += len(data)
        sizes.append(size)
    print(f"corpus: {sizes[0]} bytes of code, {sizes[1]} bytes of prose")
    return texts + [b"\n".join(texts)]


def random_texts(rng, n):
    points = code_points()
    texts = []
    for _ in range(n):
        parts = [rng.choice(PARTS) if rng.random() < 0.9 else rng.choice(points)
                 for _ in range(rng.randint(1, 14))]
        texts.append("".join(parts))
    return texts


def random_bytes(rng, n):
    texts = []
    for _ in range(n):
        b = bytearray("".join(rng.choice(PARTS) for _ in range(rng.randint(1, 8))).encode())
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(b) + 1)
            kind = rng.randrange(3)
            if kind == 0:
                b.insert(at, rng.randrange(256))
            elif kind == 1 and at < len(b):
                del b[at]
            else:
                b[at:at] = rng.choice([b"\xe2\x82", b"\xf0\x9f\x98", b"\xff", b"\xed\xa0\x80", b"\xc0\xaf",
                                       b"\xf4\x90\x80\x80", b"\x80", b"\xe0\x80"])
        texts.append(bytes(b))
    return texts


def long_texts():
    n = 1 << 20
    return [c * n for c in ("a", " ", "7", "=", "\n", "é", "中")] + ["ab1=" * (n // 4), "\u0301" * 100000,
                                                                   "<|im_end|>" * 10000, "<" * n]


def check_all(check, rng):
    check.texts("corpus", corpus())
    check.texts("random", random_texts(rng, 40000))
    check.texts("invalid bytes", random_bytes(rng, 20000))
    check.raw_bytes(random_bytes(rng, 2000))
    check.texts("long runs", long_texts())
    points = code_points()
    for before in ("", "a", " ", "#"):
        check.texts(f"code points after {before!r}", [before + c for c in points])
    return check.failed


def check_golden(forge35, forge2, path):
    failed = 0
    lines = [json.loads(line) for line in open(path, encoding="utf-8")]
    texts = [j["text"].encode() for j in lines]
    for name, forge in (("qwen2", forge2), ("qwen35", forge35)):
        for j, (ids, decoded) in zip(lines, forge.encode(texts)):
            if ids != j["ids"][name] or decoded.decode() != j["decoded"]:
                failed += 1
                print(f"  golden {name} {j['name']}: {ids} for {j['ids'][name]}")
    print(f"golden file: {len(lines)} texts, {failed} differ")
    return failed


def check_qwen3(args, folder, rng):
    source = os.path.join(args.qwen3, "tokenizer.json")
    checks = {}
    for name in ("qwen35", "qwen2", "gpt2", "llama3"):
        d = os.path.join(folder, name)
        os.mkdir(d)
        with open(source, encoding="utf-8") as f:
            tok = json.load(f)
        split = tok["pre_tokenizer"]["pretokenizers"][0]["pattern"]
        if name == "qwen35":
            split["Regex"] = QWEN35
        if name == "llama3":
            split["Regex"] = LLAMA3
            tok["model"]["ignore_merges"] = True
        if name == "gpt2":
            tok["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False,
                                    "trim_offsets": True, "use_regex": True}
        if name in ("gpt2", "llama3"):
            tok["normalizer"] = None
        with open(os.path.join(d, "tokenizer.json"), "w", encoding="utf-8") as f:
            json.dump(tok, f, ensure_ascii=False)
        hf = Tokenizer.from_file(os.path.join(d, "tokenizer.json"))
        checks[name] = Check(name, Forge(args.dump, d), hf)
    failed = 0
    if args.golden:
        failed += check_golden(checks["qwen35"].forge, checks["qwen2"].forge, args.golden)
    return failed + sum(check_all(c, rng) for c in checks.values())


def byte_alphabet():
    """Of GPT-2: byte to character."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    return {**{b: chr(b) for b in keep}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


def check_smollm2(args, folder, rng):
    import gguf
    fields = gguf.GGUFReader(args.smollm2).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ", 1)) for m in fields["tokenizer.ggml.merges"].contents()]
    hf = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    hf.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    hf.decoder = decoders.ByteLevel()
    hf.add_special_tokens([AddedToken(t, special=True, normalized=False)
                           for t, kind in zip(tokens, types) if kind == 3])
    d = os.path.join(folder, "smollm2")
    os.mkdir(d)
    hf.save(os.path.join(d, "tokenizer.json"))
    have = set(tokens)
    missing = [b for b, c in byte_alphabet().items() if c not in have]
    print(f"smollm2: {len(missing)} bytes without a token: {missing}")
    from_json = Forge(args.dump, d).encode([t.encode() for t in PARTS])
    from_gguf = Forge(args.dump, args.smollm2).encode([t.encode() for t in PARTS])
    failed = sum(a != b for a, b in zip(from_json, from_gguf))
    vectors = {"The capital of France is": [504, 3575, 282, 4649, 314],
               "Hello world! 123": [19556, 905, 17, 216, 33, 34, 35],
               "  multiple   spaces": [216, 2701, 256, 5600],
               "Café déjà vu.": [51, 1939, 2756, 32564, 90, 16739, 386, 101, 30], "\n": [198]}
    got = Forge(args.dump, args.smollm2).encode([t.encode() for t in vectors])
    failed += sum(ids != want for (ids, _), want in zip(got, vectors.values()))
    print(f"smollm2: published vectors and both loaders: {failed} differ")
    return failed + check_all(Check("smollm2", Forge(args.dump, args.smollm2), hf, missing), rng)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", required=True)
    parser.add_argument("--qwen3")
    parser.add_argument("--smollm2")
    parser.add_argument("--golden")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        if args.smollm2:
            failed += check_smollm2(args, folder, rng)
        if args.qwen3:
            failed += check_qwen3(args, folder, rng)
    print("tokenizer_check:", "ok" if failed == 0 else f"{failed} differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
