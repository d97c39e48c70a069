// Random values: session ids and challenges.
#ifndef MILLRACE_SEGMENT_AUTH_NONCE_H_
#define MILLRACE_SEGMENT_AUTH_NONCE_H_

#include <array>
#include <cstddef>
#include <functional>
#include <span>

namespace millrace::inline segment {

// All zero: none.
using Nonce = std::array<std::byte, 16>;
inline constexpr Nonce kNoNonce{};

// Fills the span with unpredictable bytes. Called by one thread at a time.
using RandomBytes = std::function<void(std::span<std::byte>)>;

// 127 random bits; never kNoNonce.
inline Nonce DrawNonce(const RandomBytes& random) {
  Nonce nonce;
  random(nonce);
  nonce[0] |= std::byte{1};
  return nonce;
}

}  // namespace millrace::inline segment

#endif  // MILLRACE_SEGMENT_AUTH_NONCE_H_
