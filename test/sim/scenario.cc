#include "test/sim/scenario.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/error.h"
#include "base/rng.h"

namespace millrace::sim {
namespace {

// Random streams.
constexpr uint64_t kScenario = 1, kLate = 4, kLinks = 5, kPace = 8, kDamping = 10, kChoice = 12,
                   kUneven = 13, kPositions = 14, kMore = 18;
// Duration of an event that lasts until all links are healed.
constexpr int64_t kForEver = 1'000'000;

double Real(Rng& rng, double below) { return rng.Uniform() * below; }
int64_t Between(Rng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng.Below(high - low + 1));
}
bool Chance(Rng& rng, double p) { return rng.Uniform() < p; }

void DrawFaults(Rng& rng, int64_t nodes, LinkFaults* faults) {
  if (Chance(rng, 0.6)) faults->loss = Chance(rng, 0.2) ? Real(rng, 0.4) : Real(rng, 0.1);
  if (Chance(rng, 0.5)) faults->duplicate = Real(rng, 0.3);
  if (Chance(rng, 0.4)) faults->corrupt = Real(rng, 0.1);
  faults->delay_max = Chance(rng, 0.3) ? 1 : Between(rng, 1, 12);
  faults->rate = Chance(rng, 0.3) ? Between(rng, 6, 20) : 64;
  // A queue holds at least one frame from every node, because all frames of a tick arrive at
  // once.
  if (Chance(rng, 0.2)) faults->queue = 2 * nodes + Between(rng, 4, 200);
}

void SortEvents(Scenario* s) {
  std::stable_sort(s->events.begin(), s->events.end(),
                   [](const Event& a, const Event& b) { return a.at < b.at; });
}

void DrawEvents(Rng& rng, Scenario* s) {
  const int count = Chance(rng, 0.25) ? 0 : static_cast<int>(Between(rng, 1, 5));
  for (int i = 0; i < count; ++i) {
    Event event;
    event.at = Between(rng, 40, s->active + 100);
    event.node = static_cast<uint16_t>(rng.Below(s->nodes));
    switch (rng.Below(6)) {
      case 0:
      case 1:
        event.kind = Event::Kind::kCrash;
        s->events.push_back(event);
        if (Chance(rng, 0.7)) {
          event.kind = Event::Kind::kRestart;
          event.at += Between(rng, 1, 150);
          s->events.push_back(event);
        }
        continue;
      case 2:
        event.kind = Event::Kind::kLeave;
        s->events.push_back(event);
        if (Chance(rng, 0.4)) {
          event.kind = Event::Kind::kRestart;
          event.at += Between(rng, 100, 250);
          s->events.push_back(event);
        }
        continue;
      case 3:
      case 4:
        event.kind = Event::Kind::kDemote;
        event.ticks = Between(rng, 5, 200);
        break;
      case 5:
        event.kind = Event::Kind::kPartition;
        event.ticks = Between(rng, 5, 250);
        event.mask = rng.Next64();
        break;
    }
    s->events.push_back(event);
  }
  for (uint16_t i = 0; i < s->late; ++i) {
    Event event{Event::Kind::kRestart, Between(rng, 20, s->active), 0, 0, 0};
    event.node = static_cast<uint16_t>(s->nodes - 1 - i);
    s->events.push_back(event);
  }
  SortEvents(s);
}

// Breaks one or two links of a node, or all its links, in one or both directions, for a limited
// time or until the end.
void DrawBrokenLinks(Rng& rng, Scenario* s) {
  const uint64_t all = s->nodes < 64 ? (uint64_t{1} << s->nodes) - 1 : ~uint64_t{0};
  const int count = static_cast<int>(Between(rng, 1, 2));
  for (int i = 0; i < count; ++i) {
    Event event;
    event.kind = Chance(rng, 0.5) ? Event::Kind::kBreak : Event::Kind::kBlackHole;
    event.at = Between(rng, 40, s->active);
    event.ticks = Chance(rng, 0.4) ? kForEver : Between(rng, 20, 600);
    event.node = static_cast<uint16_t>(rng.Below(s->nodes));
    const auto other = static_cast<uint16_t>((event.node + 1 + rng.Below(s->nodes - 1)) % s->nodes);
    event.mask = Chance(rng, 0.2) ? all : uint64_t{1} << other % 64;
    s->events.push_back(event);
    if (event.mask == all || Chance(rng, 0.5)) continue;
    event.mask = uint64_t{1} << event.node % 64;
    event.node = other;
    s->events.push_back(event);
  }
}

// Late nodes that are heard and hear nothing, for a while or until the links are healed: they ask
// to join and never answer.
void DrawDeafJoiners(Rng& rng, Scenario* s) {
  for (auto node = static_cast<uint16_t>(s->nodes - s->late); node < s->nodes; ++node) {
    if (!Chance(rng, 0.5)) continue;
    const int64_t ticks = Chance(rng, 0.5) ? kForEver : Between(rng, 100, 600);
    for (uint16_t other = 0; other < s->nodes; ++other) {
      if (other == node) continue;
      s->events.push_back({Event::Kind::kBreak, 0, other, ticks, uint64_t{1} << node % 64});
    }
  }
}

// Parameters added to the simulation later. Separate random streams keep all other parameters of
// a seed unchanged.
void DrawLater(Scenario* s) {
  Rng rng(s->seed, {kLate});
  if (Chance(rng, 0.5)) s->linger = Between(rng, 1, 12);
  if (Chance(rng, 0.3)) s->wild = Real(rng, 1.0);
  for (Event& event : s->events) {
    const bool started = event.node < s->nodes - s->late;
    if (event.kind == Event::Kind::kRestart && started && Chance(rng, 0.2)) {
      event.kind = Event::Kind::kClockBack;
    }
  }
  Rng pace(s->seed, {kPace});
  if (Chance(pace, 0.4)) s->throttled = Chance(pace, 0.3) ? 1 : Real(pace, 1.0);
  if (s->throttled > 0 && Chance(pace, 0.3)) s->faults.rate = Between(pace, 3, 8);
  Rng damping(s->seed, {kDamping});
  s->damping = Chance(damping, 0.3);
  Rng links(s->seed, {kLinks});
  if (s->nodes > 2 && Chance(links, 0.25)) DrawBrokenLinks(links, s);
  Rng choice(s->seed, {kChoice});
  if (s->codec == Codec::kSparse && Chance(choice, 0.5)) {
    s->choice = Chance(choice, 0.5) ? SparseChoice::kTop : SparseChoice::kRandom;
    s->share = 0.2 + Real(choice, 0.8);
  }
  Rng uneven(s->seed, {kUneven});
  s->faults.uneven_loss = s->faults.loss > 0 && Chance(uneven, 0.4);
  Rng positions(s->seed, {kPositions});
  if (!s->direct && Chance(positions, 0.3)) {
    constexpr Codec kRounded[] = {Codec::kBfloat16, Codec::kInt8, Codec::kInt4, Codec::kSparse};
    s->position_codec = kRounded[positions.Below(std::size(kRounded))];
    if (s->position_codec == Codec::kSparse) s->position_share = 0.1 + Real(positions, 0.9);
  }
  Rng more(s->seed, {kMore});
  if (Chance(more, 0.3)) s->pauses = Real(more, 1.0);
  if (Chance(more, 0.3)) s->view_cost = Between(more, 1, 20);  // a third of the peer timeout
  if (Chance(more, 0.3)) s->magnitude = int64_t{1} << more.Below(9);
  s->momentum = Chance(more, 0.1);
  if (s->late > 0 && s->nodes <= 6 && Chance(more, 0.3)) DrawDeafJoiners(more, s);
  s->merges_own = !s->momentum && Chance(more, 0.3);
  SortEvents(s);
}

const char* kKinds = "crlfpbmo";

}  // namespace

