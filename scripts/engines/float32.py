"""Writes a quantised GGUF model with the same weights as 32-bit numbers, so that what engines say can
be compared without the rounding of quantised arithmetic.

usage: float32.py MODEL.gguf OUT.gguf
"""

import os
import sys

import gguf

# Written by the writer itself, or about the quantisation that is gone.
OWN = {"general.architecture", "general.file_type", "general.quantization_version"}


def main():
    source, out = sys.argv[1], sys.argv[2]
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(out + ".partial", architecture)
    for name, field in reader.fields.items():
        if name in OWN or name.startswith("GGUF."):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, inner)
    for tensor in reader.tensors:
        weights = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.add_tensor(tensor.name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.rename(out + ".partial", out)


main()
