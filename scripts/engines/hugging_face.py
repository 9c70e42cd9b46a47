"""Writes a GGUF model as a Hugging Face folder, which vLLM and SGLang want.

usage: hugging_face.py MODEL.gguf FOLDER
"""

import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    gguf, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # The weights are plain numbers now; the folder must not say that they are quantised.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    partial = folder.with_name(folder.name + ".partial")
    model.save_pretrained(partial)
    AutoTokenizer.from_pretrained(**source).save_pretrained(partial)
    partial.rename(folder)


main()
