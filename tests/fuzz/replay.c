/* replay.c - a fuzz target without libFuzzer: gives it each file of its corpus once, in memory of exactly the file's size, so that AddressSanitizer sees a read behind its
 * end.  Arguments are folders of files; with none, or none that holds a file, it fails. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The bytes of a file, malloc(*n) of them; NULL where it cannot be read. */
static uint8_t *read_whole(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  uint8_t *data = NULL;
  long size = fseek(f, 0, SEEK_END) ? -1 : ftell(f);
  if (size >= 0 && !fseek(f, 0, SEEK_SET)) data = malloc((size_t)size + !size);
  *n = data ? fread(data, 1, (size_t)size, f) : 0;
  if (data && *n != (size_t)size) {
    free(data);
    data = NULL;
  }
  fclose(f);
  return data;
}

/* How many files of a folder were given to the target; -1 where one cannot be read. */
static int replay_folder(const char *folder) {
  DIR *dir = opendir(folder);
  if (!dir) return -1;
  int given = 0;
  for (const struct dirent *entry; given >= 0 && (entry = readdir(dir));) {
    if (entry->d_name[0] == '.') continue;
    char path[4096];
    size_t n;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    uint8_t *data = read_whole(path, &n);
    if (data) {
      fprintf(stderr, "%s\n", path); /* the last one is what it failed on */
      LLVMFuzzerTestOneInput(data, n);
    }
    given = data ? given + 1 : -1;
    free(data);
    if (given < 0) fprintf(stderr, "%s cannot be read\n", path);
  }
  closedir(dir);
  return given;
}

int main(int argc, char **argv) {
  int all = 0;
  for (int i = 1; i < argc; ++i) {
    int given = replay_folder(argv[i]);
    if (given <= 0) {
      fprintf(stderr, "%s: no file that can be read\n", argv[i]);
      return 1;
    }
    all += given;
  }
  printf("%d files\n", all);
  return all ? 0 : 1;
}
