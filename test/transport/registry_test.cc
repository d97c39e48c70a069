// The registry of transports, and what each descriptor has to state.
#include "millrace/transport_registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/files/file.h"
#include "base/registration.h"
#include "test/transport/create_error.h"
#include "transport/check_descriptor.h"

namespace millrace::test {
namespace {

bool HasOption(const TransportDescriptor& transport, const std::string& option) {
  return std::find(transport.options.begin(), transport.options.end(), option) !=
         transport.options.end();
}

// A node with every key that a transport may need.
AdapterFields AnyAdapter(const std::string& address) {
  AdapterFields adapter;
  adapter.address = address;
  adapter.interface = "eth0";
  adapter.mac = "02:00:00:00:00:01";
  return adapter;
}

// Stands for a transport whose module is missing.
const RegisterTransport without_backend([] {
  TransportDescriptor descriptor;
  descriptor.name = "without_backend";
  descriptor.description = "a transport without its backend";
  descriptor.options = {"max_frame_bytes"};
  descriptor.frame_bytes = [](int64_t mtu, auto) { return mtu; };
  return descriptor;
}());

TEST(TransportDescriptor, OfEveryTransportIsComplete) {
  const AdapterFields a = AnyAdapter("10.0.0.1"), b = AnyAdapter("fd00::1");
  const std::vector<const AdapterFields*> members = {&a, &b};
  for (const TransportDescriptor* each : TransportRegistry::Get().Descriptors()) {
    SCOPED_TRACE(each->name);
    EXPECT_FALSE(each->description.empty());
    EXPECT_EQ(each->description.find('\n'), std::string::npos);
    ASSERT_TRUE(each->frame_bytes);
    EXPECT_GT(each->frame_bytes(1500, members), 1000);
    EXPECT_LE(each->frame_bytes(1500, members), 1500);
    EXPECT_LE(each->frame_bytes(1500, members), each->frame_bytes(9000, members));
    EXPECT_EQ(each->has_group, HasOption(*each, kGroupOption));
    for (const auto& [option, value] : each->segment_options) {
      EXPECT_TRUE(HasOption(*each, option)) << option;
      EXPECT_FALSE(each->IsPlanned(option)) << option;
    }
    EXPECT_EQ(each->reach == TransportReach::kDecorated, each->passes_options);
    if (each->reach == TransportReach::kDecorated) continue;
    EXPECT_TRUE(HasOption(*each, kMaxFrameBytesOption));
    const TransportAddressing& addressing = each->addressing;
    if (addressing.keys.empty()) {
      EXPECT_NE(each->reach, TransportReach::kNetwork);
      continue;
    }
    EXPECT_TRUE(HasOption(*each, kPeersOption));
    EXPECT_TRUE(HasOption(*each, addressing.own_option)) << addressing.own_option;
    ASSERT_TRUE(addressing.locate);
    for (const AdapterFields* adapter : members) {
      const std::string place = addressing.locate(*adapter, addressing.has_port ? 7 : 0);
      EXPECT_FALSE(place.empty());
      EXPECT_EQ(place.find(','), std::string::npos);
    }
    for (const AddressKey& key : addressing.keys) {
      EXPECT_FALSE(key.noun.empty()) << key.name;
      EXPECT_EQ(std::count(key.expected.begin(), key.expected.end(), '$'), 1) << key.name;
    }
  }
}

TEST(TransportDescriptor, OfEveryTransportHasItsOptionsInTheDocuments) {
  const std::string page = ReadFile("docs/transport.md");
  for (const TransportDescriptor* each : TransportRegistry::Get().Descriptors()) {
    if (each->name == "without_backend") continue;
    std::string row = StrCat("| ", each->name, " | ");
    for (const std::string& option : each->options) {
      row += StrCat(option == each->options.front() ? "" : ", ", option);
    }
    EXPECT_CONTAINS(page, row + (each->passes_options ? "; " : " |"));
  }
}

TEST(TransportDescriptor, TellsFieldsFromOptions) {
  AdapterFields adapter = AnyAdapter("10.0.0.1");
  adapter.options["lid"] = "7";
  EXPECT_EQ(adapter.Get("address"), "10.0.0.1");
  EXPECT_EQ(adapter.Get("mac"), "02:00:00:00:00:01");
  EXPECT_EQ(adapter.Get("lid"), "7");
  EXPECT_EQ(adapter.Get("gid"), "");
  EXPECT_TRUE(AdapterFields::IsField("interface"));
  EXPECT_FALSE(AdapterFields::IsField("lid"));
}

TEST(TransportDescriptor, KnowsTheFramesThatFitAnMtu) {
  const AdapterFields ipv4 = AnyAdapter("10.0.0.1"), ipv6 = AnyAdapter("fd00::1"),
                      name = AnyAdapter("node1");
  const auto bytes = [](const std::string& transport, int64_t mtu,
                        const std::vector<const AdapterFields*>& members) {
    return TransportRegistry::Get().Find(transport)->frame_bytes(mtu, members);
  };
  EXPECT_EQ(bytes("udp", 1500, {&ipv4, &ipv4}), 1464);
  EXPECT_EQ(bytes("udp", 1500, {&ipv4, &ipv6}), 1440);
  EXPECT_EQ(bytes("udp", 1500, {&name, &ipv4}), 1440);
  EXPECT_EQ(bytes("packet", 1500, {&ipv4}), 1484);
  EXPECT_EQ(bytes("verbs", 1500, {&ipv4}), 1008);
  EXPECT_EQ(bytes("verbs", 4175, {&ipv4}), 2032);
  EXPECT_EQ(bytes("verbs", 4176, {&ipv4}), 4080);
  EXPECT_EQ(bytes("verbs", 64, {&ipv4}), 240);
  EXPECT_LT(bytes("udp", 20, {&ipv4}), 0);
}

TEST(TransportRegistry, NamesTheModuleOfATransportThatIsMissing) {
  const std::string reason = TransportRegistry::Get().WhyNot("without_backend");
  EXPECT_EQ(
      reason.find("module without_backend, which is not installed (without_backend.so is not in "),
      0u)
      << reason;
  EXPECT_EQ(CreateError({"without_backend", 0, {}}), "transport without_backend: in " + reason);
  EXPECT_NE(TransportRegistry::Get().Find("verbs"), nullptr);
}

TEST(TransportRegistry, FindsNoTransportThatIsNotRegistered) {
  EXPECT_EQ(TransportRegistry::Get().Find("carrier_pigeon"), nullptr);
  EXPECT_CONTAINS(TransportRegistry::Get().WhyNot("carrier_pigeon"), "not installed");
}

// A descriptor without a mistake.
TransportDescriptor Complete() {
  TransportDescriptor pigeons;
  pigeons.name = "pigeons";
  pigeons.reach = TransportReach::kMachine;
  pigeons.options = {"loft", "peers", "max_frame_bytes", "corn"};
  pigeons.segment_options = {{"corn", "1"}};
  pigeons.addressing.keys = {{.name = "loft", .noun = "loft", .expected = "the loft of $ for"}};
  pigeons.addressing.locate = [](const AdapterFields& adapter, int) { return adapter.Get("loft"); };
  pigeons.addressing.own_option = "loft";
  pigeons.frame_bytes = [](int64_t mtu, auto) { return mtu; };
  return pigeons;
}

TEST(TransportDescriptor, HasItsMistakesNamed) {
  const auto problem = [](const std::function<void(TransportDescriptor*)>& spoil) {
    TransportDescriptor descriptor = Complete();
    spoil(&descriptor);
    return ProblemOf(descriptor);
  };
  const auto expect = [&](const std::string& line,
                          const std::function<void(TransportDescriptor*)>& spoil) {
    EXPECT_EQ(problem(spoil), "transport pigeons: its descriptor: " + line);
  };
  EXPECT_EQ(ProblemOf(Complete()), "");
  for (const TransportDescriptor* each : TransportRegistry::Get().Descriptors()) {
    EXPECT_EQ(ProblemOf(*each), "");
  }
  for (const std::string name : {"", "Pigeons", "two pigeons"}) {
    EXPECT_EQ(
        problem([&](auto* d) { d->name = name; }),
        "transport \"" + name + "\": expected a name of lower-case letters, digits, '_' and '-'");
  }
  expect("it has no function `frame_bytes`, which is required",
         [](auto* d) { d->frame_bytes = nullptr; });
  expect("`options` must list \"max_frame_bytes\"", [](auto* d) { d->options = {}; });
  expect("`options` must list \"group\" if and only if it has a group",
         [](auto* d) { d->has_group = true; });
  expect("`options` must list \"seed\"", [](auto* d) { d->segment_options = {{"seed", "1"}}; });
  expect("`segment_options` sets \"loft\", which a plan sets", [](auto* d) {
    d->segment_options = {{"loft", "1"}};
  });
  expect("an address key has no name", [](auto* d) { d->addressing.keys[0].name = ""; });
  expect("address key loft has no noun", [](auto* d) { d->addressing.keys[0].noun = ""; });
  expect("address key loft: expected one $ in `expected`",
         [](auto* d) { d->addressing.keys[0].expected = "a loft"; });
  expect("it has address keys, but no function `locate`",
         [](auto* d) { d->addressing.locate = nullptr; });
  expect("it has address keys, so `options` must list \"peers\"", [](auto* d) {
    d->options = {"loft", "max_frame_bytes", "corn"};
  });
  expect("it has address keys, so `options` must list \"roof\"",
         [](auto* d) { d->addressing.own_option = "roof"; });
}

// Registration cannot throw: it happens before main(), or while a plugin is loaded.
TEST(TransportRegistry, KeepsTheFirstOfTwoTransportsOfOneName) {
  const std::vector<std::string> names = TransportRegistry::Get().Names();
  const std::string description = TransportRegistry::Get().Find("udp")->description;
  TransportDescriptor second = Complete();
  second.name = "udp";
  const RegisterTransport again(second, [](const TransportConfig&) { return nullptr; });
  EXPECT_EQ(ErrorOf([] { CheckRegistrations(); }),
            "transport udp: two of them have this name, expected one");
  EXPECT_EQ(TakeBadRegistrations().size(), 2u);
  EXPECT_EQ(TransportRegistry::Get().Find("udp")->description, description);
  EXPECT_NE(TransportRegistry::Get().Create(
                {"udp", 0, {{"address", "127.0.0.1:0"}, {"peers", "1=127.0.0.1:9"}}}),
            nullptr);
  second.name = "Udp";
  const RegisterTransport bad(second);
  EXPECT_EQ(TakeBadRegistrations(),
            (std::vector<std::string>{"transport \"Udp\": expected a name of lower-case letters, "
                                      "digits, '_' and '-'"}));
  EXPECT_EQ(TransportRegistry::Get().Names(), names);
  CheckRegistrations();
}

TEST(TransportConfig, ReadsThePeers) {
  const auto peers = [](const std::string& text) {
    return TransportConfig{"t", 3, {{"peers", text}}}.Peers("PLACE");
  };
  EXPECT_EQ(peers("1=here,0=a=b"), (std::map<NodeId, std::string>{{0, "a=b"}, {1, "here"}}));
  EXPECT_EQ(ErrorOf([] {
              TransportConfig{"t", 3, {}}.Peers("PLACE");
            }),
            "transport t: option peers is missing");
  EXPECT_EQ(ErrorOf([&] { peers(""); }),
            "transport t: peers: : expected NODE=PLACE, node from 0 to 65534");
  EXPECT_EQ(ErrorOf([&] { peers("1=x,3=y"); }),
            "transport t: peers: 3=y: expected the id of another node");
  EXPECT_EQ(ErrorOf([&] { peers("65535=y"); }),
            "transport t: peers: 65535=y: expected the id of another node");
  EXPECT_EQ(ErrorOf([&] { peers("1=x,1=y"); }), "transport t: peers: node 1 is there twice");
}

}  // namespace
}  // namespace millrace::test
