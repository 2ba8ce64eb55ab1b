#include "exchange.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace nb = nanobind;

namespace tutti::python {
namespace {

// DLPack's table of functions, as far as it is used here (DLPack 1.3).
struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
struct Header {
  Version version;
  Header* previous;
};
struct Table {
  Header header;
  void* allocate;
  void* managed_from_object;
  void* managed_to_object;
  int (*tensor_from_object)(void* array, nb::dlpack::dltensor* out);
  void* current_stream;
};

// The types found so far. Further types are looked up at each call.
std::array<Exchange, 8> met;
std::atomic<std::size_t> met_count{0};
nb::ft_mutex adding;

const Table* table_of(nb::handle type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) return nullptr;
  const auto* header =
      static_cast<const Header*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  while (header != nullptr && header->version.major != 1) header = header->previous;
  const auto* table = reinterpret_cast<const Table*>(header);
  return table == nullptr || table->tensor_from_object == nullptr ? nullptr : table;
}

}  // namespace

const Exchange* Exchange::known(nb::handle array) noexcept {
  PyTypeObject* const type = Py_TYPE(array.ptr());
  // acquire: pairs with the release in `of`, after which the entry never changes.
  const std::size_t count = met_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    if (met[i].type_ == type) return &met[i];
  }
  return nullptr;
}

const Exchange* Exchange::of(nb::handle array) {
  if (const Exchange* found = known(array)) return found;
  const Table* const table = table_of(array.type());
  if (table == nullptr) return nullptr;
  const bool lazy = nb::hasattr(array, "is_conj") && nb::hasattr(array, "is_neg");
  const nb::ft_lock_guard lock(adding);
  if (const Exchange* found = known(array)) return found;
  const std::size_t at = met_count.load(std::memory_order_relaxed);  // relaxed: we hold the lock
  if (at == met.size()) return nullptr;  // the table is full: use __dlpack__
  Exchange& entry = met[at];
  entry.type_ = Py_TYPE(array.ptr());
  // Keeps the type alive for good, so that no other type gets its address. (The stable ABI has no
  // PyTypeObject.)
  Py_INCREF(reinterpret_cast<PyObject*>(entry.type_));
  entry.borrow_ = table->tensor_from_object;
  entry.lazy_ = lazy;
  // release: pairs with the acquire in `known`.
  met_count.store(at + 1, std::memory_order_release);
  return &entry;
}

nb::dlpack::dltensor Exchange::borrow(nb::handle array) const {
  nb::dlpack::dltensor tensor;
  if (borrow_(array.ptr(), &tensor) != 0) throw nb::python_error();
  return tensor;
}

}  // namespace tutti::python
