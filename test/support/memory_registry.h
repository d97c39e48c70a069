// A registry in memory, with leases that end by an injected time, and connections that fail.
#ifndef MILLRACE_TEST_SUPPORT_MEMORY_REGISTRY_H_
#define MILLRACE_TEST_SUPPORT_MEMORY_REGISTRY_H_

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/registry_store.h"

namespace millrace::test {

struct MemoryRegistry {
  struct Value {
    std::string text;
    int64_t modified, lease;
  };
  struct Lease {
    int64_t length_ns, ends_ns;
  };
  std::map<std::string, Value> keys;
  std::map<int64_t, Lease> leases;
  int64_t revision = 1, last_lease = 0;

  // Ends the leases whose time has come.
  void Advance(int64_t now_ns) {
    now_ns_ = now_ns;
    std::erase_if(leases, [&](const auto& each) { return each.second.ends_ns <= now_ns; });
    if (std::erase_if(keys, [&](const auto& each) {
          return each.second.lease != 0 && leases.count(each.second.lease) == 0;
        }) > 0) {
      ++revision;
    }
  }
  int64_t now_ns() const { return now_ns_; }

 private:
  int64_t now_ns_ = 0;
};

// What happens to a request.
enum class Fate { kAnswered, kLost, kAnswerLost };

class MemoryStore : public RegistryStore {
  template <typename Body>
  auto Ask(Body body) {
    const Fate fate = fate_ ? fate_() : Fate::kAnswered;
    if (fate == Fate::kLost) throw Error("registry: no answer");
    auto result = body();
    if (fate == Fate::kAnswerLost) throw Error("registry: the answer is lost");
    return result;
  }

 public:
  // `fate` decides about each request. `registry` outlives this object.
  explicit MemoryStore(MemoryRegistry* registry, std::function<Fate()> fate = nullptr)
      : registry_(*registry), fate_(std::move(fate)) {}

  int64_t Grant(int64_t seconds) override {
    return Ask([&] {
      const int64_t length = seconds * 1'000'000'000;
      registry_.leases[++registry_.last_lease] = {length, registry_.now_ns() + length};
      return registry_.last_lease;
    });
  }
  bool KeepAlive(int64_t lease) override {
    return Ask([&] {
      const auto found = registry_.leases.find(lease);
      if (found == registry_.leases.end()) return false;
      found->second.ends_ns = registry_.now_ns() + found->second.length_ns;
      return true;
    });
  }
  void Revoke(int64_t lease) override {
    Ask([&] {
      registry_.leases.erase(lease);
      registry_.Advance(registry_.now_ns());
      return true;
    });
  }
  std::vector<RegistryEntry> Read(const std::string& prefix) override {
    return Ask([&] {
      std::vector<RegistryEntry> entries;
      for (const auto& [key, value] : registry_.keys) {
        if (key.starts_with(prefix)) entries.push_back({key, value.text, value.modified});
      }
      return entries;
    });
  }
  bool Commit(const std::vector<RegistryCondition>& conditions,
              const std::vector<RegistryChange>& changes, int64_t lease) override {
    return Ask([&] { return Apply(conditions, changes, lease); });
  }

 private:
  bool Apply(const std::vector<RegistryCondition>& conditions,
             const std::vector<RegistryChange>& changes, int64_t lease) {
    for (const RegistryCondition& condition : conditions) {
      if (!Holds(condition)) return false;
    }
    for (const RegistryChange& change : changes) {
      if (change.value && change.is_leased && registry_.leases.count(lease) == 0) return false;
    }
    ++registry_.revision;
    for (const RegistryChange& change : changes) {
      if (change.value) {
        registry_.keys[change.key] = {*change.value, registry_.revision,
                                      change.is_leased ? lease : 0};
      } else {
        std::erase_if(registry_.keys, [&](const auto& each) {
          return change.is_prefix ? each.first.starts_with(change.key) : each.first == change.key;
        });
      }
    }
    return true;
  }
  bool Holds(const RegistryCondition& condition) const {
    bool found = false;
    for (const auto& [key, value] : registry_.keys) {
      if (condition.is_prefix ? !key.starts_with(condition.key) : key != condition.key) continue;
      found = true;
      if (value.modified != condition.modified) return false;
    }
    return found || condition.modified == 0;
  }

  MemoryRegistry& registry_;
  const std::function<Fate()> fate_;
};

}  // namespace millrace::test

#endif  // MILLRACE_TEST_SUPPORT_MEMORY_REGISTRY_H_
