#include "apps/tutti/explain_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/config.hpp>

#include "apps/bench/sizes.hpp"
#include "apps/tutti/explain_call.hpp"
#include "apps/tutti/explain_html.hpp"
#include "apps/tutti/explain_text.hpp"
#include "base/format.hpp"
#include "base/shown.hpp"
#include "os/cpu.hpp"

namespace tutti::cli {
namespace explain {
namespace {

/// Beyond, the walk through all schedules takes long, and no page can show it.
constexpr int kMostRanks = 256;

struct Options {
  std::string operation;
  int ranks = 4;
  int hosts = 1;
  std::string bytes = "1M";
  std::string dtype = "float32";
  int root = 0;
  std::string html;
};

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const plan::Algorithm& algorithm : plan::algorithms()) {
    const std::string name(traits_of(algorithm.kind).name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(to_string(static_cast<DType>(i)));
  return names;
}

template <class Names>
int place_of(const Names& names, const std::string& name) {
  return static_cast<int>(std::ranges::find(names, name) - names.begin());
}

[[noreturn]] void refuse(const std::string& why) { throw CLI::ValidationError(why); }

Kind kind_of(const std::string& name) {
  for (int kind = 0; kind < kKindCount; ++kind)
    if (traits_of(static_cast<Kind>(kind)).name == name) return static_cast<Kind>(kind);
  throw std::logic_error("an algorithm of no kind");
}

/// Throws CLI::ValidationError.
Question question_of(const Options& options) {
  Question q;
  q.kind = kind_of(options.operation);
  q.ranks = options.ranks;
  q.hosts = options.hosts;
  q.dtype = static_cast<DType>(place_of(dtype_names(), options.dtype));
  q.root = options.root;
  if (q.hosts > q.ranks)
    refuse(
        base::format("--hosts {} is more than --ranks {}: a host without a rank has no part in "
                     "a call",
                     q.hosts, q.ranks));
  if (traits_of(q.kind).rooted && q.root >= q.ranks)
    refuse(base::format("--root {} is no rank: there are 0 to {}", q.root, q.ranks - 1));
  if (has_data(q.kind)) {
    std::uint64_t bytes = 0;
    try {
      bytes = bench::parse_size(options.bytes);
    } catch (const std::invalid_argument& error) {
      refuse(base::format("--bytes: {}", error.what()));
    }
    if (bytes == 0) refuse("--bytes: a call of 0 bytes moves nothing");
    if (bytes % size_of(q.dtype) != 0)
      refuse(base::format("--bytes: {} bytes are no whole number of {}, which has {}", bytes,
                          options.dtype, size_of(q.dtype)));
    q.bytes = bytes;
  }
  if (const std::string why = explain::refusal_of(q); !why.empty()) refuse(why);
  Result<Config> config = Config::from_environment();
  if (!config) refuse(std::string(config.status().message()));
  if (const Outcome known = plan::check_override(config->algorithms); !known.ok())
    refuse(std::string(known.message()));
  q.cpus = config->cpus.value_or(os::usable_cpus());
  q.algorithms = config->algorithms;
  q.apart = config->transport == Config::TransportChoice::tcp;
  return q;
}

int write(const std::string& file, const std::string& text) {
  if (file.empty() || file == "-")
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text << std::flush;
  if (stream) {
    fmt::print("{}\n", base::shown_on_line(file));
    return 0;
  }
  fmt::print(stderr, "tutti explain: {} cannot be written\n", base::shown_on_line(file));
  return 1;
}

int run(const Options& options) {
  const Question question = question_of(options);
  const explain::Plans plans(question);
  const explain::Explanation e = [&] {
    try {
      return explain::explain(question, plans.all());
    } catch (const std::length_error& error) {
      refuse(error.what());
    }
  }();
  return write(options.html, options.html.empty() ? explain::text_of(e) : explain::html_of(e));
}

}  // namespace
}  // namespace explain

void add_explain_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<explain::Options>();
  auto* command = app.add_subcommand(
      "explain",
      "Tells how a collective runs: which algorithm is taken and why, and which rank sends what to "
      "which, from the schedules that run. TUTTI_ALGO, TUTTI_CPUS and TUTTI_TRANSPORT count as in "
      "a job");
  const std::vector<std::string> names = explain::collective_names();
  command->add_option("operation", options->operation, base::format("{}", fmt::join(names, ", ")))
      ->required()
      ->check(CLI::IsMember(names));
  command->add_option("--ranks", options->ranks, "Number of ranks")
      ->check(CLI::Range(1, explain::kMostRanks))
      ->capture_default_str();
  command
      ->add_option("--hosts", options->hosts,
                   "Divides the ranks over so many hosts, evenly; if that is not possible, some "
                   "have one more")
      ->check(CLI::Range(1, explain::kMostRanks))
      ->capture_default_str();
  command
      ->add_option("--bytes", options->bytes,
                   "Size of a rank's tensor, e.g. 8, 4K, 1M; of all_gather, gather, scatter, "
                   "reduce_scatter and all_to_all that of one block")
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "Type of the elements")
      ->check(CLI::IsMember(explain::dtype_names()))
      ->capture_default_str();
  command->add_option("--root", options->root, "Root rank of a rooted operation")
      ->check(CLI::Range(0, explain::kMostRanks - 1))
      ->capture_default_str();
  command->add_option("--html", options->html,
                      "Writes a page with a picture to this file; - for standard output. It needs "
                      "no other file");
  command->callback([=, &exit_code] { exit_code = explain::run(*options); });
}

}  // namespace tutti::cli
