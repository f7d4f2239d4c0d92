#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the scripts of pipelines/ and the pipelines of the README as a user
would, and looks at what they wrote: test_pipelines.py CASE."""

import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

from audio import RATE, align, faded, read_wav, snr

TOP = pathlib.Path(__file__).resolve().parents[2]
PIPELINES = TOP / 'pipelines'
DEMO = PIPELINES / 'demo'
GOLDENS = TOP / 'tests/reference/goldens'
BUILD = os.environ['MIMIDEC_BUILD']
CODES = 'audio/x-mimi,rate=24000,channels=1,codebooks=8'
SCRIPTS = 'demo.sh', 'speak.sh', 'opus.sh', 'rtp.sh', 'kyutai.sh', 'latents.py', \
    'codes.py', 'talk.py'
# The demo's sentences were decoded in float64 and rounded to 16 bit, and so
# are ours: what may differ is a last bit now and then.
SAME = 90  # dB


def sentence(n):
    return (DEMO / ('sentence-%d.f32' % n)).read_bytes()


def spoken(n):
    """What sentence n should sound like."""
    return faded(read_wav(DEMO / ('sentence-%d.wav' % n)))


class PipelineCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='mimidec-'))
        self.addCleanup(shutil.rmtree, self.folder)
        # No sound card and no model but what the test names.
        self.env = {key: value for key, value in os.environ.items()
                    if key not in ('MIMIDEC_MODEL', 'PULSE_SERVER')}
        self.env['XDG_RUNTIME_DIR'] = str(self.folder)
        self.env['GST_PLUGIN_PATH'] = BUILD + '/gst'
        self.env['GST_REGISTRY'] = str(self.folder / 'registry.bin')

    def run_script(self, name, *arguments, **options):
        options.setdefault('stdin', None if 'input' in options
                           else subprocess.DEVNULL)
        # Python's scripts by the Python that runs the tests: it has numpy.
        python = [sys.executable] if name.endswith('.py') else []
        return subprocess.run(
            [*python, str(PIPELINES / name), *map(str, arguments)],
            cwd=self.folder, env=self.env, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=100, **options)

    def check_run(self, *arguments, **options):
        done = self.run_script(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done

    def make_codes_checkpoint(self):
        """A small network that takes codes, in the folder `mimi`."""
        folder = self.folder / 'mimi'
        folder.mkdir()
        subprocess.run(
            [sys.executable, str(TOP / 'tests/reference/make_checkpoint.py'),
             'tinyfull', 'hf', str(folder / 'model.safetensors'), '--seed', '1',
             '--config'], check=True)
        return folder

    def upstream(self, books, frames=170):
        """What upstream makes of the golden's codes, as in a WAV file."""
        golden = np.fromfile(GOLDENS / ('tinyfull-%d.pcm.f32' % books), '<f4')
        return faded(np.round(np.clip(golden, -1, 1) * 32767) / 32768)[
            :frames * 1920]

    def check_same(self, reference, path):
        """The same samples, but for a last bit now and then."""
        self.assertGreater(snr(reference, read_wav(path)), SAME)

    def check_alike(self, reference, path, slack):
        """The same speech, after a codec; at most `slack` s longer or
        shorter, and as much late."""
        samples = read_wav(path)
        self.assertLess(abs(len(samples) - len(reference)), slack * RATE)
        delay, likeness = align(reference, samples)
        self.assertLess(abs(delay), slack * RATE)
        self.assertGreater(likeness, 0.98)


