#!/usr/bin/env python3
"""Quality of a model's quantizations: exports by several plans and options, and other programs' files, all by KL from the same
teacher over the same positions. Finished exports and reports are taken as they are, so that a run that was stopped goes on.

Usage: run.py --forge PATH --model DIR --calib ROWS --eval ROWS --out DIR [--ncal 64] [--peers DIR] [--only REGEX] [--list]

Writes OUT/exports/NAME, OUT/reports/NAME (forge eval kl), OUT/results.json and OUT/results.md, which have everything that is
finished, of earlier runs too. Plan files in OUT/plans/*.json are quantized beside the built-in ones. --peers: directory of *.gguf
with peers.json (peers.py). plot.py makes the picture of results.json.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import time

# name: (plan, further options of forge quantize). A plan in braces is a plan file's content.
PLANS = {
    "all-v2x16": ("all-v2x16", []),
    "release-0.1-like": ('{"schema": "forge.plan/1", "defaults": {"mlp": "v2x16", "mixer": "lut4", "kv": "int8", "head": "lut4"}}', []),
    "all-v2x64": ("all-v2x64", []),
    "release-0.2": ("release-0.2", []),
    "all-lut4": ("all-lut4", []),
    "all-lut6": ("all-lut6", []),
    "lut4-head-lut6": ('{"schema": "forge.plan/1", "defaults": {"mlp": "lut4", "mixer": "lut4", "kv": "int8", "head": "lut6", "embed": "head"}}', []),
    "lut4-head-int8": ('{"schema": "forge.plan/1", "defaults": {"mlp": "lut4", "mixer": "lut4", "kv": "int8", "head": "int8", "embed": "head"}}', []),
    "all-int8": ('{"schema": "forge.plan/1", "defaults": {"mlp": "int8", "mixer": "int8", "kv": "int8", "head": "int8"}}', ["--lr-rank", "0"]),
}
# One option changed at a time, on this plan, and some on others: jobs PLAN+CHANGE.
BASE = "release-0.2"
ELSEWHERE = {"rtn": ("all-v2x16", "all-v2x64", "all-lut4", "all-int8"), "plain-basis": ("all-v2x16", "all-v2x64"),
             "embed-head": ("all-v2x16", "all-v2x64", "all-lut4", "all-lut6", "all-int8")}
CHANGES = {
    "rtn": ["--method", "rtn"],
    "aw0": ["--aw", "0"],
    "row-weight0": ["--row-weight", "0"],
    "plain-basis": ["--basis", "plain"],
    "mix-rot-none": ["--mix-rot", "none"],
    "lr0": ["--lr-rank", "0"],
    "lr-after": ["--lr-iters", "1"],
    "lr-diag": ["--lr-fit", "diag"],
    "lr-full": ["--lr-fit", "full"],
    "order-none": ["--order", "none"],
    "lr-i8": ["--lr-dtype", "i8"],
    "embed-int8": ["--embed", "int8"],
    "embed-head": ["--embed", "head"],
    "refine0": ["--refine", "0"],
    "refine10": ["--refine", "10"],
}


def run(a, args):
    print("+", " ".join(args), flush=True)
    start = time.time()
    p = subprocess.run(args, stdout=subprocess.PIPE, text=True)
    if p.returncode:
        raise SystemExit(f"{args[1]}: exit {p.returncode}")
    return p.stdout, time.time() - start


def quantize(a, name, plan, options):
    out = os.path.join(a.out, "exports", name)
    if os.path.exists(os.path.join(out, "export.json")):
        return out
    if plan.startswith("{"):
        file = os.path.join(a.out, f"{name}.plan.json")
        if not os.path.exists(file):
            with open(file, "w") as f:
                f.write(plan)
        plan = file
    data = [] if "rtn" in options else ["--calib", a.calib, "--ncal", str(a.ncal)]
    run(a, [a.forge, "quantize", "-m", a.model, "-o", out, "--plan", plan, "--no-progress", *data, *options])
    return out


def teacher(a):
    out = os.path.join(a.out, "teacher")
    if not os.path.exists(os.path.join(out, "index.json")):
        run(a, [a.forge, "teacher", "-m", a.model, "--trace", a.eval, "--topk", "512", "--out", out, "--no-progress"])
    return out


def evaluate(a, name, model, cache):
    out = os.path.join(a.out, "reports", name)
    summary = os.path.join(out, "summary.json")
    if not os.path.exists(summary):
        run(a, [a.forge, "eval", "kl", "-m", model, "--trace", a.eval, "--teacher", cache, "-o", out, "--no-progress"])
    with open(summary) as f:
        return json.load(f)


def compare(a, x, y):
    """Ratio y / x of mean KL with its interval."""
    out, _ = run(a, [a.forge, "eval", "kl", "compare", "--json", os.path.join(a.out, "reports", x),
                     os.path.join(a.out, "reports", y)])
    return json.loads(out)


def export_bytes(path):
    """Bytes that a token reads, and the embedding."""
    with open(os.path.join(path, "export.json")) as f:
        b = json.load(f)["bytes"]
    return b["weights"] + b["factors"] + b["small"], b["embed"]


def jobs(a):
    """(name, kind, what), forge's first."""
    out = [(n, "forge", p) for n, p in PLANS.items()]
    for n, o in CHANGES.items():
        for base in (BASE, *ELSEWHERE.get(n, ())):
            plan, more = PLANS[base]
            out.append((f"{base}+{n}", "forge", (plan, more + o)))
    for f in sorted(glob.glob(os.path.join(a.out, "plans", "*.json"))):
        out.append((os.path.basename(f)[:-5], "forge", (f, [])))
    if a.peers:
        out += [("llama.cpp/" + os.path.basename(f)[:-5], "gguf", f) for f in sorted(glob.glob(a.peers + "/*.gguf"))
                if "imatrix" not in f]
    return out


