#!/usr/bin/env python3
"""Forge and a program with llama-bench (llama.cpp, ik_llama.cpp) on models of the same shape, A B A B ..., with the ratio pair by
pair, so that a machine whose speed drifts says the same thing about both.

Usage: compare_peers.py --bundle DIR --gguf FILE --llama-bench PATH [--peer-args "-rtr 1"] [--name NAME] [--forge build/release/forge]
                        [--threads 2] [--rows 1,8,64,512] [--pairs 5] [--runs 3] [--json OUT.json]

Both do prompts of N tokens in one call from an empty state, with logits of the last row alone, as llama-bench -p N does; one row
is decoding (llama-bench -n). --runs are the repetitions inside each process, whose median counts. --bundle is what
`forge bench --shape NAME --no-run` wrote, --gguf what make_peer_gguf.py wrote. Nothing else should run meanwhile.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys

DECODE_TOKENS = 16


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def forge(a, rows):
    """rows: seconds of a call, and the report"""
    common = ["--bundle", a.bundle, "--threads", str(a.threads), "--runs", str(a.runs), "--json", "--quiet"]
    reports = []
    if 1 in rows:
        reports.append(output_of([a.forge, "bench", "decode", "--tokens", str(DECODE_TOKENS), *common]))
    many = [n for n in rows if n > 1]
    if many:
        reports.append(output_of([a.forge, "bench", "rows", "--rows", ",".join(map(str, many)), "--logits", "last", *common]))
    return {f["rows"]: f["seconds"]["median"] for r in reports for f in r["figures"]}, reports


def peer(a, rows):
    """rows: seconds of a call"""
    many = [n for n in rows if n > 1]
    most = str(max([*many, 32]))
    command = [a.llama_bench, "-m", a.gguf, "-t", str(a.threads), "-r", str(a.runs), "-o", "json", "-b", most, "-ub", most,
               "-p", ",".join(map(str, many)) or "0", "-n", str(DECODE_TOKENS) if 1 in rows else "0", *shlex.split(a.peer_args)]
    out = {}
    for t in output_of(command):
        seconds = statistics.median(t["samples_ns"]) * 1e-9
        out[t["n_prompt"] or 1] = seconds / (t["n_gen"] or 1)
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bundle", required=True)
    p.add_argument("--gguf", required=True)
    p.add_argument("--llama-bench", required=True)
    p.add_argument("--peer-args", default="")
    p.add_argument("--name", default="peer")
    p.add_argument("--forge", default="build/release/forge")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rows", default="1,8,64,512")
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--json")
    a = p.parse_args()
    rows = [int(n) for n in a.rows.split(",")]
    pairs = []
    reports = []
    for i in range(a.pairs):
        ours, report = forge(a, rows)
        theirs = peer(a, rows)
        pairs.append((ours, theirs))
        reports.extend(report)
        print(f"pair {i + 1} of {a.pairs}: " + ", ".join(f"{n} rows {theirs[n] / ours[n]:.2f}" for n in rows), file=sys.stderr)
    result = {"peer": a.name, "peer_args": a.peer_args, "gguf": a.gguf, "bundle": a.bundle, "threads": a.threads, "pairs": a.pairs,
              "runs": a.runs, "rows": [], "forge_reports": reports}
    print(f"| rows | Forge, tok/s | {a.name}, tok/s | ratio: median (min to max) |\n| --- | --- | --- | --- |")
    for n in rows:
        ours, theirs = ([pair[i][n] for pair in pairs] for i in (0, 1))
        ratios = sorted(y / x for x, y in zip(ours, theirs))
        result["rows"].append({"rows": n, "forge_seconds": ours, "peer_seconds": theirs,
                               "ratio": {"median": statistics.median(ratios), "min": ratios[0], "max": ratios[-1]}})
        print(f"| {n} | {n / statistics.median(ours):.2f} | {n / statistics.median(theirs):.2f} | "
              f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
