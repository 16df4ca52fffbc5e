#!/usr/bin/env python3
"""llama.cpp's quants of a model, with an importance matrix from given rows: what Forge's quality is compared with.

Usage: peers.py --gguf BF16.gguf --model DIR --rows rows.safetensors --out DIR [--types Q3_K_M,IQ3_XXS:IQ4_NL,...] [--count N]
                [--threads 1]

--gguf   the unquantized model; --model: a checkpoint directory of it (`forge import`), of which config.json is read
--rows   token ids (src/format/rows.h); the importance matrix is the mean square of every column of every matrix's input over
         exactly these positions, from an FP32 run of the GGUF's weights. llama-imatrix computes the same from text, but not
         for a head that is tied to the embedding
--types  names of llama.cpp's file types; TYPE:EMBED gives the embedding (and tied head) the tensor type EMBED, which
         llama.cpp keeps in Q8_0 where its rows are no multiple of 256; the file is TYPE-EMBED.gguf

Writes OUT/imatrix.gguf (which llama-quantize --imatrix reads), OUT/TYPE.gguf, OUT/TYPE.log (what the quantizer said, rows that
fell back to another type among it) and OUT/peers.json; prints the table. Needs llama-cpp-python, gguf, torch, transformers,
safetensors. A matrix whose width is no multiple of 256 falls back to a type of 32 (IQ3_XXS to IQ4_NL, Q3_K to Q4_0).
"""
import argparse
import ctypes
import json
import os
import sys

import gguf
import numpy as np
import torch

from reference import INPUTS, listen, load_model, read_rows, run_rows, sha256

TYPES = ("IQ2_XXS:IQ4_NL,IQ3_XXS:IQ4_NL,IQ4_XS:IQ4_NL,IQ2_XXS,IQ2_XS,IQ2_S,IQ2_M,Q2_K,IQ3_XXS,IQ3_XS,IQ3_S,IQ3_M,Q3_K_S,Q3_K_M,"
         "Q3_K_L,IQ4_XS,IQ4_NL,Q4_0,Q4_K_S,Q4_K_M,Q5_K_M,Q6_K,Q8_0")
BATCH = 4


def column_energies(a):
    """Sums of squares per column, FP64, by GGUF name; and how many positions they are of."""
    ids, mask = read_rows(a.rows, a.count)
    model = load_model(a.gguf, a.model)
    sums, now = {}, {}

    def take(layer, module, x):
        x = x[now["mask"]].double()
        key = (layer, module)
        sums[key] = sums.get(key, 0) + (x * x).sum(0)

    listen(model, take)
    model.model.norm.register_forward_hook(lambda _, inputs, x: take(None, "head", x.reshape(-1, x.shape[-1])))
    for now["mask"] in run_rows(model, ids, mask, BATCH, "importance"):
        pass
    head = "token_embd.weight" if model.config.tie_word_embeddings else "output.weight"
    named = {head: sums.pop((None, "head"))}
    named.update({f"blk.{layer}.{name}.weight": s for (layer, module), s in sums.items() for name in INPUTS[module]})
    return {name: s.numpy() for name, s in named.items()}, int(mask.sum()), ids.shape


