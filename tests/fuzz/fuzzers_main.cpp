// One program holds all fuzzers, because most of the time to build one goes into headers and
// parsers. The name by which it is called chooses one: frame_fuzz, or frame_planted_fault where a
// check of the frame parser was taken out.

#include <cstdio>
#include <string>

#include "fuzz/fuzzer.hpp"

namespace {

tutti::fuzz::Fuzzer chosen_fuzzer = nullptr;

std::string name_of_fuzzer(std::string name) {
  name.erase(0, name.rfind('/') + 1);
  constexpr std::string_view kFaulty = "_planted_fault";
  if (name.ends_with(kFaulty)) name.replace(name.size() - kFaulty.size(), kFaulty.size(), "_fuzz");
  return name;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
  const std::string name = name_of_fuzzer(**argv);
  const auto found = tutti::fuzz::fuzzers().find(name);
  if (found == tutti::fuzz::fuzzers().end()) {
    std::fprintf(stderr, "no fuzzer is called '%s'\n", name.c_str());
    std::exit(1);
  }
  chosen_fuzzer = found->second;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return chosen_fuzzer(data, size);
}
