// Log lines about links between members that do not carry frames
// (exchange/protocol/link_monitor.h).
#ifndef MILLRACE_SEGMENT_LINK_LOG_H_
#define MILLRACE_SEGMENT_LINK_LOG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "exchange/protocol/link_monitor.h"

namespace millrace {

// Not thread-safe.
class LinkLog {
 public:
  // A link that was broken counts as mended once nobody has reported it for so long: around a
  // change of view reports come and go within milliseconds.
  static constexpr int64_t kMendedNs = 1'000'000'000;

  // `names` by node; of the node `self`, whose largest frames have `frame_bytes`.
  LinkLog(std::string segment, std::vector<std::string> names, uint16_t self, size_t frame_bytes);

  // What has changed since the last call: a line for each link that is broken or has been
  // mended, and for each node that is left out. Cheap when there is none.
  std::vector<std::string> Update(const LinkMonitor& links, int64_t now_ns);

 private:
  std::string NameOf(uint16_t node) const;
  std::string BrokenLine(const LinkMonitor& links, const BrokenLink& link, int64_t now_ns) const;

  const std::string segment_;
  const std::vector<std::string> names_;
  const uint16_t self_;
  const size_t frame_bytes_;
  struct Told {
    BrokenLink link;
    int64_t reported_ns;  // when it was last reported
  };
  std::vector<Told> broken_;        // that were told of and are not mended
  std::vector<uint16_t> left_out_;  // that were told of and still have a broken link
};

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_LINK_LOG_H_
