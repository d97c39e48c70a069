// Authentication tags and keys, by OpenSSL: the only files that know the library.
//
// Contexts are made by the constructors; a numbered tag, which frames get, allocates
// nothing, OpenSSL's HMAC does. What fails in here is a defect of ours or of the library's
// installation: CHECK. Not thread-safe; two objects may be used by two threads.
#ifndef MILLRACE_SEGMENT_AUTH_OPENSSL_MAC_H_
#define MILLRACE_SEGMENT_AUTH_OPENSSL_MAC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct evp_cipher_ctx_st;
struct evp_mac_ctx_st;

namespace millrace {

inline constexpr size_t kTagBytes = 16;
using Tag = std::array<std::byte, kTagBytes>;

// Overwrites memory in a way that no compiler leaves out.
void Wipe(std::span<std::byte> secret);

// Takes as long for equal tags as for others.
bool SameTag(std::span<const std::byte, kTagBytes> a, std::span<const std::byte, kTagBytes> b);

// The operating system's generator, for programs; tests inject their own.
void SystemRandom(std::span<std::byte> out);

// 32 secret bytes, wiped when they go.
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

// HKDF with SHA-256 (RFC 5869), without salt: one key for each `purpose`.
SecretKey DeriveKey(const SecretKey& key, std::span<const std::byte> purpose);

// AES-256-GCM without a text, which is GMAC: fast, and safe only while no number is used
// twice to make a tag under one key.
class Gmac {
 public:
  explicit Gmac(const SecretKey& key);

  // Of `first` followed by `second`.
  void Make(uint64_t number, std::span<const std::byte> first, std::span<const std::byte> second,
            std::span<std::byte, kTagBytes> tag);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

// HMAC with SHA-256, its first 16 bytes: slower, needs no number.
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

}  // namespace millrace

#endif  // MILLRACE_SEGMENT_AUTH_OPENSSL_MAC_H_
