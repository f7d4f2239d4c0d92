#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Counts what `meson test` did: results.py BUILD.

Prints `PASSED FAILED SKIPPED NAMES...`, the names being those of the tests
that failed. Fails when there is no log, or nothing in it."""

import json
import os
import sys

KINDS = {'OK': 0, 'EXPECTEDFAIL': 0, 'SKIP': 2}
counts = [0, 0, 0]
names = []

log_path = sys.argv[1] + '/meson-logs/testlog.json'
if not os.path.exists(log_path):
    sys.exit('no test ran')
with open(log_path) as log:
    for line in log:
        test = json.loads(line)
        kind = KINDS.get(test['result'], 1)
        counts[kind] += 1
        if kind == 1:
            names.append(test['name'].replace(' ', ''))

if not any(counts):
    sys.exit('no test ran')
print(*counts, *names)
