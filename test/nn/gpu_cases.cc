#include "test/nn/gpu_cases.h"

#include "base/error.h"

namespace millrace::test {

std::string LayerText(const std::string& type, const std::string& param, const std::string& bottom,
                      const std::string& top) {
  return StrCat("layer { name: '", type, "' type: '", type, "' bottom: '", bottom, "' top: '", top,
                "' ", param, " }\n");
}

std::vector<GpuCase>& GpuCases() {
  static std::vector<GpuCase> cases;
  return cases;
}

RegisterGpuCases::RegisterGpuCases(const std::vector<GpuCase>& cases) {
  GpuCases().insert(GpuCases().end(), cases.begin(), cases.end());
}

}  // namespace millrace::test
