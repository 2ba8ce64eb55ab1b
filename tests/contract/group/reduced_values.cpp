#include "reduced_values.hpp"

#include <stdexcept>

namespace tutti::test {

namespace {

template <class... T>
struct RulesOf {
  static constexpr ElementRules (*kAll[])() = {element_rules<T>...};
};

}  // namespace

ElementRules element_rules(DType dtype) {
  for (const auto rules : OfEveryType<RulesOf>::kAll) {
    if (rules().dtype == dtype) return rules();
  }
  throw std::invalid_argument("no such dtype");
}

}  // namespace tutti::test
