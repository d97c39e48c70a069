#include "test/nn/layer_runner.h"
#include "proto/parse.h"

#include <omp.h>

#include <set>

namespace millrace::test {

LayerRunner::LayerRunner(const std::string& prototxt, caffe::Phase phase) {
  omp_set_num_threads(1);  // as in every solver thread
  ParseText(prototxt, "layer.prototxt", &param_, nullptr);
  if (param_.name().empty()) param_.set_name("subject");
  param_.set_phase(phase);
  context_.phase = phase;
  context_.seed = 7;
  context_.layer_id = 3;
  context_.scratch = &scratch_;
  context_.pass = &pass_;
}

void LayerRunner::AddBottom(const Shape& shape, const Array& values, Layout order) {
  blobs_.emplace_back();
  blobs_.back().Reshape(shape, order);
  bottom_.push_back(&blobs_.back());
  values_.push_back(values);
}

void LayerRunner::Create() {
  layer_ = LayerRegistry::Get().Create(param_, context_);
  for (size_t i = 0; i < bottom_.size(); ++i) {
    bottom_[i]->Reshape(bottom_[i]->shape(),
                        layer_->BottomLayout(static_cast<int>(i), *bottom_[i]));
    SetData(values_[i], bottom_[i]);
  }
}

void LayerRunner::SetUp(int tops) {
  Create();
  for (int i = 0; i < tops; ++i) {
    blobs_.emplace_back();
    top_.push_back(&blobs_.back());
  }
  layer_->SetUp(bottom_, top_);
  layer_->Reshape(bottom_, top_);
}

void LayerRunner::SetUpInPlace() {
  Create();
  top_ = {bottom_[0]};
  layer_->SetUp(bottom_, top_);
  layer_->Reshape(bottom_, top_);
}

void LayerRunner::Reshape(const Shape& shape, const Array& values) {
  bottom_[0]->Reshape(shape, bottom_[0]->layout());
  SetData(values, bottom_[0]);
  layer_->Reshape(bottom_, top_);
}

Array LayerRunner::Output() {
  Forward();
  return GetData(top());
}

void LayerRunner::Backward(const Array& top_diff) {
  SetDiff(top_diff, top_[0]);
  std::vector<bool> propagate_down;
  for (size_t i = 0; i < bottom_.size(); ++i) {
    propagate_down.push_back(layer_->AllowBackward(static_cast<int>(i)));
  }
  layer_->Backward(top_, propagate_down, bottom_);
}

std::string LayerRunner::CheckGradients(GradientCheck check) {
  check.seed = Seed();
  return test::CheckGradients(layer_.get(), bottom_, top_, check);
}

std::set<Layout> ForEachLayout(const std::string& prototxt, const Shape& shape, const Array& values,
                               const std::function<void(LayerRunner&)>& body) {
  std::set<std::pair<Layout, Layout>> done;  // layouts of bottom and top
  std::set<Layout> taken;
  for (Layout preferred : kLayouts) {
    if (!Fits(preferred, shape)) continue;
    LayerRunner runner(prototxt);
    runner.context().preferred_layout = preferred;
    runner.AddBottom(shape, values, preferred);
    runner.SetUp();
    const Layout layout = runner.bottom().layout();
    if (!done.insert({layout, runner.top().layout()}).second) continue;
    taken.insert(layout);
    SCOPED_TRACE(StrCat("memory order ", LayoutName(layout), " to ",
                        LayoutName(runner.top().layout()), ", shape ", ShapeText(shape)));
    body(runner);
  }
  return taken;
}

}  // namespace millrace::test
