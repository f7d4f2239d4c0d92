#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Speech from files of codes, as Mimi's tokenizers and the scripts of Moshi,
CSM and Kyutai TTS save them.

Each file, a .npy or a .safetensors of integers, is an utterance: the codes of
[1, codebooks, frames], [codebooks, frames] or [frames, codebooks]. Files may
have different numbers of codebooks: the decoder finishes what it has, and
starts afresh. A row that holds -1 (no token yet) gives no sound."""

import argparse
import io
import json
import math
import os
import pathlib
import struct
import sys

import numpy as np

EPILOG = """examples:
  codes.py --model model.safetensors --out speech.wav codes.npy
  codes.py --model mimi --drop 1 moshi.npy       # its first stream is text
  codes.py --rows codes.npy | pipelines/opus.sh --model mimi \\
      --caps audio/x-mimi,rate=24000,channels=1,codebooks=8 speech.opus
"""
BUILT = pathlib.Path(__file__).resolve().parents[1] / 'build/gst'
MOST = 32  # codebooks of Mimi
NONE = 65535  # no token yet, in 16 bit
DTYPES = {'I64': '<i8', 'I32': '<i4', 'I16': '<i2', 'I8': 'i1',
          'U64': '<u8', 'U32': '<u4', 'U16': '<u2', 'U8': 'u1'}
ROWS = 16  # a buffer


class NoCodes(Exception):
    """Why a file cannot be spoken."""


def read_safetensors(data, name):
    """The tensor `name`, else the only one of integers."""
    size = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + size])
    tensors = {key: value for key, value in header.items()
               if key != '__metadata__'}
    listed = ', '.join('%s %s %s' % (key, value['dtype'], value['shape'])
                       for key, value in list(tensors.items())[:20])
    if name is None:
        found = [key for key, value in tensors.items()
                 if value['dtype'] in DTYPES and len(value['shape']) > 1]
        if len(found) != 1:
            raise NoCodes('it has %d tensors that may be codes; name one '
                          'with --tensor. It holds: %s' %
                          (len(found), listed))
        name = found[0]
    if name not in tensors:
        raise NoCodes('it has no tensor %s. It holds: %s' % (name, listed))
    tensor = tensors[name]
    if tensor['dtype'] not in DTYPES:
        raise NoCodes('%s holds %s; codes are integers' %
                      (name, tensor['dtype']))
    dtype, shape = np.dtype(DTYPES[tensor['dtype']]), tensor['shape']
    begin, end = tensor['data_offsets']
    if end - begin != math.prod(shape) * dtype.itemsize or \
            not 0 <= begin <= end <= len(data) - 8 - size:
        raise NoCodes('%s does not fit in the file, is it damaged?' % name)
    return np.frombuffer(data, dtype, math.prod(shape),
                         8 + size + begin).reshape(shape)


def read_array(path, name):
    """What a file holds; its content says of which kind it is."""
    data = pathlib.Path(path).read_bytes()
    if data[:6] == b'\x93NUMPY':
        kind = '.npy'
    elif data[8:9] == b'{':
        kind = '.safetensors'
    else:
        raise NoCodes('neither a .npy nor a .safetensors file. Save codes with '
                      "numpy.save('codes.npy', codes.cpu().numpy())")
    try:
        if kind == '.npy':
            return np.load(io.BytesIO(data), allow_pickle=False)
        return read_safetensors(data, name)
    except NoCodes:
        raise
    except Exception as error:  # whatever a damaged file makes of a reader
        raise NoCodes('cannot be read as a %s file, is it damaged? (%s)' %
                      (kind, str(error) or type(error).__name__))


def to_rows(array, order):
    """[frames, codebooks] of 16 bit, whatever `array` is."""
    shape = list(array.shape)
    if array.dtype.kind not in 'iu':
        raise NoCodes('it holds %s of shape %s; codes are integers (latents '
                      'are for speak.sh)' % (array.dtype, shape))
    if array.ndim == 3 and shape[0] == 1:
        array = array[0]
        if order == 'auto' and array.shape[0] <= MOST:
            order = 'codebooks-first'  # as tokenizers give a batch of one
    if array.ndim != 2 or 0 in shape:
        raise NoCodes('its shape is %s; [codebooks, frames], [1, codebooks, '
                      'frames] or [frames, codebooks] is expected' % shape)
    if order == 'auto':
        few = [n <= MOST for n in array.shape]
        if all(few):
            raise NoCodes(
                'its shape %s may be [codebooks, frames] or [frames, '
                'codebooks]; say --order codebooks-first or --order '
                'frames-first' % shape)
        order = 'codebooks-first' if few[0] else 'frames-first'
    rows = array.T if order == 'codebooks-first' else array
    if rows.shape[1] > MOST:
        raise NoCodes('its shape is %s, which is %d codebooks; Mimi has at '
                      'most %d' % (shape, rows.shape[1], MOST))
    return rows


def check_range(rows):
    """As U16LE; -1 becomes what it is there."""
    limit = NONE if rows.dtype == np.uint16 else NONE - 1
    bad = np.argwhere((rows > limit) | (rows < -1 if rows.dtype.kind == 'i'
                                        else False))
    if len(bad):
        frame, book = bad[0]
        raise NoCodes('frame %d has %d in stream %d; codes are 0 or more, '
                      'and -1 is no token' % (frame, rows[frame, book], book))
    return np.ascontiguousarray(rows.astype('<u2'))


def read_codes(path, options):
    try:
        rows = to_rows(read_array(path, options.tensor), options.order)
        if options.drop >= rows.shape[1]:
            raise NoCodes('it has %d streams, and --drop leaves out %d' %
                          (rows.shape[1], options.drop))
        return check_range(rows[:, options.drop:])
    except OSError as error:
        sys.exit('codes.py: %s' % error)
    except NoCodes as error:
        sys.exit('codes.py: %s: %s' % (path, error))


def caps_of(rows):
    return 'audio/x-mimi,rate=24000,channels=1,codebooks=%d' % rows.shape[1]


def play(utterances, model, out):
    """Decodes, to a WAV file or to the speaker."""
    try:
        import gi
        gi.require_version('Gst', '1.0')
        from gi.repository import GLib, Gst
    except (ImportError, ValueError) as error:
        sys.exit('codes.py: %s. Install python3-gi and gir1.2-gstreamer-1.0, '
                 'and run it with the Python that has them (/usr/bin/python3 '
                 'on Debian)' % error)
    os.environ.setdefault('GST_PLUGIN_PATH', str(BUILT))
    Gst.init(None)
    try:
        # In a file a code out of range is a mistake, not a loss on the way.
        pipeline = Gst.parse_launch(
            'appsrc name=source ! mimidec name=decoder max-errors=0 ! ' +
            ('wavenc ! filesink name=sink' if out else
             'audioconvert ! audioresample ! autoaudiosink'))
    except GLib.Error as error:
        sys.exit('codes.py: %s. Build mimidec and say in GST_PLUGIN_PATH where '
                 'it is; now that is %s' %
                 (error.message, os.environ['GST_PLUGIN_PATH']))
    source = pipeline.get_by_name('source')
    if model:
        pipeline.get_by_name('decoder').set_property('model', model)
    if out:
        # What was there before stays, should this come to nothing.
        part = out + '.part' if os.path.isfile(out) else out
        pipeline.get_by_name('sink').set_property('location', part)
    for rows in utterances:
        source.set_property('caps', Gst.Caps.from_string(caps_of(rows)))
        for at in range(0, len(rows), ROWS):
            buffer = Gst.Buffer.new_wrapped(rows[at:at + ROWS].tobytes())
            if at == 0:  # the same number of codebooks is no new caps
                buffer.set_flags(Gst.BufferFlags.DISCONT)
            source.emit('push-buffer', buffer)
    source.emit('end-of-stream')

    pipeline.set_state(Gst.State.PLAYING)
    failure = None
    while True:
        message = pipeline.get_bus().timed_pop_filtered(
            Gst.CLOCK_TIME_NONE, Gst.MessageType.EOS | Gst.MessageType.ERROR
            | Gst.MessageType.WARNING)
        if message.type == Gst.MessageType.WARNING:
            print(message.parse_warning()[0].message, file=sys.stderr)
            continue
        if message.type == Gst.MessageType.ERROR:
            failure = message.parse_error()[0].message
        break
    pipeline.set_state(Gst.State.NULL)
    if failure:
        if out and os.path.isfile(part):
            os.remove(part)
        sys.exit('codes.py: %s' % failure)
    if out and part != out:
        os.replace(part, out)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('codes', nargs='+', help='an utterance each')
    parser.add_argument('--model', help='the checkpoint, or the folder that '
                        'holds it; default: $MIMIDEC_MODEL')
    parser.add_argument('--out', metavar='WAV', help='write a WAV file instead '
                        'of playing')
    parser.add_argument('--rows', action='store_true',
                        help='do not decode: write rows of U16LE to stdout, '
                        'and their caps to stderr')
    parser.add_argument('--tensor', metavar='NAME', help='which tensor of a '
                        'safetensors file; default: the only one of integers')
    parser.add_argument('--order', default='auto',
                        choices=('auto', 'codebooks-first', 'frames-first'),
                        help='which dimension comes first; default: more than '
                        '%d are frames' % MOST)
    parser.add_argument('--drop', type=int, default=0, metavar='N',
                        help='leave out the first N streams, which are no '
                        'codebooks: Moshi and Kyutai TTS have text there')
    options = parser.parse_args()
    if options.drop < 0:
        parser.error('--drop cannot be negative')
    if options.rows and sys.stdout.isatty():
        parser.error('rows are not for a terminal: pipe them into something')
    return options


def main():
    options = parse_arguments()
    utterances = [read_codes(path, options) for path in options.codes]
    if not options.rows:
        return play(utterances, options.model, options.out)
    if len({rows.shape[1] for rows in utterances}) > 1:
        sys.exit('codes.py: these files have different numbers of codebooks: '
                 'write the rows of one after the other')
    print(caps_of(utterances[0]), file=sys.stderr)
    for rows in utterances:
        sys.stdout.buffer.write(rows.tobytes())


if __name__ == '__main__':
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # the decoder has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
