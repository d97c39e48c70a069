// Access control of the service: signatures, tokens, and protection from pages of other sites.
//
// A signed request has the headers
//   millrace-time       seconds since 1970, decimal
//   millrace-nonce      32 hexadecimal digits, other ones in each request
//   millrace-signature  32 hexadecimal digits: HMAC-SHA-256, truncated to 16 bytes, of
//                       METHOD "\n" TARGET "\n" TIME "\n" NONCE "\n" BODY
// A token is a header "authorization: Bearer TOKEN". It can be read on the way and used again, so
// it counts only where nobody can read it: on a loopback address, or under TLS.
#ifndef MILLRACE_CONTROL_ACCESS_H_
#define MILLRACE_CONTROL_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "control/http_address.h"
#include "control/http_message.h"
#include "segment/auth/nonce.h"
#include "segment/auth/openssl_mac.h"

namespace millrace::inline control {

// The key of the control services of a cluster, from the secret that its nodes share.
SecretKey ControlKey(const SecretKey& cluster);

// That of the secret in a file; "": a key drawn at random.
SecretKey ControlKeyOf(const std::string& key_file);

// Tokens of this key: for everything, and for reading only, as scrapers of metrics need it.
std::string ControlToken(const SecretKey& control);
std::string ReadToken(const SecretKey& control);

// Adds the headers of a signature. `unix_seconds`: now.
void Sign(const SecretKey& control, int64_t unix_seconds, const Nonce& nonce, HttpRequest* request);

enum class Access {
  kPublic,   // the page, whose data need more
  kRead,     // free on a loopback address
  kControl,  // never free
};

struct Refusal {
  int status = 401;
  std::string reason = "";  // one line, without secrets
};

// With status and reason.
HttpResponse RefusalResponse(const Refusal& refusal);

// Decides about requests to one address. Not thread-safe.
class AccessCheck {
 public:
  // How far the clocks of two machines may differ; for so long nonces are kept.
  static constexpr int64_t kWindowSeconds = 60;
  // Signed requests of two windows; more are refused.
  static constexpr size_t kMaxNonces = 100'000;

  struct Address {
    std::string host_and_port = "";  // as the service listens
    bool is_loopback = false;
    bool is_encrypted = false;
  };
  AccessCheck(const SecretKey& control, Address address);
  // Describes a service that listens there. Throws Error if other machines can reach it, and it has
  // no key of the cluster.
  static Address AddressOf(const HttpAddress& listens_at, bool is_encrypted, bool has_cluster_key);

  // None: the request may do this.
  std::optional<Refusal> Check(const HttpRequest& request, Access access, int64_t unix_seconds);

 private:
  std::optional<Refusal> CheckSite(const HttpRequest& request) const;
  std::optional<Refusal> CheckSignature(const HttpRequest& request, int64_t unix_seconds);

  HmacSha256 mac_;
  const std::string control_token_, read_token_;
  const Address address_;
  std::map<std::string, int64_t> nonces_;  // with the time until which they are kept
  int64_t pruned_at_ = 0;
};

}  // namespace millrace::inline control

#endif  // MILLRACE_CONTROL_ACCESS_H_
