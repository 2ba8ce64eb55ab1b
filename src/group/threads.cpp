#include <tutti/launch.hpp>

#include "group/thread_ranks.hpp"
#include "rendezvous/known_variables.hpp"

namespace tutti {

void run_threads(int size, const std::function<void(ProcessGroup&)>& body,
                 const std::optional<Config>& given) {
  if (size < 1) raise(Status(Errc::invalid_argument, "run_threads: size must be at least 1"));
  const Result<Config> config = given ? Result<Config>(*given) : Config::from_environment();
  if (!config) raise(config.status());
  rendezvous::warn_of_misspelt_variables();
  group::run_thread_ranks(size, body, [&](int) { return config.value(); });
}

}  // namespace tutti
