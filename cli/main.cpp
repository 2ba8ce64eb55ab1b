#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdio>
#include <exception>
#include <tutti/version.hpp>

#include "cli/doctor_command.hpp"

#ifdef TUTTI_CLI_HAS_BENCH
#include "bench/spawn.hpp"
#include "cli/bench_command.hpp"
#endif

int main(int argc, char** argv) {
  CLI::App app{"tutti: collective communication. The commands beside the library."};
  app.require_subcommand(0, 1);  // looked at below: then a misspelt one is named first
  app.add_subcommand("version", "Prints the version")->callback([] {
    fmt::print("tutti {}\n", tutti::version());
  });
  int exit_code = 0;
  tutti::cli::add_doctor_command(app, exit_code);
#ifdef TUTTI_CLI_HAS_BENCH
  tutti::cli::add_bench_command(app);
#endif
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
    return exit_code;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
#ifdef TUTTI_CLI_HAS_BENCH
  } catch (const tutti::bench::Interrupted&) {
    fmt::print(stderr, "tutti: interrupted; the processes that it started are ended\n");
    return 130;
#endif
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti: {}\n", error.what());
    return 1;
  }
}
