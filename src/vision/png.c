/* png.c - PNG files by libpng. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

#include "core/file.h"
#include "core/text.h"
#include "vision/image.h"

typedef struct reader {
  const uint8_t *bytes;
  size_t n, at;
  png_structp png;
  png_infop info;
  accel__image image;
  png_bytep *rows;
  uint8_t *wide; /* grey of 16 bits, before it is clipped */
  char message[160];
} reader;

static void on_error(png_structp png, png_const_charp text) {
  reader *r = png_get_error_ptr(png);
  snprintf(r->message, sizeof r->message, "%s", text);
  png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

static void on_read(png_structp png, png_bytep out, png_size_t n) {
  reader *r = png_get_io_ptr(png);
  if (n > r->n - r->at) png_error(png, "the file ends before the picture does");
  memcpy(out, r->bytes + r->at, n);
  r->at += n;
}

/* The one transparent colour that Pillow still knows when the picture is RGB: of a palette that has
 * one clear entry among full ones, of grey up to 8 bits, of colour; of other greys a number, which
 * then stands for red alone. */
static void find_key(const reader *r, accel__image *image) {
  png_bytep alpha = NULL;
  png_color_16p one = NULL;
  png_colorp palette = NULL;
  int n = 0, colours = 0, clear = -1;
  if (!png_get_tRNS(r->png, r->info, &alpha, &n, &one)) return;
  const int colour = png_get_color_type(r->png, r->info),
            depth = png_get_bit_depth(r->png, r->info);
  if (colour == PNG_COLOR_TYPE_PALETTE) {
    if (!alpha || !png_get_PLTE(r->png, r->info, &palette, &colours)) return;
    for (int i = 0; i < n; i++) {
      if (alpha[i] == 255) continue;
      if (alpha[i] != 0 || clear >= 0) return;
      clear = i;
    }
    if (clear < 0 || clear >= colours) return;
    memcpy(image->key, (uint8_t[3]){palette[clear].red, palette[clear].green, palette[clear].blue},
           3);
  } else if (one && colour == PNG_COLOR_TYPE_RGB) {
    memcpy(image->key, (uint8_t[3]){(uint8_t)one->red, (uint8_t)one->green, (uint8_t)one->blue}, 3);
  } else if (one && colour == PNG_COLOR_TYPE_GRAY) {
    memset(image->key, depth > 1 && depth < 16 ? (uint8_t)one->gray : 0, 3);
    image->key[0] = (uint8_t)one->gray;
  } else {
    return;
  }
  image->keyed = true;
}

/* Asks libpng for 8-bit RGB, or for 16-bit grey, which Pillow clips instead of scaling. */
static void ask(reader *r, bool wide_grey) {
  png_set_expand(r->png);
  if (!wide_grey) {
    png_set_strip_16(r->png);
    png_set_gray_to_rgb(r->png);
  }
  png_set_strip_alpha(r->png);
  png_set_interlace_handling(r->png);
  png_read_update_info(r->png, r->info);
}

static accel_status decode(reader *r, const char *name) {
  const int64_t width = png_get_image_width(r->png, r->info),
                height = png_get_image_height(r->png, r->info);
  const int colour = png_get_color_type(r->png, r->info);
  const bool wide_grey = colour == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(r->png, r->info) == 16;
  ACCEL_TRY(accel__image_new(width, height, name, &r->image));
  find_key(r, &r->image);
  ask(r, wide_grey);
  const size_t stride = (size_t)width * (wide_grey ? 2 : 3);
  if (png_get_rowbytes(r->png, r->info) != stride)
    return accel__fail(ACCEL_ERROR_FORMAT, "%s: its rows have %zu bytes, not %zu", name,
                       png_get_rowbytes(r->png, r->info), stride);
  r->rows = malloc((size_t)height * sizeof *r->rows);
  if (wide_grey) r->wide = malloc((size_t)height * stride);
  if (!r->rows || (wide_grey && !r->wide)) return accel__no_memory((size_t)height * stride);
  for (int64_t y = 0; y < height; y++)
    r->rows[y] = (wide_grey ? r->wide : r->image.pixels) + (size_t)y * stride;
  png_read_image(r->png, r->rows);
  png_read_end(r->png, r->info);
  for (int64_t i = 0; wide_grey && i < width * height; i++)
    memset(r->image.pixels + 3 * i, r->wide[2 * i] ? 255 : r->wide[2 * i + 1], 3);
  return ACCEL_OK;
}

static int orientation_of(const reader *r) {
#if defined(PNG_eXIf_SUPPORTED)
  png_uint_32 n = 0;
  png_bytep exif = NULL;
  if (png_get_eXIf_1(r->png, r->info, &n, &exif) && exif) return accel__exif_orientation(exif, n);
#endif
  (void)r;
  return 1;
}

accel_status accel__png_parse(const uint8_t *bytes, size_t n, const char *name, accel__image *out,
                              int *orientation) {
  reader *r = calloc(1, sizeof *r);
  if (!r) return accel__no_memory(sizeof *r);
  r->bytes = bytes;
  r->n = n;
  accel_status status = ACCEL_OK;
  r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, on_error, on_warning);
  r->info = r->png ? png_create_info_struct(r->png) : NULL;
  if (!r->info) {
    status = accel__no_memory(sizeof *r);
  } else if (setjmp(png_jmpbuf(r->png))) {
    status = accel__fail(ACCEL_ERROR_FORMAT, "%s: libpng cannot read it: %s", name, r->message);
  } else {
    png_set_read_fn(r->png, r, on_read);
    png_read_info(r->png, r->info);
    status = decode(r, name);
    if (status == ACCEL_OK) *orientation = orientation_of(r);
  }
  png_destroy_read_struct(&r->png, &r->info, NULL);
  if (status == ACCEL_OK) {
    *out = r->image;
    r->image = (accel__image){0};
  }
  accel__image_free(&r->image);
  free(r->rows);
  free(r->wide);
  free(r);
  return status;
}

