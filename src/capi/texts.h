// Texts that a handle of the C API has given out.
#ifndef MILLRACE_CAPI_TEXTS_H_
#define MILLRACE_CAPI_TEXTS_H_

#include <mutex>
#include <set>
#include <string>

namespace millrace::inline capi {

// Thread-safe. Equal texts are stored once, so that a caller which asks for the same again and
// again takes no further memory.
class Texts {
 public:
  // Valid as long as this object.
  const char* Keep(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return texts_.insert(text).first->c_str();
  }

 private:
  std::mutex mutex_;
  std::set<std::string> texts_;
};

}  // namespace millrace::inline capi

#endif  // MILLRACE_CAPI_TEXTS_H_
