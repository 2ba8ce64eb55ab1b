#include "options.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string_view>

#include <tutti/config.hpp>

#include "apps/tuttirun/option_text.hpp"
#include "base/deadline.hpp"
#include "base/format.hpp"
#include "base/number.hpp"
#include "base/split.hpp"
#include "os/cpu.hpp"
#include "raw_options.hpp"
#include "signals.hpp"

namespace tutti::launcher {
namespace {

constexpr int kMostWorkers = 65536;
constexpr int kMostRestarts = 1'000'000;
constexpr double kMostSeconds = 86400;
// torchrun's, for the address of a store without a port.
constexpr std::uint16_t kStaticPort = 29500;
constexpr std::uint16_t kC10dPort = 29400;

Outcome invalid(std::string text) { return Outcome(Errc::invalid_argument, std::move(text)); }

Result<int> number(const std::string& name, std::string_view text, int least, int most) {
  const std::optional<int> value = base::whole_number(text);
  if (!value || *value < least || *value > most) {
    return invalid(base::format("{} is \"{}\"; it must be a whole number from {} to {}", name, text,
                                least, most));
  }
  return *value;
}

/// Infinity is taken where waiting without limit makes sense.
Result<std::chrono::milliseconds> seconds(const std::string& name, std::string_view text,
                                          bool unlimited = false) {
  const double value = base::real_number(text).value_or(-1);
  if (unlimited && value == std::numeric_limits<double>::infinity())
    return std::chrono::milliseconds(base::kNoLimit);
  if (!(value >= 0 && value <= kMostSeconds)) {
    return invalid(base::format("{} is \"{}\"; it is a number of seconds from 0 to {:.0f}", name,
                                text, kMostSeconds));
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

/// GPUs that workers may use: those named in CUDA_VISIBLE_DEVICES, else those of the driver.
int usable_gpus() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) {
    int count = 0;
    // As CUDA reads it: the list ends at the first number that is none.
    for (const std::string_view one : base::split(visible, ',')) {
      if (one.empty() || one.starts_with('-')) break;
      ++count;
    }
    return count;
  }
  std::error_code none;
  const std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", none);
  return none ? 0 : static_cast<int>(std::distance(begin(gpus), end(gpus)));
}

Result<int> workers_per_node(const std::string& text) {
  if (text == "cpu") return os::usable_cpus();
  if (text == "gpu" || text == "auto") {
    const int gpus = usable_gpus();
    if (gpus > 0) return gpus;
    if (text == "auto") return os::usable_cpus();
    return invalid(
        "--nproc-per-node gpu: there is no NVIDIA GPU here (or CUDA_VISIBLE_DEVICES hides all); "
        "give a number, or cpu");
  }
  return number("--nproc-per-node", text, 1, kMostWorkers);
}

Result<int> nodes_of_job(const std::string& text, int most) {
  const std::vector<std::string_view> range = base::split(text, ':');
  if (range.size() == 2 && range[0] != range[1]) {
    return invalid(base::format(
        "--nnodes {}: a range is reserved; this version starts a job on a fixed number "
        "of nodes: give one number",
        text));
  }
  return number("--nnodes", range.size() == 2 ? range[0] : std::string_view(text), 1, most);
}

/// "0", "3" or "0:3,1:2".
Result<StreamChoice> streams(const std::string& name, const std::string& text, int workers) {
  StreamChoice choice;
  if (text.find(':') == std::string::npos) {
    auto bits = number(name, text, 0, 3);
    if (!bits) return bits.status();
    choice.everybody = static_cast<unsigned>(*bits);
    return choice;
  }
  for (const std::string_view one : base::split(text, ',')) {
    const std::vector<std::string_view> pair = base::split(one, ':');
    if (pair.size() != 2) {
      return invalid(base::format(
          "{} is \"{}\"; it is 0 to 3 for all workers (1 stdout, 2 stderr, 3 both), or "
          "by local rank, as in 0:3,1:2",
          name, text));
    }
    auto rank = number("the local rank in " + name, pair[0], 0, workers - 1);
    if (!rank) return rank.status();
    auto bits = number(base::format("{} of local rank {}", name, *rank), pair[1], 0, 3);
    if (!bits) return bits.status();
    choice.of_rank[*rank] = static_cast<unsigned>(*bits);
  }
  return choice;
}

struct Endpoint {
  std::string host;
  std::string port;  // may be empty
};

/// "host", "host:port", "[::1]:port".
Result<Endpoint> parse_endpoint(const std::string& text) {
  const std::size_t bracket = text.find(']');
  if (text.starts_with('[') && bracket != std::string::npos &&
      (bracket + 1 == text.size() || text[bracket + 1] == ':')) {
    return Endpoint{text.substr(1, bracket - 1),
                    bracket + 2 < text.size() ? text.substr(bracket + 2) : ""};
  }
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos && text.find(':', colon + 1) != std::string::npos) {
    return invalid(
        base::format("--rdzv-endpoint is \"{}\"; write an IPv6 address in brackets, as in "
                     "[::1]:29500",
                     text));
  }
  return Endpoint{text.substr(0, colon), colon == std::string::npos ? "" : text.substr(colon + 1)};
}

Outcome convert_conf(const std::string& text, Options& options) {
  // Options of torchrun's own rendezvous, which do not apply to ours.
  constexpr std::array<std::string_view, 8> kWithoutMeaning = {
      "close_timeout",     "last_call_timeout", "keep_alive_interval", "keep_alive_max_attempt",
      "heartbeat_timeout", "read_timeout",      "store_type",          "rank"};
  if (text.empty()) return {};
  for (const std::string_view one : base::split(text, ',')) {
    const std::size_t equals = one.find('=');
    const std::string_view key = one.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : one.substr(equals + 1);
    if (key == "timeout" || key == "join_timeout") {
      auto timeout = seconds(base::format("--rdzv-conf {}", key), value, true);
      if (!timeout) return timeout.status();
      options.join_timeout = *timeout;
    } else if (key == "is_host") {
      const bool yes = value == "1" || value == "true" || value == "True";
      if (!yes && value != "0" && value != "false" && value != "False")
        return invalid(base::format("--rdzv-conf is_host is \"{}\"; it is true or false", value));
      options.serves = yes;
    } else if (std::ranges::find(kWithoutMeaning, key) == kWithoutMeaning.end()) {
      return invalid(
          base::format("--rdzv-conf \"{}\" is not known; tuttirun takes join_timeout=SECONDS and "
                       "is_host=true or false",
                       one));
    }
  }
  return {};
}

/// The place of the store, and the numbers of the nodes.
Outcome convert_rendezvous(const RawOptions& raw, const CLI::App& app, Options& options) {
  const bool c10d = raw.rdzv_backend == "c10d";
  if (raw.rdzv_backend.starts_with("etcd")) {
    return invalid(
        base::format("--rdzv-backend {}: tuttirun serves a store of its own and asks no etcd; take "
                     "c10d, or static and --node-rank",
                     raw.rdzv_backend));
  }
  if (!c10d && raw.rdzv_backend != "static")
    return invalid(
        base::format("--rdzv-backend is \"{}\"; it is static or c10d", raw.rdzv_backend));
  if (raw.standalone && options.nnodes > 1)
    return invalid("--standalone means one node; leave it out with --nnodes");
  if (Outcome status = convert_conf(raw.rdzv_conf, options); !status) return status;

  bool address_given = app.count("--master-addr") > 0;
  std::string port = raw.master_port;
  std::string port_name = "--master-port";
  if (!raw.rdzv_endpoint.empty() && !raw.standalone) {
    auto endpoint = parse_endpoint(raw.rdzv_endpoint);
    if (!endpoint) return endpoint.status();
    if ((address_given && endpoint->host != options.master_addr) ||
        (!raw.master_port.empty() && !endpoint->port.empty() &&
         endpoint->port != raw.master_port)) {
      return invalid(
          base::format("--rdzv-endpoint {} and --master-addr, --master-port say different things; "
                       "give one of them",
                       raw.rdzv_endpoint));
    }
    options.master_addr = endpoint->host;
    address_given = true;
    if (!endpoint->port.empty()) {
      port = endpoint->port;
      port_name = "the port in --rdzv-endpoint";
      // torchrun's way to say: any.
      if (port == "0" && options.nnodes == 1) port.clear();
    }
  }
  if (!port.empty()) {
    auto parsed = number(port_name, port, 1, 65535);
    if (!parsed) return parsed.status();
    options.master_port = static_cast<std::uint16_t>(*parsed);
  } else if (options.nnodes > 1) {
    options.master_port = c10d ? kC10dPort : kStaticPort;
  }
  if (options.nnodes > 1 && !address_given) {
    return invalid(
        c10d ? "several nodes need --rdzv-endpoint HOST:PORT, the address of one of them by which "
               "the others reach it"
             : "several nodes need --master-addr, the address of the node with --node-rank 0 by "
               "which the others reach it");
  }
  options.find_node_rank = c10d && options.nnodes > 1 && app.count("--node-rank") == 0;
  return {};
}

Outcome convert_security(const RawOptions& raw, Options& options) {
  // Of the settings of the workers these are ours, too: the store is here.
  const auto config = Config::from_environment([](const char* name) -> const char* {
    const std::string_view wanted(name);
    const bool ours =
        wanted == "TUTTI_TLS" || wanted == "TUTTI_LINK_TIMEOUT" || wanted == "TUTTI_STALL_WARNING";
    return ours ? std::getenv(name) : nullptr;
  });
  if (!config) return config.status();
  options.tls = raw.tls || config.value().tls;
  options.link_timeout = config.value().link_timeout;
  options.stall_warning = config.value().stall_warning;
  return {};
}

Outcome convert_input(const RawOptions& raw, Options& options) {
  if (raw.input.empty()) return {};
  if (raw.input == "none") {
    options.stdin_rank = Options::kNoRank;
    return {};
  }
  auto rank = number("--stdin", raw.input, 0, options.world_size() - 1);
  if (!rank)
    return invalid(std::string(rank.status().message()) + ", the ranks of this job, or none");
  options.stdin_rank = *rank;
  return {};
}

Outcome convert_output(const RawOptions& raw, Options& options) {
  if (raw.tag) options.tag = true;
  if (raw.no_tag) options.tag = false;
  const int workers = options.nproc_per_node;
  auto redirect = streams("--redirects", raw.redirects, workers);
  if (!redirect) return redirect.status();
  options.redirect = std::move(*redirect);
  auto tee = streams("--tee", raw.tee, workers);
  if (!tee) return tee.status();
  options.tee = std::move(*tee);
  if (!options.log_dir.empty() && options.redirect.empty() && options.tee.empty())
    options.tee.everybody = 3;
  if (raw.shown.empty()) return {};
  for (const std::string_view one : base::split(raw.shown, ',')) {
    auto rank = number("a local rank in --local-ranks-filter", one, 0, workers - 1);
    if (!rank) return rank.status();
    options.shown.push_back(*rank);
  }
  return {};
}

/// The options that are given, but for those that any launcher can follow.
std::string ours_only(const CLI::App& app) {
  constexpr std::array<std::string_view, 6> kOfAll = {"backend",   "nproc-per-node", "module",
                                                      "no-python", "run-path",       "standalone"};
  std::string given;
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& names = option->get_lnames();
    if (option->count() == 0 || names.empty() || std::ranges::count(kOfAll, names.front()) > 0)
      continue;
    given += (given.empty() ? "--" : ", --") + names.front();
  }
  return given;
}

