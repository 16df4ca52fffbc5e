#!/usr/bin/env python3
"""Rewrites a GGUF with its matrices as F16 or BF16, so that two programs can be timed on the same unquantized file.

Usage: make_gguf.py IN.gguf OUT.gguf f16|bf16        (needs the PyPI package gguf)
"""
import sys

import gguf
import numpy as np

# Written by GGUFWriter itself.
OWN_KEYS = {"GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type"}


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in ("f16", "bf16"):
        sys.exit(__doc__)
    source, target, dtype = sys.argv[1:]
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name in OWN_KEYS:
            continue
        kind = field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            writer.add_key_value(name, field.contents(), kind)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if dtype == "f16" else gguf.LlamaFileType.MOSTLY_BF16)
    for tensor in reader.tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if len(tensor.shape) == 1:
            writer.add_tensor(tensor.name, values)
        elif dtype == "f16":
            writer.add_tensor(tensor.name, values.astype(np.float16))
        else:
            bits = gguf.quantize(values, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(tensor.name, bits, raw_shape=bits.shape, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
