// `tutti doctor` as its users see it.

#include <sys/stat.h>

#include <array>
#include <fstream>
#include <source_location>

#include <tutti/store.hpp>

#include "command_run.hpp"
#include "support/free_port.hpp"
#include "support/sanitized.hpp"

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

namespace {

namespace fs = std::filesystem;
using tutti::test::Answer;
using tutti::test::joined;
using tutti::test::Words;

Answer run(const Words& command, const Words& variables) {
  return tutti::test::answer_of(
      command,
      joined({variables, {std::string("HOME=") + std::getenv("HOME"), "PATH=/usr/bin:/bin"}}));
}

Answer doctor(const Words& variables, const Words& arguments = {}) {
  return run(joined({{TUTTI_CLI, "doctor"}, arguments}), variables);
}

/// `tutti doctor` with these variables ends with this code, and tells that.
void expect_doctor(int code, const Words& variables, const testing::Matcher<std::string>& told,
                   const Words& arguments = {},
                   std::source_location where = std::source_location::current()) {
  const testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "started");
  const Answer answer = doctor(variables, arguments);
  EXPECT_EQ(answer.code, code) << answer.text;
  EXPECT_THAT(answer.text, told);
}

TEST(Doctor, TellsWhatTheMachineOffersAndFindsNothingWrong) {
  expect_doctor(0, {},
                AllOf(HasSubstr("cpus "), HasSubstr("usable"), HasSubstr("memory "),
                      HasSubstr("memfd, can be filled"), HasSubstr("pidfd               yes"),
                      HasSubstr("membarrier "), HasSubstr("NUMA nodes "),
                      HasSubstr("last-level cache "), HasSubstr("interfaces "), HasSubstr("lo: "),
                      HasSubstr("127.0.0.1"), HasSubstr("own name"), HasSubstr("to other hosts"),
                      HasSubstr("congestion control"), HasSubstr("mpirun "), HasSubstr("torchrun "),
                      HasSubstr("defaults, as in docs/reference/configuration.md"),
                      HasSubstr("transport           shared memory\n"), HasSubstr("waiting "),
                      HasSubstr("all_reduce "), HasSubstr("Nothing is wrong.")));
}

// On a driver whose GPUs are memory of the host, of which only neighbours reach each other.
TEST(Doctor, TellsTheGpusAndWhichReachEachOther) {
  const std::string driver = "TUTTI_CUDA_LIBRARY=" MOCK_CUDA_DRIVER;
  EXPECT_THAT(doctor({driver, "TUTTI_TEST_GPUS=3"}).text,
              AllOf(HasSubstr("(CUDA 13.0)"), Not(HasSubstr("cannot be used")),
                    HasSubstr("cuda:2              mock of a GPU 2, 1.5 GiB"),
                    HasSubstr("4 of 6 pairs; cuda:0 not that of cuda:2")));
  EXPECT_THAT(doctor({driver, "TUTTI_TEST_GPUS=2"}).text,
              HasSubstr("each GPU reaches the memory of each other one"));
  EXPECT_THAT(doctor({driver, "TUTTI_TEST_GPUS=0"}).text, HasSubstr("CUDA_VISIBLE_DEVICES"));
  expect_doctor(1, {"TUTTI_CUDA_LIBRARY=/nowhere/libcuda.so"},
                HasSubstr("TUTTI_CUDA_LIBRARY=/nowhere/libcuda.so cannot be used: "));
}

// With and without a build of the plug-in for NCCL.
TEST(Doctor, TellsWhyABackendCannotBeUsed) {
  const std::string none = "TUTTI_CUDA_LIBRARY=/nowhere/libcuda.so";
  const std::string why = "(" + none + " cannot be used: |there is none of this name)";
  const std::string before = "no world can be made on the backend 'nccl' \\(TUTTI_BACKEND\\): ";
  EXPECT_THAT(doctor({none}).text,
              AllOf(ContainsRegex("nccl +no: " + why), Not(HasSubstr("no world can be made"))));
  for (const std::string name : {"nccl", "cpu:native,cuda:nccl"})
    expect_doctor(1, {none, "TUTTI_BACKEND=" + name}, ContainsRegex(before + why));
  expect_doctor(1, {"TUTTI_BACKEND=cpu:native,tpu:nccl"},
                HasSubstr("the backend 'cpu:native,tpu:nccl' (TUTTI_BACKEND): there is "
                          "no device 'tpu'; write it as \"cpu:native,cuda:nccl\""));
}