/* ---- writing ---- */

typedef struct writer {
  accel__buffer bytes;
  char message[256];
} writer;

static void on_write_error(png_structp png, png_const_charp text) {
  writer *w = png_get_error_ptr(png);
  snprintf(w->message, sizeof w->message, "%s", text);
  png_longjmp(png, 1);
}

static void on_write(png_structp png, png_bytep data, size_t n) {
  writer *w = png_get_io_ptr(png);
  accel__buffer_bytes(&w->bytes, data, n);
}

static void on_flush(png_structp png) { (void)png; }

/* What is written: pixels of one of these, and a text, which may be NULL. */
typedef struct picture {
  int32_t width, height;
  const uint8_t *rgb;   /* of 8 bits */
  const uint16_t *grey; /* of `bits` */
  int bits;
  const char *parameters;
} picture;

/* Rows one after the other; those of grey through `row`, which holds one of 16 bits, the high byte
 * first. */
static void write_rows(png_structp png, const picture *p, uint8_t *row) {
  const uint16_t *grey = p->grey;
  for (int32_t y = 0; y < p->height && p->rgb; y++)
    png_write_row(png, p->rgb + (size_t)y * 3 * (size_t)p->width);
  for (int32_t y = 0; y < p->height && grey; y++, grey += p->width) {
    for (int32_t x = 0; x < p->width && p->bits == 8; x++) row[x] = (uint8_t)grey[x];
    for (int32_t x = 0; x < p->width && p->bits == 16; x++) {
      row[2 * x] = (uint8_t)(grey[x] >> 8);
      row[2 * x + 1] = (uint8_t)(grey[x] & 255);
    }
    png_write_row(png, row);
  }
}

/* tEXt is Latin-1, iTXt UTF-8. */
static void set_text(png_structp png, png_infop info, const char *text) {
  static char key[] = "parameters";
  bool plain = true;
  for (const char *c = text; *c; c++) plain &= (unsigned char)*c < 128;
  png_text chunk = {.compression = plain ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE,
                    .key = key,
                    .text = (char *)(uintptr_t)text,
                    .text_length = plain ? strlen(text) : 0,
                    .itxt_length = plain ? 0 : strlen(text)};
  png_set_text(png, info, &chunk, 1);
}

static accel_status write_picture(const char *path, const picture *p) {
  writer *w = calloc(1, sizeof *w);
  uint8_t *row = malloc((size_t)p->width * 2);
  accel_status status = ACCEL_OK;
  png_structp png =
      w && row ? png_create_write_struct(PNG_LIBPNG_VER_STRING, w, on_write_error, on_warning)
               : NULL;
  png_infop info = png ? png_create_info_struct(png) : NULL;
  if (!info) {
    status = accel__no_memory((size_t)p->width * 2);
  } else if (setjmp(png_jmpbuf(png))) {
    status = accel__fail(ACCEL_ERROR_IO, "%s: libpng cannot write it: %s", path, w->message);
  } else {
    png_set_write_fn(png, w, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)p->width, (png_uint_32)p->height, p->bits,
                 p->rgb ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (p->parameters) set_text(png, info, p->parameters);
    png_write_info(png, info);
    write_rows(png, p, row);
    png_write_end(png, info);
    status = accel__buffer_status(&w->bytes);
    if (status == ACCEL_OK) status = accel__file_write(path, w->bytes.data, w->bytes.n);
  }
  png_destroy_write_struct(&png, &info);
  if (w) accel__buffer_free(&w->bytes);
  free(w);
  free(row);
  return status;
}

accel_status accel__png_write(const char *path, const accel__image *image, const char *parameters) {
  return write_picture(path, &(picture){.width = image->width,
                                        .height = image->height,
                                        .rgb = image->pixels,
                                        .bits = 8,
                                        .parameters = parameters});
}

accel_status accel__png_write_grey(const char *path, const uint16_t *grey, int32_t width,
                                   int32_t height, int bits) {
  return write_picture(path,
                       &(picture){.width = width, .height = height, .grey = grey, .bits = bits});
}
