// Checks docs/handshake.md against the program: the fields of the tables, the drop reasons, and
// every byte of the example.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/wire_bytes.h"
#include "exchange/protocol/frame.h"
#include "segment/auth/frame_auth.h"
#include "segment/auth/key_file.h"
#include "segment/handshake/handshake_message.h"
#include "test/segment/doc_example.h"
#include "test/sim/handshake_cluster.h"
#include "test/support/doc_page.h"

namespace millrace {
namespace {

using test::Cells;
using test::IntegerOf;
using test::Section;
using test::ValueOf;

std::map<std::string, Section> HandshakePage() { return test::ReadDocPage("docs/handshake.md"); }

Nonce NonceOf(const Section& section, const std::string& field) {
  Nonce nonce{};
  const auto bytes = test::FromHex(ValueOf(section, field));
  EXPECT_EQ(bytes.size(), nonce.size());
  std::copy(bytes.begin(), bytes.end(), nonce.begin());
  return nonce;
}

TEST(HandshakeDoc, TheExampleIsWhatThePageSays) {
  const Section example = HandshakePage()["Example"];
  HandshakeMessage in;
  ASSERT_EQ(DecodeHandshake(example.bytes, &in), DropReason::kNone);
  EXPECT_EQ((in.wants_answer ? 1u : 0u) + (in.keyed ? 2u : 0u), IntegerOf(example, "flags"));
  EXPECT_EQ(in.settings.frame_version, IntegerOf(example, "frame_version"));
  EXPECT_EQ(in.name.size(), IntegerOf(example, "name_bytes"));
  EXPECT_EQ(in.run, IntegerOf(example, "run"));
  EXPECT_EQ(in.source, IntegerOf(example, "source"));
  EXPECT_EQ(in.destination, IntegerOf(example, "destination"));
  EXPECT_EQ(in.incarnation, IntegerOf(example, "incarnation"));
  EXPECT_EQ(in.settings.max_nodes, IntegerOf(example, "max_nodes"));
  EXPECT_EQ(in.settings.chunk_floats, IntegerOf(example, "chunk_floats"));
  EXPECT_EQ(in.settings.parameters, IntegerOf(example, "parameters"));
  EXPECT_EQ(in.settings.layout_digest, IntegerOf(example, "layout_digest"));
  EXPECT_EQ(in.settings.max_iter, IntegerOf(example, "max_iter"));
  EXPECT_EQ(in.settings.topology_digest, IntegerOf(example, "topology_digest"));
  EXPECT_EQ(in.session_id, NonceOf(example, "session_id"));
  EXPECT_EQ(in.challenge, NonceOf(example, "challenge"));
  EXPECT_EQ(in.echo, NonceOf(example, "echo"));
  EXPECT_EQ(in.known, NonceOf(example, "known"));
  EXPECT_EQ(in.known_incarnation, IntegerOf(example, "known_incarnation"));
  EXPECT_EQ(in.name, ValueOf(example, "name"));
  // The program encodes the same frame, checksum and tag included.
  HandshakeBytes written;
  EncodeHandshake(in, &written);
  HmacSha256 mac(HandshakeKey(sim::KeyOf(1), in.run));
  mac.Make(std::span(written).first(kHandshakeTagged), std::span(written).last<kTagBytes>());
  EXPECT_EQ(std::vector(written.begin(), written.end()), example.bytes);
  const auto tag = test::FromHex(ValueOf(example, "tag"));
  EXPECT_EQ(std::vector(written.end() - kTagBytes, written.end()), tag);
}

TEST(HandshakeDoc, TheExampleLiesAsTheTableSays) {
  auto page = HandshakePage();
  test::ExpectLiesAs(page["Handshake message"].rows, page["Example"], kHandshakeBytes);
}

std::set<std::string> Reasons(const Section& section) {
  std::set<std::string> reasons;
  for (const Cells& row : section.rows) {
    if (row.size() == 2) reasons.insert(row.at(0));
  }
  return reasons;
}

TEST(HandshakeDoc, ThePageNamesAllReasons) {
  auto page = HandshakePage();
  std::set<std::string> drops;
  for (const DropReason reason : DropReasonsOf(DropComponent::kHandshake)) {
    drops.insert(DropReasonName(reason));
  }
  EXPECT_EQ(Reasons(page["Checks"]), drops);
  // The drops of VerifyResult, except kVerified.
  EXPECT_EQ(Reasons(page["Trailer"]), (std::set<std::string>{"no_session", "bad_tag", "replayed"}));
}

TEST(HandshakeDoc, ATrailerIsAsThePageSays) {
  const auto rows = HandshakePage()["Trailer"].rows;
  ASSERT_GE(rows.size(), 2u);
  const size_t at_tag = std::stoul(rows[1].at(0));
  EXPECT_EQ(at_tag, std::stoul(rows[0].at(1)));
  EXPECT_EQ(at_tag + std::stoul(rows[1].at(1)), kFrameTagBytes);
  const SecretKey key = sim::KeyOf(1);
  const Nonce session_id = {std::byte{1}};
  const std::array<std::byte, 64> header{};
  std::array<std::byte, kFrameTagBytes> trailer;
  FrameSigner signer(key, 5, 2, session_id);
  signer.Sign(header, {}, trailer);
  EXPECT_EQ(Get<uint64_t>(trailer.data(), 0), 1u);
  // The info input of the key derivation, as the page specifies it.
  std::string info = "millrace frames 1";
  info.append("\5\0\0\0\0\0\0\0\2\0", 10).append("\1", 1).append(15, '\0');
  Tag tag;
  Gmac(DeriveKey(key, std::as_bytes(std::span(info)))).Make(1, header, {}, tag);
  EXPECT_TRUE(SameTag(tag, std::span(trailer).last<kTagBytes>()));
}

}  // namespace
}  // namespace millrace
