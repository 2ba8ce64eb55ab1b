#include "buckets.hpp"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace tutti::torch {
namespace {

/// A bucket that is being filled.
struct Filling {
  at::ScalarType dtype;
  std::size_t limit;
  std::size_t bytes = 0;
  std::vector<std::size_t> members = {};
};

Bucket allocated(const std::vector<at::Tensor>& parameters, std::vector<std::size_t> members) {
  Bucket bucket;
  std::int64_t count = 0;
  for (const std::size_t member : members) count += parameters[member].numel();
  bucket.flat = at::zeros({count}, parameters[members.front()].options().requires_grad(false));
  std::int64_t begin = 0;
  for (const std::size_t member : members) {
    const at::Tensor& parameter = parameters[member];
    // The parameter's own strides where these leave no holes: so the optimizer walks both alike.
    const at::Tensor part =
        parameter.is_non_overlapping_and_dense()
            ? bucket.flat.as_strided(parameter.sizes(), parameter.strides(), begin)
            : bucket.flat.narrow(0, begin, parameter.numel()).view(parameter.sizes());
    bucket.views.push_back(part.detach());  // no view for autograd: optimizers detach gradients
    begin += parameter.numel();
  }
  bucket.members = std::move(members);
  return bucket;
}

}  // namespace

std::vector<Bucket> make_buckets(const std::vector<at::Tensor>& parameters,
                                 const std::vector<std::size_t>& order, std::size_t first_bytes,
                                 std::size_t bytes) {
  const at::NoGradGuard no_grad;
  std::vector<Bucket> buckets;
  std::vector<Filling> fillings;
  for (const std::size_t number : order) {
    const at::Tensor& parameter = parameters[number];
    auto filling = std::ranges::find(fillings, parameter.scalar_type(), &Filling::dtype);
    if (filling == fillings.end())
      filling = fillings.insert(filling, Filling{parameter.scalar_type(), first_bytes});
    filling->members.push_back(number);
    filling->bytes += parameter.nbytes();
    if (filling->bytes >= filling->limit) {
      buckets.push_back(allocated(parameters, std::exchange(filling->members, {})));
      filling->limit = bytes;
      filling->bytes = 0;
    }
  }
  for (Filling& filling : fillings)
    if (!filling.members.empty())
      buckets.push_back(allocated(parameters, std::move(filling.members)));
  return buckets;
}

}  // namespace tutti::torch
