#!/usr/bin/env python3
"""Writes tiny random checkpoints with Hugging Face transformers, and their FP32 logits: the
oracle of the forward pass.

    make_checkpoints.py --out DIR [--seeds 0,1,2] [--cases a,b]   all rows (not committed)
    make_checkpoints.py --out tests/golden/models --small         selected rows (committed)

One folder per case and seed, DIR/<case>-s<seed>/:
    config.json, model.safetensors (or shards and index)   the checkpoint
    tokens.npy    int32 [600]        the prompt
    rows.npy      int32 [n]          rows of the 600-token prompt that logits.npy holds
    logits.npy    float32 [n, V]     what the oracle gives for them
    logits-T.npy  float32 [T, V]     without --small: the oracle run on the first T tokens alone
and DIR/manifest.json: library versions, figures of the checks made here. With --small,
DIR/taps-a.safetensors holds intermediate results of a-s0 for the first 65 tokens alone, a few rows
of each (see TAPS).

The weights are drawn so that a wrong implementation cannot hide: no norm weight at its neutral
value, every value head with another decay, some norm inputs small enough for epsilon to matter.
They are rounded to the stored dtype before the oracle reads them, from the files just written, as
float32, with eager attention and the plain PyTorch recurrence. A prompt is drawn again if the
oracle is inaccurate on it (against spec_model.py in FP64, or its own chunks, single steps and
prefixes against each other) or if the best two logits of some row nearly tie: there rounding alone
could fail a right implementation. Rounding grows where a DeltaNet output is near the epsilon of its
norm.
"""

import argparse
import json
import math
import os
import platform
import shutil
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import safetensors
import torch
import transformers
from safetensors.numpy import save_file as save_numpy
from safetensors.torch import save_file
from spec_model import SpecModel
from transformers.models.qwen3_5 import modeling_qwen3_5

N_TOKENS = 600
LENGTHS = [1, 2, 3, 5, 63, 64, 65, 130, 600]
ROWS = [0, 1, 2, 4, 62, 63, 64, 127, 128, 129, 300, 599]
ORACLE_TOLERANCE = (
    2e-5  # relative L2 per row: the oracle against FP64, its chunks against steps, prefixes alone
)
# Best minus second logit over the row's L2 norm; the oracle's own error per logit is about 5e-7.
MARGIN_MIN = 1e-5
DRAWS_MAX = 200
TAP_TOKENS = 65  # one chunk of the oracle's chunked recurrence and one row more
TAP_ROWS = [0, 1, 2, 3, 4, 31, 62, 63, 64]


def hybrid(**changes):
    """Fields of a qwen3_5 text config; a small relative of the published shapes."""
    fields = dict(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        rms_norm_eps=1e-6,
        linear_conv_kernel_dim=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=6,
        tie_word_embeddings=False,
        rope_parameters=dict(
            rope_type="default", rope_theta=1e6, partial_rotary_factor=0.25, mrope_section=[2, 1, 1]
        ),
    )
    fields.update(changes)
    return fields


def dense(**changes):
    fields = dict(
        vocab_size=96,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
        rope_parameters=dict(rope_type="default", rope_theta=1e5),
    )
    fields.update(changes)
    return fields


