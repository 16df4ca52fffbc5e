#!/usr/bin/env python3
"""The picture of run.py's results.json: mean KL against bytes, Forge's exports and llama.cpp's files.

Usage: plot.py results.json OUT.png [--bytes total|token]

total: every byte of the weights, the embedding too; token: what one token reads (a row of an embedding that is not the head is
nothing). Changes of one option (PLAN+NAME) are left out, but for an embedding that is the head. Needs matplotlib.
"""
import argparse
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

GROUPS = (("Forge, F16 embedding beside the head", "tab:cyan", "o"), ("Forge, the head is the embedding", "tab:blue", "o"),
          ("llama.cpp with importance matrix", "tab:orange", "s"))


def group_of(r):
    """Index into GROUPS."""
    return 2 if r["kind"] == "gguf" else int(r["token_bytes"] == r["total_bytes"])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results")
    p.add_argument("out")
    p.add_argument("--bytes", choices=("total", "token"), default="total")
    a = p.parse_args()
    with open(a.results) as f:
        rows = [r for r in json.load(f)["rows"] if "+" not in r["name"] or r["name"].endswith("+embed-head")]
    fig, ax = plt.subplots(figsize=(9, 6))
    for i, (label, colour, marker) in enumerate(GROUPS):
        group = sorted((r for r in rows if group_of(r) == i), key=lambda r: r[a.bytes + "_bytes"])
        x = [r[a.bytes + "_bytes"] / 1e6 for r in group]
        y = [r["mean_kl"] for r in group]
        low = [r["mean_kl"] - r["ci95"][0] for r in group]
        high = [r["ci95"][1] - r["mean_kl"] for r in group]
        if not group:
            continue
        ax.errorbar(x, y, yerr=[low, high], fmt=marker, color=colour, label=label, capsize=2, markersize=5, linewidth=1)
        for r, at, kl in zip(group, x, y):
            ax.annotate(r["name"].removeprefix("llama.cpp/").removesuffix("+embed-head"), (at, kl), textcoords="offset points", xytext=(5, 3), fontsize=7)
    ax.set_yscale("log")
    ax.set_xlabel("MB of weights" + (", embedding included" if a.bytes == "total" else " that one token reads"))
    ax.set_ylabel("mean KL-512, nats (95 % interval)")
    ax.grid(True, which="both", alpha=0.25)
    ax.legend()
    fig.tight_layout()
    fig.savefig(a.out, dpi=110)


if __name__ == "__main__":
    main()
