// Whatever stands on the launcher's command line and in torchrun's variables, it makes sense or is
// refused. Lines: "PET_NAME=value" is a variable, any other an argument.

#include <string>

#include "apps/tuttirun/options.hpp"
#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"

using namespace tutti::launcher;

namespace tutti::fuzz::options_parser {

constexpr std::size_t kMostLines = 32;

void check(const Options& options) {
  require(options.nproc_per_node >= 1 && options.nnodes >= 1);
  require(options.world_size() >= 1 && options.world_size() <= 65536);
  require(options.node_rank >= 0 && options.node_rank < options.nnodes);
  require(options.max_restarts >= 0 && options.grace.count() >= 0);
  require(options.join_timeout.count() >= 0);
  require(!options.master_port || *options.master_port != 0);
  require(options.nnodes == 1 || options.master_port);
  for (const int rank : options.shown) require(rank >= 0 && rank < options.nproc_per_node);
  for (const StreamChoice* choice : {&options.redirect, &options.tee}) {
    require(choice->everybody <= 3);
    for (const auto& [rank, bits] : choice->of_rank)
      require(rank >= 0 && rank < options.nproc_per_node && bits <= 3);
  }
  require(!options.program.empty());
}

TUTTI_FUZZER(options_fuzz)(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  std::vector<std::string> arguments{"tuttirun"};
  std::vector<std::string> variables;
  for (std::size_t i = 0; i < kMostLines && !input.empty(); ++i) {
    // As a process gets it: up to a zero byte.
    const std::string line = std::string(input.line()).c_str();
    const std::size_t equals = line.find('=');
    if (!line.starts_with("PET_") || equals == std::string::npos) {
      arguments.push_back(line);
      continue;
    }
    variables.push_back(line.substr(0, equals));
    require(setenv(variables.back().c_str(), line.c_str() + equals + 1, 1) == 0);
  }
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  auto parsed = parse_options(static_cast<int>(argv.size()), argv.data());
  for (const std::string& name : variables) unsetenv(name.c_str());
  if (!parsed) {
    require(parsed.status().code() == tutti::Errc::invalid_argument);
    require(!parsed.status().message().empty());
    return 0;
  }
  if (!parsed->text) check(parsed->options);
  return 0;
}

}  // namespace tutti::fuzz::options_parser
