#include <dlfcn.h>
#include <gmock/gmock.h>
#include <link.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <tutti/backend/registry.hpp>
#include <tutti/init.hpp>

#include "group/plugins.hpp"
#include "support/temporary_folder.hpp"
#include "support/variable.hpp"

// Which shared libraries are loaded as backends.
namespace tutti::group {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

const fs::path kProgram = fs::canonical("/proc/self/exe");

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
    if (made_folder_) fs::remove_all(folder_.parent_path(), error);
  }
  FileBesideProgram(const FileBesideProgram&) = delete;
  FileBesideProgram& operator=(const FileBesideProgram&) = delete;

 private:
  const fs::path folder_ = kProgram.parent_path() / "lib" / "tutti";
  const bool made_folder_ = fs::create_directories(folder_);

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

TEST(Plugins, OneThatAnotherUserCouldReplaceIsPassedOver) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files away";
  const FileBesideProgram link("strange");
  const test::TemporaryFolder outside;
  const fs::path above = fs::path(outside.path()) / "above";
  const fs::path folder = above / "folder";
  fs::create_directories(folder);
  const fs::path real = folder / "tutti_backend_strange.so";
  std::ofstream(real) << "no library";
  fs::remove(link.path);
  fs::create_symlink(real, link.path);
  EXPECT_THAT(load_plugin("strange").missing(), HasSubstr("cannot be loaded")) << "it was tried";
  constexpr uid_t kSomebody = 4242;
  for (const fs::path& one : {real, folder, above, link.path.parent_path()}) {
    ASSERT_EQ(::chown(one.c_str(), kSomebody, 0), 0);
    EXPECT_THAT(load_plugin("strange").missing(), HasSubstr("is not loaded")) << one;
    ASSERT_EQ(::chown(one.c_str(), 0, kSomebody), 0);
    fs::permissions(one, fs::perms::group_write, fs::perm_options::add);
    EXPECT_THAT(load_plugin("strange").missing(), HasSubstr("is not loaded")) << one;
    fs::permissions(one, fs::perms::group_write, fs::perm_options::remove);
  }
  EXPECT_THAT(load_plugin("strange").missing(), HasSubstr("cannot be loaded"));
  ASSERT_EQ(::chown(real.c_str(), kSomebody, 0), 0);
  const test::Variable path("TUTTI_BACKEND_PATH", ":" + outside.path());
  std::ofstream(fs::path(outside.path()) / "tutti_backend_strange.so") << "no library";
  EXPECT_THAT(load_plugin("strange").missing(), HasSubstr("cannot be loaded")) << "the next one";
}

TEST(Plugins, OneOfAnotherVersionSaysSo) {
  const test::TemporaryFolder folder;
  link_map* library = nullptr;
  ASSERT_EQ(
      ::dlinfo(::dlopen("libm.so.6", RTLD_NOW), RTLD_DI_LINKMAP, static_cast<void*>(&library)), 0);
  fs::copy_file(library->l_name, folder.path() + "/tutti_backend_strange.so");
  const test::Variable path("TUTTI_BACKEND_PATH", folder.path());
  EXPECT_THAT(load_plugin("strange").missing(),
              HasSubstr("strange.so was built for another version of tutti"));
}

TEST(Plugins, FoldersAreSearchedInThisOrderAndToldInTheError) {
  const std::string here = kProgram.parent_path();
  const test::Variable path("TUTTI_BACKEND_PATH", "/named:" + here + "/tutti:/bad\n::/last");
  add_backend_folder("/added");
  std::vector<std::string> folders;
  std::string trusted;
  const std::string prefix = kProgram.parent_path().parent_path();
  for (const auto& [folder, named] : plugin_folders()) {
    if (folder.starts_with(prefix + "/lib") && folder != prefix + "/lib/tutti")
      continue;  // of a system whose libraries lie in lib64
    folders.push_back(folder);
    trusted += named ? '1' : '0';
  }
  EXPECT_THAT(folders,
              ElementsAre("/named", here + "/tutti", "/bad\n", "/added", here + "/lib/tutti",
                          prefix + "/lib/tutti", "/last", EndsWith("/tutti")))
      << "each once";
  EXPECT_EQ(trusted, "11100010");
  EXPECT_THAT(why_no_plugin("strange"),
              AllOf(HasSubstr("nor a plug-in tutti_backend_strange.so in /named, " + here +
                              "/tutti, /bad\\x0a, /added, " + here + "/lib/tutti, "),
                    Not(HasSubstr("\n"))));
  EXPECT_EQ(why_no_plugin("../mpi"), "there is none of this name");
}

TEST(Plugins, AFolderIsHandedDownIfAllOfItMayBeLoaded) {
  const std::string here = kProgram.parent_path() / "lib" / "tutti";
  const auto handed_down = [&] {
    return (":" + plugin_path_of_children() + ":").find(":" + here + ":") != std::string::npos;
  };
  EXPECT_FALSE(handed_down()) << "there is no plug-in";
  const FileBesideProgram file("handed_down");
  const test::TemporaryFolder trusted;
  fs::remove(file.path);
  fs::create_symlink(trusted.file("plugin", ""), file.path);
  EXPECT_TRUE(handed_down());
  for (const fs::path& one : {file.path, file.path.parent_path()}) {
    fs::permissions(one, fs::perms::others_write, fs::perm_options::add);
    EXPECT_FALSE(handed_down()) << one;
    fs::permissions(one, fs::perms::others_write, fs::perm_options::remove);
  }
  const test::Variable path("TUTTI_BACKEND_PATH", "/named");
  const std::string once = plugin_path_of_children();
  EXPECT_EQ(once.find("/named::" + here), 0U) << "after the child's own";
  const test::Variable again("TUTTI_BACKEND_PATH", once);
  EXPECT_EQ(plugin_path_of_children(), once);
}

TEST(Plugins, ANameThatIsNoFilesNameIsLookedForNowhere) {
  EXPECT_TRUE(load_plugin("../mpi").name.empty());
  EXPECT_TRUE(load_plugin("").name.empty());
}

}  // namespace
}  // namespace tutti::group
