#include "cluster/sweep_estimate.h"

#include <arpa/inet.h>
#include <google/protobuf/util/json_util.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/files/file.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/codec_config.h"
#include "exchange/protocol/frame.h"
#include "millrace/transport_registry.h"
#include "proto/bench.pb.h"

namespace millrace::inline cluster {
namespace {

// Bytes added to each frame by Ethernet, IP, UDP and the transport's prefix.
constexpr double kAroundFrame = 78;
constexpr double kSparsePresent = 0.1;

// Send rate of this node that `millrace bench` measured, Mbit/s on the wire; 0 without a result.
double MeasuredMegabits(const Topology& topology, const NodePlan& node, const SegmentPlan& segment,
                        const std::string& path) {
  if (!FileExists(path)) return 0;
  BenchResult result;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(ReadFile(path), &result, options);
  if (!status.ok()) {
    throw Error(path, ": not what millrace bench --json prints: ", status.ToString());
  }
  if (result.cluster() != topology.name) {
    throw Error(path, ": cluster: \"", result.cluster(), "\" given, expected \"", topology.name,
                "\", as the topology beside it has it");
  }
  for (const BenchSegmentResult& each : result.segment()) {
    if (each.name() != segment.name) continue;
    for (const BenchEndResult& end : each.end()) {
      if (end.node() == node.name) return 8 * end.wire_megabytes_out();
    }
  }
  return 0;
}

// Bytes of a sparse payload in which `share` of the elements of a chunk are present, of `width`
// bytes each: by gaps (sparse_gaps.h), or with a bit for each element.
double SparseBytes(double share, double width, double floats) {
  return std::min(share * (1 + width), share * width + 1.0 / 8) * floats;
}

double PositionPayload(const SegmentPlan& segment, double floats) {
  const ExchangeConfig& exchange = segment.exchange;
  if (exchange.position_codec != Codec::kSparse) {
    return MinPayloadBytes(exchange.position_codec, segment.chunk_floats);
  }
  constexpr double kGapAndBfloat16 = 3;
  return exchange.position_share * kGapAndBfloat16 * floats;
}

double DiffPayload(const SegmentPlan& segment, double floats) {
  const CodecConfig& codec = segment.exchange.codec;
  if (HasThreshold(codec)) return SparseBytes(kSparsePresent, 4, floats);
  if (HasShare(codec)) return SparseBytes(codec.share, 4, floats);
  return MinPayloadBytes(codec.codec, segment.chunk_floats);
}

}  // namespace

LinkRate RateOf(const Topology& topology, const NodePlan& node, const SegmentPlan& segment) {
  LinkRate rate;
  const auto consider = [&](double megabits, const std::string& source) {
    if (!(megabits > 0) || (rate.megabits > 0 && rate.megabits <= megabits)) return;
    rate = {megabits, source};
  };
  consider(segment.max_bytes_per_second * 8e-6, "max_mbps");
  const std::string path = topology.source.file() + ".bench.json";
  consider(MeasuredMegabits(topology, node, segment, path), path);
  consider(LinkMegabits(segment), "as its interface says");
  return rate;
}

SweepEstimate EstimateSweep(const SegmentPlan& segment, int64_t floats, double megabits) {
  const auto cut = static_cast<double>(std::max<int64_t>(segment.chunk_floats, 1));
  const auto chunks = static_cast<double>(floats) / cut;
  const auto peers = static_cast<double>(segment.peers.size());
  const double around = kAroundFrame + static_cast<double>(kFrameHeaderBytes);
  const double position = around + PositionPayload(segment, cut) +
                          8 * static_cast<double>(AckWords(segment.exchange.max_nodes));
  const double diff = around + DiffPayload(segment, cut);
  const double own = chunks / (peers + 1), others = chunks - own;
  const TransportDescriptor& transport =
      *TransportRegistry::Get().Find(segment.transport.transport);
  const bool multicast = transport.multicasts && transport.multicasts(segment.transport);
  SweepEstimate found;
  found.bytes_out = own * (multicast ? 1 : peers) * position + others * diff;
  found.bytes_in = others * position + own * peers * diff;
  if (megabits > 0) {
    found.seconds = std::max(found.bytes_out, found.bytes_in) * 8e-6 / megabits;
  }
  return found;
}

namespace {

bool SameAddress(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  if (a->sa_family != AF_INET6) return false;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

// Name of the interface that has the host of "HOST:PORT" or "[HOST]:PORT"; "" if none has it.
std::string InterfaceWith(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> free_found(found, freeaddrinfo);
  ifaddrs* interfaces = nullptr;
  if (getifaddrs(&interfaces) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> free_interfaces(interfaces, freeifaddrs);
  for (const ifaddrs* each = interfaces; each != nullptr; each = each->ifa_next) {
    if (SameAddress(each->ifa_addr, found->ai_addr)) return each->ifa_name;
  }
  return "";
}

}  // namespace

uint32_t LinkMegabits(const SegmentPlan& plan) {
  const auto& options = plan.transport.options;
  std::string name;
  if (const auto given = options.find("interface"); given != options.end()) {
    name = given->second;
  } else if (const auto address = options.find("address"); address != options.end()) {
    name = InterfaceWith(address->second);
  }
  if (name.empty() || name.size() >= IFNAMSIZ) return 0;
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return 0;
  ethtool_cmd command{};
  command.cmd = ETHTOOL_GSET;
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&command);
  const bool said = ioctl(socket_fd, SIOCETHTOOL, &request) == 0;
  close(socket_fd);
  const uint32_t speed = ethtool_cmd_speed(&command);
  return said && speed != static_cast<uint32_t>(SPEED_UNKNOWN) && speed != UINT16_MAX ? speed : 0;
}

}  // namespace millrace::inline cluster
