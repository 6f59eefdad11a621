/* hardware_amd_test.c - AMD cards by HIP, HSA, sysfs, rocm-smi and a CUDA layer; permissions,
 * visibility, the gfx override.
 */
#include "stubs/machine.h"

#include <errno.h>

#include "hardware/hardware_internal.h"

#define DGPU "0000:03:00.0"
#define APU  "0000:0c:00.0"

static const cJSON *amd_of(const cJSON *report) {
  return cJSON_GetObjectItemCaseSensitive(report, "amd_details");
}
static const cJSON *source_of(const cJSON *report, const char *name) {
  const cJSON *row =
      report_find(cJSON_GetObjectItemCaseSensitive(amd_of(report), "sources"), "source", name);
  assert_non_null(row);
  return row;
}
static const cJSON *card_of(const cJSON *report, int i) {
  return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(amd_of(report), "devices"), i);
}

static char *all_differences(const cJSON *report) {
  return cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(amd_of(report), "differences"));
}

static cJSON *look(const machine *m) {
  accel__hardware *h = machine_hardware(m, STUBS "/nowhere");
  cJSON *report = machine_report(h);
  accel__hardware_destroy(&h);
  return report;
}

static void two_cards(const machine *m) { /* a card and an APU, as the kernel shows them */
  machine_kfd(m, 1, 100300, 0x03, 0, 16368, 0x1122334455667788);
  machine_kfd(m, 2, 100306, 0x0c, 8, 512, 0);
  machine_drm(m, 0, DGPU, "AMD Radeon RX 6800", 16368, 1024, 15900);
  machine_drm(m, 1, APU, "", 512, 100, 15900);
}

static void nothing_is_nothing(void **state) {
  machine m = machine_new();
  cJSON *report = look(&m);
  (void)state;
  assert_false(report_true(report, "amd"));
  assert_int_equal(report_number(report, "amd_devices"), 0);
  assert_false(report_true(report, "cuda"));
  const cJSON *row = report_device(report, "rocm");
  assert_non_null(row);
  assert_has(report_text(row, "reason"), "amdgpu kernel driver is not loaded");
  assert_has(report_text(row, "remedy"), "modprobe amdgpu");
  const cJSON *kfd = report_find(cJSON_GetObjectItem(amd_of(report), "access"), "path", "/dev/kfd");
  assert_int_equal(report_number(kfd, "errno"), ENOENT);
  cJSON_Delete(report);
  machine_free(&m);
}

static void sysfs_alone_describes_the_cards(void **state) {
  machine m = machine_new();
  (void)state;
  two_cards(&m);
  machine_write(&m, "sys/module/amdgpu/version", "6.3.6\n");
  machine_write(&m, "opt/rocm/.info/version", "6.0.2-115\n");
  cJSON *report = look(&m);
  assert_true(report_true(report, "amd"));
  assert_int_equal(report_number(report, "amd_devices"), 2);
  assert_string_equal(report_text(report, "amd_version"), "6.0.2");
  assert_string_equal(report_text(amd_of(report), "believed"), "sysfs");
  assert_string_equal(report_text(amd_of(report), "driver"), "amdgpu 6.3.6");
  const cJSON *card = card_of(report, 0), *apu = card_of(report, 1);
  assert_string_equal(report_text(card, "name"), "AMD Radeon RX 6800");
  assert_string_equal(report_text(card, "arch"), "gfx1030");
  assert_string_equal(report_text(card, "id"), DGPU);
  assert_string_equal(report_text(card, "uuid"), "GPU-1122334455667788");
  assert_string_equal(report_text(card, "type"), "discrete");
  assert_int_equal(report_number(card, "memory_total"), (int64_t)16368 << 20);
  assert_int_equal(report_number(card, "memory_used"), (int64_t)1024 << 20);
  assert_int_equal(report_number(card, "gtt_total"), (int64_t)15900 << 20);
  assert_int_equal(report_number(card, "units"), 72);
  assert_int_equal(report_number(card, "wave"), 32);
  assert_string_equal(report_text(apu, "arch"), "gfx1036");
  assert_string_equal(report_text(apu, "type"), "integrated");
  /* the chip's, where no product name is written */
  assert_string_equal(report_text(apu, "name"), "codename2");
  /* found, yet not usable: no HIP devices, no plugin */
  const cJSON *row = report_device(report, "rocm");
  assert_true(report_true(row, "found"));
  assert_false(report_true(row, "compiled"));
  assert_true(report_true(row, "is_amd"));
  assert_has(report_text(row, "reason"), "AMD Radeon RX 6800");
  assert_has(report_text(row, "reason"), "no plugin for it");
  cJSON_Delete(report);
  machine_free(&m);
}

