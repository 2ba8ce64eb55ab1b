// The programs with MPI: mpirun -n 3 mpi_programs

#include "programs.hpp"

#include <mpi.h>

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

namespace {

struct Programs {
  // ---- start and end
  int rank = 0;
  int size = 0;
  Programs(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
  }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;
  ~Programs() { MPI_Finalize(); }

  // ---- gradients
  void average(programs::Layers& gradients) {
    for (std::vector<float>& layer : gradients) {
      MPI_Allreduce(MPI_IN_PLACE, layer.data(), static_cast<int>(layer.size()), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      for (float& value : layer) value /= static_cast<float>(size);
    }
  }

  // ---- halo
  programs::Place heat(programs::Block& block, int steps) {
    const int rows = block.rows;
    const int columns = block.columns;
    int dims[2] = {0, 0};
    int coords[2];
    const int periodic[2] = {0, 0};
    MPI_Comm grid;
    MPI_Dims_create(size, 2, dims);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periodic, 0, &grid);
    MPI_Cart_coords(grid, rank, 2, coords);
    MPI_Datatype column;
    MPI_Type_vector(rows, 1, columns + 2, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    const int counts[4] = {columns, columns, 1, 1};
    const MPI_Datatype types[4] = {MPI_DOUBLE, MPI_DOUBLE, column, column};
    const auto place = [&](int i, int j) {
      return static_cast<MPI_Aint>(sizeof(double)) * block.place(i, j);
    };
    const MPI_Aint halo[4] = {place(0, 1), place(rows + 1, 1), place(1, 0), place(1, columns + 1)};
    const MPI_Aint edge[4] = {place(1, 1), place(rows, 1), place(1, 1), place(1, columns)};
    for (int step = 0; step < steps; ++step) {
      double* cells = block.cells.data();
      MPI_Neighbor_alltoallw(cells, counts, edge, types, cells, counts, halo, types, grid);
      block.spread();
    }
    MPI_Type_free(&column);
    MPI_Comm_free(&grid);
    return {dims[0], dims[1], coords[0], coords[1]};
  }

  // ---- gather of unlike sizes
  programs::Gathered<double, int> gather(const std::vector<double>& mine) {
    programs::Gathered<double, int> all;
    const int count = static_cast<int>(mine.size());
    std::vector<int> places;
    if (rank == 0) all.counts.resize(static_cast<std::size_t>(size));
    MPI_Gather(&count, 1, MPI_INT, all.counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
      places.resize(all.counts.size());
      std::exclusive_scan(all.counts.begin(), all.counts.end(), places.begin(), 0);
      all.values.resize(static_cast<std::size_t>(places.back() + all.counts.back()));
    }
    MPI_Gatherv(mine.data(), count, MPI_DOUBLE, all.values.data(), all.counts.data(), places.data(),
                MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return all;
  }

  // ---- broadcast of a config
  void broadcast(std::string& config) {
    int length = static_cast<int>(config.size());
    MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
    config.resize(static_cast<std::size_t>(length));
    MPI_Bcast(config.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
  }

  // ---- sample sort
  std::vector<int> sort(const std::vector<int>& mine) {
    const auto ranks = static_cast<std::size_t>(size);
    const std::vector<int> samples = programs::samples_of(mine);
    const int count = static_cast<int>(samples.size());
    std::vector<int> all(samples.size() * ranks);
    MPI_Allgather(samples.data(), count, MPI_INT, all.data(), count, MPI_INT, MPI_COMM_WORLD);
    const auto to = programs::counts_of<int>(mine, all, size);
    std::vector<int> from(ranks);
    MPI_Alltoall(to.data(), 1, MPI_INT, from.data(), 1, MPI_INT, MPI_COMM_WORLD);
    std::vector<int> to_places(ranks);
    std::vector<int> from_places(ranks);
    std::exclusive_scan(to.begin(), to.end(), to_places.begin(), 0);
    std::exclusive_scan(from.begin(), from.end(), from_places.begin(), 0);
    std::vector<int> sorted(static_cast<std::size_t>(from_places.back() + from.back()));
    MPI_Alltoallv(mine.data(), to.data(), to_places.data(), MPI_INT, sorted.data(), from.data(),
                  from_places.data(), MPI_INT, MPI_COMM_WORLD);
    return sorted;
  }

  // ---- overlap
  template <class Compute>
  void overlap(programs::Layers& layers, const Compute& compute) {
    std::vector<MPI_Request> requests;
    for (std::size_t layer = layers.size(); layer-- > 0;) {
      compute(layer);
      MPI_Iallreduce(MPI_IN_PLACE, layers[layer].data(), static_cast<int>(layers[layer].size()),
                     MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests.emplace_back());
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }

  // ---- farm
  std::vector<int> farm(int tasks) {
    if (rank != 0) {
      programs::Done done;
      while (true) {
        MPI_Send(&done, 2, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(&done.task, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (done.task == programs::kNoTask) return {};
        done.result = programs::result_of(done.task);
      }
    }
    std::vector<int> results(static_cast<std::size_t>(tasks));
    int next = 0;
    for (int workers = size - 1; workers > 0;) {
      programs::Done done;
      MPI_Status status;
      MPI_Recv(&done, 2, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &status);
      if (done.task != programs::kNoTask)
        results[static_cast<std::size_t>(done.task)] = done.result;
      const int task = next < tasks ? next++ : programs::kNoTask;
      MPI_Send(&task, 1, MPI_INT, status.MPI_SOURCE, 2, MPI_COMM_WORLD);
      if (task == programs::kNoTask) --workers;
    }
    for (; next < tasks; ++next)
      results[static_cast<std::size_t>(next)] = programs::result_of(next);
    return results;
  }
  // ---- end
};

}  // namespace

int main(int argc, char** argv) {
  Programs on(argc, argv);
  return programs::run(on);
}
