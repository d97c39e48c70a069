#include "transport/network_names.h"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>

#include "base/error.h"
#include "base/text/parse.h"
#include "transport/network_device.h"

namespace millrace::inline transport {
namespace {

// Replaces <cctype>: the meaning of a file must not depend on the locale.
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool IsLetterOrDigit(char c) { return IsDigit(c) || (Lower(c) >= 'a' && Lower(c) <= 'z'); }

std::string Lower(std::string text) {
  for (char& c : text) c = Lower(c);
  return text;
}

std::optional<NetworkHost> ParseIpv6(const std::string& text) {
  const size_t percent = std::min(text.find('%'), text.size());
  const std::string zone = text.substr(percent);
  if (zone.size() == 1 || (zone.size() > 1 && !IsInterfaceName(zone.substr(1)))) return {};
  in6_addr address;
  if (inet_pton(AF_INET6, text.substr(0, percent).c_str(), &address) != 1) return {};
  char printed[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &address, printed, sizeof(printed));
  return NetworkHost{HostKind::kIpv6, printed + zone};
}

// RFC 1123, and underscores, which some networks use. A name of digits and dots only is a malformed
// IPv4 address.
bool IsHostName(const std::string& text) {
  constexpr size_t kMaxChars = 253, kMaxLabelChars = 63;
  if (text.empty() || text.size() > kMaxChars) return false;
  bool has_letter = false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string label = text.substr(begin, end - begin);
    begin = end + 1;
    if (label.empty() || label.size() > kMaxLabelChars) return false;
    if (label.front() == '-' || label.back() == '-') return false;
    for (char c : label) {
      if (!IsLetterOrDigit(c) && c != '-' && c != '_') return false;
      has_letter = has_letter || !IsDigit(c);
    }
  }
  return has_letter;
}

}  // namespace

std::optional<NetworkHost> ParseHost(const std::string& text) {
  if (text.find('\0') != std::string::npos) return {};
  if (text.find(':') != std::string::npos) return ParseIpv6(text);
  in_addr address;
  if (inet_pton(AF_INET, text.c_str(), &address) == 1) return NetworkHost{HostKind::kIpv4, text};
  if (!IsHostName(text)) return {};
  return NetworkHost{HostKind::kName, Lower(text)};
}

bool IsLoopback(const NetworkHost& host) {
  switch (host.kind) {
    case HostKind::kIpv4:
      return host.text.rfind("127.", 0) == 0;
    case HostKind::kIpv6:
      return host.text.substr(0, host.text.find('%')) == "::1";
    default:
      return host.text == "localhost";
  }
}

std::string HostAndPort(const NetworkHost& host, int port) {
  return host.kind == HostKind::kIpv6 ? StrCat("[", host.text, "]:", port)
                                      : StrCat(host.text, ":", port);
}

std::optional<NetworkEndpoint> ParseHostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  const std::optional<int> port = ParseNumber<int>(std::string_view(text).substr(colon + 1));
  std::string host = text.substr(0, colon);
  const bool has_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (has_brackets) host = host.substr(1, host.size() - 2);
  const std::optional<NetworkHost> parsed = ParseHost(host);
  if (!port || *port < 0 || *port > 65535 || !parsed) return {};
  if ((parsed->kind == HostKind::kIpv6) != has_brackets) return {};
  return NetworkEndpoint{*parsed, *port};
}

std::optional<std::string> ParseMac(const std::string& text) {
  const auto address = ParseMacAddress(text);
  if (!address || !address->IsUnicast()) return {};
  return address->Text();
}

bool LooksLikeMac(const std::string& text) { return text.find(':') != std::string::npos; }

bool IsInterfaceName(const std::string& text) {
  if (text.empty() || text.size() >= IFNAMSIZ || text == "." || text == "..") return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    // The kernel expands '%'; a comma separates transport options.
    return c > ' ' && c < 0x7f && c != '/' && c != ':' && c != '%' && c != ',';
  });
}

}  // namespace millrace::inline transport
