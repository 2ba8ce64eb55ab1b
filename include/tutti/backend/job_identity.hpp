#pragma once

#include <cstdint>

#include <tutti/export.hpp>
#include <tutti/secret_bytes.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Identifies one rank of one world of a job. Two processes connect only if job, generation, size
/// and secret are equal. A store and its users are rank 0 of 1.
struct JobIdentity {
  int rank = 0;
  int size = 1;
  std::uint64_t job = 0;         ///< hash of the job's name
  std::uint64_t generation = 0;  ///< the incarnation of the world: 1 as init makes it
  SecretBytes secret = {};       ///< empty: the job has none
};

}  // namespace v0
}  // namespace tutti