class Demo(PipelineCase):
    def test_all_sentences(self):
        out = self.check_run('demo.sh', '--no-play', '--out',
                             self.folder / 'out').stdout.decode()
        self.check_same(np.concatenate([spoken(n) for n in range(1, 9)]),
                        self.folder / 'out.wav')
        png = (self.folder / 'out.png').read_bytes()
        self.assertEqual(png[:8], b'\x89PNG\r\n\x1a\n')
        self.assertEqual(struct.unpack('>II', png[16:24]), (1800, 900))
        self.assertRegex(out, r'[0-9.]+ times faster than real time: 36\.08 s')
        self.assertIn('./pipelines/kyutai.sh', out)

    def test_own_latents_and_model(self):
        shutil.copy(DEMO / 'mimi-demo.safetensors', self.folder / 'a model')
        shutil.copy(DEMO / 'config.json', self.folder)
        (self.folder / 'two words.f32').write_bytes(sentence(5))
        out = self.check_run('demo.sh', '--model', 'a model', '--no-play',
                             '--out', 'x/y', 'two words.f32').stdout.decode()
        self.check_same(spoken(5), self.folder / 'x/y.wav')
        self.assertNotIn('kyutai.sh', out)

    def test_no_sound_card(self):
        out = self.check_run('demo.sh', '--out', 'out',
                             DEMO / 'sentence-3.f32').stdout.decode()
        if not list(pathlib.Path('/dev').glob('snd/pcm*p')):
            self.assertIn('no sound card', out)


class Speak(PipelineCase):
    def test_chunks_of_any_size(self):
        """Bytes that come a few at a time, as a slow producer writes them."""
        data = sentence(3)
        process = subprocess.Popen(
            [str(PIPELINES / 'speak.sh'), '--out', 'out.wav'], cwd=self.folder,
            env=self.env, stdin=subprocess.PIPE)
        sizes = np.random.default_rng(1).integers(1, 400, len(data))
        while data:
            process.stdin.write(data[:sizes[0]])
            process.stdin.flush()
            data, sizes = data[sizes[0]:], sizes[1:]
        process.stdin.close()
        self.assertEqual(process.wait(timeout=100), 0)
        self.check_same(spoken(3), self.folder / 'out.wav')

    def test_falls_back_to_a_file(self):
        if list(pathlib.Path('/dev').glob('snd/pcm*p')):
            self.skipTest('there is a sound card')
        done = self.check_run('speak.sh', input=sentence(5))
        self.assertIn(b'speech.wav', done.stderr)
        self.check_same(spoken(5), self.folder / 'speech.wav')

    def test_warnings_are_seen(self):
        rows = np.frombuffer(sentence(5), '<f4').copy()
        rows[32 * 10 + 3] = np.nan
        done = self.check_run('speak.sh', '--out', 'x.wav',
                              input=rows.tobytes())
        self.assertIn(b'NaN', done.stderr)
        samples = read_wav(self.folder / 'x.wav')
        self.assertEqual(len(samples), len(spoken(5)))
        self.assertFalse(samples[1920 * 10:1920 * 11].any())

    def test_codes(self):
        """Caps of another kind, and another checkpoint."""
        checkpoint = self.make_codes_checkpoint()
        self.check_run(
            'speak.sh', '--model', checkpoint, '--caps', CODES, '--out', 'x.wav',
            input=(GOLDENS / 'tinyfull-8.u16').read_bytes())
        self.check_same(self.upstream(8), self.folder / 'x.wav')

    def test_model_from_the_environment(self):
        self.env['MIMIDEC_MODEL'] = '/nonexistent/model.safetensors'
        done = self.run_script('speak.sh', '--out', 'x.wav', input=sentence(5))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b'/nonexistent/model.safetensors', done.stderr)


class Opus(PipelineCase):
    def decode(self, path):
        out = self.folder / 'decoded.wav'
        subprocess.run(
            ['gst-launch-1.0', '-q', 'filesrc', 'location=%s' % path, '!',
             'oggdemux', '!', 'opusdec', '!',
             'audio/x-raw,rate=24000,channels=1', '!', 'wavenc', '!',
             'filesink', 'location=%s' % out], check=True, timeout=60)
        return out

    def test_file(self):
        self.check_run('opus.sh', 'out.opus', input=sentence(7))
        self.check_alike(spoken(7), self.decode(self.folder / 'out.opus'), 0.02)

    def test_stdout(self):
        done = self.check_run('opus.sh', '--bitrate', '48000', '-',
                              input=sentence(5))
        (self.folder / 'x').write_bytes(done.stdout)
        self.check_alike(spoken(5), self.decode(self.folder / 'x'), 0.02)


