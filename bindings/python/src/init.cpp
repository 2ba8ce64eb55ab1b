#include "init.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <any>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tutti/init.hpp>
#include <tutti/store.hpp>

#include "arguments.hpp"
#include "backends.hpp"
#include "errors.hpp"
#include "gil.hpp"
#include "group.hpp"
#include "kept.hpp"
#include "owned.hpp"
#include "python_store.hpp"
#include "store.hpp"
#include "timeout.hpp"
#include "waiting.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti::python {
namespace {

InitOptions::Exchange exchange_of(nb::object function) {
  if (PyCallable_Check(function.ptr()) == 0)
    throw nb::type_error("init_process_group: the exchange must be callable");
  return [function = owned(std::move(function))](
             const std::string& name, const std::string& mine) -> Result<std::vector<std::string>> {
    const WithGil locked;
    try {
      std::vector<std::string> all;
      const nb::object given = call_python(*function, nb::cast(name), value_object(mine));
      for (const nb::handle one : given) all.push_back(text_of(one, "value"));
      return all;
    } catch (const nb::python_error& problem) {
      return Outcome(Errc::store, "init_process_group: the exchange raised " +
                                      nb::cast<std::string>(nb::repr(problem.value())));
    } catch (const nb::builtin_exception& problem) {
      return Outcome(Errc::store, std::string("init_process_group: the exchange gave no bytes: ") +
                                      problem.what());
    }
  };
}

// The options of the MPI backend: a communicator's handle, a handle and a list of its ranks, or a
// list of ranks of MPI_COMM_WORLD.
std::any for_mpi(nb::handle given) {
  if (given.is_none()) return {};
  try {
    if (nb::isinstance<nb::int_>(given)) return nb::cast<std::uintptr_t>(given);
    if (nb::isinstance<nb::list>(given)) return nb::cast<std::vector<int>>(given);
    return nb::cast<std::pair<std::uintptr_t, std::vector<int>>>(given);
  } catch (const nb::cast_error&) {
    throw nb::type_error(
        "init_process_group: backend_options of \"mpi\" is the handle of a communicator, "
        "(handle, ranks), or a list of ranks of MPI_COMM_WORLD");
  }
}

// The backend that init_process_group will choose. Errors of the environment are left to
// init_process_group.
std::string backend_of(const InitOptions& options) {
  if (options.backend) return *options.backend;
  if (options.config) return options.config->backend;
  const Result<Config> config = Config::from_environment();
  return config ? config.value().backend : std::string();
}

// The variables that tell where the ranks meet.
constexpr const char* kAddressVariables[] = {"MASTER_ADDR", "MASTER_PORT", "TUTTI_STORE_PORT"};

// True for the only rank of a world, if nothing tells where it would meet others.
bool is_alone(const InitOptions& options) {
  return options.rank == 0 && options.size == 1 && options.store == nullptr && !options.exchange &&
         options.init_method.value_or("env://") == "env://" && !options.master_addr &&
         !options.master_port && backend_of(options) != "mpi" &&
         std::ranges::all_of(kAddressVariables,
                             [](const char* name) { return std::getenv(name) == nullptr; });
}

nb::object init(std::optional<std::string> init_method, nb::handle store, std::optional<int> rank,
                std::optional<int> size, std::optional<std::string> master_addr,
                std::optional<int> master_port, nb::handle timeout, std::optional<Config> config,
                std::string name, std::string job_name, nb::object exchange,
                bool exchange_is_private, const std::optional<std::string>& backend,
                nb::object backend_options, const std::optional<nb::bytes>& secret, bool or_alone) {
  Kept::release_done();
  InitOptions options;
  options.init_method = std::move(init_method);
  if (!store.is_none()) options.store = store_of(store);
  options.rank = rank;
  options.size = size;
  options.master_addr = std::move(master_addr);
  options.master_port = master_port;
  options.timeout = timeout_of(timeout);
  if (secret) {
    const auto* const bytes = static_cast<const std::byte*>(secret->data());
    options.secret.emplace(std::span(bytes, secret->size()));
  }
  options.config = std::move(config);
  options.name = std::move(name);
  options.job_name = std::move(job_name);
  if (!exchange.is_none()) options.exchange = exchange_of(std::move(exchange));
  options.exchange_is_private = exchange_is_private;
  options.or_alone = or_alone;
  if (backend) options.backend = engine_name(*backend);
  const auto given = std::make_shared<ForBackend>();
  if (backend_of(options) == "mpi") {
    options.backend_options = for_mpi(backend_options);
  } else {
    given->options = owned(std::move(backend_options));
    options.backend_options = given;
  }
  if (is_alone(options)) {
    options.init_method.reset();
    options.store = make_hash_store();
  }
  // Init cannot be cancelled: after an interrupt it goes on alone until its timeout.
  try {
    return object_of(share(run_interruptibly([options] { return init_process_group(options); })));
  } catch (const Error& error) {
    if (given->raised)
      std::rethrow_exception(given->raised);  // the exception of our own function, unchanged
    if (error.code() == Errc::timeout) raise_as("RendezvousTimeoutError", error.status());
    if (error.code() == Errc::store) raise_as("ServeError", error.status());
    throw;
  }
}

}  // namespace

void bind_init(nb::module_& module) {
  const auto none = [](const char* name) { return nb::arg(name) = nb::none(); };
  define(
      module, "init_process_group", &init, none("init_method"), nb::kw_only(), none("store"),
      none("rank"), none("world_size"), none("master_addr"), none("master_port"), none("timeout"),
      none("config"), "name"_a = "world", "job_name"_a = "", none("exchange"),
      "exchange_is_private"_a = true, none("backend"), none("backend_options"), none("secret"),
      "or_alone"_a = false,
      "Make the group of all processes of the job; what is None stands in the environment,\n"
      "which is read now. Blocks until all have joined. rank=0 and world_size=1 need no address.\n"
      "or_alone: a program that no launcher has started makes a world of one.");
  nb::list variables;
  for (const char* const one : kAddressVariables) variables.append(one);
  module.attr("ADDRESS_VARIABLES") = nb::tuple(variables);
  define(
      module, "job_secret",
      [] {
        const std::vector<std::byte> secret = job_secret();
        return nb::bytes(secret.data(), secret.size());
      },
      "The job's secret, from TUTTI_SECRET_FD or TUTTI_SECRET_FILE, else the user's own key; "
      "empty\n"
      "only where TUTTI_INSECURE says so.");
  define(module, "is_initialized", &is_initialized, "A world of this process lives.");
}

}  // namespace tutti::python
