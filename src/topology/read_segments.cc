#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "exchange/kernels/codec_config.h"
#include "exchange/kernels/kernel_op.h"
#include "millrace/transport_registry.h"
#include "topology/frame_size.h"
#include "topology/read_fields.h"

namespace millrace::inline topology {
namespace {

constexpr int64_t kMinChunkFloats = 16;
constexpr int64_t kNsPerMs = 1'000'000;

// Quoted names of the transports whose endpoints have ports, for errors.
std::string TransportsWithPorts() {
  std::string names;
  for (const TransportDescriptor* transport : TransportRegistry::Get().Descriptors()) {
    if (!transport->addressing.has_port) continue;
    names += StrCat(names.empty() ? "" : " or ", "\"", transport->name, "\"");
  }
  return names;
}

// `text` with the quoted name in place of its first $.
std::string WithName(const std::string& text, const std::string& name) {
  const size_t at = std::min(text.find('$'), text.size());
  return StrCat(text.substr(0, at), "\"", name, "\"", text.substr(std::min(at + 1, text.size())));
}

double CheckedShare(const std::string& field, double share) {
  if (IsShare(share)) return share;
  throw FieldError(field, share, " given, expected a share above 0 and at most 1");
}

// Reads the segments of a file in order.
class SegmentReader {
 public:
  SegmentReader(const topology_file::Topology& file, const std::vector<TopologyNode>& nodes,
                const std::vector<std::string>& transports, bool is_elastic)
      : file_(file), nodes_(nodes), transports_(transports), is_elastic_(is_elastic) {
    for (size_t i = 0; i < nodes.size(); ++i) ids_[nodes[i].name] = static_cast<NodeId>(i);
  }

  TopologySegment Read(int index);

 private:
  std::string Field(const std::string& name) const { return path_ + "." + name; }

  void ReadName();
  void ReadTransport();
  void ReadMembers();
  void CheckAdapters();
  void CheckElasticPort();
  void CheckAdapter(NodeId node, const TopologyAdapter& adapter);
  void CheckListener(NodeId node, const std::string& field, const std::string& place);
  void ReadCodec();
  void ReadShare();
  void ReadPositionCodec();
  void CheckRuleCodec() const;
  void CheckRuleMemory() const;
  void ReadPacing();
  void ReadPace();
  void ReadRange();
  void ReadTransportOptions();
  void CheckTransportOption(const std::string& field, const std::string& key) const;
  void CutChunks();

  const topology_file::Topology& file_;
  const std::vector<TopologyNode>& nodes_;
  const std::vector<std::string>& transports_;
  const bool is_elastic_;
  std::unordered_map<std::string, NodeId> ids_;
  std::unordered_map<std::string, int> places_;  // indices of segments, by name
  struct Listener {
    NodeId node;
    std::string segment;
  };
  std::unordered_map<std::string, Listener> listeners_;  // by address and port, over all segments

