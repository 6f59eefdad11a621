/* hardware_match_test.c - what device strings mean, in which order, and what is said when nothing
 * serves. */
#include "stubs/machine.h"

#include "hardware/hardware_internal.h"

/* An APU beside a card; the card also by Vulkan and OpenCL, where processors pretend to be devices,
 * too. */
static accel__hardware *big_machine(machine *m) {
  *m = machine_new();
  setenv("STUB_ROCM_DEVICES",
         "integrated;0000:0C:00.0;AMD Radeon Graphics;gfx1036;|discrete;0000:03:00.0;AMD Radeon RX "
         "6800;gfx1030;",
         1);
  setenv("STUB_VULKAN_DEVICES",
         "software;;llvmpipe (LLVM 15);;|discrete;03:00.0;AMD Radeon RX 6800 "
         "(RADV);;|discrete;0000:41:00.0;NVIDIA RTX A4000;;",
         1);
  setenv(
      "STUB_OPENCL_DEVICES",
      "software;;pocl-cpu;;|discrete;0000:03:00.0;gfx1030;;|software;;cpu;;;Intel(R) OpenCL 2026",
      1);
  setenv("STUB_NPU_DEVICES", "other;;Neural thing;;", 1);
  return machine_hardware(m, STUBS "/gpus");
}

/* "a b c": the names of the candidates in order. */
static void assert_choice(accel__hardware *h, const char *wanted, const char *names) {
  accel__choice choice;
  char got[512] = "";
  accel_status status = accel__hardware_choose(h, wanted, &choice);
  if (status != ACCEL_OK) fail_msg("%s: %s", wanted, accel__message());
  for (uint32_t i = 0; i < choice.n; i++)
    snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "",
             choice.device[i]->info.name);
  if (strcmp(got, names)) fail_msg("%s means '%s', expected '%s'", wanted, got, names);
  for (uint32_t i = 0; i < choice.n; i++) assert_non_null(choice.device[i]->plugin);
  accel__choice_free(&choice);
}

static void assert_refused(accel__hardware *h, const char *wanted, accel_status want,
                           const char *message, const char *remedy) {
  accel__choice choice;
  accel_status status = accel__hardware_choose(h, wanted, &choice);
  if (status != want)
    fail_msg("%s: status %d (%s), expected %d", wanted, status, accel__message(), want);
  assert_int_equal(choice.n, 0);
  assert_has(accel__message(), message);
  assert_has(accel__remedy_text(), remedy);
  accel__choice_free(&choice);
}

static void names_mean_devices(void **state) {
  machine m;
  accel__hardware *h = big_machine(&m);
  (void)state;
  assert_choice(h, NULL, "cpu");
  assert_choice(h, "", "cpu");
  assert_choice(h, " CPU ", "cpu");
  assert_choice(h, "cpu:0", "cpu");
  assert_choice(h, "rocm", "rocm:1 rocm:0"); /* the card before the APU */
  assert_choice(h, "rocm:0", "rocm:0");
  assert_choice(h, "HIP:1", "rocm:1");
  assert_choice(h, "amd", "rocm:1 rocm:0");
  assert_choice(h, "rocm:0000:03:00.0", "rocm:1");
  assert_choice(h, "rocm:0C:00.0", "rocm:0");
  assert_choice(h, "rocm:gfx1030", "rocm:1");
  assert_choice(h, "vulkan:llvmpipe", "vulkan:0");
  assert_choice(h, "vulkan:radv", "vulkan:1");
  /* by name a software device serves, last */
  assert_choice(h, "vulkan", "vulkan:1 vulkan:2 vulkan:0");
  assert_choice(h, "opencl:0", "opencl:0");
  assert_choice(h, "opencl:CPU", "opencl:0 opencl:2");
  assert_choice(h, "opencl:intel(r) opencl", "opencl:2"); /* no name: the driver's */
  assert_choice(h, "npu", "npu");
  accel__hardware_destroy(&h);
  machine_free(&m);
}

