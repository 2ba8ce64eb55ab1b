#include "network.hpp"

#include <unistd.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "order_of_additions.hpp"

namespace nb = nanobind;

namespace tutti::lightgbm {
namespace {

// How long a wait lasts before it lets Python run its signal handlers.
constexpr auto kSlice = std::chrono::milliseconds(100);

TensorView bytes_at(const char* data, std::size_t count) {
  return {const_cast<char*>(data), DType::uint8, count};
}

}  // namespace

void Network::all_gather(const char* input, std::span<const std::int32_t> starts,
                         std::span<const std::int32_t> lengths, char* output) {
  const auto rank = static_cast<std::size_t>(group_.rank());
  const auto length = static_cast<std::size_t>(lengths[rank]);
  // LightGBM's all-reduce has its block at the front of `output`, where another rank's block goes.
  char* const own = output + starts[rank];
  std::memmove(own, input, length);
  std::vector<TensorView> outputs;
  for (std::size_t r = 0; r < lengths.size(); ++r)
    outputs.push_back(bytes_at(output + starts[r], static_cast<std::size_t>(lengths[r])));
  wait(group_.all_gather(outputs, bytes_at(own, length)));
}

void Network::reduce_scatter(char* input, std::int32_t bytes, int type_size,
                             std::span<const std::int32_t> starts,
                             std::span<const std::int32_t> lengths, char* output, Reduce reduce) {
  const auto rank = static_cast<std::size_t>(group_.rank());
  const auto length = static_cast<std::size_t>(lengths[rank]);
  constexpr std::size_t kLine = 64;  // blocks begin where any type may
  const std::size_t stride = (length + kLine - 1) / kLine * kLine;
  if (received_.size() < stride * lengths.size()) received_.resize(stride * lengths.size());
  std::vector<char*> blocks;
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    const bool own = r == rank;  // stays where it is
    blocks.push_back(own ? input + starts[r] : received_.data() + r * stride);
    inputs.push_back(bytes_at(input + starts[r], own ? 0 : static_cast<std::size_t>(lengths[r])));
    outputs.push_back(bytes_at(blocks.back(), own ? 0 : length));
  }
  wait(group_.all_to_all(outputs, inputs));
  const char* const sum =
      add_in_order_of_sockets(blocks, group_.rank(), bytes, [&](const char* from, char* into) {
        reduce(from, into, type_size, static_cast<std::int32_t>(length));
      });
  std::memcpy(output, sum, length);
}

void Network::wait(Work work) {
  if (getpid() != gettid()) return work.wait();  // signal handlers run in the main thread only
  while (!work.wait_for(kSlice)) {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() == 0) continue;
    raised_.emplace();
    group_.abort("Ctrl-C, or a signal handler that raised, while LightGBM waited for other ranks");
    (void)work.error();  // told by the exceptions
    throw std::runtime_error("tutti: interrupted by a signal handler that raised");
  }
  work.wait();
}

std::optional<nb::python_error> Network::take_raised() {
  return std::exchange(raised_, std::nullopt);
}

}  // namespace tutti::lightgbm