class Rtp(PipelineCase):
    def setUp(self):
        super().setUp()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(('', 0))
            self.port = free.getsockname()[1]

    def test_loopback(self):
        self.check_run('rtp.sh', 'loopback', '--out', 'out.wav',
                       DEMO / 'sentence-3.f32', self.port)
        self.check_alike(spoken(3), self.folder / 'out.wav', 0.1)

    def test_codes_as_opus(self):
        """All of the speech arrives, however few bytes it was."""
        self.save_codes()
        self.check_run('rtp.sh', 'loopback', '--model',
                       self.make_codes_checkpoint(), '--caps', CODES, '--out',
                       'out.wav', 'codes.u16', self.port)
        self.assertGreaterEqual(len(read_wav(self.folder / 'out.wav')),
                                60 * 1920)

    def save_codes(self):
        """60 rows of Moshi's 8 codebooks, in codes.u16."""
        data = (GOLDENS / 'tinyfull-8.u16').read_bytes()[:60 * 16]
        (self.folder / 'codes.u16').write_bytes(data)
        return data

    def test_undecoded(self):
        """What is decoded on the other side is what is decoded on this one, to
        the last bit, and what upstream makes of it."""
        data = self.save_codes()
        arguments = ['--model', self.make_codes_checkpoint(), '--caps', CODES,
                     '--out']
        self.check_run('rtp.sh', 'loopback', '--undecoded', *arguments,
                       'out.wav', 'codes.u16', self.port)
        self.check_run('speak.sh', *arguments, 'here.wav', input=data)
        self.assertEqual((self.folder / 'out.wav').read_bytes(),
                         (self.folder / 'here.wav').read_bytes())
        self.check_same(self.upstream(8, 60), self.folder / 'out.wav')

    def test_undecoded_latents(self):
        self.check_run('rtp.sh', 'loopback', '--undecoded', '--out', 'out.wav',
                       DEMO / 'sentence-5.f32', self.port)
        self.check_same(spoken(5), self.folder / 'out.wav')

    def test_nothing_is_left_running(self):
        """When what is sent cannot be decoded, the receiver ends too."""
        done = self.run_script('rtp.sh', 'loopback', '--model', '/nonexistent',
                               '--out', 'out.wav', DEMO / 'sentence-5.f32',
                               self.port)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b'/nonexistent', done.stderr)
        tables = [pathlib.Path('/proc/net', name) for name in ('udp', 'udp6')]
        for _ in range(100):
            if not any(':%04X ' % self.port in table.read_text()
                       for table in tables):
                return
            time.sleep(0.1)
        self.fail('port %d is still bound' % self.port)


class Talk(PipelineCase):
    def test_one_after_the_other(self):
        self.check_run('talk.py', '--out', 'x.wav', DEMO / 'sentence-3.f32',
                       DEMO / 'sentence-5.f32')
        self.check_same(np.concatenate([spoken(3), spoken(5)]),
                        self.folder / 'x.wav')

    def test_interruption(self):
        """What comes after it is whole, and from a fresh state."""
        self.check_run('talk.py', '--out', 'x.wav', '--interrupt', '1',
                       DEMO / 'sentence-1.f32', DEMO / 'sentence-3.f32')
        samples = read_wav(self.folder / 'x.wav')
        heard = len(samples) - len(spoken(3))
        self.assertGreater(heard, 0.5 * RATE)
        self.assertLess(heard, 2.5 * RATE)
        self.assertGreater(snr(spoken(1)[:heard], samples[:heard]), SAME)
        self.assertGreater(snr(spoken(3), samples[heard:]), SAME)

    def test_missing_model(self):
        done = self.run_script('talk.py', '--model', '/nonexistent',
                               DEMO / 'sentence-5.f32')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b'/nonexistent', done.stderr)