def table(rows):
    lines = ["| what | bytes per token, MB | with embedding, MB | mean KL | 95 % | median | p99 | top-1 | ppl |",
             "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |"]
    for r in sorted(rows, key=lambda r: r["token_bytes"]):
        lines.append(f"| {r['name']} | {r['token_bytes'] / 1e6:.1f} | {r['total_bytes'] / 1e6:.1f} | {r['mean_kl']:.4f} | "
                     f"{r['ci95'][0]:.4f} to {r['ci95'][1]:.4f} | {r['median_kl']:.4f} | {r['p99_kl']:.3f} | "
                     f"{100 * r['top1']:.2f} % | {r['ppl']:.3f} |")
    return "\n".join(lines) + "\n"


def changes(rows):
    lines = ["| change | mean KL | against the plan | 95 % | verdict |", "| --- | ---: | ---: | --- | --- |"]
    for r in rows:
        if "against_base" not in r:
            continue
        c = r["against_base"]["all"]
        lines.append(f"| {r['name']} | {r['mean_kl']:.4f} | {100 * c['change']:+.1f} % | {100 * c['change_ci95'][0]:+.1f} to "
                     f"{100 * c['change_ci95'][1]:+.1f} % | {c['verdict']} |")
    return "\n".join(lines) + "\n"


def row(a, name, kind, what, peers):
    """What is known of one finished job; None before."""
    summary = os.path.join(a.out, "reports", name.replace("/", "-"), "summary.json")
    if not os.path.exists(summary):
        return None
    with open(summary) as f:
        s = json.load(f)
    if kind == "forge":
        token, embed = export_bytes(os.path.join(a.out, "exports", name))
        total = token + embed
    else:
        token = total = peers["files"][os.path.basename(what)[:-5]]["tensor_bytes"]
    return {"name": name, "kind": kind, "token_bytes": token, "total_bytes": total, "ci95": s["mean_kl_ci95"],
            **{k: s[k] for k in ("mean_kl", "median_kl", "p99_kl", "top1", "ppl", "positions", "model_digest")}}


def write(a, peers):
    """results.json and results.md of everything that is finished; changes with their ratio to the plan that they change."""
    rows = [r for r in (row(a, *j, peers) for j in jobs(a)) if r]
    names = {r["name"] for r in rows}
    for r in rows:
        base = r["name"].partition("+")[0]
        if base != r["name"] and base in names:
            r["against_base"] = compare(a, base, r["name"])
    with open(os.path.join(a.out, "reports", "control", "summary.json")) as f:
        s = json.load(f)
    control = {k: s[k] for k in ("mean_kl", "max_kl", "top1", "ref_ppl", "positions")}
    with open(os.path.join(a.out, "results.json"), "w") as f:
        json.dump({"control": control, "rows": rows}, f, indent=1)
    with open(os.path.join(a.out, "results.md"), "w") as f:
        f.write(table(rows) + "\n" + changes(rows))


def main():
    p = argparse.ArgumentParser()
    for name in ("--forge", "--model", "--calib", "--eval", "--out"):
        p.add_argument(name, required=True)
    p.add_argument("--ncal", type=int, default=64)
    p.add_argument("--peers")
    p.add_argument("--only")
    p.add_argument("--list", action="store_true")
    a = p.parse_args()
    if a.list:
        print("\n".join(j[0] for j in jobs(a)))
        return
    os.makedirs(a.out, exist_ok=True)
    peers = {}
    if a.peers:
        with open(os.path.join(a.peers, "peers.json")) as f:
            peers = json.load(f)
    cache = teacher(a)
    evaluate(a, "control", a.model, cache)
    for name, kind, what in jobs(a):
        if a.only and not re.search(a.only, name):
            continue
        path = quantize(a, name, *what) if kind == "forge" else what
        s = evaluate(a, name.replace("/", "-"), path, cache)
        print(f"{name}: KL {s['mean_kl']:.4f} [{s['mean_kl_ci95'][0]:.4f}, {s['mean_kl_ci95'][1]:.4f}]", flush=True)
        write(a, peers)


if __name__ == "__main__":
    main()
