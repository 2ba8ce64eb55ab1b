#include <tutti/launch.hpp>

#include <tutti/backend/registry.hpp>

#include "group/thread_ranks.hpp"
#include "group/worlds.hpp"
#include "rendezvous/known_variables.hpp"

namespace tutti {
inline namespace v0 {

void run_threads(int size, const std::function<void(ProcessGroup&)>& body,
                 const std::optional<Config>& given) {
  if (size < 1) raise(Outcome(Errc::invalid_argument, "run_threads: size must be at least 1"));
  const Result<Config> config = given ? Result<Config>(*given) : Config::from_environment();
  if (!config) raise(config.status());
  rendezvous::warn_of_misspelt_variables();
  const std::string& backend = config.value().backend;
  raise_if(group::check_backend(backend));
  if (group::find_backend(backend)->launch) {
    raise(Outcome(Errc::unsupported,
                  "run_threads: the ranks of the backend '" + backend +
                      "' are processes that its own launcher starts (tuttirun --backend " +
                      backend + "), not threads; choose Config::backend = \"native\" here"));
  }
  group::run_thread_ranks(size, body, [&](int) { return config.value(); });
}

}  // namespace v0
}  // namespace tutti
