// Authentication tags and keys by OpenSSL. No other file depends on the library.
//
// Constructors create the OpenSSL contexts. Gmac::Make, used per frame, allocates nothing;
// OpenSSL's HMAC allocates. A failure is a defect of this code or of the OpenSSL installation and
// fails a CHECK. Not thread-safe, but two threads may use two objects.
#ifndef MILLRACE_SEGMENT_AUTH_OPENSSL_MAC_H_
#define MILLRACE_SEGMENT_AUTH_OPENSSL_MAC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct evp_cipher_ctx_st;
struct evp_mac_ctx_st;

namespace millrace::inline segment {

inline constexpr size_t kTagBytes = 16;
using Tag = std::array<std::byte, kTagBytes>;

// Overwrites memory in a way that compilers do not optimize away.
void Wipe(std::span<std::byte> secret);

// Compares in constant time.
bool SameTag(std::span<const std::byte, kTagBytes> a, std::span<const std::byte, kTagBytes> b);

// OpenSSL's random generator, which the operating system seeds. For programs; tests inject their
// own.
void SystemRandom(std::span<std::byte> out);

// 32 secret bytes, wiped on destruction and after a move.
class SecretKey {
 public:
  SecretKey() = default;
  ~SecretKey() { Wipe(bytes_); }
  SecretKey(SecretKey&& other) noexcept : bytes_(other.bytes_) { Wipe(other.bytes_); }
  SecretKey(const SecretKey&) = delete;
  SecretKey& operator=(const SecretKey&) = delete;

  std::span<std::byte, 32> bytes() { return bytes_; }
  std::span<const std::byte, 32> bytes() const { return bytes_; }

 private:
  std::array<std::byte, 32> bytes_{};
};

// HKDF-SHA-256 (RFC 5869) without salt. Each `purpose` (the info) gives another key.
SecretKey DeriveKey(const SecretKey& key, std::span<const std::byte> purpose);

// GMAC: AES-256-GCM without plaintext. Fast, but secure only while no number is used twice under
// one key.
class Gmac {
 public:
  explicit Gmac(const SecretKey& key);

  // Writes the tag of `first` followed by `second`.
  void Make(uint64_t number, std::span<const std::byte> first, std::span<const std::byte> second,
            std::span<std::byte, kTagBytes> tag);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

// HMAC-SHA-256 (RFC 2104), truncated to its first 16 bytes. Slower than GMAC, but needs no number.
class HmacSha256 {
 public:
  explicit HmacSha256(const SecretKey& key);

  void Make(std::span<const std::byte> message, std::span<std::byte, kTagBytes> tag);

 private:
  struct Free {
    void operator()(evp_mac_ctx_st* context) const;
  };
  std::unique_ptr<evp_mac_ctx_st, Free> context_;
};

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_AUTH_OPENSSL_MAC_H_
