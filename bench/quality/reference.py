"""What the scripts here share: rows, and a GGUF of any type as a PyTorch model with exactly the file's weights in FP32 and FP64
sums where it matters. Everything is read by gguf-py, safetensors and transformers, nothing by Forge.
"""
import hashlib
import os
import sys

import gguf
import numpy as np
import torch
from safetensors import safe_open

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
sys.path.insert(0, os.path.join(TREE, "tests/reference"))
from check_import import hf_name, rotary_rows  # noqa: E402

# Matrices that read the same input, by the HF module that is listened to.
INPUTS = {
    "self_attn.q_proj": ["attn_q", "attn_k", "attn_v"],
    "self_attn.o_proj": ["attn_output"],
    "mlp.gate_proj": ["ffn_gate", "ffn_up"],
    "mlp.down_proj": ["ffn_down"],
}


def sha256(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while piece := f.read(1 << 20):
            h.update(piece)
    return h.hexdigest()


def read_rows(path, count=0):
    """ids [rows][seq] and mask [rows][seq] (positions that count) of a rows file (src/format/rows.h); count 0: all rows."""
    with safe_open(path, "np") as f:
        schema = (f.metadata() or {}).get("schema")
        if schema != "forge.rows/1":
            sys.exit(f"{path}: metadata schema: expected forge.rows/1, found {schema}")
        ids = f.get_tensor("ids")
        mask = f.get_tensor("mask").astype(bool) if "mask" in f.keys() else np.ones(ids.shape, bool)
    n = min(count or len(ids), len(ids))
    return ids[:n].astype(np.int64), mask[:n]


def read_gguf(path):
    """HF name -> FP32 array in HF's order of rows."""
    reader = gguf.GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    heads = {"attn_q": f"{arch}.attention.head_count", "attn_k": f"{arch}.attention.head_count_kv"}
    weights = {}
    for t in reader.tensors:
        w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(n) for n in reversed(t.shape)])
        kind = t.name.split(".")[2] if t.name.startswith("blk.") else ""
        if arch == "llama" and kind in heads:
            w = rotary_rows(w, int(reader.fields[heads[kind]].contents()))
        weights[hf_name(t.name)] = w
    return weights


def load_model(path, config_dir, attention="sdpa"):
    """The GGUF as transformers' model, FP32; config_dir: a checkpoint directory of the same model (config.json is read)."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(config_dir)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation=attention)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # its frequencies are no weights
    state = {name: torch.from_numpy(np.ascontiguousarray(w)) for name, w in read_gguf(path).items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True, assign=True)
    model.tie_weights()
    return model.eval()


def listen(model, take, wanted=lambda layer, module: True):
    """Calls take(layer, module, x) with the inputs [positions][columns] of the matrices of each layer, as the model runs."""
    hooks = []
    for i, layer in enumerate(model.model.layers):
        for name in INPUTS:
            if not wanted(i, name):
                continue

            def hook(_, inputs, i=i, name=name):
                take(i, name, inputs[0].reshape(-1, inputs[0].shape[-1]))

            hooks.append(layer.get_submodule(name).register_forward_pre_hook(hook))
    return hooks


def run_rows(model, ids, mask, batch, progress):
    """Runs the layers (not the head) over all rows; yields each batch's mask [positions] before its hooks are called."""
    with torch.inference_mode():
        for at in range(0, len(ids), batch):
            yield torch.from_numpy(mask[at : at + batch].reshape(-1))
            model.model(torch.from_numpy(ids[at : at + batch]), use_cache=False)
            print(f"{progress}: {min(at + batch, len(ids))} of {len(ids)} rows", file=sys.stderr, flush=True)
