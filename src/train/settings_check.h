// Compares the solver and the training net of this node with those of the other nodes of its
// cluster. Each node publishes its settings; a difference that changes what the common weights
// become is a warning on every node that sees it.
#ifndef MILLRACE_TRAIN_SETTINGS_CHECK_H_
#define MILLRACE_TRAIN_SETTINGS_CHECK_H_

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cluster/cluster_peers.h"
#include "millrace/node_id.h"
#include "nn/net_param.h"
#include "proto/caffe.pb.h"
#include "proto/gossip.pb.h"

namespace millrace::inline train {

// A field of the solver or of the layers: the numbers of the fields that lead to it.
struct SettingField {
  bool net = false;
  std::vector<uint32_t> numbers;
  auto operator<=>(const SettingField&) const = default;
};

// The fields that are set to other values than their defaults, as text. The values of a field of
// several layers are separated by commas. Fields that nodes may set as they like are left out:
// files, intervals of displays, tests and snapshots, the random seed, the device.
using Settings = std::map<SettingField, std::string>;
Settings SettingsOf(const caffe::SolverParameter& solver, const std::vector<PlacedLayer>& layers);

// For a gossip message. Long values are cut so that it fits.
NodeSettings EncodeSettings(const Settings& settings);

struct SettingDifference {
  std::string field;         // "base_lr", "transform_param.scale"
  std::string theirs, here;  // cut
  // Expected between nodes of unequal speed: the batch size, the strategy, stop conditions.
  bool harmless = false;
};
// How the settings of another node differ from `own`. `theirs` may have any content.
std::vector<SettingDifference> CompareSettings(const Settings& own, const NodeSettings& theirs);

// Not thread-safe.
class SettingsCheck {
 public:
  // Maximum number of fields in one line.
  static constexpr size_t kMaxFields = 6;

  // Publishes `own`. `names`: of the cluster's nodes, by id. `peers` outlives this object.
  SettingsCheck(ClusterPeers* peers, std::vector<std::string> names, Settings own);

  struct Line {
    bool warning;
    std::string text;
  };
  // Differences that were not reported before. Equal differences of several nodes are reported of
  // one of them.
  std::vector<Line> TakeNew();

 private:
  void AddLine(bool warning, const std::string& node,
               const std::vector<SettingDifference>& differences, std::vector<Line>* lines);

  ClusterPeers& peers_;
  const std::vector<std::string> names_;
  const Settings own_;
  std::map<NodeId, uint32_t> compared_;  // incarnation whose settings were compared last
  std::set<std::string> reported_;       // texts of differences, without the node
};

}  // namespace millrace::inline train

#endif  // MILLRACE_TRAIN_SETTINGS_CHECK_H_
