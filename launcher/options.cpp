#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <numeric>

#include <tutti/version.hpp>

#include "os/cpu.hpp"

namespace tutti::launcher {
namespace {

constexpr int kMostWorkers = 65536;

Status invalid(std::string text) { return Status(Errc::invalid_argument, std::move(text)); }

// How many letters to change to get from one word to the other.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string did_you_mean(const CLI::App& app, const std::string& word) {
  std::string name = word.substr(0, word.find('='));
  std::ranges::replace(name, '_', '-');
  std::string best;
  std::size_t best_distance = SIZE_MAX;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& known : option->get_lnames()) {
      if (known.find('_') != std::string::npos) continue;
      const std::string full = "--" + known;
      // Half a name is a better hint than a similar one.
      const std::size_t d = full.starts_with(name) && name.size() > 3 ? 1 : distance(name, full);
      if (d < best_distance) {
        best_distance = d;
        best = full;
      }
    }
  }
  if (best_distance > std::max<std::size_t>(2, name.size() / 3)) return "see tuttirun --help";
  return fmt::format("did you mean {}?", best);
}

Result<int> number(const std::string& name, const std::string& text, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end || value < least || value > most) {
    return invalid(fmt::format("{} is \"{}\"; it must be a whole number from {} to {}", name, text,
                               least, most));
  }
  return value;
}

struct Raw {
  std::string nproc = "1";
  std::string nnodes = "1";
  std::string node_rank = "0";
  std::string master_port;
  double grace = 5;
  bool tag = false;
  bool no_tag = false;
};

Status convert(const Raw& raw, const CLI::App& app, Options& options) {
  if (raw.nproc == "auto" || raw.nproc == "cpu") {
    options.nproc_per_node = os::usable_cpus();
  } else {
    auto nproc = number("--nproc-per-node", raw.nproc, 1, kMostWorkers);
    if (!nproc) return nproc.status();
    options.nproc_per_node = *nproc;
  }
  auto nnodes = number("--nnodes", raw.nnodes, 1, kMostWorkers / options.nproc_per_node);
  if (!nnodes) return nnodes.status();
  options.nnodes = *nnodes;
  auto node_rank = number("--node-rank", raw.node_rank, 0, kMostWorkers);
  if (!node_rank) return node_rank.status();
  options.node_rank = *node_rank;
  if (options.node_rank >= options.nnodes) {
    return invalid(
        fmt::format("--node-rank is {} of {} nodes; nodes count from 0 to {}, and "
                    "--nnodes says how many there are",
                    options.node_rank, options.nnodes, options.nnodes - 1));
  }
  if (!raw.master_port.empty()) {
    auto port = number("--master-port", raw.master_port, 1, 65535);
    if (!port) return port.status();
    options.master_port = static_cast<std::uint16_t>(*port);
  }
  if (options.nnodes > 1 && app.count("--master-addr") == 0) {
    return invalid(
        "several nodes need --master-addr, the address of the node with --node-rank 0 "
        "by which the others reach it");
  }
  if (!(raw.grace >= 0 && raw.grace <= 86400))
    return invalid("--grace is a number of seconds from 0 to 86400");
  options.grace = std::chrono::milliseconds(static_cast<std::int64_t>(raw.grace * 1000));
  if (raw.tag) options.tag = true;
  if (raw.no_tag) options.tag = false;
  return {};
}

void declare(CLI::App& app, Raw& raw, Options& options, bool& standalone) {
  app.prefix_command();
  app.set_version_flag("--version", fmt::format("tuttirun {}", kVersion));
  app.add_option("--nproc-per-node,--nproc_per_node", raw.nproc,
                 "Workers on this node; auto: one per CPU")
      ->capture_default_str();
  app.add_option("--nnodes", raw.nnodes, "Nodes of the job; start tuttirun on each")
      ->capture_default_str();
  app.add_option("--node-rank,--node_rank", raw.node_rank, "Number of this node, from 0")
      ->capture_default_str();
  app.add_option("--master-addr,--master_addr", options.master_addr,
                 "Address or name of node 0; the store listens there and nowhere else")
      ->capture_default_str();
  app.add_option("--master-port,--master_port", raw.master_port,
                 "Port of the store [a free one on one node, 29500 on several]");
  app.add_option("--secret-file,--secret_file", options.secret_file,
                 "File (mode 600) with the job's secret, the same on all nodes [made on one node]");
  app.add_option("--grace", raw.grace, "Seconds between asking workers to end and ending them")
      ->capture_default_str();
  auto* tag =
      app.add_flag("--tag", raw.tag, "Put [rank]: before each line of output [on a terminal]");
  app.add_flag("--no-tag,--no_tag", raw.no_tag, "Never do so")->excludes(tag);
  app.add_flag("-m,--module", options.module, "The program is a Python module: python3 -m program");
  app.add_flag("--standalone", standalone, "One node; the default, taken for torchrun's sake");
}

}  // namespace

Result<Parsed> parse_options(int argc, const char* const* argv) {
  CLI::App app(
      "Starts a program several times as the ranks of one job, watches them, and ends all "
      "at the first failure.\nA program named *.py is run with python3.\n\n"
      "  tuttirun [options] program [arguments...]",
      "tuttirun");
  Parsed parsed;
  Raw raw;
  bool standalone = false;
  declare(app, raw, parsed.options, standalone);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.text = std::string(version.what()) + "\n";
    return parsed;
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    std::ranges::replace(text, '\n', ' ');
    return invalid(text + "; see tuttirun --help");
  }
  std::vector<std::string> rest = app.remaining();
  if (!rest.empty() && rest.front() == "--") {
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest.front().starts_with('-')) {
    return invalid(
        fmt::format("unknown option {}; {}", rest.front(), did_you_mean(app, rest.front())));
  }
  if (rest.empty())
    return invalid("no program given, as in: tuttirun --nproc-per-node 4 ./program");
  parsed.options.program = std::move(rest);
  if (Status status = convert(raw, app, parsed.options); !status) return status;
  if (standalone && parsed.options.nnodes > 1)
    return invalid("--standalone means one node; leave it out with --nnodes");
  return parsed;
}

}  // namespace tutti::launcher
