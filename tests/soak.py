#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Decodes for a long time and watches memory, descriptors, threads and sound.

First one utterance without an end, as fast as it goes: the same latents again
and again, which must sound the same again and again, since attention sees a
window and angles of any age must be right. Then utterances that are cut short,
each in a pipeline of its own. Neither may make the process grow."""

import argparse
import os
import pathlib
import sys
import time

import gi
gi.require_version('Gst', '1.0')
from gi.repository import Gst  # noqa: E402
import numpy as np  # noqa: E402

CAPS = 'audio/x-mimi-latent,rate=24000,channels=1,dims=32'
DEMO = pathlib.Path(__file__).resolve().parents[1] / 'pipelines/demo'
ROW = 128  # bytes a frame
# The allocators of glibc and GLib keep some for later.
SLACK = 1 << 20  # bytes
# Of one repetition to another. The float32 of the state has 2^-24 of noise.
SAME = 80  # dB


def usage():
    """Resident bytes that are not a file's, descriptors, threads."""
    status = pathlib.Path('/proc/self/status').read_text()
    fields = dict(line.split(':', 1) for line in status.splitlines())
    return (int(fields['RssAnon'].split()[0]) * 1024,
            len(os.listdir('/proc/self/fd')), int(fields['Threads']))


class Decoder:
    """latents in, samples out, no faster than samples are taken."""

    def __init__(self, model):
        self.pipeline = Gst.parse_launch(
            'appsrc name=source format=time block=true max-bytes=65536 '
            'caps="%s" ! mimidec name=decoder fade-in=0 '
            '! audio/x-raw,format=F32LE '
            '! appsink name=sink sync=false max-buffers=4' % CAPS)
        self.decoder = self.pipeline.get_by_name('decoder')
        self.decoder.set_property('model', model)
        self.source = self.pipeline.get_by_name('source')
        self.sink = self.pipeline.get_by_name('sink')
        if self.pipeline.set_state(Gst.State.PLAYING) == \
                Gst.StateChangeReturn.FAILURE:
            sys.exit('soak.py: the pipeline does not start')

    def decode(self, latents):
        self.source.emit('push-buffer', Gst.Buffer.new_wrapped(latents))
        parts, left = [], len(latents) // ROW * 1920 * 4
        while left > 0:
            sample = self.sink.emit('try-pull-sample', 10 * Gst.SECOND)
            if sample is None:
                sys.exit('soak.py: no samples for 10 s')
            buffer = sample.get_buffer()
            parts.append(buffer.extract_dup(0, buffer.get_size()))
            left -= len(parts[-1])
        return np.frombuffer(b''.join(parts), '<f4').astype(float)

    def close(self):
        self.pipeline.set_state(Gst.State.NULL)


class Watch:
    """Notes what the process uses after a first while, and how much more later."""

    def __init__(self):
        self.first = None
        self.most = (0, 0, 0)

    def settle(self):
        self.first = usage()

    def look(self):
        if self.first:
            self.most = tuple(map(max, self.most, usage()))

    def report(self, what):
        grown = [most - first for most, first in zip(self.most, self.first)]
        print('%s: grew by %d kB from %d kB, by %d descriptors, %d threads' %
              (what, grown[0] // 1024, self.first[0] // 1024, *grown[1:]))
        return grown[0] <= SLACK and grown[1] <= 0 and grown[2] <= 0


def one_utterance(model, latents, seconds):
    decoder, watch = Decoder(model), Watch()
    decoder.decode(latents)
    reference = decoder.decode(latents)  # the first that has a past
    worst, rounds, begin = np.inf, 2, time.monotonic()
    while (elapsed := time.monotonic() - begin) < seconds:
        noise = np.sum((decoder.decode(latents) - reference) ** 2)
        worst = min(worst, 10 * np.log10(np.sum(reference ** 2)
                                         / max(noise, 1e-30)))
        rounds += 1
        if elapsed > seconds / 4 and not watch.first:
            watch.settle()
        watch.look()
    stats = decoder.decoder.get_property('stats')
    decoder.close()
    frames = rounds * (len(latents) // ROW)
    counted = stats.get_uint64('frames')[1]
    print('%.1f hours of speech in %.0f s; repetitions alike to %.1f dB' %
          (frames * 0.08 / 3600, elapsed, worst))
    if counted != frames:
        print('%d frames went in, stats count %d' % (frames, counted))
    return watch.report('one utterance') and worst > SAME \
        and counted == frames


def many_pipelines(model, latents, seconds):
    watch, rounds, begin = Watch(), 0, time.monotonic()
    while (elapsed := time.monotonic() - begin) < seconds:
        decoder = Decoder(model)
        decoder.decode(latents[:ROW * (1 + rounds % 40)])
        decoder.close()
        rounds += 1
        if elapsed > seconds / 4 and not watch.first:
            watch.settle()
        watch.look()
    return watch.report('%d pipelines' % rounds)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seconds', type=float, default=10,
                        help='for each of the two; default: 10')
    parser.add_argument('--model', default=str(DEMO), help='a checkpoint that '
                        'takes normalised latents; default: pipelines/demo')
    options = parser.parse_args()
    Gst.init(None)
    latents = (DEMO / 'sentence-2.f32').read_bytes()
    passed = [one_utterance(options.model, latents, options.seconds),
              many_pipelines(options.model, latents, options.seconds)]
    sys.exit(not all(passed))


if __name__ == '__main__':
    main()
