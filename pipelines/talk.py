#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""An application that talks and can be interrupted.

Each file of latents (32 float32 a frame) is an utterance. They are pushed into
a live pipeline frame by frame, as a language model would, and spoken one after
the other; a line on stdin, or the time named by --interrupt, cuts the one that
is being spoken short, and the next begins at once. Speaker is the part to take
over into an application of your own.

With --out, what would have been heard is written to a WAV file instead."""

import argparse
import os
import pathlib
import select
import sys
import time
import wave

try:
    import gi
    gi.require_version('Gst', '1.0')
    from gi.repository import Gst
except (ImportError, ValueError) as error:
    sys.exit('talk.py: %s. Install python3-gi and gir1.2-gstreamer-1.0, and '
             'run it with the Python that has them (/usr/bin/python3 on '
             'Debian)' % error)

FRAME = 80 * Gst.MSECOND
ROW = 128  # bytes: 32 float32
CAPS = 'audio/x-mimi-latent,rate=24000,channels=1,dims=32'
SPEAKER = 'audioconvert ! audioresample ! autoaudiosink'


class Speaker:
    """Speaks utterances on the clock of a live pipeline."""

    def __init__(self, model, sink=SPEAKER):
        self.pipeline = Gst.parse_launch(
            'appsrc name=source is-live=true format=time caps="%s" '
            '! mimidec name=decoder ! queue ! %s' % (CAPS, sink))
        self.source = self.pipeline.get_by_name('source')
        if model:
            self.pipeline.get_by_name('decoder').set_property('model', model)
        self.end = 0  # running time at which all that was pushed has been said
        # The model is open, or known to be bad, when this returns.
        if self.pipeline.set_state(Gst.State.PLAYING) == \
                Gst.StateChangeReturn.FAILURE:
            self.check()

    def now(self):
        """The pipeline's running time."""
        clock = self.pipeline.get_clock()
        if clock is None:
            return 0
        return clock.get_time() - self.pipeline.get_base_time()

    def say(self, rows):
        """Queues an utterance, behind what is still being said. Only its first
        frame is stamped and marked DISCONT: the decoder starts afresh there, and
        times the others itself, however unevenly they come."""
        first = True
        for row in rows:
            buffer = Gst.Buffer.new_wrapped(row)
            if first:
                self.end = max(self.end, self.now())
                buffer.pts = self.end
                buffer.set_flags(Gst.BufferFlags.DISCONT)
                first = False
            self.source.emit('push-buffer', buffer)
            self.end += FRAME

    def interrupt(self):
        """Drops what was pushed and not yet heard. The time goes on."""
        self.source.send_event(Gst.Event.new_flush_start())
        self.source.send_event(Gst.Event.new_flush_stop(False))
        self.end = 0

    def is_talking(self):
        return self.now() < self.end

    def check(self):
        """Raises what the pipeline has to complain about."""
        message = self.pipeline.get_bus().pop_filtered(
            Gst.MessageType.ERROR | Gst.MessageType.WARNING)
        if message is None:
            return
        if message.type == Gst.MessageType.WARNING:
            print(message.parse_warning()[0].message, file=sys.stderr)
        else:
            raise RuntimeError(message.parse_error()[0].message)

    def close(self):
        self.source.emit('end-of-stream')
        self.pipeline.get_bus().timed_pop_filtered(
            5 * Gst.SECOND, Gst.MessageType.EOS | Gst.MessageType.ERROR)
        self.pipeline.set_state(Gst.State.NULL)


def record(speaker, path):
    """Writes what arrives at the sink, when it would be heard."""
    wav = wave.open(path, 'wb')
    wav.setparams((1, 2, 24000, 0, 'NONE', None))

    def take(sink):
        buffer = sink.emit('pull-sample').get_buffer()
        wav.writeframes(buffer.extract_dup(0, buffer.get_size()))
        return Gst.FlowReturn.OK

    speaker.pipeline.get_by_name('sink').connect('new-sample', take)
    return wav


def read_rows(path):
    data = pathlib.Path(path).read_bytes()
    return [data[at:at + ROW] for at in range(0, len(data), ROW)]


def listen(speaker, seconds, interrupt):
    """Waits until all is said, or until it is time to interrupt."""
    begin = time.monotonic()
    inputs = [sys.stdin] if not sys.stdin.closed else []
    while speaker.is_talking():
        speaker.check()
        if select.select(inputs, [], [], 0.02)[0]:
            if sys.stdin.readline():
                return speaker.interrupt()
            inputs = []  # at its end
        if interrupt and time.monotonic() - begin >= seconds:
            return speaker.interrupt()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('latents', nargs='+', help='an utterance each')
    parser.add_argument('--model', help='the checkpoint, or the folder that '
                        'holds it; default: $MIMIDEC_MODEL, else the small one '
                        'of pipelines/demo')
    parser.add_argument('--interrupt', type=float, metavar='SECONDS',
                        help='interrupt the first utterance after so long')
    parser.add_argument('--out', metavar='WAV', help='write what is heard')
    options = parser.parse_args()

    Gst.init(None)
    utterances = [read_rows(path) for path in options.latents]
    if not options.model and not os.environ.get('MIMIDEC_MODEL'):
        options.model = str(pathlib.Path(__file__).resolve().parent / 'demo')
    speaker = Speaker(options.model,
                      'audio/x-raw,format=S16LE ! appsink name=sink '
                      'emit-signals=true sync=true' if options.out else SPEAKER)
    wav = record(speaker, options.out) if options.out else None
    for number, rows in enumerate(utterances):
        speaker.say(rows)
        listen(speaker, options.interrupt,
               options.interrupt is not None and number == 0)
    speaker.close()
    if wav:
        wav.close()


if __name__ == '__main__':
    try:
        main()
    except (RuntimeError, OSError) as error:
        sys.exit('talk.py: %s' % error)