static void gfx_names_are_hexadecimal(void **state) {
  machine m = machine_new();
  (void)state;
  machine_kfd(&m, 1, 90010, 0x03, 0, 65520, 1);
  machine_kfd(&m, 2, 90402, 0x05, 0, 65520, 2);
  machine_kfd(&m, 3, 110501, 0x07, 0, 512, 0);
  cJSON *report = look(&m);
  assert_string_equal(report_text(card_of(report, 0), "arch"), "gfx90a");
  assert_string_equal(report_text(card_of(report, 1), "arch"), "gfx942");
  assert_string_equal(report_text(card_of(report, 2), "arch"), "gfx1151");
  assert_string_equal(report_text(card_of(report, 2), "type"), "integrated");
  assert_int_equal(report_number(card_of(report, 0), "memory_total"),
                   (int64_t)65520 << 20); /* from mem_banks: there is no DRM card */
  cJSON_Delete(report);
  machine_free(&m);
}

static void a_card_without_kfd_is_still_seen(void **state) {
  machine m = machine_new();
  (void)state;
  machine_drm(&m, 0, DGPU, "", 2048, 10, 4096);
  cJSON *report = look(&m);
  assert_int_equal(report_number(report, "amd_devices"), 1);
  assert_has(report_text(card_of(report, 0), "platform"), "DRM only");
  assert_has(report_text(report_device(report, "rocm"), "reason"),
             "/dev/kfd: No such file or directory");
  cJSON_Delete(report);
  machine_free(&m);
}

static void hip_is_believed_first_and_gaps_are_filled(void **state) {
  machine m = machine_new();
  char smi[128];
  (void)state;
  two_cards(&m);
  setenv("STUB_HIP", "AMD Radeon RX 6800@0000:03:00.0@16368|AMD Radeon Graphics@0000:0C:00.0@512",
         1);
  setenv("STUB_HSA",
         "gfx1030@AMD Radeon RX 6800@03:00.0@16368|gfx1036@AMD Radeon Graphics@0c:00.0@512", 1);
  machine_write(&m, "smi.json",
                "{\"card0\": {\"Card series\": \"Radeon RX 6800\", \"PCI Bus\": \"0000:03:00.0\", "
                "\"GFX Version\": \"gfx1030\", "
                "\"VRAM Total Memory (B)\": \"17163091968\", \"VRAM Total Used Memory (B)\": "
                "\"1073741824\", \"Unique ID\": "
                "\"0x1122334455667788\"}, "
                "\"system\": {\"Driver version\": \"6.3.6\"}}\n");
  snprintf(smi, sizeof smi, "%s/smi.json", m.root);
  setenv("STUB_SMI", smi, 1);
  cJSON *report = look(&m);
  assert_string_equal(report_text(amd_of(report), "believed"), "hip");
  assert_int_equal(report_number(report, "amd_devices"), 2);
  /* HIP's, where ROCm's is not written down */
  assert_string_equal(report_text(report, "amd_version"), "6.0.32831");
  assert_string_equal(report_text(source_of(report, "hip"), "library"), "libamdhip64.so.7");
  assert_string_equal(report_text(source_of(report, "hsa"), "version"), "1.14");
  assert_string_equal(report_text(source_of(report, "rocm-smi"), "driver"), "6.3.6");
  const cJSON *card = card_of(report, 0);
  /* HIP does not say: from HSA */
  assert_string_equal(report_text(card, "arch"), "gfx1030");
  assert_int_equal(report_number(card, "gtt_total"), (int64_t)15900 << 20); /* from sysfs */
  assert_string_equal(report_text(card_of(report, 1), "type"), "integrated");
  char *differences = all_differences(report);
  assert_has(differences, "hip lists 2 devices, rocm-smi lists 1");
  assert_null(strstr(differences, "MiB"));
  free(differences);
  const cJSON *smi_card =
      cJSON_GetArrayItem(cJSON_GetObjectItem(source_of(report, "rocm-smi"), "devices"), 0);
  assert_string_equal(report_text(smi_card, "name"), "Radeon RX 6800");
  cJSON_Delete(report);
  machine_free(&m);
}

