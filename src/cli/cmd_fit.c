/* cmd_fit.c - accel fit: what a model takes on each device at each precision, and whether it is
 * there. */
#include <string.h>

#include "cli/cli_print.h"

/* Only where a limit was given, or weights come from host memory. */
static void print_streaming(cli_json *json, const accel_fit_record *f) {
  if (!f->stream_least && !f->streams) return;
  cli_json_bool(json, "streams", f->streams);
  if (f->stream_least) cli_json_int(json, "stream_least_bytes", (int64_t)f->stream_least);
  if (!f->streams) return;
  cli_json_int(json, "stream_resident_bytes", (int64_t)f->stream_resident);
  cli_json_int(json, "stream_staging_bytes", (int64_t)f->stream_staging);
  cli_json_int(json, "stream_read_bytes_per_run", (int64_t)f->stream_read);
  if (f->stream_host) cli_json_int(json, "stream_host_bytes", (int64_t)f->stream_host);
  if (f->stream_disk) cli_json_int(json, "stream_disk_bytes_per_run", (int64_t)f->stream_disk);
}

/* null: not known. */
static void print_known(cli_json *json, const char *name, double value) {
  if (value > 0)
    cli_json_double(json, name, value);
  else
    cli_json_null(json, name);
}

/* The most that the process has, loading or running; 0: not known, or the device is no CPU. */
static uint64_t predicted_peak(const accel_fit_report *r, const accel_fit_record *f) {
  return f->resident ? r->process + f->peak : 0;
}

/* With times: also what they follow from. */
static void print_times(cli_json *json, const accel_fit_report *r, const accel_fit_record *f) {
  if (f->resident)
    cli_json_int(json, "predicted_peak_bytes", (int64_t)predicted_peak(r, f));
  else
    cli_json_null(json, "predicted_peak_bytes");
  cli_json_int(json, "sequences_at_once", (int64_t)f->at_once);
  print_known(json, "disk_bytes_per_s", f->disk_bytes_per_second);
  if (f->stream_host) print_known(json, "copy_bytes_per_s", f->copy_bytes_per_second);
  print_known(json, "compute_seconds", f->compute_seconds);
  print_known(json, "seconds_per_token", f->seconds_per_token);
  print_known(json, "seconds_to_first_token", f->seconds_to_first);
}

static void say_seconds(const char *what, double seconds) {
  if (seconds > 0)
    printf("%s %.3g s", what, seconds);
  else
    printf("%s not known", what);
}

/* What of the weights stays in memory and what is read again, in a line for each device and
 * precision that streams. */
static void print_streams(const accel_fit_report *r) {
  char bytes[6][32];
  for (uint32_t i = 0; i < r->n; ++i) {
    const accel_fit_record *f = &r->record[i];
    const uint64_t value[6] = {f->stream_resident, f->stream_read, f->stream_staging,
                               f->stream_least,    f->stream_host, f->stream_disk};
    for (int k = 0; k < 6; ++k) cli_bytes(value[k], bytes[k], sizeof bytes[k]);
    if (f->streams && f->stream_host)
      printf(
          "%s at %s streams from host memory: %s of weights stay on the device, %s lie in host "
          "memory, %s are copied in each run through %s%s%s\n",
          f->device, f->precision, bytes[0], bytes[4], bytes[1], bytes[2],
          f->stream_disk ? ", of them from files " : "", f->stream_disk ? bytes[5] : "");
    else if (f->streams)
      printf(
          "%s at %s streams: %s of weights stay in memory, %s are read in each run, through %s; "
          "it runs from --memory %lluM on\n",
          f->device, f->precision, bytes[0], bytes[1], bytes[2],
          (unsigned long long)((f->stream_least + (1 << 20) - 1) >> 20));
  }
}

