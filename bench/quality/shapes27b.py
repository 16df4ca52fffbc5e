#!/usr/bin/env python3
"""A checkpoint with the layer shapes of Qwen3.8-27B and random values, to measure what quantizing it takes in memory and time, and
whether the errors of the formats stand to each other as they should (specs: quantization 9.3).

Usage: shapes27b.py --config CONFIG.json --out DIR [--layers LFLF] [--vocab 248320] [--seed 1]
       shapes27b.py --report EXPORT [--report EXPORT ...]

--layers: one letter per layer, L for Gated DeltaNet, F for attention. Weights are Gaussian, 0.02; the columns of the embedding have
a power law of energies, sorted at random, so that the input of every matrix that reads the residual has it too. One shard per
layer, about 0.75 GB, and two of 2.5 GB for embedding and head.

--report: the share of the gap between v2x16 and lut4 that v2x64 closes, per matrix, from the export.json of three exports, one of
each format.
"""
import argparse
import json
import os
import sys

import numpy as np

ROWS = 4096  # of a matrix at a time
PREFIX = "model.language_model."


def bf16(x):
    """Round to nearest, ties to even."""
    u = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


class Shard:
    """One safetensors file; tensors are written as they are made."""

    def __init__(self, path, tensors):
        header, at = {}, 0
        for name, shape in tensors:
            n = 2 * int(np.prod(shape))
            header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + n]}
            at += n
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.bytes = at
        self.file = open(path, "wb")
        self.file.write(len(text).to_bytes(8, "little") + text)

    def add(self, values):
        self.file.write(bf16(values).tobytes())


def layer_tensors(c, i, kind):
    """(name, shape, kind of values), in order."""
    h, f, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    nq, nkv = c["num_attention_heads"], c["num_key_value_heads"]
    nv, dv = c["linear_num_value_heads"], c["linear_value_head_dim"]
    wide = 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"] + nv * dv
    p = f"{PREFIX}layers.{i}."
    out = [("input_layernorm.weight", (h,), "zero"), ("post_attention_layernorm.weight", (h,), "zero"),
           ("mlp.gate_proj.weight", (f, h), "weight"), ("mlp.up_proj.weight", (f, h), "weight"),
           ("mlp.down_proj.weight", (h, f), "weight")]
    if kind == "L":
        q = "linear_attn."
        out += [(q + "in_proj_qkv.weight", (wide, h), "weight"), (q + "in_proj_z.weight", (nv * dv, h), "weight"),
                (q + "in_proj_a.weight", (nv, h), "weight"), (q + "in_proj_b.weight", (nv, h), "weight"),
                (q + "out_proj.weight", (h, nv * dv), "weight"), (q + "conv1d.weight", (wide, 1, c["linear_conv_kernel_dim"]), "conv"),
                (q + "A_log", (nv,), "zero"), (q + "dt_bias", (nv,), "zero"), (q + "norm.weight", (dv,), "one")]
    else:
        q = "self_attn."
        out += [(q + "q_proj.weight", (2 * nq * d, h), "weight"), (q + "k_proj.weight", (nkv * d, h), "weight"),
                (q + "v_proj.weight", (nkv * d, h), "weight"), (q + "o_proj.weight", (h, nq * d), "weight"),
                (q + "q_norm.weight", (d,), "zero"), (q + "k_norm.weight", (d,), "zero")]
    return [(p + n, s, k) for n, s, k in out]


def write_shard(path, tensors, rng, energies):
    shard = Shard(path, [t[:2] for t in tensors])
    for _, shape, kind in tensors:
        for at in range(0, shape[0], ROWS):
            part = (min(ROWS, shape[0] - at), *shape[1:])
            if kind in ("zero", "one"):
                x = np.full(part, float(kind == "one"), np.float32)
            else:
                x = rng.standard_normal(part, np.float32) * np.float32(0.4 if kind == "conv" else 0.02)
                if kind == "embed":
                    x *= energies
            shard.add(x)
    shard.file.close()
    return shard.bytes


def make(a):
    with open(a.config) as f:
        config = json.load(f)
    c = config.get("text_config", config)
    c["num_hidden_layers"], c["vocab_size"] = len(a.layers), a.vocab
    c["layer_types"] = [{"L": "linear_attention", "F": "full_attention"}[k] for k in a.layers]
    config["tie_word_embeddings"] = c["tie_word_embeddings"] = False
    os.makedirs(a.out)
    rng = np.random.Generator(np.random.PCG64(a.seed))
    h = c["hidden_size"]
    energies = (1.0 / np.sqrt(1.0 + rng.permutation(h))).astype(np.float32)
    energies *= np.float32(np.sqrt(h) / np.linalg.norm(energies))
    shards = [("embed", [(PREFIX + "embed_tokens.weight", (a.vocab, h), "embed")])]
    shards += [(f"layer{i}", layer_tensors(c, i, kind)) for i, kind in enumerate(a.layers)]
    shards += [("head", [(PREFIX + "norm.weight", (h,), "zero"), ("lm_head.weight", (a.vocab, h), "weight")])]
    index, total = {}, 0
    for name, tensors in shards:
        file = f"model-{name}.safetensors"
        total += write_shard(os.path.join(a.out, file), tensors, rng, energies)
        index.update({t[0]: file for t in tensors})
        print(f"{file}: {total / 1e9:.2f} GB so far", flush=True)
    with open(os.path.join(a.out, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": total}, "weight_map": index}, f, indent=1)
    with open(os.path.join(a.out, "config.json"), "w") as f:
        json.dump(config, f, indent=1)


def report(paths):
    errors = {}
    for path in paths:
        with open(os.path.join(path, "export.json")) as f:
            for m in json.load(f)["matrices"]:
                errors.setdefault(m["name"], {})[m["format"]] = m["rel_err_h"]
    print("| matrix | v2x16 | v2x64 | lut4 | gap closed |\n| --- | ---: | ---: | ---: | ---: |")
    bad = 0
    for name, e in errors.items():
        if not {"v2x16", "v2x64", "lut4"} <= e.keys():
            continue
        gap = (e["v2x16"] - e["v2x64"]) / (e["v2x16"] - e["lut4"])
        bad += abs(gap - 0.80) > 0.02
        print(f"| {name} | {e['v2x16']:.5f} | {e['v2x64']:.5f} | {e['lut4']:.5f} | {gap:.3f} |")
    return bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--config")
    p.add_argument("--out")
    p.add_argument("--layers", default="LFLF")
    p.add_argument("--vocab", type=int, default=248320)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--report", action="append", default=[])
    a = p.parse_args()
    if a.report:
        sys.exit(1 if report(a.report) else 0)
    if not a.config or not a.out:
        p.error("--config and --out, or --report")
    make(a)


if __name__ == "__main__":
    main()
