#include <tutti/cart.hpp>

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "arguments.hpp"
#include "group.hpp"

namespace nb = nanobind;
using namespace nb::literals;

// Grids of ranks.
namespace tutti::python {

void bind_cart(nb::module_& module, Class<GroupHandle>& group) {
  Class<CartGroup>(module, "CartGroup", "The ranks of a group as the places of a grid.")
      .def_prop_ro(
          "dims", [](const CartGroup& self) { return self.dims(); }, "Ranks along each dimension.")
      .def(
          "coords", [](const CartGroup& self, int rank) { return self.coords(rank); }, "rank"_a,
          "The coordinates of a rank of the group.")
      .def(
          "rank",
          [](const CartGroup& self, const std::vector<int>& coords) { return self.rank(coords); },
          "coords"_a, "The rank of the group at these coordinates; NO_RANK beyond an open border.")
      .def(
          "shift",
          [](const CartGroup& self, int dimension, int displacement) {
            const auto [source, destination] = self.shift(dimension, displacement);
            return std::pair(source, destination);
          },
          "dimension"_a, "displacement"_a = 1,
          "The ranks so many places before and after this one along a dimension, or NO_RANK.");
  group.def(
      "cart",
      [](const GroupHandle& self, std::vector<int> dims, std::vector<bool> periodic) {
        return cart(*self.open(), std::move(dims), std::move(periodic));
      },
      "dims"_a, "periodic"_a = std::vector<bool>(),
      "Lay a grid over the group, with one place for each rank; a 0 in `dims` is chosen. Sends "
      "nothing.");
}

}  // namespace tutti::python
