#!/usr/bin/env python3
"""Forge and llama.cpp on the same GGUF, A B A B ..., with the ratio pair by pair, so that a machine whose speed drifts says
the same thing about both.

Usage: compare_llama.py --gguf FILE --llama-bench PATH [--bench-model build/release/bench_model] [--model DIR] [--threads 2]
                        [--numerics exact] [--runs 7] [--prefill 512] [--decode 128]

--model: what Forge opens (an import of the GGUF); without it Forge opens the GGUF itself. llama-bench is llama.cpp's own; the
source package of llama-cpp-python on PyPI carries a whole copy of llama.cpp that builds with cmake.
"""
import argparse
import json
import statistics
import subprocess


def forge(a, what):
    out = subprocess.run([a.bench_model, "--model", a.model or a.gguf, "--threads", str(a.threads), "--numerics", a.numerics,
                          "--prefill", str(a.prefill if what == "prefill" else 1), "--decode", str(a.decode),
                          "--once", what], check=True, capture_output=True, text=True).stdout
    return (a.prefill if what == "prefill" else a.decode) / float(out)


def llama(a, what):
    size = ["-p", str(a.prefill), "-n", "0"] if what == "prefill" else ["-p", "0", "-n", str(a.decode)]
    out = subprocess.run([a.llama_bench, "-m", a.gguf, "-t", str(a.threads), "-r", "1", "-o", "json", *size], check=True,
                         capture_output=True, text=True).stdout
    return json.loads(out)[0]["avg_ts"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gguf", required=True)
    p.add_argument("--llama-bench", required=True)
    p.add_argument("--bench-model", default="build/release/bench_model")
    p.add_argument("--model")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--numerics", default="exact")
    p.add_argument("--runs", type=int, default=7)
    p.add_argument("--prefill", type=int, default=512)
    p.add_argument("--decode", type=int, default=128)
    a = p.parse_args()
    print("| work | Forge, tok/s | llama.cpp, tok/s | ratio: median (min to max) |\n| --- | --- | --- | --- |")
    for what in ("prefill", "decode"):
        pairs = [(forge(a, what), llama(a, what)) for _ in range(a.runs)]
        ours, theirs = ([pair[i] for pair in pairs] for i in (0, 1))
        ratios = sorted(x / y for x, y in pairs)
        size = a.prefill if what == "prefill" else a.decode
        print(f"| {what} {size} | {statistics.median(ours):.1f} | {statistics.median(theirs):.1f} | "
              f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)


if __name__ == "__main__":
    main()
