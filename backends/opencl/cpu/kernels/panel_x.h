/* panel_x.h - OpenCL: where panel_x.k puts x and panel.k finds it: [KC of k][tile of MR
 * rows][k][row]. */
#ifndef GPU_PANEL_X_H
#define GPU_PANEL_X_H

#define KC 128
/* First element of the tile that begins at `row`, of the kn columns from k0, a multiple of KC. */
#define PACKED_AT(row, k0, kn) ((ulong)(k0) * ((P(m) + MR - 1) / MR * MR) + (ulong)(row) * (kn))

#endif
