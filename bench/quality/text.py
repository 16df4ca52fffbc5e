#!/usr/bin/env python3
"""Plain text for quality runs of small models, from files that Debian packages bring: manual pages, notes under /usr/share/doc,
sources of Python's library, C headers, JSON and YAML. Writes OUT/calib.txt and OUT/eval.txt, which share no file and nearly no
phrases, and OUT/text.json, which names every file with its SHA-256.

Usage: text.py --out DIR [--calib-mib 6] [--eval-mib 1]

A file belongs to the part that its own hash says, and its place in the text follows from the hash too: the same packages give
the same text. A file of the evaluation part is left out when more than 1 % of its runs of 10 words and signs stand in the
calibration part: `forge corpus check` then finds the two apart.
"""
import argparse
import gzip
import hashlib
import json
import os
import re
import sys

FILE_CHARS_MIN, FILE_CHARS_MAX = 400, 24000
SHARES = {"manual": 0.34, "notes": 0.22, "python": 0.20, "header": 0.08, "data": 0.06, "foreign": 0.10}
NAMES = {"(co": "\u00a9", "(bu": "\u2022", "(em": "\u2014", "(en": "\u2013", "(aq": "'", "(dq": '"', "(lq": "\u201c",
         "(rq": "\u201d", "(oq": "\u2018", "(cq": "\u2019", "(ha": "^", "(ti": "~", "(rs": "\\", "(ga": "`", "(mu": "\u00d7",
         "(->": "\u2192", "(<=": "\u2264", "(>=": "\u2265", "(+-": "\u00b1"}
FONT_MACROS = {".B", ".I", ".R", ".SB", ".SM", ".BR", ".BI", ".RB", ".RI", ".IB", ".IR"}
BREAKS = {".PP", ".P", ".LP", ".TP", ".TQ", ".IP", ".HP", ".sp", ".br", ".RS", ".RE", ".EE", ".fi", ".nf", ".EX"}


def escapes(s):
    """Text of one line of roff."""
    s = re.sub(r'\\["#].*', "", s)
    s = re.sub(r"\\f(\[[^]]*\]|\(..|.)", "", s)
    s = re.sub(r"\\s([-+]?\d{1,2}|\[[^]]*\])", "", s)
    s = re.sub(r"\\[mM](\[[^]]*\]|\(..|.)", "", s)
    s = re.sub(r"\\\[u([0-9A-F]{4,6})\]", lambda m: chr(int(m[1], 16)), s)
    s = re.sub(r"\\(\(..)", lambda m: NAMES.get(m[1], ""), s)
    s = re.sub(r"\\\[(..)\]", lambda m: NAMES.get("(" + m[1], ""), s)
    s = re.sub(r"\\\*(\[[^]]*\]|\(..|.)", "", s)
    s = re.sub(r"\\[hvwlL]'[^']*'", "", s)
    s = re.sub(r"\\n[-+]?(\[[^]]*\]|\(..|.)", "", s)
    s = s.replace(r"\-", "-").replace(r"\e", "\\").replace(r"\ ", " ").replace(r"\~", " ").replace(r"\(", "(")
    return re.sub(r"\\[&:%|^/,cpz)!?{}0]", "", s).replace("\\'", "'").replace("\\`", "`").replace("\\.", ".")


def words_of(args):
    """Arguments of a macro: separated by blanks, quoted ones keep theirs."""
    return [w[1:-1].replace('""', '"') if w.startswith('"') else w
            for w in re.findall(r'"(?:[^"]|"")*"|\S+', args)]


def manual(text):
    """A man(7) page as plain text; None for other kinds of page."""
    lines, para, skip = [], [], None
    if re.search(r"^\.(Dd|Sh|so)\b", text, re.M):
        return None

    def flush(blank=False):
        if para:
            lines.append(" ".join(para))
            para.clear()
        if blank and lines and lines[-1]:
            lines.append("")

    literal = False
    for line in text.splitlines():
        if skip:
            skip = None if line.startswith(skip) else skip
            continue
        if line.startswith((".\\\"", "'\\\"", "'")):
            continue
        if not line.startswith("."):
            s = escapes(line)
            if literal or line.startswith(" "):
                flush()
                lines.append(s)
            elif s.strip():
                para.append(s.strip())
            else:
                flush(True)
            continue
        macro, _, args = line.partition(" ")
        if macro in (".TS", ".EQ", ".de", ".ig"):
            skip = {".TS": ".TE", ".EQ": ".EN"}.get(macro, "..")
        elif macro in (".SH", ".SS"):
            flush(True)
            lines.append(escapes(" ".join(words_of(args))))
        elif macro in FONT_MACROS:
            joined = ("" if len(macro) == 3 and macro != ".SB" and macro != ".SM" else " ").join(words_of(escapes(args)))
            (lines if literal else para).append(joined)
        elif macro in BREAKS:
            flush(macro in (".PP", ".P", ".LP", ".sp", ".TP", ".IP"))
            literal = {".nf": True, ".EX": True, ".fi": False, ".EE": False}.get(macro, literal)
            if macro == ".IP" and args:
                para.append(escapes(words_of(args)[0]) if words_of(args) else "")
    flush()
    return "\n".join(lines)


