#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets of format/: tests/fuzz/corpus/gguf and safetensors.

Needs: gguf, numpy, safetensors.  Run: make_fuzz_seeds.py tests/fuzz/corpus
"""
import os
import sys

import gguf
import numpy as np
import safetensors.numpy

V, H, F, D, HEADS = 8, 32, 32, 8, 4


def model(path, arch, layers, types):
    rng = np.random.default_rng(1)
    out = gguf.GGUFWriter(path, arch)
    out.add_block_count(layers)
    out.add_context_length(64)
    out.add_embedding_length(H)
    out.add_feed_forward_length(F)
    out.add_head_count(HEADS)
    out.add_head_count_kv(2)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre({"llama": "smollm", "qwen35": "qwen35"}.get(arch, "qwen2"))
    out.add_token_list(["<e>", "a", "b", "ab", "Ġ"])
    out.add_token_types([3, 1, 1, 1, 1])
    out.add_token_merges(["a b"])
    out.add_eos_token_id(0)
    out.add_chat_template("{{ messages }}")

    def put(name, rows, cols, kind="F32"):
        w = rng.normal(0, 1, (rows, cols) if rows else cols).astype(np.float32)
        qtype = gguf.GGMLQuantizationType[kind]
        out.add_tensor(name, w if kind == "F32" else gguf.quants.quantize(w, qtype), raw_dtype=None if kind == "F32" else qtype)

    put("token_embd.weight", V, H, types[0])
    for i in range(layers):
        b = f"blk.{i}."
        put(b + "attn_norm.weight", 0, H)
        if arch == "qwen35" and i < layers - 1:
            put(b + "attn_qkv.weight", 2 * 2 * 2 + 4 * 2, H)
            put(b + "attn_gate.weight", 8, H)
            put(b + "ssm_beta.weight", 4, H)
            put(b + "ssm_alpha.weight", 4, H)
            put(b + "ssm_conv1d.weight", 16, 4)
            put(b + "ssm_dt.bias", 0, 4)
            out.add_tensor(b + "ssm_a", -np.ones(4, np.float32))
            put(b + "ssm_norm.weight", 0, 2)
            put(b + "ssm_out.weight", H, 8)
        else:
            put(b + "attn_q.weight", HEADS * D * (2 if arch == "qwen35" else 1), H, types[1])
            put(b + "attn_k.weight", 2 * D, H, types[1])
            put(b + "attn_v.weight", 2 * D, H, types[2])
            put(b + "attn_output.weight", H, HEADS * D, types[2])
            if arch in ("qwen3", "qwen35"):
                put(b + "attn_q_norm.weight", 0, D)
                put(b + "attn_k_norm.weight", 0, D)
            if arch == "qwen2":
                put(b + "attn_q.bias", 0, HEADS * D)
                put(b + "attn_k.bias", 0, 2 * D)
                put(b + "attn_v.bias", 0, 2 * D)
        put(b + ("post_attention_norm.weight" if arch == "qwen35" else "ffn_norm.weight"), 0, H)
        put(b + "ffn_gate.weight", F, H, types[1])
        put(b + "ffn_up.weight", F, H, types[1])
        put(b + "ffn_down.weight", H, F, types[2])
    put("output_norm.weight", 0, H)
    if arch == "qwen35":
        out.add_key_length(D)
        for key, value in [("full_attention_interval", layers), ("ssm.conv_kernel", 4), ("ssm.state_size", 2),
                           ("ssm.group_count", 2), ("ssm.time_step_rank", 4), ("ssm.inner_size", 8),
                           ("rope.dimension_count", 4)]:
            out.add_uint32(f"qwen35.{key}", value)
        put("output.weight", V, H)
    if arch == "llama":
        out.add_tensor("rope_freqs.weight", np.array([1, 1, 2, 8], np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def blocks(path):
    """One random block of every quantized type that Forge decodes."""
    rng = np.random.default_rng(2)
    out = gguf.GGUFWriter(path, "none")
    for name in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ2_XXS", "IQ2_XS", "IQ2_S",
                 "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS"]:
        qtype = gguf.GGMLQuantizationType[name]
        block = rng.integers(0, 256, (1, gguf.GGML_QUANT_SIZES[qtype][1]), dtype=np.uint8)
        out.add_tensor(name, block, raw_shape=block.shape, raw_dtype=qtype)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    ggufs, tensors = (os.path.join(sys.argv[1], name) for name in ("gguf", "safetensors"))
    os.makedirs(ggufs, exist_ok=True)
    os.makedirs(tensors, exist_ok=True)
    model(os.path.join(ggufs, "llama"), "llama", 1, ["Q8_0", "Q4_1", "Q4_0"])
    model(os.path.join(ggufs, "qwen2"), "qwen2", 1, ["F16", "BF16", "F16"])
    model(os.path.join(ggufs, "qwen3"), "qwen3", 1, ["BF16", "Q8_0", "F32"])
    model(os.path.join(ggufs, "qwen35"), "qwen35", 2, ["F16", "F16", "F16"])
    blocks(os.path.join(ggufs, "blocks"))
    data = safetensors.numpy.save({"a": np.zeros((2, 3), np.float32), "b.\u00e9": np.ones(3, np.int64)}, {"format": "pt"})
    with open(os.path.join(tensors, "two"), "wb") as f:
        f.write(b"\0" + data)
    with open(os.path.join(tensors, "index"), "wb") as f:
        f.write(b'\1{"metadata": {"total_size": 2.0}, "weight_map": {"a": "x.safetensors"}}')


main()