def old_rope_layout(config):
    """Rotary fields where they were before `rope_parameters`: beside the other fields."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope["rope_theta"]
    config["partial_rotary_factor"] = rope["partial_rotary_factor"]


def interval_layout(config):
    """Layer kinds by interval instead of a list."""
    del config["layer_types"]
    config["full_attention_interval"] = 4


def type_not_rope_type(config):
    rope = config["text_config"]["rope_parameters"]
    rope["type"] = rope.pop("rope_type")


def llama_layout(config):
    """As older llama files: rotary scaling beside theta, no head_dim."""
    del config["head_dim"]
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    config["rope_scaling"] = rope


LINEAR, FULL = "linear_attention", "full_attention"
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32

# family: class of model. text: its config. dtype: of the stored tensors. Options:
#   edit      changes config.json after it is written: spellings that the library reads, not writes
#   f32       suffixes of tensors stored as F32 whatever dtype says
#   nested    text_config inside a multimodal config, visual and mtp tensors in the files
#   shards    largest shard, bytes
#   embed     standard deviation of the embedding (1 unless given)
#   quiet     scales the first key head's q and k rows of in_proj_qkv: the constant of l2 matters
CASES = {
    "a": dict(
        about="hybrid, 3 value heads per key head, partial rotary, layer kinds by interval",
        family="qwen3_5",
        text=hybrid(rms_norm_eps=1e-5),
        dtype=BF16,
        edit=interval_layout,
    ),
    "b": dict(
        about="hybrid, listed layer kinds, first full, last linear; large epsilon; old fields",
        family="qwen3_5",
        dtype=BF16,
        edit=old_rope_layout,
        text=hybrid(
            hidden_size=40,
            num_hidden_layers=5,
            num_attention_heads=2,
            num_key_value_heads=1,
            linear_num_value_heads=4,
            rms_norm_eps=1e-2,
            layer_types=[FULL, LINEAR, LINEAR, FULL, LINEAR],
        ),
    ),
    "c": dict(
        about="hybrid, tied head, kernel 2, stored as F32, small embedding",
        family="qwen3_5",
        dtype=F32,
        embed=0.1,
        text=hybrid(
            vocab_size=112,
            rms_norm_eps=1e-4,
            tie_word_embeddings=True,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=16,
            linear_num_value_heads=2,
            linear_num_key_heads=1,
            linear_conv_kernel_dim=2,
            num_hidden_layers=3,
            layer_types=[LINEAR, FULL, LINEAR],
        ),
    ),
    "d": dict(
        about="hybrid in a multimodal config, visual and mtp tensors, type for rope_type, sharded",
        family="qwen3_5",
        dtype=BF16,
        nested=True,
        shards=60_000,
        edit=type_not_rope_type,
        text=hybrid(
            linear_num_key_heads=1,
            linear_num_value_heads=4,
            num_attention_heads=2,
            num_key_value_heads=1,
        ),
    ),
    "e": dict(
        about="hybrid, dk above dv, one value head per key head, kernel 3, biases",
        family="qwen3_5",
        dtype=BF16,
        quiet=1 / 64,
        text=hybrid(
            linear_key_head_dim=24,
            linear_value_head_dim=8,
            linear_num_key_heads=3,
            linear_num_value_heads=3,
            linear_conv_kernel_dim=3,
            num_attention_heads=2,
            num_key_value_heads=1,
            attention_bias=True,
        ),
    ),
    "f": dict(
        about="hybrid, A_log and norms F32 beside BF16, value heads wider than key heads",
        family="qwen3_5",
        dtype=BF16,
        f32=("A_log", "linear_attn.norm.weight", "layernorm.weight"),
        text=hybrid(
            rms_norm_eps=1e-5,
            linear_key_head_dim=8,
            linear_value_head_dim=20,
            linear_num_value_heads=4,
            num_attention_heads=3,
            num_key_value_heads=1,
            head_dim=24,
        ),
    ),
    "g": dict(
        about="hybrid with yarn",
        family="qwen3_5",
        dtype=BF16,
        text=hybrid(
            num_attention_heads=4,
            num_key_value_heads=2,
            linear_num_value_heads=4,
            rope_parameters=dict(
                rope_type="yarn",
                rope_theta=1e4,
                partial_rotary_factor=0.5,
                factor=4.0,
                original_max_position_embeddings=256,
                mrope_section=[3, 3, 2],
            ),
        ),
    ),
    "h": dict(
        about="qwen3 dense, head size apart from hidden / heads",
        family="qwen3",
        dtype=BF16,
        text=dense(head_dim=16, rope_parameters=dict(rope_type="default", rope_theta=1e6)),
    ),
    "i": dict(
        about="llama, grouped queries, llama3 rotary scaling in the old layout, stored as F16",
        family="llama",
        dtype=F16,
        edit=llama_layout,
        text=dense(
            hidden_size=48,
            num_attention_heads=3,
            num_key_value_heads=1,
            rms_norm_eps=1e-5,
            rope_parameters=dict(
                rope_type="llama3",
                rope_theta=1e4,
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=128,
            ),
        ),
    ),
    "j": dict(
        about="qwen2 with biases",
        family="qwen2",
        dtype=BF16,
        text=dense(hidden_size=36, num_attention_heads=6, num_key_value_heads=3),
    ),
    "k": dict(
        about="llama with attention and MLP biases, linear rotary scaling, tied head",
        family="llama",
        dtype=BF16,
        text=dense(
            num_attention_heads=4,
            attention_bias=True,
            mlp_bias=True,
            tie_word_embeddings=True,
            rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=2.5),
        ),
    ),
}
SMALL_SEEDS = {case: [0, 1, 2] if case in "ahi" else [0] for case in CASES}

FAMILIES = {
    "qwen3_5": (transformers.Qwen3_5TextConfig, transformers.Qwen3_5ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
}


def new_model(case):
    config_class, model_class = FAMILIES[case["family"]]
    if not case.get("nested"):
        return model_class(config_class(**json.loads(json.dumps(case["text"]))))
    text = json.loads(json.dumps(case["text"]))
    vision = dict(
        depth=1,
        hidden_size=16,
        intermediate_size=16,
        num_heads=2,
        patch_size=4,
        spatial_merge_size=2,
        temporal_patch_size=2,
        out_hidden_size=text["hidden_size"],
        num_position_embeddings=16,
    )
    config = transformers.Qwen3_5Config(
        text_config=text, vision_config=vision, tie_word_embeddings=text["tie_word_embeddings"]
    )
    return transformers.Qwen3_5ForConditionalGeneration(config)


def draw(case, name, shape, rng):
    """FP32 values of one tensor."""

    def normal(deviation):
        return rng.normal(0.0, deviation, shape)

    if ".visual." in name:
        return normal(0.02)
    if name.endswith("linear_attn.norm.weight"):
        return 1.0 + normal(0.3)
    if name.endswith("norm.weight"):
        return normal(0.3) if case["family"] == "qwen3_5" else 1.0 + normal(0.3)
    if name.endswith("dt_bias"):
        return rng.uniform(-4.0, 2.0, shape)
    if name.endswith("A_log"):
        return rng.uniform(-3.0, 2.5, shape)
    if name.endswith("conv1d.weight"):
        return normal(0.5)
    if name.endswith(".bias"):
        return normal(0.5)
    if name.endswith("embed_tokens.weight"):
        return normal(case.get("embed", 1.0))
    values = normal(1.0 / math.sqrt(shape[-1])) * 2.0 ** rng.uniform(-1.0, 1.0)
    if "quiet" in case and name.endswith("in_proj_qkv.weight"):
        dk = case["text"]["linear_key_head_dim"]
        key = dk * case["text"]["linear_num_key_heads"]
        values[0:dk] *= case["quiet"]
        values[key : key + dk] *= case["quiet"]
    return values


def stored_dtype(case, name):
    return F32 if name.endswith(case.get("f32", ("\0",))) else case["dtype"]


def fill(case, model, rng):
    for name, parameter in sorted(model.named_parameters()):
        values = torch.from_numpy(
            np.asarray(draw(case, name, tuple(parameter.shape), rng), dtype=np.float32)
        )
        parameter.data = values.to(stored_dtype(case, name))
    model.config.dtype = case["dtype"]


def mtp_tensors(case, rng):
    """What the library drops on loading: one full-attention layer and its joints."""
    text = case["text"]
    hidden, head, ff = text["hidden_size"], text["head_dim"], text["intermediate_size"]
    q, kv = text["num_attention_heads"] * head, text["num_key_value_heads"] * head
    layer = {
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
        "mlp.gate_proj": [ff, hidden],
        "mlp.up_proj": [ff, hidden],
        "mlp.down_proj": [hidden, ff],
        "self_attn.q_proj": [2 * q, hidden],
        "self_attn.k_proj": [kv, hidden],
        "self_attn.v_proj": [kv, hidden],
        "self_attn.o_proj": [hidden, q],
        "self_attn.q_norm": [head],
        "self_attn.k_norm": [head],
    }
    shapes = {f"mtp.layers.0.{name}.weight": shape for name, shape in layer.items()}
    shapes |= {"mtp.fc.weight": [hidden, 2 * hidden]}
    shapes |= {
        f"mtp.{name}.weight": [hidden]
        for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    }
    return {
        name: torch.from_numpy(rng.normal(0.0, 0.3, shape).astype(np.float32)).to(case["dtype"])
        for name, shape in shapes.items()
    }


def add_mtp(case, folder, rng):
    """Adds the mtp tensors as one more shard and lists them in the index."""
    tensors = mtp_tensors(case, rng)
    save_file(tensors, os.path.join(folder, "model-mtp.safetensors"), metadata={"format": "pt"})
    path = os.path.join(folder, "model.safetensors.index.json")
    with open(path) as f:
        index = json.load(f)
    index["weight_map"] |= {name: "model-mtp.safetensors" for name in tensors}
    index["metadata"]["total_size"] = float(index["metadata"]["total_size"]) + sum(
        t.numel() * t.element_size() for t in tensors.values()
    )
    with open(path, "w") as f:
        json.dump(index, f, indent=1, sort_keys=True)


def write_checkpoint(case, folder, rng):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model = new_model(case)
    fill(case, model, rng)
    model.save_pretrained(folder, max_shard_size=case.get("shards", 10**9))
    if case.get("nested"):
        add_mtp(case, folder, rng)
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), 0o644)
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    path = os.path.join(folder, "config.json")
    with open(path) as f:
        config = json.load(f)
    if "edit" in case:
        case["edit"](config)
    for field in ("transformers_version", "use_cache"):
        config.pop(field, None)
    with open(path, "w") as f:
        json.dump(config, f, indent=1, sort_keys=True)
        f.write("\n")
    return model


def load_oracle(case, folder):
    model_class = (
        transformers.Qwen3_5ForConditionalGeneration
        if case.get("nested")
        else FAMILIES[case["family"]][1]
    )
    model, info = model_class.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    unexpected = [name for name in info["unexpected_keys"] if not name.startswith("mtp.")]
    assert not info["missing_keys"] and not unexpected and not info["mismatched_keys"], (
        folder,
        info,
    )
    return model.eval()


def check_loaded(case, written, oracle):
    """The oracle must hold exactly the stored numbers, not initialized anew or rounded again."""
    want = dict(written.named_parameters())
    for name, parameter in oracle.named_parameters():
        assert parameter.dtype == torch.float32, name
        assert torch.equal(parameter, want[name].float()), name


def logits_of(model, tokens):
    with torch.no_grad():
        out = model(input_ids=torch.from_numpy(tokens.astype(np.int64))[None], use_cache=False)
    return out.logits[0].float().numpy()


def logits_by_steps(model, tokens, n_prefill):
    """Prefill, then one token at a time: the oracle's recurrent form, on the cache."""
    ids = torch.from_numpy(tokens.astype(np.int64))[None]
    rows = []
    with torch.no_grad():
        out = model(input_ids=ids[:, :n_prefill], use_cache=True)
        rows.append(out.logits[0])
        cache = out.cache if getattr(out, "cache", None) is not None else out.past_key_values
        for t in range(n_prefill, len(tokens)):
            kwargs = {"cache": cache} if "cache" in out.keys() else {"past_key_values": cache}
            rows.append(model(input_ids=ids[:, t : t + 1], use_cache=True, **kwargs).logits[0])
    return torch.cat(rows).float().numpy()


