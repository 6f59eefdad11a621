// chat.cpp - a conversation: each line of input is a question, answers are printed as they come.
//   chat MODEL [SYSTEM MESSAGE]
#include <iostream>

#include "accel.hpp"

int main(int argc, char **argv) try {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " MODEL [SYSTEM MESSAGE]\n";
    return 2;
  }
  const auto ctx = accelpp::create();
  const auto model = accelpp::init(ctx, argv[1]);
  const auto chat = accelpp::chat(model, argc > 2 ? argv[2] : "");
  for (std::string line; std::cerr << "> ", std::getline(std::cin, line);) {
    if (line.empty()) continue;
    accelpp::say(chat, line, [](const accel_token_event &token) {
      std::cout << token.text << std::flush;
      return true;  // false ends the answer
    });
    std::cout << '\n';
  }
  return 0;
} catch (const accelpp::Error &error) {
  std::cerr << error.what() << '\n';
  return error.exit_code();
}