bool Scenario::Has(Event::Kind kind) const {
  return std::any_of(events.begin(), events.end(),
                     [kind](const Event& e) { return e.kind == kind; });
}

CodecConfig Scenario::codec_config() const {
  CodecConfig config;
  config.codec = codec;
  config.choice = choice;
  if (HasThreshold(config)) config.threshold = threshold;
  if (HasShare(config)) config.share = share;
  return config;
}

bool Scenario::stays_broken() const {
  return std::any_of(events.begin(), events.end(), [this](const Event& e) {
    const bool link = e.kind == Event::Kind::kBreak || e.kind == Event::Kind::kBlackHole;
    return link && e.ticks == kForEver;
  });
}

Scenario Draw(uint64_t seed) {
  Rng rng(seed, {kScenario});
  Scenario s;
  s.seed = seed;
  s.nodes = static_cast<uint16_t>(Between(rng, 2, 6));
  if (seed % 200 == 7) s.nodes = static_cast<uint16_t>(Between(rng, 7, 64));
  s.chunks = static_cast<int>(Between(rng, 1, 16));
  if (s.nodes > 6) s.chunks = static_cast<int>(Between(rng, 1, 70));
  if (Chance(rng, 0.4)) s.codec = static_cast<Codec>(rng.Below(5));
  s.threshold = static_cast<float>(Between(rng, 1, 8));
  s.direct = Chance(rng, 0.3);
  s.active = s.nodes > 6 ? Between(rng, 60, 150) : Between(rng, 100, 400);
  s.busy = Chance(rng, 0.2) ? 0.02 : Real(rng, 1.0);
  s.slots = static_cast<uint32_t>(Chance(rng, 0.2) ? Between(rng, 8, 16) : 64);
  if (s.nodes > 2 && Chance(rng, 0.3)) s.late = static_cast<uint16_t>(Between(rng, 1, s.nodes - 2));
  if (Chance(rng, 0.85)) DrawFaults(rng, s.nodes, &s.faults);
  if (s.direct) s.faults.corrupt = 0;  // only the link protects direct payloads
  DrawEvents(rng, &s);
  DrawLater(&s);
  return s;
}

