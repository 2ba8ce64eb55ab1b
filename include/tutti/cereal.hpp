#pragma once

// Objects of types that cereal (https://uscilab.github.io/cereal/) can serialise, in the operations
// on objects: include this and cereal's headers for the members' types. They need a default
// constructor. Nothing else of tutti needs cereal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <cereal/cereal.hpp>

#include <tutti/export.hpp>
#include <tutti/objects.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// Appends what cereal serialises to a string.
class CerealOutput : public cereal::OutputArchive<CerealOutput, cereal::AllowEmptyClassElision> {
 public:
  /// `bytes` live as long as the archive.
  explicit CerealOutput(std::string& bytes) : OutputArchive(this), bytes_(bytes) {}
  /// Appends bytes.
  void write(const void* from, std::size_t size) {
    bytes_.append(static_cast<const char*>(from), size);
  }

 private:
  std::string& bytes_;
};

/// Reads from bytes, which may be wrong, and throws cereal::Exception where they are too few. A
/// container is refused before it is made if it tells more elements than there are bytes.
class CerealInput : public cereal::InputArchive<CerealInput, cereal::AllowEmptyClassElision> {
 public:
  /// `bytes` live as long as the archive.
  explicit CerealInput(std::span<const std::byte> bytes) : InputArchive(this), bytes_(bytes) {}
  /// Takes bytes from the front.
  void read(void* to, std::size_t size) {
    check(size);
    detail::copy_bytes(bytes_.first(size), to);
    bytes_ = bytes_.subspan(size);
  }
  /// Throws unless there are so many bytes.
  void check(std::uint64_t size) const {
    if (size > bytes_.size()) throw cereal::Exception("they end too early");
  }
  /// True if all bytes were taken.
  [[nodiscard]] bool at_end() const noexcept { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
};

namespace detail {
template <class T>
concept ByCereal = !BuiltInElement<T> && std::is_default_constructible_v<T> &&
                   cereal::traits::is_output_serializable<T, CerealOutput>::value &&
                   cereal::traits::is_input_serializable<T, CerealInput>::value;
}  // namespace detail

/// An object that cereal can serialise.
template <detail::ByCereal T>
struct serialise<T> {
  /// cereal believes what bytes say of shared pointers, and follows pointers however deep.
  static constexpr bool trusts = true;
  /// Throws what its serialize or save function throws.
  static std::string to_bytes(const T& object) {
    std::string bytes;
    CerealOutput archive(bytes);
    archive(object);
    return bytes;
  }
  /// Throws unless the object ends where the bytes end.
  static T from_bytes(std::span<const std::byte> bytes) {
    T object{};
    CerealInput archive(bytes);
    archive(object);
    if (!archive.at_end()) throw std::invalid_argument("some of them are left over");
    return object;
  }
};

}  // namespace v0
}  // namespace tutti

// The parts of cereal's types, in both archives.
namespace cereal {

/// A number.
template <class T>
requires(std::is_arithmetic_v<T>) void CEREAL_SAVE_FUNCTION_NAME(tutti::CerealOutput& archive,
                                                                 const T& number) {
  archive.write(&number, sizeof number);
}
/// A number.
template <class T>
requires(std::is_arithmetic_v<T>) void CEREAL_LOAD_FUNCTION_NAME(tutti::CerealInput& archive,
                                                                 T& number) {
  if constexpr (std::is_same_v<T, bool>) {
    unsigned char byte = 0;
    archive.read(&byte, 1);
    number = byte != 0;
  } else {
    archive.read(&number, sizeof number);
  }
}

/// The elements of a contiguous range.
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(tutti::CerealOutput& archive, const BinaryData<T>& data) {
  archive.write(data.data, static_cast<std::size_t>(data.size));
}
/// The elements of a contiguous range.
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(tutti::CerealInput& archive, BinaryData<T>& data) {
  archive.read(data.data, static_cast<std::size_t>(data.size));
}

/// The number of elements of a container.
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(tutti::CerealOutput& archive, const SizeTag<T>& tag) {
  archive(tag.size);
}
/// The number of elements of a container.
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(tutti::CerealInput& archive, SizeTag<T>& tag) {
  archive(tag.size);
  archive.check(tag.size);
}

/// A value with a name, which does not travel.
template <class T>
void CEREAL_SAVE_FUNCTION_NAME(tutti::CerealOutput& archive, const NameValuePair<T>& pair) {
  archive(pair.value);
}
/// A value with a name, which does not travel.
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(tutti::CerealInput& archive, NameValuePair<T>& pair) {
  archive(pair.value);
}

}  // namespace cereal

CEREAL_REGISTER_ARCHIVE(tutti::CerealOutput)
CEREAL_REGISTER_ARCHIVE(tutti::CerealInput)
CEREAL_SETUP_ARCHIVE_TRAITS(tutti::CerealInput, tutti::CerealOutput)
