/* randn.h - the normal numbers that torch.randn draws from a torch.Generator of the CPU, so that a
 * seed gives the picture, or the speech, that it gives in Python.
 *
 * Source: at::CPUGeneratorImpl (MT19937), at::normal_distribution and the vectorised normal_fill of
 * ATen.  Numbers agree with torch's to the rounding of log, sin and cos.
 */
#ifndef ACCEL_DIFFUSION_RANDN_H
#define ACCEL_DIFFUSION_RANDN_H

#include <stdbool.h>
#include <stdint.h>

enum { ACCEL__MT_WORDS = 624 };

typedef struct accel__generator {
  uint32_t word[ACCEL__MT_WORDS];
  uint32_t next;
  bool has_spare; /* of draws of fewer than 16 numbers */
  double spare;
} accel__generator;

/* As torch.Generator().manual_seed(seed): its low 32 bits count. */
void accel__generator_seed(accel__generator *g, uint64_t seed);
/* As torch.randn(n, generator=g): draws of 16 and more differ in kind from smaller ones, so that n
 * has to be the size of the whole tensor. */
void accel__randn(accel__generator *g, float *out, uint64_t n);

/* The same as Tensor.normal_() fills a tensor that is not contiguous (torch.randn_like of a transposed
 * one), in the order of its memory: one number after the other, however many there are. */
void accel__randn_strided(accel__generator *g, float *out, uint64_t n);

/* An exponential number of rate 1, as Tensor.exponential_() draws them one after the other:
 * torch.multinomial() takes one for each probability.  Skipping one uses up as much of the generator
 * as drawing it. */
float accel__exponential(accel__generator *g);
void accel__exponential_skip(accel__generator *g);

#endif
