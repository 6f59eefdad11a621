/* bench_ratings.c - how near profiled runs came to the least time of their steps. */
#include "bench/bench_ratings.h"

#include <stdlib.h>
#include <string.h>

static bool take_rating(sqlite3_stmt *query, void *into) {
  bench_ratings *to = into;
  bench_rating *grown = realloc(to->item, (to->n + 1) * sizeof *grown);
  if (!grown) return false;
  to->item = grown;
  bench_rating *r = &to->item[to->n++];
  char **texts[] = {&r->model, &r->device, &r->precision, &r->hardware, &r->type};
  bool whole = true;
  for (int i = 0; i < 5; ++i) {
    const char *text = (const char *)sqlite3_column_text(query, i);
    *texts[i] = strdup(text ? text : "");
    whole &= *texts[i] != NULL;
  }
  r->share = sqlite3_column_double(query, 5);
  return whole;
}

/* Of each model, device and precision the newest run that has steps with a known least time. */
bool bench_ratings_read(const bench_db *db, bench_ratings *out, char *message, uint32_t size) {
  static const char sql[] =
      "SELECT r.model, d.name, r.precision, d.hardware, d.type, p.share, max(r.id) FROM run r "
      "JOIN device d ON d.id = r.device_ref JOIN (SELECT run, sum(bound_ms) / sum(ms) AS share "
      "FROM step WHERE bound_ms IS NOT NULL GROUP BY run HAVING sum(ms) > 0) p ON p.run = r.id "
      "WHERE r.machine_ref = ? GROUP BY r.model, d.name, r.precision";
  bench_binder b;
  int rc;
  *out = (bench_ratings){0};
  if (bench_prepare(db, sql, &b, &rc)) {
    bench_bind_int(&b, bench_this_machine(db));
    rc = bench_take_rows(&b, take_rating, out);
  }
  if (rc != SQLITE_DONE) bench_db_error(db, rc, message, size);
  return rc == SQLITE_DONE;
}

void bench_ratings_free(bench_ratings *ratings) {
  for (uint32_t i = 0; i < ratings->n; ++i) {
    bench_rating *r = &ratings->item[i];
    free(r->model), free(r->device), free(r->precision), free(r->hardware), free(r->type);
  }
  free(ratings->item);
  *ratings = (bench_ratings){0};
}
