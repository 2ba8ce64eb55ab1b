// One rank of an MPI library. Compiled once per library, against its own mpi.h.

#include <mpi.h>

#include <cstdio>
#include <exception>

#include "bench/peers/worker.hpp"

namespace {

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
  void all_reduce(float* data, std::size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, data, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void broadcast(std::byte* data, std::size_t bytes) override {
    MPI_Bcast(data, static_cast<int>(bytes), MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void settle() override {
    // Only calls of MPI move what it has queued.
    for (int i = 0; i < 64; ++i) {
      int flag = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
  }

 private:
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
    code = tutti::bench::serve(library, options.socket);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  if (code != 0) MPI_Abort(MPI_COMM_WORLD, code);
  MPI_Finalize();
  return code;
}
