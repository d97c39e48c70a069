// What a minibatch service and its workers read: frames, in parts as a connection gives them, with
// what is in them; and the state file of a service.
#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "batches/frames.h"
#include "batches/ledger_file.h"
#include "batches/service_address.h"
#include "test/fuzz/support/fuzz.h"

namespace millrace::fuzz {
namespace {

constexpr uint64_t kMaxValues = 64;

std::vector<FrameDecoder::Frame> Decode(const std::string& input, size_t part, bool* is_broken) {
  FrameDecoder decoder;
  decoder.ExpectBatches(kBatchHeaderBytes + kMaxValues);
  std::vector<FrameDecoder::Frame> frames;
  for (size_t at = 0; at < input.size(); at += part) {
    std::string_view rest = std::string_view(input).substr(at, part);
    while (auto frame = decoder.Take(&rest)) frames.push_back(*frame);
  }
  *is_broken = decoder.is_broken();
  return frames;
}

// Whether what a frame says is within its bounds.
bool IsBounded(const FrameDecoder::Frame& frame) {
  if (frame.payload.size() > kMaxMessageBytes) return false;
  if (const auto number = ParseNumberPayload(frame.payload)) {
    if (*number > kMaxBatchNumber) return false;
  }
  if (const auto batch = ParseBatchHeader(frame.payload)) {
    if (batch->number > kMaxBatchNumber || batch->batch > kMaxBatchNumber) return false;
  }
  (void)ParseChallenge(frame.payload);
  const SecretKey key;
  (void)CheckTagged(&key, Speaker::kService, {}, frame.payload);
  for (const size_t skipped : {size_t{0}, kTagBytes}) {
    if (frame.payload.size() < skipped) continue;
    batch_api::Welcome welcome;
    if (!welcome.ParseFromString(frame.payload.substr(skipped))) continue;
    if (!IsConsistent(welcome)) continue;
    if (ValuesBytes(welcome) > kMaxBatchBytes) return false;
    if (welcome.offset() + ValuesBytes(welcome) > welcome.slot_bytes()) return false;
  }
  return true;
}

bool FramesAreRight(const std::string& input) {
  bool is_broken = false;
  const auto whole = Decode(input, std::max<size_t>(input.size(), 1), &is_broken);
  std::string again;
  for (const FrameDecoder::Frame& frame : whole) {
    if (!IsBounded(frame)) return false;
    again += MakeFrame(frame.kind, frame.payload);
  }
  if (!input.starts_with(again)) return false;
  for (const size_t part : {size_t{1}, size_t{7}}) {
    bool other_broken = false;
    const auto parts = Decode(input, part, &other_broken);
    if (parts.size() != whole.size() || other_broken != is_broken) return false;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].kind != whole[i].kind || parts[i].payload != whole[i].payload) return false;
    }
  }
  return true;
}

std::string TextOf(const Ledger& ledger) {
  std::string text = LedgerHeader(0, 0);
  ledger.ForEachEvent([&](const LedgerEvent& event) { text += LedgerRecord(event); });
  return text;
}

bool LedgerIsRight(const std::string& input) {
  try {
    const auto parsed = ParseLedger(input, "state");
    if (!parsed) return true;
    if (parsed->used_bytes > input.size()) return false;
    const std::string text = TextOf(parsed->ledger);
    const auto again = ParseLedger(text, "state");
    return again && again->used_bytes == text.size() && TextOf(again->ledger) == text;
  } catch (const Error& error) {
    return std::string(error.what()).starts_with("state: record ");
  }
}

}  // namespace

std::vector<std::string> Corpus() {
  batch_api::Welcome welcome;
  welcome.set_layer("data");
  welcome.set_batch_size(2);
  welcome.add_top()->add_dim(2);
  welcome.set_credit(4);
  welcome.set_timeout_ms(1000);
  welcome.set_slots(3);
  welcome.set_slot_bytes(64);
  const SecretKey key;
  const std::string message = welcome.SerializeAsString();
  std::string records = LedgerHeader(5, 0);
  Ledger recorded(0, [&](const LedgerEvent& event) { records += LedgerRecord(event); });
  for (uint64_t n = 0; n < 6; ++n) recorded.Take(1 + n % 2, n);
  recorded.Consume(1, 0);
  recorded.ReturnAll(2);
  return {MakeChallenge({kBatchProtocolVersion, true, {}}) +
              MakeFrame(FrameKind::kWelcome, MakeTagged(&key, Speaker::kService, {}, message)),
          MakeFrame(FrameKind::kWelcome, MakeTagged(nullptr, Speaker::kService, {}, message)),
          MakeFrame(FrameKind::kWant, 1) + MakeFrame(FrameKind::kRelease, 2) +
              MakeFrame(FrameKind::kPing) + MakeFrame(FrameKind::kBye),
          MakeBatchFrame({1, 2, 3}, 0) + MakeBatchFrame({4, 5}, 8) + "12345678",
          records,
          TextOf(recorded),
          "//127.0.0.1:7700/train/data?key_file=k&wait=1&memory=off"};
}

bool Target(const std::string& input) {
  try {
    const ServiceAddress address = ParseServiceAddress(input);
    if (address.name.empty() || address.host_and_port.empty()) return false;
  } catch (const Error&) {
  }
  return FramesAreRight(input) && LedgerIsRight(input);
}

}  // namespace millrace::fuzz
