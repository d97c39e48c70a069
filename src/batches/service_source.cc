// The source type "batch" of Data layers: the batches of a minibatch service.
#include <utility>

#include "base/error.h"
#include "batches/batch_client.h"
#include "batches/service_address.h"
#include "data/batch_source.h"

namespace millrace::inline batches {
namespace {

class ServiceReader : public RecordReader {
 public:
  explicit ServiceReader(std::shared_ptr<BatchClient> client) : client_(std::move(client)) {}

  RecordView At(uint64_t index) override {
    BatchClient::View view = client_->Get(index);
    return {"", view.values, 0, std::move(view.owner)};
  }

 private:
  const std::shared_ptr<BatchClient> client_;
};

class ServiceSource : public BatchSource {
 public:
  explicit ServiceSource(const ServiceAddress& address)
      : path_(address.text), client_(BatchClient::Connect(address)) {
    for (const batch_api::Top& top : client_->welcome().top()) {
      shapes_.emplace_back(top.dim().begin(), top.dim().end());
    }
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return uint64_t{1} << 30; }  // without end
  std::unique_ptr<RecordReader> MakeReader(bool) override {
    return std::make_unique<ServiceReader>(client_);
  }
  const std::vector<Shape>& shapes() const override { return shapes_; }
  uint64_t batch_size() const override { return client_->welcome().batch_size(); }
  const std::string& transform() const override { return client_->welcome().transform(); }
  void Begin(const std::string& layer, uint64_t id, bool resumed) override {
    client_->Begin(layer, id, resumed);
  }
  void MarkConsumed(uint64_t number) override { client_->MarkConsumed(number); }

 private:
  const std::string path_;
  const std::shared_ptr<BatchClient> client_;
  std::vector<Shape> shapes_;
};

const RegisterDataSource service_source("batch", [](const std::string& path) {
  return std::make_shared<ServiceSource>(ParseServiceAddress(path));
});

}  // namespace
}  // namespace millrace::inline batches
