/* A slot's state to and from the order that all backends share.
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */
#pragma once

#include "frame.h"

G_BEGIN_DECLS

/* own: a slot's state, frame->state_length floats, as the frame with number
 * `frames` finds it; copy: of the histories, that it reads. */
void mimi_cuda_state_read (const MimiCudaFrame *frame, const gfloat *own,
    guint64 frames, guint copy, gfloat *values);
void mimi_cuda_state_write (const MimiCudaFrame *frame, gfloat *own,
    guint64 frames, guint copy, const gfloat *values);

G_END_DECLS
