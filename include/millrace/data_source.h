// Sources of training records. A Data layer's `source: "NAME:PATH"` opens PATH with the source type
// that is registered as NAME; a path without such a name is a database, as in Caffe.
#ifndef MILLRACE_DATA_SOURCE_H_
#define MILLRACE_DATA_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace {

// One record: a key for messages and the bytes of a serialized caffe.Datum. The views are valid as
// long as the source and `owner` exist.
struct RecordView {
  std::string_view key, value;
  int source = 0;  // index among the sources of a layer; set by the layer
  // Keeps the bytes of this record alone; null if they live as long as the source.
  std::shared_ptr<const void> owner = nullptr;
};

// Finds the records of a source by number. One thread uses it.
class MILLRACE_API RecordReader {
 public:
  virtual ~RecordReader() = default;
  // Record `index`, below the source's size(). May block on input. Throws Error naming the source
  // if it cannot be read.
  virtual RecordView At(uint64_t index) = 0;
};

// A fixed sequence of records. Thread-safe.
class MILLRACE_API DataSource {
 public:
  virtual ~DataSource() = default;
  // For messages.
  virtual const std::string& path() const = 0;
  // Number of records, at least one; constant.
  virtual uint64_t size() const = 0;
  // A reader for one thread; it and its records may be used as long as the source exists.
  // `random_access`: the indices will come in any order, otherwise ascending with few restarts.
  virtual std::unique_ptr<RecordReader> MakeReader(bool random_access) = 0;
  // Called after bytes of records were read and before they are used. Throws Error if some of them
  // were not the source's, for example because its file was truncated meanwhile.
  virtual void ThrowIfDamaged() const {}
};

// Source types by name. Thread-safe.
class MILLRACE_API DataSourceRegistry {
 public:
  // Opens `path`. Throws Error in one line if there is no such source.
  using Factory = std::function<std::shared_ptr<DataSource>(const std::string& path)>;

  static DataSourceRegistry& Get();

  // `name`: lower-case letters, digits and '_'. Keeps the first type of a name. A second one, or
  // another name, is an error when plugins are loaded and when a session starts.
  void Register(const std::string& name, Factory factory);
  // Opens "NAME:PATH". Null if `source` does not begin with a registered name and ':'.
  std::shared_ptr<DataSource> Open(const std::string& source) const;
  // Sorted.
  std::vector<std::string> Names() const;

 private:
  DataSourceRegistry();
  ~DataSourceRegistry();
  struct Table;
  const std::unique_ptr<Table> table_;
};

// Registers a source type. Define one at namespace scope.
struct RegisterDataSource {
  RegisterDataSource(const std::string& name, DataSourceRegistry::Factory factory) {
    DataSourceRegistry::Get().Register(name, std::move(factory));
  }
};

}  // namespace millrace

#endif  // MILLRACE_DATA_SOURCE_H_
