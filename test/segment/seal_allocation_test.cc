// What a frame costs in allocations: none, OpenSSL's included.
#include <gtest/gtest.h>
#include <openssl/crypto.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "exchange/protocol/frame.h"
#include "segment/auth/frame_auth.h"
#include "test/segment/meeting.h"

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

// OpenSSL takes others' functions only before it has allocated anything.
const bool counted = CRYPTO_set_mem_functions(Allocate, Reallocate, Free) == 1;

TEST(SealAllocation, OpensslAllocatesWhenALifeBeginsAndNotPerFrame) {
  ASSERT_TRUE(counted);
  const SecretKey key = test::KeyOf(1);
  const Nonce life = {std::byte{1}};
  Sealer sealer(key, 1, 0, life);
  Opener opener(key, 1, 1);
  opener.Admit(0, life);
  EXPECT_GT(allocations, 0);
  std::vector<std::byte> frame(1464 + kSealBytes);
  const std::span all(frame);
  allocations = 0;
  for (int i = 0; i < 100; ++i) {
    sealer.Seal(all.first(kFrameHeaderBytes), all.subspan(kFrameHeaderBytes, 1400),
                all.last<kSealBytes>());
    ASSERT_EQ(opener.Open(all).result, OpenResult::kOpened);
    frame[200] ^= std::byte{1};
    ASSERT_NE(opener.Open(all).result, OpenResult::kOpened);
  }
  EXPECT_EQ(allocations, 0);
}

}  // namespace
}  // namespace millrace
