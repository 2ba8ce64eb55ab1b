#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <tutti/version.hpp>

#include "apps/bench/spawn.hpp"
#include "apps/tutti/bench_command.hpp"
#include "apps/tutti/doctor_command.hpp"
#include "apps/tutti/explain_command.hpp"
#include "apps/tutti/status_command.hpp"
#include "apps/tutti/trace_command.hpp"
#include "apps/tutti/usage.hpp"
#include "base/format.hpp"

int main(int argc, char** argv) {
  CLI::App app{"tutti: collective communication. The commands beside the library."};
  app.require_subcommand(0, 1);  // looked at below: then a misspelt one is named first
  const std::string version = tutti::base::format("tutti {}", tutti::version());
  app.set_version_flag("--version", version);
  app.add_subcommand("version", "Prints the version")->callback([&] {
    fmt::print("{}\n", version);
  });
  int exit_code = 0;
  tutti::cli::add_doctor_command(app, exit_code);
  tutti::cli::add_explain_command(app, exit_code);
  tutti::cli::add_status_command(app, exit_code);
  tutti::cli::add_trace_command(app, exit_code);
  tutti::cli::add_bench_command(app);
  for (CLI::App* command : app.get_subcommands({})) command->set_version_flag("--version", version);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
    // A command is called for its output.
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw std::runtime_error("cannot write to standard output");
    return exit_code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "{}\n", tutti::cli::usage_error(app, error));
    return 2;
  } catch (const tutti::bench::Interrupted&) {
    fmt::print(stderr, "tutti: interrupted; the processes that it started are ended\n");
    return 130;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti: {}\n", error.what());
    return 1;
  }
}
