// Data sources as tables of functions.
#include "millrace/data_source.h"
#include "capi/arrays.h"
#include "capi/tables.h"
#include "millrace/caffe.pb.h"

namespace millrace::inline capi {

std::string DatumOf(const std::string& where, const millrace_record& record) {
  if (record.channels < 1 || record.height < 1 || record.width < 1) {
    throw Error(where, ": channels, height and width are ", record.channels, ", ", record.height,
                " and ", record.width, ", expected 1 or more");
  }
  if ((record.floats == nullptr) == (record.bytes == nullptr)) {
    throw Error(where, ": expected floats or bytes");
  }
  const double values = 1.0 * record.channels * record.height * record.width;
  if (values > (1 << 28)) {
    throw Error(where, ": ", values, " values, expected at most ", 1 << 28);
  }
  const auto count = static_cast<int>(values);
  caffe::Datum datum;
  datum.set_channels(record.channels);
  datum.set_height(record.height);
  datum.set_width(record.width);
  datum.set_label(record.label);
  if (record.bytes != nullptr) {
    datum.set_data(record.bytes, static_cast<size_t>(count));
  } else {
    datum.mutable_float_data()->Add(record.floats, record.floats + count);
  }
  return datum.SerializeAsString();
}

namespace {

struct SourceTable {
  SourceTable(const char* function, const millrace_source_type* given)
      : type(Taken(function, "millrace_source_type", given)),
        name(CheckedName(function, type.name)) {
    CheckFunction(function, "open", type.open);
    CheckFunction(function, "read", type.read);
  }
  const millrace_source_type type;
  const std::string name;
};

class TableSource : public DataSource {
 public:
  TableSource(std::shared_ptr<const SourceTable> table, const std::string& path)
      : table_(std::move(table)), path_(path) {
    const millrace_source_type& type = table_->type;
    void* source = nullptr;
    Callback("data source " + table_->name + ": open", type.open, type.user, path_.c_str(), &source,
             &size_);
    if (type.close != nullptr) source_ = State(source, type.close);
    if (type.close == nullptr) source_ = State(source, &DestroyNothing);
    if (size_ == 0) throw Error(path_, ": no records, expected at least one");
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  std::unique_ptr<RecordReader> MakeReader(bool random_access) override {
    return std::make_unique<Reader>(*this, random_access);
  }

 private:
  class Reader : public RecordReader {
   public:
    Reader(const TableSource& source, bool random_access) : source_(source) {
      const millrace_source_type& type = source.table_->type;
      void* reader = source.source_.get();
      if (type.open_reader == nullptr) {
        reader_ = State(reader, &DestroyNothing);
        return;
      }
      Callback("data source " + source.table_->name + ": open_reader", type.open_reader,
               source.source_.get(), random_access ? 1 : 0, &reader);
      reader_ = State(reader, type.close_reader == nullptr ? &DestroyNothing : type.close_reader);
    }

    RecordView At(uint64_t index) override {
      millrace_record record{};
      record.size = sizeof(record);
      Callback("data source " + source_.table_->name + ": read", source_.table_->type.read,
               reader_.get(), index, &record);
      // Keeps key and datum.
      struct Stored {
        std::string key, value;
      };
      auto stored = std::make_shared<Stored>();
      stored->key = record.key == nullptr ? std::to_string(index) : record.key;
      stored->value = DatumOf(StrCat(source_.path_, ": record ", stored->key), record);
      return {.key = stored->key, .value = stored->value, .owner = stored};
    }

   private:
    const TableSource& source_;
    State reader_{nullptr, &DestroyNothing};
  };

  const std::shared_ptr<const SourceTable> table_;
  const std::string path_;
  uint64_t size_ = 0;
  State source_{nullptr, &DestroyNothing};
};

}  // namespace
}  // namespace millrace::inline capi

int millrace_register_source(const millrace_source_type* type) {
  const char* const function = __func__;
  return millrace::Call(function, [&] {
    const auto table = std::make_shared<const millrace::SourceTable>(function, type);
    millrace::DataSourceRegistry::Get().Register(table->name, [table](const std::string& path) {
      return std::make_shared<millrace::TableSource>(table, path);
    });
  });
}
