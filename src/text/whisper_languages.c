/* whisper_languages.c - codes and names. */
#include "text/whisper_languages.h"

#include <string.h>

#include "core/text.h"

static const struct {
  const char *code, *name;
} languages[] =
    {
        {"en", "english"},     {"zh", "chinese"},    {"de", "german"},
        {"es", "spanish"},     {"ru", "russian"},    {"ko", "korean"},
        {"fr", "french"},      {"ja", "japanese"},   {"pt", "portuguese"},
        {"tr", "turkish"},     {"pl", "polish"},     {"ca", "catalan"},
        {"nl", "dutch"},       {"ar", "arabic"},     {"sv", "swedish"},
        {"it", "italian"},     {"id", "indonesian"}, {"hi", "hindi"},
        {"fi", "finnish"},     {"vi", "vietnamese"}, {"he", "hebrew"},
        {"uk", "ukrainian"},   {"el", "greek"},      {"ms", "malay"},
        {"cs", "czech"},       {"ro", "romanian"},   {"da", "danish"},
        {"hu", "hungarian"},   {"ta", "tamil"},      {"no", "norwegian"},
        {"th", "thai"},        {"ur", "urdu"},       {"hr", "croatian"},
        {"bg", "bulgarian"},   {"lt", "lithuanian"}, {"la", "latin"},
        {"mi", "maori"},       {"ml", "malayalam"},  {"cy", "welsh"},
        {"sk", "slovak"},      {"te", "telugu"},     {"fa", "persian"},
        {"lv", "latvian"},     {"bn", "bengali"},    {"sr", "serbian"},
        {"az", "azerbaijani"}, {"sl", "slovenian"},  {"kn", "kannada"},
        {"et", "estonian"},    {"mk", "macedonian"}, {"br", "breton"},
        {"eu", "basque"},      {"is", "icelandic"},  {"hy", "armenian"},
        {"ne", "nepali"},      {"mn", "mongolian"},  {"bs", "bosnian"},
        {"kk", "kazakh"},      {"sq", "albanian"},   {"sw", "swahili"},
        {"gl", "galician"},    {"mr", "marathi"},    {"pa", "punjabi"},
        {"si", "sinhala"},     {"km", "khmer"},      {"sn", "shona"},
        {"yo", "yoruba"},      {"so", "somali"},     {"af", "afrikaans"},
        {"oc", "occitan"},     {"ka", "georgian"},   {"be", "belarusian"},
        {"tg", "tajik"},       {"sd", "sindhi"},     {"gu", "gujarati"},
        {"am", "amharic"},     {"yi", "yiddish"},    {"lo", "lao"},
        {"uz", "uzbek"},       {"fo", "faroese"},    {"ht", "haitian creole"},
        {"ps", "pashto"},      {"tk", "turkmen"},    {"nn", "nynorsk"},
        {"mt", "maltese"},     {"sa", "sanskrit"},   {"lb", "luxembourgish"},
        {"my", "myanmar"},     {"bo", "tibetan"},    {"tl", "tagalog"},
        {"mg", "malagasy"},    {"as", "assamese"},   {"tt", "tatar"},
        {"haw", "hawaiian"},   {"ln", "lingala"},    {"ha", "hausa"},
        {"ba", "bashkir"},     {"jw", "javanese"},   {"su", "sundanese"},
        {"yue", "cantonese"},
},
  others[] = {
      /* further names */
      {"my", "burmese"},       {"ca", "valencian"}, {"nl", "flemish"},   {"ht", "haitian"},
      {"lb", "letzeburgesch"}, {"ps", "pushto"},    {"pa", "panjabi"},   {"ro", "moldavian"},
      {"ro", "moldovan"},      {"si", "sinhalese"}, {"es", "castilian"}, {"zh", "mandarin"},
};
enum { LANGUAGES = sizeof languages / sizeof *languages, OTHERS = sizeof others / sizeof *others };

const char *accel__language_code(const char *name) {
  for (int i = 0; i < LANGUAGES; i++)
    if (accel__equal_ignoring_case(languages[i].name, name) ||
        accel__equal_ignoring_case(languages[i].code, name))
      return languages[i].code;
  for (int i = 0; i < OTHERS; i++)
    if (accel__equal_ignoring_case(others[i].name, name)) return others[i].code;
  return NULL;
}

const char *accel__language_name(const char *code, size_t n) {
  for (int i = 0; i < LANGUAGES; i++)
    if (strlen(languages[i].code) == n && !memcmp(languages[i].code, code, n))
      return languages[i].name;
  return NULL;
}
