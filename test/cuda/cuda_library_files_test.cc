#include "device/cuda_library_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "test/support/support.h"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

TEST(CudaLibraryFiles, AreLookedForInThePackagesOfPythonEnvironments) {
  const TempDir root;
  const auto make = [&](const std::string& folder) {
    fs::create_directories(root / folder);
    return root / folder;
  };
  const std::string cudnn = make("venv/lib/python3.12/site-packages/nvidia/cudnn/lib");
  const std::string cublas = make("venv/lib/python3.12/site-packages/nvidia/cublas/lib");
  const std::string on_path = make("opt/lib/python3.11/site-packages/nvidia/cu13/lib");
  const std::string system = make("usr/lib/python3/dist-packages/nvidia/cudnn/lib");
  make("other/lib/python3.11/site-packages/nvidia/cu13/lib");  // without a python3
  make("venv/lib/python3.12/site-packages/nvidia/cudnn/include");
  make("venv/lib/python2.7/site-packages/nvidia/cudnn/lib");
  for (const char* each : {"opt/bin", "other/bin", "venv/bin"}) make(each);
  for (const char* each : {"opt/bin/python3", "venv/bin/python3"}) WriteFile(root / each, "");
  const std::string path = (root / "other/bin") + ":" + (root / "opt/bin/") +
                           "::" + (root / "venv/bin") + ":" + (root / "missing/bin");
  EXPECT_EQ(PythonLibraryFolders((root / "venv").c_str(), path.c_str(), (root / "usr").c_str()),
            (std::vector<std::string>{cublas, cudnn, on_path, system}));
  EXPECT_TRUE(PythonLibraryFolders(nullptr, nullptr, nullptr).empty());
  EXPECT_TRUE(PythonLibraryFolders("", "", "").empty());
}

TEST(CudaLibraryFiles, AreLoadedFromTheFirstFolderThatHasThem) {
  const TempDir root;
  const LoadedLibrary own("libz.so.1", {});
  fs::copy(own.path(), root / "libown.so.7");
  const LoadedLibrary found("libown.so.7", {root / "missing", root.path()});
  EXPECT_EQ(found.path(), root / "libown.so.7");
  const char* (*version)() = nullptr;
  found.Find("zlibVersion", &version);
  EXPECT_NE(version(), nullptr);
  EXPECT_EQ(ErrorOf([&] { found.Find("nothing", &version); }),
            StrCat(root / "libown.so.7", " has no function nothing"));
}

// Several files may have one name: the log must say which one works.
TEST(CudaLibraryFiles, AreNamedAsTheyAreWithTheirOwner) {
  const TempDir root;
  const LoadedLibrary own("libz.so.1", {});
  const std::string packages = root / "lib/python3.12/site-packages/nvidia/cublas/lib";
  const std::string toolkit = root / "opt/cuda-13.0/lib";
  for (const std::string& folder : {packages, toolkit}) fs::create_directories(folder);
  fs::copy_file(own.path(), packages + "/libpacked.so.7.1");
  fs::create_symlink("libpacked.so.7.1", packages + "/libpacked.so.7");
  fs::copy_file(own.path(), toolkit + "/libkit.so.7");
  fs::create_directory_symlink(toolkit, root / "kit");
  EXPECT_EQ(LoadedLibrary("libpacked.so.7", {packages}).Origin(),
            packages + "/libpacked.so.7.1 (of a Python package)");
  EXPECT_EQ(LoadedLibrary("libkit.so.7", {root / "kit"}).Origin(),
            toolkit + "/libkit.so.7 (of a CUDA toolkit)");
  EXPECT_EQ(OwnerOfLibrary("/usr/lib/x86_64-linux-gnu/libcudnn.so.9"), "of the system");
  EXPECT_EQ(OwnerOfLibrary("/usr/local/cuda/lib64/libcublas.so.13"), "of a CUDA toolkit");
}

TEST(CudaLibraryFiles, AreMissedInOneLineThatSaysWhatToDo) {
  const std::string line = ErrorOf([] { LoadedLibrary("libmissing.so.9", {"/nowhere"}); });
  EXPECT_CONTAINS(line, "GPUs cannot be used without libmissing.so.9: ");
  EXPECT_CONTAINS(line, "expected its folder in LD_LIBRARY_PATH");
}

}  // namespace
}  // namespace millrace::test
