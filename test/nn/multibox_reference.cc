#include "test/nn/multibox_reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace millrace::test {
namespace {

using caffe::MultiBoxLossParameter;
using caffe::PriorBoxParameter;
using Four = std::array<double, 4>;

struct Object {
  int label;
  Four box;
};

double Area(const Four& b) {
  return b[2] < b[0] || b[3] < b[1] ? 0 : (b[2] - b[0]) * (b[3] - b[1]);
}

double Jaccard(const Four& a, const Four& b) {
  const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]);
  const double h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  if (w <= 0 || h <= 0) return 0;
  return w * h / (Area(a) + Area(b) - w * h);
}

bool Outside(const Four& b) {
  return std::any_of(b.begin(), b.end(), [](double edge) { return edge < 0 || edge > 1; });
}

class Plain {
 public:
  Plain(const caffe::LayerParameter& param, const MultiBoxInputs& in)
      : p_(param.multibox_loss_param()),
        loss_(param.loss_param()),
        in_(in),
        classes_(static_cast<int>(p_.num_classes())),
        location_classes_(p_.share_location() ? 1 : classes_) {
    for (size_t i = 0; i < in.truth.size() / 8; ++i) {
      const double* row = &in.truth[8 * i];
      if (row[0] == -1 || (row[7] != 0 && !p_.use_difficult_gt())) continue;
      objects_[static_cast<int>(row[0])].push_back(
          {static_cast<int>(row[1]), {row[3], row[4], row[5], row[6]}});
    }
    result_.location_diff.assign(in.locations.size(), 0);
    result_.confidence_diff.assign(in.confidences.size(), 0);
  }

  MultiBoxResult Compute() {
    for (int n = 0; n < in_.images; ++n) Image(n);
    double z = 1;
    if (loss_.normalization() == caffe::LossParameter::FULL) z = in_.images * in_.priors;
    if (loss_.normalization() == caffe::LossParameter::BATCH_SIZE) z = in_.images;
    if (loss_.normalization() == caffe::LossParameter::VALID) z = std::max(1, positives_);
    result_.loss /= z;
    for (double& d : result_.location_diff) d /= z;
    for (double& d : result_.confidence_diff) d /= z;
    return result_;
  }

 private:
  Four PriorBox(int i) const {
    const double* v = &in_.prior_values[4 * i];
    return {v[0], v[1], v[2], v[3]};
  }
  Four Variance(int i) const {
    const double* v = &in_.prior_values[4 * (in_.priors + i)];
    return {v[0], v[1], v[2], v[3]};
  }
  Four Code(int n, int i, int c) const {
    const double* v = &in_.locations[LocationAt(n, i, c)];
    return {v[0], v[1], v[2], v[3]};
  }
  size_t LocationAt(int n, int i, int c) const {
    return 4 * ((static_cast<size_t>(n) * in_.priors + i) * location_classes_ + c);
  }
  size_t ConfidenceAt(int n, int i) const {
    return (static_cast<size_t>(n) * in_.priors + i) * classes_;
  }

  Four Encoded(int i, const Four& b) const {
    const Four q = PriorBox(i);
    const Four v = p_.encode_variance_in_target() ? Four{1, 1, 1, 1} : Variance(i);
    const double w = q[2] - q[0], h = q[3] - q[1];
    switch (p_.code_type()) {
      case PriorBoxParameter::CORNER:
        return {(b[0] - q[0]) / v[0], (b[1] - q[1]) / v[1], (b[2] - q[2]) / v[2],
                (b[3] - q[3]) / v[3]};
      case PriorBoxParameter::CORNER_SIZE:
        return {(b[0] - q[0]) / w / v[0], (b[1] - q[1]) / h / v[1], (b[2] - q[2]) / w / v[2],
                (b[3] - q[3]) / h / v[3]};
      default:
        return {((b[0] + b[2]) - (q[0] + q[2])) / 2 / w / v[0],
                ((b[1] + b[3]) - (q[1] + q[3])) / 2 / h / v[1], std::log((b[2] - b[0]) / w) / v[2],
                std::log((b[3] - b[1]) / h) / v[3]};
    }
  }
  Four Decoded(int i, const Four& code) const {
    const Four q = PriorBox(i);
    const Four v = p_.encode_variance_in_target() ? Four{1, 1, 1, 1} : Variance(i);
    const double w = q[2] - q[0], h = q[3] - q[1];
    if (p_.code_type() == PriorBoxParameter::CENTER_SIZE) {
      const double x = (q[0] + q[2]) / 2 + v[0] * code[0] * w;
      const double y = (q[1] + q[3]) / 2 + v[1] * code[1] * h;
      const double bw = w * std::exp(v[2] * code[2]), bh = h * std::exp(v[3] * code[3]);
      return {x - bw / 2, y - bh / 2, x + bw / 2, y + bh / 2};
    }
    const bool corner = p_.code_type() == PriorBoxParameter::CORNER;
    const double sw = corner ? 1 : w, sh = corner ? 1 : h;
    return {q[0] + v[0] * code[0] * sw, q[1] + v[1] * code[1] * sh, q[2] + v[2] * code[2] * sw,
            q[3] + v[3] * code[3] * sh};
  }

