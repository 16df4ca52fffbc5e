#!/usr/bin/env python3
"""Writes small packages and manifests for the fuzz targets fuzz_package and fuzz_manifest, from the text of specs/runtime.md
1.2 and 1.3 alone: test_package reads them too, as files of another writer. Data start right behind the header.

Usage: make_package_seeds.py tests/fuzz/corpus
"""
import json
import os
import struct
import sys

DIGEST = "0123456789abcdef" * 4
EXPORT = "fedcba9876543210" * 4


def f16(values):
    return b"".join(struct.pack("<e", v) for v in values)


def f32(values):
    return b"".join(struct.pack("<f", v) for v in values)


def pack(indices, bits):
    """One row of indices as a bit stream, least significant bit first."""
    stream = sum(i << (bits * j) for j, i in enumerate(indices))
    return stream.to_bytes((len(indices) * bits + 7) // 8, "little")


FORMATS = {"v2x16": (4, 2, 16), "v2x64": (6, 2, 64), "lut4": (4, 1, 16), "lut6": (6, 1, 64)}


class Package:
    def __init__(self, kind, layers=None):
        self.tensors, self.matrices = {}, []
        self.meta = {"forge.format": "package", "forge.version": "1", "forge.kind": kind}
        if layers:
            self.meta["forge.layers"] = layers
        self.meta.update({"forge.weights_digest": DIGEST, "forge.export": EXPORT, "forge.layout": "canonical"})

    def put(self, name, dtype, shape, data):
        self.tensors[name] = (dtype, shape, data)

    def mat(self, name, fmt, rows, cols, basis=None, rank=0, int8_factors=False):
        self.matrices.append({"name": name, "format": fmt, "rows": rows, "cols": cols, "basis": basis, "rank": rank})
        if int8_factors:
            self.matrices[-1]["lr_dtype"] = "i8"
        if fmt in FORMATS:
            bits, per, entries = FORMATS[fmt]
            data = b"".join(pack([(7 * r + 5 * c + 3) % entries for c in range(cols)], bits) for r in range(rows // per))
            self.put(name + ".pidx", "U8", [rows // per, (cols * bits + 7) // 8], data)
            self.put(name + ".lut", "F16", [entries, per], f16([(i - entries) / 8 for i in range(entries * per)]))
        elif fmt == "int8":
            self.put(name + ".int8", "I8", [rows, cols], bytes((i * 37 % 255 + 129) % 256 for i in range(rows * cols)))
        else:
            data = {"f16": f16, "f32": f32, "bf16": lambda v: b"".join(struct.pack("<f", x)[2:] for x in v)}[fmt]
            self.put(name + ".weight", fmt.upper(), [rows, cols], data([i / 4 for i in range(rows * cols)]))
        if fmt in FORMATS or fmt == "int8":
            self.put(name + ".scale", "F16", [rows], f16([(r + 1) / 16 for r in range(rows)]))
        if int8_factors:
            self.put(name + ".lr_a", "I8", [rows, rank], bytes((i * 41 % 255 + 129) % 256 for i in range(rows * rank)))
            self.put(name + ".lr_b", "I8", [rank, cols], bytes((i * 43 % 255 + 129) % 256 for i in range(rank * cols)))
            self.put(name + ".lr_scale", "F32", [rank], f32([(k + 1) / 1024 for k in range(rank)]))
        elif rank:
            self.put(name + ".lr_a", "F16", [rows, rank], f16([0.5] * rows * rank))
            self.put(name + ".lr_b", "F16", [rank, cols], f16([-0.5] * rank * cols))

    def vec(self, name, *shape):
        n = 1
        for d in shape:
            n *= d
        self.put(name, "F32", list(shape), f32([1.0 + i for i in range(n)]))

    def bytes(self):
        header, data = {"__metadata__": dict(self.meta)}, b""
        header["__metadata__"]["forge.matrices"] = json.dumps(self.matrices)
        for name in sorted(self.tensors):
            dtype, shape, part = self.tensors[name]
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(part)]}
            data += part
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data


def mlp(p, b, hidden, inter, basis):
    p.mat(b + "mlp.gate_proj", "v2x64", inter, hidden, basis("mlp_in", hidden))
    p.mat(b + "mlp.up_proj", "v2x16", inter, hidden, basis("mlp_in", hidden))
    p.mat(b + "mlp.down_proj", "lut4", hidden, inter, basis("mlp_mid", inter))
    p.vec(b + "input_layernorm.weight", hidden)
    p.vec(b + "post_attention_layernorm.weight", hidden)


def attention(p, b, hidden, q_rows, out, kv, basis, int8_factors=False):
    p.mat(b + "self_attn.q_proj", "lut4", q_rows, hidden, basis("mix_in", hidden), 2, int8_factors)
    p.mat(b + "self_attn.k_proj", "int8", kv, hidden, basis("mix_in", hidden), int(int8_factors), int8_factors)
    p.mat(b + "self_attn.v_proj", "f16", kv, hidden, basis("mix_in", hidden))
    p.mat(b + "self_attn.o_proj", "v2x16", hidden, out, basis("mix_out", out))


def signs(p, b, **widths):
    for site, n in widths.items():
        p.put(b + "rot." + site, "U8", [n // 8], bytes((31 * i + 5) % 256 for i in range(n // 8)))


def chunk():
    p = Package("chunk", "4-5")
    basis = lambda site, n: {"site": site, "block": 8}
    mlp(p, "layers.4.", 8, 8, basis)
    p.mat("layers.4.linear_attn.in_proj_qkv", "v2x64", 16, 8, basis("mix_in", 8), 1)
    p.mat("layers.4.linear_attn.in_proj_z", "lut6", 8, 8, basis("mix_in", 8))
    p.mat("layers.4.linear_attn.in_proj_a", "bf16", 2, 8)
    p.mat("layers.4.linear_attn.in_proj_b", "f32", 2, 8)
    p.mat("layers.4.linear_attn.out_proj", "int8", 8, 8, basis("mix_out", 8))
    p.vec("layers.4.linear_attn.conv1d.weight", 16, 1, 3)
    p.vec("layers.4.linear_attn.A_log", 2)
    p.vec("layers.4.linear_attn.dt_bias", 2)
    p.vec("layers.4.linear_attn.norm.weight", 4)
    mlp(p, "layers.5.", 8, 8, basis)
    attention(p, "layers.5.", 8, 16, 8, 4, basis)
    p.vec("layers.5.self_attn.q_norm.weight", 4)
    p.vec("layers.5.self_attn.k_norm.weight", 4)
    for i in (4, 5):
        signs(p, f"layers.{i}.", mlp_in=8, mlp_mid=8, mix_in=8, mix_out=8)
    return p


def dense(int8_factors=False):
    p = Package("chunk", "0-0")
    plain = lambda site, n: None
    mlp(p, "layers.0.", 6, 5 * 2, plain)
    attention(p, "layers.0.", 6, 6, 6, 3, plain, int8_factors)
    for part, n in (("q", 6), ("k", 3), ("v", 3)):
        p.vec(f"layers.0.self_attn.{part}_proj.bias", n)
    return p


def drafter():
    p = Package("drafter", "0-0")
    plain = lambda site, n: None
    mlp(p, "layers.0.", 4, 6, plain)
    attention(p, "layers.0.", 4, 4, 4, 2, plain)
    p.vec("layers.0.self_attn.q_norm.weight", 2)
    p.vec("layers.0.self_attn.k_norm.weight", 2)
    for part in ("attention_conv", "mlp_conv"):
        p.mat(f"layers.0.{part}.kernel_projection", "int8", 4, 4)
        p.vec(f"layers.0.{part}.base_kernel", 2, 2, 4)
    p.mat("fc", "v2x64", 4, 8)
    p.vec("hidden_norm.weight", 4)
    p.vec("norm.weight", 4)
    p.mat("candidate_selector.hidden_projection", "f16", 3, 4)
    return p


def head():
    p = Package("head")
    p.meta["forge.id"] = DIGEST
    p.mat("lm_head", "lut4", 5, 7)
    p.vec("norm.weight", 7)
    return p


def manifest(hybrid, embedding=None):
    def kv(name, keys, values, scales):
        return {"format": name, "keys": keys, "values": values, "scales": scales,
                "scale_granularity": "token_head" if scales else None, "stable_attention": True}
    types = ["linear_attention", "full_attention"] if hybrid else ["full_attention"] * 2
    lists = ([0], [1]) if hybrid else ([], [0, 1])
    m = {
        "version": "forge1",
        "release": {"name": "r", "weights_digest": DIGEST, "upstream": {"id": "a/b", "revision": None}},
        "export": {"name": "e", "digest": EXPORT},
        "graph": {"id": "g", "arch": "qwen3_5" if hybrid else "llama", "numerics_abi": 1},
        "model": {"layers": 2, "hidden": 8, "intermediate": 8, "vocab": 5, "layer_types": types, "n_heads": 2,
                  "n_kv_heads": 1, "head_dim": 4, "rotary_dims": 2, "rope_theta": 1e7,
                  "gdn": {"k_heads": 1, "v_heads": 2, "dk": 4, "dv": 4, "conv": 3} if hybrid else None,
                  "rms_eps": 1e-6, "config_sha256": DIGEST},
        "T": 8, "TP": 64, "pend": 8, "taps": [0, 1], "ctxs": [256, 8192], "pctxs": [8192],
        "kv_len": {"256": 256, "8192": 8000}, "pkv_len": {"8192": 8192}, "prefill_rows": {"8192": 32},
        "rotation": {"type": "block_hadamard", "block": 1024, "signs": "splitmix64",
                     "seeds": {"mlp_in": 1000, "mlp_mid": 2000, "mix_in": 3000, "mix_out": 4000}} if hybrid else None,
        "numerics": {"attention": {"mode": "stored", "tile": 256, "segment": 2048}, "act_block": 1024,
                     "c2t": {"unit_s8": 0.25, "unit_s8b": 0.25, "unit_pf8": 0.015625, "tile_verify": 2048,
                             "tile_prefill": 4096}},
        "chunks": [{"file": "c", "layers": [0, 1], "gdn_j": lists[0], "att_j": lists[1], "taps": [0, 1],
                    "entries": ["v8_8k", "p64_8k"], "bytes": 9, "sha256": DIGEST}],
        "head": {"file": "h", "bytes": 9, "sha256": DIGEST, "id": DIGEST, "norm": "rms1p", "logits": "h8"},
        "embedding": embedding or {"file": "../model/e.npy", "dtype": "f16", "sha256": DIGEST},
    }
    if hybrid:
        m["kv_cache"] = {"format": "selectable", "default": "kv8", "key_layout": "token_dim", "rotation": {"kv8": "hadamard"},
                         "formats": {"fp16": kv("fp16", "float16", "float16", None), "v8": kv("v8", "float16", "int8", "float16"),
                                     "kv8": kv("kv8", "int8", "int8", "float16")}}
    return json.dumps(m).encode()


def main():
    for folder, files in (("package", {"chunk": chunk().bytes(), "dense": dense().bytes(), "drafter": drafter().bytes(),
                                       "head": head().bytes(), "int8_factors": dense(True).bytes()}),
                          ("manifest", {"hybrid": manifest(True), "dense": manifest(False),
                                        "head_embed": manifest(False, {"dtype": "head"}),
                                        "int8_embed": manifest(True, {"file": "../model/e.safetensors", "dtype": "int8",
                                                                      "sha256": DIGEST}),
                                        "original": b'{"version": "coreai1", "T": 8}'})):
        os.makedirs(os.path.join(sys.argv[1], folder), exist_ok=True)
        for name, data in files.items():
            with open(os.path.join(sys.argv[1], folder, name), "wb") as f:
                f.write(data)


main()
