#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Makes the checkpoints that the element's tests decode with, each in a folder
with its configuration: checkpoints.py MAKE_CHECKPOINT STAMP."""

import pathlib
import subprocess
import sys

make_checkpoint, stamp = sys.argv[1], pathlib.Path(sys.argv[2])
for model, layout in (('tiny', 'pocket'), ('tiny', 'hfpocket'),
                      ('pocket', 'pocket'), ('pocket2m', 'pocket'),
                      ('tinyfull', 'moshi')):
    folder = stamp.parent / 'checkpoints' / (model + '-' + layout)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, make_checkpoint, model, layout,
                    str(folder / 'model.safetensors'), '--seed', '1',
                    '--config'], check=True)
    if layout == 'hfpocket':  # the golden that transformers made: exact GELU
        config = folder / 'config.json'
        config.write_text(
            config.read_text().replace('gelu_pytorch_tanh', 'gelu'))
stamp.touch()
