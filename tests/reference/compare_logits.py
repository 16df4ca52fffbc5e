#!/usr/bin/env python3
"""Compares `forge eval logits` with the reference on a full set of checkpoints.

    make_checkpoints.py --out DIR
    compare_logits.py DIR --forge build/forge [--isas ref,avx2,...] [--bits all|first|none]

For every checkpoint folder of DIR:
- for each prompt length: every row within 1e-4 relative L2 of the oracle's run on those tokens
  alone, and the same best token;
- for the whole prompt: the same bytes for --rows 1, 4, 8, 64, --threads 1, 2 and every kernel level
  of --isas that this machine has (the others are named and left out). --bits first does this for
  one seed of each configuration.
Needs NumPy only. Exit code 1 if anything differs.
"""

import argparse
import glob
import hashlib
import os
import subprocess
import sys
import tempfile

import numpy as np

TOLERANCE = 1e-4
ROWS, THREADS = (1, 4, 8, 64), (1, 2)
EXIT_UNSUPPORTED = 7


class Forge:
    def __init__(self, binary):
        self.binary, self.scratch = binary, tempfile.TemporaryDirectory()

    def run(self, folder, tokens, isa=None, rows=None, threads=None):
        """Path of the logits, or None if this machine does not have the level."""
        ids, out = (os.path.join(self.scratch.name, name) for name in ("ids.npy", "logits.npy"))
        np.save(ids, tokens)
        command = [self.binary, "eval", "logits", "--model", folder, "--tokens", ids, "--out", out]
        if rows:
            command += ["--rows", str(rows)]
        if threads:
            command += ["--threads", str(threads)]
        environment = dict(os.environ, FORGE_STATE=self.scratch.name)
        if isa:
            environment["FORGE_ISA"] = isa
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode == EXIT_UNSUPPORTED and isa:
            return None
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr}")
        return out


def row_errors(got, want):
    got, want = got.astype(np.float64), want.astype(np.float64)
    return np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)


def compare(forge, folder):
    """Worst error over all lengths; failures as text."""
    tokens, worst, failures = np.load(os.path.join(folder, "tokens.npy")), 0.0, []
    lengths = [int(name[:-4].rsplit("-", 1)[1]) for name in glob.glob(f"{folder}/logits-*.npy")]
    if not lengths:
        return worst, ["no logits-T.npy: not a full set"]
    for T in sorted(lengths):
        want = np.load(os.path.join(folder, f"logits-{T}.npy"))
        got = np.load(forge.run(folder, tokens[:T]))
        if got.shape != want.shape or got.dtype != np.float32:
            failures.append(f"{T} tokens: {got.dtype} {got.shape}, expected float32 {want.shape}")
            continue
        errors = row_errors(got, want)
        worst = max(worst, errors.max())
        for row in np.flatnonzero(~(errors <= TOLERANCE)):
            failures.append(f"{T} tokens, row {row}: relative L2 {errors[row]:.3g}")
        for row in np.flatnonzero(got.argmax(1) != want.argmax(1)):
            failures.append(
                f"{T} tokens, row {row}: best token {got[row].argmax()}, "
                f"reference {want[row].argmax()}"
            )
    return worst, failures


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def compare_bits(forge, folder, isas):
    """Runs compared; failures as text."""
    tokens, failures, n = np.load(os.path.join(folder, "tokens.npy")), [], 0
    first = None
    for isa in isas:
        for rows in ROWS:
            for threads in THREADS:
                got = digest(forge.run(folder, tokens, isa, rows, threads))
                first, n = first or got, n + 1
                if got != first:
                    failures.append(
                        f"{isa}, --rows {rows}, --threads {threads}: other bytes than "
                        f"{isas[0]}, --rows {ROWS[0]}, --threads {THREADS[0]}"
                    )
    return n, failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dir")
    parser.add_argument("--forge", required=True)
    parser.add_argument("--isas", default="ref,avx2,avx512,avx512bf16")
    parser.add_argument("--bits", choices=("all", "first", "none"), default="all")
    options = parser.parse_args()
    forge = Forge(options.forge)
    folders = sorted(os.path.dirname(path) for path in glob.glob(f"{options.dir}/*/tokens.npy"))
    if not folders:
        sys.exit(f"{options.dir}: no checkpoints")

    tokens = np.load(os.path.join(folders[0], "tokens.npy"))[:1]
    isas = [isa for isa in options.isas.split(",") if forge.run(folders[0], tokens, isa)]
    missing = set(options.isas.split(",")) - set(isas)
    print("levels:", " ".join(isas), f"(not here: {' '.join(sorted(missing))})" if missing else "")

    failed = 0
    for folder in folders:
        worst, failures = compare(forge, folder)
        n = 0
        if options.bits == "all" or (options.bits == "first" and folder.endswith("-s0")):
            n, more = compare_bits(forge, folder, isas)
            failures += more
        print(
            f"{os.path.basename(folder)}: relative L2 at most {worst:.2g}"
            + (f", {n} runs with the same bytes" if n and not failures else ""),
            flush=True,
        )
        for failure in failures[:10]:
            print(f"    {failure}")
        if len(failures) > 10:
            print(f"    and {len(failures) - 10} more")
        failed += bool(failures)
    print(f"{len(folders)} checkpoints, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
