// Conditions that must hold when a training run under faults has ended.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/files/file.h"
#include "solver/snapshot.h"
#include "test/chaos/program/training.h"

namespace millrace::test {
namespace {

// Text that no log may contain.
constexpr const char* kBadLines[] = {"Check failed",     "AddressSanitizer",
                                     "ThreadSanitizer",  "LeakSanitizer",
                                     "runtime error:",   "*** SIG",
                                     "terminate called", "is not finite",
                                     "stack smashing",   "have this node's weights"};

std::string LineWith(const std::string& text, const std::string& part) {
  const size_t at = text.find(part);
  if (at == std::string::npos) return "";
  const size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

// Whether the model's weights equal the replica's; the replica stores the arrays in order.
bool Holds(const std::vector<float>& replica, const caffe::NetParameter& model) {
  auto from = replica.begin();
  size_t arrays = 0;
  for (const caffe::LayerParameter& layer : model.layer()) {
    for (const caffe::BlobProto& blob : layer.blobs()) {
      from = std::search(from, replica.end(), blob.data().begin(), blob.data().end());
      if (from == replica.end()) return false;
      from += blob.data_size();
      ++arrays;
    }
  }
  return arrays > 0;
}

// Whether the name contains the id of another process that runs: the file is in use by others.
bool IsOfAnotherProcess(const std::string& name) {
  for (size_t at = 0; (at = name.find_first_of("0123456789", at)) != std::string::npos;) {
    const size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
    const long pid = std::strtol(name.substr(at, end - at).c_str(), nullptr, 10);
    if (pid > 1 && pid != getpid() && kill(static_cast<pid_t>(pid), 0) == 0) return true;
    at = end;
  }
  return false;
}

}  // namespace

// All nodes must report the same count, and no iteration after the faults may be lost or counted
// twice: the nodes' own iterations since then must equal the advance of the run, except for
// iterations that were in flight at that moment.
void Training::JudgeCounts() {
  int64_t least = INT64_MAX, most = 0, done = 0, under_way = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const NodeView& view = nodes_[i]->view();
    least = std::min(least, view.global);
    most = std::max(most, view.global);
    done += view.own - (own_then_.empty() ? 0 : own_then_[i]);
    log_ << "node " << nodes_[i]->name() << " counts " << view.global << " iterations, " << view.own
         << " of its own" << std::endl;
  }
  result_.iterations = most;
  if (least != most) Fail(StrCat("some node counts ", least, " iterations, another ", most));
  // Each solver may have begun its last iterations before its node received the others' counts.
  if (least < options_.max_iter || most > options_.max_iter + UnderWay()) {
    Fail(StrCat("the nodes count ", least, " to ", most, " iterations of ", options_.max_iter));
  }
  if (own_then_.empty()) return;
  if (options_.fault_seconds == 0) {
    // Without faults the count is exact from the first iteration on.
    done = 0;
    for (const auto& node : nodes_) done += node->view().own;
    global_then_ = 0;
  } else {
    under_way = UnderWay();
  }
  const int64_t advanced = most - global_then_;
  log_ << "since iteration " << global_then_ << " the nodes have done " << done
       << " iterations, and the run has advanced by " << advanced << std::endl;
  if (std::abs(advanced - done) > under_way) {
    Fail(StrCat("since iteration ", global_then_, " the nodes have done ", done,
                " iterations, but count ", advanced));
  }
}

void Training::JudgeReplicas() {
  const std::vector<float> first = nodes_[0]->Replica();
  if (first.empty()) Fail("no replica of node a was to be seen");
  if (!std::all_of(first.begin(), first.end(), [](float w) { return std::isfinite(w); })) {
    Fail("a weight is not finite");
  }
  for (const auto& node : nodes_) {
    const std::vector<float> replica = node->Replica();
    size_t differ = 0;
    double most = 0;
    for (size_t i = 0; i < std::min(replica.size(), first.size()); ++i) {
      differ += replica[i] != first[i];
      most = std::max(most, std::fabs(static_cast<double>(replica[i]) - first[i]));
    }
    if (replica.size() != first.size() || differ != 0) {
      Fail(StrCat("the replicas of a and ", node->name(), " differ in ", differ, " of ",
                  first.size(), " weights, by up to ", most));
    }
  }
}

std::vector<std::string> Training::FinalModels() const {
  std::vector<std::string> models;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const SnapshotPaths paths = SnapshotPathsOf(SnapshotFolder(i) + "/run", options_.max_iter);
    if (FileExists(paths.model)) models.push_back(paths.model);
  }
  return models;
}