  // State of the current segment.
  std::string path_;
  const topology_file::Segment* message_ = nullptr;
  TopologySegment segment_;
  const TransportDescriptor* transport_ = nullptr;
  std::vector<const AdapterFields*> adapters_;         // of its nodes
  std::unordered_map<std::string, NodeId> addresses_;  // of endpoints without ports
};

TopologySegment SegmentReader::Read(int index) {
  path_ = StrCat("segment[", index, "]");
  message_ = &file_.segment(index);
  segment_ = {};
  adapters_.clear();
  addresses_.clear();
  ReadName();
  places_.emplace(segment_.name, index);
  ReadTransport();
  ReadMembers();
  CheckAdapters();
  ReadCodec();
  segment_.rule = ReadMergeRule(path_, *message_);
  segment_.names_rule = message_->has_merge_rule() || message_->merge_rule_param_size() > 0;
  CheckRuleCodec();
  CheckRuleMemory();
  ReadPacing();
  ReadRange();
  ReadTransportOptions();
  CutChunks();
  return std::move(segment_);
}

void SegmentReader::ReadName() {
  CheckName(Field("name"), message_->has_name(), message_->name());
  if (const auto found = places_.find(message_->name()); found != places_.end()) {
    throw FieldError(Field("name"), "segment[", found->second, "] is named \"", message_->name(),
                     "\" already, expected another name");
  }
  segment_.name = message_->name();
}

void SegmentReader::ReadTransport() {
  const std::string expected = "expected one of " + NameList(transports_);
  if (!message_->has_transport()) throw FieldError(Field("transport"), "missing, ", expected);
  segment_.transport = message_->transport();
  if (std::find(transports_.begin(), transports_.end(), segment_.transport) == transports_.end()) {
    throw FieldError(Field("transport"), "\"", segment_.transport, "\" given, ", expected);
  }
  transport_ = TransportRegistry::Get().Find(segment_.transport);
  CHECK(transport_ != nullptr) << segment_.transport << " is not registered";
  if (is_elastic_ && !transport_->moves_peers) {
    throw FieldError(
        Field("transport"), "\"", segment_.transport,
        "\" given, which cannot change the addresses of nodes while it runs; expected ",
        NameList(TransportsThatMovePeers()), " with --rendezvous");
  }
  if (transport_->addressing.has_port) {
    CheckRange(Field("port"), message_->port(), 1, 65535);
    segment_.port = message_->port();
  } else if (message_->has_port()) {
    throw FieldError(Field("port"), "given, but transport \"", segment_.transport,
                     "\" has no ports; expected it with ", TransportsWithPorts(), " only");
  }
}

void SegmentReader::ReadMembers() {
  const auto& names = message_->node();
  if (is_elastic_ && !names.empty()) {
    throw FieldError(Field("node"), "given, but with --rendezvous every segment joins all nodes; ",
                     "expected none");
  }
  if (names.empty()) {
    for (size_t i = 0; i < nodes_.size(); ++i) segment_.nodes.push_back(static_cast<NodeId>(i));
  }
  std::vector<bool> named(nodes_.size());
  for (int i = 0; i < names.size(); ++i) {
    const std::string field = Field(StrCat("node[", i, "]"));
    const auto found = ids_.find(names[i]);
    if (found == ids_.end()) {
      std::vector<std::string> known;
      for (const TopologyNode& node : nodes_) known.push_back(node.name);
      throw FieldError(field, "there is no node \"", names[i], "\", expected one of ",
                       NameList(known));
    }
    if (named[found->second]) {
      throw FieldError(field, "\"", names[i],
                       "\" is there twice, a segment between a node and itself; expected each "
                       "node once");
    }
    named[found->second] = true;
    segment_.nodes.push_back(found->second);
  }
  if (segment_.nodes.size() < 2) {
    throw FieldError(Field("node"), "segment \"", segment_.name, "\" joins ", segment_.nodes.size(),
                     " node, expected at least 2");
  }
  std::sort(segment_.nodes.begin(), segment_.nodes.end());
}

void SegmentReader::CheckAdapters() {
  if (is_elastic_) {
    if (message_->has_adapter()) {
      throw FieldError(Field("adapter"), "given, but with --rendezvous nodes have one address; ",
                       "expected none");
    }
    CheckElasticPort();
    for (NodeId node : segment_.nodes) adapters_.push_back(&nodes_[node].adapters[0]);
    return;
  }
  if (message_->has_adapter()) {
    CheckName(Field("adapter"), true, message_->adapter());
    segment_.adapter = message_->adapter();
  }
  for (NodeId node : segment_.nodes) {
    const TopologyAdapter* adapter = nodes_[node].FindAdapter(segment_.adapter);
    if (!adapter) {
      throw FieldError(Field("adapter"), "node \"", nodes_[node].name, "\" has no adapter \"",
                       segment_.adapter, "\"");
    }
    adapters_.push_back(adapter);
    if (!transport_->addressing.keys.empty()) CheckAdapter(node, *adapter);
  }
}

// Each node has one address, so segments differ by their ports.
void SegmentReader::CheckElasticPort() {
  const auto [other, is_new] =
      listeners_.emplace(StrCat(segment_.port), Listener{0, segment_.name});
  if (is_new) return;
  throw FieldError(Field("port"), segment_.port, " is the port of segment \"",
                   other->second.segment, "\" already, expected another");
}

// Expects all keys of the transport, and an address that no other endpoint has.
void SegmentReader::CheckAdapter(NodeId node, const TopologyAdapter& adapter) {
  const std::string path = AdapterPath(nodes_[node], node, adapter);
  const std::string& name = nodes_[node].name;
  const TransportAddressing& addressing = transport_->addressing;
  const auto field = [&](const AddressKey& key) {
    return path + (AdapterFields::IsField(key.name) ? "." + key.name : ".option");
  };
  for (const AddressKey& key : addressing.keys) {
    if (!adapter.Get(key.name).empty()) continue;
    throw FieldError(field(key), "missing, expected ", WithName(key.expected, name), " the ",
                     segment_.transport, " segment \"", segment_.name, "\"",
                     AdapterFields::IsField(key.name) ? "" : StrCat(": option \"", key.name, "\""));
  }
  const AddressKey& last = addressing.keys.back();
  const std::string place = addressing.locate(adapter, segment_.port);
  if (addressing.has_port) return CheckListener(node, field(last), place);
  if (const auto [other, is_new] = addresses_.emplace(place, node); !is_new) {
    throw FieldError(field(last), place, " is the ", last.noun, " of node \"",
                     nodes_[other->second].name, "\" too, in segment \"", segment_.name,
                     "\"; expected another for \"", name, "\"");
  }
}

void SegmentReader::CheckListener(NodeId node, const std::string& field, const std::string& place) {
  const auto [other, is_new] = listeners_.emplace(place, Listener{node, segment_.name});
  if (is_new) return;
  const Listener& first = other->second;
  if (first.node == node) {
    throw FieldError(Field("port"), "node \"", nodes_[node].name, "\" listens on ", place,
                     " for segment \"", first.segment, "\" already, expected another port");
  }
  throw FieldError(
      field, place, " of segment \"", segment_.name, "\" is where node \"", nodes_[first.node].name,
      "\" listens",
      first.segment == segment_.name ? "" : StrCat(" for segment \"", first.segment, "\""),
      ", expected another address for \"", nodes_[node].name, "\"");
}

void SegmentReader::ReadCodec() {
  const std::optional<CodecConfig> codec = CodecNamed(message_->codec());
  if (!codec) {
    throw FieldError(Field("codec"), "\"", message_->codec(), "\" given, expected one of ",
                     kCodecNames);
  }
  segment_.codec = *codec;
  segment_.names_codec = message_->has_codec();
  const bool sparse = HasThreshold(*codec);
  if (message_->has_threshold() && !sparse) {
    throw FieldError(Field("threshold"), "given, but codec is \"", message_->codec(),
                     "\"; expected it with \"sparse\" only");
  }
  if (sparse && !message_->has_threshold()) {
    throw FieldError(Field("threshold"), "missing, expected a number above 0 for codec \"sparse\"");
  }
  segment_.codec.threshold = message_->threshold();
  // Negated so that NaN is refused, here and below.
  if (sparse && !(segment_.codec.threshold > 0 && std::isfinite(segment_.codec.threshold))) {
    throw FieldError(Field("threshold"), segment_.codec.threshold,
                     " given, expected a number above 0");
  }
  ReadShare();
  ReadPositionCodec();
}

void SegmentReader::ReadPositionCodec() {
  const std::optional<Codec> codec = PositionCodecNamed(message_->position_codec());
  if (!codec) {
    throw FieldError(Field("position_codec"), "\"", message_->position_codec(),
                     "\" given, expected one of ", kPositionCodecNames);
  }
  segment_.position_codec = *codec;
  segment_.names_position_codec = message_->has_position_codec();
  if (!message_->has_position_share()) return;
  if (*codec != Codec::kSparse) {
    throw FieldError(Field("position_share"), "given, but position_codec is \"",
                     message_->position_codec(), "\"; expected it with \"topk\" only");
  }
  segment_.position_share = CheckedShare(Field("position_share"), message_->position_share());
}

void SegmentReader::ReadShare() {
  if (!HasShare(segment_.codec)) {
    if (!message_->has_share()) return;
    throw FieldError(Field("share"), "given, but codec is \"", message_->codec(),
                     "\"; expected it with \"topk\" or \"random\" only");
  }
  if (!message_->has_share()) {
    throw FieldError(Field("share"), "missing, expected a share above 0 and at most 1 for codec \"",
                     message_->codec(), "\"");
  }
  segment_.codec.share = CheckedShare(Field("share"), message_->share());
}

// Expects that the rule has an effect with the codec.
void SegmentReader::CheckRuleCodec() const {
  if (MergeRuleRegistry::Get().WorksWith(segment_.rule.name, segment_.codec)) return;
  throw FieldError(Field("merge_rule"), "\"", segment_.rule.name, "\" given, but codec \"",
                   message_->codec(),
                   "\" leaves nothing unsent; expected codec sparse, topk or random");
}

// Expects that the rule has code for the memory of each node.
void SegmentReader::CheckRuleMemory() const {
  if (MergeRuleRegistry::Get().ReachOf(segment_.rule.name) == RuleReach::kAll) return;
  for (NodeId node : segment_.nodes) {
    const TopologyMemory& memory = nodes_[node].memory;
    if (memory.on_host()) continue;
    throw FieldError(Field("merge_rule"), "\"", segment_.rule.name,
                     "\" given, which works on weights in host memory only, but those of node \"",
                     nodes_[node].name, "\" are in ", DeviceTypeName(memory.type), ":",
                     memory.ordinal, "; expected another rule, or memory \"host\"");
  }
}

void SegmentReader::ReadPacing() {
  segment_.max_megabits = message_->max_mbps();
  if (!(segment_.max_megabits >= 0 && std::isfinite(segment_.max_megabits))) {
    throw FieldError(Field("max_mbps"), segment_.max_megabits,
                     " given, expected Mbit/s, or 0 for no limit");
  }
  CheckRange(Field("heartbeat_ms"), message_->heartbeat_ms(), 1, 60'000);
  // Heartbeats may come half an interval late, and some are lost.
  CheckRange(Field("peer_timeout_ms"), message_->peer_timeout_ms(),
             3 * int64_t{message_->heartbeat_ms()}, 3'600'000);
  segment_.heartbeat_ns = message_->heartbeat_ms() * kNsPerMs;
  segment_.peer_timeout_ns = message_->peer_timeout_ms() * kNsPerMs;
  segment_.busy_poll = message_->busy_poll();
  segment_.damping = message_->damping();
  segment_.names_damping = message_->has_damping();
  ReadPace();
  if (message_->has_key_file() && message_->key_file().empty()) {
    throw FieldError(Field("key_file"), "is empty, expected the path of a file");
  }
  segment_.key_file = message_->key_file();
}

void SegmentReader::ReadPace() {
  const bool full = message_->pace() == "full";
  if (!full && message_->pace() != "auto") {
    throw FieldError(Field("pace"), "\"", message_->pace(), "\" given, expected auto or full");
  }
  if (message_->has_solver_share() && full) {
    throw FieldError(Field("solver_share"),
                     "given, but pace is \"full\"; expected it with \"auto\" only");
  }
  const double share = message_->solver_share();
  if (!(share >= 0.001 && share < 1)) {
    throw FieldError(Field("solver_share"), share, " given, expected from 0.001 to below 1");
  }
  segment_.solver_share = full ? 1 : share;
}

void SegmentReader::ReadRange() {
  segment_.begin = message_->range_begin();
  segment_.end = message_->range_end();
  if (!(segment_.begin >= 0 && segment_.begin <= 1)) {
    throw FieldError(Field("range_begin"), segment_.begin, " given, expected a share from 0 to 1");
  }
  if (!(segment_.end >= 0 && segment_.end <= 1)) {
    throw FieldError(Field("range_end"), segment_.end, " given, expected a share from 0 to 1");
  }
  if (segment_.begin >= segment_.end) {
    throw FieldError(Field(message_->has_range_begin() ? "range_begin" : "range_end"),
                     "the range from ", segment_.begin, " to ", segment_.end,
                     " is empty, expected range_begin below range_end");
  }
}

void SegmentReader::ReadTransportOptions() {
  segment_.options = ReadOptions(Field("option"), message_->option(),
                                 [&](const std::string& field, const std::string& key,
                                     const std::string&) { CheckTransportOption(field, key); });
}

void SegmentReader::CheckTransportOption(const std::string& field, const std::string& key) const {
  if (transport_->IsPlanned(key)) {
    throw FieldError(field + ".key", "\"", key,
                     "\" given, which follows from the file's other fields; expected another");
  }
  if (transport_->Accepts(key)) return;
  std::vector<std::string> known = transport_->options;
  std::erase_if(known, [&](const std::string& option) { return transport_->IsPlanned(option); });
  throw FieldError(field + ".key", "\"", key, "\" given, expected an option of ",
                   segment_.transport, ": ", NameList(known));
}

void SegmentReader::CutChunks() {
  CheckRange(Field("mtu"), message_->mtu(), 64, 65535);
  segment_.mtu = message_->mtu();
  const FrameUse use{segment_.max_nodes(), static_cast<uint16_t>(segment_.nodes.size()),
                     !segment_.key_file.empty(), segment_.codec.codec, segment_.position_codec};
  const int64_t room = transport_->frame_bytes(segment_.mtu, adapters_);
  const int64_t heartbeat = HeartbeatBytes(use);
  if (room < heartbeat) {
    throw FieldError(Field("mtu"), segment_.mtu, " leaves ", std::max<int64_t>(room, 0),
                     " bytes for a frame, expected at least ", heartbeat, " for a heartbeat with ",
                     use.members, " nodes");
  }
  const int64_t fits = ChunkFloatsIn(room, use);
  const bool on_device = std::any_of(segment_.nodes.begin(), segment_.nodes.end(),
                                     [&](NodeId id) { return !nodes_[id].memory.on_host(); });
  const int64_t most = on_device ? std::min(fits, kMaxKernelFloats) : fits;
  segment_.chunk_floats = message_->has_chunk_floats() ? message_->chunk_floats() : most;
  if (segment_.chunk_floats < kMinChunkFloats || segment_.chunk_floats > most) {
    throw FieldError(Field("chunk_floats"), segment_.chunk_floats, " given, expected ",
                     kMinChunkFloats, " to ", most, ", what ",
                     most == fits ? StrCat("an mtu of ", segment_.mtu, " leaves room for")
                                  : "the kernels of a device take, where a node has its memory");
  }
  segment_.max_frame_bytes = room;
}

}  // namespace

std::string AdapterPath(const TopologyNode& owner, NodeId node, const TopologyAdapter& adapter) {
  const auto place = &adapter - owner.adapters.data();
  return place == 0 ? StrCat("node[", node, "]")
                    : StrCat("node[", node, "].adapter[", place - 1, "]");
}

std::vector<TopologySegment> ReadSegments(const topology_file::Topology& file,
                                          const std::vector<TopologyNode>& nodes,
                                          const std::vector<std::string>& transports,
                                          bool is_elastic) {
  if (file.segment_size() > kMaxTopologyEntries) {
    throw FieldError(StrCat("segment[", kMaxTopologyEntries, "]"), file.segment_size(),
                     " segments given, expected at most ", kMaxTopologyEntries);
  }
  SegmentReader reader(file, nodes, transports, is_elastic);
  std::vector<TopologySegment> segments;
  for (int i = 0; i < file.segment_size(); ++i) segments.push_back(reader.Read(i));
  return segments;
}

}  // namespace millrace::inline topology