/* The sources in turn: each alone answers. */
static void each_source_alone_answers(void **state) {
  static const struct {
    const char *hip, *hsa, *cuda, *believed;
  } machines[] = {{NULL, "gfx906@AMD Instinct MI60@41:00.0@32752", NULL, "hsa"},
                  {"crash", "gfx906@AMD Instinct MI60@41:00.0@32752", NULL, "hsa"},
                  {"fail", "denied", "AMD Radeon RX 7900 XTX", "cuda-amd"},
                  /* a driver that prints to stdout does not spoil the answer */
                  {"print", NULL, NULL, "hip"}};
  (void)state;
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
    machine m = machine_new();
    if (machines[i].hip) setenv("STUB_HIP", machines[i].hip, 1);
    if (machines[i].hsa) setenv("STUB_HSA", machines[i].hsa, 1);
    if (machines[i].cuda) setenv("STUB_CUDA", machines[i].cuda, 1);
    cJSON *report = look(&m);
    assert_true(report_true(report, "amd"));
    assert_string_equal(report_text(amd_of(report), "believed"), machines[i].believed);
    assert_false(report_true(report, "cuda")); /* never both */
    assert_int_equal(report_number(report, "cuda_devices"), 0);
    if (i == 1) assert_has(report_text(source_of(report, "hip"), "reason"), "the probe");
    if (i == 2) {
      assert_has(report_text(source_of(report, "hip"), "reason"),
                 "hipInit answered 999 (stub says no)");
      assert_has(report_text(source_of(report, "hsa"), "reason"), "0x1008");
      assert_has(report_text(report_device(report, "cuda"), "reason"), "rocm:0");
    }
    cJSON_Delete(report);
    machine_free(&m);
  }
}

static void rocm_smi_alone_answers(void **state) {
  machine m = machine_new();
  char smi[128];
  (void)state;
  machine_write(
      &m, "smi.json",
      "{\"card0\": {\"Card Series\": \"AMD Radeon PRO W7900\", \"PCI Bus\": \"0000:03:00.0\", "
      "\"GFX Version\": \"gfx1100\", "
      "\"VRAM Total Memory (B)\": \"48301604864\", \"GTT Total Memory (B)\": \"33000000000\"}}\n");
  snprintf(smi, sizeof smi, "%s/smi.json", m.root);
  setenv("STUB_SMI", smi, 1);
  cJSON *report = look(&m);
  assert_string_equal(report_text(amd_of(report), "believed"), "rocm-smi");
  assert_int_equal(report_number(card_of(report, 0), "memory_total"), 48301604864);
  assert_string_equal(report_text(card_of(report, 0), "name"),
                      "AMD Radeon PRO W7900"); /* other releases write other capitals */
  cJSON_Delete(report);
  machine_free(&m);
}

