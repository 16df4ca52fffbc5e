#!/usr/bin/env python3
"""Writes tests/golden/foreign: a small quantized export in the layout of the original (specs: quantization 1.3, appendix A) for
the checkpoint tests/golden/models/g-s0, and what it must mean, computed with NumPy alone:

  layer_NN.safetensors ...  byte indices, aliases of format names, no sign bitmaps, factors in the original basis
  expected.txt              SHA-256 of each matrix, dequantized and turned back, in FP32; of each lr_b in the stored basis, in F16
  digest.txt                the digest (quantization 6.9)

and the seeds of tests/fuzz/fuzz_export.c: files of it, and small ones in Forge's own layout.

The signs come from numpy.random.default_rng(seed).choice([-1, 1], n), the generator that the original used. Run without
arguments; the output does not depend on anything else."""
import hashlib
import json
import struct
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
MODEL = HERE.parent / "golden" / "models" / "g-s0"
OUT = HERE.parent / "golden" / "foreign"
FORMATS = {
    "v2x16": ("vector 2x16 + pcs", 16, 2),
    "v2x64": ("vector 2x64 + pcs", 64, 2),
    "lut4": ("LUT4 per-tensor + pcs", 16, 1),
    "int8": ("INT8 per-channel", 0, 1),
}
DTYPES = {"U8": np.uint8, "I8": np.int8, "F16": np.float16, "F32": np.float32, "BF16": np.uint16}
SITE = {"gate": "in", "up": "in", "down": "mid", "in_proj_qkv": "in", "in_proj_z": "in", "q_proj": "in", "k_proj": "in",
        "v_proj": "in", "out_proj": "out", "o_proj": "out"}
rng = np.random.default_rng(20)


