// Channels of a blob in any memory order.
#ifndef MILLRACE_NN_LAYERS_CHANNEL_VIEW_H_
#define MILLRACE_NN_LAYERS_CHANNEL_VIEW_H_

#include <cstdint>

namespace millrace::inline nn {

// In memory, values are [outer][blocks][area][inner]; the channel is block * inner + the innermost
// index. Plain order has an `inner` of 1, channels innermost have one block.
struct ChannelView {
  int64_t outer = 1, blocks = 1, area = 1, inner = 1;

  // The view of values in plain order, [outer][channels][area].
  static ChannelView Plain(int64_t outer, int64_t channels, int64_t area) {
    if (area == 1) return {1, 1, outer, channels};  // the same memory, in longer loops
    return {outer, channels, area, 1};
  }

  int64_t channels() const { return blocks * inner; }
  int64_t per_channel() const { return outer * area; }
  int64_t count() const { return channels() * per_channel(); }
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CHANNEL_VIEW_H_
