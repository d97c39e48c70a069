// Error texts of transports that refuse their settings.
#ifndef MILLRACE_TEST_TRANSPORT_CREATE_ERROR_H_
#define MILLRACE_TEST_TRANSPORT_CREATE_ERROR_H_

#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "millrace/transport_registry.h"
#include "test/support/support.h"

namespace millrace::test {

// The error of creating this transport; fails the test unless it is one line.
inline std::string CreateError(const TransportConfig& config) {
  const std::string error = ErrorOf([&] { TransportRegistry::Get().Create(config); });
  EXPECT_EQ(error.find('\n'), std::string::npos);
  return error;
}

using OptionTexts = std::map<std::string, std::string>;

// The error for node 0 with these options; options that are missing are taken from `usual`. Fails
// the test unless the text begins with the transport's name.
inline std::string OptionError(const std::string& transport, OptionTexts options,
                               const OptionTexts& usual) {
  options.insert(usual.begin(), usual.end());
  const std::string error = CreateError({transport, 0, std::move(options)});
  EXPECT_EQ(error.rfind(StrCat("transport ", transport, ": "), 0), 0u) << error;
  return error;
}

}  // namespace millrace::test

#endif  // MILLRACE_TEST_TRANSPORT_CREATE_ERROR_H_
