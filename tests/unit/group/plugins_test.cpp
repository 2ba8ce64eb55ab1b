#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include <tutti/init.hpp>

#include "group/plugins.hpp"
#include "support/temporary_folder.hpp"
#include "support/variable.hpp"

// Which shared libraries are loaded as backends.
namespace tutti::group {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A file that is no library, where plug-ins beside this program are looked for.
class FileBesideProgram {
 public:
  explicit FileBesideProgram(const std::string& backend)
      : path(folder_ / ("tutti_backend_" + backend + ".so")) {
    std::ofstream(path) << "no library";
  }
  ~FileBesideProgram() {
    std::error_code error;  // another test may have a file there, too
    fs::remove(path, error);
    if (made_folder_) fs::remove(folder_, error);
  }
  FileBesideProgram(const FileBesideProgram&) = delete;
  FileBesideProgram& operator=(const FileBesideProgram&) = delete;

 private:
  const fs::path folder_ = fs::canonical("/proc/self/exe").parent_path() / "backends";
  const bool made_folder_ = fs::create_directory(folder_);

 public:
  const fs::path path;
};

TEST(Plugins, OneThatAllMayWriteIsNotLoaded) {
  const FileBesideProgram file("written_by_all");
  fs::permissions(file.path, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(load_plugin("written_by_all").missing(), HasSubstr("is not loaded"));
}

TEST(Plugins, OneThatIsNoLibrarySaysSo) {
  const FileBesideProgram file("no_library");
  EXPECT_THAT(load_plugin("no_library").missing(), HasSubstr("cannot be loaded"));
  EXPECT_FALSE(is_available("no_library"));
}

TEST(Plugins, OneOfAnotherOwnerIsNotLoadedUnlessItsFolderIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const test::TemporaryFolder folder;
  const FileBesideProgram beside("strange");
  constexpr uid_t kSomebody = 4242;
  for (const fs::path& file :
       {fs::path(folder.file("tutti_backend_strange.so", "no library")), beside.path})
    ASSERT_EQ(::chown(file.c_str(), kSomebody, static_cast<gid_t>(-1)), 0);
  EXPECT_THAT(load_plugin("strange").missing(), HasSubstr("another user"));
  const test::Variable path("TUTTI_BACKEND_PATH", folder.path());
  EXPECT_THAT(load_plugin("strange").missing(), HasSubstr("cannot be loaded")) << "it was tried";
}

TEST(Plugins, ANameThatIsNoFilesNameIsLookedForNowhere) {
  EXPECT_TRUE(load_plugin("../mpi").name.empty());
  EXPECT_TRUE(load_plugin("").name.empty());
}

}  // namespace
}  // namespace tutti::group
