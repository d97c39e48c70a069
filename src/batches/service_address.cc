#include "batches/service_address.h"

#include <optional>

#include "base/error.h"
#include "base/text/parse.h"
#include "transport/network_names.h"

namespace millrace::inline batches {
namespace {

constexpr const char* kExpected =
    "expected batch://HOST:PORT/NAME or batch://HOST:PORT/NAME/LAYER, and after it ?key_file=PATH, "
    "wait=SECONDS or memory=off, with & between them";

bool IsServiceName(const std::string& name) {
  return !name.empty() && name.size() <= 256 &&
         name.find_first_of(" \t\r\n/?&#") == std::string::npos;
}

// The text up to the first `separator`, which is removed from `text` with it.
std::string TakeUntil(char separator, std::string* text) {
  const size_t end = std::min(text->find(separator), text->size());
  const std::string part = text->substr(0, end);
  text->erase(0, end + 1);
  return part;
}

void ReadOption(const std::string& option, ServiceAddress* address) {
  const size_t equal = std::min(option.find('='), option.size());
  const std::string name = option.substr(0, equal);
  const std::string value = equal < option.size() ? option.substr(equal + 1) : "";
  if (name == "key_file" && !value.empty()) {
    address->key_file = value;
  } else if (name == "memory" && (value == "on" || value == "off")) {
    address->memory = value == "on";
  } else if (const auto seconds = ParseNumber<double>(value);
             name == "wait" && seconds && *seconds >= 0 && *seconds <= 1e6) {
    address->wait_seconds = *seconds;
  } else {
    throw Error(address->text, ": '", option, "' is no option, ", kExpected);
  }
}

}  // namespace

ServiceAddress ParseServiceAddress(const std::string& text) {
  ServiceAddress address{
      .text = "batch:" + text, .host_and_port = {}, .name = {}, .layer = {}, .key_file = {}};
  if (!text.starts_with("//")) throw Error(address.text, ": ", kExpected);
  std::string rest = text.substr(2);
  std::string place = TakeUntil('?', &rest);
  const std::string host_and_port = TakeUntil('/', &place);
  const std::optional<NetworkEndpoint> endpoint = ParseHostAndPort(host_and_port);
  address.name = TakeUntil('/', &place);
  address.layer = place;
  if (!endpoint || endpoint->port == 0 || !IsServiceName(address.name)) {
    throw Error(address.text, ": ", kExpected);
  }
  address.host_and_port = HostAndPort(endpoint->host, endpoint->port);
  address.is_loopback = IsLoopback(endpoint->host);
  while (!rest.empty()) ReadOption(TakeUntil('&', &rest), &address);
  return address;
}

std::string CheckedListenAddress(const std::string& listen, bool has_key) {
  const std::optional<NetworkEndpoint> endpoint = ParseHostAndPort(listen);
  if (!endpoint) throw Error("--listen=", listen, ": expected HOST:PORT");
  if (!has_key && !IsLoopback(endpoint->host)) {
    throw Error("--listen=", listen,
                ": other machines can reach this address, expected --key_file "
                "with the cluster's key, or a loopback address");
  }
  return listen;
}

void CheckServiceName(const std::string& name) {
  if (IsServiceName(name)) return;
  throw Error("--name=", name, ": expected a name without spaces and any of / ? & #");
}

}  // namespace millrace::inline batches
