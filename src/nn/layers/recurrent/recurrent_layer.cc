#include "nn/layers/recurrent/recurrent_layer.h"

#include "device/kernel.h"
#include "nn/filler.h"
#include "nn/layers/channel_launch.h"
#include "nn/layers/elementwise/bias_kernels.h"
#include "nn/layers/recurrent/recurrent_kernels.h"
#include "nn/matrix_product.h"

namespace millrace::inline nn {

Arity RecurrentLayer::arity() const {
  const int more = exposed() ? states() : 0;
  return {2 + more, 3 + more, 1 + more, 1 + more};
}

void RecurrentLayer::AddWeights(const Shape& shape) {
  const caffe::FillerParameter& filler = param_.recurrent_param().weight_filler();
  CheckFiller(filler, shape, "recurrent_param.weight_filler");
  AddParam(shape, filler);
}

void RecurrentLayer::AddBias(const Shape& shape) {
  const caffe::FillerParameter& filler = param_.recurrent_param().bias_filler();
  CheckFiller(filler, shape, "recurrent_param.bias_filler");
  AddParam(shape, filler);
}

void RecurrentLayer::SetUp(const Blobs& bottom, const Blobs&) {
  outputs_ = param_.recurrent_param().num_output();
  if (outputs_ < 1) {
    throw FieldError("recurrent_param.num_output", outputs_, " given, expected at least 1");
  }
  if (bottom[0]->num_axes() < 3) {
    throw FieldError("bottom[0]", "has shape ", ShapeText(bottom[0]->shape()),
                     ", expected steps x streams x values");
  }
  has_static_ = static_cast<int>(bottom.size()) > 2 + (exposed() ? states() : 0);
  steps_ = bottom[0]->dim(0);
  inputs_ = bottom[0]->count(2);
  const int64_t sums = gates() * outputs_;
  AddWeights({sums, inputs_});
  AddBias({sums});
  if (has_static_) {
    if (bottom[2]->num_axes() < 2) {
      throw FieldError("bottom[2]", "has shape ", ShapeText(bottom[2]->shape()),
                       ", expected streams x values");
    }
    static_inputs_ = bottom[2]->count(1);
    AddWeights({sums, static_inputs_});
  }
  AddWeights({sums, outputs_});
  for (int s = 0; s < states(); ++s) states_.emplace_back(memory());
}

void RecurrentLayer::CheckBottoms(const Blobs& bottom) const {
  const auto check = [&](size_t i, bool fits, auto... expected) {
    if (fits) return;
    throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(bottom[i]->shape()),
                     ", expected ", expected...);
  };
  const Blob& x = *bottom[0];
  check(0, x.num_axes() >= 3 && x.dim(0) == steps_ && x.count(2) == inputs_, steps_,
        " steps of streams of ", inputs_, " values");
  const int64_t streams = x.dim(1);
  check(1, bottom[1]->shape() == Shape{steps_, streams}, ShapeText({steps_, streams}),
        ": one number per step and stream");
  if (has_static_) {
    check(2,
          bottom[2]->num_axes() >= 2 && bottom[2]->dim(0) == streams &&
              bottom[2]->count(1) == static_inputs_,
          streams, " streams of ", static_inputs_, " values");
  }
  for (size_t i = has_static_ ? 3 : 2; i < bottom.size(); ++i) {
    const Shape state{1, streams, outputs_};
    check(i, bottom[i]->shape() == state, ShapeText(state), ": the state before the first step");
  }
}

void RecurrentLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckBottoms(bottom);
  Queue& queue = *context_.queue;
  if (streams_ != bottom[0]->dim(1)) {
    streams_ = bottom[0]->dim(1);
    const int64_t sums = gates() * outputs_;
    gates_.Reshape({steps_, streams_, sums});
    continued_.Reshape({steps_, streams_, outputs_});
    continued_diff_.Reshape({streams_, outputs_});
    static_sums_.Reshape({streams_, sums});
    ones_.Reshape({steps_ * streams_});
    ones_.CopyDataFromHost(std::vector<float>(ones_.count(), 1.0f).data());
    for (Blob& state : states_) {
      state.Reshape({steps_ + 1, streams_, outputs_});
      queue.Fill(state.data(), 0, state.count() * sizeof(float));
    }
  }
  PrepareMultiply(queue);
  ChannelSumsMemory(context_);
  top[0]->Reshape({steps_, streams_, outputs_});
  for (size_t i = 1; i < top.size(); ++i) top[i]->Reshape({1, streams_, outputs_});
}