def golden_codes(books):
    """[frames, codebooks]"""
    return np.fromfile(GOLDENS / ('tinyfull-%d.u16' % books),
                       '<u2').reshape(-1, books)


def safetensors(tensors):
    """The bytes of a file; the values are numpy's arrays."""
    names = {np.dtype('<i8'): 'I64', np.dtype('<i4'): 'I32',
             np.dtype('<u2'): 'U16', np.dtype('<f4'): 'F32'}
    header, data = {}, b''
    for name, array in tensors.items():
        blob = np.ascontiguousarray(array).tobytes()
        header[name] = {'dtype': names[array.dtype], 'shape': array.shape,
                        'data_offsets': [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header).encode()
    return struct.pack('<Q', len(text)) + text + data


class Codes(PipelineCase):
    def setUp(self):
        super().setUp()
        self.make_codes_checkpoint()
        self.env['MIMIDEC_MODEL'] = 'mimi'

    def save(self, name, array):
        np.save(self.folder / name, array)
        return name

    def expect_error(self, words, *arguments):
        done = self.run_script('codes.py', '--out', 'x.wav', *arguments)
        self.assertNotEqual(done.returncode, 0)
        error = done.stderr.decode()
        for word in words.split('|'):
            self.assertIn(word, error)
        self.assertNotIn('Traceback', error)
        self.assertFalse((self.folder / 'x.wav').exists())

    def test_every_way_to_save_them(self):
        codes = golden_codes(8)
        ways = {
            'moshi': codes.T[None].astype('<i8'),
            'transformers': codes.T[None].astype('<i4'),
            'codebooks first': codes.T.astype('<i8'),
            'rows': codes.astype('<u2'),
            'big-endian': codes.T.astype('>i4'),
            'columns': np.asfortranarray(codes.T.astype('<i8')),
        }
        for name, array in ways.items():
            with self.subTest(name):
                self.check_run('codes.py', '--out', 'x.wav',
                               self.save('x.npy', array))
                self.check_same(self.upstream(8), self.folder / 'x.wav')

    def test_safetensors(self):
        codes = golden_codes(8)
        files = {
            'alone': {'codes': codes.T[None].astype('<i8')},
            'beside others': {'audio': np.zeros((1, 1920), '<f4'),
                              'length': np.array([170], '<i8'),
                              'codes': codes.T.astype('<i4')},
        }
        for name, tensors in files.items():
            with self.subTest(name):
                (self.folder / 'x').write_bytes(safetensors(tensors))
                self.check_run('codes.py', '--out', 'x.wav', 'x')
                self.check_same(self.upstream(8), self.folder / 'x.wav')
        (self.folder / 'x').write_bytes(safetensors(
            {'a': codes.T.astype('<i8') * 0, 'b': codes.astype('<u2')}))
        self.check_run('codes.py', '--out', 'x.wav', '--tensor', 'b', 'x')
        self.check_same(self.upstream(8), self.folder / 'x.wav')
        (self.folder / 'x.wav').unlink()
        self.expect_error('a I64|b U16|--tensor', 'x')
        self.expect_error('no tensor c|b U16', '--tensor', 'c', 'x')

    def test_other_codebooks(self):
        """Utterances of other numbers of codebooks: each as if alone."""
        self.check_run('codes.py', '--out', 'x.wav',
                       self.save('8.npy', golden_codes(8).T.astype('<i8')),
                       self.save('1.npy', golden_codes(1).T.astype('<i8')),
                       '8.npy', '8.npy')
        samples = read_wav(self.folder / 'x.wav')
        parts = [self.upstream(books) for books in (8, 1, 8, 8)]
        self.assertEqual(len(samples), sum(map(len, parts)))
        for number, part in enumerate(parts):
            here, samples = samples[:len(part)], samples[len(part):]
            self.assertGreater(snr(part, here), SAME, number)

    def test_streams_of_a_language_model(self):
        """Text first, and the acoustic delay before the first codes."""
        codes = golden_codes(8).T.astype('<i8')
        delayed = np.concatenate([np.full((8, 2), -1), codes], axis=1)
        text = np.full((1, 172), 31999)
        name = self.save('x.npy', np.concatenate([text, delayed])[None])
        self.check_run('codes.py', '--drop', '1', '--out', 'x.wav', name)
        self.check_same(self.upstream(8), self.folder / 'x.wav')
        (self.folder / 'x.wav').unlink()
        self.expect_error('9 codes|8 codebooks', name)

    def test_rows(self):
        codes = golden_codes(8).T.astype('<i8')
        codes[:, 0] = -1
        done = self.check_run('codes.py', '--rows', self.save('x.npy', codes))
        self.assertEqual(done.stdout, codes.T.astype('<u2').tobytes())
        self.assertIn(b'audio/x-mimi', done.stderr)
        self.assertIn(b'codebooks=8', done.stderr)

    def test_what_may_mean_two_things(self):
        codes = golden_codes(8)[:20]
        name = self.save('x.npy', codes)
        self.expect_error('[20, 8]|--order', name)
        self.check_run('codes.py', '--order', 'frames-first', '--out', 'x.wav',
                       name)
        self.check_same(self.upstream(8, 20), self.folder / 'x.wav')
        # A batch of one is how tokenizers write it.
        self.check_run('codes.py', '--out', 'x.wav',
                       self.save('x.npy', codes.T[None]))
        self.check_same(self.upstream(8, 20), self.folder / 'x.wav')

    def test_what_is_no_codes(self):
        codes = golden_codes(8).T.astype('<i8')
        changed = {}
        for value in 70000, -7, 64:
            changed[value] = codes.copy()
            changed[value][3, 5] = value
        arrays = {
            'float32|[8, 170]': codes.astype('<f4'),
            'bool': codes > 3,
            '.npy|Object arrays': np.array([{}, {}]),
            '[2, 8, 170]': np.stack([codes, codes]),
            '[170]': codes[0],
            '[]': np.int64(3),
            '[8, 0]': codes[:, :0],
            '[40, 50]|at most 32': np.zeros((40, 50), int),
            'frame 5|70000|stream 3': changed[70000],
            'frame 5|-7|stream 3': changed[-7],
            'frame 5|code 64|codebook 3|0..63': changed[64],
            'frame 0|18446744073709551615': np.full((8, 40), 2**64 - 1,
                                                    np.uint64),
        }
        for words, array in arrays.items():
            with self.subTest(words):
                self.expect_error(words, self.save('x.npy', array))

    def test_what_is_no_file_of_codes(self):
        good = safetensors({'codes': golden_codes(8).T.astype('<i8')})
        npy = self.folder / 'good.npy'
        np.save(npy, golden_codes(8))
        files = {
            'neither': b'PK\3\4 and so on, as torch.save writes it',
            'neither a': b'',
            '.safetensors file, is it damaged?': good[:60],
            'codes does not fit': good[:-1],
            'codes does not fit in': good.replace(b'[8, 170]', b'[8, 171]'),
            'safetensors file, is it damaged?': good.replace(b'data_off',
                                                             b'data_0ff'),
            'is it damaged?': struct.pack('<Q', 12000) + b'{"a":' * 2000,
            '.npy file, is it damaged?': npy.read_bytes()[:-1],
            'npy file, is it damaged?': npy.read_bytes()[:20],
            'file, is it damaged?': npy.read_bytes().replace(b'(170', b'(17['),
            '.npy file, is it': npy.read_bytes().replace(b'(170, 8), }      ',
                                                         b'(9999999999999,8)}'),
        }
        for words, data in files.items():
            with self.subTest(words):
                (self.folder / 'x.npy').write_bytes(data)
                self.expect_error(words, 'x.npy')
        self.expect_error('nothing.npy', 'nothing.npy')
        self.expect_error('/nonexistent', '--model', '/nonexistent', npy)

    def test_no_plugin(self):
        self.env['GST_PLUGIN_PATH'] = '/nonexistent'
        self.expect_error('mimidec|GST_PLUGIN_PATH|/nonexistent',
                          self.save('x.npy', golden_codes(8)))


class Arguments(PipelineCase):
    def test_help(self):
        for name in SCRIPTS:
            with self.subTest(name):
                out = self.check_run(name, '--help').stdout.decode()
                self.assertIn('usage:', out)
                self.assertNotIn('SPDX', out)

    def test_unknown_option(self):
        for name in SCRIPTS:
            with self.subTest(name):
                done = self.run_script(name, '--nonsense')
                self.assertNotEqual(done.returncode, 0)
                self.assertTrue(done.stderr)

    def test_missing_model(self):
        for arguments in (['speak.sh', '--out', 'x'], ['opus.sh', 'x']):
            with self.subTest(arguments[0]):
                done = self.run_script(arguments[0], '--model', '/nonexistent',
                                       *arguments[1:], input=sentence(5))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(b'/nonexistent', done.stderr)
        done = self.run_script('demo.sh', '--model', '/nonexistent', '--out', 'x')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b'/nonexistent', done.stderr)
        self.assertFalse(list(self.folder.glob('x.*')))

    def test_missing_latents(self):
        for arguments in (['demo.sh'], ['rtp.sh', 'loopback']):
            with self.subTest(arguments[0]):
                done = self.run_script(*arguments, 'nothing.f32')
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(b'nothing.f32', done.stderr)


