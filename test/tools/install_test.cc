// What `make install` puts into place, and programs outside of the tree that are built with it.
#include "test/support/free_port.h"
#include "test/tools/installed.h"

namespace millrace::test {
namespace {

using Install = Installed;

TEST_F(Install, PutsThePlacesOfItsFilesBehindDestdir) {
  const std::string root = folder_ / "package";
  const CommandResult result = InstallWith({"PREFIX=/opt/m", "DESTDIR=" + root});
  ASSERT_EQ(result.status, 0) << result.errors;
  const std::string package = ReadFile(root + "/opt/m/lib/pkgconfig/millrace.pc");
  EXPECT_CONTAINS(package, "prefix=/opt/m\nlibdir=${prefix}/lib\n");
  EXPECT_CONTAINS(package, StrCat("Version: ", Version(), "\n"));
  EXPECT_EQ(ReadFile(root + "/opt/m/share/doc/millrace/copyright"), ReadFile("LICENSE"));
  // The program finds its library beside itself, wherever both have been moved.
  const CommandResult help =
      test::Run({"/usr/bin/env", "-i", root + "/opt/m/bin/millrace", "help"});
  EXPECT_EQ(help.status, 0) << help.errors;
  EXPECT_CONTAINS(help.output, "millrace <command>");
}

TEST_F(Install, RefusesARelativePrefix) {
  for (const char* setting : {"PREFIX=here", "LIBDIR=lib64"}) {
    const CommandResult result = InstallWith({"DESTDIR=" + (folder_ / "package"), setting});
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.errors, StrCat("install: ", setting, ": expected an absolute path\n"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "package"));
}

// Each distribution has a folder of its own for libraries.
TEST_F(Install, TheProgramFindsItsLibraryInTheUsualFolders) {
  const std::string arch = test::Run({"/usr/bin/env", "g++", "-print-multiarch"}).output;
  for (const std::string& lib : {std::string("lib64"), "lib/" + arch.substr(0, arch.find('\n'))}) {
    const std::string root = folder_ / "package";
    const CommandResult result =
        InstallWith({"PREFIX=/opt/m", "LIBDIR=/opt/m/" + lib, "DESTDIR=" + root});
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(root + "/opt/m/lib/libmillrace.so"));
    const CommandResult help =
        test::Run({"/usr/bin/env", "-i", root + "/opt/m/bin/millrace", "help"});
    EXPECT_EQ(help.status, 0) << lib << ": " << help.errors;
    std::filesystem::remove_all(root);
  }
}

// The two files by which programs find the library lie in LIBDIR, and name it.
class InstallInLibdir : public Install, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    Install::SetUp();
    if (IsSkipped()) return;
    const CommandResult result = InstallWith({"PREFIX=" + other_, "LIBDIR=" + libdir_});
    ASSERT_EQ(result.status, 0) << result.errors;
    std::filesystem::remove_all(prefix_);
  }
  // As built by `how`, the program prints its usage.
  void ExpectBuilds(const std::string& how, const std::string& program) {
    const CommandResult built = ShellWith(libdir_, how);
    ASSERT_EQ(built.status, 0) << built.output << built.errors;
    EXPECT_CONTAINS(ShellWith(libdir_, program).errors, "usage: ");
    EXPECT_CONTAINS(ShellWith(libdir_, "ldd " + program).output, libdir_ + "/libmillrace.so.");
  }
  const std::string other_ = folder_ / "other";
  const std::string libdir_ = folder_ / GetParam();
};

TEST_P(InstallInLibdir, PkgConfigFindsIt) {
  const std::string embed = Copied("embed");
  ExpectBuilds("make -C " + embed + " own_weights", embed + "/own_weights");
  const std::string libs = ShellWith(libdir_, "pkg-config --libs-only-L millrace").output;
  EXPECT_CONTAINS(libs, "-L" + libdir_);
}

