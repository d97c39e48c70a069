// docs/layers.md lists the layer types of this build, each with a test that exists.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "base/files/file.h"
#include "millrace/layer.h"

namespace millrace::test {
namespace {

TEST(LayersPage, ListsAllLayerTypes) {
  std::istringstream page(ReadFile("docs/layers.md"));
  std::set<std::string> listed;
  const std::regex row(R"(\| `(\w+)` \|.*`(test/\w+/\w+\.cc)` \|.*)");
  for (std::string line; std::getline(page, line);) {
    std::smatch found;
    if (!std::regex_match(line, found, row)) continue;
    EXPECT_TRUE(listed.insert(found[1]).second) << found[1] << " is listed twice";
    EXPECT_TRUE(FileExists(found[2])) << found[2];
  }
  std::set<std::string> known;
  for (const std::string& type : LayerRegistry::Get().Types(DeviceType::kCpu)) {
    if (type != "Reorder" && type != "HostOnly") known.insert(type);  // inserted by nets; a test's
  }
  for (const std::string& type : known) EXPECT_TRUE(listed.count(type)) << type << " is missing";
  for (const std::string& type : listed) EXPECT_TRUE(known.count(type)) << type << " is unknown";
}

}  // namespace
}  // namespace millrace::test