# As much of pocket-tts 4.0.1 as latents.py touches: text in, a thread for each
# utterance that is handed latents through a queue, and the checkpoint's name.
POCKET_TTS = '''
import queue, threading
import numpy

class Tensor:
    def __init__(self, row):
        self.row = row
    def detach(self):
        return self
    def cpu(self):
        return self.row

class TTSModel:
    has_voice_cloning = False

    class config:
        weights_path = 'gated'
        weights_path_without_voice_cloning = 'open.safetensors'
        class mimi:
            weights_path = None

    @classmethod
    def load_model(cls, language=None, config=None):
        return cls()

    def get_state_for_audio_prompt(self, voice):
        return voice

    def _decode_audio_worker(self, latents, results, length, steps):
        raise AssertionError('the decoder ran')

    def generate_audio_stream(self, voice, text):
        for sentence in text.split('. '):
            latents, results = queue.Queue(), queue.Queue()
            thread = threading.Thread(target=self._decode_audio_worker,
                                      args=(latents, results, 16, 16))
            thread.start()
            for letter in sentence:
                latents.put(Tensor(numpy.full((1, 1, 32), ord(letter), 'f4')))
            latents.put(None)
            kind, value = results.get()
            if kind == 'error':
                raise value
            thread.join()
        yield from ()
'''


