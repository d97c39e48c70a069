#include "exchange/protocol/peer_metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "test/sim/cluster.h"
#include "test/support/support.h"

namespace millrace {
namespace {

using sim::Cluster;
using sim::FrameBytes;
using sim::kTickNs;

// Node 1 owns chunks 0, 1 and 2, node 2 owns 3 and 4, this node (0) owns 5.
ChunkTable SixChunks() {
  ChunkTable table(6, 3);
  for (uint32_t chunk = 0; chunk < 6; ++chunk) {
    table.chunks[chunk].owner = chunk < 3 ? 1 : chunk < 5 ? 2 : 0;
  }
  return table;
}

TEST(PeerMetrics, CountASweepWhenEveryChunkWasExchangedSinceTheLastOne) {
  ChunkTable table = SixChunks();
  PeerMetrics metrics(3, 6);
  metrics.BeginSweeps(&table, false);
  const auto take = [&](std::initializer_list<uint32_t> chunks) {
    for (const uint32_t chunk : chunks) metrics.TakenPosition(&table.chunks[chunk]);
  };
  const auto expect = [&](double all, double one, double two) {
    EXPECT_NEAR(metrics.sweeps(), all, 1e-12);
    EXPECT_NEAR(metrics.peer(1).sweeps, one, 1e-12);
    EXPECT_NEAR(metrics.peer(2).sweeps, two, 1e-12);
  };
  take({0, 0, 0});  // repeated exchanges of a chunk count once
  expect(1.0 / 6, 1.0 / 3, 0);
  take({1, 2, 3});
  expect(4.0 / 6, 1, 0.5);
  take({2, 4});
  expect(5.0 / 6, 4.0 / 3, 1);
  metrics.SentPosition(&table.chunks[5]);
  expect(1, 4.0 / 3, 1);
  metrics.SentPosition(&table.chunks[5]);
  take({2});  // node 1's second sweep already contains it
  expect(4.0 / 3, 4.0 / 3, 1);
  for (int sweep = 0; sweep < 10; ++sweep) {
    for (uint32_t chunk = 0; chunk < 5; ++chunk) take({chunk});
    metrics.SentPosition(&table.chunks[5]);
  }
  // In the first of the ten, the sweep that already had chunks 2 and 5 took four more.
  expect((8 + 5 + 9 * 6) / 6.0, 10 + 4.0 / 3, 11);
}

TEST(PeerMetrics, BeginPeersSweepsAnewWhenTheirChunksChange) {
  ChunkTable table = SixChunks();
  PeerMetrics metrics(3, 6);
  metrics.BeginSweeps(&table, false);
  metrics.TakenPosition(&table.chunks[0]);
  table.chunks[2].owner = 2;
  metrics.BeginSweeps(&table, false);
  EXPECT_NEAR(metrics.peer(1).sweeps, 1.0 / 3, 1e-12);
  metrics.TakenPosition(&table.chunks[0]);  // repeated; the total sweep already contains it
  EXPECT_NEAR(metrics.sweeps(), 1.0 / 6, 1e-12);
  metrics.TakenPosition(&table.chunks[1]);
  EXPECT_NEAR(metrics.peer(1).sweeps, 1.0 / 3 + 1, 1e-12);
  for (const uint32_t chunk : {2, 3, 4}) metrics.TakenPosition(&table.chunks[chunk]);
  EXPECT_NEAR(metrics.peer(2).sweeps, 1, 1e-12);
  EXPECT_NEAR(metrics.sweeps(), 5.0 / 6, 1e-12);
}

// Counts the frames between three nodes with loss and compares at the end.
TEST(PeerMetrics, CountWhatWentToAndCameFromEachPeer) {
  Cluster x({.nodes = 3, .joined = false});
  struct Traffic {
    uint64_t frames = 0, bytes = 0;
  };
  std::map<std::pair<int, int>, Traffic> offered, delivered;
  int count = 0;
  x.delivers = [&](uint16_t, uint16_t to, const FrameBytes& frame) {
    const std::pair<int, int> link(FrameSource(frame.view()), to);
    const auto add = [&](Traffic* traffic) {
      ++traffic->frames;
      traffic->bytes += frame.view().size();
    };
    add(&offered[link]);
    if (++count % 7 == 0) return false;
    add(&delivered[link]);
    return true;
  };
  x.Settle();
  for (int tick = 0; tick < 300; ++tick) {
    for (const size_t node : {0, 1, 2}) x.Add(node, (7 * tick + 20 * node) % 60, 1);
    x.Tick();
  }
  // Delivers the frames in flight; no new frames are sent.
  for (size_t node = 0; node < 3; ++node) {
    const auto last = x.network().Arrived(node, x.tick());
    x.exchange(node).Receive(sim::ViewsOf(last), x.now());
  }
  uint64_t drops = 0;
  for (const int node : {0, 1, 2}) {
    const ExchangeStats& stats = x.exchange(node).stats();
    PeerStats sum;
    for (const int peer : {0, 1, 2}) {
      const PeerStats found = x.exchange(node).metrics().peer(peer);
      if (peer != node) {
        EXPECT_EQ(found.frames_out, (offered[{node, peer}].frames)) << node << peer;
        EXPECT_EQ(found.bytes_out, (offered[{node, peer}].bytes)) << node << peer;
        EXPECT_EQ(found.frames_in, (delivered[{peer, node}].frames)) << node << peer;
        EXPECT_EQ(found.bytes_in, (delivered[{peer, node}].bytes)) << node << peer;
        EXPECT_GT(found.sweeps, 2);
        EXPECT_LE(found.round_trip.count(), found.diffs_sent);
        EXPECT_GT(found.round_trip.count(), 10u);
        EXPECT_EQ(found.drops[DropReason::kChecksum], 0u);
      }
      sum.positions_taken += found.positions_taken;
      sum.diffs_sent += found.diffs_sent;
      sum.resends += found.resends;
      sum.diffs_merged += found.diffs_merged;
      sum.drops += found.drops;
    }
    EXPECT_EQ(sum.positions_taken, stats.positions_taken);
    EXPECT_EQ(sum.diffs_sent, stats.diffs_taken);
    EXPECT_EQ(sum.diffs_merged, stats.diffs_merged);
    EXPECT_EQ(sum.resends, stats.resends);
    EXPECT_EQ(sum.drops, stats.drops);
    EXPECT_GT(sum.resends, 0u);
    drops += sum.drops.total();
  }
  EXPECT_GT(drops, 0u);
}

TEST(PeerMetrics, CountDamagedFramesToNoPeer) {
  Cluster x({});
  FrameBytes frame = x.ForgeDiff(1, 0, x.ChunkOf(0), 1, std::vector<float>(10, 2.0f));
  const uint64_t before = x.exchange(0).metrics().peer(1).frames_in;
  x.Give(0, frame);
  x.Give(0, frame);  // a duplicate
  frame.data()[70] ^= std::byte{1};
  x.Give(0, frame);
  const PeerStats peer = x.exchange(0).metrics().peer(1);
  EXPECT_EQ(peer.frames_in - before, 2u);
  EXPECT_EQ(peer.diffs_merged, 1u);
  EXPECT_EQ(peer.drops[DropReason::kOld], 1u);
  EXPECT_EQ(peer.drops.total(), 1u);
  EXPECT_EQ(x.exchange(0).stats().drops[DropReason::kChecksum], 1u);
}

TEST(PeerMetrics, MeasureARoundTripFromTheFirstSendingToTheAnswer) {
  Cluster x({});
  const uint32_t chunk = x.ChunkOf(0);
  int64_t first = -1, answered = -1;
  int sent = 0;
  x.delivers = [&](uint16_t, uint16_t, const FrameBytes& bytes) {
    const FrameView frame = bytes.decoded();
    if (frame.header.chunk != chunk) return true;
    if (frame.header.type == FrameType::kDiff) {
      if (++sent == 1) first = x.now();
      return sent > 2;
    }
    const bool acknowledges =
        frame.header.type == FrameType::kPosition && TestBit(frame.acks, 1) && answered < 0;
    if (acknowledges) answered = x.now() + kTickNs;  // arrival time
    return true;
  };
  x.Add(1, chunk * 10, 1);
  x.Settle();
  const PeerStats peer = x.exchange(1).metrics().peer(0);
  EXPECT_EQ(sent, 3);
  EXPECT_EQ(peer.diffs_sent, 1u);
  EXPECT_EQ(peer.resends, 2u);
  EXPECT_EQ(x.exchange(0).metrics().peer(1).diffs_merged, 1u);
  DurationHistogram expected;
  expected.Add(answered - first);
  EXPECT_EQ(peer.round_trip.count(), 1u);
  EXPECT_EQ(peer.round_trip.Quantile(0.5), expected.Quantile(0.5));
  EXPECT_GE(answered - first, 4 * kTickNs);  // the first two were lost
}

}  // namespace
}  // namespace millrace
