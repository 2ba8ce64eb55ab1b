// The key of a user: where it stands, who may have it, and that all find the same one.

#include "store/user_key.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "secure/hmac.hpp"
#include "store/secret.hpp"
#include "support/temporary_folder.hpp"
#include "support/variable.hpp"
#include "unit/in_threads.hpp"
#include "unit/os/limit.hpp"

using testing::AllOf;
using testing::HasSubstr;
using tutti::store::find_user_key;
using tutti::store::KeyPlaces;

namespace {

namespace fs = std::filesystem;

constexpr uid_t kAnother = 54321;

mode_t mode_of(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class UserKey : public testing::Test {
 protected:
  UserKey() {
    EXPECT_EQ(::chmod(root.c_str(), 0755), 0);
    fs::create_directory(places.home);
    fs::create_directory(places.memory);
    EXPECT_EQ(::chmod(places.memory.c_str(), 01777), 0);
  }
  ~UserKey() override {
    be(::getuid());
    ::chmod(places.home.c_str(), 0700);
  }
  static void be(uid_t user) { EXPECT_EQ(::seteuid(user), 0); }
  /// From here on the process is another user than root, to whom the home belongs.
  void be_its_owner() const {
    give_home_away();
    be(::getuid() == 0 ? kAnother : ::getuid());
  }
  /// If this process may.
  void give_home_away() const {
    const uid_t owner = ::getuid() == 0 ? kAnother : ::getuid();
    EXPECT_EQ(::chown(places.home.c_str(), owner, static_cast<gid_t>(-1)), 0);
  }
  [[nodiscard]] std::string at_home() const { return places.home + "/.config/tutti/key"; }
  [[nodiscard]] std::string in_memory() const {
    return places.memory + "/tutti-" + std::to_string(::geteuid()) + "/key";
  }
  /// The one that must be found.
  [[nodiscard]] tutti::store::UserKey found() const {
    auto key = find_user_key(places);
    EXPECT_TRUE(key) << key.status().message();
    return key ? std::move(key).value() : tutti::store::UserKey{};
  }
  [[nodiscard]] std::string problem() const {
    const auto key = find_user_key(places);
    return key ? "found " + key.value().path : std::string(key.status().message());
  }

  tutti::test::TemporaryFolder folder_;
  const std::string root = folder_.path();
  KeyPlaces places{root + "/home", root + "/runtime", root + "/memory"};
};

TEST_F(UserKey, IsMadeOnceAndForItsUserAlone) {
  const mode_t before = ::umask(0);
  const auto made = found();
  ::umask(before);
  EXPECT_EQ(made.path, at_home());
  EXPECT_EQ(made.bytes.size(), 32U);
  EXPECT_EQ(mode_of(at_home()), 0600);
  EXPECT_EQ(mode_of(places.home + "/.config/tutti"), 0700);
  EXPECT_EQ(found().bytes, made.bytes);
  const auto files = fs::directory_iterator(places.home + "/.config/tutti");
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "the temporary file has stayed";
}

TEST_F(UserKey, EndsNoProcessThatMayMakeNoFiles) {
  const auto [what, made] = [&] {
    const tutti::test::SoftLimit none(RLIMIT_FSIZE, 0);
    return std::pair{problem(), tutti::store::make_secret()};
  }();
  EXPECT_THAT(what,
              AllOf(HasSubstr("no place for a key of this user"), HasSubstr("File too large")));
  EXPECT_TRUE(fs::is_empty(places.home + "/.config/tutti")) << "the temporary file has stayed";
  EXPECT_TRUE(made) << "a launcher's secret is memory: " << made.status().message();
}

TEST_F(UserKey, IsTheSameForAllWhoMakeItAtOnce) {
  std::vector<tutti::SecretBytes> keys(8);
  tutti::test::in_threads(8, [&](int i) { keys[static_cast<std::size_t>(i)] = found().bytes; });
  EXPECT_EQ(keys[0].size(), 32U);
  EXPECT_THAT(keys, testing::Each(keys[0]));
}

TEST_F(UserKey, StandsInMemoryWithoutAHome) {
  places.home.clear();
  const auto key = found();
  EXPECT_EQ(key.path, in_memory());
  EXPECT_EQ(mode_of(in_memory()), 0600);
  EXPECT_EQ(mode_of(fs::path(in_memory()).parent_path()), 0700);
  places.home = root + "/is not there";
  EXPECT_EQ(found().bytes, key.bytes);
}

TEST_F(UserKey, StandsInMemoryWhereTheHomeIsAnothers) {
  // As sudo leaves it; nobody's home is that of root but root's.
  give_home_away();
  if (::getuid() != 0) places.home = "/";
  EXPECT_EQ(found().path, in_memory());
  EXPECT_FALSE(fs::exists(places.home + "/.config")) << "made something in another user's home";
}

TEST_F(UserKey, StandsInMemoryWhereTheHomeCannotBeWritten) {
  be_its_owner();
  EXPECT_EQ(::chmod(places.home.c_str(), 0500), 0);
  EXPECT_EQ(found().path, in_memory());
}

TEST_F(UserKey, OneThatIsThereServesInAHomeThatCannotBeWritten) {
  be_its_owner();
  const auto made = found();
  EXPECT_EQ(::chmod(places.home.c_str(), 0500), 0);
  EXPECT_EQ(found().path, at_home());
  EXPECT_EQ(found().bytes, made.bytes);
}

TEST_F(UserKey, OneThatOthersMayKnowIsRefused) {
  ASSERT_TRUE(find_user_key(places));
  // The group may read a secret file that belongs to root, but no key.
  EXPECT_EQ(::chmod(at_home().c_str(), 0640), 0);
  EXPECT_THAT(problem(), HasSubstr("can be used by others than its owner (mode 0640)"));
  EXPECT_EQ(::chmod(at_home().c_str(), 0644), 0);
  EXPECT_THAT(problem(), AllOf(HasSubstr(at_home()), HasSubstr("0644"), HasSubstr("chmod 600"),
                               HasSubstr("remove it")));
  EXPECT_EQ(::chmod(at_home().c_str(), 0600), 0);
  std::ofstream(at_home()) << "short";
  EXPECT_THAT(problem(), HasSubstr("holds 5 bytes"));
  fs::rename(at_home(), root + "/elsewhere");
  fs::create_symlink(root + "/elsewhere", at_home());
  EXPECT_THAT(problem(), HasSubstr("is a symbolic link"));
}

TEST_F(UserKey, AFolderInMemoryThatIsNotOursIsRefused) {
  places.home.clear();
  const std::string folder = fs::path(in_memory()).parent_path();
  fs::create_directory(folder);
  EXPECT_EQ(::chmod(folder.c_str(), 0777), 0);
  EXPECT_THAT(problem(), AllOf(HasSubstr("is open to others (mode 0777)"), HasSubstr("chmod 700")));
  fs::remove_all(folder);
  fs::create_directory_symlink(root, folder);
  EXPECT_THAT(problem(), AllOf(HasSubstr("no place for a key"), HasSubstr("TUTTI_SECRET_FILE")));
  fs::remove(folder);
}

TEST_F(UserKey, StandsInTheRuntimeFolderOfTheUserBeforeMemory) {
  places.home.clear();
  fs::create_directory(places.runtime);
  EXPECT_EQ(::chmod(places.runtime.c_str(), 0700), 0);
  EXPECT_EQ(found().path, places.runtime + "/tutti/key");
  EXPECT_EQ(mode_of(places.runtime + "/tutti"), 0700);
  EXPECT_FALSE(fs::exists(in_memory()));
  // One that others may write is not the user's alone.
  EXPECT_EQ(::chmod(places.runtime.c_str(), 0770), 0);
  EXPECT_EQ(found().path, in_memory());
}

TEST_F(UserKey, WhateverAnotherUserHasPutThereIsToldAsTheirs) {
  if (::getuid() != 0) GTEST_SKIP() << "only root gives files away";
  places.home.clear();
  fs::create_directory(places.runtime);
  EXPECT_EQ(::chmod(places.runtime.c_str(), 0700), 0);
  EXPECT_EQ(::chown(places.runtime.c_str(), kAnother, kAnother), 0);
  const std::string folder = fs::path(in_memory()).parent_path();
  const auto put = [&](const std::function<void()>& make) {
    make();
    EXPECT_EQ(::lchown(folder.c_str(), kAnother, kAnother), 0);
    EXPECT_THAT(problem(), AllOf(HasSubstr(places.runtime + " belongs to user 54321"),
                                 HasSubstr(folder + " belongs to user 54321, not to user 0"),
                                 HasSubstr("TUTTI_SECRET_FILE")));
    fs::remove_all(folder);
  };
  put([&] { fs::create_directory(folder); });
  put([&] { EXPECT_EQ(::mkfifo(folder.c_str(), 0666), 0); });
  put([&] { std::ofstream(folder) << "file"; });
  put([&] { fs::create_directory_symlink(root, folder); });
}

TEST_F(UserKey, ItsIdTellsKeysApartAndNothingElse) {
  using tutti::secure::key_id;
  const auto key = found();
  const auto id = key_id(key.bytes).value();
  EXPECT_EQ(id, key_id(key.bytes).value());
  EXPECT_NE(id, key_id(std::vector<std::byte>(32)).value());
  EXPECT_EQ(key_id({}).value(), tutti::secure::KeyId{});
}

KeyPlaces places_with(const char* name, const std::optional<std::string>& value) {
  const tutti::test::Variable variable(name, value);
  return tutti::store::places_of_user();
}

TEST(KeyPlaces, HomeElseThePasswordDatabase) {
  EXPECT_EQ(places_with("HOME", "/somewhere").home, "/somewhere");
  const std::string known = places_with("HOME", std::nullopt).home;
  EXPECT_NE(known, "/somewhere");
  EXPECT_EQ(places_with("HOME", "not a path from the root").home, known);
  EXPECT_EQ(tutti::store::places_of_user().memory, "/dev/shm");
}

TEST(KeyPlaces, RuntimeFolderOfTheSession) {
  const char* const kName = "XDG_RUNTIME_DIR";
  EXPECT_EQ(places_with(kName, "/somewhere").runtime, "/somewhere");
  const std::string known = "/run/user/" + std::to_string(::geteuid());
  EXPECT_EQ(places_with(kName, std::nullopt).runtime, known);
  EXPECT_EQ(places_with(kName, "not a path from the root").runtime, known);
}

}  // namespace
