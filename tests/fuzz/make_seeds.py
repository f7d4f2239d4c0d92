#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes tests/fuzz/seeds/: the smallest checkpoints of every layout, and configurations.

    make_seeds.py

SPDX-License-Identifier: LGPL-2.1-or-later
The checkpoints are what tests/reference/make_checkpoint.py writes for a network of width 4; run this
again when a layout is added.
"""
import os, sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "reference"))
import make_checkpoint as mc

common = dict(dim=4, layers=1, heads=1, window=250, ffn=4, kernel=3, filters=2, gelu="erf")
mc.MODELS["mini"] = dict(common, latent=4, ratios=(6, 5, 4), up=16, books=0)
mc.MODELS["minifull"] = dict(common, latent=0, ratios=(8, 6, 5, 4), up=2, books=2, bins=4, book_dim=2)

YAML = """# as pocket-tts has it
flow_lm:
  transformer: {d_model: 1024, num_heads: 16}
mimi:
  sample_rate: 24000
  seanet:
    n_filters: 8
    ratios:
    - 6
    - 5
    - 4
    kernel_size: 7
  transformer: {d_model: 64, num_heads: 2, num_layers: 2, context: 50, dim_feedforward: 256}
  quantizer: {dimension: 32}
"""


def main():
    models = os.path.join(here, "seeds", "model")
    configs = os.path.join(here, "seeds", "config")
    os.makedirs(models, exist_ok=True)
    os.makedirs(configs, exist_ok=True)
    for model, layouts in (("mini", ("pocket", "phonon", "hfpocket", "rawnorm")),
                           ("minifull", ("moshi", "hf", "csm"))):
        for i, layout in enumerate(layouts):
            tensors = mc.layout(model, layout, mc.canonical(model, 1))
            path = os.path.join(models, f"{model}-{layout}")
            mc.write_safetensors(path, tensors, ("F32", "F16", "BF16")[i % 3])
    with open(os.path.join(configs, "pocket.yaml"), "w") as f:
        f.write(YAML)
    for model in ("tiny", "full"):
        with open(os.path.join(configs, model + ".json"), "w") as f:
            mc.json.dump(mc.config(model), f)
    with open(os.path.join(configs, "csm.json"), "w") as f:
        mc.json.dump({"model_type": "csm", "hidden_size": 2048, "codec_config": mc.config("tinyfull")}, f)


if __name__ == "__main__":
    main()
