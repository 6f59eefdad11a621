// embed_and_search.cpp - which of these sentences is nearest in meaning to a question?
//   embed_and_search MODEL [QUESTION]
#include <algorithm>
#include <cstdio>
#include <numeric>

#include "accel.hpp"

int main(int argc, char **argv) try {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MODEL [QUESTION]\n", argv[0]);
    return 2;
  }
  const std::vector<std::string> sentences = {
      "The cat sleeps on the warm windowsill.",
      "Trains to the coast leave every hour.",
      "Stir the soup until it begins to boil.",
      "The telescope saw a galaxy twelve billion light years away.",
      "She repaired the old clock in an afternoon.",
  };
  const std::string question = argc > 2 ? argv[2] : "When can I travel to the sea?";

  const auto ctx = accelpp::create();
  const auto embedder = accelpp::init(ctx, argv[1]);
  const auto known = accelpp::embed(embedder, sentences);
  const auto asked = accelpp::embed(embedder, {question});

  std::vector<double> score(sentences.size());
  for (size_t i = 0; i < score.size(); ++i)
    score[i] = accel_cosine(asked->data, known->data + i * known->dim, known->dim);
  std::vector<size_t> order(sentences.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return score[a] > score[b]; });

  std::printf("on %s, %s\n%s\n", accel_placement(embedder.get())->device,
              accel_placement(embedder.get())->precision, question.c_str());
  for (size_t i : order) std::printf("  %.4f  %s\n", score[i], sentences[i].c_str());
  return 0;
} catch (const accelpp::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.exit_code();
}
