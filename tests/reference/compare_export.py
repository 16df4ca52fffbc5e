#!/usr/bin/env python3
"""Compares `forge eval logits` on a quantized export with the Hugging Face implementation running
the weights that the export stands for.

    compare_export.py EXPORT [--bundle DIR] --forge build/release/forge [--text FILE]
                      [--tokens N] [--kl LIMIT] [--save DIR]

Reads the export on its own (NumPy and safetensors only: packed indices, tables, scales, factors,
rotations undone), puts the weights into the transformers model of its config and compares:
- exact numerics: every row within 1e-4 relative L2, the same best token;
- fast numerics: mean KL(exact || fast) in nats at most LIMIT (1e-3);
- both: the same bytes for --rows 1, 4, 8, 64, 1 and 2 threads, every kernel level of this machine,
  and for the bundle made of the export.
--save writes tokens.npy and the reference's logits.npy (goldens of tests/api/test_quantized.c).
Tokens: of the text through the export's tokenizer, or random ones when there is none.
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM

ENTRIES = {"v2x16": (4, 2), "v2x64": (6, 2), "lut4": (4, 1), "lut6": (6, 1)}  # bits of an index, rows per index


def unpack(packed, cols, bits):
    """Rows of LSB-first bit streams to indices."""
    stream = np.unpackbits(packed, axis=1, bitorder="little")[:, : cols * bits]
    return (stream.reshape(len(packed), cols, bits) << np.arange(bits)).sum(axis=2)


def hadamard(rows, block):
    """Normalized Walsh-Hadamard transform of every block of every row."""
    x = rows.reshape(-1, block).astype(np.float64)
    step = 1
    while step < block:
        pairs = x.reshape(len(x), -1, 2, step)
        x = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2)
        x = x.reshape(len(x), block)
        step *= 2
    return (x / np.sqrt(block)).reshape(rows.shape)


class Export:
    def __init__(self, folder):
        self.arrays, self.metadata = {}, {}
        for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
            with safe_open(path, "pt") as f:
                stem = os.path.basename(path)[: -len(".safetensors")]
                self.metadata[stem] = f.metadata() or {}
                for name in f.keys():
                    self.arrays[stem, name] = f.get_tensor(name)

    def array(self, stem, name):
        value = self.arrays.get((stem, name))
        return None if value is None else value.to(torch.float64).numpy()

    def weight(self, stem, name, fmt, signs, block):
        """The matrix in the basis of the unrotated model, FP64."""
        kept = self.array(stem, name + ".weight")
        if kept is not None:
            return kept
        scale = self.array(stem, name + ".scale")[:, None]
        if fmt == "int8":
            w = self.array(stem, name + ".int8") * scale
        else:
            bits, d = ENTRIES[fmt]
            lut = self.array(stem, name + ".lut")
            index = self.arrays.get((stem, name + ".idx"))
            if index is None:
                packed = self.arrays[stem, name + ".pidx"].numpy()
                factor = self.arrays.get((stem, name + ".lr_b"))
                cols = factor.shape[1] if factor is not None else packed.shape[1] * 8 // bits
                if signs is not None:
                    cols = len(signs)
                index = unpack(packed, cols, bits)
            else:
                index = index.numpy()
            w = lut[index].transpose(0, 2, 1).reshape(len(index) * d, -1) * scale
        a, b = self.array(stem, name + ".lr_a"), self.array(stem, name + ".lr_b")
        if a is not None:
            scale = self.array(stem, name + ".lr_scale")  # of INT8 factors
            w = w + a @ (b if scale is None else b * scale[:, None])
        return w if signs is None else hadamard(w, block) * signs

    def site(self, stem, name):
        """Signs as +-1 and block of a rotation site; None, 0 where it is not rotated."""
        bits = self.arrays.get((stem, "rot." + name))
        if bits is None:
            return None, 0
        meta = self.metadata[stem]
        block = int(meta.get("block_" + name.split("_")[1], meta.get("block", 0)))
        flags = np.unpackbits(bits.numpy(), bitorder="little")
        return 1.0 - 2.0 * flags, block


def canonical(name):
    for prefix in ("model.language_model.", "language_model.model.", "model."):
        if name.startswith(prefix):
            return name[len(prefix):]
    return name


SITES = {"gate": "mlp_in", "up": "mlp_in", "down": "mlp_mid"}
READERS = ("in_proj_qkv", "in_proj_z", "q_proj", "k_proj", "v_proj")


def weights(export, config):
    """Every tensor of the model by canonical name."""
    out = {}
    for (stem, name), value in export.arrays.items():
        if stem == "small":
            out[canonical(name)] = value.to(torch.float64).numpy()
    if ("embed_tokens", "embed_tokens.int8") in export.arrays:
        out["embed_tokens.weight"] = export.weight("embed_tokens", "embed_tokens", "int8", None, 0)
    elif export.metadata["lm_head"].get("embed") != "head":
        out["embed_tokens.weight"] = next(v.to(torch.float64).numpy()
                                          for (s, _), v in export.arrays.items() if s == "embed_tokens")
    widths = {"mlp_in": config.hidden_size, "mlp_mid": config.intermediate_size,
              "mix_in": config.hidden_size}
    for stem, meta in export.metadata.items():
        if stem == "lm_head":
            names = {n.split(".")[0] if n.startswith("lm_head") else n.rsplit(".", 1)[0]
                     for (s, n) in export.arrays if s == stem}
            for name in names:
                out["lm_head.weight"] = export.weight(stem, name, meta["format"], None, 0)
        if not stem.startswith("layer_"):
            continue
        layer, mixer = int(stem.split("_")[1]), stem.endswith("_mixer")
        names = {n.rsplit(".", 1)[0] for (s, n) in export.arrays if s == stem and "rot." not in n}
        for name in names:
            short = name.split(".")[-1]
            if mixer:
                site = "mix_in" if short in READERS else "mix_out"
                fmt = meta["kv_format"] if short in ("k_proj", "v_proj") else meta["format"]
                full = f"layers.{layer}.{name}.weight"
            else:
                site, fmt = SITES[short], meta[short + ".format"]
                full = f"layers.{layer}.mlp.{short}_proj.weight"
            if short in ("in_proj_a", "in_proj_b"):
                site, fmt = "none", "bf16"
            fmt = meta.get(name + ".format", fmt)
            if meta.get(name + ".basis", meta.get("basis")) == "plain":
                site = "none"
            signs, block = export.site(stem, site)
            if signs is not None and site in widths:
                signs = signs[: widths[site]]
            out[full] = export.weight(stem, name, fmt, signs, block)
    out.setdefault("embed_tokens.weight", out["lm_head.weight"])  # the head is the embedding
    return out


def reference(folder, arrays, tokens):
    config = AutoConfig.from_pretrained(folder)
    text = getattr(config, "text_config", None) or config
    text.tie_word_embeddings = config.tie_word_embeddings = False
    model = AutoModelForCausalLM.from_config(text, dtype=torch.float32).eval()
    missing = []
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            value = arrays.pop(canonical(name), None)
            if value is None:
                missing.append(name)
                continue
            parameter.copy_(torch.from_numpy(value.reshape(parameter.shape)).float())
        if missing or arrays:
            raise SystemExit(f"names differ: missing {missing[:3]}, left {list(arrays)[:3]}")
        return model(torch.tensor(tokens)[None]).logits[0].double().numpy()


class Forge:
    def __init__(self, binary, scratch):
        self.binary, self.scratch = binary, scratch

    def logits(self, model, tokens, numerics, rows=64, threads=None, isa=None):
        out = os.path.join(self.scratch, "logits.npy")
        command = [self.binary, "eval", "logits", "--model", model, "--tokens",
                   ",".join(map(str, tokens)), "--out", out, "--numerics", numerics,
                   "--rows", str(rows), "--kv-cache-dtype", "f32"]
        if threads:
            command += ["--threads", str(threads)]
        env = dict(os.environ, FORGE_STATE=self.scratch, **({"FORGE_ISA": isa} if isa else {}))
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        if done.returncode == 7 and isa:
            return None
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr}")
        return np.load(out)

    def tokens(self, model, text, n, vocab):
        done = subprocess.run([self.binary, "tokenize", "--model", model, "--file", text],
                              capture_output=True, text=True)
        if done.returncode:
            return np.random.default_rng(7).integers(0, vocab, n).tolist()
        return [int(i) for i in done.stdout.strip().split(",")][:n]

    def levels(self):
        done = subprocess.run([self.binary, "version", "--json"], capture_output=True, text=True,
                              check=True)
        return json.loads(done.stdout)["isa"]


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("export")
    parser.add_argument("--bundle")
    parser.add_argument("--forge", required=True)
    parser.add_argument("--text", default=__file__)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--kl", type=float, default=1e-3)
    parser.add_argument("--save")
    args = parser.parse_args()
    failures = 0

    def check(ok, text):
        nonlocal failures
        failures += not ok
        print(("ok: " if ok else "FAILED: ") + text)

    config = AutoConfig.from_pretrained(args.export)
    config = getattr(config, "text_config", None) or config
    with tempfile.TemporaryDirectory() as scratch:
        forge = Forge(args.forge, scratch)
        tokens = forge.tokens(args.export, args.text, args.tokens, config.vocab_size)
        want = reference(args.export, weights(Export(args.export), config), tokens)
        if args.save:
            np.save(os.path.join(args.save, "tokens.npy"), np.array(tokens, np.int32))
            np.save(os.path.join(args.save, "logits.npy"), want.astype(np.float32))
        exact = forge.logits(args.export, tokens, "exact")
        error = np.linalg.norm(exact - want, axis=1) / np.linalg.norm(want, axis=1)
        same = (exact.argmax(1) == want.argmax(1)).mean()
        check(error.max() < 1e-4 and same == 1,
              f"exact: relative L2 at most {error.max():.2e}, best token equal in {same:.2%} of "
              f"{len(tokens)} rows")
        fast = forge.logits(args.export, tokens, "fast")
        p, q = log_softmax(exact), log_softmax(fast)
        kl = (np.exp(p) * (p - q)).sum(1)
        check(kl.mean() < args.kl,
              f"fast: KL from exact mean {kl.mean():.2e}, median {np.median(kl):.2e}, largest "
              f"{kl.max():.2e} nats; best token equal in {(p.argmax(1) == q.argmax(1)).mean():.2%}")
        for numerics, first in (("exact", exact), ("fast", fast)):
            runs = [dict(rows=r, threads=t) for r in (1, 4, 8, 64) for t in (1, 2)]
            runs += [dict(isa=i) for i in forge.levels()]
            bits = [forge.logits(args.export, tokens, numerics, **r) for r in runs]
            check(all(b is None or b.tobytes() == first.tobytes() for b in bits),
                  f"{numerics}: the same bytes in {len(runs)} ways")
            if args.bundle:
                check(forge.logits(args.bundle, tokens, numerics).tobytes() == first.tobytes(),
                      f"{numerics}: the same bytes from the bundle")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
