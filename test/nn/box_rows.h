// Layers that make rows of boxes from constants.
#ifndef MILLRACE_TEST_NN_BOX_ROWS_H_
#define MILLRACE_TEST_NN_BOX_ROWS_H_

#include <string>
#include <vector>

#include "base/error.h"

namespace millrace::test {

// Layers with the top `top` {1, 1, 1, row.size()}. `rule`: an include rule, or "".
inline std::string RowText(const std::string& top, const std::vector<double>& row,
                           const std::string& rule = "") {
  std::string tops, bottoms, fillers;
  for (size_t i = 0; i < row.size(); ++i) {
    tops += StrCat(" top: '", top, i, "'");
    bottoms += StrCat(" bottom: '", top, i, "'");
    fillers += StrCat(" data_filler { value: ", row[i], " }");
  }
  return StrCat("layer { name: '", top, " columns' type: 'DummyData'", tops, " ", rule,
                " dummy_data_param { shape { dim: 1 dim: 1 dim: 1 dim: 1 }", fillers, " } }\n",
                "layer { name: '", top, "' type: 'Concat'", bottoms, " top: '", top, "' ", rule,
                " concat_param { axis: 3 } }\n");
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_NN_BOX_ROWS_H_
