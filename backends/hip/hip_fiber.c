/* hip_fiber.c - see hip_fiber.h. The instructions save what the calling conventions (System V
 * AMD64, AAPCS64) ask a callee to keep. */
#include "hip/hip_fiber.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#if ACCEL_SANITIZER == 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#elif ACCEL_SANITIZER == 2
#include <sanitizer/tsan_interface.h>
#endif

#if !defined(__x86_64__) && !defined(__aarch64__)
#define FIBER_UCONTEXT 1
#include <ucontext.h>
#endif

struct hip_fiber {
  char *stack; /* mapped: a page that traps, then `bytes` */
  size_t bytes, mapped;
  void (*work)(void *);
  void *arg;
#ifdef FIBER_UCONTEXT
  ucontext_t own, other;
#else
  void *own, *other; /* stack pointers while not running */
#endif
#if ACCEL_SANITIZER == 1
  void *fake;
  const void *other_stack;
  size_t other_bytes;
#elif ACCEL_SANITIZER == 2
  void *own_context, *other_context;
#endif
};

#if defined(__x86_64__)
void accel_hip_switch(void **save, void *to);
__asm__(
    ".text\n"
    ".globl accel_hip_switch\n.hidden accel_hip_switch\n.type accel_hip_switch, @function\n"
    "accel_hip_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size accel_hip_switch, .-accel_hip_switch\n");
enum { FRAME = 8, ENTRY = 6 }; /* words: r15 r14 r13 r12 rbx rbp, the return address, padding */
#elif defined(__aarch64__)
void accel_hip_switch(void **save, void *to);
__asm__(
    ".text\n"
    ".globl accel_hip_switch\n.hidden accel_hip_switch\n.type accel_hip_switch, %function\n"
    "accel_hip_switch:\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, "
    "[sp, #48]\n"
    "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, "
    "d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, "
    "[sp, #48]\n"
    "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, "
    "d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n"
    ".size accel_hip_switch, .-accel_hip_switch\n");
enum { FRAME = 20, ENTRY = 11 }; /* words: x19 .. x30, d8 .. d15; x30 is where ret goes */
#endif

static _Thread_local hip_fiber *starting; /* handed to the first instruction of a fiber */

/* ---- what the sanitizers must know of a switch ---- */

static void leaving(hip_fiber *f, bool in, void **fake) {
#if ACCEL_SANITIZER == 1
  if (in)
    __sanitizer_start_switch_fiber(fake, f->stack + (f->mapped - f->bytes), f->bytes);
  else
    __sanitizer_start_switch_fiber(fake, f->other_stack, f->other_bytes);
#elif ACCEL_SANITIZER == 2
  if (in) f->other_context = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(in ? f->own_context : f->other_context, 0);
#endif
  (void)f, (void)in, (void)fake;
}

static void arrived(hip_fiber *f, bool in, void *fake) {
#if ACCEL_SANITIZER == 1
  if (in)
    __sanitizer_finish_switch_fiber(fake, &f->other_stack, &f->other_bytes);
  else
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
#endif
  (void)f, (void)in, (void)fake;
}

/* ---- fibers ---- */

static void entry(void) {
  hip_fiber *f = starting;
  arrived(f, true, NULL);
  for (;;) {
    f->work(f->arg);
    hip_fiber_pause(f);
  }
}

hip_fiber *hip_fiber_new(size_t stack_bytes) {
  long page = sysconf(_SC_PAGESIZE);
  hip_fiber *f = page > 0 ? calloc(1, sizeof *f) : NULL;
  if (!f) return NULL;
  f->bytes = (stack_bytes + (size_t)page - 1) / (size_t)page * (size_t)page;
  f->mapped = f->bytes + (size_t)page;
  f->stack = mmap(NULL, f->mapped, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (f->stack == MAP_FAILED) {
    free(f);
    return NULL;
  }
  mprotect(f->stack, (size_t)page, PROT_NONE); /* an overflow traps; without it, it would not */
#if ACCEL_SANITIZER == 2
  f->own_context = __tsan_create_fiber(0);
#endif
  return f;
}

void hip_fiber_free(hip_fiber *f) {
  if (!f) return;
#if ACCEL_SANITIZER == 2
  __tsan_destroy_fiber(f->own_context);
#endif
#if ACCEL_SANITIZER == 1
  __asan_unpoison_memory_region(f->stack, f->mapped);
#endif
  munmap(f->stack, f->mapped);
  free(f);
}

void hip_fiber_start(hip_fiber *f, void (*work)(void *), void *arg) {
  f->work = work;
  f->arg = arg;
  char *bottom = f->stack + (f->mapped - f->bytes);
#if ACCEL_SANITIZER == 1
  __asan_unpoison_memory_region(bottom, f->bytes);
  f->fake = NULL;
#endif
#ifdef FIBER_UCONTEXT
  getcontext(&f->own);
  f->own.uc_stack.ss_sp = bottom;
  f->own.uc_stack.ss_size = f->bytes;
  f->own.uc_link = NULL;
  makecontext(&f->own, entry, 0);
#else
  uintptr_t *frame = (uintptr_t *)(void *)(bottom + f->bytes) - FRAME;
  for (int i = 0; i < FRAME; i++) frame[i] = 0;
  frame[ENTRY] = (uintptr_t)entry;
  f->own = frame;
#endif
}

void hip_fiber_resume(hip_fiber *f) {
  void *fake = NULL;
  starting = f;
  leaving(f, true, &fake);
#ifdef FIBER_UCONTEXT
  swapcontext(&f->other, &f->own);
#else
  accel_hip_switch(&f->other, f->own);
#endif
  arrived(f, false, fake);
}

void hip_fiber_pause(hip_fiber *f) {
#if ACCEL_SANITIZER == 1
  leaving(f, false, &f->fake);
#else
  leaving(f, false, NULL);
#endif
#ifdef FIBER_UCONTEXT
  swapcontext(&f->own, &f->other);
#else
  accel_hip_switch(&f->own, f->other);
#endif
#if ACCEL_SANITIZER == 1
  arrived(f, true, f->fake);
#endif
}
