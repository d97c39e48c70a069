// The channels of a blob, which are its axis 1.
#ifndef MILLRACE_NN_LAYERS_CHANNELS_OF_H_
#define MILLRACE_NN_LAYERS_CHANNELS_OF_H_

#include "nn/layers/channel_view.h"
#include "nn/layout.h"

namespace millrace::inline nn {

// `blob` has at least two axes and any memory order.
inline ChannelView ChannelsOf(const Blob& blob) {
  if (blob.layout() == Layout::kPlain) {
    return ChannelView::Plain(blob.dim(0), blob.dim(1), blob.count(2));
  }
  const SpatialView view = ViewOf(blob);
  return {blob.dim(0), blob.dim(1) / view.inner, view.height * view.width, view.inner};
}

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_LAYERS_CHANNELS_OF_H_
