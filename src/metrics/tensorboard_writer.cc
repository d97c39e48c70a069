#include "metrics/tensorboard_writer.h"

#include <fcntl.h>
#include <glog/logging.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/files/file.h"
#include "proto/tensorboard.pb.h"

namespace millrace::inline metrics {
namespace {

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "host";
}

// The bytes of an integer, the least significant first.
template <typename Integer>
std::string LittleEndian(Integer value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(value); ++i) bytes += static_cast<char>(value >> (8 * i) & 255);
  return bytes;
}

std::string Checksum(const std::string& bytes) {
  const uint32_t crc = Crc32c(std::as_bytes(std::span(bytes)));
  return LittleEndian<uint32_t>((crc >> 15 | crc << 17) + 0xa282ead8u);
}

void AddValue(const std::string& tag, double value, tensorboard::Event* event) {
  tensorboard::Summary::Value* const to = event->mutable_summary()->add_value();
  to->set_tag(tag);
  to->set_simple_value(static_cast<float>(value));
}

tensorboard::Event EventOf(const MetricsRow& row) {
  tensorboard::Event event;
  event.set_wall_time(UnixSeconds());
  event.set_step(row.iter());
  if (row.has_train()) {
    AddValue("train/loss", row.train().loss(), &event);
    AddValue("train/learning_rate", row.train().learning_rate(), &event);
    if (row.train().has_images_per_second()) {
      AddValue("train/images_per_second", row.train().images_per_second(), &event);
    }
  }
  const std::string net = row.test().net() == 0 ? "test/" : StrCat("test", row.test().net(), "/");
  for (const auto& [name, value] : row.test().outputs()) AddValue(net + name, value, &event);
  return event;
}

}  // namespace

std::string TensorboardRecord(const std::string& event) {
  const std::string length = LittleEndian<uint64_t>(event.size());
  return length + Checksum(length) + event + Checksum(event);
}

TensorboardWriter::TensorboardWriter(const std::string& folder) {
  MakeDirectories(folder);
  const double now = UnixSeconds();
  path_ = StrCat(folder, "/events.out.tfevents.", static_cast<int64_t>(now), ".", HostName(), ".",
                 getpid());
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) throw Error(path_, ": cannot be written: ", ErrnoText(errno));
  tensorboard::Event first;
  first.set_wall_time(now);
  first.set_file_version("brain.Event:2");
  Put(first.SerializeAsString());
}

TensorboardWriter::~TensorboardWriter() { close(fd_); }

void TensorboardWriter::Write(const MetricsRow& row) {
  const tensorboard::Event event = EventOf(row);
  if (!event.has_summary()) return;
  std::lock_guard lock(mutex_);
  Put(event.SerializeAsString());
}

void TensorboardWriter::Put(const std::string& event) {
  const std::string record = TensorboardRecord(event);
  if (failed_ || write(fd_, record.data(), record.size()) == static_cast<ssize_t>(record.size())) {
    return;
  }
  // Readers stop at a damaged record, so there is no use in further ones.
  failed_ = true;
  LOG(ERROR) << path_ << ": events cannot be written: " << ErrnoText(errno)
             << "; training goes on without them";
}

}  // namespace millrace::inline metrics
