#include "millrace/data_source.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/registration.h"
#include "base/text/names.h"

namespace millrace {

struct DataSourceRegistry::Table {
  mutable std::mutex mutex;
  std::map<std::string, Factory> factories;
};

DataSourceRegistry::DataSourceRegistry() : table_(std::make_unique<Table>()) {}
DataSourceRegistry::~DataSourceRegistry() = default;

DataSourceRegistry& DataSourceRegistry::Get() {
  static DataSourceRegistry registry;
  return registry;
}

void DataSourceRegistry::Register(const std::string& name, Factory factory) {
  if (!IsName(name)) {
    return ReportBadRegistration(StrCat("data source type '", name, "': expected ", kExpectedName));
  }
  std::lock_guard lock(table_->mutex);
  if (!table_->factories.emplace(name, std::move(factory)).second) {
    ReportSecondRegistration("data source type", name);
  }
}

std::shared_ptr<DataSource> DataSourceRegistry::Open(const std::string& source) const {
  const size_t colon = source.find(':');
  if (colon == std::string::npos) return nullptr;
  Factory factory;
  {
    std::lock_guard lock(table_->mutex);
    const auto found = table_->factories.find(source.substr(0, colon));
    if (found == table_->factories.end()) return nullptr;
    factory = found->second;
  }
  return factory(source.substr(colon + 1));
}

std::vector<std::string> DataSourceRegistry::Names() const {
  std::lock_guard lock(table_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, factory] : table_->factories) names.push_back(name);
  return names;
}

}  // namespace millrace