class Latents(PipelineCase):
    def setUp(self):
        super().setUp()
        package = self.folder / 'python/pocket_tts'
        (package / 'utils').mkdir(parents=True)
        (package / '__init__.py').write_text(POCKET_TTS)
        (package / 'utils/__init__.py').touch()
        (package / 'utils/utils.py').write_text(
            'def download_if_necessary(path):\n    return path\n')
        (package / 'default_parameters.py').write_text(
            'def get_default_voice_for_language(language, config):\n'
            '    return "alba"\n')
        self.env['PYTHONPATH'] = str(self.folder / 'python')

    def rows(self, data):
        return np.frombuffer(data, '<f4').reshape(-1, 32)

    def test_pipe(self):
        rows = self.rows(self.check_run('latents.py', 'Ab. c').stdout)
        self.assertEqual(rows.tolist(),
                         [[float(ord(letter))] * 32 for letter in 'Abc'])

    def test_a_file_for_each_utterance(self):
        self.check_run('latents.py', '--output', 'u%d.f32', '--checkpoint',
                       'link', input=b'Ab. c\nd\n')
        for n, text in (1, 'Ab'), (2, 'c'), (3, 'd'):
            rows = self.rows((self.folder / ('u%03d.f32' % n)).read_bytes())
            self.assertEqual(rows[:, 0].tolist(), [ord(c) for c in text])
        self.assertEqual(os.readlink(self.folder / 'link'),
                         str(self.folder / 'open.safetensors'))

    def test_errors_reach_the_caller(self):
        done = self.run_script('latents.py', 'a', '--output', 'no/such/file')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b'no/such/file', done.stderr)