TEST_P(InstallInLibdir, CmakeFindsIt) {
  if (test::Run({"/bin/sh", "-c", "command -v cmake"}).status != 0) {
    GTEST_SKIP() << "cmake is not installed";
  }
  const std::string embed = Copied("embed");
  const std::string build = embed + "/build";
  ExpectBuilds("cmake -S " + embed + " -B " + build + " -DMillrace_DIR=" + libdir_ +
                   "/cmake/Millrace && cmake --build " + build + " --target own_weights",
               build + "/own_weights");
}

INSTANTIATE_TEST_SUITE_P(WithinPrefix, InstallInLibdir,
                         testing::Values("other/lib64", "other/lib/an-arch"));
INSTANTIATE_TEST_SUITE_P(Elsewhere, InstallInLibdir, testing::Values("libraries"));

TEST_F(Install, TheLibraryOffersNothingButItsOwn) {
  const CommandResult result = Shell("nm -DC --defined-only " + prefix_ + "/lib/libmillrace.so");
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, "millrace::Session::Open(");
  // "0000000000123456 T millrace::Error::..."; or the type of a result before that.
  for (const std::string& name : Matches(result.output, "(?:^|\n)[0-9a-f]* *[A-Za-z] ([^\n]*)")) {
    EXPECT_TRUE(name.find("millrace") != name.npos || name.find("MILLRACE") == 0) << name;
    EXPECT_EQ(name.find("boost::"), std::string::npos) << name;
  }
  // What is not in a public header is for the modules of this version only.
  EXPECT_CONTAINS(result.output, "@@MILLRACE_PRIVATE_" + std::string(Version()));
  const std::string begin = "[0-9a-f]+ [A-Za-z] millrace::";
  EXPECT_EQ(Matches(result.output, "\n(" + begin + "[A-Z][^\n]*@@MILLRACE_PRIVATE_)").size(), 0u);
  EXPECT_GT(Matches(result.output, "\n(" + begin + "exchange::[^\n]*@@MILLRACE_PRIVATE_)").size(),
            0u);
  EXPECT_EQ(Matches(result.output, "\n(" + begin + "exchange::[^\n]*@@MILLRACE_[0-9])").size(), 0u);
}

TEST_F(Install, ProgramsOutsideOfTheTreeStepASolver) {
  const std::string embed = Copied("embed");
  const CommandResult built = Shell("make -C " + embed);
  ASSERT_EQ(built.status, 0) << built.errors;
  Workspace work;
  const std::string solver = work.Write("run", Workspace::Tested(Workspace::Solver(300), 1000));
  const CommandResult result = Shell(embed + "/own_steps " + solver + " 200");
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.output, StrCat("millrace ", Version(), ": "));
  EXPECT_CONTAINS(result.output, "iteration 100: loss ");
  EXPECT_CONTAINS(result.output, "accuracy = ");
  EXPECT_CONTAINS(result.output, "200 iterations, lowest loss ");
  const CommandResult wrong = Shell(embed + "/own_steps " + (work / "none.prototxt"));
  EXPECT_EQ(wrong.status, 1);
  EXPECT_CONTAINS(wrong.errors, "own_steps: ");
  EXPECT_CONTAINS(wrong.errors, "none.prototxt");
}

TEST_F(Install, ProgramsOutsideOfTheTreeExchangeTheirOwnWeights) {
  const std::string embed = Copied("embed");
  const CommandResult built = Shell("make -C " + embed + " own_weights");
  ASSERT_EQ(built.status, 0) << built.errors;
  const std::string topology = folder_ / "pair.prototxt";
  WriteFile(topology, StrCat("name: 'pair' node { name: 'a' address: '127.0.0.1' }",
                             " node { name: 'b' address: '127.0.0.2' }",
                             " segment { name: 'loop' transport: 'udp' port: ", FreePort(), " }"));
  const std::string node = embed + "/own_weights " + topology;
  const CommandResult both =
      Shell(node + " a & first=$!; " + node + " b; second=$?; wait $first && exit $second");
  EXPECT_EQ(both.status, 0) << both.output << both.errors;
  // Both printed what they learned.
  EXPECT_CONTAINS(both.output, "a: ");
  EXPECT_CONTAINS(both.output, "b: ");
}

