# SPDX-License-Identifier: LGPL-2.1-or-later
"""WAV files, and how alike two of them are."""

import wave

import numpy as np

RATE = 24000
FADE = 120  # samples: the default of fade-in, 5 ms


def read_wav(path):
    with wave.open(str(path)) as wav:
        form = wav.getframerate(), wav.getnchannels(), wav.getsampwidth()
        assert form == (RATE, 1, 2), '%s: %s' % (path, form)
        return np.frombuffer(wav.readframes(wav.getnframes()), '<i2') / 32768


def faded(samples):
    """As mimidec begins an utterance by default."""
    samples = samples.copy()
    samples[:FADE] *= np.linspace(0, 1, FADE)
    return samples


def snr(reference, samples):
    """dB; both of the same length."""
    assert len(samples) == len(reference), \
        '%d samples instead of %d' % (len(samples), len(reference))
    noise = np.sum((samples - reference) ** 2)
    return 10 * np.log10(np.sum(reference ** 2) / max(noise, 1e-30))


def align(reference, samples):
    """The delay at which samples is most like reference, in samples, and the
    correlation there, 0..1. A codec delays and changes phases a little."""
    size = 1 << (len(reference) + len(samples)).bit_length()
    product = np.fft.irfft(
        np.fft.rfft(samples, size) * np.conj(np.fft.rfft(reference, size)))
    delay = int(np.argmax(product))
    level = np.sqrt(np.sum(reference ** 2) * np.sum(samples ** 2))
    if delay > size // 2:
        delay -= size
    return delay, product.max() / max(level, 1e-30)