static void parts_json(cli_json *json, const accel_fit_record *f) {
  if (!f->n_part) return;
  cli_json_open(json, "parts", '[');
  for (uint32_t i = 0; i < f->n_part; ++i) {
    const accel_fit_part *p = &f->part[i];
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "device", p->device);
    cli_json_int(json, "first_layer", p->first_layer);
    cli_json_int(json, "last_layer", p->last_layer);
    cli_json_bool(json, "fits", p->fits);
    cli_json_bool(json, "streams", p->streams);
    cli_json_int(json, "weights_bytes", (int64_t)p->weights);
    cli_json_int(json, "total_bytes", (int64_t)p->total);
    cli_json_int(json, "available_bytes", (int64_t)p->available);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

/* A line for each part of what is placed over several devices. */
static void print_parts(const accel_fit_report *r) {
  char bytes[3][32];
  for (uint32_t i = 0; i < r->n; ++i)
    for (uint32_t k = 0; k < r->record[i].n_part; ++k) {
      const accel_fit_record *f = &r->record[i];
      const accel_fit_part *p = &f->part[k];
      cli_bytes(p->weights, bytes[0], sizeof bytes[0]);
      cli_bytes(p->total, bytes[1], sizeof bytes[1]);
      cli_bytes(p->available, bytes[2], sizeof bytes[2]);
      printf("%s at %s: layers %u to %u on %s take %s, %s of it weights; %s are there%s%s\n",
             f->device, f->precision, p->first_layer, p->last_layer, p->device, bytes[1], bytes[0],
             p->available ? bytes[2] : "not known how many", p->streams ? " (streams)" : "",
             p->fits ? "" : ": does not fit");
    }
}

static void runs_json(cli_json *json, const accel_fit_record *f, bool times) {
  if (!f->n_run) return;
  cli_json_open(json, "runs", '[');
  for (uint32_t i = 0; i < f->n_run; ++i) {
    cli_json_open(json, NULL, '{');
    cli_json_text(json, "entry", f->run[i].entry);
    cli_json_text(json, "output", f->run[i].output);
    cli_json_int(json, "times", (int64_t)f->run[i].times);
    cli_json_int(json, "scratch_bytes", (int64_t)f->run[i].scratch);
    if (times) print_known(json, "seconds", f->run[i].seconds);
    cli_json_close(json, '}');
  }
  cli_json_close(json, ']');
}

/* Seconds of a call for pictures; 0: not known of all runs. */
static double call_seconds(const accel_fit_record *f) {
  double all = 0;
  for (uint32_t i = 0; i < f->n_run; ++i) {
    if (!(f->run[i].seconds > 0)) return 0;
    all += (double)f->run[i].times * f->run[i].seconds;
  }
  return all;
}

/* How long a call for pictures takes and what of it each kind of run, in a line for each device and
 * precision that fits. */
static void print_pictures(const accel_fit_report *r) {
  for (uint32_t i = 0; i < r->n; ++i) {
    const accel_fit_record *f = &r->record[i];
    if (f->fits != 1 || !f->n_run) continue;
    printf("%s at %s:", f->device, f->precision);
    say_seconds(r->batch > 1 ? " the pictures" : " a picture", call_seconds(f));
    for (uint32_t k = 0; k < f->n_run; ++k) {
      printf("%s %llu x %s", k ? "," : ":", (unsigned long long)f->run[k].times, f->run[k].entry);
      say_seconds("", f->run[k].seconds);
    }
    puts("");
  }
}

/* How long tokens take, in a line for each device and precision that fits. */
static void print_speeds(const accel_fit_report *r) {
  char peak[32];
  for (uint32_t i = 0; i < r->n; ++i) {
    const accel_fit_record *f = &r->record[i];
    if (f->fits != 1 || f->n_run) continue;
    printf("%s at %s:", f->device, f->precision);
    say_seconds(" a token", f->seconds_per_token);
    if (f->seconds_per_token > 0)
      printf(" (%s)", f->compute_seconds < f->seconds_per_token ? "of reading" : "of computing");
    say_seconds(", the first one after", f->seconds_to_first);
    if (predicted_peak(r, f))
      printf(", peak memory of the process %s", cli_bytes(predicted_peak(r, f), peak, sizeof peak));
    if (f->at_once < r->batch)
      printf("; %llu of %u sequences at once", (unsigned long long)f->at_once, r->batch);
    if (f->copy_bytes_per_second > 0)
      printf("; copies to the device run at %.2f GB/s", 1e-9 * f->copy_bytes_per_second);
    if (f->disk_bytes_per_second > 0)
      printf("; the disk gives %.2f GB/s", 1e-9 * f->disk_bytes_per_second);
    puts("");
  }
}

/* times: they were asked for. */
static int print_json(cli_run *run, const accel_fit_report *r, bool times) {
  cli_json json;
  int code = cli_json_begin(run, "accel.fit/1", &json);
  if (code) return code;
  cli_json_text(&json, "model", r->model);
  cli_json_text(&json, "architecture", r->architecture);
  cli_json_int(&json, "parameters", (int64_t)r->parameters);
  cli_json_int(&json, "batch", r->batch);
  cli_json_int(&json, "seq", r->seq);
  cli_json_text(&json, "seq_unit", r->unit);
  if (r->height) cli_json_int(&json, "height", r->height);
  if (r->steps) cli_json_int(&json, "steps", r->steps);
  cli_json_int(&json, "process_bytes", (int64_t)r->process);
  cli_json_open(&json, "devices", '[');
  for (uint32_t i = 0; i < r->n; ++i) {
    const accel_fit_record *f = &r->record[i];
    cli_json_open(&json, NULL, '{');
    cli_json_text(&json, "device", f->device);
    cli_json_text(&json, "precision", f->precision);
    if (f->fits < 0)
      cli_json_null(&json, "fits");
    else
      cli_json_bool(&json, "fits", f->fits);
    cli_json_text(&json, "why", f->reason);
    cli_json_text(&json, "advice", f->advice);
    if (f->fits >= 0) {
      cli_json_int(&json, "weights_bytes", (int64_t)f->weights);
      cli_json_int(&json, "weights_in_file_bytes", (int64_t)f->weights_in_file);
      cli_json_int(&json, "state_bytes_per_token", (int64_t)f->state_per_token);
      cli_json_int(&json, "state_bytes", (int64_t)f->state);
      cli_json_int(&json, "scratch_bytes", (int64_t)f->scratch);
      cli_json_int(&json, "tokenizer_bytes", (int64_t)f->tokenizer);
      cli_json_int(&json, "total_bytes", (int64_t)f->total);
      if (f->resident)
        cli_json_int(&json, "resident_bytes", (int64_t)f->resident);
      else
        cli_json_null(&json, "resident_bytes");
      cli_json_int(&json, "peak_load_bytes", (int64_t)f->peak);
      cli_json_int(&json, "memory_bytes", (int64_t)f->memory);
      cli_json_int(&json, "available_bytes", (int64_t)f->available);
      print_streaming(&json, f);
      parts_json(&json, f);
      runs_json(&json, f, times);
      if (times && f->n_run) print_known(&json, "seconds_per_call", call_seconds(f));
      if (times) print_times(&json, r, f);
    }
    cli_json_close(&json, '}');
  }
  cli_json_close(&json, ']');
  return cli_json_end(run, &json);
}

static void print_row(cli_table *table, const accel_fit_record *f) {
  char bytes[8][32];
  const uint64_t value[8] = {f->weights, f->state,    f->scratch, f->tokenizer,
                             f->total,   f->resident, f->peak,    f->available};
  for (int i = 0; i < 8; ++i) cli_bytes(value[i], bytes[i], sizeof bytes[i]);
  const char *none[] = {f->device, f->precision, "", "", "",           "",
                        "",        "",           "", "", "cannot run", f->reason};
  const char *some[] = {f->device,
                        f->precision,
                        bytes[0],
                        bytes[1],
                        bytes[2],
                        f->tokenizer ? bytes[3] : "",
                        bytes[4],
                        f->resident ? bytes[5] : "",
                        bytes[6],
                        f->available ? bytes[7] : "not known",
                        f->streams ? "streams"
                        : f->fits  ? "fits"
                                   : "does not fit",
                        f->advice};
  cli_table_row(table, 12, f->fits < 0 ? none : some);
}

/* The devices that `auto` may choose: not those that are emulated in software. */
static bool counts(const accel_devices *devices, const char *name) {
  for (uint32_t i = 0; devices && i < devices->n; ++i)
    if (!strcmp(devices->item[i].name, name)) return strcmp(devices->item[i].type, "software") != 0;
  return true;
}

/* The names of the other devices, in one line. */
static void print_others(const accel_fit_report *r, const accel_devices *devices) {
  bool any = false;
  for (uint32_t i = 0; i < r->n; ++i) {
    const char *name = r->record[i].device;
    if (counts(devices, name) || (i && !strcmp(name, r->record[i - 1].device))) continue;
    printf("%s%s", any ? ", " : "\nalso there, emulated in software: ", name);
    any = true;
  }
  if (any) puts(" (--verbose shows them, too)");
}

/* devices: what there is, to show first what counts; NULL: all are shown as they come. */
static void print_table(const accel_fit_report *r, const accel_devices *devices, bool verbose) {
  static const char *const head[] = {"device",    "precision", "weights", "state",
                                     "scratch",   "tokenizer", "total",   "resident",
                                     "peak load", "available", "answer",  "advice"};
  cli_table table = {0};
  printf("%s, %s, %.1f million parameters; ", r->model, r->architecture,
         1e-6 * (double)r->parameters);
  if (r->height)
    printf("%u picture%s of %u x %u pixels, %u step%s\n\n", r->batch, r->batch == 1 ? "" : "s",
           r->seq, r->height, r->steps, r->steps == 1 ? "" : "s");
  else
    printf("a batch of %u, %u %s each\n\n", r->batch, r->seq, r->unit);
  cli_table_row(&table, 12, head);
  for (uint32_t i = 0; i < r->n; ++i)
    if (counts(devices, r->record[i].device)) print_row(&table, &r->record[i]);
  for (uint32_t i = 0; verbose && i < r->n; ++i)
    if (!counts(devices, r->record[i].device)) print_row(&table, &r->record[i]);
  cli_table_print(&table, "llrrrrrrrrll");
  if (!verbose) print_others(r, devices);
}

/* 5 when a device or a precision was named and nothing of it fits; 3 when none of it can run at
 * all. */
static int verdict(const cli_run *run, const accel_fit_report *r) {
  bool any = false, runs = false;
  for (uint32_t i = 0; i < r->n; ++i) {
    any |= r->record[i].fits == 1;
    runs |= r->record[i].fits >= 0;
  }
  if (any || (!run->value[OPT_DEVICE] && !run->value[OPT_PRECISION])) return 0;
  return accel_status_exit_code(runs ? ACCEL_ERROR_DOES_NOT_FIT : ACCEL_ERROR_PRECISION);
}

int cmd_fit(cli_run *run) {
  int code = cli_one_precision(run);
  if (!code) code = cli_context(run);
  if (code) return code;
  accel_fit_params params = accel_fit_params_default();
  params.device = run->value[OPT_DEVICE];
  params.precision = run->value[OPT_PRECISION];
  params.batch = (uint32_t)cli_count(run, OPT_IMAGES, cli_count(run, OPT_BATCH, 0));
  params.seq = (uint32_t)cli_count(run, OPT_SEQ, 0);
  params.new_tokens = (uint32_t)cli_count(run, OPT_NEW, 0);
  params.architecture = run->value[OPT_ARCHITECTURE];
  params.steps = (uint32_t)cli_count(run, OPT_STEPS, 0);
  params.vae_tiling = cli_flag(run, OPT_TILE);
  code = cli_image_size(run, &params.width, &params.height);
  if (code) return code;
  params.times = run->value[OPT_MEMORY] || run->value[OPT_MEM_LIMIT];
  if (params.precision && !strcmp(params.precision, "auto")) params.precision = NULL;
  accel_fit_report *report;
  accel_status status = accel_fit(run->ctx, run->args[0], &params, &report);
  if (status != ACCEL_OK) return cli_fail(run, status);
  accel_devices *devices = NULL; /* known already: the report asked every one of them */
  if (cli_flag(run, OPT_JSON)) {
    code = print_json(run, report, params.times != 0);
  } else {
    if (!params.device && accel_detect(run->ctx, 0, &devices) != ACCEL_OK) devices = NULL;
    print_table(report, devices, cli_flag(run, OPT_VERBOSE) || cli_flag(run, OPT_ALLOW_SOFTWARE));
    print_streams(report);
    print_parts(report);
    if (params.times) print_speeds(report), print_pictures(report);
    accel_devices_free(&devices);
  }
  if (!code) code = verdict(run, report);
  accel_fit_report_free(&report);
  return code;
}