std::string ToText(const Scenario& s) {
  std::ostringstream out;
  out.precision(17);
  out << "seed=" << s.seed << ",nodes=" << s.nodes << ",late=" << s.late << ",chunks=" << s.chunks
      << ",codec=" << static_cast<int>(s.codec) << ",choice=" << static_cast<int>(s.choice)
      << ",threshold=" << s.threshold << ",share=" << s.share << ",direct=" << s.direct
      << ",position_codec=" << static_cast<int>(s.position_codec)
      << ",position_share=" << s.position_share << ",linger=" << s.linger << ",wild=" << s.wild
      << ",active=" << s.active << ",busy=" << s.busy << ",slots=" << s.slots
      << ",throttled=" << s.throttled << ",damping=" << s.damping << ",pauses=" << s.pauses
      << ",view_cost=" << s.view_cost << ",magnitude=" << s.magnitude << ",momentum=" << s.momentum
      << ",merges_own=" << s.merges_own << ",near_limits=" << s.near_limits
      << ",loss=" << s.faults.loss << ",uneven_loss=" << s.faults.uneven_loss
      << ",duplicate=" << s.faults.duplicate << ",corrupt=" << s.faults.corrupt
      << ",delay_min=" << s.faults.delay_min << ",delay_max=" << s.faults.delay_max
      << ",rate=" << s.faults.rate << ",queue=" << s.faults.queue;
  for (const Event& e : s.events) {
    out << ",event=" << kKinds[static_cast<int>(e.kind)] << ':' << e.at << ':' << e.node << ':'
        << e.ticks << ':' << e.mask;
  }
  return out.str();
}

