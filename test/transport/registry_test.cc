// The registry of transports, and what each descriptor has to state.
#include "transport/registry.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/file.h"
#include "test/transport/create_error.h"

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

// Stands for a backend that a build leaves out.
const RegisterTransport without_backend([] {
  TransportDescriptor descriptor;
  descriptor.name = "without_backend";
  descriptor.description = "a transport without its backend";
  descriptor.build_hint = "libsomething-dev installed (make SOMETHING=on)";
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
    EXPECT_TRUE(TransportRegistry::Get().IsBuilt(each->name) || !each->build_hint.empty());
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

TEST(TransportRegistry, SaysHowToBuildATransportThatThisBuildLacks) {
  EXPECT_FALSE(TransportRegistry::Get().IsBuilt("without_backend"));
  EXPECT_EQ(
      CreateError({"without_backend", 0, {}}),
      "transport without_backend: not in this build: expected one with libsomething-dev installed "
      "(make SOMETHING=on)");
  const TransportDescriptor* const verbs = TransportRegistry::Get().Find("verbs");
  ASSERT_NE(verbs, nullptr);
  EXPECT_CONTAINS(verbs->build_hint, "make VERBS=on");
}

TEST(TransportRegistry, FindsNoTransportThatIsNotRegistered) {
  EXPECT_EQ(TransportRegistry::Get().Find("carrier_pigeon"), nullptr);
  EXPECT_FALSE(TransportRegistry::Get().IsBuilt("carrier_pigeon"));
}

}  // namespace
}  // namespace millrace::test
