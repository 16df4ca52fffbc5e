#!/usr/bin/env python3
"""Hessian-weighted output error of MLP down matrices, tr(E H E^T) / tr(W H W^T), of GGUF quants and of Forge's exports at their
true bits per weight. H = X^T X / N in FP64 from the inputs of the unquantized model over given rows, the same for all.

Usage: matrix_error.py --gguf BF16.gguf --model DIR --rows rows.safetensors [--count N] [--layers 0,7,15] [--json FILE]
                       [--hessians FILE.npz] QUANT.gguf|EXPORT ...

--model: a checkpoint directory of the unquantized model, of which config.json is read. --hessians: kept there and read again
when model, rows and layers are the same. An export is read with NumPy alone (specs: quantization 1.2 and 2) and turned back to
the basis of the source; low-rank factors count, in error and in bits.
"""
import argparse
import json
import os
import sys

import gguf
import numpy as np
import torch

from reference import TREE, listen, load_model, read_rows, run_rows, sha256

sys.path.insert(0, os.path.join(TREE, "tests/reference"))
from check_export import dequantize, read_safetensors, splitmix_bits, turn_back  # noqa: E402

MODULE, NAME = "mlp.down_proj", "ffn_down"
BATCH = 4


def hessians(a, layers):
    """layer -> H, FP64."""
    facts = {"source": sha256(a.gguf), "rows": sha256(a.rows), "count": a.count, "layers": layers}
    if a.hessians and os.path.exists(a.hessians):
        with np.load(a.hessians) as f:
            if json.loads(str(f["facts"])) == facts:
                return {i: f[str(i)] for i in layers}
    ids, mask = read_rows(a.rows, a.count)
    model = load_model(a.gguf, a.model)
    sums, now = {}, {}

    def take(layer, _, x):
        x = x[now["mask"]].double()
        sums[layer] = sums.get(layer, 0) + x.T @ x

    listen(model, take, lambda layer, module: layer in layers and module == MODULE)
    for now["mask"] in run_rows(model, ids, mask, BATCH, "hessians"):
        pass
    found = {i: (sums[i] / int(mask.sum())).numpy() for i in layers}
    if a.hessians:
        with open(a.hessians, "wb") as f:
            np.savez(f, facts=json.dumps(facts), **{str(i): h for i, h in found.items()})
    return found


def of_gguf(path, layers):
    """layer -> (type, bytes, weights in FP64)."""
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    found = {}
    for i in layers:
        t = tensors[f"blk.{i}.{NAME}.weight"]
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64).reshape([int(n) for n in reversed(t.shape)])
        found[i] = (t.tensor_type.name, int(t.n_bytes), w)
    return found


def of_export(path, layers, cols):
    found = {}
    for i in layers:
        tensors, meta = read_safetensors(os.path.join(path, f"layer_{i:02d}.safetensors"))
        kind, basis = meta["down.format"], meta.get("down.basis", meta.get("basis"))
        w, size = dequantize(tensors, "down", kind, cols, f"{path}: layer {i}: down")
        if "down.lr_a" in tensors:
            left, right = (tensors[f"down.{part}"][1] for part in ("lr_a", "lr_b"))
            size += left.nbytes + right.nbytes
            right = right.astype(np.float64)
            if "down.lr_scale" in tensors:
                scale = tensors["down.lr_scale"][1]
                right *= scale.astype(np.float64)[:, None]
                size += scale.nbytes
            w = w + left.astype(np.float64) @ right
            kind += f"+{left.shape[1]}"
        if basis == "online":
            bits = np.unpackbits(tensors["rot.mlp_mid"][1], bitorder="little")[:cols]
            if meta.get("signs", "splitmix64") == "splitmix64":
                assert (bits == splitmix_bits(int(meta["seed_mid"]), cols)).all(), f"{path}: layer {i}: signs"
            w = turn_back(w, bits, int(meta.get("block_mid", meta.get("block"))))
        found[i] = (kind, size, w)
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gguf", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--rows", required=True)
    p.add_argument("--count", type=int, default=0, help="rows that are used; 0: all")
    p.add_argument("--layers", help="as 0,7,15; default: all")
    p.add_argument("--hessians")
    p.add_argument("--json")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("quants", nargs="+")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    names = [t.name for t in gguf.GGUFReader(a.gguf).tensors]
    layers = [i for i in range(len(names)) if f"blk.{i}.{NAME}.weight" in names]
    if a.layers:
        layers = [int(i) for i in a.layers.split(",")]
    H = hessians(a, layers)
    W = {i: w for i, (_, _, w) in of_gguf(a.gguf, layers).items()}
    energy = {i: np.einsum("ij,ij->", W[i] @ H[i], W[i]) for i in layers}
    rows = []
    for path in a.quants:
        found = of_export(path, layers, W[layers[0]].shape[1]) if os.path.isdir(path) else of_gguf(path, layers)
        for i, (kind, size, q) in found.items():
            e = W[i] - q
            rows.append({"quant": os.path.basename(os.path.normpath(path)), "layer": i, "format": kind,
                         "bits_per_weight": 8 * size / q.size, "error": float(np.einsum("ij,ij->", e @ H[i], e) / energy[i])})
    print("| quant | formats | bits per weight | mean error (geometric) | " + " | ".join(f"layer {i}" for i in layers) + " |")
    print("| --- | --- | ---: | ---: |" + " ---: |" * len(layers))
    for quant in dict.fromkeys(r["quant"] for r in rows):
        mine = [r for r in rows if r["quant"] == quant]
        formats = ", ".join(dict.fromkeys(r["format"] for r in mine))
        bits = np.mean([r["bits_per_weight"] for r in mine])
        mean = np.exp(np.mean([np.log(max(r["error"], 1e-300)) for r in mine]))
        print(f"| {quant} | {formats} | {bits:.4f} | {mean:.5f} | " + " | ".join(f"{r['error']:.5f}" for r in mine) + " |")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump({"schema": "forge.matrix_error/1", "source_sha256": sha256(a.gguf), "rows_sha256": sha256(a.rows),
                       "matrix": NAME, "results": rows}, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
