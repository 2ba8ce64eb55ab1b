#pragma once

#include "backend/nccl/calls.hpp"
#include "backend/nccl/operation.hpp"

namespace tutti::nccl {

/// A communicator, its stream, and this rank in it.
struct Place {
  Api& nccl;
  CudaApi& cuda;
  Comm comm{};
  Stream stream{};
  int rank = 0;
  int size = 1;
};

/// Gives an operation to NCCL, after what the caller's stream had. The context of the device is
/// that of this thread. False: a function has failed.
bool launch(const Place& place, NcclOperation& op, Calls& calls);

/// When NCCL has put it on the stream: unpacks, frees copies, records the event of the end.
bool end_launch(const Place& place, NcclOperation& op, Calls& calls);

}  // namespace tutti::nccl
