#!/usr/bin/env python3
"""Makes tests/golden/gguf/dequant.gguf: blocks of every type that Forge decodes, filled with random
bytes and with extreme scales, beside the FP32 values that gguf-py decodes from them.

Needs: gguf, numpy.  Run: make_gguf_golden.py OUTPUT.gguf
"""
import sys

import gguf
import numpy as np

COLUMNS, ROWS, SEED = 256, 8, 20260101
# where the FP16 scales stand in a block
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q6_K": [208]}
# +0, -0, least and greatest subnormal, least normal, greatest, -greatest, inf, -inf, NaN, 1, -1
EXTREME = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00, 0xBC00]


def raw_rows(rng, qtype):
    weights, size = gguf.GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (ROWS * COLUMNS // weights, size), dtype=np.uint8)
    for at in SCALES.get(qtype.name, []):
        # a quarter of the blocks keep a random scale of ordinary size, the others get an extreme one
        scales = rng.normal(0, 0.05, len(blocks)).astype(np.float16).view(np.uint16)
        picks = rng.permutation(len(blocks))[: len(blocks) * 3 // 4]
        scales[picks] = np.resize(np.roll(EXTREME, at), len(picks))
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def main():
    rng = np.random.default_rng(SEED)
    out = gguf.GGUFWriter(sys.argv[1], "none")
    out.add_uint32("golden.columns", COLUMNS)
    for name in ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q4_K", "Q6_K"]:
        qtype = gguf.GGMLQuantizationType[name]
        rows = raw_rows(rng, qtype)
        with np.errstate(all="ignore"):
            values = gguf.quants.dequantize(rows, qtype).astype(np.float32).reshape(ROWS, COLUMNS)
        out.add_tensor(name, rows, raw_shape=rows.shape, raw_dtype=qtype)
        out.add_tensor(name + ".expected", values)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


main()
