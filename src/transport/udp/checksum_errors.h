// Which of the datagrams that the kernel dropped for a UDP socket had a wrong checksum. It counts
// all of a socket's drops in one number, and checksum errors for its network namespace only, so
// the two are compared. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_CHECKSUM_ERRORS_H_
#define MILLRACE_TRANSPORT_UDP_CHECKSUM_ERRORS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/file_descriptor.h"

namespace millrace {

// Of all UDP sockets of a network namespace and one version of IP, since it began.
struct UdpErrorCounts {
  uint64_t checksum = 0;  // InCsumErrors
  uint64_t no_room = 0;   // RcvbufErrors
};

// Reads /proc/net/snmp, or /proc/net/snmp6 where `is_v6`. Nothing if it does not say.
std::optional<UdpErrorCounts> ParseUdpErrors(std::string_view text, bool is_v6);

// Tells apart what a socket's drops were.
class UdpDropJudge {
 public:
  explicit UdpDropJudge(const UdpErrorCounts& now) : last_(now) {}

  // Of `drops` of the socket since the last call, how many were checksum errors; `now`: the
  // namespace's counts. What is not certain, since other sockets drop datagrams too, is none.
  uint64_t Judge(uint64_t drops, const UdpErrorCounts& now);

 private:
  UdpErrorCounts last_;
  // Counted after the drops that were judged last had been: a socket's own may be among them.
  UdpErrorCounts left_;
};

// The same for a socket of this thread's network namespace.
class UdpChecksumErrors {
 public:
  UdpChecksumErrors() = default;  // the kernel does not say
  explicit UdpChecksumErrors(bool is_v6);
  // As UdpDropJudge::Judge; 0 where the kernel does not say.
  uint64_t Judge(uint64_t drops);

 private:
  std::optional<UdpErrorCounts> Read() const;

  bool is_v6_ = false;
  FileDescriptor file_;
  std::optional<UdpDropJudge> judge_;
};

}  // namespace millrace

#endif  // MILLRACE_TRANSPORT_UDP_CHECKSUM_ERRORS_H_
