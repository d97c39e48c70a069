// Message exchanges of the protocol as text: test/sim/transcripts/NAME.txt. A file is a list of
// commands, each with the output that it must have. MILLRACE_WRITE_TRANSCRIPTS=1 writes the present
// output into the files.
//
//   # comment
//   command key=value ...
//   ----
//   output, until an empty line
//
//   cluster nodes=2 weights=4 chunk=2 joined=yes damping=no    begins with such a cluster
//   run ticks=20 heartbeats=no    lets time pass; prints frames and changes of view
//   add node=1 weight=0 value=3   progress of a solver, one iteration
//   lose type=diff from=1 to=0 count=1    the next frames of a type are lost on this way
//   stop node=1, resume node=1    a node that neither receives nor sends
//   leave node=1                  leaves gracefully
//   flush                         training has ended: nodes send what they hold back
//   weights                       prints the weights of all nodes
//   masters                       prints the master of each chunk
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/file.h"
#include "test/sim/cluster.h"
#include "test/support/support.h"

namespace millrace::sim {
namespace {

constexpr const char* kFolder = "test/sim/transcripts";

// The words of a command: its name and its settings.
struct Command {
  std::string name;
  std::map<std::string, std::string> settings;

  std::string Text(const std::string& key, const std::string& otherwise) const {
    const auto found = settings.find(key);
    return found == settings.end() ? otherwise : found->second;
  }
  int Number(const std::string& key, int otherwise) const {
    return std::stoi(Text(key, std::to_string(otherwise)));
  }
  bool Is(const std::string& key, bool otherwise) const {
    return Text(key, otherwise ? "yes" : "no") == "yes";
  }
};

Command ParseCommand(const std::string& line) {
  Command command;
  std::istringstream words(line);
  words >> command.name;
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) throw Error("'", word, "' in: ", line);
    command.settings[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return command;
}

std::string FloatsText(std::span<const std::byte> payload) {
  std::string text;
  for (size_t at = 0; at + sizeof(float) <= payload.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, payload.data() + at, sizeof(value));
    text += StrCat(" ", value);
  }
  return text;
}

std::string ChunksText(std::span<const std::byte> payload) {
  std::string text;
  for (size_t at = 0; at + kChunkNumberBytes <= payload.size(); at += kChunkNumberBytes) {
    const ChunkNumber entry = DecodeChunkNumber(payload.data() + at);
    text += StrCat(text.empty() ? " " : ", ", "chunk ", entry.chunk, " number ", entry.number);
  }
  return text;
}

// A frame in one line, without its sender and receiver.
std::string FrameText(const FrameView& frame) {
  const FrameHeader& header = frame.header;
  const std::string name = FrameTypeName(header.type);
  switch (header.type) {
    case FrameType::kPosition:
    case FrameType::kTakeoverState: {
      std::string acks;
      for (uint16_t node = 0; node < 8 * header.ack_bytes; ++node) {
        if (TestBit(frame.acks, node)) acks += StrCat(" ", node);
      }
      return StrCat(name, " ", header.number, " of chunk ", header.chunk, ":",
                    FloatsText(frame.payload), acks.empty() ? "" : ", has the diffs of" + acks);
    }
    case FrameType::kDiff:
      return StrCat(name, " ", header.seq, " of chunk ", header.chunk, " after position ",
                    header.number, ":", FloatsText(frame.payload));
    case FrameType::kPositionAck:
    case FrameType::kTakeoverRequest:
    case FrameType::kTakeoverAck:
      return name + ":" + ChunksText(frame.payload);
    default:
      return StrCat(name, ", view ", header.view.epoch, "/", header.view.coordinator);
  }
}

std::string MembersText(const View& view) {
  static constexpr const char* kRoles[] = {"joining", "in sync", "leaving"};
  std::string text;
  for (const Member& member : view.members) {
    text += StrCat(
        text.empty() ? "" : ", ", "node ", member.node, " (", kRoles[static_cast<int>(member.role)],
        member.incarnation == 1 ? "" : StrCat(", incarnation ", member.incarnation), ")");
  }
  return StrCat(view.id.epoch, "/", view.id.coordinator, ": ", text);
}

// Runs commands on a cluster.
class Player {
 public:
  std::string Play(const Command& command) {
    output_.clear();
    const auto node = static_cast<size_t>(command.Number("node", 0));
    if (command.name == "cluster") {
      Begin(command);
    } else if (command.name == "run") {
      heartbeats_ = command.Is("heartbeats", false);
      for (int tick = command.Number("ticks", 1); tick > 0; --tick) Tick();
    } else if (command.name == "add") {
      cluster_->Add(node, command.Number("weight", 0),
                    static_cast<float>(command.Number("value", 1)));
    } else if (command.name == "lose") {
      losses_.push_back({command.Text("type", ""), command.Number("from", 0),
                         command.Number("to", 1), command.Number("count", 1)});
    } else if (command.name == "stop" || command.name == "resume") {
      (*cluster_)[node].stopped = command.name == "stop";
    } else if (command.name == "leave") {
      cluster_->exchange(node).Leave();
    } else if (command.name == "flush") {
      for (size_t i = 0; i < cluster_->size(); ++i) cluster_->exchange(i).Flush();
    } else if (command.name == "weights") {
      for (size_t i = 0; i < cluster_->size(); ++i) {
        output_ += StrCat("node ", i, ":",
                          FloatsText(std::as_bytes(std::span((*cluster_)[i].weights))), "\n");
      }
    } else if (command.name == "masters") {
      for (uint32_t chunk = 0; chunk < cluster_->chunks(); ++chunk) {
        output_ += StrCat("chunk ", chunk, ": node ", cluster_->owner(chunk), "\n");
      }
    } else {
      throw Error("there is no command '", command.name, "'");
    }
    return output_;
  }

