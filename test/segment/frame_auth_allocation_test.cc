// Signing and verifying a frame allocates nothing, OpenSSL included.
#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "exchange/protocol/frame.h"
#include "segment/auth/frame_auth.h"
#include "test/sim/handshake_cluster.h"

namespace millrace {
namespace {

std::atomic<int> allocations = 0;

void* Allocate(size_t bytes, const char*, int) {
  ++allocations;
  return std::malloc(bytes);
}
void* Reallocate(void* old, size_t bytes, const char*, int) {
  ++allocations;
  return std::realloc(old, bytes);
}
void Free(void* memory, const char*, int) { std::free(memory); }

// OpenSSL accepts allocation functions only before its first allocation.
const bool counted = CRYPTO_set_mem_functions(Allocate, Reallocate, Free) == 1;

TEST(FrameAuthAllocation, OpensslAllocatesWhenASessionBeginsAndNotPerFrame) {
  ASSERT_TRUE(counted);
  const SecretKey key = sim::KeyOf(1);
  const Nonce session_id = {std::byte{1}};
  FrameSigner signer(key, 1, 0, session_id);
  FrameVerifier verifier(key, 1, 1);
  verifier.Admit(0, session_id);
  EXPECT_GT(allocations, 0);
  std::vector<std::byte> frame(1464 + kFrameTagBytes);
  const std::span all(frame);
  allocations = 0;
  for (int i = 0; i < 100; ++i) {
    signer.Sign(all.first(kFrameHeaderBytes), all.subspan(kFrameHeaderBytes, 1400),
                all.last<kFrameTagBytes>());
    ASSERT_EQ(verifier.Verify(all).result, VerifyResult::kVerified);
    frame[200] ^= std::byte{1};
    ASSERT_NE(verifier.Verify(all).result, VerifyResult::kVerified);
  }
  EXPECT_EQ(allocations, 0);
}

}  // namespace
}  // namespace millrace
