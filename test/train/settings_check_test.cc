#include "train/settings_check.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "test/sim/fake_peers.h"
#include "test/sim/gossip_board.h"
#include "test/support/support.h"

namespace millrace::test {
namespace {

constexpr char kSolver[] = "base_lr: 0.005 momentum: 0.9 lr_policy: 'inv' max_iter: 800";
constexpr char kNet[] =
    "layer { name: 'data' type: 'Data' top: 'x' top: 'y'\n"
    "  data_param { source: 'train_lmdb' batch_size: 64 backend: LMDB }\n"
    "  transform_param { scale: 0.00390625 } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'c'\n"
    "  convolution_param { num_output: 20 kernel_size: 5 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'ip'\n"
    "  inner_product_param { num_output: 10 } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' }\n"
    "layer { name: 'only test' type: 'Accuracy' include { phase: TEST } }\n";

Settings Of(const std::string& solver_text, const std::string& net_text) {
  caffe::SolverParameter solver;
  caffe::NetParameter net;
  caffe::NetState state;
  state.set_phase(caffe::TRAIN);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(solver_text, &solver));
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(net_text, &net));
  return SettingsOf(solver, SelectLayers(net, state, {}));
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

using Lines = std::vector<std::string>;

// Nodes that receive each other's messages at once.
class Settings3 : public testing::Test {
 protected:
  void Start(NodeId node, const std::string& solver, const std::string& net = kNet) {
    peers_[node] = std::make_unique<sim::FakePeers>(node, &gossip_);
    nodes_[node] = std::make_unique<SettingsCheck>(
        peers_[node].get(), std::vector<std::string>{"a", "b", "c"}, Of(solver, net));
  }
  Lines New(NodeId node, bool warnings) {
    Lines lines;
    for (const SettingsCheck::Line& line : nodes_[node]->TakeNew()) {
      if (line.warning == warnings) lines.push_back(line.text);
    }
    return lines;
  }
  Lines Warnings(NodeId node) { return New(node, true); }
  Lines Notes(NodeId node) { return New(node, false); }