 private:
  struct Loss {
    std::string type;
    int from, to, count;
  };
  // A frame of the present tick with those that it was sent to.
  struct Sent {
    uint16_t from;
    std::string text;
    std::string to, lost;
  };

  void Begin(const Command& command) {
    cluster_ = std::make_unique<Cluster>(
        ClusterOptions{.nodes = static_cast<uint16_t>(command.Number("nodes", 2)),
                       .size = command.Number("weights", 4),
                       .chunk_floats = command.Number("chunk", 2),
                       .damping = command.Is("damping", false),
                       .joined = command.Is("joined", true)});
    losses_.clear();
    sent_.clear();
    begin_ = cluster_->tick();
    cluster_->delivers = [this](NodeId from, NodeId to, const FrameBytes& bytes) {
      return Record(from, to, bytes);
    };
    views_.clear();
    for (size_t i = 0; i < cluster_->size(); ++i) {
      views_.push_back(cluster_->exchange(i).view().id);
    }
  }

  bool Record(NodeId from, NodeId to, const FrameBytes& bytes) {
    const FrameView frame = bytes.decoded();
    const std::string name = FrameTypeName(frame.header.type);
    bool is_lost = false;
    for (Loss& loss : losses_) {
      if (loss.count == 0 || loss.type != name || loss.from != from || loss.to != to) continue;
      --loss.count;
      is_lost = true;
      break;
    }
    if (frame.header.type == FrameType::kHeartbeat && !heartbeats_) return !is_lost;
    const std::string text = FrameText(frame);
    if (sent_.empty() || sent_.back().from != from || sent_.back().text != text) {
      sent_.push_back({from, text, "", ""});
    }
    sent_.back().to += StrCat(" ", to);
    if (is_lost) sent_.back().lost += StrCat(" ", to);
    return !is_lost;
  }

  void Tick() {
    const int64_t tick = cluster_->tick() - begin_;
    cluster_->Tick();
    for (const Sent& sent : sent_) {
      output_ += StrCat(tick, ": ", sent.from, " ->", sent.to, "  ", sent.text,
                        sent.lost.empty() ? "" : StrCat("  (lost to", sent.lost, ")"), "\n");
    }
    sent_.clear();
    for (size_t i = 0; i < cluster_->size(); ++i) {
      const View& view = cluster_->exchange(i).view();
      if (view.id == views_[i]) continue;
      views_[i] = view.id;
      output_ += StrCat(tick, ": node ", i, " has view ", MembersText(view), "\n");
    }
  }

  std::unique_ptr<Cluster> cluster_;
  std::vector<Loss> losses_;
  std::vector<Sent> sent_;
  std::vector<ViewId> views_;  // by node, at the end of the last tick
  int64_t begin_ = 0;          // tick at which the cluster began
  bool heartbeats_ = false;    // are printed
  std::string output_;
};

// Plays a file, and returns it with the output that its commands have.
std::string Played(const std::string& text) {
  std::string result;
  Player player;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    result += line + "\n";
    if (line.empty() || line[0] == '#') continue;
    const std::string output = player.Play(ParseCommand(line));
    std::string next;
    const auto at = lines.tellg();
    if (std::getline(lines, next) && next == "----") {
      while (std::getline(lines, next) && !next.empty()) continue;
      if (output.empty()) throw Error("no output of: ", line);
    } else {
      lines.clear();
      lines.seekg(at);
      if (output.empty()) continue;
    }
    result += "----\n" + output + "\n";
  }
  return result;
}

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Transcript : public testing::TestWithParam<std::string> {};

TEST_P(Transcript, IsWhatTheProtocolDoes) {
  const std::string file = StrCat(kFolder, "/", GetParam(), ".txt");
  const std::string text = ReadFile(file);
  const std::string played = Played(text);
  if (std::getenv("MILLRACE_WRITE_TRANSCRIPTS") != nullptr) test::WriteFile(file, played);
  EXPECT_EQ(text, played) << file << ", line by line";
}

INSTANTIATE_TEST_SUITE_P(All, Transcript, testing::ValuesIn(Transcripts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace millrace::sim
