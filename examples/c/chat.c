/* chat.c - a conversation: each line of input is a question, answers are printed as they come.
 * What was said stays on the device, so an answer costs what is new.
 *
 *   chat MODEL [SYSTEM MESSAGE]                MODEL: a directory or an id, such as Qwen/Qwen3-0.6B
 */
#include <accel/accel.h>
#include <stdio.h>
#include <string.h>

static int report(accel_status status) {
  fprintf(stderr, "%s\n%s\n", accel_last_error(), accel_last_remedy());
  return accel_status_exit_code(status);
}

static int on_token(void *user, const accel_token_event *event) {
  (void)user;
  fputs(event->text, stdout);
  fflush(stdout);
  return 0; /* anything else ends the answer, which then stays as far as it came */
}

static accel_status talk(accel_chat *chat) {
  char line[4096];
  accel_generate_params wishes = accel_generate_params_default();
  wishes.max_new_tokens = 512;
  wishes.on_token = on_token;
  while (fprintf(stderr, "> "), fgets(line, sizeof line, stdin)) {
    accel_generations *found = NULL;
    line[strcspn(line, "\n")] = 0;
    accel_status status = *line ? accel_chat_send(chat, line, &wishes, &found) : ACCEL_OK;
    if (status != ACCEL_OK) return status;
    if (found) printf("\n");
    if (found)
      fprintf(stderr, "(%u tokens, %u of them had been read)\n", accel_chat_length(chat),
              accel_chat_reused(chat));
    accel_generations_free(&found);
  }
  return ACCEL_OK;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [SYSTEM MESSAGE]\n", argv[0]);
    return 2;
  }
  accel *ctx = NULL;
  accel_status status = accel_create(NULL, &ctx);
  if (status != ACCEL_OK) return report(status);

  accel_init_params how = accel_init_params_default();
  how.device = "auto";
  accel_endpoint *model = NULL;
  accel_chat *chat = NULL;
  accel_chat_params about = accel_chat_params_default();
  about.system = argc > 2 ? argv[2] : NULL;
  status = accel_init(ctx, argv[1], &how, &model);
  if (status == ACCEL_OK) status = accel_chat_open(model, &about, &chat);
  if (status == ACCEL_OK) status = talk(chat);
  int code = status == ACCEL_OK ? 0 : report(status);
  accel_chat_close(&chat);
  accel_cleanup(&model);
  accel_destroy(&ctx);
  return code;
}
