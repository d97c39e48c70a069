// Descriptors of oneDNN's primitives, made alike with its versions 2 and 3. Version 2 makes them
// from an operation descriptor; version 3 has none, and names each array of an operation where
// version 2 has one name for arrays of the same shape, and has a dilation for pooling. Everything
// else that this project uses is the same in both.
#ifndef MILLRACE_NN_ONEDNN_PRIMITIVE_DESCS_H_
#define MILLRACE_NN_ONEDNN_PRIMITIVE_DESCS_H_

#include <dnnl.hpp>

namespace millrace::inline nn::onednn {

template <typename Primitive>
concept HasOperationDesc = requires {
  typename Primitive::desc;
};

// The axes of an array.
template <typename Desc>
dnnl::memory::dims DimsOf(const Desc& desc) {
  if constexpr (requires { desc.get_dims(); }) {
    return desc.get_dims();
  } else {
    return desc.dims();
  }
}

struct PoolingWindows {
  dnnl::memory::dims stride, kernel, padding, padding_end;
};

class PrimitiveDescs {
 public:
  PrimitiveDescs(const dnnl::engine& engine, const dnnl::primitive_attr& attributes)
      : engine_(engine), attributes_(attributes) {}

  // `operation`: the arguments of the operation, which both versions take in the same order.
  template <typename Primitive, typename... Operation>
  auto Forward(const Operation&... operation) const {
    using Desc = typename Primitive::primitive_desc;
    if constexpr (HasOperationDesc<Primitive>) {
      return Desc(typename Primitive::desc(operation...), attributes_, engine_);
    } else {
      return Desc(engine_, operation..., attributes_);
    }
  }

  // Chooses the first implementation for which `accepts(descriptor)` holds; the last one if there
  // is none.
  template <typename Primitive, typename Accepts, typename ForwardDesc, typename... Operation>
  auto BackwardThat(Accepts accepts, const ForwardDesc& forward,
                    const Operation&... operation) const {
    using Desc = typename Primitive::primitive_desc;
    const auto accepted = [&](Desc desc) {
      while (!accepts(desc) && desc.next_impl()) {
      }
      return desc;
    };
    if constexpr (HasOperationDesc<Primitive>) {
      // next_impl reads it again: the descriptor keeps no copy.
      const typename Primitive::desc kept(operation...);
      return accepted(Desc(kept, attributes_, engine_, forward));
    } else {
      return accepted(Desc(engine_, operation..., forward, attributes_));
    }
  }
  template <typename Primitive, typename ForwardDesc, typename... Operation>
  auto Backward(const ForwardDesc& forward, const Operation&... operation) const {
    return BackwardThat<Primitive>([](const auto&) { return true; }, forward, operation...);
  }

  // Bottom and top have the same descriptor.
  template <typename Primitive = dnnl::eltwise_forward>
  auto ReluForward(const dnnl::memory::desc& data, float slope) const {
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    constexpr auto kAlgorithm = dnnl::algorithm::eltwise_relu;
    if constexpr (HasOperationDesc<Primitive>) {
      return Forward<Primitive>(kKind, kAlgorithm, data, slope);
    } else {
      return Forward<Primitive>(kKind, kAlgorithm, data, data, slope);
    }
  }
  template <typename Primitive = dnnl::eltwise_backward, typename ForwardDesc>
  auto ReluBackward(const ForwardDesc& forward, const dnnl::memory::desc& data, float slope) const {
    constexpr auto kAlgorithm = dnnl::algorithm::eltwise_relu;
    if constexpr (HasOperationDesc<Primitive>) {
      return Backward<Primitive>(forward, kAlgorithm, data, data, slope);
    } else {
      return Backward<Primitive>(forward, kAlgorithm, data, data, data, slope);
    }
  }

  template <typename Primitive = dnnl::lrn_forward>
  auto LrnForward(dnnl::algorithm algorithm, const dnnl::memory::desc& data, dnnl::memory::dim size,
                  float alpha, float beta, float k) const {
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    if constexpr (HasOperationDesc<Primitive>) {
      return Forward<Primitive>(kKind, algorithm, data, size, alpha, beta, k);
    } else {
      return Forward<Primitive>(kKind, algorithm, data, data, size, alpha, beta, k);
    }
  }
  template <typename Primitive = dnnl::lrn_backward, typename ForwardDesc>
  auto LrnBackward(const ForwardDesc& forward, dnnl::algorithm algorithm,
                   const dnnl::memory::desc& data, dnnl::memory::dim size, float alpha, float beta,
                   float k) const {
    if constexpr (HasOperationDesc<Primitive>) {
      return Backward<Primitive>(forward, algorithm, data, data, size, alpha, beta, k);
    } else {
      return Backward<Primitive>(forward, algorithm, data, data, data, size, alpha, beta, k);
    }
  }

  template <typename Primitive = dnnl::pooling_forward>
  auto PoolingForward(dnnl::algorithm algorithm, const dnnl::memory::desc& source,
                      const dnnl::memory::desc& destination, const PoolingWindows& w) const {
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    if constexpr (HasOperationDesc<Primitive>) {
      return Forward<Primitive>(kKind, algorithm, source, destination, w.stride, w.kernel,
                                w.padding, w.padding_end);
    } else {
      return Forward<Primitive>(kKind, algorithm, source, destination, w.stride, w.kernel,
                                Undilated(w), w.padding, w.padding_end);
    }
  }
  template <typename Primitive = dnnl::pooling_backward, typename ForwardDesc>
  auto PoolingBackward(const ForwardDesc& forward, dnnl::algorithm algorithm,
                       const dnnl::memory::desc& source, const dnnl::memory::desc& destination,
                       const PoolingWindows& w) const {
    if constexpr (HasOperationDesc<Primitive>) {
      return Backward<Primitive>(forward, algorithm, source, destination, w.stride, w.kernel,
                                 w.padding, w.padding_end);
    } else {
      return Backward<Primitive>(forward, algorithm, source, destination, w.stride, w.kernel,
                                 Undilated(w), w.padding, w.padding_end);
    }
  }

 private:
  static dnnl::memory::dims Undilated(const PoolingWindows& windows) {
    return dnnl::memory::dims(windows.kernel.size(), 0);
  }

  const dnnl::engine engine_;
  const dnnl::primitive_attr attributes_;
};

}  // namespace millrace::inline nn::onednn

#endif  // MILLRACE_NN_ONEDNN_PRIMITIVE_DESCS_H_