TEST_F(Install, ProgramsInCExchangeTheirOwnWeights) {
  const std::string c = Copied("c");
  const CommandResult built = Shell("make -C " + c + " CFLAGS='-O2 -Wall -Wextra -Werror'");
  ASSERT_EQ(built.status, 0) << built.errors;
  const std::string topology = folder_ / "pair.prototxt";
  std::string text = ReadFile(c + "/two_nodes.prototxt");
  const size_t at = text.find("29473");
  ASSERT_NE(at, std::string::npos);
  WriteFile(topology, text.replace(at, 5, std::to_string(FreePort())));
  const std::string node = c + "/regression " + topology;
  const CommandResult both =
      Shell(node + " a & first=$!; " + node + " b; second=$?; wait $first && exit $second");
  EXPECT_EQ(both.status, 0) << both.output << both.errors;
  EXPECT_CONTAINS(both.output, "a: ");
  EXPECT_CONTAINS(both.output, "b: ");
  const CommandResult wrong = Shell(node + " c");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_CONTAINS(wrong.errors, "regression: ");
}

TEST_F(Install, ProgramsOutsideOfTheTreeClassifyImages) {
  const std::string embed = Copied("embed");
  const CommandResult built = Shell("make -C " + embed + " classify");
  ASSERT_EQ(built.status, 0) << built.errors;
  Workspace work;
  std::string net = work.Net().Text();
  const std::string transform = "scale: 0.0078125 mean_value: 128";
  for (size_t at; (at = net.find(transform)) != std::string::npos;) {
    net.replace(at, transform.size(), "scale: 0.00390625");
  }
  work.WriteNet(net);
  const std::string solver = work.Write("run", Workspace::Solver(300));
  const CommandResult trained = Shell(prefix_ + "/bin/millrace train --solver=" + solver);
  ASSERT_EQ(trained.status, 0) << trained.errors;
  WriteFile(work / "deploy.prototxt",
            "name: 'small' layer { name: 'in' type: 'Input' top: 'data'"
            " input_param { shape { dim: 1 dim: 1 dim: 8 dim: 8 } } }"
            " layer { name: 'hidden' type: 'InnerProduct' bottom: 'data' top: 'hidden'"
            " inner_product_param { num_output: 16 } }"
            " layer { name: 'relu' type: 'ReLU' bottom: 'hidden' top: 'hidden' }"
            " layer { name: 'scores' type: 'InnerProduct' bottom: 'hidden' top: 'scores'"
            " inner_product_param { num_output: 4 } }"
            " layer { name: 'prob' type: 'Softmax' bottom: 'scores' top: 'prob' }");
  const std::vector<uint8_t> pixels = Images().Pixels();
  std::string images;
  for (size_t i = 0; i < 8; ++i) {
    const std::string path = work / StrCat(i, ".pgm");
    WriteFile(path, "P5 8 8 255\n" + std::string(&pixels[64 * i], &pixels[64 * i] + 64));
    images += " " + path;
  }
  const std::string model = work.Snapshot("run", 300) + ".caffemodel";
  const std::string classify = embed + "/classify " + (work / "deploy.prototxt") + " ";
  const CommandResult result = Shell(classify + model + images);
  EXPECT_EQ(result.status, 0) << result.errors;
  for (int i = 0; i < 8; ++i) EXPECT_CONTAINS(result.output, StrCat(i, ".pgm: class ", i % 4, ","));
  // What does not fit is named in one line.
  WriteFile(work / "wide.pgm", "P5 9 8 255\n" + std::string(72, 'x'));
  EXPECT_CONTAINS(Shell(classify + model + " " + (work / "wide.pgm")).errors,
                  "wide.pgm: expected a PGM or PPM image of shape 1 1 8 8 (64)\n");
  EXPECT_CONTAINS(Shell(classify + (work / "none") + images).errors, "classify: ");
}