static void a_bad_rocm_smi_is_a_sentence(void **state) {
  static const char *const modes[][2] = {{"fail", "exit code 3"}, {"nonsense", "printed no JSON"}};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    machine m = machine_new();
    setenv("STUB_SMI", modes[i][0], 1);
    cJSON *report = look(&m);
    assert_has(report_text(source_of(report, "rocm-smi"), "reason"), modes[i][1]);
    cJSON_Delete(report);
    machine_free(&m);
  }
  machine m = machine_new();
  setenv("STUB_SMI", "hang", 1);
  setenv("STUB_HIP", "hang", 1);
  accel__hardware *h = NULL;
  accel__hardware_params params = {.plugin_path = STUBS "/nowhere",
                                   .probe = ACCEL_TEST_BUILD "/libexec/accel/accel-probe",
                                   .root = m.root,
                                   .probe_timeout_ms = 2500};
  assert_int_equal(accel__hardware_create(&params, &h), ACCEL_OK);
  cJSON *report = machine_report(h);
  assert_has(report_text(source_of(report, "rocm-smi"), "reason"), "hung");
  assert_has(report_text(source_of(report, "hip"), "reason"), " s in the probe while hipInit");
  cJSON_Delete(report);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

static void sources_that_differ_are_shown(void **state) {
  machine m = machine_new();
  (void)state;
  two_cards(&m);
  setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0", 1);
  setenv("STUB_HIP", "AMD Radeon RX 6800@0000:03:00.0@16368|AMD Radeon Graphics@0000:0C:00.0@15000",
         1);
  setenv("STUB_HSA",
         "gfx1030@AMD Radeon RX 6800@03:00.0@16368|gfx1036@AMD Radeon Graphics@0c:00.0@15000", 1);
  cJSON *report = look(&m);
  char *differences = all_differences(report);
  /* the override, uncovered */
  assert_has(differences, APU ": hsa says gfx1030, sysfs says gfx1036");
  assert_has(differences, APU ": hip says 15000 MiB of memory, sysfs says 512 MiB");
  free(differences);
  cJSON_Delete(report);
  machine_free(&m);
}

/* ---- visibility ---- */

static const cJSON *variable_of(const cJSON *report, const char *name) {
  return report_find(cJSON_GetObjectItemCaseSensitive(report, "environment"), "name", name);
}

static void visibility_variables_are_obeyed_and_shown(void **state) {
  static const struct {
    /* shown: addresses left, in the kernel's order */
    const char *rocr, *ordinal, *hip, *cuda, *shown;
  } want[] = {{NULL, NULL, NULL, NULL, DGPU " " APU},
              {"0", NULL, NULL, NULL, DGPU},
              {"1", NULL, NULL, NULL, APU},
              {NULL, NULL, "1", NULL, APU},
              {"1", NULL, "0", NULL, APU}, /* HIP counts among what ROCR leaves */
              {"1", NULL, "1", NULL, ""},
              {NULL, NULL, NULL, "1", APU}, /* HIP obeys CUDA's variable */
              {NULL, NULL, "0", "1", DGPU}, /* and prefers its own */
              {NULL, "1", NULL, NULL, APU},
              {"GPU-1122334455667788", NULL, NULL, NULL, DGPU},
              {"GPU-1122", NULL, NULL, NULL, DGPU},
              {NULL, NULL, "-1", NULL, ""},
              {"1,0", NULL, "0", NULL, APU}, /* the list's order counts */
              {"7", NULL, NULL, NULL, ""},
              {"", NULL, NULL, NULL, DGPU " " APU}};
  machine m = machine_new();
  (void)state;
  two_cards(&m);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const char *const names[4] = {"ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
                                  "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"};
    const char *const values[4] = {want[i].rocr, want[i].ordinal, want[i].hip, want[i].cuda};
    char got[128] = "";
    for (int v = 0; v < 4; v++) values[v] ? setenv(names[v], values[v], 1) : unsetenv(names[v]);
    accel__gpu cards[2] = {{.id = DGPU, .uuid = "GPU-1122334455667788"}, {.id = APU, .uuid = ""}};
    accel__amd_hide(cards, 2);
    for (int c = 0; c < 2; c++)
      if (!cards[c].hidden)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", *got ? " " : "", cards[c].id);
    if (strcmp(got, want[i].shown))
      fail_msg("case %zu shows '%s', expected '%s'", i, got, want[i].shown);
  }
  setenv("ROCR_VISIBLE_DEVICES", "7", 1);
  setenv("HIP_VISIBLE_DEVICES", "", 1);
  cJSON *report = look(&m);
  assert_false(report_true(report, "amd"));
  assert_int_equal(report_number(report, "amd_devices"), 0);
  assert_has(report_text(report_device(report, "rocm"), "reason"),
             "hidden by ROCR_VISIBLE_DEVICES");
  assert_string_equal(report_text(variable_of(report, "ROCR_VISIBLE_DEVICES"), "value"), "7");
  assert_true(report_true(variable_of(report, "HIP_VISIBLE_DEVICES"), "warning"));
  assert_has(report_text(variable_of(report, "HIP_VISIBLE_DEVICES"), "verdict"), "empty");
  assert_string_equal(getenv("ROCR_VISIBLE_DEVICES"), "7"); /* shown, never set */
  cJSON_Delete(report);
  machine_free(&m);
}