void RecurrentLayer::Forward(const Blobs& bottom, const Blobs& top) {
  Queue& queue = *context_.queue;
  const int64_t sums = gates() * outputs_, rows = steps_ * streams_;
  const size_t state_bytes = state_count() * sizeof(float);
  for (int s = 0; s < states(); ++s) {
    const float* const before =
        exposed() ? bottom[bottom.size() - states() + s]->data() : State(s, steps_);
    queue.Copy(State(s, 0), before, state_bytes);
  }
  Multiply(queue, false, true, rows, sums, inputs_, bottom[0]->data(), params_[0].blob->data(),
           false, Gates(0));
  LaunchMap(queue, ChannelView::Plain(rows, sums, 1),
            BiasForward{Gates(0), params_[1].blob->data(), Gates(0)});
  if (has_static_) {
    Multiply(queue, false, true, streams_, sums, static_inputs_, bottom[2]->data(),
             params_[2].blob->data(), false, static_sums_.data());
    LaunchMap(queue, ChannelView::Plain(steps_, streams_ * sums, 1),
              BiasForward{Gates(0), static_sums_.data(), Gates(0)});
  }
  for (int64_t t = 0; t < steps_; ++t) {
    const float* const cont = bottom[1]->data() + t * streams_;
    float* const continued = continued_.data() + t * state_count();
    Launch(queue, state_count(), ContinueState{outputs_, cont, State(0, t), continued});
    Multiply(queue, false, true, streams_, sums, outputs_, continued,
             params_[hidden_weights()].blob->data(), true, Gates(t));
    StepForward(t, cont);
  }
  Output(*top[0]);
  for (size_t i = 1; i < top.size(); ++i) {
    queue.Copy(top[i]->data(), State(static_cast<int>(i) - 1, steps_), state_bytes);
  }
}

void RecurrentLayer::Backward(const Blobs& top, const std::vector<bool>& propagate_down,
                              const Blobs& bottom) {
  Queue& queue = *context_.queue;
  const int64_t sums = gates() * outputs_, rows = steps_ * streams_;
  const float* const hidden_diff = OutputBackward(*top[0]);
  float* const next_diff = continued_diff_.data();
  for (int64_t t = steps_ - 1; t >= 0; --t) {
    const float* const cont = bottom[1]->data() + t * streams_;
    const bool last = t == steps_ - 1;
    StepBackward(t, cont, hidden_diff + t * state_count(), last ? nullptr : cont + streams_,
                 last ? nullptr : next_diff);
    if (t == 0) break;
    Multiply(queue, false, false, streams_, outputs_, sums, GateDiff(t),
             params_[hidden_weights()].blob->data(), false, next_diff);
  }
  WeightGradient(0, sums, inputs_, rows, GateDiff(0), bottom[0]->data());
  BiasGradientOf(1, sums, GateDiff(0));
  WeightGradient(hidden_weights(), sums, outputs_, rows, GateDiff(0), continued_.data());
  if (propagate_down[0]) {
    Multiply(queue, false, false, rows, inputs_, sums, GateDiff(0), params_[0].blob->data(), false,
             bottom[0]->diff());
  }
  if (!has_static_ || !(propagate_down[2] || params_[2].wanted)) return;
  LaunchSums(context_, ChannelView::Plain(steps_, streams_ * sums, 1),
             BiasGradient{GateDiff(0), {static_sums_.diff(), false}});
  WeightGradient(2, sums, static_inputs_, streams_, static_sums_.diff(), bottom[2]->data());
  if (propagate_down[2]) {
    Multiply(queue, false, false, streams_, static_inputs_, sums, static_sums_.diff(),
             params_[2].blob->data(), false, bottom[2]->diff());
  }
}

void RecurrentLayer::WeightGradient(int i, int64_t m, int64_t n, int64_t rows, const float* a,
                                    const float* b) {
  const Param& param = params_[i];
  if (!param.wanted) return;
  Multiply(*context_.queue, true, false, m, n, rows, a, b, *param.has_gradient, param.blob->diff());
}

void RecurrentLayer::BiasGradientOf(int i, int64_t width, const float* diffs) {
  const Param& param = params_[i];
  if (!param.wanted) return;
  Multiply(*context_.queue, false, false, 1, width, ones_.count(), ones_.data(), diffs,
           *param.has_gradient, param.blob->diff());
}

}  // namespace millrace::inline nn
