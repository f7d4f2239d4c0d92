#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Latents from Kyutai's Pocket TTS, for mimidec to decode.

Runs the language model of the Python package pocket-tts (pip install
pocket-tts) and writes each latent as it is made: 32 little-endian float32, the
normalised ones, for each 80 ms of speech. The package's own Mimi decoder never
runs. Upstream begins a new utterance, with a fresh decoder, for each piece of a
long text; with %d in the name of the output each gets a file of its own."""

import argparse
import logging
import os
import sys
import threading

EPILOG = """examples:
  latents.py 'Hello world.' --output hello.f32 --checkpoint hello.safetensors
  latents.py 'Hello world.' | MIMIDEC_MODEL=hello.safetensors pipelines/speak.sh
  latents.py --output 'line-%d.f32' <story.txt
"""


class Output:
    """Rows of latents to stdout, to a file, or to a file per utterance."""

    def __init__(self, name):
        self.name = name
        self.utterances = 0
        self.rows = 0
        self.file = sys.stdout.buffer if name == '-' else None

    def begin(self):
        self.utterances += 1
        if self.name == '-' or (self.file and '%d' not in self.name):
            return
        self.close()
        self.file = open(self.name.replace('%d', '%03d' % self.utterances), 'wb')

    def write(self, latent):
        import numpy
        row = numpy.asarray(latent.detach().cpu(), dtype='<f4').reshape(-1, 32)
        self.file.write(row.tobytes())
        self.file.flush()
        self.rows += len(row)

    def close(self):
        if self.file and self.name != '-':
            self.file.close()
            self.file = None


def tap(model, output):
    """Puts `output` in the place of the model's decoder: a thread that takes
    latents from a queue, None being the last."""

    def worker(latents, results, *sizes):
        try:
            output.begin()
            while (latent := latents.get()) is not None:
                output.write(latent)
                latents.task_done()
            results.put(('done', None))
        except Exception as error:  # to be raised in the caller's thread
            results.put(('error', error))

    if not hasattr(model, '_decode_audio_worker'):
        sys.exit('latents.py: this pocket-tts has no _decode_audio_worker to '
                 'take the place of; 4.0.1 has')
    model._decode_audio_worker = worker


def link_checkpoint(model, link):
    """Makes `link` point to the file that the model was loaded from."""
    from pocket_tts.utils.utils import download_if_necessary
    config = model.config
    source = (config.weights_path if model.has_voice_cloning
              else config.weights_path_without_voice_cloning)
    if config.mimi.weights_path or not source:
        sys.exit('latents.py: the decoder and the statistics of the latents '
                 'are not in one file; name them to mimidec yourself')
    path = os.path.abspath(download_if_necessary(source))
    if os.path.lexists(link):
        os.remove(link)
    os.symlink(path, link)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('text', nargs='?',
                        help='what to say; default: the lines of stdin')
    parser.add_argument('--output', default='-', metavar='FILE',
                        help='where to write; - is stdout, the default')
    parser.add_argument('--language', default='english',
                        help='a model of pocket-tts, as in `pocket-tts '
                             'generate --language`; default: english')
    parser.add_argument('--config', metavar='YAML',
                        help="a model's configuration, instead of --language")
    parser.add_argument('--voice', help='a voice of pocket-tts, or a WAV file; '
                        "default: the language's own")
    parser.add_argument('--checkpoint', metavar='LINK',
                        help='make this a link to the checkpoint that '
                             'decodes these latents')
    options = parser.parse_args()
    if options.output == '-' and sys.stdout.isatty():
        parser.error('latents are not for a terminal: name an --output, or '
                     'pipe them into speak.sh')
    return options


def main():
    options = parse_arguments()
    try:
        import pocket_tts
        from pocket_tts.default_parameters import get_default_voice_for_language
    except ImportError as error:
        sys.exit('latents.py: %s; install pocket-tts (pip install pocket-tts, '
                 'in a virtual environment)' % error)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)

    model = (pocket_tts.TTSModel.load_model(config=options.config)
             if options.config else
             pocket_tts.TTSModel.load_model(language=options.language))
    if options.checkpoint:
        link_checkpoint(model, options.checkpoint)
    voice = model.get_state_for_audio_prompt(
        options.voice
        or get_default_voice_for_language(options.language, options.config))

    output = Output(options.output)
    tap(model, output)
    for text in [options.text] if options.text else sys.stdin:
        if text.strip():
            for _ in model.generate_audio_stream(voice, text.strip()):
                pass
    output.close()
    # The package's thread that made the last latents may still be at work, and
    # PyTorch aborts when Python ends under it.
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(5)
    print('%d utterance(s), %.2f s of speech' %
          (output.utterances, output.rows * 0.08), file=sys.stderr)


if __name__ == '__main__':
    try:
        main()
    except BrokenPipeError:  # the decoder has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