static void the_gfx_override_is_judged(void **state) {
  static const struct {
    const char *value, *verdict;
    int warning;
  } want[] = {
      {"", "breaks the ROCm runtime", 1},  {"10.3.0", "a sister chip", 0},
      {"10.3.1", "not needed", 0},         {"10.1.0", "another line of the same generation", 1},
      {"11.0.0", "another generation", 1}, {"gfx1030", "not a version", 1},
      {"10.3.0x", "not a version", 1}};
  machine m = machine_new();
  (void)state;
  machine_kfd(&m, 1, 100301, 0x03, 0, 12272, 0);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    setenv("HSA_OVERRIDE_GFX_VERSION", want[i].value, 1);
    cJSON *report = look(&m);
    const cJSON *row = variable_of(report, "HSA_OVERRIDE_GFX_VERSION");
    assert_has(report_text(row, "verdict"), want[i].verdict);
    assert_int_equal(report_true(row, "warning"), want[i].warning);
    cJSON_Delete(report);
  }
  machine_free(&m);
}

/* ---- permissions ---- */

static void a_closed_kfd_names_the_usermod_line(void **state) {
  machine m = machine_new();
  char path[128];
  (void)state;
  two_cards(&m);
  snprintf(path, sizeof path, "%s/dev/kfd", m.root);
  assert_int_equal(chmod(path, 0000), 0);
  assert_int_equal(chmod(m.root, 0755), 0);
  uid_t me = geteuid();
  if (me == 0) assert_int_equal(seteuid(65534), 0); /* root may open everything */
  cJSON *report = look(&m);
  if (me == 0) assert_int_equal(seteuid(0), 0);
  const cJSON *kfd = report_find(cJSON_GetObjectItem(amd_of(report), "access"), "path", "/dev/kfd");
  assert_int_equal(report_number(kfd, "errno"), EACCES);
  assert_false(report_true(kfd, "usable"));
  assert_true(strlen(report_text(kfd, "group")) > 0);
  assert_has(report_text(kfd, "remedy"), "sudo usermod -aG render,video");
  assert_has(report_text(kfd, "remedy"), "$USER");
  assert_has(report_text(report_device(report, "rocm"), "reason"), "/dev/kfd: Permission denied");
  assert_has(report_text(report_device(report, "rocm"), "remedy"), "usermod");
  cJSON_Delete(report);
  machine_free(&m);
}

/* ---- memory ---- */