def read(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        a, b = t["data_offsets"]
        values = np.frombuffer(data[8 + n + a:8 + n + b], DTYPES[t["dtype"]]).reshape(t["shape"])
        out[name] = (t["dtype"], values)
    return out


def write(path, metadata, tensors):
    header, blobs, at = {"__metadata__": metadata}, [], 0
    for name, values in tensors.items():
        dtype = next(k for k, v in DTYPES.items() if v == values.dtype.type)
        blob = np.ascontiguousarray(values).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def signs(seed, n):
    return np.random.default_rng(seed).choice([-1, 1], n).astype(np.float32)


def transform(x, block):
    """FWHT of each block, stages h = 1, 2, 4 ..., then one product with 1/sqrt(block): FP32 throughout."""
    y = x.astype(np.float32).copy()
    rows, n = y.shape
    h = 1
    while h < block:
        v = y.reshape(rows, n // (2 * h), 2, h)
        a, b = v[:, :, 0, :].copy(), v[:, :, 1, :].copy()
        v[:, :, 0, :], v[:, :, 1, :] = a + b, a - b
        h *= 2
    return y * np.float32(1 / np.sqrt(block))


def sha(values):
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


expected, digest = [], []


def line(name, dtype, values):
    shape = ",".join(str(d) for d in values.shape)
    digest.append(f"{name} {dtype}[{shape}] {sha(values)}")


def quantize(w, fmt):
    """Crude: tables from random samples of the weights. What matters is that every code is used and nothing is regular."""
    _, entries, d = FORMATS[fmt]
    if fmt == "int8":
        scale = (np.abs(w).max(1) / 127).astype(np.float16)
        codes = np.clip(np.rint(w / scale[:, None].astype(np.float32)), -127, 127).astype(np.int8)
        return {"int8": codes, "scale": scale}, scale[:, None].astype(np.float32) * codes.astype(np.float32)
    scale = np.sqrt((w**2).mean(1)).astype(np.float16)
    u = (w / scale[:, None].astype(np.float32)).reshape(len(w) // d, d, -1).transpose(0, 2, 1)
    flat = u.reshape(-1, d)
    lut = flat[rng.choice(len(flat), entries, replace=False)].astype(np.float16)
    lut = lut[np.lexsort(lut.T[::-1])]
    idx = ((u[:, :, None, :] - lut[None, None].astype(np.float32))**2).sum(-1).argmin(-1).astype(np.uint8)
    q = lut.astype(np.float32)[idx].transpose(0, 2, 1).reshape(w.shape) * scale[:, None].astype(np.float32)
    return {"idx": idx, "lut": lut, "scale": scale}, q


def matrix(tensors, key, name, w, fmt, rank, rotation):
    """One matrix: its tensors into `tensors`, its expectations into the lists. rotation: (seed, block) or None."""
    w = w.astype(np.float32)
    if rotation:
        d = signs(rotation[0], w.shape[1])
        stored = transform(w * d, rotation[1])
    else:
        stored = w
    parts, q = quantize(stored, fmt)
    back = transform(q, rotation[1]) * d if rotation else q
    expected.append(f"{name} weight {sha(back)}")
    if rank:
        a = (rng.standard_normal((w.shape[0], rank)) * 0.1).astype(np.float16)
        b = (rng.standard_normal((rank, w.shape[1])) * 0.1).astype(np.float16)
        parts.update(lr_a=a, lr_b=b)
        if rotation:
            b = transform(b.astype(np.float32) * d, rotation[1]).astype(np.float16)
        expected.append(f"{name} lr_b {sha(b)}")
        line(f"{name}.lr_a", "F16", a)
        line(f"{name}.lr_b", "F16", b)
    for part in ("idx", "int8", "lut", "scale"):
        if part in parts:
            line(f"{name}.{part}", {"idx": "U8", "int8": "I8"}.get(part, "F16"), parts[part])
    for part, values in parts.items():
        tensors[f"{key}.{part}" if key else part] = values


def bitmap(layer, site, seed, n):
    line(f"layers.{layer}.rot.{site}", "U8", np.packbits(signs(seed, n) < 0, bitorder="little"))


def splitmix64(seed, n):
    """Bitmap of the signs (quantization 2.2, appendix B)."""
    words, mask = [], 2**64 - 1
    for _ in range((n + 63) // 64):
        seed = (seed + 0x9E3779B97F4A7C15) & mask
        z = seed
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        words.append(z ^ z >> 31)
    return np.array(words, "<u8").view(np.uint8)[:(n + 7) // 8].copy()


def write_seeds():
    out = HERE.parent / "fuzz" / "corpus" / "export"
    out.mkdir(parents=True, exist_ok=True)

    def seed(name, which):
        path = out / name
        path.write_bytes(bytes([which]) + path.read_bytes())

    for name, source, which in (("foreign_mlp", "layer_01", 0), ("foreign_mixer", "layer_02_mixer", 1), ("foreign_head", "lm_head", 2)):
        (out / name).write_bytes(bytes([which]) + (OUT / f"{source}.safetensors").read_bytes())
    half = np.float16

    def packed(tensors, key, bits, entries, d, cols=8):
        idx = rng.integers(0, entries, (4, cols))
        rows = np.packbits((idx[:, :, None] >> np.arange(bits) & 1).reshape(4, -1).astype(np.uint8), axis=1, bitorder="little")
        tensors[f"{key}.pidx"] = rows
        tensors[f"{key}.lut"] = rng.standard_normal((entries, d)).astype(half)
        tensors[f"{key}.scale"] = np.ones(4 * d, half)

    meta = {"forge": "0.1.0", "signs": "splitmix64", "basis": "online", "block": "8", "seed_in": "1001", "seed_mid": "2001",
            "gate.format": "v2x64", "up.format": "v2x16", "down.format": "lut4", "gate.basis": "online"}
    tensors = {}
    for key, (bits, entries, d) in {"gate": (6, 64, 2), "up": (4, 16, 2), "down": (4, 16, 1)}.items():
        packed(tensors, key, bits, entries, d)
    tensors.update({"rot.mlp_in": splitmix64(1001, 8), "rot.mlp_mid": splitmix64(2001, 8)})
    write(out / "own_mlp", meta, tensors)
    seed("own_mlp", 0)
    meta = {"forge": "0.1.0", "signs": "splitmix64", "kind": "full_attention", "format": "lut4", "kv_format": "int8", "basis": "plain"}
    tensors = {}
    for key in ("q", "o"):
        packed(tensors, f"self_attn.{key}_proj", 4, 16, 1, 7)
    for key in ("k", "v"):
        tensors[f"self_attn.{key}_proj.int8"] = rng.integers(-127, 128, (2, 7), dtype=np.int8)
        tensors[f"self_attn.{key}_proj.scale"] = np.ones(2, half)
    tensors["self_attn.q_proj.lr_a"], tensors["self_attn.q_proj.lr_b"] = np.ones((4, 1), half), np.ones((1, 7), half)
    write(out / "own_mixer", meta, tensors)
    seed("own_mixer", 1)
    small = {"model.layers.1.input_layernorm.weight": np.ones(4, half), "model.layers.1.linear_attn.in_proj_a.weight": np.ones((2, 4), half)}
    write(out / "own_small", {"forge": "0.1.0"}, small)
    seed("own_small", 3)
    write(out / "own_embed", {"forge": "0.1.0"}, {"embed_tokens.weight": np.ones((3, 4), half)})
    seed("own_embed", 4)
    tensors = {}
    for key, rows in (("q", 4), ("k", 2), ("v", 2), ("o", 4)):
        name = f"self_attn.{key}_proj"
        tensors[f"{name}.int8"] = np.arange(rows * 7, dtype=np.int8).reshape(rows, 7)
        tensors[f"{name}.scale"] = np.ones(rows, half)
        tensors[f"{name}.lr_a"], tensors[f"{name}.lr_b"] = np.full((rows, 2), 127, np.int8), np.full((2, 7), -127, np.int8)
        tensors[f"{name}.lr_scale"] = np.array([1e-3, 2e-3], np.float32)
    write(out / "own_int8_factors", dict(meta, kind="full_attention", format="int8", kv_format="int8", basis="plain"), tensors)
    seed("own_int8_factors", 1)
    write(out / "own_embed_int8", {"forge": "0.1.0", "format": "int8"},
          {"embed_tokens.int8": np.full((3, 4), -7, np.int8), "embed_tokens.scale": np.full(3, 0.5, half)})
    seed("own_embed_int8", 4)
    write(out / "own_head_embed", {"forge": "0.1.0", "signs": "splitmix64", "format": "int8", "embed": "head"},
          {"lm_head.int8": np.full((3, 4), 9, np.int8), "lm_head.scale": np.full(3, 0.25, half)})
    seed("own_head_embed", 2)
    (out / "own_json").write_bytes(b'\x05{"schema": "forge.export/1", "plan": {"name": "p"}, "digest": "00", "head_digest": null}')


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    model = read(MODEL / "model.safetensors")
    prefix = next(name for name in model if name.endswith("embed_tokens.weight")).removesuffix("embed_tokens.weight")
    model = {name.removeprefix(prefix): t for name, t in model.items()}

    def weights(name):
        dtype, v = model[name + ".weight"]
        return (v.astype(np.uint32) << 16).view(np.float32) if dtype == "BF16" else v.astype(np.float32)

    linear = ["linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj"]
    full = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
    mlp_formats = [("v2x64", "v2x64", "v2x64"), ("v2x16", "lut4", "v2x64"), ("lut4", "v2x16", "int8"), ("v2x64", "lut4", "lut4")]
    mixer_formats = ["v2x16", "v2x64", "lut4", "lut4"]
    for i, formats in enumerate(mlp_formats):
        tensors, meta = {}, {"basis": "online", "block": "16", "seed_in": str(1000 + i), "seed_mid": str(2000 + i)}
        for key, fmt in zip(("gate", "up", "down"), formats):
            meta[f"{key}.format"] = FORMATS[fmt][0]
            w = weights(f"layers.{i}.mlp.{key}_proj")
            seed = (2000 if key == "down" else 1000) + i
            matrix(tensors, key, f"layers.{i}.mlp.{key}_proj", w, fmt, 0, (seed, 16))
        bitmap(i, "mlp_in", 1000 + i, 32)
        bitmap(i, "mlp_mid", 2000 + i, 48)
        write(OUT / f"layer_{i:02}.safetensors", meta, tensors)

        keys, tensors = (full if i == 3 else linear), {}
        meta = {"kind": "full_attention" if i == 3 else "linear_attention", "format": FORMATS[mixer_formats[i]][0],
                "kv_format": FORMATS["int8"][0]}
        rotated = i > 0  # layer 0 is as release 0.1 had them
        if rotated:
            meta.update(basis="online", block="16", seed_in=str(3000 + i), seed_out=str(4000 + i))
        for key in keys:
            w = weights(f"layers.{i}.{key}")
            fmt = "int8" if key in (full[1], full[2]) else mixer_formats[i]
            site = SITE[key.split(".")[1]]
            seed = (3000 if site == "in" else 4000) + i
            matrix(tensors, key, f"layers.{i}.{key}", w, fmt, 3, (seed, 16) if rotated else None)
            if rotated and (key in (keys[0], keys[-1])):
                bitmap(i, "mix_" + site, seed, w.shape[1])
        write(OUT / f"layer_{i:02}_mixer.safetensors", meta, tensors)
    tensors = {}
    matrix(tensors, "lm_head", "lm_head", weights("lm_head"), "lut4", 0, None)
    write(OUT / "lm_head.safetensors", {"format": FORMATS["lut4"][0]}, tensors)

    quantized = {l.split()[0] for l in expected}
    for name, (dtype, values) in model.items():
        if name.startswith(("layers.", "norm.")) and name.removesuffix(".weight") not in quantized:
            line(name, dtype, values)
    digest.sort()
    root = hashlib.sha256("\n".join(digest).encode()).hexdigest()
    (OUT / "digest.txt").write_text("\n".join(digest) + f"\n{root}\n")
    (OUT / "expected.txt").write_text("\n".join(sorted(expected)) + "\n")
    write_seeds()


if __name__ == "__main__":
    main()
