#!/usr/bin/env python3
"""The forward pass once more, from the written specification alone, in NumPy and FP64: a judge
between Forge and the oracle.

    spec_model.py DIR...     per folder of make_checkpoints.py: error of logits.npy against FP64

Slow, plain, and without any code of the oracle's: configuration, tensor names and arithmetic are
those of the specification (model: config, tensors, Gated DeltaNet, full attention, rotary, dense
families). A row's error here is the oracle's rounding.
"""

import json
import os
import sys

import numpy as np
from safetensors import safe_open


def load_tensors(folder):
    tensors = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(folder, name), framework="pt") as f:
                tensors |= {key: f.get_tensor(key).double().numpy() for key in f.keys()}
    return tensors


def load_config(folder):
    with open(os.path.join(folder, "config.json")) as f:
        top = json.load(f)
    c = dict(top.get("text_config", top))
    c.setdefault("tie_word_embeddings", top.get("tie_word_embeddings", False))
    c["hybrid"] = c["model_type"].startswith("qwen3_5")
    L = c["num_hidden_layers"]
    if not c["hybrid"]:
        c["layer_types"] = ["full_attention"] * L
        c.setdefault(
            "head_dim",
            128 if c["model_type"] == "qwen3" else c["hidden_size"] // c["num_attention_heads"],
        )
    elif c.get("layer_types") is None:
        n = c.get("full_attention_interval", 4)
        c["layer_types"] = [
            "full_attention" if (i + 1) % n == 0 else "linear_attention" for i in range(L)
        ]
    rope = dict(c.get("rope_parameters") or c.get("rope_scaling") or {})
    rope.setdefault("rope_theta", c.get("rope_theta", 10000.0))
    rope.setdefault(
        "partial_rotary_factor", c.get("partial_rotary_factor", 0.25 if c["hybrid"] else 1.0)
    )
    rope.setdefault("rope_type", rope.get("type", "default"))
    rope.setdefault("original_max_position_embeddings", c["max_position_embeddings"])
    c["rope"] = rope
    return c