def make_imatrix(a, path, facts):
    if os.path.exists(path):
        fields = gguf.GGUFReader(path).fields
        if all(k in fields and fields[k].contents() == v for k, v in facts.items()):
            return
    sums, n, shape = column_energies(a)
    out = gguf.GGUFWriter(path + ".tmp", "imatrix")
    out.add_type("imatrix")
    out.add_array("imatrix.datasets", [os.path.basename(a.rows)])
    out.add_uint32("imatrix.chunk_count", shape[0])
    out.add_uint32("imatrix.chunk_size", shape[1])
    for key, value in facts.items():
        out.add_string(key, value)
    for name, s in sorted(sums.items()):
        out.add_tensor(name + ".in_sum2", s.astype(np.float32).reshape(1, -1))
        out.add_tensor(name + ".counts", np.full((1, 1), n, np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    os.replace(path + ".tmp", path)


def read_imatrix(path):
    tensors = {t.name: t.data for t in gguf.GGUFReader(path).tensors}
    sums = {k[: -len(".in_sum2")]: v for k, v in tensors.items() if k.endswith(".in_sum2")}
    return {k: np.ascontiguousarray(v.reshape(-1) / tensors[k + ".counts"].reshape(-1)[0], np.float32) for k, v in sums.items()}


def quantize(lib, a, kind, imatrix, target):
    """One file; what the quantizer logs goes beside it."""
    file_type, _, embed = kind.partition(":")
    params = lib.llama_model_quantize_default_params()
    params.nthread = a.threads
    params.ftype = getattr(lib, "LLAMA_FTYPE_MOSTLY_" + file_type)
    if embed:
        params.output_tensor_type = params.token_embedding_type = int(gguf.GGMLQuantizationType[embed])
    entries = (lib.llama_model_imatrix_data * (len(imatrix) + 1))()  # the last one, all zero, ends the list
    for entry, (name, values) in zip(entries, imatrix.items()):
        entry.name = name.encode()
        entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        entry.size = values.size
    params.imatrix = entries
    with open(target + ".log", "w", encoding="utf-8") as log:
        said = lib.llama_log_callback(lambda level, text, ctx: log.write(text.decode("utf-8", "replace")) and None)
        lib.llama_log_set(said, None)
        rc = lib.llama_model_quantize(a.gguf.encode(), (target + ".tmp").encode(), ctypes.byref(params))
        lib.llama_log_set(ctypes.cast(None, lib.llama_log_callback), None)
    if rc:
        sys.exit(f"{kind}: the quantizer failed, see {target}.log")
    os.replace(target + ".tmp", target + ".gguf")


def measure(path):
    """Real bytes of a file, of its tensors by type, and of the embedding."""
    types, weights, total, embed = {}, 0, 0, 0
    for t in gguf.GGUFReader(path).tensors:
        count = types.setdefault(t.tensor_type.name, [0, 0])
        count[0] += 1
        count[1] += int(t.n_bytes)
        total += int(t.n_bytes)
        weights += int(np.prod(t.shape))
        embed += int(t.n_bytes) if t.name in ("token_embd.weight", "output.weight") else 0
    return {"file": os.path.basename(path), "sha256": sha256(path), "file_bytes": os.path.getsize(path), "tensor_bytes": total,
            "embedding_bytes": embed, "weights": weights, "bits_per_weight": 8 * total / weights,
            "types": {k: {"tensors": n, "bytes": b} for k, (n, b) in sorted(types.items())}}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gguf", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--rows", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--types", default=TYPES)
    p.add_argument("--count", type=int, default=0, help="rows that are used; 0: all")
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    os.makedirs(a.out, exist_ok=True)
    import llama_cpp as lib

    facts = {"forge.source_sha256": sha256(a.gguf), "forge.rows_sha256": sha256(a.rows), "forge.rows_count": str(a.count)}
    imatrix_path, report_path = os.path.join(a.out, "imatrix.gguf"), os.path.join(a.out, "peers.json")
    make_imatrix(a, imatrix_path, facts)
    imatrix = read_imatrix(imatrix_path)
    report = {"schema": "forge.peers/1", **facts, "quantizer": f"llama-cpp-python {lib.__version__}", "files": {}}
    if os.path.exists(report_path):
        with open(report_path, encoding="utf-8") as f:
            before = json.load(f)
        if all(before.get(k) == v for k, v in report.items() if k != "files"):
            report["files"] = before["files"]
    for kind in a.types.split(","):
        name = kind.replace(":", "-")
        target = os.path.join(a.out, name)
        quantize(lib, a, kind, imatrix, target)
        report["files"][name] = {"type": kind, **measure(target + ".gguf")}
        with open(report_path + ".tmp", "w", encoding="utf-8") as f:
            json.dump(report, f, indent=1)
            f.write("\n")
        os.replace(report_path + ".tmp", report_path)
    print("| type | bytes | bytes of tensors | of the embedding | bits per weight | tensors |\n| --- | ---: | ---: | ---: | ---: | --- |")
    for name, m in sorted(report["files"].items(), key=lambda item: item[1]["tensor_bytes"]):
        types = ", ".join(f"{v['tensors']} {k}" for k, v in m["types"].items())
        print(f"| {name} | {m['file_bytes']} | {m['tensor_bytes']} | {m['embedding_bytes']} | {m['bits_per_weight']:.3f} | {types} |")


if __name__ == "__main__":
    main()
