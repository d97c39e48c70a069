#include "exchange/protocol/view.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"
#include "base/wire_bytes.h"
#include "test/support/support.h"

namespace millrace {
namespace {

constexpr uint16_t kNodes = 40;

ViewId AnyId(Rng* rng) {
  return {static_cast<uint32_t>(rng->Below(uint64_t{kMaxEpoch} + 1)),
          static_cast<uint16_t>(rng->Next()), rng->Next()};
}

View AnyView(Rng* rng) {
  View view;
  view.id = AnyId(rng);
  view.past_clock = rng->Below(kMaxClock + 1);
  const size_t ancestors = rng->Below(View::kAncestors + 1);
  for (size_t i = 0; i < ancestors; ++i) {
    view.ancestors.push_back(AnyId(rng));
  }
  for (uint16_t node = 0; node < kNodes; ++node) {
    if (rng->Below(3) > 0) continue;
    view.members.push_back(
        {node, static_cast<Role>(rng->Below(3)), rng->Next(), rng->Below(kMaxClock + 1)});
  }
  return view;
}

std::vector<std::byte> Encoded(const View& view) {
  std::vector<std::byte> bytes(ViewBytes(view));
  EncodeView(view, bytes.data());
  return bytes;
}

bool Decodes(const std::vector<std::byte>& bytes, uint16_t max_nodes = kNodes) {
  View view;
  return DecodeView(bytes, max_nodes, &view);
}

View WithMembers(std::vector<Member> members) {
  View view;
  view.id = {3, 1};
  view.ancestors = {{2, 0}, {1, 5}};
  view.members = std::move(members);
  return view;
}

TEST(View, KeepsAllThatItHolds) {
  Rng rng(test::Seed(), {1});
  View decoded = AnyView(&rng);  // its previous content does not matter
  for (int i = 0; i < 500; ++i) {
    const View view = AnyView(&rng);
    ASSERT_TRUE(DecodeView(Encoded(view), kNodes, &decoded));
    EXPECT_EQ(decoded.id, view.id);
    EXPECT_EQ(decoded.ancestors, view.ancestors);
    EXPECT_EQ(decoded.past_clock, view.past_clock);
    EXPECT_EQ(decoded.members, view.members);
    EXPECT_LE(ViewBytes(view), MaxViewBytes(kNodes));
  }
}

TEST(View, RefusesEveryTruncationAndEveryExtension) {
  Rng rng(test::Seed(), {2});
  auto bytes = Encoded(AnyView(&rng));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Decodes({bytes.begin(), bytes.begin() + size})) << size;
  }
  bytes.push_back({});
  EXPECT_FALSE(Decodes(bytes));
}

TEST(View, RefusesMembersThatAreOutOfOrderOrNamedTwice) {
  EXPECT_TRUE(Decodes(Encoded(WithMembers({{1, Role::kSynced, 1, 0}, {2, Role::kSynced, 1, 0}}))));
  EXPECT_FALSE(Decodes(Encoded(WithMembers({{2, Role::kSynced, 1, 0}, {1, Role::kSynced, 1, 0}}))));
  EXPECT_FALSE(Decodes(Encoded(WithMembers({{2, Role::kSynced, 1, 0}, {2, Role::kSynced, 2, 0}}))));
}

TEST(View, RefusesNodesAndRolesThatDoNotExist) {
  EXPECT_TRUE(Decodes(Encoded(WithMembers({{7, Role::kLeaving, 1, 0}})), 8));
  EXPECT_FALSE(Decodes(Encoded(WithMembers({{8, Role::kLeaving, 1, 0}})), 8));
  EXPECT_FALSE(Decodes(Encoded(WithMembers({{7, static_cast<Role>(3), 1, 0}})), 8));
}

TEST(View, RefusesCountsThatNoNodeReaches) {
  EXPECT_TRUE(Decodes(Encoded(WithMembers({{1, Role::kSynced, 1, kMaxClock}}))));
  EXPECT_FALSE(Decodes(Encoded(WithMembers({{1, Role::kSynced, 1, kMaxClock + 1}}))));
  View view = WithMembers({});
  view.past_clock = kMaxClock + 1;
  EXPECT_FALSE(Decodes(Encoded(view)));
}

TEST(View, RefusesMoreMembersOrAncestorsThanThereCanBe) {
  const auto two = WithMembers({{0, Role::kSynced, 1, 0}, {1, Role::kSynced, 1, 0}});
  EXPECT_FALSE(Decodes(Encoded(two), 1));
  View old = two;
  old.ancestors.assign(View::kAncestors, {1, 1});
  EXPECT_TRUE(Decodes(Encoded(old)));
  old.ancestors.push_back({1, 1});
  EXPECT_FALSE(Decodes(Encoded(old)));
}

TEST(View, RefusesWhatIsNotZeroWhereNothingIs) {
  auto bytes = Encoded(WithMembers({}));
  ASSERT_TRUE(Decodes(bytes));
  Put<uint16_t>(bytes.data(), 18, 1);
  EXPECT_FALSE(Decodes(bytes));
}

TEST(View, FindsMembersByNodeAndByIncarnation) {
  const auto view = WithMembers({{1, Role::kSynced, 10, 0}, {5, Role::kJoining, 20, 0}});
  EXPECT_EQ(view.Find(5)->incarnation, 20u);
  EXPECT_EQ(view.Find(0), nullptr);
  EXPECT_EQ(view.Find(3), nullptr);
  EXPECT_EQ(view.Find(6), nullptr);
  EXPECT_TRUE(view.Has(1, 10));
  EXPECT_FALSE(view.Has(1, 11));
  EXPECT_EQ(view.synced(), 1u);
}

TEST(View, KnowsItsPredecessorAndTheOthersItGoesBackTo) {
  const auto view = WithMembers({});
  EXPECT_EQ(view.predecessor(), (ViewId{2, 0}));
  EXPECT_TRUE(view.DescendsFrom({2, 0}));
  EXPECT_TRUE(view.DescendsFrom({1, 5}));
  EXPECT_FALSE(view.DescendsFrom({2, 5}));
  EXPECT_FALSE(view.DescendsFrom(view.id));
  EXPECT_FALSE(View().predecessor());
}

}  // namespace
}  // namespace millrace
