#!/usr/bin/env python3
"""Checks exports of `forge quantize` against their source, reading both on its own: NumPy alone, with
its own container reader, SplitMix64 and Hadamard matrices.

    check_export.py --forge build/release/forge            the tiny checkpoints and Gaussian matrices
    check_export.py EXPORT SOURCE                          one export and its checkpoint directory
    check_export.py --forge FORGE --golden FILE            writes the golden of tests/train

For every matrix: indices are below the table's size, pad bits 0, table ascending; Q + A B, turned
back to the basis of the source, has the signal-to-noise ratio that export.json gives (0.01 dB). Small
tensors are the source's bits, the embedding is the source rounded to FP16, sign bitmaps are SplitMix64's,
the bytes are those of `forge plan size`. Gaussian matrices reach the ratios of each format.
"""

import argparse
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

BITS = {"v2x16": (4, 2, 16), "v2x64": (6, 2, 64), "lut4": (4, 1, 16), "lut6": (6, 1, 64)}  # bits, rows per index, entries
PREFIXES = ("model.language_model.", "model.", "language_model.model.", "")
DTYPES = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U8": np.uint8, "I8": np.int8}
SEEDS = {"mlp_in": 1000, "mlp_mid": 2000, "mix_in": 3000, "mix_out": 4000}
GAUSSIAN = {"all-v2x16": 9.65, "all-v2x64": 15.27, "all-lut4": 20.2, "all-lut6": 31.6}
HERE = os.path.dirname(os.path.abspath(__file__))


