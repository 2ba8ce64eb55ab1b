// One rank of Gloo over TCP on loopback, with its file store.

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>

#include "bench/peers/worker.hpp"

namespace {

class Gloo final : public tutti::bench::Library {
 public:
  explicit Gloo(const tutti::bench::WorkerOptions& options)
      : context_(std::make_shared<gloo::rendezvous::Context>(options.rank, options.size)) {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::FileStore store(options.directory);
    context_->setTimeout(std::chrono::seconds(60));
    context_->connectFullMesh(store, device);
  }

  [[nodiscard]] int rank() const override { return context_->rank; }
  [[nodiscard]] int size() const override { return context_->size; }
  [[nodiscard]] std::string name() const override { return "Gloo, TCP"; }

  void all_reduce(float* data, std::size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(data, count);
    options.setReduceFunction(&sum);
    gloo::allreduce(options);
  }
  void broadcast(std::byte* data, std::size_t bytes) override {
    gloo::BroadcastOptions options(context_);
    options.setRoot(0);
    options.setOutput(reinterpret_cast<char*>(data), bytes);
    gloo::broadcast(options);
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

 private:
  static void sum(void* out, const void* a, const void* b, std::size_t count) {
    gloo::sum<float>(out, a, b, count);
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
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