#ifdef MOCK_NCCL_LIBRARY
Answer doctor_of_nccl(const Words& variables) {
  return doctor(joined({variables, {"TUTTI_CUDA_LIBRARY=" MOCK_CUDA_DRIVER}}));
}

TEST(Doctor, TellsWhyAnNcclCannotBeUsed) {
  const std::string mock = MOCK_NCCL_LIBRARY;
  for (const auto& [library, version, told] : std::vector<std::array<std::string, 3>>{
           {mock, "21900", "there is also nccl  NCCL 2.19.0, " + mock},
           {mock, "21804", mock + " cannot be used: it is NCCL 2.18.4; 2.19 or later is needed"},
           {mock, "2708", "it is NCCL 2.7.8; 2.19 or later is needed"},
           {MOCK_CUDA_DRIVER, "",
            MOCK_CUDA_DRIVER
            " cannot be used: it has no ncclGetVersion; NCCL 2.19 or later is needed"},
           {"/nowhere/libnccl.so", "",
            "TUTTI_NCCL_LIBRARY=/nowhere/libnccl.so cannot be used: /nowhere/libnccl.so: "}}) {
    Words variables = {"TUTTI_NCCL_LIBRARY=" + library};
    if (!version.empty()) variables.push_back("TUTTI_TEST_NCCL_VERSION=" + version);
    EXPECT_THAT(doctor_of_nccl(variables).text, HasSubstr(told));
  }
}

TEST(Doctor, LooksForNcclInOnePlaceAfterTheOther) {
  const tutti::test::TemporaryFolder top;
  const fs::path loaders = top.at("loader/libnccl.so.2");
  const fs::path pythons = top.at("bindings/python/nvidia/nccl/lib/libnccl.so.2");
  const fs::path plugin = top.at("bindings/python/tutti/lib/tutti/tutti_backend_nccl.so");
  for (const fs::path& file : {loaders, pythons, plugin}) {
    fs::create_directories(file.parent_path());
    fs::copy_file(file == plugin ? NCCL_PLUGIN : MOCK_NCCL_LIBRARY, file);
  }
  std::ofstream(top.at("bindings/python/tutti/py.typed")) << "";  // it is a Python package
  // Each of them goes before those above it.
  const std::vector<std::pair<std::string, std::string>> places{
      {"LD_LIBRARY_PATH=" + loaders.parent_path().string(), loaders},
      {"TUTTI_BACKEND_PATH=" + plugin.parent_path().string(), pythons},
      {"TUTTI_NCCL_LIBRARY=" MOCK_NCCL_LIBRARY, MOCK_NCCL_LIBRARY},
      {"LD_PRELOAD=libnccl.so.2", loaders}};
  Words variables;
  for (const auto& [variable, found] : places) {
    // A sanitizer must come before all that is preloaded.
    if (tutti::test::kSanitized && variable.starts_with("LD_PRELOAD")) continue;
    variables.push_back(variable);
    EXPECT_THAT(doctor_of_nccl(variables).text,
                HasSubstr("there is also nccl  NCCL 2.32.3, " + found + ";"))
        << variable;
  }
}
#endif

TEST(Doctor, NamesWhatATypoWasMeantToBe) {
  expect_doctor(1, {"TUTTI_TRANSPRT=tcp"},
                HasSubstr("TUTTI_TRANSPRT is set and means nothing; did you mean TUTTI_TRANSPORT"));
  expect_doctor(1, {"TUTTI_COFFEE_MACHINE=on"},
                HasSubstr("TUTTI_COFFEE_MACHINE is set and means nothing: unset it"));
  EXPECT_EQ(doctor({"TITLE=x", "TUTOR=y"}).code, 0) << "not every T is ours";
}

TEST(Doctor, TellsEveryFaultySetting) {
  expect_doctor(1,
                {"TUTTI_TIMEOUT=soon", "TUTTI_TRANSPORT=pigeon", "TUTTI_ALGO=all_reduce:magic",
                 "TUTTI_CPUS=3"},
                AllOf(HasSubstr("TUTTI_TIMEOUT='soon' is not understood"),
                      HasSubstr("TUTTI_TRANSPORT='pigeon' is not understood"),
                      HasSubstr("all_reduce has no algorithm \"magic\""), HasSubstr("3 CPUs")));
}

