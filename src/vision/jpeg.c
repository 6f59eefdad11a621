/* jpeg.c - JPEG files by libjpeg-turbo, with its default (accurate) transform and smooth chroma, as
 * Pillow decodes them. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "vision/image.h"

typedef struct reader {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  jmp_buf out;
  bool cut; /* the data ended before the picture did */
  accel__image image;
  uint8_t *row; /* CMYK */
} reader;

static void on_error(j_common_ptr jpeg) { longjmp(((reader *)jpeg->client_data)->out, 1); }

/* Warnings are what Pillow lives with, but for the end of the data. */
static void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) ((reader *)jpeg->client_data)->cut = true;
}

static void no_output(j_common_ptr jpeg) { (void)jpeg; }

static int orientation_of(const struct jpeg_decompress_struct *jpeg) {
  for (jpeg_saved_marker_ptr m = jpeg->marker_list; m; m = m->next)
    if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && !memcmp(m->data, "Exif\0\0", 6))
      return accel__exif_orientation(m->data + 6, m->data_length - 6);
  return 1;
}

/* One row of CMYK to RGB, as Pillow multiplies; Adobe's files hold the complement. */
static void from_cmyk(const uint8_t *in, int32_t width, bool inverted, uint8_t *out) {
  for (int32_t x = 0; x < width; x++, in += 4, out += 3) {
    const int flip = inverted ? 255 : 0, white = 255 - (in[3] ^ flip);
    for (int c = 0; c < 3; c++) {
      const int product = (in[c] ^ flip) * white + 128;
      const int ink = ((product >> 8) + product) >> 8, value = white - ink;
      out[c] = (uint8_t)(value < 0 ? 0 : value);
    }
  }
}

static accel_status decode(reader *r, const char *name) {
  struct jpeg_decompress_struct *j = &r->jpeg;
  const bool cmyk = j->jpeg_color_space == JCS_CMYK || j->jpeg_color_space == JCS_YCCK;
  j->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  ACCEL_TRY(accel__image_new(j->image_width, j->image_height, name, &r->image));
  if (cmyk && !(r->row = malloc((size_t)j->image_width * 4)))
    return accel__no_memory((size_t)j->image_width * 4);
  jpeg_start_decompress(j);
  while (j->output_scanline < j->output_height) {
    uint8_t *out = r->image.pixels + (size_t)j->output_scanline * j->output_width * 3;
    JSAMPROW row = cmyk ? r->row : out;
    jpeg_read_scanlines(j, &row, 1);
    if (cmyk) from_cmyk(r->row, (int32_t)j->output_width, j->saw_Adobe_marker, out);
  }
  jpeg_finish_decompress(j);
  return ACCEL_OK;
}

accel_status accel__jpeg_parse(const uint8_t *bytes, size_t n, const char *name, accel__image *out,
                               int *orientation) {
  reader *r = calloc(1, sizeof *r);
  if (!r) return accel__no_memory(sizeof *r);
  accel_status status;
  r->jpeg.err = jpeg_std_error(&r->errors);
  r->errors.error_exit = on_error;
  r->errors.emit_message = on_message;
  r->errors.output_message = no_output;
  r->jpeg.client_data = r;
  if (setjmp(r->out)) {
    char text[JMSG_LENGTH_MAX];
    r->errors.format_message((j_common_ptr)&r->jpeg, text);
    status = accel__fail(ACCEL_ERROR_FORMAT, "%s: libjpeg cannot read it: %s", name, text);
  } else {
    jpeg_create_decompress(&r->jpeg);
    r->jpeg.client_data = r; /* create cleared it */
    jpeg_save_markers(&r->jpeg, JPEG_APP0 + 1, 0xFFFF);
    jpeg_mem_src(&r->jpeg, bytes, n);
    jpeg_read_header(&r->jpeg, TRUE);
    *orientation = orientation_of(&r->jpeg);
    status = decode(r, name);
    if (status == ACCEL_OK && r->cut)
      status = accel__remedy(
          accel__fail(ACCEL_ERROR_FORMAT, "%s: the file ends before the picture does", name),
          "fetch the file again");
  }
  jpeg_destroy_decompress(&r->jpeg);
  if (status == ACCEL_OK) {
    *out = r->image;
    r->image = (accel__image){0};
  }
  accel__image_free(&r->image);
  free(r->row);
  free(r);
  return status;
}
