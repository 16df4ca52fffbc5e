#!/usr/bin/env python3
"""Checks an imported checkpoint against independent readers of the same GGUF file.

  check_import.py FILE.gguf DIR        DIR was made by: forge import FILE.gguf --output DIR

1. Every tensor of DIR equals gguf-py's dequantization bit for bit (rotary rows of llama reordered
   here by reshaping, not by Forge's rule), none is missing, none is left over.
2. The tokenizer of DIR, read by HF tokenizers, gives the ids of SmolLM2's published vectors.
3. With transformers: config and weights equal what transformers reads from the GGUF itself, and so
   do the logits of a short prompt.
Needs: gguf, numpy, safetensors; for 2 and 3 tokenizers, torch and transformers.
"""
import json
import os
import sys

import gguf
import numpy as np
from safetensors import safe_open

LAYER = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
VECTORS = {
    "The capital of France is": [504, 3575, 282, 4649, 314],
    "Hello world! 123": [19556, 905, 17, 216, 33, 34, 35],
    "  multiple   spaces": [216, 2701, 256, 5600],
    "Café déjà vu.": [51, 1939, 2756, 32564, 90, 16739, 386, 101, 30],
    "\n": [198],
}


def hf_name(name):
    parts = name.split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{LAYER[parts[2]]}.{parts[3]}"
    return f"{WHOLE[parts[0]]}.{parts[1]}"


def rotary_rows(w, heads):
    """[heads][pairs][2] of the GGUF to [heads][2][pairs] of HF."""
    return np.ascontiguousarray(w.reshape(heads, -1, 2, *w.shape[1:]).swapaxes(1, 2)).reshape(w.shape)


def check_tensors(reader, folder):
    arch = reader.fields["general.architecture"].contents()
    heads = {"attn_q": int(reader.fields[f"{arch}.attention.head_count"].contents()),
             "attn_k": int(reader.fields[f"{arch}.attention.head_count_kv"].contents())}
    got, files = {}, [f for f in sorted(os.listdir(folder)) if f.endswith(".safetensors")]
    for file in files:
        with safe_open(os.path.join(folder, file), "np") as f:
            for key in f.keys():
                got[key] = f.get_tensor(key)
    weights = 0
    for t in reader.tensors:
        want = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        want = want.reshape([int(n) for n in reversed(t.shape)])
        kind = t.name.split(".")[2] if t.name.startswith("blk.") else ""
        if arch == "llama" and kind in heads:
            want = rotary_rows(want, heads[kind])
        have = got.pop(hf_name(t.name))
        assert have.dtype == np.float32, "run the import with --dtype keep on a quantized file, or f32"
        assert have.shape == want.shape, (t.name, have.shape, want.shape)
        assert np.array_equal(have.view(np.uint32), want.view(np.uint32)), t.name
        weights += have.size
    assert not got, f"left over: {sorted(got)}"
    print(f"tensors: {len(reader.tensors)} of {weights} weights equal gguf-py's bit for bit")


def check_tokenizer(folder):
    from tokenizers import Tokenizer

    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    if "smollm" in open(os.path.join(folder, "chat_template.jinja")).read().lower():
        for text, ids in VECTORS.items():
            assert tok.encode(text, add_special_tokens=False).ids == ids, text
    text = "<|im_start|>user\n naïve 12345 → 日本語 🙂<|im_end|>"
    assert tok.decode(tok.encode(text).ids, skip_special_tokens=False) == text
    print(f"tokenizer: read by HF tokenizers, {tok.get_vocab_size()} tokens, vectors equal")


def check_transformers(path, folder):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    where = {"pretrained_model_name_or_path": os.path.dirname(path), "gguf_file": os.path.basename(path)}
    ours, theirs = AutoConfig.from_pretrained(folder), AutoConfig.from_pretrained(**where)
    for key in ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                "num_key_value_heads", "max_position_embeddings", "rope_parameters", "tie_word_embeddings"]:
        a, b = getattr(ours, key, None), getattr(theirs, key, None)
        print(f"config {key}: {a}" + ("" if a == b else f"   (transformers: {b})"))
    load = {"dtype": torch.float32, "attn_implementation": "eager"}
    a = AutoModelForCausalLM.from_pretrained(folder, **load).eval()
    b = AutoModelForCausalLM.from_pretrained(**where, **load).eval()
    other = dict(b.named_parameters())
    for name, w in a.named_parameters():
        assert torch.equal(w, other[name]), name
    ids = torch.tensor([[504, 3575, 282, 4649, 314]])
    with torch.no_grad():
        x, y = a(ids).logits[0], b(ids).logits[0]
    print("transformers: weights equal; relative L2 of logits",
          float(((x - y).norm(dim=1) / y.norm(dim=1)).max()), "next id", int(x[-1].argmax()))


def main():
    path, folder = sys.argv[1], sys.argv[2]
    reader = gguf.GGUFReader(path)
    check_tensors(reader, folder)
    check_tokenizer(folder)
    json.load(open(os.path.join(folder, "generation_config.json")))
    check_transformers(os.path.abspath(path), folder)


if __name__ == "__main__":
    main()
