#include "control/access.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/text/format.h"
#include "base/text/parse.h"
#include "segment/auth/key_file.h"
#include "transport/network_names.h"

namespace millrace::inline control {
namespace {

std::span<const std::byte> BytesOf(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string TokenOf(const SecretKey& control, std::string_view purpose) {
  return Hex(DeriveKey(control, BytesOf(purpose)).bytes());
}

std::string SignatureOf(HmacSha256* mac, const HttpRequest& request, std::string_view time,
                        std::string_view nonce) {
  std::string message = request.method;
  for (const std::string_view part :
       {std::string_view(request.target), time, nonce, std::string_view(request.body)}) {
    message += '\n';
    message += part;
  }
  Tag tag;
  mac->Make(BytesOf(message), tag);
  return Hex(tag);
}

// Compares in a time that depends on the length of `given` only.
bool SameText(std::string_view given, std::string_view expected) {
  unsigned different = given.size() != expected.size();
  for (size_t i = 0; i < given.size(); ++i) {
    const char other = expected.empty() ? '\0' : expected[i % expected.size()];
    different |= static_cast<unsigned char>(given[i] ^ other);
  }
  return different == 0;
}

// Takes the value of a header Host, whose port may be missing.
bool IsLoopbackHost(const std::string& text) {
  const std::optional<NetworkEndpoint> with_port = ParseHostAndPort(text);
  const std::optional<NetworkHost> host = with_port ? with_port->host : ParseHost(text);
  return host && IsLoopback(*host);
}

}  // namespace

SecretKey ControlKey(const SecretKey& cluster) {
  return DeriveKey(cluster, BytesOf("millrace control 1"));
}

SecretKey ControlKeyOf(const std::string& key_file) {
  if (!key_file.empty()) return ControlKey(ReadKeyFile(key_file));
  SecretKey key;
  SystemRandom(key.bytes());
  return key;
}

std::string ControlToken(const SecretKey& control) {
  return TokenOf(control, "millrace control token 1");
}

std::string ReadToken(const SecretKey& control) {
  return TokenOf(control, "millrace read token 1");
}

void Sign(const SecretKey& control, int64_t unix_seconds, const Nonce& nonce,
          HttpRequest* request) {
  HmacSha256 mac(control);
  const std::string time = StrCat(unix_seconds), digits = Hex(nonce);
  request->headers["millrace-signature"] = SignatureOf(&mac, *request, time, digits);
  request->headers["millrace-time"] = time;
  request->headers["millrace-nonce"] = digits;
}

HttpResponse RefusalResponse(const Refusal& refusal) {
  HttpResponse response = ProblemResponse(refusal.status, refusal.reason);
  if (refusal.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

AccessCheck::Address AccessCheck::AddressOf(const HttpAddress& listens_at, bool is_encrypted,
                                            bool has_cluster_key) {
  if (!has_cluster_key && !listens_at.is_loopback()) {
    throw Error("control service at ", listens_at.text(), ": other machines can reach this ",
                "address, expected a key_file, or an address such as 127.0.0.1:8400");
  }
  return {.host_and_port = listens_at.text(),
          .is_loopback = listens_at.is_loopback(),
          .is_encrypted = is_encrypted};
}

AccessCheck::AccessCheck(const SecretKey& control, Address address)
    : mac_(control),
      control_token_(ControlToken(control)),
      read_token_(ReadToken(control)),
      address_(std::move(address)) {}

std::optional<Refusal> AccessCheck::Check(const HttpRequest& request, Access access,
                                          int64_t unix_seconds) {
  if (auto refusal = CheckSite(request)) return refusal;
  if (access == Access::kPublic) return {};
  const std::string_view given = request.Header("authorization");
  if (!request.Header("millrace-signature").empty()) return CheckSignature(request, unix_seconds);
  if (!given.empty()) {
    if (!address_.is_loopback && !address_.is_encrypted) {
      return Refusal{401, "a token can be read on the way, expected a signed request"};
    }
    constexpr std::string_view kScheme = "Bearer ";
    const std::string_view token =
        given.starts_with(kScheme) ? given.substr(kScheme.size()) : std::string_view();
    if (SameText(token, control_token_)) return {};
    if (SameText(token, read_token_)) {
      if (access == Access::kRead) return {};
      return Refusal{403, "this token is for reading only"};
    }
    return Refusal{401, "wrong token"};
  }
  if (access == Access::kRead && address_.is_loopback) return {};
  return Refusal{401, "expected a signed request, or a token"};
}

std::optional<Refusal> AccessCheck::CheckSite(const HttpRequest& request) const {
  const std::string_view host = request.Header("host"), origin = request.Header("origin");
  // A name of another site that has been made to point to this machine.
  if (address_.is_loopback && !IsLoopbackHost(std::string(host))) {
    return Refusal{403, "the header Host names another host than this machine's loopback"};
  }
  const std::string own = (address_.is_encrypted ? "https://" : "http://") + std::string(host);
  if (!origin.empty() && origin != own) {
    return Refusal{403, "the header Origin names another site"};
  }
  if (request.Header("sec-fetch-site") == "cross-site") {
    return Refusal{403, "the request comes from a page of another site"};
  }
  return {};
}

std::optional<Refusal> AccessCheck::CheckSignature(const HttpRequest& request,
                                                   int64_t unix_seconds) {
  const std::string_view time = request.Header("millrace-time");
  const std::string_view nonce = request.Header("millrace-nonce");
  const std::optional<int64_t> signed_at = ParseNumber<int64_t>(time);
  if (!signed_at || *signed_at < 0 || nonce.size() != 2 * sizeof(Nonce)) {
    return Refusal{401, "millrace-time or millrace-nonce is missing or malformed"};
  }
  if (!SameText(request.Header("millrace-signature"), SignatureOf(&mac_, request, time, nonce))) {
    return Refusal{401, "wrong signature"};
  }
  if (*signed_at < unix_seconds - kWindowSeconds || *signed_at > unix_seconds + kWindowSeconds) {
    return Refusal{401,
                   StrCat("signed at ", *signed_at, ", which differs from this machine's time, ",
                          unix_seconds, ", by more than ", kWindowSeconds, " s")};
  }
  if (unix_seconds != pruned_at_) {
    std::erase_if(nonces_, [&](const auto& each) { return each.second < unix_seconds; });
    pruned_at_ = unix_seconds;
  }
  if (nonces_.size() >= kMaxNonces) return Refusal{429, "too many signed requests"};
  const bool is_new = nonces_.emplace(nonce, *signed_at + kWindowSeconds).second;
  if (!is_new) return Refusal{401, "this request was received before"};
  return {};
}

}  // namespace millrace::inline control