def frequencies(c):
    """Angular frequencies of the rotated pairs and the factor on cos and sin."""
    r = c["rope"]
    rot = int(c["head_dim"] * r["partial_rotary_factor"])
    i = np.arange(rot // 2)
    w = r["rope_theta"] ** (-2.0 * i / rot)
    o, s, kind = r["original_max_position_embeddings"], r.get("factor"), r["rope_type"]
    if kind == "default":
        return w, 1.0
    if kind == "linear":
        return w / s, 1.0
    if kind == "llama3":
        low, high = r["low_freq_factor"], r["high_freq_factor"]
        wave = 2 * np.pi / w
        t = (o / wave - low) / (high - low)
        return (
            np.where(wave < o / high, w, np.where(wave > o / low, w / s, (1 - t) * w / s + t * w)),
            1.0,
        )
    assert kind == "yarn", kind
    corr = lambda n: rot * np.log(o / (2 * np.pi * n)) / (2 * np.log(r["rope_theta"]))
    lo, hi = max(np.floor(corr(r.get("beta_fast", 32))), 0), min(
        np.ceil(corr(r.get("beta_slow", 1))), rot - 1
    )
    ramp = np.clip((i - lo) / ((hi if hi != lo else hi + 0.001) - lo), 0, 1)
    return w * (1 - ramp) + w / s * ramp, r.get("attention_factor") or 0.1 * np.log(s) + 1


sigmoid = lambda x: 1 / (1 + np.exp(-x))
silu = lambda x: x * sigmoid(x)
softplus = lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


class SpecModel:
    def __init__(self, folder):
        self.c, self.t = load_config(folder), load_tensors(folder)
        self.P = next(
            p
            for p in ("model.language_model.", "model.", "language_model.model.", "")
            if p + "embed_tokens.weight" in self.t
        )

    def w(self, name):
        return self.t[self.P + name]

    def linear(self, name, x):
        bias = self.t.get(f"{self.P}{name}.bias")
        y = x @ self.w(name + ".weight").T
        return y if bias is None else y + bias

    def rms(self, name, x):
        w = self.w(name + ".weight")
        if self.c["hybrid"]:
            w = 1 + w
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * w

    def rotate(self, x):
        w, factor = frequencies(self.c)
        h = len(w)
        angle = np.arange(x.shape[0])[:, None, None] * w
        cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
        a, b = x[..., :h], x[..., h : 2 * h]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin, x[..., 2 * h :]], axis=-1)

    def attention(self, p, h):
        c, T, D = self.c, h.shape[0], self.c["head_dim"]
        nq, nkv = c["num_attention_heads"], c["num_key_value_heads"]
        q, k, v = (self.linear(f"{p}self_attn.{n}_proj", h) for n in "qkv")
        k, v = k.reshape(T, nkv, D), v.reshape(T, nkv, D)
        gate = None
        if c["hybrid"]:
            q = q.reshape(T, nq, 2 * D)
            q, gate = q[..., :D], q[..., D:]
        q = q.reshape(T, nq, D)
        if c["hybrid"] or c["model_type"] == "qwen3":
            q, k = self.rms(p + "self_attn.q_norm", q), self.rms(p + "self_attn.k_norm", k)
        q, k = self.rotate(q), self.rotate(k)
        o = np.empty((T, nq, D))
        for head in range(nq):
            kv = head // (nq // nkv)
            s = q[:, head] @ k[:, kv].T / np.sqrt(D)
            s = np.where(np.tri(T, dtype=bool), s, -np.inf)
            e = np.exp(s - s.max(-1, keepdims=True))
            o[:, head] = e @ v[:, kv] / e.sum(-1, keepdims=True)
        if gate is not None:
            o = o * sigmoid(gate)
        return self.linear(p + "self_attn.o_proj", o.reshape(T, nq * D))

    def deltanet(self, p, h):
        c, T = self.c, h.shape[0]
        nk, nv, dk, dv = (
            c["linear_" + n]
            for n in ("num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
        )
        K, key = c["linear_conv_kernel_dim"], nk * dk
        u, z, b, a = (self.linear(f"{p}linear_attn.in_proj_{n}", h) for n in ("qkv", "z", "b", "a"))
        w = self.w(p + "linear_attn.conv1d.weight")[:, 0]
        past = np.concatenate([np.zeros((K - 1, u.shape[1])), u])
        y = silu(sum(w[:, j] * past[j : j + T] for j in range(K)))
        l2 = lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)
        q = l2(y[:, :key].reshape(T, nk, dk)) / np.sqrt(dk)
        k = l2(y[:, key : 2 * key].reshape(T, nk, dk))
        v = y[:, 2 * key :].reshape(T, nv, dv)
        beta = sigmoid(b)
        alpha = np.exp(
            -np.exp(self.w(p + "linear_attn.A_log"))
            * softplus(a + self.w(p + "linear_attn.dt_bias"))
        )
        head = np.arange(nv) // (nv // nk)
        S, o = np.zeros((nv, dk, dv)), np.empty((T, nv, dv))
        for t in range(T):
            kt, qt = k[t, head], q[t, head]
            S = S * alpha[t][:, None, None]
            m = np.einsum("hij,hi->hj", S, kt)
            S = S + kt[:, :, None] * (beta[t][:, None] * (v[t] - m))[:, None, :]
            o[t] = np.einsum("hij,hi->hj", S, qt)
        o = (
            o
            / np.sqrt((o * o).mean(-1, keepdims=True) + c["rms_norm_eps"])
            * self.w(p + "linear_attn.norm.weight")
        )
        o = o * silu(z.reshape(T, nv, dv))
        return self.linear(p + "linear_attn.out_proj", o.reshape(T, nv * dv))

    def logits(self, tokens):
        x = self.w("embed_tokens.weight")[tokens]
        for i, kind in enumerate(self.c["layer_types"]):
            p = f"layers.{i}."
            h = self.rms(p + "input_layernorm", x)
            x = x + (self.attention(p, h) if kind == "full_attention" else self.deltanet(p, h))
            h = self.rms(p + "post_attention_layernorm", x)
            x = x + self.linear(
                p + "mlp.down_proj",
                silu(self.linear(p + "mlp.gate_proj", h)) * self.linear(p + "mlp.up_proj", h),
            )
        x = self.rms("norm", x)
        return (
            x
            @ (
                self.w("embed_tokens.weight")
                if self.c["tie_word_embeddings"]
                else self.t["lm_head.weight"]
            ).T
        )


def row_errors(got, want):
    return np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)


def main():
    for folder in sys.argv[1:]:
        read = lambda name: np.load(os.path.join(folder, name))
        rows = read("rows.npy")
        want = SpecModel(folder).logits(read("tokens.npy"))[rows]
        errors = row_errors(read("logits.npy").astype(np.float64), want)
        print(
            f"{folder}: oracle against FP64, relative L2 per row: median {np.median(errors):.2e}, "
            f"max {errors.max():.2e} "
            f"(row {rows[errors.argmax()]})"
        )


if __name__ == "__main__":
    main()
