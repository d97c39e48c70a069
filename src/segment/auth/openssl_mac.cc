#include "segment/auth/openssl_mac.h"

#include <glog/logging.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <cstring>

namespace millrace::inline segment {
namespace {

const unsigned char* Raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
unsigned char* Raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

char kSha256[] = "SHA256";  // OSSL_PARAM takes no const pointers

}  // namespace

void Wipe(std::span<std::byte> secret) { OPENSSL_cleanse(secret.data(), secret.size()); }

bool SameTag(std::span<const std::byte, kTagBytes> a, std::span<const std::byte, kTagBytes> b) {
  return CRYPTO_memcmp(a.data(), b.data(), kTagBytes) == 0;
}

void SystemRandom(std::span<std::byte> out) {
  CHECK_EQ(RAND_bytes(Raw(out.data()), static_cast<int>(out.size())), 1);
}

SecretKey DeriveKey(const SecretKey& key, std::span<const std::byte> purpose) {
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  CHECK(kdf != nullptr);
  EVP_KDF_CTX* context = EVP_KDF_CTX_new(kdf);
  EVP_KDF_free(kdf);
  CHECK(context != nullptr);
  const OSSL_PARAM settings[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, kSha256, 0),
      OSSL_PARAM_construct_octet_string(
          OSSL_KDF_PARAM_KEY, const_cast<std::byte*>(key.bytes().data()), key.bytes().size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, const_cast<std::byte*>(purpose.data()),
                                        purpose.size()),
      OSSL_PARAM_construct_end()};
  SecretKey derived;
  const auto out = derived.bytes();
  CHECK_EQ(EVP_KDF_derive(context, Raw(out.data()), out.size(), settings), 1);
  EVP_KDF_CTX_free(context);  // wipes its copies
  return derived;
}

Gmac::Gmac(const SecretKey& key) : context_(EVP_CIPHER_CTX_new()) {
  CHECK(context_ != nullptr);
  CHECK_EQ(EVP_EncryptInit_ex(context_.get(), EVP_aes_256_gcm(), nullptr, Raw(key.bytes().data()),
                              nullptr),
           1);
}

void Gmac::Make(uint64_t number, std::span<const std::byte> first,
                std::span<const std::byte> second, std::span<std::byte, kTagBytes> tag) {
  unsigned char nonce[12] = {};
  std::memcpy(nonce, &number, sizeof(number));
  EVP_CIPHER_CTX* context = context_.get();
  int done = 0;
  bool ok = EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce) == 1;
  for (const auto piece : {first, second}) {
    if (piece.empty()) continue;
    ok = ok && EVP_EncryptUpdate(context, nullptr, &done, Raw(piece.data()),
                                 static_cast<int>(piece.size())) == 1;
  }
  ok = ok && EVP_EncryptFinal_ex(context, Raw(tag.data()), &done) == 1;
  ok = ok && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kTagBytes, tag.data()) == 1;
  CHECK(ok) << "OpenSSL made no tag";
}

void Gmac::Free::operator()(evp_cipher_ctx_st* context) const {
  EVP_CIPHER_CTX_free(context);  // wipes the key
}

HmacSha256::HmacSha256(const SecretKey& key) {
  EVP_MAC* mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  CHECK(mac != nullptr);
  context_.reset(EVP_MAC_CTX_new(mac));
  EVP_MAC_free(mac);
  CHECK(context_ != nullptr);
  const OSSL_PARAM settings[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, kSha256, 0),
      OSSL_PARAM_construct_end()};
  const auto bytes = key.bytes();
  CHECK_EQ(EVP_MAC_init(context_.get(), Raw(bytes.data()), bytes.size(), settings), 1);
}

void HmacSha256::Make(std::span<const std::byte> message, std::span<std::byte, kTagBytes> tag) {
  EVP_MAC_CTX* context = context_.get();
  unsigned char whole[32];
  size_t done = 0;
  // A null key restarts the context with its present key.
  bool ok = EVP_MAC_init(context, nullptr, 0, nullptr) == 1;
  ok = ok && EVP_MAC_update(context, Raw(message.data()), message.size()) == 1;
  ok = ok && EVP_MAC_final(context, whole, &done, sizeof(whole)) == 1;
  CHECK(ok && done == sizeof(whole)) << "OpenSSL made no tag";
  std::memcpy(tag.data(), whole, kTagBytes);
}

void HmacSha256::Free::operator()(evp_mac_ctx_st* context) const { EVP_MAC_CTX_free(context); }

}  // namespace millrace::inline segment