namespace {

Event ParseEvent(const std::string& text) {
  Event event;
  char kind = 0, colon;
  std::istringstream in(text);
  in >> kind >> colon >> event.at >> colon >> event.node >> colon >> event.ticks >> colon >>
      event.mask;
  const char* found = kind ? std::strchr(kKinds, kind) : nullptr;
  if (!in || !found) throw Error("scenario: event '", text, "', expected KIND:AT:NODE:TICKS:MASK");
  event.kind = static_cast<Event::Kind>(found - kKinds);
  return event;
}

void SetField(Scenario* s, const std::string& name, const std::string& value) {
  std::istringstream in(value);
  int codec = 0, choice = 0;
  if (name == "seed")
    in >> s->seed;
  else if (name == "nodes")
    in >> s->nodes;
  else if (name == "late")
    in >> s->late;
  else if (name == "chunks")
    in >> s->chunks;
  else if (name == "codec")
    in >> codec, s->codec = static_cast<Codec>(codec);
  else if (name == "position_codec")
    in >> codec, s->position_codec = static_cast<Codec>(codec);
  else if (name == "position_share")
    in >> s->position_share;
  else if (name == "choice")
    in >> choice, s->choice = static_cast<SparseChoice>(choice);
  else if (name == "threshold")
    in >> s->threshold;
  else if (name == "share")
    in >> s->share;
  else if (name == "direct")
    in >> s->direct;
  else if (name == "linger")
    in >> s->linger;
  else if (name == "wild")
    in >> s->wild;
  else if (name == "active")
    in >> s->active;
  else if (name == "busy")
    in >> s->busy;
  else if (name == "slots")
    in >> s->slots;
  else if (name == "throttled")
    in >> s->throttled;
  else if (name == "damping")
    in >> s->damping;
  else if (name == "pauses")
    in >> s->pauses;
  else if (name == "view_cost")
    in >> s->view_cost;
  else if (name == "magnitude")
    in >> s->magnitude;
  else if (name == "momentum")
    in >> s->momentum;
  else if (name == "merges_own")
    in >> s->merges_own;
  else if (name == "near_limits")
    in >> s->near_limits;
  else if (name == "loss")
    in >> s->faults.loss;
  else if (name == "uneven_loss")
    in >> s->faults.uneven_loss;
  else if (name == "duplicate")
    in >> s->faults.duplicate;
  else if (name == "corrupt")
    in >> s->faults.corrupt;
  else if (name == "delay_min")
    in >> s->faults.delay_min;
  else if (name == "delay_max")
    in >> s->faults.delay_max;
  else if (name == "rate")
    in >> s->faults.rate;
  else if (name == "queue")
    in >> s->faults.queue;
  else if (name == "event")
    s->events.push_back(ParseEvent(value));
  else
    throw Error("scenario: unknown field '", name, "'");
  if (!in) throw Error("scenario: ", name, " is '", value, "', expected a number");
}

}  // namespace

Scenario Parse(const std::string& text) {
  Scenario s;
  std::istringstream in(text);
  for (std::string field; std::getline(in, field, ',');) {
    const size_t equals = field.find('=');
    if (equals == std::string::npos) throw Error("scenario: '", field, "', expected NAME=VALUE");
    SetField(&s, field.substr(0, equals), field.substr(equals + 1));
  }
  return s;
}

std::vector<Scenario> Smaller(const Scenario& s) {
  std::vector<Scenario> all;
  const auto add = [&](auto change) {
    Scenario next = s;
    change(next);
    if (ToText(next) != ToText(s)) all.push_back(next);
  };
  for (size_t i = 0; i < s.events.size(); ++i) {
    add([&](Scenario& n) { n.events.erase(n.events.begin() + i); });
  }
  add([](Scenario& n) { n.faults.corrupt = 0; });
  add([](Scenario& n) { n.faults.duplicate = 0; });
  add([](Scenario& n) { n.faults.loss = 0; });
  add([](Scenario& n) { n.faults.uneven_loss = false; });
  add([](Scenario& n) { n.faults.delay_max = n.faults.delay_min; });
  add([](Scenario& n) { n.faults.rate = 64; });
  add([](Scenario& n) { n.faults.queue = 4096; });
  add([](Scenario& n) { n.codec = Codec::kFloat32; });
  add([](Scenario& n) { n.choice = SparseChoice::kThreshold; });
  add([](Scenario& n) { n.position_codec = Codec::kFloat32; });
  add([](Scenario& n) { n.direct = false; });
  add([](Scenario& n) { n.linger = 0; });
  add([](Scenario& n) { n.wild = 0; });
  add([](Scenario& n) { n.slots = 64; });
  add([](Scenario& n) { n.throttled = 0; });
  add([](Scenario& n) { n.damping = false; });
  add([](Scenario& n) { n.pauses = 0; });
  add([](Scenario& n) { n.view_cost = 0; });
  add([](Scenario& n) { n.magnitude = 1; });
  add([](Scenario& n) { n.momentum = false; });
  add([](Scenario& n) { n.merges_own = false; });
  add([](Scenario& n) { n.near_limits = false; });
  add([](Scenario& n) { n.chunks = std::max(1, n.chunks / 2); });
  add([](Scenario& n) { n.chunks = std::max(1, n.chunks - 1); });
  add([](Scenario& n) { n.active = std::max<int64_t>(40, n.active / 2); });
  if (s.nodes > 2) {
    add([](Scenario& n) {
      --n.nodes;
      n.late = std::min<uint16_t>(n.late, n.nodes - 1);
      std::erase_if(n.events, [&](const Event& e) { return e.node >= n.nodes; });
    });
  }
  return all;
}

}  // namespace millrace::sim