TEST_F(Install, ProgramsOutsideOfTheTreeShareTheirMetrics) {
  const std::string embed = Copied("embed");
  const CommandResult built = Shell("make -C " + embed + " own_steps watch");
  ASSERT_EQ(built.status, 0) << built.errors;
  Workspace work;
  const std::string solver =
      work.Write("run", Workspace::Tested(Workspace::Solver(1000000000), 1000));
  // The program trains until `watch` has seen it.
  const std::string seen = folder_ / "seen";
  const CommandResult result =
      Shell(StrCat(embed, "/own_steps ", solver, " 1000000000 >", seen, ".log & program=$!\n",
                   "for i in $(seq 600); do\n", embed, "/watch >", seen, "\n",
                   "grep -A9 \"^pid $program, small\" ", seen, " | grep lowest_loss && break\n",
                   "sleep 0.1; done\n", "kill $program; wait $program; cat ", seen));
  EXPECT_CONTAINS(result.output, "\n  own_steps_lowest_loss ");
  EXPECT_CONTAINS(result.output, "\n  millrace_run_iterations_here_total ");
}

// Caffe's messages are in a shared library, as Caffe's own are.
class BesideCaffe : public Install {
 protected:
  void SetUp() override {
    Install::SetUp();
    if (IsSkipped()) return;
    std::filesystem::copy("test/tools/beside_caffe", folder_.path());
    const CommandResult built =
        Shell("cd " + folder_.path() +
              " && protoc --cpp_out=. caffe.proto && g++ -std=c++20 -fPIC -shared caffe.pb.cc"
              " $(pkg-config --cflags --libs protobuf) -o libcaffe.so");
    ASSERT_EQ(built.status, 0) << built.errors;
    WriteFile(folder_ / "net.prototxt",
              "name: 'both' layer { name: 'in' type: 'Input' top: 'data'"
              " input_param { shape { dim: 1 dim: 5 } } }"
              " layer { name: 'scores' type: 'InnerProduct' bottom: 'data' top: 'scores'"
              " inner_product_param { num_output: 3 } }");
  }
  Workspace work_;
};

TEST_F(BesideCaffe, AProgramReadsNetsWithTheMessagesOfBoth) {
  const std::string caffe = " -L" + folder_.path() + " -lcaffe -Wl,-rpath," + folder_.path();
  const std::string millrace = " $(pkg-config --cflags --libs millrace)";
  // Each registers its messages first, once.
  for (const std::string& libraries : {caffe + millrace, millrace + caffe}) {
    const CommandResult built =
        Shell("cd " + folder_.path() + " && g++ -std=c++20 both.cc -I." + libraries + " -o both");
    ASSERT_EQ(built.status, 0) << built.errors;
    const CommandResult result = Shell(folder_ / "both " + (folder_ / "net.prototxt"));
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_CONTAINS(result.output, "caffe.NetParameter: net both, 2 layers, file caffe.proto\n");
    EXPECT_CONTAINS(result.output, "millrace.caffe.NetParameter: net both, 2 layers, file ");
    EXPECT_CONTAINS(result.output, "millrace::Net: 2 arrays of weights\n");
  }
}

TEST_F(BesideCaffe, ThePluginOfATrainingMayHaveIt) {
  const CommandResult result =
      InstalledMillrace({"train", "--solver=" + work_.Write("run", Workspace::Solver(20)),
                         "--plugins=" + (folder_ / "libcaffe.so")});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(std::filesystem::exists(work_.Snapshot("run", 20) + ".caffemodel"));
}

TEST_F(Install, CmakeFindsIt) {
  if (test::Run({"/bin/sh", "-c", "command -v cmake"}).status != 0) {
    GTEST_SKIP() << "cmake is not installed";
  }
  const std::string embed = Copied("embed");
  const CommandResult result =
      Shell("cmake -S " + embed + " -B " + embed + "/build -DCMAKE_PREFIX_PATH=" + prefix_ +
            " && cmake --build " + embed + "/build --target own_weights");
  ASSERT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_EQ(Shell(embed + "/build/own_weights").status, 1);  // its usage
}

}  // namespace
}  // namespace millrace::test
