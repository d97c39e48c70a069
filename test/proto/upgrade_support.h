// Upgrades nets given as text.
#ifndef MILLRACE_TEST_PROTO_UPGRADE_SUPPORT_H_
#define MILLRACE_TEST_PROTO_UPGRADE_SUPPORT_H_

#include <string>

#include "proto/upgrade.h"
#include "test/support/support.h"

namespace millrace::test {

// A net after its upgrade. Errors name the file "net.prototxt".
struct UpgradedNet {
  explicit UpgradedNet(const std::string& text) {
    ParseText(text, "net.prototxt", &net, &source);
    upgrade = UpgradeNet(source, &net);
  }
  caffe::NetParameter net;
  SourceMap source;
  NetUpgrade upgrade;
};

// Expects that `old` becomes the net `today`, without problems.
inline void ExpectUpgrade(const std::string& old, const std::string& today) {
  caffe::NetParameter expected;
  ParseText(today, "expected", &expected, nullptr);
  const UpgradedNet upgraded(old);
  EXPECT_EQ(upgraded.net.DebugString(), expected.DebugString()) << old;
  EXPECT_EQ(upgraded.upgrade.problems, std::vector<std::string>()) << old;
  EXPECT_EQ(upgraded.upgrade.layer_paths.size(), static_cast<size_t>(expected.layer_size()));
  EXPECT_FALSE(NeedsUpgrade(upgraded.net));
}

inline std::string UpgradeError(const std::string& text) {
  return ErrorOf([&] { UpgradedNet net(text); });
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_PROTO_UPGRADE_SUPPORT_H_
