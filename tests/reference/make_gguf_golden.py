#!/usr/bin/env python3
"""Makes tests/golden/gguf/dequant.gguf: blocks of every type that Forge decodes, filled with random
bytes and with extreme scales, beside the FP32 values that gguf-py decodes from them. Types with a
codebook count through all of its entries.

Needs: gguf, numpy.  Run: make_gguf_golden.py OUTPUT.gguf
"""
import sys

import gguf
import numpy as np

COLUMNS, ROWS, SEED = 256, 8, 20260101
# where the FP16 scales stand in a block
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0],
          "IQ3_S": [0], "IQ4_NL": [0], "IQ4_XS": [0]}
# entries, and how many a block uses
CODEBOOKS = {"IQ2_XXS": (256, 32), "IQ2_XS": (512, 32), "IQ2_S": (1024, 32), "IQ3_XXS": (256, 64), "IQ3_S": (512, 64)}
# +0, -0, least and greatest subnormal, least normal, greatest, -greatest, inf, -inf, NaN, 1, -1
EXTREME = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00, 0xBC00]


def counting_blocks(rng, name, size):
    """Blocks of ordinary scale whose index fields count 0, 1, 2, ... through the type's codebook."""
    entries, per_block = CODEBOOKS[name]
    n = np.arange(entries).reshape(-1, per_block)
    blocks = rng.integers(0, 256, (len(n), size), dtype=np.uint8)
    blocks[:, :2] = rng.normal(0, 0.05, len(n)).astype("<f2").view(np.uint8).reshape(-1, 2)
    if name == "IQ2_XXS":
        blocks[:, 2:66].reshape(-1, 8, 8)[:, :, :4] = n.reshape(-1, 8, 4)
    elif name == "IQ2_XS":
        signs = blocks[:, 2:66].copy().view("<u2") & 0xFE00
        blocks[:, 2:66] = (signs | n).astype("<u2").view(np.uint8)
    elif name == "IQ2_S":
        blocks[:, 2:34] = n % 256
        blocks[:, 66:74] = (n // 256).reshape(-1, 8, 4) @ [1, 4, 16, 64]
    else:
        blocks[:, 2:66] = n % 256
        if name == "IQ3_S":
            blocks[:, 66:74] = (n // 256).reshape(-1, 8, 8) @ [1 << i for i in range(8)]
    return blocks


def raw_rows(rng, qtype):
    weights, size = gguf.GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (ROWS * COLUMNS // weights, size), dtype=np.uint8)
    for at in SCALES.get(qtype.name, []):
        # a quarter of the blocks keep a random scale of ordinary size, the others get an extreme one
        scales = rng.normal(0, 0.05, len(blocks)).astype(np.float16).view(np.uint16)
        picks = rng.permutation(len(blocks))[: len(blocks) * 3 // 4]
        scales[picks] = np.resize(np.roll(EXTREME, at), len(picks))
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    if qtype.name in CODEBOOKS:
        blocks = np.concatenate([blocks, counting_blocks(rng, qtype.name, size)])
    return blocks.reshape(-1, COLUMNS // weights * size)


def main():
    rng = np.random.default_rng(SEED)
    out = gguf.GGUFWriter(sys.argv[1], "none")
    out.add_uint32("golden.columns", COLUMNS)
    names = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K"]
    names += sorted(set(SCALES) - set(names))
    for name in names:
        qtype = gguf.GGMLQuantizationType[name]
        rows = raw_rows(rng, qtype)
        with np.errstate(all="ignore"):
            values = gguf.quants.dequantize(rows, qtype).astype(np.float32).reshape(-1, COLUMNS)
        out.add_tensor(name, rows, raw_shape=rows.shape, raw_dtype=qtype)
        out.add_tensor(name + ".expected", values)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


main()
