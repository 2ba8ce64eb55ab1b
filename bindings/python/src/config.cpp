#include "config.hpp"

#include <nanobind/stl/chrono.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <tutti/config.hpp>
#include <tutti/log.hpp>

#include "arguments.hpp"
#include "callbacks.hpp"
#include "gil.hpp"
#include "kept.hpp"
#include "owned.hpp"
#include "shown.hpp"
#include "timeout.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti::python {
namespace {

// As the environment spells them, in the order of the enumerations.
constexpr std::array<std::string_view, 3> kAgree = {"normal", "strict", "off"};
constexpr std::array<std::string_view, 3> kTransport = {"auto", "shm", "tcp"};

template <std::size_t n>
int index_of(const std::array<std::string_view, n>& words, const std::string& word,
             const char* name) {
  std::string all;
  for (std::size_t i = 0; i < n; ++i) {
    if (words[i] == word) return static_cast<int>(i);
    all += (i == 0 ? "" : ", ") + std::string(words[i]);
  }
  throw nb::value_error(
      ("Config." + std::string(name) + ": '" + word + "' is none of " + all).c_str());
}

Config from_environment(nb::handle environment) {
  if (environment.is_none()) {
    Result<Config> config = Config::from_environment();
    raise_if(config.status());
    return *config;
  }
  std::map<std::string, std::string> values;
  for (const nb::handle item : environment.attr("items")()) {
    const auto pair = nb::cast<nb::tuple>(item);
    if (!nb::isinstance<nb::str>(pair[0]) || !nb::isinstance<nb::str>(pair[1])) {
      throw nb::type_error(
          ("Config.from_environment: names and values of variables are text, not " +
           nb::cast<std::string>(nb::repr(item)))
              .c_str());
    }
    values.emplace(nb::cast<std::string>(pair[0]), nb::cast<std::string>(pair[1]));
  }
  Result<Config> config = Config::from_environment([&](const char* name) {
    const auto at = values.find(name);
    return at == values.end() ? nullptr : at->second.c_str();
  });
  raise_if(config.status());
  return *config;
}

// One log line for Python's sink.
class LogRecord : public Task {
 public:
  LogRecord(Owned sink, LogLevel level, std::string_view text)
      : sink_(std::move(sink)), level_(level), text_(text) {}
  void run() noexcept override {
    try {
      (void)call_python(*sink_, nb::cast(level_), shown_object(text_));
    } catch (nb::python_error& problem) {
      report_unraisable(problem, "the log sink of tutti");
    }
  }

 private:
  Owned sink_;
  LogLevel level_;
  std::string text_;
};

void set_sink(nb::object sink, LogLevel least) {
  if (sink.is_none()) {
    // OFF stays: a level in the environment does not turn the log on again at init.
    const bool silent = least == LogLevel::off;
    set_log_sink(silent ? LogSink([](LogLevel, std::string_view) {}) : LogSink(), least);
    return;
  }
  if (PyCallable_Check(sink.ptr()) == 0)
    throw nb::type_error("set_log_sink: the sink must be callable, or None");
  Callbacks::start();
  set_log_sink(
      [sink = owned(std::move(sink))](LogLevel level, std::string_view text) {
        // A task, because the logging thread may hold a lock that a thread with the GIL waits for.
        Callbacks::leave(std::make_unique<LogRecord>(sink, level, text));
      },
      least);
}

}  // namespace

void bind_config(nb::module_& module) {
  nb::enum_<LogLevel>(module, "LogLevel", nb::is_arithmetic(), "How much a remark matters.")
      .value("DEBUG", LogLevel::debug)
      .value("INFO", LogLevel::info)
      .value("WARNING", LogLevel::warning)
      .value("ERROR", LogLevel::error)
      .value("OFF", LogLevel::off);
  define(module, "set_log_sink", &set_sink, "sink"_a, "least"_a = LogLevel::warning,
         "Where the library's remarks go. The sink is called soon after, on the thread of the\n"
         "callbacks. None: warnings and errors to standard error; with OFF nothing.");

  Class<Config>(module, "Config",
                "Every setting that an environment variable can give; "
                "docs/reference/configuration.md lists them.")
      .def(nb::init<>())
      .def_static("from_environment", &from_environment, "environment"_a = nb::none(),
                  "Read from os.environ, or from a mapping.")
      .def_prop_rw(
          "timeout", [](const Config& self) { return self.timeout; },
          [](Config& self, nb::handle value) {
            const Timeout timeout = timeout_of(value);
            if (!timeout) throw nb::value_error("Config.timeout must not be None");
            self.timeout = *timeout;
          },
          "Of init and of operations that say none.")
      .def_prop_rw(
          "link_timeout", [](const Config& self) { return self.link_timeout; },
          [](Config& self, nb::handle value) {
            const Timeout timeout = timeout_of(value);
            const bool known = timeout && *timeout >= std::chrono::seconds(1) &&
                               *timeout <= std::chrono::seconds(32767);
            if (!known) throw nb::value_error("Config.link_timeout must be 1 to 32767 s");
            self.link_timeout = std::chrono::floor<std::chrono::milliseconds>(*timeout);
          },
          "How long a host may answer nothing before it counts as lost.")
      .def_prop_rw(
          "stall_warning", [](const Config& self) { return self.stall_warning; },
          [](Config& self, nb::handle value) {
            const Timeout after = timeout_of(value);
            if (!after || *after < std::chrono::nanoseconds(0))
              throw nb::value_error("Config.stall_warning must be 0 or more");
            self.stall_warning = *after;
          },
          "An operation that has waited so long is told in the log; 0: none is.")
      .def_rw("flight_recorder", &Config::flight_recorder,
              "The last operations of each rank are noted, for tuttirun and `tutti status`.")
      .def_rw(
          "cuda_ipc", &Config::cuda_ipc,
          "Tensors of GPUs go from GPU to GPU: in groups whose ranks are all on one host, and in "
          "large messages between ranks of one host.")
      .def_rw("backend", &Config::backend,
              "The backend that runs the operations: \"auto\", or one of available_backends().")
      .def_prop_rw(
          "agree",
          [](const Config& self) {
            return std::string(kAgree[static_cast<std::size_t>(self.agree)]);
          },
          [](Config& self, const std::string& word) {
            self.agree = static_cast<Config::Agree>(index_of(kAgree, word, "agree"));
          },
          "\"normal\", \"strict\" or \"off\".")
      .def_prop_rw(
          "transport",
          [](const Config& self) {
            return std::string(kTransport[static_cast<std::size_t>(self.transport)]);
          },
          [](Config& self, const std::string& word) {
            self.transport =
                static_cast<Config::TransportChoice>(index_of(kTransport, word, "transport"));
          },
          "\"auto\", \"shm\" or \"tcp\".")
      .def_rw("algorithms", &Config::algorithms, "E.g. \"all_reduce:ring\".")
      .def_rw("tls", &Config::tls, "Every TCP connection is encrypted; there must be a secret.")
      .def_rw("cpus", &Config::cpus, "That the ranks of this host have together.")
      .def_rw("host_id", &Config::host_id, "Ranks with different ids share no memory.")
      .def_rw("interfaces", &Config::interfaces,
              "E.g. \"eth0,ib\": the network interface on which this rank listens.")
      .def_rw("advertise", &Config::advertise,
              "\"HOST\" or \"HOST:PORT\", by which the other ranks reach this one.")
      .def_rw("port", &Config::port,
              "On which local rank 0 listens; each rank adds its own number.")
      .def_rw("log_level", &Config::log_level, "Least level that reaches the log sink.");
}

}  // namespace tutti::python
