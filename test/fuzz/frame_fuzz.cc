// Frames of any bytes, unchanged or with repaired checksums so that they pass the first check. A
// node in the middle of a run accepts or drops them. It does not crash, writes nothing outside its
// arrays, and its weights stay finite.
//
// An input is a byte of options, followed by frames, each preceded by its length in two bytes.
// Options: bit 0: all frames arrive together; bit 1: the senders are changed to members of the
// view; bit 2: the frames arrive during a takeover.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "base/wire_bytes.h"
#include "exchange/kernels/host_executor.h"
#include "test/fuzz/support/fuzz.h"
#include "test/sim/exchange_node.h"

namespace millrace::fuzz {
namespace {

using sim::kTickNs;

constexpr uint16_t kNodes = 3;
constexpr int64_t kFloats = 40, kChunkFloats = 7, kAround = 16;
constexpr float kGuard = 12345.5f;
// Sums of values below this limit stay finite, whatever a single frame adds.
constexpr float kLarge = 1e30f;

ExchangeConfig ConfigOf(uint16_t node) {
  ExchangeConfig config = sim::TickConfig();
  config.run = 99;
  config.node = node;
  config.max_nodes = kNodes;
  config.slots = 16;
  return config;
}

// A node whose arrays have guards around them.
struct Node {
  explicit Node(uint16_t id) : memory(3 * (kFloats + kAround) + kAround, kGuard) {
    for (int array = 0; array < 3; ++array) std::fill_n(At(array), kFloats, 0.0f);
    executor = MakeHostExecutor({At(0), At(1), At(2), nullptr, kFloats, kChunkFloats});
    exchange = std::make_unique<Exchange>(ConfigOf(id), executor.get());
  }
  float* At(int array) { return memory.data() + kAround + array * (kFloats + kAround); }
  bool GuardsIntact() const {
    for (size_t i = 0; i < memory.size(); ++i) {
      if (i % (kFloats + kAround) < kAround && memory[i] != kGuard) return false;
    }
    return true;
  }
  bool Finite() const {
    return std::all_of(memory.begin(), memory.end(), [](float x) { return std::isfinite(x); });
  }
  bool Large() const {
    return std::any_of(memory.begin(), memory.end(), [](float x) { return std::abs(x) > kLarge; });
  }

