#include "transport/network_names.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

std::string Text(const std::string& host) {
  const auto parsed = ParseHost(host);
  return parsed ? parsed->text : "none";
}

TEST(ParseHost, TellsAddressesFromNames) {
  EXPECT_EQ(ParseHost("10.0.0.1")->kind, HostKind::kIpv4);
  EXPECT_EQ(ParseHost("::1")->kind, HostKind::kIpv6);
  EXPECT_EQ(ParseHost("10-0-0-1")->kind, HostKind::kName);
}

TEST(ParseHost, WritesEqualHostsAlike) {
  EXPECT_EQ(Text("Node-7.Example.ORG"), "node-7.example.org");
  EXPECT_EQ(Text("FE80:0:0::1"), "fe80::1");
  EXPECT_EQ(Text("fe80::1%Eth0"), "fe80::1%Eth0");
  EXPECT_EQ(Text("my_host"), "my_host");
}

TEST(ParseHost, RefusesWhatIsNone) {
  for (const char* bad :
       {"",        " ",   "a b",         "10.0.0", "10.0.0.256", "1",     "a..b",
        ".a",      "a.",  "-a",          "a-",     "a:1",        "[::1]", "::1%",
        "::1%a/b", "::g", "10.0.0.1:80", "a/b",    "a,b",        "a=b",   "\xc3\xa4"}) {
    EXPECT_EQ(Text(bad), "none") << bad;
  }
  EXPECT_EQ(Text(std::string("10.0.0.1\0x", 10)), "none");
  EXPECT_EQ(Text(std::string(64, 'a')), "none");
  EXPECT_EQ(Text(std::string(63, 'a')), std::string(63, 'a'));
}

TEST(HostAndPort, PutsIpv6IntoBrackets) {
  EXPECT_EQ(HostAndPort(*ParseHost("::1"), 7), "[::1]:7");
  EXPECT_EQ(HostAndPort(*ParseHost("10.0.0.1"), 7), "10.0.0.1:7");
  EXPECT_EQ(HostAndPort(*ParseHost("a"), 65535), "a:65535");
}

TEST(ParseMac, TakesAddressesOfOneAdapter) {
  EXPECT_EQ(ParseMac("52:54:00:AB:cd:eF"), "52:54:00:ab:cd:ef");
  EXPECT_EQ(ParseMac("00:00:00:00:00:01"), "00:00:00:00:00:01");
  for (const char* bad :
       {"", "52:54:00:12:34", "52:54:00:12:34:5", "52:54:00:12:34:5g", "52-54-00-12-34-56",
        "52:54:00:12:34:56:", "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"}) {
    EXPECT_EQ(ParseMac(bad), std::nullopt) << bad;
  }
}

TEST(IsInterfaceName, IsAsLinuxHasIt) {
  EXPECT_TRUE(IsInterfaceName("eth0"));
  EXPECT_TRUE(IsInterfaceName("enp3s0.100"));
  EXPECT_TRUE(IsInterfaceName("fifteen-letters"));
  for (const char* bad : {"", ".", "..", "sixteen-letters-", "a b", "a/b", "a:0", "a%d", "a,b"}) {
    EXPECT_FALSE(IsInterfaceName(bad)) << bad;
  }
}

}  // namespace
}  // namespace millrace
