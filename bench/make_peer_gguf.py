#!/usr/bin/env python3
"""A GGUF of random weights in the shape of a real model, for programs that Forge is compared with. Blocks are drawn at random
in the quantized types themselves, so nothing needs the memory of the full weights; scales are set so that activations stay
finite. Architecture "qwen35", no vocabulary.

Usage: make_peer_gguf.py [--shape qwen3.8-27b|tiny-hybrid] [--type q3_K|q3_K_M|iq3_xxs|iq3_ks|q4_0] [--seed 0] OUT.gguf

--type: of all matrices: q3_K, iq3_xxs, q4_0, or iq3_ks, which only ik_llama.cpp reads; q3_K_M is the mixture of that name. The
head is q6_K, as llama-quantize makes it for these types, and the small projections of DeltaNet's gates are q8_0.
"""
import argparse
import struct

import numpy as np

SHAPES = {
    "qwen3.8-27b": dict(vocab=248320, hidden=5120, inter=17408, layers=64, ctx=262144, heads=24, kv=4, dim=256, k_heads=16,
                        v_heads=48, state=128, theta=1e7, sections=[11, 11, 10, 0]),
    # Super-blocks of 256 need widths that are multiples of it.
    "tiny-hybrid": dict(vocab=1024, hidden=256, inter=768, layers=8, ctx=1024, heads=8, kv=2, dim=64, k_heads=2, v_heads=4,
                        state=64, theta=1e6, sections=[3, 3, 2, 0]),
}
FULL_EVERY, CONV = 4, 4
ALIGN = 32
PIECE = 1 << 24  # bytes drawn at once

# name: number in GGUF, weights and bytes of a block, byte of the block's FP16 scale (None: at the start of the row; with a second
# one for the minimum behind it where the type has one), and the typical size of what the scale multiplies.
TYPES = {
    "f32": (0, 1, 4, None, 1),
    "q4_0": (2, 32, 18, 0, 4.6),
    "q8_0": (8, 32, 34, 0, 74),
    "q3_K": (11, 256, 110, 108, 42),
    "q4_K": (12, 256, 144, 0, 240),
    "q5_K": (13, 256, 176, 0, 480),
    "q6_K": (14, 256, 210, 208, 1370),
    "iq3_xxs": (18, 256, 98, 0, 130),
    "iq3_ks": (156, 256, 102, None, 600),
}
# llama_ftype of a file whose matrices have this type.
FTYPES = {"q4_0": 2, "q3_K": 11, "q3_K_M": 12, "iq3_xxs": 23, "iq3_ks": 154}


WITH_MINIMUM = {"q4_K", "q5_K"}


def type_of(kind, role, layer, layers):
    """Type of one matrix; role: v, out, qkv, down or other. As llama-quantize mixes Q3_K_M."""
    if kind != "q3_K_M":
        return kind
    if role == "v":
        return "q5_K" if layer < 2 else "q4_K"
    if role == "down":
        return "q5_K" if layer < layers // 16 else "q4_K"
    return "q4_K" if role in ("out", "qkv") else "q3_K"


