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

using tutti::bench::Buffers;
using tutti::bench::Operation;

class Tutti final : public tutti::bench::Library {
 public:
  [[nodiscard]] int rank() const override { return world_.rank(); }
  [[nodiscard]] int size() const override { return world_.size(); }
  [[nodiscard]] std::string name() const override {
    return "tutti " + std::string(tutti::version()) + ", " + std::string(world_.backend());
  }

  void call(Operation operation, const Buffers& buffers) override {
    const std::size_t n = static_cast<std::size_t>(size());
    const std::span<float> in(buffers.input, buffers.count);
    const std::span<float> out(buffers.output, buffers.count);
    const std::span<float> all_in(buffers.input, buffers.count * n);
    const std::span<float> all_out(buffers.output, buffers.count * n);
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
      default: no_such_call(operation);
    }
  }

 private:
  void there_and_back(std::span<float> data) {
    const int other = rank() ^ 1;
    if (other >= size()) return;
    const bool first = other > rank();
    if (first) world_.send(data, other);
    world_.recv(data, other);
    if (!first) world_.send(data, other);
  }

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
