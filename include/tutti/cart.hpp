#pragma once

#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <tutti/export.hpp>
#include <tutti/options.hpp>
#include <tutti/process_group.hpp>
#include <tutti/work.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

struct NeighborOptions {  ///< Options of a neighbor_all_to_all.
  int tag = 0;            ///< of its messages
  Timeout timeout = {};
};

/// A group whose ranks are the places of a grid, as of MPI_Cart_create: finds the neighbours of a
/// rank. Coordinates are row-major, so the last one of the next rank is one more.
///
/// Lifetime: keeps the group. Making one sends nothing.
class CartGroup {
 public:
  /// The neighbours of this rank along a dimension: as MPI_Cart_shift gives them.
  struct Shift {
    int source;       ///< the rank `displacement` places before this one
    int destination;  ///< the rank `displacement` places after it
  };

  [[nodiscard]] ProcessGroup& group() noexcept { return group_; }
  /// Ranks along each dimension.
  [[nodiscard]] const std::vector<int>& dims() const noexcept { return dims_; }
  [[nodiscard]] std::vector<int> coords() const { return coords(group_.rank()); }  ///< of this rank
  /// InvalidArgument if the rank is not in the group.
  [[nodiscard]] std::vector<int> coords(int rank) const;
  /// The rank at these coordinates, one for each dimension. Those of a periodic dimension wrap
  /// around; beyond an open border it is no_rank. InvalidArgument for another number of them.
  [[nodiscard]] int rank(std::span<const int> coords) const;
  [[nodiscard]] int rank(std::initializer_list<int> coords) const {
    return rank(std::span<const int>(coords.begin(), coords.size()));
  }
  /// The peers of a sendrecv that moves data by `displacement` places along a dimension, if each
  /// rank calls it. Beyond an open border no_rank. InvalidArgument if there is no such dimension.
  [[nodiscard]] Shift shift(int dimension, int displacement = 1) const;

  /// Sends each neighbour a tensor and receives one from it, as one batch (MPI_Neighbor_alltoallw).
  /// Both lists have the lower neighbour of dimension 0, the upper one, then those of dimension 1,
  /// ... At an open border the tensors are not used. A Work for each message:
  /// `wait_all(grid.neighbor_all_to_all(halos, edges))`.
  ///
  /// Shapes:   dtype and count as those of the neighbour that sends; strides are free.
  /// Order:    as batch_isend_irecv of sends and recvs with this tag. All ranks call it in the same
  ///           order.
  /// Errors:   as batch_isend_irecv; InvalidArgument if a list has not two tensors a dimension.
  [[nodiscard]] std::vector<Work> neighbor_all_to_all(std::span<const TensorView> outputs,
                                                      std::span<const TensorView> inputs,
                                                      const NeighborOptions& options = {});
  [[nodiscard]] std::vector<Work> neighbor_all_to_all(std::initializer_list<TensorView> outputs,
                                                      std::initializer_list<TensorView> inputs,
                                                      const NeighborOptions& options = {}) {
    return neighbor_all_to_all(std::span<const TensorView>(outputs.begin(), outputs.size()),
                               std::span<const TensorView>(inputs.begin(), inputs.size()), options);
  }

 private:
  friend CartGroup cart(const ProcessGroup& group, std::vector<int> dims,
                        std::vector<bool> periodic);
  CartGroup(const ProcessGroup& group, std::vector<int> dims, std::vector<bool> periodic)
      : group_(group), dims_(std::move(dims)), periodic_(std::move(periodic)) {}

  ProcessGroup group_;
  std::vector<int> dims_;
  std::vector<bool> periodic_;
};

/// Lays a grid over a group: `cart(world, {4, 2}, {true, false})`. A dimension that is 0 is chosen,
/// so that the chosen ones are as alike as they can be and decrease (MPI_Dims_create). `periodic`:
/// whether the ends of each dimension are neighbours; empty: none are.
///
/// Errors:   InvalidArgument if the grid has not one place for each rank.
[[nodiscard]] CartGroup cart(const ProcessGroup& group, std::vector<int> dims,
                             std::vector<bool> periodic = {});

}  // namespace v0
}  // namespace tutti
