// The C API: the C files of this folder, as C99 and as C++, and whether they use every function.
#include <filesystem>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/files/file.h"
#include "base/registration.h"
#include "test/support/etcd_server.h"
#include "test/support/free_port.h"
#include "test/support/problem.h"
#include "test/support/sanitized.h"

#define ALL_TESTS(X)                                                                     \
  X(Library)                                                                             \
  X(Metrics)                                                                             \
  X(Net)                                                                                 \
  X(NetFiles)                                                                            \
  X(NetMemoryData)                                                                       \
  X(NetMistakes)                                                                         \
  X(Session)                                                                             \
  X(SessionByHand)                                                                       \
  X(SessionOfTwoSolvers)                                                                 \
  X(SessionMistakes) X(Run) X(RunMistakes) X(Control) X(Stream) X(StreamMistakes)        \
      X(StreamOfAnOlderProgram) X(Layer) X(LayerDefaults) X(LayerMistakes) X(DataSource) \
          X(UpdateRule) X(Sampler) X(SyncCondition) X(StopCondition)                     \
              X(RunEndsWithTheTextOfACallback) X(MergeRule)
// These need an etcd.
#define ELASTIC_TESTS(X) X(ElasticStream) X(ElasticSession) X(ElasticRun)

extern "C" {
void c99_Duplicate(const char* folder);
#define DECLARE(name)                  \
  void c99_##name(const char* folder); \
  void cpp_##name(const char* folder);
ALL_TESTS(DECLARE)
ELASTIC_TESTS(DECLARE)
#undef DECLARE

void CapiFailed(const char* file, int line, const char* what);
const char* CapiPath(const char* folder, const char* name);
const char* millrace_last_error(void);
}

namespace millrace::test {
namespace {

std::set<std::string>* paths = nullptr;

// Files for the C functions: nets and solver files of the small problem, topology files.
class CApi : public testing::Test {
 protected:
  CApi() {
    paths = &paths_;
    setenv("MILLRACE_TEST_PROGRAM", Binary().c_str(), 1);
    work_.Write("session", Workspace::Tested(Workspace::Solver(20), 1000));
    work_.Write("endless", Workspace::Tested(Workspace::Solver(1000000), 1000000));
    for (const std::string language : {"c99", "cpp"}) {
      const std::string node = " node { name: 'a' address: '127.0.0.1' }";
      const std::string two = node + " node { name: 'b' address: '127.0.0.2' }";
      // Damped progress would arrive in parts.
      Topology(language + "_topology", two, "damping: false");
      Topology(language + "_alone", two, "");
      Topology(language + "_segments", "", "damping: false");
      const std::string rule = "damping: false merge_rule: '" + language + "_share'";
      Topology(language + "_merge", two, rule);
      Topology(language + "_little", two, rule + " merge_rule_param { key: 'share' value: 0.25 }");
    }
  }
  ~CApi() override { paths = nullptr; }

  void Topology(const std::string& name, const std::string& nodes, const std::string& fields) {
    WriteFile(
        work_ / (name + ".prototxt"),
        StrCat(nodes.empty() ? "" : "name: 'pair'", nodes,
               " segment { name: 'loop' transport: 'udp' port: ", FreePort(), " ", fields, " }"));
  }

  Workspace work_;
  std::set<std::string> paths_;
};

#define BOTH(name)                                \
  TEST_F(CApi, name##AsC99) {                     \
    c99_##name((work_ / "").c_str());             \
    EXPECT_EQ(TakeBadRegistrations().size(), 0u); \
  }                                               \
  TEST_F(CApi, name##AsCpp) {                     \
    cpp_##name((work_ / "").c_str());             \
    EXPECT_EQ(TakeBadRegistrations().size(), 0u); \
  }
ALL_TESTS(BOTH)
#undef BOTH

class CApiWithEtcd : public CApi {
 protected:
  void SetUp() override {
    const std::string reason = EtcdServer::WhyNot();
    if (!reason.empty()) GTEST_SKIP() << reason;
    etcd_.Start();
    setenv("MILLRACE_TEST_ETCD", etcd_.endpoint().c_str(), 1);
  }
  ~CApiWithEtcd() override { unsetenv("MILLRACE_TEST_ETCD"); }

