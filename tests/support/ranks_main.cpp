// main of a GoogleTest program that runs as several ranks: all would write the same results file,
// so only rank 0 does. A failure on another rank reaches the test through the exit status of the
// launcher (tuttirun, or an mpirun).

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
