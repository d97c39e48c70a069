#include "nn/layers/proposal_layer.h"

#include <algorithm>
#include <cmath>

namespace millrace::inline nn {
namespace {

constexpr int64_t kColumns = 5;

void CheckPositive(int64_t image, const char* what, float value) {
  if (value > 0 && std::isfinite(value)) return;
  throw FieldError("bottom[2]", "image ", image, " has the ", what, " ", value,
                   ", expected a positive number");
}

}  // namespace

void ProposalLayer::SetUp(const Blobs&, const Blobs&) {
  proposals_.emplace(param_.proposal_param());
}

void ProposalLayer::CheckShapes(const Blobs& bottom) const {
  const auto anchors = std::ssize(proposals_->anchors());
  for (int i = 0; i < 2; ++i) {
    const Shape& shape = bottom[i]->shape();
    const int64_t channels = anchors * (i == 0 ? 2 : 4);
    const Shape& first = bottom[0]->shape();
    const bool fits = shape.size() == 4 && shape[1] == channels && shape[0] == first[0] &&
                      shape[2] == first[2] && shape[3] == first[3];
    if (fits) continue;
    throw FieldError(StrCat("bottom[", i, "]"), "has shape ", ShapeText(shape), ", expected ",
                     i == 0 ? "N " : StrCat(first[0], " "), channels,
                     i == 0 ? " H W" : StrCat(" ", first[2], " ", first[3]), ": ", i == 0 ? 2 : 4,
                     " numbers for each of ", anchors, " anchors");
  }
  const int64_t images = bottom[0]->dim(0);
  const Blob& info = *bottom[2];
  if (info.num_axes() < 2 || info.dim(0) != images || info.count(1) < 3) {
    throw FieldError("bottom[2]", "has shape ", ShapeText(info.shape()), ", expected ", images,
                     " rows of at least 3 numbers: height, width, scale");
  }
}

void ProposalLayer::Reshape(const Blobs& bottom, const Blobs& top) {
  CheckShapes(bottom);
  int64_t rows;
  if (shaped_) {
    Find(bottom);
    rows = std::ssize(scores_);
  } else {
    const int64_t of_image =
        std::ssize(proposals_->anchors()) * bottom[0]->dim(2) * bottom[0]->dim(3);
    rows = bottom[0]->dim(0) * std::min(of_image, proposals_->most());
    shaped_ = true;
  }
  top[0]->Reshape({rows, kColumns});
  if (top.size() > 1) top[1]->Reshape({rows});
}

void ProposalLayer::Find(const Blobs& bottom) {
  const auto least = static_cast<float>(param_.proposal_param().min_size());
  const Blob& map = *bottom[0];
  std::vector<float> score_copy, change_copy, info_copy;
  const float* const scores = bottom[0]->DataOnHost(&score_copy);
  const float* const changes = bottom[1]->DataOnHost(&change_copy);
  const float* const infos = bottom[2]->DataOnHost(&info_copy);
  const int64_t numbers = bottom[2]->count(1);
  rows_.clear();
  scores_.clear();
  for (int64_t n = 0; n < map.dim(0); ++n) {
    const float* const info = infos + n * numbers;
    const float width_scale = numbers > 3 ? info[3] : info[2];
    CheckPositive(n, "height", info[0]);
    CheckPositive(n, "width", info[1]);
    CheckPositive(n, "scale", info[2]);
    CheckPositive(n, "scale of the width", width_scale);
    const ProposalInputs inputs = {info[0],
                                   info[1],
                                   least * info[2],
                                   least * width_scale,
                                   map.dim(2),
                                   map.dim(3),
                                   scores + n * map.count(1) + map.count(1) / 2,
                                   changes + n * bottom[1]->count(1)};
    for (const RegionProposal& each : proposals_->Find(inputs)) {
      rows_.push_back(static_cast<float>(n));
      for (const float edge : ValuesOf(each.box)) rows_.push_back(edge);
      scores_.push_back(each.score);
    }
  }
}

void ProposalLayer::Forward(const Blobs&, const Blobs& top) {
  context_.queue->Synchronize();
  top[0]->CopyDataFromHost(rows_.data());
  if (top.size() > 1) top[1]->CopyDataFromHost(scores_.data());
}

namespace {

const RegisterLayer<ProposalLayer> registered("Proposal");

}  // namespace
}  // namespace millrace::inline nn
