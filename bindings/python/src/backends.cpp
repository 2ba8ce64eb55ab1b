#include "backends.hpp"

#include <nanobind/stl/chrono.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <any>
#include <cctype>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <tutti/backend/registry.hpp>
#include <tutti/init.hpp>

#include "arguments.hpp"
#include "gil.hpp"
#include "group.hpp"
#include "lent_backend.hpp"
#include "shown.hpp"
#include "store.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti::python {
namespace {

// Makes a backend of `world` from the function's result. Needs the GIL.
Group checked(nb::handle made, const std::string& name, const WorldOptions& world) {
  const std::string function = "the function of the registered backend '" + name + "'";
  if (!nb::isinstance<GroupHandle>(made)) {
    const std::string type = name_of_type(made.type());
    throw nb::type_error((function + " must return a tutti.ProcessGroup, not " + type).c_str());
  }
  Group group = nb::cast<const GroupHandle&>(made).open();
  if (group->rank() != world.identity.rank || group->size() != world.identity.size) {
    throw nb::value_error((function + " was asked for rank " + std::to_string(world.identity.rank) +
                           " of " + std::to_string(world.identity.size) +
                           ", and gave a group in which we are rank " +
                           std::to_string(group->rank()) + " of " + std::to_string(group->size()))
                              .c_str());
  }
  return group;
}

// The backend whose function runs on this thread. If the function makes a world as the environment
// says, it would be called again.
thread_local const std::string* in_function = nullptr;

// The functions of backends registered in Python. The library never forgets a backend, but its
// function must not outlive the interpreter.
std::vector<std::shared_ptr<Owned>>& functions() {
  static auto* const kFunctions = new std::vector<std::shared_ptr<Owned>>;  // never destroyed
  return *kFunctions;
}

Result<Backend*> make_world(const std::string& name, const std::shared_ptr<Owned>& function,
                            const WorldOptions& world) {
  const auto* const given = std::any_cast<std::shared_ptr<ForBackend>>(&world.backend_options);
  if (given == nullptr)
    return Outcome(Errc::unsupported, "the backend '" + name + "' is Python's, for its own worlds");
  if (in_function != nullptr && *in_function == name) {
    return Outcome(Errc::invalid_argument,
                   "the function of the registered backend '" + name +
                       "' asks for a world on that backend itself (TUTTI_BACKEND may say so); give "
                       "init_process_group another one there, as backend=\"native\"");
  }
  // The ranks compare their backends first, because the function may wait for the other ranks.
  if (const auto texts = world.exchange(""); !texts) return texts.status();
  const auto failed = [&](const std::string& text) {
    (*given)->raised = std::current_exception();
    return Outcome(Errc::invalid_argument, "the backend '" + name + "' could not be made: " + text);
  };
  const WithGil locked;
  if (*function == nullptr)
    return Outcome(Errc::unsupported, "the backend '" + name + "' is gone: the interpreter ends");
  const std::string* const outer = std::exchange(in_function, &name);
  const auto leave = std::shared_ptr<void>(nullptr, [&](void*) { in_function = outer; });
  try {
    const auto timeout = std::chrono::ceil<std::chrono::microseconds>(world.config.timeout);
    const nb::object made =
        (**function)(object_of(world.store), world.identity.rank, world.identity.size, world.name,
                     timeout, *(*given)->options);
    return new LentBackend(name, checked(made, name, world));
  } catch (const nb::python_error& problem) {
    return failed(nb::cast<std::string>(nb::repr(problem.value())));
  } catch (const nb::builtin_exception& problem) {
    return failed(problem.what());
  } catch (const Error& problem) {
    return failed(problem.what());
  }
}

void register_in_python(const std::string& name, nb::object make) {
  if (PyCallable_Check(make.ptr()) == 0)
    throw nb::type_error("register_backend: `make` must be callable");
  BackendFactory factory;
  factory.name = name;
  const auto function = std::make_shared<Owned>(owned(std::move(make)));
  factory.make_world = [name, function](const WorldOptions& world) {
    return make_world(name, function, world);
  };
  // True, because the function returns a group of one of our worlds, whose backend was checked for
  // TLS.
  static constexpr PromiseRow kPromises[] = {{Promise::encrypted, true}};
  factory.promises = kPromises;
  register_backend(std::move(factory));
  functions().push_back(function);
}

}  // namespace

std::string engine_name(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return name == "tutti" || name == "gloo" ? "native" : name;
}

void end_backends() {
  for (const std::shared_ptr<Owned>& function : functions()) function->reset();
}

void bind_backends(nb::module_& module) {
  define(module, "register_backend", &register_in_python, "name"_a, "make"_a,
         "Make an engine known. `make(store, rank, world_size, name, timeout, options)` gives\n"
         "the ProcessGroup of a world that was asked for on it.");
  define(
      module, "is_available",
      [](std::string backend) { return is_available(engine_name(std::move(backend))); },
      "backend"_a, "True if a world can be made on that engine here.");
  define(
      module, "why_unavailable",
      [](std::string backend) { return why_unavailable(engine_name(std::move(backend))); },
      "backend"_a, "The reason why none can, and what to do; empty: one can.");
  define(module, "available_backends", &available_backends,
         "Names of the engines that a world can be made on here, the default first.");
  define(
      module, "launch_command",
      [](std::string backend, int ranks) {
        Result<std::optional<LaunchCommand>> command =
            launch_command(engine_name(std::move(backend)), ranks);
        if (!command) raise(command.status());
        std::optional<std::pair<std::vector<std::string>, std::vector<std::string>>> given;
        if (*command) given.emplace((*command)->argv, (*command)->environment);
        return given;
      },
      "backend"_a, "ranks"_a,
      "The command that starts so many ranks on that engine, and \"NAME=value\" beside the\n"
      "environment; None: any launcher can.");
  define(module, "engine_name", &engine_name, "name"_a,
         "The engine that a name means: \"native\" for \"gloo\" and \"tutti\", in any case.");
}

}  // namespace tutti::python