/* What other programs use counts, and an APU computes from VRAM and GTT together. */
static void memory_takes_the_kernels_word(void **state) {
  machine m = machine_new();
  accel__choice choice;
  accel_plugin_memory memory;
  (void)state;
  machine_kfd(&m, 1, 100300, 0x03, 0, 4096, 0);
  machine_kfd(&m, 2, 100306, 0x0c, 8, 512, 0);
  machine_drm(&m, 0, DGPU, "", 4096, 1000, 15900);
  machine_drm(&m, 1, APU, "", 512, 100, 2000);
  setenv("STUB_ROCM_DEVICES",
         "discrete;0000:03:00.0;AMD Radeon;gfx1030;|integrated;0000:0c:00.0;AMD Radeon "
         "Graphics;gfx1036;",
         1);
  accel__hardware *h = machine_hardware(&m, STUBS "/gpus");
  assert_int_equal(accel__hardware_choose(h, "rocm", &choice), ACCEL_OK);
  /* the stub says 8 GiB, 6 free */
  assert_int_equal(accel__device_memory(h, choice.device[0], &memory), ACCEL_OK);
  assert_int_equal(memory.total, (uint64_t)4096 << 20);
  assert_int_equal(memory.free, (uint64_t)3096 << 20);
  assert_int_equal(accel__device_memory(h, choice.device[1], &memory), ACCEL_OK);
  assert_int_equal(memory.total, (uint64_t)2512 << 20);
  assert_int_equal(memory.free, (uint64_t)2412 << 20);
  accel__choice_free(&choice);
  accel__hardware_destroy(&h);
  machine_free(&m);
}

/* ---- CUDA proper ---- */

static void cuda_is_counted_without_amd(void **state) {
  machine m = machine_new();
  (void)state;
  setenv("STUB_CUDA", "NVIDIA H200|AMD Radeon RX 7900 XTX|NVIDIA RTX A4000", 1);
  cJSON *report = look(&m);
  assert_true(report_true(report, "cuda"));
  assert_string_equal(report_text(report, "cuda_version"), "12.4");
  assert_int_equal(report_number(report, "cuda_devices"), 2);
  assert_int_equal(report_number(report, "amd_devices"), 1);
  const cJSON *cuda = report_find(cJSON_GetObjectItem(report, "vendors"), "source", "cuda");
  const cJSON *card = cJSON_GetArrayItem(cJSON_GetObjectItem(cuda, "devices"), 0);
  assert_string_equal(report_text(card, "arch"), "sm_89");
  assert_string_equal(report_text(card, "id"), "0000:03:00.0");
  assert_has(report_text(report_device(report, "cuda"), "reason"), "NVIDIA H200, NVIDIA RTX A4000");
  cJSON_Delete(report);
  setenv("STUB_CUDA", "stub", 1);
  report = look(&m);
  assert_false(report_true(report, "cuda"));
  assert_has(report_text(report_device(report, "cuda"), "reason"), "cuInit answered 34");
  assert_has(report_text(report_device(report, "cuda"), "remedy"), "LD_LIBRARY_PATH");
  cJSON_Delete(report);
  machine_free(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_nothing),
      cmocka_unit_test(sysfs_alone_describes_the_cards),
      cmocka_unit_test(gfx_names_are_hexadecimal),
      cmocka_unit_test(a_card_without_kfd_is_still_seen),
      cmocka_unit_test(hip_is_believed_first_and_gaps_are_filled),
      cmocka_unit_test(each_source_alone_answers),
      cmocka_unit_test(rocm_smi_alone_answers),
      cmocka_unit_test(a_bad_rocm_smi_is_a_sentence),
      cmocka_unit_test(sources_that_differ_are_shown),
      cmocka_unit_test(visibility_variables_are_obeyed_and_shown),
      cmocka_unit_test(the_gfx_override_is_judged),
      cmocka_unit_test(a_closed_kfd_names_the_usermod_line),
      cmocka_unit_test(memory_takes_the_kernels_word),
      cmocka_unit_test(cuda_is_counted_without_amd),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