  sim::GossipBoard gossip_;
  std::unique_ptr<sim::FakePeers> peers_[3];
  std::unique_ptr<SettingsCheck> nodes_[3];
};

TEST_F(Settings3, ThatAreEqualAreNotMentioned) {
  Start(0, kSolver);
  Start(1, std::string(kSolver) + " regularization_type: 'L2' iter_size: 1");  // the defaults
  EXPECT_EQ(nodes_[0]->TakeNew().size() + nodes_[1]->TakeNew().size(), 0u);
}

TEST_F(Settings3, OfAnotherSolverAreNamedWithBothValues) {
  Start(0, kSolver);
  Start(1, kSolver);
  Start(2, Replaced(kSolver, "0.005", "0.5") + " weight_decay: 0.5 type: 'Adam'");
  const Lines of_c = {
      "node c has another base_lr: 0.5, here 0.005; another weight_decay: 0.5, here 0; another "
      "type: \"Adam\", here \"SGD\"; expected equal solvers and nets on all nodes"};
  EXPECT_EQ(Warnings(0), of_c);
  EXPECT_EQ(Warnings(1), of_c);
  // Node b has the same settings as a.
  EXPECT_EQ(Warnings(2),
            Lines{"node a has another base_lr: 0.005, here 0.5; another weight_decay: 0, here 0.5; "
                  "another type: \"SGD\", here \"Adam\"; expected equal solvers and nets on all "
                  "nodes"});
  for (NodeId node : {0, 1, 2}) EXPECT_EQ(Warnings(node), Lines{}) << "told again";
}

TEST_F(Settings3, OfAnotherNetAreNamedWithBothValues) {
  Start(0, kSolver);
  Start(1, kSolver, Replaced(kNet, "scale: 0.00390625", "scale: 1"));
  EXPECT_EQ(Warnings(0), Lines{"node b has another transform_param.scale: 1, here 0.00390625; "
                               "expected equal solvers and nets on all nodes"});
  EXPECT_EQ(Warnings(1), Lines{"node a has another transform_param.scale: 0.00390625, here 1; "
                               "expected equal solvers and nets on all nodes"});
  Start(2, kSolver, Replaced(kNet, "kernel_size: 5", "kernel_size: 5 stride: 2"));
  EXPECT_EQ(Warnings(0), Lines{"node c has another convolution_param.stride: 2, here none; "
                               "expected equal solvers and nets on all nodes"});
}

TEST_F(Settings3, ThatNodesMaySetAsTheyLikeAreNotMentioned) {
  Start(0, kSolver);
  Start(1,
        std::string(kSolver) +
            " display: 5 test_interval: 9 test_iter: 3 snapshot: 7 "
            "snapshot_prefix: 'q' random_seed: 3 solver_mode: CPU",
        Replaced(kNet, "source: 'train_lmdb'", "source: 'other' prefetch: 9"));
  EXPECT_EQ(nodes_[0]->TakeNew().size() + nodes_[1]->TakeNew().size(), 0u);
}

TEST_F(Settings3, OfTheBatchSizeAreOnlyNoted) {
  Start(0, kSolver);
  Start(1, kSolver, Replaced(kNet, "batch_size: 64", "batch_size: 128"));
  EXPECT_EQ(Notes(0), Lines{"node b has another data_param.batch_size: 128, here 64"});
  EXPECT_EQ(Warnings(1), Lines{});
}

// The values of a net as large as ResNet-152 are cut. A difference in one of its layers still shows.
TEST_F(Settings3, OfALargeNetAreCompared) {
  std::string net = kNet;
  for (int i = 0; i < 500; ++i) {
    net += StrCat("layer { name: 'res", i, "' type: 'Convolution' bottom: 'x", i, "' top: 'x",
                  i + 1, "' param { lr_mult: ", i % 7,
                  " decay_mult: 2 } convolution_param { num_output: ", 64 + i,
                  " kernel_size: 3 pad: 1 bias_term: false stride: ", 1 + i % 2,
                  " weight_filler { type: 'msra' } } }\n");
  }
  const NodeSettings message = EncodeSettings(Of(kSolver, net));
  EXPECT_LE(message.ByteSizeLong(), kMaxGossipBytes);
  EXPECT_FALSE(message.cut());
  Start(0, kSolver, net);
  Start(1, kSolver,
        Replaced(net, "'x300' top: 'x301' param { lr_mult: 6",
                 "'x300' top: 'x301' param { lr_mult: 5"));
  const Lines lines = Warnings(0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_CONTAINS(lines[0], "node b has another param.lr_mult: ");
}

TEST(NodeSettings, ThatDoNotFitIntoAMessageAreLeftOut) {
  Settings many;
  for (uint32_t i = 1; i < 1000; ++i) many[{true, {117, i}}] = "x";
  const NodeSettings message = EncodeSettings(many);
  EXPECT_TRUE(message.cut());
  EXPECT_LE(message.ByteSizeLong(), kMaxGossipBytes);
  EXPECT_EQ(CompareSettings(many, message).size(), 0u);
}

// A node of another version may set fields that this one does not know.
TEST(NodeSettings, OfUnknownFieldsAreSkippedAndTextIsMadePrintable) {
  NodeSettings theirs;
  NodeSetting* const unknown = theirs.add_setting();
  unknown->add_field(4'000'000'000u);
  unknown->set_text("1");
  theirs.add_setting();  // no field at all
  NodeSetting* const rate = theirs.add_setting();
  rate->add_field(caffe::SolverParameter::kBaseLrFieldNumber);
  rate->set_text("\033[2J\n");
  const std::string bytes = theirs.SerializeAsString();
  sim::GossipBoard gossip;
  sim::FakePeers peers(0, &gossip);
  SettingsCheck check(&peers, {"a", "b"}, Of("base_lr: 0.5", kNet));
  gossip.Publish(1, std::as_bytes(std::span(bytes)), 1, GossipKey::kSettings);
  const auto lines = check.TakeNew();
  ASSERT_GE(lines.size(), 1u);
  EXPECT_CONTAINS(lines[0].text, "node b has another base_lr: ?[2J?, here 0.5; another ");
  const std::string noise(20, '\xff');
  gossip.Publish(1, std::as_bytes(std::span(noise)), 2, GossipKey::kSettings);
  EXPECT_EQ(check.TakeNew().size(), 0u);
}

}  // namespace
}  // namespace millrace::test
