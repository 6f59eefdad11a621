/* tokenizer_class.c - see tokenizer_class.h: the table of classes, and AutoTokenizer's choice. */
#include "text/tokenizer_class.h"

#include <string.h>

typedef const accel__json json_t;

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define TYPE(type) "{\"type\":\"" type "\"}"
#define REPLACE(from, to) \
  "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"}"
#define REPLACE_REGEX(from, to) \
  "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" from "\"},\"content\":\"" to "\"}"
#define SPLIT(expression, behavior, invert)                                                 \
  "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" expression "\"},\"behavior\":\"" behavior \
  "\",\"invert\":" invert "}"
#define SPLIT_AT_SPACES SPLIT_AT(" ", "MergedWithPrevious")
#define SPLIT_AT(text, behavior)                                                       \
  "{\"type\":\"Split\",\"pattern\":{\"String\":\"" text "\"},\"behavior\":\"" behavior \
  "\","                                                                                \
  "\"invert\":false}"
#define BYTE_LEVEL(space, regex)                        \
  "{\"type\":\"ByteLevel\",\"add_prefix_space\":" space \
  ",\"trim_offsets\":true,\"use_regex\":" regex "}"
#define METASPACE(scheme, split)                                                          \
  "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"" scheme \
  "\",\"split\":" split "}"
#define WORDS             TYPE("WhitespaceSplit"), METASPACE("\2", "true")
#define BYTES             REPLACE("\xE2\x96\x81", " "), TYPE("ByteFallback"), TYPE("Fuse")
#define STRIP             "{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"
#define SPACES_TO_ONE     REPLACE_REGEX(" {2,}", " ")
#define PUNCTUATION       "{\"type\":\"Punctuation\",\"behavior\":\"Isolated\"}"
#define DIGITS            "{\"type\":\"Digits\",\"individual_digits\":true}"
#define ALWAYS            .schemes = {"always", "always"}
#define OF_PREFIX(other)  .prefix_space = true, .schemes = {other, "always"}
#define WORDPIECE_DECODER "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}"
#define BYTE_LEVEL_BPE                                                                  \
  .model = "BPE", .unk = ACCEL__UNK_NONE, .pre_tokenizers = {BYTE_LEVEL("\1", "true")}, \
  .decoders = {BYTE_LEVEL("true", "true")}
#define WORDPIECE                                                                     \
  .model = "WordPiece", .unk = ACCEL__UNK_NAMED, .unk_else = ACCEL__UNK_NONE,         \
  .fields = ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100", \
  .normalizers = {"#"}, .pre_tokenizers = {TYPE("BertPreTokenizer")},                 \
  .decoders = {WORDPIECE_DECODER}

