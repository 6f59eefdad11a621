/* tool_subtitles.h - transcripts as subtitles, for the tool and its server. */
#ifndef ACCEL_TOOL_SUBTITLES_H
#define ACCEL_TOOL_SUBTITLES_H

#include <stdbool.h>
#include <stdio.h>

#include "accel/accel.h"

/* How many segments of sound i are shown with the times that generate knew, where there are some;
 * 0: words, and other chunks, with those worked out from the tokens.  `stamps` is
 * accel_transcribe_params.timestamps. */
uint32_t tool_shown_segments(const accel_transcripts *found, uint32_t i, const char *stamps);
/* Sound 0 as WebVTT or SubRip. */
void tool_subtitles(FILE *to, const accel_transcripts *found, bool vtt, const char *stamps);

#endif
