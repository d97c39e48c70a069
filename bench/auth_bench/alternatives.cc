#include "bench/auth_bench/alternatives.h"

#include <glog/logging.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <sodium.h>

#include <cstdint>
#include <cstring>

namespace auth_bench {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kTagBytes = 16;

const unsigned char* Raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* Raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// Any 32 bytes: the time does not depend on them.
const unsigned char kKey[32] = {7, 1, 9, 4};

// An OpenSSL cipher with associated data and no text.
class OpensslAead : public Alternative {
 public:
  OpensslAead(const char* name, const EVP_CIPHER* cipher)
      : Alternative(name), context_(EVP_CIPHER_CTX_new()) {
    CHECK_EQ(EVP_EncryptInit_ex(context_, cipher, nullptr, kKey, nullptr), 1);
  }
  ~OpensslAead() override { EVP_CIPHER_CTX_free(context_); }
  void Tag(Bytes header, Bytes payload, std::byte* tag) override {
    unsigned char nonce[12] = {};
    memcpy(nonce, &++counter_, sizeof(counter_));
    int done = 0;
    CHECK_EQ(EVP_EncryptInit_ex(context_, nullptr, nullptr, nullptr, nonce), 1);
    EVP_EncryptUpdate(context_, nullptr, &done, Raw(header.data()), int(header.size()));
    EVP_EncryptUpdate(context_, nullptr, &done, Raw(payload.data()), int(payload.size()));
    EVP_EncryptFinal_ex(context_, Raw(tag), &done);
    CHECK_EQ(EVP_CIPHER_CTX_ctrl(context_, EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag), 1);
  }

 private:
  EVP_CIPHER_CTX* const context_;
  uint64_t counter_ = 0;
};

// OpenSSL's MAC interface: GMAC, with a nonce, or BLAKE2b, without.
class OpensslMac : public Alternative {
 public:
  OpensslMac(const char* name, const char* algorithm, bool gmac)
      : Alternative(name), mac_(EVP_MAC_fetch(nullptr, algorithm, nullptr)), gmac_(gmac) {
    CHECK(mac_ != nullptr);
    context_ = EVP_MAC_CTX_new(mac_);
    char cipher[] = "AES-256-GCM";
    size_t size = kTagBytes;
    OSSL_PARAM gmac_settings[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_CIPHER, cipher, 0),
        OSSL_PARAM_construct_end()};
    OSSL_PARAM plain_settings[] = {OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                                   OSSL_PARAM_construct_end()};
    CHECK_EQ(EVP_MAC_init(context_, kKey, 32, gmac ? gmac_settings : plain_settings), 1);
  }
  ~OpensslMac() override {
    EVP_MAC_CTX_free(context_);
    EVP_MAC_free(mac_);
  }
  void Tag(Bytes header, Bytes payload, std::byte* tag) override {
    unsigned char nonce[12] = {};
    memcpy(nonce, &++counter_, sizeof(counter_));
    OSSL_PARAM settings[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_IV, nonce, sizeof(nonce)),
        OSSL_PARAM_construct_end()};
    // BLAKE2b starts again only when it is given its key.
    CHECK_EQ(gmac_ ? EVP_MAC_init(context_, nullptr, 0, settings)
                   : EVP_MAC_init(context_, kKey, 32, nullptr),
             1);
    EVP_MAC_update(context_, Raw(header.data()), header.size());
    EVP_MAC_update(context_, Raw(payload.data()), payload.size());
    size_t done = 0;
    CHECK_EQ(EVP_MAC_final(context_, Raw(tag), &done, kTagBytes), 1);
  }

 private:
  EVP_MAC* const mac_;
  EVP_MAC_CTX* context_ = nullptr;
  const bool gmac_;
  uint64_t counter_ = 0;
};

class SodiumBlake2b : public Alternative {
 public:
  SodiumBlake2b() : Alternative("sodium BLAKE2b-128") {}
  void Tag(Bytes header, Bytes payload, std::byte* tag) override {
    crypto_generichash_state state;
    crypto_generichash_init(&state, kKey, sizeof(kKey), kTagBytes);
    crypto_generichash_update(&state, Raw(header.data()), header.size());
    crypto_generichash_update(&state, Raw(payload.data()), payload.size());
    crypto_generichash_final(&state, Raw(tag), kTagBytes);
  }
};

// A one-time key for each frame: a block of ChaCha20 under the frame's number.
class SodiumPoly1305 : public Alternative {
 public:
  SodiumPoly1305() : Alternative("sodium Poly1305, ChaCha20 keys") {}
  void Tag(Bytes header, Bytes payload, std::byte* tag) override {
    unsigned char nonce[crypto_stream_chacha20_NONCEBYTES], key[crypto_onetimeauth_KEYBYTES];
    memcpy(nonce, &++counter_, sizeof(nonce));
    crypto_stream_chacha20(key, sizeof(key), nonce, kKey);
    crypto_onetimeauth_state state;
    crypto_onetimeauth_init(&state, key);
    crypto_onetimeauth_update(&state, Raw(header.data()), header.size());
    crypto_onetimeauth_update(&state, Raw(payload.data()), payload.size());
    crypto_onetimeauth_final(&state, Raw(tag));
    sodium_memzero(key, sizeof(key));
  }

 private:
  uint64_t counter_ = 0;
};

// Takes its data in one piece, so the two are joined first.
class SodiumGcm : public Alternative {
 public:
  SodiumGcm() : Alternative("sodium AES-256-GCM, no text") {
    crypto_aead_aes256gcm_beforenm(&state_, kKey);
  }
  void Tag(Bytes header, Bytes payload, std::byte* tag) override {
    joined_.resize(header.size() + payload.size());
    memcpy(joined_.data(), header.data(), header.size());
    memcpy(joined_.data() + header.size(), payload.data(), payload.size());
    unsigned char nonce[crypto_aead_aes256gcm_NPUBBYTES] = {};
    memcpy(nonce, &++counter_, sizeof(counter_));
    unsigned long long done = 0;
    crypto_aead_aes256gcm_encrypt_afternm(Raw(tag), &done, nullptr, 0, Raw(joined_.data()),
                                          joined_.size(), nullptr, nonce, &state_);
  }

 private:
  crypto_aead_aes256gcm_state state_;
  std::vector<std::byte> joined_;
  uint64_t counter_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Alternative>> Alternatives() {
  CHECK_GE(sodium_init(), 0);
  std::vector<std::unique_ptr<Alternative>> all;
  all.push_back(std::make_unique<OpensslAead>("OpenSSL AES-128-GCM, no text", EVP_aes_128_gcm()));
  all.push_back(std::make_unique<OpensslAead>("OpenSSL AES-256-GCM, no text", EVP_aes_256_gcm()));
  all.push_back(std::make_unique<OpensslMac>("OpenSSL GMAC by EVP_MAC", "GMAC", true));
  all.push_back(
      std::make_unique<OpensslAead>("OpenSSL ChaCha20-Poly1305, no text", EVP_chacha20_poly1305()));
  all.push_back(std::make_unique<OpensslMac>("OpenSSL BLAKE2b-128", "BLAKE2BMAC", false));
  all.push_back(std::make_unique<SodiumBlake2b>());
  all.push_back(std::make_unique<SodiumPoly1305>());
  if (crypto_aead_aes256gcm_is_available() != 0) all.push_back(std::make_unique<SodiumGcm>());
  return all;
}

}  // namespace auth_bench
