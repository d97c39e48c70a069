// Unusable saved weights and states, and a full disk.
#include <sys/mount.h>

#include <cstring>
#include <filesystem>

#include "proto/parse.h"
#include "solver/snapshot.h"
#include "test/tools/tools_support.h"

namespace millrace::test {
namespace {

class BadSnapshot : public testing::Test {
 protected:
  BadSnapshot() {
    const CommandResult result =
        Millrace({"train", "--solver=" + work_.Write("good", Workspace::Solver(2))});
    EXPECT_EQ(result.status, 0) << result.errors;
    model_ = work_.Snapshot("good", 2) + ".caffemodel";
    state_ = work_.Snapshot("good", 2) + ".solverstate";
    solver_ = "--solver=" + work_.Write("run", Workspace::Solver(4));
  }
  void TearDown() override { EXPECT_TRUE(work_.FilesWith("run_iter").empty()); }

  CommandResult Resume(const std::string& state) {
    return Millrace({"train", solver_, "--snapshot=" + state});
  }
  CommandResult StartFrom(const std::string& model) {
    return Millrace({"train", solver_, "--weights=" + model});
  }
  CommandResult Score(const std::string& model) {
    return Millrace({"test", "--model=" + work_ / "net.prototxt", "--weights=" + model});
  }
  std::string Made(const std::string& name, const std::string& content) {
    WriteFile(work_ / name, content);
    return work_ / name;
  }

  Workspace work_;
  std::string model_, state_, solver_;
};

TEST_F(BadSnapshot, ModelsMissingEmptyTruncatedOrSomethingElse) {
  const std::string whole = ReadFile(model_);
  const std::string empty = Made("empty", ""), cut = Made("cut", whole.substr(0, 300)),
                    text = Made("text", "weights: 1\n");
  const auto start = [&](const std::string& model) { return StartFrom(model); };
  const auto score = [&](const std::string& model) { return Score(model); };
  for (const std::function<CommandResult(const std::string&)>& use :
       std::vector<std::function<CommandResult(const std::string&)>>{start, score}) {
    ExpectOneLine(use(work_ / "none"), {"none: No such file"});
    ExpectOneLine(use(work_.Snapshot("good", 9)), {"good_iter_9: No such file"});
    ExpectOneLine(use(empty), {"empty: is empty, expected a caffemodel"});
    ExpectOneLine(use(cut), {"cut: truncated or not a caffemodel"});
    ExpectOneLine(use(text), {"text: ", "caffemodel"});
    ExpectOneLine(use(state_), {"solverstate: ", "a caffemodel"});
    ExpectOneLine(use(work_ / "train_lmdb"), {"train_lmdb"});
    ExpectOneLine(use(Made("cut.h5", "\x89HDF\r\n\x1a\n")),
                  {"cut.h5: truncated or not an HDF5 file"});
  }
}

// Caffe takes them, too; a snapshot to resume from must have its weights.
TEST_F(BadSnapshot, ModelsWithoutLayersAreUsedWithAWarningButNotToResume) {
  caffe::NetParameter model;
  model.set_name("none");
  const std::string layerless = Made("layerless", model.SerializeAsString());
  const CommandResult scored = Score(layerless);
  EXPECT_EQ(scored.status, 0) << scored.errors;
  EXPECT_CONTAINS(scored.errors, "layerless: no layer with weights has the name of one in net");
  caffe::SolverState state;
  state.set_iter(4);
  state.set_learned_net(layerless);
  ExpectOneLine(Resume(Made("state", state.SerializeAsString())),
                {"layerless: holds no layers, expected a caffemodel"});
}

TEST_F(BadSnapshot, ModelsOfAnotherShapeNameTheLayer) {
  SmallNet net = work_.Net();
  net.classes = 7;
  work_.WriteNet(net);
  const std::vector<std::string> parts = {
      model_, "layer 'scores' blob 0: stored with shape 4 16 (64), expected 7 16 (112)"};
  ExpectOneLine(StartFrom(model_), parts);
  ExpectOneLine(Score(model_), parts);
  ExpectOneLine(Resume(state_), parts);
}

TEST_F(BadSnapshot, StatesMissingEmptyTruncatedOrSomethingElse) {
  const std::string whole = ReadFile(state_);
  ExpectOneLine(Resume(work_ / "none"), {"none: No such file"});
  ExpectOneLine(Resume(Made("empty", "")), {"empty: is empty, expected a solverstate"});
  ExpectOneLine(Resume(Made("cut", whole.substr(0, whole.size() / 2))),
                {"cut: truncated or not a solverstate"});
  ExpectOneLine(Resume(Made("text", "iter: 1\n")), {"text: ", "solverstate"});
  ExpectOneLine(Resume(model_), {"caffemodel: ", "a solverstate"});
}

TEST_F(BadSnapshot, AStateWhoseModelIsGoneOrWhoseHistoryDoesNotFit) {
  caffe::SolverState state = LoadResumePoint(state_).state;
  state.mutable_history()->RemoveLast();
  SaveBinary(work_ / "short", state);
  ExpectOneLine(Resume(work_ / "short"), {"short: holds the history of 3 blobs, expected 4"});
  std::filesystem::remove(model_);
  ExpectOneLine(Resume(state_), {state_, "learned_net", model_});
  state.set_learned_net("a\nb\033[2J");
  SaveBinary(work_ / "control", state);
  ExpectOneLine(Resume(work_ / "control"), {"learned_net: there is neither a?b?[2J nor "});
}

TEST_F(BadSnapshot, WeightsTogetherWithASnapshotAreRefused) {
  ExpectOneLine(Millrace({"train", solver_, "--snapshot=" + state_, "--weights=" + model_}),
                {"--weights and --snapshot"});
}

TEST_F(BadSnapshot, AFolderThatCannotBeWrittenToIsSaidBeforeTraining) {
  caffe::SolverParameter solver = Workspace::Solver(4);
  WriteFile(work_ / "file", "");
  solver.set_snapshot_prefix(work_ / "file/run");
  const CommandResult result = Millrace({"train", "--solver=" + work_.Write("bad", solver)});
  ExpectOneLine(result, {"bad.prototxt:", "snapshot_prefix", "file"});
  EXPECT_EQ(result.errors.find("Iteration 0"), std::string::npos);
  ExpectOneLine(Millrace({"train", solver_, "--metrics=" + work_ / "none/run.jsonl"}),
                {"none/run.jsonl"});
}

TEST_F(BadSnapshot, WhatAKilledRunLeftHalfWrittenIsRemovedByTheNext) {
  for (const char* name :
       {"late_iter_6.caffemodel", "late_iter_9.solverstate", "other_iter_6.caffemodel"}) {
    LeaveTemporary(work_ / name);
  }
  AtomicFile living(work_ / "late_iter_3.caffemodel");
  living.Write("half");
  caffe::SolverParameter solver = Workspace::Solver(2);
  solver.set_snapshot_prefix(work_ / "late");
  const CommandResult result = Millrace({"train", "--solver=" + work_.Write("next", solver)});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "Removed 2 temporary files of " + work_ / "late");
  for (const char* name : {"late_iter_6", "late_iter_9"})
    EXPECT_EQ(work_.FilesWith(name).size(), 0u);
  for (const char* name : {"late_iter_3", "other_iter_6"})
    EXPECT_EQ(work_.FilesWith(name).size(), 1u);
  living.Commit();
}

// A file system of a given size, if this user may mount one.
class SmallDisk {
 public:
  explicit SmallDisk(const char* size) {
    const std::string options = std::string("size=") + size;
    mounted_ = mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
    if (!mounted_) reason_ = strerror(errno);
  }
  ~SmallDisk() {
    if (mounted_) umount(folder_.path().c_str());
  }
  bool mounted() const { return mounted_; }
  const std::string& reason() const { return reason_; }
  std::string operator/(const std::string& name) const { return folder_ / name; }

