// A program of two ranks that has a library of its own, and calls it before and after tutti works:
// over encrypted TCP, which takes JSON, {fmt}, kernels of Highway's and OpenSSL.

#include <cstdio>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

/// True if the other library works.
bool use_neighbour();

int main() {
  if (!use_neighbour()) return 2;
  tutti::ProcessGroup world = tutti::init_process_group();
  std::vector<float> values(100'000, static_cast<float>(world.rank() + 1));
  world.all_reduce(values).wait();
  if (values.front() != 3.0F || values.back() != 3.0F) return 3;
  std::string text;
  try {
    world.send(values, 17);
  } catch (const tutti::Error& error) {
    text = error.what();
  }
  if (text.find("17") == std::string::npos) return 4;
  if (!use_neighbour()) return 5;
  std::printf("rank %d of %d\n", world.rank(), world.size());
  return 0;
}
