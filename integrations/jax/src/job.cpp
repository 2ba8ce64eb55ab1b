#include "job.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <tutti/error.hpp>
#include <tutti/init.hpp>

#include "abi.hpp"

namespace tutti::jax {
namespace {

using Clock = std::chrono::steady_clock;

// Python's functions. They return 0 if all is well, and give the texts that they return, or the
// text of their error, by tutti_jax_give.
using AskPlace = int (*)(Place* place, double seconds);
using Exchange = int (*)(const char* name, const char* mine, std::size_t bytes, double seconds);

std::atomic<AskPlace> ask_place{nullptr};
std::atomic<Exchange> exchange{nullptr};
thread_local std::vector<std::string>
    given;  // Python's functions are called by this thread and give to it

/// Runs one of Python's functions: what it gives, or its error.
template <class Function, class... Arguments>
Result<std::vector<std::string>> call(Function function, Errc code, Arguments... arguments) {
  given.clear();
  const int result = function(arguments...);
  std::vector<std::string> texts = std::exchange(given, {});
  if (result != 0)
    return Outcome(code, texts.empty() ? "tutti.jax: Python failed without a text" : texts.back());
  return texts;
}

}  // namespace

/// For Python, before jaxlib begins. Both functions stay until the process ends.
TUTTI_JAX_ABI void tutti_jax_set_callbacks(AskPlace place, Exchange texts) {
  ask_place = place;
  exchange = texts;
}

/// For Python, inside a callback.
TUTTI_JAX_ABI void tutti_jax_give(const char* text, std::size_t bytes) {
  given.emplace_back(text, bytes);
}

ProcessGroup make_world(std::chrono::nanoseconds limit, Place& place) {
  if (ask_place.load() == nullptr)
    raise(Outcome(Errc::invalid_argument,
                  "libtutti_jax.so serves tutti.jax: import tutti.jax before jax, and leave "
                  "MPITRAMPOLINE_LIB unset"));
  const auto end = Clock::now() + limit;
  const auto left = [end] {
    return std::max(std::chrono::duration<double>(end - Clock::now()).count(), 0.001);
  };
  raise_if(call(ask_place.load(), Errc::invalid_argument, &place, left()).status());
  InitOptions options;
  options.rank = place.rank;
  options.size = place.size;
  options.name = "jax";
  options.timeout =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(left()));
  options.backend = "native";  // whatever TUTTI_BACKEND says for the program's own groups
  options.exchange_is_private = false;
  options.exchange = [&left](const std::string& name, const std::string& mine) {
    return call(exchange.load(), Errc::store, name.c_str(), mine.data(), mine.size(), left());
  };
  return init_process_group(options);
}

}  // namespace tutti::jax
