// One rank of Gloo over TCP, with its file store.

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "apps/bench/peers/worker.hpp"

namespace {

using tutti::bench::Buffers;
using tutti::bench::Operation;

class Gloo final : public tutti::bench::Library {
 public:
  explicit Gloo(const tutti::bench::WorkerOptions& options)
      : context_(std::make_shared<gloo::rendezvous::Context>(options.rank, options.size)) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = options.address;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(options.directory);
    context_->setTimeout(std::chrono::seconds(60));
    context_->connectFullMesh(store, device);
  }

  [[nodiscard]] int rank() const override { return context_->rank; }
  [[nodiscard]] int size() const override { return context_->size; }
  [[nodiscard]] std::string name() const override { return "Gloo, TCP"; }

  void call(Operation operation, const Buffers& buffers) override {
    const std::size_t count = buffers.count;
    const std::size_t all = count * static_cast<std::size_t>(size());
    switch (operation) {
      case Operation::all_reduce: all_reduce(buffers.output, count); break;
      case Operation::broadcast: {
        gloo::BroadcastOptions options(context_);
        options.setRoot(0);
        options.setOutput(buffers.output, count);
        gloo::broadcast(options);
        break;
      }
      case Operation::barrier: {
        gloo::BarrierOptions options(context_);
        gloo::barrier(options);
        break;
      }
      case Operation::reduce: reduce(buffers); break;
      case Operation::all_gather: {
        gloo::AllgatherOptions options(context_);
        options.setInput(buffers.input, count);
        options.setOutput(buffers.output, all);
        gloo::allgather(options);
        break;
      }
      case Operation::gather: {
        gloo::GatherOptions options(context_);
        options.setRoot(0);
        options.setInput(buffers.input, count);
        if (rank() == 0) options.setOutput(buffers.output, all);
        gloo::gather(options);
        break;
      }
      case Operation::scatter: scatter(buffers); break;
      case Operation::reduce_scatter: {
        // It has none of this kind; all_reduce and a copy is what users of it do.
        float* const sums = scratch(all);
        std::copy_n(buffers.input, all, sums);
        all_reduce(sums, all);
        std::copy_n(sums + count * static_cast<std::size_t>(rank()), count, buffers.output);
        break;
      }
      case Operation::all_to_all: {
        gloo::AlltoallOptions options(context_);
        options.setInput(buffers.input, all);
        options.setOutput(buffers.output, all);
        gloo::alltoall(options);
        break;
      }
      case Operation::send: there_and_back(buffers); break;
      default: no_such_call(operation);
    }
  }

 private:
  void all_reduce(float* data, std::size_t count) {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data, count);
    options.setReduceFunction(&sum);
    gloo::allreduce(options);
  }

  /// It uses the output of every rank as scratch space.
  void reduce(const Buffers& buffers) {
    gloo::ReduceOptions options(context_);
    options.setRoot(0);
    options.setReduceFunction(&sum);
    if (rank() != 0) options.setInput(buffers.output, buffers.count);
    options.setOutput(rank() == 0 ? buffers.output : scratch(buffers.count), buffers.count);
    gloo::reduce(options);
  }

  void scatter(const Buffers& buffers) {
    gloo::ScatterOptions options(context_);
    options.setRoot(0);
    if (rank() == 0) {
      std::vector<float*> blocks;
      for (int r = 0; r < size(); ++r) {
        blocks.push_back(buffers.input + buffers.count * static_cast<std::size_t>(r));
      }
      options.setInputs(std::move(blocks), buffers.count);
    }
    options.setOutput(buffers.output, buffers.count);
    gloo::scatter(options);
  }

  void there_and_back(const Buffers& buffers) {
    const int other = rank() ^ 1;
    if (other >= size()) return;
    constexpr std::uint64_t kSlot = 1;
    auto buffer =
        context_->createUnboundBuffer(buffers.output, buffers.count * sizeof *buffers.output);
    const auto send = [&] {
      buffer->send(other, kSlot);
      buffer->waitSend();
    };
    const bool first = other > rank();
    if (first) send();
    buffer->recv(other, kSlot);
    buffer->waitRecv();
    if (!first) send();
  }

  float* scratch(std::size_t count) {
    if (scratch_.size() < count) scratch_.resize(count);
    return scratch_.data();
  }

  static void sum(void* out, const void* a, const void* b, std::size_t count) {
    gloo::sum<float>(out, a, b, count);
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<float> scratch_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = tutti::bench::parse_worker_options(argc, argv);
    Gloo library(options);
    return tutti::bench::serve(library, options.socket);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
