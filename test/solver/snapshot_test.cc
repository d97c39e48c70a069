#include "solver/snapshot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files/file.h"
#include "base/rng.h"
#include "nn/net.h"
#include "proto/parse.h"
#include "solver/update_rule.h"
#include "test/support/support.h"

namespace millrace {
namespace {

caffe::BlobProto BlobOf(const Shape& shape, const std::vector<float>& values) {
  caffe::BlobProto blob;
  for (int64_t dim : shape) blob.mutable_shape()->add_dim(dim);
  blob.mutable_data()->Add(values.begin(), values.end());
  return blob;
}

std::shared_ptr<const History> HistoryOf(const std::vector<float>& values) {
  auto history = std::make_shared<History>();
  *history->Add() = BlobOf({static_cast<int64_t>(values.size())}, values);
  return history;
}

Snapshot TwoSolvers() {
  Snapshot snapshot;
  snapshot.iteration = 500;
  snapshot.current_step = 2;
  snapshot.seed = 42;
  caffe::LayerParameter* layer = snapshot.model.add_layer();
  layer->set_name("ip");
  *layer->add_blobs() = BlobOf({2}, {1, 2});
  snapshot.histories = {HistoryOf({1, 2, 3}), HistoryOf({4, 5, 6})};
  caffe::StreamPosition position;
  position.set_layer("data");
  position.set_next_batch(77);
  position.add_outstanding(76);
  snapshot.streams = {position};
  return snapshot;
}

std::unique_ptr<UpdateRule> RuleOf(int64_t count) {
  caffe::SolverParameter param;
  param.set_momentum(0.9f);
  return UpdateRuleRegistry::Get().Create(param, {{"ip/0", {count}, 0, count, 1, 1}}, count);
}

std::vector<std::string> Names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// During its lifetime, files cannot grow beyond `bytes`: writes fail as on a full disk. Needs no
// privilege.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    old_handler_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    rlimit limit = old_limit_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_limit_;
  sighandler_t old_handler_;
};

TEST(Snapshot, IsNamedAsCaffeNamesIt) {
  const SnapshotPaths paths = SnapshotPathsOf("out/lenet", 5000);
  EXPECT_EQ(paths.model, "out/lenet_iter_5000.caffemodel");
  EXPECT_EQ(paths.state, "out/lenet_iter_5000.solverstate");
}

TEST(Snapshot, ComesBackAsItWasWritten) {
  test::TempDir folder;
  const SnapshotPaths paths = WriteSnapshot(folder / "run", TwoSolvers());
  EXPECT_EQ(Names(folder.path()),
            (std::vector<std::string>{"run_iter_500.caffemodel", "run_iter_500.solverstate"}));

  const caffe::NetParameter model = LoadModel(paths.model);
  EXPECT_EQ(model.layer(0).blobs(0).data(1), 2);
  const ResumePoint point = LoadResumePoint(paths.state);
  EXPECT_EQ(point.iteration(), 500);
  EXPECT_EQ(point.model_path, paths.model);
  EXPECT_EQ(point.state.current_step(), 2);
  EXPECT_EQ(point.state.seed(), 42u);
  ASSERT_EQ(point.solvers(), 2);
  EXPECT_EQ((*point.HistoryOf(0))[0].data(2), 3);
  EXPECT_EQ((*point.HistoryOf(1))[0].data(2), 6);
  EXPECT_EQ(point.HistoryOf(2), nullptr);
  ASSERT_EQ(point.state.stream_size(), 1);
  EXPECT_EQ(point.state.stream(0).next_batch(), 77u);
  EXPECT_EQ(point.state.stream(0).outstanding(0), 76u);
}

TEST(Snapshot, OfAPrefixLeavesFilesOfKilledProcessesThatTheNextStartRemoves) {
  test::TempDir folder;
  const std::string ending = ".00000000000000ff.1.1.tmp";
  const std::vector<std::string> stale = {"run_iter_5.caffemodel", "run_iter_15.solverstate",
                                          "run_iter_15.b.solverstate"};
  const std::vector<std::string> others = {"run_iter_5_iter_7.caffemodel", "run_iter_.caffemodel",
                                           "run_iter_5.lmdb", "runs_iter_5.caffemodel",
                                           "my.run_iter_5.caffemodel"};
  for (const auto& names : {stale, others}) {
    for (const std::string& name : names) {
      test::WriteFile(folder / (name + ending), "half");
      const timespec times[2] = {};  // long ago
      ASSERT_EQ(utimensat(AT_FDCWD, (folder / (name + ending)).c_str(), times, 0), 0);
    }
  }
  EXPECT_EQ(RemoveStaleSnapshotFiles(folder / "run"), 3);
  EXPECT_EQ(Names(folder.path()).size(), others.size());
  EXPECT_EQ(RemoveStaleSnapshotFiles(folder / "none/run"), 0);
}

TEST(Snapshot, OfANodeIsAStateThatNamesTheModelOfAnother) {
  EXPECT_EQ(NodeStatePath("out/net_iter_5.solverstate", "b"), "out/net_iter_5.b.solverstate");
  test::TempDir folder;
  const Snapshot snapshot = TwoSolvers();
  const std::string path = WriteNodeState(folder / "net", "b", snapshot);
  EXPECT_EQ(path, folder / "net_iter_500.b.solverstate");
  EXPECT_EQ(Names(folder / ""), std::vector<std::string>{"net_iter_500.b.solverstate"});
  WriteSnapshot(folder / "net", snapshot);
  const ResumePoint own = LoadResumePoint(path);
  EXPECT_EQ(own.model_path, folder / "net_iter_500.caffemodel");
  EXPECT_EQ(own.state.SerializeAsString(),
            LoadResumePoint(folder / "net_iter_500.solverstate").state.SerializeAsString());
}

// Expected bytes are calculated by hand from the field numbers: tag = number * 8 + wire type.
TEST(Snapshot, WritesASolverstateByteForByteAsTheFormatSays) {
  test::TempDir folder;
  Snapshot snapshot = TwoSolvers();
  snapshot.histories = {HistoryOf({1.0f, -2.0f}), HistoryOf({0.5f})};
  snapshot.streams.clear();
  const std::string prefix = folder / "r";
  const SnapshotPaths paths = WriteSnapshot(prefix, snapshot);
  using namespace std::string_literals;
  const std::string expected =
      "\x08\xf4\x03"s                                     // iter: 500
      + "\x12" + static_cast<char>(paths.model.size()) +  // learned_net
      paths.model +                                       //
      "\x1a\x0f"                                          // history, 15 bytes
      "\x2a\x08\x00\x00\x80\x3f\x00\x00\x00\xc0"s         //   data: 1, -2, little-endian
      "\x3a\x03\x0a\x01\x02"                              //   shape { dim: 2 }
      "\x20\x02"                                          // current_step: 2
      "\x82\xf1\x04\x0d"                                  // solver_history (10000), 13 bytes
      "\x0a\x0b\x2a\x04\x00\x00\x00\x3f\x3a\x03\x0a\x01\x01"s
      "\x90\xf1\x04\x2a";  // seed (10002): 42
  EXPECT_EQ(ReadFile(paths.state), expected);
}

TEST(Snapshot, WritesACaffemodelByteForByteAsTheFormatSays) {
  test::TempDir folder;
  Snapshot snapshot;
  snapshot.model.set_name("n");
  caffe::LayerParameter* layer = snapshot.model.add_layer();
  layer->set_name("a");
  layer->set_type("B");
  *layer->add_blobs() = BlobOf({1}, {1});
  using namespace std::string_literals;
  EXPECT_EQ(ReadFile(WriteSnapshot(folder / "r", snapshot).model),
            "\x0a\x01n"     // name
            "\xa2\x06\x13"  // layer (100), 19 bytes
            "\x0a\x01"
            "a"  //   name
            "\x12\x01"
            "B"                          //   type
            "\x3a\x0b"                   //   blobs, 11 bytes
            "\x2a\x04\x00\x00\x80\x3f"s  //     data: 1
            "\x3a\x03\x0a\x01\x01");     //     shape { dim: 1 }
}

TEST(Snapshot, ReadsASolverstateOfPlainCaffe) {
  test::TempDir folder;
  test::WriteFile(folder / "x.caffemodel", "model");
  using namespace std::string_literals;
  test::WriteFile(folder / "x.solverstate",
                  "\x08\xe8\x07\x12\x0cx.caffemodel\x1a\x0b\x2a\x04\x00\x00\x80\x3f\x3a\x03"s +
                      "\x0a\x01\x01\x20\x03");
  const ResumePoint point = LoadResumePoint(folder / "x.solverstate");
  EXPECT_EQ(point.iteration(), 1000);
  EXPECT_EQ(point.solvers(), 1);
  const auto rule = RuleOf(1);
  EXPECT_TRUE(RestoreHistory(point, 0, rule.get()));
  History history;
  rule->ExportHistory(&history);
  EXPECT_EQ(history[0].data(0), 1);
  const auto second = RuleOf(1);
  EXPECT_FALSE(RestoreHistory(point, 1, second.get()));
  EXPECT_EQ(ResumeNotice(point, 1), "");
  EXPECT_EQ(ResumeNotice(point, 2),
            (folder / "x.solverstate") +
                " holds the history of 1 solver, resuming with 2, 1 of them from zero history");
}

TEST(Snapshot, SaysWhatBecomesOfHistoriesWhenTheNumberOfSolversChanges) {
  test::TempDir folder;
  const ResumePoint point = LoadResumePoint(WriteSnapshot(folder / "run", TwoSolvers()).state);
  EXPECT_EQ(ResumeNotice(point, 2), "");
  EXPECT_EQ(ResumeNotice(point, 1),
            point.path +
                " holds the history of 2 solvers, resuming with 1; 1 of the stored ones not used");
  EXPECT_EQ(
      ResumeNotice(point, 5),
      point.path + " holds the history of 2 solvers, resuming with 5, 3 of them from zero history");
}

TEST(Snapshot, KeepsThePlaceOfASolverWhoseHistoryIsNotKnown) {
  test::TempDir folder;
  Snapshot snapshot = TwoSolvers();
  snapshot.histories = {nullptr, HistoryOf({1}), nullptr, HistoryOf({3})};
  const ResumePoint point = LoadResumePoint(WriteSnapshot(folder / "run", snapshot).state);
  EXPECT_EQ(point.HistoryOf(0), nullptr);
  EXPECT_EQ((*point.HistoryOf(1))[0].data(0), 1);
  EXPECT_EQ(point.HistoryOf(2), nullptr);
  EXPECT_EQ((*point.HistoryOf(3))[0].data(0), 3);
  EXPECT_CONTAINS(ResumeNotice(point, 4), "2 solvers, resuming with 4, 2 of them from zero");
}

TEST(Snapshot, LeavesOutTheHistoriesThatNoLongerFitTheFile) {
  test::TempDir folder;
  Snapshot snapshot = TwoSolvers();
  snapshot.histories = {HistoryOf({1}), HistoryOf(std::vector<float>(1000)), HistoryOf({3})};
  const SnapshotPaths paths = WriteSnapshot(folder / "run", snapshot, 2000);
  EXPECT_LE(std::filesystem::file_size(paths.state), 2000u);
  const ResumePoint point = LoadResumePoint(paths.state);
  EXPECT_EQ((*point.HistoryOf(0))[0].data(0), 1);
  EXPECT_EQ(point.HistoryOf(1), nullptr);
  EXPECT_EQ((*point.HistoryOf(2))[0].data(0), 3);
}

TEST(Snapshot, NamesSolverAndParameterOfAHistoryThatDoesNotFit) {
  test::TempDir folder;
  const ResumePoint point = LoadResumePoint(WriteSnapshot(folder / "run", TwoSolvers()).state);
  const auto rule = RuleOf(4);
  EXPECT_EQ(test::ErrorOf([&] { RestoreHistory(point, 0, rule.get()); }),
            point.path + ": history of 'ip/0': stored with shape 3 (3), expected 4 (4)");
  EXPECT_EQ(test::ErrorOf([&] { RestoreHistory(point, 1, rule.get()); }),
            point.path + ": solver 1: history of 'ip/0': stored with shape 3 (3), expected 4 (4)");
}

TEST(Snapshot, FindsTheModelBesideAStateThatWasMoved) {
  test::TempDir folder;
  std::filesystem::create_directory(folder / "old");
  WriteSnapshot(folder / "old/run", TwoSolvers());
  std::filesystem::rename(folder / "old", folder / "new");
  const std::string state = folder / "new/run_iter_500.solverstate";
  EXPECT_EQ(LoadResumePoint(state).model_path, folder / "new/run_iter_500.caffemodel");

  std::filesystem::remove(folder / "new/run_iter_500.caffemodel");
  EXPECT_EQ(test::ErrorOf([&] { LoadResumePoint(state); }),
            state + ": learned_net: there is neither " + (folder / "old/run_iter_500.caffemodel") +
                " nor " + (folder / "new/run_iter_500.caffemodel"));
}

TEST(Snapshot, RefusesFilesThatAreNoSnapshotWithOneLine) {
  test::TempDir folder;
  const SnapshotPaths paths = WriteSnapshot(folder / "run", TwoSolvers());
  const std::string state = ReadFile(paths.state), model = ReadFile(paths.model);
  test::WriteFile(folder / "empty", "");
  test::WriteFile(folder / "short.caffemodel", model.substr(0, model.size() - 3));
  test::WriteFile(folder / "short.solverstate", state.substr(0, state.size() - 3));
  test::WriteFile(folder / "text", "net: \"lenet.prototxt\"\n");
  const std::string bad_models[] = {
      folder / "gone", folder.path(), folder / "empty",          folder / "short.caffemodel",
      folder / "text", paths.state,   folder / "x.caffemodel.h5"};
  for (const std::string& path : bad_models) {
    const std::string error = test::ErrorOf([&] { LoadModel(path); });
    EXPECT_EQ(error.rfind(path + ": ", 0), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  const std::string bad_states[] = {
      folder / "gone", folder.path(), folder / "empty",           folder / "short.solverstate",
      folder / "text", paths.model,   folder / "x.solverstate.h5"};
  for (const std::string& path : bad_states) {
    const std::string error = test::ErrorOf([&] { LoadResumePoint(path); });
    EXPECT_EQ(error.rfind(path + ": ", 0), 0u) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(Snapshot, RefusesEveryTruncationOfAState) {
  test::TempDir folder;
  const std::string state = ReadFile(WriteSnapshot(folder / "run", TwoSolvers()).state);
  const std::string cut = folder / "cut.solverstate";
  // A file truncated between two fields is a shorter but well-formed message. It may be accepted,
  // but never with part of a field.
  for (size_t size = 0; size < state.size(); ++size) {
    test::WriteFile(cut, state.substr(0, size));
    try {
      const ResumePoint point = LoadResumePoint(cut);
      EXPECT_EQ(point.iteration(), 500);
      const History* history = point.HistoryOf(0);
      if (history) {
        EXPECT_EQ((*history)[0].data_size(), 3);
      }
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind(cut, 0), 0u) << error.what();
    }
  }
}

// The snapshot of two solvers with the state of a rule.
Snapshot WithRule(Snapshot snapshot) {
  snapshot.run.set_rule("allreduce outer");
  snapshot.run.set_solvers(2);
  snapshot.run.set_weights(3);
  AddNumbers("totals", std::vector<double>{1.5, -2}, &snapshot.run);
  for (const float first : {1.0f, 7.0f}) {
    SolverPart part;
    AddArray("velocity", std::vector<float>{first, 0.1f, 1e-38f}, &part);
    AddArray("empty", {}, &part);
    part.add_stream()->set_layer("data");
    snapshot.parts.push_back(std::make_shared<const SolverPart>(std::move(part)));
  }
  return snapshot;
}

TEST(Snapshot, HoldsTheStateOfAMergeRuleInBothFormats) {
  for (const auto format : {caffe::SolverParameter::BINARYPROTO, caffe::SolverParameter::HDF5}) {
    test::TempDir folder;
    Snapshot snapshot = WithRule(TwoSolvers());
    snapshot.format = format;
    const ResumePoint point = LoadResumePoint(WriteSnapshot(folder / "run", snapshot).state);
    ASSERT_TRUE(point.run);
    RunState expected = snapshot.run;
    for (const auto& part : snapshot.parts) *expected.add_solver() = *part;
    EXPECT_EQ(point.run->SerializeAsString(), expected.SerializeAsString());
    EXPECT_EQ(point.state.solver_history_size(), 1);
    EXPECT_EQ(point.merge_state().OfSolver(1).Array("velocity", 3)[0], 7);
    EXPECT_EQ(test::ErrorOf([&] { point.merge_state().OfSolver(1).Array("velocity", 4); }),
              point.path + ": run_state.solver[1].velocity: 3 floats stored, expected 4");
    EXPECT_EQ(test::ErrorOf([&] { point.merge_state().Shared().Counts("totals", 2); }),
              point.path + ": run_state.totals: 1.5 stored, expected a whole number >= 0");
  }
}

TEST(Snapshot, HoldsNoStateOfAMergeRuleWithoutThePartOfEachSolver) {
  test::TempDir folder;
  Snapshot snapshot = WithRule(TwoSolvers());
  snapshot.parts[1] = nullptr;
  EXPECT_FALSE(LoadResumePoint(WriteSnapshot(folder / "run", snapshot).state).run);
  snapshot.parts.clear();
  EXPECT_FALSE(LoadResumePoint(WriteSnapshot(folder / "run", snapshot).state).run);
}

TEST(Snapshot, LeavesOutTheStateOfAMergeRuleThatDoesNotFit) {
  test::TempDir folder;
  const Snapshot snapshot = WithRule(TwoSolvers());
  const ResumePoint point = LoadResumePoint(WriteSnapshot(folder / "run", snapshot, 120).state);
  EXPECT_FALSE(point.run);
  EXPECT_EQ(point.iteration(), 500);
}

TEST(Snapshot, LeavesNothingBehindWhenTheDiskIsFull) {
  test::TempDir folder;
  Snapshot snapshot = TwoSolvers();
  *snapshot.model.mutable_layer(0)->mutable_blobs(0) = BlobOf({8000}, std::vector<float>(8000));
  std::string error;
  {
    FullDisk full(16384);
    error = test::ErrorOf([&] { WriteSnapshot(folder / "run", snapshot); });
  }
  EXPECT_EQ(error.rfind((folder / "run_iter_500.caffemodel") + ": cannot be written: ", 0), 0u)
      << error;
  EXPECT_EQ(Names(folder.path()), std::vector<std::string>());
}

TEST(Snapshot, KeepsTheWholeModelWhenOnlyTheStateFindsTheDiskFull) {
  test::TempDir folder;
  Snapshot snapshot = TwoSolvers();
  snapshot.histories[0] = HistoryOf(std::vector<float>(8000));
  {
    FullDisk full(16384);
    EXPECT_CONTAINS(test::ErrorOf([&] { WriteSnapshot(folder / "run", snapshot); }),
                    "run_iter_500.solverstate: cannot be written: ");
  }
  EXPECT_EQ(Names(folder.path()), std::vector<std::string>{"run_iter_500.caffemodel"});
  EXPECT_EQ(LoadModel(folder / "run_iter_500.caffemodel").layer(0).name(), "ip");
}

TEST(Snapshot, KeepsAnEarlierSnapshotOfThatNameWhenTheDiskIsFull) {
  test::TempDir folder;
  const SnapshotPaths paths = WriteSnapshot(folder / "run", TwoSolvers());
  const std::string state = ReadFile(paths.state), model = ReadFile(paths.model);
  Snapshot larger = TwoSolvers();
  *larger.model.mutable_layer(0)->mutable_blobs(0) = BlobOf({8000}, std::vector<float>(8000));
  {
    FullDisk full(16384);
    test::ErrorOf([&] { WriteSnapshot(folder / "run", larger); });
  }
  EXPECT_EQ(ReadFile(paths.state), state);
  EXPECT_EQ(ReadFile(paths.model), model);
}

TEST(Snapshot, RefusesAnIterationThatTheFormatCannotHold) {
  test::TempDir folder;
  Snapshot snapshot = TwoSolvers();
  snapshot.iteration = int64_t{1} << 31;
  EXPECT_CONTAINS(test::ErrorOf([&] { WriteSnapshot(folder / "run", snapshot); }),
                  "iteration 2147483648 does not fit");
  EXPECT_EQ(Names(folder.path()), std::vector<std::string>());
}

// A net of two inner products, 3 -> 2 -> 1, with the given weights.
class SmallNet {
 public:
  explicit SmallNet(uint64_t seed = 1) {
    caffe::NetParameter param;
    SourceMap source;
    ParseText(
        "name: 'small' layer { name: 'in' type: 'Input' top: 'in' "
        "  input_param { shape { dim: 1 dim: 3 } } } "
        "layer { name: 'ip1' type: 'InnerProduct' bottom: 'in' top: 'ip1' "
        "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } } "
        "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' "
        "  param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 } "
        "  inner_product_param { num_output: 1 weight_filler { type: 'xavier' } } }",
        "small.prototxt", &param, &source);
    BuiltNetOptions options;
    options.seed = seed;
    net_ = std::make_unique<BuiltNet>(param, source, options);
    weights_.resize(net_->layout().size());
    net_->BindWeights(weights_.data());
    net_->FillWeights();
  }
  BuiltNet& net() { return *net_; }
  const std::vector<float>& weights() const { return weights_; }

 private:
  std::vector<float> weights_;
  std::unique_ptr<BuiltNet> net_;
};

TEST(Weights, OfANetComeBackFromItsSnapshot) {
  test::TempDir folder;
  SmallNet saved(1), loaded(2);
  ASSERT_NE(saved.weights(), loaded.weights());
  Snapshot snapshot;
  saved.net().ToProto(&snapshot.model, false);
  LoadWeights(WriteSnapshot(folder / "run", snapshot).model, &loaded.net());
  EXPECT_EQ(saved.weights(), loaded.weights());
}

TEST(Weights, OfAListAreLoadedInItsOrder) {
  test::TempDir folder;
  caffe::NetParameter first, second;
  first.add_layer()->set_name("ip1");
  *first.mutable_layer(0)->add_blobs() = BlobOf({2, 3}, {1, 1, 1, 1, 1, 1});
  *first.mutable_layer(0)->add_blobs() = BlobOf({2}, {1, 1});
  first.add_layer()->set_name("ip2");
  *first.mutable_layer(1)->add_blobs() = BlobOf({1, 2}, {1, 1});
  *first.mutable_layer(1)->add_blobs() = BlobOf({1}, {1});
  second = first;
  second.mutable_layer()->RemoveLast();
  second.mutable_layer(0)->mutable_blobs(1)->set_data(0, 5);
  SaveBinary(folder / "a", first);
  SaveBinary(folder / "b", second);
  SmallNet small;
  LoadWeights((folder / "a") + "," + (folder / "b"), &small.net());
  EXPECT_EQ(small.net().FindLayer("ip1")->params()[1].blob->data()[0], 5);
  EXPECT_EQ(small.net().FindLayer("ip2")->params()[1].blob->data()[0], 1);
}

TEST(Weights, OfTheFormatBefore2014AreLoaded) {
  test::TempDir folder;
  caffe::NetParameter old;
  caffe::V1LayerParameter* layer = old.add_layers();
  layer->set_name("ip1");
  caffe::BlobProto* weights = layer->add_blobs();
  weights->set_num(1), weights->set_channels(1), weights->set_height(2), weights->set_width(3);
  for (int i = 0; i < 6; ++i) weights->add_data(static_cast<float>(i));
  caffe::BlobProto* bias = layer->add_blobs();
  bias->set_num(1), bias->set_channels(1), bias->set_height(1), bias->set_width(2);
  bias->add_data(7), bias->add_data(8);
  SaveBinary(folder / "old.caffemodel", old);
  SmallNet small;
  LoadWeights(folder / "old.caffemodel", &small.net());
  EXPECT_EQ(small.net().FindLayer("ip1")->params()[0].blob->data()[5], 5);
  EXPECT_EQ(small.net().FindLayer("ip1")->params()[1].blob->data()[1], 8);
}

TEST(Weights, ThatDoNotFitAreRefusedWithFileAndLayer) {
  test::TempDir folder;
  caffe::NetParameter model;
  model.add_layer()->set_name("ip1");
  *model.mutable_layer(0)->add_blobs() = BlobOf({2, 4}, std::vector<float>(8));
  *model.mutable_layer(0)->add_blobs() = BlobOf({2}, {1, 1});
  SaveBinary(folder / "m", model);
  SmallNet small;
  EXPECT_CONTAINS(
      test::ErrorOf([&] { LoadWeights(folder / "m", &small.net()); }),
      (folder / "m") + ": layer 'ip1' blob 0: stored with shape 2 4 (8), expected 2 3 (6)");
  EXPECT_CONTAINS(test::ErrorOf([&] { LoadWeights((folder / "m") + ",", &small.net()); }), "m");
  EXPECT_CONTAINS(test::ErrorOf([&] { LoadWeights("", &small.net()); }), "names an empty path");
}

TEST(Weights, AndHistoryOfANetShareTheOrderOfItsParameters) {
  SmallNet small;
  const std::vector<UpdateParam> params = UpdateParamsOf(small.net());
  ASSERT_EQ(params.size(), 4u);
  EXPECT_EQ(params[0].shape, (Shape{2, 3}));
  EXPECT_EQ(params[1].shape, (Shape{2}));
  EXPECT_EQ(params[2].shape, (Shape{1, 2}));
  EXPECT_EQ(params[3].lr_mult, 2);
  EXPECT_EQ(params[3].decay_mult, 0);
  EXPECT_EQ(&small.weights()[params[3].offset],
            small.net().FindLayer("ip2")->params()[1].blob->data());
}

}  // namespace
}  // namespace millrace
