// Properties specific to the faulty decorator: determinism, bounds, options.
#include "transport/faulty/transport.h"

#include <functional>

#include "millrace/transport_registry.h"
#include "test/support/fake_clock.h"
#include "test/support/support.h"
#include "transport/loopback/transport.h"

namespace millrace {
namespace {

using test::ErrorOf;

// A faulty pair over loopback; node 0 sends numbers, node 1 receives them.
struct Pair {
  explicit Pair(FaultPlan plan) {
    plan.clock = &clock;
    LoopbackHub hub({.nodes = 2, .clock = &clock});
    a = std::make_unique<FaultyTransport>(hub.Connect(0), plan);
    b = std::make_unique<FaultyTransport>(hub.Connect(1), plan);
  }

  SendResult Send(uint64_t number) {
    const OutFrame frame = {1, {}, std::as_bytes(std::span(&number, 1))};
    return a->Send({&frame, 1});
  }

  void Receive() {
    InFrame frames[8];
    while (const size_t count = b->Receive(frames)) {
      for (size_t i = 0; i < count; ++i) {
        const auto bytes = frames[i].bytes;
        log.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        log += '|';
      }
      b->Release();
    }
  }

  test::FakeClock clock;
  std::unique_ptr<FaultyTransport> a, b;
  std::string log;  // all frames delivered, in order
};

std::string LogOf(uint64_t seed) {
  FaultPlan plan;
  plan.seed = seed;
  plan.send = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
  plan.receive = plan.send;
  Pair pair(plan);
  for (uint64_t i = 0; i < 400; ++i) {
    EXPECT_EQ(pair.Send(i).accepted, 1u);
    pair.clock.AdvanceNs(50'000);
    pair.Receive();
  }
  return pair.log;
}

TEST(Faulty, TheSameSeedAndCallsGiveTheSameFaults) {
  EXPECT_EQ(LogOf(test::Seed()), LogOf(test::Seed()));
  EXPECT_NE(LogOf(test::Seed()), LogOf(test::Seed() + 1));
}

TEST(Faulty, OneFaultDoesNotChangeWhereAnotherStrikes) {
  const std::vector<std::pair<double FaultRates::*, bool FaultDecision::*>> faults = {
      {&FaultRates::drop, &FaultDecision::drop},
      {&FaultRates::duplicate, &FaultDecision::duplicate},
      {&FaultRates::reorder, &FaultDecision::reorder},
      {&FaultRates::delay, &FaultDecision::delay},
      {&FaultRates::corrupt, &FaultDecision::corrupt},
      {&FaultRates::truncate, &FaultDecision::truncate}};
  FaultPlan plan;
  FaultRates others;  // with all earlier faults; truncation is last, since an empty frame has no
                      // byte to corrupt
  for (const auto& [rate, strikes] : faults) {
    others.*rate = 0.5;
    FaultRates alone;
    alone.*rate = 0.5;
    Rng one(test::Seed(), {1}), two(test::Seed(), {1});
    int struck = 0;
    for (int i = 0; i < 200; ++i) {
      const FaultDecision a = Decide(plan, alone, 100, &one);
      const FaultDecision b = Decide(plan, others, 100, &two);
      EXPECT_EQ(a.*strikes, b.*strikes);
      struck += a.*strikes;
    }
    EXPECT_GT(struck, 0);
  }
}

TEST(Faulty, ADelayedFrameComesWhenTheClockSaysSo) {
  FaultPlan plan;
  plan.send.delay = 1;
  plan.delay_min_ns = plan.delay_max_ns = 1000;
  Pair pair(plan);
  pair.Send(1);
  pair.clock.AdvanceNs(999);
  pair.a->Reclaim();
  pair.Receive();
  EXPECT_EQ(pair.log, "");
  pair.clock.AdvanceNs(1);
  pair.a->Reclaim();
  pair.Receive();
  EXPECT_EQ(pair.log.size(), 9u);
}

TEST(Faulty, WaitReturnsWhenAFrameThatWasHeldIsDue) {
  FaultPlan plan;
  plan.receive.delay = 1;
  plan.delay_min_ns = plan.delay_max_ns = 1000;
  Pair pair(plan);
  pair.Send(1);
  EXPECT_FALSE(pair.b->Wait(0, WaitFor::kReceive).receivable);
  pair.clock.AdvanceNs(1000);
  EXPECT_TRUE(pair.b->Wait(INT64_MAX, WaitFor::kReceive).receivable);
}

TEST(Faulty, HoldsNoMoreFramesThanItWasGivenRoomFor) {
  FaultPlan plan;
  plan.send.delay = 1;
  plan.delay_min_ns = plan.delay_max_ns = 1000;
  plan.hold_frames = 3;
  Pair pair(plan);
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(pair.Send(i).accepted, 1u);
  EXPECT_EQ(pair.Send(3).status, SendStatus::kBusy);
  EXPECT_FALSE(pair.a->Wait(0, WaitFor::kReceiveOrSend).sendable);
  pair.clock.AdvanceNs(1000);
  EXPECT_TRUE(pair.a->Wait(INT64_MAX, WaitFor::kReceiveOrSend).sendable);
  EXPECT_EQ(pair.Send(3).accepted, 1u);
}

TEST(Faulty, AReorderedFrameLetsLaterOnesPass) {
  FaultPlan plan;
  plan.send_peer[1].reorder = 1;
  plan.reorder_frames = 1;
  Pair pair(plan);
  for (uint64_t i = 0; i < 3; ++i) pair.Send('a' + i);
  pair.Receive();
  EXPECT_EQ(pair.a->faults(Direction::kSend).reordered, 3u);
  EXPECT_EQ(pair.log.size(), 18u) << "the last is held until another comes";
}

TEST(Faulty, RatesOfAPeerReplaceThoseOfTheDirection) {
  FaultPlan plan;
  plan.send.drop = 1;
  plan.send_peer[1].drop = 0;
  EXPECT_EQ(plan.Rates(Direction::kSend, 1).drop, 0);
  EXPECT_EQ(plan.Rates(Direction::kSend, 2).drop, 1);
  EXPECT_EQ(plan.Rates(Direction::kReceive, 1).drop, 0);
}

std::unique_ptr<Transport> Create(std::map<std::string, std::string> options) {
  return TransportRegistry::Get().Create({"faulty", 0, std::move(options)});
}

TEST(Faulty, IsMadeByNameOverAnyOther) {
  auto transport = Create({{"over", "loopback"},
                           {"hub", "faulty"},
                           {"drop", "0.5"},
                           {"send.drop", "0"},
                           {"send.1.drop", "1"}});
  const std::byte message[4] = {};
  const OutFrame frame = {1, {}, message};
  EXPECT_EQ(transport->Send({&frame, 1}).accepted, 1u);
  const auto& faulty = dynamic_cast<FaultyTransport&>(*transport);
  EXPECT_EQ(faulty.faults(Direction::kSend).dropped, 1u);
}

TEST(Faulty, BadOptionsAreOneLineNamingTheOption) {
  using Options = std::map<std::string, std::string>;
  const auto error = [](Options options) {
    options.emplace("over", "loopback");
    const std::string text = ErrorOf([&] { Create(options); });
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  };
  EXPECT_EQ(error({{"drop", "1.5"}}), "transport faulty: drop=1.5: expected a number from 0 to 1");
  EXPECT_CONTAINS(error({{"drop", "nan"}}), "drop=nan: expected");
  EXPECT_CONTAINS(error({{"send.dorp", "0.1"}}), "unknown option send.dorp");
  EXPECT_CONTAINS(error({{"send.x.drop", "0.1"}}), "unknown option send.x.drop");
  EXPECT_CONTAINS(error({{"nonsense", "1"}}), "transport loopback: unknown option nonsense");
  EXPECT_CONTAINS(error({{"over", "faulty"}}), "expected another transport");
  EXPECT_CONTAINS(error({{"delay_min_us", "5"}, {"delay_max_us", "4"}}), "delay_min_us=5");
  EXPECT_EQ(ErrorOf([] { Create({}); }), "transport faulty: option over is missing");
}

}  // namespace
}  // namespace millrace
