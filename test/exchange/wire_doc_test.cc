// Checks docs/wire.md: field offsets in the tables, the drop reasons, and every byte of the
// examples.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/files/file.h"
#include "base/wire_bytes.h"
#include "exchange/kernels/codec.h"
#include "exchange/kernels/host_executor.h"
#include "exchange/kernels/sparse_gaps.h"
#include "exchange/protocol/frame.h"
#include "exchange/protocol/view.h"
#include "test/exchange/replica.h"
#include "test/support/doc_page.h"

namespace millrace {
namespace {

using test::Cells;
using test::FromHex;
using test::Section;

std::map<std::string, Section> Page() { return test::ReadDocPage("docs/wire.md"); }

struct Field {
  std::string name;
  size_t offset, bytes;
  std::string value;
};

// The fields of an example. They must be contiguous up to the frame's end.
std::vector<Field> Fields(const Section& section) {
  std::vector<Field> fields;
  size_t end = 0;
  for (const Cells& row : section.rows) {
    fields.push_back({row.at(2), std::stoul(row.at(0)), std::stoul(row.at(1)), row.at(3)});
    EXPECT_EQ(fields.back().offset, end) << row.at(2);
    end += fields.back().bytes;
  }
  EXPECT_EQ(end, section.bytes.size());
  return fields;
}

std::vector<double> Numbers(const std::string& list) {
  std::vector<double> numbers;
  std::istringstream in(list);
  for (std::string number; std::getline(in, number, ',');) numbers.push_back(std::stod(number));
  return numbers;
}

std::vector<double> AsDoubles(const float* values, size_t count) {
  return {values, values + count};
}

std::string ValueOf(const std::vector<Field>& fields, const std::string& name) {
  for (const Field& field : fields) {
    if (field.name == name) return field.value;
  }
  ADD_FAILURE() << "no field " << name;
  return "0";
}

uint64_t IntegerAt(const std::vector<std::byte>& bytes, const Field& field) {
  uint64_t value = 0;
  for (size_t i = field.bytes; i-- > 0;) {
    value = value << 8 | static_cast<uint8_t>(bytes[field.offset + i]);
  }
  return value;
}

std::map<std::string, uint64_t> AsTheProgramReadsIt(const FrameHeader& h) {
  return {{"type", static_cast<uint64_t>(h.type)},
          {"codec", static_cast<uint64_t>(h.codec)},
          {"flags", h.payload_unchecked | h.unsettled << 1 |
                        (h.sparse_form != SparseForm::kBitmap) << 2 |
                        (h.sparse_form == SparseForm::kShortGaps) << 3},
          {"run", h.run},
          {"source", h.source},
          {"destination", h.destination},
          {"incarnation", h.incarnation},
          {"epoch", h.view.epoch},
          {"coordinator", h.view.coordinator},
          {"ack_bytes", h.ack_bytes},
          {"chunk", h.chunk},
          {"coordinator_incarnation", h.view.incarnation},
          {"number", h.number},
          {"clock", h.clock},
          {"seq", h.seq},
          {"magic", kFrameMagic},
          {"version", kFrameVersion}};
}

// Checks that the header's table, the example's table, its bytes and the decoder agree.
FrameView DecodeExample(const Section& section, const std::vector<Field>& fields) {
  FrameView frame;
  EXPECT_EQ(DecodeFrame(section.bytes, &frame), DropReason::kNone);
  const auto read = AsTheProgramReadsIt(frame.header);
  const auto header = Page()["Header"].rows;
  EXPECT_EQ(header.size(), read.size() + 1);  // the checksum
  for (size_t i = 0; i < header.size(); ++i) {
    SCOPED_TRACE(fields[i].name);
    EXPECT_EQ(fields[i].name, header[i].at(2));
    EXPECT_EQ(fields[i].offset, std::stoul(header[i].at(0)));
    EXPECT_EQ(fields[i].bytes, std::stoul(header[i].at(1)));
    const uint64_t value = std::stoull(fields[i].value, nullptr, 0);
    EXPECT_EQ(IntegerAt(section.bytes, fields[i]), value);
    if (fields[i].name == "checksum") continue;
    EXPECT_EQ(read.at(fields[i].name), value);
  }
  // The encoder must write the same frame, checksum included.
  std::vector<std::byte> written(kFrameHeaderBytes + frame.acks.size());
  EncodeFrame(frame.header, frame.acks, frame.payload, written);
  written.insert(written.end(), frame.payload.begin(), frame.payload.end());
  EXPECT_EQ(written, section.bytes);
  return frame;
}

TEST(WireDoc, PositionIsWhatThePageSays) {
  const Section section = Page()["Example: position"];
  const auto fields = Fields(section);
  const FrameView frame = DecodeExample(section, fields);
  EXPECT_EQ(frame.header.type, FrameType::kPosition);
  ASSERT_EQ(frame.acks.size(), 8u);
  EXPECT_EQ(Get<uint64_t>(frame.acks.data(), 0), std::stoull(ValueOf(fields, "acks"), nullptr, 0));
  ASSERT_EQ(frame.payload.size(), 12u);
  test::Replica worker(3, 3);
  const auto executor = MakeHostExecutor(worker.arrays);
  ChunkOp adopt{.kind = ChunkOpKind::kLoad, .in_bytes = frame.header.length};
  adopt.in = frame.payload.data();
  executor->Run({&adopt, 1});
  EXPECT_EQ(AsDoubles(worker.arrays.weights, 3), Numbers(ValueOf(fields, "weights")));
}

TEST(WireDoc, DiffIsWhatThePageSays) {
  const Section section = Page()["Example: diff"];
  const auto fields = Fields(section);
  const FrameView frame = DecodeExample(section, fields);
  EXPECT_EQ(frame.header.type, FrameType::kDiff);
  EXPECT_EQ(frame.header.codec, Codec::kInt8);
  test::Replica master(3, 3);
  const auto executor = MakeHostExecutor(master.arrays);
  ChunkOp merge{
      .kind = ChunkOpKind::kMerge, .codec = frame.header.codec, .in_bytes = frame.header.length};
  merge.in = frame.payload.data();
  executor->Run({&merge, 1});
  EXPECT_EQ(merge.result, 0);
  std::vector<double> expected = Numbers(ValueOf(fields, "levels"));
  for (double& level : expected) level *= std::stod(ValueOf(fields, "scale"));
  EXPECT_EQ(AsDoubles(master.arrays.weights, 3), expected);
}

TEST(WireDoc, HeartbeatIsWhatThePageSays) {
  auto page = Page();
  const Section section = page["Example: heartbeat"];
  const auto fields = Fields(section);
  const FrameView frame = DecodeExample(section, fields);
  EXPECT_EQ(frame.header.type, FrameType::kHeartbeat);
  ASSERT_EQ(frame.acks.size(), 8u);
  EXPECT_EQ(Get<uint64_t>(frame.acks.data(), 0),
            std::stoull(ValueOf(fields, "report"), nullptr, 0));
  size_t at = page["Header"].rows.size() + 1;
  for (const char* heading : {"Heartbeat", "Propose, and the view in a heartbeat"}) {
    const size_t begin = fields[at].offset;
    for (const Cells& row : page[heading].rows) {
      if (row.at(2).empty()) break;
      SCOPED_TRACE(row.at(2));
      EXPECT_EQ(fields[at].name, row.at(2));
      EXPECT_EQ(fields[at].offset - begin, std::stoul(row.at(0)));
      EXPECT_EQ(fields[at].bytes, std::stoul(row.at(1)));
      EXPECT_EQ(IntegerAt(section.bytes, fields[at]), std::stoull(fields[at].value));
      ++at;
    }
  }
  View view;
  ASSERT_TRUE(DecodeView(frame.payload.subspan(32), 4, &view));
  EXPECT_EQ(view.id, frame.header.view);
  EXPECT_EQ(view.past_clock, 300u);
  std::vector<std::vector<double>> values;
  for (const ViewId& id : view.ancestors) {
    values.push_back({double(id.epoch), double(id.coordinator), double(id.incarnation)});
  }
  for (const Member& m : view.members) {
    values.push_back({double(m.node), double(m.role), double(m.incarnation), double(m.clock)});
  }
  ASSERT_EQ(fields.size(), at + values.size());
  for (const auto& value : values) EXPECT_EQ(Numbers(fields[at++].value), value);
}

TEST(WireDoc, CodecsMakeTheExamplesOfThePage) {
  const auto rows = Page()["Diff"].rows;
  ASSERT_EQ(rows.size(), std::size(test::kAllCodecs));
  for (Simd simd : test::SupportedSimd()) {
    for (size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE(rows[i].at(0));
      const Codec codec = test::kAllCodecs[i];
      const std::string& cell = rows[i].at(3);
      const auto payload = FromHex(cell.substr(1, cell.size() - 2));
      std::array<float, 3> weights{}, base{}, pending{};
      const ReplicaArrays arrays{weights.data(), base.data(), pending.data(), nullptr, 3, 3};
      const auto executor = MakeHostExecutor(arrays, {}, {}, simd);
      ChunkOp merge{.kind = ChunkOpKind::kMerge, .codec = codec};
      merge.in = payload.data();
      merge.in_bytes = static_cast<uint32_t>(payload.size());
      executor->Run({&merge, 1});
      ASSERT_EQ(merge.result, 0);
      EXPECT_EQ(AsDoubles(weights.data(), 3), Numbers(rows[i].at(4)));
      pending = weights;
      std::vector<std::byte> out(MaxPayloadBytes(3));
      ChunkOp encode{.kind = ChunkOpKind::kEncodePending, .codec = codec, .scale = 0.5f};
      encode.out = out.data();
      encode.out_bytes = static_cast<uint32_t>(out.size());
      executor->Run({&encode, 1});
      out.resize(encode.out_bytes);
      EXPECT_EQ(out, payload);
    }
  }
}

TEST(WireDoc, GapsMakeTheExampleOfThePage) {
  const Cells sparse = Page()["Diff"].rows.back();
  const auto payload = FromHex(sparse.at(3).substr(1, sparse.at(3).size() - 2));
  std::vector<std::byte> out(MaxPayloadBytes(3));
  uint32_t bytes = 0;
  EXPECT_EQ(WriteGaps(payload, 3, out, &bytes), SparseForm::kShortGaps);
  out.resize(bytes);
  const std::string text = ReadFile("docs/wire.md");
  const std::string before = "The sparse example by gaps, short: `";
  const size_t begin = text.find(before);
  ASSERT_NE(begin, std::string::npos);
  const size_t at = begin + before.size();
  EXPECT_EQ(out, FromHex(text.substr(at, text.find('`', at) - at)));
}

TEST(WireDoc, ListEntriesLieAsThePageSays) {
  const auto rows = Page()["Position acknowledgement, takeover request and acknowledgement"].rows;
  ASSERT_EQ(rows.size(), 2u);
  std::byte entry[kChunkNumberBytes];
  EncodeChunkNumber({0x01020304, 0x1112131415161718}, entry);
  EXPECT_EQ(Get<uint32_t>(entry, std::stoul(rows[0].at(0))), 0x01020304u);
  EXPECT_EQ(Get<uint64_t>(entry, std::stoul(rows[1].at(0))), 0x1112131415161718u);
  EXPECT_EQ(std::stoul(rows[1].at(0)) + std::stoul(rows[1].at(1)), kChunkNumberBytes);
}

TEST(WireDoc, ThePageNamesAllDropReasons) {
  std::set<std::string> documented, counted;
  const auto rows = Page()["Checks"].rows;
  for (const Cells& row : rows) documented.insert(row.at(0));
  for (const DropReason reason : DropReasonsOf(DropComponent::kExchange)) {
    counted.insert(DropReasonName(reason));
  }
  EXPECT_EQ(documented, counted);
}

TEST(WireDoc, LimitsFollowFromTheSizes) {
  const auto rows = Page()["Limits"].rows;
  ASSERT_FALSE(rows.empty());
  constexpr size_t kStatusBytes = 32;
  View view;
  view.ancestors.resize(View::kAncestors);
  for (const Cells& row : rows) {
    const size_t room = std::stoul(row.at(2)), members = std::stoul(row.at(4));
    EXPECT_EQ((room - kFrameHeaderBytes - 8 * AckWords(64)) / 4, std::stoul(row.at(3)));
    constexpr size_t kBefore = kFrameHeaderBytes + 8 * AckWords(64) + kStatusBytes;
    view.members.resize(members);
    EXPECT_LE(kBefore + ViewBytes(view), room);
    view.members.resize(members + 1);
    EXPECT_GT(kBefore + ViewBytes(view), room);
  }
}

}  // namespace
}  // namespace millrace
