// Mean average precision of detections, from the rows of DetectionEvaluate layers.
#ifndef MILLRACE_NN_DETECTION_SCORES_H_
#define MILLRACE_NN_DETECTION_SCORES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace millrace::inline nn {

// How the precisions p at the recalls r that falling scores give become one number.
enum class ApVersion {
  k11Point,      // the mean over the recalls 0, 0.1 .. 1 of the largest p at that recall or more
  kMaxIntegral,  // the integral over r of the largest p from the detection before r on, as in SSD
  kIntegral,     // the integral over r of p
};
// By ap_version: "11point", "MaxIntegral", "Integral". Throws FieldError("ap_version", ...).
ApVersion ApVersionOf(const std::string& name);

// Indices of `scores`, best first; equal ones in their order. NaN is the best of all scores.
std::vector<int> BestFirst(std::span<const float> scores);
// Sorts `indices` of `scores` in the same way.
void SortBestFirst(std::span<const float> scores, std::vector<int>* indices);

struct ScoredDetection {
  float score;
  bool right;  // otherwise a false positive
};

// The average precision of detections in any order, of `objects` boxes of ground truth; 0 without
// detections or objects. Of equal scores, the earlier detection counts first.
float AveragePrecision(std::span<const ScoredDetection> detections, int64_t objects,
                       ApVersion version);

struct ClassPrecision {
  int label = 0;
  std::optional<float> precision;  // none: nothing was detected
};

class DetectionScores {
 public:
  static constexpr int64_t kColumns = 5;

  // Takes the values of a top of DetectionEvaluate.
  void Add(std::span<const float> rows);
  void Add(const DetectionScores& other);

  // By label.
  std::vector<ClassPrecision> Classes(ApVersion version) const;
  // The mean over all classes, in which those without detections count as 0; 0 without classes.
  static float Mean(std::span<const ClassPrecision> classes);

 private:
  std::map<int, int64_t> objects_;  // by label
  std::map<int, std::vector<ScoredDetection>> detections_;
};

}  // namespace millrace::inline nn

#endif  // MILLRACE_NN_DETECTION_SCORES_H_