def without_license(text, kind):
    """Leaves out a first comment that speaks of copying: the same words in thousands of files."""
    first = re.match(r"\s*/\*.*?\*/\s*|(\s*//[^\n]*\n)+|(#[^\n]*\n)+", text, re.S)
    if kind in ("python", "header") and first and re.search(r"copyright|licen[sc]e", first[0], re.I):
        text = text[first.end():]
    return text


def tidy(text):
    text = "".join(c for c in text.replace("\t", "    ") if c == "\n" or c.isprintable())
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r" +\n", "\n", text)).strip("\n")
    if len(text) > FILE_CHARS_MAX:
        text = text[:FILE_CHARS_MAX].rsplit("\n", 1)[0]
    return text


def kind_of(path):
    name = os.path.basename(path)
    name = name[:-3] if name.endswith(".gz") else name
    man = re.match(r"/usr/share/man/(?:(\w+)[^/]*/)?man[1-8]/", path)
    if man:
        return "foreign" if man[1] else "manual"
    if path.startswith("/usr/share/doc/"):
        if re.search(r"change|copyright|licen[sc]e|copying|authors|todo", name, re.I):
            return None
        return "notes" if re.match(r"readme|faq|news", name, re.I) or name.endswith((".md", ".rst", ".txt")) else None
    if re.match(r"/usr/lib/python3\.\d+/.*\.py$", path):
        return "python"
    if re.match(r"/usr/include/.*\.h$", path):
        return "header"
    return "data" if path.startswith("/usr/") and name.endswith((".json", ".yml", ".yaml")) else None


def load(path, kind):
    if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > 1 << 21:
        return None
    with open(path, "rb") as f:
        data = f.read()
    try:
        text = (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8")
    except (UnicodeDecodeError, OSError, EOFError):
        return None
    if kind in ("manual", "foreign"):
        text = manual(text)
    if not text:
        return None
    text = tidy(without_license(text, kind))
    if len(text) < FILE_CHARS_MIN or max(map(len, text.split("\n"))) > 4000:
        return None
    return text


def runs(text):
    w = re.findall(r"\w+|[^\w\s]", text)
    return {hash(tuple(w[i:i + 10])) for i in range(len(w) - 9)}


def candidates():
    """(hash, kind, path, text) of every file, each content once, ordered by hash."""
    paths = set()
    for name in os.listdir("/var/lib/dpkg/info"):
        if name.endswith(".list"):
            with open("/var/lib/dpkg/info/" + name, encoding="utf-8", errors="replace") as f:
                paths.update(f.read().splitlines())
    seen, out, per_folder = set(), [], {}
    for path in sorted(paths):
        kind = kind_of(path)
        text = kind and load(path, kind)
        if not text:
            continue
        digest = hashlib.sha256(text.encode()).hexdigest()
        folder = (kind, os.path.dirname(path) if kind in ("header", "data") else path)
        per_folder[folder] = per_folder.get(folder, 0) + 1
        if digest not in seen and per_folder[folder] <= 40:
            seen.add(digest)
            out.append((digest, kind, path, text))
    return sorted(out)


def choose(files, bytes_max, shun):
    """Files up to the share of each kind. shun: runs of words that the part must not repeat."""
    left, out = {k: s * bytes_max for k, s in SHARES.items()}, []
    for f in files:
        size = len(f[3].encode()) + 2
        if size > left[f[1]]:
            continue
        mine = runs(f[3]) if shun else None
        if mine and len(mine & shun) > len(mine) // 100:
            continue
        left[f[1]] -= size
        out.append(f)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--calib-mib", type=float, default=6)
    p.add_argument("--eval-mib", type=float, default=1)
    a = p.parse_args()
    files = candidates()
    parts = {"calib": [f for f in files if int(f[0][:8], 16) % 5], "eval": [f for f in files if int(f[0][:8], 16) % 5 == 0]}
    calib = choose(parts["calib"], a.calib_mib * 2**20, None)
    shun = set().union(*(runs(f[3]) for f in calib))
    chosen = {"calib": calib, "eval": choose(parts["eval"], a.eval_mib * 2**20, shun)}
    os.makedirs(a.out, exist_ok=True)
    report = {}
    for part, picked in chosen.items():
        text = "\n\n".join(f[3] for f in picked) + "\n"
        with open(os.path.join(a.out, part + ".txt"), "w", encoding="utf-8", newline="\n") as f:
            f.write(text)
        sizes = {k: sum(len(f[3].encode()) for f in picked if f[1] == k) for k in SHARES}
        report[part] = {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text.encode()), "kinds": sizes,
                        "files": [{"path": f[2], "sha256": f[0]} for f in picked]}
        print(f"{part}: {len(picked)} files, {len(text.encode())} bytes,", ", ".join(f"{k} {v}" for k, v in sizes.items()))
    every = runs("\n\n".join(f[3] for f in chosen["eval"]))
    print(f"runs of 10 of eval that stand in calib: {len(every & shun)} of {len(every)}")
    with open(os.path.join(a.out, "text.json"), "w", encoding="utf-8") as f:
        json.dump(report, f, indent=1)
        f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
