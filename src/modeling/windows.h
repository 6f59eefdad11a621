/* windows.h - attention inside square windows of a grid of rows (Swin, DaViT).  Windows, their cyclic
 * shift and their padding are one table of row numbers for each grid, which the program computes
 * from the sides of the grid. */
#ifndef ACCEL_MODELING_WINDOWS_H
#define ACCEL_MODELING_WINDOWS_H

#include "modeling/vision.h"

typedef struct accel__grid {
  accel__dim h, w;
} accel__grid;

/* The windows of one grid: where their rows come from and go back to.  The caller sets grid, window
 * and padded. */
typedef struct accel__windows {
  accel__grid grid, across; /* rows to a side; windows to a side, the last ones padded */
  int64_t window;           /* rows of a window to a side */
  bool padded;              /* false: the windows are known to fill the grid */
  accel__dim n, all, count; /* rows of the grid, rows of all windows, windows */
  accel__tensor to, from;   /* int32 [all]: row of the grid, n for padding; int32 [n] */
  /* [count, 1, S, S]: -100 between rows of different regions; -1 without shift */
  accel__tensor apart;
} accel__windows;

/* shifted: by half a window, where more than one stands side by side in both directions. */
void accel__plan_windows(accel__build *b, accel__windows *p, bool shifted);
/* x [B,n,C] -> rows [B*all, C], window by window, zeros for padding, and their space, in which a
 * window is an item. */
accel__tensor accel__to_windows(accel__build *b, const accel__windows *p, accel__tensor x,
                                int32_t *space);
/* Such rows -> [B,n,C] */
accel__tensor accel__from_windows(accel__build *b, const accel__windows *p, accel__tensor x);

#endif
