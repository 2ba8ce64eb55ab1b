// One rank of our own library, through its public face like any user's program.

#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <tutti/init.hpp>
#include <tutti/process_group.hpp>
#include <tutti/version.hpp>

#include "bench/peers/worker.hpp"

namespace {

class Tutti final : public tutti::bench::Library {
 public:
  [[nodiscard]] int rank() const override { return world_.rank(); }
  [[nodiscard]] int size() const override { return world_.size(); }
  [[nodiscard]] std::string name() const override {
    return "tutti " + std::string(tutti::version()) + ", " + std::string(world_.backend());
  }

  void all_reduce(float* data, std::size_t count) override {
    world_.all_reduce(std::span(data, count)).wait();
  }
  void broadcast(std::byte* data, std::size_t bytes) override {
    world_.broadcast(std::span(data, bytes)).wait();
  }
  void barrier() override { world_.barrier().wait(); }

 private:
  tutti::ProcessGroup world_ = tutti::init_process_group();
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = tutti::bench::parse_worker_options(argc, argv);
    Tutti library;
    // As the peers' launchers do. After init: a rank that is bound before it counts one CPU for
    // all.
    if (options.pin) tutti::bench::pin_to_cpu_of(library.rank());
    return tutti::bench::serve(library, options.socket);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
