#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "group.hpp"
#include "network.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace tutti::lightgbm {
namespace {

// LightGBM keeps its network by thread, and its callbacks have no argument of ours. Weak: a thread
// that never closes its network must not keep it.
thread_local std::weak_ptr<Network> of_this_thread;

/// Python's Network.
class Handle {
 public:
  explicit Handle(const python::GroupHandle& handle) {
    const python::Group group = handle;
    if (group == nullptr) throw std::invalid_argument("the group is closed");
    network_ = std::make_shared<Network>(*group);
  }
  void open() const { of_this_thread = network_; }
  void close() { network_.reset(); }
  void raise_interrupt() const {
    if (network_ == nullptr) return;
    if (auto raised = network_->take_raised()) throw std::move(*raised);
  }

 private:
  std::shared_ptr<Network> network_;
};

std::shared_ptr<Network> network_of(int blocks) {
  std::shared_ptr<Network> network = of_this_thread.lock();
  if (network == nullptr)
    throw std::runtime_error(
        "tutti.lightgbm: the network of this thread was closed; call LightGBM within its block");
  if (blocks != network->size())
    throw std::runtime_error("tutti.lightgbm: LightGBM asked for " + std::to_string(blocks) +
                             " blocks on " + std::to_string(network->size()) + " ranks");
  return network;
}

// The two callbacks have the types of LightGBM's C API. They may throw: the API catches what is
// derived from std::exception, and tells its text.

void all_gather(char* input, std::int32_t /*input_bytes*/, const std::int32_t* starts,
                const std::int32_t* lengths, int blocks, char* output,
                std::int32_t /*output_bytes*/) {
  const auto count = static_cast<std::size_t>(blocks);
  network_of(blocks)->all_gather(input, std::span(starts, count), std::span(lengths, count),
                                 output);
}

void reduce_scatter(char* input, std::int32_t input_bytes, int type_size,
                    const std::int32_t* starts, const std::int32_t* lengths, int blocks,
                    char* output, std::int32_t /*output_bytes*/, const Reduce& reduce) {
  const auto count = static_cast<std::size_t>(blocks);
  network_of(blocks)->reduce_scatter(input, input_bytes, type_size, std::span(starts, count),
                                     std::span(lengths, count), output, reduce);
}

}  // namespace
}  // namespace tutti::lightgbm

NB_MODULE(_lightgbm, module) {
  using tutti::lightgbm::Handle;
  nb::module_::import_("tutti._tutti");  // has the class of groups
  nb::class_<Handle>(module, "Network")
      .def(nb::init<const tutti::python::GroupHandle&>(), "group"_a)
      .def("open", &Handle::open)
      .def("close", &Handle::close)
      .def("raise_interrupt", &Handle::raise_interrupt);
  module.attr("all_gather") = reinterpret_cast<std::uintptr_t>(&tutti::lightgbm::all_gather);
  module.attr("reduce_scatter") =
      reinterpret_cast<std::uintptr_t>(&tutti::lightgbm::reduce_scatter);
}
