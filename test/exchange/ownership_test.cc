#include "exchange/protocol/ownership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "test/support/support.h"

namespace millrace {
namespace {

View ViewOf(const std::vector<uint16_t>& synced) {
  View view;
  view.id = {1, 0};
  for (const uint16_t node : synced) view.members.push_back({node, Role::kSynced, 1, 0});
  return view;
}

std::vector<uint16_t> Owners(const View& view, size_t chunks) {
  std::vector<uint16_t> owners(chunks, 12345);
  AssignOwners(view, owners);
  return owners;
}

std::vector<uint16_t> UpTo(uint16_t count) {
  std::vector<uint16_t> nodes;
  for (uint16_t node = 0; node < count; ++node) nodes.push_back(node);
  return nodes;
}

TEST(Ownership, GivesNobodyMoreThanItsShareRoundedUp) {
  Rng rng(test::Seed(), {1});
  for (int i = 0; i < 200; ++i) {
    const uint16_t nodes = static_cast<uint16_t>(1 + rng.Below(70));
    const size_t chunks = 1 + rng.Below(1000);
    const auto owners = Owners(ViewOf(UpTo(nodes)), chunks);
    const auto share = static_cast<int64_t>((chunks + nodes - 1) / nodes);
    for (uint16_t node = 0; node < nodes; ++node) {
      EXPECT_LE(std::count(owners.begin(), owners.end(), node), share);
    }
    EXPECT_EQ(std::count_if(owners.begin(), owners.end(), [&](uint16_t o) { return o >= nodes; }),
              0);
  }
}

TEST(Ownership, DependsOnTheSyncedMembersAndNothingElse) {
  const View plain = ViewOf({1, 4, 9});
  View other = plain;
  other.id = {77, 4};
  other.past_clock = 5;
  other.ancestors = {{76, 1}};
  for (Member& member : other.members) member.incarnation = 8, member.clock = 123;
  other.members.insert(other.members.begin() + 1, {2, Role::kJoining, 1, 0});
  other.members.push_back({11, Role::kLeaving, 1, 0});
  EXPECT_EQ(Owners(plain, 500), Owners(other, 500));
  EXPECT_EQ(Owners(plain, 500), Owners(plain, 500));
}

TEST(Ownership, IsNobodysWhileNobodyIsSynced) {
  View view;
  view.members = {{0, Role::kJoining, 1, 0}, {1, Role::kLeaving, 1, 0}};
  for (const uint16_t owner : Owners(view, 10)) EXPECT_EQ(owner, kNoNode);
}

// Plain rendezvous hashing moves only the chunks of the leaving member. The bound on a member's
// share moves more: chunks that a full member had turned away, and chunks that one turns away
// now. These stay below a quarter of all chunks.
TEST(Ownership, MovesFewChunksButThoseOfTheMemberThatLeaves) {
  for (const uint16_t nodes : {3, 5, 8, 16, 40}) {
    for (const size_t chunks : {200, 1000}) {
      const auto before = Owners(ViewOf(UpTo(nodes)), chunks);
      for (uint16_t gone = 0; gone < nodes; ++gone) {
        auto rest = UpTo(nodes);
        rest.erase(rest.begin() + gone);
        const auto after = Owners(ViewOf(rest), chunks);
        size_t moved = 0;
        for (size_t chunk = 0; chunk < chunks; ++chunk) {
          moved += before[chunk] != gone && before[chunk] != after[chunk];
        }
        EXPECT_LE(moved, chunks / 4)
            << nodes << " nodes, " << chunks << " chunks, without " << gone;
      }
    }
  }
}

}  // namespace
}  // namespace millrace