def row_error(got, want):
    """Largest relative L2 error over the rows."""
    got, want = got.astype(np.float64), want.astype(np.float64)
    return float(np.max(np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)))


def margin(logits):
    """Smallest distance of best and second logit, relative to the row's L2 norm."""
    best = np.sort(logits.astype(np.float64), axis=1)
    return float(np.min((best[:, -1] - best[:, -2]) / np.linalg.norm(best, axis=1)))


def logits_recurrent(model, tokens):
    """The whole prompt in one call, by the step form of the delta rule, not the chunked one."""
    chunk = modeling_qwen3_5.torch_chunk_gated_delta_rule
    modeling_qwen3_5.torch_chunk_gated_delta_rule = (
        modeling_qwen3_5.torch_recurrent_gated_delta_rule
    )
    try:
        return logits_of(model, tokens)
    finally:
        modeling_qwen3_5.torch_chunk_gated_delta_rule = chunk


def run_oracle(model, tokens):
    """Logits of every prefix alone, and how far they and single steps are from the whole prompt."""
    whole = logits_of(model, tokens)
    alone = {T: logits_of(model, tokens[:T]) for T in LENGTHS}
    return alone, dict(
        prefix_error=max(row_error(logits, whole[:T]) for T, logits in alone.items()),
        steps_error=row_error(logits_by_steps(model, tokens[:80], 61), whole[:80]),
    )