// Fails unless the model is complete, of the net that is trained, and finite.
void Training::CheckWeights(const std::string& model) {
  try {
    size_t weights = 0;
    bool finite = true;
    const caffe::NetParameter net = LoadModel(model);
    for (const caffe::LayerParameter& layer : net.layer()) {
      for (const caffe::BlobProto& blob : layer.blobs()) {
        weights += static_cast<size_t>(blob.data_size());
        finite &= std::all_of(blob.data().begin(), blob.data().end(),
                              [](float w) { return std::isfinite(w); });
      }
    }
    if (!finite) Fail(model + ": a weight is not finite");
    if (model_weights_ == 0) model_weights_ = weights;
    if (weights == 0 || weights != model_weights_)
      Fail(StrCat(model, ": has ", weights, " weights, expected ", model_weights_));
    ++result_.models_checked;
  } catch (const Error& error) {
    Fail(error.what());
  }
}

double Training::AccuracyOf(const std::string& model, int batches) {
  const std::string output =
      network_.Run(0, {options_.millrace, "test", "--model=test/chaos/fashion_net.prototxt",
                       "--weights=" + model, StrCat("--iterations=", batches)});
  const size_t at = output.find("accuracy = ");
  if (at == std::string::npos) Fail("no accuracy: " + output);
  return at == std::string::npos ? 0 : std::atof(output.c_str() + at + 11);
}

// The snapshots that PruneSnapshots has kept. What is saved while others are cut off has the
// progress of a part of the nodes, so far less accuracy is expected than of the final model.
void Training::JudgeIntermediateModels() {
  constexpr double kMinAccuracy = 0.3;  // chance is 0.1
  for (size_t i = 0; i < nodes_.size(); ++i) {
    for (const auto& file : std::filesystem::directory_iterator(SnapshotFolder(i))) {
      const std::string path = file.path();
      const size_t at = path.find("_iter_");
      if (at == std::string::npos || !path.ends_with(".caffemodel")) continue;
      CheckWeights(path);
      if (std::atoll(path.c_str() + at + 6) < options_.max_iter / 2) continue;
      const double accuracy = AccuracyOf(path, 20);
      if (accuracy < kMinAccuracy)
        Fail(StrCat(path, ": its accuracy is ", accuracy, ", expected ", kMinAccuracy));
    }
  }
}

void Training::JudgeModel() {
  const std::vector<std::string> models = FinalModels();
  if (models.size() != 1) return Fail(StrCat(models.size(), " nodes have saved the final model"));
  const std::string kept = options_.folder + "/final.caffemodel";
  std::filesystem::copy_file(models[0], kept);
  if (!Holds(nodes_[0]->Replica(), LoadModel(models[0]))) {
    Fail("the saved model is not what the nodes hold");
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const SnapshotPaths paths = SnapshotPathsOf(SnapshotFolder(i) + "/run", options_.max_iter);
    caffe::SolverState part;
    const std::string path = NodeStatePath(paths.state, nodes_[i]->name());
    if (!FileExists(path) || !part.ParseFromString(ReadFile(path)) ||
        part.iter() != options_.max_iter) {
      Fail(StrCat(path, ": expected node ", nodes_[i]->name(), "'s part at iteration ",
                  options_.max_iter));
    }
  }
  result_.accuracy = AccuracyOf(kept, 100);
  if (result_.accuracy < options_.least_accuracy) {
    Fail(StrCat("the model's accuracy is ", result_.accuracy, ", expected ",
                options_.least_accuracy, " or more"));
  }
}

void Training::JudgeLogs() {
  for (const auto& node : nodes_) {
    if (!FileExists(node->log_path())) continue;
    const std::string text = ReadFile(node->log_path());
    for (const char* bad : kBadLines) {
      const std::string line = LineWith(text, bad);
      if (!line.empty()) Fail(StrCat(node->name(), ".log: ", line));
    }
    if (!node->growth().empty()) Fail(node->growth());
  }
}

std::set<std::string> Training::SharedFiles() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = file.path().filename();
    if (name.starts_with("millrace")) names.insert(name);
  }
  return names;
}

// Only for processes that exited by themselves; killed processes cannot clean up, and what they
// left is removed when they are started again.
void Training::JudgeRemains() {
  if (std::all_of(ended_.begin(), ended_.end(), [](bool ended) { return ended; })) {
    for (const std::string& name : SharedFiles()) {
      if (!shared_before_.contains(name) && !IsOfAnotherProcess(name))
        Fail(StrCat("/dev/shm/", name, " is left"));
    }
    return;
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (ended_[i] && nodes_[i]->LeavesFiles()) {
      Fail(StrCat("node ", nodes_[i]->name(), " has left files in /dev/shm"));
    }
  }
}

}  // namespace millrace::test