/// How the job is ended.
Outcome convert_ending(const RawOptions& raw, const CLI::App& app, Options& options) {
  const CLI::Option* const both = app.get_option("--shutdown-timeout");
  const auto choose = [&](const char* name, double value, std::chrono::milliseconds& to) {
    const char* given = name;
    if (*both && app.count(name) == 0) {
      value = raw.shutdown_timeout;
      given = "--shutdown-timeout";
    }
    if (!(value >= 0 && value <= kMostSeconds))
      return invalid(base::format("{} is a number of seconds from 0 to 86400", given));
    to = std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
    return Outcome();
  };
  if (Outcome s = choose("--grace", raw.grace, options.grace); !s) return s;
  if (Outcome s = choose("--grace-on-signal", raw.grace_on_signal, options.grace_on_signal); !s)
    return s;
  auto signals = parse_signals(raw.signals_to_handle);
  if (!signals) return signals.status();
  options.ending_signals = std::move(*signals);
  return {};
}

Outcome convert(const RawOptions& raw, const CLI::App& app, Options& options) {
  auto nproc = workers_per_node(raw.nproc);
  if (!nproc) return nproc.status();
  options.nproc_per_node = *nproc;
  auto nnodes = nodes_of_job(raw.nnodes, kMostWorkers / options.nproc_per_node);
  if (!nnodes) return nnodes.status();
  options.nnodes = *nnodes;
  options.ours_only = ours_only(app);
  auto node_rank = number("--node-rank", raw.node_rank, 0, kMostWorkers);
  if (!node_rank) return node_rank.status();
  options.node_rank = *node_rank;
  if (options.node_rank >= options.nnodes) {
    return invalid(
        base::format("--node-rank is {} of {} nodes; nodes count from 0 to {}, and "
                     "--nnodes says how many there are",
                     options.node_rank, options.nnodes, options.nnodes - 1));
  }
  if (Outcome status = convert_rendezvous(raw, app, options); !status) return status;
  if (Outcome status = convert_security(raw, options); !status) return status;

  auto restarts = number("--max-restarts", raw.max_restarts, 0, kMostRestarts);
  if (!restarts) return restarts.status();
  options.max_restarts = *restarts;
  if (raw.on_loss != "end") {
    return invalid(
        base::format("--on-loss is \"{}\"; this version has end only: a job does not go on without "
                     "the workers that it lost",
                     raw.on_loss));
  }
  if (!raw.monitor_interval.empty()) {
    auto interval = seconds("--monitor-interval", raw.monitor_interval);
    if (!interval) return interval.status();
  }
  if (raw.start_method != "spawn" && raw.start_method != "fork" &&
      raw.start_method != "forkserver") {
    return invalid(
        base::format("--start-method is \"{}\"; it is spawn, fork or forkserver, and all mean the "
                     "same here",
                     raw.start_method));
  }
  if (Outcome status = convert_ending(raw, app, options); !status) return status;
  if (raw.module) options.runner = Runner::module;
  if (raw.no_python) options.runner = Runner::as_is;
  if (raw.run_path) options.runner = Runner::python;
  if (Outcome status = convert_input(raw, options); !status) return status;
  return convert_output(raw, options);
}