TEST(Doctor, LooksAtTheVariablesOfAJob) {
  expect_doctor(0, {"RANK=0"}, HasSubstr("but not WORLD_SIZE, MASTER_ADDR, MASTER_PORT"));
  expect_doctor(1, {"RANK=4", "WORLD_SIZE=4", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=http"},
                AllOf(HasSubstr("RANK is 4 and WORLD_SIZE 4; ranks count from 0 to 3"),
                      HasSubstr("MASTER_PORT is \"http\""), HasSubstr("127.0.0.1 (lo)")));
  expect_doctor(1, {"MASTER_ADDR=" + std::string(300, 'x')}, HasSubstr("MASTER_ADDR is xxx"));
}

TEST(Doctor, KnowsTheVariablesByWhichRanksMeet) {
  // As tuttirun sets them for every worker.
  expect_doctor(0, {"TUTTI_AGENT_STORE=1", "TUTTI_JOB=job", "TUTTI_STORE_PORT=29501"},
                AllOf(HasSubstr("TUTTI_STORE_PORT"), Not(HasSubstr("means nothing"))));
  expect_doctor(
      1, {"TUTTI_STORE_PORT=70000", "TUTTI_AGENT_STORE=yes"},
      AllOf(HasSubstr("TUTTI_STORE_PORT is 70000"), HasSubstr("TUTTI_AGENT_STORE is \"yes\"")));
  EXPECT_EQ(doctor({"TUTTI_AGENT_STORE=", "TUTTI_SECRET_FILE="}).code, 0) << "as if not set";
}

TEST(Doctor, ShowsTheInterfaceThatIsChosen) {
  EXPECT_THAT(doctor({}).text, HasSubstr("the address by which it reaches the master"));
  for (const std::string name :
       {"TUTTI_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
    expect_doctor(
        0, {name + "=lo"},
        AllOf(HasSubstr("127.0.0.1 (lo), as " + name + " says"), Not(HasSubstr("means nothing"))));
    expect_doctor(1, {name + "=none0"},
                  HasSubstr(name + " is \"none0\", but no interface of host"));
  }
  EXPECT_THAT(doctor({"TUTTI_SOCKET_IFNAME=lo", "GLOO_SOCKET_IFNAME=none0"}).text,
              HasSubstr("as TUTTI_SOCKET_IFNAME says"));
}

TEST(Doctor, ShowsWhatIsAdvertised) {
  expect_doctor(
      0, {"TUTTI_ADVERTISE=192.0.2.7:9000", "TUTTI_PORT=7000"},
      AllOf(HasSubstr("all addresses, and tells 192.0.2.7:9000"), Not(HasSubstr("means nothing"))));
  expect_doctor(1, {"TUTTI_ADVERTISE=0.0.0.0"}, HasSubstr("TUTTI_ADVERTISE is \"0.0.0.0\""));
}

TEST(Doctor, LooksAtTheSecretFile) {
  const tutti::test::TemporaryFolder folder;
  const std::string secret = folder.file("secret", std::string(32, 's'));
  ASSERT_EQ(chmod(secret.c_str(), 0600), 0);
  EXPECT_EQ(doctor({"TUTTI_SECRET_FILE=" + secret}).code, 0);
  ASSERT_EQ(chmod(secret.c_str(), 0644), 0);
  expect_doctor(1, {"TUTTI_SECRET_FILE=" + secret},
                AllOf(HasSubstr("chmod 600"), Not(HasSubstr("ssss"))));
}

TEST(Doctor, LooksAtEncryption) {
  EXPECT_THAT(doctor({}).text, AllOf(HasSubstr("TLS 1.3"), HasSubstr("OpenSSL 3"),
                                     HasSubstr("no: TUTTI_TLS=1 switches it on")));
  expect_doctor(0, {"TUTTI_TLS=1"},
                AllOf(HasSubstr("TLS 1.3 on every TCP connection"),
                      ContainsRegex("secret of a job +.*/.config/tutti/key")));
  expect_doctor(1, {"TUTTI_TLS=1", "TUTTI_INSECURE=1"},
                AllOf(HasSubstr("TUTTI_TLS is 1 and needs a secret"),
                      HasSubstr("anybody who reaches the port of a job can join"),
                      HasSubstr("object operations are refused")));
  expect_doctor(
      0, {"TUTTI_INSECURE=pickle"},
      AllOf(HasSubstr("none (TUTTI_INSECURE=pickle)"), HasSubstr("and run any code in its ranks")));
  expect_doctor(1, {"TUTTI_TLS=on"}, HasSubstr("TUTTI_TLS='on' is not understood; allowed: 0, 1"));
}

TEST(Doctor, ShowsWhatWouldBeChosen) {
  EXPECT_THAT(
      doctor({}, {"--ranks", "8", "--hosts", "8"}).text,
      AllOf(HasSubstr("for 8 ranks on 8 hosts"), HasSubstr("TCP between hosts"),
            HasSubstr("up to 8 KiB: exchange"), HasSubstr("beyond: direct in pieces of 256 KiB")));
  EXPECT_THAT(doctor({"TUTTI_CPUS=2"}, {"--ranks", "8"}).text,
              AllOf(HasSubstr("yields, then sleeps: 8 ranks of a host share 2 CPUs"),
                    HasSubstr("up to 16 KiB: shared_one_shot")));
  EXPECT_THAT(doctor({"TUTTI_ALGO=all_reduce:ring"}, {"--ranks", "4"}).text, HasSubstr("ring"));
  expect_doctor(0, {"TUTTI_AGREE=strict"}, HasSubstr("strict: no rank writes before"),
                {"--ranks", "4", "--hosts", "2"});
  expect_doctor(1, {"TUTTI_TRANSPORT=shm"}, HasSubstr("TUTTI_TRANSPORT=shm refuses"),
                {"--ranks", "4", "--hosts", "2"});
  EXPECT_NE(doctor({}, {"--ranks", "2", "--hosts", "3"}).code, 0);
  EXPECT_THAT(doctor({}).text, ContainsRegex("backend +auto \\(native; "));
  expect_doctor(1, {"TUTTI_BACKEND=ucc"},
                HasSubstr("no world can be made on the backend 'ucc' (TUTTI_BACKEND): "
                          "there is none of this name"));
}

TEST(Doctor, TellsOfTooFewDescriptors) {
  const Answer answer = run({"bash", "-c", "ulimit -Sn 64 && exec \"" TUTTI_CLI "\" doctor"}, {});
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.text, HasSubstr("64 descriptors only; say ulimit -n 1024"));
}

TEST(Doctor, ConnectsToAStoreAndComparesTheSecrets) {
  const tutti::test::TemporaryFolder folder;
  const std::string own = folder.path() + "/own";
  const std::string other = folder.path() + "/other";
  for (const auto& [path, letter] : {std::pair(own, 'a'), std::pair(other, 'b')}) {
    std::ofstream(path) << std::string(32, letter);
    ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  }
  tutti::TcpStoreOptions options;
  options.serve = true;
  options.secret = std::vector<std::byte>(32, std::byte{'a'});
  const auto store = tutti::make_tcp_store(options);
  const std::string port = std::to_string(store->port());
  const Words connect = {"--connect", "localhost:" + port};
  expect_doctor(0, {"TUTTI_SECRET_FILE=" + own},
                HasSubstr("handshake           a store with this process's secret\n"), connect);
  expect_doctor(1, {"TUTTI_SECRET_FILE=" + own, "TUTTI_JOB=one"},
                HasSubstr("give that name (--rdzv-id) as TUTTI_JOB"), connect);
  expect_doctor(1, {"TUTTI_SECRET_FILE=" + other}, HasSubstr("it has another secret"), connect);
  expect_doctor(1, {"TUTTI_SECRET_FILE=" + own, "TUTTI_TLS=1"}, HasSubstr("it does not encrypt"),
                connect);
}

TEST(Doctor, SaysWhyItCannotConnect) {
  expect_doctor(1, {}, HasSubstr("Connection refused: does something listen there"),
                {"--connect", "127.0.0.1:" + std::to_string(free_port())});
  for (const char* endpoint : {"", "here", ":1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:x",
                               "::1:1", "::1:29500", "[::1", "[::1:1", "[::1]", "[::1]1", "[]:1"})
    expect_doctor(1, {}, HasSubstr("it takes HOST:PORT"), {"--connect", endpoint});
}

}  // namespace