  EtcdServer etcd_{"127.0.0.1", FreePort()};
};

#define BOTH(name)                                                        \
  TEST_F(CApiWithEtcd, name##AsC99) { c99_##name((work_ / "").c_str()); } \
  TEST_F(CApiWithEtcd, name##AsCpp) { cpp_##name((work_ / "").c_str()); }
ELASTIC_TESTS(BOTH)
#undef BOTH

std::set<std::string> NamesIn(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  std::set<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    names.insert((*it)[1]);
  }
  return names;
}

TEST(CApiTables, OfOneNameAreAMistake) {
  c99_Duplicate("");
  const std::vector<std::string> mistakes = TakeBadRegistrations();
  ASSERT_EQ(mistakes.size(), 1u);
  EXPECT_CONTAINS(mistakes[0], "layer type c99Twice: two of them have this name");
}

// The functions that the two headers declare; those that plugins define, without them.
std::set<std::string> Declared() {
  std::set<std::string> names;
  for (const char* header : {"include/millrace/millrace.h", "include/millrace/plugin.h"}) {
    names.merge(NamesIn(ReadFile(header), "MILLRACE_API [^;(]*?[ *](millrace_\\w+)\\("));
  }
  names.erase("millrace_plugin_init");
  return names;
}

TEST(CApiHeaders, DeclareWhatTheTestsCall) {
  std::string tests;
  for (const auto& file : std::filesystem::directory_iterator("test/capi")) {
    if (file.path().extension() == ".c") tests += ReadFile(file.path().string());
  }
  const std::set<std::string> called = NamesIn(tests, "(millrace_\\w+)\\(");
  EXPECT_GT(Declared().size(), 100u);
  for (const std::string& name : Declared()) {
    EXPECT_TRUE(called.count(name) != 0) << name << ": no test calls it";
  }
}

TEST(CApiHeaders, DeclareWhatTheLibraryOffers) {
  const CommandResult result = test::Run(
      {"/usr/bin/env", "nm", "-D", "--defined-only", Dirname(Binary()) + "/libmillrace.so"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(NamesIn(result.output, " T (millrace_\\w+)"), Declared());
}

// Programs that were compiled with older headers run with this library.
class CApiRecord : public testing::Test {
 protected:
  CommandResult Check(const std::string& record) {
    return test::Run(
        {"/usr/bin/env", "BUILD=" + Dirname(Binary()), "test/capi/abi", "check", record});
  }
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "the record is of a library without sanitizers";
    const CommandResult result = Check("test/capi/millrace.abi");
    if (result.status == 77) GTEST_SKIP() << result.output;
    EXPECT_EQ(result.status, 0) << result.output << result.errors
                                << "if that is what you want: test/capi/abi record";
  }
};

TEST_F(CApiRecord, IsWhatTheLibraryOffers) {}

TEST_F(CApiRecord, ShowsWhatHasChanged) {
  TempDir folder;
  const std::string record = ReadFile("test/capi/millrace.abi"), path = folder / "changed.abi";
  const auto change = [&](const std::string& pattern, const std::string& by) {
    const std::string changed = std::regex_replace(record, std::regex(pattern), by);
    EXPECT_NE(changed, record);
    WriteFile(path, changed);
    return Check(path);
  };
  // A field of another type, a function of another name, and no record at all.
  const CommandResult field =
      change("name='loss' type-id='[^']*'", "name='loss' type-id='type-id-2'");
  EXPECT_EQ(field.status, 1);
  EXPECT_CONTAINS(field.output, "'struct millrace_step' changed");
  const CommandResult function = change("millrace_net_save", "millrace_net_keep");
  EXPECT_EQ(function.status, 1);
  EXPECT_CONTAINS(function.output, "millrace_net_keep");
  EXPECT_EQ(change("</abi-corpus>", "").status, 1);
}

}  // namespace
}  // namespace millrace::test

void CapiFailed(const char* file, int line, const char* what) {
  ADD_FAILURE_AT(file, line) << what << "\nlast error: " << millrace_last_error();
}

const char* CapiPath(const char* folder, const char* name) {
  return millrace::test::paths->insert(std::string(folder) + name).first->c_str();
}
