#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Draws the waveform and the spectrogram of a WAV file into a PNG."""

import argparse
import textwrap
import wave

try:
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt
    import numpy as np
except ImportError as error:
    raise SystemExit('draw.py: %s. Install python3-matplotlib and '
                     'python3-numpy, and run it with the Python that has them '
                     '(/usr/bin/python3 on Debian)' % error)

WINDOW = 600  # samples: 25 ms at 24 kHz
FLOOR = -80  # dB under the loudest that is still drawn
INK, SOUND = '#1b2a38', '#1f6f8b'


def read_wav(path):
    """Samples in -1..1 and the rate of a mono 16 bit file."""
    with wave.open(path) as wav:
        if wav.getnchannels() != 1 or wav.getsampwidth() != 2:
            raise SystemExit('%s: not mono, 16 bit' % path)
        samples = np.frombuffer(wav.readframes(wav.getnframes()), '<i2')
        return samples / 32768, wav.getframerate()


def spectrogram(samples, hop):
    """Level in dB under the loudest point, [frequency][time]."""
    padded = np.pad(samples, WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), 1024)) ** 2
    return 10 * np.log10(power.T / max(power.max(), 1e-12) + 1e-12)


def envelope(samples, columns):
    """The least and greatest sample of each column."""
    columns = min(columns, len(samples))
    edges = np.linspace(0, len(samples), columns + 1).astype(int)[:-1]
    return (np.minimum.reduceat(samples, edges),
            np.maximum.reduceat(samples, edges))


def draw(samples, rate, parts, title, path):
    seconds = len(samples) / rate
    plt.rcParams.update({'font.family': 'DejaVu Sans', 'font.size': 9,
                         'text.color': INK, 'axes.labelcolor': INK,
                         'xtick.color': INK, 'ytick.color': INK,
                         'axes.edgecolor': '#9aa7b1'})
    figure, (top, bottom) = plt.subplots(
        2, 1, sharex=True, figsize=(15, 7.5), dpi=120,
        gridspec_kw={'height_ratios': [2, 3], 'hspace': 0.06})
    figure.subplots_adjust(left=0.055, right=0.925, bottom=0.075,
                           top=0.83 if parts else 0.92)
    figure.text(0.055, 0.955, title, fontsize=15, weight='bold')

    low, high = envelope(samples, 3000)
    times = np.linspace(0, seconds, len(low))
    top.fill_between(times, low, high, color=SOUND, linewidth=0.3)
    top.set(ylim=(-1, 1), ylabel='amplitude', yticks=[-1, -0.5, 0, 0.5, 1])
    top.grid(axis='y', color='#e3e8ec', linewidth=0.8)
    top.set_axisbelow(True)
    top.tick_params(labelbottom=False, length=0)

    levels = spectrogram(samples, max(120, len(samples) // 4000))
    image = bottom.imshow(levels, origin='lower', aspect='auto', cmap='magma',
                          vmin=FLOOR, vmax=0,
                          extent=(0, seconds, 0, rate / 2000))
    bottom.set(xlabel='time (s)', ylabel='frequency (kHz)', xlim=(0, seconds))
    box = bottom.get_position()
    bar = figure.colorbar(image, cax=figure.add_axes(
        [box.x1 + 0.01, box.y0, 0.011, box.height]))
    bar.set_label('level (dB under the loudest)')
    bar.outline.set_visible(False)

    begin = 0
    for length, text in parts:
        for axes, colour in (top, '#9aa7b1'), (bottom, 'white'):
            if begin > 0:
                axes.axvline(begin, color=colour, linewidth=0.8,
                             linestyle=(0, (4, 3)))
        width = max(8, int(158 * length / seconds))
        top.text(begin + 0.004 * seconds, 1.06, textwrap.fill(text, width),
                 fontsize=8, va='bottom', linespacing=1.25)
        begin += length
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('wav', help='a mono, 16 bit WAV file')
    parser.add_argument('png', help='the file to write')
    parser.add_argument('--title', default='')
    parser.add_argument('--part', action='append', nargs=2, default=[],
                        metavar=('SECONDS', 'TEXT'),
                        help='a part of this length and what it says; '
                             'as often as there are parts')
    options = parser.parse_args()
    samples, rate = read_wav(options.wav)
    parts = [(float(length), text) for length, text in options.part]
    draw(samples, rate, parts, options.title or options.wav, options.png)


if __name__ == '__main__':
    main()