def draw_prompt(oracle, spec, vocab, rng):
    """A prompt that the oracle computes accurately, and its results."""
    for draws in range(1, DRAWS_MAX + 1):
        tokens = rng.integers(0, vocab, N_TOKENS).astype(np.int32)
        tokens[[2, 3]] = [0, vocab - 1]
        whole = logits_of(oracle, tokens)
        recurrent_error = row_error(logits_recurrent(oracle, tokens), whole)
        assert (
            recurrent_error <= 1e-2
        ), f"the oracle's own forms differ by {recurrent_error}: not rounding"
        if recurrent_error > ORACLE_TOLERANCE or margin(whole) < MARGIN_MIN:
            continue
        fp64_error = row_error(whole, spec.logits(tokens))
        if fp64_error > ORACLE_TOLERANCE:
            continue
        alone, found = run_oracle(oracle, tokens)
        if max(found.values()) <= ORACLE_TOLERANCE:
            return (
                tokens,
                alone,
                dict(
                    found,
                    fp64_error=fp64_error,
                    recurrent_error=recurrent_error,
                    top1_margin=margin(whole),
                    draws=draws,
                ),
            )
    raise AssertionError(f"no well-conditioned prompt in {DRAWS_MAX} draws")


# Intermediate results that are recorded, [rows, values] F32 each; N is the layer. `rows` (F32 too)
# says which rows.
TAPS = """
embed                                 embedding rows
layers.N.attn_norm                    after input_layernorm
layers.N.q_proj k_proj v              full attention: projections (queries and gates by head)
layers.N.q_rope k_rope                full attention: heads after norm and rotary
layers.N.attn_o attn_gated            full attention: before and after the output gate
layers.N.gdn_qkv gdn_z gdn_b gdn_a    linear attention: projections
layers.N.gdn_conv                     linear attention: after convolution and SiLU
layers.N.gdn_q gdn_k                  linear attention: unit heads, the query scaled
layers.N.gdn_alpha gdn_beta           linear attention: exp(g), beta per value head
layers.N.gdn_o gdn_norm               linear attention: recurrence, and after its gated norm
layers.N.mixer_out mid                the mixer's output, and the residual with it
layers.N.mlp_norm                     after post_attention_layernorm
layers.N.mlp_gate mlp_up mlp_act      MLP: projections, and their gated product
layers.N.mlp_out layer_out            MLP's output, and the residual with it
final_norm                            input of the head
"""