/// True if one of the launcher's own options is spelled with an underscore.
bool has_underscore(int count, const char* const* arguments) {
  return std::any_of(arguments, arguments + count, [](std::string_view argument) {
    return argument.starts_with("--") &&
           argument.substr(0, argument.find('=')).find('_') != std::string_view::npos;
  });
}

/// The arguments with mpirun's -np as -n, which CLI11 would read as -n p. Those of the program
/// stay.
std::vector<const char*> without_np(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<const char*> arguments(argv, argv + argc);
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    std::string_view name = arguments[i];
    if (!name.starts_with('-') || name == "--") break;
    if (name == "-np") arguments[i] = "-n";
    if (name.find('=') != std::string_view::npos) continue;
    const CLI::Option* const option = app.get_option_no_throw(arguments[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;  // its value
  }
  return arguments;
}

}  // namespace

Result<Parsed> parse_options(int argc, const char* const* argv) {
  CLI::App app(
      "Starts a program several times as the ranks of one job, watches them, and ends all "
      "at the first failure.\nA program named *.py is run with Python ($PYTHON_EXEC, $PYTHON or "
      "python3).\n\n"
      "  tuttirun [options] program [arguments...]",
      "tuttirun");
  Parsed parsed;
  RawOptions raw;
  declare_options(app, raw, parsed.options);
  try {
    const std::vector<const char*> arguments = without_np(app, argc, argv);
    app.parse(argc, arguments.data());
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
    return parsed;
  } catch (const CLI::CallForVersion& version) {
    parsed.text = std::string(version.what()) + "\n";
    return parsed;
  } catch (const CLI::ParseError& error) {
    return invalid(option_text(error) + "; see tuttirun --help");
  }
  std::vector<std::string> rest = app.remaining();
  const int own = argc - static_cast<int>(rest.size());
  if (!rest.empty() && rest.front() == "--") {
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest.front().starts_with('-')) {
    return invalid(
        base::format("unknown option {}; {}", rest.front(), advice_for(app, rest.front())));
  }
  if (rest.empty())
    return invalid("no program given, as in: tuttirun --nproc-per-node 4 ./program");
  parsed.options.program = std::move(rest);
  if (Outcome status = convert(raw, app, parsed.options); !status) return status;
  if (raw.pass_local_rank && !raw.use_env)
    parsed.options.local_rank_argument =
        has_underscore(own, argv) ? "--local_rank=" : "--local-rank=";
  return parsed;
}

}  // namespace tutti::launcher