def read_safetensors(path):
    """name -> (dtype, array); and the metadata."""
    with open(path, "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8 : 8 + n])
    meta = header.pop("__metadata__", {})
    out = {}
    for name, t in header.items():
        a, b = t["data_offsets"]
        raw = np.frombuffer(blob[8 + n + a : 8 + n + b], DTYPES[t["dtype"]])
        out[name] = (t["dtype"], raw.reshape(t["shape"]))
    return out, meta


def widen(dtype, a):
    if dtype == "BF16":
        return (a.astype(np.uint32) << 16).view(np.float32).reshape(a.shape)
    return a.astype(np.float32)


class Source:
    def __init__(self, path):
        self.tensors = {}
        for f in sorted(glob.glob(os.path.join(path, "model*.safetensors"))):
            self.tensors.update(read_safetensors(f)[0])
        with open(os.path.join(path, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        text = config.get("text_config", config)
        self.layers = text["num_hidden_layers"]
        self.tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))
        self.prefix = next(p for p in PREFIXES if p + "embed_tokens.weight" in self.tensors)

    def raw(self, name):
        if name == "lm_head.weight":
            for full in ("lm_head.weight", "language_model.lm_head.weight"):
                if not self.tied and full in self.tensors:
                    return self.tensors[full]
            name = "embed_tokens.weight"
        return self.tensors[self.prefix + name]

    def matrix(self, name):
        return widen(*self.raw(name + ".weight"))


def splitmix_bits(seed, n):
    mask = (1 << 64) - 1
    state, bits = seed, []
    while len(bits) < n:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        bits += [(z >> i) & 1 for i in range(64)]
    return np.array(bits[:n], np.uint8)


def hadamard(n):
    i = np.arange(n)
    x = i[:, None] & i[None, :]
    parity = np.zeros_like(x)
    while x.any():
        parity ^= x & 1
        x >>= 1
    return 1.0 - 2.0 * parity


def turn_back(w, bits, block):
    """w M^T with M = D H / sqrt(B) in blocks."""
    h = hadamard(block) / math.sqrt(block)
    rows, cols = w.shape
    blocks = w.astype(np.float64).reshape(rows, cols // block, block) @ h
    return blocks.reshape(rows, cols) * (1.0 - 2.0 * bits.astype(np.float64))


def unpack(packed, cols, bits, what):
    stream = np.unpackbits(packed, axis=1, bitorder="little")
    assert not stream[:, cols * bits :].any(), f"{what}: pad bits"
    digits = stream[:, : cols * bits].reshape(len(packed), cols, bits)
    return (digits * (1 << np.arange(bits))).sum(axis=2)


def dequantize(tensors, key, fmt, cols, what):
    get = lambda suffix: tensors[f"{key}.{suffix}"]
    size = 0
    if fmt in ("bf16", "f16"):
        q = widen(*get("weight")).astype(np.float64)
        return q, get("weight")[1].nbytes
    scale = get("scale")[1].astype(np.float64)
    assert (scale > 0).all() and np.isfinite(scale).all(), f"{what}: scales"
    if fmt == "int8":
        codes = get("int8")[1]
        assert codes.min() >= -127, f"{what}: code -128"
        return codes * scale[:, None], codes.nbytes + 2 * len(scale)
    bits, per, entries = BITS[fmt]
    lut = get("lut")[1].astype(np.float64)
    assert lut.shape == (entries, per), f"{what}: table {lut.shape}"
    order = [tuple(r) for r in lut]
    assert order == sorted(order), f"{what}: the table is not ascending"
    if f"{key}.idx" in tensors:
        index = get("idx")[1].astype(int)
        assert f"{key}.pidx" not in tensors
        size = len(index) * ((cols * bits + 7) // 8)
    else:
        packed = get("pidx")[1]
        size = packed.nbytes
        index = unpack(packed, cols, bits, what)
    assert index.max() < entries, f"{what}: index"
    values = lut[index]  # [R][cols][d]
    q = values.transpose(0, 2, 1).reshape(len(scale), cols)
    return q * scale[:, None], size + lut.size * 2 + 2 * len(scale)


def names_of(tensors):
    return sorted({k.rsplit(".", 1)[0] for k in tensors if not k.startswith("rot.")})


MLP = {"gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}


def site_of(name):
    last = name.rsplit(".", 1)[-1]
    if last in ("gate_proj", "up_proj"):
        return "mlp_in"
    if last == "down_proj":
        return "mlp_mid"
    return "mix_out" if last in ("out_proj", "o_proj") else "mix_in"


def check_export(export, source, partial=False):
    """Returns name -> {format, snr_db} of what the export stands for."""
    src = Source(source)
    with open(os.path.join(export, "export.json"), encoding="utf-8") as f:
        report = json.load(f)
    said = {m["name"]: m for m in report["matrices"]}
    found, weight_bytes, factor_bytes = {}, 0, 0
    for path in sorted(glob.glob(os.path.join(export, "l*.safetensors"))):
        base = os.path.basename(path)[: -len(".safetensors")]
        tensors, meta = read_safetensors(path)
        layer = None if base == "lm_head" else int(base.split("_")[1])
        for key in names_of(tensors):
            if layer is None:
                name, fmt, basis = "lm_head", meta["format"], "plain"
            else:
                name = f"layers.{layer}.{MLP.get(key, key)}"
                fmt, basis = meta[f"{key}.format"], meta[f"{key}.basis"]
                kv = name.endswith(("k_proj", "v_proj"))
                assert base.endswith("_mixer") == (key not in MLP)
                if key not in MLP and not partial:
                    assert meta["kv_format" if kv else "format"], meta
            w = src.matrix(name).astype(np.float64)
            q, size = dequantize(tensors, key, fmt, w.shape[1], f"{base}: {key}")
            assert q.shape == w.shape, f"{name}: {q.shape} for {w.shape}"
            entry = said[name]
            rank = 0
            if f"{key}.lr_a" in tensors:
                a, b = (tensors[f"{key}.{x}"][1] for x in ("lr_a", "lr_b"))
                rank, kind = a.shape[1], a.dtype
                assert b.dtype == kind and (kind == np.int8) == (f"{key}.lr_scale" in tensors), name
                assert entry.get("lr_dtype", "f16") == ("i8" if kind == np.int8 else "f16"), name
                size_of_factors = a.nbytes + b.nbytes
                a, b = a.astype(np.float64), b.astype(np.float64)
                if kind == np.int8:
                    scale = tensors[f"{key}.lr_scale"][1]
                    assert scale.dtype == np.float32 and scale.shape == (rank,) and (scale > 0).all(), name
                    assert np.abs(a).max() <= 127 and np.abs(b).max() <= 127, name
                    b *= scale.astype(np.float64)[:, None]
                    size_of_factors += scale.nbytes
                q = q + a @ b
                factor_bytes += size_of_factors
            if basis == "online":
                site = site_of(name)
                seed = int(meta["seed_" + site.split("_")[1]])
                block = int(meta.get("block_" + site.split("_")[1], meta.get("block", 0)))
                assert seed == SEEDS[site] + layer
                assert block == min(1024, w.shape[1] & -w.shape[1]) and block >= 8
                bits = splitmix_bits(seed, w.shape[1])
                stored = np.unpackbits(tensors["rot." + site][1], bitorder="little")
                assert (stored[: len(bits)] == bits).all() and not stored[len(bits) :].any(), site
                assert entry["site"] == site and entry["block"] == block and entry["seed"] == seed
                q = turn_back(q, bits, block)
            error, signal = ((w - q) ** 2).sum(), (w**2).sum()
            snr = math.inf if error == 0 else 10 * math.log10(signal / error) if signal else -math.inf
            stated = entry["weight_snr_db"]
            stated = math.inf if stated is None else stated
            # Turning back adds the rounding of FP32: beyond 100 dB the figures may differ.
            assert min(snr, stated) > 100 or abs(snr - stated) < 0.01, f"{name}: {snr} dB, stated {stated}"
            assert entry["format"] == fmt and entry["lr_rank"] == rank and entry["bytes"] == size, name
            weight_bytes += size
            found[name] = {"format": fmt, "snr_db": snr}
    assert set(found) == set(said), set(found) ^ set(said)
    assert (weight_bytes, factor_bytes) == (report["bytes"]["weights"], report["bytes"]["factors"])
    if not partial:
        check_rest(export, src, found)
    return found


def check_rest(export, src, found):
    small = read_safetensors(os.path.join(export, "small.safetensors"))[0]
    for name, (dtype, a) in small.items():
        was = src.tensors[name]
        assert was[0] == dtype and was[1].tobytes() == a.tobytes(), name
    want = set()
    for name in src.tensors:
        if not name.startswith(src.prefix) or "visual." in name or "mtp." in name:
            continue
        short = name[len(src.prefix) :]
        matrix = short[: -len(".weight")] if short.endswith(".weight") else ""
        if matrix not in found and short.startswith(("layers.", "norm.")) and "rotary_emb" not in short:
            want.add(name)
    assert set(small) == want, set(small) ^ want
    dtype, embed = read_safetensors(os.path.join(export, "embed_tokens.safetensors"))[0]["embed_tokens.weight"]
    assert dtype == "F16"
    assert (src.matrix("embed_tokens").astype(np.float16).tobytes()) == embed.tobytes()
    kinds = sum(name.endswith(("gate_proj",)) for name in found)
    assert kinds == src.layers and "lm_head" in found


def write_gaussian(path, rng):
    """A one-layer Llama whose matrices are Gaussian, BF16-exact enough: FP32."""
    hidden, inner, vocab, heads, dim = 512, 1024, 768, 8, 64
    shapes = {
        "model.embed_tokens.weight": (vocab, hidden),
        "model.norm.weight": (hidden,),
        "lm_head.weight": (vocab, hidden),
        "model.layers.0.input_layernorm.weight": (hidden,),
        "model.layers.0.post_attention_layernorm.weight": (hidden,),
        "model.layers.0.mlp.gate_proj.weight": (inner, hidden),
        "model.layers.0.mlp.up_proj.weight": (inner, hidden),
        "model.layers.0.mlp.down_proj.weight": (hidden, inner),
        "model.layers.0.self_attn.q_proj.weight": (heads * dim, hidden),
        "model.layers.0.self_attn.k_proj.weight": (heads * dim, hidden),
        "model.layers.0.self_attn.v_proj.weight": (heads * dim, hidden),
        "model.layers.0.self_attn.o_proj.weight": (hidden, heads * dim),
    }
    config = {"model_type": "llama", "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": inner,
              "num_hidden_layers": 1, "num_attention_heads": heads, "num_key_value_heads": heads,
              "head_dim": dim, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
              "max_position_embeddings": 1024, "tie_word_embeddings": False}
    os.makedirs(path)
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    header, data = {}, b""
    for name, shape in shapes.items():
        raw = (0.02 * rng.standard_normal(shape)).astype(np.float32).tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(os.path.join(path, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def quantize(forge, source, out, *options):
    subprocess.run([forge, "quantize", "-q", "--method", "rtn", "-m", source, "-o", out, *options], check=True, stdout=subprocess.DEVNULL)


def check_gaussian(forge, tmp):
    source = os.path.join(tmp, "gaussian")
    write_gaussian(source, np.random.default_rng(1))
    for basis in ("online", "plain"):
        for plan, want in GAUSSIAN.items():
            out = os.path.join(tmp, f"gaussian-{plan}-{basis}")
            quantize(forge, source, out, "--plan", plan, "--lr-rank", "0", "--basis", basis)
            found = check_export(out, source)
            for name, m in found.items():
                if name.endswith(("k_proj", "v_proj")) or (name == "lm_head" and plan not in ("all-lut4", "all-lut6")):
                    continue
                # A table of 64 vectors fitted to these very 130 to 260 thousand gains a little.
                assert abs(m["snr_db"] - want) < 0.15, f"{plan} {basis} {name}: {m['snr_db']:.2f} dB"
            gate = found["layers.0.mlp.gate_proj"]["snr_db"]
            print(f"gaussian {plan} {basis}: gate {gate:.2f} dB, wanted {want}")


def check_factors(forge, tmp):
    """More rank or more rounds never leave more error on a matrix with a strong low-rank part."""
    source = os.path.join(tmp, "gaussian")
    last = None
    for rank in ("0", "8", "64"):
        out = os.path.join(tmp, f"factors-{rank}")
        quantize(forge, source, out, "--plan", "all-v2x16", "--lr-rank", rank, "--lr-parts", "gdn,attn,mlp")
        snr = check_export(out, source)["layers.0.mlp.gate_proj"]["snr_db"]
        assert last is None or snr > last, (rank, snr, last)
        last = snr


VARIANTS = {
    "release-0.2": [],
    "all-v2x16": ["--plan", "all-v2x16", "--mix-rot", "readers"],
    "unpacked": ["--plan", "all-v2x64", "--unpacked", "--lr-rank", "4", "--lr-parts", "gdn,attn,mlp"],
    "kept": ["--plan", os.path.join(HERE, "../golden/configs/plan-kept.json")],
    "plain": ["--plan", "all-lut4", "--basis", "plain", "--row-weight", "0"],
}


def check_models(forge, tmp, models):
    for source in models:
        for variant, options in VARIANTS.items():
            out = os.path.join(tmp, f"{os.path.basename(source)}-{variant}")
            quantize(forge, source, out, *options)
            check_export(out, source)
        print(f"{os.path.basename(source)}: {len(VARIANTS)} exports")
    out = os.path.join(tmp, "some")
    quantize(forge, models[0], out, "--layers", "1-2", "--only", "*.down")
    assert set(check_export(out, models[0], partial=True)) == {f"layers.{i}.mlp.down_proj" for i in (1, 2)}


def write_golden(forge, tmp, path, models):
    golden = {}
    for source in models:
        name = os.path.basename(source)
        if name not in ("a-s0", "c-s0", "j-s0"):
            continue
        for variant in ("release-0.2", "all-v2x16"):
            out = os.path.join(tmp, f"golden-{name}-{variant}")
            quantize(forge, source, out, *VARIANTS[variant])
            found = check_export(out, source)
            golden[f"{name}/{variant}"] = {k: {"snr_db": round(m["snr_db"], 4)} for k, m in found.items()}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(golden, f, indent=1, sort_keys=True)
        f.write("\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("paths", nargs="*")
    p.add_argument("--forge")
    p.add_argument("--golden")
    p.add_argument("--partial", action="store_true")
    a = p.parse_args()
    if len(a.paths) == 2:
        found = check_export(*a.paths, partial=a.partial)
        for fmt in sorted({m["format"] for m in found.values()}):
            snr = [m["snr_db"] for m in found.values() if m["format"] == fmt]
            print(f"{fmt}: {len(snr)} matrices, {min(snr):.2f} to {max(snr):.2f} dB")
        return 0
    models = sorted(os.path.dirname(f) for f in glob.glob(os.path.join(HERE, "../golden/models/*/config.json")))
    models = [os.path.normpath(m) for m in models]
    with tempfile.TemporaryDirectory() as tmp:
        if a.golden:
            write_golden(a.forge, tmp, a.golden, models)
            return 0
        check_gaussian(a.forge, tmp)
        check_factors(a.forge, tmp)
        check_models(a.forge, tmp, models)
    return 0


if __name__ == "__main__":
    sys.exit(main())
