/* cpu_weights.h - an endpoint: its weights packed at init, and what it keeps of them. */
#ifndef ACCEL_CPU_WEIGHTS_H
#define ACCEL_CPU_WEIGHTS_H

#include "cpu.h"

/* kit_backend.open and close: packs the weights of the program; *self is a cpu_self, also after a
 * failure. */
int32_t cpu_open(kit_open *open, void **self, accel_plugin_error *error);
void cpu_close(void *self);
/* Packs panels [first, first + n) of a linear to `to`, one after the other.  origin: the matrix
 * that the up halves of columns come from, and its first row; the same of gates. */
void cpu_pack_panels(const cpu_panel *shape, const cpu_linear *l, int64_t first, int64_t n,
                     const cpu_column origin[2], char *to);
/* Packs one range from the rows that it is made of alone; `row`: where the linear's first row is in
 * its weight. */
int32_t cpu_pack_rows(const cpu_load *load, const cpu_linear *l, int64_t row,
                      const cpu_range *range, accel_plugin_error *error);
/* Whether the panels of a settled linear hold the rows of weight `w` one after the other: gather
 * needs no table then. */
bool cpu_panels_hold_rows(const cpu_linear *l, int32_t w);
/* kit_backend.weight: all of it as fp32; NULL when it was kept packed only. */
void *cpu_weight_data(void *self, uint32_t index);
/* Gives back the mappings that were kept; before cpu_close. */
void cpu_unmap(cpu_self *self, const accel_plugin_host *host);
/* kit_backend.weight_bytes: bytes that cpu_open keeps for a weight. */
uint64_t cpu_weight_bytes(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format);
/* kit_backend.weight_in_place: whether it is read where the core mapped it. */
bool cpu_weight_stays(const accel_plugin_program *program, uint32_t index,
                      const accel_plugin_format *format);
bool cpu_weight_by_rows(const accel_plugin_program *program, uint32_t index,
                        const accel_plugin_format *format); /* kit_backend.weight_by_rows */
/* kit_backend.plan_open and plan_close: a cpu_self without weights. */
int32_t cpu_plan_open(const accel_plugin_program *program, const accel_plugin_options *options,
                      void **self, accel_plugin_error *error);
void cpu_plan_close(void *self);
/* kit_backend.stream_estimate */
int32_t cpu_stream_estimate(uint32_t device, const accel_plugin_program *program,
                            const accel_plugin_options *options, accel_plugin_estimate *out,
                            accel_plugin_error *error);
/* Bytes of the weights that stay in memory whatever is streamed; the linears' segments are known. */
uint64_t cpu_fixed_bytes(cpu_self *self, const accel_plugin_options *options);
/* kit_backend.weight_format: an accel_plugin_answer; *why says what it means unless that is
 * NATIVE. */
int32_t cpu_weight_format(const accel_plugin_program *program, uint32_t index,
                          const accel_plugin_format *format, char *why, size_t why_size);

#endif
