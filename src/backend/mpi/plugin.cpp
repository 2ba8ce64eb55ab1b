#include <tutti/backend/plugin.hpp>

#include "backend/mpi/mpi_backend.hpp"

// The entry point that a program's copy of the library looks up in this shared library.
extern "C" __attribute__((visibility("default"))) const tutti::BackendPlugin*
tutti_backend_plugin() {
  static constexpr tutti::BackendPlugin kPlugin{
      .describe = [](tutti::BackendFactory& factory) { factory = tutti::mpi::factory(); },
      .set_log =
          [](void (*sink)(tutti::LogLevel, std::string_view)) {
            tutti::set_log_sink(sink, tutti::LogLevel::debug);
          },
  };
  return &kPlugin;
}