def row_bytes(kind, n):
    _, block, size, _, _ = TYPES[kind]
    return n // block * size + (2 if kind == "iq3_ks" else 0)


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def pair(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", 6, value)
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    return text(key) + struct.pack("<II", 4, value)


def metadata(name, s, kind):
    a = "qwen35."
    return {
        "general.architecture": "qwen35", "general.name": f"random {name}", "general.alignment": ALIGN,
        "general.file_type": FTYPES[kind], "general.quantization_version": 2,
        a + "vocab_size": s["vocab"], a + "context_length": s["ctx"], a + "embedding_length": s["hidden"],
        a + "block_count": s["layers"], a + "feed_forward_length": s["inter"], a + "attention.head_count": s["heads"],
        a + "attention.head_count_kv": s["kv"], a + "attention.key_length": s["dim"], a + "attention.value_length": s["dim"],
        a + "attention.layer_norm_rms_epsilon": 1e-6, a + "rope.freq_base": s["theta"],
        a + "rope.dimension_count": s["dim"] // 4, a + "rope.dimension_sections": s["sections"],
        a + "full_attention_interval": FULL_EVERY, a + "ssm.conv_kernel": CONV, a + "ssm.state_size": s["state"],
        a + "ssm.group_count": s["k_heads"], a + "ssm.time_step_rank": s["v_heads"],
        a + "ssm.inner_size": s["v_heads"] * s["state"], "tokenizer.ggml.model": "none",
    }


def tensors(s, kind):
    """(name, type, shape with the row's length first)"""
    h, f, q, kv = s["hidden"], s["inter"], s["heads"] * s["dim"], s["kv"] * s["dim"]
    value, nv = s["v_heads"] * s["state"], s["v_heads"]
    channels = 2 * s["k_heads"] * s["state"] + value
    yield "token_embd.weight", type_of(kind, "other", 0, s["layers"]), (h, s["vocab"])
    yield "output_norm.weight", "f32", (h,)
    yield "output.weight", "q6_K", (h, s["vocab"])
    for i in range(s["layers"]):
        b = f"blk.{i}."

        def of(role, layer=i):
            return type_of(kind, role, layer, s["layers"])

        yield b + "attn_norm.weight", "f32", (h,)
        yield b + "post_attention_norm.weight", "f32", (h,)
        if (i + 1) % FULL_EVERY == 0:
            yield b + "attn_q.weight", of("other"), (h, 2 * q)
            yield b + "attn_k.weight", of("other"), (h, kv)
            yield b + "attn_v.weight", of("v"), (h, kv)
            yield b + "attn_output.weight", of("out"), (q, h)
            yield b + "attn_q_norm.weight", "f32", (s["dim"],)
            yield b + "attn_k_norm.weight", "f32", (s["dim"],)
        else:
            yield b + "attn_qkv.weight", of("qkv"), (h, channels)
            yield b + "attn_gate.weight", of("other"), (h, value)
            yield b + "ssm_conv1d.weight", "f32", (CONV, channels)
            yield b + "ssm_dt.bias", "f32", (nv,)
            yield b + "ssm_a", "f32", (nv,)
            yield b + "ssm_beta.weight", "q8_0", (h, nv)
            yield b + "ssm_alpha.weight", "q8_0", (h, nv)
            yield b + "ssm_norm.weight", "f32", (s["state"],)
            yield b + "ssm_out.weight", of("out"), (value, h)
        yield b + "ffn_gate.weight", of("other"), (h, f)
        yield b + "ffn_up.weight", of("other"), (h, f)
        yield b + "ffn_down.weight", of("down"), (f, h)


def floats(name, shape, rng):
    n = int(np.prod(shape))
    if name.endswith("ssm_a"):
        v = -rng.uniform(1, 16, n)
    elif name.endswith("ssm_dt.bias"):
        v = rng.uniform(-6.9, -2.25, n)
    elif "conv1d" in name:
        v = rng.uniform(-0.5, 0.5, n)
    else:
        v = rng.uniform(0.95, 1.05, n)
    return v.astype("<f4").tobytes()


def rows(kind, shape, rng):
    """The matrix in pieces: random bytes, then the scales of about 1 / sqrt(inputs)."""
    n, count = shape
    _, block, size, at, typical = TYPES[kind]
    bytes_ = row_bytes(kind, n)
    scale = np.frombuffer(np.float16(1 / np.sqrt(n) / typical).tobytes(), np.uint8)
    step = max(1, PIECE // bytes_)
    for first in range(0, count, step):
        now = min(step, count - first)
        data = np.frombuffer(rng.bytes(now * bytes_), np.uint8).reshape(now, bytes_).copy()
        if kind == "iq3_ks":
            data[:, :2] = scale
        else:
            blocks = data.reshape(now, n // block, size)
            blocks[:, :, at:at + 2] = scale
            if kind in WITH_MINIMUM:
                blocks[:, :, at + 2:at + 4] = scale
        yield data.tobytes()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--shape", choices=SHAPES, default="qwen3.8-27b")
    p.add_argument("--type", choices=FTYPES, default="q3_K")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("out")
    a = p.parse_args()
    s = SHAPES[a.shape]
    rng = np.random.Generator(np.random.SFC64(a.seed))
    pairs = metadata(a.shape, s, a.type)
    listed = list(tensors(s, a.type))
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(listed), len(pairs))
    head += b"".join(pair(k, v) for k, v in pairs.items())
    at = 0
    sizes = []
    for name, kind, shape in listed:
        size = row_bytes(kind, shape[0]) * int(np.prod(shape[1:]))
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, TYPES[kind][0], at)
        sizes.append(size)
        at += -(-size // ALIGN) * ALIGN
    with open(a.out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN))
        for (name, kind, shape), size in zip(listed, sizes):
            if kind == "f32":
                f.write(floats(name, shape, rng))
            else:
                for piece in rows(kind, shape, rng):
                    f.write(piece)
            f.write(b"\0" * (-size % ALIGN))
    print(f"{a.out}: {at} bytes of {a.type}")


if __name__ == "__main__":
    main()
