// Determines how many of the datagrams that the kernel dropped for a UDP socket had a wrong
// checksum. The kernel has one drop counter per socket, but counts checksum errors only per
// network namespace, so the two are compared. Not thread-safe.
#ifndef MILLRACE_TRANSPORT_UDP_CHECKSUM_ERRORS_H_
#define MILLRACE_TRANSPORT_UDP_CHECKSUM_ERRORS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "millrace/file_descriptor.h"

namespace millrace::inline transport {

// Counters of all UDP sockets of a network namespace for one IP version, since its creation.
struct UdpErrorCounts {
  uint64_t checksum = 0;  // InCsumErrors
  uint64_t no_room = 0;   // RcvbufErrors
};

// Parses the text of /proc/net/snmp, or /proc/net/snmp6 if `is_v6`. Empty if the counters are
// missing.
std::optional<UdpErrorCounts> ParseUdpErrors(std::string_view text, bool is_v6);

// Classifies the drops of one socket.
class UdpDropClassifier {
 public:
  explicit UdpDropClassifier(const UdpErrorCounts& now) : last_(now) {}

  // Returns how many of the socket's `drops` since the last call were certainly checksum errors.
  // `now` holds the namespace's counters. Drops that may be due to other causes, since other
  // sockets drop datagrams too, do not count.
  uint64_t Classify(uint64_t drops, const UdpErrorCounts& now);

 private:
  UdpErrorCounts last_;
  // Errors counted since the previous call that no drop explains. They may belong to drops of
  // this socket that the next call reports.
  UdpErrorCounts left_;
};

// Applies UdpDropClassifier to a socket in this thread's network namespace.
class UdpChecksumErrors {
 public:
  UdpChecksumErrors() = default;  // no counters available
  explicit UdpChecksumErrors(bool is_v6);
  // See UdpDropClassifier::Classify. Returns 0 if the kernel does not provide the counters.
  uint64_t Classify(uint64_t drops);

 private:
  std::optional<UdpErrorCounts> Read() const;

  bool is_v6_ = false;
  FileDescriptor file_;
  std::optional<UdpDropClassifier> classifier_;
};

}  // namespace millrace::inline transport

#endif  // MILLRACE_TRANSPORT_UDP_CHECKSUM_ERRORS_H_
