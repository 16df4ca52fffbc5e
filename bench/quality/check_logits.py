#!/usr/bin/env python3
"""`forge eval logits` of GGUF files against PyTorch with the same files' weights as gguf-py dequantizes them.

Usage: check_logits.py --forge build/forge --model DIR --rows rows.safetensors [--tokens 256] [--llama] FILE.gguf ...

--model: a checkpoint directory of the unquantized model, of which config.json is read. --tokens: of the first row. Prints the
relative L2 error over all logits, the worst row's, and how many best tokens agree; exit code 1 when a row's is above 1e-4.
--llama adds the distance of llama.cpp's own logits (llama-cpp-python), which rounds activations to eight bits.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch

from reference import load_model, read_rows

WORST = 1e-4


def forge_logits(a, path, ids, tmp):
    tokens, out = os.path.join(tmp, "ids.npy"), os.path.join(tmp, "logits.npy")
    np.save(tokens, ids.astype(np.int32))
    subprocess.run([a.forge, "eval", "logits", "-q", "--model", path, "--tokens", tokens, "--out", out, "--numerics", "exact",
                    "--kv-cache-dtype", "f32", "--threads", str(a.threads)], check=True,
                   env=dict(os.environ, FORGE_STATE=tmp))
    return np.load(out)


def torch_logits(a, path, ids):
    model = load_model(path, a.model, attention="eager")
    with torch.inference_mode():
        return model(torch.from_numpy(ids[None])).logits[0].numpy()


def llama_logits(path, ids, threads):
    import llama_cpp as lib

    n = len(ids)
    options = lib.llama_model_default_params()
    options.use_extra_bufts = False  # weights stay as the file has them, not repacked for one CPU
    model = lib.llama_model_load_from_file(path.encode(), options)
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = n
    params.n_threads = params.n_threads_batch = threads
    params.type_k = params.type_v = int(gguf.GGMLQuantizationType.F32)
    context = lib.llama_init_from_model(model, params)
    batch = lib.llama_batch_init(n, 0, 1)
    batch.n_tokens = n
    for i, token in enumerate(ids):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = int(token), i, 1, 0, 1
    if lib.llama_decode(context, batch):
        sys.exit(f"{path}: llama.cpp does not run it")
    vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    logits = np.ctypeslib.as_array(lib.llama_get_logits(context), (n, vocab)).copy()
    lib.llama_batch_free(batch)
    lib.llama_free(context)
    lib.llama_model_free(model)
    return logits


def distance(got, want):
    got, want = got.astype(np.float64), want.astype(np.float64)
    rows = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    return np.linalg.norm(got - want) / np.linalg.norm(want), rows.max(), int((got.argmax(1) == want.argmax(1)).sum())


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--forge", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--rows", required=True)
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--llama", action="store_true")
    p.add_argument("files", nargs="+")
    a = p.parse_args()
    if a.llama:
        import llama_cpp

        quiet = llama_cpp.llama_log_callback(lambda level, text, ctx: None)
        llama_cpp.llama_log_set(quiet, None)
    torch.set_num_threads(a.threads)
    ids = read_rows(a.rows, 1)[0][0][: a.tokens]
    failed = False
    print("| file | relative L2 | worst row | same best token |" + (" llama.cpp: relative L2 | same best token |" if a.llama else ""))
    print("| --- | ---: | ---: | ---: |" + (" ---: | ---: |" if a.llama else ""))
    for path in a.files:
        with tempfile.TemporaryDirectory() as tmp:
            got = forge_logits(a, path, ids, tmp)
        want = torch_logits(a, path, ids)
        whole, row, same = distance(got, want)
        line = f"| {os.path.basename(path)} | {whole:.2e} | {row:.2e} | {same} of {len(ids)} |"
        if a.llama:
            theirs, _, agree = distance(llama_logits(path, ids, a.threads), want)
            line += f" {theirs:.2e} | {agree} of {len(ids)} |"
        print(line, flush=True)
        failed |= not row <= WORST  # of NaN too
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
