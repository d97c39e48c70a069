// Opens each file once per process: users of a file share one object, which is destroyed after the
// last of them.
#ifndef MILLRACE_DATA_OPEN_ONCE_H_
#define MILLRACE_DATA_OPEN_ONCE_H_

#include <sys/stat.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace millrace::inline data {

// A file, whatever its path.
using FileIdentity = std::pair<dev_t, ino_t>;
inline FileIdentity IdentityOf(const struct stat& status) { return {status.st_dev, status.st_ino}; }

// Objects by a key that identifies their file. Thread-safe. Make one with static storage that is
// never destroyed: objects may be in static objects.
template <typename Object, typename Key = FileIdentity>
class OpenOnce {
 public:
  // Returns the object with this key. If there is none, `make` returns a new one,
  // which the caller owns; meanwhile other callers wait. They also wait while the last user of an
  // object destroys it.
  template <typename Make>
  std::shared_ptr<Object> Open(const Key& key, Make make) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto found = open_.find(key);
      if (found == open_.end()) break;
      if (auto object = found->second.lock()) return object;
      closed_.wait(lock);
    }
    std::shared_ptr<Object> object(make(), [this, key](Object* last) {
      std::unique_lock lock(mutex_);
      delete last;
      open_.erase(key);
      closed_.notify_all();
    });
    open_[key] = object;
    return object;
  }

 private:
  std::mutex mutex_;
  std::condition_variable closed_;
  std::map<Key, std::weak_ptr<Object>> open_;
};

}  // namespace millrace::inline data

#endif  // MILLRACE_DATA_OPEN_ONCE_H_