 private:
  TempDir folder_;
  bool mounted_;
  std::string reason_;
};

TEST_F(BadSnapshot, AFullDiskIsWarnedOfAndEndsTheRunOnlyAtItsEnd) {
  SmallDisk disk("32k");  // a snapshot is two files of about 6 KB: 16 KB in pages
  if (!disk.mounted()) GTEST_SKIP() << "a small tmpfs cannot be mounted: " << disk.reason();
  caffe::SolverParameter solver = Workspace::Solver(30);
  solver.set_snapshot(3);
  solver.set_snapshot_prefix(disk / "full");
  const CommandResult result = Millrace({"train", "--solver=" + work_.Write("full", solver)});
  ExpectOneLine(result, {disk / "full_iter_30.", "cannot be written: No space left on device"});
  EXPECT_CONTAINS(result.errors, "The snapshot of iteration 27 was not written: " +
                                     disk /
                                         "full_iter_27.caffemodel: cannot be written: "
                                         "No space left on device");
  // The files on the disk are complete, and a run can resume from them elsewhere.
  int states = 0;
  for (const auto& entry : std::filesystem::directory_iterator(disk / "")) {
    const std::string path = entry.path().string();
    EXPECT_EQ(path.find(".tmp"), std::string::npos) << path;
    if (path.ends_with(".caffemodel")) {
      EXPECT_EQ(LoadModel(path).layer_size(), 5) << path;
    } else {
      ++states;
      EXPECT_GT(LoadResumePoint(path).iteration(), 0) << path;
    }
  }
  EXPECT_GE(states, 1);
  caffe::SolverParameter next = Workspace::Solver(6);
  EXPECT_EQ(Millrace({"train", "--solver=" + work_.Write("next", next),
                      "--snapshot=" + disk / "full_iter_3.solverstate"})
                .status,
            0);
}

}  // namespace
}  // namespace millrace::test
