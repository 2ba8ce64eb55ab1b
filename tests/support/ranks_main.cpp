// main of a GoogleTest program that runs as several ranks, of which only rank 0 writes the file of
// results. A failure of another rank reaches the test through the exit status of the launcher.

#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  // Before GoogleTest reads it.
  for (const char* const name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    const char* const rank = std::getenv(name);
    if (rank != nullptr && std::string_view(rank) != "0") GTEST_FLAG_SET(output, "");
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
