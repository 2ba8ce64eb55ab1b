#include "apps/bench/peers/tutti_library.hpp"

#include <array>
#include <cstdlib>
#include <tutti/version.hpp>

namespace tutti::bench {

namespace {

/// The GPU of this rank: that of its number on the host, in turn.
int gpu_of(int rank) {
  const char* const local = std::getenv("LOCAL_RANK");
  return (local == nullptr ? rank : std::atoi(local)) % GpuTensors::count();
}

}  // namespace

TuttiLibrary::TuttiLibrary(ProcessGroup world, DeviceType device) : world_(std::move(world)) {
  if (device != DeviceType::cuda) return;
  gpu_ = std::make_unique<GpuTensors>(gpu_of(rank()));
  // One rank alone: of a GPU that ranks share, each would measure a part.
  world_.barrier().wait();
  if (rank() == 0) gpu_->measure_copies();
  world_.barrier().wait();
}

std::string TuttiLibrary::name() const {
  const std::string name =
      "tutti " + std::string(tutti::version()) + ", " + std::string(world_.backend());
  return gpu_ == nullptr ? name : name + "; " + gpu_->about();
}

void TuttiLibrary::use(std::span<std::byte> input, std::span<std::byte> output) {
  if (gpu_ != nullptr) gpu_->use(input, output);
}
void TuttiLibrary::upload(std::uint64_t calls) {
  if (gpu_ != nullptr) gpu_->upload(calls);
}
void TuttiLibrary::fetch() {
  if (gpu_ != nullptr) gpu_->fetch();
}
void TuttiLibrary::finish() {
  if (gpu_ != nullptr) gpu_->finish();
}

TensorView TuttiLibrary::view(float* data, std::size_t count) const {
  if (gpu_ != nullptr) return gpu_->view(data, count);
  return {data, DType::float32, count};
}

void TuttiLibrary::call(Operation operation, const Buffers& buffers) {
  const std::size_t n = static_cast<std::size_t>(size());
  if (gpu_ != nullptr && operation != Operation::barrier) gpu_->next();
  const TensorView in = view(buffers.input, buffers.count);
  const TensorView out = view(buffers.output, buffers.count);
  const TensorView all_in = view(buffers.input, buffers.count * n);
  const TensorView all_out = view(buffers.output, buffers.count * n);
  switch (operation) {
    case Operation::all_reduce: world_.all_reduce(out).wait(); break;
    case Operation::broadcast: world_.broadcast(out).wait(); break;
    case Operation::barrier: world_.barrier().wait(); break;
    case Operation::reduce: world_.reduce(out).wait(); break;
    case Operation::all_gather: world_.all_gather(all_out, in).wait(); break;
    case Operation::gather: world_.gather(all_out, in).wait(); break;
    case Operation::scatter: world_.scatter(out, all_in).wait(); break;
    case Operation::reduce_scatter: world_.reduce_scatter(out, all_in).wait(); break;
    case Operation::all_to_all: world_.all_to_all(all_out, all_in).wait(); break;
    case Operation::scan: world_.scan(out).wait(); break;
    case Operation::exclusive_scan: world_.scan(out, {.exclusive = true}).wait(); break;
    case Operation::send: there_and_back(out); break;
    case Operation::recv: send_window(out); break;
    default: no_such_call(operation);
  }
}

void TuttiLibrary::there_and_back(const TensorView& data) {
  const int other = rank() ^ 1;
  if (other >= size()) return;
  const bool first = other > rank();
  if (first) world_.send(data, other);
  world_.recv(data, other);
  if (!first) world_.send(data, other);
}

void TuttiLibrary::send_window(const TensorView& data) {
  const int other = rank() ^ 1;
  if (other >= size()) return;
  const bool sends = other > rank();
  std::array<Work, kSendWindow> window;
  for (Work& one : window) one = sends ? world_.isend(data, other) : world_.irecv(data, other);
  for (Work& one : window) one.wait();
  float answer = 0;
  const TensorView answer_view{&answer, DType::float32, 1};
  if (sends) {
    world_.recv(answer_view, other);
  } else {
    world_.send(answer_view, other);
  }
}

}  // namespace tutti::bench