static void auto_takes_each_card_once_then_its_other_routes(void **state) {
  machine m;
  accel__hardware *h = big_machine(&m);
  (void)state;
  /* cards: 03 by ROCm, 41 by Vulkan; the APU; the NPU; then 03's other routes; the processor last;
   * no llvmpipe, no PoCL */
  assert_choice(h, "auto", "rocm:1 vulkan:2 rocm:0 npu opencl:1 vulkan:1 cpu");
  assert_choice(h, "gpu", "rocm:1 vulkan:2 rocm:0 npu opencl:1 vulkan:1");
  assert_choice(h, "gpu:0", "rocm:1 opencl:1 vulkan:1");
  assert_choice(h, "gpu:1", "vulkan:2");
  assert_choice(h, "gpu:2", "rocm:0");
  assert_choice(h, "pci:0000:03:00.0", "rocm:1 opencl:1 vulkan:1");
  assert_choice(h, "PCI:03:00.0", "rocm:1 opencl:1 vulkan:1");
  assert_choice(h, "rocm:1,cpu", "rocm:1 cpu");
  /* each device once */
  assert_choice(h, "vulkan:2, rocm , cpu, rocm:0", "vulkan:2 rocm:1 rocm:0 cpu");
  accel_devices *devices = NULL;
  assert_int_equal(accel__hardware_detect(h, false, &devices), ACCEL_OK);
  accel__choice choice;
  assert_int_equal(accel__hardware_choose(h, "gpu:0", &choice), ACCEL_OK);
  assert_true(choice.device[0]->card != 0);
  assert_int_equal(choice.device[0]->card, choice.device[1]->card);
  assert_int_equal(choice.device[0]->card, choice.device[2]->card);
  accel__choice_free(&choice);
  accel__devices_free(&devices);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

/* WebGPU knows no address of a card: the name and the PCI ids are those that Vulkan tells. */
static void a_card_without_an_address_is_known_by_its_name(void **state) {
  machine m = machine_new();
  (void)state;
  setenv("STUB_VULKAN_DEVICES",
         "discrete;0000:41:00.0;NVIDIA RTX A4000;10de:24b0;|integrated;0000:00:02.0;Intel UHD;"
         "8086:9bc8;",
         1);
  setenv("STUB_NPU_DEVICES",
         "discrete;npu-1;NVIDIA RTX A4000;10de:24b0;|integrated;npu-2;Intel UHD;8086:9bc5;", 1);
  accel__hardware *h = machine_hardware(&m, STUBS "/gpus");
  assert_choice(h, "gpu:0", "vulkan:0 npu:0");
  assert_choice(h, "gpu:1", "vulkan:1");
  assert_choice(h, "gpu:2", "npu:1"); /* of other PCI ids */
  accel__hardware_destroy(&h);
  machine_free(&m);
}

static void software_devices_need_leave(void **state) {
  machine m = machine_new();
  (void)state;
  setenv("STUB_VULKAN_DEVICES", "software;;llvmpipe;;", 1);
  setenv("STUB_NPU_DEVICES", "software;;an emulator;;", 1);
  accel__hardware *h = machine_hardware(&m, STUBS "/gpus");
  assert_choice(h, "auto", "cpu");
  assert_refused(h, "gpu", ACCEL_ERROR_DEVICE_UNAVAILABLE, "no usable GPU", "devices here: cpu");
  accel__hardware_destroy(&h);
  accel__hardware_params params = {.plugin_path = STUBS "/gpus",
                                   .probe = ACCEL_TEST_BUILD "/libexec/accel/accel-probe",
                                   .root = m.root,
                                   .allow_software = true};
  assert_int_equal(accel__hardware_create(&params, &h), ACCEL_OK);
  assert_choice(h, "auto", "vulkan:0 cpu"); /* never the emulator */
  assert_choice(h, "npu", "npu");
  accel__hardware_destroy(&h);
  machine_free(&m);
}

static void a_broken_route_leaves_the_next(void **state) {
  machine m = machine_new();
  accel__choice choice;
  (void)state;
  setenv(
      "STUB_ROCM_DEVICES",
      "discrete;0000:03:00.0;AMD Radeon RX 6600;gfx1032;built for gfx1030, the device is gfx1032",
      1);
  setenv("STUB_VULKAN_DEVICES", "discrete;0000:03:00.0;AMD Radeon RX 6600 (RADV);;", 1);
  accel__hardware *h = machine_hardware(&m, STUBS "/gpus");
  assert_int_equal(accel__hardware_choose(h, "auto", &choice), ACCEL_OK);
  assert_int_equal(choice.n, 2);
  assert_string_equal(choice.device[0]->info.name, "vulkan:0");
  assert_has(choice.reason[0], "rocm:0: built for gfx1030");
  accel__choice_free(&choice);
  assert_choice(h, "gpu:0", "vulkan:0");
  assert_refused(h, "rocm:0", ACCEL_ERROR_DEVICE_UNAVAILABLE, "built for gfx1030",
                 "devices here: vulkan:0 (AMD Radeon RX 6600 (RADV)), cpu");
  accel__hardware_destroy(&h);
  machine_free(&m);
}

/* cuda on an AMD machine names rocm:0; what is not there says why; what is no device at all is a
 * usage error. */
static void refusals_help(void **state) {
  machine m;
  accel__hardware *h = big_machine(&m);
  (void)state;
  setenv("STUB_HIP", "AMD Radeon RX 6800@0000:03:00.0@16368", 1);
  assert_refused(h, "cuda", ACCEL_ERROR_DEVICE_UNAVAILABLE, "rocm:0", "devices here: rocm:0");
  assert_refused(h, "nvidia:1", ACCEL_ERROR_DEVICE_UNAVAILABLE, "AMD", "rocm:0");
  assert_refused(h, "rocm:7", ACCEL_ERROR_DEVICE_UNAVAILABLE,
                 "there are rocm:1 (AMD Radeon RX 6800), rocm:0", "rocm:0");
  assert_refused(h, "gpu:9", ACCEL_ERROR_DEVICE_UNAVAILABLE, "there are 4 usable GPUs", "cpu");
  assert_refused(h, "pci:0000:99:00.0", ACCEL_ERROR_DEVICE_UNAVAILABLE, "no device at this address",
                 "");
  assert_refused(h, "vulkan:radeon vii", ACCEL_ERROR_DEVICE_UNAVAILABLE, "no such device", "");
  assert_refused(h, "apple", ACCEL_ERROR_DEVICE_UNAVAILABLE, "macOS", "use cpu");
  assert_refused(h, "mps", ACCEL_ERROR_DEVICE_UNAVAILABLE, "macOS", "use cpu");
  assert_refused(h, "webnn", ACCEL_ERROR_DEVICE_UNAVAILABLE, "web browsers", "use cpu");
  assert_refused(h, "openvino", ACCEL_ERROR_DEVICE_UNAVAILABLE, "libaccel_openvino.so", "");
  assert_refused(h, "reference", ACCEL_ERROR_DEVICE_UNAVAILABLE, "no plugin of this name", "");
  assert_refused(h, "vulcan", ACCEL_ERROR_ARGUMENT, "did you mean 'vulkan'?", "");
  assert_refused(h, "rocm:", ACCEL_ERROR_ARGUMENT, "nothing after the colon", "");
  assert_refused(h, "cpu,,rocm", ACCEL_ERROR_ARGUMENT, "empty name", "");
  assert_refused(h, ",", ACCEL_ERROR_ARGUMENT, "empty name", "");
  assert_refused(h, "auto:1", ACCEL_ERROR_ARGUMENT, "auto takes nothing", "");
  assert_refused(h, "gpu:one", ACCEL_ERROR_ARGUMENT, "gpu takes a number", "");
  assert_refused(h, "pci", ACCEL_ERROR_ARGUMENT, "pci needs an address", "");
  assert_refused(h, "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu",
                 ACCEL_ERROR_ARGUMENT, "more than 16", "");
  char *long_name = calloc(1, 5001);
  memset(long_name, 'x', 5000);
  assert_refused(h, long_name, ACCEL_ERROR_ARGUMENT, "longer than", "");
  free(long_name);
  accel__choice choice; /* a chain goes on, and says what it passed over */
  assert_int_equal(accel__hardware_choose(h, "cuda:0,cpu", &choice), ACCEL_OK);
  assert_int_equal(choice.n, 1);
  assert_string_equal(choice.device[0]->info.name, "cpu");
  assert_true(choice.n_reasons >= 1);
  assert_has(choice.reason[0], "cuda");
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

/* A CUDA layer over an AMD card: one device, AMD's, never CUDA's; with ROCm's own route it is not
 * listed again. */
static void an_amd_card_behind_cuda_is_amd(void **state) {
  machine m = machine_new();
  (void)state;
  setenv("STUB_CUDA_DEVICES",
         "discrete;0000:03:00.0;AMD Radeon RX 7900 XTX;sm_89;|discrete;0000:41:00.0;NVIDIA RTX "
         "A4000;sm_86;",
         1);
  accel__hardware *h = machine_hardware(&m, STUBS "/gpus");
  assert_choice(h, "cuda", "cuda:0");
  assert_choice(h, "amd", "rocm:0");
  accel__choice choice;
  assert_int_equal(accel__hardware_choose(h, "rocm:0", &choice), ACCEL_OK);
  assert_string_equal(choice.device[0]->info.hardware, "amd");
  assert_string_equal(choice.device[0]->info.plugin, "cuda");
  assert_int_equal(choice.device[0]->info.is_amd, 1);
  assert_int_equal(choice.device[0]->index, 0);
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  setenv("STUB_ROCM_DEVICES", "discrete;0000:03:00.0;AMD Radeon RX 7900 XTX;gfx1100;", 1);
  h = machine_hardware(&m, STUBS "/gpus");
  assert_choice(h, "cuda", "cuda:0");
  assert_choice(h, "auto", "rocm:0 cuda:0 cpu");
  assert_int_equal(accel__hardware_choose(h, "rocm", &choice), ACCEL_OK);
  assert_int_equal(choice.n, 1);
  assert_string_equal(choice.device[0]->info.plugin, "rocm");
  accel__choice_free(&choice);
  cJSON *report = machine_report(h);
  int rocm = 0;
  for (const cJSON *d = cJSON_GetObjectItem(report, "devices")->child; d; d = d->next)
    rocm += !strcmp(report_text(d, "hardware"), "amd");
  assert_int_equal(rocm, 1);
  cJSON_Delete(report);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

/* Two builds for two ROCm majors: the second file of the name is not used. */
static void one_file_of_several_for_rocm_is_used(void **state) {
  machine m = machine_new();
  (void)state;
  setenv("STUB_ROCM_DEVICES", "discrete;0000:03:00.0;AMD Radeon RX 6800;gfx1030;", 1);
  accel__hardware *h = machine_hardware(&m, STUBS "/gpus");
  assert_choice(h, "rocm", "rocm:0");
  cJSON *report = machine_report(h);
  const cJSON *second =
      report_find(cJSON_GetObjectItem(report, "plugins"), "path", STUBS "/gpus/libaccel_rocm6.so");
  assert_string_equal(report_text(second, "verdict"), "shadowed");
  cJSON_Delete(report);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

/* Names of cards from drivers may hold anything. */
static void names_of_vendors_are_told_apart(void **state) {
  (void)state;
  assert_true(accel__name_is_amd("AMD Radeon Pro W6800"));
  assert_true(accel__name_is_amd("Radeon RX 580"));
  assert_true(accel__name_is_amd("Advanced Micro Devices [AMD/ATI]"));
  assert_false(accel__name_is_amd("NVIDIA GeForce RTX 4090"));
  assert_false(accel__name_is_amd("Damdam 3000"));
  assert_false(accel__name_is_amd(""));
}

/* A placement over several devices is one member of a chain: the first device of each name. */
static void several_devices_are_one(void **state) {
  machine m;
  accel__hardware *h = big_machine(&m);
  accel__choice choice, again;
  accel_plugin_memory memory = {.size = sizeof memory};
  (void)state;
  assert_int_equal(accel__hardware_choose(h, "ROCM = 0-11 + cpu=12, vulkan+cpu,cpu", &choice),
                   ACCEL_OK);
  assert_int_equal(choice.n, 3);
  const accel__device *d = choice.device[0];
  assert_string_equal(d->info.name, "rocm:1=0-11+cpu=12-12");
  assert_null(d->plugin);
  assert_int_equal(d->parts->n, 2);
  assert_string_equal(d->parts->device[0]->info.name, "rocm:1");
  assert_int_equal(d->parts->first[1], 12);
  assert_string_equal(choice.device[1]->info.name, "vulkan:1+cpu");
  assert_int_equal(choice.device[1]->parts->first[0], -1);
  assert_null(choice.device[2]->parts);
  assert_int_equal(accel__device_memory(h, choice.device[1], &memory), ACCEL_OK);
  assert_int_equal(accel__hardware_choose(h, "cpu,vulkan+cpu", &again), ACCEL_OK);
  assert_ptr_equal(again.device[1], choice.device[1]); /* the same device each time */
  accel__choice_free(&again);
  accel__choice_free(&choice);
  assert_refused(h, "cpu=0-1", ACCEL_ERROR_ARGUMENT, "add a part with '+'", "");
  assert_refused(h, "cpu+", ACCEL_ERROR_ARGUMENT, "part 2 names no device", "");
  assert_refused(h, "cpu+nosuch", ACCEL_ERROR_ARGUMENT, "'nosuch' is not known", "");
  assert_refused(h, "adreno", ACCEL_ERROR_ARGUMENT, "as in vulkan:adreno", "");
  assert_refused(h, "cpu+vulkan:9", ACCEL_ERROR_DEVICE_UNAVAILABLE, "vulkan:9: no such device", "");
  assert_refused(h, "a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a+a", ACCEL_ERROR_ARGUMENT, "more than 16 parts",
                 "");
  accel__hardware_destroy(&h);
  machine_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_mean_devices),
      cmocka_unit_test(auto_takes_each_card_once_then_its_other_routes),
      cmocka_unit_test(several_devices_are_one),
      cmocka_unit_test(a_card_without_an_address_is_known_by_its_name),
      cmocka_unit_test(software_devices_need_leave),
      cmocka_unit_test(a_broken_route_leaves_the_next),
      cmocka_unit_test(refusals_help),
      cmocka_unit_test(an_amd_card_behind_cuda_is_amd),
      cmocka_unit_test(one_file_of_several_for_rocm_is_used),
      cmocka_unit_test(names_of_vendors_are_told_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
