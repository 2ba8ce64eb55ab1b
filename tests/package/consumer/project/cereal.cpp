// Objects of a type of the program's, by cereal: between ranks, and from bytes that are wrong.

#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <cereal/types/map.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <tutti/cereal.hpp>
#include <tutti/tutti.hpp>

namespace {

struct Layer {
  std::string name;
  std::vector<float> weights;
  bool frozen = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(cereal::make_nvp("name", name), weights, frozen);
  }
  bool operator==(const Layer&) const = default;
};

struct Model {
  std::vector<Layer> layers;
  std::map<std::string, double> rates;
  std::unique_ptr<int> epoch;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(layers, rates, epoch);
  }
};

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

Model make_model() {
  Model model;
  for (int i = 0; i < 3; ++i)
    model.layers.push_back({std::string(200, 'n'), std::vector<float>(100, 0.5F), i == 1});
  model.rates = {{"first", 0.1}, {"last", 0.01}};
  model.epoch = std::make_unique<int>(7);
  return model;
}

void check_ranks() {
  tutti::run_threads(3, [](tutti::ProcessGroup& world) {
    Model model;
    if (world.rank() == 1) model = make_model();
    world.broadcast_object(model, {.root = 1});
    const Model expected = make_model();
    require(model.layers == expected.layers && model.rates == expected.rates, "another model");
    require(*model.epoch == 7, "another epoch");
    using Words = std::vector<std::string>;
    const auto all = world.all_gather_object(Words(2, std::to_string(world.rank())));
    require(all == std::vector<Words>{{"0", "0"}, {"1", "1"}, {"2", "2"}}, "other words");
  });
}

/// Every beginning of the bytes, and the bytes with one changed: an exception or an object.
void check_wrong_bytes() {
  using Serialiser = tutti::serialise<Model>;
  const std::string bytes = Serialiser::to_bytes(make_model());
  const auto refused = [](const std::string& wrong) {
    try {
      (void)Serialiser::from_bytes(std::as_bytes(std::span(wrong)));
      return false;
    } catch (const std::exception&) {
      return true;
    }
  };
  require(!refused(bytes), "the right bytes are refused");
  require(refused(bytes + "x"), "bytes are left over");
  for (std::size_t size = 0; size < bytes.size(); ++size)
    require(refused(bytes.substr(0, size)), "a beginning is taken");
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string wrong = bytes;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x7f);
    (void)refused(wrong);
  }
  std::string lie(bytes);
  lie[5] = 1;  // 2^40 layers
  require(refused(lie), "a size that lies is taken");
}

}  // namespace

void check_cereal() {
  check_ranks();
  check_wrong_bytes();
}