def record_taps(model, tokens):
    taps = {}
    layer_now = [None]

    def put(name, value):
        key = name if layer_now[0] is None else f"layers.{layer_now[0]}.{name}"
        assert key not in taps, key
        rows = value.detach().reshape(len(tokens), -1)[TAP_ROWS]
        taps[key] = rows.to(torch.float32).numpy().copy()

    def output(name):
        return lambda module, args, out: put(name, out[0] if isinstance(out, tuple) else out)

    def input(name):
        return lambda module, args: put(name, args[0])

    def enter(index):
        def hook(module, args):
            layer_now[0] = index

        return hook

    def leave(module, args, out):
        output("layer_out")(module, args, out)
        layer_now[0] = None

    text = model.model
    outputs = [(text.embed_tokens, "embed"), (text.norm, "final_norm")]
    inputs = []
    hooks = []
    for index, layer in enumerate(text.layers):
        hooks.append(layer.register_forward_pre_hook(enter(index)))
        hooks.append(layer.register_forward_hook(leave))
        mlp = layer.mlp
        outputs += [(layer.input_layernorm, "attn_norm")]
        outputs += [(layer.post_attention_layernorm, "mlp_norm"), (mlp, "mlp_out")]
        outputs += [(mlp.gate_proj, "mlp_gate"), (mlp.up_proj, "mlp_up")]
        inputs += [(layer.post_attention_layernorm, "mid"), (mlp.down_proj, "mlp_act")]
        if hasattr(layer, "self_attn"):
            mixer = layer.self_attn
            outputs += [(mixer.q_proj, "q_proj"), (mixer.k_proj, "k_proj"), (mixer.v_proj, "v")]
            inputs += [(mixer.o_proj, "attn_gated")]
        else:
            mixer = layer.linear_attn
            outputs += [(mixer.in_proj_qkv, "gdn_qkv"), (mixer.in_proj_z, "gdn_z")]
            outputs += [(mixer.in_proj_b, "gdn_b"), (mixer.in_proj_a, "gdn_a")]
            inputs += [(mixer.out_proj, "gdn_norm")]
        outputs += [(mixer, "mixer_out")]
    hooks += [module.register_forward_hook(output(name)) for module, name in outputs]
    hooks += [module.register_forward_pre_hook(input(name)) for module, name in inputs]

    library = modeling_qwen3_5
    replaced = ("apply_rotary_pos_emb", "eager_attention_forward", "torch_chunk_gated_delta_rule")
    rotary, eager, chunk = (getattr(library, name) for name in replaced)

    def rotary_tapped(*args, **kwargs):
        q, k = rotary(*args, **kwargs)
        put("q_rope", q[0].transpose(0, 1))
        put("k_rope", k[0].transpose(0, 1))
        return q, k

    def eager_tapped(*args, **kwargs):
        out = eager(*args, **kwargs)
        put("attn_o", out[0])
        return out

    def chunk_tapped(query, key, value, g, beta, **kwargs):
        put("gdn_conv", torch.cat([x.flatten(2) for x in (query, key, value)], dim=-1))
        put("gdn_q", library.l2norm(query) * query.shape[-1] ** -0.5)
        put("gdn_k", library.l2norm(key))
        put("gdn_alpha", g.exp())
        put("gdn_beta", beta)
        out = chunk(query, key, value, g=g, beta=beta, **kwargs)
        put("gdn_o", out[0])
        return out

    try:
        for name, tapped in zip(replaced, (rotary_tapped, eager_tapped, chunk_tapped)):
            setattr(library, name, tapped)
        logits_of(model, tokens)
    finally:
        for name, plain in zip(replaced, (rotary, eager, chunk)):
            setattr(library, name, plain)
        for hook in hooks:
            hook.remove()
    n_linear = sum(hasattr(layer, "linear_attn") for layer in text.layers)
    n_layers = len(text.layers)
    assert len(taps) == 2 + 9 * n_layers + 11 * n_linear + 7 * (n_layers - n_linear), sorted(taps)
    return taps | {"rows": np.array(TAP_ROWS, dtype=np.float32)}