class Readme(PipelineCase):
    """Every gst-launch line of README.md and docs/ runs as it stands, from the
    repository's root with the demo's files. autoaudiosink takes a fake sink
    where there is no sound card."""

    def blocks(self):
        for page in [TOP / 'README.md', *sorted((TOP / 'docs').glob('*.md'))]:
            text = page.read_text()
            for block in re.findall(r'^```sh\n(.*?)^```', text, re.M | re.S):
                if 'gst-launch-1.0' in block:
                    yield page.name, block

    def test_properties(self):
        """The table has the properties that the element has."""
        script = ("import gi; gi.require_version('Gst', '1.0')\n"
                  "from gi.repository import Gst; Gst.init(None)\n"
                  "e = Gst.ElementFactory.make('mimidec')\n"
                  "print(*[p.name for p in e.list_properties()\n"
                  "        if p.owner_type.name == 'GstMimiDec'])")
        done = subprocess.run([sys.executable, '-c', script], env=self.env,
                              stdout=subprocess.PIPE, check=True, timeout=60)
        table = re.search(r'^## Properties\n(.*?)^##',
                          (TOP / 'README.md').read_text(), re.M | re.S)[1]
        self.assertEqual(sorted(re.findall(r'^\| `([a-z-]+)`', table, re.M)),
                         sorted(done.stdout.decode().split()))

    def test_pipelines(self):
        shutil.copytree(DEMO, self.folder / 'pipelines/demo')
        (self.folder / 'build').mkdir()
        self.make_codes_checkpoint()
        shutil.copy(GOLDENS / 'tinyfull-8.u16', self.folder / 'codes.u16')
        golden_codes(1).astype('<i8').tofile(self.folder / 'semantic.s64')
        self.env['MIMIDEC_MODEL'] = 'pipelines/demo'
        blocks = list(self.blocks())
        self.assertGreaterEqual(len(blocks), 5)
        for page, block in blocks:
            with self.subTest(page + ': ' + block):
                done = subprocess.run(
                    ['bash', '-euc', block], cwd=self.folder, env=self.env,
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, timeout=60)
                self.assertEqual(done.returncode, 0, done.stdout.decode())
                self.assertNotRegex(done.stdout.decode(),
                                    'CRITICAL|WARNING.*MimiDec')
                for name in re.findall(r'location=(\S+\.wav)', block):
                    self.assertTrue(read_wav(self.folder / name).any())
        self.check_same(self.upstream(8), self.folder / 'codes.wav')
        both = read_wav(self.folder / 'both.wav')
        for books in 8, 1:
            part = self.upstream(books)
            self.assertGreater(snr(part, both[:len(part)]), SAME)
            both = both[len(part):]
        self.assertFalse(len(both))


CASES = {'demo': Demo, 'speak': Speak, 'opus': Opus, 'rtp': Rtp, 'talk': Talk,
         'codes': Codes, 'arguments': Arguments, 'latents': Latents,
         'readme': Readme}

if __name__ == '__main__':
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(CASES[sys.argv[1]])
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    sys.exit(not result.wasSuccessful())
