#!/usr/bin/env python3
"""Writes tests/golden/models/chat-tiny: a random hybrid with tokenizer and chat template, for the
tests of the commands. What it says is noise, but it always says something:

    make_tiny_chat.py --out tests/golden/models/chat-tiny

The head's rows of special tokens, control characters and bytes above 0x7E are zero, so greedy
replies are printable ASCII that goes on to the limit. The template is no program: it carries the
marks by which a Qwen3.8 template is recognized.
"""

import argparse
import json
import os

import numpy as np
from safetensors.numpy import save_file

HIDDEN, MLP, HEADS, KV_HEADS, HEAD_DIM = 16, 32, 2, 1, 16
K_HEADS, V_HEADS, K_DIM, V_DIM, KERNEL = 1, 2, 8, 8, 4
POSITIONS = 131072
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
ADDED = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
MERGES = ["Ġ t", "h e", "Ġt he", "a n", "i n", "u s", "us er", "e r", "s i", "s t", "an t", "s y"]
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|"
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_alphabet():
    """GPT-2's characters for the 256 bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    chars, extra = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in chars:
            chars[b] = chr(256 + extra)
            extra += 1
    return [chars[b] for b in range(256)]


def tokenizer():
    tokens = byte_alphabet()
    merges = []
    for m in sorted(MERGES, key=lambda m: len(m)):  # parts before what is made of them
        merges.append(m)
        tokens.append(m.replace(" ", ""))
    vocab = {t: i for i, t in enumerate(tokens)}
    added = [
        {
            "id": len(tokens) + i,
            "content": t,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": t in SPECIAL,
        }
        for i, t in enumerate(SPECIAL + ADDED)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    split = {
        "type": "Split",
        "pattern": {"Regex": PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [split, byte_level | {"use_regex": False}],
        },
        "post_processor": byte_level | {"use_regex": False},
        "decoder": byte_level | {"use_regex": False},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": merges,
        },
    }


def bf16(x):
    """Rounded to BF16, kept as float32: safetensors.numpy has no BF16."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def weights(vocab, silent):
    rng = np.random.default_rng(7)

    def draw(*shape, scale=None):
        return rng.normal(0, scale or shape[-1] ** -0.5, shape).astype(np.float32)

    head = draw(vocab, HIDDEN, scale=1.5)
    head[silent] = 0
    channels = 2 * K_HEADS * K_DIM + V_HEADS * V_DIM
    t = {
        "model.embed_tokens.weight": draw(vocab, HIDDEN, scale=1.0),
        "model.norm.weight": draw(HIDDEN, scale=0.2),
        "lm_head.weight": head,
    }
    for layer in range(2):
        p = f"model.layers.{layer}."
        t[p + "input_layernorm.weight"] = draw(HIDDEN, scale=0.2)
        t[p + "post_attention_layernorm.weight"] = draw(HIDDEN, scale=0.2)
        t[p + "mlp.gate_proj.weight"] = draw(MLP, HIDDEN)
        t[p + "mlp.up_proj.weight"] = draw(MLP, HIDDEN)
        t[p + "mlp.down_proj.weight"] = draw(HIDDEN, MLP)
    p = "model.layers.0.linear_attn."
    t[p + "in_proj_qkv.weight"] = draw(channels, HIDDEN)
    t[p + "in_proj_z.weight"] = draw(V_HEADS * V_DIM, HIDDEN)
    t[p + "in_proj_b.weight"] = draw(V_HEADS, HIDDEN)
    t[p + "in_proj_a.weight"] = draw(V_HEADS, HIDDEN)
    t[p + "conv1d.weight"] = draw(channels, 1, KERNEL)
    t[p + "A_log"] = rng.uniform(-1, 1, V_HEADS).astype(np.float32)
    t[p + "dt_bias"] = rng.uniform(-1, 1, V_HEADS).astype(np.float32)
    t[p + "norm.weight"] = rng.uniform(0.5, 1.5, V_DIM).astype(np.float32)
    t[p + "out_proj.weight"] = draw(HIDDEN, V_HEADS * V_DIM)
    p = "model.layers.1.self_attn."
    t[p + "q_proj.weight"] = draw(2 * HEADS * HEAD_DIM, HIDDEN)
    t[p + "k_proj.weight"] = draw(KV_HEADS * HEAD_DIM, HIDDEN)
    t[p + "v_proj.weight"] = draw(KV_HEADS * HEAD_DIM, HIDDEN)
    t[p + "o_proj.weight"] = draw(HIDDEN, HEADS * HEAD_DIM)
    t[p + "q_norm.weight"] = draw(HEAD_DIM, scale=0.2)
    t[p + "k_norm.weight"] = draw(HEAD_DIM, scale=0.2)
    # F16 keeps the file small, and a few more digits than BF16.
    return {name: bf16(x).astype(np.float16) for name, x in t.items()}


def config(vocab):
    return {
        "architectures": ["Qwen3_5ForCausalLM"],
        "model_type": "qwen3_5_text",
        "dtype": "float16",
        "vocab_size": vocab,
        "hidden_size": HIDDEN,
        "intermediate_size": MLP,
        "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "full_attention"],
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "linear_num_key_heads": K_HEADS,
        "linear_num_value_heads": V_HEADS,
        "linear_key_head_dim": K_DIM,
        "linear_value_head_dim": V_DIM,
        "linear_conv_kernel_dim": KERNEL,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-06,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1000000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
        },
    }


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, ensure_ascii=False, indent=1)
        f.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", required=True)
    out = parser.parse_args().out
    os.makedirs(out, exist_ok=True)

    tok = tokenizer()
    ids = {t["content"]: t["id"] for t in tok["added_tokens"]}
    vocab = max(ids.values()) + 1
    silent = [*range(0x20), *range(0x7F, 256), *ids.values()]
    save_file(weights(vocab, silent), os.path.join(out, "model.safetensors"), {"format": "pt"})
    write_json(os.path.join(out, "config.json"), config(vocab))
    write_json(os.path.join(out, "tokenizer.json"), tok)
    write_json(
        os.path.join(out, "tokenizer_config.json"),
        {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None},
    )
    write_json(
        os.path.join(out, "generation_config.json"),
        {"eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]]},
    )
    with open(os.path.join(out, "chat_template.jinja"), "w", encoding="utf-8") as f:
        f.write("{# marks only: preserve_thinking is undefined, last_query_index #}\n")


if __name__ == "__main__":
    main()