  // The index of each box's object; -1, or -2 to be ignored. Sets each box's largest overlap.
  std::vector<int> Matched(const std::vector<Object>& objects, const std::vector<Four>& boxes,
                           int label, std::vector<double>* largest) const {
    std::vector<int> match(boxes.size(), -1);
    largest->assign(boxes.size(), 0);
    std::set<size_t> open;
    for (size_t j = 0; j < objects.size(); ++j) {
      if (label < 0 || objects[j].label == label) open.insert(j);
    }
    const std::set<size_t> all = open;
    if (all.empty()) return match;
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (p_.ignore_cross_boundary_bbox() && Outside(boxes[i])) {
        match[i] = -2;
        continue;
      }
      for (const size_t j : all) {
        (*largest)[i] = std::max((*largest)[i], Jaccard(boxes[i], objects[j].box));
      }
    }
    while (!open.empty()) {
      double most = 1e-6;
      int box = -1;
      size_t object = 0;
      for (size_t i = 0; i < boxes.size(); ++i) {
        for (const size_t j : open) {
          const double overlap = Jaccard(boxes[i], objects[j].box);
          if (match[i] != -1 || overlap <= most) continue;
          most = overlap;
          box = static_cast<int>(i);
          object = j;
        }
      }
      if (box < 0) break;
      match[box] = static_cast<int>(object);
      open.erase(object);
    }
    if (p_.match_type() == MultiBoxLossParameter::BIPARTITE) return match;
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (match[i] != -1) continue;
      double most = std::max(1e-6, double{p_.overlap_threshold()} - 1e-12);
      for (const size_t j : all) {
        const double overlap = Jaccard(boxes[i], objects[j].box);
        if (overlap <= most) continue;
        most = overlap;
        match[i] = static_cast<int>(j);
      }
    }
    return match;
  }

  int TargetOf(const Object& object) const {
    return p_.map_object_to_agnostic() ? static_cast<int>(p_.background_label_id()) + 1
                                       : object.label;
  }

  double Confidence(int n, int i, const std::set<int>& targets, int last, Array* gradient) const {
    const double* x = &in_.confidences[ConfidenceAt(n, i)];
    double loss = 0;
    if (gradient != nullptr) gradient->assign(classes_, 0);
    if (p_.conf_loss_type() == MultiBoxLossParameter::SOFTMAX) {
      double sum = 0;
      for (int c = 0; c < classes_; ++c) sum += std::exp(x[c]);
      for (int c = 0; c < classes_ && gradient != nullptr; ++c) {
        (*gradient)[c] = std::exp(x[c]) / sum - (c == last ? 1 : 0);
      }
      return std::log(sum) - x[last];
    }
    for (int c = 0; c < classes_; ++c) {
      const double sigmoid = 1 / (1 + std::exp(-x[c]));
      const bool wanted = targets.count(c) > 0;
      loss -= std::log(wanted ? sigmoid : 1 - sigmoid);
      if (gradient != nullptr) (*gradient)[c] = sigmoid - (wanted ? 1 : 0);
    }
    return loss;
  }

  Four Differences(int n, int i, int c, const Object& object) const {
    const Four target = Encoded(i, object.box), code = Code(n, i, c), v = Variance(i);
    const Four matched = p_.use_prior_for_matching() ? PriorBox(i) : Decoded(i, code);
    Four d;
    for (int k = 0; k < 4; ++k) {
      d[k] = code[k] - target[k];
      if (p_.bp_inside() && (matched[k] < 0 || matched[k] > 1)) d[k] = 0;
      if (p_.encode_variance_in_target()) d[k] /= v[k];
    }
    return d;
  }
  bool Smooth() const { return p_.loc_loss_type() == MultiBoxLossParameter::SMOOTH_L1; }
  double Location(const Four& d) const {
    double sum = 0;
    for (const double x : d) {
      sum += Smooth() && std::abs(x) >= 1 ? std::abs(x) - 0.5 : x * x / 2;
    }
    return sum;
  }

  // The priors that are chosen by their loss, worst first.
  std::vector<int> Mined(int n, const std::vector<Object>& objects, const std::vector<int>& match,
                         const std::vector<double>& largest) const {
    const bool hard = p_.mining_type() == MultiBoxLossParameter::HARD_EXAMPLE;
    std::vector<std::pair<double, int>> left;
    int positives = 0;
    for (int i = 0; i < in_.priors; ++i) {
      positives += match[i] >= 0;
      if (!hard && (match[i] != -1 || largest[i] >= double{p_.neg_overlap()})) continue;
      const int target =
          match[i] >= 0 ? TargetOf(objects[match[i]]) : static_cast<int>(p_.background_label_id());
      double loss = Confidence(n, i, {target}, target, nullptr);
      if (hard && match[i] >= 0) loss += Location(Differences(n, i, 0, objects[match[i]]));
      left.emplace_back(loss, i);
    }
    std::sort(left.rbegin(), left.rend());
    if (p_.has_nms_param() && p_.nms_param().nms_threshold() > 0) {
      std::vector<std::pair<double, int>> kept;
      for (size_t k = 0; k < left.size() && static_cast<int>(k) < p_.nms_param().top_k(); ++k) {
        const auto box = [&](int i) {
          return p_.use_prior_for_nms() ? PriorBox(i) : Decoded(i, Code(n, i, 0));
        };
        bool stays = Area(box(left[k].second)) >= 1e-5;
        for (const auto& each : kept) {
          stays &= Jaccard(box(left[k].second), box(each.second)) <=
                   double{p_.nms_param().nms_threshold()};
        }
        if (stays) kept.push_back(left[k]);
      }
      left = kept;
    }
    const int most =
        hard ? p_.sample_size() : static_cast<int>(positives * double{p_.neg_pos_ratio()});
    std::vector<int> chosen;
    for (int k = 0; k < std::min<int>(most, static_cast<int>(left.size())); ++k) {
      chosen.push_back(left[k].second);
    }
    return chosen;
  }

  void Count(int n, int i, const std::set<int>& targets, int last) {
    Array gradient;
    result_.loss += Confidence(n, i, targets, last, &gradient);
    for (int c = 0; c < classes_; ++c) {
      result_.confidence_diff[ConfidenceAt(n, i) + c] = gradient[c];
    }
  }

  void Image(int n) {
    const std::vector<Object>& objects = objects_[n];
    const int background = static_cast<int>(p_.background_label_id());
    const bool mines = p_.mining_type() != MultiBoxLossParameter::NONE;
    std::vector<std::set<int>> targets(in_.priors);
    std::vector<int> last(in_.priors, background);
    std::set<int> counted;
    for (int c = 0; c < location_classes_ && !objects.empty(); ++c) {
      if (!p_.share_location() && c == background) continue;
      std::vector<Four> boxes;
      for (int i = 0; i < in_.priors; ++i) {
        boxes.push_back(p_.use_prior_for_matching() ? PriorBox(i) : Decoded(i, Code(n, i, c)));
      }
      std::vector<double> largest;
      const bool by_class = !p_.share_location() && !p_.use_prior_for_matching();
      std::vector<int> match = Matched(objects, boxes, by_class ? c : -1, &largest);
      if (!p_.share_location()) {
        for (int& object : match) {
          if (object >= 0 && objects[object].label != c) object = -1;
        }
      }
      if (mines) {
        const std::vector<int> chosen = Mined(n, objects, match, largest);
        const std::set<int> in(chosen.begin(), chosen.end());
        for (int i = 0; i < in_.priors; ++i) {
          if (match[i] == -1 && in.count(i)) counted.insert(i);
          if (match[i] >= 0 && p_.mining_type() == MultiBoxLossParameter::HARD_EXAMPLE &&
              !in.count(i)) {
            match[i] = -2;
          }
        }
      }
      for (int i = 0; i < in_.priors; ++i) {
        if (match[i] < 0) continue;
        const Object& object = objects[match[i]];
        const Four d = Differences(n, i, c, object);
        result_.loss += double{p_.loc_weight()} * Location(d);
        for (int k = 0; k < 4; ++k) {
          const double slope = Smooth() ? std::clamp(d[k], -1.0, 1.0) : d[k];
          result_.location_diff[LocationAt(n, i, c) + k] = double{p_.loc_weight()} * slope;
        }
        ++positives_;
        targets[i].insert(TargetOf(object));
        last[i] = TargetOf(object);
        counted.insert(i);
      }
    }
    for (int i = 0; i < in_.priors; ++i) {
      if (mines && !counted.count(i)) continue;
      if (mines && targets[i].empty()) targets[i].insert(background);
      Count(n, i, targets[i], last[i]);
    }
  }

  const MultiBoxLossParameter& p_;
  const caffe::LossParameter& loss_;
  const MultiBoxInputs& in_;
  const int classes_, location_classes_;
  std::map<int, std::vector<Object>> objects_;
  int positives_ = 0;
  MultiBoxResult result_;
};

}  // namespace

MultiBoxResult PlainMultiBoxLoss(const caffe::LayerParameter& param, const MultiBoxInputs& inputs) {
  return Plain(param, inputs).Compute();
}

}  // namespace millrace::test
