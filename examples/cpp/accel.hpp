// accel.hpp - a small RAII wrapper around accel.h, for the examples: objects that free themselves, failures as exceptions.
#ifndef ACCEL_EXAMPLES_ACCEL_HPP
#define ACCEL_EXAMPLES_ACCEL_HPP

#include <accel/accel.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace accelpp {

class Error : public std::runtime_error {
 public:
  explicit Error(accel_status status)
      : std::runtime_error(std::string(accel_last_error()) + "\n" + accel_last_remedy()),
        status_(status) {}
  int exit_code() const { return accel_status_exit_code(status_); }

 private:
  accel_status status_;
};

inline void check(accel_status status) {
  if (status != ACCEL_OK) throw Error(status);
}

// The library's free functions take a pointer to the pointer.
template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T *p) const {
    Free(&p);
  }
};
using Context = std::unique_ptr<accel, Freed<accel_destroy>>;
using Endpoint = std::unique_ptr<accel_endpoint, Freed<accel_cleanup>>;
using Embeddings = std::unique_ptr<accel_embeddings, Freed<accel_embeddings_free>>;
using Devices = std::unique_ptr<accel_devices, Freed<accel_devices_free>>;
using TestReport = std::unique_ptr<accel_test_report, Freed<accel_test_report_free>>;
using Generations = std::unique_ptr<accel_generations, Freed<accel_generations_free>>;
using Chat = std::unique_ptr<accel_chat, Freed<accel_chat_close>>;
using Tensors = std::unique_ptr<accel_tensors, Freed<accel_tensors_free>>;

inline Context create(const accel_params *params = nullptr) {
  accel *ctx = nullptr;
  check(accel_create(params, &ctx));
  return Context(ctx);
}

inline Endpoint init(const Context &ctx, const std::string &model, const char *device = "auto",
                     const char *precision = nullptr) {
  accel_init_params how = accel_init_params_default();
  how.device = device;
  how.precision = precision;
  accel_endpoint *endpoint = nullptr;
  check(accel_init(ctx.get(), model.c_str(), &how, &endpoint));
  return Endpoint(endpoint);
}

inline Embeddings embed(const Endpoint &endpoint, const std::vector<std::string> &texts) {
  std::vector<const char *> pointers;
  for (const std::string &text : texts) pointers.push_back(text.c_str());
  accel_embeddings *found = nullptr;
  check(
      accel_embed(endpoint.get(), pointers.data(), static_cast<uint32_t>(pointers.size()), &found));
  return Embeddings(found);
}

inline Chat chat(const Endpoint &endpoint, const std::string &system = "") {
  accel_chat_params how = accel_chat_params_default();
  if (!system.empty()) how.system = system.c_str();
  accel_chat *made = nullptr;
  check(accel_chat_open(endpoint.get(), &how, &made));
  return Chat(made);
}

// The answer to a question; `listener` hears each token, and ends the answer with false.
using Listener = std::function<bool(const accel_token_event &)>;
inline Generations say(const Chat &chat, const std::string &text, const Listener &listener,
                       int max_new_tokens = 512) {
  accel_generate_params wishes = accel_generate_params_default();
  wishes.max_new_tokens = max_new_tokens;
  wishes.on_token_user = const_cast<Listener *>(&listener);
  wishes.on_token = [](void *user, const accel_token_event *event) {
    return (*static_cast<Listener *>(user))(*event) ? 0 : 1;
  };
  accel_generations *found = nullptr;
  check(accel_chat_send(chat.get(), text.c_str(), &wishes, &found));
  return Generations(found);
}

}  // namespace accelpp
#endif
