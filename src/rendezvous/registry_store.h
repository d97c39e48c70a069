// The registry of a run: a small store of keys with leases, as etcd has them. Implementations: etcd
// (control/etcd), and one in memory for tests.
#ifndef MILLRACE_RENDEZVOUS_REGISTRY_STORE_H_
#define MILLRACE_RENDEZVOUS_REGISTRY_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace millrace::inline rendezvous {

struct RegistryEntry {
  std::string key, value;
  int64_t modified = 0;  // revision of the registry that last changed it, above 0
};

// Holds if the last change of the key was at revision `modified`; 0: there is no such key.
struct RegistryCondition {
  std::string key;
  int64_t modified = 0;
  bool is_prefix = false;  // the same of each key that begins with `key`
};

struct RegistryChange {
  std::string key;
  std::optional<std::string> value = {};  // none: deletes the key
  bool is_leased = true;                  // the value ends with the lease
  bool is_prefix = false;                 // deletes each key that begins with `key`
};

// For one thread at a time. Each function is one exchange with the registry, and blocks for some
// seconds at most. Throws Error in one line if there is no answer; whether the registry has carried
// out the request is then unknown.
class RegistryStore {
 public:
  virtual ~RegistryStore() = default;

  // Makes a lease that ends after `seconds` without KeepAlive. Returns its id, not 0.
  virtual int64_t Grant(int64_t seconds) = 0;
  // Returns false if the lease has ended.
  virtual bool KeepAlive(int64_t lease) = 0;
  // Ends a lease with all its keys.
  virtual void Revoke(int64_t lease) = 0;
  // All keys that begin with `prefix`, ascending: the newest state of the registry.
  virtual std::vector<RegistryEntry> Read(const std::string& prefix) = 0;
  // Makes all changes in one step if all conditions hold and, where a change is leased, `lease`
  // exists. Returns whether it did.
  virtual bool Commit(const std::vector<RegistryCondition>& conditions,
                      const std::vector<RegistryChange>& changes, int64_t lease) = 0;
};

}  // namespace millrace::inline rendezvous

#endif  // MILLRACE_RENDEZVOUS_REGISTRY_STORE_H_
