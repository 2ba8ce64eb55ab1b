// One rank of an MPI library. Compiled once per library, against its own mpi.h.

#include <mpi.h>

#include <array>
#include <cstdio>
#include <exception>

#include "apps/bench/peers/worker.hpp"

namespace {

using tutti::bench::Buffers;
using tutti::bench::Operation;

class Mpi final : public tutti::bench::Library {
 public:
  Mpi() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  [[nodiscard]] std::string name() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    std::string line(text);
    line = line.substr(0, line.find('\n'));
    for (char& c : line) {
      if (c == '\t') c = ' ';
    }
    return line;
  }

  // A failing call ends the process: MPI_ERRORS_ARE_FATAL is MPI's default.
  void call(Operation operation, const Buffers& buffers) override {
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Datatype real = MPI_FLOAT;
    const auto [in, out, elements] = buffers;
    const int count = static_cast<int>(elements);
    switch (operation) {
      case Operation::all_reduce:
        MPI_Allreduce(MPI_IN_PLACE, out, count, real, MPI_SUM, world);
        break;
      case Operation::broadcast: MPI_Bcast(out, count, real, 0, world); break;
      case Operation::barrier: MPI_Barrier(world); break;
      case Operation::reduce:
        if (rank_ == 0) {
          MPI_Reduce(MPI_IN_PLACE, out, count, real, MPI_SUM, 0, world);
        } else {
          MPI_Reduce(out, nullptr, count, real, MPI_SUM, 0, world);
        }
        break;
      case Operation::all_gather: MPI_Allgather(in, count, real, out, count, real, world); break;
      case Operation::gather: MPI_Gather(in, count, real, out, count, real, 0, world); break;
      case Operation::scatter: MPI_Scatter(in, count, real, out, count, real, 0, world); break;
      case Operation::reduce_scatter:
        MPI_Reduce_scatter_block(in, out, count, real, MPI_SUM, world);
        break;
      case Operation::all_to_all: MPI_Alltoall(in, count, real, out, count, real, world); break;
      case Operation::scan: MPI_Scan(MPI_IN_PLACE, out, count, real, MPI_SUM, world); break;
      case Operation::exclusive_scan:
        MPI_Exscan(MPI_IN_PLACE, out, count, real, MPI_SUM, world);
        break;
      case Operation::send: there_and_back(out, count); break;
      case Operation::recv: send_window(out, count); break;
      default: no_such_call(operation);
    }
  }
  void settle() override {
    // Only calls of MPI move what it has queued.
    for (int i = 0; i < 64; ++i) {
      int flag = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
  }

 private:
  void there_and_back(float* data, int count) const {
    const int other = rank_ ^ 1;
    if (other >= size_) return;
    const bool first = other > rank_;
    if (first) MPI_Send(data, count, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
    MPI_Recv(data, count, MPI_FLOAT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!first) MPI_Send(data, count, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
  }

  void send_window(float* data, int count) const {
    const int other = rank_ ^ 1;
    if (other >= size_) return;
    const bool sends = other > rank_;
    std::array<MPI_Request, tutti::bench::kSendWindow> window;
    for (MPI_Request& one : window) {
      if (sends) {
        MPI_Isend(data, count, MPI_FLOAT, other, 0, MPI_COMM_WORLD, &one);
      } else {
        MPI_Irecv(data, count, MPI_FLOAT, other, 0, MPI_COMM_WORLD, &one);
      }
    }
    MPI_Waitall(tutti::bench::kSendWindow, window.data(), MPI_STATUSES_IGNORE);
    float answer = 0;
    if (sends) {
      MPI_Recv(&answer, 1, MPI_FLOAT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
      MPI_Send(&answer, 1, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
    }
  }

  int rank_ = 0;
  int size_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 1;
  try {
    const auto options = tutti::bench::parse_worker_options(argc, argv);
    Mpi library;
    if (options.pin) tutti::bench::pin_to_cpu_of(library.rank());
    code = tutti::bench::serve(library, options.socket);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}