  std::vector<float> memory;
  std::unique_ptr<ChunkExecutor> executor;
  std::unique_ptr<Exchange> exchange;
};

// The bytes of a frame in an aligned block of exactly their size.
struct Block {
  explicit Block(const std::string& bytes)
      : size(bytes.size()), memory(static_cast<std::byte*>(std::malloc(size + (size == 0)))) {
    std::memcpy(memory.get(), bytes.data(), size);
  }
  std::span<const std::byte> view() const { return {memory.get(), size}; }
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  size_t size;
  std::unique_ptr<std::byte, Free> memory;
};

using Frames = std::vector<std::string>;

void Receive(Node* node, const Frames& frames, int64_t tick) {
  std::vector<Block> blocks;
  for (const std::string& frame : frames) blocks.emplace_back(frame);
  std::vector<std::span<const std::byte>> views;
  for (const Block& block : blocks) views.push_back(block.view());
  node->exchange->Receive(views, tick * kTickNs);
}

// The frames that a node sends in one tick; if `trains`, its solver makes a step first.
Frames Send(Node* node, int64_t tick, bool trains) {
  if (trains) {
    node->At(0)[tick % kFloats] += 0.5f;
    node->exchange->SetProgress(static_cast<uint64_t>(tick));
  }
  PostedFrame room[8];
  const size_t count = node->exchange->Send(room, tick * kTickNs);
  Frames frames;
  for (size_t i = 0; i < count; ++i) {
    frames.emplace_back(reinterpret_cast<const char*>(room[i].head.data()), room[i].head.size());
    frames.back().append(reinterpret_cast<const char*>(room[i].payload.data()),
                         room[i].payload.size());
    node->exchange->Release(room[i].slot);
  }
  return frames;
}

constexpr int64_t kTraining = 120;  // node 0 has bootstrapped, the others have joined

// The frames sent to node 1 in each tick of a run of three nodes. Node 2 dies at the end, so that
// all frame types occur.
struct Recording {
  std::vector<Frames> frames;  // by tick
  int64_t recovering = 0;      // first tick of node 1's takeover of chunks
};

bool Recovers(const Node& node) {
  const auto& chunks = node.exchange->table().chunks;
  return std::any_of(chunks.begin(), chunks.end(), [](const Chunk& chunk) {
    return chunk.number > 0 && chunk.state == ChunkState::kTakingOver;
  });
}

Recording Record() {
  Recording recording;
  std::vector<std::unique_ptr<Node>> nodes;
  for (uint16_t id = 0; id < kNodes; ++id) nodes.push_back(std::make_unique<Node>(id));
  std::vector<Frames> arrivals(kNodes);
  for (int64_t tick = 0; tick < kTraining + 150; ++tick) {
    const std::vector<Frames> arrived = std::exchange(arrivals, std::vector<Frames>(kNodes));
    recording.frames.push_back(arrived[1]);
    for (uint16_t id = 0; id < (tick < kTraining + 20 ? kNodes : 2); ++id) {
      Receive(nodes[id].get(), arrived[id], tick);
      for (const std::string& frame : Send(nodes[id].get(), tick, tick > 90)) {
        for (uint16_t to = 0; to < kNodes; ++to) {
          if (to != id && tick % 11 != 0) arrivals[to].push_back(frame);
        }
      }
    }
    if (tick > kTraining && recording.recovering == 0 && Recovers(*nodes[1])) {
      recording.recovering = tick + 1;
    }
  }
  if (recording.recovering == 0) std::abort();
  return recording;
}

const Recording& Recorded() {
  static const Recording recording = Record();
  return recording;
}

// Makes the checksum and the length match, as a sender does. If `member`, also sets the sender to a
// member of the view of `node`.
void Repair(const Node& node, bool member, std::string* frame) {
  if (frame->size() < kFrameHeaderBytes) return;
  auto* p = reinterpret_cast<std::byte*>(frame->data());
  if (member) {
    const View& view = node.exchange->view();
    const Member& source = view.members[Get<uint16_t>(p, 16) % view.members.size()];
    Put<uint16_t>(p, 16, source.node);
    Put<uint16_t>(p, 18, kAllNodes);
    Put<uint32_t>(p, 20, source.incarnation);
    Put<uint32_t>(p, 24, view.id.epoch);
    Put<uint16_t>(p, 28, view.id.coordinator);
  }
  const size_t rest = frame->size() - kFrameHeaderBytes;
  const size_t ack_bytes = Get<uint16_t>(p, 30);
  if (ack_bytes > rest) return;
  Put<uint32_t>(p, 36, static_cast<uint32_t>(rest - ack_bytes));
  const std::span<const std::byte> bytes(p, frame->size());
  const bool unchecked = (Get<uint8_t>(p, 7) & 1) != 0;
  const uint32_t crc = Crc32c(bytes.first(60));
  Put<uint32_t>(p, 60, Crc32c(bytes.subspan(64, unchecked ? ack_bytes : rest), crc));
}

void Append(const std::string& frame, std::string* input) {
  const uint16_t length = static_cast<uint16_t>(frame.size());
  input->append(reinterpret_cast<const char*>(&length), sizeof(length));
  *input += frame;
}

Frames Split(const std::string& input) {
  Frames frames;
  for (size_t at = 1; at + 2 <= input.size();) {
    uint16_t length;
    std::memcpy(&length, input.data() + at, sizeof(length));
    frames.push_back(input.substr(at + 2, length));
    at += 2 + length;
  }
  return frames;
}

bool DecodesSafely(const std::string& bytes) {
  const Block block(bytes);
  FrameView frame;
  if (DecodeFrame(block.view(), &frame) != DropReason::kNone) return true;
  return kFrameHeaderBytes + frame.acks.size() + frame.payload.size() == bytes.size();
}

}  // namespace

std::vector<std::string> Corpus() {
  Frames frames;
  for (const Frames& some : Recorded().frames) {
    frames.insert(frames.end(), some.begin(), some.end());
  }
  std::vector<std::string> all;
  for (size_t i = 0; i + 3 <= frames.size(); ++i) {
    std::string input(1, static_cast<char>(i % 8));
    for (size_t j = i; j < i + 3; ++j) Append(frames[j], &input);
    all.push_back(input);
  }
  return all;
}

bool Target(const std::string& input) {
  if (input.empty()) return true;
  Node node(1);
  const int64_t start = (input[0] & 4) != 0 ? Recorded().recovering : kTraining;
  int64_t tick = 0;
  for (; tick < start; ++tick) {
    Receive(&node, Recorded().frames[tick], tick);
    Send(&node, tick, tick > 90);
  }
  Frames frames = Split(input);
  for (std::string& frame : frames) {
    if (!DecodesSafely(frame)) return false;
    Repair(node, (input[0] & 2) != 0, &frame);
    if (!DecodesSafely(frame)) return false;
  }
  const bool together = (input[0] & 1) != 0;
  if (together) Receive(&node, frames, tick);
  for (size_t i = 0; !together && i < frames.size(); ++i) {
    Receive(&node, {frames[i]}, tick);
    if (!node.GuardsIntact() || !node.Finite()) return false;
    if (node.Large()) return true;
    Send(&node, tick++, i % 2 == 0);
  }
  // The node continues to run in any resulting state.
  for (int i = 0; i < 12; ++i, tick += 7) {
    Receive(&node, {}, tick);
    Send(&node, tick, true);
  }
  return node.GuardsIntact() && (together || node.Large() || node.Finite());
}

}  // namespace millrace::fuzz
