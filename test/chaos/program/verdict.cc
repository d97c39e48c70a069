// Conditions that must hold when a training run under faults has ended.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
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
  const std::string output =
      network_.Run(0, {options_.millrace, "test", "--model=test/chaos/fashion_net.prototxt",
                       "--weights=" + kept, "--iterations=100"});
  const size_t at = output.find("accuracy = ");
  if (at == std::string::npos) return Fail("no accuracy: " + output);
  result_.accuracy = std::atof(output.c_str() + at + 11);
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

// Only for processes that exited by themselves; killed processes cannot clean up.
void Training::JudgeRemains() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (ended_[i] && nodes_[i]->LeavesFiles()) {
      Fail(StrCat("node ", nodes_[i]->name(), " has left files in /dev/shm"));
    }
  }
}

}  // namespace millrace::test