def folder_bytes(folder):
    return sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    os.makedirs(options.out, exist_ok=True)

    figures = {}
    for letter in options.cases.split(","):
        case = CASES[letter]
        for seed in (
            SMALL_SEEDS[letter] if options.small else [int(s) for s in options.seeds.split(",")]
        ):
            folder = os.path.join(options.out, f"{letter}-s{seed}")
            rng = np.random.default_rng([seed, ord(letter)])
            written = write_checkpoint(case, folder, rng)
            oracle = load_oracle(case, folder)
            check_loaded(case, written, oracle)
            tokens, alone, found = draw_prompt(
                oracle, SpecModel(folder), case["text"]["vocab_size"], rng
            )
            rows = np.array(ROWS if options.small else range(N_TOKENS), dtype=np.int32)
            np.save(os.path.join(folder, "tokens.npy"), tokens)
            np.save(os.path.join(folder, "rows.npy"), rows)
            np.save(os.path.join(folder, "logits.npy"), alone[N_TOKENS][rows])
            if not options.small:
                for T, logits in alone.items():
                    np.save(os.path.join(folder, f"logits-{T}.npy"), logits)
            if options.small and (letter, seed) == ("a", 0):
                taps = os.path.join(options.out, "taps-a.safetensors")
                save_numpy(record_taps(oracle, tokens[:TAP_TOKENS]), taps)
                os.chmod(taps, 0o644)
            figures[f"{letter}-s{seed}"] = dict(about=case["about"], **found)
            print(
                f"{letter}-s{seed}: {folder_bytes(folder)} bytes, "
                + ", ".join(f"{name} {value:.3g}" for name, value in found.items()),
                flush=True,
            )

    manifest = dict(
        made_by="tests/reference/make_checkpoints.py" + (" --small" if options.small else ""),
        versions=dict(
            python=platform.python_version(),
            torch=torch.__version__,
            numpy=np.__version__,
            transformers=transformers.__version__,
            safetensors=safetensors.__version__,
        ),
        checkpoints=figures,
    )
    with open(os.path.join(options.out, "manifest.json"), "w") as f:
        json.dump(manifest, f, indent=1, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    sys.exit(main())