static const accel__tokenizer_class classes[] = {
    {.names = "RobertaTokenizer BartTokenizer LEDTokenizer MvpTokenizer LongformerTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
     BYTE_LEVEL_BPE,
     .single = "c A s",
     .pair = "c A s s B s",
     .roberta = true,
     .trims = 2,
     .trim_space = 2},
    {.names = "LayoutLMv3Tokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
     BYTE_LEVEL_BPE,
     .prefix_space = true,
     .single = "c A s",
     .pair = "c A s s B s",
     .roberta = true,
     .trims = 1,
     .trim_space = 2},
    {.names = "LukeTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
     BYTE_LEVEL_BPE,
     .single = "c A s",
     .pair = "c A s s B s",
     .roberta = true,
     .trims = 1,
     .trim_space = 1},
    {.names = "BlenderbotTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
                .mask_takes_space = true},
     BYTE_LEVEL_BPE,
     .prefix_space = true},
    {.names = "GPT2Tokenizer CodeGenTokenizer",
     .tokens = {.own = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}},
     BYTE_LEVEL_BPE},
    {.names = "WhisperTokenizer",
     .tokens = {.own = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}},
     BYTE_LEVEL_BPE,
     .single = "W A e",
     .pair = "W A B:1 e:1"},
    {.names = "DebertaTokenizer",
     .tokens = {.own = {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
     BYTE_LEVEL_BPE,
     .single = "c A s",
     .pair = "c A s s B s"},
    {.names = "GPTNeoXTokenizer",
     .tokens = {.own = {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, "<|padding|>"}},
     BYTE_LEVEL_BPE,
     .normalizers = {TYPE("NFC")},
     .single = "A",
     .pair = "A B:1"},
    {.names = "CohereTokenizer",
     .tokens = {.own = {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>",
                        "<MASK_TOKEN>"}},
     .model = "BPE",
     .unk = ACCEL__UNK_NONE,
     .normalizers = {TYPE("NFC")},
     .pre_tokenizers = {DIGITS, BYTE_LEVEL("\1", "true")},
     .decoders = {BYTE_LEVEL("true", "true")},
     .left = true},
    {.names = "Qwen2Tokenizer",
     .tokens = {.own = {NULL, "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>"},
                .plain = true},
     .model = "BPE",
     .unk = ACCEL__UNK_NONE,
     .normalizers = {TYPE("NFC")},
     .pre_tokenizers = {SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
                              "\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|"
                              "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+",
                              "Isolated", "false"),
                        BYTE_LEVEL("\1", "false")},
     .decoders = {BYTE_LEVEL("true", "true")}},
    {.names = "Qwen3_5Tokenizer",
     .tokens = {.own = {NULL, "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>"}},
     .model = "BPE",
     .unk = ACCEL__UNK_NONE,
     .normalizers = {TYPE("NFC")},
     .pre_tokenizers = {SPLIT("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"
                              "[\\\\p{L}\\\\p{M}]+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+"
                              "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+",
                              "Isolated", "false"),
                        BYTE_LEVEL("\1", "false")},
     .decoders = {BYTE_LEVEL("true", "true")}},
    {.names = "CLIPTokenizer",
     .tokens = {.own = {"<|startoftext|>", "<|endoftext|>", "<|endoftext|>", NULL,
                        "<|endoftext|>"}},
     .model = "BPE",
     .fields = ",\"end_of_word_suffix\":\"</w>\"",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = ACCEL__UNK_NONE,
     .normalizers = {TYPE("NFC"), REPLACE_REGEX("\\\\s+", " "), TYPE("Lowercase")},
     .pre_tokenizers = {SPLIT("<\\\\|startoftext\\\\|>|<\\\\|endoftext\\\\|>|'s|'t|'re|'ve|'m|'ll|"
                              "'d|[\\\\p{L}]+|[\\\\p{N}]|[^\\\\s\\\\p{L}\\\\p{N}]+",
                              "Removed", "true"),
                        BYTE_LEVEL("false", "true")},
     .decoders =
         {BYTE_LEVEL("true", "true"), REPLACE("</w>", " "),
          "{\"type\":\"Strip\",\"content\":\" \",\"start\":2147483647,\"stop\":2147483647}"},
     .single = "b A e",
     .pair = "b A e e B e",
     .roberta = true},
    {.names = "LlamaTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>"}},
     .model = "BPE",
     .fields = ",\"fuse_unk\":true,\"byte_fallback\":true",
     .unk = ACCEL__UNK_NONE,
     .pre_tokenizers = {METASPACE("\2", "false")},
     .decoders = {BYTES, "+" STRIP},
     .prefix_space = true,
     .legacy_prefix = true,
     .schemes = {"never", "first"},
     .left = true},
    {.names = "CodeLlamaTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>"}},
     .model = "BPE",
     .fields = ",\"fuse_unk\":true,\"byte_fallback\":true",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = ACCEL__UNK_NONE,
     .pre_tokenizers = {METASPACE("\2", "false")},
     .decoders = {BYTES, STRIP},
     .prefix_space = true,
     .schemes = {"never", "first"},
     .single = "b A",
     .pair = "b A b:1 B:1",
     .left = true},
    {.names = "GemmaTokenizer",
     .tokens = {.own = {"<bos>", "<eos>", "<unk>", NULL, "<pad>", NULL, "<mask>"}},
     .model = "BPE",
     .fields = ",\"fuse_unk\":true,\"byte_fallback\":true",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = ACCEL__UNK_NONE,
     .normalizers = {REPLACE(" ", "\xE2\x96\x81")},
     .pre_tokenizers = {SPLIT_AT_SPACES},
     .decoders = {BYTES},
     .left = true},
    {.names = "Siglip2Tokenizer",
     .tokens = {.own = {"<bos>", "<eos>", "<unk>", NULL, "<pad>", NULL, "<mask>"}},
     .model = "BPE",
     .fields = ",\"fuse_unk\":true,\"byte_fallback\":true",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = ACCEL__UNK_NONE,
     .normalizers = {TYPE("Lowercase"), REPLACE(" ", "\xE2\x96\x81")},
     .pre_tokenizers = {SPLIT_AT_SPACES},
     .decoders = {BYTES},
     .left = true},
    {.names = "NllbTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
                .mask_takes_space = true},
     .model = "BPE",
     .fields = ",\"fuse_unk\":true",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = ACCEL__UNK_NONE,
     .normalizers = {"@", "&" SPACES_TO_ONE},
     .pre_tokenizers = {METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     ALWAYS,
     .single = "L A e",
     .pair = "L A B e"},
    {.names = "SeamlessM4TTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>"}},
     .model = "BPE",
     .fields = ",\"fuse_unk\":true",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = ACCEL__UNK_NONE,
     .normalizers = {REPLACE_REGEX("[\\\\n\\\\r\\\\t]", " "), TYPE("NFKC"),
                     "{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}",
                     REPLACE_REGEX(" +\xE2\x96\x81", "\xE2\x96\x81"),
                     REPLACE_REGEX("^\xE2\x96\x81+$", ""), REPLACE_REGEX(" {2,}", "\xE2\x96\x81")},
     .pre_tokenizers = {METASPACE("first", "true")},
     .decoders = {METASPACE("first", "true")},
     .single = "L A e",
     .pair = "L A B e"},
    {.names = "T5Tokenizer MT5Tokenizer",
     .tokens = {.own = {NULL, "</s>", "<unk>", NULL, "<pad>"}},
     .model = "Unigram",
     .unk = 2,
     .normalizers = {"@"},
     .pre_tokenizers = {WORDS},
     .decoders = {METASPACE("\2", "true")},
     ALWAYS,
     .single = "A e",
     .pair = "A e B e"},
    {.names = "XLMRobertaTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
     .model = "Unigram",
     .unk = 3,
     .normalizers = {"@"},
     .pre_tokenizers = {WORDS},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("never"),
     .single = "b A e",
     .pair = "b A e e B e"},
    {.names = "MBartTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
                .mask_takes_space = true},
     .model = "Unigram",
     .unk = 3,
     .pre_tokenizers = {WORDS},
     .decoders = {METASPACE("\2", "true")},
     ALWAYS,
     .single = "A e L",
     .pair = "A B e L"},
    {.names = "MBart50Tokenizer",
     .tokens = {.own = {NULL, "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
                .mask_takes_space = true},
     .model = "Unigram",
     .unk = 3,
     .normalizers = {"@", SPACES_TO_ONE},
     .pre_tokenizers = {METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     ALWAYS,
     .single = "L A e",
     .pair = "L A B e"},
    {.names = "CamembertTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
                .mask_takes_space = true},
     .model = "Unigram",
     .unk = ACCEL__UNK_NAMED,
     .normalizers = {"@"},
     .pre_tokenizers = {WORDS},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("never"),
     .single = "b A e",
     .pair = "b A e e B e"},
    {.names = "AlbertTokenizer",
     .tokens = {.own = {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"}},
     .model = "Unigram",
     .unk = 1,
     .normalizers = {REPLACE("``", "\\\""), REPLACE("''", "\\\""), "%", "@"},
     .pre_tokenizers = {WORDS},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("never"),
     .single = "c A s",
     .pair = "c A s B:1 s:1"},
    {.names = "DebertaV2Tokenizer",
     .tokens = {.own = {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
     .model = "Unigram",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = 1,
     .normalizers = {"%", REPLACE_REGEX("\\\\s{2,}|[\\\\n\\\\r\\\\t]", " "), TYPE("NFC"),
                     "{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}"},
     .pre_tokenizers = {"^" PUNCTUATION, METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("first"),
     .single = "c A s",
     .pair = "c A s B:1 s:1"},
    {.names = "PegasusTokenizer",
     .tokens = {.own = {NULL, "</s>", "<unk>", NULL, "<pad>", NULL, "<mask_2>"}},
     .model = "Unigram",
     .unk = ACCEL__UNK_NAMED,
     .normalizers = {"@", "!" REPLACE_REGEX("\\\\n", " "), SPACES_TO_ONE},
     .pre_tokenizers = {METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     ALWAYS,
     .single = "A e",
     .pair = "A B e"},
    {.names = "BertTokenizer DistilBertTokenizer ElectraTokenizer MobileBertTokenizer "
              "LxmertTokenizer LayoutLMTokenizer SqueezeBertTokenizer LayoutLMv2Tokenizer "
              "DPRContextEncoderTokenizer DPRQuestionEncoderTokenizer DPRReaderTokenizer",
     .tokens = {.own = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
     WORDPIECE,
     .single = "c A s",
     .pair = "c A s B:1 s:1"},
    {.names = "MPNetTokenizer",
     .tokens = {.own = {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"},
                .mask_takes_space = true},
     WORDPIECE,
     .single = "c A s",
     .pair = "c A s s B s",
     .roberta = true,
     .trims = 1},
    {.names = "HerbertTokenizer",
     .tokens = {.own = {NULL, NULL, "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
     .model = "BPE",
     .fields = ",\"end_of_word_suffix\":\"</w>\"",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = ACCEL__UNK_NONE,
     .normalizers = {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":"
                     "true,\"strip_accents\":false,\"lowercase\":false}"},
     .pre_tokenizers = {TYPE("BertPreTokenizer")},
     .decoders = {"{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}"},
     .single = "c A s",
     .pair = "c A s B:1 s:1"},
    {.names = "BarthezTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
                .mask_takes_space = true},
     .model = "Unigram",
     .unk = 3,
     .normalizers = {REPLACE_REGEX("\\\\s{2,}|[\\\\n\\\\r\\\\t]", " "), TYPE("NFC"),
                     "{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}"},
     .pre_tokenizers = {METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("never")},
    {.names = "NougatTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", NULL, "<pad>"}},
     .model = "BPE",
     .unk = ACCEL__UNK_NONE,
     .normalizers = {TYPE("NFKC")},
     .pre_tokenizers =
         {SPLIT_AT("SPL1T-TH1S-Pl3A5E", "Removed"), DIGITS,
          SPLIT_AT("[\\\\(\\\\)\\\\[\\\\]\\\\{\\\\}]|([!\\\\\\\"#\\\\$%\\\\&'\\\\*\\\\+,\\\\-"
                   "\\\\./:;<=>\\\\?\\\\\\\\\\\\^_`\\\\|\\\\~])\\\\1*",
                   "Isolated"),
          SPLIT_AT("\\n", "Isolated"), BYTE_LEVEL("false", "true")},
     .decoders = {BYTE_LEVEL("true", "true")},
     .single = "b A e",
     .pair = "A B:1"},
    {.names = "BigBirdTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
                .mask_takes_space = true},
     .model = "Unigram",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = 100,
     .normalizers = {REPLACE_REGEX(" {2,}", "\xE2\x96\x81")},
     .pre_tokenizers = {METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("never"),
     .single = "c A s",
     .pair = "c A s B:1 s:1"},
    {.names = "XLNetTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"},
                .mask_takes_space = true},
     .model = "Unigram",
     .unk = 0,
     .normalizers = {REPLACE("``", "\\\""), REPLACE("''", "\\\""), TYPE("NFKD"),
                     TYPE("StripAccents"), "%", "@"},
     .pre_tokenizers = {WORDS},
     .decoders = {METASPACE("\2", "true")},
     ALWAYS,
     .single = "A s c:2",
     .pair = "A s B:1 s:1 c:2"},
    {.names = "XGLMTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>"}},
     .model = "Unigram",
     .unk = 3,
     .normalizers = {"@", SPACES_TO_ONE},
     .pre_tokenizers = {METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("never"),
     .single = "e A",
     .pair = "e A e e B"},
    {.names = "RemBertTokenizer",
     .tokens = {.own = {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"}},
     .model = "Unigram",
     .unk = 2,
     .normalizers = {REPLACE("``", "\\\""), REPLACE("''", "\\\""), SPACES_TO_ONE, "%", "@"},
     .pre_tokenizers = {METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("never"),
     .single = "c A s",
     .pair = "c A s B:1 s:1"},
    {.names = "LayoutXLMTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"},
                .mask_takes_space = true},
     .model = "Unigram",
     .unk = 3,
     .normalizers = {"{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}",
                     REPLACE_REGEX(" {2,}", "\xE2\x96\x81")},
     .pre_tokenizers = {METASPACE("\2", "true")},
     .decoders = {METASPACE("\2", "true")},
     OF_PREFIX("never"),
     .single = "c A s",
     .pair = "c A s s B s"},
    {.names = "UdopTokenizer",
     .tokens = {.own = {NULL, "</s>", "<unk>", "</s>", "<pad>"}},
     .model = "Unigram",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = 2,
     .pre_tokenizers = {WORDS},
     .decoders = {METASPACE("\2", "true")},
     ALWAYS,
     .single = "A e",
     .pair = "A e B e"},
    {.names = "OpenAIGPTTokenizer",
     .tokens = {.own = {NULL, NULL, "<unk>"}},
     .model = "BPE",
     .fields = ",\"end_of_word_suffix\":\"</w>\"",
     .unk = ACCEL__UNK_NAMED,
     .unk_else = ACCEL__UNK_NONE,
     .normalizers = {"{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":"
                     "true,\"strip_accents\":null,\"lowercase\":true}"},
     .pre_tokenizers = {TYPE("BertPreTokenizer")},
     .decoders = {"{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}"}},
    {.names = "SplinterTokenizer",
     .tokens = {.own = {NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
     WORDPIECE,
     .single = "c A s",
     .pair = "c A Q s B:1 s:1"},
    {.names = "FunnelTokenizer",
     .tokens = {.own = {"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"}},
     WORDPIECE,
     .single = "c:2 A s",
     .pair = "c:2 A s B:1 s:1"},
};

static bool has_word(const char *words, const char *word, size_t n) {
  for (const char *at = words; *at;) {
    const size_t length = strcspn(at, " ");
    if (length == n && memcmp(at, word, n) == 0) return true;
    at += length;
    at += *at == ' ';
  }
  return false;
}

/* Length of a class's name without Fast. */
static size_t plain(const char *name) {
  const size_t n = strlen(name);
  return n > 4 && strcmp(name + n - 4, "Fast") == 0 ? n - 4 : n;
}

static bool same(const char *a, const char *b) {
  const size_t n = plain(a);
  return n == plain(b) && memcmp(a, b, n) == 0;
}

const accel__tokenizer_class *accel__tokenizer_class_named(const char *name) {
  /* DPR's fast classes are others than those without Fast, and take tokenizer.json as it is */
  if (name && accel__starts_with(name, "DPR") && plain(name) < strlen(name)) return NULL;
  for (size_t i = 0; name && i < COUNT(classes); ++i)
    if (has_word(classes[i].names, name, plain(name))) return &classes[i];
  return NULL;
}

/* TOKENIZER_MAPPING_NAMES, of classes that are read here and those that take tokenizer.json as it
 * is; '!' in front of a type: what it says wins over tokenizer_config.json
 * (MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS). */
static const char *const types[][2] = {
    {"AlbertTokenizer", "albert yoso"},
    {"BartTokenizer", "florence2"},
    {"BarthezTokenizer", "barthez"},
    {"BertTokenizer",
     "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git "
     "grounding-dino layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert realm "
     "retribert squeezebert tvp vilt visual_bert"},
    {"BigBirdTokenizer", "big_bird"},
    {"BlenderbotTokenizer", "blenderbot"},
    {"CLIPTokenizer",
     "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip"},
    {"CamembertTokenizer", "camembert"},
    {"CodeLlamaTokenizer", "code_llama"},
    {"CohereTokenizer", "aya_vision cohere cohere2"},
    {"DebertaTokenizer", "deberta"},
    {"DebertaV2Tokenizer", "deberta-v2"},
    {"DPRQuestionEncoderTokenizer", "dpr"},
    {"EsmTokenizer", "esm"},
    {"FunnelTokenizer", "funnel"},
    {"GPT2Tokenizer",
     "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj !hyperclovax_vision_v2 instructblip "
     "instructblipvideo jais2 opt phi starcoder2"},
    {"GPTNeoXTokenizer", "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
    {"GemmaTokenizer",
     "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
     "shieldgemma2 t5gemma zaya"},
    {"HerbertTokenizer", "herbert"},
    {"LEDTokenizer", "led"},
    {"LayoutLMv2Tokenizer", "layoutlmv2"},
    {"LayoutLMv3Tokenizer", "layoutlmv3"},
    {"LayoutXLMTokenizer", "layoutxlm"},
    {"LlamaTokenizer", "idefics idefics2"},
    {"LukeTokenizer", "luke"},
    {"LxmertTokenizer", "lxmert"},
    {"M2M100Tokenizer", "m2m_100"},
    {"MBart50Tokenizer", "mbart50"},
    {"MBartTokenizer", "mbart"},
    {"MPNetTokenizer", "mpnet"},
    {"MarianTokenizer", "marian"},
    {"MobileBertTokenizer", "mobilebert"},
    {"MvpTokenizer", "mvp"},
    {"NllbTokenizer", "nllb nllb-moe"},
    {"NougatTokenizer", "nougat"},
    {"OpenAIGPTTokenizer", "openai-gpt"},
    {"PegasusTokenizer", "pegasus"},
    {"Qwen2Tokenizer",
     "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl "
     "lighton_ocr moss_transcribe_diarize ovis2 qianfan_ocr !qwen2 qwen2_5_omni qwen2_5_vl "
     "qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl "
     "qwen3_vl_moe vibevoice"},
    {"Qwen3_5Tokenizer", "!qwen3_5 !qwen3_5_moe !qwen3_5_moe_text qwen3_5_text !qwen4_exp"},
    {"RemBertTokenizer", "rembert"},
    {"RobertaTokenizer",
     "bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta "
     "roberta-prelayernorm"},
    {"SeamlessM4TTokenizer", "seamless_m4t seamless_m4t_v2"},
    {"Siglip2Tokenizer", "!siglip2"},
    {"SiglipTokenizer", "siglip"},
    {"SplinterTokenizer", "splinter"},
    {"T5Tokenizer", "mt5 musicgen musicgen_melody switch_transformers t5"},
    {"UdopTokenizer", "udop"},
    {"VitsTokenizer", "vits"},
    {"Wav2Vec2CTCTokenizer",
     "data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert wav2vec2-conformer"},
    {"WhisperTokenizer", "whisper"},
    {"XGLMTokenizer", "xglm"},
    {"XLNetTokenizer", "xlnet"},
    {"XLMRobertaTokenizer", "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"},
    {"TokenizersBackend",
     "EvollaModel aria beam bigbird_pegasus canary flex_olmo glm glm4 glm4_moe glm4_moe_lite glm4v "
     "glm4v_moe glm_image glmasr got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe "
     "granitemoehybrid granitemoeshared kimi_k25 kimi_linear kosmos-2 mimo_v2_flash minicpm_ocr "
     "minicpmv4_6 minicpmv4_7 ministral ministral3 mistral mistral3 mistral_large4 mixtral "
     "nemo_speechlm nystromformer olmo2 olmo3 olmo_hybrid pegasus_x persimmon pix2struct pixtral "
     "pocket_tts stablelm umt5 voxtral voxtral_realtime xlm-roberta-xl !modernbert !vipllava "
     "!opencua !smolvlm !chatlm !h2ovl_chat !paddleocr_vl !arctic !phi3 !ernie4_5 "
     "!camembertv2-base !step3_vl !minimax_m2 !iquestcoder !phimoe !fuyu !hyperclovax_vlm !molmo "
     "!nvfp4 !modernbert-decoder !jamba !cohere_asr !llava !openvla !internlm2 !molmo2 "
     "!ernie4_5_moe !internlm3 !nemotron !phi3_v !hyperclovax !minicpm3 !minicpmv !llava_next"},
};

static const char *class_of_type(const char *type, bool *wins) {
  const size_t n = type ? strlen(type) : 0;
  for (size_t i = 0; n && i < COUNT(types); ++i) {
    for (const char *at = types[i][1]; *at;) {
      const size_t length = strcspn(at, " ");
      *wins = *at == '!';
      if (length == n + *wins && memcmp(at + *wins, type, n) == 0) return types[i][0];
      at += length;
      at += *at == ' ';
    }
  }
  *wins = false;
  return NULL;
}

const char *accel__tokenizer_class_of_type(const char *type) {
  bool wins;
  const char *found = class_of_type(type, &wins);
  return found && strcmp(found, "TokenizersBackend") != 0 ? found : NULL;
}

static const char *text_of(json_t *object, const char *key) {
  json_t *at = accel__json_get(object, key);
  return cJSON_IsString(at) ? at->valuestring : NULL;
}

const accel__tokenizer_class *accel__auto_tokenizer_class(json_t *settings, json_t *model,
                                                          bool byte_level) {
  bool wins;
  const char *named = text_of(settings, "tokenizer_class"),
             *of_type = class_of_type(text_of(model, "model_type"), &wins);
  if (!named || (same(named, "LlamaTokenizer") && byte_level && !wins)) return NULL;
  if (!of_type || same(of_type, named))
    return accel__tokenizer_class_named(of_type ? of_type : named);
  if (strcmp(of_type, "TokenizersBackend") == 0) return NULL;
  return accel__tokenizer_class_named(wins ? of_type : named);
}
